import RealtimeCoding
import RealtimeSystem
import PusherWire
import RealtimeCore

/// The client side of the Pusher protocol as a value. It performs no I/O and reads no clock.
///
/// It owns the connection and its settings. Everything else is in parts, which are values with private state: the session passes them what
/// happens to the connection, what the server sends, and what the application asks for, and passes their results on to other parts.
/// Extensions in other files contain the routes of these inputs.
struct PusherSession: ReconnectingSession {
    typealias Event = PusherUpdate
    typealias Failure = PusherError

    enum WaiterResult: Sendable {
        case none
        case connected(socketID: String)
        case signedIn(PusherMember)
    }

    /// An authorization of a subscription or an authentication of the user to perform.
    enum Work: Sendable {
        case channel(PusherAuthorizationRequest, PusherAuthorizer, PusherConfiguration)
        /// Authorizations of several channels with one request.
        case batch([BatchMember], PusherAuthorizationEndpoint, PusherConfiguration)
        case user(socketID: String, PusherUserAuthenticator, PusherConfiguration)
        /// A decision of the application's policy for reconnects.
        case retryDelay(PusherRetryContext, RetryPolicy)
    }

    /// The purpose of work that was requested.
    enum Purpose: Hashable, Sendable {
        case authorization(ChannelID)
        /// A request for several authorizations.
        case batch
        case authentication
        case retryDecision
    }

    /// A policy for reconnects that is the application's.
    enum RetryPolicy: Sendable {
        case asynchronous(@Sendable (PusherRetryContext) async -> Duration?)
        case direct(PusherRetryDecision)
    }

    struct BatchMember: Sendable {
        var work: WorkID
        var request: PusherAuthorizationRequest
    }

    enum WorkResult: Sendable {
        case channel(Result<PusherChannelAuthorization, PusherError>)
        /// The results of the members that the batch had.
        case batch([(work: WorkID, result: Result<PusherChannelAuthorization, PusherError>)])
        case user(Result<PusherUserAuthentication, PusherError>)
        case retryDelay(Duration?)
    }

    /// Why a connection ended.
    struct Ending: ConnectionEnding {
        /// The reason that the transport reported.
        var reason: CloseReason
        /// The reason that the server sent in an error event before, or ``reason``.
        var effective: CloseReason
    }

    var connection: ConnectionStateMachine
    /// Whether the client uses version 2 of the protocol. It is read for every frame.
    private(set) var usesVersion2: Bool
    /// The settings of the current connection or attempt and, if there is none, of the next one.
    private var settings: PusherSettings
    /// The settings that apply when the current connection or attempt has ended, if they were changed.
    private var nextSettings: PusherSettings?
    /// The connection that another server has replaced and whose close the old one hasn't confirmed.
    private var replaced: (id: ConnectionID, abandonAt: Instant)?
    /// The attempts since the last loss, unless the protocol decides about them.
    private var retries = RetrySeries()
    private(set) var state = PusherConnectionState.initialized
    /// When the state changes to `unavailable`.
    private var unavailableAt: Instant?
    /// The last error event of the connection, with its time: some servers send the reason in an error event before they close.
    var lastServerError: (error: ServerError, at: Instant)?
    var pingedAt: Instant?
    /// When the last message arrived on the connection.
    var receivedAt: Instant?
    private var useTLS: Bool
    private var hasConnected = false
    /// Whether the server has accepted the WebSocket of the current attempt.
    private var isAccepted = false
    private var outage = OutageLog()
    /// The last loss or failed attempt, while there is no connection.
    private var lastLoss: PusherError?

    // The parts.

    var work = SessionWork()
    var channels: ChannelSubscriptions
    var events = EventDelivery()
    var consumers = ClientConsumers()
    var clientEvents = ClientEvents()
    var keys: ChannelKeys
    var recovery: EventRecovery
    var deltas: EventDeltas
    var user: UserSession

    private var connectWaiters = WaitingCalls()
    private var endWaiters = WaitingCalls()
    /// The calls whose cancellation ends the client.
    private var runWaiters = WaitingCalls()

