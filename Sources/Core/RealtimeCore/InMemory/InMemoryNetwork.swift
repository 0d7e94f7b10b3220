import RealtimeSystem

/// A network without sockets that connects clients and servers of the same process in memory.
///
/// The network processes events one at a time, on the calling thread: when a call such as `client.connect()` returns, the server has
/// responded and the client has handled the response. Tests run deterministically and don't have to wait. Tasks that wait for a result
/// continue when all events have been processed, so a synchronous closure, for example of a server, must not block until a task has
/// continued. Calls from other threads while events are being processed return immediately; the first
/// thread processes their events.
public final class InMemoryNetwork: Sendable {
    /// The condition of the network.
    public enum Condition: Sendable {
        /// Messages are delivered.
        case up
        /// New connections fail immediately with ``TransportError/Code/unreachable``, as on a device that is offline.
        case down
        /// Messages and connection attempts are lost without an error, as with a router that drops all packets.
        case silent
    }

    struct Address: Hashable, Sendable {
        var host: String
        var port: Int
    }

    private struct State: Sendable {
        var jobs: [@Sendable () -> Void] = []
        /// The thread that processes events. There is one as long as there are any, so that an idle network has none left.
        var runner: ThreadID?
        var condition = Condition.up
        var listeners: [Address: InMemoryListener] = [:]
        /// The open sockets and the exchanges in progress, numbered in the order in which they began.
        var connections: [ObjectIdentifier: (number: UInt64, connection: any InMemoryConnection)] = [:]
        var lastConnection: UInt64 = 0
        var lastPort = 49151
        /// The number of clients that have asked for a seed.
        var clients: UInt64 = 0
        var messageBacklogBytes = OutputGauge.clientLimit
    }

    private let state = Lock(State())
    package let time: any TimeSource

    package init(time: any TimeSource) {
        self.time = time
    }

    deinit {
        // Breaks the reference cycle between a server and its listener, which accepts no more connections.
        for listener in self.state.withLock({ $0.listeners }).values { listener.releaseHandler() }
    }

    /// The condition of the network, initially ``Condition/up``. Changing it doesn't end existing connections; use ``cut()`` for that.
    public var condition: Condition {
        get { self.state.withLock { $0.condition } }
        set { self.state.withLock { $0.condition = newValue } }
    }

    /// The number of bytes that wait while the receiver has paused reading, above which a connection is closed with
    /// ``TransportError/Code/tooLarge``. The default is 64 MiB.
    ///
    /// A single message may be larger. When more than 256 KiB wait, or more than this limit if it is less, the sender is notified with
    /// ``MessageEvents/writing(_:paused:)``. Changes apply to connections that are created later.
    public var messageBacklogBytes: Int {
        get { self.state.withLock { $0.messageBacklogBytes } }
        set { self.state.withLock { $0.messageBacklogBytes = max(0, newValue) } }
    }

    /// Ends every connection and every HTTP request in progress on both sides with ``TransportError/Code/reset``, without a close frame, in
    /// the order in which they began.
    ///
    /// When the call returns, clients and servers have handled it, also if another thread was processing events.
    public func cut() {
        let connections = self.state.withLock { $0.connections.values.sorted { $0.number < $1.number }.map(\.connection) }
        self.submit {
            for connection in connections {
                connection.fail(TransportError(.reset, "The connection was reset by InMemoryNetwork.cut()."))
            }
        }
        self.waitUntilIdle()
    }

    /// Creates a listener for a server. It accepts connections after it has been started.
    ///
    /// - Parameters:
    ///   - host: The host name under which clients connect.
    ///   - port: The port; 0 for a free one.
    /// - Returns: A listener that hasn't been started.
    public func listener(host: String = "memory", port: Int = 0) -> InMemoryListener {
        let address = self.state.withLock { state in
            if port == 0 { state.lastPort += 1 }
            return Address(host: host, port: port == 0 ? state.lastPort : port)
        }
        return InMemoryListener(self, address)
    }

    /// A transport that creates WebSocket connections over this network.
    public var webSocket: any WebSocketTransport { InMemoryWebSocketTransport(network: self) }

