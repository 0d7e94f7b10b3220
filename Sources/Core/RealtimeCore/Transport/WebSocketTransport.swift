/// The parameters of a client's WebSocket connection.
public struct WebSocketRequest: Sendable {
    /// The URL to connect to.
    public var endpoint: Endpoint
    /// Additional header fields of the upgrade request. The transport adds the fields of the WebSocket handshake.
    public var headers: HTTPHeaders
    /// The subprotocols to offer, in order of preference. The connection is also established if the server selects none of them.
    public var subprotocols: [String]
    /// The maximum size of a received message in bytes. A larger message ends the connection with close code 1009.
    public var messageLimit: Int
    /// The time limit for establishing the connection, including name resolution, TLS and the WebSocket handshake.
    public var timeout: Duration

    /// Creates the parameters of a WebSocket connection.
    ///
    /// - Parameters:
    ///   - endpoint: The URL to connect to.
    ///   - headers: Additional header fields of the upgrade request.
    ///   - subprotocols: The subprotocols to offer, in order of preference.
    ///   - messageLimit: The maximum size of a received message in bytes.
    ///   - timeout: The time limit for establishing the connection.
    public init(
        _ endpoint: Endpoint, headers: HTTPHeaders = [:], subprotocols: [String] = [], messageLimit: Int = 16 << 20,
        timeout: Duration = .seconds(30)
    ) {
        self.endpoint = endpoint
        self.headers = headers
        self.subprotocols = subprotocols
        self.messageLimit = messageLimit
        self.timeout = timeout
    }
}

/// A type that creates the WebSocket connections of a client.
///
/// The package has two implementations for the network, one on sockets and one on `URLSession`, and one in memory. A program with its own
/// event loop can provide another one.
public protocol WebSocketTransport: Sendable {
    /// Creates a connection without performing I/O. Called under a lock.
    ///
    /// - Parameters:
    ///   - request: The parameters of the connection.
    ///   - id: The ID of the connection in calls to `events`.
    ///   - events: The object that receives the events of the connection. The connection retains it until it has called
    ///     ``MessageEvents/closed(_:_:)`` or has been abandoned.
    /// - Returns: A connection that starts connecting when ``MessageConnection/open()`` is called.
    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection
}
