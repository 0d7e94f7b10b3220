import RealtimeTesting
import SignalRClient
import SignalRTesting
import TestSupport
import Testing

/// Starting, stopping and losing a connection.
@Suite(.timeLimit(.minutes(10))) struct HubConnectionTests {
    /// Records what the handlers of a connection's states receive.
    private static func record(_ connection: HubConnection) -> EventRecorder<String> {
        let recorder = EventRecorder<String>()
        connection.onClosed { error in recorder.record("closed \(error.map { "\($0)" } ?? "without an error")") }
        connection.onReconnecting { error in recorder.record(error == nil ? "reconnecting" : "reconnecting because of an error") }
        connection.onReconnected { recorder.record("reconnected") }
        return recorder
    }

    @Test(
        arguments: [
            (nil, .webSockets, false, SignalRError.invalidUrl("There is no URL. Call withUrl(url:) before build().")),
            (
                "http://localhost/hub", HttpTransportType.none, false,
                .unsupportedTransport("The option transport allows no transport. Allow at least one.")
            ),
            (
                "http://localhost/hub", nil, true,
                .invalidOperation("The negotiation can only be skipped if the transport is exactly .webSockets.")
            ),
        ] as [(String?, HttpTransportType?, Bool, SignalRError)])
    func `an invalid configuration is an error of the start`(
        url: String?, transport: HttpTransportType?, skipsNegotiation: Bool, expected: SignalRError
    ) async throws {
        var options = HttpConnectionOptions()
        options.transport = transport
        options.skipNegotiation = skipsNegotiation
        let builder = HubConnectionBuilder()
        let connection = (url.map { builder.withUrl(url: $0, options: options) } ?? builder).build()
        let states = Self.record(connection)
        await #expect(throws: expected) { try await connection.start() }
        await expectEqual(connection.state(), .Stopped)
        await connection.stop()
        expect(states.all.isEmpty)
    }

    @Test func `settings for which the builder has no method can be made`() async throws {
        let signalR = try await InMemorySignalR()
        _ = signalR.server.hub("/chat")
        let connection = signalR.connectionBuilder("/chat")
            .withConfiguration { $0.retriesFirstStart = true }
            .withConfiguration { $0.messageLimit = $0.retriesFirstStart ? 1 << 10 : 1 }
            .withServerTimeout(serverTimeout: 77)
            .build()
        let configuration = connection.client.configuration
        expect(configuration.retriesFirstStart && configuration.messageLimit == 1 << 10 && configuration.serverTimeout == .seconds(77))
        expect(!connection.client.isConnected)
        try await connection.start()
        expect(connection.client.isConnected)
        await connection.stop()
        // A limit that is invalid is an error of the start.
        let invalid = signalR.connectionBuilder("/chat").withConfiguration { $0.messageLimit = 0 }.build()
        await #expect { try await invalid.start() } throws: { "\($0)".contains("messageLimit") }
    }

    @Test func `messages of a connection name its options, and have one prefix`() async throws {
        let signalR = try await InMemorySignalR()
        _ = signalR.server.hub("/chat")
        signalR.server.faults.negotiationStatus = 401
        let connection = signalR.connectionBuilder("/chat").build()
        await #expect { try await connection.start() } throws: { error in
            "\(error)".hasPrefix("The negotiation with ") && "\(error)".contains("Set accessTokenFactory.")
        }
        let client = signalR.client("/chat")
        let error = await #expect(throws: HubError.self) { try await client.start() }
        expectEqual(error?.message.contains("Set accessToken."), true)
        let long = SignalRError.invocationError(String(repeating: "x", count: 5000))
        expect(long.description.count <= 1000 && long.description.hasPrefix("The server completed the call with an error: xxx"))
    }

    @Test(arguments: ["", "localhost/hub", "ftp://localhost/hub", "http://", "http://a b/"])
    func `an invalid URL is an error of the start`(url: String) async throws {
        await #expect {
            try await HubConnectionBuilder().withUrl(url: url).build().start()
        } throws: { error in
            guard case SignalRError.invalidUrl(let text) = error else { return false }
            return !text.isEmpty
        }
    }

    @Test func `a connection is started once and can be started again`() async throws {
        let signalR = try await InMemorySignalR()
        signalR.server.hub("/chat").on("Add") { (caller, a: Int, b: Int) in a + b }
        let connection = signalR.connectionBuilder("/chat").build()
        let states = Self.record(connection)
        for round in 1...3 {
            try await connection.start()
            expect(connection.connectionId != nil)
            await #expect(throws: SignalRError.self) { try await connection.start() }
            let sum: Int = try await connection.invoke(method: "Add", arguments: round, 1)
            expectEqual(sum, round + 1)
            await connection.stop()
            await expectEqual(connection.state(), .Stopped)
            expectNil(connection.connectionId)
            expectEqual(states.all.count, round)
        }
        expectEqual(Set(states.all), ["closed without an error"])
        await #expect(throws: SignalRError.self) { try await connection.send(method: "Add") }
    }

    @Test func `the negotiation can be skipped`() async throws {
        let signalR = try await InMemorySignalR()
        signalR.server.hub("/chat").on("Add") { (caller, a: Int, b: Int) in a + b }
        let connection = HubConnection(signalR.client("/chat") { ($0.allowedTransports, $0.skipsNegotiation) = (.webSockets, true) })
        try await connection.start()
        expectNil(connection.connectionId)
        let sum: Int = try await connection.invoke(method: "Add", arguments: 1, 2)
        expectEqual(sum, 3)
    }

    @Test func `a failed start throws its reason and isn't a closed connection`() async throws {
        let signalR = try await InMemorySignalR()
        signalR.server.hub("/chat").onConnected { _ in throw HubException("go away") }
        signalR.server.faults.negotiationError = "no more connections"
        let connection = signalR.connectionBuilder("/chat").build()
        let states = Self.record(connection)
        await #expect(throws: SignalRError.negotiationError("The server rejected the negotiation: no more connections")) {
            try await connection.start()
        }
        await expectEqual(connection.state(), .Stopped)
        await connection.stop()
        expect(states.all.isEmpty)
    }

    @Test func `a loss is reported once, and the reconnect too`() async throws {
        let signalR = try await InMemorySignalR()
        signalR.server.hub("/chat").on("Add") { (caller, a: Int, b: Int) in a + b }
        let connection = signalR.connectionBuilder("/chat").withAutomaticReconnect([0, 2, 10]).build()
        let states = Self.record(connection)
        let updates = EventRecorder<HubUpdate>()
        let token = connection.client.onUpdate(on: HubCallbackExecutor { $0() }) { updates.record($0) }
        try await connection.start()
        let first = connection.connectionId
        signalR.server.faults.negotiationStatus = 503
        signalR.server.drop(try #require(first))
        // A delay of zero is the shortest delay.
        signalR.clock.advance(by: .nanoseconds(1))
        try await eventually { updates.all.contains(.connectingIn(.seconds(2))) }
        await expectEqual(connection.state(), .Reconnecting)
        await #expect(throws: SignalRError.self) { try await connection.invoke(method: "Add", arguments: 1, 2) }
        signalR.server.faults.negotiationStatus = nil
        signalR.clock.advance(by: .seconds(2))
        try await eventually { states.all.count == 2 }
        expectEqual(states.all, ["reconnecting because of an error", "reconnected"])
        expect(connection.connectionId != first)
        let sum: Int = try await connection.invoke(method: "Add", arguments: 1, 2)
        expectEqual(sum, 3)
        withExtendedLifetime(token) {}
    }

    @Test func `a connection is closed when all attempts have failed`() async throws {
        let signalR = try await InMemorySignalR()
        _ = signalR.server.hub("/chat")
        let connection = signalR.connectionBuilder("/chat").withAutomaticReconnect([0]).build()
        let states = Self.record(connection)
        try await connection.start()
        signalR.server.faults.negotiationError = "no more connections"
        signalR.server.drop(try #require(connection.connectionId))
        signalR.clock.advance(by: .nanoseconds(1))
        try await eventually { states.all.count == 2 }
        expectEqual(states.all.first, "reconnecting because of an error")
        expectEqual(states.all.last?.contains("no more connections"), true)
        await expectEqual(connection.state(), .Stopped)
    }

    @Test func `without automatic reconnects, a loss closes the connection`() async throws {
        let signalR = try await InMemorySignalR()
        _ = signalR.server.hub("/chat")
        let connection = signalR.connectionBuilder("/chat").build()
        let states = Self.record(connection)
        try await connection.start()
        signalR.server.close(try #require(connection.connectionId), error: "the hub is being closed", allowReconnect: true)
        try await eventually { states.all.count == 1 }
        expect(states.all[0].contains("the hub is being closed"), "\(states.all)")
    }

    @Test func `a policy decides with the count, the time and the reason`() async throws {
        struct Policy: RetryPolicy {
            let contexts = EventRecorder<RetryContext>()

            func nextRetryInterval(retryContext: RetryContext) -> Double? {
                self.contexts.record(retryContext)
                return retryContext.retryCount < 2 ? 5 : nil
            }
        }
        let policy = Policy()
        let signalR = try await InMemorySignalR()
        _ = signalR.server.hub("/chat")
        let connection = signalR.connectionBuilder("/chat").withAutomaticReconnect(policy).build()
        let states = Self.record(connection)
        try await connection.start()
        signalR.server.faults.negotiationError = "no"
        signalR.server.drop(try #require(connection.connectionId))
        for count in 1...3 {
            try await eventually { policy.contexts.all.count == count }
            if count < 3 {
                try await eventually { signalR.clock.untilNextDeadline == .seconds(5) }
                signalR.clock.advance(by: .seconds(5))
            }
        }
        try await eventually { states.all.count == 2 }
        expectEqual(policy.contexts.all.map(\.retryCount), [0, 1, 2])
        expectEqual(policy.contexts.all.map(\.elapsed), [0, 5, 10])
        expect(policy.contexts.all.allSatisfy { $0.retryReason != nil })
    }

    // MARK: Stopping

    @Test func `stop waits for the handlers of the closed connection`() async throws {
        let signalR = try await InMemorySignalR()
        _ = signalR.server.hub("/chat")
        let connection = signalR.connectionBuilder("/chat").build()
        let done = EventRecorder<Int>()
        connection.onClosed { [clock = signalR.clock] _ in
            try? await clock.sleep(for: .seconds(1))
            done.record(1)
        }
        connection.onClosed { _ in done.record(2) }
        try await connection.start()
        let stopping = Task {
            await connection.stop()
            done.record(3)
        }
        try await eventually { signalR.clock.sleepingTaskCount == 1 }
        expect(done.all.isEmpty)
        signalR.clock.advance(by: .seconds(1))
        await stopping.value
        expectEqual(done.all, [1, 2, 3])
    }

    @Test(arguments: [HttpTransportType.webSockets, .serverSentEvents, .longPolling])
    func `a connection outlives a standstill of the process`(transport: HttpTransportType) async throws {
        let signalR = try await InMemorySignalR()
        let hub = signalR.server.hub("/hub")
        hub.on("Echo") { (caller, number: Int) in number }
        let connection = signalR.connectionBuilder("/hub").withUrl(url: signalR.url("/hub"), transport: transport).build()
        try await connection.start()
        let ids = hub.connectionIDs
        for number in 1...3 {
            signalR.clock.standStill(for: .seconds(3_600))
            let result: Int = try await connection.invoke(method: "Echo", arguments: number)
            expect(result == number && hub.connectionIDs == ids, "\(transport)")
        }
        await connection.stop()
    }

    @Test func `a stop whose task is cancelled returns`() async throws {
        let signalR = try await InMemorySignalR()
        _ = signalR.server.hub("/chat")
        let connection = signalR.connectionBuilder("/chat").build()
        connection.onClosed { [clock = signalR.clock] _ in try? await clock.sleep(for: .seconds(1)) }
        try await connection.start()
        let stopping = Task { await connection.stop() }
        try await eventually { signalR.clock.sleepingTaskCount == 1 }
        stopping.cancel()
        await stopping.value
        await expectEqual(connection.state(), .Stopped)
    }

    @Test func `a handler can stop and start the connection`() async throws {
        let signalR = try await InMemorySignalR()
        let hub = signalR.server.hub("/chat")
        let connection = signalR.connectionBuilder("/chat").withAutomaticReconnect([60]).build()
        let events = EventRecorder<String>()
        connection.onReconnecting { [weak connection] _ in
            await connection?.stop()
            events.record("stopped")
        }
        connection.onClosed { [weak connection] _ in
            try? await connection?.start()
            events.record("started")
        }
        await connection.on("Stop") { [weak connection] in
            await connection?.stop()
            events.record("stopped by the server's call")
        }
        try await connection.start()
        signalR.server.drop(try #require(connection.connectionId))
        try await eventually { events.all.count == 2 }
        expectEqual(events.all, ["stopped", "started"])
        try await hub.clients.all.send("Stop")
        try await eventually { events.all.count == 4 }
        expectEqual(events.all.suffix(2), ["started", "stopped by the server's call"])
    }

    @Test func `releasing the connection closes it`() async throws {
        let signalR = try await InMemorySignalR()
        let hub = signalR.server.hub("/chat")
        var connection: HubConnection? = signalR.connectionBuilder("/chat").build()
        weak let weakConnection = connection
        weak let weakClient = connection?.client
        connection?.onClosed { _ in }
        await connection?.on("Call") { (text: String) in text }
        try await connection?.start()
        expectEqual(hub.connectionIDs.count, 1)
        connection = nil
        expectNil(weakConnection)
        expectNil(weakClient)
        try await eventually { hub.connectionIDs.isEmpty }
    }
}
