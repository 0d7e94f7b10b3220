internal import RealtimeSystem
internal import RealtimeCore

/// Options for connecting a stream.
package struct ConnectOptions: Sendable {
    /// The time limit for the lookup, the connection, and the handshakes with the proxy and of TLS.
    package var timeout: Duration
    /// The resolver that looks up the host.
    package var resolver: any HostResolver
    /// Creates the TLS session, or `nil` for a connection without TLS.
    package var security: StreamSecurityFactory?
    /// The valid proxy to connect through, or `nil` to connect directly. The proxy looks the host up.
    package var proxy: ProxyServer?

    package init(
        timeout: Duration = .seconds(10), resolver: any HostResolver = SystemResolver.shared, proxy: ProxyServer? = nil,
        security: StreamSecurityFactory? = nil
    ) {
        self.timeout = timeout
        self.resolver = resolver
        self.security = security
        self.proxy = proxy
    }
}

/// Connects a stream: performs the actions of ``HappyEyeballs``, and then the actions of ``ProxyHandshake`` if there is a proxy.
///
/// The owner creates it and calls it on the loop's thread. It ends when the stream is open, has failed or was closed.
final class ConnectAttempt: TimerClient {
    private struct State {
        var stream: SocketStream?
        var machine: HappyEyeballs
        var attempts: [Int: AddressAttempt] = [:]
        var proxyAttempt: ProxyAttempt?
        /// For the handshakes. The machine has its own.
        var limit: PatientLimit
    }

    /// The server.
    private let host: String
    private let port: Int
    private let options: ConnectOptions
    fileprivate let loop: EventLoop

    // `nonisolated(unsafe)` is safe because only the loop's thread accesses the state, which `LoopBound` asserts.
    nonisolated(unsafe) private var onLoop: LoopBound<State>

    init(_ stream: SocketStream, _ host: String, _ port: Int, _ options: ConnectOptions) {
        let now = stream.loop.now
        self.host = host
        self.port = port
        self.options = options
        self.loop = stream.loop
        let target = options.proxy.map { Self.target($0.host, $0.port) } ?? Self.target(host, port)
        let machine = HappyEyeballs(target: target, now: now, limit: options.timeout)
        self.onLoop = LoopBound(State(stream: stream, machine: machine, limit: PatientLimit(options.timeout, now: now)))
        self.onLoop.bind()
    }

    /// Returns a host and a port as they are written in URLs and messages.
    static func target(_ host: String, _ port: Int) -> String {
        host.utf8.contains(0x3A) ? "[\(host)]:\(port)" : "\(host):\(port)"
    }

    func start() {
        self.loop.schedule(self, at: self.onLoop.value.machine.nextDeadline)
        let loop = self.loop
        guard (1...65535).contains(self.port) else {
            let error = TransportError(.invalidURL, "Invalid port \(self.port): the port must be between 1 and 65535.")
            self.onLoop.value.stream?.connectFailed(error)
            return
        }
        let next = self.nextHop
        self.options.resolver.resolve(next.host, port: next.port) { result in
            // IP addresses are resolved synchronously, so the connection starts in the same turn of the loop.
            if loop.isOnLoop { return self.resolved(result) }
            loop.execute { self.resolved(result) }
        }
    }

    /// The host and port that the socket connects to: the proxy's, or else the server's.
    private var nextHop: (host: String, port: Int) { self.options.proxy.map { ($0.host, $0.port) } ?? (self.host, self.port) }

    private func resolved(_ result: Result<[SocketAddress], TransportError>) {
        guard self.onLoop.value.stream != nil else { return }
        self.perform(self.onLoop.value.machine.resolved(result, now: self.loop.now))
    }

