import RealtimeCore
import RealtimeSystem
import SignalRWire

/// The server's state as a value: its negotiations, its connections, their calls, streams and groups.
///
/// The life of a connection (``Connection/State``):
/// ```
///   handshaking ──handshake──▶ connected ──the server closes──▶ closing ──closed──▶ ended ──last call has ended──▶ (removed)
///        │                         └────────────closed──────────────────────────────▲
///        ├──rejected, timeout──▶ rejected ──closed──▶ (removed)
///        └──closed──▶ (removed)
/// ```
/// With stateful reconnect, `closed` leads from `connected` to `interrupted` if the socket was lost. Another socket leads back, and the time
/// limit to `ended`.
///
/// The application's code runs in calls (``HubCall``), of which each connection has its own (``HubCalls``).
struct SignalRServerMachine: EmbeddedServerMachine {
    typealias Event = SignalRServerEvent

    /// Effects outside the machine, on the thread of the step.
    enum Work: Sendable {
        case start(HubCall)
        case cancel([HubCall])
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
        case timedOut(WaitLimit)
        case unknownConnection
        case disconnected
        case failed(String)
    }

    /// The condition that a caller waits for.
    enum Waiting: Sendable {
        case items(ConnectionID, ByteString)
        case result(ConnectionID, ByteString)
        case writing(ConnectionID)
    }

    // MARK: Hubs

    struct RegisteredHub: Sendable {
        let path: String
        /// The connections after their handshakes, by the IDs that the application knows.
        var connections: [ByteString: ConnectionID] = [:]
        var groups: [ByteString: Set<ConnectionID>] = [:]
        var users: [ByteString: Set<ConnectionID>] = [:]
        /// The number of connections with each format.
        var formats: [HubFormat: Int] = [:]
        /// The transports with which clients may connect.
        var transports: HubTransportKinds
        /// Where negotiations are redirected to.
        var redirect: NegotiateResponse.Redirect?
    }

    // MARK: Negotiations

    /// A connection that was negotiated and isn't over.
    struct Negotiation: Sendable {
        enum State: Sendable {
            case waiting
            /// A request that opens the connection was admitted.
            case opening(HubTransport)
            case open(HubTransport, ConnectionID)
        }

        let hub: HubID
        let connectionID: String
        let allowsResuming: Bool
        var state = State.waiting
        /// The bodies of requests that arrived before the one that opens the connection.
        var earlyBodies: [[UInt8]] = []

        var transport: HubTransport? {
            switch self.state {
            case .waiting: nil
            case .opening(let transport), .open(let transport, _): transport
            }
        }
    }

    /// A WebSocket that was accepted, until the listener has a connection.
    struct Admission: Sendable {
        let request: HTTPRequestHead
        let hub: HubID
        let token: ByteString?
        let userID: String?

        init(request: HTTPRequestHead, hub: HubID, token: String?, userID: String?) {
            (self.request, self.hub, self.token, self.userID) = (request, hub, token.map { ByteString($0) }, userID)
        }
    }

    let configuration: SignalRServerConfiguration
    /// In nanoseconds.
    let handshakeTimeout: Int64, connectTimeout: Int64, disconnectTimeout: Int64
    /// The number of bytes that are stored for a client that doesn't acknowledge them.
    let storedByteLimit: Int
    let heartbeatPolicy: HeartbeatPolicy
    var hubs: [RegisteredHub] = []
    /// By the IDs of the sockets with which they began.
    var connections = ConnectionTable<Connection>()
    var sockets = HubSockets()
    var negotiations: [ByteString: Negotiation] = [:]
    var negotiationDeadlines = Deadlines<ByteString, PatientLimit>()
    /// The number of WebSockets that were accepted, and for which the listener has no connection yet.
    var admissionCount = 0
    var connectionDeadlines = Deadlines<ConnectionID, Void>()
    var waiting: [WaiterID: Waiting] = [:]
    var eventRoute = EventRoutes.none
    /// The IDs and tokens. A token admits its holder to a connection, so a client must not be able to predict the tokens of others.
    var generator: RandomSource
    private var lastNumber: UInt64 = 0
    private var works = PendingWork<Void>()

