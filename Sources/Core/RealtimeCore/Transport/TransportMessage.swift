import RealtimeSystem

/// A message of a connection: one of a WebSocket, or what a transport over HTTP requests carries in place of it.
public struct TransportMessage: Hashable, Sendable {
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
    public static func text(_ text: String) -> TransportMessage { TransportMessage(.text, Array(text.utf8)) }

    /// Returns a binary message.
    public static func binary(_ bytes: [UInt8]) -> TransportMessage { TransportMessage(.binary, bytes) }
}

/// The complete messages that one read from the network yielded, in order, in contiguous memory.
///
/// A transport reuses its batch for the next read, so a receiver copies the messages it keeps.
public struct MessageBatch: Sendable {
    /// The kind and position of a message in a batch.
    public struct Entry: Sendable, PrintedParts {
        /// The kind of the message.
        public var kind: TransportMessage.Kind
        /// The position of the payload in ``MessageBatch/bytes``.
        public var range: Range<Int>

        /// Creates an entry.
        ///
        /// - Parameters:
        ///   - kind: The kind of the message.
        ///   - range: The position of the payload in ``MessageBatch/bytes``.
        public init(_ kind: TransportMessage.Kind, _ range: Range<Int>) {
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
    public init(_ messages: some Sequence<TransportMessage>) {
        for message in messages { self.append(message.kind, message.bytes) }
    }

    /// Appends a message.
    ///
    /// - Parameters:
    ///   - kind: The kind of the message.
    ///   - bytes: The payload. It must be valid UTF-8 for a text message.
    public mutating func append(_ kind: TransportMessage.Kind, _ bytes: some Sequence<UInt8>) {
        let start = self.bytes.count
        self.bytes.append(contentsOf: bytes)
        self.entries.append(Entry(kind, start..<self.bytes.count))
    }

    /// Appends a message whose payload is in memory.
    package mutating func append(_ kind: TransportMessage.Kind, _ bytes: UnsafeRawBufferPointer) {
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
    public var messages: [TransportMessage] {
        self.entries.map { TransportMessage($0.kind, Array(self.bytes[$0.range])) }
    }
}
