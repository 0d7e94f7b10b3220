import RealtimeCore
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
    private func connected(_ change: (inout ConnectionPolicy) -> Void = { _ in }) -> (ConnectionStateMachine, ConnectionID) {
        var machine = self.machine(change)
        let id = ConnectionID(rawValue: 1)
        #expect(machine.start(now: Self.zero) == .open(id))
        #expect(machine.opened(id) == .beginHandshake)
        #expect(machine.ready(id, Self.heartbeat, now: Self.zero) == .announceConnected)
        return (machine, id)
    }

    @Test func `an idle machine has no deadline`() {
        var machine = self.machine()
        #expect(machine.nextDeadline == nil)
        #expect(machine.timeout(now: self.after(1000)) == .none)
        #expect(machine.current == nil)
    }

    @Test func `starting a second time has no effect`() {
        var machine = self.machine()
        #expect(machine.start(now: Self.zero) == .open(ConnectionID(rawValue: 1)))
        #expect(machine.start(now: Self.zero) == .none)
    }

    @Test func `the open timeout covers connecting and the handshake`() {
        var machine = self.machine()
        let id = ConnectionID(rawValue: 1)
        _ = machine.start(now: Self.zero)
        #expect(machine.nextDeadline == self.after(15))
        #expect(machine.opened(id) == .beginHandshake)
        #expect(machine.nextDeadline == self.after(15))
        let action = machine.timeout(now: self.after(15))
        guard case .backingOff(let until) = machine.state else { return #expect(Bool(false), "it should back off") }
        #expect(action == .abandon(id, .openTimeout, then: .later(until: until)))
    }

    @Test(arguments: [Duration.zero, .seconds(-1), .seconds(Int64.min)])
    func `an open timeout that is not positive ends the attempt after it has started`(limit: Duration) throws {
        var machine = self.machine { $0.openTimeout = limit }
        _ = machine.start(now: Self.zero)
        let deadline = try #require(machine.nextDeadline)
        #expect(deadline > Self.zero && deadline < self.after(1))
        let action = machine.timeout(now: deadline)
        let next = try #require(machine.nextDeadline)
        #expect(action == .abandon(ConnectionID(rawValue: 1), .openTimeout, then: .later(until: next)))
        #expect(machine.timeout(now: next) == .open(ConnectionID(rawValue: 2)))
        #expect(try #require(machine.nextDeadline) > next)
    }

    @Test func `events from another attempt are ignored`() {
        var (machine, id) = self.connected()
        let stale = ConnectionID(rawValue: 7)
        #expect(machine.opened(stale) == .none)
        #expect(machine.ready(stale, Self.heartbeat, now: Self.zero) == .none)
        #expect(machine.received(stale, now: self.after(100)) == false)
        #expect(machine.closed(stale, .openTimeout, .immediately, now: Self.zero) == .none)
        #expect(machine.connected == id)
        #expect(machine.nextDeadline == self.after(120))
    }

    @Test func `an inactive connection is pinged and then abandoned`() {
        var (machine, id) = self.connected()
        #expect(machine.nextDeadline == self.after(120))
        #expect(machine.timeout(now: self.after(120)) == .sendPing(id))
        #expect(machine.nextDeadline == self.after(150))
        guard case .abandon(id, .heartbeatTimeout, then: .later) = machine.timeout(now: self.after(150)) else {
            return #expect(Bool(false), "it should be abandoned")
        }
    }

    @Test func `any message counts as a reply to a ping`() {
        var (machine, id) = self.connected()
        _ = machine.timeout(now: self.after(120))
        let isCurrent = machine.received(id, now: self.after(130))
        #expect(isCurrent)
        #expect(machine.nextDeadline == self.after(250))
    }

    @Test func `the heartbeat is suspended while reading is paused`() {
        var (machine, id) = self.connected()
        machine.reading(id, paused: true, now: self.after(10))
        #expect(machine.nextDeadline == nil)
        machine.reading(id, paused: false, now: self.after(1000))
        #expect(machine.nextDeadline == self.after(1120))
    }

    @Test func `a probe has its own timeout`() {
        var (machine, id) = self.connected()
        #expect(machine.probe(timeout: .seconds(5), now: self.after(10)) == .sendPing(id))
        #expect(machine.nextDeadline == self.after(15))
        guard case .abandon(id, .heartbeatTimeout, then: .later) = machine.timeout(now: self.after(15)) else {
            return #expect(Bool(false), "it should be abandoned")
        }
    }

    @Test func `only three reconnects in a row are immediate`() throws {
        var machine = self.machine()
        _ = machine.start(now: Self.zero)
        for attempt in 1...3 {
            let id = ConnectionID(rawValue: UInt64(attempt))
            #expect(
                machine.closed(id, .heartbeatTimeout, .immediately, now: Self.zero)
                    == .lost(then: .reconnect(ConnectionID(rawValue: UInt64(attempt + 1)))))
        }
        let action = machine.closed(ConnectionID(rawValue: 4), .heartbeatTimeout, .immediately, now: Self.zero)
        #expect(try action == .lost(then: .later(until: #require(machine.nextDeadline))))
    }

    @Test func `the failure count is reset only after a stable connection`() throws {
        for (duration, isReset) in [(29, false), (30, true)] {
            var (machine, id) = self.connected { $0.maximumImmediateReconnects = 1 }
            _ = machine.closed(id, .heartbeatTimeout, .immediately, now: Self.zero)
            let second = ConnectionID(rawValue: 2)
            _ = machine.opened(second)
            _ = machine.ready(second, Self.heartbeat, now: Self.zero)
            let action = machine.closed(second, .heartbeatTimeout, .immediately, now: self.after(duration))
            let deadline = try #require(machine.nextDeadline)
            #expect(action == .lost(then: isReset ? .reconnect(ConnectionID(rawValue: 3)) : .later(until: deadline)))
        }
    }

    @Test func `the protocol can forbid reconnecting`() {
        var (machine, id) = self.connected()
        let reason = CloseReason.peer(CloseCode(rawValue: 4001), "unknown application")
        #expect(machine.closed(id, reason, .never, now: Self.zero) == .lost(then: .never))
        #expect(machine.nextDeadline == nil)
        #expect(machine.start(now: Self.zero) == .open(ConnectionID(rawValue: 2)))
    }

    @Test func `a backoff lasts at least the minimum delay`() {
        for seed in 0..<200 as Range<UInt64> {
            var machine = ConnectionStateMachine(generator: SplitMix64(seed: seed))
            _ = machine.start(now: Self.zero)
            _ = machine.closed(ConnectionID(rawValue: 1), .openTimeout, .afterBackoff(atLeast: .seconds(1)), now: Self.zero)
            #expect(machine.nextDeadline! >= self.after(1))
        }
    }

    @Test func `stopping takes effect immediately in every state`() {
        var idle = self.machine()
        #expect(idle.stop(now: Self.zero) == .finish)

        var opening = self.machine()
        _ = opening.start(now: Self.zero)
        #expect(opening.stop(now: Self.zero) == .finishAndAbandon(ConnectionID(rawValue: 1)))
        #expect(opening.nextDeadline == nil)

        var handshaking = self.machine()
        _ = handshaking.start(now: Self.zero)
        _ = handshaking.opened(ConnectionID(rawValue: 1))
        #expect(handshaking.stop(now: Self.zero) == .finishAndClose(ConnectionID(rawValue: 1)))

        var (connected, id) = self.connected()
        #expect(connected.stop(now: Self.zero) == .finishAndClose(id))
        #expect(connected.stop(now: Self.zero) == .none)

        var waiting = self.machine()
        _ = waiting.start(now: Self.zero)
        _ = waiting.closed(ConnectionID(rawValue: 1), .openTimeout, .afterBackoff(), now: Self.zero)
        #expect(waiting.stop(now: Self.zero) == .finish)
        #expect(waiting.nextDeadline == nil)
    }

    @Test func `a connection whose peer does not respond to a close is abandoned`() {
        var (machine, id) = self.connected()
        _ = machine.stop(now: Self.zero)
        #expect(machine.nextDeadline == self.after(5))
        #expect(machine.timeout(now: self.after(5)) == .abandonClosing(id))
        #expect(machine.nextDeadline == nil)
    }

    @Test func `messages are ignored after stopping`() {
        var (machine, id) = self.connected()
        _ = machine.stop(now: Self.zero)
        #expect(machine.received(id, now: Self.zero) == false)
    }

    @Test func `starting while the old connection is closing replaces it`() {
        var (machine, id) = self.connected()
        _ = machine.stop(now: Self.zero)
        #expect(machine.start(now: self.after(1)) == .replace(id, by: ConnectionID(rawValue: 2)))
        #expect(machine.closed(id, .requested, .afterBackoff(), now: self.after(2)) == .none)
        #expect(machine.current == ConnectionID(rawValue: 2))
    }

    @Test func `starting while backing off connects immediately`() {
        var machine = self.machine()
        _ = machine.start(now: Self.zero)
        _ = machine.closed(ConnectionID(rawValue: 1), .openTimeout, .afterBackoff(atLeast: .seconds(1)), now: Self.zero)
        #expect(machine.start(now: Self.zero) == .open(ConnectionID(rawValue: 2)))
    }
}

