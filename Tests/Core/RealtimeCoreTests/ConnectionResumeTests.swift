import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// The resuming of an established connection on another socket.
@Suite struct ConnectionResumeTests {
    private static let zero = Instant(nanoseconds: 0)
    private static let heartbeat = HeartbeatPolicy(probeAfterSilence: .seconds(120), deadAfterSilence: .seconds(150))
    private static let reset = CloseReason.transport(TransportError(.reset, "reset"))

    private func after(_ milliseconds: Int) -> Instant { Self.zero.advanced(by: .milliseconds(milliseconds)) }
    private func id(_ number: UInt64) -> ConnectionID { ConnectionID(rawValue: number) }

    /// A machine that is connected on its first attempt.
    private func connected(_ change: (inout ConnectionPolicy) -> Void = { _ in }) -> ConnectionStateMachine {
        var policy = ConnectionPolicy()
        change(&policy)
        var machine = ConnectionStateMachine(policy: policy, generator: SplitMix64(seed: 1))
        _ = machine.start(now: Self.zero)
        _ = machine.opened(self.id(1), now: Self.zero)
        _ = machine.ready(self.id(1), Self.heartbeat, now: Self.zero)
        return machine
    }

    private enum Step: CaseIterable { case opening, synchronizing, pausing }

    /// A machine whose first socket was lost at 1 s, and that has 10 s to resume.
    private func resuming(_ step: Step, _ change: (inout ConnectionPolicy) -> Void = { _ in }) -> ConnectionStateMachine {
        var machine = self.connected(change)
        _ = machine.closed(self.id(1), Self.reset, .resume(within: .seconds(10)), now: self.after(1000))
        switch step {
        case .opening: break
        case .synchronizing: _ = machine.opened(self.id(2), now: self.after(1000))
        case .pausing: _ = machine.closed(self.id(2), Self.reset, .resume(within: .seconds(10)), now: self.after(1000))
        }
        return machine
    }

    @Test func `a connection continues on another socket with a new number`() {
        var machine = self.connected()
        expect(machine.established == self.id(1) && !machine.isResuming)
        expectEqual(machine.closed(self.id(1), Self.reset, .resume(within: .seconds(10)), now: self.after(1000)), .resume(self.id(2)))
        expect(machine.connected == nil && machine.isResuming)
        expect(machine.established == self.id(2) && machine.current == self.id(2) && machine.newest == self.id(2))
        expectEqual(machine.opened(self.id(2), now: self.after(1100)), .synchronize)
        expectEqual(machine.opened(self.id(2), now: self.after(1100)), .none)
        expect(machine.connected == nil && machine.current == self.id(2))
        expectEqual(machine.resumed(self.id(2), Self.heartbeat, now: self.after(1200)), true)
        expect(machine.connected == self.id(2) && machine.established == self.id(2) && !machine.isResuming)
        expectEqual(machine.nextDeadline, self.after(121_200))
        expectEqual(machine.failures, 0)
    }

    @Test func `further attempts follow after pauses that grow, until the time has passed`() throws {
        var machine = self.connected()
        var (now, pauses) = (Self.zero, [Duration]())
        expect(machine.canResume(now: now))
        expectEqual(machine.closed(self.id(1), Self.reset, .resume(within: .seconds(10)), now: now), .resume(self.id(2)))
        while machine.canResume(now: now) {
            let attempt = try #require(machine.current)
            expectEqual(machine.closed(attempt, Self.reset, .resume(within: .seconds(10)), now: now), .resume(nil))
            expect(machine.current == nil && machine.established == attempt)
            let next = try #require(machine.nextDeadline)
            pauses.append(now.duration(to: next))
            now = next
            expectEqual(machine.timeout(now: now), .resume(self.id(attempt.rawValue + 1)))
        }
        expectEqual(pauses, [100, 200, 400, 800, 1600, 2000, 2000, 2000].map { .milliseconds($0) })
        // There is no time for another attempt.
        let last = try #require(machine.current)
        expectEqual(machine.closed(last, Self.reset, .never, now: now), .lost(then: .never))
        expect(machine.established == nil && machine.nextDeadline == nil)
    }

