package import RealtimeCore
import RealtimeSystem

/// A transport whose connections can be cut, as by a network that fails.
package final class CuttableTransport: WebSocketTransport {
    private struct Current: Sendable {
        var id: ConnectionID
        var connection: any MessageConnection
        var events: any MessageEvents
    }

    private let transport: any WebSocketTransport
    private let current = Lock<Current?>(nil)

    package init(_ transport: any WebSocketTransport) {
        self.transport = transport
    }

    package func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection {
        let connection = self.transport.makeConnection(request, id: id, events: events)
        self.current.withLock { $0 = Current(id: id, connection: connection, events: events) }
        return connection
    }

    /// Ends the current connection without a close frame.
    package func cut() {
        guard let current = self.current.withLock({ $0.take() }) else { return }
        current.connection.abandon()
        current.events.closed(current.id, .transport(TransportError(.reset, "The test cut the connection.")))
    }
}
