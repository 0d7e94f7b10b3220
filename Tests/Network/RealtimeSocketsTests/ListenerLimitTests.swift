import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(5)))
struct ListenerLimitTests {
    struct Bad: Sendable, CustomTestStringConvertible {
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

    static let bad: [Bad] = [
        Bad("no HTTP", "hello\r\n\r\n", 400),
        Bad("TLS on a plain port", "\u{16}\u{3}\u{1}\u{0}\r\n\r\n", 400),
        Bad("no host", "GET / HTTP/1.1\r\n\r\n", 400),
        Bad("two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        Bad("no path", "GET path HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Bad("a star for GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        Bad("no colon", "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400),
        Bad("a space before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        Bad("bare line feeds", "GET / HTTP/1.1\nHost: a\n\n", 400),
        Bad("both kinds of length", post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        Bad("two lengths", post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
        Bad("a bad chunk", post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        Bad("a proxy's method", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        Bad("a body over the limit by its length", post + "Content-Length: 1001\r\n\r\n", 413),
        Bad(
            "a body over the limit in chunks", post + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n\(String(repeating: "b", count: 1001))", 413
        ),
        Bad("a long address", "GET /\(String(repeating: "a", count: 1100)) HTTP/1.1\r\n", 414),
        Bad("another expectation", post + "Expect: wonders\r\nContent-Length: 3\r\n\r\n", 417),
        Bad("a long line", "GET / HTTP/1.1\r\nHost: a\r\nX: \(String(repeating: "a", count: 1100))", 431),
        Bad(
            "a long head",
            "GET / HTTP/1.1\r\nHost: a\r\n\(String(repeating: "X: \(String(repeating: "a", count: 90))\r\n", count: 50))\r\n", 431),
        Bad("many fields", "GET / HTTP/1.1\r\nHost: a\r\n\(String(repeating: "X:\r\n", count: 300))\r\n", 431),
        Bad("another transfer coding", post + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
        Bad("another version", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    ]

    @Test(arguments: Self.bad)
    func `a bad request is answered with its status and ends the connection`(_ bad: Bad) async throws {
        let handler = TestHandler()
        let limits = ListenerLimits.forTests.with {
            $0.bodyBytes = 1000
            $0.headBytes = 4000
        }
        try await withListener(handler, limits: limits) { address in
            let client = try RawClient(address)
            client.send(bad.request)
            let answer = await client.whole()
            #expect(answer.status == bad.status)
            #expect(answer.contains("\r\nConnection: close\r\n"))
            #expect(answer.contains("\r\nContent-Type: text/plain; charset=utf-8\r\n"))
            #expect(answer.body.hasSuffix("\n") && answer.body.dropLast().allSatisfy { !$0.isNewline })
            // The next one is served.
            let next = try RawClient(address)
            next.request("/next", "Connection: close")
            #expect(await next.whole().status == 200)
        }
        #expect(handler.requests.withLock { $0.map { $0.head.target } } == ["/next"])
    }

    @Test func `a bad request behind a good one does not take its answer away`() async throws {
        try await withListener { address in
            let client = try RawClient(address)
            client.send("GET /good HTTP/1.1\r\nHost: a\r\n\r\nbad\r\n\r\n")
            let text = await client.whole()
            #expect(text.status == 200 && text.contains("GET /good ") && text.contains("HTTP/1.1 400 "))
        }
    }

    @Test func `a request that is cut off is answered as bad`() async throws {
        let handler = TestHandler()
        try await withListener(handler) { address in
            for request in ["GET / HT", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"] {
                let client = try RawClient(address)
                client.send(request)
                client.stream.finishWriting()
                #expect(await client.whole().status == 400)
            }
            let silent = try RawClient(address)
            silent.stream.finishWriting()
            #expect(await silent.whole().isEmpty)
        }
        #expect(handler.requests.withLock { $0.isEmpty })
    }

    @Test(arguments: ["GET", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\nX: a"])
    func `a head that does not end is answered with 408`(_ part: String) async throws {
        try await withListener(limits: .forTests.with { $0.headTime = .seconds(2) }) { address in
            let client = try RawClient(address)
            client.send(part)
            #expect(await client.whole().status == 408)
        }
    }

    /// Each byte comes well before any limit; only all of them together are late.
    @Test func `a head that comes a byte at a time is no longer waited for either`() async throws {
        try await withListener(limits: .forTests.with { $0.headTime = .milliseconds(500) }) { address in
            let client = try RawClient(address)
            client.send("GET / HTTP/1.1\r\nHost: a\r\nX: ")
            while client.recorder.seen.ended == 0, !Task.isCancelled {
                client.send("a")
                for _ in 0..<50 { await EventLoop.shared.turn() }
            }
            #expect(await client.whole().status == 408)
        }
    }

    @Test func `a later head has the same limit`() async throws {
        try await withListener(limits: .forTests.with { $0.headTime = .seconds(2) }) { address in
            let client = try RawClient(address)
            client.request("/first")
            await client.text(until: "GET /first ")
            client.send("GET /second")
            #expect(await client.whole().contains("HTTP/1.1 408 "))
        }
    }

    @Test func `a client that says nothing is left without a word`() async throws {
        try await withListener(limits: .forTests.with { $0.headTime = .milliseconds(20) }) { address in
            let silent = try RawClient(address)
            #expect(await silent.whole().isEmpty)
        }
    }

    @Test func `a body that does not end is answered with 408`() async throws {
        try await withListener(limits: .forTests.with { $0.bodyTime = .milliseconds(30) }) { address in
            let client = try RawClient(address)
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
            #expect(await client.whole().status == 408)
        }
    }

    @Test func `an idle connection ends`() async throws {
        try await withListener(limits: .forTests.with { $0.idleTime = .milliseconds(30) }) { address in
            let client = try RawClient(address)
            client.request("/only")
            let text = await client.whole()
            #expect(text.hasSuffix("GET /only "))
        }
    }

    @Test func `a slow answer falls under no limit`() async throws {
        let waiting = Log<any HTTPResponder>()
        let limits = ListenerLimits.forTests.with {
            ($0.idleTime, $0.stallTime) = (.milliseconds(10), .milliseconds(10))
        }
        try await withListener(TestHandler { _, _, responder in waiting.add(responder) }, limits: limits) { address in
            let client = try RawClient(address)
            await client.recorder.opened()
            client.request("/slow", "Connection: close")
            let responder = try #require(await waiting.wait(1).first)
            let alarm = Completion()
            EventLoop.shared.schedule(alarm, at: EventLoop.shared.now.advanced(by: .milliseconds(60)))
            await alarm.wait()
            responder.respond(HTTPResponse(status: 200, text: "at last"))
            #expect(await client.whole().body == "at last")
        }
    }

    @Test(arguments: [true, false])
    func `a client that reads nothing is cut off`(_ isStreamed: Bool) async throws {
        let gone = Log<Bool>()
        let handler = TestHandler { _, _, responder in
            responder.onDisconnect { gone.add(true) }
            guard isStreamed else {
                return responder.respond(HTTPResponse(HTTPResponseHead(status: 200), body: [UInt8](repeating: 1, count: 32 << 20)))
            }
            responder.begin(HTTPResponseHead(status: 200))
            for _ in 0..<32 { responder.write([UInt8](repeating: 1, count: 1 << 20)) }
        }
        let limits = ListenerLimits.forTests.with { ($0.stallTime, $0.stopTime) = (.milliseconds(30), .milliseconds(30)) }
        try await withListener(handler, limits: limits) { address in
            let client = try RawClient(address)
            await client.recorder.opened()
            client.stream.pauseReading()
            client.request()
            if isStreamed { await gone.wait(1) }
            // The listener's own stop needs nothing of this client any more.
        }
        #expect(gone.entries.count == (isStreamed ? 1 : 0))
    }

    @Test func `a client that reads slowly is not cut off`() {
        var progress = WriteProgress()
        let outcomes = [0, 1, 2, 2, 2, 3].map { progress.hasStalled(at: $0) }
        #expect(outcomes == [false, false, false, true, true, false])
    }

    @Test func `a large answer in pieces arrives`() async throws {
        let handler = TestHandler { _, _, responder in
            responder.begin(HTTPResponseHead(status: 200))
            for _ in 0..<8 { responder.write([UInt8](repeating: 1, count: 1 << 20)) }
            responder.end()
        }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.request("/", "Connection: close")
            #expect(await client.whole().utf8.count > 8 << 20)
        }
    }

    @Test func `connections over the limit wait`() async throws {
        try await withListener(limits: .forTests.with { $0.connections = 2 }) { address in
            let clients = try (0..<3).map { _ in try RawClient(address) }
            for client in clients[..<2] {
                client.request("/first")
                await client.text(until: "GET /first ")
            }
            clients[2].request("/third")
            #expect(clients[2].recorder.seen.bytes.isEmpty)
            clients[0].close()
            await clients[2].text(until: "GET /third ")
            for client in clients { client.close() }
        }
    }

    @Test func `answers that nobody reads hold back the next requests`() async throws {
        let answer = [UInt8](repeating: 1, count: 512 << 10)
        let served = Log<String>()
        let handler = TestHandler { head, _, responder in
            served.add(head.target)
            responder.respond(HTTPResponse(HTTPResponseHead(status: 200), body: answer))
        }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            await client.recorder.opened()
            client.stream.pauseReading()
            client.send((1...100).map { "GET /\($0) HTTP/1.1\r\nHost: a\r\n\r\n" }.joined())
            await served.wait(1)
            for _ in 0..<20 { await EventLoop.shared.turn() }
            // The system's own buffers take some; not all of fifty megabytes.
            #expect(served.entries.count < 50)
            client.stream.resumeReading()
            #expect(await served.wait(100).last == "/100")
            client.close()
        }
    }

    @Test func `a body over the limit is answered while the client still sends`() async throws {
        try await withListener(limits: .forTests.with { $0.bodyBytes = 1000 }) { address in
            let client = try RawClient(address)
            client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 33554432\r\n\r\n")
            client.stream.send([UInt8](repeating: 0, count: 32 << 20))
            #expect(await client.text(until: "\r\n\r\n").status == 413)
            client.close()
        }
    }
}
