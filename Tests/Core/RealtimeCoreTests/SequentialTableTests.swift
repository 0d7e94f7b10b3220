import RealtimeCore
import TestSupport
import Testing

@Suite struct SequentialTableTests {
    private final class Token: Sendable {}

    @Test func `a table has the entries of a dictionary, in the order of the keys`() {
        var table = SequentialTable<Int>()
        var reference: [UInt64: Int] = [:]
        var generator = SplitMix64(seed: 7)
        for round in 0..<3_000 {
            // Mostly recent keys, and some old ones.
            let key = UInt64(round / 3) &- UInt64.random(in: 0...min(40, UInt64(round / 3)), using: &generator)
            switch Int.random(in: 0..<4, using: &generator) {
            case 0: expectEqual(table.take(key), reference.removeValue(forKey: key))
            case 1: (table[key], reference[key]) = (nil, nil)
            default: (table[key], reference[key]) = (round, round)
            }
            expectEqual(table[key], reference[key])
            expectEqual(table.count, reference.count)
            expectEqual(table.isEmpty, reference.isEmpty)
        }
        expectEqual(table.entries.map(\.key), reference.keys.sorted())
        expect(table.entries.allSatisfy { reference[$0.key] == $0.value })
        for key in reference.keys { expectEqual(table.take(key), reference[key]) }
        expect(table.isEmpty)
        expect(table.entries.isEmpty)
    }

    @Test func `the largest keys are stored`() {
        var table = SequentialTable<String>()
        table[.max] = "last"
        table[0] = "first"
        expectEqual(table[.max], "last")
        expectNil(table[.max - 1])
        expectEqual(table.entries.map(\.value), ["first", "last"])
    }

    @Test func `a copy doesn't change with the original`() {
        var table = SequentialTable<Int>()
        table[1] = 1
        let copy = table
        table[1] = 2
        table[2] = 3
        expectEqual(copy.entries.map(\.value), [1])
        expectEqual(table.entries.map(\.value), [2, 3])
    }

    @Test func `a removed value is released`() {
        var table = SequentialTable<Token>()
        weak var token: Token?
        do {
            let value = Token()
            (table[20], token) = (value, value)
        }
        expect(token != nil)
        table[21] = Token()
        table[20] = nil
        expectNil(token)
    }
}
