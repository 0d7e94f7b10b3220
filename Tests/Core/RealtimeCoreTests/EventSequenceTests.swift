import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

private enum Call { case drained, removed, iteratorReplaced }

/// An event source that records the calls that its sequence makes.
private final class RecordingSource: EventSource {
    private let recorder = EventRecorder<Call>()
    var all: [Call] { self.recorder.all }

    func drained(_ consumer: ConsumerID) { self.recorder.record(.drained) }
    func consumerRemoved(_ consumer: ConsumerID) { self.recorder.record(.removed) }
    func readerWaits(_ consumer: ConsumerID) {}
    func iteratorReplaced(_ consumer: ConsumerID) { self.recorder.record(.iteratorReplaced) }

    func sequence(of buffer: EventBuffer<Int> = EventBuffer(.standard)) -> EventSequence<Int> {
        EventSequence(EventSequence<Int>.Consumer(buffer, ConsumerID(rawValue: 1), of: self))
    }
}

/// A buffer with a sequence, and the calls that the sequence makes.
private struct Fixture {
    let buffer: EventBuffer<Int>
    let calls = RecordingSource()
    let events: EventSequence<Int>

    init(_ policy: BufferPolicy = .standard, byteLimit: ByteLimit<Int>? = nil) {
        self.buffer = EventBuffer(policy, byteLimit: byteLimit)
        self.events = self.calls.sequence(of: self.buffer)
    }

    /// Appends events and resumes the waiting consumer, like a producer.
    @discardableResult
    func send(_ elements: some Sequence<Int>) -> AppendResult {
        let appended = self.buffer.append { $0.append(contentsOf: elements) }
        appended.wakeUp?.resume()
        return appended
    }

    func finish(_ reason: EndReason = .ended) { self.buffer.finish(reason)?.resume() }
}

/// Runs the jobs of a task when a test says so.
///
/// `@unchecked Sendable`: a job isn't Sendable, and runs once.
@available(macOS 15.0, iOS 18.0, tvOS 18.0, watchOS 11.0, visionOS 2.0, *)
private final class ManualExecutor: TaskExecutor, @unchecked Sendable {
    private let jobs = Lock<[UnownedJob]>([])

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        self.jobs.withLock { $0.append(job) }
    }

    func run() {
        while let job = self.jobs.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) {
            job.runSynchronously(on: self.asUnownedTaskExecutor())
        }
    }
}

@Suite struct EventSequenceTests {
    @available(macOS 15.0, iOS 18.0, tvOS 18.0, watchOS 11.0, visionOS 2.0, *)
    @Test func `an event that comes before a cancelled task runs again remains in the sequence`() async {
        let (fixture, executor) = (Fixture(), ManualExecutor())
        let task = Task(executorPreference: executor) {
            var received: [Int] = []
            for await event in fixture.events { received.append(event) }
            return received
        }
        executor.run()
        fixture.send([1])
        executor.run()
        fixture.send([2])
        task.cancel()
        executor.run()
        await expectEqual(task.value, [1])
        expectEqual(fixture.events.takeBuffered(), [2])
    }

    // MARK: Policies

    @Test(arguments: [
        (BufferPolicy.dropOldest(3), [8, 9, 10], 7), (.dropNewest(3), [1, 2, 3], 7), (.pauseReading(3), Array(1...10), 0),
        (.dropOldest(100), Array(1...10), 0), (.dropNewest(100), Array(1...10), 0), (.dropOldest(1), [10], 9), (.dropNewest(1), [1], 9),
        (.dropOldest(0), [10], 9), (.dropNewest(0), [1], 9), (.dropOldest(-5), [10], 9), (.dropNewest(.min), [1], 9),
    ])
    func `each policy keeps and drops the right events`(policy: BufferPolicy, kept: [Int], dropped: Int) async {
        for sizes in [[10], [3, 3, 4], Array(repeating: 1, count: 10)] {
            let fixture = Fixture(policy)
            var next = 1
            var lost = 0
            for size in sizes {
                lost += fixture.send(next..<(next + size)).dropped
                next += size
            }
            expect(fixture.events.dropped == dropped && lost == dropped)
            await expectEqual(fixture.events.pending(), kept)
        }
    }

