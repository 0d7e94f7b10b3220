/// Why a client can't be blamed for its silence, so that a server doesn't count it. Each reason begins and ends by itself.
package struct HeartbeatSuspension: OptionSet, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The server doesn't read the connection.
    package static let unread = HeartbeatSuspension(rawValue: 1 << 0)
    /// The server injects silence.
    package static let silenced = HeartbeatSuspension(rawValue: 1 << 1)

    /// Begins or ends a reason.
    package mutating func set(_ reason: Self, _ isPresent: Bool) {
        if isPresent { self.insert(reason) } else { self.remove(reason) }
    }
}