    @Test func `each attempt has a time limit, and the last one ends with that of all`() {
        var machine = self.resuming(.opening) { $0.resumeTimeout = .seconds(6) }
        expect(machine.nextDeadline == self.after(7000) && machine.timeout(now: self.after(6999)) == .none)
        expectEqual(machine.timeout(now: self.after(7000)), .end(self.id(2), .openTimeout))
        expectEqual(machine.closed(self.id(2), .openTimeout, .resume(within: .seconds(10)), now: self.after(7000)), .resume(nil))
        expectEqual(machine.timeout(now: self.after(7100)), .resume(self.id(3)))
        expectEqual(machine.opened(self.id(3), now: self.after(7200)), .synchronize)
        expectEqual(machine.nextDeadline, self.after(11_000))
        expectEqual(machine.timeout(now: self.after(11_000)), .end(self.id(3), .openTimeout))
        expect(!machine.canResume(now: self.after(11_000)))
    }

    @Test(arguments: [Duration.zero, .seconds(-1), .seconds(Int64.min), .nanoseconds(1)])
    func `a time limit that is too short allows one attempt`(limit: Duration) throws {
        var machine = self.connected()
        expectEqual(machine.closed(self.id(1), Self.reset, .resume(within: limit), now: self.after(1000)), .resume(self.id(2)))
        let deadline = try #require(machine.nextDeadline)
        expect(deadline > self.after(1000) && deadline < self.after(1001))
        expectEqual(machine.timeout(now: deadline), .end(self.id(2), .openTimeout))
        expect(!machine.canResume(now: deadline))
    }

    @Test(arguments: [ReconnectDecision.never, .immediately, .reopen, .after(.seconds(3)), .afterBackoff(), .ask])
    func `when a resume has failed, the decision of the protocol is followed as after a loss`(decision: ReconnectDecision) {
        for step in [Step.opening, .synchronizing] {
            var (resuming, lost) = (self.resuming(step), self.connected())
            let action = resuming.closed(self.id(2), Self.reset, decision, now: self.after(2000))
            expect(!resuming.isResuming && resuming.established == nil)
            switch (action, lost.closed(self.id(1), Self.reset, decision, now: self.after(2000))) {
            case (.lost(.reconnect(let first)), .lost(.reconnect(let second))): expectEqual(first.rawValue, second.rawValue + 1)
            case (.lost(.undecided(self.id(2))), .lost(.undecided(self.id(1)))): break
            case (let first, let second): expectEqual(first, second)
            }
        }
    }

    @Test func `a resume that can't follow is a reconnect`() {
        var expired = self.resuming(.opening)
        expectEqual(
            expired.closed(self.id(2), Self.reset, .resume(within: .seconds(10)), now: self.after(11_000)),
            .lost(then: .reconnect(self.id(3))))
        var machine = ConnectionStateMachine(generator: SplitMix64(seed: 1))
        _ = machine.start(now: Self.zero)
        expect(!machine.canResume(now: Self.zero))
        expectEqual(
            machine.closed(self.id(1), Self.reset, .resume(within: .seconds(10)), now: Self.zero), .lost(then: .reconnect(self.id(2))))
    }

    @Test func `only three resumes in a row begin immediately, until a connection was stable`() throws {
        var machine = self.connected()
        var number: UInt64 = 1
        /// Loses the connection, resumes it, and returns the pause before the attempt.
        func lose(at now: Instant) throws -> Duration {
            let action = machine.closed(self.id(number), Self.reset, .resume(within: .seconds(10)), now: now)
            number += 1
            var resumedAt = now
            if action == .resume(nil) {
                resumedAt = try #require(machine.nextDeadline)
                expectEqual(machine.timeout(now: resumedAt), .resume(self.id(number)))
            } else {
                expectEqual(action, .resume(self.id(number)))
            }
            expectEqual(machine.opened(self.id(number), now: resumedAt), .synchronize)
            expectEqual(machine.resumed(self.id(number), Self.heartbeat, now: resumedAt), true)
            return now.duration(to: resumedAt)
        }
        let pauses = try (1...6).map { try lose(at: self.after(5000 * $0)) }
        expectEqual(pauses, [.zero, .zero, .zero, .milliseconds(100), .milliseconds(200), .milliseconds(400)])
        try expectEqual(lose(at: self.after(61_000)), .zero)
    }

