import RealtimeSystem

/// A JSON value of any kind.
///
/// ```swift
/// let event = try JSONValue(parsing: #"{"name":"price","values":[12.5,13]}"#)
/// let first = event["values"]?[0]?.double
/// ```
public enum JSONValue: Sendable {
    /// `null`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A number, without loss of precision.
    case number(JSONNumber)
    /// A string.
    case string(String)
    /// An array.
    case array([JSONValue])
    /// An object.
    case object(JSONObject)

    /// Parses a JSON string.
    ///
    /// The parser accepts exactly the grammar of RFC 8259, without comments, trailing commas or a byte order mark. If an object repeats a
    /// key, the last value is used. An escaped lone surrogate is replaced by U+FFFD.
    ///
    /// - Parameters:
    ///   - text: One JSON value.
    ///   - limits: The limits on the size and depth of the text.
    /// - Throws: ``JSONError`` if the text isn't JSON or exceeds the limits.
    public init(parsing text: String, limits: CodingLimits = CodingLimits()) throws(JSONError) {
        try self.init(parsing: Array(text.utf8), isUTF8: true, limits: limits)
    }

    /// Parses JSON in UTF-8.
    ///
    /// The parser accepts exactly the grammar of RFC 8259, without comments, trailing commas or a byte order mark. If an object repeats a
    /// key, the last value is used. An escaped lone surrogate is replaced by U+FFFD.
    ///
    /// - Parameters:
    ///   - bytes: One JSON value, in UTF-8.
    ///   - limits: The limits on the size and depth of the text.
    /// - Throws: ``JSONError`` if the text isn't JSON or exceeds the limits.
    public init(parsing bytes: [UInt8], limits: CodingLimits = CodingLimits()) throws(JSONError) {
        try self.init(parsing: bytes, isUTF8: false, limits: limits)
    }

    private init(parsing bytes: [UInt8], isUTF8: Bool, limits: CodingLimits) throws(JSONError) {
        self = try bytes.withUnsafeBufferPointer { bytes throws(JSONError) in
            try Self(parsing: UnsafeRawBufferPointer(bytes), isUTF8: isUTF8, limits: limits)
        }
    }

    /// Parses JSON, optionally without validating that the bytes are UTF-8.
    package init(parsing bytes: UnsafeRawBufferPointer, isUTF8: Bool, limits: CodingLimits = CodingLimits()) throws(JSONError) {
        let tape = try JSONTape(bytes, isUTF8: isUTF8, limits: limits)
        self = tape.nodes.withUnsafeBufferPointer { JSONTape.value($0, 0, bytes) }
    }

    /// The string, or `nil` if the value is of another kind.
    public var string: String? {
        if case .string(let value) = self { value } else { nil }
    }

    /// The number as an `Int`, or `nil` if it isn't whole or doesn't fit, or the value is of another kind.
    public var int: Int? {
        if case .number(let value) = self { value.integer(as: Int.self) } else { nil }
    }

    /// The number as the nearest double, or `nil` if the value is of another kind.
    public var double: Double? {
        if case .number(let value) = self { value.double } else { nil }
    }

    /// The number, or `nil` if the value is of another kind.
    public var number: JSONNumber? {
        if case .number(let value) = self { value } else { nil }
    }

    /// The Boolean value, or `nil` if the value is of another kind.
    public var bool: Bool? {
        if case .bool(let value) = self { value } else { nil }
    }

    /// The elements of an array, or `nil` if the value is of another kind.
    public var array: [JSONValue]? {
        if case .array(let value) = self { value } else { nil }
    }

    /// The members of an object, or `nil` if the value is of another kind.
    public var object: JSONObject? {
        if case .object(let value) = self { value } else { nil }
    }

    /// Whether the value is `null`.
    public var isNull: Bool { self == .null }

