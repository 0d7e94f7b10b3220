import RealtimeEncoding
import RealtimeSystem
import PusherWire
import RealtimeCore

/// The server's state as a value: its connections, its channels, and the messages that it sends.
///
/// The life of a connection (``Connection/State``):
/// ```
///   opening ──opened──▶ awaitingHook ──the hook accepts──▶ established
///    │   └──opened, no hook is running────────────────────────▲
///    │                       │
///    └───────────────────────┴──the protocol, the application or the hook rejects──▶ rejected
/// ```
/// A connection that closes is removed, in any state. Messages that arrive before a connection is established are counted and
/// ignored. Messages on a rejected connection are not read.
///
/// Names and IDs are bytes on the wire, so the machine stores and compares those that a client can choose as `ByteString`.
struct PusherServerMachine: EmbeddedServerMachine {
    typealias Event = PusherServerEvent
    typealias WaiterResult = Never

    /// The server never has waiting callers, so this failure is never reported.
    enum Failure: Error { case cancelled }

    /// A hook to run.
    enum Work: Sendable {
        case connection(PusherConnectionAttempt)
        case subscription(PusherSubscriptionAttempt)
        case clientEvent(PusherClientEventAttempt)
    }

    typealias WorkResult = PusherServerDecision

    /// The hooks that the application has set. Without a hook, every attempt is accepted without running work.
    struct Hooks: Sendable {
        var connections = false
        var subscriptions = false
        var clientEvents = false
        var timeout = Duration.seconds(10)
        var pendingLimit = 1_000
    }

    struct Connection: Sendable {
        enum State: Sendable {
            /// The WebSocket handshake is in progress. The work is the connection hook, if it is running.
            case opening(hook: WorkID?)
            /// The WebSocket is open, and the connection hook is running.
            case awaitingHook(WorkID)
            /// The client has received its socket ID.
            case established(Established)
            /// The client has received an error, and the connection is closing, unless the profile keeps it. Or it is dropped, without an error, as
            /// soon as it is open.
            case rejected(isDropped: Bool)
        }

        let socketID: String
        var state: State
        /// Why the client neither receives pings nor has to respond.
        var suspension: HeartbeatSuspension = []
        var isHeartbeatSuspended: Bool { !self.suspension.isEmpty }
        /// Whether the client uses version 2 of the protocol.
        var isVersion2 = false

        var isRejected: Bool { if case .rejected = self.state { true } else { false } }

        /// A copy of the payload of ``State/established(_:)``; `nil` in other states.
        var established: Established? {
            if case .established(let established) = self.state { established } else { nil }
        }

        func subscription(to channel: ByteString) -> Subscription? {
            if case .established(let established) = self.state { established.subscriptions[channel] } else { nil }
        }
    }

    /// The state that exists only while a connection is established.
    struct Established: Sendable {
        var subscriptions: [ByteString: Subscription] = [:]
        /// The number of subscriptions that await the hook's decision.
        var pendingSubscriptions = 0
        /// When to ping the client, or to close the connection while a pong is awaited. It moves with every message received. Cleared
        /// when the connection has timed out.
        var heartbeat = CoalescedTimer()
        var pong = PongWait.none
        /// Client events that await the hook's decision, oldest first.
        var pendingClientEvents = FIFO<ClientEvent>()
        /// The hook that decides about the first pending client event.
        var clientEventHook: WorkID?
        var clientEventRate = EventRate()
        /// The events that the client knows, if it has requested deltas.
        @Boxed var deltas: DeltaBases?

        /// The number of subscriptions and client events that await the decision of a hook.
        var pendingCount: Int { self.pendingSubscriptions + self.pendingClientEvents.count }

        /// A message arrived. Returns when to schedule the heartbeat's timer, if its pending one does not suffice.
        mutating func messageReceived(heartbeatDeadline: Instant) -> Instant? {
            guard self.heartbeat.isSet else { return nil }
            self.pong = .none
            return self.heartbeat.setDeadline(heartbeatDeadline)
        }
    }

