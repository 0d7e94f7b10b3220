extension Encoder {
    /// Whether the value is encoded as MessagePack, by this module.
    package var isMessagePackEncoder: Bool { (self as? NodeEncoder)?.buffer is MessagePackEncodingBuffer }

    /// Encodes an extension value of MessagePack.
    ///
    /// - Parameters:
    ///   - type: The type of the value. Negative types are reserved by the specification.
    ///   - data: The data of the value.
    /// - Throws: `EncodingError` if the encoder isn't a ``MessagePackEncoder``, or the value was already encoded.
    package func encodeMessagePackExtension(type: Int8, data: [UInt8]) throws {
        guard let encoder = self as? NodeEncoder, let buffer = encoder.buffer as? MessagePackEncodingBuffer else {
            let context = EncodingError.Context(
                codingPath: self.codingPath, debugDescription: "Extension values can only be encoded as MessagePack.")
            throw EncodingError.invalidValue(type, context)
        }
        try encoder.single { MessagePackWriter.append(ext: type, data, to: &buffer.bytes) }
    }
}

extension Decoder {
    /// Whether the value is decoded from MessagePack, by this module.
    package var isMessagePackDecoder: Bool { (self as? NodeDecoder)?.document is MessagePackDocument }

    /// Returns the type of an extension value of MessagePack.
    ///
    /// - Throws: `DecodingError` if the value isn't an extension value.
    package func messagePackExtensionType() throws -> Int8 { try self.messagePackExtension().type }

    /// Returns the data of an extension value of MessagePack.
    ///
    /// - Throws: `DecodingError` if the value isn't an extension value.
    package func messagePackExtensionData() throws -> [UInt8] { try self.messagePackExtension().data }

    private func messagePackExtension() throws -> (type: Int8, data: [UInt8]) {
        guard let decoder = self as? NodeDecoder, let document = decoder.document as? MessagePackDocument else {
            let context = DecodingError.Context(
                codingPath: self.codingPath, debugDescription: "Extension values can only be decoded from MessagePack.")
            throw DecodingError.typeMismatch(MessagePackValue.self, context)
        }
        return try document.extensionValue(at: decoder.index)
    }
}
