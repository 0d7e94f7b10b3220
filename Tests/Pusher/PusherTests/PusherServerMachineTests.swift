import RealtimeJSON
@testable import PusherServer
import PusherWire
import RealtimeCore
import RealtimeTesting
import Testing

/// A command of the machine in comparable form.
private enum Command: Equatable {
    case send(Int, String)
    case close(Int, CloseCode, String)
    case abandon(Int)
    case run(hook: UInt64, String)
    case cancel(hook: UInt64)

    static func send(_ connection: Int, _ message: WebSocketMessage) -> Self {
        .send(connection, String(decoding: message.bytes, as: UTF8.self))
    }

    /// A short form: the event's name, with the code of an error, or the command's name.
    var summary: String {
        switch self {
        case .send(_, let text):
            guard let frame = try? JSONValue(parsing: text), let event = frame["event"]?.string else { return "raw" }
            let name = event.split(separator: ":").last ?? ""
            return event == EventName.error ? "error \(frame["data"]?["code"]?.int.map { "\($0)" } ?? "null")" : String(name)
        case .close(_, let code, _): return "close \(code)"
        case .abandon: return "abandon"
        case .run(_, let what): return "run \(what)"
        case .cancel: return "cancel"
        }
    }
}

/// The machine without a driver: every input returns the commands that it caused.
private struct ServerUnderTest {
    private(set) var machine: PusherServerMachine
    private var effects = Effects<PusherServerMachine>()
    private(set) var now = Instant(nanoseconds: 0)
    private var events: [PusherServerEvent] = []
    /// The hooks that were started, oldest first.
    private(set) var hooks: [UInt64] = []

    init(hooks: PusherServerMachine.Hooks = .init(), _ change: (inout PusherApp) -> Void = { _ in }) {
        var app = PusherApp(id: "1", key: "key", secret: "secret")
        change(&app)
        self.machine = PusherServerMachine(app, hooks: hooks, seed: 7)
        self.effects.routes.add(ConsumerID(rawValue: 1), to: &self.machine.eventRoute)
    }

    @discardableResult
    mutating func step(
        _ input: (inout PusherServerMachine, Instant, inout Effects<PusherServerMachine>) -> Void
    ) -> [Command] {
        input(&self.machine, self.now, &self.effects)
        let commands = self.effects.commands.compactMap { command -> Command? in
            switch command {
            case .send(let id, let message): return .send(Int(id.rawValue), message)
            case .close(let id, let code, let reason): return .close(Int(id.rawValue), code, reason)
            case .abandon(let id): return .abandon(Int(id.rawValue))
            case .work(let id, let work): return .run(hook: id.rawValue, Self.describe(work))
            case .cancel(let id): return .cancel(hook: id.rawValue)
            case .open, .resume, .endConsumers, .finish, .log:
                Issue.record("unexpected command \(command)")
                return nil
            }
        }
        for case .run(let hook, _) in commands { self.hooks.append(hook) }
        self.events += self.effects.deliveries
        self.effects.removeAll()
        return commands
    }

    private static func describe(_ work: PusherServerMachine.Work) -> String {
        switch work {
        case .connection(let attempt): "connection \(attempt.request.target)"
        case .subscription(let attempt): "subscription \(attempt.channel)\(attempt.userID.map { " as \($0)" } ?? "")"
        case .clientEvent(let event): "client event \(event.name) on \(event.channel): \(event.data)"
        }
    }

    mutating func takeEvents() -> [PusherServerEvent] {
        defer { self.events = [] }
        return self.events
    }

    var messagesIgnored: Int { self.effects.counters.messagesIgnored }

    func socketID(_ number: Int) -> String { self.machine.connections[ConnectionID(number)]?.socketID ?? "none" }

    // MARK: Inputs

    @discardableResult
    mutating func accepted(_ number: Int, _ target: String = "/app/key?protocol=7") -> [Command] {
        self.step { $0.accepted(ConnectionID(number), HTTPRequestHead(method: "GET", target: target), now: $1, &$2) }
    }

    @discardableResult
    mutating func opened(_ number: Int) -> [Command] {
        self.step { $0.opened(ConnectionID(number), head: HTTPResponseHead(status: 101), now: $1, &$2) }
    }

    /// Establishes a connection on a server without a connection hook.
    @discardableResult
    mutating func connect(_ number: Int) -> [Command] { self.accepted(number) + self.opened(number) }

    @discardableResult
    mutating func received(_ number: Int, _ messages: WebSocketMessage...) -> [Command] {
        self.step { $0.received(ConnectionID(number), MessageBatch(messages), now: $1, &$2) }
    }

