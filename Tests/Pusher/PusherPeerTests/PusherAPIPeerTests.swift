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

/// An application server that records webhooks.
final class WebhookReceiver: ListenerHandler {
    let secrets: [String: String]
    let requests = EventRecorder<(head: HTTPRequestHead, body: [UInt8])>()
    let webhooks = EventRecorder<PusherWebhook>()

    init(_ secrets: [String: String]) {
        self.secrets = secrets
    }

    var events: [PusherWebhookEvent] { self.webhooks.all.flatMap(\.events) }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        self.requests.record((request, body))
        do {
            let webhook = try PusherWebhook(
                key: request.headers["X-Pusher-Key"], signature: request.headers["X-Pusher-Signature"], body: body, secrets: self.secrets)
            self.webhooks.record(webhook)
            responder.respond(HTTPResponse(status: 200))
        } catch {
            Issue.record(error)
            responder.respond(HTTPResponse(status: 401))
        }
    }

    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .reject(HTTPResponse(status: 404)) }
}

/// The HTTP API and webhooks against other implementations: the server sockudo, and the service's HTTP library for Node.
@Suite(
    .usesSockets, .requires(.peers("sockudo", "pusher-rest")), .timeLimit(.minutes(10)))
struct PusherAPIPeerTests {
    private func client(_ port: Int, user: String) -> PusherClient {
        var configuration = PusherConfiguration(key: "key1", host: "127.0.0.1", port: port, useTLS: false)
        configuration.authorizer = .secret("secret1", userID: user)
        configuration.log = .none
        configuration.connectTimeout = .seconds(300)
        return PusherClient(configuration)
    }

    private func publisher(_ port: Int, secret: String = "secret1") -> PusherPublisher {
        PusherPublisher(
            appID: "app1", key: "key1", secret: secret, endpoint: Endpoint(scheme: "http", host: "127.0.0.1", port: port))
    }

