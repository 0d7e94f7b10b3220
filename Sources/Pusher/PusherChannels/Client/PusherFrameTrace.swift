/// A frame that a client sent or received, without its secrets; see ``PusherClient/frames(buffer:)``.
public struct PusherFrameTrace: Hashable, Sendable {
    /// The direction of a frame.
    public enum Direction: Hashable, Sendable {
        /// The client sent the frame.
        case sent
        /// The client received the frame.
        case received
    }

    /// Whether the client sent or received the frame.
    public let direction: Direction
    /// The frame as JSON, with `<redacted>` in the place of secrets. A long text is shortened.
    public let text: String

    /// Creates a frame, for example for a preview or a test of your code.
    ///
    /// - Parameters:
    ///   - direction: Whether the client sent or received the frame.
    ///   - text: The frame as JSON.
    public init(_ direction: Direction, _ text: String) {
        self.direction = direction
        self.text = text
    }
}
