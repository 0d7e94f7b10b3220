import RealtimeCore

/// The sockets of connections that continue on another socket than the one with which they began. All others have the ID of their socket.
///
/// The machine's connections are identified by their first socket, and the driver's by the present one.
struct HubSockets: Sendable {
    /// The present socket of each connection that was moved; `nil` in the dictionary while there is none.
    private var current: [ConnectionID: ConnectionID?] = [:]
    /// The connections of the present sockets.
    private var owners: [ConnectionID: ConnectionID] = [:]

    /// Returns the connection of a socket; `nil` if the connection has another socket now, so that late events of this one are ignored.
    func owner(of socket: ConnectionID) -> ConnectionID? {
        // Usual servers have no such connection.
        if self.current.isEmpty { return socket }
        if let owner = self.owners[socket] { return owner }
        return self.current[socket] == nil ? socket : nil
    }

    /// Returns the present socket of a connection; `nil` if there is none.
    func socket(of id: ConnectionID) -> ConnectionID? {
        if self.current.isEmpty { return id }
        return self.current[id] ?? id
    }

    /// The connection has another socket, or none.
    mutating func move(_ id: ConnectionID, to socket: ConnectionID?) {
        if let earlier = self.current[id] ?? nil { self.owners[earlier] = nil }
        self.current.updateValue(socket, forKey: id)
        if let socket { self.owners[socket] = id }
    }

    /// The connection has ended.
    mutating func remove(_ id: ConnectionID) {
        if let socket = self.current.removeValue(forKey: id) ?? nil { self.owners[socket] = nil }
    }
}
