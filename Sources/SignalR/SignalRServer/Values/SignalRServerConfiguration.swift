/// The timing and the limits of a server. The defaults are the same as in ASP.NET Core where it has the same setting.
public struct SignalRServerConfiguration: Sendable, Hashable {
    /// The time limit from the opening of a connection to the client's handshake. Then the server closes the connection.
    public var handshakeTimeout: Duration = .seconds(15)
    /// How long the server sends nothing to a client before it sends a ping.
    public var keepAliveInterval: Duration = .seconds(15)
    /// How long a client may send nothing before the server closes its connection and allows it to reconnect.
    public var clientTimeout: Duration = .seconds(30)
    /// How long a client may take to connect after a negotiation. Then the connection token expires.
    public var connectTimeout: Duration = .seconds(15)
    /// How long the server waits for the hooks ``SignalRServerHooks/authenticate`` and ``SignalRServerHooks/approveRefresh``. Then it
    /// responds with the status 503.
    public var authenticationTimeout: Duration = .seconds(10)
    /// Whether clients may refresh their authentication without a reconnect, as with `EnableAuthenticationRefresh` in .NET 11; see
    /// ``SignalRServerHooks/approveRefresh``.
    public var allowsAuthenticationRefresh = false
    /// The time limit for the result of a client's method, unless the call states another one.
    public var clientResultTimeout: Duration = .seconds(30)
    /// The maximum size of a message from a client, in bytes. A larger message ends the connection.
    ///
    /// A WebSocket message may contain several. One of more than 1 MiB and twice this size ends the connection, which bounds the memory for a
    /// WebSocket message that hasn't arrived completely. The listener may have a smaller limit; see `ListenerLimits.messageBytes`.
    public var messageLimit = 32 << 10
    /// The number of invocations of a connection that wait for earlier ones, at which the server stops reading from the connection. The
    /// server resumes reading at half of that number.
    ///
    /// While a method waits for a result of the same client, the server continues to read. If four times as many invocations wait then, the
    /// server rejects further ones with an error.
    public var pendingInvocationLimit = 1_000
    /// The number of bytes in the arguments of these invocations, at which the server stops reading from the connection. What is said of
    /// ``pendingInvocationLimit`` applies here as well.
    public var invocationBufferLimit = 256 << 10
    /// The number of invocations of a connection that run at the same time. Streaming invocations, which return a stream or receive one,
    /// aren't counted and don't delay others.
    public var parallelInvocations = 1
    /// The maximum number of streams of a connection, in both directions together. The server rejects an invocation that exceeds it.
    public var streamLimit = 100
    /// The number of bytes that wait in the streams from a client to be read by methods, at which the server stops reading from the
    /// connection. The server resumes reading at half of that number.
    ///
    /// While a method waits for a result of the same client, the server continues to read. If four times as many bytes wait then, the stream
    /// that exceeds the limit fails.
    public var streamBufferLimit = 256 << 10
    /// The maximum number of connections. The server responds to further ones with the status 503.
    public var connectionLimit = Int.max
    /// The maximum number of negotiations whose clients haven't connected yet. With a further one, the token of the oldest one expires.
    public var negotiationLimit = 10_000
    /// Whether web pages of any origin may use the hubs of a server on a loopback address.
    ///
    /// By default, such a server responds to a request with the status 403 if its field `Origin` names another host than a loopback address or
    /// `localhost`, with any port. Otherwise, every page that a developer visits could call the hubs of a server on the same machine. Set it if
    /// a proxy on the same machine passes on the requests of pages of another host. It has no effect on other servers, whose hooks can check
    /// the field.
    public var allowsForeignOrigins = false
    /// Whether clients receive the descriptions of all errors that methods throw, and not only the messages of ``HubException``.
    public var sendsDetailedErrors = false

    /// Creates a configuration with the default values.
    public init() {}
}
