import PeerSupport
import PusherChannels
import RealtimeCore
import RealtimeSockets
import RealtimeSystem
import TestSupport
import Testing

/// The recovery of missed events with the server sockudo, and servers that restart or no longer respond.
@Suite(
    .usesSockets, .requires(.peers("sockudo")), .timeLimit(.minutes(10)))
struct PusherRecoveryPeerTests {
    private static let noDelay = Backoff(base: .milliseconds(10), cap: .milliseconds(100))
    /// The client doesn't reconnect until the test calls `connect()`.
    private static let longDelay = Backoff(base: .seconds(3600), cap: .seconds(3600))

    private func client(_ sockudo: Sockudo, _ transport: CuttableTransport, backoff: Backoff = Self.longDelay) -> PusherClient {
        sockudo.client("anna") {
            $0.recovery = .sockudo
            $0.backoff = backoff
            $0.transports.webSocket = transport
        }
    }

    /// Waits until the client waits for its next attempt.
    private func waiting(_ client: PusherClient, after action: () async throws -> Void) async throws {
        let delays = client.connectingIn
        try await action()
        _ = await delays.first { _ in true }
    }

    private func take(_ count: Int, _ events: EventSequence<PusherEvent>) async -> [String] {
        var received: [String] = []
        for await event in events.prefix(count) { received.append(event.data ?? "") }
        return received
    }

    @Test(arguments: ["orders", "private-orders", "presence-orders", "private-encrypted-orders", "cache-orders"])
    func `events that sockudo published while the connection was cut arrive after it, in order and once`(name: String) async throws {
        let (sockudo, transport) = (try await Sockudo(), CuttableTransport(SocketWebSocketTransport()))
        let client = self.client(sockudo, transport)
        let (publisher, channel) = (sockudo.publisher(), try client.subscribe(name))
        let (events, gaps) = (channel.events("tick"), channel.gaps)
        client.connect()
        try await channel.subscribed(within: .seconds(300))
        try await publisher.publish("tick", to: name, data: "1")
        await expectEqual(self.take(1, events), ["1"])

        var next = 2
        for count in [3, 0, 1] {
            try await self.waiting(client) { transport.cut() }
            for _ in 0..<count {
                try await publisher.publish("tick", to: name, data: "\(next)")
                next += 1
            }
            client.connect()
            try await channel.subscribed(within: .seconds(300))
            try await publisher.publish("tick", to: name, data: "\(next)")
            next += 1
            await expectEqual(self.take(count + 1, events), ((next - count - 1)..<next).map { "\($0)" })
        }
        client.disconnect()
        for await gap in gaps { Issue.record("The client reported a gap: \(gap)") }
    }

    @Test func `events arrive once and in order while connections are cut and others publish`() async throws {
        let (sockudo, transport) = (try await Sockudo(), CuttableTransport(SocketWebSocketTransport()))
        let client = self.client(sockudo, transport, backoff: Self.noDelay)
        let (publisher, channel) = (sockudo.publisher(), try client.subscribe("orders"))
        let (events, gaps) = (channel.events("tick", buffer: .dropOldest(1_000)), channel.gaps)
        client.connect()
        try await channel.subscribed(within: .seconds(300))
        let count = 60
        async let published: Void = {
            for value in 1...count { try await publisher.publish("tick", to: "orders", data: "\(value)") }
        }()
        // Each cut is in the middle of the traffic.
        var received: [String] = []
        for await event in events.prefix(count) {
            received.append(event.data ?? "")
            if received.count.isMultiple(of: 7) { transport.cut() }
        }
        try await published
        expectEqual(received, (1...count).map { "\($0)" })
        client.disconnect()
        for await gap in gaps { Issue.record("The client reported a gap: \(gap)") }
    }

