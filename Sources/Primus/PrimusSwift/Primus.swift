import Dispatch
public import Foundation
public import PrimusClient
import PrimusWire
import RealtimeCore
import RealtimeSystem
#if canImport(FoundationNetworking)
public import FoundationNetworking
#endif

/// The state of a client.
#if canImport(ObjectiveC)
@objc
#endif
public enum PrimusReadyState: Int, Sendable {
    /// The client isn't connected.
    #if canImport(ObjectiveC)
    @objc(kPrimusReadyStateClosed)
    #endif
    case closed = 0
    /// An attempt to connect is in progress.
    #if canImport(ObjectiveC)
    @objc(kPrimusReadyStateOpening)
    #endif
    case opening = 1
    /// The client is connected.
    #if canImport(ObjectiveC)
    @objc(kPrimusReadyStateOpen)
    #endif
    case open = 2
}

/// A client for servers of Primus, with the API of Primus-Objc and the events of the client for JavaScript.
///
/// ```swift
/// let primus = Primus(url: URL(string: "http://localhost:9090/primus")!)
/// primus.on("data") { (data: [String: Any], raw: Any) in print(data) }
/// primus.write(["my-data": 123])
/// ```
/// A client opens by itself, in a later turn of the main queue, unless ``PrimusConnectOptions/manual`` is set. From then until it is ended,
/// it keeps itself alive, as in Primus-Objc. One that isn't open is released with its last reference.
///
/// Methods can be called from any thread. Listeners are called on the main queue unless another one is chosen: those of one queue in the
/// order of the events, one at a time, never under a lock. For an event, they are called in the order in which they were added. While a queue
/// is blocked, its events wait: from a size of about 1 MiB on, the client stops reading until the queue has caught up, so that no event is
/// lost. A server whose pings aren't answered meanwhile disconnects the client, which then reconnects.
///
/// `@unchecked Sendable`: all state is protected by a lock. A subclass protects its own.
#if canImport(ObjectiveC)
@objcMembers
#endif
open class Primus: NSObject, @unchecked Sendable {
    /// The connection of the typed API, with what belongs to it.
    private struct Engine: Sendable {
        var connection: PrimusConnection
        /// The settings before those of the options.
        var base: PrimusConfiguration
        /// The revision of the options with which it was created.
        var revision: UInt64
        /// Why it can't be opened: a class that is none of a parser or a transformer.
        let problem: PrimusError?
        var observations: [PrimusQueue: PrimusObservation] = [:]
    }

    /// `@unchecked Sendable`: the objects are only given back to the application.
    private struct Plugins: @unchecked Sendable { var objects: [String: Any] = [:] }

    private struct State: Sendable {
        var request: URLRequest
        var engine: Engine?
        var listeners = PrimusListenerTable()
        var transforms: [PrimusTransform] = []
        var plugins = Plugins()
        /// The revision of the options from which the plugins were created.
        var pluginRevision: UInt64?
        /// The queues whose listeners know the transformer and the parser.
        var informed: Set<PrimusQueue> = []
        /// Whether the client opens by itself soon.
        var isOpeningSoon = false
        /// Whether the client was neither opened nor ended yet.
        var isFresh = true
        var isDestroyed = false
        /// The client itself, while it is open.
        var keeper: Primus?
        var endOfLifecycle: PrimusLifecycle.End?
        /// The revision of the lifecycle that the client observes.
        var lifecycleRevision: UInt64?
        var endOfTime: PrimusLifecycle.End?
        /// Ends the observation of the options.
        var endOfChanges: (@Sendable () -> Void)?
        /// The actions at places among the events, by the number of the place.
        var marks: [UInt64: Mark] = [:]
        var lastMark: UInt64 = 0
        /// How often the client was opened.
        var openings = 0
        /// Whether the app has opened the client, and not ended it since.
        var isWanted = false

        mutating func nextMark() -> UInt64 {
            self.lastMark += 1
            return self.lastMark
        }
    }

    private enum Mark: Sendable {
        /// An attempt waits for the listeners of `outgoing::url` on a queue.
        case url(PrimusURLOptions, on: PrimusQueue, CheckedContinuation<Void, Never>)
        /// Something happens when all queues have reached the place.
        case fence(Set<PrimusQueue>, onEach: @Sendable (PrimusQueue) -> Void, atEnd: @Sendable () -> Void)
    }

    /// The settings. Changes apply from the next attempt to connect on.
    public let options: PrimusConnectOptions
    private let state: Lock<State>
    private let mainQueueUse = MainQueueUse()

    // MARK: Creating

    /// Creates a client with the default settings.
    ///
    /// - Parameter url: The URL of the server, with its path. A user name and a password in it become the header field `Authorization`. If
    ///   the URL isn't valid, the client emits `error` and `end` when it is opened.
    #if canImport(ObjectiveC)
    @objc(initWithURL:)
    #endif
    public convenience init(url: URL) { self.init(urlRequest: URLRequest(url: url), options: PrimusConnectOptions()) }

