import RealtimeSystem
public import RealtimeCore

/// Listens on a TCP port, and serves HTTP/1.1 and WebSockets there, with TLS if wanted.
///
/// ```swift
/// let listener = SocketListener(port: 8080)
/// let address = try await server.start(on: listener)
/// ```
///
/// The handler is called on the listener's threads, which wait for sockets meanwhile: a call that takes long holds up
/// every connection of its thread. Requests of one connection are handed over one after the other, the next one when
/// the one before has been answered.
public final class SocketListener: Listener {
    private enum State: Sendable {
        case idle, starting
        case running(RunningListener)
        case stopping(Completion)
    }

    private let host: String
    private let port: Int
    private let tls: TLSServerConfiguration?
    private let limits: ListenerLimits
    private let loopCount: Int
    private let givenLoops: [EventLoop]
    private let state = Lock(State.idle)

    /// A listener that does nothing until ``start(_:)``.
    ///
    /// - Parameters:
    ///   - host: the address to listen at, in digits. `0.0.0.0` is every address of the machine, `::` with those of IPv6.
    ///   - port: the port; 0 takes a free one, which `start` returns.
    ///   - tls: certificate and key, for `https` and `wss`; `nil` for `http` and `ws`.
    ///   - limits: what clients may do.
    ///   - loops: how many threads the connections are spread over. One is enough for tens of thousands of messages a second.
    public convenience init(
        host: String = "127.0.0.1", port: Int = 0, tls: TLSServerConfiguration? = nil, limits: ListenerLimits = ListenerLimits(),
        loops: Int = 1
    ) {
        self.init(host: host, port: port, tls: tls, limits: limits, loopCount: max(1, loops), on: [])
    }

    /// A listener on loops that somebody else shuts down.
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
        self.givenLoops = loops
    }

    /// Binds the port and begins to accept.
    ///
    /// It throws `addressInUse` when the port is taken, `tlsUnavailable` when TLS is wanted and no OpenSSL is installed,
    /// `tlsFailed` when the certificate or key cannot be used, and `unsupported` when it is listening already. After
    /// ``stop()`` it may be started again.
    public func start(_ handler: any ListenerHandler) async throws(TransportError) -> ListenerAddress {
        let begins = self.state.withLock { state -> Bool in
            guard case .idle = state else { return false }
            state = .starting
            return true
        }
        guard begins else {
            throw TransportError(.unsupported, "This listener has been started already: stop it first, or make another one.")
        }
        do throws(TransportError) {
            let run = try self.run(handler)
            self.state.withLock { $0 = .running(run) }
            return ListenerAddress(host: run.address.host, port: run.address.port, isSecure: self.tls != nil)
        } catch {
            self.state.withLock { $0 = .idle }
            throw error
        }
    }

    private func run(_ handler: any ListenerHandler) throws(TransportError) -> RunningListener {
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
            return try RunningListener(options, loops: self.givenLoops + loops, own: loops, handler, self.limits)
        } catch {
            for loop in loops { loop.shutdown() }
            throw error
        }
    }

    /// Stops accepting, closes every WebSocket with 1001, lets requests that are being answered finish, and returns when
    /// every connection has ended: at the latest ``ListenerLimits/stopTime`` later, when the rest is cut off. Its threads
    /// have ended then too. Cancelling the task does not shorten it.
    public func stop() async {
        let (run, completion) = self.state.withLock { state -> (RunningListener?, Completion?) in
            switch state {
            case .idle, .starting: return (nil, nil)
            case .stopping(let completion): return (nil, completion)
            case .running(let run):
                let completion = Completion()
                state = .stopping(completion)
                return (run, completion)
            }
        }
        guard let run, let completion else {
            await completion?.wait()
            return
        }
        await run.stop()
        self.state.withLock { $0 = .idle }
        completion.fulfill()
    }
}
