import RealtimeCoding

extension PrimusValue {
    /// Decodes the value as a type of the application.
    ///
    /// Dates are decoded as `Date` or ``PrimusDate``, and bytes as `Data` or `[UInt8]`.
    ///
    /// - Parameter type: The type.
    /// - Returns: The decoded value.
    /// - Throws: `DecodingError` if the value doesn't match the type, or an error thrown by the type's own `init(from:)`.
    public func decode<Value: Decodable>(as type: Value.Type = Value.self) throws -> Value {
        if Value.self == PrimusValue.self, let value = self as? Value { return value }
        return try MessagePackDecoder().decode(type, from: self.messagePack(.types).bytes)
    }

    /// Encodes a value of the application.
    ///
    /// - Parameter value: The value. A `Date` becomes a date, and `Data` bytes.
    /// - Throws: `EncodingError`, or an error thrown by the value's own `encode(to:)`.
    public init<Value: Encodable>(encoding value: Value) throws {
        if let value = value as? PrimusValue {
            self = value
        } else {
            try self.init(messagePack: MessagePackEncoder().encodeToValue(value), .types)
        }
    }
}

extension PrimusValue: Codable {
    /// Decodes any value.
    ///
    /// - Parameter decoder: The decoder to read from.
    /// - Throws: `DecodingError` if the value is of an unknown kind.
    public init(from decoder: any Decoder) throws {
        if decoder.isMessagePackDecoder {
            try self.init(messagePack: MessagePackValue(from: decoder), .types)
        } else {
            self.init(json: try JSONValue(from: decoder))
        }
    }

    /// Encodes the value in the form of the connection's parser; without one, as JSON.
    ///
    /// - Parameter encoder: The encoder to write to.
    /// - Throws: An error of the encoder, or ``PrimusParserError`` for a value that JSON can't carry.
    public func encode(to encoder: any Encoder) throws {
        if encoder.isMessagePackEncoder {
            try self.messagePack(.types).encode(to: encoder)
        } else {
            try self.json().encode(to: encoder)
        }
    }
}
