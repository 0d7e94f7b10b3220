import RealtimeSystem

struct InMemoryHTTPTransport: HTTPExchangeTransport {
    let network: InMemoryNetwork

    func makeExchange(_ request: HTTPRequest, id: ExchangeID, events: any HTTPExchangeEvents) -> any HTTPExchange {
        InMemoryExchange(self.network, request, id, events)
    }
}

/// One request and its response: the client's exchange and the server's responder in one object.
///
/// ```
///   new ──start──▶ open ──end of the response, error──▶ ended
///    └───────────────┴──────────── cancel ──────────────▲
/// ```
final class InMemoryExchange: TimedExchange, DroppableResponder, InMemoryConnection, TimerClient {
    private enum Phase: Sendable {
        case new(any HTTPExchangeEvents)
        case open(any HTTPExchangeEvents)
        case ended
    }

    private enum Piece: Sendable {
        case head(HTTPResponseHead)
        case body([UInt8])
        case end
    }

    /// How far the server has written the response.
    private enum Response: Sendable { case none, begun, complete }

    private struct State: Sendable {
        var phase: Phase
        var response = Response.none
        /// The parts that the server has written and the client has not received.
        var pieces: [Piece] = []
        /// The bytes of the body in `pieces`.
        var output: OutputGauge
        /// More bytes than the limit wait, and the exchange is about to end.
        var isOverLimit = false
        var isPaused = false
        var idleLimit = PatientLimit.none
        /// A silent network has lost a part of the response, or the end of the exchange. Nothing follows.
        var isLost = false
        var listener: InMemoryListener?
        var onDisconnect: (@Sendable () -> Void)?
        var onWriting: (@Sendable (_ paused: Bool) -> Void)?
        /// The tasks that wait until the client has received what was written.
        var senders = WaitingTasks()
        /// Whether the client has ended the exchange before the response was complete.
        var hasClientDisconnected = false

        var events: (any HTTPExchangeEvents)? {
            if case .open(let events) = self.phase { events } else { nil }
        }

        var sendStep: SendStep {
            switch self.response {
            case .none: .fail(TransportError(.unsupported, "The response has no head yet: call begin(_:) before send(_:)."))
            case .complete: .fail(TransportError(.closed, "The response has ended; nothing more can be sent."))
            case .begun where self.hasClientDisconnected:
                .fail(TransportError(.closed, "The client disconnected before the end of the response."))
            case .begun: self.output.isPaused ? .wait : .write
            }
        }
    }

    private enum SendStep: Sendable {
        case write, wait
        case fail(TransportError)
    }

    private let network: InMemoryNetwork
    private let request: HTTPRequest
    private let id: ExchangeID
    private let state: Lock<State>

    var time: (any TimeSource)? { self.network.time }

    init(_ network: InMemoryNetwork, _ request: HTTPRequest, _ id: ExchangeID, _ events: any HTTPExchangeEvents) {
        self.network = network
        self.request = request
        self.id = id
        self.state = Lock(State(phase: .new(events), output: OutputGauge(limit: network.messageBacklogBytes)))
    }

    // MARK: Client

    func start() { self.network.submit { self.send() } }

    private func send() {
        let isNew = self.state.withLock { state in
            guard case .new(let events) = state.phase else { return false }
            state.phase = .open(events)
            return true
        }
        guard isNew else { return }
        let endpoint = self.request.endpoint
        switch self.network.condition {
        case .up: break
        // The timer ends the exchange.
        case .silent: return self.restartIdleTimeout()
        case .down: return self.fail(InMemoryNetwork.unreachable(endpoint))
        }
        guard let listener = self.network.listener(at: endpoint), let handler = listener.handler else {
            return self.fail(InMemoryNetwork.refused(endpoint))
        }
        self.network.add(self)
        listener.add(self)
        self.state.withLock { $0.listener = listener }
        self.restartIdleTimeout()
        let head = HTTPRequestHead(method: self.request.method, target: endpoint.requestTarget, headers: self.request.headers)
        if !self.request.body.isEmpty, let limit = handler.bodyLimit(for: head), self.request.body.count > limit {
            return self.respond(HTTPResponse(status: 413, text: "The client sent a body of more than \(limit) bytes."))
        }
        handler.received(head, body: self.request.body, responder: self)
    }

