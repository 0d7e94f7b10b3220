import RealtimeCore
import TestSupport
import Testing

@Suite struct FIFOTests {
    @Test func `elements leave in the order in which they were added`() {
        var queue = FIFO<Int>()
        expect(queue.isEmpty && queue.first == nil && queue.popFirst() == nil)
        for number in 1...5 { queue.append(number) }
        expect(queue.popFirst() == 1 && queue.first == 2 && queue.count == 4)
        queue.append(6)
        expectEqual(queue.all, [2, 3, 4, 5, 6])
        while let number = queue.popFirst() { expect(number > 1) }
        expect(queue.isEmpty && queue.storedCount == 0)
    }

    @Test func `an element that was removed is not retained while others wait`() {
        final class Item: Sendable {}
        var queue = FIFO<Item>()
        weak var removed: Item?
        do {
            let item = Item()
            removed = item
            queue.append(item)
        }
        queue.append(Item())
        expect(removed != nil)
        _ = queue.popFirst()
        expect(removed == nil && queue.count == 1)
    }

    @Test func `the memory of removed elements is used again`() {
        var queue = FIFO<Int>()
        for number in 0..<10 { queue.append(number) }
        for number in 10..<10_000 {
            queue.append(number)
            expectEqual(queue.popFirst(), number - 10)
        }
        expect(queue.count == 10 && queue.storedCount < 200)
    }

    @Test func `elements are found and removed by a condition`() {
        var queue = FIFO<Int>()
        for number in 0..<6 { queue.append(number) }
        _ = queue.popFirst()
        expect(queue.contains { $0 == 3 } && !queue.contains { $0 == 0 })
        expect(queue.removeFirst { $0 > 2 } == 3 && queue.removeFirst { $0 == 0 } == nil)
        queue.removeAll { $0 % 2 == 0 }
        expectEqual(queue.all, [1, 5])
        queue.removeAll { _ in true }
        expect(queue.isEmpty && queue.popFirst() == nil)
    }
}
