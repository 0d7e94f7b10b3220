import RealtimeSystem
public import RealtimeCore

/// A clock that advances only when a test advances it.
///
/// ```swift
/// let clock = ManualClock()
/// let network = InMemoryNetwork(clock: clock)
/// clock.advance(by: .seconds(120))
/// ```
/// Advancing the clock fires all timers up to the new time on the calling thread, in order and each at its own time. When the call
/// returns, all timers that were due have fired.
public final class ManualClock: TimeSource {
    private struct State: Sendable {
        var now = Instant(nanoseconds: 0)
        var timers = TimerQueue()
    }

    private let state = Lock(State())

    /// Creates a clock at time zero.
    public init() {}

    /// The time since the clock's creation, as advanced by the test.
    public var elapsed: Duration { .nanoseconds(self.now.nanoseconds) }

    /// The time until the next timer fires; `nil` if no timer is pending.
    public var untilNextDeadline: Duration? {
        self.state.withLock { state in
            state.timers.earliest.map { max(.zero, state.now.duration(to: $0)) }
        }
    }

    /// Advances the clock, and fires all timers that are due.
    ///
    /// - Parameter duration: The time by which to advance the clock.
    public func advance(by duration: Duration) { self.advance(to: self.now.advanced(by: duration)) }

    /// Advances the clock to the next timer, and fires it together with all others that are due.
    ///
    /// - Returns: `false` if no timer is pending.
    @discardableResult
    public func advanceToNextDeadline() -> Bool {
        guard let duration = self.untilNextDeadline else { return false }
        self.advance(by: duration)
        return true
    }

    package var now: Instant { self.state.withLock { $0.now } }

    package func schedule(_ client: any TimerClient, at instant: Instant?) {
        self.state.withLock { $0.timers.set(client, instant) }
    }

    package func advance(to instant: Instant) {
        while let due = self.next(until: instant) { due.timerFired() }
        self.state.withLock { $0.now = max($0.now, instant) }
    }

    private func next(until instant: Instant) -> (any TimerClient)? {
        self.state.withLock { state in
            while let due = state.timers.popDue(instant) {
                state.now = max(state.now, due.instant)
                if let client = due.client { return client }
            }
            return nil
        }
    }
}

extension InMemoryNetwork {
    /// Creates an in-memory network that uses a manual clock.
    ///
    /// - Parameter clock: The clock for all timers of the clients and servers on the network.
    public convenience init(clock: ManualClock) {
        self.init(time: clock)
    }
}
