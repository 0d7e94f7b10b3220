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
/// Values are validated when the client connects. To change the settings of a client that exists, use ``PusherClient/update(_:)``.
public struct PusherConfiguration: Sendable {
    /// The values that a client keeps for life. Configurations with the same object have the same values.
    private final class Environment: Sendable {
        static let standard = Environment(log: .standard, transports: .standard)
        let log: LogSink
        let transports: Transports

        init(log: LogSink, transports: Transports) {
            self.log = log
            self.transports = transports
        }
    }

    private var environment = Environment.standard { didSet { self.copies = Copies() } }

    /// Identifies the copies of a configuration until one of them is changed.
    private final class Copies: Sendable {
        private let settings = Lock<PusherSettings?>(nil)

        func settings(_ make: () -> PusherSettings) -> PusherSettings {
            self.settings.withLock { settings in
                if let settings { return settings }
                let new = make()
                settings = new
                return new
            }
        }
    }

    private var copies = Copies()

    /// The settings of a session. Clients that are created with copies of a configuration share them: an idle connection would take 0.8 KiB
    /// more with settings of its own.
    var settings: PusherSettings {
        self.copies.settings {
            var configuration = self
            // Otherwise, the settings would retain themselves.
            configuration.copies = Copies()
            return PusherSettings(configuration)
        }
    }

    /// Whether a client with the other configuration can change to this one.
    func hasEnvironment(of other: Self) -> Bool { self.environment === other.environment }

    /// Whether connections with both configurations lead to the same app on the same server. They may use different versions of the protocol.
    func hasServer(of other: Self) -> Bool {
        self.useTLS == other.useTLS && self.app(useTLS: self.useTLS) == other.app(useTLS: self.useTLS)
    }

    /// The key of the app.
    public var key: String { didSet { self.copies = Copies() } }
    /// The name or address of the server.
    public var host: String { didSet { self.copies = Copies() } }
    /// The port, or `nil` for the default port: 443 with TLS, 80 without.
    public var port: Int? { didSet { self.copies = Copies() } }
    /// The path before `/app/…`. It must start with a slash and must not end with one. It is empty by default.
    public var path: String { didSet { self.copies = Copies() } }
    /// Whether to use TLS. If the server requires TLS (close code 4000), the client switches to it, on the default port.
    public var useTLS: Bool { didSet { self.copies = Copies() } }
    /// The authorizer of private and presence channels. Without an authorizer, their subscriptions fail.
    public var authorizer: PusherAuthorizer? { didSet { self.copies = Copies() } }
    /// The authenticator of the user who signs in with ``PusherUser/signIn()``. Without an authenticator, signing in fails.
    public var userAuthenticator: PusherUserAuthenticator? { didSet { self.copies = Copies() } }
    /// The time without a message from the server after which the client sends a ping. A shorter interval that the server requests
    /// takes precedence. The default is 120 seconds, as the protocol specifies.
    public var activityTimeout: Duration = .seconds(120) { didSet { self.copies = Copies() } }
    /// The time to wait for any message after a ping before the connection counts as lost. The default is 30 seconds.
    public var pongTimeout: Duration = .seconds(30) { didSet { self.copies = Copies() } }
    /// The time limit for one attempt to connect, from resolving the host name to the server's `connection_established` event.
    /// The default is 15 seconds.
    public var connectTimeout: Duration = .seconds(15) { didSet { self.copies = Copies() } }
    /// The time without a connection after which the state changes to ``PusherConnectionState/unavailable``. The default is
    /// 10 seconds.
    public var unavailableTimeout: Duration = .seconds(10) { didSet { self.copies = Copies() } }
    /// The time limit for one subscription, including its authorization. The default is 30 seconds.
    public var subscriptionTimeout: Duration = .seconds(30) { didSet { self.copies = Copies() } }
    /// The delays between attempts to connect, and between attempts to subscribe to a channel after a temporary failure. The
    /// default is random delays that grow from at most 1 second to at most 60 seconds. Another ``retry`` policy replaces the delays between
    /// attempts to connect.
    public var backoff = Backoff(base: .seconds(1), cap: .seconds(60)) { didSet { self.copies = Copies() } }
    /// Whether and when the client reconnects after a loss. The default is unlimited reconnects, with the delays of ``backoff``.
    public var retry = PusherRetryPolicy.backoff { didSet { self.copies = Copies() } }
    /// The activity timeout if the server requests none, or `nil` for ``activityTimeout``, which is the maximum in any case.
    package var fallbackActivityTimeout: Duration? { didSet { self.copies = Copies() } }
    /// A closure that decides instead of ``retry``, without a task.
    package var retryDecision: PusherRetryDecision? { didSet { self.copies = Copies() } }
    /// The maximum size of a message from the server, in bytes. A larger message closes the connection. The default is
    /// 1 MiB; Pusher limits the data of an event to 10 KiB.
    public var messageLimit = 1 << 20 { didSet { self.copies = Copies() } }
    /// The maximum number of client events that wait for the subscription of a channel, and of those that wait because of the
    /// ``clientEventLimit``, before ``PusherChannel/trigger(_:_:)-(_,Encodable)`` throws. The default is 64.
    public var clientEventQueueLimit = 64 { didSet { self.copies = Copies() } }
    /// The maximum number of client events in a second, and what happens to further ones; `nil` for no limit.
    ///
    /// The default is ten, with further events waiting, for a configuration that is created for a cluster, and no limit for one that is
    /// created for a server of your own.
    public var clientEventLimit: PusherClientEventLimit? { didSet { self.copies = Copies() } }
    /// The maximum size of the data of a client event, in bytes: ``PusherChannel/trigger(_:_:)-(_,Encodable)`` throws for larger data. The default is the
    /// limit of the Pusher service, 10 KiB. Increase it for a server of your own whose limit is larger.
    public var eventDataLimit = EventName.maximumDataSize { didSet { self.copies = Copies() } }
    /// The maximum length of the name of a client event, in bytes. The default is the limit of the Pusher service, 200.
    public var eventNameLimit = EventName.maximumLength { didSet { self.copies = Copies() } }
    /// How the client recovers the events that it missed while its connection was interrupted, or `nil` if it only reports that events
    /// may be missing. The default is `nil`: the Pusher service and most servers don't support recovery.
    public var recovery: PusherRecovery? { didSet { self.copies = Copies() } }
    /// How the client receives events as deltas from earlier ones, which saves bandwidth, or `nil` if it receives complete events. The
    /// default is `nil`: the Pusher service and most servers don't support deltas.
    public var deltaCompression: PusherDeltaCompression? { didSet { self.copies = Copies() } }
    /// Whether channels may have filters; see ``PusherClient/subscribe(_:filter:)``. The default is `false`: the Pusher service and most
    /// servers don't support filters.
    ///
    /// With `true`, the client uses version 2 of the protocol, which sockudo defines. A client that sends a client event receives it too.
    /// sockudo ignores filters without the setting `tag_filtering`.
    public var allowsFilters = false { didSet { self.copies = Copies() } }
    /// Whether the client checks the names of channels. The default is `true`: with a name that the Pusher service would reject,
    /// ``PusherClient/subscribe(_:)`` throws an error.
    ///
    /// Set it to `false` for a server that allows longer names, or other characters than letters, digits and `_-=@,.;`. A name must not be
    /// empty in any case.
    public var validatesChannelNames = true { didSet { self.copies = Copies() } }
    /// Additional header fields of the request that opens the WebSocket.
    public var headers: HTTPHeaders = [:] { didSet { self.copies = Copies() } }
    /// The destination of log messages. By default, warnings and errors go to the unified log on Apple platforms and to standard error
    /// elsewhere. With the minimum level `trace`, every frame is logged, without signatures and tokens. A client keeps its log for life.
    public var log: LogSink {
        get { self.environment.log }
        set { self.environment = Environment(log: newValue, transports: self.transports) }
    }
    /// The WebSocket and HTTP transports that the client uses, its source of time, and the monitor of the network path. A client keeps its
    /// transports for life.
    public var transports: Transports {
        get { self.environment.transports }
        set { self.environment = Environment(log: self.log, transports: newValue) }
    }

