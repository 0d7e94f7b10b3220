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

/// Clients and the embedded server with nginx between them.
@Suite(.usesSockets, .requires(.nginx), .timeLimit(.minutes(10)))
struct HubNginxTests {
    private static func with(
        _ configuration: SignalRServerConfiguration = SignalRServerConfiguration(), _ change: (inout Nginx.Options) -> Void,
        _ body: (SignalRServer, _ client: (HubTransportKinds) throws -> HubClient) async throws -> Void
    ) async throws {
        var configuration = configuration
        configuration.allowLongTimes()
        let server = SignalRServer(configuration: configuration, log: .none)
        server.hub("/chat").on("Add") { (caller, a: Int, b: Int) in a + b }
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let nginx = try Nginx(to: address.port, change)
        try await nginx.start()
        try await body(server) { transports in
            var options = try HubConfiguration(url: "http://127.0.0.1:\(nginx.port)/chat")
            options.allowedTransports = transports
            options.log = .none
            options.allowLongTimes()
            return HubClient(options)
        }
        await nginx.stop()
        await server.stop()
    }

    private static func stream(_ server: SignalRServer) {
        server.hub("/chat").stream("Count") { (caller, count: Int) in
            AsyncStream<Int> { continuation in
                for number in 0..<count { continuation.yield(number) }
                continuation.finish()
            }
        }
    }

    @Test(arguments: HubTransport.allCases, [false, true])
    func `calls and streams pass through nginx, also while it buffers responses`(transport: HubTransport, isBuffering: Bool) async throws {
        try await Self.with {
            $0.isBuffering = isBuffering
        } _: { server, makeClient in
            Self.stream(server)
            let client = try makeClient(HubTransportKinds(transport))
            try await client.start()
            expectEqual(client.transport, transport)
            try await expectCallsAndStream(client)
            client.stop()
            try await eventually { server.hub("/chat").connectionIDs.isEmpty }
        }
    }

    @Test(arguments: ["1.0", "1.1"])
    func `where nginx doesn't pass on upgrades, the client falls back to Server-Sent Events`(version: String) async throws {
        try await Self.with {
            ($0.passesUpgrades, $0.isBuffering, $0.httpVersion) = (false, true, version)
        } _: { _, makeClient in
            let client = try makeClient(.all)
            try await client.start()
            expectEqual(client.transport, .serverSentEvents)
            try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3)
            client.stop()
        }
    }

    @Test(arguments: HubTransport.allCases)
    func `a connection outlives the idle limit of nginx, if the server's intervals are shorter`(transport: HubTransport) async throws {
        var configuration = SignalRServerConfiguration()
        (configuration.keepAliveInterval, configuration.pollTimeout) = (.milliseconds(200), .milliseconds(200))
        try await Self.with(configuration) {
            $0.readTimeout = .seconds(2)
        } _: { _, makeClient in
            // Each interval of the server is one message, or one poll, which carries none.
            try await expectConnection(lasts: .seconds(3)) { try makeClient(HubTransportKinds(transport)) }
        }
    }
}
