import RealtimeCore

/// The subscribers of a channel in the order of their subscriptions. Adding and removing one takes constant or logarithmic time.
///
/// A removed entry stays until half of the entries are removed ones.
struct SubscriberList: Sendable, Sequence {
    fileprivate struct Entry: Sendable {
        var number: UInt64
        var connection: ConnectionID
        var isRemoved = false
    }

    /// Ordered by number.
    private var entries: [Entry] = []
    private(set) var count = 0

    var isEmpty: Bool { self.count == 0 }

    /// Adds a subscriber.
    ///
    /// - Parameter number: The number of the subscription, which must be higher than all earlier ones.
    mutating func append(_ connection: ConnectionID, number: UInt64) {
        assert(self.entries.last.map { $0.number < number } ?? true, "the numbers of subscriptions must increase")
        self.entries.append(Entry(number: number, connection: connection))
        self.count += 1
    }

    /// Removes the subscriber with this number. Does nothing if there is none.
    mutating func remove(number: UInt64) {
        guard let index = self.index(of: number), !self.entries[index].isRemoved else { return }
        self.entries[index].isRemoved = true
        self.count -= 1
        if 2 * self.count < self.entries.count { self.entries.removeAll(where: \.isRemoved) }
    }

    private func index(of number: UInt64) -> Int? {
        var (low, high) = (0, self.entries.count)
        while low < high {
            let middle = (low + high) / 2
            if self.entries[middle].number < number { low = middle + 1 } else { high = middle }
        }
        return low < self.entries.count && self.entries[low].number == number ? low : nil
    }

    func makeIterator() -> Iterator { Iterator(entries: self.entries.makeIterator()) }

    struct Iterator: IteratorProtocol {
        fileprivate var entries: IndexingIterator<[Entry]>

        fileprivate init(entries: IndexingIterator<[Entry]>) {
            self.entries = entries
        }

        mutating func next() -> ConnectionID? {
            while let entry = self.entries.next() {
                if !entry.isRemoved { return entry.connection }
            }
            return nil
        }
    }
}
