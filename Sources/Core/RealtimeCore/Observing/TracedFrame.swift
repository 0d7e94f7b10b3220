/// A message that a client sent or received, as a text without secrets.
///
/// Clients have names of their own for this type.
public struct TracedFrame: Hashable, Sendable {
    /// The direction of a message.
    public enum Direction: Hashable, Sendable {
        /// The client sent the message.
        case sent
        /// The client received the message.
        case received
    }

    /// The maximum length of a text, in bytes.
    package static let limit = 4096

    /// Whether the client sent or received the message.
    public let direction: Direction
    /// The message as text, usually JSON, with `<redacted>` or `…` in the place of secrets. A long text is shortened.
    public let text: String

    /// Creates a message, for example for a preview or a test of your code.
    ///
    /// - Parameters:
    ///   - direction: Whether the client sent or received the message.
    ///   - text: The message as text.
    public init(_ direction: Direction, _ text: String) {
        self.direction = direction
        self.text = text
    }

    /// Returns the text of a message in a trace, shortened if it is long.
    ///
    /// - Parameters:
    ///   - text: The text.
    ///   - byteCount: The size of the message in bytes, which follows a shortened text.
    package static func excerpt(of text: String, byteCount: Int) -> String {
        text.utf8.count <= self.limit ? text : "\(Excerpt.of(text, limit: self.limit)) (\(byteCount) bytes)"
    }
}

extension TracedFrame: CustomStringConvertible {
    /// The direction and the text, such as `sent {"type":6}`.
    public var description: String { "\(self.direction) \(self.text)" }
}
