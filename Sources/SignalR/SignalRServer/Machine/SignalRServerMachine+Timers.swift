import RealtimeCore
import RealtimeSystem
import SignalRWire

/// Timers: handshakes, keep-alive, and what clients didn't use in time. Also the pausing of reading, which suspends a client's timeout.
extension SignalRServerMachine {
    mutating func timeout(now: Instant, _ effects: inout Effects<Self>) {
        // After a standstill, the client's connection may wait to be accepted.
        while let key = self.negotiationDeadlines.popPassed(now: now) { self.negotiations[key] = nil }
        while let due = self.connectionDeadlines.popDue(now) {
            switch self.connections.update(due.key, { $0.timer.fired(now: now) }) {
            case .due: self.timerFired(due.key, now: now, &effects)
            case .early(let reschedule): self.connectionDeadlines.set(due.key, reschedule)
            case .idle, nil: break
            }
        }
    }

    private mutating func timerFired(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        switch self.connections.update(id, { $0.state.timeout(now: now) }) {
        case .rejectHandshake: self.rejectHandshake(id, "Handshake was canceled.", .text, &effects)
        case .declareDead:
            let error = "Client hasn't sent a message/ping within the configured clientTimeout."
            self.close(id, error: error, allowReconnect: true, now: now, &effects)
        case .sendPing(let format): self.sendUncounted(HubMessageWriter.message(.ping, format), to: id, now: now, &effects)
        case .acknowledge(let message, let format):
            self.sendUncounted(HubMessageWriter.message(message, format), to: id, now: now, &effects)
        case .end(let reason): self.end(id, reason, now: now, &effects)
        case nil: break
        }
        self.updateTimer(id)
    }

    /// Sets the timer of a connection. Needed only when a deadline moves to an earlier time.
    mutating func updateTimer(_ id: ConnectionID) {
        guard let scheduled = self.connections.update(id, { $0.timer.setDeadline($0.state.nextDeadline) }) else { return }
        self.connectionDeadlines.set(id, scheduled)
    }

    // MARK: Reading

    /// Whether reading is paused follows from the state of the connection.
    mutating func reading(_ socket: ConnectionID, paused: Bool, now: Instant) {
        if let id = self.sockets.owner(of: socket) { self.updateHeartbeat(id, now: now) }
    }

    /// The server injects silence into a connection, or ends it.
    mutating func setSilent(_ socket: ConnectionID, _ isSilent: Bool, now: Instant) {
        guard let id = self.sockets.owner(of: socket), let wasSilent = self.connections[id]?.isSilent, wasSilent != isSilent else { return }
        self.connections.update(id) { $0.isSilent = isSilent }
        self.updateHeartbeat(id, now: now)
    }

    /// Pauses or resumes reading, if that changes, and sends the acknowledgment that is due, if there is one.
    mutating func updateReading(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        let configuration = self.configuration
        guard let step = self.connections.update(id, { $0.updateReading(configuration, now: now) }) else { return }
        if let (ack, format) = step.acknowledgment {
            self.sendUncounted(HubMessageWriter.message(ack, format), to: id, now: now, &effects)
        }
        if let timer = step.timer { self.connectionDeadlines.set(id, timer) }
        guard let isPaused = step.isPaused else { return }
        if let socket = self.sockets.socket(of: id) { effects.commands.append(.reading(socket, paused: isPaused)) }
        self.updateHeartbeat(id, now: now)
    }

    private mutating func updateHeartbeat(_ id: ConnectionID, now: Instant) {
        self.connections.update(id) { connection in
            let isSilent = connection.isSilent
            connection.state.updateEstablished { $0.heartbeat.reading(paused: isSilent || $0.isReadingPaused, now: now) }
        }
        self.updateTimer(id)
    }
}
