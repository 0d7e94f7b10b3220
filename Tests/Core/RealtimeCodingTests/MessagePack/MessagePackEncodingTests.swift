import Foundation
import RealtimeCoding
import TestSupport
import Testing

@Suite(.computes, .serialized) struct MessagePackEncodingTests {
    private let encoder = MessagePackEncoder()

    private struct Key: CodingKey {
        var stringValue: String
        var intValue: Int? { nil }
        init(_ name: String) { self.stringValue = name }
        init?(stringValue: String) { self.init(stringValue) }
        init?(intValue: Int) { nil }
    }

    private func value(_ value: some Encodable) throws -> MessagePackValue { try self.encoder.encodeToValue(value) }

    @Test func `structures become maps in the order of their properties`() throws {
        struct Point: Encodable {
            var x = 1
            var y: Double? = 0.5
            var z: Int?
        }
        try expectEqual(self.encoder.encode(Point()), MessagePackVector.bytes("82 a178 01 a179 cb3fe0000000000000"))
        try expectEqual(self.value([[Point()]]), [[["x": 1, "y": 0.5]]])
        try expectEqual(self.value(Float(1.5)), .float(1.5))
        try expectEqual(self.value([Double.infinity]), [.double(.infinity)])
    }

    @Test func `dictionaries have keys of their own type`() throws {
        try expectEqual(self.value(["5": 1]), ["5": 1])
        try expectEqual(self.value([5: 1]), [5: 1])
        try expectEqual(self.value([UInt64.max: 1]), [.uint(.max): 1])
        try expectEqual(self.value([true: [1: 2]]), [true: [1: 2]])
        try expectEqual(self.value([[1]: "x"]), [[1]: "x"])
        try expectEqual(self.value([Int: Int]()), [:])
        try expectEqual(self.value([Bool: Int]()), [:])
        try expectEqual(self.value([String: Int]()), [:])
        try expectEqual(self.value([[5: 1], [6: 2]]), [[5: 1], [6: 2]])
    }

    @Test func `names can be converted to Pascal case`() throws {
        struct Inner: Encodable {
            var oneTwo = 1
            var Three = 2
            var _four = 3
            var élan = 4
        }
        struct Outer: Encodable {
            var inner = Inner()
            var names = ["key": 1]
            var numbers = [1: "x"]
        }
        var encoder = MessagePackEncoder()
        encoder.keys = .convertToPascalCase
        let expected: MessagePackValue = [
            "Inner": ["OneTwo": 1, "Three": 2, "_four": 3, "Élan": 4], "Names": ["key": 1], "Numbers": [1: "x"],
        ]
        try expectEqual(encoder.encodeToValue(Outer()), expected)
        try expectEqual(encoder.encodeToValue(["key": Inner()])["key"]?["OneTwo"], 1)
    }

    @Test func `headers have the final count at every depth`() throws {
        struct Tree: Codable, Equatable {
            var children: [Tree]
            var numbers: [Int8]
            static func of(_ width: Int, _ depth: Int) -> Tree {
                Tree(
                    children: depth == 0 ? [] : (0..<width).map { of($0 % 3 == 0 ? width : 1, depth - 1) },
                    numbers: Array(repeating: 1, count: width))
            }
        }
        for width in [0, 1, 14, 15, 16, 17, 40] {
            let tree = Tree.of(width, 3)
            let bytes = try self.encoder.encode([tree, tree])
            try expectEqual(MessagePackDecoder().decode([Tree].self, from: bytes), [tree, tree])
            // The parser's value is written with the shortest headers.
            try expectEqual(MessagePackValue(parsing: bytes).bytes, bytes)
        }
        let list = try self.encoder.encode((0..<70_000).map { [$0] })
        expect(list.starts(with: [0xDD, 0, 1, 0x11, 0x70]))
        try expectEqual(MessagePackValue(parsing: list).array?.count, 70_000)
    }

