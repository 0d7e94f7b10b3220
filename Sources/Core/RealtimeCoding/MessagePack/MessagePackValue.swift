import RealtimeSystem

/// A MessagePack value of any kind.
///
/// ```swift
/// let event = try MessagePackValue(parsing: bytes)
/// let first = event["values"]?[0]?.double
/// ```
public enum MessagePackValue: Sendable {
    /// A key of a map and its value.
    public struct Member: Hashable, Sendable {
        /// The key, of any kind.
        public var key: MessagePackValue
        /// The value.
        public var value: MessagePackValue

        /// Creates a member of a map.
        ///
        /// - Parameters:
        ///   - key: The key.
        ///   - value: The value.
        public init(_ key: MessagePackValue, _ value: MessagePackValue) {
            self.key = key
            self.value = value
        }
    }

    /// Nil.
    case `nil`
    /// `true` or `false`.
    case bool(Bool)
    /// An integer. The parser uses this case for all integers up to `Int64.max`.
    case int(Int64)
    /// A positive integer. The parser uses this case for integers above `Int64.max`.
    case uint(UInt64)
    /// A floating-point number of 32 bits.
    case float(Float)
    /// A floating-point number of 64 bits.
    case double(Double)
    /// A string.
    case string(String)
    /// Bytes.
    case binary([UInt8])
    /// An array.
    case array([MessagePackValue])
    /// A map: its keys and values, in order. A map can repeat a key.
    case map([Member])
    /// An extension value, with its type. The specification reserves negative types.
    case ext(Int8, [UInt8])

    /// A timestamp, which is an extension value of type -1, or the form of a `Date`.
    ///
    /// - Parameter timestamp: The point in time.
    /// - Returns: The extension value.
    public static func timestamp(_ timestamp: MessagePackTimestamp) -> MessagePackValue {
        .ext(MessagePackTimestamp.type, timestamp.data)
    }

    /// Parses MessagePack.
    ///
    /// Invalid UTF-8 in strings is replaced by U+FFFD.
    ///
    /// - Parameters:
    ///   - bytes: One value in MessagePack.
    ///   - limits: The limits on the size and depth of the bytes.
    /// - Throws: ``MessagePackError`` if the bytes aren't MessagePack or exceed the limits.
    public init(parsing bytes: [UInt8], limits: CodingLimits = CodingLimits()) throws(MessagePackError) {
        self = try bytes.withUnsafeBufferPointer { bytes throws(MessagePackError) in
            let bytes = UnsafeRawBufferPointer(bytes)
            let tape = try MessagePackTape(bytes, in: 0..<bytes.count, limits: limits)
            return tape.nodes.withUnsafeBufferPointer { Self($0, 0, bytes) }
        }
    }

    /// Converts a node and its nested values.
    init(_ nodes: UnsafeBufferPointer<CodingNode>, _ index: Int, _ bytes: UnsafeRawBufferPointer) {
        let node = nodes[index]
        switch node.kind {
        case .null, .missing: self = .nil
        case .false: self = .bool(false)
        case .true: self = .bool(true)
        case .signed: self = .int(Int64(bitPattern: node.bits))
        case .unsigned: self = .uint(node.bits)
        case .single: self = .float(Float(Double(bitPattern: node.bits)))
        case .float, .integer, .number: self = .double(Double(bitPattern: node.bits))
        case .string, .escapedString, .repairedString:
            self = .string(String(decoding: UnsafeRawBufferPointer(rebasing: bytes[node.range]), as: UTF8.self))
        case .binary: self = .binary(Array(bytes[node.range]))
        case .ext: self = .ext(Int8(bitPattern: bytes[Int(node.offset) - 1]), Array(bytes[node.range]))
        case .array:
            var elements: [MessagePackValue] = []
            elements.reserveCapacity(Int(node.length))
            var child = index + 1
            while child < Int(node.end) {
                elements.append(MessagePackValue(nodes, child, bytes))
                child = Int(nodes[child].end)
            }
            self = .array(elements)
        case .object:
            var members: [Member] = []
            members.reserveCapacity(Int(node.length))
            var child = index + 1
            while child < Int(node.end) {
                let value = Int(nodes[child].end)
                members.append(Member(MessagePackValue(nodes, child, bytes), MessagePackValue(nodes, value, bytes)))
                child = Int(nodes[value].end)
            }
            self = .map(members)
        }
    }

    /// The value as MessagePack.
    public var bytes: [UInt8] {
        var output: [UInt8] = []
        self.write(to: &output)
        return output
    }

    /// Appends the value as MessagePack.
    package func write(to output: inout [UInt8]) {
        switch self {
        case .nil: output.append(0xC0)
        case .bool(let value): output.append(value ? 0xC3 : 0xC2)
        case .int(let value): MessagePackWriter.append(value, to: &output)
        case .uint(let value): MessagePackWriter.append(value, to: &output)
        case .float(let value): MessagePackWriter.append(value, to: &output)
        case .double(let value): MessagePackWriter.append(value, to: &output)
        case .string(let value): MessagePackWriter.append(value, to: &output)
        case .binary(let bytes): bytes.withUnsafeBytes { MessagePackWriter.append(binary: $0, to: &output) }
        case .ext(let type, let data): MessagePackWriter.append(ext: type, data, to: &output)
        case .array(let elements):
            MessagePackWriter.append(arrayHeader: elements.count, to: &output)
            for element in elements { element.write(to: &output) }
        case .map(let members):
            MessagePackWriter.append(mapHeader: members.count, to: &output)
            for member in members {
                member.key.write(to: &output)
                member.value.write(to: &output)
            }
        }
    }
}

