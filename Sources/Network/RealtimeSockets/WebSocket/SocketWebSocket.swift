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
final class SocketWebSocket: MessageConnection, StreamEvents, TimerClient {
    private enum Stage: Sendable { case idle, connecting, handshaking, open, ended }

    /// A call that the owner made before the WebSocket was open.
    private enum PendingSend: Sendable {
        case message(TransportMessage)
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
        var events: (any MessageEvents)?
        var connectRequest: ConnectRequest?
        /// At most one. An array takes less memory than an optional when it is empty.
        var handshake: [ClientHandshake] = []
        var openLimit: PatientLimit?
        var stage: Stage
        /// The backlog exceeded its limit, and the loop is about to end the WebSocket.
        var isOverBacklogLimit = false
        var pendingSends: [PendingSend] = []
        var pendingBytes = 0
        var backPressure = BackPressure()
        var machine: WebSocketMachine

        var nextDeadline: Instant? {
            if let openLimit { return openLimit.deadline }
            guard self.stage == .open else { return nil }
            guard let stall = self.backPressure.stallDeadline else { return self.machine.nextDeadline }
            return self.machine.nextDeadline.map { min($0, stall) } ?? stall
        }

        /// Returns the error that explains the end of the handshake. A rejection explains more than the way in which its body ended.
        mutating func handshakeError(_ error: TransportError? = nil) -> TransportError {
            guard let request = self.connectRequest?.request, !self.handshake.isEmpty else {
                return error ?? TransportError(.closed, "The peer closed the connection.")
            }
            let reason = self.handshake[0].rejectionError ?? error ?? self.handshake[0].endOfStream()
            let mayExpectTLS = !request.endpoint.isSecure && [.closed, .reset, .protocolViolation].contains(reason.code)
            let hint = mayExpectTLS ? " If the server expects TLS on this port, use wss://." : ""
            return reason.withMessage("\(request.endpoint.origin): \(reason.message)\(hint)")
        }
    }

    let id: ConnectionID
    private let loop: EventLoop
    /// A constant, so that ``flush()`` needs no additional lock. The stream retains this object from ``open()`` until it is closed.
    private let stream: SocketStream
    private let sharedBatch: SharedBatch
    private let limits: OutputLimits
    private let state: Lock<State>
    // See LoopBound.
    nonisolated(unsafe) private var delivery: LoopBound<Delivery>

    /// Creates a WebSocket of a client. It does nothing until ``open()``.
    init(
        _ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents, connector: SocketConnector,
        limits: OutputLimits = .client
    ) {
        self.id = id
        self.loop = connector.loop
        self.stream = SocketStream(loop: connector.loop)
        self.sharedBatch = SharedBatch.of(connector.loop)
        self.limits = limits
        self.state = Lock(
            State(
                events: events, connectRequest: ConnectRequest(request, connector), stage: .idle,
                machine: WebSocketMachine(role: .client, messageLimit: request.messageLimit)))
        self.delivery = LoopBound(Delivery(role: .client), of: connector.loop)
        self.stream.setMark(limits.mark)
    }

    /// Creates a WebSocket of a server. Its stream must not contain the response to the handshake before ``start(_:leftover:)`` is about to
    /// be called, because a flush would write it.
    init(accepted stream: SocketStream, id: ConnectionID, messageLimit: Int, limits: OutputLimits) {
        self.id = id
        self.loop = stream.loop
        self.stream = stream
        self.sharedBatch = SharedBatch.of(stream.loop)
        self.limits = limits
        self.state = Lock(State(stage: .handshaking, machine: WebSocketMachine(role: .server, messageLimit: messageLimit)))
        self.delivery = LoopBound(Delivery(role: .server), of: stream.loop)
        stream.setMark(limits.mark)
    }

