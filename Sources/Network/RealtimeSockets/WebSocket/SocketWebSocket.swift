import RealtimeSystem
import RealtimeCore

/// One WebSocket over a stream: a connection to its owner, the receiver of events to the stream.
///
/// ```
///   idle ──open──▶ connecting ──the stream is open──▶ handshaking ──101──▶ open ──the machine says so──▶ ended
///     └───────────────────┴────────── failed, timeout, close, abandon ───────┴──────────────────────────▶
/// ```
/// What it decides lies in ``ClientHandshake`` and ``WebSocketMachine``; here they meet their stream. The lock orders
/// senders, on any thread, and the loop. The owner's events are called outside of it.
final class SocketWebSocket: WebSocketConnection, StreamEvents, TimerClient {
    private enum Stage: Sendable { case idle, connecting, handshaking, open, ended }

    /// What the owner wanted before there was a WebSocket.
    private enum Early: Sendable {
        case send(WebSocketMessage)
        case close(CloseCode, String)
    }

    /// Apart from the rest, since it is large and soon over.
    private final class Opening: Sendable {
        let request: WebSocketRequest
        let connector: SocketConnector

        init(_ request: WebSocketRequest, _ connector: SocketConnector) {
            self.request = request
            self.connector = connector
        }
    }

    private struct State: Sendable {
        var events: (any WebSocketEvents)?
        var stream: SocketStream?
        var opening: Opening?
        var handshake: [ClientHandshake] = []
        var deadline: Instant?
        var stage: Stage
        var isReadingPaused = false
        /// More waits than may, and the end is on its way.
        var isCutOff = false
        /// In its order.
        var early: [Early] = []
        var machine: WebSocketMachine
    }

    /// What is to be told once the lock is released.
    private struct News {
        var opened: HTTPResponseHead?
        var closed: CloseReason?
        var socket = WebSocketMachine.SocketAction.keep
    }

    /// For clients: what would take minutes on a slow network.
    private static let clientBacklog = 64 << 20

    let id: ConnectionID
    private let loop: EventLoop
    private let keys: MaskKeyPool
    private let backlogLimit: Int
    private let state: Lock<State>

    /// Of a client. Nothing happens before ``open()``.
    init(_ request: WebSocketRequest, id: ConnectionID, events: any WebSocketEvents, connector: SocketConnector) {
        self.id = id
        self.loop = connector.loop
        self.keys = connector.keys
        self.backlogLimit = Self.clientBacklog
        let machine = WebSocketMachine(role: .client, messageLimit: request.messageLimit)
        self.state = Lock(State(events: events, opening: Opening(request, connector), stage: .idle, machine: machine))
    }

    /// Of a server: the handshake has been answered, and the answer is on its way.
    init(accepted stream: SocketStream, id: ConnectionID, messageLimit: Int, backlogLimit: Int) {
        self.id = id
        self.loop = stream.loop
        self.keys = MaskKeyPool.unused
        self.backlogLimit = backlogLimit
        self.state = Lock(State(stream: stream, stage: .handshaking, machine: WebSocketMachine(role: .server, messageLimit: messageLimit)))
    }

    /// On the loop's thread: a server's WebSocket begins. `leftover` came in one piece with the request.
    func start(_ events: any WebSocketEvents, leftover: UnsafeRawBufferPointer) {
        let begins = self.state.withLock { state in
            guard state.stage == .handshaking else { return false }
            state.events = events
            self.begin(&state)
            return true
        }
        guard begins else { return }
        events.opened(self.id, head: HTTPResponseHead(status: 101))
        self.flush()
        if !leftover.isEmpty { self.receive(leftover) }
    }

    /// How often it wrote to its socket.
    var writes: Int { self.state.withLock { $0.stream }?.writes ?? 0 }

    // MARK: From the owner

    func open() {
        let opening = self.state.withLock { state -> (Opening, SocketStream, Bool)? in
            guard state.stage == .idle, let opening = state.opening else { return nil }
            let stream = SocketStream(loop: self.loop, events: self)
            state.stage = .connecting
            state.stream = stream
            state.deadline = self.loop.now.advanced(by: opening.request.timeout)
            self.arm(state)
            return (opening, stream, state.isReadingPaused)
        }
        guard let (opening, stream, isPaused) = opening else { return }
        if isPaused { stream.pauseReading() }
        let endpoint = opening.request.endpoint
        do throws(TransportError) {
            guard endpoint.scheme == "ws" || endpoint.scheme == "wss" else {
                throw TransportError(.invalidURL, "\(endpoint.origin) is no address of a WebSocket; it should begin with ws:// or wss://.")
            }
            stream.connect(
                to: endpoint.host, port: endpoint.port, try opening.connector.options(for: endpoint, timeout: opening.request.timeout))
        } catch {
            self.fail(error)
        }
    }

