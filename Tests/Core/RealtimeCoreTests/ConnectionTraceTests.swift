import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import RelayProtocol
import Testing

/// The log of what a driver's connections do.
@Suite(.timeLimit(.minutes(10))) struct ConnectionTraceTests {
    private static func recorder(_ level: LogSink.Level = .trace) -> (LogSink, EventRecorder<String>) {
        let lines = EventRecorder<String>()
        return (
            LogSink(minimumLevel: level) { level, subsystem, text in if level == .trace { lines.record("\(subsystem): \(text)") } }, lines
        )
    }

    @Test func `a protocol that doesn't describe its messages is traced with their sizes`() {
        let (log, lines) = Self.recorder()
        let toy = Toy(log: log)
        _ = toy.connect()
        toy.driver.stop()
        #expect(lines.all == ["toy: #1 open", "toy: #1 received text of 5 bytes", "toy: #1 sent close 1000"])
    }

    @Test func `nothing is traced unless the sink asks for it`() {
        let (log, lines) = Self.recorder(.debug)
        let toy = Toy(log: log)
        _ = toy.connect()
        // The driver has the transport's own connection.
        #expect(lines.all.isEmpty)
    }

    @Test(arguments: [RelaySession.Kind.socket, .polling])
    func `connections of any kind are traced`(kind: RelaySession.Kind) async throws {
        let (log, lines) = Self.recorder()
        let clock = ManualClock()
        let network = InMemoryNetwork(time: clock.time)
        let server = RelayServer(offering: [kind], acceptsSockets: true, time: clock.time)
        let address = try await network.listener().start(ListenerRouter([.path("/relay", server)]))
        let client = RelayClient(
            Endpoint(scheme: "http", host: address.host, port: address.port), over: network.transports(), log: log)
        let events = EventRecorder<RelaySession.Event>()
        let token = client.observe { events.record($0) }
        client.driver.start()
        while !events.all.contains(.connected(kind)) { await Task.yield() }
        #expect(lines.all.prefix(2) == ["relay: #1 open", "relay: #1 received text of 5 bytes"])
        client.driver.shutDown()
        network.cut()
        _ = token
    }
}
