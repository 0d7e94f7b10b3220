import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// The decisions that a machine waits for.
@Suite struct PendingDecisionsTests {
    private var effects = Effects<ToySession>()
    private var decisions = PendingDecisions<String>()
    private let start = Instant(nanoseconds: 0)

    private func after(_ duration: Duration) -> Instant { self.start.advanced(by: duration) }

    private mutating func ask(_ subject: String, limit: Duration = .seconds(10), at instant: Instant? = nil) -> WorkID {
        self.decisions.start("ask", about: subject, limit: limit, now: instant ?? self.start, &self.effects)
    }

    private mutating func cancelled() -> [WorkID] {
        defer { self.effects.removeAll() }
        return self.effects.commands.compactMap { if case .cancel(let id) = $0 { id } else { nil } }
    }

    @Test mutating func `a decision returns what it is about, once`() {
        let (first, second) = (self.ask("a"), self.ask("b"))
        expect(self.decisions.decided(second) == "b" && self.decisions.decided(first) == "a")
        expect(self.decisions.decided(first) == nil && self.decisions.isEmpty && self.decisions.nextDeadline == nil)
        expectEqual(self.cancelled(), [])
    }

    @Test mutating func `a hook that doesn't decide in time is cancelled, and its answer comes too late`() {
        let (slow, fast) = (self.ask("slow", limit: .seconds(10)), self.ask("fast", limit: .seconds(5)))
        expectEqual(self.decisions.nextDeadline, self.after(.seconds(5)))
        expectNil(self.decisions.popTimedOut(now: self.after(.milliseconds(4_999)), &self.effects))
        expectEqual(self.decisions.popTimedOut(now: self.after(.seconds(10)), &self.effects), "fast")
        expectEqual(self.decisions.popTimedOut(now: self.after(.seconds(10)), &self.effects), "slow")
        expectNil(self.decisions.popTimedOut(now: self.after(.seconds(10)), &self.effects))
        expectEqual(self.cancelled(), [fast, slow])
        expect(self.decisions.decided(fast) == nil && self.decisions.decided(slow) == nil)
    }

    @Test mutating func `a disconnected client's hook is cancelled, and doesn't time out later`() {
        let (id, other) = (self.ask("a"), self.ask("b"))
        self.decisions.cancel(id, &self.effects)
        self.decisions.cancel(id, &self.effects)
        expect(self.cancelled() == [id] && self.decisions.decided(id) == nil)
        expectEqual(self.decisions.popTimedOut(now: self.after(.seconds(10)), &self.effects), "b")
        expectEqual(self.cancelled(), [other])
    }

    @Test mutating func `a number isn't used again`() {
        let first = self.ask("a")
        _ = self.decisions.decided(first)
        let second = self.ask("b")
        expect(self.decisions.decided(first) == nil && self.decisions.decided(second) == "b")
    }

    @Test mutating func `a limit of at least a millisecond lets time pass`() {
        _ = self.ask("a", limit: .seconds(-1))
        expectEqual(self.decisions.nextDeadline, self.after(.milliseconds(1)))
    }
}

/// The decision of a hook outside a machine.
@Suite struct PendingDecisionTests {
    private let clock = ManualClock()
    private let decisions = EventRecorder<String>()

    private func make() -> PendingDecision<String> { PendingDecision { [decisions] in decisions.record($0) } }

    /// A hook that never decides, and records when it is cancelled.
    private func waitForever() async -> String {
        let cancelled = Waiter<Void>()
        await withTaskCancellationHandler {
            await cancelled.value()
        } onCancel: {
            cancelled.fulfill(())?.resume()
        }
        self.decisions.record("cancelled")
        return "late"
    }

    @Test func `a hook decides once, and its time limit ends`() async throws {
        let pending = self.make()
        pending.begin(within: .seconds(10), of: self.clock.time, orElse: "none") { "yes" }
        try await eventually { self.decisions.all == ["yes"] }
        self.clock.advance(by: .seconds(20))
        pending.cancel()
        expect(self.decisions.all == ["yes"] && self.clock.untilNextDeadline == nil)
    }

    @Test func `the fallback decides when the time limit is exceeded, and the hook is cancelled`() async throws {
        let pending = self.make()
        pending.begin(within: .seconds(10), of: self.clock.time, orElse: "none") { await self.waitForever() }
        self.clock.advance(by: .milliseconds(9_999))
        expectEqual(self.decisions.all, [])
        self.clock.advance(by: .milliseconds(1))
        try await eventually { self.decisions.all == ["none", "cancelled"] }
    }

    @Test(arguments: [false, true])
    func `a cancelled decision is never made, and the hook is cancelled`(hasLimit: Bool) async throws {
        let pending = self.make()
        if hasLimit {
            pending.begin(within: .seconds(10), of: self.clock.time, orElse: "none") { await self.waitForever() }
        } else {
            pending.begin { await self.waitForever() }
        }
        pending.cancel()
        pending.cancel()
        try await eventually { self.decisions.all == ["cancelled"] }
        self.clock.advance(by: .seconds(20))
        expect(self.decisions.all == ["cancelled"] && self.clock.untilNextDeadline == nil)
    }

    @Test(arguments: [false, true])
    func `a hook isn't called after the cancellation`(hasLimit: Bool) async throws {
        let cancelled = self.make()
        expect(cancelled.cancel())
        let hook: @Sendable () async -> String = { [decisions] in
            decisions.record("called")
            return "late"
        }
        if hasLimit {
            cancelled.begin(within: .seconds(10), of: self.clock.time, orElse: "none", hook)
        } else {
            cancelled.begin(hook)
        }
        expectNil(self.clock.untilNextDeadline)
        // A task that begins later.
        let next = self.make()
        next.begin { "yes" }
        try await eventually { self.decisions.all.contains("yes") }
        expectEqual(self.decisions.all, ["yes"])
    }

    @Test func `a decision that was made can't be cancelled any more`() async throws {
        let pending = self.make()
        pending.begin { "yes" }
        try await eventually { self.decisions.all == ["yes"] }
        expect(!pending.cancel())
    }
}
