import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// Sending to a peer that reads slowly. A request of the toy protocol represents the wait.
@Suite struct SendWhenWritableTests {
    private let toy = Toy()
    private let attempts = EventRecorder<Bool>()

    private func send(after waits: Int, limit: Duration? = nil) async -> Result<Duration?, ToySession.Failure> {
        let rest = Lock(waits)
        do throws(ToySession.Failure) {
            return .success(
                try await self.toy.driver.sendWhenWritable(limit: limit) { () throws(ToySession.Failure) in
                    let isSent = rest.withLock { rest in
                        defer { rest -= 1 }
                        return rest == 0
                    }
                    self.attempts.record(isSent)
                    return isSent
                } wait: { machine, waiter, effects in
                    machine.request("wait", waiter, &effects)
                })
        } catch {
            return .failure(error)
        }
    }

    private func isWaiting() -> Bool { self.toy.driver.read { !$0.requests.isEmpty } }

    @Test func `what can be sent is sent without a wait`() async {
        let connection = self.toy.connect()
        await expectEqual(self.send(after: 0, limit: .seconds(3)), .success(.seconds(3)))
        expect(self.attempts.all == [true] && connection.calls.all == [])
    }

    @Test func `the call tries again after each wait, and returns what is left of its limit`() async throws {
        let connection = self.toy.connect()
        let task = Task { await self.send(after: 2, limit: .seconds(10)) }
        for count in 1...2 {
            try await eventually { self.isWaiting() && self.attempts.all.count == count }
            self.toy.clock.advance(by: .seconds(3))
            connection.receive("= wait writable")
        }
        await expectEqual(task.value, .success(.seconds(4)))
        expectEqual(self.attempts.all, [false, false, true])
    }

    @Test func `the limit is for all waits together`() async throws {
        let connection = self.toy.connect()
        let task = Task { await self.send(after: 2, limit: .seconds(10)) }
        try await eventually { self.isWaiting() }
        self.toy.clock.advance(by: .seconds(6))
        connection.receive("= wait writable")
        try await eventually { self.isWaiting() && self.attempts.all.count == 2 }
        self.toy.clock.advance(by: .seconds(4))
        await expectEqual(task.value, .failure(.timedOut(.time(.seconds(10)))))
    }

    @Test func `the end of the connection ends the wait`() async throws {
        let connection = self.toy.connect()
        let task = Task { await self.send(after: 1) }
        try await eventually { self.isWaiting() }
        connection.end(.peer(.policyViolation, ""))
        await expectEqual(task.value, .failure(.ended(.peer(.policyViolation, ""))))
        expectEqual(self.attempts.all, [false])
    }
}
