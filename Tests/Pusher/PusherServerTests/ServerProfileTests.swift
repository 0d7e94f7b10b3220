import PusherTestSupport
import RealtimeCoding
import PusherChannels
@testable import PusherServer
import PusherTesting
import PusherWire
import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

/// The frames that a client receives from a server with a profile, as text.
struct ProfileFrames: Sendable, CustomTestStringConvertible {
    var name: String
    var profile: PusherServerProfile
    /// The members of the frames after the event and the channel.
    var subscribed = #","data":"{}""#
    var cacheMiss: String? = #","data":"{}""#
    var ping: String? = #","data":{}"#
    var pong = #","data":{}"#
    var joined = #"{\"user_id\":\"2\",\"user_info\":{\"n\":1}}"#
    var left = #"{\"user_id\":\"2\"}"#
    var isMemberJSON = false
    var clientEvent = #","data":{"on": true}"#
    var unknownKey = #"{"code":4001,"message":"Application does not exist"}"#
    var rejected: @Sendable (_ socketID: String) -> String
    var closesWithoutCode = false
    /// Whether a connection that is rejected receives nothing, not even a close frame.
    var dropsRejected = false
    /// The code with which a connection over the limit is closed; `nil` if it stays open.
    var connectionLimitCode: Int? = 4004
    var activityTimeout = Duration.seconds(120)

    var testDescription: String { self.name }

    private static let message = "The connection is not authorized to subscribe to private-a: missing or invalid signature"
    private static let shortMessage = "The connection is not authorized: missing or invalid signature"

