import RealtimeSystem

/// A client's connection over HTTP requests, which a driver uses as any other connection. It performs the commands of an
/// ``HTTPMessageConnectionMachine``.
package final class HTTPMessageConnection: ConnectionOverHTTP, HTTPExchangeBytesEvents, TimerClient {
    /// Where the requests go, and what they have in common.
    package struct Environment: Sendable {
        /// Header fields that replace those of a request, and a number that increases when they are renewed.
        package typealias Fields = (headers: HTTPHeaders, generation: Int)

        /// Returns the header fields of a request, for example with an access token.
        ///
        /// The first parameter has the generation of the fields with which a server has refused the request: newer ones are needed, which
        /// another request may have caused already. The closure is called without a lock, and calls the second parameter once, on any thread.
        package typealias Headers =
            @Sendable (
                _ refused: Int?, _ completion: @escaping @Sendable (Result<Fields, TransportError>) -> Void
            ) -> Void

        package var http: any HTTPTransport
        package var time: any TimeSource
        package var cookies: RedirectingHTTP.Cookies
        package var headers: Headers?
        /// Whether ``headers`` is asked once more when a server has refused the fields of a request, which is then repeated.
        package var refreshesHeaders: Bool
        /// Whether a request that is redirected to another origin has the fields of ``headers`` there, without credentials.
        package var sendsHeadersAfterRedirect = false
        /// Receives the requests, at the level ``LogSink/Level/trace``.
        package var log: LogSink
        /// The part of the library that the log messages name.
        package var subsystem: String

        package init(
            _ transports: Transports, cookies: RedirectingHTTP.Cookies, headers: Headers? = nil, refreshesHeaders: Bool = true,
            log: LogSink = .none, subsystem: String = ""
        ) {
            (self.http, self.time, self.cookies) = (transports.http, transports.time, cookies)
            (self.headers, self.refreshesHeaders) = (headers, refreshesHeaders)
            (self.log, self.subsystem) = (log, subsystem)
        }
    }

    private struct State: Sendable {
        var machine: HTTPMessageConnectionMachine
        /// Until the end of the connection.
        var events: (any MessageEvents)?
        var exchanges = SmallDictionary<ExchangeID, any HTTPExchange>()
        /// Commands that wait for the thread that performs earlier ones.
        var commands = FIFO<HTTPMessageConnectionMachine.Command>()
        var isPerforming = false
        /// The request whose messages are delivered, if they count.
        var delivering: ExchangeID?
        var timer = CoalescedTimer()
    }

    private let id: ConnectionID
    private let environment: Environment
    private let http: any HTTPTransport
    private let state: Lock<State>

    /// Creates a connection without performing I/O.
    package init(_ rules: some HTTPMessageConnectionRules, in environment: Environment, id: ConnectionID, events: any MessageEvents) {
        self.id = id
        self.environment = environment
        self.http = environment.http.logged(id, to: environment.log, environment.subsystem)
        let machine = HTTPMessageConnectionMachine(
            rules, refreshesHeaders: environment.headers != nil && environment.refreshesHeaders,
            reportsMessages: events is any HTTPMessageEvents)
        self.state = Lock(State(machine: machine, events: events))
    }

    // MARK: The owner

    package func open() { self.step { $0.open(now: $1) } }

    package func enqueue(_ message: TransportMessage) { self.state.withLock { $0.machine.enqueue(message) } }

    package func flush() { self.step { $0.flush(now: $1) } }

    package func pauseReading() {
        let now = self.environment.time.now
        self.state.withLock { state in
            state.machine.pauseReading(now: now)
            if state.machine.isReadingPaused, let id = state.machine.receivingID { state.exchanges[id]?.pauseReading() }
            self.setTimer(&state)
        }
    }

    package func resumeReading() { self.state.withLock { $0.machine.resumeReading() } }

    package func receivedNoMessage() {
        self.state.withLock { state in
            if let id = state.delivering.take() { state.machine.receivedNoMessage(of: id) }
        }
    }

    package func close(_ code: CloseCode, reason: String) { self.step { $0.close(code, reason: reason, now: $1) } }

    package func abandon() {
        // Released outside the lock.
        let events = self.state.withLock { $0.events.take() }
        self.step { machine, _ in machine.abandon() }
        _ = events
    }

    // MARK: Exchanges

    package func received(_ head: HTTPResponseHead, of id: ExchangeID) {
        if head.headers["Set-Cookie"] != nil, let endpoint = self.state.withLock({ $0.machine.endpoint(of: id) }) {
            self.environment.cookies.store(head.headers, from: endpoint, now: self.environment.time.now)
        }
        self.step { $0.received(head, of: id, now: $1) }
    }

    package func received(_ body: UnsafeRawBufferPointer, of id: ExchangeID) {
        self.step { $0.received(body, of: id, in: Self.takeSpareBatch(), now: $1) }
    }

    package func ended(_ id: ExchangeID, _ error: TransportError?) {
        // Released outside the lock.
        let exchange = self.takeExchange(id)
        self.step { $0.ended(id, error, now: $1) }
        _ = exchange
    }

    package func timerFired() {
        let now = self.environment.time.now
        let isDue = self.state.withLock { state in
            switch state.timer.fired(now: now) {
            case .idle: return false
            case .early(let instant):
                self.environment.time.schedule(self, at: instant)
                return false
            case .due: return true
            }
        }
        if isDue { self.step { $0.timeout(now: $1) } }
    }

    // MARK: Commands

    /// A command, and the receiver of events when it was taken.
    private typealias Step = (command: HTTPMessageConnectionMachine.Command, events: (any MessageEvents)?)

    /// Changes the machine, and performs its commands after those of earlier changes, without a lock.
    private func step(_ body: (inout HTTPMessageConnectionMachine, _ now: Instant) -> [HTTPMessageConnectionMachine.Command]) {
        let now = self.environment.time.now
        var next = self.state.withLock { state -> Step? in
            var commands = body(&state.machine, now)
            if let id = state.machine.takeExchangeToPause() { state.exchanges[id]?.pauseReading() }
            self.setTimer(&state)
            if commands.isEmpty { return nil }
            guard state.isPerforming || commands.count > 1 else {
                // The usual case doesn't need the queue.
                state.isPerforming = true
                return Self.step(commands.removeLast(), &state)
            }
            for command in commands { state.commands.append(command) }
            return state.isPerforming ? nil : Self.next(&state)
        }
        guard next != nil else { return }
        var delivered = MessageBatch()
        // A task that waits for the connection continues when the commands that follow have been performed.
        DelayedWakeUps.delaying {
            var count = 0
            while let step = next {
                self.perform(step)
                if case .received(let batch, _) = step.command { delivered = batch }
                next = self.state.withLock { Self.next(&$0) }
                count += 1
                // Other threads may add commands without end.
                if count.isMultiple(of: 64) { DelayedWakeUps.resumeNow() }
            }
        }
        // Here, nothing else refers to the memory of the last batch.
        if !delivered.entries.isEmpty { Self.putBack(&delivered) }
    }

    private func setTimer(_ state: inout State) {
        if state.machine.hasEnded {
            if state.timer.cancel() { self.environment.time.schedule(self, at: nil) }
        } else if let instant = state.timer.setDeadline(state.machine.nextDeadline) {
            self.environment.time.schedule(self, at: instant)
        }
    }

    /// Takes the next command. The caller performs it.
    private static func next(_ state: inout State) -> Step? {
        guard let command = state.commands.popFirst() else {
            state.isPerforming = false
            return nil
        }
        state.isPerforming = true
        return Self.step(command, &state)
    }

    private static func step(_ command: HTTPMessageConnectionMachine.Command, _ state: inout State) -> Step {
        if case .received(_, let id) = command { state.delivering = id }
        if case .closed = command { return (command, state.events.take()) }
        return (command, state.events)
    }

    private func perform(_ step: Step) {
        let events = step.events
        switch step.command {
        case .start(let id, let request, let refused): self.start(id, request, refused: refused)
        case .cancel(let id): self.takeExchange(id)?.cancel()
        case .resumeReading(let id): self.resumeReading(id)
        case .opened(let head): events?.opened(self.id, head: head)
        case .received(let batch, _): events?.received(self.id, batch)
        case .receivedPart(let byteCount): events?.reportPart(self.id, byteCount: byteCount)
        case .writing(let isPaused): events?.writing(self.id, paused: isPaused)
        case .answered(let count): (events as? any HTTPMessageEvents)?.answered(self.id, count)
        case .unsent(let messages): (events as? any HTTPMessageEvents)?.unsent(self.id, messages)
        case .closed(let reason): events?.closed(self.id, reason)
        }
    }

    // MARK: Memory

    /// The memory of a batch that was delivered. All connections use it in turn: reading a burst into new memory takes several times as long.
    private static let spareBatch = Lock(MessageBatch())

    private static func takeSpareBatch() -> MessageBatch {
        var batch = MessageBatch()
        self.spareBatch.withLock { swap(&$0, &batch) }
        return batch
    }

    private static func putBack(_ batch: inout MessageBatch) {
        batch.removeAll()
        self.spareBatch.withLock { spare in
            if spare.bytes.capacity < batch.bytes.capacity { swap(&spare, &batch) }
        }
    }

    private func takeExchange(_ id: ExchangeID) -> (any HTTPExchange)? {
        self.state.withLock { $0.exchanges.removeValue(forKey: id) }
    }

    private func resumeReading(_ id: ExchangeID) {
        guard let exchange = self.state.withLock({ $0.machine.isReadingPaused ? nil : $0.exchanges[id] }) else { return }
        exchange.resumeReading()
        // The owner may have paused reading in the meantime.
        self.state.withLock { if $0.machine.isReadingPaused { exchange.pauseReading() } }
    }

    private func start(_ id: ExchangeID, _ request: HTTPRequest, refused: Int?) {
        guard let headers = self.environment.headers else { return self.start(id, request, generation: 0) }
        let isAtOtherOrigin = self.state.withLock { $0.machine.isAtOtherOrigin(id) }
        let keepsFields = self.environment.sendsHeadersAfterRedirect
        // Weak, because a closure of the application may keep it and never answer.
        headers(refused) { [weak self] result in
            guard let self else { return }
            switch result {
            case .success(let fields):
                var request = request
                let headers = isAtOtherOrigin ? fields.headers.forOtherOrigin(keepsFields: keepsFields) : fields.headers
                for field in headers { request.headers[field.name] = nil }
                for field in headers { request.headers.add(field.name, field.value) }
                self.start(id, request, generation: fields.generation)
            case .failure(let error): self.ended(id, error)
            }
        }
    }

    private func start(_ id: ExchangeID, _ request: HTTPRequest, generation: Int) {
        let now = self.environment.time.now
        let request = self.environment.cookies.added(to: request, now: now)
        let exchange = self.http.exchange(request, id: id, events: self)
        let isCurrent = self.state.withLock { state in
            // The connection may have ended while the header fields were awaited.
            guard state.machine.prepared(id, generation: generation, now: now) else { return false }
            state.exchanges[id] = exchange
            self.setTimer(&state)
            if state.machine.isReadingPaused, state.machine.receivingID == id { exchange.pauseReading() }
            return true
        }
        if isCurrent { exchange.start() }
    }
}
