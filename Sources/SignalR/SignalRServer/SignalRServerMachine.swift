import RealtimeCore
import RealtimeSystem
import SignalRWire

/// The server's state as a value: its negotiations, its connections, their calls, streams and groups.
///
/// The life of a connection (``Connection/Stage``):
/// ```
///   handshaking ──handshake──▶ connected ──the server closes──▶ closing ──closed──▶ ended ──last call has ended──▶ (removed)
///        │                         └────────────closed──────────────────────────────▲
///        ├──rejected, timeout──▶ closing
///        └──closed──▶ (removed)
/// ```
/// The user's code runs in calls (``HubCall``). Those of a connection start in the order of their messages. A call occupies one of the
/// connection's slots until it ends, unless it streams.
struct SignalRServerMachine: SessionMachine {
    typealias Event = SignalRServerEvent
    typealias Request = Never

    /// Effects outside the machine, on the thread of the step.
    enum Work: Sendable {
        case start(HubCall)
        case cancel([HubCall])
        /// Pause or resume reading, as ``Connection/isReadingPaused`` says.
        case updateReading(ConnectionID)
    }

    typealias WorkResult = Void

    enum WaiterResult: Sendable {
        /// The items of a stream from a client that have arrived, and how it ended if no more follow.
        case items([HubPayload], end: StreamEnd?)
        /// The result of a client's method; `nil` if it returned nothing.
        case result(HubPayload?)
        /// Writing can continue.
        case writable
    }

    enum StreamEnd: Sendable, Hashable {
        case completed
        case failed(String)
    }

    enum Failure: Error, Hashable {
        case cancelled
        case timedOut(Duration)
        case unknownConnection
        case disconnected
        case failed(String)
    }

    /// What a waiting caller waits for.
    enum Waiting: Sendable {
        case items(ConnectionID, ByteString)
        case result(ConnectionID, ByteString)
        case writing(ConnectionID)
    }

    // MARK: Hubs

    struct HubState: Sendable {
        let path: String
        /// The connections after their handshakes, by the IDs that users know.
        var connections: [ByteString: ConnectionID] = [:]
        var groups: [ByteString: Set<ConnectionID>] = [:]
        var users: [ByteString: Set<ConnectionID>] = [:]
        /// The number of connections with each format.
        var formats: [HubFormat: Int] = [:]
        /// Where negotiations are redirected to.
        var redirect: NegotiateResponse.Redirect?
    }

    // MARK: Negotiations

    /// A connection that was negotiated and isn't over.
    struct Negotiation: Sendable {
        enum State: Sendable { case waiting, upgrading, connected }

        let hub: HubID
        let connectionID: String
        var state = State.waiting
    }

    /// The parts of an upgrade request that the listener repeats when it has accepted it.
    struct UpgradeKey: Hashable, Sendable {
        private let target: String
        private let headers: HTTPHeaders

        init(_ request: HTTPRequestHead) {
            (self.target, self.headers) = (request.target, request.headers)
        }
    }

    /// The decision to accept an upgrade, until the listener has a connection. Upgrades with equal requests are interchangeable.
    struct Admission: Sendable {
        let number: UInt64
        let hub: HubID
        let token: ByteString?
        let userID: String?
    }

    // MARK: Connections

    struct Connection: Sendable {
        enum Stage: Sendable {
            case handshaking(deadline: Instant)
            case connected
            /// The close frame is sent, and only the end of the connection is of interest.
            case closing(error: String?)
            /// The connection has ended. Its calls are cancelled and haven't ended all.
            case ended(error: String?)
        }

        let hub: HubID
        let connectionID: String
        let token: ByteString?
        let userID: String?
        let request: HTTPRequestHead
        var stage: Stage
        var timer = CoalescedTimer()
        /// The start of an incomplete handshake.
        var handshake = HubHandshake.Buffer()
        /// Whether the server injects silence, so that the client can't be blamed for it.
        var isSilent = false
        /// Set by the handshake.
        var established: Established?
    }

