import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct ListenerResponseTests {
    @Test func `a streamed response arrives piece by piece`() async throws {
        let streams = Log<any HTTPResponder>()
        let handler = TestHandler { _, _, responder in streams.add(responder) }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.request()
            let responder = try #require(await streams.wait(1).first)
            responder.begin(HTTPResponseHead(status: 200, headers: ["Content-Type": "text/event-stream", "Content-Length": "3"]))
            let head = await client.text(until: "\r\n\r\n")
            expect(head.contains("Transfer-Encoding: chunked\r\n") && !head.contains("Content-Length"))
            for number in 1...3 {
                responder.write(Array("event \(number)".utf8))
                await client.text(until: "7\r\nevent \(number)\r\n")
            }
            responder.write([])
            responder.end()
            await client.text(until: "\r\n0\r\n\r\n")
            // The connection is kept alive.
            client.request("/again")
            await streams.wait(2).last?.respond(HTTPResponse(status: 200, text: "second"))
            await client.text(until: "second")
            client.close()
        }
    }

    @Test func `large pieces and bodies arrive complete, in their order among small ones`() async throws {
        let sizes = [1, SocketStream.sharedSize - 1, SocketStream.sharedSize, 2, 1 << 20, SocketStream.sharedSize + 1]
        let pieces = sizes.enumerated().map { [UInt8](repeating: UInt8(ascii: "a") + UInt8($0), count: $1) }
        let limits = ListenerLimits.forTests.with { $0.messageBacklogBytes = 16 << 20 }
        let handler = TestHandler { request, _, responder in
            if request.path == "/whole" { return responder.respond(HTTPResponse(HTTPResponseHead(status: 200), body: pieces[4])) }
            responder.begin(HTTPResponseHead(status: 200))
            for piece in pieces { responder.write(piece) }
            responder.end()
        }
        try await withListener(handler, limits: limits) { address in
            let client = try RawClient(address)
            client.request()
            let chunks = pieces.map { String($0.count, radix: 16) + "\r\n" + String(decoding: $0, as: UTF8.self) + "\r\n" }.joined()
            let streamed = await client.text(until: "\r\n0\r\n\r\n")
            expect(streamed.hasSuffix("\r\n\r\n" + chunks + "0\r\n\r\n"), "\(streamed.utf8.count) bytes")
            client.send("GET /whole HTTP/1.0\r\n\r\n")
            let whole = await client.textToEnd()
            expect(whole.hasSuffix("\r\n\r\n" + String(decoding: pieces[4], as: UTF8.self)), "\(whole.utf8.count) bytes")
            client.close()
        }
    }

    @Test func `large messages and what surrounds them arrive as one piece, which may exceed the limit`() async throws {
        let message = [UInt8](repeating: UInt8(ascii: "m"), count: 3 << 20)
        var body = SharedBody(Array("start ".utf8))
        body.append(message: message)
        body.append(message: message)
        body.append(Array(" end".utf8))
        let text = String(decoding: Array(body.pieces.joined()), as: UTF8.self)
        let streams = Log<any HTTPResponder>()
        let handler = TestHandler { [body] request, _, responder in
            if request.path == "/whole" { return responder.respond(HTTPResponseHead(status: 200), sharing: body) }
            streams.add(responder)
        }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.request()
            // Not by the handler, whose answers have no limit.
            let responder = try #require(await streams.wait(1).first)
            responder.begin(HTTPResponseHead(status: 200))
            responder.write(sharing: body)
            let chunk = String(body.count, radix: 16) + "\r\n" + text + "\r\n"
            let streamed = await client.text(until: "end\r\n")
            expect(streamed.hasSuffix("\r\n\r\n" + chunk), "\(streamed.utf8.count) bytes")
            responder.end()
            client.request("/whole", "Connection: close")
            let whole = await client.textToEnd()
            expect(whole.contains("Content-Length: \(body.count)\r\n") && whole.hasSuffix("\r\n\r\n" + text), "\(whole.utf8.count) bytes")
        }
    }

    @Test func `a streamed response to an HTTP/1.0 client ends with the connection`() async throws {
        let handler = TestHandler { _, _, responder in
            responder.begin(HTTPResponseHead(status: 200))
            responder.write(Array("one".utf8))
            responder.write(Array("two".utf8))
            responder.end()
        }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            let response = await client.textToEnd()
            expectEqual(response.body, "onetwo")
            expect(response.contains("Connection: close\r\n") && !response.contains("chunked"))
        }
    }

    @Test func `an HTTP/1.0 client can keep its connection alive`() async throws {
        try await withListener { address in
            let client = try RawClient(address)
            client.send("GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            await expect(client.text(until: "GET /1 ").contains("Connection: keep-alive\r\n"))
            client.send("GET /2 HTTP/1.0\r\n\r\n")
            await expect(client.textToEnd().contains("GET /2 "))
        }
    }

    @Test func `only the first response is sent`() async throws {
        let handler = TestHandler { _, _, responder in
            responder.write(Array("too early".utf8))
            responder.end()
            responder.respond(HTTPResponse(status: 200, text: "first"))
            responder.respond(HTTPResponse(status: 201, text: "second"))
            responder.begin(HTTPResponseHead(status: 202))
            responder.write(Array("third".utf8))
            responder.end()
        }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.request("/", "Connection: close")
            let response = await client.textToEnd()
            expect(response.status == 200 && response.body == "first")
        }
    }

    @Test func `pieces written from many threads are not interleaved`() async throws {
        let handler = TestHandler { _, _, responder in
            responder.begin(HTTPResponseHead(status: 200))
            Task {
                await withTaskGroup(of: Void.self) { group in
                    for lane in 0..<8 {
                        group.addTask {
                            for _ in 0..<100 { responder.write([UInt8](repeating: UInt8(ascii: "a") + UInt8(lane), count: 10)) }
                        }
                    }
                }
                responder.end()
            }
        }
        try await withListener(handler) { address in
            let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port)
            let body = try await SocketHTTPTransport().send(.get(endpoint)).body
            expectEqual(body.count, 8000)
            for start in stride(from: 0, to: body.count, by: 10) { expectEqual(Set(body[start..<start + 10]).count, 1) }
        }
    }

    static let invalid: [HTTPResponse] = [
        HTTPResponse(status: 200, headers: ["X": "a\r\nSet-Cookie: evil=1"], text: "never sent"),
        HTTPResponse(status: 200, headers: ["X\r\nEvil": "a"], text: "never sent"),
        HTTPResponse(HTTPResponseHead(status: 200, reason: "OK\r\nEvil: 1"), body: Array("never sent".utf8)),
        HTTPResponse(status: 500, headers: ["Evil": "\0"], text: "never sent"),
        HTTPResponse(status: 42, text: "never sent"),
        HTTPResponse(status: 100, text: "never sent"),
        HTTPResponse(status: 101, text: "never sent"),
    ]

    @Test(arguments: Self.invalid.indices, [true, false])
    func `an invalid response is replaced with status 500`(_ index: Int, _ isStreamed: Bool) async throws {
        let handler = TestHandler { _, _, responder in
            let response = Self.invalid[index]
            guard isStreamed else { return responder.respond(response) }
            responder.begin(response.head)
            responder.write(response.body)
            responder.end()
        }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.request("/", "Connection: close")
            let response = await client.textToEnd()
            expectEqual(response.status, 500)
            expect(!response.contains("vil") && !response.contains("never sent"))
        }
    }

    @Test(arguments: [true, false])
    func `the handler is notified when the client disconnects`(_ isStreamed: Bool) async throws {
        let disconnected = Log<Bool>()
        let streams = Log<any HTTPResponder>()
        let handler = TestHandler { _, _, responder in
            responder.onDisconnect { disconnected.add(true) }
            if isStreamed { responder.begin(HTTPResponseHead(status: 200)) }
            streams.add(responder)
        }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.request()
            let responder = try #require(await streams.wait(1).first)
            client.close()
            await disconnected.wait(1)
            // From here on the action is called immediately, and responses are discarded.
            let late = Log<Bool>()
            responder.onDisconnect { late.add(true) }
            expectEqual(late.entries.count, 1)
            responder.respond(HTTPResponse(status: 200))
            responder.write([1])
            responder.end()
        }
        expectEqual(disconnected.entries.count, 1)
    }

    @Test func `the handler is not notified after the end of the response`() async throws {
        let disconnected = Log<Bool>()
        let handler = TestHandler { _, _, responder in
            responder.onDisconnect { disconnected.add(true) }
            responder.respond(HTTPResponse(status: 200, text: "done"))
            responder.onDisconnect { disconnected.add(true) }
        }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.request()
            await client.text(until: "done")
            client.close()
        }
        expect(disconnected.entries.isEmpty)
    }

    @Test func `a client that closes its side still receives the response`() async throws {
        let disconnected = Log<Bool>()
        let handler = TestHandler { _, _, responder in
            responder.onDisconnect {
                disconnected.add(true)
                responder.respond(HTTPResponse(status: 200, text: "still here"))
            }
        }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.request()
            client.stream.finishWriting()
            await expectEqual(client.textToEnd().body, "still here")
        }
        expectEqual(disconnected.entries.count, 1)
    }

    @Test func `a response for a client that closed its side times out`() async throws {
        let handler = TestHandler { _, _, _ in }
        try await withListener(handler, limits: .forTests.with { $0.keepAliveTimeout = .milliseconds(30) }) { address in
            let client = try RawClient(address)
            client.request()
            client.stream.finishWriting()
            await expect(client.textToEnd().isEmpty)
        }
    }

    @Test func `a handler may release a responder without sending a response`() async throws {
        let handler = TestHandler { _, _, _ in }
        try await withListener(handler, limits: .forTests.with { $0.shutdownTimeout = .milliseconds(30) }) { address in
            let client = try RawClient(address)
            client.request()
        }
    }
}
