import RealtimeCore

/// Actions in the order of their times, and of their insertion for the same time.
///
/// Not `Deadlines`, which is generic and therefore slow in debug builds, and has to support removing.
struct Schedule {
    private struct Entry {
        var instant: Instant
        var number: Int
        var action: @Sendable () -> Void

        func isBefore(_ other: Entry) -> Bool {
            let (left, right) = (self.instant.nanoseconds, other.instant.nanoseconds)
            return left < right || (left == right && self.number < other.number)
        }
    }

    /// A binary heap.
    private var entries: [Entry] = []
    private var lastNumber = 0

    var earliest: Instant? { self.entries.first?.instant }

    mutating func add(_ instant: Instant, _ action: @escaping @Sendable () -> Void) {
        self.lastNumber += 1
        let entry = Entry(instant: instant, number: self.lastNumber, action: action)
        self.entries.append(entry)
        var child = self.entries.count - 1
        while child > 0, entry.isBefore(self.entries[(child - 1) / 2]) {
            self.entries.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    mutating func removeFirst() -> @Sendable () -> Void {
        let first = self.entries[0]
        let last = self.entries.removeLast()
        guard !self.entries.isEmpty else { return first.action }
        self.entries[0] = last
        var parent = 0
        while true {
            var child = 2 * parent + 1
            guard child < self.entries.count else { return first.action }
            if child + 1 < self.entries.count, self.entries[child + 1].isBefore(self.entries[child]) { child += 1 }
            guard self.entries[child].isBefore(last) else { return first.action }
            self.entries.swapAt(parent, child)
            parent = child
        }
    }
}
