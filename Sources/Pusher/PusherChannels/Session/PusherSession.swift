import RealtimeJSON
import PusherWire
import RealtimeCore

/// Everything the protocol means to a client, as a value: the connection, the channels that are wanted on it, and
/// who waits for what. The files beside it hold its parts.
struct PusherSession: ReconnectingSession {
    typealias Event = PusherUpdate

    enum WaiterResult: Sendable {
        case none
        case connected(socketID: String)
    }

    struct Work: Sendable {
        var request: PusherAuthorizationRequest
        var configuration: PusherConfiguration
    }

    typealias WorkResult = Result<PusherChannelAuthorization, PusherError>
    typealias Failure = PusherError

    struct ChannelRecord: Sendable {
        let name: String
        var machine = PusherChannelStateMachine()
        let kind: PusherChannelKind
        var members = PusherMembers()
        var userID: String?
        /// In a row, for the waits between attempts to subscribe.
        var failures = 0
        /// Its authorisation waits for others to be over.
        var isQueued = false
        var waiters: [WaiterID] = []
        var unsent: [WebSocketMessage] = []
        var events = ChannelRoutes()
        var states = EventRoutes.nowhere
        var memberChanges = EventRoutes.nowhere
    }

    /// What a listener listens to.
    enum Topic: Sendable {
        case states, connectingIn, errors
        /// Of one channel, or of all; of one name, or of all.
        case events(channel: String?, name: String?)
        case subscription(channel: String)
        case members(channel: String)
        case everything
    }

    /// Where a listener is known, by the channel's index.
    enum ListenerPlace: Sendable {
        case states, connectingIn, errors, globalEvents, everything
        case events(Int), subscription(Int), members(Int)
    }

    var connection: ConnectionStateMachine
    let configuration: PusherConfiguration
    private(set) var state = PusherConnectionState.initialized
    var socketID: String?
    /// When the state becomes `unavailable`.
    var unavailableAt: Instant?
    /// What the server complained of last, and when: some say there why they close.
    @Boxed var lastServerError: (error: ServerError, at: Instant)?
    var pingedAt: Instant?
    var useTLS: Bool
    var isFirstConnection = true
    /// The last one, while there is no connection.
    @Boxed var lastLoss: PusherError?

    var indices = SmallDictionary<String, Int>()
    var channels: [ChannelRecord?] = []
    var freeChannels: [Int] = []
    /// Of the last event. It is forgotten whenever a channel or a listener comes or goes.
    var lastPlace: EventPlace?
    /// Channels that were unsubscribed and whose routes are still held.
    var retired: [ChannelRecord] = []
    var subscriptionDeadlines = Deadlines<Int, Void>()
    var works: [WorkID: Int] = [:]
    /// Each may be a request to the application's server, on a connection of its own: a thousand private channels after a
    /// reconnect would be a thousand at once.
    static let authorizationsAtOnce = 10
    /// Channels whose authorisation waits until there is room.
    var authorizationQueue: ArraySlice<Int> = []
    var generator: SplitMix64
    private var lastWork: UInt64 = 0

    var routes = EventRoutes()
    var places = SmallDictionary<ConsumerID, ListenerPlace>()
    var stateRoute = EventRoutes.nowhere
    var connectingInRoute = EventRoutes.nowhere
    var errorRoute = EventRoutes.nowhere
    var everythingRoute = EventRoutes.nowhere
    /// Of those who listen to all channels; absent until somebody does.
    @Boxed var globalEvents: ChannelRoutes?

    var connectWaiters: [WaiterID] = []
    var endWaiters: [WaiterID] = []

    init(_ configuration: PusherConfiguration, seed: UInt64) {
        self.connection = ConnectionStateMachine(policy: configuration.connectionPolicy, generator: SplitMix64(seed: seed))
        self.generator = SplitMix64(seed: ~seed)
        self.configuration = configuration
        self.useTLS = configuration.useTLS
    }

    static let cancelled = PusherError.cancelledByTask

    func timedOut(after limit: Duration) -> PusherError {
        switch self.state {
        case .initialized, .disconnected, .failed:
            PusherError(.timedOut, "Nothing happened within \(limit), because the client is not told to connect: call connect() first.")
        case .connecting, .unavailable:
            if let loss = self.lastLoss {
                PusherError(.timedOut, "There was no connection within \(limit); the client goes on trying. \(loss.message)", cause: loss)
            } else {
                PusherError(.timedOut, "There was no connection within \(limit); the client goes on trying. Wait longer.")
            }
        case .connected:
            PusherError(.timedOut, "No answer came within \(limit). The client goes on trying; wait longer, or look at its state.")
        }
    }

    var nextDeadline: Instant? {
        .earliest(.earliest(self.connection.nextDeadline, self.unavailableAt), self.subscriptionDeadlines.earliest)
    }

    var request: WebSocketRequest {
        WebSocketRequest(
            self.configuration.endpoint(useTLS: self.useTLS), headers: self.configuration.headers,
            messageLimit: self.configuration.messageLimit,
            timeout: self.configuration.connectTimeout)
    }

