internal import RealtimeCore
internal import RealtimeSystem

/// A connection of a transport. It is lent to one exchange at a time, and idle between two of them.
///
/// ```
///   lent ── the response ended ──▶ idle ── the next exchange ──▶ lent
///     └── error, cancelled ──▶ closed ◀── any event ──┘
/// ```
///
/// The stream retains the connection until it has ended. Its methods are called on the loop's thread, except for `init`, `connect`, `close`
/// and `setDeadline`.
final class HTTPClientConnection: StreamEvents, TimerClient, Equatable {
    private struct LoopState {
        var exchange: HTTPClientExchange?
        var pool: ConnectionPoolReference?
        var hasEnded = false
    }

    let key: ConnectionKey
    let stream: SocketStream
    // `nonisolated(unsafe)`: see `LoopBound`.
    nonisolated(unsafe) private var onLoop: LoopBound<LoopState>
    /// For the deadlines of the exchanges. A pending timer of an earlier exchange usually suffices for the next one.
    private let timer = Lock(CoalescedTimer())

    /// Creates the connection of an exchange.
    init(_ key: ConnectionKey, loop: EventLoop, for exchange: HTTPClientExchange) {
        self.key = key
        self.stream = SocketStream(loop: loop)
        self.onLoop = LoopBound(LoopState(exchange: exchange))
    }

    static func == (lhs: HTTPClientConnection, rhs: HTTPClientConnection) -> Bool { lhs === rhs }

    func connect(_ options: ConnectOptions) {
        self.stream.connect(to: self.key.host, port: self.key.port, options, events: self)
    }

    func close() {
        if self.timer.withLock({ $0.cancel() }) { self.stream.loop.schedule(self, at: nil) }
        self.stream.close()
    }

    /// Lends an idle connection to an exchange.
    ///
    /// - Returns: `false` if the connection can't be used. The caller closes it.
    func lend(to exchange: HTTPClientExchange) -> Bool {
        // The loop may not have noticed yet that the server has closed the connection.
        guard !self.onLoop.value.hasEnded, self.stream.isQuiet else { return false }
        self.onLoop.value.exchange = exchange
        return true
    }

    /// Moves or clears the deadline at which ``HTTPClientExchange/deadlinePassed(now:)`` is called.
    func setDeadline(_ deadline: Instant?) {
        self.timer.withLock { timer in
            if let instant = timer.setDeadline(deadline) { self.stream.loop.schedule(self, at: instant) }
        }
    }

    func timerFired() {
        let now = self.stream.loop.now
        let isDue = self.timer.withLock { timer in
            switch timer.fired(now: now) {
            case .idle: return false
            case .early(let instant):
                self.stream.loop.schedule(self, at: instant)
                return false
            case .due: return true
            }
        }
        if isDue { self.onLoop.value.exchange?.deadlinePassed(now: now) }
    }

    /// Ends the use by an exchange whose response has ended.
    ///
    /// - Parameter reference: The pool. Without it, the connection is closed.
    func giveBack(to reference: ConnectionPoolReference) {
        self.onLoop.value.exchange = nil
        self.onLoop.value.pool = reference
        self.setDeadline(nil)
        // The exchange may have paused reading. An idle connection must notice that the server closes it.
        self.stream.resumeReading()
        // A thread that has sent the request may not have returned from the write yet. The next exchange checks that it has.
        guard self.stream.isSendingLast, let pool = reference.pool else { return self.close() }
        pool.giveBack(self)
    }

    /// Nothing may arrive while no request is in progress: it would look like the response to the next one.
    private func discard() {
        self.close()
        self.onLoop.value.pool?.pool?.remove(self)
    }

    // MARK: Events of the stream, on the loop's thread

    func opened(_ stream: SocketStream) {
        self.onLoop.bind()
        self.onLoop.value.exchange?.opened(stream)
    }

    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
        guard let exchange = self.onLoop.value.exchange else { return self.discard() }
        exchange.received(bytes)
    }

    func drained(_ stream: SocketStream) { self.onLoop.value.exchange?.drained() }

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        self.onLoop.value.hasEnded = true
        guard let exchange = self.onLoop.value.exchange.take() else { return self.discard() }
        exchange.ended(error)
    }
}
