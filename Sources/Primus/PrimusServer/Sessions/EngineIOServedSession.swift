import PrimusWire
import RealtimeCore
import RealtimeSystem

/// A server's session of engine.io that begins with polling and can move to a WebSocket. For its owner, it is one connection.
///
/// ```
///   polling ──WebSocket──▶ probing ──"5"──▶ WebSocket
///      ▲                      │
///      └── another message ───┘
///          than "2probe", end,
///          no "5" within 10 s
/// ```
/// Until the client moves, the server answers polls and sends nothing but the answer to the probe on the WebSocket. Then it sends there what no
/// poll has taken. As with the original, a client may move without a probe. A session that the server closes takes no further WebSocket. If it has
/// answered the probe already, the client gets the end with its next poll or after its move, whichever comes first.
///
/// Source: `maybeUpgrade` in `socket.js` of engine.io 6.6.
final class EngineIOServedSession: ServedRequests, MessageEvents, TimerClient {
    typealias Polling = ServedHTTPMessages<EngineIOServedRules>

    private struct Candidate {
        let id: ConnectionID
        let connection: any MessageConnection
        /// Whether the client has sent its probe.
        var isProbed = false
        /// When a client is forgotten that doesn't move.
        let deadline: Instant
    }

    private enum State {
        case polling
        case probing(Candidate)
        case webSocket(ConnectionID, any MessageConnection)
        case ended
    }

    /// The ID of the connection in the events for the owner.
    let id: ConnectionID
    private let polling: Polling
    /// Reads the packets in the bodies.
    private let divided: DividedConnection
    /// That connection, or what also reports its packets.
    private let outgoing: any MessageConnection
    private let trace: ConnectionTrace?
    let version: EngineIOVersion
    private let time: any TimeSource
    private let probeTimeout: Duration
    private let ignoresProbes: @Sendable () -> Bool
    private let onEnd: @Sendable () -> Void
    private struct Session {
        var state = State.polling
        /// Until the end of the session.
        var events: (any MessageEvents)?
        var isReadingPaused = false
        /// Whether the owner was asked to pause writing.
        var isWritingPaused = false
        /// How the owner has closed the session over polling, for a client that moves all the same.
        var closing: (code: CloseCode, reason: String)?
    }
    private let session = Lock(Session())

    /// - Parameters:
    ///   - messageLimit: The maximum size of a packet in bytes.
    ///   - backlogBytes: The number of bytes that may wait for polls.
    ///   - sharedBacklog: What may wait for the polls of all sessions.
    ///   - probeTimeout: The time in which a client that has opened a WebSocket moves to it.
    ///   - trace: Receives what the session does over polling.
    ///   - ignoresProbes: Whether the server injects the fault not to answer a probe.
    ///   - onEnd: A closure that is called once, without a lock, when the session has ended.
    init(
        _ rules: EngineIOServedRules, _ version: EngineIOVersion, messageLimit: Int, time: any TimeSource, backlogBytes: Int,
        sharedBacklog: SharedBacklog,
        probeTimeout: Duration,
        trace: ConnectionTrace?,
        ignoresProbes: @escaping @Sendable () -> Bool, onEnd: @escaping @Sendable () -> Void
    ) {
        (self.version, self.time, self.trace, self.ignoresProbes, self.onEnd) = (version, time, trace, ignoresProbes, onEnd)
        self.probeTimeout = probeTimeout
        let polling = Polling(rules, time: time, backlogBytes: backlogBytes, sharedBacklog: sharedBacklog)
        self.polling = polling
        let divider = EngineIOPayloadDivider(version, limit: messageLimit)
        let divided = DividedConnection(polling, polling.id, divider, time: time) { [weak polling] in polling?.end($0) }
        self.divided = divided
        self.outgoing = trace.map { TracedConnection(divided, polling.id, $0) } ?? divided
        self.id = self.polling.id
    }

    /// Reports the session as open, and its events from now on.
    func start(_ events: any MessageEvents) {
        self.session.withLock { $0.events = events }
        self.divided.start(self.trace.map { TracedEvents(self, $0) } ?? self)
        self.polling.start(self.divided)
    }

    /// Whether the session uses polling.
    var isPolling: Bool {
        self.session.withLock {
            switch $0.state {
            case .polling, .probing: true
            case .webSocket, .ended: false
            }
        }
    }

    /// Takes a WebSocket to which the session may move. Another one is closed.
    func upgrade(_ connection: any MessageConnection, id: ConnectionID) {
        let deadline = self.time.now.advanced(by: self.probeTimeout)
        let isTaken = self.session.withLock { session in
            guard case .polling = session.state, session.closing == nil else { return false }
            session.state = .probing(Candidate(id: id, connection: connection, deadline: deadline))
            // Under the lock: the timer of this candidate must not be replaced by that of an earlier one.
            self.time.schedule(self, at: deadline)
            return true
        }
        if !isTaken { connection.close(.normal, reason: "") }
    }

