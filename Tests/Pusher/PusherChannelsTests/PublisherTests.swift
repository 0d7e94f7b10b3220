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

private struct Order: Codable, Equatable {
    var id: Int
    var state: String?
}

/// A server that accepts requests and never responds.
private final class SilentServer: ListenerHandler {
    let requests = EventRecorder<String>()

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) { self.requests.record("\(request.path)") }
    func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .reject(HTTPResponse(status: 404)) }
}

/// A server that answers with a byte whenever the test wants.
private final class TricklingServer: ListenerHandler {
    let responders = EventRecorder<any HTTPResponder>()

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        responder.begin(HTTPResponseHead(status: 200, headers: ["Content-Length": "1000"]))
        self.responders.record(responder)
    }
}

/// Publishing over the HTTP API and in the process of the server.
@Suite struct PublisherTests {
    // MARK: The data of events

    @Test func `strings are sent unchanged and other values as JSON`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let events = try client.subscribe("orders").events()
        let (server, publisher) = (pusher.server, pusher.publisher())
        let (text, order, value) = (#"{"id": 1} "#, Order(id: 7, state: "paid"), ["id": 7, "state": nil] as JSONValue)
        let object: JSONObject = ["b": 1, "a": 2]
        server.publish("a", to: "orders", data: text)
        try server.publish("a", to: "orders", data: order)
        try server.publish("a", to: "orders", data: value)
        try server.publish("a", to: "orders", data: object)
        try server.publish("a", to: "orders", data: JSONValue.string("text"))
        try server.publish("a", to: "orders", data: [1, 2])
        let expected = [text, #"{"id":7,"state":"paid"}"#, #"{"id":7,"state":null}"#, #"{"b":1,"a":2}"#, #""text""#, "[1,2]"]
        await expectEqual(events.pending().map(\.data), expected)

        try await publisher.publish("a", to: "orders", data: text)
        try await publisher.publish("a", to: "orders", data: order)
        try await publisher.publish("a", to: "orders", data: value)
        try await publisher.publish("a", to: "orders", data: object)
        try await publisher.publish("a", to: "orders", data: JSONValue.string("text"))
        try await publisher.publish("a", to: "orders", data: [1, 2])
        await expectEqual(events.pending().map(\.data), expected)
    }

    /// A string is sent unchanged also where the compiler only knows that it is `Encodable`.
    @Test func `a string is sent unchanged from generic code`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let events = try client.subscribe("orders").events()
        func publish(_ data: some Encodable) throws { try pusher.server.publish("a", to: "orders", data: data) }
        try publish("text")
        try publish(1)
        await expectEqual(events.pending().map(\.data), ["text", "1"])
    }

