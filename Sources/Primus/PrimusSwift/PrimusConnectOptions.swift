public import Foundation
public import PrimusClient
import RealtimeSystem

/// The settings of a client.
///
/// ```swift
/// let options = PrimusConnectOptions()
/// options.manual = true
/// options.strategy = [.timeout]
/// ```
/// All times are in seconds. A change applies from the next attempt to connect on, also if the options belong to a client that exists. The
/// parser, the transformer, the plugins and the transports of a client are those when it is opened; changes apply when it is opened again.
///
/// `@unchecked Sendable`: all state is protected by a lock.
#if canImport(ObjectiveC)
@objcMembers
#endif
public final class PrimusConnectOptions: NSObject, NSCopying, @unchecked Sendable {
    struct Values: Sendable {
        var strategy: [PrimusReconnectionStrategy] = []
        var timeout = 10.0
        static let (standardPing, standardPong) = (25.0, 10.0)
        var ping = standardPing
        var pong = standardPong
        var autodetect = true
        var manual = false
        var websockets = true
        var stayConnectedInBackground = PrimusLifecycle.hasCallMode
        var plugins: [String: any Sendable] = [:]
        var transformerClass: AnyClass?
        var parserClass: AnyClass?
        var transformer: String?
        var parser: String?
        var transports: Transports?
        var lifecycle = PrimusLifecycle.standard
        var log = LogSink.standard
        var credentials: PrimusConfiguration.CredentialsProvider?
        var configure: (@Sendable (inout PrimusConfiguration) -> Void)?
        var reconnect: PrimusReconnectOptions
        /// The number of changes of what a client keeps.
        var revision: UInt64 = 0
        /// The number of changes of the lifecycle.
        var lifecycleRevision: UInt64 = 0
    }

    private let values: Lock<Values>
    let changes = PrimusChanges()

    /// Creates the default settings.
    public convenience override init() { self.init(Values(reconnect: PrimusReconnectOptions())) }

    /// Creates settings with strategies.
    ///
    /// - Parameter strategy: The events after which the client reconnects.
    public convenience init(strategy: [PrimusReconnectionStrategy]) {
        self.init()
        self.strategy = strategy
    }

    /// Creates settings with a transformer.
    ///
    /// - Parameters:
    ///   - transformerClass: The transformer; see ``transformerClass``.
    ///   - strategy: The events after which the client reconnects.
    public convenience init(transformerClass: AnyClass?, strategy: [PrimusReconnectionStrategy] = []) {
        self.init()
        (self.transformerClass, self.strategy) = (transformerClass, strategy)
    }

    private init(_ values: Values) {
        self.values = Lock(values)
        super.init()
        self.observeReconnectOptions()
    }

    var current: Values { self.values.withLock { $0 } }

    private func observeReconnectOptions() {
        let reconnect = self.reconnect
        reconnect.changes.observe { [weak self, weak reconnect] in
            guard let self, self.reconnect === reconnect else { return false }
            self.changes.notify()
            return true
        }
    }

    private func change(ofKept isKept: Bool = false, _ change: (inout Values) -> Void) {
        // What is replaced is released after the lock.
        let old = self.values.withLock { values in
            let old = values
            change(&values)
            if isKept { values.revision += 1 }
            return old
        }
        withExtendedLifetime(old) {}
        self.changes.notify()
    }

    /// How the client reconnects.
    public var reconnect: PrimusReconnectOptions {
        get { self.current.reconnect }
        set {
            self.change { $0.reconnect = newValue }
            self.observeReconnectOptions()
        }
    }

    /// The events after which the client reconnects. If there are none, which is the default, those of
    /// ``PrimusReconnectOptions/strategies``.
    public var strategy: [PrimusReconnectionStrategy] {
        get { self.current.strategy }
        set { self.change { $0.strategy = newValue } }
    }

    /// The time limit of the first attempt to connect. The default is 10; 0 is for none.
    public var timeout: TimeInterval {
        get { self.current.timeout }
        set { self.change { $0.timeout = newValue } }
    }

    /// The interval of the client's pings with servers before Primus 7. The default is 25, also for a value that isn't above 0: pings can't be
    /// switched off. Later servers send pings themselves.
    public var ping: TimeInterval {
        get { self.current.ping }
        set { self.change { $0.ping = newValue } }
    }