    @Test func `sockudo recovers client events, and sends them to their sender as well`() async throws {
        let (sockudo, transport) = (try await Sockudo(), CuttableTransport(SocketWebSocketTransport()))
        let client = self.client(sockudo, transport)
        let bert = sockudo.client("bert") { $0.recovery = .sockudo }
        let (annas, berts) = (try client.subscribe("private-orders"), try bert.subscribe("private-orders"))
        let (events, echoes) = (annas.events(), berts.events())
        for client in [client, bert] { client.connect() }
        for channel in [annas, berts] { try await channel.subscribed(within: .seconds(300)) }
        try berts.trigger("client-a", 1)
        await expectEqual(self.take(1, events), ["1"])
        try await self.waiting(client) { transport.cut() }
        try berts.trigger("client-a", 2)
        await expectEqual(self.take(2, echoes), ["1", "2"])
        client.connect()
        await expectEqual(self.take(1, events), ["2"])
        for client in [client, bert] { client.disconnect() }
    }

    @Test func `events that sockudo no longer has are a gap with the reason`() async throws {
        let options = ["--config", #"{"connection_recovery":{"enabled":true,"max_buffer_size":2}}"#]
        let (sockudo, transport) = (try await Sockudo(options), CuttableTransport(SocketWebSocketTransport()))
        let client = self.client(sockudo, transport)
        let (publisher, channel) = (sockudo.publisher(), try client.subscribe("orders"))
        let (events, gaps) = (channel.events("tick"), channel.gaps)
        client.connect()
        try await channel.subscribed(within: .seconds(300))
        try await publisher.publish("tick", to: "orders", data: "1")
        await expectEqual(self.take(1, events), ["1"])
        try await self.waiting(client) { transport.cut() }
        for value in 2...6 { try await publisher.publish("tick", to: "orders", data: "\(value)") }
        client.connect()
        await expectEqual(gaps.first { _ in true }?.recoveryFailure, .positionExpired)
        try await publisher.publish("tick", to: "orders", data: "7")
        await expectEqual(self.take(1, events), ["7"])
        client.disconnect()
    }

    @Test func `without its recovery, sockudo causes gaps`() async throws {
        let (sockudo, transport) = (try await Sockudo(["--recovery", "false"]), CuttableTransport(SocketWebSocketTransport()))
        let client = self.client(sockudo, transport)
        let channel = try client.subscribe("orders")
        let gaps = channel.gaps
        client.connect()
        try await channel.subscribed(within: .seconds(300))
        try await self.waiting(client) { transport.cut() }
        client.connect()
        await expectEqual(gaps.first { _ in true }?.recoveryFailure, .notSupported)
        client.disconnect()
    }

    @Test func `members, users, watchlists and cache misses arrive with version 2`() async throws {
        let sockudo = try await Sockudo()
        let client = sockudo.client("anna", watchlist: ["bert"]) { $0.recovery = .sockudo }
        let (room, cache) = (try client.subscribe("presence-room"), try client.subscribe("cache-a"))
        let (changes, misses, userEvents) = (room.memberChanges, cache.events("pusher:cache_miss"), client.user.events())
        let (watchlist, updates) = (client.user.watchlistChanges, client.updates(includingFrames: true))
        client.user.signIn()
        client.connect()
        try await room.subscribed(within: .seconds(300))
        try await client.user.signedIn(within: .seconds(300))
        await expectEqual(misses.first { _ in true }?.channel, "cache-a")
        await expectEqual(watchlist.first { _ in true }, .offline(["bert"]))
        let bert = sockudo.client("bert") { $0.recovery = .sockudo }
        bert.connect()
        try await bert.subscribe("presence-room").subscribed(within: .seconds(300))
        await expectEqual(
            changes.first { if case .joined = $0 { true } else { false } }, .joined(PusherMember(id: "bert", info: ["name": "bert"])))
        bert.disconnect()
        await expectEqual(
            changes.first { if case .left = $0 { true } else { false } }, .left(PusherMember(id: "bert", info: ["name": "bert"])))
        _ = await updates.first {
            if case .frame(let text) = $0 { text.contains("subscription_succeeded") && text.contains("user-anna") } else { false }
        }
        try await sockudo.publisher().sendToUser("anna", "hello", data: 1)
        await expectEqual(userEvents.first { _ in true }?.name, "hello")
        client.disconnect()
    }

    // MARK: Restarts and silence

    @Test func `a restart of sockudo in the middle of traffic is a gap, and no event arrives twice`() async throws {
        let (first, transport) = (try await Sockudo(), CuttableTransport(SocketWebSocketTransport()))
        let client = self.client(first, transport, backoff: Self.noDelay)
        let channel = try client.subscribe("private-orders")
        let updates = client.updates()
        client.connect()
        try await channel.subscribed(within: .seconds(300))
        // Publishes until the server ends. The last request may fail.
        let publisher = first.publisher()
        let published = Task {
            var last = 0
            while (try? await publisher.publish("tick", to: "private-orders", data: "\(last + 1)")) != nil { last += 1 }
            return last
        }
        _ = await updates.first { if case .event(let event) = $0 { event.data == "20" } else { false } }
        try await first.peer.stopped()
        let last = await published.value
        expect(last >= 20)
        let second = try await first.replaced()
        // It counts again: the events that arrive are new ones.
        var (isGapReported, received, failure): (Bool, [Int], PusherRecoveryFailure?) = (false, [], nil)
        let next = Task {
            var value = 1_000
            while !Task.isCancelled {
                value += 1
                try await second.publisher().publish("tick", to: "private-orders", data: "\(value)")
            }
        }
        for await update in updates {
            switch update {
            case .gap(let gap): (isGapReported, failure) = (true, gap.recoveryFailure)
            case .event(let event): received.append(event.data.flatMap { Int($0) } ?? 0)
            default: break
            }
            if isGapReported, received.last ?? 0 > 1_000 { break }
        }
        next.cancel()
        _ = await next.result
        expectEqual(failure, .streamReset)
        expect(zip(received, received.dropFirst()).allSatisfy { $0 < $1 }, "\(received)")
        // The events before the restart are complete up to the last one that arrived.
        let before = received.filter { $0 <= 1_000 }
        expectEqual(before, Array(21..<(21 + before.count)))
        client.disconnect()
    }

    @Test(.requires(.sockudoProcess), arguments: [false, true])
    func `a server that no longer responds is noticed by its missing pong, and the client reconnects`(recovers: Bool) async throws {
        let sockudo = try await Sockudo()
        let processID = try #require(sockudo.processID.flatMap { Int32(exactly: $0) })
        let client = sockudo.client("anna") {
            $0.recovery = recovers ? .sockudo : nil
            $0.activityTimeout = .milliseconds(200)
            $0.pongTimeout = .seconds(3)
            $0.connectTimeout = .seconds(5)
            $0.backoff = Self.noDelay
        }
        let channel = try client.subscribe("orders")
        let events = channel.events("tick")
        client.connect()
        try await channel.subscribed(within: .seconds(300))
        let publisher = sockudo.publisher()
        try await publisher.publish("tick", to: "orders", data: "1")
        await expectEqual(self.take(1, events), ["1"])

        let (gaps, errors, states) = (channel.gaps, client.errors, client.states)
        // The process keeps its sockets open, and answers nothing.
        kill(processID, SIGSTOP)
        defer { kill(processID, SIGCONT) }
        let loss = try #require(await errors.first { _ in true })
        expectEqual(loss.code, .connectionLost, "\(loss)")
        await expect(states.first { $0 == .connecting } != nil)
        // Attempts to connect end as well.
        _ = await errors.first { _ in true }
        kill(processID, SIGCONT)

        await expect(states.first { if case .connected = $0 { true } else { false } } != nil)
        try await channel.subscribed(within: .seconds(300))
        try await publisher.publish("tick", to: "orders", data: "2")
        await expectEqual(self.take(1, events), ["2"])
        if recovers {
            client.disconnect()
            for await gap in gaps { Issue.record("The client reported a gap: \(gap)") }
        } else {
            let gap = try #require(await gaps.first { _ in true })
            // From the last sign of life to the new subscription: at least the timeout of the pong.
            expect(gap.duration >= .seconds(3) && gap.recoveryFailure == nil)
            client.disconnect()
        }
    }
}