    init(_ configuration: PusherConfiguration, seed: UInt64) {
        self.settings = configuration.settings
        self.connection = ConnectionStateMachine(policy: self.settings.connectionPolicy, generator: SplitMix64(seed: seed))
        var seeds = SplitMix64(seed: ~seed)
        self.channels = ChannelSubscriptions(seed: seeds.next())
        self.keys = ChannelKeys(seed: seeds.next())
        self.user = UserSession(seed: seeds.next())
        self.recovery = EventRecovery(isOn: configuration.recovery != nil)
        self.deltas = EventDeltas(isRequested: configuration.deltaCompression != nil)
        self.usesVersion2 = configuration.usesVersion2
        self.useTLS = configuration.useTLS
    }

    func cancellation(of waiter: WaiterID) -> PusherError {
        let channel = self.channels.name(awaitedBy: waiter)
        let call =
            if self.endWaiters.contains(waiter) || self.runWaiters.contains(waiter) {
                "run()"
            } else if let channel {
                "subscribed(within:) of \(channel)"
            } else if self.user.awaits(waiter) {
                "signedIn(within:)"
            } else {
                "connected(within:)"
            }
        let message = "\(call) was cancelled with its task. The client continues; call disconnect() to end it."
        return PusherError(.cancelled, message, channel: channel)
    }

    func timedOut(_ waiter: WaiterID, after limit: WaitLimit) -> PusherError {
        let channel = self.channels.name(awaitedBy: waiter)
        let call = channel.map { " waiting for the subscription to \($0)" } ?? ""
        let message =
            switch self.state {
            case .initialized, .disconnected, .failed:
                "\(limit)\(call): the client is not connecting. Call connect() first."
            case .connecting, .unavailable:
                limit.withoutConnection(to: self.endpoint.origin, for: call, after: self.lastLoss?.message)
            case .connected where self.user.awaits(waiter):
                "\(limit): the user isn't signed in. "
                    + (self.user.state == .idle
                        ? "Call signIn() first." : limit.advice("Use a longer timeout or check the state of the user."))
            case .connected:
                "\(limit)\(call); the client is still subscribing. \(limit.advice("Use a longer timeout or check `state`."))"
            }
        return PusherError(.timedOut, message, channel: channel, cause: self.lastLoss)
    }

    var inactivity: String? {
        switch self.state {
        case .initialized, .disconnected, .failed: "The client is not connecting. Call connect() first."
        case .connecting, .unavailable, .connected: nil
        }
    }

    var nextDeadline: Instant? {
        .earliest(
            .earliest(.earliest(self.connection.nextDeadline, self.replaced?.abandonAt), self.unavailableAt),
            .earliest(
                .earliest(self.channels.nextDeadline, self.recovery.nextDeadline),
                .earliest(self.clientEvents.nextDeadline, self.user.nextDeadline)))
    }

    func context(_ now: Instant) -> SessionContext {
        SessionContext(
            now: now, connection: self.connection.connected, socketID: self.socketID, settings: self.settings,
            consumers: self.consumers)
    }

    private var endpoint: Endpoint { self.configuration.endpoint(useTLS: self.useTLS) }

    var request: WebSocketRequest {
        WebSocketRequest(
            self.endpoint, headers: self.configuration.headers, messageLimit: self.configuration.messageLimit,
            timeout: self.configuration.connectTimeout)
    }

    var socketID: String? { if case .connected(let socketID) = self.state { socketID } else { nil } }

    func ping(now: Instant) -> TransportMessage { PusherFrames.ping }

    mutating func pinged(_ message: TransportMessage, now: Instant, _ effects: inout Effects<Self>) {
        self.pingedAt = now
        self.consumers.sent(message, self.configuration.trace, &effects)
    }

    /// Reconnects if a retry or its decision is pending, and pings the server if the client is connected.
    mutating func checkConnection(now: Instant, _ effects: inout Effects<Self>) {
        switch self.connection.state {
        // The attempts that failed say nothing about the network that is available now.
        case .deciding, .backingOff: self.retries.reset()
        default: break
        }
        self.checkConnection(timeout: self.configuration.pongTimeout, now: now, &effects)
    }

