import PrimusWire
public import RealtimeCore
import RealtimeTransports

/// A Primus server that runs inside a program, for tests, development and demos.
///
/// ```swift
/// let server = PrimusServer(network: network)
/// let echo = server.onMessage { message in _ = try? message.spark.write(message.value) }
/// let address = try await server.start(on: network.listener())
/// ```
/// Clients connect over WebSockets or requests, with the transformer and the parser of the configuration. Callbacks receive what clients send
/// in the order of its arrival, where their executor runs them. What a client sends before it disconnects is delivered like everything else;
/// its spark isn't open then. With executors of the same actor or serial queue, what happens to a client arrives in its order across all
/// registrations: its connection, its messages and events, the end of its channels, and its disconnection.
///
/// Keep a reference to the server for as long as it is needed. Releasing it closes its connections and stops its listener; to wait until
/// all connections have ended, call ``stop()``.
public final class PrimusServer: Sendable {
    /// The configuration of the server.
    public let configuration: PrimusServerConfiguration
    private let handler: PrimusServerHandler
    private let server: EmbeddedServer<PrimusServerMachine>
    private let sparkServer: PrimusSparkServer
    private var driver: SessionDriver<PrimusServerMachine> { self.server.connections.driver }

    /// - Parameters:
    ///   - epoch: The milliseconds since 1970 at the instant zero of the clock.
    ///   - trace: Receives what sessions over HTTP do. A `TracingListener` reports what WebSockets do.
    package init(
        _ configuration: PrimusServerConfiguration, time: any TimeSource, epoch: Int64, log: LogSink = .standard, seed: UInt64? = nil,
        trace: ConnectionTrace? = nil
    ) {
        if let problem = configuration.problem { log.log(.error, "primus-server", problem) }
        let dependencies = SessionDriver<PrimusServerMachine>.Dependencies(
            time: time, log: log, subsystem: "primus-server"
        ) { _, _, _ in nil }
        let connections = ServedConnections(PrimusServerMachine(configuration, epoch: epoch, seed: seed), in: dependencies, seed: seed)
        self.configuration = configuration
        self.handler = PrimusServerHandler(configuration, connections, time: time, seed: seed, trace: trace)
        self.server = EmbeddedServer(connections, handler: self.handler) { [handler] in handler.endClosingSessions() }
        self.sparkServer = PrimusSparkServer(connections.driver, configuration)
    }

    deinit {
        self.server.shutDown()
        // The handler rejects their requests now.
        self.handler.endClosingSessions()
    }

    /// Creates a server for clients on the same in-memory network. The server uses the network's clock.
    ///
    /// - Parameters:
    ///   - network: The network of the clients.
    ///   - configuration: The transformer, the parser, the timing and the limits.
    ///   - log: The destination of log messages.
    public convenience init(
        network: InMemoryNetwork, configuration: PrimusServerConfiguration = PrimusServerConfiguration(), log: LogSink = .standard
    ) {
        self.init(configuration, time: network.time, epoch: InMemoryNetwork.epoch, log: log, seed: 1)
    }

    /// Creates a server for clients on sockets. Start it on a `SocketListener`.
    ///
    /// - Parameters:
    ///   - configuration: The transformer, the parser, the timing and the limits.
    ///   - log: The destination of log messages.
    public convenience init(configuration: PrimusServerConfiguration = PrimusServerConfiguration(), log: LogSink = .standard) {
        self.init(configuration, log: log, trace: nil)
    }

    /// Creates a server for clients on sockets that reports what its sessions over HTTP do.
    package convenience init(_ configuration: PrimusServerConfiguration, log: LogSink, trace: ConnectionTrace?) {
        let transports = Transports.standard
        self.init(configuration, time: transports.time, epoch: transports.epoch, log: log, trace: trace)
    }

    /// Starts accepting clients.
    ///
    /// A server has one listener at a time. After ``stop()`` it can be started again.
    ///
    /// - Parameter listener: A listener that hasn't been started, such as a `SocketListener` or an `InMemoryListener`.
    /// - Returns: The address at which clients reach the server.
    /// - Throws: The `TransportError` of the listener, for example with the code `addressInUse`, one with the code `unsupported` if the
    ///   server is already started or its configuration names a parser or a transformer that it doesn't have, or one with the code `closed` if
    ///   ``stop()`` was called meanwhile.
    @discardableResult
    public func start(on listener: any Listener) async throws(TransportError) -> ListenerAddress {
        if let problem = self.configuration.problem { throw TransportError(.unsupported, problem) }
        let address = try await self.server.start(on: listener)
        self.handler.started(at: address)
        return address
    }

