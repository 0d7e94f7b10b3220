import PusherWire
import RealtimeCore

/// Timers: when the server pings a client, and when it closes the connection of one that doesn't respond.
extension PusherServerMachine {
    mutating func timeout(now: Instant, _ effects: inout Effects<Self>) {
        while let due = self.hookDeadlines.popDue(now) { self.hookTimedOut(due.key, now: now, &effects) }
        while let due = self.timers.popDue(now) { self.timerFired(due.key, now: now, &effects) }
        while let due = self.heartbeats.popDue(now) {
            switch self.connections[due.key]?.established?.heartbeat.fired(now: now) {
            case .due: self.heartbeatTimedOut(due.key, now: now, &effects)
            case .early(let reschedule): self.heartbeats.set(due.key, reschedule)
            case .idle, nil: break
            }
        }
    }

    private mutating func heartbeatTimedOut(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        if self.connections[id]!.established?.isAwaitingPong == true {
            self.close(id, PusherCloseCode.pongMissing, "Pong reply not received in time", &effects)
        } else {
            self.connections[id]!.established?.isAwaitingPong = true
            if let ping { self.send(ping, to: id, &effects) }
            self.setHeartbeat(id, now + self.pongTimeout)
        }
    }

    /// Moving a deadline to a later time does not touch the queue of all connections.
    mutating func resetHeartbeat(_ id: ConnectionID, now: Instant) {
        let deadline = now + self.activityTimeout
        guard let scheduled = self.connections[id]?.established?.messageReceived(heartbeatDeadline: deadline) else { return }
        self.heartbeats.set(id, scheduled)
    }

    mutating func setHeartbeat(_ id: ConnectionID, _ instant: Instant) {
        // Without pings, a client that has nothing to say would seem to be lost.
        guard self.ping != nil, self.connections[id]?.isHeartbeatSuspended == false else { return }
        guard let scheduled = self.connections[id]?.established?.heartbeat.setDeadline(instant) else { return }
        self.heartbeats.set(id, scheduled)
    }

    /// Suspends or resumes the heartbeat of a connection. While it isn't read, a pong could not arrive.
    mutating func suspendHeartbeat(_ id: ConnectionID, _ isSuspended: Bool, now: Instant) {
        guard let connection = self.connections[id], connection.isHeartbeatSuspended != isSuspended else { return }
        let heartbeat = connection.established?.heartbeat
        // A connection that timed out has no heartbeat anymore. It is closing.
        if isSuspended, heartbeat?.isSet == false { return }
        self.connections[id]!.isHeartbeatSuspended = isSuspended
        guard heartbeat != nil else { return }
        if isSuspended {
            self.connections[id]!.established?.isAwaitingPong = false
            _ = self.connections[id]!.established?.heartbeat.setDeadline(nil)
        } else {
            self.setHeartbeat(id, now + self.activityTimeout)
        }
    }
}