    enum Subscription: Sendable {
        case awaitingHook(WorkID)
        /// The number orders the subscribers of the channel.
        case subscribed(number: UInt64)
        /// Only receives the events that satisfy the filter.
        indirect case filtered(PusherFilter, number: UInt64)
        /// Indirect, because most channels have no user: an entry of the dictionary stays small.
        indirect case member(PresenceUser, number: UInt64)

        /// A number that orders the subscriptions of a connection.
        var number: UInt64 {
            switch self {
            case .awaitingHook(let hook): hook.rawValue
            case .subscribed(let number), .filtered(_, let number), .member(_, let number): number
            }
        }
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

    /// A member of a presence channel.
    struct Member: Sendable {
        var user: PresenceUser
        var connections: Int
        /// The number of the subscription with which the member joined.
        var number: UInt64
    }

    struct Channel: Sendable {
        var subscribers = SubscriberList()
        /// When the subscribers were last notified of their count.
        var countSent: Instant?
        /// The members of a presence channel by their IDs.
        var members: [ByteString: Member] = [:]

        /// The users of the members, in the order in which they joined.
        var users: [PresenceUser] { self.members.values.sorted { $0.number < $1.number }.map(\.user) }
    }

    /// The subject of the decision that a hook makes.
    enum PendingHook: Sendable {
        case connection(ConnectionID)
        case subscription(SubscriptionRequest.Attempt)
        case clientEvent(ConnectionID)
    }

    let app: PusherApp
    let hooks: Hooks
    var connections = ConnectionTable<Connection>()
    var channels: [ByteString: Channel] = [:]
    /// The connections that count and that the application can address: all but rejected ones.
    private(set) var connectionIDs: [ByteString: ConnectionID] = [:]
    /// The sign-ins of the connections that are signed in.
    var signIns: [ConnectionID: SignIn] = [:]
    var users: [ByteString: User] = [:]
    /// The last events of cache channels, which outlive their subscribers.
    var cachedEvents: [ByteString: CachedEvent] = [:]
    /// The events that are kept for clients that have lost their connection.
    var histories = Histories()
    /// The number of histories from which events were sent again.
    var replays: UInt64 = 0
    /// The app's timeouts in nanoseconds. A timeout is at least 1 ms, so that a heartbeat always moves its deadline.
    let activityTimeout: Int64, pongTimeout: Int64
    var heartbeats = Deadlines<ConnectionID, Void>()
    var timers = Deadlines<Timer, Void>()
    /// The frames without content, in the form of the app's profile. Without a ping, inactive connections stay open.
    let ping: TransportMessage?, pong: TransportMessage
    var decisions = PendingDecisions<PendingHook>()
    /// The close code with which the application rejects new connections, or `nil` to accept them.
    var rejectionCode: CloseCode?
    private var lastSubscription: UInt64 = 0
    private var refusedOrigins = RefusedOrigins()
    /// The socket IDs. Subscriptions are signed for a socket ID, so a client must not be able to predict the IDs of others.
    var generator: RandomSource
    var eventRoute = EventRoutes.none

    /// Creates a server without connections.
    ///
    /// - Parameter seed: The seed of the socket IDs, for reproducible tests; `nil` to take them from the system's random numbers, so that
    ///   clients cannot predict the IDs of others.
    init(_ app: PusherApp, hooks: Hooks, seed: UInt64?) {
        self.app = app
        self.hooks = hooks
        self.activityTimeout = max(.milliseconds(1), app.activityTimeout).nanoseconds
        self.pongTimeout = max(.milliseconds(1), app.pongTimeout).nanoseconds
        self.generator = RandomSource(seed: seed)
        self.ping =
            switch app.profile.pings {
            case .events: PusherFrames.ping(app.profile.pingData)
            case .controlFrames: TransportMessage(.ping, [])
            case .none: nil
            }
        self.pong = PusherFrames.pong(app.profile.pongData)
    }

