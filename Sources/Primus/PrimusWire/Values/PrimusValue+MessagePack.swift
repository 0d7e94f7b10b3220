import RealtimeCoding

/// The types of msgpack-lite's extension values.
///
/// Source: `lib/ext-packer.js` and `lib/ext-unpacker.js` of msgpack-lite 0.1.26.
enum MessagePackExtensionType {
    /// The classes of errors, whose data is the message: `EvalError`, `RangeError`, `ReferenceError`, `SyntaxError`, `TypeError`, `URIError`.
    static let errors: ClosedRange<UInt8> = 0x01...0x06
    static let expression: UInt8 = 0x0A
    /// Objects that wrap a value: `Boolean`, `String`, `Number`.
    static let bool: UInt8 = 0x0B
    static let string: UInt8 = 0x0C
    static let date: UInt8 = 0x0D
    static let error: UInt8 = 0x0E
    static let number: UInt8 = 0x0F
    static let uint8Array: UInt8 = 0x12
    static let uint8ClampedArray: UInt8 = 0x19
    static let arrayBuffer: UInt8 = 0x1A
    static let buffer: UInt8 = 0x1B
    static let dataView: UInt8 = 0x1D
    /// The timestamp of the specification, which this module uses between values and types of the application.
    static let timestamp = UInt8(bitPattern: MessagePackTimestamp.type)
    /// The types of EJSON, between values and types of the application. msgpack-lite doesn't use it.
    static let typed: UInt8 = 0x70
}

extension PrimusValue {
    /// The dialect of MessagePack in which a value is written.
    enum MessagePackDialect {
        /// The one of msgpack-lite.
        case wire
        /// The one of `MessagePackEncoder` and `MessagePackDecoder`, with timestamps. Carries every value.
        case types
    }

    /// The number of extension values in each other, which limits the stack: the depth of MessagePack begins anew in each.
    private static let extensionDepth = 32

    /// Creates a value from MessagePack in one of the dialects.
    ///
    /// - Throws: `PrimusParserError` for an extension value whose data is invalid.
    init(messagePack value: MessagePackValue, _ dialect: MessagePackDialect) throws(PrimusParserError) {
        try self.init(messagePack: value, dialect, extensions: Self.extensionDepth)
    }

    private init(messagePack value: MessagePackValue, _ dialect: MessagePackDialect, extensions: Int) throws(PrimusParserError) {
        switch value {
        case .nil: self = .null
        case .bool(let value): self = .bool(value)
        case .int(let value): self = .int(value)
        case .uint(let value): self = .double(Double(value))
        case .float(let value): self = .number(Double(value))
        case .double(let value): self = .number(value)
        case .string(let value): self = .string(value)
        case .binary(let bytes): self = .bytes(bytes)
        case .array(let elements):
            var values: [PrimusValue] = []
            values.reserveCapacity(elements.count)
            for element in elements { values.append(try PrimusValue(messagePack: element, dialect, extensions: extensions)) }
            self = .array(values)
        case .map(let members):
            var pairs: [(key: String, value: PrimusValue)] = []
            pairs.reserveCapacity(members.count)
            for member in members {
                pairs.append((try Self.key(member.key), try PrimusValue(messagePack: member.value, dialect, extensions: extensions)))
            }
            self = .object(Object(pairs))
        case .ext(let type, let data): self = try Self.extended(UInt8(bitPattern: type), data, dialect, extensions: extensions)
        }
    }

    private static func key(_ value: MessagePackValue) throws(PrimusParserError) -> String {
        switch value {
        case .string(let text): return text
        case .int(let number): return "\(number)"
        case .uint(let number): return "\(number)"
        case .bool(let flag): return "\(flag)"
        default: throw PrimusParserError(.invalidPacket, "The packet isn't valid for the parser msgpack: a key of a map isn't a string.")
        }
    }

