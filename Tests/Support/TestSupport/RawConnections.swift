package import RealtimeCore
import RealtimeSystem
package import RealtimeTesting

/// The connections of a server whose messages a test chooses, valid or not. A handler of a listener passes on what it accepts.
package final class RawConnections: Sendable {
    /// The reasons why connections have ended.
    package let ends = EventRecorder<CloseReason>()
    /// The open connections, oldest first, and the number of all.
    private let state = Lock<(open: [(id: ConnectionID, connection: any MessageConnection)], accepted: Int)>(([], 0))

    package init() {}

    /// The number of open connections.
    package var count: Int { self.state.withLock { $0.open.count } }
    /// The number of connections that were accepted.
    package var accepted: Int { self.state.withLock { $0.accepted } }

    package func accepted(_ connection: any MessageConnection, id: ConnectionID) {
        self.state.withLock {
            $0.open.append((id, connection))
            $0.accepted += 1
        }
    }

    package func closed(_ id: ConnectionID, _ reason: CloseReason) {
        self.ends.record(reason)
        self.state.withLock { $0.open.removeAll { $0.id == id } }
    }

    // MARK: The newest connection

    private var newest: (any MessageConnection)? { self.state.withLock { $0.open.last?.connection } }

    /// Sends messages, which the peer reads together.
    package func send(_ messages: [TransportMessage]) {
        guard let connection = self.newest else { return }
        for message in messages { connection.enqueue(message) }
        connection.flush()
    }

    package func close(_ code: CloseCode, _ reason: String = "") { self.newest?.close(code, reason: reason) }

    package func pauseReading() { self.newest?.pauseReading() }

    package func resumeReading() {
        let connection = self.newest
        connection?.resumeReading()
        connection?.flush()
    }
}

/// A client's connection without a protocol. It sends what a test chooses, valid or not. Releasing it ends the connection.
package final class RawSocket: Sendable {
    private final class Events: MessageEvents {
        let endings: EventRecorder<CloseReason>
        let receive: @Sendable (TransportMessage) -> Void

        init(_ endings: EventRecorder<CloseReason>, _ receive: @escaping @Sendable (TransportMessage) -> Void) {
            self.endings = endings
            self.receive = receive
        }

        func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
        func closed(_ id: ConnectionID, _ reason: CloseReason) { self.endings.record(reason) }
        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) { for message in batch.messages { self.receive(message) } }
    }

    /// The reason why the connection has ended, or why it wasn't established.
    package let endings = EventRecorder<CloseReason>()
    private let connection: any MessageConnection

    /// Opens a connection.
    ///
    /// - Parameter receive: Receives each message. The connection retains it, so it must not retain the socket.
    package init(
        _ transport: any WebSocketTransport, _ address: ListenerAddress, _ target: String, headers: HTTPHeaders = [:],
        receive: @escaping @Sendable (TransportMessage) -> Void
    ) {
        let endpoint = Endpoint(scheme: "ws", host: address.host, port: address.port, target: target)
        self.connection = transport.makeConnection(
            WebSocketRequest(endpoint, headers: headers, timeout: .seconds(600)), id: ConnectionID(rawValue: 1),
            events: Events(self.endings, receive))
        self.connection.open()
    }

    deinit { self.connection.abandon() }

    /// Sends messages, which the peer reads together.
    package func send(_ messages: [TransportMessage]) {
        for message in messages { self.connection.enqueue(message) }
        self.connection.flush()
    }

    package func close(_ code: CloseCode = .normal) { self.connection.close(code, reason: "") }

    package func pauseReading() { self.connection.pauseReading() }

    package func resumeReading() {
        self.connection.resumeReading()
        self.connection.flush()
    }
}