    /// Creates a client.
    ///
    /// - Parameters:
    ///   - url: The URL of the server; see ``init(url:)``.
    ///   - options: The settings.
    #if canImport(ObjectiveC)
    @objc(initWithURL:options:)
    #endif
    public convenience init(url: URL, options: PrimusConnectOptions) { self.init(urlRequest: URLRequest(url: url), options: options) }

    /// Creates a client with the default settings.
    ///
    /// - Parameter urlRequest: The URL of the server, and header fields for all requests.
    #if canImport(ObjectiveC)
    @objc(initWithURLRequest:)
    #endif
    public convenience init(urlRequest: URLRequest) { self.init(urlRequest: urlRequest, options: PrimusConnectOptions()) }

    /// Creates a client.
    ///
    /// - Parameters:
    ///   - urlRequest: The URL of the server, and header fields for all requests.
    ///   - options: The settings.
    #if canImport(ObjectiveC)
    @objc(initWithURLRequest:options:)
    #endif
    public init(urlRequest: URLRequest, options: PrimusConnectOptions) {
        self.options = options
        self.state = Lock(State(request: urlRequest))
        super.init()
        let end = options.changes.observe { [weak self] in
            guard let self else { return false }
            self.followLifecycle()
            self.followManual()
            self.applySettings()
            return true
        }
        self.state.withLock { $0.endOfChanges = end }
        self.followLifecycle()
        self.followManual()
    }

    deinit {
        let ends = self.state.withLock { [$0.endOfLifecycle, $0.endOfTime, $0.endOfChanges] }
        for end in ends { end?() }
    }

    /// The URL of the server, and the header fields of all requests. A change applies to the next attempt to connect.
    public var request: URLRequest {
        get { self.state.withLock { $0.request } }
        set {
            self.state.withLock { $0.request = newValue }
            self.applySettings()
        }
    }

    /// The client of the typed API that this client uses, for code that moves to it step by step.
    ///
    /// Both have the same connection: ``open()`` and ``end()`` of one affect the other. The settings come from ``options``, and are changed
    /// there: those of `update(_:)` last until an option is set or the client is opened. If the parser, the transformer, the plugins or the
    /// transports of the options change, it is replaced when the client is opened again.
    ///
    /// Calls of a client that opens by itself wait until it does.
    public var client: PrimusConnection { self.engine().connection }

    // MARK: State

    /// The state. It changes before the listeners of `readyStateChange` are called.
    public var readyState: PrimusReadyState {
        guard let connection = self.connection else { return .closed }
        return switch connection.driver.read({ $0.traceState }) {
        case .opening: .opening
        case .open: .open
        case .end: .closed
        }
    }

    /// Whether the network is presumed to work.
    public var online: Bool { self.connection?.isOnline ?? true }

    /// Whether the client is connected, so that messages needn't wait.
    public var writable: Bool { self.connection?.isConnected ?? false }

    /// How the client reconnects.
    public var reconnectOptions: PrimusReconnectOptions { self.options.reconnect }

    /// The attempt to connect again that is scheduled or in progress; `nil` if there is none.
    public var attemptOptions: PrimusReconnectOptions? {
        guard let (retry, isScheduled) = self.connection?.driver.read({ ($0.retry, $0.traceState == .end) }), let retry else { return nil }
        return self.options.reconnect.describing(retry, isScheduled: isScheduled)
    }

    /// The name of the transformer of the connection, while there is one, and otherwise that of the options. Setting it changes the options.
    public var transformer: String? {
        get { self.connection?.dialect.map { "\($0.transformer)" } ?? self.options.transformer }
        set { self.options.transformer = newValue }
    }

    /// The name of the parser of the connection, while there is one, and otherwise that of the options. Setting it changes the options.
    public var parser: String? {
        get { self.connection?.dialect.map { "\($0.parser)" } ?? self.options.parser }
        set { self.options.parser = newValue }
    }

    /// The plugins that the client has created, by their names.
    public var plugins: [String: Any] { self.state.withLock { $0.plugins }.objects }

    /// Passes the ID of the server's side of the connection, its spark, to a closure.
    ///
    /// - Parameter fn: Called on the main actor with the ID; with `nil` if the client isn't connected, if its connection is lost, or if the server
    ///   hasn't answered after 30 seconds.
    public func id(_ fn: @escaping @MainActor @Sendable (String?) -> Void) {
        let connection = self.client
        // Not structured, because the caller doesn't wait. It ends within the time limit.
        Task { @MainActor in fn(try? await connection.id(within: .seconds(30))) }
    }

    // MARK: Connecting

    /// Connects. Needed if ``PrimusConnectOptions/manual`` is set, and after ``end()``. If the client is open, or was destroyed, the method
    /// has no effect.
    public func open() { self.open(onlyIfAwaited: false) }

