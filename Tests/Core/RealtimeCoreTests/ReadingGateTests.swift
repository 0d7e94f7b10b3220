import RealtimeSystem
import TestSupport
import Testing

@testable import RealtimeCore

@Suite struct ReadingGateTests {
    private static let (one, two) = (ConnectionID(rawValue: 1), ConnectionID(rawValue: 2))
    private static let (slow, other) = (ConsumerID(rawValue: 8), ConsumerID(rawValue: 9))

    private var gate = ReadingGate()
    private var isReaderWaiting = false

    private func at(_ seconds: Int) -> Instant { Instant(nanoseconds: 0).advanced(by: .seconds(seconds)) }

    private mutating func deliver(
        on id: ConnectionID? = Self.one, full: [ConsumerID] = [], overflowing: [ConsumerID] = [], at second: Int = 0
    ) -> Bool {
        for consumer in full { self.gate.becameFull(consumer) }
        return self.gate.delivered(
            on: id, isFull: !full.isEmpty || !overflowing.isEmpty, overflowing: overflowing, now: self.at(second)
        ) { [isReaderWaiting] in isReaderWaiting }
    }

    private mutating func drain(_ consumer: ConsumerID) -> [ConnectionID] {
        self.gate.isNotFull(consumer) { [isReaderWaiting] in isReaderWaiting }
    }

    private mutating func remove(_ id: ConnectionID) -> [ConnectionID] {
        self.gate.removed(id) { [isReaderWaiting] in isReaderWaiting }
    }

    // Calls that change the gate can't be inside an expectation.

    @Test mutating func `a connection is paused while a consumer of its events is full`() {
        let results = [self.deliver(), self.deliver(full: [Self.slow]), self.deliver(full: [Self.slow])]
        expect(results == [false, true, false] && self.gate.isPaused(Self.one) && !self.gate.isPaused(Self.two))
        let resumed = [self.drain(Self.other), self.drain(Self.slow), self.drain(Self.slow)]
        expect(resumed == [[], [Self.one], []] && self.gate.isOpen)
    }

    @Test mutating func `events without a connection pause none`() {
        let isPaused = self.deliver(on: nil, full: [Self.slow])
        expect(!isPaused && self.gate.isOpen)
    }

    @Test mutating func `reading resumes when no consumer is full`() {
        _ = (self.deliver(full: [Self.slow]), self.deliver(on: Self.two, full: [Self.other]))
        let resumed = [self.drain(Self.slow), self.drain(Self.other)]
        expectEqual(resumed, [[], [Self.one, Self.two]])
    }

    @Test mutating func `a caller that waits for the peer resumes reading and prevents pausing`() {
        _ = self.deliver(full: [Self.slow])
        let resumed = self.gate.waiterBegan()
        let isPausedWhileWaiting = self.deliver(full: [Self.slow])
        self.gate.waiterEnded()
        let isPausedAfterwards = self.deliver(full: [Self.slow])
        expect(resumed == [Self.one] && !isPausedWhileWaiting && isPausedAfterwards)
    }

    @Test mutating func `a task that waits for the peer resumes reading and prevents pausing`() {
        _ = self.deliver(full: [Self.slow])
        self.isReaderWaiting = true
        let resumed = self.gate.readerWaits()
        let isPaused = self.deliver(full: [Self.slow])
        expect(resumed == [Self.one] && !isPaused)
    }

    @Test mutating func `a consumer far behind stops its connection although someone waits, until its time is up`() {
        _ = self.gate.waiterBegan()
        let isPaused = self.deliver(full: [Self.slow], overflowing: [Self.slow], at: 1)
        expect(isPaused && self.gate.nextDeadline == self.at(31))
        // Neither another caller nor a second overflow changes that.
        let resumed = self.gate.waiterBegan()
        _ = self.deliver(overflowing: [Self.slow], at: 20)
        expect(resumed.isEmpty && self.gate.nextDeadline == self.at(31))
        let early = self.gate.popOverdue(now: self.at(30))
        let due = self.gate.popOverdue(now: self.at(31))
        expect(early == nil && due == Self.slow && self.gate.nextDeadline == nil)
    }

    @Test mutating func `a consumer far behind has no time limit if no one waits`() {
        let isPaused = self.deliver(full: [Self.slow], overflowing: [Self.slow])
        expect(isPaused && self.gate.nextDeadline == nil)
    }

