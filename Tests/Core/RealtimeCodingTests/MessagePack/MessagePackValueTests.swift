import Foundation
import RealtimeCoding
import TestSupport
import Testing

@Suite struct MessagePackValueTests {
    private static let all: MessagePackValue = [
        nil, true, false, 0, -1, .uint(.max), .float(1.5), 2.5, "text", .binary([1, 2]), [1, [2]], ["a": 1, 2: "b", nil: [:]],
        .ext(7, [1]), .timestamp(MessagePackTimestamp(seconds: 1, nanoseconds: 2)),
    ]

    @Test func `values survive writing, parsing and coding`() throws {
        try expectEqual(MessagePackValue(parsing: Self.all.bytes), Self.all)
        try expectEqual(MessagePackDecoder().decode(MessagePackValue.self, from: Self.all.bytes), Self.all)
        try expectEqual(MessagePackDecoder().decode([MessagePackValue].self, from: Self.all.bytes), Self.all.array)
        try expectEqual(MessagePackEncoder().encode(Self.all), Self.all.bytes)
        try expectEqual(MessagePackEncoder().encodeToValue(["x": Self.all]), ["x": Self.all])
        try expectEqual(MessagePackEncoder().encodeToValue([Self.all: Self.all]), [Self.all: Self.all])
        expectEqual(Set([Self.all, Self.all]).count, 1)
    }

    @Test func `accessors return values of their kind only`() {
        expect(Self.all[0]?.isNil == true && Self.all[1]?.isNil == false)
        expect(Self.all[1]?.bool == true && Self.all[0]?.bool == nil)
        expect(Self.all[4]?.int64 == -1 && Self.all[4]?.uint64 == nil && Self.all[4]?.double == -1)
        expect(Self.all[5]?.int64 == nil && Self.all[5]?.uint64 == .max)
        expect(Self.all[6]?.double == 1.5 && Self.all[7]?.double == 2.5 && Self.all[7]?.int64 == nil)
        expect(Self.all[8]?.string == "text" && Self.all[8]?.binary == nil)
        expect(Self.all[9]?.binary == [1, 2] && Self.all[9]?.string == nil)
        expect(Self.all[10]?[1]?[0] == 2 && Self.all[10]?[2] == nil && Self.all[10]?.map == nil)
        expect(Self.all[11]?["a"] == 1 && Self.all[11]?.value(for: 2) == "b" && Self.all[11]?.value(for: nil) == [:])
        expect(Self.all[11]?["b"] == nil && Self.all[11]?[0] == nil && Self.all[11]?.array == nil)
        expectNil(Self.all[12]?.timestamp)
        expectEqual(Self.all[13]?.timestamp, MessagePackTimestamp(seconds: 1, nanoseconds: 2))
    }

    @Test func `equality is that of the encoded values`() {
        expect(MessagePackValue.int(1) == .uint(1) && MessagePackValue.uint(1) == .int(1))
        expectEqual(MessagePackValue.int(1).hashValue, MessagePackValue.uint(1).hashValue)
        expect(MessagePackValue.int(-1) != .uint(.max))
        expect(MessagePackValue.float(1) != .double(1) && MessagePackValue.int(1) != .double(1))
        expect(MessagePackValue.string("é") != .string("e\u{301}"))
        expect(([1: 2, 3: 4] as MessagePackValue) != [3: 4, 1: 2])
        expect(MessagePackValue.ext(1, []) != .ext(2, []) && MessagePackValue.ext(1, [1]) != .binary([1]))
        let name = "x"
        expectEqual(MessagePackValue.string("a-x"), "a-\(name)")
    }

