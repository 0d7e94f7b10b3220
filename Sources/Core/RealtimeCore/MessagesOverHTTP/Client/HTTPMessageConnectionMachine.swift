/// The decisions of a connection over HTTP: a value without I/O.
///
/// ```
///         open            head of the first response          close
///   idle ──────▶ opening ────────────────────────────▶ open ─────────▶ closing ──┐
///                   └───────── error, end, close ────────┴──────┐          │ response, deadline
///                                                               ▼          ▼
///   abandon, in any state ───────────────────────────────────▶ ended ◀─────┘
/// ```
/// Where the server ends the connection while it has a request with messages, `ending` precedes `ended`, until the answer or a deadline.
///
/// The owner keeps the machine under a lock, and performs the commands that a call returns outside that lock and in their order.
package struct HTTPMessageConnectionMachine: Sendable {
    package enum Command: Sendable {
        /// Send a request. If a server has refused it, the generation of its header fields is given, and newer ones are needed.
        case start(ExchangeID, HTTPRequest, refused: Int?)
        case cancel(ExchangeID)
        case resumeReading(ExchangeID)
        case opened(HTTPResponseHead)
        /// Messages have arrived. The request is given if they seem to be more than signs of life.
        case received(MessageBatch, of: ExchangeID?)
        /// A part of a message has arrived, and no message.
        case receivedPart(byteCount: Int)
        case writing(paused: Bool)
        /// The server has taken the next messages, in their order.
        case answered(Int)
        case unsent([TransportMessage])
        case closed(CloseReason)
    }

    private enum State: Sendable {
        case idle, opening, open
        case closing(CloseCode, String, deadline: Instant)
        /// The server has ended the connection, and is about to answer messages that it has read before.
        case ending(CloseReason, deadline: Instant)
        case ended
    }

    /// A request in progress.
    private struct Exchange: Sendable {
        var id: ExchangeID
        var request: HTTPRequest
        var started: Instant
        /// The time for the answer, or for the part of it that is awaited. Before the request is sent, there is no limit.
        var answerLimit: AnswerLimit?
        /// The generation of the header fields that were added to the request.
        var generation = 0
        /// Whether the request was repeated with fresh header fields.
        var isRepeated = false
        /// The URL that has redirected the request, the first one of several.
        var redirectedFrom: Endpoint?
        var redirects = 0
        /// Whether a redirect led to another origin, which receives no credentials.
        var isAtOtherOrigin = false
        /// The number of messages in the request, and whether a ping is among them.
        var messageCount = 0
        var hasPing = false
        var head: HTTPResponseHead?
        /// The number of bytes of the body that have arrived, in the receiving loop.
        var bodyBytes = 0
        /// The body of a response that ends the connection.
        var rejection: [UInt8]?

        /// The end of the time for the answer, or for its part that is awaited; see ``HTTPMessageConnectionMachine/nextDeadline``.
        var deadline: Instant? { self.answerLimit?.deadline }

        /// The URL of the request, and the one that has redirected it there, at the beginning of a sentence.
        var place: String { (self.redirectedFrom ?? self.request.endpoint).place(answeredBy: self.request.endpoint) }

        /// The same request with another number, such as one that is repeated.
        func repeated(as id: ExchangeID, now: Instant) -> Exchange {
            Exchange(
                id: id, request: self.request, started: now, isRepeated: self.isRepeated, redirectedFrom: self.redirectedFrom,
                redirects: self.redirects, isAtOtherOrigin: self.isAtOtherOrigin, messageCount: self.messageCount, hasPing: self.hasPing)
        }

        /// The time for the head, or for the answer to messages: that of the transport for silence, which has a text of its own, and some for
        /// the connection.
        var limit: Duration { self.request.idleTimeout + min(self.request.connectTimeout, .seconds(10)) }

        /// The request is sent now.
        mutating func begin(now: Instant) {
            self.answerLimit = AnswerLimit(self.limit, byteCount: self.request.body.count, now: now)
        }

        /// Begins the limit for what follows of the answer. A stream that has begun has none.
        mutating func expectRest(isStream: Bool, now: Instant) {
            let hasBegunStream = isStream && self.head != nil && self.rejection == nil
            self.answerLimit = hasBegunStream ? nil : AnswerLimit(self.request.idleTimeout, now: now)
        }
    }

    private enum Receiving: Sendable {
        case none
        case request(Exchange)
        /// The next request waits for the end of a pause of reading, or for an instant.
        case waiting(until: Instant?)
    }

    private enum Sending: Sendable {
        case none
        /// The size of the messages in the request, and the body of the response.
        case request(Exchange, bytes: Int, body: [UInt8])
        /// The request that tells the server about the end.
        case closing(Exchange)
        /// The next request waits for the rest of a burst of messages.
        case gathering(until: Instant)
    }

    /// Recognizes an owner that writes a burst of messages while a request is in progress.
    ///
    /// If the answer arrives in the middle of the burst, the next request would take a part of the messages, and the one after it the rest: it
    /// waits for a moment instead. With a clock that doesn't advance meanwhile, as in tests, nothing is a burst.
    private struct Burst: Sendable {
        /// The longest time between two messages of a burst, and that for which a request waits.
        static let interval = Duration.microseconds(100)
        /// The number of messages that make a burst.
        static let size = 8

        private var last: Instant?
        private var count = 0

        /// A message waits for the end of the request in progress.
        mutating func add(_ now: Instant) {
            defer { self.last = now }
            guard let last = self.last, last < now, last.duration(to: now) < Self.interval else { return self.count = 1 }
            self.count += 1
        }

        /// Until when the next request waits.
        func end(_ now: Instant) -> Instant? {
            guard self.count >= Self.size, let last = self.last, last.duration(to: now) < Self.interval else { return nil }
            return now.advanced(by: Self.interval)
        }
    }

    /// The time limit of ``close(_:reason:now:)``.
    package static let closeTimeout = Duration.seconds(5)
    /// The time for the answer to messages after the server has ended the connection.
    private static let answerTime = Duration.seconds(1)
    /// The maximum size of a response in the sending loop.
    private static let answerLimit = 64 << 10

    private var rules: any HTTPMessageConnectionRules
    private let refreshesHeaders: Bool
    private let reportsMessages: Bool
    private var state = State.idle
    private var receiving = Receiving.none
    private var sending = Sending.none
    private var burst = Burst()
    private var output: ArraySlice<TransportMessage> = []
    private var gauge: OutputGauge
    private var isOverLimit = false
    private var lastExchange: UInt64 = 0
    /// The pause of reading by the owner.
    private struct Pause: Sendable {
        /// When the response that waits is read nevertheless.
        var end: Instant?
        /// Whether that response is being read.
        var isReading = false
        /// The number of bytes that were delivered during the pause.
        var bytes = 0
        /// The number of bytes at which reading pauses again.
        var endOfShare = Int.max
    }

    private var pause: Pause?
    /// Whether the exchange in progress was paused.
    private var isExchangePaused = false
    /// Whether the exchange in progress is to be paused.
    private var pausesExchange = false
    /// Whether something was received since a close that waits for the end of the response, or since its last time limit.
    private var receivesWhileClosing = false
    private var pace = AnswerPace()

    /// - Parameters:
    ///   - rules: The rules of the protocol.
    ///   - refreshesHeaders: Whether a request is repeated once with fresh header fields after a response with the status 401.
    ///   - reportsMessages: Whether the owner is told how many messages the server has taken, and takes those that aren't sent yet when another
    ///     connection replaces this one.
    ///   - backlogBytes: The number of bytes that may wait to be sent.
    package init(
        _ rules: some HTTPMessageConnectionRules, refreshesHeaders: Bool = false, reportsMessages: Bool = false,
        backlogBytes: Int = OutputGauge.clientLimit
    ) {
        self.rules = rules
        (self.refreshesHeaders, self.reportsMessages) = (refreshesHeaders, reportsMessages)
        self.gauge = OutputGauge(limit: backlogBytes)
    }

    /// Whether the connection has ended. It has no deadlines then.
    package var hasEnded: Bool { if case .ended = self.state { true } else { false } }

    /// When to call ``timeout(now:)``.
    ///
    /// A transport limits the silence of a server, which each byte interrupts. Here, the answer is limited. The answer to messages, which is short,
    /// has the time limit of its request, and a second more for each KiB that is sent. The head of another answer has the same, and then, unless it
    /// is a stream, the rest its time limit again, and a second more for each KiB that arrives: a large answer may arrive slowly.
    package var nextDeadline: Instant? {
        let wait: Instant? = if case .waiting(let until) = self.receiving, self.pause == nil, !self.isClosingSent { until } else { nil }
        // Before the connection opens, and after its end, there is nothing to read.
        let pause: Instant? = if case .none = self.receiving { nil } else if self.isClosingSent { nil } else { self.pause?.end }
        let close: Instant? =
            switch self.state {
            case .closing(_, _, let deadline), .ending(_, let deadline): deadline
            case .idle, .opening, .open, .ended: nil
            }
        let burst: Instant? = if case .gathering(let until) = self.sending { until } else { nil }
        return .earliest(
            .earliest(.earliest(wait, pause), .earliest(close, burst)), .earliest(self.receivingDeadline, self.sendingDeadline))
    }

    /// The end of the time for the answer in the receiving loop. While the owner has paused reading, the server may have to wait.
    private var receivingDeadline: Instant? {
        guard case .request(let exchange) = self.receiving, !self.isExchangePaused, !self.isReadingPaused, !self.isClosingSent else {
            return nil
        }
        return exchange.deadline
    }

    /// The end of the time for the answer to messages.
    private var sendingDeadline: Instant? {
        // A connection that the server has ended has another time limit.
        if case .ending = self.state { return nil }
        return if case .request(let exchange, _, _) = self.sending { exchange.deadline } else { nil }
    }

    /// The owner has prepared a request, with header fields of a generation.
    ///
    /// - Returns: Whether the request is still in progress. The owner starts it only then.
    package mutating func prepared(_ id: ExchangeID, generation: Int, now: Instant) -> Bool {
        guard var exchange = self.exchange(id) else { return false }
        exchange.generation = generation
        exchange.begin(now: now)
        self.replace(id, by: exchange)
        return true
    }

    /// The endpoint of a request in progress.
    package func endpoint(of id: ExchangeID) -> Endpoint? { self.exchange(id)?.request.endpoint }

    /// Whether a redirect has led a request to another origin, which receives no credentials.
    package func isAtOtherOrigin(_ id: ExchangeID) -> Bool { self.exchange(id)?.isAtOtherOrigin ?? false }

    private func exchange(_ id: ExchangeID) -> Exchange? {
        if case .request(let exchange) = self.receiving, exchange.id == id { return exchange }
        switch self.sending {
        case .request(let exchange, _, _) where exchange.id == id: return exchange
        case .closing(let exchange) where exchange.id == id: return exchange
        case .none, .request, .closing, .gathering: return nil
        }
    }

    /// Replaces a request in progress, by itself with other values, or by another one.
    private mutating func replace(_ id: ExchangeID, by exchange: Exchange) {
        if self.receivingID == id { return self.receiving = .request(exchange) }
        switch self.sending {
        case .request(let before, let bytes, let body) where before.id == id:
            self.sending = .request(exchange, bytes: bytes, body: before.id == exchange.id ? body : [])
        case .closing(let before) where before.id == id: self.sending = .closing(exchange)
        case .none, .request, .closing, .gathering: break
        }
    }

    /// Whether responses aren't read.
    package var isReadingPaused: Bool { self.pause.map { !$0.isReading } ?? false }

    /// The request whose response is paused with ``pauseReading(now:)``.
    package var receivingID: ExchangeID? {
        if case .request(let exchange) = self.receiving { exchange.id } else { nil }
    }

    private var sendingID: ExchangeID? {
        switch self.sending {
        case .none, .gathering: nil
        case .request(let exchange, _, _), .closing(let exchange): exchange.id
        }
    }

    // MARK: The owner

    package mutating func open(now: Instant) -> [Command] {
        guard case .idle = self.state else { return [] }
        self.state = .opening
        return self.receive(now: now)
    }

    package mutating func enqueue(_ message: TransportMessage) {
        switch self.state {
        case .idle, .opening, .open: break
        case .closing, .ending, .ended: return
        }
        guard self.gauge.accept(message.bytes.count) else { return self.isOverLimit = true }
        self.output.append(message)
    }

    package mutating func flush(now: Instant) -> [Command] {
        var commands: [Command] = []
        if self.isOverLimit { return self.end(.transport(self.gauge.error)) }
        if self.pause == nil {
            if self.isExchangePaused, let id = self.receivingID { commands.append(.resumeReading(id)) }
            self.resumeExchange(now: now)
            if case .waiting(until: nil) = self.receiving, !self.isClosingSent { commands += self.receive(now: now) }
        }
        if case .request = self.sending, !self.output.isEmpty { self.burst.add(now) }
        commands += self.send(now: now)
        if case .open = self.state, self.gauge.takeChange() == true { commands.append(.writing(paused: true)) }
        return commands
    }

    /// Pauses reading, unless the session goes on over another connection, which waits for the end of this one. If ``isReadingPaused`` is true
    /// then, the owner pauses the exchange ``receivingID`` as well.
    package mutating func pauseReading(now: Instant) {
        guard self.pause == nil, !self.finishesReceiving else { return }
        self.pause = Pause(end: self.rules.pausedPolling.map { now.advanced(by: $0.interval) })
        self.isExchangePaused = self.receivingID != nil
    }

    /// Resumes reading with the next ``flush(now:)``.
    package mutating func resumeReading() { self.pause = nil }

    /// Sends what waits, and then ends the connection as the rules decide.
    package mutating func close(_ code: CloseCode, reason: String, now: Instant) -> [Command] {
        switch self.state {
        case .idle, .opening: return self.end(.requested)
        case .closing, .ending, .ended: return []
        case .open: break
        }
        self.state = .closing(code, reason, deadline: now.advanced(by: Self.closeTimeout))
        self.receivesWhileClosing = false
        guard let limit = self.finishLimit else { return self.send(now: now) }
        self.state = .closing(code, reason, deadline: now.advanced(by: limit))
        if case .waiting = self.receiving { self.receiving = .none }
        // The other connection can't wait for the owner: a server gives it up that isn't used in time.
        self.pause = nil
        let resumed = self.isExchangePaused ? self.receivingID : nil
        self.resumeExchange(now: now)
        return (resumed.map { [.resumeReading($0)] } ?? []) + self.takeUnsent() + self.send(now: now)
    }

    /// A server doesn't wait for the requests that much output needs.
    private mutating func takeUnsent() -> [Command] {
        if !self.reportsMessages || self.output.isEmpty { return [] }
        defer { self.output = [] }
        self.gauge.remove(self.output.reduce(0) { $0 + $1.bytes.count })
        return [.unsent(Array(self.output))]
    }

    /// Ends the connection immediately. The only commands cancel requests.
    package mutating func abandon() -> [Command] {
        self.state = .ended
        return self.cancelAll()
    }

    package mutating func timeout(now: Instant) -> [Command] {
        if case .ending(let reason, let deadline) = self.state { return deadline <= now ? self.end(reason) : [] }
        if case .closing(let code, let reason, let deadline) = self.state, deadline <= now {
            guard let limit = self.finishLimit else { return self.end(.requested) }
            let isSending = if case .none = self.sending { false } else { true }
            guard !isSending, !self.receivesWhileClosing else {
                // The response goes on. A request with messages has a time limit of its own.
                self.receivesWhileClosing = false
                self.state = .closing(code, reason, deadline: now.advanced(by: limit))
                return []
            }
            let message = "The server didn't end its response, so that another connection could replace this one."
            return self.end(.transport(TransportError(.timedOut, message)))
        }
        if let deadline = self.sendingDeadline, deadline <= now, case .request(var exchange, let bytes, let body) = self.sending {
            guard exchange.answerLimit?.hasPassed(now: now) == false else { return self.endTimedOut(exchange, body) }
            self.sending = .request(exchange, bytes: bytes, body: body)
        }
        if let deadline = self.receivingDeadline, deadline <= now, case .request(var exchange) = self.receiving {
            guard exchange.answerLimit?.hasPassed(now: now) == false else { return self.endTimedOut(exchange) }
            self.receiving = .request(exchange)
        }
        if case .gathering(let until) = self.sending, until <= now { return self.send(now: now) }
        if self.isClosingSent { return [] }
        if let end = self.pause?.end { return end <= now ? self.readDuringPause(now: now) : [] }
        if case .waiting(let until?) = self.receiving, until <= now, self.pause == nil { return self.receive(now: now) }
        return []
    }

    /// The answer to messages hasn't ended in time.
    private mutating func endTimedOut(_ exchange: Exchange, _ body: [UInt8]) -> [Command] {
        if let head = exchange.head, !(200...299).contains(head.status) {
            return self.endRejected(exchange, HTTPResponse(head, body: body))
        }
        return self.endTimedOut(exchange, "its answer to messages wasn't complete after \(Self.limit(of: exchange)).")
    }

    /// The answer in the receiving loop hasn't begun in time, or arrives too slowly.
    private mutating func endTimedOut(_ exchange: Exchange) -> [Command] {
        if exchange.rejection != nil { return self.endRejected(exchange) }
        if exchange.head != nil { return self.endTimedOut(exchange, AnswerLimit.isExceeded) }
        return self.endTimedOut(exchange, "the head of its answer wasn't complete after \(Self.limit(of: exchange)).")
    }

    private mutating func endTimedOut(_ exchange: Exchange, _ problem: String) -> [Command] {
        self.end(.transport(AnswerLimit.error(exchange.place, problem)))
    }

    private static func limit(of exchange: Exchange) -> Duration {
        exchange.limit + .seconds(exchange.request.body.count / 1024)
    }

    /// The exchange in progress is read again, if it was paused.
    private mutating func resumeExchange(now: Instant) {
        if self.isExchangePaused, case .request(var exchange) = self.receiving {
            exchange.expectRest(isStream: self.rules.isStream, now: now)
            self.receiving = .request(exchange)
        }
        self.isExchangePaused = false
    }

    private mutating func readDuringPause(now: Instant) -> [Command] {
        guard let polling = self.rules.pausedPolling, let pause = self.pause, pause.bytes <= polling.byteLimit else {
            self.pause?.end = nil
            return []
        }
        self.pause?.end = now.advanced(by: polling.interval)
        switch self.receiving {
        case .none: return []
        case .waiting: return self.receive(now: now)
        case .request(let exchange):
            self.pause?.isReading = true
            self.pause?.endOfShare = polling.share.map { pause.bytes + $0 } ?? .max
            defer { self.resumeExchange(now: now) }
            return self.isExchangePaused ? [.resumeReading(exchange.id)] : []
        }
    }

    // MARK: Exchanges

    package mutating func received(_ head: HTTPResponseHead, of id: ExchangeID, now: Instant) -> [Command] {
        if head.status == 401, self.refreshesHeaders, let commands = self.repeatRequest(id, now: now) { return commands }
        if (300...399).contains(head.status), let commands = self.followRedirect(head, of: id, now: now) { return commands }
        if case .request(var exchange) = self.receiving, exchange.id == id {
            if self.isClosingSent { return [] }
            exchange.head = head
            switch self.rules.received(head) {
            case .proceed, .pause:
                exchange.expectRest(isStream: self.rules.isStream, now: now)
                self.receiving = .request(exchange)
            case .end(let reason): return self.ended(reason, now: now)
            case .reject:
                exchange.rejection = []
                exchange.expectRest(isStream: false, now: now)
                self.receiving = .request(exchange)
                return []
            }
            guard case .opening = self.state else { return [] }
            self.state = .open
            return [.opened(head)] + self.send(now: now)
        }
        switch self.sending {
        case .request(var exchange, let bytes, let body) where exchange.id == id:
            exchange.head = head
            self.sending = .request(exchange, bytes: bytes, body: body)
        case .none, .request, .closing, .gathering: break
        }
        return []
    }

    /// - Parameter batch: An empty batch for the messages in the body.
    package mutating func received(
        _ body: UnsafeRawBufferPointer, of id: ExchangeID, in batch: consuming MessageBatch, now: Instant
    ) -> [Command] {
        if self.receivingID == id {
            if self.isClosingSent { return [] }
            if self.isRejected { return self.receivedRejection(body) }
            if let error = self.countBody(body.count) { return self.end(.transport(error)) }
            do throws(TransportError) {
                try self.rules.decode(body, into: &batch)
            } catch {
                return self.deliver(batch) + self.end(.transport(error))
            }
            self.receivesWhileClosing = true
            self.countPaused(body.count)
            return batch.entries.isEmpty ? [.receivedPart(byteCount: body.count)] : self.deliver(batch, of: id)
        }
        if case .request(let exchange, let bytes, let before) = self.sending, exchange.id == id {
            let kept = before + body.prefix(Self.answerLimit - before.count)
            self.sending = .request(exchange, bytes: bytes, body: kept)
            // More isn't an answer that any protocol has, and may never end. What is kept suffices for a message.
            if before.count + body.count > Self.answerLimit { return self.endOversized(exchange, kept) }
        }
        return []
    }

    /// The owner has found no message in a part of the answer to a request.
    package mutating func receivedNoMessage(of id: ExchangeID) { self.pace.ignored(id) }

    /// Counts a part of the body of a response in the receiving loop.
    ///
    /// - Returns: An error if the body exceeds the limit of the rules.
    private mutating func countBody(_ count: Int) -> TransportError? {
        guard case .request(var exchange) = self.receiving else { return nil }
        exchange.bodyBytes += count
        exchange.answerLimit?.byteCount += count
        self.receiving = .request(exchange)
        guard let limit = self.rules.bodyLimit, exchange.bodyBytes > limit else { return nil }
        return TransportError(
            .tooLarge, "\(exchange.request.endpoint) answered with more than \(limit) bytes. Let the server send less in one response.")
    }

    /// Counts what was delivered during a pause.
    private mutating func countPaused(_ count: Int) {
        guard var pause = self.pause else { return }
        pause.bytes += count
        if pause.isReading, pause.bytes >= pause.endOfShare {
            (pause.isReading, self.isExchangePaused, self.pausesExchange) = (false, true, true)
        }
        self.pause = pause
    }

    /// Returns the exchange that the owner pauses in the same step, after its share during a pause was read.
    package mutating func takeExchangeToPause() -> ExchangeID? {
        guard self.pausesExchange else { return nil }
        self.pausesExchange = false
        return self.receivingID
    }

    private mutating func endOversized(_ exchange: Exchange, _ body: [UInt8]) -> [Command] {
        if let head = exchange.head, !(200...299).contains(head.status) {
            return self.endRejected(exchange, HTTPResponse(head, body: body))
        }
        let message =
            "\(exchange.request.endpoint) answered to messages with more than \(Self.answerLimit) bytes. Check the URL and the server."
        return self.end(.transport(TransportError(.tooLarge, message)))
    }

    package mutating func ended(_ id: ExchangeID, _ error: TransportError?, now: Instant) -> [Command] {
        if case .request(let exchange) = self.receiving, exchange.id == id { return self.receivingEnded(exchange, error, now: now) }
        switch self.sending {
        case .request(let exchange, let bytes, let body) where exchange.id == id:
            self.sending = .none
            return self.sendingEnded(exchange, bytes, body, error, now: now)
        case .closing(let exchange) where exchange.id == id:
            self.sending = .none
            return self.end(.requested)
        case .none, .request, .closing, .gathering: return []
        }
    }

    /// Whether the request is sent that tells the server about the end. What is received meanwhile is ignored.
    private var isClosingSent: Bool { if case .closing = self.sending { true } else { false } }

    /// Whether the connection is being closed, and receives the response that it waits for.
    private var finishesReceiving: Bool { mutating get { self.finishLimit != nil } }

    /// The time limit for the response that a connection waits for while it is being closed; `nil` if it doesn't wait for one.
    private var finishLimit: Duration? {
        mutating get {
            guard case .closing(let code, let reason, _) = self.state,
                case .finishReceiving(let limit) = self.rules.closing(code, reason: reason)
            else { return nil }
            return limit
        }
    }

    private var isRejected: Bool {
        if case .request(let exchange) = self.receiving { exchange.rejection != nil } else { false }
    }

    private mutating func receivedRejection(_ body: UnsafeRawBufferPointer) -> [Command] {
        guard case .request(var exchange) = self.receiving, let before = exchange.rejection else { return [] }
        exchange.rejection = before + body.prefix(Self.answerLimit - before.count)
        self.receiving = .request(exchange)
        return exchange.rejection?.count == Self.answerLimit ? self.endRejected(exchange) : []
    }

    private mutating func endRejected(_ exchange: Exchange) -> [Command] {
        let response = HTTPResponse(exchange.head ?? HTTPResponseHead(status: 0), body: exchange.rejection ?? [])
        let isOpening = if case .opening = self.state { true } else { false }
        let message = "\(exchange.place) answered with status \(response.summary)"
        return self.endRejected(exchange, response, message, isOpening ? .upgradeRejected : .requestRejected)
    }

    private mutating func receivingEnded(_ exchange: Exchange, _ error: TransportError?, now: Instant) -> [Command] {
        if self.isClosingSent {
            self.receiving = .none
            return []
        }
        if exchange.rejection != nil { return self.endRejected(exchange) }
        self.receiving = .none
        if let error { return self.end(.transport(error)) }
        var batch = MessageBatch()
        let verdict: HTTPVerdict
        do throws(TransportError) {
            verdict = try self.rules.bodyEnded(into: &batch)
        } catch {
            return self.deliver(batch) + self.end(.transport(error))
        }
        let commands = self.deliver(batch, of: exchange.id)
        var pause = Duration.zero
        switch verdict {
        case .proceed: break
        case .pause(let duration): pause = duration
        case .end(let reason): return commands + self.ended(reason, now: now)
        case .reject: return commands + self.endRejected(exchange)
        }
        if self.finishesReceiving { return commands + self.send(now: now) }
        let delay = max(self.pace.ended(after: exchange.started.duration(to: now)), pause)
        let isBetweenRequests = self.pause.map { !$0.isReading } ?? false
        self.pause?.isReading = false
        if isBetweenRequests || delay > .zero {
            self.receiving = .waiting(until: delay > .zero ? now.advanced(by: delay) : nil)
            return commands
        }
        return commands + self.receive(now: now)
    }

    private mutating func sendingEnded(
        _ exchange: Exchange, _ bytes: Int, _ body: [UInt8], _ error: TransportError?, now: Instant
    ) -> [Command] {
        let response = HTTPResponse(exchange.head ?? HTTPResponseHead(status: 0), body: body)
        let isAccepted = (200...299).contains(response.head.status)
        if case .ending(let reason, _) = self.state {
            guard error == nil, isAccepted, case .proceed = self.rules.sent(response) else { return self.end(reason) }
            return self.answered(exchange) + self.end(reason)
        }
        if let error { return self.end(.transport(error)) }
        guard isAccepted else { return self.endRejected(exchange, response) }
        switch self.rules.sent(response) {
        case .proceed, .pause: break
        case .end(let reason): return self.end(reason)
        case .reject: return self.endRejected(exchange, response)
        }
        self.gauge.remove(bytes)
        var commands = self.answered(exchange)
        // The peer has answered, which is what a ping asks for.
        if exchange.hasPing {
            var batch = MessageBatch()
            batch.append(.pong, [])
            commands += self.deliver(batch)
        }
        if case .open = self.state, let end = self.burst.end(now) { self.sending = .gathering(until: end) }
        self.burst = Burst()
        commands += self.send(now: now)
        if case .open = self.state, self.gauge.bytes == 0, self.gauge.takeChange() == false { commands.append(.writing(paused: false)) }
        return commands
    }

    /// The server has taken the messages of a request.
    private func answered(_ exchange: Exchange) -> [Command] { self.reportsMessages ? [.answered(exchange.messageCount)] : [] }

    /// The server has rejected messages.
    private mutating func endRejected(_ exchange: Exchange, _ response: HTTPResponse) -> [Command] {
        let message = "\(exchange.place) rejected messages with status \(response.summary)"
        return self.endRejected(exchange, response, message, .requestRejected)
    }

    private mutating func endRejected(
        _ exchange: Exchange, _ response: HTTPResponse, _ message: String, _ code: TransportError.Code
    ) -> [Command] {
        var message = message
        if exchange.isAtOtherOrigin, [401, 403].contains(response.head.status) {
            message += " A redirect takes no credentials to another origin: use the URL at which it ends."
        }
        let error = TransportError(code, message, response: response, isOfOtherOrigin: exchange.isAtOtherOrigin)
        return self.end(.transport(error))
    }

    // MARK: Steps

    private mutating func receive(now: Instant) -> [Command] {
        var request = self.rules.receivingRequest()
        // A server sends each message once. If it was in a response that got lost, repeating the request would lose it silently.
        request.isRepeatable = false
        let exchange = self.exchange(request, now: now)
        self.receiving = .request(exchange)
        self.isExchangePaused = self.pause != nil
        return [.start(exchange.id, exchange.request, refused: nil)]
    }

    /// Sends what waits, or the request that ends a connection that closes.
    private mutating func send(now: Instant) -> [Command] {
        switch self.sending {
        case .none: break
        case .gathering(let until):
            if case .open = self.state, now < until { return [] }
            self.sending = .none
        case .request, .closing: return []
        }
        switch self.state {
        case .idle, .opening, .ending, .ended: return []
        case .open where self.output.isEmpty: return []
        case .closing(let code, let reason, _) where self.output.isEmpty:
            let request: HTTPRequest
            switch self.rules.closing(code, reason: reason) {
            case .request(let closing): request = closing
            case .cancel: return self.end(.requested)
            case .finishReceiving: return self.receivingID == nil ? self.end(.requested) : []
            }
            let exchange = self.exchange(request, now: now)
            // The request of the receiving loop is cancelled afterwards: a server may take its end for a lost connection.
            self.sending = .closing(exchange)
            return [.start(exchange.id, request, refused: nil)]
        case .open, .closing: break
        }
        let (request, count) = self.rules.sendingRequest(self.output)
        let bytes = self.output.prefix(count).reduce(0) { $0 + $1.bytes.count }
        var exchange = self.exchange(request, now: now)
        exchange.messageCount = count
        exchange.hasPing = self.output.prefix(count).contains { $0.kind == .ping }
        self.output.removeFirst(count)
        if self.output.isEmpty { self.output = [] }
        self.sending = .request(exchange, bytes: bytes, body: [])
        return [.start(exchange.id, request, refused: nil)]
    }

    private mutating func exchange(_ request: HTTPRequest, now: Instant) -> Exchange {
        self.lastExchange += 1
        return Exchange(id: ExchangeID(rawValue: self.lastExchange), request: request, started: now)
    }

    /// Repeats a request once with fresh header fields.
    private mutating func repeatRequest(_ id: ExchangeID, now: Instant) -> [Command]? {
        guard let exchange = self.exchange(id), !exchange.isRepeated, !exchange.isAtOtherOrigin else { return nil }
        return self.startAgain(exchange, refused: exchange.generation, now: now) { $0.isRepeated = true }
    }

    /// Sends a request to the URL to which a server has redirected it.
    ///
    /// Browsers and the clients for JavaScript do the same, for each request again.
    ///
    /// - Returns: `nil` if the response isn't a redirect.
    private mutating func followRedirect(_ head: HTTPResponseHead, of id: ExchangeID, now: Instant) -> [Command]? {
        guard let exchange = self.exchange(id) else { return nil }
        do throws(TransportError) {
            guard let next = try exchange.request.redirectedUnchanged(by: head) else { return nil }
            guard exchange.redirects < HTTPRequest.redirectLimit else { throw exchange.request.redirectLoop }
            return self.startAgain(exchange, refused: nil, now: now) {
                $0.redirectedFrom = $0.redirectedFrom ?? $0.request.endpoint
                $0.redirects += 1
                $0.isAtOtherOrigin = $0.isAtOtherOrigin || next.endpoint.origin != $0.request.endpoint.origin
                $0.request = next
            }
        } catch {
            if case .closing = self.sending { return self.end(.requested) }
            return self.end(.transport(error))
        }
    }

    /// Sends a changed request in place of another one, whose response isn't of interest.
    private mutating func startAgain(
        _ exchange: Exchange, refused: Int?, now: Instant, _ change: (inout Exchange) -> Void
    ) -> [Command]? {
        // After the request that tells the server about the end, nothing is received.
        if self.isClosingSent, self.receivingID == exchange.id { return nil }
        self.lastExchange += 1
        var next = exchange.repeated(as: ExchangeID(rawValue: self.lastExchange), now: now)
        change(&next)
        self.replace(exchange.id, by: next)
        return [.cancel(exchange.id), .start(next.id, next.request, refused: refused)]
    }

    private func deliver(_ batch: consuming MessageBatch) -> [Command] { batch.entries.isEmpty ? [] : [.received(batch, of: nil)] }

    /// - Parameter id: The request whose answer brought the messages, in the receiving loop.
    private mutating func deliver(_ batch: consuming MessageBatch, of id: ExchangeID) -> [Command] {
        if batch.entries.isEmpty { return [] }
        guard self.rules.hasMessages(batch) else { return [.received(batch, of: nil)] }
        self.pace.received(id)
        return [.received(batch, of: id)]
    }

    /// The server has ended the connection. A request with messages that it has taken is answered soon.
    private mutating func ended(_ reason: CloseReason, now: Instant) -> [Command] {
        guard case .request = self.sending else { return self.end(reason) }
        let cancelled = self.receivingID.map { [Command.cancel($0)] } ?? []
        (self.receiving, self.output) = (.none, [])
        self.state = .ending(reason, deadline: now.advanced(by: Self.answerTime))
        return cancelled
    }

    private mutating func end(_ reason: CloseReason) -> [Command] {
        if case .ended = self.state { return [] }
        // The end by the server came first.
        let reason = if case .ending(let first, _) = self.state { first } else { reason }
        self.state = .ended
        return self.cancelAll() + [.closed(reason)]
    }

    private mutating func cancelAll() -> [Command] {
        let ids = [self.receivingID, self.sendingID].compactMap(\.self)
        (self.receiving, self.sending) = (.none, .none)
        if case .ended = self.state { self.output = [] }
        return ids.map { .cancel($0) }
    }
}
