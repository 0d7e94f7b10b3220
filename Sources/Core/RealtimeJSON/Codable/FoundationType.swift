import RealtimeEncoding
import RealtimeSystem

/// The Foundation types whose encoded form differs from what their own `Codable` conformance writes.
///
/// They are recognized by name because this module does not depend on Foundation. Values are created and read through the types'
/// own `Codable` conformance.
enum FoundationType {
    case date, data, url, decimal

    private static let known = Lock<[ObjectIdentifier: FoundationType?]>([:])

    init?(_ type: Any.Type) {
        let identifier = ObjectIdentifier(type)
        if let known = Self.known.withLock({ $0[identifier] }) {
            guard let known else { return nil }
            self = known
            return
        }
        let found = Self.named(type)
        Self.known.withLock { $0[identifier] = .some(found) }
        guard let found else { return nil }
        self = found
    }

    private static func named(_ type: Any.Type) -> FoundationType? {
        switch String(reflecting: type) {
        case "Foundation.Date", "FoundationEssentials.Date": .date
        case "Foundation.Data", "FoundationEssentials.Data": .data
        case "Foundation.URL", "FoundationEssentials.URL": .url
        case "Foundation.Decimal", "FoundationEssentials.Decimal", "__C.NSDecimal": .decimal
        default: nil
        }
    }
}

/// The seconds from 1970, the Unix epoch, to 2001, the reference date of `Date`.
let referenceDateOffset: Double = 978_307_200

extension JSONDocument {
    /// Decodes a value of a Foundation type.
    func value<Value: Decodable>(_ foundationType: FoundationType, _ type: Value.Type, at index: Int) throws -> Value {
        switch foundationType {
        case .date: try self.date(type, at: index)
        case .data: try self.data(type, at: index)
        case .url: try self.url(type, at: index)
        case .decimal: try self.decimal(type, at: index)
        }
    }

    /// Returns a decoder for a document in the form that the type's own `init(from:)` reads.
    private func decoder(for bytes: [UInt8] = [], _ nodes: [JSONNode]) -> NodeDecoder {
        NodeDecoder(document: JSONDocument(bytes: bytes, nodes: nodes, settings: JSONValueDecoder()), index: 0)
    }

    private func date<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value {
        let seconds: Double
        switch self.settings.dates {
        case .deferredToDate: seconds = try self.double(at: index)
        case .secondsSince1970: seconds = try self.double(at: index) - referenceDateOffset
        case .millisecondsSince1970: seconds = try self.double(at: index) / 1000 - referenceDateOffset
        case .iso8601:
            guard let value = ISO8601.secondsSince2001(try self.string(at: index), assumesUTC: self.settings.assumesUTC) else {
                throw self.corrupted("Expected an ISO 8601 date such as 2026-01-31T12:00:00Z.", at: index)
            }
            seconds = value
        }
        return try self.foundationDate(type, secondsSinceReferenceDate: seconds)
    }

    func foundationDate<Value: Decodable>(_ type: Value.Type, secondsSinceReferenceDate seconds: Double) throws -> Value {
        try Value(from: self.decoder([JSONNode(kind: .float, bits: seconds.bitPattern, end: 1)]))
    }

    private func data<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value {
        guard self.settings.data == .base64 else { return try Value(from: NodeDecoder(document: self, index: index)) }
        guard let bytes = Base64.decode(try self.string(at: index), ignoresPadBits: true) else {
            throw self.corrupted("The string is not valid Base64.", at: index)
        }
        return try self.foundationData(type, bytes)
    }

    func foundationData<Value: Decodable>(_ type: Value.Type, _ bytes: [UInt8]) throws -> Value {
        if let collection = type as? any RangeReplaceableCollection<UInt8>.Type, let value = Self.collect(collection, bytes) as? Value {
            return value
        }
        var nodes = [JSONNode(kind: .array, offset: 0, length: UInt32(bytes.count), end: UInt32(bytes.count + 1))]
        for (index, byte) in bytes.enumerated() { nodes.append(JSONNode(kind: .unsigned, bits: UInt64(byte), end: UInt32(index + 2))) }
        return try Value(from: self.decoder(nodes))
    }

    private static func collect<Bytes: RangeReplaceableCollection<UInt8>>(_ type: Bytes.Type, _ bytes: [UInt8]) -> Bytes {
        Bytes(bytes)
    }