    @discardableResult
    mutating func closed(_ number: Int) -> [Command] {
        self.step { $0.closed(ConnectionID(number), .peer(.normal, ""), now: $1, &$2) }
    }

    @discardableResult
    mutating func decide(_ decision: PusherServerDecision, hook: UInt64? = nil) -> [Command] {
        let hook = hook ?? self.hooks.last ?? 0
        return self.step { $0.workFinished(WorkID(rawValue: hook), decision, now: $1, &$2) }
    }

    /// Moves time and runs the timeouts that are due, as the driver does.
    @discardableResult
    mutating func advance(_ duration: Duration) -> [Command] {
        let end = self.now.advanced(by: duration)
        var commands: [Command] = []
        while let next = self.machine.nextDeadline, next <= end {
            self.now = max(self.now, next)
            commands += self.step { $0.timeout(now: $1, &$2) }
            #expect(self.machine.nextDeadline.map { $0 > self.now } ?? true, "the driver would call timeout forever")
        }
        self.now = end
        return commands
    }

    /// Moves time without running timeouts, as when the driver's timer is late.
    mutating func skip(_ duration: Duration) { self.now = self.now.advanced(by: duration) }

    @discardableResult
    mutating func publish(_ event: String, to channel: String, except socketID: String? = nil) -> [Command] {
        self.step { $0.publish(event, to: channel, data: "1", except: socketID, now: $1, &$2) }
    }

    /// A subscription request with a valid signature where the channel requires one.
    func subscription(_ number: Int, _ channel: String, user: String? = nil) -> WebSocketMessage {
        guard ChannelName.kind(of: channel).needsAuthorization else { return PusherFrames.subscribe(channel) }
        let data = user.map { #"{"user_id":"\#($0)"}"# }
        let auth = ChannelSignature.token(
            key: "key", secret: "secret", socketID: self.socketID(number), channel: channel, channelData: data)
        return PusherFrames.subscribe(channel, auth: auth, channelData: data)
    }

    @discardableResult
    mutating func subscribe(_ number: Int, _ channel: String, user: String? = nil) -> [Command] {
        self.received(number, self.subscription(number, channel, user: user))
    }

    @discardableResult
    mutating func clientEvent(_ number: Int, _ name: String, on channel: String, data: String = "1") -> [Command] {
        self.received(number, PusherFrames.clientEvent(name, channel: channel, data: Array(data.utf8)))
    }
}

extension ConnectionID {
    fileprivate init(_ number: Int) { self.init(rawValue: UInt64(number)) }
}

private let pingMessage = PusherFrames.ping
private func seconds(_ seconds: Int64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }

// MARK: - States and inputs

@Suite struct PusherServerMachineStateTests {
    enum State: String, CaseIterable {
        case unknown, opening, openingWithHook, awaitingHook, established, rejected
    }

    enum Input: String, CaseIterable {
        case opened, message, accept, reject, timeout, stop, close, drop, sendRaw, publish, closed
    }

    private static let reconnectRequest = ["error 4200", "close 4200"]
    private static let rejection = ["error 4009", "close 4009"]

