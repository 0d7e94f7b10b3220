/// The machine of a server that runs inside a program: it adopts connections that a listener accepts, and opens none.
package protocol EmbeddedServerMachine: SessionMachine where Request == Never {
    /// The route of the server's events to the application.
    var eventRoute: EventRoute { get set }
    /// The accepted connections that haven't ended, in ascending order.
    var acceptedConnections: [ConnectionID] { get }

    /// Returns the connection with an ID that the application knows, or `nil` if there is none.
    func connection(named name: String) -> ConnectionID?
    /// The server begins or ends to inject silence into a connection, so that its client can't be blamed for it.
    mutating func setSilent(_ id: ConnectionID, _ isSilent: Bool, now: Instant)
    /// Closes all connections, because the server is released. `stop` follows. Does nothing by default.
    mutating func release(_ effects: inout Effects<Self>)
}

extension EmbeddedServerMachine {
    package mutating func release(_ effects: inout Effects<Self>) {}

    /// Drops a connection without a close frame. Does nothing if no connection has the ID.
    package mutating func drop(_ name: String, now: Instant, _ effects: inout Effects<Self>) {
        guard let id = self.connection(named: name) else { return }
        effects.commands.append(.abandon(id))
        // The transport reports nothing about an abandoned connection.
        self.closed(id, .transport(TransportError(.reset, "The server dropped the connection.")), now: now, &effects)
    }
}
