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
}
