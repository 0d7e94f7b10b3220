public import RealtimeCore

/// An HTTP/1.1 client on the package's own sockets.
///
/// After a response, the transport keeps the connection open for further requests to the same origin, within its ``KeepAliveLimits``.
/// Requests that are in progress at the same time use different connections. Clients that share a transport share its connections. Idle
/// connections are closed when the last copy of the transport is released.
///
/// The transport doesn't follow redirects or store cookies, so a request is sent only to its own endpoint.
public struct SocketHTTPTransport: HTTPExchangeTransport {
    private let connector: SocketConnector
    /// `nil` if keep-alive is off.
    let pool: ConnectionPool?
    private let poolReference: ConnectionPoolReference?

    /// Creates a transport.
    ///
    /// All transports share one thread for their connections.
    ///
    /// - Parameters:
    ///   - tls: The TLS settings of `https` connections.
    ///   - proxy: The proxy to connect through. The default is none.
    ///   - keepAlive: The connections to keep open after a response. Pass ``KeepAliveLimits/off`` for a new connection for each request.
    public init(
        tls: TLSConfiguration = TLSConfiguration(), proxy: ProxyConfiguration = .none, keepAlive: KeepAliveLimits = KeepAliveLimits()
    ) {
        self.init(tls: tls, proxy: proxy, keepAlive: keepAlive, loop: .shared)
    }

    package init(
        tls: TLSConfiguration = TLSConfiguration(), proxy: ProxyConfiguration = .none, keepAlive: KeepAliveLimits = KeepAliveLimits(),
        loop: EventLoop,
        resolver: any HostResolver = SystemResolver.shared
    ) {
        self.connector = SocketConnector(loop: loop, resolver: resolver, proxy: proxy, tls: tls)
        self.pool = keepAlive.isOff ? nil : ConnectionPool(keepAlive, loop)
        self.poolReference = self.pool.map { ConnectionPoolReference($0) }
    }

    /// Creates an exchange.
    ///
    /// The head of the response may arrive while the body of the request is still being sent. Sending then continues.
    /// The request's `connectTimeout` applies until the connection is established, including the proxy and TLS. Its `idleTimeout` applies
    /// while no bytes are sent or received. It doesn't apply while reading is paused.
    ///
    /// If the server closes a connection that was idle before it sends any byte of the response, a request whose `isRepeatable` is `true` is
    /// sent once more, on a new connection.
    ///
    /// The exchange ends with the error `unsupported` if the request can't be sent: the scheme of the endpoint isn't `http` or `https`, a
    /// header field contains a line break, or there is a `Transfer-Encoding` field.
    ///
    /// - Parameters:
    ///   - request: The request to send.
    ///   - id: The ID of the exchange in calls to `events`.
    ///   - events: The object that receives the events, on the thread of the transports.
    public func makeExchange(_ request: HTTPRequest, id: ExchangeID, events: any HTTPExchangeEvents) -> any HTTPExchange {
        HTTPClientExchange(request, over: self.connector, self.poolReference, id, events)
    }
}
