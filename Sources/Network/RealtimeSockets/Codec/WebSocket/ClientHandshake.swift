package import RealtimeCore

/// The client's side of the opening handshake: what is sent, and what the answer has to be (RFC 6455 section 4.1).
package struct ClientHandshake: Sendable {
    /// As much of a refusal's body as is looked at.
    private static let refusalBytes = 512

    private let accept: String
    private let subprotocols: [String]
    private var decoder = HTTPResponseDecoder(method: "GET")
    private var refusal: HTTPResponse?

    /// Adds the request to `output`.
    ///
    /// - Parameter nonce: 16 bytes at random.
    /// - Throws: when the request has fields or subprotocols that cannot be sent.
    package init(_ request: WebSocketRequest, nonce: [UInt8], output: inout [UInt8]) throws(TransportError) {
        let key = HandshakeKey.encode(nonce)
        self.accept = HandshakeKey.accept(key)
        self.subprotocols = request.subprotocols
        let headers = try Self.headers(request, key: key)
        try HTTPEncoder.append(HTTPRequestHead(method: "GET", target: request.endpoint.target, headers: headers), to: &output)
    }

    /// Takes what the server sent. Returns its answer once it agreed: what is left of `input` then are frames.
    ///
    /// - Throws: ``TransportError/Code/upgradeRefused`` for another status than 101, with the beginning of the body when
    ///   that is text.
    package mutating func receive(_ input: inout UnsafeRawBufferPointer) throws(TransportError) -> HTTPResponseHead? {
        while true {
            switch try self.decoder.next(&input) {
            case .needsMore: return nil
            case .switchedProtocol(let head):
                try self.check(head)
                return head
            case .head(let head):
                self.refusal = HTTPResponse(head)
            case .body(let bytes):
                let room = Self.refusalBytes - (self.refusal?.body.count ?? 0)
                self.refusal?.body.append(contentsOf: bytes.prefix(room))
                if bytes.count >= room, let refusal = self.pendingRefusal { throw refusal }
            case .end:
                throw self.pendingRefusal ?? TransportError(.closed, "The server's answer to the WebSocket request is over.")
            }
        }
    }

    /// The server has ended the connection.
    package mutating func endOfStream() -> TransportError {
        if let refusal = self.pendingRefusal { return refusal }
        do throws(TransportError) {
            try self.decoder.endOfStream()
        } catch {
            return error
        }
        return TransportError(.closed, "The server ended the connection before the WebSocket was open.")
    }

    /// The server has refused, and its body is still coming: a better reason than a time limit that runs out meanwhile.
    package var pendingRefusal: TransportError? {
        guard let refusal else { return nil }
        let (status, reason) = (refusal.head.status, refusal.head.reason)
        let words = Self.shortText(refusal.body)
        let answer = reason.isEmpty ? "\(status)" : "\(status) \(reason)"
        return TransportError(
            .upgradeRefused, "The server refused the WebSocket with \(answer)\(words.isEmpty ? "." : ": \(words)")", status: status)
    }

    private func check(_ head: HTTPResponseHead) throws(TransportError) {
        func wrong(_ what: String) -> TransportError {
            TransportError(.protocolViolation, "The server's answer to the WebSocket request \(what).")
        }
        guard head.headers.contains("Upgrade", token: "websocket") else { throw wrong("has no Upgrade field with websocket") }
        guard head.headers.contains("Connection", token: "upgrade") else { throw wrong("has no Connection field with upgrade") }
        guard head.headers.values("Sec-WebSocket-Accept") == [self.accept] else { throw wrong("does not match the key that was sent") }
        guard head.headers.values("Sec-WebSocket-Extensions").allSatisfy(\.isEmpty) else {
            throw wrong("has an extension that was not offered")
        }
        let chosen = head.headers.values("Sec-WebSocket-Protocol")
        guard chosen.count <= 1, chosen.allSatisfy(self.subprotocols.contains) else {
            throw wrong("has a subprotocol that was not offered")
        }
    }

    private static func headers(_ request: WebSocketRequest, key: String) throws(TransportError) -> HTTPHeaders {
        var headers = HTTPHeaders()
        headers.add("Host", request.endpoint.authority)
        for field in request.headers {
            switch field.name.lowercased() {
            case "host", "connection", "upgrade", "sec-websocket-key", "sec-websocket-version": continue
            case "sec-websocket-protocol":
                throw TransportError(.unsupported, "Sec-WebSocket-Protocol cannot be set as a header field; offer subprotocols instead.")
            case "sec-websocket-extensions", "content-length", "transfer-encoding":
                throw TransportError(.unsupported, "The header field \(field.name) cannot be set on a WebSocket request.")
            default: headers.add(field.name, field.value)
            }
        }
        headers.add("Upgrade", "websocket")
        headers.add("Connection", "Upgrade")
        headers.add("Sec-WebSocket-Key", key)
        headers.add("Sec-WebSocket-Version", "13")
        guard request.subprotocols.allSatisfy({ HTTPCharacters.isToken($0.utf8) }),
            Set(request.subprotocols).count == request.subprotocols.count
        else { throw TransportError(.unsupported, "A subprotocol is no word without spaces and commas, or is offered twice.") }
        if !request.subprotocols.isEmpty { headers.add("Sec-WebSocket-Protocol", request.subprotocols.joined(separator: ", ")) }
        return headers
    }

    /// The first 200 characters, when it is text that can stand in a message; white space made one space each.
    private static func shortText(_ body: [UInt8]) -> String {
        // A character may be cut where reading stopped.
        for cut in 0..<min(4, body.count) {
            let bytes = body.dropLast(cut)
            guard bytes.withUnsafeBytes(UTF8Validator.isValid) else { continue }
            guard bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || (0x09...0x0D).contains($0) }) else { return "" }
            let words = String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isWhitespace).joined(separator: " ")
            return words.count > 200 ? words.prefix(200) + "…" : words
        }
        return ""
    }
}