    private static func extended(
        _ type: UInt8, _ data: [UInt8], _ dialect: MessagePackDialect, extensions: Int
    ) throws(PrimusParserError) -> PrimusValue {
        switch type {
        case MessagePackExtensionType.timestamp:
            guard let timestamp = MessagePackValue.ext(MessagePackTimestamp.type, data).timestamp else { throw Self.invalid(type) }
            return .received(PrimusDate(timestamp))
        case MessagePackExtensionType.date:
            guard let milliseconds = try Self.scalar(type, data).double else { throw Self.invalid(type) }
            return .received(PrimusDate(milliseconds: milliseconds))
        case MessagePackExtensionType.bool, MessagePackExtensionType.string, MessagePackExtensionType.number:
            return try Self.scalar(type, data)
        case MessagePackExtensionType.expression:
            guard case .array(let parts) = try Self.parsed(type, data, depth: 1), parts.count == 2, case .string(let pattern) = parts[0],
                case .string(let flags) = parts[1]
            else { throw Self.invalid(type) }
            return .expression(pattern: pattern, flags: flags)
        case MessagePackExtensionType.uint8Array, MessagePackExtensionType.uint8ClampedArray, MessagePackExtensionType.arrayBuffer,
            MessagePackExtensionType.buffer, MessagePackExtensionType.dataView:
            return .bytes(data)
        case MessagePackExtensionType.typed where dialect == .types:
            guard extensions > 0, case .array(let parts) = try Self.parsed(type, data, depth: 16), parts.count == 2,
                case .string(let name) = parts[0]
            else { throw Self.invalid(type) }
            return .typed(name: name, try PrimusValue(messagePack: parts[1], dialect, extensions: extensions - 1))
        default: return .extended(type: type, data)
        }
    }

    /// The data of an extension value, which is MessagePack itself.
    private static func parsed(_ type: UInt8, _ data: [UInt8], depth: Int) throws(PrimusParserError) -> MessagePackValue {
        guard data.count <= 1 << 16, let value = try? MessagePackValue(parsing: data, limits: CodingLimits(depth: depth)) else {
            throw Self.invalid(type)
        }
        return value
    }

    /// The number, text or Boolean value in the data of an extension value.
    private static func scalar(_ type: UInt8, _ data: [UInt8]) throws(PrimusParserError) -> PrimusValue {
        switch try Self.parsed(type, data, depth: 1) {
        case .ext, .array, .map: throw Self.invalid(type)
        case let value: return try PrimusValue(messagePack: value, .wire)
        }
    }

    private static func invalid(_ type: UInt8) -> PrimusParserError {
        PrimusParserError(
            .invalidPacket, "The packet isn't valid for the parser msgpack: the extension value of type \(type) has invalid data.")
    }

    /// The value in MessagePack.
    ///
    /// - Throws: `PrimusParserError` for a value that the dialect doesn't carry.
    func messagePack(_ dialect: MessagePackDialect) throws(PrimusParserError) -> MessagePackValue {
        switch self {
        case .null: return .nil
        case .bool(let value): return .bool(value)
        case .int(let value):
            // msgpack-lite writes larger numbers as floating-point numbers.
            if dialect == .wire, Int32(exactly: value) == nil { return .double(Double(value)) }
            return .int(value)
        case .double(let value): return .double(value)
        case .string(let value): return .string(value)
        case .bytes(let bytes): return .binary(bytes)
        case .array(let values):
            var elements: [MessagePackValue] = []
            elements.reserveCapacity(values.count)
            for value in values { elements.append(try value.messagePack(dialect)) }
            return .array(elements)
        case .object(let object):
            var members: [MessagePackValue.Member] = []
            members.reserveCapacity(object.count)
            for member in object.members { members.append(.init(.string(member.key), try member.value.messagePack(dialect))) }
            return .map(members)
        case .date(let date):
            guard let timestamp = date.timestamp else {
                throw PrimusParserError(.unsupportedValue, "JavaScript can't represent the date \(date.milliseconds).")
            }
            if dialect == .types { return .timestamp(timestamp) }
            let milliseconds = try PrimusValue.number(date.milliseconds).messagePack(.wire)
            return .ext(Int8(bitPattern: MessagePackExtensionType.date), milliseconds.bytes)
        case .expression(let pattern, let flags):
            let data = MessagePackValue.array([.string(pattern), .string(flags)]).bytes
            return .ext(Int8(bitPattern: MessagePackExtensionType.expression), data)
        case .typed(let name, let value):
            guard dialect == .types else {
                throw PrimusParserError(
                    .unsupportedValue, "The parser msgpack can't carry a value of the type \"\(name)\". Use ejson, or send its members.")
            }
            let data = MessagePackValue.array([.string(name), try value.messagePack(.types)]).bytes
            return .ext(Int8(bitPattern: MessagePackExtensionType.typed), data)
        case .extended(let type, let data): return .ext(Int8(bitPattern: type), data)
        }
    }
}
