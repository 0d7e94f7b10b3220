import RealtimeSystem
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

#if canImport(Darwin)
import RealtimeURLSession
#endif

/// A transport and the listener it connects to. Another transport is added to the suites as another case.
enum TransportUnderTest: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case memory = "in memory"
    case sockets = "plain sockets"
    case tls = "TLS sockets"
    case memoryStream = "HTTP stream in memory"
    case memoryPolling = "HTTP polling in memory"
    case socketsStream = "HTTP stream on sockets"
    case socketsPolling = "HTTP polling on sockets"
    #if canImport(Darwin)
    /// The default on Apple platforms. It connects to the listener on sockets.
    case urlSession = "URLSession"
    #endif

    var testDescription: String { self.rawValue }

    /// The transports that can run on this system. TLS is missing if no TLS library can be loaded.
    static let available: [TransportUnderTest] = [.memory, .sockets] + Requirement.openSSL.cases([.tls])

    /// The available ones and, on Apple platforms, the system's transport, for requirements that it can fulfill. It has no API for the data
    /// of pings, for example.
    static var withSystemTransport: [TransportUnderTest] {
        #if canImport(Darwin)
        return Self.available + [.urlSession]
        #else
        return Self.available
        #endif
    }

    /// Connections over HTTP requests, for requirements that aren't special to WebSockets.
    static let overHTTP: [TransportUnderTest] = [.memoryStream, .memoryPolling, .socketsStream, .socketsPolling]

    var isOverHTTP: Bool { Self.overHTTP.contains(self) }
    private var isStream: Bool { self == .memoryStream || self == .socketsStream }

    /// The status of the response that opens a connection.
    var openingStatus: Int { self.isOverHTTP ? 200 : 101 }

    struct Setup: Sendable {
        let transport: any WebSocketTransport
        let http: any HTTPExchangeTransport
        let listener: any Listener
        let scheme: String
        /// The clock of the server's connections over HTTP.
        var time: (any TimeSource)?

        /// Decorates a handler, so that its connections are of the kind that the client opens.
        func decorated(_ handler: any ListenerHandler) -> any ListenerHandler {
            if let time = self.time { FramedHTTPHandler(handler, time: time) } else { handler }
        }

        func endpoint(_ address: ListenerAddress, _ target: String = "/") -> Endpoint {
            Endpoint(scheme: self.scheme, host: address.host, port: address.port, target: target)
        }
    }

    /// Limits for requests that contain whole messages.
    private static var largeBodies: ListenerLimits {
        var limits = ListenerLimits.forTests
        limits.bodyBytes = 32 << 20
        return limits
    }

    func setup() throws -> Setup {
        switch self {
        case .memory:
            let network = InMemoryNetwork(clock: ManualClock())
            guard let http = network.http as? any HTTPExchangeTransport else { preconditionFailure("it has exchanges") }
            return Setup(transport: network.webSocket, http: http, listener: network.listener(), scheme: "ws")
        case .memoryStream, .memoryPolling:
            let network = InMemoryNetwork(clock: ManualClock())
            let transports = network.transports()
            guard let http = network.http as? any HTTPExchangeTransport else { preconditionFailure("it has exchanges") }
            return Setup(
                transport: FramedHTTPTransport(transports, isStream: self.isStream), http: http, listener: network.listener(), scheme: "ws",
                time: transports.time)
        case .socketsStream, .socketsPolling:
            let (webSocket, http) = (SocketWebSocketTransport(), SocketHTTPTransport())
            let transports = Transports(webSocket: webSocket, http: http, time: EventLoop.shared)
            return Setup(
                transport: FramedHTTPTransport(transports, isStream: self.isStream), http: http,
                listener: SocketListener(limits: Self.largeBodies),
                // The time limits of the server's connections, which a client on a busy machine may exceed, don't elapse.
                scheme: "ws", time: ManualClock().time)
        case .sockets:
            return Setup(
                transport: SocketWebSocketTransport(), http: SocketHTTPTransport(), listener: SocketListener(limits: .forTests),
                scheme: "ws")
        #if canImport(Darwin)
        case .urlSession:
            return Setup(
                transport: URLSessionWebSocketTransport(), http: URLSessionHTTPTransport(), listener: SocketListener(limits: .forTests),
                scheme: "ws")
        #endif
        case .tls:
            return Setup(
                transport: SocketWebSocketTransport(tls: TestTLS.client), http: SocketHTTPTransport(tls: TestTLS.client),
                listener: SocketListener(tls: try TestTLS.server(), limits: .forTests), scheme: "wss")
        }
    }

    /// Runs `body` with a running server of this behavior, and with what a client needs to connect to it.
    func with(_ behavior: Behavior, _ body: (Connector) async throws -> Void) async throws {
        let setup = try self.setup()
        let server = ScriptedServer(behavior)
        let address = try await setup.listener.start(setup.decorated(server))
        do {
            try await body(Connector(setup: setup, address: address, server: server))
        } catch {
            await setup.listener.stop()
            throw error
        }
        await setup.listener.stop()
    }

    struct Connector {
        let setup: Setup
        let address: ListenerAddress
        let server: ScriptedServer

        func connect(
            _ target: String = "/", subprotocols: [String] = [], headers: HTTPHeaders = [:], messageLimit: Int = 32 << 20,
            opens: Bool = true
        ) -> (connection: any MessageConnection, probe: Probe) {
            let probe = Probe()
            let request = WebSocketRequest(
                self.setup.endpoint(self.address, target), headers: headers, subprotocols: subprotocols, messageLimit: messageLimit,
                timeout: .seconds(600))
            let connection = self.setup.transport.makeConnection(request, id: ConnectionID(rawValue: 7), events: probe)
            if opens { connection.open() }
            return (connection, probe)
        }
    }
}

