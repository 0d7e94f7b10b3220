import PusherTestSupport
import PusherChannels
import PusherServer
import PusherTesting
import PusherWire
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

/// The servers of several apps on one listener.
@Suite struct ServerRouterTests {
    private let network = InMemoryNetwork(clock: ManualClock())
    private let servers: [PusherServer]

    init() {
        let network = self.network
        self.servers = ["one", "two"].map { name in
            PusherServer(app: PusherApp(id: "id-\(name)", key: "key-\(name)", secret: "secret-\(name)"), network: network, log: .none)
        }
    }

    private func client(_ key: String, _ address: ListenerAddress) -> PusherClient {
        var configuration = PusherConfiguration(key: key, host: address.host, port: address.port, useTLS: false)
        configuration.transports = self.network.transports()
        configuration.log = .none
        return PusherClient(configuration)
    }

    private func publisher(_ name: String, _ address: ListenerAddress, id: String? = nil) -> PusherPublisher {
        PusherPublisher(
            appID: id ?? "id-\(name)", key: "key-\(name)", secret: "secret-\(name)",
            endpoint: Endpoint(scheme: "http", host: address.host, port: address.port), http: self.network.transports().http)
    }

    @Test func `each app has its own clients, channels and requests`() async throws {
        let address = try await self.network.listener().start(PusherServerRouter(self.servers))
        let clients = ["key-one", "key-two"].map { self.client($0, address) }
        let channels = try clients.map { client in
            client.connect()
            return try client.subscribe("prices")
        }
        let events = channels.map { $0.events() }
        expectEqual(self.servers.map(\.socketIDs), clients.map { $0.socketID.map { [$0] } ?? [] })
        for name in ["one", "two"] {
            try await self.publisher(name, address).publish("a", to: "prices", data: name)
            try await expectEqual(self.publisher(name, address).channels().count, 1)
        }
        await expectEqual(events[0].pending().map(\.data), ["one"])
        await expectEqual(events[1].pending().map(\.data), ["two"])
    }

    @Test func `an unknown key is closed with its code, and an unknown ID is not found`() async throws {
        let address = try await self.network.listener().start(PusherServerRouter(self.servers))
        let client = self.client("key-three", address)
        client.connect()
        let rejection = await #expect(throws: PusherError.self) { try await client.connected() }
        expectEqual(rejection?.serverCode, 4001)
        let unknown = await #expect(throws: PusherError.self) { try await self.publisher("one", address, id: "id-three").channels() }
        expectEqual(unknown?.status, 404)
        // The credentials of one app aren't valid for another.
        let other = await #expect(throws: PusherError.self) { try await self.publisher("one", address, id: "id-two").channels() }
        expectEqual(other?.status, 401)
    }

    @Test func `requests for a server that was released are rejected`() async throws {
        func router() -> PusherServerRouter {
            let released = PusherServer(app: PusherApp(id: "3", key: "3", secret: "3"), network: self.network, log: .none)
            return PusherServerRouter([self.servers[0], released])
        }
        let address = try await self.network.listener().start(router())
        try await expectEqual(self.publisher("one", address).channels(), [:])
        let error = await #expect(throws: PusherError.self) { try await self.publisher("one", address, id: "3").channels() }
        expectEqual(error?.status, 503)
    }
}

/// The complete path over sockets.
@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct ServerRouterSocketTests {
    @Test func `apps on one port are queried, and report events with webhooks`() async throws {
        let received = EventRecorder<PusherWebhook>()
        let application = ApplicationServer { request, body in
            let webhook = try? PusherWebhook(
                key: request.headers["X-Pusher-Key"], signature: request.headers["X-Pusher-Signature"], body: body,
                secrets: ["key-1": "secret-1", "key-2": "secret-2"])
            if let webhook { received.record(webhook) }
            return HTTPResponse(status: webhook == nil ? 401 : 204)
        }
        let hooks = SocketListener(limits: .forTests)
        let hook = try await hooks.start(application)
        let webhooks = PusherServerWebhooks([Endpoint(scheme: "http", host: hook.host, port: hook.port)])
        let servers = [1, 2].map { number in
            PusherServer(app: PusherApp(id: "\(number)", key: "key-\(number)", secret: "secret-\(number)"), webhooks: webhooks, log: .none)
        }
        let listener = SocketListener(limits: .forTests)
        let address = try await listener.start(PusherServerRouter(servers))
        for number in [1, 2] {
            var configuration = PusherConfiguration(key: "key-\(number)", host: address.host, port: address.port, useTLS: false)
            configuration.authorizer = .secret("secret-\(number)", userID: "anna")
            configuration.log = .none
            configuration.allowLongTimes()
            let client = PusherClient(configuration)
            client.connect()
            try await client.subscribe("presence-room-\(number)").subscribed(within: .seconds(300))
            let publisher = PusherPublisher(
                appID: "\(number)", key: "key-\(number)", secret: "secret-\(number)",
                endpoint: Endpoint(scheme: "http", host: address.host, port: address.port))
            try await expectEqual(publisher.channels(prefix: "presence-", info: [.userCount])["presence-room-\(number)"]?.userCount, 1)
            try await expectEqual(publisher.users(of: "presence-room-\(number)"), [PusherChannelUser(id: "anna")])
            client.disconnect()
        }
        for number in [1, 2] {
            let channel = "presence-room-\(number)"
            func events() -> [PusherWebhookEvent] { received.all.filter { $0.key == "key-\(number)" }.flatMap(\.events) }
            // A request that isn't accepted in time is repeated, so that its event may arrive twice, and after later ones.
            try await eventually { events().map(\.name).contains("channel_occupied") && events().map(\.name).contains("member_added") }
            let possible: [PusherWebhookEvent] = [
                .channelOccupied(channel: channel), .memberAdded(channel: channel, userID: "anna"),
                .memberRemoved(channel: channel, userID: "anna"), .channelVacated(channel: channel),
            ]
            for event in events() { expect(possible.contains(event)) }
        }
        await listener.stop()
        for server in servers { await server.stop() }
        await hooks.stop()
    }
}
