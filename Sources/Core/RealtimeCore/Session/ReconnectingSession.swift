/// The reason why a connection ended, as a protocol sees it.
package protocol ConnectionEnding: Sendable {
    /// The reason without the protocol's own knowledge.
    var reason: CloseReason { get }
}

extension CloseReason: ConnectionEnding {
    package var reason: CloseReason { self }
}

/// A session over a ``ConnectionStateMachine``: the part of a session machine that all protocols with reconnects share. A protocol adds
/// where to connect, how to ping, what an end means, and what ends with a connection.
package protocol ReconnectingSession: SessionMachine {
    /// Why a connection ended. A protocol that knows more than a ``CloseReason`` when it ends a connection itself, such as the error for its
    /// callers, has a type of its own.
    associatedtype Ending: ConnectionEnding = CloseReason

    var connection: ConnectionStateMachine { get set }
    /// The connection to open.
    var request: Request { get }
    /// The message that keeps the connection alive. The peer needn't answer it.
    func ping(now: Instant) -> TransportMessage
    /// The message that the peer answers if it is alive. The same as ``ping(now:)`` by default.
    func probe(now: Instant) -> TransportMessage
    /// Returns the ending for a reason that the transport, a time limit or a call of `stop` determined. Called once for each of these ends,
    /// while the state is still the one before the end.
    func ending(for reason: CloseReason, now: Instant) -> Ending
    /// Decides whether and when to reconnect after a close or a timeout. Not called for the end of a connection that was stopped.
    mutating func decision(on ending: Ending, now: Instant) -> ReconnectDecision
    /// An attempt to connect is starting. Not called when an attempt is continued on another connection.
    mutating func opening(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>)
    /// Begins to establish a connection: opens it now, which is the default, or emits work, such as a negotiation, and opens it when the
    /// result is known. The time limit of the attempt applies to the work as well. If the work fails, call `closed` or `end`.
    mutating func begin(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>)
    /// The socket of the established connection was lost, or an attempt to resume the connection failed, and another one follows, now or after
    /// a pause. Nothing ends, and nothing is reported. Called only after a decision `resume`; does nothing by default.
    mutating func resuming(_ ending: Ending, now: Instant, _ effects: inout Effects<Self>)
    /// Begins an attempt to resume the established connection: opens it, which is the default.
    mutating func beginResuming(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>)
    /// Returns why the connection is lost that can't be resumed: the reason why its socket was lost is usually of more interest than why the
    /// last attempt failed. Returns the latter by default.
    func loss(afterFailedResume ending: Ending) -> Ending
    /// A connection was lost or an attempt failed, or the session was stopped. Ends everything that depended on the connection.
    ///
    /// - Parameters:
    ///   - ending: The reason why the connection ended.
    ///   - next: The decision about the next attempt. It was made already, and `connection.state` agrees with it. If it is `undecided`,
    ///     emit work that asks for the decision, and call ``decided(_:_:now:_:)`` with the result.
    mutating func lost(_ ending: Ending, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>)
    /// The decision that ``lost(_:then:now:_:)`` left open was made. Does nothing by default.
    mutating func resolved(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>)
    /// A connection ended that the protocol opened in addition to the current one. Does nothing by default.
    mutating func additionalClosed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>)
    /// A ping or a probe was sent. Does nothing by default.
    mutating func pinged(_ message: TransportMessage, now: Instant, _ effects: inout Effects<Self>)
    /// The session was stopped after it had ended. Callers that started to wait in between need a result. Does nothing by default.
    mutating func stopWhileStopped(_ effects: inout Effects<Self>)
}

extension ReconnectingSession where Ending == CloseReason {
    package func ending(for reason: CloseReason, now: Instant) -> CloseReason { reason }
}

extension ReconnectingSession {
    package mutating func start(now: Instant, _ effects: inout Effects<Self>) {
        switch self.connection.start(now: now) {
        case .none: break
        case .open(let id, let earlier):
            if let earlier { effects.commands.append(.abandon(earlier)) }
            self.open(id, now: now, &effects)
        }
    }

    package mutating func stop(now: Instant, _ effects: inout Effects<Self>) { self.stopConnection(now: now, &effects) }

