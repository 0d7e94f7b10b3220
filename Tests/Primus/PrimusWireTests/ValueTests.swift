import PrimusWire
import RealtimeCoding
import TestSupport
import Testing

@Suite struct ValueTests {
    @Test func `literals are values`() {
        let value: PrimusValue = ["a": [1, 2.5, "x", nil, true], "b": 3.0]
        expect(value["a"]?[0] == 1 && value["a"]?[1]?.double == 2.5 && value["a"]?[2]?.string == "x")
        expect(value["a"]?[3]?.isNull == true && value["a"]?[4]?.bool == true && value["a"]?[5] == nil && value["c"] == nil)
        expect(value["b"] == 3 && value["b"]?.int == 3)
    }

    @Test func `accessors of another kind are nil`() {
        let value: PrimusValue = "text"
        expect(value.bool == nil && value.int == nil && value.double == nil && value.array == nil && value.object == nil)
        expect(value.bytes == nil && value.date == nil && !value.isNull && value["a"] == nil && value[0] == nil)
        expect(PrimusValue.double(0.5).int == nil && PrimusValue.double(1e300).int == nil && PrimusValue.int(5).double == 5)
    }

    @Test func `an object keeps the order of its members and the last value of a key`() {
        let object = PrimusValue.Object([(key: "b", value: 1), (key: "a", value: 2), (key: "b", value: 3)])
        expect(object.members.map(\.key) == ["b", "a"] && object["b"] == 3 && object.count == 2)
        var other = PrimusValue.Object()
        other["a"] = 2
        other["b"] = 3
        expect(object == other && object.hashValue == other.hashValue)
        other["a"] = nil
        other["c"] = nil
        expect(object != other && other.count == 1)
    }

    @Test func `keys are equal if their bytes are`() {
        let object = PrimusValue.Object([(key: "\u{E9}", value: 1), (key: "e\u{301}", value: 2)])
        expect(object.count == 2 && object["\u{E9}"] == 1 && object["e\u{301}"] == 2)
    }

    @Test(arguments: [0.0, 1, -1, 1_700_000_000_123, -62_135_596_800_000, 253_402_300_799_999, 8.64e15, 0.5])
    func `a date is the same in every form`(milliseconds: Double) throws {
        let date = PrimusDate(milliseconds: milliseconds)
        try expectEqual(PrimusValue.date(date).decode(as: PrimusDate.self), date)
        try expectEqual(PrimusValue(encoding: date), .date(date))
    }

    @Test func `a date without a time in ISO 8601 is an error`() {
        #expect(throws: DecodingError.self) { try PrimusCoding.json.decode(PrimusDate.self, from: Array(#""yesterday""#.utf8)) }
        #expect(throws: EncodingError.self) { try PrimusValue(encoding: PrimusDate(milliseconds: .infinity)) }
        expect(PrimusDate(milliseconds: 1) < PrimusDate(milliseconds: 2))
    }

    @Test func `a value is decoded as itself`() throws {
        let value: PrimusValue = ["a": .typed(name: "T", .expression(pattern: "x", flags: ""))]
        try expectEqual(value.decode(as: PrimusValue.self), value)
        try expectEqual(PrimusValue(encoding: value), value)
        try expectEqual(value.decode(as: [String: PrimusValue].self)["a"], value["a"])
    }

    @Test func `a value is encoded as JSON by a coder of JSON`() throws {
        let value: PrimusValue = ["a": [.bytes([1]), .date(PrimusDate(milliseconds: 0))]]
        let json = try JSONValueEncoder().encodeToString(value)
        expectEqual(json, #"{"a":[{"type":"Buffer","data":[1]},"1970-01-01T00:00:00Z"]}"#)
        try expectEqual(JSONValueDecoder().decode(PrimusValue.self, from: json)["a"]?[0], .bytes([1]))
        #expect(throws: PrimusParserError.self) { try JSONValueEncoder().encode(PrimusValue.double(.nan)) }
    }
}
