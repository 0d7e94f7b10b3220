import PusherWire
import RealtimeCore

/// Timers: when the server pings a client, and when it closes the connection of one that doesn't respond.
extension PusherServerMachine {
    mutating func timeout(now: Instant, _ effects: inout Effects<Self>) {
        while let pending = self.decisions.popTimedOut(now: now, &effects) { self.hookTimedOut(pending, now: now, &effects) }
        while let due = self.timers.popDue(now) { self.timerFired(due.key, now: now, &effects) }
        while let due = self.heartbeats.popDue(now) {
            switch self.updateEstablished(due.key, { $0.heartbeat.fired(now: now) }) {
            case .due:
                self.heartbeatTimedOut(due.key, stoodStill: due.instant.passedDuringStandstill(now: now), now: now, &effects)
            case .early(let reschedule): self.heartbeats.set(due.key, reschedule)
            case .idle, nil: break
            }
        }
    }

    private mutating func heartbeatTimedOut(_ id: ConnectionID, stoodStill: Bool, now: Instant, _ effects: inout Effects<Self>) {
        guard self.updateEstablished(id, { $0.pong.expect(stoodStill: stoodStill) }) == true else {
            return self.close(id, PusherCloseCode.pongMissing, "Pong reply not received in time", &effects)
        }
        if let ping { self.send(ping, to: id, &effects) }
        self.setHeartbeat(id, now + self.pongTimeout)
    }

    /// The state of a connection on which messages have arrived.
    enum Activity: Sendable { case establishing, established, rejected }

    /// Messages have arrived. Moves the heartbeat of an established connection.
    mutating func activity(on id: ConnectionID, now: Instant) -> Activity? {
        let deadline = now + self.activityTimeout
        var scheduled: Instant?
        let activity = self.connections.update(id) { connection -> Activity in
            switch connection.state {
            case .opening, .awaitingHook: return .establishing
            case .rejected: return .rejected
            case .established:
                // Moving a deadline to a later time does not touch the queue of all connections.
                scheduled = connection.state.updateEstablished { $0.messageReceived(heartbeatDeadline: deadline) }
                return .established
            }
        }
        if let scheduled { self.heartbeats.set(id, scheduled) }
        return activity
    }

    mutating func setHeartbeat(_ id: ConnectionID, _ instant: Instant) {
        // Without pings, a client that has nothing to say would seem to be lost.
        guard self.ping != nil, self.connections[id]?.isHeartbeatSuspended == false else { return }
        guard let scheduled = self.updateEstablished(id, { $0.heartbeat.setDeadline(instant) }) else { return }
        self.heartbeats.set(id, scheduled)
    }

    mutating func setSilent(_ id: ConnectionID, _ isSilent: Bool, now: Instant) { self.setSuspended(id, .silenced, isSilent, now: now) }
    mutating func reading(_ id: ConnectionID, paused: Bool, now: Instant) { self.setSuspended(id, .unread, paused, now: now) }

    /// Suspends or resumes the heartbeat of a connection. While it isn't read, or the server injects silence, a pong could not arrive.
    private mutating func setSuspended(_ id: ConnectionID, _ reason: HeartbeatSuspension, _ isPresent: Bool, now: Instant) {
        let isResumed = self.connections.update(id) { connection -> Bool in
            guard connection.suspension.contains(reason) != isPresent else { return false }
            let wasSuspended = connection.isHeartbeatSuspended
            // A connection that timed out has no heartbeat anymore. It is closing.
            let isActive = connection.state.updateEstablished { $0.heartbeat.isSet }
            if isPresent, !wasSuspended, isActive == false { return false }
            connection.suspension.set(reason, isPresent)
            guard connection.isHeartbeatSuspended != wasSuspended else { return false }
            guard isPresent else { return isActive != nil }
            connection.state.updateEstablished { established in
                established.pong = .none
                _ = established.heartbeat.setDeadline(nil)
            }
            return false
        }
        if isResumed == true { self.setHeartbeat(id, now + self.activityTimeout) }
    }
}
