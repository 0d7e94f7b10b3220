public import RealtimeCore

/// A clock that advances only when a test advances it.
///
/// ```swift
/// let clock = ManualClock()
/// let network = InMemoryNetwork(clock: clock)
/// clock.advance(by: .seconds(120))
/// ```
/// Advancing the clock fires all timers up to the new time on the calling thread, in order and each at its own time. When the call
/// returns, all timers of clients and servers that were due have fired, and their effects are complete, including effects that another thread
/// was processing.
///
/// ### Time limits
///
/// Time limits of calls such as `connected(within:)` elapse on this clock. In a test that doesn't advance it, a call whose result never
/// comes, for example because the test doesn't connect the client, would wait forever. If the clock and its timers don't change for
/// `standstillLimit` of real time, 5 seconds by default, the calls that wait with a time limit throw an error that says so. The sequences of
/// a client that isn't connecting finish if a task waits for their next element, and a message is written to standard error, or to the
/// unified logging system on Apple platforms. Nothing ends while no task waits.
///
/// ### Sleeping tasks
///
/// The clock conforms to `Clock`, so that an app that receives its clock as `any Clock<Duration>` can be tested with it. A task that sleeps
/// is resumed when the clock reaches its deadline; it then runs as the executor schedules it, usually after ``advance(by:)`` has returned.
/// To wait until a task sleeps, and until it has done what follows, use ``eventually(_:within:fileID:line:_:)``:
///
/// ```swift
/// try await eventually { clock.sleepingTaskCount == 1 }
/// clock.advance(by: .seconds(60))
/// try await eventually { model.isRefreshed }
/// ```
public final class ManualClock: Clock {
    /// A point in time of a manual clock.
    public struct Instant: InstantProtocol {
        /// The time since the clock's creation.
        public var offset: Duration

        /// Creates an instant.
        ///
        /// - Parameter offset: The time since the clock's creation.
        public init(offset: Duration) {
            self.offset = offset
        }

        /// Returns the instant that is a duration later.
        public func advanced(by duration: Duration) -> Instant { Instant(offset: self.offset + duration) }

        /// Returns the duration from this instant to another one.
        public func duration(to other: Instant) -> Duration { other.offset - self.offset }

        /// Returns whether an instant is earlier than another one.
        public static func < (lhs: Instant, rhs: Instant) -> Bool { lhs.offset < rhs.offset }
    }

    package let time: ManualTime

    /// Creates a clock at time zero.
    ///
    /// - Parameter standstillLimit: How much real time may pass while the clock stands still and a call with a time limit on it waits;
    ///   `nil` for no limit.
    public init(standstillLimit: Duration? = .seconds(5)) {
        self.time = ManualTime(standstillLimit: standstillLimit)
    }

    /// The current time of the clock.
    public var now: Instant { Instant(offset: self.elapsed) }

    /// The smallest duration by which two instants can differ: one nanosecond.
    public var minimumResolution: Duration { .nanoseconds(1) }

    /// The time since the clock's creation, as advanced by the test.
    public var elapsed: Duration { .nanoseconds(self.time.now.nanoseconds) }

    /// The time until the next timer fires or the next sleeping task is resumed; `nil` if there is neither.
    public var untilNextDeadline: Duration? {
        self.time.nextDeadline.map { max(.zero, self.time.now.duration(to: $0)) }
    }

    /// Advances the clock, fires all timers that are due, and resumes the tasks that sleep until then.
    ///
    /// - Parameter duration: The time by which to advance the clock.
    public func advance(by duration: Duration) { self.time.advance(to: self.time.now.advanced(by: duration)) }

    /// Advances the clock as if the process had stood still, for example because the system suspended the app, and fires the timers that are due
    /// afterwards, all at the new time.
    ///
    /// Clients and servers don't treat the time of a standstill as silence of their peers.
    ///
    /// - Parameter duration: The time for which the process stands still.
    public func standStill(for duration: Duration) { self.time.standStill(until: self.time.now.advanced(by: duration)) }

    /// Advances the clock to the next timer or sleeping task, and fires it together with all others that are due.
    ///
    /// - Returns: `false` if there is neither a timer nor a sleeping task.
    @discardableResult
    public func advanceToNextDeadline() -> Bool {
        guard let deadline = self.time.nextDeadline else { return false }
        self.time.advance(to: max(deadline, self.time.now))
        return true
    }

    // MARK: Sleeping

    /// The number of tasks that sleep on this clock.
    public var sleepingTaskCount: Int { self.time.sleepingTaskCount }

    /// Suspends the task until the clock is advanced to an instant.
    ///
    /// Returns immediately if the clock has reached the instant already. Tasks are resumed in the order of their deadlines.
    ///
    /// - Parameters:
    ///   - deadline: The instant.
    ///   - tolerance: Has no effect.
    /// - Throws: `CancellationError`, immediately when the task is cancelled.
    public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
        try Task.checkCancellation()
        let sleeper = Sleeper()
        guard self.time.sleep(sleeper, until: RealtimeCore.Instant(nanoseconds: deadline.offset.nanoseconds)) else { return }
        guard await sleeper.wait() else {
            self.time.cancelSleep(sleeper)
            throw CancellationError()
        }
    }
}

/// A task that sleeps.
private final class Sleeper: TimerClient {
    private let waiter = Waiter<Bool>()

    func timerFired() { self.waiter.fulfill(true)?.resume() }

    /// - Returns: `false` if the task was cancelled before the timer fired.
    func wait() async -> Bool {
        await self.waiter.value { self.waiter.fulfill(false)?.resume() }
    }
}

extension InMemoryNetwork {
    /// Creates an in-memory network that uses a manual clock.
    ///
    /// - Parameter clock: The clock for all timers of the clients and servers on the network.
    public convenience init(clock: ManualClock) {
        self.init(time: clock.time)
        clock.time.add(self)
    }
}

extension ManualClock: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("elapsed", self.elapsed)] }
}
