import RealtimeSystem
import RealtimeCore
import RealtimeSockets
import RealtimeURLSession
import RealtimeTesting
import TestSupport
import Testing

/// Tests of the HTTP transport. WebSockets are not tested: swift-corelibs-foundation does not fully support them.
@Suite(.usesSockets) struct URLSessionHTTPTests {
    private final class Handler: ListenerHandler {
        /// Consecutive numbers, so that no two parts are equal.
        static let longBody = (0..<500_000).flatMap { number in withUnsafeBytes(of: UInt32(number).bigEndian) { Array($0) } }

        let requests = Lock<[(head: HTTPRequestHead, body: [UInt8])]>([])
        /// Sends the second half of the long response.
        let rest = Lock<(@Sendable () -> Void)?>(nil)

        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
            self.requests.withLock { $0.append((request, body)) }
            switch request.path {
            case "/redirect":
                responder.respond(HTTPResponse(HTTPResponseHead(status: 302, headers: ["Location": "/elsewhere", "Content-Length": "0"])))
            case "/long":
                responder.begin(HTTPResponseHead(status: 200))
                // Set before the first half is written: its reader calls the closure.
                self.rest.withLock {
                    $0 = {
                        responder.write(Array(Self.longBody.dropFirst(1_000_000)))
                        responder.end()
                    }
                }
                responder.write(Array(Self.longBody.prefix(1_000_000)))
            case "/silent": break
            case "/begun":
                responder.begin(HTTPResponseHead(status: 200))
                responder.write([1, 2, 3])
            default: responder.respond(HTTPResponse(status: 418, headers: ["X-Echo": "yes"], text: String(decoding: body, as: UTF8.self)))
            }
        }

        func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .reject(HTTPResponse(status: 400)) }
    }

    private func withServer(_ body: (Endpoint, Handler) async throws -> Void) async throws {
        let listener = SocketListener()
        let handler = Handler()
        let address = try await listener.start(handler)
        do {
            try await body(Endpoint(scheme: "http", host: address.host, port: address.port), handler)
        } catch {
            await listener.stop()
            throw error
        }
        await listener.stop()
    }

    private func endpoint(_ base: Endpoint, _ target: String) -> Endpoint {
        Endpoint(scheme: base.scheme, host: base.host, port: base.port, target: target)
    }

    @Test func `a request is sent and its response is received`() async throws {
        try await self.withServer { base, handler in
            let request = HTTPRequest("POST", self.endpoint(base, "/echo?a=b%20c"), headers: ["X-Token": "t"], body: Array("body".utf8))
            let response = try await URLSessionHTTPTransport().send(request)
            expectEqual(response.head.status, 418)
            expectEqual(response.head.headers["x-echo"], "yes")
            expectEqual(response.body, Array("body".utf8))
            let seen = handler.requests.withLock { $0 }
            expectEqual(seen.map(\.head.target), ["/echo?a=b%20c"])
            expectEqual(seen.map(\.head.method), ["POST"])
            expectEqual(seen.first?.head.headers["X-Token"], "t")
            expectNil(seen.first?.head.headers["Cookie"])
        }
    }

    @Test func `a redirect is returned and not followed`() async throws {
        try await self.withServer { base, handler in
            let response = try await URLSessionHTTPTransport().send(HTTPRequest("GET", self.endpoint(base, "/redirect")))
            expectEqual(response.head.status, 302)
            expectEqual(handler.requests.withLock { $0.count }, 1)
        }
    }

    @Test func `a long body that is read slowly arrives in full and only once`() async throws {
        try await self.withServer { base, handler in
            let response = try await URLSessionHTTPTransport().open(HTTPRequest("POST", self.endpoint(base, "/long"), body: [1]))
            var body: [UInt8] = []
            while let piece = try await response.body.next() {
                expect(!piece.isEmpty)
                body += piece
                if body.count >= 500_000, let rest = handler.rest.withLock({ $0.take() }) { rest() }
                for _ in 0..<10 { await Task.yield() }
            }
            expectEqual(body.count, 2_000_000)
            expectEqual(body, Handler.longBody)
            expectEqual(handler.requests.withLock { $0.count }, 1)
        }
    }

    @Test func `an exchange reports a response as it arrives, and can be cancelled`() async throws {
        try await self.withServer { base, handler in
            let transport = URLSessionHTTPTransport()
            let (whole, begun) = (RecordedExchange(), RecordedExchange())
            let request = HTTPRequest("POST", self.endpoint(base, "/echo"), body: Array("body".utf8))
            transport.makeExchange(request, id: ExchangeID(rawValue: 1), events: whole).start()
            try await eventually { whole.events == [.head(418), .body("body"), .ended(nil)] }
            let exchange = transport.makeExchange(
                HTTPRequest("GET", self.endpoint(base, "/begun")), id: ExchangeID(rawValue: 2), events: begun)
            exchange.start()
            try await eventually { begun.body == "\u{1}\u{2}\u{3}" }
            exchange.cancel()
            exchange.start()
            expect(begun.events.count == 2 && handler.requests.withLock { $0.count } == 2)
        }
    }

    @Test func `a refused connection is reported`() async throws {
        // The system never assigns this port to a test.
        let unused = Endpoint(scheme: "http", host: "127.0.0.1", port: 1)
        let error = await #expect(throws: TransportError.self) { try await URLSessionHTTPTransport().open(HTTPRequest("GET", unused)) }
        expectEqual(error?.code, .refused)
    }

    @Test func `cancelling ends the wait for the head and for the body`() async throws {
        try await self.withServer { base, _ in
            let waiting = Task { try await URLSessionHTTPTransport().open(HTTPRequest("GET", self.endpoint(base, "/silent"))) }
            waiting.cancel()
            let error = await #expect(throws: TransportError.self) { try await waiting.value }
            expectEqual(error?.code, .cancelled)
            let response = try await URLSessionHTTPTransport().open(HTTPRequest("GET", self.endpoint(base, "/begun")))
            try await expectEqual(response.body.next(), [1, 2, 3])
            let reading = Task { try await response.body.next() }
            reading.cancel()
            let second = await #expect(throws: TransportError.self) { try await reading.value }
            expectEqual(second?.code, .cancelled)
        }
    }
}

@Suite struct SystemTimeTests {
    private final class Alarm: TimerClient {
        let stream: AsyncStream<Void>
        private let continuation: AsyncStream<Void>.Continuation

        init() { (self.stream, self.continuation) = AsyncStream<Void>.makeStream() }

        func timerFired() { self.continuation.yield() }
    }

    @Test func `a timer fires at its instant and not earlier`() async {
        let time = SystemTime()
        let alarm = Alarm()
        let start = time.now
        time.schedule(alarm, at: start.advanced(by: .seconds(3600)))
        time.schedule(alarm, at: start.advanced(by: .milliseconds(20)))
        for await _ in alarm.stream { break }
        expect(time.now >= start.advanced(by: .milliseconds(20)))
    }

    @Test func `timers fire in order and a cancelled timer does not fire`() async {
        let time = SystemTime()
        let (first, second, never) = (Alarm(), Alarm(), Alarm())
        let start = time.now
        time.schedule(second, at: start.advanced(by: .milliseconds(30)))
        time.schedule(never, at: start.advanced(by: .milliseconds(1)))
        time.schedule(never, at: nil)
        time.schedule(first, at: start.advanced(by: .milliseconds(5)))
        for await _ in first.stream { break }
        expect(time.now >= start.advanced(by: .milliseconds(5)))
        for await _ in second.stream { break }
        expect(time.now >= start.advanced(by: .milliseconds(30)))
    }
}
