import Processes
package import Testing

/// Limits how many suites that open sockets run at the same time, and raises the limit of file descriptors. All tests together need more
/// than 2,000 descriptors, while most shells allow 1,024 per process, and some only 256.
package struct SocketTestLimiter: SuiteTrait, TestScoping {
    private static let fileLimit = FileLimit.raise()

    @concurrent
    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        _ = Self.fileLimit
        try await SuiteLimit.shared.perform(.sockets, function)
    }
}

extension Trait where Self == SocketTestLimiter {
    /// The trait of suites whose tests open sockets or start processes.
    package static var usesSockets: SocketTestLimiter { SocketTestLimiter() }
}
