import RealtimeCore
import RealtimeSystem
import TestSupport

/// A transport whose connections don't begin before the test says so.
final class HeldTransport: WebSocketTransport {
    private struct State: Sendable {
        var held: [any MessageConnection] = []
        var isReleased = false
    }

    private let transport: any WebSocketTransport
    private let state = Lock(State())

    init(_ transport: any WebSocketTransport) {
        self.transport = transport
    }

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection {
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

    fileprivate func open(_ connection: any MessageConnection) {
        let isReleased = self.state.withLock { state in
            if !state.isReleased { state.held.append(connection) }
            return state.isReleased
        }
        if isReleased { connection.open() }
    }
}

private final class HeldConnection: ConnectionDecorator {
    let connection: any MessageConnection
    private let transport: HeldTransport

    init(_ connection: any MessageConnection, _ transport: HeldTransport) {
        (self.connection, self.transport) = (connection, transport)
    }

    func open() { self.transport.open(self.connection) }
}

/// Transports whose connections receive nothing while the test says so: the messages of a WebSocket are lost, and responses wait.
final class SilentTransport: WebSocketTransport, HTTPTransport {
    private struct State: Sendable {
        var isSilent = false
        /// Sent at the end of the silence, each for a part of a response that waits.
        var waiting: [Signal] = []
    }

    private let transports: Transports
    private let state = Lock(State())

    init(_ transports: Transports) {
        self.transports = transports
    }

    var isSilent: Bool {
        get { self.state.withLock { $0.isSilent } }
        set {
            let waiting = self.state.withLock { state -> [Signal] in
                state.isSilent = newValue
                if newValue { return [] }
                defer { state.waiting = [] }
                return state.waiting
            }
            for signal in waiting { signal.send() }
        }
    }

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection {
        self.transports.webSocket.makeConnection(request, id: id, events: SilentEvents(events, self))
    }

    func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
        var response = try await self.transports.http.open(request)
        await self.endOfSilence()
        response.body = SilentBody(response.body, self)
        return response
    }

    /// Waits until the connections receive what has arrived, or until the task is cancelled.
    fileprivate func endOfSilence() async {
        let signal = Signal()
        let isSilent = self.state.withLock { state in
            if state.isSilent { state.waiting.append(signal) }
            return state.isSilent
        }
        if isSilent { await signal.wait() }
    }
}

private final class SilentBody: HTTPBody {
    private let body: any HTTPBody
    private let transport: SilentTransport

    init(_ body: any HTTPBody, _ transport: SilentTransport) {
        (self.body, self.transport) = (body, transport)
    }

    func next() async throws(TransportError) -> [UInt8]? {
        let bytes = try await self.body.next()
        await self.transport.endOfSilence()
        return bytes
    }
}

private final class SilentEvents: MessageEvents {
    private let events: any MessageEvents
    private let transport: SilentTransport

    init(_ events: any MessageEvents, _ transport: SilentTransport) {
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

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection {
        var request = request
        request.endpoint.port = self.port
        return self.transport.makeConnection(request, id: id, events: events)
    }
}
