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
    /// The time limit of each attempt to resume an established connection.
    package var resumeTimeout: Duration = .seconds(5)
    /// The delay after the first attempt to resume that failed. Each further delay is twice as long, up to ``maximumResumePause``.
    package var resumePause: Duration = .milliseconds(100)
    package var maximumResumePause: Duration = .seconds(2)
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
    /// Continue an established connection on another socket: nothing is lost unless that fails within this time since the loss of the socket.
    /// The first attempt starts now, and further ones after short delays. Ask only if ``ConnectionStateMachine/canResume(now:)`` is true;
    /// otherwise, the connection is re-established immediately.
    case resume(within: Duration)
    /// The decision isn't made yet, for example because it is the application's. The connection waits for
    /// ``ConnectionStateMachine/decided(_:_:now:)``.
    case ask

    var isResume: Bool { if case .resume = self { true } else { false } }
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
///   connected ──resume──▶ resuming: opening ──opened──▶ synchronizing ──resumed──▶ connected     (with a new number for each attempt)
///                                   │  ▲                      │
///                  closed, timeout  │  │ timeout, check       │ closed, timeout
///                                   ▼  │                      ▼
///                                  pausing ◀── resume ── the protocol decides ──▶ otherwise as after the loss of `connected`
///
///   stop:   idle, backingOff, deciding, opening ──▶ closed   (without a close frame; an attempt is abandoned)
///           handshaking, connected              ──▶ closing  (reported as ended immediately; the socket sends a close frame)
///           resuming                            ──▶ closed, or closing if a socket is open
///           closing, closed                     ──▶ unchanged
///   closing ──closed, timeout──▶ closed                      (not reported: the end was reported at `stop`)
///   closing ──start──▶ opening                               (the old connection leaves: it closes beside the new one)
///   closed  ──start──▶ opening                               (with a new number; failure counts are reset)
///   deciding ──start, check──▶ opening                       (without the decision)
///   restart: backingOff, deciding                   ──▶ opening   (failure counts are reset)
///            opening, handshaking, connected, resuming ──▶ opening (with a new number; the old connection is closed or abandoned)
///            idle, closing, closed                  ──▶ unchanged
/// ```
/// While a connection is resumed, a start has no effect, and a check only ends a pause. The time limit for all attempts begins with the loss of
/// the socket: attempts end with it, and a pause isn't begun if no attempt could follow.
///
/// The time for `opening` and `handshaking` begins anew once if it passed while the process stood still.
///
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
        case opening(ConnectionID, PatientLimit)
        case handshaking(ConnectionID, PatientLimit)
        case connected(ConnectionID, Heartbeat, since: Instant)
        /// The socket of an established connection was lost, and the connection is continued on another one.
        case resuming(Resumption)
        case backingOff(until: Instant)
        /// The connection was lost for this reason, and the protocol hasn't decided yet.
        case deciding(ConnectionID, CloseReason, deadline: Instant?)
        case closing(ConnectionID, deadline: Instant)
        case closed(CloseReason)
    }

    /// The attempts to resume a connection.
    @usableFromInline
    package struct Resumption: Sendable {
        package enum Step: Sendable {
            case opening, synchronizing
            /// The next attempt starts at this time.
            case pausing(until: Instant)
        }

        package var step: Step
        /// The number of the attempt, or of the last one during a pause.
        @usableFromInline package var id: ConnectionID
        /// The end of the attempt.
        var deadline: Instant
        /// The end of all attempts.
        let limit: Instant
        /// The number of attempts, which makes the pauses longer.
        var attempts: Int
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
    /// The number of times in a row that a connection was resumed and wasn't stable.
    private var resumptions = 0
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
        case .opening(_, let limit), .handshaking(_, let limit): limit.deadline
        case .closing(_, let deadline): deadline
        case .deciding(_, _, let deadline): deadline
        case .backingOff(let until): until
        case .connected(_, let heartbeat, _): heartbeat.nextDeadline
        case .resuming(let resumption): resumption.nextDeadline
        case .idle, .closed: nil
        }
    }

    /// The connection whose handshake is complete, if any.
    @inlinable package var connected: ConnectionID? {
        if case .connected(let id, _, _) = self.state { id } else { nil }
    }

    /// The connection that is established, or the last attempt to resume it. Its number changes with each attempt.
    @inlinable package var established: ConnectionID? {
        switch self.state {
        case .connected(let id, _, _): id
        case .resuming(let resumption): resumption.id
        case .idle, .opening, .handshaking, .backingOff, .deciding, .closing, .closed: nil
        }
    }

    /// Whether a connection is the established one. Mutating, because a session that reads ``established`` in a closure copies the machine.
    @inlinable
    package mutating func isEstablished(_ id: ConnectionID) -> Bool { self.established == id }

    /// Whether an established connection is being resumed.
    package var isResuming: Bool { if case .resuming = self.state { true } else { false } }

    /// The connection or attempt whose events are handled, if any.
    @inlinable package var current: ConnectionID? {
        switch self.state {
        case .opening(let id, _), .handshaking(let id, _), .connected(let id, _, _), .closing(let id, _): id
        case .resuming(let resumption): if case .pausing = resumption.step { nil } else { resumption.id }
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
        case .opening, .handshaking, .connected, .resuming:
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
        case .resuming(let resumption):
            self.resetFailures()
            switch resumption.step {
            case .opening: return .replace(resumption.id, by: self.open(now: now), sendsClose: false)
            case .synchronizing: return .replace(resumption.id, by: self.open(now: now), sendsClose: true)
            case .pausing: return .open(self.open(now: now))
            }
        }
    }

    package enum OpenedAction: Equatable, Sendable {
        case none, beginHandshake
        /// Tell the peer where to continue, and call ``resumed(_:_:now:)`` when the peer has done the same.
        case synchronize
    }

    package mutating func opened(_ id: ConnectionID, now: Instant) -> OpenedAction {
        if case .resuming(var resumption) = self.state, case .opening = resumption.step, resumption.id == id {
            resumption.step = .synchronizing
            self.state = .resuming(resumption)
            return .synchronize
        }
        guard case .opening(id, let limit) = self.state else { return .none }
        let own = self.policy.handshakeTimeout.map { PatientLimit(max(.nanoseconds(1), $0), now: now) }
        self.state = .handshaking(id, own.map { $0.deadline < limit.deadline ? $0 : limit } ?? limit)
        return .beginHandshake
    }

    package enum ReadyAction: Equatable, Sendable { case none, announceConnected }

    package mutating func ready(_ id: ConnectionID, _ heartbeat: HeartbeatPolicy, now: Instant) -> ReadyAction {
        guard case .handshaking(id, _) = self.state else { return .none }
        self.state = .connected(id, Heartbeat(heartbeat, now: now), since: now)
        return .announceConnected
    }

    /// Whether an attempt to resume the established connection can follow its end, or that of the last attempt, now: whether the time limit, if
    /// it has begun, leaves time for it.
    package func canResume(now: Instant) -> Bool {
        switch self.state {
        case .connected: true
        case .resuming(let resumption): now.advanced(by: self.pause(after: resumption.attempts)) < resumption.limit
        case .idle, .opening, .handshaking, .backingOff, .deciding, .closing, .closed: false
        }
    }

    /// The connection continues on another socket.
    ///
    /// - Returns: False if it isn't being resumed on this one.
    package mutating func resumed(_ id: ConnectionID, _ heartbeat: HeartbeatPolicy, now: Instant) -> Bool {
        guard case .resuming(let resumption) = self.state, case .synchronizing = resumption.step, resumption.id == id else { return false }
        self.state = .connected(id, Heartbeat(heartbeat, now: now), since: now)
        return true
    }

    /// Whether messages of a connection are to be handled: it is established, or being established.
    package func isReceiving(_ id: ConnectionID) -> Bool {
        switch self.state {
        case .connected(id, _, _), .handshaking(id, _): true
        default: false
        }
    }

    /// Records that a part of a message was received.
    package mutating func receivedPart(_ id: ConnectionID, byteCount: Int, now: Instant) {
        guard case .connected(id, var heartbeat, let since) = self.state else { return }
        heartbeat.receivedPart(byteCount: byteCount, now: now)
        self.state = .connected(id, heartbeat, since: since)
    }

    /// Records the answer to a ping that arrives beside the messages; see ``Heartbeat/answered(now:)``.
    package mutating func answered(_ id: ConnectionID, now: Instant) {
        guard case .connected(id, var heartbeat, let since) = self.state else { return }
        heartbeat.answered(now: now)
        self.state = .connected(id, heartbeat, since: since)
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
        case .resuming(let resumption):
            if case .synchronizing = resumption.step { return resumption.id == id }
            return false
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

    /// Suspends the heartbeat of the established connection while the protocol may not send, or begins it anew.
    package mutating func suspendHeartbeat(_ id: ConnectionID, _ isSuspended: Bool, now: Instant) {
        guard case .connected(id, var heartbeat, let since) = self.state else { return }
        heartbeat.suspend(isSuspended, now: now)
        self.state = .connected(id, heartbeat, since: since)
    }

    package enum CheckAction: Equatable, Sendable { case none, open(ConnectionID), resume(ConnectionID), sendProbe(ConnectionID) }

    /// Checks the connection now, because the network has changed or the process was suspended: starts a pending retry, also one whose
    /// decision is pending, or a pending attempt to resume, or probes the peer.
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
        case .resuming(let resumption):
            guard case .pausing = resumption.step else { return .none }
            return .resume(self.resume(resumption, now: now))
        case .idle, .opening, .handshaking, .closing, .closed:
            return .none
        }
    }

    /// Returns a number for a further connection of the current attempt or the established connection, which the protocol handles itself
    /// until it calls ``replace(_:by:now:)``.
    package mutating func additionalConnection() -> ConnectionID { self.counter.next() }

    /// Continues on another connection, which is ready, for example after its transport was upgraded.
    ///
    /// - Returns: False if the connection that is to be replaced isn't established.
    package mutating func replace(_ old: ConnectionID, by new: ConnectionID, now: Instant) -> Bool {
        guard case .connected(old, var heartbeat, let since) = self.state else { return false }
        heartbeat.replaced(now: now)
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
        /// The established connection continues, with this attempt or, if there is none, after a pause.
        case resume(ConnectionID?)
    }

    package mutating func closed(_ id: ConnectionID, _ reason: CloseReason, _ decision: ReconnectDecision, now: Instant) -> ClosedAction {
        switch self.state {
        case .opening(id, _), .handshaking(id, _):
            if decision == .reopen { return .reopen(self.open(now: now)) }
            return .lost(then: self.follow(decision, on: reason, of: id, now: now))
        case .connected(id, _, let since):
            if since.advanced(by: self.policy.stableAfter) <= now { self.resetFailures() }
            if case .resume(let limit) = decision { return .resume(self.beginResuming(id, within: limit, now: now)) }
            return .lost(then: self.follow(decision, on: reason, of: id, now: now))
        case .resuming(let resumption) where resumption.id == id && self.current == id:
            if case .resume = decision, self.canResume(now: now) {
                self.pause(resumption, now: now)
                return .resume(nil)
            }
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
            .reopen where self.immediateReconnects < self.policy.maximumImmediateReconnects,
            .resume where self.immediateReconnects < self.policy.maximumImmediateReconnects:
            self.immediateReconnects += 1
            return .reconnect(self.open(now: now))
        case .immediately, .reopen, .resume:
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

    // MARK: Resuming

    /// Begins to resume a connection: now, unless it was resumed too often within a short time. A server that lets connections resume and
    /// loses them right away isn't flooded with attempts.
    ///
    /// - Returns: The number of the attempt, or `nil` if a pause precedes it.
    private mutating func beginResuming(_ id: ConnectionID, within limit: Duration, now: Instant) -> ConnectionID? {
        let end = now.advanced(by: max(.nanoseconds(1), limit))
        self.resumptions += 1
        let attempts = max(0, self.resumptions - self.policy.maximumImmediateReconnects)
        let resumption = Resumption(step: .opening, id: id, deadline: end, limit: end, attempts: attempts)
        guard attempts > 0, now.advanced(by: self.pause(after: attempts)) < end else { return self.resume(resumption, now: now) }
        self.pause(resumption, now: now)
        return nil
    }

    /// Begins an attempt to resume.
    private mutating func resume(_ resumption: Resumption, now: Instant) -> ConnectionID {
        var resumption = resumption
        resumption.attempts += 1
        (resumption.step, resumption.id) = (.opening, self.counter.next())
        let deadline = min(now.advanced(by: self.policy.resumeTimeout), resumption.limit)
        // Later than now, because a deadline that has passed already would fire without end.
        resumption.deadline = max(now.advanced(by: .nanoseconds(1)), deadline)
        self.state = .resuming(resumption)
        return resumption.id
    }

    private mutating func pause(_ resumption: Resumption, now: Instant) {
        var resumption = resumption
        resumption.step = .pausing(until: now.advanced(by: self.pause(after: resumption.attempts)))
        self.state = .resuming(resumption)
    }

    /// Returns the delay before the next attempt to resume.
    private func pause(after attempts: Int) -> Duration {
        let doublings = min(max(0, attempts - 1), 16)
        return max(.nanoseconds(1), min(self.policy.resumePause * (1 << doublings), self.policy.maximumResumePause))
    }

    // MARK: Timeouts

    package enum TimeoutAction: Equatable, Sendable {
        case none, open(ConnectionID)
        /// Continue the established connection with this attempt.
        case resume(ConnectionID)
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
        case .opening(let id, var limit) where limit.deadline <= now:
            if limit.hasPassed(now: now) { return .end(id, .openTimeout) }
            self.state = .opening(id, limit)
            return .none
        case .handshaking(let id, var limit) where limit.deadline <= now:
            if limit.hasPassed(now: now) { return .end(id, .openTimeout) }
            self.state = .handshaking(id, limit)
            return .none
        case .closing(let id, let deadline) where deadline <= now:
            self.state = .closed(.requested)
            return .abandonClosing(id)
        case .deciding(let id, _, let deadline?) where deadline <= now:
            return .decide(id)
        case .resuming(let resumption):
            guard resumption.nextDeadline <= now else { return .none }
            if case .pausing = resumption.step { return .resume(self.resume(resumption, now: now)) }
            return .end(resumption.id, .openTimeout)
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
        case .resuming(let resumption):
            self.state = .closed(.requested)
            switch resumption.step {
            case .pausing: return .finish
            case .opening: return .finishAndAbandon(resumption.id)
            case .synchronizing:
                self.state = .closing(resumption.id, deadline: now.advanced(by: self.policy.closeTimeout))
                return .finishAndClose(resumption.id)
            }
        case .closing, .closed:
            return .none
        }
    }

    private mutating func open(now: Instant) -> ConnectionID {
        let id = self.counter.next()
        // Later than now, because a deadline that has passed already would fire without end.
        self.state = .opening(id, PatientLimit(max(.nanoseconds(1), self.policy.openTimeout), now: now))
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

    private mutating func resetFailures() {
        self.failures = 0
        self.immediateReconnects = 0
        self.resumptions = 0
    }
}

extension ConnectionStateMachine.Resumption {
    var nextDeadline: Instant { if case .pausing(let until) = self.step { until } else { self.deadline } }
}
