public import RealtimeCore
internal import RealtimeTransports

/// Everything that can be set. Change what differs from the defaults, and make the client with it.
///
/// ```swift
/// var configuration = PusherConfiguration(key: "app-key", cluster: "eu")
/// configuration.authorizer = try .endpoint("https://example.org/pusher/auth")
/// let client = PusherClient(configuration)
/// ```
public struct PusherConfiguration: Sendable {
    private struct Values: Sendable {
        var key: String
        var host: String
        var port: Int?
        var path: String
        var useTLS: Bool
        var authorizer: PusherAuthorizer?
        var activityTimeout: Duration = .seconds(120)
        var pongTimeout: Duration = .seconds(30)
        var connectTimeout: Duration = .seconds(15)
        var unavailableTimeout: Duration = .seconds(10)
        var subscriptionTimeout: Duration = .seconds(30)
        var backoff: Backoff = Backoff(base: .seconds(1), cap: .seconds(60))
        var messageLimit: Int = 1 << 20
        var clientEventQueueLimit: Int = 64
        var headers: HTTPHeaders = [:]
        var log: LogSink = .standard
        var transports: Transports = .standard
    }

    /// Never changed, so that all copies can have it, and with them all the clients that are made with one configuration.
    private final class Storage: Sendable {
        let values: Values
        let connectionPolicy: Shared<ConnectionPolicy>
        let dependencies: SessionDriver<PusherSession>.Dependencies

        init(_ values: Values) {
            self.values = values
            var policy = ConnectionPolicy()
            policy.openTimeout = values.connectTimeout
            policy.backoff = values.backoff
            self.connectionPolicy = Shared(policy)
            self.dependencies = SessionDriver<PusherSession>.Dependencies(
                transport: values.transports.webSocket, time: values.transports.time, log: values.log, subsystem: "pusher",
                perform: PusherClient.perform)
        }
    }

    private var storage: Storage
    private var values: Values {
        _read { yield self.storage.values }
        set { self.storage = Storage(newValue) }
    }

    var connectionPolicy: Shared<ConnectionPolicy> { self.storage.connectionPolicy }
    var dependencies: SessionDriver<PusherSession>.Dependencies { self.storage.dependencies }

    /// The application's key.
    public var key: String {
        get { self.values.key }
        set { self.values.key = newValue }
    }
    /// The host to connect to.
    public var host: String {
        get { self.values.host }
        set { self.values.host = newValue }
    }
    /// The port; `nil` for the scheme's own, 443 or 80.
    public var port: Int? {
        get { self.values.port }
        set { self.values.port = newValue }
    }
    /// What stands before `/app/…`, with a leading slash and without one at the end; empty by default.
    public var path: String {
        get { self.values.path }
        set { self.values.path = newValue }
    }
    /// Whether to use TLS. A server that accepts nothing else (close code 4000) is given TLS in any case.
    public var useTLS: Bool {
        get { self.values.useTLS }
        set { self.values.useTLS = newValue }
    }
    /// How private and presence channels are authorised; without it they fail.
    public var authorizer: PusherAuthorizer? {
        get { self.values.authorizer }
        set { self.values.authorizer = newValue }
    }
    /// After so long without a message the client pings. The server's own wish counts when it is shorter. 120 seconds
    /// by default, as the protocol says.
    public var activityTimeout: Duration {
        get { self.values.activityTimeout }
        set { self.values.activityTimeout = newValue }
    }
    /// How long the server may take to answer that ping before the connection is given up. 30 seconds by default.
    public var pongTimeout: Duration {
        get { self.values.pongTimeout }
        set { self.values.pongTimeout = newValue }
    }
    /// How long one attempt may take, from the look-up of the name to the server's greeting. 15 seconds by default.
    public var connectTimeout: Duration {
        get { self.values.connectTimeout }
        set { self.values.connectTimeout = newValue }
    }
    /// After so long without a connection the state is ``PusherConnectionState/unavailable``. 10 seconds by default.
    public var unavailableTimeout: Duration {
        get { self.values.unavailableTimeout }
        set { self.values.unavailableTimeout = newValue }
    }
    /// How long an authorisation and the answer to a subscription may take together. 30 seconds by default.
    public var subscriptionTimeout: Duration {
        get { self.values.subscriptionTimeout }
        set { self.values.subscriptionTimeout = newValue }
    }
    /// The waits between attempts.
    public var backoff: Backoff {
        get { self.values.backoff }
        set { self.values.backoff = newValue }
    }
    /// The largest message accepted, in bytes; a larger one ends the connection. 1 MiB by default: the service's own
    /// limit is 10 KiB of data for an event.
    public var messageLimit: Int {
        get { self.values.messageLimit }
        set { self.values.messageLimit = newValue }
    }
    /// How many client events wait for a subscription before `trigger` throws. 64 by default.
    public var clientEventQueueLimit: Int {
        get { self.values.clientEventQueueLimit }
        set { self.values.clientEventQueueLimit = newValue }
    }
    /// More header fields for the WebSocket's upgrade request.
    public var headers: HTTPHeaders {
        get { self.values.headers }
        set { self.values.headers = newValue }
    }
    /// Where log messages go.
    public var log: LogSink {
        get { self.values.log }
        set { self.values.log = newValue }
    }
    /// What carries the connection.
    public var transports: Transports {
        get { self.values.transports }
        set { self.values.transports = newValue }
    }

