/// Any value of JSON.
public enum JSONValue: Hashable, Sendable {
    /// `null`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A number, without loss.
    case number(JSONNumber)
    /// A string.
    case string(String)
    /// The elements of an array.
    case array([JSONValue])
    /// The members of an object.
    case object(JSONObject)

    /// Parses one JSON text as RFC 8259 has it: no comments, no trailing commas, nothing behind the value, no byte order mark.
    ///
    /// Half a surrogate pair, written as an escape, becomes U+FFFD. Of a member that is there twice the last one counts.
    public init(parsing text: String, limits: JSONLimits = JSONLimits()) throws(JSONError) {
        try self.init(parsing: Array(text.utf8), isUTF8: true, limits: limits)
    }

    /// Parses one JSON text, which must be UTF-8, in the same way.
    public init(parsing bytes: [UInt8], limits: JSONLimits = JSONLimits()) throws(JSONError) {
        try self.init(parsing: bytes, isUTF8: false, limits: limits)
    }

    private init(parsing bytes: [UInt8], isUTF8: Bool, limits: JSONLimits) throws(JSONError) {
        self = try bytes.withUnsafeBufferPointer { bytes throws(JSONError) in
            try Self(parsing: UnsafeRawBufferPointer(bytes), isUTF8: isUTF8, limits: limits)
        }
    }

    /// Parses one JSON text, which is not checked to be UTF-8 when `isUTF8` says so.
    package init(parsing bytes: UnsafeRawBufferPointer, isUTF8: Bool, limits: JSONLimits = JSONLimits()) throws(JSONError) {
        let tape = try JSONTape(bytes, isUTF8: isUTF8, limits: limits)
        self = tape.nodes.withUnsafeBufferPointer { JSONTape.value($0, 0, bytes) }
    }

    /// The string, if it is one.
    public var string: String? {
        if case .string(let value) = self { value } else { nil }
    }

    /// The number, if it is a whole one that fits.
    public var int: Int? {
        if case .number(let value) = self { value.integer(as: Int.self) } else { nil }
    }

    /// The nearest double, if it is a number.
    public var double: Double? {
        if case .number(let value) = self { value.double } else { nil }
    }

    /// The number with all its digits, if it is one.
    public var number: JSONNumber? {
        if case .number(let value) = self { value } else { nil }
    }

    /// The truth value, if it is one.
    public var bool: Bool? {
        if case .bool(let value) = self { value } else { nil }
    }

    /// The elements, if it is an array.
    public var array: [JSONValue]? {
        if case .array(let value) = self { value } else { nil }
    }

    /// The members, if it is an object.
    public var object: JSONObject? {
        if case .object(let value) = self { value } else { nil }
    }

    /// Whether it is `null`.
    public var isNull: Bool { self == .null }

    /// The member of this name; `nil` if there is none or this is no object. Setting it makes an object of a `null`, and does
    /// nothing to other kinds of value.
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

    /// The element at this place; `nil` if there is none or this is no array.
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

    package func write(to output: inout [UInt8]) {
        switch self {
        case .null: JSONWriter.append(word: "null", to: &output)
        case .bool(let value): JSONWriter.append(word: value ? "true" : "false", to: &output)
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

extension JSONValue: CustomStringConvertible {
    /// The value as compact JSON.
    public var description: String { String(decoding: self.bytes, as: UTF8.self) }
}

extension JSONValue: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByStringLiteral, ExpressibleByStringInterpolation, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    /// `null`.
    public init(nilLiteral: ()) {
        self = .null
    }

    /// `true` or `false`.
    public init(booleanLiteral value: Bool) {
        self = .bool(value)
    }

    /// A number.
    public init(integerLiteral value: Int64) {
        self = .number(JSONNumber(value))
    }

    /// A number, which must be finite.
    public init(floatLiteral value: Double) {
        self = .number(JSONNumber(floatLiteral: value))
    }

    /// A string.
    public init(stringLiteral value: String) {
        self = .string(value)
    }

    /// An array.
    public init(arrayLiteral elements: JSONValue...) {
        self = .array(elements)
    }

    /// An object with its members in this order.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        self = .object(JSONObject(elements.map { (key: $0.0, value: $0.1) }))
    }
}
