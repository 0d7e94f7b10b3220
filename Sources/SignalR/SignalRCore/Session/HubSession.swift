package import SignalRWire
package import RealtimeCore
import RealtimeSystem

/// A connection to open.
package struct HubRequest: Sendable {
    /// The kind of the connection. This version supports WebSockets only.
    package var kind: HubTransport
    /// The URL and the header fields. They contain the token of the connection and the access token.
    package var webSocket: WebSocketRequest
}

/// The client side of a hub connection as a value: the negotiation, the handshake, the calls, and the consumers of invocations.
///
/// It performs no I/O and reads no clock. Extensions in other files contain the negotiation, the messages and the calls.
///
/// Source: HubProtocol.md and TransportProtocols.md of ASP.NET Core.
package struct HubSession: ReconnectingSession {
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
        case accessToken
        /// Send a request of the negotiation, or one to refresh the authentication.
        case negotiate(HTTPRequest)
        /// Ask the application whether and when to reconnect.
        case retryDelay(HubRetryContext)
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

    /// What the work in progress is for.
    enum Purpose: Sendable {
        case accessToken(ConnectionID)
        case negotiation(ConnectionID)
        case tokenForRefresh
        case refresh
        case decision(ConnectionID)
        case upload(UInt64)
    }

    /// What is known about the attempt in progress, or the established connection.
    struct Attempt: Sendable {
        /// The URL of the hub, or the one to which a negotiation redirected.
        var endpoint: Endpoint
        /// The token of the requests to ``endpoint``.
        var accessToken: String? { didSet { self.redact(self.accessToken) } }
        /// The latest tokens, which must not appear in errors and logs.
        private(set) var redactedTokens: [String] = []
        var redirects = 0
        /// Whether the server rejected a token, so that the application was asked for another one.
        var hasRefreshedToken = false
        var connectionID: String?
        /// The secret that identifies the connection in requests.
        var connectionToken: String?
        /// When the first automatic refresh of the authentication is due.
        var refreshAt: Instant?
        var cookies = HubCookies()

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

    /// Why the session itself ends a connection.
    struct Ending: Sendable {
        var reason: CloseReason
        /// The error of pending calls.
        var failure: HubError
        /// The error that is reported to the application. `nil` if the server closed the connection without one.
        var reported: HubError?
        var allowsReconnect: Bool
    }

    /// A series of attempts after a loss.
    struct Retry: Sendable {
        var startedAt: Instant
        /// The number of attempts that were decided about.
        var count = 0
    }

    package var connection: ConnectionStateMachine
    package let options: HubConfiguration
    package private(set) var state = HubState.stopped(nil)
    var attempt: Attempt
    var handshakeBuffer = HubHandshake.Buffer()
    private var handshakeDeadline: Instant?
    /// Reads the messages of the established connection.
    var reader: HubMessageReader?
    private var ending: Ending?
    private var retry: Retry?
    /// When the connection was established, if the delays begin again after it has lasted.
    private var connectedAt: Instant?
    /// The reason of the loss about which a decision is pending.
    private var lossError: HubError?
    /// Whether a connection was established since the last start.
    private var hasConnected = false
    /// Whether the loss was reported as `reconnecting`.
    private var hasReportedLoss = false
    private var generator: SplitMix64
    /// When the next automatic refresh of the authentication is due.
    var refreshAt: Instant?
    /// The refresh of the authentication in progress.
    var refresh: Refresh?

    var works: [WorkID: Purpose] = [:]
    private var lastWork: UInt64 = 0

    /// The number of the last invocation or stream, of either direction.
    var lastCall: UInt64 = 0
    var calls = SequentialTable<Call>()
    /// The streams to the server.
    var uploads: [UInt64: Upload] = [:]
    /// The callers that wait for the result of an invocation.
    var callers = SequentialTable<UInt64>()
    private var startCaller: WaiterID?
    var isWritingPaused = false
    /// The callers that wait until the server reads faster.
    var writingCallers: Set<WaiterID> = []

    /// The number of the newest update.
    package private(set) var lastUpdate: UInt64 = 0
    var updates = EventRoutes.none
    var invocations = EventRoutes.none

    package init(_ options: HubConfiguration, seed: UInt64) {
        var policy = ConnectionPolicy()
        policy.openTimeout = options.connectTimeout
        // The policy of the application may wait for something, and what it decides must not be replaced by something else.
        policy.decisionTimeout = nil
        self.connection = ConnectionStateMachine(policy: policy, generator: SplitMix64(seed: seed))
        self.generator = SplitMix64(seed: ~seed)
        self.options = options
        self.attempt = Attempt(options.endpoint)
    }

    package var connectionID: String? { if case .connected(let id) = self.state { id } else { nil } }
    package var nextDeadline: Instant? {
        .earliest(.earliest(self.connection.nextDeadline, self.handshakeDeadline), self.refreshDeadline)
    }

    package var waiterCount: Int {
        self.callers.count + self.writingCallers.count + (self.refresh?.callers.count ?? 0) + (self.startCaller == nil ? 0 : 1)
    }

    /// The number of invocations and streams that haven't ended, in both directions.
    package var callCount: Int { self.calls.count + self.uploads.count }

    /// Whether an invocation or a stream with this number hasn't ended; for tests.
    package func isWaiting(forCall number: UInt64) -> Bool { self.calls[number] != nil }

    /// Whether no caller waits for the server, and no stream is sent to it.
    private var hasNoCalls: Bool {
        self.callCount == 0 && self.callers.isEmpty && self.writingCallers.isEmpty && self.refresh == nil && self.works.isEmpty
    }

    package var inactivity: String? {
        if case .stopped = self.state { "The client is stopped. Call start() first." } else { nil }
    }

    package func cancellation(of waiter: WaiterID) -> HubError {
        guard let target = self.callers[waiter.rawValue].flatMap({ self.calls[$0]?.target }) else { return .cancelled }
        return HubError(.cancelled, "The call of \(target) was cancelled with its task.")
    }

    package func timedOut(_ waiter: WaiterID, after limit: Duration) -> HubError {
        switch self.state {
        case .connected: HubError(.timedOut, "The call wasn't completed within \(limit). Use a longer limit, or check the server.")
        default:
            HubError(.timedOut, "Couldn't connect to \(self.options.endpoint) within \(limit). Use a longer limit, or check the server.")
        }
    }

    // MARK: Starting and stopping

    /// Starts the client for a caller that waits for the connection.
    package mutating func start(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        guard case .stopped = self.state else {
            let message = "The client is started already. Call stop() before you call start() again."
            return effects.resume(waiter, .failure(HubError(.alreadyStarted, message)))
        }
        self.startCaller = waiter
        self.start(now: now, &effects)
    }

    package mutating func stop(now: Instant, _ effects: inout Effects<Self>) {
        // The server then releases what belongs to the connection, instead of waiting for the client to come back.
        if let id = self.connection.connected { self.send(.close(error: nil, allowReconnect: false), on: id, now: now, &effects) }
        self.stopConnection(now: now, &effects)
    }

    /// Reconnects now if a retry is pending. If the client is connected, checks the connection.
    package mutating func reconnectNow(now: Instant, _ effects: inout Effects<Self>) {
        let timeout = self.options.serverTimeout > .zero ? min(.seconds(10), self.options.serverTimeout) : .seconds(10)
        switch self.connection.check(timeout: timeout, now: now) {
        case .none: break
        case .open(let id):
            self.opening(id, now: now, &effects)
            self.begin(id, now: now, &effects)
        // The server doesn't answer a ping of the protocol, but its WebSocket does answer one of its own.
        case .sendPing(let id): effects.commands.append(.send(id, WebSocketMessage(.ping, [])))
        }
    }

    package mutating func opening(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        if case .stopped = self.state {
            (self.hasConnected, self.retry, self.connectedAt) = (false, nil, nil)
            self.setState(.connecting, &effects)
        }
        // Each attempt begins at the URL of the application, and with its token.
        self.attempt = Attempt(self.options.endpoint)
        effects.log(.debug, "connection \(id): connecting to \(self.options.endpoint)")
    }

    package func ping(now: Instant) -> WebSocketMessage { HubMessageWriter.message(.ping, self.options.format) }
    package mutating func pinged(_ message: WebSocketMessage, now: Instant, _ effects: inout Effects<Self>) {}

    // MARK: The handshake

    package mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        guard self.connection.opened(id) == .beginHandshake else { return }
        self.handshakeDeadline = now.advanced(by: max(.nanoseconds(1), self.options.handshakeTimeout))
        let request = HubHandshake.request(self.options.format, version: 1)
        effects.commands.append(.send(id, WebSocketMessage(self.options.format.messageKind, request)))
    }

    /// The server has accepted the handshake.
    mutating func handshakeCompleted(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        func positive(_ duration: Duration) -> Duration? { duration > .zero ? duration : nil }
        let heartbeat = HeartbeatPolicy(
            deadAfterSilence: positive(self.options.serverTimeout), pingAfterNotSending: positive(self.options.keepAliveInterval))
        guard self.connection.ready(id, heartbeat, now: now) == .announceConnected else { return }
        (self.handshakeDeadline, self.handshakeBuffer) = (nil, HubHandshake.Buffer())
        self.reader = HubMessageReader(self.options.format, messageLimit: self.options.messageLimit)
        self.refreshAt = self.attempt.secretToken == nil ? nil : self.attempt.refreshAt
        // As other clients do: a server notices that a client has become silent only after it has received a ping.
        self.send(.ping, on: id, now: now, &effects)
        let isReconnect = self.hasConnected
        (self.hasConnected, self.hasReportedLoss) = (true, false)
        // Delays that grow begin again only after a connection that lasted: a server may accept connections and lose them immediately.
        if case .backoff = self.options.retry { self.connectedAt = now } else { self.retry = nil }
        let connectionID = self.attempt.connectionID
        effects.log(.info, "connection \(id): connected\(connectionID.map { ", connection ID \(self.redacted($0))" } ?? "")")
        self.setState(.connected(connectionID: connectionID), &effects)
        if isReconnect {
            effects.counters.reconnects += 1
            self.publish(.reconnected(connectionID: connectionID), &effects)
        }
        if let waiter = self.startCaller.take() { effects.resume(waiter, .success(.connected(connectionID: connectionID))) }
    }

    package mutating func timeout(now: Instant, _ effects: inout Effects<Self>) {
        if let deadline = self.connection.nextDeadline, deadline <= now { self.connectionTimeout(now: now, &effects) }
        if let deadline = self.handshakeDeadline, deadline <= now, let id = self.connection.current {
            let limit = self.options.handshakeTimeout
            let error = HubError(
                .handshakeFailed, "The server didn't answer the handshake within \(limit). Check that the URL is that of a hub.")
            effects.commands.append(.abandon(id))
            self.end(id, .openTimeout, error, now: now, &effects)
        }
        self.refreshTimeout(now: now, &effects)
    }

    // MARK: Losing the connection

    /// Ends the connection or the attempt because of an error of the client or of the server.
    mutating func end(
        _ id: ConnectionID, _ reason: CloseReason, _ failure: HubError, reported: HubError?, allowsReconnect: Bool = true, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        self.ending = Ending(reason: reason, failure: failure, reported: reported, allowsReconnect: allowsReconnect)
        self.closed(id, reason, now: now, &effects)
        self.ending = nil
    }

    mutating func end(
        _ id: ConnectionID, _ reason: CloseReason, _ failure: HubError, allowsReconnect: Bool = true, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        self.end(id, reason, failure, reported: failure, allowsReconnect: allowsReconnect, now: now, &effects)
    }

    package mutating func decision(on reason: CloseReason, now: Instant) -> ReconnectDecision {
        if case .stopped = self.state { return .never }
        if let ending, !ending.allowsReconnect { return .never }
        if self.connection.connected == nil, self.canRefreshToken, case .transport(let error) = reason, error.status == 401 {
            self.attempt.hasRefreshedToken = true
            return .reopen
        }
        guard self.hasConnected || self.options.retriesFirstStart else { return .never }
        if case .transport(let error) = reason, error.code.isPermanent { return .never }
        if let start = self.connectedAt.take(), start.duration(to: now) >= ConnectionPolicy().stableAfter { self.retry = nil }
        var retry = self.retry ?? Retry(startedAt: now)
        defer {
            retry.count += 1
            self.retry = retry
        }
        switch self.options.retry {
        case .none: return .never
        case .delays(let delays): return retry.count < delays.count ? .after(delays[retry.count]) : .never
        case .backoff(let backoff): return .after(backoff.delay(failures: retry.count + 1, minimum: .zero, using: &self.generator))
        case .custom: return .ask
        }
    }

    package mutating func lost(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        var wasConnected = false
        if case .connected = self.state { wasConnected = true }
        let failure =
            self.ending?.failure
            ?? .lost(
                self.redacted(reason), at: self.options.endpoint, wasConnected: wasConnected, serverTimeout: self.options.serverTimeout)
        let reported = self.ending.map(\.reported) ?? (reason == .requested ? nil : failure)
        effects.log(reason == .requested ? .debug : .info, "connection lost: \(failure)")
        (self.handshakeDeadline, self.handshakeBuffer, self.reader, self.isWritingPaused) = (nil, HubHandshake.Buffer(), nil, false)
        self.cancelWorks(&effects)
        self.failCalls(failure, &effects)
        self.failRefresh(failure, &effects)
        assert(self.hasNoCalls, "a call or a stream remains after the end of its connection")
        self.lossError = reported
        switch next {
        case .never: self.finish(reported, failure, &effects)
        case .undecided(let id):
            // Reported when it is clear that the client reconnects, but not connected any more.
            self.enterReconnecting(failure, &effects)
            let retry = self.retry ?? Retry(startedAt: now, count: 1)
            let context = HubRetryContext(retryCount: retry.count - 1, elapsed: retry.startedAt.duration(to: now), reason: failure)
            self.start(.retryDelay(context), for: .decision(id), &effects)
        case .reconnect, .later:
            self.enterReconnecting(failure, &effects)
            self.reportRetry(next, failure, now: now, &effects)
        }
    }

    package mutating func resolved(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        let failure = self.lossError ?? HubError(.connectionLost, "The connection was lost: \(reason).")
        switch next {
        case .never: self.finish(self.lossError, failure, &effects)
        case .reconnect, .later, .undecided: self.reportRetry(next, failure, now: now, &effects)
        }
    }

    private mutating func enterReconnecting(_ error: HubError, _ effects: inout Effects<Self>) {
        if case .connected = self.state { self.setState(.reconnecting(error), &effects) }
    }

    private mutating func reportRetry(_ next: NextAttempt, _ error: HubError, now: Instant, _ effects: inout Effects<Self>) {
        if self.hasConnected, !self.hasReportedLoss {
            self.hasReportedLoss = true
            self.publish(.reconnecting(error), &effects)
        } else {
            self.publish(.error(error), &effects)
        }
        guard case .later(let until) = next else { return }
        let delay = now.duration(to: until)
        // The shortest delay of a timer stands for none.
        self.publish(.retrying(in: delay > .nanoseconds(1) ? delay : .zero), &effects)
    }

    /// Moves the client to its final state.
    private mutating func finish(_ reported: HubError?, _ failure: HubError, _ effects: inout Effects<Self>) {
        if let reported { effects.log(self.hasConnected ? .error : .info, "stopped: \(reported)") }
        let hadConnected = self.hasConnected
        (self.hasConnected, self.retry, self.connectedAt, self.hasReportedLoss, self.lossError) = (false, nil, nil, false, nil)
        self.attempt = Attempt(self.options.endpoint)
        self.setState(.stopped(reported), &effects)
        if hadConnected { self.publish(.closed(reported), &effects) }
        // A failed start throws its error to the caller, and wasn't a connection that could be closed.
        if let waiter = self.startCaller.take() { effects.resume(waiter, .failure(failure)) }
    }

    private mutating func setState(_ state: HubState, _ effects: inout Effects<Self>) {
        guard state != self.state else { return }
        self.state = state
        self.publish(.state(state), &effects)
    }

    mutating func publish(_ update: HubUpdate, _ effects: inout Effects<Self>) {
        self.lastUpdate += 1
        effects.deliver(.update(update, number: self.lastUpdate), on: self.updates)
    }

    /// Reports an error that doesn't end the connection.
    package mutating func report(_ error: HubError, _ effects: inout Effects<Self>) {
        effects.log(.warning, error.message)
        self.publish(.error(error), &effects)
    }

    // MARK: Work

    /// - Returns: The number of the work.
    @discardableResult
    mutating func start(_ work: Work, for purpose: Purpose, _ effects: inout Effects<Self>) -> WorkID {
        self.lastWork += 1
        let id = WorkID(rawValue: self.lastWork)
        self.works[id] = purpose
        effects.commands.append(.work(id, work))
        return id
    }

    mutating func cancelWork(_ id: WorkID, _ effects: inout Effects<Self>) {
        self.works[id] = nil
        effects.commands.append(.cancel(id))
    }

    private mutating func cancelWorks(_ effects: inout Effects<Self>) {
        for id in self.works.keys.sorted(by: { $0.rawValue < $1.rawValue }) { effects.commands.append(.cancel(id)) }
        self.works = [:]
    }

    package mutating func workFinished(_ id: WorkID, _ result: WorkResult, now: Instant, _ effects: inout Effects<Self>) {
        switch (self.works.take(id), result) {
        case (.accessToken(let connection)?, .accessToken(let result)): self.received(result, for: connection, now: now, &effects)
        case (.negotiation(let connection)?, .negotiated(let result)): self.negotiated(result, for: connection, now: now, &effects)
        case (.tokenForRefresh?, .accessToken(let result)): self.receivedForRefresh(result, &effects)
        case (.refresh?, .negotiated(let result)): self.refreshAnswered(result, now: now, &effects)
        case (.decision(let connection)?, .retryDelay(.success(let delay))):
            self.decided(connection, delay.map { .after($0) } ?? .never, now: now, &effects)
        case (.decision(let connection)?, .retryDelay(.failure(let error))):
            effects.log(.error, error.message)
            self.decided(connection, .never, now: now, &effects)
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
            self.writingCallers.remove(waiter)
            self.cancelRefresh(for: waiter, &effects)
        }
    }

    package mutating func observeUpdates(_ consumer: ConsumerID, _ effects: inout Effects<Self>) {
        effects.routes.add(consumer, to: &self.updates)
    }

    package mutating func observeInvocations(_ consumer: ConsumerID, _ effects: inout Effects<Self>) {
        effects.routes.add(consumer, to: &self.invocations)
    }
}

extension Effects<HubSession> {
    mutating func resume(_ waiter: WaiterID, _ result: Result<HubSession.WaiterResult, HubError>) {
        self.commands.append(.resume(waiter, result))
    }
}
