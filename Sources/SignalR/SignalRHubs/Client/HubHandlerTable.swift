import RealtimeCore
import RealtimeSystem
import SignalRWire

/// The registration of a handler. Releasing it has no effect.
///
/// The handler stays until it is cancelled, until ``HubClient/off(_:)`` is called for its method, or until its client is released.
public struct HubHandlerToken: Sendable {
    fileprivate let handlers: HubHandlerTable
    fileprivate let target: ByteString
    fileprivate let number: UInt64

    /// Removes the handler. A call of it that is in progress continues.
    public func cancel() { self.handlers.remove(self) }
}

/// The handlers of the methods that the server can call.
///
/// They are called in order, one at a time, in one task, which isn't the one that receives messages: a handler may take its time, and may
/// call methods of the server. For a call whose result the server waits for, they are called in a task of its own. The registrations remain
/// across connections.
final class HubHandlerTable: Sendable {
    /// Handles a call.
    ///
    /// - Returns: The result for the server; `nil` if the handler has none, or if the server doesn't wait for one.
    typealias Handler = @Sendable (HubInvocation) async throws -> HubPayload?

    private struct State: Sendable {
        var lastNumber: UInt64 = 0
        var handlers: [ByteString: [(number: UInt64, handler: Handler)]] = [:]
        /// The methods of which there are sequences.
        var observed: Set<ByteString> = []
    }

    private let state = Lock(State())
    private let format: HubFormat
    private let ignoresCase: Bool

    init(_ format: HubFormat, ignoresCase: Bool) {
        self.format = format
        self.ignoresCase = ignoresCase
    }

    /// Returns the key of a method: names of the same method have the same key.
    static func key(_ target: String, ignoresCase: Bool) -> ByteString { ByteString(ignoresCase ? target.lowercased() : target) }

    private func key(_ target: String) -> ByteString { Self.key(target, ignoresCase: self.ignoresCase) }

    func add(_ target: String, _ handler: @escaping Handler) -> HubHandlerToken {
        let target = self.key(target)
        let number = self.state.withLock { state in
            state.lastNumber += 1
            state.handlers[target, default: []].append((state.lastNumber, handler))
            return state.lastNumber
        }
        return HubHandlerToken(handlers: self, target: target, number: number)
    }

    fileprivate func remove(_ token: HubHandlerToken) {
        // The handler is released after the lock, because it may contain the last reference to an object.
        _ = self.state.withLock { state -> [(number: UInt64, handler: Handler)]? in
            let handlers = state.handlers[token.target]
            let remaining = handlers?.filter { $0.number != token.number } ?? []
            state.handlers[token.target] = remaining.isEmpty ? nil : remaining
            return handlers
        }
    }

    func removeAll(_ target: String) {
        _ = self.state.withLock { $0.handlers.removeValue(forKey: self.key(target)) }
    }

    /// Makes an invocation of a method count as handled, because there is a sequence of them.
    func observe(_ target: String) {
        _ = self.state.withLock { $0.observed.insert(self.key(target)) }
    }

    /// Calls the handlers of the invocations for whose result the server doesn't wait, in order and one at a time, until the client is released.
    func handle(_ callbacks: EventSequence<HubCallback>, _ driver: SessionDriver<HubSession>, _ watch: CallbackWatch) async {
        for await callback in callbacks {
            // Ignores what is left after the client was released.
            if Task.isCancelled { return }
            await self.handle(callback, driver, watch)
        }
    }

    /// Calls the handlers of the invocations for whose result the server waits, each in a task of its own, until the client is released.
    ///
    /// A handler may wait: for a person, for another call of the server, or for what the handler of an earlier invocation waits for. An invocation
    /// therefore waits for no other one, except that their number is limited.
    ///
    /// - Parameter limit: The number of invocations that are handled at a time. The next ones wait.
    func answer(
        _ callbacks: EventSequence<HubCallback>, limit: Int, _ driver: SessionDriver<HubSession>, _ watch: CallbackWatch
    ) async {
        await withTaskGroup(of: Void.self) { group in
            var count = 0
            for await callback in callbacks {
                // As above.
                if Task.isCancelled { return }
                if count >= limit {
                    await group.next()
                    count -= 1
                }
                count += 1
                group.addTask { await self.handle(callback, driver, watch) }
            }
        }
    }

    /// Calls the handlers of an invocation, and answers it.
    @inline(__always)  // An asynchronous function that isn't inlined switches the task.
    private func handle(_ callback: HubCallback, _ driver: SessionDriver<HubSession>, _ watch: CallbackWatch) async {
        guard driver.read({ $0.isHandled(callback) }) else { return }
        let target = self.key(callback.invocation.target)
        let (handlers, isObserved) = self.state.withLock { state in
            state.handlers[target].map { ($0, true) } ?? ([], state.observed.contains(target))
        }
        if !isObserved {
            driver.step { session, _, effects in session.ignoreInvocation(of: callback.invocation.target, &effects) }
        }
        let completion = await self.call(handlers, callback, driver, watch)
        guard callback.invocation.id != nil else { return }
        driver.step { session, now, effects in session.respond(to: callback, completion, now: now, &effects) }
    }

    @inline(__always)  // As above.
    private func call(
        _ handlers: [(number: UInt64, handler: Handler)], _ callback: HubCallback, _ driver: SessionDriver<HubSession>,
        _ watch: CallbackWatch
    ) async -> HubCompletion {
        let invocation = callback.invocation
        guard !handlers.isEmpty else { return .error(HubSession.noResult) }
        var results: [HubPayload] = []
        var failure: String?
        let wait = watch.begin(invocation.target)
        defer { watch.end(wait) }
        for (index, (number, handler)) in handlers.enumerated() {
            // One that was called before may have removed the others, or stopped the client.
            guard index == 0 || (self.isRegistered(number, invocation.target) && driver.read { $0.isHandled(callback) }) else { continue }
            do {
                if let result = try await handler(invocation) { results.append(result) }
            } catch {
                failure = failure ?? HubError.text(forServer: error, from: "The handler")
                Self.report(error, invocation.target, driver)
            }
        }
        guard invocation.id != nil else { return .void }
        switch (results.count, failure) {
        case (0, let failure?): return .error(failure)
        // Handlers without a result complete the call with the value that means none, which the server accepts as a result.
        case (0, nil): return .result(.null(self.format))
        case (1, _): return .result(results[0])
        default:
            let message = "The method \(invocation.target) has \(results.count) handlers that return a result. Only one of them may."
            driver.step { session, _, effects in session.handlerFailed(HubError(.handlerFailed, message), &effects) }
            return .error("Client provided multiple results.")
        }
    }

    /// Whether the handler wasn't removed, for example by one that was called before it.
    private func isRegistered(_ number: UInt64, _ target: String) -> Bool {
        let target = self.key(target)
        return self.state.withLock { state in state.handlers[target]?.contains { $0.number == number } ?? false }
    }

    private static func report(_ error: any Error, _ target: String, _ driver: SessionDriver<HubSession>) {
        let failure =
            switch error {
            case let error as HubValueError:
                HubError(
                    .decodingFailed, "The server called \(target) with unexpected arguments. \(error.problem)",
                    cause: HubValueError.cause(of: error))
            case let error as HubError: HubError(.handlerFailed, "A handler of \(target) failed. \(error.message)", cause: error)
            default: HubError(.handlerFailed, HubError.text(forServer: error, from: "A handler of \(target)"), cause: error)
            }
        driver.step { session, _, effects in session.handlerFailed(failure, &effects) }
    }
}
