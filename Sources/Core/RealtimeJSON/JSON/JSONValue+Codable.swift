extension JSONValue: Codable {
    /// Takes whatever value is there. From a decoder other than ``JSONValueDecoder`` numbers come without digits that `Double` does not hold.
    public init(from decoder: any Decoder) throws {
        if let own = decoder as? NodeDecoder {
            self = own.document.tree(at: own.index)
            return
        }
        if let container = try? decoder.container(keyedBy: ValueKey.self) {
            self = .object(JSONObject(try container.allKeys.map { ($0.stringValue, try container.decode(JSONValue.self, forKey: $0)) }))
            return
        }
        if var container = try? decoder.unkeyedContainer() {
            var elements: [JSONValue] = []
            while !container.isAtEnd { elements.append(try container.decode(JSONValue.self)) }
            self = .array(elements)
            return
        }
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Int64.self) {
            self = .number(JSONNumber(value))
        } else if let value = try? container.decode(UInt64.self) {
            self = .number(JSONNumber(value))
        } else if let number = (try? container.decode(Double.self)).flatMap({ JSONNumber($0) }) {
            self = .number(number)
        } else {
            self = .string(try container.decode(String.self))
        }
    }

    /// Writes the value as it is. To an encoder other than ``JSONValueEncoder`` numbers go as `Int64`, `UInt64` or `Double`.
    public func encode(to encoder: any Encoder) throws {
        if let own = encoder as? NodeEncoder { return try own.write(self) }
        switch self {
        case .array(let elements):
            var container = encoder.unkeyedContainer()
            for element in elements { try container.encode(element) }
        case .object(let members):
            var container = encoder.container(keyedBy: ValueKey.self)
            for member in members { try container.encode(member.value, forKey: ValueKey(member.key)) }
        default:
            var container = encoder.singleValueContainer()
            switch self {
            case .bool(let value): try container.encode(value)
            case .string(let value): try container.encode(value)
            case .number(let value):
                if let value = value.int64 {
                    try container.encode(value)
                } else if let value = value.uint64 {
                    try container.encode(value)
                } else {
                    try container.encode(value.double)
                }
            default: try container.encodeNil()
            }
        }
    }
}
