package struct ConnectionPolicy: Sendable, Hashable {
    /// From `open` until the protocol calls the connection ready.
    package var openTimeout: Duration = .seconds(15)
    package var closeTimeout: Duration = .seconds(5)
    /// A connection that lived this long proves that the trouble is over; failures count from zero again.
    package var stableAfter: Duration = .seconds(30)
    package var maximumImmediateReconnects = 3
    package var backoff = Backoff()

    package init() {}
}

/// The life of one logical connection, as a value: no I/O, no tasks, no look at a clock, no protocol's meaning.
///
/// ```
///   idle ────start────▶ opening ────opened────▶ handshaking ────ready────▶ connected ⟲ timeout: ping
///                       ▲ ▲ │                        │                        │
///                       │ │ │ closed, timeout        │ closed, timeout        │ closed, timeout: dead
///       timeout, start  │ │ ▼                        ▼                        ▼
///   backingOff ─────────┘ └─ immediately ◀── the protocol decides ◀───────────┘
///       ▲                                         │         │
///       └────────────── afterBackoff ─────────────┘         └── never ──▶ closed
///
///   stop:   idle, backingOff, opening ──▶ closed          (nobody to say goodbye to; an open attempt is abandoned)
///           handshaking, connected    ──▶ closing         (over at once for the user; the socket gets its goodbye)
///           closing, closed           ──▶ unchanged
///   closing ──closed, timeout──▶ closed                   (nobody is told: the user heard of it at `stop`)
///   closing ──start──▶ opening                            (the old attempt is abandoned first)
///   closed  ──start──▶ opening                            (with a new number; failures forgotten)
/// ```
/// A timeout never asks the protocol: it always backs off. Everything not drawn changes nothing.
///
/// Attempts are numbered. What carries the number of another attempt matches no case: a dead socket's last words.
/// Every state that waits for a peer has a deadline. Failures count as over only once a connection was stable for a
/// while, or a server that accepts and at once hangs up would be called again without a pause.
package struct ConnectionStateMachine: Sendable {
    package enum State: Sendable {
        case idle
        case opening(ConnectionID, deadline: Instant)
        case handshaking(ConnectionID, deadline: Instant)
        case connected(ConnectionID, Heartbeat, since: Instant)
        case backingOff(until: Instant)
        case closing(ConnectionID, deadline: Instant)
        case closed(CloseReason)
    }

    package private(set) var state: State = .idle
    private let sharedPolicy: Shared<ConnectionPolicy>
    package var policy: ConnectionPolicy { _read { yield self.sharedPolicy.value } }
    private var generator: SplitMix64
    private var lastAttempt: UInt64 = 0
    private var failures = 0
    private var immediateReconnects = 0

    package init(policy: ConnectionPolicy = ConnectionPolicy(), generator: SplitMix64) {
        self.init(policy: Shared(policy), generator: generator)
    }

    package init(policy: Shared<ConnectionPolicy>, generator: SplitMix64) {
        self.sharedPolicy = policy
        self.generator = generator
    }

    /// The only timer there is: the driver sleeps until then and calls ``timeout(now:)``.
    package var nextDeadline: Instant? {
        switch self.state {
        case .opening(_, let deadline), .handshaking(_, let deadline), .closing(_, let deadline): deadline
        case .backingOff(let until): until
        case .connected(_, let heartbeat, _): heartbeat.nextDeadline
        case .idle, .closed: nil
        }
    }

    /// The attempt that is ready to carry the protocol's messages.
    package var connected: ConnectionID? {
        if case .connected(let id, _, _) = self.state { id } else { nil }
    }

    /// The attempt whose news count.
    package var current: ConnectionID? {
        switch self.state {
        case .opening(let id, _), .handshaking(let id, _), .connected(let id, _, _), .closing(let id, _): id
        case .idle, .backingOff, .closed: nil
        }
    }

    package enum StartAction: Equatable, Sendable { case none, open(ConnectionID), replace(ConnectionID, by: ConnectionID) }

    package mutating func start(now: Instant) -> StartAction {
        switch self.state {
        case .idle, .closed:
            self.forgetFailures()
            return .open(self.open(now: now))
        case .backingOff:
            return .open(self.open(now: now))
        case .closing(let id, _):
            self.forgetFailures()
            return .replace(id, by: self.open(now: now))
        case .opening, .handshaking, .connected:
            return .none
        }
    }

    package enum OpenedAction: Equatable, Sendable { case none, beginHandshake }

    package mutating func opened(_ id: ConnectionID) -> OpenedAction {
        guard case .opening(id, let deadline) = self.state else { return .none }
        self.state = .handshaking(id, deadline: deadline)
        return .beginHandshake
    }

    package enum ReadyAction: Equatable, Sendable { case none, announceConnected }

    package mutating func ready(_ id: ConnectionID, _ heartbeat: HeartbeatPolicy, now: Instant) -> ReadyAction {
        guard case .handshaking(id, _) = self.state else { return .none }
        self.state = .connected(id, Heartbeat(heartbeat, now: now), since: now)
        return .announceConnected
    }

    /// False: late news of another attempt, or of one that is being closed; leave the batch unread.
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

    package mutating func sent(_ id: ConnectionID, now: Instant) {
        guard case .connected(id, var heartbeat, let since) = self.state else { return }
        heartbeat.sent(now: now)
        self.state = .connected(id, heartbeat, since: since)
    }

    package mutating func reading(_ id: ConnectionID, paused: Bool, now: Instant) {
        guard case .connected(id, var heartbeat, let since) = self.state else { return }
        heartbeat.reading(paused: paused, now: now)
        self.state = .connected(id, heartbeat, since: since)
    }

    package enum ProbeAction: Equatable, Sendable { case none, sendPing(ConnectionID) }

    /// Something suggests that the connection may be dead: ask now and do not wait for long.
    package mutating func probe(patience: Duration, now: Instant) -> ProbeAction {
        guard case .connected(let id, var heartbeat, let since) = self.state else { return .none }
        let action = heartbeat.probe(patience: patience, now: now)
        self.state = .connected(id, heartbeat, since: since)
        return action == .sendPing ? .sendPing(id) : .none
    }

    package enum ClosedAction: Equatable, Sendable { case none, reconnectLater, reconnect(ConnectionID), finish(CloseReason) }

    package mutating func closed(_ id: ConnectionID, _ reason: CloseReason, _ decision: ReconnectDecision, now: Instant) -> ClosedAction {
        switch self.state {
        case .opening(id, _), .handshaking(id, _), .connected(id, _, _):
            self.settleFailures(now: now)
            switch decision {
            case .never:
                self.state = .closed(reason)
                return .finish(reason)
            case .immediately where self.immediateReconnects < self.policy.maximumImmediateReconnects:
                self.immediateReconnects += 1
                return .reconnect(self.open(now: now))
            case .immediately:
                self.backOff(now: now)
                return .reconnectLater
            case .afterBackoff(let minimum):
                self.backOff(atLeast: minimum, now: now)
                return .reconnectLater
            }
        case .closing(id, _):
            self.state = .closed(.requested)
            return .none
        default:
            return .none
        }
    }

    /// `abandon`: drop that socket and do not wait for it. A dead peer never answers.
    package enum TimeoutAction: Equatable, Sendable {
        case none, open(ConnectionID), sendPing(ConnectionID)
        case abandon(ConnectionID, CloseReason)
        case abandonClosing(ConnectionID)
    }

    package mutating func timeout(now: Instant) -> TimeoutAction {
        switch self.state {
        case .backingOff(let until) where until <= now:
            return .open(self.open(now: now))
        case .opening(let id, let deadline) where deadline <= now, .handshaking(let id, let deadline) where deadline <= now:
            self.backOff(now: now)
            return .abandon(id, .openTimeout)
        case .closing(let id, let deadline) where deadline <= now:
            self.state = .closed(.requested)
            return .abandonClosing(id)
        case .connected(let id, var heartbeat, let since):
            let action = heartbeat.timeout(now: now)
            self.state = .connected(id, heartbeat, since: since)
            switch action {
            case .none: return .none
            case .sendPing: return .sendPing(id)
            case .declareDead:
                self.settleFailures(now: now)
                self.backOff(now: now)
                return .abandon(id, .heartbeatTimeout)
            }
        default:
            return .none
        }
    }

    package enum StopAction: Equatable, Sendable { case none, finish, finishAndClose(ConnectionID), finishAndAbandon(ConnectionID) }

    package mutating func stop(now: Instant) -> StopAction {
        switch self.state {
        case .idle, .backingOff:
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
        self.lastAttempt += 1
        let id = ConnectionID(rawValue: self.lastAttempt)
        // A deadline that is over already would wake its owner again and again.
        self.state = .opening(id, deadline: now.advanced(by: max(.nanoseconds(1), self.policy.openTimeout)))
        return id
    }

    private mutating func backOff(atLeast minimum: Duration = .zero, now: Instant) {
        self.failures += 1
        let delay = self.policy.backoff.delay(failures: self.failures, minimum: minimum, using: &self.generator)
        self.state = .backingOff(until: now.advanced(by: delay))
    }

    private mutating func settleFailures(now: Instant) {
        guard case .connected(_, _, let since) = self.state, since.advanced(by: self.policy.stableAfter) <= now else { return }
        self.forgetFailures()
    }

    private mutating func forgetFailures() {
        self.failures = 0
        self.immediateReconnects = 0
    }
}
