import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// The requirements of every HTTP transport with exchanges.
@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct ExchangeConformanceTests {
    /// Runs `body` with an exchange that has the head of its response, the events, and the responder.
    private func streaming(
        _ transport: TransportUnderTest, _ body: (any HTTPExchange, RecordedExchange, any HTTPResponder) async throws -> Void
    ) async throws {
        let responders = EventRecorder<any HTTPResponder>()
        let behavior = Behavior(request: { _, responder in
            responders.record(responder)
            responder.begin(HTTPResponseHead(status: 200))
        })
        try await transport.with(behavior) { connector in
            let events = RecordedExchange()
            let request = HTTPRequest(
                "GET", connector.setup.endpoint(connector.address).http, connectTimeout: .seconds(600), idleTimeout: .seconds(600))
            let exchange = connector.setup.http.makeExchange(request, id: ExchangeID(rawValue: 1), events: events)
            exchange.start()
            try await eventually { events.events == [.head(200)] }
            try await body(exchange, events, try #require(responders.all.first))
            exchange.cancel()
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `a response is reported as it arrives`(over transport: TransportUnderTest) async throws {
        try await self.streaming(transport) { _, events, responder in
            for text in ["one ", "two ", "three"] {
                let before = events.body
                responder.write(Array(text.utf8))
                try await eventually { events.body == before + text }
            }
            expect(!events.hasEnded)
            responder.end()
            try await eventually { events.hasEnded }
            expect(events.events.last == .ended(nil) && events.body == "one two three")
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `nothing is read while reading is paused`(over transport: TransportUnderTest) async throws {
        try await self.streaming(transport) { exchange, events, responder in
            exchange.pauseReading()
            let waits = EventRecorder<Bool>()
            responder.onWriting { waits.record($0) }
            // One piece may exceed the limit for what waits, and is larger than the buffers of the system.
            let count = 40 << 20
            responder.write([UInt8](repeating: 0x61, count: count))
            try await eventually { waits.all == [true] }
            exchange.resumeReading()
            try await eventually { waits.all.last == false }
            responder.end()
            try await eventually { events.hasEnded }
            expect(events.events.last == .ended(nil) && events.body.utf8.count == count)
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `an exchange that was cancelled has no more events, and the server is notified`(over transport: TransportUnderTest) async throws {
        try await self.streaming(transport) { exchange, events, responder in
            let disconnects = EventRecorder<Bool>()
            responder.onDisconnect { disconnects.record(true) }
            exchange.cancel()
            try await eventually { disconnects.all == [true] }
            responder.write([0x61])
            expectEqual(events.events, [.head(200)])
        }
    }

    @Test(arguments: TransportUnderTest.available)
    func `an exchange with a server that isn't there ends with an error`(over transport: TransportUnderTest) async throws {
        let setup = try transport.setup()
        let events = RecordedExchange()
        // The system never assigns this port to a test.
        let endpoint = Endpoint(scheme: setup.scheme, host: "127.0.0.1", port: 1).http
        let request = HTTPRequest("GET", endpoint, connectTimeout: .seconds(600), idleTimeout: .seconds(600))
        let exchange = setup.http.makeExchange(request, id: ExchangeID(rawValue: 1), events: events)
        exchange.start()
        try await eventually { events.events == [.ended(.refused)] }
    }
}
