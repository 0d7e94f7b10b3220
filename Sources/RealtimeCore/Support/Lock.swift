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
@usableFromInline
package struct Lock<Value: Sendable>: ~Copyable, @unchecked Sendable {
    @usableFromInline let primitive: LockPrimitive
    @usableFromInline let value: UnsafeMutablePointer<Value>

    package init(_ value: consuming Value) {
        self.primitive = LockPrimitive()
        self.value = .allocate(capacity: 1)
        self.value.initialize(to: value)
    }

    deinit {
        self.value.deinitialize(count: 1)
        self.value.deallocate()
        self.primitive.destroy()
    }

    /// Runs `body` alone. Not recursive: `body` calls no foreign code.
    ///
    /// Inlinable, with `@usableFromInline` on the type, without which that has no effect: in the modules that use it, it would else
    /// not be specialised for their values.
    @inlinable
    @inline(__always)
    package borrowing func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        self.primitive.acquire()
        defer { self.primitive.release() }
        return try body(&self.value.pointee)
    }
}

/// The system's lock. A type of its own, so that nobody but this file has to know the system's module.
@usableFromInline
struct LockPrimitive {
    private let pointer: UnsafeMutablePointer<Primitive>

    init() {
        self.pointer = .allocate(capacity: 1)
        self.pointer.initialize(to: Primitive())
        #if !canImport(Darwin)
        precondition(pthread_mutex_init(self.pointer, nil) == 0, "no memory for a lock")
        #endif
    }

    func destroy() {
        #if !canImport(Darwin)
        pthread_mutex_destroy(self.pointer)
        #endif
        self.pointer.deallocate()
    }

    @usableFromInline
    func acquire() {
        #if canImport(Darwin)
        os_unfair_lock_lock(self.pointer)
        #else
        pthread_mutex_lock(self.pointer)
        #endif
    }

    @usableFromInline
    func release() {
        #if canImport(Darwin)
        os_unfair_lock_unlock(self.pointer)
        #else
        pthread_mutex_unlock(self.pointer)
        #endif
    }
}
