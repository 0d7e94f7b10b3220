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

/// A value protected by a lock. The value and the system's lock share one allocation.
///
/// `Synchronization.Mutex` would be a few nanoseconds faster, but requires iOS 18 and isn't supported by ThreadSanitizer.
///
/// `@unchecked Sendable`: the value is accessible only in `withLock`, and the lock orders all accesses.
@usableFromInline
package struct Lock<Value: Sendable>: ~Copyable, @unchecked Sendable {
    /// The system's lock is stored in front of the value.
    @usableFromInline let value: UnsafeMutablePointer<Value>

    package init(_ value: consuming Value) {
        precondition(MemoryLayout<Value>.alignment <= LockPrimitive.alignment, "unsupported alignment of the value")
        // At least one byte, even for a value of size zero: otherwise `value` points behind the end of the block, and a leak checker
        // reports the block as unreferenced.
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

    /// Calls `body` with exclusive access to the value. The lock isn't recursive, so `body` must not call code that may take it again.
    ///
    /// Inlinable, and `@usableFromInline` on the type, so that it is specialized in the modules that use it.
    ///
    /// - Throws: The error that `body` throws.
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

/// The system's lock in front of a value. Separate from ``Lock``, whose inlinable code must not refer to the system's module.
@usableFromInline
enum LockPrimitive {
    static let alignment = 8
    /// The distance from the lock to the value, in bytes.
    static var size: Int { (MemoryLayout<Primitive>.size + Self.alignment - 1) & ~(Self.alignment - 1) }

    static func initialize(before value: UnsafeMutableRawPointer) {
        let primitive = (value - Self.size).bindMemory(to: Primitive.self, capacity: 1)
        primitive.initialize(to: Primitive())
        #if !canImport(Darwin)
        precondition(pthread_mutex_init(primitive, nil) == 0, "pthread_mutex_init failed")
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
        #if DEBUG
        LockCounter.lockAcquired()
        #endif
    }

    @usableFromInline
    static func release(before value: UnsafeMutableRawPointer) {
        #if DEBUG
        LockCounter.lockReleased()
        #endif
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

#if DEBUG
/// Counts the locks that the calling thread acquires, for tests of hot paths. Debug builds only.
package enum LockCounter {
    package struct Counts: Sendable {
        package var acquisitions = 0
        /// The largest number of locks held at the same time.
        package var depth = 0
        fileprivate var held = 0
    }

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        precondition(pthread_key_create(&key, nil) == 0, "no thread-specific key left")
        return key
    }()

    private static var counts: UnsafeMutablePointer<Counts>? { pthread_getspecific(self.key)?.assumingMemoryBound(to: Counts.self) }

    /// Begins to count on this thread. No lock may be held.
    package static func start() {
        let counts = self.counts ?? .allocate(capacity: 1)
        counts.initialize(to: Counts())
        pthread_setspecific(self.key, counts)
    }

    /// Ends the count on this thread and returns it.
    package static func stop() -> Counts {
        guard let counts = self.counts else { return Counts() }
        defer { counts.deallocate() }
        pthread_setspecific(self.key, nil)
        return counts.pointee
    }

    fileprivate static func lockAcquired() {
        guard let counts = self.counts else { return }
        counts.pointee.acquisitions += 1
        counts.pointee.held += 1
        counts.pointee.depth = max(counts.pointee.depth, counts.pointee.held)
    }

    fileprivate static func lockReleased() { self.counts?.pointee.held -= 1 }
}
#endif
