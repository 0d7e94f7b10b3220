import RealtimeSystem
package import RealtimeCore

/// Accepts connections and hands them out as streams.
///
/// Over its limit, or when the system has no descriptor left, it stops to accept for a while: connections wait in the
/// system's own queue, and are accepted when one of its streams has been closed.
package final class TCPListener: Sendable, PollHandler, TimerClient, StreamOwner {
    package struct Options: Sendable {
        /// An address in digits, or `localhost` for 127.0.0.1. `::` takes IPv4 as well where the system does.
        package var host = "127.0.0.1"
        /// 0 for any free one.
        package var port = 0
        /// How many the system keeps in its queue.
        package var backlog = 1024
        /// How many streams there may be at a time.
        package var limit = Int.max
        /// Makes the TLS; `nil` stays plain.
        package var security: StreamSecurityFactory?
        /// Called on a stream's loop once it is closed for good, also after a close of one's own, which no event tells of.
        package var closed: (@Sendable (SocketStream) -> Void)?

        package init() {}
    }

    /// Who gets a new stream: called on the stream's own loop, before `opened`. `nil` turns the connection away.
    package typealias Accept = @Sendable (SocketStream) -> (any StreamEvents)?

    /// So many are accepted before the sockets of the loop have their turn.
    private static let turnBudget = 64
    /// When to look again after the system was short of something.
    private static let pause = Duration.milliseconds(100)

    /// Where it listens; the port is the real one.
    package let address: SocketAddress
    private let loop: EventLoop
    private let loops: [EventLoop]
    private let options: Options
    private let accept: Accept
    private let descriptor: Int32

    // `nonisolated(unsafe)`: these belong to the listener's loop.
    nonisolated(unsafe) private var token: UInt64?
    nonisolated(unsafe) private var polled: Readiness = []
    nonisolated(unsafe) private var nextLoop = 0
    nonisolated(unsafe) private var count = 0

    /// Binds the port, and begins to accept.
    ///
    /// It throws ``TransportError/Code/addressInUse`` when the port is taken, and `system` when the system does not
    /// allow it. The loop holds the listener until ``stop()``.
    ///
    /// - Parameter loops: where the streams live, in turn; the listener itself lives on the first one.
    package init(_ options: Options = Options(), loops: [EventLoop], accept: @escaping Accept) throws(TransportError) {
        precondition(!loops.isEmpty, "a listener needs a loop")
        (self.descriptor, self.address) = try Self.listen(options)
        self.loop = loops[0]
        self.loops = loops
        self.options = options
        self.accept = accept
        let isRunning = self.loop.execute {
            self.token = self.loop.register(self)
            self.poll(.read)
        }
        guard isRunning else {
            SystemSocket.close(self.descriptor)
            throw TransportError(.closed, "The event loop was shut down: listen on another one.")
        }
    }

    private static func listen(_ options: Options) throws(TransportError) -> (Int32, SocketAddress) {
        let host = options.host == "localhost" ? "127.0.0.1" : options.host
        guard (0...65535).contains(options.port), let address = SocketAddress(host, port: options.port) else {
            throw TransportError(
                .invalidURL,
                "Cannot listen at \(options.host), port \(options.port): give an IP address such as 127.0.0.1, and a port from 0 to 65535.")
        }
        switch SystemSocket.makeSocket(address.systemFamily) {
        case .failure(let error): throw .system(error.number, "make a socket")
        case .success(let descriptor):
            SystemSocket.set(descriptor, SOL_SOCKET, SO_REUSEADDR, 1)
            let backlog = Int32(clamping: options.backlog)
            guard address.withPointer({ bind(descriptor, $0, $1) }) == 0, Self.listen(descriptor, backlog) == 0,
                let local = SocketAddress(localOf: descriptor)
            else {
                let number = errno
                SystemSocket.close(descriptor)
                throw Self.explain(number, address)
            }
            return (descriptor, local)
        }
    }

    private static func listen(_ descriptor: Int32, _ backlog: Int32) -> Int32 {
        #if canImport(Darwin)
        Darwin.listen(descriptor, backlog)
        #elseif canImport(Glibc)
        Glibc.listen(descriptor, backlog)
        #else
        Musl.listen(descriptor, backlog)
        #endif
    }

    private static func explain(_ number: Int32, _ address: SocketAddress) -> TransportError {
        switch number {
        case EADDRINUSE:
            TransportError(
                .addressInUse,
                "Something already listens at \(address): stop it, listen at another port, or ask for port 0 to get a free one.")
        case EACCES:
            TransportError(.system, "This process may not listen at port \(address.port): use one from 1024 on, or more rights.")
        case EADDRNOTAVAIL:
            TransportError(.unreachable, "\(address.host) is no address of this machine: listen at 127.0.0.1, or at 0.0.0.0 for all.")
        default:
            .system(number, "listen at \(address)")
        }
    }

    /// Stops to accept, and returns when the port is free. Streams that were accepted stay.
    package func stop() async {
        let ended = Signal()
        guard
            self.loop.execute({
                self.close()
                ended.send()
            })
        else { return }
        await ended.wait()
    }

    // MARK: On the loop's thread

    func ready(_ readiness: Readiness) {
        for _ in 0..<Self.turnBudget {
            guard self.count < self.options.limit else { return self.poll([]) }
            switch SystemSocket.accept(self.descriptor) {
            case .success(let descriptor):
                SystemSocket.setNoDelay(descriptor)
                self.handOut(descriptor)
            case .failure(let error) where error.number == EAGAIN:
                return
            case .failure(let error) where Self.isOfOneConnection(error):
                continue
            case .failure:
                self.poll([])
                return self.loop.schedule(self, at: self.loop.now.advanced(by: Self.pause))
            }
        }
    }

    /// Errors of a connection that was gone before it was accepted.
    private static func isOfOneConnection(_ error: SystemError) -> Bool {
        let numbers = [
            ECONNABORTED, EINTR, EPROTO, EPERM, ENOPROTOOPT, EHOSTDOWN, EOPNOTSUPP, ENETDOWN, ENETUNREACH, EHOSTUNREACH, ETIMEDOUT,
        ]
        return numbers.contains(error.number)
    }

    private func handOut(_ descriptor: Int32) {
        self.count += 1
        let loop = self.loops[self.nextLoop]
        self.nextLoop = (self.nextLoop + 1) % self.loops.count
        let begin: @Sendable () -> Void = {
            let stream = SocketStream(loop: loop, owner: self)
            guard let events = self.accept(stream) else {
                SystemSocket.close(descriptor)
                return self.closed(stream)
            }
            stream.start(descriptor, self.options.security, events: events)
        }
        if loop.isOnLoop { return begin() }
        if !loop.execute(begin) {
            SystemSocket.close(descriptor)
            self.count -= 1
        }
    }

    func closed(_ stream: SocketStream) {
        self.options.closed?(stream)
        if self.loop.isOnLoop { self.countDown() } else { self.loop.execute { self.countDown() } }
    }

    private func countDown() {
        self.count -= 1
        self.poll(.read)
    }

    package func timerFired() { self.poll(.read) }

    func loopDidShutDown() { self.close() }

    private func poll(_ interest: Readiness) {
        guard let token = self.token, interest != self.polled else { return }
        guard self.loop.poll(self.descriptor, token, from: self.polled, to: interest) else {
            return self.loop.schedule(self, at: self.loop.now.advanced(by: Self.pause))
        }
        self.polled = interest
    }

    private func close() {
        guard let token = self.token else { return }
        self.poll([])
        self.loop.schedule(self, at: nil)
        self.token = nil
        self.loop.deregister(token)
        SystemSocket.close(self.descriptor)
    }
}

/// One event that one task waits for.
private final class Signal: Sendable {
    private enum State: Sendable {
        case none, sent
        case waiting(CheckedContinuation<Void, Never>)
    }

    private let state = Lock(State.none)

    func send() {
        let waiter = self.state.withLock { state -> CheckedContinuation<Void, Never>? in
            defer { state = .sent }
            guard case .waiting(let waiter) = state else { return nil }
            return waiter
        }
        waiter?.resume()
    }

    func wait() async {
        await withCheckedContinuation { continuation in
            let isSent = self.state.withLock { state -> Bool in
                if case .sent = state { return true }
                state = .waiting(continuation)
                return false
            }
            if isSent { continuation.resume() }
        }
    }
}
