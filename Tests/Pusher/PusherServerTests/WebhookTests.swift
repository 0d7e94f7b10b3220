import PusherTestSupport
import PusherChannels
import PusherServer
import PusherTesting
import PusherWire
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// Webhooks as an application server receives them.
@Suite struct WebhookTests {
    // The example of the service's documentation.
    private static let body = #"{"time_ms":1327078148132,"events":[{"name":"channel_occupied","channel":"my-channel"}]}"#
    private static let signature = "782d37aad92ac9df7f27feb978ce87fade207d779356780471e558abb1c4936f"

    private let publisher = PusherPublisher(appID: "1", key: "key", secret: "secret", cluster: "eu")

    private func webhook(_ body: String) throws -> PusherWebhook {
        try self.publisher.webhook(
            key: "key", signature: WebhookSignature.hex(of: Array(body.utf8), secret: "secret"), body: Array(body.utf8))
    }

    @Test func `the webhook in the documentation is verified and parsed`() throws {
        let webhook = try self.publisher.webhook(key: "key", signature: Self.signature, body: Self.body.utf8)
        expectEqual(
            webhook, PusherWebhook(key: "key", unixMilliseconds: 1_327_078_148_132, events: [.channelOccupied(channel: "my-channel")]))
    }

    @Test(
        arguments: [
            (nil, Self.signature, Self.body, "X-Pusher-Key"), ("other", Self.signature, Self.body, "not one of those accepted"),
            ("key", nil, Self.body, "X-Pusher-Signature"), ("key", "", Self.body, "wrong"),
            ("key", "882d" + Self.signature.dropFirst(4), Self.body, "wrong"),
            ("key", Self.signature.uppercased(), Self.body, "wrong"), ("key", Self.signature, Self.body + " ", "wrong"),
            ("key", Self.signature, "", "wrong"),
        ] as [(String?, String?, String, String)])
    func `a webhook that the service did not sign is rejected`(key: String?, signature: String?, body: String, reason: String) {
        let error = #expect(throws: PusherError.self) { try self.publisher.webhook(key: key, signature: signature, body: body.utf8) }
        expect(error?.code == .invalidSignature && error?.message.contains(reason) == true)
        expectEqual(error?.message.contains("secret\""), false)
    }

