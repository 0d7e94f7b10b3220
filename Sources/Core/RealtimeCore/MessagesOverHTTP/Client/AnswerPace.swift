/// Slows down the requests for messages if the server answers them immediately, and without a message.
///
/// An answer may only look like a message. Its owner finds that out, possibly after the next request was decided about.
struct AnswerPace: Sendable {
    private struct Answer: Sendable {
        /// The exchange that brought the last part; `nil` before the first one.
        var id: ExchangeID?
        /// The number of parts with messages, without those in which the owner has found none.
        var messageParts = 0
        /// Whether a part looked like messages.
        var hasLikeness = false
        /// The number of answers in a row that were quick and without a message, if this one has none.
        var count = 0
    }

    /// A response that ended within this time was answered immediately.
    private static let quick = Duration.seconds(1)
    /// The longest pause before the request that follows such responses. The first one is 100 ms, and they double.
    private static let longestPause = Duration.seconds(5)

    private var current = Answer()
    private var last: Answer?

    /// A part of the answer seems to have messages.
    mutating func received(_ id: ExchangeID) {
        self.current.id = id
        self.current.messageParts += 1
        self.current.hasLikeness = true
    }

    /// The owner has found no message in a part that seemed to have some.
    mutating func ignored(_ id: ExchangeID) {
        if self.current.id == id { self.current.messageParts -= 1 } else if self.last?.id == id { self.last?.messageParts -= 1 }
    }

    /// The answer has ended.
    ///
    /// - Parameter duration: The time since the request.
    /// - Returns: The time until the next request.
    mutating func ended(after duration: Duration) -> Duration {
        var answer = self.current
        self.current = Answer()
        let before = self.last.map { $0.messageParts > 0 ? 0 : $0.count } ?? 0
        // The owner may not have read this answer yet, and has found nothing in the previous one.
        let isDoubtful = self.last.map { $0.hasLikeness && $0.messageParts <= 0 } ?? false
        answer.count = duration < Self.quick ? before + 1 : 0
        self.last = answer
        let count = answer.messageParts <= 0 || isDoubtful ? answer.count : 0
        // The first answer of a poll, which opens a connection, may be empty. A server that goes on answering immediately isn't hammered.
        return count < 2 ? .zero : min(.milliseconds(100) * (1 << min(count - 2, 6)), Self.longestPause)
    }
}
