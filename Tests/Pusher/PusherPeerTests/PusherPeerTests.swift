import PeerSupport
import RealtimeCoding
import PusherChannels
import PusherServer
import RealtimeSockets
import TestSupport
import Testing

/// The client and the server against other implementations of the protocol: the server sockudo, the client pusher-js and the service's HTTP
/// library. Each runs in its own process.
@Suite(
    .usesSockets, .requires(.peers("sockudo", "pusher-client", "pusher-rest")),
    .timeLimit(.minutes(10)))
struct PusherPeerTests {
    /// Returns a client of this package for a server that runs as a peer.
    private func client(_ server: JSONValue, user: String? = nil) throws -> PusherClient {
        var configuration = PusherConfiguration(
            key: server["key"]?.string ?? "", host: "127.0.0.1", port: server["port"]?.int, useTLS: false)
        configuration.authorizer = .secret(server["secret"]?.string ?? "", userID: user)
        configuration.log = .none
        configuration.connectTimeout = .seconds(300)
        return PusherClient(configuration)
    }

    private func rest(_ server: JSONValue) throws -> Peer {
        try Peer(
            "pusher-rest",
            [
                "--app", server["app"]?.string ?? "", "--key", server["key"]?.string ?? "", "--secret", server["secret"]?.string ?? "",
                "--port", "\(server["port"]?.int ?? 0)",
            ])
    }

    private func connect(_ browser: Peer, to server: JSONValue, user: String) async throws {
        try await browser.perform([
            "do": "connect", "key": server["key"] ?? "",
            "options": ["wsHost": "127.0.0.1", "wsPort": server["port"] ?? 0],
            "auth": [
                "app": server["app"] ?? "", "secret": server["secret"] ?? "", "user": ["id": .string(user), "user_info": ["name": "B"]],
            ],
        ])
    }

