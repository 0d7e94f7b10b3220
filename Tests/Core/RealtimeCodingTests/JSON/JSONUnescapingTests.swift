import RealtimeCoding
import RealtimeCore
import TestSupport
import Testing

/// The replacement of escape sequences in one pass, beside validation and replacement in two.
@Suite(.computes) struct JSONUnescapingTests {
    /// Reads a string after three other bytes, into memory that exactly fits.
    ///
    /// - Returns: The string and the number of bytes after it; `nil` if it isn't read.
    private static func onePass(_ text: [UInt8]) -> (string: [UInt8], rest: Int)? {
        let bytes = Array("[ \"".utf8) + text
        return bytes.withUnsafeBytes { bytes in
            withUnsafeTemporaryAllocation(byteCount: text.count + JSONText.unescapeMargin, alignment: 16) { output in
                JSONText.unescape(bytes, from: 3, into: output).map { (Array(output[..<$0.count]), bytes.count - $0.end) }
            }
        }
    }

    /// Reads a string in two passes; `nil` if it isn't valid.
    private static func twoPasses(_ text: [UInt8]) -> (string: [UInt8], rest: Int)? {
        var end = 0
        while end < text.count, text[end] != UInt8(ascii: "\"") { end += text[end] == UInt8(ascii: "\\") ? 2 : 1 }
        guard end < text.count else { return nil }
        let string = [UInt8(ascii: "\"")] + text[...end]
        let isValid = string.withUnsafeBytes { (try? JSONText.validate($0)) != nil }
        return isValid ? (text[..<end].withUnsafeBytes { JSONText.unescapedBytes($0) }, text.count - end - 1) : nil
    }

    @Test func `escape sequences at every position are replaced`() {
        let sequences = [#"\""#, #"\\"#, #"\/"#, #"\n"#, #"\r"#, #"\t"#, #"\b"#, #"\f"#, #"\"\""#, #"\\\""#, "é", "日", "😀"]
        for sequence in sequences {
            for before in 0..<40 {
                for after in [0, 1, 7, 15, 16, 17, 31, 33] {
                    let text = String(repeating: "a", count: before) + sequence + String(repeating: "b", count: after)
                    let bytes = Array((text + "\"]").utf8)
                    expectEqual(Self.onePass(bytes)?.string, Self.twoPasses(bytes)?.string, "\(text)")
                    expectEqual(Self.onePass(bytes)?.rest, 1, "\(text)")
                }
            }
        }
    }

    @Test func `random strings are read as in two passes`() {
        var random = SplitMix64(seed: 17)
        let alphabet = Array(#""\\\\\abnrtf/xyz0123456789"#.utf8) + [0x00, 0x1F, 0x20, 0x7F]
        var valid = 0
        for _ in 0..<20_000 {
            let isQuoted = Bool.random(using: &random)
            var text = (0..<Int.random(in: 0..<80, using: &random)).map { _ in
                let byte = alphabet[Int.random(in: alphabet.indices, using: &random)]
                return isQuoted && byte < 0x20 ? UInt8(ascii: "a") : byte
            }
            text.append(UInt8(ascii: "\""))
            let (one, two) = (Self.onePass(text), Self.twoPasses(text))
            expect(one?.string == two?.string && one?.rest == two?.rest, "\(text)")
            if one != nil { valid += 1 }
        }
        expect(valid > 1000)
    }

    @Test(arguments: [
        #"\u0041""#, #"\x""#, #"\"#, "a", "", "a\u{1}\"", "aaaaaaaaaaaaaaaa\u{1F}\"", #"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\u0041""#,
    ])
    func `strings with other sequences, without an end or with control characters aren't read`(_ text: String) {
        expectNil(Self.onePass(Array(text.utf8)))
    }
}
