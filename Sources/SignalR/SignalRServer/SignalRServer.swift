public import RealtimeCore
import RealtimeSystem
import RealtimeTransports
import SignalRWire

/// A SignalR server that runs inside a program, for tests, development and demos.
///
/// ```swift
/// let server = SignalRServer(network: network)
/// let chat = server.hub("/chat")
/// chat.on("Send") { (caller, user: String, text: String) in
///     try await caller.clients.all.send("Receive", user, text)
/// }
/// let address = try await server.start(on: network.listener())
/// ```
/// Clients connect with WebSockets, with or without a negotiation, and after a negotiation with Server-Sent Events or long polling.
/// With ``SignalRServerConfiguration/allowsStatefulReconnects``, connections outlive their WebSockets.
///
/// Keep a reference to the server for as long as it is needed. Releasing it closes its connections and stops its listener; to wait until
/// all connections have ended, call ``stop()``.
public final class SignalRServer: Sendable {
    /// Tests pass requests to it.
    let handler: SignalRServerHandler
    private let server: EmbeddedServer<SignalRServerMachine>
    private let configuration: SignalRServerConfiguration
    private let registry: HubRegistry
    var driver: SessionDriver<SignalRServerMachine> { self.server.connections.driver }

    /// - Parameter trace: Receives what connections over Server-Sent Events and long polling do. A `TracingListener` reports what WebSockets
    ///   do.
    package convenience init(
        configuration: SignalRServerConfiguration, hooks: SignalRServerHooks, time: any TimeSource, log: LogSink = .standard,
        seed: UInt64? = nil, trace: ConnectionTrace? = nil
    ) {
        self.init(configuration, hooks, time, log, seed: seed, trace: trace, startTask: HubCall.unstructured)
    }

    init(
        _ configuration: SignalRServerConfiguration, _ hooks: SignalRServerHooks, _ time: any TimeSource, _ log: LogSink, seed: UInt64?,
        trace: ConnectionTrace? = nil, startTask: @escaping HubCall.TaskStarter
    ) {
        let registry = HubRegistry()
        let dependencies = SessionDriver<SignalRServerMachine>.Dependencies(
            time: time, log: log, subsystem: "signalr-server"
        ) { work, id, driver in
            registry.perform(work, driver, startTask)
            // The work itself is done. What it has started reports to the machine by itself.
            driver.workFinished(id, ())
            return nil
        }
        let connections = ServedConnections(SignalRServerMachine(configuration, seed: seed), in: dependencies, seed: seed)
        self.configuration = configuration
        self.registry = registry
        self.handler = SignalRServerHandler(hooks: hooks, configuration: configuration, connections: connections, time: time, trace: trace)
        self.server = EmbeddedServer(connections, handler: self.handler)
    }

    deinit {
        self.server.shutDown()
        // The closures may refer to their hubs.
        for hub in self.handler.removeHubs() { hub.handlers.removeAll() }
    }

    /// Creates a server for clients on the same in-memory network. The server uses the network's clock.
    ///
    /// - Parameters:
    ///   - network: The network of the clients.
    ///   - configuration: The timing and the limits.
    ///   - hooks: Closures that decide what the server accepts.
    ///   - log: The destination of log messages.
    public convenience init(
        network: InMemoryNetwork, configuration: SignalRServerConfiguration = SignalRServerConfiguration(),
        hooks: SignalRServerHooks = SignalRServerHooks(), log: LogSink = .standard
    ) {
        self.init(configuration: configuration, hooks: hooks, time: network.time, log: log, seed: 1)
    }

    /// Creates a server for clients on sockets. Start it on a `SocketListener`.
    ///
    /// - Parameters:
    ///   - configuration: The timing and the limits.
    ///   - hooks: Closures that decide what the server accepts.
    ///   - log: The destination of log messages.
    public convenience init(
        configuration: SignalRServerConfiguration = SignalRServerConfiguration(), hooks: SignalRServerHooks = SignalRServerHooks(),
        log: LogSink = .standard
    ) {
        self.init(configuration: configuration, hooks: hooks, time: Transports.standard.time, log: log)
    }

    /// Returns the hub at a path. Each call with the same path returns the same hub. The letter case of paths,
    /// and a slash at the end, are ignored.
    ///
    /// - Parameter path: The path, starting with a slash and percent-encoded, such as `/chat`. Clients connect to it, and negotiate at the
    ///   path `negotiate` below it.
    @discardableResult
    public func hub(_ path: String) -> Hub {
        self.handler.hub(path) {
            var id = HubID(rawValue: 0)
            self.driver.step { machine, _, _ in id = machine.addHub(path) }
            let handlers = HubHandlers(path: path, configuration: self.configuration)
            self.registry.add(handlers, id)
            return Hub(handlers, id: id, driver: self.driver)
        }
    }

