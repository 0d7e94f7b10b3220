import PusherChannels
import PusherServer
import RealtimeTesting
import Testing

/// The snippets of the article TestingWithTheEmbeddedServer, run as tests.
@Suite struct TestingInMemory {
    private let clock: ManualClock
    private let network: InMemoryNetwork
    private let server: PusherServer
    private let client: PusherClient

    init() async throws {
        // snippet:testing-setup
        let clock = ManualClock()
        let network = InMemoryNetwork(clock: clock)
        let server = PusherServer(app: PusherApp(id: "1", key: "key", secret: "secret"), network: network)
        let address = try await server.start(on: network.listener())

        var configuration = PusherConfiguration(key: "key", host: address.host, port: address.port, useTLS: false)
        configuration.transports = network.transports()
        configuration.authorizer = .secret("secret", userID: "anna")
        let client = PusherClient(configuration)
        client.connect()
        // end
        self.clock = clock
        self.network = network
        self.server = server
        self.client = client
    }

    @Test func `a published event arrives`() async throws {
        // snippet:testing-event
        let prices = try client.subscribe("prices")
        let events = prices.events("price")
        server.publish("price", to: "prices", data: #"{"symbol":"ACME","value":12.5}"#)
        let price = try await events.first { _ in true }?.decode(Price.self)
        #expect(price?.symbol == "ACME")
        // end
    }

    @Test func `the server reports its events`() async throws {
        // snippet:testing-server-events
        let serverEvents = server.events
        let orders = try client.subscribe("private-orders")
        try orders.trigger("client-seen", ["id": 7])
        let sent = await serverEvents.first { if case .clientEvent = $0 { true } else { false } }
        let socketID = try #require(client.socketID)
        #expect(sent == .clientEvent(socketID: socketID, channel: "private-orders", name: "client-seen", data: #"{"id":7}"#))
        #expect(server.subscribers(of: "private-orders") == [socketID])
        // end
    }

    @Test func `a dropped connection is re-established`() async throws {
        // snippet:testing-cut
        let prices = try client.subscribe("prices")
        let first = try #require(client.socketID)
        server.drop(first)
        #expect(client.state == .connecting)
        #expect(prices.state == .pending)

        clock.advance(by: .seconds(1))
        #expect(prices.state == .subscribed)
        #expect(client.socketID != first)
        // end
    }

    @Test func `a silent server is disconnected`() async throws {
        // snippet:testing-silence
        server.faults.isSilent = true
        clock.advance(by: .seconds(120))
        #expect(client.state.name == "connected")
        clock.advance(by: .seconds(30))
        #expect(client.state == .connecting)
        // end
    }

    @Test func `without a network the client is unavailable and keeps retrying`() async throws {
        // snippet:testing-offline
        network.condition = .down
        network.cut()
        clock.advance(by: .seconds(10))
        #expect(client.state == .unavailable)

        network.condition = .up
        clock.advance(by: .seconds(60))
        #expect(client.state.name == "connected")
        // end
    }

    @Test func `a close code that forbids reconnecting ends the client`() async throws {
        // snippet:testing-refusal
        let socketID = try #require(client.socketID)
        server.close(socketID, CloseCode(rawValue: 4001), reason: "no such app")
        guard case .disconnected(let error?) = client.state else {
            Issue.record("The state is \(client.state.name).")
            return
        }
        #expect(error.code == .rejected)
        #expect(error.serverCode == 4001)
        // end
    }

    @Test func `a frame that is not JSON is reported and dropped`() async throws {
        // snippet:testing-frame
        let errors = client.errors
        server.send("{not json", to: try #require(client.socketID))
        #expect(await errors.first { _ in true }?.code == .invalidFrame)
        #expect(client.state.name == "connected")
        // end
    }

    @Test func `a hook accepts or rejects subscriptions`() async throws {
        let network = self.network
        // snippet:testing-hook
        var hooks = PusherServerHooks()
        hooks.authorizeSubscription = { attempt in
            attempt.channel == "private-staff" ? .reject(code: nil, message: "private-staff is for staff") : .accept
        }
        let server = PusherServer(app: PusherApp(id: "1", key: "key", secret: "secret"), network: network, hooks: hooks)
        // end
        let address = try await server.start(on: network.listener())
        var configuration = PusherConfiguration(key: "key", host: address.host, port: address.port, useTLS: false)
        configuration.transports = network.transports()
        configuration.authorizer = .secret("secret", userID: "bert")
        let client = PusherClient(configuration)
        client.connect()
        let orders = try client.subscribe("private-orders")
        try await orders.subscribed()
        // snippet:testing-hook-answer
        let staff = try client.subscribe("private-staff")
        do {
            try await staff.subscribed()
            Issue.record("The server should reject the subscription.")
        } catch {
            #expect(error.code == .subscriptionRejected)
        }
        // end
    }
}
