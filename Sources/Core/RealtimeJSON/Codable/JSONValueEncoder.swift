/// Encodes `Encodable` values as compact JSON, without Foundation.
///
/// It behaves like a `JSONEncoder` with its defaults, also for `Date`, `Data`, `URL` and `Decimal`, except that it leaves `/` as it is.
/// Members come in the order in which they were encoded.
public struct JSONValueEncoder: Sendable {
    /// How the names of properties become the names of members.
    public enum KeyStrategy: Hashable, Sendable {
        /// As they are.
        case useDefaultKeys
        /// `oneTwo` becomes `one_two`. The keys of a dictionary stay as they are.
        case convertToSnakeCase
    }

    /// How a `Date` is written; `.deferredToDate` by default. `.iso8601` goes down to whole seconds.
    public var dates = JSONValueDecoder.DateStrategy.deferredToDate
    /// How a `Data` is written; `.base64` by default.
    public var data = JSONValueDecoder.DataStrategy.base64
    /// How the names of properties become the names of members; as they are by default.
    public var keys = KeyStrategy.useDefaultKeys
    /// Whether members come in the order of their names' bytes; `false` by default, which is faster.
    public var sortsKeys = false
    /// What the values that are encoded find in their encoder's `userInfo`.
    public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

    /// An encoder with the defaults.
    public init() {}

    /// The value as compact JSON in UTF-8. Throws `EncodingError` for numbers that are not finite and values that write nothing,
    /// and whatever the value's own `encode(to:)` throws.
    public func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(128)
        try self.encode(value, to: &bytes)
        return bytes
    }

    /// The value behind what is in `bytes` already, which stays as it was when this throws.
    package func encode<Value: Encodable>(_ value: Value, to bytes: inout [UInt8]) throws {
        guard self.sortsKeys else { return try EncodingBuffer.encode(value, self, to: &bytes) }
        var unsorted: [UInt8] = []
        try EncodingBuffer.encode(value, self, to: &unsorted)
        bytes += try Self.sorted(unsorted)
    }

    /// The value as compact JSON.
    public func encodeToString<Value: Encodable>(_ value: Value) throws -> String {
        String(decoding: try self.encode(value), as: UTF8.self)
    }

    /// The value as a tree.
    public func encodeToValue<Value: Encodable>(_ value: Value) throws -> JSONValue {
        try JSONValue(parsing: self.encode(value))
    }

    private static func sorted(_ bytes: [UInt8]) throws -> [UInt8] {
        try JSONValue(parsing: bytes, limits: JSONLimits(depth: .max)).sorted.bytes
    }
}

extension JSONValue {
    fileprivate var sorted: JSONValue {
        switch self {
        case .array(let elements): .array(elements.map(\.sorted))
        case .object(let members):
            .object(
                JSONObject(
                    members.map { (key: $0.key, value: $0.value.sorted) }.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }))
        default: self
        }
    }
}
