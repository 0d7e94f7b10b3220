import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@Suite struct DeadlinesTests {
    @Test func `deadlines are popped by instant and then in the order they were set`() {
        var deadlines = Deadlines<String, Void>()
        for (key, at) in [("c", 30), ("a", 10), ("b", 10), ("d", 20)] { deadlines.set(key, Instant(nanoseconds: Int64(at))) }
        var order: [String] = []
        while let due = deadlines.popDue(Instant(nanoseconds: 30)) { order.append(due.key) }
        expectEqual(order, ["a", "b", "d", "c"])
        expect(deadlines.isEmpty)
    }

    @Test func `a replaced or removed deadline is not popped`() {
        var deadlines = Deadlines<Int, Void>()
        deadlines.set(1, Instant(nanoseconds: 10))
        deadlines.set(1, Instant(nanoseconds: 50))
        deadlines.set(2, Instant(nanoseconds: 20))
        deadlines.set(2, nil)
        expectNil(deadlines.popDue(Instant(nanoseconds: 49)))
        expectEqual(deadlines.earliest, Instant(nanoseconds: 50))
        expectEqual(deadlines.popDue(Instant(nanoseconds: 50))?.key, 1)
    }

    @Test func `random changes preserve the order`() {
        var generator = SplitMix64(seed: 3)
        var deadlines = Deadlines<Int, Void>()
        var expected: [Int: Int64] = [:]
        for _ in 0..<5_000 {
            let (key, at) = (Int.random(in: 0..<100, using: &generator), Int64.random(in: 0..<1_000, using: &generator))
            let isRemoved = Int.random(in: 0..<5, using: &generator) == 0
            deadlines.set(key, isRemoved ? nil : Instant(nanoseconds: at))
            expected[key] = isRemoved ? nil : at
        }
        var last = Int64.min
        while let due = deadlines.popDue(Instant(nanoseconds: 1_000)) {
            expect(due.instant.nanoseconds >= last)
            expectEqual(expected.removeValue(forKey: due.key), due.instant.nanoseconds)
            last = due.instant.nanoseconds
        }
        expect(expected.isEmpty)
    }

    @Test func `deadlines are removed by their values`() {
        var deadlines = Deadlines<Int, String>()
        for key in 1...6 { deadlines.set(key, Instant(nanoseconds: Int64(key)), key.isMultiple(of: 2) ? "even" : "odd") }
        deadlines.removeAll { $0 == "odd" }
        expect(deadlines.earliestKey == 2 && deadlines.count == 3)
        deadlines.removeAll { $0 == "even" }
        expect(deadlines.isEmpty && deadlines.earliestKey == nil && deadlines.earliest == nil)
    }

    @Test func `a deadline is popped with its value`() {
        var deadlines = Deadlines<Int, String>()
        deadlines.set(1, Instant(nanoseconds: 10), "old")
        deadlines.set(1, Instant(nanoseconds: 20), "new")
        deadlines.set(2, Instant(nanoseconds: 15), "removed")
        deadlines.remove(2)
        expectEqual(deadlines.earliest, Instant(nanoseconds: 20))
        expectEqual(deadlines.popDue(Instant(nanoseconds: 20))?.companion, "new")
        expect(deadlines.isEmpty && deadlines.earliest == nil)
    }
}
