extension JSONObject: Codable {
    /// Decodes any object, like ``JSONValue/init(from:)``.
    ///
    /// - Parameter decoder: The decoder to read from.
    /// - Throws: `DecodingError` if the value isn't an object, or can't be represented in JSON.
    public init(from decoder: any Decoder) throws {
        guard let object = try JSONValue(from: decoder).object else {
            throw DecodingError.typeMismatch(
                Self.self, DecodingError.Context(codingPath: decoder.codingPath, debugDescription: "The value is not an object."))
        }
        self = object
    }

    /// Encodes the object, like ``JSONValue/encode(to:)``.
    ///
    /// - Parameter encoder: The encoder to write to.
    /// - Throws: An error of the encoder.
    public func encode(to encoder: any Encoder) throws { try JSONValue.object(self).encode(to: encoder) }
}

extension JSONNumber: Codable {
    /// Decodes any number, like ``JSONValue/init(from:)``.
    ///
    /// - Parameter decoder: The decoder to read from.
    /// - Throws: `DecodingError` if the value isn't a number.
    public init(from decoder: any Decoder) throws {
        guard let number = try JSONValue(from: decoder).number else {
            throw DecodingError.typeMismatch(
                Self.self, DecodingError.Context(codingPath: decoder.codingPath, debugDescription: "The value is not a number."))
        }
        self = number
    }

    /// Encodes the number, like ``JSONValue/encode(to:)``.
    ///
    /// - Parameter encoder: The encoder to write to.
    /// - Throws: An error of the encoder.
    public func encode(to encoder: any Encoder) throws { try JSONValue.number(self).encode(to: encoder) }
}

extension JSONValue: Codable {
    /// Decodes any value.
    ///
    /// With a decoder other than ``JSONValueDecoder``, numbers have the precision of `Int64`, `UInt64` or `Double`. From MessagePack, a
    /// binary value is decoded as a Base64 string, a timestamp as a string in ISO 8601, and a key that is a number or a Boolean value as
    /// its text. To decode every value of MessagePack without loss, use ``MessagePackValue``.
    ///
    /// - Parameter decoder: The decoder to read from.
    /// - Throws: `DecodingError` if the value can't be represented in JSON, as infinite numbers, other extension values and keys of other
    ///   kinds can't.
    public init(from decoder: any Decoder) throws {
        if let decoder = decoder as? NodeDecoder, let document = decoder.document as? JSONDocument {
            self = document.tree(at: decoder.index)
            return
        }
        self = try DynamicValue.decode(from: decoder)
    }

    /// Encodes the value.
    ///
    /// With an encoder other than ``JSONValueEncoder``, numbers are encoded as `Int64`, `UInt64` or `Double`.
    ///
    /// - Parameter encoder: The encoder to write to.
    /// - Throws: An error of the encoder.
    public func encode(to encoder: any Encoder) throws {
        if let encoder = encoder as? NodeEncoder { return try encoder.single { try self.append(to: encoder.buffer) } }
        switch self {
        case .array(let elements):
            var container = encoder.unkeyedContainer()
            for element in elements { try container.encode(element) }
        case .object(let members):
            var container = encoder.container(keyedBy: ValueKey.self)
            for member in members { try container.encode(member.value, forKey: ValueKey(member.key)) }
        default:
            var container = encoder.singleValueContainer()
            switch self {
            case .bool(let value): try container.encode(value)
            case .string(let value): try container.encode(value)
            case .number(let value):
                if let value = value.int64 {
                    try container.encode(value)
                } else if let value = value.uint64 {
                    try container.encode(value)
                } else {
                    try container.encode(value.double)
                }
            default: try container.encodeNil()
            }
        }
    }

    /// Appends the value to the output of any format.
    private func append(to buffer: EncodingBuffer) throws {
        if let buffer = buffer as? JSONEncodingBuffer { return self.write(to: &buffer.bytes) }
        switch self {
        case .null: buffer.appendNil()
        case .bool(let value): buffer.append(value)
        case .number(let number): try number.append(to: buffer)
        case .string(let value): buffer.append(value)
        case .array(let elements):
            buffer.appendStart(of: .array, count: elements.count)
            for index in elements.indices {
                buffer.appendStart(ofEntry: nil, isFirst: index == 0, .dictionary)
                try elements[index].append(to: buffer)
            }
            buffer.appendEnd(ofCounted: .array)
        case .object(let members):
            buffer.appendStart(of: .object, count: members.count)
            for (index, member) in members.enumerated() {
                buffer.appendStart(ofEntry: member.key, isFirst: index == 0, .dictionary)
                try member.value.append(to: buffer)
            }
            buffer.appendEnd(ofCounted: .object)
        }
    }
}

extension JSONValue: DynamicElement {
    init?(_ value: DynamicValue<JSONValue>) {
        switch value {
        case .null: self = .null
        case .bool(let value): self = .bool(value)
        case .signed(let value): self = .number(JSONNumber(value))
        case .unsigned(let value): self = .number(JSONNumber(value))
        case .double(let value):
            guard let number = JSONNumber(value) else { return nil }
            self = .number(number)
        case .string(let value): self = .string(value)
        case .array(let elements): self = .array(elements)
        case .object(let members): self = .object(JSONObject(members))
        }
    }
}
