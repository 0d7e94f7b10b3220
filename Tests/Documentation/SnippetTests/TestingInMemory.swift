import PusherTesting
import RealtimeTesting
import Testing

/// The snippets of the article TestingWithTheEmbeddedServer, run as tests.
@Suite(.timeLimit(.minutes(10))) struct TestingInMemory {
    private let pusher: InMemoryPusher
    private let client: PusherClient

    init() async throws {
        // snippet:testing-setup
        let pusher = try await InMemoryPusher()
        let client = pusher.client(userID: "anna")
        client.connect()
        // end
        self.pusher = pusher
        self.client = client
    }

    @Test func `published events arrive`() async throws {
        // snippet:testing-event
        let prices = try client.subscribe("prices").events("price", as: Price.self)
        pusher.server.publish("price", to: "prices", data: #"{"symbol":"ACME","value":12.5}"#)
        pusher.server.publish("price", to: "prices", data: #"{"symbol":"ACME","value":13}"#)
        #expect(await prices.pending().map(\.value) == [12.5, 13])
        // end
    }

    @Test func `the server reports its events`() async throws {
        // snippet:testing-server-events
        let serverEvents = pusher.server.events
        let orders = try client.subscribe("private-orders")
        try orders.trigger("client-seen", ["id": 7])
        let socketID = try #require(client.socketID)
        let sent = PusherServerEvent.clientEvent(
            socketID: socketID, channel: "private-orders", name: "client-seen", data: #"{"id":7}"#)
        #expect(await serverEvents.pending().contains(sent))
        #expect(pusher.server.subscribers(of: "private-orders") == [socketID])
        // end
    }

    @Test func `a dropped connection is re-established`() async throws {
        // snippet:testing-cut
        let prices = try client.subscribe("prices")
        let first = try #require(client.socketID)
        pusher.server.drop(first)
        #expect(client.state == .connecting)
        #expect(prices.state == .pending)

        pusher.clock.advance(by: .seconds(1))
        #expect(prices.state == .subscribed)
        #expect(client.socketID != first)
        // end
    }

    @Test func `a silent server is disconnected`() async throws {
        // snippet:testing-silence
        pusher.server.faults.isSilent = true
        pusher.clock.advance(by: .seconds(120))
        #expect(client.state.name == "connected")
        pusher.clock.advance(by: .seconds(30))
        #expect(client.state == .connecting)
        // end
    }

    @Test func `without a network the client is unavailable and keeps retrying`() async throws {
        // snippet:testing-offline
        pusher.network.condition = .down
        pusher.network.cut()
        pusher.clock.advance(by: .seconds(10))
        #expect(client.state == .unavailable)

        pusher.network.condition = .up
        pusher.clock.advance(by: .seconds(60))
        #expect(client.state.name == "connected")
        // end
    }

    @Test func `a close code that forbids reconnecting ends the client`() async throws {
        // snippet:testing-refusal
        let socketID = try #require(client.socketID)
        pusher.server.close(socketID, CloseCode(rawValue: 4001), reason: "no such app")
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
        pusher.server.send("{not json", to: try #require(client.socketID))
        #expect(await errors.pending().map(\.code) == [.invalidFrame])
        #expect(client.state.name == "connected")
        // end
    }

    @Test func `a hook accepts or rejects subscriptions`() async throws {
        // snippet:testing-hook
        var hooks = PusherServerHooks()
        hooks.authorizeSubscription = { attempt in
            attempt.channel == "private-staff" ? .reject(code: nil, message: "private-staff is for staff") : .accept
        }
        let pusher = try await InMemoryPusher(hooks: hooks)
        // end
        let client = pusher.client()
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

    @Test func `the server imitates another one`() async throws {
        // snippet:testing-profile
        let pusher = try await InMemoryPusher { $0.profile = .soketi }
        // end
        // snippet:testing-profile-switches
        var profile = PusherServerProfile.pusher
        profile.clientEventData = .json
        profile.notifiesOfEachConnection = true
        // end
        #expect(pusher.server.app.profile == .soketi && profile != .pusher)
    }

    @Test func `users receive events on their connections`() async throws {
        // snippet:testing-users
        try pusher.server.publish("invitation", toUser: "anna", data: ["room": 7])
        pusher.server.terminateConnections(ofUser: "anna")
        // end
        #expect(pusher.server.socketIDs(ofUser: "anna").isEmpty)
    }

    @Test func `an authorization endpoint signs or refuses`() async throws {
        // snippet:testing-authorization
        var endpoint = try await pusher.startAuthorizationEndpoint { attempt in
            attempt.request.headers["Authorization"] == "Bearer token" ? .accept(userID: "anna") : .reject()
        }
        endpoint.headers["Authorization"] = "Bearer token"
        let client = pusher.client { $0.authorizer = .endpoint(endpoint) }
        client.connect()
        let room = try client.subscribe("presence-room")
        try await room.subscribed()
        #expect(room.members.me?.id == "anna")
        // end
    }

    @Test func `a publisher of the test publishes over the network in memory`() async throws {
        let client = pusher.client()
        client.connect()
        let events = try client.subscribe("prices").events("price")
        // snippet:testing-publisher
        let publisher = pusher.publisher()
        try await publisher.publish("price", to: "prices", data: ["value": 12])
        // end
        #expect(await events.pending().map(\.data) == [#"{"value":12}"#])
    }

    // snippet:testing-recovery
    @Test func `prices that were missed arrive after the reconnect`() async throws {
        let pusher = try await InMemoryPusher { $0.recoveryLimit = 100 }
        let client = pusher.client { $0.recovery = .sockudo }
        client.connect()
        let events = try client.subscribe("prices").events("price")
        pusher.network.cut()
        pusher.server.publish("price", to: "prices", data: "12")
        pusher.clock.advance(by: .seconds(1))
        #expect(await events.pending().map(\.data) == ["12"])
    }
    // end
}
