internal import RealtimeSystem
internal import RealtimeCore

/// One request of a client and its answer, over a connection of their own.
///
/// The loop's thread decodes; one task waits, for the head and then for each piece of the body.
final class HTTPClientExchange: StreamEvents, TimerClient {
    private enum Outcome: Sendable {
        case running
        case whole
        case failed(TransportError)
    }

    private struct State: Sendable {
        var head: HTTPResponseHead?
        /// What of the body nobody has asked for yet.
        var body: [UInt8] = []
        var outcome = Outcome.running
        var waiting: WakeUp?
        var isAsked = false
        var isPaused = false
        var isOpen = false
        var stream: SocketStream?
        var deadline = CoalescedTimer()
        /// What the server had not taken of the request when this was last looked at.
        var unsent = 0

        var isCancelled: Bool {
            if case .failed(let error) = self.outcome { error.code == .cancelled } else { false }
        }

        mutating func end(_ outcome: Outcome) {
            switch (self.outcome, outcome) {
            case (.running, _): self.outcome = outcome
            // A task that was cancelled hears of that and of nothing else, though all may be there.
            case (_, .failed(let error)) where error.code == .cancelled: self.outcome = outcome
            default: break
            }
        }
    }

    /// When so much waits for the reader, no more is read.
    private static let bodyBacklog = 256 << 10

    private let request: HTTPRequest
    private let loop: EventLoop
    private let idleTimeout: Int64
    private let state = Lock(State())
    // `nonisolated(unsafe)`: it belongs to the loop's thread.
    nonisolated(unsafe) private var decoder: HTTPResponseDecoder

    init(_ request: HTTPRequest, loop: EventLoop) {
        self.request = request
        self.loop = loop
        self.idleTimeout = request.idleTimeout.nanoseconds
        self.decoder = HTTPResponseDecoder(method: request.method)
    }

    // MARK: The task's side

    /// Connects, sends the request, and waits for the head of the answer.
    func head(through connector: SocketConnector) async throws(TransportError) -> HTTPResponseHead {
        guard !Task.isCancelled else { throw self.cancelled }
        try self.start(connector)
        await self.wait { $0.head != nil }
        let (head, outcome) = self.state.withLock { ($0.isCancelled ? nil : $0.head, $0.outcome) }
        if let head { return head }
        if case .failed(let error) = outcome { throw error }
        throw self.located(TransportError(.closed, "The server did not answer."))
    }

    private func start(_ connector: SocketConnector) throws(TransportError) {
        let endpoint = self.request.endpoint
        guard endpoint.scheme == "http" || endpoint.scheme == "https" else {
            throw TransportError(
                .unsupported, "A request cannot be sent to \(endpoint.origin): its address has to begin with http:// or https://.")
        }
        guard self.request.method != "CONNECT" else {
            throw TransportError(.unsupported, "A request cannot have the method CONNECT: proxies are not spoken to.")
        }
        var bytes: [UInt8] = []
        try HTTPEncoder.append(self.request, to: &bytes)
        let options = try connector.options(for: endpoint, timeout: self.request.connectTimeout)
        let stream = SocketStream(loop: self.loop, events: self)
        stream.enqueue { output in
            output.append(contentsOf: bytes)
            output.append(contentsOf: self.request.body)
        }
        self.state.withLock { $0.stream = stream }
        stream.connect(to: endpoint.host, port: endpoint.port, options)
    }

    /// The next piece of the body: all that came meanwhile.
    func next() async throws(TransportError) -> [UInt8]? {
        let isAlone = self.state.withLock { state -> Bool in
            defer { state.isAsked = true }
            return !state.isAsked
        }
        guard isAlone else {
            throw TransportError(.unsupported, "Another task is waiting for the next piece of this body: one at a time may ask.")
        }
        defer { self.state.withLock { $0.isAsked = false } }
        await self.wait { !$0.body.isEmpty }
        let (piece, outcome, resumed) = self.state.withLock { state -> ([UInt8], Outcome, SocketStream?) in
            guard !state.isCancelled else { return ([], state.outcome, nil) }
            let piece = state.body
            state.body = []
            guard state.isPaused else { return (piece, state.outcome, nil) }
            state.isPaused = false
            self.expectSigns(&state)
            return (piece, state.outcome, state.stream)
        }
        resumed?.resumeReading()
        if !piece.isEmpty { return piece }
        if case .failed(let error) = outcome { throw error }
        return nil
    }

    /// Nobody wants the rest.
    func leave() { self.cancel()?.resume() }

    /// Waits until it is there, or the exchange is over. A cancelled task ends the exchange, whatever is there.
    private func wait(for isThere: @Sendable (State) -> Bool) async {
        await suspend { wakeUp in
            self.state.withLock { state in
                guard !isThere(state), case .running = state.outcome else { return false }
                state.waiting = wakeUp
                return true
            }
        } onCancel: {
            self.cancel()
        }
        if Task.isCancelled { self.cancel()?.resume() }
    }

