package import RealtimeCore

/// The server's side of the opening handshake (RFC 6455 section 4.2).
package enum ServerHandshake {
    /// The result of checking a request.
    package enum Check: Sendable {
        /// The request is not a WebSocket request.
        case notAnUpgrade
        case valid(Offer)
        /// The WebSocket request is invalid. Send this response.
        case rejected(HTTPResponse)
    }

    /// The parameters of a valid request.
    package struct Offer: Sendable, Hashable {
        package var key: String
        package var subprotocols: [String]
    }

    /// Checks whether a request is a WebSocket request, and validates it.
    ///
    /// An `Upgrade` that `Connection` doesn't name, or of another method than GET, is ignored: it belongs to another connection on the way (RFC 9110
    /// section 7.8), or isn't one of a WebSocket.
    package static func check(_ request: HTTPRequestHead, isHTTP11: Bool = true) -> Check {
        let headers = request.headers
        guard request.method == "GET", headers.contains("Upgrade", token: "websocket"), headers.contains("Connection", token: "upgrade")
        else {
            return .notAnUpgrade
        }
        guard isHTTP11 else { return Self.reject(400, "Invalid HTTP version; a WebSocket request uses HTTP/1.1.") }
        guard headers.values("Sec-WebSocket-Version") == ["13"] else {
            return Self.reject(
                426, "Unsupported Sec-WebSocket-Version; expected 13.", ["Upgrade": "websocket", "Sec-WebSocket-Version": "13"])
        }
        let keys = headers.values("Sec-WebSocket-Key")
        guard keys.count == 1, HandshakeKey.isValid(keys[0]) else {
            return Self.reject(400, "Sec-WebSocket-Key must appear exactly once and be 16 Base64-encoded bytes.")
        }
        let offered = headers.values("Sec-WebSocket-Protocol").flatMap { value in
            value.utf8.split(separator: UInt8(ascii: ",")).map { HTTPCharacters.text(HTTPCharacters.trimmed(Array($0)[...])) }
        }
        guard offered.allSatisfy({ HTTPCharacters.isToken($0.utf8) }) else {
            return Self.reject(400, "Invalid Sec-WebSocket-Protocol; expected a comma-separated list of names.")
        }
        return .valid(Offer(key: keys[0], subprotocols: offered))
    }

    /// Returns the head of the response with the status 101. Extensions are never negotiated.
    ///
    /// - Parameters:
    ///   - offer: The parameters of the request.
    ///   - subprotocol: The selected subprotocol, or `nil`.
    ///   - fields: Header fields to add.
    /// - Throws: `TransportError` with the code `unsupported` if the client did not offer the subprotocol, because it would close the
    ///   connection, or if a field is invalid or belongs to the handshake.
    package static func accept(
        _ offer: Offer, subprotocol: String?, headers fields: HTTPHeaders = [:]
    ) throws(TransportError) -> HTTPResponseHead {
        if let error = fields.upgradeResponseError { throw error }
        var headers: HTTPHeaders = [
            "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": HandshakeKey.accept(offer.key),
        ]
        if let subprotocol {
            guard offer.subprotocols.contains(subprotocol) else {
                throw TransportError(.unsupported, "The client did not offer the subprotocol \(subprotocol).")
            }
            headers.add("Sec-WebSocket-Protocol", subprotocol)
        }
        for field in fields { headers.add(field.name, field.value) }
        return HTTPResponseHead(status: 101, headers: headers)
    }

    private static func reject(_ status: Int, _ text: String, _ fields: HTTPHeaders = [:]) -> Check {
        var headers = fields
        headers.add("Content-Type", "text/plain; charset=utf-8")
        return .rejected(HTTPResponse(status: status, headers: headers, text: text))
    }
}
