// Exports the system's C library under one module name on all platforms.
#if canImport(Darwin)
@_exported public import Darwin
#elseif canImport(Glibc)
@_exported public import Glibc
#elseif canImport(Musl)
@_exported public import Musl
#endif

/// The clock that can be set, for dates and signatures. Timers use the monotonic clock.
package enum WallClock {
    /// The number of seconds since January 1, 1970 (UTC).
    package static var secondsSince1970: Int64 { Int64(time(nil)) }

    /// The number of milliseconds since January 1, 1970 (UTC).
    package static var millisecondsSince1970: Int64 {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return Int64(now.tv_sec) * 1_000 + Int64(now.tv_nsec) / 1_000_000
    }
}

/// Identifies a thread while it runs.
package struct ThreadID: Hashable, Sendable {
    private var rawValue: UInt

    /// The calling thread.
    package static var current: ThreadID {
        #if canImport(Glibc)
        ThreadID(rawValue: pthread_self())
        #else
        ThreadID(rawValue: UInt(bitPattern: pthread_self()))
        #endif
    }
}

extension UnsafeRawBufferPointer {
    /// Returns the position of a byte, as `firstIndex(of:)` does, which compares the bytes one by one.
    package func position(of byte: UInt8, from start: Int) -> Int? {
        guard start < self.count, let base = self.baseAddress else { return nil }
        return memchr(base + start, CInt(byte), self.count - start).map { UnsafeRawPointer($0) - base }
    }
}