    @Test func `events of other attempts are ignored`() {
        for step in Step.allCases {
            var machine = self.resuming(step)
            let deadline = machine.nextDeadline
            for other in [self.id(1), self.id(9)] {
                expectEqual(machine.opened(other, now: self.after(1001)), .none)
                expectEqual(machine.received(other, now: self.after(1001)), false)
                expectEqual(machine.resumed(other, Self.heartbeat, now: self.after(1001)), false)
                expectEqual(machine.closed(other, Self.reset, .never, now: self.after(1001)), .none)
            }
            expect(machine.isResuming && machine.nextDeadline == deadline)
        }
    }

    @Test func `messages are received from when the socket is open`() {
        for step in Step.allCases {
            var machine = self.resuming(step)
            expectEqual(machine.received(self.id(2), now: self.after(1001)), (step == .synchronizing))
            expectEqual(machine.resumed(self.id(2), Self.heartbeat, now: self.after(1001)), (step == .synchronizing))
        }
    }

    @Test func `late events of an attempt during the pause after it are ignored`() {
        var machine = self.resuming(.pausing)
        expectEqual(machine.established, self.id(2))
        expectEqual(machine.opened(self.id(2), now: self.after(1001)), .none)
        expectEqual(machine.closed(self.id(2), Self.reset, .never, now: self.after(1001)), .none)
        expectEqual(machine.timeout(now: self.after(1100)), .resume(self.id(3)))
    }

    @Test func `starting has no effect`() {
        for step in Step.allCases {
            var machine = self.resuming(step)
            expectEqual(machine.start(now: self.after(1001)), .none)
            expect(machine.isResuming)
        }
    }

    @Test func `stopping ends a resume immediately`() {
        for (step, action) in [
            (Step.opening, ConnectionStateMachine.StopAction.finishAndAbandon(self.id(2))),
            (.synchronizing, .finishAndClose(self.id(2))), (.pausing, .finish),
        ] {
            var machine = self.resuming(step)
            expectEqual(machine.stop(now: self.after(2000)), action)
            expect(!machine.isResuming && machine.established == nil && machine.connected == nil)
            expectEqual(machine.nextDeadline, (step == .synchronizing ? self.after(7000) : nil))
            expectEqual(machine.resumed(self.id(2), Self.heartbeat, now: self.after(2001)), false)
            expectEqual(machine.closed(self.id(2), Self.reset, .resume(within: .seconds(10)), now: self.after(2001)), .none)
            expectEqual(machine.start(now: self.after(3000)), .open(self.id(3)))
        }
    }

    @Test func `a restart continues with a new connection`() {
        for (step, action) in [
            (Step.opening, ConnectionStateMachine.RestartAction.replace(self.id(2), by: self.id(3), sendsClose: false)),
            (.synchronizing, .replace(self.id(2), by: self.id(3), sendsClose: true)), (.pausing, .open(self.id(3))),
        ] {
            var machine = self.resuming(step)
            expectEqual(machine.restart(now: self.after(2000)), action)
            expect(!machine.isResuming && machine.current == self.id(3))
            expectEqual(machine.opened(self.id(3), now: self.after(2000)), .beginHandshake)
        }
    }

    @Test func `a check ends a pause, and doesn't affect an attempt`() {
        for step in Step.allCases {
            var machine = self.resuming(step)
            expectEqual(machine.check(timeout: .seconds(5), now: self.after(1001)), (step == .pausing ? .resume(self.id(3)) : .none))
            expect(machine.isResuming)
        }
    }

    @Test func `neither sending nor pausing affects a resume`() {
        for step in Step.allCases {
            var machine = self.resuming(step)
            let deadline = machine.nextDeadline
            machine.sent(self.id(2), now: self.after(1001))
            machine.reading(self.id(2), paused: true, now: self.after(1001))
            expectEqual(machine.replace(self.id(2), by: self.id(7), now: self.after(1001)), false)
            expectNil(machine.reopen(now: self.after(1001)))
            expectEqual(machine.ready(self.id(2), Self.heartbeat, now: self.after(1001)), .none)
            expectEqual(machine.nextDeadline, deadline)
        }
    }
}
