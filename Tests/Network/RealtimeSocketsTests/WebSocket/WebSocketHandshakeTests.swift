import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

@Suite struct WebSocketClientHandshakeTests {
    /// The example of RFC 6455 section 1.3.
    static let nonce = Array("the sample nonce".utf8)
    static let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

    private func make(_ request: WebSocketRequest) throws(TransportError) -> (handshake: ClientHandshake, sent: String) {
        var output: [UInt8] = []
        let handshake = try ClientHandshake(request, nonce: Self.nonce, output: &output)
        return (handshake, String(decoding: output, as: UTF8.self))
    }

    private func offer(_ subprotocols: [String] = []) throws(TransportError) -> ClientHandshake {
        try self.make(WebSocketRequest(Endpoint("ws://a/"), subprotocols: subprotocols)).handshake
    }

    /// Returns the head of the response and the bytes that follow it, or the error.
    private func receive(
        _ pieces: [[UInt8]], _ handshake: ClientHandshake, ends: Bool = false
    ) -> (head: HTTPResponseHead?, leftover: [UInt8], error: TransportError?) {
        var handshake = handshake
        var (head, leftover): (HTTPResponseHead?, [UInt8]) = (nil, [])
        do {
            for piece in pieces {
                guard head == nil else {
                    leftover += piece
                    continue
                }
                try piece.withUnsafeBytes { bytes in
                    var input = bytes
                    head = try handshake.receive(&input)
                    leftover += input
                }
            }
        } catch {
            return (nil, [], error as? TransportError)
        }
        return (head, leftover, ends ? handshake.endOfStream() : nil)
    }

    private func receive(_ text: String, _ handshake: ClientHandshake, ends: Bool = false) -> TransportError? {
        let complete = self.receive([Array(text.utf8)], handshake, ends: ends)
        for pieces in everySplit(Array(text.utf8)) {
            let split = self.receive(pieces, handshake, ends: ends)
            expectEqual(split.head, complete.head)
            // The messages may differ, because a rejection quotes the part of the body that has been received.
            expectEqual(split.error?.code, complete.error?.code)
            expectEqual(split.error?.status, complete.error?.status)
        }
        return complete.error
    }

    @Test func `the request contains the header fields of the handshake`() throws {
        let request = WebSocketRequest(
            try Endpoint("ws://[::1]:6001/app/key?protocol=7"),
            headers: ["Authorization": "Bearer t", "Connection": "close", "Host": "other", "Sec-WebSocket-Version": "8"],
            subprotocols: ["chat.v2", "chat"])
        let sent = try self.make(request).sent
        let read = decodeRequests(sent).requests
        expect(sent.hasPrefix("GET /app/key?protocol=7 HTTP/1.1\r\nHost: [::1]:6001\r\n"))
        expect(sent.hasSuffix("\r\n\r\n"))
        expectEqual(read.count, 1)
        expectEqual(
            read.first?.headers,
            [
                "Host": "[::1]:6001", "Authorization": "Bearer t", "Upgrade": "websocket", "Connection": "Upgrade",
                "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Protocol": "chat.v2, chat",
            ])
    }

    @Test(arguments: [
        ("X", "1\r\nEvil: 2"), ("Sec-WebSocket-Extensions", "permessage-deflate"), ("sec-websocket-protocol", "chat"),
        ("Content-Length", "4"),
        ("Transfer-Encoding", "chunked"),
    ])
    func `a header field that must not be set is an error`(_ name: String, _ value: String) {
        var headers = HTTPHeaders()
        headers.add(name, value)
        #expect(throws: TransportError.self) { try self.make(WebSocketRequest(Endpoint("ws://a/"), headers: headers)) }
    }

    @Test(arguments: [["a b"], [""], ["a,b"], ["a", "a"], ["a\r\nX: 1"]])
    func `an invalid or duplicate subprotocol is an error`(_ subprotocols: [String]) {
        #expect(throws: TransportError.self) { try self.offer(subprotocols) }
    }

    static func response(
        _ more: String = "", upgrade: String = "websocket", connection: String = "Upgrade", accept: String = accept
    ) -> String {
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: \(upgrade)\r\nConnection: \(connection)\r\nSec-WebSocket-Accept: \(accept)\r\n\(more)\r\n"
    }

