import RealtimeSystem
import RealtimeCore

/// A WebSocket over a stream.
///
/// ```
///   idle ──open()──▶ connecting ──stream open──▶ handshaking ──101──▶ open ──────▶ ended
///     └──────────────────┴── error, timeout, close(), abandon() ──────┴──────────────▲
/// ```
/// ``ClientHandshake`` and ``WebSocketMachine`` make the decisions; this class connects them with the stream. The lock serializes
/// senders, which may be on any thread, and the loop. The owner's events are called without the lock.
final class SocketWebSocket: WebSocketConnection, StreamEvents, TimerClient {
    private enum Stage: Sendable { case idle, connecting, handshaking, open, ended }

    /// A call that the owner made before the WebSocket was open.
    private enum PendingSend: Sendable {
        case message(WebSocketMessage)
        case close(CloseCode, String)
    }

    /// The state that a client needs until it is open. A separate object, because it is large and short-lived.
    private final class ConnectRequest: Sendable {
        let request: WebSocketRequest
        let connector: SocketConnector

        init(_ request: WebSocketRequest, _ connector: SocketConnector) {
            self.request = request
            self.connector = connector
        }
    }

    private struct State: Sendable {
        var events: (any WebSocketEvents)?
        var connectRequest: ConnectRequest?
        /// At most one. An array takes less memory than an optional when it is empty.
        var handshake: [ClientHandshake] = []
        var deadline: Instant?
        var stage: Stage
        /// The backlog exceeded its limit, and the loop is about to end the WebSocket.
        var isOverBacklogLimit = false
        var pendingSends: [PendingSend] = []
        var machine: WebSocketMachine
    }

    /// The backlog limit of clients, in bytes. Sending that much takes minutes on a slow network.
    private static let clientBacklogLimit = 64 << 20

    let id: ConnectionID
    private let loop: EventLoop
    /// A constant, so that ``flush()`` needs no additional lock. The stream retains this object from ``open()`` until it is closed.
    private let stream: SocketStream
    private let sharedBatch: SharedBatch
    private let backlogLimit: Int
    private let state: Lock<State>

    /// Creates a WebSocket of a client. It does nothing until ``open()``.
    init(_ request: WebSocketRequest, id: ConnectionID, events: any WebSocketEvents, connector: SocketConnector) {
        self.id = id
        self.loop = connector.loop
        self.stream = SocketStream(loop: connector.loop)
        self.sharedBatch = SharedBatch.of(connector.loop)
        self.backlogLimit = Self.clientBacklogLimit
        let machine = WebSocketMachine(role: .client, messageLimit: request.messageLimit)
        self.state = Lock(State(events: events, connectRequest: ConnectRequest(request, connector), stage: .idle, machine: machine))
    }

    /// Creates a WebSocket of a server. Its stream must not contain the response to the handshake before ``start(_:leftover:)`` is about to
    /// be called, because a flush would write it.
    init(accepted stream: SocketStream, id: ConnectionID, messageLimit: Int, backlogLimit: Int) {
        self.id = id
        self.loop = stream.loop
        self.stream = stream
        self.sharedBatch = SharedBatch.of(stream.loop)
        self.backlogLimit = backlogLimit
        self.state = Lock(State(stage: .handshaking, machine: WebSocketMachine(role: .server, messageLimit: messageLimit)))
    }

    /// Opens a WebSocket of a server. Called on the loop's thread.
    ///
    /// - Parameters:
    ///   - events: The receiver of events.
    ///   - leftover: The bytes that were received with the request and follow it.
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

    /// The number of writes to the socket.
    var writes: Int { self.stream.writes }

    // MARK: Calls of the owner

    func open() {
        let opening = self.state.withLock { state -> ConnectRequest? in
            guard state.stage == .idle, let connectRequest = state.connectRequest else { return nil }
            state.stage = .connecting
            state.deadline = self.loop.now.advanced(by: connectRequest.request.timeout)
            self.scheduleTimer(state)
            return connectRequest
        }
        guard let connectRequest = opening else { return }
        let (endpoint, timeout) = (connectRequest.request.endpoint, connectRequest.request.timeout)
        do throws(TransportError) {
            guard endpoint.scheme == "ws" || endpoint.scheme == "wss" else {
                throw TransportError(.invalidURL, "Invalid URL \(endpoint.origin): the scheme must be ws or wss.")
            }
            let options = try connectRequest.connector.options(for: endpoint, timeout: timeout)
            self.stream.connect(to: endpoint.host, port: endpoint.port, options, events: self)
        } catch {
            self.end(.transport(error))
        }
    }

