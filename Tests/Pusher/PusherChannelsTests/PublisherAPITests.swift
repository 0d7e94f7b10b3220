import PusherTestSupport
import PusherChannels
import PusherServer
import PusherTesting
import PusherWire
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// The client of the HTTP API, against the server and against other servers' responses.
@Suite struct PublisherAPITests {
    /// A server with two clients: one on `prices`, and both on `presence-room`.
    private func occupied() async throws -> (InMemoryPusher, clients: [PusherClient]) {
        let pusher = try await InMemoryPusher()
        let (anna, bert) = (pusher.client(userID: "anna"), pusher.client(userID: "bert"))
        for client in [anna, bert] {
            client.connect()
            try client.subscribe("presence-room")
        }
        try anna.subscribe("prices")
        return (pusher, [anna, bert])
    }

    /// Returns a publisher for a server that responds to all requests with the same body.
    private func publisher(_ body: String, status: Int = 200) async throws -> PusherPublisher {
        let pusher = try await InMemoryPusher()
        let handler = ApplicationServer { _, _ in HTTPResponse(status: status, text: body) }
        return pusher.publisher(at: try await pusher.network.listener(host: "other").start(handler))
    }

    // MARK: Publishing

    @Test func `trigger publishes an event and returns attributes of the channels`() async throws {
        let (pusher, clients) = try await self.occupied()
        let events = try clients[0].subscribe("prices").events()
        let publisher = pusher.publisher()
        let info = try await publisher.trigger(
            "a", on: ["prices", "presence-room", "empty"], data: 1, info: [.userCount, .subscriptionCount])
        expectEqual(
            info,
            [
                "prices": PusherChannelInfo(subscriptionCount: 1), "presence-room": PusherChannelInfo(userCount: 2),
                "empty": PusherChannelInfo(subscriptionCount: 0),
            ])
        try await expectEqual(publisher.trigger("b", on: "presence-room", data: "x", info: [.userCount]).userCount, 2)
        try await expectEqual(publisher.trigger("c", on: ["prices"], data: "x", except: clients[0].socketID), [:])
        await expectEqual(events.pending().map(\.name), ["a"])
    }

