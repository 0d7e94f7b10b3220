import Foundation
import PusherServer
import PusherTesting
import PusherWire
import RealtimeCore
import RealtimeEncoding
import RealtimeCoding
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherChannels

/// Events as deltas: the client's session with frames of a server, and the client with the embedded server.
@Suite(.timeLimit(.minutes(10))) struct DeltaTests {
    // MARK: The session

    private static let stateful = #","stream_id":"s","serial":"#

    private func text(_ event: String, _ data: Int, serial: Int? = nil) -> String {
        let position = serial.map { "\(Self.stateful)\($0)" } ?? ""
        return #"{"event":"\#(event)","channel":"one","data":"a text that stays the same: \#(data)"\#(position)}"#
    }

    /// A complete event with its number.
    private func full(_ event: String, _ data: Int, seq: Int, key: String? = nil, serial: Int? = nil) -> String {
        let group = key.map { #","__conflation_key":"\#($0)""# } ?? ""
        return self.text(event, data, serial: serial).dropLast() + #","__delta_seq":\#(seq)\#(group)}"#
    }

    /// A delta between two events.
    private func delta(
        _ event: String, _ data: Int, from base: Int, seq: Int, key: String? = nil, serial: Int? = nil, baseSerial: Int? = nil,
        algorithm: String = "fossil", change: (inout [UInt8]) -> Void = { _ in }
    ) -> String {
        var delta = FossilDelta.make(
            Array(self.text(event, data, serial: serial).utf8), from: Array(self.text(event, base, serial: baseSerial).utf8))
        change(&delta)
        let group = key.map { #","conflation_key":"\#($0)""# } ?? ""
        let members = #""delta":"\#(Base64.encode(delta))","seq":\#(seq),"base_index":\#(seq - 1),"algorithm":"\#(algorithm)"\#(group)"#
        return #"{"event":"sockudo:delta","channel":"one","data":{"event":"\#(event)",\#(members)}}"#
    }

    private func line(_ event: String, _ data: Int) -> String { "event one \(event) a text that stays the same: \(data)" }

    private func confirmation(_ serial: Int) -> String {
        #"{"event":"sockudo_internal:subscription_succeeded","channel":"one","data":"{}"\#(Self.stateful)\#(serial)}"#
    }

    /// A session that is subscribed to `one`.
    private func subscribed(_ change: (inout PusherConfiguration) -> Void = { _ in }) -> SessionHarness {
        var harness = SessionHarness.connected(to: "one") { configuration in
            configuration.deltaCompression = .fossil
            change(&configuration)
        }
        let isRecovering = harness.session.recovery.isOn
        if isRecovering { harness.receive(self.confirmation(0)) } else { harness.confirm("one") }
        return harness
    }

    @Test func `a client requests deltas before it subscribes`() {
        var harness = SessionHarness { $0.deltaCompression = .fossil }
        harness.subscribe("one")
        harness.start()
        expect(harness.session.request.endpoint.target.hasSuffix("&protocol=2"))
        expectEqual(harness.establish().suffix(2), ["#1 pusher:enable_delta_compression", "#1 pusher:subscribe one"])
        expectEqual(harness.receive(#"{"event":"sockudo:delta_compression_enabled","data":{"enabled":true,"algorithm":"fossil"}}"#), [])
        var other = SessionHarness.connected(to: "one") { $0.recovery = .sockudo }
        expect(!other.establish().contains { $0.contains("delta") })
    }

    @Test func `events that arrive as deltas are complete`() {
        var harness = self.subscribed()
        expectEqual(harness.receive(self.full("a", 1, seq: 0), self.full("a", 2, seq: 1)), [self.line("a", 1), self.line("a", 2)])
        expectEqual(harness.receive(self.delta("a", 3, from: 2, seq: 2)), [self.line("a", 3)])
        expectEqual(
            harness.receive(self.delta("a", 4, from: 3, seq: 3), self.delta("a", 5, from: 4, seq: 4)), [4, 5].map { self.line("a", $0) })
        // A complete event without a number changes nothing, and one with a number begins again.
        expectEqual(harness.receive(self.text("a", 6), self.delta("a", 7, from: 5, seq: 5)), [6, 7].map { self.line("a", $0) })
        expectEqual(harness.receive(self.full("a", 8, seq: 6), self.delta("a", 9, from: 8, seq: 7)), [8, 9].map { self.line("a", $0) })
    }

    @Test func `each event and conflation key has a base of its own`() {
        var harness = self.subscribed()
        harness.receive(self.full("a", 1, seq: 0), self.full("b", 2, seq: 0))
        harness.receive(self.full("a", 3, seq: 0, key: "x"), self.full("a", 4, seq: 0, key: "y"))
        expectEqual(harness.receive(self.delta("b", 5, from: 2, seq: 1)), [self.line("b", 5)])
        expectEqual(harness.receive(self.delta("a", 6, from: 3, seq: 1, key: "x")), [self.line("a", 6)])
        expectEqual(harness.receive(self.delta("a", 7, from: 1, seq: 1)), [self.line("a", 7)])
        expectEqual(harness.receive(self.delta("a", 8, from: 4, seq: 1, key: "y")), [self.line("a", 8)])
    }

    @Test func `deltas are events of the protocol as well`() {
        var harness = SessionHarness.connected(to: "presence-room") { $0.deltaCompression = .fossil }
        harness.authorize(1, channelData: #"{"user_id":"me"}"#)
        harness.confirm("presence-room", data: #"{"presence":{"ids":["me"],"hash":{"me":{}},"count":1}}"#)
        func added(_ user: String) -> String {
            #"{"event":"sockudo_internal:member_added","channel":"presence-room","data":"{\"user_id\":\"\#(user)\"}"}"#
        }
        expectEqual(harness.receive(added("anna").dropLast() + #","__delta_seq":1}"#), ["presence-room joined anna"])
        let delta = Base64.encode(FossilDelta.make(Array(added("bert").utf8), from: Array(added("anna").utf8)))
        let data = #"{\"event\":\"sockudo_internal:member_added\",\"delta\":\"\#(delta)\",\"seq\":2}"#
        // Its data can be a string, and refers to the last event unless it names another one.
        expectEqual(
            harness.receive(#"{"event":"pusher:delta","channel":"presence-room","data":"\#(data)"}"#), ["presence-room joined bert"])
    }

    @Test(arguments: [
        "changed", "truncated", "empty", "another base", "another number", "too large", "no text",
    ])
    func `a delta that can't be applied is an error and a gap, and affects no other event`(kind: String) {
        var harness = self.subscribed { if kind == "too large" { $0.messageLimit = 60 } }
        harness.receive(self.full("a", 1, seq: 0), self.full("b", 1, seq: 0))
        let bad =
            switch kind {
            case "changed": self.delta("a", 2, from: 1, seq: 1) { $0[$0.count - 2] ^= 1 }
            case "truncated": self.delta("a", 2, from: 1, seq: 1) { $0.removeLast(3) }
            case "empty": self.delta("a", 2, from: 1, seq: 1) { $0 = [] }
            case "another base":
                self.delta("a", 2, from: 1, seq: 1) { delta in
                    delta = FossilDelta.make(Array(self.text("a", 2).utf8), from: [0x58] + Array(self.text("a", 1).utf8))
                }
            case "another number": self.delta("a", 2, from: 1, seq: 2)
            case "too large": self.delta("a", 2, from: 1, seq: 1)
            default: self.delta("a", 2, from: 1, seq: 1) { $0 = FossilDelta.make([0x22, 0xFF], from: []) }
            }
        let ignored = harness.counters.messagesIgnored
        expectEqual(harness.receive(bad), ["error deltaFailed", "one gap 0.0 seconds", "#1 pusher:delta_sync_error one"])
        expectEqual(harness.counters.messagesIgnored, ignored + 1)
        // Deltas that were on their way are lost as well, which is reported without another request.
        expectEqual(harness.receive(self.delta("a", 3, from: 2, seq: 2)), ["one gap 0.0 seconds"])
        if kind != "too large" { expectEqual(harness.receive(self.delta("b", 2, from: 1, seq: 1)), [self.line("b", 2)]) }
        // The server begins again.
        expectEqual(harness.receive(self.full("a", 4, seq: 0), self.full("b", 4, seq: 0)), [self.line("a", 4), self.line("b", 4)])
        if kind != "too large" { expectEqual(harness.receive(self.delta("a", 5, from: 4, seq: 1)), [self.line("a", 5)]) }
    }

    @Test func `the event that a delta couldn't restore is recovered, and newer ones wait for it`() {
        var harness = self.subscribed { $0.recovery = .sockudo }
        harness.receive(self.full("a", 1, seq: 0, serial: 1), self.full("b", 2, seq: 0, serial: 2))
        let bad = self.delta("a", 3, from: 1, seq: 1, serial: 3, baseSerial: 1) { $0[$0.count - 2] ^= 1 }
        expectEqual(
            harness.receive(bad),
            ["error deltaFailed", "#1 pusher:delta_sync_error one", #"#1 pusher:resume {"one":{"serial":2,"stream_id":"s"}}"#])
        // Both were on their way.
        expectEqual(harness.receive(self.delta("b", 4, from: 2, seq: 1, serial: 4, baseSerial: 2)), [])
        expectEqual(harness.receive(self.delta("a", 5, from: 3, seq: 2, serial: 5, baseSerial: 3)), [])
        expectEqual(harness.receive(self.text("a", 3, serial: 3), self.text("b", 4, serial: 4)), [self.line("a", 3), self.line("b", 4)])
        expectEqual(harness.receive(self.text("a", 5, serial: 5)), [self.line("a", 5)])
        let recovered = #"{"channel":"one","replayed":3,"position":{"stream_id":"s","serial":5}}"#
        expectEqual(
            harness.receive(#"{"event":"sockudo:resume_success","data":{"recovered":[\#(recovered)],"failed":[]}}"#), [])
        expectEqual(harness.receive(self.full("a", 6, seq: 0, serial: 6)), [self.line("a", 6)])
        expectEqual(harness.receive(self.delta("a", 7, from: 6, seq: 1, serial: 7, baseSerial: 6)), [self.line("a", 7)])
        // If the server doesn't have it, the gap has the reason.
        harness.advance(by: .seconds(5))
        harness.receive(self.delta("a", 8, from: 7, seq: 2, serial: 8, baseSerial: 7) { $0 = [] })
        harness.receive(self.full("a", 9, seq: 0, serial: 9))
        harness.advance(by: .seconds(2))
        expectEqual(
            harness.receive(#"{"event":"sockudo:resume_failed","channel":"one","data":{"code":"position_expired"}}"#),
            ["one gap 2.0 seconds, \(PusherRecoveryFailure.positionExpired)", self.line("a", 9)])
    }

    @Test func `a server that numbers no events can't recover one`() {
        var harness = SessionHarness.connected(to: "one") {
            $0.deltaCompression = .fossil
            $0.recovery = .sockudo
        }
        harness.confirm("one")
        expectEqual(
            harness.receive(self.delta("a", 2, from: 1, seq: 1)),
            ["error deltaFailed", "one gap 0.0 seconds, \(PusherRecoveryFailure.notSupported)", "#1 pusher:delta_sync_error one"])
    }

    @Test func `a cache channel keeps its events after a delta that failed`() {
        var harness = SessionHarness.connected(to: "cache-one") {
            $0.deltaCompression = .fossil
            $0.recovery = .sockudo
        }
        func frame(_ text: String) -> String { text.replacingOccurrences(of: #""channel":"one""#, with: #""channel":"cache-one""#) }
        harness.receive(frame(self.confirmation(0)), frame(self.text("a", 1, serial: 1)))
        let lines = harness.receive(frame(self.delta("a", 2, from: 1, seq: 1)))
        expectEqual(lines.last, #"#1 pusher:resume {"cache-one":{"serial":1,"stream_id":"s"}}"#)
        harness.receive(frame(self.text("a", 2, serial: 2)))
        harness.receive(#"{"event":"sockudo:resume_success","data":{"recovered":[{"channel":"cache-one","replayed":1}],"failed":[]}}"#)
        // No confirmation preceded it, so that the server doesn't repeat the last event: this is a new one.
        expectEqual(harness.receive(frame(self.text("a", 3))).count, 1)
    }

    @Test func `invalid frames of deltas are reported and cost nothing else`() {
        var harness = self.subscribed()
        harness.receive(self.full("a", 1, seq: 0))
        for data in [
            "7", "null", #""no JSON""#, "{}", #"{"event":"a","seq":1}"#, #"{"event":"a","seq":"1","delta":""}"#, #"{"seq":1,"delta":""}"#,
            #"{"event":"a","seq":1,"delta":"?"}"#, #"{"event":"a","seq":1,"delta":7}"#,
        ] {
            expectEqual(harness.receive(#"{"event":"sockudo:delta","channel":"one","data":\#(data)}"#), ["error invalidFrame"], "\(data)")
        }
        // The result of a delta isn't a frame.
        let noFrame = self.delta("a", 2, from: 1, seq: 1) { $0 = FossilDelta.make(Array("[]".utf8), from: []) }
        expectEqual(harness.receive(noFrame), ["error invalidFrame"])
        harness.receive(self.full("a", 1, seq: 0))
        // Nor is a delta in a delta applied.
        let inner = self.delta("a", 2, from: 1, seq: 1)
        let nested = self.delta("a", 2, from: 1, seq: 1) { $0 = FossilDelta.make(Array(inner.utf8), from: []) }
        expectEqual(harness.receive(nested).filter { $0.hasPrefix("event one a") }, [])
        expectEqual(harness.receive(#"{"event":"sockudo:delta_compression_enabled"}"#, #"{"event":"sockudo:delta_cache_sync"}"#), [])
        expectEqual(harness.receive(self.full("a", 3, seq: 0)), [self.line("a", 3)])
    }

    @Test func `deltas of a channel that was unsubscribed or subscribed again are dropped`() {
        var harness = self.subscribed()
        harness.receive(self.full("a", 1, seq: 0))
        harness.unsubscribe("one")
        expectEqual(harness.receive(self.delta("a", 2, from: 1, seq: 1)), [])
        harness.subscribe("one")
        // On its way from the earlier subscription.
        expectEqual(harness.receive(self.delta("a", 3, from: 2, seq: 2)), [])
        expectEqual(harness.confirm("one"), ["one subscribed"])
        expectEqual(
            harness.receive(self.full("a", 4, seq: 0), self.delta("a", 5, from: 4, seq: 1)), [self.line("a", 4), self.line("a", 5)])
    }

    @Test func `events of the user arrive as deltas as well`() {
        let channel = "#server-to-user-anna"
        func text(_ data: Int) -> String { ##"{"event":"a","channel":"\##(channel)","data":"a text that stays the same: \##(data)"}"## }
        func full(_ data: Int, seq: Int) -> String { text(data).dropLast() + #","__delta_seq":\#(seq)}"# }
        func delta(_ data: Int, from base: Int, seq: Int) -> String {
            let delta = Base64.encode(FossilDelta.make(Array(text(data).utf8), from: Array(text(base).utf8)))
            let data = #"{"event":"a","delta":"\#(delta)","seq":\#(seq),"base_index":\#(seq - 1),"algorithm":"fossil"}"#
            return #"{"event":"sockudo:delta","channel":"\#(channel)","data":\#(data)}"#
        }
        func line(_ data: Int) -> String { "event \(channel) a a text that stays the same: \(data)" }
        var harness = SessionHarness.connected {
            $0.deltaCompression = .fossil
            $0.userAuthenticator = .secret("unused", user: PusherMember(id: "unused"))
        }
        // Before the client has signed in.
        expectEqual(harness.receive(full(0, seq: 0), delta(1, from: 0, seq: 1)), [])
        harness.signIn()
        harness.authenticate(1, user: "anna")
        harness.confirmUser("anna")
        expectEqual(harness.receive(full(1, seq: 0), delta(2, from: 1, seq: 1), delta(3, from: 2, seq: 2)), [1, 2, 3].map(line))
        // What can't be restored is requested.
        expectEqual(harness.receive(delta(5, from: 4, seq: 4)), ["error deltaFailed", "#1 pusher:delta_sync_error \(channel)"])
        expectEqual(harness.receive(delta(6, from: 5, seq: 5)), [])
        expectEqual(harness.receive(full(7, seq: 0), delta(8, from: 7, seq: 1)), [7, 8].map(line))
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        expect(!harness.session.deltas.hasBases(of: .user))
    }

    @Test func `a new connection has no bases`() {
        var harness = self.subscribed()
        harness.receive(self.full("a", 1, seq: 0))
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        expectEqual(harness.session.channels.id(named: "one").map { harness.session.deltas.hasBases(of: .channel($0)) }, false)
        expect(harness.establish().contains("#2 pusher:enable_delta_compression"))
        harness.confirm("one")
        expectEqual(harness.receive(self.delta("a", 2, from: 1, seq: 1)).first, "error deltaFailed")
    }

    @Test func `deltas arrive while a filter is replaced`() {
        var harness = self.subscribed { $0.allowsFilters = true }
        harness.receive(self.full("a", 1, seq: 0))
        harness.subscribe("one", filter: .exists("r"))
        expectEqual(harness.receive(self.delta("a", 2, from: 1, seq: 1)), [self.line("a", 2)])
        harness.confirm("one")
        expectEqual(harness.receive(self.delta("a", 3, from: 2, seq: 2)), [self.line("a", 3)])
    }

    @Test func `the client reconnects without compression to a server with another algorithm`() {
        let enabled = #"{"event":"sockudo:delta_compression_enabled","data":{"enabled":true,"algorithm":"xdelta3"}}"#
        for byEvent in [false, true] {
            var harness = self.subscribed()
            harness.receive(self.full("a", 1, seq: 0))
            // What follows in the same read belongs to a connection that is over.
            let lines = harness.receive(byEvent ? self.delta("a", 2, from: 1, seq: 1, algorithm: "xdelta3") : enabled, self.text("a", 3))
            expect(lines.first == "error deltaFailed" && lines.contains { $0.hasPrefix("close #1") }, "\(lines)")
            expect(lines.contains { $0.hasPrefix("open #2") } && !lines.contains(self.line("a", 3)))
            let established = harness.establish()
            expect(established.contains("#2 pusher:subscribe one") && !established.contains { $0.contains("delta") })
            expectEqual(harness.confirm("one"), ["one subscribed", "one gap 0.0 seconds"])
            expectEqual(harness.receive(enabled, self.text("a", 4)).last, self.line("a", 4))
            // Also on the next connection, but not to another server.
            harness.close(.peer(CloseCode(rawValue: 4200), ""))
            expect(!harness.establish().contains { $0.contains("delta") })
            harness.switchServer { $0.host = "other" }
            expect(harness.establish().contains { $0.hasSuffix("pusher:enable_delta_compression") })
        }
    }

    @Test func `turning compression off and on applies to the next connections`() {
        var harness = self.subscribed()
        harness.update { $0.deltaCompression = nil }
        harness.receive(self.full("a", 1, seq: 0))
        expectEqual(harness.receive(self.delta("a", 2, from: 1, seq: 1)), [self.line("a", 2)])
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        expect(harness.session.request.endpoint.target.hasSuffix("&protocol=7"))
        expect(!harness.establish().contains { $0.contains("delta") })
        harness.update { $0.deltaCompression = .fossil }
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        expect(harness.establish().contains("#3 pusher:enable_delta_compression"))
    }

    @Test func `deltas refer to the events of a cache that the server has sent`() throws {
        var harness = self.subscribed()
        func sync(_ members: String, _ key: String, _ data: Int) throws -> String {
            let content = try JSONValue(parsing: JSONValue.string(self.text("a", data)).description).description
            let states = #"{"\#(key)":[{"content":"{}","seq":1},{"content":\#(content),"seq":7}],"other":[],"bad":7,"worse":[{"seq":1}]}"#
            return
                #"{"event":"sockudo:delta_cache_sync","channel":"one","data":{\#(members)"max_messages_per_key":10,"states":\#(states)}}"#
        }
        expectEqual(harness.receive(try sync("", "a", 1)), [])
        expectEqual(harness.receive(self.delta("a", 2, from: 1, seq: 8)), [self.line("a", 2)])
        expectEqual(harness.receive(try sync(#""conflation_key":"symbol","#, "ACME", 3)), [])
        expectEqual(harness.receive(self.delta("a", 4, from: 3, seq: 8, key: "ACME")), [self.line("a", 4)])
    }

    /// The deltas of sockudo, with their checksums.
    @Test func `the deltas that sockudo sent are restored`() throws {
        let recorded = try RecordedFrames("pusher/sockudo-5.2.0-deltas.txt")
        for recovers in [false, true] {
            var harness = SessionHarness {
                $0.deltaCompression = .fossil
                if recovers { $0.recovery = .sockudo }
            }
            harness.subscribe("market")
            harness.start()
            var (numbers, texts, deltas): ([Int], Set<String>, Int) = ([], [], 0)
            for frame in recorded.sections.flatMap(\.frames) {
                if frame.contains("connection_established") {
                    // The second server is another connection.
                    if harness.session.socketID != nil { harness.close(.peer(CloseCode(rawValue: 4200), "")) }
                    let id = harness.connection
                    harness.step { $0.opened(id, head: HTTPResponseHead(status: 101), now: $1, &$2) }
                }
                if frame.contains("sockudo:delta\"") { deltas += 1 }
                for line in harness.receive(frame) {
                    expect(!line.hasPrefix("error"), "\(line)")
                    guard line.hasPrefix("event market ") else { continue }
                    let data = try JSONValue(parsing: String(line.drop { $0 != "{" }))
                    numbers.append(try #require(data["number"]?.int))
                    texts.insert(try #require(data["text"]?.string))
                    if let lines = data["lines"]?.array { expect(lines.count == 60 && Set(lines).count == 60) }
                }
            }
            expect(numbers == Array(1...36) && deltas >= 17)
            expectEqual(texts, ["Grüße aus 東京 🎉, a text that is the same in all events of this kind"])
        }
    }

    // MARK: The embedded server

    private func pusher(_ configure: (inout PusherApp) -> Void = { _ in }) async throws -> InMemoryPusher {
        try await InMemoryPusher {
            $0.profile = .sockudo
            $0.allowsDeltaCompression = true
            configure(&$0)
        }
    }

    private func client(of pusher: InMemoryPusher, _ change: (inout PusherConfiguration) -> Void = { _ in }) -> PusherClient {
        let client = pusher.client(userID: "anna") {
            $0.deltaCompression = .fossil
            change(&$0)
        }
        client.connect()
        return client
    }

    private func data(_ value: Int) -> String { #"{"value":\#(value),"text":"a text that stays the same in all events of this kind"}"# }

    private func frames(_ updates: EventSequence<PusherUpdate>) async -> [JSONValue] {
        await updates.pending().compactMap { if case .frame(let text) = $0 { try? JSONValue(parsing: text) } else { nil } }
    }

    @Test(arguments: ["market", "private-market", "presence-market", "cache-market", "private-encrypted-market"])
    func `the server sends deltas, and complete events between them`(name: String) async throws {
        let pusher = try await self.pusher()
        let client = self.client(of: pusher)
        let channel = try client.subscribe(name)
        let (events, updates) = (channel.events("tick"), client.updates(includingFrames: true))
        for value in 0..<30 { pusher.server.publish("tick", to: name, data: self.data(value)) }
        let isEncrypted = channel.kind.isEncrypted
        await expectEqual(events.pending().map(\.data), (0..<30).map { self.data($0) })
        let frames = await self.frames(updates)
        let complete = frames.enumerated().filter { $0.element["event"] == "tick" }.map(\.offset)
        expectEqual(complete, (isEncrypted ? Array(0..<30) : [0, 1, 12, 23]))
        let deltas = frames.filter { $0["event"] == "sockudo:delta" }
        expectEqual(deltas.count, (isEncrypted ? 0 : 26))
        if let first = deltas.first?["data"] {
            expect(first["event"] == "tick" && first["seq"] == 2 && first["base_index"] == 1 && first["algorithm"] == "fossil")
        }
    }

    @Test func `the server sends deltas to a user`() async throws {
        let pusher = try await self.pusher()
        let secret = pusher.server.app.secret
        let client = self.client(of: pusher) { $0.userAuthenticator = .secret(secret, user: PusherMember(id: "anna")) }
        client.user.signIn()
        try await client.user.signedIn()
        let (events, updates, errors) = (client.user.events("tick"), client.updates(includingFrames: true), client.errors)
        func publish(_ values: Range<Int>) {
            for value in values { pusher.server.publish("tick", toUser: "anna", data: self.data(value)) }
        }
        publish(0..<12)
        await expectEqual(events.pending().map(\.data), (0..<12).map { self.data($0) })
        await expectEqual(
            self.frames(updates).compactMap { $0["event"]?.string }, ["tick", "tick"] + Array(repeating: "sockudo:delta", count: 10))
        let bad = #"{"event":"tick","delta":"AAAA","seq":12,"base_index":11,"algorithm":"fossil"}"#
        pusher.server.send(
            ##"{"event":"sockudo:delta","channel":"#server-to-user-anna","data":\##(bad)}"##, to: try #require(client.socketID))
        publish(12..<15)
        await expectEqual(events.pending().map(\.data), (12..<15).map { self.data($0) })
        await expectEqual(
            self.frames(updates).compactMap { $0["event"]?.string }, ["sockudo:delta", "tick", "tick", "sockudo:delta"])
        await expectEqual(errors.pending().map(\.code), [.deltaFailed])
    }

    @Test func `subscribers with and without compression receive the same events`() async throws {
        let pusher = try await self.pusher { $0.allowsFilters = true }
        let compressed = self.client(of: pusher)
        let filtered = self.client(of: pusher) { $0.allowsFilters = true }
        let plain = self.client(of: pusher) {
            $0.deltaCompression = nil
            $0.allowsFilters = true
        }
        let old = pusher.client()
        old.connect()
        let channels = try [
            compressed.subscribe("market"), plain.subscribe("market"), old.subscribe("market"),
            filtered.subscribe("market", filter: .equals("parity", "odd")),
        ]
        let events = channels.map { $0.events() }
        for value in 0..<20 {
            pusher.server.publish(
                value < 5 ? "first" : "tick", to: "market", data: self.data(value),
                tags: ["parity": value.isMultiple(of: 2) ? "even" : "odd"])
        }
        for events in events.prefix(3) { await expectEqual(events.pending().map(\.data), (0..<20).map { self.data($0) }) }
        await expectEqual(events[3].pending().map(\.data), stride(from: 1, to: 20, by: 2).map { self.data($0) })
    }

    @Test(arguments: [false, true])
    func `after a delta that failed, the server sends complete events`(recovers: Bool) async throws {
        let pusher = try await self.pusher { if recovers { $0.recoveryLimit = 100 } }
        let client = self.client(of: pusher) { if recovers { $0.recovery = .sockudo } }
        let channel = try client.subscribe("market")
        let (events, gaps, errors) = (channel.events("tick"), channel.gaps, client.errors)
        for value in 0..<5 { pusher.server.publish("tick", to: "market", data: self.data(value)) }
        let socketID = try #require(client.socketID)
        pusher.server.send(
            #"{"event":"sockudo:delta","channel":"market","data":{"event":"tick","delta":"AAAA","seq":5,"base_index":4,"algorithm":"fossil"}}"#,
            to: socketID)
        let updates = client.updates(includingFrames: true)
        for value in 5..<10 { pusher.server.publish("tick", to: "market", data: self.data(value)) }
        await expectEqual(events.pending().map(\.data), (0..<10).map { self.data($0) })
        let names = await self.frames(updates).compactMap { $0["event"]?.string }.filter { !$0.hasSuffix("resume_success") }
        expectEqual(names, ["tick", "tick", "sockudo:delta", "sockudo:delta", "sockudo:delta"])
        await expectEqual(errors.pending().map(\.code), [.deltaFailed])
        // What the server didn't send isn't missing.
        await expectEqual(gaps.pending().count, (recovers ? 0 : 1))
    }

    @Test func `missed events are recovered with compression`() async throws {
        let pusher = try await self.pusher { $0.recoveryLimit = 100 }
        let client = self.client(of: pusher) { $0.recovery = .sockudo }
        let channel = try client.subscribe("market")
        let (events, gaps) = (channel.events("tick"), channel.gaps)
        var next = 0
        func publish(_ count: Int) {
            for _ in 0..<count {
                pusher.server.publish("tick", to: "market", data: self.data(next))
                next += 1
            }
        }
        for _ in 0..<4 {
            publish(7)
            pusher.network.cut()
            publish(3)
            pusher.clock.advance(by: .seconds(20))
            expectEqual(channel.state, .subscribed)
        }
        await expectEqual(events.pending().map(\.data), (0..<next).map { self.data($0) })
        await expect(gaps.pending().isEmpty)
    }

    @Test func `a server without compression reports that it doesn't know the request`() async throws {
        let pusher = try await InMemoryPusher { $0.recoveryLimit = 1 }
        let client = pusher.client { $0.deltaCompression = .fossil }
        let errors = client.errors
        client.connect()
        let events = try client.subscribe("market").events()
        for value in 0..<3 { pusher.server.publish("tick", to: "market", data: self.data(value)) }
        await expectEqual(events.pending().count, 3)
        await expectEqual(errors.pending().map(\.code), [.server])
    }
}
