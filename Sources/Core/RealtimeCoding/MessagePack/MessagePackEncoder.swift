/// A MessagePack encoder that needs no Foundation.
///
/// ```swift
/// let encoder = MessagePackEncoder()
/// let bytes = try encoder.encode(Price(symbol: "ABC", value: 12.5))
/// ```
///
/// Each value is encoded in its shortest format:
/// - A `Float` has 32 bits, and a `Double` 64 bits.
/// - A `Date` is a timestamp, rounded to nanoseconds.
/// - `Data` and arrays of `UInt8` are binary values.
/// - A `Decimal`, `URL` or `UUID` is a string.
/// - A dictionary is a map with keys of its own key type, such as integers for `[Int: String]`.
public struct MessagePackEncoder: Sendable {
    /// The conversion of coding keys to the keys of maps. It doesn't affect dictionaries.
    public enum KeyStrategy: Hashable, Sendable {
        /// Keys aren't converted.
        case useDefaultKeys
        /// The first letter is converted to upper case, as in the names of properties in .NET: `userName` becomes `UserName`.
        case convertToPascalCase
    }

    /// The conversion of keys. The default is ``KeyStrategy/useDefaultKeys``.
    public var keys = KeyStrategy.useDefaultKeys
    /// Values for the types that are encoded, which find them in their encoder's `userInfo`.
    public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

    /// Creates an encoder with the default settings.
    public init() {}

    /// Encodes a value as MessagePack.
    ///
    /// - Parameter value: The value to encode.
    /// - Returns: The bytes.
    /// - Throws: `EncodingError` if the value doesn't encode anything, or contains a `Date` or `Decimal` that is not finite, or an error
    ///   thrown by the value's own `encode(to:)`.
    public func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(128)
        try self.encode(value, to: &bytes)
        return bytes
    }

    /// Encodes a value and appends it to `bytes`, which is left unchanged if encoding throws.
    package func encode<Value: Encodable>(_ value: Value, to bytes: inout [UInt8]) throws {
        try MessagePackEncodingBuffer.encode(value, self, to: &bytes)
    }

    /// Encodes a value as a dynamic value.
    ///
    /// - Parameter value: The value to encode.
    /// - Returns: The dynamic value.
    /// - Throws: `EncodingError` if the value doesn't encode anything, or contains a `Date` or `Decimal` that is not finite, or an error
    ///   thrown by the value's own `encode(to:)`.
    public func encodeToValue<Value: Encodable>(_ value: Value) throws -> MessagePackValue {
        try MessagePackValue(parsing: self.encode(value))
    }
}
