import RealtimeCoding
@testable import PusherServer
import PusherWire
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

private typealias Command = ServerCommand
private let pingMessage = PusherFrames.ping
private func seconds(_ seconds: Int64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }

// MARK: - States and inputs

@Suite struct PusherServerMachineStateTests {
    enum State: String, CaseIterable {
        case unknown, opening, openingWithHook, awaitingHook, established, rejected
    }

    enum Input: String, CaseIterable {
        case opened, message, accept, reject, timeout, stop, close, drop, publish, closed
    }

    private static let reconnectRequest = ["error 4200", "close 4200"]
    private static let rejection = ["error 4009", "close 4009"]
    private static let timeout = ["cancel", "error 4100", "close 4100"]

    /// The commands that each input causes in each state, and the state that follows.
    private static let table: [(State, [(Input, [String], State)])] = [
        (
            .unknown,
            [
                (.opened, [], .unknown), (.message, [], .unknown), (.accept, [], .unknown), (.reject, [], .unknown),
                (.timeout, [], .unknown), (.stop, [], .unknown), (.close, [], .unknown), (.drop, [], .unknown),
                (.publish, [], .unknown), (.closed, [], .unknown),
            ]
        ),
        (
            .opening,
            [
                (.opened, ["connection_established"], .established), (.message, [], .opening), (.accept, [], .opening),
                (.reject, [], .opening), (.timeout, [], .opening), (.stop, reconnectRequest, .opening), (.close, ["close 4001"], .opening),
                (.drop, ["abandon"], .unknown), (.publish, [], .opening), (.closed, [], .unknown),
            ]
        ),
        (
            .openingWithHook,
            [
                (.opened, [], .awaitingHook), (.message, [], .openingWithHook), (.accept, [], .opening), (.reject, rejection, .rejected),
                (.timeout, timeout, .rejected), (.stop, reconnectRequest, .openingWithHook), (.close, ["close 4001"], .openingWithHook),
                (.drop, ["abandon", "cancel"], .unknown), (.publish, [], .openingWithHook),
                (.closed, ["cancel"], .unknown),
            ]
        ),
        (
            .awaitingHook,
            [
                (.opened, [], .awaitingHook), (.message, [], .awaitingHook), (.accept, ["connection_established"], .established),
                (.reject, rejection, .rejected), (.timeout, timeout, .rejected), (.stop, reconnectRequest, .awaitingHook),
                (.close, ["close 4001"], .awaitingHook), (.drop, ["abandon", "cancel"], .unknown),
                (.publish, [], .awaitingHook), (.closed, ["cancel"], .unknown),
            ]
        ),
        (
            .established,
            [
                (.opened, [], .established), (.message, ["pong"], .established), (.accept, [], .established), (.reject, [], .established),
                (.timeout, ["ping"], .established), (.stop, reconnectRequest, .established), (.close, ["close 4001"], .established),
                (.drop, ["abandon"], .unknown), (.publish, [], .established), (.closed, [], .unknown),
            ]
        ),
        (
            .rejected,
            [
                (.opened, [], .rejected), (.message, [], .rejected), (.accept, [], .rejected), (.reject, [], .rejected),
                (.timeout, [], .rejected), (.stop, [], .rejected), (.close, [], .rejected), (.drop, [], .rejected),
                (.publish, [], .rejected), (.closed, [], .unknown),
            ]
        ),
    ]

    private func server(in state: State) -> ServerUnderTest {
        let hasHook = state == .openingWithHook || state == .awaitingHook
        var server = ServerUnderTest(hooks: .init(connections: hasHook))
        if state != .unknown { server.accepted(1, state == .rejected ? "/app/wrong?protocol=7" : "/app/key?protocol=7") }
        if state == .awaitingHook || state == .established { server.opened(1) }
        return server
    }

    private func state(of server: ServerUnderTest) -> State {
        switch server.machine.connections[ConnectionID(1)]?.state {
        case .opening(nil): .opening
        case .opening: .openingWithHook
        case .awaitingHook: .awaitingHook
        case .established: .established
        case .rejected: .rejected
        case nil: .unknown
        }
    }