    /// When the next attempt to connect starts, if one is pending.
    var nextAttempt: Instant? { if case .backingOff(let until) = self.connection.state { until } else { nil } }

    // MARK: Changing the settings

    /// The settings that were set last.
    var latestSettings: PusherSettings { self.nextSettings ?? self.settings }

    var configuration: PusherConfiguration { _read { yield self.settings.configuration } }

    /// Changes the settings. They apply now if there is neither a connection nor an attempt, and otherwise when it ends.
    ///
    /// - Returns: `false` if `old` are no longer the settings that were set last.
    mutating func setSettings(
        _ new: PusherSettings, replacing old: PusherSettings, now: Instant, _ effects: inout Effects<Self>
    ) -> Bool {
        guard self.latestSettings === old else { return false }
        self.nextSettings = new
        switch self.connection.state {
        case .opening, .handshaking, .connected, .resuming: break
        case .idle, .backingOff, .deciding, .closing, .closed: self.applySettings(now: now, &effects)
        }
        return true
    }

    /// Applies the settings that were changed during the last connection or attempt.
    private mutating func applySettings(now: Instant, _ effects: inout Effects<Self>) {
        guard let settings = self.nextSettings.take() else { return }
        let new = settings.configuration
        let isOtherServer = !new.hasServer(of: self.configuration)
        if isOtherServer {
            // The requirement of one server isn't that of another, and the keys of one app aren't those of another.
            self.useTLS = new.useTLS
            self.forgetKeys(now: now, &effects)
            self.channels.forgetRateLimit()
        }
        effects.commands.append(.release(self.settings))
        self.settings = settings
        self.usesVersion2 = new.usesVersion2
        self.recovery.changed(isOn: new.recovery != nil)
        self.deltas.changed(isRequested: new.deltaCompression != nil, isOtherServer: isOtherServer)
        self.connection.sharedPolicy = settings.connectionPolicy
    }

    /// Connects with the settings that were set last, instead of the current connection, attempt or delay. Does nothing else if the client
    /// isn't to be connected.
    ///
    /// - Source: pusher-js (`switchCluster` in `pusher.ts`, `retryIn` in `connection_manager.ts`), which ends the connection and connects
    ///   without a delay. Unlike this client, pusher-js also connects if it was disconnected.
    mutating func switchServer(now: Instant, _ effects: inout Effects<Self>) {
        self.applySettings(now: now, &effects)
        self.reconnect(now: now, &effects)
    }

    /// Connects now, instead of the current connection, attempt or delay.
    mutating func reconnect(now: Instant, _ effects: inout Effects<Self>) {
        let new: ConnectionID
        switch self.connection.restart(now: now) {
        case .none: return
        case .open(let id): new = id
        case .replace(let old, let id, let sendsClose):
            new = id
            if sendsClose {
                if let earlier = self.replaced { effects.commands.append(.abandon(earlier.id)) }
                self.replaced = (old, now.advanced(by: self.connection.policy.closeTimeout))
                effects.commands.append(.close(old, .normal, reason: ""))
            } else {
                effects.commands.append(.abandon(old))
            }
        }
        self.endRetries(&effects)
        self.lastLoss = nil
        self.outage.reset()
        effects.log(.info, "connecting again, to \(self.endpoint.origin)")
        self.connectionEnded(since: now, isFinal: false, now: now, &effects)
        self.opening(new, now: now, &effects)
        self.begin(new, now: now, &effects)
    }