    @Test func `nested containers can be written at any time`() throws {
        struct Mixed: Encodable {
            var width: Int
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Key.self)
                var list = container.nestedUnkeyedContainer(forKey: Key("list"))
                try container.encode("between", forKey: Key("text"))
                var object = container.nestedContainer(keyedBy: Key.self, forKey: Key("object"))
                let parent = container.superEncoder()
                try container.encode((0..<self.width).map { [$0] }, forKey: Key("wide"))
                var lists = container.nestedUnkeyedContainer(forKey: Key("lists"))
                var first = lists.nestedUnkeyedContainer()
                try lists.encode(1)
                var second = lists.nestedContainer(keyedBy: Key.self)
                _ = lists.superEncoder()
                for number in 0..<self.width {
                    try list.encode(number)
                    try object.encode(number, forKey: Key("k\(number)"))
                    try first.encode([number])
                    try second.encodeNil(forKey: Key("\(number)"))
                }
                try [self.width: true].encode(to: parent)
            }
        }
        for width in [0, 3, 15, 16, 40] {
            let numbers = (0..<Int64(width)).map { MessagePackValue.int($0) }
            let expected: MessagePackValue = [
                "list": .array(numbers), "text": "between", "object": .map(numbers.map { .init("k\($0.int64 ?? 0)", $0) }),
                "super": [.string("\(width)"): true], "wide": .array(numbers.map { [$0] }),
                "lists": [.array(numbers.map { [$0] }), 1, .map(numbers.map { .init("\($0.int64 ?? 0)", nil) }), [:]],
            ]
            try expectEqual(self.value(Mixed(width: width)), expected)
            try expectEqual(self.value([Mixed(width: width), Mixed(width: width)]), [expected, expected])
            try expectEqual(self.encoder.encode(Mixed(width: width)), expected.bytes)
        }
    }

    @Test func `a failure that is caught leaves no output`() throws {
        struct Failing: Encodable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Key.self)
                try container.encode((0..<20).map { ["\($0)": $0] }, forKey: Key("a"))
                var list = container.nestedUnkeyedContainer(forKey: Key("b"))
                try list.encode(3)
                throw CancellationError()
            }
        }
        struct Careful: Encodable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.unkeyedContainer()
                try container.encode((0..<20).map { ["\($0)": $0] })
                for _ in 0..<3 { try? container.encode(Failing()) }
                var list = container.nestedUnkeyedContainer()
                try? list.encode(Failing())
                try list.encode(1)
                try? container.encode([Failing()])
                try? container.encode(Date(timeIntervalSinceReferenceDate: .nan))
                try container.encode((0..<16).map { [$0] })
            }
        }
        let wide = MessagePackValue.array((0..<20).map { [.string("\($0)"): .int($0)] })
        try expectEqual(self.value(Careful()), [wide, [1], .array((0..<16).map { [.int($0)] })])
        var bytes: [UInt8] = [1, 2]
        #expect(throws: CancellationError.self) { try self.encoder.encode([Failing()], to: &bytes) }
        expectEqual(bytes, [1, 2])
        try self.encoder.encode((0..<16).map { [$0] }, to: &bytes)
        expect(bytes.starts(with: [1, 2, 0xDC, 0, 16, 0x91, 0, 0x91]))
        struct Fallback: Encodable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                do { try container.encode(Failing()) } catch { try container.encode("fallback") }
            }
        }
        try expectEqual(self.value([Fallback()]), ["fallback"])
    }

    @Test func `a value that encodes nothing is an empty map if nested and an error at the top level`() throws {
        struct Nothing: Encodable { func encode(to encoder: any Encoder) throws {} }
        try expectEqual(self.value([Nothing()]), [[:]])
        #expect(throws: EncodingError.self) { try self.encoder.encode(Nothing()) }
    }

    @Test func `JSON and MessagePack share their buffers without affecting each other`() throws {
        struct Recursive: Encodable {
            var depth: Int
            var numbers = Array(0..<20)
            func encode(to encoder: any Encoder) throws {
                var container = encoder.unkeyedContainer()
                if self.depth > 0 {
                    let inner = Recursive(depth: self.depth - 1)
                    try container.encode(JSONValueEncoder().encodeToString(inner).utf8.count)
                    try container.encode(MessagePackEncoder().encode(inner).count)
                }
                for number in self.numbers { try container.encode([number: true]) }
            }
        }
        for _ in 0..<3 {
            let json = try JSONValueEncoder().encodeToValue(Recursive(depth: 2))
            let messagePack = try self.value(Recursive(depth: 2))
            expect(json.array?.count == 22 && messagePack.array?.count == 22)
            expectEqual(json[0]?.number?.int64, messagePack[0]?.int64)
            expectEqual(json[1]?.number?.int64, messagePack[1]?.int64)
            expect(json[2] == ["0": true] && messagePack[2] == [0: true])
        }
        try expectEqual(JSONValueEncoder().encodeToString([1: [UInt8]([1])]), #"{"1":[1]}"#)
    }

    @Test func `user information reaches the encoder`() throws {
        struct Reader: Encodable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                try container.encode(CodingUserInfoKey(rawValue: "key").flatMap { encoder.userInfo[$0] as? String })
            }
        }
        var encoder = MessagePackEncoder()
        encoder.userInfo[try #require(CodingUserInfoKey(rawValue: "key"))] = "value"
        try expectEqual(encoder.encodeToValue([Reader()]), ["value"])
        try expectEqual(self.value([Reader()]), [nil])
    }
}

