import RealtimeSystem

/// The channels that a client has joined. It joins them again on each connection.
///
/// - `Key` identifies a channel on this side.
package struct MultiplexChannels<Key: Sendable>: Sendable {
    private struct Channel: Sendable {
        var name: String
        var key: Key
        var number: UInt64
    }

    private var channels: [ByteString: Channel] = [:]
    private var lastNumber: UInt64 = 0

    package init() {}

    package var count: Int { self.channels.count }

    /// Adds a channel under a new ID. The same name can be joined any number of times; each time is a channel of its own.
    ///
    /// - Returns: The packet to send on an open connection. On the next ones, it is among the packets of ``joining``.
    package mutating func join(_ name: String, _ key: Key, _ random: inout some RandomNumberGenerator) -> MultiplexPacket {
        var id = Self.makeID(&random)
        while self.channels[ByteString(id)] != nil { id = Self.makeID(&random) }
        self.lastNumber += 1
        self.channels[ByteString(id)] = Channel(name: name, key: key, number: self.lastNumber)
        return .subscribe(MultiplexAddress(id: id, channel: name))
    }

    /// As long as the IDs of the original, which takes the digits of a random number.
    private static func makeID(_ random: inout some RandomNumberGenerator) -> String {
        let letters = Array("0123456789abcdefghijklmnopqrstuvwxy".utf8)
        return String(decoding: (0..<13).map { _ in letters[Int.random(in: letters.indices, using: &random)] }, as: UTF8.self)
    }

    /// The packets that join all channels, in the order in which they were added, to send as the first ones on a connection.
    package var joining: [MultiplexPacket] {
        self.channels.sorted { $0.value.number < $1.value.number }.map {
            .subscribe(MultiplexAddress(id: $0.key.string, channel: $0.value.name))
        }
    }

    /// Whether the channel is joined.
    package func contains(_ address: MultiplexAddress) -> Bool { self.channels[ByteString(address.id)] != nil }

    /// Removes a channel.
    ///
    /// - Returns: The packet to send on an open connection; `nil` if the channel isn't joined any more.
    package mutating func leave(_ address: MultiplexAddress) -> MultiplexPacket? {
        self.channels.removeValue(forKey: ByteString(address.id)) == nil ? nil : .unsubscribe(address)
    }

    /// Finds the channel of a message.
    ///
    /// - Throws: ``PrimusPluginError/unknown(plugin:_:)`` if the channel isn't joined, or not any more.
    package func channel(of address: MultiplexAddress) throws(PrimusPluginError) -> Key {
        guard let channel = self.channels[ByteString(address.id)], ByteString(channel.name) == ByteString(address.channel) else {
            throw address.unknown
        }
        return channel.key
    }

    /// Removes the channel that the server has ended. It isn't joined again.
    ///
    /// - Throws: ``PrimusPluginError/unknown(plugin:_:)`` if the channel isn't joined, or not any more.
    package mutating func ended(_ address: MultiplexAddress) throws(PrimusPluginError) -> Key {
        let key = try self.channel(of: address)
        self.channels[ByteString(address.id)] = nil
        return key
    }

    /// Removes all channels.
    ///
    /// - Returns: The channels in the order in which they were added.
    package mutating func endAll() -> [Key] {
        defer { self.channels = [:] }
        return self.channels.values.sorted { $0.number < $1.number }.map(\.key)
    }
}
