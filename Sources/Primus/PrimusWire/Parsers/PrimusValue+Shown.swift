package import RealtimeCoding

// The form of values for people, who read and write JSON.

extension PrimusValue {
    /// Creates a value from JSON that a person has written.
    ///
    /// - Parameters:
    ///   - json: JSON for the parser json, and for another parser EJSON, which also has bytes, dates and special numbers.
    ///   - parser: The parser that will carry the value.
    package init(written json: JSONValue, for parser: PrimusParserKind) {
        self = parser == .json ? PrimusValue(json: json) : PrimusValue(ejson: json)
    }

    /// Returns the value in the form that ``init(written:for:)`` reads. What that doesn't have either, an extension value of MessagePack and an
    /// invalid date, is shown as a value of a type with a telling name.
    ///
    /// - Parameter parser: The parser that has carried the value.
    package func shown(for parser: PrimusParserKind) -> JSONValue {
        if parser == .json, let value = try? self.json() { return value }
        return (try? self.showable.ejson()) ?? .null
    }

    /// The value without kinds that EJSON can't carry.
    private var showable: PrimusValue {
        switch self {
        case .array(let values): .array(values.map(\.showable))
        case .object(let object): .object(Object(object.members.map { (key: $0.key, value: $0.value.showable) }))
        case .typed(let name, let value): .typed(name: name, value.showable)
        case .extended(let type, let bytes): .typed(name: "extension \(type)", .bytes(bytes))
        case .date(let date) where date.timestamp == nil: .typed(name: "invalid date", .null)
        default: self
        }
    }
}