    @Test(arguments: [
        // The size of an element is its value.
        (BufferPolicy.dropOldest(100), [3, 3, 3, 3], [3, 3, 3]), (.dropOldest(100), [1, 2, 3, 4, 5], [4, 5]),
        (.dropOldest(2), [1, 1, 1, 1], [1, 1]), (.dropOldest(100), [20, 1, 1], [1, 1]), (.dropOldest(100), [1, 20], [20]),
        (.dropNewest(100), [3, 3, 3, 3], [3, 3, 3]), (.dropNewest(100), [20, 1, 1], [20]), (.dropNewest(100), [1, 20], [1]),
        (.dropNewest(2), [1, 1, 1], [1, 1]), (.pauseReading(100), [5, 5, 5], [5, 5, 5]),
    ])
    func `a buffer with a limit of 10 bytes drops what exceeds it`(policy: BufferPolicy, sent: [Int], kept: [Int]) async {
        for sizes in [[sent.count], Array(repeating: 1, count: sent.count)] {
            let fixture = Fixture(policy, byteLimit: ByteLimit(10) { $0 })
            // Twice, because what was taken must no longer count.
            for round in 1...2 {
                var rest = sent[...]
                for size in sizes {
                    fixture.send(rest.prefix(size))
                    rest = rest.dropFirst(size)
                }
                expectEqual(fixture.events.dropped, round * (sent.count - kept.count))
                await expectEqual(fixture.events.pending(), kept)
            }
        }
    }

    @Test func `a buffer that pauses reading is full when its limit of bytes is exceeded`() async {
        let fixture = Fixture(.pauseReading(100), byteLimit: ByteLimit(10) { $0 })
        expectEqual(fixture.send([4, 6]).becameFull, false)
        expect(fixture.send([1]).becameFull)
        await expectEqual(fixture.events.pending(), [4, 6, 1])
        expectEqual(fixture.send([9]).isFull, false)
    }

    @Test func `events that a loop returns to the buffer count again`() async {
        let fixture = Fixture(.dropOldest(100), byteLimit: ByteLimit(10) { $0 })
        fixture.send([5, 3, 2])
        for await event in fixture.events where event == 5 { break }
        fixture.send([6])
        await expectEqual(fixture.events.pending(), [2, 6])
    }

    @Test(arguments: [1, 2, 5, 0, -1])
    func `a buffer that pauses reading is full when it reaches its limit`(limit: Int) async {
        let fixture = Fixture(.pauseReading(limit))
        expectEqual(fixture.send([]).isFull, false)
        for count in 1...8 {
            let appended = fixture.send([count])
            expectEqual(appended.isFull, (count >= max(1, limit)))
            expectEqual(appended.becameFull, (count == max(1, limit)))
        }
        await expectEqual(fixture.events.pending(), Array(1...8))
        expectEqual(fixture.calls.all, [.drained])
        expectEqual(fixture.buffer.isFull, false)
    }

    @Test func `dropping many events is fast and keeps the latest`() async {
        let fixture = Fixture(.dropOldest(1024))
        for number in 0..<100_000 { fixture.send(CollectionOfOne(number)) }
        expectEqual(fixture.events.dropped, 100_000 - 1024)
        await expectEqual(fixture.events.pending(), Array(98_976..<100_000))
    }

    // MARK: Consuming

    @Test func `events remaining after a break are delivered to the next loop`() async {
        let fixture = Fixture()
        fixture.send(1...5)
        var seen: [Int] = []
        for await event in fixture.events {
            seen.append(event)
            if event == 2 {
                fixture.send(6...7)
                break
            }
        }
        expectEqual(seen, [1, 2])
        fixture.send([8])
        await expectEqual(fixture.events.pending(), [3, 4, 5, 6, 7, 8])
    }

    @Test func `events remaining after an error are delivered to the next loop`() async {
        struct Enough: Error {}
        let fixture = Fixture()
        fixture.send(1...3)
        await #expect(throws: Enough.self) { _ = try await fixture.events.first { _ in throw Enough() } }
        await expectEqual(fixture.events.pending(), [2, 3])
    }

    @Test func `cancelling ends the wait without losing events`() async {
        let fixture = Fixture()
        let task = Task { () -> [Int] in
            var seen: [Int] = []
            for await event in fixture.events { seen.append(event) }
            return seen
        }
        fixture.send([1])
        task.cancel()
        let seen = await task.value
        fixture.send([2, 3])
        expectEqual(seen + (await fixture.events.pending()), [1, 2, 3])
        expectNil(fixture.events.endReason)
    }

