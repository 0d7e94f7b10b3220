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

/// A value that only one thread touches at a time. The value and the system's lock share one block of memory.
///
/// `Synchronization.Mutex` would be faster, but wants iOS 18, and ThreadSanitizer does not see it: its runs
/// matter more than a few nanoseconds.
///
/// `@unchecked Sendable`: the value is reached through `withLock` alone, and the lock orders every access to it.
@usableFromInline
package struct Lock<Value: Sendable>: ~Copyable, @unchecked Sendable {
    /// The system's lock lies in front of it.
    @usableFromInline let value: UnsafeMutablePointer<Value>

    package init(_ value: consuming Value) {
        precondition(MemoryLayout<Value>.alignment <= LockPrimitive.alignment, "the value would not lie where it has to")
        // A byte at least, even for a value without any: a pointer behind the block's end would look to a leak checker as if nobody
        // held the block.
        let size = LockPrimitive.size + max(1, MemoryLayout<Value>.size)
        let block = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: LockPrimitive.alignment)
        self.value = (block + LockPrimitive.size).bindMemory(to: Value.self, capacity: 1)
        self.value.initialize(to: value)
        LockPrimitive.initialize(before: self.value)
    }

    deinit {
        self.value.deinitialize(count: 1)
        LockPrimitive.deinitialize(before: self.value)
        (UnsafeMutableRawPointer(self.value) - LockPrimitive.size).deallocate()
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
        LockPrimitive.acquire(before: self.value)
        defer { LockPrimitive.release(before: self.value) }
        return try body(&self.value.pointee)
    }
}

/// The system's lock in front of a value. Apart from ``Lock``, so that nobody but this file has to know the system's module.
@usableFromInline
enum LockPrimitive {
    static let alignment = 8
    /// Up to the value.
    static var size: Int { (MemoryLayout<Primitive>.size + Self.alignment - 1) & ~(Self.alignment - 1) }

    static func initialize(before value: UnsafeMutableRawPointer) {
        let primitive = (value - Self.size).bindMemory(to: Primitive.self, capacity: 1)
        primitive.initialize(to: Primitive())
        #if !canImport(Darwin)
        precondition(pthread_mutex_init(primitive, nil) == 0, "no memory for a lock")
        #endif
    }

    static func deinitialize(before value: UnsafeMutableRawPointer) {
        #if !canImport(Darwin)
        pthread_mutex_destroy(Self.primitive(before: value))
        #endif
    }

    @usableFromInline
    static func acquire(before value: UnsafeMutableRawPointer) {
        #if canImport(Darwin)
        os_unfair_lock_lock(Self.primitive(before: value))
        #else
        pthread_mutex_lock(Self.primitive(before: value))
        #endif
    }

    @usableFromInline
    static func release(before value: UnsafeMutableRawPointer) {
        #if canImport(Darwin)
        os_unfair_lock_unlock(Self.primitive(before: value))
        #else
        pthread_mutex_unlock(Self.primitive(before: value))
        #endif
    }

    @inline(__always)
    private static func primitive(before value: UnsafeMutableRawPointer) -> UnsafeMutablePointer<Primitive> {
        (value - Self.size).assumingMemoryBound(to: Primitive.self)
    }
}
