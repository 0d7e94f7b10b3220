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
}
