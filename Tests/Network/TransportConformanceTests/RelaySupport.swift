import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import RelayProtocol
import TestSupport
import Testing

/// A relay server on a port on which it can be started again.
struct RunningRelay: Sendable {
    let server: RelayServer
    let listener: SocketListener
    let port: Int

    init(_ kind: RelaySession.Kind, isSecure: Bool = false, streamHeaders: HTTPHeaders = [:]) async throws {
        var limits = ListenerLimits.forTests
        // Streams and polls don't end by themselves.
        limits.shutdownTimeout = .milliseconds(10)
        self.server = RelayServer(offering: [kind], streamHeaders: streamHeaders, time: EventLoop.shared)
        self.port = TestPort.next()
        self.listener = SocketListener(port: self.port, tls: isSecure ? try TestTLS.server() : nil, limits: limits)
        try await self.start()
    }

    func start() async throws { _ = try await self.listener.start(self.server) }
    func stop() async { await self.listener.stop() }
}

/// Sends requests with timeouts that no test reaches by accident.
struct PatientTransport: WebSocketTransport, HTTPExchangeTransport {
    let webSocket: SocketWebSocketTransport
    let http: SocketHTTPTransport

    func makeConnection(_ request: WebSocketRequest, id: ConnectionID, events: any MessageEvents) -> any MessageConnection {
        var request = request
        request.timeout = .seconds(600)
        return self.webSocket.makeConnection(request, id: id, events: events)
    }

    func makeExchange(_ request: HTTPRequest, id: ExchangeID, events: any HTTPExchangeEvents) -> any HTTPExchange {
        var request = request
        (request.connectTimeout, request.idleTimeout) = (.seconds(600), .seconds(600))
        return self.http.makeExchange(request, id: id, events: events)
    }
}

/// A client of a relay server, whose events are recorded. It ends when it is released.
final class RecordedRelayClient: Sendable {
    let client: RelayClient
    private let events: EventRecorder<RelaySession.Event>
    private let observation: CallbackObservation

    /// Creates a client that reconnects a moment after each loss.
    init(port: Int, isSecure: Bool, proxy: ProxyConfiguration = .none, trusting tls: TLSConfiguration = TestTLS.client) {
        let patient = PatientTransport(
            webSocket: SocketWebSocketTransport(tls: tls, proxy: proxy), http: SocketHTTPTransport(tls: tls, proxy: proxy))
        let transports = Transports(webSocket: patient, http: patient, time: EventLoop.shared)
        var policy = ConnectionPolicy()
        policy.openTimeout = .seconds(600)
        let events = EventRecorder<RelaySession.Event>()
        self.client = RelayClient(
            Endpoint(scheme: isSecure ? "https" : "http", host: "localhost", port: port), over: transports, policy: policy,
            // Without a heartbeat, silence doesn't end a connection.
            heartbeat: HeartbeatPolicy(),
            retry: { _ in .after(.milliseconds(50)) })
        self.events = events
        self.observation = self.client.observe { events.record($0) }
        self.client.driver.start()
    }

    deinit { self.client.driver.shutDown() }

    /// Waits until the events contain a value, and returns it.
    @discardableResult
    private func wait<Value>(_ description: String, _ value: ([RelaySession.Event]) -> Value?) async throws -> Value {
        var found: Value?
        try await eventually(description) {
            found = value(self.events.all)
            return found != nil
        }
        guard let found else { preconditionFailure("The wait has ended with a value.") }
        return found
    }

    /// Waits until the client has been connected a number of times.
    func connected(_ kind: RelaySession.Kind, _ count: Int = 1) async throws {
        try await self.wait("the client is connected") { $0.count { $0 == .connected(kind) } >= count ? true : nil }
    }

    /// Waits for a message.
    func message(_ text: String) async throws {
        try await self.wait("a message arrives") { $0.contains(.message(text)) ? true : nil }
    }

    /// Waits for the loss of an established connection, and returns its reason.
    func loss() async throws -> CloseReason {
        try await self.wait("the connection is lost") { events in
            guard let start = events.firstIndex(where: { if case .connected = $0 { true } else { false } }) else { return nil }
            return events[start...].lazy.compactMap { if case .lost(let reason) = $0 { reason } else { nil } }.first
        }
    }

    /// Waits for an attempt or a connection that ends with an error of a kind, and returns it.
    func failure(_ description: String, where isMatch: (TransportError) -> Bool) async throws -> TransportError {
        try await self.wait(description) { events in
            let errors = events.compactMap { if case .lost(.transport(let error)) = $0 { error } else { nil } }
            return errors.first(where: isMatch)
        }
    }

    /// The reasons of all losses and failed attempts.
    var losses: [CloseReason] { self.events.all.compactMap { if case .lost(let reason) = $0 { reason } else { nil } } }

    func hasReceived(_ text: String) -> Bool { self.events.all.contains(.message(text)) }

    var isConnected: Bool { self.events.all.contains { if case .connected = $0 { true } else { false } } }

    /// Sends messages in both directions: small ones, and ones that are larger than the buffers of a proxy.
    func exchange(with server: RelayServer) async throws {
        for text in ["small", String(repeating: "ü", count: 100_000), "last"] {
            server.broadcast("+ \(text)")
            try await self.message(text)
        }
        let items = (0..<50).map { "item\($0)" } + [String(repeating: "ü", count: 100_000)]
        try await expectEqual(self.client.upload(items), items.count)
    }
}
