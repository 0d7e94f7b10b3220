import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// A server that answers each message with itself. The application knows its connections as `c1`, `c2` and so on.
private struct EchoMachine: EmbeddedServerMachine {
    typealias Event = String
    typealias WaiterResult = Never
    typealias Work = Never
    typealias WorkResult = Never
    enum Failure: Error { case cancelled }

    var eventRoute = EventRoutes.none
    var connections = ConnectionTable<Bool>()
    var hasReleased = false

    var nextDeadline: Instant? { nil }
    var acceptedConnections: [ConnectionID] { self.connections.ids }
    /// The connections that the server has made silent.
    var silent: [UInt64] { self.connections.ids.filter { self.connections[$0] == true }.map(\.rawValue) }

    func connection(named name: String) -> ConnectionID? {
        UInt64(name.dropFirst()).map(ConnectionID.init(rawValue:)).flatMap { self.connections[$0] == nil ? nil : $0 }
    }

    mutating func setSilent(_ id: ConnectionID, _ isSilent: Bool, now: Instant) { self.connections.update(id) { $0 = isSilent } }
    mutating func release(_ effects: inout Effects<Self>) { self.hasReleased = true }

    mutating func accepted(_ id: ConnectionID) { self.connections.insert(false, id) }
    mutating func start(now: Instant, _ effects: inout Effects<Self>) {}
    mutating func stop(now: Instant, _ effects: inout Effects<Self>) {
        for id in self.connections.ids { effects.commands.append(.close(id, .goingAway, reason: "")) }
    }
    mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {}
    mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {
        for message in batch.messages { effects.commands.append(.send(id, message)) }
    }
    mutating func reading(_ id: ConnectionID, paused: Bool, now: Instant) {}
    mutating func closed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        guard self.connections.remove(id) != nil else { return }
        effects.deliver("closed c\(id.rawValue)", on: self.eventRoute)
    }
    mutating func workFinished(_ id: WorkID, _ result: Never, now: Instant, _ effects: inout Effects<Self>) {}
    mutating func timeout(now: Instant, _ effects: inout Effects<Self>) {}
    mutating func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {}
    func cancellation(of waiter: WaiterID) -> Failure { .cancelled }
    func timedOut(_ waiter: WaiterID, after: WaitLimit) -> Failure { .cancelled }
}

/// A connection without a network.
private final class EchoConnection: MessageConnection {
    let id: ConnectionID
    let sent = EventRecorder<String>()
    private let receiver = Lock<(any MessageEvents)?>(nil)

    init(_ number: UInt64) {
        self.id = ConnectionID(rawValue: number)
    }

    func accept(on server: ServedConnections<EchoMachine>) {
        let events = server.adopt(self, id: self.id) { machine, _, _ in machine.accepted(self.id) }
        self.receiver.withLock { $0 = events }
    }

    func receive(_ text: String) { self.receiver.withLock { $0 }?.received(self.id, MessageBatch([.text(text)])) }

    func end() { self.receiver.withLock { $0.take() }?.closed(self.id, .requested) }

    func open() {}
    func enqueue(_ message: TransportMessage) { self.sent.record(String(decoding: message.bytes, as: UTF8.self)) }
    func flush() {}
    func pauseReading() {}
    func resumeReading() {}
    func close(_ code: CloseCode, reason: String) { self.sent.record("close \(code.rawValue)") }
    func abandon() { self.sent.record("abandon") }
}

/// The behavior that all servers inside a program share.
@Suite struct EmbeddedServerTests {
    private let clock = ManualClock()
    private let server: ServedConnections<EchoMachine>

    init() {
        self.server = ServedConnections(EchoMachine(), in: .init(time: self.clock.time, subsystem: "echo"), seed: 1)
    }

    private func connect(_ number: UInt64) -> EchoConnection {
        let connection = EchoConnection(number)
        connection.accept(on: self.server)
        return connection
    }

    private func faults(_ change: (inout ConnectionFaults) -> Void) {
        var faults = ConnectionFaults()
        change(&faults)
        self.server.setFaults(faults)
    }

    private func connection(_ id: ConnectionID) -> (any MessageConnection)? { self.server.driver.connection { _ in id } }

    // MARK: Faults

    @Test func `without a fault, the driver uses the accepted connection itself and receives its events`() {
        let connection = EchoConnection(1)
        let events = self.server.adopt(connection, id: connection.id) { machine, _, _ in machine.accepted(connection.id) }
        expect(events === self.server.driver && self.connection(connection.id) === connection)
        // Neither does setting none.
        self.server.setFaults(ConnectionFaults())
        expect(self.connection(connection.id) === connection)
        expectEqual(self.server.driver.read { $0.silent }, [])
    }

