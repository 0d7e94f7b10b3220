public import PrimusWire
public import RealtimeCore
public import RealtimeTransports

/// The settings of a client.
///
/// ```swift
/// var configuration = try PrimusConfiguration(url: "https://example.org/primus")
/// configuration.credentials = { ["Authorization": "Bearer \(try await tokens.current())"] }
/// let primus = PrimusConnection(configuration)
/// ```
/// Values are validated when the client is opened. To change the settings of a client that exists, use ``PrimusConnection/update(_:)``.
public struct PrimusConfiguration: Sendable {
    /// Returns the credentials of an attempt to connect. Called in a task before each attempt, and once more if the server refuses it with the
    /// status 401 or 403: the client then gives up, unless the credentials or the URL are others than before.
    public typealias CredentialsProvider = @Sendable () async throws -> PrimusCredentials

    /// Returns the URL of an attempt to connect, in the place of the configured one with the credentials. Called in a task before each attempt,
    /// and once more if the server refuses it with the status 401 or 403: the client then gives up, unless the credentials or the URL are others
    /// than before.
    ///
    /// Return tokens as ``credentials``, not in the URL: the client removes the values of credentials from errors and logs, also where the
    /// server repeats them in a text.
    public typealias RequestURL = @Sendable (Endpoint) async throws -> Endpoint

    /// The URL of the server, with any of the schemes `http`, `https`, `ws` and `wss`. Without a path, it is `/primus`. The query is kept as it
    /// is.
    public var endpoint: Endpoint
    /// The transformer; `nil`, the default, for the one that the server's specification names. If that is an incompatible one, the client ends
    /// with the code ``PrimusError/Code/unsupported``.
    public var transformer: PrimusTransformerKind?
    /// The transformer of the application, which is used in the place of any other. A client keeps it for life.
    public var customTransformer: (any PrimusCustomTransformer)? { didSet { self.kept = Kept() } }
    /// The parser; `nil`, the default, for the one that the server's specification names. If that is another one, the client ends with the code
    /// ``PrimusError/Code/unsupported``.
    public var parser: PrimusParserKind?
    /// The parser of the application, which is used in the place of any other. A client keeps it for life.
    public var customParser: (any PrimusParser)? { didSet { self.kept = Kept() } }
    /// The kinds of connections that the client may use. The default is ``PrimusTransportKinds/all``: with the transformers sockjs and engine.io,
    /// a client that can't open a WebSocket continues the attempt with polling. The other transformers have WebSockets only.
    public var allowedTransports = PrimusTransportKinds.all
    /// Whether the client opens a session of engine.io with polling and moves it to a WebSocket then, as the client for JavaScript does. The
    /// default is `false`: the WebSocket comes first, and polling only if it can't be opened.
    public var startsWithPolling = false
    /// Whether ``transformer`` is only the one for a server without a specification.
    package var transformerIsDefault = false
    /// The kinds of connections, in place of those that the other settings determine; for tests.
    package var connectionKinds: [PrimusConnectionKind]?
    /// The time in which a server of engine.io answers the probe of a WebSocket. A server forgets the probe after 10 seconds, so only tests use
    /// another value.
    package var probeTimeout = Duration.seconds(10)
    /// Receives what the client's connections over HTTP do, as a `TracingTransport` reports it for WebSockets. A client keeps it for life.
    package var messagesOverHTTPTrace: ConnectionTrace? { didSet { self.kept = Kept() } }
    /// How the client learns what the server speaks. The default is ``PrimusDetection/automatic``.
    public var detection = PrimusDetection.automatic
    /// The time limit for the server's specification. The default is 5 seconds.
    public var detectionTimeout = Duration.seconds(5)
    /// Header fields for all requests. They replace fields of the client with the same name. If a server of SockJS names another origin as its
    /// `base_url`, they aren't sent there.
    public var headers: HTTPHeaders = [:]
    /// The source of credentials; `nil` for none.
    public var credentials: CredentialsProvider?
    /// A closure that may change the URL of each attempt; `nil` for none.
    public var requestURL: RequestURL?
    /// The time limit of an attempt to connect, including credentials and detection. The default is 10 seconds.
    public var connectTimeout = Duration.seconds(10)
    /// The time limit of an attempt to connect again. The default is 30 seconds.
    public var reconnectTimeout = Duration.seconds(30)
    /// Whether and when to reconnect. The default is ``PrimusRetryPolicy/standard``.
    public var retry = PrimusRetryPolicy.standard
    /// The events after which the client reconnects. The default is all of them.
    public var strategies = PrimusStrategies.all
    /// The time without received messages after which the connection counts as lost. It must be longer than the server's interval of pings, by
    /// default 30 seconds with Primus and 25 seconds with engine.io: otherwise, the client loses connections that work.
    ///
    /// `nil`, the default, for the limit that follows from the heartbeat: one and a half intervals of the server's pings; with servers before
    /// Primus 7, the interval of the client's pings plus ``pongTimeout``; and 45 seconds if there are no pings or they aren't known. With
    /// engine.io, the limit is at most the interval of its pings plus their time limit.
    public var silenceLimit: Duration?
    /// The interval of the client's pings with servers before Primus 7. It is shortened if the server's time limit requires it. The default is
    /// 25 seconds.
    public var pingInterval = Duration.seconds(25)
    /// The time limit for the answer to a ping with servers before Primus 7. The default is 10 seconds.
    public var pongTimeout = Duration.seconds(10)
    /// The time without sent messages after which the client sends a ping frame of WebSockets, which keeps routers on the way from forgetting
    /// the connection; `nil`, the default, for never. Where the client sends pings of Primus or engine.io anyway, it sends one of these instead.
    /// Over HTTP, each ping is a request.
    public var webSocketPingInterval: Duration?
    /// The treatment of messages that are written while there is no connection. The default is ``PrimusQueuePolicy/standard``.
    public var queue = PrimusQueuePolicy.standard
    /// The maximum size of a received message, in bytes. The default is 16 MiB.
    public var messageLimit = 16 << 20
    /// The maximum size of a sent message, in bytes. Servers close a connection that exceeds their limit. The default is that of Primus, 10 MiB;
    /// engine.io's servers report a limit of their own, which applies as well.
    public var sentMessageLimit = 10 << 20
    /// The maximum number of messages of a sequence, and of their bytes, that wait for the application before the client stops reading. The
    /// default is 1,024 messages and 1 MiB.
    ///
    /// Over HTTP, the client asks for messages less often then, because the server would forget it otherwise. It stops when 16 MiB more have
    /// arrived.
    public var messageBuffer = PrimusBufferLimit()
    /// The transforms of messages, in the order in which they are called. A client keeps them for life; see
    /// ``PrimusConnection/addTransform(_:)``.
    public var transforms: [PrimusTransform] = [] { didSet { self.kept = Kept() } }
    /// The plugins. A client keeps them for life.
    public var plugins: [any PrimusPlugin] = [] { didSet { self.kept = Kept() } }
    /// The WebSocket and HTTP transports that the client uses, its source of time, and the monitor of the network path. A client keeps its
    /// transports for life.
    public var transports: Transports { didSet { self.kept = Kept() } }
    /// The destination of log messages. By default, warnings and errors go to the unified log on Apple platforms and to standard error
    /// elsewhere. With the minimum level `trace`, every message is logged, without credentials. A client keeps its log for life.
    public var log = LogSink.standard { didSet { self.kept = Kept() } }

