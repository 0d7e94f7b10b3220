public import RealtimeCore
internal import RealtimeTransports
internal import PusherWire
internal import RealtimeSystem

/// The settings of a client.
///
/// Change the settings that differ from the defaults, and create the client with the result:
///
/// ```swift
/// var configuration = PusherConfiguration(key: "app-key", cluster: "eu")
/// configuration.authorizer = try .endpoint("https://example.org/pusher/auth")
/// let client = PusherClient(configuration)
/// ```
/// Values are validated when the client connects. A program with many clients saves memory by creating them with copies of one
/// configuration. To change the settings of a client that exists, use ``PusherClient/update(_:)``.
public struct PusherConfiguration: Sendable {
    /// What a client keeps for life. Configurations with the same object have the same values.
    private final class Environment: Sendable {
        static let standard = Environment(log: .standard, transports: .standard)
        let log: LogSink
        let transports: Transports

        init(log: LogSink, transports: Transports) {
            self.log = log
            self.transports = transports
        }
    }

    private struct Values: Sendable {
        var key: String
        var host: String
        var port: Int?
        var path: String
        var useTLS: Bool
        var authorizer: PusherAuthorizer?
        var userAuthenticator: PusherUserAuthenticator?
        var activityTimeout: Duration = .seconds(120)
        var fallbackActivityTimeout: Duration?
        var pongTimeout: Duration = .seconds(30)
        var connectTimeout: Duration = .seconds(15)
        var unavailableTimeout: Duration = .seconds(10)
        var subscriptionTimeout: Duration = .seconds(30)
        var backoff: Backoff = Backoff(base: .seconds(1), cap: .seconds(60))
        var retry = PusherRetryPolicy.backoff
        var retryDecision: PusherRetryDecision?
        var messageLimit: Int = 1 << 20
        var clientEventQueueLimit: Int = 64
        var clientEventLimit: PusherClientEventLimit?
        var recovery: PusherRecovery?
        var deltaCompression: PusherDeltaCompression?
        var allowsFilters = false
        var headers: HTTPHeaders = [:]
        var environment = Environment.standard
    }

    /// The immutable values, and what is derived from them, shared by all copies of a configuration and the clients created with them.
    ///
    /// Sharing is for the row "idle connection, plain" of `realtime bench idle`, whose goal is 4 KiB: the storage takes about 780 bytes,
    /// and a connection with storage of its own 4.7 KiB instead of 3.85 KiB.
    private final class Storage: Sendable {
        let values: Values
        let connectionPolicy: Shared<ConnectionPolicy>
        let dependencies: SessionDriver<PusherSession>.Dependencies

        init(_ values: Values) {
            self.values = values
            var policy = ConnectionPolicy()
            policy.openTimeout = values.connectTimeout
            policy.backoff = values.backoff
            // A decision is the user's, who may wait for something.
            policy.decisionTimeout = nil
            self.connectionPolicy = Shared(policy)
            let environment = values.environment
            self.dependencies = SessionDriver<PusherSession>.Dependencies(
                transport: Self.transport(environment), time: environment.transports.time, log: environment.log, subsystem: "pusher",
                perform: PusherClient.perform)
        }

        /// Returns the configured transport, which logs all frames if the log sink asks for it.
        private static func transport(_ environment: Environment) -> any WebSocketTransport {
            guard environment.log.minimumLevel <= .trace else { return environment.transports.webSocket }
            return LoggingTransport(transport: environment.transports.webSocket, log: environment.log)
        }
    }

    /// A transport that logs all frames, without the secrets of the request that opened the connection. Later connections may have others.
    private struct LoggingTransport: WebSocketTransport {
        let transport: any WebSocketTransport
        let log: LogSink

