import Foundation

/// Runs tasks on one thread.
///
/// `@unchecked Sendable`: the condition protects the jobs.
@available(macOS 15.0, iOS 18.0, tvOS 18.0, watchOS 11.0, visionOS 2.0, *)
final class ThreadExecutor: TaskExecutor, @unchecked Sendable {
    private let condition = NSCondition()
    private var jobs: [UnownedJob] = []
    private var isStopped = false

    init() {
        Thread.detachNewThread { [self] in self.run() }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        self.condition.withLock {
            self.jobs.append(job)
            self.condition.signal()
        }
    }

    /// Ends the thread. Tasks must no longer use the executor.
    func stop() {
        self.condition.withLock {
            self.isStopped = true
            self.condition.signal()
        }
    }

    private func run() {
        while true {
            let jobs = self.next()
            if jobs.isEmpty { return }
            for job in jobs { self.run(job) }
        }
    }

    /// Waits for jobs. Returns none after the end.
    private func next() -> [UnownedJob] {
        self.condition.withLock {
            while self.jobs.isEmpty, !self.isStopped { self.condition.wait() }
            defer { self.jobs = [] }
            return self.jobs
        }
    }

    private func run(_ job: UnownedJob) {
        #if canImport(ObjectiveC)
        // The thread doesn't return to the code that would release the objects until it ends.
        autoreleasepool { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        #else
        job.runSynchronously(on: self.asUnownedTaskExecutor())
        #endif
    }
}
