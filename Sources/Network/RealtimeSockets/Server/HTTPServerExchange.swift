internal import RealtimeSystem
internal import RealtimeCore

/// The response to one request, written to the stream from any thread.
final class HTTPServerExchange: DroppableResponder, SharingResponder {
    private enum Stage: Sendable {
        case pending
        case streaming(ResponseFraming.Body)
        case ended
    }

    /// How to send a piece that respects back-pressure.
    private enum SendStep: Sendable {
        case write(ResponseFraming.Body)
        case wait
        case fail(TransportError)
    }

    private struct State: Sendable {
        var stage = Stage.pending
        /// Released at the end of the response, so that a handler that keeps its responders does not retain the connection.
        var connection: HTTPServerConnection?
        var request: ResponseFraming.Request
        var hasClientDisconnected = false
        var onDisconnect: (@Sendable () -> Void)?
        var onWriting: (@Sendable (_ paused: Bool) -> Void)?
        /// Whether the handler was asked to pause writing.
        var isWritingPaused = false
        /// The number of bytes that this response has added to the stream.
        var enqueued = 0
        /// Whether the connection enforces the stall timeout.
        var isMonitored = false
        var senders = WaitingTasks()

        /// The handler hasn't returned. Like the answers on a WebSocket, what it writes until then doesn't count toward the limit.
        var isHandling = true
        /// The number of bytes that the handler has written before it returned.
        var answers = 0
        /// More bytes than the limit wait, and the connection is about to be closed.
        var isOverLimit = false

        var unsent: Int { self.connection?.stream.bufferedBytes ?? 0 }

        /// - Parameter mark: The number of unsent bytes above which a task waits.
        func sendStep(_ mark: Int) -> SendStep {
            switch self.stage {
            case .pending: .fail(TransportError(.unsupported, "The response has no head yet: call begin(_:) before send(_:)."))
            case .ended: .fail(TransportError(.closed, "The response has ended; nothing more can be sent."))
            case .streaming where self.connection == nil || self.hasClientDisconnected:
                .fail(TransportError(.closed, "The client disconnected before the end of the response."))
            case .streaming(let framing): self.unsent > mark ? .wait : .write(framing)
            }
        }
    }

    /// The actions that follow a change, performed outside the lock.
    private struct Effects: Sendable {
        var connection: HTTPServerConnection?
        var hasEnded = false
        var isOverLimit = false
        var startsMonitoring = false
        var keepsAlive = false
        var released: [any Sendable] = []
        var senders: [WakeUp] = []
    }

    private let limits: OutputLimits
    private let state: Lock<State>

    /// - Parameter limits: The limits of a streamed response that its client doesn't read.
    init(_ connection: HTTPServerConnection, _ request: ResponseFraming.Request, limits: OutputLimits) {
        self.limits = limits
        self.state = Lock(State(connection: connection, request: request))
    }

    // MARK: The handler's side

    func respond(_ response: HTTPResponse) { self.respond(response.head, SharedBody(response.body)) }

    func respond(_ head: HTTPResponseHead, _ body: SharedBody) {
        self.change { state in
            guard case .pending = state.stage else { return false }
            self.enqueue(head, body, &state)
            state.stage = .ended
            return true
        }
    }

    func begin(_ head: HTTPResponseHead) {
        self.change { state in
            guard case .pending = state.stage else { return false }
            let framing = ResponseFraming(head, length: nil, to: state.request)
            state.request.keepsAlive = framing.keepsAlive
            guard self.enqueue(framing.head, &state) else {
                self.enqueueInvalidResponse(&state)
                state.stage = .ended
                return true
            }
            state.stage = .streaming(framing.body)
            return true
        }
    }

    func write(_ bytes: [UInt8]) { self.write(SharedBody(bytes)) }

    func write(_ body: SharedBody) {
        self.change { state in
            guard case .streaming(let framing) = state.stage, !state.isOverLimit else { return false }
            if state.isHandling, state.connection?.stream.loop.isOnLoop == true {
                state.answers += body.count
            } else if state.unsent > self.limits.backlogBytes + state.answers {
                state.isOverLimit = true
                return true
            }
            return self.enqueue(body, framing, &state)
        }
    }

