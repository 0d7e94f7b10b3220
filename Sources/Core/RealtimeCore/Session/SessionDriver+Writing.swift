extension SessionDriver {
    /// Sends a message as soon as the peer has read enough of what was sent before.
    ///
    /// - Parameters:
    ///   - limit: The maximum time to wait altogether; `nil` to wait without a limit.
    ///   - awaitsPeer: Whether reading isn't paused while the call waits; see ``awaitResult(limit:awaitsPeer:_:)``.
    ///   - attempt: Sends the message, or returns `false` if too much output waits for the peer. Called again after each wait.
    ///   - wait: Steps the machine with a caller that waits. The machine resumes it when writing can continue, or when the connection ends.
    /// - Returns: What is left of the limit.
    /// - Throws: The error that `attempt` throws, or the failure with which the machine resumed the caller; `timedOut(_:after:)` when the
    ///   limit is exceeded, and `cancellation(of:)` immediately when the task is cancelled while it waits.
    @discardableResult
    package func sendWhenWritable(
        limit: Duration? = nil, awaitsPeer: Bool = true, _ attempt: () throws(Machine.Failure) -> Bool,
        wait: (inout Machine, WaiterID, inout Effects<Machine>) -> Void
    ) async throws(Machine.Failure) -> Duration? {
        var rest = limit
        // Other callers that were resumed at the same time may have paused writing again.
        while try !attempt() {
            let start = self.now
            _ = try await self.awaitResult(limit: rest, of: limit, awaitsPeer: awaitsPeer) { machine, waiter, _, effects in
                wait(&machine, waiter, &effects)
            }
            rest = rest.map { max(.zero, $0 - start.duration(to: self.now)) }
        }
        return rest
    }
}
