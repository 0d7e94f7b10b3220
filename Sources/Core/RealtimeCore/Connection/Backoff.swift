/// How long to wait before the next attempt: exponential with full jitter, since after a server's restart its
/// clients must not come back in step.
///
/// The n-th wait is drawn evenly from zero to `base * 2^(n-1)`, at most `cap`.
public struct Backoff: Sendable, Hashable {
    /// The longest first wait.
    public var base: Duration
    /// The longest wait of all.
    public var cap: Duration

    /// Waits that double from `base` up to `cap`.
    public init(base: Duration = .seconds(1), cap: Duration = .seconds(60)) {
        self.base = base
        self.cap = cap
    }

    /// - Parameter minimum: what the server's rules ask for at least.
    package func delay(failures: Int, minimum: Duration, using generator: inout some RandomNumberGenerator) -> Duration {
        // Clamped: unclamped, 1 << failures overflows one day.
        let exponent = min(max(failures - 1, 0), 16)
        let (doubled, overflow) = self.base.nanoseconds.multipliedReportingOverflow(by: 1 << exponent)
        let ceiling = min(self.cap.nanoseconds, overflow ? (self.base < .zero ? .min : .max) : doubled)
        let floor = max(1, minimum.nanoseconds)
        return .nanoseconds(Int64.random(in: floor...max(floor, ceiling), using: &generator))
    }
}

/// What the *protocol* says about a close: only it knows what 4001 or `allowReconnect: false` means.
package enum ReconnectDecision: Hashable, Sendable {
    case never
    case immediately
    case afterBackoff(atLeast: Duration = .zero)
}