    func cancellation(of waiter: WaiterID) -> Failure { .cancelled }
    func timedOut(_ waiter: WaiterID, after limit: WaitLimit) -> Failure { .cancelled }

    var inactivity: String? {
        self.connections.isEmpty ? "No client is connected to the server. Call connect() of a client first." : nil
    }

    var nextDeadline: Instant? { .earliest(.earliest(self.heartbeats.earliest, self.decisions.nextDeadline), self.timers.earliest) }

    // MARK: Opening

    func start(now: Instant, _ effects: inout Effects<Self>) {}

    /// The listener accepted a WebSocket for this request.
    mutating func accepted(_ id: ConnectionID, _ request: HTTPRequestHead, now: Instant, _ effects: inout Effects<Self>) {
        let socketID = self.makeSocketID()
        self.connections.insert(Connection(socketID: socketID, state: .opening(hook: nil)), id)
        if let rejectionCode {
            return self.reject(id, rejectionCode, "The server is configured to reject connections", &effects)
        }
        if let (code, message, end) = self.rejection(of: request) ?? self.refusal(of: request, &effects) {
            return self.reject(id, code, message, then: end, &effects)
        }
        self.connectionIDs[ByteString(socketID)] = id
        if self.allowsVersion2, let version = Self.version(of: request), self.isVersion2(version) {
            self.connections.update(id) { $0.isVersion2 = true }
        }
        guard self.hooks.connections else { return }
        let attempt = PusherConnectionAttempt(socketID: socketID, request: request)
        let hook = self.run(.connection(attempt), about: .connection(id), now: now, &effects)
        self.connections.update(id) { $0.state = .opening(hook: hook) }
    }

    /// The step after the rejection of a connection.
    private enum RejectionEnd: Sendable { case closes, staysOpen, isDropped }

    /// The step after the rejection of a connection to an app that doesn't exist, or that is disabled.
    private var endWithoutApp: RejectionEnd { self.profile.dropsRejectedConnections ? .isDropped : .closes }
    /// The step after a rejection because of a setting of the app.
    private var endBySetting: RejectionEnd { self.profile.keepsRejectedConnections ? .staysOpen : .closes }

    /// Why the protocol rejects a request; `nil` if it is acceptable.
    private func rejection(of request: HTTPRequestHead) -> (CloseCode, message: String, RejectionEnd)? {
        let parts = request.target.utf8.prefix { $0 != UInt8(ascii: "?") }.split(separator: UInt8(ascii: "/"))
        guard parts.count >= 2, parts[parts.count - 2].elementsEqual("app".utf8) else {
            return (PusherCloseCode.pathNotFound, "Path not found", .closes)
        }
        guard parts[parts.count - 1].elementsEqual(self.app.key.utf8) else {
            return (PusherCloseCode.noSuchApplication, "Application does not exist", self.endWithoutApp)
        }
        guard self.app.isEnabled else { return (PusherCloseCode.applicationDisabled, "Application is disabled", self.endWithoutApp) }
        guard let version = Self.version(of: request) else {
            return (PusherCloseCode.noProtocol, "Missing protocol version; add the query field protocol=7", .closes)
        }
        guard let number = Int(version), (5...7).contains(number) || self.isVersion2(version) else {
            let excerpt = Excerpt.of(version, limit: 20)
            return (PusherCloseCode.unsupportedProtocol, "Unsupported protocol version \(excerpt); use 5, 6 or 7", .closes)
        }
        return nil
    }

