/// The descriptions of errors of encoders and decoders for messages and logs, which are the same in all clients.
///
/// They contain the position of the value and what was expected, but neither the value nor a text of the application's own coding, which may
/// contain values or secrets.
package enum CodingProblem {
    /// Describes an error.
    ///
    /// - Returns: A clause, such as `a value at .price isn't of type Double`; `nil` if the error isn't one of the standard library.
    package static func text(_ error: any Error) -> String? {
        switch error {
        case DecodingError.typeMismatch(let type, let context): "a value\(Self.position(context.codingPath)) isn't of type \(type)"
        case DecodingError.valueNotFound(let type, let context): "a value of type \(type)\(Self.position(context.codingPath)) is missing"
        case DecodingError.keyNotFound(let key, let context): "the property \(Self.name(context.codingPath + [key])) is missing"
        case DecodingError.dataCorrupted(let context): "a value\(Self.position(context.codingPath)) is invalid"
        case EncodingError.invalidValue(let value, let context): Self.text(of: value, Self.position(context.codingPath))
        default: nil
        }
    }

    private static func text(of value: Any, _ position: String) -> String {
        let isFinite = (value as? Double)?.isFinite ?? (value as? Float)?.isFinite ?? true
        if isFinite { return "a value of type \(type(of: value))\(position) can't be represented" }
        return "the number\(position) is infinite or not a number, which can't be represented"
    }

    private static func position(_ path: [any CodingKey]) -> String { path.isEmpty ? "" : " at \(self.name(path))" }

    /// The start of the path: names of properties, and keys of dictionaries, which may have any length.
    private static func name(_ path: [any CodingKey]) -> String {
        Excerpt.of(path.map { $0.intValue.map { "[\($0)]" } ?? ".\($0.stringValue)" }.joined(), limit: 200)
    }
}
