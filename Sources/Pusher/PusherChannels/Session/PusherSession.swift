import RealtimeJSON
import RealtimeSystem
import PusherWire
import RealtimeCore

/// The client side of the Pusher protocol as a value: the connection, the channels, the consumers of updates, and the calls that wait.
///
/// It performs no I/O and reads no clock. Extensions in other files contain the channels, the consumers, and the server's frames.
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
        /// A decision of the user's policy for reconnects.
        case retryDelay(PusherRetryContext, RetryPolicy)
    }

    /// A policy for reconnects that is the user's.
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

    /// A series of attempts after a loss.
    private struct Retries: Sendable {
        var startedAt: Instant
        /// The number of attempts that were decided about.
        var count = 0
        /// The shortest delay that the protocol allows.
        var minimum = Duration.zero
        /// The decision that the user's policy hasn't made yet, and the connection whose loss it is about.
        var decision: (work: WorkID, connection: ConnectionID)?
    }

    // `@Boxed` is for the row "idle connection, plain" of `realtime bench idle`: together, the boxed properties, which are usually `nil`,
    // save 140 bytes of the 150 that are left of its goal. For the same reason, a session has small dictionaries, and collections without
    // elements have no memory.

    var connection: ConnectionStateMachine
    /// Whether the client uses version 2 of the protocol. It is read for every frame.
    private(set) var usesVersion2: Bool
    /// Whether the client recovers missed events.
    var recoversEvents: Bool
    /// Whether the client requests events as deltas.
    var deltaSupport: DeltaSupport
    /// The settings of the current connection or attempt and, if there is none, of the next one.
    private(set) var configuration: PusherConfiguration
    /// The settings that apply when the current connection or attempt has ended, if they were changed.
    private var nextConfiguration: PusherConfiguration?
    /// The settings that were replaced last. They may own objects of the application, which must not be released under the driver's lock, so
    /// they stay until ``takeReplacedConfiguration()``.
    private var replacedConfiguration: PusherConfiguration?
    /// The connection that another server has replaced and whose close the old one hasn't confirmed.
    @Boxed private var replaced: (id: ConnectionID, abandonAt: Instant)?
    /// The attempts since the last loss, unless the delays are those of the backoff.
    @Boxed private var retries: Retries?
    private(set) var state = PusherConnectionState.initialized
    /// When the state changes to `unavailable`.
    private var unavailableAt: Instant?
    /// The last error event of the connection, with its time: some servers send the reason in an error event before they close.
    @Boxed var lastServerError: (error: ServerError, at: Instant)?
    var pingedAt: Instant?
    /// When the last message arrived on the connection.
    var receivedAt: Instant?
    private var useTLS: Bool
    private var hasConnected = false
    /// The last loss or failed attempt, while there is no connection.
    @Boxed private var lastLoss: PusherError?

    var channels = ChannelTable()
    /// When a subscription times out, or when a failed one is retried.
    var subscriptionDeadlines = Deadlines<ChannelID, Void>()
    /// When the client stops waiting for the missed events of a channel.
    @Boxed var recoveryDeadlines: Deadlines<ChannelID, Void>?
    var authorizations = AuthorizationQueue()
    /// The authorizations that were passed with a subscription, until its first attempt.
    var givenAuthorizations: [ChannelID: PusherChannelAuthorization] = [:]
    var clientEvents = ClientEventLimiter()
    /// The channel that sent client events on the current connection: `none` before the first, and `several` if it wasn't only one.
    var clientEventSender = ChannelID.none
    /// Draws the delays between attempts to subscribe.
    var generator: SplitMix64

    /// The user, since the first call about one.
    @Boxed var user: PusherUserSession?

    var clientRoutes = ClientRoutes()
    /// The route of the last event. It is cleared when a channel or a consumer is added, or a channel is removed.
    var cachedRoute: CachedRoute?

    private var connectWaiters = WaitingCalls()
    private var endWaiters = WaitingCalls()

    init(_ configuration: PusherConfiguration, seed: UInt64) {
        self.connection = ConnectionStateMachine(policy: configuration.connectionPolicy, generator: SplitMix64(seed: seed))
        self.generator = SplitMix64(seed: ~seed)
        self.configuration = configuration
        self.usesVersion2 = configuration.usesVersion2
        self.recoversEvents = configuration.recovery != nil
        self.deltaSupport = configuration.deltaCompression == nil ? .off : .on
        self.useTLS = configuration.useTLS
    }

    func cancellation(of waiter: WaiterID) -> PusherError {
        let channel = self.channels.name(awaitedBy: waiter)
        let call =
            if self.endWaiters.contains(waiter) {
                "run()"
            } else if let channel {
                "subscribed(within:) of \(channel)"
            } else if self.user?.waiters.contains(waiter) == true {
                "signedIn(within:)"
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
            case .connected where self.user?.waiters.contains(waiter) == true:
                "Timed out after \(limit): the user isn't signed in. "
                    + (self.user?.state == .idle ? "Call signIn() first." : "Use a longer timeout or check the state of the user.")
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
        .earliest(
            .earliest(.earliest(self.connection.nextDeadline, self.replaced?.abandonAt), self.unavailableAt),
            .earliest(
                .earliest(self.subscriptionDeadlines.earliest, self.recoveryDeadlines?.earliest),
                .earliest(self.clientEvents.nextDeadline, self.user?.deadline)))
    }

    private var endpoint: Endpoint { self.configuration.endpoint(useTLS: self.useTLS) }

    var request: WebSocketRequest {
        WebSocketRequest(
            self.endpoint, headers: self.configuration.headers, messageLimit: self.configuration.messageLimit,
            timeout: self.configuration.connectTimeout)
    }

    var socketID: String? { if case .connected(let socketID) = self.state { socketID } else { nil } }

    func ping(now: Instant) -> WebSocketMessage { PusherFrames.ping }

    mutating func pinged(_ message: WebSocketMessage, now: Instant, _ effects: inout Effects<Self>) {
        self.pingedAt = now
        self.traceSent(message, &effects)
    }

    /// Reconnects if a retry or its decision is pending, and pings the server if the client is connected.
    mutating func checkConnection(now: Instant, _ effects: inout Effects<Self>) {
        switch self.connection.state {
        case .deciding:
            self.start(now: now, &effects)
            self.retries = nil
        case .backingOff:
            // The attempts that failed say nothing about the network that is available now.
            self.retries = nil
            self.checkConnection(timeout: self.configuration.pongTimeout, now: now, &effects)
        default: self.checkConnection(timeout: self.configuration.pongTimeout, now: now, &effects)
        }
    }

    /// When the next attempt to connect starts, if one is pending.
    var nextAttempt: Instant? { if case .backingOff(let until) = self.connection.state { until } else { nil } }

    // MARK: Changing the settings

    /// The settings that were set last.
    var latestConfiguration: PusherConfiguration { self.nextConfiguration ?? self.configuration }

    /// Changes the settings. They apply now if there is neither a connection nor an attempt, and otherwise when it ends.
    ///
    /// - Returns: `false` if `old` are no longer the settings that were set last.
    mutating func setConfiguration(
        _ new: PusherConfiguration, replacing old: PusherConfiguration, now: Instant, _ effects: inout Effects<Self>
    ) -> Bool {
        guard self.latestConfiguration.isCopy(of: old) else { return false }
        self.nextConfiguration = new
        switch self.connection.state {
        case .opening, .handshaking, .connected: break
        case .idle, .backingOff, .deciding, .closing, .closed: self.applyConfiguration(now: now, &effects)
        }
        return true
    }

    /// Removes the settings that were replaced last, for the caller to release after the lock. Call it before each change.
    mutating func takeReplacedConfiguration() -> PusherConfiguration? { self.replacedConfiguration.take() }

    /// Applies the settings that were changed during the last connection or attempt.
    private mutating func applyConfiguration(now: Instant, _ effects: inout Effects<Self>) {
        guard let new = self.nextConfiguration else { return }
        let isOtherServer = !new.hasServer(of: self.configuration)
        if isOtherServer {
            // The requirement of one server isn't that of another, and the keys of one app aren't those of another.
            self.useTLS = new.useTLS
            self.forgetKeys(now: now, &effects)
        }
        self.replacedConfiguration = self.configuration
        self.configuration = new
        self.usesVersion2 = new.usesVersion2
        self.recoveryChanged(isOn: new.recovery != nil)
        self.deltaCompressionChanged(new.deltaCompression, isOtherServer: isOtherServer)
        self.connection.sharedPolicy = new.connectionPolicy
        self.nextConfiguration = nil
    }

    /// Connects with the settings that were set last, instead of the current connection, attempt or delay. Does nothing else if the client
    /// isn't to be connected.
    ///
    /// - Source: pusher-js (`switchCluster` in `pusher.ts`, `retryIn` in `connection_manager.ts`), which ends the connection and connects
    ///   without a delay. Unlike this client, pusher-js also connects if it was disconnected.
    mutating func switchServer(now: Instant, _ effects: inout Effects<Self>) {
        self.applyConfiguration(now: now, &effects)
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
        self.cancelDecision(&effects)
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
        let maximum = self.configuration.activityTimeout
        let requested = established.activityTimeout.map { Duration.seconds($0) }
        let silence = min(maximum, requested ?? self.configuration.fallbackActivityTimeout ?? maximum)
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
        if self.deltaSupport == .on { self.send(PusherFrames.enableDeltaCompression, on: id, &effects) }
        self.beginSignIn(now: now, &effects)
        for id in self.channels.ids { self.beginSubscription(id, now: now, &effects) }
        self.sendBatches(&effects)
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
        if let replaced, replaced.abandonAt <= now {
            self.replaced = nil
            effects.commands.append(.abandon(replaced.id))
        }
        if let unavailableAt, unavailableAt <= now {
            self.unavailableAt = nil
            if self.state == .connecting { self.setState(.unavailable, &effects) }
        }
        while let due = self.subscriptionDeadlines.popDue(now) { self.subscriptionTimeout(due.key, now: now, &effects) }
        self.recoveryTimeouts(now: now, &effects)
        self.sendBatches(&effects)
        self.signInTimeout(now: now, &effects)
        self.sendWaitingClientEvents(now: now, &effects)
    }

    // MARK: Losing the connection

    mutating func decision(on reason: CloseReason, now: Instant) -> ReconnectDecision {
        // Settings that were changed apply to the delay before the next attempt, and to the attempt.
        self.connection.sharedPolicy = self.latestConfiguration.connectionPolicy
        switch self.effectiveReason(reason, now: now) {
        case .transport(let error) where error.code.isPermanent: return .never
        case .peer(let code, _):
            switch PusherCloseCode.reaction(to: code) {
            case .useTLS:
                guard !self.useTLS else { return .never }
                self.useTLS = true
                return .immediately
            case .fail: return .never
            case .reconnect(let decision): return self.decision(of: self.latestConfiguration.retry, instead: decision, now: now)
            }
        default: return self.decision(of: self.latestConfiguration.retry, instead: .afterBackoff(), now: now)
        }
    }

    /// Returns the decision of the user's policy.
    ///
    /// - Parameter decision: The decision of the protocol, whose minimum delay applies in any case.
    private mutating func decision(
        of policy: PusherRetryPolicy, instead decision: ReconnectDecision, now: Instant
    ) -> ReconnectDecision {
        let isAsked = self.latestConfiguration.retryDecision != nil
        if case .backoff = policy, !isAsked { return decision }
        if case .connected(_, _, let since) = self.connection.state,
            since.advanced(by: self.connection.policy.stableAfter) <= now
        {
            self.retries = nil
        }
        var retries = self.retries ?? Retries(startedAt: now)
        retries.minimum = if case .afterBackoff(let minimum) = decision { minimum } else { .zero }
        let count = retries.count
        retries.count += 1
        self.retries = retries
        if isAsked { return .ask }
        switch policy {
        case .none: return .never
        case .backoff: return decision
        case .delays(let delays): return count < delays.count ? .after(max(retries.minimum, delays[count])) : .never
        case .custom: return .ask
        }
    }

    /// Asks the user's policy for the delay before the next attempt.
    private mutating func askForDelay(after id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard let retries, let loss = self.lastLoss else { return self.decided(id, .afterBackoff(), now: now, &effects) }
        let context = PusherRetryContext(
            retryCount: retries.count - 1, elapsed: retries.startedAt.duration(to: now), reason: loss)
        let policy: RetryPolicy
        if let decide = self.configuration.retryDecision {
            policy = .direct(decide)
        } else if case .custom(let delay) = self.configuration.retry {
            policy = .asynchronous(delay)
        } else {
            return self.decided(id, .afterBackoff(), now: now, &effects)
        }
        let work = self.authorizations.makeWork()
        self.retries?.decision = (work, id)
        effects.commands.append(.work(work, .retryDelay(context, policy)))
    }

    /// Follows the decision of the user's policy, unless it is late.
    mutating func delayDecided(_ work: WorkID, _ delay: Duration?, now: Instant, _ effects: inout Effects<Self>) {
        guard let retries, let decision = retries.decision, decision.work == work else { return }
        self.retries?.decision = nil
        self.decided(decision.connection, delay.map { .after(max(retries.minimum, $0)) } ?? .never, now: now, &effects)
    }

    private mutating func cancelDecision(_ effects: inout Effects<Self>) {
        guard let decision = self.retries?.decision else { return }
        self.retries?.decision = nil
        effects.commands.append(.cancel(decision.work))
    }

    private mutating func endRetries(_ effects: inout Effects<Self>) {
        self.cancelDecision(&effects)
        self.retries = nil
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
        let interruptedAt = self.isOrderly(reason) ? now : self.receivedAt ?? now
        let reason = self.redacted(self.effectiveReason(reason, now: now))
        effects.log(reason == .requested ? .debug : .info, "connection lost: \(reason)")
        // Before the settings change: the error names the server that was lost.
        let endpoint = self.endpoint
        let loss = PusherError.lost(reason, at: endpoint, wasConnected: self.socketID != nil)
        self.applyConfiguration(now: now, &effects)
        self.connectionEnded(since: interruptedAt, isFinal: next == .never, now: now, &effects)
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

    mutating func resolved(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        switch next {
        case .later(let until): self.publishDelay(until: until, now: now, &effects)
        case .reconnect, .undecided: break
        case .never:
            // The loss was reported already, but as one from which the client may recover.
            for id in self.channels.ids { self.subscriptionLost(id, since: now, isFinal: true, now: now, &effects) }
            let loss = self.lastLoss ?? PusherError(.connectionLost, "The connection was lost.")
            self.finish(self.redacted(reason), .gaveUp(loss), &effects)
        }
    }

    /// Ends everything that depended on the connection.
    private mutating func connectionEnded(since: Instant, isFinal: Bool, now: Instant, _ effects: inout Effects<Self>) {
        self.pingedAt = nil
        self.lastServerError = nil
        self.authorizations.removeAllWaiting()
        self.clientEventsLost()
        self.signInLost(&effects)
        for id in self.channels.ids { self.subscriptionLost(id, since: since, isFinal: isFinal, now: now, &effects) }
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
        self.publish(.error(loss), to: self.clientRoutes.errors, &effects)
    }

    private func publishDelay(until: Instant, now: Instant, _ effects: inout Effects<Self>) {
        let delay = now.duration(to: until)
        // The shortest delay of a timer stands for none.
        self.publish(.connectingIn(delay > .nanoseconds(1) ? delay : .zero), to: self.clientRoutes.retryDelays, &effects)
    }

    /// Moves the client to a final state.
    private mutating func finish(_ reason: CloseReason, _ error: PusherError, _ effects: inout Effects<Self>) {
        self.unavailableAt = nil
        self.lastLoss = nil
        self.endRetries(&effects)
        switch error.code {
        case .disconnected: self.setState(.disconnected(nil), &effects)
        case .rejected, .connectionLost: self.setState(.disconnected(error), &effects)
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
        for waiter in self.connectWaiters.takeAll() + (self.user?.waiters.takeAll() ?? []) { effects.resume(waiter, .failure(error)) }
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
        self.user?.waiters.remove(waiter)
    }

    var waiterCount: Int {
        self.connectWaiters.count + self.endWaiters.count + self.channels.waiterCount + (self.user?.waiters.count ?? 0)
    }
}

extension PusherSession {
    // MARK: Frames

    /// Whether a message may have to be reported or to wait, for which the fast path of sending has no means.
    var sendsWithEffects: Bool { self.configuration.clientEventLimit != nil || self.clientRoutes.hasFrameConsumers }

    /// Sends a frame.
    func send(_ message: WebSocketMessage, on id: ConnectionID, _ effects: inout Effects<Self>) {
        effects.commands.append(.send(id, message))
        self.traceSent(message, &effects)
    }

    /// Delivers a frame that is sent to the consumers of frames.
    func traceSent(_ message: WebSocketMessage, _ effects: inout Effects<Self>) {
        let routes = [self.clientRoutes.frames, self.clientRoutes.redactedFrames].filter { !effects.routes.isEmpty($0) }
        guard !routes.isEmpty else { return }
        let text = self.redactedText(message.kind, message.bytes[...])
        for route in routes { effects.deliver(.sentFrame(text), on: route) }
    }

    /// Delivers a frame that was received to the consumers of frames.
    func traceReceived(_ text: UnsafeRawBufferPointer, _ effects: inout Effects<Self>) {
        if !effects.routes.isEmpty(self.clientRoutes.frames) {
            effects.deliver(.frame(String(decoding: text, as: UTF8.self)), on: self.clientRoutes.frames)
        }
        if !effects.routes.isEmpty(self.clientRoutes.redactedFrames) {
            effects.deliver(.frame(self.redactedText(.text, Array(text)[...])), on: self.clientRoutes.redactedFrames)
        }
    }

    private func redactedText(_ kind: WebSocketMessage.Kind, _ bytes: ArraySlice<UInt8>) -> String {
        FrameTrace(secrets: self.configuration.headers.secrets).text(kind, bytes)
    }
}

extension Effects<PusherSession> {
    mutating func resume(_ waiter: WaiterID, _ result: Result<PusherSession.WaiterResult, PusherError>) {
        self.commands.append(.resume(waiter, result))
    }
}
