import PusherTestSupport
import PusherServer
import PusherTesting
import RealtimeCore
import RealtimeEncoding
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherChannels

@Suite struct EchoTests {
    // MARK: Names

    private func echo(_ namespace: String?) -> PusherEcho { PusherEcho(PusherClient(key: "key", host: "host"), namespace: namespace) }

    @Test(arguments: [
        ("OrderShipped", #"App\Events\OrderShipped"#), ("Orders.Shipped", #"App\Events\Orders\Shipped"#),
        (".order.shipped", "order.shipped"),
        (#"\App\Models\Order"#, #"App\Models\Order"#), ("..a", ".a"), ("", #"App\Events\"#),
    ])
    func `the name of an event is that of its class unless it is complete`(event: String, name: String) {
        expectEqual(self.echo("App.Events").eventName(event), name)
    }

    @Test(arguments: [nil, ""])
    func `without a namespace only dots are replaced`(namespace: String?) {
        let echo = self.echo(namespace)
        expect(echo.eventName("a.b") == #"a\b"# && echo.eventName(".a.b") == "a.b")
        expectEqual(echo.shortName(of: "a"), ".a")
    }

    @Test(arguments: [
        (#"App\Events\OrderShipped"#, "OrderShipped"), ("order.shipped", ".order.shipped"), (#"App\EventsOther"#, #".App\EventsOther"#),
    ])
    func `the short name of an event finds the event again`(name: String, short: String) {
        let echo = self.echo("App.Events")
        expect(echo.shortName(of: name) == short && echo.eventName(short) == name)
    }

    // MARK: Channels

    @Test func `channels have the prefixes of their kinds and are left together`() async throws {
        let pusher = try await InMemoryPusher()
        let echo = PusherEcho(pusher.client())
        try echo.channel("a")
        try echo.private("a")
        try echo.encryptedPrivate("a")
        try echo.presence("a")
        try echo.private("ab")
        expectEqual(Set(echo.client.channelNames), ["a", "private-a", "private-encrypted-a", "presence-a", "private-ab"])
        echo.leave("a")
        expectEqual(echo.client.channelNames, ["private-ab"])
        echo.leaveChannel("private-ab")
        expect(echo.client.channelNames.isEmpty && echo.socketID == nil)
        echo.client.connect()
        expectEqual(echo.socketID, pusher.server.socketIDs.first)
    }

    @Test func `events of the application are received by the names of their classes`() async throws {
        let pusher = try await InMemoryPusher()
        let echo = PusherEcho(pusher.client())
        echo.client.connect()
        let orders = try echo.private("orders")
        let (shipped, literal, decoded) = (
            orders.listen("OrderShipped"), orders.listen(".order.shipped"), orders.listen("OrderShipped", as: Int.self)
        )
        let (all, notifications) = (orders.listenToAll(), orders.notifications())
        let notification = #"Illuminate\Notifications\Events\BroadcastNotificationCreated"#
        for (event, data) in [(#"App\Events\OrderShipped"#, "1"), ("order.shipped", "2"), (notification, "3")] {
            pusher.server.publish(event, to: "private-orders", data: data)
        }
        await expectEqual(shipped.pending().map(\.data), ["1"])
        await expectEqual(literal.pending().map(\.data), ["2"])
        await expectEqual(decoded.pending(), [1])
        await expectEqual(notifications.pending().map(\.data), ["3"])
        await expectEqual(all.pending().map(\.name), ["OrderShipped", ".order.shipped", ".\(notification)"])
    }

    @Test func `the sequence of all events doesn't keep the client`() async throws {
        let pusher = try await InMemoryPusher()
        weak var released: PusherClient?
        let all: EventSequence<PusherEvent>
        do {
            let echo = PusherEcho(pusher.client())
            released = echo.client
            all = try echo.private("orders").listenToAll()
        }
        expectNil(released)
        await expect(all.pending().isEmpty && all.endReason != nil)
    }

    @Test func `whispers reach the other subscribers`() async throws {
        let pusher = try await InMemoryPusher()
        let (anna, bert) = (PusherEcho(pusher.client(userID: "anna")), PusherEcho(pusher.client(userID: "bert")))
        for echo in [anna, bert] { echo.client.connect() }
        let (sending, receiving) = (try anna.presence("room"), try bert.presence("room"))
        let whispers = receiving.listenForWhisper("typing")
        try sending.whisper("typing", ["on": true])
        await expectEqual(whispers.pending().map(\.userID), ["anna"])
        let error = #expect(throws: PusherError.self) { try anna.channel("open").whisper("typing", 1) }
        expectEqual(error?.code, .clientEventsNotAllowed)
    }

    @Test func `a presence channel has the users who are here, who join and who leave`() async throws {
        let pusher = try await InMemoryPusher()
        let (anna, bert) = (PusherEcho(pusher.client(userID: "anna")), PusherEcho(pusher.client(userID: "bert")))
        anna.client.connect()
        let room = try anna.presence("room")
        let (here, joining, leaving) = (room.here, room.joining, room.leaving)
        bert.client.connect()
        try bert.presence("room")
        bert.leave("room")
        await expectEqual(joining.pending().map(\.id), ["bert"])
        await expectEqual(leaving.pending().map(\.id), ["bert"])
        pusher.server.drop(try #require(anna.socketID))
        pusher.clock.advance(by: .seconds(1))
        try await room.channel.subscribed()
        await expectEqual(here.pending().map { $0.map(\.id) }, [["anna"], ["anna"]])
        // Without a subscription, there is no current list.
        anna.client.disconnect()
        await expect(room.here.pending().isEmpty)
    }

    // MARK: Authorization

    @Test func `the routes of the application authorize channels`() async throws {
        let pusher = try await InMemoryPusher()
        let targets = EventRecorder<String>()
        let signed = pusher.signed
        let handler = ApplicationServer { request, body in
            targets.record("\(request.target) \(request.headers["Accept"] ?? "") \(request.headers["X-CSRF-TOKEN"] ?? "")")
            let fields = PercentEncoding.fields(String(decoding: body, as: UTF8.self), plusIsSpace: true) ?? []
            let form = Dictionary(fields.map { ($0.name, $0.value) }) { $1 }
            guard let channel = form["channel_name"], let socketID = form["socket_id"] else { return HTTPResponse(status: 400) }
            let auth = signed(PusherAuthorizationRequest(channel: channel, socketID: socketID)).auth
            return HTTPResponse(status: 200, text: #"{"auth":"\#(auth)"}"#)
        }
        let address = try await pusher.network.listener(host: "app").start(handler)
        var configuration = pusher.configuration()
        configuration.authorizer = nil
        let echo = try PusherEcho(configuration, application: "http://app:\(address.port)/shop") { ["X-CSRF-TOKEN": "1"] }
        echo.client.connect()
        try await echo.private("orders").channel.subscribed()
        expectEqual(targets.all, ["/broadcasting/auth application/json 1"])
    }

    @Test func `an invalid URL of the application is rejected and an authorizer is kept`() async throws {
        let pusher = try await InMemoryPusher()
        #expect(throws: TransportError.self) { try PusherEcho(pusher.configuration(), application: "nonsense") }
        let echo = try PusherEcho(pusher.configuration(), application: "http://app")
        echo.client.connect()
        try expectEqual(echo.private("orders").channel.state, .subscribed)
    }
}
