/// A MessagePack decoder that needs no Foundation and enforces limits on its input.
///
/// ```swift
/// let decoder = MessagePackDecoder()
/// let price = try decoder.decode(Price.self, from: bytes)
/// ```
///
/// These forms are decoded:
/// - Numbers in any format that represents them exactly: a `Double` also from an integer, and an integer also from a whole
///   floating-point number.
/// - A `Date` from a timestamp, from a string in ISO 8601, and from the array of a timestamp and an offset in minutes that .NET writes
///   for a `DateTimeOffset`.
/// - `Data` and arrays of `UInt8` from binary values, strings and arrays of numbers.
/// - A `Decimal` from a string or a number, a `URL` or `UUID` from a string.
/// - Dictionaries from maps with keys of their own key type, such as `[Int: String]` or `[UUID: Int]`.
/// - ``MessagePackValue`` and ``JSONValue`` from any value; see ``JSONValue/init(from:)``.
///
/// If a map repeats a key, the last value is used. Invalid UTF-8 in a string is replaced by U+FFFD, unless ``rejectsInvalidUTF8`` is set.
public struct MessagePackDecoder: Sendable {
    /// The relation of the keys of maps to coding keys. It doesn't affect dictionaries.
    public enum KeyStrategy: Hashable, Sendable {
        /// Keys and coding keys are equal.
        case useDefaultKeys
        /// Keys and coding keys can differ in case, as `UserName` and `userName` do. A key that is equal takes precedence.
        case ignoreCase
    }

    /// The relation of keys to coding keys. The default is ``KeyStrategy/useDefaultKeys``.
    public var keys = KeyStrategy.useDefaultKeys
    /// Whether a string that isn't valid UTF-8 is an error. The default is `false`: invalid bytes are replaced by U+FFFD.
    public var rejectsInvalidUTF8 = false
    /// The limits on the size and depth of the input.
    public var limits = CodingLimits()
    /// Values for the types that are decoded, which find them in their decoder's `userInfo`.
    public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

    /// Creates a decoder with the default settings.
    public init() {}

    /// Decodes a value.
    ///
    /// - Parameters:
    ///   - type: The type to decode.
    ///   - bytes: One value in MessagePack.
    /// - Returns: The decoded value.
    /// - Throws: ``MessagePackError`` if the input isn't MessagePack or exceeds the limits, `DecodingError` if it doesn't match the type,
    ///   or an error thrown by the type's own `init(from:)`.
    public func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        try self.document(bytes).value(type, at: 0)
    }

    /// Decodes a value.
    ///
    /// - Parameters:
    ///   - type: The type to decode.
    ///   - bytes: One value in MessagePack. The byte offsets of errors count from the start of the slice.
    /// - Returns: The decoded value.
    /// - Throws: ``MessagePackError`` if the input isn't MessagePack or exceeds the limits, `DecodingError` if it doesn't match the type,
    ///   or an error thrown by the type's own `init(from:)`.
    public func decode<Value: Decodable>(_ type: Value.Type, from bytes: ArraySlice<UInt8>) throws -> Value {
        try self.decode(type, from: Array(bytes))
    }

    /// Decodes a value from a parsed value.
    ///
    /// - Parameters:
    ///   - type: The type to decode.
    ///   - value: The value. Byte offsets in errors refer to its encoding.
    /// - Returns: The decoded value.
    /// - Throws: ``MessagePackError`` if the input exceeds the limits, `DecodingError` if it doesn't match the type, or an error thrown by
    ///   the type's own `init(from:)`.
    public func decode<Value: Decodable>(_ type: Value.Type, from value: MessagePackValue) throws -> Value {
        try self.decode(type, from: value.bytes)
    }

    /// Decodes a value from a document in another format.
    ///
    /// - Parameters:
    ///   - type: The type to decode.
    ///   - bytes: The document.
    ///   - nodes: Its values. The limits don't apply to them.
    /// - Returns: The decoded value.
    /// - Throws: `DecodingError` if the values don't match the type, or an error thrown by the type's own `init(from:)`.
    package func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8], nodes: NodeList) throws -> Value {
        try MessagePackDocument(bytes: bytes, nodes: nodes.nodes, settings: self).value(type, at: 0)
    }

    func document(_ bytes: [UInt8]) throws(MessagePackError) -> MessagePackDocument {
        let tape = try bytes.withUnsafeBufferPointer { bytes throws(MessagePackError) in
            try MessagePackTape(
                UnsafeRawBufferPointer(bytes), in: 0..<bytes.count, limits: self.limits, rejectsInvalidUTF8: self.rejectsInvalidUTF8)
        }
        return MessagePackDocument(bytes: bytes, nodes: tape.nodes, settings: self)
    }
}
