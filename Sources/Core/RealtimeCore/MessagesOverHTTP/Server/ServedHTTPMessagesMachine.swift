/// The decisions of a server's connection over HTTP: a value without I/O.
///
/// ```
///               close                everything was sent, deadline
///   open ─────────────────▶ closing ─────────────────────────────▶ ended
///     └── error, the client ended it, no request in time, abandon ───▲
/// ```
/// The owner keeps the machine under a lock, and performs the commands that a call returns outside that lock and in their order.
package struct ServedHTTPMessagesMachine<Rules: ServedHTTPMessagesRules>: Sendable {
    package enum Command: Sendable {
        /// Answer a request as a whole.
        case respond(ExchangeID, HTTPResponse)
        /// Answer a poll with messages.
        case send(ExchangeID, HTTPResponseHead, SharedBody)
        /// Answer a request whose messages were received, unless ``ServedHTTPMessagesMachine/holdsAnswer(_:_:)``.
        case answer(ExchangeID, HTTPResponse)
        case begin(ExchangeID, HTTPResponseHead)
        case write(ExchangeID, SharedBody)
        case end(ExchangeID)
        case received(MessageBatch)
        case writing(paused: Bool)
        case closed(CloseReason)
    }

    private enum State: Sendable {
        case open
        case closing(CloseCode, String, deadline: Instant)
        case ended
    }

    /// The request that waits for messages.
    private enum Waiting: Sendable {
        /// Since when, or `nil` if the only request was that which has opened the connection.
        case none(since: Instant?, PatientLimit)
        case poll(ExchangeID, until: Instant?)
        case stream(ExchangeID, bytes: Int, isPaused: Bool)
    }

    /// A request that brings messages.
    private struct Request: Sendable {
        var id: ExchangeID
        var head: HTTPRequestHead
        var body: [UInt8]
    }

    /// The place of a request that isn't read yet, because reading is paused, because it isn't admitted yet, or because an earlier one
    /// waits. It is answered when its messages are read.
    private struct Place: Sendable {
        let id: ExchangeID
        /// The size of the body, and of what keeps a request in memory: one without a body takes memory as well.
        let byteCount: Int
    }

    /// The number of bytes above which no more requests are held while reading is paused. A client that waits for answers holds one.
    package static var heldLimit: Int { 1 << 20 }

    private var rules: Rules
    private var state = State.open
    private var waiting: Waiting
    /// Whether there was a request that waited for messages, and whether there was another one.
    private var (isOpened, isUsed) = (false, false)
    private var output: ArraySlice<TransportMessage> = []
    private var gauge: OutputGauge
    /// The messages that wait for all connections of the server, and how many of this one are counted there.
    private let sharedBacklog: SharedBacklog?
    private var sharedCount = 0
    private var isOverLimit = false
    /// Whether the owner was asked to pause writing.
    private var isWritingPaused = false
    private var isReadingPaused = false
    /// Whether the owner delivers messages that were received, and the answers that wait for it.
    private var isHoldingAnswers = false
    private var heldAnswers: [(id: ExchangeID, response: HTTPResponse)] = []
    private var held = FIFO<Place>()
    private var heldBytes = 0
    /// The requests in `held` that aren't admitted yet, and those that only wait for their turn.
    private var reserved: Set<ExchangeID> = []
    private var admitted: [ExchangeID: Request] = [:]

    /// - Parameters:
    ///   - rules: The rules of the protocol.
    ///   - backlogBytes: The number of bytes that may wait to be sent.
    ///   - sharedBacklog: What may wait for all connections of the server; `nil` for no limit.
    ///   - now: The current time. The client must send a request that waits for messages within the rules' time limit.
    package init(_ rules: Rules, backlogBytes: Int, sharedBacklog: SharedBacklog? = nil, now: Instant) {
        self.rules = rules
        self.sharedBacklog = sharedBacklog
        self.gauge = OutputGauge(limit: backlogBytes)
        // A connection that is created for its first request gets it immediately.
        self.waiting = .none(since: nil, PatientLimit(max(rules.orphanTimeout, .seconds(1)), now: now))
    }

    /// When to call ``timeout(now:)``.
    package var nextDeadline: Instant? {
        if case .ended = self.state { return nil }
        let wait: Instant? =
            switch self.waiting {
            case .none(_, let limit): limit.deadline
            case .poll(_, let until): until
            case .stream: nil
            }
        let close: Instant? = if case .closing(_, _, let deadline) = self.state { deadline } else { nil }
        return [wait, close].compactMap(\.self).min()
    }

    // MARK: Requests of the client

    /// Takes a request that waits for messages.
    package mutating func wait(_ id: ExchangeID, _ request: HTTPRequestHead, now: Instant) -> [Command] {
        if case .ended = self.state { return [.respond(id, self.rules.rejection(nil))] }
        (self.isOpened, self.isUsed) = (true, self.isOpened)
        var commands: [Command] = []
        if let earlier = self.waitingID {
            switch self.rules.waitingTwice(request) {
            case .replaces: commands = self.detach(earlier, now: now) { $0.replaced() }
            case .isRefused(let response): return [.respond(id, response)]
            case .ends(let response, let error): return [.respond(id, response)] + self.end(.transport(error))
            }
        }
        switch self.rules.waiting(request) {
        case .poll: self.waiting = .poll(id, until: self.rules.pollTimeout.map { now.advanced(by: $0) })
        case .respond(let response):
            self.waiting = self.noRequest(now: now)
            return commands + [.respond(id, response)]
        case .stream(let head, let first):
            self.waiting = .stream(id, bytes: 0, isPaused: false)
            commands.append(.begin(id, head))
            if !first.isEmpty { commands.append(.write(id, SharedBody(first))) }
        }
        return commands + self.send(now: now)
    }

    /// Keeps the place of a request that brings messages, until ``receive(_:_:_:)`` or ``refuse(_:_:)``. The messages of later requests
    /// wait for it, so that a decision about each request, which takes time, doesn't change their order.
    ///
    /// - Parameters:
    ///   - id: The ID of the request.
    ///   - bodyCount: The size of its body.
    package mutating func reserve(_ id: ExchangeID, bodyCount: Int) -> [Command] {
        if case .ended = self.state { return [.respond(id, self.rules.rejection(nil))] }
        let commands = self.hold(id, bodyCount)
        if commands.isEmpty { self.reserved.insert(id) }
        return commands
    }

    /// Takes a request that brings messages, in the place that was reserved for it, or as the last one.
    package mutating func receive(_ id: ExchangeID, _ head: HTTPRequestHead, _ body: [UInt8]) -> [Command] {
        if case .ended = self.state { return [.respond(id, self.rules.rejection(nil))] }
        let request = Request(id: id, head: head, body: body)
        if self.reserved.remove(id) == nil {
            guard self.isReadingPaused || !self.held.isEmpty else { return self.read(request) }
            let commands = self.hold(id, body.count)
            guard commands.isEmpty else { return commands }
        }
        self.admitted[id] = request
        return self.readHeld()
    }

    /// Answers a request that has a reserved place, without its messages.
    package mutating func refuse(_ id: ExchangeID, _ response: HTTPResponse) -> [Command] {
        guard self.reserved.remove(id) != nil else { return [.respond(id, response)] }
        if let place = self.held.removeFirst(where: { $0.id == id }) { self.heldBytes -= place.byteCount }
        return [.respond(id, response)] + self.readHeld()
    }

    /// - Returns: The end of the connection, if too much is held.
    private mutating func hold(_ id: ExchangeID, _ bodyCount: Int) -> [Command] {
        guard self.heldBytes <= Self.heldLimit else {
            let error = TransportError(
                .tooLarge, "The client sent more than \(Self.heldLimit) bytes in requests without waiting for their answers.")
            return [.respond(id, self.rules.rejection(error))] + self.end(.transport(error))
        }
        let place = Place(id: id, byteCount: bodyCount + 1024)
        self.heldBytes += place.byteCount
        self.held.append(place)
        return []
    }

    private mutating func readHeld() -> [Command] {
        var commands: [Command] = []
        while !self.isReadingPaused, let id = self.held.first?.id, let request = self.admitted.removeValue(forKey: id) {
            if let place = self.held.popFirst() { self.heldBytes -= place.byteCount }
            commands += self.read(request)
        }
        return commands
    }

    /// The client has given up a request, or has ended the stream.
    package mutating func disconnected(_ id: ExchangeID, now: Instant) -> [Command] {
        if self.waitingID == id { return self.orphaned(now: now) }
        return []
    }

    /// A response waits for a client that reads slowly, or was sent.
    package mutating func writing(_ id: ExchangeID, paused: Bool, now: Instant) -> [Command] {
        guard case .stream(id, let bytes, _) = self.waiting else { return [] }
        self.waiting = .stream(id, bytes: bytes, isPaused: paused)
        return self.send(now: now)
    }

    // MARK: The owner

    /// Answers the poll that waits, if there is one, in place of its messages.
    package mutating func answerPoll(_ response: HTTPResponse, now: Instant) -> [Command] {
        guard case .poll(let id, _) = self.waiting else { return [] }
        return self.detach(id, now: now) { _ in response }
    }

    /// The bytes that a message keeps in memory until it is sent: a small one takes more than its bytes.
    private static func size(of message: TransportMessage) -> Int { message.bytes.count + 64 }

    package mutating func enqueue(_ message: TransportMessage) {
        guard case .open = self.state, !self.isOverLimit else { return }
        guard self.gauge.accept(Self.size(of: message)) else { return self.isOverLimit = true }
        self.output.append(message)
    }

    package mutating func flush(now: Instant) -> [Command] {
        if self.isOverLimit { return self.end(.transport(self.gauge.error)) }
        var commands = self.heldAnswers.isEmpty ? [] : self.releaseAnswers()
        if !self.held.isEmpty { commands += self.readHeld() }
        if commands.isEmpty { commands = self.send(now: now) } else { commands += self.send(now: now) }
        if !self.output.isEmpty { commands += self.shareBacklog(now: now) }
        return commands
    }

    /// Keeps the answer to a request if the owner hasn't delivered its messages yet.
    ///
    /// - Returns: `false` if the request is to be answered now.
    package mutating func holdsAnswer(_ id: ExchangeID, _ response: HTTPResponse) -> Bool {
        guard self.isHoldingAnswers else { return false }
        self.heldAnswers.append((id, response))
        return true
    }

    /// Holds the answers to requests whose messages are received.
    package mutating func holdAnswers() { self.isHoldingAnswers = true }

    /// Sends the answers with the next ``flush(now:)``.
    package mutating func endHoldingAnswers() { self.isHoldingAnswers = false }

    private mutating func releaseAnswers() -> [Command] {
        guard !self.isHoldingAnswers, !self.heldAnswers.isEmpty else { return [] }
        defer { self.heldAnswers = [] }
        return self.heldAnswers.map { .respond($0.id, $0.response) }
    }

    /// Counts what waits among all connections. If that is too much, the connection ends unless its client takes messages.
    private mutating func shareBacklog(now: Instant) -> [Command] {
        guard let sharedBacklog, !self.output.isEmpty else { return [] }
        sharedBacklog.add(self.output.dropFirst(self.sharedCount))
        self.sharedCount = self.output.count
        let isStreamPaused = if case .stream(_, _, isPaused: true) = self.waiting { true } else { false }
        guard case .open = self.state, isStreamPaused || self.isUnread(for: Self.unreadTime, now: now), sharedBacklog.isExceeded else {
            return []
        }
        return self.end(.transport(sharedBacklog.error))
    }

    /// The time in which a client asks again that reads its messages.
    private static var unreadTime: Duration { .seconds(1) }

    /// Messages were sent, or are dropped.
    private mutating func unshare(_ count: Int) {
        guard self.sharedCount > 0 else { return }
        let shared = min(count, self.sharedCount)
        self.sharedBacklog?.remove(self.output.prefix(shared))
        self.sharedCount -= shared
    }

    package mutating func pauseReading() { self.isReadingPaused = true }

    /// Resumes reading with the next ``flush(now:)``.
    package mutating func resumeReading() { self.isReadingPaused = false }

    /// Takes the messages that wait to be sent, because another connection takes the place of this one.
    ///
    /// - Returns: `nil` if messages are lost: the connection has ended, or ends with the next ``flush(now:)``, because one was dropped at the
    ///   limit.
    package mutating func takeUnsent() -> [TransportMessage]? {
        if case .ended = self.state { return nil }
        if self.isOverLimit { return nil }
        defer { self.output = [] }
        self.unshare(.max)
        self.gauge.remove(self.output.reduce(0) { $0 + Self.size(of: $1) })
        return Array(self.output)
    }

    /// Sends what waits, and then the answer that ends the connection. If the client doesn't take it within the time limit of the rules, the
    /// connection ends without it.
    package mutating func close(_ code: CloseCode, reason: String, now: Instant) -> [Command] {
        guard case .open = self.state else { return [] }
        // Another thread may have exceeded the limit, and not flushed yet.
        if self.isOverLimit { return self.end(.transport(self.gauge.error)) }
        self.state = .closing(code, reason, deadline: now.advanced(by: self.rules.closeTimeout))
        return self.releaseAnswers() + self.send(now: now)
    }

    /// Ends a connection that closes, because its client can't take the rest any more.
    package mutating func endClosing() -> [Command] {
        guard case .closing = self.state else { return [] }
        return self.end(.requested)
    }

    /// Ends the connection immediately because of what the owner has found in its messages: the end, or an error of the client.
    package mutating func ended(by reason: CloseReason) -> [Command] {
        if case .closing = self.state, case .peer = reason { return self.end(.requested) }
        return self.end(reason)
    }

    /// Ends the connection immediately. The only commands answer the requests that wait.
    package mutating func abandon() -> [Command] { self.end(nil) }

    package mutating func timeout(now: Instant) -> [Command] {
        if case .closing(_, _, let deadline) = self.state, deadline <= now { return self.end(.requested) }
        switch self.waiting {
        case .none(let since, var limit) where limit.deadline <= now:
            if case .closing = self.state { return self.end(.requested) }
            // After a standstill, the next request may wait to be read.
            guard limit.hasPassed(now: now) else {
                self.waiting = .none(since: since, limit)
                return []
            }
            let message = "The client sent no further request within \(self.rules.orphanTimeout)."
            return self.end(.transport(TransportError(.timedOut, message)))
        case .poll(let id, let until?) where until <= now: return self.detach(id, now: now) { $0.answer() }
        case .none, .poll, .stream: return []
        }
    }

    // MARK: Steps

    /// Whether a request waits for messages.
    package var hasReader: Bool { self.waitingID != nil }

    /// Whether no request has waited for messages for a time, or none but the first one.
    package func isUnread(for duration: Duration, now: Instant) -> Bool {
        guard case .none(let since, _) = self.waiting else { return false }
        return since.map { $0.duration(to: now) >= duration } ?? true
    }

    private func noRequest(now: Instant) -> Waiting {
        .none(since: self.isUsed ? now : nil, PatientLimit(self.rules.orphanTimeout, now: now))
    }

    private var waitingID: ExchangeID? {
        switch self.waiting {
        case .none: nil
        case .poll(let id, _), .stream(let id, _, _): id
        }
    }

    /// Ends the request that waits for messages, without a message.
    ///
    /// - Parameter answer: The answer to a poll.
    private mutating func detach(_ id: ExchangeID, now: Instant, _ answer: (inout Rules) -> HTTPResponse) -> [Command] {
        let isPoll = if case .poll = self.waiting { true } else { false }
        self.waiting = self.noRequest(now: now)
        return [isPoll ? .respond(id, answer(&self.rules)) : .end(id)]
    }

    /// The request that waited for messages has ended without an answer.
    private mutating func orphaned(now: Instant) -> [Command] {
        self.waiting = self.noRequest(now: now)
        guard self.rules.endsWithLostRequest else { return [] }
        if case .closing = self.state { return self.end(.requested) }
        return self.end(.transport(TransportError(.closed, "The client closed the connection.")))
    }

    private mutating func read(_ request: Request) -> [Command] {
        if case .ended = self.state { return [.respond(request.id, self.rules.rejection(nil))] }
        var batch = MessageBatch()
        do throws(TransportError) {
            let (answer, reason) = try self.rules.received(request.body, request.head, into: &batch)
            let commands = self.deliver(batch) + [.answer(request.id, answer)]
            return reason.map { commands + self.ended(by: $0) } ?? commands
        } catch {
            return self.deliver(batch) + [.respond(request.id, self.rules.rejection(error))] + self.end(.transport(error))
        }
    }

    /// Messages that arrive after ``close(_:reason:now:)`` are ignored, as a WebSocket's are.
    private func deliver(_ batch: MessageBatch) -> [Command] {
        guard case .open = self.state, !batch.entries.isEmpty else { return [] }
        return [.received(batch)]
    }

    /// Sends what waits, or the end of a connection that closes.
    private mutating func send(now: Instant) -> [Command] {
        var commands: [Command] = []
        sending: while !self.output.isEmpty {
            switch self.waiting {
            case .none, .stream(_, _, isPaused: true): break sending
            case .poll(let id, _):
                var body = SharedBody()
                self.encode(into: &body)
                commands.append(.send(id, self.rules.head(of: body), body))
                self.waiting = self.noRequest(now: now)
            case .stream(let id, var bytes, let isPaused):
                // One piece, because a client whose limit is exceeded by the first of two would lose the second one.
                var body = SharedBody()
                let limit = self.rules.streamLimit.map { $0 - bytes } ?? .max
                while !self.output.isEmpty, body.count < limit { self.encode(into: &body) }
                commands.append(.write(id, body))
                bytes += body.count
                self.waiting = .stream(id, bytes: bytes, isPaused: isPaused)
                if body.count >= limit { commands += self.detach(id, now: now) { $0.answer() } }
            }
        }
        if case .closing(let code, let reason, _) = self.state, self.output.isEmpty, let id = self.waitingID {
            let response = self.rules.ending(code, reason: reason)
            if case .stream = self.waiting {
                if !response.body.isEmpty { commands.append(.write(id, SharedBody(response.body))) }
                commands.append(.end(id))
            } else {
                commands.append(.respond(id, response))
            }
            self.waiting = self.noRequest(now: now)
            return commands + self.end(.requested)
        }
        if let change = self.takeChange() { commands.append(.writing(paused: change)) }
        return commands
    }

    /// Encodes messages for the request that waits for them.
    private mutating func encode(into body: inout SharedBody) {
        let count = self.rules.encode(self.output, into: &body)
        self.gauge.remove(self.output.prefix(count).reduce(0) { $0 + Self.size(of: $1) })
        self.unshare(count)
        self.output.removeFirst(count)
        if self.output.isEmpty { self.output = [] }
    }

    /// Whether to pause writing, if that has changed.
    private mutating func takeChange() -> Bool? {
        guard case .open = self.state else { return nil }
        let isFull = self.gauge.bytes > self.gauge.mark
        let isStreamPaused = if case .stream(_, _, isPaused: true) = self.waiting { true } else { false }
        let mustPause = self.isWritingPaused ? isStreamPaused || !self.output.isEmpty : isStreamPaused || isFull
        guard mustPause != self.isWritingPaused else { return nil }
        self.isWritingPaused = mustPause
        return mustPause
    }

    /// - Parameter reason: `nil` if the owner has abandoned the connection.
    private mutating func end(_ reason: CloseReason?) -> [Command] {
        if case .ended = self.state { return [] }
        self.state = .ended
        self.isHoldingAnswers = false
        var commands = self.releaseAnswers()
        switch self.waiting {
        case .none: break
        case .poll(let id, _): commands.append(.respond(id, self.rules.ended(reason)))
        case .stream(let id, _, _): commands.append(.end(id))
        }
        while let place = self.held.popFirst() { commands.append(.respond(place.id, self.rules.rejection(nil))) }
        (self.reserved, self.admitted) = ([], [:])
        self.unshare(.max)
        self.output = []
        if let reason { commands.append(.closed(reason)) }
        return commands
    }
}