    /// The state that exists after the handshake.
    struct Established: Sendable {
        let info: HubConnectionInfo
        /// Absent while it reads.
        var reader: HubMessageReader?
        var heartbeat: Heartbeat
        var groups: Set<ByteString> = []
        /// Whether the handler of the connection's beginning has returned. Methods aren't called before.
        var isReady = false
        /// Whether the client has sent a close message.
        var isClosedByClient = false
        /// The invocations that haven't started.
        var queue = HubQueue<PendingCall>()
        /// The size of the invocations in ``queue``.
        var queuedBytes = 0
        /// The calls that have started, by their numbers.
        var calls: [UInt64: RunningCall] = [:]
        /// The calls that the client can cancel, waiting or running, by the IDs of their invocations.
        var invocationIDs: [ByteString: UInt64] = [:]
        var occupiedSlots = 0
        /// The number of streaming calls, waiting or running.
        var streamingCalls = 0
        /// The streams from the client, by their IDs.
        var uploads: [ByteString: Upload] = [:]
        /// The bytes of all items in ``uploads``.
        var bufferedBytes = 0
        /// The callers that wait for results of the client, by the IDs of the invocations.
        var results: [ByteString: WaiterID] = [:]
        var lastResult: UInt64 = 0
        /// The callers that wait until writing can continue.
        var writers: Set<WaiterID> = []
        var isWritingPaused = false
        var isReadingPaused = false
    }

    struct PendingCall: Sendable {
        let call: HubCall
        let invocation: HubInvocation
        let isStreaming: Bool
        /// Whether other calls don't wait for this one.
        var isConcurrent: Bool { self.isStreaming || !self.invocation.streamIDs.isEmpty }
        var size: Int { self.invocation.arguments.bytes.count + SignalRServerMachine.itemOverhead }
    }

    struct RunningCall: Sendable {
        let call: HubCall
        let invocationID: ByteString?
        let target: String
        let streamIDs: [String]
        let isStreaming: Bool
        let occupiesSlot: Bool
    }

    /// A stream from a client.
    struct Upload: Sendable {
        let call: UInt64
        var items: [HubPayload] = []
        var end: StreamEnd?
        /// The callers that wait for items, in order.
        var readers: [WaiterID] = []
    }

    let configuration: SignalRServerConfiguration
    /// In nanoseconds.
    let handshakeTimeout: Int64, connectTimeout: Int64
    let heartbeatPolicy: HeartbeatPolicy
    var hubs: [HubState] = []
    var connections: [ConnectionID: Connection] = [:]
    var negotiations: [ByteString: Negotiation] = [:]
    var negotiationDeadlines = Deadlines<ByteString, Void>()
    var admissions: [UpgradeKey: [Admission]] = [:]
    var admissionDeadlines = Deadlines<UInt64, UpgradeKey>()
    var connectionDeadlines = Deadlines<ConnectionID, Void>()
    var waiting: [WaiterID: Waiting] = [:]
    var eventRoute = EventRoutes.none
    /// The IDs and tokens. A token admits its holder to a connection, so a client must not be able to predict those of others.
    private var generator: RandomSource
    private var lastNumber: UInt64 = 0

    /// - Parameter seed: The seed of the IDs and tokens, for reproducible tests; `nil` to take them from the system's random numbers.
    init(_ configuration: SignalRServerConfiguration, seed: UInt64?) {
        self.configuration = configuration
        // At least 1 ms, so that a timeout always moves its deadline.
        func positive(_ duration: Duration) -> Duration { max(.milliseconds(1), duration) }
        self.handshakeTimeout = positive(configuration.handshakeTimeout).nanoseconds
        self.connectTimeout = positive(configuration.connectTimeout).nanoseconds
        self.heartbeatPolicy = HeartbeatPolicy(
            deadAfterSilence: positive(configuration.clientTimeout), pingAfterNotSending: positive(configuration.keepAliveInterval))
        self.generator = RandomSource(seed: seed)
    }

    func cancellation(of waiter: WaiterID) -> Failure { .cancelled }
    func timedOut(_ waiter: WaiterID, after limit: Duration) -> Failure { .timedOut(limit) }

    var inactivity: String? {
        self.connections.isEmpty ? "No client is connected to the server. Start a client first." : nil
    }

    var nextDeadline: Instant? {
        .earliest(self.connectionDeadlines.earliest, .earliest(self.negotiationDeadlines.earliest, self.admissionDeadlines.earliest))
    }

    mutating func addHub(_ path: String) -> HubID {
        self.hubs.append(HubState(path: path))
        return HubID(rawValue: self.hubs.count - 1)
    }

    // MARK: Negotiating

    enum NegotiationResult: Sendable {
        /// The token is `nil` if the client doesn't know tokens. Then the ID is the token.
        case connection(id: String, token: String?)
        case redirect(NegotiateResponse.Redirect)
        case unavailable
    }

