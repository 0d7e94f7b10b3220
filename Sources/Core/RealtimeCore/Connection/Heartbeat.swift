/// The keep-alive timing of a protocol.
package struct HeartbeatPolicy: Sendable, Hashable {
    /// The time without *received* messages after which to probe the peer.
    package var probeAfterSilence: Duration?
    /// The time without *received* messages after which the connection counts as dead.
    package var deadAfterSilence: Duration?
    /// The time without *sent* messages after which to send a ping.
    package var pingAfterNotSending: Duration?
    /// Whether only pings count as sent messages, for a peer that expects pings also of a client that sends other messages.
    package var countsPingsOnly = false

    package init(probeAfterSilence: Duration? = nil, deadAfterSilence: Duration? = nil, pingAfterNotSending: Duration? = nil) {
        self.probeAfterSilence = probeAfterSilence
        self.deadAfterSilence = deadAfterSilence
        self.pingAfterNotSending = pingAfterNotSending
    }
}

/// Tracks the inactivity of one connection.
///
/// Silence counts only while the process runs. If a deadline passed during a standstill, the peer is probed then and has the time for its answer;
/// without probes, its silence is counted from then. This happens once until the next message, so that a busy process still finds a dead peer.
/// However late a deadline is handled, a peer that can be probed isn't dead before it was.
package struct Heartbeat: Sendable {
    package enum Action: Equatable, Sendable {
        case none
        /// Send a message that keeps the connection alive.
        case sendPing
        /// Send a message that the peer answers.
        case sendProbe
        case declareDead
    }

    /// In nanoseconds; `.max` for never.
    private let probeAfter, deadAfter, pingAfter: Int64
    private let countsPingsOnly: Bool
    private var lastReceived, lastSent: Instant
    /// When a message arrived last, without answers to pings that arrive beside them.
    private var lastMessage: Instant
    private var isProbed = false
    /// The number of bytes of messages that arrive, since ``lastReceived``.
    private var partBytes = 0
    /// When the connection counts as dead, unless the peer answers a probe that was asked for.
    private var answerDeadline: Instant?
    private var isReadingPaused = false
    /// Whether the protocol may neither send nor expects messages for a while.
    private var isSuspended = false
    /// Whether the peer was given time because of a standstill, and no message has arrived since.
    private var hasBeenPatient = false

    package init(_ policy: HeartbeatPolicy, now: Instant) {
        self.probeAfter = policy.probeAfterSilence?.nanoseconds ?? .max
        self.deadAfter = policy.deadAfterSilence?.nanoseconds ?? .max
        self.pingAfter = policy.pingAfterNotSending?.nanoseconds ?? .max
        self.countsPingsOnly = policy.countsPingsOnly
        self.lastReceived = now
        self.lastSent = now
        self.lastMessage = now
    }

    private var probeDeadline: Instant? {
        self.isProbed || self.isReadingPaused || self.probeAfter == .max ? nil : self.lastReceived + self.probeAfter
    }
    private var deadDeadline: Instant? {
        if self.isReadingPaused { return nil }
        return .earliest(self.deadAfter == .max ? nil : self.lastReceived + self.deadAfter, self.answerDeadline)
    }
    private var pingDeadline: Instant? { self.pingAfter == .max ? nil : self.lastSent + self.pingAfter }

    package var nextDeadline: Instant? {
        self.isSuspended ? nil : .earliest(.earliest(self.probeDeadline, self.deadDeadline), self.pingDeadline)
    }

    /// Records that a part of a message was received.
    ///
    /// A message that arrives is a sign of life, however long it takes, if it does so at 1 KiB per second. Otherwise, a byte now and then would be
    /// one.
    package mutating func receivedPart(byteCount: Int, now: Instant) {
        self.partBytes = self.partBytes.addingReportingOverflow(byteCount).partialValue
        let milliseconds = (now.nanoseconds - self.lastReceived.nanoseconds) / 1_000_000
        if Int64(self.partBytes) >= milliseconds * 1024 / 1000 { self.received(now: now) }
    }

    package mutating func received(now: Instant) {
        self.lastMessage = now
        self.heard(now: now)
    }

    /// Records the answer to a ping that arrives beside the messages: that to a request, where the messages arrive in a stream.
    ///
    /// It says that the server is there, and nothing of the stream, which a router on the way may have forgotten. Where nothing else arrives, such
    /// answers count for four times the limit.
    package mutating func answered(now: Instant) {
        if (now.nanoseconds - self.lastMessage.nanoseconds) / 4 >= self.deadAfter { return }
        self.heard(now: now)
    }

    private mutating func heard(now: Instant) {
        self.lastReceived = now
        self.partBytes = 0
        self.isProbed = false
        self.answerDeadline = nil
        self.hasBeenPatient = false
    }

    package mutating func sent(now: Instant) {
        if !self.countsPingsOnly { self.lastSent = now }
    }

    /// Pauses or resumes the tracking of received messages. While reading is paused, the peer can't be blamed for silence.
    package mutating func reading(paused: Bool, now: Instant) {
        self.isReadingPaused = paused
        if !paused { self.received(now: now) }
    }

    /// The heartbeat goes on over another connection. The owner may have paused the one before.
    package mutating func replaced(now: Instant) {
        if self.isReadingPaused { self.reading(paused: false, now: now) }
    }

    /// Suspends the heartbeat, or begins it anew.
    package mutating func suspend(_ isSuspended: Bool, now: Instant) {
        self.isSuspended = isSuspended
        guard !isSuspended else { return }
        self.received(now: now)
        self.lastSent = now
    }

    /// Probes the peer now, for example after the network has changed.
    ///
    /// - Parameter timeout: The time after which the connection counts as dead if the peer doesn't respond.
    package mutating func probe(timeout: Duration, now: Instant) -> Action {
        guard !self.isProbed, !self.isReadingPaused, !self.isSuspended else { return .none }
        self.answerDeadline = now.advanced(by: timeout)
        self.isProbed = true
        self.lastSent = now
        return .sendProbe
    }

    package mutating func timeout(now: Instant) -> Action {
        if self.isSuspended { return .none }
        if let deadline = self.nextDeadline, deadline.passedDuringStandstill(now: now) { self.stoodStill(now: now) }
        if let deadline = self.deadDeadline, deadline <= now {
            guard let probe = self.probeDeadline, probe < deadline else { return .declareDead }
            // The probe is late.
            self.beginProbeTime(now: now)
        }
        let isPingDue = self.pingDeadline.map { $0 <= now } ?? false
        // A probe that follows soon takes the place of a ping: the answers to the pings before make both due at nearly the same time.
        if let deadline = self.probeDeadline, deadline <= (isPingDue ? now.advanced(by: self.probeLead) : now) {
            self.isProbed = true
            self.lastSent = now
            return .sendProbe
        }
        if isPingDue {
            self.lastSent = now
            return .sendPing
        }
        return .none
    }

    /// How much earlier a probe is sent in place of a ping.
    private var probeLead: Duration { .nanoseconds(self.probeAfter / 8) }

    private mutating func stoodStill(now: Instant) {
        guard !self.hasBeenPatient, !self.isReadingPaused else { return }
        self.hasBeenPatient = true
        self.lastMessage = now
        (self.isProbed, self.answerDeadline) = (false, nil)
        if self.probeAfter == .max { self.lastReceived = now } else { self.beginProbeTime(now: now) }
    }

    /// The time for the answer to a probe begins with the probe, which is due now if it was due before.
    private mutating func beginProbeTime(now: Instant) { self.lastReceived = max(self.lastReceived, now + -self.probeAfter) }
}
