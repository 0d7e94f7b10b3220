/// A point in time on the monotonic clock. State machines receive it as a parameter and never read a clock.
///
/// It is a concrete type because code that is generic over a clock isn't specialized across modules.
@usableFromInline
package struct Instant: Comparable, Hashable, Sendable {
    package var nanoseconds: Int64

    package init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    /// An instant that is never reached.
    package static var max: Instant { Instant(nanoseconds: .max) }

    @usableFromInline
    package static func < (lhs: Self, rhs: Self) -> Bool { lhs.nanoseconds < rhs.nanoseconds }

    package func advanced(by duration: Duration) -> Self { self + duration.nanoseconds }

    package func duration(to other: Self) -> Duration { .nanoseconds(other.nanoseconds - self.nanoseconds) }

    /// Adds nanoseconds. Saturates on overflow, so that a timeout of `.seconds(.max)` means "never".
    package static func + (lhs: Self, nanoseconds: Int64) -> Self {
        let (sum, overflow) = lhs.nanoseconds.addingReportingOverflow(nanoseconds)
        return Self(nanoseconds: overflow ? (nanoseconds < 0 ? .min : .max) : sum)
    }

    /// Whether a deadline that is handled now passed while the process stood still: because the system suspended it, a debugger stopped it, or
    /// the processor was given to others. What the peer sent meanwhile may not have arrived yet.
    /// Timers of a process that runs are late by milliseconds.
    package func passedDuringStandstill(now: Instant) -> Bool { self + 1_000_000_000 <= now }

    /// Returns the earlier of two deadlines, where `nil` means no deadline.
    package static func earliest(_ lhs: Self?, _ rhs: Self?) -> Self? {
        guard let lhs, let rhs else { return lhs ?? rhs }
        return min(lhs, rhs)
    }
}

extension Duration {
    /// The duration in nanoseconds; saturates on overflow. It divides a 128-bit number, so convert once where performance matters.
    package var nanoseconds: Int64 {
        // The range of seconds whose nanoseconds fit into an `Int64`. `components` traps for durations far beyond it.
        guard self < .seconds(9_223_372_036) else { return .max }
        guard self > .seconds(-9_223_372_036) else { return .min }
        let (seconds, attoseconds) = self.components
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}