    private func open(onlyIfAwaited: Bool) {
        let mayOpen = self.state.withLock { state in
            if state.isDestroyed || onlyIfAwaited && !state.isOpeningSoon { return false }
            (state.isOpeningSoon, state.isFresh, state.isWanted, state.keeper) = (false, false, true, self)
            state.openings += 1
            return true
        }
        guard mayOpen else { return }
        self.replaceEngine()
        let engine = self.engine()
        do throws(PrimusError) {
            if case .closed = engine.connection.state {
                if let problem = engine.problem { throw problem }
                var configuration = engine.base
                try self.setRequest(&configuration)
            }
            try engine.connection.update { self.configure(&$0, engine) }
        } catch {
            return self.fail(error)
        }
        engine.connection.open()
        // Another thread may have ended the client meanwhile, when there was nothing to end yet.
        if !self.state.withLock({ $0.isWanted }) { engine.connection.end() }
    }

    /// Opens a new client soon, or no longer, as the options say.
    private func followManual() {
        let isManual = self.options.manual
        let (opensSoon, connection) = self.state.withLock { state -> (Bool, PrimusConnection?) in
            guard state.isFresh, state.isOpeningSoon == isManual, !state.isDestroyed else { return (false, nil) }
            state.isOpeningSoon = !isManual
            return (!isManual, state.engine?.connection)
        }
        if let connection { Self.tell(connection, opensSoon: opensSoon) }
        if opensSoon { DispatchQueue.main.async { self.openIfAwaited() } }
    }

    /// Lets calls of the typed client wait for the client that opens by itself.
    private static func tell(_ connection: PrimusConnection, opensSoon: Bool) {
        connection.driver.step { session, _, effects in session.opensSoon(opensSoon, &effects) }
    }

    private func openIfAwaited() { self.open(onlyIfAwaited: true) }

    private func fail(_ error: PrimusError) {
        self.post("error", [.error(error)])
        self.post("end")
        // Calls may wait for it to open.
        self.connection?.end()
        self.release()
    }

    /// Disconnects. The client doesn't reconnect.
    public func end() {
        let (connection, wasAwaited) = self.state.withLock { state in
            defer { (state.isOpeningSoon, state.isFresh, state.isWanted) = (false, false, false) }
            return (state.engine?.connection, state.isOpeningSoon)
        }
        guard wasAwaited else {
            // The end of a client that isn't open has no events.
            guard let connection else { return }
            if case .closed = connection.state { return }
            return connection.end()
        }
        for event in ["outgoing::end", "close", "end"] { self.post(event) }
        connection?.end()
    }

    /// Writes a last message, and disconnects. If the client isn't connected and doesn't connect, the message isn't written.
    ///
    /// - Parameter data: The message, as in ``write(_:)``.
    public func end(_ data: Any) {
        if self.state.withLock({ $0.isOpeningSoon }) || self.readyState != .closed { self.write(data) }
        self.end()
    }

    /// Ends the client for good: after the events of the end, `destroy` is emitted, and all listeners are removed.
    ///
    /// - Returns: `false` if the client was destroyed before.
    @discardableResult
    public func destroy() -> Bool {
        let isFirst = self.state.withLock { state in
            defer { state.isDestroyed = true }
            return !state.isDestroyed
        }
        guard isFirst else { return false }
        self.end()
        self.afterEvents { queue in
            self.call("destroy", [], on: queue)
        } atEnd: {
            self.removeAllListeners()
            self.release()
        }
        return true
    }

    /// Lets the client be released with its last reference.
    private func release() {
        let keeper = self.state.withLock { $0.keeper.take() }
        withExtendedLifetime(keeper) {}
    }

    // MARK: Messages

    /// Writes a message. Without a connection, it waits in a queue.
    ///
    /// - Parameter data: A dictionary, an array, a string, a number, a Boolean value, `Data`, a `Date`, `NSNull`, a `PrimusValue`, or a
    ///   value of a type that is `Encodable`.
    /// - Returns: Whether the message was taken. If not, an event `error` says why.
    @discardableResult
    public func write(_ data: Any) -> Bool {
        if self.state.withLock({ $0.isDestroyed }) { return false }
        do throws(PrimusError) {
            let value = try FoundationValue.value(data)
            return try self.passOn { $0.enqueue(value) }
        } catch {
            self.post("error", [.error(error)])
            return false
        }
    }

    /// Sends an event of primus-emitter, which the options must have as a plugin. For an acknowledgement, use `emitter` of ``client``.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - data: Its arguments, each as in ``write(_:)``.
    /// - Returns: Whether the event was taken. If not, an event `error` says why.
    @discardableResult
    public func send(_ event: String, _ data: Any...) -> Bool { self.send(event, arguments: data) }

