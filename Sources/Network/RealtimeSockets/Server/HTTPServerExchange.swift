internal import RealtimeSystem
internal import RealtimeCore

/// The answer to one request: it goes onto the stream as it is given, from whatever thread.
final class HTTPServerExchange: HTTPResponder {
    private let unsentBytes: Int
    private let state: Lock<State>

    init(_ connection: HTTPServerConnection, _ request: ResponseFraming.Request, unsentBytes: Int) {
        self.unsentBytes = unsentBytes
        self.state = Lock(State(connection: connection, request: request))
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
            let form = ResponseFraming(head, length: nil, to: state.request)
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
            guard case .streaming(let form) = state.stage else { return false }
            return self.enqueue(bytes, form, &state)
        }
    }

    func send(_ bytes: [UInt8]) async throws(TransportError) {
        while true {
            if Task.isCancelled { throw TransportError(.cancelled, "The task that sends this answer was cancelled.") }
            var outcome = SendOutcome.wait
            self.answer { state in
                outcome = state.sendOutcome
                guard case .write(let form) = outcome else { return false }
                return self.enqueue(bytes, form, &state)
            }
            switch outcome {
            case .write: return
            case .refuse(let error): throw error
            case .wait: await self.waitForRoom()
            }
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

    /// The client has gone, or does not listen any more. It can still be sent to, until ``connectionIsOver()``.
    func clientHasGone() {
        let (action, senders) = self.state.withLock { state -> ((@Sendable () -> Void)?, [WakeUp]) in
            state.hasClientGone = true
            return (state.onDisconnect.take(), state.senders.takeAll())
        }
        for sender in senders { sender.resume() }
        action?()
    }

    /// Nothing that is answered goes anywhere any more.
    func connectionIsOver() {
        let connection = self.state.withLock { $0.connection.take() }
        self.clientHasGone()
        // Its last reference may go here, outside the lock.
        _ = connection
    }

    /// All that was on the stream is sent.
    func drained() {
        let senders = self.state.withLock { $0.senders.takeAll() }
        for sender in senders { sender.resume() }
    }

    /// No request will follow this one.
    func isLast() { self.state.withLock { $0.request.keepsAlive = false } }

    /// Whether the client has to read on: then, what it has taken so far.
    func watched() -> Int? {
        self.state.withLock { state in
            let unsent = state.unsent
            state.isWatched = unsent > self.unsentBytes || !state.senders.isEmpty
            return state.isWatched ? state.enqueued - unsent : nil
        }
    }

    /// What was answered and has not left yet, with what came before it on the stream, in bytes.
    var unsent: Int { self.state.withLock { $0.unsent } }

    var hasWaitingSenders: Bool { self.state.withLock { !$0.senders.isEmpty } }

    // MARK: Onto the stream

    /// Does one step of the answer, sends what it brought, and tells the connection what it has to know.
    private func answer(_ step: (inout State) -> Bool) {
        let outcome = self.state.withLock { state -> Outcome in
            guard step(&state), state.connection != nil else { return Outcome() }
            if case .ended = state.stage {
                return Outcome(
                    connection: state.connection.take(), isOver: true, keepsAlive: state.request.keepsAlive,
                    released: state.onDisconnect.take(), senders: state.senders.takeAll())
            }
            return Outcome(connection: state.connection, needsWatch: self.beginsWatch(state.unsent > self.unsentBytes, &state))
        }
        guard let connection = outcome.connection else { return }
        connection.stream.flush()
        if outcome.isOver { connection.answered(self, keepsAlive: outcome.keepsAlive) }
        if outcome.needsWatch { connection.watch(self) }
        for sender in outcome.senders { sender.resume() }
    }

    private func beginsWatch(_ isDue: Bool, _ state: inout State) -> Bool {
        guard isDue, !state.isWatched else { return false }
        state.isWatched = true
        return true
    }

    /// Until everything is sent, the answer or the client has gone, or the task is cancelled. A client that does not read
    /// is cut off in time: waiting has the connection look.
    private func waitForRoom() async {
        let id = WaitingTasks.ID()
        await suspend { wakeUp in
            let (waits, watching) = self.state.withLock { state -> (Bool, HTTPServerConnection?) in
                guard case .wait = state.sendOutcome, !Task.isCancelled else { return (false, nil) }
                state.senders.add(id, wakeUp)
                return (true, self.beginsWatch(true, &state) ? state.connection : nil)
            }
            watching?.watch(self)
            return waits
        } onCancel: {
            self.state.withLock { $0.senders.take(id) }
        }
    }

    private func enqueue(_ piece: [UInt8], _ form: ResponseFraming.Body, _ state: inout State) -> Bool {
        guard !piece.isEmpty, form != .none else { return false }
        self.enqueue(&state) { output in
            if form == .chunked { HTTPEncoder.appendChunk(piece, to: &output) } else { output.append(contentsOf: piece) }
        }
        return true
    }

    private func put(_ response: HTTPResponse, _ state: inout State) {
        let form = ResponseFraming(response.head, length: response.body.count, to: state.request)
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
        state.connection?.stream.enqueue { output in
            let before = output.count
            fill(&output)
            count = output.count - before
        }
        state.enqueued += count
    }

    private static let unusable = HTTPResponse.line(500, "The answer of this server could not be sent.")
}
