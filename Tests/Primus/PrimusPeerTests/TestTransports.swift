import RealtimeCore
import RealtimeSystem

/// A transport whose connections don't begin before the test says so.
final class HeldTransport: WebSocketTransport {
    private struct State: Sendable {
        var held: [any WebSocketConnection] = []
        var isReleased = false
    }

    private let transport: any WebSocketTransport
    private let state = Lock(State())

    init(_ transport: any WebSocketTransport) {
        self.transport = transport
    }

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any WebSocketEvents) -> any WebSocketConnection {
        HeldConnection(self.transport.makeConnection(request, id: id, events: events), self)
    }

    /// The number of connections that wait.
    var heldCount: Int { self.state.withLock { $0.held.count } }

    /// Opens the connections that wait, and further ones without waiting.
    func release() {
        let held = self.state.withLock { state in
            defer { state.held = [] }
            state.isReleased = true
            return state.held
        }
        for connection in held { connection.open() }
    }

    fileprivate func open(_ connection: any WebSocketConnection) {
        let isReleased = self.state.withLock { state in
            if !state.isReleased { state.held.append(connection) }
            return state.isReleased
        }
        if isReleased { connection.open() }
    }
}

private final class HeldConnection: ConnectionDecorator {
    let connection: any WebSocketConnection
    private let transport: HeldTransport

    init(_ connection: any WebSocketConnection, _ transport: HeldTransport) {
        (self.connection, self.transport) = (connection, transport)
    }

    func open() { self.transport.open(self.connection) }
}

/// A transport whose connections receive nothing while the test says so.
final class SilentTransport: WebSocketTransport {
    private let transport: any WebSocketTransport
    private let state = Lock(false)

    init(_ transport: any WebSocketTransport) {
        self.transport = transport
    }

    var isSilent: Bool {
        get { self.state.withLock { $0 } }
        set { self.state.withLock { $0 = newValue } }
    }

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any WebSocketEvents) -> any WebSocketConnection {
        self.transport.makeConnection(request, id: id, events: SilentEvents(events, self))
    }
}

private final class SilentEvents: WebSocketEvents {
    private let events: any WebSocketEvents
    private let transport: SilentTransport

    init(_ events: any WebSocketEvents, _ transport: SilentTransport) {
        (self.events, self.transport) = (events, transport)
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.events.opened(id, head: head) }
    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) { if !self.transport.isSilent { self.events.received(id, batch) } }
    func writing(_ id: ConnectionID, paused: Bool) { self.events.writing(id, paused: paused) }
    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.events.closed(id, reason) }
}

/// A balancer that doesn't remember which server has a session: all requests go to the server that was set last.
final class Balancer: HTTPTransport {
    private let transport: any HTTPTransport
    private let port = Lock<Int?>(nil)

    init(_ transport: any HTTPTransport) {
        self.transport = transport
    }

    /// Sends all further requests to a port.
    func lead(to port: Int) { self.port.withLock { $0 = port } }

    func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
        var request = request
        if let port = self.port.withLock({ $0 }) { request.endpoint.port = port }
        return try await self.transport.open(request)
    }
}

/// A balancer that sends all WebSockets to one server.
struct OtherServer: WebSocketTransport {
    let transport: any WebSocketTransport
    let port: Int

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any WebSocketEvents) -> any WebSocketConnection {
        var request = request
        request.endpoint.port = self.port
        return self.transport.makeConnection(request, id: id, events: events)
    }
}
