import PusherChannels
import PusherServer
import PusherTesting
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// Waits that would never end, because the clock of the test stands still.
@Suite(.timeLimit(.minutes(10))) struct ForgottenConnectTests {
    private let pusher: InMemoryPusher
    private let limit = Duration.seconds(30)

    init() async throws {
        self.pusher = try await InMemoryPusher(clock: ManualClock(standstillLimit: self.limit))
    }

    /// Performs a wait in a task, and lets it stand still.
    private func standStill<Value: Sendable>(
        until isWaiting: () -> Bool, _ wait: @escaping @Sendable () async throws(PusherError) -> Value
    ) async throws -> Result<Value, PusherError> {
        let task = Task { () -> Result<Value, PusherError> in
            do throws(PusherError) { return .success(try await wait()) } catch { return .failure(error) }
        }
        try await eventually { isWaiting() }
        self.pusher.clock.time.elapsedInRealTime(self.limit)
        return await task.value
    }

    private func error<Value>(of result: Result<Value, PusherError>) -> PusherError? {
        if case .failure(let error) = result { error } else { nil }
    }

    @Test func `a call that waits for a client that is not connecting says so`() async throws {
        let client = self.pusher.client()
        let result = try await self.standStill(until: { self.pusher.clock.untilNextDeadline != nil }) { () throws(PusherError) in
            try await client.connected()
        }
        let error = self.error(of: result)
        expectEqual(error?.code, .timedOut)
        expectEqual(
            error?.message,
            "Waited 30.0 seconds of real time while the test clock did not advance: the client is not connecting. Call connect() first.")
        expectNil(self.pusher.clock.untilNextDeadline)
    }

    @Test func `the wait for a subscription says so as well`() async throws {
        let channel = try self.pusher.client().subscribe("prices")
        let result = try await self.standStill(until: { self.pusher.clock.untilNextDeadline != nil }) { () throws(PusherError) in
            try await channel.subscribed()
        }
        expectEqual(self.error(of: result)?.message.contains("Call connect() first."), true)
    }

    @Test func `a call that waits for the next attempt says that the clock must be advanced`() async throws {
        self.pusher.network.condition = .down
        let client = self.pusher.client()
        client.connect()
        let deadline = self.pusher.clock.untilNextDeadline
        expect(deadline != nil)
        let error = await withTaskGroup(of: PusherError?.self) { group in
            group.addTask {
                do throws(PusherError) {
                    try await client.connected(within: .milliseconds(1))
                    return nil
                } catch { return error }
            }
            while self.pusher.clock.untilNextDeadline != .milliseconds(1) { await Task.yield() }
            self.pusher.clock.time.elapsedInRealTime(self.limit)
            return await group.next() ?? nil
        }
        expectEqual(error?.code, .timedOut)
        expectEqual(error?.message.contains("while the test clock did not advance"), true)
        expectEqual(error?.message.contains("the in-memory network is down"), true)
        // The client continues.
        self.pusher.network.condition = .up
        self.pusher.clock.advance(by: .seconds(60))
        expectEqual(client.state.name, "connected")
    }

    @Test func `a sequence of a client that is not connecting finishes if a task waits`() async throws {
        let client = self.pusher.client()
        let events = try client.subscribe("prices").events()
        let unread = try client.subscribe("other").events()
        let result = try await self.standStill(until: { events.consumer.buffer.hasWaitingReader }) { () throws(PusherError) in
            await events.first { _ in true }
        }
        guard case .success(nil) = result else { return expect(false, "the sequence should finish") }
        expectEqual(events.endReason?.description.contains("The client is not connecting. Call connect() first."), true)
        // The client and other sequences can still be used.
        expectNil(unread.endReason)
        client.connect()
        self.pusher.server.publish("a", to: "other", data: "1")
        await expectEqual(unread.pending().map(\.name), ["a"])
    }

    @Test func `a sequence of a server without clients finishes if a task waits`() async throws {
        let events = self.pusher.server.events
        let result = try await self.standStill(until: { events.consumer.buffer.hasWaitingReader }) { () throws(PusherError) in
            await events.first { _ in true }
        }
        guard case .success(nil) = result else { return expect(false, "the sequence should finish") }
        expectEqual(events.endReason?.description.contains("No client is connected to the server."), true)
    }

    @Test func `a sequence of a connected client continues`() async throws {
        let client = self.pusher.client()
        client.connect()
        let events = try client.subscribe("prices").events()
        let task = Task { await events.first { _ in true }?.name }
        try await eventually { events.consumer.buffer.hasWaitingReader }
        self.pusher.clock.time.elapsedInRealTime(self.limit)
        self.pusher.server.publish("a", to: "prices", data: "1")
        await expectEqual(task.value, "a")
    }

    @Test func `a client for which no task waits is not affected`() async throws {
        let client = self.pusher.client()
        let states = client.states
        self.pusher.clock.time.elapsedInRealTime(self.limit)
        expectEqual(client.state, .initialized)
        expectNil(states.endReason)
        client.connect()
        expectEqual(client.state.name, "connected")
    }
}
