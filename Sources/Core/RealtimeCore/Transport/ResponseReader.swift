import RealtimeSystem

/// Reads the response of an exchange in a task, ahead of the task up to a limit.
final class ResponseReader: HTTPExchangeEvents, TimerClient {
    private struct State: Sendable {
        var response: ResponseBuffer
        /// The exchange, from its start until its end.
        var exchange: (any HTTPExchange)?
        /// The time for the rest of the response, if it has a limit.
        var rest: AnswerLimit?

        /// The clock of the exchange.
        var time: (any TimeSource)? { (self.exchange as? any TimedExchange)?.time }

        /// Begins the limit of the rest anew, if it has one: the server had to wait.
        mutating func restartRest() { if let time = self.time { self.rest?.restart(now: time.now) } }
    }

    /// The number of unread bytes above which reading pauses.
    private static let readAhead = 256 << 10

    private let endpoint: Endpoint
    private let state: Lock<State>

    init(_ endpoint: Endpoint) {
        self.endpoint = endpoint
        self.state = Lock(State(response: ResponseBuffer(from: endpoint, limit: Self.readAhead)))
    }

    // MARK: The reading task

    /// Starts the exchange, and waits for the head of the response.
    ///
    /// - Parameter limit: The time for the head, with a second more for each KiB of `body`; `nil` for no limit.
    func head(of exchange: any HTTPExchange, limit: (Duration, body: Int)?) async throws(TransportError) -> HTTPResponseHead {
        guard !Task.isCancelled else { throw self.cancelled }
        self.state.withLock { $0.exchange = exchange }
        if let limit { _ = self.limit(limit.0, byteCount: limit.body) }
        exchange.start()
        while true {
            if let head = try self.state.withLock({ state throws(TransportError) in try state.response.readHead() }) { return head }
            await self.wait()
        }
    }

    /// The next piece of the body: everything that has arrived since the previous one.
    func next() async throws(TransportError) -> [UInt8]? {
        while true {
            let (piece, paused) = try self.state.withLock {
                state throws(TransportError) -> (ResponseBuffer.Piece, (any HTTPExchange)?) in
                let piece = try state.response.readBody()
                guard state.response.takeResume() else { return (piece, nil) }
                state.restartRest()
                return (piece, state.exchange)
            }
            paused?.resumeReading()
            switch piece {
            case .bytes(let bytes): return bytes
            case .end: return nil
            case .pending: await self.wait()
            }
        }
    }

    /// Closes the connection and discards what was not read.
    func cancel() { self.takeExchange()?.cancel() }

    /// Takes the exchange, which has ended or is about to, and stops the timer.
    private func takeExchange() -> (any HTTPExchange)? {
        let (exchange, isTimed) = self.state.withLock { ($0.exchange.take(), $0.rest.take() != nil) }
        if isTimed, let exchange = exchange as? any TimedExchange { exchange.time?.schedule(self, at: nil) }
        return exchange
    }

    // MARK: The time for the rest

    /// Limits the time for what follows of the response, which has to make progress.
    ///
    /// - Parameters:
    ///   - limit: The time, with a second more for each KiB that arrives.
    ///   - byteCount: The number of bytes that need time already.
    /// - Returns: `false` if the exchange has no clock, as with a transport of the application.
    func limit(_ limit: Duration, byteCount: Int = 0) -> Bool {
        self.state.withLock { state in
            guard state.exchange != nil else { return true }
            guard let time = state.time else { return false }
            let rest = AnswerLimit(limit, byteCount: byteCount, now: time.now)
            state.rest = rest
            time.schedule(self, at: rest.deadline)
            return true
        }
    }

    func timerFired() {
        let expired = self.state.withLock { state -> (exchange: (any HTTPExchange)?, problem: String)? in
            guard let time = state.time else { return nil }
            // While the task is behind, the server has to wait.
            if state.response.isPaused {
                state.restartRest()
            } else if state.rest?.hasPassed(now: time.now) == true {
                state.rest = nil
                return (
                    state.exchange.take(),
                    state.response.hasHead ? AnswerLimit.isExceeded : "the head of its answer wasn't complete in time."
                )
            }
            time.schedule(self, at: state.rest?.deadline)
            return nil
        }
        guard let expired else { return }
        expired.exchange?.cancel()
        self.change { $0.response.end(AnswerLimit.error("\(self.endpoint)", expired.problem)) }
    }

    private func wait() async {
        await suspend { wakeUp in
            self.state.withLock { $0.response.suspend(wakeUp) }
        } onCancel: {
            // Cancels the exchange below: who cancels the task may hold a lock that a server's closure takes.
            self.state.withLock { state in
                state.response.cancel(self.cancelled)
                return state.response.takeReadyReader()
            }
        }
        if self.state.withLock({ $0.response.isCancelled }) { self.cancel() }
    }

    private var cancelled: TransportError {
        TransportError(.cancelled, "The request to \(self.endpoint) was cancelled.")
    }

    // MARK: Events of the exchange

    func received(_ head: HTTPResponseHead, of id: ExchangeID) {
        self.change { state in
            // The body has a time of its own.
            if state.rest.take() != nil { state.time?.schedule(self, at: nil) }
            state.response.receiveHead(head)
        }
    }

    func received(_ body: [UInt8], of id: ExchangeID) {
        self.change { state in
            state.rest?.byteCount += body.count
            if state.response.receive(body) { state.exchange?.pauseReading() }
        }
    }

    func ended(_ id: ExchangeID, _ error: TransportError?) {
        // Released outside the lock.
        let exchange = self.takeExchange()
        self.change { $0.response.end(error) }
        _ = exchange
    }

    private func change(_ body: (inout State) -> Void) {
        let reader = self.state.withLock { state in
            body(&state)
            return state.response.takeReadyReader()
        }
        if let reader { DelayedWakeUps.resume(reader) }
    }
}

/// The body of a response. Releasing it closes the connection.
final class ResponseBody: HTTPBody {
    private let reader: ResponseReader

    init(_ reader: ResponseReader) {
        self.reader = reader
    }

    func next() async throws(TransportError) -> [UInt8]? { try await self.reader.next() }

    /// Limits the time for what follows of the response; see ``ResponseReader/limit(_:byteCount:)``.
    func limitRest(_ limit: Duration) -> Bool { self.reader.limit(limit) }

    deinit { self.reader.cancel() }
}
