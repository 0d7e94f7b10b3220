import RealtimeSystem

/// The decision of a hook about a request, outside a machine. The hook runs in a task of its own.
///
/// ```
///   pending ──the hook decides──▶ decided
///      ├──────the time limit is exceeded──▶ decided, and the task is cancelled
///      └──────cancelled, because the client has disconnected──▶ cancelled, as the task is
/// ```
package final class PendingDecision<Decision: Sendable>: TimerClient {
    private struct TimeLimit: Sendable {
        let time: any TimeSource
        /// The decision if the hook doesn't decide in time.
        let decision: Decision
    }

    private struct State: Sendable {
        /// `nil` after the decision or the cancellation.
        var decided: (@Sendable (Decision) -> Void)?
        var limit: TimeLimit?
        var task: Task<Void, Never>?
    }

    private let state: Lock<State>

    /// Creates a decision.
    ///
    /// - Parameter decided: A closure that is called once, on any thread, unless the decision is cancelled before.
    package init(_ decided: @escaping @Sendable (Decision) -> Void) {
        self.state = Lock(State(decided: decided))
    }

    /// Runs a hook with a time limit.
    ///
    /// - Parameters:
    ///   - limit: How long to wait for the decision, at least 1 ms.
    ///   - time: The clock of the limit.
    ///   - fallback: The decision if the hook doesn't decide in time.
    ///   - hook: The hook.
    package func begin(
        within limit: Duration, of time: any TimeSource, orElse fallback: Decision, _ hook: @escaping @Sendable () async -> Decision
    ) {
        let deadline = time.now.advanced(by: max(.milliseconds(1), limit))
        self.state.withLock { state in
            guard state.decided != nil else { return }
            state.limit = TimeLimit(time: time, decision: fallback)
            // Under the lock, so that a cancellation on another thread doesn't come before it.
            time.schedule(self, at: deadline)
        }
        self.begin(hook)
    }

    /// Runs a hook without a time limit.
    package func begin(_ hook: @escaping @Sendable () async -> Decision) {
        guard self.state.withLock({ $0.decided != nil }) else { return }
        // Unstructured, because the listener's thread doesn't wait. It retains this object, to which timers refer weakly, and is cancelled
        // when the decision isn't needed any more.
        let task = Task { _ = self.finish(await hook()) }
        let isPending = self.state.withLock { state in
            if state.decided != nil { state.task = task }
            return state.decided != nil
        }
        if !isPending { task.cancel() }
    }

    /// Ends the wait without a decision, because the client has disconnected. A hook that wasn't begun isn't called then.
    ///
    /// - Returns: Whether there was no decision yet. If there was one, it is about to be carried out.
    @discardableResult
    package func cancel() -> Bool { self.finish(nil) }

    package func timerFired() {
        guard let limit = self.state.withLock({ $0.limit }) else { return }
        self.finish(limit.decision)
    }

    /// - Returns: Whether the decision was pending.
    @discardableResult
    private func finish(_ decision: Decision?) -> Bool {
        let (decided, limit, task) = self.state.withLock { ($0.decided.take(), $0.limit.take(), $0.task.take()) }
        guard let decided else { return false }
        limit?.time.schedule(self, at: nil)
        if let decision { decided(decision) }
        // This has no effect if the hook has decided.
        task?.cancel()
        return true
    }
}
