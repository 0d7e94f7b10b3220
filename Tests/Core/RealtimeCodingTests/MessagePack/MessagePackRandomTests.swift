import RealtimeCore
import RealtimeCoding
import TestSupport
import Testing

/// A generator of values with many edge cases.
private struct MessagePackRandom {
    var random: SplitMix64

    init(seed: UInt64) {
        self.random = SplitMix64(seed: seed)
    }

    mutating func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &self.random) }

    mutating func chance(_ percent: Int) -> Bool { self.below(100) < percent }

    mutating func pick<Element>(_ elements: [Element]) -> Element { elements[self.below(elements.count)] }

    /// A number with a random number of bits.
    mutating func integer() -> Int64 {
        let value = Int64(bitPattern: self.random.next() >> UInt64(self.below(64)))
        return self.chance(50) ? value : ~value
    }

    /// A length around one of the limits of the formats, and a short one otherwise.
    mutating func count(_ limits: [Int]) -> Int { self.chance(5) ? self.pick(limits) + self.below(3) - 1 : self.below(5) }

    mutating func string() -> String {
        (0..<self.count([31, 255, 300])).map { _ in self.pick(["a", "Z", "_", "é", "日", "😀", "e\u{301}", "\0", "\"", "\u{10FFFF}"]) }
            .joined()
    }

    mutating func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(truncatingIfNeeded: self.random.next()) } }

    mutating func double() -> Double {
        let value = Double(bitPattern: self.random.next())
        return value.isNaN ? 0 : value
    }

    mutating func timestamp() -> MessagePackTimestamp {
        MessagePackTimestamp(seconds: self.integer(), nanoseconds: self.chance(50) ? 0 : UInt32(self.below(1_000_000_000)))
    }

    mutating func value(_ depth: Int) -> MessagePackValue {
        switch self.below(depth > 0 ? 14 : 10) {
        case 0: return .nil
        case 1: return .bool(self.chance(50))
        case 2, 3: return .int(self.integer())
        case 4: return .uint(self.random.next())
        case 5: return .double(self.double())
        case 6: return .float(Float(Int16(truncatingIfNeeded: self.random.next())) / 8)
        case 7: return .string(self.string())
        case 8: return .binary(self.bytes(self.count([255, 256])))
        case 9:
            return self.chance(30)
                ? .timestamp(self.timestamp()) : .ext(Int8(self.below(100)), self.bytes(self.count([1, 2, 4, 8, 16, 255])))
        case 10, 11: return .array((0..<self.count([15, 16])).map { _ in self.value(depth - 1) })
        default: return .map((0..<self.count([15, 16])).map { _ in .init(self.value(depth - 2), self.value(depth - 1)) })
        }
    }

    mutating func record(_ depth: Int) -> Record {
        func optional<Value>(_ make: () -> Value) -> Value? { self.chance(50) ? make() : nil }
        return Record(
            flag: self.chance(50), byte: UInt8(truncatingIfNeeded: self.random.next()), small: Int8(truncatingIfNeeded: self.integer()),
            short: Int16(truncatingIfNeeded: self.integer()), medium: UInt32(truncatingIfNeeded: self.integer()), large: self.integer(),
            huge: self.random.next(), ratio: self.double(), single: Float(self.below(1000)) / 3, name: self.string(),
            note: optional { self.string() }, data: self.bytes(self.count([255])), time: self.timestamp(),
            list: (0..<self.count([15])).map { _ in self.chance(20) ? nil : Int(self.integer()) },
            named: Dictionary((0..<self.count([15, 16])).map { _ in (self.string(), self.string()) }) { $1 },
            numbered: Dictionary((0..<self.count([15, 16])).map { _ in (Int(self.integer()), self.double()) }) { $1 },
            keyed: Dictionary((0..<self.count([15])).map { _ in (self.bytes(2), self.chance(50)) }) { $1 },
            any: self.value(2), choice: self.pick([.none, .one(self.string()), .two(first: self.below(9), self.chance(50))]),
            children: depth > 0 ? (0..<self.count([15])).map { _ in self.record(depth - 1) } : [])
    }

    /// The bytes with one or two of them changed, added or removed.
    mutating func mutated(_ bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        for _ in 0...(self.chance(30) ? 1 : 0) {
            let position = self.below(bytes.count + 1)
            let byte = self.chance(50) ? UInt8(0x80 + self.below(0x80)) : UInt8(truncatingIfNeeded: self.random.next())
            switch self.below(3) {
            case 0: bytes.insert(byte, at: position)
            case 1: if position < bytes.count { bytes[position] = byte }
            default: if position < bytes.count { bytes.remove(at: position) }
            }
        }
        return bytes
    }
}

