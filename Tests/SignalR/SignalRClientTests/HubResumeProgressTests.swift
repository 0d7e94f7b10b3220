import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import SignalRClient
import SignalRHubs
import SignalRServer
import SignalRTesting
import SignalRWire
import TestSupport
import Testing

/// Stateful reconnect on a network whose connections last for less than the repetition of what wasn't acknowledged takes.
@Suite(.timeLimit(.minutes(10))) struct HubResumeProgressTests {
    /// Passes on a number of messages of each connection, and then cuts the network. What has arrived with them is lost.
    private struct CuttingTransport: WebSocketTransport {
        let transport: any WebSocketTransport
        let network: InMemoryNetwork
        let limit: Int
        let cuts = EventRecorder<ConnectionID>()

        func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection {
            self.transport.makeConnection(request, id: id, events: CuttingEvents(events, self))
        }
    }

    private final class CuttingEvents: MessageEvents {
        private let events: any MessageEvents
        private let transport: CuttingTransport
        private let rest: Lock<Int>

        init(_ events: any MessageEvents, _ transport: CuttingTransport) {
            (self.events, self.transport) = (events, transport)
            self.rest = Lock(transport.limit)
        }

        func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.events.opened(id, head: head) }

        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
            let (messages, isLast) = self.rest.withLock { rest in
                let messages = batch.messages.prefix(rest)
                defer { rest -= messages.count }
                return (messages, rest > 0 && messages.count == rest)
            }
            if !messages.isEmpty { self.events.received(id, MessageBatch(messages)) }
            guard isLast else { return }
            self.transport.cuts.record(id)
            self.transport.network.cut()
        }

        func writing(_ id: ConnectionID, paused: Bool) { self.events.writing(id, paused: paused) }

        func closed(_ id: ConnectionID, _ reason: CloseReason) { self.events.closed(id, reason) }
    }

    @Test(arguments: HubFormat.allCases)
    func `connections that are cut after a few messages bring a stream to its end, in order and once`(format: HubFormat) async throws {
        var configuration = SignalRServerConfiguration()
        configuration.allowsStatefulReconnects = true
        let test = try await HubServerFixture(configuration: configuration)
        let (items, notes) = (EventRecorder<Int>(), EventRecorder<Int>())
        test.hub.on("Note") { (caller, number: Int) in notes.record(number) }
        test.hub.stream("Count") { (caller, count: Int) in
            AsyncStream<Int> { continuation in
                for number in 0..<count { continuation.yield(number) }
                continuation.finish()
            }
        }
        let network = test.signalR.network
        let transport = CuttingTransport(transport: network.transports().webSocket, network: network, limit: 20)
        let client = test.client(.webSockets) {
            $0.format = format
            $0.statefulReconnect = HubStatefulReconnect()
            $0.transports.webSocket = transport
        }
        try await client.start()
        let stream = try client.stream("Count", 1000, of: Int.self)
        let reading = Task { for try await item in stream { items.record(item) } }
        for number in 0..<100 { try await client.send("Note", number) }
        try await eventually {
            if items.all.count == 1000, notes.all.count == 100 { return true }
            test.signalR.clock.advance(by: .milliseconds(100))
            return transport.cuts.all.count > 2_000
        }
        expect(items.all == Array(0..<1000) && notes.all == Array(0..<100), "\(items.all.count) items, \(notes.all.count) notes")
        expect(client.counters.resumes > 40 && client.counters.reconnects == 0, "\(client.counters.resumes) resumes")
        try await reading.value
        client.stop()
    }
}
