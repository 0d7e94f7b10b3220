import RealtimeSystem
import Testing

@Suite struct StringBytesTests {
    @Test(
        arguments: [
            ("wss://host", "://", true), ("host", "://", false), ("abc", "abc", true), ("abc", "abcd", false), ("abc", "", true),
            ("", "", true), ("", "a", false), ("aab", "ab", true), ("cafe\u{301}", "e", true), ("caf\u{E9}", "e\u{301}", false),
        ])
    func `a text contains each of its parts and nothing else`(text: String, part: String, expected: Bool) {
        #expect(text.containsText(part) == expected)
    }

    @Test(
        arguments: [
            ("a?b?c", "?", "%3F", "a%3Fb%3Fc"), ("aaa", "aa", "b", "ba"), ("key", "key", "…", "…"), ("key", "", "…", "key"),
            ("", "key", "…", ""), ("a key", "key", "", "a "), ("keykey", "key", "keykey", "keykeykeykey"), ("ä-ö", "-", "ü", "äüö"),
        ])
    func `each occurrence is replaced, from the start, without overlap`(text: String, part: String, replacement: String, expected: String) {
        #expect(text.replacingText(part, with: replacement) == expected)
        #expect(Substring(text).replacingText(part, with: replacement) == expected)
    }
}
