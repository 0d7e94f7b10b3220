internal import RealtimeCore

/// The answer to one request: it goes onto the stream as it is given, from whatever thread.
final class ServerExchange: HTTPResponder {
    private enum Stage: Sendable {
        case waiting
        case streaming(AnswerForm.Body)
        case ended
    }

    private struct State: Sendable {
        var stage = Stage.waiting
        var request: AnswerForm.Request
        var hasClientGone = false
        var onDisconnect: (@Sendable () -> Void)?
        /// What this answer has put on the stream, in bytes.
        var enqueued = 0
        /// The connection looks whether the client reads.
        var isWatched = false
    }

    private let connection: ServerConnection
    private let stream: SocketStream
    private let unsentBytes: Int
    private let state: Lock<State>

    init(_ connection: ServerConnection, _ request: AnswerForm.Request, unsentBytes: Int) {
        self.connection = connection
        self.stream = connection.stream
        self.unsentBytes = unsentBytes
        self.state = Lock(State(request: request))
    }

    // MARK: The handler's side

    func respond(_ response: HTTPResponse) {
        self.answer { state in
            guard case .waiting = state.stage else { return false }
            self.put(response, &state)
            state.stage = .ended
            return true
        }
    }

    func begin(_ head: HTTPResponseHead) {
        self.answer { state in
            guard case .waiting = state.stage else { return false }
            let form = AnswerForm(head, length: nil, to: state.request)
            state.request.keepsAlive = form.keepsAlive
            guard self.put(form.head, &state) else {
                self.put(Self.unusable, &state)
                state.stage = .ended
                return true
            }
            state.stage = .streaming(form.body)
            return true
        }
    }

    func write(_ bytes: [UInt8]) {
        self.answer { state in
            guard case .streaming(let form) = state.stage, !bytes.isEmpty else { return false }
            self.enqueue(&state) { output in
                switch form {
                case .none: return
                case .plain: output.append(contentsOf: bytes)
                case .chunked: HTTPEncoder.appendChunk(bytes, to: &output)
                }
            }
            return form != .none
        }
    }

    func end() {
        self.answer { state in
            guard case .streaming(let form) = state.stage else { return false }
            if form == .chunked { self.enqueue(&state) { HTTPEncoder.appendLastChunk(to: &$0) } }
            state.stage = .ended
            return true
        }
    }

    func onDisconnect(_ action: @escaping @Sendable () -> Void) {
        let hasGone = self.state.withLock { state -> Bool in
            if case .ended = state.stage { return false }
            if !state.hasClientGone { state.onDisconnect = action }
            return state.hasClientGone
        }
        if hasGone { action() }
    }

    // MARK: The connection's side

    /// The client has gone, or does not listen any more.
    func clientHasGone() {
        let action = self.state.withLock { state -> (@Sendable () -> Void)? in
            state.hasClientGone = true
            return state.onDisconnect.take()
        }
        action?()
    }

    /// No request will follow this one.
    func isLast() { self.state.withLock { $0.request.keepsAlive = false } }

    /// Whether the client has to read on: then, what it has taken so far.
    func watched() -> Int? {
        self.state.withLock { state in
            let unsent = self.stream.bufferedBytes
            state.isWatched = unsent > self.unsentBytes
            return state.isWatched ? state.enqueued - unsent : nil
        }
    }

    // MARK: Onto the stream

    /// Does one step of the answer, sends what it brought, and tells the connection what it has to know.
    private func answer(_ step: (inout State) -> Bool) {
        var released: (@Sendable () -> Void)?
        let (flushes, isOver, keepsAlive, needsWatch) = self.state.withLock { state -> (Bool, Bool, Bool, Bool) in
            guard step(&state) else { return (false, false, false, false) }
            if case .ended = state.stage {
                // What it holds is let go outside the lock.
                released = state.onDisconnect.take()
                return (true, true, state.request.keepsAlive, false)
            }
            let needsWatch = !state.isWatched && self.stream.bufferedBytes > self.unsentBytes
            if needsWatch { state.isWatched = true }
            return (true, false, false, needsWatch)
        }
        _ = released
        if flushes { self.stream.flush() }
        if isOver { self.connection.answered(self, keepsAlive: keepsAlive) }
        if needsWatch { self.connection.watch(self) }
    }

    private func put(_ response: HTTPResponse, _ state: inout State) {
        let form = AnswerForm(response.head, length: response.body.count, to: state.request)
        guard self.put(form.head, &state) else { return self.put(Self.unusable, &state) }
        state.request.keepsAlive = form.keepsAlive
        if form.body == .plain { self.enqueue(&state) { $0.append(contentsOf: response.body) } }
    }

    /// False: the head would have been read as something else than it says, or is none.
    private func put(_ head: HTTPResponseHead, _ state: inout State) -> Bool {
        // Those with 1xx are no answers: the client would go on waiting.
        guard head.status >= 200 else { return false }
        var isFine = true
        self.enqueue(&state) { output in
            do throws(TransportError) {
                try HTTPEncoder.append(head, to: &output)
            } catch {
                isFine = false
            }
        }
        return isFine
    }

    private func enqueue(_ state: inout State, _ fill: (inout [UInt8]) -> Void) {
        var count = 0
        self.stream.enqueue { output in
            let before = output.count
            fill(&output)
            count = output.count - before
        }
        state.enqueued += count
    }

    private static let unusable = HTTPResponse.line(500, "The answer of this server could not be sent.")
}
