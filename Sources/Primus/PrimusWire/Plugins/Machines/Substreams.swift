import RealtimeSystem

/// The streams that are open on one side of a connection. Both sides open a stream by its name, without a packet.
///
/// - `Key` identifies a stream on this side.
package struct Substreams<Key: Sendable>: Sendable {
    private var streams: [ByteString: (key: Key, number: UInt64)] = [:]
    private var lastNumber: UInt64 = 0

    package init() {}

    package var count: Int { self.streams.count }

    /// The result of a packet.
    package enum Received: Sendable {
        case message(Key, PrimusPayload)
        /// The peer has ended the stream, which is removed.
        case ended(Key)
        /// No stream has this name. As in the original, the packet is a message of the connection.
        case notOpen
    }

    /// The stream with this name.
    package subscript(name: String) -> Key? { self.streams[ByteString(name)]?.key }

    /// Opens a stream. A name has one stream at a time.
    package mutating func open(_ name: String, _ key: Key) {
        self.lastNumber += 1
        self.streams[ByteString(name)] = (key, self.lastNumber)
    }

    /// Ends a stream.
    ///
    /// - Returns: The packet to send on an open connection; `nil` if no stream has this name.
    package mutating func end(_ name: String) -> SubstreamPacket? {
        self.streams.removeValue(forKey: ByteString(name)) == nil ? nil : .end(name: name)
    }

    package mutating func received(_ packet: SubstreamPacket) -> Received {
        switch packet {
        case .message(let name, let payload): self.streams[ByteString(name)].map { .message($0.key, payload) } ?? .notOpen
        case .end(let name): self.streams.removeValue(forKey: ByteString(name)).map { .ended($0.key) } ?? .notOpen
        }
    }

    /// Ends all streams.
    ///
    /// - Returns: The streams in the order in which they were opened.
    package mutating func endAll() -> [Key] {
        defer { self.streams = [:] }
        return self.streams.values.sorted { $0.number < $1.number }.map(\.key)
    }
}