    @Test func `the client exchanges events with sockudo`() async throws {
        let sockudo = try Peer("sockudo")
        let server = try await sockudo.ready()
        let (rest, browser) = (try self.rest(server), try Peer("pusher-client"))
        let client = try self.client(server, user: "anna")
        client.connect()
        let channels = try ["prices", "private-orders", "presence-room"].map { try client.subscribe($0) }
        let events = channels.map { $0.events() }
        for channel in channels { try await channel.subscribed(within: .seconds(300)) }
        expect(channels[2].members.map(\.id) == ["anna"] && channels[2].members.me?.id == "anna")

        // The HTTP library publishes.
        for (channel, sequence) in zip(channels, events) {
            try await rest.perform([
                "do": "trigger", "channel": .string(channel.name), "event": "tick", "data": ["value": 12.5, "text": "ü\"\\"],
            ])
            let event = try #require(await sequence.first { $0.name == "tick" })
            expect(event.channel == channel.name && event.data == #"{"value":12.5,"text":"ü\"\\"}"#)
        }

        // pusher-js joins and sends.
        let changes = channels[2].memberChanges
        try await self.connect(browser, to: server, user: "bert")
        try await browser.perform(["do": "subscribe", "channel": "presence-room"])
        let joined = await changes.first { if case .joined = $0 { true } else { false } }
        guard case .joined(let bert)? = joined else {
            Issue.record("bert should have joined.")
            return
        }
        expect(bert.id == "bert" && bert.info?["name"]?.string == "B")
        try await browser.perform(["do": "trigger", "channel": "presence-room", "name": "client-typing", "data": ["on": true]])
        let typing = try #require(await events[2].first { $0.name == "client-typing" })
        // Sockudo omits the ID of the user who sent it; see Tests/Vectors/pusher/sockudo-5.2.0.txt.
        try expectEqual(typing.decode([String: Bool].self), ["on": true])

        // pusher-js receives.
        try channels[2].trigger("client-answer", ["seen": true])
        let message = try await browser.line { $0["event"]?.string == "message" && $0["name"]?.string == "client-answer" }
        expectEqual(message["data"]?["seen"]?.bool, true)
        client.disconnect()
    }

    @Test func `the client resubscribes after a restart of sockudo`() async throws {
        let first = try Peer("sockudo")
        let server = try await first.ready()
        let client = try self.client(server)
        client.connect()
        let channel = try client.subscribe("private-orders")
        let events = channel.events()
        try await channel.subscribed(within: .seconds(300))
        let states = channel.states
        try await first.stopped()
        await expectEqual(states.first { $0 == .pending }, .pending)
        let second = try Peer("sockudo", ["--port", "\(server["port"]?.int ?? 0)"])
        _ = try await second.ready()
        client.connect()
        await expectEqual(states.first { $0 == .subscribed }, .subscribed)
        try await self.rest(server).perform(["do": "trigger", "channel": "private-orders", "event": "tick", "data": "again"])
        await expectEqual(events.first { $0.name == "tick" }?.data, "again")
        client.disconnect()
    }

    @Test func `a subscription that sockudo rejects leaves the connection open`() async throws {
        let sockudo = try Peer("sockudo")
        let server = try await sockudo.ready()
        var configuration = PusherConfiguration(
            key: server["key"]?.string ?? "", host: "127.0.0.1", port: server["port"]?.int, useTLS: false)
        configuration.authorizer = .secret("wrong")
        configuration.log = .none
        configuration.connectTimeout = .seconds(300)
        let client = PusherClient(configuration)
        client.connect()
        do {
            try await client.subscribe("private-orders").subscribed(within: .seconds(300))
            Issue.record("The subscription should have failed: its signature is wrong.")
        } catch {
            expect(error.code == .subscriptionRejected && error.serverCode == 4009)
        }
        try await client.subscribe("prices").subscribed(within: .seconds(300))
        client.disconnect()
    }

    @Test func `pusher JS and the HTTP library exchange events with the server`() async throws {
        let app = PusherApp(id: "app1", key: "key1", secret: "secret1")
        let embedded = PusherServer(app: app, log: .none)
        let address = try await embedded.start(on: SocketListener(limits: .forTests))
        let server: JSONValue = ["app": "app1", "key": "key1", "secret": "secret1", "port": .number(JSONNumber(address.port))]
        let (rest, browser) = (try self.rest(server), try Peer("pusher-client"))
        try await self.connect(browser, to: server, user: "bert")
        for channel in ["prices", "private-orders", "presence-room"] {
            try await browser.perform(["do": "subscribe", "channel": .string(channel)])
            let response = try await rest.perform(["do": "trigger", "channel": .string(channel), "event": "tick", "data": ["value": 1]])
            expectEqual(response["status"]?.int, 200)
            let message = try await browser.line { $0["channel"]?.string == channel && $0["name"]?.string == "tick" }
            expectEqual(message["data"]?["value"]?.int, 1)
        }
        let members = try await browser.perform(["do": "members", "channel": "presence-room"])
        expect(members["me"]?["id"]?.string == "bert" && members["count"]?.int == 1)

        // A client of this package joins.
        let client = try self.client(server, user: "anna")
        client.connect()
        let room = try client.subscribe("presence-room")
        let events = room.events("client-typing")
        try await room.subscribed(within: .seconds(300))
        expectEqual(room.members.map(\.id), ["bert", "anna"])
        try await browser.perform(["do": "trigger", "channel": "presence-room", "name": "client-typing", "data": ["on": true]])
        await expectEqual(events.first { _ in true }?.userID, "bert")

        // The server drops the connection of pusher-js, which reconnects.
        let bertsSocket = try #require(embedded.socketIDs.first { $0 != client.socketID })
        embedded.drop(bertsSocket)
        _ = try await browser.line {
            $0["event"]?.string == "message" && $0["name"]?.string == "pusher:subscription_succeeded" && $0["channel"]?.string == "prices"
        }
        client.disconnect()
        browser.stop()
        await embedded.stop()
    }

    // MARK: Features of the embedded server

    private static let masterKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

    /// Connects pusher-js as a user to a server of this package.
    private func connect(_ address: ListenerAddress, _ app: PusherApp, user: JSONObject) async throws -> Peer {
        let browser = try Peer("pusher-client")
        try await browser.perform([
            "do": "connect", "key": .string(app.key), "options": ["wsHost": "127.0.0.1", "wsPort": .number(JSONNumber(address.port))],
            "auth": [
                "app": .string(app.id), "secret": .string(app.secret), "user": .object(user), "master": .string(Self.masterKey),
            ],
        ])
        return browser
    }

    private func message(_ browser: Peer, _ channel: String, _ name: String) async throws -> JSONValue? {
        try await browser.line {
            $0["event"]?.string == "message" && $0["channel"]?.string == channel && $0["name"]?.string == name
        }["data"]
    }

    @Test func `pusher JS uses encrypted channels, cache channels and subscription counts of the server`() async throws {
        var app = PusherApp(id: "app1", key: "key1", secret: "secret1")
        app.sendsSubscriptionCounts = true
        let embedded = PusherServer(app: app, log: .none)
        let address = try await embedded.start(on: SocketListener(limits: .forTests))
        let anna = try await self.connect(address, app, user: ["id": "anna"])

        let rest = try Peer(
            "pusher-rest",
            ["--app", app.id, "--key", app.key, "--secret", app.secret, "--port", "\(address.port)", "--master", Self.masterKey])
        for channel in ["private-encrypted-room", "private-encrypted-cache-room"] {
            try await anna.perform(["do": "subscribe", "channel": .string(channel)])
            try await rest.perform(["do": "trigger", "channel": .string(channel), "event": "tick", "data": ["value": 7]])
            try await expectEqual(self.message(anna, channel, "tick")?["value"]?.int, 7)
        }

        for channel in ["cache-a", "private-cache-a", "presence-cache-a"] {
            try await anna.perform(["do": "subscribe", "channel": .string(channel)])
            _ = try await self.message(anna, channel, "pusher:cache_miss")
            embedded.publish("tick", to: channel, data: #"{"value":8}"#)
            try await expectEqual(self.message(anna, channel, "tick")?["value"]?.int, 8)
        }
        let bert = try await self.connect(address, app, user: ["id": "bert"])
        for channel in ["cache-a", "private-cache-a", "presence-cache-a", "private-encrypted-cache-room"] {
            try await bert.perform(["do": "subscribe", "channel": .string(channel)])
            try await expectEqual(self.message(bert, channel, "tick")?["value"]?.int, (channel.hasSuffix("room") ? 7 : 8))
        }
        try await expectEqual(self.message(bert, "cache-a", "pusher:subscription_count")?["subscription_count"]?.int, 2)
        anna.stop()
        bert.stop()
        await embedded.stop()
    }

    @Test func `pusher JS signs in and receives events for its user until the server terminates it`() async throws {
        let app = PusherApp(id: "app1", key: "key1", secret: "secret1")
        let embedded = PusherServer(app: app, log: .none)
        let events = embedded.events
        let address = try await embedded.start(on: SocketListener(limits: .forTests))
        func change(_ browser: Peer, _ name: String) async throws -> JSONValue? {
            try await browser.line { $0["event"]?.string == "watchlist" && $0["name"]?.string == name }["data"]?["user_ids"]
        }
        let anna = try await self.connect(address, app, user: ["id": "anna", "watchlist": ["bert", "carl"]])
        try await anna.perform(["do": "watch"])
        try await anna.perform(["do": "user", "name": "notify"])
        try await expectEqual(anna.perform(["do": "signin"])["user"]?["id"], "anna")
        try await expectEqual(change(anna, "offline"), ["bert", "carl"])
        let bert = try await self.connect(address, app, user: ["id": "bert"])
        try await bert.perform(["do": "signin"])
        try await expectEqual(change(anna, "online"), ["bert"])

        _ = await events.first { if case .subscribed(_, "#server-to-user-anna", _) = $0 { true } else { false } }
        try embedded.publish("notify", toUser: "anna", data: ["value": 9])
        try await expectEqual(anna.line { $0["event"]?.string == "user message" }["data"]?["value"]?.int, 9)

        embedded.terminateConnections(ofUser: "bert")
        _ = try await bert.line { $0["event"]?.string == "state_change" && $0["current"]?.string == "disconnected" }
        try await expectEqual(change(anna, "offline"), ["bert"])
        expect(embedded.socketIDs(ofUser: "anna").count == 1 && embedded.socketIDs(ofUser: "bert").isEmpty)
        anna.stop()
        bert.stop()
        await embedded.stop()
    }

    @Test(arguments: [PusherServerProfile.soketi, .reverb, .slanger, .sockudo])
    func `pusher JS understands every profile of the server`(profile: PusherServerProfile) async throws {
        var app = PusherApp(id: "app1", key: "key1", secret: "secret1")
        app.profile = profile
        let embedded = PusherServer(app: app, log: .none)
        let address = try await embedded.start(on: SocketListener(limits: .forTests))
        let anna = try await self.connect(address, app, user: ["id": "anna", "user_info": ["name": "A"]])
        let bert = try await self.connect(address, app, user: ["id": "bert", "user_info": ["name": "B"]])
        for browser in [anna, bert] { try await browser.perform(["do": "subscribe", "channel": "presence-room"]) }
        try await expectEqual(self.message(anna, "presence-room", "pusher:member_added")?["id"], "bert")
        try await bert.perform(["do": "trigger", "channel": "presence-room", "name": "client-typing", "data": ["on": true]])
        try await expectEqual(self.message(anna, "presence-room", "client-typing")?["on"], true)
        embedded.publish("tick", to: "presence-room", data: #"{"value":1}"#)
        try await expectEqual(self.message(anna, "presence-room", "tick")?["value"]?.int, 1)
        bert.stop()
        try await expectEqual(self.message(anna, "presence-room", "pusher:member_removed")?["id"], "bert")
        anna.stop()
        await embedded.stop()
    }
}