    func send(_ event: String, arguments: [Any]) -> Bool {
        if self.state.withLock({ $0.isDestroyed }) { return false }
        do throws(PrimusError) {
            var values: [PrimusValue] = []
            for argument in arguments { values.append(try FoundationValue.value(argument)) }
            return try self.passOn { connection throws(PrimusError) in try connection.enqueueEvent(event, values) }
        } catch {
            self.post("error", [.error(error)])
            return false
        }
    }

    /// Gives a message to the engine.
    private func passOn(_ write: (PrimusConnection) throws(PrimusError) -> Bool) throws(PrimusError) -> Bool {
        let connection = self.client
        let isTaken = try write(connection)
        // Another thread may have replaced the engine meanwhile.
        if let current = self.connection, current !== connection { connection.moveMessages(to: current) }
        return isTaken
    }

    /// Adds a transform of messages, which may change or discard them.
    ///
    /// ```swift
    /// primus.transform("incoming") { data in
    ///     data["foo"] = "bar"
    ///     return true
    /// }
    /// ```
    /// - Parameters:
    ///   - type: `"incoming"` for messages of the server, `"outgoing"` for those that the client writes.
    ///   - fn: Called with each message, one after another, in a task of the client. Returns whether the message is passed on. It may wait:
    ///     messages keep their order. If it throws, the message is discarded and an event `error` emitted. Called again for a message that it
    ///     hasn't finished when the client is opened with other plugins, or other options that it keeps while it is open.
    public func transform(_ type: String, _ fn: @escaping @Sendable (inout PrimusTransformData) async throws -> Bool) {
        let direction: PrimusTransform.Direction
        switch type {
        case "incoming": direction = .incoming
        case "outgoing": direction = .outgoing
        default:
            let message = "There is no transform \"\(type)\". The type is \"incoming\" or \"outgoing\"."
            return self.post("error", [.error(PrimusError(.invalidConfiguration, message))])
        }
        let transform = PrimusTransform(direction) { value in
            var data = PrimusTransformData(value: value)
            let isPassedOn = try await fn(&data)
            value = data.value
            return isPassedOn
        }
        let connection = self.state.withLock { state in
            state.transforms.append(transform)
            return state.engine?.connection
        }
        connection?.addTransform(transform)
    }

    // MARK: Engine

    private var connection: PrimusConnection? { self.state.withLock { $0.engine?.connection } }

    private func engine() -> Engine {
        if let engine = self.state.withLock({ $0.engine }) { return engine }
        // Code of the application isn't called under the lock.
        let new = self.makeEngine()
        let (engine, opensSoon) = self.state.withLock { state in
            if let engine = state.engine { return (engine, false) }
            state.engine = new
            return (new, state.isOpeningSoon)
        }
        if opensSoon { Self.tell(engine.connection, opensSoon: true) }
        self.observeMissingQueues(of: engine)
        return engine
    }

    /// Replaces the engine if it is closed and what it keeps for life has changed.
    private func replaceEngine() {
        let revision = self.options.current.revision
        guard let engine = self.state.withLock({ $0.engine }), engine.revision != revision else { return }
        guard case .closed = engine.connection.state else { return }
        let new = self.makeEngine()
        engine.connection.moveMessages(to: new.connection)
        // The listeners get the last events of the old one, which their queues have already.
        for queue in engine.observations.keys where queue != .main || self.mainQueueUse.hasBegun {
            queue.queue.async { withExtendedLifetime(engine) {} }
        }
        // The places among the events of the old one aren't reached any more. Their closures are released after the lock.
        let old = self.state.withLock { state in
            defer {
                state.engine = new
                state.marks = state.marks.filter { if case .fence = $0.value { false } else { true } }
            }
            return state.marks
        }
        withExtendedLifetime(old) {}
        self.observeMissingQueues(of: new)
        // Those that another thread has written in between.
        engine.connection.moveMessages(to: new.connection)
        engine.connection.end()
    }

    /// Observes the queues of listeners that another thread has added while an engine was created.
    private func observeMissingQueues(of engine: Engine) {
        let queues = self.state.withLock { state in
            state.engine?.connection === engine.connection
                ? state.listeners.queues.subtracting(state.engine?.observations.keys.map { $0 } ?? []) : []
        }
        for queue in queues { self.observe(engine.connection, on: queue) }
    }

    private func makeEngine() -> Engine {
        let values = self.options.current
        var problem: PrimusError?
        let plugins = self.makePlugins(values)
        var configuration = PrimusConfiguration(
            Endpoint(scheme: "http", host: "", port: 80), transports: values.transports ?? .standard)
        configuration.log = values.log
        configuration.plugins = plugins
        do throws(PrimusError) {
            configuration.customParser = try Self.parser(values.parserClass)
            configuration.customTransformer = try Self.transformer(values.transformerClass)
        } catch {
            problem = error
        }
        // An invalid request is an error when the client is opened.
        try? self.setRequest(&configuration)
        let (transforms, queues) = self.state.withLock { state in
            state.informed = []
            return (state.transforms, state.listeners.queues)
        }
        configuration.transforms = transforms
        let link = ConnectionLink()
        configuration.requestURL = { [weak self] endpoint in await self?.url(for: endpoint, of: link.connection) ?? endpoint }
        let base = configuration
        self.options.apply(to: &configuration)
        let connection = PrimusConnection(configuration)
        link.connection = connection
        var engine = Engine(connection: connection, base: base, revision: values.revision, problem: problem)
        for queue in queues.union([.main]) { engine.observations[queue] = self.observation(of: connection, on: queue) }
        return engine
    }