extension MessagePackValue {
    /// Whether the value is nil.
    public var isNil: Bool {
        if case .nil = self { true } else { false }
    }

    /// The Boolean value, or `nil` if the value is of another kind.
    public var bool: Bool? {
        if case .bool(let value) = self { value } else { nil }
    }

    /// The integer, or `nil` if the value is of another kind or doesn't fit.
    public var int64: Int64? {
        switch self {
        case .int(let value): value
        case .uint(let value): Int64(exactly: value)
        default: nil
        }
    }

    /// The integer, or `nil` if the value is of another kind or doesn't fit.
    public var uint64: UInt64? {
        switch self {
        case .int(let value): UInt64(exactly: value)
        case .uint(let value): value
        default: nil
        }
    }

    /// The nearest double of a number, or `nil` if the value is of another kind.
    public var double: Double? {
        switch self {
        case .int(let value): Double(value)
        case .uint(let value): Double(value)
        case .float(let value): Double(value)
        case .double(let value): value
        default: nil
        }
    }

    /// The string, or `nil` if the value is of another kind.
    public var string: String? {
        if case .string(let value) = self { value } else { nil }
    }

    /// The bytes of a binary value, or `nil` if the value is of another kind.
    public var binary: [UInt8]? {
        if case .binary(let value) = self { value } else { nil }
    }

    /// The elements of an array, or `nil` if the value is of another kind.
    public var array: [MessagePackValue]? {
        if case .array(let value) = self { value } else { nil }
    }

    /// The members of a map, or `nil` if the value is of another kind.
    public var map: [Member]? {
        if case .map(let value) = self { value } else { nil }
    }

    /// The point in time of a timestamp, or `nil` if the value is of another kind.
    public var timestamp: MessagePackTimestamp? {
        guard case .ext(MessagePackTimestamp.type, let data) = self else { return nil }
        return data.withUnsafeBytes { MessagePackTimestamp($0) }
    }

    /// The value of the last member of a map with this key, or `nil` if there is none or the value is of another kind.
    ///
    /// - Parameter key: The key, such as a string or an integer.
    public func value(for key: MessagePackValue) -> MessagePackValue? { self.map?.last { $0.key == key }?.value }

    /// The value for a key of a map, or `nil` if there is none or the value is of another kind. If a key is repeated, the last value is
    /// returned.
    public subscript(key: String) -> MessagePackValue? { self.value(for: .string(key)) }

    /// The element at an index of an array, or `nil` if the index is out of range or the value is of another kind.
    public subscript(index: Int) -> MessagePackValue? {
        guard case .array(let elements) = self, elements.indices.contains(index) else { return nil }
        return elements[index]
    }
}

extension MessagePackValue: Hashable {
    /// Returns whether two values are equal.
    ///
    /// Integers are equal if their values are, strings are compared byte by byte, and the members of maps in order. A number that is not
    /// an integer isn't equal to one of another kind.
    public static func == (lhs: Self, rhs: Self) -> Bool {
        switch (lhs, rhs) {
        case (.nil, .nil): true
        case (.bool(let left), .bool(let right)): left == right
        case (.int(let left), .int(let right)): left == right
        case (.uint(let left), .uint(let right)): left == right
        case (.int(let left), .uint(let right)): left == right
        case (.uint(let left), .int(let right)): left == right
        case (.float(let left), .float(let right)): left == right
        case (.double(let left), .double(let right)): left == right
        case (.string(let left), .string(let right)): left.hasBytes(of: right)
        case (.binary(let left), .binary(let right)): left == right
        case (.array(let left), .array(let right)): left == right
        case (.map(let left), .map(let right)): left == right
        case (.ext(let left, let leftData), .ext(let right, let rightData)): left == right && leftData == rightData
        default: false
        }
    }

    /// Hashes the value.
    public func hash(into hasher: inout Hasher) {
        switch self {
        case .nil: hasher.combine(0)
        case .bool(let value): hasher.combine(value)
        // Equal integers have equal bits, because the sets of values that only one of the cases has don't overlap.
        case .int(let value): hasher.combine(value)
        case .uint(let value): hasher.combine(Int64(bitPattern: value))
        case .float(let value): hasher.combine(value)
        case .double(let value): hasher.combine(value)
        case .string(let value): hasher.combine(ByteString(value))
        case .binary(let bytes): hasher.combine(bytes)
        case .array(let elements): hasher.combine(elements)
        case .map(let members): hasher.combine(members)
        case .ext(let type, let data):
            hasher.combine(type)
            hasher.combine(data)
        }
    }
}

extension MessagePackValue: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByStringLiteral, ExpressibleByStringInterpolation, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    /// Creates nil from a `nil` literal.
    public init(nilLiteral: ()) {
        self = .nil
    }

    /// Creates `true` or `false` from a Boolean literal.
    public init(booleanLiteral value: Bool) {
        self = .bool(value)
    }

    /// Creates an integer from an integer literal.
    public init(integerLiteral value: Int64) {
        self = .int(value)
    }

    /// Creates a floating-point number of 64 bits from a literal.
    public init(floatLiteral value: Double) {
        self = .double(value)
    }

    /// Creates a string from a string literal.
    public init(stringLiteral value: String) {
        self = .string(value)
    }

    /// Creates an array from an array literal.
    public init(arrayLiteral elements: MessagePackValue...) {
        self = .array(elements)
    }

    /// Creates a map from a dictionary literal, in order.
    public init(dictionaryLiteral elements: (MessagePackValue, MessagePackValue)...) {
        self = .map(elements.map { Member($0.0, $0.1) })
    }
}