/// Costs that depend on how values are nested.
@Suite(.requires(.completeRun), .computes, .serialized, .timeLimit(.minutes(10))) struct MessagePackLinearCostTests {
    @Test func `many long headers and containers that are written later`() async throws {
        struct Later: Encodable {
            var count: Int
            func encode(to encoder: any Encoder) throws {
                var container = encoder.unkeyedContainer()
                for _ in 0..<self.count {
                    try container.encode(Array(repeating: [0], count: 16))
                    var nested = container.nestedUnkeyedContainer()
                    try nested.encode(1)
                }
            }
        }
        try await expectLinearCost { count in { _ = try MessagePackEncoder().encode(Later(count: count / 4)) } }
    }

    @Test func `failures after many long headers`() async throws {
        struct Failing: Encodable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.unkeyedContainer()
                try container.encode(1)
                throw CancellationError()
            }
        }
        struct Careful: Encodable {
            var count: Int
            func encode(to encoder: any Encoder) throws {
                var container = encoder.unkeyedContainer()
                for _ in 0..<self.count {
                    try container.encode(Array(repeating: [0], count: 16))
                    try? container.encode(Failing())
                }
            }
        }
        try await expectLinearCost { count in { _ = try MessagePackEncoder().encode(Careful(count: count / 4)) } }
    }

    @Test func `arrays in arrays, maps with many keys, and values that are skipped`() async throws {
        try await expectLinearCost { count in
            let bytes = [UInt8](repeating: 0x91, count: count) + [0xC0]
            return {
                try bytes.withUnsafeBytes { bytes in
                    var reader = MessagePackReader(bytes)
                    try reader.skip()
                }
                var decoder = MessagePackDecoder()
                decoder.limits.depth = .max
                _ = try decoder.decode(Empty.self, from: bytes)
            }
        }
        for keys in [MessagePackDecoder.KeyStrategy.useDefaultKeys, .ignoreCase] {
            try await expectLinearCost { items in
                // Fewer keys: a large dictionary doesn't fit into the cache, and others use the cache as well.
                let count = items / 8
                let names = try MessagePackEncoder().encode(Dictionary(uniqueKeysWithValues: (0..<count).map { ("Key\($0)", $0) }))
                let numbers = try MessagePackEncoder().encode(Dictionary(uniqueKeysWithValues: (0..<count).map { ($0, $0) }))
                var decoder = MessagePackDecoder()
                decoder.keys = keys
                let configured = decoder
                return {
                    _ = try configured.decode([String: Int].self, from: names)
                    _ = try configured.decode([Int: Int].self, from: numbers)
                    _ = try configured.decode(Named.self, from: names)
                }
            }
        }
    }

    private struct Empty: Decodable {}

    private struct Named: Decodable {
        var key1: Int?
        var Key7: Int?
    }
}