    @Test func `JSON values decode from MessagePack and back`() throws {
        let value: MessagePackValue = [
            "nil": nil, "numbers": [1, -1, 1.5, .uint(.max), .float(0.5)], "text": "é", 5: true, false: [:], 2.5: "x",
            "bytes": .binary([1, 2, 255]), "time": .timestamp(MessagePackTimestamp(seconds: 0, nanoseconds: 120_000_000)),
            "second": .timestamp(MessagePackTimestamp(seconds: 0)),
        ]
        let json: JSONValue = [
            "nil": nil, "numbers": [1, -1, 1.5, .number(JSONNumber(UInt64.max)), 0.5], "text": "é", "5": true, "false": [:], "2.5": "x",
            "bytes": "AQL/", "time": "1970-01-01T00:00:00.12Z", "second": "1970-01-01T00:00:00Z",
        ]
        try expectEqual(MessagePackDecoder().decode(JSONValue.self, from: value), json)
        try expectEqual(MessagePackDecoder().decode([JSONValue].self, from: [value]), [json])
        try expectEqual(MessagePackDecoder().decode([String: JSONValue].self, from: value)["bytes"], "AQL/")
        try expectEqual(MessagePackDecoder().decode(JSONValue.self, from: MessagePackEncoder().encode(json)), json)
        try expectEqual(MessagePackDecoder().decode(JSONValue.self, from: MessagePackEncoder().encode(["x": json])), ["x": json])
        try expectEqual(MessagePackEncoder().encodeToValue(["a": [1, 2.5, nil]] as JSONValue), ["a": [1, 2.5, nil]])
        for value in [.ext(1, []), .double(.nan), .float(.infinity), [nil: 1], [[]: 1], .ext(-1, [1])] as [MessagePackValue] {
            #expect(throws: DecodingError.self, "\(value)") { try MessagePackDecoder().decode(JSONValue.self, from: [value]) }
        }
        try expectEqual(MessagePackDecoder().decode(JSONObject.self, from: ["a": 1] as MessagePackValue), ["a": 1])
        let digits = try JSONValue(parsing: "[123456789012345678901234567890,-0.0,1e300]")
        try expectEqual(MessagePackEncoder().encodeToValue(digits), [1.2345678901234568e29, .double(-0.0), 1e300])
        let zero = try MessagePackEncoder().encodeToValue(digits)[1]?.double
        expectEqual(zero?.sign, .minus)
    }

    @Test func `values decode from JSON and other formats, and encode as them`() throws {
        let text = #"{"a":[1,-2,1.5,18446744073709551615,"x",null,true]}"#
        let value: MessagePackValue = ["a": [1, -2, 1.5, .uint(.max), "x", nil, true]]
        try expectEqual(JSONValueDecoder().decode(MessagePackValue.self, from: text), value)
        try expectEqual(JSONDecoder().decode(MessagePackValue.self, from: Data(text.utf8)), value)
        try expectEqual(JSONValueEncoder().encodeToString(value), text)
        try expectEqual(JSONDecoder().decode(MessagePackValue.self, from: JSONEncoder().encode(value)), value)
        let other: MessagePackValue = [5: .binary([1, 2, 255]), true: .timestamp(MessagePackTimestamp(seconds: 0))]
        try expectEqual(JSONValueEncoder().encodeToString(other), #"{"5":"AQL/","true":"1970-01-01T00:00:00Z"}"#)
        for value in [.ext(1, []), [nil: 1], .double(.nan)] as [MessagePackValue] {
            #expect(throws: EncodingError.self) { try JSONValueEncoder().encode([value]) }
        }
    }
}

@Suite struct MessagePackExtensionTests {
    /// A type with an extension value of its own.
    private struct Complex: Codable, Equatable {
        var real: UInt8
        var imaginary: UInt8

        init(_ real: UInt8, _ imaginary: UInt8) {
            (self.real, self.imaginary) = (real, imaginary)
        }

        init(from decoder: any Decoder) throws {
            guard try decoder.isMessagePackDecoder && decoder.messagePackExtensionType() == 42 else {
                throw DecodingError.dataCorrupted(.init(codingPath: decoder.codingPath, debugDescription: "Not a complex number."))
            }
            let data = try decoder.messagePackExtensionData()
            guard data.count == 2 else {
                throw DecodingError.dataCorrupted(.init(codingPath: decoder.codingPath, debugDescription: "Not two bytes."))
            }
            self.init(data[0], data[1])
        }

        func encode(to encoder: any Encoder) throws {
            try encoder.encodeMessagePackExtension(type: 42, data: [self.real, self.imaginary])
        }
    }

    private struct Probe: Codable {
        var isMessagePack = false
        init() {}
        init(from decoder: any Decoder) throws { self.isMessagePack = decoder.isMessagePackDecoder }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(encoder.isMessagePackEncoder)
        }
    }

