import RealtimeSystem

/// The Foundation types whose encoded form differs from what their own `Codable` conformance writes.
///
/// They are recognized by name because this module does not depend on Foundation. Values are created and read through the types'
/// own `Codable` conformance.
enum FoundationType {
    case date, data, url, decimal

    private struct Known {
        var types: [ObjectIdentifier: FoundationType?] = [:]
        /// The last type and what it is: most often, the messages of one type are decoded one after another.
        var last: (type: ObjectIdentifier, found: FoundationType?)?
    }

    private static let known = Lock(Known())

    init?(_ type: Any.Type) {
        let identifier = ObjectIdentifier(type)
        let known = Self.known.withLock { known -> FoundationType?? in
            if let last = known.last, last.type == identifier { return .some(last.found) }
            guard let found = known.types[identifier] else { return nil }
            known.last = (identifier, found)
            return .some(found)
        }
        if let known {
            guard let known else { return nil }
            self = known
            return
        }
        let found = Self.named(type)
        Self.known.withLock { $0.types[identifier] = .some(found) }
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

extension CodingDocument {
    /// Returns a decoder for values in the form that a type's own `init(from:)` reads.
    private func decoder(for bytes: [UInt8] = [], _ nodes: [CodingNode]) -> NodeDecoder {
        NodeDecoder(document: CodingDocument(bytes: bytes, nodes: nodes), index: 0)
    }

    /// Creates a `Date`.
    func foundationDate<Value: Decodable>(_ type: Value.Type, secondsSinceReferenceDate seconds: Double) throws -> Value {
        try Value(from: self.decoder([CodingNode(kind: .float, bits: seconds.bitPattern, end: 1)]))
    }

    /// Creates a `Data`.
    func foundationData<Value: Decodable>(_ type: Value.Type, _ bytes: [UInt8]) throws -> Value {
        if let collection = type as? any RangeReplaceableCollection<UInt8>.Type, let value = Self.collect(collection, bytes) as? Value {
            return value
        }
        var nodes = [CodingNode(kind: .array, offset: 0, length: UInt32(bytes.count), end: UInt32(bytes.count + 1))]
        for (index, byte) in bytes.enumerated() { nodes.append(CodingNode(kind: .unsigned, bits: UInt64(byte), end: UInt32(index + 2))) }
        return try Value(from: self.decoder(nodes))
    }

    private static func collect<Bytes: RangeReplaceableCollection<UInt8>>(_ type: Bytes.Type, _ bytes: [UInt8]) -> Bytes {
        Bytes(bytes)
    }

    /// Creates a `URL`.
    ///
    /// - Throws: `DecodingError` if the text isn't a URL.
    func foundationURL<Value: Decodable>(_ type: Value.Type, _ text: String, at index: Int) throws -> Value {
        let name = Array("relative".utf8)
        let bytes = name + Array(text.utf8)
        let nodes = [
            CodingNode(kind: .object, offset: 0, length: 1, end: 3),
            CodingNode(kind: .string, offset: 0, length: UInt32(name.count), end: 2),
            CodingNode(kind: .string, offset: UInt32(name.count), length: UInt32(bytes.count - name.count), end: 3),
        ]
        do {
            return try Value(from: self.decoder(for: bytes, nodes))
        } catch {
            throw self.corrupted("The string is not a valid URL.", at: index)
        }
    }

    /// Creates a `Decimal`.
    func foundationDecimal<Value: Decodable>(_ type: Value.Type, _ digits: DecimalDigits) throws -> Value {
        var bytes: [UInt8] = []
        var nodes = [CodingNode(kind: .object, offset: 0, length: 5, end: 19)]
        func append(_ name: String) {
            let offset = bytes.count
            bytes += Array(name.utf8)
            nodes.append(
                CodingNode(kind: .string, offset: UInt32(offset), length: UInt32(bytes.count - offset), end: UInt32(nodes.count + 1)))
        }
        func append(_ name: String, _ value: Int) {
            append(name)
            nodes.append(CodingNode(kind: .signed, bits: UInt64(bitPattern: Int64(value)), end: UInt32(nodes.count + 1)))
        }
        func append(_ name: String, _ value: Bool) {
            append(name)
            nodes.append(CodingNode(kind: value ? .true : .false, bits: 0, end: UInt32(nodes.count + 1)))
        }
        let words = digits.words
        append("exponent", words.contains { $0 != 0 } ? digits.exponent : 0)
        append("length", words.lastIndex { $0 != 0 }.map { $0 + 1 } ?? 0)
        // `Decimal` represents NaN as a negative number of length zero.
        append("isNegative", digits.isNegative && words.contains { $0 != 0 })
        append("isCompact", false)
        append("mantissa")
        nodes.append(CodingNode(kind: .array, offset: 0, length: 8, end: 19))
        for word in words { nodes.append(CodingNode(kind: .unsigned, bits: UInt64(word), end: UInt32(nodes.count + 1))) }
        return try Value(from: self.decoder(for: bytes, nodes))
    }
}

/// The encoding of a `URL` by its own conformance to `Codable`.
struct URLParts: Decodable {
    var relative: String?
    var base: String?

    /// The text of the URL, relative to its base.
    var text: String {
        let relative = self.relative ?? ""
        return self.base.map { RelativeURL.resolve(relative, against: $0) } ?? relative
    }
}