    /// - Parameter usesToken: Whether the client knows that the token isn't the ID of the connection.
    mutating func negotiate(_ hub: HubID, usesToken: Bool, now: Instant, _ effects: inout Effects<Self>) -> NegotiationResult {
        if let redirect = self.hubs[hub.rawValue].redirect { return .redirect(redirect) }
        guard self.negotiationDeadlines.count < self.configuration.negotiationLimit else { return .unavailable }
        let id = self.generator.makeID()
        let token = usesToken ? self.generator.makeID() : nil
        let key = ByteString(token ?? id)
        self.negotiations[key] = Negotiation(hub: hub, connectionID: id)
        self.negotiationDeadlines.set(key, now + self.connectTimeout)
        self.deliver(.negotiated(hub: self.hubs[hub.rawValue].path, connectionID: id), &effects)
        return .connection(id: id, token: token)
    }

    /// The status with which a request that names a connection is rejected, or `nil` if the connection exists.
    func rejection(of token: String?, for hub: HubID) -> Int? {
        guard let token, !token.isEmpty else { return 400 }
        return self.negotiations[ByteString(token)]?.hub == hub ? nil : 404
    }

    /// The established connection with a token; `nil` if there is none. In version 0 of the negotiation, connections have no tokens.
    func connection(withToken token: String, on hub: HubID) -> HubConnectionInfo? {
        guard let negotiation = self.negotiations[ByteString(token)], negotiation.hub == hub, negotiation.connectionID != token,
            let id = self.hubs[hub.rawValue].connections[ByteString(negotiation.connectionID)],
            let connection = self.connections[id], case .connected = connection.stage
        else { return nil }
        return connection.established?.info
    }

    /// Decides about a WebSocket.
    ///
    /// - Returns: The status with which to reject it, or `nil` to accept it.
    mutating func admit(
        _ request: HTTPRequestHead, to hub: HubID, token: String?, userID: String?, now: Instant
    ) -> Int? {
        // With those whose upgrade has been accepted.
        guard self.connections.count + self.admissionDeadlines.count < self.configuration.connectionLimit else { return 503 }
        let key = token.map { ByteString($0) }
        if let key {
            guard let negotiation = self.negotiations[key], negotiation.hub == hub else { return 404 }
            guard case .waiting = negotiation.state else { return 409 }
            self.negotiations[key]?.state = .upgrading
            self.negotiationDeadlines.set(key, now + self.connectTimeout)
        } else if self.admissionDeadlines.count >= self.configuration.negotiationLimit {
            return 503
        }
        let admission = Admission(number: self.nextNumber(), hub: hub, token: key, userID: userID)
        let upgrade = UpgradeKey(request)
        self.admissions[upgrade, default: []].append(admission)
        self.admissionDeadlines.set(admission.number, now + self.connectTimeout, upgrade)
        return nil
    }

    // MARK: Opening

    func start(now: Instant, _ effects: inout Effects<Self>) {}

