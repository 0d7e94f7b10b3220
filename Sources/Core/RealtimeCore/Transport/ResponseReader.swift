import RealtimeSystem

/// Reads the response of an exchange in a task, ahead of the task up to a limit.
final class ResponseReader: HTTPExchangeEvents {
    private struct State: Sendable {
        var response: ResponseBuffer
        /// The exchange, from its start until its end.
        var exchange: (any HTTPExchange)?
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
    func head(of exchange: any HTTPExchange) async throws(TransportError) -> HTTPResponseHead {
        guard !Task.isCancelled else { throw self.cancelled }
        self.state.withLock { $0.exchange = exchange }
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
                return (piece, state.response.takeResume() ? state.exchange : nil)
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
    func cancel() { self.state.withLock { $0.exchange.take() }?.cancel() }

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

    func received(_ head: HTTPResponseHead, of id: ExchangeID) { self.change { $0.response.receiveHead(head) } }

    func received(_ body: [UInt8], of id: ExchangeID) {
        self.change { state in
            if state.response.receive(body) { state.exchange?.pauseReading() }
        }
    }

    func ended(_ id: ExchangeID, _ error: TransportError?) {
        // Released outside the lock.
        let exchange = self.state.withLock { $0.exchange.take() }
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

    deinit { self.reader.cancel() }
}
