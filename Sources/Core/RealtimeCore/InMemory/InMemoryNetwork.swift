import RealtimeSystem

/// A network without sockets: clients and servers of one process, joined in memory.
///
/// Everything that happens on it happens one thing after the other, on the thread of whoever set it off: when a call
/// such as `client.connect()` returns, the server has answered and the client has heard it. Nothing has to be waited
/// for, and a test runs the same way each time. While one thread is at it, what other threads set off is left to it.
public final class InMemoryNetwork: Sendable {
    /// What the network does to what is sent.
    public enum Condition: Sendable {
        /// It carries.
        case up
        /// New connections fail at once, as without a network.
        case down
        /// Everything is swallowed and nobody is told, as behind a dead router.
        case silent
    }

    struct Address: Hashable, Sendable {
        var host: String
        var port: Int
    }

    private struct State: Sendable {
        var jobs: [@Sendable () -> Void] = []
        var isRunning = false
        var condition = Condition.up
        var listeners: [Address: InMemoryListener] = [:]
        var sockets: [ObjectIdentifier: InMemorySocket] = [:]
        var lastPort = 49151
        var lastConnection: UInt64 = 0
    }

    private let state = Lock(State())
    package let time: any TimeSource

    package init(time: any TimeSource) {
        self.time = time
    }

    deinit {
        // A server keeps its listener, and the listener its server: without the network nobody comes any more.
        for listener in self.state.withLock({ $0.listeners }).values { listener.letGo() }
    }

    /// What the network does from now on. Connections that exist stay, unless ``cut()`` ends them.
    public var condition: Condition {
        get { self.state.withLock { $0.condition } }
        set { self.state.withLock { $0.condition = newValue } }
    }

    /// Ends every connection without a goodbye, on both sides.
    public func cut() {
        let sockets = self.state.withLock { $0.sockets.values.sorted { $0.id < $1.id } }
        self.submit {
            for socket in sockets { socket.end(.transport(TransportError(.reset, "The in-memory network was cut."))) }
        }
    }

    /// A server's end at this address. Port 0 takes a free one.
    public func listener(host: String = "memory", port: Int = 0) -> InMemoryListener {
        let address = self.state.withLock { state in
            if port == 0 { state.lastPort += 1 }
            return Address(host: host, port: port == 0 ? state.lastPort : port)
        }
        return InMemoryListener(self, address)
    }

    /// Makes clients' connections over this network.
    public var webSocket: any WebSocketTransport { InMemoryWebSocketTransport(network: self) }

    /// Sends clients' requests over this network.
    public var http: any HTTPTransport { InMemoryHTTPTransport(network: self) }

    // MARK: For its ends

    func submit(_ job: @escaping @Sendable () -> Void) {
        self.state.withLock { $0.jobs.append(job) }
        self.run()
    }

    /// Does what there is to do, unless somebody is at it.
    func run() {
        while true {
            let jobs = self.state.withLock { state -> [@Sendable () -> Void] in
                guard !state.isRunning, !state.jobs.isEmpty else { return [] }
                state.isRunning = true
                defer { state.jobs = [] }
                return state.jobs
            }
            if jobs.isEmpty { return }
            for job in jobs { job() }
            self.state.withLock { $0.isRunning = false }
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

    func nextConnectionID() -> ConnectionID {
        self.state.withLock { state in
            state.lastConnection += 1
            return ConnectionID(rawValue: state.lastConnection)
        }
    }

    func add(_ socket: InMemorySocket) { self.state.withLock { $0.sockets[ObjectIdentifier(socket)] = socket } }
    func remove(_ socket: InMemorySocket) { self.state.withLock { $0.sockets[ObjectIdentifier(socket)] = nil } }
}

/// A server's end on an ``InMemoryNetwork``.
public final class InMemoryListener: Listener {
    private struct State: Sendable {
        /// Held until it has the listener, which would else keep both of them, and the server, for ever.
        var unstarted: InMemoryNetwork?
        weak var network: InMemoryNetwork?
        var handler: (any ListenerHandler)?
    }

    private let address: InMemoryNetwork.Address
    private let state: Lock<State>
    private let accepted = Lock<[ObjectIdentifier: InMemorySocket]>([:])

    init(_ network: InMemoryNetwork, _ address: InMemoryNetwork.Address) {
        self.address = address
        self.state = Lock(State(unstarted: network, network: network))
    }

    var handler: (any ListenerHandler)? { self.state.withLock { $0.handler } }

    /// Begins to accept at its address. It throws ``TransportError/Code/addressInUse`` when another listener of the network has it.
    ///
    /// The network keeps it from here on, until ``stop()`` or until nobody holds the network and nobody is connected.
    public func start(_ handler: any ListenerHandler) async throws(TransportError) -> ListenerAddress {
        guard let network = self.state.withLock({ $0.network }) else {
            throw TransportError(.closed, "The in-memory network of this listener is gone: keep it as long as it is used.")
        }
        guard network.add(self, at: self.address) else {
            throw TransportError(
                .addressInUse, "\(self.address.host):\(self.address.port) is taken on this network; use another port, or 0.")
        }
        self.state.withLock { state in
            state.handler = handler
            state.unstarted = nil
        }
        return ListenerAddress(host: self.address.host, port: self.address.port)
    }

    /// Gives the address free and closes every WebSocket with 1001.
    public func stop() async {
        self.state.withLock { $0.network }?.remove(self, at: self.address)
        let sockets = self.accepted.withLock { $0.values.sorted { $0.id < $1.id } }
        for socket in sockets { socket.close(.goingAway, reason: "The server stops.") }
        self.letGo()
    }

    /// Its handler's last reference may go here, outside the lock.
    func letGo() { _ = self.state.withLock { $0.handler.take() } }

    func add(_ socket: InMemorySocket) { self.accepted.withLock { $0[ObjectIdentifier(socket)] = socket } }
    func remove(_ socket: InMemorySocket) { self.accepted.withLock { $0[ObjectIdentifier(socket)] = nil } }
}