    /// - Parameter seed: The seed of the IDs and tokens, for reproducible tests; `nil` to take them from the system's random numbers.
    init(_ configuration: SignalRServerConfiguration, seed: UInt64?) {
        self.configuration = configuration
        // At least 1 ms, so that a timeout always moves its deadline.
        func positive(_ duration: Duration) -> Duration { max(.milliseconds(1), duration) }
        self.handshakeTimeout = positive(configuration.handshakeTimeout).nanoseconds
        self.connectTimeout = positive(configuration.connectTimeout).nanoseconds
        self.disconnectTimeout = positive(configuration.disconnectTimeout).nanoseconds
        let (stored, waiting) = (max(1, configuration.statefulReconnectBufferBytes), max(0, configuration.backlogLimit))
        let limit = stored.addingReportingOverflow(waiting)
        self.storedByteLimit = limit.overflow ? .max : limit.partialValue
        self.heartbeatPolicy = HeartbeatPolicy(
            deadAfterSilence: positive(configuration.clientTimeout), pingAfterNotSending: positive(configuration.keepAliveInterval))
        self.generator = RandomSource(seed: seed)
    }

    /// The sockets of the connections.
    var acceptedConnections: [ConnectionID] { self.connections.ids.compactMap { self.sockets.socket(of: $0) } }

    func cancellation(of waiter: WaiterID) -> Failure { .cancelled }
    func timedOut(_ waiter: WaiterID, after limit: WaitLimit) -> Failure { .timedOut(limit) }

    var inactivity: String? {
        self.connections.isEmpty ? "No client is connected to the server. Start a client first." : nil
    }

    var nextDeadline: Instant? {
        .earliest(self.connectionDeadlines.earliest, self.negotiationDeadlines.earliest)
    }

    mutating func addHub(_ path: String) -> HubID {
        self.hubs.append(RegisteredHub(path: path, transports: self.configuration.transports))
        return HubID(rawValue: self.hubs.count - 1)
    }

    // MARK: Opening

    func start(now: Instant, _ effects: inout Effects<Self>) {}

    func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {}

    /// The handshake succeeded.
    ///
    /// - Parameter version: The version of the protocol, which is 2 with stateful reconnect.
    mutating func establish(_ id: ConnectionID, _ format: HubFormat, version: Int, now: Instant, _ effects: inout Effects<Self>) {
        guard let connection = self.connections[id] else { return }
        let info = HubConnectionInfo(
            id: id, hub: connection.hub, connectionID: connection.connectionID, userID: connection.userID, request: connection.request,
            format: format)
        // A poll keeps itself alive: neither side pings, and the client's time limit is that of its next poll.
        let policy = connection.transport == .longPolling ? HeartbeatPolicy() : self.heartbeatPolicy
        var heartbeat = Heartbeat(policy, now: now)
        if connection.isSilent { heartbeat.reading(paused: true, now: now) }
        let call = HubCall(self.nextNumber(), of: info, .connected)
        var established = Established(
            info: info, reader: HubMessageReader(format, messageLimit: self.configuration.messageLimit), heartbeat: heartbeat,
            buffer: connection.allowsResuming && version >= 2
                ? HubMessageBuffer(byteLimit: self.configuration.statefulReconnectBufferBytes) : nil)
        established.calls.start(RunningCall(call))
        self.connections.update(id) { $0.state = .connected(established) }
        let hub = connection.hub.rawValue
        self.hubs[hub].connections[ByteString(connection.connectionID)] = id
        self.hubs[hub].formats[format, default: 0] += 1
        if let userID = connection.userID { self.hubs[hub].users[ByteString(userID), default: []].insert(id) }
        self.updateTimer(id)
        self.deliver(
            .connected(hub: self.hubs[hub].path, connectionID: connection.connectionID, userID: connection.userID), &effects)
        self.run(.start(call), &effects)
    }

    // MARK: Closing

    /// Asks every client to reconnect, like a server that restarts.
    mutating func stop(now: Instant, _ effects: inout Effects<Self>) {
        for id in self.connections.ids { self.close(id, error: nil, allowReconnect: true, .goingAway, now: now, &effects) }
    }

