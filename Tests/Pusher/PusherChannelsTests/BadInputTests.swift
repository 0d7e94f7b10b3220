import PusherTestSupport
import RealtimeCoding
import RealtimeCore
import PusherChannels
import RealtimeTesting
import TestSupport
import Testing

/// Frames that a server should not send: each is reported or counted, and does not affect the frames around it.
@Suite struct BadInputTests {
    enum Effect: Sendable {
        case reported
        /// Reported, although it has an effect.
        case counted
        case ignored, accepted
    }

    private static func frame(_ event: String, _ rest: String) -> String { #"{"event":"\#(event)",\#(rest)}"# }

    private static let notFrames = [
        "", " ", "null", "true", "5", "\"text\"", "[]", "[{}]", "{", "}", "{}", #"{"event"}"#, #"{"event":}"#, #"{"event":"a""#,
        #"{"event":"a"} x"#,
        #"{"event":"a",}"#, #"{'event':'a'}"#, #"{"event":"a\q"}"#, "{\"event\":\"a\nb\"}", "\u{FEFF}{\"event\":\"a\"}",
        #"{"data":"x","channel":"one"}"#,
        #"{"Event":"a","channel":"one"}"#, #"{"event":5,"channel":"one"}"#, #"{"event":null}"#, #"{"event":{"event":"a"}}"#,
        #"{"event":["a"]}"#,
        #"{"event":true}"#, #"{"event":"a","channel":5}"#, #"{"event":"a","channel":{}}"#, #"{"event":"a","channel":["one"]}"#,
        #"{"event":"a","channel":false}"#,
        #"{"event":"a","channel":"one","data":01}"#, #"{"event":"a","channel":"one","data":{"a":}}"#,
        #"{"event":"a","channel":"one","data":nope}"#,
    ]

    private static let invalidProtocolEvents = [
        frame("pusher_internal:subscription_succeeded", #""data":"{}""#),
        frame("pusher_internal:subscription_succeeded", #""channel":null"#),
        frame("pusher:subscription_error", #""data":{}"#),
        frame("pusher_internal:subscription_error", #""data":{}"#),
        frame("pusher_internal:member_added", #""data":"{\"user_id\":\"9\"}""#),
        frame("pusher_internal:member_added", #""channel":"presence-room""#),
        frame("pusher_internal:member_added", #""channel":"presence-room","data":null"#),
        frame("pusher_internal:member_added", #""channel":"presence-room","data":"nope""#),
        frame("pusher_internal:member_added", #""channel":"presence-room","data":"{}""#),
        frame("pusher_internal:member_added", #""channel":"presence-room","data":{"user_id":null}"#),
        frame("pusher_internal:member_added", #""channel":"presence-room","data":{"user_id":{"id":"9"}}"#),
        frame("pusher_internal:member_added", #""channel":"presence-room","data":{"user_id":["9"]}"#),
        frame("pusher_internal:member_added", #""channel":"presence-room","data":{"user_id":true}"#),
        frame("pusher_internal:member_added", #""channel":"presence-room","data":[]"#),
        frame("pusher_internal:member_removed", #""channel":"presence-room","data":"{""#),
        frame("pusher_internal:member_removed", #""channel":"presence-room","data":7"#),
        frame("pusher_internal:member_removed", #""channel":"presence-room""#),
        frame("pusher_internal:subscription_count", #""channel":"one","data":"{}""#),
        frame("pusher_internal:subscription_count", #""data":1"#),
        frame("pusher:connection_established", #""data":"nope""#),
        frame("pusher:connection_established", #""data":{}"#),
        #"{"event":"pusher:connection_established"}"#,
    ]

    private static let unrelated = [
        frame("pusher_internal:unknown", #""channel":"one","data":"{}""#), #"{"event":"pusher_internal:"}"#,
        frame("pusher_internal:subscription_count", #""channel":"another","data":"{\"subscription_count\":12}""#),
        frame("a", #""channel":"another","data":"{}""#), frame("a", #""channel":"","data":"{}""#),
        frame("pusher:cache_miss", #""channel":"another""#),
        frame("pusher_internal:subscription_succeeded", #""channel":"another","data":"{}""#),
        frame("pusher_internal:subscription_succeeded", #""channel":"presence-failed","data":"{\"presence\":{\"ids\":[\"9\"]}}""#),
        frame("pusher:subscription_error", #""channel":"another","data":{"status":401}"#),
        frame("pusher_internal:subscription_error", #""channel":"presence-failed""#),
        frame("pusher_internal:member_added", #""channel":"another","data":"{\"user_id\":\"9\"}""#),
        frame("pusher_internal:member_added", #""channel":"one","data":"{\"user_id\":\"9\"}""#),
        frame("pusher_internal:member_added", #""channel":"presence-failed","data":"{\"user_id\":\"9\"}""#),
        frame("pusher_internal:member_removed", #""channel":"one","data":"{\"user_id\":\"9\"}""#),
    ]

    private static let harmless = [
        RawServer.greeting, frame("pusher:pong", #""data":{}"#), #"{"event":"pusher:pong"}"#,
        frame("pusher:pong", #""data":"nope","channel":"one""#),
        frame("pusher:ping", #""data":[]"#), frame("pusher:connection_established", #""data":{"socket_id":"9.9"}"#),
        frame("pusher_internal:subscription_succeeded", #""channel":"one""#),
        frame("pusher_internal:subscription_succeeded", #""channel":"one","data":"nope""#),
        frame("pusher_internal:member_removed", #""channel":"presence-room","data":{"user_id":"absent"}"#),
        frame("pusher_internal:member_added", #""channel":"presence-room","data":{"user_id":"me"}"#),
        frame("pusher:unknown", #""data":{}"#),
    ]

    private static let invalidLists = [
        frame("pusher_internal:subscription_succeeded", #""channel":"presence-room""#),
        frame("pusher_internal:subscription_succeeded", #""channel":"presence-room","data":"""#),
        frame("pusher_internal:subscription_succeeded", #""channel":"presence-room","data":"{}""#),
        frame("pusher_internal:subscription_succeeded", #""channel":"presence-room","data":{"presence":5}"#),
        frame("pusher_internal:subscription_succeeded", #""channel":"presence-room","data":{"presence":[]}"#),
        frame("pusher_internal:subscription_succeeded", #""channel":"presence-room","data":"{\"presence\":\"x\"}""#),
        frame("pusher_internal:subscription_succeeded", #""channel":"presence-room","data":"{\"presence\"""#),
        frame("pusher_internal:subscription_succeeded", #""channel":"presence-room","data":[1,2]"#),
    ]

    static let table: [(String, Effect)] =
        (notFrames + invalidProtocolEvents).map { ($0, .reported) } + invalidLists.map { ($0, .counted) } + unrelated.map { ($0, .ignored) }
        + harmless.map { ($0, .accepted) }

    @Test(arguments: table)
    func `a bad frame is reported or counted and the frames around it are delivered`(frame: String, effect: Effect) async throws {
        let raw = try await RawPusher { event, data in
            if data["channel"] == "presence-failed" {
                [#"{"event":"pusher:subscription_error","channel":"presence-failed","data":{"error":"no","status":401}}"#]
            } else {
                RawPusher.subscribing(event, data)
            }
        }
        let client = raw.client
        client.connect()
        let (one, room, failed) = (
            try client.subscribe("one"), try client.subscribe("presence-room"), try client.subscribe("presence-failed")
        )
        let (events, errors, changes) = (one.events("marker"), client.errors, failed.memberChanges)
        let ignored = client.counters.messagesIgnored
        let marker = { (number: Int) in #"{"event":"marker","channel":"one","data":"\#(number)"}"# }
        raw.server.send(marker(1), frame, marker(2))
        raw.server.send(marker(3))
        await expectEqual(events.pending().map(\.data), ["1", "2", "3"])
        let codes = await errors.pending().map(\.code)
        switch effect {
        case .reported: expect(codes == [.invalidFrame] && client.counters.messagesIgnored == ignored + 1)
        case .ignored: expect(codes == [] && client.counters.messagesIgnored == ignored + 1)
        case .counted: expect(codes == [.invalidFrame] && client.counters.messagesIgnored == ignored)
        case .accepted: expect(codes == [] && client.counters.messagesIgnored == ignored)
        }
        expect(client.state == .connected(socketID: "1.2") && raw.server.accepted == 1)
        expect(one.state == .subscribed && room.state == .subscribed && one.members.isEmpty && failed.members.isEmpty)
        await expect(changes.pending().isEmpty)
        if case .failed = failed.state {} else { Issue.record("the rejected subscription is \(failed.state)") }
        _ = raw.server.received.take()
        raw.server.send(#"{"event":"pusher:ping"}"#)
        expectEqual(raw.server.received.all, [["event": "pusher:pong", "data": [:]]])
    }

    @Test func `binary messages are ignored and counted`() async throws {
        let raw = try await RawPusher()
        raw.client.connect()
        let events = try raw.client.subscribe("one").events()
        let text = Array(#"{"event":"a","channel":"one","data":"1"}"#.utf8)
        raw.server.send([
            .binary(text), .binary([0xFF, 0]), TransportMessage(.ping, [1]), TransportMessage(.pong, []), TransportMessage(.text, text),
        ])
        await expectEqual(events.pending().map(\.data), ["1"])
        expectEqual(raw.client.counters.messagesIgnored, 2)
    }

    @Test(arguments: [
        (#""text""#, "text"), (#""""#, ""), (#""{\"a\":1}""#, #"{"a":1}"#), (#"{"a": 1}"#, #"{"a": 1}"#), ("[1,2]", "[1,2]"), ("7", "7"),
        ("-1e3", "-1e3"),
        ("true", "true"), ("null", nil), (#""\u00e4\ud83d\ude00\n""#, "ä😀\n"), (#""\ud800""#, "\u{FFFD}"),
    ])
    func `data of every JSON type is delivered as text`(data: String, text: String?) async throws {
        let raw = try await RawPusher()
        raw.client.connect()
        let events = try raw.client.subscribe("one").events()
        raw.server.send(#"{"event":"a","channel":"one","data":\#(data)}"#, #"{"event":"b","channel":"one"}"#)
        await expectEqual(events.pending().map(\.data), [text, nil])
    }

    @Test(arguments: [
        (#""7""#, "7"), ("7", "7"), ("1234567890123456789", "1234567890123456789"), ("null", nil), ("{}", nil), ("[7]", nil), ("true", nil),
        (#""\u0037""#, "7"),
    ])
    func `the user ID of an event may be a string or a number`(id: String, expected: String?) async throws {
        let raw = try await RawPusher()
        raw.client.connect()
        let events = try raw.client.subscribe("presence-room").events()
        raw.server.send(#"{"event":"client-a","channel":"presence-room","user_id":\#(id)}"#)
        await expectEqual(events.pending().map(\.userID), [expected])
    }

    @Test func `names with JSON escapes are recognized`() async throws {
        let raw = try await RawPusher()
        raw.client.connect()
        let events = try raw.client.subscribe("one").events("a")
        raw.server.send(#"{"\u0065vent":"\u0061","channel":"\u006fne","data":"1"}"#, #"{"event":"pusher\u003aping"}"#)
        await expectEqual(events.pending().map(\.data), ["1"])
        expectEqual(raw.server.received.all.last?["event"], "pusher:pong")
    }

    @Test func `a huge event is delivered and deep nesting does not end the connection`() async throws {
        let raw = try await RawPusher()
        raw.client.connect()
        let events = try raw.client.subscribe("one").events()
        let huge = String(repeating: "x", count: 900_000)
        let deep = String(repeating: "[", count: 100_000) + String(repeating: "]", count: 100_000)
        raw.server.send(
            #"{"event":"a","channel":"one","data":"\#(huge)"}"#,
            #"{"event":"pusher_internal:member_added","channel":"one","data":\#(deep)}"#,
            #"{"event":"pusher:error","data":"\#(deep)"}"#, #"{"event":"b","channel":"one"}"#)
        await expectEqual(events.pending().map(\.name), ["a", "b"])
        expectEqual(raw.client.state.name, "connected")
    }

    @Test(.timeLimit(.minutes(10)))
    func `a list of a hundred thousand members is processed within the time limit`() async throws {
        let raw = try await RawPusher()
        raw.client.connect()
        let room = try raw.client.subscribe("presence-room")
        let ids = (0..<100_000).map { "\"\($0)\"" }.joined(separator: ",")
        raw.server.send(
            #"{"event":"pusher_internal:subscription_succeeded","channel":"presence-room","data":{"presence":{"ids":[\#(ids)]}}}"#)
        expectEqual(room.members.count, 100_000)
    }

    @Test(arguments: [
        (#"{"presence":{"ids":["1","2"],"hash":{"1":{"a":1},"2":null},"count":2}}"#, ["1", "2"]),
        (#"{"presence":{"hash":{"1":{},"2":{}}}}"#, ["1", "2"]), (#"{"presence":{"ids":[1,2,2,"1"],"hash":{}}}"#, ["1", "2"]),
        (#"{"presence":{"ids":["1"],"hash":{"1":null,"2":null}}}"#, ["1"]), (#"{"presence":{"ids":["1"],"hash":[]}}"#, ["1"]),
        (#"{"presence":{"ids":"1","hash":{"2":{}}}}"#, ["2"]), (#"{"presence":{"ids":[null,{},[],true,"1"]}}"#, ["1"]),
        (#"{"presence":{}}"#, []),
        (#"{"presence":{"count":"many"}}"#, []), (#"{"presence":{"ids":[""]}}"#, [""]),
    ])
    func `invalid entries of a list of members are skipped`(data: String, ids: [String]) async throws {
        let raw = try await RawPusher { event, _ in
            event == "pusher:subscribe"
                ? [#"{"event":"pusher_internal:subscription_succeeded","channel":"presence-room","data":\#(data)}"#] : []
        }
        raw.client.connect()
        let room = try raw.client.subscribe("presence-room")
        expect(room.state == .subscribed && room.members.map(\.id) == ids)
    }

    // MARK: Establishing the connection

    @Test(arguments: [
        #"{"event":"pusher:connection_established"}"#, #"{"event":"pusher:connection_established","data":null}"#,
        #"{"event":"pusher:connection_established","data":""}"#, #"{"event":"pusher:connection_established","data":"{}"}"#,
        #"{"event":"pusher:connection_established","data":"{\"socket_id\":\"\"}"}"#,
        #"{"event":"pusher:connection_established","data":{"socket_id":7}}"#,
        #"{"event":"pusher:connection_established","data":"{\"socket_id\":"}"#, #"{"event":"pusher:connection_established","data":[]}"#,
    ])
    func `a connection_established event without a socket ID is reported as one loss and the client retries`(greeting: String) async throws
    {
        let raw = try await RawPusher(greeting: [greeting, RawServer.greeting])
        let errors = raw.client.errors
        raw.client.connect()
        expectEqual(raw.client.state, .connecting)
        await expectEqual(errors.pending().map(\.code), [.connectionLost])
        expectEqual(raw.client.counters.messagesIgnored, 1)
        raw.clock.advance(by: .seconds(1))
        expectEqual(raw.server.accepted, 2)
    }

    @Test(arguments: [
        ("", 120), (#","activity_timeout":30"#, 30), (#","activity_timeout":1"#, 1), (#","activity_timeout":0"#, 120),
        (#","activity_timeout":-5"#, 120),
        (#","activity_timeout":99999"#, 120), (#","activity_timeout":9223372036854775807"#, 120), (#","activity_timeout":1e400"#, 120),
        (#","activity_timeout":0.5"#, 120), (#","activity_timeout":"30""#, 120), (#","activity_timeout":null"#, 120),
        (#","activity_timeout":{}"#, 120),
    ])
    func `an invalid activity timeout is ignored`(member: String, seconds: Int) async throws {
        let raw = try await RawPusher(greeting: [#"{"event":"pusher:connection_established","data":{"socket_id":"1.2"\#(member)}}"#])
        raw.client.connect()
        expectEqual(raw.client.state, .connected(socketID: "1.2"))
        raw.clock.advance(by: .milliseconds(seconds * 1000 - 1))
        expect(raw.server.received.all.isEmpty)
        raw.clock.advance(by: .milliseconds(1))
        expectEqual(raw.server.received.all, [["event": "pusher:ping", "data": [:]]])
    }

    @Test func `frames before connection_established do not affect the connection`() async throws {
        let raw = try await RawPusher(greeting: [
            "nonsense", #"{"event":"a","channel":"one","data":"1"}"#, #"{"event":"pusher:ping"}"#,
            #"{"event":"pusher_internal:subscription_succeeded","channel":"presence-room","data":{"presence":{"ids":["9"]}}}"#,
            RawServer.greeting,
        ])
        let room = try raw.client.subscribe("presence-room")
        let changes = room.memberChanges
        raw.client.connect()
        expectEqual(raw.client.state, .connected(socketID: "1.2"))
        expectEqual(raw.server.received.all.first, ["event": "pusher:pong", "data": [:]])
        await expectEqual(changes.pending().count, 1)
        expectEqual(room.members.map(\.id), ["me"])
    }

    @Test func `a second connection_established event has no effect`() async throws {
        let raw = try await RawPusher()
        raw.client.connect()
        let one = try raw.client.subscribe("one")
        let states = raw.client.states
        raw.server.send(#"{"event":"pusher:connection_established","data":{"socket_id":"9.9","activity_timeout":1}}"#)
        expect(raw.client.socketID == "1.2" && one.state == .subscribed)
        await expect(states.pending().map(\.name) == ["connected"] && raw.client.counters.reconnects == 0)
        expectEqual(raw.server.received.all.count, 1)
    }

    // MARK: Error events

    @Test(
        arguments: [
            (#"{"code":4302,"message":"text"}"#, 4302, "text"), (#""{\"code\":4302,\"message\":\"text\"}""#, 4302, "text"),
            (#"{"code":null,"message":"text"}"#, nil, "text"), (#"{"message":"text"}"#, nil, "text"),
            (#"{"error":"text"}"#, nil, "text"),
            (#"{"code":"4302","message":"text"}"#, nil, "text"), (#""text""#, nil, "text"), (#""\"text\"""#, nil, "text"),
            (#"{"code":99999999999999999999,"message":"text"}"#, nil, "text"), (#"{"code":-1,"message":"text"}"#, -1, "text"),
            (#"{"code":4302}"#, 4302, "without a message"), ("{}", nil, "without a message"), ("[]", nil, "without a message"),
            ("null", nil, "without a message"),
            (#"{"message":{"a":1}}"#, nil, "without a message"), ("5", nil, "without a message"),
        ] as [(String, Int?, String)])
    func `an error event is parsed in every form that servers use`(data: String, code: Int?, text: String) async throws {
        let raw = try await RawPusher()
        raw.client.connect()
        let errors = raw.client.errors
        raw.server.send(#"{"event":"pusher:error","data":\#(data)}"#)
        let error = try #require(await errors.pending().first)
        expect(error.code == .server && error.serverCode == code && error.message.contains(text), "\(error)")
        expectEqual(raw.client.state.name, "connected")
    }

    @Test func `an error that names a channel fails only that channel`() async throws {
        let raw = try await RawPusher { _, _ in [] }
        raw.client.connect()
        let (short, long, plain) = (
            try raw.client.subscribe("private-a"), try raw.client.subscribe("private-ab"), try raw.client.subscribe("to")
        )
        raw.server.send(#"{"event":"pusher:error","data":{"code":null,"message":"You are not allowed to see private-ab."}}"#)
        expect(short.state == .pending && plain.state == .pending)
        if case .failed(let error) = long.state {
            expectEqual(error.code, .subscriptionRejected)
        } else {
            Issue.record("the state is \(long.state)")
        }
    }

    @Test func `a rejected subscription does not prevent a reconnect`() async throws {
        let raw = try await RawPusher { event, _ in
            event == "pusher:subscribe"
                ? [#"{"event":"pusher:error","data":"{\"code\":4009,\"message\":\"Connection is unauthorized\"}"}"#] : []
        }
        raw.client.connect()
        let channel = try raw.client.subscribe("private-a")
        if case .failed = channel.state {} else { Issue.record("the state is \(channel.state)") }
        raw.network.cut()
        raw.clock.advance(by: .seconds(1))
        expectEqual(raw.client.state.name, "connected")
    }

    @Test func `a confirmation that arrives after the timeout is ignored`() async throws {
        let raw = try await RawPusher { _, _ in [] }
        raw.client.connect()
        let room = try raw.client.subscribe("presence-room")
        let changes = room.memberChanges
        raw.clock.advance(by: .seconds(30))
        raw.server.send(RawPusher.subscribing("pusher:subscribe", ["channel": "presence-room"])[0])
        if case .failed(let error) = room.state { expectEqual(error.code, .timedOut) } else { Issue.record("the state is \(room.state)") }
        expect(room.members.isEmpty)
        await expect(changes.pending().isEmpty)
    }

    @Test func `a subscription error does not end a running authorization`() async throws {
        let gate = AuthorizationGate()
        let raw = try await RawPusher(authorizer: .callback { await gate.call($0) })
        raw.client.connect()
        let channel = try raw.client.subscribe("private-a")
        let pending = await gate.next()
        raw.server.send(#"{"event":"pusher:subscription_error","channel":"private-a","data":{"status":401}}"#)
        expectEqual(channel.state, .pending)
        pending.resume(returning: PusherChannelAuthorization(auth: "key:signature"))
        try await channel.subscribed()
    }

    @Test func `a path that would alter the request is invalid`() {
        for path in ["/a b", "/a\r\nHost: x", "/a?b", "/a#b", "a", "/a/", "/ü"] {
            var configuration = PusherConfiguration(key: "key", host: "h", path: path)
            configuration.log = .none
            let client = PusherClient(configuration)
            client.connect()
            expectEqual(client.state.name, "failed", "\(path)")
        }
    }
}