    private func apply(_ input: Input, to server: inout ServerUnderTest) -> [Command] {
        let socketID = server.socketID(1)
        switch input {
        case .opened: return server.opened(1)
        case .message: return server.received(1, pingMessage)
        case .accept: return server.decide(.accept)
        case .reject: return server.decide(.reject(code: nil, message: "no"))
        case .timeout: return server.advance(by: .seconds(120))
        case .stop: return server.step { $0.stop(now: $1, &$2) }
        case .close: return server.step { machine, _, effects in machine.close(socketID, CloseCode(rawValue: 4001), reason: "", &effects) }
        case .drop: return server.step { $0.drop(socketID, now: $1, &$2) }
        case .publish: return server.publish("a", to: "one")
        case .closed: return server.closed(1)
        }
    }

    @Test(arguments: State.allCases)
    func `every input in every state has the expected effect`(state: State) throws {
        let rows = try #require(Self.table.first { $0.0 == state }).1
        expectEqual(Set(rows.map(\.0)), Set(Input.allCases))
        for (input, commands, next) in rows {
            var server = self.server(in: state)
            expectEqual(self.state(of: server), state)
            expectEqual(self.apply(input, to: &server).map(\.summary), commands, "\(input)")
            expectEqual(self.state(of: server), next, "\(input)")
            // Whatever the input, no state remains after the connection has ended.
            server.closed(1)
            expect(server.machine.connections.isEmpty && server.machine.connectionIDs.isEmpty)
            expect(server.machine.nextDeadline == nil && server.decide(.accept).isEmpty)
        }
    }

    @Test func `a hook can accept a connection before it is open`() {
        var server = ServerUnderTest(hooks: .init(connections: true))
        expectEqual(server.accepted(1, "/app/key?protocol=7&a=b"), [.run(hook: 1, "connection /app/key?protocol=7&a=b")])
        expect(server.decide(.accept).isEmpty)
        expectEqual(server.opened(1).map(\.summary), ["connection_established"])
    }

    @Test(arguments: [(nil, 4009), (4003, 4003), (1, 1), (-1, 4009), (1_000_000, 4009)] as [(Int?, UInt16)])
    func `a rejection by the hook closes the connection with its code or 4009`(code: Int?, expected: UInt16) {
        var server = ServerUnderTest(hooks: .init(connections: true))
        server.accepted(1)
        server.opened(1)
        let socketID = server.socketID(1)
        expectEqual(
            server.decide(.reject(code: code, message: "no")),
            [
                .send(1, PusherFrames.error(Int(expected), "no")), .close(1, CloseCode(rawValue: expected), "no"),
            ])
        expectNil(server.machine.connectionIDs[ByteString(socketID)])
        expectEqual(server.takeEvents(), [.error(socketID: nil, code: Int(expected), message: "no")])
    }
}

// MARK: - Opening and closing

@Suite struct PusherServerMachineConnectionTests {
    @Test func `an established connection receives its socket ID and the activity timeout`() {
        var server = ServerUnderTest { $0.activityTimeout = .milliseconds(77_900) }
        expect(server.accepted(1).isEmpty)
        let socketID = server.socketID(1)
        expectEqual(server.opened(1), [.send(1, PusherFrames.connectionEstablished(socketID: socketID, activityTimeout: 77))])
        expectEqual(server.takeEvents(), [.connected(socketID: socketID)])
        server.closed(1)
        expectEqual(server.takeEvents(), [.disconnected(socketID: socketID, .peer(.normal, ""))])
    }

    @Test(arguments: [
        ("/app/other?protocol=7", 4001, "Application does not exist"), ("/app/?protocol=7", 4005, "Path not found"),
        ("/other/key?protocol=7", 4005, "Path not found"), ("/app/key", 4008, "Missing protocol version; add the query field protocol=7"),
        ("/app/key?protocol=4", 4007, "Unsupported protocol version 4; use 5, 6 or 7"),
        ("/app/key?protocol=8", 4007, "Unsupported protocol version 8; use 5, 6 or 7"),
    ])
    func `an invalid request is rejected`(target: String, code: UInt16, message: String) {
        var server = ServerUnderTest(hooks: .init(connections: true))
        expectEqual(
            server.accepted(1, target),
            [
                .send(1, PusherFrames.error(Int(code), message)), .close(1, CloseCode(rawValue: code), message),
            ])
        expect(server.opened(1).isEmpty && server.closed(1).isEmpty)
        expectEqual(server.takeEvents(), [.error(socketID: nil, code: Int(code), message: message)])
    }

