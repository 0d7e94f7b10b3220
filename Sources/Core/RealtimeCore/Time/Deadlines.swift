/// One deadline for each key, and what belongs to it: a heap, since there may be ten thousand of them.
///
/// A deadline that was replaced or removed stays in the heap until it comes to the top, where its old number gives it away.
/// Without deadlines it has no memory of its own.
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

    /// The next one. Inlinable, since it is asked for after every step.
    @inlinable package var earliest: Instant? { self.heap.first?.instant }

    /// Replaces the key's deadline.
    package mutating func set(_ key: Key, _ instant: Instant, _ companion: Companion) {
        self.lastNumber += 1
        self.current[key] = Current(number: self.lastNumber, companion: companion)
        self.insert(Entry(instant: instant, number: self.lastNumber, key: key))
        // A third of the heap may be old, or its memory would be mostly theirs.
        if self.heap.count > 64, 2 * self.heap.count > 3 * self.current.count { self.compact() }
        self.settle()
    }

    package mutating func remove(_ key: Key) {
        if self.current.removeValue(forKey: key) != nil { self.settle() }
    }

    /// Takes out the first one that is due: by instant, then by age, so that a test runs the same way each time.
    package mutating func popDue(_ now: Instant) -> (instant: Instant, key: Key, companion: Companion)? {
        guard let first = self.heap.first, first.instant <= now, let due = self.current.removeValue(forKey: first.key) else { return nil }
        self.settle()
        return (first.instant, first.key, due.companion)
    }

    /// What is at the top counts, always.
    private mutating func settle() {
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
    /// Replaces the key's deadline; `nil` removes it.
    package mutating func set(_ key: Key, _ instant: Instant?) {
        if let instant { self.set(key, instant, ()) } else { self.remove(key) }
    }
}
