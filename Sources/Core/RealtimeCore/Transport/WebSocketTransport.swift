import RealtimeSystem

/// An identifier of a connection.
///
/// A client numbers its attempts to connect, so that late events of an abandoned attempt can be recognized and ignored.
public struct ConnectionID: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The number of the connection.
    public var rawValue: UInt64

    /// Creates an identifier from a number.
    public init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    /// Returns whether the left connection has a lower number, and so is older.
    public static func < (lhs: Self, rhs: Self) -> Bool { lhs.rawValue < rhs.rawValue }

    /// The number with a number sign, for example `#3`.
    public var description: String { "#\(self.rawValue)" }

    private static let accepted = Lock(ConnectionCounter())

    /// Returns a new identifier for a connection that a listener accepts. It is unique among the accepted connections of this process.
    package static func nextAccepted() -> ConnectionID { self.accepted.withLock { $0.next() } }
}

/// Numbers the connections of one client, or all connections that the listeners of a process accept.
package struct ConnectionCounter: Sendable {
    private var last: UInt64 = 0

    package init() {}

    /// The last connection that was numbered, if any.
    package var newest: ConnectionID? { self.last == 0 ? nil : ConnectionID(rawValue: self.last) }

    package mutating func next() -> ConnectionID {
        self.last += 1
        return ConnectionID(rawValue: self.last)
    }
}

/// A WebSocket message to send.
public struct WebSocketMessage: Hashable, Sendable {
    /// The kind of a message. Pings and pongs carry at most 125 bytes.
    public enum Kind: Hashable, Sendable {
        /// A text message in UTF-8.
        case text
        /// A binary message.
        case binary
        /// A ping, to which the peer responds with a pong that contains the same bytes.
        case ping
        /// A pong, the response to a ping.
        case pong
    }

    /// The kind of the message.
    public var kind: Kind
    /// The payload. Valid UTF-8 for a text message.
    public var bytes: [UInt8]

    /// Creates a message.
    ///
    /// - Parameters:
    ///   - kind: The kind of the message.
    ///   - bytes: The payload. It must be valid UTF-8 for a text message, and at most 125 bytes long for a ping or pong.
    public init(_ kind: Kind, _ bytes: [UInt8]) {
        self.kind = kind
        self.bytes = bytes
    }

    /// Returns a text message.
    public static func text(_ text: String) -> WebSocketMessage { WebSocketMessage(.text, Array(text.utf8)) }

    /// Returns a binary message.
    public static func binary(_ bytes: [UInt8]) -> WebSocketMessage { WebSocketMessage(.binary, bytes) }
}

/// The complete messages that one read from the network yielded, in order, in contiguous memory.
///
/// A transport reuses its batch for the next read, so a receiver copies the messages it keeps.
public struct MessageBatch: Sendable {
    /// The kind and position of a message in a batch.
    public struct Entry: Sendable, PrintedParts {
        /// The kind of the message.
        public var kind: WebSocketMessage.Kind
        /// The position of the payload in ``MessageBatch/bytes``.
        public var range: Range<Int>

        /// Creates an entry.
        ///
        /// - Parameters:
        ///   - kind: The kind of the message.
        ///   - range: The position of the payload in ``MessageBatch/bytes``.
        public init(_ kind: WebSocketMessage.Kind, _ range: Range<Int>) {
            self.kind = kind
            self.range = range
        }
    }

    /// The payloads of all messages, one after the other. The payload of a text message is valid UTF-8.
    public var bytes: [UInt8] = []
    /// The kinds and positions of the messages, in order.
    public var entries: [Entry] = []

    /// Creates an empty batch.
    public init() {}

    /// Creates a batch with copies of messages.
    public init(_ messages: some Sequence<WebSocketMessage>) {
        for message in messages { self.append(message.kind, message.bytes) }
    }

    /// Appends a message.
    ///
    /// - Parameters:
    ///   - kind: The kind of the message.
    ///   - bytes: The payload. It must be valid UTF-8 for a text message.
    public mutating func append(_ kind: WebSocketMessage.Kind, _ bytes: some Sequence<UInt8>) {
        let start = self.bytes.count
        self.bytes.append(contentsOf: bytes)
        self.entries.append(Entry(kind, start..<self.bytes.count))
    }

    /// Appends a message whose payload is in memory.
    package mutating func append(_ kind: WebSocketMessage.Kind, _ bytes: UnsafeRawBufferPointer) {
        let start = self.bytes.count
        self.bytes.append(copying: bytes)
        self.entries.append(Entry(kind, start..<(start &+ bytes.count)))
    }

    /// Appends a text message whose payload is in memory. Invalid UTF-8 is replaced by U+FFFD.
    package mutating func append(repairing text: UnsafeRawBufferPointer) {
        let start = self.bytes.count
        self.bytes.append(repairing: text)
        self.entries.append(Entry(.text, start..<self.bytes.count))
    }

    /// Removes all messages. Keeps the allocated memory for the next read, unless a large message made it larger than 1 MiB.
    public mutating func removeAll() {
        self.entries.removeAll(keepingCapacity: true)
        self.bytes.removeAll(keepingCapacity: self.bytes.capacity <= 1 << 20)
    }

    /// Copies of the messages, for code where performance doesn't matter.
    public var messages: [WebSocketMessage] {
        self.entries.map { WebSocketMessage($0.kind, Array(self.bytes[$0.range])) }
    }
}

