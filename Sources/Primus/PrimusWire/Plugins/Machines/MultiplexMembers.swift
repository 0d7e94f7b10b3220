import RealtimeSystem

/// The channels that one client of a server has joined.
package struct MultiplexMembers: Sendable {
    private var members: [ByteString: (name: String, number: UInt64)] = [:]
    private var lastNumber: UInt64 = 0
    /// The bytes of the names and IDs.
    private var bytes = 0
    /// The maximum number of channels.
    private let limit: Int
    /// The maximum number of bytes of a name, and of an ID.
    private let nameLimit: Int

    /// The bytes of names and IDs that the client has on average for each of the channels that it may join, so that all of them together have a
    /// limit far below that of as many long names.
    package static var averageBytes: Int { 256 }

    /// - Parameters:
    ///   - limit: The maximum number of channels that the client joins.
    ///   - nameLimit: The maximum number of bytes of a name, and of an ID, which the client chooses.
    package init(limit: Int, nameLimit: Int) { (self.limit, self.nameLimit) = (limit, nameLimit) }

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
        let (name, id) = (address.channel.utf8.count, address.id.utf8.count)
        guard max(name, id) <= self.nameLimit else {
            let long = name > self.nameLimit ? "name" : "ID"
            throw .limitReached(
                plugin: "multiplex", "the \(long) of a channel has \(max(name, id)) bytes, and may have \(self.nameLimit)")
        }
        let (total, isOverflowing) = self.limit.multipliedReportingOverflow(by: Self.averageBytes)
        guard isOverflowing || name + id <= total - self.bytes else {
            throw .limitReached(plugin: "multiplex", "the names and IDs of all channels of the client may have \(total) bytes")
        }
        self.bytes += name + id
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
        self.bytes -= address.channel.utf8.count + address.id.utf8.count
    }

    /// Removes all channels, because the connection has ended.
    ///
    /// - Returns: The channels in the order in which the client joined them.
    package mutating func endAll() -> [MultiplexAddress] {
        defer { (self.members, self.bytes) = ([:], 0) }
        return self.addresses
    }
}
