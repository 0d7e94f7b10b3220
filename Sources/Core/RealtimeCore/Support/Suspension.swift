import RealtimeSystem

/// Someone to be woken after the lock is released. `Void`, because a continuation that carries a value gives
/// ThreadSanitizer false reports: the value is handed over under the lock.
package typealias WakeUp = UnsafeContinuation<Void, Never>

/// Suspends until woken. `register` stores the continuation under a lock and answers true, or answers false:
/// no need to wait. `withdraw` runs on cancellation and takes it back out.
///
/// `register` has to look at the task's cancellation under that same lock: either the flag is seen there,
/// or `withdraw`, which takes the lock afterwards, finds the continuation.
package func suspend(register: (WakeUp) -> Bool, withdraw: @Sendable () -> WakeUp?) async {
    await withTaskCancellationHandler {
        await withUnsafeContinuation { (wakeUp: WakeUp) in
            if !register(wakeUp) { wakeUp.resume() }
        }
    } onCancel: {
        withdraw()?.resume()
    }
}

/// One answer for one caller.
package final class Waiter<Value: Sendable>: Sendable {
    private struct State: Sendable {
        var value: Value?
        var waiting: WakeUp?
    }

    /// How long the caller waits; `nil` for as long as it takes.
    package let limit: Duration?
    private let state = Lock(State())

    package init(limit: Duration? = nil) {
        self.limit = limit
    }

    /// The first answer counts. The caller is to be woken outside of all locks.
    package func fulfill(_ value: Value) -> WakeUp? {
        self.state.withLock { state in
            if state.value == nil { state.value = value }
            return state.waiting.take()
        }
    }

    /// Waits for the answer. On cancellation `onCancel` has to see to it that an answer comes.
    package func value(onCancel: @escaping @Sendable () -> Void) async -> Value {
        await suspend { wakeUp in
            self.state.withLock { state in
                if state.value == nil { state.waiting = wakeUp }
                return state.value == nil
            }
        } withdraw: {
            onCancel()
            return nil
        }
        guard let value = self.state.withLock({ $0.value }) else { preconditionFailure("woken without an answer") }
        return value
    }
}
