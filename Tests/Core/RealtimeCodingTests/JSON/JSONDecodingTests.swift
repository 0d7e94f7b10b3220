import RealtimeCoding
import Foundation
import TestSupport
import Testing

/// Compares the decoder with Foundation's: values, kinds of errors, and coding paths.
@Suite struct JSONDecodingTests {
    struct Price: Codable, Equatable {
        var symbol: String
        var price: Double
        var volume: Int
        var tags: [String]
        var note: String?
    }

    enum Shape: Codable, Equatable {
        case point
        case circle(radius: Double)
        case box(Int, height: Int)
    }

    enum Level: String, Codable, CodingKeyRepresentable {
        case low, high
    }

    class Animal: Codable {
        var name: String
        init(name: String) { self.name = name }
    }

    final class Dog: Animal {
        var age: Int
        private enum CodingKeys: String, CodingKey { case age }

        init(name: String, age: Int) {
            self.age = age
            super.init(name: name)
        }

        required init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            self.age = try container.decode(Int.self, forKey: .age)
            try super.init(from: container.superDecoder())
        }

        override func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(self.age, forKey: .age)
            try super.encode(to: container.superEncoder())
        }
    }

    struct Nested: Codable, Equatable {
        var values: [Int] = []
        var names: [String] = []
        var first: Int?

        enum Outer: String, CodingKey { case list, object, mixed }
        enum Inner: String, CodingKey { case a, b }

        init() {}

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: Outer.self)
            var list = try container.nestedUnkeyedContainer(forKey: .list)
            while !list.isAtEnd {
                let value = try list.decode(Int.self)
                self.values.append(value)
            }
            let object = try container.nestedContainer(keyedBy: Inner.self, forKey: .object)
            self.names = object.allKeys.map(\.stringValue).sorted()
            self.first = try object.decodeIfPresent(Int.self, forKey: .a)
            var mixed = try container.nestedUnkeyedContainer(forKey: .mixed)
            expectEqual(mixed.count, 3)
            let isFirstNull = try mixed.decodeNil()
            expect(isFirstNull)
            let isNull = try mixed.decodeNil()
            expect(!isNull)
            let inner = try mixed.nestedContainer(keyedBy: Inner.self)
            self.values.append(try inner.decode(Int.self, forKey: .b))
            var last = try mixed.nestedUnkeyedContainer()
            self.values.append(try last.decode(Int.self))
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Outer.self)
            var list = container.nestedUnkeyedContainer(forKey: .list)
            // The containers are written to alternately.
            var object = container.nestedContainer(keyedBy: Inner.self, forKey: .object)
            try list.encode(1)
            try object.encode(7, forKey: .a)
            var mixed = container.nestedUnkeyedContainer(forKey: .mixed)
            try list.encode(2)
            try mixed.encodeNil()
            var inner = mixed.nestedContainer(keyedBy: Inner.self)
            try object.encode("x", forKey: .b)
            try inner.encode(3, forKey: .b)
            var last = mixed.nestedUnkeyedContainer()
            try last.encode(4)
        }
    }

    func both<Value: Decodable>(_ type: Value.Type, _ text: String) -> (own: Result<Value, any Error>, foundation: Result<Value, any Error>)
    {
        (Result { try JSONValueDecoder().decode(type, from: text) }, Result { try JSONDecoder().decode(type, from: Data(text.utf8)) })
    }

    /// Checks that both decoders return the same value, or fail with the same kind of error and coding path.
    func agree<Value: Decodable & Equatable>(_ type: Value.Type, _ text: String, location: SourceLocation = #_sourceLocation) {
        let (own, foundation) = self.both(type, text)
        switch (own, foundation) {
        case (.success(let own), .success(let foundation)): #expect(own == foundation, "\(text)", sourceLocation: location)
        case (.failure(let own), .failure(let foundation)):
            // Foundation reports a number that does not fit as invalid JSON, without a coding path.
            let text = "\(text): \(own) / \(foundation)"
            let expected = Fault(foundation)
            #expect(Fault(own)?.kind == expected?.kind, "\(text)", sourceLocation: location)
            if expected?.kind != "corrupted" || expected?.path.isEmpty == false {
                #expect(Fault(own)?.path == expected?.path, "\(text)", sourceLocation: location)
            }
        default: Issue.record("\(text): \(own) / \(foundation)", sourceLocation: location)
        }
    }

    struct Fault: Equatable {
        var kind: String
        var path: [String]

        init?(_ error: any Error) {
            guard let error = error as? DecodingError else { return nil }
            let context: DecodingError.Context
            switch error {
            case .dataCorrupted(let found): (self.kind, context) = ("corrupted", found)
            case .keyNotFound(let key, let found): (self.kind, context) = ("no \(key.stringValue)", found)
            case .typeMismatch(_, let found): (self.kind, context) = ("mismatch", found)
            case .valueNotFound(_, let found): (self.kind, context) = ("null", found)
            @unknown default: return nil
            }
            self.path = context.codingPath.map { $0.intValue.map { "\($0)" } ?? $0.stringValue }
        }
    }

    @Test func `integers decode as with Foundation, or fail if they do not fit`() {
        let numbers = [
            "0", "-0", "1", "-1", "127", "128", "-128", "-129", "255", "256", "32767", "32768", "65535", "65536", "2147483647",
            "2147483648", "4294967295", "4294967296",
            "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615",
            "18446744073709551616", "1.0", "1.5", "1e2",
            "100e-2", "1e-2", "-0.0", "1e19", "1e400", "12345678901234567e1", "9007199254740993.0", "null", "true", "\"1\"", "[]", "{}",
        ]
        for number in numbers {
            let text = "[\(number)]"
            self.agree([Int].self, text)
            self.agree([Int8].self, text)
            self.agree([Int16].self, text)
            self.agree([Int32].self, text)
            self.agree([Int64].self, text)
            self.agree([UInt].self, text)
            self.agree([UInt8].self, text)
            self.agree([UInt16].self, text)
            self.agree([UInt32].self, text)
            self.agree([UInt64].self, text)
            self.agree([Double].self, text)
            self.agree([Float].self, text)
            self.agree([String].self, text)
            self.agree([Int?].self, text)
        }
    }

    @Test func `floating-point numbers decode as with Foundation, or fail if they do not fit`() {
        for number in [
            "1e308", "1.8e308", "1e-400", "1e39", "3.4028235677973366e+38", "1e-50", "0e999", "0.1", "16777217", "1e-46", "5e-324",
            "-1e400",
        ] {
            self.agree([Double].self, "[\(number)]")
            self.agree([Float].self, "[\(number)]")
        }
    }

    @Test(arguments: [
        #"{"symbol":"A","price":1.5,"volume":2,"tags":["x","y"],"note":"n"}"#,
        #"{"tags":[],"volume":2,"price":1,"symbol":"é\n","note":null}"#,
        #"{"symbol":"A","price":1.5,"volume":2}"#, #"{"symbol":"A","price":"1.5","volume":2,"tags":[]}"#,
        #"{"symbol":"A","price":null,"volume":2,"tags":[]}"#,
        #"{"symbol":"A","price":1,"volume":2,"tags":["x",1]}"#, #"{"symbol":"A","price":1,"volume":2,"tags":["x",null]}"#,
        #"{"symbol":"A","price":1,"volume":2,"tags":{}}"#,
        #"{"symbol":"A","price":1,"volume":2.5,"tags":[]}"#, #"{"\u0073ymbol":"A","price":1,"volume":2,"tags":[]}"#, #"{}"#, #"[]"#,
        "null", "1", #""x""#,
        #"{"symbol":"A","price":1,"volume":2,"tags":null}"#, #"{"symbol":"A","price":1,"volume":2,"tags":[],"note":1}"#,
        #"{"x":{"symbol":1},"symbol":"A","price":1,"volume":2,"tags":[]}"#,
    ])
    func `structs decode as with Foundation`(_ text: String) {
        self.agree(Price.self, text)
        self.agree([Price].self, "[\(text)]")
        self.agree([String: Price].self, "{\"a\":\(text)}")
        self.agree([Int: Price].self, "{\"5\":\(text)}")
        self.agree([[Price?]].self, "[[null,\(text)]]")
    }

    @Test(arguments: [
        #"{"point":{}}"#, #"{"circle":{"radius":1.5}}"#, #"{"box":{"_0":1,"height":2}}"#, #"{"circle":{}}"#, #"{"other":{}}"#, "{}",
        #"{"point":{},"circle":{"radius":1}}"#, "1", "null",
    ])
    func `enums with associated values decode as with Foundation`(_ text: String) {
        self.agree(Shape.self, text)
        self.agree([Shape?].self, "[\(text)]")
    }

    @Test(arguments: ["{}", #"{"1":2}"#, #"{"a":1}"#, #"{"1":"x"}"#, #"{"low":1}"#, "[1,2]", #"["low",1]"#, "null"])
    func `dictionaries decode as with Foundation`(_ text: String) {
        self.agree([String: Int].self, text)
        self.agree([Int: Int].self, text)
        self.agree([Level: Int].self, text)
        self.agree([String: Int?].self, text)
        self.agree([String: [String: Int]].self, "{\"x\":\(text)}")
    }

    @Test func `large objects decode as with Foundation`() {
        let members = (0..<100).map { "\"key\($0)\":\($0)" }.joined(separator: ",")
        self.agree([String: Int].self, "{\(members)}")
        self.agree(Price.self, "{\(members),\"symbol\":\"A\",\"price\":1,\"volume\":2,\"tags\":[]}")
        self.agree(Price.self, "{\(members),\"symbol\":\"A\",\"price\":1,\"tags\":[]}")
    }

    @Test func `the last value of a repeated key is decoded`() throws {
        try expectEqual(JSONValueDecoder().decode([String: Int].self, from: #"{"a":1,"b":5,"\u0061":2}"#), ["a": 2, "b": 5])
        struct One: Decodable { var a: Int }
        try expectEqual(JSONValueDecoder().decode(One.self, from: #"{"a":1,"a":2}"#).a, 2)
    }

    @Test func `top-level values decode as with Foundation`() {
        self.agree(Int.self, "1")
        self.agree(String.self, "\"x\"")
        self.agree(Bool.self, "true")
        self.agree(Int?.self, "null")
        self.agree(Level.self, "\"low\"")
        self.agree(Level.self, "\"middle\"")
        self.agree(Bool.self, "1")
        self.agree([[[Int]]].self, "[[[1,2],[3]],[]]")
        self.agree(Int.self, "null")
    }

    @Test func `nested containers can be read and written in any order`() throws {
        let text = try JSONValueEncoder().encodeToString(Nested())
        expectEqual(text, #"{"list":[1,2],"object":{"a":7,"b":"x"},"mixed":[null,{"b":3},[4]]}"#)
        self.agree(Nested.self, text)
        self.agree(Nested.self, #"{"list":[1,"x"],"object":{},"mixed":[]}"#)
        self.agree(Nested.self, #"{"list":[],"object":null,"mixed":[null,{"b":1},[1]]}"#)
        self.agree(Nested.self, #"{"list":[],"object":{"a":null},"mixed":[null,{"b":1},[1]]}"#)
        self.agree(Nested.self, #"{"list":[],"object":{"a":1},"mixed":[null,{"b":1},[]]}"#)
    }

    @Test func `classes decode and encode their superclass`() throws {
        let text = try JSONValueEncoder().encodeToString(Dog(name: "Rex", age: 3))
        expectEqual(text, #"{"age":3,"super":{"name":"Rex"}}"#)
        let dog = try JSONValueDecoder().decode(Dog.self, from: text)
        expect(dog.age == 3 && dog.name == "Rex")
        let (own, foundation) = self.both(Dog.self, #"{"age":3}"#)
        #expect(throws: DecodingError.self) { try own.get() }
        #expect(throws: DecodingError.self) { try foundation.get() }
        let error = #expect(throws: DecodingError.self) {
            try JSONValueDecoder().decode([Dog].self, from: #"[{"age":3,"super":{"name":1}}]"#)
        }
        expectEqual(error.flatMap { Fault($0) }?.path, ["0", "super", "name"])
        // The class and its superclass write to the same object.
        class Base: Encodable { var a = 1 }
        final class Derived: Base {
            enum CodingKeys: String, CodingKey { case b }
            override func encode(to encoder: any Encoder) throws {
                try super.encode(to: encoder)
                var container = encoder.container(keyedBy: CodingKeys.self)
                try container.encode(2, forKey: .b)
            }
        }
        try expectEqual(JSONValueEncoder().encodeToString([Derived()]), #"[{"a":1,"b":2}]"#)
    }

    @Test func `errors contain the byte offset`() {
        let error = #expect(throws: DecodingError.self) { try JSONValueDecoder().decode(Price.self, from: #"{"symbol":"A","price":"x"}"#) }
        guard case .typeMismatch(_, let context)? = error else {
            Issue.record("\(error as Any)")
            return
        }
        expectEqual(context.debugDescription, "Expected Double, found a string. (at byte 23)")
        #expect(throws: JSONError.self) { try JSONValueDecoder().decode(Price.self, from: "{") }
        #expect(throws: JSONError.self) { try JSONValueDecoder().decode(String.self, from: [0x22, 0xFF, 0x22]) }
    }

    @Test func `lone surrogates are replaced or rejected`() throws {
        var decoder = JSONValueDecoder()
        try expectEqual(decoder.decode([String].self, from: #"["a\ud800b"]"#), ["a\u{FFFD}b"])
        decoder.rejectsLoneSurrogates = true
        let error = #expect(throws: DecodingError.self) { try decoder.decode([String].self, from: #"["","a\ud800b"]"#) }
        expectEqual(
            error.flatMap { Fault($0) }, Fault(DecodingError.dataCorrupted(.init(codingPath: [Index(intValue: 1)], debugDescription: ""))))
        try expectEqual(decoder.decode([String].self, from: #"["\ud83d\ude00"]"#), ["😀"])
    }

    struct Index: CodingKey {
        var intValue: Int?
        var stringValue: String { "" }
        init(intValue: Int) { self.intValue = intValue }
        init?(stringValue: String) { nil }
    }

    @Test func `the decoder's user info is passed to the values`() throws {
        struct Reader: Codable {
            init() {}
            init(from decoder: any Decoder) throws { expectEqual(decoder.userInfo[CodingUserInfoKey(rawValue: "k")!] as? Int, 5) }
            func encode(to encoder: any Encoder) throws {
                expectEqual(encoder.userInfo[CodingUserInfoKey(rawValue: "k")!] as? Int, 5)
                var container = encoder.singleValueContainer()
                try container.encode(1)
            }
        }
        var decoder = JSONValueDecoder()
        decoder.userInfo = [CodingUserInfoKey(rawValue: "k")!: 5]
        _ = try decoder.decode([Reader].self, from: "[1]")
        var encoder = JSONValueEncoder()
        encoder.userInfo = decoder.userInfo
        try expectEqual(encoder.encodeToString([Reader()]), "[1]")
    }

    @Test func `a decoder that outlives the call stays valid`() throws {
        struct Keeper: Decodable {
            let decoder: any Decoder
            init(from decoder: any Decoder) throws { self.decoder = decoder }
        }
        let kept = try JSONValueDecoder().decode([Keeper].self, from: #"[{"symbol":"A","price":1.5,"volume":2,"tags":["x"]}]"#)
        try expectEqual(Price(from: kept[0].decoder).tags, ["x"])
        expectEqual(kept[0].decoder.codingPath.map(\.intValue), [0])
    }

    @Test func `the decoder enforces limits on depth and size`() {
        var decoder = JSONValueDecoder()
        decoder.limits = CodingLimits(depth: 2, size: 10)
        #expect(throws: JSONError.self) { try decoder.decode([[[Int]]].self, from: "[[[1]]]") }
        #expect(throws: JSONError.self) { try decoder.decode([Int].self, from: "[1,2,3,4,5,6]") }
        #expect(throws: Never.self) { try decoder.decode([[Int]].self, from: "[[1,2,3]]") }
    }

    @Test func `snake case is converted as with Foundation`() throws {
        struct AnyKey: CodingKey {
            var stringValue: String
            var intValue: Int? { nil }
            init?(stringValue: String) { self.stringValue = stringValue }
            init?(intValue: Int) { nil }
        }
        struct Names: Codable {
            var names: [String]
            init(_ names: [String]) { self.names = names }
            init(from decoder: any Decoder) throws { self.names = try decoder.container(keyedBy: AnyKey.self).allKeys.map(\.stringValue) }
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: AnyKey.self)
                for name in self.names { try container.encode(1, forKey: AnyKey(stringValue: name)!) }
            }
        }
        var own = JSONValueDecoder()
        own.keys = .convertFromSnakeCase
        let foundation = JSONDecoder()
        foundation.keyDecodingStrategy = .convertFromSnakeCase
        var ownEncoder = JSONValueEncoder()
        ownEncoder.keys = .convertToSnakeCase
        let foundationEncoder = JSONEncoder()
        foundationEncoder.keyEncodingStrategy = .convertToSnakeCase
        foundationEncoder.outputFormatting = .withoutEscapingSlashes
        var names = [
            "", "_", "__", "a_b_c", "_a_b_", "___a__b___", "A_B", "aBC_dEF", "foo-bar_baz-qux", "a_b.c d_e1f2", "é_éa", "a_1b",
            "myURLProperty", "ABC", "aÉÉb", "HTTPServer2X", "x_ßa",
        ]
        for seed in seeds(3000) {
            var random = JSONRandom(seed: seed)
            names.append(String((0..<Int.random(in: 0...10, using: &random.random)).map { _ in random.pick(Array("aabBCzZ__1-. éÉ'")) }))
        }
        for name in names {
            let text = try JSONValueEncoder().encodeToString([name: 1])
            try expectEqual(own.decode(Names.self, from: text).names, foundation.decode(Names.self, from: Data(text.utf8)).names, "\(name)")
            try expectEqual(
                ownEncoder.encodeToString(Names([name])), String(decoding: foundationEncoder.encode(Names([name])), as: UTF8.self),
                "\(name)")
        }
        // The keys of a dictionary are data and not converted.
        struct Holder: Codable, Equatable { var theMap: [String: [String: Int]] }
        let holder = Holder(theMap: ["one_two": ["threeFour": 1]])
        let text = try ownEncoder.encodeToString(holder)
        expectEqual(text, #"{"the_map":{"one_two":{"threeFour":1}}}"#)
        try expectEqual(own.decode(Holder.self, from: text), holder)
        try expectEqual(String(decoding: foundationEncoder.encode(holder), as: UTF8.self), text)
        try expectEqual(ownEncoder.encodeToString(["oneTwo": 1]), String(decoding: foundationEncoder.encode(["oneTwo": 1]), as: UTF8.self))
    }

    // MARK: Canonical equivalence

    private struct Spellings: Decodable {
        private struct Key: CodingKey {
            let stringValue: String
            var intValue: Int? { nil }
            init(stringValue: String) { self.stringValue = stringValue }
            init?(intValue: Int) { nil }
        }

        let composed, decomposed: Int
        let keyCount: Int

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: Key.self)
            self.composed = try container.decode(Int.self, forKey: Key(stringValue: "caf\u{E9}"))
            self.decomposed = try container.decode(Int.self, forKey: Key(stringValue: "cafe\u{301}"))
            self.keyCount = container.allKeys.count
        }
    }

    @Test(arguments: [0, 20], [JSONValueDecoder.KeyStrategy.useDefaultKeys, .convertFromSnakeCase])
    func `a coding key finds the member with its bytes`(others: Int, strategy: JSONValueDecoder.KeyStrategy) throws {
        var decoder = JSONValueDecoder()
        decoder.keys = strategy
        let rest = (0..<others).map { ",\"k\($0)\":0" }.joined()
        let value = try decoder.decode(Spellings.self, from: "{\"caf\u{E9}\":1,\"cafe\u{301}\":2\(rest)}")
        expect(value.composed == 1 && value.decomposed == 2 && value.keyCount == 2 + others)
    }
}
