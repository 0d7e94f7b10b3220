public import PrimusWire

/// A transform of the messages in one direction: it rewrites each message, or decides that it is discarded.
///
/// ```swift
/// configuration.transforms = [
///     .incoming { message in message["hidden"]?.bool != true },
///     .outgoing { message in
///         message = ["data": message, "signature": .string(try await signer.signature(of: message))]
///         return true
///     },
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

    /// May change the message. Returns whether it is passed on.
    public typealias Body = @Sendable (inout PrimusValue) async throws -> Bool

    /// The direction.
    public let direction: Direction
    package let body: Body

    /// Creates a transform.
    ///
    /// - Parameters:
    ///   - direction: The direction.
    ///   - body: May change the message, and returns whether it is passed on. If it throws, the message is discarded, and the error reported.
    public init(_ direction: Direction, _ body: @escaping Body) {
        (self.direction, self.body) = (direction, body)
    }

    /// Creates a transform of the messages from the server.
    public static func incoming(_ body: @escaping Body) -> PrimusTransform { PrimusTransform(.incoming, body) }

    /// Creates a transform of the messages to the server.
    public static func outgoing(_ body: @escaping Body) -> PrimusTransform { PrimusTransform(.outgoing, body) }
}