    /// The time limit for the answer to a ping. The default is 10, also for a value that isn't above 0.
    public var pong: TimeInterval {
        get { self.current.pong }
        set { self.change { $0.pong = newValue } }
    }

    /// Whether the client asks the server for its transformer and parser. The default is `true`.
    public var autodetect: Bool {
        get { self.current.autodetect }
        set { self.change { $0.autodetect = newValue } }
    }

    /// Whether the client waits for a call of ``Primus/open()``. The default is `false`: it opens by itself, in a later turn of the main queue.
    ///
    /// A change applies to clients that haven't been opened or ended yet.
    public var manual: Bool {
        get { self.current.manual }
        set { self.change { $0.manual = newValue } }
    }

    /// Whether the client may use WebSockets. The default is `true`. With `false`, it uses polling only, which servers with the transformers
    /// engine.io and sockjs have.
    ///
    /// With another transformer, a client without WebSockets can't connect: it is ended, and the event `error` says why. This is the option
    /// `websockets` of the client for JavaScript, and applies to sockjs as well here.
    public var websockets: Bool {
        get { self.current.websockets }
        set { self.change { $0.websockets = newValue } }
    }

    /// Whether the client asks the system for time when the app enters the background. The default is whether the app has the background
    /// mode `voip`, as in Primus-Objc.
    ///
    /// Apple platforms don't keep connections of apps in the background anymore, whatever their mode: the time ends after seconds or
    /// minutes. Whatever this property is, the client checks its connection when the app is active again, and connects immediately if it
    /// was lost.
    public var stayConnectedInBackground: Bool {
        get { self.current.stayConnectedInBackground }
        set { self.change { $0.stayConnectedInBackground = newValue } }
    }

    /// The plugins by their names: each is a class that is a ``PluginProtocol`` or ``PrimusEmitterPlugin``, the name of such a class, the
    /// name of a plugin that `PrimusClient` contains, such as `"multiplex"`, or a `PrimusPlugin`.
    public var plugins: [String: any Sendable] {
        get { self.current.plugins }
        set { self.change(ofKept: true) { $0.plugins = newValue } }
    }

    /// The transformer: `nil`, the default, for the one that the server names, ``SocketRocketClient``, or a class that is a
    /// ``TransformerProtocol``.
    public var transformerClass: AnyClass? {
        get { self.current.transformerClass }
        set { self.change(ofKept: true) { $0.transformerClass = newValue } }
    }

    /// The parser: `nil`, the default, for the one that the server names, or a class that is a ``ParserProtocol``.
    public var parserClass: AnyClass? {
        get { self.current.parserClass }
        set { self.change(ofKept: true) { $0.parserClass = newValue } }
    }

    /// The name of the transformer, such as `"engine.io"`; `nil`, the default, for the one that the server names.
    public var transformer: String? {
        get { self.current.transformer }
        set { self.change { $0.transformer = newValue } }
    }

    /// The name of the parser, such as `"msgpack"`; `nil`, the default, for the one that the server names.
    public var parser: String? {
        get { self.current.parser }
        set { self.change { $0.parser = newValue } }
    }

    /// The transports; `nil`, the default, for the standard ones.
    public var transports: Transports? {
        get { self.current.transports }
        set { self.change(ofKept: true) { $0.transports = newValue } }
    }

    /// The source of the app's changes between background and foreground. A change applies immediately.
    public var lifecycle: PrimusLifecycle {
        get { self.current.lifecycle }
        set {
            self.change {
                $0.lifecycle = newValue
                $0.lifecycleRevision += 1
            }
        }
    }

    /// The destination of log messages. By default, warnings and errors go to the unified log on Apple platforms and to standard error
    /// elsewhere.
    public var log: LogSink {
        get { self.current.log }
        set { self.change(ofKept: true) { $0.log = newValue } }
    }

    /// The source of credentials, which is asked before each attempt to connect, and once more after a refusal with the status 401 or 403; `nil`,
    /// the default, for none.
    public var credentials: PrimusConfiguration.CredentialsProvider? {
        get { self.current.credentials }
        set { self.change { $0.credentials = newValue } }
    }

