/// A document in MessagePack.
final class MessagePackDocument: CodingDocument {
    let settings: MessagePackDecoder

    init(bytes: [UInt8], nodes: [CodingNode], settings: MessagePackDecoder, basePath: [any CodingKey] = []) {
        self.settings = settings
        let rules = KeyRules(ignoresCase: settings.keys == .ignoreCase, areOfAnyKind: true)
        super.init(bytes: bytes, nodes: nodes, basePath: basePath, keyRules: rules)
    }

    override var userInfo: [CodingUserInfoKey: Any] { self.settings.userInfo }

    override func makeDocument(bytes: [UInt8], nodes: [CodingNode], basePath: [any CodingKey]) -> CodingDocument {
        MessagePackDocument(bytes: bytes, nodes: nodes, settings: self.settings, basePath: basePath)
    }

    override func isSpecial(_ type: Any.Type) -> Bool {
        if case .plain = MessagePackType(type) { false } else { true }
    }

    /// Decodes a value of a type that is not decoded by its own conformance, or that depends on the kind of a map's keys. Returns `nil`
    /// for other types.
    override func specialValue<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value? {
        switch MessagePackType(type) {
        case .plain: return nil
        case .foundation(.date): return try self.foundationDate(type, secondsSinceReferenceDate: self.seconds(type, at: index))
        case .foundation(.data): return try self.foundationData(type, self.binary(at: index))
        case .foundation(.url): return try self.foundationURL(type, self.string(at: index), at: index)
        case .foundation(.decimal): return try self.decimal(type, at: index)
        case .bytes:
            if type == ContiguousArray<UInt8>.self { return try ContiguousArray(self.binary(at: index)) as? Value }
            return try self.binary(at: index) as? Value
        case .dictionary, .integerDictionary:
            return try Value(from: NodeDecoder(document: self, index: index, keepsKeys: true, readsPairs: true))
        }
    }

    /// Converts a node and its nested values.
    func tree(at index: Int) -> MessagePackValue {
        self.bytes.withUnsafeBytes { bytes in
            self.nodes.withUnsafeBufferPointer { MessagePackValue($0, index, bytes) }
        }
    }

    // MARK: Binary and extension values

    /// The bytes of a binary value, of a string, or of an array of numbers. In its oldest version, MessagePack had no binary values, and
    /// wrote them as strings.
    func binary(at index: Int) throws -> [UInt8] {
        let node = self.nodes[index]
        switch node.kind {
        case .binary, .string, .repairedString: return self.text(node) { Array($0) }
        case .array:
            var bytes: [UInt8] = []
            bytes.reserveCapacity(Int(node.length))
            var child = index + 1
            while child < Int(node.end) {
                bytes.append(try self.integer(UInt8.self, at: child))
                child = Int(self.nodes[child].end)
            }
            return bytes
        default: throw self.mismatch([UInt8].self, at: index)
        }
    }

    func extensionValue(at index: Int) throws -> (type: Int8, data: [UInt8]) {
        let node = self.nodes[index]
        guard node.kind == .ext else {
            throw DecodingError.typeMismatch(MessagePackValue.self, self.context("Expected an extension value.", at: index))
        }
        return (self.extensionType(node), self.text(node) { Array($0) })
    }

    private func extensionType(_ node: CodingNode) -> Int8 { Int8(bitPattern: self.bytes[Int(node.offset) - 1]) }

    func timestamp(_ type: Any.Type, at index: Int) throws -> MessagePackTimestamp {
        let node = self.nodes[index]
        guard node.kind == .ext, self.extensionType(node) == MessagePackTimestamp.type else { throw self.mismatch(type, at: index) }
        if let timestamp = self.text(node, { MessagePackTimestamp($0) }) { return timestamp }
        throw self.corrupted("The timestamp is invalid.", at: index)
    }

    override func extensionText(at index: Int, as type: Any.Type) throws -> String {
        guard let text = try self.timestamp(type, at: index).iso8601 else {
            throw self.corrupted("The timestamp is out of range for ISO 8601.", at: index)
        }
        return text
    }

    /// The seconds of a date since the start of 2001.
    ///
    /// Besides a timestamp, a date can be a string in ISO 8601, or an array of a timestamp and an offset from UTC in minutes. The
    /// serializers of .NET write a `DateTimeOffset` in that form, with the local time as the timestamp.
    private func seconds(_ type: Any.Type, at index: Int) throws -> Double {
        let node = self.nodes[index]
        switch node.kind {
        case .string:
            if let seconds = ISO8601.secondsSince2001(try self.string(at: index)) { return seconds }
            throw self.corrupted("Expected an ISO 8601 date such as 2026-01-31T12:00:00Z.", at: index)
        case .array where node.length == 2 && self.nodes[index + 1].kind == .ext:
            let minutes = try self.integer(Int16.self, at: index + 2)
            return try self.timestamp(type, at: index + 1).secondsSinceReferenceDate - Double(minutes) * 60
        default: return try self.timestamp(type, at: index).secondsSinceReferenceDate
        }
    }

    /// Decodes a `Decimal` from a string, as it is encoded, or from a number.
    private func decimal<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value {
        let node = self.nodes[index]
        var text: String
        switch node.kind {
        case .string: text = try self.string(at: index)
        case .signed: text = Int64(bitPattern: node.bits).description
        case .unsigned: text = node.bits.description
        case .float: text = Double(bitPattern: node.bits).description
        // The digits of the shorter type are the number that was meant.
        case .single: text = Float(Double(bitPattern: node.bits)).description
        default: throw self.mismatch(type, at: index)
        }
        let digits: DecimalDigits? = text.withUTF8 { utf8 in
            let bytes = UnsafeRawBufferPointer(utf8)
            return NumberText.isValid(bytes) ? DecimalDigits(bytes) : nil
        }
        guard let digits else { throw self.unrepresentable(type, at: index) }
        return try self.foundationDecimal(type, digits)
    }
}
