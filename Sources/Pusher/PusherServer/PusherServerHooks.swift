public import RealtimeCore

/// What the server asks of whoever runs it.
///
/// A hook runs in a task of its own, never on the receive path: what is asked about waits, everything else goes on. The
/// task is cancelled when the connection that it is about has gone, or when the client no longer wants what it asked for.
public struct PusherServerHooks: Sendable {
    /// Asked before a client with the right key is greeted. It is refused with the code as a close code, 4009 for `nil`.
    public var onConnect: (@Sendable (PusherConnectionAttempt) async -> PusherServerDecision)?
    /// Asked before each subscription is accepted. A refusal is a subscription error for the client.
    public var onSubscribe: (@Sendable (PusherSubscriptionAttempt) async -> PusherServerDecision)?
    /// Asked before an event of a client goes to the others. One after the other for each connection, so that its events
    /// keep their order. A refusal is an error for the client, with code 4301 for `nil`.
    public var onClientEvent: (@Sendable (PusherClientEventAttempt) async -> PusherServerDecision)?

    /// None: everything that the protocol allows is accepted.
    public init() {}
}

/// What a hook says.
public enum PusherServerDecision: Sendable, Hashable {
    /// Yes.
    case accept
    /// No, with the words and the number for the client.
    case refuse(code: Int?, message: String)
}

/// Somebody who wants to connect, with a key that is right.
public struct PusherConnectionAttempt: Sendable {
    /// The ID that the connection will have.
    public let socketID: String
    /// Where it asked, and the headers that it sent.
    public let request: HTTPRequestHead
}

/// Somebody who wants to subscribe, with a signature that is right where one is needed.
public struct PusherSubscriptionAttempt: Sendable, Hashable {
    /// The connection.
    public let socketID: String
    /// The channel.
    public let channel: String
    /// The user, of a presence channel.
    public let userID: String?
}

/// An event that a client sends to the others on a channel, and that the protocol allows.
public struct PusherClientEventAttempt: Sendable, Hashable {
    /// The connection.
    public let socketID: String
    /// The channel.
    public let channel: String
    /// The event's name.
    public let name: String
    /// Its data, as the text that is delivered.
    public let data: String
}
