public import RealtimeCore

/// Closures that decide what a server accepts, in addition to the rules of the protocol.
///
/// A closure that is `nil` accepts everything. Hooks run in tasks of their own, so a hook that suspends delays only what it decides
/// about. The task is cancelled when the decision is no longer needed: the connection ended, or the client unsubscribed.
public struct PusherServerHooks: Sendable {
    /// Decides whether a client with a valid key may connect.
    ///
    /// A rejected connection is closed with the decision's code, or 4009 if the code is `nil` or not a close code.
    public var authorizeConnection: (@Sendable (PusherConnectionAttempt) async -> PusherServerDecision)?
    /// Decides whether a client may subscribe to a channel. A private or presence subscription already has a valid signature.
    ///
    /// A rejection is sent to the client as a subscription error.
    public var authorizeSubscription: (@Sendable (PusherSubscriptionAttempt) async -> PusherServerDecision)?
    /// Decides whether a client event is sent to the other subscribers of its channel.
    ///
    /// Called for one event of a connection at a time, so that its events keep their order. A rejection is sent to the client as an
    /// error with the decision's code, or 4301 if the code is `nil`.
    public var authorizeClientEvent: (@Sendable (PusherClientEventAttempt) async -> PusherServerDecision)?

    /// How long the server waits for a decision. The default is 10 seconds.
    ///
    /// Then it cancels the closure's task and rejects: it closes a connection with code 4100, so that the client tries again later, and
    /// responds to a subscription or a client event with an error. It also logs a warning.
    public var timeout = Duration.seconds(10)
    /// The maximum number of subscriptions and client events of a connection that wait for a decision. The server rejects further ones with
    /// an error. The default is 1,000.
    public var pendingLimit = 1_000

    /// Creates hooks that accept everything that the protocol allows.
    public init() {}
}

/// The decision of a hook.
public enum PusherServerDecision: Sendable, Hashable {
    /// The server accepts.
    case accept
    /// The server rejects, and sends the code and the message to the client.
    case reject(code: Int?, message: String)
}

/// A client's attempt to connect, with a valid key.
public struct PusherConnectionAttempt: Sendable {
    /// The socket ID that the connection will have.
    public let socketID: String
    /// The request for the WebSocket, with its path, query and header fields.
    public let request: HTTPRequestHead

    /// Creates an attempt, for a test of a hook.
    ///
    /// - Parameters:
    ///   - socketID: The socket ID that the connection will have.
    ///   - request: The request for the WebSocket.
    public init(socketID: String, request: HTTPRequestHead) {
        self.socketID = socketID
        self.request = request
    }
}

/// A client's attempt to subscribe to a channel, with a valid signature if the channel requires one.
public struct PusherSubscriptionAttempt: Sendable, Hashable {
    /// The socket ID of the connection.
    public let socketID: String
    /// The name of the channel.
    public let channel: String
    /// The ID of the user who subscribes to a presence channel; `nil` for other channels.
    public let userID: String?

    /// Creates an attempt, for a test of a hook.
    ///
    /// - Parameters:
    ///   - socketID: The socket ID of the connection.
    ///   - channel: The name of the channel.
    ///   - userID: The ID of the user who subscribes to a presence channel.
    public init(socketID: String, channel: String, userID: String? = nil) {
        self.socketID = socketID
        self.channel = channel
        self.userID = userID
    }
}

/// A client's attempt to send an event to the other subscribers of a channel. The protocol allows the event.
public struct PusherClientEventAttempt: Sendable, Hashable {
    /// The socket ID of the connection.
    public let socketID: String
    /// The name of the channel.
    public let channel: String
    /// The name of the event.
    public let name: String
    /// The data of the event, as the subscribers will receive it.
    public let data: String

    /// Creates an attempt, for a test of a hook.
    ///
    /// - Parameters:
    ///   - socketID: The socket ID of the connection.
    ///   - channel: The name of the channel.
    ///   - name: The name of the event.
    ///   - data: The data of the event.
    public init(socketID: String, channel: String, name: String, data: String) {
        self.socketID = socketID
        self.channel = channel
        self.name = name
        self.data = data
    }
}
