import RealtimeSystem

/// The channels that one client of a server has joined.
package struct MultiplexMembers: Sendable {
    private var members: [ByteString: (name: String, number: UInt64)] = [:]
    private var lastNumber: UInt64 = 0
    /// The maximum number of channels.
    private let limit: Int

    /// - Parameter limit: The maximum number of channels that the client joins.
    package init(limit: Int) { self.limit = limit }

    package var count: Int { self.members.count }

    /// The channels in the order in which the client joined them.
    package var addresses: [MultiplexAddress] {
        self.members.sorted { $0.value.number < $1.value.number }.map { MultiplexAddress(id: $0.key.string, channel: $0.value.name) }
    }

    package func contains(_ address: MultiplexAddress) -> Bool {
        guard let member = self.members[ByteString(address.id)] else { return false }
        return ByteString(member.name) == ByteString(address.channel)
    }

    /// Adds a channel that the client joins.
    ///
    /// - Returns: `false` if the client has joined under this ID before, which has no effect.
    /// - Throws: ``PrimusPluginError/limitReached(plugin:_:)``.
    package mutating func join(_ address: MultiplexAddress) throws(PrimusPluginError) -> Bool {
        guard self.members[ByteString(address.id)] == nil else { return false }
        guard self.members.count < self.limit else {
            throw .limitReached(plugin: "multiplex", "the client has joined \(self.limit) channels")
        }
        self.lastNumber += 1
        self.members[ByteString(address.id)] = (address.channel, self.lastNumber)
        return true
    }

    /// Throws if the client hasn't joined the channel of a message.
    ///
    /// - Throws: ``PrimusPluginError/unknown(plugin:_:)``.
    package func check(_ address: MultiplexAddress) throws(PrimusPluginError) {
        guard self.contains(address) else { throw address.unknown }
    }

    /// Removes a channel, because the client has left it or the server ends it.
    ///
    /// - Throws: ``PrimusPluginError/unknown(plugin:_:)``.
    package mutating func leave(_ address: MultiplexAddress) throws(PrimusPluginError) {
        try self.check(address)
        self.members[ByteString(address.id)] = nil
    }

    /// Removes all channels, because the connection has ended.
    ///
    /// - Returns: The channels in the order in which the client joined them.
    package mutating func endAll() -> [MultiplexAddress] {
        defer { self.members = [:] }
        return self.addresses
    }
}
