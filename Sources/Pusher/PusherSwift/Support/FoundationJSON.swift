import Foundation

/// JSON as objects of Foundation, which the handlers of applications expect.
enum FoundationJSON {
    /// Parses a text that must be an object or an array: handlers receive other values as text.
    static func parse(_ text: String) -> Any? { try? JSONSerialization.jsonObject(with: Data(text.utf8), options: []) }

    /// Parses a text that must be an object.
    static func object(_ text: String) -> [String: AnyObject]? {
        Self.parse(text) as? [String: AnyObject]
    }

    /// Returns the text of a value, or `nil` if it isn't JSON. An optional is replaced by what it contains, or by `null`.
    static func text(_ value: Any) -> String? {
        let value = Self.unwrapped(value)
        // As the only element: the check rejects values that aren't containers.
        guard JSONSerialization.isValidJSONObject([value]),
            let data = try? JSONSerialization.data(
                withJSONObject: value, options: [.fragmentsAllowed, .sortedKeys, .withoutEscapingSlashes])
        else { return nil }
        return String(decoding: data, as: UTF8.self)
    }

    private static func unwrapped(_ value: Any) -> Any {
        let mirror = Mirror(reflecting: value)
        switch mirror.displayStyle {
        case .optional: return mirror.children.first.map { Self.unwrapped($0.value) } ?? NSNull()
        case .collection where value is [Any]: return (value as? [Any] ?? []).map { Self.unwrapped($0) }
        case .dictionary:
            guard let dictionary = value as? [String: Any] else { return value }
            return dictionary.mapValues { Self.unwrapped($0) }
        default: return value
        }
    }
}