    /// Identifies the values that a client keeps for life, which can't be compared. Configurations with the same object have the same ones.
    private final class Kept: Sendable {}
    private var kept = Kept()

    /// Creates settings with the default values.
    ///
    /// - Parameter url: The URL of the server, such as `https://example.org/primus`. A user name and a password in it become the field
    ///   `Authorization` of ``headers``.
    /// - Throws: A `TransportError` with the code `invalidURL`, which says what is wrong with the URL.
    public init(url: String) throws(TransportError) {
        let (plain, authorization) = try PrimusUserInfo.split(url)
        self.init(try Endpoint(plain))
        if let authorization { self.headers["Authorization"] = authorization }
    }

    /// Creates settings with the default values.
    ///
    /// - Parameters:
    ///   - endpoint: The URL of the server.
    ///   - transports: The WebSocket and HTTP transports, for example the transports of an in-memory network.
    public init(_ endpoint: Endpoint, transports: Transports = .standard) {
        self.endpoint = endpoint
        self.transports = transports
    }

    /// Whether a client with the other configuration can change to this one.
    func keeps(_ other: Self) -> Bool { self.kept === other.kept }

    /// Applies changes, except those of what a client keeps for life.
    package mutating func changeSettings(_ change: (inout Self) -> Void) {
        let old = self
        change(&self)
        guard !self.keeps(old) else { return }
        (self.customTransformer, self.customParser) = (old.customTransformer, old.customParser)
        (self.transforms, self.plugins, self.transports, self.log) = (old.transforms, old.plugins, old.transports, old.log)
        self.messagesOverHTTPTrace = old.messagesOverHTTPTrace
        self.kept = old.kept
    }

