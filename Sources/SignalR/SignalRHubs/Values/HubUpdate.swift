public import RealtimeCore
public import SignalRWire

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

    /// The same state as a machine may keep it; see ``HubError/forStorage``.
    var forStorage: HubState {
        switch self {
        case .stopped(let error): .stopped(error?.forStorage)
        case .reconnecting(let error): .reconnecting(error.forStorage)
        case .connecting, .connected: self
        }
    }
}

/// A change of a client.
public enum HubUpdate: Hashable, Sendable {
    /// The state has changed.
    case state(HubState)
    /// The client is connected over this transport, which the next change of the state reports. Once for each connection.
    case transport(HubTransport)
    /// The connection was lost, and the client reconnects. Once for each loss.
    case reconnecting(HubError)
    /// The connection was lost or could not be established. The client tries again after this delay.
    case connectingIn(Duration)
    /// The client is connected again.
    case reconnected(connectionID: String?)
    /// The socket of the connection was lost, and the connection continues on another one; see ``HubStatefulReconnect``. Nothing was lost.
    case resumed
    /// The connection, which had been established, ended for good: without an error if the client was stopped or the server said so.
    case closed(HubError?)
    /// The server has accepted another access token for the connection, with the lifetime of the authentication if it expires.
    case authenticationRefreshed(lifetime: Duration?)
    /// The authentication wasn't refreshed, manually or automatically. The connection remains.
    case authenticationRefreshFailed(HubError)
    /// The client recovered from this error, or it concerns a message that was ignored.
    case error(HubError)
}

extension HubUpdate {
    /// Whether this is an event in the life of a connection, for which ``NumberedHubUpdate`` is delivered.
    var concernsLife: Bool {
        switch self {
        case .reconnecting, .reconnected, .closed, .authenticationRefreshed, .authenticationRefreshFailed: true
        case .state, .transport, .connectingIn, .resumed, .error: false
        }
    }
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

/// An event that a session delivers to its consumers.
package enum HubEvent: Sendable {
    /// - Parameter number: The position among the updates of the client, from 1.
    case update(HubUpdate, number: UInt64)
    case invocation(HubCallback)
    case item(HubPayload)
    /// The end of a stream. No items follow.
    case streamEnd(HubError?)
    /// A message that was sent or received, without secrets.
    case frame(TracedFrame)

    /// The update, if this is one.
    var update: HubUpdate? { if case .update(let update, _) = self { update } else { nil } }
    /// The state to which the client has changed, if this is a change.
    var state: HubState? { if case .update(.state(let state), _) = self { state } else { nil } }

    /// The error that the event reports for the first time. A loss is the start of `reconnecting` or the end in `stopped`.
    var error: HubError? {
        switch self.update {
        case .state(.stopped(let error)): error
        case .reconnecting(let error), .error(let error), .authenticationRefreshFailed(let error): error
        case .state, .transport, .connectingIn, .reconnected, .resumed, .closed, .authenticationRefreshed, nil: nil
        }
    }
}

/// A change of a client's state, with the states before and after it.
public typealias HubStateChange = StateChange<HubState>

/// A message that a client sent or received, without its secrets; see ``HubClient/frames(buffer:)``.
public typealias HubFrameTrace = TracedFrame

/// Where callbacks run.
///
/// Callbacks never run on the thread that reads from the connection, nor under a lock. Whatever the executor, the callbacks of one
/// registration run in order and one at a time.
public typealias HubCallbackExecutor = CallbackExecutor

/// The registration of a callback of a client. Releasing it ends the callbacks.
///
/// The registration of a handler of a method, which stays until it is cancelled, is a ``HubHandlerToken``.
public typealias HubObservation = CallbackObservation
