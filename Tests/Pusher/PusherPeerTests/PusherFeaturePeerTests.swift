import PeerSupport
import PusherChannels
import RealtimeCore
import RealtimeCoding
import RealtimeSystem
import TestSupport
import Testing

/// A server in its own process, and what connects to it.
struct Sockudo {
    static let masterKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    static let otherMasterKey = "Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA="

    let peer: Peer
    let port: Int
    /// The ID of its process, if the command prints it.
    let processID: Int?

    init(_ options: [String] = []) async throws {
        self.peer = try Peer("sockudo", options)
        let ready = try await self.peer.ready()
        self.port = ready["port"]?.int ?? 0
        self.processID = ready["pid"]?.int
    }

    /// Ends the server, and starts another one on the same port.
    func replaced() async throws -> Sockudo { try await Sockudo(["--port", "\(self.port)"]) }

    /// Returns a client of this package, which isn't connected yet.
    func client(
        _ user: String, watchlist: [String] = [], masterKey: String = Self.masterKey,
        configure: (inout PusherConfiguration) -> Void = { _ in }
    ) -> PusherClient {
        var configuration = PusherConfiguration(key: "key1", host: "127.0.0.1", port: self.port, useTLS: false)
        configuration.authorizer = .secret("secret1", userID: user, userInfo: ["name": "\(user)"], encryptionMasterKey: masterKey)
        configuration.userAuthenticator = .secret("secret1", user: PusherMember(id: user, info: ["name": "\(user)"]), watchlist: watchlist)
        configuration.log = .none
        configuration.connectTimeout = .seconds(300)
        configure(&configuration)
        return PusherClient(configuration)
    }

    func publisher(masterKey: String? = Self.masterKey) -> PusherPublisher {
        PusherPublisher(
            appID: "app1", key: "key1", secret: "secret1", endpoint: Endpoint(scheme: "http", host: "127.0.0.1", port: self.port),
            encryptionMasterKey: masterKey)
    }

    /// Returns the service's HTTP library.
    func rest() throws -> Peer {
        try Peer(
            "pusher-rest",
            ["--app", "app1", "--key", "key1", "--secret", "secret1", "--port", "\(self.port)", "--master", Self.masterKey])
    }

    /// Returns pusher-js, connected.
    func browser(_ user: String) async throws -> Peer {
        let browser = try Peer("pusher-client")
        try await browser.perform([
            "do": "connect", "key": "key1", "options": ["wsHost": "127.0.0.1", "wsPort": .number(JSONNumber(self.port))],
            "auth": [
                "app": "app1", "secret": "secret1", "user": ["id": .string(user), "user_info": ["name": .string(user)]],
                "master": .string(Self.masterKey),
            ],
        ])
        return browser
    }
}

/// The newer features of the client against the server sockudo, with events from the service's HTTP library and from the publisher.
///
/// Tests/Vectors/pusher/sockudo-5.2.0.txt shows where the server differs from the service. It reports no subscription counts, crashes when a
/// user who is signed in subscribes to a presence channel without `channel_data`, and rejects presence channels with a cache.
@Suite(
    .usesSockets, .requires(.peers("sockudo", "pusher-client", "pusher-rest")),
    .timeLimit(.minutes(10)))
struct PusherFeaturePeerTests {
    // MARK: Encrypted channels

