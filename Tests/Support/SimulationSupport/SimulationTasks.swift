import RealtimeSystem

/// Runs the tasks of a simulation.
protocol TaskRunner: AnyObject, Sendable {
    func start(_ body: @escaping @Sendable () async -> Void) -> Task<Void, Never>
    /// Runs the tasks until all of them have finished or are suspended.
    ///
    /// - Returns: Whether any task has run.
    @discardableResult
    func runAll() -> Bool
}

func makeTaskRunner() -> any TaskRunner {
    guard #available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *) else {
        preconditionFailure("simulations are not supported on this system")
    }
    return SimulationExecutor()
}

/// Runs tasks on the thread of the simulation, in the order in which they were resumed.
///
/// `@unchecked Sendable`: the jobs are used on one thread only. A job from another thread is a mistake of the simulation, and stops the
/// program.
@available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
private final class SimulationExecutor: TaskExecutor, TaskRunner, @unchecked Sendable {
    private var jobs: [UnownedJob] = []
    private var isRunning = false
    private let thread: pthread_t = pthread_self()

    func enqueue(_ job: consuming ExecutorJob) {
        precondition(pthread_equal(self.thread, pthread_self()) != 0, "a task of a simulation was resumed by another thread")
        self.jobs.append(UnownedJob(job))
    }

    func start(_ body: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
        // An unstructured task, because a simulation is synchronous. It ends with what it waits for, at the latest when the run ends.
        Task(executorPreference: self) { await body() }
    }

    func runAll() -> Bool {
        // A job may make a step of the simulation. The jobs that it resumes run after it.
        guard !self.jobs.isEmpty, !self.isRunning else { return false }
        self.isRunning = true
        defer { self.isRunning = false }
        var next = 0
        while next < self.jobs.count {
            self.jobs[next].runSynchronously(on: self.asUnownedTaskExecutor())
            next += 1
        }
        self.jobs.removeAll(keepingCapacity: true)
        return true
    }
}
