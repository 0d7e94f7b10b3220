/// Decodes `Decodable` values from JSON, without Foundation and several times faster than its `JSONDecoder`.
///
/// It behaves like a `JSONDecoder` with its defaults, also for `Date`, `Data`, `URL` and `Decimal`. What differs:
/// - Of a member that is there twice the last one counts, as in most parsers; `JSONDecoder` takes the first.
/// - Text that is not JSON throws ``JSONError``, which knows the offset, and not `DecodingError`. A trailing comma in an array,
///   a byte order mark and UTF-16 are refused; half a surrogate pair becomes U+FFFD unless ``refusesLoneSurrogates`` is set.
/// - `.iso8601` takes the whole format and nothing else: no garbage behind the date, no 30th of February.
public struct JSONValueDecoder: Sendable {
    /// How a `Date` is written.
    public enum DateStrategy: Hashable, Sendable {
        /// Seconds since 2001, what `Date` itself does.
        case deferredToDate
        /// Seconds since 1970.
        case secondsSince1970
        /// Milliseconds since 1970.
        case millisecondsSince1970
        /// Text such as `2026-01-31T12:00:00Z`, also with a fraction of a second or another offset.
        case iso8601
    }

    /// How a `Data` is written.
    public enum DataStrategy: Hashable, Sendable {
        /// Text in Base64.
        case base64
        /// An array of numbers, what `Data` itself does.
        case deferredToData
    }

    /// How the names of members become the names of properties.
    public enum KeyStrategy: Hashable, Sendable {
        /// As they are.
        case useDefaultKeys
        /// `one_two` becomes `oneTwo`. The keys of a dictionary stay as they are.
        case convertFromSnakeCase
    }

    /// How a `Date` is written; `.deferredToDate` by default.
    public var dates = DateStrategy.deferredToDate
    /// How a `Data` is written; `.base64` by default.
    public var data = DataStrategy.base64
    /// How the names of members become the names of properties; as they are by default.
    public var keys = KeyStrategy.useDefaultKeys
    /// Whether a string with half a surrogate pair throws instead of becoming U+FFFD; `false` by default.
    public var refusesLoneSurrogates = false
    /// How deep and how long a text may be.
    public var limits = JSONLimits()
    /// What the types that are decoded find in their decoder's `userInfo`.
    public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

    /// A decoder with the defaults.
    public init() {}

    /// Decodes one JSON text in UTF-8. Throws ``JSONError`` for text that is not JSON, `DecodingError` where it does not fit the type,
    /// and whatever the type's own `init(from:)` throws.
    public func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        try self.document(bytes, isUTF8: false).value(type, at: 0)
    }

    /// Decodes one JSON text in the same way.
    public func decode<Value: Decodable>(_ type: Value.Type, from bytes: ArraySlice<UInt8>) throws -> Value {
        try self.document(Array(bytes), isUTF8: false).value(type, at: 0)
    }

    /// Decodes one JSON text in the same way.
    public func decode<Value: Decodable>(_ type: Value.Type, from text: String) throws -> Value {
        try self.document(Array(text.utf8), isUTF8: true).value(type, at: 0)
    }

    /// Decodes a value that was parsed before. Offsets in errors count in its compact form.
    public func decode<Value: Decodable>(_ type: Value.Type, from value: JSONValue) throws -> Value {
        try self.document(value.bytes, isUTF8: true).value(type, at: 0)
    }

    /// Decodes one JSON text that is known to be UTF-8.
    package func decode<Value: Decodable>(_ type: Value.Type, fromUTF8 bytes: [UInt8]) throws -> Value {
        try self.document(bytes, isUTF8: true).value(type, at: 0)
    }

    private func document(_ bytes: [UInt8], isUTF8: Bool) throws(JSONError) -> JSONDocument {
        let tape = try bytes.withUnsafeBufferPointer { bytes throws(JSONError) in
            try JSONTape(UnsafeRawBufferPointer(bytes), isUTF8: isUTF8, limits: self.limits)
        }
        return JSONDocument(bytes: bytes, nodes: tape.nodes, settings: self)
    }
}
