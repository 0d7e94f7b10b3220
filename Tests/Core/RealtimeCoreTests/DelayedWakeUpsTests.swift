import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// A task that waits, and that another thread resumes.
final class WaitingTask: Sendable {
    private let wakeUp = Lock<WakeUp?>(nil)

    var isWaiting: Bool { self.wakeUp.withLock { $0 != nil } }

    /// Waits, and then returns what the task sees.
    func wait<Value: Sendable>(_ look: @Sendable () -> Value) async -> Value {
        await suspend { wakeUp in
            self.wakeUp.withLock { $0 = wakeUp }
            return true
        } onCancel: {
            nil
        }
        return look()
    }

    func resume() {
        if let wakeUp = self.wakeUp.withLock({ $0.take() }) { DelayedWakeUps.resume(wakeUp) }
        // An opportunity for the task to continue too early.
        for _ in 0..<10_000 { sched_yield() }
    }
}

@Suite(.timeLimit(.minutes(10))) struct DelayedWakeUpsTests {
    @Test func `a task continues when the thread that resumes it has completed what it does`() async throws {
        let (task, completions) = (WaitingTask(), EventRecorder<Bool>())
        async let hasSeenCompletion = task.wait { completions.all == [true] }
        try await eventually { task.isWaiting }
        try await onOwnThread {
            DelayedWakeUps.delaying {
                DelayedWakeUps.delaying { task.resume() }
                completions.record(true)
            }
        }
        await expect(hasSeenCompletion)
    }

    @Test func `other threads resume tasks immediately`() async throws {
        let task = WaitingTask()
        async let isResumed = task.wait { true }
        try await eventually { task.isWaiting }
        try await onOwnThread {
            DelayedWakeUps.delaying {}
            task.resume()
        }
        _ = await isResumed
    }
}