/// The reactions of a server.
struct Behavior: Sendable {
    /// Answers a request that isn't an upgrade.
    var request: @Sendable (HTTPRequestHead, any HTTPResponder) -> Void = { _, responder in responder.respond(HTTPResponse(status: 404)) }
    var upgrade: @Sendable (HTTPRequestHead) -> UpgradeDecision = { _ in .accept(subprotocol: nil) }
    /// Called before the connection is open.
    var accepted: @Sendable (any MessageConnection) -> Void = { _ in }
    var opened: @Sendable (any MessageConnection) -> Void = { _ in }
    var received: @Sendable (any MessageConnection, TransportMessage) -> Void = { _, _ in }

    /// Sends every text and binary message back.
    static let echo = Behavior(received: { connection, message in
        guard message.kind == .text || message.kind == .binary else { return }
        connection.enqueue(message)
        connection.flush()
    })
}

final class ScriptedServer: AcceptingHandler {
    private let behavior: Behavior
    let requests = EventRecorder<HTTPRequestHead>()
    let ends = Probe()

    init(_ behavior: Behavior) {
        self.behavior = behavior
    }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) { self.behavior.request(request, responder) }

    func decision(about request: HTTPRequestHead) -> UpgradeDecision {
        self.requests.record(request)
        return self.behavior.upgrade(request)
    }

    func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents {
        self.behavior.accepted(connection)
        return Session(self, connection)
    }

    private final class Session: MessageEvents {
        let server: ScriptedServer
        let connection: any MessageConnection

        init(_ server: ScriptedServer, _ connection: any MessageConnection) {
            self.server = server
            self.connection = connection
        }

        func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.server.behavior.opened(self.connection) }

        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
            for message in batch.messages { self.server.behavior.received(self.connection, message) }
        }

        func closed(_ id: ConnectionID, _ reason: CloseReason) { self.server.ends.closed(id, reason) }
    }
}

/// Records the events of a connection, and lets a test wait for the next one.
final class Probe: MessageEvents {
    enum Event: Sendable, Equatable {
        case opened(HTTPResponseHead)
        case message(TransportMessage)
        case writing(paused: Bool)
        case closed(CloseReason)
    }

    private struct State: Sendable {
        var events: [Event] = []
        var waiting: WakeUp?
    }

    private let state = Lock(State())

    func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.append([.opened(head)]) }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) { self.append(batch.messages.map { .message($0) }) }

    func writing(_ id: ConnectionID, paused: Bool) { self.append([.writing(paused: paused)]) }

    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.append([.closed(reason)]) }

    private func append(_ events: [Event]) {
        let waiting = self.state.withLock { state in
            state.events += events
            return state.waiting.take()
        }
        waiting?.resume()
    }

    /// Returns the next event.
    func next() async -> Event {
        while true {
            if let event = self.state.withLock({ $0.events.isEmpty ? nil : $0.events.removeFirst() }) { return event }
            await suspend { wakeUp in
                self.state.withLock { state in
                    guard state.events.isEmpty, !Task.isCancelled else { return false }
                    state.waiting = wakeUp
                    return true
                }
            } onCancel: {
                self.state.withLock { $0.waiting.take() }
            }
            if Task.isCancelled { return .closed(.transport(TransportError(.cancelled, "the test's time limit is exceeded"))) }
        }
    }

    /// Whether there are no events that ``next()`` has not returned.
    var isEmpty: Bool { self.state.withLock { $0.events.isEmpty } }

    func opened() async throws -> HTTPResponseHead {
        guard case .opened(let head) = await self.next() else { throw Unexpected() }
        return head
    }

    /// Returns the next text or binary message.
    func message() async throws -> TransportMessage {
        while true {
            switch await self.next() {
            case .message(let message) where message.kind == .ping || message.kind == .pong: continue
            case .message(let message): return message
            case .writing: continue
            case .opened: throw Unexpected()
            case .closed(let reason): throw Ended(reason: reason)
            }
        }
    }

    func expect(_ expected: TransportMessage, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let message = try await self.message()
        #expect(message == expected, sourceLocation: sourceLocation)
    }

    /// Returns the reason for the end, and skips the events before it.
    func closed() async -> CloseReason {
        while true {
            if case .closed(let reason) = await self.next() { return reason }
        }
    }

    struct Unexpected: Error {}
    struct Ended: Error { var reason: CloseReason }
}
