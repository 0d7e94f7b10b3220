/// A value in a packet of Primus, of any kind that one of its parsers can carry.
///
/// ```swift
/// let reading = try PrimusValue(encoding: Reading(sensor: 7, celsius: 21.5))
/// let celsius = reading["celsius"]?.double
/// ```
///
/// JSON carries the first seven kinds. The parsers differ in the others; each says which value it can't carry.
public indirect enum PrimusValue: Hashable, Sendable {
    /// `null`, and `undefined` of JavaScript.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A whole number. Parsers use this case for each whole number up to 2^53, in whichever form it was received.
    case int(Int64)
    /// Another number, which may be infinite or not a number.
    case double(Double)
    /// A string.
    case string(String)
    /// An array.
    case array([PrimusValue])
    /// An object.
    case object(Object)
    /// Bytes, such as a `Buffer` of Node.
    case bytes([UInt8])
    /// A point in time.
    case date(PrimusDate)
    /// A regular expression of JavaScript.
    case expression(pattern: String, flags: String)
    /// A value of a type that the application has registered with EJSON.
    case typed(name: String, PrimusValue)
    /// An extension value of MessagePack that has no other case, with its type.
    case extended(type: UInt8, [UInt8])

    /// The members of an object, in order. A key has one value: the last one.
    public struct Object: Hashable, Sendable {
        /// The members, in order.
        public private(set) var members: [(key: String, value: PrimusValue)]

        /// Creates an object without members.
        public init() { self.members = [] }

        /// Creates an object.
        ///
        /// - Parameter members: The members. If a key is repeated, the last value is used, in the place of the first one.
        public init(_ members: some Sequence<(key: String, value: PrimusValue)>) {
            self.members = Array(members)
            guard self.members.count > 1 else { return }
            // A string compares by canonical equivalence, and a key of JSON by its bytes.
            var positions: [[UInt8]: Int] = [:]
            var unique: [(key: String, value: PrimusValue)] = []
            unique.reserveCapacity(self.members.count)
            for member in self.members {
                let key = Array(member.key.utf8)
                if let position = positions[key] {
                    unique[position].value = member.value
                } else {
                    positions[key] = unique.count
                    unique.append(member)
                }
            }
            self.members = unique
        }

        /// The value of a key. Assigning `nil` removes the member.
        public subscript(key: String) -> PrimusValue? {
            get { self.members.first { $0.key.utf8.elementsEqual(key.utf8) }?.value }
            set {
                let index = self.members.firstIndex { $0.key.utf8.elementsEqual(key.utf8) }
                switch (index, newValue) {
                case (let index?, let value?): self.members[index].value = value
                case (let index?, nil): self.members.remove(at: index)
                case (nil, let value?): self.members.append((key, value))
                case (nil, nil): break
                }
            }
        }

        /// The number of members.
        public var count: Int { self.members.count }

        /// Objects are equal if they have the same members, in any order.
        public static func == (lhs: Self, rhs: Self) -> Bool {
            guard lhs.count == rhs.count else { return false }
            if zip(lhs.members, rhs.members).allSatisfy({ $0.key.utf8.elementsEqual($1.key.utf8) && $0.value == $1.value }) { return true }
            let values = Dictionary(uniqueKeysWithValues: rhs.members.map { (Array($0.key.utf8), $0.value) })
            return lhs.members.allSatisfy { values[Array($0.key.utf8)] == $0.value }
        }

        /// Combines the members, regardless of their order.
        public func hash(into hasher: inout Hasher) {
            hasher.combine(self.count)
            var combined = 0
            for member in self.members {
                var inner = Hasher()
                for byte in member.key.utf8 { inner.combine(byte) }
                inner.combine(member.value)
                combined ^= inner.finalize()
            }
            hasher.combine(combined)
        }
    }

    /// The Boolean value, or `nil` if the value is of another kind.
    public var bool: Bool? { if case .bool(let value) = self { value } else { nil } }

    /// The number as an `Int`, or `nil` if it isn't whole or doesn't fit, or the value is of another kind.
    public var int: Int? {
        switch self {
        case .int(let value): Int(exactly: value)
        case .double(let value): Int(exactly: value)
        default: nil
        }
    }

    /// The number as the nearest double, or `nil` if the value is of another kind.
    public var double: Double? {
        switch self {
        case .int(let value): Double(value)
        case .double(let value): value
        default: nil
        }
    }

    /// The string, or `nil` if the value is of another kind.
    public var string: String? { if case .string(let value) = self { value } else { nil } }

    /// The elements, or `nil` if the value isn't an array.
    public var array: [PrimusValue]? { if case .array(let value) = self { value } else { nil } }

    /// The object, or `nil` if the value is of another kind.
    public var object: Object? { if case .object(let value) = self { value } else { nil } }

    /// The bytes, or `nil` if the value is of another kind.
    public var bytes: [UInt8]? { if case .bytes(let value) = self { value } else { nil } }

    /// The point in time, or `nil` if the value is of another kind. JSON carries dates as strings.
    public var date: PrimusDate? { if case .date(let value) = self { value } else { nil } }

    /// Whether the value is `null`.
    public var isNull: Bool { if case .null = self { true } else { false } }

    /// The value of a key, or `nil` if the value isn't an object or has no such key.
    public subscript(key: String) -> PrimusValue? { self.object?[key] }

    /// An element, or `nil` if the value isn't an array or has no such element.
    public subscript(index: Int) -> PrimusValue? {
        guard case .array(let elements) = self, elements.indices.contains(index) else { return nil }
        return elements[index]
    }

    /// A number in the form of all parsers: whole numbers that JavaScript represents exactly are integers.
    static func number(_ value: Double) -> PrimusValue {
        guard abs(value) <= 0x1p53, let integer = Int64(exactly: value), value != 0 || value.sign == .plus else { return .double(value) }
        return .int(integer)
    }
}

extension PrimusValue: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    /// Creates `null`.
    public init(nilLiteral: ()) { self = .null }
    /// Creates a Boolean value.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    /// Creates a whole number.
    public init(integerLiteral value: Int64) { self = .int(value) }
    /// Creates a number.
    public init(floatLiteral value: Double) { self = .number(value) }
    /// Creates a string.
    public init(stringLiteral value: String) { self = .string(value) }
    /// Creates an array.
    public init(arrayLiteral elements: PrimusValue...) { self = .array(elements) }
    /// Creates an object. If a key is repeated, the last value is used.
    public init(dictionaryLiteral elements: (String, PrimusValue)...) {
        self = .object(Object(elements.map { (key: $0.0, value: $0.1) }))
    }
}
