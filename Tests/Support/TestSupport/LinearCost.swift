#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif
package import Testing

/// Expects that an operation on 20,000 items costs about 16 times as much as on 1,250. A quadratic cost is 256 times as high.
///
/// The cost is the processor time of a thread, the lowest of up to 30 measurements: other tests and processes affect it little. The limit
/// is the geometric mean of a linear and a quadratic cost, which leaves room for caches: other programs use them as well, the more often
/// the longer an operation takes, and the larger number of items may exceed them. `REALTIME_COST_LIMIT` replaces the limit of 64, for
/// example with 20 for a release build on an idle machine.
///
/// - Parameter prepare: Prepares a number of items and returns the operation to measure, which must not leave its thread.
/// - Throws: The error that `prepare` or the operation throws.
package func expectLinearCost(
    sourceLocation: SourceLocation = #_sourceLocation, _ prepare: @escaping @Sendable (_ count: Int) throws -> (() throws -> Void)
) async throws {
    let limit = environment("REALTIME_COST_LIMIT").flatMap { Double($0) } ?? 64
    let ratio = try await onOwnThread {
        var (small, large) = (UInt64.max, UInt64.max)
        // Usually, the first measurement is enough.
        for _ in 0..<30 {
            small = min(small, try cost(prepare(1_250)))
            large = min(large, try cost(prepare(20_000)))
            if Double(large) <= limit * Double(small) { break }
        }
        return Double(large) / Double(max(1, small))
    }
    guard ratio > limit else { return }
    Issue.record("20,000 items cost \(ratio) times as much as 1,250; the limit is \(limit)", sourceLocation: sourceLocation)
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
