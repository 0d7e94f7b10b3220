import ProxySupport
import RealtimeCore
import RealtimeTesting
import SignalRHubs
import SignalRServer
import SignalRTesting
import SignalRWire
import TestSupport
import Testing

/// A hub of an embedded server in memory, and its clients.
struct HubServerFixture {
    let signalR: InMemorySignalR
    let hub: Hub
    /// The requests that the server's hook has seen.
    let requests = EventRecorder<SignalRAuthenticationRequest>()

    /// A server without a hook, so that everything that the clock causes has happened when it has advanced.
    init(configuration: SignalRServerConfiguration = SignalRServerConfiguration()) async throws {
        self.signalR = try await InMemorySignalR(configuration: configuration)
        self.hub = self.signalR.server.hub("/chat")
        self.hub.on("Add") { (caller, a: Int, b: Int) in a + b }
    }

    init(
        configuration: SignalRServerConfiguration = SignalRServerConfiguration(),
        deciding decide: @escaping @Sendable (SignalRAuthenticationRequest) async -> SignalRAuthenticationDecision
    ) async throws {
        var hooks = SignalRServerHooks()
        hooks.authenticate = { [requests] request in
            requests.record(request)
            return await decide(request)
        }
        self.signalR = try await InMemorySignalR(configuration: configuration, hooks: hooks)
        self.hub = self.signalR.server.hub("/chat")
        self.hub.on("Add") { (caller, a: Int, b: Int) in a + b }
    }

    func client(allowing transports: HubTransportKinds, _ configure: (inout HubConfiguration) -> Void = { _ in }) -> HubClient {
        self.signalR.client("/chat") {
            $0.allowedTransports = transports
            configure(&$0)
        }
    }

    func client(_ transport: HubTransport, _ configure: (inout HubConfiguration) -> Void = { _ in }) -> HubClient {
        self.client(allowing: HubTransportKinds(transport), configure)
    }

    /// A server whose hook accepts all requests, and records them.
    static func recording(
        configuration: SignalRServerConfiguration = SignalRServerConfiguration()
    ) async throws -> HubServerFixture {
        try await HubServerFixture(configuration: configuration) { _ in .accept(userID: nil) }
    }

    /// Cuts the connection of a client. Between two polls, there is nothing to cut.
    func cut(_ client: HubClient) async throws {
        try await eventually("the client notices the loss") {
            self.signalR.network.cut()
            return !client.isConnected
        }
    }

    /// The requests of a connection, without its negotiation.
    var connectionRequests: [HTTPRequestHead] { self.requests.all.filter { !$0.isNegotiation }.map(\.request) }
}

/// The access tokens of a client, which are made of the number of the request for one, from 1.
struct CountedTokens {
    private let asked = EventRecorder<Int>()
    private let token: @Sendable (_ number: Int) throws -> String

    init(_ token: @escaping @Sendable (_ number: Int) throws -> String) {
        self.token = token
    }

    /// How often the client has asked.
    var count: Int { self.asked.all.count }

    var provider: HubConfiguration.AccessTokenProvider {
        { [asked, token] in
            asked.record(1)
            return try token(asked.all.count)
        }
    }
}

/// Expects that a connection can last for some time although nothing but the messages of the server keeps it alive.
func expectConnection(lasts duration: Duration, _ makeClient: () throws -> HubClient) async throws {
    try await expectConnection(lasts: duration) {
        let client = try makeClient()
        let id = try await client.start()
        // In one step: a reconnect may be in progress.
        return ({ client.state == .connected(connectionID: id) }, { client.stop() })
    }
}

/// Calls the method `Add` of a hub several times, and receives a long stream of its method `Count`.
func expectCallsAndStream(_ client: HubClient) async throws {
    for number in 0..<20 { try await expectEqual(client.invoke("Add", number, 1, as: Int.self), number + 1) }
    var items: [Int] = []
    for try await item in try client.stream("Count", 500, of: Int.self) { items.append(item) }
    expectEqual(items, Array(0..<500))
}
