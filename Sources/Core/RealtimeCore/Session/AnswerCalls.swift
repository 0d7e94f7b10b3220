/// The calls that wait until the server has taken what was sent on a connection over HTTP; see ``Effects/Command/awaitAnswer(_:on:)``.
///
/// A connection that closes outlives its session, and the next one may be open meanwhile.
package struct AnswerCalls<Failure: Error>: Sendable {
    private struct Call: Sendable {
        var connection: ConnectionID
        /// Why the session of the connection has ended.
        var failure: Failure?
    }

    private var calls: [WaiterID: Call] = [:]

    package init() {}

    package var count: Int { self.calls.count }

    package mutating func insert(_ waiter: WaiterID, on connection: ConnectionID) { self.calls[waiter] = Call(connection: connection) }

    /// - Returns: Whether the call waited.
    @discardableResult
    package mutating func remove(_ waiter: WaiterID) -> Bool { self.take(waiter) != nil }

    /// The session has ended that has used the connections so far.
    package mutating func sessionEnded(_ failure: Failure) {
        for (waiter, call) in self.calls where call.failure == nil { self.calls[waiter]?.failure = failure }
    }

    /// Removes a call whose connection has ended.
    ///
    /// - Returns: The failure, or the given one if the session goes on; `nil` if the call doesn't wait.
    package mutating func takeFailure(_ waiter: WaiterID, else other: Failure) -> Failure? {
        self.take(waiter).map { $0.failure ?? other }
    }

    /// Removes the calls of a connection, and returns them in the order in which they began to wait.
    package mutating func takeAll(on connection: ConnectionID) -> [WaiterID] {
        let waiters = self.calls.filter { $0.value.connection == connection }.map(\.key).sorted()
        for waiter in waiters { self.remove(waiter) }
        return waiters
    }

    private mutating func take(_ waiter: WaiterID) -> Call? {
        guard let call = self.calls.removeValue(forKey: waiter) else { return nil }
        // An empty dictionary keeps its memory.
        if self.calls.isEmpty { self.calls = [:] }
        return call
    }
}
