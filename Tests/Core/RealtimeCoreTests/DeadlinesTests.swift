import RealtimeCore
import RealtimeTesting
import Testing

@Suite struct DeadlinesTests {
    @Test func `they come in order and those of the same instant by age`() {
        var deadlines = Deadlines<String, Void>()
        for (key, at) in [("c", 30), ("a", 10), ("b", 10), ("d", 20)] { deadlines.set(key, Instant(nanoseconds: Int64(at))) }
        var order: [String] = []
        while let due = deadlines.popDue(Instant(nanoseconds: 30)) { order.append(due.key) }
        #expect(order == ["a", "b", "d", "c"])
        #expect(deadlines.isEmpty)
    }

    @Test func `a replaced or removed deadline never comes`() {
        var deadlines = Deadlines<Int, Void>()
        deadlines.set(1, Instant(nanoseconds: 10))
        deadlines.set(1, Instant(nanoseconds: 50))
        deadlines.set(2, Instant(nanoseconds: 20))
        deadlines.set(2, nil)
        #expect(deadlines.popDue(Instant(nanoseconds: 49)) == nil)
        #expect(deadlines.earliest == Instant(nanoseconds: 50))
        #expect(deadlines.popDue(Instant(nanoseconds: 50))?.key == 1)
    }

    @Test func `thousands of replacements keep the order`() {
        var generator = SplitMix64(seed: 3)
        var deadlines = Deadlines<Int, Void>()
        var expected: [Int: Int64] = [:]
        for _ in 0..<5_000 {
            let (key, at) = (Int.random(in: 0..<100, using: &generator), Int64.random(in: 0..<1_000, using: &generator))
            let isRemoved = Int.random(in: 0..<5, using: &generator) == 0
            deadlines.set(key, isRemoved ? nil : Instant(nanoseconds: at))
            expected[key] = isRemoved ? nil : at
        }
        var last = Int64.min
        while let due = deadlines.popDue(Instant(nanoseconds: 1_000)) {
            #expect(due.instant.nanoseconds >= last)
            #expect(expected.removeValue(forKey: due.key) == due.instant.nanoseconds)
            last = due.instant.nanoseconds
        }
        #expect(expected.isEmpty)
    }

    @Test func `what belongs to a deadline comes with it`() {
        var deadlines = Deadlines<Int, String>()
        deadlines.set(1, Instant(nanoseconds: 10), "old")
        deadlines.set(1, Instant(nanoseconds: 20), "new")
        deadlines.set(2, Instant(nanoseconds: 15), "gone")
        deadlines.remove(2)
        #expect(deadlines.earliest == Instant(nanoseconds: 20))
        #expect(deadlines.popDue(Instant(nanoseconds: 20))?.companion == "new")
        #expect(deadlines.isEmpty && deadlines.earliest == nil)
    }

    private final class Bell: TimerClient {
        let rings: EventRecorder<Duration>
        let clock: ManualClock
        init(_ rings: EventRecorder<Duration>, _ clock: ManualClock) { (self.rings, self.clock) = (rings, clock) }
        func timerFired() { self.rings.record(self.clock.elapsed) }
    }

    @Test func `the manual clock passes through every wake up`() {
        let (clock, rings) = (ManualClock(), EventRecorder<Duration>())
        let bells = [3, 1, 2].map { seconds -> Bell in
            let bell = Bell(rings, clock)
            clock.schedule(bell, at: Instant(nanoseconds: 0).advanced(by: .seconds(seconds)))
            return bell
        }
        clock.advance(by: .seconds(10))
        #expect(rings.all == [.seconds(1), .seconds(2), .seconds(3)])
        #expect(bells.count == 3 && clock.elapsed == .seconds(10))
    }

    @Test func `a sleeper that is gone is not woken`() {
        let (clock, rings) = (ManualClock(), EventRecorder<Duration>())
        clock.schedule(Bell(rings, clock), at: Instant(nanoseconds: 5))
        clock.advance(by: .seconds(1))
        #expect(rings.all.isEmpty)
    }
}
