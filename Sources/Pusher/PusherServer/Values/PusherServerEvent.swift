public import RealtimeCore

/// An event that occurred on a server, for tests and logs.
public enum PusherServerEvent: Sendable, Hashable {
    /// A connection was established.
    case connected(socketID: String)
    /// An established connection ended.
    case disconnected(socketID: String, CloseReason)
    /// The server received a text message. Messages on a silent connection aren't reported. A message longer than the app's
    /// ``PusherApp/messageLimit`` is cut, and an ellipsis added.
    case received(socketID: String, frame: String)
    /// A client signed in as a user.
    case signedIn(socketID: String, userID: String)
    /// A client subscribed to a channel. On a presence channel, the user ID is the member's ID.
    case subscribed(socketID: String, channel: String, userID: String?)
    /// The server rejected a subscription with a message for the client.
    case subscriptionRejected(socketID: String, channel: String, message: String)
    /// A subscription ended, because the client unsubscribed or its connection ended.
    case unsubscribed(socketID: String, channel: String)
    /// A client subscribed to a cache channel without a cached event.
    case cacheMiss(socketID: String, channel: String)
    /// The subscribers of a channel were notified of their number; see ``PusherApp/sendsSubscriptionCounts``.
    case subscriptionCount(channel: String, count: Int)
    /// A client sent an event to the other subscribers of a channel.
    case clientEvent(socketID: String, channel: String, name: String, data: String)
    /// An event was published, over the HTTP API or by `publish(_:to:data:except:)`.
    case published(channel: String, name: String, subscribers: Int)
    /// The server sent an error to a client, or rejected a request to the HTTP API.
    ///
    /// The code comes from the error, for example 4001 for a connection with an unknown key, or the status of the HTTP response. The socket
    /// ID is `nil` for requests and for connections that the server doesn't accept. Rejected subscriptions are events of their own.
    case error(socketID: String?, code: Int?, message: String)

    /// The limit of the events that a consumer hasn't read.
    static let byteLimit = ByteLimit<PusherServerEvent>(8 << 20) { event in
        switch event {
        case .received(_, let frame): frame.utf8.count
        case .clientEvent(_, let channel, let name, let data): channel.utf8.count + name.utf8.count + data.utf8.count
        case .subscribed(_, let channel, _), .unsubscribed(_, let channel), .cacheMiss(_, let channel), .subscriptionCount(let channel, _):
            channel.utf8.count
        case .subscriptionRejected(_, let channel, let message): channel.utf8.count + message.utf8.count
        case .published(let channel, let name, _): channel.utf8.count + name.utf8.count
        case .error(_, _, let message): message.utf8.count
        case .connected, .disconnected, .signedIn: 0
        }
    }
}