    /// Starts accepting clients.
    ///
    /// A server has one listener at a time. After ``stop()`` it can be started again.
    ///
    /// - Parameter listener: A listener that hasn't been started, such as a `SocketListener` or an `InMemoryListener`.
    /// - Returns: The address at which clients reach the server.
    /// - Throws: The `TransportError` of the listener, for example with the code `addressInUse`, one with the code `unsupported` if the
    ///   server is already started, or one with the code `closed` if ``stop()`` was called meanwhile.
    @discardableResult
    public func start(on listener: any Listener) async throws(TransportError) -> ListenerAddress {
        let address = try await self.server.start(on: listener)
        self.handler.started(at: address)
        return address
    }

    /// Stops the server: tells every client that it may reconnect, closes the connections and stops the listener.
    ///
    /// Returns when all connections have ended. If the server is being started or stopped, the method waits until it has stopped; if it isn't
    /// started, the method returns immediately.
    public func stop() async {
        await self.server.stop()
        self.driver.step { machine, now, effects in machine.endConnectionsOverHTTP(now: now, &effects) }
    }

    /// The handler of the server's clients, for a listener that several handlers share.
    ///
    /// ```swift
    /// let router = ListenerRouter([.path("/chat", server.listenerHandler), .path("/app", other)])
    /// let address = try await listener.start(router)
    /// ```
    /// Don't call ``start(on:)`` for this. ``stop()`` then only closes the connections; stop the listener first. After the server has been
    /// released, the handler rejects everything.
    public var listenerHandler: any ListenerHandler { self.handler }

    /// The faults that the server injects. Changes take effect immediately.
    public var faults: SignalRServerFaults {
        get { self.handler.faults }
        set { self.handler.faults = newValue }
    }

    /// The events of the server from now on.
    ///
    /// Each access returns a new sequence. It buffers up to 10,000 events with up to 8 MiB of text, and then drops the oldest. The sequence
    /// finishes when the server is released.
    public var events: EventSequence<SignalRServerEvent> { self.server.events(SignalRServerEvent.byteLimit) }

    // MARK: One connection

    /// Closes a connection with a close message. Does nothing if no connection has the ID.
    ///
    /// - Parameters:
    ///   - connectionID: The ID of the connection.
    ///   - error: A message for the client, or `nil`.
    ///   - allowReconnect: Whether the client may reconnect automatically.
    public func close(_ connectionID: String, error: String? = nil, allowReconnect: Bool = false) {
        self.driver.step { machine, now, effects in
            guard let id = machine.establishedConnection(named: connectionID) else { return }
            machine.close(id, error: error, allowReconnect: allowReconnect, now: now, &effects)
        }
    }

    /// Drops a connection without a close message and without a close frame. Does nothing if no connection has the ID.
    ///
    /// With stateful reconnect, the client can resume the connection. Over Server-Sent Events, the stream ends. Over long polling, the poll
    /// that waits and further requests have the status 404.
    public func drop(_ connectionID: String) { self.server.connections.drop(connectionID) }

    /// Makes a connection silent, or ends its silence. Does nothing if no connection has the ID.
    ///
    /// The server sends nothing on a silent connection and ignores what it receives, and keeps the connection open.
    public func silence(_ connectionID: String, _ isSilent: Bool = true) { self.server.connections.silence(connectionID, isSilent) }

    /// Answers the poll that waits on a connection over long polling, without messages. Does nothing if no poll waits, or if no connection
    /// has the ID.
    ///
    /// - Parameters:
    ///   - connectionID: The ID of the connection.
    ///   - status: The status of the answer. With 200, the client polls again, as after ``SignalRServerConfiguration/pollTimeout``; 204 tells
    ///     it that the connection has ended.
    public func endPoll(_ connectionID: String, status: Int = 200) {
        let connection = self.driver.connection { $0.connection(named: connectionID) }?.undecorated
        (connection as? ServedHTTPMessages<HubHTTPRules>)?.answerPoll(HTTPResponse(status: status))
    }

    /// Sends a text message to a client unchanged, whether or not it is valid, and regardless of ``faults``. Does nothing if no connection
    /// has the ID.
    public func send(_ text: String, to connectionID: String) {
        self.server.connections.sendUnaffected(.text(text), to: connectionID)
    }

    /// Sends a binary message to a client unchanged, whether or not it is valid, and regardless of ``faults``. Does nothing if no
    /// connection has the ID.
    public func send(_ bytes: [UInt8], to connectionID: String) {
        self.server.connections.sendUnaffected(.binary(bytes), to: connectionID)
    }
}

/// The closures of all hubs of a server, for the driver's work.
final class HubRegistry: Sendable {
    private let handlers = Lock<[HubID: HubHandlers]>([:])

    func add(_ handlers: HubHandlers, _ id: HubID) { self.handlers.withLock { $0[id] = handlers } }

    /// Performs work of the machine, without a lock.
    func perform(
        _ work: SignalRServerMachine.Work, _ driver: SessionDriver<SignalRServerMachine>, _ startTask: HubCall.TaskStarter
    ) {
        switch work {
        case .start(let call):
            guard let handlers = self.handlers.withLock({ $0[call.connection.hub] }) else { return }
            call.start(startTask) {
                let completion = await handlers.run(call, driver)
                driver.step { machine, now, effects in machine.ended(call, completion, now: now, &effects) }
            }
        case .cancel(let calls): for call in calls { call.cancel() }
        }
    }
}
