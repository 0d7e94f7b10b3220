import RealtimeCore
import RealtimeSystem
import SignalRWire

/// Stateful reconnect: connections that outlive their sockets.
///
/// Source: HubProtocol.md of ASP.NET Core, "Ack Message" and "Sequence Message".
extension SignalRServerMachine {
    // MARK: Sockets

    /// Whether a socket was lost, and its client may not know. A close frame is an orderly end, and a client that violates the protocol or
    /// exceeds a limit would do it again.
    static func isLoss(_ reason: CloseReason) -> Bool {
        guard case .transport(let error) = reason else { return false }
        return error.code != .protocolViolation && error.code != .tooLarge
    }

    /// The socket of a connection was lost. With stateful reconnect, the connection waits for another one.
    ///
    /// - Returns: `false` if it doesn't wait.
    mutating func interrupt(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) -> Bool {
        let interruption = Interruption(limit: PatientLimit(self.disconnectTimeout, now: now), reason: reason)
        guard self.connections.update(id, { $0.state.interrupt(interruption) }) == true, let connection = self.connections[id] else {
            return false
        }
        // Silence was that of the socket.
        self.connections.update(id) { $0.isSilent = false }
        self.sockets.move(id, to: nil)
        self.updateTimer(id)
        let hub = self.hubs[connection.hub.rawValue].path
        self.deliver(.interrupted(hub: hub, connectionID: connection.connectionID, reason), &effects)
        effects.log(.info, "The socket of the connection \(connection.connectionID) was lost: \(reason)")
        self.continueWriting(id, now: now, &effects)
        return true
    }

    /// A socket takes the place of the one that was lost, or of one that seems to be alive.
    ///
    /// - Returns: `false` if the connection can't continue. The caller closes the socket.
    mutating func resume(_ id: ConnectionID, on socket: ConnectionID, now: Instant, _ effects: inout Effects<Self>) -> Bool {
        let (limit, replaced) = (self.configuration.messageLimit, self.sockets.socket(of: id))
        guard let resumed = self.connections.update(id, { $0.state.resume(messageLimit: limit, now: now) }),
            let connection = self.connections[id], let established = connection.established
        else { return false }
        if let replaced { effects.commands.append(.close(replaced, .normal, reason: "")) }
        self.sockets.move(id, to: socket)
        effects.commands.append(.send(socket, HubMessageWriter.message(resumed.sequence, established.info.format)))
        for message in resumed.messages { effects.commands.append(.send(socket, message)) }
        if established.isReadingPaused { effects.commands.append(.reading(socket, paused: true)) }
        self.connections.update(id) { $0.isSilent = false }
        self.updateTimer(id)
        self.deliver(.resumed(hub: self.hubs[connection.hub.rawValue].path, connectionID: connection.connectionID), &effects)
        self.continueWriting(id, now: now, &effects)
        return true
    }

    // MARK: Messages

    /// Whether a message is handled, as without stateful reconnect. Otherwise, it was for the buffer, is a repetition, or arrived after an
    /// earlier one has closed the connection.
    mutating func passes(
        _ output: HubMessageReader.Output, from id: ConnectionID, now: Instant, _ effects: inout Effects<Self>
    ) -> Bool {
        switch self.connections.update(id, { $0.state.reception(of: output, now: now) }) {
        case .success(.handle): return true
        case nil, .success(.ignore): return false
        case .success(.resumeSending):
            self.continueWriting(id, now: now, &effects)
            return false
        case .failure(let error):
            effects.log(.info, "\(error)")
            // The text of ASP.NET Core.
            let text = "InvalidOperationException: Sequence ID greater than amount of messages we've received."
            self.close(id, error: "Connection closed with an error. \(text)", allowReconnect: true, now: now, &effects)
            return false
        }
    }
}
