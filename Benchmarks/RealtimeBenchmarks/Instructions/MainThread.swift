import RealtimeSystem

/// Runs all tasks of the process on the main thread, so that a run executes the same instructions each time.
///
/// The runtime of Swift passes each job that has no executor of its own to a hook, if there is one.
enum MainThread {
    private typealias Hook = @convention(c) (_ job: UnsafeRawPointer, _ original: UnsafeRawPointer) -> Void

    /// The jobs that tasks have enqueued, in their order, and the next one. `nonisolated(unsafe)`: the process has one thread.
    private nonisolated(unsafe) static var jobs: [UnownedJob] = []
    private nonisolated(unsafe) static var next = 0
    /// The closures that deliver messages when no task can run. `nonisolated(unsafe)`: as above.
    private nonisolated(unsafe) static var sources: [() -> Bool] = []

    /// Takes over all tasks. Called before there are any.
    ///
    /// - Returns: Whether this version of the runtime has the hook.
    static func install() -> Bool {
        guard let hook = dlsym(nil, "swift_task_enqueueGlobal_hook") else { return false }
        self.jobs.reserveCapacity(1 << 12)
        hook.assumingMemoryBound(to: Hook?.self).pointee = { job, _ in MainThread.enqueue(unsafeBitCast(job, to: UnownedJob.self)) }
        return true
    }

    private static func enqueue(_ job: UnownedJob) { self.jobs.append(job) }

    /// Adds a closure that delivers messages if there are any, and returns whether there were.
    static func addSource(_ source: @escaping () -> Bool) { self.sources.append(source) }

    /// Runs tasks and delivers messages until all tasks are suspended and no messages are left.
    static func runAll() {
        repeat { self.runJobs() } while self.sources.contains { $0() }
    }

    private static func runJobs() {
        // The executor of tasks that have none of their own, on which they continue without being enqueued again.
        let executor = unsafeBitCast((0, 0), to: UnownedSerialExecutor.self)
        while self.next < self.jobs.count {
            let job = self.jobs[self.next]
            self.next += 1
            job.runSynchronously(on: executor)
        }
        self.jobs.removeAll(keepingCapacity: true)
        self.next = 0
    }
}