    /// Answers the poll that waits, if there is one, in place of packets.
    func answerPoll(_ response: HTTPResponse) { self.polling.answerPoll(response) }

    // MARK: Requests of the client

    func wait(_ request: HTTPRequestHead, _ responder: any HTTPResponder) {
        self.polling.wait(request, responder)
        // The client has sent it before it knew the answer to its probe, and waits for its end.
        if self.isProbed { self.endPoll() }
    }

    private var isProbed: Bool {
        self.session.withLock { if case .probing(let candidate) = $0.state { candidate.isProbed } else { false } }
    }

    private func endPoll() { self.polling.answerPoll(EngineIOServedRules.answer(.noop, version: self.version)) }

    func receive(_ request: HTTPRequestHead, body: [UInt8], _ responder: any HTTPResponder) {
        self.polling.receive(request, body: body, responder)
    }

    func reserve(_ responder: any HTTPResponder, bodyCount: Int) -> ExchangeID { self.polling.reserve(responder, bodyCount: bodyCount) }

    func receive(_ id: ExchangeID, _ request: HTTPRequestHead, body: [UInt8]) { self.polling.receive(id, request, body: body) }

    func refuse(_ id: ExchangeID, _ response: HTTPResponse) { self.polling.refuse(id, response) }

    var hasReader: Bool { !self.isPolling || self.polling.hasReader }

    func isUnread(for duration: Duration) -> Bool { self.isPolling && self.polling.isUnread(for: duration) }

    /// Has no effect on a session that has moved to a WebSocket, whose polling has ended.
    func endClosing() { self.polling.endClosing() }

    func takeResponders() -> [any HTTPResponder] { self.polling.takeResponders() }

    // MARK: The owner

    /// The connection in use; `nil` after the end.
    private var current: (any MessageConnection)? {
        self.session.withLock { self.connection($0.state) }
    }

    private func connection(_ state: State) -> (any MessageConnection)? {
        switch state {
        case .polling, .probing: self.outgoing
        case .webSocket(_, let connection): connection
        case .ended: nil
        }
    }

    func open() {}

    func enqueue(_ message: TransportMessage) { self.session.withLock { self.connection($0.state)?.enqueue(message) } }

    func flush() { self.current?.flush() }

    func pauseReading() {
        self.session.withLock { session in
            session.isReadingPaused = true
            self.connection(session.state)?.pauseReading()
        }
    }

    func resumeReading() {
        self.session.withLock { session in
            session.isReadingPaused = false
            self.connection(session.state)?.resumeReading()
        }
    }

    func close(_ code: CloseCode, reason: String) {
        let (candidate, webSocket) = self.session.withLock { session -> ((any MessageConnection)?, (any MessageConnection)?) in
            switch session.state {
            case .ended: return (nil, nil)
            case .webSocket(_, let connection): return (nil, connection)
            // A client that knows the answer to its probe may not poll any more: the next poll or the move, whichever comes first, brings what
            // waits and the end.
            case .probing(let candidate) where candidate.isProbed && code != .protocolError:
                session.closing = (code, reason)
                return (nil, nil)
            case .polling, .probing:
                session.closing = (code, reason)
                return (self.takeCandidate(nil, of: &session), nil)
            }
        }
        candidate?.abandon()
        // A session that begins with a WebSocket ends with an error of engine.io in the same way.
        if let webSocket { return code == .protocolError ? webSocket.close(.normal, reason: "") : webSocket.close(code, reason: reason) }
        // As the original, which forgets a client with an error immediately. Without effect on a polling that has ended.
        if code == .protocolError {
            self.polling.end(.transport(TransportError(.protocolViolation, "The client isn't one of engine.io: \(reason)")))
        } else {
            self.outgoing.close(code, reason: reason)
        }
    }

    func abandon() {
        let (candidate, connection, events, isEnd) = self.session.withLock { session in
            let candidate = self.takeCandidate(nil, of: &session)
            defer { session.state = .ended }
            let isEnd = if case .ended = session.state { false } else { true }
            return (candidate, self.connection(session.state), session.events.take(), isEnd)
        }
        candidate?.abandon()
        // First, so that a request that follows the answer to the last one finds no session.
        if isEnd { self.onEnd() }
        connection?.abandon()
        // Released outside the lock.
        _ = events
    }

    /// Takes the WebSocket to which the session may have moved, so that the session stays with polling.
    ///
    /// - Parameter id: The ID that it must have; `nil` for any.
    private func takeCandidate(_ id: ConnectionID?, of session: inout Session) -> (any MessageConnection)? {
        guard case .probing(let candidate) = session.state, id == nil || candidate.id == id else { return nil }
        session.state = .polling
        self.time.schedule(self, at: nil)
        return candidate.connection
    }