    @Test mutating func `a consumer that catches up isn't given up`() {
        _ = self.gate.waiterBegan()
        _ = self.deliver(full: [Self.slow], overflowing: [Self.slow])
        let resumed = self.drain(Self.slow)
        expect(resumed == [Self.one] && self.gate.nextDeadline == nil)
    }

    @Test mutating func `the end of its connection ends the time limit of a consumer, and other connections are read`() {
        _ = self.gate.waiterBegan()
        _ = self.deliver(full: [Self.slow], overflowing: [Self.slow])
        _ = self.deliver(on: Self.two, full: [Self.slow])
        let resumed = self.remove(Self.one)
        expect(resumed == [Self.two] && self.gate.nextDeadline == nil && self.gate.isOpen)
    }

    @Test mutating func `a connection that the machine paused is read when neither the machine nor a consumer prevents it`() {
        let changes = [self.gate.setPaused(true, Self.one), self.gate.setPaused(true, Self.one)]
        expect(changes == [true, false] && self.gate.isPaused(Self.one) && self.gate.isOpen)
        let isPausedAgain = self.deliver(full: [Self.slow])
        let resumedByMachine = self.gate.setPaused(false, Self.one)
        expect(!isPausedAgain && !resumedByMachine && self.gate.isPaused(Self.one))
        let resumed = self.drain(Self.slow)
        expectEqual(resumed, [Self.one])
        _ = (self.deliver(full: [Self.slow]), self.gate.setPaused(true, Self.one))
        let kept = self.drain(Self.slow)
        expect(kept.isEmpty && self.gate.isPaused(Self.one))
        let resumedAtLast = self.gate.setPaused(false, Self.one)
        expect(resumedAtLast && !self.gate.isPaused(Self.one))
    }

    @Test mutating func `a new connection isn't paused because of one that has ended`() {
        _ = (self.gate.setPaused(true, Self.one), self.deliver(full: [Self.slow]))
        _ = self.remove(Self.one)
        expect(!self.gate.isPaused(Self.one))
    }
}

@Suite struct StartedWorkTests {
    private static let (first, second) = (WorkID(rawValue: 1), WorkID(rawValue: 2))
    private var work = StartedWork<String>()

    @Test mutating func `a thread begins its work in order, and work that follows after it`() {
        let thread = ThreadID.current
        let begins = [self.work.add(Self.first, "a", on: thread), self.work.add(Self.second, "b", on: thread)]
        expectEqual(begins, [true, false])
        let next = self.work.next(on: thread)
        let follows = self.work.add(WorkID(rawValue: 3), "c", on: thread)
        var rest: [String] = []
        while let next = self.work.next(on: thread) { rest.append(next.work) }
        expect(next?.work == "a" && !follows && rest == ["b", "c"])
        let beginsAgain = self.work.add(WorkID(rawValue: 4), "d", on: thread)
        expect(beginsAgain)
    }

    @Test mutating func `work that is cancelled before it begins isn't begun`() {
        let thread = ThreadID.current
        _ = (self.work.add(Self.first, "a", on: thread), self.work.add(Self.second, "b", on: thread))
        let cancelled = self.work.remove(Self.first)
        let next = [self.work.next(on: thread), self.work.next(on: thread)]
        let again = self.work.remove(Self.first)
        expect(cancelled != nil && next.map { $0?.id } == [Self.first, Self.second] && again == nil)
        // It is returned nevertheless, to be released without a lock.
        expectEqual(next.map { $0?.isCancelled }, [true, false])
    }

    @Test mutating func `work that has finished before it began to run isn't running`() {
        let thread = ThreadID.current
        _ = (self.work.add(Self.first, "a", on: thread), self.work.next(on: thread), self.work.remove(Self.first))
        let isRunning = self.work.began(Self.first) {}
        expect(!isRunning && !self.work.contains(Self.first))
    }

    @Test mutating func `running work is cancelled with its closure`() {
        let thread = ThreadID.current
        _ = (self.work.add(Self.first, "a", on: thread), self.work.next(on: thread))
        let isRunning = self.work.began(Self.first) {}
        guard case .some(.some) = self.work.remove(Self.first) else { return expect(false, "there is no closure") }
        expect(isRunning)
    }
}
