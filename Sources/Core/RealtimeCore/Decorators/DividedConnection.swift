import RealtimeSystem

/// Divides received messages that contain many smaller ones: a value without I/O, which ``DividedConnection`` asks.
package protocol MessageDivider: Sendable {
    /// Returns whether a message may contain so many smaller ones that it must be divided. Called for each received message.
    ///
    /// - Parameters:
    ///   - kind: The kind of the message.
    ///   - byteCount: The size of its payload.
    func divides(_ kind: TransportMessage.Kind, byteCount: Int) -> Bool

    /// Appends the next part of a message, with at most ``messagesPerTurn`` smaller messages.
    ///
    /// - Parameters:
    ///   - kind: The kind of the message.
    ///   - bytes: The payload of the message.
    ///   - position: The index where the part begins, 0 for the first one. The divider advances it, to the end of the payload with the last part.
    ///   - batch: The part is appended to it, as one or several messages.
    /// - Returns: The reason for which the connection ends after this part; `nil` if it goes on. What follows isn't read then.
    mutating func appendPart(
        of kind: TransportMessage.Kind, _ bytes: UnsafeRawBufferPointer, from position: inout Int, to batch: inout MessageBatch
    ) -> CloseReason?
}

extension MessageDivider {
    /// The number of small messages that a server takes from one client before it looks at the others.
    package static var messagesPerTurn: Int { 256 }

    fileprivate var messagesPerTurn: Int { Self.messagesPerTurn }
}

