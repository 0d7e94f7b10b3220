public import RealtimeCore

/// HTTP/1.1 over the package's own sockets.
///
/// Each request has a connection of its own, which ends with its answer. Redirects are not followed and no cookies are
/// kept: what a request carries goes to the endpoint it names, and nowhere else.
public struct SocketHTTPTransport: HTTPTransport {
    private let connector: SocketConnector

    /// A transport with these rules for TLS. Connections of different transports share one thread.
    public init(tls: TLSConfiguration = TLSConfiguration()) {
        self.init(tls: tls, loop: .shared)
    }

    package init(tls: TLSConfiguration = TLSConfiguration(), loop: EventLoop, resolver: any HostResolver = SystemResolver.shared) {
        self.connector = SocketConnector(loop: loop, resolver: resolver, tls: tls)
    }

    /// Sends the request and returns when the head of the answer is there, also when the request's body is still being
    /// sent.
    ///
    /// It throws `unsupported` for a request that cannot be sent, such as one to `ws`, with a line break in a field, or
    /// with a `Transfer-Encoding`. `connectTimeout` counts until the connection is there, TLS
    /// included. `idleTimeout` counts while the server neither takes nor sends anything; not while the body's reader is
    /// behind and the transport has stopped to read for that reason.
    public func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
        let exchange = HTTPClientExchange(request, loop: self.connector.loop)
        let head = try await exchange.head(through: self.connector)
        return HTTPStreamedResponse(head, body: Body(exchange))
    }

    /// Dropping it ends the connection.
    private final class Body: HTTPBody {
        private let exchange: HTTPClientExchange

        init(_ exchange: HTTPClientExchange) {
            self.exchange = exchange
        }

        func next() async throws(TransportError) -> [UInt8]? { try await self.exchange.next() }

        deinit { self.exchange.leave() }
    }
}
