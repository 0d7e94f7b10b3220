/// The clock, and one wake-up per sleeper: the socket loop's timer, or a manual clock in tests.
package protocol TimeSource: AnyObject, Sendable {
    var now: Instant { get }

    /// Replaces the sleeper's earlier wish; `nil` takes it back.
    ///
    /// It only takes note and never calls back from within, so it may be called under a lock.
    /// It holds the sleeper weakly. It may wake it late, never early.
    func wake(_ sleeper: any Sleeper, at instant: Instant?)
}

package protocol Sleeper: AnyObject, Sendable {
    /// Called on the time source's own thread.
    func wakeUp()
}

/// Who wants to be woken when: a heap, since a loop may carry ten thousand sleepers.
///
/// A wish that was replaced stays in the heap until it comes up, and is then known by its old number.
package struct WakeList: Sendable {
    private struct Wish: Sendable {
        var number: UInt64
        weak var sleeper: (any Sleeper)?
    }

    private struct Entry: Sendable {
        var instant: Instant
        var number: UInt64
        var key: ObjectIdentifier

        func isBefore(_ other: Entry) -> Bool {
            (self.instant, self.number) < (other.instant, other.number)
        }
    }

    private var wishes: [ObjectIdentifier: Wish] = [:]
    private var heap: [Entry] = []
    private var lastNumber: UInt64 = 0

    package init() {}

    package var isEmpty: Bool { self.wishes.isEmpty }

    /// When the next wish is due. Drops what was replaced on the way.
    package mutating func earliest() -> Instant? {
        while let first = self.heap.first {
            if self.wishes[first.key]?.number == first.number { return first.instant }
            self.removeFirst()
        }
        return nil
    }

    package mutating func set(_ sleeper: any Sleeper, _ instant: Instant?) {
        let key = ObjectIdentifier(sleeper)
        guard let instant else {
            self.wishes[key] = nil
            return
        }
        self.lastNumber += 1
        self.wishes[key] = Wish(number: self.lastNumber, sleeper: sleeper)
        self.insert(Entry(instant: instant, number: self.lastNumber, key: key))
        if self.heap.count > 64, self.heap.count > 4 * self.wishes.count { self.compact() }
    }

    /// Takes out the first wish that is due: by instant, then by age, so that a test runs the same way each time.
    /// The sleeper is `nil` when it is gone.
    package mutating func popDue(_ now: Instant) -> (instant: Instant, sleeper: (any Sleeper)?)? {
        guard let instant = self.earliest(), instant <= now, let first = self.heap.first else { return nil }
        self.removeFirst()
        let wish = self.wishes.removeValue(forKey: first.key)
        return (instant, wish?.sleeper)
    }

    private mutating func compact() {
        let live = self.heap.filter { self.wishes[$0.key]?.number == $0.number }
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
