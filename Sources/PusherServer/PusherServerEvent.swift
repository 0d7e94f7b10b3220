public import RealtimeCore

/// What happens on the server, for tests and logs.
public enum PusherServerEvent: Sendable, Hashable {
    /// A client was greeted.
    case connected(socketID: String)
    /// A connection of a client that had been greeted ended.
    case disconnected(socketID: String, CloseReason)
    /// A frame came, as its text.
    case received(socketID: String, frame: String)
    /// A client subscribed. The user is that of a presence channel.
    case subscribed(socketID: String, channel: String, userID: String?)
    /// A subscription was refused.
    case refused(socketID: String, channel: String, why: String)
    /// A client left a channel, by itself or with its connection.
    case unsubscribed(socketID: String, channel: String)
    /// A client sent an event to the others.
    case clientEvent(socketID: String, channel: String, name: String, data: String)
    /// Somebody published an event, over HTTP or in process.
    case published(channel: String, name: String, subscribers: Int)
}

/// Somebody who wants to subscribe, with a signature that is right where one is needed.
public struct SubscriptionAttempt: Sendable, Hashable {
    /// The connection.
    public let socketID: String
    /// The channel.
    public let channel: String
    /// The user, of a presence channel.
    public let userID: String?
}

/// What a hook says to a subscription.
public enum SubscriptionVerdict: Sendable, Hashable {
    /// Yes.
    case accept
    /// No, with the words and the number for the client.
    case refuse(code: Int?, message: String)
}

/// What the server asks of whoever runs it. Hooks run in tasks of their own, never on the receive path.
public struct PusherServerHooks: Sendable {
    /// Asked before each subscription is accepted.
    public var onSubscribe: (@Sendable (SubscriptionAttempt) async -> SubscriptionVerdict)?

    /// None.
    public init() {}
}
