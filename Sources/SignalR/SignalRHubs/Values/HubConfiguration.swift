public import RealtimeCore
public import RealtimeTransports
public import SignalRWire

/// The settings of a client.
///
/// ```swift
/// var configuration = try HubConfiguration(url: "https://example.org/chat")
/// configuration.accessToken = { try await session.token() }
/// configuration.retry = .standard
/// let client = HubClient(configuration)
/// ```
/// Values are validated when the client is started. To change the settings of a client that exists, use ``HubClient/update(_:)``.
public struct HubConfiguration: Sendable {
    /// Returns an access token, or `nil` for a request without one. Called in a task, once for each attempt to connect, once more if the
    /// server rejects the token with the status 401, and once for each refresh of the authentication, which needs a new token.
    public typealias AccessTokenProvider = @Sendable () async throws -> String?

    /// The URL of the hub, with any of the schemes `http`, `https`, `ws` and `wss`.
    public var endpoint: Endpoint
    /// The encoding of messages, which the server must support. A client keeps it for life.
    public var hubProtocol = HubProtocolType.json { didSet { self.kept = Kept() } }
    /// The kinds of transports that the client may use. The default is all of them.
    ///
    /// The server determines the order. If one fails to open, the client negotiates again and opens the next one, in the same attempt to connect.
    /// Server-Sent Events carry text only, so they aren't used with MessagePack.
    public var allowedTransports = HubTransportKinds.all
    /// Whether to connect to the URL of the hub without a negotiation. ``allowedTransports`` must be exactly
    /// ``HubTransportKinds/webSockets``. The connection then has no ID.
    public var skipsNegotiation = false
    /// Header fields for all requests. They replace fields of the client with the same name.
    public var headers: HTTPHeaders = [:]
    /// Whether ``headers``, and the token of ``accessToken``, are sent to another origin as well, to which the server redirects the negotiation.
    /// By default, they aren't, as they may admit to anything at your own origin. Microsoft's clients send them.
    ///
    /// A token that the server names with the redirect, as Azure SignalR Service does, replaces yours in any case. A redirect of HTTP, with a
    /// status such as 307, takes along the header fields at most, without `Authorization` and cookies.
    public var sendsHeadersAfterRedirect = false
    /// The source of access tokens, which are sent as `Authorization: Bearer`; `nil` for none.
    public var accessToken: AccessTokenProvider?
    /// Whether the client refreshes the authentication of a connection before it expires, if the server reports a lifetime.
    ///
    /// Requires a negotiation, and a server with authentication refresh, such as .NET 11. A failed refresh isn't repeated; see
    /// ``HubUpdate/authenticationRefreshFailed(_:)`` and ``HubClient/refreshAuthentication()``.
    public var refreshesAuthentication = false
    /// The time before its expiration at which the client refreshes the authentication. If this is more than half of the lifetime, the client
    /// refreshes it after half of it. The default is 5 minutes.
    public var refreshBeforeExpiration = Duration.seconds(300)
    /// The time without sent messages after which the client sends a ping. Zero for never. The default is 15 seconds.
    public var keepAliveInterval = Duration.seconds(15)
    /// The time without received messages after which the connection counts as lost. It should be at least twice the keep-alive interval of
    /// the server. Zero for never. The default is 30 seconds.
    public var serverTimeout = Duration.seconds(30)
    /// The time limit for the answer to a poll over long polling. It must be longer than the poll timeout of the server, which is 90 seconds
    /// by default. After it, the connection counts as lost: the answer may have been, with messages. The default is 100 seconds.
    public var pollTimeout = Duration.seconds(100)
    /// The time limit for the server's response to the handshake, and for opening a transport if another one can follow. The default is
    /// 15 seconds.
    public var handshakeTimeout = Duration.seconds(15)
    /// The time limit of an attempt to connect: the access token, the negotiation, the transport and the handshake. It starts anew with each
    /// transport. It also applies to a refresh of the authentication, and to each request with messages of the client. The default is
    /// 100 seconds.
    public var connectTimeout = Duration.seconds(100)
    /// Whether and when to reconnect after a loss. By default, a client doesn't reconnect.
    public var retry = HubRetryPolicy.none
    /// Whether and how a connection survives the loss of its WebSocket. By default, it doesn't: each loss is followed by ``retry``.
    ///
    /// Requires a negotiation, WebSockets, and a server that supports it: in ASP.NET Core, set `AllowStatefulReconnects` for the hub. The
    /// connections to other servers, and over other transports, can't be resumed.
    public var statefulReconnect: HubStatefulReconnect?
    /// Whether a start whose first attempt fails is retried, as ``retry`` says. If not, the start fails.
    public var retriesFirstStart = false
    /// The time limit of calls that have none of their own; `nil`, the default, for no limit.
    public var callTimeLimit: Duration?
    /// The maximum size of a received message, in bytes. The default is 16 MiB.
    public var messageLimit = 16 << 20
    /// The maximum number of the server's calls, and of the bytes of their arguments, that wait for handlers before the client stops
    /// reading. It doesn't stop while a call waits for its result. A client keeps this limit for life.
    public var handlerBuffer = HubBufferLimit() { didSet { self.kept = Kept() } }
    /// The maximum number of items of one stream, and of their bytes, that wait for the application before the client stops reading.
    public var streamBuffer = HubBufferLimit()
    /// Whether the server may write the names of the client's methods in another case than the client, as with Microsoft's client for
    /// JavaScript. By default, names are compared exactly, as in .NET. A client keeps this setting for life.
    public var ignoresCaseOfMethods = false { didSet { self.kept = Kept() } }
    /// The WebSocket and HTTP transports that the client uses, its source of time, and the monitor of the network path. A client keeps its
    /// transports for life.
    public var transports: Transports { didSet { self.kept = Kept() } }
    /// The destination of log messages. By default, warnings and errors go to the unified log on Apple platforms and to standard error
    /// elsewhere. With the minimum level `trace`, every message is logged, without tokens. A client keeps its log for life.
    public var log = LogSink.standard { didSet { self.kept = Kept() } }