    func enqueue(_ message: WebSocketMessage) {
        self.state.withLock { state in
            switch state.stage {
            case .idle, .connecting, .handshaking: state.pendingSends.append(.message(message))
            case .open: self.send(message, &state)
            case .ended: break
            }
        }
    }

    func flush() { self.stream.flush() }

    func pauseReading() { self.stream.pauseReading() }

    func resumeReading() { self.stream.resumeReading() }

    func close(_ code: CloseCode, reason: String) {
        let isOver = self.state.withLock { state in
            switch state.stage {
            case .ended: return false
            case .handshaking where state.connectRequest == nil:
                // The client of a server's WebSocket considers it open, so it gets the close frame.
                state.pendingSends.append(.close(code, reason))
                return false
            case .idle, .connecting, .handshaking: return true
            case .open:
                self.close(code, reason, &state)
                return false
            }
        }
        if isOver { self.end(.requested) } else { self.flush() }
    }

    func abandon() {
        let closes = self.state.withLock { state in
            state.events = nil
            return self.finish(&state)
        }
        if closes { self.stream.close() }
    }

    // MARK: Events of the stream, on the loop's thread

    func opened(_ stream: SocketStream) {
        do throws(TransportError) {
            try self.state.withLock { state throws(TransportError) in
                guard state.stage == .connecting, let connectRequest = state.connectRequest else { return }
                state.stage = .handshaking
                var bytes: [UInt8] = []
                state.handshake = [try ClientHandshake(connectRequest.request, output: &bytes)]
                stream.enqueue { $0 += bytes }
            }
            stream.flush()
        } catch {
            self.end(.transport(error))
        }
    }

    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
        // Frames first, because they are what usually arrives.
        if self.receive(bytes) { return }
        var input = bytes
        do throws(TransportError) {
            let opened = try self.state.withLock { state throws(TransportError) -> (HTTPResponseHead, (any WebSocketEvents)?)? in
                guard state.stage == .handshaking, !state.handshake.isEmpty else { return nil }
                guard let head = try state.handshake[0].receive(&input) else { return nil }
                state.handshake = []
                state.connectRequest = nil
                state.deadline = nil
                self.begin(&state)
                self.scheduleTimer(state)
                return (head, state.events)
            }
            guard let (head, events) = opened else { return }
            events?.opened(self.id, head: head)
            self.flush()
            if !input.isEmpty { self.receive(input) }
        } catch {
            self.end(.transport(error))
        }
    }

    func drained(_ stream: SocketStream) {
        self.state.withLock { state in
            stream.enqueue { state.machine.drained(output: &$0) }
        }
        stream.flush()
    }

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        let step = self.state.withLock { state -> WebSocketMachine.Step in
            switch state.stage {
            case .idle, .ended:
                return WebSocketMachine.Step(closed: nil, socket: .drop)
            case .connecting, .handshaking:
                // A rejection explains more than the way in which its body ended.
                let reason =
                    state.handshake.first?.rejectionError ?? error
                    ?? (state.handshake.isEmpty
                        ? TransportError(.closed, "The peer closed the connection.") : state.handshake[0].endOfStream())
                return WebSocketMachine.Step(closed: .transport(reason), socket: .drop)
            case .open:
                let step = error.map { state.machine.failed($0) } ?? state.machine.endOfStream()
                return WebSocketMachine.Step(closed: step.closed, socket: .drop)
            }
        }
        self.perform(step)
    }

    func timerFired() {
        let step = self.state.withLock { state -> WebSocketMachine.Step in
            var step = WebSocketMachine.Step(closed: nil, socket: .keep)
            let now = self.loop.now
            if let deadline = state.deadline, deadline <= now, let request = state.connectRequest?.request {
                let reason =
                    state.handshake.first?.rejectionError
                    ?? TransportError(.timedOut, "\(request.endpoint.origin) did not open the WebSocket within \(request.timeout).")
                step = WebSocketMachine.Step(closed: .transport(reason), socket: .drop)
            } else if state.stage == .open {
                step = state.machine.timeout(now: now)
            }
            if step.socket == .keep { self.scheduleTimer(state) }
            return step
        }
        self.perform(step)
    }

    // MARK: Shared steps

    /// Enters the stage `open` and sends what was enqueued before.
    private func begin(_ state: inout State) {
        state.stage = .open
        let pendingSends = state.pendingSends
        state.pendingSends = []
        for pendingSend in pendingSends {
            switch pendingSend {
            case .message(let message): self.send(message, &state)
            case .close(let code, let reason): self.close(code, reason, &state)
            }
        }
    }

    private func close(_ code: CloseCode, _ reason: String, _ state: inout State) {
        var begins = false
        self.stream.enqueue { begins = state.machine.close(code, reason: reason, output: &$0, now: self.loop.now) }
        // The peer's close frame must be read even if the owner has paused reading.
        if begins { self.stream.resumeReading() }
        self.scheduleTimer(state)
    }

    private func send(_ message: WebSocketMessage, _ state: inout State) {
        var exceedsLimit = false
        self.stream.enqueue { output in
            exceedsLimit = output.count > self.backlogLimit
            // A message after the close frame is dropped. The owner is notified of the end anyway.
            if !exceedsLimit { _ = state.machine.send(message, output: &output) }
        }
        guard exceedsLimit, !state.isOverBacklogLimit else { return }
        state.isOverBacklogLimit = true
        // In a job of the loop, because the caller may hold a lock.
        self.loop.execute {
            let message = "The peer reads too slowly: more than \(self.backlogLimit) bytes wait to be sent."
            self.end(.transport(TransportError(.tooLarge, message)))
        }
    }

    /// Decodes frames.
    ///
    /// - Returns: `false` if the WebSocket is not open.
    @discardableResult
    private func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var batch = self.sharedBatch.take()
        defer { self.sharedBatch.putBack(&batch) }
        let step = self.state.withLock { state -> (events: (any WebSocketEvents)?, result: FrameDecoder.DecodeResult)? in
            guard state.stage == .open else { return nil }
            let result = state.machine.receive(bytes, into: &batch)
            // Only pings need the stream's lock.
            if result.hasPing { self.stream.enqueue { state.machine.appendPongs(for: batch, output: &$0) } }
            return (state.events, result)
        }
        guard let step else { return false }
        if step.result.hasPing { self.flush() }
        if !batch.entries.isEmpty { step.events?.received(self.id, batch) }
        if let end = step.result.end { self.conclude(end) }
        return true
    }

    private func conclude(_ end: FrameDecoder.End) {
        let step = self.state.withLock { state -> WebSocketMachine.Step in
            var step = WebSocketMachine.Step(closed: nil, socket: .keep)
            guard state.stage == .open else { return step }
            self.stream.enqueue { step = state.machine.conclude(end, output: &$0, now: self.loop.now) }
            self.scheduleTimer(state)
            return step
        }
        self.flush()
        self.perform(step)
    }

    private func perform(_ step: WebSocketMachine.Step) {
        if let reason = step.closed {
            let events = self.state.withLock { $0.events.take() }
            events?.closed(self.id, reason)
        }
        switch step.socket {
        case .keep: break
        case .finishWriting: self.stream.finishWriting()
        case .drop:
            _ = self.state.withLock { self.finish(&$0) }
            self.stream.close()
        }
    }

    private func end(_ reason: CloseReason) {
        let (closes, events) = self.state.withLock { state in (self.finish(&state), state.events.take()) }
        if closes { self.stream.close() }
        guard let events else { return }
        // On the loop's thread, because the owner may be in the middle of the call that leads here.
        if self.loop.isOnLoop || !self.loop.execute({ events.closed(self.id, reason) }) { events.closed(self.id, reason) }
    }

    /// Enters the stage `ended`.
    ///
    /// - Returns: Whether to close the stream.
    private func finish(_ state: inout State) -> Bool {
        guard state.stage != .ended else { return false }
        let isStreamInUse = state.stage != .idle
        state.stage = .ended
        state.pendingSends = []
        state.handshake = []
        state.connectRequest = nil
        self.loop.schedule(self, at: nil)
        return isStreamInUse
    }

    private func scheduleTimer(_ state: State) {
        self.loop.schedule(self, at: state.deadline ?? (state.stage == .open ? state.machine.nextDeadline : nil))
    }
}

/// The batch that the WebSockets of one loop decode into, one after another. An idle WebSocket has none.
private final class SharedBatch: Sendable {
    nonisolated(unsafe) private var batch: LoopBound<MessageBatch>

    private init(_ loop: EventLoop) {
        self.batch = LoopBound(MessageBatch(), of: loop)
    }

    static func of(_ loop: EventLoop) -> SharedBatch { loop.resource(SharedBatch.self) { SharedBatch(loop) } }

    /// Returns an empty batch with the memory of the previous one.
    func take() -> MessageBatch {
        var batch = MessageBatch()
        swap(&batch, &self.batch.value)
        return batch
    }

    func putBack(_ batch: inout MessageBatch) {
        batch.removeAll()
        swap(&batch, &self.batch.value)
    }
}