    /// A transport that sends HTTP requests over this network.
    public var http: any HTTPTransport { InMemoryHTTPTransport(network: self) }

    /// The milliseconds from the beginning of 1970 to the instant zero of the network's time, the same in each run.
    package static let epoch: Int64 = 1_700_000_000_000

    /// Returns the transports of clients that connect over this network.
    ///
    /// - Parameter seed: The seed of the random numbers of the network's first client. Each further client has another seed, so that their IDs
    ///   and delays differ. A test that creates its clients in the same order has the same ones each time.
    public func transports(seed: UInt64 = 1) -> Transports {
        Transports(
            webSocket: self.webSocket, http: self.http, time: self.time, epoch: Self.epoch,
            seed: {
                self.state.withLock { state in
                    defer { state.clients &+= 1 }
                    return seed &+ state.clients
                }
            })
    }

    // MARK: Sockets, exchanges and listeners

    static func unreachable(_ endpoint: Endpoint) -> TransportError {
        TransportError(.unreachable, "No route to \(endpoint.origin): the in-memory network is down.")
    }

    static func refused(_ endpoint: Endpoint) -> TransportError {
        TransportError(
            .refused, "Connection refused: no server is listening at \(endpoint.origin) on the in-memory network. Start the server first.")
    }

    /// Processes an event now, or after the events that another call is processing.
    func submit(_ job: @escaping @Sendable () -> Void) {
        let isRunner = self.state.withLock { state in
            state.jobs.append(job)
            guard state.runner == nil else { return false }
            state.runner = .current
            return true
        }
        // A task that a result resumes must not find the network busy: its next call would return before its effects are complete.
        if isRunner { DelayedWakeUps.delaying { self.run() } }
    }

    /// Processes events on the runner's thread until there are none.
    private func run() {
        for round in 1... {
            // Other threads may keep the network busy without end.
            if round.isMultiple(of: 64) { DelayedWakeUps.resumeNow() }
            let jobs = self.state.withLock { state -> [@Sendable () -> Void] in
                if state.jobs.isEmpty { state.runner = nil }
                defer { state.jobs = [] }
                return state.jobs
            }
            if jobs.isEmpty { return }
            for job in jobs { job() }
        }
    }

    /// Waits until another thread has processed all events, including the events that this thread has submitted. Returns immediately on the
    /// thread that processes them.
    ///
    /// A test that polls a state continues on its own thread as soon as the state has changed, while the thread that has changed it may not
    /// have returned from the network yet. What the test does next would then be handled later, for example after the clock has advanced. The
    /// wait ends after about ten seconds in any case: a server's closure could wait for the caller.
    package func waitUntilIdle() {
        for _ in 1...100_000 {
            guard let runner = self.state.withLock({ $0.runner }), runner != .current else { return }
            usleep(100)
        }
    }

    func add(_ listener: InMemoryListener, at address: Address) -> Bool {
        self.state.withLock { state in
            guard state.listeners[address] == nil else { return false }
            state.listeners[address] = listener
            return true
        }
    }

    func remove(_ listener: InMemoryListener, at address: Address) {
        self.state.withLock { if $0.listeners[address] === listener { $0.listeners[address] = nil } }
    }

    func listener(at endpoint: Endpoint) -> InMemoryListener? {
        self.state.withLock { $0.listeners[Address(host: endpoint.host, port: endpoint.port)] }
    }

    func add(_ connection: any InMemoryConnection) {
        self.state.withLock { state in
            state.lastConnection += 1
            state.connections[ObjectIdentifier(connection)] = (state.lastConnection, connection)
        }
    }

    func remove(_ connection: any InMemoryConnection) { self.state.withLock { $0.connections[ObjectIdentifier(connection)] = nil } }
}

/// A connection or an exchange that ``InMemoryNetwork/cut()`` ends.
protocol InMemoryConnection: AnyObject, Sendable {
    /// Ends the connection with an error.
    func fail(_ error: TransportError)
}

