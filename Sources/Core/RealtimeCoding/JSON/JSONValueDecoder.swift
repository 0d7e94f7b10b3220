/// A JSON decoder that, unlike `JSONDecoder`, needs no Foundation, enforces limits on its input, and is several times faster.
///
/// ```swift
/// let decoder = JSONValueDecoder()
/// let price = try decoder.decode(Price.self, from: #"{"symbol":"ABC","value":12.5}"#)
/// ```
///
/// The decoder has the defaults of `JSONDecoder`, also for `Date`, `Data`, `URL` and `Decimal`. It differs in these cases:
/// - If an object repeats a key, the last value is used, as in most parsers. `JSONDecoder` uses the first.
/// - Text that isn't JSON throws a ``JSONError``, which contains the byte offset, instead of a `DecodingError`.
/// - Trailing commas, byte order marks and UTF-16 are rejected.
/// - A lone surrogate is replaced by U+FFFD, unless ``rejectsLoneSurrogates`` is set.
/// - ``DateStrategy/iso8601`` rejects dates that don't exist, and text after the date.
public struct JSONValueDecoder: Sendable {
    /// The JSON form of a `Date`.
    public enum DateStrategy: Hashable, Sendable {
        /// Seconds since the start of 2001 in UTC, the encoding of `Date` itself.
        case deferredToDate
        /// Seconds since the start of 1970 in UTC.
        case secondsSince1970
        /// Milliseconds since the start of 1970 in UTC.
        case millisecondsSince1970
        /// A string such as `2026-01-31T12:00:00Z`, optionally with a fraction of a second or another offset from UTC.
        case iso8601
    }

    /// The JSON form of a `Data`.
    public enum DataStrategy: Hashable, Sendable {
        /// A Base64 string.
        case base64
        /// An array of numbers, the encoding of `Data` itself.
        case deferredToData
    }

    /// The conversion of JSON keys to coding keys.
    public enum KeyStrategy: Hashable, Sendable {
        /// Keys aren't converted.
        case useDefaultKeys
        /// Snake case is converted to camel case: `one_two` becomes `oneTwo`. The keys of dictionaries aren't converted.
        case convertFromSnakeCase
    }

    /// The form of dates. The default is ``DateStrategy/deferredToDate``.
    public var dates = DateStrategy.deferredToDate
    /// The form of binary data. The default is ``DataStrategy/base64``.
    public var data = DataStrategy.base64
    /// The conversion of keys. The default is ``KeyStrategy/useDefaultKeys``.
    public var keys = KeyStrategy.useDefaultKeys
    /// Whether a string with a lone surrogate is an error. The default is `false`: the surrogate is replaced by U+FFFD.
    public var rejectsLoneSurrogates = false
    /// Whether an ISO 8601 date without a time zone, or without a time, is in UTC instead of invalid.
    package var assumesUTC = false
    /// Whether `Data` and arrays of bytes are also read from `{"type":"Buffer","data":[1,2,3]}`, the form that Node gives to a buffer.
    package var acceptsNodeBuffers = false
    /// The limits on the size and depth of the input.
    public var limits = CodingLimits()
    /// Values for the types that are decoded, which find them in their decoder's `userInfo`.
    public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

    /// Creates a decoder with the default settings.
    public init() {}

    /// Decodes a value from JSON in UTF-8.
    ///
    /// - Parameters:
    ///   - type: The type to decode.
    ///   - bytes: One JSON value, in UTF-8.
    /// - Returns: The decoded value.
    /// - Throws: ``JSONError`` if the input isn't JSON or exceeds the limits, `DecodingError` if it doesn't match the type, or an error
    ///   thrown by the type's own `init(from:)`.
    public func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        try self.document(bytes, isUTF8: false).value(type, at: 0)
    }

    /// Decodes a value from JSON in UTF-8.
    ///
    /// - Parameters:
    ///   - type: The type to decode.
    ///   - bytes: One JSON value, in UTF-8.
    /// - Returns: The decoded value.
    /// - Throws: ``JSONError`` if the input isn't JSON or exceeds the limits, `DecodingError` if it doesn't match the type, or an error
    ///   thrown by the type's own `init(from:)`.
    public func decode<Value: Decodable>(_ type: Value.Type, from bytes: ArraySlice<UInt8>) throws -> Value {
        try self.document(Array(bytes), isUTF8: false).value(type, at: 0)
    }

    /// Decodes a value from a JSON string.
    ///
    /// - Parameters:
    ///   - type: The type to decode.
    ///   - text: One JSON value.
    /// - Returns: The decoded value.
    /// - Throws: ``JSONError`` if the input isn't JSON or exceeds the limits, `DecodingError` if it doesn't match the type, or an error
    ///   thrown by the type's own `init(from:)`.
    public func decode<Value: Decodable>(_ type: Value.Type, from text: String) throws -> Value {
        try self.document(Array(text.utf8), isUTF8: true).value(type, at: 0)
    }

    /// Decodes a value from parsed JSON.
    ///
    /// - Parameters:
    ///   - type: The type to decode.
    ///   - value: The JSON value. Byte offsets in errors refer to its compact form.
    /// - Returns: The decoded value.
    /// - Throws: ``JSONError`` if the input exceeds the limits, `DecodingError` if it doesn't match the type, or an error thrown by the
    ///   type's own `init(from:)`.
    public func decode<Value: Decodable>(_ type: Value.Type, from value: JSONValue) throws -> Value {
        try self.document(value.bytes, isUTF8: true).value(type, at: 0)
    }

    /// Decodes a value from JSON that is known to be valid UTF-8, without validating that again.
    package func decode<Value: Decodable>(_ type: Value.Type, fromUTF8 bytes: [UInt8]) throws -> Value {
        try self.document(bytes, isUTF8: true).value(type, at: 0)
    }

    func document(_ bytes: [UInt8], isUTF8: Bool) throws(JSONError) -> JSONDocument {
        let tape = try bytes.withUnsafeBufferPointer { bytes throws(JSONError) in
            try JSONTape(UnsafeRawBufferPointer(bytes), isUTF8: isUTF8, limits: self.limits)
        }
        return JSONDocument(bytes: bytes, nodes: tape.nodes, settings: self)
    }
}
