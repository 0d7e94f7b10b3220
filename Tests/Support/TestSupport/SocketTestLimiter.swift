import Processes
import RealtimeCore
import RealtimeSystem
package import Testing

/// Limits how many suites that open sockets run at the same time, and raises the limit of file descriptors. All tests together need more
/// than 2,000 descriptors, while most shells allow 1,024 per process, and some only 256.
package struct SocketTestLimiter: SuiteTrait, TestScoping {
    private static let semaphore: Semaphore = {
        FileLimit.raise()
        return Semaphore(available: 4)
    }()

    @concurrent
    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        await Self.semaphore.acquire()
        defer { Self.semaphore.release() }
        try await function()
    }

    private final class Semaphore: Sendable {
        private struct State: Sendable {
            var available: Int
            var waiters: [Waiter<Void>] = []
        }

        private let state: Lock<State>

        init(available: Int) {
            self.state = Lock(State(available: available))
        }

        func acquire() async {
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
        func release() {
            let waiter = self.state.withLock { state -> Waiter<Void>? in
                guard state.waiters.isEmpty else { return state.waiters.removeFirst() }
                state.available += 1
                return nil
            }
            waiter?.fulfill(())?.resume()
        }
    }
}

extension Trait where Self == SocketTestLimiter {
    /// The trait of suites whose tests open sockets or start processes.
    package static var usesSockets: SocketTestLimiter { SocketTestLimiter() }
}
