/// Where the connection stands, in the words of the Pusher documentation.
///
/// ```
/// initialized ─▶ connecting ─▶ connected ─▶ connecting …           a loss, and the way back
///                    │
///                    ├─▶ unavailable ─▶ connected                  no luck for a while; it goes on trying
///                    ├─▶ failed                                    nothing here can ever connect
///                    └─▶ disconnected                              as asked, or refused with a code from 4000 to 4099
/// ```
public enum PusherConnectionState: Hashable, Sendable {
    /// Nobody has asked to connect yet.
    case initialized
    /// It is being connected, or is about to be tried again.
    case connecting
    /// Events come. The socket ID names this connection to the application's server, and is another after each reconnect.
    case connected(socketID: String)
    /// There has been no connection for a while (10 seconds unless configured otherwise). The client goes on trying.
    case unavailable
    /// No connection is possible from here, such as `wss` without a TLS library. The client does not try again by itself.
    indirect case failed(PusherError)
    /// Ended: as asked (`nil`), or because the service refuses this client. The client does not try again by itself.
    indirect case disconnected(PusherError?)

    /// The documentation's word for the state.
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

    /// Whether nothing more happens until `connect()`.
    package var isFinal: Bool {
        switch self {
        case .failed, .disconnected: true
        case .initialized, .connecting, .connected, .unavailable: false
        }
    }
}

/// Where a channel's subscription stands.
public enum PusherSubscriptionState: Hashable, Sendable {
    /// Nobody wants it.
    case unsubscribed
    /// It is wanted, and follows as soon as the connection allows. After a loss it is renewed without being asked for.
    case pending
    /// Events come.
    case subscribed
    /// Refused, or not answered. It is tried again after a reconnect and when `subscribe` is called; and by itself, with
    /// growing waits, when the application's server was not to be reached or was in trouble.
    indirect case failed(PusherError)
}
