import RealtimeCore
import TestSupport
import Testing

@Suite struct HeartbeatTests {
    private static func policy(countsPingsOnly: Bool) -> HeartbeatPolicy {
        var policy = HeartbeatPolicy(pingAfterNotSending: .seconds(10))
        policy.countsPingsOnly = countsPingsOnly
        return policy
    }

    @Test func `a sent message delays the next ping`() {
        let start = Instant(nanoseconds: 0)
        var heartbeat = Heartbeat(Self.policy(countsPingsOnly: false), now: start)
        heartbeat.sent(now: start.advanced(by: .seconds(6)))
        expectEqual(heartbeat.nextDeadline, start.advanced(by: .seconds(16)))
        expectEqual(heartbeat.timeout(now: start.advanced(by: .seconds(10))), .none)
        expectEqual(heartbeat.timeout(now: start.advanced(by: .seconds(16))), .sendPing)
    }

    @Test func `pings are sent at intervals, if only they count as sent messages`() {
        let start = Instant(nanoseconds: 0)
        var heartbeat = Heartbeat(Self.policy(countsPingsOnly: true), now: start)
        heartbeat.sent(now: start.advanced(by: .seconds(6)))
        expectEqual(heartbeat.timeout(now: start.advanced(by: .seconds(10))), .sendPing)
        heartbeat.sent(now: start.advanced(by: .seconds(19)))
        expectEqual(heartbeat.nextDeadline, start.advanced(by: .seconds(20)))
        expectEqual(heartbeat.timeout(now: start.advanced(by: .seconds(20))), .sendPing)
    }

    /// With Primus 6, where the answer to each ping arrives a little after it.
    @Test func `a probe that is due soon after a ping takes its place`() {
        let start = Instant(nanoseconds: 0)
        let policy = HeartbeatPolicy(
            probeAfterSilence: .seconds(25), deadAfterSilence: .seconds(35), pingAfterNotSending: .seconds(25))
        var heartbeat = Heartbeat(policy, now: start)
        for number in 1...4 {
            let now = start.advanced(by: .seconds(25 * number))
            expectEqual(heartbeat.nextDeadline, now)
            expectEqual(heartbeat.timeout(now: now), .sendProbe)
            expectEqual(heartbeat.timeout(now: now.advanced(by: .milliseconds(3999))), .none)
            heartbeat.received(now: now.advanced(by: .milliseconds(4)))
        }
        // One that is due later doesn't.
        heartbeat.received(now: start.advanced(by: .seconds(110)))
        expectEqual(heartbeat.timeout(now: start.advanced(by: .seconds(125))), .sendPing)
    }

    @Test func `the bytes of a large message are a sign of life, and a byte now and then isn't`() {
        let start = Instant(nanoseconds: 0)
        func at(_ milliseconds: Int) -> Instant { start.advanced(by: .milliseconds(milliseconds)) }
        let policy = HeartbeatPolicy(deadAfterSilence: .seconds(20))
        var large = Heartbeat(policy, now: start)
        for second in 1...100 {
            large.receivedPart(byteCount: 1024, now: at(1000 * second))
            expectEqual(large.nextDeadline, at(1000 * second + 20_000))
        }
        // However the bytes are distributed.
        large.receivedPart(byteCount: 1024, now: at(103_000))
        expectEqual(large.nextDeadline, at(120_000))
        large.receivedPart(byteCount: 2048, now: at(103_000))
        expectEqual(large.nextDeadline, at(123_000))
        var trickling = Heartbeat(policy, now: start)
        for step in 1...40 { trickling.receivedPart(byteCount: 100, now: at(500 * step)) }
        expectEqual(trickling.timeout(now: at(20_000)), .declareDead)
        // Nothing of a message counts for the time after it.
        var complete = Heartbeat(policy, now: start)
        complete.receivedPart(byteCount: 1 << 20, now: start)
        complete.received(now: at(1_000))
        complete.receivedPart(byteCount: 1, now: at(11_000))
        expectEqual(complete.nextDeadline, at(21_000))
    }

