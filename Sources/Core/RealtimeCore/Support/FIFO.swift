/// A first-in, first-out queue whose operations at both ends take constant time on average.
///
/// It doesn't retain elements that were removed, and an empty queue allocates no memory.
@usableFromInline
package struct FIFO<Element> {
    /// The elements before `start` have been removed.
    @usableFromInline var elements: [Element?] = []
    @usableFromInline var start = 0

    @inlinable
    package init() {}

    @inlinable package var count: Int { self.elements.count - self.start }
    @inlinable package var isEmpty: Bool { self.start == self.elements.count }
    @inlinable package var first: Element? { self.isEmpty ? nil : self.elements[self.start] }

    /// The number of elements that there is memory in use for.
    package var storedCount: Int { self.elements.count }

    @inlinable
    package mutating func append(_ element: Element) { self.elements.append(element) }

    @inlinable
    package mutating func popFirst() -> Element? {
        guard !self.isEmpty else { return nil }
        let element = self.elements[self.start].take()
        self.start += 1
        if self.isEmpty {
            self.removeAll()
        } else if self.start > 64, 2 * self.start > self.elements.count {
            // Moves the remaining elements only after more than as many were removed.
            self.elements.removeFirst(self.start)
            self.start = 0
        }
        return element
    }

    /// Removes all elements and releases the memory.
    @inlinable
    package mutating func removeAll() { (self.elements, self.start) = ([], 0) }

    /// Removes and returns the first element that satisfies a condition.
    @inlinable
    package mutating func removeFirst(where condition: (Element) -> Bool) -> Element? {
        guard let index = self.elements[self.start...].firstIndex(where: { $0.map(condition) ?? false }) else { return nil }
        let element = self.elements.remove(at: index)
        if self.isEmpty { self.removeAll() }
        return element
    }

    @inlinable
    package mutating func removeAll(where condition: (Element) -> Bool) {
        self.elements = self.elements[self.start...].filter { $0.map { !condition($0) } ?? false }
        self.start = 0
    }

    @inlinable
    package func contains(where condition: (Element) -> Bool) -> Bool {
        self.elements[self.start...].contains { $0.map(condition) ?? false }
    }

    /// The elements, oldest first.
    @inlinable package var all: [Element] { self.elements[self.start...].compactMap(\.self) }
}

extension FIFO: Sendable where Element: Sendable {}
