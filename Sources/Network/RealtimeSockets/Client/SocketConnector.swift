import RealtimeSystem
import RealtimeCore

/// What all the connections of one transport share: the loop, the look-up of names, the TLS context, the mask keys.
final class SocketConnector: Sendable {
    let loop: EventLoop
    let keys = MaskKeyPool()
    private let resolver: any HostResolver
    private let tls: TLSConfiguration
    private let context = Lock<TLSContext?>(nil)

    init(loop: EventLoop, resolver: any HostResolver, tls: TLSConfiguration) {
        self.loop = loop
        self.resolver = resolver
        self.tls = tls
    }

    /// It throws when the endpoint's host is none, and when it wants TLS and there is none.
    func options(for endpoint: Endpoint, timeout: Duration) throws(TransportError) -> ConnectOptions {
        if let error = endpoint.validationError { throw error }
        guard endpoint.isSecure else { return ConnectOptions(timeout: timeout, resolver: self.resolver) }
        let context = try self.sharedContext()
        let host = endpoint.host
        return ConnectOptions(timeout: timeout, resolver: self.resolver) { descriptor throws(TransportError) in
            try TLSSession(client: context, descriptor: descriptor, host: host)
        }
    }

    /// Made with the first connection that needs it, and again when that failed: a library may have been installed.
    private func sharedContext() throws(TransportError) -> TLSContext {
        if let context = self.context.withLock({ $0 }) { return context }
        let made = try TLSContext.client(self.tls)
        return self.context.withLock { context in
            if context == nil { context = made }
            return context ?? made
        }
    }
}