    /// The commands that each input causes in each state, and the state that follows.
    private static let table: [(State, [(Input, [String], State)])] = [
        (
            .unknown,
            [
                (.opened, [], .unknown), (.message, [], .unknown), (.accept, [], .unknown), (.reject, [], .unknown),
                (.timeout, [], .unknown), (.stop, [], .unknown), (.close, [], .unknown), (.drop, [], .unknown),
                (.sendRaw, [], .unknown), (.publish, [], .unknown), (.closed, [], .unknown),
            ]
        ),
        (
            .opening,
            [
                (.opened, ["connection_established"], .established), (.message, [], .opening), (.accept, [], .opening),
                (.reject, [], .opening), (.timeout, [], .opening), (.stop, reconnectRequest, .opening), (.close, ["close 4001"], .opening),
                (.drop, ["abandon"], .unknown), (.sendRaw, ["raw"], .opening), (.publish, [], .opening), (.closed, [], .unknown),
            ]
        ),
        (
            .openingWithHook,
            [
                (.opened, [], .awaitingHook), (.message, [], .openingWithHook), (.accept, [], .opening), (.reject, rejection, .rejected),
                (.timeout, [], .openingWithHook), (.stop, reconnectRequest, .openingWithHook), (.close, ["close 4001"], .openingWithHook),
                (.drop, ["abandon", "cancel"], .unknown), (.sendRaw, ["raw"], .openingWithHook), (.publish, [], .openingWithHook),
                (.closed, ["cancel"], .unknown),
            ]
        ),
        (
            .awaitingHook,
            [
                (.opened, [], .awaitingHook), (.message, [], .awaitingHook), (.accept, ["connection_established"], .established),
                (.reject, rejection, .rejected), (.timeout, [], .awaitingHook), (.stop, reconnectRequest, .awaitingHook),
                (.close, ["close 4001"], .awaitingHook), (.drop, ["abandon", "cancel"], .unknown), (.sendRaw, ["raw"], .awaitingHook),
                (.publish, [], .awaitingHook), (.closed, ["cancel"], .unknown),
            ]
        ),
        (
            .established,
            [
                (.opened, [], .established), (.message, ["pong"], .established), (.accept, [], .established), (.reject, [], .established),
                (.timeout, ["ping"], .established), (.stop, reconnectRequest, .established), (.close, ["close 4001"], .established),
                (.drop, ["abandon"], .unknown), (.sendRaw, ["raw"], .established), (.publish, [], .established), (.closed, [], .unknown),
            ]
        ),
        (
            .rejected,
            [
                (.opened, [], .rejected), (.message, [], .rejected), (.accept, [], .rejected), (.reject, [], .rejected),
                (.timeout, [], .rejected), (.stop, [], .rejected), (.close, [], .rejected), (.drop, [], .rejected),
                (.sendRaw, [], .rejected), (.publish, [], .rejected), (.closed, [], .unknown),
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
        case .timeout: return server.advance(.seconds(120))
        case .stop: return server.step { $0.stop(now: $1, &$2) }
        case .close: return server.step { machine, _, effects in machine.close(socketID, CloseCode(rawValue: 4001), reason: "", &effects) }
        case .drop: return server.step { $0.drop(socketID, now: $1, &$2) }
        case .sendRaw: return server.step { machine, _, effects in machine.sendRaw("raw", to: socketID, &effects) }
        case .publish: return server.publish("a", to: "one")
        case .closed: return server.closed(1)
        }
    }

    @Test(arguments: State.allCases)
    func `every input in every state has the expected effect`(state: State) throws {
        let rows = try #require(Self.table.first { $0.0 == state }).1
        #expect(Set(rows.map(\.0)) == Set(Input.allCases))
        for (input, commands, next) in rows {
            var server = self.server(in: state)
            #expect(self.state(of: server) == state)
            #expect(self.apply(input, to: &server).map(\.summary) == commands, "\(input)")
            #expect(self.state(of: server) == next, "\(input)")
            // Whatever the input, no state remains after the connection has ended.
            server.closed(1)
            #expect(server.machine.connections.isEmpty && server.machine.connectionIDs.isEmpty)
            #expect(server.machine.nextDeadline == nil && server.decide(.accept).isEmpty)
        }
    }

    @Test func `a hook can accept a connection before it is open`() {
        var server = ServerUnderTest(hooks: .init(connections: true))
        #expect(server.accepted(1, "/app/key?protocol=7&a=b") == [.run(hook: 1, "connection /app/key?protocol=7&a=b")])
        #expect(server.decide(.accept).isEmpty)
        #expect(server.opened(1).map(\.summary) == ["connection_established"])
    }

    @Test(arguments: [(nil, 4009), (4003, 4003), (1, 1), (-1, 4009), (1_000_000, 4009)] as [(Int?, UInt16)])
    func `a rejection by the hook closes the connection with its code or 4009`(code: Int?, expected: UInt16) {
        var server = ServerUnderTest(hooks: .init(connections: true))
        server.accepted(1)
        server.opened(1)
        let socketID = server.socketID(1)
        #expect(
            server.decide(.reject(code: code, message: "no")) == [
                .send(1, PusherFrames.error(Int(expected), "no")), .close(1, CloseCode(rawValue: expected), "no"),
            ])
        #expect(server.machine.connectionIDs[socketID] == nil && server.takeEvents().isEmpty)
    }
}

// MARK: - Opening and closing

@Suite struct PusherServerMachineConnectionTests {
    @Test func `an established connection receives its socket ID and the activity timeout`() {
        var server = ServerUnderTest { $0.activityTimeout = .milliseconds(77_900) }
        #expect(server.accepted(1).isEmpty)
        let socketID = server.socketID(1)
        #expect(server.opened(1) == [.send(1, PusherFrames.connectionEstablished(socketID: socketID, activityTimeout: 77))])
        #expect(server.takeEvents() == [.connected(socketID: socketID)])
        server.closed(1)
        #expect(server.takeEvents() == [.disconnected(socketID: socketID, .peer(.normal, ""))])
    }

