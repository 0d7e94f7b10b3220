import RealtimeCoding
import Foundation
import RealtimeCore
import TestSupport
import Testing

@Suite struct JSONValueTests {
    // MARK: Numbers

    @Test(arguments: [
        ("0", "0"), ("-0", "-0"), ("-0.0", "-0"), ("1.0", "1"), ("1e2", "100"), ("1.50", "1.5"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9223372036854775808"), ("18446744073709551615", "18446744073709551615"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("18446744073709551616", "18446744073709551616"), ("-9223372036854775809", "-9223372036854775809"), ("0.1", "0.1"),
        ("1e400", "1e400"), ("1e-400", "1e-400"),
        ("0.10000000000000000000000000000001", "0.10000000000000000000000000000001"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("1e22", "1e+22"), ("100000000000000000000000", "1e+23"), ("0.30000000000000004", "0.30000000000000004"),
        ("9007199254740993.0", "9007199254740993.0"),
        ("5e-324", "5e-324"), ("4.94e-324", "4.94e-324"), ("0e99999999999", "0"),
    ])
    func `numbers are parsed and written without loss`(_ text: String, _ written: String) throws {
        let value = try JSONValue(parsing: text)
        expectEqual(value.description, written)
        try expectEqual(JSONValue(parsing: written), value)
        expectEqual(value.double?.bitPattern, Double(text)?.bitPattern)
    }

    @Test func `numbers of the same value are equal`() throws {
        for texts in [
            ["1", "1.0", "1e0", "10e-1", "1.00000000000000000000000000"], ["0", "0.0", "0e5"], ["-0", "-0.0"], ["1.5", "15e-1", "1.50"],
            ["1e22", "10e21", "10000000000000000000000"],
        ] {
            let values = try texts.map { try JSONValue(parsing: $0) }
            expectEqual(Set(values).count, 1, "\(texts)")
        }
        try expect(JSONValue(parsing: "0") != JSONValue(parsing: "-0"))
        try expect(JSONValue(parsing: "0.1") != JSONValue(parsing: "0.1000000000000000055511151231257827"))
    }

    @Test func `numbers convert to integers only without loss`() throws {
        let value = { (text: String) in try #require(try JSONValue(parsing: text).number) }
        try expectNil(value("9223372036854775808").int64)
        try expectEqual(value("9223372036854775808").uint64, 9_223_372_036_854_775_808)
        try expectNil(value("-1").uint64)
        try expectNil(value("1.5").int64)
        try expectEqual(value("-0").int64, 0)
        try expectEqual(value("1e17").int64, 100_000_000_000_000_000)
        try expectEqual(value("9007199254740993.0").int64, 9_007_199_254_740_993)
        try expectNil(value("300").integer(as: UInt8.self))
        try expectEqual(value("255").integer(as: UInt8.self), 255)
        expect(JSONNumber(.nan) == nil && JSONNumber(.infinity) == nil && JSONNumber(-.infinity) == nil)
        expectEqual(JSONNumber(UInt64.max).description, "18446744073709551615")
        expectEqual(JSONNumber(1.0), JSONNumber(1))
        expectEqual(JSONNumber(0.0), JSONNumber(0))
    }

    @Test func `every finite double survives writing and parsing`() throws {
        for seed in seeds(20_000) {
            var random = SplitMix64(seed: seed)
            let double = Double(bitPattern: random.next())
            guard double.isFinite, let number = JSONNumber(double) else { continue }
            let again = try JSONValue(parsing: number.description)
            expectEqual(again, .number(number), "\(replay(seed))")
            expectEqual(again.double?.bitPattern, double.bitPattern, "\(replay(seed))")
        }
    }

    // MARK: Objects

    @Test func `members keep their order and are found by key`() throws {
        let value = try JSONValue(parsing: #"{"z":1,"a":[true,null,"x"],"m":{"n":1.5}}"#)
        expectEqual(value.object?.keys, ["z", "a", "m"])
        expectEqual(value["z"]?.int, 1)
        expectEqual(value["a"]?[0]?.bool, true)
        expectEqual(value["a"]?[1]?.isNull, true)
        expectEqual(value["a"]?[2]?.string, "x")
        expect(value["a"]?[3] == nil && value["a"]?[-1] == nil && value["a"]?["b"] == nil && value[0] == nil)
        expectEqual(value["m"]?["n"]?.double, 1.5)
        expectNil(value["q"])
        expectEqual(value.description, #"{"z":1,"a":[true,null,"x"],"m":{"n":1.5}}"#)
    }

    @Test(arguments: [3, 15, 16, 17, 100]) func `the last value of a repeated key is kept at the first position`(_ count: Int) throws {
        let names = (0..<count).map { "\"k\($0)\":\($0)" }
        let value = try JSONValue(parsing: "{\(names.joined(separator: ",")),\"k1\":\"last\"}")
        expectEqual(value.object?.count, count)
        expectEqual(value["k1"]?.string, "last")
        expectEqual(value.object?.keys, (0..<count).map { "k\($0)" })
    }

    @Test func `members can be set and removed`() {
        var object = JSONObject()
        for index in 0..<40 { object["k\(index)"] = .number(JSONNumber(index)) }
        expect(object.count == 40 && object["k39"]?.int == 39)
        for index in 0..<30 { object["k\(index)"] = nil }
        expectEqual(object.keys, (30..<40).map { "k\($0)" })
        expect(object["k0"] == nil && object["k35"]?.int == 35)
        object["k35"] = "changed"
        object["missing"] = nil
        expect(object[5].key == "k35" && object[5].value == "changed")
        var value: JSONValue = nil
        value["a"] = [1, 2.5, "x", true, nil, ["b": [:]]]
        expectEqual(value, ["a": [1, 2.5, "x", true, nil, ["b": [:]]]])
        value["a"] = nil
        expectEqual(value, [:])
        var number: JSONValue = 1
        number["a"] = 1
        expectEqual(number, 1)
    }

    /// As a client's user ID or a channel's name can be: strings that Swift considers equal, with different bytes.
    @Test(arguments: [0, 20]) func `canonically equivalent keys with different bytes are different keys`(_ others: Int) throws {
        let (composed, decomposed) = ("caf\u{E9}", "cafe\u{301}")
        expectEqual(composed, decomposed)
        let rest = (0..<others).map { ",\"k\($0)\":0" }.joined()
        let text = "{\"\(composed)\":1,\"\(decomposed)\":2\(rest)}"
        let value = try JSONValue(parsing: text)
        expectEqual(value.object?.count, 2 + others)
        expect(value[composed]?.int == 1 && value[decomposed]?.int == 2)
        expectEqual(Array(value.description.utf8), Array(text.utf8))
        var object = try #require(value.object)
        object[composed] = nil
        expect(object.count == 1 + others && object[composed] == nil && object[decomposed]?.int == 2)
        object[composed] = 3
        expect(object.keys.last.map { Array($0.utf8) } == Array(composed.utf8) && object[decomposed]?.int == 2)
    }

    @Test func `canonically equivalent strings with different bytes are different values`() {
        let (composed, decomposed): (JSONValue, JSONValue) = ("caf\u{E9}", "cafe\u{301}")
        expect(composed != decomposed && composed == "caf\u{E9}" && Set([composed, decomposed, "caf\u{E9}"]).count == 2)
        expect([composed] as JSONValue != [decomposed] && ["a": composed] as JSONValue != ["a": decomposed])
        expect(["caf\u{E9}": 1] as JSONValue != ["cafe\u{301}": 1])
        expect((["caf\u{E9}": 1] as JSONValue).hashValue != (["cafe\u{301}": 1] as JSONValue).hashValue)
    }

    @Test func `objects with the same members in any order are equal`() throws {
        let one = try JSONValue(parsing: #"{"a":1,"b":[2]}"#)
        let other = try JSONValue(parsing: #"{"b":[2.0],"a":1e0}"#)
        expect(one == other && one.hashValue == other.hashValue)
        expect(one != ["a": 1])
        expect(one != ["a": 1, "b": [2], "c": nil])
    }

    // MARK: Writing

    @Test(arguments: [
        ("", "\"\""), ("a", "\"a\""), ("\"\\/", #""\"\\/""#), ("\u{8}\u{C}\n\r\t", #""\b\f\n\r\t""#),
        ("\u{0}\u{1}\u{F}\u{10}\u{1F}", #""\u0000\u0001\u000f\u0010\u001f""#),
        ("\u{7F}é😀", "\"\u{7F}é😀\""), ("12345678\n12345678", #""12345678\n12345678""#), ("1234567\"", #""1234567\"""#),
        ("\n\n", #""\n\n""#),
    ])
    func `only characters that JSON requires are escaped`(_ text: String, _ expected: String) throws {
        expectEqual(JSONValue.string(text).description, expected)
        try expectEqual(JSONValue(parsing: expected), .string(text))
    }

    @Test func `the writer separates members and elements with commas`() throws {
        var writer = JSONWriter(Array("data: ".utf8))
        writer.beginObject()
        writer.key("event" as StaticString)
        writer.value("a\"b")
        writer.key("x\n" as String)
        writer.beginArray()
        writer.value(1)
        writer.value(Int64.min)
        writer.value(UInt64.max)
        try writer.value(1.5)
        writer.value(true)
        writer.null()
        writer.beginArray()
        writer.endArray()
        writer.beginObject()
        writer.endObject()
        writer.raw(Array("[0]".utf8))
        writer.value(["k": 1] as JSONValue)
        Array("é\u{1}".utf8).withUnsafeBytes { writer.string($0) }
        Array("{}".utf8).withUnsafeBytes { writer.raw($0) }
        writer.endArray()
        writer.key("last" as StaticString)
        writer.null()
        writer.endObject()
        let expected =
            #"data: {"event":"a\"b","x\n":[1,-9223372036854775808,18446744073709551615,1.5,true,null,[],{},[0],{"k":1},"é\u0001",{}],"last":null}"#
        expectEqual(String(decoding: writer.bytes, as: UTF8.self), expected)
    }

    @Test func `the writer rejects numbers that are not finite`() {
        for value in [Double.nan, .infinity, -.infinity] {
            var writer = JSONWriter()
            let error = #expect(throws: JSONError.self) { try writer.value(value) }
            expectEqual(error?.code, .notFinite)
            expect(writer.bytes.isEmpty)
        }
    }

    @Test(arguments: [
        (0.0, "0"), (-0.0, "-0"), (1, "1"), (-1.5, "-1.5"), (1e15, "1000000000000000"), (1e16, "1e+16"), (0.1, "0.1"), (1e-5, "1e-05"),
        (Double.leastNonzeroMagnitude, "5e-324"),
    ])
    func `doubles are written with the fewest digits`(_ value: Double, _ expected: String) throws {
        var writer = JSONWriter()
        try writer.value(value)
        expectEqual(String(decoding: writer.bytes, as: UTF8.self), expected)
    }

    // MARK: Codable

    @Test func `JSON values survive any encoder and decoder`() throws {
        let value: JSONValue = [
            "a": [1, -2, 2.5, "x", true, false, nil, [:], []], "b": ["c": 18_446_744], "big": .number(JSONNumber(UInt64.max)),
        ]
        try expectEqual(JSONValueDecoder().decode(JSONValue.self, from: JSONValueEncoder().encode(value)), value)
        try expectEqual(JSONDecoder().decode(JSONValue.self, from: JSONEncoder().encode(value)), value)
        try expectEqual(JSONValueDecoder().decode([JSONValue].self, from: JSONValueEncoder().encode([value])), [value])
        let digits = try JSONValue(parsing: "[123456789012345678901234567890.5,1e999]")
        try expectEqual(JSONValueEncoder().encodeToString(["n": digits]), #"{"n":[123456789012345678901234567890.5,1e999]}"#)
        try expectEqual(
            JSONValueDecoder().decode([String: JSONValue].self, from: #"{"n":[123456789012345678901234567890.5,1e999]}"#),
            [
                "n": digits
            ])
    }

    @Test func `JSON objects and numbers survive any encoder and decoder`() throws {
        let object: JSONObject = ["b": [1, nil], "a": ["c": 2.5]]
        try expectEqual(JSONValueEncoder().encodeToString(object), #"{"b":[1,null],"a":{"c":2.5}}"#)
        try expectEqual(JSONValueDecoder().decode(JSONObject.self, from: JSONValueEncoder().encode(object)), object)
        try expectEqual(JSONDecoder().decode(JSONObject.self, from: JSONEncoder().encode(object)), object)
        for number in [JSONNumber(1), JSONNumber(UInt64.max)] {
            try expectEqual(JSONValueDecoder().decode([JSONNumber].self, from: JSONValueEncoder().encode([number])), [number])
            try expectEqual(JSONDecoder().decode([JSONNumber].self, from: JSONEncoder().encode([number])), [number])
        }
        #expect(throws: DecodingError.self) { try JSONValueDecoder().decode(JSONObject.self, from: "[1]") }
        #expect(throws: DecodingError.self) { try JSONValueDecoder().decode([JSONNumber].self, from: #"["1"]"#) }
    }
}