    func enqueue(_ message: WebSocketMessage) {
        self.state.withLock { state in
            switch state.stage {
            case .idle, .connecting, .handshaking: state.early.append(.send(message))
            case .open: self.send(message, &state)
            case .ended: break
            }
        }
    }

    func flush() {
        let stream = self.state.withLock { $0.stage == .open ? $0.stream : nil }
        stream?.flush()
    }

    func pauseReading() {
        self.state.withLock { state in
            state.isReadingPaused = true
            state.stream?.pauseReading()
        }
    }

    func resumeReading() {
        self.state.withLock { state in
            state.isReadingPaused = false
            state.stream?.resumeReading()
        }
    }

    func close(_ code: CloseCode, reason: String) {
        let (stream, isOver) = self.state.withLock { state -> (SocketStream?, Bool) in
            switch state.stage {
            case .ended: return (nil, false)
            case .handshaking where state.opening == nil:
                // A server's is as good as open: who is refused hears why.
                state.early.append(.close(code, reason))
                return (nil, false)
            case .idle, .connecting, .handshaking: return (nil, true)
            case .open:
                self.close(code, reason, &state)
                return (state.stream, false)
            }
        }
        stream?.flush()
        if isOver { self.end(.requested) }
    }

    func abandon() {
        let stream = self.state.withLock { state -> SocketStream? in
            state.events = nil
            return self.finish(&state)
        }
        stream?.close()
    }

    // MARK: From the stream, on the loop's thread

