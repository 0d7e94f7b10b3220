import RealtimeSystem

/// The clients that use options, and learn when these change.
final class PrimusChanges: Sendable {
    private struct State: Sendable {
        var last: UInt64 = 0
        var observers: [UInt64: @Sendable () -> Bool] = [:]
    }

    private let state = Lock(State())

    /// Adds an observer.
    ///
    /// - Parameter observer: Called after each change, on the thread that makes it, without a lock, until it returns `false`.
    /// - Returns: A closure that removes the observer.
    @discardableResult
    func observe(_ observer: @escaping @Sendable () -> Bool) -> @Sendable () -> Void {
        let id = self.state.withLock { state in
            state.last += 1
            state.observers[state.last] = observer
            return state.last
        }
        return { self.remove(id) }
    }

    private func remove(_ id: UInt64) {
        // Released after the lock.
        let observer = self.state.withLock { $0.observers.removeValue(forKey: id) }
        withExtendedLifetime(observer) {}
    }

    /// The number of observers.
    var observerCount: Int { self.state.withLock { $0.observers.count } }

    func notify() {
        for (id, observer) in self.state.withLock({ $0.observers }).sorted(by: { $0.key < $1.key }) where !observer() {
            self.remove(id)
        }
    }
}
