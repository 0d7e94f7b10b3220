import Foundation

/// The state of a connection.
#if canImport(ObjectiveC)
@objc
#endif
public enum ConnectionState: Int, Sendable {
    /// An attempt to connect is in progress.
    case connecting
    /// The connection is established.
    case connected
    /// The connection is being closed by the app.
    case disconnecting
    /// There is no connection, and none will be made automatically. After a loss, the connection also passes through this state.
    case disconnected
    /// The connection was lost, and another attempt follows.
    case reconnecting

    /// The state in which version 5 waited for the network. This client waits in ``reconnecting``.
    public static var reconnectingWhenNetworkBecomesReachable: ConnectionState { .reconnecting }

    /// Returns the name of the state, such as `connecting`.
    public func stringValue() -> String {
        switch self {
        case .connecting: "connecting"
        case .connected: "connected"
        case .disconnecting: "disconnecting"
        case .disconnected: "disconnected"
        case .reconnecting: "reconnecting"
        }
    }
}
