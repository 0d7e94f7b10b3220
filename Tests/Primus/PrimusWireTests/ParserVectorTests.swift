import PrimusWire
import RealtimeCoding
import RealtimeCore
import RealtimeEncoding
import TestSupport
import Testing

/// Packets of the original parsers.
@Suite struct ParserVectorTests {
    struct Vector: CustomTestStringConvertible, Sendable {
        let coding: PrimusCoding
        let name: String
        let value: PrimusValue
        let packet: TransportMessage
        var testDescription: String { "\(self.coding.kind) \(self.name)" }
    }

    static let vectors: [Vector] = {
        Vectors.lines("primus/parsers-8.0.9.txt").filter { !$0.hasPrefix("#") }.compactMap { line in
            let fields = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
            guard fields.count == 4, let coding = PrimusCoding(PrimusParserKind(name: fields[0])), let bytes = Hex.decode(fields[3]),
                let value = Self.value(fields[2])
            else { return nil }
            return Vector(
                coding: coding, name: fields[1], value: value, packet: TransportMessage(coding.messageKind ?? .binary, bytes))
        }
    }()

    private static func value(_ text: String) -> PrimusValue? {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        switch parts[0] {
        case "date": return Double(parts[1]).map { .date(PrimusDate(milliseconds: $0)) }
        case "bytes": return Hex.decode(parts[1]).map { .bytes($0) }
        case "nan": return .double(.nan)
        case "inf": return .double(.infinity)
        case "-inf": return .double(-.infinity)
        case "regexp": return .expression(pattern: "a+", flags: "gi")
        default: return try? PrimusCoding.json.value(Array(text.utf8))
        }
    }

    @Test func `all vectors are read`() {
        expectEqual(Self.vectors.count, 179)
        expectEqual(Set(Self.vectors.map(\.coding)), [.json, .ejson, .messagePack, .binary])
    }

    @Test(arguments: Self.vectors)
    func `a packet of the original is decoded`(vector: Vector) throws {
        let value = try vector.coding.value(of: vector.packet)
        switch vector.value {
        case .double(let number) where number.isNaN: expectEqual(value.double?.isNaN, true)
        // JSON carries dates as text.
        case .date(let date) where vector.coding == .json:
            try expectEqual(vector.coding.decode(PrimusDate.self, of: vector.packet), date)
        default: expectEqual(value, vector.value)
        }
    }

    @Test(arguments: Self.vectors)
    func `a value is encoded as by the original, or as another packet with the same value`(vector: Vector) throws {
        let packet = try vector.coding.message(vector.value, sendsBytes: false)
        let isExpected =
            switch (vector.coding, vector.value) {
            // The decoder of Node fails on integers with 64 bits.
            case (.binary, .int(let number)) where Int32(exactly: number) == nil && UInt32(exactly: number) == nil:
                hex(packet.bytes) == "cb" + hex((0..<8).map { UInt8(truncatingIfNeeded: Double(number).bitPattern >> (56 - 8 * $0)) })
            // Without the digits that are zero.
            case (.json, .date): try vector.coding.decode(PrimusDate.self, of: packet) == vector.value.date
            // Primus escapes line separators after the parser.
            case (.json, .string("\u{2028}\u{2029}")), (.ejson, .string("\u{2028}\u{2029}")): text(packet) == #""\u2028\u2029""#
            // Node has several types of bytes.
            case (.messagePack, .bytes): try vector.coding.value(of: packet) == vector.value
            default: packet == vector.packet
            }
        expect(isExpected, "\(hex(packet.bytes)) instead of \(hex(vector.packet.bytes))")
    }

    @Test(arguments: Self.vectors)
    func `a packet that is cut off is an error, and never another value`(vector: Vector) throws {
        guard vector.coding.messageKind == .binary else { return }
        for end in 0..<vector.packet.bytes.count {
            let cut = TransportMessage(.binary, Array(vector.packet.bytes[..<end]))
            #expect(throws: PrimusParserError.self) { try vector.coding.value(of: cut) }
        }
    }
}
