/// The timing rules of a connection.
package struct ConnectionPolicy: Sendable, Hashable {
    /// The time limit from the start of an attempt until the protocol's handshake is complete.
    package var openTimeout: Duration = .seconds(15)
    /// The time limit for the protocol's handshake, from when the connection is open. `nil` if only ``openTimeout`` applies, which applies
    /// in any case.
    package var handshakeTimeout: Duration?
    /// The time limit for a decision that the protocol has to ask for. After it, the connection is re-established after a backoff. `nil` to
    /// wait for the decision without a limit, for example because it is the application's.
    package var decisionTimeout: Duration? = .seconds(30)
    /// The time limit for the peer's response to a close.
    package var closeTimeout: Duration = .seconds(5)
    /// The time after which a connection counts as stable, which resets the failure counts.
    package var stableAfter: Duration = .seconds(30)
    /// The maximum number of immediate reconnects in a row. Further reconnects back off, so that a server that accepts connections and
    /// closes them right away isn't flooded with attempts.
    package var maximumImmediateReconnects = 3
    package var backoff = Backoff()

    package init() {}
}

/// The decision of a *protocol* about whether and when to reconnect: only the protocol knows what a close code such as 4001 means.
package enum ReconnectDecision: Hashable, Sendable {
    case never
    /// Reconnect now, unless there were too many immediate reconnects in a row.
    case immediately
    /// Reconnect after a random delay that increases with each failure.
    case afterBackoff(atLeast: Duration = .zero)
    /// Reconnect after exactly this delay.
    case after(Duration)
    /// Continue the attempt with another connection, for example over another transport. Nothing counts as a failure. An established
    /// connection has no attempt to continue, and is re-established immediately.
    case reopen
    /// The decision isn't made yet, for example because it is the application's. The connection waits for
    /// ``ConnectionStateMachine/decided(_:_:now:)``.
    case ask
}

/// The next step after the loss of a connection or the failure of an attempt.
package enum NextAttempt: Hashable, Sendable {
    /// The next attempt starts now and has this number.
    case reconnect(ConnectionID)
    /// The next attempt starts at this time.
    case later(until: Instant)
    /// The decision is made later. It refers to the loss of this connection.
    case undecided(ConnectionID)
    /// No further attempt is made until the next `start`.
    case never
}

