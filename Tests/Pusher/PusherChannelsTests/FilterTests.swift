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

/// Filters: their values, the client's session with frames of a server, and the client with the embedded server.
@Suite(.timeLimit(.minutes(10))) struct FilterTests {
    // MARK: Values

    private static let filters: [(PusherFilter, String)] = [
        (.equals("a", "x"), #"{"key":"a","cmp":"eq","val":"x"}"#), (.doesNotEqual("a", "x"), #"{"key":"a","cmp":"neq","val":"x"}"#),
        (.isIn("a", ["x", "y"]), #"{"key":"a","cmp":"in","vals":["x","y"]}"#),
        (.isNotIn("a", ["x"]), #"{"key":"a","cmp":"nin","vals":["x"]}"#),
        (.exists("a"), #"{"key":"a","cmp":"ex"}"#), (.doesNotExist("a"), #"{"key":"a","cmp":"nex"}"#),
        (.hasPrefix("a", "x"), #"{"key":"a","cmp":"sw","val":"x"}"#), (.hasSuffix("a", "x"), #"{"key":"a","cmp":"ew","val":"x"}"#),
        (.contains("a", "\"ü"), #"{"key":"a","cmp":"ct","val":"\"ü"}"#),
        (.isGreater("a", than: 1.5), #"{"key":"a","cmp":"gt","val":"1.5"}"#),
        (.isAtLeast("a", -2), #"{"key":"a","cmp":"gte","val":"-2"}"#), (.isLess("a", than: 1e30), #"{"key":"a","cmp":"lt","val":"1e+30"}"#),
        (.isAtMost("a", 0), #"{"key":"a","cmp":"lte","val":"0"}"#),
        (
            .all([.exists("a"), .any([.exists("b"), .exists("c")])]),
            #"{"op":"and","nodes":[{"key":"a","cmp":"ex"},{"op":"or","nodes":[{"key":"b","cmp":"ex"},{"key":"c","cmp":"ex"}]}]}"#
        ),
        (.not(.exists("a")), #"{"op":"not","nodes":[{"key":"a","cmp":"ex"}]}"#),
    ]

    @Test func `filters are sent in the form of sockudo, and read in the same form`() throws {
        for (filter, json) in Self.filters {
            expectEqual(filter.description, json)
            try expectEqual(PusherFilter(try JSONValue(parsing: json)), filter)
            expectNil(filter.validationError)
        }
        // Numbers and Booleans are texts.
        try expectEqual(PusherFilter(["key": "a", "cmp": "eq", "val": 7]), .equals("a", "7"))
        try expectEqual(PusherFilter(["key": "a", "cmp": "in", "vals": [true, 1.5]]), .isIn("a", ["true", "1.5"]))
    }

    @Test(arguments: [
        "7", "null", "[]", "{}", #"{"key":"a"}"#, #"{"key":"a","cmp":"xx"}"#, #"{"key":"a","cmp":"and"}"#,
        #"{"op":"eq","key":"a","val":"x"}"#,
        #"{"op":"xor","nodes":[]}"#, #"{"op":"and"}"#, #"{"op":"and","nodes":[]}"#, #"{"op":"or","nodes":[7]}"#, #"{"op":"or","nodes":{}}"#,
        #"{"op":"not","nodes":[{"key":"a","cmp":"ex"},{"key":"b","cmp":"ex"}]}"#, #"{"cmp":"ex"}"#, #"{"key":"","cmp":"ex"}"#,
        #"{"key":7,"cmp":"ex"}"#, #"{"key":"a","cmp":"eq"}"#, #"{"key":"a","cmp":"eq","val":""}"#, #"{"key":"a","cmp":"in"}"#,
        #"{"key":"a","cmp":"in","vals":[]}"#, #"{"key":"a","cmp":"in","val":"x"}"#,
    ])
    func `what isn't a filter is rejected`(json: String) {
        #expect(throws: PusherFilter.Invalid.self) { try PusherFilter(try JSONValue(parsing: json)) }
    }

    @Test func `the limits of filters are those of sockudo`() throws {
        func nested(_ depth: Int) -> PusherFilter { depth == 1 ? .exists("a") : .not(nested(depth - 1)) }
        func text(_ count: Int) -> String { String(repeating: "x", count: count) }
        let valid: [PusherFilter] = [
            nested(16), .any(Array(repeating: .exists("a"), count: 127)), .exists(text(256)), .equals("a", text(1_024)),
            .isIn("a", Array(repeating: text(1_024), count: 128)), .isNotIn("a", [""]), .equals("a", "ü" + text(1_022)),
        ]
        let invalid: [PusherFilter] = [
            nested(17), .any(Array(repeating: .exists("a"), count: 128)), .exists(text(257)), .exists(""), .equals("a", text(1_025)),
            .equals("a", ""), .isIn("a", Array(repeating: "x", count: 129)), .isIn("a", []), .isIn("a", ["x", text(1_025)]), .all([]),
            .any([]),
            .not(.all([])), .equals("a", "ü" + text(1_023)), .any([nested(16)]), nested(100),
        ]
        for filter in valid { expectNil(filter.validationError, "\(filter)") }
        for filter in invalid {
            expect(filter.validationError != nil, "\(filter)")
            #expect(throws: PusherFilter.Invalid.self) { try PusherFilter(try JSONValue(parsing: "\(filter)")) }
        }
    }

    @Test func `a filter is evaluated as by sockudo`() {
        let tags = EventTags(["region": "eu", "total": "12.5", "text": "a longer text", "accent": "e\u{301}"])
        let passing: [PusherFilter] = [
            .equals("region", "eu"), .doesNotEqual("region", "us"), .doesNotEqual("other", "us"), .isIn("region", ["us", "eu"]),
            .isNotIn("region", ["us"]), .isNotIn("other", ["us"]), .exists("region"), .doesNotExist("other"), .hasPrefix("text", "a l"),
            .hasSuffix("text", "text"), .contains("text", "longer"), .contains("text", "a longer text"), .isGreater("total", than: 12),
            .isAtLeast("total", 12.5), .isLess("total", than: 13), .isAtMost("total", 12.5), .all([.exists("region"), .exists("total")]),
            .any([.exists("other"), .exists("total")]), .not(.exists("other")), .not(.all([.exists("region"), .exists("other")])),
            .equals("accent", "e\u{301}"),
        ]
        let failing: [PusherFilter] = [
            .equals("region", "EU"), .equals("other", "eu"), .doesNotEqual("region", "eu"), .isIn("region", ["us"]), .isIn("other", ["us"]),
            .isNotIn("region", ["eu"]), .exists("other"), .doesNotExist("region"), .hasPrefix("text", "longer"),
            .hasPrefix("region", "eu-west"),
            .hasSuffix("text", "a"), .contains("text", "short"), .contains("other", "x"), .isGreater("total", than: 12.5),
            .isAtLeast("total", 13), .isLess("total", than: 12.5), .isAtMost("total", 12), .isGreater("region", than: 0),
            .isLess("other", than: 1), .all([.exists("region"), .exists("other")]), .any([.exists("other")]), .not(.exists("region")),
            // The same character, but other bytes.
            .equals("accent", "é"),
        ]
        for filter in passing { expect(filter.matches(tags), "\(filter)") }
        for filter in failing { expect(!filter.matches(tags), "\(filter)") }
        // Without tags, none exists.
        expect(PusherFilter.doesNotExist("region").matches(nil) && !PusherFilter.exists("region").matches(nil))
        // A hexadecimal number is a text.
        expect(!PusherFilter.isGreater("a", than: 1).matches(EventTags(["a": "0x10"])))
        expect(PusherFilter.isGreater("a", than: 1).matches(EventTags(["a": "1e3"])))
        expect(!PusherFilter.isGreater("a", than: 1).matches(EventTags(["a": "nan"])))
    }

    // MARK: The session

    private static let (eu, us) = (PusherFilter.equals("r", "eu"), PusherFilter.equals("r", "us"))
    private static let (euText, usText) = (#"{"key":"r","cmp":"eq","val":"eu"}"#, #"{"key":"r","cmp":"eq","val":"us"}"#)

    private func connected(_ change: (inout PusherConfiguration) -> Void = { _ in }) -> SessionHarness {
        SessionHarness.connected { configuration in
            configuration.allowsFilters = true
            change(&configuration)
        }
    }

    private func event(_ data: Int, serial: Int? = nil) -> String {
        #"{"event":"a","channel":"one","data":"\#(data)""# + (serial.map { #","stream_id":"s","serial":\#($0)}"# } ?? "}")
    }

    private func confirmation(_ serial: Int) -> String {
        #"{"event":"sockudo_internal:subscription_succeeded","channel":"one","data":"{}","stream_id":"s","serial":\#(serial)}"#
    }

    @Test func `filters require version 2 of the protocol`() {
        let harness = self.connected()
        expect(harness.session.request.endpoint.target.hasSuffix("&protocol=2"))
    }

    @Test func `a filter is sent with each subscription`() {
        var harness = self.connected()
        expectEqual(harness.subscribe("one", filter: Self.eu), ["#1 pusher:subscribe one \(Self.euText)"])
        expectEqual(harness.confirm("one"), ["one subscribed"])
        expectEqual(harness.receive(self.event(1)), ["event one a 1"])
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        expect(harness.establish().contains("#2 pusher:subscribe one \(Self.euText)"))
        // The same one, or a subscription without one, changes nothing.
        expect(harness.subscribe("one", filter: Self.eu) == [] && harness.subscribe("one") == [])
        harness.confirm("one")
        expect(harness.subscribe("one", filter: Self.eu) == [] && harness.subscribe("one") == [])
        expectEqual(harness.session.channels["one"]?.subscription.filter, Self.eu)
    }

    @Test func `a filter is sent with the authorization`() {
        var harness = self.connected()
        expectEqual(harness.subscribe("private-a", filter: Self.eu), ["authorize 1 private-a 1.2"])
        // It changes before it is sent.
        expectEqual(harness.subscribe("private-a", filter: Self.us), [])
        expectEqual(harness.authorize(1), ["#1 pusher:subscribe private-a key:1 \(Self.usText)"])
        expectEqual(harness.confirm("private-a"), ["private-a subscribed"])
    }

    @Test func `another filter replaces the subscription without a gap`() {
        var harness = self.connected()
        harness.subscribe("one", filter: Self.eu)
        harness.confirm("one")
        expectEqual(harness.subscribe("one", filter: Self.us), ["one pending", "#1 pusher:subscribe one \(Self.usText)"])
        // Events of the earlier filter.
        expectEqual(harness.receive(self.event(1)), ["event one a 1"])
        expectEqual(harness.confirm("one"), ["one subscribed"])
        expectEqual(harness.receive(self.event(2)), ["event one a 2"])
        expectEqual(harness.subscribe("one", filter: nil), ["one pending", "#1 pusher:subscribe one"])
        expectEqual(harness.confirm("one"), ["one subscribed"])
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        harness.establish()
        expectEqual(harness.confirm("one"), ["one subscribed", "one gap 0.0 seconds"])
    }

    @Test func `filters are compared byte by byte`() {
        let (one, two) = ("caf\u{E9}", "cafe\u{301}")
        for (left, right) in [
            (PusherFilter.equals("r", one), PusherFilter.equals("r", two)), (.exists(one), .exists(two)),
            (.isIn("r", ["a", one]), .isIn("r", ["a", two])), (.not(.all([.exists(one)])), .not(.all([.exists(two)]))),
        ] {
            expect(left != right && Set([left, right, left]).count == 2)
            var harness = SessionHarness.connected(to: "one") { $0.allowsFilters = true }
            harness.confirm("one")
            harness.subscribe("one", filter: left)
            harness.confirm("one")
            expectEqual(harness.subscribe("one", filter: right), ["one pending", "#1 pusher:subscribe one \(right)"])
        }
        expect(EventTags(["r": one]) != EventTags(["r": two]))
    }

    @Test func `a subscription with an outdated filter is replaced when the server has confirmed it`() {
        var harness = self.connected()
        harness.subscribe("one", filter: Self.eu)
        expectEqual(harness.subscribe("one", filter: Self.us), [])
        expectEqual(harness.subscribe("one", filter: nil), [])
        expectEqual(harness.confirm("one"), ["#1 pusher:subscribe one"])
        expectEqual(harness.awaitSubscribed(1, "one"), [])
        expectEqual(harness.receive(self.event(1)), ["event one a 1"])
        // Again before the second confirmation.
        expectEqual(harness.subscribe("one", filter: Self.us), [])
        expectEqual(harness.confirm("one"), ["#1 pusher:subscribe one \(Self.usText)"])
        expectEqual(harness.confirm("one"), ["one subscribed", "resume 1"])
        // The filter that was sent last is the current one.
        harness.subscribe("one", filter: Self.eu)
        harness.subscribe("one", filter: Self.us)
        harness.subscribe("one", filter: Self.eu)
        expectEqual(harness.confirm("one").last, "#1 pusher:subscribe one \(Self.euText)")
        expectEqual(harness.confirm("one"), ["one subscribed"])
    }

    @Test func `a private channel is authorized again for another filter`() {
        var harness = self.connected()
        harness.subscribe("private-a", filter: Self.eu)
        harness.authorize(1)
        harness.confirm("private-a")
        expectEqual(harness.subscribe("private-a", filter: Self.us), ["private-a pending", "authorize 2 private-a 1.2"])
        expectEqual(harness.receive(#"{"event":"a","channel":"private-a","data":"1"}"#), ["event private-a a 1"])
        expectEqual(harness.trigger("client-a", on: "private-a"), ["queued"])
        expectEqual(harness.authorize(2), ["#1 pusher:subscribe private-a key:2 \(Self.usText)"])
        expectEqual(harness.confirm("private-a"), ["private-a subscribed", "#1 client-a private-a"])
        // Without a new authorization, the server still has the earlier subscription, which the client ends.
        harness.subscribe("private-a", filter: nil)
        expectEqual(
            harness.failAuthorization(3, status: 403),
            ["private-a failed authorizationFailed", "error authorizationFailed", "#1 pusher:unsubscribe private-a"])
        // Also if it is unsubscribed meanwhile.
        harness.subscribe("private-b", filter: Self.eu)
        harness.authorize(4)
        harness.confirm("private-b")
        harness.subscribe("private-b", filter: Self.us)
        expectEqual(harness.unsubscribe("private-b"), ["private-b unsubscribed", "#1 pusher:unsubscribe private-b", "cancel 5"])
    }

    @Test func `a loss while a filter is replaced is a gap`() {
        var harness = self.connected()
        harness.subscribe("one", filter: Self.eu)
        harness.confirm("one")
        harness.subscribe("one", filter: Self.us)
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        expectEqual(harness.establish().last, "#2 pusher:subscribe one \(Self.usText)")
        expectEqual(harness.confirm("one"), ["one subscribed", "one gap 0.0 seconds"])
    }

    @Test func `a replacement that isn't confirmed in time ends the earlier subscription`() {
        var harness = self.connected()
        harness.subscribe("one", filter: Self.eu)
        harness.confirm("one")
        harness.subscribe("one", filter: Self.us)
        let lines = harness.advance(by: .seconds(30))
        expectEqual(lines, ["one failed timedOut", "error timedOut", "#1 pusher:unsubscribe one"])
        expectEqual(harness.advance(by: .seconds(2)), ["one pending", "#1 pusher:subscribe one \(Self.usText)"])
        let confirmed = harness.confirm("one")
        expect(confirmed.count == 2 && confirmed[0] == "one subscribed" && confirmed[1].hasPrefix("one gap "), "\(confirmed)")
    }

    @Test func `a rejected filter fails its subscription, although the server doesn't name it`() {
        var harness = self.connected()
        harness.subscribe("one", filter: Self.eu)
        harness.subscribe("two")
        let rejection = #"{"event":"sockudo:error","data":{"code":4000,"message":"Invalid message format: Invalid tags filter: no"}}"#
        expectEqual(harness.receive(rejection), ["one failed subscriptionRejected", "error subscriptionRejected"])
        expectEqual(harness.confirm("two"), ["two subscribed"])
        // It isn't the reason for the loss of the connection: with code 4000, the client would use TLS.
        harness.close(.peer(.normal, ""))
        expect(!harness.session.request.endpoint.isSecure)
        harness.advance(by: .seconds(5))
        // Of several subscriptions, the client can't tell which one failed.
        harness.establish()
        harness.subscribe("three", filter: Self.eu)
        expectEqual(harness.receive(rejection), ["error server"])
    }

    @Test func `a channel keeps its filter, and fails on a connection without filters`() {
        var harness = self.connected()
        harness.subscribe("one", filter: Self.eu)
        harness.confirm("one")
        harness.update { $0.allowsFilters = false }
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        expect(harness.session.request.endpoint.target.hasSuffix("&protocol=7"))
        expectEqual(harness.establish().suffix(2), ["one failed filterNotAllowed", "error filterNotAllowed"])
        expectEqual(harness.subscribe("one", filter: nil), ["one pending", "#2 pusher:subscribe one"])
        harness.confirm("one")
        harness.update { $0.allowsFilters = true }
        // The setting applies to the next connection.
        expectEqual(
            harness.subscribe("one", filter: Self.us),
            ["one pending", "one failed filterNotAllowed", "error filterNotAllowed", "#2 pusher:unsubscribe one"])
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        expectEqual(harness.establish().last, "#3 pusher:subscribe one \(Self.usText)")
    }

    @Test func `events that another filter has excluded are not recovered`() {
        var harness = self.connected { $0.recovery = .sockudo }
        harness.subscribe("one", filter: Self.eu)
        harness.receive(self.confirmation(4), self.event(5, serial: 5))
        harness.subscribe("one", filter: Self.us)
        // Events 6 and 7 didn't satisfy the filter. Event 8 was on its way.
        expectEqual(harness.receive(self.confirmation(8), self.event(8, serial: 8)), ["one subscribed", "event one a 8"])
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        harness.establish()
        expectEqual(harness.receive(self.confirmation(8)), ["one subscribed"])
        harness.subscribe("one", filter: Self.eu)
        harness.receive(self.confirmation(11))
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        harness.establish()
        expectEqual(harness.receive(self.confirmation(13)).last, #"#3 pusher:resume {"one":{"serial":11,"stream_id":"s"}}"#)
        // Another filter while events are missing.
        expectEqual(harness.subscribe("one", filter: Self.us), ["one pending", "#3 pusher:subscribe one \(Self.usText)"])
        expectEqual(harness.receive(self.event(12, serial: 12)), ["event one a 12"])
        expectEqual(
            harness.receive(
                #"{"event":"sockudo:resume_success","data":{"recovered":[{"channel":"one","replayed":1,"position":null}],"failed":[]}}"#),
            [])
        expectEqual(harness.receive(self.confirmation(13), self.event(14, serial: 14)), ["one subscribed", "event one a 14"])
    }

    /// The frames that sockudo sent to a client that changes its filter.
    @Test func `the frames about filters that sockudo sent are understood`() throws {
        let sections = try RecordedFrames("pusher/sockudo-5.2.0-filters.txt")
        var harness = self.connected { $0.recovery = .sockudo }
        let (eu, us) = (PusherFilter.equals("region", "eu"), PusherFilter.equals("region", "us"))
        for (title, filter, lines) in [
            ("A connection subscribes", eu, ["orders subscribed", "event orders tick 1"]),
            ("Another filter replaces", us, ["orders subscribed", "event orders tick 5"]),
            ("A subscription without", nil, ["orders subscribed", "event orders tick 6"]),
        ] as [(String, PusherFilter?, [String])] {
            let section = try sections.section(title)
            let sent = harness.subscribe("orders", filter: filter).last ?? ""
            expectEqual(sent, "#1 pusher:subscribe orders" + (filter.map { " \($0)" } ?? ""))
            let request = try JSONValue(parsing: try #require(section.requests.first))
            expectEqual(request["data"]?["filter"]?.description, filter?.description)
            expectEqual(section.frames.filter { !$0.contains("connection_established") }.flatMap { harness.receive($0) }, lines)
        }
        harness.subscribe("cache-orders", filter: eu)
        let cached = try sections.section("A cache channel").frames.flatMap { harness.receive($0) }
        expectEqual(cached, ["cache-orders subscribed", "event cache-orders tick 1"])
        // What each request asked for is invalid here as well.
        let invalid = try sections.section("Filters that aren't valid")
        expect(invalid.requests.count == 8 && invalid.frames.count == 8)
        for (request, frame) in zip(invalid.requests, invalid.frames) {
            let filter = try #require(try JSONValue(parsing: request)["data"]?["filter"])
            #expect(throws: PusherFilter.Invalid.self) { try PusherFilter(filter) }
            var harness = self.connected()
            harness.subscribe("invalid", filter: eu)
            expectEqual(harness.receive(frame), ["invalid failed subscriptionRejected", "error subscriptionRejected"])
        }
    }

    // MARK: The embedded server

    private func pusher(_ configure: (inout PusherApp) -> Void = { _ in }) async throws -> InMemoryPusher {
        try await InMemoryPusher {
            $0.profile = .sockudo
            $0.allowsFilters = true
            configure(&$0)
        }
    }

    private func client(of pusher: InMemoryPusher, _ change: (inout PusherConfiguration) -> Void = { _ in }) -> PusherClient {
        let client = pusher.client(userID: "anna") {
            $0.allowsFilters = true
            change(&$0)
        }
        client.connect()
        return client
    }

    private func publish(_ range: ClosedRange<Int>, to channel: String, on pusher: InMemoryPusher) {
        for value in range {
            pusher.server.publish("tick", to: channel, data: "\(value)", tags: ["parity": value.isMultiple(of: 2) ? "even" : "odd"])
        }
    }

    @Test(arguments: ["orders", "private-orders", "private-encrypted-orders", "cache-orders"])
    func `only the events arrive that satisfy the filter`(name: String) async throws {
        let pusher = try await self.pusher()
        let (client, other) = (self.client(of: pusher), self.client(of: pusher))
        let channel = try client.subscribe(name, filter: .equals("parity", "even"))
        expect(channel.state == .subscribed && channel.filter == .equals("parity", "even"))
        let (events, all) = (channel.events("tick"), try other.subscribe(name).events("tick"))
        self.publish(1...4, to: name, on: pusher)
        pusher.server.publish("tick", to: name, data: "5")
        await expectEqual(events.pending().map(\.data), ["2", "4"])
        await expectEqual(all.pending().map(\.data), ["1", "2", "3", "4", "5"])
        // Another filter, and none.
        try client.subscribe(name, filter: .doesNotEqual("parity", "even"))
        self.publish(6...7, to: name, on: pusher)
        pusher.server.publish("tick", to: name, data: "8")
        let cached = name.hasPrefix("cache-") ? ["5"] : []
        await expectEqual(events.pending().map(\.data), cached + ["7", "8"])
        try client.subscribe(name, filter: nil)
        self.publish(9...10, to: name, on: pusher)
        await expectEqual(events.pending().map(\.data).suffix(2), ["9", "10"])
        expectNil(channel.filter)
    }

    @Test func `the filter is sent again after a reconnect, and missed events are filtered`() async throws {
        let pusher = try await self.pusher { $0.recoveryLimit = 100 }
        let client = self.client(of: pusher) { $0.recovery = .sockudo }
        let channel = try client.subscribe("orders", filter: .equals("parity", "even"))
        let (events, gaps) = (channel.events("tick"), channel.gaps)
        self.publish(1...3, to: "orders", on: pusher)
        pusher.network.cut()
        self.publish(4...7, to: "orders", on: pusher)
        pusher.clock.advance(by: .seconds(10))
        self.publish(8...9, to: "orders", on: pusher)
        await expectEqual(events.pending().map(\.data), ["2", "4", "6", "8"])
        await expect(gaps.pending().isEmpty)
    }

    @Test func `events with tags arrive over the HTTP API`() async throws {
        let pusher = try await self.pusher()
        let (client, publisher) = (self.client(of: pusher), pusher.publisher())
        let events = try client.subscribe("orders", filter: .isAtLeast("total", 100)).events()
        try await publisher.trigger("a", on: "orders", data: 1, tags: ["total": "99.5"])
        try await publisher.trigger("b", on: ["orders", "other"], data: 1, tags: ["total": "100", "region": "eu"])
        try await publisher.trigger("c", on: "orders", data: 1)
        try await publisher.triggerBatch([
            PusherBatchEvent("d", on: "orders", data: 1, tags: ["total": "1e3"]), PusherBatchEvent("e", on: "orders", data: 1),
        ])
        await expectEqual(events.pending().map(\.name), ["b", "d"])
    }

    @Test func `client events and the events of the protocol have no tags`() async throws {
        let pusher = try await self.pusher { $0.sendsSubscriptionCounts = true }
        let (client, other) = (self.client(of: pusher), self.client(of: pusher))
        let channel = try client.subscribe("private-orders", filter: .exists("region"))
        let (events, counts) = (channel.events(), channel.subscriptionCounts)
        let orders = try other.subscribe("private-orders", filter: .doesNotExist("region"))
        let others = orders.events()
        try orders.trigger("client-a", 1)
        try channel.trigger("client-b", 1)
        await expect(events.pending().isEmpty)
        // With version 2, a client receives its own events.
        await expectEqual(others.pending().map(\.name), ["client-a", "client-b"])
        await expectEqual(counts.pending().last, 2)
    }

    @Test func `filters that can't work are refused before they are sent`() async throws {
        let pusher = try await self.pusher()
        let client = self.client(of: pusher)
        func code(_ client: PusherClient, _ name: String, _ filter: PusherFilter?) -> PusherError.Code? {
            do throws(PusherError) {
                try client.subscribe(name, filter: filter)
                return nil
            } catch {
                expectEqual(error.channel, name)
                return error.code
            }
        }
        for name in ["presence-a", "presence-cache-a"] { expectEqual(code(client, name, Self.eu), .filterNotAllowed) }
        expectEqual(code(client, "orders", .all([])), .invalidFilter)
        expectEqual(code(client, "or ders", Self.eu), .invalidChannelName)
        expectEqual(client.channelNames, [])
        expect(code(client, "presence-a", nil) == nil && code(client, "orders", Self.eu) == nil)
        let without = pusher.client()
        expect(code(without, "orders", Self.eu) == .filterNotAllowed && code(without, "orders", nil) == nil)
    }

    @Test func `a server without filters rejects them`() async throws {
        let pusher = try await InMemoryPusher { $0.recoveryLimit = 1 }
        let client = self.client(of: pusher)
        let channel = try client.subscribe("orders", filter: Self.eu)
        guard case .failed(let error) = channel.state else {
            Issue.record("The channel is \(channel.state).")
            return
        }
        expectEqual(error.code, .subscriptionRejected)
    }
}

/// Frames that a server sent, in a file with a title before each section and the client's requests.
struct RecordedFrames {
    struct Section {
        var title: String
        var requests: [String] = []
        var frames: [String] = []
    }

    struct Missing: Error { var title: String }

    private(set) var sections: [Section] = []

    init(_ name: String) throws {
        let text = try String(contentsOfFile: Vectors.path(name), encoding: .utf8)
        for line in text.split(separator: "\n").map(String.init) {
            if line.hasPrefix("# ") {
                self.sections.append(Section(title: String(line.dropFirst(2))))
            } else if line.hasPrefix("> ") {
                self.sections[self.sections.count - 1].requests.append(String(line.dropFirst(2)))
            } else {
                self.sections[self.sections.count - 1].frames.append(line)
            }
        }
    }

    /// Returns the section whose title starts with a text.
    func section(_ title: String) throws -> Section {
        guard let section = self.sections.first(where: { $0.title.hasPrefix(title) }) else { throw Missing(title: title) }
        return section
    }
}