    func send(_ bytes: [UInt8]) async throws(TransportError) {
        while true {
            if Task.isCancelled { throw TransportError(.cancelled, "The task that sends this response was cancelled.") }
            var step = SendStep.wait
            self.change { state in
                step = state.sendStep(self.limits.mark)
                guard case .write(let framing) = step else { return false }
                return self.enqueue(SharedBody(bytes), framing, &state)
            }
            switch step {
            case .write: return
            case .fail(let error): throw error
            case .wait: await self.waitForCapacity()
            }
        }
    }

    func end() {
        self.change { state in
            guard case .streaming(let framing) = state.stage else { return false }
            if framing == .chunked { self.enqueue(&state) { HTTPEncoder.appendLastChunk(to: &$0) } }
            state.stage = .ended
            return true
        }
    }

    func drop() { self.state.withLock { $0.connection }?.drop(self) }

    func onDisconnect(_ action: @escaping @Sendable () -> Void) {
        let hasDisconnected = self.state.withLock { state -> Bool in
            if case .ended = state.stage { return false }
            if !state.hasClientDisconnected { state.onDisconnect = action }
            return state.hasClientDisconnected
        }
        if hasDisconnected { action() }
    }

    func onWriting(_ change: @escaping @Sendable (_ paused: Bool) -> Void) {
        self.state.withLock { state in
            if case .ended = state.stage { return }
            state.onWriting = change
        }
    }

    // MARK: The connection's side

    /// The handler has returned.
    func handlerReturned() { self.state.withLock { $0.isHandling = false } }

    /// Notifies the handler that the client has closed its side. The response can still be sent until ``connectionClosed()``.
    func clientDisconnected() {
        let (action, senders) = self.state.withLock { state -> ((@Sendable () -> Void)?, [WakeUp]) in
            state.hasClientDisconnected = true
            return (state.onDisconnect.take(), state.senders.takeAll())
        }
        for sender in senders { sender.resume() }
        action?()
    }

    /// Discards everything that is written from now on.
    func connectionClosed() {
        let connection = self.state.withLock { $0.connection.take() }
        self.clientDisconnected()
        // Its last reference may be released here, outside the lock.
        _ = connection
    }

    /// Asks the handler to pause writing: more than 256 KiB are unsent.
    func backlogged() {
        let onWriting = self.state.withLock { state in
            defer { state.isWritingPaused = true }
            return state.isWritingPaused ? nil : state.onWriting
        }
        onWriting?(true)
    }

    /// Resumes the waiting senders, and tells the handler that writing can continue: everything on the stream has been sent.
    func drained() {
        let (senders, onWriting) = self.state.withLock { state in
            defer { state.isWritingPaused = false }
            return (state.senders.takeAll(), state.isWritingPaused ? state.onWriting : nil)
        }
        for sender in senders { sender.resume() }
        onWriting?(false)
    }

    /// Closes the connection after this response.
    func disableKeepAlive() { self.state.withLock { $0.request.keepsAlive = false } }

    /// The number of bytes of this response that the socket has accepted.
    ///
    /// - Returns: `nil` if few bytes are unsent and no task is waiting. The connection then stops monitoring.
    func monitoredProgress() -> Int? {
        self.state.withLock { state in
            let unsent = state.unsent
            state.isMonitored = unsent > self.limits.mark || !state.senders.isEmpty
            return state.isMonitored ? state.enqueued - unsent : nil
        }
    }

    /// The number of unsent bytes on the stream.
    var unsent: Int { self.state.withLock { $0.unsent } }

    var hasWaitingSenders: Bool { self.state.withLock { !$0.senders.isEmpty } }

    // MARK: Writing to the stream

    /// Changes the state, sends what the change has enqueued, and notifies the connection.
    ///
    /// - Parameter body: Returns `false` if it changed nothing.
    private func change(_ body: (inout State) -> Bool) {
        let effects = self.state.withLock { state -> Effects in
            guard body(&state), state.connection != nil else { return Effects() }
            if case .ended = state.stage {
                return Effects(
                    connection: state.connection.take(), hasEnded: true, keepsAlive: state.request.keepsAlive,
                    released: [state.onDisconnect.take(), state.onWriting.take()], senders: state.senders.takeAll())
            }
            return Effects(
                connection: state.connection, isOverLimit: state.isOverLimit,
                startsMonitoring: state.unsent > self.limits.mark && self.startMonitoring(&state))
        }
        guard let connection = effects.connection else { return }
        if effects.isOverLimit { return connection.drop(self) }
        connection.stream.flush()
        if effects.hasEnded { connection.responseEnded(self, keepsAlive: effects.keepsAlive) }
        if effects.startsMonitoring { connection.monitorStall(of: self) }
        for sender in effects.senders { sender.resume() }
    }