    @Test func `a type can be an extension value, at every position`() throws {
        let value = Complex(1, 2)
        try expectEqual(MessagePackEncoder().encodeToValue(value), .ext(42, [1, 2]))
        try expectEqual(MessagePackEncoder().encodeToValue(["x": [value, value]]), ["x": [.ext(42, [1, 2]), .ext(42, [1, 2])]])
        try expectEqual(MessagePackDecoder().decode(Complex.self, from: .ext(42, [1, 2])), value)
        try expectEqual(MessagePackDecoder().decode([Complex].self, from: [.ext(42, [1, 2])]), [value])
        for other in [1, nil, .ext(43, [1, 2]), .ext(42, [1]), .binary([1, 2])] as [MessagePackValue] {
            let error = #expect(throws: DecodingError.self) { try MessagePackDecoder().decode([Complex].self, from: [other]) }
            switch error {
            case .dataCorrupted(let context), .typeMismatch(_, let context):
                expectEqual(context.codingPath.map(\.stringValue), ["Index 0"])
            default: Issue.record("\(String(describing: error))")
            }
        }
    }

    @Test func `other coders throw instead of stopping the program`() throws {
        #expect(throws: EncodingError.self) { try JSONValueEncoder().encode(Complex(1, 2)) }
        #expect(throws: EncodingError.self) { try JSONEncoder().encode([Complex(1, 2)]) }
        #expect(throws: DecodingError.self) { try JSONValueDecoder().decode(Complex.self, from: "1") }
        struct Raw: Decodable {
            init(from decoder: any Decoder) throws { _ = try decoder.messagePackExtensionType() }
        }
        #expect(throws: DecodingError.self) { try JSONValueDecoder().decode(Raw.self, from: "1") }
        #expect(throws: DecodingError.self) { try JSONDecoder().decode([Raw].self, from: Data("[1]".utf8)) }
        struct Twice: Encodable {
            func encode(to encoder: any Encoder) throws {
                try encoder.encodeMessagePackExtension(type: 1, data: [])
                #expect(throws: EncodingError.self) { try encoder.encodeMessagePackExtension(type: 2, data: []) }
            }
        }
        try expectEqual(MessagePackEncoder().encodeToValue([Twice()]), [.ext(1, [])])
    }

    @Test func `a type can determine its format`() throws {
        try expectEqual(MessagePackEncoder().encodeToValue([Probe()]), [true])
        try expectEqual(JSONValueEncoder().encodeToString([Probe()]), "[false]")
        expectEqual(String(decoding: try JSONEncoder().encode([Probe()]), as: UTF8.self), "[false]")
        try expect(MessagePackDecoder().decode([Probe].self, from: [1] as MessagePackValue)[0].isMessagePack)
        try expect(!JSONValueDecoder().decode([Probe].self, from: "[1]")[0].isMessagePack)
    }

    @Test func `timestamps keep every nanosecond`() throws {
        let timestamps = [
            MessagePackTimestamp(seconds: 0), MessagePackTimestamp(seconds: 1, nanoseconds: 1),
            MessagePackTimestamp(seconds: 1_700_000_000, nanoseconds: 999_999_999), MessagePackTimestamp(seconds: -1, nanoseconds: 5),
            MessagePackTimestamp(seconds: 1 << 34 - 1, nanoseconds: 3), MessagePackTimestamp(seconds: 1 << 34, nanoseconds: 3),
            MessagePackTimestamp(seconds: .max, nanoseconds: 999_999_999), MessagePackTimestamp(seconds: .min),
        ]
        try expectEqual(MessagePackDecoder().decode([MessagePackTimestamp].self, from: MessagePackEncoder().encode(timestamps)), timestamps)
        try expectEqual(JSONValueDecoder().decode([MessagePackTimestamp].self, from: JSONValueEncoder().encode(timestamps)), timestamps)
        try expectEqual(JSONValueEncoder().encodeToString(timestamps[1]), #"{"seconds":1,"nanoseconds":1}"#)
        // Nanoseconds above the limit are carried over.
        let carried = MessagePackTimestamp(seconds: 1, nanoseconds: 2_000_000_005)
        expectEqual(MessagePackValue.timestamp(carried).timestamp, MessagePackTimestamp(seconds: 3, nanoseconds: 5))
        for value in [1, .ext(-1, []), .ext(-1, [1]), .ext(0, [0, 0, 0, 0]), nil] as [MessagePackValue] {
            #expect(throws: DecodingError.self) { try MessagePackDecoder().decode(MessagePackTimestamp.self, from: value) }
        }
    }
}
