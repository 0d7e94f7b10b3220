import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

@Suite struct StringBytesTests {
    @Test(
        arguments: [
            ("wss://host", "://", true), ("host", "://", false), ("abc", "abc", true), ("abc", "abcd", false), ("abc", "", true),
            ("", "", true), ("", "a", false), ("aab", "ab", true), ("cafe\u{301}", "e", true), ("caf\u{E9}", "e\u{301}", false),
        ])
    func `a text contains each of its parts and nothing else`(text: String, part: String, expected: Bool) {
        expectEqual(text.containsText(part), expected)
    }

    @Test(
        arguments: [
            ("a?b?c", "?", "%3F", "a%3Fb%3Fc"), ("aaa", "aa", "b", "ba"), ("key", "key", "…", "…"), ("key", "", "…", "key"),
            ("", "key", "…", ""), ("a key", "key", "", "a "), ("keykey", "key", "keykey", "keykeykeykey"), ("ä-ö", "-", "ü", "äüö"),
        ])
    func `each occurrence is replaced, from the start, without overlap`(text: String, part: String, replacement: String, expected: String) {
        expectEqual(text.replacingText(part, with: replacement), expected)
        expectEqual(Substring(text).replacingText(part, with: replacement), expected)
    }

    @Test func `parts with repetitions are found where they are`() {
        var random = SplitMix64(seed: 1)
        for _ in 0..<scaled(2_000) {
            let text = (0..<Int.random(in: 0..<30, using: &random)).map { _ in Bool.random(using: &random) ? "a" : "b" }.joined()
            let part = (0..<Int.random(in: 0..<8, using: &random)).map { _ in Bool.random(using: &random) ? "a" : "b" }.joined()
            let starts = (0...text.count).filter { text.dropFirst($0).hasPrefix(part) }
            expectEqual(text.containsText(part), !starts.isEmpty)
            guard !part.isEmpty else { continue }
            var (expected, rest) = ("", text[...])
            while !rest.isEmpty {
                let isPart = rest.hasPrefix(part)
                expected += isPart ? "-" : String(rest.prefix(1))
                rest = rest.dropFirst(isPart ? part.count : 1)
            }
            expectEqual(text.replacingText(part, with: "-"), expected)
        }
    }
}

@Suite(.requires(.completeRun), .computes, .serialized, .timeLimit(.minutes(10))) struct StringBytesCostTests {
    @Test func `the time of a search is linear`() async throws {
        try await expectLinearCost { count in
            let text = String(repeating: "a", count: 10 * count)
            let part = String(repeating: "a", count: 5 * count) + "b"
            return { expect(!text.containsText(part)) }
        }
    }
}
