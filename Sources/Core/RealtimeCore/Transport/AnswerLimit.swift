/// The time for a message of HTTP, which has to make progress: a duration, and a second more for each KiB.
///
/// A transport limits the silence of a server, which each byte interrupts: with a byte now and then, an answer could take hours.
package struct AnswerLimit: Sendable {
    /// The problem of an answer that doesn't make progress.
    static let isExceeded = "its answer arrives at less than 1 KiB per second."

    private let limit: Duration
    private let initialByteCount: Int
    private var end: Instant
    private var hasBeenPatient = false
    /// The bytes that needed time.
    package var byteCount: Int

    package init(_ limit: Duration, byteCount: Int = 0, now: Instant) {
        self.limit = limit
        self.initialByteCount = byteCount
        self.end = now.advanced(by: limit)
        self.byteCount = byteCount
    }

    /// The end of the time.
    package var deadline: Instant { self.end + Int64(self.byteCount / 1024) * 1_000_000_000 }

    /// Begins the time anew, because the server had to wait.
    mutating func restart(now: Instant) { (self.end, self.byteCount) = (now.advanced(by: self.limit), 0) }

    /// Begins the time anew, because the process stood still: what the server sent may wait to be read. This happens once, so that a busy process
    /// still finds a dead server.
    ///
    /// - Returns: `false` if it has happened before.
    mutating func restartAfterStandstill(now: Instant) -> Bool {
        guard !self.hasBeenPatient else { return false }
        self.hasBeenPatient = true
        (self.end, self.byteCount) = (now.advanced(by: self.limit), self.initialByteCount)
        return true
    }

    /// Returns whether the time is over, or begins it anew if that happened during a standstill.
    mutating func hasPassed(now: Instant) -> Bool {
        guard self.deadline <= now else { return false }
        return !self.deadline.passedDuringStandstill(now: now) || !self.restartAfterStandstill(now: now)
    }

    /// The error after the end of the time.
    ///
    /// - Parameters:
    ///   - place: The URL, at the beginning of the sentence.
    ///   - problem: The problem, up to the end of the sentence.
    static func error(_ place: String, _ problem: String = isExceeded) -> TransportError {
        TransportError(.timedOut, "\(place) timed out: \(problem) Check the server, and any proxies before it.")
    }
}
