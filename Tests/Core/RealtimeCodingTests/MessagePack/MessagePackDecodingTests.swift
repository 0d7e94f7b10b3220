import Foundation
import RealtimeCoding
import TestSupport
import Testing

@Suite struct MessagePackDecodingTests {
    typealias Decoding = JSONDecodingTests

    private let decoder = MessagePackDecoder()

    private func path(_ error: (any Error)?) -> [String]? {
        switch error as? DecodingError {
        case .dataCorrupted(let context), .keyNotFound(_, let context), .typeMismatch(_, let context), .valueNotFound(_, let context):
            context.codingPath.map(\.stringValue)
        default: nil
        }
    }

    @Test func `types decode as they were encoded`() throws {
        func check<Value: Codable & Equatable>(_ value: Value, location: SourceLocation = #_sourceLocation) throws {
            let bytes = try MessagePackEncoder().encode(value)
            #expect(try self.decoder.decode(Value.self, from: bytes) == value, sourceLocation: location)
            let prefixed: [UInt8] = [1, 2] + bytes
            #expect(try self.decoder.decode(Value.self, from: prefixed[2...]) == value, sourceLocation: location)
            #expect(try self.decoder.decode(Value.self, from: MessagePackEncoder().encodeToValue(value)) == value, sourceLocation: location)
        }
        try check(Decoding.Price(symbol: "A\"\n\u{1}é/", price: 1.5, volume: -2, tags: ["x", ""], note: nil))
        try check([Decoding.Shape.point, .circle(radius: 2), .box(1, height: 2)])
        try check([Decoding.Level.low: 1, .high: 2])
        try check([[Int?]]([[nil, 1], []]))
        try check(["x": ["y": [["z": 1]]]])
        try check([2: "x", -1: "y", .max: "z"])
        try check([UInt8(1): "x", 200: "y"])
        try check([true: 1, false: 2])
        try check([UUID(): [1.5: Float(2.5)]])
        try check([[1, 2]: "list", []: "empty"])
        try check([Int]())
        try check(Array(0..<100))
        try check((0..<40).map { ["\($0)": $0] })
        try check("x")
        try check(UInt.max)
        try check(Int?.none)
        try check(Data([1, 2, 3]))
        try check([UInt8]([1, 2, 3]))
        try check(ContiguousArray<UInt8>([1, 2, 3]))
        try check([[UInt8]]([[], [1]]))
    }

