public import PrimusWire
public import RealtimeCore

extension PrimusConnection {
    // MARK: Receiving

    /// A sequence of the messages of the server from now on, in the order in which they were sent.
    ///
    /// A message isn't decoded until you ask for its value. When the consumer is slower than the server, the client stops reading; see
    /// ``PrimusConfiguration/messageBuffer``. The sequence continues across reconnects, and finishes when the client is released.
    public var messages: EventSequence<PrimusMessage> {
        let buffer = self.driver.read { $0.options.messageBuffer }
        return self.messages(buffer: .pauseReading(buffer.count), bytes: buffer.bytes)
    }

    /// A sequence of the messages of the server from now on, with a policy for the messages that the consumer hasn't received yet. The policy also
    /// applies when these have more bytes than ``PrimusConfiguration/messageBuffer`` allows.
    public func messages(buffer: BufferPolicy) -> EventSequence<PrimusMessage> {
        self.messages(buffer: buffer, bytes: self.driver.read { $0.options.messageBuffer.bytes })
    }

    private func messages(buffer: BufferPolicy, bytes: Int) -> EventSequence<PrimusMessage> {
        let limit = ByteLimit<PrimusMessage>(bytes) { $0.raw.bytes.count }
        return self.driver.makeSequence(buffer, byteLimit: limit, lifetime: .client, reportsRelease: true) { events, output in
            for case .message(let message) in events { output.append(message) }
        } register: { session, consumer, effects in
            session.observeMessages(consumer, &effects)
        }
    }

    /// A sequence of the messages of the server from now on, decoded as a type of yours.
    ///
    /// Each message is decoded in the task that asks for the next one. One that can't be decoded is skipped, and reported as an error with the code
    /// ``PrimusError/Code/decodingFailed``.
    ///
    /// - Parameter type: The type of the messages.
    public func messages<Value: Decodable>(as type: Value.Type) -> PrimusDecodedMessages<Value> {
        PrimusDecodedMessages(self.messages, self.driver)
    }

    /// Calls a closure on an executor with the messages of the server from now on.
    ///
    /// The callbacks run in the order of the messages and one at a time. When they are slower than the server, the client stops reading.
    ///
    /// - Parameters:
    ///   - executor: Where the callbacks run.
    ///   - callback: Called with each message. It may call the client. Capture objects that own the registration weakly.
    /// - Returns: The registration. Keep it: releasing it ends the callbacks.
    public func onMessage(
        on executor: PrimusCallbackExecutor, _ callback: @escaping @Sendable (PrimusMessage) -> Void
    ) -> PrimusObservation {
        let buffer = self.driver.read { $0.options.messageBuffer.count }
        return self.driver.observe(
            .pauseReading(buffer), lifetime: .client, named: "The callback of the messages", on: executor,
            convert: { events, output in for case .message(let message) in events { output.append(message) } },
            calls: CallbackCalls(callback)
        ) { session, consumer, effects in
            session.observeMessages(consumer, &effects)
        }
    }

    /// Calls a closure on the main actor with the messages of the server from now on; see ``onMessage(on:_:)``.
    public func onMessage(_ callback: @escaping @MainActor @Sendable (PrimusMessage) -> Void) -> PrimusObservation {
        self.onMessage(on: .main, CallbackExecutor.onMain(callback))
    }

    // MARK: Sending

    /// Sends a message.
    ///
    /// The call returns when the WebSocket has taken the message or, over polling and streaming, when the server has: then, calls one after another
    /// each wait for an answer, and `enqueue(_:)` waits for none. Without a connection, and while the server reads slowly, the message waits in
    /// the queue; see ``PrimusConfiguration/queue``. Messages keep their order.
    ///
    /// - Parameters:
    ///   - value: The message. It is encoded by the parser of the server, during the call.
    ///   - mode: What happens if there is no connection.
    /// - Throws: ``PrimusError/Code/encodingFailed``, ``PrimusError/Code/messageTooLarge``, ``PrimusError/Code/notOpen`` if the client is closed
    ///   or, with ``PrimusWriteMode/failIfNotOpen``, isn't open, ``PrimusError/Code/queueFull``, ``PrimusError/Code/dropped``,
    ///   ``PrimusError/Code/vetoed`` and ``PrimusError/Code/transformFailed`` of a transform, the reason if the client is closed while the message
    ///   waits or, with ``PrimusWriteMode/failIfNotOpen``, the connection is lost then, the reason if the connection ends before the server has
    ///   answered the request with the message, and ``PrimusError/Code/cancelled`` immediately when the task is cancelled: the message isn't
    ///   sent then, unless its request is on the way.
    public func write(_ value: some Encodable & Sendable, ifNotOpen mode: PrimusWriteMode = .queue) async throws(PrimusError) {
        if Task.isCancelled { throw .cancelled }
        if self.driver.read({ $0.mayTransformOutgoing }) { return try await self.transform(Self.tree(value), mode) }
        let content = try self.encoded(value)
        if try self.driver.sendNow(content, awaitsAnswer: true) { return }
        _ = try await self.driver.awaitResult(awaitsPeer: false) { session, waiter, now, effects in
            session.write(content, mode, waiter, now: now, &effects)
        }
    }

