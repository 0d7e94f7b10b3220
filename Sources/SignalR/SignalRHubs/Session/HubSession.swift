package import SignalRWire
package import RealtimeCore
import RealtimeSystem

/// The client side of a hub connection as a value: the negotiation, the handshake, the calls, and the consumers of invocations.
///
/// It performs no I/O and reads no clock. Extensions in other files contain the negotiation, the messages and the calls.
///
/// Source: HubProtocol.md and TransportProtocols.md of ASP.NET Core.
package struct HubSession: ConfigurableSession {
    package typealias Event = HubEvent
    package typealias Failure = HubError
    package typealias Request = HubRequest

    package enum WaiterResult: Sendable {
        case none
        case connected(connectionID: String?)
        /// The result of an invocation; `nil` if the method returned nothing.
        case result(HubPayload?)
        /// The authentication was refreshed.
        case refreshed(lifetime: Duration?)
    }

    package enum Work: Sendable {
        /// Ask the application for an access token.
        case accessToken(HubConfiguration.AccessTokenProvider?)
        /// Send a request of the negotiation, or one to refresh the authentication.
        case negotiate(HTTPRequest)
        /// Ask the application whether and when to reconnect.
        case retryDelay(HubRetryPolicy, HubRetryContext)
        /// Send the elements of a sequence, on ``HubSession/connectionForItem(of:now:)``.
        case upload(id: UInt64, HubUpload)
    }

    package enum WorkResult: Sendable {
        case accessToken(Result<String?, HubError>)
        case negotiated(Result<HTTPResponse, TransportError>)
        case retryDelay(Result<Duration?, HubError>)
        /// The sequence has ended, with the text of an error if it failed.
        case uploaded(error: String?)
    }

    /// The purpose of work.
    enum Purpose: Sendable {
        case accessToken(ConnectionID)
        /// The request without cookies, and the number of redirects that led to it.
        case negotiation(ConnectionID, HTTPRequest, redirects: Int)
        case tokenForRefresh
        case tokenForRequests(ConnectionID)
        case refresh
        case retryDecision
        case upload(UInt64)
    }

    /// The known properties of the attempt in progress, or of the established connection.
    struct Attempt: Sendable {
        /// The URL of the hub, or the one to which a negotiation redirected.
        var endpoint: Endpoint
        /// The token of the requests to ``endpoint``.
        var accessToken: String? {
            didSet {
                self.redact(self.accessToken)
                self.tokenGeneration += 1
            }
        }
        /// Increases with each token. The same token may be provided again.
        private(set) var tokenGeneration = 0
        /// The latest tokens, which must not appear in errors and logs.
        private(set) var redactedTokens: [String] = []
        var redirects = 0
        /// Whether a redirect brought a token of its own.
        var hasTokenOfRedirect = false
        /// Whether the server rejected a token, so that the application was asked for another one.
        var hasRefreshedToken = false
        var connectionID: String?
        /// The secret that identifies the connection in requests.
        var connectionToken: String?
        /// When the first automatic refresh of the authentication is due.
        var refreshAt: Instant?
        /// The transport in use, or that is being opened; `nil` before.
        var transport: HubTransport?
        /// The transports that failed to open.
        var failures = FailedTransports<HubTransport>()
        /// The step that follows if ``transport`` fails to open, or passes nothing on.
        var fallback = Fallback.none
        /// Whether the server supports stateful reconnect.
        var usesStatefulReconnect = false

        init(_ endpoint: Endpoint) {
            self.endpoint = endpoint
        }

        /// The token of the connection, unless its public ID is the token, as in version 0 of the negotiation.
        var secretToken: String? { self.connectionToken == self.connectionID ? nil : self.connectionToken }

        mutating func redact(_ token: String?) {
            guard let token, !self.redactedTokens.contains(token) else { return }
            self.redactedTokens = self.redactedTokens.suffix(7) + [token]
        }
    }

    /// A question for another access token, for a connection over HTTP.
    struct TokenRequest: Sendable {
        let connection: ConnectionID
        let work: WorkID
        var limit: PatientLimit
    }

    /// The step that follows a transport that fails to open.
    enum Fallback: Hashable, Sendable {
        /// The end of the attempt.
        case none
        /// Another transport. The server has this time to accept the present one.
        case available(PatientLimit)
        /// It has failed, and the negotiation for the next one begins.
        case begins
    }

    /// Why a connection or an attempt ended.
    package struct Ending: ConnectionEnding {
        package var reason: CloseReason
        /// The error of pending calls.
        var failure: HubError
        /// The error that is reported to the application. `nil` if there is none: the application stopped the client, or the server closed the
        /// connection in order.
        var reported: HubError?
        var allowsReconnect = true
        /// Whether the socket was lost, or an attempt to open one failed. Otherwise, client or server have ended the connection.
        var isLossOfSocket = false
    }

    /// Where the client is between its start and its end.
    private enum Phase: Sendable {
        /// No connection was established since the last start.
        case starting
        case connected
        /// The connection was lost.
        case lost(isReported: Bool)
    }

    /// The use of received bytes: none, none that can be read, a sign that the server is there, or a message.
    enum Found: Comparable, Sendable { case nothing, unreadable, life, message }

    package var connection: ConnectionStateMachine
    /// The settings of the current connection or attempt and, if there is none, of the next one.
    package internal(set) var options: HubConfiguration
    /// The changes of the settings, since the first one.
    @Boxed package var settings: ChangedSettings<HubConfiguration>?
    package private(set) var state = HubState.stopped(nil)
    var attempt: Attempt
    /// The cookies of the servers, for all attempts. The connections over HTTP, which send and receive cookies as well, share them.
    package let cookies = RedirectingHTTP.Cookies()
    /// The use of the bytes that were received last.
    var found = Found.nothing
    var handshakeBuffer = HubHandshake.Buffer()
    /// Reads the messages of the established connection.
    var reader: HubMessageReader?
    /// The problem of a message that can't be read and may have been the answer to a call, until the messages that arrived with it are handled.
    var unreadableAnswer: String?
    /// The established connection, if it can be resumed.
    var resumable: Resumable?
    private var retries: RetrySeries
    private var phase = Phase.starting
    /// The newest connection that was stopped, or that ended before the last start. Its calls aren't handled any more.
    private var lastStopped: ConnectionID?
    private var isReleased = false
    /// The error that the policy for reconnects threw, while its answer is handled.
    private var policyError: HubError?
    /// The reported error of the last loss or failed attempt, until a connection is established.
    private var lossError: HubError?
    private var outage = OutageLog()
    /// When the next automatic refresh of the authentication is due.
    var refreshAt: Instant?
    /// The refresh of the authentication in progress.
    var refresh: Refresh?
    /// The requests of a connection over HTTP that wait for another access token.
    var tokenCallers = WaitingCalls()
    /// The question for the token that they wait for.
    var tokenRequest: TokenRequest?

    var works = PendingWork<Purpose>()

    /// The number of the last invocation or stream, of either direction.
    var lastCall: UInt64 = 0
    var calls = SequentialTable<Call>()
    /// The streams to the server.
    var uploads: [UInt64: Upload] = [:]
    /// The callers that wait for the result of an invocation.
    var callers = SequentialTable<UInt64>()
    private var startCaller: WaiterID?
    var isWritingPaused = false
    /// The callers that wait until the client is connected.
    var connectionCallers = WaitingCalls()
    /// The callers that wait until the client is stopped.
    var endCallers = WaitingCalls()
    /// The callers that wait until the server reads faster.
    var writingCallers = WaitingCalls()
    /// The callers whose message was sent over HTTP, and that wait for the server to take it.
    var answerCallers = AnswerCalls<HubError>()

    package private(set) var lastUpdate: UInt64 = 0
    /// The number of the newest update that is one of the life of a connection; see ``HubUpdate/concernsLife``.
    package private(set) var lastUpdateOfLife: UInt64 = 0
    var updates = EventRoutes.none
    /// The route of the calls for whose result the server doesn't wait.
    var invocations = EventRoutes.none
    /// The route of the calls for whose result the server waits.
    var awaitedInvocations = EventRoutes.none
    /// The route of the messages in both directions, without secrets.
    var frames = EventRoutes.none

    package init(_ options: HubConfiguration, seed: UInt64) {
        self.retries = RetrySeries(endsWith: .anyConnection)
        self.connection = ConnectionStateMachine(policy: Self.policy(options), generator: SplitMix64(seed: seed))
        self.options = options
        self.attempt = Attempt(options.endpoint)
    }

    static func policy(_ options: HubConfiguration) -> Shared<ConnectionPolicy> {
        var policy = ConnectionPolicy()
        policy.openTimeout = options.connectTimeout
        policy.handshakeTimeout = options.handshakeTimeout
        // The policy of the application may wait for something, and what it decides must not be replaced by something else.
        policy.decisionTimeout = nil
        // Delays that grow start over only after a connection that lasted: a server may accept connections and lose them immediately.
        // The delays of a list start over with each connection, as in other clients, and `RetrySeries` protects the server.
        if case .backoff(let backoff) = options.retry { policy.backoff = backoff }
        return Shared(policy)
    }

    package var connectionID: String? { if case .connected(let id) = self.state { id } else { nil } }
    var isConnectionIDSecret: Bool { self.attempt.connectionID != nil && self.attempt.secretToken == nil }
    /// The transport of the connection; `nil` if there is none.
    package var transport: HubTransport? { if case .connected = self.state { self.attempt.transport } else { nil } }
    package var nextDeadline: Instant? {
        .earliest(
            .earliest(self.connection.nextDeadline, self.acknowledgmentDeadline),
            .earliest(.earliest(self.refreshDeadline, self.tokenRequest?.limit.deadline), self.fallbackDeadline))
    }

    package var waiterCount: Int {
        self.callers.count + self.writingCallers.count + self.answerCallers.count + (self.refresh?.callers.count ?? 0)
            + (self.startCaller == nil ? 0 : 1)
            + self.connectionCallers.count + self.endCallers.count + self.tokenCallers.count
    }

    /// The number of invocations and streams that haven't ended, in both directions.
    package var callCount: Int { self.calls.count + self.uploads.count }

    /// Whether an invocation or a stream with this number hasn't ended; for tests.
    package func isWaiting(forCall number: UInt64) -> Bool { self.calls[number] != nil }

    /// Whether no caller waits for the server, and no stream is sent to it.
    private var hasNoCalls: Bool {
        self.callCount == 0 && self.callers.isEmpty && self.writingCallers.isEmpty && self.refresh == nil && self.works.isEmpty
            && self.tokenCallers.isEmpty
    }

    package var inactivity: String? {
        if case .stopped = self.state { "The client is stopped. Call start() first." } else { nil }
    }

    package func cancellation(of waiter: WaiterID) -> HubError {
        guard let target = self.callers[waiter.rawValue].flatMap({ self.calls[$0]?.target }) else { return .cancelled }
        return HubError(.cancelled, "The call of \(target) was cancelled with its task.")
    }

    package func timedOut(_ waiter: WaiterID, after limit: WaitLimit) -> HubError {
        switch self.state {
        case .connected where self.resumable?.loss == nil:
            let advice = limit.advice("Use a longer limit, or check the server.")
            return HubError(.timedOut, "\(limit): the call isn't completed. \(advice)")
        case .stopped: return HubError(.timedOut, "\(limit): the client is stopped. Call start() first.")
        case .connected, .connecting, .reconnecting:
            let failure = self.knownFailure
            let message = limit.withoutConnection(to: "\(self.options.endpoint)", after: failure?.message)
            return HubError(.timedOut, message, cause: failure)
        }
    }

    /// Why there is no connection, if it is known: the last loss or failed attempt, the loss of the socket of a connection that is being resumed,
    /// or the transport that has failed in the first attempt, which isn't over.
    var knownFailure: HubError? {
        self.lossError ?? self.resumable?.loss?.failure
            ?? self.attempt.failures.last.map { HubError(.connectionLost, $0.message) }
    }

    // MARK: Starting and stopping

    /// Starts the client for a caller that waits for the connection.
    package mutating func start(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        guard case .stopped = self.state else {
            let message = "The client is started already. Call stop() before you call start() again."
            return effects.resume(waiter, .failure(HubError(.alreadyStarted, message)))
        }
        if let error = self.configurationError { return self.fail(error, waiter, &effects) }
        self.startCaller = waiter
        self.start(now: now, &effects)
    }

    package mutating func stop(now: Instant, _ effects: inout Effects<Self>) {
        // The server then releases what belongs to the connection, instead of waiting for the client to come back.
        if let id = self.connection.connected { self.send(.close(error: nil, allowReconnect: false), on: id, now: now, &effects) }
        self.lastStopped = self.connection.newest
        self.stopConnection(now: now, &effects)
    }

    package mutating func release(now: Instant, _ effects: inout Effects<Self>) {
        self.isReleased = true
        self.stop(now: now, &effects)
    }

    /// The error of what a stop ends.
    var stopError: HubError { self.isReleased ? .released : .stopped }

    /// Whether handlers are called for a call of the server: the client wasn't stopped since it arrived.
    package func isHandled(_ callback: HubCallback) -> Bool { self.lastStopped.map { callback.connection > $0 } ?? true }

    /// Reconnects now if a retry or its decision is pending. If the client is connected, checks the connection.
    package mutating func checkConnection(now: Instant, _ effects: inout Effects<Self>) {
        switch self.connection.state {
        // The attempts that failed say nothing about the network that is available now.
        case .deciding, .backingOff: self.retries.forgetAttempts()
        default: break
        }
        let timeout = self.options.serverTimeout > .zero ? min(.seconds(10), self.options.serverTimeout) : .seconds(10)
        self.checkConnection(timeout: timeout, now: now, &effects)
    }

    package mutating func opening(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        if case .stopped = self.state {
            self.phase = .starting
            self.lastStopped = ConnectionID(rawValue: id.rawValue - 1)
            self.retries.reset()
            self.setState(.connecting, &effects)
        }
        if let question = self.retries.withdrawQuestion() { self.works.cancel(question, &effects) }
        self.applyOptions(&effects)
        // A check of the connection starts an attempt instead of the application's decision about it.
        if case .lost(isReported: false) = self.phase, case .reconnecting(let error) = self.state { self.reportLoss(error, &effects) }
        // Each attempt begins at the URL of the application, and with its token.
        self.attempt = Attempt(self.options.endpoint)
        effects.log(.debug, "connection \(id): connecting to \(self.options.endpoint)")
    }

    package func ping(now: Instant) -> TransportMessage { HubMessageWriter.message(.ping, self.options.format) }
    /// The server doesn't answer a ping of the protocol, but its WebSocket answers a ping frame, and a request has an answer.
    package func probe(now: Instant) -> TransportMessage { TransportMessage(.ping, []) }
    package mutating func pinged(_ message: TransportMessage, now: Instant, _ effects: inout Effects<Self>) {
        self.trace(.sent, message.kind, message.bytes[...], &effects)
    }

    // MARK: The handshake

    package mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        switch self.connection.opened(id, now: now) {
        case .none: return
        case .synchronize: return self.synchronize(id, now: now, &effects)
        case .beginHandshake: break
        }
        let request = HubHandshake.request(self.options.format, version: self.protocolVersion)
        self.send(TransportMessage(self.options.format.messageKind, request), on: id, &effects)
    }

    /// The server has accepted the handshake.
    mutating func handshakeCompleted(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard self.connection.ready(id, self.heartbeat, now: now) == .announceConnected else { return }
        self.handshakeBuffer = HubHandshake.Buffer()
        self.attempt.fallback = .none
        self.reader = HubMessageReader(self.options.format, messageLimit: self.options.messageLimit)
        self.beginStatefulReconnect(on: id)
        self.refreshAt = self.attempt.secretToken == nil ? nil : self.attempt.refreshAt
        // As other clients do: a server notices that a client has become silent only after it has received a ping.
        if self.attempt.transport != .longPolling { self.send(.ping, on: id, now: now, &effects) }
        let (isReconnect, transport) = (self.hasConnected, self.attempt.transport ?? .webSockets)
        (self.phase, self.lossError) = (.connected, nil)
        self.outage.reset()
        self.retries.connected(now: now)
        let connectionID = self.attempt.connectionID
        let name = "\(connectionID.map { ", connection ID \(self.redacted($0))" } ?? "")"
        effects.log(.info, "connection \(id): connected over \(transport)\(name)")
        self.publish(.transport(transport), &effects)
        self.setState(.connected(connectionID: connectionID), &effects)
        if isReconnect {
            effects.counters.reconnects += 1
            self.publish(.reconnected(connectionID: connectionID), &effects)
        }
        if let waiter = self.startCaller.take() { effects.resume(waiter, .success(.connected(connectionID: connectionID))) }
        self.connectionCallers.resumeAll(.success(.connected(connectionID: connectionID)), &effects)
    }

    var heartbeat: HeartbeatPolicy {
        // Neither side sends pings over long polling, whose polls have a time limit.
        if self.attempt.transport == .longPolling { return HeartbeatPolicy(deadAfterSilence: nil, pingAfterNotSending: nil) }
        func positive(_ duration: Duration) -> Duration? { duration > .zero ? duration : nil }
        return HeartbeatPolicy(
            deadAfterSilence: positive(self.options.serverTimeout), pingAfterNotSending: positive(self.options.keepAliveInterval))
    }

    package mutating func timeout(now: Instant, _ effects: inout Effects<Self>) {
        self.fallbackTimeout(now: now, &effects)
        if let deadline = self.connection.nextDeadline, deadline <= now { self.connectionTimeout(now: now, &effects) }
        self.refreshTimeout(now: now, &effects)
        self.tokenTimeout(now: now, &effects)
        self.acknowledge(now: now, &effects)
    }

    // MARK: Losing the connection

    /// Ends the connection or the attempt because of an error of the client or of the server.
    mutating func end(_ id: ConnectionID, _ reason: CloseReason, _ failure: HubError, now: Instant, _ effects: inout Effects<Self>) {
        let failure = self.withEarlierFailures(failure)
        self.end(id, Ending(reason: reason, failure: failure, reported: failure), now: now, &effects)
    }

    package func ending(for reason: CloseReason, now: Instant) -> Ending {
        let failure: HubError
        if reason == .requested {
            failure = self.stopError
        } else if reason == .openTimeout, case .handshaking = self.connection.state {
            failure = self.withEarlierFailures(
                HubError(.handshakeFailed, "The server didn't answer the handshake in time. Check that the URL belongs to a hub."))
        } else {
            let wasConnected = if case .connected = self.state { true } else { false }
            failure = self.withEarlierFailures(
                .lost(
                    self.redacted(reason), at: self.options.endpoint, over: self.attempt.transport, wasConnected: wasConnected,
                    serverTimeout: self.options.serverTimeout, adviceIfTokenRejected: self.adviceIfTokenRejected))
        }
        let isRequested = reason == .requested
        return Ending(reason: reason, failure: failure, reported: isRequested ? nil : failure, isLossOfSocket: !isRequested)
    }

    /// Whether a connection was established since the last start.
    private var hasConnected: Bool { if case .starting = self.phase { false } else { true } }

    private var retryRule: RetryRule {
        switch self.latestOptions.options.retry {
        case .none: .never
        case .delays(let delays): .delays(delays)
        case .backoff: .protocolDecision
        case .custom: .ask
        }
    }

    package mutating func decision(on ending: Ending, now: Instant) -> ReconnectDecision {
        if case .stopped = self.state { return .never }
        if let decision = self.resumeDecision(on: ending, now: now) { return decision }
        let ending = self.connection.isResuming ? self.loss(afterFailedResume: ending) : ending
        guard ending.allowsReconnect else { return .never }
        if self.connection.established == nil, self.canRefreshToken, case .transport(let error) = ending.reason, error.status == 401,
            !error.isOfOtherOrigin
        {
            self.attempt.hasRefreshedToken = true
            return .reopen
        }
        if self.fallBack(because: ending) { return .reopen }
        guard self.hasConnected || self.options.retriesFirstStart else { return .never }
        if case .transport(let error) = ending.reason, error.code.isPermanent { return .never }
        // Settings that were changed apply to the delay before the next attempt as well.
        if let next = self.settings?.next { self.connection.sharedPolicy = Self.policy(next) }
        return self.retries.decide(self.retryRule, now: now)
    }

    package mutating func lost(_ ending: Ending, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        let failure = ending.failure
        self.log(ending, then: next, &effects)
        (self.handshakeBuffer, self.reader, self.resumable, self.isWritingPaused) = (HubHandshake.Buffer(), nil, nil, false)
        self.works.cancelAll(&effects)
        self.failCalls(failure, &effects)
        self.failRefresh(failure, &effects)
        self.tokenCallers.resumeAll(.failure(failure), &effects)
        self.tokenRequest = nil
        assert(self.hasNoCalls, "a call or a stream remains after the end of its connection")
        if case .connected = self.phase { self.phase = .lost(isReported: false) }
        self.lossError = ending.reported?.forStorage
        switch next {
        case .never: self.finish(ending.reported, failure, &effects)
        case .undecided(let id):
            // Reported when it is clear that the client reconnects, but not connected any more.
            self.enterReconnecting(failure, &effects)
            let context = HubRetryContext(
                retryCount: self.retries.retryCount, elapsed: self.retries.elapsed(now: now), reason: failure)
            let question = self.works.start(.retryDelay(self.latestOptions.options.retry, context), for: .retryDecision, &effects)
            self.retries.asked(question, about: id)
        case .reconnect, .later:
            self.enterReconnecting(failure, &effects)
            self.reportRetry(next, failure, now: now, &effects)
        }
    }

    private mutating func log(_ ending: Ending, then next: NextAttempt, _ effects: inout Effects<Self>) {
        if ending.reason == .requested { return effects.log(.debug, "the connection is closed") }
        // The end of the client is logged when it is final.
        if next == .never { return }
        if case .connected = self.phase { return effects.log(.info, "connection lost: \(ending.failure)") }
        self.outage.attemptFailed(ending.failure.message, &effects)
    }

    package mutating func resolved(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        let failure = self.lossError ?? HubError(.connectionLost, "The connection was lost: \(Excerpt.sentence(reason.description))")
        switch next {
        case .never:
            let final = self.policyError.map { failure.ended(by: $0) } ?? failure
            self.finish(self.lossError == nil ? nil : final, final, &effects)
        case .reconnect, .later, .undecided: self.reportRetry(next, failure, now: now, &effects)
        }
    }

    private mutating func enterReconnecting(_ error: HubError, _ effects: inout Effects<Self>) {
        if case .connected = self.state { self.setState(.reconnecting(error), &effects) }
    }

    private mutating func reportLoss(_ error: HubError, _ effects: inout Effects<Self>) {
        self.phase = .lost(isReported: true)
        self.publish(.reconnecting(error), &effects)
    }

    private mutating func reportRetry(_ next: NextAttempt, _ error: HubError, now: Instant, _ effects: inout Effects<Self>) {
        if case .lost(isReported: false) = self.phase {
            self.reportLoss(error, &effects)
        } else {
            self.publish(.error(error), &effects)
        }
        guard case .later(let until) = next else { return }
        let delay = now.duration(to: until)
        // The timer's minimum of 1 ns means no delay.
        self.publish(.connectingIn(delay > .nanoseconds(1) ? delay : .zero), &effects)
    }

    /// Moves the client to its final state.
    private mutating func finish(_ reported: HubError?, _ failure: HubError, _ effects: inout Effects<Self>) {
        // A start that fails throws the error to its caller. That of `run()` is often a task whose error is ignored.
        let isThrown = self.startCaller != nil
        let level: LogSink.Level? = reported != nil ? (isThrown ? .info : .error) : failure.code == .closedByServer ? .warning : nil
        if let level { effects.log(level, "The client is stopped. \(failure)") }
        self.outage.reset()
        let hadConnected = self.hasConnected
        (self.phase, self.lossError) = (.starting, nil)
        self.retries.reset()
        self.attempt = Attempt(self.options.endpoint)
        self.setState(.stopped(reported), &effects)
        if hadConnected { self.publish(.closed(reported), &effects) }
        // A failed start throws its error to the caller, and wasn't a connection that could be closed.
        if let waiter = self.startCaller.take() { effects.resume(waiter, .failure(failure)) }
        self.connectionCallers.resumeAll(.failure(failure), &effects)
        self.endCallers.resumeAll(reported.map { .failure($0) } ?? .success(.none), &effects)
    }

    mutating func setState(_ state: HubState, _ effects: inout Effects<Self>) {
        guard state != self.state else { return }
        self.state = state.forStorage
        self.publish(.state(state), &effects)
    }

    mutating func publish(_ update: HubUpdate, _ effects: inout Effects<Self>) {
        self.lastUpdate += 1
        if update.concernsLife { self.lastUpdateOfLife = self.lastUpdate }
        effects.deliver(.update(update, number: self.lastUpdate), on: self.updates)
    }

    /// Reports an error that doesn't end the connection.
    package mutating func report(_ error: HubError, _ effects: inout Effects<Self>) {
        effects.log(.warning, error.message)
        self.publish(.error(error), &effects)
    }

    // MARK: Work

    package mutating func workFinished(_ id: WorkID, _ result: WorkResult, now: Instant, _ effects: inout Effects<Self>) {
        switch (self.works.take(id), result) {
        case (.accessToken(let connection)?, .accessToken(let result)): self.received(result, for: connection, now: now, &effects)
        case (.negotiation(let connection, let request, let redirects)?, .negotiated(let result)):
            self.negotiated(result, of: request, redirects: redirects, for: connection, now: now, &effects)
        case (.tokenForRefresh?, .accessToken(let result)): self.receivedForRefresh(result, &effects)
        case (.tokenForRequests(let connection)?, .accessToken(let result)):
            self.receivedForRequests(result, of: connection, now: now, &effects)
        case (.refresh?, .negotiated(let result)): self.refreshAnswered(result, now: now, &effects)
        case (.retryDecision?, .retryDelay(let result)):
            guard let (connection, decision) = self.retries.answered(id, (try? result.get()) ?? nil) else { break }
            if case .failure(let error) = result {
                effects.log(.error, error.message)
                self.policyError = error
            }
            self.decided(connection, decision, now: now, &effects)
            if let error = self.policyError.take() { effects.commands.append(.release(error)) }
        case (.upload(let stream)?, .uploaded(let error)): self.endUpload(stream, error, now: now, &effects)
        default: break
        }
    }

    // MARK: Callers and consumers

    package mutating func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        if let call = self.callers.take(waiter.rawValue) {
            self.cancelCall(call, now: now, &effects)
        } else if waiter == self.startCaller {
            // No other caller waits for this connection.
            self.startCaller = nil
            self.stop(now: now, &effects)
        } else {
            self.connectionCallers.remove(waiter)
            self.writingCallers.remove(waiter)
            self.answerCallers.remove(waiter)
            self.tokenCallers.remove(waiter)
            self.cancelRefresh(for: waiter, &effects)
            // In the same step: another task that runs the client afterwards starts it again.
            if self.endCallers.remove(waiter) { self.stop(now: now, &effects) }
        }
    }

    package mutating func observeUpdates(_ consumer: ConsumerID, _ effects: inout Effects<Self>) {
        effects.routes.add(consumer, to: &self.updates)
    }

    /// Registers a consumer of all calls of the server.
    package mutating func observeInvocations(_ consumer: ConsumerID, _ effects: inout Effects<Self>) {
        self.observeUnawaitedInvocations(consumer, &effects)
        self.observeAwaitedInvocations(consumer, &effects)
    }

    /// Registers a consumer of the calls for whose result the server doesn't wait.
    mutating func observeUnawaitedInvocations(_ consumer: ConsumerID, _ effects: inout Effects<Self>) {
        effects.routes.add(consumer, to: &self.invocations)
    }

    /// Registers a consumer of the calls for whose result the server waits.
    mutating func observeAwaitedInvocations(_ consumer: ConsumerID, _ effects: inout Effects<Self>) {
        effects.routes.add(consumer, to: &self.awaitedInvocations)
    }
}
