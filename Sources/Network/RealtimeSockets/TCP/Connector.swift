internal import RealtimeSystem
internal import RealtimeCore

/// How a stream connects.
package struct ConnectOptions: Sendable {
    /// For everything until `opened`: the look-up, the connection and the TLS handshake.
    package var timeout: Duration
    package var resolver: any HostResolver
    /// Makes the TLS; `nil` stays plain.
    package var security: StreamSecurityFactory?

    package init(
        timeout: Duration = .seconds(10), resolver: any HostResolver = SystemResolver.shared, security: StreamSecurityFactory? = nil
    ) {
        self.timeout = timeout
        self.resolver = resolver
        self.security = security
    }
}

/// Carries out what ``HappyEyeballs`` decides, for one stream.
///
/// It lives on the loop's thread, and ends when the stream is open, has failed or was closed.
final class ConnectAttempt: TimerClient {
    private let host: String
    private let port: Int
    private let options: ConnectOptions
    private let loop: EventLoop
    private let deadline: Instant

    // `nonisolated(unsafe)`: these belong to the loop's thread.
    nonisolated(unsafe) private var stream: SocketStream?
    nonisolated(unsafe) private var machine: HappyEyeballs
    nonisolated(unsafe) private var tries: [Int: ConnectTry] = [:]

    init(_ stream: SocketStream, _ host: String, _ port: Int, _ options: ConnectOptions) {
        let now = stream.loop.now
        self.host = host
        self.port = port
        self.options = options
        self.loop = stream.loop
        self.stream = stream
        self.deadline = now.advanced(by: options.timeout)
        self.machine = HappyEyeballs(target: Self.target(host, port), now: now, limit: options.timeout)
    }

    private static func target(_ host: String, _ port: Int) -> String {
        host.utf8.contains(0x3A) ? "[\(host)]:\(port)" : "\(host):\(port)"
    }

    func start() {
        self.loop.schedule(self, at: self.machine.nextDeadline)
        let loop = self.loop
        guard (1...65535).contains(self.port) else {
            let error = TransportError(.invalidURL, "There is no port \(self.port): it has to be from 1 to 65535.")
            return self.carryOut(self.machine.resolved(.failure(error), now: loop.now))
        }
        self.options.resolver.resolve(self.host, port: self.port) { result in
            // Address literals are answered at once, and need no second turn.
            if loop.isOnLoop { return self.resolved(result) }
            loop.execute { self.resolved(result) }
        }
    }

    private func resolved(_ result: Result<[SocketAddress], TransportError>) {
        guard self.stream != nil else { return }
        self.carryOut(self.machine.resolved(result, now: self.loop.now))
    }

    func timerFired() {
        guard let stream = self.stream else { return }
        let now = self.loop.now
        if now >= self.deadline, self.machine.nextDeadline == nil {
            return stream.connectFailed(
                TransportError(
                    .timedOut,
                    "\(Self.target(self.host, self.port)) did not finish the TLS handshake within \(self.options.timeout): check that it speaks TLS."
                ))
        }
        self.carryOut(self.machine.timeout(now: now))
    }

    private func carryOut(_ first: HappyEyeballs.Action) {
        var action = first
        while true {
            switch action {
            case .none:
                guard self.stream != nil else { return }
                return self.loop.schedule(self, at: self.machine.nextDeadline ?? self.deadline)
            case .giveUp(let error):
                self.stream?.connectFailed(error)
                return
            case .connect(let number, let address):
                switch ConnectTry.begin(self, number, address) {
                case .success(let new):
                    self.tries[number] = new
                    action = .none
                case .failure(let error):
                    action = self.machine.failed(number, self.explain(error), now: self.loop.now)
                }
            }
        }
    }

    fileprivate func ended(_ number: Int, _ result: Result<Int32, SystemError>) {
        self.tries[number] = nil
        guard let stream = self.stream else {
            if case .success(let descriptor) = result { SystemSocket.close(descriptor) }
            return
        }
        switch result {
        case .success(let descriptor):
            guard case .use = self.machine.connected(number) else { return SystemSocket.close(descriptor) }
            self.closeTries()
            self.loop.schedule(self, at: self.deadline)
            stream.connected(descriptor, self.options.security)
        case .failure(let error):
            self.carryOut(self.machine.failed(number, self.explain(error), now: self.loop.now))
        }
    }