    @Test func `the publisher uses the HTTP API of sockudo`() async throws {
        let receiver = WebhookReceiver(["key1": "secret1"])
        let listener = SocketListener(limits: .forTests)
        let address = try await listener.start(receiver)
        let sockudo = try Peer("sockudo", ["--webhook", "http://127.0.0.1:\(address.port)/hook"])
        let port = try await sockudo.ready()["port"]?.int ?? 0
        let (client, publisher) = (self.client(port, user: "anna"), self.publisher(port))
        client.connect()
        let (prices, room) = (try client.subscribe("prices"), try client.subscribe("presence-room"))
        let events = prices.events()
        try await prices.subscribed(within: .seconds(300))
        try await room.subscribed(within: .seconds(300))

        // Publishing.
        try await publisher.publish("a", to: ["prices", "presence-room"], data: ["value": 1])
        let info = try await publisher.trigger("b", on: ["prices", "presence-room"], data: "text", info: [.userCount, .subscriptionCount])
        expect(info["prices"]?.subscriptionCount == 1 && info["presence-room"]?.userCount == 1)
        let infos = try await publisher.triggerBatch([
            PusherBatchEvent("c", on: "prices", data: 3, info: [.subscriptionCount]),
            PusherBatchEvent("excluded", on: "prices", data: 4, except: client.socketID), PusherBatchEvent("d", on: "prices", data: 5),
        ])
        expect(infos.count == 3 && infos[0].subscriptionCount == 1)
        var received: [String] = []
        for await event in events.prefix(4) { received.append("\(event.name) \(event.data ?? "")") }
        expectEqual(received, [#"a {"value":1}"#, "b text", "c 3", "d 5"])
        try await publisher.sendToUser("anna", "a", data: 1)

        // Queries.
        expectEqual(Set(try await publisher.channels().keys), ["prices", "presence-room"])
        try await expectEqual(
            publisher.channels(prefix: "presence-", info: [.userCount]), ["presence-room": PusherChannelInfo(userCount: 1)])
        try await expectEqual(publisher.channel("presence-room", info: [.userCount]).userCount, 1)
        try await expectEqual(publisher.channel("prices", info: [.subscriptionCount]).isOccupied, true)
        try await expectEqual(publisher.channel("empty").isOccupied, false)
        try await expectEqual(publisher.users(of: "presence-room"), [PusherChannelUser(id: "anna")])
        try await publisher.terminateConnections(ofUser: "anna")

        // A wrong signature.
        let error = await #expect(throws: PusherError.self) { try await self.publisher(port, secret: "wrong").channels() }
        expect(error?.code == .rejected && error?.status == 401)

        // Webhooks.
        try await eventually { receiver.events.contains(.memberAdded(channel: "presence-room", userID: "anna")) }
        try await eventually { receiver.events.contains(.channelOccupied(channel: "prices")) }
        client.disconnect()
        try await eventually { receiver.events.contains(.channelVacated(channel: "prices")) }
        try await sockudo.stopped()
        await listener.stop()
    }

    @Test func `the HTTP library for Node uses the HTTP API of the server`() async throws {
        let receiver = WebhookReceiver(["key1": "secret1"])
        let hooks = SocketListener(limits: .forTests)
        let hookAddress = try await hooks.start(receiver)
        var webhooks = PusherServerWebhooks([Endpoint(scheme: "http", host: "127.0.0.1", port: hookAddress.port)])
        webhooks.absenceDelay = .zero
        let server = PusherServer(app: PusherApp(id: "app1", key: "key1", secret: "secret1"), webhooks: webhooks, log: .none)
        let port = try await server.start(on: SocketListener(limits: .forTests)).port
        let rest = try Peer("pusher-rest", ["--app", "app1", "--key", "key1", "--secret", "secret1", "--port", "\(port)"])
        let client = self.client(port, user: "anna")
        client.connect()
        let (prices, room) = (try client.subscribe("prices"), try client.subscribe("presence-room"))
        let events = prices.events()
        try await prices.subscribed(within: .seconds(300))
        try await room.subscribed(within: .seconds(300))
        func body(_ command: JSONObject) async throws -> JSONValue {
            let response = try await rest.perform(command)
            expectEqual(response["status"]?.int, 200)
            return try JSONValue(parsing: response["body"]?.string ?? "")
        }

        // Publishing.
        try await expectEqual(body(["do": "trigger", "channels": ["prices", "presence-room"], "event": "a", "data": ["value": 1]]), [:])
        let info = try await body([
            "do": "trigger", "channels": ["prices", "presence-room"], "event": "b", "data": "text",
            "params": ["info": "user_count,subscription_count"],
        ])
        expectEqual(info, ["channels": ["prices": ["subscription_count": 1], "presence-room": ["user_count": 1]]])
        let batch = try await body([
            "do": "batch",
            "batch": [
                ["channel": "prices", "name": "c", "data": "3", "info": "subscription_count"],
                ["channel": "prices", "name": "excluded", "data": "4", "socket_id": .string(client.socketID ?? "")],
                ["channel": "prices", "name": "d", "data": "5"],
            ],
        ])
        expectEqual(batch, ["batch": [["subscription_count": 1], [:], [:]]])
        var received: [String] = []
        for await event in events.prefix(4) { received.append("\(event.name) \(event.data ?? "")") }
        expectEqual(received, [#"a {"value":1}"#, #"b text"#, "c 3", "d 5"])
        try await expectEqual(body(["do": "sendToUser", "user": "anna", "event": "a", "data": "1"]), [:])

        // Queries.
        try await expectEqual(body(["do": "get", "path": "/channels"]), ["channels": ["presence-room": [:], "prices": [:]]])
        let counted: JSONObject = ["filter_by_prefix": "presence-", "info": "user_count"]
        try await expectEqual(
            body(["do": "get", "path": "/channels", "params": .object(counted)]),
            [
                "channels": ["presence-room": ["user_count": 1]]
            ])
        try await expectEqual(
            body(["do": "get", "path": "/channels/prices", "params": ["info": "subscription_count"]]),
            [
                "occupied": true, "subscription_count": 1,
            ])
        try await expectEqual(body(["do": "get", "path": "/channels/empty"]), ["occupied": false])
        try await expectEqual(body(["do": "get", "path": "/channels/presence-room/users"]), ["users": [["id": "anna"]]])
        try await expectEqual(body(["do": "terminate", "user": "bert"]), [:])
        await #expect(throws: Peer.Failure.self) { try await rest.perform(["do": "get", "path": "/channels/prices/users"]) }

        // Signatures.
        let user = try self.publisher(port).authenticateUser(
            socketID: "1.2", user: PusherMember(id: "7", info: ["name": "Anna"]), watchlist: ["8"])
        let signed = try await rest.perform([
            "do": "authenticate", "socket": "1.2", "user": ["id": "7", "user_info": ["name": "Anna"], "watchlist": ["8"]],
        ])
        expect(signed["auth"]?.string == user.auth && signed["user_data"]?.string == user.userData)

        // Webhooks.
        try room.trigger("client-typing", ["on": true])
        try await eventually { receiver.events.contains { $0.name == "client_event" } }
        client.disconnect()
        try await eventually { receiver.events.contains(.channelVacated(channel: "presence-room")) }
        var names: [String] = []
        for request in receiver.requests.all {
            let headers = JSONObject(request.head.headers.map { ($0.name.lowercased(), JSONValue.string($0.value)) })
            let parsed = try await rest.perform([
                "do": "webhook", "headers": .object(headers), "body": .string(String(decoding: request.body, as: UTF8.self)),
            ])
            expectEqual(parsed["valid"]?.bool, true)
            names += parsed["events"]?.array?.compactMap { $0["name"]?.string } ?? []
        }
        expect(
            Set(names) == ["channel_occupied", "channel_vacated", "member_added", "member_removed", "client_event"]
                && names.count == receiver.events.count)
        rest.stop()
        await server.stop()
        await hooks.stop()
    }
}
