/// The messages of connections over HTTP that the server hasn't taken yet, and the callers that wait for that.
///
/// A WebSocket doesn't tell what the peer has taken, and isn't kept here.
struct UnansweredMessages: Sendable {
    private struct Messages: Sendable {
        /// The numbers of messages since the connection was opened.
        var sent = 0, answered = 0
        /// The callers in their order, each with the number of messages that it waits for.
        var waiters = FIFO<(count: Int, waiter: WaiterID)>()
    }

    private var connections = SmallDictionary<ConnectionID, Messages>()

    /// Begins to count the messages of a connection.
    mutating func add(_ id: ConnectionID) { self.connections[id] = Messages() }

    /// Forgets a connection that has ended.
    ///
    /// - Returns: The callers whose messages the server hasn't answered.
    mutating func remove(_ id: ConnectionID) -> [WaiterID] {
        self.connections.isEmpty ? [] : self.connections.removeValue(forKey: id)?.waiters.all.map(\.waiter) ?? []
    }

    /// Whether a caller waits for the server. For assertions.
    func contains(_ waiter: WaiterID) -> Bool {
        self.connections.entries.contains { $0.value.waiters.contains { $0.waiter == waiter } }
    }

    mutating func sent(on id: ConnectionID) {
        // Most drivers have no connection over HTTP.
        if !self.connections.isEmpty { self.connections[id]?.sent += 1 }
    }

    /// The server has taken the next messages.
    ///
    /// - Returns: The callers that wait for no other message.
    mutating func answered(_ count: Int, on id: ConnectionID) -> [WaiterID] {
        // Removed and added again, so that the callers aren't copied.
        guard var messages = self.connections.removeValue(forKey: id) else { return [] }
        messages.answered += count
        var waiters: [WaiterID] = []
        while let first = messages.waiters.first, first.count <= messages.answered {
            waiters.append(first.waiter)
            _ = messages.waiters.popFirst()
        }
        self.connections[id] = messages
        return waiters
    }

    /// Lets a caller wait until the server has taken what was sent so far.
    ///
    /// - Returns: `false` if it has.
    mutating func addWaiter(_ waiter: WaiterID, on id: ConnectionID) -> Bool {
        guard var messages = self.connections.removeValue(forKey: id) else { return false }
        let waits = messages.answered < messages.sent
        if waits { messages.waiters.append((messages.sent, waiter)) }
        self.connections[id] = messages
        return waits
    }
}
