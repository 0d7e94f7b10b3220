import RealtimeEncoding
import PusherWire
import RealtimeCore

/// The server's state as a value: its connections, its channels, and the messages that it sends.
///
/// The life of a connection (``Connection/State``):
/// ```
///   opening ──opened──▶ awaitingHook ──the hook accepts──▶ established
///    │   └──opened, no hook is running────────────────────────▲
///    │                       │
///    └───────────────────────┴──the protocol, a fault or the hook rejects──▶ rejected
/// ```
/// A connection that closes is removed, in any state. Messages that arrive before a connection is established are counted and
/// ignored. Messages on a rejected connection are not read.
struct PusherServerMachine: SessionMachine {
    typealias Event = PusherServerEvent
    typealias WaiterResult = Never
    typealias Request = Never

    /// The server never has waiting callers, so this failure is never reported.
    enum Failure: Error { case cancelled }

    /// A hook to run.
    enum Work: Sendable {
        case connection(PusherConnectionAttempt)
        case subscription(PusherSubscriptionAttempt)
        case clientEvent(PusherClientEventAttempt)
    }

    typealias WorkResult = PusherServerDecision

    /// The hooks that the user of the server has set. Without a hook, every attempt is accepted without running work.
    struct Hooks: Sendable {
        var connections = false
        var subscriptions = false
        var clientEvents = false
    }

    struct Connection: Sendable {
        enum State: Sendable {
            /// The WebSocket handshake is in progress. The work is the connection hook, if it is running.
            case opening(hook: WorkID?)
            /// The WebSocket is open, and the connection hook is running.
            case awaitingHook(WorkID)
            /// The client has received its socket ID.
            case established(Established)
            /// The client has received an error, and the connection is closing.
            case rejected
        }

        let socketID: String
        var state: State
        /// An injected fault: the server sends nothing on the connection and ignores what it receives.
        var isSilent = false
    }

    /// The state that exists only while a connection is established.
    struct Established: Sendable {
        var subscriptions: [String: Subscription] = [:]
        /// When to ping the client, or to close the connection while a pong is awaited. It moves with every message received. Cleared
        /// when the connection has timed out.
        var heartbeat = CoalescedTimer()
        var isAwaitingPong = false
        /// The last message that is still delayed. Later messages must not overtake it.
        var lastDelayed: (number: UInt64, due: Instant)?
        /// Client events that await the hook's decision, oldest first.
        var pendingClientEvents: [PusherClientEventAttempt] = []
        /// The hook that decides about the first pending client event.
        var clientEventHook: WorkID?
        var clientEventRate = EventRate()

        /// A message arrived. Returns when to schedule the heartbeat's timer, if its pending one does not suffice.
        mutating func messageReceived(heartbeatDeadline: Instant) -> Instant? {
            guard self.heartbeat.isSet else { return nil }
            self.isAwaitingPong = false
            return self.heartbeat.setDeadline(heartbeatDeadline)
        }
    }

    enum Subscription: Sendable {
        case awaitingHook(WorkID)
        case subscribed
        /// Indirect, because most channels have no user: an entry of the dictionary stays small.
        indirect case member(PresenceUser)
    }

    /// Counts the events of one second.
    struct EventRate: Sendable {
        private var second: Int64 = 0
        private var count = 0

        /// Counts an event. Returns `false`, and does not count it, if the limit for the current second is reached.
        mutating func admit(limit: Int, now: Instant) -> Bool {
            let second = now.nanoseconds / 1_000_000_000
            if second != self.second { (self.second, self.count) = (second, 0) }
            guard self.count < limit else { return false }
            self.count += 1
            return true
        }
    }

    struct Channel: Sendable {
        /// In the order of their subscriptions.
        var subscribers: [ConnectionID] = []
        /// The members of a presence channel in the order in which they joined, each with the number of its connections.
        var members: [(user: PresenceUser, connections: Int)] = []
    }

    struct SubscriptionAttempt: Sendable {
        var connection: ConnectionID
        var channel: String
        var user: PresenceUser?
    }

    /// What a running hook decides about.
    enum PendingHook: Sendable {
        case connection(ConnectionID)
        case subscription(SubscriptionAttempt)
        case clientEvent(ConnectionID)
    }

    struct DelayedMessage: Sendable {
        var connection: ConnectionID
        var message: WebSocketMessage
    }