    /// Sends a value of any kind that the parser can carry, as `write(_:ifNotOpen:)`.
    public func write(_ value: PrimusValue, ifNotOpen mode: PrimusWriteMode = .queue) async throws(PrimusError) {
        if Task.isCancelled { throw .cancelled }
        if self.driver.read({ $0.mayTransformOutgoing }) { return try await self.transform(value, mode) }
        let content = try self.encoded(value)
        if try self.driver.sendNow(content, awaitsAnswer: true) { return }
        _ = try await self.driver.awaitResult(awaitsPeer: false) { session, waiter, now, effects in
            session.write(content, mode, waiter, now: now, &effects)
        }
    }

    /// Sends a message, or adds it to the queue, without waiting.
    ///
    /// Also a client that is closed takes messages: they are sent when it is open, and survive ``end()``.
    ///
    /// - Parameter value: The message.
    /// - Returns: Whether the message was taken. If not, an update reports why.
    @discardableResult
    public func enqueue(_ value: some Encodable & Sendable) -> Bool {
        do throws(PrimusError) {
            if self.driver.read({ $0.mayTransformOutgoing }) { return self.enqueue(transforming: try Self.tree(value)) }
            return try self.enqueue(try self.encoded(value))
        } catch {
            self.driver.step { session, _, effects in session.report(error, &effects) }
            return false
        }
    }

    /// Sends a value of any kind that the parser can carry, as `enqueue(_:)`.
    @discardableResult
    public func enqueue(_ value: PrimusValue) -> Bool {
        do throws(PrimusError) {
            if self.driver.read({ $0.mayTransformOutgoing }) { return self.enqueue(transforming: value) }
            return try self.enqueue(try self.encoded(value))
        } catch {
            self.driver.step { session, _, effects in session.report(error, &effects) }
            return false
        }
    }

    private func enqueue(_ content: PrimusContent) throws(PrimusError) -> Bool {
        if try self.driver.sendNow(content, awaitsAnswer: false) { return true }
        var failure: PrimusError?
        self.driver.step { session, now, effects in failure = session.write(content, .queue, now: now, &effects) }
        if let failure { throw failure }
        return true
    }

    private func enqueue(transforming value: PrimusValue) -> Bool {
        var failure: PrimusError?
        self.driver.step { session, now, effects in
            failure = session.transform(value, .queue, nil, now: now, &effects)
            if let failure { session.report(failure, &effects) }
        }
        return failure == nil
    }

    private func transform(_ value: PrimusValue, _ mode: PrimusWriteMode) async throws(PrimusError) {
        _ = try await self.driver.awaitResult(awaitsPeer: false) { session, waiter, now, effects in
            session.transform(value, mode, waiter, now: now, &effects)
        }
    }

    /// Encodes a message with the parser of the connection. If that isn't known yet, the message is encoded when it is.
    private func encoded<Value: Encodable>(_ value: Value) throws(PrimusError) -> PrimusContent {
        guard let coding = self.driver.read({ $0.coding }) else { return .value(try Self.tree(value)) }
        do {
            return .packet(try coding.message(encoding: value), coding)
        } catch {
            throw .encoding(error)
        }
    }

    private func encoded(_ value: PrimusValue) throws(PrimusError) -> PrimusContent {
        guard let coding = self.driver.read({ $0.coding }) else { return .value(value) }
        do {
            return .packet(try coding.message(value), coding)
        } catch {
            throw .encoding(error)
        }
    }

