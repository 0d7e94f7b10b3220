import RealtimeSystem

/// A value that prints its stored properties, such as `Backoff(base: 1.0 seconds, cap: 10.0 seconds)`.
///
/// The standard library prints the properties as they are stored, with the names of their modules and with `Optional`. A value with secrets is
/// ``Redacting`` instead.
package protocol PrintedParts: CustomStringConvertible {
    /// The names of the properties that aren't printed.
    static var hiddenParts: Set<String> { get }
}

extension PrintedParts {
    package static var hiddenParts: Set<String> { [] }

    /// The name of the type and its properties.
    public var description: String { PartText.text(ofFields: self, hiding: Self.hiddenParts) }
}

/// The texts of values that are parts of others.
package enum PartText {
    /// Returns the text of a case of an enumeration: its name and, in parentheses, those of its values that aren't `nil`.
    ///
    /// - Parameters:
    ///   - name: The name of the case.
    ///   - values: The values, with an empty label for those that have none.
    package static func text(ofCase name: String, _ values: KeyValuePairs<String, Any?>) -> String {
        let texts = values.compactMap { label, value in
            value.map { label.isEmpty ? self.text(of: $0) : "\(label): \(self.text(of: $0))" }
        }
        return texts.isEmpty ? name : "\(name)(\(texts.joined(separator: ", ")))"
    }

    /// Returns the text of a value: in place of an optional that of its value, and of a closure only that it is one.
    package static func text(of value: Any?) -> String {
        switch value {
        case nil: "nil"
        case let text as String: String(reflecting: text)
        case let array as [Any]: "[\(array.map { self.text(of: $0) }.joined(separator: ", "))]"
        case let set as Set<AnyHashable>: "[\(set.map { self.text(of: $0.base) }.sorted().joined(separator: ", "))]"
        case let members as [AnyHashable: Any]:
            members.isEmpty
                ? "[:]"
                : "[\(members.map { "\(self.text(of: $0.key.base)): \(self.text(of: $0.value))" }.sorted().joined(separator: ", "))]"
        case let value as any CustomStringConvertible: value.description
        case let value?: self.text(ofParts: value)
        }
    }

    /// Returns the text of a value that has no description of its own.
    private static func text(ofParts value: Any) -> String {
        let mirror = Mirror(reflecting: value)
        switch (mirror.displayStyle, mirror.children.first) {
        case (.optional, let child): return self.text(of: child?.value)
        case (.enum, let child?):
            let text = self.text(of: child.value)
            return (child.label ?? "") + (text.hasPrefix("(") ? text : "(\(text))")
        case (.tuple, _): return "(\(self.fields(mirror, hiding: [])))"
        case (.struct, _): return self.text(ofFields: value, hiding: [])
        default:
            let type = "\(Swift.type(of: value))"
            if type.containsText("->") { return "<closure>" }
            return mirror.displayStyle == .class ? type : "\(value)"
        }
    }

    fileprivate static func text(ofFields value: Any, hiding hidden: Set<String>) -> String {
        "\(type(of: value))(\(self.fields(Mirror(reflecting: value), hiding: hidden)))"
    }

    private static func fields(_ mirror: Mirror, hiding hidden: Set<String>) -> String {
        mirror.children.compactMap { child in
            guard let label = child.label, !label.hasPrefix(".") else { return self.text(of: child.value) }
            return hidden.contains(label) ? nil : "\(label): \(self.text(of: child.value))"
        }.joined(separator: ", ")
    }
}
