public import RealtimeCore

/// The state of a client's connection.
///
/// The states have the names that the documentation of Pusher Channels uses.
///
/// ```
/// initialized ─▶ connecting ─▶ connected ─▶ connecting …       the connection was lost
///                    │
///                    ├─▶ unavailable ─▶ connected              no connection for a while; the client keeps retrying
///                    ├─▶ failed                                a connection is impossible
///                    └─▶ disconnected                          by disconnect(), rejected with a code from 4001 to 4099, or by the
///                                                              retry policy
/// ```
public enum PusherConnectionState: Hashable, Sendable {
    /// The client hasn't been asked to connect yet.
    case initialized
    /// The client is connecting, or is about to retry.
    case connecting
    /// The client is connected. The server assigns a new socket ID to every connection.
    case connected(socketID: String)
    /// The client has had no connection for ``PusherConfiguration/unavailableTimeout``. It keeps retrying.
    case unavailable
    /// A connection is impossible, for example because the configuration is invalid or no TLS library is available. The client
    /// doesn't retry until ``PusherClient/connect()`` is called.
    indirect case failed(PusherError)
    /// The client is disconnected: without an error by ``PusherClient/disconnect()``, with an error because the server rejected it or the
    /// ``PusherConfiguration/retry`` policy ended the attempts.
    /// The client doesn't retry until ``PusherClient/connect()`` is called.
    indirect case disconnected(PusherError?)

    /// The name of the state in the documentation of Pusher Channels, such as `connected`.
    public var name: String {
        switch self {
        case .initialized: "initialized"
        case .connecting: "connecting"
        case .connected: "connected"
        case .unavailable: "unavailable"
        case .failed: "failed"
        case .disconnected: "disconnected"
        }
    }

    /// Whether the state doesn't change until ``PusherClient/connect()`` is called.
    package var isFinal: Bool {
        switch self {
        case .failed, .disconnected: true
        case .initialized, .connecting, .connected, .unavailable: false
        }
    }
}

/// A change of a state, with the states before and after it.
public typealias PusherStateChange = StateChange

/// The state of a channel's subscription.
public enum PusherSubscriptionState: Hashable, Sendable {
    /// The client isn't subscribed to the channel.
    case unsubscribed
    /// The client subscribes as soon as it is connected and the channel is authorized. A subscription returns to this state when the
    /// connection is lost.
    case pending
    /// The client is subscribed and receives the channel's events.
    case subscribed
    /// The subscription was rejected or timed out.
    ///
    /// The client retries after a reconnect and when ``PusherClient/subscribe(_:)`` is called. It also retries with growing delays if
    /// the failure may be temporary: a timeout, an authorization server that can't be reached or responds with status 408, 429, or 500
    /// and above, or an error that a closure of the authorizer throws, unless it is a ``PusherAuthorizationRefusal``.
    indirect case failed(PusherError)
}
