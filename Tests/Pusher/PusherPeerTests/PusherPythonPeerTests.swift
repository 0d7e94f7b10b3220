import PeerSupport
import PusherChannels
import PusherServer
import RealtimeCore
import RealtimeCoding
import RealtimeSockets
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// A server of this package for peers in Python, which require the ID of an app to be a number.
private struct PythonServer {
    static let masterKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    static let app = PusherApp(id: "4711", key: "key1", secret: "secret1")

    let server: PusherServer
    let port: Int

    init(_ app: PusherApp = Self.app, webhooks: PusherServerWebhooks? = nil) async throws {
        self.server = PusherServer(app: app, webhooks: webhooks, log: .none)
        self.port = try await self.server.start(on: SocketListener(limits: .forTests)).port
    }

    /// Returns Pusher's HTTP library.
    func library(secret: String = Self.app.secret) async throws -> Peer {
        let library = try Peer("pusher", command: PeerCommand.python)
        try await library.perform([
            "do": "configure", "app": .string(Self.app.id), "key": .string(Self.app.key), "secret": .string(secret),
            "port": .number(JSONNumber(self.port)), "master": .string(Self.masterKey),
        ])
        return library
    }

    /// Returns a client of this package, which isn't connected yet.
    func client(configure: (inout PusherConfiguration) -> Void = { _ in }) -> PusherClient {
        var configuration = PusherConfiguration(key: Self.app.key, host: "127.0.0.1", port: self.port, useTLS: false)
        configuration.authorizer = .secret(
            Self.app.secret, userID: "anna", userInfo: ["name": "Anna"], encryptionMasterKey: Self.masterKey)
        configuration.log = .none
        configuration.connectTimeout = .seconds(300)
        configure(&configuration)
        return PusherClient(configuration)
    }
}

/// The embedded server with the packages of PyPI that Python programs use: Pusher's HTTP library `pusher`, and the client `Pysher`.
@Suite(
    .usesSockets, .requires(.pythonPeers), .timeLimit(.minutes(10)))
struct PusherPythonPeerTests {
    // MARK: The HTTP library

