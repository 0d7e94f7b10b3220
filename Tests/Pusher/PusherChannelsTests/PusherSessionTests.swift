import PusherWire
import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherChannels

@Suite struct PusherSessionConnectionTests {
    @Test func `a session connects when it is started`() {
        var harness = SessionHarness()
        expectEqual(harness.start(), ["state connecting", "open #1 ws://host/app/key"])
        expectEqual(harness.start(), [])
        expectEqual(harness.establish(), ["state connected"])
        expectEqual(harness.start(), [])
        expectEqual(harness.session.socketID, "1.2")
    }

    @Test func `the socket ID is that of the connected state`() {
        var harness = SessionHarness()
        expectNil(harness.session.socketID)
        harness.start()
        expectNil(harness.session.socketID)
        harness.establish()
        expectEqual(harness.session.socketID, "1.2")
        harness.close(.transport(TransportError(.reset, "reset")))
        expectNil(harness.session.socketID)
        harness.advance(by: .seconds(1))
        harness.establish(#"{"socket_id":"3.4"}"#)
        expect(harness.session.socketID == "3.4" && harness.counters.reconnects == 1)
        harness.stop()
        expectNil(harness.session.socketID)
    }

    @Test func `an established connection subscribes to all channels in order`() {
        var harness = SessionHarness()
        for channel in ["one", "private-two", "presence-three"] { expectEqual(harness.subscribe(channel), []) }
        harness.start()
        expectEqual(
            harness.establish(),
            [
                "state connected", "#1 pusher:subscribe one", "authorize 1 private-two 1.2", "authorize 2 presence-three 1.2",
            ])
    }

    @Test func `a second connection_established event has no effect`() {
        var harness = SessionHarness.connected(to: "one")
        expectEqual(harness.receive(#"{"event":"pusher:connection_established","data":{"socket_id":"9.9"}}"#), [])
        expectEqual(harness.session.socketID, "1.2")
    }

    @Test(arguments: ["{}", "null", "7", #""text""#, #"{"socket_id":7}"#, #"{"socket_id":""}"#])
    func `an invalid connection_established event is reported as one loss`(data: String) {
        var harness = SessionHarness()
        harness.start()
        expectEqual(harness.establish(data), ["error connectionLost", "retry", "abandon #1"])
        expectEqual(harness.counters.messagesIgnored, 1)
        // The state is still connecting.
        expectEqual(harness.advance(by: .seconds(1)), ["open #2 ws://host/app/key"])
    }

    @Test func `an invalid connection_established event is dropped while connected`() {
        var harness = SessionHarness.connected()
        expectEqual(harness.establish("{}"), ["error invalidFrame"])
        expectEqual(harness.session.socketID, "1.2")
    }

    private static let again = ["state connecting", "error connectionLost", "retry"]
    private static let later = ["state connecting", "error connectionLost", "retry after a second or more"]
    private static let immediately = ["error connectionLost", "state connecting", "open #2 ws://host/app/key"]
    private static let rejected = ["state disconnected rejected", "error rejected", "finish"]
    private static let impossible = ["state failed failed", "error failed", "finish"]

    private static let closeCodes: [(ClosedRange<UInt16>, [String])] = [
        (1000...1015, again), (3000...3999, again),
        (4000...4000, ["error connectionLost", "state connecting", "open #2 wss://host/app/key"]),
        (4001...4099, rejected), (4100...4199, later), (4200...4299, immediately), (4300...4999, again),
    ]

    @Test(arguments: closeCodes)
    func `the range of a close code determines the reaction`(codes: ClosedRange<UInt16>, expected: [String]) {
        for code in Set([codes.lowerBound, (codes.lowerBound + codes.upperBound) / 2, codes.upperBound]) {
            var harness = SessionHarness.connected()
            expectEqual(harness.close(.peer(CloseCode(rawValue: code), "")), expected, "\(code)")
        }
    }

    @Test func `a close code that requires TLS is final if the client already uses TLS`() {
        var harness = SessionHarness.connected { $0.useTLS = true }
        expectEqual(harness.close(.peer(CloseCode(rawValue: 4000), "")), Self.rejected)
    }

    @Test(
        arguments: [
            (.reset, again), (.refused, again), (.nameNotFound, again), (.timedOut, again), (.certificateRejected, again),
            (.upgradeRejected, again), (.protocolViolation, again), (.tlsFailed, again), (.tlsUnavailable, impossible),
            (.invalidURL, impossible), (.unsupported, impossible),
            (.invalidTLSConfiguration, ["state failed invalidConfiguration", "error invalidConfiguration", "finish"]),
        ] as [(TransportError.Code, [String])])
    func `the code of a transport error determines the reaction`(code: TransportError.Code, expected: [String]) {
        var harness = SessionHarness.connected()
        expectEqual(harness.close(.transport(TransportError(code, "It failed."))), expected)
    }

    /// An error event, the time until the connection is closed, and how.
    struct ErrorThenClose: Sendable {
        let code: Int
        let delay: Duration
        let reason: CloseReason
        let expected: [String]

        init(_ code: Int, _ reason: CloseReason, after delay: Duration = .zero, _ expected: [String]) {
            (self.code, self.delay, self.reason, self.expected) = (code, delay, reason, expected)
        }
    }

    @Test(arguments: [
        ErrorThenClose(4001, .peer(.normal, ""), rejected), ErrorThenClose(4001, .peer(.noStatus, ""), rejected),
        ErrorThenClose(4001, .peer(.goingAway, ""), rejected),
        ErrorThenClose(4001, .transport(TransportError(.reset, "reset")), rejected),
        ErrorThenClose(4001, .peer(.noStatus, ""), after: .seconds(1), rejected),
        ErrorThenClose(4001, .peer(.noStatus, ""), after: .milliseconds(1001), again),
        ErrorThenClose(4001, .peer(.internalError, ""), again), ErrorThenClose(4001, .peer(CloseCode(rawValue: 4200), ""), immediately),
        ErrorThenClose(4100, .peer(.noStatus, ""), later), ErrorThenClose(4200, .peer(.noStatus, ""), immediately),
        // Some servers report a rejected subscription with this code, and keep the connection.
        ErrorThenClose(4009, .transport(TransportError(.reset, "reset")), again), ErrorThenClose(4009, .peer(.noStatus, ""), rejected),
        ErrorThenClose(4301, .peer(.noStatus, ""), again), ErrorThenClose(0, .peer(.noStatus, ""), again),
    ])
    func `an error event before a close without a code of the protocol is its reason`(row: ErrorThenClose) {
        var harness = SessionHarness.connected()
        expectEqual(harness.receive(#"{"event":"pusher:error","data":{"code":\#(row.code),"message":"text"}}"#), ["error server"])
        harness.advance(by: row.delay)
        expectEqual(harness.close(row.reason), row.expected)
    }

    @Test func `an error event before the connection is established ends it`() {
        var harness = SessionHarness()
        harness.start()
        harness.step { $0.opened(ConnectionID(rawValue: 1), head: HTTPResponseHead(status: 101), now: $1, &$2) }
        let commands = harness.receive(#"{"event":"pusher:error","data":{"code":4001,"message":"text"}}"#)
        expectEqual(commands.filter { !$0.hasPrefix("abandon") }, Self.rejected)
        expectEqual(commands.count, Self.rejected.count + 1)
        harness.advance(by: .seconds(5))
        expect(harness.close(.peer(.noStatus, "")).isEmpty)
    }

    // MARK: Log

    private static let refused = CloseReason.transport(TransportError(.refused, "host:80 refused the connection."))
    private static let attemptWarning = "Failed to connect: host:80 refused the connection. The client keeps trying."

    @Test func `the first failed attempt of an outage and its duration are logged as warnings`() {
        var harness = SessionHarness(logLevel: .warning) { $0.backoff = Backoff(base: .milliseconds(1), cap: .milliseconds(1)) }
        harness.start()
        for _ in 1...3 {
            harness.close(Self.refused)
            harness.advance(by: .milliseconds(1))
        }
        expectEqual(harness.logged, [Self.attemptWarning])
        harness.advance(by: .seconds(10))
        let unavailability =
            "No connection to ws://host for 10.0 seconds; the client keeps trying. Failed to connect: host:80 refused the connection."
        expectEqual(harness.logged, [Self.attemptWarning, unavailability])
        harness.close(Self.refused)
        harness.advance(by: .seconds(60))
        expectEqual(harness.logged.count, 2)
        harness.advance(by: .milliseconds(1))
        harness.establish()
        // The loss of a connection isn't a failed attempt.
        harness.close(.transport(TransportError(.reset, "reset")))
        harness.advance(by: .seconds(1))
        expectEqual(harness.logged.count, 2)
        harness.close(Self.refused)
        expect(harness.logged.count == 3 && harness.logged.last == Self.attemptWarning)
    }

    @Test func `an attempt without an answer is logged with what to check`() {
        var harness = SessionHarness(logLevel: .warning)
        harness.start()
        harness.advance(by: .seconds(10))
        expectEqual(
            harness.logged,
            [
                "No connection to ws://host for 10.0 seconds; the client keeps trying. "
                    + "The server hasn't answered yet. Check the host, the port, `useTLS`, and the network."
            ])
    }

    @Test func `a failed attempt that is the end of the client is only logged as an error`() {
        var harness = SessionHarness(logLevel: .warning) { $0.retry = .none }
        harness.start()
        harness.close(Self.refused)
        expect(harness.logged.count == 1 && harness.logged.first?.contains("no further attempt") == true)
        harness.stop()
        harness.start()
        harness.stop()
        expectEqual(harness.logged.count, 1)
    }

    @Test func `a client that is released while it connects is logged`() {
        let lines = EventRecorder<String>()
        var configuration = PusherConfiguration(key: "key", host: "host")
        configuration.log = LogSink(minimumLevel: .info) { _, _, message in lines.record(message) }
        configuration.transports = InMemoryNetwork(clock: ManualClock()).transports()
        for _ in 1...2 {
            let client = PusherClient(configuration)
            client.connect()
            client.disconnect()
        }
        expect(!lines.take().contains { $0.contains("released") })
        PusherClient(configuration).connect()
        expect(lines.all.contains { $0.hasPrefix("the client was released") })
    }

    private static let closeBeforeGreeting: [(CloseReason, String?)] = [
        (.transport(TransportError(.closed, "The peer closed the connection without a close frame.")), "Check the key"),
        (.transport(TransportError(.reset, "reset")), "Check the key"), (.peer(.noStatus, ""), "Check the key"),
        (.peer(.normal, ""), "Check the key"), (.peer(.goingAway, ""), nil), (.peer(CloseCode(rawValue: 4100), "full"), nil),
        (.openTimeout, "Check that it is a Pusher server"),
    ]

    @Test(arguments: closeBeforeGreeting)
    func `a server that ends the WebSocket before the greeting may not know the key`(reason: CloseReason, hint: String?) {
        var harness = SessionHarness(logLevel: .warning)
        harness.start()
        harness.opened(harness.connection)
        harness.close(reason)
        expectEqual(harness.logged.count, 1)
        expect(harness.logged.first?.contains("Check") == (hint != nil) && harness.logged.first?.contains(hint ?? "") == true)
        // Without a WebSocket, the key isn't the reason.
        harness.advance(by: .seconds(1))
        harness.close(reason)
        expect(harness.events.contains { if case .error(let error) = $0 { !error.message.contains("Check") } else { false } })
    }

    @Test func `stopping closes the connection and finishes`() {
        var harness = SessionHarness.connected(to: "one")
        expectEqual(harness.stop(), ["state disconnected", "close #1 1000", "finish"])
        expectEqual(harness.stop(), [])
        // The connection that was stopped closes beside the next one, and is abandoned after its time limit.
        expectEqual(harness.start(), ["state connecting", "open #2 ws://host/app/key"])
        expectEqual(harness.advance(by: .seconds(5)), ["abandon #1"])
    }

    @Test func `an invalid configuration moves the state to failed`() {
        var harness = SessionHarness()
        expectEqual(
            harness.step { $0.failConfiguration("The port is wrong.", &$2) },
            [
                "state failed invalidConfiguration", "error invalidConfiguration", "finish",
            ])
        guard case .failed(let error) = harness.session.state else { return expect(false, "\(harness.session.state)") }
        expectEqual(error.message, "Invalid configuration: The port is wrong.")
    }

    @Test func `frames of an earlier connection are ignored`() {
        var harness = SessionHarness.connected(to: "one")
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        let old = ConnectionID(rawValue: 1)
        expectEqual(harness.receive(#"{"event":"pusher:connection_established","data":{"socket_id":"9.9"}}"#, on: old), [])
        expectEqual(harness.receive(#"{"event":"a","channel":"one","data":"1"}"#, on: old), [])
        expectEqual(harness.step { $0.closed(old, .peer(.normal, ""), now: $1, &$2) }, [])
    }

    // MARK: Timeouts

    @Test func `the state is unavailable after ten seconds without a connection`() {
        var harness = SessionHarness()
        harness.start()
        expectEqual(harness.advance(by: .milliseconds(9_999)), [])
        expectEqual(harness.advance(by: .milliseconds(1)), ["state unavailable"])
        // The attempt itself has fifteen seconds.
        expectEqual(harness.advance(by: .seconds(5)), ["error connectionLost", "retry", "abandon #1"])
        expectEqual(harness.advance(by: .seconds(1)), ["open #2 ws://host/app/key"])
        expectEqual(harness.establish(), ["state connected"])
    }

    @Test func `silence causes a ping and then the loss of the connection`() {
        var harness = SessionHarness.connected()
        expectEqual(harness.advance(by: .seconds(119)), [])
        expectEqual(harness.advance(by: .seconds(1)), ["#1 pusher:ping"])
        expectEqual(harness.advance(by: .seconds(29)), [])
        expectEqual(harness.advance(by: .seconds(1)), Self.again + ["abandon #1"])
    }

    @Test func `a pong keeps the connection and its delay is measured`() {
        var harness = SessionHarness.connected()
        harness.advance(by: .seconds(120))
        harness.advance(by: .milliseconds(25))
        expectEqual(harness.receive(#"{"event":"pusher:pong","data":{}}"#), [])
        expectEqual(harness.counters.lastRoundTrip, .milliseconds(25))
        expectEqual(harness.advance(by: .seconds(119)), [])
    }

    @Test func `a ping from the server gets a pong`() {
        var harness = SessionHarness.connected()
        expectEqual(harness.receive(#"{"event":"pusher:ping"}"#), ["#1 pusher:pong"])
    }

    @Test(arguments: [("30", 30), ("240", 120), ("0", 120), ("-1", 120)])
    func `the shorter activity timeout is used`(requested: String, seconds: Int) {
        var harness = SessionHarness()
        harness.start()
        harness.establish(#"{"socket_id":"1.2","activity_timeout":\#(requested)}"#)
        expectEqual(harness.session.nextDeadline, harness.now.advanced(by: .seconds(seconds)))
    }

    // MARK: Waiting calls

    enum ClientState: CaseIterable, Sendable { case initialized, connecting, connected, unavailable, invalid, disconnected, rejected }

    private func harness(in state: ClientState) -> SessionHarness {
        var harness = SessionHarness()
        harness.subscribe("one")
        switch state {
        case .initialized: break
        case .connecting: harness.start()
        case .connected: harness = .connected(to: "one")
        case .unavailable:
            harness.start()
            harness.advance(by: .seconds(10))
        case .invalid: harness.step { $0.failConfiguration("It is wrong.", &$2) }
        case .disconnected:
            harness.start()
            harness.stop()
        case .rejected:
            harness = .connected(to: "one")
            harness.close(.peer(CloseCode(rawValue: 4001), ""))
        }
        return harness
    }

    /// The results of waiting for the connection, for its end, and for a channel; none if the call waits.
    private static let results: [ClientState: [[String]]] = [
        .initialized: [[], [], []], .connecting: [[], [], []], .connected: [["resume 1 1.2"], [], []], .unavailable: [[], [], []],
        .invalid: [["fail 1 invalidConfiguration"], ["fail 2 invalidConfiguration"], ["fail 3 invalidConfiguration"]],
        .disconnected: [[], ["resume 2"], []], .rejected: [["fail 1 rejected"], ["fail 2 rejected"], ["fail 3 rejected"]],
    ]

    @Test(arguments: ClientState.allCases)
    func `a waiting call returns or throws as soon as its result is known`(state: ClientState) {
        var harness = self.harness(in: state)
        let lines = [harness.awaitConnected(1), harness.awaitEnd(2), harness.awaitSubscribed(3, "one")]
        expectEqual(lines, Self.results[state])
        expectEqual(harness.session.waiterCount, lines.filter(\.isEmpty).count)
    }

    @Test func `waiting calls are resumed when the client connects and when it stops`() {
        var harness = SessionHarness()
        harness.subscribe("one")
        harness.start()
        _ = (harness.awaitConnected(1), harness.awaitEnd(2), harness.awaitSubscribed(3, "one"), harness.awaitSubscribed(4, "one"))
        expectEqual(harness.establish(), ["state connected", "resume 1 1.2", "#1 pusher:subscribe one"])
        expectEqual(harness.confirm("one"), ["one subscribed", "resume 3", "resume 4"])
        expectEqual(harness.stop(), ["one pending", "state disconnected", "close #1 1000", "resume 2", "finish"])
    }

    @Test func `calls waiting for a connection fail when the server rejects the client`() {
        var harness = SessionHarness()
        harness.subscribe("one")
        harness.start()
        _ = (harness.awaitConnected(1), harness.awaitEnd(2), harness.awaitSubscribed(3, "one"))
        expectEqual(
            harness.close(.peer(CloseCode(rawValue: 4001), "")),
            [
                "state disconnected rejected", "error rejected", "fail 2 rejected", "fail 1 rejected", "fail 3 rejected", "finish",
            ])
        expectEqual(harness.session.waiterCount, 0)
    }

    @Test func `calls that begin waiting after a disconnect fail with the next disconnect`() {
        var harness = SessionHarness.connected(to: "one")
        harness.stop()
        _ = (harness.awaitConnected(1), harness.awaitSubscribed(2, "one"))
        expectEqual(harness.stop(), ["fail 1 disconnected", "fail 2 disconnected"])
    }

    @Test func `cancelling a waiting call removes it without resuming it`() {
        var harness = SessionHarness()
        harness.subscribe("one")
        harness.start()
        _ = (harness.awaitConnected(1), harness.awaitEnd(2), harness.awaitSubscribed(3, "one"))
        for waiter in 1...3 as ClosedRange<UInt64> {
            expectEqual(harness.step { $0.cancelled(WaiterID(rawValue: waiter), now: $1, &$2) }, [])
        }
        expectEqual(harness.session.waiterCount, 0)
        expectEqual(harness.establish(), ["state connected", "#1 pusher:subscribe one"])
        expectEqual(harness.confirm("one"), ["one subscribed"])
    }

    @Test(
        arguments: [
            (.initialized, "Call connect() first"), (.disconnected, "Call connect() first"), (.invalid, "Call connect() first"),
            (.connecting, "without a connection to ws://host"), (.unavailable, "without a connection to ws://host"),
            (.connected, "still subscribing"),
        ] as [(ClientState, String)])
    func `a timeout error describes what the client is doing`(state: ClientState, text: String) {
        let error = self.harness(in: state).session.timedOut(WaiterID(rawValue: 1), after: .time(.seconds(5)))
        expect(error.code == .timedOut && error.cause == nil)
        expect(error.message.hasPrefix("Timed out after 5.0 seconds") && error.message.contains(text))
    }

    @Test func `a timeout error contains the last failure to connect`() throws {
        var harness = SessionHarness()
        harness.start()
        harness.close(.transport(TransportError(.refused, "Connection refused.")))
        let error = harness.session.timedOut(WaiterID(rawValue: 1), after: .time(.seconds(5)))
        expect(error.message.hasSuffix("Failed to connect to ws://host: Connection refused."))
        try expectEqual(#require(error.cause as? PusherError).code, .connectionLost)
    }

    @Test func `a timeout error names the channel that the call waits for`() {
        var harness = SessionHarness.connected(to: "one")
        _ = harness.awaitSubscribed(7, "one")
        let waiter = WaiterID(rawValue: 7)
        for error in [
            harness.session.timedOut(waiter, after: .time(.seconds(5))), harness.session.timedOut(waiter, after: .standstill(.seconds(5))),
        ] {
            expectEqual(error.channel, "one")
        }
        expect(harness.session.timedOut(waiter, after: .time(.seconds(5))).message.contains("waiting for the subscription to one;"))
        expectNil(harness.session.timedOut(WaiterID(rawValue: 8), after: .time(.seconds(5))).channel)
    }
}

// MARK: Channels

/// Every state of a private channel with every input.
@Suite struct PusherSessionChannelTests {
    enum ChannelState: CaseIterable, Sendable { case disconnected, queued, authorizing, subscribing, subscribed, failed }

    enum Input: CaseIterable, Sendable {
        case subscribe, unsubscribe, confirmed, rejected, authorized, authorizationFailed, outdatedAuthorization, event, trigger
        case awaitSubscribed, deadline, connectionLost
    }

    private static let others = (0..<AuthorizationQueue.limit).map { "private-\($0)" }

    private func harness(in state: ChannelState) -> SessionHarness {
        if state == .disconnected {
            var harness = SessionHarness()
            harness.subscribe("private-a")
            return harness
        }
        var harness = SessionHarness.connected()
        if state == .queued { for channel in Self.others { harness.subscribe(channel) } }
        harness.subscribe("private-a")
        if [.subscribing, .subscribed, .failed].contains(state) { harness.authorize(1) }
        if state == .subscribed { harness.confirm("private-a") }
        if state == .failed { harness.receive(Self.rejection) }
        return harness
    }

    private static let rejection = #"{"event":"pusher:subscription_error","channel":"private-a","data":{"status":403}}"#

    private func apply(_ input: Input, to harness: inout SessionHarness, _ state: ChannelState) -> [String] {
        // The first authorization is that of private-a, unless the channel is queued.
        let work: UInt64 = state == .queued ? 99 : 1
        return switch input {
        case .subscribe: harness.subscribe("private-a")
        case .unsubscribe: harness.unsubscribe("private-a")
        case .confirmed: harness.confirm("private-a")
        case .rejected: harness.receive(Self.rejection)
        case .authorized: harness.authorize(work)
        case .authorizationFailed: harness.failAuthorization(work, status: 403)
        case .outdatedAuthorization: harness.authorize(99)
        case .event: harness.receive(#"{"event":"x","channel":"private-a","data":"1"}"#)
        case .trigger: harness.trigger("client-x", on: "private-a")
        case .awaitSubscribed: harness.awaitSubscribed(1, "private-a")
        case .deadline: harness.advance(by: .seconds(30))
        case .connectionLost: harness.close(.transport(TransportError(.reset, "reset")))
        }
    }

    private static let loss = ["state connecting", "error connectionLost", "retry"]

    /// The effects of the inputs that have any.
    private static let table: [ChannelState: [Input: [String]]] = [
        .disconnected: [.unsubscribe: ["private-a unsubscribed"], .trigger: ["queued"]],
        .queued: [
            .unsubscribe: ["private-a unsubscribed"], .event: ["event private-a x 1"], .trigger: ["queued"],
            // The others time out, which starts the next authorization.
            .deadline: ["authorize 11 private-a 1.2"], .connectionLost: loss,
        ],
        .authorizing: [
            .unsubscribe: ["private-a unsubscribed", "cancel 1"], .authorized: ["#1 pusher:subscribe private-a key:1"],
            .authorizationFailed: ["private-a failed authorizationFailed", "error authorizationFailed"],
            .event: ["event private-a x 1"], .trigger: ["queued"],
            .deadline: ["private-a failed timedOut", "error timedOut", "cancel 1"], .connectionLost: loss + ["cancel 1"],
        ],
        .subscribing: [
            .unsubscribe: ["private-a unsubscribed", "#1 pusher:unsubscribe private-a"], .confirmed: ["private-a subscribed"],
            .rejected: ["private-a failed subscriptionRejected", "error subscriptionRejected"], .event: ["event private-a x 1"],
            .trigger: ["queued"],
            .deadline: ["private-a failed timedOut", "error timedOut", "#1 pusher:unsubscribe private-a"], .connectionLost: loss,
        ],
        .subscribed: [
            .unsubscribe: ["private-a unsubscribed", "#1 pusher:unsubscribe private-a"],
            .rejected: ["private-a failed subscriptionRejected", "error subscriptionRejected"], .event: ["event private-a x 1"],
            .confirmed: ["private-a gap 0.0 seconds"], .trigger: ["#1 client-x private-a"], .awaitSubscribed: ["resume 1"],
            .connectionLost: ["private-a pending"] + loss,
        ],
        .failed: [
            .subscribe: ["private-a pending", "authorize 2 private-a 1.2"], .unsubscribe: ["private-a unsubscribed"],
            .event: ["event private-a x 1"], .trigger: ["throws subscriptionRejected"], .awaitSubscribed: ["fail 1 subscriptionRejected"],
            .connectionLost: ["private-a pending"] + loss,
        ],
    ]

    @Test(arguments: ChannelState.allCases, Input.allCases)
    func `every input in every state of a channel has the effects in the table`(state: ChannelState, input: Input) {
        var harness = self.harness(in: state)
        var lines = self.apply(input, to: &harness, state)
        if state == .queued {
            lines = lines.filter { line in
                ["private-a", "state", "connectionLost", "retry"].contains { line.contains($0) } || line == "queued"
            }
        }
        expectEqual(lines, Self.table[state]?[input] ?? [])
    }

    // MARK: Subscribing

    @Test func `a loss restarts every subscription`() {
        var harness = SessionHarness.connected(to: "one", "private-two")
        harness.confirm("one")
        harness.authorize(1)
        harness.close(.transport(TransportError(.reset, "reset")))
        harness.advance(by: .seconds(1))
        expectEqual(
            harness.establish(#"{"socket_id":"3.4"}"#), ["state connected", "#2 pusher:subscribe one", "authorize 2 private-two 3.4"])
        // The authorization of the lost connection is outdated.
        expectEqual(harness.authorize(1), [])
        expectEqual(harness.authorize(2), ["#2 pusher:subscribe private-two key:2"])
    }

    @Test func `a private channel without an authorizer fails`() {
        var harness = SessionHarness.connected { $0.authorizer = nil }
        let failure = ["private-a failed authorizationMissing", "error authorizationMissing"]
        expectEqual(harness.subscribe("private-a"), failure)
        // The same reason is not reported again.
        expectEqual(harness.subscribe("private-a"), [])
        expectEqual(harness.awaitSubscribed(1, "private-a"), ["fail 1 authorizationMissing"])
    }

    @Test(arguments: [nil, 500, 503, 408, 429])
    func `a temporary failure is retried with growing delays`(status: Int?) throws {
        var harness = SessionHarness.connected()
        harness.subscribe("private-a")
        for attempt in 1...5 as ClosedRange<UInt64> {
            expectEqual(
                harness.failAuthorization(attempt, status: status), ["private-a failed authorizationFailed", "error authorizationFailed"])
            let delay = harness.now.duration(to: try #require(harness.session.channels.nextDeadline))
            expect(delay <= .seconds(1 << (attempt - 1)))
            expectEqual(harness.advance(by: delay), ["private-a pending", "authorize \(attempt + 1) private-a 1.2"])
        }
    }

    @Test(arguments: [200, 302, 400, 401, 403, 404])
    func `a permanent failure is not retried`(status: Int) {
        var harness = SessionHarness.connected()
        harness.subscribe("private-a")
        harness.failAuthorization(1, status: status)
        expectNil(harness.session.channels.nextDeadline)
    }

    @Test func `a confirmation resets the retry delay`() throws {
        var harness = SessionHarness.connected()
        let id = harness.session.channels.id(named: "private-a")
        expectNil(id)
        harness.subscribe("private-a")
        harness.failAuthorization(1)
        harness.advance(by: .seconds(1))
        harness.authorize(2)
        harness.confirm("private-a")
        expectEqual(harness.session.channels["private-a"]?.failures, 0)
        expectNil(harness.session.channels.nextDeadline)
    }

    @Test func `a subscription that timed out is retried`() {
        var harness = SessionHarness.connected(to: "one")
        expectEqual(harness.advance(by: .seconds(30)), ["one failed timedOut", "error timedOut", "#1 pusher:unsubscribe one"])
        expectEqual(harness.advance(by: .seconds(1)), ["one pending", "#1 pusher:subscribe one"])
    }

    @Test func `after a standstill, a subscription has its time limit once more, and a retry begins immediately`() {
        var harness = SessionHarness.connected(to: "one")
        expectEqual(harness.standStill(for: .seconds(40)), [])
        expectEqual(harness.advance(by: .milliseconds(29_999)), [])
        expectEqual(harness.advance(by: .milliseconds(1)), ["one failed timedOut", "error timedOut", "#1 pusher:unsubscribe one"])
        expectEqual(harness.standStill(for: .seconds(40)), ["one pending", "#1 pusher:subscribe one"])
        expectEqual(harness.confirm("one"), ["one subscribed"])
    }

    @Test(arguments: ["pusher:subscription_error", "pusher_internal:subscription_error"])
    func `a rejection contains the server's reason`(event: String) throws {
        var harness = SessionHarness.connected(to: "one")
        harness.receive(#"{"event":"\#(event)","channel":"one","data":{"error":"text","code":5,"status":403}}"#)
        guard case .failed(let error)? = harness.session.channels["one"]?.subscription.state else {
            return expect(false, "it is \(String(describing: harness.session.channels["one"]?.subscription.state))")
        }
        expect(error.message.hasSuffix("to one: text.") && error.serverCode == 5 && error.status == 403)
    }

    // MARK: Error events

    /// Three subscriptions are pending: of one public and of two private channels.
    @Test(arguments: [
        (#"{"code":4009,"message":"no"}"#, ["private-a failed subscriptionRejected", "error subscriptionRejected"]),
        (#"{"code":4010,"message":"no"}"#, ["error server"]),
        (#"{"code":null,"message":"no to private-b"}"#, ["private-b failed subscriptionRejected", "error subscriptionRejected"]),
        (#"{"code":4009,"message":"no to private-b."}"#, ["private-b failed subscriptionRejected", "error subscriptionRejected"]),
        (#"{"code":4301,"message":"no client event on private-b."}"#, ["error server"]),
        (#"{"code":4300,"message":"no to private-bc"}"#, ["error server"]),
        (#"{"code":4300,"message":"no to one"}"#, ["error server"]),
        (#"{"code":null,"message":"Existing subscription to channel private-b"}"#, ["error server"]),
    ])
    func `an error event rejects the channel that it names and is reported once`(data: String, expected: [String]) {
        var harness = SessionHarness.connected(to: "one", "private-a", "private-b")
        harness.authorize(1)
        harness.authorize(2)
        expectEqual(harness.receive(#"{"event":"pusher:error","data":\#(data)}"#), expected)
    }

    @Test(arguments: [
        #"{"code":4009,"message":"no"}"#, #"{"code":null,"message":"no"}"#, #"{"message":"no"}"#,
    ])
    func `an error event that names no channel rejects the only signed subscription`(data: String) {
        var harness = SessionHarness.connected(to: "one", "private-a")
        harness.authorize(1)
        expectEqual(
            harness.receive(#"{"event":"pusher:error","data":\#(data)}"#),
            ["private-a failed subscriptionRejected", "error subscriptionRejected"])
    }

    @Test func `an error event that names no channel rejects the signed subscription that was sent first`() {
        var harness = SessionHarness.connected(to: "private-a", "private-b", "private-c")
        for work in [2, 1, 3] as [UInt64] { harness.authorize(work) }
        let rejection = #"{"event":"pusher:error","data":{"code":4009,"message":"no"}}"#
        for channel in ["private-b", "private-a", "private-c"] {
            expectEqual(harness.receive(rejection), ["\(channel) failed subscriptionRejected", "error subscriptionRejected"])
        }
        expectEqual(harness.receive(rejection), ["error server"])
    }

    @Test func `a confirmation counts after a rejection that named no channel`() {
        var harness = SessionHarness.connected(to: "private-a")
        harness.authorize(1)
        harness.receive(#"{"event":"pusher:error","data":{"message":"no"}}"#)
        expectEqual(harness.trigger("client-a", on: "private-a"), ["throws subscriptionRejected"])
        expectEqual(harness.confirm("private-a"), ["private-a subscribed"])
        expectEqual(harness.trigger("client-a", on: "private-a"), ["#1 client-a private-a"])
        expectEqual(harness.advance(by: .seconds(60)), [])
    }

    @Test func `a confirmation doesn't count after a rejection that named the channel`() {
        var harness = SessionHarness.connected(to: "private-a")
        harness.authorize(1)
        harness.receive(#"{"event":"pusher:error","data":{"message":"no to private-a"}}"#)
        expectEqual(harness.confirm("private-a"), [])
        guard case .failed = harness.session.channels["private-a"]?.subscription.state else {
            return expect(false, "\(String(describing: harness.session.channels["private-a"]))")
        }
    }

    @Test func `a channel whose rejection named no channel is unsubscribed on the server`() {
        var harness = SessionHarness.connected(to: "private-a")
        harness.authorize(1)
        harness.receive(#"{"event":"pusher:error","data":{"message":"no"}}"#)
        expectEqual(harness.unsubscribe("private-a"), ["private-a unsubscribed", "#1 pusher:unsubscribe private-a"])
    }

    @Test func `an error event with a channel rejects its subscription`() {
        var harness = SessionHarness.connected(to: "one", "private-a")
        expectEqual(
            harness.receive(#"{"event":"pusher:error","channel":"one","data":{"code":4009,"message":"no"}}"#),
            ["one failed subscriptionRejected", "error subscriptionRejected"])
    }

    @Test func `the rejection of a client event does not reject a subscription to its channel`() {
        var harness = SessionHarness.connected(to: "private-a", "one")
        harness.authorize(1)
        harness.confirm("private-a")
        _ = harness.trigger("client-a", on: "private-a")
        let rejection = #"{"event":"pusher:error","channel":"one","data":{"code":4301,"message":"no"}}"#
        expectEqual(harness.receive(rejection), ["error clientEventRejected"])
        expectEqual(harness.receive(#"{"event":"pusher_internal:subscription_succeeded","channel":"one"}"#), ["one subscribed"])
    }

    // MARK: Authorizations

    @Test func `ten authorizations run at the same time and the next starts when one ends`() {
        var harness = SessionHarness.connected()
        for number in 1...12 {
            expectEqual(harness.subscribe("private-\(number)"), (number <= 10 ? ["authorize \(number) private-\(number) 1.2"] : []))
        }
        // Subscribing again does not enqueue again.
        expectEqual(harness.subscribe("private-11"), [])
        // Public channels do not wait.
        expectEqual(harness.subscribe("one"), ["#1 pusher:subscribe one"])
        expectEqual(harness.authorize(1), ["#1 pusher:subscribe private-1 key:1", "authorize 11 private-11 1.2"])
        expectEqual(
            harness.failAuthorization(2, status: 403),
            [
                "private-2 failed authorizationFailed", "error authorizationFailed", "authorize 12 private-12 1.2",
            ])
        expectEqual(harness.authorize(3), ["#1 pusher:subscribe private-3 key:3"])
    }

    @Test func `unsubscribing starts the next authorization or removes the channel from the queue`() {
        var harness = SessionHarness.connected()
        for number in 1...12 { harness.subscribe("private-\(number)") }
        expectEqual(harness.unsubscribe("private-11"), ["private-11 unsubscribed"])
        expectEqual(harness.unsubscribe("private-1"), ["private-1 unsubscribed", "cancel 1", "authorize 11 private-12 1.2"])
        expectEqual(harness.authorize(1), [])
    }

    @Test func `a channel that reuses the slot of a queued one goes to the end of the queue`() {
        var harness = SessionHarness.connected()
        for number in 1...12 { harness.subscribe("private-\(number)") }
        harness.unsubscribe("private-11")
        // It takes the slot of private-11, and the last position of the queue.
        expectEqual(harness.subscribe("private-13"), [])
        expectEqual(harness.authorize(1).last, "authorize 11 private-12 1.2")
        expectEqual(harness.authorize(2).last, "authorize 12 private-13 1.2")
    }

    @Test func `a loss cancels the running authorizations and empties the queue`() {
        var harness = SessionHarness.connected()
        for number in 1...12 { harness.subscribe("private-\(number)") }
        let lines = harness.close(.transport(TransportError(.reset, "reset")))
        expectEqual(lines.filter { $0.hasPrefix("cancel") }, (1...10).map { "cancel \($0)" })
        harness.advance(by: .seconds(1))
        expectEqual(harness.establish(), ["state connected"] + (1...10).map { "authorize \($0 + 10) private-\($0) 1.2" })
    }

    @Test(arguments: [nil, "", "[]", "{}", #"{"user_id":{}}"#])
    func `a presence channel fails without a user`(channelData: String?) {
        var harness = SessionHarness.connected()
        harness.subscribe("presence-a")
        expectEqual(
            harness.authorize(1, channelData: channelData), ["presence-a failed authorizationFailed", "error authorizationFailed"])
    }

    // MARK: Members

    private func presence() -> SessionHarness {
        var harness = SessionHarness.connected()
        harness.subscribe("presence-a")
        harness.authorize(1, channelData: #"{"user_id":"me"}"#)
        return harness
    }

    private func member(_ event: String, _ id: String, _ channel: String = "presence-a") -> String {
        #"{"event":"pusher_internal:member_\#(event)","channel":"\#(channel)","data":{"user_id":"\#(id)"}}"#
    }

    @Test func `members are listed first, and each change is announced once`() {
        var harness = self.presence()
        expectEqual(
            harness.confirm("presence-a", data: #"{"presence":{"ids":["me","you","you"]}}"#),
            ["presence-a has me,you", "presence-a subscribed"])
        expectEqual(harness.session.channels["presence-a"]?.members.me?.id, "me")
        expectEqual(harness.receive(self.member("added", "new"), self.member("added", "new")), ["presence-a joined new"])
        expectEqual(harness.receive(self.member("removed", "you"), self.member("removed", "you")), ["presence-a left you"])
        expectEqual(harness.session.channels["presence-a"]?.members.map(\.id), ["me", "new"])
        expectEqual(harness.close(.transport(TransportError(.reset, "reset"))).first, "presence-a pending")
        // The list stays until the next one arrives.
        expectEqual(harness.session.channels["presence-a"]?.members.map(\.id), ["me", "new"])
        harness.stop()
        expectEqual(harness.session.channels["presence-a"]?.members.isEmpty, true)
    }

    @Test func `members are ignored before the subscription is confirmed and on other channels`() {
        var harness = self.presence()
        harness.subscribe("one")
        harness.confirm("one")
        expectEqual(harness.receive(self.member("added", "new"), self.member("added", "new", "one"), self.member("removed", "me")), [])
        expectEqual(harness.counters.messagesIgnored, 3)
    }

    @Test func `an invalid list of members is reported and the channel is subscribed`() {
        var harness = self.presence()
        expectEqual(harness.confirm("presence-a", data: "{}"), ["presence-a has ", "presence-a subscribed", "error invalidFrame"])
    }

    // MARK: Client events

    @Test func `client events are queued and sent in order when the subscription is confirmed`() {
        var harness = SessionHarness()
        harness.subscribe("private-a")
        expectEqual(harness.trigger("client-1", on: "private-a"), ["queued"])
        harness.start()
        harness.establish()
        expectEqual(harness.trigger("client-2", on: "private-a"), ["queued"])
        harness.authorize(1)
        expectEqual(harness.trigger("client-3", on: "private-a"), ["queued"])
        expectEqual(
            harness.confirm("private-a"),
            [
                "private-a subscribed", "#1 client-1 private-a", "#1 client-2 private-a", "#1 client-3 private-a",
            ])
        expectEqual(harness.trigger("client-4", on: "private-a"), ["#1 client-4 private-a"])
        // They are sent once.
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        harness.establish()
        harness.authorize(2)
        expectEqual(harness.confirm("private-a"), ["private-a subscribed", "private-a gap 0.0 seconds"])
    }

    @Test func `sending to a full queue throws, and a failed subscription empties the queue`() {
        var harness = SessionHarness { $0.clientEventQueueLimit = 1 }
        harness.subscribe("private-a")
        expectEqual(harness.trigger("client-1", on: "private-a"), ["queued"])
        expectEqual(harness.trigger("client-2", on: "private-a"), ["throws queueFull"])
        harness.start()
        harness.establish()
        harness.failAuthorization(1, status: 403)
        expectEqual(harness.trigger("client-3", on: "private-a"), ["throws authorizationFailed"])
        harness.subscribe("private-a")
        harness.authorize(2)
        expectEqual(harness.confirm("private-a"), ["private-a subscribed"])
    }

    @Test func `a client event on an unsubscribed channel throws`() {
        var harness = SessionHarness()
        expectEqual(harness.trigger("client-1", on: "private-a"), ["throws notSubscribed"])
        expectEqual(harness.awaitSubscribed(1, "private-a"), ["fail 1 notSubscribed"])
    }
}

// MARK: Frames and consumers

@Suite struct PusherSessionFrameTests {
    /// The effects, and the number of ignored messages.
    @Test(
        arguments: [
            ("", ["error invalidFrame"], 1), ("[]", ["error invalidFrame"], 1), (#"{"channel":"one"}"#, ["error invalidFrame"], 1),
            (#"{"event":5}"#, ["error invalidFrame"], 1), (#"{"event":"a","channel":5}"#, ["error invalidFrame"], 1),
            (#"{"event":"pusher_internal:subscription_succeeded"}"#, ["error invalidFrame"], 1),
            (#"{"event":"pusher:subscription_error","data":{}}"#, ["error invalidFrame"], 1),
            (#"{"event":"pusher_internal:member_added","data":{}}"#, ["error invalidFrame"], 1),
            (#"{"event":"pusher_internal:unknown","channel":"one"}"#, [], 1), (#"{"event":"a","channel":"other"}"#, [], 1),
            (#"{"event":"pusher_internal:subscription_succeeded","channel":"other"}"#, [], 1),
            (#"{"event":"pusher:subscription_error","channel":"other"}"#, [], 1),
            (#"{"event":"pusher:unknown"}"#, ["event pusher:unknown"], 0), (#"{"event":"a","channel":"one"}"#, ["event one a"], 0),
            (#"{"event":"pusher:cache_miss","channel":"one"}"#, ["event one pusher:cache_miss"], 0),
            (#"{"event":"pusher:pong"}"#, [], 0),
        ] as [(String, [String], Int)])
    func `every frame is delivered, ignored or reported`(frame: String, expected: [String], ignored: Int) {
        var harness = SessionHarness.connected(to: "one")
        harness.confirm("one")
        expectEqual(harness.receive(frame), expected)
        expectEqual(harness.counters.messagesIgnored, ignored)
        // The connection is kept.
        expectEqual(harness.receive(#"{"event":"pusher:ping"}"#), ["#1 pusher:pong"])
    }

    @Test func `an invalid frame does not affect those that arrived with it`() {
        var harness = SessionHarness.connected(to: "one")
        expectEqual(
            harness.receive(#"{"event":"a","channel":"one"}"#, "nonsense", #"{"event":"b","channel":"one"}"#),
            ["event one a", "error invalidFrame", "event one b"])
    }

    @Test func `no frame is read after an invalid connection_established event`() {
        var harness = SessionHarness()
        harness.start()
        harness.step { $0.opened(ConnectionID(rawValue: 1), head: HTTPResponseHead(status: 101), now: $1, &$2) }
        expectEqual(
            harness.receive(#"{"event":"pusher:connection_established","data":{}}"#, #"{"event":"pusher:ping"}"#),
            ["error connectionLost", "retry", "abandon #1"])
    }

    @Test func `events go to the consumers of their names and channels`() {
        var harness = SessionHarness.connected(to: "one", "two")
        harness.addConsumer(2, .events(channel: "one", name: "a"))
        harness.addConsumer(3, .events(channel: "one", name: nil))
        harness.addConsumer(4, .events(channel: "two", name: nil))
        harness.addConsumer(5, .events(channel: nil, name: "b"))
        harness.receive(
            #"{"event":"a","channel":"one"}"#, #"{"event":"a","channel":"one"}"#, #"{"event":"b","channel":"one"}"#,
            #"{"event":"b","channel":"two"}"#)
        expectEqual(
            harness.take(),
            [
                2: ["event one a", "event one a"], 3: ["event one a", "event one a", "event one b"], 4: ["event two b"],
                5: ["event one b", "event two b"],
            ])
    }

    @Test func `adding and removing a consumer takes effect with the next event`() {
        var harness = SessionHarness.connected(to: "one")
        let event = #"{"event":"a","channel":"one"}"#
        harness.receive(event)
        harness.addConsumer(2, .events(channel: "one", name: "a"))
        harness.receive(event)
        expectEqual(harness.take(), [2: ["event one a"]])
        harness.step { _, _, effects in effects.routes.remove(ConsumerID(rawValue: 2)) }
        harness.receive(event)
        expectEqual(harness.take(), [:])
    }

    @Test func `other updates go to their consumers`() {
        var harness = SessionHarness()
        harness.subscribe("presence-a")
        harness.addConsumer(2, .states)
        harness.addConsumer(3, .errors)
        harness.addConsumer(4, .retryDelays)
        harness.addConsumer(5, .subscription(channel: "presence-a"))
        harness.addConsumer(6, .members(channel: "presence-a"))
        harness.start()
        harness.establish()
        harness.authorize(1, channelData: #"{"user_id":"me"}"#)
        harness.confirm("presence-a", data: #"{"presence":{"ids":["me"]}}"#)
        harness.close(.transport(TransportError(.reset, "reset")))
        expectEqual(
            harness.take(),
            [
                2: ["state connecting", "state connected", "state connecting"], 3: ["error connectionLost"], 4: ["retry"],
                5: ["presence-a subscribed", "presence-a pending"], 6: ["presence-a has me"],
            ])
    }

    @Test func `a list of members is delivered after each change, and is empty after the client was stopped`() {
        var harness = SessionHarness()
        harness.subscribe("presence-a")
        harness.addConsumer(2, .memberLists(channel: "presence-a"))
        harness.start()
        harness.establish()
        harness.authorize(1, channelData: #"{"user_id":"me"}"#)
        harness.confirm("presence-a", data: #"{"presence":{"ids":["me"]}}"#)
        for (event, id) in [("added", "you"), ("added", "you"), ("removed", "me"), ("removed", "unknown")] {
            harness.receive(#"{"event":"pusher_internal:member_\#(event)","channel":"presence-a","data":{"user_id":"\#(id)"}}"#)
        }
        harness.close(.transport(TransportError(.reset, "reset")))
        expectEqual(harness.take(), [2: ["presence-a has me", "presence-a has me,you", "presence-a has you"]])
        harness.stop()
        expectEqual(harness.take(), [2: ["presence-a has "]])
    }

    @Test func `after a reconnect, the list of members comes with those who joined and left meanwhile`() {
        var harness = SessionHarness()
        harness.subscribe("presence-a")
        harness.start()
        harness.establish()
        harness.authorize(1, channelData: #"{"user_id":"me"}"#)
        harness.confirm("presence-a", data: #"{"presence":{"ids":["me","left","stays"]}}"#)
        harness.addConsumer(2, .memberLists(channel: "presence-a"))
        harness.addConsumer(3, .members(channel: "presence-a"))
        harness.close(.peer(.normal, ""))
        harness.advance(by: .seconds(2))
        harness.establish()
        harness.authorize(2, channelData: #"{"user_id":"me"}"#)
        expectEqual(harness.take(), [:])
        harness.confirm("presence-a", data: #"{"presence":{"ids":["me","stays",7,"new"]}}"#)
        let change = "presence-a has me,stays,7,new, joined [\"7\", \"new\"], left [\"left\"]"
        expectEqual(harness.take(), [2: ["presence-a has me,stays,7,new"], 3: [change]])
    }

    // MARK: Interruptions

    @Test(arguments: [
        (CloseReason.transport(TransportError(.reset, "reset")), "32.0 seconds"), (.heartbeatTimeout, "32.0 seconds"),
        (.peer(.normal, ""), "12.0 seconds"),
    ])
    func `a restored subscription reports since when events may be missing`(reason: CloseReason, duration: String) {
        var harness = SessionHarness.connected(to: "one", "two")
        harness.confirm("one")
        harness.addConsumer(2, .gaps(channel: "one"))
        harness.receive(#"{"event":"last sign of life","channel":"one"}"#)
        harness.advance(by: .seconds(20))
        harness.close(reason)
        harness.advance(by: .seconds(2))
        // The second attempt fails before the channel is subscribed again.
        harness.close(reason)
        harness.advance(by: .seconds(10))
        harness.establish()
        expectEqual(harness.take(), [:])
        expect(harness.confirm("one").contains("one gap \(duration)"))
        expectEqual(harness.take(), [2: ["one gap \(duration)"]])
        // The other channel was never subscribed, so that nothing is missing.
        expectEqual(harness.confirm("two"), ["two subscribed"])
    }

    @Test func `a second confirmation belongs to a second subscription, and events may be missing before it`() {
        var harness = SessionHarness.connected(to: "one")
        // The confirmation of the subscription that timed out is taken for that of the next one.
        harness.advance(by: .seconds(30))
        harness.subscribe("one")
        expectEqual(harness.confirm("one"), ["one subscribed"])
        harness.advance(by: .seconds(3))
        expectEqual(harness.confirm("one"), ["one gap 3.0 seconds"])
        expectEqual(harness.session.channels["one"]?.subscription.state, .subscribed)
    }

    @Test func `events of a subscription that was given up come with gaps`() {
        var harness = SessionHarness.connected(to: "private-a")
        harness.authorize(1)
        let event = #"{"event":"a","channel":"private-a"}"#
        harness.advance(by: .seconds(30))
        expectEqual(harness.receive(event), ["event private-a a"])
        harness.subscribe("private-a")
        harness.authorize(2)
        harness.advance(by: .seconds(1))
        expectEqual(harness.receive(event), ["event private-a a"])
        harness.advance(by: .seconds(2))
        expectEqual(harness.confirm("private-a"), ["private-a subscribed", "private-a gap 3.0 seconds"])
        expectEqual(harness.receive(event), ["event private-a a"])
    }

    @Test func `an event after an ignored confirmation comes with a gap`() {
        var harness = SessionHarness.connected(to: "private-a")
        harness.authorize(1)
        let event = #"{"event":"a","channel":"private-a"}"#
        harness.advance(by: .seconds(30))
        expectEqual(harness.receive(event), ["event private-a a"])
        harness.advance(by: .seconds(4))
        expectEqual(harness.confirm("private-a"), [])
        expectEqual(harness.receive(event, event), ["private-a gap 4.0 seconds", "event private-a a", "event private-a a"])
    }

    @Test func `a subscription that the server ends is interrupted until it succeeds again`() {
        var harness = SessionHarness.connected(to: "one")
        harness.confirm("one")
        harness.receive(#"{"event":"pusher:subscription_error","channel":"one","data":{"error":"no"}}"#)
        harness.advance(by: .seconds(5))
        harness.subscribe("one")
        expectEqual(harness.confirm("one"), ["one subscribed", "one gap 5.0 seconds"])
    }

    // MARK: Events of the protocol

    @Test func `events of the protocol are delivered to those who ask for them by name`() {
        var harness = SessionHarness()
        harness.subscribe("presence-a")
        harness.start()
        harness.establish()
        let names = ["subscription_succeeded", "member_added", "member_removed", "subscription_count", "cache_miss", "unknown"]
        for (index, name) in names.enumerated() {
            harness.addConsumer(UInt64(10 + index), .events(channel: "presence-a", name: "pusher:\(name)"))
            harness.addConsumer(UInt64(20 + index), .events(channel: nil, name: "pusher:\(name)"))
        }
        harness.addConsumer(2, .events(channel: "presence-a", name: nil))
        harness.addConsumer(3, .events(channel: nil, name: nil))
        harness.authorize(1, channelData: #"{"user_id":"me"}"#)
        let list = #"{"presence":{"ids":["me"]}}"#
        harness.confirm("presence-a", data: list)
        harness.receive(
            #"{"event":"pusher_internal:member_added","channel":"presence-a","data":{"user_id":"you"}}"#,
            #"{"event":"pusher_internal:member_removed","channel":"presence-a","data":{"user_id":"you"}}"#,
            #"{"event":"pusher_internal:subscription_count","channel":"presence-a","data":"{\"subscription_count\":3}"}"#,
            #"{"event":"pusher:cache_miss","channel":"presence-a"}"#, #"{"event":"pusher:unknown","channel":"presence-a","data":"1"}"#,
            #"{"event":"pusher_internal:unknown","channel":"presence-a"}"#)
        let lines = [
            "subscription_succeeded \(list)", #"member_added {"user_id":"you"}"#, #"member_removed {"user_id":"you"}"#,
            #"subscription_count {"subscription_count":3}"#, "cache_miss", "unknown 1",
        ]
        var expected: [UInt64: [String]] = [:]
        for (index, line) in lines.enumerated() {
            expected[UInt64(10 + index)] = ["event presence-a pusher:\(line)"]
            expected[UInt64(20 + index)] = ["event presence-a pusher:\(line)"]
        }
        // Only events without another form are among all events.
        expected[2] = ["event presence-a pusher:cache_miss", "event presence-a pusher:unknown 1"]
        expected[3] = expected[2]
        expectEqual(harness.take(), expected)
    }

    @Test func `events of the protocol that are ignored are not delivered by name`() {
        var harness = SessionHarness.connected(to: "private-a")
        harness.addConsumer(2, .events(channel: nil, name: "pusher:subscription_succeeded"))
        harness.addConsumer(3, .events(channel: nil, name: "pusher:cache_miss"))
        // The subscription wasn't sent yet.
        harness.confirm("private-a")
        harness.confirm("other")
        harness.receive(#"{"event":"pusher:cache_miss","channel":"other"}"#)
        expectEqual(harness.take(), [:])
        expectEqual(harness.counters.messagesIgnored, 3)
    }

    @Test func `a failed subscription is an event with the reason for those who ask for it`() {
        var harness = SessionHarness()
        harness.subscribe("private-a")
        harness.start()
        harness.establish()
        harness.addConsumer(2, .events(channel: "private-a", name: "pusher:subscription_error"))
        harness.failAuthorization(1, status: 403)
        let line = harness.take()[2]?.first ?? ""
        expect(
            line.hasPrefix(#"event private-a pusher:subscription_error {"type":"AuthError","error":""#)
                && line.hasSuffix(#","status":403}"#))
    }

    @Test func `the number of subscribed connections is the server's last one`() {
        var harness = SessionHarness.connected(to: "one")
        harness.confirm("one")
        harness.addConsumer(2, .subscriptionCounts(channel: "one"))
        for data in ["{\"subscription_count\":3}", "\"{\\\"subscription_count\\\":4}\"", "{}"] {
            harness.receive(#"{"event":"pusher_internal:subscription_count","channel":"one","data":\#(data)}"#)
        }
        expectEqual(harness.take(), [2: ["one count 3", "one count 4"]])
        expectEqual(harness.session.channels["one"]?.subscriptionCount, 4)
    }

    @Test func `the last list of a channel's members is empty`() {
        var harness = SessionHarness()
        harness.subscribe("presence-a")
        harness.start()
        harness.establish()
        harness.authorize(1, channelData: #"{"user_id":"me"}"#)
        harness.confirm("presence-a", data: #"{"presence":{"ids":["me"]}}"#)
        harness.addConsumer(2, .memberLists(channel: "presence-a"))
        harness.unsubscribe("presence-a")
        expectEqual(harness.take(), [2: ["presence-a has "]])
    }

    @Test func `unsubscribing ends the consumers of the channel after the last update`() {
        var harness = SessionHarness.connected(to: "one", "two")
        harness.addConsumer(2, .events(channel: "one", name: nil))
        harness.addConsumer(3, .subscription(channel: "one"))
        harness.addConsumer(4, .members(channel: "one"))
        harness.addConsumer(5, .events(channel: "two", name: nil))
        harness.addConsumer(7, .memberLists(channel: "one"))
        harness.addConsumer(8, .gaps(channel: "one"))
        harness.addConsumer(9, .subscriptionCounts(channel: "one"))
        expectEqual(harness.unsubscribe("one"), ["one unsubscribed", "#1 pusher:unsubscribe one", "end 2,3,4,7,8,9"])
        expectEqual(harness.take(), [3: ["one unsubscribed"]])
        // Another channel takes the slot and the routes.
        harness.subscribe("three")
        harness.addConsumer(6, .events(channel: "three", name: nil))
        harness.receive(#"{"event":"a","channel":"one"}"#, #"{"event":"a","channel":"three"}"#, #"{"event":"a","channel":"two"}"#)
        expectEqual(harness.take(), [5: ["event two a"], 6: ["event three a"]])
    }

    @Test(
        arguments: [
            .events(channel: "one", name: nil), .subscription(channel: "one"), .members(channel: "one"), .memberLists(channel: "one"),
            .gaps(channel: "one"), .subscriptionCounts(channel: "one"),
        ] as [PusherSession.Topic])
    func `a consumer of an unsubscribed channel ends immediately`(topic: PusherSession.Topic) {
        var harness = SessionHarness()
        expectEqual(harness.addConsumer(2, topic), ["end 2"])
    }
}
