import ProxySupport
import PusherChannels
import PusherServer
import RealtimeCore
import RealtimeSockets
import RealtimeSystem
import TestSupport
import Testing

/// A server of this package behind nginx, and a client that trusts only the authority of the tests.
private struct ProxiedServer {
    static let app = PusherApp(id: "1", key: "k", secret: "s")

    let server = PusherServer(app: Self.app, log: .none)
    let nginx: Nginx

    /// Starts both.
    init(readTimeout: Duration = .seconds(600)) async throws {
        let port = try await self.server.start(on: SocketListener(limits: .forTests)).port
        self.nginx = try Nginx(to: port) {
            // As by default.
            $0.isBuffering = true
            ($0.isSecure, $0.readTimeout) = (true, readTimeout)
        }
        try await self.nginx.start()
    }

    private static func trust(_ root: String) -> TLSConfiguration {
        var tls = TLSConfiguration()
        tls.trustRoots = .only([.file(Vectors.path("certificates/\(root).pem"))])
        return tls
    }

    func client(trusting root: String = "root", activityTimeout: Duration = .seconds(120)) -> PusherClient {
        var configuration = PusherConfiguration(key: Self.app.key, host: "localhost", port: self.nginx.port)
        configuration.transports.webSocket = SocketWebSocketTransport(tls: Self.trust(root))
        configuration.authorizer = .secret(Self.app.secret)
        configuration.activityTimeout = activityTimeout
        configuration.backoff = Backoff(base: .milliseconds(100), cap: .seconds(1))
        configuration.log = .none
        configuration.connectTimeout = .seconds(300)
        return PusherClient(configuration)
    }

    func publisher() -> PusherPublisher {
        PusherPublisher(
            appID: Self.app.id, key: Self.app.key, secret: Self.app.secret,
            endpoint: Endpoint(scheme: "https", host: "localhost", port: self.nginx.port),
            http: SocketHTTPTransport(tls: Self.trust("root")))
    }

    func end() async {
        await self.nginx.stop()
        await self.server.stop()
    }
}

/// The client and the server with nginx between them, which ends TLS.
@Suite(.usesSockets, .requires(.nginx), .timeLimit(.minutes(10)))
struct PusherProxyTests {
    @Test func `events pass through a proxy with TLS in both directions`() async throws {
        let proxied = try await ProxiedServer()
        let client = proxied.client()
        client.connect()
        let orders = try client.subscribe("private-orders")
        let (events, received) = (orders.events("tick"), proxied.server.events)
        try await orders.subscribed(within: .seconds(300))
        // Larger than the buffers of the proxy.
        let text = String(repeating: "ü", count: 4_000)
        try await proxied.publisher().publish("tick", to: "private-orders", data: ["text": text])
        try await expectEqual(events.first { _ in true }?.decode([String: String].self), ["text": text])
        try orders.trigger("client-hello", ["text": text])
        let clientEvent = await received.first { if case .clientEvent = $0 { true } else { false } }
        guard case .clientEvent(_, "private-orders", "client-hello", let data)? = clientEvent else {
            Issue.record("The server should have received the client event.")
            return
        }
        expect(data.contains(text))
        try await expect(proxied.publisher().channels()["private-orders"] != nil)

        // A client that trusts another authority.
        let stranger = proxied.client(trusting: "other-root")
        let errors = stranger.errors
        stranger.connect()
        let error = await errors.first { _ in true }
        expectEqual(error?.message.contains("certificate"), true)
        stranger.disconnect()
        client.disconnect()
        await proxied.end()
    }

    @Test func `pings keep a connection open that a proxy would close for inactivity`() async throws {
        let proxied = try await ProxiedServer(readTimeout: .seconds(3))
        let client = proxied.client(activityTimeout: .milliseconds(500))
        client.connect()
        let channel = try client.subscribe("prices")
        try await channel.subscribed(within: .seconds(300))
        let received = proxied.server.events
        // One connection is open for longer than the time limit of the proxy. On a busy computer, a ping may be late, so that the proxy closes
        // the connection all the same. Then, the next one counts.
        var (socketID, start, connections) = (client.socketID, ContinuousClock.now, 1)
        for await event in received {
            guard case .received(let sender, let frame) = event, frame.contains("pusher:ping") else { continue }
            if sender != socketID { (socketID, start, connections) = (sender, .now, connections + 1) }
            if connections > 20 || ContinuousClock.now - start > .seconds(4) { break }
        }
        expect(connections <= 20, "The proxy closes connections in spite of the pings.")
        client.disconnect()
        await proxied.end()
    }

    @Test func `a connection that a proxy closes for inactivity is re-established, with a gap`() async throws {
        let proxied = try await ProxiedServer(readTimeout: .seconds(1))
        let client = proxied.client()
        let channel = try client.subscribe("private-orders")
        let (gaps, states) = (channel.gaps, client.states)
        client.connect()
        // Without pings, nothing arrives for a second.
        let gap = try #require(await gaps.first { _ in true })
        expectEqual(gap.channel, "private-orders")
        var socketIDs: Set<String> = []
        for await state in states {
            if case .connected(let socketID) = state { socketIDs.insert(socketID) }
            if socketIDs.count == 2 { break }
        }
        client.disconnect()
        await proxied.end()
    }

    @Test func `a client resubscribes after the restart of a proxy, with a gap`() async throws {
        let proxied = try await ProxiedServer()
        let client = proxied.client()
        client.connect()
        let channels = try ["prices", "private-orders"].map { try client.subscribe($0) }
        for channel in channels { try await channel.subscribed(within: .seconds(300)) }
        let (events, gaps) = (channels.map { $0.events("tick") }, channels.map(\.gaps))
        await proxied.nginx.stop()
        try await proxied.nginx.start()
        for (channel, gaps) in zip(channels, gaps) {
            let gap = try #require(await gaps.first { _ in true })
            expect(gap.channel == channel.name && gap.duration > .zero)
            expectEqual(channel.state, .subscribed)
        }
        try await proxied.publisher().publish("tick", to: channels.map(\.name), data: "again")
        for sequence in events { await expectEqual(sequence.first { _ in true }?.data, "again") }
        expectEqual(proxied.server.socketIDs, [client.socketID])
        client.disconnect()
        await proxied.end()
    }
}