    @Test(arguments: ["private-encrypted-room", "private-encrypted-cache-room"])
    func `the client and pusher JS read the same encrypted events of both publishers`(name: String) async throws {
        let sockudo = try await Sockudo()
        let (rest, browser, client) = (try sockudo.rest(), try await sockudo.browser("bert"), sockudo.client("anna"))
        let channel = try client.subscribe(name)
        let (first, second, updates) = (channel.events("first"), channel.events("second"), client.updates(includingFrames: true))
        client.connect()
        try await channel.subscribed(within: .seconds(300))
        try await browser.perform(["do": "subscribe", "channel": .string(name)])

        let data: JSONValue = ["value": 12.5, "text": "ü\"\\"]
        try await rest.perform(["do": "trigger", "channel": .string(name), "event": "first", "data": data])
        try await sockudo.publisher().publish("second", to: name, data: data)
        for (event, events) in [("first", first), ("second", second)] {
            let received = try #require(await events.first { _ in true })
            try expect(received.channel == name && JSONValue(parsing: received.data ?? "") == data)
            let message = try await browser.line { $0["event"]?.string == "message" && $0["name"]?.string == event }
            expect(message["channel"]?.string == name && message["data"] == data)
        }

        // The server sent them encrypted.
        for event in ["first", "second"] {
            let update = await updates.first { if case .frame(let text) = $0 { text.contains(#""\#(event)""#) } else { false } }
            guard case .frame(let text)? = update else {
                Issue.record("The frame of \(event) is missing.")
                return
            }
            expect(text.contains("ciphertext") && text.contains("nonce") && !text.contains("12.5"))
        }
        client.disconnect()
    }

    @Test func `the client loads a new key for an event that was encrypted with it`() async throws {
        let sockudo = try await Sockudo()
        let publishers = [sockudo.publisher(masterKey: Sockudo.otherMasterKey), sockudo.publisher()]
        let requests = Lock(0)
        let client = sockudo.client("anna") {
            $0.authorizer = .callback { request in
                let count = requests.withLock { count in
                    count += 1
                    return count
                }
                return try publishers[min(count, publishers.count) - 1].authorize(socketID: request.socketID, channel: request.channel)
            }
        }
        client.connect()
        let channel = try client.subscribe("private-encrypted-room")
        let events = channel.events()
        try await channel.subscribed(within: .seconds(300))
        try await publishers[0].publish("old", to: channel.name, data: 1)
        try await publishers[1].publish("new", to: channel.name, data: 2)
        var received: [String] = []
        for await event in events.prefix(2) { received.append("\(event.name) \(event.data ?? "")") }
        expect(received == ["old 1", "new 2"] && requests.withLock { $0 } == 2)
        client.disconnect()
    }

    @Test func `an encrypted event with another key is reported`() async throws {
        let sockudo = try await Sockudo()
        let client = sockudo.client("anna", masterKey: Sockudo.otherMasterKey)
        let errors = client.errors
        client.connect()
        let channel = try client.subscribe("private-encrypted-room")
        try await channel.subscribed(within: .seconds(300))
        try await sockudo.rest().perform(["do": "trigger", "channel": .string(channel.name), "event": "tick", "data": "secret"])
        let error = try #require(await errors.first { $0.code == .decryptionFailed })
        let failure = try #require(error.cause as? PusherDecryptionFailure)
        expect(error.channel == channel.name && failure.event.name == "tick" && failure.reason == .wrongKey)
        expectEqual(channel.state, .subscribed)
        client.disconnect()
    }

    // MARK: Cache channels

    @Test(arguments: ["cache-a", "private-cache-a", "private-encrypted-cache-a"])
    func `a cache channel begins with its last event, or a miss`(name: String) async throws {
        let sockudo = try await Sockudo()
        let (anna, bert, publisher) = (sockudo.client("anna"), sockudo.client("bert"), sockudo.publisher())
        let (annas, berts) = (try anna.subscribe(name), try bert.subscribe(name))
        let (annasEvents, bertsEvents, misses) = (annas.events(), berts.events(), annas.events("pusher:cache_miss"))
        anna.connect()
        await expectEqual(misses.first { _ in true }?.channel, name)
        for value in 1...2 { try await publisher.publish("tick", to: name, data: ["value": value]) }
        var received: [String] = []
        for await event in annasEvents.prefix(3) { received.append(event.name + (event.name == "tick" ? " \(event.data ?? "")" : "")) }
        expectEqual(received, ["pusher:cache_miss", #"tick {"value":1}"#, #"tick {"value":2}"#])

        bert.connect()
        let cached = try #require(await bertsEvents.first { _ in true })
        expect(cached.name == "tick" && cached.data == #"{"value":2}"#)
        anna.disconnect()
        bert.disconnect()
    }

    @Test func `a presence channel with a cache is rejected by sockudo`() async throws {
        let sockudo = try await Sockudo()
        let client = sockudo.client("anna")
        let errors = client.errors
        client.connect()
        let room = try client.subscribe("presence-cache-a")
        let error = try #require(await errors.first { _ in true })
        expect(error.serverCode == 4000 && error.message.contains("presence channel"))
        // The connection stays open.
        try await client.subscribe("presence-a").subscribed(within: .seconds(300))
        expect(room.state != .subscribed)
        client.disconnect()
    }

    // MARK: Users

    @Test func `a user signs in, receives events on all connections, and watches others`() async throws {
        let sockudo = try await Sockudo()
        let (rest, publisher) = (try sockudo.rest(), sockudo.publisher())
        let annas = [sockudo.client("anna", watchlist: ["bert", "carl"]), sockudo.client("anna")]
        let watchlist = annas[0].user.watchlistChanges
        let events = annas.map { $0.user.events() }
        for anna in annas {
            let updates = anna.updates(includingFrames: true)
            anna.user.signIn()
            anna.connect()
            try await expectEqual(anna.user.signedIn(within: .seconds(300)), PusherMember(id: "anna", info: ["name": "anna"]))
            // The channel of the user.
            _ = await updates.first {
                if case .frame(let text) = $0 { text.contains("subscription_succeeded") && text.contains("user-anna") } else { false }
            }
        }
        guard case .offline(let absent)? = await watchlist.first(where: { _ in true }) else {
            Issue.record("The users of the watchlist should be offline.")
            return
        }
        expectEqual(Set(absent), ["bert", "carl"])

        // Events for the user.
        try await publisher.sendToUser("anna", "first", data: ["value": 1])
        try await rest.perform(["do": "sendToUser", "user": "anna", "event": "second", "data": ["value": 2]])
        for sequence in events {
            var received: [String] = []
            for await event in sequence.prefix(2) { received.append("\(event.name) \(event.data ?? "")") }
            expectEqual(received, [#"first {"value":1}"#, #"second {"value":2}"#])
        }

        // Sockudo only reports users who have a watchlist of their own.
        let bert = sockudo.client("bert", watchlist: ["anna"])
        let bertsWatchlist = bert.user.watchlistChanges
        bert.user.signIn()
        bert.connect()
        await expectEqual(watchlist.first { _ in true }, .online(["bert"]))
        await expect(bertsWatchlist.first { $0 == .online(["anna"]) } != nil)
        // Presence channels work as before.
        let room = try bert.subscribe("presence-room")
        try await room.subscribed(within: .seconds(300))
        expectEqual(room.members.me?.id, "bert")
        for client in annas + [bert] { client.disconnect() }
    }

    @Test func `ending the connections of a user disconnects the clients with the code 4009`() async throws {
        let sockudo = try await Sockudo()
        let (anna, carl, bert) = (sockudo.client("anna"), sockudo.client("carl"), sockudo.client("bert"))
        for client in [anna, carl, bert] {
            client.user.signIn()
            client.connect()
            try await client.user.signedIn(within: .seconds(300))
        }
        func end(_ client: PusherClient) async -> PusherError? {
            let state = await client.states.first { if case .disconnected = $0 { true } else { false } }
            return if case .disconnected(let error) = state { error } else { nil }
        }
        try await sockudo.publisher().terminateConnections(ofUser: "anna")
        await expectEqual(end(anna)?.serverCode, 4009)
        try await sockudo.rest().perform(["do": "terminate", "user": "carl"])
        await expectEqual(end(carl)?.serverCode, 4009)
        expect(bert.state.name == "connected" && bert.user.state == .signedIn(PusherMember(id: "bert", info: ["name": "bert"])))
        // The user may come back.
        anna.connect()
        try await anna.user.signedIn(within: .seconds(300))
        anna.disconnect()
        bert.disconnect()
    }

    @Test func `a user whom sockudo rejects stays connected`() async throws {
        let sockudo = try await Sockudo()
        let client = sockudo.client("anna") { $0.userAuthenticator = .secret("wrong", user: PusherMember(id: "anna")) }
        client.user.signIn()
        client.connect()
        let error = await #expect(throws: PusherError.self) { try await client.user.signedIn(within: .seconds(300)) }
        expect(error?.code == .authorizationFailed && error?.serverCode == 4009)
        try await client.subscribe("private-orders").subscribed(within: .seconds(300))
        client.disconnect()
    }

    // MARK: Limits

    @Test func `client events above the limit of the server are reported`() async throws {
        let sockudo = try await Sockudo(["--clientEventsPerSecond", "2"])
        let (anna, bert) = (sockudo.client("anna"), sockudo.client("bert"))
        let (errors, name) = (anna.errors, "private-orders")
        let (annas, berts) = (try anna.subscribe(name), try bert.subscribe(name))
        let events = berts.events()
        for client in [anna, bert] { client.connect() }
        for channel in [annas, berts] { try await channel.subscribed(within: .seconds(300)) }
        for value in 1...10 { try annas.trigger("client-tick", ["value": value]) }
        let error = try #require(await errors.first { _ in true })
        expect(error.code == .clientEventRejected && error.serverCode == 4301 && error.message.contains("rate limit"))
        await expectEqual(events.first { _ in true }?.data, #"{"value":1}"#)
        expectEqual(annas.state, .subscribed)
        for client in [anna, bert] { client.disconnect() }
    }

    @Test func `client events that sockudo doesn't allow on a cache channel are reported`() async throws {
        let sockudo = try await Sockudo()
        let client = sockudo.client("anna")
        let errors = client.errors
        client.connect()
        let channel = try client.subscribe("private-cache-a")
        try await channel.subscribed(within: .seconds(300))
        try channel.trigger("client-tick", ["value": 1])
        let error = try #require(await errors.first { _ in true })
        expect(error.code == .clientEventRejected && error.serverCode == 4301 && channel.state == .subscribed)
        client.disconnect()
    }

    // MARK: Restarts

    @Test func `members, gaps and the user continue after a restart of sockudo`() async throws {
        let first = try await Sockudo()
        // The client is asked to reconnect, and doesn't do so before carl is there.
        let anna = first.client("anna") { $0.backoff = Backoff(base: .seconds(3600), cap: .seconds(3600)) }
        let room = try anna.subscribe("presence-room")
        let (changes, gaps, events, userStates) = (room.memberChanges, room.gaps, room.events("tick"), anna.user.states)
        anna.user.signIn()
        anna.connect()
        try await room.subscribed(within: .seconds(300))
        try await anna.user.signedIn(within: .seconds(300))
        expect(room.members.map(\.id) == ["anna"] && room.members.me?.id == "anna")
        _ = await userStates.first { if case .signedIn = $0 { true } else { false } }

        let (bert, dora) = (try await first.browser("bert"), try await first.browser("dora"))
        try await bert.perform(["do": "subscribe", "channel": "presence-room"])
        await expectEqual(
            changes.first { if case .joined = $0 { true } else { false } }, .joined(PusherMember(id: "bert", info: ["name": "bert"])))
        try await dora.perform(["do": "subscribe", "channel": "presence-room"])
        await expectEqual(changes.first { _ in true }, .joined(PusherMember(id: "dora", info: ["name": "dora"])))
        dora.stop()
        await expectEqual(changes.first { _ in true }, .left(PusherMember(id: "dora", info: ["name": "dora"])))
        expectEqual(Set(room.members.map(\.id)), ["anna", "bert"])

        // The server stops. Then bert leaves, and carl comes while anna is away.
        let delays = anna.connectingIn
        try await first.peer.stopped()
        _ = await delays.first { $0 > .seconds(60) }
        expect(room.state == .pending && anna.user.state == .pending)
        try await bert.stopped()
        let second = try await first.replaced()
        let carl = second.client("carl")
        carl.connect()
        try await carl.subscribe("presence-room").subscribed(within: .seconds(300))
        anna.connect()
        let change = await changes.first { if case .resubscribed = $0 { true } else { false } }
        guard case .resubscribed(let members, let joined, let left)? = change else {
            Issue.record("The channel should have been subscribed again.")
            return
        }
        expect(Set(members.map(\.id)) == ["anna", "carl"] && joined.map(\.id) == ["carl"] && left.map(\.id) == ["bert"])
        let gap = try #require(await gaps.first { _ in true })
        expect(gap.channel == "presence-room" && gap.duration > .zero)
        await expect(userStates.first { if case .signedIn = $0 { true } else { false } } != nil)
        try await second.publisher().publish("tick", to: "presence-room", data: "again")
        await expectEqual(events.first { _ in true }?.data, "again")
        for client in [anna, carl] { client.disconnect() }
    }
}
