import RealtimeEncoding

extension JSONValue {
    /// Creates a value that shows a value of MessagePack to a reader. Every value can be shown, but not all can be told apart.
    ///
    /// A binary value becomes a Base64 string, a timestamp a string in ISO 8601, another extension value an object with its type and
    /// data, a number that isn't finite its name, and a key of another kind its text.
    package init(showing value: MessagePackValue) {
        switch value {
        case .nil: self = .null
        case .bool(let value): self = .bool(value)
        case .int(let value): self = .number(JSONNumber(value))
        case .uint(let value): self = .number(JSONNumber(value))
        // The shortest digits of a float are fewer than the digits of the same number as a double.
        case .float(let value): self = Self.number(Double(value.description) ?? Double(value))
        case .double(let value): self = Self.number(value)
        case .string(let value): self = .string(value)
        case .binary(let bytes): self = .string(Base64.encode(bytes))
        case .array(let elements): self = .array(elements.map { JSONValue(showing: $0) })
        case .map(let members):
            self = .object(
                JSONObject(
                    members.map { member in
                        let key = JSONValue(showing: member.key)
                        return (key: key.string ?? key.description, value: JSONValue(showing: member.value))
                    }))
        case .ext(let type, let data):
            let text = value.timestamp?.iso8601
            self = text.map { .string($0) } ?? ["type": .number(JSONNumber(type)), "data": .string(Base64.encode(data))]
        }
    }

    private static func number(_ value: Double) -> JSONValue {
        if let number = JSONNumber(value) { return .number(number) }
        return value.isNaN ? "NaN" : value < 0 ? "-Infinity" : "Infinity"
    }

    /// The first number in the value that MessagePack would round, because it has more digits than a double.
    package var numberRoundedByMessagePack: JSONNumber? {
        switch self {
        case .number(let number):
            number.int64 != nil || number.uint64 != nil || JSONNumber(number.double) == number ? nil : number
        case .array(let elements): elements.lazy.compactMap(\.numberRoundedByMessagePack).first
        case .object(let members): members.lazy.compactMap(\.value.numberRoundedByMessagePack).first
        case .null, .bool, .string: nil
        }
    }
}