    @Test(arguments: [
        ("/app/other?protocol=7", 4001, "Application does not exist"), ("/app/?protocol=7", 4005, "Path not found"),
        ("/other/key?protocol=7", 4005, "Path not found"), ("/app/key", 4008, "Missing protocol version; add the query field protocol=7"),
        ("/app/key?protocol=4", 4007, "Unsupported protocol version 4; use 5, 6 or 7"),
        ("/app/key?protocol=8", 4007, "Unsupported protocol version 8; use 5, 6 or 7"),
    ])
    func `an invalid request is rejected`(target: String, code: UInt16, message: String) {
        var server = ServerUnderTest(hooks: .init(connections: true))
        #expect(
            server.accepted(1, target) == [
                .send(1, PusherFrames.error(Int(code), message)), .close(1, CloseCode(rawValue: code), message),
            ])
        #expect(server.opened(1).isEmpty && server.closed(1).isEmpty && server.takeEvents().isEmpty)
    }

    @Test func `the connection limit counts every connection that is not rejected`() {
        var server = ServerUnderTest { $0.connectionLimit = 2 }
        server.connect(1)
        server.accepted(2)
        for number in 3...4 { #expect(server.accepted(number).map(\.summary) == ["error 4004", "close 4004"]) }
        server.closed(3)
        #expect(server.accepted(5).map(\.summary) == ["error 4004", "close 4004"])
        server.closed(2)
        #expect(server.connect(6).map(\.summary) == ["connection_established"])
    }

    @Test func `a rejection code applies to new connections only`() {
        var server = ServerUnderTest()
        server.connect(1)
        server.step { machine, _, _ in machine.faults.rejectionCode = CloseCode(rawValue: 4100) }
        #expect(server.accepted(2).map(\.summary) == ["error 4100", "close 4100"])
        #expect(server.received(1, pingMessage).map(\.summary) == ["pong"])
    }

    @Test func `messages before the connection is established are counted and ignored`() {
        var server = ServerUnderTest(hooks: .init(connections: true))
        server.accepted(1)
        server.received(1, pingMessage, pingMessage)
        server.opened(1)
        server.received(1, pingMessage)
        #expect(server.messagesIgnored == 3 && server.takeEvents().isEmpty)
        #expect(server.decide(.accept).map(\.summary) == ["connection_established"])
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
        #expect(server.step { $0.stop(now: $1, &$2) } == expected)
    }

    @Test func `releasing closes connections once`() {
        var server = ServerUnderTest()
        for number in 1...2 { server.connect(number) }
        let expected: [Command] = (1...2).map { .close($0, .goingAway, "The server was released.") }
        #expect(server.step { $0.release(&$2) } == expected)
        #expect(server.step { $0.stop(now: $1, &$2) }.isEmpty)
        for number in 1...2 { #expect(server.closed(number).isEmpty) }
        #expect(server.machine.connections.isEmpty)
    }

    @Test func `dropping a connection abandons it and ends its subscriptions`() {
        var server = ServerUnderTest()
        for number in 1...2 {
            server.connect(number)
            server.subscribe(number, "presence-a", user: "\(number)")
        }
        _ = server.takeEvents()
        let socketID = server.socketID(1)
        #expect(
            server.step { $0.drop(socketID, now: $1, &$2) } == [.abandon(1), .send(2, PusherFrames.memberRemoved("presence-a", id: "1"))])
        let reason = CloseReason.transport(TransportError(.reset, "The server dropped the connection."))
        #expect(
            server.takeEvents() == [
                .unsubscribed(socketID: socketID, channel: "presence-a"), .disconnected(socketID: socketID, reason),
            ])
    }

    @Test func `without consumers, no events are delivered`() {
        var server = ServerUnderTest()
        server.step { _, _, effects in effects.routes.remove(ConsumerID(rawValue: 1)) }
        server.connect(1)
        server.subscribe(1, "one")
        server.publish("a", to: "one")
        #expect(server.takeEvents().isEmpty)
    }
}

// MARK: - Subscriptions

@Suite struct PusherServerMachineSubscriptionTests {
    enum Signature: String {
        case none, valid, wrongSecret, otherChannel, otherSocket
    }