    /// Nothing follows.
    func end() {
        self.stream = nil
        self.loop.schedule(self, at: nil)
        self.closeTries()
    }

    private func closeTries() {
        let tries = self.tries
        self.tries = [:]
        for attempt in tries.values { attempt.close() }
    }

    fileprivate var residence: EventLoop { self.loop }

    private func explain(_ error: SystemError) -> TransportError {
        let target = Self.target(self.host, self.port)
        switch error.number {
        case ECONNREFUSED:
            return TransportError(.refused, "Nothing listens at \(target): check that the server runs and that the port is right.")
        case ENETUNREACH, EHOSTUNREACH, ENETDOWN, EADDRNOTAVAIL, EAFNOSUPPORT:
            return TransportError(
                .unreachable, "There is no way to \(target) (\(TransportError.words(error.number))): check the network and the address.")
        case ETIMEDOUT:
            return TransportError(.timedOut, "\(target) did not answer: check the address, the network and any firewall.")
        case ECONNRESET:
            return TransportError(.reset, "\(target) cut the connection while it was made: try again, or look at the server's log.")
        default:
            return .system(error.number, "connect to \(target)")
        }
    }
}

/// One socket on its way to one address.
private final class ConnectTry: PollHandler {
    private let number: Int
    private let descriptor: Int32

    // `nonisolated(unsafe)`: these belong to the loop's thread.
    nonisolated(unsafe) private var attempt: ConnectAttempt?
    nonisolated(unsafe) private var token: UInt64?

    private init(_ attempt: ConnectAttempt, _ number: Int, _ descriptor: Int32) {
        self.attempt = attempt
        self.number = number
        self.descriptor = descriptor
    }

    static func begin(_ attempt: ConnectAttempt, _ number: Int, _ address: SocketAddress) -> Result<ConnectTry, SystemError> {
        switch SystemSocket.makeSocket(address.systemFamily) {
        case .failure(let error): return .failure(error)
        case .success(let descriptor):
            SystemSocket.setNoDelay(descriptor)
            let failed = address.withPointer { connect(descriptor, $0, $1) } != 0
            // Even one that is through at once is reported as writable, so there is one way only.
            if failed, errno != EINPROGRESS, errno != EINTR {
                let error = SystemError.last
                SystemSocket.close(descriptor)
                return .failure(error)
            }
            let new = ConnectTry(attempt, number, descriptor)
            let token = attempt.residence.register(new)
            guard attempt.residence.poll(descriptor, token, from: [], to: .write) else {
                let error = SystemError.last
                attempt.residence.deregister(token)
                SystemSocket.close(descriptor)
                return .failure(error)
            }
            new.token = token
            return .success(new)
        }
    }

    func ready(_ readiness: Readiness) {
        guard let attempt = self.leave() else { return }
        let error = SystemSocket.pendingError(self.descriptor)
        // To a free port of its own machine, a socket may connect to itself.
        let isOwnEcho = error == 0 && SocketAddress(localOf: self.descriptor) == SocketAddress(peerOf: self.descriptor)
        guard error == 0, !isOwnEcho else {
            SystemSocket.close(self.descriptor)
            return attempt.ended(self.number, .failure(SystemError(error == 0 ? ECONNREFUSED : error)))
        }
        attempt.ended(self.number, .success(self.descriptor))
    }

    func close() {
        guard self.leave() != nil else { return }
        SystemSocket.close(self.descriptor)
    }

    /// The stream has a place of its own, and is told.
    func loopDidShutDown() { self.close() }

    private func leave() -> ConnectAttempt? {
        guard let attempt = self.attempt, let token = self.token else { return nil }
        self.attempt = nil
        self.token = nil
        _ = attempt.residence.poll(self.descriptor, token, from: .write, to: [])
        attempt.residence.deregister(token)
        return attempt
    }
}
