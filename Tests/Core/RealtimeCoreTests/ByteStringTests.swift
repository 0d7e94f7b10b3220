import RealtimeSystem
import TestSupport
import Testing

@Suite struct ByteStringTests {
    private let composed = "caf\u{E9}"
    private let decomposed = "cafe\u{301}"

    @Test func `canonically equivalent strings with different bytes are different`() {
        expectEqual(self.composed, self.decomposed)
        expect(ByteString(self.composed) != ByteString(self.decomposed))
        expect(ByteString(self.composed).hashValue != ByteString(self.decomposed).hashValue)
        expectEqual(Set([ByteString(self.composed), ByteString(self.decomposed)]).count, 2)
    }

    @Test(arguments: ["", "a", "private-chat", "caf\u{E9}", "cafe\u{301}", "a\u{0}b", String(repeating: "long ", count: 100), "👩‍👩‍👧"])
    func `strings with equal bytes are equal and have one hash`(string: String) {
        // A second string with storage of its own.
        let copy = String(decoding: Array(string.utf8), as: UTF8.self)
        expectEqual(ByteString(string), ByteString(copy))
        expectEqual(ByteString(string).hashValue, ByteString(copy).hashValue)
        expectEqual(Array(ByteString(string).string.utf8), Array(string.utf8))
        expectEqual("\(ByteString(string))", string)
    }

    @Test func `the order is that of the bytes`() {
        let names = ["b", "", "cafe\u{301}", "a\u{0}b", "caf\u{E9}", "a", "aa", "\u{10000}", "\u{FFFF}"]
        let sorted = names.map(ByteString.init).sorted().map { Array($0.string.utf8) }
        let expected = names.map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) }
        expectEqual(sorted, expected)
    }

    @Test func `a dictionary finds a key by its bytes only`() {
        var values: [ByteString: Int] = [ByteString(self.composed): 1]
        expectNil(values[ByteString(self.decomposed)])
        values[ByteString(self.decomposed)] = 2
        expectEqual(values[ByteString(self.composed)], 1)
        expectEqual(values[ByteString(self.decomposed)], 2)
    }
}