    @Test(
        arguments: [
            ("one", .none, nil, nil), ("one", .wrongSecret, nil, nil), ("cache-one", .none, nil, nil),
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
        // Error 0 stands for an error without a code.
        #expect(commands == [error.map { "error \($0 == 0 ? "null" : "\($0)")" } ?? "subscription_succeeded"])
        let isSubscribed = server.machine.channels[channel]?.subscribers == [ConnectionID(1)]
        #expect(isSubscribed == (error == nil))
        let events = server.takeEvents().dropFirst()
        if error == nil {
            let userID = ChannelName.kind(of: channel) == .presence ? "1" : nil
            #expect(events == [.subscribed(socketID: socketID, channel: channel, userID: userID)])
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
        #expect(server.subscribe(1, "one") == [.send(1, PusherFrames.subscriptionSucceeded("one"))])
        let error = PusherFrames.error(nil, "Existing subscription to channel one", channel: "one")
        #expect(server.subscribe(1, "one") == [.send(1, error)])
        #expect(server.machine.channels["one"]?.subscribers == [ConnectionID(1)])
    }

    @Test func `unsubscribing ends the subscription once`() {
        var server = ServerUnderTest()
        server.connect(1)
        let socketID = server.socketID(1)
        server.subscribe(1, "one")
        _ = server.takeEvents()
        for _ in 0..<2 { #expect(server.received(1, PusherFrames.unsubscribe("one")).isEmpty) }
        let ended = server.takeEvents().filter { if case .received = $0 { false } else { true } }
        #expect(ended == [.unsubscribed(socketID: socketID, channel: "one")])
        #expect(server.machine.channels.isEmpty && server.publish("a", to: "one").isEmpty)
        #expect(server.subscribe(1, "one").map(\.summary) == ["subscription_succeeded"])
    }

    @Test func `a hook accepts or rejects each subscription`() {
        var server = ServerUnderTest(hooks: .init(subscriptions: true))
        server.connect(1)
        #expect(server.subscribe(1, "presence-a", user: "7") == [.run(hook: 1, "subscription presence-a as 7")])
        #expect(server.subscribe(1, "one") == [.run(hook: 2, "subscription one")])
        // An invalid signature is rejected without running the hook.
        #expect(server.received(1, PusherFrames.subscribe("private-b")).map(\.summary) == ["error 4009"])
        // A subscription that is awaiting its hook exists.
        #expect(server.subscribe(1, "one").map(\.summary) == ["error null"])
        #expect(server.decide(.reject(code: 4300, message: "no"), hook: 2) == [.send(1, PusherFrames.error(4300, "no", channel: "one"))])
        #expect(server.decide(.accept, hook: 1).map(\.summary) == ["subscription_succeeded"])
        #expect(server.subscribe(1, "one") == [.run(hook: 3, "subscription one")])
        // A second decision has no effect.
        #expect(server.decide(.accept, hook: 1).isEmpty)
    }

    @Test func `a hook is cancelled by unsubscribing and by closing`() {
        var server = ServerUnderTest(hooks: .init(subscriptions: true))
        server.connect(1)
        server.subscribe(1, "one")
        server.subscribe(1, "two")
        _ = server.takeEvents()
        #expect(server.received(1, PusherFrames.unsubscribe("one")) == [.cancel(hook: 1)])
        #expect(server.decide(.accept, hook: 1).isEmpty && server.machine.channels.isEmpty)
        #expect(server.closed(1) == [.cancel(hook: 2)])
        #expect(server.decide(.accept, hook: 2).isEmpty && server.machine.channels.isEmpty)
        #expect(!server.takeEvents().contains { if case .unsubscribed = $0 { true } else { false } })
    }

    // MARK: Presence

    @Test func `members are notified when another member joins or leaves`() {
        var server = ServerUnderTest()
        for number in 1...2 { server.connect(number) }
        #expect(
            server.subscribe(1, "presence-a", user: "x") == [
                .send(1, PusherFrames.subscriptionSucceeded("presence-a", members: [("x", nil)]))
            ])
        #expect(
            server.subscribe(2, "presence-a", user: "y") == [
                .send(1, PusherFrames.memberAdded("presence-a", id: "y", info: nil)),
                .send(2, PusherFrames.subscriptionSucceeded("presence-a", members: [("x", nil), ("y", nil)])),
            ])
        #expect(
            server.received(1, PusherFrames.unsubscribe("presence-a")) == [.send(2, PusherFrames.memberRemoved("presence-a", id: "x"))])
        #expect(server.subscribe(1, "presence-a", user: "x").map(\.summary) == ["member_added", "subscription_succeeded"])
        #expect(server.closed(2) == [.send(1, PusherFrames.memberRemoved("presence-a", id: "y"))])
        #expect(server.closed(1).isEmpty && server.machine.channels.isEmpty)
    }

