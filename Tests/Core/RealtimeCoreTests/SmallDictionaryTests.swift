import RealtimeCore
import TestSupport
import Testing

@Suite struct SmallDictionaryTests {
    @Test func `random changes have the same effect as on a standard dictionary`() {
        var generator = SplitMix64(seed: 7)
        var small = SmallDictionary<Int, Int>()
        var expected: [Int: Int] = [:]
        for step in 0..<5_000 {
            let key = Int.random(in: 0..<4, using: &generator)
            switch Int.random(in: 0..<4, using: &generator) {
            case 0: expectEqual(small.removeValue(forKey: key), expected.removeValue(forKey: key))
            case 1: (small[key], expected[key]) = (nil, nil)
            default: (small[key], expected[key]) = (step, step)
            }
            for key in 0..<4 { expectEqual(small[key], expected[key]) }
            expectEqual(small.isEmpty, expected.isEmpty)
            expectEqual(small.keys.sorted(), expected.keys.sorted())
            expectEqual(Dictionary(uniqueKeysWithValues: small.entries.map { ($0.key, $0.value) }), expected)
        }
    }

    @Test func `removing a key releases its value`() {
        final class Token {}
        var small = SmallDictionary<Int, Token>()
        weak var first: Token?
        weak var second: Token?
        do {
            let tokens = (Token(), Token())
            (first, second) = tokens
            (small[1], small[2]) = tokens
        }
        expect(first != nil && second != nil)
        small[1] = nil
        expect(first == nil && second != nil)
        small[2] = nil
        expectNil(second)
    }
}
