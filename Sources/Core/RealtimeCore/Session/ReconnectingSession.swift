/// A session over a ``ConnectionStateMachine``: the part of a session machine that all protocols with reconnects share. A protocol adds
/// where to connect, how to ping, what a close means, and what ends with a connection.
package protocol ReconnectingSession: SessionMachine {
    var connection: ConnectionStateMachine { get set }
    var request: WebSocketRequest { get }
    func ping(now: Instant) -> WebSocketMessage
    /// Decides whether and when to reconnect after a close.
    mutating func decision(on reason: CloseReason, now: Instant) -> ReconnectDecision
    /// An attempt to connect is starting.
    mutating func opening(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>)
    /// A connection was lost or an attempt failed, or the session was stopped. Ends everything that depended on the connection.
    ///
    /// - Parameters:
    ///   - reason: The reason why the connection ended.
    ///   - next: The decision about the next attempt. It was made already, and `connection.state` agrees with it.
    mutating func lost(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>)
    /// A ping was sent.
    mutating func pinged(now: Instant)
    /// The session was stopped after it had ended. Callers that started to wait in between need a result. Does nothing by default.
    mutating func stopWhileStopped(_ effects: inout Effects<Self>)
}

extension ReconnectingSession {
    package mutating func start(now: Instant, _ effects: inout Effects<Self>) {
        switch self.connection.start(now: now) {
        case .none: break
        case .open(let id): self.open(id, now: now, &effects)
        case .replace(let old, let new):
            effects.commands.append(.abandon(old))
            self.open(new, now: now, &effects)
        }
    }

    package mutating func stop(now: Instant, _ effects: inout Effects<Self>) {
        switch self.connection.stop(now: now) {
        case .none: return self.stopWhileStopped(&effects)
        case .finishAndClose(let id): effects.commands.append(.close(id, .normal, reason: ""))
        case .finishAndAbandon(let id): effects.commands.append(.abandon(id))
        case .finish: break
        }
        self.handleLoss(.requested, then: .never, now: now, &effects)
    }

    package mutating func reading(_ id: ConnectionID, paused: Bool, now: Instant) {
        self.connection.reading(id, paused: paused, now: now)
    }

    package mutating func closed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        guard id == self.connection.current else { return }
        let decision = self.decision(on: reason, now: now)
        guard case .lost(let next) = self.connection.closed(id, reason, decision, now: now) else { return }
        self.handleLoss(reason, then: next, now: now, &effects)
    }

    package mutating func stopWhileStopped(_ effects: inout Effects<Self>) {}

    /// Handles the deadline of the connection.
    package mutating func connectionTimeout(now: Instant, _ effects: inout Effects<Self>) {
        switch self.connection.timeout(now: now) {
        case .none: break
        case .open(let id): self.open(id, now: now, &effects)
        case .sendPing(let id): self.sendPing(id, now: now, &effects)
        case .abandonClosing(let id): effects.commands.append(.abandon(id))
        case .abandon(let id, let reason, let next):
            effects.commands.append(.abandon(id))
            self.handleLoss(reason, then: next, now: now, &effects)
        }
    }

    package mutating func sendPing(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        effects.commands.append(.send(id, self.ping(now: now)))
        self.pinged(now: now)
    }

    private mutating func handleLoss(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        self.lost(reason, then: next, now: now, &effects)
        switch next {
        case .reconnect(let id): self.open(id, now: now, &effects)
        case .later: break
        case .never: effects.commands.append(.finish(reason))
        }
    }

    private mutating func open(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        self.opening(id, now: now, &effects)
        effects.commands.append(.open(id, self.request))
    }
}
