import RealtimeEncoding
package import RealtimeCore

/// The server's side of the opening handshake (RFC 6455 section 4.2).
package enum ServerHandshake {
    /// What a request is to a server.
    package enum Check: Sendable {
        /// A request like any other.
        case notAnUpgrade
        case valid(Offer)
        /// A WebSocket is asked for in a way that cannot be accepted: answer with this.
        case refused(HTTPResponse)
    }

    /// What a client asks for.
    package struct Offer: Sendable, Hashable {
        package var key: String
        package var subprotocols: [String]
    }

    package static func check(_ request: HTTPRequestHead, isHTTP11: Bool = true) -> Check {
        let headers = request.headers
        guard headers.contains("Upgrade", token: "websocket") else { return .notAnUpgrade }
        guard request.method == "GET" else { return Self.refuse(405, "A WebSocket is asked for with GET.", ["Allow": "GET"]) }
        guard isHTTP11 else { return Self.refuse(400, "A WebSocket is asked for with HTTP/1.1.") }
        guard headers.contains("Connection", token: "upgrade") else {
            return Self.refuse(400, "A request for a WebSocket has to have Connection: Upgrade.")
        }
        guard headers.values("Sec-WebSocket-Version") == ["13"] else {
            return Self.refuse(
                426, "Version 13 of the WebSocket protocol is spoken here.", ["Upgrade": "websocket", "Sec-WebSocket-Version": "13"])
        }
        let keys = headers.values("Sec-WebSocket-Key")
        guard keys.count == 1, HandshakeKey.isValid(keys[0]) else {
            return Self.refuse(400, "Sec-WebSocket-Key has to be there once, with Base64 of 16 bytes.")
        }
        let offered = headers.values("Sec-WebSocket-Protocol").flatMap { value in
            value.utf8.split(separator: UInt8(ascii: ",")).map { HTTPCharacters.text(HTTPCharacters.trimmed(Array($0)[...])) }
        }
        guard offered.allSatisfy({ HTTPCharacters.isToken($0.utf8) }) else {
            return Self.refuse(400, "Sec-WebSocket-Protocol has something that is no subprotocol.")
        }
        return .valid(Offer(key: keys[0], subprotocols: offered))
    }

    /// The `101`. No extension is ever agreed on.
    ///
    /// - Throws: when the subprotocol was not offered: the client would have to end the connection.
    package static func accept(_ offer: Offer, subprotocol: String?) throws(TransportError) -> HTTPResponseHead {
        var headers: HTTPHeaders = [
            "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": HandshakeKey.accept(offer.key),
        ]
        if let subprotocol {
            guard offer.subprotocols.contains(subprotocol) else {
                throw TransportError(.unsupported, "The subprotocol \(subprotocol) was chosen, and the client has not offered it.")
            }
            headers.add("Sec-WebSocket-Protocol", subprotocol)
        }
        return HTTPResponseHead(status: 101, headers: headers)
    }

    private static func refuse(_ status: Int, _ text: String, _ fields: HTTPHeaders = [:]) -> Check {
        var headers = fields
        headers.add("Content-Type", "text/plain; charset=utf-8")
        return .refused(HTTPResponse(status: status, headers: headers, text: text))
    }
}
