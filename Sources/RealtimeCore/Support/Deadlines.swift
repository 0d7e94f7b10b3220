/// One deadline for each key: a heap, since there may be ten thousand of them.
///
/// A deadline that was replaced or removed stays in the heap until it comes to the top, where its old number gives it away.
package struct Deadlines<Key: Hashable & Sendable>: Sendable {
    private struct Entry: Sendable {
        var instant: Instant
        var number: UInt64
        var key: Key

        func isBefore(_ other: Entry) -> Bool {
            (self.instant, self.number) < (other.instant, other.number)
        }
    }

    /// The next one. It is kept, since it is asked for after every step.
    package private(set) var earliest: Instant?
    private var lastNumber: UInt64 = 0
    private var numbers: [Key: UInt64] = [:]
    private var heap: [Entry] = []

    package init() {}

    package var isEmpty: Bool { self.numbers.isEmpty }

    /// Replaces the key's deadline; `nil` removes it.
    package mutating func set(_ key: Key, _ instant: Instant?) {
        guard let instant else {
            if self.numbers.removeValue(forKey: key) != nil { self.settle() }
            return
        }
        self.lastNumber += 1
        self.numbers[key] = self.lastNumber
        self.insert(Entry(instant: instant, number: self.lastNumber, key: key))
        if self.heap.count > 64, self.heap.count > 2 * self.numbers.count { self.compact() }
        self.settle()
    }

    /// Takes out the first one that is due: by instant, then by age, so that a test runs the same way each time.
    package mutating func popDue(_ now: Instant) -> (instant: Instant, key: Key)? {
        guard let first = self.heap.first, first.instant <= now else { return nil }
        self.numbers[first.key] = nil
        self.settle()
        return (first.instant, first.key)
    }

    /// What is at the top counts, always. Nobody's deadlines need no memory.
    private mutating func settle() {
        guard !self.numbers.isEmpty else {
            (self.numbers, self.heap, self.earliest) = ([:], [], nil)
            return
        }
        while let first = self.heap.first, self.numbers[first.key] != first.number { self.removeFirst() }
        self.earliest = self.heap.first?.instant
    }

    private mutating func compact() {
        let live = self.heap.filter { self.numbers[$0.key] == $0.number }
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
