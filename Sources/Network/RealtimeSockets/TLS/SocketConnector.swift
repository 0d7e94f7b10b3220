import RealtimeSystem
import RealtimeCore

/// The shared parts of a client transport's connections: the event loop, the resolver, the proxies, and the TLS context.
final class SocketConnector: Sendable {
    let loop: EventLoop
    private let resolver: any HostResolver
    private let proxies: ProxyRules
    private let tls: TLSConfiguration
    private let context = Lock<TLSContext?>(nil)

    init(loop: EventLoop, resolver: any HostResolver, proxy: ProxyConfiguration = .none, tls: TLSConfiguration) {
        self.loop = loop
        self.resolver = resolver
        self.proxies = ProxyRules(proxy)
        self.tls = tls
    }

    /// Returns the options to connect to an endpoint.
    ///
    /// - Throws: An error if the endpoint's host or its proxy is invalid, or if it requires TLS and the TLS context cannot be created.
    func options(for endpoint: Endpoint, timeout: Duration) throws(TransportError) -> ConnectOptions {
        try self.options(for: endpoint, through: try self.proxy(for: endpoint), timeout: timeout)
    }

    /// Returns the proxy to connect through, or `nil` to connect directly.
    ///
    /// - Throws: An error if the endpoint's host or its proxy is invalid.
    func proxy(for endpoint: Endpoint) throws(TransportError) -> ProxyServer? {
        if let error = endpoint.validationError { throw error }
        return try self.proxies.proxy(for: endpoint)
    }

    /// Returns the options to connect to an endpoint through the proxy for it.
    func options(for endpoint: Endpoint, through proxy: ProxyServer?, timeout: Duration) throws(TransportError) -> ConnectOptions {
        guard endpoint.isSecure else { return ConnectOptions(timeout: timeout, resolver: self.resolver, proxy: proxy) }
        let context = try self.sharedContext()
        let (host, peer) = (endpoint.host, ConnectAttempt.target(endpoint.host, endpoint.port))
        return ConnectOptions(timeout: timeout, resolver: self.resolver, proxy: proxy) { descriptor throws(TransportError) in
            try TLSSession(client: context, descriptor: descriptor, host: host, peer: peer)
        }
    }

    /// Creates the context with the first connection that needs it, and retries after a failure: OpenSSL may have been installed since.
    private func sharedContext() throws(TransportError) -> TLSContext {
        if let context = self.context.withLock({ $0 }) { return context }
        let created = try TLSContext.client(self.tls)
        return self.context.withLock { context in
            if context == nil { context = created }
            return context ?? created
        }
    }
}