    @Test func `a valid response opens the WebSocket and the bytes after it are frames`() throws {
        let handshake = try self.offer(["chat"])
        for text in [
            Self.response(), Self.response(upgrade: "WebSocket", connection: "keep-alive, upgrade"),
            Self.response("Sec-WebSocket-Protocol: chat\r\n"),
            "HTTP/1.1 103 Early Hints\r\n\r\n" + Self.response(),
        ] {
            let bytes = Array(text.utf8) + frame(0x81, "first")
            for pieces in everySplit(bytes) + [[bytes]] {
                let result = self.receive(pieces, handshake)
                expectEqual(result.head?.status, 101)
                expectEqual(result.leftover, frame(0x81, "first"))
            }
        }
    }

    @Test(arguments: [
        response(upgrade: "h2c"), response(connection: "close"), response(accept: "s3pPLMBiTxaQ9kYGzzhZRbK+xOp="), response(accept: ""),
        response(accept: "S3PPLMBITXAQ9KYGZZHZRBK+XOO="), response("Sec-WebSocket-Accept: \(accept)\r\n"),
        response("Sec-WebSocket-Protocol: other\r\n"), response("Sec-WebSocket-Protocol: CHAT\r\n"),
        response("Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Protocol: chat\r\n"), response("Sec-WebSocket-Protocol:\r\n"),
        response("Sec-WebSocket-Extensions: permessage-deflate\r\n"), "HTTP/1.1 101 Switching Protocols\r\n\r\n", "nonsense\r\n\r\n",
    ])
    func `an invalid response is a protocol violation`(_ text: String) throws {
        expectEqual(self.receive(text, try self.offer(["chat"]))?.code, .protocolViolation)
    }

    @Test func `a subprotocol that was not offered is a protocol violation`() throws {
        expectEqual(self.receive(Self.response("Sec-WebSocket-Protocol: chat\r\n"), try self.offer())?.code, .protocolViolation)
    }

    @Test func `a status other than 101 is a rejection with the reason and the body`() throws {
        let handshake = try self.offer()
        let error = self.receive("HTTP/1.1 403 Forbidden\r\nContent-Length: 17\r\n\r\nThe key \nis wrong", handshake)
        expectEqual(error?.code, .upgradeRejected)
        expectEqual(error?.status, 403)
        expectEqual(error?.message, "The server rejected the WebSocket with 403 Forbidden: The key is wrong.")
        let head = HTTPResponseHead(status: 403, reason: "Forbidden", headers: ["Content-Length": "17"])
        expectEqual(error?.response, HTTPResponse(head, body: Array("The key \nis wrong".utf8)))
        expectEqual(
            self.receive("HTTP/1.1 302\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", handshake)?.message,
            "The server rejected the WebSocket with 302. It redirects to ws://a/x, which a WebSocket doesn't follow: use that URL.")
        expectEqual(self.receive("HTTP/1.1 200 OK\r\n\r\nnot whole", handshake, ends: true)?.status, 200)
        let basic =
            "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n"
        expectEqual(self.receive(basic, handshake)?.status, 401)
    }

    @Test func `a rejection with a long body is reported before the body is complete`() throws {
        let body = String(repeating: "word ", count: 14_000)
        let response = "HTTP/1.1 500 Oops\r\nContent-Length: 100000\r\n\r\n\(body)"
        let error = self.receive([Array(response.utf8)], try self.offer()).error
        expectEqual(error?.status, 500)
        expect((error?.message.count ?? 999) < 300)
        expectEqual(error?.response?.body, Array(body.utf8.prefix(64 << 10)))
    }

    @Test func `a body that is not text is not quoted`() throws {
        let bytes = Array("HTTP/1.1 500 Oops\r\nContent-Length: 3\r\n\r\n".utf8) + [0x61, 0x00, 0xFF]
        expectEqual(self.receive([bytes], try self.offer()).error?.message, "The server rejected the WebSocket with 500 Oops.")
    }

    @Test func `a rejection is available before its body is complete`() throws {
        var handshake = try self.offer()
        expectNil(handshake.rejectionError)
        let head = try Array("HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\nCome back".utf8).withUnsafeBytes { bytes in
            var input = bytes
            return try handshake.receive(&input)
        }
        expectNil(head)
        expectEqual(handshake.rejectionError?.status, 503)
    }

    @Test(arguments: ["", "HTTP/1.1 101", "HTTP/1.1 101 Switching Protocols\r\n", "HTTP/1.1 100 Continue\r\n\r\n"])
    func `a connection that ends before the response is an error`(_ text: String) throws {
        expectEqual(self.receive(text, try self.offer(), ends: true)?.code, .closed)
    }
}