    /// An application on one of the service's clusters.
    public init(key: String, cluster: String) {
        self.init(key: key, host: "ws-\(cluster).pusher.com")
    }

    /// An application on a host of your own.
    public init(key: String, host: String, port: Int? = nil, path: String = "", useTLS: Bool = true) {
        self.storage = Storage(Values(key: key, host: host, port: port, path: path, useTLS: useTLS))
    }

    /// An application by the address of its server, such as `ws://127.0.0.1:6001`.
    ///
    /// A path `/app/KEY` at the end, as servers print it, is understood. It throws a
    /// `TransportError` with the code `invalidURL` when the address cannot be used.
    public init(key: String, url: String) throws(TransportError) {
        self.init(key: key, endpoint: try Endpoint(url))
    }

    /// An application by the address of its server. The scheme says whether to use TLS; a path `/app/KEY` at the end is
    /// understood.
    public init(key: String, endpoint: Endpoint) {
        var path = String(endpoint.target.prefix { $0 != "?" })
        if path.hasSuffix("/app/\(key)") { path.removeLast(key.count + 5) }
        while path.hasSuffix("/") { path.removeLast() }
        self.init(key: key, host: endpoint.host, port: endpoint.port, path: path, useTLS: endpoint.isSecure)
    }

    func endpoint(useTLS: Bool) -> Endpoint {
        // A server that asks for TLS does not mean the port that was meant for plain text.
        let port = useTLS == self.useTLS ? self.port : nil
        let query = "client=swift-realtime&version=\(PusherClient.version)&protocol=7"
        return Endpoint(
            scheme: useTLS ? "wss" : "ws", host: self.host, port: port ?? (useTLS ? 443 : 80),
            target: "\(self.path)/app/\(self.key)?\(query)")
    }

    /// What is wrong with it; `nil` when nothing is.
    var problem: String? {
        if self.key.isEmpty { return "The application's key is empty." }
        if !self.key.utf8.allSatisfy({
            (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#")
        }) {
            return "The application's key holds a character that no key has."
        }
        if self.host.isEmpty { return "The host is empty." }
        if self.endpoint(useTLS: self.useTLS).validationError != nil { return "The host holds a character that no host has." }
        if let port, !(1...65535).contains(port) { return "The port is no number from 1 to 65535." }
        if !self.path.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }) {
            return "The path holds a character that no path has."
        }
        if !self.path.isEmpty, !self.path.hasPrefix("/") || self.path.hasSuffix("/") {
            return "The path has to begin with a slash and not to end with one."
        }
        let limits = [
            ("activityTimeout", self.activityTimeout), ("pongTimeout", self.pongTimeout), ("connectTimeout", self.connectTimeout),
            ("subscriptionTimeout", self.subscriptionTimeout),
        ]
        for (name, limit) in limits where limit <= .zero { return "The \(name) has to be longer than zero." }
        if self.unavailableTimeout < .zero { return "The unavailableTimeout cannot be below zero." }
        if self.backoff.base < .zero || self.backoff.cap < .zero { return "The waits of the backoff cannot be below zero." }
        if self.messageLimit <= 0 { return "The messageLimit has to be one byte at least." }
        if self.clientEventQueueLimit < 0 { return "The clientEventQueueLimit cannot be below zero." }
        return nil
    }
}