    /// Stops the server: closes the connections and stops the listener. Clients reconnect; to prevent that, call ``endAll()`` first.
    ///
    /// Returns when all connections have ended. A session over HTTP whose client has no request that waits for messages ends without them, as soon
    /// as the listener has stopped. If the server is being started or stopped, the method waits until it has stopped; if it isn't started, the
    /// method returns immediately.
    public func stop() async { await self.server.stop() }

    /// Whether the client that has connected last notices the end of its connections: it has a WebSocket, or its request waits for messages.
    /// For tests.
    package var isLastSparkRead: Bool { self.sparks.last.flatMap { self.handler.session(ofSpark: $0.id) }?.hasReader ?? true }

    /// The handler of the server's clients, for a listener that several handlers share.
    ///
    /// Clients connect below the path of the configuration. Don't call ``start(on:)`` for this. ``stop()`` then only closes the connections; stop
    /// the listener first. After the server has been released, the handler rejects everything.
    public var listenerHandler: any ListenerHandler { self.server.handler }

    // MARK: Sparks

    /// The connected clients, in the order in which they connected.
    public var sparks: [PrimusSpark] {
        let infos = self.driver.read { machine in
            machine.acceptedConnections.compactMap { id in
                machine.connections[id].flatMap { $0.state == .open ? $0.spark : nil }
            }
        }
        return infos.map { PrimusSpark($0, of: self.sparkServer) }
    }

    /// The client with an ID, or `nil` if none is connected under it.
    public func spark(_ id: String) -> PrimusSpark? { self.sparkServer.spark(id) }

    /// Calls a closure with each connected client, in the order in which they connected, on the calling thread.
    ///
    /// - Parameter body: The closure.
    /// - Throws: The error of the closure, after which it isn't called any more.
    public func forEach(_ body: (PrimusSpark) throws -> Void) rethrows {
        for spark in self.sparks { try body(spark) }
    }

    /// Writes a message to all clients. It is encoded once, on the calling thread.
    ///
    /// - Parameter value: The message.
    /// - Throws: `PrimusParserError` if the parser can't carry the value, `EncodingError`, or the error of the value's own `encode(to:)`.
    public func write(_ value: some Encodable) throws {
        guard let packet = try self.sparkServer.packet(value) else { return }
        self.driver.step { machine, _, effects in machine.write(packet, &effects) }
    }

    /// Sends an event of primus-emitter to all clients. It is encoded once, on the calling thread.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - arguments: The arguments.
    /// - Throws: ``PrimusServerError`` if the plugin is switched off or the name is reserved, or the errors of ``write(_:)-(Encodable)``.
    public func send<each Argument: Encodable>(_ event: String, _ arguments: repeat each Argument) throws {
        self.send(event, try self.sparkServer.arguments(event, repeat each arguments))
    }

    func send(_ event: String, _ arguments: PrimusArguments) {
        self.driver.step { machine, _, effects in machine.write(.emitter(.event(name: event, arguments, id: nil)), &effects) }
    }

    /// Sends an event of primus-emit to all clients. It is encoded once, on the calling thread.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - arguments: The arguments.
    /// - Throws: ``PrimusServerError`` if the plugin is switched off or the name is reserved, or the errors of ``write(_:)-(Encodable)``.
    public func emit<each Argument: Encodable>(_ event: String, _ arguments: repeat each Argument) throws {
        try self.sparkServer.validateEmit(event)
        self.emit(event, try PrimusArguments(event, repeat each arguments, in: self.sparkServer.coding))
    }

    func emit(_ event: String, _ arguments: PrimusArguments) {
        self.driver.step { machine, _, effects in machine.write(.emit(EmitPacket(name: event, arguments)), &effects) }
    }

    /// Sends an event whose arguments' number isn't known to the compiler to all clients, with primus-emitter or, if the server has that alone,
    /// with primus-emit.
    package func send(_ event: String, values: [PrimusValue]) throws {
        let packet = try self.sparkServer.packet(event, values: values)
        self.driver.step { machine, _, effects in machine.write(packet, &effects) }
    }

    /// Ends the connections of all clients, which don't reconnect.
    public func endAll() { self.driver.step { machine, _, effects in machine.endAll(&effects) } }

    // MARK: Callbacks

    /// Calls a closure with each client that connects.
    ///
    /// - Parameters:
    ///   - executor: Where the closure runs.
    ///   - handler: The closure, which is called in the order of the events and one at a time.
    /// - Returns: The registration. Releasing it ends the callbacks.
    public func onConnection(
        on executor: CallbackExecutor = .tasks, _ handler: @escaping @Sendable (PrimusSpark) -> Void
    ) -> CallbackObservation {
        self.observe("onConnection", .connections, executor, handler) { [sparkServer] event in
            guard case .connected(let info) = event else { return nil }
            return PrimusSpark(info, of: sparkServer)
        }
    }