@Suite struct BackoffTests {
    @Test func `the upper bound of delays doubles up to the cap`() {
        let backoff = Backoff(base: .seconds(1), cap: .seconds(60))
        var generator = SplitMix64(seed: 42)
        for (failures, ceiling) in [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (8, 60), (1_000_000, 60)] {
            let delays = (0..<500).map { _ in backoff.delay(failures: failures, minimum: .zero, using: &generator) }
            #expect(delays.allSatisfy { $0 > .zero && $0 <= .seconds(ceiling) })
            #expect(delays.min()! < .seconds(ceiling) * 0.1)
            #expect(delays.max()! > .seconds(ceiling) * 0.9)
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
                #expect(delay > .zero && delay >= .nanoseconds(minimum.nanoseconds))
                #expect(delay <= max(cap, minimum, .nanoseconds(1)))
            }
        }
    }

    @Test func `the same seed yields the same delays`() {
        var (first, second) = (SplitMix64(seed: 7), SplitMix64(seed: 7))
        for failures in 1...20 {
            #expect(
                Backoff().delay(failures: failures, minimum: .zero, using: &first)
                    == Backoff().delay(failures: failures, minimum: .zero, using: &second))
        }
    }

    @Test func `durations that overflow saturate`() {
        #expect(Duration.seconds(Int64.max).nanoseconds == .max)
        #expect(Instant(nanoseconds: 5).advanced(by: .seconds(Int64.max)) == Instant(nanoseconds: .max))
    }
}
