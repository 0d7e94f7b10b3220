package import RealtimeCore
package import SignalRWire

/// The state of a client.
///
/// ```
///   stopped ──start──▶ connecting ──▶ connected ──loss──▶ reconnecting ──▶ connected …
///      ▲                   │              │                    │
///      └── stop, failure ──┴── stop, loss ┴──── stop, failure ─┘
/// ```
public enum HubState: Hashable, Sendable {
    /// The client hasn't been started, was stopped, or has given up for the reason in the error.
    case stopped(HubError?)
    /// The client is started, and tries to connect.
    case connecting
    /// The client is connected. Without a negotiation, the connection has no ID.
    case connected(connectionID: String?)
    /// The connection was lost, and the client tries to establish another one.
    case reconnecting(HubError)
}

/// A change of a client.
public enum HubUpdate: Hashable, Sendable {
    /// The state has changed.
    case state(HubState)
    /// The connection was lost, and the client reconnects. Once for each loss.
    case reconnecting(HubError)
    /// The client waits before its next attempt.
    case retrying(in: Duration)
    /// The client is connected again.
    case reconnected(connectionID: String?)
    /// The connection, which had been established, ended for good: without an error if the client was stopped or the server said so.
    case closed(HubError?)
    /// The server has accepted another access token for the connection, with the lifetime of the authentication if it expires.
    case authenticationRefreshed(lifetime: Duration?)
    /// The authentication wasn't refreshed, manually or automatically. The connection remains.
    case authenticationRefreshFailed(HubError)
    /// The client recovered from this error, or it concerns a message that was ignored.
    case error(HubError)
}

/// A change of a client, with its position.
package struct NumberedHubUpdate: Sendable {
    package var number: UInt64
    package var update: HubUpdate
}

/// An invocation by the server.
package struct HubCallback: Hashable, Sendable {
    package var connection: ConnectionID
    package var invocation: HubInvocation
}

/// What a session delivers to its consumers.
package enum HubEvent: Sendable {
    /// - Parameter number: The position among the updates of the client, from 1.
    case update(HubUpdate, number: UInt64)
    case invocation(HubCallback)
    case item(HubPayload)
    /// The end of a stream. No items follow.
    case streamEnd(HubError?)
}
