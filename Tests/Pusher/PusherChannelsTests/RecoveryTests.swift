import PusherTestSupport
import Foundation
import PusherServer
import PusherTesting
import PusherWire
import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherChannels

/// The recovery of missed events: the client's session with frames of a server, and the client with the embedded server.
@Suite(.timeLimit(.minutes(10))) struct RecoveryTests {
    // MARK: The session

    private static let channel = "one"

    private func event(_ serial: Int, _ data: String? = nil, on channel: String = Self.channel, stream: String = "s") -> String {
        #"{"event":"a","channel":"\#(channel)","data":"\#(data ?? "\(serial)")","stream_id":"\#(stream)","serial":\#(serial)}"#
    }

    private func confirmation(_ serial: Int, on channel: String = Self.channel, stream: String = "s") -> String {
        let position = #""stream_id":"\#(stream)","serial":\#(serial)"#
        return #"{"event":"sockudo_internal:subscription_succeeded","channel":"\#(channel)","data":"{}",\#(position)}"#
    }

    private func success(_ recovered: String, failed: String = "") -> String {
        #"{"event":"sockudo:resume_success","data":{"recovered":[\#(recovered)],"failed":[\#(failed)]}}"#
    }

    private static let recovered = #"{"channel":"one","replayed":1,"position":null}"#

    /// A session whose channel is subscribed at the position 5, and then connected again.
    private func reconnected(_ channel: String = Self.channel) -> SessionHarness {
        var harness = SessionHarness.connected(to: channel) { $0.recovery = .sockudo }
        harness.receive(self.confirmation(4, on: channel), self.event(5, on: channel))
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        harness.advance(by: .seconds(3))
        harness.establish()
        return harness
    }

    @Test func `the version of the protocol depends on the recovery`() {
        for (recovery, version) in [(nil, "7"), (.sockudo, "2")] as [(PusherRecovery?, String)] {
            let harness = SessionHarness { $0.recovery = recovery }
            expect(harness.session.request.endpoint.target.hasSuffix("&protocol=\(version)"))
        }
    }

    @Test func `the client requests the missed events, and delivers them before newer ones instead of reporting a gap`() {
        var harness = self.reconnected()
        expectEqual(
            harness.receive(self.confirmation(7)), ["one subscribed", #"#2 pusher:resume {"one":{"serial":5,"stream_id":"s"}}"#])
        expectEqual(harness.receive(self.event(8)), [])
        expectEqual(harness.receive(self.event(6), self.event(7)), ["event one a 6", "event one a 7"])
        expectEqual(harness.receive(self.event(9)), [])
        expectEqual(harness.receive(self.event(8)), ["event one a 8"])
        expectEqual(harness.receive(self.success(Self.recovered)), ["event one a 9"])
        expectEqual(harness.receive(self.event(9), self.event(10)), ["event one a 10"])
        // The next loss has no trace of this one.
        expectEqual(harness.advance(by: .seconds(60)), [])
    }

    @Test func `without missed events, there is neither a request nor a gap`() {
        var harness = self.reconnected()
        expectEqual(harness.receive(self.confirmation(5)), ["one subscribed"])
        expectEqual(harness.receive(self.event(6)), ["event one a 6"])
    }

    @Test(arguments: [
        ("stream_reset", PusherRecoveryFailure.streamReset), ("position_expired", .positionExpired),
        ("persistence_unavailable", .persistenceUnavailable), ("continuity_unverifiable", .continuityUnverifiable),
        ("something", .other("something")),
    ])
    func `a gap contains the reason why the events can't be recovered`(code: String, failure: PusherRecoveryFailure) {
        for isListed in [false, true] {
            var harness = self.reconnected()
            harness.receive(self.confirmation(7), self.event(8))
            let frame =
                isListed
                ? self.success("", failed: #"{"channel":"one","code":"\#(code)"}"#)
                : #"{"event":"sockudo:resume_failed","channel":"one","data":"{\"code\":\"\#(code)\"}"}"#
            expectEqual(harness.receive(frame), ["one gap 3.0 seconds, \(failure)", "event one a 8"])
            // The other form follows.
            expectEqual(harness.receive(frame, self.success("", failed: #"{"channel":"one","code":"\#(code)"}"#)), [])
            expectEqual(harness.receive(self.event(9)), ["event one a 9"])
        }
    }

    @Test func `another stream is a gap without a request`() {
        var harness = self.reconnected()
        let lines = harness.receive(self.event(1, stream: "t"), self.confirmation(1, stream: "t"), self.event(2, stream: "t"))
        expectEqual(
            lines, ["one subscribed", "one gap 3.0 seconds, \(PusherRecoveryFailure.streamReset)", "event one a 1", "event one a 2"])
    }

    @Test func `a server that doesn't number events causes gaps`() {
        var harness = SessionHarness.connected(to: "one") { $0.recovery = .sockudo }
        harness.confirm("one")
        expectEqual(harness.receive(#"{"event":"a","channel":"one"}"#), ["event one a"])
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        harness.establish()
        expectEqual(harness.confirm("one"), ["one subscribed", "one gap 0.0 seconds, \(PusherRecoveryFailure.notSupported)"])
        // The same if the server has stopped to.
        harness = self.reconnected()
        expectEqual(
            harness.receive(self.event(7), #"{"event":"sockudo_internal:subscription_succeeded","channel":"one","data":"{}"}"#),
            ["one subscribed", "one gap 3.0 seconds, \(PusherRecoveryFailure.notSupported)", "event one a 7"])
    }

    @Test func `a server that doesn't respond causes a gap when the time limit has expired`() {
        var harness = self.reconnected()
        harness.receive(self.confirmation(7), self.event(8))
        expectEqual(harness.advance(by: .seconds(29)), [])
        expectEqual(harness.advance(by: .seconds(1)), ["one gap 33.0 seconds, \(PusherRecoveryFailure.timedOut)", "event one a 8"])
        // Too late.
        expectEqual(harness.receive(self.event(6), self.success(Self.recovered)), [])
    }

    @Test func `after a standstill, the server has the time for missed events once more`() {
        var harness = self.reconnected()
        harness.receive(self.confirmation(7), self.event(8))
        expectEqual(harness.standStill(for: .seconds(40)), [])
        expectEqual(
            harness.standStill(for: .seconds(40)), ["one gap 83.0 seconds, \(PusherRecoveryFailure.timedOut)", "event one a 8"])
    }

    private func error(_ code: Int, _ message: String) -> String {
        #"{"event":"sockudo:error","data":{"code":\#(code),"message":"\#(message)"}}"#
    }

    @Test(
        arguments: [
            (4301, "Connection recovery is not enabled", .notSupported), (4301, "No", .notSupported),
            (4000, "Invalid message format: Invalid resume data JSON", .other("Invalid message format: Invalid resume data JSON")),
        ] as [(Int, String, PusherRecoveryFailure)])
    func `an error about the request causes a gap`(code: Int, message: String, failure: PusherRecoveryFailure) {
        var harness = self.reconnected()
        harness.receive(self.confirmation(7), self.event(8))
        expectEqual(harness.receive(self.error(code, message)), ["one gap 3.0 seconds, \(failure)", "event one a 8", "error server"])
        // It isn't the reason for a loss that follows.
        let lines = harness.close(.transport(TransportError(.reset, "reset")))
        expectEqual(lines, ["one pending", "state connecting", "error connectionLost", "retry"])
    }

    @Test func `each request for missed events has an answer of its own`() {
        var harness = SessionHarness.connected(to: "one", "two") { $0.recovery = .sockudo }
        for channel in ["one", "two"] { harness.receive(self.confirmation(5, on: channel)) }
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        harness.establish()
        harness.receive(self.confirmation(6, on: "one"), self.confirmation(6, on: "two"))
        for channel in ["one", "two"] {
            let lines = harness.receive(self.error(4301, "Connection recovery is not enabled"))
            expectEqual(lines, ["\(channel) gap 0.0 seconds, \(PusherRecoveryFailure.notSupported)", "error server"])
        }
        expectEqual(harness.receive(self.error(4301, "Connection recovery is not enabled")), ["error server"])
    }

    @Test func `an error about something else leaves the request for missed events alone`() {
        var harness = SessionHarness.connected(to: "one", "private-resume") { $0.recovery = .sockudo }
        harness.authorize(1)
        for channel in ["one", "private-resume"] { harness.receive(self.confirmation(5, on: channel)) }
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        harness.establish()
        harness.authorize(2)
        harness.receive(self.confirmation(6, on: "one"), self.confirmation(5, on: "private-resume"))
        expectEqual(harness.trigger("client-a", on: "private-resume"), ["#2 client-a private-resume"])
        expectEqual(
            harness.receive(
                self.error(4301, "Client event rejected due to rate limit"),
                self.error(4301, "Client event error: private-resume doesn't allow it"),
                self.error(4300, "Channel error: Durable history is disabled by policy for channel 'private-resume'")),
            ["error clientEventRejected", "error clientEventRejected", "error server"])
        let named = #"{"event":"sockudo:error","channel":"one","data":{"code":4300,"message":"no recovery"}}"#
        expectEqual(harness.receive(named), ["error server"])
        expectEqual(harness.receive(self.event(6), self.success(Self.recovered)), ["event one a 6"])
    }

    @Test func `invalid frames about the recovery are reported and cost nothing else`() {
        var harness = self.reconnected()
        harness.receive(self.confirmation(7))
        for data in ["[]", #""no JSON""#, "{}", "7", "null"] {
            let lines = harness.receive(#"{"event":"sockudo:resume_success","data":\#(data)}"#)
            expectEqual(lines, ["error invalidFrame"], "\(data)")
        }
        for entry in ["7", "{}", #"{"channel":7}"#, #"{"channel":"unknown"}"#, #"{"channel":"two","position":{}}"#] {
            expectEqual(harness.receive(self.success(entry, failed: entry)), [], "\(entry)")
        }
        expectEqual(harness.receive(#"{"event":"sockudo:resume_failed","data":{}}"#), [])
        expectEqual(harness.receive(#"{"event":"sockudo:resume_failed","channel":"unknown","data":{}}"#), [])
        expectEqual(harness.receive(self.event(6), self.event(7)), ["event one a 6", "event one a 7"])
        let odd = #"{"channel":"one","replayed":"x","position":{"stream_id":7,"serial":-5}}"#
        expectEqual(harness.receive(self.success(odd), self.event(8)), ["event one a 8"])
        // A failure without a reason.
        harness = self.reconnected()
        harness.receive(self.confirmation(7))
        expectEqual(
            harness.receive(#"{"event":"sockudo:resume_failed","channel":"one","data":7}"#),
            ["one gap 3.0 seconds, the server gave no reason"])
    }

    @Test func `each channel recovers on its own`() {
        var harness = SessionHarness.connected(to: "one", "two", "three") { $0.recovery = .sockudo }
        for channel in ["one", "two", "three"] { harness.receive(self.confirmation(5, on: channel)) }
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        harness.establish()
        for (channel, serial) in [("one", 6), ("two", 7), ("three", 5)] {
            harness.receive(self.confirmation(serial, on: channel), self.event(8, on: channel))
        }
        expectEqual(harness.receive(self.event(9, on: "three")), ["event three a 9"])
        expectEqual(
            harness.receive(
                self.event(6, on: "two"), self.success(Self.recovered, failed: #"{"channel":"two","code":"position_expired"}"#)),
            ["event two a 6", "event one a 8", "two gap 0.0 seconds, \(PusherRecoveryFailure.positionExpired)", "event two a 8"])
    }

    @Test func `a second loss while events are missing continues after the last delivered event`() {
        var harness = self.reconnected()
        expectEqual(harness.receive(self.confirmation(7), self.event(6)).last, #"#2 pusher:resume {"one":{"serial":5,"stream_id":"s"}}"#)
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        harness.advance(by: .seconds(1))
        harness.establish()
        expectEqual(harness.receive(self.confirmation(7)).last, #"#3 pusher:resume {"one":{"serial":6,"stream_id":"s"}}"#)
        expectEqual(
            harness.receive(#"{"event":"sockudo:resume_failed","channel":"one","data":{"code":"position_expired"}}"#),
            ["one gap 4.0 seconds, \(PusherRecoveryFailure.positionExpired)"])
    }

    @Test func `unsubscribing forgets the position`() {
        var harness = self.reconnected()
        harness.receive(self.confirmation(7), self.event(8))
        expectEqual(harness.unsubscribe("one"), ["one unsubscribed", "#2 pusher:unsubscribe one"])
        expectEqual(harness.receive(self.success(Self.recovered)), [])
        harness.subscribe("one")
        expectEqual(harness.receive(self.confirmation(20), self.event(21)), ["one subscribed", "event one a 21"])
        expectEqual(harness.advance(by: .seconds(60)), [])
    }

    @Test func `a rejected subscription recovers when it succeeds again`() {
        var harness = SessionHarness.connected(to: "one") { $0.recovery = .sockudo }
        harness.receive(self.confirmation(5))
        harness.receive(#"{"event":"pusher:subscription_error","channel":"one","data":{"error":"no"}}"#)
        harness.advance(by: .seconds(5))
        harness.subscribe("one")
        expectEqual(harness.receive(self.confirmation(6)).last, #"#1 pusher:resume {"one":{"serial":5,"stream_id":"s"}}"#)
        expectEqual(harness.receive(self.event(6), self.success(Self.recovered)), ["event one a 6"])
    }

    @Test func `events of a subscription that was given up come with gaps, and are not repeated`() {
        var harness = SessionHarness.connected(to: "one") { $0.recovery = .sockudo }
        harness.receive(self.confirmation(5))
        harness.receive(#"{"event":"pusher:subscription_error","channel":"one","data":{"error":"no"}}"#)
        harness.advance(by: .seconds(5))
        expectEqual(harness.receive(self.event(7)), ["one gap 5.0 seconds", "event one a 7"])
        harness.subscribe("one")
        expectEqual(harness.receive(self.confirmation(7), self.event(7)), ["one subscribed"])
    }

    @Test func `the last event of a cache channel is delivered, although the connection was lost before it arrived`() {
        var harness = SessionHarness.connected(to: "cache-a") { $0.recovery = .sockudo }
        harness.receive(self.confirmation(5, on: "cache-a"))
        for isMissing in [true, false] {
            harness.close(.peer(CloseCode(rawValue: 4200), ""))
            harness.establish()
            harness.receive(self.confirmation(5, on: "cache-a"))
            expectEqual(harness.receive(#"{"event":"a","channel":"cache-a","data":"5"}"#), (isMissing ? ["event cache-a a 5"] : []))
        }
        expectEqual(harness.receive(self.event(6, on: "cache-a")), ["event cache-a a 6"])
    }

    @Test func `a second confirmation while the channel is subscribed recovers what was missed before it`() {
        var harness = SessionHarness.connected(to: "one") { $0.recovery = .sockudo }
        harness.receive(self.confirmation(5))
        expectEqual(harness.receive(self.confirmation(5)), [])
        expectEqual(harness.receive(self.confirmation(7)), [#"#1 pusher:resume {"one":{"serial":5,"stream_id":"s"}}"#])
        expectEqual(harness.receive(self.event(6), self.event(7), self.success(Self.recovered)), ["event one a 6", "event one a 7"])
    }

    /// The first confirmation is the one of a subscription that the client has given up. Until the second one, the server sent the events of
    /// the first, and then none.
    @Test func `a gap that lasts until a second confirmation is reported once, before the events that have waited`() {
        var harness = self.reconnected()
        harness.receive(self.confirmation(7), self.event(8))
        harness.advance(by: .seconds(2))
        expectEqual(harness.receive(self.confirmation(9)), [#"#2 pusher:resume {"one":{"serial":5,"stream_id":"s"}}"#])
        expectEqual(harness.receive(self.event(10)), [])
        let failed = self.success("", failed: #"{"channel":"one","code":"position_expired"}"#)
        expectEqual(
            harness.receive(failed), ["one gap 5.0 seconds, \(PusherRecoveryFailure.positionExpired)", "event one a 8", "event one a 10"])
        // The answer to the second request.
        expectEqual(harness.receive(failed), [])
        expectEqual(harness.receive(self.event(11)), ["event one a 11"])
    }

    @Test func `an event before the first confirmation is delivered, and starts the position`() {
        var harness = SessionHarness.connected(to: "one") { $0.recovery = .sockudo }
        expectEqual(harness.receive(self.event(3)), ["event one a 3"])
        expectEqual(harness.receive(self.confirmation(3), self.event(3), self.event(4)), ["one subscribed", "event one a 4"])
    }

    @Test func `frames of version 2 have the meaning of those with the other prefix`() {
        var harness = SessionHarness.connected(to: "presence-room", "cache-a") { $0.recovery = .sockudo }
        harness.authorize(1, channelData: #"{"user_id":"me"}"#)
        let members = #"{\"presence\":{\"ids\":[\"me\"],\"hash\":{\"me\":{}},\"count\":1}}"#
        harness.receive(
            #"{"event":"sockudo_internal:subscription_succeeded","channel":"presence-room","data":"\#(members)","stream_id":"s","serial":0}"#
        )
        harness.addConsumer(2, .events(channel: "presence-room", name: "pusher:member_added"))
        expectEqual(
            harness.receive(#"{"event":"sockudo_internal:member_added","channel":"presence-room","data":"{\"user_id\":\"bert\"}"}"#),
            ["presence-room joined bert"])
        expectEqual(harness.take(), [2: [#"event presence-room pusher:member_added {"user_id":"bert"}"#]])
        expectEqual(harness.receive(self.confirmation(0, on: "cache-a")), ["cache-a subscribed"])
        expectEqual(
            harness.receive(#"{"event":"sockudo:cache_miss","channel":"cache-a","data":"{}"}"#), ["event cache-a pusher:cache_miss {}"])
        expectEqual(harness.receive(#"{"event":"sockudo:ping","data":"{}"}"#), ["#1 pusher:pong"])
        expectEqual(harness.receive(#"{"event":"sockudo:error","data":{"code":4009,"message":"no"}}"#), ["error server"])
    }

    /// The frames that sockudo sent to two connections, the second of which was opened after two events were missed.
    @Test func `the frames that sockudo sent are understood`() throws {
        let text = try String(contentsOfFile: Vectors.path("pusher/sockudo-5.2.0-recovery.txt"), encoding: .utf8)
        var sections: [(title: String, frames: [String])] = []
        for line in text.split(separator: "\n").map(String.init) {
            if line.hasPrefix("#") { sections.append((line, [])) } else { sections[sections.count - 1].frames.append(line) }
        }
        func frames(_ title: String) throws -> [String] {
            try #require(sections.first { $0.title.contains(title) }).frames.filter { !$0.hasPrefix(">") }
        }
        var harness = SessionHarness { $0.recovery = .sockudo }
        func receive(_ frames: [String]) -> [String] {
            frames.flatMap { frame in
                if frame.contains("connection_established") {
                    let id = harness.connection
                    harness.step { $0.opened(id, head: HTTPResponseHead(status: 101), now: $1, &$2) }
                }
                return harness.receive(frame)
            }
        }
        harness.subscribe("orders")
        harness.start()
        let first = receive(try frames("A connection subscribes"))
        expectEqual(first.suffix(2), ["orders subscribed", "event orders tick 1"])
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        // The client requests the missed events when it receives the confirmation.
        let second = receive(try frames("The next connection subscribes"))
        expectEqual(second.filter { $0.contains("tick") }, (2...4).map { "event orders tick \($0)" })
        expect(second.filter { $0.contains("resume") }.count == 1 && !second.contains { $0.contains("gap") || $0.contains("error") })
        // What is not about a request of this client changes nothing.
        for section in ["A position at the end", "A position in another stream"] { expectEqual(receive(try frames(section)), []) }
        expectEqual(receive(try frames("The history of a channel, without")), ["error server"])
        // A cache channel, and a ping.
        harness.subscribe("cache-orders")
        expectEqual(receive(try frames("A cache channel")), ["cache-orders subscribed", "event cache-orders tick 1"])
        expectEqual(receive(try frames("A ping")), [])
        // The position of another connection has expired while event 12 was published.
        let stream = try #require(try JSONValue(parsing: try frames("in the buffer")[0])["stream_id"]?.string)
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        harness.establish()
        expectEqual(harness.receive(self.confirmation(11, on: "orders", stream: stream)).last?.contains("resume"), true)
        expectEqual(
            receive(try frames("in the buffer")),
            ["orders gap 0.0 seconds, \(PusherRecoveryFailure.positionExpired)", "event orders tick 12"])
    }

    // MARK: The embedded server

    /// Returns a server that keeps events, and a client that recovers them.
    private func pusher(
        keeping count: Int = 100, configure: (inout PusherApp) -> Void = { _ in }
    ) async throws -> (InMemoryPusher, PusherClient) {
        let pusher = try await InMemoryPusher {
            $0.profile = .sockudo
            $0.recoveryLimit = count
            configure(&$0)
        }
        let client = pusher.client(userID: "anna") { $0.recovery = .sockudo }
        client.connect()
        return (pusher, client)
    }

    @Test(arguments: [
        "orders", "private-orders", "presence-orders", "private-encrypted-orders", "cache-orders", "private-encrypted-cache-orders",
    ])
    func `events that were published while the connection was interrupted arrive after it, in order and once`(name: String) async throws {
        let (pusher, client) = try await self.pusher()
        let channel = try client.subscribe(name)
        let (events, gaps) = (channel.events("tick"), channel.gaps)
        for value in 1...2 { pusher.server.publish("tick", to: name, data: "\(value)") }
        for round in 0..<3 {
            pusher.network.cut()
            for value in 0..<2 { pusher.server.publish("tick", to: name, data: "\(3 + 3 * round + value)") }
            // The delays grow, because no connection lasts.
            pusher.clock.advance(by: .seconds(10))
            expectEqual(channel.state, .subscribed)
            pusher.server.publish("tick", to: name, data: "\(5 + 3 * round)")
        }
        // Nothing was published meanwhile.
        pusher.network.cut()
        pusher.clock.advance(by: .seconds(10))
        await expectEqual(events.pending().map(\.data), (1...11).map { "\($0)" })
        await expect(gaps.pending().isEmpty)
    }

    @Test func `the request for missed events is among the frames of the client`() async throws {
        let (pusher, client) = try await self.pusher()
        _ = try client.subscribe("orders")
        let (frames, updates) = (client.frames(), client.updates(includingFrames: true))
        pusher.network.cut()
        pusher.server.publish("tick", to: "orders", data: "1")
        pusher.clock.advance(by: .seconds(10))
        let sent = await frames.pending().filter { $0.direction == .sent }.map(\.text)
        expect(sent.count == 2 && sent.last?.hasPrefix(#"{"event":"pusher:resume""#) == true, "\(sent)")
        await expectEqual(updates.pending().compactMap { if case .sentFrame(let text) = $0 { text } else { nil } }, sent)
    }

    @Test func `a client event reaches its sender with version 2 only`() async throws {
        let (pusher, client) = try await self.pusher()
        let bert = pusher.client(userID: "bert")
        bert.connect()
        let channels = try [client, bert].map { try $0.subscribe("private-orders") }
        let events = channels.map { $0.events() }
        for (index, channel) in channels.enumerated() { try channel.trigger("client-a", index) }
        await expectEqual(events[0].pending().map(\.data), ["0", "1"])
        await expectEqual(events[1].pending().map(\.data), ["0"])
    }

    @Test func `client events are recovered`() async throws {
        let (pusher, client) = try await self.pusher()
        let events = try client.subscribe("private-orders").events("client-a")
        let bert = pusher.client(userID: "bert")
        bert.connect()
        let orders = try bert.subscribe("private-orders")
        try orders.trigger("client-a", 1)
        pusher.server.drop(try #require(client.socketID))
        try orders.trigger("client-a", 2)
        pusher.clock.advance(by: .seconds(1))
        try orders.trigger("client-a", 3)
        await expectEqual(events.pending().map(\.data), ["1", "2", "3"])
    }

    @Test func `events that the server no longer keeps are a gap`() async throws {
        let (pusher, client) = try await self.pusher(keeping: 2)
        let channel = try client.subscribe("orders")
        let (events, gaps) = (channel.events(), channel.gaps)
        pusher.server.publish("tick", to: "orders", data: "1")
        pusher.network.cut()
        for value in 2...4 { pusher.server.publish("tick", to: "orders", data: "\(value)") }
        pusher.clock.advance(by: .seconds(1))
        pusher.server.publish("tick", to: "orders", data: "5")
        await expectEqual(events.pending().map(\.data), ["1", "5"])
        await expectEqual(gaps.pending().map(\.recoveryFailure), [.positionExpired])
    }

    @Test func `a server that has forgotten the channel counts again`() async throws {
        let (pusher, client) = try await self.pusher { $0.recoveryLifetime = .seconds(60) }
        let channel = try client.subscribe("orders")
        pusher.server.publish("tick", to: "orders", data: "1")
        client.disconnect()
        pusher.server.publish("tick", to: "orders", data: "2")
        pusher.clock.advance(by: .seconds(60))
        let (events, gaps) = (channel.events(), channel.gaps)
        client.connect()
        pusher.server.publish("tick", to: "orders", data: "3")
        await expectEqual(events.pending().map(\.data), ["3"])
        await expectEqual(gaps.pending().map(\.recoveryFailure), [.streamReset])
    }

    @Test func `events are kept for a time after the last one`() async throws {
        let (pusher, client) = try await self.pusher { $0.recoveryLifetime = .seconds(60) }
        let channel = try client.subscribe("orders")
        pusher.server.publish("tick", to: "orders", data: "1")
        client.disconnect()
        for value in 2...4 {
            pusher.clock.advance(by: .seconds(40))
            pusher.server.publish("tick", to: "orders", data: "\(value)")
        }
        let (events, gaps) = (channel.events(), channel.gaps)
        client.connect()
        await expectEqual(events.pending().map(\.data), ["2", "3", "4"])
        await expect(gaps.pending().isEmpty)
        // The channel has a subscriber, so that its position remains, without the events.
        pusher.clock.advance(by: .seconds(180))
        pusher.network.cut()
        pusher.clock.advance(by: .seconds(1))
        pusher.server.publish("tick", to: "orders", data: "5")
        await expectEqual(events.pending().map(\.data), ["5"])
        await expect(gaps.pending().isEmpty)
    }

    @Test func `the positions outlive a client that disconnects and connects again`() async throws {
        let (pusher, client) = try await self.pusher()
        let channel = try client.subscribe("orders")
        pusher.server.publish("tick", to: "orders", data: "1")
        client.disconnect()
        pusher.server.publish("tick", to: "orders", data: "2")
        let (events, gaps) = (channel.events(), channel.gaps)
        client.connect()
        await expectEqual(events.pending().map(\.data), ["2"])
        await expect(gaps.pending().isEmpty && channel.state == .subscribed)
    }

    @Test func `a server that keeps no events rejects version 2`() async throws {
        let pusher = try await InMemoryPusher { $0.profile = .sockudo }
        let client = pusher.client { $0.recovery = .sockudo }
        client.connect()
        guard case .disconnected(let error) = client.state else {
            Issue.record("The client is \(client.state).")
            return
        }
        expectEqual(error?.serverCode, 4007)
    }

    @Test func `clients with version 7 receive no positions`() async throws {
        let (pusher, client) = try await self.pusher()
        let events = try client.subscribe("orders").events()
        let other = pusher.client()
        let (frames, others) = (other.updates(includingFrames: true), try other.subscribe("orders").events())
        other.connect()
        pusher.server.publish("tick", to: "orders", data: "1")
        let received = await frames.pending().compactMap { if case .frame(let text) = $0 { text } else { nil } }
        expect(received.count == 3 && !received.contains { $0.contains("serial") || $0.contains("sockudo") })
        await expectEqual(events.pending().map(\.data), ["1"])
        await expectEqual(others.pending().map(\.data), ["1"])
    }

    @Test func `the server answers requests for events in the form of sockudo`() async throws {
        let (pusher, client) = try await self.pusher()
        let updates = client.updates(includingFrames: true)
        _ = try client.subscribe("orders")
        for value in 1...2 { pusher.server.publish("tick", to: "orders", data: "\(value)") }
        let frames = await updates.pending().compactMap { update -> JSONValue? in
            if case .frame(let text) = update { try? JSONValue(parsing: text) } else { nil }
        }
        expect(frames.first?["event"] == "sockudo_internal:subscription_succeeded" && frames.first?["serial"] == 0)
        let stream = try #require(frames.first?["stream_id"]?.string)
        expect(frames.dropFirst().allSatisfy { $0["stream_id"]?.string == stream && $0["event"] == "tick" })

        let raw = RawClient(pusher, "/app/key?protocol=2")
        raw.send(#"{"event":"sockudo:resume","data":{"channel_positions":{"orders":{"serial":1,"stream_id":"\#(stream)"}}}}"#)
        raw.send(#"{"event":"pusher:subscribe","data":{"channel":"orders"}}"#)
        raw.send(#"{"event":"pusher:resume","data":"{\"channel_positions\":{\"orders\":{\"serial\":1,\"stream_id\":\"\#(stream)\"}}}"}"#)
        raw.send(#"{"event":"pusher:resume","data":{"channel_positions":{"orders":{"serial":2,"stream_id":"\#(stream)"}}}}"#)
        raw.send(#"{"event":"pusher:resume","data":{"channel_positions":{"orders":{"serial":3,"stream_id":"\#(stream)"}}}}"#)
        raw.send(#"{"event":"pusher:resume","data":{"channel_positions":{"orders":{"serial":1,"stream_id":"another"}}}}"#)
        for data in ["{}", "7", #"{"channel_positions":[]}"#, #"{"channel_positions":{"orders":{"serial":-1}}}"#] {
            raw.send(#"{"event":"pusher:resume","data":\#(data)}"#)
        }
        let answers = raw.take().compactMap { try? JSONValue(parsing: $0) }.map { frame in
            let data = frame["data"]?.string.flatMap { try? JSONValue(parsing: $0) } ?? frame["data"]
            return [
                frame["event"]?.string, frame["serial"]?.description, data?["code"]?.description,
                data?["recovered"]?.array.map { "\($0.map { "\($0["replayed"]?.int ?? 0) \($0["position"]?["serial"]?.int ?? 0)" })" },
            ].compactMap { $0 }.joined(separator: " ")
        }
        expectEqual(
            answers,
            [
                "sockudo:connection_established", #"sockudo:resume_failed "position_expired""#, "sockudo:resume_success []",
                "sockudo_internal:subscription_succeeded 2", "tick 2", #"sockudo:resume_success ["1 2"]"#,
                #"sockudo:resume_success ["0 0"]"#, #"sockudo:resume_failed "position_expired""#, "sockudo:resume_success []",
                #"sockudo:resume_failed "stream_reset""#, "sockudo:resume_success []", "sockudo:error 4200", "sockudo:error 4200",
                "sockudo:error 4200", "sockudo:error 4200",
            ])
    }
}