    @Test func `a user with several connections joins with the first and leaves with the last`() {
        var server = ServerUnderTest()
        for number in 1...3 { server.connect(number) }
        server.subscribe(1, "presence-a", user: "watcher")
        server.subscribe(2, "presence-a", user: "x")
        #expect(
            server.subscribe(3, "presence-a", user: "x") == [
                .send(3, PusherFrames.subscriptionSucceeded("presence-a", members: [("watcher", nil), ("x", nil)]))
            ])
        #expect(server.closed(2).isEmpty)
        #expect(
            server.received(3, PusherFrames.unsubscribe("presence-a")) == [.send(1, PusherFrames.memberRemoved("presence-a", id: "x"))])
    }

    @Test func `the member limit counts users and not connections`() {
        var server = ServerUnderTest { $0.memberLimit = 1 }
        for number in 1...3 { server.connect(number) }
        server.subscribe(1, "presence-a", user: "x")
        let message = "The presence channel presence-a is full: it has 1 members"
        #expect(
            server.subscribe(2, "presence-a", user: "y") == [.send(2, PusherFrames.error(nil, message, channel: "presence-a"))])
        #expect(server.subscribe(3, "presence-a", user: "x").map(\.summary) == ["subscription_succeeded"])
        for number in [1, 3] { server.closed(number) }
        #expect(server.subscribe(2, "presence-a", user: "y").map(\.summary) == ["subscription_succeeded"])
    }

    // MARK: Publishing

    @Test func `a published event goes to all subscribers in order, except the excluded one`() {
        var server = ServerUnderTest()
        for number in 1...4 { server.connect(number) }
        for number in [3, 1, 2] { server.subscribe(number, "one") }
        _ = server.takeEvents()
        let message = PusherFrames.event("a", channel: "one", data: "1")
        func sent(_ numbers: Int...) -> [Command] { numbers.map { .send($0, message) } }
        #expect(server.publish("a", to: "one") == sent(3, 1, 2))
        #expect(server.publish("a", to: "one", except: server.socketID(1)) == sent(3, 2))
        #expect(server.publish("a", to: "one", except: server.socketID(4)) == sent(3, 1, 2))
        #expect(server.publish("a", to: "one", except: "unknown") == sent(3, 1, 2))
        #expect(server.publish("a", to: "two").isEmpty)
        let published = PusherServerEvent.published(channel: "one", name: "a", subscribers: 3)
        #expect(server.takeEvents() == Array(repeating: published, count: 4) + [.published(channel: "two", name: "a", subscribers: 0)])
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
        #expect(
            server.clientEvent(1, "client-a", on: "private-a", data: #"{"on": true}"#) == [
                .send(2, PusherFrames.event("client-a", channel: "private-a", data: #"{"on": true}"#))
            ])
        #expect(
            server.takeEvents().last == .clientEvent(socketID: socketID, channel: "private-a", name: "client-a", data: #"{"on": true}"#))
    }

    @Test func `a client event on a presence channel contains the ID of its user`() {
        var server = self.server(channel: "presence-a")
        #expect(
            server.clientEvent(1, "client-a", on: "presence-a") == [
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
        #expect(commands == [.send(1, PusherFrames.error(4301, message, channel: channel))])
    }

    @Test func `an app can disable client events`() {
        var server = self.server { $0.allowsClientEvents = false }
        let error = PusherFrames.error(4301, "The app does not have client messaging enabled.")
        #expect(server.clientEvent(1, "client-a", on: "private-a") == [.send(1, error)])
    }

    @Test func `the rate limit applies per connection and second`() {
        var server = self.server { $0.clientEventsPerSecond = 2 }
        func summaries(_ number: Int) -> [String] { server.clientEvent(number, "client-a", on: "private-a").map(\.summary) }
        #expect(summaries(1) == ["client-a"] && summaries(1) == ["client-a"] && summaries(1) == ["error 4301"])
        #expect(summaries(2) == ["client-a"])
        server.advance(.milliseconds(999))
        #expect(summaries(1) == ["error 4301"])
        server.advance(.milliseconds(1))
        #expect(summaries(1) == ["client-a"])
    }

    @Test func `a hook authorizes one client event per connection at a time`() {
        var server = self.server(hooks: .init(clientEvents: true))
        #expect(server.clientEvent(1, "client-a", on: "private-a") == [.run(hook: 1, "client event client-a on private-a: 1")])
        #expect(server.clientEvent(1, "client-b", on: "private-a").isEmpty)
        #expect(server.clientEvent(1, "client-c", on: "private-a").isEmpty)
        // Another connection's event does not wait.
        #expect(server.clientEvent(2, "client-d", on: "private-a").map(\.summary) == ["run client event client-d on private-a: 1"])
        #expect(
            server.decide(.accept, hook: 1) == [
                .send(2, PusherFrames.event("client-a", channel: "private-a", data: "1")),
                .run(hook: 3, "client event client-b on private-a: 1"),
            ])
        #expect(
            server.decide(.reject(code: nil, message: "no"), hook: 3) == [
                .send(1, PusherFrames.error(4301, "no", channel: "private-a")), .run(hook: 4, "client event client-c on private-a: 1"),
            ])
        #expect(
            server.decide(.reject(code: 4302, message: "no"), hook: 4) == [.send(1, PusherFrames.error(4302, "no", channel: "private-a"))])
        #expect(server.clientEvent(1, "client-e", on: "private-a") == [.run(hook: 5, "client event client-e on private-a: 1")])
    }

    @Test func `an event whose sender has unsubscribed is not sent`() {
        var server = self.server(hooks: .init(clientEvents: true))
        server.clientEvent(1, "client-a", on: "private-a")
        server.clientEvent(1, "client-b", on: "private-a")
        server.received(1, PusherFrames.unsubscribe("private-a"))
        #expect(server.decide(.accept, hook: 1).map(\.summary) == ["run client event client-b on private-a: 1"])
        #expect(server.closed(1) == [.cancel(hook: 2)])
        #expect(server.decide(.accept, hook: 2).isEmpty)
    }
}

