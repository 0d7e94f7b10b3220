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
    func observe(_ observer: @escaping @Sendable () -> Bool) {
        self.state.withLock {
            $0.last += 1
            $0.observers[$0.last] = observer
        }
    }

    func notify() {
        for (id, observer) in self.state.withLock({ $0.observers }).sorted(by: { $0.key < $1.key }) where !observer() {
            self.state.withLock { $0.observers[id] = nil }
        }
    }
}