    @Test func `the HTTP library for Python publishes events`() async throws {
        let python = try await PythonServer()
        let library = try await python.library()
        let client = python.client { $0.userAuthenticator = .secret("secret1", user: PusherMember(id: "anna")) }
        let channels = try ["prices", "presence-room", "private-encrypted-room"].map { try client.subscribe($0) }
        let (prices, room, encrypted) = (channels[0].events(), channels[1].events(), channels[2].events())
        let notices = client.user.events("notice")
        client.connect()
        for channel in channels { try await channel.subscribed(within: .seconds(300)) }
        client.user.signIn()
        try await client.user.signedIn(within: .seconds(300))

        let data: JSONValue = ["value": 12.5, "text": "ü\"\\"]
        try await library.perform(["do": "trigger", "channels": "prices", "name": "a", "data": data])
        try await library.perform(["do": "trigger", "channels": ["prices", "presence-room"], "name": "b", "data": "text"])
        try await library.perform([
            "do": "trigger", "channels": "prices", "name": "excluded", "data": "", "socket": .string(client.socketID ?? ""),
        ])
        try await library.perform(["do": "trigger", "channels": "private-encrypted-room", "name": "c", "data": data])
        try await library.perform([
            "do": "batch",
            "events": [
                ["channel": "prices", "name": "d", "data": data], ["channel": "presence-room", "name": "e", "data": "text"],
                ["channel": "private-encrypted-room", "name": "f", "data": data],
            ],
        ])
        try await library.perform(["do": "sendToUser", "user": "anna", "name": "notice", "data": data])

        func received(_ events: EventSequence<PusherEvent>, _ count: Int) async throws -> [String] {
            var names: [String] = []
            for await event in events.prefix(count) {
                names.append(event.name)
                if event.data != "text" { try expectEqual(JSONValue(parsing: event.data ?? ""), data) }
            }
            return names
        }
        try await expectEqual(received(prices, 3), ["a", "b", "d"])
        try await expectEqual(received(room, 2), ["b", "e"])
        try await expectEqual(received(encrypted, 2), ["c", "f"])
        try await expectEqual(received(notices, 1), ["notice"])

        // A wrong signature.
        let stranger = try await python.library(secret: "wrong")
        await #expect {
            try await stranger.perform(["do": "trigger", "channels": "prices", "name": "a", "data": ""])
        } throws: {
            ($0 as? Peer.Failure)?.description.contains("PusherBadAuth") == true
        }
        client.disconnect()
        await python.server.stop()
    }

    @Test func `the HTTP library for Python queries channels and users, and terminates connections`() async throws {
        let python = try await PythonServer()
        let library = try await python.library()
        let client = python.client { $0.userAuthenticator = .secret("secret1", user: PusherMember(id: "anna")) }
        client.connect()
        for name in ["prices", "presence-room"] { try await client.subscribe(name).subscribed(within: .seconds(300)) }
        client.user.signIn()
        try await client.user.signedIn(within: .seconds(300))

        let all = try await library.perform(["do": "channels"])
        expect(all["channels"]?["prices"] == [:] && all["channels"]?["presence-room"] == [:])
        try await expectEqual(
            library.perform(["do": "channels", "prefix": "presence-", "info": ["user_count"]]),
            [
                "channels": ["presence-room": ["user_count": 1]]
            ])
        try await expectEqual(
            library.perform(["do": "channel", "channel": "prices", "info": ["subscription_count"]]),
            [
                "occupied": true, "subscription_count": 1,
            ])
        try await expectEqual(library.perform(["do": "channel", "channel": "empty"]), ["occupied": false])
        try await expectEqual(library.perform(["do": "users", "channel": "presence-room"]), ["users": [["id": "anna"]]])
        await #expect(throws: Peer.Failure.self) { try await library.perform(["do": "users", "channel": "prices"]) }

        // The path of the library's own call lacks the app, so that the request fails with the service, too.
        await #expect {
            try await library.perform(["do": "terminate", "user": "anna"])
        } throws: {
            ($0 as? Peer.Failure)?.description.contains("404") == true
        }
        expectEqual(python.server.socketIDs(ofUser: "anna").count, 1)
        let states = client.states
        try await expectEqual(library.perform(["do": "terminateInApp", "user": "anna"]), [:])
        guard case .disconnected(let error?)? = await states.first(where: \.isFinal) else {
            Issue.record("The connection should have been terminated.")
            return
        }
        expectEqual(error.serverCode, 4009)
        await python.server.stop()
    }

    @Test(arguments: ["private-room", "presence-room", "private-encrypted-room"])
    func `the client subscribes with the signatures of the HTTP library for Python`(name: String) async throws {
        let python = try await PythonServer()
        let library = try await python.library()
        let client = python.client { configuration in
            configuration.authorizer = .callback { request in
                var command: JSONObject = ["do": "authenticate", "channel": .string(request.channel), "socket": .string(request.socketID)]
                if name.hasPrefix("presence-") { command["data"] = ["user_id": "anna", "user_info": ["name": "Ännä"]] }
                return try JSONValueDecoder().decode(PusherChannelAuthorization.self, from: try await library.perform(command))
            }
            configuration.userAuthenticator = .callback { socketID in
                let response = try await library.perform([
                    "do": "authenticateUser", "socket": .string(socketID), "data": ["id": "anna", "user_info": ["name": "Ännä"]],
                ])
                return try JSONValueDecoder().decode(PusherUserAuthentication.self, from: response)
            }
        }
        let channel = try client.subscribe(name)
        let events = channel.events("tick")
        client.connect()
        try await channel.subscribed(within: .seconds(300))
        expectEqual(channel.members.me?.info?["name"]?.string, (name.hasPrefix("presence-") ? "Ännä" : nil))
        client.user.signIn()
        try await client.user.signedIn(within: .seconds(300))
        expectEqual(python.server.socketIDs(ofUser: "anna"), [client.socketID])

        try await library.perform(["do": "trigger", "channels": .string(name), "name": "tick", "data": "7"])
        await expectEqual(events.first { _ in true }?.data, "7")
        client.disconnect()
        await python.server.stop()
    }

    @Test func `the HTTP library for Python verifies the webhooks of the server`() async throws {
        let receiver = WebhookReceiver([PythonServer.app.key: PythonServer.app.secret])
        let hooks = SocketListener(limits: .forTests)
        let hookAddress = try await hooks.start(receiver)
        var webhooks = PusherServerWebhooks([Endpoint(scheme: "http", host: "127.0.0.1", port: hookAddress.port)])
        webhooks.absenceDelay = .zero
        let python = try await PythonServer(webhooks: webhooks)
        let library = try await python.library()
        let client = python.client()
        client.connect()
        let room = try client.subscribe("presence-room")
        try await room.subscribed(within: .seconds(300))
        try room.trigger("client-typing", ["text": "ü"])
        try await eventually { receiver.events.contains { $0.name == "client_event" } }
        client.disconnect()
        try await eventually { receiver.events.contains(.channelVacated(channel: "presence-room")) }

        var names: [String] = []
        for request in receiver.requests.all {
            var command: JSONObject = [
                "do": "webhook", "key": .string(request.head.headers["X-Pusher-Key"] ?? ""),
                "signature": .string(request.head.headers["X-Pusher-Signature"] ?? ""),
                "body": .string(String(decoding: request.body, as: UTF8.self)),
            ]
            let webhook = try await library.perform(command)
            names += webhook["events"]?.array?.compactMap { $0["name"]?.string } ?? []
            command["signature"] = "0"
            try await expectEqual(library.perform(command), .null)
        }
        expect(
            Set(names) == ["channel_occupied", "channel_vacated", "member_added", "member_removed", "client_event"]
                && names.count == receiver.events.count)
        await python.server.stop()
        await hooks.stop()
    }

    // MARK: Pysher

    private static let user: JSONValue = ["user_id": "bert", "user_info": ["name": "Bert"]]

    /// Returns Pysher, connecting to a port.
    private func pysher(_ port: Int, _ options: JSONObject) async throws -> Peer {
        let pysher = try Peer("pysher", command: PeerCommand.python)
        var command: JSONObject = ["do": "connect", "key": .string(PythonServer.app.key), "port": .number(JSONNumber(port))]
        for (name, value) in options { command[name] = value }
        try await pysher.perform(command)
        return pysher
    }

    private func message(_ pysher: Peer, _ channel: String, _ name: String) async throws -> JSONValue? {
        try await pysher.line { $0["event"] == "message" && $0["channel"]?.string == channel && $0["name"]?.string == name }["data"]
    }

    private func subscribed(_ pysher: Peer, _ channel: String) async throws {
        _ = try await self.message(pysher, channel, "pusher_internal:subscription_succeeded")
    }

    @Test func `Pysher subscribes to all kinds of channels and exchanges events with the client`() async throws {
        let python = try await PythonServer()
        let names = ["prices", "private-orders", "presence-room"]
        let client = python.client()
        client.connect()
        let channels = try names.map { try client.subscribe($0) }
        for channel in channels { try await channel.subscribed(within: .seconds(300)) }
        let events = channels.map { $0.events("client-hello") }
        let changes = channels[2].memberChanges

        let pysher = try await self.pysher(
            python.port, ["secret": .string(PythonServer.app.secret), "user": Self.user, "channels": .array(names.map { .string($0) })])
        _ = try await pysher.line { $0["event"] == "connected" }
        try await expectEqual(pysher.perform(["do": "state"]), "connected")
        for name in names {
            try await self.subscribed(pysher, name)
            for event in ["tick", "client-hello"] {
                try await pysher.perform(["do": "bind", "channel": .string(name), "name": .string(event)])
            }
        }
        let joined = await changes.first { if case .joined = $0 { true } else { false } }
        guard case .joined(let bert)? = joined else {
            Issue.record("bert should have joined.")
            return
        }
        expectEqual(bert, PusherMember(id: "bert", info: ["name": "Bert"]))

        // Events of the server, and client events in both directions.
        for name in names {
            python.server.publish("tick", to: name, data: #"{"text":"ü"}"#)
            try await expectEqual(self.message(pysher, name, "tick"), #"{"text":"ü"}"#)
        }
        for (channel, sequence) in zip(channels, events).dropFirst() {
            try await pysher.perform([
                "do": "trigger", "channel": .string(channel.name), "name": "client-hello", "data": ["text": "ü"],
            ])
            let event = try #require(await sequence.first { _ in true })
            try expectEqual(event.decode([String: String].self), ["text": "ü"])
            expectEqual(event.userID, (channel.name == "presence-room" ? "bert" : nil))
            try channel.trigger("client-hello", "back")
            try await expectEqual(self.message(pysher, channel.name, "client-hello"), "back")
        }

        // Unsubscribing.
        try await pysher.perform(["do": "unsubscribe", "channel": "presence-room"])
        let left = await changes.first { if case .left = $0 { true } else { false } }
        expectEqual(left, .left(bert))
        try await pysher.perform(["do": "disconnect"])
        try await eventually { python.server.socketIDs == [client.socketID] }
        client.disconnect()
        await python.server.stop()
    }

    @Test func `Pysher gets its signatures from the authorization handler`() async throws {
        let server = PusherServer(app: PythonServer.app, log: .none)
        let handler = PusherAuthorizationHandler(app: server.app) { attempt in
            attempt.channel == "private-orders" ? .accept() : .reject(message: "No.")
        }
        let listener = SocketListener(limits: .forTests)
        let port = try await listener.start(ListenerRouter([.path("/auth", handler), .path("/", server.listenerHandler)])).port
        let pysher = try await self.pysher(port, ["endpoint": .string("http://127.0.0.1:\(port)/auth")])
        _ = try await pysher.line { $0["event"] == "connected" }
        try await pysher.perform(["do": "subscribe", "channel": "private-orders"])
        try await self.subscribed(pysher, "private-orders")
        await #expect(throws: Peer.Failure.self) { try await pysher.perform(["do": "subscribe", "channel": "private-other"]) }

        // A wrong signature is an error of the subscription, and the connection continues.
        try await pysher.perform(["do": "subscribe", "channel": "private-wrong", "auth": "key1:0"])
        try await expectEqual(self.message(pysher, "private-wrong", "pusher:error")?["code"], 4009)
        try await pysher.perform(["do": "subscribe", "channel": "prices"])
        try await self.subscribed(pysher, "prices")
        pysher.stop()
        await server.stop()
        await listener.stop()
    }

    /// How the server ends a connection.
    enum Ending: CaseIterable {
        /// Without a close frame.
        case drop
        /// With the error 4200, and then a close frame.
        case restart
    }

    @Test(arguments: Ending.allCases)
    func `Pysher reconnects after the server has ended the connection`(ending: Ending) async throws {
        let server = PusherServer(app: PythonServer.app, log: .none)
        let listener = SocketListener(limits: .forTests)
        let port = try await listener.start(server.listenerHandler).port
        let pysher = try await self.pysher(
            port,
            [
                "secret": .string(PythonServer.app.secret), "user": Self.user, "channels": ["prices", "private-orders", "presence-room"],
            ])
        try await pysher.perform(["do": "bind", "channel": "private-orders", "name": "tick"])
        let first = try await pysher.line { $0["event"] == "connected" }["socket"]?.string
        try await self.subscribed(pysher, "presence-room")
        switch ending {
        case .drop: server.drop(try #require(first))
        case .restart:
            // Only the connections, so that the port stays the same.
            await server.stop()
            try await expectEqual(pysher.line { $0["event"] == "error" }["code"], 4200)
        }
        let second = try await pysher.line { $0["event"] == "connected" }["socket"]?.string
        expect(first != second)
        try await self.subscribed(pysher, "private-orders")
        try await self.subscribed(pysher, "presence-room")
        server.publish("tick", to: "private-orders", data: "again")
        try await expectEqual(self.message(pysher, "private-orders", "tick"), "again")
        try await pysher.perform(["do": "disconnect"])
        await listener.stop()
    }

    @Test func `Pysher subscribes again to public channels by itself`() async throws {
        let python = try await PythonServer()
        let pysher = try await self.pysher(python.port, ["channels": ["prices"], "autoSub": true])
        let first = try #require(try await pysher.line { $0["event"] == "connected" }["socket"]?.string)
        try await self.subscribed(pysher, "prices")
        python.server.drop(first)
        try await self.subscribed(pysher, "prices")
        expectEqual(python.server.subscribers(of: "prices").count, 1)
        try await pysher.perform(["do": "disconnect"])
        await python.server.stop()
    }
}
