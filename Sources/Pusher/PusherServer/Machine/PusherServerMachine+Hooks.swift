import PusherWire
import RealtimeCore

/// Hooks: what runs, what waits for a decision, and when the server stops waiting.
extension PusherServerMachine {
    mutating func run(_ work: Work, about pending: PendingHook, now: Instant, _ effects: inout Effects<Self>) -> WorkID {
        self.decisions.start(work, about: pending, limit: self.hooks.timeout, now: now, &effects)
    }

    mutating func workFinished(_ id: WorkID, _ decision: PusherServerDecision, now: Instant, _ effects: inout Effects<Self>) {
        guard let pending = self.decisions.decided(id) else { return }
        self.decided(decision, about: pending, now: now, &effects)
    }

    /// Rejects what the hook was to decide about, so that its client doesn't wait forever.
    mutating func hookTimedOut(_ pending: PendingHook, now: Instant, _ effects: inout Effects<Self>) {
        // A connection is closed with a code that lets the client try again.
        let (name, code): (String, Int?) =
            switch pending {
            case .connection: ("authorizeConnection", Int(PusherCloseCode.overCapacity.rawValue))
            case .subscription: ("authorizeSubscription", nil)
            case .clientEvent: ("authorizeClientEvent", nil)
            }
        effects.log(.warning, "The hook \(name) did not respond within \(self.hooks.timeout).")
        self.decided(.reject(code: code, message: "The server did not decide in time"), about: pending, now: now, &effects)
    }

    private mutating func decided(
        _ decision: PusherServerDecision, about pending: PendingHook, now: Instant, _ effects: inout Effects<Self>
    ) {
        switch pending {
        case .connection(let connection): self.decided(decision, aboutConnection: connection, now: now, &effects)
        case .subscription(let attempt): self.decided(decision, aboutSubscription: attempt, now: now, &effects)
        case .clientEvent(let connection): self.decided(decision, aboutClientEventOf: connection, now: now, &effects)
        }
    }

    /// Whether the subscriptions and client events of a connection that wait for a hook have reached their limit.
    mutating func isPendingLimitReached(_ id: ConnectionID, _ effects: inout Effects<Self>) -> Bool {
        guard let count = self.updateEstablished(id, { $0.pendingCount }), count >= max(1, self.hooks.pendingLimit) else { return false }
        self.logLimit("\(self.hooks.pendingLimit) subscriptions and client events that wait for a hook", id, &effects)
        return true
    }

    /// Logs that a client has exceeded a limit.
    func logLimit(_ limit: @autoclosure () -> String, _ id: ConnectionID, _ effects: inout Effects<Self>) {
        effects.log(.info, "\(self.connections[id]?.socketID ?? "A client") exceeded the limit of \(limit()).")
    }
}