    @Test func `webhooks of several keys are verified with their secrets`() throws {
        let secrets = ["old": "one", "key": "secret", "new": "two"]
        for (key, secret) in secrets {
            let signature = WebhookSignature.hex(of: Array(Self.body.utf8), secret: secret)
            try expectEqual(PusherWebhook(key: key, signature: signature, body: Self.body.utf8, secrets: secrets).key, key)
            let error = #expect(throws: PusherError.self) {
                try PusherWebhook(key: key, signature: Self.signature + "0", body: Self.body.utf8, secrets: secrets)
            }
            expectEqual(error?.code, .invalidSignature)
        }
    }

    @Test func `all kinds of events are parsed, and unknown ones are kept`() throws {
        let events = [
            #"{"name":"channel_occupied","channel":"a"}"#, #"{"name":"channel_vacated","channel":"a"}"#,
            #"{"name":"member_added","channel":"presence-a","user_id":"7"}"#,
            #"{"name":"member_removed","channel":"presence-a","user_id":"7"}"#,
            #"{"name":"client_event","channel":"private-a","event":"client-b","data":"{\"x\":1}","socket_id":"1.2"}"#,
            #"{"name":"client_event","channel":"presence-a","event":"client-b","data":"1","socket_id":"1.2","user_id":"7"}"#,
            #"{"name":"cache_miss","channel":"cache-a"}"#, #"{"name":"subscription_count","channel":"a","subscription_count":3}"#,
            #"{"name":"new_kind","channel":"a","more":[1]}"#, #"{"name":"member_added","channel":"presence-a"}"#, "{}",
        ]
        let webhook = try self.webhook(#"{"time_ms":1,"events":[\#(events.joined(separator: ","))]}"#)
        expectEqual(
            webhook.events.prefix(8),
            [
                .channelOccupied(channel: "a"), .channelVacated(channel: "a"), .memberAdded(channel: "presence-a", userID: "7"),
                .memberRemoved(channel: "presence-a", userID: "7"),
                .clientEvent(channel: "private-a", event: "client-b", data: #"{"x":1}"#, socketID: "1.2", userID: nil),
                .clientEvent(channel: "presence-a", event: "client-b", data: "1", socketID: "1.2", userID: "7"),
                .cacheMiss(channel: "cache-a"), .subscriptionCount(channel: "a", count: 3),
            ])
        expectEqual(
            webhook.events.dropFirst(8),
            [
                .other(["name": "new_kind", "channel": "a", "more": [1]]), .other(["name": "member_added", "channel": "presence-a"]),
                .other([:]),
            ])
        expectEqual(webhook.events.map(\.name).suffix(4), ["subscription_count", "new_kind", "member_added", nil])
        expectEqual(webhook.events.map(\.channel).suffix(4), ["a", "a", "presence-a", nil])
        // What the server sends is what the application server received.
        for (event, text) in zip(webhook.events, events) { expectEqual(JSONValue.object(event.json).description, text) }
        // soketi omits the data of a client event that has none.
        for data in ["", #","data":null"#] {
            let webhook = try self.webhook(
                #"{"time_ms":1,"events":[{"name":"client_event","channel":"private-a","event":"client-b","socket_id":"1.2"\#(data)}]}"#)
            expectEqual(
                webhook.events, [.clientEvent(channel: "private-a", event: "client-b", data: "", socketID: "1.2", userID: nil)])
        }
        // Servers in other languages may have numbers as IDs.
        let number = try self.webhook(#"{"time_ms":1,"events":[{"name":"member_added","channel":"presence-a","user_id":7}]}"#)
        expectEqual(number.events, [.memberAdded(channel: "presence-a", userID: "7")])
    }

    @Test(arguments: [
        "nonsense", "[]", "{}", #"{"events":[]}"#, #"{"time_ms":"1","events":[]}"#, #"{"time_ms":1.5,"events":[]}"#, #"{"time_ms":1}"#,
        #"{"time_ms":1,"events":{}}"#, #"{"time_ms":1,"events":[1]}"#,
    ])
    func `a signed body that is not a webhook is rejected`(body: String) {
        let error = #expect(throws: PusherError.self) { try self.webhook(body) }
        expectEqual(error?.code, .invalidWebhook)
    }
}

/// Webhooks of a server, received by an application server on the same network.
@Suite struct ServerWebhookTests {
    /// A server with webhooks, and the requests that they send.
    private func start(
        status: @escaping @Sendable (Int) -> Int = { _ in 200 }, _ change: (inout PusherServerWebhooks) -> Void = { _ in }
    ) async throws -> (InMemoryPusher, EventRecorder<PusherWebhook>) {
        let received = EventRecorder<PusherWebhook>()
        let application = ApplicationServer { request, body in
            let webhook = try? PusherWebhook(
                key: request.headers["X-Pusher-Key"], signature: request.headers["X-Pusher-Signature"], body: body,
                secrets: ["key": "secret"])
            expect(request.method == "POST" && request.target == "/hook?token=1" && request.headers["Authorization"] == "Bearer x")
            expectEqual(request.headers["Content-Type"], "application/json")
            guard let webhook else { return HTTPResponse(status: 401) }
            received.record(webhook)
            return HTTPResponse(status: status(received.all.count))
        }
        var webhooks = PusherServerWebhooks([Endpoint(scheme: "http", host: "app", port: 80, target: "/hook?token=1")])
        webhooks.headers = ["Authorization": "Bearer x"]
        change(&webhooks)
        let pusher = try await InMemoryPusher(webhooks: webhooks)
        _ = try await pusher.network.listener(host: "app", port: 80).start(application)
        return (pusher, received)
    }

    @Test func `an application server receives what clients do`() async throws {
        let (pusher, received) = try await self.start()
        let (anna, bert) = (pusher.client(userID: "anna"), pusher.client(userID: "bert"))
        for client in [anna, bert] {
            client.connect()
            // The webhooks may occupy the network on another thread, which then handles this later.
            try await client.subscribe("presence-room").subscribed()
        }
        try anna.subscribe("presence-room").trigger("client-typing", ["on": true])
        let socketID = try #require(anna.socketID)
        bert.disconnect()
        try await eventually { received.all.count == 4 }
        expectEqual(
            received.all.flatMap(\.events),
            [
                .channelOccupied(channel: "presence-room"), .memberAdded(channel: "presence-room", userID: "anna"),
                .memberAdded(channel: "presence-room", userID: "bert"),
                .clientEvent(
                    channel: "presence-room", event: "client-typing", data: #"{"on":true}"#, socketID: socketID, userID: "anna"),
            ])
        pusher.clock.advance(by: .seconds(3))
        try await eventually { received.all.count == 5 }
        expectEqual(received.all.last?.events, [.memberRemoved(channel: "presence-room", userID: "bert")])
        let now = WallClock.millisecondsSince1970
        expect(received.all.allSatisfy { ($0.unixMilliseconds - now).magnitude < 3_600_000 })
    }

    @Test func `a request that is rejected is repeated, and the events of a batch stay together`() async throws {
        let (pusher, received) = try await self.start(status: { $0 < 3 ? 500 : 200 }) {
            // The clock runs ahead of the tasks that send.
            ($0.sendsBatches, $0.retryPeriod) = (true, .seconds(1_000_000))
        }
        let client = pusher.client()
        client.connect()
        try client.subscribe("a")
        try client.subscribe("b")
        // The first request has the first event, and the second one those that occurred meanwhile, both of which are rejected.
        try await eventually { received.all.count == 2 }
        try await eventually {
            pusher.clock.advance(by: .seconds(1))
            return received.all.count == 4
        }
        expectEqual(received.all.prefix(2).map(\.events), received.all.suffix(2).map(\.events))
        expectEqual(received.all.prefix(2).flatMap(\.events), [.channelOccupied(channel: "a"), .channelOccupied(channel: "b")])
    }

    @Test func `a connection that ends vacates all of its channels, however many`() async throws {
        let (pusher, received) = try await self.start(status: { _ in 200 }) { $0.sendsBatches = true }
        let count = pusher.server.app.channelLimit
        let client = RawClient(pusher)
        for number in 1...count { client.send(PusherFrames.subscribe("c\(number)")) }
        try await eventually { received.all.reduce(0) { $0 + $1.events.count } == count }
        // Causes one event for each channel and another one, in one step.
        client.close()
        pusher.clock.advance(by: .seconds(3))
        try await eventually { received.all.reduce(0) { $0 + $1.events.count } == 2 * count }
        expectEqual(received.all.last?.events.last?.name, "channel_vacated")
    }

    @Test func `a server without application server works, and logs without secrets`() async throws {
        let logged = EventRecorder<String>()
        let webhooks = PusherServerWebhooks([Endpoint(scheme: "http", host: "nowhere", port: 80, target: "/hook?token=hunter2")])
        let log = LogSink(minimumLevel: .debug) { _, _, message in logged.record(message) }
        let pusher = try await InMemoryPusher(webhooks: webhooks, log: log)
        let client = pusher.client()
        client.connect()
        try await client.subscribe("a").subscribed()
        try await eventually { logged.all.contains { $0.contains("A webhook was not accepted, and is repeated") } }
        expect(!logged.all.contains { $0.contains("hunter2") })
    }

    /// An application server that begins its answers, and continues them whenever the test wants.
    private final class TricklingApplication: ListenerHandler {
        let responders = EventRecorder<any HTTPResponder>()

        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
            responder.begin(HTTPResponseHead(status: 200, headers: ["Content-Length": "1000"]))
            self.responders.record(responder)
        }
    }

    @Test func `a webhook is repeated if the answer arrives a byte now and then`() async throws {
        let logged = EventRecorder<String>()
        var webhooks = PusherServerWebhooks([Endpoint(scheme: "http", host: "app", port: 80, target: "/hook")])
        // The clock runs ahead of the tasks that send.
        webhooks.retryPeriod = .seconds(1_000_000)
        let log = LogSink(minimumLevel: .debug) { _, _, message in logged.record(message) }
        let pusher = try await InMemoryPusher(webhooks: webhooks, log: log)
        let application = TricklingApplication()
        _ = try await pusher.network.listener(host: "app", port: 80).start(application)
        let client = pusher.client()
        client.connect()
        try await client.subscribe("a").subscribed()
        try await eventually { !application.responders.all.isEmpty }
        try await eventually {
            for responder in application.responders.all { responder.write([UInt8(ascii: " ")]) }
            pusher.clock.advance(by: .seconds(3))
            return application.responders.all.count > 1
        }
        expect(logged.all.contains { $0.contains("its answer arrives at less than 1 KiB per second") })
    }

    @Test func `a webhook isn't sent to the URL of a redirect, which the log names`() async throws {
        let logged = EventRecorder<String>()
        let requests = EventRecorder<String>()
        let webhooks = PusherServerWebhooks([Endpoint(scheme: "http", host: "app", port: 80, target: "/hook")])
        let log = LogSink(minimumLevel: .debug) { _, _, message in logged.record(message) }
        let pusher = try await InMemoryPusher(webhooks: webhooks, log: log)
        let application = ApplicationServer { request, _ in
            requests.record("\(request.path)")
            return HTTPResponse(HTTPResponseHead(status: 308, headers: ["Location": "/moved", "Content-Length": "0"]))
        }
        _ = try await pusher.network.listener(host: "app", port: 80).start(application)
        let client = pusher.client()
        client.connect()
        try await client.subscribe("a").subscribed()
        try await eventually { logged.all.contains { $0.contains("It redirects to http://app/moved; use that URL.") } }
        expectEqual(Set(requests.all), ["/hook"])
    }
}