    private static func tree(_ value: some Encodable) throws(PrimusError) -> PrimusValue {
        do {
            return try PrimusValue(encoding: value)
        } catch {
            throw .encoding(error)
        }
    }
}

extension SessionDriver<PrimusSession> {
    /// Sends a packet, if nothing else must happen first.
    ///
    /// - Parameter awaitsAnswer: Whether the caller waits until the server has taken the packet, if the connection tells that.
    /// - Returns: Whether it was sent.
    package func sendNow(_ content: PrimusContent, awaitsAnswer: Bool) throws(PrimusError) -> Bool {
        guard case .packet(let packet, let coding) = content else { return false }
        var isSent = false
        try self.send { session throws(PrimusError) in
            let direct = try session.direct(packet, coding, awaitsAnswer: awaitsAnswer, now: self.now)
            isSent = direct != nil
            return direct
        }
        return isSent
    }
}

/// An asynchronous sequence of decoded messages, in the order in which the server sent them.
///
/// You get a sequence from ``PrimusConnection/messages(as:)``. It is an `EventSequence` of messages that decodes each message when it is received,
/// in the task that asks for it. A message that can't be decoded is reported to ``PrimusConnection/errors``, counted in
/// ``PrimusConnection/counters``, and skipped.
public struct PrimusDecodedMessages<Value: Decodable>: AsyncSequence, Sendable {
    /// The decoded message.
    public typealias Element = Value
    /// The sequence doesn't throw.
    public typealias Failure = Never

    private let messages: EventSequence<PrimusMessage>
    private let driver: SessionDriver<PrimusSession>

    init(_ messages: EventSequence<PrimusMessage>, _ driver: SessionDriver<PrimusSession>) {
        (self.messages, self.driver) = (messages, driver)
    }

    /// The number of messages that were dropped because the buffer was full.
    public var dropped: Int { self.messages.dropped }

    /// The reason why the sequence finished; `nil` before its end. Buffered messages may remain after it is set.
    public var endReason: EndReason? { self.messages.endReason }

    /// Returns an iterator over the remaining messages. It takes over from an earlier iterator that still exists.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self.messages.makeAsyncIterator(), self.driver) }

    /// Returns the first value that satisfies a predicate. Messages after it remain in the sequence.
    ///
    /// - Parameter predicate: A closure that is called with each value until it returns `true`, on the caller's actor.
    /// - Returns: The value; `nil` if the sequence finished or the task was cancelled before one satisfied the predicate.
    /// - Throws: The error that `predicate` throws.
    public func first(where predicate: (Value) throws -> Bool) async rethrows -> Value? {
        // Doesn't call the standard library's method, for the same reason as in `EventSequence`.
        let iterator = self.makeAsyncIterator()
        while let value = await iterator.next() {
            if try predicate(value) { return value }
        }
        return nil
    }

    /// An iterator over the decoded messages of a sequence. When it is released, messages that it hasn't returned remain in the sequence.
    public final class AsyncIterator: AsyncIteratorProtocol {
        /// The iterator doesn't throw.
        public typealias Failure = Never

        private let messages: EventSequence<PrimusMessage>.AsyncIterator
        private let driver: SessionDriver<PrimusSession>

        fileprivate init(_ messages: EventSequence<PrimusMessage>.AsyncIterator, _ driver: SessionDriver<PrimusSession>) {
            (self.messages, self.driver) = (messages, driver)
        }

        /// Waits for the next message that can be decoded, and decodes it.
        ///
        /// - Returns: The value; `nil` if the sequence finished, the task was cancelled, or another iterator took over.
        public func next() async -> Value? { await self.next(isolation: #isolation) }

        /// Waits for the next message that can be decoded, and decodes it, on the caller's actor. Called by `for await` loops.
        ///
        /// - Parameter actor: The caller's actor.
        /// - Returns: The value; `nil` if the sequence finished, the task was cancelled, or another iterator took over.
        public nonisolated(nonsending) func next(isolation actor: (any Actor)?) async -> Value? {
            while let message = await self.messages.next(isolation: actor) {
                do throws(PrimusError) {
                    return try message.decode(as: Value.self)
                } catch {
                    self.driver.step { session, _, effects in session.report(error, &effects) }
                }
            }
            return nil
        }
    }
}
