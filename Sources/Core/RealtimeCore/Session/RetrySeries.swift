/// The rule by which an application lets a client reconnect.
package enum RetryRule: Sendable {
    case never
    /// The decision of the protocol, usually a backoff.
    case protocolDecision
    /// These delays before the attempts. After the last attempt has failed, there are no more.
    case delays([Duration])
    /// The application decides before each attempt.
    case ask
}

/// The attempts to connect since a loss: their number, when they began, and the question to the application that isn't answered yet.
package struct RetrySeries: Sendable {
    /// The connections that end a series.
    package enum End: Sendable {
        /// Each connection. The losses of connections that weren't stable are counted separately, and delay the attempts after the fourth
        /// one in a row: a server may accept connections and lose them immediately.
        case anyConnection
        /// Connections that were stable.
        case stableConnection
    }

    private let end: End
    /// The time after which a connection counts as stable.
    private let stableAfter: Duration
    private var startedAt: Instant?
    /// The number of attempts that were decided about.
    private var count = 0
    /// The number of delays of a list that were used. Attempts under another rule use none.
    private var usedDelays = 0
    /// The shortest delay that the protocol allows before the next attempt.
    private var minimum = Duration.zero
    private var connectedAt: Instant?
    /// The number of connections in a row that weren't stable.
    private var shortConnections = 0
    /// The work that asks the application, and the connection whose loss it is about.
    private var question: (work: WorkID, connection: ConnectionID)?

    /// Creates a series without attempts.
    ///
    /// - Parameters:
    ///   - end: The connections that end it.
    ///   - stableAfter: The time after which a connection counts as stable.
    package init(endsWith end: End = .stableConnection, stableAfter: Duration = ConnectionPolicy().stableAfter) {
        self.end = end
        self.stableAfter = stableAfter
    }

    /// A connection was established.
    package mutating func connected(now: Instant) { self.connectedAt = now }

    /// A connection was lost. Call it if ``decide(_:instead:now:)`` isn't called for the loss.
    package mutating func lost(now: Instant) {
        guard let since = self.connectedAt.take() else { return }
        if since.advanced(by: self.stableAfter) <= now {
            self.reset()
        } else if case .anyConnection = self.end {
            self.forgetAttempts()
            self.shortConnections += 1
        }
    }

    /// The delay that protects the server from a client whose connections it loses: after the fourth one in a row, 1, 2, 4 … 32 s.
    private var pause: Duration {
        guard self.shortConnections > 3 else { return .zero }
        return .seconds(1 << min(5, self.shortConnections - 4))
    }

    /// Decides about the attempt after a loss or a failed attempt.
    ///
    /// - Parameters:
    ///   - rule: The rule of the application.
    ///   - decision: The decision of the protocol, whose minimum delay applies in any case.
    /// - Returns: The decision. If it is `ask`, emit work with the values of ``retryCount`` and ``elapsed(now:)``, and call
    ///   ``asked(_:about:)``.
    package mutating func decide(
        _ rule: RetryRule, instead decision: ReconnectDecision = .afterBackoff(), now: Instant
    ) -> ReconnectDecision {
        self.lost(now: now)
        if self.startedAt == nil { self.startedAt = now }
        self.minimum = if case .afterBackoff(let minimum) = decision { max(minimum, self.pause) } else { self.pause }
        self.count += 1
        switch rule {
        case .never: return .never
        case .protocolDecision:
            if case .afterBackoff = decision { return .afterBackoff(atLeast: self.minimum) }
            return decision
        case .delays(let delays):
            guard self.usedDelays < delays.count else { return .never }
            defer { self.usedDelays += 1 }
            return .after(max(self.minimum, delays[self.usedDelays]))
        case .ask: return .ask
        }
    }

    /// The number of attempts before the one that is decided about.
    package var retryCount: Int { max(0, self.count - 1) }

    /// The time since the first loss of the series.
    package func elapsed(now: Instant) -> Duration { self.startedAt?.duration(to: now) ?? .zero }

    /// Records that work asks the application about the attempt after the loss of a connection.
    package mutating func asked(_ work: WorkID, about connection: ConnectionID) { self.question = (work, connection) }

    /// Returns the decision for an answer of the application: a delay, or `nil` for no further attempt.
    ///
    /// - Returns: The decision and the connection whose loss it is about, or `nil` if this question isn't open any more.
    package mutating func answered(_ work: WorkID, _ delay: Duration?) -> (connection: ConnectionID, decision: ReconnectDecision)? {
        guard let question, question.work == work else { return nil }
        self.question = nil
        return (question.connection, delay.map { .after(max(self.minimum, $0)) } ?? .never)
    }

    /// Withdraws the question, because an attempt starts without its answer.
    ///
    /// - Returns: The work to cancel, if there is one.
    package mutating func withdrawQuestion() -> WorkID? { self.question.take()?.work }

    /// Forgets all attempts and connections, because they say nothing about the next one.
    package mutating func reset() {
        self.forgetAttempts()
        (self.minimum, self.connectedAt, self.shortConnections) = (.zero, nil, 0)
    }

    /// Forgets the attempts that failed, because they say nothing about the network that is available now. The connections that weren't
    /// stable still count.
    package mutating func forgetAttempts() { (self.startedAt, self.count, self.usedDelays) = (nil, 0, 0) }
}
