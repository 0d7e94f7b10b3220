import RealtimeCore
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
            case 0: #expect(table.take(key) == reference.removeValue(forKey: key))
            case 1: (table[key], reference[key]) = (nil, nil)
            default: (table[key], reference[key]) = (round, round)
            }
            #expect(table[key] == reference[key])
            #expect(table.count == reference.count)
            #expect(table.isEmpty == reference.isEmpty)
        }
        #expect(table.entries.map(\.key) == reference.keys.sorted())
        #expect(table.entries.allSatisfy { reference[$0.key] == $0.value })
        for key in reference.keys { #expect(table.take(key) == reference[key]) }
        #expect(table.isEmpty)
        #expect(table.entries.isEmpty)
    }

    @Test func `the largest keys are stored`() {
        var table = SequentialTable<String>()
        table[.max] = "last"
        table[0] = "first"
        #expect(table[.max] == "last")
        #expect(table[.max - 1] == nil)
        #expect(table.entries.map(\.value) == ["first", "last"])
    }

    @Test func `a copy doesn't change with the original`() {
        var table = SequentialTable<Int>()
        table[1] = 1
        let copy = table
        table[1] = 2
        table[2] = 3
        #expect(copy.entries.map(\.value) == [1])
        #expect(table.entries.map(\.value) == [2, 3])
    }

    @Test func `a removed value is released`() {
        var table = SequentialTable<Token>()
        weak var token: Token?
        do {
            let value = Token()
            (table[20], token) = (value, value)
        }
        #expect(token != nil)
        table[21] = Token()
        table[20] = nil
        #expect(token == nil)
    }
}
