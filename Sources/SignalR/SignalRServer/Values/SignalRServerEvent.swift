public import RealtimeCore

/// An event that occurred on a server, for tests and logs.
public enum SignalRServerEvent: Sendable, Hashable {
    /// A client negotiated a connection.
    case negotiated(hub: String, connectionID: String)
    /// The server rejected a negotiation, a WebSocket, a request of another transport, or a refresh of the authentication, with an HTTP
    /// status.
    case rejected(hub: String, status: Int)
    /// A client completed the handshake.
    case connected(hub: String, connectionID: String, userID: String?)
    /// A client refreshed the authentication of its connection.
    case refreshed(hub: String, connectionID: String, userID: String?)
    /// The WebSocket of a connection with stateful reconnect was lost. The connection continues: its client can resume it within
    /// ``SignalRServerConfiguration/disconnectTimeout``. Otherwise, it is ``disconnected(hub:connectionID:_:)`` with the same reason.
    case interrupted(hub: String, connectionID: String, CloseReason)
    /// A client resumed its connection on another WebSocket. If the client noticed the loss first, ``interrupted(hub:connectionID:_:)``
    /// isn't reported before.
    case resumed(hub: String, connectionID: String)
    /// A connection ended after its handshake.
    case disconnected(hub: String, connectionID: String, CloseReason)
    /// The server received a WebSocket message, or the body of a request over another transport. Messages on a silent connection aren't
    /// reported. A message longer than ``SignalRServerConfiguration/messageLimit`` is cut.
    case received(connectionID: String, TransportMessage)
    /// A method was called.
    case invoked(connectionID: String, method: String)
    /// A method returned, or its stream ended; or it failed with an error, which the client received if it expected a response.
    case completed(connectionID: String, method: String, error: String?)
    /// The server couldn't process a message, or ended a connection because of an error.
    case error(connectionID: String, message: String)

    /// The limit of the events that a consumer hasn't read.
    static let byteLimit = ByteLimit<SignalRServerEvent>(8 << 20) { event in
        switch event {
        case .received(_, let message): message.bytes.count
        case .invoked(_, let method): method.utf8.count
        case .completed(_, let method, let error): method.utf8.count + (error?.utf8.count ?? 0)
        case .error(_, let message): message.utf8.count
        case .negotiated, .rejected, .connected, .refreshed, .interrupted, .resumed, .disconnected: 0
        }
    }
}