    /// Opens a WebSocket of a server. Called on the loop's thread.
    ///
    /// - Parameters:
    ///   - events: The receiver of events.
    ///   - leftover: The bytes that were received with the request and follow it.
    func start(_ events: any MessageEvents, leftover: UnsafeRawBufferPointer) {
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

    /// The number of bytes that wait to be sent.
    var bufferedBytes: Int { self.stream.bufferedBytes }

    // MARK: Calls of the owner

    func open() {
        let opening = self.state.withLock { state -> ConnectRequest? in
            guard state.stage == .idle, let connectRequest = state.connectRequest else { return nil }
            state.stage = .connecting
            state.openLimit = PatientLimit(connectRequest.request.timeout, now: self.loop.now)
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

    func enqueue(_ message: TransportMessage) {
        self.state.withLock { state in
            switch state.stage {
            case .idle, .connecting, .handshaking:
                guard state.pendingBytes <= self.limits.backlogBytes else { return self.refuse(&state) }
                state.pendingBytes += message.bytes.count
                state.pendingSends.append(.message(message))
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
            let opened = try self.state.withLock { state throws(TransportError) -> (HTTPResponseHead, (any MessageEvents)?)? in
                guard state.stage == .handshaking, !state.handshake.isEmpty else { return nil }
                guard let head = try state.handshake[0].receive(&input) else { return nil }
                state.handshake = []
                state.connectRequest = nil
                state.openLimit = nil
                self.begin(&state)
                self.scheduleTimer(state)
                return (head, state.events)
            }
            guard let (head, events) = opened else { return }
            events?.opened(self.id, head: head)
            self.flush()
            if !input.isEmpty { self.receive(input) }
        } catch {
            self.end(.transport(self.state.withLock { $0.handshakeError(error) }))
        }
    }

    func backlogged(_ stream: SocketStream) {
        let events = self.state.withLock { state -> (any MessageEvents)? in
            guard state.stage == .open else { return nil }
            _ = stream.takeProgress()
            state.backPressure.backlogged(now: self.loop.now, limits: self.limits)
            self.scheduleTimer(state)
            return state.events
        }
        events?.writing(self.id, paused: true)
    }

    func drained(_ stream: SocketStream) {
        let events = self.state.withLock { state -> (any MessageEvents)? in
            stream.enqueue { state.machine.drained(output: &$0) }
            let resumes = state.backPressure.drained()
            if resumes.reading { stream.resumeReading(.answers) }
            if resumes.reading || resumes.writing { self.scheduleTimer(state) }
            return resumes.writing ? state.events : nil
        }
        stream.flush()
        events?.writing(self.id, paused: false)
    }

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        let step = self.state.withLock { state -> WebSocketMachine.Step in
            switch state.stage {
            case .idle, .ended:
                return WebSocketMachine.Step(closed: nil, socket: .drop)
            case .connecting, .handshaking:
                return WebSocketMachine.Step(closed: .transport(state.handshakeError(error)), socket: .drop)
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
            let request = state.connectRequest?.request
            if let request, state.openLimit?.hasPassed(now: now) == true {
                let timeout = TransportError(.timedOut, "\(request.endpoint.origin) did not open the WebSocket within \(request.timeout).")
                let isRejected = state.handshake.first?.rejectionError != nil
                step = WebSocketMachine.Step(closed: .transport(isRejected ? state.handshakeError() : timeout), socket: .drop)
            } else if state.stage == .open {
                step = state.machine.timeout(now: now)
                let timeout = self.limits.stallTimeout
                let hasStalled = state.backPressure.hasStalled(now: now, timeout: timeout, hasProgressed: self.stream.takeProgress())
                if hasStalled, step.socket == .keep {
                    step = state.machine.failed(self.limits.stallError(buffered: self.stream.bufferedBytes))
                }
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
        (state.pendingSends, state.pendingBytes) = ([], 0)
        for pendingSend in pendingSends {
            switch pendingSend {
            // Their number of bytes was limited when they were enqueued.
            case .message(let message): self.send(message, &state, limit: .max)
            case .close(let code, let reason): self.close(code, reason, &state)
            }
        }
    }

    private func close(_ code: CloseCode, _ reason: String, _ state: inout State) {
        var begins = false
        self.stream.enqueue { begins = state.machine.close(code, reason: reason, output: &$0, now: self.loop.now) }
        // The peer's close frame must be read even if reading is paused.
        if begins {
            state.backPressure.close()
            self.stream.resumeReading(.all)
        }
        self.scheduleTimer(state)
    }

    private func send(_ message: TransportMessage, _ state: inout State) {
        // Answers are limited by pausing reading: a client may send many requests and then read the answers.
        let isAnswer = self.loop.isOnLoop && self.delivery.value.isInProgress
        self.send(message, &state, isAnswer, limit: isAnswer ? .max : self.limits.backlogBytes + state.backPressure.answers)
    }

    private func send(_ message: TransportMessage, _ state: inout State, _ isAnswer: Bool = false, limit: Int) {
        let isContent = message.kind == .text || message.kind == .binary
        // Without a copy: a message to all clients takes its memory once.
        if message.bytes.count >= SocketStream.sharedSize, isContent, state.machine.role == .server {
            let isAccepted = self.stream.enqueue(limit: limit, shared: message.bytes) { output in
                let count = output.count
                let isFollowed = state.machine.sendHeader(of: message, output: &output)
                if isAnswer, isFollowed { self.delivery.value.answered(output.count - count + message.bytes.count) }
                return isFollowed
            }
            if !isAccepted { self.refuse(&state) }
            return
        }
        let isAccepted = self.stream.enqueue(limit: limit) { output in
            let count = output.count
            // A message after the close frame is dropped. The owner is notified of the end anyway.
            _ = state.machine.send(message, output: &output)
            if isAnswer { self.delivery.value.answered(output.count - count) }
        }
        if !isAccepted { self.refuse(&state) }
    }

    /// Ends the WebSocket, because more bytes than the limit wait to be sent.
    private func refuse(_ state: inout State) {
        guard !state.isOverBacklogLimit else { return }
        state.isOverBacklogLimit = true
        // In a job of the loop, because the caller may hold a lock.
        self.loop.execute { self.end(.transport(self.limits.backlogError)) }
    }

    /// Delivers the frames that the owner left, then decodes frames and delivers their messages. The stream keeps what exceeds the budget of
    /// the loop's turn, or waits until the peer has taken the answers.
    ///
    /// - Returns: `false` if the WebSocket is not open.
    @discardableResult
    private func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        if let left = self.delivery.value.takeLeftFrames() {
            guard let events = self.state.withLock({ $0.stage == .open ? $0.events : nil }) else { return false }
            _ = self.delivery.value.begin(budget: 0)
            let tookAll = self.deliver(left.batch, from: left.start, left.end, to: events)
            guard tookAll, !self.stream.isReadingPaused else {
                if !tookAll || !bytes.isEmpty { self.stream.keep(bytes) }
                return true
            }
            if bytes.isEmpty { return true }
        }
        var batch = self.sharedBatch.take()
        defer { self.sharedBatch.putBack(&batch) }
        var (rest, budget, tookAll) = (bytes, self.sharedBatch.framesPerTurn(self.loop.turn), true)
        // Set if the bytes are only a part of a message.
        var part: (any MessageEvents)?
        repeat {
            let frameLimit = self.delivery.value.begin(budget: budget)
            let step = self.state.withLock { state -> (events: (any MessageEvents)?, result: FrameDecoder.DecodeResult)? in
                guard state.stage == .open else { return nil }
                let result = state.machine.receive(rest, frameLimit: frameLimit, into: &batch)
                // Only pings need the stream's lock.
                if result.hasPing {
                    self.stream.enqueue { output in
                        let count = output.count
                        state.machine.appendPongs(for: batch, output: &output)
                        self.delivery.value.answered(output.count - count)
                    }
                }
                return (state.events, result)
            }
            guard let step else {
                _ = self.delivery.value.end(frames: 0, mark: self.limits.mark)
                return rest.count < bytes.count
            }
            if step.result.hasPing { self.flush() }
            part = rest.count == bytes.count && batch.entries.isEmpty && step.result.end == nil ? step.events : nil
            rest = UnsafeRawBufferPointer(rebasing: rest.suffix(step.result.rest))
            tookAll = self.deliver(batch, from: 0, step.result.end, to: step.events)
            budget -= frameLimit
            batch.removeAll()
        } while tookAll && !rest.isEmpty && budget > 0 && !self.stream.isReadingPaused
        if !rest.isEmpty, budget <= 0 { self.sharedBatch.exceededBudget(self.loop.turn) }
        if !tookAll || !rest.isEmpty { self.stream.keep(rest) }
        part?.reportPart(self.id, byteCount: bytes.count)
        return true
    }

    /// Delivers frames, and then reacts to the end that follows them. Keeps the frames that the owner doesn't take.
    ///
    /// - Returns: Whether the owner took all.
    private func deliver(
        _ batch: borrowing MessageBatch, from start: Int, _ end: FrameDecoder.End?, to events: (any MessageEvents)?
    ) -> Bool {
        let count = batch.entries.count
        var next = count
        if start < count, let events { next = events.received(self.id, batch, from: start) }
        self.endDelivery(of: next - start, leftFrames: next < count)
        guard next == count else {
            self.delivery.value.leave(LeftFrames(copy batch, from: next, end))
            return false
        }
        if let end { self.conclude(end) }
        return true
    }

    /// Pauses reading if the peer does not take the answers.
    private func endDelivery(of frames: Int, leftFrames: Bool) {
        let answers = self.delivery.value.end(frames: frames, mark: self.limits.mark)
        guard answers > 0 else { return }
        self.state.withLock { state in
            let buffered = leftFrames && !self.stream.awaitDrain() ? 0 : self.stream.bufferedBytes
            let pauses = state.backPressure.answered(
                answers, buffered: buffered, leftFrames: leftFrames, limits: self.limits, now: self.loop.now)
            guard pauses else { return }
            // After the close frame, nothing is sent any more.
            guard state.stage == .open, state.machine.isOpen else { return state.backPressure.close() }
            _ = self.stream.takeProgress()
            self.stream.pauseReading(.answers)
            self.scheduleTimer(state)
        }
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
        (state.pendingSends, state.pendingBytes) = ([], 0)
        state.handshake = []
        state.connectRequest = nil
        self.loop.schedule(self, at: nil)
        return isStreamInUse
    }

    private func scheduleTimer(_ state: State) {
        self.loop.schedule(self, at: state.nextDeadline)
    }
}