    // MARK: Events of the connections

    func opened(_ id: ConnectionID, head: HTTPResponseHead) { if id == self.id { self.events?.opened(id, head: head) } }

    private var events: (any MessageEvents)? { self.session.withLock { $0.events } }

    /// Whether a connection is the one in use.
    private func isCurrent(_ id: ConnectionID) -> Bool {
        self.session.withLock {
            switch $0.state {
            case .polling, .probing: id == self.id
            case .webSocket(id, _): true
            case .webSocket, .ended: false
            }
        }
    }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        var next = 0
        while next < batch.entries.count { next = self.received(id, batch, from: next) }
    }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, from start: Int) -> Int {
        if self.isCurrent(id) { return self.events?.received(self.id, batch, from: start) ?? batch.entries.count }
        for index in start..<batch.entries.count {
            let entry = batch.entries[index]
            if entry.kind == .ping || entry.kind == .pong { continue }
            let message = TransportMessage(entry.kind, Array(batch.bytes[entry.range]))
            self.candidateReceived(id, try? EngineIOPacket(message, self.version))
            // What follows belongs to the session.
            if self.isCurrent(id), index + 1 < batch.entries.count { return index + 1 }
        }
        return batch.entries.count
    }

    private func candidateReceived(_ id: ConnectionID, _ packet: EngineIOPacket?) {
        switch packet?.kind {
        case .ping? where packet?.text == "probe":
            if self.ignoresProbes() { return }
            let connection = self.session.withLock { session -> (any MessageConnection)? in
                guard case .probing(var candidate) = session.state, candidate.id == id else { return nil }
                candidate.isProbed = true
                session.state = .probing(candidate)
                candidate.connection.enqueue(EngineIOPacket(.pong, "probe").transportMessage(self.version))
                return candidate.connection
            }
            connection?.flush()
            if connection != nil { self.endPoll() }
        case .upgrade?: self.move(id)
        default: self.closeCandidate(id)
        }
    }

    private func closeCandidate(_ id: ConnectionID) {
        self.session.withLock { self.takeCandidate(id, of: &$0) }?.close(.normal, reason: "")
    }

    /// The client uses the WebSocket from now on. Unless it has sent no probe, it has received the answers to all of its requests.
    private func move(_ id: ConnectionID) {
        var closing: (code: CloseCode, reason: String)?
        var isIncomplete = false
        let connection = self.session.withLock { session -> (any MessageConnection)? in
            guard case .probing(let candidate) = session.state, candidate.id == id else { return nil }
            guard let unsent = self.polling.takeUnsent() else {
                isIncomplete = true
                return nil
            }
            session.state = .webSocket(id, candidate.connection)
            for message in unsent { candidate.connection.enqueue(message) }
            if session.isReadingPaused { candidate.connection.pauseReading() }
            closing = session.closing.take()
            self.time.schedule(self, at: nil)
            return candidate.connection
        }
        // The polling has ended or ends with an error, and with it the session. The client must not go on as if no message was missing.
        if isIncomplete { return self.polling.flush() }
        guard let connection else { return self.closeCandidate(id) }
        self.divided.abandon()
        // The WebSocket reports anew that it has too much to send.
        self.writing(id, paused: false)
        connection.flush()
        if let closing { connection.close(closing.code, reason: closing.reason) }
    }

    func writing(_ id: ConnectionID, paused: Bool) {
        guard self.isCurrent(id) else { return }
        let events = self.session.withLock { session -> (any MessageEvents)? in
            guard session.isWritingPaused != paused else { return nil }
            session.isWritingPaused = paused
            return session.events
        }
        events?.writing(self.id, paused: paused)
    }

    func closed(_ id: ConnectionID, _ reason: CloseReason) {
        typealias End = (candidate: (any MessageConnection)?, events: (any MessageEvents)?)
        let end = self.session.withLock { session -> End? in
            switch session.state {
            case .polling where id == self.id, .probing where id == self.id, .webSocket(id, _):
                let candidate = self.takeCandidate(nil, of: &session)
                session.state = .ended
                return (candidate, session.events.take())
            case .polling, .probing, .webSocket, .ended: return nil
            }
        }
        guard let end else { return self.closeCandidate(id) }
        end.candidate?.abandon()
        self.onEnd()
        end.events?.closed(self.id, reason)
    }

    // MARK: Timer

    /// The client hasn't moved in time.
    func timerFired() {
        let candidate = self.session.withLock { session -> ConnectionID? in
            if case .probing(let candidate) = session.state, candidate.deadline <= self.time.now { candidate.id } else { nil }
        }
        if let candidate { self.closeCandidate(candidate) }
    }
}
