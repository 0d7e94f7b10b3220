import RealtimeCoding
@testable import PusherServer
import PusherChannels
import PusherTesting
import PusherWire
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// Limits of the protocol: each ends in an error for the client, and exceeding one that an honest client wouldn't exceed is logged.
@Suite struct ServerLimitTests {
    private static func text(_ count: Int, _ character: String = "x") -> String { String(repeating: character, count: count) }

    private func presence(_ server: ServerUnderTest, _ number: Int, data: String) -> TransportMessage {
        let auth = ChannelSignature.token(
            key: "key", secret: "secret", socketID: server.socketID(number), channel: "presence-a", channelData: data)
        return PusherFrames.subscribe("presence-a", auth: auth, channelData: data)
    }

    /// The frame of a ping with a given size.
    private static func ping(size: Int) -> TransportMessage {
        let frame = #"{"event":"pusher:ping","data":""}"#
        return .text(#"{"event":"pusher:ping","data":"\#(self.text(size - frame.utf8.count))"}"#)
    }

    @Test func `a message over the limit is ignored with an error`() {
        var server = ServerUnderTest(logLevel: .info)
        server.connect(1)
        expectEqual(server.received(1, Self.ping(size: 102_400)).map(\.summary), ["pong"])
        let error = PusherFrames.error(nil, "The message has 102401 bytes; a message can have at most 102400")
        expectEqual(server.received(1, Self.ping(size: 102_401)), [.send(1, error)])
        expect(server.logged.count == 1 && server.logged.allSatisfy { $0.contains("102400 bytes of a message") })
        expectEqual(server.messagesIgnored, 1)
        expectEqual(server.received(1, PusherFrames.ping).map(\.summary), ["pong"])
    }

    // MARK: Output

    /// Passes messages that arrive together to the server, and returns how many of them it takes at a time.
    private static func portions(_ server: inout ServerUnderTest, _ messages: [TransportMessage]) -> [Int] {
        let batch = MessageBatch(messages)
        var portions: [Int] = []
        var next = 0
        while next < messages.count {
            let start = next
            server.step { next = $0.received(ConnectionID(1), batch, from: start, now: $1, &$2) }
            portions.append(next - start)
        }
        return portions
    }

    @Test func `requests with large answers are taken one at a time, and small ones together`() {
        var server = ServerUnderTest { $0.recoveryLimit = 100 }
        server.accepted(1, "/app/key?protocol=2")
        server.opened(1)
        expectEqual(Self.portions(&server, (0..<2048).map { _ in PusherFrames.ping }), [2048])
        server.subscribe(1, "a")
        let data = String(repeating: "1", count: 10_000)
        for _ in 0..<100 { server.step { $0.publish("event", to: "a", data: data, now: $1, &$2) } }
        let resume = TransportMessage.text(#"{"event":"pusher:resume","data":{"channel_positions":{"a":{"serial":0}}}}"#)
        expectEqual(Self.portions(&server, [resume, resume, resume, PusherFrames.ping, PusherFrames.ping]), [1, 1, 1, 2])
    }

    @Test func `a request for missed events is the last one that is taken, however small its answer is`() {
        var server = ServerUnderTest { $0.recoveryLimit = 100 }
        server.accepted(1, "/app/key?protocol=2")
        server.opened(1)
        server.subscribe(1, "a")
        for _ in 0..<2 { server.step { $0.publish("event", to: "a", data: "1", now: $1, &$2) } }
        func resume(from serial: Int) -> TransportMessage {
            .text(#"{"event":"pusher:resume","data":{"channel_positions":{"a":{"serial":\#(serial)}}}}"#)
        }
        expectEqual(Self.portions(&server, [PusherFrames.ping, resume(from: 0), resume(from: 1), PusherFrames.ping]), [2, 1, 1])
        // Without an event to send again, a request is as small as others.
        expectEqual(Self.portions(&server, [resume(from: 2), resume(from: 9), resume(from: 2), PusherFrames.ping]), [4])
    }

    @Test func `requests whose answers go to many clients are taken in portions`() {
        var server = ServerUnderTest()
        for number in 1...90 { server.connect(number) }
        for number in 2...90 { server.subscribe(number, "presence-a", user: "user\(number)") }
        let subscription = server.subscription(1, "presence-a", user: "user1")
        let messages = (0..<400).flatMap { _ in [subscription, PusherFrames.unsubscribe("presence-a")] }
        let portions = Self.portions(&server, messages)
        expect(portions.reduce(0, +) == messages.count && portions.allSatisfy { $0 < 200 })
    }

    /// The position in the last confirmation or event among commands, or `nil` if there is none.
    private static func serial(_ commands: [ServerCommand]) -> Int? {
        for command in commands.reversed() {
            guard case .send(_, let text) = command, let frame = try? JSONValue(parsing: text) else { continue }
            return frame["serial"]?.int
        }
        return nil
    }

    @Test func `a client with many channels doesn't take the histories of other clients`() {
        var server = ServerUnderTest { ($0.recoveryLimit, $0.cachedEventLimit) = (100, 10) }
        for number in 1...3 {
            server.accepted(number, "/app/key?protocol=2")
            server.opened(number)
        }
        server.subscribe(1, "used")
        let first = server.publish("event", to: "used")
        for number in 0..<50 { server.subscribe(2, "invented-\(number)") }
        expectEqual(server.machine.histories.count, 10)
        expectEqual(Self.serial(first), 1)
        // The history with an event is still there.
        expectEqual(Self.serial(server.publish("event", to: "used")), 2)
        expectEqual(Self.serial(server.subscribe(3, "new")), 0)
        expectEqual(Self.serial(server.publish("event", to: "new")), 1)
        // A history that was forgotten begins with the next event.
        expectEqual(Self.serial(server.publish("event", to: "invented-0")), 1)
        expectEqual(Self.serial(server.publish("event", to: "invented-0")), 2)
    }

    @Test func `the bytes of all histories are limited`() {
        var histories = PusherServerMachine.Histories()
        let now = Instant(nanoseconds: 0)
        let event = TransportMessage.text(#"{"event":"a","data":"\#(Self.text(1 << 20))"}"#)
        for number in 0..<200 {
            let name = ByteString("\(number)")
            let time = now.advanced(by: .seconds(2 * number))
            histories.insert(.init(streamID: "s", expiration: time), for: name, limit: 1_000, now: time)
            expect(histories.append(event, nil, to: name, limit: 10, expiration: time, now: time) != nil)
        }
        expect(histories.bytes <= PusherServerMachine.Histories.byteLimit && histories.count > 100 && histories.count < 200)
        expect(histories[ByteString("0")] == nil && histories[ByteString("199")] != nil)
        for number in 0..<200 { histories.remove(ByteString("\(number)")) }
        expect(histories.bytes == 0 && histories.count == 0)
    }

    @Test func `one request recovers a limited number of bytes`() {
        var server = ServerUnderTest { $0.recoveryLimit = 100 }
        server.accepted(1, "/app/key?protocol=2")
        server.opened(1)
        let data = String(repeating: "1", count: 10_000)
        for channel in 0..<10 {
            server.subscribe(1, "a\(channel)")
            for _ in 0..<100 { server.step { $0.publish("event", to: "a\(channel)", data: data, now: $1, &$2) } }
        }
        let positions = (0..<10).map { #""a\#($0)":{"serial":0}"# }.joined(separator: ",")
        let commands = server.received(1, .text(#"{"event":"pusher:resume","data":{"channel_positions":{\#(positions)}}}"#))
        let bytes = commands.reduce(0) { if case .send(_, let text) = $1 { $0 + "\(text)".utf8.count } else { $0 } }
        expect(bytes > 3 << 20 && bytes < 5 << 20)
        expect(commands.filter { "\($0)".contains("hot_replay_too_large") }.count >= 6)
    }

    @Test func `an app can change the limits`() {
        var server = ServerUnderTest {
            $0.messageLimit = 300
            $0.channelNameLimit = 9
            $0.eventNameLimit = 8
            $0.eventDataLimit = 3
            $0.userIDLimit = 1
        }
        server.connect(1)
        expectEqual(server.received(1, Self.ping(size: 301)).map(\.summary), ["error null"])
        expectEqual(server.subscribe(1, "ten-letter").map(\.summary), ["error null"])
        expectEqual(server.subscribe(1, "private-a").map(\.summary), ["subscription_succeeded"])
        expectEqual(server.clientEvent(1, "client-ab", on: "private-a").map(\.summary), ["error 4301"])
        expectEqual(server.clientEvent(1, "client-a", on: "private-a", data: "1234").map(\.summary), ["error 4301"])
        expect(server.clientEvent(1, "client-a", on: "private-a", data: "123").isEmpty)
        var other = ServerUnderTest {
            $0.userIDLimit = 1
            $0.userInfoLimit = 3
        }
        other.connect(1)
        expectEqual(other.received(1, self.presence(other, 1, data: #"{"user_id":"12"}"#)).map(\.summary), ["error null"])
        let data = #"{"user_id":"1","user_info":1234}"#
        expectEqual(other.received(1, self.presence(other, 1, data: data)).map(\.summary), ["error null"])
    }

    @Test(arguments: [
        (text(128), true), (text(129), false), (text(128, "\u{1F600}"), true), (text(129, "\u{E9}"), false),
        // One character, but many scalars.
        ("e" + text(128, "\u{301}"), false),
    ])
    func `the ID of a user has at most 128 Unicode scalars`(id: String, isAccepted: Bool) {
        var server = ServerUnderTest(logLevel: .info)
        server.connect(1)
        let commands = server.received(1, self.presence(server, 1, data: #"{"user_id":"\#(id)"}"#))
        expectEqual(commands.map(\.summary), [isAccepted ? "subscription_succeeded" : "error null"])
        expectEqual(server.logged.count, (isAccepted ? 0 : 1))
    }

    @Test func `the information of a user has at most 1 KiB`() {
        for (count, expected) in [(1_016, "subscription_succeeded"), (1_017, "error null")] {
            var server = ServerUnderTest(logLevel: .info)
            server.connect(1)
            // All characters of the JSON count.
            let data = #"{"user_id":"1","user_info":{"n":"\#(Self.text(count))"}}"#
            expectEqual(server.received(1, self.presence(server, 1, data: data)).map(\.summary), [expected])
            expectEqual(server.logged.isEmpty, (count == 1_016))
        }
    }

    @Test func `an app can have no limits of names and data`() {
        var server = ServerUnderTest {
            $0.channelNameLimit = .max
            $0.eventNameLimit = .max
            $0.eventDataLimit = .max
        }
        for number in 1...2 {
            server.connect(number)
            server.subscribe(number, "private-a")
        }
        expectEqual(server.clientEvent(1, "client-a", on: "private-a").map(\.summary), ["client-a"])
    }

    @Test func `names over the limit are rejected and logged`() {
        var server = ServerUnderTest(logLevel: .info)
        server.connect(1)
        server.subscribe(1, "private-a")
        expect(server.logged.isEmpty)
        expectEqual(server.subscribe(1, Self.text(201)).map(\.summary), ["error null"])
        expectEqual(server.clientEvent(1, "client-a", on: Self.text(201)).map(\.summary), ["error 4301"])
        expectEqual(server.clientEvent(1, "client-a", on: Self.text(2_000)).map(\.summary), ["error 4301"])
        expectEqual(server.clientEvent(1, "client-" + Self.text(194), on: "private-a").map(\.summary), ["error 4301"])
        expectEqual(server.logged.count, 4)
        expectEqual(server.subscribe(1, Self.text(200)).map(\.summary), ["subscription_succeeded"])
        expect(server.clientEvent(1, "client-" + Self.text(193), on: "private-a").isEmpty && server.logged.count == 4)
    }

    @Test func `a connection has a limited number of channels`() {
        var server = ServerUnderTest(hooks: .init(subscriptions: true), logLevel: .info) { $0.channelLimit = 2 }
        server.connect(1)
        server.subscribe(1, "one")
        server.decide(.accept)
        server.subscribe(1, "two")
        // A subscription that is awaiting its hook counts.
        let message = "The connection has 2 channels, which is the limit; unsubscribe from one first"
        expectEqual(server.subscribe(1, "three"), [.send(1, PusherFrames.error(nil, message, channel: "three"))])
        expectEqual(server.logged.count, 1)
        server.received(1, PusherFrames.unsubscribe("one"))
        expectEqual(server.subscribe(1, "three").map(\.summary), ["run subscription three"])
    }

    @Test(arguments: [PusherServerProfile.pusher, .soketi, .reverb, .slanger, .sockudo])
    func `the texts of errors have a limited length, whatever a client sends`(profile: PusherServerProfile) throws {
        var server = ServerUnderTest(logLevel: .debug) {
            $0.profile = profile
            $0.allowsFilters = true
            $0.recoveryLimit = 10
        }
        server.connect(1, version: 2)
        _ = server.takeEvents()
        let long = Self.text(64 << 10)
        let frames = [
            #"{"event":"\#(long)"}"#, long, #"{"\#(long)":1"#, #"{"event":7,"data":"\#(long)"}"#,
            #"{"event":"pusher:subscribe","data":{"channel":"\#(long)"}}"#, #"{"event":"pusher:subscribe","data":"\#(long)"}"#,
            #"{"event":"pusher:subscribe","data":{"channel":"private-a","auth":"\#(long)"}}"#,
            #"{"event":"pusher:subscribe","data":{"channel":"presence-a","auth":"key:1","channel_data":"\#(long)"}}"#,
            #"{"event":"pusher:subscribe","data":{"channel":"b","filter":{"key":"\#(long)","cmp":"\#(long)","val":"1"}}}"#,
            #"{"event":"pusher:subscribe","data":{"channel":"b","filter":"\#(long)"}}"#,
            #"{"event":"pusher:unsubscribe","data":"\#(long)"}"#,
            #"{"event":"pusher:signin","data":{"auth":"\#(long)","user_data":"\#(long)"}}"#,
            #"{"event":"client-\#(long)","channel":"\#(long)","data":1}"#, #"{"event":"client-a","channel":"private-a","data":"\#(long)"}"#,
            #"{"event":"pusher:resume","data":"\#(long)"}"#,
        ]
        var messages: [String] = []
        for frame in frames {
            server.received(1, .text(frame))
            for event in server.takeEvents() {
                switch event {
                case .error(_, _, let message), .subscriptionRejected(_, _, let message): messages.append(message)
                default: break
                }
            }
            if server.machine.connections[ConnectionID(1)]?.established == nil {
                server = ServerUnderTest(logLevel: .debug) { $0.profile = profile }
                server.connect(1)
            }
        }
        expect(messages.count > 8)
        expect((messages + server.logged).allSatisfy { $0.utf8.count <= 1_000 })
    }

    @Test func `a listener with default limits keeps at most twice a message that the protocol allows`() {
        let app = PusherApp(id: "1", key: "key", secret: "secret")
        let server = PusherServer(app: app, log: .none)
        let handler = server.listenerHandler
        let request = HTTPRequestHead(method: "GET", target: "/app/key?protocol=7")
        let handlers: [any ListenerHandler] = [handler, PusherServerRouter([server]), ListenerRouter([.path("/", handler)])]
        for handler in handlers {
            guard case .accept(_, _, let acceptor) = handler.upgrade(request) else { return expect(false) }
            expectEqual(acceptor.messageLimit, 2 * app.messageLimit)
        }
    }

    // MARK: Hooks

    @Test func `a connection's subscriptions that wait for a hook are limited`() {
        var server = ServerUnderTest(hooks: .init(subscriptions: true, pendingLimit: 2), logLevel: .info)
        for number in 1...2 { server.connect(number) }
        for name in ["one", "two"] { expectEqual(server.subscribe(1, name).map(\.summary), ["run subscription \(name)"]) }
        expect(server.subscribe(1, "three").map(\.summary) == ["error null"] && server.logged.count == 1)
        // Other connections are not affected.
        expectEqual(server.subscribe(2, "one").map(\.summary), ["run subscription one"])
        server.decide(.accept, hook: 1)
        expectEqual(server.subscribe(1, "three").map(\.summary), ["run subscription three"])
        server.received(1, PusherFrames.unsubscribe("three"))
        expectEqual(server.subscribe(1, "four").map(\.summary), ["run subscription four"])
        expectEqual(server.subscribe(1, "five").map(\.summary), ["error null"])
    }

    @Test func `a connection's client events that wait for a hook are limited`() {
        var server = ServerUnderTest(hooks: .init(clientEvents: true, pendingLimit: 2), logLevel: .info)
        server.connect(1)
        server.subscribe(1, "private-a")
        for number in 1...2 { server.clientEvent(1, "client-\(number)", on: "private-a") }
        expect(server.clientEvent(1, "client-3", on: "private-a").map(\.summary) == ["error 4301"] && server.logged.count == 1)
        server.decide(.accept, hook: 1)
        expect(server.clientEvent(1, "client-4", on: "private-a").isEmpty)
    }

    @Test(arguments: [false, true])
    func `a connection whose hook does not respond is closed with 4100`(isOpen: Bool) {
        var server = ServerUnderTest(hooks: .init(connections: true), logLevel: .warning)
        server.accepted(1)
        if isOpen { server.opened(1) }
        expect(server.advance(by: .milliseconds(9_999)).isEmpty)
        let message = "The server did not decide in time"
        expectEqual(
            server.advance(by: .milliseconds(1)),
            [
                .cancel(hook: 1), .send(1, PusherFrames.error(4100, message)), .close(1, CloseCode(rawValue: 4100), message),
            ])
        expectEqual(server.logged, ["The hook authorizeConnection did not respond within 10.0 seconds."])
        // A late decision has no effect.
        expect(server.decide(.accept).isEmpty && server.opened(1).isEmpty && server.machine.nextDeadline == nil)
    }

    @Test func `a subscription whose hook does not respond is rejected`() {
        var server = ServerUnderTest(hooks: .init(subscriptions: true, timeout: .seconds(3), pendingLimit: 1), logLevel: .warning)
        server.connect(1)
        server.subscribe(1, "one")
        let error = PusherFrames.error(nil, "The server did not decide in time", channel: "one")
        expectEqual(server.advance(by: .seconds(3)), [.cancel(hook: 1), .send(1, error)])
        expect(server.logged.count == 1 && server.decide(.accept, hook: 1).isEmpty && server.machine.channels.isEmpty)
        expectEqual(server.subscribe(1, "one"), [.run(hook: 2, "subscription one")])
        expectEqual(server.decide(.accept, hook: 2).map(\.summary), ["subscription_succeeded"])
        expect(server.advance(by: .seconds(100)).isEmpty)
    }

    @Test func `a client event whose hook does not respond is rejected and the next one is decided`() {
        var server = ServerUnderTest(hooks: .init(clientEvents: true), logLevel: .warning)
        for number in 1...2 {
            server.connect(number)
            server.subscribe(number, "private-a")
        }
        for number in 1...2 { server.clientEvent(1, "client-\(number)", on: "private-a") }
        expectEqual(
            server.advance(by: .seconds(10)),
            [
                .cancel(hook: 1), .send(1, PusherFrames.error(4301, "The server did not decide in time", channel: "private-a")),
                .run(hook: 2, "client event client-2 on private-a: 1"),
            ])
        expectEqual(server.decide(.accept, hook: 2).map(\.summary), ["client-2"])
        expectEqual(server.logged.count, 1)
    }

    @Test func `the deadline of a hook ends with its connection`() {
        var server = ServerUnderTest(hooks: .init(subscriptions: true))
        server.connect(1)
        server.subscribe(1, "one")
        expectEqual(server.closed(1), [.cancel(hook: 1)])
        expect(server.advance(by: .seconds(200)).isEmpty && server.machine.nextDeadline == nil)
    }

    // MARK: The server's events

    @Test func `a message that is too long is cut in the server's events`() throws {
        var server = ServerUnderTest { $0.messageLimit = 10_000 }
        server.connect(1)
        _ = server.takeEvents()
        let short = #"{"event":"pusher:ping","data":"\#(Self.text(9_900))"}"#
        let long = #"{"event":"pusher:ping","data":"\#(Self.text(45_000, "\u{E9}"))"}"#
        server.received(1, .text(short), .text(long))
        let frames = server.takeEvents().compactMap { if case .received(_, let frame) = $0 { frame } else { nil } }
        expect(frames.count == 2 && frames.first == short)
        let cut = try #require(frames.last)
        expect(cut.hasSuffix("\u{E9}…") && long.hasPrefix(cut.dropLast()) && (9_998...10_003).contains(cut.utf8.count))
    }

    @Test func `events without a reader are limited by their size`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let channel = try client.subscribe("private-one")
        let events = pusher.server.events
        // Most exceed the rate limit, and are reported as received and as an error.
        for _ in 1...2000 { try channel.trigger("client-a", Self.text(9000)) }
        let sizes = await events.pending().map { event in
            switch event {
            case .received(_, let text), .clientEvent(_, _, _, let text), .error(_, _, let text): text.utf8.count
            default: 0
            }
        }
        expect(sizes.count + events.dropped > 2000)
        expect((8_370_000...8 << 20).contains(sizes.reduce(0, +)))
    }

    // MARK: Socket IDs

    @Test func `socket IDs come from the system unless there is a seed`() {
        let app = PusherApp(id: "1", key: "key", secret: "secret")
        if case .system = PusherServerMachine(app, hooks: .init(), seed: nil).generator {} else { Issue.record("not the system's") }
        func socketIDs(_ seed: UInt64?) -> [String] {
            var machine = PusherServerMachine(app, hooks: .init(), seed: seed)
            var effects = Effects<PusherServerMachine>()
            for number in 1...3 {
                let request = HTTPRequestHead(method: "GET", target: "/app/key?protocol=7")
                machine.accepted(ConnectionID(number), request, now: Instant(nanoseconds: 0), &effects)
            }
            return machine.connections.values.map(\.socketID).sorted()
        }
        expect(socketIDs(1) == socketIDs(1) && socketIDs(1) != socketIDs(2) && socketIDs(nil) != socketIDs(nil))
    }
}

@Suite struct SubscriberListTests {
    @Test func `random changes have the same effect as on an array`() {
        var generator = SplitMix64(seed: 5)
        var list = SubscriberList()
        var expected: [(number: UInt64, connection: ConnectionID)] = []
        for number in 1...3_000 as ClosedRange<UInt64> {
            if Int.random(in: 0..<3, using: &generator) > 0 || expected.isEmpty {
                list.append(ConnectionID(rawValue: number), number: number)
                expected.append((number, ConnectionID(rawValue: number)))
            } else {
                let removed = expected.remove(at: Int.random(in: 0..<expected.count, using: &generator)).number
                for _ in 0..<2 { list.remove(number: removed) }
            }
            expect(list.count == expected.count && list.isEmpty == expected.isEmpty)
            if number.isMultiple(of: 50) { expectEqual(Array(list), expected.map(\.connection)) }
        }
        for (number, _) in expected { list.remove(number: number) }
        expect(list.isEmpty && Array(list).isEmpty)
    }
}

@Suite struct ExcerptTests {
    @Test(arguments: [
        ("", 0, ""), ("abc", 3, "abc"), ("abcd", 3, "abc…"), ("ab\u{E9}", 3, "ab…"), ("ab\u{E9}", 4, "ab\u{E9}"),
        ("\u{1F600}x", 3, "…"), ("\u{1F600}x", 4, "\u{1F600}…"), ("e\u{301}\u{301}", 3, "e\u{301}…"),
    ])
    func `a text is cut between two scalars`(text: String, limit: Int, expected: String) {
        expectEqual(Array(Excerpt.of(text, limit: limit).utf8), Array(expected.utf8))
    }
}
