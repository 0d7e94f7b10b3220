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
