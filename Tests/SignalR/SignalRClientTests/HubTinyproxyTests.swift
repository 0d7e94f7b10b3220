import ProxySupport
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import RealtimeTransports
import SignalRHubs
import SignalRServer
import SignalRWire
import TestSupport
import Testing

/// Clients and the embedded server with tinyproxy between them, which opens tunnels.
@Suite(.usesSockets, .requires(.tinyproxy), .timeLimit(.minutes(10)))
struct HubTinyproxyTests {
    private static let credentials = ProxyConfiguration.Credentials(username: "anna", password: "hunter2")
    private static func pem(_ name: String) -> PEM { .file(Vectors.path("certificates/\(name).pem")) }
    private static let wires = [false] + Requirement.openSSL.cases([true])

    /// A server, a proxy, and a relay through which clients reach the proxy.
    private struct Setup {
        let server: SignalRServer
        let proxy: Tinyproxy
        let relay: TestRelay
        let url: String

        var hub: Hub { self.server.hub("/chat") }

        func client(
            _ transport: HubTransport, _ credentials: ProxyConfiguration.Credentials = HubTinyproxyTests.credentials,
            _ configure: (inout HubConfiguration) -> Void = { _ in }
        ) throws -> HubClient {
            let proxy = ProxyConfiguration.http(host: "127.0.0.1", port: self.relay.port, credentials: credentials)
            var tls = TLSConfiguration()
            tls.trustRoots = .only([HubTinyproxyTests.pem("root")])
            var transports = Transports.standard
            transports.webSocket = SocketWebSocketTransport(tls: tls, proxy: proxy)
            transports.http = SocketHTTPTransport(tls: tls, proxy: proxy)
            var options = try HubConfiguration(url: self.url)
            options.transports = transports
            options.allowedTransports = HubTransportKinds(transport)
            options.log = .none
            options.allowLongTimes()
            options.retry = .backoff(Backoff(base: .milliseconds(20), cap: .milliseconds(100)))
            configure(&options)
            return HubClient(options)
        }
    }

    private static func with(
        isSecure: Bool = false, timeout: Int = 600, _ configuration: SignalRServerConfiguration = SignalRServerConfiguration(),
        _ body: (Setup) async throws -> Void
    ) async throws {
        var configuration = configuration
        configuration.allowLongTimes()
        let server = SignalRServer(configuration: configuration, log: .none)
        server.hub("/chat").on("Add") { (caller, a: Int, b: Int) in a + b }
        server.hub("/chat").on("Sum") { (caller, items: HubStream<Int>) in try await items.reduce(0, +) }
        server.hub("/chat").stream("Count") { (caller, count: Int) in Self.numbers(count) }
        let identity = TLSIdentity(certificateChain: Self.pem("server"), privateKey: Self.pem("server-key"))
        let listener =
            isSecure ? SocketListener(tls: TLSServerConfiguration(identity), limits: .forTests) : SocketListener(limits: .forTests)
        let port = try await server.start(on: listener).port
        let proxy = try Tinyproxy {
            ($0.credentials, $0.port, $0.timeout) = (Self.credentials, port, timeout)
        }
        try await proxy.start()
        let relay = try TestRelay(to: proxy.port)
        try await body(
            Setup(server: server, proxy: proxy, relay: relay, url: "\(isSecure ? "https" : "http")://localhost:\(port)/chat"))
        await relay.stop()
        await proxy.stop()
        await server.stop()
    }

    private static func numbers(_ count: Int) -> AsyncStream<Int> {
        AsyncStream { continuation in
            for number in 0..<count { continuation.yield(number) }
            continuation.finish()
        }
    }

    @Test(arguments: HubTransport.allCases, Self.wires)
    func `calls and streams pass through tinyproxy`(transport: HubTransport, isSecure: Bool) async throws {
        try await Self.with(isSecure: isSecure) { setup in
            let client = try setup.client(transport)
            try await client.start()
            expectEqual(client.transport, transport)
            try await expectCallsAndStream(client)
            try await expectEqual(client.invoke("Sum", HubUpload(Self.numbers(100)), as: Int.self), 4950)
            expect(setup.relay.connectionCount > 0)
            client.stop()
            try await eventually { setup.hub.connectionIDs.isEmpty }
        }
    }

    @Test(arguments: HubTransport.allCases)
    func `a proxy that refuses the tunnel is the reason why a start fails`(transport: HubTransport) async throws {
        try await Self.with { setup in
            let client = try setup.client(transport, .init(username: "anna", password: "wrong"))
            let error = await #expect(throws: HubError.self) { try await client.start() }
            expectEqual(error?.transportError?.code, .proxyRejected, "\(error?.message ?? "")")
            expectEqual(error?.message.contains("wrong"), false)
        }
    }

    @Test(arguments: HubTransport.allCases, Self.wires)
    func `a client reconnects after a restart of tinyproxy`(transport: HubTransport, isSecure: Bool) async throws {
        try await Self.with(isSecure: isSecure) { setup in
            let client = try setup.client(transport)
            let first = try await client.start()
            let updates = client.updates()
            await setup.proxy.stop()
            _ = await updates.first { if case .reconnecting = $0 { true } else { false } }
            try await setup.proxy.start()
            _ = await updates.first { if case .reconnected = $0 { true } else { false } }
            expect(client.connectionID != first)
            try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3)
            client.stop()
        }
    }

    @Test(arguments: HubTransport.allCases)
    func `a tunnel that tinyproxy closes for inactivity is replaced`(transport: HubTransport) async throws {
        try await Self.with(timeout: 1) { setup in
            // On a busy machine, the proxy may close the first tunnel before the client is connected.
            let client = try setup.client(transport) { $0.retriesFirstStart = true }
            let first = try await client.start()
            let updates = client.updates()
            // The proxy may close the next tunnel before the test continues, so only the update says what the connection was.
            var second: String?
            for await update in updates {
                guard case .reconnected(let id) = update else { continue }
                second = id
                break
            }
            expect(second != nil && second != first)
            client.stop()
        }
    }

    @Test(arguments: HubTransport.allCases)
    func `a connection outlives the idle limit of tinyproxy, if the server's intervals are shorter`(transport: HubTransport) async throws {
        var configuration = SignalRServerConfiguration()
        (configuration.keepAliveInterval, configuration.pollTimeout) = (.milliseconds(200), .milliseconds(200))
        try await Self.with(timeout: 2, configuration) { setup in
            try await expectConnection(lasts: .seconds(3)) { try setup.client(transport) }
        }
    }
}
