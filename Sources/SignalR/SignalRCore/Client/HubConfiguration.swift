public import RealtimeCore
public import RealtimeTransports
package import SignalRWire

/// The settings of a client.
///
/// ```swift
/// var configuration = try HubConfiguration(url: "https://example.org/chat")
/// configuration.accessToken = { try await session.token() }
/// configuration.retry = .standard
/// let client = HubClient(configuration)
/// ```
public struct HubConfiguration: Sendable {
    /// Returns an access token, or `nil` for a request without one. Called in a task, once for each attempt to connect, once more if the
    /// server rejects the token with the status 401, and once for each refresh of the authentication, which needs a new token.
    public typealias AccessTokenProvider = @Sendable () async throws -> String?

    /// The URL of the hub, with any of the schemes `http`, `https`, `ws` and `wss`.
    public var endpoint: Endpoint
    /// The encoding of messages, which the server must support.
    public var hubProtocol = HubProtocolType.json
    /// Whether to connect to the URL of the hub without a negotiation. The connection then has no ID.
    public var skipsNegotiation = false
    /// Header fields for all requests. They replace fields of the client with the same name.
    public var headers: HTTPHeaders = [:]
    /// The source of access tokens, which are sent as `Authorization: Bearer`; `nil` for none.
    public var accessToken: AccessTokenProvider?
    /// Whether the client refreshes the authentication of a connection before it expires, if the server reports a lifetime.
    ///
    /// Requires a negotiation, and a server with authentication refresh, such as .NET 11. A failed refresh isn't repeated; see
    /// ``HubUpdate/authenticationRefreshFailed(_:)`` and ``HubClient/refreshAuthentication()``.
    public var refreshesAuthentication = false
    /// How long before its end the authentication is refreshed. If this is more than half of the lifetime, it is refreshed after half of it.
    public var refreshBeforeExpiration = Duration.seconds(300)
    /// The time without sent messages after which the client sends a ping. Zero for never.
    public var keepAliveInterval = Duration.seconds(15)
    /// The time without received messages after which the connection counts as lost. It should be at least twice the keep-alive interval of
    /// the server. Zero for never.
    public var serverTimeout = Duration.seconds(30)
    /// The time limit for the server's response to the handshake.
    public var handshakeTimeout = Duration.seconds(15)
    /// The time limit of an attempt to connect: the access token, the negotiation, the WebSocket and the handshake. Also that of a refresh of
    /// the authentication.
    public var connectTimeout = Duration.seconds(100)
    /// Whether and when to reconnect after a loss.
    public var retry = HubRetryPolicy.none
    /// Whether a start whose first attempt fails is retried, as ``retry`` says. If not, the start fails.
    public var retriesFirstStart = false
    /// The time limit of calls that have none of their own; `nil` for no limit.
    public var callTimeLimit: Duration?
    /// The maximum size of a received message, in bytes.
    public var messageLimit = 16 << 20
    /// How many invocations by the server, with how many bytes of arguments, wait for the application's handlers before the client stops
    /// reading. It doesn't stop while a call waits for its result.
    public var handlerBuffer = HubBufferLimit()
    /// The same for the items of one stream.
    public var streamBuffer = HubBufferLimit()
    /// Whether the server may write the names of the client's methods in another case than the client, as with Microsoft's client for
    /// JavaScript. By default, names are compared exactly, as in .NET.
    public var ignoresCaseOfMethods = false
    /// The WebSocket and HTTP transports that the client uses, and the monitor of the network path.
    public var transports: Transports
    /// The destination of log messages.
    public var log = LogSink.standard

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
    ///   - transports: The WebSocket and HTTP transports, for example those of an in-memory network.
    public init(_ endpoint: Endpoint, transports: Transports = .standard) {
        self.endpoint = endpoint
        self.transports = transports
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
            ("endpoint", self.endpoint), ("format", self.format), ("skipsNegotiation", self.skipsNegotiation), ("headers", self.headers),
            ("accessToken", Redacted.optional(self.accessToken)), ("keepAliveInterval", self.keepAliveInterval),
            ("serverTimeout", self.serverTimeout), ("connectTimeout", self.connectTimeout),
            ("refreshesAuthentication", self.refreshesAuthentication),
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

/// What a policy for reconnects may consider.
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
