internal import RealtimeCore

/// Stands in until the real one is there.
final class WebSocketEndpoint: WebSocketConnection, StreamEvents, Sleeper {
    private struct State: Sendable {
        var machine: WebSocketMachine
        var keys = MaskKeys()
    }
    private let stream: SocketStream
    private let id: ConnectionID
    private let state: Lock<State>
    nonisolated(unsafe) private var events: (any WebSocketEvents)?

    init(accepted stream: SocketStream, id: ConnectionID, messageLimit: Int) {
        self.stream = stream
        self.id = id
        self.state = Lock(State(machine: WebSocketMachine(role: .server, messageLimit: messageLimit)))
    }

    func start(_ events: any WebSocketEvents, leftover: UnsafeRawBufferPointer) {
        self.events = events
        events.opened(self.id, head: HTTPResponseHead(status: 101))
        if !leftover.isEmpty { self.received(self.stream, leftover) }
    }

    func open() {}
    func enqueue(_ message: WebSocketMessage) {
        self.state.withLock { state in
            self.stream.enqueue { _ = state.machine.send(message, output: &$0, keys: &state.keys) }
        }
    }
    func flush() { self.stream.flush() }
    func pauseReading() { self.stream.pauseReading() }
    func resumeReading() { self.stream.resumeReading() }
    func close(_ code: CloseCode, reason: String) {
        let deadline = self.state.withLock { state in
            self.stream.enqueue {
                _ = state.machine.close(code, reason: reason, output: &$0, keys: &state.keys, now: self.stream.loop.now)
            }
            return state.machine.nextDeadline
        }
        self.stream.flush()
        self.stream.loop.wake(self, at: deadline)
    }
    func abandon() { self.stream.close() }
    func wakeUp() { self.step(self.state.withLock { $0.machine.timeout(now: self.stream.loop.now) }) }
    func opened(_ stream: SocketStream) {}
    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
        var batch = MessageBatch()
        let step = self.state.withLock { state in
            var step: WebSocketMachine.Step!
            var output: [UInt8] = []
            step = state.machine.received(bytes, into: &batch, output: &output, keys: &state.keys, now: stream.loop.now)
            stream.enqueue { $0 += output }
            return step!
        }
        stream.flush()
        if !batch.entries.isEmpty { self.events?.received(self.id, batch) }
        self.step(step)
    }
    func drained(_ stream: SocketStream) {}
    func ended(_ stream: SocketStream, _ error: TransportError?) {
        self.step(self.state.withLock { error.map { $0 } == nil ? $0.machine.endOfStream() : $0.machine.failed(error!) })
    }
    private func step(_ step: WebSocketMachine.Step) {
        if let reason = step.closed {
            let events = self.events
            self.events = nil
            events?.closed(self.id, reason)
        }
        switch step.socket {
        case .keep: return
        case .finishWriting: self.stream.finishWriting()
        case .drop: self.stream.close()
        }
        self.stream.loop.wake(self, at: self.state.withLock { $0.machine.nextDeadline })
    }
}