    static let all: [ProfileFrames] = [
        ProfileFrames(
            name: "Pusher", profile: .pusher, clientEvent: #","data":"{\"on\": true}","user_id":"1""#,
            rejected: { _ in #"{"event":"pusher:error","channel":"private-a","data":{"code":4009,"message":"\#(message)"}}"# }),
        ProfileFrames(
            name: "soketi", profile: .soketi, subscribed: "", cacheMiss: "", ping: nil, clientEvent: #","data":{"on": true},"user_id":"1""#,
            rejected: { _ in
                #"{"event":"pusher:subscription_error","channel":"private-a","data":{"type":"AuthError","error":"\#(message)","status":401}}"#
            }, connectionLimitCode: 4100, activityTimeout: .seconds(30)),
        ProfileFrames(
            name: "Reverb", profile: .reverb, cacheMiss: "", ping: "", pong: "", clientEvent: #","data":{"on": true},"user_id":"1""#,
            unknownKey: #""{\"code\":4001,\"message\":\"Application does not exist\"}""#,
            rejected: { _ in #"{"event":"pusher:error","data":"{\"code\":4009,\"message\":\"\#(shortMessage)\"}"}"# },
            closesWithoutCode: true, connectionLimitCode: nil, activityTimeout: .seconds(30)),
        ProfileFrames(
            name: "slanger", profile: .slanger, cacheMiss: nil, ping: nil, pong: #","data":"{}""#, isMemberJSON: true,
            unknownKey: #""{\"code\":4001,\"message\":\"Application does not exist\"}""#,
            rejected: {
                #"{"event":"pusher:error","data":"{\"message\":\"Invalid signature: Expected HMAC SHA256 hex digest of \#($0):private-a, but got key:x\"}"}"#
            }, closesWithoutCode: true),
        ProfileFrames(
            name: "sockudo", profile: .sockudo, ping: "", pong: "",
            rejected: { _ in #"{"event":"pusher:error","data":{"code":4009,"message":"\#(shortMessage)"}}"# }, dropsRejected: true,
            connectionLimitCode: nil),
    ]
}

@Suite struct ServerProfileTests {
    private func server(_ count: Int, _ profile: PusherServerProfile, _ change: (inout PusherApp) -> Void = { _ in }) -> ServerUnderTest {
        var server = ServerUnderTest {
            $0.profile = profile
            change(&$0)
        }
        for number in 1...count { server.connect(number) }
        return server
    }

    @Test(arguments: ProfileFrames.all)
    func `subscriptions and pings have the form of the profile`(expected: ProfileFrames) {
        var server = self.server(1, expected.profile)
        let miss = expected.cacheMiss.map { #"{"event":"pusher:cache_miss","channel":"cache-a"\#($0)}"# }
        expectEqual(
            server.subscribe(1, "cache-a"),
            [#"{"event":"pusher_internal:subscription_succeeded","channel":"cache-a"\#(expected.subscribed)}"#, miss]
                .compactMap { $0 }.map { .send(1, $0) })
        expectEqual(server.received(1, PusherFrames.ping), [.send(1, #"{"event":"pusher:pong"\#(expected.pong)}"#)])
        expectEqual(
            server.received(1, PusherFrames.subscribe("private-a", auth: "key:x")), [.send(1, expected.rejected(server.socketID(1)))])
        expectEqual(server.subscribe(1, "private-a").count, 1)
        expectEqual(
            server.advance(by: expected.activityTimeout), (expected.ping.map { [.send(1, #"{"event":"pusher:ping"\#($0)}"#)] } ?? []))
        let close = expected.closesWithoutCode ? "close 1005" : "close 4201"
        expectEqual(server.advance(by: .seconds(30)).map(\.summary), (expected.ping == nil ? [] : ["error 4201", close]))
    }

    @Test(arguments: ProfileFrames.all)
    func `members and client events have the form of the profile`(expected: ProfileFrames) {
        var server = self.server(2, expected.profile)
        server.subscribe(1, "presence-a", user: "1")
        let data = #"{"user_id":"2","user_info":{"n":1}}"#
        let auth = ChannelSignature.token(
            key: "key", secret: "secret", socketID: server.socketID(2), channel: "presence-a", channelData: data)
        func frame(_ event: String, _ data: String) -> ServerCommand {
            let data = expected.isMemberJSON ? data.split(separator: "\\").joined() : "\"\(data)\""
            return .send(1, #"{"event":"pusher_internal:\#(event)","channel":"presence-a","data":\#(data)}"#)
        }
        let commands = server.received(2, PusherFrames.subscribe("presence-a", auth: auth, channelData: data))
        expectEqual(commands.first, frame("member_added", expected.joined))
        expectEqual(
            server.clientEvent(1, "client-a", on: "presence-a", data: #"{"on": true}"#),
            [.send(2, #"{"event":"client-a","channel":"presence-a"\#(expected.clientEvent)}"#)])
        expectEqual(server.closed(2), [frame("member_removed", expected.left)])
    }

    @Test(arguments: ProfileFrames.all)
    func `connections are rejected in the form of the profile`(expected: ProfileFrames) async throws {
        let pusher = try await InMemoryPusher {
            $0.profile = expected.profile
            $0.connectionLimit = 1
        }
        let unknown = RawClient(pusher, "/app/unknown?protocol=7")
        let error = #"{"event":"pusher:error","data":\#(expected.unknownKey)}"#
        expectEqual(unknown.take(), expected.dropsRejected ? [] : [error])
        expectEqual(unknown.closeCode, (expected.dropsRejected ? nil : expected.closesWithoutCode ? 1005 : 4001))
        let first = RawClient(pusher)
        let second = RawClient(pusher)
        expectEqual(second.takeErrors().count, expected.dropsRejected ? 0 : 1)
        expectEqual(second.closeCode, expected.connectionLimitCode.map { expected.closesWithoutCode ? 1005 : $0 })
        for client in [unknown, second] { expectEqual(client.isDropped, expected.dropsRejected) }
        // The code that the server's user chooses is sent in any case.
        pusher.server.close(try #require(pusher.server.socketIDs.first), CloseCode(rawValue: 4003))
        expectEqual(first.closeCode, 4003)
    }

    @Test(arguments: ProfileFrames.all)
    func `the client understands every profile`(expected: ProfileFrames) async throws {
        let pusher = try await InMemoryPusher { $0.profile = expected.profile }
        let clients = [pusher.client(userID: "anna"), pusher.client(userID: "bert")]
        for client in clients { client.connect() }
        let rooms = try clients.map { try $0.subscribe("presence-room") }
        let events = rooms[1].events()
        try rooms[0].trigger("client-typing", ["on": true])
        pusher.server.publish("tick", to: "presence-room", data: "1")
        let seen = await events.pending()
        expect(seen.map(\.name) == ["client-typing", "tick"] && rooms[0].members.map(\.id) == ["anna", "bert"])
        try expectEqual(seen.first?.decode([String: Bool].self), ["on": true])
        expectEqual(seen.first?.userID, (expected.profile.clientEventsNameSender ? "anna" : nil))
        clients[1].disconnect()
        expectEqual(rooms[0].members.map(\.id), ["anna"])
        // A connection stays open while nothing happens.
        let socketID = clients[0].socketID
        pusher.clock.advance(by: .seconds(3600))
        expectEqual(clients[0].socketID, socketID)

        let stranger = pusher.client { $0.authorizer = .secret("wrong") }
        stranger.connect()
        guard case .failed(let error) = try stranger.subscribe("private-a").state else {
            return expect(false, "the subscription should have failed")
        }
        expect(error.code == .subscriptionRejected && !error.message.contains("wrong"))
        let unknown = pusher.client { $0.key = "unknown" }
        unknown.connect()
        if expected.dropsRejected {
            return expectEqual(unknown.state, .connecting)
        }
        guard case .disconnected(let rejection?) = unknown.state else { return expect(false, "\(unknown.state)") }
        expect(rejection.code == .rejected && rejection.serverCode == 4001)
    }

    // MARK: Limits

    @Test(arguments: ProfileFrames.all)
    func `the greeting announces the activity timeout of the profile, unless the app has one`(expected: ProfileFrames) {
        for (own, timeout) in [(nil, expected.activityTimeout), (Duration.seconds(7), .seconds(7))] as [(Duration?, Duration)] {
            var server = ServerUnderTest {
                $0.profile = expected.profile
                if let own { $0.activityTimeout = own }
            }
            let commands = server.connect(1)
            guard case .send(1, let text)? = commands.first, let data = try? JSONValue(parsing: text)["data"]?.string else {
                return expect(false, "\(commands)")
            }
            expectEqual((try? JSONValue(parsing: data))?["activity_timeout"]?.int, Int(timeout.components.seconds))
        }
    }

    @Test(arguments: [
        (PusherServerProfile.pusher, 10 << 10, 10, 100, true), (.soketi, 100 << 10, .max, 100, false),
        (.reverb, 10_000, .max, .max, false), (.slanger, .max, .max, .max, false), (.sockudo, .max, .max, .max, true),
    ])
    func `an app has the limits of its profile, except for those that it sets`(
        profile: PusherServerProfile, data: Int, clientEvents: Int, members: Int, validatesNames: Bool
    ) {
        var app = PusherApp(id: "1", key: "key", secret: "secret")
        app.memberLimit = 5
        app.profile = profile
        expectEqual([app.eventDataLimit, app.clientEventsPerSecond, app.memberLimit], [data, clientEvents, 5])
        expectEqual(app.validatesChannelNames, validatesNames)
        expectEqual(app.validationError(channel: "private-chat:1") == nil, !validatesNames)
        app = PusherApp(id: "1", key: "key", secret: "secret")
        app.profile = profile
        expectEqual(app.memberLimit, members)
    }

    @Test func `an app may allow any names of channels, for subscriptions, the HTTP API and the authorization`() async throws {
        let pusher = try await InMemoryPusher { $0.validatesChannelNames = false }
        let client = pusher.client { $0.validatesChannelNames = false }
        client.connect()
        let channel = try client.subscribe("private-chat:1")
        expectEqual(channel.state, .subscribed)
        let events = channel.events("a")
        var publisher = pusher.publisher()
        publisher.validatesChannelNames = false
        try await publisher.publish("a", to: channel.name, data: "1")
        await expectEqual(events.pending().map(\.data), ["1"])
        let endpoint = try await pusher.startAuthorizationEndpoint()
        let other = pusher.client {
            $0.validatesChannelNames = false
            $0.authorizer = .endpoint(endpoint)
        }
        other.connect()
        try await other.subscribe(channel.name).subscribed()
    }

    @Test func `a rejected connection that is kept receives nothing more, and ends with the server`() async throws {
        let pusher = try await InMemoryPusher {
            $0.profile = .reverb
            $0.connectionLimit = 0
        }
        let client = RawClient(pusher)
        expectEqual(client.takeErrors(), [nil])
        client.send(PusherFrames.subscribe("a"))
        client.send(PusherFrames.ping)
        expect(client.take() == [] && client.closeCode == nil && pusher.server.socketIDs.isEmpty)
        pusher.clock.advance(by: .seconds(3600))
        expectNil(client.closeCode)
        await pusher.server.stop()
        expectEqual(client.closeCode, 1001)
    }

    // MARK: Origins

    @Test(
        arguments: [
            (["*"], nil, true), (["*"], "https://a.example.com", true), (["a.example.com"], "https://a.example.com:8443", true),
            (["a.example.com"], "https://b.example.com", false), (["a.example.com"], nil, false), (["a.example.com"], "null", false),
            (["b.com", "*.example.com"], "http://a.b.example.com", true), (["*.example.com"], "https://example.com", false),
            (["*.example.com"], "https://example.com.evil.org", false), (["a*e*m"], "https://a.example.com", true),
            ([], "https://a", false),
        ] as [([String], String?, Bool)])
    func `an app allows origins by their hosts`(allowed: [String], origin: String?, isAllowed: Bool) {
        var app = PusherApp(id: "1", key: "key", secret: "secret")
        app.allowedOrigins = allowed
        expectEqual(app.allows(origin: origin), isAllowed)
    }

    @Test(arguments: [PusherServerProfile.pusher, .reverb])
    func `a client needs an allowed origin, and meets 4009 immediately without one`(profile: PusherServerProfile) async throws {
        let pusher = try await InMemoryPusher {
            $0.profile = profile
            $0.allowedOrigins = ["example.com"]
        }
        let client = pusher.client()
        client.connect()
        guard case .disconnected(let error?) = client.state else { return expect(false, "\(client.state)") }
        expectEqual(error.serverCode, 4009)
        expect(error.message.contains("`PusherConfiguration.headers`"), "\(error)")
        let allowed = pusher.client { $0.headers = ["Origin": "https://example.com"] }
        allowed.connect()
        guard case .connected = allowed.state else { return expect(false, "\(allowed.state)") }
    }

    @Test func `the first refusal of an origin is a warning that says what to set`() async throws {
        let lines = EventRecorder<String>()
        let log = LogSink(minimumLevel: .warning) { _, _, message in lines.record(message) }
        let pusher = try await InMemoryPusher(log: log) { $0.allowedOrigins = ["example.com"] }
        for _ in 0..<2 { pusher.client { $0.headers = ["Origin": "https://other.example"] }.connect() }
        let all = lines.all
        expect(all.count == 1 && all[0].contains("https://other.example") && all[0].contains("allowedOrigins"), "\(all)")
    }

    @Test func `a server that drops connections of unknown apps sends the code that a test chooses`() async throws {
        let pusher = try await InMemoryPusher { $0.profile = .sockudo }
        pusher.server.faults.rejectionCode = PusherCloseCode.noSuchApplication
        let client = RawClient(pusher)
        expect(client.closeCode == 4001 && !client.isDropped)
    }

    @Test(arguments: [
        (PusherServerProfile.pusher, true), (.soketi, false), (.reverb, true), (.slanger, true), (.sockudo, false),
    ])
    func `the signature of a private channel covers the data as at the server of the profile`(profile: PusherServerProfile, isCovered: Bool)
    {
        let data = #"{"user_id":"1"}"#
        for isSigned in [true, false] {
            var server = self.server(1, profile)
            let auth = ChannelSignature.token(
                key: "key", secret: "secret", socketID: server.socketID(1), channel: "private-a", channelData: isSigned ? data : nil)
            _ = server.takeEvents()
            server.received(1, PusherFrames.subscribe("private-a", auth: auth, channelData: data))
            let isRejected = server.takeEvents().contains { if case .subscriptionRejected = $0 { true } else { false } }
            expectEqual(isRejected, isSigned != isCovered)
        }
    }

    // MARK: Switches

    @Test func `a rejected signature is quoted to its client only`() {
        var server = self.server(1, .slanger)
        let data = #"{"user_id":"1"}"#
        expectEqual(
            server.received(1, PusherFrames.subscribe("presence-a", auth: "key:hunter2", channelData: data)),
            [
                .send(
                    1,
                    PusherFrames.error(
                        nil,
                        "Invalid signature: Expected HMAC SHA256 hex digest of \(server.socketID(1)):presence-a, but got key:hunter2",
                        omitsMissingCode: true, as: .string))
            ])
        guard case .subscriptionRejected(_, _, let message)? = server.takeEvents().last else { return expect(false, "no event") }
        expect(!message.contains("hunter2"))
    }

    @Test func `members and IDs have the form of pusher fake and of Laravel`() {
        var profile = PusherServerProfile()
        (profile.listsMemberIDs, profile.removalsContainUserInfo, profile.sendsNumericUserIDs) = (false, true, true)
        var server = self.server(2, profile)
        func subscribe(_ number: Int, _ data: String) -> [ServerCommand] {
            let auth = ChannelSignature.token(
                key: "key", secret: "secret", socketID: server.socketID(number), channel: "presence-a", channelData: data)
            return server.received(number, PusherFrames.subscribe("presence-a", auth: auth, channelData: data))
        }
        expectEqual(
            subscribe(1, #"{"user_id":"07"}"#),
            [
                .send(
                    1,
                    #"{"event":"pusher_internal:subscription_succeeded","channel":"presence-a","data":"{\"presence\":{\"hash\":{\"07\":null},\"count\":1}}"}"#
                )
            ])
        expectEqual(
            subscribe(2, #"{"user_id":7,"user_info":{}}"#).first,
            .send(
                1, #"{"event":"pusher_internal:member_added","channel":"presence-a","data":"{\"user_id\":7,\"user_info\":{}}"}"#))
        expectEqual(
            server.clientEvent(2, "client-a", on: "presence-a"),
            [.send(1, #"{"event":"client-a","channel":"presence-a","data":"1","user_id":7}"#)])
        expectEqual(
            server.closed(2),
            [
                .send(1, #"{"event":"pusher_internal:member_removed","channel":"presence-a","data":"{\"user_id\":7,\"user_info\":{}}"}"#)
            ])
    }

    @Test func `the client understands numeric IDs`() async throws {
        let pusher = try await InMemoryPusher {
            $0.profile = .reverb
            $0.profile.sendsNumericUserIDs = true
        }
        let clients = [pusher.client(userID: "7"), pusher.client(userID: "8")]
        for client in clients { client.connect() }
        let rooms = try clients.map { try $0.subscribe("presence-room") }
        let events = rooms[0].events()
        try rooms[1].trigger("client-a", [1])
        expect(rooms[0].members.map(\.id) == ["7", "8"] && rooms[1].members.me?.id == "8")
        await expectEqual(events.pending().map(\.userID), ["8"])
        clients[1].disconnect()
        expectEqual(rooms[0].members.map(\.id), ["7"])
    }

    @Test func `a profile can close connections without an error`() async throws {
        let pusher = try await InMemoryPusher { $0.profile.sendsErrorsBeforeClosing = false }
        let client = RawClient(pusher, "/app/unknown?protocol=7")
        expect(client.take().isEmpty && client.closeCode == 4001)
    }

    @Test func `subscription errors have the form of pusher fake`() {
        var profile = PusherServerProfile()
        profile.subscriptionErrors = .internalSubscriptionError
        var server = self.server(1, profile)
        expectEqual(
            server.received(1, PusherFrames.subscribe("private-a")),
            [.send(1, #"{"event":"pusher_internal:subscription_error","channel":"private-a","data":{}}"#)])
    }

    @Test func `a limit is a subscription error of soketi with its own status`() {
        var server = self.server(1, .soketi) { $0.channelLimit = 0 }
        let commands = server.subscribe(1, "one")
        guard case .send(1, let text)? = commands.first, let frame = try? JSONValue(parsing: text) else {
            return expect(false, "\(commands)")
        }
        expect(frame["event"] == "pusher:subscription_error" && frame["data"]?["type"] == "LimitReached")
        expect(frame["data"]?["status"] == 4009 && frame["channel"] == "one")
    }

    @Test func `a profile can confirm repeated subscriptions`() {
        var server = self.server(2, .reverb)
        server.publish("a", to: "presence-cache-a")
        for number in 1...2 { server.subscribe(number, "presence-cache-a", user: "\(number)") }
        expectEqual(server.subscribe(1, "presence-cache-a", user: "1").map(\.summary), ["subscription_succeeded", "a"])
        expectEqual(server.received(1, PusherFrames.subscribe("presence-cache-a")).map(\.summary), ["error 4009"])
        expectEqual(server.subscribers(of: "presence-cache-a").count, 2)
        expectEqual(server.closed(1).map(\.summary), ["member_removed"])
    }

    @Test func `a repeated subscription does not count`() {
        var server = self.server(1, .soketi) { $0.channelLimit = 1 }
        for _ in 0..<2 { expectEqual(server.subscribe(1, "one").map(\.summary), ["subscription_succeeded"]) }
        expectEqual(server.subscribe(1, "two").map(\.summary), ["subscription_error"])
    }

    @Test func `a subscription that awaits its hook is not confirmed`() {
        var server = ServerUnderTest(hooks: .init(subscriptions: true)) { $0.profile = .soketi }
        server.connect(1)
        server.subscribe(1, "one")
        expectEqual(server.subscribe(1, "one").map(\.summary), ["subscription_error"])
    }

    @Test func `a profile can notify of each connection of a member`() {
        var profile = PusherServerProfile()
        profile.notifiesOfEachConnection = true
        var server = self.server(3, profile)
        server.subscribe(1, "presence-a", user: "x")
        expectEqual(server.subscribe(2, "presence-a", user: "y").map(\.summary), ["member_added", "subscription_succeeded"])
        expectEqual(
            server.subscribe(3, "presence-a", user: "y"),
            [
                .send(1, PusherFrames.memberAdded("presence-a", id: "y", info: nil)),
                .send(2, PusherFrames.memberAdded("presence-a", id: "y", info: nil)),
                .send(3, PusherFrames.subscriptionSucceeded("presence-a", members: [("x", nil), ("y", nil)])),
            ])
        for number in 2...3 {
            expectEqual(
                server.closed(number).filter { if case .send(1, _) = $0 { true } else { false } }.map(\.summary), ["member_removed"])
        }
        expectEqual(server.machine.channels[ByteString("presence-a")]?.users.map(\.id), ["x"])
    }

    @Test(arguments: [
        (#","data":"text""#, #"error"#, #","data":"text""#), (#","data":1"#, "error", #","data":1"#),
        (#","data":"{\"on\":true}""#, #","data":{"on":true}"#, #","data":"{\"on\":true}""#),
        (#","data":[1, 2]"#, #","data":[1, 2]"#, #","data":[1, 2]"#), ("", "", ""), (#","data":null"#, "", ""),
        (#","data":"a\u00e9\"""#, "error", #","data":"aé\"""#),
    ])
    func `a client event contains JSON as it was sent`(sent: String, reverb: String, soketi: String) {
        for (profile, expected) in [(PusherServerProfile.reverb, reverb), (.soketi, soketi)] {
            var server = self.server(2, profile)
            for number in 1...2 { server.subscribe(number, "private-a") }
            let commands = server.received(1, .text(#"{"event":"client-a","channel":"private-a"\#(sent)}"#))
            if expected == "error" {
                expectEqual(commands.map(\.summary), ["error 4200"])
            } else {
                expectEqual(commands, [.send(2, #"{"event":"client-a","channel":"private-a"\#(expected)}"#)])
            }
        }
    }

    @Test func `a server without sign in treats it as an unknown event`() {
        for profile in [PusherServerProfile.reverb, .slanger] {
            var server = self.server(1, profile)
            expect(server.signIn(1, as: "x").map(\.summary) == ["error null"] && server.machine.users.isEmpty)
        }
    }

    @Test func `the confirmation of a sign in has the form of the profile`() {
        var profile = PusherServerProfile()
        (profile.signInData, profile.repeatsSignInSignature) = (.string, true)
        var server = self.server(1, profile)
        let request = server.signInRequest(1, as: "x")
        let auth = (try? JSONValue(parsing: request.bytes))?["data"]?["auth"]?.string ?? ""
        expectEqual(
            server.received(1, request),
            [
                .send(1, #"{"event":"pusher:signin_success","data":"{\"auth\":\"\#(auth)\",\"user_data\":\"{\\\"id\\\":\\\"x\\\"}\"}"}"#)
            ])
    }

    @Test(
        arguments: [
            (.events, ["pusher:connection_established", "pusher:ping", "pusher:error"], 4201),
            (.controlFrames, ["pusher:connection_established"], nil),
            (.none, ["pusher:connection_established"], nil),
        ] as [(PusherServerProfile.Pings, [String], Int?)])
    func `an inactive client is pinged as the profile requires`(pings: PusherServerProfile.Pings, events: [String], code: Int?) async throws
    {
        let pusher = try await InMemoryPusher { $0.profile.pings = pings }
        // The client answers the pings of the WebSocket, and no events.
        let client = RawClient(pusher)
        pusher.clock.advance(by: .seconds(1000))
        expect(client.takeEvents() == events && client.closeCode == code)
    }
}
