import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

@testable import CommandLineSupport
@testable import realtime

/// The time limits of commands, in virtual time.
@Suite struct TimeLimitTests {
    private let clock = ManualClock()

    /// Suspends until the task is cancelled.
    private static func untilCancelled() async {
        let (stream, continuation) = AsyncStream<Void>.makeStream()
        for await _ in stream {}
        continuation.finish()
    }

    @Test func `an operation that is done in time returns its result`() async {
        let result = await TimeLimit(.seconds(5), clock: self.clock).run { 7 }
        expect(result.value == 7 && !result.isExceeded)
        let unlimited = await TimeLimit(nil, clock: self.clock).run { 8 }
        expect(unlimited.value == 8 && !unlimited.isExceeded)
    }

    @Test func `an operation is cancelled when the limit has passed`() async throws {
        let limit = TimeLimit(.seconds(5), clock: self.clock)
        let result = Task {
            await limit.run {
                await Self.untilCancelled()
                return Task.isCancelled
            }
        }
        try await eventually { self.clock.sleepingTaskCount == 1 }
        self.clock.advance(by: .milliseconds(4_999))
        expect(self.clock.sleepingTaskCount == 1 && limit.remaining == .milliseconds(1))
        self.clock.advance(by: .milliseconds(1))
        #expect(await result.value == (true, true))
        // Always positive, as time limits of calls must be.
        expectEqual(limit.remaining, .milliseconds(1))
    }

    @Test func `a limit that is met doesn't end the operation`() async throws {
        let limit = TimeLimit(.seconds(5), clock: self.clock)
        let (met, isMet) = AsyncStream<Void>.makeStream()
        let (ends, end) = AsyncStream<Void>.makeStream()
        let result = Task {
            await limit.run(until: { for await _ in met {} }) {
                for await _ in ends {}
                return Task.isCancelled
            }
        }
        try await eventually { self.clock.sleepingTaskCount == 1 }
        isMet.finish()
        try await eventually { self.clock.sleepingTaskCount == 0 }
        self.clock.advance(by: .seconds(10))
        end.finish()
        #expect(await result.value == (false, false))
    }

    @Test func `a command that is cancelled has not exceeded its limit`() async throws {
        let limit = TimeLimit(.seconds(5), clock: self.clock)
        let result = Task { await limit.run { await Self.untilCancelled() }.isExceeded }
        try await eventually { self.clock.sleepingTaskCount == 1 }
        result.cancel()
        await expectEqual(result.value, false)
    }

    @Test func `a failure contains the limit only if it is exceeded`() {
        let limit = TimeLimit(.milliseconds(2_500))
        expectEqual(limit.failure("Cannot connect").message, "Cannot connect within 2.5 s. Check the server, or use a longer --timeout.")
        expectEqual(limit.failure("Received 1 of 2", isExceeded: false).message, "Received 1 of 2.")
        expect(TimeLimit(nil).text == "" && TimeLimit(nil).remaining == nil)
    }
}

@Suite struct OpenConnectionsTests {
    /// A server that accepts everything and answers nothing.
    private final class Silent: AcceptingHandler, MessageEvents {
        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {}
        func decision(about request: HTTPRequestHead) -> UpgradeDecision { .accept(subprotocol: nil) }
        func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents { self }
        func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {}
        func closed(_ id: ConnectionID, _ reason: CloseReason) {}
    }

    @Test func `a command waits until its connections have closed`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let address = try await network.listener().start(Silent())
        let connections = OpenConnections()
        var transport: any WebSocketTransport = network.webSocket
        connections.follow(&transport)
        // Without a connection, it returns immediately.
        await connections.waitUntilClosed()
        let socket = RawSocket(transport, address, "/") { _ in }
        let hasReturned = Lock(false)
        let wait = Task {
            await connections.waitUntilClosed()
            hasReturned.withLock { $0 = true }
        }
        expectEqual(hasReturned.withLock { $0 }, false)
        socket.close()
        await wait.value
    }
}
