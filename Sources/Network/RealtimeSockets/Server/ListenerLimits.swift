/// The limits that a ``SocketListener`` enforces on its clients.
///
/// Exceeding a limit affects only the client that does so: it receives the status named here, or its connection is closed.
public struct ListenerLimits: Sendable, Hashable {
    /// The maximum number of concurrent connections. The default is 65,536.
    ///
    /// Further connections wait in the operating system's queue until another one closes.
    public var connections = 65_536
    /// The maximum size of a request head, in bytes. The default is 64 KiB.
    ///
    /// Each line may use a quarter of it. The listener responds with status 431 to a larger head, and with 414 if the request target is
    /// too long.
    public var headBytes = 64 << 10
    /// The maximum size of a request body, in bytes. The default is 16 MiB, as that of a WebSocket message, since the body of a client
    /// without a WebSocket contains its messages.
    ///
    /// The listener responds with status 413 to a larger body. The listener's handler may have a smaller limit.
    public var bodyBytes = 16 << 20
    /// The maximum size of a WebSocket message, in bytes. The default is 16 MiB.
    ///
    /// The listener closes the WebSocket with code 1009 if a message is larger. The listener's handler may have a smaller limit, such as a
    /// server of a protocol with small messages.
    public var messageBytes = 16 << 20
    /// The time within which a request head must arrive. The default is 10 seconds.
    ///
    /// For the first request of a connection the time starts when the connection is accepted, and includes the TLS handshake. For later
    /// requests it starts with the first byte. When it elapses, the listener responds with status 408.
    public var headTimeout = Duration.seconds(10)
    /// The time within which a request body must arrive. The default is 30 seconds.
    ///
    /// When it elapses, the listener responds with status 408.
    public var bodyTimeout = Duration.seconds(30)
    /// The time within which a handler that decides later about a WebSocket upgrade must decide. The default is 10 seconds.
    ///
    /// When it elapses, the listener responds with status 503.
    public var upgradeTimeout = Duration.seconds(10)
    /// The time that an idle connection is kept open for the next request. The default is 75 seconds.
    ///
    /// It should be longer than the time for which a proxy or a load balancer in front of the listener keeps idle connections, often 60
    /// seconds. Otherwise, the listener may close a connection at the moment when the proxy sends a request, which the proxy then rejects,
    /// usually with status 502.
    ///
    /// A client that closes its side of the connection while it waits for a response counts as disconnected. It still receives a response
    /// that ends within this time, but at most within 5 seconds.
    public var keepAliveTimeout = Duration.seconds(75)
    /// The number of unsent bytes of a streamed response above which its connection is closed because the client reads too slowly. The
    /// default is 1 MiB.
    ///
    /// The limit applies to `HTTPResponder.write(_:)`. A single piece may be larger. A response that is sent as a whole, and what the handler
    /// writes before it returns, don't count. A server that sends more uses `HTTPResponder.send(_:)`, which waits, or
    /// `HTTPResponder.onWriting(_:)`, to learn when to write less.
    public var responseBacklogBytes = 1 << 20
    /// The time after which a client that reads nothing is disconnected. The default is 30 seconds.
    ///
    /// The timeout applies while more than 256 KiB of a streamed response (or ``responseBacklogBytes``, if that is less) are unsent, while a
    /// task waits in `HTTPResponder.send(_:)`, and after the end of a response until all of it has been sent. It applies to a WebSocket from
    /// the time when more than 256 KiB (or ``messageBacklogBytes``, if that is less) wait until all of them have been sent. Clients that read
    /// slowly stay connected.
    public var stallTimeout = Duration.seconds(30)
    /// The number of unsent bytes above which a WebSocket is closed because its client reads too slowly. The default is 1 MiB.
    ///
    /// The number includes the bytes that are being sent. A single message may be larger. Use `MessageEvents.writing(_:paused:)` to learn
    /// when to send less.
    ///
    /// The responses that a server sends while it handles a client's messages don't count. Instead, the listener stops reading from a
    /// client when more than 256 KiB of them are unsent, or more than this limit if it is less, until the client has read them.
    public var messageBacklogBytes = 1 << 20
    /// The time that ``SocketListener/stop()`` waits for responses to end and for WebSockets to close. The default is 5 seconds.
    ///
    /// When it elapses, the listener drops the remaining connections.
    public var shutdownTimeout = Duration.seconds(5)

    /// Creates limits with the default values.
    public init() {}

    var output: OutputLimits { OutputLimits(backlogBytes: max(0, self.messageBacklogBytes), stallTimeout: self.stallTimeout) }

    /// The limits of streamed responses.
    var responseOutput: OutputLimits {
        OutputLimits(backlogBytes: max(0, self.responseBacklogBytes), stallTimeout: self.stallTimeout)
    }

    var codecLimits: HTTPLimits {
        HTTPLimits(lineBytes: max(1, self.headBytes / 4), headBytes: self.headBytes, fields: HTTPLimits.server.fields)
    }
}
