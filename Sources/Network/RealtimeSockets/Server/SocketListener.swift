import RealtimeSystem
public import RealtimeCore

/// An HTTP/1.1 and WebSocket server on a TCP port, with optional TLS.
///
/// ```swift
/// let listener = SocketListener(port: 8080)
/// let address = try await server.start(on: listener)
/// ```
///
/// The listener calls its handler on its own threads, which also perform the I/O of all connections: a slow call delays every
/// connection of its thread. Requests of one connection are delivered in order, each after the response to the previous one has ended.
public final class SocketListener: Listener {
    private let host: String
    private let port: Int
    private let tls: TLSServerConfiguration?
    private let limits: ListenerLimits
    private let loopCount: Int
    private let sharedLoops: [EventLoop]
    private let lifecycle = Lock(Lifecycle<RunningListener>())

    /// Creates a listener. It accepts connections after ``start(_:)`` has been called.
    ///
    /// - Parameters:
    ///   - host: The numeric IP address to listen on. Use `0.0.0.0` for all IPv4 addresses of the machine, and `::` for its IPv6
    ///     addresses as well.
    ///   - port: The port. If it is 0, the system chooses a free port, which ``start(_:)`` returns.
    ///   - tls: The certificate and key to serve `https` and `wss`, or `nil` to serve `http` and `ws`.
    ///   - limits: The limits to enforce on clients.
    ///   - loops: The number of threads that share the connections. One thread handles tens of thousands of messages per second.
    public convenience init(
        host: String = "127.0.0.1", port: Int = 0, tls: TLSServerConfiguration? = nil, limits: ListenerLimits = ListenerLimits(),
        loops: Int = 1
    ) {
        self.init(host: host, port: port, tls: tls, limits: limits, loopCount: max(1, loops), on: [])
    }

    /// Creates a listener on existing loops, which it doesn't shut down.
    package convenience init(
        host: String = "127.0.0.1", port: Int = 0, tls: TLSServerConfiguration? = nil, limits: ListenerLimits = ListenerLimits(),
        on loops: [EventLoop]
    ) {
        self.init(host: host, port: port, tls: tls, limits: limits, loopCount: 0, on: loops)
    }

    private init(
        host: String, port: Int, tls: TLSServerConfiguration?, limits: ListenerLimits, loopCount: Int, on loops: [EventLoop]
    ) {
        self.host = host
        self.port = port
        self.tls = tls
        self.limits = limits
        self.loopCount = loopCount
        self.sharedLoops = loops
    }

    /// Starts accepting connections on the port.
    ///
    /// A stopped listener can be started again.
    ///
    /// - Parameter handler: The object that receives requests and connections. The listener retains it until ``stop()`` returns.
    /// - Returns: The address that the listener is bound to, with the actual port if the listener was created with port 0.
    /// - Throws: A `TransportError` with the code
    ///   - `addressInUse` if the port is in use,
    ///   - `tlsUnavailable` if TLS is configured but OpenSSL isn't installed,
    ///   - `invalidTLSConfiguration` if the certificate or key is invalid,
    ///   - `unsupported` if the listener is already running,
    ///   - `closed` if ``stop()`` was called before the listener started,
    ///   - `system` if the system doesn't allow the listener to bind the address, or is out of descriptors or memory.
    public func start(_ handler: any ListenerHandler) async throws(TransportError) -> ListenerAddress {
        guard self.lifecycle.withLock({ $0.start() }) else {
            throw TransportError(.unsupported, "The listener is already running. Stop it first, or create another one.")
        }
        let listener: RunningListener
        do throws(TransportError) {
            listener = try self.makeListener(handler)
        } catch {
            self.ended()
            throw error
        }
        guard self.lifecycle.withLock({ $0.started(listener) }) else {
            await listener.stop()
            self.ended()
            throw TransportError(.closed, "The listener was stopped while it was starting.")
        }
        return ListenerAddress(host: listener.address.host, port: listener.address.port, isSecure: self.tls != nil)
    }

    private func ended() {
        for waiter in self.lifecycle.withLock({ $0.ended() }) { waiter.fulfill(())?.resume() }
    }

    private func makeListener(_ handler: any ListenerHandler) throws(TransportError) -> RunningListener {
        var options = TCPListener.Options()
        options.host = self.host
        options.port = self.port
        options.limit = max(1, self.limits.connections)
        if let tls = self.tls {
            let context = try TLSContext.server(tls)
            options.security = { (descriptor) throws(TransportError) in try TLSSession(server: context, descriptor: descriptor) }
        }
        var loops: [EventLoop] = []
        do throws(TransportError) {
            for number in 0..<self.loopCount { loops.append(try EventLoop("realtime-srv-\(number)")) }
            return try RunningListener(options, loops: self.sharedLoops + loops, own: loops, handler, self.limits)
        } catch {
            for loop in loops { loop.shutdown() }
            throw error
        }
    }

    /// Stops the listener.
    ///
    /// It stops accepting connections, closes every WebSocket with code 1001, and lets pending responses end. It returns when every
    /// connection is closed and its threads have exited. Connections that remain after ``ListenerLimits/shutdownTimeout`` are dropped.
    ///
    /// Cancelling the task has no effect. If the listener is being started or stopped, the call waits until it has stopped; if it isn't
    /// running, the call returns immediately.
    public func stop() async {
        let waiter = Waiter<Void>()
        switch self.lifecycle.withLock({ $0.stop(waiter) }) {
        case .none: break
        case .wait: await waiter.value()
        case .stop(let listener):
            await listener.stop()
            self.ended()
        }
    }
}
