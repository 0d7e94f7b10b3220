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