    /// - Returns: `false` if the connection is already monitoring the response.
    private func startMonitoring(_ state: inout State) -> Bool {
        defer { state.isMonitored = true }
        return !state.isMonitored
    }

    /// Waits until everything is sent, the response has ended, the client has disconnected, or the task is cancelled.
    ///
    /// While a task waits, the connection is monitored, so the wait for a client that reads nothing ends with the stall timeout.
    private func waitForCapacity() async {
        let id = WaitingTasks.ID()
        await suspend { wakeUp in
            let (waits, monitored) = self.state.withLock { state -> (Bool, HTTPServerConnection?) in
                guard case .wait = state.sendStep(self.limits.mark), !Task.isCancelled else { return (false, nil) }
                state.senders.add(id, wakeUp)
                return (true, self.startMonitoring(&state) ? state.connection : nil)
            }
            monitored?.monitorStall(of: self)
            return waits
        } onCancel: {
            self.state.withLock { $0.senders.take(id) }
        }
    }

    private func enqueue(_ body: SharedBody, _ framing: ResponseFraming.Body, _ state: inout State) -> Bool {
        guard !body.isEmpty, framing != .none else { return false }
        if let bytes = body.single, !SharedBody.isLarge(bytes) {
            self.enqueue(&state) { output in
                if framing == .chunked { HTTPEncoder.appendChunk(bytes, to: &output) } else { output.append(contentsOf: bytes) }
            }
            return true
        }
        if framing == .chunked { self.enqueue(&state) { HTTPEncoder.appendChunkHeader(body.count, to: &$0) } }
        self.enqueue(pieces: body, &state)
        if framing == .chunked { self.enqueue(&state) { HTTPEncoder.appendChunkEnd(to: &$0) } }
        return true
    }

    private func enqueue(pieces body: SharedBody, _ state: inout State) {
        for piece in body.pieces {
            if SharedBody.isLarge(piece) {
                self.enqueue(&state, shared: piece)
            } else {
                self.enqueue(&state) { $0.append(contentsOf: piece) }
            }
        }
    }

    private func enqueue(_ head: HTTPResponseHead, _ body: SharedBody, _ state: inout State) {
        let framing = ResponseFraming(head, length: body.count, to: state.request)
        guard self.enqueue(framing.head, &state) else { return self.enqueueInvalidResponse(&state) }
        state.request.keepsAlive = framing.keepsAlive
        if framing.body == .plain { self.enqueue(pieces: body, &state) }
    }

    private func enqueueInvalidResponse(_ state: inout State) {
        let response = HTTPResponse.line(500, "The server produced an invalid response.")
        self.enqueue(response.head, SharedBody(response.body), &state)
    }

    /// - Returns: `false` if the head is invalid. Nothing was enqueued then.
    private func enqueue(_ head: HTTPResponseHead, _ state: inout State) -> Bool {
        // RFC 9110 section 15.2: 1xx responses are interim; the client would keep waiting for the final one.
        guard head.status >= 200 else { return false }
        var isValid = true
        self.enqueue(&state) { output in
            do throws(TransportError) {
                try HTTPEncoder.append(head, to: &output)
            } catch {
                isValid = false
            }
        }
        return isValid
    }

    private func enqueue(_ state: inout State, _ fill: (inout [UInt8]) -> Void) {
        var count = 0
        state.connection?.stream.enqueue { output in
            let before = output.count
            fill(&output)
            count = output.count - before
        }
        state.enqueued += count
    }

    /// Writes bytes that the stream doesn't copy.
    private func enqueue(_ state: inout State, shared: [UInt8]) {
        var isOpen = false
        _ = state.connection?.stream.enqueue(limit: .max, shared: shared) { _ in
            isOpen = true
            return true
        }
        if isOpen { state.enqueued += shared.count }
    }
}