    /// Changes the settings for which this class has no property, such as `queue`, `silenceLimit`, `messageLimit` and `startsWithPolling`;
    /// `nil`, the default, for no changes.
    ///
    /// ```swift
    /// options.configure = { configuration in configuration.queue = .dropOldest(50) }
    /// ```
    /// It is called after the properties were applied, on the thread that opens the client or changes a property, without a lock, and more than
    /// once. An invalid value is reported by the event `error`. A `requestURL` that is set here replaces the listeners of `outgoing::url`, which
    /// aren't called then. The log, the transports, the plugins, the transforms, and the parser and the transformer of your own can't be changed
    /// here: the client ignores such changes.
    public var configure: (@Sendable (inout PrimusConfiguration) -> Void)? {
        get { self.current.configure }
        set { self.change { $0.configure = newValue } }
    }

    /// The settings without those that may contain secrets.
    public override var description: String {
        let values = self.current
        let fields = [
            "strategy: \(values.strategy)", "timeout: \(values.timeout)", "ping: \(values.ping)", "pong: \(values.pong)",
            "autodetect: \(values.autodetect)", "manual: \(values.manual)", "websockets: \(values.websockets)",
            "transformer: \(values.transformer ?? "nil")", "parser: \(values.parser ?? "nil")",
            "plugins: [\(values.plugins.keys.sorted().joined(separator: ", "))]", "reconnect: \(values.reconnect)",
        ]
        return "PrimusConnectOptions(\(fields.joined(separator: ", ")))"
    }

    /// Returns independent settings with the same values.
    public func copy(with zone: NSZone? = nil) -> Any {
        var values = self.current
        values.reconnect = PrimusReconnectOptions(values.reconnect.current)
        return PrimusConnectOptions(values)
    }

    // MARK: As settings of the engine

    /// Applies the settings that can change at any time.
    func apply(to configuration: inout PrimusConfiguration) {
        let values = self.current
        configuration.detection = values.autodetect ? .automatic : .off
        configuration.connectTimeout = Self.limit(values.timeout, else: Self.noLimit)
        // A client always notices that its connection is dead.
        configuration.pingInterval = Self.limit(values.ping, else: .seconds(Values.standardPing))
        configuration.pongTimeout = Self.limit(values.pong, else: .seconds(Values.standardPong))
        configuration.credentials = values.credentials
        configuration.allowedTransports = values.websockets ? .all : .polling
        let isWebSockets = values.transformerClass == SocketRocketClient.self
        configuration.transformer = isWebSockets ? .websockets : values.transformer.map { PrimusTransformerKind(name: $0) }
        // A WebSocket of whatever transformer the server has.
        configuration.transformerIsDefault = isWebSockets
        if isWebSockets { configuration.allowedTransports = .webSockets }
        configuration.parser = values.parser.map { PrimusParserKind(name: $0) }
        let reconnect = values.reconnect.current
        let strategies = values.strategy.isEmpty ? reconnect.strategies : values.strategy
        configuration.strategies = strategies.reduce(into: []) { $0.formUnion($1.strategies) }
        configuration.reconnectTimeout = Self.limit(reconnect.timeout, else: .seconds(30))
        let minimum = Self.delay(reconnect.minDelay)
        configuration.retry = .backoff(
            PrimusBackoff(
                minimum: minimum, maximum: max(minimum, Self.delay(reconnect.maxDelay)),
                factor: reconnect.factor.isFinite ? max(1, reconnect.factor) : 1, retries: max(0, reconnect.retries)))
        if let configure = values.configure { configuration.changeSettings(configure) }
    }

    /// Longer than any connection.
    private static let noLimit = Duration.seconds(100 * 365 * 86_400)

    private static func limit(_ seconds: TimeInterval, else none: Duration) -> Duration {
        seconds > 0 ? min(.seconds(seconds.isFinite ? min(seconds, 1e9) : 1e9), Self.noLimit) : none
    }

    private static func delay(_ seconds: TimeInterval) -> Duration { .seconds(seconds.isNaN ? 0 : max(0, min(seconds, 1e9))) }
}
