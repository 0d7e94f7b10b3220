import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@Suite struct CoalescedTimerTests {
    enum Step: Sendable {
        /// `setDeadline`, and when to schedule the timer.
        case set(Int64?, schedule: Int64?)
        /// `fired` at a time, and its result.
        case fire(at: Int64, CoalescedTimer.Firing)
        /// `cancel`, and whether a timer was pending.
        case cancel(Bool)
    }

    struct Case: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var steps: [Step]
    }

    static let cases = [
        Case(testDescription: "a timer without a deadline is idle", steps: [.set(nil, schedule: nil), .fire(at: 10, .idle)]),
        Case(testDescription: "a deadline is due once", steps: [.set(10, schedule: 10), .fire(at: 10, .due), .fire(at: 11, .idle)]),
        Case(testDescription: "a timer that fires late is due", steps: [.set(10, schedule: 10), .fire(at: 99, .due)]),
        Case(
            testDescription: "a later deadline keeps the pending timer",
            steps: [
                .set(10, schedule: 10), .set(20, schedule: nil), .set(30, schedule: nil),
                .fire(at: 10, .early(reschedule: Instant(nanoseconds: 30))), .fire(at: 30, .due),
            ]),
        Case(
            testDescription: "the same deadline keeps the pending timer",
            steps: [.set(10, schedule: 10), .set(10, schedule: nil), .fire(at: 10, .due)]),
        Case(
            testDescription: "an earlier deadline reschedules the timer",
            steps: [.set(20, schedule: 20), .set(10, schedule: 10), .fire(at: 10, .due)]),
        Case(
            testDescription: "a cleared deadline keeps the pending timer, which covers the next deadline",
            steps: [.set(10, schedule: 10), .set(nil, schedule: nil), .set(15, schedule: nil), .set(5, schedule: 5), .fire(at: 5, .due)]),
        Case(
            testDescription: "a cleared deadline is not due",
            steps: [.set(10, schedule: 10), .set(nil, schedule: nil), .fire(at: 10, .idle), .set(12, schedule: 12)]),
        Case(
            testDescription: "a rescheduled timer is pending",
            steps: [
                .set(10, schedule: 10), .set(20, schedule: nil), .fire(at: 10, .early(reschedule: Instant(nanoseconds: 20))),
                .set(25, schedule: nil), .set(15, schedule: 15),
            ]),
        Case(
            testDescription: "after it was due, the next deadline needs a timer",
            steps: [.set(10, schedule: 10), .fire(at: 10, .due), .set(10, schedule: 10), .fire(at: 10, .due)]),
        Case(
            testDescription: "cancelling forgets the deadline and the pending timer",
            steps: [.cancel(false), .set(10, schedule: 10), .cancel(true), .cancel(false), .set(20, schedule: 20), .fire(at: 20, .due)]),
        Case(
            testDescription: "cancelling reports a pending timer without a deadline",
            steps: [.set(10, schedule: 10), .set(nil, schedule: nil), .cancel(true), .fire(at: 10, .idle)]),
        Case(
            testDescription: "a deadline that is never reached needs no timer",
            steps: [.set(.max, schedule: nil), .cancel(false), .fire(at: 10, .idle)]),
    ]

    @Test(arguments: cases)
    func `each call to the timer has the expected result`(test: Case) {
        var timer = CoalescedTimer()
        var hasDeadline = false
        for (index, step) in test.steps.enumerated() {
            let comment = Comment(rawValue: "step \(index)")
            switch step {
            case .set(let deadline, let schedule):
                #expect(timer.setDeadline(deadline.map { Instant(nanoseconds: $0) })?.nanoseconds == schedule, comment)
                hasDeadline = deadline != nil && deadline != .max
            case .fire(let now, let firing):
                #expect(timer.fired(now: Instant(nanoseconds: now)) == firing, comment)
                if firing == .due { hasDeadline = false }
            case .cancel(let wasPending):
                #expect(timer.cancel() == wasPending, comment)
                hasDeadline = false
            }
            #expect(timer.isSet == hasDeadline, comment)
        }
    }

    @Test func `random deadlines are due exactly when they have passed`() {
        var generator = SplitMix64(seed: 5)
        var timer = CoalescedTimer()
        var (now, deadline, scheduled) = (Int64(0), Int64?.none, Int64?.none)
        for _ in 0..<10_000 {
            if Bool.random(using: &generator) {
                deadline = Int.random(in: 0..<4, using: &generator) == 0 ? nil : now + Int64.random(in: 0..<50, using: &generator)
                if let instant = timer.setDeadline(deadline.map { Instant(nanoseconds: $0) }) { scheduled = instant.nanoseconds }
                // A pending timer never misses a deadline.
                if let deadline { expectEqual(scheduled.map { $0 <= deadline }, true) }
            } else {
                now += Int64.random(in: 0..<20, using: &generator)
                guard let due = scheduled, due <= now else { continue }
                scheduled = nil
                switch timer.fired(now: Instant(nanoseconds: now)) {
                case .idle: expectNil(deadline)
                case .early(let instant):
                    expect(instant.nanoseconds == deadline && instant.nanoseconds > now)
                    scheduled = instant.nanoseconds
                case .due:
                    expectEqual(deadline.map { $0 <= now }, true)
                    deadline = nil
                }
            }
        }
    }
}

@Suite struct ManualClockTests {
    private final class FiringRecorder: TimerClient {
        let firings: EventRecorder<Duration>
        let clock: ManualClock
        init(_ firings: EventRecorder<Duration>, _ clock: ManualClock) { (self.firings, self.clock) = (firings, clock) }
        func timerFired() { self.firings.record(self.clock.elapsed) }
    }

    @Test func `advancing fires every timer at its own time`() {
        let (clock, firings) = (ManualClock(), EventRecorder<Duration>())
        let clients = [3, 1, 2].map { seconds -> FiringRecorder in
            let client = FiringRecorder(firings, clock)
            clock.time.schedule(client, at: Instant(nanoseconds: 0).advanced(by: .seconds(seconds)))
            return client
        }
        clock.advance(by: .seconds(10))
        expectEqual(firings.all, [.seconds(1), .seconds(2), .seconds(3)])
        expect(clients.count == 3 && clock.elapsed == .seconds(10))
    }

    @Test func `advancing to the next deadline fires only what is due then`() {
        let (clock, firings) = (ManualClock(), EventRecorder<Duration>())
        let clients = [1, 2].map { seconds -> FiringRecorder in
            let client = FiringRecorder(firings, clock)
            clock.time.schedule(client, at: Instant(nanoseconds: 0).advanced(by: .seconds(seconds)))
            return client
        }
        expect(clock.advanceToNextDeadline())
        expect(firings.all == [.seconds(1)] && clock.elapsed == .seconds(1) && clock.untilNextDeadline == .seconds(1))
        clock.time.schedule(clients[1], at: nil)
        expect(!clock.advanceToNextDeadline() && clock.elapsed == .seconds(1))
    }

    @Test func `the timer of a deallocated client does not fire`() {
        let (clock, firings) = (ManualClock(), EventRecorder<Duration>())
        clock.time.schedule(FiringRecorder(firings, clock), at: Instant(nanoseconds: 5))
        clock.advance(by: .seconds(1))
        expect(firings.all.isEmpty)
    }
}
