import RealtimeCore
import RealtimeSystem

/// A decision of the ``SignalRServerHooks/authenticate`` hook, and its time limit.
final class PendingAuthentication: TimerClient {
    private struct State: Sendable {
        /// `nil` after the decision or the cancellation.
        var decided: (@Sendable (SignalRAuthenticationDecision) -> Void)?
        var task: Task<Void, Never>?
    }

    private let time: any TimeSource
    private let state: Lock<State>

    /// - Parameter decided: Called once, unless the decision is cancelled before.
    init(time: any TimeSource, _ decided: @escaping @Sendable (SignalRAuthenticationDecision) -> Void) {
        self.time = time
        self.state = Lock(State(decided: decided))
    }

    func begin(limit: Duration, _ hook: @escaping @Sendable () async -> SignalRAuthenticationDecision) {
        self.time.schedule(self, at: self.time.now.advanced(by: max(.milliseconds(1), limit)))
        // Unstructured, because the listener's thread doesn't wait. It retains this object, whose timer refers to it weakly, and is
        // cancelled when the decision isn't needed any more.
        let task = Task { self.finish(await hook()) }
        let isPending = self.state.withLock { state in
            if state.decided != nil { state.task = task }
            return state.decided != nil
        }
        if !isPending { task.cancel() }
    }

    /// Ends the wait, because the client has disconnected.
    func cancel() { self.finish(nil) }

    func timerFired() { self.finish(.reject(status: 503)) }

    private func finish(_ decision: SignalRAuthenticationDecision?) {
        let (decided, task) = self.state.withLock { ($0.decided.take(), $0.task.take()) }
        guard let decided else { return }
        self.time.schedule(self, at: nil)
        if let decision { decided(decision) }
        // Without effect if the hook has decided.
        task?.cancel()
    }
}
