import Foundation
package import Testing

/// Runs the tests of a suite, which compute for long without suspending, on a thread that they share. All other tasks share as few threads
/// as there are processors, so such tests would delay tests with sockets until servers and proxies close their connections.
package struct ComputingTestTrait: SuiteTrait, TestTrait, TestScoping {
    @concurrent
    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        guard #available(macOS 15.0, iOS 18.0, tvOS 18.0, watchOS 11.0, visionOS 2.0, *) else { return try await function() }
        try await withTaskExecutorPreference(ComputingThread.shared) { try await function() }
    }
}

extension Trait where Self == ComputingTestTrait {
    /// The trait of suites whose tests compute for long.
    package static var computes: ComputingTestTrait { ComputingTestTrait() }
}

/// `@unchecked Sendable`: the jobs are accessed only while the condition is locked.
@available(macOS 15.0, iOS 18.0, tvOS 18.0, watchOS 11.0, visionOS 2.0, *)
private final class ComputingThread: TaskExecutor, @unchecked Sendable {
    static let shared = ComputingThread()

    private let condition = NSCondition()
    private var jobs: [UnownedJob] = []

    /// The thread ends with the process.
    private init() {
        Thread.detachNewThread { self.run() }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        self.condition.lock()
        self.jobs.append(UnownedJob(job))
        self.condition.unlock()
        self.condition.signal()
    }

    private func run() {
        while true {
            self.condition.lock()
            while self.jobs.isEmpty { self.condition.wait() }
            let jobs = self.jobs
            self.jobs = []
            self.condition.unlock()
            for job in jobs { self.run(job) }
        }
    }

    private func run(_ job: UnownedJob) {
        #if canImport(ObjectiveC)
        // The thread never returns to the one that would release the objects.
        autoreleasepool { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        #else
        job.runSynchronously(on: self.asUnownedTaskExecutor())
        #endif
    }
}
