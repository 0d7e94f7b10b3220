import RealtimeSystem
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// Complete responses, whose bodies have to make progress.
@Suite struct AnswerLimitTests {
    /// A transport without a limit for silence, whose exchanges the test answers.
    private final class Script: HTTPExchangeTransport {
        final class Exchange: TimedExchange {
            let request: HTTPRequest
            let time: (any TimeSource)?
            let isCancelled = Lock(false)
            private let events: any HTTPExchangeEvents
            private let id: ExchangeID

            init(_ request: HTTPRequest, _ id: ExchangeID, _ events: any HTTPExchangeEvents, _ time: any TimeSource) {
                (self.request, self.id, self.events, self.time) = (request, id, events, time)
            }

            func start() {
                if self.request.endpoint.path == "/silent" { return }
                guard self.request.endpoint.path == "/moved" else {
                    return self.events.received(HTTPResponseHead(status: 200), of: self.id)
                }
                self.events.received(HTTPResponseHead(status: 307, headers: ["Location": "/"]), of: self.id)
                self.end()
            }

            func write(_ count: Int) { self.events.received([UInt8](repeating: UInt8(ascii: "a"), count: count), of: self.id) }
            func end() { self.events.ended(self.id, nil) }
            func pauseReading() {}
            func resumeReading() {}
            func cancel() { self.isCancelled.withLock { $0 = true } }
        }

        let clock = ManualClock(standstillLimit: nil)
        let exchanges = EventRecorder<Exchange>()
        let results = EventRecorder<Result<HTTPResponse, TransportError>>()

        func makeExchange(_ request: HTTPRequest, id: ExchangeID, events: any HTTPExchangeEvents) -> any HTTPExchange {
            let exchange = Exchange(request, id, events, self.clock.time)
            self.exchanges.record(exchange)
            return exchange
        }

        /// Sends a request with a limit of 10 seconds, whose head is answered, and waits until the rest has its limit.
        func begin(_ path: String = "/", over transport: (any HTTPTransport)? = nil) async throws -> Exchange {
            let endpoint = try Endpoint("https://example.com\(path)")
            let body = [UInt8](repeating: 1, count: path == "/silent" ? 2048 : 1)
            let request = HTTPRequest("POST", endpoint, body: body, idleTimeout: .seconds(10))
            let client = RedirectingHTTP(transport ?? self, time: self.clock.time, cookies: RedirectingHTTP.Cookies())
            Task {
                do throws(TransportError) {
                    self.results.record(.success(try await client.sendFollowingRedirects(request).response))
                } catch {
                    self.results.record(.failure(error))
                }
            }
            try await eventually { self.clock.untilNextDeadline != nil }
            return try #require(self.exchanges.all.last)
        }

        func result() async throws -> Result<HTTPResponse, TransportError> {
            try await eventually { !self.results.all.isEmpty }
            return self.results.all[0]
        }
    }

    private static func expectTooSlow(_ result: Result<HTTPResponse, TransportError>) {
        let message =
            "https://example.com/ timed out: its answer arrives at less than 1 KiB per second. Check the server, and any proxies before it."
        guard case .failure(let error) = result else { return expect(false, "The answer was accepted.") }
        expectEqual(error.code, .timedOut)
        expectEqual(error.message, message)
    }

    @Test func `an answer that arrives a byte now and then ends with an error, and its connection with it`() async throws {
        let script = Script()
        let exchange = try await script.begin()
        exchange.write(1)
        script.clock.advance(by: .seconds(5))
        exchange.write(1)
        script.clock.advance(by: .milliseconds(4_999))
        exchange.write(1)
        expect(!exchange.isCancelled.withLock { $0 })
        script.clock.advance(by: .milliseconds(1))
        try await Self.expectTooSlow(script.result())
        expect(exchange.isCancelled.withLock { $0 } && script.clock.untilNextDeadline == nil)
        // Late events of the transport.
        exchange.write(1)
        exchange.end()
    }

    @Test func `each KiB that has arrived takes a second more`() async throws {
        let script = Script()
        let exchange = try await script.begin()
        exchange.write(2_047)
        script.clock.advance(by: .milliseconds(10_999))
        exchange.write(2_049)
        script.clock.advance(by: .seconds(3))
        expect(!exchange.isCancelled.withLock { $0 })
        script.clock.advance(by: .milliseconds(1))
        try await Self.expectTooSlow(script.result())
    }

