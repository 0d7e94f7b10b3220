import RealtimeEncoding
import RealtimeSystem

extension JSONDocument {
    /// Decodes a value of a type that is not decoded by its own conformance, or that depends on the kind of a map's keys. Returns `nil`
    /// for other types.
    func messagePackValue<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value? {
        switch MessagePackType(type) {
        case .plain: return nil
        case .foundation(let foundationType): return try self.messagePackValue(foundationType, type, at: index)
        case .bytes:
            if type == ContiguousArray<UInt8>.self { return try ContiguousArray(self.binary(at: index)) as? Value }
            return try self.binary(at: index) as? Value
        case .dictionary, .integerDictionary:
            return try Value(from: NodeDecoder(document: self, index: index, keepsKeys: true, readsPairs: true))
        }
    }

    private func messagePackValue<Value: Decodable>(
        _ foundationType: FoundationType, _ type: Value.Type, at index: Int
    ) throws -> Value {
        switch foundationType {
        case .date: return try self.foundationDate(type, secondsSinceReferenceDate: self.seconds(type, at: index))
        case .data: return try self.foundationData(type, self.binary(at: index))
        case .url: return try self.value(.url, type, at: index)
        case .decimal: return try self.decimal(type, at: index)
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

    private func extensionType(_ node: JSONNode) -> Int8 { Int8(bitPattern: self.bytes[Int(node.offset) - 1]) }

    func timestamp(_ type: Any.Type, at index: Int) throws -> MessagePackTimestamp {
        let node = self.nodes[index]
        guard node.kind == .ext, self.extensionType(node) == MessagePackTimestamp.type else { throw self.mismatch(type, at: index) }
        if let timestamp = self.text(node, { MessagePackTimestamp($0) }) { return timestamp }
        throw self.corrupted("The timestamp is invalid.", at: index)
    }

    /// The seconds of a date since the start of 2001.
    ///
    /// Besides a timestamp, a date can be a string in ISO 8601, or an array of a timestamp and an offset from UTC in minutes. The
    /// serializers of .NET write a `DateTimeOffset` in that form, with the local time as the timestamp.
    private func seconds(_ type: Any.Type, at index: Int) throws -> Double {
        let node = self.nodes[index]
        switch node.kind {
        case .string:
            if let seconds = ISO8601.secondsSince2001(try self.string(at: index), assumesUTC: self.settings.assumesUTC) { return seconds }
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
            return JSONText.isNumber(bytes) ? DecimalDigits(bytes) : nil
        }
        guard let digits else { throw self.unrepresentable(type, at: index) }
        return try self.foundationDecimal(type, digits)
    }

    // MARK: Keys

    /// The integer of a key, or `nil` if the key is another value.
    func integerKey(at index: Int) -> Int? {
        let node = self.nodes[index]
        return node.kind == .signed ? Int(exactly: Int64(bitPattern: node.bits)) : nil
    }

    /// The name of a key that isn't a string, or `nil` if it has none: `5` of the integer 5, and `true` of the Boolean value.
    func nameOfKey(at index: Int) -> String? {
        let node = self.nodes[index]
        switch node.kind {
        case .signed: return Int64(bitPattern: node.bits).description
        case .unsigned: return node.bits.description
        case .float: return Double(bitPattern: node.bits).description
        case .single: return Float(Double(bitPattern: node.bits)).description
        case .true: return "true"
        case .false: return "false"
        default: return nil
        }
    }

    /// The index of the value of the last member with this name, or else of the last one whose name differs in case only.
    func findIgnoringCase(_ name: UnsafeBufferPointer<UInt8>, in index: Int) -> Int? {
        if let index = self.find(name, in: index) { return index }
        var found: Int?
        let end = Int(self.nodes[index].end)
        var child = index + 1
        while child < end {
            let key = self.nodes[child]
            let value = Int(key.end)
            if key.kind.isString, self.text(key, { Self.isEqualIgnoringCase($0, UnsafeRawBufferPointer(name)) }) { found = value }
            child = Int(self.nodes[value].end)
        }
        return found
    }

    private static func isEqualIgnoringCase(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        var isASCII = true
        if left.count == right.count {
            var isEqual = true
            for index in 0..<left.count {
                let (first, second) = (left[index], right[index])
                if first | second >= 0x80 { isASCII = false }
                if first == second { continue }
                let lower = first | 0x20
                if lower != second | 0x20 || !(UInt8(ascii: "a")...UInt8(ascii: "z")).contains(lower) { isEqual = false }
            }
            if isEqual || isASCII { return isEqual }
        } else if !left.contains(where: { $0 >= 0x80 }) || !right.contains(where: { $0 >= 0x80 }) {
            // The lengths of a letter's cases differ only outside of ASCII.
            return false
        }
        return String(decoding: left, as: UTF8.self).lowercased().hasBytes(of: String(decoding: right, as: UTF8.self).lowercased())
    }

    // MARK: Dynamic values

    /// Converts a node and its nested values to a ``JSONValue``.
    func messagePackTree(at index: Int) throws -> JSONValue {
        let node = self.nodes[index]
        switch node.kind {
        case .null, .missing: return .null
        case .false: return .bool(false)
        case .true: return .bool(true)
        case .signed: return .number(JSONNumber(Int64(bitPattern: node.bits)))
        case .unsigned: return .number(JSONNumber(node.bits))
        case .float, .single, .integer, .number:
            guard let number = JSONNumber(Double(bitPattern: node.bits)) else { throw self.unrepresentable(JSONValue.self, at: index) }
            return .number(number)
        case .string, .escapedString, .repairedString: return .string(self.text(node) { String(decoding: $0, as: UTF8.self) })
        case .binary: return .string(self.text(node) { Base64.encode(Array($0)) })
        case .ext:
            guard self.extensionType(node) == MessagePackTimestamp.type else { throw self.mismatch(JSONValue.self, at: index) }
            guard let text = try self.timestamp(JSONValue.self, at: index).iso8601 else {
                throw self.corrupted("The timestamp is out of range for ISO 8601.", at: index)
            }
            return .string(text)
        case .array:
            var elements: [JSONValue] = []
            elements.reserveCapacity(Int(node.length))
            var child = index + 1
            while child < Int(node.end) {
                elements.append(try self.messagePackTree(at: child))
                child = Int(self.nodes[child].end)
            }
            return .array(elements)
        case .object:
            var members: [JSONObject.Element] = []
            members.reserveCapacity(Int(node.length))
            var child = index + 1
            while child < Int(node.end) {
                guard let name = self.rawKey(at: child) else { throw self.mismatch(String.self, at: child) }
                let value = Int(self.nodes[child].end)
                members.append((name, try self.messagePackTree(at: value)))
                child = Int(self.nodes[value].end)
            }
            return .object(JSONObject(members))
        }
    }
}

extension JSONText {
    /// Whether the text is a number in the grammar of JSON.
    static func isNumber(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard var scanner = try? JSONScanner(bytes, isUTF8: true, limits: JSONLimits()), (try? scanner.number()) != nil else {
            return false
        }
        return scanner.position == bytes.count
    }
}

extension JSONValue {
    /// Appends the value as MessagePack.
    func writeMessagePack(to output: inout [UInt8]) {
        switch self {
        case .null: output.append(0xC0)
        case .bool(let value): output.append(value ? 0xC3 : 0xC2)
        case .number(let number): number.writeMessagePack(to: &output)
        case .string(let value): MessagePackWriter.append(value, to: &output)
        case .array(let elements):
            MessagePackWriter.append(arrayHeader: elements.count, to: &output)
            for element in elements { element.writeMessagePack(to: &output) }
        case .object(let members):
            MessagePackWriter.append(mapHeader: members.count, to: &output)
            for member in members {
                MessagePackWriter.append(member.key, to: &output)
                member.value.writeMessagePack(to: &output)
            }
        }
    }
}
