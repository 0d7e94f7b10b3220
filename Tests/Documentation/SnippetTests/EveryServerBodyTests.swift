import PrimusServer
import PusherServer
import RealtimeCore
import RealtimeTesting
import SignalRServer
import TestSupport
import Testing

/// The limits of the embedded servers of all protocols for the body of a request, before they read it.
@Suite struct EveryServerBodyTests {
    private static func post(_ network: InMemoryNetwork, _ address: ListenerAddress, _ target: String, _ count: Int) async throws -> Int {
        let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: target)
        let body = [UInt8](repeating: UInt8(ascii: " "), count: count)
        return try await network.transports().http.send(HTTPRequest("POST", endpoint, body: body)).head.status
    }

    private static func check(
        _ network: InMemoryNetwork, _ address: ListenerAddress, unknown: [String], known: String, limit: Int
    ) async throws {
        for target in unknown {
            try await expectEqual(self.post(network, address, target, 65 << 10), 413, "\(target)")
            try await expect([400, 401, 404, 500].contains(self.post(network, address, target, 100)), "\(target)")
        }
        try await expect(self.post(network, address, known, 65 << 10) != 413)
        try await expectEqual(self.post(network, address, known, limit + 1), 413)
    }

    @Test func `a Pusher server accepts a large body for its app alone`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let server = PusherServer(app: PusherApp(id: "1", key: "key", secret: "secret"), network: network, log: .none)
        let address = try await server.start(on: network.listener())
        try await Self.check(network, address, unknown: ["/", "/apps/2/events", "/other"], known: "/apps/1/events", limit: 1 << 20)
    }

    @Test func `servers of several apps accept a large body for each of their apps`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let servers = ["1", "2"].map { id in
            PusherServer(app: PusherApp(id: id, key: "key-\(id)", secret: "secret"), network: network, log: .none)
        }
        let address = try await network.listener().start(PusherServerRouter(servers))
        for known in ["/apps/1/events", "/apps/2/events"] {
            try await Self.check(network, address, unknown: ["/", "/apps/3/events", "/other"], known: known, limit: 1 << 20)
        }
        withExtendedLifetime(servers) {}
    }

    @Test(arguments: [(PusherServerProfile.pusher, 200), (.reverb, 1024)])
    func `an authorization endpoint accepts a form with 100 channels of the longest names`(
        row: (profile: PusherServerProfile, nameLimit: Int)
    ) async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        var app = PusherApp(id: "1", key: "key", secret: "secret")
        app.profile = row.profile
        let handler = PusherAuthorizationHandler(app: app)
        let address = try await network.listener().start(handler)
        let limit = 100 * (3 * row.nameLimit + 22) + 64 << 10
        try await Self.check(network, address, unknown: [], known: "/pusher/auth", limit: limit)
        expectEqual(handler.bodyLimit(for: HTTPRequestHead(method: "OPTIONS", target: "/pusher/auth")), 64 << 10)

        let names = (10...109).map { "private-" + String(repeating: "x", count: row.nameLimit - 10) + "\($0)".suffix(2) }
        let encoded = names.map { $0.utf8.map { "%" + String($0, radix: 16) }.joined() }
        let fields = encoded.enumerated().map { "channel_name%5B\($0)%5D=\($1)" }
        let form = (["socket_id=1.2"] + fields).joined(separator: "&")
        let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: "/pusher/auth")
        let response = try await network.transports().http.send(HTTPRequest("POST", endpoint, body: Array(form.utf8)))
        expectEqual(response.head.status, 200)
    }

    @Test func `a router asks the handler of the route, and accepts no large body without one`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let server = PusherServer(app: PusherApp(id: "1", key: "key", secret: "secret"), network: network, log: .none)
        let router = ListenerRouter([
            .exactPath("/pusher/auth", PusherAuthorizationHandler(app: server.app)), .path("/apps", server.listenerHandler),
        ])
        let address = try await network.listener().start(router)
        let unknown = ["/", "/apps/2/events", "/pusher/auth/other"]
        try await Self.check(network, address, unknown: unknown, known: "/apps/1/events", limit: 1 << 20)
        let limit = 100 * (3 * 200 + 22) + 64 << 10
        try await Self.check(network, address, unknown: unknown, known: "/pusher/auth", limit: limit)
    }

    @Test func `a SignalR server accepts a large body for a connection that is open alone`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let server = SignalRServer(network: network, log: .none)
        _ = server.hub("/chat")
        let address = try await server.start(on: network.listener())
        let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: "/chat/negotiate?negotiateVersion=1")
        let negotiation = try await network.transports().http.send(HTTPRequest("POST", endpoint))
        let text = String(decoding: negotiation.body, as: UTF8.self)
        let token = try #require(text.split(separator: "\"").firstIndex(of: "connectionToken").map { text.split(separator: "\"")[$0 + 2] })
        let poll = Endpoint(scheme: "http", host: address.host, port: address.port, target: "/chat?id=\(token)")
        _ = try await network.transports().http.send(HTTPRequest("GET", poll))
        try await Self.check(
            network, address, unknown: ["/", "/other", "/chat?id=other", "/other/negotiate"], known: "/chat?id=\(token)", limit: 2 << 20)
    }

    @Test(arguments: [PrimusTransformerKind.engineIO, .sockjs])
    func `a Primus server accepts a large body for a session that exists alone`(transformer: PrimusTransformerKind) async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        var configuration = PrimusServerConfiguration()
        (configuration.transformer, configuration.messageLimit) = (transformer, 1 << 20)
        let server = PrimusServer(network: network, configuration: configuration, log: .none)
        let address = try await server.start(on: network.listener())
        let isEngineIO = transformer == .engineIO
        let target = isEngineIO ? "/primus/?EIO=4&transport=polling" : "/primus/0/known/xhr"
        let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: target)
        _ = try await network.transports().http.send(HTTPRequest(isEngineIO ? "GET" : "POST", endpoint))
        let unknown = isEngineIO ? "\(target)&sid=other" : "/primus/0/other/xhr_send"
        let known = isEngineIO ? "\(target)&sid=\(try #require(server.sparks.first).id)" : "/primus/0/known/xhr_send"
        try await Self.check(
            network, address, unknown: ["/", "/other", unknown], known: known, limit: (isEngineIO ? 1 : 2) << 20 + 64 << 10)
    }
}
