/// The maximum number of client events that a client sends in a second, and what happens to further ones.
///
/// The Pusher service allows each connection ten client events in a second, and rejects further ones. A client whose configuration was
/// created for a cluster keeps to this limit: further events wait. To throw an error instead, or to use the limit of another server, set
/// ``PusherConfiguration/clientEventLimit``:
///
/// ```swift
/// configuration.clientEventLimit = PusherClientEventLimit(perSecond: 10, excess: .fail)
/// ```
/// The limit applies to all channels of a client together. The client counts the events of each connection over 1.1 seconds instead of
/// one, because delays in the network can move events closer together.
public struct PusherClientEventLimit: Hashable, Sendable {
    /// The handling of events that exceed the limit.
    public enum Excess: Hashable, Sendable {
        /// The events wait, and are sent in order as soon as the limit allows it. If more than
        /// ``PusherConfiguration/clientEventQueueLimit`` events would wait, ``PusherChannel/trigger(_:_:)-(_,Encodable)`` throws an error with the code
        /// ``PusherError/Code/queueFull``.
        case wait
        /// ``PusherChannel/trigger(_:_:)-(_,Encodable)`` throws an error with the code ``PusherError/Code/rateLimited``. Use it for events that are
        /// outdated soon, such as the position of a pointer.
        ///
        /// Events that waited for a subscription don't throw anymore: of these, those that exceed the limit wait.
        case fail
    }

    /// The maximum number of events in a second. It must be at least 1.
    public var perSecond: Int
    /// The handling of events that exceed the limit.
    public var excess: Excess

    /// Creates a limit.
    ///
    /// - Parameters:
    ///   - perSecond: The maximum number of events in a second, at least 1. The default is the limit of the Pusher service.
    ///   - excess: What happens to events that exceed the limit.
    public init(perSecond: Int = 10, excess: Excess = .wait) {
        self.perSecond = perSecond
        self.excess = excess
    }
}
