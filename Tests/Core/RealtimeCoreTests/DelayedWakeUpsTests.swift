import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct DelayedWakeUpsTests {
    /// A task that waits, and what it has seen of the thread that resumes it.
    private final class Scene: Sendable {
        private let waiting = Lock<WakeUp?>(nil)
        let isComplete = Lock(false)

        var isWaiting: Bool { self.waiting.withLock { $0 != nil } }

        func wait() async -> Bool {
            await suspend { wakeUp in
                self.waiting.withLock { $0 = wakeUp }
                return true
            } onCancel: {
                nil
            }
            return self.isComplete.withLock { $0 }
        }

        func resume() {
            if let wakeUp = self.waiting.withLock({ $0.take() }) { DelayedWakeUps.resume(wakeUp) }
            // An opportunity for the task to continue too early.
            for _ in 0..<10_000 { sched_yield() }
        }
    }

    @Test func `a task continues when the thread that resumes it has completed what it does`() async throws {
        let scene = Scene()
        async let hasSeenCompletion = scene.wait()
        try await eventually { scene.isWaiting }
        try await onOwnThread {
            DelayedWakeUps.delaying {
                DelayedWakeUps.delaying { scene.resume() }
                scene.isComplete.withLock { $0 = true }
            }
        }
        #expect(await hasSeenCompletion)
    }

    @Test func `other threads resume tasks immediately`() async throws {
        let scene = Scene()
        async let hasSeenCompletion = scene.wait()
        try await eventually { scene.isWaiting }
        try await onOwnThread {
            DelayedWakeUps.delaying {}
            scene.resume()
        }
        _ = await hasSeenCompletion
    }
}
