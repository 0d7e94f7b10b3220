package import RealtimeCore
import RealtimeSystem

/// A server's socket that accepts connections as streams.
///
/// It stops accepting while it is over its limit or the system is out of descriptors. Connections wait in the system's queue until then,
/// and are accepted when one of its streams has been closed.
package final class TCPListener: Sendable, PollHandler, TimerClient, StreamOwner {
    package struct Options: Sendable {
        /// A numeric IP address, or `localhost` for 127.0.0.1. `::` accepts IPv4 connections as well if the system supports that.
        package var host = "127.0.0.1"
        /// The port, or 0 for a free port.
        package var port = 0
        /// The number of connections that the system keeps in its queue.
        package var backlog = 1024
        /// The maximum number of streams at the same time.
        package var limit = Int.max
        /// Creates the TLS sessions; `nil` for connections without TLS.
        package var security: StreamSecurityFactory?
        /// Called on a stream's loop when the stream is closed, even if its owner closed it.
        package var closed: (@Sendable (SocketStream) -> Void)?

        package init() {}
    }

    /// Returns the receiver of a new stream's events, or `nil` to reject the connection. Called on the stream's loop, before `opened`.
    package typealias Accept = @Sendable (SocketStream) -> (any StreamEvents)?

    /// The number of connections to accept before the loop handles its other descriptors.
    private static let turnBudget = 64
    /// When to retry after the system was out of descriptors or memory.
    private static let retryDelay = Duration.milliseconds(100)

    /// The address and the actual port.
    package let address: SocketAddress
    private let loop: EventLoop
    private let loops: [EventLoop]
    private let options: Options
    private let accept: Accept
    let descriptor: Int32

    /// The state of the thread of the listener's loop.
    private struct LoopState {
        var token: UInt64?
        var polled: Readiness = []
        var nextLoop = 0
        var count = 0
    }

    // See LoopBound.
    nonisolated(unsafe) private var onLoop = LoopBound(LoopState())

    /// Binds the port and begins to accept connections. The loop retains the listener until ``stop()``.
    ///
    /// - Parameters:
    ///   - options: The address, the limits and TLS.
    ///   - loops: The loops to which streams are assigned round-robin. The first one also runs the listener.
    ///   - accept: Returns the receiver of a new stream's events.
    /// - Throws: `TransportError` with the code `addressInUse` if the port is in use, `invalidURL` if host or port are invalid,
    ///   `unreachable` if the address is not one of this machine, `closed` if the loop was shut down, and `system` if a system call fails.
    package init(_ options: Options = Options(), loops: [EventLoop], accept: @escaping Accept) throws(TransportError) {
        precondition(!loops.isEmpty, "a listener needs at least one loop")
        (self.descriptor, self.address) = try Self.listen(options)
        self.loop = loops[0]
        self.loops = loops
        self.options = options
        self.accept = accept
        let isRunning = self.loop.execute {
            self.onLoop.bind()
            self.onLoop.value.token = self.loop.register(self)
            self.poll(.read)
        }
        guard isRunning else {
            SystemSocket.close(self.descriptor)
            throw TransportError(.closed, "The event loop was shut down. Listen on another one.")
        }
    }

    private static func listen(_ options: Options) throws(TransportError) -> (Int32, SocketAddress) {
        let host = options.host == "localhost" ? "127.0.0.1" : options.host
        guard (0...65535).contains(options.port), let address = SocketAddress(host, port: options.port) else {
            throw TransportError(
                .invalidURL,
                "Cannot listen at \(options.host), port \(options.port). Use an IP address such as 127.0.0.1 and a port between 0 and 65535."
            )
        }
        switch SystemSocket.makeSocket(address.systemFamily) {
        case .failure(let error): throw .system(error.number, "create a socket")
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
                "The address \(address) is in use. Stop the process that uses it, use another port, or use port 0 for a free port.")
        case EACCES:
            TransportError(
                .system, "No permission to listen at port \(address.port). Use a port above 1023 or run with elevated privileges.")
        case EADDRNOTAVAIL:
            TransportError(.unreachable, "\(address.host) is not an address of this machine. Use 127.0.0.1, or 0.0.0.0 for all addresses.")
        default:
            .system(number, "listen at \(address)")
        }
    }

    /// Stops accepting connections, and returns when the port is free. Accepted streams stay open. Cancellation has no effect.
    package func stop() async {
        let closed = Waiter<Void>()
        guard
            self.loop.execute({
                self.close()
                closed.fulfill(())?.resume()
            })
        else { return }
        await closed.value {}
    }

    // MARK: On the loop's thread

    func ready(_ readiness: Readiness) {
        for _ in 0..<Self.turnBudget {
            guard self.onLoop.value.count < self.options.limit else { return self.poll([]) }
            switch SystemSocket.accept(self.descriptor) {
            case .success(let descriptor):
                SystemSocket.setNoDelay(descriptor)
                self.openStream(descriptor)
            case .failure(let error) where error.number == EAGAIN:
                return
            case .failure(let error) where Self.isOfOneConnection(error):
                continue
            case .failure:
                self.poll([])
                return self.loop.schedule(self, at: self.loop.now.advanced(by: Self.retryDelay))
            }
        }
    }

    /// Whether the error concerns a connection that was lost before it was accepted, and not the listener.
    private static func isOfOneConnection(_ error: SystemError) -> Bool {
        let numbers = [
            ECONNABORTED, EINTR, EPROTO, EPERM, ENOPROTOOPT, EHOSTDOWN, EOPNOTSUPP, ENETDOWN, ENETUNREACH, EHOSTUNREACH, ETIMEDOUT,
        ]
        return numbers.contains(error.number)
    }

    private func openStream(_ descriptor: Int32) {
        self.onLoop.value.count += 1
        let loop = self.loops[self.onLoop.value.nextLoop]
        self.onLoop.value.nextLoop = (self.onLoop.value.nextLoop + 1) % self.loops.count
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
            self.onLoop.value.count -= 1
        }
    }

    func closed(_ stream: SocketStream) {
        self.options.closed?(stream)
        if self.loop.isOnLoop { self.streamClosed() } else { self.loop.execute { self.streamClosed() } }
    }

    private func streamClosed() {
        self.onLoop.value.count -= 1
        self.poll(.read)
    }

    package func timerFired() { self.poll(.read) }

    func loopDidShutDown() { self.close() }

    private func poll(_ interest: Readiness) {
        guard let token = self.onLoop.value.token, interest != self.onLoop.value.polled else { return }
        guard self.loop.poll(self.descriptor, token, from: self.onLoop.value.polled, to: interest) else {
            return self.loop.schedule(self, at: self.loop.now.advanced(by: Self.retryDelay))
        }
        self.onLoop.value.polled = interest
    }

    private func close() {
        guard let token = self.onLoop.value.token else { return }
        self.poll([])
        self.loop.schedule(self, at: nil)
        self.onLoop.value.token = nil
        self.loop.deregister(token)
        // A process that is being started has a copy of the descriptor until it runs its program. The port would stay open as long.
        SystemSocket.endListening(self.descriptor)
        SystemSocket.close(self.descriptor)
    }
}