    func ping(now: Instant) -> WebSocketMessage { PusherFrames.ping }

    mutating func pinged(now: Instant) { self.pingedAt = now }

    mutating func nextWork() -> WorkID {
        self.lastWork += 1
        return WorkID(rawValue: self.lastWork)
    }

    // MARK: The connection

    mutating func opening(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        effects.log(.debug, "connection \(id): connecting to \(self.request.endpoint)")
        if self.state != .unavailable { self.enterConnecting(now: now, &effects) }
    }

    mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        // The server speaks first.
        _ = self.connection.opened(id)
    }

    /// The server's greeting, or the protocol's reason to do without this connection.
    mutating func established(_ id: ConnectionID, _ data: JSONValue, now: Instant, _ effects: inout Effects<Self>) throws(PusherFrameError)
    {
        let greeting = try ConnectionEstablished(data)
        let silence = min(
            self.configuration.activityTimeout, greeting.activityTimeout.map { .seconds($0) } ?? self.configuration.activityTimeout)
        // The sum of two that mean never means it too.
        let death = Instant(nanoseconds: silence.nanoseconds).advanced(by: self.configuration.pongTimeout)
        let heartbeat = HeartbeatPolicy(probeAfterSilence: silence, deadAfterSilence: .nanoseconds(death.nanoseconds))
        guard self.connection.ready(id, heartbeat, now: now) == .announceConnected else { return }
        self.socketID = greeting.socketID
        self.lastLoss = nil
        self.unavailableAt = nil
        if !self.isFirstConnection { effects.counters.reconnects += 1 }
        self.isFirstConnection = false
        effects.log(.info, "connection \(id): connected, socket ID \(greeting.socketID)")
        self.setState(.connected(socketID: greeting.socketID), &effects)
        for waiter in self.connectWaiters { effects.commands.append(.resume(waiter, .success(.connected(socketID: greeting.socketID)))) }
        self.connectWaiters = []
        for index in self.channels.indices { self.beginSubscription(index, now: now, &effects) }
    }

    mutating func decision(on reason: CloseReason, now: Instant) -> ReconnectDecision {
        switch self.meaning(of: reason, now: now) {
        case .transport(let error) where [.tlsUnavailable, .invalidURL, .unsupported].contains(error.code): return .never
        case .peer(let code, _):
            switch PusherCloseCode.reaction(to: code) {
            case .useTLS:
                guard !self.useTLS else { return .never }
                self.useTLS = true
                return .immediately
            case .fail: return .never
            case .reconnect(let decision): return decision
            }
        default: return .afterBackoff()
        }
    }

    /// Some servers say why in an error event and then close without a code of their own.
    private func meaning(of reason: CloseReason, now: Instant) -> CloseReason {
        guard let (error, at) = self.lastServerError, let code = error.code, (4000...4299).contains(code) else { return reason }
        switch reason {
        case .peer(.normal, _), .peer(.noStatus, _), .peer(.goingAway, _), .transport:
            guard self.socketID == nil || at.advanced(by: .seconds(1)) >= now else { return reason }
            return .peer(CloseCode(rawValue: UInt16(code)), error.message)
        default: return reason
        }
    }

    /// A server's words without what it must not repeat to a log: signatures, users' data, and our own header fields.
    func redacted(_ words: String) -> String {
        var words = words
        for field in self.configuration.headers {
            // `Bearer TOKEN` may come back as the token alone.
            let token = field.value.split(separator: " ").last ?? ""
            if token.utf8.count >= 6 { words = words.replacing(token, with: "…") }
        }
        return ServerError.redacted(String(words.prefix(500)))
    }

    private func redacted(_ reason: CloseReason) -> CloseReason {
        switch reason {
        case .peer(let code, let words): .peer(code, self.redacted(words))
        case .transport(let error) where error.code == .upgradeRefused:
            .transport(TransportError(error.code, self.redacted(error.message), status: error.status))
        default: reason
        }
    }

    mutating func lost(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        let reason = self.redacted(self.meaning(of: reason, now: now))
        effects.log(reason == .requested ? .debug : .info, "connection lost: \(reason)")
        let wasConnected = self.socketID != nil
        self.socketID = nil
        self.pingedAt = nil
        self.lastServerError = nil
        self.authorizationQueue = []
        for index in self.channels.indices { self.subscriptionLost(index, &effects) }
        switch next {
        case .later(let until):
            if self.state != .unavailable { self.enterConnecting(now: now, &effects) }
            self.tellLoss(reason, wasConnected: wasConnected, &effects)
            self.tell(.connectingIn(now.duration(to: until)), self.connectingInRoute, &effects)
        case .reconnect:
            self.tellLoss(reason, wasConnected: wasConnected, &effects)
        case .never:
            self.finish(reason, &effects)
        }
    }

    private mutating func tellLoss(_ reason: CloseReason, wasConnected: Bool, _ effects: inout Effects<Self>) {
        let loss = PusherError.lost(reason, wasConnected: wasConnected)
        self.lastLoss = loss
        self.tell(.error(loss), self.errorRoute, &effects)
    }

    private mutating func finish(_ reason: CloseReason, _ effects: inout Effects<Self>) {
        self.finish(reason, .ended(reason), &effects)
    }

    private mutating func finish(_ reason: CloseReason, _ error: PusherError, _ effects: inout Effects<Self>) {
        self.unavailableAt = nil
        self.lastLoss = nil
        switch error.code {
        case .disconnected: self.setState(.disconnected(nil), &effects)
        case .refused: self.setState(.disconnected(error), &effects)
        default: self.setState(.failed(error), &effects)
        }
        if error.code != .disconnected {
            effects.log(.error, error.message)
            self.tell(.error(error), self.errorRoute, &effects)
        }
        for waiter in self.endWaiters {
            effects.commands.append(.resume(waiter, reason == .requested ? .success(.none) : .failure(error)))
        }
        self.endWaiters = []
        self.sendAway(error, &effects)
    }

    /// Everybody who waits for a connection, or for what a connection brings.
    private mutating func sendAway(_ error: PusherError, _ effects: inout Effects<Self>) {
        for waiter in self.connectWaiters { effects.commands.append(.resume(waiter, .failure(error))) }
        self.connectWaiters = []
        for index in self.channels.indices { self.answerWaiters(index, .failure(error), &effects) }
    }

    /// Those who came after the end wait for another beginning.
    mutating func stopWhileStopped(_ effects: inout Effects<Self>) { self.sendAway(.ended(.requested), &effects) }

    /// There is nothing to connect to.
    mutating func misconfigured(_ problem: String, _ effects: inout Effects<Self>) {
        let what = "The client's configuration cannot be used: \(problem)"
        let reason = CloseReason.transport(TransportError(.invalidURL, what))
        self.finish(reason, PusherError(.invalidConfiguration, what), &effects)
        effects.commands.append(.finish(reason))
    }

    private mutating func enterConnecting(now: Instant, _ effects: inout Effects<Self>) {
        guard self.state != .connecting else { return }
        self.unavailableAt = now.advanced(by: self.configuration.unavailableTimeout)
        self.setState(.connecting, &effects)
    }

    private mutating func setState(_ state: PusherConnectionState, _ effects: inout Effects<Self>) {
        guard state != self.state else { return }
        self.state = state
        self.tell(.state(state), self.stateRoute, &effects)
    }

    mutating func timeout(now: Instant, _ effects: inout Effects<Self>) {
        if let deadline = self.connection.nextDeadline, deadline <= now { self.connectionTimeout(now: now, &effects) }
        if let unavailableAt, unavailableAt <= now {
            self.unavailableAt = nil
            if self.state == .connecting { self.setState(.unavailable, &effects) }
        }
        while let due = self.subscriptionDeadlines.popDue(now) { self.subscriptionDue(due.key, now: now, &effects) }
    }

    // MARK: Callers that wait

    mutating func awaitConnected(_ waiter: WaiterID, _ effects: inout Effects<Self>) {
        switch self.state {
        case .connected(let socketID): effects.commands.append(.resume(waiter, .success(.connected(socketID: socketID))))
        case .failed(let error), .disconnected(let error?): effects.commands.append(.resume(waiter, .failure(error)))
        case .initialized, .connecting, .unavailable, .disconnected(nil): self.connectWaiters.append(waiter)
        }
    }

    mutating func awaitEnd(_ waiter: WaiterID, _ effects: inout Effects<Self>) {
        switch self.state {
        case .failed(let error), .disconnected(let error?): effects.commands.append(.resume(waiter, .failure(error)))
        case .disconnected(nil): effects.commands.append(.resume(waiter, .success(.none)))
        case .initialized, .connecting, .connected, .unavailable: self.endWaiters.append(waiter)
        }
    }

    mutating func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        self.connectWaiters.removeAll { $0 == waiter }
        self.endWaiters.removeAll { $0 == waiter }
        for index in self.channels.indices { self.channels[index]?.waiters.removeAll { $0 == waiter } }
    }

    // MARK: Delivery

    /// News that are no events of a channel: for those who asked for them, and for those who asked for everything.
    mutating func tell(_ news: Event, _ route: EventRoute, _ effects: inout Effects<Self>) {
        self.deliver(news, route, &effects)
        self.deliver(news, self.everythingRoute, &effects)
    }

    /// In this module, where the compiler knows the event's type: it is called for every message.
    mutating func deliver(_ event: consuming Event, _ route: EventRoute, _ effects: inout Effects<Self>) {
        guard !self.routes.isEmpty(route) else { return }
        effects.deliveries.append(event)
        let end = effects.deliveries.count
        if let last = effects.runs.indices.last, effects.runs[last].route == route {
            effects.runs[last].end = end
        } else {
            effects.runs.append(Effects<Self>.Run(route, end: end))
        }
    }
}
