import RealtimeCore
import RealtimeSystem

/// Limits how many suites of a kind run at the same time. A suite that waits has started none of its tests.
final class SuiteLimit: Sendable {
    private struct State: Sendable {
        var available: Int
        var waiters: [Waiter<Void>] = []
    }

    private let state: Lock<State>

    init(_ count: Int) {
        self.state = Lock(State(available: count))
    }

    func perform(_ function: @concurrent @Sendable () async throws -> Void) async throws {
        await self.acquire()
        defer { self.release() }
        try await function()
    }

    private func acquire() async {
        let waiter = self.state.withLock { state -> Waiter<Void>? in
            if state.available > 0 {
                state.available -= 1
                return nil
            }
            let waiter = Waiter<Void>()
            state.waiters.append(waiter)
            return waiter
        }
        await waiter?.value()
    }

    /// Passes the permit to the first waiter, if any, so that no later caller can take it.
    private func release() {
        let waiter = self.state.withLock { state -> Waiter<Void>? in
            guard state.waiters.isEmpty else { return state.waiters.removeFirst() }
            state.available += 1
            return nil
        }
        waiter?.fulfill(())?.resume()
    }
}
