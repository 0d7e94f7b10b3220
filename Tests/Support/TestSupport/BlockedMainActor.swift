import Dispatch
import RealtimeSystem

/// Blocks the main actor until it is released, as `readLine()` does. Other tests wait meanwhile, so release it soon.
package final class BlockedMainActor: Sendable {
    private let released = DispatchSemaphore(value: 0)
    private let hasBegun = Lock(false)

    /// Returns when the main actor is blocked.
    package init() async throws {
        // An unstructured task, which lasts until `release()`.
        Task { @MainActor in self.block() }
        try await eventually { self.hasBegun.withLock { $0 } }
    }

    package func release() { self.released.signal() }

    private func block() {
        self.hasBegun.withLock { $0 = true }
        self.released.wait()
    }
}
