import PusherTesting
import TestSupport
import Testing

// One import, as users write it.
@Suite(.timeLimit(.minutes(10))) struct InMemoryPusherTests {
    @Test func `clients and the server communicate before a call returns`() async throws {
        let pusher = try await InMemoryPusher()
        let (anna, bert) = (pusher.client(userID: "anna", userInfo: ["name": "Anna"]), pusher.client(userID: "bert"))
        anna.connect()
        bert.connect()
        let rooms = (try anna.subscribe("presence-room"), try bert.subscribe("presence-room"))
        expectEqual(rooms.1.members.map(\.id), ["anna", "bert"])
        expectEqual(rooms.1.members[id: "anna"]?.info, ["name": "Anna"])
        let events = rooms.1.events()
        try rooms.0.trigger("client-typing", ["on": true])
        await expectEqual(events.pending().map(\.name), ["client-typing"])
        pusher.network.cut()
        expect(anna.state == .connecting && bert.state == .connecting)
        pusher.clock.advance(by: .seconds(1))
        expect(anna.state.name == "connected" && bert.state.name == "connected")
    }

    @Test func `pending events are decoded, and reported if that fails`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let (errors, numbers) = (client.errors, try client.subscribe("numbers").events("number", as: Int.self))
        for data in ["1", "two", "3"] { pusher.server.publish("number", to: "numbers", data: data) }
        await expectEqual(numbers.pending(), [1, 3])
        await expectEqual(errors.pending().map(\.code), [.decodingFailed])
        pusher.server.publish("number", to: "numbers", data: "4")
        await expectEqual(numbers.pending(), [4])
        await expect(numbers.pending().isEmpty)
    }

    @Test func `the app, the hooks and the configuration of a client can be changed`() async throws {
        var hooks = PusherServerHooks()
        hooks.authorizeSubscription = { _ in .reject(code: nil, message: "closed") }
        let pusher = try await InMemoryPusher(hooks: hooks) { app in
            (app.key, app.secret) = ("another-key", "another-secret")
        }
        expectEqual(pusher.server.app.key, "another-key")
        let client = pusher.client { $0.subscriptionTimeout = .seconds(3) }
        expectEqual(client.configuration.subscriptionTimeout, .seconds(3))
        client.connect()
        let orders = try client.subscribe("private-orders")
        let error = await #expect(throws: PusherError.self) { try await orders.subscribed() }
        expectEqual(error?.message.contains("closed"), true)
    }

    @Test func `code that creates its client receives a configuration`() async throws {
        let pusher = try await InMemoryPusher()
        let client = PusherClient(pusher.configuration(userID: "anna"))
        client.connect()
        try expectEqual(client.subscribe("presence-room").members.me?.id, "anna")
    }

    @Test func `the authorization endpoint signs or refuses`() async throws {
        let pusher = try await InMemoryPusher()
        var endpoint = try await pusher.startAuthorizationEndpoint { attempt in
            attempt.request.headers["Authorization"] == "Bearer token" ? .accept(userID: "anna") : .reject(message: "Sign in first.")
        }
        let stranger = pusher.client { $0.authorizer = .endpoint(endpoint) }
        endpoint.headers["Authorization"] = "Bearer token"
        let anna = pusher.client { $0.authorizer = .endpoint(endpoint) }
        stranger.connect()
        anna.connect()
        let room = try anna.subscribe("presence-room")
        try await room.subscribed()
        expectEqual(room.members.me?.id, "anna")
        let refused = try stranger.subscribe("presence-room")
        let error = await #expect(throws: PusherError.self) { try await refused.subscribed() }
        expectEqual(error?.code, .authorizationFailed)
    }

    @Test func `the authorization endpoint authenticates users`() async throws {
        let pusher = try await InMemoryPusher()
        let endpoint = try await pusher.startAuthorizationEndpoint(authenticateUser: { _ in .accept(userID: "anna") })
        let client = pusher.client { $0.userAuthenticator = .endpoint(endpoint) }
        client.connect()
        client.user.signIn()
        try await expectEqual(client.user.signedIn().id, "anna")
    }

    @Test func `the authorization endpoint accepts everything by default`() async throws {
        let pusher = try await InMemoryPusher()
        let endpoint = try await pusher.startAuthorizationEndpoint()
        let client = pusher.client { $0.authorizer = .endpoint(endpoint) }
        client.connect()
        try await client.subscribe("private-orders").subscribed()
        let error = await #expect(throws: TransportError.self) { try await pusher.startAuthorizationEndpoint() }
        expectEqual(error?.code, .addressInUse)
    }
}