    private func observation(of connection: PrimusConnection, on queue: PrimusQueue) -> PrimusObservation {
        let executor = PrimusCallbackExecutor { run in queue.queue.async(execute: run) }
        let isUsed: @Sendable () -> Bool = if queue == .main { { [mainQueueUse] in mainQueueUse.hasBegun } } else { { true } }
        return connection.observeEvents(on: executor) { event in
            switch event {
            // What the client itself needs.
            case .trace(.end), .mark, .update(.dialect): true
            default: isUsed()
            }
        } _: { [weak self, weak connection] event in
            guard let self, let connection else { return }
            self.deliver(event, of: connection, on: queue)
        }
    }

    private static func parser(_ type: AnyClass?) throws(PrimusError) -> (any PrimusParser)? {
        guard let type else { return nil }
        if let parser = type as? any ParserProtocol.Type { return ParserAdapter(parser) }
        let message =
            "The parserClass \(type) isn't a ParserProtocol. Set a class that is, or the property parser for one that Primus contains."
        throw PrimusError(.invalidConfiguration, message)
    }

    private static func transformer(_ type: AnyClass?) throws(PrimusError) -> (any PrimusCustomTransformer)? {
        guard let type, type != SocketRocketClient.self else { return nil }
        if let transformer = type as? any TransformerProtocol.Type { return transformer.init() }
        let message =
            "The transformerClass \(type) isn't a TransformerProtocol. Set SocketRocketClient or a class that is, or the property transformer for "
            + "one that Primus contains."
        throw PrimusError(.invalidConfiguration, message)
    }

    private static let standardPlugins: [PrimusStandardPlugin] = [.emitter, .emit, .multiplex, .substream, .responder]

    /// Creates the plugins, and returns those of the engine.
    private func makePlugins(_ values: PrimusConnectOptions.Values) -> [any PrimusPlugin] {
        let mayCreate = self.state.withLock { state in
            defer { state.pluginRevision = values.revision }
            return state.pluginRevision != values.revision
        }
        var plugins: [any PrimusPlugin] = []
        for (name, value) in values.plugins.sorted(by: { $0.key < $1.key }) {
            if let plugin = value as? any PrimusPlugin {
                plugins.append(plugin)
                self.state.withLock { $0.plugins.objects[name] = plugin }
                continue
            }
            let text = value as? String
            if let plugin = text.flatMap({ text in Self.standardPlugins.first { $0.name == text } }) {
                plugins.append(plugin)
                self.state.withLock { $0.plugins.objects[name] = plugin }
                continue
            }
            let type: AnyClass? =
                text.flatMap { $0 == "PrimusEmitter" ? PrimusEmitterPlugin.self : NSClassFromString($0) } ?? value as? AnyClass
            if type == PrimusEmitterPlugin.self {
                plugins.append(Self.standardPlugins[0])
                self.state.withLock { $0.plugins.objects[name] = Self.standardPlugins[0] }
            } else if let type = type as? any PluginProtocol.Type {
                guard mayCreate, self.plugins[name] == nil else { continue }
                let plugin = Plugins(objects: [name: type.init(primus: self)])
                self.state.withLock { $0.plugins.objects.merge(plugin.objects) { $1 } }
            } else {
                let message =
                    "The plugin \"\(name)\" isn't a class that is a PluginProtocol, the name of one, the name of a plugin that PrimusClient contains, "
                    + "or a PrimusPlugin. The client has no such plugin."
                self.post("error", [.error(PrimusError(.invalidConfiguration, message))])
            }
        }
        return plugins
    }

    private func setRequest(_ configuration: inout PrimusConfiguration) throws(PrimusError) {
        let request = self.request
        do throws(TransportError) {
            let (url, authorization) = try PrimusUserInfo.split(request.url?.absoluteString ?? "")
            configuration.endpoint = try Endpoint(url)
            configuration.headers = [:]
            for (name, value) in (request.allHTTPHeaderFields ?? [:]).sorted(by: { $0.key < $1.key }) {
                configuration.headers[name] = value
            }
            if let authorization, configuration.headers["Authorization"] == nil { configuration.headers["Authorization"] = authorization }
        } catch {
            throw PrimusError(.invalidConfiguration, error.message, cause: error)
        }
    }

