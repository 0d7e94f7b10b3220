public import Foundation
import RealtimeSystem

/// The channels of a connection.
///
/// `@unchecked Sendable`: all state is protected by a lock. A subclass protects its own.
#if canImport(ObjectiveC)
@objcMembers
#endif
open class PusherChannels: NSObject, @unchecked Sendable {
    /// By the bytes of the names, as servers compare them: a dictionary of strings has one entry for several forms of a character.
    private let table = Guarded<[ByteString: PusherChannel]>([:])

    /// The channels by their names.
    open var channels: [String: PusherChannel] {
        get { Dictionary(self.table.value.map { ($0.key.string, $0.value) }) { first, _ in first } }
        set { self.table.value = Dictionary(uniqueKeysWithValues: newValue.map { (ByteString($0.key), $0.value) }) }
    }

    /// The channels, in the order of their names.
    var all: [PusherChannel] { self.table.value.sorted { $0.key < $1.key }.map(\.value) }

    /// Returns a channel.
    ///
    /// - Parameter name: The name of the channel.
    /// - Returns: The channel, or `nil` if it wasn't subscribed or was unsubscribed.
    public func find(name: String) -> PusherChannel? { self.table.read { $0[ByteString(name)] } }

    /// Returns a channel; see ``find(name:)``.
    ///
    /// - Parameter name: The name of the channel.
    #if canImport(ObjectiveC)
    @nonobjc
    #endif
    public func find(_ name: String) -> PusherChannel? { self.find(name: name) }

    /// Returns a presence channel.
    ///
    /// - Parameter name: The name of the channel.
    /// - Returns: The channel, or `nil` if there isn't a presence channel with this name.
    public func findPresence(name: String) -> PusherPresenceChannel? { self.find(name: name) as? PusherPresenceChannel }

    /// Returns a presence channel; see ``findPresence(name:)``.
    ///
    /// - Parameter name: The name of the channel.
    #if canImport(ObjectiveC)
    @nonobjc
    #endif
    public func findPresence(_ name: String) -> PusherPresenceChannel? { self.findPresence(name: name) }

    /// Returns the channel with a name, or adds one.
    ///
    /// - Parameter make: Makes the channel, with the existing one if that has another type.
    func findOrAdd<Channel: PusherChannel>(_ name: String, as type: Channel.Type, _ make: (PusherChannel?) -> Channel) -> Channel {
        let key = ByteString(name)
        let existing = self.table.read { $0[key] }
        if let channel = existing as? Channel { return channel }
        // Made without the lock. If another thread was faster, its channel is used.
        let new = make(existing)
        var replaced: PusherChannel?
        defer { withExtendedLifetime(replaced) {} }
        return self.table.mutate { table in
            if let channel = table[key] as? Channel { return channel }
            replaced = table.updateValue(new, forKey: key)
            return new
        }
    }

    func remove(name: String) -> PusherChannel? { self.table.mutate { $0.removeValue(forKey: ByteString(name)) } }
}
