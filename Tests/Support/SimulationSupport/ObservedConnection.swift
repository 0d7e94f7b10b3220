import RealtimeSystem
import RealtimeCore

/// A client's connection of any kind, as a simulation sees it.
protocol SimulatedConnection: MessageConnection {
    var id: ConnectionID { get }
    var phase: VirtualConnection.Phase { get }
    var messagesSent: Int { get }
    var bytesSent: Int { get }
    var messagesReceived: Int { get }
    var bytesReceived: Int { get }
    /// Whether the network or the server disturbed the connection. A client has no other reason to abandon it.
    var isDisturbed: Bool { get }
}

/// A connection that consists of HTTP requests, in place of a ``VirtualConnection``.
///
/// It checks the contract of `MessageConnection`: one `opened` first, one `closed` last, and nothing after `abandon()`.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
final class ObservedConnection: SimulatedConnection, ConnectionOverHTTP, HTTPMessageEvents, @unchecked Sendable {
    let id: ConnectionID
    private(set) var phase = VirtualConnection.Phase.created
    private(set) var messagesSent = 0, bytesSent = 0, messagesReceived = 0, bytesReceived = 0
    var onEnd: () -> Void = {}
    private let network: VirtualNetwork
    private let faultsBefore: Int
    /// Both until the end of the connection.
    private var events: (any MessageEvents)?
    private var connection: (any MessageConnection)?

    /// Requests share the faults of the network.
    var isDisturbed: Bool { self.network.totals.exchangeFaults > self.faultsBefore }
    private var isInUse: Bool { self.phase == .created || self.phase == .opening || self.phase == .open }

    init(_ id: ConnectionID, on network: VirtualNetwork, _ events: any MessageEvents) {
        self.id = id
        self.network = network
        self.events = events
        self.faultsBefore = network.totals.exchangeFaults
    }

    func begin(_ connection: any MessageConnection) { self.connection = connection }

    // MARK: The owner

    func open() {
        if self.phase == .created { self.phase = .opening }
        self.connection?.open()
    }

    func enqueue(_ message: TransportMessage) {
        guard self.isInUse else { return }
        self.messagesSent += 1
        self.bytesSent += message.bytes.count
        self.connection?.enqueue(message)
    }

    func flush() { self.connection?.flush() }
    func receivedNoMessage() { (self.connection as? any ConnectionOverHTTP)?.receivedNoMessage() }
    func pauseReading() { self.connection?.pauseReading() }
    func resumeReading() { self.connection?.resumeReading() }

    func close(_ code: CloseCode, reason: String) {
        if self.isInUse { self.phase = .closing }
        self.connection?.close(code, reason: reason)
    }

    func abandon() {
        guard self.phase != .ended else { return }
        self.phase = .abandoned
        let (connection, events) = (self.connection.take(), self.events.take())
        connection?.abandon()
        _ = events
    }

    // MARK: Events

    private func check(_ isExpected: Bool, _ what: @autoclosure () -> String) {
        self.network.simulation.require(isExpected, "the connection \(self.id) reported '\(what())' while it was \(self.phase)")
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) {
        self.check(self.phase == .opening, "opened")
        self.phase = .open
        self.events?.opened(id, head: head)
    }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        self.check(self.phase == .open || self.phase == .closing, "received")
        for message in batch.messages {
            self.messagesReceived += 1
            self.bytesReceived += message.bytes.count
        }
        self.events?.received(id, batch)
    }

    func writing(_ id: ConnectionID, paused: Bool) {
        self.check(self.phase == .open || self.phase == .closing, "writing")
        self.events?.writing(id, paused: paused)
    }

    func answered(_ id: ConnectionID, _ count: Int) {
        self.check(self.phase == .open || self.phase == .closing, "answered")
        (self.events as? any HTTPMessageEvents)?.answered(id, count)
    }

    func unsent(_ id: ConnectionID, _ messages: [TransportMessage]) {
        self.check(self.phase == .closing, "unsent")
        self.messagesSent -= messages.count
        self.bytesSent -= messages.reduce(0) { $0 + $1.bytes.count }
        (self.events as? any HTTPMessageEvents)?.unsent(id, messages)
    }

    func closed(_ id: ConnectionID, _ reason: CloseReason) {
        self.check(self.phase == .opening || self.phase == .open || self.phase == .closing, "closed: \(reason)")
        self.phase = .ended
        let (connection, events) = (self.connection.take(), self.events.take())
        self.onEnd()
        self.network.simulation.note("  the connection \(id) has closed: \(reason)")
        events?.closed(id, reason)
        _ = connection
    }
}