    private func url<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value {
        let text = try self.string(at: index)
        let name = Array("relative".utf8)
        let bytes = name + Array(text.utf8)
        let nodes = [
            JSONNode(kind: .object, offset: 0, length: 1, end: 3),
            JSONNode(kind: .string, offset: 0, length: UInt32(name.count), end: 2),
            JSONNode(kind: .string, offset: UInt32(name.count), length: UInt32(bytes.count - name.count), end: 3),
        ]
        do {
            return try Value(from: self.decoder(for: bytes, nodes))
        } catch {
            throw self.corrupted("The string is not a valid URL.", at: index)
        }
    }

    private func decimal<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value {
        let node = self.nodes[index]
        guard node.kind.isNumber else { throw self.mismatch(type, at: index) }
        guard let digits = self.text(node, { DecimalDigits($0) }) else { throw self.unrepresentable(type, at: index) }
        return try self.foundationDecimal(type, digits)
    }

    func foundationDecimal<Value: Decodable>(_ type: Value.Type, _ digits: DecimalDigits) throws -> Value {
        var bytes: [UInt8] = []
        var nodes = [JSONNode(kind: .object, offset: 0, length: 5, end: 19)]
        func append(_ name: String) {
            let offset = bytes.count
            bytes += Array(name.utf8)
            nodes.append(
                JSONNode(kind: .string, offset: UInt32(offset), length: UInt32(bytes.count - offset), end: UInt32(nodes.count + 1)))
        }
        func append(_ name: String, _ value: Int) {
            append(name)
            nodes.append(JSONNode(kind: .signed, bits: UInt64(bitPattern: Int64(value)), end: UInt32(nodes.count + 1)))
        }
        func append(_ name: String, _ value: Bool) {
            append(name)
            nodes.append(JSONNode(kind: value ? .true : .false, bits: 0, end: UInt32(nodes.count + 1)))
        }
        let words = digits.words
        append("exponent", words.contains { $0 != 0 } ? digits.exponent : 0)
        append("length", words.lastIndex { $0 != 0 }.map { $0 + 1 } ?? 0)
        // `Decimal` represents NaN as a negative number of length zero.
        append("isNegative", digits.isNegative && words.contains { $0 != 0 })
        append("isCompact", false)
        append("mantissa")
        nodes.append(JSONNode(kind: .array, offset: 0, length: 8, end: 19))
        for word in words { nodes.append(JSONNode(kind: .unsigned, bits: UInt64(word), end: UInt32(nodes.count + 1))) }
        return try Value(from: self.decoder(for: bytes, nodes))
    }
}

/// A number in the representation of Foundation's `Decimal`: a mantissa of 128 bits and a power of ten in a byte. Further digits are
/// dropped.
struct DecimalDigits {
    private var high: UInt64 = 0
    private var low: UInt64 = 0
    private(set) var exponent = 0
    private(set) var isNegative = false

    /// Creates a number from text that the scanner has validated, or `nil` if the power of ten does not fit.
    init?(_ raw: UnsafeRawBufferPointer) {
        var isFraction = false
        var isFull = false
        for (index, byte) in raw.enumerated() {
            switch byte {
            case UInt8(ascii: "-"): self.isNegative = true
            case UInt8(ascii: "."): isFraction = true
            case UInt8(ascii: "0")...UInt8(ascii: "9"):
                if !isFull { isFull = !self.append(byte - UInt8(ascii: "0")) }
                if isFraction != isFull { self.exponent += isFraction ? -1 : 1 }
            default:
                self.exponent += JSONDigits.exponent(UnsafeRawBufferPointer(rebasing: raw[(index + 1)...]))
                guard (-128...127).contains(self.exponent) else { return nil }
                return
            }
        }
        guard (-128...127).contains(self.exponent) else { return nil }
    }

    private mutating func append(_ digit: UInt8) -> Bool {
        let product = self.low.multipliedFullWidth(by: 10)
        let (low, carry) = product.low.addingReportingOverflow(UInt64(digit))
        let (scaled, first) = self.high.multipliedReportingOverflow(by: 10)
        let (high, second) = scaled.addingReportingOverflow(product.high + (carry ? 1 : 0))
        if first || second { return false }
        (self.high, self.low) = (high, low)
        return true
    }

    /// The mantissa as eight words, the least significant first.
    var words: [UInt16] {
        [self.low, self.high].flatMap { half in (0..<4).map { UInt16(truncatingIfNeeded: half >> (16 * $0)) } }
    }
}