    /// Sets what can change at any time.
    private func configure(_ configuration: inout PrimusConfiguration, _ engine: Engine) {
        configuration = engine.base
        // An invalid URL was reported when it was set.
        try? self.setRequest(&configuration)
        self.options.apply(to: &configuration)
    }

    private func applySettings() {
        guard let engine = self.state.withLock({ $0.engine }) else { return }
        do throws(PrimusError) {
            var configuration = engine.base
            try self.setRequest(&configuration)
            try engine.connection.update { self.configure(&$0, engine) }
        } catch {
            self.post("error", [.error(error)])
        }
    }

    // MARK: Background

    /// Observes the lifecycle of the options, unless it does.
    private func followLifecycle() {
        let values = self.options.current
        let isNew = self.state.withLock { state in
            defer { state.lifecycleRevision = values.lifecycleRevision }
            return state.lifecycleRevision != values.lifecycleRevision
        }
        guard isNew else { return }
        let end = values.lifecycle.observe { [weak self] event in self?.lifecycleChanged(event) }
        let ended = self.state.withLock { state in
            // Another thread may have changed it again.
            guard state.lifecycleRevision == values.lifecycleRevision else { return Optional(end) }
            defer { state.endOfLifecycle = end }
            return state.endOfLifecycle
        }
        ended?()
    }

    private func lifecycleChanged(_ event: PrimusLifecycle.Event) {
        switch event {
        case .enteredBackground:
            guard self.options.stayConnectedInBackground, self.readyState != .closed else { return }
            let end = self.options.lifecycle.requestTime()
            let old = self.state.withLock { state in
                defer { state.endOfTime = end }
                return state.endOfTime
            }
            old?()
        case .becameActive:
            let (end, connection) = self.state.withLock { ($0.endOfTime.take(), $0.engine?.connection) }
            end?()
            connection?.checkConnection()
        }
    }

    // MARK: Listeners

    /// Adds a listener.
    @discardableResult
    func add(
        _ event: String, isOnce: Bool, on queue: PrimusQueue, _ call: @escaping @Sendable ([PrimusArgument]) -> ListenerArguments.Mismatch?
    ) -> PrimusListener {
        let listener = PrimusListener(event, isOnce: isOnce, on: queue, call: call)
        if queue == .main { self.mainQueueUse.begin() }
        let unobserved = self.state.withLock { state -> PrimusConnection? in
            state.listeners.add(listener)
            guard let engine = state.engine, engine.observations[queue] == nil else { return nil }
            return engine.connection
        }
        if let unobserved { self.observe(unobserved, on: queue) }
        return listener
    }

    /// Observes a queue that has listeners, unless it is observed already.
    private func observe(_ connection: PrimusConnection, on queue: PrimusQueue) {
        let observation = self.observation(of: connection, on: queue)
        let extra = self.state.withLock { state -> PrimusObservation? in
            guard state.engine?.connection === connection, state.engine?.observations[queue] == nil else { return observation }
            state.engine?.observations[queue] = observation
            return nil
        }
        withExtendedLifetime(extra) {}
    }

    /// Removes a listener. It isn't called after this method has returned on its queue.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - listener: The object that `on(_:_:)` returned.
    public func removeListener(_ event: String, _ listener: PrimusListener) {
        guard listener.event == event else { return }
        self.state.withLock { $0.listeners.remove(listener) }
    }

    /// Removes a listener; see ``removeListener(_:_:)``.
    public func off(_ event: String, _ listener: PrimusListener) { self.removeListener(event, listener) }

    /// Removes all listeners of an event.
    ///
    /// - Parameter event: The name of the event.
    public func off(_ event: String) { self.removeAllListeners(event) }

    /// Removes all listeners of an event.
    ///
    /// - Parameter event: The name of the event.
    public func removeAllListeners(_ event: String) { self.changeListeners { $0.remove(event: event) } }

    /// Removes all listeners.
    public func removeAllListeners() { self.changeListeners { $0.removeAll() } }

    private func changeListeners(_ change: (inout PrimusListenerTable) -> Void) {
        // What the listeners refer to is released after the lock.
        let old = self.state.withLock { state in
            defer { change(&state.listeners) }
            return state.listeners
        }
        withExtendedLifetime(old) {}
    }

    /// The listeners of an event, in the order in which they were added.
    ///
    /// - Parameter event: The name of the event.
    public func listeners(_ event: String) -> [PrimusListener] { self.state.withLock { $0.listeners.all(of: event) } }

    /// Calls the listeners of an event, in later turns of their queues.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - arguments: Its arguments.
    /// - Returns: Whether there are listeners.
    @discardableResult
    public func emit(_ event: String, _ arguments: any Sendable...) -> Bool {
        let hasListeners = !self.listeners(event).isEmpty
        self.post(event, arguments.map { .object($0) })
        return hasListeners
    }

