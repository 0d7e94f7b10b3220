import PrimusClient
import PrimusServer
import ProxySupport
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import RealtimeTransports
import TestSupport
import Testing

/// Clients and the embedded server with tinyproxy between them, which opens tunnels.
@Suite(.usesSockets, .requires(.tinyproxy), .timeLimit(.minutes(10)))
struct PrimusTinyproxyTests {
    private static let credentials = ProxyConfiguration.Credentials(username: "anna", password: "hunter2")
    private static func pem(_ name: String) -> PEM { .file(Vectors.path("certificates/\(name).pem")) }
    private static let wires = [false] + Requirement.openSSL.cases([true])

    private static func with(
        _ kind: ProxiedKind, isSecure: Bool = false, timeout: Int = 600,
        _ configure: (inout PrimusServerConfiguration) -> Void = { _ in },
        _ body: (_ proxy: Tinyproxy, _ relay: TestRelay, _ client: (ProxyConfiguration.Credentials) throws -> PrimusConnection) async throws
            -> Void
    ) async throws {
        let (server, echo) = kind.server(configure)
        let identity = TLSIdentity(certificateChain: Self.pem("server"), privateKey: Self.pem("server-key"))
        let listener =
            isSecure ? SocketListener(tls: TLSServerConfiguration(identity), limits: .forTests) : SocketListener(limits: .forTests)
        let port = try await server.start(on: listener).port
        let proxy = try Tinyproxy { ($0.credentials, $0.port, $0.timeout) = (Self.credentials, port, timeout) }
        try await proxy.start()
        let relay = try TestRelay(to: proxy.port)
        try await body(proxy, relay) { credentials in
            let configuration = ProxyConfiguration.http(host: "127.0.0.1", port: relay.port, credentials: credentials)
            var tls = TLSConfiguration()
            tls.trustRoots = .only([Self.pem("root")])
            var transports = Transports.standard
            transports.webSocket = SocketWebSocketTransport(tls: tls, proxy: configuration)
            transports.http = SocketHTTPTransport(tls: tls, proxy: configuration)
            return try kind.client("\(isSecure ? "https" : "http")://localhost:\(port)", transports)
        }
        echo.cancel()
        await relay.stop()
        await proxy.stop()
        await server.stop()
    }

    @Test(arguments: ProxiedKind.all, Self.wires)
    func `messages pass through tinyproxy over each kind`(kind: ProxiedKind, isSecure: Bool) async throws {
        try await Self.with(kind, isSecure: isSecure) { _, relay, makeClient in
            let client = try makeClient(Self.credentials)
            client.open()
            try await client.opened(within: .seconds(600))
            try await expectEcho(client)
            try await eventually { client.transport == kind.transport }
            try await expectEcho(client)
            expect(relay.connectionCount > 0)
            client.end()
        }
    }

    @Test(arguments: ProxiedKind.all)
    func `a proxy that refuses the tunnel is the reason why a client can't open`(kind: ProxiedKind) async throws {
        try await Self.with(kind) { _, _, makeClient in
            let client = try makeClient(.init(username: "anna", password: "wrong"))
            client.open()
            let error = await #expect(throws: PrimusError.self) { try await client.opened(within: .seconds(600)) }
            let message = error?.message ?? ""
            expect(message.contains("rejected the user name or the password") && !message.contains("wrong"), "\(message)")
            client.end()
        }
    }

    @Test(arguments: ProxiedKind.all)
    func `a client reconnects after a restart of tinyproxy`(kind: ProxiedKind) async throws {
        try await Self.with(kind) { proxy, _, makeClient in
            let client = try makeClient(Self.credentials)
            client.open()
            try await client.opened(within: .seconds(600))
            try client.update { $0.retry = .custom { _ in .milliseconds(20) } }
            let updates = client.updates()
            await proxy.stop()
            _ = await updates.first { if case .reconnecting = $0 { true } else { false } }
            try await proxy.start()
            _ = await updates.first { if case .reconnected = $0 { true } else { false } }
            try await expectEcho(client, count: 5)
            client.end()
        }
    }

    @Test(arguments: ProxiedKind.all)
    func `a connection outlives the idle limit of tinyproxy, if the server's heartbeats are shorter`(kind: ProxiedKind) async throws {
        try await Self.with(kind, timeout: 2, beatOften) { _, _, makeClient in
            try await expectConnection(of: kind, lasts: .seconds(3)) { try makeClient(Self.credentials) }
        }
    }
}