    /// Closes a connection with a close message, if the handshake is complete, and a close frame.
    mutating func close(
        _ id: ConnectionID, error: String?, allowReconnect: Bool, _ code: CloseCode = .normal, now: Instant,
        _ effects: inout Effects<Self>
    ) {
        switch self.connections[id]?.state.phase {
        case .handshaking, .connected, .interrupted: break
        case .rejected, .closing, .ended, nil: return
        }
        if let format = self.connections[id]?.format {
            let message = HubMessageWriter.message(.close(error: error, allowReconnect: allowReconnect), format)
            self.sendUncounted(message, to: id, now: now, &effects)
        }
        self.closeFrame(id, error: error, code, &effects)
        // A connection without a socket receives no event that it was closed.
        if self.sockets.socket(of: id) == nil { self.end(id, .requested, now: now, &effects) }
    }

    /// Sends a close frame. No more messages are sent or read.
    mutating func closeFrame(_ id: ConnectionID, error: String?, _ code: CloseCode, _ effects: inout Effects<Self>) {
        if let error, let connectionID = self.connections[id]?.connectionID {
            self.deliver(.error(connectionID: connectionID, message: error), &effects)
            effects.log(.info, "Closing the connection \(connectionID): \(error)")
        }
        self.connections.update(id) { $0.state.close(error: error) }
        self.updateTimer(id)
        if let socket = self.sockets.socket(of: id) { effects.commands.append(.close(socket, code, reason: "")) }
    }

    mutating func closed(_ socket: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        guard let id = self.sockets.owner(of: socket) else { return }
        if Self.isLoss(reason), self.interrupt(id, reason, now: now, &effects) { return }
        self.end(id, reason, now: now, &effects)
    }

    /// The connection ends.
    mutating func end(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        guard let phase = self.connections[id]?.state.phase, phase != .ended, var connection = self.connections.remove(id) else { return }
        self.connectionDeadlines.remove(id)
        self.sockets.remove(id)
        if let token = connection.token { self.negotiations[token] = nil }
        let reason = connection.orderly(reason)
        let established: Established
        let error: String?
        switch connection.state {
        case .handshaking, .rejected, .ended: return
        case .connected(let value), .interrupted(let value, _): (established, error) = (value, Self.error(of: reason))
        case .closing(let value, let text): (established, error) = (value, text)
        }
        self.leaveHub(connection, established, id)
        for waiter in established.waiters { self.resume(waiter, .failure(.disconnected), &effects) }
        let isClosedByClient = if case .peer = reason { error == nil } else { established.isClosedByClient }
        var ended = Ended(info: established.info, calls: established.calls, error: error)
        // The calls that a client made before it closed the connection still run: it may have exited just after the call. Streams don't.
        ended.calls.removeWaiting { !isClosedByClient || $0.isConcurrent }
        connection.state = .ended(ended)
        self.connections.insert(connection, id)
        self.cancel(ended.calls.runningCalls, &effects)
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
        guard case .ended(let ended)? = self.connections[id]?.state, ended.calls.isEmpty else { return }
        self.connections.remove(id)
        // The handler of the end isn't called if the handler of the beginning failed.
        guard ended.calls.isReady else { return }
        self.run(.start(HubCall(self.nextNumber(), of: ended.info, .disconnected(error: ended.error))), &effects)
    }

    /// The reason for the application's handler; `nil` for an orderly end.
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
    mutating func send(_ message: TransportMessage, to id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        let limit = self.storedByteLimit
        guard let step = self.updateConnected(id, { $0.send(message, limit: limit, now: now) }) else { return }
        self.perform(step, message, id, now: now, &effects)
    }

    /// Sends a message that stateful reconnect doesn't count, unless the connection is closing or has no socket.
    mutating func sendUncounted(_ message: TransportMessage, to id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        // The pending timer fires earlier than the new deadline, and is set again then.
        guard let socket = self.sockets.socket(of: id), self.updateConnected(id, { $0.heartbeat.sent(now: now) }) != nil else { return }
        effects.commands.append(.send(socket, message))
    }

