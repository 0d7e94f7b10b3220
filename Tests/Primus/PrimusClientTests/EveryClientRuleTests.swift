import PrimusClient
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// The rules of the article "What every client has".
@Suite(.timeLimit(.minutes(10))) struct EveryClientRuleTests {
    @Test func `an invalid configuration is an error of the start, and of a change`() async throws {
        let fixture = try await PrimusFixture { $0.connectTimeout = .zero }
        let invalid = PrimusConnection(fixture.configuration)
        let error = await #expect(throws: PrimusError.self) { try await invalid.run() }
        expect(error?.code == .invalidConfiguration && error?.code.description == "invalidConfiguration")
        expectEqual(error?.message, "Invalid configuration: The connectTimeout must be greater than zero, but is 0.0 seconds.")
        expectEqual(invalid.counters.messagesSent, 0)
        invalid.open()
        expectEqual(invalid.state, .closed(error))

        var configuration = fixture.configuration
        configuration.connectTimeout = .seconds(5)
        let client = PrimusConnection(configuration)
        let refused = #expect(throws: PrimusError.self) { try client.update { $0.connectTimeout = .zero } }
        expect(refused == error && client.configuration.connectTimeout == .seconds(5))
        try client.update { $0.connectTimeout = .seconds(7) }
        expectEqual(client.configuration.connectTimeout, .seconds(7))
    }

    @Test func `each invalid value is refused with the reason`() async throws {
        let changes: [(inout PrimusConfiguration) -> Void] = [
            { $0.detectionTimeout = .zero }, { $0.silenceLimit = .zero }, { $0.webSocketPingInterval = .zero }, { $0.messageLimit = 0 },
            { $0.sentMessageLimit = 0 }, { $0.queue = .refuse(-1) }, { $0.messageBuffer.count = 0 }, { $0.messageBuffer.bytes = 0 },
            { $0.retry = .delays([.seconds(-1)]) }, { $0.retry = .backoff(PrimusBackoff(minimum: .seconds(-1))) },
            { $0.retry = .backoff(PrimusBackoff(minimum: .seconds(60))) }, { $0.retry = .backoff(PrimusBackoff(factor: 0.5)) },
            { $0.retry = .backoff(PrimusBackoff(factor: .nan)) }, { $0.retry = .backoff(PrimusBackoff(retries: -1)) },
            { $0.parser = .custom("x") }, { $0.transformer = .browserchannel }, { ($0.transformer, $0.parser) = (.sockjs, .msgpack) },
            { $0.endpoint.host = "user@host" },
        ]
        for (index, change) in changes.enumerated() {
            let fixture = try await PrimusFixture(ScriptedPrimus.Script(), change)
            let client = PrimusConnection(fixture.configuration)
            let error = await #expect(throws: PrimusError.self) { try await client.run() }
            expect(error?.code == .invalidConfiguration && fixture.server.accepted == 0, "\(index)")
        }
    }

    @Test(arguments: [false, true]) func `run returns when the client ends, and ends it with its task`(isCancelled: Bool) async throws {
        let fixture = try await PrimusFixture()
        let client = PrimusConnection(fixture.configuration)
        for _ in 0..<2 {
            let task = Task { try await client.run() }
            try await eventually { client.state != .closed(nil) }
            _ = try await client.connected(within: .seconds(10))
            if isCancelled { task.cancel() } else { client.end() }
            // The task may not wait yet when it is cancelled.
            if !isCancelled { expectEqual(client.state, .closed(nil)) }
            try await task.value
            expectEqual(client.state, .closed(nil))
        }
    }

    @Test func `waiting doesn't open a client, and ends with its limit`() async throws {
        let fixture = try await PrimusFixture()
        let client = PrimusConnection(fixture.configuration)
        await expectEqual(#expect(throws: PrimusError.self) { try await client.opened(within: .zero) }?.code, .timedOut)
        let task = Task { _ = try await client.opened(within: .seconds(10)) }
        task.cancel()
        await expectEqual(#expect(throws: PrimusError.self) { try await task.value }?.code, .cancelled)
        expect(client.counters.messagesSent == 0 && fixture.server.accepted == 0)
    }

    @Test func `observations follow a loss and a reconnect, and end when they are released`() async throws {
        let fixture = try await PrimusFixture()
        let client = PrimusConnection(fixture.configuration)
        let (errors, changes, delays, frames) = (client.errors, client.stateChanges, client.connectingIn, client.frames())
        let updates = EventRecorder<String>()
        var observation: PrimusObservation? = client.onUpdate(on: PrimusCallbackExecutor { $0() }) { updates.record("\($0)") }
        let task = Task { try await client.run() }
        _ = try await client.connected(within: .seconds(10))
        client.enqueue(1)
        fixture.network.cut()
        await expectEqual(errors.pending().map(\.code), [.connectionLost])
        await expectEqual(delays.pending(), [.seconds(1)])
        expectEqual(client.reconnectDelay, .seconds(1))
        try await eventually { updates.all.last?.hasPrefix("connectingIn") == true }
        let count = updates.all.count
        withExtendedLifetime(observation) {}
        observation = nil
        client.checkConnection()
        _ = try await client.connected(within: .seconds(10))
        expect(client.reconnectDelay == nil && client.counters.reconnects == 1 && updates.all.count == count)
        let pairs = await changes.pending()
        expect(zip(pairs, pairs.dropFirst()).allSatisfy { $0.new == $1.old } && pairs.count > 3)
        await expectEqual(frames.pending().map(\.text), ["<ping>", "1", "<ping>"])
        client.end()
        try await task.value
    }

    @Test func `checking a connection that is dead ends it`() async throws {
        let fixture = try await PrimusFixture()
        let client = try await fixture.open()
        fixture.network.condition = .silent
        client.checkConnection()
        fixture.clock.advance(by: .seconds(10))
        expect(!client.isConnected && !client.isOnline)
        fixture.network.condition = .up
        client.reconnectNow()
        try await client.opened()
        expect(client.isOnline)
    }

    @Test func `a change of the network path reconnects, but not a client that was ended`() async throws {
        let monitor = NetworkPathMonitor()
        let fixture = try await PrimusFixture { $0.transports.networkPath = monitor }
        let client = try await fixture.open()
        fixture.network.cut()
        monitor.pathChanged()
        try await client.opened(within: .seconds(10))
        client.end()
        monitor.pathChanged()
        expectEqual(client.state, .closed(nil))
    }

    @Test func `errors that differ in their causes are equal, and show no text of the application`() {
        struct Failed: Error {}
        let (plain, caused) = (PrimusError(.timedOut, "Failed."), PrimusError(.timedOut, "Failed.", cause: Failed()))
        expect(plain == caused && plain.hashValue == caused.hashValue && plain != PrimusError(.timedOut, "Other."))
        expect(caused.cause is Failed && caused.status == nil && caused.headers == nil && "\(caused)" == "Failed.")
    }
}