    @Test func `a suspended heartbeat neither sends nor expects anything, and begins anew afterwards`() {
        let start = Instant(nanoseconds: 0)
        let policy = HeartbeatPolicy(
            probeAfterSilence: .seconds(5), deadAfterSilence: .seconds(20), pingAfterNotSending: .seconds(10))
        var heartbeat = Heartbeat(policy, now: start)
        heartbeat.suspend(true, now: start.advanced(by: .seconds(4)))
        expectNil(heartbeat.nextDeadline)
        let late = start.advanced(by: .seconds(100))
        expectEqual(heartbeat.probe(timeout: .seconds(1), now: late), .none)
        expectEqual(heartbeat.timeout(now: late), .none)
        heartbeat.suspend(false, now: late)
        expectEqual(heartbeat.nextDeadline, late.advanced(by: .seconds(5)))
        expectEqual(heartbeat.timeout(now: late.advanced(by: .seconds(5))), .sendProbe)
        expectEqual(heartbeat.timeout(now: late.advanced(by: .seconds(15))), .sendPing)
        heartbeat.sent(now: late.advanced(by: .seconds(15)))
        expectEqual(heartbeat.timeout(now: late.advanced(by: .seconds(20))), .declareDead)
    }

    @Test func `after a standstill, the peer is probed and has the time for its answer`() {
        let start = Instant(nanoseconds: 0)
        func at(_ seconds: Int) -> Instant { start.advanced(by: .seconds(seconds)) }
        for isProbed in [false, true] {
            var heartbeat = Heartbeat(HeartbeatPolicy(probeAfterSilence: .seconds(120), deadAfterSilence: .seconds(150)), now: start)
            // It is stopped before or after its first probe.
            if isProbed { expectEqual(heartbeat.timeout(now: at(120)), .sendProbe) }
            expectEqual(heartbeat.timeout(now: at(1_000)), .sendProbe)
            expectEqual(heartbeat.nextDeadline, at(1_030))
            expectEqual(heartbeat.timeout(now: at(1_029)), .none)
            var answered = heartbeat
            answered.received(now: at(1_029))
            expectEqual(answered.nextDeadline, at(1_149))
            expectEqual(heartbeat.timeout(now: at(1_030)), .declareDead)
            // A process that often stands still finds a dead peer as well.
            var busy = Heartbeat(HeartbeatPolicy(probeAfterSilence: .seconds(120), deadAfterSilence: .seconds(150)), now: start)
            expectEqual(busy.timeout(now: at(1_000)), .sendProbe)
            expectEqual(busy.timeout(now: at(2_000)), .declareDead)
        }
    }

    @Test func `a peer is probed before it is dead, however late the process is, and has the time for its answer`() {
        let start = Instant(nanoseconds: 0)
        func at(_ milliseconds: Int) -> Instant { start.advanced(by: .milliseconds(milliseconds)) }
        let policy = HeartbeatPolicy(probeAfterSilence: .seconds(10), deadAfterSilence: .milliseconds(10_500))
        // After the limit for death, by less than a second and by more.
        for late in [10_500, 10_700, 10_999, 11_000, 11_499, 11_500, 60_000] {
            var heartbeat = Heartbeat(policy, now: start)
            expectEqual(heartbeat.timeout(now: at(late)), .sendProbe, "\(late)")
            expectEqual(heartbeat.nextDeadline, at(late + 500), "\(late)")
            expectEqual(heartbeat.timeout(now: at(late + 499)), .none, "\(late)")
            var answered = heartbeat
            answered.received(now: at(late + 499))
            expectEqual(answered.nextDeadline, at(late + 10_499), "\(late)")
            expectEqual(heartbeat.timeout(now: at(late + 500)), .declareDead, "\(late)")
        }
        // Before the limit for death, the probe takes nothing of it.
        var heartbeat = Heartbeat(policy, now: start)
        expectEqual(heartbeat.timeout(now: at(10_499)), .sendProbe)
        expectEqual(heartbeat.nextDeadline, at(10_500))
    }

