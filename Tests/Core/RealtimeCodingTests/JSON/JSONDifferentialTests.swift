import RealtimeCoding
import Foundation
import RealtimeCore
import TestSupport
import Testing

/// Compares the JSON implementation with Foundation's, using generated documents and values.
@Suite(.computes, .serialized) struct JSONDifferentialTests {
    /// A document as Foundation's decoder reads it.
    enum Reference: Decodable {
        case null, bool(Bool), number(Double), string(String), array([Reference]), object([String: Reference])

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if container.decodeNil() {
                self = .null
            } else if let value = try? container.decode(String.self) {
                self = .string(value)
            } else if let value = try? container.decode(Double.self) {
                self = .number(value)
            } else if let value = try? container.decode(Bool.self) {
                self = .bool(value)
            } else if let value = try? container.decode([Reference].self) {
                self = .array(value)
            } else {
                self = .object(try container.decode([String: Reference].self))
            }
        }
    }

    static func same(_ own: JSONValue, _ reference: Reference) -> Bool {
        switch (own, reference) {
        case (.null, .null): true
        case (.bool(let own), .bool(let other)): own == other
        case (.number(let own), .number(let other)): own.double == other
        case (.string(let own), .string(let other)): Array(own.utf8) == Array(other.utf8)
        case (.array(let own), .array(let other)): own.count == other.count && zip(own, other).allSatisfy { self.same($0, $1) }
        case (.object(let own), .object(let other)):
            own.count == other.count && own.allSatisfy { member in other[member.key].map { self.same(member.value, $0) } ?? false }
        default: false
        }
    }

    static func same(_ own: JSONValue, _ other: Any) -> Bool {
        switch own {
        case .null: other is NSNull
        case .bool(let own): other as? Bool == own
        case .number(let own):
            // Foundation loses the last digits in a conversion to Decimal. The tests of the decoder compare all bits.
            (other as? NSNumber).map { abs($0.doubleValue - own.double) <= abs(own.double) * 1e-9 } ?? false
        case .string(let own): (other as? String).map { Array($0.utf8) == Array(own.utf8) } ?? false
        case .array(let own):
            (other as? [Any]).map { other in own.count == other.count && zip(own, other).allSatisfy { self.same($0, $1) } } ?? false
        case .object(let own):
            (other as? [String: Any]).map { other in
                own.count == other.count && own.allSatisfy { member in other[member.key].map { self.same(member.value, $0) } ?? false }
            } ?? false
        }
    }

    @Test func `documents are parsed as with Foundation`() async throws {
        for seed in seeds(70_000) {
            await Task.yield()
            var random = JSONRandom(seed: seed)
            let text = random.document()
            let bytes = Array(text.utf8)
            let value: JSONValue
            do {
                value = try JSONValue(parsing: bytes)
            } catch {
                Issue.record("\(text.debugDescription): \(error), \(replay(seed))")
                continue
            }
            let other = try? JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed)
            expect(other.map { Self.same(value, $0) } ?? Self.isBeyondFoundation(value), "\(text.debugDescription), \(replay(seed))")
            try expectEqual(JSONValue(parsing: value.bytes), value, "\(replay(seed))")
            try expectEqual(JSONValueDecoder().decode(JSONValue.self, from: bytes), value, "\(replay(seed))")
        }
    }

    @Test func `documents decode as with Foundation`() async throws {
        for seed in seeds(10_000) {
            await Task.yield()
            var random = JSONRandom(seed: seed &+ 1 << 32)
            let text = random.document()
            let value = try JSONValue(parsing: text)
            if let reference = try? JSONDecoder().decode(Reference.self, from: Data(text.utf8)) {
                expect(Self.same(value, reference), "\(text.debugDescription), \(replay(seed))")
                expect(
                    Self.same(value, try JSONValueDecoder().decode(Reference.self, from: text)), "\(text.debugDescription), \(replay(seed))"
                )
            } else {
                expect(Self.isBeyondFoundation(value), "\(text.debugDescription), \(replay(seed))")
            }
        }
    }

    /// Whether Foundation rejects the value: it does not support numbers that are out of range for a double.
    static func isBeyondFoundation(_ value: JSONValue) -> Bool {
        switch value {
        case .number(let number): !number.double.isFinite || (number.double == 0 && !["0", "-0"].contains(number.description))
        case .array(let elements): elements.contains { self.isBeyondFoundation($0) }
        case .object(let members): members.contains { self.isBeyondFoundation($0.value) }
        default: false
        }
    }

    /// Both implementations accept a document, or both reject it, except for known differences.
    @Test func `damaged documents are accepted or rejected as with Foundation`() async throws {
        for seed in seeds(30_000) {
            await Task.yield()
            var random = JSONRandom(seed: seed &+ 2 << 32)
            // In an array, because Foundation rejects some top-level numbers that are followed by whitespace.
            let bytes = random.mutated("[" + random.document(depth: 2) + "]")
            let errors = JSONGrammarTests.errors(bytes)
            // The scan accepts only objects.
            if errors[2] != nil || errors[0] == nil { expectEqual(errors[0], errors[2], "\(bytes), \(replay(seed))") }
            expectEqual(errors[0], errors[1], "\(bytes), \(replay(seed))")
            let own = errors[0] == nil
            let foundation = (try? JSONDecoder().decode(Loose.self, from: Data(bytes))) != nil
            if own != foundation {
                let text = String(decoding: bytes, as: UTF8.self)
                expect(Self.isKnown(bytes, own: own), "own \(own): \(text.debugDescription), \(replay(seed))")
            }
        }
    }

    /// Decodes every value, because Foundation validates some values only when they are decoded.
    struct Loose: Decodable {
        init(from decoder: any Decoder) throws {
            if let container = try? decoder.container(keyedBy: Key.self) {
                for key in container.allKeys { _ = try container.decode(Loose.self, forKey: key) }
            } else if var container = try? decoder.unkeyedContainer() {
                while !container.isAtEnd { _ = try container.decode(Loose.self) }
            } else {
                let container = try decoder.singleValueContainer()
                if container.decodeNil() || (try? container.decode(Bool.self)) != nil { return }
                do { _ = try container.decode(Double.self) } catch DecodingError.typeMismatch { _ = try container.decode(String.self) }
            }
        }

        struct Key: CodingKey {
            var stringValue: String
            var intValue: Int? { nil }
            init?(stringValue: String) { self.stringValue = stringValue }
            init?(intValue: Int) { nil }
        }
    }

    static func isKnown(_ bytes: [UInt8], own: Bool) -> Bool {
        if own {
            // Foundation rejects lone surrogates, numbers that are out of range for a double, and sometimes 0e1.
            if String(decoding: bytes, as: UTF8.self).lowercased().contains(/0e[+-]?[0-9]/) { return true }
            guard let value = try? JSONValue(parsing: bytes) else { return false }
            return self.isBeyondFoundation(value) || bytes.withUnsafeBytes { JSONText.loneSurrogate($0) != nil }
        }
        // Foundation accepts trailing commas, UTF-16 and UTF-32, and does not validate the number or string of a member whose key is
        // repeated.
        let text = String(decoding: bytes.filter { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }, as: UTF8.self)
        if text.contains(",]") || text.contains(",}") || bytes.prefix(4).contains(0) { return true }
        let deferred: [JSONError.Code] = [.invalidNumber, .invalidEscape, .controlCharacter, .invalidUTF8]
        return JSONGrammarTests.errors(bytes)[0].map { deferred.contains($0.code) && self.hasDuplicateKeys(bytes) } ?? false
    }

    static func hasDuplicateKeys(_ bytes: [UInt8]) -> Bool {
        let names = String(decoding: bytes, as: UTF8.self).matches(of: /"((?:[^"\\]|\\.)*)"\s*:/).map { String($0.1) }
        return Set(names).count < names.count
    }

    struct Record: Codable, Equatable {
        var id: Int64
        var small: UInt8
        var ratio: Double
        var single: Float
        var name: String
        var flag: Bool?
        var date: Date
        var url: URL?
        var data: Data
        var amount: Decimal
        var list: [Int?]
        var map: [String: [String]]
        var numbered: [Int: Bool]
        var child: [Record]

        init(_ random: inout JSONRandom, depth: Int = 1) {
            self.id = Int64(bitPattern: random.random.next())
            self.small = UInt8(truncatingIfNeeded: random.random.next())
            let bits = Double(bitPattern: random.random.next())
            self.ratio = bits.isFinite ? bits : 0.5
            self.single = Float.random(in: -1e10...1e10, using: &random.random)
            self.name = random.text()
            self.flag = random.pick([nil, true, false])
            self.date = Date(timeIntervalSinceReferenceDate: Double.random(in: -1e10...1e10, using: &random.random))
            self.url = random.chance(70) ? URL(string: "https://example.com/\(random.random.next())?q=1#f") : nil
            self.data = Data(
                (0..<Int.random(in: 0...20, using: &random.random)).map { _ in UInt8(truncatingIfNeeded: random.random.next()) })
            self.amount =
                Decimal(Int64(bitPattern: random.random.next()))
                / Decimal(sign: .plus, exponent: Int.random(in: 0...10, using: &random.random), significand: 1)
            self.list = (0..<Int.random(in: 0...3, using: &random.random)).map { $0 == 1 ? nil : $0 }
            self.map = random.chance(50) ? [:] : [random.text(): [random.text(), ""]]
            self.numbered = random.chance(50) ? [:] : [Int.random(in: -9...9, using: &random.random): true]
            self.child = depth > 0 && random.chance(30) ? [Record(&random, depth: depth - 1)] : []
        }
    }

    @Test func `values survive any combination of encoder and decoder`() async throws {
        for seed in seeds(4000) {
            await Task.yield()
            var random = JSONRandom(seed: seed &+ 3 << 32)
            let record = Record(&random)
            let own = try JSONValueEncoder().encode(record)
            try expectEqual(JSONDecoder().decode(Record.self, from: Data(own)), record, "\(replay(seed))")
            try expectEqual(JSONValueDecoder().decode(Record.self, from: own), record, "\(replay(seed))")
            try expectEqual(JSONValueDecoder().decode(Record.self, from: Array(JSONEncoder().encode(record))), record, "\(replay(seed))")
        }
    }
}

extension JSONRandom {
    mutating func text() -> String {
        (try? JSONValue(parsing: self.string()))?.string ?? ""
    }
}
