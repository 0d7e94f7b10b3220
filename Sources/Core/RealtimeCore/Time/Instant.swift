/// A point on the monotonic clock. Machines know no other kind of time.
///
/// It is concrete on purpose: generic over a clock, nothing that holds time is specialised across modules.
@usableFromInline
package struct Instant: Comparable, Hashable, Sendable {
    package var nanoseconds: Int64

    package init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    @usableFromInline
    package static func < (lhs: Self, rhs: Self) -> Bool { lhs.nanoseconds < rhs.nanoseconds }

    package func advanced(by duration: Duration) -> Self { self + duration.nanoseconds }

    package func duration(to other: Self) -> Duration { .nanoseconds(other.nanoseconds - self.nanoseconds) }

    /// Saturates, so that `.seconds(.max)` means "never" and not a trap.
    package static func + (lhs: Self, nanoseconds: Int64) -> Self {
        let (sum, overflow) = lhs.nanoseconds.addingReportingOverflow(nanoseconds)
        return Self(nanoseconds: overflow ? (nanoseconds < 0 ? .min : .max) : sum)
    }

    /// The earlier of two deadlines; `nil` is "none".
    package static func earliest(_ lhs: Self?, _ rhs: Self?) -> Self? {
        guard let lhs, let rhs else { return lhs ?? rhs }
        return min(lhs, rhs)
    }
}

extension Duration {
    /// Saturates. It divides a 128-bit number: convert once and keep the result where messages pass.
    package var nanoseconds: Int64 {
        // As many seconds as an `Int64` holds nanoseconds of. `components` traps when there are more than it holds seconds of.
        guard self < .seconds(9_223_372_036) else { return .max }
        guard self > .seconds(-9_223_372_036) else { return .min }
        let (seconds, attoseconds) = self.components
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}