    /// Where access tokens come from, in the words of the application's user, for messages.
    package var accessTokenSource = HubAccessTokenSource.closure("accessToken")

    /// Receives what the client's connections over HTTP do, as a `TracingTransport` reports it for WebSockets. A client keeps it for life.
    package var messagesOverHTTPTrace: ConnectionTrace? { didSet { self.kept = Kept() } }

    /// Identifies the values that a client keeps for life, which can't be compared. Configurations with the same object have the same ones.
    private final class Kept: Sendable {}
    private var kept = Kept()

    /// Creates settings with the default values.
    ///
    /// - Parameter url: The URL of the hub, such as `https://example.org/chat`.
    /// - Throws: A `TransportError` with the code `invalidURL`, which says what is wrong with the URL.
    public init(url: String) throws(TransportError) {
        self.init(try Endpoint(url))
    }

    /// Creates settings with the default values.
    ///
    /// - Parameters:
    ///   - endpoint: The URL of the hub.
    ///   - transports: The WebSocket and HTTP transports, for example the transports of an in-memory network.
    public init(_ endpoint: Endpoint, transports: Transports = .standard) {
        self.endpoint = endpoint
        self.transports = transports
    }

    /// Whether a client with the other configuration can change to this one.
    func keeps(_ other: Self) -> Bool { self.kept === other.kept }

