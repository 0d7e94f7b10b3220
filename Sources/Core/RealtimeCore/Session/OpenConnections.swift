/// The connections that there are, and what was sent on them. It is not generic, and so compiled once and for good.
@usableFromInline
struct OpenConnections: Sendable {
    private var connections = SmallDictionary<ConnectionID, any WebSocketConnection>()
    private(set) var messagesSent = 0
    private(set) var bytesSent = 0

    subscript(id: ConnectionID) -> (any WebSocketConnection)? {
        get { self.connections[id] }
        set { self.connections[id] = newValue }
    }

    mutating func remove(_ id: ConnectionID) -> (any WebSocketConnection)? { self.connections.removeValue(forKey: id) }

    /// Adds the message to what the connection sends, and returns the connection, which has to be flushed outside of the
    /// lock. `nil`: it is gone.
    @usableFromInline
    mutating func enqueue(_ message: WebSocketMessage, on id: ConnectionID) -> (any WebSocketConnection)? {
        guard let connection = self.connections[id] else { return nil }
        self.messagesSent += 1
        self.bytesSent += message.bytes.count
        connection.enqueue(message)
        return connection
    }
}