    /// The listener accepted a WebSocket for this request.
    ///
    /// - Returns: `false` if the request wasn't admitted, or so long ago that its connection is forgotten. The caller closes it.
    mutating func accepted(_ id: ConnectionID, _ request: HTTPRequestHead, now: Instant) -> Bool {
        let key = UpgradeKey(request)
        guard var admissions = self.admissions[key], !admissions.isEmpty else { return false }
        let admission = admissions.removeFirst()
        self.admissions[key] = admissions.isEmpty ? nil : admissions
        self.admissionDeadlines.remove(admission.number)
        let connectionID: String
        if let token = admission.token {
            guard let negotiation = self.negotiations[token] else { return false }
            self.negotiations[token]?.state = .connected
            self.negotiationDeadlines.remove(token)
            connectionID = negotiation.connectionID
        } else {
            connectionID = self.generator.makeID()
        }
        self.connections[id] = Connection(
            hub: admission.hub, connectionID: connectionID, token: admission.token, userID: admission.userID, request: request,
            stage: .handshaking(deadline: now + self.handshakeTimeout))
        self.updateTimer(id)
        return true
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {}

    /// The handshake succeeded.
    mutating func establish(_ id: ConnectionID, _ format: HubFormat, now: Instant, _ effects: inout Effects<Self>) {
        guard let connection = self.connections[id] else { return }
        let info = HubConnectionInfo(
            id: id, hub: connection.hub, connectionID: connection.connectionID, userID: connection.userID, request: connection.request,
            format: format)
        var heartbeat = Heartbeat(self.heartbeatPolicy, now: now)
        if connection.isSilent { heartbeat.reading(paused: true, now: now) }
        self.connections[id]?.established = Established(
            info: info, reader: HubMessageReader(format, messageLimit: self.configuration.messageLimit), heartbeat: heartbeat)
        self.connections[id]?.stage = .connected
        let hub = connection.hub.rawValue
        self.hubs[hub].connections[ByteString(connection.connectionID)] = id
        self.hubs[hub].formats[format, default: 0] += 1
        if let userID = connection.userID { self.hubs[hub].users[ByteString(userID), default: []].insert(id) }
        self.updateTimer(id)
        self.deliver(
            .connected(hub: self.hubs[hub].path, connectionID: connection.connectionID, userID: connection.userID), &effects)
        self.start(HubCall(self.nextNumber(), of: info, .connected), invocation: nil, isStreaming: false, occupiesSlot: false, &effects)
    }

    // MARK: Closing

    /// Asks every client to reconnect, like a server that restarts.
    mutating func stop(now: Instant, _ effects: inout Effects<Self>) {
        for id in self.connections.keys.sorted() { self.close(id, error: nil, allowReconnect: true, .goingAway, now: now, &effects) }
    }

    /// Closes a connection with a close message, if the handshake is complete, and a close frame.
    mutating func close(
        _ id: ConnectionID, error: String?, allowReconnect: Bool, _ code: CloseCode = .normal, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        switch self.connections[id]?.stage {
        case .handshaking, .connected: break
        case .closing, .ended, nil: return
        }
        if let format = self.connections[id]?.established?.info.format {
            let message = HubMessageWriter.message(.close(error: error, allowReconnect: allowReconnect), format)
            self.send(message, to: id, now: now, &effects)
        }
        self.closeFrame(id, error: error, code, &effects)
    }

    /// Sends a close frame. No more messages are sent or read.
    mutating func closeFrame(_ id: ConnectionID, error: String?, _ code: CloseCode, _ effects: inout Effects<Self>) {
        if let error, let connection = self.connections[id] {
            self.deliver(.error(connectionID: connection.connectionID, message: error), &effects)
            effects.log(.info, "Closing the connection \(connection.connectionID): \(error)")
        }
        self.connections[id]?.stage = .closing(error: error)
        // The driver reads until the close frame of the client.
        self.connections[id]?.established?.isReadingPaused = false
        self.updateTimer(id)
        effects.commands.append(.close(id, code, reason: ""))
    }

    /// Drops a connection without a close frame.
    mutating func drop(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard self.connections[id] != nil else { return }
        effects.commands.append(.abandon(id))
        // The transport reports nothing about an abandoned connection.
        self.closed(id, .transport(TransportError(.reset, "The server dropped the connection.")), now: now, &effects)
    }

    mutating func closed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        guard let connection = self.connections[id] else { return }
        let error: String?
        switch connection.stage {
        case .ended: return
        case .closing(let text): error = text
        case .handshaking, .connected: error = Self.error(of: reason)
        }
        if let token = connection.token { self.negotiations[token] = nil }
        self.connections[id]?.stage = .ended(error: error)
        self.connectionDeadlines.remove(id)
        guard let established = connection.established else {
            self.connections[id] = nil
            return
        }
        self.leaveHub(connection, established, id)
        let waiters = Array(established.results.values) + Array(established.writers) + established.uploads.values.flatMap(\.readers)
        for waiter in waiters.sorted(by: { $0.rawValue < $1.rawValue }) { self.resume(waiter, .failure(.disconnected), &effects) }
        self.connections[id]?.established?.results = [:]
        self.connections[id]?.established?.writers = []
        self.connections[id]?.established?.uploads = [:]
        let isClosedByClient = if case .peer = reason { error == nil } else { established.isClosedByClient }
        // What a client has called before it closed the connection still runs: it may have exited just after the call. Streams don't.
        self.connections[id]?.established?.queue.removeAll { !isClosedByClient || $0.isConcurrent }
        self.cancel(established.calls.values.sorted { $0.call.number < $1.call.number }.map(\.call), &effects)
        self.deliver(
            .disconnected(hub: self.hubs[connection.hub.rawValue].path, connectionID: connection.connectionID, reason), &effects)
        self.startCalls(id, &effects)
        self.removeIfCallsEnded(id, &effects)
    }

    private mutating func leaveHub(_ connection: Connection, _ established: Established, _ id: ConnectionID) {
        let hub = connection.hub.rawValue
        self.hubs[hub].connections[ByteString(connection.connectionID)] = nil
        self.hubs[hub].formats[established.info.format, default: 1] -= 1
        if let userID = connection.userID { Self.remove(id, ByteString(userID), from: &self.hubs[hub].users) }
        for group in established.groups { Self.remove(id, group, from: &self.hubs[hub].groups) }
    }