private enum Choice: Codable, Equatable {
    case none
    case one(String)
    case two(first: Int, Bool)
}

private struct Record: Codable, Equatable {
    var flag: Bool
    var byte: UInt8
    var small: Int8
    var short: Int16
    var medium: UInt32
    var large: Int64
    var huge: UInt64
    var ratio: Double
    var single: Float
    var name: String
    var note: String?
    var data: [UInt8]
    var time: MessagePackTimestamp
    var list: [Int?]
    var named: [String: String]
    var numbered: [Int: Double]
    var keyed: [[UInt8]: Bool]
    var any: MessagePackValue
    var choice: Choice
    var children: [Record]
}

@Suite(.computes, .serialized) struct MessagePackRandomTests {
    @Test func `random values survive writing and parsing`() async throws {
        for seed in seeds(3000) {
            var random = MessagePackRandom(seed: seed)
            let value = random.value(4)
            let bytes = value.bytes
            try expectEqual(MessagePackValue(parsing: bytes), value, "\(replay(seed))")
            try expectEqual(MessagePackEncoder().encode(value), bytes, "\(replay(seed))")
            try expectEqual(MessagePackDecoder().decode(MessagePackValue.self, from: bytes), value, "\(replay(seed))")
            await Task.yield()
        }
    }

    @Test func `random types survive encoding and decoding`() async throws {
        var (pascal, ignoring) = (MessagePackEncoder(), MessagePackDecoder())
        pascal.keys = .convertToPascalCase
        ignoring.keys = .ignoreCase
        for seed in seeds(600) {
            var random = MessagePackRandom(seed: seed)
            let record = random.record(2)
            let bytes = try MessagePackEncoder().encode(record)
            try expectEqual(MessagePackDecoder().decode(Record.self, from: bytes), record, "\(replay(seed))")
            try expectEqual(ignoring.decode(Record.self, from: bytes), record, "\(replay(seed))")
            try expectEqual(ignoring.decode(Record.self, from: pascal.encode(record)), record, "\(replay(seed))")
            // The lengths in the headers are the shortest ones.
            try expectEqual(MessagePackValue(parsing: bytes).bytes, bytes, "\(replay(seed))")
            await Task.yield()
        }
    }

    @Test func `all readers accept the same bytes`() async throws {
        for seed in seeds(5000) {
            var random = MessagePackRandom(seed: seed)
            let bytes = random.mutated(random.value(3).bytes)
            let value = try? MessagePackValue(parsing: bytes)
            let isSkipped = bytes.withUnsafeBytes { bytes in
                var reader = MessagePackReader(bytes)
                return (try? reader.skip()) != nil && reader.isAtEnd
            }
            expectEqual(isSkipped, (value != nil), "\(replay(seed))")
            let decoded = try? MessagePackDecoder().decode(MessagePackValue.self, from: bytes)
            expectEqual(decoded?.bytes, value?.bytes, "\(replay(seed))")
            if let value { try expectEqual(MessagePackValue(parsing: value.bytes).bytes, value.bytes, "\(replay(seed))") }
            _ = try? MessagePackDecoder().decode(Record.self, from: bytes)
            _ = try? MessagePackDecoder().decode(JSONValue.self, from: bytes)
            await Task.yield()
        }
    }
}
