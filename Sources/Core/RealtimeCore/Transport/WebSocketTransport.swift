/// One connection of a client, or one connection that a server accepted.
///
/// A client numbers its attempts, so that a dead socket's last words are known for what they are.
public struct ConnectionID: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The number.
    public var rawValue: UInt64

    /// The connection with this number.
    public init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    /// Whether the left one is older.
    public static func < (lhs: Self, rhs: Self) -> Bool { lhs.rawValue < rhs.rawValue }

    /// The number, as in `#3`.
    public var description: String { "#\(self.rawValue)" }
}

/// One WebSocket message to send.
public struct WebSocketMessage: Hashable, Sendable {
    /// What a message is. Pings and pongs carry at most 125 bytes.
    public enum Kind: Hashable, Sendable {
        /// UTF-8.
        case text
        /// Any bytes.
        case binary
        /// Asks for a pong with the same bytes.
        case ping
        /// Answers a ping.
        case pong
    }

    /// What it is.
    public var kind: Kind
    /// Its bytes; UTF-8 when it is text.
    public var bytes: [UInt8]

    /// A message of some kind.
    public init(_ kind: Kind, _ bytes: [UInt8]) {
        self.kind = kind
        self.bytes = bytes
    }

    /// A text message.
    public static func text(_ text: String) -> WebSocketMessage { WebSocketMessage(.text, Array(text.utf8)) }

    /// A binary message.
    public static func binary(_ bytes: [UInt8]) -> WebSocketMessage { WebSocketMessage(.binary, bytes) }
}

/// The whole messages that one read from the socket brought, in order, in one piece of memory.
///
/// A transport keeps one batch and refills it, so a receiver that wants to keep a message copies it.
public struct MessageBatch: Sendable {
    /// Where a message lies in ``MessageBatch/bytes``.
    public struct Entry: Sendable {
        /// What it is.
        public var kind: WebSocketMessage.Kind
        /// Where it is.
        public var range: Range<Int>

        /// A message at a place.
        public init(_ kind: WebSocketMessage.Kind, _ range: Range<Int>) {
            self.kind = kind
            self.range = range
        }
    }

    /// The messages' bytes, one after the other. Text is valid UTF-8.
    public var bytes: [UInt8] = []
    /// The messages.
    public var entries: [Entry] = []

    /// An empty batch.
    public init() {}

    /// A batch with these messages.
    public init(_ messages: some Sequence<WebSocketMessage>) {
        for message in messages { self.append(message.kind, message.bytes) }
    }

    /// Adds a message. Text has to be valid UTF-8.
    public mutating func append(_ kind: WebSocketMessage.Kind, _ bytes: some Sequence<UInt8>) {
        let start = self.bytes.count
        self.bytes.append(contentsOf: bytes)
        self.entries.append(Entry(kind, start..<self.bytes.count))
    }

    /// Empties it and keeps its memory, unless one large message made that memory large.
    public mutating func removeAll() {
        self.entries.removeAll(keepingCapacity: true)
        self.bytes.removeAll(keepingCapacity: self.bytes.capacity <= 1 << 20)
    }

    /// The messages, copied out: for tests, and where speed does not matter.
    public var messages: [WebSocketMessage] {
        self.entries.map { WebSocketMessage($0.kind, Array(self.bytes[$0.range])) }
    }
}

/// What a client asks a server for.
public struct WebSocketRequest: Sendable {
    /// Where to.
    public var endpoint: Endpoint
    /// More header fields for the upgrade request. Those of the handshake itself are added by the transport.
    public var headers: HTTPHeaders
    /// The subprotocols to offer, the favourite first. A server that picks none is accepted.
    public var subprotocols: [String]
    /// The largest message accepted, in bytes. A larger one ends the connection with 1009.
    public var messageLimit: Int
    /// How long it may take until the WebSocket is open: the look-up, the connection, TLS and the handshake.
    public var timeout: Duration

    /// A request for a WebSocket.
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

/// Makes a client's WebSocket connections.
///
/// The library brings two (its own sockets, and URLSession on Apple's systems) and one in memory.
/// A server with an event loop of its own can bring another in one file.
public protocol WebSocketTransport: Sendable {
    /// Makes the object and does no I/O yet: it is called under a lock.
    ///
    /// The connection holds `events` until it has called `closed`, or until it was abandoned.
    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any WebSocketEvents) -> any WebSocketConnection
}

/// One WebSocket.
///
/// `enqueue`, `pauseReading` and `resumeReading` only take note and never call back from within, because they are
/// called under a lock. The others are not.
public protocol WebSocketConnection: AnyObject, Sendable {
    /// Begins to connect. After `close` or `abandon` it does nothing. On a server's connection it does nothing.
    func open()
    /// Adds a message to what is sent with the next ``flush()``. Before the connection is open it is kept;
    /// after its end it is dropped. A transport may end the connection when very much waits for a peer that reads too little.
    func enqueue(_ message: WebSocketMessage)
    /// Sends what was enqueued, in as few writes as possible. Does not wait.
    func flush()
    /// Stops reading from the socket soon. Messages already read still come.
    func pauseReading()
    /// Reads on, at the latest with the next ``flush()``, which follows.
    func resumeReading()
    /// Sends what was enqueued and a close frame. `closed` follows when the peer has answered, or after a few seconds.
    func close(_ code: CloseCode, reason: String)
    /// Drops the socket at once. No event follows, apart from one that is being delivered.
    func abandon()
}

/// What happens on a WebSocket. Called on the transport's own thread, one call at a time for each connection.
public protocol WebSocketEvents: AnyObject, Sendable {
    /// The connection is open. `head` is the server's answer to the upgrade; on a server, an empty one.
    func opened(_ id: ConnectionID, head: HTTPResponseHead)
    /// What one read brought: never empty. Pings were already answered, and are in it as a sign of life.
    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch)
    /// The connection has ended, or could not be made. The last call.
    func closed(_ id: ConnectionID, _ reason: CloseReason)
}