/// The parameters of a client's WebSocket connection.
public struct WebSocketRequest: Sendable {
    /// The URL to connect to.
    public var endpoint: Endpoint
    /// Additional header fields of the upgrade request. The transport adds the fields of the WebSocket handshake.
    public var headers: HTTPHeaders
    /// The subprotocols to offer, in order of preference. The connection is also established if the server selects none of them.
    public var subprotocols: [String]
    /// The maximum size of a received message in bytes. A larger message ends the connection with close code 1009.
    public var messageLimit: Int
    /// The time limit for establishing the connection, including name resolution, TLS and the WebSocket handshake.
    public var timeout: Duration

    /// Creates the parameters of a WebSocket connection.
    ///
    /// - Parameters:
    ///   - endpoint: The URL to connect to.
    ///   - headers: Additional header fields of the upgrade request.
    ///   - subprotocols: The subprotocols to offer, in order of preference.
    ///   - messageLimit: The maximum size of a received message in bytes.
    ///   - timeout: The time limit for establishing the connection.
    public init(
        _ endpoint: Endpoint, headers: HTTPHeaders = [:], subprotocols: [String] = [], messageLimit: Int = 16 << 20,
        timeout: Duration = .seconds(30)
    ) {
        self.endpoint = endpoint
        self.headers = headers
        self.subprotocols = subprotocols
        self.messageLimit = messageLimit
        self.timeout = timeout
    }
}

/// A type that creates the WebSocket connections of a client.
///
/// The package has two implementations for the network, one on sockets and one on `URLSession`, and one in memory. A program with its own
/// event loop can provide another one.
public protocol WebSocketTransport: Sendable {
    /// Creates a connection without performing I/O. Called under a lock.
    ///
    /// - Parameters:
    ///   - request: The parameters of the connection.
    ///   - id: The ID of the connection in calls to `events`.
    ///   - events: The object that receives the events of the connection. The connection retains it until it has called
    ///     ``WebSocketEvents/closed(_:_:)`` or has been abandoned.
    /// - Returns: A connection that starts connecting when ``WebSocketConnection/open()`` is called.
    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any WebSocketEvents) -> any WebSocketConnection
}

/// A WebSocket connection. All methods can be called on any thread, and none of them blocks.
///
/// ``enqueue(_:)``, ``pauseReading()`` and ``resumeReading()`` are called under a lock. They must not perform I/O or call
/// ``WebSocketEvents``. The other methods are called without a lock.
public protocol WebSocketConnection: AnyObject, Sendable {
    /// Starts connecting. Has no effect on a server's connection, or after ``close(_:reason:)`` or ``abandon()``.
    func open()
    /// Adds a message to the output that the next ``flush()`` sends. Messages are buffered until the connection is open, and dropped after
    /// its end. A transport may end the connection if the peer reads too slowly and the output grows too large.
    func enqueue(_ message: WebSocketMessage)
    /// Sends all enqueued messages, in as few writes as possible.
    func flush()
    /// Stops reading from the network soon. Messages that were read already are still delivered.
    func pauseReading()
    /// Resumes reading from the network, at the latest with the next ``flush()``, which must follow.
    func resumeReading()
    /// Sends all enqueued messages and a close frame.
    ///
    /// ``WebSocketEvents/closed(_:_:)`` follows when the peer has responded, or after a few seconds.
    ///
    /// - Parameters:
    ///   - code: The close code.
    ///   - reason: An explanation for the peer; may be empty.
    func close(_ code: CloseCode, reason: String)
    /// Closes the socket immediately, without a close frame. No events follow, except for one that is being delivered.
    func abandon()
}

/// A type that receives the events of a WebSocket connection.
///
/// The methods are called on the transport's threads. Calls for the same connection are serial and in order.
public protocol WebSocketEvents: AnyObject, Sendable {
    /// The connection is open.
    ///
    /// - Parameters:
    ///   - id: The connection.
    ///   - head: The server's response to the upgrade request. On a server, a response without header fields.
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

extension WebSocketEvents {
    /// Takes all messages.
    public func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, from start: Int) -> Int {
        self.received(id, batch)
        return batch.entries.count
    }

    /// Does nothing.
    public func writing(_ id: ConnectionID, paused: Bool) {}
}

/// A receiver of events that wants to know that a large message arrives.
package protocol PartialMessageEvents: WebSocketEvents {
    /// A read from the network brought bytes of a message that isn't complete, and no message.
    ///
    /// Not every transport reports this: `URLSession` doesn't.
    func receivedPart(_ id: ConnectionID, byteCount: Int)
}

extension WebSocketEvents {
    /// Reports that bytes of a message have arrived, if the receiver wants to know.
    package func reportPart(_ id: ConnectionID, byteCount: Int) {
        (self as? any PartialMessageEvents)?.receivedPart(id, byteCount: byteCount)
    }
}

/// A connection whose messages are sent in HTTP requests. It has the events of ``HTTPConnectionEvents``.
package protocol ConnectionOverHTTP: WebSocketConnection {
    /// The owner has found no message in what it has received last. It calls this before it returns from ``WebSocketEvents/received(_:_:)``.
    func receivedNoMessage()
}

/// The further events of a connection over HTTP requests.
package protocol HTTPConnectionEvents: WebSocketEvents {
    /// The server has answered the request with the next messages that the connection had accepted, in their order, and has taken them.
    func answered(_ id: ConnectionID, _ count: Int)

    /// The connection is being closed because another one replaces it, which sends the messages that this one has accepted and not sent.
    /// Called before ``WebSocketEvents/closed(_:_:)``, on the same thread as the other events.
    func unsent(_ id: ConnectionID, _ messages: [WebSocketMessage])
}
