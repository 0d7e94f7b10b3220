internal import RealtimeCore

/// Decides whether a send is written directly, or gathered with others and written by the loop.
///
/// The first send in a turn of the loop is written on the calling thread. The following ones are gathered until the loop services the
/// stream. Service is requested immediately, unless many sends were gathered in the previous turn: servicing a sender of bursts before the
/// turn ends would cost several writes and a wake-up more, which are rows of their own in `realtime bench send` ("writes to the socket for
/// 64", "wake-ups of the loop for 64").
struct WriteBatching: Sendable {
    enum Decision: Equatable, Sendable {
        /// Write now.
        case write
        /// A write or a service that is under way includes the bytes.
        case gather
        /// The loop writes the bytes as soon as it can.
        case requestService
        /// The loop writes the bytes at this instant, unless it services the stream before.
        case requestServiceAt(Instant)
    }

    /// The number of gathered sends that make a burst.
    private static let burst: UInt8 = 8

    /// When sends are written directly again, or `nil` if there was no write in this turn of the loop.
    private var turnEnd: Instant?
    /// Whether appended bytes are to be written as soon as possible.
    private(set) var isPending = false
    /// Whether many sends were gathered in the previous turn.
    private var isBursty = false
    private var isServiceRequested = false
    /// The number of sends gathered in this turn, at most the number that makes a burst.
    private var gathered: UInt8 = 0

    /// Decides about a send.
    ///
    /// - Parameters:
    ///   - canWrite: Whether the socket accepts bytes, and no write is in progress.
    ///   - turnLimit: The longest time that sends are gathered, in nanoseconds.
    ///   - now: Evaluated only if it is needed.
    mutating func send(canWrite: Bool, turnLimit: Int64, now: @autoclosure () -> Instant) -> Decision {
        guard canWrite, !self.isPending else {
            self.isPending = true
            self.gathered = min(self.gathered + 1, Self.burst)
            return .gather
        }
        let now = now()
        if let turnEnd = self.turnEnd, now < turnEnd {
            self.isPending = true
            self.gathered = 1
            return self.isBursty ? .requestServiceAt(turnEnd) : .requestService
        }
        self.isBursty = self.gathered >= Self.burst
        self.gathered = 0
        self.turnEnd = now + turnLimit
        return .write
    }

    /// Notes that appended bytes are to be written as soon as possible.
    mutating func setPending() { self.isPending = true }

    /// Notes that a write takes all appended bytes, or that they are dropped.
    mutating func clearPending() { self.isPending = false }

    /// Ends the turn, so that the next send is written directly.
    mutating func endTurn() { self.turnEnd = nil }

    /// Requests service by the loop.
    ///
    /// - Returns: `false` if it was requested already.
    mutating func requestService() -> Bool {
        defer { self.isServiceRequested = true }
        return !self.isServiceRequested
    }

    /// The loop services the stream, which ends the turn.
    mutating func serviceBegan() {
        self.isServiceRequested = false
        self.endTurn()
    }
}
