import RealtimeCore

/// Calls that wait for the same result. Without calls, it allocates no memory.
struct WaitingCalls: Sendable {
    private var ids: Set<WaiterID> = []

    var count: Int { self.ids.count }

    func contains(_ waiter: WaiterID) -> Bool { self.ids.contains(waiter) }

    mutating func insert(_ waiter: WaiterID) { self.ids.insert(waiter) }

    mutating func remove(_ waiter: WaiterID) {
        // An empty set keeps its memory.
        if self.ids.remove(waiter) != nil, self.ids.isEmpty { self.ids = [] }
    }

    /// Removes all calls and returns them in the order in which they began to wait, which is that of their numbers.
    mutating func takeAll() -> [WaiterID] {
        defer { self.ids = [] }
        return self.ids.sorted { $0.rawValue < $1.rawValue }
    }
}
