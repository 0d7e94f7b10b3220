import RealtimeJSON
import RealtimeSystem
import PusherWire
import RealtimeCore

/// The client side of the Pusher protocol as a value: the connection, the channels, the consumers of updates, and the calls that wait.
///
/// It performs no I/O and reads no clock. Extensions in other files contain the channels, the consumers, and the server's frames.
struct PusherSession: ReconnectingSession {
    typealias Event = PusherUpdate
    typealias WorkResult = Result<PusherChannelAuthorization, PusherError>
    typealias Failure = PusherError

    enum WaiterResult: Sendable {
        case none
        case connected(socketID: String)
    }

    /// An authorization to perform.
    struct Work: Sendable {
        var request: PusherAuthorizationRequest
        var authorizer: PusherAuthorizer
        var configuration: PusherConfiguration
    }

    // `@Boxed` is for the row "idle connection, plain" of `realtime bench idle`: together, the boxed properties, which are usually `nil`,
    // save 140 bytes of the 150 that are left of its goal. For the same reason, a session has small dictionaries, and collections without
    // elements have no memory.

    var connection: ConnectionStateMachine
    let configuration: PusherConfiguration
    private(set) var state = PusherConnectionState.initialized
    /// When the state changes to `unavailable`.
    private var unavailableAt: Instant?
    /// The last error event of the connection, with its time: some servers send the reason in an error event before they close.
    @Boxed var lastServerError: (error: ServerError, at: Instant)?
    var pingedAt: Instant?
    private var useTLS: Bool
    private var hasConnected = false
    /// The last loss or failed attempt, while there is no connection.
    @Boxed private var lastLoss: PusherError?

    var channels = ChannelTable()
    /// When a subscription times out, or when a failed one is retried.
    var subscriptionDeadlines = Deadlines<ChannelID, Void>()
    var authorizations = AuthorizationQueue()
    /// Draws the delays between attempts to subscribe.
    var generator: SplitMix64

    var clientRoutes = ClientRoutes()
    /// The route of the last event. It is cleared when a channel or a consumer is added, or a channel is removed.
    var cachedRoute: CachedRoute?

    private var connectWaiters = WaitingCalls()
    private var endWaiters = WaitingCalls()

    init(_ configuration: PusherConfiguration, seed: UInt64) {
        self.connection = ConnectionStateMachine(policy: configuration.connectionPolicy, generator: SplitMix64(seed: seed))
        self.generator = SplitMix64(seed: ~seed)
        self.configuration = configuration
        self.useTLS = configuration.useTLS
    }

    func cancellation(of waiter: WaiterID) -> PusherError {
        let channel = self.channels.name(awaitedBy: waiter)
        let call =
            if self.endWaiters.contains(waiter) {
                "run()"
            } else if let channel {
                "subscribed(within:) of \(channel)"
            } else {
                "connected(within:)"
            }
        let message = "\(call) was cancelled with its task. The client continues; call disconnect() to end it."
        return PusherError(.cancelled, message, channel: channel)
    }

    func timedOut(_ waiter: WaiterID, after limit: Duration) -> PusherError {
        let channel = self.channels.name(awaitedBy: waiter)
        let call = channel.map { " waiting for the subscription to \($0)" } ?? ""
        let message =
            switch self.state {
            case .initialized, .disconnected, .failed:
                "Timed out after \(limit)\(call): the client is not connecting. Call connect() first."
            case .connecting, .unavailable:
                "Timed out after \(limit)\(call) without a connection to \(self.endpoint.origin); the client is still "
                    + (self.lastLoss.map { "retrying. \($0.message)" } ?? "trying. Use a longer timeout.")
            case .connected:
                "Timed out after \(limit)\(call); the client is still subscribing. Use a longer timeout or check `state`."
            }
        return PusherError(.timedOut, message, channel: channel, cause: self.lastLoss)
    }

    func stoodStill(_ waiter: WaiterID, for duration: Duration) -> PusherError {
        var message = "Waited \(duration) in reality, while the test's clock stood still. "
        if let inactivity {
            message += inactivity
        } else if case .connected = self.state {
            message += "The client is connected. Advance the clock if a time limit is to expire."
        } else {
            message += "The client is trying to connect. Advance the clock for the next attempt."
            if let loss = self.lastLoss { message += " \(loss.message)" }
        }
        return PusherError(.timedOut, message, channel: self.channels.name(awaitedBy: waiter), cause: self.lastLoss)
    }

    var inactivity: String? {
        switch self.state {
        case .initialized, .disconnected, .failed: "The client is not connecting. Call connect() first."
        case .connecting, .unavailable, .connected: nil
        }
    }

    var nextDeadline: Instant? {
        .earliest(.earliest(self.connection.nextDeadline, self.unavailableAt), self.subscriptionDeadlines.earliest)
    }

