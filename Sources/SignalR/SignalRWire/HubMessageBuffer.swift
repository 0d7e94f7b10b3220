package import RealtimeCore

/// The memory of one end of a connection for stateful reconnect: the messages that the peer hasn't acknowledged, and how many messages
/// each side has sent. A value without I/O, which client and server use alike.
///
/// Counted are the messages of ``HubMessage/isSequenced``, from 1 and separately for each direction, as long as the logical connection
/// exists. After the loss of a socket, both ends send on the next one the number of the message that follows, and then all messages that
/// weren't acknowledged. The receiver ignores what it has received already, so each message arrives once and in order.
///
/// In use, for each connection:
/// 1. Pass each message to send to ``append(_:)``, and send it if that returns true. Send nothing more while ``isFull``.
/// 2. Pass each message that was received to ``received(_:now:)``, which says what to do with it, and the size of the data to
///    ``received(byteCount:now:)``.
/// 3. Then and at ``nextDeadline``, send the message of ``takeAck(now:)``, if there is one.
/// 4. Call ``interrupt()`` when the socket is lost, and send what ``resume()`` returns when the next one is open.
///
/// Source: HubProtocol.md of ASP.NET Core, "Ack Message" and "Sequence Message", and the clients of ASP.NET Core.
package struct HubMessageBuffer: Sendable {
    /// The size of ``isFull`` that the clients and servers of ASP.NET Core have by default, in bytes.
    package static let defaultByteLimit = 100_000
    /// The time after which messages are acknowledged.
    package static let ackInterval: Duration = .seconds(1)

    private enum Link: Sendable {
        case established
        /// There is no socket: messages are stored only.
        case interrupted
        /// A socket was opened, on which the peer hasn't said with which message it continues.
        case awaitingSequence
    }

    private var link = Link.established
    private let byteLimit: Int

    /// The messages that the peer hasn't acknowledged, oldest first. The last one has the number `sent`.
    private var messages = FIFO<TransportMessage>()
    /// The size of the messages that the peer hasn't acknowledged, in bytes.
    package private(set) var byteCount = 0
    /// Whether a message may be sent although the buffer is full.
    private var permitsMessage = false
    /// The number of messages that were sent or stored.
    private var sent: UInt64 = 0

    /// The number of the next message that arrives, which is lower than `received` while the peer repeats messages.
    private var next: UInt64 = 1
    /// The number of messages that were received, without repetitions.
    private var received: UInt64 = 0
    private var ackDeadline: Instant?
    /// The size of the data since the last acknowledgment, in bytes.
    private var unacknowledgedByteCount = 0

    /// Creates the buffer of a connection, after its handshake.
    ///
    /// - Parameter byteLimit: The size of the stored messages at which ``isFull`` becomes true, in bytes. Values less than 1 mean 1.
    package init(byteLimit: Int = Self.defaultByteLimit) {
        self.byteLimit = max(1, byteLimit)
    }

    /// The number of messages that the peer hasn't acknowledged.
    package var count: Int { self.messages.count }

    /// Whether the sender has to wait, before it sends another message, until the peer acknowledges some. A message that is appended
    /// nevertheless is stored like any other.
    ///
    /// After each resume, one message may be sent in any case: servers and clients of ASP.NET Core don't repeat an acknowledgment that was lost
    /// with the socket, but acknowledge all messages after the next one that is new. A full buffer would otherwise stay full.
    package var isFull: Bool { self.byteCount >= self.byteLimit && !self.permitsMessage }

    /// Whether there is no socket at present.
    package var isInterrupted: Bool {
        if case .interrupted = self.link { true } else { false }
    }

    /// Numbers and stores an encoded message that is to be sent.
    ///
    /// - Parameter message: The frame, which contains exactly one message of ``HubMessage/isSequenced``.
    /// - Returns: Whether to send it now. Otherwise, ``resume()`` returns it later.
    package mutating func append(_ message: TransportMessage) -> Bool {
        self.sent += 1
        self.byteCount += message.bytes.count
        self.permitsMessage = false
        self.messages.append(message)
        return !self.isInterrupted
    }

    // MARK: Receiving

    /// The handling of a message that was received.
    package enum Reception: Hashable, Sendable {
        /// Handle the message, as without stateful reconnect.
        case handle
        /// Ignore the message: it was for the buffer, is a repetition, or belongs to the time before the socket was lost.
        case ignore
        /// Ignore the message, and let those continue that wait because the buffer was full.
        case resumeSending
    }

    /// Handles a message.
    ///
    /// - Throws: ``HubSequenceError`` if messages are missing. The logical connection must end.
    package mutating func received(_ message: HubMessage, now: Instant) throws(HubSequenceError) -> Reception {
        switch message {
        case .sequence(let number):
            try self.continues(with: number, now: now)
            return .ignore
        // The end of the connection is final, whenever it arrives.
        case .close: return .handle
        case _ where self.isAwaitingSequence: return .ignore
        case .ack(let number): return self.acknowledged(number) ? .resumeSending : .ignore
        case .ping: return .handle
        case .invocation, .streamInvocation, .streamItem, .completion, .cancelInvocation:
            return self.receivedCounted(now: now) ? .handle : .ignore
        }
    }

    /// Counts an invalid message, which occupies a number like a valid one.
    ///
    /// - Parameter type: The number of the message's type, if it could be read.
    /// - Returns: Whether to handle the error. Otherwise, the message is a repetition, or belongs to the time before the socket was lost.
    package mutating func receivedInvalid(type: Int?, now: Instant) -> Bool {
        guard !self.isAwaitingSequence else { return false }
        guard let type, HubMessage.sequencedTypes.contains(type) else { return true }
        return self.receivedCounted(now: now)
    }

    private var isAwaitingSequence: Bool {
        if case .awaitingSequence = self.link { true } else { false }
    }

    /// - Returns: Whether the message is new.
    private mutating func receivedCounted(now: Instant) -> Bool {
        let number = self.next
        self.next += 1
        // A repetition was acknowledged when the peer has said that it begins with it.
        guard number > self.received else { return false }
        self.received = number
        if self.ackDeadline == nil { self.ackDeadline = now.advanced(by: Self.ackInterval) }
        return true
    }

    private mutating func continues(with number: UInt64, now: Instant) throws(HubSequenceError) {
        guard number > 0 else { throw HubSequenceError("The peer continues with message 0, but the first one is message 1.") }
        // Not `next`: while the peer repeats messages, that is lower, but the acknowledgment of all of them may arrive before another cut.
        guard number - 1 <= self.received else {
            throw HubSequenceError(
                "The peer continues with message \(number), but only \(self.received) messages were received: some are lost.")
        }
        self.next = number
        // The peer repeats what was received, because the acknowledgment was lost, or wasn't due before the cut. If sockets last for less than the
        // repetition takes, neither end would get beyond it with an acknowledgment that comes later. An acknowledgment that the peer
        // doesn't wait for makes ASP.NET Core lose its next message at the next cut.
        if number <= self.received { self.ackDeadline = now }
        if self.isAwaitingSequence { self.link = .established }
    }

    /// Removes the messages that the peer has received. Ignores numbers of messages that it has acknowledged already, and of ones that
    /// weren't sent.
    ///
    /// - Returns: Whether the buffer was full, and isn't any more.
    private mutating func acknowledged(_ number: UInt64) -> Bool {
        guard number <= self.sent else { return false }
        let wasFull = self.isFull
        while self.sent - UInt64(self.messages.count) < number, let message = self.messages.popFirst() {
            self.byteCount -= message.bytes.count
        }
        return wasFull && !self.isFull
    }

    // MARK: Acknowledging

    /// Records the size of data that was received, after its messages.
    ///
    /// The clients and servers of ASP.NET Core acknowledge once a second. With their limit for the stored messages, that would limit a
    /// connection to 100 kB a second, so half of the limit, which is probably the same at the other end, is acknowledged immediately. More often
    /// would be slower: each acknowledgment is a write, a read and a wake-up of the peer.
    package mutating func received(byteCount: Int, now: Instant) {
        guard self.ackDeadline != nil else { return }
        self.unacknowledgedByteCount += byteCount
        if self.unacknowledgedByteCount >= max(1, self.byteLimit / 2) { self.ackDeadline = now }
    }

    /// When to call ``takeAck(now:)``. `nil` while there is no socket.
    package var nextDeadline: Instant? { self.ackDeadline }

    /// Returns the acknowledgment to send, if it is due.
    package mutating func takeAck(now: Instant) -> HubMessage? {
        guard let deadline = self.nextDeadline, deadline <= now else { return nil }
        self.ackDeadline = nil
        self.unacknowledgedByteCount = 0
        return .ack(sequenceID: self.received)
    }

    // MARK: Resuming

    /// The socket was lost. Messages are stored until the next one is open. Call it also if a resume fails halfway.
    package mutating func interrupt() {
        self.link = .interrupted
        // The peer repeats what wasn't acknowledged.
        self.ackDeadline = nil
    }

    /// Continues on another socket, which is open. Senders that wait because the buffer is full try again. Until the peer has said with which
    /// message it continues, all received messages are ignored.
    ///
    /// - Returns: The messages to send on the socket before any other: the number of the first stored message, or of the next one if none is
    ///   stored, and the stored messages.
    package mutating func resume() -> (sequence: HubMessage, messages: [TransportMessage]) {
        self.link = .awaitingSequence
        self.permitsMessage = true
        return (.sequence(sequenceID: self.sent - UInt64(self.messages.count) + 1), self.messages.all)
    }
}

/// The reason why a connection can't be resumed: messages are missing. The logical connection must end.
package struct HubSequenceError: Error, Hashable, Sendable, CustomStringConvertible {
    package var problem: String

    package init(_ problem: String) { self.problem = problem }

    package var description: String { self.problem }
}