        func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any WebSocketEvents) -> any WebSocketConnection {
            let trace = FrameTrace(secrets: request.headers.secrets)
            return TracingTransport(self.transport, log: self.log, subsystem: "pusher") { trace.text($0, $1) }
                .makeConnection(request, id: id, events: events)
        }
    }

    private var storage: Storage
    private var values: Values {
        _read { yield self.storage.values }
        set { self.storage = Storage(newValue) }
    }

    var connectionPolicy: Shared<ConnectionPolicy> { self.storage.connectionPolicy }
    var dependencies: SessionDriver<PusherSession>.Dependencies { self.storage.dependencies }

    /// Whether this is an unchanged copy of another configuration.
    func isCopy(of other: Self) -> Bool { self.storage === other.storage }

    /// Whether a client with the other configuration can change to this one.
    func hasEnvironment(of other: Self) -> Bool { self.values.environment === other.values.environment }

    /// Whether connections with both configurations lead to the same app on the same server. They may use different versions of the protocol.
    func hasServer(of other: Self) -> Bool {
        self.useTLS == other.useTLS && self.app(useTLS: self.useTLS) == other.app(useTLS: self.useTLS)
    }

    /// The key of the app.
    public var key: String {
        get { self.values.key }
        set { self.values.key = newValue }
    }
    /// The name or address of the server.
    public var host: String {
        get { self.values.host }
        set { self.values.host = newValue }
    }
    /// The port, or `nil` for the default port: 443 with TLS, 80 without.
    public var port: Int? {
        get { self.values.port }
        set { self.values.port = newValue }
    }
    /// The path before `/app/…`. It must start with a slash and must not end with one. It is empty by default.
    public var path: String {
        get { self.values.path }
        set { self.values.path = newValue }
    }
    /// Whether to use TLS. If the server requires TLS (close code 4000), the client switches to it, on the default port.
    public var useTLS: Bool {
        get { self.values.useTLS }
        set { self.values.useTLS = newValue }
    }
    /// How private and presence channels are authorized. Without an authorizer, their subscriptions fail.
    public var authorizer: PusherAuthorizer? {
        get { self.values.authorizer }
        set { self.values.authorizer = newValue }
    }
    /// How the user is authenticated who signs in with ``PusherUser/signIn()``. Without an authenticator, signing in fails.
    public var userAuthenticator: PusherUserAuthenticator? {
        get { self.values.userAuthenticator }
        set { self.values.userAuthenticator = newValue }
    }
    /// The time without a message from the server after which the client sends a ping. A shorter interval that the server requests
    /// takes precedence. The default is 120 seconds, as the protocol specifies.
    public var activityTimeout: Duration {
        get { self.values.activityTimeout }
        set { self.values.activityTimeout = newValue }
    }
    /// The time to wait for any message after a ping before the connection counts as lost. The default is 30 seconds.
    public var pongTimeout: Duration {
        get { self.values.pongTimeout }
        set { self.values.pongTimeout = newValue }
    }
    /// The time limit for one attempt to connect, from resolving the host name to the server's `connection_established` event.
    /// The default is 15 seconds.
    public var connectTimeout: Duration {
        get { self.values.connectTimeout }
        set { self.values.connectTimeout = newValue }
    }
    /// The time without a connection after which the state changes to ``PusherConnectionState/unavailable``. The default is
    /// 10 seconds.
    public var unavailableTimeout: Duration {
        get { self.values.unavailableTimeout }
        set { self.values.unavailableTimeout = newValue }
    }
    /// The time limit for one subscription, including its authorization. The default is 30 seconds.
    public var subscriptionTimeout: Duration {
        get { self.values.subscriptionTimeout }
        set { self.values.subscriptionTimeout = newValue }
    }
    /// The delays between attempts to connect, and between attempts to subscribe to a channel after a temporary failure. The
    /// default is random delays that grow from at most 1 second to at most 60 seconds. Another ``retry`` policy replaces the delays between
    /// attempts to connect.
    public var backoff: Backoff {
        get { self.values.backoff }
        set { self.values.backoff = newValue }
    }
    /// Whether and when the client reconnects after a loss. The default is unlimited reconnects, with the delays of ``backoff``.
    public var retry: PusherRetryPolicy {
        get { self.values.retry }
        set { self.values.retry = newValue }
    }
    /// The activity timeout if the server requests none, or `nil` for ``activityTimeout``, which is the maximum in any case.
    package var fallbackActivityTimeout: Duration? {
        get { self.values.fallbackActivityTimeout }
        set { self.values.fallbackActivityTimeout = newValue }
    }
    /// A closure that decides instead of ``retry``, without a task.
    package var retryDecision: PusherRetryDecision? {
        get { self.values.retryDecision }
        set { self.values.retryDecision = newValue }
    }
    /// The maximum size of a message from the server, in bytes. A larger message closes the connection. The default is
    /// 1 MiB; Pusher limits the data of an event to 10 KiB.
    public var messageLimit: Int {
        get { self.values.messageLimit }
        set { self.values.messageLimit = newValue }
    }
    /// The maximum number of client events that wait for the subscription of a channel, and of those that wait because of the
    /// ``clientEventLimit``, before ``PusherChannel/trigger(_:_:)`` throws. The default is 64.
    public var clientEventQueueLimit: Int {
        get { self.values.clientEventQueueLimit }
        set { self.values.clientEventQueueLimit = newValue }
    }
    /// The maximum number of client events in a second, and what happens to further ones; `nil` for no limit.
    ///
    /// The default is ten, with further events waiting, for a configuration that is created for a cluster, and no limit for one that is
    /// created for a server of your own.
    public var clientEventLimit: PusherClientEventLimit? {
        get { self.values.clientEventLimit }
        set { self.values.clientEventLimit = newValue }
    }
    /// How the client recovers the events that it missed while its connection was interrupted, or `nil` if it only reports that events
    /// may be missing. The default is `nil`: the Pusher service and most servers don't support recovery.
    public var recovery: PusherRecovery? {
        get { self.values.recovery }
        set { self.values.recovery = newValue }
    }
    /// How the client receives events as deltas from earlier ones, which saves bandwidth, or `nil` if it receives complete events. The
    /// default is `nil`: the Pusher service and most servers don't support deltas.
    public var deltaCompression: PusherDeltaCompression? {
        get { self.values.deltaCompression }
        set { self.values.deltaCompression = newValue }
    }
    /// Whether channels may have filters; see ``PusherClient/subscribe(_:filter:)``. The default is `false`: the Pusher service and most
    /// servers don't support filters.
    ///
    /// With `true`, the client uses version 2 of the protocol, which is that of sockudo. A client that sends a client event receives it too.
    /// sockudo ignores filters without the setting `tag_filtering`.
    public var allowsFilters: Bool {
        get { self.values.allowsFilters }
        set { self.values.allowsFilters = newValue }
    }
    /// Additional header fields of the request that opens the WebSocket.
    public var headers: HTTPHeaders {
        get { self.values.headers }
        set { self.values.headers = newValue }
    }
    /// The destination of log messages. By default, warnings and errors go to the unified log on Apple platforms and to standard error
    /// elsewhere. With the minimum level `trace`, every frame is logged, without signatures and tokens. A client keeps its log for life.
    public var log: LogSink {
        get { self.values.environment.log }
        set { self.values.environment = Environment(log: newValue, transports: self.transports) }
    }
    /// The WebSocket and HTTP transports that the client uses, its source of time, and the monitor of the network path. A client keeps its
    /// transports for life.
    public var transports: Transports {
        get { self.values.environment.transports }
        set { self.values.environment = Environment(log: self.log, transports: newValue) }
    }

    /// Creates a configuration for an app on a Pusher cluster.
    ///
    /// - Parameters:
    ///   - key: The key of the app.
    ///   - cluster: The name of the cluster, such as `eu`.
    public init(key: String, cluster: String) {
        var values = Values(key: key, host: Self.host(ofCluster: cluster), path: "", useTLS: true)
        values.clientEventLimit = PusherClientEventLimit()
        self.storage = Storage(values)
    }

    /// Creates a configuration for an app on your own server.
    ///
    /// - Parameters:
    ///   - key: The key of the app.
    ///   - host: The name or address of the server.
    ///   - port: The port, or `nil` for the default port: 443 with TLS, 80 without.
    ///   - path: The path before `/app/…`, which starts with a slash and doesn't end with one. It is empty by default.
    ///   - useTLS: Whether to use TLS.
    public init(key: String, host: String, port: Int? = nil, path: String = "", useTLS: Bool = true) {
        self.storage = Storage(Values(key: key, host: host, port: port, path: path, useTLS: useTLS))
    }

    /// Creates a configuration from the URL of a server.
    ///
    /// - Parameters:
    ///   - key: The key of the app.
    ///   - url: The URL, such as `ws://127.0.0.1:6001`. A path may precede `/app/KEY`, which is optional.
    /// - Throws: A `TransportError` with the code `invalidURL` if the URL is invalid.
    public init(key: String, url: String) throws(TransportError) {
        self.init(key: key, endpoint: try Endpoint(url))
    }

    /// Creates a configuration from the endpoint of a server. The scheme determines whether to use TLS.
    ///
    /// - Parameters:
    ///   - key: The key of the app.
    ///   - endpoint: The endpoint. A path may precede `/app/KEY`, which is optional; a query is ignored.
    public init(key: String, endpoint: Endpoint) {
        var path = String(endpoint.target.prefix { $0 != "?" })
        if path.hasSuffix("/app/\(key)") { path.removeLast(key.count + 5) }
        while path.hasSuffix("/") { path.removeLast() }
        self.init(key: key, host: endpoint.host, port: endpoint.port, path: path, useTLS: endpoint.isSecure)
    }

    private static func host(ofCluster cluster: String) -> String { "ws-\(cluster).pusher.com" }

    /// Changes the server to that of a cluster.
    mutating func setCluster(_ cluster: String) {
        var values = self.values
        (values.host, values.port, values.path, values.useTLS) = (Self.host(ofCluster: cluster), nil, "", true)
        self.values = values
    }

    /// Whether a setting requires version 2 of the protocol, which sockudo has added.
    var usesVersion2: Bool { self.recovery != nil || self.deltaCompression != nil || self.allowsFilters }

    func endpoint(useTLS: Bool) -> Endpoint {
        var endpoint = self.app(useTLS: useTLS)
        endpoint.target += "?client=swift-realtime&version=\(PusherClient.version)&protocol=\(self.usesVersion2 ? 2 : 7)"
        return endpoint
    }

    /// The endpoint without its query.
    private func app(useTLS: Bool) -> Endpoint {
        // After a switch to TLS, the configured port, which serves plain text, does not apply.
        let port = useTLS == self.useTLS ? self.port : nil
        return Endpoint(
            scheme: useTLS ? "wss" : "ws", host: self.host, port: port ?? (useTLS ? 443 : 80), target: "\(self.path)/app/\(self.key)")
    }

    /// A description of the first invalid value, or `nil` if the configuration is valid. It doesn't contain the key, the host or the
    /// path, which may contain credentials.
    var validationError: String? {
        if self.key.isEmpty { return "The key must not be empty." }
        if !self.key.utf8.allSatisfy({
            (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#")
        }) {
            return "The key contains an invalid character."
        }
        if self.host.isEmpty { return "The host must not be empty." }
        if self.host.containsText("://") { return "The host must not contain a scheme: use the name alone, and `useTLS` for wss or ws." }
        // Two colons are an IPv6 address.
        if self.host.utf8.count(where: { $0 == 0x3A }) == 1 { return "The host must not contain a port: set `port` instead." }
        if self.endpoint(useTLS: self.useTLS).validationError != nil { return "The host contains an invalid character." }
        if let port, !(1...65535).contains(port) { return "The port must be between 1 and 65535, but is \(port)." }
        if !self.path.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }) {
            return "The path contains an invalid character."
        }
        if !self.path.isEmpty, !self.path.hasPrefix("/") || self.path.hasSuffix("/") {
            return "The path must start with \"/\" and must not end with one."
        }
        let limits = [
            ("activityTimeout", self.activityTimeout), ("pongTimeout", self.pongTimeout), ("connectTimeout", self.connectTimeout),
            ("subscriptionTimeout", self.subscriptionTimeout),
        ]
        for (name, limit) in limits where limit <= .zero { return "The \(name) must be greater than zero, but is \(limit)." }
        if self.unavailableTimeout < .zero { return "The unavailableTimeout must not be negative, but is \(self.unavailableTimeout)." }
        if self.backoff.base < .zero || self.backoff.cap < .zero { return "The base and the cap of the backoff must not be negative." }
        if case .delays(let delays) = self.retry, let delay = delays.first(where: { $0 < .zero }) {
            return "The delays of the retry policy must not be negative, but one is \(delay)."
        }
        if self.messageLimit <= 0 { return "The messageLimit must be at least 1 byte, but is \(self.messageLimit)." }
        if self.clientEventQueueLimit < 0 {
            return "The clientEventQueueLimit must not be negative, but is \(self.clientEventQueueLimit)."
        }
        if let limit = self.clientEventLimit, limit.perSecond < 1 {
            return "The perSecond of the clientEventLimit must be at least 1, but is \(limit.perSecond)."
        }
        return nil
    }
}