    func timerFired() {
        guard let stream = self.onLoop.value.stream else { return }
        let now = self.loop.now
        // The machine has finished, but the stream has not ended this attempt: it is in a handshake.
        let isInHandshake = self.onLoop.value.machine.nextDeadline == nil
        if isInHandshake, self.onLoop.value.limit.hasPassed(now: now) {
            if self.onLoop.value.proxyAttempt != nil, let tunnel = self.tunnel {
                return stream.connectFailed(tunnel.timedOut(after: self.options.timeout))
            }
            let target = Self.target(self.host, self.port)
            return stream.connectFailed(
                TransportError(
                    .timedOut, "The TLS handshake with \(target) timed out after \(self.options.timeout). Check that the server uses TLS."))
        }
        self.perform(self.onLoop.value.machine.timeout(now: now))
    }

    private func perform(_ first: HappyEyeballs.Action) {
        var action = first
        while true {
            switch action {
            case .none:
                guard self.onLoop.value.stream != nil else { return }
                return self.loop.schedule(self, at: self.onLoop.value.machine.nextDeadline ?? self.onLoop.value.limit.deadline)
            case .fail(let error):
                let isProxy = self.options.proxy != nil
                self.onLoop.value.stream?.connectFailed(
                    isProxy ? error.withMessage("Cannot connect to the proxy: \(error.message)") : error)
                return
            case .connect(let number, let address):
                switch AddressAttempt.start(self, number, address) {
                case .success(let attempt):
                    self.onLoop.value.attempts[number] = attempt
                    action = .none
                case .failure(let error):
                    action = self.onLoop.value.machine.failed(number, self.transportError(error), now: self.loop.now)
                }
            }
        }
    }

    fileprivate func ended(_ number: Int, _ result: Result<Int32, SystemError>) {
        self.onLoop.value.attempts[number] = nil
        guard let stream = self.onLoop.value.stream else {
            if case .success(let descriptor) = result { SystemSocket.close(descriptor) }
            return
        }
        switch result {
        case .success(let descriptor):
            guard case .use = self.onLoop.value.machine.connected(number) else { return SystemSocket.close(descriptor) }
            self.closeAttempts()
            self.loop.schedule(self, at: self.onLoop.value.limit.deadline)
            guard let tunnel = self.tunnel else { return stream.connected(descriptor, self.options.security) }
            self.open(tunnel, stream, descriptor)
        case .failure(let error):
            self.perform(self.onLoop.value.machine.failed(number, self.transportError(error), now: self.loop.now))
        }
    }

    /// The tunnel through the proxy, or `nil` without one.
    private var tunnel: ProxyTunnel? { self.options.proxy.map { ProxyTunnel(proxy: $0, host: self.host, port: self.port) } }

    private func open(_ tunnel: ProxyTunnel, _ stream: SocketStream, _ descriptor: Int32) {
        var output: [UInt8] = []
        do throws(TransportError) {
            let handshake = try ProxyHandshake(tunnel, output: &output)
            let attempt = ProxyAttempt(self, tunnel, handshake, output, descriptor)
            self.onLoop.value.proxyAttempt = attempt
            attempt.start()
        } catch {
            SystemSocket.close(descriptor)
            stream.connectFailed(error)
        }
    }

    /// The handshake with the proxy has ended.
    ///
    /// - Parameters:
    ///   - descriptor: The connected socket, which this object owns.
    ///   - error: The reason why the tunnel isn't open, or `nil` if it is.
    fileprivate func proxyEnded(_ descriptor: Int32, _ error: TransportError?) {
        self.onLoop.value.proxyAttempt = nil
        guard let stream = self.onLoop.value.stream, error == nil else {
            SystemSocket.close(descriptor)
            if let error { self.onLoop.value.stream?.connectFailed(error) }
            return
        }
        stream.connected(descriptor, self.options.security)
    }

    /// Ends the attempt. It does not call the stream afterwards.
    func end() {
        self.onLoop.value.stream = nil
        self.loop.schedule(self, at: nil)
        self.closeAttempts()
    }

