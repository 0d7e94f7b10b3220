import RealtimeCoding
import Foundation
import TestSupport
import Testing

@Suite struct JSONEncodingTests {
    typealias Decoding = JSONDecodingTests

    func agree<Value: Encodable>(_ value: Value, location: SourceLocation = #_sourceLocation) throws {
        let foundation = JSONEncoder()
        foundation.outputFormatting = [.withoutEscapingSlashes, .sortedKeys]
        var own = JSONValueEncoder()
        own.sortsKeys = true
        let expected = String(decoding: try foundation.encode(value), as: UTF8.self)
        #expect(try own.encodeToString(value) == expected, sourceLocation: location)
    }

    @Test func `values encode as with Foundation`() throws {
        try self.agree(Decoding.Price(symbol: "A\"\n\u{1}é/", price: 1.5, volume: -2, tags: ["x", ""], note: nil))
        try self.agree([Decoding.Price(symbol: "", price: 0.1, volume: .max, tags: [], note: "n")])
        try self.agree([Decoding.Shape.point, .circle(radius: 2), .box(1, height: 2)])
        try self.agree(["b": 1, "a": 2])
        try self.agree([2: "x"])
        try self.agree([Decoding.Level.low: 1])
        try self.agree([Decoding.Level.high])
        try self.agree([Int?.none, 1])
        try self.agree([String: Int?]())
        try self.agree([[Int]]())
        try self.agree([Int8.min])
        try self.agree([UInt64.max])
        try self.agree([UInt8.max])
        try self.agree([Int64.min])
        try self.agree([true, false])
        try self.agree([Float(0.1), 16_777_216, 1e20])
        try self.agree([0.1, 1, -0.0, 1e20, 1e16, 1e15, .leastNonzeroMagnitude, 123456789.125])
        try self.agree("x")
        try self.agree(1)
        try self.agree(Int?.none)
        try self.agree(Decoding.Nested())
        try self.agree([Decoding.Dog(name: "Rex", age: 3)])
        try self.agree(["x": ["y": [["z": 1]]]])
    }

    @Test func `a value that encodes nothing is an empty object if nested and an error at the top level`() throws {
        struct Nothing: Encodable { func encode(to encoder: any Encoder) throws {} }
        try expectEqual(JSONValueEncoder().encodeToString([Nothing()]), "[{}]")
        #expect(throws: EncodingError.self) { try JSONValueEncoder().encode(Nothing()) }
    }

    @Test func `numbers that are not finite throw an error with their coding path`() {
        for (value, path) in [(["a": [1.0, .nan]], ["a", "Index 1"]), (["b": [.infinity]], ["b", "Index 0"])]
            as [([String: [Double]], [String])]
        {
            let error = #expect(throws: EncodingError.self) { try JSONValueEncoder().encode(value) }
            guard case .invalidValue(_, let context)? = error else { continue }
            expectEqual(context.codingPath.map(\.stringValue), path)
        }
        #expect(throws: EncodingError.self) { try JSONValueEncoder().encode(Float.infinity) }
        #expect(throws: EncodingError.self) { try JSONValueEncoder().encode(Double.nan) }
    }

    @Test func `a failure that is caught leaves no output`() throws {
        struct Failing: Encodable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Keys.self)
                try container.encode([1, 2], forKey: .a)
                var list = container.nestedUnkeyedContainer(forKey: .b)
                try list.encode(3)
                throw CancellationError()
            }
        }
        enum Keys: String, CodingKey { case a, b, c }
        struct Careful: Encodable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Keys.self)
                try? container.encode(Failing(), forKey: .a)
                try? container.encode(Double.nan, forKey: .a)
                var list = container.nestedUnkeyedContainer(forKey: .b)
                try? list.encode(Failing())
                try list.encode(1)
                try? list.encode([Failing()])
                try list.encode(2)
                try container.encode(["x"], forKey: .c)
            }
        }
        try expectEqual(JSONValueEncoder().encodeToString(Careful()), #"{"b":[1,2],"c":["x"]}"#)
        struct Fallback: Encodable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                do { try container.encode(Failing()) } catch { try container.encode("fallback") }
            }
        }
        try expectEqual(JSONValueEncoder().encodeToString([Fallback()]), #"["fallback"]"#)
    }

    @Test func `a container that is not the innermost one throws`() throws {
        final class Box {
            var container: (any UnkeyedEncodingContainer)?
        }
        struct Keeper: Encodable {
            let box: Box
            func encode(to encoder: any Encoder) throws {
                var container = encoder.unkeyedContainer()
                try container.encode(1)
                self.box.container = container
            }
        }
        struct Outer: Encodable {
            let box: Box
            func encode(to encoder: any Encoder) throws {
                var container = encoder.unkeyedContainer()
                try container.encode(Keeper(box: self.box))
                #expect(throws: EncodingError.self) { try self.box.container?.encode(2) }
                try container.encode(3)
            }
        }
        let box = Box()
        try expectEqual(JSONValueEncoder().encodeToString(Outer(box: box)), "[[1],3]")
        #expect(throws: EncodingError.self) { try box.container?.encode(2) }
    }

    @Test func `values convert to and from JSON values`() throws {
        try expectEqual(JSONValueEncoder().encodeToValue(["a": [1, 2]]), ["a": [1, 2]])
        try expectEqual(JSONValueDecoder().decode([String: [Int]].self, from: ["a": [1, 2]] as JSONValue), ["a": [1, 2]])
    }
}
