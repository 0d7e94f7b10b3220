/// The delays between attempts to connect: exponential backoff with full jitter, so that the clients of a restarted server don't all
/// reconnect at the same time.
///
/// The delay before the n-th attempt is a random duration between zero and `base * 2^(n-1)`, limited to `cap`.
public struct Backoff: Sendable, Hashable, PrintedParts {
    /// The upper bound of the first delay.
    public var base: Duration
    /// The upper bound of all delays.
    public var cap: Duration

    /// Creates a backoff with delays whose upper bound doubles from `base` to `cap`.
    ///
    /// - Parameters:
    ///   - base: The upper bound of the first delay.
    ///   - cap: The upper bound of all delays.
    public init(base: Duration = .seconds(1), cap: Duration = .seconds(60)) {
        self.base = base
        self.cap = cap
    }

    /// Returns a random delay. It is greater than zero.
    ///
    /// - Parameter minimum: The shortest delay that the protocol allows. It takes precedence over `cap`.
    package func delay(failures: Int, minimum: Duration, using generator: inout some RandomNumberGenerator) -> Duration {
        // Limits the shift, which would overflow after 63 failures.
        let exponent = min(max(failures - 1, 0), 16)
        let (doubled, overflow) = self.base.nanoseconds.multipliedReportingOverflow(by: 1 << exponent)
        let ceiling = min(self.cap.nanoseconds, overflow ? (self.base < .zero ? .min : .max) : doubled)
        let floor = max(1, minimum.nanoseconds)
        return .nanoseconds(Int64.random(in: floor...max(floor, ceiling), using: &generator))
    }
}