    @Test func `the first fault affects connections that are open and later ones`() {
        let earlier = self.connect(1)
        earlier.receive("a")
        self.faults { $0.delay = .seconds(1) }
        let later = self.connect(2)
        for connection in [earlier, later] { connection.receive("b") }
        expect(earlier.sent.take() == ["a"] && later.sent.take() == [])
        self.clock.advance(by: .seconds(1))
        expect(earlier.sent.take() == ["b"] && later.sent.take() == ["b"])
    }

    @Test func `faults that are removed have no effect any more`() {
        let connection = self.connect(1)
        self.faults { $0.dropRate = 1 }
        connection.receive("a")
        self.faults { _ in }
        expectEqual(self.server.faults, ConnectionFaults())
        connection.receive("b")
        self.connect(2).receive("c")
        expectEqual(connection.sent.all, ["b"])
    }

    @Test func `silence is that of one connection or of all, and the machine knows about it`() {
        let (first, second) = (self.connect(1), self.connect(2))
        self.server.silence("c1", true)
        expectEqual(self.server.driver.read { $0.silent }, [1])
        for connection in [first, second] { connection.receive("a") }
        expect(first.sent.take() == [] && second.sent.take() == ["a"])
        self.faults { $0.isSilent = true }
        let third = self.connect(3)
        expectEqual(self.server.driver.read { $0.silent }, [1, 2, 3])
        for connection in [first, second, third] { connection.receive("b") }
        self.faults { _ in }
        expectEqual(self.server.driver.read { $0.silent }, [1])
        self.server.silence("c1", false)
        for connection in [first, second, third] { connection.receive("c") }
        for connection in [first, second, third] { expectEqual(connection.sent.all.last, "c") }
        expect(self.server.driver.read { $0.silent } == [] && first.sent.all == ["c"])
    }

    @Test func `messages on a silent connection aren't counted as received`() {
        let connection = self.connect(1)
        connection.receive("a")
        self.server.silence("c1", true)
        connection.receive("b")
        expectEqual(self.server.driver.counters.messagesReceived, 1)
    }

    @Test(arguments: [false, true])
    func `a message regardless of faults is sent with and without any`(hasFaults: Bool) {
        let connection = self.connect(1)
        if hasFaults { self.faults { ($0.delay, $0.dropRate, $0.isSilent) = (.seconds(1), 1, true) } }
        self.server.sendUnaffected(.text("x"), to: "c1")
        self.server.sendUnaffected(.text("x"), to: "c2")
        expectEqual(connection.sent.all, ["x"])
    }

    @Test func `the end of a connection discards its delayed messages`() {
        let (first, second) = (self.connect(1), self.connect(2))
        self.faults { $0.delay = .seconds(1) }
        for connection in [first, second] { connection.receive("a") }
        first.end()
        self.server.drop("c2")
        self.clock.advance(by: .seconds(1))
        expect(first.sent.all == [] && second.sent.all == ["abandon"])
        expect(self.connection(first.id) == nil && self.connection(second.id) == nil && self.clock.untilNextDeadline == nil)
    }

    @Test func `an unknown connection is neither silenced nor dropped`() {
        let connection = self.connect(1)
        self.server.silence("c2", true)
        self.server.drop("c2")
        connection.receive("a")
        expectEqual(connection.sent.all, ["a"])
    }

    // MARK: The end

    @Test func `a dropped connection ends for the machine`() async throws {
        let server = EmbeddedServer(self.server, handler: ListenerRouter([]))
        let events = server.events(ByteLimit(1_000) { $0.utf8.count })
        let connection = self.connect(1)
        self.server.drop("c1")
        expectEqual(connection.sent.all, ["abandon"])
        await expectEqual(events.pending(), ["closed c1"])
    }

    @Test func `a server that was released closes its connections and those that were accepted meanwhile`() {
        let connection = self.connect(1)
        self.server.shutDown()
        expect(connection.sent.all == ["close 1001"] && self.server.isShutDown)
        expect(self.server.driver.read { $0.hasReleased })
        let late = self.connect(2)
        expectEqual(late.sent.all, ["close 1001"])
    }

    @Test func `a server without a listener closes its connections when it is stopped`() async {
        let server = EmbeddedServer(self.server, handler: ListenerRouter([]))
        let connection = self.connect(1)
        await server.stop()
        expect(connection.sent.all == ["close 1001"] && !self.server.isShutDown)
    }

    @Test func `a server starts and stops its listener, and can't start twice`() async throws {
        let network = InMemoryNetwork(time: self.clock.time)
        let server = EmbeddedServer(self.server, handler: ListenerRouter([]))
        _ = try await server.start(on: network.listener(host: "a", port: 1))
        await #expect(throws: TransportError.self) { _ = try await server.start(on: network.listener(host: "a", port: 2)) }
        await server.stop()
        _ = try await server.start(on: network.listener(host: "a", port: 1))
        await server.stop()
    }
}