    @Test func `finishing resumes the waiting consumer and keeps the first reason`() async {
        let fixture = Fixture()
        let task = Task { await fixture.events.first { _ in true } }
        await Task.yield()
        fixture.finish(.closed(.heartbeatTimeout))
        fixture.finish(.ended)
        await expectNil(task.value)
        expectEqual(fixture.events.endReason, .closed(.heartbeatTimeout))
        expectEqual(fixture.send([1]).dropped, 0)
        await expectNil(fixture.events.first { _ in true })
    }

    @Test func `events before the end are still delivered`() async {
        let fixture = Fixture()
        fixture.send(1...3)
        fixture.finish()
        expectEqual(fixture.events.endReason, .ended)
        var seen: [Int] = []
        for await event in fixture.events { seen.append(event) }
        expectEqual(seen, [1, 2, 3])
    }

    @Test func `a consumer is resumed once per batch`() async {
        let fixture = Fixture()
        let batches = EventRecorder<[Int]>()
        let task = Task { @MainActor in
            let iterator = fixture.events.makeAsyncIterator()
            var batch: [Int] = []
            while let event = await iterator.next() {
                batch.append(event)
                if batch.count == 3 {
                    batches.record(batch)
                    batch = []
                }
            }
        }
        var wakeUps = 0
        for start in [0, 3, 6] {
            while batches.all.count < start / 3 { await Task.yield() }
            // A waiting consumer is returned by the first call only, until it waits again.
            let first = fixture.buffer.append { $0.append(start) }
            let second = fixture.buffer.append { $0.append(contentsOf: [start + 1, start + 2]) }
            wakeUps += [first, second].filter { $0.wakeUp != nil }.count
            first.wakeUp?.resume()
            second.wakeUp?.resume()
        }
        while batches.all.count < 3 { await Task.yield() }
        fixture.finish()
        await task.value
        expectEqual(batches.all, [[0, 1, 2], [3, 4, 5], [6, 7, 8]])
        expect(wakeUps <= 3)
    }

    @Test func `releasing the last copy of a sequence removes its consumer`() {
        let calls = RecordingSource()
        var events: EventSequence<Int>? = calls.sequence()
        var copy = events
        events = nil
        expect(calls.all == [] && copy != nil)
        copy = nil
        expectEqual(calls.all, [.removed])
    }

    @Test func `an iterator retains the consumer`() async {
        let calls = RecordingSource()
        let buffer = EventBuffer<Int>(.standard)
        var iterator: EventSequence<Int>.AsyncIterator? = calls.sequence(of: buffer).makeAsyncIterator()
        _ = buffer.append { $0 += [1, 2] }
        await expectEqual(iterator?.next(), 1)
        expectEqual(calls.all, [])
        iterator = nil
        expectEqual(calls.all, [.removed])
    }

    @Test func `several iterators may be used one after the other`() async {
        let fixture = Fixture()
        fixture.send(1...3)
        for expected in 1...3 { await expectEqual(fixture.events.makeAsyncIterator().next(), expected) }
    }

    @Test func `a second iterator takes over from one that waits`() async {
        let fixture = Fixture()
        let first = Task { [events = fixture.events] in await events.first { _ in true } }
        while !fixture.buffer.hasWaitingReader { await Task.yield() }
        let second = fixture.events.makeAsyncIterator()
        await expectNil(first.value)
        expectEqual(fixture.calls.all, [.iteratorReplaced])
        fixture.send(1...2)
        await expectEqual(second.next(), 1)
        await expectEqual(second.next(), 2)
    }

    @Test func `an iterator that was replaced returns the events it had taken and then none`() async {
        let fixture = Fixture()
        fixture.send(1...3)
        let first = fixture.events.makeAsyncIterator()
        await expectEqual(first.next(), 1)
        let second = fixture.events.makeAsyncIterator()
        fixture.send(4...5)
        await expectEqual(first.next(), 2)
        await expectEqual(first.next(), 3)
        await expectNil(first.next())
        await expectEqual(second.next(), 4)
        await expectEqual(second.next(), 5)
        expectEqual(fixture.events.dropped, 0)
    }

