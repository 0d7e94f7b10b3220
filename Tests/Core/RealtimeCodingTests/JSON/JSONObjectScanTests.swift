import RealtimeCoding
import TestSupport
import Testing

@Suite struct JSONObjectScanTests {
    static let keys = JSONKeys("event", "channel", "data", "a_name_longer_than_8", "", "12345678")

    func scan(_ text: String) throws -> (scan: JSONObjectScan, text: (Int) -> String) {
        let bytes = Array(text.utf8)
        let scan = try bytes.withUnsafeBytes { try JSONObjectScan($0, keys: Self.keys) }
        return (scan, { index in String(decoding: bytes[scan[index].range], as: UTF8.self) })
    }

    @Test func `the scan finds the kind and text of each member`() throws {
        let (scan, text) = try self.scan(#"{"event":"price","x":[1,{"event":2}],"channel":null,"data":"{\"a\":1}"}"#)
        expect(scan[0].kind == .string && text(0) == "price")
        expect(scan[1].kind == .null && text(1) == "null")
        expect(scan[2].kind == .escapedString && text(2) == #"{\"a\":1}"#)
        expectEqual(scan[3], .missing)
    }

    @Test(arguments: [
        ("1", NodeKind.integer), ("-1", .integer), ("1.5", .number), ("1e2", .number), ("true", .true), ("false", .false), ("null", .null),
        ("{\"event\":1}", .object), ("[ 1 , 2 ]", .array), ("\"a\"", .string), ("\"\\n\"", .escapedString), ("{}", .object), ("[]", .array),
    ])
    func `the scan finds every kind of value`(_ raw: String, _ kind: NodeKind) throws {
        for document in ["{\"data\":\(raw)}", " { \"z\" : \(raw) , \"data\" : \(raw) } ", "{\"data\":0,\"data\":\(raw),\"y\":\(raw)}"] {
            let (scan, text) = try self.scan(document)
            expectEqual(scan[2].kind, kind)
            expectEqual(text(2), (raw.hasPrefix("\"") ? String(raw.dropFirst().dropLast()) : raw))
        }
    }

    @Test func `keys of all lengths are distinguished`() throws {
        let document =
            #"{"a_name_longer_than_9":1,"a_name_longer_than_8":2,"":3,"123456789":4,"1234567":5,"12345678":6,"even":7,"events":8}"#
        let (scan, text) = try self.scan(document)
        expectEqual(text(3), "2")
        expectEqual(text(4), "3")
        expectEqual(text(5), "6")
        expectEqual(scan[0], .missing)
    }

    @Test func `a key can contain escape sequences`() throws {
        let (_, text) = try self.scan(#"{"\u0065vent":1,"\u0065vents":2,"a_name_longer_than\u005f8":3}"#)
        expectEqual(text(0), "1")
        expectEqual(text(3), "3")
    }

    @Test func `the last value of a repeated key is found`() throws {
        let (_, text) = try self.scan(#"{"event":1,"event":2,"\u0065vent":3}"#)
        expectEqual(text(0), "3")
    }

    @Test func `a key that ends in a zero byte differs from the key without it`() throws {
        let (scan, _) = try self.scan("{\"event\\u0000\":1}")
        expectEqual(scan[0], .missing)
    }

    @Test(arguments: ["[]", "1", "null", "\"a\"", " [{}] "]) func `a valid value that is not an object has an error code of its own`(
        _ text: String
    ) {
        let error = #expect(throws: JSONError.self) { try self.scan(text) }
        expectEqual(error?.code, .notAnObject)
    }

    @Test func `short documents are not read past their end`() throws {
        // The text ends within the eight bytes that are compared in one step.
        let (_, text) = try self.scan(#"{"":1}"#)
        expectEqual(text(4), "1")
        let (_, other) = try self.scan(#"{"data":1}"#)
        expectEqual(other(2), "1")
    }

    // MARK: Strings

    static func unescaped(_ raw: String) -> String {
        Array(raw.utf8).withUnsafeBytes { JSONText.string($0, isEscaped: true) }
    }

    @Test(arguments: [
        ("", ""), ("a", "a"), (#"\n"#, "\n"), (#"\b\f\n\r\t\"\\\/"#, "\u{8}\u{C}\n\r\t\"\\/"), (#"\u0041"#, "A"), (#"\u00e9"#, "é"),
        (#"\u00E9"#, "é"),
        (#"\u20ac"#, "€"), (#"\ud83d\ude00"#, "😀"), (#"\uD83D\uDE00x"#, "😀x"), (#"\u0000"#, "\u{0}"), (#"\uffff"#, "\u{FFFF}"),
        (#"\ud800\udc00"#, "\u{10000}"),
        (#"\udbff\udfff"#, "\u{10FFFF}"), (#"\ud800"#, "\u{FFFD}"), (#"\udc00"#, "\u{FFFD}"), (#"\ud800\ud800"#, "\u{FFFD}\u{FFFD}"),
        (#"\ud800\ud83d\ude00"#, "\u{FFFD}😀"),
        (#"\ud800\u0041"#, "\u{FFFD}A"), (#"\ud800\n"#, "\u{FFFD}\n"), (#"\ud800abcdefghijkl"#, "\u{FFFD}abcdefghijkl"),
        (#"\ud83d\\ude00"#, "\u{FFFD}\\ude00"),
        (#"12345678\n12345678"#, "12345678\n12345678"), (#"1234567\n1"#, "1234567\n1"), (#"é\né"#, "é\né"), (#"\\\\\\\\\\"#, #"\\\\\"#),
        (#"{\"a\":\"b\"}"#, #"{"a":"b"}"#),
        (#"a\u0008b"#, "a\u{8}b"), (#"\u007f\u0080\u07ff\u0800"#, "\u{7F}\u{80}\u{7FF}\u{800}"),
    ])
    func `escape sequences are replaced by their characters`(_ raw: String, _ expected: String) {
        expectEqual(Array(Self.unescaped(raw).utf8), Array(expected.utf8))
        expectEqual(Array(raw.utf8).withUnsafeBytes { JSONText.unescapedBytes($0) }, Array(expected.utf8))
    }

    @Test func `escape sequences are replaced at every offset`() {
        for before in 0..<40 {
            for after in 0..<20 {
                let text = String(repeating: "x", count: before) + "\\n" + String(repeating: "y", count: after) + "\\u00e9"
                expectEqual(Self.unescaped(text), String(repeating: "x", count: before) + "\n" + String(repeating: "y", count: after) + "é")
            }
        }
    }

    @Test(arguments: [
        (#"abc"#, Int?.none), (#"\ud83d\ude00"#, nil), (#"\\ud800"#, nil), (#"\ud800"#, 0), (#"ab\udc00"#, 2),
        (#"\ud83d\ude00\ud83d"#, 12), (#"\\\ud800"#, 2), (#"\n\u0041"#, nil),
    ])
    func `lone surrogates are detected`(_ raw: String, _ offset: Int?) {
        expectEqual(Array(raw.utf8).withUnsafeBytes { JSONText.loneSurrogate($0) }, offset)
    }

    // MARK: Numbers

    func integer(_ text: String) throws -> Int64? {
        let bytes = Array("{\"data\":\(text)}".utf8)
        return try bytes.withUnsafeBytes { raw in JSONText.integer(try JSONObjectScan(raw, keys: Self.keys)[2], in: raw) }
    }

    func double(_ text: String) throws -> Double {
        let bytes = Array("{\"data\":\(text)}".utf8)
        return try bytes.withUnsafeBytes { raw in JSONText.double(try JSONObjectScan(raw, keys: Self.keys)[2], in: raw) }
    }

    @Test(arguments: [
        ("0", Int64?.some(0)), ("-0", 0), ("-0.0", 0), ("1.0", 1), ("1e2", 100), ("100e-2", 1), ("1.5", nil), ("1e-1", nil),
        ("9223372036854775807", .max),
        ("-9223372036854775808", .min), ("9223372036854775808", nil), ("-9223372036854775809", nil), ("1e18", 1_000_000_000_000_000_000),
        ("1e19", nil),
        ("123456789012345678", 123_456_789_012_345_678), ("-123456789012345678", -123_456_789_012_345_678),
        ("0e999999999999999999999", 0), ("1e999999999999999999999", nil),
        ("1e-999999999999999999999", nil), ("1.00000000000000000000000000000", 1), ("1.00000000000000000000000000001", nil),
        ("-9223372036854775808.0", .min),
    ])
    func `integers are converted exactly`(_ text: String, _ expected: Int64?) throws {
        try expectEqual(self.integer(text), expected)
    }

    @Test(arguments: [
        ("0", 0), ("-0", -0.0), ("0.1", 0.1), ("-1.5e-3", -1.5e-3), ("1e22", 1e22), ("1e23", 1e23),
        ("9007199254740993", 9_007_199_254_740_992), ("1e400", .infinity), ("1e-400", 0),
        ("4.9e-324", .leastNonzeroMagnitude), ("1.7976931348623157e308", 1.7976931348623157e308),
        ("123456789012345678901234567890", 1.2345678901234568e29), ("0.30000000000000004", 0.30000000000000004),
        ("2.2250738585072011e-308", Double.leastNormalMagnitude.nextDown),
    ])
    func `numbers are converted to the nearest double`(_ text: String, _ expected: Double) throws {
        try expectEqual(self.double(text).bitPattern, expected.bitPattern)
    }
}
