import RealtimeSystem

/// A value that may contain the application's objects, under a lock.
///
/// Replaced values are released after the lock, because their deinitializers may call the library.
///
/// `@unchecked Sendable`: the value is only accessible under the lock. The application's closures and objects in it are only called where it
/// expects them: on the queue of the client, or on the thread that calls the library.
final class Guarded<Value>: @unchecked Sendable {
    private struct Unchecked: @unchecked Sendable { var value: Value }

    private let lock: Lock<Unchecked>

    init(_ value: Value) {
        self.lock = Lock(Unchecked(value: value))
    }

    var value: Value {
        get { self.lock.withLock { Unchecked(value: $0.value) }.value }
        set {
            let new = Unchecked(value: newValue)
            let old = self.lock.withLock { current in
                defer { current = new }
                return current
            }
            withExtendedLifetime(old) {}
        }
    }

    /// Returns a part of the value, without a copy of the rest. The closure must not call code of the application.
    func read<Result>(_ body: (borrowing Value) -> Result) -> Result { self.lock.withLock { body($0.value) } }

    /// Replaces a part of the value, and releases the old one after the lock.
    func set<Part>(_ path: WritableKeyPath<Value, Part>, to newValue: Part) {
        var part = newValue
        self.lock.withLock { swap(&$0.value[keyPath: path], &part) }
        withExtendedLifetime(part) {}
    }

    /// Changes the value in place. The closure must not call code of the application, and returns what it removes from the value, so that it
    /// is released after the lock.
    func mutate<Result>(_ body: (inout Value) -> Result) -> Result { self.lock.withLock { body(&$0.value) } }

    /// Changes the value. The closure must not call code of the application.
    ///
    /// A copy of the value is kept until the end, so a collection in it is copied when it is changed; see ``mutate(_:)``.
    func update<Result: Sendable>(_ body: (inout Value) -> Result) -> Result {
        var old: Unchecked?
        defer { withExtendedLifetime(old) {} }
        return self.lock.withLock { current in
            old = current
            return body(&current.value)
        }
    }
}