    @Test func `a dead peer is found at its limit, if timers fire in time`() {
        let start = Instant(nanoseconds: 0)
        let pings: [Duration?] = [nil, .milliseconds(7_300)]
        let limits: [(probe: Duration?, dead: Duration)] = [
            (.seconds(10), .milliseconds(10_500)), (.seconds(120), .seconds(150)), (.seconds(25), .seconds(35)), (nil, .seconds(30)),
            // Without time for an answer, nothing is probed.
            (.seconds(20), .seconds(20)), (.seconds(25), .seconds(20)),
        ]
        for limit in limits {
            for ping in pings {
                let policy = HeartbeatPolicy(probeAfterSilence: limit.probe, deadAfterSilence: limit.dead, pingAfterNotSending: ping)
                var heartbeat = Heartbeat(policy, now: start)
                var (now, probes) = (start, 0)
                while let next = heartbeat.nextDeadline {
                    now = max(now, next)
                    let action = heartbeat.timeout(now: now)
                    if action == .declareDead { break }
                    if action == .sendProbe { probes += 1 }
                }
                expectEqual(now, start.advanced(by: limit.dead), "\(policy)")
                expectEqual(probes, limit.probe.map { $0 < limit.dead } == true ? 1 : 0, "\(policy)")
            }
        }
    }

    @Test func `after a standstill, silence is counted from then, if the peer can't be probed`() {
        let start = Instant(nanoseconds: 0)
        func at(_ seconds: Int) -> Instant { start.advanced(by: .seconds(seconds)) }
        let policy = HeartbeatPolicy(deadAfterSilence: .seconds(30), pingAfterNotSending: .seconds(15))
        // The ping was due first. Whether the limit for silence has passed as well makes no difference.
        for woken in [29, 31, 1_000] {
            var heartbeat = Heartbeat(policy, now: start)
            expectEqual(heartbeat.timeout(now: at(woken)), .sendPing)
            expectEqual(heartbeat.nextDeadline, at(woken + 15))
            expectEqual(heartbeat.timeout(now: at(woken + 15)), .sendPing)
            expectEqual(heartbeat.timeout(now: at(woken + 30)), .declareDead)
        }
        // The answer to a check that was under way.
        var checked = Heartbeat(policy, now: start)
        expectEqual(checked.probe(timeout: .seconds(10), now: at(1)), .sendProbe)
        expectEqual(checked.timeout(now: at(500)), .sendPing)
        expectEqual(checked.timeout(now: at(529)), .sendPing)
        expectEqual(checked.timeout(now: at(530)), .declareDead)
    }

    @Test func `answers to pings beside a stream count for four times the limit`() {
        let start = Instant(nanoseconds: 0)
        func at(_ seconds: Int) -> Instant { start.advanced(by: .seconds(seconds)) }
        let policy = HeartbeatPolicy(deadAfterSilence: .seconds(30))
        func deadline(after second: Int = 0, _ begin: (inout Heartbeat) -> Void) -> Instant? {
            var heartbeat = Heartbeat(policy, now: start)
            begin(&heartbeat)
            for second in stride(from: second + 10, through: 600, by: 10) { heartbeat.answered(now: at(second)) }
            return heartbeat.nextDeadline
        }
        expectEqual(deadline { _ in }, at(140))
        expectEqual(deadline { $0.received(now: at(7)) }, at(150))
        var patient = Heartbeat(HeartbeatPolicy(deadAfterSilence: .nanoseconds(Int64.max / 2)), now: start)
        patient.answered(now: at(5))
        expectEqual(patient.timeout(now: at(1_000_000)), .none)
        // What arrived while the process stood still isn't known.
        expectEqual(deadline(after: 200) { _ = $0.timeout(now: at(200)) }, at(340))
    }
}