    /// Why a setting of the app rejects a request that the protocol accepts.
    private mutating func refusal(
        of request: HTTPRequestHead, _ effects: inout Effects<Self>
    ) -> (CloseCode, message: String, RejectionEnd)? {
        guard self.connectionIDs.count < self.app.connectionLimit else {
            let end = self.profile.dropsRejectedConnections ? .isDropped : self.endBySetting
            return (self.profile.connectionLimitCode, "Application is over connection quota", end)
        }
        let origin = request.headers["Origin"]
        guard self.app.allows(origin: origin) else {
            let problem =
                origin.map {
                    "A page of the origin \"\(Excerpt.of($0, limit: 200))\" was refused. Add its host to the app's allowedOrigins"
                }
                ?? "A client without the header field Origin was refused. Add \"*\" to the app's allowedOrigins"
            effects.log(self.refusedOrigins.level(for: origin ?? ""), "\(problem) to accept it.")
            return (PusherCloseCode.unauthorized, "Origin not allowed", self.endBySetting)
        }
        return nil
    }

    /// The version of the protocol that a client asks for.
    private static func version(of request: HTTPRequestHead) -> String? {
        PercentEncoding.value(of: "protocol", in: request.query)
    }

    private mutating func reject(
        _ id: ConnectionID, _ code: CloseCode, _ message: String, then end: RejectionEnd = .closes, _ effects: inout Effects<Self>
    ) {
        self.connections.update(id) { $0.state = .rejected(isDropped: end == .isDropped) }
        switch end {
        case .closes: self.close(id, code, message, &effects)
        case .staysOpen: effects.commands.append(.send(id, self.errorFrame(Int(code.rawValue), message)))
        case .isDropped: effects.log(.debug, "the connection is dropped: \(message)")
        }
        self.deliver(.error(socketID: nil, code: Int(code.rawValue), message: message), &effects)
    }

    mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        switch self.connections[id]?.state {
        case .opening(let hook?): self.connections.update(id) { $0.state = .awaitingHook(hook) }
        case .opening(nil): self.establish(id, now: now, &effects)
        case .rejected(isDropped: true):
            effects.commands.append(.abandon(id))
            // The transport reports nothing about an abandoned connection.
            _ = self.connections.remove(id)
        case .awaitingHook, .established, .rejected, nil: return
        }
    }

    mutating func decided(
        _ decision: PusherServerDecision, aboutConnection id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        guard let connection = self.connections[id] else { return }
        switch (decision, connection.state) {
        case (.accept, .opening): self.connections.update(id) { $0.state = .opening(hook: nil) }
        case (.accept, .awaitingHook): self.establish(id, now: now, &effects)
        case (.reject(let code, let message), .opening), (.reject(let code, let message), .awaitingHook):
            self.connectionIDs[ByteString(connection.socketID)] = nil
            let code = code.flatMap { UInt16(exactly: $0) }.map { CloseCode(rawValue: $0) }
            self.reject(id, code ?? PusherCloseCode.unauthorized, message, &effects)
        case (_, .established), (_, .rejected): break
        }
    }

    private mutating func establish(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard let socketID = self.connections[id]?.socketID else { return }
        self.connections.update(id) { $0.state = .established(Established()) }
        let seconds = max(1, Int(self.app.activityTimeout.nanoseconds / 1_000_000_000))
        self.send(PusherFrames.connectionEstablished(socketID: socketID, activityTimeout: seconds), to: id, &effects)
        self.setHeartbeat(id, now + self.activityTimeout)
        self.awaitAuthorization(of: id, now: now)
        self.deliver(.connected(socketID: socketID), &effects)
    }

    private mutating func makeSocketID() -> String {
        while true {
            let parts = [0, 0].map { _ in UInt32.random(in: 1...UInt32.max, using: &self.generator) }
            let id = "\(parts[0]).\(parts[1])"
            if self.connectionIDs[ByteString(id)] == nil { return id }
        }
    }

    // MARK: Closing