    /// Calls a closure with the ID of each client that disconnects, and the reason.
    ///
    /// Callbacks with other executors, or with one that runs closures in no order, such as the default, may receive the client's last messages
    /// later.
    ///
    /// - Parameters:
    ///   - executor: Where the closure runs.
    ///   - handler: The closure, which is called in the order of the events and one at a time.
    /// - Returns: The registration. Releasing it ends the callbacks.
    public func onDisconnection(
        on executor: CallbackExecutor = .tasks, _ handler: @escaping @Sendable (_ id: String, CloseReason) -> Void
    ) -> CallbackObservation {
        self.observe("onDisconnection", .disconnections, executor, { (end: (String, CloseReason)) in handler(end.0, end.1) }) { event in
            guard case .disconnected(let spark, let reason) = event else { return nil }
            return (spark.id, reason)
        }
    }

    /// Calls a closure with each message of a client that belongs to no plugin, also with those of a client that has disconnected meanwhile.
    ///
    /// - Parameters:
    ///   - executor: Where the closure runs.
    ///   - handler: The closure, which is called in the order of the messages and one at a time.
    /// - Returns: The registration. Releasing it ends the callbacks.
    public func onMessage(
        on executor: CallbackExecutor = .tasks, _ handler: @escaping @Sendable (PrimusServerMessage) -> Void
    ) -> CallbackObservation {
        let (server, transform) = (self.sparkServer, self.configuration.transformIncoming)
        return self.observe(
            "onMessage", .messages, executor,
            { (message: (PrimusSparkInfo, TransportMessage)) in
                let spark = PrimusSpark(message.0, of: server)
                guard let transform, let value = try? server.coding.value(of: message.1) else {
                    return handler(PrimusServerMessage(spark, message.1))
                }
                if let value = transform(value) { handler(PrimusServerMessage(spark, message.1, transformed: value)) }
            }
        ) { event in
            guard case .message(let spark, let packet) = event else { return nil }
            return (spark, packet)
        }
    }

    // MARK: Tests

    /// The faults that the server injects. Changes take effect immediately.
    public var faults: PrimusServerFaults {
        get { self.handler.faults }
        set { self.handler.faults = newValue }
    }

    /// The events of the server from now on.
    ///
    /// Each access returns a new sequence. It buffers up to 10,000 events with up to 8 MiB of text, and then drops the oldest. The sequence
    /// finishes when the server is released.
    public var events: EventSequence<PrimusServerEvent> {
        self.driver.makeSequence(.dropOldest(10_000), byteLimit: PrimusServerEvent.byteLimit, lifetime: .client) { events, output in
            for case .event(let event) in events { output.append(event) }
        } register: { machine, id, effects in
            effects.routes.add(id, to: &machine.eventRoute)
        }
    }

    /// Drops a connection without a close frame, and requests over HTTP without an answer. Does nothing if no client has the ID.
    public func drop(_ id: String) { self.handler.drop(id) }

    /// Forgets the session over HTTP of a client, as a server that was started again, or another server to which a balancer without sticky
    /// sessions leads: a request that waits is answered without messages, and later ones as those of an unknown session.
    ///
    /// Does nothing if no client has the ID, or if it uses a WebSocket.
    public func forgetSession(_ id: String) { self.handler.forgetSession(id) }

    /// Makes a connection silent, or ends its silence. Does nothing if no client has the ID.
    ///
    /// The server sends nothing on a silent connection and ignores what it receives, and keeps the connection open.
    public func silence(_ id: String, _ isSilent: Bool = true) { self.server.connections.silence(id, isSilent) }

    /// Sends a message to a client unchanged, without the framing of the transformer, whether or not it is valid, and regardless of ``faults``.
    /// Does nothing if no client has the ID.
    public func sendRaw(_ message: TransportMessage, to id: String) { self.server.connections.sendUnaffected(message, to: id) }

    // MARK: Registrations

    var sparkContext: PrimusSparkServer { self.sparkServer }

    /// Registers a callback for what `select` returns.
    func observe<Element: Sendable>(
        _ name: String, _ topic: SparkRoutes.Topic, _ executor: CallbackExecutor, _ handler: @escaping @Sendable (Element) -> Void,
        _ select: @escaping @Sendable (PrimusSparkEvent) -> Element?
    ) -> CallbackObservation {
        self.driver.observe(
            .pauseReading(1_000), lifetime: .client, named: "The callback of \(name)", on: executor,
            convert: { events, output in
                for case .spark(let event) in events {
                    if let element = select(event) { output.append(element) }
                }
            }, calls: CallbackCalls(handler)
        ) { machine, id, effects in
            machine.sparkRoutes.add(id, for: topic, in: &effects.routes)
        }
    }
}
