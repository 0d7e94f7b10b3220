import Foundation
import PeerSupport
import PusherServer
import RealtimeCore
import RealtimeCoding
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherSwift

/// The flow of the README with the server sockudo, and with pusher-js on the other side.
@Suite(
    .usesSockets, .requires(.peers("sockudo", "pusher-client", "pusher-rest")),
    .timeLimit(.minutes(10)))
struct PusherSwiftPeerTests {
    private static let masterKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

    @Test func `the flow of the README works with sockudo and pusher-js`() async throws {
        let sockudo = try Peer("sockudo")
        let port = try #require(try await sockudo.ready()["port"]?.int)
        let rest = try Peer(
            "pusher-rest",
            ["--app", "app1", "--key", "key1", "--secret", "secret1", "--port", "\(port)", "--master", Self.masterKey])
        let browser = try Peer("pusher-client")
        try await browser.perform([
            "do": "connect", "key": "key1", "options": ["wsHost": "127.0.0.1", "wsPort": .number(JSONNumber(port))],
            "auth": [
                "app": "app1", "secret": "secret1", "user": ["id": "bert", "user_info": ["name": "Bert"]],
                "master": .string(Self.masterKey),
            ],
        ])
        // The application server.
        var app = PusherApp(id: "app1", key: "key1", secret: "secret1")
        app.encryptionMasterKey = Self.masterKey
        let listener = SocketListener(limits: .forTests)
        let address = try await listener.start(PusherAuthorizationHandler(app: app) { _ in .accept(userID: "anna") })

        let options = PusherClientOptions(
            authMethod: .endpoint(authEndpoint: "http://\(address.host):\(address.port)/pusher/auth"), host: .host("127.0.0.1"), port: port,
            useTLS: false)
        let pusher = Pusher(key: "key1", options: options)
        let delegate = RecordingDelegate()
        pusher.delegate = delegate
        let (members, data) = (EventRecorder<String>(), EventRecorder<String>())
        let prices = pusher.subscribe("prices")
        let orders = pusher.subscribe("private-orders")
        let secrets = pusher.subscribe("private-encrypted-secrets")
        let room = pusher.subscribeToPresenceChannel(
            channelName: "presence-room", onMemberAdded: { members.record("+\($0.userId)") },
            onMemberRemoved: { members.record("-\($0.userId)") })
        var ids: [String: String] = [:]
        for channel in [prices, orders, secrets, room] {
            ids[channel.name] = channel.bind(eventName: "tick") { data.record("\($0.channelName ?? "") \($0.data ?? "")") }
        }
        pusher.connect()
        try await eventually { [prices, orders, secrets, room].allSatisfy(\.subscribed) }
        expect(room.members.map(\.userId) == ["anna"] && room.me()?.userId == "anna")

        // Pusher's HTTP library publishes.
        for name in ["prices", "private-orders", "private-encrypted-secrets", "presence-room"] {
            try await rest.perform(["do": "trigger", "channel": .string(name), "event": "tick", "data": ["value": 12.5]])
            try await eventually { data.all.last == #"\#(name) {"value":12.5}"# }
        }

        // pusher-js joins, and both send.
        try await browser.perform(["do": "subscribe", "channel": "presence-room"])
        try await eventually { members.all == ["+bert"] }
        expectEqual((room.findMember(userId: "bert")?.userInfo as? [String: AnyObject])?["name"] as? String, "Bert")
        room.bind(eventName: "client-typing") { data.record("typing \($0.data ?? "")") }
        try await browser.perform(["do": "trigger", "channel": "presence-room", "name": "client-typing", "data": ["on": true]])
        try await eventually { data.all.last == #"typing {"on":true}"# }
        room.trigger(eventName: "client-answer", data: ["seen": true])
        let message = try await browser.line { $0["event"]?.string == "message" && $0["name"]?.string == "client-answer" }
        expectEqual(message["data"]?["seen"]?.bool, true)
        try await browser.perform(["do": "unsubscribe", "channel": "presence-room"])
        try await eventually { members.all == ["+bert", "-bert"] && room.members.count == 1 }

        // Unbound handlers aren't called.
        prices.unbind(eventName: "tick", callbackId: ids["prices"] ?? "")
        pusher.unsubscribe("private-orders")
        let count = data.all.count
        for name in ["prices", "private-orders", "presence-room"] {
            try await rest.perform(["do": "trigger", "channel": .string(name), "event": "tick", "data": "last"])
        }
        try await eventually { data.all.last == "presence-room last" }
        expectEqual(data.all.count, count + 1)

        pusher.disconnect()
        try await eventually { delegate.states.last == "state disconnecting → disconnected" }
        await listener.stop()
    }

    @Test func `the client connects and subscribes again after a restart of sockudo`() async throws {
        let first = try Peer("sockudo")
        let port = try #require(try await first.ready()["port"]?.int)
        let options = PusherClientOptions(
            authMethod: .inline(secret: "secret1"), host: .host("127.0.0.1"), port: port, useTLS: false)
        options.reconnectDelay = 0.1
        let pusher = Pusher(key: "key1", options: options)
        let delegate = RecordingDelegate()
        pusher.delegate = delegate
        let orders = pusher.subscribe("private-orders")
        pusher.connect()
        try await eventually { orders.subscribed }
        try await first.stopped()
        try await eventually { delegate.states.contains("state disconnected → reconnecting") }
        let second = try Peer("sockudo", ["--port", "\(port)"])
        _ = try await second.ready()
        try await eventually { orders.subscribed && pusher.connection.connectionState == .connected }
        // The delegate is called after the channel has changed.
        try await eventually { delegate.calls.all.filter { $0 == "subscribed private-orders" }.count == 2 }
        pusher.disconnect()
    }
}