    private func closeAttempts() {
        let attempts = self.onLoop.value.attempts
        self.onLoop.value.attempts = [:]
        for attempt in attempts.values { attempt.close() }
        self.onLoop.value.proxyAttempt?.close()
        self.onLoop.value.proxyAttempt = nil
    }

    private func transportError(_ error: SystemError) -> TransportError {
        let next = self.nextHop
        let target = Self.target(next.host, next.port)
        switch error.number {
        case ECONNREFUSED:
            return TransportError(
                .refused, "\(target) refused the connection. Check that the server is running and that the port is correct.")
        case ENETUNREACH, EHOSTUNREACH, ENETDOWN, EADDRNOTAVAIL, EAFNOSUPPORT:
            return TransportError(
                .unreachable, "\(target) is unreachable (\(TransportError.systemMessage(error.number))). Check the network and the address."
            )
        case ETIMEDOUT:
            return TransportError(.timedOut, "The connection to \(target) timed out. Check the address, the network and any firewall.")
        case ECONNRESET:
            return TransportError(
                .reset, "\(target) reset the connection while it was being established. Retry, or check the server's log.")
        default:
            return .system(error.number, "connect to \(target)")
        }
    }
}

/// A connection attempt to one address.
private final class AddressAttempt: PollHandler {
    private struct State {
        var attempt: ConnectAttempt?
        var token: UInt64?
    }

    private let number: Int
    private let descriptor: Int32

    // `nonisolated(unsafe)` is safe because only the loop's thread accesses the state, which `LoopBound` asserts.
    nonisolated(unsafe) private var onLoop: LoopBound<State>

    private init(_ attempt: ConnectAttempt, _ number: Int, _ descriptor: Int32) {
        self.number = number
        self.descriptor = descriptor
        self.onLoop = LoopBound(State(attempt: attempt))
        self.onLoop.bind()
    }

    static func start(_ attempt: ConnectAttempt, _ number: Int, _ address: SocketAddress) -> Result<AddressAttempt, SystemError> {
        switch SystemSocket.makeSocket(address.systemFamily) {
        case .failure(let error): return .failure(error)
        case .success(let descriptor):
            SystemSocket.setNoDelay(descriptor)
            let failed = address.withPointer { connect(descriptor, $0, $1) } != 0
            // A connection that is established immediately is reported as writable too, so all end in `ready`.
            if failed, errno != EINPROGRESS, errno != EINTR {
                let error = SystemError.last
                SystemSocket.close(descriptor)
                return .failure(error)
            }
            let new = AddressAttempt(attempt, number, descriptor)
            let token = attempt.loop.register(new)
            guard attempt.loop.poll(descriptor, token, from: [], to: .write) else {
                let error = SystemError.last
                attempt.loop.deregister(token)
                SystemSocket.close(descriptor)
                return .failure(error)
            }
            new.onLoop.value.token = token
            return .success(new)
        }
    }

    func ready(_ readiness: Readiness) {
        guard let attempt = self.deregister() else { return }
        let error = SystemSocket.pendingError(self.descriptor)
        // With a simultaneous open, a socket can connect to itself if its target is an unused ephemeral port of the same host.
        let isConnectedToItself = error == 0 && SocketAddress(localOf: self.descriptor) == SocketAddress(peerOf: self.descriptor)
        guard error == 0, !isConnectedToItself else {
            SystemSocket.close(self.descriptor)
            return attempt.ended(self.number, .failure(SystemError(error == 0 ? ECONNREFUSED : error)))
        }
        attempt.ended(self.number, .success(self.descriptor))
    }

    func close() {
        guard self.deregister() != nil else { return }
        SystemSocket.close(self.descriptor)
    }

    /// Closes the socket. The stream is registered separately and fails the attempt.
    func loopDidShutDown() { self.close() }