    @Test func `a batch is published in order and returns the attributes of each event`() async throws {
        let (pusher, clients) = try await self.occupied()
        let events = try clients[0].subscribe("prices").events()
        let publisher = pusher.publisher()
        let infos = try await publisher.triggerBatch([
            PusherBatchEvent("a", on: "prices", data: ["value": 1], info: [.subscriptionCount]),
            PusherBatchEvent("b", on: "prices", data: "text"),
            PusherBatchEvent("c", on: "prices", data: 3, except: clients[0].socketID),
            PusherBatchEvent("d", on: "presence-room", data: 4, info: [.userCount]),
        ])
        expectEqual(
            infos, [PusherChannelInfo(subscriptionCount: 1), PusherChannelInfo(), PusherChannelInfo(), PusherChannelInfo(userCount: 2)])
        await expectEqual(events.pending().map(\.data), [#"{"value":1}"#, "text"])
        try await expectEqual(publisher.triggerBatch([PusherBatchEvent("a", on: "prices", data: 1)]), [PusherChannelInfo()])
    }

    @Test func `an invalid batch is not sent`() async throws {
        let publisher = try await InMemoryPusher().publisher()
        func code(_ events: [PusherBatchEvent]) async -> PusherError.Code? {
            await #expect(throws: PusherError.self) { try await publisher.triggerBatch(events) }?.code
        }
        let event = try PusherBatchEvent("a", on: "prices", data: 1)
        await expectEqual(code([]), .invalidBatch)
        await expectEqual(code(Array(repeating: event, count: 11)), .invalidBatch)
        await expectEqual(code([event, try PusherBatchEvent("a", on: "with space", data: 1)]), .invalidChannelName)
        await expectEqual(code([event, try PusherBatchEvent("", on: "prices", data: 1)]), .invalidEventName)
        let large = String(repeating: "a", count: 10_241)
        await expectEqual(code([event, try PusherBatchEvent("a", on: "prices", data: large)]), .dataTooLarge)
        let error = #expect(throws: PusherError.self) { try PusherBatchEvent("a", on: "prices", data: [Double.infinity]) }
        expectEqual(error?.code, .encodingFailed)
    }

    @Test func `an event for a user is published on the user's channel`() async throws {
        let pusher = try await InMemoryPusher()
        let events = pusher.server.events
        try await pusher.publisher().sendToUser("anna@example.org", "a", data: 1)
        await expectEqual(events.pending(), [.published(channel: "#server-to-user-anna@example.org", name: "a", subscribers: 0)])
    }

    @Test(arguments: ["", "a b", "a/b", "ü", "a?b", "a+b", String(repeating: "x", count: 129)])
    func `an invalid user ID is not sent`(id: String) async throws {
        let publisher = try await InMemoryPusher().publisher()
        let sending = await #expect(throws: PusherError.self) { try await publisher.sendToUser(id, "a", data: 1) }
        let terminating = await #expect(throws: PusherError.self) { try await publisher.terminateConnections(ofUser: id) }
        let signing = #expect(throws: PusherError.self) { try publisher.authenticateUser(socketID: "1.2", user: PusherMember(id: id)) }
        expectEqual([sending?.code, terminating?.code, signing?.code], [.invalidUser, .invalidUser, .invalidUser])
    }

    // MARK: Queries

    @Test func `channels lists the occupied channels with a prefix`() async throws {
        let (pusher, clients) = try await self.occupied()
        let publisher = pusher.publisher()
        try await expectEqual(publisher.channels(), ["prices": PusherChannelInfo(), "presence-room": PusherChannelInfo()])
        try await expectEqual(publisher.channels(prefix: "pri"), ["prices": PusherChannelInfo()])
        try await expectEqual(
            publisher.channels(prefix: "presence-", info: [.userCount]), ["presence-room": PusherChannelInfo(userCount: 2)])
        try await expectEqual(publisher.channels(prefix: "&=% "), [:])
        for client in clients { client.disconnect() }
        try await expectEqual(publisher.channels(), [:])
        let error = await #expect(throws: PusherError.self) { try await publisher.channels(info: [.userCount]) }
        expect(error?.code == .rejected && error?.status == 400 && error?.message.contains("filter_by_prefix") == true)
    }

    @Test func `channel returns whether a channel is occupied, and its attributes`() async throws {
        let (pusher, clients) = try await self.occupied()
        let publisher = pusher.publisher()
        try await expectEqual(publisher.channel("empty"), PusherChannelInfo(isOccupied: false))
        try await expectEqual(
            publisher.channel("prices", info: [.subscriptionCount]), PusherChannelInfo(isOccupied: true, subscriptionCount: 1))
        try await expectEqual(publisher.channel("presence-room", info: [.userCount]), PusherChannelInfo(isOccupied: true, userCount: 2))
        clients[1].disconnect()
        try await expectEqual(publisher.channel("presence-room", info: [.userCount]).userCount, 1)
        // A name with characters that are percent-encoded in a path.
        try clients[0].subscribe("a;b,c=d@e")
        try await expectEqual(publisher.channel("a;b,c=d@e").isOccupied, true)
        let error = await #expect(throws: PusherError.self) { try await publisher.channel("a b") }
        expectEqual(error?.code, .invalidChannelName)
    }

    @Test func `users lists the members of a presence channel once each`() async throws {
        let (pusher, clients) = try await self.occupied()
        let again = pusher.client(userID: "anna")
        again.connect()
        try again.subscribe("presence-room")
        let publisher = pusher.publisher()
        try await expectEqual(publisher.users(of: "presence-room").map(\.id), ["anna", "bert"])
        try await expect(publisher.users(of: "presence-empty").isEmpty)
        clients[1].disconnect()
        try await expectEqual(publisher.users(of: "presence-room").map(\.id), ["anna"])
        let error = await #expect(throws: PusherError.self) { try await publisher.users(of: "prices") }
        expectEqual(error?.code, .invalidChannelName)
    }

    @Test func `the connections of a user are terminated, and others stay`() async throws {
        let pusher = try await InMemoryPusher()
        let publisher = pusher.publisher()
        let anna = try self.signedIn("anna", pusher)
        let bert = try self.signedIn("bert", pusher)
        expectEqual(pusher.server.socketIDs(ofUser: "anna").count, 1)
        try await publisher.sendToUser("anna", "hello", data: 1)
        try await publisher.terminateConnections(ofUser: "anna")
        expect(pusher.server.socketIDs(ofUser: "anna").isEmpty && pusher.server.socketIDs(ofUser: "bert").count == 1)
        try await publisher.terminateConnections(ofUser: "anna")
        expectEqual(anna.endings.all, [.peer(CloseCode(rawValue: 4009), "The app ended the connections of the user.")])
        expect(bert.endings.all.isEmpty)
    }

    /// Returns a client that has signed in.
    private func signedIn(_ user: String, _ pusher: InMemoryPusher) throws -> RawClient {
        let others = Set(pusher.server.socketIDs)
        let client = RawClient(pusher)
        let socketID = try #require(pusher.server.socketIDs.first { !others.contains($0) })
        let signed = try pusher.publisher().authenticateUser(socketID: socketID, user: PusherMember(id: user))
        let data: JSONObject = ["auth": .string(signed.auth), "user_data": .string(signed.userData)]
        client.send(.text(JSONValue.object(["event": "pusher:signin", "data": .object(data)]).description))
        return client
    }

    @Test func `the cached event of a channel is returned with its remaining lifetime`() async throws {
        let pusher = try await InMemoryPusher { $0.cachedEventLifetime = .seconds(60) }
        let publisher = pusher.publisher()
        try await expectEqual(publisher.channel("cache-prices", info: [.cache]), PusherChannelInfo(isOccupied: false))
        try await publisher.publish("price", to: "cache-prices", data: ["value": 1])
        pusher.clock.advance(by: .milliseconds(10_500))
        let cached = PusherChannelInfo.CachedEvent(data: #"{"value":1}"#, ttl: 49)
        try await expectEqual(publisher.channel("cache-prices", info: [.cache]).cache, cached)
        pusher.clock.advance(by: .seconds(60))
        try await expectNil(publisher.channel("cache-prices", info: [.cache]).cache)
        let error = await #expect(throws: PusherError.self) { try await publisher.channel("prices", info: [.cache]) }
        expectEqual(error?.status, 400)
    }

    // MARK: Responses

    @Test func `responses of other servers are understood`() async throws {
        let empty = try await self.publisher(#"{"channels":[],"batch":[[],{}],"users":[{"id":7},{"id":"8","user_info":{}}]}"#)
        try await expectEqual(empty.channels(), [:])
        try await expectEqual(empty.users(of: "presence-a").map(\.id), ["7", "8"])
        let event = try PusherBatchEvent("a", on: "b", data: 1, info: [.userCount])
        try await expectEqual(empty.triggerBatch([event, event]), [PusherChannelInfo(), PusherChannelInfo()])
        let cached = try await self.publisher(#"{"occupied":true,"cache":{"data":"x","ttl":60},"more":1}"#)
        try await expectEqual(cached.channel("cache-a", info: [.cache]).cache, PusherChannelInfo.CachedEvent(data: "x", ttl: 60))
        let missing = try await self.publisher(#"{"occupied":false,"cache":null}"#)
        try await expectEqual(missing.channel("cache-a", info: [.cache]), PusherChannelInfo(isOccupied: false))
        // Without attributes, the body of the response has no meaning.
        try await expectEqual(self.publisher("ok").trigger("a", on: ["b"], data: 1), [:])
    }

    @Test(arguments: ["", "nonsense", "[]", "{}", #"{"channels":5,"users":5,"occupied":1,"batch":[]}"#])
    func `an invalid response is an error with the name of the call`(body: String) async throws {
        let publisher = try await self.publisher(body)
        func error(_ call: () async throws -> Void) async -> PusherError? { await #expect(throws: PusherError.self) { try await call() } }
        let event = try PusherBatchEvent("a", on: "b", data: 1, info: [.userCount])
        let errors = [
            await error { _ = try await publisher.channels() }, await error { _ = try await publisher.users(of: "presence-a") },
            await error { _ = try await publisher.triggerBatch([event]) },
            await error { _ = try await publisher.trigger("a", on: ["b"], data: 1, info: [.userCount]) },
        ]
        let names = ["channels(prefix:info:)", "users(of:)", "triggerBatch(_:)", "trigger(_:on:data:except:info:tags:)"]
        for (error, name) in zip(errors, names) {
            expect(error?.code == .failed && error?.status == 200 && error?.message.contains(name) == true, "\(name)")
        }
    }

    @Test func `a rejected query is an error with the status and the explanation`() async throws {
        let publisher = try await self.publisher("No such app", status: 404)
        let error = await #expect(throws: PusherError.self) { try await publisher.channels() }
        expect(
            error?.code == .rejected && error?.status == 404 && error?.message.contains("the request with status 404: No such app.") == true
        )
    }

    @Test func `a page in place of the response to an event is an error`() async throws {
        let publisher = try await self.publisher("\n<!DOCTYPE html><title>Sign in</title>")
        let event = try PusherBatchEvent("a", on: "b", data: 1)
        let calls: [() async throws -> Void] = [
            { try await publisher.publish("a", to: "b", data: 1) }, { try await publisher.triggerBatch([event]) },
            { try await publisher.sendToUser("anna", "a", data: 1) }, { try await publisher.terminateConnections(ofUser: "anna") },
        ]
        for call in calls {
            let error = await #expect(throws: PusherError.self) { try await call() }
            expect(error?.code == .failed && error?.message.contains("it is a page of HTML") == true, "\(String(describing: error))")
        }
    }

    @Test(arguments: [
        #"{"users":{"0":{"id":1},"2":{"id":"3"}}}"#, #"{"users":[{"id":1},{"id":"3"}]}"#,
        "\u{FEFF}" + #"{"users":[{"id":"1"},{"id":3}]}"#,
    ])
    func `the users of a channel are understood in the forms of several servers`(body: String) async throws {
        try await expectEqual(self.publisher(body).users(of: "presence-a").map(\.id), ["1", "3"])
    }

    @Test(arguments: [("18446744073709551616", "18446744073709551616"), ("-7", "-7"), (#""anna""#, "anna"), ("null", nil), ("true", nil)])
    func `a user is decoded with the text of an ID that is a number`(id: String, text: String?) throws {
        let json = #"{"id":\#(id)}"#
        let user = try? JSONValueDecoder().decode(PusherChannelUser.self, from: try JSONValue(parsing: json))
        expectEqual(user, text.map { PusherChannelUser(id: $0) })
        expectEqual(user, try? JSONValueDecoder().decode(PusherChannelUser.self, from: Array(json.utf8)))
    }

    @Test func `an ID of more than 64 bits keeps its digits`() async throws {
        let id = "123456789012345678901234567890"
        try await expectEqual(self.publisher(#"{"users":[{"id":\#(id)}]}"#).users(of: "presence-a").map(\.id), [id])
    }

    @Test func `Reverb's answer for a channel without subscribers is an empty list, and another one is an error`() async throws {
        try await expectEqual(self.publisher("{}", status: 404).users(of: "presence-a"), [])
        let error = await #expect(throws: PusherError.self) { try await self.publisher("No app", status: 404).users(of: "presence-a") }
        expectEqual(error?.status, 404)
    }

    @Test(arguments: [
        (
            #"{"name":["The name field is required."],"data":["The data must be a string."]}"#,
            "The name field is required. The data must be a string."
        ),
        (#"{"message":"The name field is required.","errors":{"name":["…"]}}"#, "422: The name field is required."),
    ])
    func `the reasons of an invalid request are in the error`(body: String, reason: String) async throws {
        let publisher = try await self.publisher(body, status: 422)
        let error = await #expect(throws: PusherError.self) { try await publisher.publish("a", to: "b", data: 1) }
        expectEqual(error?.message.contains(reason), true, "\(error?.message ?? "")")
    }

    // MARK: Signing

    @Test func `a user is signed in as in the documentation of the service`() throws {
        // The example of the service's documentation.
        let publisher = PusherPublisher(appID: "1", key: "278d425bdf160c739803", secret: "7ad3773142a6692b25b8", cluster: "eu")
        let signed = try publisher.authenticateUser(socketID: "1234.1234", user: PusherMember(id: "12345"))
        let signature = "4708d583dada6a56435fb8bc611c77c359a31eebde13337c16ab43aa6de336ba"
        expectEqual(signed, PusherUserAuthentication(auth: "278d425bdf160c739803:\(signature)", userData: #"{"id":"12345"}"#))
        let json = try JSONValueEncoder().encodeToString(signed)
        expectEqual(json, #"{"auth":"278d425bdf160c739803:\#(signature)","user_data":"{\"id\":\"12345\"}"}"#)
        try expectEqual(JSONValueDecoder().decode(PusherUserAuthentication.self, from: json), signed)
        let full = try publisher.authenticateUser(
            socketID: "1.2", user: PusherMember(id: "7", info: ["name": "Anna"]), watchlist: ["8", "9"])
        expectEqual(full.userData, #"{"id":"7","user_info":{"name":"Anna"},"watchlist":["8","9"]}"#)
        let error = #expect(throws: PusherError.self) { try publisher.authenticateUser(socketID: "1.2::user", user: PusherMember(id: "7")) }
        expectEqual(error?.code, .invalidSocketID)
    }
}
