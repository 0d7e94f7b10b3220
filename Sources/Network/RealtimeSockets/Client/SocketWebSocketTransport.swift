public import RealtimeCore

/// A WebSocket client on the package's own sockets.
///
/// All connections share one thread that reads, decodes and delivers events. A connection that receives much doesn't delay the others.
///
/// A connection ends with `TransportError.Code.tooLarge` if a message is sent while more than 64 MiB wait to be sent, and with `timedOut` if
/// more than 256 KiB wait and the server takes nothing for 60 seconds.
public struct SocketWebSocketTransport: WebSocketTransport {
    private let connector: SocketConnector

    /// Creates a transport.
    ///
    /// All transports share one thread for their connections.
    ///
    /// - Parameters:
    ///   - tls: The TLS settings of `wss` connections.
    ///   - proxy: The proxy to connect through. The default is none.
    public init(tls: TLSConfiguration = TLSConfiguration(), proxy: ProxyConfiguration = .none) {
        self.init(tls: tls, proxy: proxy, loop: .shared)
    }

    package init(
        tls: TLSConfiguration = TLSConfiguration(), proxy: ProxyConfiguration = .none, loop: EventLoop,
        resolver: any HostResolver = SystemResolver.shared
    ) {
        self.connector = SocketConnector(loop: loop, resolver: resolver, proxy: proxy, tls: tls)
    }

    /// Creates a connection. The connection performs no I/O until its `open()` method is called.
    ///
    /// - Parameters:
    ///   - request: The endpoint and the options of the handshake.
    ///   - id: The ID that is passed to each event.
    ///   - events: The object that receives the events of the connection. They are delivered on the transport's thread, one at a time.
    /// - Returns: The new connection.
    public func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection {
        SocketWebSocket(request, id: id, events: events, connector: self.connector)
    }

    /// The number of writes to the socket that a connection of this transport has made, for measurements.
    package static func writes(of connection: any MessageConnection) -> Int { (connection as? SocketWebSocket)?.writes ?? 0 }
}
