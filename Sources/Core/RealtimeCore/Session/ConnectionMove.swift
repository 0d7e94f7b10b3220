/// The move of an established connection to another one, for example to a better transport: a candidate is opened in addition, and replaces
/// the connection when both ends are ready for it. The replaced connection stays until it has ended, because it may bring answers to messages
/// that were sent on it.
package struct ConnectionMove: Sendable {
    package enum Role: Equatable, Sendable { case candidate, replaced }

    /// The connection that is to replace the current one.
    package private(set) var candidate: ConnectionID?
    /// The connection that was replaced and hasn't ended.
    package private(set) var replaced: ConnectionID?

    package init() {}

    /// Whether a connection is the candidate or the replaced one.
    package func contains(_ id: ConnectionID) -> Bool { id == self.candidate || id == self.replaced }

    /// Begins to move.
    ///
    /// - Returns: The candidate, to be opened; `nil` if there is no established connection, or if an earlier move isn't complete, which
    ///   includes the end of the replaced connection.
    package mutating func begin(_ connection: inout ConnectionStateMachine) -> ConnectionID? {
        guard connection.connected != nil, self.candidate == nil, self.replaced == nil else { return nil }
        self.candidate = connection.additionalConnection()
        return self.candidate
    }

    /// Replaces the current connection by the candidate.
    ///
    /// - Returns: The replaced connection, to be closed; `nil` if there is no candidate or no established connection.
    package mutating func complete(_ connection: inout ConnectionStateMachine, now: Instant) -> ConnectionID? {
        guard let candidate, let old = connection.connected, connection.replace(old, by: candidate, now: now) else { return nil }
        (self.candidate, self.replaced) = (nil, old)
        return old
    }

    /// One of the additional connections has ended.
    ///
    /// - Returns: The role that it had, or `nil` if it isn't an additional connection.
    package mutating func closed(_ id: ConnectionID) -> Role? {
        switch id {
        case self.candidate:
            self.candidate = nil
            return .candidate
        case self.replaced:
            self.replaced = nil
            return .replaced
        default: return nil
        }
    }

    /// Abandons the additional connections, because the connection has ended.
    package mutating func abandon<Machine>(_ effects: inout Effects<Machine>) {
        for id in [self.candidate.take(), self.replaced.take()] {
            if let id { effects.commands.append(.abandon(id)) }
        }
    }
}
