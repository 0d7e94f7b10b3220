import PeerSupport
import PusherChannels
import RealtimeCore
import RealtimeSockets
import RealtimeCoding
import RealtimeTesting
import TestSupport
import Testing

/// Filters and deltas with the server sockudo.
@Suite(
    .usesSockets, .requires(.peers("sockudo")), .timeLimit(.minutes(10)))
struct PusherFilterPeerTests {
    /// sockudo ignores filters without this setting.
    private static let filtering = #""tag_filtering":{"enabled":true}"#

    private func sockudo(_ settings: String = Self.filtering) async throws -> Sockudo { try await Sockudo(["--config", "{\(settings)}"]) }

    private func client(_ sockudo: Sockudo, _ change: (inout PusherConfiguration) -> Void = { _ in }) -> PusherClient {
        sockudo.client("anna") {
            $0.allowsFilters = true
            change(&$0)
        }
    }

    private func take(_ count: Int, _ events: EventSequence<PusherEvent>) async -> [String] {
        var received: [String] = []
        for await event in events.prefix(count) { received.append(event.data ?? "") }
        return received
    }

    /// Subscribes, and waits until the server has stored the filter: it confirms the subscription before.
    private func subscribed(_ client: PusherClient, _ name: String, _ filter: PusherFilter?) async throws {
        let channel = try client.subscribe(name, filter: filter)
        try await channel.subscribed(within: .seconds(300))
        // Another subscription on the same connection, which the server handles afterwards.
        let other = try client.subscribe("other-\(name.utf8.count)-\(filter == nil)")
        try await other.subscribed(within: .seconds(300))
        other.unsubscribe()
    }

    @Test(arguments: ["orders", "private-orders", "private-encrypted-orders", "cache-orders"])
    func `sockudo sends the events that satisfy the filter of each kind of channel`(name: String) async throws {
        let sockudo = try await self.sockudo()
        let (client, publisher) = (self.client(sockudo), sockudo.publisher())
        client.connect()
        try await self.subscribed(client, name, .equals("parity", "even"))
        let events = try #require(client.channel(name)).events("tick")
        func publish(_ range: ClosedRange<Int>) async throws {
            for value in range {
                try await publisher.trigger("tick", on: name, data: value, tags: ["parity": value.isMultiple(of: 2) ? "even" : "odd"])
            }
        }
        try await publish(1...4)
        try await publisher.trigger("tick", on: name, data: 5)
        try await publish(6...6)
        await expectEqual(self.take(3, events), ["2", "4", "6"])
        try await self.subscribed(client, name, .doesNotEqual("parity", "even"))
        try await publish(7...9)
        // sockudo sends the last event of a cache channel with each confirmation.
        await expectEqual(self.take(name.hasPrefix("cache-") ? 3 : 2, events).suffix(2), ["7", "9"])
        try await self.subscribed(client, name, nil)
        try await publish(10...11)
        await expectEqual(self.take(name.hasPrefix("cache-") ? 3 : 2, events).suffix(2), ["10", "11"])
        client.disconnect()
    }

    @Test func `sockudo evaluates filters as the package does`() async throws {
        let sockudo = try await self.sockudo()
        let (client, publisher) = (self.client(sockudo), sockudo.publisher())
        client.connect()
        let filters: [(PusherFilter, [Bool])] = [
            (.equals("a", "10"), [true, false, false, false]), (.doesNotEqual("a", "10"), [false, true, true, true]),
            (.isIn("a", ["x", "9.5"]), [false, true, false, false]), (.isNotIn("a", ["10"]), [false, true, true, true]),
            (.exists("a"), [true, true, true, false]), (.doesNotExist("a"), [false, false, false, true]),
            (.hasPrefix("a", "1"), [true, false, false, false]), (.hasSuffix("a", "5"), [false, true, false, false]),
            (.contains("a", "ü\""), [false, false, true, false]), (.isGreater("a", than: 9.5), [true, false, false, false]),
            (.isAtLeast("a", 9.5), [true, true, false, false]), (.isLess("a", than: 10), [false, true, false, false]),
            (.isAtMost("a", 1e30), [true, true, false, false]),
            (.all([.exists("a"), .not(.isAtLeast("a", 10))]), [false, true, true, false]),
            (.any([.equals("a", "10"), .equals("b", "1")]), [true, false, false, true]),
        ]
        let tags = [["a": "10"], ["a": "9.5"], ["a": "Grün ü\""], ["b": "1"]]
        for (index, (filter, expected)) in filters.enumerated() {
            let name = "channel-\(index)"
            try await self.subscribed(client, name, filter)
            let events = try #require(client.channel(name)).events()
            for (value, tags) in tags.enumerated() { try await publisher.trigger("tick", on: name, data: value, tags: tags) }
            // The last event satisfies all filters.
            try await self.subscribed(client, name, nil)
            try await publisher.trigger("tick", on: name, data: 4, tags: [:])
            let count = expected.count { $0 }
            let received = await self.take(count + 1, events)
            expectEqual(received, expected.indices.filter { expected[$0] }.map { "\($0)" } + ["4"], "\(filter)")
        }
        client.disconnect()
    }

