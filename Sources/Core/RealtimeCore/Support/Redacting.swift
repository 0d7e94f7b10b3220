/// A value whose text shows which secrets it has, but not what they are.
///
/// `print`, `dump`, interpolation and `String(reflecting:)` show only ``visibleFields``.
package protocol Redacting: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The names and the values to show. In place of a secret, the value is ``Redacted``.
    var visibleFields: [(name: String, value: Any?)] { get }
}

extension Redacting {
    /// The name of the type and its visible fields.
    public var description: String {
        let fields = self.visibleFields.map { "\($0.name): \(PartText.text(of: $0.value))" }
        return "\(Self.self)(\(fields.joined(separator: ", ")))"
    }

    /// The same as the description.
    public var debugDescription: String { self.description }

    /// A mirror whose children are the visible fields.
    public var customMirror: Mirror {
        let children = self.visibleFields.map { field -> Mirror.Child in
            if let value = field.value { return (field.name, value) }
            return (field.name, Any?.none as Any)
        }
        return Mirror(self, children: children, displayStyle: .struct)
    }
}

/// A placeholder for a secret.
package struct Redacted: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The text for a secret that is set.
    package static let secret = Redacted(description: "<redacted>")

    package let description: String

    private init(description: String) { self.description = description }

    /// Creates a text that is shown as it is, without quotation marks.
    package init(visible text: String) { self.init(description: text) }

    /// Returns the text for a secret, or `nil` if it isn't set.
    package static func optional(_ secret: Any?) -> Redacted? { secret == nil ? nil : .secret }

    /// Returns the text for data that may contain a secret: its size in bytes.
    package static func data(_ byteCount: Int) -> Redacted { Redacted(description: "<\(byteCount) bytes>") }

    /// Returns a path of a URL without its query, which may contain a token.
    package static func query(of target: String) -> String {
        let path = target.utf8.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
        return String(decoding: path, as: UTF8.self) + (path.endIndex == target.utf8.endIndex ? "" : "?\(Self.secret)")
    }

    package var debugDescription: String { self.description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
