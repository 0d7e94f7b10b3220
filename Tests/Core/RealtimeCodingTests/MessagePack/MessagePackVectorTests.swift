import TestSupport
import Testing

@testable import RealtimeCoding

/// Compares bytes with those of another implementation, in both directions.
@Suite(.computes, .serialized) struct MessagePackVectorTests {
    private static func vectors(_ kinds: String...) throws -> [MessagePackVector] {
        let vectors = try MessagePackVector.read("python-msgpack-1.2.4").filter { kinds.contains($0.kind) }
        try #require(!vectors.isEmpty)
        return vectors
    }

    private func check<Value: Codable & Equatable>(
        _ value: Value, _ dynamic: MessagePackValue, _ vector: MessagePackVector, location: SourceLocation = #_sourceLocation
    ) throws {
        let comment: Comment = "\(vector.kind) \(vector.text)"
        #expect(try MessagePackEncoder().encode(value) == vector.bytes, comment, sourceLocation: location)
        #expect(try MessagePackDecoder().decode(Value.self, from: vector.bytes) == value, comment, sourceLocation: location)
        #expect(dynamic.bytes == vector.bytes, comment, sourceLocation: location)
        #expect(try MessagePackValue(parsing: vector.bytes) == dynamic, comment, sourceLocation: location)
        #expect(try MessagePackEncoder().encode([value, value]) == [0x92] + vector.bytes + vector.bytes, comment, sourceLocation: location)
        #expect(try MessagePackDecoder().decode([Value].self, from: [0x91] + vector.bytes) == [value], comment, sourceLocation: location)
        try vector.bytes.withUnsafeBytes { bytes in
            var reader = MessagePackReader(bytes)
            #expect(try reader.skip() == 0..<bytes.count, comment, sourceLocation: location)
            try reader.finish()
        }
    }

    @Test func `integers of all sizes`() throws {
        for vector in try Self.vectors("int") {
            if let value = Int64(vector.text) {
                try self.check(value, .int(value), vector)
                try self.check(Int(value), .int(value), vector)
            }
            if let value = UInt64(vector.text) {
                try self.check(value, .uint(value), vector)
                try self.check(UInt(value), .uint(value), vector)
            }
            if let value = Int32(vector.text) { try self.check(value, .int(Int64(value)), vector) }
            if let value = UInt32(vector.text) { try self.check(value, .uint(UInt64(value)), vector) }
            if let value = Int16(vector.text) { try self.check(value, .int(Int64(value)), vector) }
            if let value = UInt16(vector.text) { try self.check(value, .uint(UInt64(value)), vector) }
            if let value = Int8(vector.text) { try self.check(value, .int(Int64(value)), vector) }
            // An array of UInt8 is a binary value, so only single ones are compared.
            if let value = UInt8(vector.text) {
                try expectEqual(MessagePackEncoder().encode(value), vector.bytes)
                try expectEqual(MessagePackDecoder().decode(UInt8.self, from: vector.bytes), value)
            }
        }
    }

    @Test func `floating-point numbers, nil and Boolean values`() throws {
        for vector in try Self.vectors("double") {
            let value = try #require(Double(vector.text))
            try self.check(value, .double(value), vector)
        }
        for vector in try Self.vectors("float") {
            let value = try #require(Float(vector.text))
            try self.check(value, .float(value), vector)
        }
        for vector in try Self.vectors("bool") { try self.check(vector.text == "true", .bool(vector.text == "true"), vector) }
        for vector in try Self.vectors("nil") { try self.check(Int?.none, .nil, vector) }
    }

    @Test func `strings and binary values of all lengths`() throws {
        for vector in try Self.vectors("string") {
            let value = String(repeating: "a", count: vector.count)
            try self.check(value, .string(value), vector)
        }
        for vector in try Self.vectors("text") {
            let value = String(decoding: MessagePackVector.bytes(vector.text), as: UTF8.self)
            try self.check(value, .string(value), vector)
            let decoded = try MessagePackDecoder().decode(String.self, from: vector.bytes)
            expectEqual(Array(decoded.utf8), Array(value.utf8))
        }
        for vector in try Self.vectors("binary") {
            let value = [UInt8](repeating: 7, count: vector.count)
            try self.check(value, .binary(value), vector)
        }
    }

    @Test func `arrays and maps of all lengths`() throws {
        for vector in try Self.vectors("array") {
            let value = [Int?](repeating: nil, count: vector.count)
            try self.check(value, .array(value.map { _ in .nil }), vector)
        }
        for vector in try Self.vectors("map") {
            let value = Dictionary(uniqueKeysWithValues: (0..<vector.count).map { ($0, true) })
            try expectEqual(MessagePackDecoder().decode([Int: Bool].self, from: vector.bytes), value)
            let dynamic = MessagePackValue.map((0..<Int64(vector.count)).map { .init(.int($0), true) })
            try expectEqual(MessagePackValue(parsing: vector.bytes), dynamic)
            expectEqual(dynamic.bytes, vector.bytes)
            let encoded = try MessagePackEncoder().encode(value)
            expectEqual(encoded.count, vector.bytes.count)
            try expectEqual(MessagePackDecoder().decode([Int: Bool].self, from: encoded), value)
        }
        for (count, header) in [(65535, "deffff"), (65536, "df00010000")] {
            let value = Dictionary(uniqueKeysWithValues: (0..<count).map { ($0, false) })
            let encoded = try MessagePackEncoder().encode(value)
            expect(encoded.starts(with: MessagePackVector.bytes(header)))
            try expectEqual(MessagePackDecoder().decode([Int: Bool].self, from: encoded), value)
            let named = try MessagePackEncoder().encode(Dictionary(uniqueKeysWithValues: (0..<count).map { ("\($0)", $0) }))
            expect(named.starts(with: MessagePackVector.bytes(header)))
            try expectEqual(MessagePackDecoder().decode([String: Int].self, from: named).count, count)
        }
    }

    @Test func `extension values of all lengths and types`() throws {
        for vector in try Self.vectors("ext") {
            let value = MessagePackValue.ext(5, [UInt8](repeating: 9, count: vector.count))
            try self.check(value, value, vector)
        }
        for vector in try Self.vectors("exttype") {
            let value = MessagePackValue.ext(try #require(Int8(vector.text)), Array("x".utf8))
            try self.check(value, value, vector)
        }
    }

    @Test func `timestamps in all three forms`() throws {
        for vector in try Self.vectors("timestamp") {
            let parts = vector.timestamp
            let timestamp = MessagePackTimestamp(seconds: parts.seconds, nanoseconds: parts.nanoseconds)
            try self.check(timestamp, .timestamp(timestamp), vector)
            try expectEqual(MessagePackValue(parsing: vector.bytes).timestamp, timestamp)
        }
    }

    @Test func `documents survive parsing and writing`() throws {
        for vector in try Self.vectors("document") {
            let value = try MessagePackValue(parsing: vector.bytes)
            expectEqual(value.bytes, vector.bytes)
            try expectEqual(MessagePackDecoder().decode(MessagePackValue.self, from: vector.bytes), value)
            try expectEqual(MessagePackEncoder().encode(value), vector.bytes)
            try expectEqual(MessagePackEncoder().encode([value]), [0x91] + vector.bytes)
        }
    }
}
