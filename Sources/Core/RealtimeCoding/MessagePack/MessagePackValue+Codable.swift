import RealtimeEncoding

extension MessagePackValue: Codable {
    /// Decodes any value.
    ///
    /// With a decoder other than ``MessagePackDecoder``, numbers have the precision of `Int64`, `UInt64` or `Double`.
    ///
    /// - Parameter decoder: The decoder to read from.
    /// - Throws: `DecodingError` if the value is of an unknown kind.
    public init(from decoder: any Decoder) throws {
        if let decoder = decoder as? NodeDecoder, let document = decoder.document as? MessagePackDocument {
            self = document.tree(at: decoder.index)
            return
        }
        self = try DynamicValue.decode(from: decoder)
    }

    /// Encodes the value.
    ///
    /// With an encoder other than ``MessagePackEncoder``, the value is encoded as one that JSON can represent, where possible: a
    /// timestamp as a string in ISO 8601, and a binary value as a Base64 string.
    ///
    /// - Parameter encoder: The encoder to write to.
    /// - Throws: An error of the encoder, or `EncodingError` if the encoder isn't a ``MessagePackEncoder``, and the value contains an
    ///   extension value other than a timestamp, or a map with keys that aren't strings, integers or Boolean values.
    public func encode(to encoder: any Encoder) throws {
        if let encoder = encoder as? NodeEncoder, let buffer = encoder.buffer as? MessagePackEncodingBuffer {
            return try encoder.single { self.write(to: &buffer.bytes) }
        }
        switch self {
        case .array(let elements):
            var container = encoder.unkeyedContainer()
            for element in elements { try container.encode(element) }
        case .map(let members):
            var container = encoder.container(keyedBy: ValueKey.self)
            for member in members {
                guard let name = member.key.name else { throw self.unsupported("a map with such a key", encoder) }
                try container.encode(member.value, forKey: ValueKey(name))
            }
        default:
            var container = encoder.singleValueContainer()
            switch self {
            case .bool(let value): try container.encode(value)
            case .int(let value): try container.encode(value)
            case .uint(let value): try container.encode(value)
            case .float(let value): try container.encode(value)
            case .double(let value): try container.encode(value)
            case .string(let value): try container.encode(value)
            case .binary(let bytes): try container.encode(Base64.encode(bytes))
            case .ext:
                guard let text = self.timestamp?.iso8601 else { throw self.unsupported("an extension value", encoder) }
                try container.encode(text)
            default: try container.encodeNil()
            }
        }
    }

    /// The name of a key in JSON, or `nil` if it has none.
    private var name: String? {
        switch self {
        case .string(let value): value
        case .int(let value): value.description
        case .uint(let value): value.description
        case .bool(let value): value.description
        default: nil
        }
    }

    private func unsupported(_ kind: String, _ encoder: any Encoder) -> EncodingError {
        let context = EncodingError.Context(
            codingPath: encoder.codingPath, debugDescription: "The encoder cannot represent \(kind). Use a MessagePackEncoder.")
        return .invalidValue(self, context)
    }
}

extension MessagePackValue: DynamicElement {
    init?(_ value: DynamicValue<MessagePackValue>) {
        switch value {
        case .null: self = .nil
        case .bool(let value): self = .bool(value)
        case .signed(let value): self = .int(value)
        case .unsigned(let value): self = .uint(value)
        case .double(let value): self = .double(value)
        case .string(let value): self = .string(value)
        case .array(let elements): self = .array(elements)
        case .object(let members): self = .map(members.map { Member(.string($0.key), $0.value) })
        }
    }
}
