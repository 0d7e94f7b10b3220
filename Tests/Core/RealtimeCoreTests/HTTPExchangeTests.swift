import RealtimeSystem
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// HTTP exchanges over the in-memory network, and over a transport that only has `open(_:)`.
@Suite struct HTTPExchangeTests {
    /// A server that keeps its responders.
    private final class Handler: ListenerHandler {
        let responders = EventRecorder<any HTTPResponder>()
        let bodies = EventRecorder<[UInt8]>()

        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
            self.bodies.record(body)
            self.responders.record(responder)
            if request.path == "/now" { responder.respond(HTTPResponse(status: 200, text: "now")) }
        }

        func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .reject(HTTPResponse(status: 400)) }
    }

    /// A network with a server, and an exchange with it.
    private final class Fixture: Sendable {
        let clock = ManualClock()
        let network: InMemoryNetwork
        let listener: InMemoryListener
        let handler = Handler()
        let endpoint: Endpoint
        let disconnects = EventRecorder<Bool>()
        let changes = EventRecorder<Bool>()

        init() async throws {
            self.network = InMemoryNetwork(clock: self.clock)
            self.listener = self.network.listener()
            let address = try await self.listener.start(self.handler)
            self.endpoint = Endpoint(scheme: "http", host: address.host, port: address.port)
        }

        func exchange(_ events: RecordedExchange, at target: String = "/") throws -> any HTTPExchange {
            let endpoint = Endpoint(scheme: "http", host: self.endpoint.host, port: self.endpoint.port, target: target)
            let transport = try #require(self.network.http as? any HTTPExchangeTransport)
            let request = HTTPRequest("POST", endpoint, body: [1], idleTimeout: .seconds(5))
            return transport.makeExchange(request, id: ExchangeID(rawValue: 1), events: events)
        }

        /// Starts an exchange, and begins a response.
        func streaming(_ events: RecordedExchange) throws -> (any HTTPExchange, any HTTPResponder) {
            let exchange = try self.exchange(events)
            exchange.start()
            let responder = try #require(self.handler.responders.all.last)
            responder.onDisconnect { self.disconnects.record(true) }
            responder.onWriting { self.changes.record($0) }
            responder.begin(HTTPResponseHead(status: 200))
            return (exchange, responder)
        }
    }

    // MARK: In memory

    @Test func `an exchange is complete when its start returns`() async throws {
        let fixture = try await Fixture()
        let events = RecordedExchange()
        try fixture.exchange(events, at: "/now").start()
        expectEqual(events.events, [.head(200), .body("now"), .ended(nil)])
        expectEqual(fixture.handler.bodies.all, [[1]])
    }

    @Test func `each part of a response is delivered before the server's call returns`() async throws {
        let fixture = try await Fixture()
        let events = RecordedExchange()
        let (_, responder) = try fixture.streaming(events)
        expectEqual(events.events, [.head(200)])
        responder.write(Array("a".utf8))
        expectEqual(events.events, [.head(200), .body("a")])
        responder.end()
        responder.write(Array("b".utf8))
        expectEqual(events.events, [.head(200), .body("a"), .ended(nil)])
        expect(fixture.disconnects.all.isEmpty)
    }

    @Test func `a second start has no effect`() async throws {
        let fixture = try await Fixture()
        let events = RecordedExchange()
        let exchange = try fixture.exchange(events, at: "/now")
        exchange.start()
        exchange.start()
        expectEqual(fixture.handler.bodies.all.count, 1)
        expectEqual(events.events.count, 3)
    }

    @Test func `an exchange that was cancelled has no events, and the server is notified`() async throws {
        let fixture = try await Fixture()
        let events = RecordedExchange()
        let (exchange, responder) = try fixture.streaming(events)
        exchange.cancel()
        expectEqual(fixture.disconnects.all, [true])
        responder.write(Array("late".utf8))
        responder.end()
        expectEqual(events.events, [.head(200)])
        let unstarted = RecordedExchange()
        let other = try fixture.exchange(unstarted, at: "/now")
        other.cancel()
        other.start()
        expect(unstarted.events.isEmpty && fixture.handler.bodies.all.count == 1)
    }

    @Test func `an exchange can be cancelled while an event is delivered`() async throws {
        let fixture = try await Fixture()
        let running = Lock<(any HTTPExchange)?>(nil)
        let events = RecordedExchange { _ in running.withLock { $0 }?.cancel() }
        let exchange = try fixture.exchange(events, at: "/now")
        running.withLock { $0 = exchange }
        exchange.start()
        expectEqual(events.events, [.head(200)])
        running.withLock { $0 = nil }
    }

    @Test func `cutting the network ends exchanges on both sides`() async throws {
        let fixture = try await Fixture()
        let events = RecordedExchange()
        _ = try fixture.streaming(events)
        fixture.network.cut()
        expectEqual(events.events, [.head(200), .ended(.reset)])
        expectEqual(fixture.disconnects.all, [true])
    }

    @Test func `stopping a listener ends its responses after what was written`() async throws {
        let fixture = try await Fixture()
        let events = RecordedExchange()
        let (exchange, responder) = try fixture.streaming(events)
        exchange.pauseReading()
        responder.write(Array("a".utf8))
        exchange.resumeReading()
        await fixture.listener.stop()
        expectEqual(events.events, [.head(200), .body("a"), .ended(.closed)])
        expectEqual(events.error?.message, "\(fixture.endpoint.origin) ended the response: the server is shutting down.")
        expectEqual(fixture.disconnects.all, [true])
    }

    @Test func `a network that is down refuses new exchanges only`() async throws {
        let fixture = try await Fixture()
        let events = RecordedExchange()
        let (_, responder) = try fixture.streaming(events)
        fixture.network.condition = .down
        let refused = RecordedExchange()
        try fixture.exchange(refused, at: "/now").start()
        expectEqual(refused.events, [.ended(.unreachable)])
        responder.end()
        expectEqual(events.events, [.head(200), .ended(nil)])
    }

    @Test func `what a silent network loses never arrives, and the idle timeout ends the exchange`() async throws {
        let fixture = try await Fixture()
        let events = RecordedExchange()
        let (_, responder) = try fixture.streaming(events)
        fixture.network.condition = .silent
        responder.write(Array("lost".utf8))
        fixture.network.condition = .up
        responder.write(Array("behind a gap".utf8))
        responder.end()
        expectEqual(events.events, [.head(200)])
        fixture.clock.advance(by: .seconds(5))
        expectEqual(events.events, [.head(200), .ended(.timedOut)])
    }

    @Test func `a request on a silent network times out`() async throws {
        let fixture = try await Fixture()
        fixture.network.condition = .silent
        let events = RecordedExchange()
        let exchange = try fixture.exchange(events, at: "/now")
        exchange.start()
        expect(events.events.isEmpty && fixture.handler.bodies.all.isEmpty)
        fixture.clock.advance(by: .seconds(5))
        expectEqual(events.events, [.ended(.timedOut)])
    }

    @Test func `the idle timeout starts again with each part, and doesn't apply while reading is paused`() async throws {
        let fixture = try await Fixture()
        let events = RecordedExchange()
        let (exchange, responder) = try fixture.streaming(events)
        fixture.clock.advance(by: .seconds(4))
        responder.write(Array("a".utf8))
        fixture.clock.advance(by: .seconds(4))
        exchange.pauseReading()
        fixture.clock.advance(by: .seconds(60))
        expectEqual(events.events, [.head(200), .body("a")])
        exchange.resumeReading()
        fixture.clock.advance(by: .seconds(4))
        expect(!events.hasEnded)
        fixture.clock.advance(by: .seconds(1))
        expectEqual(events.events, [.head(200), .body("a"), .ended(.timedOut)])
        expectEqual(fixture.disconnects.all, [true])
    }

    @Test func `a client that pauses reading pauses the writer at a limit`() async throws {
        let fixture = try await Fixture()
        let events = RecordedExchange()
        let (exchange, responder) = try fixture.streaming(events)
        exchange.pauseReading()
        let part = [UInt8](repeating: 0x61, count: 200 << 10)
        responder.write(part)
        expect(fixture.changes.all.isEmpty)
        responder.write(part)
        expectEqual(fixture.changes.all, [true])
        expectEqual(events.events, [.head(200)])
        exchange.resumeReading()
        expectEqual(fixture.changes.all, [true, false])
        expectEqual(events.body.utf8.count, 400 << 10)
    }

    @Test func `a server's task waits while its client has paused reading`() async throws {
        let fixture = try await Fixture()
        let events = RecordedExchange()
        let (exchange, responder) = try fixture.streaming(events)
        exchange.pauseReading()
        let sent = EventRecorder<Int>()
        let writing = Task {
            for part in 0..<3 {
                try await responder.send([UInt8](repeating: 0x61, count: 200 << 10))
                sent.record(part)
            }
        }
        // The second part exceeds the limit.
        try await eventually { fixture.changes.all == [true] && sent.all == [0, 1] }
        for _ in 0..<100 { await Task.yield() }
        expectEqual(sent.all, [0, 1])
        exchange.resumeReading()
        try await writing.value
        expectEqual(events.body.utf8.count, 600 << 10)

        exchange.pauseReading()
        let waiting = Task {
            while true { try await responder.send([UInt8](repeating: 0x61, count: 200 << 10)) }
        }
        try await eventually { fixture.changes.all == [true, false, true] }
        exchange.cancel()
        let error = await #expect(throws: TransportError.self) { try await waiting.value }
        expectEqual(error?.code, .closed)
    }

    @Test func `a response beyond the limit of the network ends the exchange`() async throws {
        let fixture = try await Fixture()
        fixture.network.messageBacklogBytes = 1000
        let events = RecordedExchange()
        let (exchange, responder) = try fixture.streaming(events)
        exchange.pauseReading()
        for _ in 0..<3 { responder.write([UInt8](repeating: 0x61, count: 600)) }
        expectEqual(events.events, [.head(200), .ended(.reset)])
        expectEqual(fixture.disconnects.all, [true])
    }

    @Test func `a client that reads receives more than the limit, even if it piles up while an event is processed`() async throws {
        let fixture = try await Fixture()
        fixture.network.messageBacklogBytes = 1000
        let handler = fixture.handler
        let events = RecordedExchange { event in
            // The network delivers nothing else before this call returns.
            if event == .body("start") { for _ in 0..<5 { handler.responders.all.last?.write([UInt8](repeating: 0x61, count: 600)) } }
        }
        let (exchange, responder) = try fixture.streaming(events)
        responder.write(Array("start".utf8))
        expect(events.body.utf8.count == 5 + 3_000 && !events.hasEnded)
        exchange.cancel()
    }

    // MARK: Over open(_:)

    /// A transport of an application's own, without exchanges.
    private struct Wrapped: HTTPTransport {
        let http: any HTTPTransport

        func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse { try await self.http.open(request) }
    }

    @Test func `a transport without exchanges reports a response as it arrives`() async throws {
        let fixture = try await Fixture()
        let started = Lock<(any HTTPExchange)?>(nil)
        // Pauses before the first read.
        let events = RecordedExchange { event in if case .head = event { started.withLock { $0 }?.pauseReading() } }
        let request = HTTPRequest("GET", fixture.endpoint)
        let exchange = Wrapped(http: fixture.network.http).exchange(request, id: ExchangeID(rawValue: 3), events: events)
        started.withLock { $0 = exchange }
        exchange.start()
        try await eventually { !fixture.handler.responders.all.isEmpty }
        let responder = fixture.handler.responders.all[0]
        responder.begin(HTTPResponseHead(status: 200))
        try await eventually { events.events == [.head(200)] }
        responder.write(Array("a".utf8))
        for _ in 0..<100 { await Task.yield() }
        expect(events.body.isEmpty)
        exchange.resumeReading()
        try await eventually { events.body == "a" }
        responder.write(Array("b".utf8))
        try await eventually { events.body == "ab" }
        responder.end()
        try await eventually { events.events == [.head(200), .body("a"), .body("b"), .ended(nil)] }
        started.withLock { $0 = nil }
    }

    @Test(arguments: [false, true])
    func `cancelling an exchange over open cancels its task`(isPaused: Bool) async throws {
        let fixture = try await Fixture()
        let events = RecordedExchange()
        let exchange = Wrapped(http: fixture.network.http)
            .exchange(HTTPRequest("GET", fixture.endpoint), id: ExchangeID(rawValue: 3), events: events)
        if isPaused { exchange.pauseReading() }
        exchange.start()
        try await eventually { !fixture.handler.responders.all.isEmpty }
        let responder = fixture.handler.responders.all[0]
        responder.onDisconnect { fixture.disconnects.record(true) }
        responder.begin(HTTPResponseHead(status: 200))
        try await eventually { events.events == [.head(200)] }
        exchange.cancel()
        try await eventually { fixture.disconnects.all == [true] }
        expectEqual(events.events, [.head(200)])
    }

    @Test func `an exchange over open ends with the error of the transport`() async throws {
        let fixture = try await Fixture()
        fixture.network.condition = .down
        let events = RecordedExchange()
        let exchange = Wrapped(http: fixture.network.http)
            .exchange(HTTPRequest("GET", fixture.endpoint), id: ExchangeID(rawValue: 3), events: events)
        exchange.start()
        try await eventually { events.events == [.ended(.unreachable)] }
    }
}