    @Test func `a large answer may arrive slowly, and leaves no timer`() async throws {
        let script = Script()
        let exchange = try await script.begin()
        for _ in 0..<300 {
            exchange.write(1_024)
            script.clock.advance(by: .seconds(1))
        }
        exchange.end()
        try await expectEqual(script.result().get().body.count, 300 << 10)
        expectNil(script.clock.untilNextDeadline)
    }

    @Test func `the limit starts again after the process stood still`() async throws {
        let script = Script()
        let exchange = try await script.begin()
        script.clock.standStill(for: .seconds(3_600))
        script.clock.advance(by: .seconds(9))
        expect(!exchange.isCancelled.withLock { $0 })
        script.clock.advance(by: .seconds(1))
        try await Self.expectTooSlow(script.result())
    }

    @Test func `bytes that arrived before a standstill don't make the limit after it longer`() async throws {
        let script = Script()
        let exchange = try await script.begin()
        exchange.write(200 << 10)
        script.clock.standStill(for: .seconds(3_600))
        script.clock.advance(by: .seconds(9))
        expect(!exchange.isCancelled.withLock { $0 })
        script.clock.advance(by: .seconds(1))
        try await Self.expectTooSlow(script.result())
    }

    @Test func `an answer whose head isn't complete in time ends with an error`() async throws {
        let script = Script()
        let exchange = try await script.begin("/silent")
        // The time for a connection, the time for the answer, and a second for each KiB of the request.
        script.clock.advance(by: .milliseconds(21_999))
        expect(!exchange.isCancelled.withLock { $0 })
        script.clock.advance(by: .milliseconds(1))
        let error = await #expect(throws: TransportError.self) { try await script.result().get() }
        expect(
            error?.code == .timedOut && error?.message.contains("the head of its answer wasn't complete") == true, "\(error?.message ?? "")"
        )
        expect(exchange.isCancelled.withLock { $0 } && script.clock.untilNextDeadline == nil)
    }

    @Test func `a redirect leaves the rest of the answer the time of the request`() async throws {
        let script = Script()
        let exchange = try await script.begin("/moved")
        expectEqual(script.exchanges.all.count, 2)
        expectEqual(script.clock.untilNextDeadline, .seconds(10))
        exchange.end()
        try await expectEqual(script.result().get().head.status, 200)
    }

    @Test func `a traced transport has the same limit`() async throws {
        let script = Script()
        let exchange = try await script.begin(over: TracingHTTPTransport(script) { _ in { _ in } })
        exchange.write(1)
        script.clock.advance(by: .seconds(10))
        try await Self.expectTooSlow(script.result())
        expect(exchange.isCancelled.withLock { $0 })
    }

    // MARK: Transports of an application

    /// A body that arrives at given seconds.
    private final class ScriptedBody: HTTPBody {
        let second = Lock(0)
        private let arrivals: Lock<ArraySlice<(second: Int, count: Int)>>

        init(_ arrivals: [(second: Int, count: Int)]) {
            self.arrivals = Lock(arrivals[...])
        }

        func next() async throws(TransportError) -> [UInt8]? {
            guard let arrival = self.arrivals.withLock({ $0.popFirst() }) else { return nil }
            self.second.withLock { $0 = arrival.second }
            return [UInt8](repeating: 0, count: arrival.count)
        }
    }

    @Test(arguments: [
        ([(0, 1), (5, 1), (9, 1)], 3), ([(0, 1), (5, 1), (10, 1), (15, 1)], nil), ([(5, 2_048), (11, 1)], 2_049),
        ([(5, 2_046), (11, 1)], nil),
        ([(5, 1), (3_600, 1), (3_609, 1)], 3), ([(5, 1), (3_600, 1), (3_605, 1), (3_610, 1)], nil), ([], 0),
    ])
    func `the body of a transport without a clock is checked as it arrives`(
        row: (arrivals: [(second: Int, count: Int)], size: Int?)
    ) async throws {
        let body = ScriptedBody(row.arrivals)
        let response = HTTPStreamedResponse(HTTPResponseHead(status: 200), body: body)
        let endpoint = try Endpoint("https://example.com/")
        let result: Result<HTTPResponse, TransportError>
        do throws(TransportError) {
            result = .success(
                try await response.complete(from: endpoint, idleTimeout: .seconds(10)) {
                    Instant(nanoseconds: 0).advanced(by: .seconds(body.second.withLock { $0 }))
                })
        } catch {
            result = .failure(error)
        }
        if let size = row.size { try expectEqual(result.get().body.count, size) } else { Self.expectTooSlow(result) }
    }
}
