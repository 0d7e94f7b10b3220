/// A priority queue with one deadline per key and a value attached to each. Setting and removing take logarithmic time.
///
/// A replaced or removed deadline stays in the heap until it reaches the top, where its outdated number identifies it. An empty queue
/// allocates no memory.
@usableFromInline
package struct Deadlines<Key: Hashable & Sendable, Companion: Sendable>: Sendable {
    @usableFromInline
    struct Entry: Sendable {
        @usableFromInline var instant: Instant
        var number: UInt64
        var key: Key

        func isBefore(_ other: Entry) -> Bool {
            (self.instant, self.number) < (other.instant, other.number)
        }
    }

    private struct Current: Sendable {
        var number: UInt64
        var companion: Companion
    }

    private var lastNumber: UInt64 = 0
    private var current: [Key: Current] = [:]
    @usableFromInline var heap: [Entry] = []

    package init() {}

    package var isEmpty: Bool { self.current.isEmpty }

    package var count: Int { self.current.count }

    package func contains(_ key: Key) -> Bool { self.current[key] != nil }

    /// The next deadline. Inlinable, because it is read after every step of a session.
    @inlinable package var earliest: Instant? { self.heap.first?.instant }

    /// The key of the next deadline.
    package var earliestKey: Key? { self.heap.first?.key }

    /// Sets or replaces the deadline of a key.
    package mutating func set(_ key: Key, _ instant: Instant, _ companion: Companion) {
        self.lastNumber += 1
        self.current[key] = Current(number: self.lastNumber, companion: companion)
        self.insert(Entry(instant: instant, number: self.lastNumber, key: key))
        // Bounds the memory taken by outdated entries to a third of the heap.
        if self.heap.count > 64, 2 * self.heap.count > 3 * self.current.count { self.compact() }
        self.removeOutdated()
    }

    package mutating func remove(_ key: Key) {
        if self.current.removeValue(forKey: key) != nil { self.removeOutdated() }
    }

    /// Removes the deadlines with companions that satisfy a condition. It looks at all of them.
    package mutating func removeAll(where condition: (Companion) -> Bool) {
        for (key, current) in self.current where condition(current.companion) { self.current[key] = nil }
        self.removeOutdated()
    }

    /// Removes the first deadline that is due, ordered by instant and then by when it was set, which makes tests deterministic.
    package mutating func popDue(_ now: Instant) -> (instant: Instant, key: Key, companion: Companion)? {
        guard let first = self.heap.first, first.instant <= now, let due = self.current.removeValue(forKey: first.key) else { return nil }
        self.removeOutdated()
        return (first.instant, first.key, due.companion)
    }

    /// Removes outdated entries from the top, so that the first entry of the heap is always current.
    private mutating func removeOutdated() {
        guard !self.current.isEmpty else {
            (self.current, self.heap) = ([:], [])
            return
        }
        while let first = self.heap.first, self.current[first.key]?.number != first.number { self.removeFirst() }
    }

    private mutating func compact() {
        let live = self.heap.filter { self.current[$0.key]?.number == $0.number }
        self.heap.removeAll(keepingCapacity: true)
        for entry in live { self.insert(entry) }
    }

    private mutating func insert(_ entry: Entry) {
        self.heap.append(entry)
        var child = self.heap.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard self.heap[child].isBefore(self.heap[parent]) else { break }
            self.heap.swapAt(child, parent)
            child = parent
        }
    }

    private mutating func removeFirst() {
        self.heap.swapAt(0, self.heap.count - 1)
        self.heap.removeLast()
        var parent = 0
        while true {
            var first = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < self.heap.count && self.heap[child].isBefore(self.heap[first]) {
                first = child
            }
            if first == parent { return }
            self.heap.swapAt(parent, first)
            parent = first
        }
    }
}

extension Deadlines where Companion == Void {
    /// Sets or replaces the deadline of a key; `nil` removes it.
    package mutating func set(_ key: Key, _ instant: Instant?) {
        if let instant { self.set(key, instant, ()) } else { self.remove(key) }
    }
}

extension Deadlines where Companion == PatientLimit {
    /// Sets or replaces the limit of a key; `nil` removes it.
    package mutating func set(_ key: Key, _ limit: PatientLimit?) {
        if let limit { self.set(key, limit.deadline, limit) } else { self.remove(key) }
    }

    /// Removes the first limit that has passed. Those that passed during a standstill begin anew, once.
    package mutating func popPassed(now: Instant) -> Key? {
        while var due = self.popDue(now) {
            if due.companion.hasPassed(now: now) { return due.key }
            self.set(due.key, due.companion)
        }
        return nil
    }
}