    @Test(arguments: [
        ("/app/key?protocol=7", 4003, "Application is disabled"), ("/app/other?protocol=7", 4001, "Application does not exist"),
    ])
    func `a disabled app rejects connections with its key`(target: String, code: UInt16, message: String) {
        var server = ServerUnderTest { $0.isEnabled = false }
        expectEqual(
            server.accepted(1, target),
            [
                .send(1, PusherFrames.error(Int(code), message)), .close(1, CloseCode(rawValue: code), message),
            ])
    }

    @Test func `the connection limit counts every connection that is not rejected`() {
        var server = ServerUnderTest { $0.connectionLimit = 2 }
        server.connect(1)
        server.accepted(2)
        for number in 3...4 { expectEqual(server.accepted(number).map(\.summary), ["error 4004", "close 4004"]) }
        server.closed(3)
        expectEqual(server.accepted(5).map(\.summary), ["error 4004", "close 4004"])
        server.closed(2)
        expectEqual(server.connect(6).map(\.summary), ["connection_established"])
    }

    @Test func `a rejection code applies to new connections only`() {
        var server = ServerUnderTest()
        server.connect(1)
        let request = HTTPRequestHead(method: "GET", target: "/app/key?protocol=7")
        let code = CloseCode(rawValue: 4100)
        let commands = server.step { machine, now, effects in
            machine.rejectionCode = code
            machine.accepted(ConnectionID(2), request, now: now, &effects)
        }
        expectEqual(commands.map(\.summary), ["error 4100", "close 4100"])
        expectEqual(server.received(1, pingMessage).map(\.summary), ["pong"])
    }

    @Test func `messages before the connection is established are counted and ignored`() {
        var server = ServerUnderTest(hooks: .init(connections: true))
        server.accepted(1)
        server.received(1, pingMessage, pingMessage)
        server.opened(1)
        server.received(1, pingMessage)
        expect(server.messagesIgnored == 3 && server.takeEvents().isEmpty)
        expectEqual(server.decide(.accept).map(\.summary), ["connection_established"])
    }

    @Test func `stopping closes connections in the order in which they were accepted`() {
        var server = ServerUnderTest()
        for number in [3, 1, 2] { server.connect(number) }
        server.accepted(4, "/app/wrong?protocol=7")
        let message = "The server is stopping. Please reconnect shortly."
        let expected: [Command] = (1...3).flatMap { number in
            [
                .send(number, PusherFrames.error(4200, message)),
                .close(number, CloseCode(rawValue: 4200), "The server is stopping."),
            ]
        }
        expectEqual(server.step { $0.stop(now: $1, &$2) }, expected)
    }

    @Test func `releasing closes connections once`() {
        var server = ServerUnderTest()
        for number in 1...2 { server.connect(number) }
        let expected: [Command] = (1...2).map { .close($0, .goingAway, "The server was released.") }
        expectEqual(server.step { $0.release(&$2) }, expected)
        expect(server.step { $0.stop(now: $1, &$2) }.isEmpty)
        for number in 1...2 { expect(server.closed(number).isEmpty) }
        expect(server.machine.connections.isEmpty)
    }

    @Test func `dropping a connection abandons it and ends its subscriptions`() {
        var server = ServerUnderTest()
        for number in 1...2 {
            server.connect(number)
            server.subscribe(number, "presence-a", user: "\(number)")
        }
        _ = server.takeEvents()
        let socketID = server.socketID(1)
        expectEqual(
            server.step { $0.drop(socketID, now: $1, &$2) }, [.abandon(1), .send(2, PusherFrames.memberRemoved("presence-a", id: "1"))])
        let reason = CloseReason.transport(TransportError(.reset, "The server dropped the connection."))
        expectEqual(
            server.takeEvents(),
            [
                .unsubscribed(socketID: socketID, channel: "presence-a"), .disconnected(socketID: socketID, reason),
            ])
    }

    @Test func `without consumers, no events are delivered`() {
        var server = ServerUnderTest()
        server.step { _, _, effects in effects.routes.remove(ConsumerID(rawValue: 1)) }
        server.connect(1)
        server.subscribe(1, "one")
        server.publish("a", to: "one")
        expect(server.takeEvents().isEmpty)
    }
}

// MARK: - Subscriptions

@Suite struct PusherServerMachineSubscriptionTests {
    enum Signature: String {
        case none, valid, wrongSecret, otherChannel, otherSocket
    }

