/// A connection that carries messages in both directions: a WebSocket, or a transport over HTTP requests. All methods can be called on any thread,
/// and none of them blocks.
///
/// ``enqueue(_:)``, ``pauseReading()`` and ``resumeReading()`` are called under a lock. They must not perform I/O or call
/// ``MessageEvents``. The other methods are called without a lock.
public protocol MessageConnection: AnyObject, Sendable {
    /// Starts connecting. Has no effect on a server's connection, or after ``close(_:reason:)`` or ``abandon()``.
    func open()
    /// Adds a message to the output that the next ``flush()`` sends. Messages are buffered until the connection is open, and dropped after
    /// its end. A transport may end the connection if the peer reads too slowly and the output grows too large.
    func enqueue(_ message: TransportMessage)
    /// Sends all enqueued messages, in as few writes as possible.
    func flush()
    /// Stops reading from the network soon. Messages that were read already are still delivered.
    func pauseReading()
    /// Resumes reading from the network, at the latest with the next ``flush()``, which must follow.
    func resumeReading()
    /// Sends all enqueued messages and the close frame of a WebSocket, or what a transport over HTTP requests has in place of it.
    ///
    /// ``MessageEvents/closed(_:_:)`` follows when the peer has responded, or after a few seconds.
    ///
    /// - Parameters:
    ///   - code: The close code.
    ///   - reason: An explanation for the peer; may be empty.
    func close(_ code: CloseCode, reason: String)
    /// Ends the connection immediately, without a word to the peer. No events follow, except for one that is being delivered.
    func abandon()
}

/// A type that receives the events of a connection.
///
/// The methods are called on the transport's threads. Calls for the same connection are serial and in order.
public protocol MessageEvents: AnyObject, Sendable {
    /// The connection is open.
    ///
    /// - Parameters:
    ///   - id: The connection.
    ///   - head: The server's response to the request that opened the connection. On a server, a response without header fields.
    func opened(_ id: ConnectionID, head: HTTPResponseHead)
    /// One read from the network yielded complete messages.
    ///
    /// - Parameters:
    ///   - id: The connection.
    ///   - batch: The messages; never empty. Pings have been answered already, and are included as a sign of activity.
    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch)
    /// One read from the network yielded complete messages, of which some may have been taken already.
    ///
    /// A server whose answers are large stops before the end of the batch. The transport passes it the remaining messages of the same batch
    /// later: in another turn of its thread and, if the peer doesn't read the answers, when all of them have been sent. A transport without
    /// back-pressure calls ``received(_:_:)`` instead.
    ///
    /// The default implementation takes all messages with ``received(_:_:)``.
    ///
    /// - Parameters:
    ///   - id: The connection.
    ///   - batch: The messages.
    ///   - start: The index of the first message that wasn't taken, less than the number of messages.
    /// - Returns: The index of the next message to take, greater than `start`; the number of messages if all were taken.
    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, from start: Int) -> Int
    /// The peer reads more slowly than messages are sent, or has caught up.
    ///
    /// The first call pauses writing, when the output that waits has exceeded a limit, usually 256 KiB. The next call resumes writing, when
    /// all of it has been sent, and so on: the calls alternate. They are made after ``opened(_:head:)`` and before ``closed(_:_:)``,
    /// like the other events on the transport's thread and never under a lock. Messages that are enqueued in the meantime are still
    /// accepted, up to the transport's limit for the output.
    ///
    /// The default implementation does nothing.
    ///
    /// - Parameters:
    ///   - id: The connection.
    ///   - paused: Whether to pause writing. If `false`, writing can resume.
    func writing(_ id: ConnectionID, paused: Bool)
    /// The connection has ended or could not be established. This is the last call for the connection.
    ///
    /// - Parameters:
    ///   - id: The connection.
    ///   - reason: The reason why the connection ended.
    func closed(_ id: ConnectionID, _ reason: CloseReason)
}

extension MessageEvents {
    /// Takes all messages.
    public func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, from start: Int) -> Int {
        self.received(id, batch)
        return batch.entries.count
    }

    /// Does nothing.
    public func writing(_ id: ConnectionID, paused: Bool) {}
}

/// A receiver of events that wants to know that a large message arrives.
package protocol PartialMessageEvents: MessageEvents {
    /// A read from the network brought bytes of a message that isn't complete, and no message.
    ///
    /// Not every transport reports this: `URLSession` doesn't.
    func receivedPart(_ id: ConnectionID, byteCount: Int)
}

extension MessageEvents {
    /// Reports that bytes of a message have arrived, if the receiver wants to know.
    package func reportPart(_ id: ConnectionID, byteCount: Int) {
        (self as? any PartialMessageEvents)?.receivedPart(id, byteCount: byteCount)
    }
}

/// A connection whose messages are sent in HTTP requests. It has the events of ``HTTPMessageEvents``.
package protocol ConnectionOverHTTP: MessageConnection {
    /// The owner has found no message in what it has received last. It calls this before it returns from ``MessageEvents/received(_:_:)``.
    func receivedNoMessage()
}

/// The further events of a connection over HTTP requests.
package protocol HTTPMessageEvents: MessageEvents {
    /// The server has answered the request with the next messages that the connection had accepted, in their order, and has taken them.
    func answered(_ id: ConnectionID, _ count: Int)

    /// The connection is being closed because another one replaces it, which sends the messages that this one has accepted and not sent.
    /// Called before ``MessageEvents/closed(_:_:)``, on the same thread as the other events.
    func unsent(_ id: ConnectionID, _ messages: [TransportMessage])
}
