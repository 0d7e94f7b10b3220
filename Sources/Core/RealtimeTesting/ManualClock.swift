import RealtimeSystem
public import RealtimeCore

/// Time that moves when the test says so.
///
/// ```swift
/// let clock = ManualClock()
/// let network = InMemoryNetwork(clock: clock)
/// clock.advance(by: .seconds(120))
/// ```
/// `advance` passes through every wake-up on its way, in order, and wakes on the caller's thread: when it returns,
/// whatever was due has happened.
public final class ManualClock: TimeSource {
    private struct State: Sendable {
        var now = Instant(nanoseconds: 0)
        var wishes = TimerQueue()
    }

    private let state = Lock(State())

    /// A clock at zero.
    public init() {}

    /// How long the clock has run.
    public var elapsed: Duration { .nanoseconds(self.now.nanoseconds) }

    /// When something next wants to happen, counted from now; `nil` when nothing does.
    public var untilNextDeadline: Duration? {
        self.state.withLock { state in
            state.wishes.earliest.map { max(.zero, state.now.duration(to: $0)) }
        }
    }

    /// Moves time on.
    public func advance(by duration: Duration) { self.advance(to: self.now.advanced(by: duration)) }

    /// Moves time on to the next thing that wants to happen, and lets it. False when there is none.
    @discardableResult
    public func advanceToNextDeadline() -> Bool {
        guard let duration = self.untilNextDeadline else { return false }
        self.advance(by: duration)
        return true
    }

    package var now: Instant { self.state.withLock { $0.now } }

    package func schedule(_ client: any TimerClient, at instant: Instant?) {
        self.state.withLock { $0.wishes.set(client, instant) }
    }

    package func advance(to instant: Instant) {
        while let due = self.next(until: instant) { due.timerFired() }
        self.state.withLock { $0.now = max($0.now, instant) }
    }

    private func next(until instant: Instant) -> (any TimerClient)? {
        self.state.withLock { state in
            while let due = state.wishes.popDue(instant) {
                state.now = max(state.now, due.instant)
                if let client = due.client { return client }
            }
            return nil
        }
    }
}

extension InMemoryNetwork {
    /// A network in memory whose time is the clock's.
    public convenience init(clock: ManualClock) {
        self.init(time: clock)
    }
}