    @Test(
        arguments: [
            ("one", .none, nil, nil), ("one", .wrongSecret, nil, nil), ("cache", .none, nil, nil),
            ("one", .none, #"{"user_id":"1"}"#, nil),
            ("private-one", .valid, nil, nil), ("private-one", .none, nil, 4009), ("private-one", .wrongSecret, nil, 4009),
            ("private-one", .otherChannel, nil, 4009), ("private-one", .otherSocket, nil, 4009),
            ("private-encrypted-one", .valid, nil, nil), ("private-encrypted-one", .none, nil, 4009),
            ("private-encrypted-one", .wrongSecret, nil, 4009),
            ("presence-one", .valid, #"{"user_id":"1"}"#, nil), ("presence-one", .none, #"{"user_id":"1"}"#, 4009),
            ("presence-one", .wrongSecret, #"{"user_id":"1"}"#, 4009), ("presence-one", .otherSocket, #"{"user_id":"1"}"#, 4009),
            ("presence-one", .valid, nil, 0), ("presence-one", .valid, "{}", 0), ("presence-one", .valid, "text", 0),
            ("", .none, nil, 0), ("with space", .none, nil, 0), ("private-with space", .valid, nil, 0),
        ] as [(String, Signature, String?, Int?)])
    func `a subscription requires a signature that depends on the kind of channel`(
        channel: String, signature: Signature, data: String?, error: Int?
    ) {
        var server = ServerUnderTest()
        server.connect(1)
        let socketID = server.socketID(1)
        func token(_ secret: String, _ socketID: String, _ channel: String) -> String {
            ChannelSignature.token(key: "key", secret: secret, socketID: socketID, channel: channel, channelData: data)
        }
        let auth: String? =
            switch signature {
            case .none: nil
            case .valid: token("secret", socketID, channel)
            case .wrongSecret: token("other", socketID, channel)
            case .otherChannel: token("secret", socketID, channel + "x")
            case .otherSocket: token("secret", "1.2", channel)
            }
        _ = server.takeEvents()
        let commands = server.received(1, PusherFrames.subscribe(channel, auth: auth, channelData: data)).map(\.summary)
        // Error 0 means an error without a code.
        expectEqual(commands, [error.map { "error \($0 == 0 ? "null" : "\($0)")" } ?? "subscription_succeeded"])
        let isSubscribed = server.subscribers(of: channel) == [ConnectionID(1)]
        expectEqual(isSubscribed, (error == nil))
        let events = server.takeEvents().dropFirst()
        if error == nil {
            let userID = ChannelName.kind(of: channel).isPresence ? "1" : nil
            expectEqual(events, [.subscribed(socketID: socketID, channel: channel, userID: userID)])
        } else {
            guard case .subscriptionRejected(socketID, channel, _)? = events.first, events.count == 1 else {
                Issue.record("\(events)")
                return
            }
        }
    }

    @Test func `a second subscription is rejected and the first one stays`() {
        var server = ServerUnderTest()
        server.connect(1)
        expectEqual(server.subscribe(1, "one"), [.send(1, PusherFrames.subscriptionSucceeded("one"))])
        let error = PusherFrames.error(nil, "Existing subscription to channel one", channel: "one")
        expectEqual(server.subscribe(1, "one"), [.send(1, error)])
        expectEqual(server.subscribers(of: "one"), [ConnectionID(1)])
    }

    @Test func `unsubscribing ends the subscription once`() {
        var server = ServerUnderTest()
        server.connect(1)
        let socketID = server.socketID(1)
        server.subscribe(1, "one")
        _ = server.takeEvents()
        for _ in 0..<2 { expect(server.received(1, PusherFrames.unsubscribe("one")).isEmpty) }
        let ended = server.takeEvents().filter { if case .received = $0 { false } else { true } }
        expectEqual(ended, [.unsubscribed(socketID: socketID, channel: "one")])
        expect(server.machine.channels.isEmpty && server.publish("a", to: "one").isEmpty)
        expectEqual(server.subscribe(1, "one").map(\.summary), ["subscription_succeeded"])
    }

    @Test func `a hook accepts or rejects each subscription`() {
        var server = ServerUnderTest(hooks: .init(subscriptions: true))
        server.connect(1)
        expectEqual(server.subscribe(1, "presence-a", user: "7"), [.run(hook: 1, "subscription presence-a as 7")])
        expectEqual(server.subscribe(1, "one"), [.run(hook: 2, "subscription one")])
        // An invalid signature is rejected without running the hook.
        expectEqual(server.received(1, PusherFrames.subscribe("private-b")).map(\.summary), ["error 4009"])
        // A subscription that is awaiting its hook exists.
        expectEqual(server.subscribe(1, "one").map(\.summary), ["error null"])
        expectEqual(server.decide(.reject(code: 4300, message: "no"), hook: 2), [.send(1, PusherFrames.error(4300, "no", channel: "one"))])
        expectEqual(server.decide(.accept, hook: 1).map(\.summary), ["subscription_succeeded"])
        expectEqual(server.subscribe(1, "one"), [.run(hook: 3, "subscription one")])
        // A second decision has no effect.
        expect(server.decide(.accept, hook: 1).isEmpty)
    }

    @Test func `a hook is cancelled by unsubscribing and by closing`() {
        var server = ServerUnderTest(hooks: .init(subscriptions: true))
        server.connect(1)
        server.subscribe(1, "one")
        server.subscribe(1, "two")
        _ = server.takeEvents()
        expectEqual(server.received(1, PusherFrames.unsubscribe("one")), [.cancel(hook: 1)])
        expect(server.decide(.accept, hook: 1).isEmpty && server.machine.channels.isEmpty)
        expectEqual(server.closed(1), [.cancel(hook: 2)])
        expect(server.decide(.accept, hook: 2).isEmpty && server.machine.channels.isEmpty)
        expect(!server.takeEvents().contains { if case .unsubscribed = $0 { true } else { false } })
    }

    // MARK: Presence

    @Test func `members are notified when another member joins or leaves`() {
        var server = ServerUnderTest()
        for number in 1...2 { server.connect(number) }
        expectEqual(
            server.subscribe(1, "presence-a", user: "x"),
            [
                .send(1, PusherFrames.subscriptionSucceeded("presence-a", members: [("x", nil)]))
            ])
        expectEqual(
            server.subscribe(2, "presence-a", user: "y"),
            [
                .send(1, PusherFrames.memberAdded("presence-a", id: "y", info: nil)),
                .send(2, PusherFrames.subscriptionSucceeded("presence-a", members: [("x", nil), ("y", nil)])),
            ])
        expectEqual(
            server.received(1, PusherFrames.unsubscribe("presence-a")), [.send(2, PusherFrames.memberRemoved("presence-a", id: "x"))])
        expectEqual(server.subscribe(1, "presence-a", user: "x").map(\.summary), ["member_added", "subscription_succeeded"])
        expectEqual(server.closed(2), [.send(1, PusherFrames.memberRemoved("presence-a", id: "y"))])
        expect(server.closed(1).isEmpty && server.machine.channels.isEmpty)
    }

    @Test func `a user with several connections joins with the first and leaves with the last`() {
        var server = ServerUnderTest()
        for number in 1...3 { server.connect(number) }
        server.subscribe(1, "presence-a", user: "watcher")
        server.subscribe(2, "presence-a", user: "x")
        expectEqual(
            server.subscribe(3, "presence-a", user: "x"),
            [
                .send(3, PusherFrames.subscriptionSucceeded("presence-a", members: [("watcher", nil), ("x", nil)]))
            ])
        expect(server.closed(2).isEmpty)
        expectEqual(
            server.received(3, PusherFrames.unsubscribe("presence-a")), [.send(1, PusherFrames.memberRemoved("presence-a", id: "x"))])
    }

    @Test func `the member limit counts users and not connections`() {
        var server = ServerUnderTest { $0.memberLimit = 1 }
        for number in 1...3 { server.connect(number) }
        server.subscribe(1, "presence-a", user: "x")
        let message = "The presence channel presence-a is full: it has 1 members"
        expectEqual(
            server.subscribe(2, "presence-a", user: "y"), [.send(2, PusherFrames.error(nil, message, channel: "presence-a"))])
        expectEqual(server.subscribe(3, "presence-a", user: "x").map(\.summary), ["subscription_succeeded"])
        for number in [1, 3] { server.closed(number) }
        expectEqual(server.subscribe(2, "presence-a", user: "y").map(\.summary), ["subscription_succeeded"])
    }

    // MARK: Publishing

    @Test func `a published event goes to all subscribers in order, except the excluded one`() {
        var server = ServerUnderTest()
        for number in 1...4 { server.connect(number) }
        for number in [3, 1, 2] { server.subscribe(number, "one") }
        _ = server.takeEvents()
        let message = PusherFrames.event("a", channel: "one", data: "1")
        func sent(_ numbers: Int...) -> [Command] { numbers.map { .send($0, message) } }
        expectEqual(server.publish("a", to: "one"), sent(3, 1, 2))
        expectEqual(server.publish("a", to: "one", except: server.socketID(1)), sent(3, 2))
        expectEqual(server.publish("a", to: "one", except: server.socketID(4)), sent(3, 1, 2))
        expectEqual(server.publish("a", to: "one", except: "unknown"), sent(3, 1, 2))
        expect(server.publish("a", to: "two").isEmpty)
        let published = PusherServerEvent.published(channel: "one", name: "a", subscribers: 3)
        expectEqual(server.takeEvents(), Array(repeating: published, count: 4) + [.published(channel: "two", name: "a", subscribers: 0)])
    }
}

// MARK: - Client events

@Suite struct PusherServerMachineClientEventTests {
    private func server(
        hooks: PusherServerMachine.Hooks = .init(), channel: String = "private-a", _ change: (inout PusherApp) -> Void = { _ in }
    ) -> ServerUnderTest {
        var server = ServerUnderTest(hooks: hooks, change)
        for number in 1...2 {
            server.connect(number)
            server.subscribe(number, channel, user: channel.hasPrefix("presence-") ? "user\(number)" : nil)
        }
        _ = server.takeEvents()
        return server
    }

    @Test func `a client event goes to the other subscribers`() {
        var server = self.server()
        let socketID = server.socketID(1)
        expectEqual(
            server.clientEvent(1, "client-a", on: "private-a", data: #"{"on": true}"#),
            [
                .send(2, PusherFrames.event("client-a", channel: "private-a", data: #"{"on": true}"#))
            ])
        expectEqual(
            server.takeEvents().last, .clientEvent(socketID: socketID, channel: "private-a", name: "client-a", data: #"{"on": true}"#))
    }

    @Test func `a client event on a presence channel contains the ID of its user`() {
        var server = self.server(channel: "presence-a")
        expectEqual(
            server.clientEvent(1, "client-a", on: "presence-a"),
            [
                .send(2, PusherFrames.event("client-a", channel: "presence-a", data: "1", userID: "user1"))
            ])
    }

    @Test(arguments: [
        (#"{"event":"client-a","data":"1"}"#, "Client events require a channel"),
        (
            #"{"event":"client-a","channel":"one","data":"1"}"#, "Client events are supported on private and presence channels only"
        ),
        (
            #"{"event":"client-a","channel":"private-encrypted-a","data":"1"}"#,
            "Client events are supported on private and presence channels only"
        ),
        (#"{"event":"client-a","channel":"private-b","data":"1"}"#, "The connection is not subscribed to private-b"),
        (
            #"{"event":"client-\#(String(repeating: "x", count: 194))","channel":"private-a","data":"1"}"#,
            "The event name has 201 characters; use at most 200."
        ),
        (
            #"{"event":"client-a","channel":"private-a","data":"\#(String(repeating: "x", count: 10_241))"}"#,
            "The data of a client event must not exceed 10240 bytes"
        ),
    ])
    func `a client event that breaks a rule is rejected with 4301`(frame: String, message: String) throws {
        var server = self.server()
        let commands = server.received(1, .text(frame))
        let channel = try JSONValue(parsing: frame)["channel"]?.string
        expectEqual(commands, [.send(1, PusherFrames.error(4301, message, channel: channel))])
        expectEqual(server.takeEvents().last, .error(socketID: server.socketID(1), code: 4301, message: message))
    }

    @Test func `an app can disable client events`() {
        var server = self.server { $0.allowsClientEvents = false }
        let error = PusherFrames.error(4301, "The app does not have client messaging enabled.")
        expectEqual(server.clientEvent(1, "client-a", on: "private-a"), [.send(1, error)])
    }

    @Test func `the rate limit applies per connection and second`() {
        var server = self.server { $0.clientEventsPerSecond = 2 }
        func summaries(_ number: Int) -> [String] { server.clientEvent(number, "client-a", on: "private-a").map(\.summary) }
        expect(summaries(1) == ["client-a"] && summaries(1) == ["client-a"] && summaries(1) == ["error 4301"])
        expectEqual(summaries(2), ["client-a"])
        server.advance(by: .milliseconds(999))
        expectEqual(summaries(1), ["error 4301"])
        server.advance(by: .milliseconds(1))
        expectEqual(summaries(1), ["client-a"])
    }

    @Test func `a hook authorizes one client event per connection at a time`() {
        var server = self.server(hooks: .init(clientEvents: true))
        expectEqual(server.clientEvent(1, "client-a", on: "private-a"), [.run(hook: 1, "client event client-a on private-a: 1")])
        expect(server.clientEvent(1, "client-b", on: "private-a").isEmpty)
        expect(server.clientEvent(1, "client-c", on: "private-a").isEmpty)
        // Another connection's event does not wait.
        expectEqual(server.clientEvent(2, "client-d", on: "private-a").map(\.summary), ["run client event client-d on private-a: 1"])
        expectEqual(
            server.decide(.accept, hook: 1),
            [
                .send(2, PusherFrames.event("client-a", channel: "private-a", data: "1")),
                .run(hook: 3, "client event client-b on private-a: 1"),
            ])
        expectEqual(
            server.decide(.reject(code: nil, message: "no"), hook: 3),
            [
                .send(1, PusherFrames.error(4301, "no", channel: "private-a")), .run(hook: 4, "client event client-c on private-a: 1"),
            ])
        expectEqual(
            server.decide(.reject(code: 4302, message: "no"), hook: 4), [.send(1, PusherFrames.error(4302, "no", channel: "private-a"))])
        expectEqual(server.clientEvent(1, "client-e", on: "private-a"), [.run(hook: 5, "client event client-e on private-a: 1")])
    }

    @Test func `an event whose sender has unsubscribed is not sent`() {
        var server = self.server(hooks: .init(clientEvents: true))
        server.clientEvent(1, "client-a", on: "private-a")
        server.clientEvent(1, "client-b", on: "private-a")
        server.received(1, PusherFrames.unsubscribe("private-a"))
        expectEqual(server.decide(.accept, hook: 1).map(\.summary), ["run client event client-b on private-a: 1"])
        expectEqual(server.closed(1), [.cancel(hook: 2)])
        expect(server.decide(.accept, hook: 2).isEmpty)
    }
}

// MARK: - Heartbeats

@Suite struct PusherServerMachineTimeTests {
    @Test func `an inactive connection is pinged and then closed with 4201`() {
        var server = ServerUnderTest()
        server.connect(1)
        expect(server.advance(by: .seconds(119)).isEmpty)
        expectEqual(server.advance(by: .seconds(1)), [.send(1, PusherFrames.ping)])
        expect(server.advance(by: .seconds(29)).isEmpty)
        let message = "Pong reply not received in time"
        expectEqual(
            server.advance(by: .seconds(1)), [.send(1, PusherFrames.error(4201, message)), .close(1, CloseCode(rawValue: 4201), message)])
        // The connection closes. A late message does not restart the heartbeat.
        server.received(1, PusherFrames.pong)
        expectNil(server.machine.nextDeadline)
    }

    @Test func `after a standstill, a client whose pong is missing is asked again, and closed without an answer`() {
        for answers in [false, true] {
            var server = ServerUnderTest()
            server.connect(1)
            expectEqual(server.advance(by: .seconds(120)).map(\.summary), ["ping"])
            expectEqual(server.standStill(for: .seconds(1_000)).map(\.summary), ["ping"])
            expect(server.advance(by: .seconds(29)).isEmpty)
            if answers {
                server.received(1, PusherFrames.pong)
                expect(server.advance(by: .seconds(119)).isEmpty)
                expectEqual(server.advance(by: .seconds(1)).map(\.summary), ["ping"])
            } else {
                expectEqual(server.advance(by: .seconds(1)).map(\.summary), ["error 4201", "close 4201"])
            }
        }
        // A busy process that stands still again finds a lost client.
        var server = ServerUnderTest()
        server.connect(1)
        server.advance(by: .seconds(120))
        server.standStill(for: .seconds(1_000))
        expectEqual(server.standStill(for: .seconds(1_000)).map(\.summary), ["error 4201", "close 4201"])
        // A process that runs is late by less than a second.
        server = ServerUnderTest()
        server.connect(1)
        server.advance(by: .seconds(120))
        expectEqual(server.standStill(for: .milliseconds(30_999)).map(\.summary), ["error 4201", "close 4201"])
    }

    @Test(arguments: [PusherFrames.pong, PusherFrames.ping, .text("invalid"), .binary([1]), TransportMessage(.ping, [])])
    func `any message restarts the heartbeat`(message: TransportMessage) {
        var server = ServerUnderTest()
        server.connect(1)
        server.advance(by: .seconds(149))
        server.received(1, message)
        // Were the pong still awaited, the connection would close after a second.
        expect(server.advance(by: .seconds(119)).isEmpty)
        expectEqual(server.advance(by: .seconds(1)).map(\.summary), ["ping"])
    }

    @Test func `receiving a message does not reschedule the timer`() {
        var server = ServerUnderTest()
        server.connect(1)
        for second in 1...100 {
            server.advance(by: .seconds(1))
            server.received(1, pingMessage)
            expectEqual(server.machine.nextDeadline, seconds(120), "after \(second) seconds")
        }
        expect(server.advance(by: .seconds(20)).isEmpty)
        expectEqual(server.machine.nextDeadline, seconds(220))
    }

    @Test func `the heartbeats of thousands of connections share one queue`() {
        var server = ServerUnderTest()
        for number in 1...2_000 {
            server.connect(number)
            server.advance(by: .milliseconds(1))
        }
        for number in stride(from: 2, through: 2_000, by: 2) { server.received(number, pingMessage) }
        let pings = server.advance(by: .seconds(120))
        expectEqual(pings.filter { $0.summary == "ping" }.count, 2_000)
        expect(pings.first == .send(1, PusherFrames.ping) && pings.last == .send(2_000, PusherFrames.ping))
        for number in 1...2_000 { server.closed(number) }
        expectNil(server.machine.nextDeadline)
    }

    @Test func `timeouts of zero do not cause an endless loop`() {
        var server = ServerUnderTest {
            $0.activityTimeout = .zero
            $0.pongTimeout = .zero
        }
        server.connect(1)
        expectEqual(server.advance(by: .milliseconds(2)).map(\.summary), ["ping", "error 4201", "close 4201"])
    }

    @Test func `a suspended heartbeat sends no pings and starts anew when it is resumed`() {
        var server = ServerUnderTest()
        server.connect(1)
        server.advance(by: .seconds(100))
        server.suspendHeartbeat(1)
        expect(server.advance(by: .seconds(3600)).isEmpty)
        server.received(1, pingMessage)
        server.suspendHeartbeat(1, false)
        expect(server.advance(by: .seconds(119)).isEmpty)
        expectEqual(server.advance(by: .seconds(1)).map(\.summary), ["ping"])
    }

    @Test func `a heartbeat is suspended as long as there is a reason`() {
        var server = ServerUnderTest()
        server.connect(1)
        server.pauseReading(1)
        server.suspendHeartbeat(1)
        server.suspendHeartbeat(1, false)
        expect(server.advance(by: .seconds(3600)).isEmpty)
        server.suspendHeartbeat(1)
        server.pauseReading(1, false)
        expect(server.advance(by: .seconds(3600)).isEmpty)
        server.suspendHeartbeat(1, false)
        expectEqual(server.advance(by: .seconds(120)).map(\.summary), ["ping"])
    }

    @Test func `a heartbeat that is suspended after a ping expects no pong`() {
        var server = ServerUnderTest()
        server.connect(1)
        server.advance(by: .seconds(120))
        server.suspendHeartbeat(1)
        expect(server.advance(by: .seconds(1000)).isEmpty)
        server.suspendHeartbeat(1, false)
        expectEqual(server.advance(by: .seconds(120)).map(\.summary), ["ping"])
    }

    @Test func `a heartbeat can be suspended before the connection is established`() {
        var server = ServerUnderTest()
        server.accepted(1)
        server.suspendHeartbeat(1)
        server.opened(1)
        expect(server.advance(by: .seconds(1000)).isEmpty)
        server.suspendHeartbeat(1, false)
        expectEqual(server.advance(by: .seconds(120)).map(\.summary), ["ping"])
    }

    @Test func `resuming does not restart the heartbeat of a connection that timed out`() {
        var server = ServerUnderTest()
        server.connect(1)
        server.advance(by: .seconds(150))
        server.suspendHeartbeat(1)
        server.suspendHeartbeat(1, false)
        expect(server.advance(by: .seconds(1000)).isEmpty)
    }
}
