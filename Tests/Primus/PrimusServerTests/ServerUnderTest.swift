import PrimusServer
import PrimusWire
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// A server in memory, and clients whose bytes a test chooses.
struct ServerUnderTest {
    let clock: ManualClock
    let network: InMemoryNetwork
    let server: PrimusServer
    let address: ListenerAddress

    init(_ configure: (inout PrimusServerConfiguration) -> Void = { _ in }) async throws {
        var configuration = PrimusServerConfiguration()
        configure(&configuration)
        self.clock = ManualClock()
        self.network = InMemoryNetwork(clock: self.clock)
        self.server = PrimusServer(network: self.network, configuration: configuration, log: .none)
        self.address = try await self.server.start(on: self.network.listener())
    }

    /// A server that was started already.
    init(_ clock: ManualClock, _ network: InMemoryNetwork, _ server: PrimusServer, _ address: ListenerAddress) {
        (self.clock, self.network, self.server, self.address) = (clock, network, server, address)
    }

    func client(_ target: String = "/primus", headers: HTTPHeaders = [:]) -> RawClient {
        RawClient(self.network.transports().webSocket, self.address, target, headers)
    }

    func request(
        _ target: String, method: String = "GET", headers: HTTPHeaders = [:], body: String = ""
    ) async throws -> HTTPResponse {
        let endpoint = Endpoint(scheme: "http", host: self.address.host, port: self.address.port, target: target)
        return try await self.network.transports().http.send(HTTPRequest(method, endpoint, headers: headers, body: Array(body.utf8)))
    }
}

/// A client that records what it receives as lines.
struct RawClient {
    let socket: RawSocket
    private let received: EventRecorder<TransportMessage>

    init(_ transport: any WebSocketTransport, _ address: ListenerAddress, _ target: String, _ headers: HTTPHeaders) {
        let received = EventRecorder<TransportMessage>()
        self.received = received
        self.socket = RawSocket(transport, address, target, headers: headers) { received.record($0) }
    }

    func send(_ texts: String...) { self.socket.send(texts.map { .text($0) }) }

    /// The messages that have arrived, with binary messages in hexadecimal.
    var lines: [String] {
        self.received.all.map { message in
            switch message.kind {
            case .text: String(decoding: message.bytes, as: UTF8.self)
            case .binary: "binary " + message.bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            case .ping: "ping frame"
            case .pong: "pong frame"
            }
        }
    }

    var end: CloseReason? { self.socket.endings.all.first }
}

extension ServerUnderTest {
    /// Sends a request. In memory, what the server answers immediately has arrived when this function returns.
    func start(_ target: String, method: String = "GET", headers: HTTPHeaders = [:], body: String = "") throws -> RawExchange {
        let endpoint = Endpoint(scheme: "http", host: self.address.host, port: self.address.port, target: target)
        let transport = try #require(self.network.transports().http as? any HTTPExchangeTransport)
        return RawExchange(transport, HTTPRequest(method, endpoint, headers: headers, body: Array(body.utf8)))
    }

    /// Returns the acceptor of a WebSocket. Without a hook, the server decides immediately.
    func acceptor(of target: String) throws -> any UpgradeAcceptor {
        let answers = EventRecorder<UpgradeResponder.Answer>()
        let decision = self.server.listenerHandler.upgrade(HTTPRequestHead(method: "GET", target: target))
        if case .later(let ask) = decision { ask(UpgradeResponder { answers.record($0) }) }
        guard case .accept(_, _, let acceptor)? = answers.all.first else {
            throw TransportError(.upgradeRejected, "The server didn't accept the WebSocket: \(answers.all)")
        }
        return acceptor
    }

    /// Opens a session of engine.io over polling.
    ///
    /// - Returns: The target of its requests.
    func openEngineIO(_ version: Int = 4) throws -> String {
        let target = "/primus/?EIO=\(version)&transport=polling"
        try expectEqual(self.start(target).status, 200)
        return "\(target)&sid=\(try #require(self.server.sparks.last).id)"
    }
}

/// A request, and what has arrived of its response.
final class RawExchange: HTTPExchangeEvents {
    private struct State: Sendable {
        var head: HTTPResponseHead?
        var body: [UInt8] = []
        var isEnded = false
        var error: TransportError?
        var exchange: (any HTTPExchange)?
    }

    private let state = Lock(State())

    init(_ transport: any HTTPExchangeTransport, _ request: HTTPRequest) {
        let exchange = transport.makeExchange(request, id: ExchangeID(rawValue: 1), events: self)
        self.state.withLock { $0.exchange = exchange }
        exchange.start()
    }

    var status: Int? { self.state.withLock { $0.head?.status } }
    var headers: HTTPHeaders { self.state.withLock { $0.head?.headers ?? [:] } }
    var body: String { self.state.withLock { String(decoding: $0.body, as: UTF8.self) } }
    /// Whether the response is complete, or has failed.
    var isEnded: Bool { self.state.withLock { $0.isEnded } }
    var error: TransportError? { self.state.withLock { $0.error } }

    /// The client ends its connection.
    func cancel() { self.state.withLock { $0.exchange.take() }?.cancel() }

    func received(_ head: HTTPResponseHead, of id: ExchangeID) { self.state.withLock { $0.head = head } }
    func received(_ body: [UInt8], of id: ExchangeID) { self.state.withLock { $0.body += body } }
    func ended(_ id: ExchangeID, _ error: TransportError?) {
        // Released outside the lock.
        _ = self.state.withLock { state in
            (state.isEnded, state.error) = (true, error)
            return state.exchange.take()
        }
    }
}