    @Test func `missed events satisfy the filter, and no gap is reported`() async throws {
        let (sockudo, transport) = (try await self.sockudo(), CuttableTransport(SocketWebSocketTransport()))
        let client = self.client(sockudo) {
            $0.recovery = .sockudo
            $0.backoff = Backoff(base: .seconds(3600), cap: .seconds(3600))
            $0.transports.webSocket = transport
        }
        let publisher = sockudo.publisher()
        client.connect()
        try await self.subscribed(client, "orders", .equals("parity", "even"))
        let channel = try #require(client.channel("orders"))
        let (events, gaps, delays) = (channel.events("tick"), channel.gaps, client.connectingIn)
        for value in 1...8 {
            if value == 4 {
                transport.cut()
                _ = await delays.first { _ in true }
            }
            if value == 7 {
                client.connect()
                try await self.subscribed(client, "orders", .equals("parity", "even"))
            }
            try await publisher.trigger("tick", on: "orders", data: value, tags: ["parity": value.isMultiple(of: 2) ? "even" : "odd"])
        }
        await expectEqual(self.take(4, events), ["2", "4", "6", "8"])
        client.disconnect()
        for await gap in gaps { Issue.record("The client reported a gap: \(gap)") }
    }

    // MARK: Deltas

    private func data(_ value: Int, key: String = "") -> String {
        #"{"value":\#(value),"key":"\#(key)","text":"Grüße 🎉, a text that stays the same in all events of this kind"}"#
    }

    /// The settings of sockudo, and those that change how it compresses.
    private static let compressions = [
        "", #""delta_compression":{"enabled":true,"full_message_interval":3}"#,
        #""delta_compression":{"enabled":true,"conflation_key_path":"key"}"#,
        #""delta_compression":{"enabled":true,"omit_delta_algorithm":true}"#,
    ]

    @Test(arguments: Self.compressions, [false, true])
    func `deltas of sockudo are complete events`(settings: String, recovers: Bool) async throws {
        let sockudo = try await self.sockudo(settings)
        let client = sockudo.client("anna") {
            $0.deltaCompression = .fossil
            if recovers { $0.recovery = .sockudo }
        }
        let (publisher, channel) = (sockudo.publisher(), try client.subscribe("private-market"))
        let (events, errors, updates) = (channel.events("price"), client.errors, client.updates(includingFrames: true))
        client.connect()
        try await channel.subscribed(within: .seconds(300))
        let expected = (0..<30).map { self.data($0, key: ["a", "\\\"b\\\"", "c"][$0 % 3]) }
        for data in expected { try await publisher.publish("price", to: "private-market", data: data) }
        await expectEqual(self.take(30, events), expected)
        client.disconnect()
        for error in await errors.pending() { Issue.record("The client reported an error: \(error)") }
        var deltas = 0
        for update in await updates.pending() {
            guard case .frame(let text) = update else { continue }
            if text.contains("sockudo:delta\"") { deltas += 1 }
        }
        expect(deltas >= 18, "\(deltas) of 30 events were deltas")
    }

    @Test func `other events and filters don't disturb deltas`() async throws {
        let sockudo = try await self.sockudo()
        let client = self.client(sockudo) { $0.deltaCompression = .fossil }
        let (publisher, errors) = (sockudo.publisher(), client.errors)
        client.connect()
        try await self.subscribed(client, "market", .equals("parity", "even"))
        try await self.subscribed(client, "private-encrypted-market", nil)
        let channels = ["market", "private-encrypted-market"].compactMap { client.channel($0) }
        let events = channels.map { $0.events() }
        for value in 0..<24 {
            let tags = ["parity": value.isMultiple(of: 2) ? "even" : "odd"]
            for channel in channels {
                try await publisher.trigger(value % 3 == 0 ? "a" : "b", on: channel.name, data: self.data(value), tags: tags)
            }
        }
        await expectEqual(self.take(12, events[0]), stride(from: 0, to: 24, by: 2).map { self.data($0) })
        await expectEqual(self.take(24, events[1]), (0..<24).map { self.data($0) })
        client.disconnect()
        for error in await errors.pending() { Issue.record("The client reported an error: \(error)") }
    }

    @Test func `deltas continue after the connection was cut`() async throws {
        let (sockudo, transport) = (try await self.sockudo(), CuttableTransport(SocketWebSocketTransport()))
        let client = sockudo.client("anna") {
            $0.deltaCompression = .fossil
            $0.recovery = .sockudo
            $0.backoff = Backoff(base: .milliseconds(10), cap: .milliseconds(100))
            $0.transports.webSocket = transport
        }
        let (publisher, channel) = (sockudo.publisher(), try client.subscribe("market"))
        let (events, gaps) = (channel.events("price", buffer: .dropOldest(1_000)), channel.gaps)
        client.connect()
        try await channel.subscribed(within: .seconds(300))
        let expected = (0..<60).map { self.data($0) }
        async let published: Void = {
            for data in expected { try await publisher.publish("price", to: "market", data: data) }
        }()
        // Each cut is in the middle of the traffic.
        var received: [String] = []
        for await event in events.prefix(expected.count) {
            received.append(event.data ?? "")
            if received.count.isMultiple(of: 9) { transport.cut() }
        }
        try await published
        expectEqual(received, expected)
        client.disconnect()
        for await gap in gaps { Issue.record("The client reported a gap: \(gap)") }
    }

    @Test func `the client reconnects without compression if sockudo uses xdelta3`() async throws {
        let sockudo = try await self.sockudo(#""delta_compression":{"enabled":true,"algorithm":"xdelta3"}"#)
        let client = sockudo.client("anna") { $0.deltaCompression = .fossil }
        let (publisher, errors, attempts) = (sockudo.publisher(), client.errors, client.updates())
        let channel = try client.subscribe("market")
        let events = channel.events("price")
        client.connect()
        _ = await attempts.first { if case .attempt(2) = $0 { true } else { false } }
        await expectEqual(errors.first { _ in true }?.code, .deltaFailed)
        _ = await attempts.first { if case .subscription("market", .subscribed) = $0 { true } else { false } }
        try await channel.subscribed(within: .seconds(300))
        let expected = (0..<6).map { self.data($0) }
        for data in expected { try await publisher.publish("price", to: "market", data: data) }
        await expectEqual(self.take(6, events), expected)
        client.disconnect()
    }
}
