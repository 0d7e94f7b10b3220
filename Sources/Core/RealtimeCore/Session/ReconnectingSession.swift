/// A session over a ``ConnectionStateMachine``: the part of a session machine that all protocols with reconnects share. A protocol adds
/// where to connect, how to ping, what an end means, and what ends with a connection.
package protocol ReconnectingSession: SessionMachine {
    var connection: ConnectionStateMachine { get set }
    /// The connection to open.
    var request: Request { get }
    func ping(now: Instant) -> WebSocketMessage
    /// Decides whether and when to reconnect after a close or a timeout. Not called for the end of a connection that was stopped.
    mutating func decision(on reason: CloseReason, now: Instant) -> ReconnectDecision
    /// An attempt to connect is starting. Not called when an attempt is continued on another connection.
    mutating func opening(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>)
    /// Begins to establish a connection: opens it now, which is the default, or emits work, such as a negotiation, and opens it when the
    /// result is known. The time limit of the attempt applies to the work as well. If the work fails, call `closed`.
    mutating func begin(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>)
    /// A connection was lost or an attempt failed, or the session was stopped. Ends everything that depended on the connection.
    ///
    /// - Parameters:
    ///   - reason: The reason why the connection ended.
    ///   - next: The decision about the next attempt. It was made already, and `connection.state` agrees with it. If it is `undecided`,
    ///     emit work that asks for the decision, and call ``decided(_:_:now:_:)`` with the result.
    mutating func lost(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>)
    /// The decision that ``lost(_:then:now:_:)`` left open was made. Does nothing by default.
    mutating func resolved(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>)
    /// A connection ended that the protocol opened in addition to the current one. Does nothing by default.
    mutating func additionalClosed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>)
    /// A ping was sent.
    mutating func pinged(_ message: WebSocketMessage, now: Instant, _ effects: inout Effects<Self>)
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

    package mutating func stop(now: Instant, _ effects: inout Effects<Self>) { self.stopConnection(now: now, &effects) }

    /// Stops the session. A protocol that sends a message before it closes the connection implements `stop`, and then calls this method.
    package mutating func stopConnection(now: Instant, _ effects: inout Effects<Self>) {
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

    /// Handles the end of a connection: a close, a timeout, or a failure of the work that preceded the connection.
    package mutating func closed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        guard id == self.connection.current else { return self.additionalClosed(id, reason, now: now, &effects) }
        // The end of a connection that was stopped is the peer's response. A protocol that counts attempts must not count it as a failed one.
        let decision = self.connection.isClosing ? .never : self.decision(on: reason, now: now)
        switch self.connection.closed(id, reason, decision, now: now) {
        case .none: break
        case .lost(let next): self.handleLoss(reason, then: next, now: now, &effects)
        case .reopen(let new): self.begin(new, now: now, &effects)
        }
    }

    /// Follows the decision that ``lost(_:then:now:_:)`` left open. Has no effect if the session was stopped or started in the meantime.
    package mutating func decided(_ id: ConnectionID, _ decision: ReconnectDecision, now: Instant, _ effects: inout Effects<Self>) {
        guard let (reason, next) = self.connection.decided(id, decision, now: now) else { return }
        self.resolved(reason, then: next, now: now, &effects)
        self.follow(next, reason, now: now, &effects)
    }

    /// Abandons the connection of the current attempt and continues with another one.
    package mutating func reopen(now: Instant, _ effects: inout Effects<Self>) {
        guard let old = self.connection.current, let new = self.connection.reopen(now: now) else { return }
        effects.commands.append(.abandon(old))
        self.begin(new, now: now, &effects)
    }

    package mutating func begin(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        effects.commands.append(.open(id, self.request))
    }

    package mutating func resolved(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {}

    package mutating func additionalClosed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {}

    package mutating func stopWhileStopped(_ effects: inout Effects<Self>) {}

    /// Handles the deadline of the connection.
    package mutating func connectionTimeout(now: Instant, _ effects: inout Effects<Self>) {
        switch self.connection.timeout(now: now) {
        case .none: break
        case .open(let id): self.open(id, now: now, &effects)
        case .sendPing(let id): self.sendPing(id, now: now, &effects)
        case .abandonClosing(let id): effects.commands.append(.abandon(id))
        case .end(let id, let reason):
            effects.commands.append(.abandon(id))
            self.closed(id, reason, now: now, &effects)
        case .decide(let id): self.decided(id, .afterBackoff(), now: now, &effects)
        }
    }

    /// Checks the connection now; see ``ConnectionStateMachine/check(timeout:now:)``.
    package mutating func checkConnection(timeout: Duration, now: Instant, _ effects: inout Effects<Self>) {
        switch self.connection.check(timeout: timeout, now: now) {
        case .none: break
        case .open(let id): self.open(id, now: now, &effects)
        case .sendPing(let id): self.sendPing(id, now: now, &effects)
        }
    }

    package mutating func sendPing(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        let message = self.ping(now: now)
        effects.commands.append(.send(id, message))
        self.pinged(message, now: now, &effects)
    }

    private mutating func handleLoss(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        self.lost(reason, then: next, now: now, &effects)
        self.follow(next, reason, now: now, &effects)
    }

    private mutating func follow(_ next: NextAttempt, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        switch next {
        case .reconnect(let id): self.open(id, now: now, &effects)
        case .later, .undecided: break
        case .never: effects.commands.append(.finish(reason))
        }
    }

    private mutating func open(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        self.opening(id, now: now, &effects)
        self.begin(id, now: now, &effects)
    }
}
