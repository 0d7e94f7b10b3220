package import PrimusWire
package import RealtimeCore
import RealtimeSystem

/// The client side of a connection to a server of Primus, as a value: detection, framing, heartbeat, the queue and the consumers of messages.
///
/// It performs no I/O and reads no clock. Extensions in other files contain the steps before a connection, the messages, and the queue.
///
/// Source: `primus.js` and `index.js` of Primus 8, and those of Primus 6 for the older heartbeat.
package struct PrimusSession: ConfigurableSession {
    package typealias Event = PrimusEvent
    package typealias Failure = PrimusError
    package typealias Request = PrimusRequest

    package enum WaiterResult: Sendable {
        case none
        case opened(sparkID: String?)
        case sparkID(String)
        /// The answer to a call of a plugin.
        case plugin(PrimusPluginResult)
    }

    package enum Work: Sendable {
        /// Ask the application for credentials and the URL.
        case prepare(PrimusPreparation)
        /// Request the specification, or what a server of SockJS says of itself.
        case request(HTTPRequest)
        /// Ask the application whether and when to reconnect.
        case retryDelay(PrimusRetryPolicy, PrimusRetryContext)
    }

    package enum WorkResult: Sendable {
        case prepared(Result<PrimusPrepared, PrimusError>)
        /// With the endpoint that sent the response, which is another one after a redirect.
        case response(Result<HTTPResponse, TransportError>, from: Endpoint? = nil)
        case retryDelay(Result<Duration?, PrimusError>)
    }

    /// The purpose of work.
    enum Purpose: Hashable, Sendable {
        case preparation(ConnectionID)
        case spec(ConnectionID)
        case info(ConnectionID)
        case retryDecision
    }

    /// The known properties of the attempt in progress, or of the established connection.
    struct Attempt: Sendable {
        /// The URL of the server, with the credentials.
        var endpoint: Endpoint
        var credentials: PrimusCredentials?
        /// The credentials that the server has refused in this attempt.
        var refusal: Refusal?
        var dialect = PrimusDialect(transformer: .websockets, parser: .json)
        var framing = PrimusFraming.plain
        /// The session of engine.io.
        var handshake: EngineIOHandshake?
        /// The address of the sessions of SockJS, if the server has another one for them, with the query for it.
        var sockJSBase: Endpoint?
        var opening = Opening.preparing(nil)
        /// How packets travel.
        var connectionKind = PrimusConnectionKind.webSocket
        /// The kinds of connections that failed in this attempt.
        var failures = FailedTransports<PrimusConnectionKind>()
        /// Whether the other version of engine.io was tried in this attempt.
        var hasChangedVersion = false
        /// Whether the attempt goes on after the failure of a kind of connection or a version.
        var isContinued = false
        /// The information of a server of SockJS about itself, and the time that its answer took.
        var sockJSInfo: SockJSInfo?
        var infoRequestedAt: Instant?
        var roundTrip: Duration?
        var (sockJSServer, sockJSSession) = (0, "")
        var startedAt: Instant
        /// When the time of the attempt began: with the attempt, or after a standstill.
        var timeBegan: Instant
        /// Why the request for the specification was refused, if the transformer is a guess for that reason.
        var specRefusal: String?
        /// When the server is also asked for the ID of the spark, because it hasn't answered the first ping.
        var questionDeadline: Instant?
        /// The limit of the request for the specification.
        var specLimit: PatientLimit?
        /// Whether the event of another attempt has to be traced, behind the URL.
        var tracesReconnect = false

        init(_ endpoint: Endpoint, now: Instant) {
            (self.endpoint, self.startedAt, self.timeBegan) = (endpoint, now, now)
        }
    }

    /// The step of an attempt.
    enum Opening: Hashable, Sendable {
        /// The credentials, the specification, and what a server of SockJS says of itself, until the end of an attempt that is continued.
        case preparing(PatientLimit?)
        /// A connection is being opened, until the time when another kind is tried.
        case connecting(PatientLimit?)
        case done
    }

    /// A refusal with the status 401 or 403, after which the application was asked for other credentials.
    struct Refusal: Sendable {
        var credentials: PrimusCredentials?
        var endpoint: Endpoint
        var error: PrimusError
    }

    /// How a server is reached, as far as it is known from earlier attempts.
    struct Knowledge: Sendable {
        var spec: PrimusSpec?
        /// Why the server has no specification, if it has answered so.
        var specProblem: String?
        /// Why the defaults apply, until a connection with them is reported.
        var unreportedProblem: String?
        /// The kind of connection that has worked before.
        var connectionKind: PrimusConnectionKind?
        var engineIO: EngineIOVersion?
        /// Whether a session of engine.io was lost while it moved to a WebSocket.
        var failsToMove = false
    }

    /// Why a connection or an attempt ended.
    package struct Ending: ConnectionEnding {
        enum Kind: Hashable, Sendable {
            case requested, closedByServer, lost, refused, timedOut
        }

        package var reason: CloseReason
        var kind: Kind
        var failure: PrimusError
        /// The message of the last problem, if the failure also says what has failed before.
        var lastProblem: String?
        /// Whether another attempt fails as well.
        var isFinal = false
        /// Whether the server refuses credentials that it has accepted before.
        var refusesCredentials = false

        /// Whether an attempt may have failed because the server speaks something else than the client.
        var mayBeOfAnotherDialect: Bool {
            if self.kind == .timedOut { return true }
            guard self.kind == .refused else { return false }
            switch self.reason {
            case .peer: return true
            case .transport(let error):
                let isUnderstood = error.status.map { $0 == 401 || $0 == 403 || $0 >= 500 } ?? false
                return [.upgradeRejected, .requestRejected, .protocolViolation, .closed].contains(error.code) && !isUnderstood
            case .requested, .openTimeout, .heartbeatTimeout: return false
            }
        }
    }

    /// Where the client is between its start and its end.
    enum Phase: Hashable, Sendable {
        /// No connection was established since the last start.
        case starting
        case connected
        /// The connection was lost.
        case lost(isReported: Bool)
    }

    /// The messages that were written before the client was ended, and can't be sent yet: they are in the transforms, or wait for the end of a
    /// move. What is written later waits for the next connection.
    struct Drain: Sendable {
        /// When the client gives up.
        var deadline: Instant
        /// The messages that wait for the end of the move, in their order.
        var queue: PrimusWriteQueue
        /// The number of the last value in the transforms.
        var lastTransformed: UInt64
    }

    package var connection: ConnectionStateMachine
    /// The settings of the current connection or attempt and, if there is none, of the next one.
    package internal(set) var options: PrimusConfiguration
    let epoch: Int64
    /// The changes of the settings, since the first one.
    @Boxed package var settings: ChangedSettings<PrimusConfiguration>?
    package internal(set) var state = PrimusState.closed(nil)
    var attempt: Attempt
    var knowledge = Knowledge()
    /// The cookies of the server, for all attempts.
    package let cookies = RedirectingHTTP.Cookies()
    /// The encoding of packets; `nil` until it is known.
    package internal(set) var coding: PrimusCoding?
    var retries = RetrySeries(endsWith: .anyConnection)
    /// The attempt that is scheduled or in progress, since a loss.
    package internal(set) var retry: PrimusRetry?
    var phase = Phase.starting
    private var isReleased = false
    /// Whether the client has ended because the strategies don't let it reconnect after its loss, so that the network's return may.
    package private(set) var awaitsNetwork = false
    /// Whether the attempt that begins is one to connect again.
    private var isReopening = false
    /// Whether the client is closed, and its owner opens it soon: calls wait for that.
    private(set) var opensSoon = false
    /// The error that the policy for reconnects threw, while its answer is handled.
    private var policyError: PrimusError?
    /// The reported error of the last loss or failed attempt, until a connection is established.
    package internal(set) var lossError: PrimusError?
    private var outage = OutageLog()
    /// Whether the attempts are used up.
    private var isExhausted = false
    var generator: SplitMix64

    /// The ID of the server's side of the connection, once it is known.
    package internal(set) var sparkID: String?
    var sparkIDCallers = WaitingCalls()
    var sparkIDRequestedAt: Instant?
    /// The last measured round-trip time.
    package internal(set) var latency: Duration?
    var pingSentAt: Instant?
    /// Whether the server has announced that it closes the connection, and until when it has time for that.
    var serverCloseDeadline: Instant?
    var hasReceivedServerPing = false
    /// Whether the network is presumed to be gone.
    package internal(set) var isOffline = false
    /// The messages that the client, which was ended, still has to send.
    var drain: Drain?

    var works = PendingWork<Purpose>()
    /// The move from polling to a WebSocket.
    var move = ConnectionMove()
    var upgrade = Upgrade.none
    /// The connection from which the session has moved.
    var movedConnection: ConnectionID?
    /// The credentials that the server has refused on the established connection, for the next attempt.
    private var expired: Refusal?
    var queue = PrimusWriteQueue()
    /// The order of messages in the incoming transforms and of events.
    var incoming = PrimusIncomingOrder()
    /// The values in the outgoing transforms, in the order in which they are transformed.
    var transforming = FIFO<PrimusOutgoing>()
    var lastTransformed: UInt64 = 0
    /// The callers whose value is in the outgoing transforms.
    var transformCallers = WaitingCalls()
    /// Whether the server reads so slowly that messages wait.
    var isWritingPaused = false
    /// When the next messages of a long queue are sent.
    var flushDeadline: Instant?
    /// The callers that wait until the client is connected.
    var openCallers = WaitingCalls()
    /// The callers that wait until the client is ended.
    var endCallers = WaitingCalls()
    /// The callers that wait until the server reads faster.
    var writingCallers = WaitingCalls()
    /// The callers whose message was sent over HTTP, and that wait for the server to take it.
    var answerCallers = AnswerCalls<PrimusError>()

    package var plugins: PrimusPluginState

    var updates = EventRoutes.none
    package var messages = EventRoutes.none
    var untransformed = EventRoutes.none
    var outgoing = EventRoutes.none
    var traces = EventRoutes.none
    /// The route of the messages in both directions, without secrets.
    var frames = EventRoutes.none
    package internal(set) var traceState = PrimusTrace.ReadyState.end

    /// - Parameters:
    ///   - options: The settings.
    ///   - epoch: The milliseconds from the beginning of 1970 to the instant zero.
    ///   - seed: The seed of the random numbers.
    package init(_ options: PrimusConfiguration, epoch: Int64, seed: UInt64) {
        var generator = SplitMix64(seed: seed)
        self.connection = ConnectionStateMachine(
            policy: Self.policy(options, isReconnect: false), generator: SplitMix64(seed: generator.next()))
        self.plugins = PrimusPluginState(options.plugins, seed: generator.next())
        self.generator = generator
        self.options = options
        self.epoch = epoch
        self.attempt = Attempt(options.endpoint, now: Instant(nanoseconds: 0))
        self.coding = Self.coding(options)
    }

    /// The encoding that the settings determine; `nil` if the server does.
    static func coding(_ options: PrimusConfiguration) -> PrimusCoding? {
        if let parser = options.customParser { return PrimusCoding(parser) }
        if let kind = options.parser { return PrimusCoding(kind) }
        return options.detection == .off ? .json : nil
    }

    static func policy(_ options: PrimusConfiguration, isReconnect: Bool) -> Shared<ConnectionPolicy> {
        var policy = ConnectionPolicy()
        policy.openTimeout = isReconnect ? options.reconnectTimeout : options.connectTimeout
        // The policy of the application may wait for something, and what it decides must not be replaced by something else.
        policy.decisionTimeout = nil
        // The session chooses the delays itself. The machine adds those that protect the server.
        policy.backoff = Backoff(base: .zero, cap: .zero)
        return Shared(policy)
    }

    package var nextDeadline: Instant? {
        .earliest(
            .earliest(
                .earliest(self.connection.nextDeadline, self.serverCloseDeadline), .earliest(self.kindDeadline, self.upgradeDeadline)),
            .earliest(
                .earliest(self.attempt.specLimit?.deadline, self.attempt.questionDeadline),
                .earliest(self.drain?.deadline, self.flushDeadline)))
    }

    package var waiterCount: Int {
        self.openCallers.count + self.endCallers.count + self.writingCallers.count + self.answerCallers.count
            + self.sparkIDCallers.count + self.transformCallers.count + self.queue.waiterCount + (self.drain?.queue.waiterCount ?? 0)
            + self.plugins.waiterCount
    }

    /// The number of messages that wait for a connection.
    package var queuedCount: Int { self.queue.count + (self.drain?.queue.count ?? 0) + self.transforming.count }

    package var inactivity: String? {
        if case .closed = self.state { "The client is closed. Call open() first." } else { nil }
    }

    package func cancellation(of waiter: WaiterID) -> PrimusError { .cancelled }

    package func timedOut(_ waiter: WaiterID, after limit: WaitLimit) -> PrimusError {
        switch self.state {
        case .open:
            let advice = limit.advice(self.plugins.advice(for: waiter) ?? "Use a longer limit, or check the server.")
            return PrimusError(.timedOut, "\(limit): the server didn't answer. \(advice)")
        case .closed: return PrimusError(.timedOut, "\(limit): the client is closed. Call open() first.")
        case .opening, .reconnecting:
            let failure = self.knownFailure
            let message = limit.withoutConnection(to: "\(self.options.endpoint)", after: failure?.message)
            return PrimusError(.timedOut, message, cause: failure)
        }
    }

    /// Why there is no connection, if it is known: the last loss or failed attempt, or what has failed in the first attempt, which isn't over.
    var knownFailure: PrimusError? {
        if let lossError { return lossError }
        if let failure = self.attempt.failures.last { return PrimusError(.connectionLost, failure.message) }
        if let refusal = self.attempt.refusal { return refusal.error }
        return self.knowledge.specProblem.map { problem in
            let message = "There is no specification at \(self.address.spec): \(Excerpt.sentence(problem)) Check the path of the URL."
            return PrimusError(.detectionFailed, message)
        }
    }

    // MARK: Starting and ending

    /// Opens the client, unless it is open.
    package mutating func open(now: Instant, _ effects: inout Effects<Self>) {
        // The messages that are in the transforms are sent on the next connection.
        if self.drain != nil { self.finishDraining(now: now, &effects) }
        guard case .closed = self.state else { return }
        if let error = self.configurationError { return self.fail(error, &effects) }
        // What an earlier connection has shown doesn't hold for this one.
        (self.knowledge.connectionKind, self.knowledge.failsToMove, self.expired) = (nil, false, nil)
        self.start(now: now, &effects)
    }

    /// Tells a client that was never opened whether its owner opens it soon.
    package mutating func opensSoon(_ isAwaited: Bool, _ effects: inout Effects<Self>) {
        guard case .closed(nil) = self.state, self.opensSoon != isAwaited else { return }
        self.opensSoon = isAwaited
        if !isAwaited { self.queue.failWaiting(self.notOpen, &effects) }
    }

    /// Whether nothing would end the wait of a caller.
    var refusesCallers: Bool { if case .closed = self.state { !self.opensSoon } else { false } }

    package mutating func stop(now: Instant, _ effects: inout Effects<Self>) {
        (self.opensSoon, self.awaitsNetwork) = (false, false)
        guard let id = self.connection.connected, !self.isReleased else { return self.stopConnection(now: now, &effects) }
        if self.drain != nil { return self.openCallers.resumeAll(.failure(self.endError), &effects) }
        if !self.isMoving { self.flush(on: id, ignoresPause: true, now: now, &effects) }
        guard self.hasUnsentMessages else { return self.stopConnection(now: now, &effects) }
        // What was written before the end isn't lost. For the application, the client is closed already.
        let deadline = now.advanced(by: self.connection.policy.closeTimeout)
        self.drain = Drain(deadline: deadline, queue: self.queue.takeAll(), lastTransformed: self.lastTransformed)
        self.handleEnd(self.ending(for: .requested, now: now), now: now, &effects)
    }

    /// Whether messages that were written before the end are in the transforms, or wait for the end of a move.
    private var hasUnsentMessages: Bool {
        guard !self.isMoving, let first = self.transforming.first else { return self.isMoving }
        return first.number <= self.drain?.lastTransformed ?? .max
    }

    /// Sends the messages of a client that was ended, and closes its connection if nothing is left to send.
    mutating func continueDraining(now: Instant, _ effects: inout Effects<Self>) {
        guard self.drain != nil, !self.isMoving, let id = self.connection.connected else { return }
        while let entry = self.drain?.queue.popFirst() { self.send(entry, on: id, now: now, &effects) }
        if !self.hasUnsentMessages { self.finishDraining(now: now, &effects) }
    }

    /// Closes the connection of a client that was ended. What wasn't sent waits for the next connection, unless a caller waits for it.
    mutating func finishDraining(now: Instant, _ effects: inout Effects<Self>) {
        self.stopConnection(now: now, &effects)
        self.endDraining(self.endError, &effects)
    }

    private mutating func endDraining(_ error: PrimusError, _ effects: inout Effects<Self>) {
        guard var drain = self.drain.take() else { return }
        self.attempt.credentials = nil
        self.transformCallers.resumeAll(.failure(error), &effects)
        drain.queue.failBound(error, &effects)
        drain.queue.failWaiting(error, &effects)
        self.queue.prepend(&drain.queue)
        self.endUpgrade(&effects)
    }

    package mutating func release(now: Instant, _ effects: inout Effects<Self>) {
        self.isReleased = true
        self.stop(now: now, &effects)
        self.openCallers.resumeAll(.failure(.released), &effects)
        self.queue.failAll(.released, &effects)
        self.transformCallers.resumeAll(.failure(.released), &effects)
    }

    var endError: PrimusError { self.isReleased ? .released : .ended }

    /// Reconnects now if a retry or its decision is pending. If the client is connected, checks the connection.
    package mutating func checkConnection(now: Instant, _ effects: inout Effects<Self>) {
        guard self.drain == nil else { return }
        switch self.connection.state {
        // The attempts that failed say nothing about the network that is available now.
        case .deciding, .backingOff: self.retries.forgetAttempts()
        default: break
        }
        self.checkConnection(timeout: .seconds(10), now: now, &effects)
    }

    /// Reconnects now if a retry or its decision is pending.
    package mutating func reconnectNow(now: Instant, _ effects: inout Effects<Self>) {
        switch self.connection.state {
        case .deciding, .backingOff: self.checkConnection(now: now, &effects)
        default: break
        }
    }

    /// The network path has changed or is back.
    package mutating func networkChanged(now: Instant, _ effects: inout Effects<Self>) {
        // A client that the user has ended stays closed.
        if case .closed = self.state { return self.reopenForNetwork(now: now, &effects) }
        // On another network, another kind of connection may work.
        (self.knowledge.connectionKind, self.knowledge.failsToMove) = (nil, false)
        guard self.latestOptions.options.strategies.contains(.online) else { return }
        self.setOnline(&effects)
        self.checkConnection(now: now, &effects)
    }

    /// Connects again after a loss that only the network's return ends, as the strategies say.
    private mutating func reopenForNetwork(now: Instant, _ effects: inout Effects<Self>) {
        guard self.awaitsNetwork, self.latestOptions.options.strategies.contains(.online), self.configurationError == nil else { return }
        self.setOnline(&effects)
        self.isReopening = true
        (self.knowledge.connectionKind, self.knowledge.failsToMove) = (nil, false)
        self.start(now: now, &effects)
    }

    private mutating func setOnline(_ effects: inout Effects<Self>) {
        guard self.isOffline else { return }
        self.isOffline = false
        self.publish(.online, &effects)
        self.trace(.online, &effects)
    }

    package mutating func opening(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        (self.opensSoon, self.awaitsNetwork) = (false, false)
        if case .closed = self.state {
            self.phase = .starting
            self.retries.reset()
            (self.retry, self.isExhausted) = (nil, false)
            if self.isReopening { self.retry = PrimusRetry(attempt: 1, limit: self.retryLimit, delay: .zero, elapsed: .zero) }
            self.isReopening = false
            self.setState(.opening, &effects)
        }
        if let question = self.retries.withdrawQuestion() { self.works.cancel(question, &effects) }
        self.applyOptions(&effects)
        // A check of the connection starts an attempt instead of the application's decision about it.
        if case .lost(isReported: false) = self.phase, case .reconnecting(let error) = self.state { self.reportLoss(error, &effects) }
        self.attempt = Attempt(self.options.endpoint, now: now)
        self.attempt.refusal = self.expired.take()
        effects.log(.debug, "connection \(id): connecting to \(self.options.endpoint)")
        if self.retry != nil { self.trace(.outgoingReconnect, &effects) }
        self.trace(.outgoingOpen, &effects)
        self.setTraceState(.opening, &effects)
        self.trace(.outgoingEnd, &effects)
        guard var retry = self.retry else { return }
        retry.elapsed = self.retries.elapsed(now: now)
        self.retry = retry
        self.attempt.tracesReconnect = true
        self.publish(.reconnect(retry), &effects)
    }

    // MARK: The connection

    package mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {
        if id == self.move.candidate { return self.candidateOpened(id, head, now: now, &effects) }
        guard self.connection.opened(id, now: now) == .beginHandshake else { return }
        // A connection over HTTP keeps the cookies of its responses itself.
        if self.attempt.connectionKind.transport == .webSockets {
            self.cookies.store(head.headers, from: self.requestedEndpoint, now: now)
        }
        if !self.attempt.framing.hasHandshake { self.pingFirst(id, now: now, &effects) }
    }

    /// Pings a server that doesn't speak first. The connection is open when it says anything: some proxies accept a WebSocket and pass nothing on,
    /// and all messages that wait would be lost.
    private mutating func pingFirst(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        let ping = TransportMessage(.ping, [])
        effects.commands.append(.send(id, ping))
        self.trace(.sent, ping.kind, ping.bytes[...], &effects)
        self.attempt.questionDeadline = now.advanced(by: Self.questionDelay)
    }

    /// The time after which a server that doesn't answer the first ping is asked for the ID of the spark.
    private static let questionDelay = Duration.seconds(1)

    /// Asks a server, or one behind a proxy that doesn't pass on pings, in its own protocol whether it is there.
    private mutating func askFirst(_ effects: inout Effects<Self>) {
        self.attempt.questionDeadline = nil
        guard case .handshaking(let id, _) = self.connection.state else { return }
        let question = self.framed(.idRequest)
        effects.commands.append(.send(id, question))
        self.trace(.sent, question.kind, question.bytes[...], &effects)
    }

    /// The connection can be used.
    mutating func becomeOpen(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard self.connection.ready(id, self.heartbeat, now: now) == .announceConnected else { return }
        let isReconnect = self.hasConnected
        (self.attempt.opening, self.attempt.questionDeadline) = (.done, nil)
        if !self.attempt.failures.isEmpty { self.knowledge.connectionKind = self.attempt.connectionKind }
        (self.phase, self.lossError, self.hasReceivedServerPing) = (.connected, nil, false)
        self.outage.reset()
        (self.isWritingPaused, self.flushDeadline, self.movedConnection) = (false, nil, nil)
        (self.serverCloseDeadline, self.pingSentAt, self.sparkIDRequestedAt) = (nil, nil, nil)
        self.sparkID = self.attempt.handshake?.sid
        self.latency = self.attempt.startedAt.duration(to: now)
        self.retries.connected(now: now)
        self.connection.sharedPolicy = Self.policy(self.latestOptions.options, isReconnect: true)
        let dialect = self.attempt.dialect
        effects.log(.info, "connection \(id): open with \(dialect.transformer) over \(self.attempt.connectionKind), and \(dialect.parser)")
        self.trace(.incomingOpen, &effects)
        if let retry = self.retry.take() {
            self.publish(.dialect(self.attempt.dialect), &effects)
            self.publish(.reconnected(retry), &effects)
            self.trace(.reconnected(retry), &effects)
        } else {
            self.publish(.dialect(self.attempt.dialect), &effects)
        }
        self.publish(.transport(self.attempt.connectionKind.transport), &effects)
        if isReconnect { effects.counters.reconnects += 1 }
        self.setOnline(&effects)
        self.setTraceState(.open, &effects)
        self.setState(.open, &effects)
        self.reportGuess(&effects)
        if let sparkID { self.publish(.sparkID(sparkID), &effects) }
        self.pluginsOpened(isReconnect: isReconnect, on: id, now: now, &effects)
        self.flush(on: id, now: now, &effects)
        self.trace(.open, &effects)
        self.openCallers.resumeAll(.success(.opened(sparkID: self.sparkID)), &effects)
        self.beginUpgrade(now: now, &effects)
    }

    package mutating func timeout(now: Instant, _ effects: inout Effects<Self>) {
        if let deadline = self.connection.nextDeadline, deadline <= now {
            let id = self.connection.current
            self.connectionTimeout(now: now, &effects)
            // The limit of the attempt has begun anew.
            if deadline.passedDuringStandstill(now: now), id != nil, self.connection.current == id { self.attempt.timeBegan = now }
        }
        if let deadline = self.attempt.specLimit?.deadline, deadline <= now { self.detectionTimeout(now: now, &effects) }
        if let deadline = self.attempt.questionDeadline, deadline <= now { self.askFirst(&effects) }
        if let deadline = self.kindDeadline, deadline <= now { self.kindTimeout(now: now, &effects) }
        if let deadline = self.upgradeDeadline, deadline <= now { self.upgradeTimeout(now: now, &effects) }
        if let deadline = self.serverCloseDeadline, deadline <= now {
            self.serverCloseDeadline = nil
            // The server has announced the end, and leaves it to the client.
            if let id = self.connection.connected { self.closeForServer(id, now: now, &effects) }
        }
        if let deadline = self.flushDeadline, deadline <= now { self.continueFlushing(now: now, &effects) }
        if let deadline = self.drain?.deadline, deadline <= now { self.finishDraining(now: now, &effects) }
    }

    private mutating func closeForServer(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        effects.commands.append(.close(id, .normal, reason: ""))
        self.end(id, Ending(reason: .peer(.normal, ""), kind: .closedByServer, failure: Self.closedByServer), now: now, &effects)
    }

    static let closedByServer = PrimusError(.closedByServer, "The server ended the connection, and doesn't want the client to reconnect.")

    // MARK: Losing the connection

    /// Ends an attempt because of an error.
    mutating func fail(_ id: ConnectionID, _ error: PrimusError, isFinal: Bool = false, now: Instant, _ effects: inout Effects<Self>) {
        let reason = CloseReason.transport(error.transportError ?? TransportError(.protocolViolation, error.message))
        let ending = Ending(reason: reason, kind: .refused, failure: error, isFinal: isFinal)
        self.end(id, isFinal ? ending : self.explained(ending, mentionsSpec: false), now: now, &effects)
    }

    package func ending(for reason: CloseReason, now: Instant) -> Ending {
        if reason == .requested { return Ending(reason: reason, kind: .requested, failure: self.endError) }
        let wasConnected = self.connection.connected != nil
        if wasConnected, self.serverCloseDeadline != nil {
            return Ending(reason: reason, kind: .closedByServer, failure: Self.closedByServer)
        }
        let isSilent = if reason == .openTimeout, case .handshaking = self.connection.state { true } else { false }
        let failure = PrimusError.lost(
            self.redacted(reason), at: self.options.endpoint, over: self.attempt.dialect.transformer, wasConnected: wasConnected,
            isSilent: isSilent, limit: self.silenceLimit, redact: { self.redacted($0, isWhole: true) })
        let kind: Ending.Kind = wasConnected ? .lost : reason == .openTimeout ? .timedOut : .refused
        let isPermanent = reason.transportError?.code.isPermanent ?? false
        // The next attempt asks for other credentials.
        if wasConnected, failure.code == .unauthorized, !self.preparation.isEmpty {
            return Ending(reason: reason, kind: kind, failure: failure, refusesCredentials: true)
        }
        return self.explained(Ending(reason: reason, kind: kind, failure: failure, isFinal: isPermanent))
    }

    /// Adds what has failed before to the end of an attempt.
    ///
    /// - Parameter mentionsSpec: Whether a missing specification may be the cause.
    func explained(_ ending: Ending, mentionsSpec: Bool = true) -> Ending {
        if self.connection.connected != nil { return ending }
        let failure = ending.failure
        var message = self.attempt.failures.added(to: failure.message)
        if mentionsSpec, let problem = self.knowledge.specProblem {
            let advice = message.containsText("Check the path") ? "" : " Check the path of the URL."
            message += " Nor is there a specification at \(self.address.spec): \(Excerpt.sentence(problem))\(advice)"
        } else if mentionsSpec, failure.code != .unauthorized, let refusal = self.attempt.specRefusal {
            message +=
                " The specification at \(self.address.spec) was refused, so the transformer \(self.attempt.dialect.transformer) was assumed: "
                + "\(Excerpt.sentence(refusal)) If the server has another one, set transformer, or let the server and its proxies answer this request."
        }
        if self.options.detection == .off, self.options.customTransformer == nil, !self.hasConnected, ending.mayBeOfAnotherDialect {
            message +=
                " The detection is off, so the server may have another transformer than \(self.attempt.dialect.transformer). Set the transformer, or "
                + "the detection to automatic."
        }
        if failure.code != .unauthorized, let refusal = self.attempt.refusal?.error {
            message += " Before, the server refused other credentials: \(refusal.message)"
        }
        var explained = ending
        explained.lastProblem = failure.message
        explained.failure = PrimusError(
            failure.code, message, serverMessage: failure.serverMessage, serverCode: failure.serverCode, cause: failure.cause)
        return explained
    }

    /// Whether a connection was established since the last start.
    var hasConnected: Bool { if case .starting = self.phase { false } else { true } }

    private var retryRule: RetryRule {
        switch self.latestOptions.options.retry {
        case .none: .never
        case .delays(let delays): .delays(delays)
        case .backoff: .protocolDecision
        case .custom: .ask
        }
    }

    package mutating func decision(on ending: Ending, now: Instant) -> ReconnectDecision {
        if case .closed = self.state { return .never }
        if ending.kind == .closedByServer || ending.isFinal { return .never }
        if self.fallsBack(because: ending) || self.asksForOtherCredentials(because: ending) { return .reopen }
        self.forgetSpec(after: ending)
        // Settings that were changed apply to the decision, and to the delay before the next attempt.
        let options = self.latestOptions.options
        if ending.refusesCredentials {
            self.expired = Refusal(
                credentials: self.attempt.credentials, endpoint: self.attempt.endpoint, error: ending.failure.forStorage)
        } else if ending.failure.code == .unauthorized, ending.kind != .lost {
            // What refuses a request of a session may accept the next session, whose handshake decides.
            return .never
        }
        switch ending.kind {
        case .lost:
            guard options.strategies.contains(.disconnect) else {
                if case .never = self.retryRule { return .never }
                self.awaitsNetwork = options.strategies.contains(.online)
                return .never
            }
        case .refused, .timedOut:
            // Once the client retries, it doesn't matter why an attempt fails.
            guard self.retry != nil || options.strategies.contains(.timeout) else { return .never }
        case .requested, .closedByServer: return .never
        }
        self.connection.sharedPolicy = Self.policy(options, isReconnect: true)
        let decision = self.retries.decide(self.retryRule, now: now)
        guard case .backoff(let backoff) = options.retry else {
            if decision == .never, case .delays = options.retry { self.isExhausted = true }
            return decision
        }
        if let limit = backoff.retries, self.retries.retryCount >= limit {
            self.isExhausted = limit > 0
            return .never
        }
        let delay = backoff.delay(attempt: self.retries.retryCount + 1, using: &self.generator)
        if case .afterBackoff(let minimum) = decision { return .afterBackoff(atLeast: max(delay, minimum)) }
        return .afterBackoff(atLeast: delay)
    }

    package mutating func lost(_ ending: Ending, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        // The application knows the end already.
        if self.drain != nil { return self.endDraining(ending.failure, &effects) }
        // The end of a client that was never opened has no events.
        if case .closed = self.state {
            self.queue.failWaiting(ending.failure, &effects)
            return self.stopWhileStopped(&effects)
        }
        if next == .never { self.transformCallers.resumeAll(.failure(ending.failure), &effects) }
        self.handleEnd(ending, then: next, now: now, &effects)
    }

    private mutating func handleEnd(
        _ ending: Ending, then next: NextAttempt = .never, now: Instant, _ effects: inout Effects<Self>
    ) {
        let failure = ending.failure
        self.log(ending, then: next, &effects)
        // Also while the application decides about the next attempt.
        let wasScheduled = self.traceState == .end
        if ending.reason == .heartbeatTimeout {
            self.isOffline = true
            self.publish(.offline, &effects)
            self.trace(.offline, &effects)
        }
        self.works.cancelAll(&effects)
        if ending.kind == .lost { self.lostWhileMoving(&effects) }
        // The messages of a client that was ended wait for the end of the move.
        if self.drain == nil || !self.isMoving { self.endUpgrade(&effects) }
        self.attempt.opening = .done
        (self.isWritingPaused, self.flushDeadline) = (false, nil)
        (self.serverCloseDeadline, self.attempt.specLimit, self.attempt.questionDeadline) = (nil, nil, nil)
        (self.sparkID, self.sparkIDRequestedAt, self.pingSentAt) = (nil, nil, nil)
        self.sparkIDCallers.resumeAll(.failure(failure), &effects)
        self.answerCallers.sessionEnded(failure.forStorage)
        self.pluginsLost(failure, isFinal: next == .never, &effects)
        self.queue.failBound(failure, &effects)
        self.failBoundTransforms(failure, &effects)
        // They wait for the next connection instead. After the last one, they are told why it ended.
        if next != .never { self.writingCallers.resumeAll(.success(.none), &effects) }
        if case .connected = self.phase { self.phase = .lost(isReported: false) }
        self.lossError = ending.kind == .requested ? nil : failure.forStorage
        let isFirst = self.retry == nil
        self.traceBegin(of: ending, isFirst: isFirst, &effects)
        if ending.kind == .timedOut { self.publish(.connectTimedOut(failure), &effects) }
        switch next {
        case .never:
            self.traceFinish(of: ending, isFirst: isFirst, wasScheduled: wasScheduled, &effects)
            self.finish(ending, &effects)
        case .undecided(let id):
            // Reported when it is clear that the client reconnects, but not connected any more.
            self.enterReconnecting(failure, &effects)
            let context = PrimusRetryContext(
                retryCount: self.retries.retryCount, elapsed: self.retries.elapsed(now: now), reason: failure)
            let question = self.works.start(.retryDelay(self.latestOptions.options.retry, context), for: .retryDecision, &effects)
            self.retries.asked(question, about: id)
            self.traceEnd(of: ending, &effects)
        case .reconnect, .later:
            self.enterReconnecting(failure, &effects)
            self.reportRetry(next, failure, now: now, &effects) { $0.traceEnd(of: ending, &$1) }
        }
    }

    private mutating func log(_ ending: Ending, then next: NextAttempt, _ effects: inout Effects<Self>) {
        if ending.kind == .requested { return effects.log(.debug, "the connection is closed") }
        // The end of the client is logged when it is final.
        if next == .never { return }
        if case .connected = self.phase { return effects.log(.info, "connection lost: \(ending.failure)") }
        self.outage.attemptFailed(ending.failure.message, &effects)
    }

    package mutating func resolved(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        let failure = self.lossError ?? PrimusError(.connectionLost, "The connection was lost: \(Excerpt.sentence(reason.description))")
        switch next {
        case .never:
            let error = self.policyError.map { failure.ended(by: $0) } ?? failure
            self.trace(.end, &effects)
            if let retry { self.trace(.reconnectFailed(error, retry), &effects) }
            self.setTraceState(.end, &effects)
            self.transformCallers.resumeAll(.failure(error), &effects)
            self.finish(Ending(reason: reason, kind: .lost, failure: error), &effects)
        case .reconnect, .later, .undecided: self.reportRetry(next, failure, now: now, &effects)
        }
    }

    private mutating func enterReconnecting(_ error: PrimusError, _ effects: inout Effects<Self>) {
        if case .open = self.state { self.setState(.reconnecting(error), &effects) }
    }

    private mutating func reportLoss(_ error: PrimusError, _ effects: inout Effects<Self>) {
        self.phase = .lost(isReported: true)
        self.publish(.reconnecting(error), &effects)
    }

    private mutating func reportRetry(
        _ next: NextAttempt, _ error: PrimusError, now: Instant, _ effects: inout Effects<Self>,
        traceEnd: (inout Self, inout Effects<Self>) -> Void = { _, _ in }
    ) {
        if case .lost(isReported: false) = self.phase {
            self.reportLoss(error, &effects)
        } else {
            self.publish(.attemptFailed(error), &effects)
        }
        var delay = Duration.zero
        if case .later(let until) = next {
            let time = now.duration(to: until)
            // The timer's minimum of 1 ns means no delay.
            delay = time > .nanoseconds(1) ? time : .zero
        }
        let retry = PrimusRetry(
            attempt: self.retries.retryCount + 1, limit: self.retryLimit, delay: delay, elapsed: self.retries.elapsed(now: now))
        self.retry = retry
        self.publish(.reconnectScheduled(retry), &effects)
        self.trace(.reconnectScheduled(retry), &effects)
        traceEnd(&self, &effects)
        if case .later = next { self.publish(.connectingIn(delay), &effects) }
    }

    /// The maximum number of attempts; `nil` for no maximum.
    private var retryLimit: Int? {
        switch self.latestOptions.options.retry {
        case .backoff(let backoff): backoff.retries
        case .delays(let delays): delays.count
        case .none, .custom: nil
        }
    }

    /// Moves the client to its final state.
    private mutating func finish(_ ending: Ending, _ effects: inout Effects<Self>) {
        let isReported = ending.kind != .requested && ending.kind != .closedByServer
        let (failure, reported) = (ending.failure, isReported ? ending.failure : nil)
        if ending.kind != .requested { effects.log(isReported ? .error : .warning, "The client is closed. \(failure)") }
        self.outage.reset()
        if self.isExhausted, let reported { self.publish(.reconnectFailed(reported), &effects) }
        (self.phase, self.lossError, self.retry, self.isExhausted) = (.starting, nil, nil, false)
        self.retries.reset()
        // A client that still sends what was written before its end keeps them until then, to remove them from texts.
        if self.drain == nil { self.attempt.credentials = nil }
        self.connection.sharedPolicy = Self.policy(self.latestOptions.options, isReconnect: false)
        self.setState(.closed(reported), &effects)
        self.publish(.ended(ending.kind == .requested ? nil : failure), &effects)
        self.queue.failWaiting(failure, &effects)
        self.openCallers.resumeAll(.failure(failure), &effects)
        self.writingCallers.resumeAll(.failure(failure), &effects)
        self.endCallers.resumeAll(reported.map { .failure($0) } ?? .success(.none), &effects)
    }

    mutating func setState(_ state: PrimusState, _ effects: inout Effects<Self>) {
        guard state != self.state else { return }
        self.state = state.forStorage
        self.publish(.state(state), &effects)
    }

    mutating func publish(_ update: PrimusUpdate, _ effects: inout Effects<Self>) {
        effects.deliver(.update(update), on: self.updates)
    }

    /// Reports an error that doesn't end the connection.
    package mutating func report(_ error: PrimusError, _ effects: inout Effects<Self>) {
        self.log(error, &effects)
        self.trace(.error(error), &effects)
    }

    /// Reports an error without an event of the client for JavaScript.
    mutating func log(_ error: PrimusError, _ effects: inout Effects<Self>) {
        effects.log(.warning, error.message)
        if error.code == .decodingFailed { effects.counters.decodingFailures += 1 }
        self.publish(.error(error), &effects)
    }

    // MARK: Work

    package mutating func workFinished(_ id: WorkID, _ result: WorkResult, now: Instant, _ effects: inout Effects<Self>) {
        switch (self.works.take(id), result) {
        case (.preparation(let connection)?, .prepared(let result)): self.prepared(result, for: connection, now: now, &effects)
        case (.spec(let connection)?, .response(let result, let endpoint)):
            self.received(spec: result, from: endpoint, for: connection, now: now, &effects)
        case (.info(let connection)?, .response(let result, let endpoint)):
            self.received(info: result, from: endpoint, for: connection, now: now, &effects)
        case (.retryDecision?, .retryDelay(let result)):
            guard let (connection, decision) = self.retries.answered(id, (try? result.get()) ?? nil) else { break }
            if case .failure(let error) = result {
                effects.log(.error, error.message)
                self.policyError = error
            }
            self.decided(connection, decision, now: now, &effects)
            if let error = self.policyError.take() { effects.commands.append(.release(error)) }
        default: break
        }
    }
}
