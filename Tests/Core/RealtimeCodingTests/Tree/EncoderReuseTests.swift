import RealtimeCoding
import TestSupport
import Testing

/// Encoders reuse a buffer. These tests check that no value affects another one that uses the same buffer.
@Suite struct EncoderReuseTests {
    private struct Failure: Error {}

    private struct Failing: Encodable {
        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Key.self)
            try container.encode("half", forKey: Key("first"))
            var inner = container.nestedUnkeyedContainer(forKey: Key("second"))
            try inner.encode(1)
            throw Failure()
        }
    }

    private struct Key: CodingKey {
        var stringValue: String
        var intValue: Int? { nil }
        init(_ name: String) { self.stringValue = name }
        init?(stringValue: String) { self.init(stringValue) }
        init?(intValue: Int) { nil }
    }

    /// Keeps its container after `encode(to:)` has returned, which is an error of the type.
    private final class Keeper: Encodable {
        var container: KeyedEncodingContainer<Key>?

        func encode(to encoder: any Encoder) throws {
            self.container = encoder.container(keyedBy: Key.self)
            try self.container?.encode(1, forKey: Key("kept"))
        }
    }

    /// Encodes another value while it is itself being encoded.
    private struct Recursive: Encodable {
        var depth: Int

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(self.depth == 0 ? "end" : JSONValueEncoder().encodeToString(Recursive(depth: self.depth - 1)))
        }
    }

    @Test func `a value is appended to existing output`() throws {
        var bytes = Array("x=".utf8)
        try JSONValueEncoder().encode(["a": [1, 2]], to: &bytes)
        expectEqual(String(decoding: bytes, as: UTF8.self), #"x={"a":[1,2]}"#)
        var sorted = JSONValueEncoder()
        sorted.sortsKeys = true
        try sorted.encode(["b": 1, "a": 2], to: &bytes)
        expectEqual(String(decoding: bytes, as: UTF8.self), #"x={"a":[1,2]}{"a":2,"b":1}"#)
    }

    @Test func `a value that throws leaves the output unchanged`() throws {
        var bytes = Array("x=".utf8)
        #expect(throws: Failure.self) { try JSONValueEncoder().encode(Failing(), to: &bytes) }
        #expect(throws: EncodingError.self) { try JSONValueEncoder().encode([1, .nan], to: &bytes) }
        expectEqual(String(decoding: bytes, as: UTF8.self), "x=")
        try expectEqual(JSONValueEncoder().encodeToString(["a": 1]), #"{"a":1}"#)
    }

    @Test func `a container kept by a value cannot write to the next value`() throws {
        let keeper = Keeper()
        try expectEqual(JSONValueEncoder().encodeToString(keeper), #"{"kept":1}"#)
        struct Interfering: Encodable {
            let keeper: Keeper
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Key.self)
                try? self.keeper.container?.encode(2, forKey: Key("late"))
                try container.encode(3, forKey: Key("own"))
            }
        }
        try expectEqual(JSONValueEncoder().encodeToString(Interfering(keeper: keeper)), #"{"own":3}"#)
    }

    @Test func `a value can encode another value while it is being encoded`() throws {
        try expectEqual(JSONValueEncoder().encodeToString(Recursive(depth: 2)), #""\"\\\"end\\\"\"""#)
    }

    @Test func `settings apply to one call only`() throws {
        var snake = JSONValueEncoder()
        snake.keys = .convertToSnakeCase
        struct Value: Encodable { var oneTwo = 1 }
        try expectEqual(snake.encodeToString(Value()), #"{"one_two":1}"#)
        try expectEqual(JSONValueEncoder().encodeToString(Value()), #"{"oneTwo":1}"#)
    }

    @Test func `many threads can encode concurrently`() async throws {
        let texts = await withTaskGroup(of: [String].self) { group in
            for task in 0..<8 {
                group.addTask { (0..<500).map { (try? JSONValueEncoder().encodeToString(["\(task)": [$0]])) ?? "" } }
            }
            return await group.reduce(into: Set<String>()) { $0.formUnion($1) }
        }
        expectEqual(texts, Set((0..<8).flatMap { task in (0..<500).map { "{\"\(task)\":[\($0)]}" } }))
    }
}
