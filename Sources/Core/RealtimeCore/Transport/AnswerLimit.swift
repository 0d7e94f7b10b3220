/// The time for a message of HTTP, which has to make progress: a duration, and a second more for each KiB.
///
/// A transport limits the silence of a server, which each byte interrupts: with a byte now and then, an answer could take hours.
package struct AnswerLimit: Sendable {
    /// The problem of an answer that doesn't make progress.
    static let isExceeded = "its answer arrives at less than 1 KiB per second."

    private let end: Instant
    /// The bytes that needed time.
    package var byteCount: Int

    package init(_ limit: Duration, byteCount: Int = 0, now: Instant) {
        self.end = now.advanced(by: limit)
        self.byteCount = byteCount
    }

    /// The end of the time.
    package var deadline: Instant { self.end + Int64(self.byteCount / 1024) * 1_000_000_000 }

    /// The error after the end of the time.
    ///
    /// - Parameters:
    ///   - place: The URL, at the beginning of the sentence.
    ///   - problem: The problem, up to the end of the sentence.
    static func error(_ place: String, _ problem: String = isExceeded) -> TransportError {
        TransportError(.timedOut, "\(place) timed out: \(problem) Check the server, and any proxies before it.")
    }
}
