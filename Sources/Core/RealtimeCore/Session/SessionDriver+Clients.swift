// The parts of a client that are the same for all protocols.

import RealtimeSystem

/// Returns a conversion that appends an element for each event that has one.
///
/// It is inlinable so that it is compiled where the types are known: unspecialized, an event costs many times as much.
@inlinable
package func eachElement<Event, Element>(
    _ element: @escaping @Sendable (Event) -> Element?
) -> @Sendable (ArraySlice<Event>, inout [Element]) -> Void {
    { events, output in
        for event in events { if let element = element(event) { output.append(element) } }
    }
}

extension SessionDriver {
    /// Returns a sequence of the changes of a state from now on, until the driver is shut down or, depending on the lifetime, earlier.
    ///
    /// - Parameters:
    ///   - lifetime: When the sequence finishes.
    ///   - current: Returns the current state. Called under the driver's lock, so that no change is lost.
    ///   - next: Returns the state that an event announces, if it announces one.
    ///   - register: Registers the consumer with the machine.
    package func makeStateChanges<State: Hashable & Sendable>(
        lifetime: ConsumerLifetime, from current: (borrowing Machine) -> State, to next: @escaping @Sendable (Machine.Event) -> State?,
        register: (inout Machine, ConsumerID, inout Effects<Machine>) -> Void
    ) -> EventSequence<StateChange<State>> {
        // The state that the consumer knows. Every access is under the driver's lock, and this one makes it Sendable.
        let latest = Lock<State?>(nil)
        return self.makeSequence(.standard, lifetime: lifetime) { events, output in
            for event in events {
                guard let new = next(event) else { continue }
                let old = latest.withLock { latest in
                    defer { latest = new }
                    return latest
                }
                if let old { output.append(StateChange(old: old, new: new)) }
            }
        } register: { machine, id, effects in
            let state = current(machine)
            latest.withLock { $0 = state }
            register(&machine, id, &effects)
        }
    }

    /// Performs asynchronous work in a task, and reports its result.
    ///
    /// - Parameters:
    ///   - id: The number of the work.
    ///   - work: Returns the result. It should end early when its task is cancelled.
    /// - Returns: A closure that cancels the work.
    package func perform(_ id: WorkID, _ work: @escaping @Sendable () async -> Machine.WorkResult) -> @Sendable () -> Void {
        // An unstructured task, since work has no caller. The machine cancels it when its result is no longer needed, and the driver ignores
        // the result of cancelled work. The reference is weak: a closure of the application may never return.
        let task = Task { [weak self] in
            let result = await work()
            self?.workFinished(id, result)
        }
        return { task.cancel() }
    }

    /// Performs asynchronous work that returns a value or throws an error, in a task, and reports its result.
    ///
    /// - Parameters:
    ///   - id: The number of the work.
    ///   - result: Creates the result of the work.
    ///   - work: Returns the value. It should end early when its task is cancelled.
    /// - Returns: A closure that cancels the work.
    package func perform<Value: Sendable, Failure: Error>(
        _ id: WorkID, as result: @escaping @Sendable (Result<Value, Failure>) -> Machine.WorkResult,
        _ work: @escaping @Sendable () async throws(Failure) -> Value
    ) -> @Sendable () -> Void {
        self.perform(id) { result(await Result(calling: work) { $0 }) }
    }
}

extension Result {
    /// Calls a closure, and converts the error that it throws, for example an error of the application into one of a client.
    ///
    /// - Parameters:
    ///   - body: The closure to call.
    ///   - convert: Returns the failure for the error.
    package init<Thrown: Error>(
        calling body: () async throws(Thrown) -> Success, convert: (Thrown) -> Failure
    ) async where Success: Sendable {
        do throws(Thrown) {
            self = .success(try await body())
        } catch {
            self = .failure(convert(error))
        }
    }
}