    func pauseReading() { self.state.withLock { $0.isPaused = true } }

    func resumeReading() {
        self.state.withLock { $0.isPaused = false }
        self.network.submit {
            self.restartIdleTimeout()
            self.deliver()
        }
    }

    func cancel() {
        // What the phase retains is released outside the lock.
        let (phase, disconnect) = self.state.withLock { state in
            defer { state.phase = .ended }
            return (state.phase, self.takeDisconnect(&state))
        }
        self.unregister()
        self.network.submit(disconnect)
        _ = phase
    }

    /// Ends the exchange with an error, for both sides.
    func fail(_ error: TransportError) {
        let (events, disconnect) = self.state.withLock { state -> ((any HTTPExchangeEvents)?, @Sendable () -> Void) in
            guard let events = state.events else { return (nil, {}) }
            state.phase = .ended
            return (events, self.takeDisconnect(&state))
        }
        self.unregister()
        events?.ended(self.id, error)
        disconnect()
    }

    /// The client has disconnected, which the server learns unless the response is complete or the network is silent.
    ///
    /// - Returns: Notifies the server. Called outside the lock.
    private func takeDisconnect(_ state: inout State) -> @Sendable () -> Void {
        state.pieces = []
        guard state.response != .complete, !state.hasClientDisconnected else { return {} }
        guard self.network.condition != .silent, !state.isLost else {
            state.isLost = true
            return {}
        }
        state.hasClientDisconnected = true
        let (action, senders) = (state.onDisconnect.take(), state.senders.takeAll())
        return {
            for sender in senders { DelayedWakeUps.resume(sender) }
            action?()
        }
    }

    private func unregister() {
        self.network.time.schedule(self, at: nil)
        self.network.remove(self)
        self.state.withLock { $0.listener.take() }?.remove(self)
    }

    // MARK: Time

    /// The idle timeout doesn't apply while reading is paused: then the server waits for the client.
    private func restartIdleTimeout() {
        let now = self.network.time.now
        let deadline = self.state.withLock { state -> Instant? in
            guard state.events != nil, !state.isPaused else { return nil }
            state.idleLimit = PatientLimit(self.request.idleTimeout, now: now)
            return state.idleLimit.deadline
        }
        if let deadline { self.network.time.schedule(self, at: deadline) }
    }

    func timerFired() {
        let now = self.network.time.now
        let (hasPassed, deadline) = self.state.withLock { state -> (Bool, Instant?) in
            guard state.events != nil, !state.isPaused else { return (false, nil) }
            let hasPassed = state.idleLimit.hasPassed(now: now)
            return (hasPassed, hasPassed ? nil : state.idleLimit.deadline)
        }
        if let deadline { self.network.time.schedule(self, at: deadline) }
        guard hasPassed else { return }
        let error = TransportError(
            .timedOut,
            "\(self.request.endpoint) timed out: no response within \(self.request.idleTimeout). Check the server, or increase idleTimeout."
        )
        self.network.submit { self.fail(error) }
    }

    // MARK: Server

    func respond(_ response: HTTPResponse) {
        self.write { state in
            guard state.response == .none else { return }
            state.response = .complete
            state.pieces.append(.head(response.head))
            if !response.body.isEmpty {
                _ = state.output.accept(response.body.count)
                state.pieces.append(.body(response.body))
            }
            state.pieces.append(.end)
        }
    }

    func begin(_ head: HTTPResponseHead) {
        self.write { state in
            guard state.response == .none else { return }
            state.response = .begun
            state.pieces.append(.head(head))
        }
    }

    func write(_ bytes: [UInt8]) {
        self.write { state in
            guard state.response == .begun, !bytes.isEmpty else { return }
            if state.output.bytes > state.output.limit { state.isOverLimit = true }
            state.output.add(bytes.count)
            state.pieces.append(.body(bytes))
        }
    }