    private var endpoint: Endpoint { self.configuration.endpoint(useTLS: self.useTLS) }

    var request: WebSocketRequest {
        WebSocketRequest(
            self.endpoint, headers: self.configuration.headers, messageLimit: self.configuration.messageLimit,
            timeout: self.configuration.connectTimeout)
    }

    var socketID: String? { if case .connected(let socketID) = self.state { socketID } else { nil } }

    func ping(now: Instant) -> WebSocketMessage { PusherFrames.ping }

    mutating func pinged(now: Instant) { self.pingedAt = now }

    /// Reconnects if a retry is pending, and pings the server if the client is connected.
    mutating func checkConnection(now: Instant, _ effects: inout Effects<Self>) {
        self.checkConnection(timeout: self.configuration.pongTimeout, now: now, &effects)
    }

    // MARK: Connecting

    mutating func opening(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        effects.log(.debug, "connection \(id): connecting to \(self.request.endpoint)")
        if self.state != .unavailable { self.enterConnecting(now: now, &effects) }
        effects.deliver(.attempt(Int(id.rawValue)), on: self.clientRoutes.updates)
    }

    mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        // The server sends the first frame.
        _ = self.connection.opened(id)
    }

    /// Handles `pusher:connection_established`.
    mutating func established(_ id: ConnectionID, _ data: JSONValue, now: Instant, _ effects: inout Effects<Self>) throws(PusherFrameError)
    {
        let established = try ConnectionEstablished(data)
        let silence = min(
            self.configuration.activityTimeout, established.activityTimeout.map { .seconds($0) } ?? self.configuration.activityTimeout)
        // The sum saturates: each timeout may be so long that it never ends.
        let death = Instant(nanoseconds: silence.nanoseconds).advanced(by: self.configuration.pongTimeout)
        let heartbeat = HeartbeatPolicy(probeAfterSilence: silence, deadAfterSilence: .nanoseconds(death.nanoseconds))
        guard self.connection.ready(id, heartbeat, now: now) == .announceConnected else { return }
        self.lastLoss = nil
        self.unavailableAt = nil
        if self.hasConnected { effects.counters.reconnects += 1 }
        self.hasConnected = true
        effects.log(.info, "connection \(id): connected, socket ID \(established.socketID)")
        self.setState(.connected(socketID: established.socketID), &effects)
        for waiter in self.connectWaiters.takeAll() {
            effects.resume(waiter, .success(.connected(socketID: established.socketID)))
        }
        for id in self.channels.ids { self.beginSubscription(id, now: now, &effects) }
    }

    private mutating func enterConnecting(now: Instant, _ effects: inout Effects<Self>) {
        guard self.state != .connecting else { return }
        self.unavailableAt = now.advanced(by: self.configuration.unavailableTimeout)
        self.setState(.connecting, &effects)
    }

    private mutating func setState(_ state: PusherConnectionState, _ effects: inout Effects<Self>) {
        guard state != self.state else { return }
        self.state = state
        self.publish(.state(state), to: self.clientRoutes.states, &effects)
    }

    mutating func timeout(now: Instant, _ effects: inout Effects<Self>) {
        if let deadline = self.connection.nextDeadline, deadline <= now { self.connectionTimeout(now: now, &effects) }
        if let unavailableAt, unavailableAt <= now {
            self.unavailableAt = nil
            if self.state == .connecting { self.setState(.unavailable, &effects) }
        }
        while let due = self.subscriptionDeadlines.popDue(now) { self.subscriptionTimeout(due.key, now: now, &effects) }
    }

    // MARK: Losing the connection

    mutating func decision(on reason: CloseReason, now: Instant) -> ReconnectDecision {
        switch self.effectiveReason(reason, now: now) {
        case .transport(let error) where error.code.isPermanent: return .never
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

    /// Returns the reason that the server sent in an error event, if it then closed without a code of the protocol.
    ///
    /// While connected, the error event must be at most one second old.
    private func effectiveReason(_ reason: CloseReason, now: Instant) -> CloseReason {
        guard let (error, at) = self.lastServerError, let code = error.code, (4000...4299).contains(code) else { return reason }
        switch reason {
        case .peer(.normal, _), .peer(.noStatus, _), .peer(.goingAway, _), .transport:
            guard self.socketID == nil || at.advanced(by: .seconds(1)) >= now else { return reason }
            return .peer(CloseCode(rawValue: UInt16(code)), error.message)
        default: return reason
        }
    }

    mutating func lost(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        let reason = self.redacted(self.effectiveReason(reason, now: now))
        effects.log(reason == .requested ? .debug : .info, "connection lost: \(reason)")
        let wasConnected = self.socketID != nil
        self.pingedAt = nil
        self.lastServerError = nil
        self.authorizations.removeAllWaiting()
        for id in self.channels.ids { self.subscriptionLost(id, &effects) }
        switch next {
        case .later(let until):
            if self.state != .unavailable { self.enterConnecting(now: now, &effects) }
            self.publishLoss(reason, wasConnected: wasConnected, &effects)
            self.publish(.connectingIn(now.duration(to: until)), to: self.clientRoutes.retryDelays, &effects)
        case .reconnect, .undecided:
            self.publishLoss(reason, wasConnected: wasConnected, &effects)
        case .never:
            self.finish(reason, .ended(reason, at: self.endpoint), &effects)
        }
    }

    private mutating func publishLoss(_ reason: CloseReason, wasConnected: Bool, _ effects: inout Effects<Self>) {
        let loss = PusherError.lost(reason, at: self.endpoint, wasConnected: wasConnected)
        self.lastLoss = loss
        self.publish(.error(loss), to: self.clientRoutes.errors, &effects)
    }

    /// Moves the client to a final state.
    private mutating func finish(_ reason: CloseReason, _ error: PusherError, _ effects: inout Effects<Self>) {
        self.unavailableAt = nil
        self.lastLoss = nil
        switch error.code {
        case .disconnected: self.setState(.disconnected(nil), &effects)
        case .rejected: self.setState(.disconnected(error), &effects)
        default: self.setState(.failed(error), &effects)
        }
        if error.code != .disconnected {
            effects.log(.error, error.message)
            self.publish(.error(error), to: self.clientRoutes.errors, &effects)
        }
        for waiter in self.endWaiters.takeAll() { effects.resume(waiter, reason == .requested ? .success(.none) : .failure(error)) }
        self.failConnectionWaiters(error, &effects)
    }

    /// Fails the calls that wait for the connection or for a subscription.
    private mutating func failConnectionWaiters(_ error: PusherError, _ effects: inout Effects<Self>) {
        for waiter in self.connectWaiters.takeAll() { effects.resume(waiter, .failure(error)) }
        for id in self.channels.ids { self.resumeWaiters(id, .failure(error), &effects) }
    }

    /// Fails the calls that began to wait after the client was disconnected.
    mutating func stopWhileStopped(_ effects: inout Effects<Self>) {
        self.failConnectionWaiters(.ended(.requested, at: self.endpoint), &effects)
    }

    /// Moves the client to the state `failed`, instead of connecting.
    mutating func failConfiguration(_ validationError: String, _ effects: inout Effects<Self>) {
        let message = "Invalid configuration: \(validationError)"
        let reason = CloseReason.transport(TransportError(.invalidURL, message))
        self.finish(reason, PusherError(.invalidConfiguration, message), &effects)
        effects.commands.append(.finish(reason))
    }

    /// Removes from a server's text what must not appear in errors and logs: signatures, users' data, and the values of the configured
    /// header fields.
    func redacted(_ text: String) -> String {
        var text = text
        for secret in self.configuration.headers.secrets { text = text.replacingText(secret, with: "…") }
        return ServerError.redacted(Excerpt.of(text, limit: ServerError.messageLimit))
    }

    private func redacted(_ reason: CloseReason) -> CloseReason {
        switch reason {
        case .peer(let code, let text): .peer(code, self.redacted(text))
        case .transport(let error) where error.code == .upgradeRejected:
            .transport(error.withMessage(self.redacted(error.message)))
        default: reason
        }
    }

    // MARK: Waiting calls

    mutating func awaitConnected(_ waiter: WaiterID, _ effects: inout Effects<Self>) {
        switch self.state {
        case .connected(let socketID): effects.resume(waiter, .success(.connected(socketID: socketID)))
        case .failed(let error), .disconnected(let error?): effects.resume(waiter, .failure(error))
        case .initialized, .connecting, .unavailable, .disconnected(nil): self.connectWaiters.insert(waiter)
        }
    }

    mutating func awaitEnd(_ waiter: WaiterID, _ effects: inout Effects<Self>) {
        switch self.state {
        case .failed(let error), .disconnected(let error?): effects.resume(waiter, .failure(error))
        case .disconnected(nil): effects.resume(waiter, .success(.none))
        case .initialized, .connecting, .connected, .unavailable: self.endWaiters.insert(waiter)
        }
    }

    mutating func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        self.connectWaiters.remove(waiter)
        self.endWaiters.remove(waiter)
        self.channels.removeWaiter(waiter)
    }

    var waiterCount: Int { self.connectWaiters.count + self.endWaiters.count + self.channels.waiterCount }
}

extension Effects<PusherSession> {
    mutating func resume(_ waiter: WaiterID, _ result: Result<PusherSession.WaiterResult, PusherError>) {
        self.commands.append(.resume(waiter, result))
    }
}
