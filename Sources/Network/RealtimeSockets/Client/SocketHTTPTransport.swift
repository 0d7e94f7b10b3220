public import RealtimeCore

/// An HTTP/1.1 client on the package's own sockets.
///
/// Each request uses a new connection, which closes after the response. The transport doesn't follow redirects or store cookies, so
/// a request is sent only to its own endpoint.
public struct SocketHTTPTransport: HTTPTransport {
    private let connector: SocketConnector

    /// Creates a transport.
    ///
    /// All transports share one thread for their connections.
    ///
    /// - Parameters:
    ///   - tls: The TLS settings of `https` connections.
    ///   - proxy: The proxy to connect through. The default is none.
    public init(tls: TLSConfiguration = TLSConfiguration(), proxy: ProxyConfiguration = .none) {
        self.init(tls: tls, proxy: proxy, loop: .shared)
    }

    package init(
        tls: TLSConfiguration = TLSConfiguration(), proxy: ProxyConfiguration = .none, loop: EventLoop,
        resolver: any HostResolver = SystemResolver.shared
    ) {
        self.connector = SocketConnector(loop: loop, resolver: resolver, proxy: proxy, tls: tls)
    }

    /// Sends a request and waits for the head of the response.
    ///
    /// The head may arrive while the body of the request is still being sent. Sending then continues.
    /// The request's `connectTimeout` applies until the connection is established, including the proxy and TLS. Its `idleTimeout` applies
    /// while no bytes are sent or received. It doesn't apply while the transport has stopped reading because the body is read too slowly.
    ///
    /// - Parameter request: The request to send.
    /// - Returns: The head of the response, and the body, which is read as it arrives. Releasing the body closes the connection.
    /// - Throws: A `TransportError` with the code
    ///   - `unsupported` if the request can't be sent: the scheme of the endpoint isn't `http` or `https`, a header field contains a line
    ///     break, or there is a `Transfer-Encoding` field,
    ///   - `cancelled` if the task is cancelled, which closes the connection.
    ///
    ///   Otherwise, the error that prevented the connection or the response.
    public func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
        let exchange = HTTPClientExchange(request, loop: self.connector.loop)
        let head = try await exchange.head(through: self.connector)
        return HTTPStreamedResponse(head, body: Body(exchange))
    }

    private final class Body: HTTPBody {
        private let exchange: HTTPClientExchange

        init(_ exchange: HTTPClientExchange) {
            self.exchange = exchange
        }

        func next() async throws(TransportError) -> [UInt8]? { try await self.exchange.next() }

        deinit { self.exchange.abandon() }
    }
}
