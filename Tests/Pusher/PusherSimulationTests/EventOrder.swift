import RealtimeCore

/// The events of one channel that a client has delivered, which have consecutive numbers, and the last gap that it has reported.
///
/// A gap tells the application to load what it shows again. It is therefore a notice of all missing events that were published before it,
/// wherever they are missing: after a second confirmation, events that the server sent for an earlier subscription have waited together
/// with those for the current one. They follow the gap, and events can be missing before, between and after them.
struct EventOrder {
    /// The result of an event.
    enum Arrival: Hashable {
        case inOrder
        /// The event, or a newer one, was delivered before.
        case repeated
        /// Events before it are missing without notice.
        case missing
    }

    private struct Gap {
        /// The number of the last event that was published before.
        var published: Int
        var time: Instant
    }

    private var last = 0
    /// Whether the current consumer has received an event.
    private var isFollowed = false
    /// The last gap, until the first event after those that have waited for it.
    private var gap: Gap?

    /// Another consumer begins with the next event.
    mutating func consumerBegan() { self.isFollowed = false }

    /// Receives a gap.
    ///
    /// - Parameter published: The number of the last event that was published.
    mutating func receivedGap(published: Int, now: Instant) { self.gap = Gap(published: published, time: now) }

    mutating func received(_ number: Int, now: Instant) -> Arrival {
        guard number > self.last else { return .repeated }
        let isMissing = self.isFollowed && number > self.last + 1
        let hasNotice = self.gap.map { number - 1 <= $0.published } ?? false
        (self.last, self.isFollowed) = (number, true)
        // The events that have waited arrive in the same step as the gap.
        if let gap, gap.time < now { self.gap = nil }
        return isMissing && !hasNotice ? .missing : .inOrder
    }
}