    func opened(_ stream: SocketStream) {
        do throws(TransportError) {
            try self.state.withLock { state throws(TransportError) in
                guard state.stage == .connecting, let opening = state.opening else { return }
                state.stage = .handshaking
                var bytes: [UInt8] = []
                state.handshake = [try ClientHandshake(opening.request, nonce: self.keys.use { $0.bytes(16) }, output: &bytes)]
                stream.enqueue { $0 += bytes }
            }
            stream.flush()
        } catch {
            self.fail(error)
        }
    }

    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
        let stage = self.state.withLock { $0.stage }
        if stage == .open { return self.receive(bytes) }
        var input = bytes
        do throws(TransportError) {
            let opened = try self.state.withLock { state throws(TransportError) -> (HTTPResponseHead, (any WebSocketEvents)?)? in
                guard state.stage == .handshaking, !state.handshake.isEmpty else { return nil }
                guard let head = try state.handshake[0].receive(&input) else { return nil }
                state.handshake = []
                state.opening = nil
                state.deadline = nil
                self.begin(&state)
                self.arm(state)
                return (head, state.events)
            }
            guard let (head, events) = opened else { return }
            events?.opened(self.id, head: head)
            self.flush()
            if !input.isEmpty { self.receive(input) }
        } catch {
            self.fail(error)
        }
    }

    func drained(_ stream: SocketStream) {
        self.state.withLock { state in
            stream.enqueue { output in
                self.keys.use { keys in state.machine.drained(output: &output, keys: &keys) }
            }
        }
        stream.flush()
    }

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        let news = self.state.withLock { state -> News in
            switch state.stage {
            case .idle, .ended:
                return News(socket: .drop)
            case .connecting, .handshaking:
                // A refusal says more than how its body ended.
                let why =
                    state.handshake.first?.pendingRefusal ?? error
                    ?? (state.handshake.isEmpty
                        ? TransportError(.closed, "The peer ended the connection.") : state.handshake[0].endOfStream())
                return News(closed: .transport(why), socket: .drop)
            case .open:
                let step = error.map { state.machine.failed($0) } ?? state.machine.endOfStream()
                return News(closed: step.closed, socket: .drop)
            }
        }
        self.tell(news, stream)
    }

    func timerFired() {
        let (news, stream) = self.state.withLock { state -> (News, SocketStream?) in
            var news = News()
            let now = self.loop.now
            if let deadline = state.deadline, deadline <= now, let request = state.opening?.request {
                let refusal = state.handshake.first?.pendingRefusal
                let why =
                    refusal ?? TransportError(.timedOut, "\(request.endpoint.origin) did not open the WebSocket within \(request.timeout).")
                news = News(closed: .transport(why), socket: .drop)
            } else if state.stage == .open {
                let step = state.machine.timeout(now: now)
                news = News(closed: step.closed, socket: step.socket)
            }
            if news.socket == .keep { self.arm(state) }
            return (news, state.stream)
        }
        self.tell(news, stream)
    }

    // MARK: What they have in common

    /// The WebSocket is open from here on.
    private func begin(_ state: inout State) {
        state.stage = .open
        let early = state.early
        state.early = []
        for wish in early {
            switch wish {
            case .send(let message): self.send(message, &state)
            case .close(let code, let reason): self.close(code, reason, &state)
            }
        }
    }

    private func close(_ code: CloseCode, _ reason: String, _ state: inout State) {
        var begins = false
        state.stream?.enqueue { output in
            self.keys.use { keys in
                begins = state.machine.close(code, reason: reason, output: &output, keys: &keys, now: self.loop.now)
            }
        }
        // A close frame has to be read to be answered, whatever the owner thinks of messages.
        if begins { state.stream?.resumeReading() }
        self.arm(state)
    }

    private func send(_ message: WebSocketMessage, _ state: inout State) {
        var isTooMuch = false
        state.stream?.enqueue { output in
            isTooMuch = output.count > self.backlogLimit
            guard !isTooMuch else { return }
            // After a close frame nothing may follow: the owner hears of the end in its turn.
            self.keys.use { keys in _ = state.machine.send(message, output: &output, keys: &keys) }
        }
        guard isTooMuch, !state.isCutOff else { return }
        state.isCutOff = true
        // Not from within: the owner may hold a lock.
        self.loop.execute {
            let what = "The peer reads too little: more than \(self.backlogLimit) bytes wait to be sent to it."
            self.end(.transport(TransportError(.tooLarge, what)))
        }
    }

    private func receive(_ bytes: UnsafeRawBufferPointer) {
        var batch = self.loop.takeBatch()
        var end: FrameDecoder.End?
        let (events, stream) = self.state.withLock { state -> ((any WebSocketEvents)?, SocketStream?) in
            guard state.stage == .open else { return (nil, nil) }
            state.stream?.enqueue { output in
                self.keys.use { keys in end = state.machine.received(bytes, into: &batch, output: &output, keys: &keys) }
            }
            return (state.events, state.stream)
        }
        if !batch.entries.isEmpty {
            stream?.flush()
            events?.received(self.id, batch)
        }
        self.loop.giveBack(&batch)
        if let end { self.conclude(end) }
    }

    private func conclude(_ end: FrameDecoder.End) {
        let (news, stream) = self.state.withLock { state -> (News, SocketStream?) in
            guard state.stage == .open else { return (News(), nil) }
            var step = WebSocketMachine.Step(closed: nil, socket: .keep)
            state.stream?.enqueue { output in
                self.keys.use { keys in step = state.machine.conclude(end, output: &output, keys: &keys, now: self.loop.now) }
            }
            self.arm(state)
            return (News(closed: step.closed, socket: step.socket), state.stream)
        }
        stream?.flush()
        self.tell(news, stream)
    }

    private func tell(_ news: News, _ stream: SocketStream?) {
        if let reason = news.closed {
            let events = self.state.withLock { $0.events.take() }
            events?.closed(self.id, reason)
        }
        switch news.socket {
        case .keep: break
        case .finishWriting: stream?.finishWriting()
        case .drop:
            _ = self.state.withLock { self.finish(&$0) }
            stream?.close()
        }
    }

    /// Over before it was open.
    private func fail(_ error: TransportError) { self.end(.transport(error)) }

    private func end(_ reason: CloseReason) {
        let (stream, events) = self.state.withLock { state in (self.finish(&state), state.events.take()) }
        stream?.close()
        guard let events else { return }
        // The owner may be in the middle of a call: what it hears, it hears on the loop's thread.
        if self.loop.isOnLoop || !self.loop.execute({ events.closed(self.id, reason) }) { events.closed(self.id, reason) }
    }

    private func finish(_ state: inout State) -> SocketStream? {
        guard state.stage != .ended else { return nil }
        state.stage = .ended
        state.early = []
        state.handshake = []
        state.opening = nil
        self.loop.schedule(self, at: nil)
        return state.stream.take()
    }

    private func arm(_ state: State) {
        self.loop.schedule(self, at: state.deadline ?? (state.stage == .open ? state.machine.nextDeadline : nil))
    }
}

/// Mask keys for all the clients of one loop.
final class MaskKeyPool: Sendable {
    /// A server masks nothing.
    static let unused = MaskKeyPool()

    private let keys = Lock(MaskKeys())

    @inline(__always)
    func use<Result>(_ body: (inout MaskKeys) -> Result) -> Result { self.keys.withLock { body(&$0) } }
}