    mutating func additionalClosed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        if self.replaced?.id == id { self.replaced = nil }
    }

    // MARK: Connecting

    mutating func opening(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        self.withdrawQuestion(&effects)
        self.isAccepted = false
        effects.log(.debug, "connection \(id): connecting to \(self.request.endpoint)")
        if self.state != .unavailable { self.enterConnecting(now: now, &effects) }
        self.consumers.publish(.attempt(Int(id.rawValue)), &effects)
    }

    mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        self.isAccepted = true
        // The server sends the first frame.
        _ = self.connection.opened(id, now: now)
    }

    /// Handles `pusher:connection_established`.
    mutating func established(_ id: ConnectionID, _ data: JSONValue, now: Instant, _ effects: inout Effects<Self>) throws(PusherFrameError)
    {
        let established = try ConnectionEstablished(data)
        let maximum = self.configuration.activityTimeout
        let requested = established.activityTimeout.map { Duration.seconds($0) }
        let silence = min(maximum, requested ?? self.configuration.fallbackActivityTimeout ?? maximum)
        // The sum saturates: each timeout may be so long that it never ends.
        let death = Instant(nanoseconds: silence.nanoseconds).advanced(by: self.configuration.pongTimeout)
        let heartbeat = HeartbeatPolicy(probeAfterSilence: silence, deadAfterSilence: .nanoseconds(death.nanoseconds))
        guard self.connection.ready(id, heartbeat, now: now) == .announceConnected else { return }
        self.retries.connected(now: now)
        self.lastLoss = nil
        self.outage.reset()
        self.unavailableAt = nil
        if self.hasConnected { effects.counters.reconnects += 1 }
        self.hasConnected = true
        effects.log(.info, "connection \(id): connected, socket ID \(established.socketID)")
        self.setState(.connected(socketID: established.socketID), &effects)
        self.connectWaiters.resumeAll(.success(.connected(socketID: established.socketID)), &effects)
        if self.deltas.support == .on { self.send(PusherFrames.enableDeltaCompression, on: id, &effects) }
        self.beginSignIn(now: now, &effects)
        self.beginSubscriptions(now: now, &effects)
    }

    /// Describes that there has been no connection for a while, with the reason if an attempt has failed.
    private var unavailability: String {
        let start = "No connection to \(self.endpoint.origin) for \(self.configuration.unavailableTimeout); the client keeps trying."
        let advice = "The server hasn't answered yet. Check the host, the port, `useTLS`, and the network."
        return "\(start) \(self.lastLoss?.message ?? advice)"
    }

    /// Handles `pusher:pong`.
    mutating func receivedPong(now: Instant, _ effects: inout Effects<Self>) {
        if let pingedAt { effects.counters.lastRoundTrip = pingedAt.duration(to: now) }
        self.pingedAt = nil
    }

    private mutating func enterConnecting(now: Instant, _ effects: inout Effects<Self>) {
        guard self.state != .connecting else { return }
        self.unavailableAt = now.advanced(by: self.configuration.unavailableTimeout)
        self.setState(.connecting, &effects)
    }

    private mutating func setState(_ state: PusherConnectionState, _ effects: inout Effects<Self>) {
        guard state != self.state else { return }
        self.state = state
        self.consumers.publish(state, &effects)
    }

    mutating func timeout(now: Instant, _ effects: inout Effects<Self>) {
        if let deadline = self.connection.nextDeadline, deadline <= now { self.connectionTimeout(now: now, &effects) }
        if let replaced, replaced.abandonAt <= now {
            self.replaced = nil
            effects.commands.append(.abandon(replaced.id))
        }
        if let unavailableAt, unavailableAt <= now {
            self.unavailableAt = nil
            if self.state == .connecting {
                effects.log(.warning, self.unavailability)
                self.setState(.unavailable, &effects)
            }
        }
        self.subscriptionTimeouts(now: now, &effects)
        self.recoveryTimeouts(now: now, &effects)
        self.sendBatches(now: now, &effects)
        self.signInTimeout(now: now, &effects)
        self.sendWaitingClientEvents(now: now, &effects)
        self.reportRejectedClientEvents(now: now, &effects)
    }

    // MARK: Losing the connection

    mutating func decision(on ending: Ending, now: Instant) -> ReconnectDecision {
        // Settings that were changed apply to the delay before the next attempt, and to the attempt.
        self.connection.sharedPolicy = self.latestSettings.connectionPolicy
        switch ending.effective {
        case .transport(let error) where error.code.isPermanent: return .never
        case .peer(let code, _):
            switch PusherCloseCode.reaction(to: code) {
            case .useTLS:
                guard !self.useTLS else { return .never }
                self.useTLS = true
                self.retries.lost(now: now)
                return .immediately
            case .fail: return .never
            case .reconnect(let decision): return self.retries.decide(self.retryRule, instead: decision, now: now)
            }
        default: return self.retries.decide(self.retryRule, now: now)
        }
    }

    private var retryRule: RetryRule {
        if self.latestSettings.configuration.retryDecision != nil { return .ask }
        return switch self.latestSettings.configuration.retry {
        case .none: .never
        case .backoff: .protocolDecision
        case .delays(let delays): .delays(delays)
        case .custom: .ask
        }
    }

    /// Asks the application for the delay before the next attempt.
    private mutating func askForDelay(after id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard let loss = self.lastLoss else { return self.decided(id, .afterBackoff(), now: now, &effects) }
        let context = PusherRetryContext(
            retryCount: self.retries.retryCount, elapsed: self.retries.elapsed(now: now), reason: loss)
        let policy: RetryPolicy
        if let decide = self.configuration.retryDecision {
            policy = .direct(decide)
        } else if case .custom(let delay) = self.configuration.retry {
            policy = .asynchronous(delay)
        } else {
            return self.decided(id, .afterBackoff(), now: now, &effects)
        }
        let work = self.work.start(.retryDelay(context, policy), for: .retryDecision, &effects)
        self.retries.asked(work, about: id)
    }

    /// Follows the decision of the application, unless it is late.
    mutating func delayDecided(_ work: WorkID, _ delay: Duration?, now: Instant, _ effects: inout Effects<Self>) {
        guard self.work.take(work) != nil, let (connection, decision) = self.retries.answered(work, delay) else { return }
        self.decided(connection, decision, now: now, &effects)
    }

    private mutating func withdrawQuestion(_ effects: inout Effects<Self>) {
        if let work = self.retries.withdrawQuestion() { self.work.cancel(work, &effects) }
    }

    private mutating func endRetries(_ effects: inout Effects<Self>) {
        self.withdrawQuestion(&effects)
        self.retries.reset()
    }

    /// Whether the protocol allows another attempt.
    private func allowsRetry(after reason: CloseReason) -> Bool {
        switch reason {
        case .requested: return false
        case .transport(let error): return !error.code.isPermanent
        case .peer(let code, _): if case .reconnect = PusherCloseCode.reaction(to: code) { return true } else { return false }
        default: return true
        }
    }

    func ending(for reason: CloseReason, now: Instant) -> Ending {
        Ending(reason: reason, effective: self.effectiveReason(reason, now: now))
    }

    /// Returns the reason that the server sent in an error event, if it then closed without a code of the protocol.
    ///
    /// While connected, the error event must be at most one second old.
    private func effectiveReason(_ reason: CloseReason, now: Instant) -> CloseReason {
        guard let (error, at) = self.lastServerError, let code = error.code, (4000...4299).contains(code) else { return reason }
        switch reason {
        case .peer(.normal, _), .peer(.noStatus, _), .peer(.goingAway, _), .transport:
            guard self.socketID == nil || at.advanced(by: .seconds(1)) >= now else { return reason }
            // Some servers report a rejected subscription with this code, and keep the connection. Its loss then has another reason, unless
            // the server closes it.
            if self.socketID != nil, code == Int(PusherCloseCode.unauthorized.rawValue), reason.transportError != nil { return reason }
            return .peer(CloseCode(rawValue: UInt16(code)), error.message)
        default: return reason
        }
    }

    mutating func lost(_ ending: Ending, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        let interruptedAt = self.isOrderly(ending.reason) ? now : self.receivedAt ?? now
        let reason = self.redacted(ending.effective)
        // Before the settings change: the error names the server that was lost.
        let endpoint = self.endpoint
        let loss = PusherError.lost(reason, at: endpoint, wasConnected: self.socketID != nil, wasAccepted: self.isAccepted)
        self.log(loss, reason, then: next, &effects)
        self.applySettings(now: now, &effects)
        self.connectionEnded(
            since: interruptedAt, isFinal: next == .never, mayBeRateLimit: Self.mayBeRateLimit(ending.effective), now: now, &effects)
        switch next {
        case .later(let until):
            if self.state != .unavailable { self.enterConnecting(now: now, &effects) }
            self.publishLoss(loss, &effects)
            self.publishDelay(until: until, now: now, &effects)
        case .reconnect: self.publishLoss(loss, &effects)
        case .undecided(let id):
            if self.state != .unavailable { self.enterConnecting(now: now, &effects) }
            self.publishLoss(loss, &effects)
            self.askForDelay(after: id, now: now, &effects)
        case .never:
            self.finish(reason, self.allowsRetry(after: reason) ? .gaveUp(loss) : .ended(reason, at: endpoint), &effects)
        }
    }

    /// Logs a loss or a failed attempt.
    private mutating func log(_ loss: PusherError, _ reason: CloseReason, then next: NextAttempt, _ effects: inout Effects<Self>) {
        if reason == .requested { return effects.log(.debug, "the connection is closed") }
        // The end of the client is logged as an error.
        guard self.socketID == nil, next != .never else { return effects.log(.info, loss.message) }
        self.outage.attemptFailed(loss.message, &effects)
    }

    mutating func resolved(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        switch next {
        case .later(let until): self.publishDelay(until: until, now: now, &effects)
        case .reconnect, .undecided: break
        case .never:
            // The loss was reported already, but as one from which the client may recover.
            self.subscriptionsLost(since: now, isFinal: true, now: now, &effects)
            let loss = self.lastLoss ?? PusherError(.connectionLost, "The connection was lost.")
            self.finish(self.redacted(reason), .gaveUp(loss), &effects)
        }
    }

    /// Whether a server may have ended a connection because it received too many messages: Reverb gives no reason.
    private static func mayBeRateLimit(_ reason: CloseReason) -> Bool {
        switch reason {
        case .peer(let code, _): !(4000...4299).contains(code.rawValue) && code != .goingAway && code.rawValue != 1012
        case .transport(let error): error.code == .closed || error.code == .reset
        case .requested, .openTimeout, .heartbeatTimeout: false
        }
    }

    /// Ends everything that depended on the connection.
    private mutating func connectionEnded(
        since: Instant, isFinal: Bool, mayBeRateLimit: Bool = false, now: Instant, _ effects: inout Effects<Self>
    ) {
        self.pingedAt = nil
        self.lastServerError = nil
        self.channels.ended(isByPeer: mayBeRateLimit, now: now, &effects)
        if let error = self.clientEvents.takeRejections() { self.consumers.report(error, &effects) }
        self.clientEvents.ended()
        self.user.ended(self.context(now), &self.work, &effects)
        self.deltas.userEnded()
        self.subscriptionsLost(since: since, isFinal: isFinal, now: now, &effects)
    }

    /// Whether a connection ended with a close frame, before which all events have arrived. Otherwise, it may have been dead for a while.
    private func isOrderly(_ reason: CloseReason) -> Bool {
        switch reason {
        case .peer, .requested: true
        default: false
        }
    }

    private mutating func publishLoss(_ loss: PusherError, _ effects: inout Effects<Self>) {
        self.lastLoss = loss
        self.consumers.publish(loss, &effects)
    }

    private func publishDelay(until: Instant, now: Instant, _ effects: inout Effects<Self>) {
        let delay = now.duration(to: until)
        // The timer's minimum of 1 ns means no delay.
        self.consumers.publish(delay: delay > .nanoseconds(1) ? delay : .zero, &effects)
    }

    /// Moves the client to a final state.
    private mutating func finish(_ reason: CloseReason, _ error: PusherError, _ effects: inout Effects<Self>) {
        self.unavailableAt = nil
        self.lastLoss = nil
        self.outage.reset()
        self.endRetries(&effects)
        switch error.code {
        case .disconnected:
            self.setState(.disconnected(nil), &effects)
            let dropped = self.clientEvents.dropAll()
            if dropped > 0 {
                effects.log(.warning, "the client was disconnected before \(dropped) client event\(dropped == 1 ? "" : "s") could be sent")
            }
        case .rejected, .connectionLost: self.setState(.disconnected(error), &effects)
        default: self.setState(.failed(error), &effects)
        }
        if error.code != .disconnected {
            effects.log(.error, error.message)
            self.consumers.publish(error, &effects)
        }
        let end: Result<WaiterResult, PusherError> = reason == .requested ? .success(.none) : .failure(error)
        self.endWaiters.resumeAll(end, &effects)
        self.runWaiters.resumeAll(end, &effects)
        self.failConnectionWaiters(error, &effects)
    }

    /// Fails the calls that wait for the connection or for a subscription.
    private mutating func failConnectionWaiters(_ error: PusherError, _ effects: inout Effects<Self>) {
        self.connectWaiters.resumeAll(.failure(error), &effects)
        self.user.failWaiters(error, &effects)
        self.channels.failWaiters(error, &effects)
    }

    /// Fails the calls that began to wait after the client was disconnected.
    mutating func stopWhileStopped(_ effects: inout Effects<Self>) {
        self.failConnectionWaiters(.ended(.requested, at: self.endpoint), &effects)
    }

    /// Starts the client, or moves it to the state `failed` if a value of its configuration is invalid.
    mutating func connect(now: Instant, _ effects: inout Effects<Self>) {
        if let error = self.latestSettings.configuration.validationError {
            self.failConfiguration(error, &effects)
        } else {
            self.start(now: now, &effects)
        }
    }

    package mutating func release(now: Instant, _ effects: inout Effects<Self>) {
        switch self.state {
        case .initialized, .failed, .disconnected: break
        case .connecting, .connected, .unavailable:
            effects.log(.info, "the client was released, which ends its connection; keep a reference to it while it is in use")
        }
        self.stop(now: now, &effects)
    }

    mutating func failConfiguration(_ validationError: String, _ effects: inout Effects<Self>) {
        let message = "Invalid configuration: \(validationError)"
        let reason = CloseReason.transport(TransportError(.invalidURL, message))
        self.finish(reason, PusherError(.invalidConfiguration, message), &effects)
        effects.commands.append(.finish(reason))
    }

    /// Starts the client for a call that waits for its end. Unlike with ``awaitEnd(_:_:)``, its cancellation ends the client.
    mutating func run(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        self.runWaiters.insert(waiter)
        self.connect(now: now, &effects)
    }

    private func redacted(_ reason: CloseReason) -> CloseReason {
        // Only one of the transport's errors contains a text of the server: the one of a rejected upgrade.
        if let error = reason.transportError, error.code != .upgradeRejected { return reason }
        return reason.mapText(self.configuration.redacted)
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
        self.channels.cancelled(waiter)
        self.user.cancelled(waiter)
        // In the same step: another task that runs the client afterwards connects it again.
        if self.runWaiters.remove(waiter) { self.stop(now: now, &effects) }
    }

    var waiterCount: Int {
        self.connectWaiters.count + self.endWaiters.count + self.runWaiters.count + self.channels.waiterCount + self.user.waiterCount
    }

    // MARK: Work

    mutating func workFinished(_ id: WorkID, _ result: WorkResult, now: Instant, _ effects: inout Effects<Self>) {
        switch result {
        case .user(let result): self.userAuthenticated(id, result, now: now, &effects)
        case .retryDelay(let delay): self.delayDecided(id, delay, now: now, &effects)
        case .channel(let result): self.authorizationsFinished([(id, result)], now: now, &effects)
        case .batch(let results): self.authorizationsFinished(results, now: now, &effects)
        }
    }

    // MARK: Sending

    /// Sends a frame.
    func send(_ message: TransportMessage, on id: ConnectionID, _ effects: inout Effects<Self>) {
        effects.commands.append(.send(id, message))
        self.consumers.sent(message, self.configuration.trace, &effects)
    }

    /// Why the client doesn't connect, if it has given up.
    var endError: PusherError? {
        switch self.state {
        case .failed(let error), .disconnected(let error?): error
        case .initialized, .connecting, .connected, .unavailable, .disconnected(nil): nil
        }
    }
}