@Suite struct WebSocketServerHandshakeTests {
    private func request(_ changes: [String: String?] = [:], method: String = "GET") -> HTTPRequestHead {
        var headers: HTTPHeaders = [
            "Host": "a", "Upgrade": "websocket", "Connection": "keep-alive, Upgrade", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version": "13",
        ]
        for (name, value) in changes { headers[name] = value }
        return HTTPRequestHead(method: method, target: "/", headers: headers)
    }

    private func rejection(_ check: ServerHandshake.Check) -> HTTPResponse? {
        if case .rejected(let response) = check { response } else { nil }
    }

    @Test func `a valid request is accepted with the response of the RFC`() throws {
        guard case .valid(let offer) = ServerHandshake.check(self.request(["Sec-WebSocket-Protocol": "chat.v2, chat ,x"])) else {
            Issue.record("it was not accepted")
            return
        }
        expectEqual(offer.subprotocols, ["chat.v2", "chat", "x"])
        let head = try ServerHandshake.accept(offer, subprotocol: "chat")
        expectEqual(head.status, 101)
        expectEqual(head.headers["Sec-WebSocket-Accept"], WebSocketClientHandshakeTests.accept)
        expectEqual(head.headers["Sec-WebSocket-Protocol"], "chat")
        expectNil(head.headers["Sec-WebSocket-Extensions"])
        try expectNil(ServerHandshake.accept(offer, subprotocol: nil).headers["Sec-WebSocket-Protocol"])
        #expect(throws: TransportError.self) { try ServerHandshake.accept(offer, subprotocol: "other") }
    }

    @Test func `a request without an upgrade, or of another method, is not a WebSocket request`() {
        let requests =
            [nil, "h2c"].map { self.request(["Upgrade": $0]) } + [nil, "close"].map { self.request(["Connection": $0]) }
            + ["POST", "OPTIONS"].map { self.request(method: $0) }
        for request in requests {
            guard case .notAnUpgrade = ServerHandshake.check(request) else {
                Issue.record("\(request) was taken for an upgrade")
                continue
            }
        }
    }

    @Test func `an unsupported version is rejected with the supported one`() {
        for version in [nil, "8", "14", "13, 8", "13x"] as [String?] {
            let response = self.rejection(ServerHandshake.check(self.request(["Sec-WebSocket-Version": version])))
            expectEqual(response?.head.status, 426)
            expectEqual(response?.head.headers["Sec-WebSocket-Version"], "13")
        }
    }

    @Test func `an invalid key is rejected`() {
        for key in [nil, "", "x", "dGhlIHNhbXBsZSBub25jZQ", "dGhlIHNhbXBsZSBub25jZQAA", "dGhlIHNhbXBsZSBub25j", "dGhlIHNhbXBsZSBub25jZR=="]
            as [String?]
        {
            expectEqual(self.rejection(ServerHandshake.check(self.request(["Sec-WebSocket-Key": key])))?.head.status, 400)
        }
        var twice = self.request()
        twice.headers.add("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
        expectEqual(self.rejection(ServerHandshake.check(twice))?.head.status, 400)
    }

    @Test func `HTTP version and subprotocols are validated`() {
        expectEqual(self.rejection(ServerHandshake.check(self.request(), isHTTP11: false))?.head.status, 400)
        expectEqual(self.rejection(ServerHandshake.check(self.request(["Sec-WebSocket-Protocol": "a b"])))?.head.status, 400)
    }

    @Test func `client and server complete a handshake with each other`() throws {
        var output: [UInt8] = []
        let request = WebSocketRequest(try Endpoint("ws://a/b"), subprotocols: ["one", "two"])
        var client = try ClientHandshake(request, output: &output)
        let decoded = try #require(decodeRequests([output]).requests.first)
        let check = ServerHandshake.check(HTTPRequestHead(method: decoded.method, target: decoded.target, headers: decoded.headers))
        guard case .valid(let offer) = check else {
            Issue.record("the server rejected its own client")
            return
        }
        var response: [UInt8] = []
        try HTTPEncoder.append(try ServerHandshake.accept(offer, subprotocol: "two"), to: &response)
        let head = try response.withUnsafeBytes { bytes in
            var input = bytes
            return try client.receive(&input)
        }
        expectEqual(head?.headers["Sec-WebSocket-Protocol"], "two")
    }
}