/// A server's connection whose large messages are delivered in parts, so that a client that sends many small messages in one frame or in one
/// request doesn't make the others wait. It stands between the connection and its owner, in both directions.
///
/// The first part of a message is delivered immediately, and each further one after the work that waits meanwhile. Nothing is read from the client
/// until the last part was delivered, nor is a request answered before its messages were. No part is delivered while the owner doesn't read, or
/// while the client doesn't read what the server sends.
package final class DividedConnection: ConnectionDecorator, PartialMessageEvents {
    private struct State: Sendable {
        var divider: any MessageDivider
        /// Until the end of the connection.
        var events: (any MessageEvents)?
        /// The messages that wait, of which the first one may have been delivered in part.
        var messages = FIFO<TransportMessage>()
        var position = 0
        /// Whether a thread delivers, or a job will.
        var isDelivering = false
        var isReadingPaused = false
        var isWritingPaused = false
        /// Whether the owner ends the connection: it takes no further messages.
        var isClosing = false
        /// The end of the connection, which is reported after the messages that wait.
        var end: CloseReason?

        var isPaused: Bool { self.isReadingPaused || self.isWritingPaused }

        /// Takes the messages that are delivered together.
        mutating func takePart(_ batch: inout MessageBatch) -> CloseReason? {
            while batch.entries.count < self.divider.messagesPerTurn, let message = self.messages.first {
                let divides = self.divider.divides(message.kind, byteCount: message.bytes.count)
                guard divides || self.position > 0 else {
                    batch.append(message.kind, message.bytes)
                    _ = self.messages.popFirst()
                    continue
                }
                // What precedes is a part of its own.
                guard batch.entries.isEmpty else { return nil }
                let reason = message.bytes.withUnsafeBytes { bytes in
                    self.divider.appendPart(of: message.kind, bytes, from: &self.position, to: &batch)
                }
                if self.position >= message.bytes.count {
                    _ = self.messages.popFirst()
                    self.position = 0
                }
                return reason
            }
            return nil
        }

        mutating func discardMessages() {
            self.messages.removeAll()
            self.position = 0
        }
    }

    package let connection: any MessageConnection
    private let id: ConnectionID
    private let time: any TimeSource
    private let fail: @Sendable (CloseReason) -> Void
    private let answering: (any AnsweringConnection)?
    private let state: Lock<State>

    /// - Parameters:
    ///   - connection: The connection whose messages are divided.
    ///   - id: Its ID.
    ///   - divider: The rules of the protocol.
    ///   - time: The source of the turns.
    ///   - fail: Ends the connection for a reason that the divider has found.
    package init(
        _ connection: any MessageConnection, _ id: ConnectionID, _ divider: any MessageDivider, time: any TimeSource,
        fail: @escaping @Sendable (CloseReason) -> Void = { _ in }
    ) {
        (self.connection, self.id, self.time, self.fail) = (connection, id, time, fail)
        self.answering = connection as? any AnsweringConnection
        self.state = Lock(State(divider: divider))
    }

    /// Sets the object that receives the events, before the first one.
    package func start(_ events: any MessageEvents) { self.state.withLock { $0.events = events } }

    // MARK: Events of the connection

    package func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.events?.opened(id, head: head) }

    package func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        var next = 0
        while next < batch.entries.count { next = self.received(id, batch, from: next) }
    }

    package func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, from start: Int) -> Int {
        let count = batch.entries.count
        let events = self.state.withLock { state -> (any MessageEvents)? in
            guard !state.isDelivering, state.messages.isEmpty else { return nil }
            for index in start..<count
            where state.divider.divides(batch.entries[index].kind, byteCount: batch.entries[index].range.count) { return nil }
            return state.events
        }
        if let events { return events.received(id, batch, from: start) }
        let delivers = self.state.withLock { state in
            guard state.events != nil, !state.isClosing else { return false }
            for entry in batch.entries[start...] {
                state.messages.append(TransportMessage(entry.kind, Array(batch.bytes[entry.range])))
            }
            if self.beginDelivering(&state) { return true }
            if !state.isDelivering { self.beginHolding() }
            return false
        }
        if delivers { self.deliver(isFirst: true) }
        return count
    }

    package func receivedPart(_ id: ConnectionID, byteCount: Int) { self.events?.reportPart(id, byteCount: byteCount) }

    package func writing(_ id: ConnectionID, paused: Bool) {
        let (events, delivers) = self.state.withLock { state in
            state.isWritingPaused = paused
            return (state.events, self.beginDelivering(&state))
        }
        events?.writing(id, paused: paused)
        if delivers { self.deliverLater() }
    }

    package func closed(_ id: ConnectionID, _ reason: CloseReason) {
        let (events, delivers) = self.state.withLock { state -> ((any MessageEvents)?, Bool) in
            guard state.isDelivering || !state.messages.isEmpty else { return (state.events.take(), false) }
            state.end = reason
            // Nothing is written any more.
            state.isWritingPaused = false
            return (nil, self.beginDelivering(&state))
        }
        events?.closed(id, reason)
        if delivers { self.deliverLater() }
    }

    private var events: (any MessageEvents)? { self.state.withLock { $0.events } }

    // MARK: Parts

    private func beginDelivering(_ state: inout State) -> Bool {
        guard !state.isDelivering, !state.isPaused, !state.messages.isEmpty else { return false }
        state.isDelivering = true
        return true
    }

    /// Nothing more is read until everything was delivered.
    private func beginHolding() {
        self.connection.pauseReading()
        self.answering?.holdAnswers()
    }

    private func deliverLater() {
        if !self.time.performLater({ self.deliver(isFirst: false) }) { self.deliver(isFirst: false) }
    }

    /// Delivers the next part, and sees to the ones that follow.
    private func deliver(isFirst: Bool) {
        var isFirst = isFirst
        while self.deliverPart(isFirst: isFirst), !self.time.performLater({ self.deliver(isFirst: false) }) { isFirst = false }
    }

    private enum Step {
        case goOn, wait, resume
        case end(CloseReason, (any MessageEvents)?)
    }

    /// - Returns: Whether another part follows.
    private func deliverPart(isFirst: Bool) -> Bool {
        var batch = MessageBatch()
        let (events, reason) = self.state.withLock { state in
            let reason = state.takePart(&batch)
            if reason != nil { state.discardMessages() }
            return (state.events, reason)
        }
        if !batch.entries.isEmpty { events?.received(self.id, batch) }
        if let reason { self.fail(reason) }
        let step = self.state.withLock { state -> Step in
            if !state.messages.isEmpty {
                if isFirst { self.beginHolding() }
                if !state.isPaused { return .goOn }
                state.isDelivering = false
                return .wait
            }
            state.isDelivering = false
            if let end = state.end.take() { return .end(end, state.events.take()) }
            if isFirst { return .wait }
            self.answering?.endHoldingAnswers()
            // The owner may have paused reading itself.
            if !state.isReadingPaused { self.connection.resumeReading() }
            return .resume
        }
        switch step {
        case .goOn: return true
        case .wait: break
        case .resume: self.connection.flush()
        case .end(let reason, let events): events?.closed(self.id, reason)
        }
        return false
    }

    // MARK: The owner

    package func pauseReading() {
        self.state.withLock { state in
            state.isReadingPaused = true
            self.connection.pauseReading()
        }
    }

    package func resumeReading() {
        self.state.withLock { state in
            state.isReadingPaused = false
            if state.messages.isEmpty, !state.isDelivering { self.connection.resumeReading() }
        }
    }

    package func flush() {
        self.connection.flush()
        if self.state.withLock({ self.beginDelivering(&$0) }) { self.deliverLater() }
    }

    package func close(_ code: CloseCode, reason: String) {
        let (events, end) = self.state.withLock { state -> ((any MessageEvents)?, CloseReason?) in
            state.isClosing = true
            state.discardMessages()
            self.answering?.endHoldingAnswers()
            guard !state.isDelivering, let end = state.end.take() else { return (nil, nil) }
            return (state.events.take(), end)
        }
        if let end { events?.closed(self.id, end) }
        self.connection.close(code, reason: reason)
    }

    package func abandon() {
        // Released outside the lock.
        let events = self.state.withLock { state in
            state.discardMessages()
            state.end = nil
            return state.events.take()
        }
        self.connection.abandon()
        _ = events
    }
}
