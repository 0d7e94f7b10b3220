/// What sessions over a ``ConnectionStateMachine`` do alike. A protocol adds its meanings: where to connect, how to
/// ping, what a close means, what is lost with a connection.
package protocol ReconnectingSession: SessionMachine {
    var connection: ConnectionStateMachine { get set }
    var request: WebSocketRequest { get }
    func ping(now: Instant) -> WebSocketMessage
    mutating func decision(on reason: CloseReason, now: Instant) -> ReconnectDecision
    /// An attempt begins, whoever wanted it.
    mutating func opening(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>)
    /// A connection, or an attempt at one, is gone: what hung on it is over. What follows is in `connection.state`.
    mutating func lost(_ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>)
    /// A ping was sent.
    mutating func pinged(now: Instant)
    /// It was stopped while it was over already: whoever has begun to wait since wants an answer.
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
        self.lost(.requested, now: now, &effects)
        effects.commands.append(.finish(.requested))
    }

    package mutating func reading(_ id: ConnectionID, paused: Bool, now: Instant) {
        self.connection.reading(id, paused: paused, now: now)
    }

    package mutating func closed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        guard id == self.connection.current else { return }
        let decision = self.decision(on: reason, now: now)
        switch self.connection.closed(id, reason, decision, now: now) {
        case .none: break
        case .reconnectLater: self.lost(reason, now: now, &effects)
        case .reconnect(let next):
            self.lost(reason, now: now, &effects)
            self.open(next, now: now, &effects)
        case .finish(let reason):
            self.lost(reason, now: now, &effects)
            effects.commands.append(.finish(reason))
        }
    }

    package mutating func stopWhileStopped(_ effects: inout Effects<Self>) {}

    /// What is due on the connection itself.
    package mutating func connectionTimeout(now: Instant, _ effects: inout Effects<Self>) {
        switch self.connection.timeout(now: now) {
        case .none: break
        case .open(let id): self.open(id, now: now, &effects)
        case .sendPing(let id): self.sendPing(id, now: now, &effects)
        case .abandonClosing(let id): effects.commands.append(.abandon(id))
        case .abandon(let id, let reason):
            effects.commands.append(.abandon(id))
            self.lost(reason, now: now, &effects)
        }
    }

    package mutating func sendPing(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        effects.commands.append(.send(id, self.ping(now: now)))
        self.pinged(now: now)
    }

    private mutating func open(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        self.opening(id, now: now, &effects)
        effects.commands.append(.open(id, self.request))
    }
}