    /// A description of the first invalid value, or `nil` if the configuration is valid. It doesn't contain the URL or a header field, which
    /// may contain credentials.
    var validationError: String? {
        if self.endpoint.validationError != nil { return "The host or the path of the URL is empty or contains an invalid character." }
        if self.allowedTransports.isDisjoint(with: .all) { return "The allowedTransports are empty. Allow at least one." }
        if self.skipsNegotiation, self.allowedTransports != .webSockets {
            return
                "The negotiation can only be skipped if the allowedTransports are exactly .webSockets, but they are \(self.allowedTransports)."
        }
        let limits = [
            ("handshakeTimeout", self.handshakeTimeout), ("connectTimeout", self.connectTimeout), ("pollTimeout", self.pollTimeout),
        ]
        for (name, limit) in limits + (self.callTimeLimit.map { [("callTimeLimit", $0)] } ?? []) where limit <= .zero {
            return "The \(name) must be greater than zero, but is \(limit)."
        }
        let intervals = [
            ("keepAliveInterval", self.keepAliveInterval), ("serverTimeout", self.serverTimeout),
            ("refreshBeforeExpiration", self.refreshBeforeExpiration),
        ]
        for (name, interval) in intervals where interval < .zero { return "The \(name) must not be negative, but is \(interval)." }
        switch self.retry {
        case .backoff(let backoff) where backoff.base < .zero || backoff.cap < .zero:
            return "The base and the cap of the backoff must not be negative."
        case .delays(let delays):
            if let delay = delays.first(where: { $0 < .zero }) {
                return "The delays of the retry policy must not be negative, but one is \(delay)."
            }
        case .none, .backoff, .custom: break
        }
        if let settings = self.statefulReconnect {
            if settings.bufferBytes < 1 {
                return "The bufferBytes of statefulReconnect must be at least 1, but are \(settings.bufferBytes)."
            }
            if settings.backlogLimit < 0 {
                return "The backlogLimit of statefulReconnect must not be negative, but is \(settings.backlogLimit)."
            }
            if settings.timeLimit <= .zero {
                return "The timeLimit of statefulReconnect must be greater than zero, but is \(settings.timeLimit)."
            }
        }
        if self.messageLimit <= 0 { return "The messageLimit must be at least 1 byte, but is \(self.messageLimit)." }
        for (name, buffer) in [("handlerBuffer", self.handlerBuffer), ("streamBuffer", self.streamBuffer)] {
            if buffer.count < 1 { return "The count of the \(name) must be at least 1, but is \(buffer.count)." }
            if buffer.bytes < 1 { return "The bytes of the \(name) must be at least 1, but are \(buffer.bytes)." }
        }
        return nil
    }

    /// The encoding of messages. Setting it selects the coders of .NET's defaults.
    package var format: HubFormat {
        get { self.hubProtocol.coder.format }
        set { self.hubProtocol = HubProtocolType(HubValueCoder(newValue)) }
    }
}

extension HubConfiguration: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("endpoint", self.endpoint), ("format", self.format), ("allowedTransports", self.allowedTransports),
            ("skipsNegotiation", self.skipsNegotiation), ("headers", self.headers),
            ("accessToken", Redacted.optional(self.accessToken)), ("keepAliveInterval", self.keepAliveInterval),
            ("serverTimeout", self.serverTimeout), ("connectTimeout", self.connectTimeout),
            ("refreshesAuthentication", self.refreshesAuthentication),
            ("pollTimeout", self.pollTimeout), ("statefulReconnect", self.statefulReconnect),
        ]
    }
}

/// The size of a buffer at which the client stops reading until the application has caught up.
public struct HubBufferLimit: Hashable, Sendable {
    /// The maximum number of invocations or items.
    public var count: Int
    /// The maximum size of their values in bytes. A single one may be larger.
    public var bytes: Int

    /// Creates a limit.
    public init(count: Int = 1024, bytes: Int = 1 << 20) {
        self.count = count
        self.bytes = bytes
    }
}

/// Whether and when to reconnect. A client waits for the delay first, and then tries.
public enum HubRetryPolicy: Sendable {
    /// Never: after a loss, the client stops.
    case none
    /// The delays before the attempts. After the last one, the client stops.
    case delays([Duration])
    /// Unlimited reconnects, after random delays that grow.
    case backoff(Backoff)
    /// Asks the application, in a task, after the loss and after each attempt that failed.
    ///
    /// The closure returns the delay before the next attempt. The client stops if it returns `nil` or throws. It may wait, for example for
    /// a network: the client waits for the decision without a time limit, and meanwhile neither connects nor counts as connected.
    /// Stopping or releasing the client doesn't wait for the closure, but cancels its task.
    case custom(@Sendable (HubRetryContext) async throws -> Duration?)

    /// Four attempts after 0, 2, 10 and 30 seconds, as in other clients.
    public static let standard = HubRetryPolicy.delays([.zero, .seconds(2), .seconds(10), .seconds(30)])
}

/// The input of a policy for reconnects.
public struct HubRetryContext: Hashable, Sendable {
    /// The number of attempts since the loss.
    public var retryCount: Int
    /// The time since the loss.
    public var elapsed: Duration
    /// Why the connection was lost, or why the last attempt failed.
    public var reason: HubError

    /// Creates a context, for a test of a policy.
    public init(retryCount: Int, elapsed: Duration, reason: HubError) {
        self.retryCount = retryCount
        self.elapsed = elapsed
        self.reason = reason
    }
}
