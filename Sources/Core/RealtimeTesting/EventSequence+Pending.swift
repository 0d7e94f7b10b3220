public import RealtimeCore

extension EventSequence {
    /// Takes the buffered events out of the sequence and returns them, without waiting for more.
    ///
    /// The events that a call caused are in the buffer when the call returns if everything between the call and the sequence is synchronous,
    /// as with an `InMemoryNetwork`: `server.publish(…)` then delivers to the sequences of a client before it returns, and so do
    /// `clock.advance(by:)` and `network.cut()`. Events that depend on a task, such as the result of an asynchronous hook or authorizer, may arrive
    /// later, and so do all events over sockets. To wait for these, iterate the sequence.
    ///
    /// Like another iterator, it takes over from one that exists. Cancelling the task has no effect.
    ///
    /// - Returns: The events in order; empty if none are buffered.
    public func pending() async -> [Element] { self.takeBuffered() }
}
