import PrimusClient
import PrimusServer
import PrimusWire
import ProxySupport
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

/// Clients and the embedded server with nginx between them.
@Suite(.usesSockets, .requires(.nginx), .timeLimit(.minutes(10)))
struct PrimusNginxTests {
    private static func with(
        _ kind: ProxiedKind, _ configure: (inout PrimusServerConfiguration) -> Void = { _ in },
        nginx change: (inout Nginx.Options) -> Void, makeClients body: (_ makeClient: () throws -> PrimusConnection) async throws -> Void
    ) async throws {
        let (server, echo) = kind.server(configure)
        let nginx = try Nginx(to: try await server.start(on: SocketListener(limits: .forTests)).port, change)
        try await nginx.start()
        try await body { try kind.client("http://127.0.0.1:\(nginx.port)") }
        // The server notices the end of a client of SockJS between two polls after minutes.
        try await eventually {
            for spark in server.sparks where kind.transformer == .sockjs && kind.transport == .polling { server.drop(spark.id) }
            return server.sparks.isEmpty
        }
        echo.cancel()
        await nginx.stop()
        await server.stop()
    }

    private static func with(
        _ kind: ProxiedKind, _ change: (inout Nginx.Options) -> Void, _ body: (_ client: PrimusConnection) async throws -> Void
    ) async throws {
        try await Self.with(kind, nginx: change) { makeClient in
            let client = try await Self.open(makeClient)
            try await body(client)
            client.end()
        }
    }

    private static func open(_ makeClient: () throws -> PrimusConnection) async throws -> PrimusConnection {
        let client = try makeClient()
        client.open()
        try await client.opened(within: .seconds(600))
        return client
    }

    @Test(arguments: ProxiedKind.all, [false, true])
    func `messages pass through nginx over each kind, also while it buffers responses`(
        kind: ProxiedKind, isBuffering: Bool
    ) async throws {
        try await Self.with(kind) {
            $0.isBuffering = isBuffering
        } _: { client in
            try await expectEcho(client)
            try await eventually { client.transport == kind.transport }
            try await expectEcho(client)
        }
    }

    /// A server that sends nothing but answers, so that nothing else pushes on what nginx holds back.
    private static func beatRarely(_ configuration: inout PrimusServerConfiguration) {
        (configuration.pingInterval, configuration.sockJSHeartbeatInterval) = (nil, .seconds(600))
    }

    /// As with sockjs-node, whose streams don't have the field.
    @Test func `each message of a stream passes through nginx while it buffers, also without X-Accel-Buffering`() async throws {
        let kind = ProxiedKind(transformer: .sockjs, connections: [.streaming], transport: .streaming)
        try await Self.with(kind, Self.beatRarely) {
            ($0.isBuffering, $0.httpVersion, $0.ignoredHeaders) = (true, "1.1", ["X-Accel-Buffering"])
        } makeClients: { makeClient in
            let client = try await Self.open(makeClient)
            for _ in 0..<20 { try await expectEcho(client, count: 1) }
            expect(client.transport == kind.transport && client.counters.reconnects == 0)
            client.end()
        }
    }

    @Test(arguments: [
        ProxiedKind(transformer: .engineIO, transport: .polling),
        ProxiedKind(transformer: .engineIO, connections: [.polling, .webSocket], transport: .polling),
        // Only the last kind has the time limit of the attempt; earlier ones have less.
        ProxiedKind(transformer: .sockjs, connections: [.webSocket, .streaming], transport: .streaming),
    ])
    func `where nginx doesn't pass on upgrades, clients use requests over HTTP`(kind: ProxiedKind) async throws {
        try await Self.with(kind) {
            $0.passesUpgrades = false
        } _: { client in
            try await expectEcho(client)
            expectEqual(client.transport, kind.transport)
        }
    }

    @Test(arguments: ProxiedKind.all)
    func `a connection outlives the idle limit of nginx, if the server's heartbeats are shorter`(kind: ProxiedKind) async throws {
        try await Self.with(kind, beatOften) {
            $0.readTimeout = .seconds(2)
        } makeClients: { makeClient in
            try await expectConnection(of: kind, lasts: .seconds(3), makeClient)
        }
    }

    // MARK: Two servers

    private static func withTwo(
        _ kind: ProxiedKind, stickyCookie: String?,
        _ body: (_ servers: [PrimusServer], _ client: () throws -> PrimusConnection) async throws -> Void
    ) async throws {
        let (first, second) = (kind.server(), kind.server())
        let port = try await second.server.start(on: SocketListener(limits: .forTests)).port
        let nginx = try Nginx(to: try await first.server.start(on: SocketListener(limits: .forTests)).port) {
            ($0.otherServers, $0.stickyCookie) = ([port], stickyCookie)
        }
        try await nginx.start()
        try await body([first.server, second.server]) { try kind.client("http://127.0.0.1:\(nginx.port)") }
        for side in [first, second] { side.echo.cancel() }
        await nginx.stop()
        for side in [first, second] { await side.server.stop() }
    }

    @Test(arguments: ProxiedKind.all.filter { $0.transformer != .websockets })
    func `a cookie of nginx keeps each session at one of two servers`(kind: ProxiedKind) async throws {
        try await Self.withTwo(kind, stickyCookie: "server") { servers, makeClient in
            let clients = try (0..<4).map { _ in try makeClient() }
            for client in clients { client.open() }
            for client in clients {
                try await client.opened(within: .seconds(600))
                try await expectEcho(client)
                try await eventually { client.transport == kind.transport }
                expectEqual(client.counters.reconnects, 0)
            }
            expectEqual(servers.map(\.sparks.count).reduce(0, +), clients.count)
            for client in clients { client.end() }
        }
    }

    @Test func `without a cookie, the other server doesn't know the session, which the error says`() async throws {
        let kind = ProxiedKind(transformer: .engineIO, connections: [.polling], transport: .polling)
        try await Self.withTwo(kind, stickyCookie: nil) { _, makeClient in
            let client = try makeClient()
            let errors = client.errors
            client.open()
            let error = await errors.first { $0.serverCode == .engineIOUnknownSession }
            expect(error?.status == 400 && error?.message.contains("Session ID unknown") == true, "\(error?.message ?? "")")
            client.end()
        }
    }
}