    /// Closes every connection with a request to reconnect shortly, like a server that restarts.
    mutating func stop(now: Instant, _ effects: inout Effects<Self>) {
        for id in self.connectionIDs.values.sorted() {
            let message = "The server is stopping. Please reconnect shortly."
            self.close(id, PusherCloseCode.reconnect, message, reason: "The server is stopping.", &effects)
        }
        guard self.profile.keepsRejectedConnections else { return }
        for id in self.connections.ids where self.connections[id]?.isRejected == true {
            effects.commands.append(.close(id, .goingAway, reason: "The server is stopping."))
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
        guard let connection = self.connections.remove(id) else { return }
        switch connection.state {
        case .rejected:
            // It was never addressable, and no hook is running for it.
            return
        case .opening(let hook):
            if let hook { self.decisions.cancel(hook, &effects) }
        case .awaitingHook(let hook):
            self.decisions.cancel(hook, &effects)
        case .established(let established):
            self.heartbeats.remove(id)
            self.endAuthorizationTimeout(of: id)
            if let hook = established.clientEventHook { self.decisions.cancel(hook, &effects) }
            for (name, subscription) in established.subscriptions.sorted(by: { $0.value.number < $1.value.number }) {
                self.end(subscription, to: name, connection.socketID, now: now, &effects)
            }
            self.signOut(id, &effects)
            self.deliver(.disconnected(socketID: connection.socketID, reason), &effects)
        }
        self.connectionIDs[ByteString(connection.socketID)] = nil
    }

    // MARK: Commands of the application

    func close(_ socketID: String, _ code: CloseCode, reason: String, _ effects: inout Effects<Self>) {
        guard let id = self.connectionIDs[ByteString(socketID)] else { return }
        effects.commands.append(.close(id, code, reason: reason))
    }

    var acceptedConnections: [ConnectionID] { self.connections.ids }

    func connection(named socketID: String) -> ConnectionID? { self.connectionIDs[ByteString(socketID)] }

    // MARK: Sending

    func send(_ message: TransportMessage, to id: ConnectionID, _ effects: inout Effects<Self>) {
        let isVersion2 = self.allowsVersion2 && self.connections[id]?.isVersion2 == true
        effects.commands.append(.send(id, isVersion2 ? PusherFrames.version2(message) : message))
    }

    func sendError(_ code: Int?, _ message: String, channel: String? = nil, to id: ConnectionID, _ effects: inout Effects<Self>) {
        let message = Excerpt.message(message)
        self.send(self.errorFrame(code, message, channel: channel), to: id, &effects)
        self.deliver(.error(socketID: self.connections[id]?.socketID, code: code, message: message), &effects)
    }

    // MARK: Numbers

    mutating func nextSubscription() -> UInt64 {
        self.lastSubscription += 1
        return self.lastSubscription
    }

    // MARK: Consumers

    /// Delivers an event to the consumers. Without a consumer, the event isn't created.
    func deliver(_ event: @autoclosure () -> PusherServerEvent, _ effects: inout Effects<Self>) {
        if !effects.routes.isEmpty(self.eventRoute) { effects.deliver(event(), on: self.eventRoute) }
    }

    func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {}
}

extension PusherServerMachine {
    /// Changes a connection in place if it is established. Returns `nil` otherwise.
    @discardableResult
    mutating func updateEstablished<Result>(_ id: ConnectionID, _ change: (inout Established) -> Result?) -> Result? {
        self.connections.update(id) { $0.state.updateEstablished(change) }
    }
}

extension PusherServerMachine.Connection.State {
    /// Changes the payload of ``established(_:)`` in place. Returns `nil` in other states.
    @discardableResult
    mutating func updateEstablished<Result>(_ change: (inout PusherServerMachine.Established) -> Result?) -> Result? {
        guard case .established = self else { return nil }
        // Consuming the state lets the payload be changed without a copy of its collections.
        guard case .established(var established) = consume self else { preconditionFailure("The state has changed.") }
        defer { self = .established(established) }
        return change(&established)
    }
}
