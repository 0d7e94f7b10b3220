#if canImport(Darwin)
import Darwin
private typealias Primitive = os_unfair_lock
#elseif canImport(Glibc)
import Glibc
private typealias Primitive = pthread_mutex_t
#elseif canImport(Musl)
import Musl
private typealias Primitive = pthread_mutex_t
#endif

/// A value that only one thread touches at a time.
///
/// `Synchronization.Mutex` would be faster, but wants iOS 18, and ThreadSanitizer does not see it: its runs
/// matter more than a few nanoseconds.
///
/// `@unchecked Sendable`: the value is reached through `withLock` alone, and the lock orders every access to it.
package struct Lock<Value: Sendable>: ~Copyable, @unchecked Sendable {
    private let primitive: UnsafeMutablePointer<Primitive>
    private let value: UnsafeMutablePointer<Value>

    package init(_ value: consuming Value) {
        self.primitive = .allocate(capacity: 1)
        self.primitive.initialize(to: Primitive())
        #if !canImport(Darwin)
        precondition(pthread_mutex_init(self.primitive, nil) == 0, "no memory for a lock")
        #endif
        self.value = .allocate(capacity: 1)
        self.value.initialize(to: value)
    }

    deinit {
        self.value.deinitialize(count: 1)
        self.value.deallocate()
        #if !canImport(Darwin)
        pthread_mutex_destroy(self.primitive)
        #endif
        self.primitive.deallocate()
    }

    /// Runs `body` alone. Not recursive: `body` calls no foreign code.
    @inline(__always)
    package borrowing func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        #if canImport(Darwin)
        os_unfair_lock_lock(self.primitive)
        defer { os_unfair_lock_unlock(self.primitive) }
        #else
        pthread_mutex_lock(self.primitive)
        defer { pthread_mutex_unlock(self.primitive) }
        #endif
        return try body(&self.value.pointee)
    }
}
