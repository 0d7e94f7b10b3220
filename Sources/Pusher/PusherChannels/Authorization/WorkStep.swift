/// How a piece of work obtains its result.
enum WorkStep<Output: Sendable>: Sendable {
    typealias Finish = @Sendable (Output) -> Void

    /// On the calling thread, without a task, so that a client and a server in memory have finished when a call returns.
    case now(@Sendable (_ finish: @escaping Finish) -> Void)
    /// In a task, which is cancelled when the result is no longer needed.
    case later(@Sendable (_ finish: @escaping Finish) async -> Void)

    /// Work whose result an asynchronous function returns.
    static func task(_ work: @escaping @Sendable () async -> Output) -> Self { .later { finish in finish(await work()) } }

    /// Work whose result an asynchronous function returns or throws.
    static func task<Value, Failure: Error>(
        _ work: @escaping @Sendable () async throws(Failure) -> Value
    ) -> Self where Output == Result<Value, Failure> {
        .later { finish in
            let result: Result<Value, Failure>
            do throws(Failure) {
                result = .success(try await work())
            } catch {
                result = .failure(error)
            }
            finish(result)
        }
    }

    /// Starts the work.
    ///
    /// - Returns: A closure that cancels the work, or `nil` if it needs no task.
    func start(_ finish: @escaping Finish) -> (@Sendable () -> Void)? {
        switch self {
        case .now(let run):
            run(finish)
            return nil
        case .later(let run):
            // An unstructured task, since a session's driver has none. It cancels the task when the result is no longer needed.
            let task = Task { await run(finish) }
            return { task.cancel() }
        }
    }

    /// Performs the work in the current task.
    func run(_ finish: @escaping Finish) async {
        switch self {
        case .now(let run): run(finish)
        case .later(let run): await run(finish)
        }
    }
}
