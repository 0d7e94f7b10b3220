/// The time limit of a command, from its start.
package struct TimeLimit: Sendable {
    /// The limit; `nil` for none.
    package let duration: Duration?
    private let untilEnd: @Sendable () -> Duration?
    private let sleep: @Sendable () async throws -> Void

    /// Creates a limit that begins now.
    ///
    /// - Parameters:
    ///   - duration: The limit; `nil` for none.
    ///   - clock: The clock that measures it.
    package init<C: Clock>(_ duration: Duration?, clock: C = ContinuousClock()) where C.Duration == Duration {
        self.duration = duration
        let end = duration.map { clock.now.advanced(by: $0) }
        self.untilEnd = { end.map { clock.now.duration(to: $0) } }
        self.sleep = { if let end { try await clock.sleep(until: end, tolerance: nil) } }
    }

    /// The time until the limit, which is always positive; `nil` without a limit.
    package var remaining: Duration? { self.untilEnd().map { max(.milliseconds(1), $0) } }

    /// Whether the limit has passed.
    package var isPassed: Bool { self.untilEnd().map { $0 <= .zero } ?? false }

    /// Waits until the limit has passed.
    ///
    /// - Parameter isMet: Returns when the command has done what the limit is for.
    /// - Returns: Whether the limit has passed: `false` if `isMet` has returned before, if there is no limit, or if the task was cancelled.
    package func passes(before isMet: (@Sendable () async -> Void)? = nil) async -> Bool {
        guard self.duration != nil else { return false }
        return await withTaskGroup(of: Bool.self) { group in
            group.addTask {
                do { try await self.sleep() } catch { return false }
                return true
            }
            if let isMet {
                group.addTask {
                    await isMet()
                    return false
                }
            }
            let hasPassed = await group.next() == true
            group.cancelAll()
            return hasPassed
        }
    }

    private enum Outcome<Value: Sendable>: Sendable {
        case ended(Value)
        case passed
        case met
    }

    /// Runs an operation, and cancels it when the limit has passed.
    ///
    /// - Parameters:
    ///   - isMet: Returns when the operation has done what the limit is for. It then continues without a limit. `nil` for a limit of the
    ///     whole operation.
    ///   - operation: The operation. It must return soon when its task is cancelled.
    /// - Returns: The result of the operation, and whether the limit has cancelled it.
    package func run<Value: Sendable>(
        until isMet: (@Sendable () async -> Void)? = nil, _ operation: @escaping @Sendable () async -> Value
    ) async -> (value: Value, isExceeded: Bool) {
        await withTaskGroup(of: Outcome<Value>.self) { group in
            group.addTask { .ended(await operation()) }
            group.addTask { await self.passes(before: isMet) ? .passed : .met }
            var isExceeded = false
            for await outcome in group {
                switch outcome {
                case .ended(let value):
                    group.cancelAll()
                    return (value, isExceeded)
                case .passed:
                    isExceeded = true
                    group.cancelAll()
                case .met: continue
                }
            }
            preconditionFailure("the operation always returns")
        }
    }

    /// Returns the failure of a command that ended too early.
    ///
    /// - Parameters:
    ///   - what: What the command has or hasn't done.
    ///   - isExceeded: Whether it ended because of the limit.
    ///   - reason: The last failure, if there was one.
    package func failure(_ what: String, isExceeded: Bool = true, reason: String? = nil) -> ToolFailure {
        let text = isExceeded ? self.text : ""
        if let reason { return ToolFailure("\(what)\(text): \(reason)") }
        return ToolFailure("\(what)\(text).\(isExceeded ? " Check the server, or use a longer --timeout." : "")")
    }

    /// The text ` within 5.0 s`; empty without a limit.
    package var text: String { self.duration.map { " within \($0.inSeconds)" } ?? "" }
}

extension Duration {
    /// The duration in seconds, with one decimal.
    package var inSeconds: String {
        let tenths = Int((self / .milliseconds(100)).rounded())
        return "\(tenths / 10).\(tenths % 10) s"
    }
}