    func send(_ bytes: [UInt8]) async throws(TransportError) {
        while true {
            if Task.isCancelled { throw TransportError(.cancelled, "The task that sends this response was cancelled.") }
            switch self.state.withLock({ $0.sendStep }) {
            case .write: return self.write(bytes)
            case .fail(let error): throw error
            case .wait: break
            }
            let id = WaitingTasks.ID()
            await suspend { wakeUp in
                self.state.withLock { state in
                    guard case .wait = state.sendStep, !Task.isCancelled else { return false }
                    state.senders.add(id, wakeUp)
                    return true
                }
            } onCancel: {
                self.state.withLock { $0.senders.take(id) }
            }
        }
    }

    func end() {
        self.write { state in
            guard state.response == .begun else { return }
            state.response = .complete
            state.pieces.append(.end)
        }
    }

    func drop() {
        guard self.state.withLock({ $0.response != .complete }) else { return }
        let error = TransportError(.reset, "The server ended the connection of \(self.request.endpoint) before the end of the response.")
        self.network.submit { self.fail(error) }
    }

    func onDisconnect(_ action: @escaping @Sendable () -> Void) {
        let hasDisconnected = self.state.withLock { state in
            if !state.hasClientDisconnected, state.response != .complete { state.onDisconnect = action }
            return state.hasClientDisconnected
        }
        if hasDisconnected { action() }
    }

    func onWriting(_ change: @escaping @Sendable (_ paused: Bool) -> Void) { self.state.withLock { $0.onWriting = change } }

    private func write(_ body: (inout State) -> Void) {
        // What the closures capture is released outside the lock.
        let released = self.state.withLock { state -> [any Sendable] in
            // The client has ended the exchange: the response goes nowhere.
            if case .ended = state.phase { return [] }
            if !state.isLost { body(&state) }
            return state.response == .complete ? [state.onDisconnect.take(), state.onWriting.take()] : []
        }
        _ = released
        self.network.submit { self.deliver() }
    }

    // MARK: Network

    /// The listener was stopped. What the server has written still arrives.
    func serverStopped() {
        self.network.submit {
            self.deliver()
            if self.network.condition == .silent { return }
            self.fail(TransportError(.closed, "\(self.request.endpoint.origin) ended the response: the server is shutting down."))
        }
    }

    /// Delivers what the server has written, unless the client has paused reading.
    private func deliver() {
        while let (piece, events) = self.takePiece() {
            self.restartIdleTimeout()
            switch piece {
            case .head(let head): events.received(head, of: self.id)
            case .body(let bytes):
                events.received(bytes, of: self.id)
                self.report { state in
                    state.output.remove(bytes.count)
                    return state.output.bytes == 0 ? state.output.takeChange() : nil
                }
            case .end:
                self.unregister()
                self.state.withLock { $0.phase = .ended }
                events.ended(self.id, nil)
            }
        }
        self.report { $0.isPaused ? $0.output.takeChange() : nil }
        let isOverLimit = self.state.withLock { state in
            // Whatever has piled up while another thread processed events, a client that reads has received it now.
            if !state.isPaused { state.isOverLimit = false }
            return state.isOverLimit && state.events != nil
        }
        if isOverLimit {
            self.fail(TransportError(.reset, "The server ended the in-memory response, because its output exceeded the limit."))
        }
    }

    private func takePiece() -> (Piece, any HTTPExchangeEvents)? {
        let condition = self.network.condition
        return self.state.withLock { state in
            if condition == .silent, !state.pieces.isEmpty { state.isLost = true }
            if state.isLost { state.pieces = [] }
            guard let events = state.events, !state.isPaused, !state.pieces.isEmpty else { return nil }
            return (state.pieces.removeFirst(), events)
        }
    }

    /// Notifies the server of a change that a closure returns.
    private func report(_ change: (inout State) -> Bool?) {
        let (onWriting, isPaused, senders) = self.state.withLock { state in
            let isPaused = change(&state)
            return (state.onWriting, isPaused, isPaused == false ? state.senders.takeAll() : [])
        }
        for sender in senders { DelayedWakeUps.resume(sender) }
        if let isPaused { onWriting?(isPaused) }
    }
}
