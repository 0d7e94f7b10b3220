import PrimusClient
import PrimusTesting
import PrimusWire
import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

/// The behaviors of reconnects and heartbeats that Primus tests over each of its transformers.
///
/// Source: `test/transformer.base.js` of Primus 8.0.9, and `test.js` of recovery 0.2.6. The delays are tested in `SessionMessageTests`, the same
/// with real servers in `ClientPeerTests`.
@Suite(.timeLimit(.minutes(10))) struct ReconnectBehaviorTests {
    private let opened = ["readyStateChange opening", "reconnect", "reconnected", "readyStateChange open", "open"]

    @Test(arguments: BehaviorKind.all) func `a client reconnects after a loss, by default`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = try await test.openClient()
        expectEqual(client.configuration.strategies, .all)
        let events = client.events()
        try await test.cut(client)
        await expectEqual(events.names(), ["readyStateChange end", "close", "reconnect scheduled"])
        try await test.recover(client)
        await expectEqual(events.names(), self.opened)
        try await test.expectSparks { $0.count == 1 }
        client.end()
    }

    @Test(arguments: BehaviorKind.all)
    func `the order of all events is the same over every kind of connection`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = test.client()
        let events = client.events()
        let opening = ["outgoing::open", "readyStateChange opening", "outgoing::end", "outgoing::url"]
        client.enqueue("early")
        client.open()
        try await client.opened(within: Behavior.limit)
        try await test.settled(client)
        await expectEqual(events.allNames(), opening + ["incoming::open", "readyStateChange open", "outgoing::data", "open"])
        try await test.cut(client)
        try await test.recover(client)
        await expectEqual(
            events.allNames(),
            ["incoming::end", "readyStateChange end", "close", "reconnect scheduled", "outgoing::reconnect"]
                + opening + ["reconnect", "incoming::open", "reconnected", "readyStateChange open", "open"])
        try await test.expectSparks { $0.count == 1 }
        try #require(test.server.sparks.first).end("bye")
        try await eventually { client.isClosed }
        await expectEqual(
            events.allNames(),
            [
                "incoming::data", "incoming::data", "incoming::end", "readyStateChange end", "outgoing::end", "close", "end",
            ])
    }

    @Test(arguments: BehaviorKind.all) func `a client whose server says so reconnects`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = try await test.openClient()
        let events = client.events()
        let first = try #require(test.server.sparks.first)
        first.end(reconnects: true)
        // The answer to the next poll may be the one that ends the session.
        try await eventually { !client.isConnected }
        try await test.recover(client)
        await expectEqual(events.names(), ["readyStateChange end", "close", "reconnect scheduled"] + self.opened)
        try await test.expectSparks { $0.count == 1 && $0.first != first }
        client.end()
    }

    @Test(arguments: BehaviorKind.all) func `a server that stops and starts gets its clients back`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = try await test.openClient()
        await test.server.stop()
        let failures = client.updates()
        try await test.advance(client) {
            await failures.pending().contains { if case .attemptFailed = $0 { true } else { false } }
        }
        _ = try await test.server.start(on: test.network.listener(host: test.primus.address.host, port: test.primus.address.port))
        try await test.recover(client)
        expectEqual(test.server.sparks.count, 1)
        client.end()
    }

    @Test(arguments: BehaviorKind.all) func `a client that doesn't retry ends with its connection`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        for configure: @Sendable (inout PrimusConfiguration) -> Void in [{ $0.retry = .none }, { $0.strategies = [] }] {
            let client = try await test.openClient(configure)
            let events = client.events()
            try await test.cut(client)
            try await eventually { client.closingError?.code == .connectionLost }
            test.advance(by: .seconds(100))
            await expectEqual(events.names(), ["readyStateChange end", "close", "end"])
            expect(test.server.sparks.isEmpty && client.driver.nextDeadline == nil)
        }
    }

    @Test(arguments: BehaviorKind.all)
    func `a server that stalls is a timeout, and then an attempt that is scheduled`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        test.network.condition = .silent
        let client = test.informedClient()
        let events = client.events()
        client.open()
        test.clock.advance(by: .seconds(10))
        await expectEqual(events.names(), ["readyStateChange opening", "timeout", "reconnect scheduled", "readyStateChange end"])
        test.network.condition = .up
        try await test.recover(client)
        await expectEqual(events.names(), self.opened)
        client.end()
    }

    @Test(arguments: BehaviorKind.all) func `a timeout without the strategy for it is the end`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        test.network.condition = .silent
        let client = test.informedClient { $0.strategies = [.disconnect, .online] }
        let events = client.events()
        client.open()
        test.clock.advance(by: .seconds(10))
        await expectEqual(events.names(), ["readyStateChange opening", "timeout", "readyStateChange end", "close", "end"])
        expect(client.closingError?.code == .timedOut && client.driver.nextDeadline == nil)
    }

    @Test(arguments: BehaviorKind.all) func `an attempt that hangs has a limit of its own`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = try await test.openClient { $0.retry = .delays([.seconds(1), .seconds(2)]) }
        let events = client.events()
        try await test.cut(client)
        test.network.condition = .silent
        // Another thread may still handle an answer.
        try await eventually { client.reconnectDelay != nil }
        test.clock.advance(by: .seconds(1))
        test.clock.advance(by: .seconds(30))
        await expectEqual(
            events.names(),
            [
                "readyStateChange end", "close", "reconnect scheduled", "readyStateChange opening", "reconnect", "reconnect timeout",
                "reconnect scheduled", "readyStateChange end",
            ])
        test.network.condition = .up
        try await test.recover(client)
        await expectEqual(events.names(), self.opened)
        client.end()
    }

    @Test(arguments: BehaviorKind.all) func `ending while an attempt is scheduled stops it`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = try await test.openClient()
        let events = client.events()
        let token = client.onUpdate(on: .tasks) { [weak client] update in
            if case .reconnectScheduled = update { client?.end() }
        }
        try await test.cut(client)
        try await eventually { client.state == .closed(nil) }
        test.advance(by: .seconds(600))
        await expectEqual(events.names(), ["readyStateChange end", "close", "reconnect scheduled", "end"])
        expect(client.state == .closed(nil) && test.server.sparks.isEmpty && client.driver.nextDeadline == nil)
        token.cancel()
    }

    @Test(arguments: BehaviorKind.all) func `a client that has used its attempts gives up, once`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = try await test.openClient {
            $0.retry = .backoff(PrimusBackoff(minimum: .seconds(1), maximum: .seconds(10), retries: 3))
        }
        let (events, updates) = (client.events(), client.updates())
        try await test.cut(client)
        test.network.condition = .down
        try await test.advance(client) { client.isClosed }
        await expectEqual(
            events.names(),
            ["readyStateChange end", "close"]
                + (0..<3).flatMap { $0 == 0 ? ["reconnect scheduled", "readyStateChange opening", "reconnect"] : Self.repeated }
                + ["end", "reconnect failed", "readyStateChange end"])
        let ends = await updates.pending().filter { update in
            switch update {
            case .ended, .reconnectFailed: true
            default: false
            }
        }
        expect(ends.count == 2 && client.closingError?.code == .connectionLost)
        test.network.condition = .up
        test.advance(by: .seconds(600))
        expect(client.isClosed && test.server.sparks.isEmpty && client.driver.nextDeadline == nil)
    }

    /// The events of another attempt, after one that has failed.
    private static let repeated = ["reconnect scheduled", "readyStateChange end", "readyStateChange opening", "reconnect"]

    @Test(arguments: BehaviorKind.all)
    func `the attempts are counted anew after a success, with delays within the bounds`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let backoff = PrimusBackoff(minimum: .seconds(1), maximum: .seconds(20))
        let client = try await test.openClient { $0.retry = .backoff(backoff) }
        for _ in 0..<5 {
            let updates = client.updates()
            try await test.cut(client)
            test.network.condition = .down
            try await test.advance(client) { client.driver.read { $0.retry?.attempt } == 3 }
            test.network.condition = .up
            try await test.recover(client)
            let retries = await updates.pending().compactMap { if case .reconnectScheduled(let retry) = $0 { retry } else { nil } }
            expectEqual(retries.map(\.attempt), [1, 2, 3])
            for (retry, maximum) in zip(retries, [2, 4, 8]) {
                expect((.seconds(1) ... .seconds(maximum)).contains(retry.delay), "\(retry)")
            }
            expectNil(client.driver.read { $0.retry })
        }
        client.end()
    }

    @Test(arguments: BehaviorKind.all) func `a change of the network ends the delay`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = try await test.openClient { $0.retry = .delays([.seconds(3600)]) }
        try await test.cut(client)
        expectEqual(client.reconnectDelay, .seconds(3600))
        client.driver.step { $0.networkChanged(now: $1, &$2) }
        try await client.opened(within: Behavior.limit)
        expect(test.clock.elapsed < .seconds(3600))
        client.end()
    }

    @Test(arguments: BehaviorKind.all) func `the URL is asked for before each attempt`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let attempts = Lock(0)
        let client = try await test.openClient { configuration in
            configuration.requestURL = { endpoint in
                var endpoint = endpoint
                endpoint.addQuery("attempt", "\(attempts.withLock { $0 += 1; return $0 })")
                return endpoint
            }
        }
        for attempt in 1...3 {
            test.disconnectDelayEnds()
            let spark = try #require(test.server.sparks.first)
            expect(spark.query.contains { $0 == ("attempt", "\(attempt)") }, "\(spark.query)")
            guard attempt < 3 else { break }
            try await test.cut(client)
            try await test.recover(client)
        }
        client.end()
    }

    @Test(arguments: BehaviorKind.all) func `messages are written and received after a reconnect`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let echo = test.echo()
        let client = try await test.openClient()
        let messages = client.messages.makeAsyncIterator()
        try await client.write(1)
        try await expectEqual(messages.next()?.value, 1)
        try await test.cut(client)
        expect(client.enqueue(2) && client.queuedCount == 1)
        try await test.recover(client)
        try await expectEqual(messages.next()?.value, 2)
        client.end()
        echo.cancel()
    }

    // MARK: Heartbeat

    @Test(arguments: BehaviorKind.all) func `a connection outlives an hour of heartbeats`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = try await test.openClient()
        let first = try await client.id(within: Behavior.limit)
        let events = client.events()
        test.advance(by: .seconds(3600), step: .seconds(5))
        expect(client.isConnected && test.server.sparks.map(\.id) == [first])
        await expect(events.names().isEmpty)
        client.end()
    }

    @Test(arguments: BehaviorKind.all)
    func `a connection that is dead ends on both sides, and the client comes back`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = try await test.openClient()
        let events = client.events()
        let first = try #require(test.server.sparks.first)
        test.network.condition = .silent
        // The limits are at most 45 seconds of the client, and two intervals of 30 seconds of the server.
        try await eventually {
            if client.isConnected { test.clock.advance(by: .seconds(1)) }
            return !client.isConnected
        }
        expect(test.clock.elapsed <= .seconds(45))
        await expectEqual(events.names(), ["offline", "readyStateChange end", "close", "reconnect scheduled"])
        test.advance(by: .seconds(61))
        expect(!first.isOpen && test.server.sparks.isEmpty)
        // The attempt that is in progress is silent, too, and has a time limit.
        try await eventually {
            if client.reconnectDelay == nil { test.clock.advance(by: .milliseconds(100)) }
            return client.reconnectDelay != nil
        }
        test.network.condition = .up
        try await test.recover(client)
        let names = await events.names()
        expectEqual(names.suffix(4), ["reconnected", "online", "readyStateChange open", "open"], "\(names)")
        expectEqual(test.server.sparks.count, 1)
        client.end()
    }

    @Test(arguments: BehaviorKind.all) func `a server that is silent is left, and found again`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = try await test.openClient()
        let first = try #require(test.server.sparks.first)
        test.server.faults.isSilent = true
        try await eventually {
            if client.isConnected { test.clock.advance(by: .seconds(1)) }
            return !client.isConnected
        }
        test.server.faults = PrimusServerFaults()
        try await test.recover(client)
        try await test.expectSparks { $0.count == 1 && $0.first != first }
        client.end()
    }
}