// MARK: - Heartbeats and faults

@Suite struct PusherServerMachineTimeTests {
    @Test func `an inactive connection is pinged and then closed with 4201`() {
        var server = ServerUnderTest()
        server.connect(1)
        #expect(server.advance(.seconds(119)).isEmpty)
        #expect(server.advance(.seconds(1)) == [.send(1, PusherFrames.ping)])
        #expect(server.advance(.seconds(29)).isEmpty)
        let message = "Pong reply not received in time"
        #expect(
            server.advance(.seconds(1)) == [.send(1, PusherFrames.error(4201, message)), .close(1, CloseCode(rawValue: 4201), message)])
        // The connection closes. A late message does not restart the heartbeat.
        server.received(1, PusherFrames.pong)
        #expect(server.machine.nextDeadline == nil)
    }

    @Test(arguments: [PusherFrames.pong, PusherFrames.ping, .text("invalid"), .binary([1]), WebSocketMessage(.ping, [])])
    func `any message restarts the heartbeat`(message: WebSocketMessage) {
        var server = ServerUnderTest()
        server.connect(1)
        server.advance(.seconds(149))
        server.received(1, message)
        // Were the pong still awaited, the connection would close after a second.
        #expect(server.advance(.seconds(119)).isEmpty)
        #expect(server.advance(.seconds(1)).map(\.summary) == ["ping"])
    }

    @Test func `receiving a message does not reschedule the timer`() {
        var server = ServerUnderTest()
        server.connect(1)
        for second in 1...100 {
            server.advance(.seconds(1))
            server.received(1, pingMessage)
            #expect(server.machine.nextDeadline == seconds(120), "after \(second) seconds")
        }
        #expect(server.advance(.seconds(20)).isEmpty)
        #expect(server.machine.nextDeadline == seconds(220))
    }

    @Test func `the heartbeats of thousands of connections share one queue`() {
        var server = ServerUnderTest()
        for number in 1...2_000 {
            server.connect(number)
            server.advance(.milliseconds(1))
        }
        for number in stride(from: 2, through: 2_000, by: 2) { server.received(number, pingMessage) }
        let pings = server.advance(.seconds(120))
        #expect(pings.filter { $0.summary == "ping" }.count == 2_000)
        #expect(pings.first == .send(1, PusherFrames.ping) && pings.last == .send(2_000, PusherFrames.ping))
        for number in 1...2_000 { server.closed(number) }
        #expect(server.machine.nextDeadline == nil)
    }

    @Test func `timeouts of zero do not cause an endless loop`() {
        var server = ServerUnderTest {
            $0.activityTimeout = .zero
            $0.pongTimeout = .zero
        }
        server.connect(1)
        #expect(server.advance(.milliseconds(2)).map(\.summary) == ["ping", "error 4201", "close 4201"])
    }

    // MARK: Faults

    @Test func `a silent server sends nothing and ignores messages`() {
        var server = ServerUnderTest()
        server.connect(1)
        server.step { machine, _, _ in machine.faults.isSilent = true }
        _ = server.takeEvents()
        #expect(server.subscribe(1, "one").isEmpty && server.received(1, pingMessage).isEmpty)
        #expect(server.advance(.seconds(3600)).isEmpty && server.takeEvents().isEmpty && server.machine.channels.isEmpty)
        server.step { machine, _, _ in machine.faults.isSilent = false }
        #expect(server.advance(.seconds(120)).map(\.summary) == ["ping"])
    }

    @Test func `silence after a ping does not close the connection`() {
        var server = ServerUnderTest()
        server.connect(1)
        server.advance(.seconds(120))
        let socketID = server.socketID(1)
        server.step { machine, _, _ in machine.setSilent(socketID, true) }
        #expect(server.advance(.seconds(1000)).isEmpty)
    }

    @Test func `one connection can be silent`() {
        var server = ServerUnderTest()
        for number in 1...2 {
            server.connect(number)
            server.subscribe(number, "one")
        }
        let socketID = server.socketID(1)
        server.step { machine, _, _ in
            machine.setSilent(socketID, true)
            machine.setSilent("unknown", true)
        }
        #expect(server.received(1, pingMessage).isEmpty && server.received(2, pingMessage).map(\.summary) == ["pong"])
        #expect(server.publish("a", to: "one") == [.send(2, PusherFrames.event("a", channel: "one", data: "1"))])
        server.step { machine, _, _ in machine.setSilent(socketID, false) }
        #expect(server.publish("a", to: "one").count == 2)
    }

    @Test func `dropped messages are not sent`() {
        var server = ServerUnderTest()
        server.connect(1)
        server.subscribe(1, "one")
        server.step { machine, _, _ in machine.faults.dropRate = 1 }
        #expect(server.publish("a", to: "one").isEmpty && server.received(1, pingMessage).isEmpty)
        server.step { machine, _, _ in machine.faults.dropRate = 0.5 }
        let sent = (0..<200).reduce(0) { count, _ in count + server.publish("a", to: "one").count }
        #expect((50...150).contains(sent))
    }

    @Test func `delayed messages keep their order`() {
        var server = ServerUnderTest()
        server.connect(1)
        server.subscribe(1, "one")
        for (delay, event) in [(2, "a"), (1, "b"), (0, "c")] {
            server.step { machine, _, _ in machine.faults.delay = .seconds(delay) }
            #expect(server.publish(event, to: "one").isEmpty)
        }
        #expect(server.advance(.milliseconds(1999)).isEmpty)
        #expect(server.advance(.milliseconds(1)).map(\.summary) == ["a", "b", "c"])
        #expect(server.publish("d", to: "one").map(\.summary) == ["d"])
    }

    @Test func `a message is sent after an overdue delayed message`() {
        var server = ServerUnderTest()
        server.connect(1)
        server.subscribe(1, "one")
        server.step { machine, _, _ in machine.faults.delay = .seconds(1) }
        server.publish("a", to: "one")
        server.step { machine, _, _ in machine.faults.delay = .zero }
        server.skip(.seconds(2))
        #expect(server.publish("b", to: "one").isEmpty)
        #expect(server.advance(.zero).map(\.summary) == ["a", "b"])
    }

    @Test func `a delayed message does not delay other connections`() {
        var server = ServerUnderTest()
        for number in 1...2 { server.connect(number) }
        server.subscribe(1, "one")
        server.subscribe(2, "two")
        server.step { machine, _, _ in machine.faults.delay = .seconds(1) }
        server.publish("a", to: "one")
        server.step { machine, _, _ in machine.faults.delay = .zero }
        #expect(server.publish("b", to: "two").map(\.summary) == ["b"])
    }

    @Test func `a delayed message to a closed connection is discarded`() {
        var server = ServerUnderTest()
        server.connect(1)
        server.step { machine, _, _ in machine.faults.delay = .seconds(1) }
        server.received(1, pingMessage)
        server.closed(1)
        #expect(server.advance(.seconds(1)).isEmpty && server.machine.nextDeadline == nil)
    }

    @Test func `raw frames and commands bypass faults, and unknown socket IDs are ignored`() {
        var server = ServerUnderTest()
        server.connect(1)
        let socketID = server.socketID(1)
        server.step { machine, _, _ in
            machine.faults.isSilent = true
            machine.faults.delay = .seconds(1)
        }
        func commands(_ socketID: String) -> [Command] {
            server.step { machine, now, effects in
                machine.sendRaw("{", to: socketID, &effects)
                machine.close(socketID, .normal, reason: "a", &effects)
                machine.drop(socketID, now: now, &effects)
            }
        }
        #expect(commands("unknown").isEmpty)
        #expect(commands(socketID) == [.send(1, "{"), .close(1, .normal, "a"), .abandon(1)])
    }
}