    private func cancel() -> WakeUp? { self.end(.failed(self.cancelled)) }

    /// Closes the connection. Who waits is to be woken outside of all locks.
    private func end(_ outcome: Outcome) -> WakeUp? {
        let (stream, waiting) = self.state.withLock { state -> (SocketStream?, WakeUp?) in
            state.end(outcome)
            if state.isCancelled { state.body = [] }
            if state.deadline.isSet {
                _ = state.deadline.setDeadline(nil)
                self.loop.schedule(self, at: nil)
            }
            return (state.stream.take(), state.waiting.take())
        }
        stream?.close()
        return waiting
    }

    // MARK: The stream's side, on the loop's thread

    func opened(_ stream: SocketStream) {
        self.state.withLock { state in
            state.isOpen = true
            // A small request goes out at once. Taking that for a sign of life would give a silent server the idle time twice.
            let unsent = stream.bufferedBytes
            state.unsent = unsent > SocketStream.highWater ? unsent : 0
            self.expectSigns(&state)
        }
        stream.flush()
    }

    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
        var head: HTTPResponseHead?
        var pieces: [UInt8] = []
        let outcome = self.decode(bytes, &head, &pieces)
        let waiting = self.state.withLock { state -> WakeUp? in
            guard case .running = state.outcome else { return nil }
            if let head { state.head = head }
            if state.body.isEmpty { swap(&state.body, &pieces) } else { state.body.append(contentsOf: pieces) }
            self.expectSigns(&state)
            if state.body.count > Self.bodyBacklog, !state.isPaused {
                state.isPaused = true
                _ = state.deadline.setDeadline(nil)
                stream.pauseReading()
            }
            return head != nil || !state.body.isEmpty ? state.waiting.take() : nil
        }
        waiting?.resume()
        if let outcome { self.end(outcome)?.resume() }
    }

    private func decode(_ bytes: UnsafeRawBufferPointer, _ head: inout HTTPResponseHead?, _ pieces: inout [UInt8]) -> Outcome? {
        var input = bytes
        do throws(TransportError) {
            while true {
                switch try self.decoder.next(&input) {
                case .head(let new): head = new
                case .body(let bytes): pieces.append(contentsOf: bytes)
                case .end: return .whole
                case .needsMore: return nil
                case .switchedProtocol:
                    throw TransportError(.protocolViolation, "The server switched to another protocol that was not asked for.")
                }
            }
        } catch {
            return .failed(self.located(error))
        }
    }

    func drained(_ stream: SocketStream) {
        self.state.withLock { state in
            state.unsent = 0
            self.expectSigns(&state)
        }
    }

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        if let error {
            let hasOpened = self.state.withLock { $0.isOpen }
            self.end(.failed(hasOpened ? self.located(error) : error))?.resume()
            return
        }
        do throws(TransportError) {
            try self.decoder.endOfStream()
            self.end(.whole)?.resume()
        } catch {
            self.end(.failed(self.located(error)))?.resume()
        }
    }

    // MARK: Time

    /// The server has the whole idle time from now on.
    private func expectSigns(_ state: inout State) {
        guard case .running = state.outcome, !state.isPaused else { return }
        if let wish = state.deadline.setDeadline(self.loop.now + self.idleTimeout) { self.loop.schedule(self, at: wish) }
    }

    func timerFired() {
        let isOver = self.state.withLock { state -> Bool in
            switch state.deadline.fired(now: self.loop.now) {
            case .idle: return false
            case .early(let instant):
                self.loop.schedule(self, at: instant)
                return false
            case .due:
                // Taking the request is a sign of life too.
                let unsent = state.stream?.bufferedBytes ?? 0
                guard unsent < state.unsent else { return true }
                state.unsent = unsent
                self.expectSigns(&state)
                return false
            }
        }
        guard isOver else { return }
        let (hasHead, limit) = (self.state.withLock { $0.head != nil }, self.request.idleTimeout)
        let what = hasHead ? "sent nothing for \(limit) within its answer" : "did not answer within \(limit)"
        let error = TransportError(.timedOut, "\(self.request.endpoint) \(what): look at the server, or raise the request's idleTimeout.")
        self.end(.failed(error))?.resume()
    }

    // MARK: Words

    private var cancelled: TransportError {
        TransportError(.cancelled, "The request to \(self.request.endpoint) was taken back.")
    }

    /// Says whose answer it was, and what may help.
    private func located(_ error: TransportError) -> TransportError {
        let advice: String =
            switch error.code {
            case .closed, .reset: " Look at the server's log, or at what is between it and here; the request may have been carried out."
            case .protocolViolation: " Check that an HTTP/1.1 server is at this address."
            default: ""
            }
        return TransportError(error.code, "\(self.request.endpoint.origin): \(error.message)\(advice)")
    }
}
