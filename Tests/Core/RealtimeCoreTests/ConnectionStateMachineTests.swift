import RealtimeCore
import TestSupport
import Testing

@Suite struct ConnectionStateMachineTests {
    private static let zero = Instant(nanoseconds: 0)
    private static let heartbeat = HeartbeatPolicy(probeAfterSilence: .seconds(120), deadAfterSilence: .seconds(150))

    private func after(_ seconds: Int) -> Instant { Self.zero.advanced(by: .seconds(seconds)) }

    private func machine(_ change: (inout ConnectionPolicy) -> Void = { _ in }) -> ConnectionStateMachine {
        var policy = ConnectionPolicy()
        change(&policy)
        return ConnectionStateMachine(policy: policy, generator: SplitMix64(seed: 1))
    }

    /// A machine that is connected on its first attempt.
    private func connected(
        _ heartbeat: HeartbeatPolicy = Self.heartbeat, _ change: (inout ConnectionPolicy) -> Void = { _ in }
    ) -> (ConnectionStateMachine, ConnectionID) {
        var machine = self.machine(change)
        let id = ConnectionID(rawValue: 1)
        expectEqual(machine.start(now: Self.zero), .open(id))
        expectEqual(machine.opened(id, now: Self.zero), .beginHandshake)
        expectEqual(machine.ready(id, heartbeat, now: Self.zero), .announceConnected)
        return (machine, id)
    }

    @Test func `an idle machine has no deadline`() {
        var machine = self.machine()
        expectNil(machine.nextDeadline)
        expectEqual(machine.timeout(now: self.after(1000)), .none)
        expectNil(machine.current)
    }

    @Test func `starting a second time has no effect`() {
        var machine = self.machine()
        expectEqual(machine.start(now: Self.zero), .open(ConnectionID(rawValue: 1)))
        expectEqual(machine.start(now: Self.zero), .none)
    }

    @Test func `the open timeout covers connecting and the handshake`() {
        var machine = self.machine()
        let id = ConnectionID(rawValue: 1)
        _ = machine.start(now: Self.zero)
        expectEqual(machine.nextDeadline, self.after(15))
        expectEqual(machine.opened(id, now: Self.zero), .beginHandshake)
        expectEqual(machine.nextDeadline, self.after(15))
        expectEqual(machine.timeout(now: self.after(15)), .end(id, .openTimeout))
        let action = machine.closed(id, .openTimeout, .afterBackoff(), now: self.after(15))
        guard case .backingOff(let until) = machine.state else { return expect(false, "it should back off") }
        expectEqual(action, .lost(then: .later(until: until)))
    }

    @Test(arguments: [false, true]) func `an open timeout that passed during a standstill begins anew once`(isOpened: Bool) {
        var machine = self.machine()
        let id = ConnectionID(rawValue: 1)
        _ = machine.start(now: Self.zero)
        if isOpened { _ = machine.opened(id, now: Self.zero) }
        expectEqual(machine.timeout(now: self.after(1_000)), .none)
        expectEqual(machine.nextDeadline, self.after(1_015))
        expectEqual(machine.timeout(now: self.after(2_000)), .end(id, .openTimeout))
    }

