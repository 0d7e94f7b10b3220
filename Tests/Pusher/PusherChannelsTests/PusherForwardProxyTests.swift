import ProxySupport
import PusherChannels
import PusherServer
import PusherTestSupport
import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

/// Clients and publishers that connect through a proxy.
@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct PusherForwardProxyTests {
    private static let credentials = ProxyConfiguration.Credentials(username: "anna", password: "hunter2")

    private static let tls: TLSConfiguration = {
        var tls = TLSConfiguration()
        tls.trustRoots = .only([.file(Vectors.path("certificates/root.pem"))])
        return tls
    }()

    private static let wires = [false] + Requirement.openSSL.cases([true])

    private static func start(_ server: PusherServer, secure: Bool) async throws -> ListenerAddress {
        guard secure else { return try await server.start(on: SocketListener(limits: .forTests)) }
        let identity = TLSIdentity(
            certificateChain: .file(Vectors.path("certificates/server.pem")),
            privateKey: .file(Vectors.path("certificates/server-key.pem")))
        return try await server.start(on: SocketListener(tls: TLSServerConfiguration(identity), limits: .forTests))
    }

    private static func withProxy(
        _ kind: TestProxy.Kind, secure: Bool, _ body: (TestProxy, PusherServer, PusherConfiguration) async throws -> Void
    ) async throws {
        let server = PusherServer(app: PusherApp(id: "1", key: "key", secret: "secret"), log: .none)
        let address = try await Self.start(server, secure: secure)
        let proxy = try TestProxy(kind, credentials: Self.credentials)
        var configuration = PusherConfiguration(key: "key", host: "localhost", port: address.port, useTLS: address.isSecure)
        configuration.transports.webSocket = SocketWebSocketTransport(tls: Self.tls, proxy: proxy.configuration)
        configuration.transports.http = SocketHTTPTransport(tls: Self.tls, proxy: proxy.configuration)
        configuration.authorizer = .secret("secret")
        configuration.backoff = Backoff(base: .milliseconds(1), cap: .milliseconds(10))
        configuration.log = .none
        configuration.allowLongTimes()
        do {
            try await body(proxy, server, configuration)
        } catch {
            await proxy.stop()
            await server.stop()
            throw error
        }
        await proxy.stop()
        await server.stop()
    }

    @Test(arguments: TestProxy.Kind.allCases, Self.wires)
    func `a client and a publisher exchange events through an HTTP or SOCKS proxy`(kind: TestProxy.Kind, secure: Bool) async throws {
        try await Self.withProxy(kind, secure: secure) { proxy, server, configuration in
            let client = PusherClient(configuration)
            client.connect()
            let channel = try client.subscribe("private-orders")
            let events = channel.events("tick")
            try await channel.subscribed(within: .seconds(300))
            let publisher = PusherPublisher(
                appID: "1", key: "key", secret: "secret",
                endpoint: Endpoint(scheme: configuration.useTLS ? "https" : "http", host: "localhost", port: configuration.port ?? 0),
                http: configuration.transports.http)
            try await publisher.publish("tick", to: "private-orders", data: ["price": 7])
            try await expectEqual(events.first { _ in true }?.decode([String: Int].self), ["price": 7])
            expectEqual(proxy.targets, [String](repeating: "localhost:\(configuration.port ?? 0)", count: 2))
            client.disconnect()
        }
    }

    @Test func `a client reconnects through the proxy after the tunnel was closed`() async throws {
        try await Self.withProxy(.http, secure: false) { proxy, server, configuration in
            let client = PusherClient(configuration)
            client.connect()
            let first = try await client.connected(within: .seconds(300))
            let states = client.states
            proxy.dropTunnels()
            _ = await states.first { $0.name == "connecting" }
            try await expect(client.connected(within: .seconds(300)) != first)
            expect(proxy.targets.count >= 2)
            client.disconnect()
        }
    }

    @Test func `a client whose proxy rejects it reports why, and keeps retrying`() async throws {
        try await Self.withProxy(.http, secure: false) { proxy, server, configuration in
            var configuration = configuration
            configuration.transports.webSocket = SocketWebSocketTransport(proxy: proxy.configuration(with: nil))
            let client = PusherClient(configuration)
            let errors = client.errors
            client.connect()
            let error = try #require(await errors.first { _ in true })
            expect(error.code == .connectionLost && (error.cause as? TransportError)?.code == .proxyRejected)
            expect(error.message.contains("requires a user name and a password (407 Proxy Authentication Required)"))
            expect(client.state == .connecting || client.state.name == "unavailable")
            client.disconnect()
        }
    }
}
