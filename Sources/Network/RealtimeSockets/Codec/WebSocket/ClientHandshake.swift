private import CRealtimeSystem
package import RealtimeCore
private import RealtimeCrypto
import RealtimeEncoding

/// The client's side of the opening handshake: encodes the request and validates the response (RFC 6455 section 4.1).
package struct ClientHandshake: Sendable {
    private let accept: String
    private let subprotocols: [String]
    private let endpoint: Endpoint
    private var decoder = HTTPResponseDecoder(method: "GET")
    private var rejection: HTTPResponse?

    /// Appends the request to `output`.
    ///
    /// - Parameters:
    ///   - request: The WebSocket to request.
    ///   - nonce: 16 random bytes.
    ///   - output: The bytes to send.
    /// - Throws: `TransportError` with the code `unsupported` if a header field or subprotocol cannot be sent.
    package init(
        _ request: WebSocketRequest, nonce: [UInt8] = HandshakeKey.makeNonce(), output: inout [UInt8]
    ) throws(TransportError) {
        let key = HandshakeKey.encode(nonce)
        self.accept = HandshakeKey.accept(key)
        self.subprotocols = request.subprotocols
        self.endpoint = request.endpoint
        let headers = try Self.headers(request, key: key)
        try HTTPEncoder.append(HTTPRequestHead(method: "GET", target: request.endpoint.requestTarget, headers: headers), to: &output)
    }

    /// Decodes bytes that the server sent.
    ///
    /// - Parameter input: The bytes. The bytes that remain when the response is returned are frames.
    /// - Returns: The response that accepts the WebSocket, or `nil` if it is incomplete.
    /// - Throws: `TransportError` with the code `upgradeRejected` if the status is not 101, with the response and, in the message, the
    ///   beginning of the body if that is text; `protocolViolation` or `closed` if the response is invalid.
    package mutating func receive(_ input: inout UnsafeRawBufferPointer) throws(TransportError) -> HTTPResponseHead? {
        while true {
            switch try self.decoder.next(&input) {
            case .needsMore: return nil
            case .switchedProtocol(let head):
                try self.check(head)
                return head
            case .head(let head):
                self.rejection = HTTPResponse(head)
            case .body(let bytes):
                let room = TransportError.responseBodyLimit - (self.rejection?.body.count ?? 0)
                self.rejection?.body.append(contentsOf: bytes.prefix(room))
                if bytes.count >= room, let error = self.rejectionError { throw error }
            case .end:
                throw self.rejectionError ?? TransportError(.closed, "The server's response to the WebSocket request has ended.")
            }
        }
    }

    /// Returns the error that explains why the server ended the connection.
    package mutating func endOfStream() -> TransportError {
        if let error = self.rejectionError { return error }
        do throws(TransportError) {
            try self.decoder.endOfStream()
        } catch {
            return error
        }
        return TransportError(.closed, "The server closed the connection before the WebSocket was open.")
    }

    /// The rejection, if its head has been received. While its body is arriving, it explains a failure better than a timeout does.
    package var rejectionError: TransportError? {
        guard let rejection else { return nil }
        return TransportError(.upgradeRejected, rejection.rejectionOfUpgrade(at: self.endpoint), response: rejection)
    }

    private func check(_ head: HTTPResponseHead) throws(TransportError) {
        func invalid(_ problem: String) -> TransportError {
            TransportError(.protocolViolation, "Invalid response to the WebSocket request: \(problem).")
        }
        guard head.headers.contains("Upgrade", token: "websocket") else { throw invalid("missing Upgrade: websocket") }
        guard head.headers.contains("Connection", token: "upgrade") else { throw invalid("missing Connection: Upgrade") }
        guard head.headers.values("Sec-WebSocket-Accept") == [self.accept] else {
            throw invalid("Sec-WebSocket-Accept does not match the key of the request")
        }
        guard head.headers.values("Sec-WebSocket-Extensions").allSatisfy(\.isEmpty) else {
            throw invalid("it selects an extension that was not offered")
        }
        let selected = head.headers.values("Sec-WebSocket-Protocol")
        guard selected.count <= 1, selected.allSatisfy(self.subprotocols.contains) else {
            throw invalid("it selects a subprotocol that was not offered")
        }
    }

    private static func headers(_ request: WebSocketRequest, key: String) throws(TransportError) -> HTTPHeaders {
        var headers = HTTPHeaders()
        headers.add("Host", request.endpoint.authority)
        for field in request.headers {
            switch field.name.lowercased() {
            case "host", "connection", "upgrade", "sec-websocket-key", "sec-websocket-version": continue
            case "sec-websocket-protocol":
                throw TransportError(
                    .unsupported, "Sec-WebSocket-Protocol cannot be set as a header field. Set the subprotocols of the request instead.")
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
        else { throw TransportError(.unsupported, "Subprotocols must be unique and must not contain spaces, commas or other separators.") }
        if !request.subprotocols.isEmpty { headers.add("Sec-WebSocket-Protocol", request.subprotocols.joined(separator: ", ")) }
        return headers
    }

    /// Returns the first 200 characters if the body is printable text, with each run of whitespace as one space.
}

/// The key of the opening handshake and the value derived from it (RFC 6455 section 1.3).
package enum HandshakeKey {
    private static let nonceBytes = 16

    /// Returns 16 random bytes.
    package static func makeNonce() -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Self.nonceBytes) { buffer, initialized in
            realtime_random_bytes(buffer.baseAddress, Self.nonceBytes)
            initialized = Self.nonceBytes
        }
    }

    static func encode(_ nonce: [UInt8]) -> String { Base64.encode(nonce) }

    /// Whether the key is the Base64 encoding of 16 bytes.
    static func isValid(_ key: String) -> Bool { Base64.decode(key)?.count == Self.nonceBytes }

    /// Returns the value of Sec-WebSocket-Accept for a key. It proves that the server supports WebSockets and that the response does
    /// not come from a cache.
    static func accept(_ key: String) -> String {
        Base64.encode(SHA1.hash(Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8)))
    }
}
