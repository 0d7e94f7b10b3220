import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct HTTPClientResponseTests {
    struct Valid: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var response: String
        var method = "GET"
        var status = 200
        var body = "hello"
    }

    static let valid: [Valid] = [
        Valid(testDescription: "a length", response: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        Valid(testDescription: "until the end of HTTP/1.0", response: "HTTP/1.0 200 OK\r\n\r\nhello"),
        Valid(testDescription: "until the end of HTTP/1.1", response: "HTTP/1.1 200 OK\r\n\r\nhello"),
        Valid(testDescription: "chunks", response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
        Valid(
            testDescription: "chunks with trailers",
            response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nTrailer: value\r\nOther: b\r\n\r\n"),
        Valid(testDescription: "204", response: "HTTP/1.1 204 No Content\r\n\r\n", status: 204, body: ""),
        Valid(testDescription: "304", response: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", status: 304, body: ""),
        Valid(testDescription: "HEAD", response: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", method: "HEAD", body: ""),
        Valid(
            testDescription: "interim responses",
            response:
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        Valid(testDescription: "status 999", response: "HTTP/1.1 999 Odd\r\nContent-Length: 5\r\n\r\nhello", status: 999),
        Valid(testDescription: "no reason phrase", response: "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello"),
        Valid(
            testDescription: "2,000 fields",
            response: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\(String(repeating: "X-Field: value\r\n", count: 2000))\r\nhello"),
        Valid(
            testDescription: "a long field",
            response: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: \(String(repeating: "a", count: 60_000))\r\n\r\nhello"),
        Valid(testDescription: "a folded field", response: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: a\r\n  b\r\n\r\nhello"),
        Valid(testDescription: "invalid gzip", response: "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello"),
        Valid(
            testDescription: "an unknown content coding",
            response: "HTTP/1.1 200 OK\r\nContent-Encoding: nothing\r\nContent-Length: 5\r\n\r\nhello"),
        Valid(
            testDescription: "a 401 challenge",
            response: "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer, Basic realm=\"r\", NTLM\r\nContent-Length: 5\r\n\r\nhello",
            status: 401),
    ]

    @Test(arguments: Self.valid)
    func `a response is delivered in full`(_ valid: Valid) async throws {
        try await ScriptedServer.responding(valid.response) { server in
            let response = try await SocketHTTPTransport().send(.forTests(valid.method, server.endpoint))
            expectEqual(response.head.status, valid.status)
            expectEqual(response.text, valid.body)
        }
    }

    @Test(arguments: Self.valid)
    func `a response that arrives in small pieces is delivered in full`(_ valid: Valid) async throws {
        // Short responses arrive byte by byte, long ones in pieces that do not end at line breaks.
        let step = max(1, valid.response.utf8.count / 200)
        try await ScriptedServer.run { stream, _ in
            var rest = Array(valid.response.utf8)[...]
            while !rest.isEmpty {
                stream.send(rest.prefix(step))
                rest = rest.dropFirst(step)
                await stream.loop.turn()
            }
            stream.finishWriting()
        } _: { server in
            let response = try await SocketHTTPTransport().send(.forTests(valid.method, server.endpoint))
            expectEqual(response.head.status, valid.status)
            expectEqual(response.text, valid.body)
        }
    }

    @Test func `header fields keep their order and spelling`() async throws {
        let response = "HTTP/1.1 200 Fine\r\nX-a: 1\r\nx-A: 2\r\nX-Utf: \u{e9}\u{20ac}\r\nContent-Length: 0\r\n\r\n"
        try await ScriptedServer.responding(response) { server in
            let head = try await SocketHTTPTransport().open(.get(server.endpoint)).head
            expectEqual(head.reason, "Fine")
            expectEqual(head.headers.values("x-a"), ["1", "2"])
            expectEqual(head.headers["X-Utf"], "\u{e9}\u{20ac}")
        }
    }

    @Test func `header values in Latin-1 are decoded`() async throws {
        try await ScriptedServer.run { stream, _ in
            stream.send(Array("HTTP/1.1 200 OK\r\nX: caf".utf8) + [0xE9] + Array("\r\nContent-Length: 0\r\n\r\n".utf8))
        } _: { server in
            let head = try await SocketHTTPTransport().open(.get(server.endpoint)).head
            expectEqual(head.headers["X"], "caf\u{e9}")
        }
    }

    @Test func `the request is sent as specified`() async throws {
        try await ScriptedServer.run { stream, recorder in
            await recorder.until { $0.bytes.contains(sequence: Array("the body".utf8)) }
            stream.respond("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        } _: { server in
            var endpoint = server.endpoint
            endpoint.target = "/a%20b?c=d"
            let headers: HTTPHeaders = [
                "Authorization": "Bearer secret", "Connection": "keep-alive", "Host": "elsewhere", "Content-Length": "3",
            ]
            _ = try await SocketHTTPTransport().send(.forTests("PUT", endpoint, headers: headers, body: Array("the body".utf8)))
            let sent = String(decoding: try #require(server.connections.entries.first).seen.bytes, as: UTF8.self)
            expectEqual(
                sent,
                "PUT /a%20b?c=d HTTP/1.1\r\nHost: 127.0.0.1:\(endpoint.port)\r\nAuthorization: Bearer secret\r\n"
                    + "Content-Length: 8\r\n\r\nthe body")
        }
    }

    @Test(arguments: [301, 302, 303, 307, 308], ["POST", "PUT"])
    func `a redirect is returned and not followed`(_ status: Int, _ method: String) async throws {
        try await ScriptedServer.run({ stream, _ in stream.respond("HTTP/1.1 200 OK\r\n\r\n") }) { other in
            try await ScriptedServer.run { stream, recorder in
                await recorder.until { $0.bytes.contains(sequence: Array("the body".utf8)) }
                stream.respond("HTTP/1.1 \(status) Elsewhere\r\nLocation: \(other.endpoint.origin)/\r\nContent-Length: 0\r\n\r\n")
            } _: { server in
                let headers: HTTPHeaders = ["Authorization": "Bearer secret", "Cookie": "a=b"]
                let request = HTTPRequest.forTests(method, server.endpoint, headers: headers, body: Array("the body".utf8))
                let response = try await SocketHTTPTransport().send(request)
                expectEqual(response.head.status, status)
                expectEqual(response.head.headers["Location"], "\(other.endpoint.origin)/")
                expectEqual(server.connections.entries.count, 1)
            }
            expect(other.connections.entries.isEmpty)
        }
    }

    @Test func `cookies are not sent back`() async throws {
        try await ScriptedServer.responding("HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n") { server in
            let transport = SocketHTTPTransport()
            for _ in 0..<2 { _ = try await transport.send(.get(server.endpoint)) }
            for recorder in server.connections.entries { expect(!recorder.seen.bytes.contains(sequence: Array("ookie".utf8))) }
        }
    }

    @Test func `a request to an IPv6 address in brackets succeeds`() async throws {
        try await ScriptedServer.run(host: "::1") { stream, _ in
            stream.respond("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nv6")
        } _: { server in
            let endpoint = try Endpoint("http://[::1]:\(server.endpoint.port)/")
            try await expectEqual(SocketHTTPTransport().send(.get(endpoint)).text, "v6")
            let sent = try #require(server.connections.entries.first).seen.bytes
            expect(sent.contains(sequence: Array("Host: [::1]:\(endpoint.port)\r\n".utf8)))
        }
    }

    @Test func `an uppercase scheme is accepted`() async throws {
        try await ScriptedServer.responding("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") { server in
            let endpoint = try Endpoint("HTTP://127.0.0.1:\(server.endpoint.port)")
            try await expectEqual(SocketHTTPTransport().send(.get(endpoint)).text, "ok")
        }
    }

    @Test func `a request with GET may have a body`() async throws {
        try await ScriptedServer.run { stream, recorder in
            await recorder.until { $0.bytes.contains(sequence: Array("query".utf8)) }
            stream.respond("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        } _: { server in
            let response = try await SocketHTTPTransport().send(.forTests("GET", server.endpoint, body: Array("query".utf8)))
            expectEqual(response.text, "ok")
        }
    }

    @Test func `pieces of the body arrive as the server sends them`() async throws {
        let next = Log<Int>()
        try await ScriptedServer.run { stream, _ in
            stream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".utf8)
            for number in 1...5 {
                await next.wait(number)
                stream.send("1\r\n\(number)\r\n".utf8)
            }
            await next.wait(6)
            stream.send("0\r\n\r\n".utf8)
        } _: { server in
            let response = try await SocketHTTPTransport().open(.get(server.endpoint))
            for number in 1...5 {
                next.add(number)
                try await expectEqual(response.body.next(), Array("\(number)".utf8))
            }
            next.add(6)
            try await expectNil(response.body.next())
            try await expectNil(response.body.next())
        }
    }

    @Test func `a slow reader slows down the server`() async throws {
        let size = 8 << 20
        try await ScriptedServer.run { stream, _ in
            stream.send("HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n".utf8)
            stream.send(pattern(size))
        } _: { server in
            let response = try await SocketHTTPTransport().open(.get(server.endpoint))
            var (count, largest) = (0, 0)
            var isRight = true
            let expected = pattern(65_521 * 16)
            while let piece = try await response.body.next() {
                largest = max(largest, piece.count)
                isRight = isRight && piece.count < 65_521 * 15 && expected[(count % 65_521)...].starts(with: piece)
                count += piece.count
            }
            expect(count == size && isRight)
            expect(largest <= 512 << 10)
        }
    }

    @Test func `releasing the body closes the connection`() async throws {
        try await ScriptedServer.run { stream, _ in
            stream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n".utf8)
        } _: { server in
            do {
                let response = try await SocketHTTPTransport().open(.get(server.endpoint))
                try await expectEqual(response.body.next(), [UInt8(ascii: "a")])
            }
            let recorder = try #require(server.connections.entries.first)
            await expectEqual(recorder.until { $0.ended > 0 }.ended, 1)
        }
    }

    @Test func `a response that arrives before the request is sent is delivered`() async throws {
        try await ScriptedServer.run(stopsReading: true) { stream, _ in
            stream.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlarge".utf8)
        } _: { server in
            let request = HTTPRequest.forTests("POST", server.endpoint, body: [UInt8](repeating: 1, count: 32 << 20))
            let response = try await SocketHTTPTransport().send(request)
            expect(response.head.status == 413 && response.text == "large")
        }
    }
}
