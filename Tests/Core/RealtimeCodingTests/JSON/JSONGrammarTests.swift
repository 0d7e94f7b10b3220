import RealtimeCoding
import TestSupport
import Testing

/// Texts that RFC 8259 allows and forbids. Each is read in three ways: by the scan, by validation, and by parsing.
@Suite(.computes, .serialized) struct JSONGrammarTests {
    static let accepted: [String] = [
        // Literals and whitespace.
        "null", "true", "false", " null", "null ", "\tnull\n", "\r\n null \r\n", "\n\n\n\n\n\n\n\n\n1", "[ ]", "{ }", "[\t]", "{\n}",
        "[ null , true ]",
        "{ \"a\" : 1 , \"b\" : 2 }", "[\r1\r,\r2\r]",
        // Numbers.
        "0", "-0", "1", "-1", "9", "10", "1234567890", "0.0", "-0.0", "0.5", "1.5", "1.50", "0e0", "0e1", "0E1", "1e0", "1e1", "1E1",
        "1e+1", "1e-1",
        "1E-01", "1e00", "1.5e10", "-1.5E-10", "123456789012345678901234567890", "9223372036854775807", "9223372036854775808",
        "-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616", "1e308", "1e309", "-1e400",
        "1e-400",
        "1e999999999999999999999999", "1e-999999999999999999999999", "0e999999999999999999999", "0.1e-7", "4.9e-324",
        "1.7976931348623157e308",
        "0.000000000000000000000000000000000000000000000000000000001", "[1,2.0,-3e3]", "[-0,-0.0,0]",
        // Strings.
        #""""#, #""a""#, #"" ""#, #""/""#, #""\/""#, #""\"""#, #""\\""#, #""\b\f\n\r\t""#, #""\u0000""#, #""\u0041""#, #""\uFFFF""#,
        #""\uabCD""#,
        #""\ud83d\ude00""#, #""\ud800""#, #""\udc00""#, #""\ud800\ud800""#, #""\ud800x""#, #""\udfff\ud800""#, #""\\u12""#, #""\\\\""#,
        #""\\\"""#,
        #""\"\"\"\"\"\"\"\"""#, "\"é\"", "\"日本語\"", "\"😀\"", "\"\u{7F}\"", "\"\u{80}\"", "\"\u{7FF}\"", "\"\u{800}\"", "\"\u{D7FF}\"",
        "\"\u{E000}\"",
        "\"\u{FFFF}\"", "\"\u{10000}\"", "\"\u{10FFFF}\"", "\"\u{FEFF}\"", "\"\u{2028}\u{2029}\"", "\"1234567\"", "\"12345678\"",
        "\"123456789\"",
        "\"1234567é\"", "\"12345678é9\"", #""1234567\n""#, #""123456\n""#, #""12345678\n""#, "\"'\"", "\"{[]}:,\"",
        // Arrays.
        "[]", "[[]]", "[[],[]]", "[[[[]]]]", "[1]", "[1,2,3]", "[null,true,false]", #"["a","b"]"#, "[{}]", "[{},{}]", "[[1],[2,[3]]]",
        #"[{"a":[{"b":[]}]}]"#,
        // Objects.
        "{}", #"{"a":1}"#, #"{"":0}"#, #"{"a":{}}"#, #"{"a":[]}"#, #"{"a":null,"b":true}"#, #"{"a":1,"a":2}"#, #"{"a":1,"\u0061":2}"#,
        #"{"a\"b":1}"#,
        #"{"é":"é"}"#, #"{"a":{"b":{"c":{"d":[1,{"e":2}]}}}}"#, #"{"\u0000":1}"#, #"{"a":"}"}"#, #"{"}":"{"}"#,
        #"{"12345678":1,"123456789":2}"#,
    ]

