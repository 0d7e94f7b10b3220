import RealtimeCore
import RealtimeSystem
import SignalRWire

/// The connections to which a message is sent.
enum HubTarget: Hashable, Sendable {
    case all(except: [String])
    case connections([String])
    case groups([String], except: [String])
    case users([String])
}

/// Sending to groups of connections.
extension SignalRServerMachine {
    /// The formats of a hub's connections.
    func formats(of hub: HubID) -> [HubFormat] {
        HubFormat.allCases.filter { self.hubs[hub.rawValue].formats[$0, default: 0] > 0 }
    }

    func format(of connectionID: String, _ hub: HubID) -> HubFormat? {
        let id = self.hubs[hub.rawValue].connections[ByteString(connectionID)]
        return id.flatMap { self.connections[$0]?.format }
    }

    /// Returns the connection of any hub with an ID, after its handshake.
    func establishedConnection(named connectionID: String) -> ConnectionID? {
        let key = ByteString(connectionID)
        return self.hubs.lazy.compactMap { $0.connections[key] }.first
    }

    /// Returns the socket of the connection with an ID, which the driver knows.
    func connection(named connectionID: String) -> ConnectionID? {
        self.establishedConnection(named: connectionID).flatMap { self.sockets.socket(of: $0) }
    }

    /// Sends a message to several connections.
    ///
    /// - Parameter messages: The message in each format. A connection with another one is newer than the call, and doesn't receive it.
    mutating func send(
        _ messages: [HubFormat: TransportMessage], to target: HubTarget, of hub: HubID, now: Instant, _ effects: inout Effects<Self>
    ) {
        let limit = self.storedByteLimit
        for id in self.recipients(target, hub).sorted() {
            let sent = self.updateConnected(id) { established -> (step: Established.SendStep, message: TransportMessage)? in
                guard let message = messages[established.info.format] else { return nil }
                return (established.send(message, limit: limit, now: now), message)
            }
            if let sent { self.perform(sent.step, sent.message, id, now: now, &effects) }
        }
    }

    /// Sends a message to one connection.
    ///
    /// - Returns: `false` if the message wasn't sent, because much output waits for the client. Wait before sending it.
    mutating func send(
        _ message: TransportMessage, to connectionID: String, of hub: HubID, now: Instant, _ effects: inout Effects<Self>
    ) -> Bool {
        guard let id = self.hubs[hub.rawValue].connections[ByteString(connectionID)] else { return true }
        let limit = self.storedByteLimit
        var step: Established.SendStep?
        let mustWait = self.updateConnected(id) { established -> Bool in
            if !established.mustWait { step = established.send(message, limit: limit, now: now) }
            return established.mustWait && step == nil
        }
        if let step { self.perform(step, message, id, now: now, &effects) }
        return mustWait != true
    }

    /// Resumes a caller when a client has caught up with what was sent to it.
    mutating func awaitWriting(_ connectionID: String, of hub: HubID, _ waiter: WaiterID, _ effects: inout Effects<Self>) {
        guard let id = self.hubs[hub.rawValue].connections[ByteString(connectionID)] else {
            return effects.resume(waiter, .failure(.disconnected))
        }
        self.awaitWriting(id, waiter, &effects)
    }

    private func recipients(_ target: HubTarget, _ hub: HubID) -> Set<ConnectionID> {
        let hub = self.hubs[hub.rawValue]
        func ids(_ connectionIDs: [String]) -> [ConnectionID] { connectionIDs.compactMap { hub.connections[ByteString($0)] } }
        switch target {
        case .all(let excluded): return Set(hub.connections.values).subtracting(ids(excluded))
        case .connections(let connectionIDs): return Set(ids(connectionIDs))
        case .groups(let names, let excluded):
            let members = names.reduce(into: Set<ConnectionID>()) { $0.formUnion(hub.groups[ByteString($1)] ?? []) }
            return members.subtracting(ids(excluded))
        case .users(let userIDs): return userIDs.reduce(into: []) { $0.formUnion(hub.users[ByteString($1)] ?? []) }
        }
    }

    /// - Returns: The IDs that the application knows, sorted.
    func connectionIDs(_ target: HubTarget, _ hub: HubID) -> [String] {
        self.recipients(target, hub).compactMap { self.connections[$0]?.connectionID }.sorted()
    }

    // MARK: Groups

    mutating func add(_ connectionID: String, to group: String, of hub: HubID) {
        guard let id = self.hubs[hub.rawValue].connections[ByteString(connectionID)] else { return }
        let name = ByteString(group)
        self.updateEstablished(id) { $0.groups.insert(name) }
        self.hubs[hub.rawValue].groups[name, default: []].insert(id)
    }

    mutating func remove(_ connectionID: String, from group: String, of hub: HubID) {
        guard let id = self.hubs[hub.rawValue].connections[ByteString(connectionID)] else { return }
        let name = ByteString(group)
        self.updateEstablished(id) { $0.groups.remove(name) }
        Self.remove(id, name, from: &self.hubs[hub.rawValue].groups)
    }
}