    /// Stops the session. A protocol that sends a message before it closes the connection implements `stop`, and then calls this method.
    package mutating func stopConnection(now: Instant, _ effects: inout Effects<Self>) {
        let ending = self.ending(for: .requested, now: now)
        switch self.connection.stop(now: now) {
        case .none: return self.stopWhileStopped(&effects)
        case .finishAndClose(let id): effects.commands.append(.close(id, .normal, reason: ""))
        case .finishAndAbandon(let id): effects.commands.append(.abandon(id))
        case .finish: break
        }
        self.handleLoss(ending, then: .never, now: now, &effects)
    }

    package mutating func receivedPart(_ id: ConnectionID, byteCount: Int, now: Instant) {
        self.connection.receivedPart(id, byteCount: byteCount, now: now)
    }

    package mutating func reading(_ id: ConnectionID, paused: Bool, now: Instant) {
        self.connection.reading(id, paused: paused, now: now)
    }

    /// Handles an end that the transport or a time limit reports.
    package mutating func closed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {
        if self.connection.hasLeft(id) { return }
        guard id == self.connection.current else { return self.additionalClosed(id, reason, now: now, &effects) }
        self.end(id, self.ending(for: reason, now: now), now: now, &effects)
    }

    /// Handles the end of the current connection or attempt, for a reason of the protocol's own: it has closed or abandoned the connection, or
    /// the work that preceded the connection failed. Has no effect if `id` isn't the current connection.
    package mutating func end(_ id: ConnectionID, _ ending: Ending, now: Instant, _ effects: inout Effects<Self>) {
        guard id == self.connection.current else { return }
        // The end of a connection that was stopped is the peer's response. A protocol that counts attempts must not count it as a failed one.
        let decision = self.connection.isClosing ? .never : self.decision(on: ending, now: now)
        var ending = ending
        if self.connection.isResuming, !decision.isResume { ending = self.loss(afterFailedResume: ending) }
        switch self.connection.closed(id, ending.reason.withoutCause, decision, now: now) {
        case .none: break
        case .resume(let attempt):
            self.resuming(ending, now: now, &effects)
            if let attempt { self.beginResuming(attempt, now: now, &effects) }
        case .lost(let next): self.handleLoss(ending, then: next, now: now, &effects)
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

    package mutating func resuming(_ ending: Ending, now: Instant, _ effects: inout Effects<Self>) {}

    package mutating func beginResuming(_ id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        effects.commands.append(.open(id, self.request))
    }

    package func loss(afterFailedResume ending: Ending) -> Ending { ending }

    package func probe(now: Instant) -> TransportMessage { self.ping(now: now) }

    package mutating func resolved(_ reason: CloseReason, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {}

    package mutating func additionalClosed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {}

    package mutating func pinged(_ message: TransportMessage, now: Instant, _ effects: inout Effects<Self>) {}

    package mutating func stopWhileStopped(_ effects: inout Effects<Self>) {}

    package var nextDeadline: Instant? { self.connection.nextDeadline }

    package mutating func timeout(now: Instant, _ effects: inout Effects<Self>) { self.connectionTimeout(now: now, &effects) }

    /// Handles the deadline of the connection. A protocol with further deadlines implements `timeout`, and calls this method when that of the
    /// connection has passed.
    package mutating func connectionTimeout(now: Instant, _ effects: inout Effects<Self>) {
        if let id = self.connection.leavingTimeout(now: now) { effects.commands.append(.abandon(id)) }
        switch self.connection.timeout(now: now) {
        case .none: break
        case .open(let id): self.open(id, now: now, &effects)
        case .resume(let id): self.beginResuming(id, now: now, &effects)
        case .sendPing(let id): self.send(self.ping(now: now), on: id, now: now, &effects)
        case .sendProbe(let id): self.send(self.probe(now: now), on: id, now: now, &effects)
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
        case .resume(let id): self.beginResuming(id, now: now, &effects)
        case .sendProbe(let id): self.send(self.probe(now: now), on: id, now: now, &effects)
        }
    }

    private mutating func send(_ message: TransportMessage, on id: ConnectionID, now: Instant, _ effects: inout Effects<Self>) {
        effects.commands.append(.send(id, message))
        self.pinged(message, now: now, &effects)
    }

    private mutating func handleLoss(_ ending: Ending, then next: NextAttempt, now: Instant, _ effects: inout Effects<Self>) {
        self.lost(ending, then: next, now: now, &effects)
        self.follow(next, ending.reason, now: now, &effects)
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
