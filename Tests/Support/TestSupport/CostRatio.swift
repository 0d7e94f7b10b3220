#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// Returns how much more an operation costs for `large` items than for `small` items: the ratio of the lowest costs of several tries.
///
/// The cost is the processor time of the calling thread, which other tests and processes affect little. Both costs are measured in
/// turn, until their ratio is at most `limit` or the number of tries is exhausted.
///
/// - Parameters:
///   - small: The lower number of items.
///   - large: The higher number of items.
///   - limit: The ratio that is expected at most.
///   - tries: The maximum number of tries.
///   - operation: Prepares a number of items and returns the operation to measure, which must not leave the calling thread.
/// - Returns: The ratio.
/// - Throws: The error that `operation` throws.
package func costRatio(
    _ small: Int, _ large: Int, limit: Double, tries: Int = 10, _ operation: (Int) throws -> (() throws -> Void)
) throws -> Double {
    var lowest = (small: UInt64.max, large: UInt64.max)
    for _ in 0..<tries {
        lowest.small = min(lowest.small, try cost(operation(small)))
        lowest.large = min(lowest.large, try cost(operation(large)))
        if Double(lowest.large) <= limit * Double(lowest.small) { break }
    }
    return Double(lowest.large) / Double(max(1, lowest.small))
}

private func cost(_ operation: () throws -> Void) throws -> UInt64 {
    let start = threadTime()
    try operation()
    return threadTime() - start
}

/// The processor time that the calling thread has used, in nanoseconds.
private func threadTime() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}
