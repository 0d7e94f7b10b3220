import RealtimeCoding
import RealtimeEncoding

/// The wrappers of EJSON: objects with one or two members, whose names begin with a dollar sign.
///
/// Source: the npm package `ejson`, which the parser `ejson` of Primus uses.
extension PrimusValue {
    private enum EJSONKey {
        static let date = "$date"
        static let binary = "$binary"
        static let special = "$InfNaN"
        static let expression = "$regexp"
        static let flags = "$flags"
        static let type = "$type"
        static let value = "$value"
        static let escape = "$escape"
    }

    /// Creates a value from EJSON. An object that resembles a wrapper, but isn't valid as one, remains an object, as in the original.
    init(ejson value: JSONValue) {
        switch value {
        case .array(let elements): self = .array(elements.map { PrimusValue(ejson: $0) })
        case .object(let object): self = Self.wrapped(object) ?? .object(Self.members(object))
        default: self.init(json: value)
        }
    }

    private static func members(_ object: JSONObject) -> Object {
        Object(object.map { (key: $0.key, value: PrimusValue(ejson: $0.value)) })
    }

    private static func wrapped(_ object: JSONObject) -> PrimusValue? {
        switch object.count {
        case 1:
            if let milliseconds = object[EJSONKey.date]?.double { return .received(PrimusDate(milliseconds: milliseconds)) }
            if let text = object[EJSONKey.binary]?.string { return Base64.decode(text, ignoresPadBits: true).map { .bytes($0) } }
            switch object[EJSONKey.special]?.int {
            case 0: return .double(.nan)
            case 1: return .double(.infinity)
            case -1: return .double(-.infinity)
            default: break
            }
            // The object in the wrapper isn't a wrapper itself, but its members may be.
            if let escaped = object[EJSONKey.escape]?.object { return .object(Self.members(escaped)) }
        case 2:
            if let pattern = object[EJSONKey.expression]?.string, let flags = object[EJSONKey.flags]?.string {
                return .expression(pattern: pattern, flags: flags)
            }
            if let name = object[EJSONKey.type]?.string, let value = object[EJSONKey.value] {
                return .typed(name: name, PrimusValue(ejson: value))
            }
        default: break
        }
        return nil
    }

    /// Whether an object would be taken for a wrapper.
    private static func resemblesWrapper(_ object: Object) -> Bool {
        let keys = object.members.map(\.key)
        switch keys.count {
        case 1: return [EJSONKey.date, EJSONKey.binary, EJSONKey.special, EJSONKey.escape].contains(keys[0])
        case 2: return Set(keys) == [EJSONKey.expression, EJSONKey.flags] || Set(keys) == [EJSONKey.type, EJSONKey.value]
        default: return false
        }
    }

    /// The value in EJSON.
    ///
    /// - Throws: `PrimusParserError` for an extension value of MessagePack.
    func ejson() throws(PrimusParserError) -> JSONValue {
        switch self {
        case .array(let values):
            var elements: [JSONValue] = []
            elements.reserveCapacity(values.count)
            for value in values { elements.append(try value.ejson()) }
            return .array(elements)
        case .object(let object):
            var members: [JSONObject.Element] = []
            members.reserveCapacity(object.count)
            for member in object.members { members.append((member.key, try member.value.ejson())) }
            let value = JSONValue.object(JSONObject(members))
            return Self.resemblesWrapper(object) ? [EJSONKey.escape: value] : value
        case .double(let value):
            if value.isNaN { return [EJSONKey.special: 0] }
            if value.isInfinite { return [EJSONKey.special: value > 0 ? 1 : -1] }
            return try self.json()
        case .bytes(let bytes): return [EJSONKey.binary: .string(Base64.encode(bytes))]
        case .date(let date):
            guard date.timestamp != nil else {
                throw PrimusParserError(.unsupportedValue, "JavaScript can't represent the date \(date.milliseconds).")
            }
            return [EJSONKey.date: try PrimusValue.number(date.milliseconds).json()]
        case .expression(let pattern, let flags): return [EJSONKey.expression: .string(pattern), EJSONKey.flags: .string(flags)]
        case .typed(let name, let value): return [EJSONKey.type: .string(name), EJSONKey.value: try value.ejson()]
        case .extended(let type, _):
            throw PrimusParserError(.unsupportedValue, "The parser ejson can't carry the extension value of type \(type). Use msgpack.")
        default: return try self.json()
        }
    }
}
