import RealtimeCore
import RealtimeSystem
import SignalRWire

/// Timers: handshakes, keep-alive, and what clients didn't use in time. Also the pausing of reading, which suspends a client's timeout.
extension SignalRServerMachine {
    mutating func timeout(now: Instant, _ effects: inout Effects<Self>) {
        while let due = self.negotiationDeadlines.popDue(now) { self.negotiations[due.key] = nil }
        while let due = self.admissionDeadlines.popDue(now) {
            self.admissions[due.companion]?.removeAll { $0.number == due.key }
            if self.admissions[due.companion]?.isEmpty == true { self.admissions[due.companion] = nil }
        }
        while let due = self.connectionDeadlines.popDue(now) {
            switch self.connections[due.key]?.timer.fired(now: now) {
            case .due: self.timerFired(due.key, now: now, &effects)
            case .early(let reschedule): self.connectionDeadlines.set(due.key, reschedule)
            case .idle, nil: break
            }
        }
    }

    private mutating func timerFired(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        switch self.connections[id]?.stage {
        case .handshaking(let deadline):
            if deadline <= now { self.rejectHandshake(id, "Handshake was canceled.", .text, &effects) }
        case .connected:
            switch self.connections[id]?.established?.heartbeat.timeout(now: now) {
            case .declareDead:
                let error = "Client hasn't sent a message/ping within the configured clientTimeout."
                self.close(id, error: error, allowReconnect: true, now: now, &effects)
            case .sendPing:
                guard let format = self.connections[id]?.established?.info.format else { break }
                effects.commands.append(.send(id, HubMessageWriter.message(.ping, format)))
            case .some(.none), nil: break
            }
        case .closing, .ended, nil: break
        }
        self.updateTimer(id)
    }

    /// Sets the timer of a connection. Needed only when a deadline moves to an earlier time.
    mutating func updateTimer(_ id: ConnectionID) {
        guard let connection = self.connections[id] else { return }
        let deadline: Instant? =
            switch connection.stage {
            case .handshaking(let deadline): deadline
            case .connected: connection.established?.heartbeat.nextDeadline
            case .closing, .ended: nil
            }
        guard let scheduled = self.connections[id]?.timer.setDeadline(deadline) else { return }
        self.connectionDeadlines.set(id, scheduled)
    }

    // MARK: Reading

    /// Never called with `paused`, since no consumer of the server's events makes the driver wait.
    mutating func reading(_ id: ConnectionID, paused: Bool, now: Instant) { self.updateHeartbeat(id, now: now) }

    /// The server injects silence into a connection, or ends it.
    mutating func setSilent(_ id: ConnectionID, _ isSilent: Bool, now: Instant) {
        guard let connection = self.connections[id], connection.isSilent != isSilent else { return }
        self.connections[id]?.isSilent = isSilent
        self.updateHeartbeat(id, now: now)
    }

    /// Pauses or resumes reading, depending on how much of what was read waits for the user's code.
    ///
    /// Reading continues while a method waits for a result of the client, which may be behind what fills the buffers.
    mutating func updateReading(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        guard let established = self.connections[id]?.established, case .connected = self.connections[id]?.stage else { return }
        let share = established.isReadingPaused ? 2 : 1
        let isOverloaded =
            established.queue.count > max(0, self.configuration.pendingInvocationLimit) / share
            || established.queuedBytes > max(0, self.configuration.invocationBufferLimit) / share
            || established.bufferedBytes > max(0, self.configuration.streamBufferLimit) / share
        let isPaused = isOverloaded && established.results.isEmpty
        guard isPaused != established.isReadingPaused else { return }
        self.connections[id]?.established?.isReadingPaused = isPaused
        self.updateHeartbeat(id, now: now)
        self.run(.updateReading(id), &effects)
    }

    private mutating func updateHeartbeat(_ id: ConnectionID, now: Instant) {
        guard let connection = self.connections[id], let established = connection.established else { return }
        let isPaused = connection.isSilent || established.isReadingPaused
        self.connections[id]?.established?.heartbeat.reading(paused: isPaused, now: now)
        self.updateTimer(id)
    }
}
