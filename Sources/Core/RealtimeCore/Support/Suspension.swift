import RealtimeSystem

/// A suspended task, to be resumed after the lock is released. `Void`, because a continuation that carries a value causes false
/// ThreadSanitizer reports: values are passed under the lock.
package typealias WakeUp = UnsafeContinuation<Void, Never>

/// Suspends the current task until it is resumed.
///
/// `register` must check the task's cancellation under the lock that `onCancel` takes: either the check sees the cancellation, or
/// `onCancel`, which runs later, finds the continuation.
///
/// - Parameters:
///   - register: Stores the continuation under a lock and returns true, or returns false if there is nothing to wait for.
///   - onCancel: Removes the continuation when the task is cancelled, and returns it if it was still stored.
package func suspend(register: (WakeUp) -> Bool, onCancel: @Sendable () -> WakeUp?) async {
    await withTaskCancellationHandler {
        await withUnsafeContinuation { (wakeUp: WakeUp) in
            if !register(wakeUp) { wakeUp.resume() }
        }
    } onCancel: {
        onCancel()?.resume()
    }
}

/// A value that is set once and that one task waits for.
///
/// For a condition that several tasks wait for, or that can change more than once, see ``WaitingTasks``.
package final class Waiter<Value: Sendable>: Sendable {
    private struct State: Sendable {
        var value: Value?
        var waiting: WakeUp?
    }

    private let state = Lock(State())

    package init() {}

    /// Sets the value. Has no effect if a value is set already.
    ///
    /// - Returns: The waiting task, if any. Resume it after releasing all locks.
    package func fulfill(_ value: Value) -> WakeUp? {
        self.state.withLock { state in
            if state.value == nil { state.value = value }
            return state.waiting.take()
        }
    }

    /// Waits for the value. Only one task may wait at a time.
    ///
    /// - Parameter onCancel: Called when the task is cancelled, on any thread. Cancellation doesn't end the wait: to end it, the closure
    ///   must cause ``fulfill(_:)`` to be called. By default, the task continues to wait.
    /// - Returns: The value, immediately if it is set already.
    package func value(onCancel: @escaping @Sendable () -> Void = {}) async -> Value {
        await suspend { wakeUp in
            self.state.withLock { state in
                precondition(state.waiting == nil, "only one task can wait for a value at a time")
                if state.value == nil { state.waiting = wakeUp }
                return state.value == nil
            }
        } onCancel: {
            onCancel()
            return nil
        }
        guard let value = self.state.withLock({ $0.value }) else { preconditionFailure("resumed without a value") }
        return value
    }
}

/// The tasks that wait for a condition to change. Stored under the lock that protects the condition.
///
/// Unlike a ``Waiter``, it carries no value and is reusable: any number of tasks wait, each for its own condition on the same state, and
/// each checks its condition again after it is resumed.
package struct WaitingTasks: Sendable {
    /// Identifies one wait, so that cancellation can remove it.
    package final class ID: Sendable {
        package init() {}
    }

    private var tasks: [ObjectIdentifier: WakeUp] = [:]

    package init() {}

    package var isEmpty: Bool { self.tasks.isEmpty }

    package mutating func add(_ id: ID, _ wakeUp: WakeUp) { self.tasks[ObjectIdentifier(id)] = wakeUp }

    /// Removes the task of a cancelled wait and returns it.
    package mutating func take(_ id: ID) -> WakeUp? { self.tasks.removeValue(forKey: ObjectIdentifier(id)) }

    /// Removes all tasks and returns them. Resume them after releasing all locks.
    package mutating func takeAll() -> [WakeUp] {
        guard !self.tasks.isEmpty else { return [] }
        defer { self.tasks = [:] }
        return Array(self.tasks.values)
    }
}