/// The life cycle of one logical connection, as a value without I/O, tasks, clock or knowledge of a protocol.
///
/// ```
///   idle ────start────▶ opening ────opened────▶ handshaking ────ready────▶ connected ⟲ timeout, check: ping, probe
///                       ▲ ▲ │ ⟲ reopen               │ ⟲ reopen               │ ⟲ replace
///                       │ │ │ closed, timeout        │ closed, timeout        │ closed, timeout: dead
/// timeout, start, check │ │ ▼                        ▼                        ▼
///   backingOff ─────────┘ └─ immediately ◀── the protocol decides ◀───────────┘ ◀── decided, timeout ── deciding
///       ▲                                       │     │     │                                              ▲
///       └───────── afterBackoff, after ─────────┘     │     └───────────────────── ask ────────────────────┘
///                                                     └── never ──▶ closed
///
///   stop:   idle, backingOff, deciding, opening ──▶ closed   (without a close frame; an attempt is abandoned)
///           handshaking, connected              ──▶ closing  (reported as ended immediately; the socket sends a close frame)
///           closing, closed                     ──▶ unchanged
///   closing ──closed, timeout──▶ closed                      (not reported: the end was reported at `stop`)
///   closing ──start──▶ opening                               (the old connection leaves: it closes beside the new one)
///   closed  ──start──▶ opening                               (with a new number; failure counts are reset)
///   deciding ──start, check──▶ opening                       (without the decision)
///   restart: backingOff, deciding                   ──▶ opening   (failure counts are reset)
///            opening, handshaking, connected        ──▶ opening   (with a new number; the old connection is closed or abandoned)
///            idle, closing, closed                  ──▶ unchanged
/// ```
/// A timeout is an end like any other: ``timeout(now:)`` reports it, and ``closed(_:_:_:now:)`` follows with the decision of the protocol.
/// Transitions that aren't shown have no effect.
///
/// Attempts are numbered. Events with the number of another attempt are late events of an abandoned socket and are ignored.
/// Every state that waits for the peer has a deadline. The failure counts are reset only after a connection was stable for a while.
/// Otherwise, a server that accepts connections and closes them right away would be contacted again without delay.
package struct ConnectionStateMachine: Sendable {
    @usableFromInline
    package enum State: Sendable {
        case idle
        case opening(ConnectionID, deadline: Instant)
        case handshaking(ConnectionID, deadline: Instant)
        case connected(ConnectionID, Heartbeat, since: Instant)
        case backingOff(until: Instant)
        /// The connection was lost for this reason, and the protocol hasn't decided yet.
        case deciding(ConnectionID, CloseReason, deadline: Instant?)
        case closing(ConnectionID, deadline: Instant)
        case closed(CloseReason)
    }

    @usableFromInline package private(set) var state: State = .idle
    /// The timing rules. A change applies to deadlines that are set afterwards.
    package var sharedPolicy: Shared<ConnectionPolicy>
    package var policy: ConnectionPolicy { _read { yield self.sharedPolicy.value } }
    private var generator: SplitMix64
    private var counter = ConnectionCounter()
    /// The newest connection or attempt, if there was one.
    package var newest: ConnectionID? { self.counter.newest }
    /// The number of failures in a row that were followed by a delay.
    package private(set) var failures = 0
    private var immediateReconnects = 0
    /// The connection that was stopped before the last start, and closes beside the next one. Its end was reported at `stop`.
    private var leaving: (id: ConnectionID, deadline: Instant)?

    package init(policy: ConnectionPolicy = ConnectionPolicy(), generator: SplitMix64) {
        self.init(policy: Shared(policy), generator: generator)
    }

    package init(policy: Shared<ConnectionPolicy>, generator: SplitMix64) {
        self.sharedPolicy = policy
        self.generator = generator
    }

    /// When to call ``timeout(now:)``, after ``leavingTimeout(now:)``.
    package var nextDeadline: Instant? { .earliest(self.stateDeadline, self.leaving?.deadline) }

    private var stateDeadline: Instant? {
        switch self.state {
        case .opening(_, let deadline), .handshaking(_, let deadline), .closing(_, let deadline): deadline
        case .deciding(_, _, let deadline): deadline
        case .backingOff(let until): until
        case .connected(_, let heartbeat, _): heartbeat.nextDeadline
        case .idle, .closed: nil
        }
    }

    /// The connection whose handshake is complete, if any.
    @inlinable package var connected: ConnectionID? {
        if case .connected(let id, _, _) = self.state { id } else { nil }
    }

    /// The connection or attempt whose events are handled, if any.
    @inlinable package var current: ConnectionID? {
        switch self.state {
        case .opening(let id, _), .handshaking(let id, _), .connected(let id, _, _), .closing(let id, _): id
        case .idle, .backingOff, .deciding, .closed: nil
        }
    }

    /// Whether the connection was stopped, and the peer hasn't responded to the close.
    package var isClosing: Bool { if case .closing = self.state { true } else { false } }

    package enum StartAction: Equatable, Sendable {
        case none
        /// Connect with a new connection. Drop the socket of one that has been leaving since an earlier start.
        case open(ConnectionID, abandoning: ConnectionID? = nil)
    }

    package mutating func start(now: Instant) -> StartAction {
        switch self.state {
        case .idle, .closed:
            self.resetFailures()
            return .open(self.open(now: now))
        case .backingOff, .deciding:
            return .open(self.open(now: now))
        case .closing(let id, let deadline):
            self.resetFailures()
            let earlier = self.leaving
            self.leaving = (id, deadline)
            return .open(self.open(now: now), abandoning: earlier?.id)
        case .opening, .handshaking, .connected:
            return .none
        }
    }

    /// Handles the end of a connection that was stopped before the last start.
    ///
    /// - Returns: False if this isn't that connection.
    package mutating func hasLeft(_ id: ConnectionID) -> Bool {
        guard let leaving, leaving.id == id else { return false }
        self.leaving = nil
        return true
    }

    /// Gives up a connection that was stopped before the last start and whose peer doesn't respond to the close.
    ///
    /// - Returns: The connection, whose socket is to be dropped.
    package mutating func leavingTimeout(now: Instant) -> ConnectionID? {
        guard let leaving, leaving.deadline <= now else { return nil }
        self.leaving = nil
        return leaving.id
    }

    package enum RestartAction: Equatable, Sendable {
        case none, open(ConnectionID)
        /// Continue with a new connection. The old one sends a close frame if its upgrade was accepted, and is abandoned otherwise. Its events
        /// are late events from now on.
        case replace(ConnectionID, by: ConnectionID, sendsClose: Bool)
    }

    /// Connects now with a new connection, because the current one, or the delay before the next attempt, belongs to settings that no longer
    /// apply. Has no effect if no connection is to be maintained. Failures with other settings don't count.
    package mutating func restart(now: Instant) -> RestartAction {
        switch self.state {
        case .idle, .closing, .closed: return .none
        case .backingOff, .deciding:
            self.resetFailures()
            return .open(self.open(now: now))
        case .opening(let id, _):
            self.resetFailures()
            return .replace(id, by: self.open(now: now), sendsClose: false)
        case .handshaking(let id, _), .connected(let id, _, _):
            self.resetFailures()
            return .replace(id, by: self.open(now: now), sendsClose: true)
        }
    }

    package enum OpenedAction: Equatable, Sendable { case none, beginHandshake }

    package mutating func opened(_ id: ConnectionID, now: Instant) -> OpenedAction {
        guard case .opening(id, let deadline) = self.state else { return .none }
        let limit = self.policy.handshakeTimeout.map { now.advanced(by: max(.nanoseconds(1), $0)) }
        self.state = .handshaking(id, deadline: min(deadline, limit ?? deadline))
        return .beginHandshake
    }

    package enum ReadyAction: Equatable, Sendable { case none, announceConnected }

    package mutating func ready(_ id: ConnectionID, _ heartbeat: HeartbeatPolicy, now: Instant) -> ReadyAction {
        guard case .handshaking(id, _) = self.state else { return .none }
        self.state = .connected(id, Heartbeat(heartbeat, now: now), since: now)
        return .announceConnected
    }

    /// Records that messages were received.
    ///
    /// - Returns: False if the messages are to be ignored because they belong to another attempt or to a connection that is closing.
    package mutating func received(_ id: ConnectionID, now: Instant) -> Bool {
        switch self.state {
        case .connected(id, var heartbeat, let since):
            heartbeat.received(now: now)
            self.state = .connected(id, heartbeat, since: since)
            return true
        case .handshaking(id, _):
            return true
        default:
            return false
        }
    }

    /// Records that a message was sent.
    package mutating func sent(_ id: ConnectionID, now: Instant) {
        guard case .connected(id, var heartbeat, let since) = self.state else { return }
        heartbeat.sent(now: now)
        self.state = .connected(id, heartbeat, since: since)
    }

    /// Records that reading was paused or resumed. The heartbeat doesn't expect messages while reading is paused.
    package mutating func reading(_ id: ConnectionID, paused: Bool, now: Instant) {
        guard case .connected(id, var heartbeat, let since) = self.state else { return }
        heartbeat.reading(paused: paused, now: now)
        self.state = .connected(id, heartbeat, since: since)
    }

    package enum CheckAction: Equatable, Sendable { case none, open(ConnectionID), sendProbe(ConnectionID) }

    /// Checks the connection now, because the network has changed or the process was suspended: starts a pending retry, also one whose
    /// decision is pending, or probes the peer.
    ///
    /// An attempt in progress isn't affected: it has a time limit of its own.
    ///
    /// - Parameter timeout: The time after which the connection counts as dead if the peer doesn't respond.
    package mutating func check(timeout: Duration, now: Instant) -> CheckAction {
        switch self.state {
        case .backingOff, .deciding:
            // The failures say nothing about the network that is available now, so they don't make the next delay longer.
            self.failures = 0
            return .open(self.open(now: now))
        case .connected(let id, var heartbeat, let since):
            let action = heartbeat.probe(timeout: timeout, now: now)
            self.state = .connected(id, heartbeat, since: since)
            return action == .sendProbe ? .sendProbe(id) : .none
        case .idle, .opening, .handshaking, .closing, .closed:
            return .none
        }
    }

    /// Returns a number for a further connection of the current attempt or the established connection, which the protocol handles itself
    /// until it calls ``replace(_:by:)``.
    package mutating func additionalConnection() -> ConnectionID { self.counter.next() }

    /// Continues on another connection, which is ready, for example after its transport was upgraded.
    ///
    /// - Returns: False if the connection that is to be replaced isn't established.
    package mutating func replace(_ old: ConnectionID, by new: ConnectionID) -> Bool {
        guard case .connected(old, let heartbeat, let since) = self.state else { return false }
        self.state = .connected(new, heartbeat, since: since)
        return true
    }

    /// Continues the attempt with another connection. It has a new number and the full time limit, and nothing counts as a failure.
    ///
    /// - Returns: The number of the new connection, or `nil` if no attempt is in progress.
    package mutating func reopen(now: Instant) -> ConnectionID? {
        switch self.state {
        case .opening, .handshaking: self.open(now: now)
        default: nil
        }
    }

    package enum ClosedAction: Equatable, Sendable {
        case none
        case lost(then: NextAttempt)
        /// The attempt continues with this connection.
        case reopen(ConnectionID)
    }

    package mutating func closed(_ id: ConnectionID, _ reason: CloseReason, _ decision: ReconnectDecision, now: Instant) -> ClosedAction {
        switch self.state {
        case .opening(id, _), .handshaking(id, _):
            if decision == .reopen { return .reopen(self.open(now: now)) }
            return .lost(then: self.follow(decision, on: reason, of: id, now: now))
        case .connected(id, _, _):
            self.resetFailuresIfStable(now: now)
            return .lost(then: self.follow(decision, on: reason, of: id, now: now))
        case .closing(id, _):
            self.state = .closed(.requested)
            return .none
        default:
            return .none
        }
    }

    /// Follows the decision that the protocol asked for.
    ///
    /// - Parameter id: The connection whose loss the decision is about.
    /// - Returns: The reason of the loss and what follows it, or `nil` if the decision is no longer awaited.
    package mutating func decided(
        _ id: ConnectionID, _ decision: ReconnectDecision, now: Instant
    ) -> (reason: CloseReason, next: NextAttempt)? {
        guard case .deciding(id, let reason, _) = self.state else { return nil }
        // Asking again could loop forever.
        let decision = decision == .ask ? .afterBackoff() : decision
        return (reason, self.follow(decision, on: reason, of: id, now: now))
    }

    private mutating func follow(
        _ decision: ReconnectDecision, on reason: CloseReason, of id: ConnectionID, now: Instant
    ) -> NextAttempt {
        switch decision {
        case .never:
            self.state = .closed(reason)
            return .never
        case .immediately where self.immediateReconnects < self.policy.maximumImmediateReconnects,
            .reopen where self.immediateReconnects < self.policy.maximumImmediateReconnects:
            self.immediateReconnects += 1
            return .reconnect(self.open(now: now))
        case .immediately, .reopen:
            return .later(until: self.backOff(now: now))
        case .afterBackoff(let minimum):
            return .later(until: self.backOff(atLeast: minimum, now: now))
        case .after(let delay):
            self.failures += 1
            let until = now.advanced(by: max(.nanoseconds(1), delay))
            self.state = .backingOff(until: until)
            return .later(until: until)
        case .ask:
            let limit = self.policy.decisionTimeout.map { max(.nanoseconds(1), $0) }
            self.state = .deciding(id, reason, deadline: limit.map { now.advanced(by: $0) })
            return .undecided(id)
        }
    }

    package enum TimeoutAction: Equatable, Sendable {
        case none, open(ConnectionID)
        /// Send a message that keeps the connection alive.
        case sendPing(ConnectionID)
        /// Send a message that the peer answers. The connection counts as dead if it doesn't.
        case sendProbe(ConnectionID)
        /// Drop the socket without closing it, because a dead peer doesn't respond. The connection has ended for this reason, and
        /// ``closed(_:_:_:now:)`` must follow.
        case end(ConnectionID, CloseReason)
        /// Drop the socket, whose peer doesn't respond to the close. The end was reported already.
        case abandonClosing(ConnectionID)
        /// The decision about the loss of this connection is overdue. ``decided(_:_:now:)`` must follow.
        case decide(ConnectionID)
    }

    package mutating func timeout(now: Instant) -> TimeoutAction {
        switch self.state {
        case .backingOff(let until) where until <= now:
            return .open(self.open(now: now))
        case .opening(let id, let deadline) where deadline <= now, .handshaking(let id, let deadline) where deadline <= now:
            return .end(id, .openTimeout)
        case .closing(let id, let deadline) where deadline <= now:
            self.state = .closed(.requested)
            return .abandonClosing(id)
        case .deciding(let id, _, let deadline?) where deadline <= now:
            return .decide(id)
        case .connected(let id, var heartbeat, let since):
            let action = heartbeat.timeout(now: now)
            self.state = .connected(id, heartbeat, since: since)
            switch action {
            case .none: return .none
            case .sendPing: return .sendPing(id)
            case .sendProbe: return .sendProbe(id)
            case .declareDead: return .end(id, .heartbeatTimeout)
            }
        default:
            return .none
        }
    }

    package enum StopAction: Equatable, Sendable { case none, finish, finishAndClose(ConnectionID), finishAndAbandon(ConnectionID) }

    package mutating func stop(now: Instant) -> StopAction {
        switch self.state {
        case .idle, .backingOff, .deciding:
            self.state = .closed(.requested)
            return .finish
        case .opening(let id, _):
            self.state = .closed(.requested)
            return .finishAndAbandon(id)
        case .handshaking(let id, _), .connected(let id, _, _):
            self.state = .closing(id, deadline: now.advanced(by: self.policy.closeTimeout))
            return .finishAndClose(id)
        case .closing, .closed:
            return .none
        }
    }

    private mutating func open(now: Instant) -> ConnectionID {
        let id = self.counter.next()
        // Later than now, because a deadline that has passed already would fire without end.
        self.state = .opening(id, deadline: now.advanced(by: max(.nanoseconds(1), self.policy.openTimeout)))
        return id
    }

    /// Returns the time of the next attempt.
    private mutating func backOff(atLeast minimum: Duration = .zero, now: Instant) -> Instant {
        self.failures += 1
        let delay = self.policy.backoff.delay(failures: self.failures, minimum: minimum, using: &self.generator)
        let until = now.advanced(by: delay)
        self.state = .backingOff(until: until)
        return until
    }

    private mutating func resetFailuresIfStable(now: Instant) {
        guard case .connected(_, _, let since) = self.state, since.advanced(by: self.policy.stableAfter) <= now else { return }
        self.resetFailures()
    }

    private mutating func resetFailures() {
        self.failures = 0
        self.immediateReconnects = 0
    }
}