    private func deregister() -> ConnectAttempt? {
        guard let attempt = self.onLoop.value.attempt, let token = self.onLoop.value.token else { return nil }
        self.onLoop.value = State()
        _ = attempt.loop.poll(self.descriptor, token, from: .write, to: [])
        attempt.loop.deregister(token)
        return attempt
    }
}

/// The handshake with a proxy over a connected socket.
private final class ProxyAttempt: PollHandler {
    private struct State {
        var attempt: ConnectAttempt?
        var handshake: ProxyHandshake
        var unsent: [UInt8]
        var token: UInt64?
        var polled: Readiness = []
    }

    private let tunnel: ProxyTunnel
    private let descriptor: Int32

    // `nonisolated(unsafe)` is safe because only the loop's thread accesses the state, which `LoopBound` asserts.
    nonisolated(unsafe) private var onLoop: LoopBound<State>

    /// Takes ownership of the descriptor.
    init(_ attempt: ConnectAttempt, _ tunnel: ProxyTunnel, _ handshake: ProxyHandshake, _ output: [UInt8], _ descriptor: Int32) {
        self.tunnel = tunnel
        self.descriptor = descriptor
        self.onLoop = LoopBound(State(attempt: attempt, handshake: handshake, unsent: output))
        self.onLoop.bind()
    }

    func start() {
        self.onLoop.value.token = self.onLoop.value.attempt?.loop.register(self)
        self.ready([])
    }

    func ready(_ readiness: Readiness) {
        guard let attempt = self.onLoop.value.attempt, let token = self.onLoop.value.token else { return }
        do throws(TransportError) {
            guard let next = try self.proceed(attempt.loop.readBuffer) else {
                self.deregister()
                return attempt.proxyEnded(self.descriptor, nil)
            }
            guard attempt.loop.poll(self.descriptor, token, from: self.onLoop.value.polled, to: next) else {
                throw .system(SystemError.last.number, "poll a socket")
            }
            self.onLoop.value.polled = next
        } catch {
            self.deregister()
            attempt.proxyEnded(self.descriptor, error)
        }
    }

    /// Sends and receives until the socket blocks or the tunnel is open.
    ///
    /// - Returns: What to wait for, or `nil` if the tunnel is open.
    private func proceed(_ buffer: UnsafeMutableRawBufferPointer) throws(TransportError) -> Readiness? {
        var state = self.onLoop.value
        defer { self.onLoop.value = state }
        while true {
            if !state.unsent.isEmpty {
                switch state.unsent.withUnsafeBytes({ SystemSocket.send(self.descriptor, $0) }) {
                case .done(let count): state.unsent.removeFirst(count)
                case .failed(let error): throw self.tunnel.lost(error)
                case .wantRead, .wantWrite, .closed: return .write
                }
                continue
            }
            switch SystemSocket.receive(self.descriptor, into: buffer, flags: SystemSocket.peekFlags) {
            case .done(let count):
                var input = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer)[..<count])
                let isOpen = try state.handshake.receive(&input, output: &state.unsent)
                // What follows belongs to the tunnel, and stays in the socket until the stream or TLS reads it.
                _ = SystemSocket.receive(self.descriptor, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<(count - input.count)]))
                if isOpen { return nil }
            case .failed(let error): throw self.tunnel.lost(error)
            case .closed: throw self.tunnel.lost(nil)
            case .wantRead, .wantWrite: return .read
            }
        }
    }

    func close() {
        guard self.onLoop.value.attempt != nil else { return }
        self.deregister()
        SystemSocket.close(self.descriptor)
    }

    /// Closes the socket. The stream is registered separately and fails the attempt.
    func loopDidShutDown() { self.close() }

    private func deregister() {
        guard let attempt = self.onLoop.value.attempt, let token = self.onLoop.value.token else { return }
        self.onLoop.value.attempt = nil
        _ = attempt.loop.poll(self.descriptor, token, from: self.onLoop.value.polled, to: [])
        attempt.loop.deregister(token)
    }
}
