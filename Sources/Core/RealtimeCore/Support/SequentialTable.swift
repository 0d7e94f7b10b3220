/// A dictionary whose keys are numbers that were given in ascending order, such as the numbers of calls.
///
/// Values with neighboring keys are stored side by side. In a hash table, every access to one of 100,000 entries misses the processor's
/// caches; here, the newest entries stay in them beside any number of old ones.
///
/// An empty table allocates no memory. A single old entry holds the memory of ``pageSize`` entries.
@usableFromInline
package struct SequentialTable<Value> {
    @usableFromInline
    struct Page {
        @usableFromInline var values = [Value?](repeating: nil, count: Int(SequentialTable.pageSize))
        @usableFromInline var count = 0

        @inlinable
        init() {}
    }

    @inlinable package static var pageSize: UInt64 { 16 }

    @usableFromInline var pages: [UInt64: Page] = [:]
    @usableFromInline var storedCount = 0

    @inlinable
    package init() {}

    @inlinable package var count: Int { self.storedCount }
    @inlinable package var isEmpty: Bool { self.storedCount == 0 }

    @inlinable
    package subscript(key: UInt64) -> Value? {
        get {
            guard !self.isEmpty, let page = self.pages[key / Self.pageSize] else { return nil }
            return page.values[Int(key % Self.pageSize)]
        }
        set {
            guard let newValue else {
                _ = self.take(key)
                return
            }
            let isNew = self.pages[key / Self.pageSize, default: Page()].set(Int(key % Self.pageSize), newValue)
            if isNew { self.storedCount += 1 }
        }
    }

    /// Removes a value and returns it. Frees the memory that only this value used.
    @inlinable
    package mutating func take(_ key: UInt64) -> Value? {
        guard let page = self.pages.index(forKey: key / Self.pageSize),
            let value = self.pages.values[page].take(Int(key % Self.pageSize))
        else { return nil }
        self.storedCount -= 1
        if self.storedCount == 0 {
            self.pages = [:]
        } else if self.pages.values[page].count == 0 {
            self.pages.remove(at: page)
        }
        return value
    }

    /// The entries in the order of their keys.
    @inlinable package var entries: [(key: UInt64, value: Value)] {
        var entries: [(key: UInt64, value: Value)] = []
        entries.reserveCapacity(self.count)
        for (number, page) in self.pages.sorted(by: { $0.key < $1.key }) {
            for (index, value) in page.values.enumerated() {
                if let value { entries.append((number * Self.pageSize + UInt64(index), value)) }
            }
        }
        return entries
    }
}

extension SequentialTable.Page {
    /// - Returns: Whether there was no value.
    @inlinable
    mutating func set(_ index: Int, _ value: Value) -> Bool {
        let isNew = self.values[index] == nil
        self.values[index] = value
        if isNew { self.count += 1 }
        return isNew
    }

    @inlinable
    mutating func take(_ index: Int) -> Value? {
        guard let value = self.values[index].take() else { return nil }
        self.count -= 1
        return value
    }
}

extension SequentialTable.Page: Sendable where Value: Sendable {}
extension SequentialTable: Sendable where Value: Sendable {}