    /// A description of the first invalid value, or `nil` if the configuration is valid. It doesn't contain the URL or a header field, which
    /// may contain credentials.
    var validationError: String? {
        if self.endpoint.validationError != nil { return "The host or the path of the URL is empty or contains an invalid character." }
        let limits = [
            ("detectionTimeout", self.detectionTimeout), ("connectTimeout", self.connectTimeout),
            ("reconnectTimeout", self.reconnectTimeout), ("pingInterval", self.pingInterval), ("pongTimeout", self.pongTimeout),
        ]
        let optional = [("silenceLimit", self.silenceLimit), ("webSocketPingInterval", self.webSocketPingInterval)]
        for (name, limit) in limits + optional.compactMap({ name, limit in limit.map { (name, $0) } }) where limit <= .zero {
            return "The \(name) must be greater than zero, but is \(limit)."
        }
        if self.allowedTransports.isDisjoint(with: .all) { return "The allowedTransports are empty. Allow webSockets, polling or both." }
        if let problem = self.retryProblem { return problem }
        for (name, limit) in [("messageLimit", self.messageLimit), ("sentMessageLimit", self.sentMessageLimit)] where limit < 1 {
            return "The \(name) must be at least 1 byte, but is \(limit)."
        }
        if self.queue.limit < 0 { return "The limit of the queue must not be negative, but is \(self.queue.limit)." }
        if self.messageBuffer.count < 1 { return "The count of the messageBuffer must be at least 1, but is \(self.messageBuffer.count)." }
        if self.messageBuffer.bytes < 1 { return "The bytes of the messageBuffer must be at least 1, but are \(self.messageBuffer.bytes)." }
        return self.combinationProblem(self.transformer, self.parser) ?? self.pluginProblem
    }

    private var retryProblem: String? {
        switch self.retry {
        case .backoff(let backoff):
            if backoff.minimum < .zero { return "The minimum of the backoff must not be negative, but is \(backoff.minimum)." }
            if backoff.maximum < backoff.minimum {
                return "The maximum of the backoff must not be less than its minimum, but is \(backoff.maximum)."
            }
            guard backoff.factor >= 1, backoff.factor.isFinite else {
                return "The factor of the backoff must be at least 1, but is \(backoff.factor)."
            }
            if let retries = backoff.retries, retries < 0 { return "The retries of the backoff must not be negative, but are \(retries)." }
        case .delays(let delays):
            if let delay = delays.first(where: { $0 < .zero }) {
                return "The delays of the retry policy must not be negative, but one is \(delay)."
            }
        case .none, .custom: break
        }
        return nil
    }

    private var pluginProblem: String? {
        let names = self.plugins.map(\.name)
        if let index = names.indices.first(where: { names[..<$0].contains(names[$0]) }) {
            return "The plugins contain \(names[index]) twice."
        }
        let joining = PrimusPluginSet(self.plugins).intersection([.multiplex, .substream])
        if self.customParser != nil, !joining.isEmpty {
            return "The plugins \(joining.names.joined(separator: " and ")) need a parser of Primus. Remove them, or the customParser."
        }
        return nil
    }

    /// Why the transformer or the parser of the configuration aren't those of a server; `nil` if they are. The server would only be silent.
    func contradiction(to spec: PrimusSpec) -> String? {
        func problem(_ setting: String, _ ours: String, _ theirs: String) -> String {
            "The server \(self.endpoint) has the \(setting) \(Excerpt.of(theirs, limit: 100)), not \(ours). Set \(setting) to nil, or, if the "
                + "specification of the server is wrong, the detection to off."
        }
        if self.customTransformer == nil, !self.transformerIsDefault, let transformer = self.transformer, transformer != spec.transformer,
            !(transformer.isPlain && spec.transformer.isPlain)
        {
            return problem("transformer", transformer.description, spec.transformer.description)
        }
        if self.customParser == nil, let parser = self.parser, parser != spec.parser {
            return problem("parser", parser.description, spec.parser.description)
        }
        return nil
    }

    /// Why a transformer and a parser can't be used; `nil` if they can.
    func combinationProblem(_ transformer: PrimusTransformerKind?, _ parser: PrimusParserKind?) -> String? {
        if self.customTransformer == nil {
            switch transformer {
            case .browserchannel?:
                return "The transformer browserchannel isn't supported. Use another transformer on the server, such as websockets."
            case .custom(let name)?:
                return
                    "The transformer \(Excerpt.of(name, limit: 100)) isn't built in. Set customTransformer to an implementation of it."
            default: break
            }
        }
        if !self.allowedTransports.contains(.webSockets) {
            let name = self.customTransformer?.name ?? transformer.flatMap { $0.hasPolling ? nil : $0.description }
            if let name {
                return
                    "The transformer \(Excerpt.of(name, limit: 100)) has WebSockets only. Allow webSockets, or use engine.io or sockjs on the "
                    + "server."
            }
        }
        if self.customParser == nil, case .custom(let name)? = parser {
            return "The parser \(Excerpt.of(name, limit: 100)) isn't built in. Set customParser to an implementation of it."
        }
        guard self.customTransformer == nil, self.customParser == nil, let transformer, let parser else { return nil }
        return transformer.rejection(of: parser)
    }
}

extension PrimusConfiguration: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("endpoint", self.endpoint), ("transformer", self.transformer), ("parser", self.parser), ("detection", self.detection),
            ("allowedTransports", self.allowedTransports), ("headers", self.headers), ("credentials", Redacted.optional(self.credentials)),
            ("requestURL", Redacted.optional(self.requestURL)), ("connectTimeout", self.connectTimeout),
            ("silenceLimit", self.silenceLimit), ("strategies", self.strategies), ("plugins", self.plugins.map(\.name)),
        ]
    }
}