    /// Performs a step of sending.
    mutating func perform(
        _ step: Established.SendStep, _ message: TransportMessage, _ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) {
        switch step {
        case .send(let resumesReading):
            if let socket = self.sockets.socket(of: id) { effects.commands.append(.send(socket, message)) }
            if resumesReading { self.updateReading(id, now: now, &effects) }
        case .store: break
        case .exceedsLimit: self.close(id, error: Self.overflow, allowReconnect: true, now: now, &effects)
        }
    }

    private static let overflow = "The client does not acknowledge messages: too many of them wait for it."

    mutating func writing(_ socket: ConnectionID, paused: Bool, now: Instant, _ effects: inout Effects<Self>) {
        guard let id = self.sockets.owner(of: socket), self.updateEstablished(id, { $0.isWritingPaused = paused }) != nil, !paused else {
            return
        }
        self.continueWriting(id, now: now, &effects)
    }

    /// Resumes the callers that wait to send, if they can.
    mutating func continueWriting(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard let writers = self.updateEstablished(id, { $0.mustWait ? nil : $0.writers.takeAll() }) else { return }
        for waiter in writers { self.resume(waiter, .success(.writable), &effects) }
        self.startCalls(id, &effects)
        self.updateReading(id, now: now, &effects)
    }

    /// Resumes a caller when the client has caught up with what was sent to it.
    mutating func awaitWriting(_ id: ConnectionID, _ waiter: WaiterID, _ effects: inout Effects<Self>) {
        let mustWait = self.updateConnected(id) { established -> Bool in
            if established.mustWait { established.writers.insert(waiter) }
            return established.mustWait
        }
        switch mustWait {
        case true?: self.waiting[waiter] = .writing(id)
        case false?: effects.resume(waiter, .success(.writable))
        case nil: effects.resume(waiter, .failure(.disconnected))
        }
    }

    // MARK: Changing a connection in place

    /// Changes a connection if it is open. Returns `nil` otherwise.
    @discardableResult
    mutating func updateConnected<Result>(_ id: ConnectionID, _ change: (inout Established) -> Result?) -> Result? {
        self.connections.update(id) { $0.state.updateConnected(change) }
    }

    /// Changes a connection if it is open or closing. Returns `nil` otherwise.
    @discardableResult
    mutating func updateEstablished<Result>(_ id: ConnectionID, _ change: (inout Established) -> Result?) -> Result? {
        self.connections.update(id) { $0.state.updateEstablished(change) }
    }

    /// Changes the calls of a connection, which may have ended.
    @discardableResult
    mutating func updateCalls<Result>(_ id: ConnectionID, _ change: (inout HubCalls) -> Result?) -> Result? {
        self.connections.update(id) { $0.state.updateCalls(change) }
    }

    // MARK: Waiters and work

    mutating func resume(_ waiter: WaiterID, _ result: Result<WaiterResult, Failure>, _ effects: inout Effects<Self>) {
        self.waiting[waiter] = nil
        effects.resume(waiter, result)
    }

    mutating func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {
        switch self.waiting.removeValue(forKey: waiter) {
        case .items(let id, let stream): self.updateEstablished(id) { $0.uploads[stream]?.readers.removeAll { $0 == waiter } }
        case .result(let id, let invocation):
            self.updateEstablished(id) { $0.results[invocation] = nil }
            self.updateReading(id, now: now, &effects)
        case .writing(let id): self.updateEstablished(id) { $0.writers.remove(waiter) }
        case nil: break
        }
    }

    /// Performs work that finishes immediately.
    mutating func run(_ work: Work, _ effects: inout Effects<Self>) {
        self.works.start(work, for: (), &effects)
    }

    mutating func cancel(_ calls: [HubCall], _ effects: inout Effects<Self>) {
        if !calls.isEmpty { self.run(.cancel(calls), &effects) }
    }

    mutating func workFinished(_ id: WorkID, _ result: Void, now: Instant, _ effects: inout Effects<Self>) { _ = self.works.take(id) }

    mutating func nextNumber() -> UInt64 {
        self.lastNumber += 1
        return self.lastNumber
    }

    /// Delivers an event to the consumers. Without a consumer, the event isn't created.
    func deliver(_ event: @autoclosure () -> SignalRServerEvent, _ effects: inout Effects<Self>) {
        if !effects.routes.isEmpty(self.eventRoute) { effects.deliver(event(), on: self.eventRoute) }
    }
}
