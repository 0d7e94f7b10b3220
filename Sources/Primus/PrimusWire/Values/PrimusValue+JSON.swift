import RealtimeCoding

extension PrimusValue {
    /// Creates a value from JSON. The form of a `Buffer` of Node is bytes.
    init(json value: JSONValue) {
        switch value {
        case .null: self = .null
        case .bool(let value): self = .bool(value)
        case .number(let number): self = number.int64.map { .int($0) } ?? .number(number.double)
        case .string(let value): self = .string(value)
        case .array(let elements): self = .array(elements.map { PrimusValue(json: $0) })
        case .object(let object):
            if let bytes = Self.buffer(object) {
                self = .bytes(bytes)
            } else {
                self = .object(Object(object.map { (key: $0.key, value: PrimusValue(json: $0.value)) }))
            }
        }
    }

    /// The bytes of `{"type":"Buffer","data":[1,2,3]}`, which is how Node writes a buffer.
    private static func buffer(_ object: JSONObject) -> [UInt8]? {
        guard object.count == 2, object["type"]?.string == "Buffer", let elements = object["data"]?.array else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(elements.count)
        for element in elements {
            guard let byte = element.int.flatMap({ UInt8(exactly: $0) }) else { return nil }
            bytes.append(byte)
        }
        return bytes
    }

    /// The value in JSON, as JavaScript writes it.
    ///
    /// - Throws: `PrimusParserError` for a value that JSON can't carry.
    func json() throws(PrimusParserError) -> JSONValue {
        switch self {
        case .null: return .null
        case .bool(let value): return .bool(value)
        case .int(let value): return .number(JSONNumber(value))
        case .double(let value):
            guard let number = JSONNumber(value) else {
                throw PrimusParserError(
                    .unsupportedValue,
                    "The parser json can't carry a number that is infinite or not a number. Use ejson, msgpack or binary.")
            }
            return .number(number)
        case .string(let value): return .string(value)
        case .array(let values):
            var elements: [JSONValue] = []
            elements.reserveCapacity(values.count)
            for value in values { elements.append(try value.json()) }
            return .array(elements)
        case .object(let object):
            var members: [JSONObject.Element] = []
            members.reserveCapacity(object.count)
            for member in object.members { members.append((member.key, try member.value.json())) }
            return .object(JSONObject(members))
        case .bytes(let bytes):
            return .object(["type": "Buffer", "data": .array(bytes.map { .number(JSONNumber($0)) })])
        case .date(let date):
            guard let text = date.text else {
                throw PrimusParserError(.unsupportedValue, "JavaScript can't represent the date \(date.milliseconds).")
            }
            return .string(text)
        case .expression: throw Self.unsupported("a regular expression", "Use ejson or msgpack.")
        case .typed(let name, _): throw Self.unsupported("a value of the type \"\(name)\"", "Use ejson, or send its members.")
        case .extended(let type, _): throw Self.unsupported("the extension value of type \(type)", "Use msgpack.")
        }
    }

    private static func unsupported(_ kind: String, _ advice: String) -> PrimusParserError {
        PrimusParserError(.unsupportedValue, "The parser json can't carry \(kind). \(advice)")
    }
}
