/// A deadline that may move often without rescheduling its timer: a pending timer that fires earlier covers any later deadline.
package struct CoalescedTimer: Sendable {
    /// What a timer that fired means.
    package enum Firing: Sendable, Equatable {
        /// The deadline has passed. It is cleared.
        case due
        /// The deadline moved meanwhile. Schedule the timer again for this instant.
        case early(reschedule: Instant)
        /// There is no deadline any more.
        case idle
    }

    private var deadline: Instant?
    private var scheduled: Instant?

    package init() {}

    package var isSet: Bool { self.deadline != nil }

    /// Moves or clears the deadline.
    ///
    /// - Returns: When to schedule the timer; `nil` if the pending one suffices or none is needed.
    package mutating func setDeadline(_ instant: Instant?) -> Instant? {
        self.deadline = instant
        guard let instant else { return nil }
        if let scheduled, scheduled <= instant { return nil }
        self.scheduled = instant
        return instant
    }

    /// The timer fired.
    package mutating func fired(now: Instant) -> Firing {
        self.scheduled = nil
        guard let deadline else { return .idle }
        guard deadline <= now else {
            self.scheduled = deadline
            return .early(reschedule: deadline)
        }
        self.deadline = nil
        return .due
    }
}
