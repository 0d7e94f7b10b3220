import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct ListenerLimitTests {
    struct Invalid: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var request: String
        var status: Int

        init(_ name: String, _ request: String, _ status: Int) {
            self.testDescription = name
            self.request = request
            self.status = status
        }
    }

    private static let post = "POST / HTTP/1.1\r\nHost: a\r\n"

    static let invalid: [Invalid] = [
        Invalid("not HTTP", "hello\r\n\r\n", 400),
        Invalid("TLS on a plain port", "\u{16}\u{3}\u{1}\u{0}\r\n\r\n", 400),
        Invalid("no host", "GET / HTTP/1.1\r\n\r\n", 400),
        Invalid("two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        Invalid("no path", "GET path HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Invalid("a star for GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Invalid("no colon", "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400),
        Invalid("a space before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        Invalid("bare line feeds", "GET / HTTP/1.1\nHost: a\n\n", 400),
        Invalid("both a length and chunks", post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        Invalid("two lengths", post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
        Invalid("an invalid chunk", post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        Invalid("CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        Invalid("a body over the limit by its length", post + "Content-Length: 1001\r\n\r\n", 413),
        Invalid(
            "a body over the limit in chunks", post + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n\(String(repeating: "b", count: 1001))", 413
        ),
        Invalid("a long target", "GET /\(String(repeating: "a", count: 1100)) HTTP/1.1\r\n", 414),
        Invalid("an unknown expectation", post + "Expect: other\r\nContent-Length: 3\r\n\r\n", 417),
        Invalid("a long line", "GET / HTTP/1.1\r\nHost: a\r\nX: \(String(repeating: "a", count: 1100))", 431),
        Invalid(
            "a long head",
            "GET / HTTP/1.1\r\nHost: a\r\n\(String(repeating: "X: \(String(repeating: "a", count: 90))\r\n", count: 50))\r\n", 431),
        Invalid("many fields", "GET / HTTP/1.1\r\nHost: a\r\n\(String(repeating: "X:\r\n", count: 300))\r\n", 431),
        Invalid("an unsupported transfer coding", post + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
        Invalid("an unsupported version", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    ]

    /// A handler whose protocol has small messages.
    private final class SmallMessages: AcceptingHandler {
        let handler = TestHandler()

        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
            responder.respond(HTTPResponse(status: 200))
        }
        func decision(about request: HTTPRequestHead) -> UpgradeDecision { .accept(subprotocol: nil) }
        func messageLimit(for request: HTTPRequestHead) -> Int? { 100 }
        func bodyLimit(for request: HTTPRequestHead) -> Int? { request.path == "/large" ? nil : 100 }

        func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents {
            self.handler.accepted(connection, id: id, request: request)
        }
    }

    @Test(arguments: [(1000, 100), (50, 50)])
    func `the smaller one of the listener's and the handler's limits applies to messages`(own: Int, limit: Int) async throws {
        let handler = SmallMessages()
        let listener = SocketListener(limits: .forTests.with { $0.messageBytes = own })
        let client = try RawClient(try await listener.start(handler))
        client.send("\(ListenerWebSocketTests.upgrade)\r\n")
        let text = String(repeating: "a", count: limit)
        client.stream.send(frame(0x81, text, key: [0, 0, 0, 0]))
        await expectEqual(handler.handler.events.log.wait(2), ["opened", text])
        client.stream.send(frame(0x81, text + "a", key: [0, 0, 0, 0]))
        await expectEqual(handler.handler.events.log.wait(3).last?.hasPrefix("closed"), true)
        client.close()
        await listener.stop()
    }

    @Test(arguments: [(1000, "/small", 100), (50, "/small", 50), (1000, "/large", 1000)])
    func `the smaller one of the listener's and the handler's limits applies to a body, before it is sent`(
        own: Int, path: String, limit: Int
    ) async throws {
        let listener = SocketListener(limits: .forTests.with { $0.bodyBytes = own })
        let address = try await listener.start(SmallMessages())
        for (fields, isLarge) in [
            ("Content-Length: \(limit + 1)\r\n\r\n", true), ("Content-Length: \(limit)\r\n\r\n", false),
            ("Transfer-Encoding: chunked\r\n\r\n\(String(limit + 1, radix: 16))\r\n", true),
        ] {
            let client = try RawClient(address)
            client.send("POST \(path) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\(fields)")
            if !isLarge { client.send(String(repeating: "a", count: limit)) }
            await expectEqual(client.textToEnd().status, isLarge ? 413 : 200, "\(fields)")
        }
        await listener.stop()
    }

    @Test(arguments: Self.invalid)
    func `an invalid request receives an error status and closes the connection`(_ invalid: Invalid) async throws {
        let handler = TestHandler()
        let limits = ListenerLimits.forTests.with {
            $0.bodyBytes = 1000
            $0.headBytes = 4000
        }
        try await withListener(handler, limits: limits) { address in
            let client = try RawClient(address)
            client.send(invalid.request)
            let response = await client.textToEnd()
            expectEqual(response.status, invalid.status)
            expect(response.contains("\r\nConnection: close\r\n"))
            expect(response.contains("\r\nContent-Type: text/plain; charset=utf-8\r\n"))
            expect(response.body.hasSuffix("\n") && response.body.dropLast().allSatisfy { !$0.isNewline })
            // The next connection is served.
            let next = try RawClient(address)
            next.request("/next", "Connection: close")
            await expectEqual(next.textToEnd().status, 200)
        }
        expectEqual(handler.requests.withLock { $0.map { $0.head.target } }, ["/next"])
    }

    @Test func `an invalid request does not affect the response to an earlier one`() async throws {
        try await withListener { address in
            let client = try RawClient(address)
            client.send("GET /valid HTTP/1.1\r\nHost: a\r\n\r\nbad\r\n\r\n")
            let text = await client.textToEnd()
            expect(text.status == 200 && text.contains("GET /valid ") && text.contains("HTTP/1.1 400 "))
        }
    }

    @Test func `an incomplete request receives status 400`() async throws {
        let handler = TestHandler()
        try await withListener(handler) { address in
            for request in ["GET / HT", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"] {
                let client = try RawClient(address)
                client.send(request)
                client.stream.finishWriting()
                await expectEqual(client.textToEnd().status, 400)
            }
            let silent = try RawClient(address)
            silent.stream.finishWriting()
            await expect(silent.textToEnd().isEmpty)
        }
        expect(handler.requests.withLock { $0.isEmpty })
    }

    @Test(arguments: ["GET", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX: a"])
    func `a head that does not end receives status 408`(_ part: String) async throws {
        try await self.expectTimeout { client in client.send(part) }
    }

    /// Expects that a client that sends a part of a head receives the status 408. If the client's bytes arrive only after the time limit for a
    /// head, the limit is longer the next time.
    private func expectTimeout(_ send: (RawClient) async throws -> Void) async throws {
        for limit in [1, 4, 16, 64] {
            var text = ""
            try await withListener(limits: .forTests.with { $0.headTimeout = .seconds(limit) }) { address in
                let client = try RawClient(address)
                try await send(client)
                text = await client.textToEnd()
            }
            if text.contains("HTTP/1.1 408 ") { return }
        }
        Issue.record("no client receives the status 408")
    }

    /// Each byte arrives well within the timeout; only the whole head is late.
    @Test func `a head that arrives a byte at a time times out too`() async throws {
        try await self.expectTimeout { client in
            client.send("GET / HTTP/1.1\r\nHost: a\r\nX: ")
            while client.recorder.seen.ended == 0, !Task.isCancelled {
                client.send("a")
                for _ in 0..<50 { await EventLoop.shared.turn() }
            }
        }
    }

    @Test func `the head of a later request has the same timeout`() async throws {
        try await self.expectTimeout { client in
            client.request("/first")
            await client.text(until: "GET /first ")
            client.send("GET /second")
        }
    }

    @Test func `a silent client is disconnected without a response`() async throws {
        try await withListener(limits: .forTests.with { $0.headTimeout = .milliseconds(20) }) { address in
            let silent = try RawClient(address)
            await expect(silent.textToEnd().isEmpty)
        }
    }

    @Test func `a body that does not end receives status 408`() async throws {
        try await withListener(limits: .forTests.with { $0.bodyTimeout = .milliseconds(30) }) { address in
            let client = try RawClient(address)
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
            await expectEqual(client.textToEnd().status, 408)
        }
    }

    @Test func `an idle connection closes after the keep-alive timeout`() async throws {
        try await withListener(limits: .forTests.with { $0.keepAliveTimeout = .milliseconds(30) }) { address in
            let client = try RawClient(address)
            client.request("/only")
            let text = await client.textToEnd()
            expect(text.hasSuffix("GET /only "))
        }
    }

    @Test func `a slow response does not time out`() async throws {
        let waiting = Log<any HTTPResponder>()
        let limits = ListenerLimits.forTests.with {
            ($0.keepAliveTimeout, $0.stallTimeout) = (.milliseconds(10), .milliseconds(10))
        }
        try await withListener(TestHandler { _, _, responder in waiting.add(responder) }, limits: limits) { address in
            let client = try RawClient(address)
            await client.recorder.opened()
            client.request("/slow", "Connection: close")
            let responder = try #require(await waiting.wait(1).first)
            let alarm = Signal()
            EventLoop.shared.schedule(alarm, at: EventLoop.shared.now.advanced(by: .milliseconds(60)))
            await alarm.wait()
            responder.respond(HTTPResponse(status: 200, text: "at last"))
            await expectEqual(client.textToEnd().body, "at last")
        }
    }

    @Test(arguments: [true, false])
    func `a client that reads nothing is dropped`(_ isStreamed: Bool) async throws {
        let disconnected = Log<Bool>()
        let handler = TestHandler { _, _, responder in
            responder.onDisconnect { disconnected.add(true) }
            guard isStreamed else {
                return responder.respond(HTTPResponse(HTTPResponseHead(status: 200), body: [UInt8](repeating: 1, count: 32 << 20)))
            }
            responder.begin(HTTPResponseHead(status: 200))
            for _ in 0..<32 { responder.write([UInt8](repeating: 1, count: 1 << 20)) }
        }
        let limits = ListenerLimits.forTests.with { ($0.stallTimeout, $0.shutdownTimeout) = (.milliseconds(30), .milliseconds(30)) }
        try await withListener(handler, limits: limits) { address in
            let client = try RawClient(address)
            await client.recorder.opened()
            client.stream.pauseReading()
            client.request()
            if isStreamed { await disconnected.wait(1) }
            // Stopping the listener does not need the client to read or close.
        }
        expectEqual(disconnected.entries.count, (isStreamed ? 1 : 0))
    }

    @Test func `a client that reads slowly is not dropped`() {
        var stall = StallDetector()
        let results = [0, 1, 2, 2, 2, 3].map { stall.hasStalled(at: $0) }
        expectEqual(results, [false, false, false, true, true, false])
    }

    @Test func `a large streamed response arrives`() async throws {
        let handler = TestHandler { _, _, responder in
            responder.begin(HTTPResponseHead(status: 200))
            for _ in 0..<8 { responder.write([UInt8](repeating: 1, count: 1 << 20)) }
            responder.end()
        }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.request("/", "Connection: close")
            await expect(client.textToEnd().utf8.count > 8 << 20)
        }
    }

    @Test func `connections over the limit wait until another one closes`() async throws {
        try await withListener(limits: .forTests.with { $0.connections = 2 }) { address in
            let clients = try (0..<3).map { _ in try RawClient(address) }
            for client in clients[..<2] {
                client.request("/first")
                await client.text(until: "GET /first ")
            }
            clients[2].request("/third")
            expect(clients[2].recorder.seen.bytes.isEmpty)
            clients[0].close()
            await clients[2].text(until: "GET /third ")
            for client in clients { client.close() }
        }
    }

    @Test func `unread responses delay pipelined requests`() async throws {
        let response = [UInt8](repeating: 1, count: 512 << 10)
        let served = Log<String>()
        let handler = TestHandler { head, _, responder in
            served.add(head.target)
            responder.respond(HTTPResponse(HTTPResponseHead(status: 200), body: response))
        }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            await client.recorder.opened()
            client.stream.pauseReading()
            client.send((1...100).map { "GET /\($0) HTTP/1.1\r\nHost: a\r\n\r\n" }.joined())
            await served.wait(1)
            for _ in 0..<20 { await EventLoop.shared.turn() }
            // The system's buffers take some of the responses, but not all 50 MB.
            expect(served.entries.count < 50)
            client.stream.resumeReading()
            await expectEqual(served.wait(100).last, "/100")
            client.close()
        }
    }

    @Test func `a body over the limit is rejected while the client still sends`() async throws {
        try await withListener(limits: .forTests.with { $0.bodyBytes = 1000 }) { address in
            let client = try RawClient(address)
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 33554432\r\n\r\n")
            client.stream.send([UInt8](repeating: 0, count: 32 << 20))
            await expectEqual(client.text(until: "\r\n\r\n").status, 413)
            client.close()
        }
    }
}
