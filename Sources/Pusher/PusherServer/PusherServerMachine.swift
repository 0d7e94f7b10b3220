import RealtimeEncoding
import PusherWire
import RealtimeCore

/// The whole server as a value: who is connected, who is on which channel, what is sent to whom.
///
/// A connection's life:
/// ```
///   accepted ──opened, and the hook accepts it──▶ greeted ──subscribe, events, pings──▶ greeted ──closed──▶ gone
///       └── refused, at once or by the hook ──▶ told why and closed; what it still says is not read
/// ```
/// What it says before it is greeted is counted and not answered.
struct PusherServerMachine: SessionMachine {
    typealias Event = PusherServerEvent
    typealias WaiterResult = Never

    enum Failure: Error { case cancelled }

    /// A question for whoever runs the server.
    enum Work: Sendable {
        case connection(PusherConnectionAttempt)
        case subscription(PusherSubscriptionAttempt)
        case clientEvent(PusherClientEventAttempt)
    }

    typealias WorkResult = PusherServerDecision

    /// Which of these are asked at all.
    struct Questions: Sendable {
        var connections = false
        var subscriptions = false
        var clientEvents = false
    }

    struct Connection: Sendable {
        let socketID: String
        var channels: Set<String> = []
        /// By channel.
        var users: [String: PresenceUser] = [:]
        var pending: [String: WorkID] = [:]
        /// The question whether it may come at all.
        var greeting: WorkID?
        /// The first one is asked about; the others wait, so that they keep their order.
        var clientEventsToAsk: [PusherClientEventAttempt] = []
        var clientEventQuestion: WorkID?
        var lastReceived: Instant
        /// When the last message that was held back goes out. None overtakes it.
        var lastDelayed: Instant?
        var pingedAt: Instant?
        var isSilent = false
        var isOpen = false
        var isGreeted = false
        /// Told why, and closed: nothing it says counts any more.
        var isRefused = false
        var clientEvents: (second: Int64, count: Int) = (0, 0)
    }

    struct PusherChannel: Sendable {
        var subscribers: [ConnectionID] = []
        /// Of a presence channel: in the order in which they came, with the number of their connections.
        var users: [(user: PresenceUser, connections: Int)] = []
    }

    struct Attempt: Sendable {
        var connection: ConnectionID
        var channel: String
        var user: PresenceUser?
    }

    /// What is done once its question has been answered.
    enum Pending: Sendable {
        case greeting(ConnectionID)
        case subscription(Attempt)
        case clientEvent(ConnectionID)
    }

    struct Delayed: Sendable {
        var connection: ConnectionID
        var message: WebSocketMessage
    }

    let app: PusherApp
    let questions: Questions
    var faults = PusherServerFaults()
    var connections: [ConnectionID: Connection] = [:]
    var channels: [String: PusherChannel] = [:]
    private(set) var bySocketID: [String: ConnectionID] = [:]
    private var heartbeats = Deadlines<ConnectionID, Void>()
    var pending: [WorkID: Pending] = [:]
    private var delayed: [UInt64: Delayed] = [:]
    private var delays = Deadlines<UInt64, Void>()
    private var lastNumber: UInt64 = 0
    private var generator: SplitMix64
    var listening: [ConsumerID] = []

    init(_ app: PusherApp, asks questions: Questions, seed: UInt64) {
        self.app = app
        self.questions = questions
        self.generator = SplitMix64(seed: seed)
    }

    static var cancelled: Failure { .cancelled }
    func timedOut(after limit: Duration) -> Failure { .cancelled }

    var nextDeadline: Instant? { .earliest(self.heartbeats.earliest, self.delays.earliest) }

    // MARK: Connections

    func start(now: Instant, _ effects: inout Effects<Self>) {}

    /// Says goodbye to everybody, as a server that is about to come back does.
    mutating func stop(now: Instant, _ effects: inout Effects<Self>) {
        for (id, connection) in self.connections.sorted(by: { $0.key < $1.key }) where !connection.isRefused {
            effects.commands.append(.send(id, PusherFrames.error(4200, "The server is stopping. Please reconnect shortly.")))
            effects.commands.append(.close(id, PusherCloseCode.reconnect, reason: "The server is stopping."))
        }
    }

    /// A connection was accepted for this target.
    mutating func accepted(_ id: ConnectionID, _ request: HTTPRequestHead, now: Instant, _ effects: inout Effects<Self>) {
        let connection = Connection(socketID: self.makeSocketID(), lastReceived: now)
        self.connections[id] = connection
        if let refusal = self.refusal(request) { return self.refuse(id, refusal.code, refusal.why, &effects) }
        self.bySocketID[connection.socketID] = id
        guard self.questions.connections else { return }
        self.connections[id]!.greeting = self.ask(
            .connection(PusherConnectionAttempt(socketID: connection.socketID, request: request)), .greeting(id), &effects)
    }

    mutating func refuse(_ id: ConnectionID, _ code: CloseCode, _ why: String, _ effects: inout Effects<Self>) {
        self.connections[id]?.isRefused = true
        effects.commands.append(.send(id, PusherFrames.error(Int(code.rawValue), why)))
        effects.commands.append(.close(id, code, reason: why))
    }

    private func refusal(_ request: HTTPRequestHead) -> (code: CloseCode, why: String)? {
        if let code = self.faults.refuseWith { return (code, "The server was told to refuse.") }
        let parts = request.path.split(separator: "/")
        guard parts.count >= 2, parts[parts.count - 2] == "app" else { return (PusherCloseCode.pathNotFound, "Path not found") }
        guard parts[parts.count - 1] == self.app.key else { return (PusherCloseCode.noSuchApplication, "Application does not exist") }
        let version = PercentEncoding.fields(request.query)?.first { $0.name == "protocol" }?.value
        guard let version else { return (PusherCloseCode.noProtocol, "No protocol version was given") }
        guard let number = Int(version), (5...7).contains(number) else {
            return (PusherCloseCode.unsupportedProtocol, "Protocol version \(version.prefix(20)) is not supported; 5 to 7 are")
        }
        guard self.bySocketID.count < self.app.connectionLimit else {
            return (PusherCloseCode.overQuota, "Application is over connection quota")
        }
        return nil
    }

    mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        self.connections[id]?.isOpen = true
        self.greet(id, now: now, &effects)
    }

    /// When the socket is open and nobody has to be asked any more.
    mutating func greet(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard let connection = self.connections[id], connection.isOpen, !connection.isRefused, connection.greeting == nil else { return }
        let seconds = max(1, Int(self.app.activityTimeout.nanoseconds / 1_000_000_000))
        self.connections[id]!.isGreeted = true
        self.send(PusherFrames.connectionEstablished(socketID: connection.socketID, activityTimeout: seconds), to: id, now: now, &effects)
        self.heartbeats.set(id, now.advanced(by: self.app.activityTimeout))
        self.deliver(.connected(socketID: connection.socketID), &effects)
    }

    mutating func closed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        guard let connection = self.connections.removeValue(forKey: id), !connection.isRefused else { return }
        self.heartbeats.set(id, nil)
        self.bySocketID[connection.socketID] = nil
        for work in Array(connection.pending.values) + [connection.greeting, connection.clientEventQuestion].compactMap({ $0 }) {
            self.withdraw(work, &effects)
        }
        for channel in connection.channels.sorted() { self.leave(channel, id, connection, now: now, &effects) }
        if connection.isGreeted { self.deliver(.disconnected(socketID: connection.socketID, reason), &effects) }
    }

    func reading(_ id: ConnectionID, paused: Bool, now: Instant) {}

    func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {}

    mutating func timeout(now: Instant, _ effects: inout Effects<Self>) {
        while let due = self.delays.popDue(now) {
            guard let message = self.delayed.removeValue(forKey: due.key), self.connections[message.connection] != nil else { continue }
            effects.commands.append(.send(message.connection, message.message))
        }
        while let due = self.heartbeats.popDue(now) { self.heartbeat(due.key, now: now, &effects) }
    }

    /// Lazy: a message moves no deadline; the deadline, when it comes, looks when the last one was.
    private mutating func heartbeat(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard let connection = self.connections[id] else { return }
        if self.isSilent(id) {
            // Whoever is told nothing owes no answer.
            self.connections[id]!.pingedAt = nil
            self.heartbeats.set(id, now.advanced(by: max(.milliseconds(1), self.app.activityTimeout)))
        } else if let pingedAt = connection.pingedAt {
            let dead = pingedAt.advanced(by: self.app.pongTimeout)
            guard dead <= now else { return self.heartbeats.set(id, dead) }
            effects.commands.append(.send(id, PusherFrames.error(4201, "Pong reply not received in time")))
            effects.commands.append(.close(id, PusherCloseCode.pongMissing, reason: "Pong reply not received in time"))
        } else {
            let probe = connection.lastReceived.advanced(by: self.app.activityTimeout)
            guard probe <= now else { return self.heartbeats.set(id, probe) }
            self.connections[id]!.pingedAt = now
            self.send(PusherFrames.ping, to: id, now: now, &effects)
            self.heartbeats.set(id, now.advanced(by: max(.milliseconds(1), self.app.pongTimeout)))
        }
    }

    func isSilent(_ id: ConnectionID) -> Bool { self.faults.isSilent || self.connections[id]?.isSilent == true }

    mutating func nextNumber() -> UInt64 {
        self.lastNumber += 1
        return self.lastNumber
    }

    mutating func forget(_ socketID: String) { self.bySocketID[socketID] = nil }

    private mutating func makeSocketID() -> String {
        while true {
            let id =
                "\(UInt32.random(in: 1...UInt32.max, using: &self.generator)).\(UInt32.random(in: 1...UInt32.max, using: &self.generator))"
            if self.bySocketID[id] == nil { return id }
        }
    }

    // MARK: Faults and orders

    mutating func order(
        _ socketID: String, now: Instant, _ effects: inout Effects<Self>,
        _ body: (inout Connection, ConnectionID, inout Effects<Self>) -> Void
    ) {
        guard let id = self.bySocketID[socketID] else { return }
        body(&self.connections[id]!, id, &effects)
    }

    /// Everything to clients goes this way, so that faults meet everything.
    mutating func send(_ message: WebSocketMessage, to id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        if self.isSilent(id) { return }
        if self.faults.dropRate > 0, Double.random(in: 0..<1, using: &self.generator) < self.faults.dropRate { return }
        var due = now.advanced(by: max(.zero, self.faults.delay))
        if let last = self.connections[id]?.lastDelayed { due = max(due, last) }
        guard due > now else { return effects.commands.append(.send(id, message)) }
        self.connections[id]?.lastDelayed = due
        let number = self.nextNumber()
        self.delayed[number] = Delayed(connection: id, message: message)
        self.delays.set(number, due)
    }

    // MARK: Listeners

    mutating func listen(_ id: ConsumerID) { self.listening.append(id) }

    func consumers(on route: EventRoute) -> [ConsumerID] { self.listening }

    mutating func consumerGone(_ listener: ConsumerID) { self.listening.removeAll { $0 == listener } }

    func deliver(_ event: PusherServerEvent, _ effects: inout Effects<Self>) {
        guard !self.listening.isEmpty else { return }
        effects.deliveries.append(event)
        effects.runs = [Effects<Self>.Run(EventRoute(rawValue: 0), end: effects.deliveries.count)]
    }
}