    @Test func `events that a replaced iterator had taken are returned in order or dropped`() async {
        for takesFirst in [false, true] {
            let fixture = Fixture()
            fixture.send(1...3)
            var first: EventSequence<Int>.AsyncIterator? = fixture.events.makeAsyncIterator()
            await expectEqual(first?.next(), 1)
            let second = fixture.events.makeAsyncIterator()
            fixture.send(4...5)
            if takesFirst { await expectEqual(second.next(), 4) }
            first = nil
            await expectEqual(second.next(), (takesFirst ? 5 : 2))
            expectEqual(fixture.events.dropped, (takesFirst ? 2 : 0))
        }
    }

    @Test func `cancelling a replaced iterator does not resume the one that took over`() async {
        let fixture = Fixture()
        let first = Task { [events = fixture.events] in
            let iterator = events.makeAsyncIterator()
            _ = await iterator.next()
            // Waits again, although it was replaced.
            return await iterator.next()
        }
        while !fixture.buffer.hasWaitingReader { await Task.yield() }
        let second = Task { [events = fixture.events] in await events.first { _ in true } }
        while fixture.calls.all.isEmpty || !fixture.buffer.hasWaitingReader { await Task.yield() }
        first.cancel()
        await expectNil(first.value)
        fixture.send([7])
        await expectEqual(second.value, 7)
    }

    // MARK: Isolation

    @MainActor
    final class Screen {
        var shown: [Int] = []

        func show(_ events: EventSequence<Int>) async {
            for await event in events {
                self.shown.append(event)
                if event == 3 { break }
            }
        }

        func first(_ events: EventSequence<Int>) async -> Int? { await events.first { $0 > self.shown.count } }

        /// Stops the program if an event is received elsewhere than on the actor.
        func showAll(_ events: EventSequence<Int>) async {
            for await event in events {
                MainActor.preconditionIsolated()
                self.shown.append(event)
            }
            MainActor.preconditionIsolated()
        }
    }

    actor Store {
        var kept: [Int] = []

        func keep(_ events: EventSequence<Int>) async -> Int? {
            let found = await events.first { event in
                self.kept.append(event)
                return event == 3
            }
            return found
        }

        /// Stops the program if an event is received elsewhere than on the actor.
        func keepAll(_ events: EventSequence<Int>) async {
            for await event in events {
                self.preconditionIsolated()
                self.kept.append(event)
            }
            self.preconditionIsolated()
        }
    }

    @Test func `a loop runs on its actor after it waited for an event`() async {
        let (first, second, screen, store) = (Fixture(), Fixture(), Screen(), Store())
        async let shown: Void = screen.showAll(first.events)
        async let kept: Void = store.keepAll(second.events)
        for number in 1...200 {
            for fixture in [first, second] { fixture.send(number.isMultiple(of: 3) ? [number, number] : [number]) }
            await Task.yield()
        }
        for fixture in [first, second] { fixture.finish() }
        _ = await (shown, kept)
        await expectEqual(screen.shown.count, 266)
        await expectEqual(store.kept, screen.shown)
    }

    @Test @MainActor func `events can be consumed on the main actor`() async {
        let (fixture, screen) = (Fixture(), Screen())
        fixture.send(1...6)
        await screen.show(fixture.events)
        expectEqual(screen.shown, [1, 2, 3])
        await expectEqual(screen.first(fixture.events), 4)
    }

    @Test func `events can be consumed in an actor`() async {
        let (fixture, store) = (Fixture(), Store())
        fixture.send(1...6)
        await expectEqual(store.keep(fixture.events), 3)
        await expectEqual(store.kept, [1, 2, 3])
        await expectEqual(fixture.events.pending(), [4, 5, 6])
    }

    @Test func `events can be consumed outside an actor`() async {
        let fixture = Fixture()
        fixture.send(1...6)
        await expectEqual(fixture.events.first { $0.isMultiple(of: 4) }, 4)
        await expectEqual(
            fixture.events.first {
                await Task.yield(); return $0 == 5
            }, 5)
        fixture.finish()
        await expectNil(fixture.events.first { $0 == 7 })
    }

    @Test func `no events are lost between a producer and a consumer on different threads`() async {
        let fixture = Fixture(.pauseReading(16))
        async let produced: Void = {
            for start in stride(from: 0, to: 10_000, by: 10) { fixture.send(start..<(start + 10)) }
            fixture.finish()
        }()
        var next = 0
        while fixture.events.endReason == nil || next < 10_000 {
            // A new iterator every seven events.
            for await event in fixture.events {
                expectEqual(event, next)
                next += 1
                if next.isMultiple(of: 7) { break }
            }
        }
        await produced
        expectEqual(next, 10_000)
    }
}