    /// Creates a configuration for an app on a Pusher cluster.
    ///
    /// - Parameters:
    ///   - key: The key of the app.
    ///   - cluster: The name of the cluster, such as `eu`.
    public init(key: String, cluster: String) {
        self.init(key: key, host: Self.host(ofCluster: cluster))
        self.clientEventLimit = PusherClientEventLimit()
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
        (self.key, self.host, self.port, self.path, self.useTLS) = (key, host, port, path, useTLS)
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

    /// Returns the name of the cluster that has a host, or `nil` if no cluster has it.
    private static func cluster(ofHost host: String) -> String? {
        guard host.hasPrefix("ws-"), host.hasSuffix(".pusher.com") else { return nil }
        return String(host.dropFirst(3).dropLast(".pusher.com".count))
    }

    /// Changes the server to the server of a cluster.
    mutating func setCluster(_ cluster: String) {
        (self.host, self.port, self.path, self.useTLS) = (Self.host(ofCluster: cluster), nil, "", true)
    }

    /// Whether a setting requires version 2 of the protocol, which sockudo has added.
    var usesVersion2: Bool { self.recovery != nil || self.deltaCompression != nil || self.allowsFilters }

    func endpoint(useTLS: Bool) -> Endpoint {
        var endpoint = self.app(useTLS: useTLS)
        endpoint.target += "?client=swift-realtime&version=\(Library.version)&protocol=\(self.usesVersion2 ? 2 : 7)"
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
        if self.endpoint(useTLS: self.useTLS).validationError != nil {
            // The name of a cluster contains no credentials.
            guard let cluster = Self.cluster(ofHost: self.host) else { return "The host contains an invalid character." }
            return "The cluster \"\(Excerpt.of(cluster, limit: 80))\" contains an invalid character; use a name such as eu or us2."
        }
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
        if self.eventDataLimit < 0 { return "The eventDataLimit must not be negative, but is \(self.eventDataLimit)." }
        if self.eventNameLimit < 0 { return "The eventNameLimit must not be negative, but is \(self.eventNameLimit)." }
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

/// The settings of a session, which its parts share instead of copying them; see ``PusherConfiguration/settings``.
final class PusherSettings: Sendable {
    let configuration: PusherConfiguration
    let connectionPolicy: Shared<ConnectionPolicy>

    init(_ configuration: PusherConfiguration) {
        self.configuration = configuration
        var policy = ConnectionPolicy()
        policy.openTimeout = configuration.connectTimeout
        policy.backoff = configuration.backoff
        // The application decides, and may wait for something.
        policy.decisionTimeout = nil
        self.connectionPolicy = Shared(policy)
    }
}