    static func remove(_ id: ConnectionID, _ key: ByteString, from sets: inout [ByteString: Set<ConnectionID>]) {
        sets[key]?.remove(id)
        if sets[key]?.isEmpty == true { sets[key] = nil }
    }

    /// Removes a connection whose calls have ended, and calls the handler of its end.
    mutating func removeIfCallsEnded(_ id: ConnectionID, _ effects: inout Effects<Self>) {
        guard let connection = self.connections[id], case .ended(let error) = connection.stage, let established = connection.established,
            established.calls.isEmpty, established.queue.count == 0
        else { return }
        self.connections[id] = nil
        // Not if the handler of the beginning failed.
        guard established.isReady else { return }
        self.run(.start(HubCall(self.nextNumber(), of: established.info, .disconnected(error: error))), &effects)
    }

    /// The reason for the user's handler; `nil` for an orderly end.
    private static func error(of reason: CloseReason) -> String? {
        switch reason {
        case .requested, .peer(.normal, _), .peer(.goingAway, _), .peer(.noStatus, _): nil
        case .openTimeout: "The client did not complete the handshake in time."
        case .heartbeatTimeout: "The client did not send a message in time."
        case .peer(let code, let text):
            "The client closed the connection with code \(code)\(text.isEmpty ? "" : ": \(Excerpt.of(text, limit: 200))")."
        case .transport(let error): error.message
        }
    }

    // MARK: Sending

    /// Sends a message on a connection that isn't closing.
    mutating func send(_ message: WebSocketMessage, to id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard case .connected = self.connections[id]?.stage else { return }
        // The pending timer fires earlier than the new deadline, and is set again then.
        self.connections[id]?.established?.heartbeat.sent(now: now)
        effects.commands.append(.send(id, message))
    }

    mutating func writing(_ id: ConnectionID, paused: Bool, now: Instant, _ effects: inout Effects<Self>) {
        guard let established = self.connections[id]?.established else { return }
        self.connections[id]?.established?.isWritingPaused = paused
        if paused { return }
        self.connections[id]?.established?.writers = []
        for waiter in established.writers.sorted(by: { $0.rawValue < $1.rawValue }) {
            self.resume(waiter, .success(.writable), &effects)
        }
        self.startCalls(id, &effects)
        self.updateReading(id, now: now, &effects)
    }

    /// Resumes a caller when the client has caught up with what was sent to it.
    mutating func awaitWriting(_ id: ConnectionID, _ waiter: WaiterID, _ effects: inout Effects<Self>) {
        guard case .connected = self.connections[id]?.stage, let isPaused = self.connections[id]?.established?.isWritingPaused else {
            effects.commands.append(.resume(waiter, .failure(.disconnected)))
            return
        }
        guard isPaused else {
            effects.commands.append(.resume(waiter, .success(.writable)))
            return
        }
        self.waiting[waiter] = .writing(id)
        self.connections[id]?.established?.writers.insert(waiter)
    }

    // MARK: Waiters and work

    mutating func resume(_ waiter: WaiterID, _ result: Result<WaiterResult, Failure>, _ effects: inout Effects<Self>) {
        self.waiting[waiter] = nil
        effects.commands.append(.resume(waiter, result))
    }

    mutating func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        switch self.waiting.removeValue(forKey: waiter) {
        case .items(let id, let stream): self.connections[id]?.established?.uploads[stream]?.readers.removeAll { $0 == waiter }
        case .result(let id, let invocation):
            self.connections[id]?.established?.results[invocation] = nil
            self.updateReading(id, now: now, &effects)
        case .writing(let id): self.connections[id]?.established?.writers.remove(waiter)
        case nil: break
        }
    }

    /// Performs work that finishes immediately.
    mutating func run(_ work: Work, _ effects: inout Effects<Self>) {
        effects.commands.append(.work(WorkID(rawValue: self.nextNumber()), work))
    }

    mutating func cancel(_ calls: [HubCall], _ effects: inout Effects<Self>) {
        if !calls.isEmpty { self.run(.cancel(calls), &effects) }
    }

    func workFinished(_ id: WorkID, _ result: Void, now: Instant, _ effects: inout Effects<Self>) {}

    mutating func nextNumber() -> UInt64 {
        self.lastNumber += 1
        return self.lastNumber
    }

    /// Delivers an event to the consumers. Without a consumer, the event isn't created.
    func deliver(_ event: @autoclosure () -> SignalRServerEvent, _ effects: inout Effects<Self>) {
        if !effects.routes.isEmpty(self.eventRoute) { effects.deliver(event(), on: self.eventRoute) }
    }
}