    static let rejected: [(text: String, code: JSONError.Code, offset: Int)] = [
        // No value, or more than one.
        ("", .unexpectedEnd, 0), (" ", .unexpectedEnd, 1), ("\n\t", .unexpectedEnd, 2), ("1 1", .trailingContent, 2),
        ("null,", .trailingContent, 4),
        ("{}{}", .trailingContent, 2), ("[]]", .trailingContent, 2), ("{}}", .trailingContent, 2), ("[] x", .trailingContent, 3),
        (#""a"b"#, .trailingContent, 3), ("true false", .trailingContent, 5), ("1\u{0}", .trailingContent, 1),
        ("1//x", .trailingContent, 1),
        ("1 \u{FEFF}", .trailingContent, 2),
        // Other text.
        ("x", .unexpectedCharacter, 0), ("'a'", .unexpectedCharacter, 0), ("NaN", .unexpectedCharacter, 0),
        ("Infinity", .unexpectedCharacter, 0),
        ("-Infinity", .invalidNumber, 0), ("undefined", .unexpectedCharacter, 0), ("]", .unexpectedCharacter, 0),
        ("}", .unexpectedCharacter, 0),
        (",", .unexpectedCharacter, 0), (":", .unexpectedCharacter, 0), ("/*x*/1", .unexpectedCharacter, 0),
        ("//\n1", .unexpectedCharacter, 0),
        ("\u{A0}1", .unexpectedCharacter, 0), ("\u{0B}1", .unexpectedCharacter, 0), ("\u{0C}1", .unexpectedCharacter, 0),
        ("\u{0}", .unexpectedCharacter, 0),
        (" \u{1F}1", .unexpectedCharacter, 1), ("é", .unexpectedCharacter, 0), ("\u{FEFF}1", .byteOrderMark, 0),
        ("\u{FEFF}", .byteOrderMark, 0),
        ("\\u0031", .unexpectedCharacter, 0),
        // Literals.
        ("n", .unexpectedEnd, 1), ("nul", .unexpectedEnd, 3), ("nulL", .unexpectedCharacter, 3), ("nulll", .trailingContent, 4),
        ("Null", .unexpectedCharacter, 0),
        ("tru", .unexpectedEnd, 3), ("trux", .unexpectedCharacter, 3), ("True", .unexpectedCharacter, 0), ("fals", .unexpectedEnd, 4),
        ("falze", .unexpectedCharacter, 3), ("FALSE", .unexpectedCharacter, 0), ("[tru]", .unexpectedCharacter, 4),
        ("truefalse", .trailingContent, 4),
        // Numbers.
        ("-", .unexpectedEnd, 1), ("+1", .unexpectedCharacter, 0), ("--1", .invalidNumber, 0), ("-a", .invalidNumber, 0),
        ("01", .invalidNumber, 0),
        ("-01", .invalidNumber, 0), ("00", .invalidNumber, 0), ("1.", .unexpectedEnd, 2), ("1.a", .invalidNumber, 0),
        (".5", .unexpectedCharacter, 0),
        ("-.5", .invalidNumber, 0), ("1.e1", .invalidNumber, 0), ("1e", .unexpectedEnd, 2), ("1e+", .unexpectedEnd, 3),
        ("1e-", .unexpectedEnd, 3),
        ("1ea", .invalidNumber, 0), ("1e+-1", .invalidNumber, 0), ("1e1.5", .trailingContent, 3), ("1.5.5", .trailingContent, 3),
        ("1e1e1", .trailingContent, 3),
        ("0x1F", .trailingContent, 1), ("1_000", .trailingContent, 1), ("1,000", .trailingContent, 1), ("1 000", .trailingContent, 2),
        ("1f", .trailingContent, 1),
        ("[01]", .invalidNumber, 1), ("[1.]", .invalidNumber, 1), ("[-]", .invalidNumber, 1), ("[1e]", .invalidNumber, 1),
        ("[1 2]", .unexpectedCharacter, 3),
        ("0.", .unexpectedEnd, 2), ("[0.]", .invalidNumber, 1), ("1٣", .trailingContent, 1), ("１", .unexpectedCharacter, 0),
        ("0e", .unexpectedEnd, 2),
        // Strings.
        (#"""#, .unexpectedEnd, 1), (#""a"#, .unexpectedEnd, 2), (#""abcdefghijk"#, .unexpectedEnd, 12), (#""\"#, .unexpectedEnd, 2),
        (#""\""#, .unexpectedEnd, 3),
        (#""\x""#, .invalidEscape, 1), (#""\a""#, .invalidEscape, 1), (#""\'""#, .invalidEscape, 1), (#""\0""#, .invalidEscape, 1),
        (#""\U0041""#, .invalidEscape, 1),
        (#""\u""#, .invalidEscape, 1), (#""\u1""#, .invalidEscape, 1), (#""\u12""#, .invalidEscape, 1), (#""\u123""#, .invalidEscape, 1),
        (#""\u123g""#, .invalidEscape, 1), (#""\u 123""#, .invalidEscape, 1), (#""\u+123""#, .invalidEscape, 1),
        (#""\u-123""#, .invalidEscape, 1),
        (#""\u12"#, .unexpectedEnd, 5), (#""\u"#, .unexpectedEnd, 3), (#""12345678\x""#, .invalidEscape, 9),
        (#""\u{41}""#, .invalidEscape, 1),
        ("\"\n\"", .controlCharacter, 1), ("\"\t\"", .controlCharacter, 1), ("\"\r\"", .controlCharacter, 1),
        ("\"\u{0}\"", .controlCharacter, 1),
        ("\"\u{1F}\"", .controlCharacter, 1), ("\"abcdefgh\u{1}\"", .controlCharacter, 9),
        ("\"abcdefghijklmno\u{8}pq\"", .controlCharacter, 16),
        ("\"a\u{1B}bcdefghijkl\"", .controlCharacter, 2), ("\"\\\u{9}\"", .invalidEscape, 1), (#""\é""#, .invalidEscape, 1),
        (#""\n\n\n\q""#, .invalidEscape, 7),
        (#""\ud83d\ude0""#, .invalidEscape, 7),
        // Arrays.
        ("[", .unexpectedEnd, 1), ("[1", .unexpectedEnd, 2), ("[1,", .unexpectedEnd, 3), ("[,", .unexpectedCharacter, 1),
        ("[,1]", .unexpectedCharacter, 1),
        ("[1,]", .unexpectedCharacter, 3), ("[1,,2]", .unexpectedCharacter, 3), ("[1;2]", .unexpectedCharacter, 2),
        ("[1}", .unexpectedCharacter, 2),
        ("[1:2]", .unexpectedCharacter, 2), ("[\"a\":1]", .unexpectedCharacter, 4), ("[[]", .unexpectedEnd, 3),
        ("[[[1]]", .unexpectedEnd, 6),
        ("[1 null]", .unexpectedCharacter, 3), ("[}", .unexpectedCharacter, 1), ("[ , ]", .unexpectedCharacter, 2),
        ("[1, ]", .unexpectedCharacter, 4),
        ("[\"a\" \"b\"]", .unexpectedCharacter, 5), ("[{]", .unexpectedCharacter, 2), ("[...]", .unexpectedCharacter, 1),
        // Objects.
        ("{", .unexpectedEnd, 1), ("{\"a\"", .unexpectedEnd, 4), ("{\"a\":", .unexpectedEnd, 5), ("{\"a\":1", .unexpectedEnd, 6),
        ("{\"a\":1,", .unexpectedEnd, 7),
        ("{,}", .unexpectedCharacter, 1), ("{\"a\"}", .unexpectedCharacter, 4), ("{\"a\":}", .unexpectedCharacter, 5),
        ("{\"a\":1,}", .unexpectedCharacter, 7),
        ("{\"a\":1,,\"b\":2}", .unexpectedCharacter, 7), ("{a:1}", .unexpectedCharacter, 1), ("{'a':1}", .unexpectedCharacter, 1),
        ("{1:1}", .unexpectedCharacter, 1),
        ("{null:1}", .unexpectedCharacter, 1), ("{\"a\" 1}", .unexpectedCharacter, 5), ("{\"a\",1}", .unexpectedCharacter, 4),
        ("{\"a\"=1}", .unexpectedCharacter, 4),
        ("{\"a\":1]", .unexpectedCharacter, 6), ("{]", .unexpectedCharacter, 1), ("{\"a\":1 \"b\":2}", .unexpectedCharacter, 7),
        ("{\"a\"::1}", .unexpectedCharacter, 5),
        ("{\"a\":1;\"b\":2}", .unexpectedCharacter, 6), ("{\"a\":[1,2}", .unexpectedCharacter, 9),
        ("{\"a\":{\"b\":1}", .unexpectedEnd, 12), ("{[]:1}", .unexpectedCharacter, 1),
        ("{\"\\q\":1}", .invalidEscape, 2), ("{\"a\n\":1}", .controlCharacter, 3), ("{\"a\":01}", .invalidNumber, 5),
        ("{{}}", .unexpectedCharacter, 1),
    ]

    /// Bytes in a string that are not valid UTF-8, and the offset of the error in them.
    static let brokenUTF8: [(bytes: [UInt8], offset: Int)] = [
        ([0x80], 0), ([0xBF], 0), ([0xC0, 0x80], 0), ([0xC1, 0xBF], 0), ([0xC2], 0), ([0xC2, 0x41], 0), ([0xC2, 0xC2], 0),
        ([0xE0, 0x80, 0x80], 0), ([0xE0, 0x9F, 0xBF], 0),
        ([0xE0, 0xA0], 0), ([0xE1, 0x80], 0), ([0xE1, 0x80, 0x41], 0), ([0xED, 0xA0, 0x80], 0), ([0xED, 0xBF, 0xBF], 0), ([0xEF, 0xBF], 0),
        ([0xF0, 0x80, 0x80, 0x80], 0), ([0xF0, 0x8F, 0xBF, 0xBF], 0), ([0xF0, 0x90, 0x80], 0), ([0xF4, 0x90, 0x80, 0x80], 0),
        ([0xF5, 0x80, 0x80, 0x80], 0),
        ([0xF8, 0x88, 0x80, 0x80, 0x80], 0), ([0xFE], 0), ([0xFF], 0), ([0xC3, 0xA9, 0xFF], 2), ([0x61, 0x62, 0xC3], 2),
        ([0xF0, 0x9F, 0x98, 0x80, 0x80], 4),
        ([0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0xA0], 9),
    ]

    /// The errors of the three readers.
    static func errors(_ bytes: [UInt8], isUTF8: Bool = false, limits: CodingLimits = CodingLimits()) -> [JSONError?] {
        func readError(_ body: (UnsafeRawBufferPointer) throws -> Void) -> JSONError? {
            do {
                try bytes.withUnsafeBytes(body)
                return nil
            } catch {
                return error as? JSONError
            }
        }
        let scan = readError { _ = try JSONObjectScan($0, keys: JSONKeys("a"), isUTF8: isUTF8, limits: limits) }
        return [
            readError { try JSONText.validate($0, isUTF8: isUTF8, limits: limits) },
            readError { _ = try JSONValue(parsing: $0, isUTF8: isUTF8, limits: limits) },
            // The scan rejects valid values of other kinds with this code only.
            scan?.code == .notAnObject ? nil : scan,
        ]
    }

    @Test(arguments: accepted) func `valid text is accepted`(_ text: String) {
        expectEqual(Self.errors(Array(text.utf8)), [nil, nil, nil])
        expectEqual(Self.errors(Array(text.utf8), isUTF8: true), [nil, nil, nil])
    }

    @Test func `invalid text is rejected with the offset of the error`() {
        for (text, code, offset) in Self.rejected {
            let bytes = Array(text.utf8)
            for isUTF8 in [false, true] {
                for error in Self.errors(bytes, isUTF8: isUTF8) {
                    expect(error?.code == code && error?.offset == offset, "\(text.debugDescription): \(error as Any)")
                }
            }
        }
    }

    @Test func `the table has at least 250 cases and no duplicates`() {
        expect(Self.accepted.count + Self.rejected.count + Self.brokenUTF8.count >= 250)
        expectEqual(Set(Self.accepted).count, Self.accepted.count)
        expectEqual(Set(Self.rejected.map(\.text)).count, Self.rejected.count)
    }

    @Test func `valid text is accepted inside arrays and objects`() {
        for text in Self.accepted {
            for wrapped in ["[\(text)]", "[0,\(text),0]", "{\"k\":\(text)}", "{\"k\":[\(text)],\"l\":\(text)}"] {
                expectEqual(Self.errors(Array(wrapped.utf8)), [nil, nil, nil], "\(wrapped)")
            }
        }
    }

    @Test func `an array that is truncated anywhere ends unexpectedly`() {
        for text in Self.accepted {
            let bytes = Array("[\(text)]".utf8)
            for length in 0..<bytes.count {
                for error in Self.errors(Array(bytes[..<length]), isUTF8: true) {
                    expectEqual(error?.code, .unexpectedEnd, "\(text) \(length)")
                }
            }
        }
    }

    @Test func `invalid UTF-8 is rejected with its offset`() {
        for (bytes, offset) in Self.brokenUTF8 {
            for padding in 0..<20 {
                let before = [UInt8(ascii: "\"")] + [UInt8](repeating: UInt8(ascii: "."), count: padding)
                for after in [[UInt8(ascii: "\"")], Array("\",12345678]".utf8)] {
                    let opening = after.count > 1 ? [UInt8(ascii: "[")] : []
                    let expected = JSONError.Code.invalidUTF8
                    for error in Self.errors(opening + before + bytes + after) {
                        expectEqual(error?.code, expected, "\(bytes) \(padding)")
                        expectEqual(error?.offset, opening.count + before.count + offset, "\(bytes) \(padding)")
                    }
                }
            }
        }
    }

    @Test func `all sequences of two bytes are accepted or rejected as by the standard library`() {
        for first in 0x80...0xFF {
            for second in 0x80...0xFF {
                let bytes: [UInt8] = [UInt8(first), UInt8(second)]
                let isValid = String(validating: bytes, as: UTF8.self) != nil
                let quoted = [UInt8(ascii: "\"")] + bytes + [UInt8(ascii: "\"")]
                expect(Self.errors(quoted).allSatisfy { ($0 == nil) == isValid })
            }
        }
    }

    @Test func `every Unicode scalar is accepted`() {
        for value in stride(from: 0x80, through: 0x10FFFF, by: 37) {
            guard let scalar = Unicode.Scalar(UInt32(value)) else { continue }
            let text = "\"\(String(Character(scalar)))\""
            expectEqual((try? JSONValue(parsing: Array(text.utf8))), .string(String(Character(scalar))))
        }
    }

    @Test func `nesting is accepted up to the limit`() {
        for depth in [1, 2, 63, 64, 65, 127, 128, 129, 200, 512] {
            for (open, inner, close) in [("[", "", "]"), ("{\"a\":", "1", "}"), ("[{\"a\":", "0", "}]")] {
                let unit = open.count > 5 ? 2 : 1
                let count = depth / unit
                guard count > 0 else { continue }
                let text = Array((String(repeating: open, count: count) + inner + String(repeating: close, count: count)).utf8)
                expectEqual(Self.errors(text, limits: CodingLimits(depth: count * unit)), [nil, nil, nil], "\(depth) \(open)")
                let errors = Self.errors(text, limits: CodingLimits(depth: count * unit - 1))
                expect(errors.allSatisfy { $0?.code == .tooDeep }, "\(depth) \(open)")
            }
        }
        let deep = [UInt8](repeating: UInt8(ascii: "["), count: 1_000_000)
        expect(Self.errors(deep).allSatisfy { $0 == JSONError.tooDeepAt512 })
    }

    @Test func `brackets must match at every depth`() {
        for depth in [1, 2, 63, 64, 65, 130] {
            for position in 0..<depth {
                var text = [UInt8](repeating: UInt8(ascii: "["), count: depth) + [UInt8](repeating: UInt8(ascii: "]"), count: depth)
                text[2 * depth - 1 - position] = UInt8(ascii: "}")
                for error in Self.errors(text) {
                    expectEqual(error?.code, .unexpectedCharacter)
                    expectEqual(error?.offset, 2 * depth - 1 - position)
                }
            }
        }
    }

    @Test func `text above the size limit is rejected`() {
        let text = Array("[1,2,3]".utf8)
        expectEqual(Self.errors(text, limits: CodingLimits(size: 7)), [nil, nil, nil])
        for error in Self.errors(text, limits: CodingLimits(size: 6)) { expectEqual(error?.code, .tooLarge) }
    }

    @Test func `messages describe the error and its position`() {
        let error = #expect(throws: JSONError.self) { try JSONValue(parsing: "[1,]") }
        expectEqual(error?.message, "invalid JSON at byte 3: unexpected character")
    }
}

extension JSONError {
    fileprivate static var tooDeepAt512: JSONError? {
        do {
            _ = try JSONValue(parsing: String(repeating: "[", count: 513))
            return nil
        } catch {
            return error.offset == 512 ? error : nil
        }
    }
}