    /// Calls the listeners of an event, behind those of the events that wait on their queues.
    func post(_ event: String, _ arguments: [PrimusArgument] = []) {
        for queue in self.state.withLock({ $0.listeners.queues(of: event) }) {
            queue.queue.async { self.call(event, arguments, on: queue) }
        }
    }

    /// Calls the listeners of an event on a queue, on this queue.
    private func call(_ event: String, _ arguments: [PrimusArgument], on queue: PrimusQueue) {
        for listener in self.state.withLock({ $0.listeners.of(event, on: queue) }) {
            guard self.state.withLock({ $0.listeners.take(listener) }), let problem = listener.call(arguments) else { continue }
            if problem.isOtherKind {
                self.warn(listener, problem)
                continue
            }
            let error = PrimusError(.decodingFailed, "A listener of \"\(event)\" wasn't called: it \(problem.message).")
            // A listener of errors that takes something else would never end.
            if event != "error" { self.call("error", [.error(error)], on: queue) }
        }
    }

    private func warn(_ listener: PrimusListener, _ problem: ListenerArguments.Mismatch) {
        let isFirst = listener.hasWarned.withLock { hasWarned in
            defer { hasWarned = true }
            return !hasWarned
        }
        guard isFirst else { return }
        let event = Excerpt.of(listener.event, limit: 100)
        self.options.log.log(
            .warning, "primus",
            "A listener of \"\(event)\" \(problem.message). It isn't called for that. Take Any, or add a listener for it.")
    }

    // MARK: Events

    private func deliver(_ event: PrimusEvent, of connection: PrimusConnection, on queue: PrimusQueue) {
        // The last events of a connection may come when another one has taken its place.
        var isCurrent: Bool { self.connection === connection }
        switch event {
        case .message(let message):
            guard !self.state.withLock({ $0.listeners.of("data", on: queue).isEmpty }) else { return }
            do throws(PrimusError) {
                self.call("data", [.value(try message.value), .packet(message.raw)], on: queue)
            } catch {
                self.call("error", [.error(error)], on: queue)
            }
        case .update(.dialect(let dialect)):
            guard isCurrent, self.state.withLock({ $0.informed.insert(queue).inserted }) else { return }
            self.call("initialised", [.object("\(dialect.transformer)"), .object("\(dialect.parser)")], on: queue)
        case .trace(let trace):
            for (name, arguments) in PrimusEventTable.events(of: trace, self.options.reconnect) { self.call(name, arguments, on: queue) }
            if case .end = trace, queue == .main, isCurrent { self.releaseAfterEvents() }
        case .plugin(let event): self.deliver(event, of: connection, on: queue)
        case .mark(let number): self.reached(mark: number, on: queue)
        case .update, .untransformed, .outgoing, .frame: break
        }
    }

    private func deliver(_ event: PrimusPluginEvent, of connection: PrimusConnection, on queue: PrimusQueue) {
        // The client itself has events with these names, which its other listeners couldn't tell apart.
        guard let event = connection.emitterEvent(event), !PrimusEventTable.ownNames.contains(event.name) else { return }
        do throws(PrimusError) {
            var arguments = try event.values.map { PrimusArgument.value($0) }
            if event.expectsAcknowledgement { arguments.append(.object(PrimusAcknowledgement(event))) }
            self.call(event.name, arguments, on: queue)
        } catch {
            self.call("error", [.error(error)], on: queue)
        }
    }

    /// Releases the client when the listeners on all queues have received the events until now, unless one of them opens it again.
    private func releaseAfterEvents() {
        guard let connection = self.connection, case .closed = connection.state else { return }
        // It connects again when the network is back.
        if connection.driver.read({ $0.awaitsNetwork }) { return }
        let openings = self.state.withLock { $0.openings }
        self.afterEvents { _ in
        } atEnd: {
            if self.state.withLock({ $0.openings == openings }) { self.release() }
        }
    }

    /// Calls a closure on each queue with listeners, and then another one on the last of them, behind the events until now.
    private func afterEvents(onEach: @escaping @Sendable (PrimusQueue) -> Void, atEnd: @escaping @Sendable () -> Void) {
        let (engine, queues) = self.state.withLock { state in
            (state.engine, state.engine.map { Set($0.observations.keys) } ?? state.listeners.queues.union([.main]))
        }
        let number = self.state.withLock { state in
            let number = state.nextMark()
            state.marks[number] = .fence(queues, onEach: onEach, atEnd: atEnd)
            return number
        }
        if let engine { return engine.connection.driver.step { session, _, effects in session.mark(number, &effects) } }
        for queue in queues { queue.queue.async { self.reached(mark: number, on: queue) } }
    }

