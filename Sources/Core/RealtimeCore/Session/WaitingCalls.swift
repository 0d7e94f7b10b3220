/// Calls that wait for the same result. Without calls, it allocates no memory.
package struct WaitingCalls: Sendable {
    private var ids: Set<WaiterID> = []

    package init() {}

    package var count: Int { self.ids.count }
    package var isEmpty: Bool { self.ids.isEmpty }

    package func contains(_ waiter: WaiterID) -> Bool { self.ids.contains(waiter) }

    package mutating func insert(_ waiter: WaiterID) { self.ids.insert(waiter) }

    /// - Returns: Whether the call waited.
    @discardableResult
    package mutating func remove(_ waiter: WaiterID) -> Bool {
        guard self.ids.remove(waiter) != nil else { return false }
        // An empty set keeps its memory.
        if self.ids.isEmpty { self.ids = [] }
        return true
    }

    /// Removes all calls and returns them in the order in which they began to wait.
    package mutating func takeAll() -> [WaiterID] {
        guard !self.ids.isEmpty else { return [] }
        defer { self.ids = [] }
        return self.ids.sorted()
    }

    /// Resumes all calls with the same result, in the order in which they began to wait.
    package mutating func resumeAll<Machine>(
        _ result: Result<Machine.WaiterResult, Machine.Failure>, _ effects: inout Effects<Machine>
    ) {
        for waiter in self.takeAll() { effects.resume(waiter, result) }
    }
}