    /// The value for a key of an object, or `nil` if there is none or the value is of another kind.
    ///
    /// Setting a value turns `null` into an object, and has no effect on other kinds of values. Setting `nil` removes the member.
    public subscript(key: String) -> JSONValue? {
        get { self.object?[key] }
        set {
            switch self {
            case .object(var members):
                self = .null
                members[key] = newValue
                self = .object(members)
            case .null:
                guard let newValue else { return }
                self = [key: newValue]
            default: break
            }
        }
    }

    /// The element at an index of an array, or `nil` if the index is out of range or the value is of another kind.
    public subscript(index: Int) -> JSONValue? {
        guard case .array(let elements) = self, elements.indices.contains(index) else { return nil }
        return elements[index]
    }

    /// The value as compact JSON in UTF-8.
    public var bytes: [UInt8] {
        var output: [UInt8] = []
        self.write(to: &output)
        return output
    }

    /// Appends the value as compact JSON in UTF-8.
    package func write(to output: inout [UInt8]) {
        switch self {
        case .null: JSONWriter.append(literal: "null", to: &output)
        case .bool(let value): JSONWriter.append(literal: value ? "true" : "false", to: &output)
        case .number(let value): value.write(to: &output)
        case .string(let value): JSONWriter.append(value, to: &output)
        case .array(let elements):
            output.append(UInt8(ascii: "["))
            for (index, element) in elements.enumerated() {
                if index > 0 { output.append(UInt8(ascii: ",")) }
                element.write(to: &output)
            }
            output.append(UInt8(ascii: "]"))
        case .object(let members):
            output.append(UInt8(ascii: "{"))
            for (index, member) in members.enumerated() {
                if index > 0 { output.append(UInt8(ascii: ",")) }
                JSONWriter.append(member.key, to: &output)
                output.append(UInt8(ascii: ":"))
                member.value.write(to: &output)
            }
            output.append(UInt8(ascii: "}"))
        }
    }
}

extension JSONValue: Hashable {
    /// Returns whether two values are equal. Strings and keys are compared byte by byte, and the order of an object's members doesn't
    /// matter.
    public static func == (lhs: Self, rhs: Self) -> Bool {
        switch (lhs, rhs) {
        case (.null, .null): true
        case (.bool(let left), .bool(let right)): left == right
        case (.number(let left), .number(let right)): left == right
        case (.string(let left), .string(let right)): left.hasBytes(of: right)
        case (.array(let left), .array(let right)): left == right
        case (.object(let left), .object(let right)): left == right
        case (.null, _), (.bool, _), (.number, _), (.string, _), (.array, _), (.object, _): false
        }
    }

    /// Hashes the value.
    public func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(0)
        case .bool(let value): hasher.combine(value)
        case .number(let value): hasher.combine(value)
        case .string(let value): hasher.combine(ByteString(value))
        case .array(let elements): hasher.combine(elements)
        case .object(let members): hasher.combine(members)
        }
    }
}

extension JSONValue: CustomStringConvertible {
    /// The value as compact JSON.
    public var description: String { String(decoding: self.bytes, as: UTF8.self) }
}

extension JSONValue: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByStringLiteral, ExpressibleByStringInterpolation, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    /// Creates `null` from a `nil` literal.
    public init(nilLiteral: ()) {
        self = .null
    }

    /// Creates `true` or `false` from a Boolean literal.
    public init(booleanLiteral value: Bool) {
        self = .bool(value)
    }

    /// Creates a number from an integer literal.
    public init(integerLiteral value: Int64) {
        self = .number(JSONNumber(value))
    }

    /// Creates a number from a floating-point literal, which must be finite.
    public init(floatLiteral value: Double) {
        self = .number(JSONNumber(floatLiteral: value))
    }

    /// Creates a string from a string literal.
    public init(stringLiteral value: String) {
        self = .string(value)
    }

    /// Creates an array from an array literal.
    public init(arrayLiteral elements: JSONValue...) {
        self = .array(elements)
    }

    /// Creates an object from a dictionary literal, in order. If a key is repeated, the last value is kept.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        self = .object(JSONObject(elements.map { (key: $0.0, value: $0.1) }))
    }
}
