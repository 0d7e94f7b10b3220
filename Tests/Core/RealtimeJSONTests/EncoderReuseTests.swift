import RealtimeJSON
import RealtimeCore
import Testing

/// One value after the other goes through the same encoder's memory; none may see anything of another.
@Suite struct EncoderReuseTests {
    private struct Refusal: Error {}

    private struct Refusing: Encodable {
        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Key.self)
            try container.encode("half", forKey: Key("first"))
            var inner = container.nestedUnkeyedContainer(forKey: Key("second"))
            try inner.encode(1)
            throw Refusal()
        }
    }

    private struct Key: CodingKey {
        var stringValue: String
        var intValue: Int? { nil }
        init(_ name: String) { self.stringValue = name }
        init?(stringValue: String) { self.init(stringValue) }
        init?(intValue: Int) { nil }
    }

    /// Keeps what it is given, as it must not.
    private final class Keeper: Encodable {
        var container: KeyedEncodingContainer<Key>?

        func encode(to encoder: any Encoder) throws {
            self.container = encoder.container(keyedBy: Key.self)
            try self.container?.encode(1, forKey: Key("kept"))
        }
    }

    /// Encodes another value while it is encoded itself.
    private struct Asking: Encodable {
        var depth: Int

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(self.depth == 0 ? "end" : JSONValueEncoder().encodeToString(Asking(depth: self.depth - 1)))
        }
    }

    @Test func `a value goes behind what is there`() throws {
        var bytes = Array("x=".utf8)
        try JSONValueEncoder().encode(["a": [1, 2]], to: &bytes)
        #expect(String(decoding: bytes, as: UTF8.self) == #"x={"a":[1,2]}"#)
        var sorted = JSONValueEncoder()
        sorted.sortsKeys = true
        try sorted.encode(["b": 1, "a": 2], to: &bytes)
        #expect(String(decoding: bytes, as: UTF8.self) == #"x={"a":[1,2]}{"a":2,"b":1}"#)
    }

    @Test func `what throws leaves nothing`() throws {
        var bytes = Array("x=".utf8)
        #expect(throws: Refusal.self) { try JSONValueEncoder().encode(Refusing(), to: &bytes) }
        #expect(throws: EncodingError.self) { try JSONValueEncoder().encode([1, .nan], to: &bytes) }
        #expect(String(decoding: bytes, as: UTF8.self) == "x=")
        #expect(try JSONValueEncoder().encodeToString(["a": 1]) == #"{"a":1}"#)
    }

    @Test func `an encoder that is kept is no part of the next value`() throws {
        let keeper = Keeper()
        #expect(try JSONValueEncoder().encodeToString(keeper) == #"{"kept":1}"#)
        struct Meddling: Encodable {
            let keeper: Keeper
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Key.self)
                try? self.keeper.container?.encode(2, forKey: Key("late"))
                try container.encode(3, forKey: Key("own"))
            }
        }
        #expect(try JSONValueEncoder().encodeToString(Meddling(keeper: keeper)) == #"{"own":3}"#)
    }

    @Test func `a value may encode another on the way`() throws {
        #expect(try JSONValueEncoder().encodeToString(Asking(depth: 2)) == #""\"\\\"end\\\"\"""#)
    }

    @Test func `settings belong to one call`() throws {
        var snake = JSONValueEncoder()
        snake.keys = .convertToSnakeCase
        struct Value: Encodable { var oneTwo = 1 }
        #expect(try snake.encodeToString(Value()) == #"{"one_two":1}"#)
        #expect(try JSONValueEncoder().encodeToString(Value()) == #"{"oneTwo":1}"#)
    }

    @Test func `many threads encode at once`() async throws {
        let texts = await withTaskGroup(of: [String].self) { group in
            for task in 0..<8 {
                group.addTask { (0..<500).map { (try? JSONValueEncoder().encodeToString(["\(task)": [$0]])) ?? "" } }
            }
            return await group.reduce(into: Set<String>()) { $0.formUnion($1) }
        }
        #expect(texts == Set((0..<8).flatMap { task in (0..<500).map { "{\"\(task)\":[\($0)]}" } }))
    }
}
