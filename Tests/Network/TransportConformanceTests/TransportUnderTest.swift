import RealtimeSystem
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import Testing

/// A transport and a listener that belong together. Another transport joins the suite by another case.
enum TransportUnderTest: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case memory = "in memory"
    case sockets = "plain sockets"
    case tls = "TLS sockets"

    var testDescription: String { self.rawValue }

    /// Those that can run here. TLS is left out, with a word in the test's name list, where no TLS library can be loaded.
    static let available: [TransportUnderTest] = [.memory, .sockets] + (TestTLS.isAvailable ? [.tls] : [])

    struct Ground: Sendable {
        let transport: any WebSocketTransport
        let listener: any Listener
        let scheme: String

        func endpoint(_ address: ListenerAddress, _ target: String = "/") -> Endpoint {
            Endpoint(scheme: self.scheme, host: address.host, port: address.port, target: target)
        }
    }

    func ground() throws -> Ground {
        switch self {
        case .memory:
            let network = InMemoryNetwork(clock: ManualClock())
            return Ground(transport: network.webSocket, listener: network.listener(), scheme: "ws")
        case .sockets:
            return Ground(transport: SocketWebSocketTransport(), listener: SocketListener(), scheme: "ws")
        case .tls:
            return Ground(
                transport: SocketWebSocketTransport(tls: TestTLS.client), listener: SocketListener(tls: try TestTLS.server()), scheme: "wss"
            )
        }
    }

    /// Runs `body` with a server that does what `behaviour` says and a way to connect to it.
    func with(_ behaviour: Behaviour, _ body: (Connector) async throws -> Void) async throws {
        let ground = try self.ground()
        let server = BehavingServer(behaviour)
        let address = try await ground.listener.start(server)
        do {
            try await body(Connector(ground: ground, address: address, server: server))
        } catch {
            await ground.listener.stop()
            throw error
        }
        await ground.listener.stop()
    }

    struct Connector {
        let ground: Ground
        let address: ListenerAddress
        let server: BehavingServer

        func connect(
            _ target: String = "/", subprotocols: [String] = [], headers: HTTPHeaders = [:], messageLimit: Int = 32 << 20,
            opens: Bool = true
        ) -> (connection: any WebSocketConnection, probe: Probe) {
            let probe = Probe()
            let request = WebSocketRequest(
                self.ground.endpoint(self.address, target), headers: headers, subprotocols: subprotocols, messageLimit: messageLimit)
            let connection = self.ground.transport.makeConnection(request, id: ConnectionID(rawValue: 7), events: probe)
            if opens { connection.open() }
            return (connection, probe)
        }
    }
}

/// What a server of the suite does.
struct Behaviour: Sendable {
    var upgrade: @Sendable (HTTPRequestHead) -> UpgradeDecision = { _ in .accept(subprotocol: nil) }
    /// Before the connection is open.
    var accepted: @Sendable (any WebSocketConnection) -> Void = { _ in }
    var opened: @Sendable (any WebSocketConnection) -> Void = { _ in }
    var received: @Sendable (any WebSocketConnection, WebSocketMessage) -> Void = { _, _ in }

    /// Sends back what comes.
    static let echo = Behaviour(received: { connection, message in
        guard message.kind == .text || message.kind == .binary else { return }
        connection.enqueue(message)
        connection.flush()
    })
}

final class BehavingServer: ListenerHandler {
    private let behaviour: Behaviour
    let requests = EventRecorder<HTTPRequestHead>()
    let ends = Probe()

    init(_ behaviour: Behaviour) {
        self.behaviour = behaviour
    }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) { responder.respond(HTTPResponse(status: 404)) }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision {
        self.requests.record(request)
        return self.behaviour.upgrade(request)
    }

    func accepted(_ connection: any WebSocketConnection, id: ConnectionID, request: HTTPRequestHead) -> any WebSocketEvents {
        self.behaviour.accepted(connection)
        return Session(self, connection)
    }

    private final class Session: WebSocketEvents {
        let server: BehavingServer
        let connection: any WebSocketConnection

        init(_ server: BehavingServer, _ connection: any WebSocketConnection) {
            self.server = server
            self.connection = connection
        }

        func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.server.behaviour.opened(self.connection) }

        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
            for message in batch.messages { self.server.behaviour.received(self.connection, message) }
        }

        func closed(_ id: ConnectionID, _ reason: CloseReason) { self.server.ends.closed(id, reason) }
    }
}

/// Keeps what a connection tells, and lets a test wait for the next of it.
final class Probe: WebSocketEvents {
    enum News: Sendable, Equatable {
        case opened(HTTPResponseHead)
        case message(WebSocketMessage)
        case closed(CloseReason)
    }

    private struct State: Sendable {
        var news: [News] = []
        var waiting: WakeUp?
    }

    private let state = Lock(State())

    func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.tell([.opened(head)]) }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) { self.tell(batch.messages.map { .message($0) }) }

    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.tell([.closed(reason)]) }

    private func tell(_ news: [News]) {
        let waiting = self.state.withLock { state in
            state.news += news
            return state.waiting.take()
        }
        waiting?.resume()
    }

    /// The next of what happened, in order.
    func next() async -> News {
        while true {
            if let news = self.state.withLock({ $0.news.isEmpty ? nil : $0.news.removeFirst() }) { return news }
            await suspend { wakeUp in
                self.state.withLock { state in
                    guard state.news.isEmpty, !Task.isCancelled else { return false }
                    state.waiting = wakeUp
                    return true
                }
            } onCancel: {
                self.state.withLock { $0.waiting.take() }
            }
            if Task.isCancelled { return .closed(.transport(TransportError(.cancelled, "the test's time is up"))) }
        }
    }

    /// Whether everything that happened was looked at.
    var isQuiet: Bool { self.state.withLock { $0.news.isEmpty } }

    func opened() async throws -> HTTPResponseHead {
        guard case .opened(let head) = await self.next() else { throw Unexpected() }
        return head
    }

    /// The next text or binary message.
    func message() async throws -> WebSocketMessage {
        while true {
            switch await self.next() {
            case .message(let message) where message.kind == .ping || message.kind == .pong: continue
            case .message(let message): return message
            case .opened: throw Unexpected()
            case .closed(let reason): throw Ended(reason: reason)
            }
        }
    }

    func expect(_ expected: WebSocketMessage, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let message = try await self.message()
        #expect(message == expected, sourceLocation: sourceLocation)
    }

    /// Why it ended; what comes before is passed over.
    func closed() async -> CloseReason {
        while true {
            if case .closed(let reason) = await self.next() { return reason }
        }
    }

    struct Unexpected: Error {}
    struct Ended: Error { var reason: CloseReason }
}
