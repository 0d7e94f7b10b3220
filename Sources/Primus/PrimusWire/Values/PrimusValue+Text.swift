import RealtimeCoding

extension PrimusValue: CustomStringConvertible {
    /// The value as compact JSON. What JSON doesn't have is shown as JavaScript writes it: `NaN`, `/a+/i`, dates in ISO 8601, `<3 bytes>`,
    /// and types with their name, such as `Money("5.20")`.
    public var description: String {
        switch self {
        case .null: "null"
        case .bool(let value): "\(value)"
        case .int(let value): "\(value)"
        case .double(let value) where !value.isFinite: value.isNaN ? "NaN" : value < 0 ? "-Infinity" : "Infinity"
        case .double, .string: (try? self.json())?.description ?? "null"
        case .array(let elements): "[\(elements.map(\.description).joined(separator: ","))]"
        case .object(let object): object.description
        case .bytes(let bytes): "<\(bytes.count) bytes>"
        case .date(let date): date.description
        case .expression(let pattern, let flags): "/\(pattern)/\(flags)"
        case .typed(let name, let value): "\(name)(\(value))"
        case .extended(let type, let data): "extension \(type)(<\(data.count) bytes>)"
        }
    }
}

extension PrimusValue.Object: CustomStringConvertible {
    /// The object as compact JSON; see ``PrimusValue/description``.
    public var description: String {
        "{\(self.members.map { "\(PrimusValue.string($0.key)):\($0.value)" }.joined(separator: ","))}"
    }
}

extension PrimusDate: CustomStringConvertible {
    /// The date in ISO 8601, or `Invalid Date` if JavaScript can't represent it.
    public var description: String { self.text ?? "Invalid Date" }
}