/// A listener that accepts the connections of a server on an ``InMemoryNetwork``.
public final class InMemoryListener: Listener {
    private struct State: Sendable {
        /// Retains the network until the listener is started. From then on, the network retains the listener.
        var networkBeforeStart: InMemoryNetwork?
        weak var network: InMemoryNetwork?
        var handler: (any ListenerHandler)?
    }

    private let address: InMemoryNetwork.Address
    private let state: Lock<State>
    private let accepted = Lock<[ObjectIdentifier: InMemorySocket]>([:])
    /// The exchanges in progress, in the order in which they began.
    private let exchanges = Lock<[InMemoryExchange]>([])
    /// The upgrades about which the handler has not decided.
    private let undecided = Lock<[ObjectIdentifier: InMemoryUpgrade]>([:])

    init(_ network: InMemoryNetwork, _ address: InMemoryNetwork.Address) {
        self.address = address
        self.state = Lock(State(networkBeforeStart: network, network: network))
    }

    var handler: (any ListenerHandler)? { self.state.withLock { $0.handler } }

    /// Starts accepting connections.
    ///
    /// The network retains the listener until ``stop()`` is called or the network is released.
    ///
    /// - Parameter handler: The object that receives requests and connections.
    /// - Returns: The address of the listener.
    /// - Throws: ``TransportError/Code/addressInUse`` if another listener on the network uses the address, and
    ///   ``TransportError/Code/closed`` if the network was released.
    public func start(_ handler: any ListenerHandler) async throws(TransportError) -> ListenerAddress {
        guard let network = self.state.withLock({ $0.network }) else {
            throw TransportError(.closed, "The listener's InMemoryNetwork was released. Keep a reference to it while it is in use.")
        }
        guard network.add(self, at: self.address) else {
            throw TransportError(
                .addressInUse, "\(self.address.host):\(self.address.port) is already in use on this network. Use another port, or 0.")
        }
        self.state.withLock { state in
            state.handler = handler
            state.networkBeforeStart = nil
        }
        return ListenerAddress(host: self.address.host, port: self.address.port)
    }

    /// Stops accepting connections, frees the address, rejects undecided upgrades with the status 503, closes every WebSocket with code
    /// 1001, and ends every response in progress.
    public func stop() async {
        self.state.withLock { $0.network }?.remove(self, at: self.address)
        for upgrade in self.undecided.withLock({ $0.values.map(\.self) }) { upgrade.reject("The server is shutting down.") }
        self.releaseHandler()
        let sockets = self.accepted.withLock { $0.values.sorted { $0.id < $1.id } }
        for socket in sockets { socket.close(.goingAway, reason: "The server is shutting down.") }
        for exchange in self.exchanges.withLock({ $0 }) { exchange.serverStopped() }
    }

    /// Releases the handler, outside the lock because its `deinit` may run here.
    func releaseHandler() { _ = self.state.withLock { $0.handler.take() } }

    /// - Returns: `false` if the listener has stopped.
    func add(_ socket: InMemorySocket) -> Bool {
        self.accepted.withLock { $0[ObjectIdentifier(socket)] = socket }
        // Afterwards: a listener that stops first releases the handler, and then closes the sockets.
        if self.handler != nil { return true }
        self.remove(socket)
        return false
    }
    func remove(_ socket: InMemorySocket) { self.accepted.withLock { $0[ObjectIdentifier(socket)] = nil } }
    func add(_ exchange: InMemoryExchange) { self.exchanges.withLock { $0.append(exchange) } }
    func remove(_ exchange: InMemoryExchange) { self.exchanges.withLock { $0.removeAll { $0 === exchange } } }
    func add(_ upgrade: InMemoryUpgrade) { self.undecided.withLock { $0[ObjectIdentifier(upgrade)] = upgrade } }
    func remove(_ upgrade: InMemoryUpgrade) { self.undecided.withLock { $0[ObjectIdentifier(upgrade)] = nil } }
}

extension InMemoryNetwork: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("condition", self.condition)] }
}

extension InMemoryListener: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("host", self.address.host), ("port", self.address.port)] }
}