    /// Lets the listeners of `outgoing::url` change the URL of an attempt.
    private func url(for endpoint: Endpoint, of connection: PrimusConnection?) async -> Endpoint {
        let queues = self.state.withLock { $0.listeners.queues(of: "outgoing::url") }
        guard !queues.isEmpty, let connection else { return endpoint }
        let options = PrimusURLOptions(endpoint)
        for queue in queues {
            let number = self.state.withLock { $0.nextMark() }
            await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let isCancelled = self.state.withLock { state in
                        if !Task.isCancelled { state.marks[number] = .url(options, on: queue, continuation) }
                        return Task.isCancelled
                    }
                    if isCancelled { return continuation.resume() }
                    // Behind the events at the beginning of the attempt.
                    connection.driver.step { session, _, effects in session.mark(number, &effects) }
                }
            } onCancel: {
                // The attempt is over.
                guard case .url(_, _, let continuation)? = self.state.withLock({ $0.marks.removeValue(forKey: number) }) else { return }
                continuation.resume()
            }
        }
        return options.endpoint(endpoint)
    }

    private func reached(mark number: UInt64, on queue: PrimusQueue) {
        switch self.state.withLock({ $0.marks[number] }) {
        case .url(let options, on: queue, let continuation)?:
            guard self.state.withLock({ $0.marks.removeValue(forKey: number) }) != nil else { return }
            self.call("outgoing::url", [.object(options)], on: queue)
            continuation.resume()
        case .fence(_, let onEach, let atEnd)?:
            onEach(queue)
            let isLast = self.state.withLock { state in
                guard case .fence(var queues, let onEach, let atEnd)? = state.marks[number] else { return false }
                queues.remove(queue)
                state.marks[number] = queues.isEmpty ? nil : .fence(queues, onEach: onEach, atEnd: atEnd)
                return queues.isEmpty
            }
            if isLast { atEnd() }
        case .url?, nil: break
        }
    }
}

/// Whether a client has ever had a listener on the main queue. Before, the events of the connection needn't wait for the main queue, which a
/// program without an interface may block for good.
///
/// It has a lock of its own, because it is asked under a lock of the connection.
private final class MainQueueUse: Sendable {
    private let state = Lock(false)

    var hasBegun: Bool { self.state.withLock { $0 } }

    func begin() { self.state.withLock { $0 = true } }
}

/// The connection of a closure that the connection keeps.
private final class ConnectionLink: Sendable {
    private struct Reference: Sendable { weak var connection: PrimusConnection? }

    private let reference = Lock(Reference())

    var connection: PrimusConnection? {
        get { self.reference.withLock { $0.connection } }
        set { self.reference.withLock { $0.connection = newValue } }
    }
}

/// The events of the client for JavaScript, with their arguments.
enum PrimusEventTable {
    /// The names of events that only this client emits, and that Primus doesn't reserve.
    static let ownNames: Set<String> = ["reconnecting", "initialised"]

    static func events(of trace: PrimusTrace, _ options: PrimusReconnectOptions) -> [(String, [PrimusArgument])] {
        switch trace {
        case .outgoingOpen: [("outgoing::open", [])]
        case .outgoingReconnect: [("outgoing::reconnect", [])]
        case .outgoingEnd: [("outgoing::end", [])]
        case .incomingOpen: [("incoming::open", [])]
        case .incomingEnd: [("incoming::end", [])]
        // The listeners were called before the attempt, so that they could change the URL.
        case .outgoingURL: []
        case .incomingError(let error): [("incoming::error", [.error(error)])]
        case .incomingPing(let text): [("incoming::ping", [.object(text)])]
        case .outgoingPong(let text): [("outgoing::pong", [.object(text)])]
        case .incomingPong(let text): [("incoming::pong", [.object(text)])]
        case .outgoingPing(let text): [("outgoing::ping", [.object(text)])]
        case .incomingID(let text): [("incoming::id", [.object(text)])]
        case .outgoingData(let packet): [("outgoing::data", [.packet(packet)])]
        case .incomingData(let packet): [("incoming::data", [.packet(packet)])]
        case .readyStateChange(let state): [("readyStateChange", [.object(state.rawValue)])]
        case .open: [("open", [])]
        case .close: [("close", [])]
        case .end: [("end", [])]
        case .error(let error): [("error", [.error(error)])]
        case .reconnectScheduled(let retry):
            // Primus-Objc has another name for the event.
            ["reconnecting", "reconnect scheduled"].map { ($0, [.object(options.describing(retry, isScheduled: true))]) }
        case .reconnect(let retry): [("reconnect", [.object(options.describing(retry, isScheduled: false))])]
        case .reconnected(let retry): [("reconnected", [.object(options.describing(retry, isScheduled: false))])]
        case .reconnectTimeout(let error, let retry):
            [("reconnect timeout", [.error(error), .object(options.describing(retry, isScheduled: false))])]
        case .reconnectFailed(let error, let retry):
            [("reconnect failed", [.error(error), .object(options.describing(retry, isScheduled: false))])]
        case .timeout(let error): [("timeout", [.error(error)])]
        case .online: [("online", [])]
        case .offline: [("offline", [])]
        }
    }
}