    let app: PusherApp
    let hooks: Hooks
    var faults = PusherServerFaults()
    var connections: [ConnectionID: Connection] = [:]
    var channels: [String: Channel] = [:]
    /// The connections that count and that users of the server can address: all but rejected ones.
    private(set) var connectionIDs: [String: ConnectionID] = [:]
    /// The app's timeouts in nanoseconds. A timeout is at least 1 ms, so that a heartbeat always moves its deadline.
    private let activityTimeout: Int64, pongTimeout: Int64
    private var heartbeats = Deadlines<ConnectionID, Void>()
    private var delayed = Deadlines<UInt64, DelayedMessage>()
    private var pendingHooks: [WorkID: PendingHook] = [:]
    private var lastNumber: UInt64 = 0
    private var generator: SplitMix64
    /// The route of all events to the server's user.
    var eventRoute = EventRoutes.none

    init(_ app: PusherApp, hooks: Hooks, seed: UInt64) {
        self.app = app
        self.hooks = hooks
        self.activityTimeout = max(.milliseconds(1), app.activityTimeout).nanoseconds
        self.pongTimeout = max(.milliseconds(1), app.pongTimeout).nanoseconds
        self.generator = SplitMix64(seed: seed)
    }

    static var cancelled: Failure { .cancelled }
    func timedOut(after limit: Duration) -> Failure { .cancelled }

    var nextDeadline: Instant? { .earliest(self.heartbeats.earliest, self.delayed.earliest) }

    // MARK: Opening

    func start(now: Instant, _ effects: inout Effects<Self>) {}

    /// The listener accepted a WebSocket for this request.
    mutating func accepted(_ id: ConnectionID, _ request: HTTPRequestHead, now: Instant, _ effects: inout Effects<Self>) {
        let socketID = self.makeSocketID()
        self.connections[id] = Connection(socketID: socketID, state: .opening(hook: nil))
        if let (code, message) = self.rejection(of: request) { return self.reject(id, code, message, &effects) }
        self.connectionIDs[socketID] = id
        guard self.hooks.connections else { return }
        let attempt = PusherConnectionAttempt(socketID: socketID, request: request)
        self.connections[id]!.state = .opening(hook: self.run(.connection(attempt), for: .connection(id), &effects))
    }

    /// Why the protocol or an injected fault rejects a request; `nil` if it is acceptable.
    private func rejection(of request: HTTPRequestHead) -> (CloseCode, message: String)? {
        if let code = self.faults.rejectionCode { return (code, "The server is configured to reject connections") }
        let parts = request.path.split(separator: "/")
        guard parts.count >= 2, parts[parts.count - 2] == "app" else { return (PusherCloseCode.pathNotFound, "Path not found") }
        guard parts[parts.count - 1] == self.app.key else { return (PusherCloseCode.noSuchApplication, "Application does not exist") }
        let version = PercentEncoding.fields(request.query)?.first { $0.name == "protocol" }?.value
        guard let version else { return (PusherCloseCode.noProtocol, "Missing protocol version; add the query field protocol=7") }
        guard let number = Int(version), (5...7).contains(number) else {
            return (PusherCloseCode.unsupportedProtocol, "Unsupported protocol version \(version.prefix(20)); use 5, 6 or 7")
        }
        guard self.connectionIDs.count < self.app.connectionLimit else {
            return (PusherCloseCode.overQuota, "Application is over connection quota")
        }
        return nil
    }

    private mutating func reject(_ id: ConnectionID, _ code: CloseCode, _ message: String, _ effects: inout Effects<Self>) {
        self.connections[id]?.state = .rejected
        effects.commands.append(.send(id, PusherFrames.error(Int(code.rawValue), message)))
        effects.commands.append(.close(id, code, reason: message))
    }

    mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        guard case .opening(let hook)? = self.connections[id]?.state else { return }
        if let hook {
            self.connections[id]!.state = .awaitingHook(hook)
        } else {
            self.establish(id, now: now, &effects)
        }
    }

    private mutating func decided(
        _ decision: PusherServerDecision, aboutConnection id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let connection = self.connections[id] else { return }
        switch (decision, connection.state) {
        case (.accept, .opening): self.connections[id]!.state = .opening(hook: nil)
        case (.accept, .awaitingHook): self.establish(id, now: now, &effects)
        case (.reject(let code, let message), .opening), (.reject(let code, let message), .awaitingHook):
            self.connectionIDs[connection.socketID] = nil
            let code = code.flatMap { UInt16(exactly: $0) }.map { CloseCode(rawValue: $0) }
            self.reject(id, code ?? PusherCloseCode.unauthorized, message, &effects)
        case (_, .established), (_, .rejected): break
        }
    }

    private mutating func establish(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard let socketID = self.connections[id]?.socketID else { return }
        self.connections[id]!.state = .established(Established())
        let seconds = max(1, Int(self.app.activityTimeout.nanoseconds / 1_000_000_000))
        self.send(PusherFrames.connectionEstablished(socketID: socketID, activityTimeout: seconds), to: id, now: now, &effects)
        self.setHeartbeat(id, now + self.activityTimeout)
        self.deliver(.connected(socketID: socketID), &effects)
    }

    private mutating func makeSocketID() -> String {
        while true {
            let id =
                "\(UInt32.random(in: 1...UInt32.max, using: &self.generator)).\(UInt32.random(in: 1...UInt32.max, using: &self.generator))"
            if self.connectionIDs[id] == nil { return id }
        }
    }

    // MARK: Closing

    /// Closes every connection with a request to reconnect shortly, like a server that restarts.
    mutating func stop(now: Instant, _ effects: inout Effects<Self>) {
        for id in self.connectionIDs.values.sorted() {
            let code = PusherCloseCode.reconnect
            effects.commands.append(.send(id, PusherFrames.error(Int(code.rawValue), "The server is stopping. Please reconnect shortly.")))
            effects.commands.append(.close(id, code, reason: "The server is stopping."))
        }
    }

    /// Closes every connection because the server is released. Clients receive no request to reconnect, since they would be refused.
    mutating func release(_ effects: inout Effects<Self>) {
        for id in self.connectionIDs.values.sorted() {
            effects.commands.append(.close(id, .goingAway, reason: "The server was released."))
        }
        // `stop` follows and must not close them again.
        self.connectionIDs = [:]
    }

    mutating func closed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        guard let connection = self.connections.removeValue(forKey: id) else { return }
        switch connection.state {
        case .rejected:
            // It was never addressable, and no hook is running for it.
            return
        case .opening(let hook):
            if let hook { self.cancel(hook, &effects) }
        case .awaitingHook(let hook):
            self.cancel(hook, &effects)
        case .established(let established):
            self.heartbeats.remove(id)
            if let hook = established.clientEventHook { self.cancel(hook, &effects) }
            for (name, subscription) in established.subscriptions.sorted(by: { $0.key < $1.key }) {
                self.end(subscription, to: name, of: id, connection.socketID, now: now, &effects)
            }
            self.deliver(.disconnected(socketID: connection.socketID, reason), &effects)
        }
        self.connectionIDs[connection.socketID] = nil
    }

    // MARK: Commands of the server's user, for one connection

    func close(_ socketID: String, _ code: CloseCode, reason: String, _ effects: inout Effects<Self>) {
        guard let id = self.connectionIDs[socketID] else { return }
        effects.commands.append(.close(id, code, reason: reason))
    }

    mutating func drop(_ socketID: String, now: Instant, _ effects: inout Effects<Self>) {
        guard let id = self.connectionIDs[socketID] else { return }
        effects.commands.append(.abandon(id))
        // The transport reports nothing about an abandoned connection.
        self.closed(id, .transport(TransportError(.reset, "The server dropped the connection.")), now: now, &effects)
    }

    mutating func setSilent(_ socketID: String, _ isSilent: Bool) {
        guard let id = self.connectionIDs[socketID] else { return }
        self.connections[id]!.isSilent = isSilent
    }

    /// Sends a frame as it is, regardless of injected faults.
    func sendRaw(_ frame: String, to socketID: String, _ effects: inout Effects<Self>) {
        guard let id = self.connectionIDs[socketID] else { return }
        effects.commands.append(.send(id, .text(frame)))
    }

    // MARK: Sending

    func isSilent(_ id: ConnectionID) -> Bool { self.faults.isSilent || self.connections[id]?.isSilent == true }

    /// Sends a message unless an injected fault drops or delays it. All frames of the protocol are sent here, except those of a
    /// connection that the server is closing.
    mutating func send(_ message: WebSocketMessage, to id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        if self.isSilent(id) { return }
        if self.faults.dropRate > 0, Double.random(in: 0..<1, using: &self.generator) < self.faults.dropRate { return }
        let lastDelayed = self.delayed.isEmpty ? nil : self.connections[id]?.established?.lastDelayed
        var due = now.advanced(by: max(.zero, self.faults.delay))
        if let lastDelayed {
            due = max(due, lastDelayed.due)
        } else if due <= now {
            return effects.commands.append(.send(id, message))
        }
        let number = self.nextNumber()
        self.connections[id]?.established?.lastDelayed = (number, due)
        self.delayed.set(number, due, DelayedMessage(connection: id, message: message))
    }

    private mutating func sendDelayed(_ number: UInt64, _ delayed: DelayedMessage, _ effects: inout Effects<Self>) {
        guard let connection = self.connections[delayed.connection] else { return }
        effects.commands.append(.send(delayed.connection, delayed.message))
        guard connection.established?.lastDelayed?.number == number else { return }
        self.connections[delayed.connection]!.established?.lastDelayed = nil
    }

    mutating func sendError(
        _ code: Int?, _ message: String, channel: String? = nil, to id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        self.send(PusherFrames.error(code, message, channel: channel), to: id, now: now, &effects)
    }

    // MARK: Timers

    mutating func timeout(now: Instant, _ effects: inout Effects<Self>) {
        while let due = self.delayed.popDue(now) { self.sendDelayed(due.key, due.companion, &effects) }
        while let due = self.heartbeats.popDue(now) {
            switch self.connections[due.key]?.established?.heartbeat.fired(now: now) {
            case .due: self.heartbeatTimedOut(due.key, now: now, &effects)
            case .early(let reschedule): self.heartbeats.set(due.key, reschedule)
            case .idle, nil: break
            }
        }
    }

    private mutating func heartbeatTimedOut(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        if self.isSilent(id) {
            // The client receives no pings, so it owes no pong.
            self.connections[id]!.established?.isAwaitingPong = false
            self.setHeartbeat(id, now + self.activityTimeout)
        } else if self.connections[id]!.established?.isAwaitingPong == true {
            let code = PusherCloseCode.pongMissing
            effects.commands.append(.send(id, PusherFrames.error(Int(code.rawValue), "Pong reply not received in time")))
            effects.commands.append(.close(id, code, reason: "Pong reply not received in time"))
        } else {
            self.connections[id]!.established?.isAwaitingPong = true
            self.send(PusherFrames.ping, to: id, now: now, &effects)
            self.setHeartbeat(id, now + self.pongTimeout)
        }
    }

    /// Moving a deadline to a later time does not touch the queue of all connections.
    mutating func resetHeartbeat(_ id: ConnectionID, now: Instant) {
        let deadline = now + self.activityTimeout
        guard let scheduled = self.connections[id]?.established?.messageReceived(heartbeatDeadline: deadline) else { return }
        self.heartbeats.set(id, scheduled)
    }

    private mutating func setHeartbeat(_ id: ConnectionID, _ instant: Instant) {
        guard let scheduled = self.connections[id]?.established?.heartbeat.setDeadline(instant) else { return }
        self.heartbeats.set(id, scheduled)
    }

    // MARK: Hooks

    mutating func run(_ work: Work, for pending: PendingHook, _ effects: inout Effects<Self>) -> WorkID {
        let id = WorkID(rawValue: self.nextNumber())
        self.pendingHooks[id] = pending
        effects.commands.append(.work(id, work))
        return id
    }

    mutating func cancel(_ hook: WorkID, _ effects: inout Effects<Self>) {
        self.pendingHooks[hook] = nil
        effects.commands.append(.cancel(hook))
    }

    mutating func workFinished(_ id: WorkID, _ decision: PusherServerDecision, now: Instant, _ effects: inout Effects<Self>) {
        switch self.pendingHooks.removeValue(forKey: id) {
        case .connection(let connection): self.decided(decision, aboutConnection: connection, now: now, &effects)
        case .subscription(let attempt): self.decided(decision, aboutSubscription: attempt, now: now, &effects)
        case .clientEvent(let connection): self.decided(decision, aboutClientEventOf: connection, now: now, &effects)
        case nil: break
        }
    }

    private mutating func nextNumber() -> UInt64 {
        self.lastNumber += 1
        return self.lastNumber
    }

    // MARK: Consumers

    func deliver(_ event: PusherServerEvent, _ effects: inout Effects<Self>) { effects.deliver(event, on: self.eventRoute) }

    func reading(_ id: ConnectionID, paused: Bool, now: Instant) {}

    func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {}
}

extension PusherServerMachine.Connection {
    /// The payload of ``State/established(_:)``, to be mutated in place; `nil` in other states. It cannot be set to `nil`.
    var established: PusherServerMachine.Established? {
        get { if case .established(let value) = self.state { value } else { nil } }
        _modify {
            var established: PusherServerMachine.Established?
            if case .established(let value) = self.state {
                established = value
                // A placeholder until the value is put back. If the state shared the collections, mutating them would copy them.
                self.state = .rejected
            }
            defer { if let established { self.state = .established(established) } }
            yield &established
        }
    }
}
