package import Testing

/// Runs the tests of a suite, which compute for long without suspending, on a thread of their own. All other tasks share as few threads as
/// there are processors, so such tests would delay tests with sockets until servers and proxies close their connections.
///
/// As many such suites run at the same time as there are processors, but one less beside suites with sockets. The tests of a suite share its
/// thread, so the suite also has the trait `.serialized`: tests that wait for the thread count as running, and few tests may run at the same
/// time.
package struct ComputingTestTrait: SuiteTrait, TestScoping {
    @concurrent
    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await SuiteLimit.shared.perform(.computing) {
            guard #available(macOS 15.0, iOS 18.0, tvOS 18.0, watchOS 11.0, visionOS 2.0, *) else { return try await function() }
            let executor = ThreadExecutor()
            defer { executor.stop() }
            try await withTaskExecutorPreference(executor) { try await function() }
        }
    }
}

extension Trait where Self == ComputingTestTrait {
    /// The trait of suites whose tests compute for long.
    package static var computes: ComputingTestTrait { ComputingTestTrait() }
}
