public import PrimusWire

/// A transform of the messages in one direction: it rewrites each message, or decides that it is discarded.
///
/// ```swift
/// configuration.transforms = [
///     .incoming { value in value["hidden"]?.bool == true ? nil : value },
///     .outgoing { value in try await signer.sign(value) },
/// ]
/// ```
/// The transforms of a direction are called in order, for one message at a time, in a task of the client: messages keep their order, whatever a
/// transform waits for. Primus's own messages aren't transformed.
public struct PrimusTransform: Sendable {
    /// The direction of messages.
    public enum Direction: Hashable, Sendable {
        /// From the server.
        case incoming
        /// To the server.
        case outgoing
    }

    /// Returns the message that takes the place of another one; `nil` to discard it.
    public typealias Body = @Sendable (PrimusValue) async throws -> PrimusValue?

    /// The direction.
    public let direction: Direction
    package let body: Body

    /// Creates a transform.
    ///
    /// - Parameters:
    ///   - direction: The direction.
    ///   - body: Returns the message in the place of another one; `nil` to discard it. If it throws, the message is discarded, and the error
    ///     reported.
    public init(_ direction: Direction, _ body: @escaping Body) {
        (self.direction, self.body) = (direction, body)
    }

    /// Creates a transform of the messages from the server.
    public static func incoming(_ body: @escaping Body) -> PrimusTransform { PrimusTransform(.incoming, body) }

    /// Creates a transform of the messages to the server.
    public static func outgoing(_ body: @escaping Body) -> PrimusTransform { PrimusTransform(.outgoing, body) }
}
