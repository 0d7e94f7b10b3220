// Disfavored, so that the tests of this package can have a variant with a longer limit.
/// Waits until a condition is true, for code that runs in other tasks.
///
/// ```swift
/// model.refresh()
/// try await eventually { model.prices.count == 2 }
/// ```
/// Between two checks, the call yields, so that other tasks run. It doesn't sleep, so it returns as soon as the condition is true. Use it
/// only where a result depends on a task: what clients and servers do in memory with a ``ManualClock`` is complete when a call returns, and
/// can be expected directly.
///
/// - Parameters:
///   - description: What the condition means, for the error.
///   - limit: The maximum time to wait, in real time, whatever the clock of the test shows. At least 10 checks are made, even if they take
///     longer, because other tests may use the processor.
///   - fileID: The file of the call.
///   - line: The line of the call.
///   - condition: A closure that is called repeatedly, on the caller's actor.
/// - Throws: A ``ConditionError`` if the condition isn't true within the limit, `CancellationError` if the task is cancelled, or the error
///   that `condition` throws.
@_disfavoredOverload
public func eventually(
    _ description: String? = nil, within limit: Duration = .seconds(5), fileID: String = #fileID, line: Int = #line,
    _ condition: () async throws -> Bool
) async throws {
    let clock = ContinuousClock()
    let deadline = clock.now + limit
    var checks = 0
    while try await !condition() {
        try Task.checkCancellation()
        checks += 1
        guard clock.now < deadline || checks < 10 else { throw ConditionError(description, limit: limit, fileID: fileID, line: line) }
        await Task.yield()
    }
}

/// The error for a condition that didn't become true in time.
public struct ConditionError: Error, Hashable, CustomStringConvertible {
    /// The condition that didn't become true, and how long the call waited.
    public let message: String
    /// The module and the file of the call of ``eventually(_:within:fileID:line:_:)``.
    public let fileID: String
    /// The line of the call.
    public let line: Int

    fileprivate init(_ description: String?, limit: Duration, fileID: String, line: Int) {
        let what = description.map { "\"\($0)\"" } ?? "The condition"
        self.message = "\(what) didn't become true within \(limit)."
        self.fileID = fileID
        self.line = line
    }

    /// The place of the call and the message.
    public var description: String { "\(self.fileID):\(self.line): \(self.message)" }
}
