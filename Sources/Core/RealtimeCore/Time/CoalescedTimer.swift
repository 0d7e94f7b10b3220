/// A deadline that can move often without rescheduling its timer each time: a pending timer that fires earlier also covers any later
/// deadline.
///
/// `Instant.max` is never reached, so a deadline at that instant is the same as none.
package struct CoalescedTimer: Sendable {
    /// The next step when the timer has fired.
    package enum Firing: Sendable, Equatable {
        /// The deadline has passed, and is cleared.
        case due
        /// The deadline was moved to a later time. Schedule the timer again for this instant.
        case early(reschedule: Instant)
        /// No deadline is set.
        case idle
    }

    // `.max` instead of `nil`: half the size, and every connection has one.
    private var deadline = Instant.max
    private var scheduled = Instant.max

    package init() {}

    package var isSet: Bool { self.deadline != .max }

    /// Moves or clears the deadline. Clearing it leaves a pending timer as it is; see ``cancel()``.
    ///
    /// - Returns: The instant to schedule the timer for; `nil` if the pending timer suffices or none is needed.
    package mutating func setDeadline(_ instant: Instant?) -> Instant? {
        self.deadline = instant ?? .max
        guard self.deadline < self.scheduled else { return nil }
        self.scheduled = self.deadline
        return self.deadline
    }

    /// Clears the deadline and forgets the pending timer.
    ///
    /// - Returns: Whether a timer is pending. The caller cancels it.
    package mutating func cancel() -> Bool {
        defer { self = CoalescedTimer() }
        return self.scheduled != .max
    }

    /// Handles the firing of the timer.
    package mutating func fired(now: Instant) -> Firing {
        self.scheduled = .max
        guard self.isSet else { return .idle }
        guard self.deadline <= now else {
            self.scheduled = self.deadline
            return .early(reschedule: self.deadline)
        }
        self.deadline = .max
        return .due
    }
}