    @Test func `inherited classes and nested containers decode`() throws {
        let dog = Decoding.Dog(name: "Rex", age: 3)
        let decoded = try self.decoder.decode(Decoding.Dog.self, from: MessagePackEncoder().encode(dog))
        expect(decoded.name == "Rex" && decoded.age == 3)
        let nested = try JSONValueDecoder().decode(
            Decoding.Nested.self, from: #"{"list":[1,2],"object":{"a":3,"b":4},"mixed":[null,{"b":5},[6]]}"#)
        try expectEqual(
            self.decoder.decode(
                Decoding.Nested.self,
                from: ["list": [1, 2], "object": ["a": 3, "b": 4], "mixed": [nil, ["b": 5], [6]]] as MessagePackValue), nested)
    }

    @Test func `numbers decode to every type that represents them`() throws {
        try expectEqual(self.decoder.decode(Double.self, from: [0x03]), 3)
        try expectEqual(self.decoder.decode([Double].self, from: [0x92, 0xFF, 0xCD, 1, 0]), [-1, 256])
        try expectEqual(self.decoder.decode(Float.self, from: [0x03]), 3)
        try expectEqual(self.decoder.decode(Double.self, from: MessagePackValue.uint(.max).bytes), Double(UInt64.max))
        try expectEqual(self.decoder.decode(Int.self, from: MessagePackValue.double(3).bytes), 3)
        try expectEqual(self.decoder.decode(UInt8.self, from: MessagePackValue.float(200).bytes), 200)
        try expectEqual(self.decoder.decode(Float.self, from: MessagePackValue.double(0.1).bytes), 0.1)
        try expectEqual(self.decoder.decode(Double.self, from: MessagePackValue.float(0.5).bytes), 0.5)
        try expectEqual(self.decoder.decode(Double.self, from: MessagePackValue.double(.infinity).bytes), .infinity)
        try expect(self.decoder.decode(Float.self, from: MessagePackValue.double(.nan).bytes).isNaN)
        #expect(throws: DecodingError.self) { try self.decoder.decode(Float.self, from: MessagePackValue.double(1e300).bytes) }
        #expect(throws: DecodingError.self) { try self.decoder.decode(Int.self, from: MessagePackValue.double(0.5).bytes) }
        #expect(throws: DecodingError.self) { try self.decoder.decode(Int.self, from: MessagePackValue.double(.nan).bytes) }
        #expect(throws: DecodingError.self) { try self.decoder.decode(Int.self, from: MessagePackValue.uint(.max).bytes) }
        #expect(throws: DecodingError.self) { try self.decoder.decode(Int8.self, from: MessagePackValue.int(128).bytes) }
        #expect(throws: DecodingError.self) { try self.decoder.decode(UInt.self, from: MessagePackValue.int(-1).bytes) }
        #expect(throws: DecodingError.self) { try self.decoder.decode(Int.self, from: MessagePackValue.string("1").bytes) }
        #expect(throws: DecodingError.self) { try self.decoder.decode(Bool.self, from: [1]) }
        // Not the shortest forms, which other encoders may write.
        try expectEqual(
            self.decoder.decode([Int].self, from: MessagePackVector.bytes("dd00000003 d300000000000000ff cf0000000000000001 d101ff")),
            [
                255, 1, 511,
            ])
    }

    @Test func `errors have coding paths`() {
        func error<Value: Decodable>(_ type: Value.Type, _ value: MessagePackValue) -> (any Error)? {
            do { _ = try self.decoder.decode(type, from: value) } catch { return error }
            return nil
        }
        expectEqual(self.path(error([String: [Int]].self, ["a": [1], "b": [2, "x"]])), ["b", "Index 1"])
        expectEqual(self.path(error([Int: [Int]].self, [7: [1], 8: [true]])), ["8", "Index 0"])
        expectEqual(self.path(error([Bool: [Int]].self, [true: ["x"]])), ["true", "Index 0"])
        expectEqual(self.path(error([[Int]: Int].self, [["x"]: 1])), ["key"])
        expectEqual(self.path(error([[Int]: Int].self, [[1]: "x"])), ["key"])
        expectEqual(self.path(error(Decoding.Price.self, ["symbol": "x"])), [])
        expectEqual(self.path(error([Date].self, [nil])), ["Index 0"])
        // A map is only read as pairs by a dictionary.
        expectEqual(self.path(error([Int].self, [1: 2])), [])
        expectEqual(self.path(error([Int: Int].self, [1, 2])), [])
    }

    @Test func `map keys of any kind`() throws {
        let value: MessagePackValue = [
            "a": 1, 2: 2, .binary([1]): 3, [1, [2]]: 4, [1: 2]: 5, nil: 6, true: 7, 1.5: 8, .timestamp(MessagePackTimestamp(seconds: 1)): 9,
            "z": 10,
        ]
        struct Letters: Codable, Equatable {
            var a: Int
            var z: Int
        }
        try expectEqual(self.decoder.decode(Letters.self, from: value), Letters(a: 1, z: 10))
        try expectEqual(self.decoder.decode([String: Int].self, from: value), ["a": 1, "2": 2, "true": 7, "1.5": 8, "z": 10])
        let copies = MessagePackValue.map(
            (0..<3).flatMap { copy in value.map?.map { .init($0.key, .array([$0.value, .int(copy)])) } ?? [] })
        // With more members, keys are found by a table. The last of equal keys is used.
        try expectEqual(self.decoder.decode([String: [Int]].self, from: copies)["z"], [10, 2])
        try expectEqual(self.decoder.decode([String: [Int]].self, from: copies).count, 5)
    }

    @Test func `integer keys match coding keys by name or number`() throws {
        struct Numbered: Codable, Equatable {
            var first: Int
            var second: Int
            enum CodingKeys: Int, CodingKey { case first = 1, second = 2 }
        }
        try expectEqual(self.decoder.decode(Numbered.self, from: [1: 10, 2: 20] as MessagePackValue), Numbered(first: 10, second: 20))
        try expectEqual(
            self.decoder.decode(Numbered.self, from: ["first": 10, 2: 20] as MessagePackValue), Numbered(first: 10, second: 20))
        try expectEqual(self.decoder.decode([String: Int].self, from: [1: 10, "b": 20] as MessagePackValue), ["1": 10, "b": 20])
        try expectEqual(self.decoder.decode([Int: Int].self, from: [1: 10, "2": 20] as MessagePackValue), [1: 10, 2: 20])
        #expect(throws: DecodingError.self) { try self.decoder.decode([Int: Int].self, from: ["x": 1] as MessagePackValue) }
    }

    @Test func `of a repeated key the last value is used`() throws {
        let value: MessagePackValue = ["a": 1, "a": 2, "b": 3]
        try expectEqual(self.decoder.decode([String: Int].self, from: value), ["a": 2, "b": 3])
        expectEqual(value["a"], 2)
        let many = MessagePackValue.map((0..<40).map { .init(.string("k\($0 % 20)"), .int($0)) })
        try expectEqual(
            self.decoder.decode([String: Int].self, from: many), Dictionary(uniqueKeysWithValues: (0..<20).map { ("k\($0)", $0 + 20) }))
    }

    @Test func `keys are compared byte by byte`() throws {
        let value: MessagePackValue = ["e\u{301}": 1, "é": 2]
        struct Precomposed: Decodable {
            var value: Int
            enum CodingKeys: String, CodingKey { case value = "é" }
        }
        try expectEqual(self.decoder.decode(Precomposed.self, from: value).value, 2)
        #expect(throws: DecodingError.self) { try self.decoder.decode(Precomposed.self, from: ["e\u{301}": 1] as MessagePackValue) }
    }

    @Test func `a key with invalid UTF-8 is found by its repaired name`() throws {
        // {"a\xFF": 1, "b": 2}
        let bytes: [UInt8] = [0x82, 0xA2, 0x61, 0xFF, 1, 0xA1, 0x62, 2]
        try expectEqual(self.decoder.decode([String: Int].self, from: bytes), ["a\u{FFFD}": 1, "b": 2])
        let many: [UInt8] = [0xDE, 0, 20] + (0..<20).flatMap { [0xA2, $0, 0xFF, 1] as [UInt8] }
        try expectEqual(self.decoder.decode([String: Int].self, from: many).count, 20)
    }

    @Test func `names can be matched without case`() throws {
        struct User: Codable, Equatable {
            var userName: String
            var id: Int
            var größe: Int?
            var scores: [String: Int]
            var shape: Decoding.Shape?
        }
        var decoder = MessagePackDecoder()
        decoder.keys = .ignoreCase
        let user = User(userName: "x", id: 1, größe: 2, scores: ["Abc": 3, "abc": 4], shape: .circle(radius: 1))
        let value: MessagePackValue = [
            "UserName": "x", "ID": 1, "GRÖSSE": 9, "Größe": 2, "Scores": ["Abc": 3, "abc": 4], "Shape": ["Circle": ["Radius": 1]],
        ]
        try expectEqual(decoder.decode(User.self, from: value), user)
        #expect(throws: DecodingError.self) { try self.decoder.decode(User.self, from: value) }
        var encoder = MessagePackEncoder()
        encoder.keys = .convertToPascalCase
        try expectEqual(decoder.decode(User.self, from: encoder.encode(user)), user)
        // The exact name takes precedence, wherever it is.
        try expectEqual(decoder.decode([String: Int].self, from: ["A": 1, "a": 2] as MessagePackValue), ["A": 1, "a": 2])
        struct Exact: Decodable { var a: Int }
        try expectEqual(decoder.decode(Exact.self, from: ["a": 1, "A": 2] as MessagePackValue).a, 1)
        try expectEqual(decoder.decode(Exact.self, from: ["A": 2, "a": 1] as MessagePackValue).a, 1)
        // With more than 16 members, names are found by a table.
        let fillers = (0..<20).map { MessagePackValue.Member(.string("Filler\($0)"), nil) }
        try expectEqual(decoder.decode(User.self, from: MessagePackValue.map((value.map ?? []) + fillers)), user)
        let exact = [MessagePackValue.Member("a", 1), .init("A", 2)]
        try expectEqual(decoder.decode(Exact.self, from: MessagePackValue.map(exact + fillers)).a, 1)
        // @ and ` differ in the bit that is the case of a letter.
        struct Sign: Decodable {
            var sign: Int
            enum CodingKeys: String, CodingKey { case sign = "@" }
        }
        #expect(throws: DecodingError.self) { try decoder.decode(Sign.self, from: ["`": 1] as MessagePackValue) }
    }

    @Test func `decoders can be kept and have user information`() throws {
        struct Lazy: Decodable {
            let decoder: any Decoder
            init(from decoder: any Decoder) throws { self.decoder = decoder }
        }
        let key = try #require(CodingUserInfoKey(rawValue: "key"))
        var decoder = MessagePackDecoder()
        decoder.userInfo[key] = "value"
        let lazy = try decoder.decode([Lazy].self, from: [1, ["x": "y"]] as MessagePackValue)
        expectEqual(lazy[1].decoder.userInfo[key] as? String, "value")
        try expectEqual([String: String](from: lazy[1].decoder), ["x": "y"])
        expectEqual(lazy[1].decoder.codingPath.map(\.stringValue), ["Index 1"])
        expect(lazy[1].decoder.isMessagePackDecoder)
    }
}
