public import RealtimeCore

/// WebSockets over the package's own sockets.
///
/// All connections share one thread, which reads, decodes and hands over what came; nothing of the user's runs on it.
public struct SocketWebSocketTransport: WebSocketTransport {
    private let connector: SocketConnector

    /// A transport with these rules for TLS. Connections of different transports share the same thread.
    public init(tls: TLSConfiguration = TLSConfiguration()) {
        self.init(tls: tls, loop: .shared)
    }

    package init(tls: TLSConfiguration = TLSConfiguration(), loop: EventLoop, resolver: any HostResolver = SystemResolver.shared) {
        self.connector = SocketConnector(loop: loop, resolver: resolver, tls: tls)
    }

    /// Makes a connection that begins when it is told to open. It does no I/O yet.
    public func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any WebSocketEvents) -> any WebSocketConnection {
        SocketWebSocket(request, id: id, events: events, connector: self.connector)
    }

    /// How often a connection of this transport has written to its socket: for measurements.
    package static func writes(of connection: any WebSocketConnection) -> Int { (connection as? SocketWebSocket)?.writes ?? 0 }
}