    @Test func `an event is published on several channels, except to one connection`() async throws {
        let pusher = try await InMemoryPusher()
        let (anna, bert) = (pusher.client(), pusher.client())
        for client in [anna, bert] {
            client.connect()
            for name in ["one", "two"] { try client.subscribe(name) }
        }
        let (annas, berts) = (anna.events("a", as: Order.self), bert.events("a", as: Order.self))
        try pusher.server.publish("a", to: ["one", "two"], data: Order(id: 1), except: anna.socketID)
        pusher.server.publish("a", to: ["one", "two"], data: #"{"id":2}"#, except: bert.socketID)
        try await pusher.publisher().publish("a", to: ["one", "two"], data: Order(id: 3), except: anna.socketID)
        anna.disconnect()
        bert.disconnect()
        var ids: [[Int]] = []
        for events in [annas, berts] {
            ids.append([])
            for await order in events { ids[ids.count - 1].append(order.id) }
        }
        expectEqual(ids, [[2, 2], [1, 1, 3, 3]])
    }

    @Test func `data that cannot be encoded is not sent`() async throws {
        let pusher = try await InMemoryPusher()
        let events = pusher.server.events
        let error = try await #require(throws: PusherError.self) {
            try await pusher.publisher().publish("a", to: "one", data: [Double.infinity])
        }
        expect(error.code == .encodingFailed && error.cause is EncodingError && error.message.contains("a as JSON"))
        #expect(throws: EncodingError.self) { try pusher.server.publish("a", to: "one", data: [Double.infinity]) }
        let large = String(repeating: "a", count: 10_240)
        let tooLarge = try await #require(throws: PusherError.self) {
            try await pusher.publisher().publish("a", to: "one", data: [large])
        }
        expectEqual(tooLarge.code, .dataTooLarge)
        await expect(events.pending().isEmpty)
        try await pusher.publisher().publish("a", to: "one", data: large)
        await expectEqual(events.pending(), [.published(channel: "one", name: "a", subscribers: 0)])
    }

    @Test func `the error of a cancelled publication says that the event may have been accepted`() async throws {
        let pusher = try await InMemoryPusher()
        let silent = SilentServer()
        let publisher = pusher.publisher(at: try await pusher.network.listener().start(silent))
        let publishing = Task { try await publisher.publish("a", to: "one", data: 1) }
        while silent.requests.all.isEmpty { await Task.yield() }
        publishing.cancel()
        let error = try await #require(throws: PusherError.self) { try await publishing.value }
        expect(error.code == .cancelled && error.message.contains("may have accepted the event"))
    }

    @Test func `a publication fails if the answer arrives a byte now and then`() async throws {
        let pusher = try await InMemoryPusher()
        let trickling = TricklingServer()
        let publisher = pusher.publisher(at: try await pusher.network.listener().start(trickling))
        let errors = EventRecorder<PusherError?>()
        Task {
            do throws(PusherError) {
                try await publisher.publish("a", to: "one", data: 1)
                errors.record(nil)
            } catch {
                errors.record(error)
            }
        }
        try await eventually {
            for responder in trickling.responders.all { responder.write([UInt8(ascii: " ")]) }
            pusher.clock.advance(by: .seconds(5))
            return !errors.all.isEmpty
        }
        let error = errors.all[0]
        expectEqual((error?.cause as? TransportError)?.code, .timedOut)
        expect(error?.message.contains("its answer arrives at less than 1 KiB per second") == true, "\(error?.message ?? "")")
    }

    // MARK: Authorizing

    @Test func `an authorization of a publisher is accepted by the server`() async throws {
        let pusher = try await InMemoryPusher()
        let publisher = pusher.publisher()
        let client = pusher.client {
            $0.authorizer = .callback { request in
                let user = PusherMember(id: "7", info: ["name": "Anna"])
                return try publisher.authorize(socketID: request.socketID, channel: request.channel, user: user)
            }
        }
        client.connect()
        let (orders, room) = (try client.subscribe("private-orders"), try client.subscribe("presence-room"))
        try await orders.subscribed()
        try await room.subscribed()
        expectEqual(room.members.me, PusherMember(id: "7", info: ["name": "Anna"]))
    }

    @Test func `an authorization is encoded as the JSON that clients expect`() async throws {
        let pusher = try await InMemoryPusher()
        let publisher = pusher.publisher()
        let application = ApplicationServer { _, body in
            let fields = String(decoding: body, as: UTF8.self).split(separator: "&").map { $0.split(separator: "=").map(String.init) }
            func value(_ name: String) -> String { fields.first { $0[0] == name }?[1] ?? "" }
            let user = PusherMember(id: "7")
            guard
                let authorization = try? publisher.authorize(
                    socketID: value("socket_id"), channel: value("channel_name"), user: user),
                let text = try? JSONValueEncoder().encodeToString(authorization)
            else { return HTTPResponse(status: 403) }
            return HTTPResponse(status: 200, text: text)
        }
        let address = try await pusher.network.listener().start(application)
        let client = pusher.client {
            $0.authorizer = .endpoint(
                PusherAuthorizationEndpoint(Endpoint(scheme: "http", host: address.host, port: address.port, target: "/auth")))
        }
        client.connect()
        let room = try client.subscribe("presence-room")
        try await room.subscribed()
        expectEqual(room.members.map(\.id), ["7"])

        // The example of the service's documentation.
        let example = PusherPublisher(appID: "1", key: "278d425bdf160c739803", secret: "7ad3773142a6692b25b8", cluster: "eu")
        let authorization = try example.authorize(socketID: "1234.1234", channel: "private-foobar")
        let signature = "58df8b0c36d6982b82c3ecf6b4662e34fe8c25bba48f5369f135bf843651c3a4"
        try expectEqual(JSONValueEncoder().encodeToString(authorization), #"{"auth":"278d425bdf160c739803:\#(signature)"}"#)
        let full = PusherChannelAuthorization(auth: "a", channelData: "b", sharedSecret: "c")
        try expectEqual(JSONValueEncoder().encodeToString(full), #"{"auth":"a","channel_data":"b","shared_secret":"c"}"#)
        try expectEqual(JSONValueDecoder().decode(PusherChannelAuthorization.self, from: JSONValueEncoder().encode(full)), full)
    }

    @Test func `a user is only signed for presence channels`() async throws {
        let publisher = try await InMemoryPusher().publisher()
        let user = PusherMember(id: "7")
        try expectNil(publisher.authorize(socketID: "1.2", channel: "private-a", user: user).channelData)
        try expectEqual(publisher.authorize(socketID: "1.2", channel: "presence-a", user: user).channelData, #"{"user_id":"7"}"#)
    }

    @Test(
        arguments: [
            ("", "private-a", .invalidSocketID), ("1", "private-a", .invalidSocketID), ("1.", "private-a", .invalidSocketID),
            (".2", "private-a", .invalidSocketID), ("1.2.3", "private-a", .invalidSocketID),
            ("1.2:private-b", "private-a", .invalidSocketID),
            ("1.2\n", "private-a", .invalidSocketID), ("١.٢", "private-a", .invalidSocketID), ("-1.2", "private-a", .invalidSocketID),
            ("1.2", "", .invalidChannelName), ("1.2", "prices", .invalidChannelName), ("1.2", "private-a:b", .invalidChannelName),
            ("1.2", "private-encrypted-a", .invalidConfiguration), ("1.2", "presence-a", .invalidUser),
        ] as [(String, String, PusherError.Code)])
    func `what a client must not have signed is rejected`(socketID: String, channel: String, code: PusherError.Code) async throws {
        let publisher = try await InMemoryPusher { $0.encryptionMasterKey = nil }.publisher()
        let error = try #require(throws: PusherError.self) { try publisher.authorize(socketID: socketID, channel: channel) }
        expectEqual(error.code, code)
        let user = PusherMember(id: "")
        #expect(throws: PusherError.self) { try publisher.authorize(socketID: socketID, channel: channel, user: user) }
    }

    // MARK: Requests

    @Test(arguments: ["/behind", "/behind/", "/a/proxy?x=1"])
    func `the path of the endpoint precedes that of the request, and is not signed`(target: String) async throws {
        let (pusher, targets) = (try await InMemoryPusher(), EventRecorder<String>())
        let handler = ApplicationServer { request, body in
            targets.record(request.target)
            guard let start = request.target.firstRange(of: "/apps/")?.lowerBound else { return HTTPResponse(status: 404) }
            let error = RequestSignature.validationError(
                method: "POST", target: String(request.target[start...]), body: body, key: "key", secret: "secret",
                unixTime: WallClock.secondsSince1970)
            return error.map { HTTPResponse(status: 401, text: $0) } ?? HTTPResponse(status: 200)
        }
        let address = try await pusher.network.listener(host: "proxy").start(handler)
        let endpoint = Endpoint(scheme: "http", host: "proxy", port: address.port, target: target)
        let publisher = PusherPublisher(
            appID: "1", key: "key", secret: "secret", endpoint: endpoint, http: pusher.network.transports().http)
        try await publisher.publish("price", to: "prices", data: 1)
        let prefix = target.prefix { $0 != "?" }.hasPrefix("/a") ? "/a/proxy" : "/behind"
        expect(targets.all.count == 1 && targets.all.first?.hasPrefix("\(prefix)/apps/1/events?") == true)
    }

    @Test(arguments: [
        (#"{"error":"Unknown app"}"#, "401: Unknown app. Check"), (#"{"message":"No!"}"#, "401: No! Check"),
        (#"{"token":"abc"}"#, "401. Check"), ("Wrong secret", "401: Wrong secret. Check"),
    ])
    func `the error of a rejected request contains the server's explanation`(body: String, text: String) async throws {
        let pusher = try await InMemoryPusher()
        let handler = ApplicationServer { _, _ in HTTPResponse(status: 401, text: body) }
        let address = try await pusher.network.listener(host: "other").start(handler)
        let error = await #expect(throws: PusherError.self) { try await pusher.publisher(at: address).publish("a", to: "b", data: 1) }
        expectEqual(error?.message.contains(text), true, "\(error?.message ?? "")")
    }

    @Test func `a publisher doesn't follow redirects, and names the server to use`() async throws {
        let pusher = try await InMemoryPusher()
        let requests = EventRecorder<String>()
        let handler = ApplicationServer { request, _ in
            requests.record("\(request.path)")
            return HTTPResponse(
                HTTPResponseHead(status: 307, headers: ["Location": "http://moved.example/apps?x=y", "Content-Length": "0"]))
        }
        let address = try await pusher.network.listener(host: "other").start(handler)
        let error = await #expect(throws: PusherError.self) { try await pusher.publisher(at: address).publish("a", to: "b", data: 1) }
        expect(error?.code == .rejected && error?.status == 307)
        expectEqual(error?.message.contains("It redirects to http://moved.example/apps; use that server."), true, "\(error?.message ?? "")")
        expectEqual(requests.all.count, 1)
    }
}