    @Test(arguments: [Duration.zero, .seconds(-1), .seconds(Int64.min)])
    func `an open timeout that is not positive ends the attempt after it has started`(limit: Duration) throws {
        var machine = self.machine { $0.openTimeout = limit }
        _ = machine.start(now: Self.zero)
        let deadline = try #require(machine.nextDeadline)
        expect(deadline > Self.zero && deadline < self.after(1))
        expectEqual(machine.timeout(now: deadline), .end(ConnectionID(rawValue: 1), .openTimeout))
        _ = machine.closed(ConnectionID(rawValue: 1), .openTimeout, .afterBackoff(), now: deadline)
        let next = try #require(machine.nextDeadline)
        expectEqual(machine.timeout(now: next), .open(ConnectionID(rawValue: 2)))
        try expect(#require(machine.nextDeadline) > next)
    }

    @Test func `events from another attempt are ignored`() {
        var (machine, id) = self.connected()
        let stale = ConnectionID(rawValue: 7)
        expectEqual(machine.opened(stale, now: Self.zero), .none)
        expectEqual(machine.ready(stale, Self.heartbeat, now: Self.zero), .none)
        expectEqual(machine.received(stale, now: self.after(100)), false)
        expectEqual(machine.closed(stale, .openTimeout, .immediately, now: Self.zero), .none)
        expectEqual(machine.connected, id)
        expectEqual(machine.nextDeadline, self.after(120))
    }

    @Test func `an inactive connection is probed and then abandoned`() {
        var (machine, id) = self.connected()
        expectEqual(machine.nextDeadline, self.after(120))
        expectEqual(machine.timeout(now: self.after(120)), .sendProbe(id))
        expectEqual(machine.nextDeadline, self.after(150))
        expectEqual(machine.timeout(now: self.after(150)), .end(id, .heartbeatTimeout))
    }

    @Test func `any message counts as a reply to a probe`() {
        var (machine, id) = self.connected()
        _ = machine.timeout(now: self.after(120))
        let isCurrent = machine.received(id, now: self.after(130))
        expect(isCurrent)
        expectEqual(machine.nextDeadline, self.after(250))
    }

    @Test func `the heartbeat is suspended while reading is paused`() {
        var (machine, id) = self.connected()
        machine.reading(id, paused: true, now: self.after(10))
        expectNil(machine.nextDeadline)
        machine.reading(id, paused: false, now: self.after(1000))
        expectEqual(machine.nextDeadline, self.after(1120))
    }

    @Test func `a check has its own timeout`() {
        var (machine, id) = self.connected()
        expectEqual(machine.check(timeout: .seconds(5), now: self.after(10)), .sendProbe(id))
        expectEqual(machine.nextDeadline, self.after(15))
        expectEqual(machine.timeout(now: self.after(15)), .end(id, .heartbeatTimeout))
    }

    @Test func `a second check sends no probe until the peer has responded`() {
        var (machine, id) = self.connected()
        expectEqual(machine.check(timeout: .seconds(5), now: self.after(10)), .sendProbe(id))
        expectEqual(machine.check(timeout: .seconds(5), now: self.after(12)), .none)
        expectEqual(machine.nextDeadline, self.after(15))
        _ = machine.received(id, now: self.after(13))
        expectEqual(machine.check(timeout: .seconds(5), now: self.after(14)), .sendProbe(id))
    }

    @Test func `a ping keeps the connection alive and a probe checks it`() {
        let heartbeat = HeartbeatPolicy(
            probeAfterSilence: .seconds(60), deadAfterSilence: .seconds(90), pingAfterNotSending: .seconds(15))
        var (machine, id) = self.connected(heartbeat)
        expectEqual(machine.timeout(now: self.after(15)), .sendPing(id))
        for second in stride(from: 30, to: 60, by: 15) { expectEqual(machine.timeout(now: self.after(second)), .sendPing(id)) }
        expectEqual(machine.timeout(now: self.after(60)), .sendProbe(id))
        expectEqual(machine.timeout(now: self.after(75)), .sendPing(id))
        expectEqual(machine.timeout(now: self.after(90)), .end(id, .heartbeatTimeout))
    }

    @Test(arguments: [(4, 7), (20, 15)])
    func `the handshake has a time limit of its own within the attempt's`(limit: Int, end: Int) {
        var machine = self.machine { ($0.openTimeout, $0.handshakeTimeout) = (.seconds(15), .seconds(limit)) }
        _ = machine.start(now: Self.zero)
        expectEqual(machine.nextDeadline, self.after(15))
        let id = ConnectionID(rawValue: 1)
        expectEqual(machine.opened(id, now: self.after(3)), .beginHandshake)
        expectEqual(machine.nextDeadline, self.after(end))
        expectEqual(machine.timeout(now: self.after(end - 1)), .none)
        expectEqual(machine.timeout(now: self.after(end)), .end(id, .openTimeout))
    }

    @Test func `a check doesn't wait for a pending decision`() {
        var machine = self.machine()
        _ = machine.start(now: Self.zero)
        let first = ConnectionID(rawValue: 1)
        _ = machine.closed(first, .openTimeout, .ask, now: Self.zero)
        expectEqual(machine.check(timeout: .seconds(5), now: self.after(1)), .open(ConnectionID(rawValue: 2)))
        expectNil(machine.decided(first, .never, now: self.after(2)))
        expectEqual(machine.current, ConnectionID(rawValue: 2))
    }

    @Test func `a check starts a pending retry and forgets the failures`() {
        var machine = self.machine()
        _ = machine.start(now: Self.zero)
        _ = machine.closed(ConnectionID(rawValue: 1), .openTimeout, .afterBackoff(), now: Self.zero)
        expectEqual(machine.failures, 1)
        expectEqual(machine.check(timeout: .seconds(5), now: Self.zero), .open(ConnectionID(rawValue: 2)))
        expectEqual(machine.failures, 0)
        expectEqual(machine.current, ConnectionID(rawValue: 2))
    }

    @Test func `a check affects neither an attempt nor a connection that has ended`() {
        var machine = self.machine()
        expectEqual(machine.check(timeout: .seconds(5), now: Self.zero), .none)
        _ = machine.start(now: Self.zero)
        expectEqual(machine.check(timeout: .seconds(5), now: Self.zero), .none)
        _ = machine.opened(ConnectionID(rawValue: 1), now: Self.zero)
        expectEqual(machine.check(timeout: .seconds(5), now: Self.zero), .none)
        var (stopped, _) = self.connected()
        _ = stopped.stop(now: Self.zero)
        expectEqual(stopped.check(timeout: .seconds(5), now: Self.zero), .none)
        expect(stopped.timeout(now: self.after(5)) != .none)
        expectEqual(stopped.check(timeout: .seconds(5), now: self.after(6)), .none)
    }

    @Test func `a restart replaces the connection in every state in which one is maintained`() {
        let (first, second) = (ConnectionID(rawValue: 1), ConnectionID(rawValue: 2))
        var opening = self.machine()
        _ = opening.start(now: Self.zero)
        expectEqual(opening.restart(now: Self.zero), .replace(first, by: second, sendsClose: false))
        expect(opening.opened(first, now: Self.zero) == .none && opening.opened(second, now: Self.zero) == .beginHandshake)
        expectEqual(opening.restart(now: Self.zero), .replace(second, by: ConnectionID(rawValue: 3), sendsClose: true))
        var (connected, _) = self.connected()
        expectEqual(connected.restart(now: Self.zero), .replace(first, by: second, sendsClose: true))
        expectEqual(connected.closed(first, .heartbeatTimeout, .immediately, now: Self.zero), .none)
        expectEqual(connected.current, second)
        var waiting = self.machine()
        _ = waiting.start(now: Self.zero)
        _ = waiting.closed(first, .openTimeout, .afterBackoff(), now: Self.zero)
        expect(waiting.restart(now: Self.zero) == .open(second) && waiting.failures == 0)
        var deciding = self.machine()
        _ = deciding.start(now: Self.zero)
        _ = deciding.closed(first, .openTimeout, .ask, now: Self.zero)
        expectEqual(deciding.restart(now: Self.zero), .open(second))
        expectNil(deciding.decided(first, .never, now: Self.zero))
    }

    @Test func `a restart doesn't start what isn't to be connected`() {
        var idle = self.machine()
        expect(idle.restart(now: Self.zero) == .none && idle.current == nil)
        var (stopped, _) = self.connected()
        _ = stopped.stop(now: Self.zero)
        expectEqual(stopped.restart(now: Self.zero), .none)
        _ = stopped.timeout(now: self.after(5))
        expectEqual(stopped.restart(now: self.after(6)), .none)
    }

    @Test func `only three reconnects in a row are immediate`() throws {
        var machine = self.machine()
        _ = machine.start(now: Self.zero)
        for attempt in 1...3 {
            let id = ConnectionID(rawValue: UInt64(attempt))
            expectEqual(
                machine.closed(id, .heartbeatTimeout, .immediately, now: Self.zero),
                .lost(then: .reconnect(ConnectionID(rawValue: UInt64(attempt + 1)))))
        }
        let action = machine.closed(ConnectionID(rawValue: 4), .heartbeatTimeout, .immediately, now: Self.zero)
        try expectEqual(action, .lost(then: .later(until: #require(machine.nextDeadline))))
    }

    @Test func `the failure count is reset only after a stable connection`() throws {
        for (duration, isReset) in [(29, false), (30, true)] {
            var (machine, id) = self.connected { $0.maximumImmediateReconnects = 1 }
            _ = machine.closed(id, .heartbeatTimeout, .immediately, now: Self.zero)
            let second = ConnectionID(rawValue: 2)
            _ = machine.opened(second, now: Self.zero)
            _ = machine.ready(second, Self.heartbeat, now: Self.zero)
            let action = machine.closed(second, .heartbeatTimeout, .immediately, now: self.after(duration))
            let deadline = try #require(machine.nextDeadline)
            expectEqual(action, .lost(then: isReset ? .reconnect(ConnectionID(rawValue: 3)) : .later(until: deadline)))
        }
    }

    @Test func `the protocol can forbid reconnecting`() {
        var (machine, id) = self.connected()
        let reason = CloseReason.peer(CloseCode(rawValue: 4001), "unknown application")
        expectEqual(machine.closed(id, reason, .never, now: Self.zero), .lost(then: .never))
        expectNil(machine.nextDeadline)
        expectEqual(machine.start(now: Self.zero), .open(ConnectionID(rawValue: 2)))
    }

    @Test func `the protocol can decide never to reconnect after a timeout`() {
        var (machine, id) = self.connected()
        _ = machine.timeout(now: self.after(120))
        guard case .end(id, let reason) = machine.timeout(now: self.after(150)) else { return expect(false, "it should end") }
        expectEqual(machine.closed(id, reason, .never, now: self.after(150)), .lost(then: .never))
        expectNil(machine.nextDeadline)
    }

    @Test func `the protocol can choose the exact delay before the next attempt`() {
        var machine = self.machine()
        _ = machine.start(now: Self.zero)
        for (attempt, delay) in [(1, Duration.seconds(7)), (2, .zero), (3, .seconds(-1)), (4, .seconds(Int64.max))] {
            let now = machine.nextDeadline!
            expectEqual(machine.failures, attempt - 1)
            let id = ConnectionID(rawValue: UInt64(attempt))
            guard case .lost(then: .later(let until)) = machine.closed(id, .openTimeout, .after(delay), now: now) else {
                return expect(false, "it should wait")
            }
            expectEqual(until, now.advanced(by: max(.nanoseconds(1), delay)))
            expectEqual(machine.nextDeadline, until)
            _ = machine.timeout(now: until)
        }
    }

    @Test func `failures are counted until a connection is stable`() {
        var (machine, id) = self.connected()
        for failures in 1...3 {
            _ = machine.closed(id, .heartbeatTimeout, .afterBackoff(), now: Self.zero)
            expectEqual(machine.failures, failures)
            guard case .open(let next) = machine.timeout(now: machine.nextDeadline!) else { return expect(false) }
            id = next
        }
        _ = machine.opened(id, now: Self.zero)
        _ = machine.ready(id, Self.heartbeat, now: self.after(100))
        _ = machine.closed(id, .heartbeatTimeout, .afterBackoff(), now: self.after(130))
        expectEqual(machine.failures, 1)
    }

    @Test(arguments: [ReconnectDecision.never, .immediately, .after(.seconds(3)), .afterBackoff(), .ask])
    func `a decision that the protocol asks for is followed when it is made`(decision: ReconnectDecision) throws {
        var (machine, id) = self.connected()
        let reason = CloseReason.peer(.goingAway, "bye")
        expectEqual(machine.closed(id, reason, .ask, now: Self.zero), .lost(then: .undecided(id)))
        expect(machine.current == nil && machine.nextDeadline == self.after(30))
        let stale = machine.decided(ConnectionID(rawValue: 9), decision, now: self.after(1))
        expectNil(stale)
        let decided = machine.decided(id, decision, now: self.after(1))
        let result = try #require(decided)
        expectEqual(result.reason, reason)
        switch decision {
        case .never: expectEqual(result.next, .never)
        case .immediately: expectEqual(result.next, .reconnect(ConnectionID(rawValue: 2)))
        case .after: expectEqual(result.next, .later(until: self.after(4)))
        default: try expectEqual(result.next, .later(until: #require(machine.nextDeadline)))
        }
        let again = machine.decided(id, decision, now: self.after(2))
        expectNil(again)
    }

    @Test func `an overdue decision is asked for again by the timeout`() {
        var (machine, id) = self.connected()
        _ = machine.closed(id, .heartbeatTimeout, .ask, now: Self.zero)
        expectEqual(machine.timeout(now: self.after(29)), .none)
        expectEqual(machine.timeout(now: self.after(30)), .decide(id))
    }

    @Test func `without a time limit, a decision is awaited`() {
        var (machine, id) = self.connected { $0.decisionTimeout = nil }
        _ = machine.closed(id, .heartbeatTimeout, .ask, now: Self.zero)
        expect(machine.nextDeadline == nil && machine.timeout(now: self.after(100_000)) == .none)
        let next = machine.decided(id, .after(.seconds(3)), now: self.after(100_000))?.next
        expectEqual(next, .later(until: self.after(100_003)))
    }

    @Test func `starting and stopping end the wait for a decision`() {
        for stops in [true, false] {
            var (machine, id) = self.connected()
            _ = machine.closed(id, .heartbeatTimeout, .ask, now: Self.zero)
            if stops {
                expectEqual(machine.stop(now: Self.zero), .finish)
                expectNil(machine.nextDeadline)
            } else {
                expectEqual(machine.start(now: Self.zero), .open(ConnectionID(rawValue: 2)))
            }
            let late = machine.decided(id, .immediately, now: Self.zero)
            expectNil(late)
        }
    }

    @Test func `an attempt continues on another connection without counting a failure`() {
        var machine = self.machine()
        _ = machine.start(now: Self.zero)
        expectEqual(
            machine.closed(ConnectionID(rawValue: 1), .openTimeout, .reopen, now: self.after(10)), .reopen(ConnectionID(rawValue: 2)))
        expectEqual(machine.nextDeadline, self.after(25))
        expectEqual(machine.opened(ConnectionID(rawValue: 2), now: Self.zero), .beginHandshake)
        expectEqual(machine.reopen(now: self.after(20)), ConnectionID(rawValue: 3))
        expectEqual(machine.nextDeadline, self.after(35))
        expectEqual(machine.opened(ConnectionID(rawValue: 2), now: Self.zero), .none)
        expectEqual(machine.failures, 0)
    }

    @Test func `an established connection has no attempt to continue`() {
        var (machine, id) = self.connected { $0.maximumImmediateReconnects = 1 }
        expectNil(machine.reopen(now: Self.zero))
        expectEqual(machine.closed(id, .heartbeatTimeout, .reopen, now: Self.zero), .lost(then: .reconnect(ConnectionID(rawValue: 2))))
    }

    @Test func `an established connection can be replaced and keeps its heartbeat`() {
        var (machine, old) = self.connected()
        let new = machine.additionalConnection()
        expectEqual(new, ConnectionID(rawValue: 2))
        expectEqual(machine.received(new, now: self.after(5)), false)
        expectEqual(machine.replace(new, by: old, now: Self.zero), false)
        expectEqual(machine.replace(old, by: new, now: self.after(5)), true)
        expect(machine.connected == new && machine.nextDeadline == self.after(120))
        expectEqual(machine.closed(old, .heartbeatTimeout, .never, now: self.after(6)), .none)
        expectEqual(machine.received(new, now: self.after(7)), true)
    }

    @Test func `the heartbeat of a connection that replaces one whose reading is paused goes on`() {
        var (machine, old) = self.connected()
        machine.reading(old, paused: true, now: Self.zero)
        expect(machine.nextDeadline != self.after(120))
        let new = machine.additionalConnection()
        // The pause may have lasted longer than the limit for silence.
        expectEqual(machine.replace(old, by: new, now: self.after(1_000)), true)
        // The owner resumes reading of the old connection later.
        machine.reading(old, paused: false, now: self.after(1_005))
        expectEqual(machine.nextDeadline, self.after(1_120))
    }

    @Test func `a backoff lasts at least the minimum delay`() {
        for seed in 0..<200 as Range<UInt64> {
            var machine = ConnectionStateMachine(generator: SplitMix64(seed: seed))
            _ = machine.start(now: Self.zero)
            _ = machine.closed(ConnectionID(rawValue: 1), .openTimeout, .afterBackoff(atLeast: .seconds(1)), now: Self.zero)
            expect(machine.nextDeadline! >= self.after(1))
        }
    }

    @Test func `stopping takes effect immediately in every state`() {
        var idle = self.machine()
        expectEqual(idle.stop(now: Self.zero), .finish)

        var opening = self.machine()
        _ = opening.start(now: Self.zero)
        expectEqual(opening.stop(now: Self.zero), .finishAndAbandon(ConnectionID(rawValue: 1)))
        expectNil(opening.nextDeadline)

        var handshaking = self.machine()
        _ = handshaking.start(now: Self.zero)
        _ = handshaking.opened(ConnectionID(rawValue: 1), now: Self.zero)
        expectEqual(handshaking.stop(now: Self.zero), .finishAndClose(ConnectionID(rawValue: 1)))

        var (connected, id) = self.connected()
        expectEqual(connected.stop(now: Self.zero), .finishAndClose(id))
        expectEqual(connected.stop(now: Self.zero), .none)

        var waiting = self.machine()
        _ = waiting.start(now: Self.zero)
        _ = waiting.closed(ConnectionID(rawValue: 1), .openTimeout, .afterBackoff(), now: Self.zero)
        expectEqual(waiting.stop(now: Self.zero), .finish)
        expectNil(waiting.nextDeadline)
    }

    @Test func `a connection whose peer does not respond to a close is abandoned`() {
        var (machine, id) = self.connected()
        _ = machine.stop(now: Self.zero)
        expectEqual(machine.nextDeadline, self.after(5))
        expectEqual(machine.timeout(now: self.after(5)), .abandonClosing(id))
        expectNil(machine.nextDeadline)
    }

    @Test func `messages are ignored after stopping`() {
        var (machine, id) = self.connected()
        _ = machine.stop(now: Self.zero)
        expectEqual(machine.received(id, now: Self.zero), false)
    }

    @Test func `a connection that was stopped closes beside the next one`() {
        var (machine, id) = self.connected()
        _ = machine.stop(now: Self.zero)
        let second = ConnectionID(rawValue: 2)
        expectEqual(machine.start(now: self.after(1)), .open(second))
        expect(machine.current == second && machine.nextDeadline == self.after(5))
        expect(machine.hasLeft(second) == false && machine.hasLeft(id) == true)
        expect(machine.hasLeft(id) == false && machine.nextDeadline != self.after(5))
        expectEqual(machine.closed(id, .requested, .afterBackoff(), now: self.after(2)), .none)
        expectEqual(machine.current, second)
    }

    @Test func `a connection that doesn't leave in time is abandoned, and the next one is not affected`() {
        var (machine, id) = self.connected()
        _ = machine.stop(now: Self.zero)
        _ = machine.start(now: self.after(1))
        expectNil(machine.leavingTimeout(now: self.after(4)))
        expectEqual(machine.leavingTimeout(now: self.after(5)), id)
        expect(machine.leavingTimeout(now: self.after(6)) == nil && machine.timeout(now: self.after(6)) == .none)
        expectEqual(machine.current, ConnectionID(rawValue: 2))
    }

    @Test func `one connection leaves at a time`() {
        var (machine, id) = self.connected()
        _ = machine.stop(now: Self.zero)
        let second = ConnectionID(rawValue: 2)
        _ = machine.start(now: Self.zero)
        _ = machine.opened(second, now: Self.zero)
        expectEqual(machine.stop(now: self.after(1)), .finishAndClose(second))
        expectEqual(machine.start(now: self.after(2)), .open(ConnectionID(rawValue: 3), abandoning: id))
        expect(machine.hasLeft(id) == false && machine.hasLeft(second) == true)
    }

    @Test func `starting while backing off connects immediately`() {
        var machine = self.machine()
        _ = machine.start(now: Self.zero)
        _ = machine.closed(ConnectionID(rawValue: 1), .openTimeout, .afterBackoff(atLeast: .seconds(1)), now: Self.zero)
        expectEqual(machine.start(now: Self.zero), .open(ConnectionID(rawValue: 2)))
    }
}

@Suite struct BackoffTests {
    @Test func `the upper bound of delays doubles up to the cap`() {
        let backoff = Backoff(base: .seconds(1), cap: .seconds(60))
        var generator = SplitMix64(seed: 42)
        for (failures, ceiling) in [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (8, 60), (1_000_000, 60)] {
            let delays = (0..<500).map { _ in backoff.delay(failures: failures, minimum: .zero, using: &generator) }
            expect(delays.allSatisfy { $0 > .zero && $0 <= .seconds(ceiling) })
            expect(delays.min()! < .seconds(ceiling) * 0.1)
            expect(delays.max()! > .seconds(ceiling) * 0.9)
        }
    }

    @Test(arguments: [
        (Duration.seconds(Int64.max), Duration.seconds(Int64.max)), (.seconds(Int64.max), .seconds(60)), (.seconds(1), .seconds(Int64.max)),
        (.seconds(Int64.min), .seconds(Int64.min)), (.zero, .zero), (.seconds(-1), .seconds(60)), (.seconds(60), .seconds(-1)),
    ])
    func `delays are valid for extreme settings`(base: Duration, cap: Duration) {
        var generator = SplitMix64(seed: 1)
        for failures in [0, 1, 2, 17, Int.max] {
            for minimum in [Duration.zero, .seconds(1), .seconds(Int64.max), .seconds(Int64.min)] {
                let delay = Backoff(base: base, cap: cap).delay(failures: failures, minimum: minimum, using: &generator)
                expect(delay > .zero && delay >= .nanoseconds(minimum.nanoseconds))
                expect(delay <= max(cap, minimum, .nanoseconds(1)))
            }
        }
    }

    @Test func `the same seed yields the same delays`() {
        var (first, second) = (SplitMix64(seed: 7), SplitMix64(seed: 7))
        for failures in 1...20 {
            expectEqual(
                Backoff().delay(failures: failures, minimum: .zero, using: &first),
                Backoff().delay(failures: failures, minimum: .zero, using: &second))
        }
    }

    @Test func `durations that overflow saturate`() {
        expectEqual(Duration.seconds(Int64.max).nanoseconds, .max)
        expectEqual(Instant(nanoseconds: 5).advanced(by: .seconds(Int64.max)), Instant(nanoseconds: .max))
    }
}
