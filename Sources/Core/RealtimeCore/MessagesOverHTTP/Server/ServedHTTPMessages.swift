import RealtimeSystem

/// A server's connection over HTTP requests, which a driver and a fault injector use as any other connection. It performs the commands of a
/// ``ServedHTTPMessagesMachine``.
///
/// The owner finds the connection of a request, for example by an ID in its address, and passes the request to
/// ``wait(_:_:)`` or ``receive(_:body:_:)``.
package final class ServedHTTPMessages<Rules: ServedHTTPMessagesRules>: ServedRequests, AnsweringConnection, TimerClient {
    private struct State: Sendable {
        var machine: ServedHTTPMessagesMachine<Rules>
        /// Until the end of the connection.
        var events: (any MessageEvents)?
        var onEnd: (@Sendable (ConnectionID) -> Void)?
        var responders: [ExchangeID: any HTTPResponder] = [:]
        var lastID: UInt64 = 0
        /// Commands that wait for the thread that performs earlier ones.
        var commands = FIFO<ServedHTTPMessagesMachine<Rules>.Command>()
        /// Whether commands may be performed: the connection was reported as open, or abandoned.
        var isReported = false
        var isPerforming = false
        var scheduled: Instant?

        /// - Returns: Whether the caller has to perform the commands that wait.
        mutating func beginPerforming() -> Bool {
            guard self.isReported, !self.isPerforming, !self.commands.isEmpty else { return false }
            self.isPerforming = true
            return true
        }
    }

    /// The ID of the connection in its events.
    package let id = ConnectionID.nextAccepted()
    private let time: any TimeSource
    private let state: Lock<State>

    /// Creates a connection. The owner makes it known to later requests, and calls ``start(_:head:)``. Requests that another thread passes to
    /// it in the meantime are handled as soon as the connection is reported as open.
    ///
    /// - Parameters:
    ///   - rules: The rules of the protocol.
    ///   - time: The clock of the time limits.
    ///   - backlogBytes: The number of bytes that may wait to be sent. A connection over which more waits ends.
    ///   - sharedBacklog: What may wait for all connections of the server; `nil` for no limit. While more waits, a connection ends whose client doesn't
    ///     ask for its messages when another one is sent.
    ///   - onEnd: A closure that is called once, when the connection has ended or was abandoned, without a lock: the owner removes the
    ///     connection from its table.
    package init(
        _ rules: Rules, time: any TimeSource, backlogBytes: Int = 16 << 20, sharedBacklog: SharedBacklog? = nil,
        onEnd: @escaping @Sendable (ConnectionID) -> Void = { _ in }
    ) {
        self.time = time
        let machine = ServedHTTPMessagesMachine(rules, backlogBytes: backlogBytes, sharedBacklog: sharedBacklog, now: time.now)
        self.state = Lock(State(machine: machine, onEnd: onEnd))
    }

    /// Reports the connection as open, and its events from now on.
    ///
    /// - Parameters:
    ///   - events: The object that receives the events, retained until the end of the connection.
    ///   - head: The head that is reported.
    package func start(_ events: any MessageEvents, head: HTTPResponseHead = HTTPResponseHead(status: 200)) {
        let isOpen = self.state.withLock { state in
            // It may have been abandoned already.
            guard state.onEnd != nil else { return false }
            state.events = events
            return true
        }
        if isOpen { events.opened(self.id, head: head) }
        let performs = self.state.withLock { state in
            state.isReported = true
            return state.beginPerforming()
        }
        if performs { self.performCommands() }
    }

    // MARK: Requests of the client

    package func wait(_ request: HTTPRequestHead, _ responder: any HTTPResponder) {
        let id = self.adopt(responder)
        // Weak, because the responder keeps its closures until the end of the response. Set before anything is written, which may be too much
        // already.
        responder.onWriting { [weak self] isPaused in self?.step { $0.writing(id, paused: isPaused, now: $1) } }
        self.step { $0.wait(id, request, now: $1) }
        responder.onDisconnect { [weak self] in self?.disconnected(id) }
    }

    package func receive(_ request: HTTPRequestHead, body: [UInt8], _ responder: any HTTPResponder) {
        let id = self.adopt(responder)
        self.step { machine, _ in machine.receive(id, request, body) }
    }

    package func reserve(_ responder: any HTTPResponder, bodyCount: Int) -> ExchangeID {
        let id = self.adopt(responder)
        self.step { machine, _ in machine.reserve(id, bodyCount: bodyCount) }
        return id
    }

    package func receive(_ id: ExchangeID, _ request: HTTPRequestHead, body: [UInt8]) {
        self.step { machine, _ in machine.receive(id, request, body) }
    }

    package func refuse(_ id: ExchangeID, _ response: HTTPResponse) { self.step { machine, _ in machine.refuse(id, response) } }

    package var hasReader: Bool { self.state.withLock { $0.machine.hasReader } }

    package func isUnread(for duration: Duration) -> Bool {
        let now = self.time.now
        return self.state.withLock { $0.machine.isUnread(for: duration, now: now) }
    }

    package func takeResponders() -> [any HTTPResponder] {
        self.state.withLock { state in
            defer { state.responders = [:] }
            return Array(state.responders.values)
        }
    }

    private func adopt(_ responder: any HTTPResponder) -> ExchangeID {
        self.state.withLock { state in
            state.lastID += 1
            let id = ExchangeID(rawValue: state.lastID)
            state.responders[id] = responder
            return id
        }
    }

    private func disconnected(_ id: ExchangeID) {
        // Released outside the lock.
        let responder = self.state.withLock { $0.responders.removeValue(forKey: id) }
        self.step { $0.disconnected(id, now: $1) }
        _ = responder
    }

    // MARK: The owner

    /// Answers the poll that waits, if there is one, in place of its messages.
    package func answerPoll(_ response: HTTPResponse) { self.step { $0.answerPoll(response, now: $1) } }

    /// Takes the messages that wait to be sent, because another connection takes the place of this one. The owner then abandons it.
    ///
    /// - Returns: `nil` if messages are lost: the connection has ended, or ends with the next ``flush()``, because one was dropped at the limit.
    package func takeUnsent() -> [TransportMessage]? { self.state.withLock { $0.machine.takeUnsent() } }

    /// Does nothing: the connection is open.
    package func open() {}

    package func enqueue(_ message: TransportMessage) { self.state.withLock { $0.machine.enqueue(message) } }

    package func flush() { self.step { $0.flush(now: $1) } }

    package func pauseReading() { self.state.withLock { $0.machine.pauseReading() } }

    package func resumeReading() { self.state.withLock { $0.machine.resumeReading() } }

    package func holdAnswers() { self.state.withLock { $0.machine.holdAnswers() } }

    package func endHoldingAnswers() { self.state.withLock { $0.machine.endHoldingAnswers() } }

    package func close(_ code: CloseCode, reason: String) { self.step { $0.close(code, reason: reason, now: $1) } }

    package func endClosing() { self.step { machine, _ in machine.endClosing() } }

    /// Ends the connection immediately because of what the owner has found in its messages: the end, or an error of the client.
    package func end(_ reason: CloseReason) { self.step { machine, _ in machine.ended(by: reason) } }

    package func abandon() {
        // Released outside the lock.
        let (events, onEnd) = self.state.withLock { state in
            // There will be no report: the requests that have come already must be answered.
            state.isReported = true
            return (state.events.take(), state.onEnd.take())
        }
        self.step { machine, _ in machine.abandon() }
        onEnd?(self.id)
        _ = events
    }

    package func timerFired() {
        self.state.withLock { $0.scheduled = nil }
        self.step { $0.timeout(now: $1) }
    }

    // MARK: Commands

    /// Changes the machine, and performs its commands after those of earlier changes, without a lock.
    private func step(
        _ body: (inout ServedHTTPMessagesMachine<Rules>, _ now: Instant) -> [ServedHTTPMessagesMachine<Rules>.Command]
    ) {
        let now = self.time.now
        let performs = self.state.withLock { state in
            for command in body(&state.machine, now) { state.commands.append(command) }
            if state.scheduled != state.machine.nextDeadline {
                state.scheduled = state.machine.nextDeadline
                self.time.schedule(self, at: state.scheduled)
            }
            return state.beginPerforming()
        }
        if performs { self.performCommands() }
    }

    private func performCommands() { while let command = self.nextCommand() { self.perform(command) } }

    private func nextCommand() -> ServedHTTPMessagesMachine<Rules>.Command? {
        self.state.withLock { state in
            let command = state.commands.popFirst()
            state.isPerforming = command != nil
            return command
        }
    }

    private func perform(_ command: ServedHTTPMessagesMachine<Rules>.Command) {
        switch command {
        case .respond(let id, let response): self.take(id)?.respond(response)
        case .send(let id, let head, let body): self.take(id)?.respond(head, sharing: body)
        case .answer(let id, let response):
            if !self.state.withLock({ $0.machine.holdsAnswer(id, response) }) { self.take(id)?.respond(response) }
        case .begin(let id, let head): self.responder(id)?.begin(head)
        case .write(let id, let body): self.responder(id)?.write(sharing: body)
        case .end(let id): self.take(id)?.end()
        case .received(let batch): self.events?.received(self.id, batch)
        case .writing(let isPaused): self.events?.writing(self.id, paused: isPaused)
        case .closed(let reason):
            let (events, onEnd) = self.state.withLock { ($0.events.take(), $0.onEnd.take()) }
            onEnd?(self.id)
            events?.closed(self.id, reason)
        }
    }

    private var events: (any MessageEvents)? { self.state.withLock { $0.events } }

    private func responder(_ id: ExchangeID) -> (any HTTPResponder)? { self.state.withLock { $0.responders[id] } }

    private func take(_ id: ExchangeID) -> (any HTTPResponder)? { self.state.withLock { $0.responders.removeValue(forKey: id) } }
}
