package import RealtimeCore
import RealtimeSystem
package import RealtimeTesting

/// A clock that performs jobs in turns which the test takes.
package final class TurnTime: TimeSource {
    private let clock: ManualClock
    private let jobs = Lock<[@Sendable () -> Void]>([])

    package init(_ clock: ManualClock = ManualClock()) { self.clock = clock }

    package var now: Instant { self.clock.time.now }
    package func schedule(_ client: any TimerClient, at instant: Instant?) { self.clock.time.schedule(client, at: instant) }
    package func performLater(_ job: @escaping @Sendable () -> Void) -> Bool {
        self.jobs.withLock { $0.append(job) }
        return true
    }

    /// Performs the jobs that wait, but not those that they add.
    ///
    /// - Returns: Whether there were any.
    @discardableResult
    package func take() -> Bool {
        let jobs = self.jobs.withLock { jobs in
            defer { jobs = [] }
            return jobs
        }
        for job in jobs { job() }
        return !jobs.isEmpty
    }
}
