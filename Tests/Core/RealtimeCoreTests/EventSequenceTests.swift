import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

private enum Signal { case drained, left }

/// What a sequence tells its source.
private final class Signals: EventSource {
    private let recorder = EventRecorder<Signal>()
    var all: [Signal] { self.recorder.all }

    func drained(_ listener: ConsumerID) { self.recorder.record(.drained) }
    func consumerGone(_ listener: ConsumerID) { self.recorder.record(.left) }

    func sequence(of buffer: EventBuffer<Int> = EventBuffer(.standard)) -> EventSequence<Int> {
        EventSequence(EventSequence<Int>.Listener(buffer, ConsumerID(rawValue: 1), of: self))
    }
}

/// A buffer with a sequence on it, and what the sequence signals.
private struct Source {
    let buffer: EventBuffer<Int>
    let signals = Signals()
    let events: EventSequence<Int>

    init(_ policy: BufferPolicy = .standard) {
        self.buffer = EventBuffer(policy)
        self.events = self.signals.sequence(of: self.buffer)
    }

    /// What a producer does: appends under its lock, and wakes afterwards.
    @discardableResult
    func send(_ elements: some Sequence<Int>) -> AppendResult {
        let appended = self.buffer.append { $0.append(contentsOf: elements) }
        appended.wakeUp?.resume()
        return appended
    }

    func finish(_ reason: EndReason = .ended) { self.buffer.finish(reason)?.resume() }
}

@Suite struct EventSequenceTests {
    // MARK: Policies

    @Test(arguments: [
        (BufferPolicy.dropOldest(3), [8, 9, 10], 7), (.dropNewest(3), [1, 2, 3], 7), (.pauseReading(3), Array(1...10), 0),
        (.dropOldest(100), Array(1...10), 0), (.dropNewest(100), Array(1...10), 0), (.dropOldest(1), [10], 9), (.dropNewest(1), [1], 9),
        (.dropOldest(0), [10], 9), (.dropNewest(0), [1], 9), (.dropOldest(-5), [10], 9), (.dropNewest(.min), [1], 9),
    ])
    func `each policy keeps what it says`(policy: BufferPolicy, kept: [Int], dropped: Int) async {
        for sizes in [[10], [3, 3, 4], Array(repeating: 1, count: 10)] {
            let source = Source(policy)
            var next = 1
            var lost = 0
            for size in sizes {
                lost += source.send(next..<(next + size)).dropped
                next += size
            }
            #expect(source.events.dropped == dropped && lost == dropped)
            #expect(await source.events.pending() == kept)
        }
    }

    @Test(arguments: [1, 2, 5, 0, -1])
    func `a buffer that drops nothing is full from its limit on`(limit: Int) async {
        let source = Source(.pauseReading(limit))
        #expect(source.send([]).isFull == false)
        for count in 1...8 {
            let appended = source.send([count])
            #expect(appended.isFull == (count >= max(1, limit)))
            #expect(appended.becameFull == (count == max(1, limit)))
        }
        #expect(await source.events.pending() == Array(1...8))
        #expect(source.signals.all == [.drained])
        #expect(source.buffer.isFull == false)
    }

    @Test func `a million drops are cheap and the latest stay`() async {
        let source = Source(.dropOldest(1024))
        for number in 0..<1_000_000 { source.send(CollectionOfOne(number)) }
        #expect(source.events.dropped == 1_000_000 - 1024)
        #expect(await source.events.pending() == Array(998_976..<1_000_000))
    }

    // MARK: Consuming

    @Test func `what a break leaves is there for the next loop`() async {
        let source = Source()
        source.send(1...5)
        var seen: [Int] = []
        for await event in source.events {
            seen.append(event)
            if event == 2 {
                source.send(6...7)
                break
            }
        }
        #expect(seen == [1, 2])
        source.send([8])
        #expect(await source.events.pending() == [3, 4, 5, 6, 7, 8])
    }

    @Test func `a loop that is left by a throw leaves the rest`() async {
        struct Enough: Error {}
        let source = Source()
        source.send(1...3)
        await #expect(throws: Enough.self) { _ = try await source.events.first { _ in throw Enough() } }
        #expect(await source.events.pending() == [2, 3])
    }

    @Test func `cancelling ends a wait at once and nothing is lost`() async {
        let source = Source()
        let task = Task { () -> [Int] in
            var seen: [Int] = []
            for await event in source.events { seen.append(event) }
            return seen
        }
        source.send([1])
        task.cancel()
        let seen = await task.value
        source.send([2, 3])
        #expect(seen + (await source.events.pending()) == [1, 2, 3])
        #expect(source.events.endReason == nil)
    }

    @Test func `finishing wakes who waits and the first reason stays`() async {
        let source = Source()
        let task = Task { await source.events.first { _ in true } }
        await Task.yield()
        source.finish(.closed(.heartbeatTimeout))
        source.finish(.ended)
        #expect(await task.value == nil)
        #expect(source.events.endReason == .closed(.heartbeatTimeout))
        #expect(source.send([1]).dropped == 0)
        #expect(await source.events.first { _ in true } == nil)
    }

    @Test func `what came before the end is still delivered`() async {
        let source = Source()
        source.send(1...3)
        source.finish()
        #expect(source.events.endReason == .ended)
        var seen: [Int] = []
        for await event in source.events { seen.append(event) }
        #expect(seen == [1, 2, 3])
    }

    @Test func `a consumer is woken once per batch`() async {
        let source = Source()
        let woken = EventRecorder<[Int]>()
        let task = Task { @MainActor in
            let iterator = source.events.makeAsyncIterator()
            var batch: [Int] = []
            while let event = await iterator.next() {
                batch.append(event)
                if batch.count == 3 {
                    woken.record(batch)
                    batch = []
                }
            }
        }
        var wakeUps = 0
        for start in [0, 3, 6] {
            while woken.all.count < start / 3 { await Task.yield() }
            // Appended by one producer under one lock: whoever waits is taken out once, and not again until it waits again.
            let first = source.buffer.append { $0.append(start) }
            let second = source.buffer.append { $0.append(contentsOf: [start + 1, start + 2]) }
            wakeUps += [first, second].filter { $0.wakeUp != nil }.count
            first.wakeUp?.resume()
            second.wakeUp?.resume()
        }
        while woken.all.count < 3 { await Task.yield() }
        source.finish()
        await task.value
        #expect(woken.all == [[0, 1, 2], [3, 4, 5], [6, 7, 8]])
        #expect(wakeUps <= 3)
    }

    @Test func `the listener has left when the last copy is dropped`() {
        let signals = Signals()
        var events: EventSequence<Int>? = signals.sequence()
        var copy = events
        events = nil
        #expect(signals.all == [] && copy != nil)
        copy = nil
        #expect(signals.all == [.left])
    }

    @Test func `an iterator keeps the listener alive`() async {
        let signals = Signals()
        let buffer = EventBuffer<Int>(.standard)
        var iterator: EventSequence<Int>.AsyncIterator? = signals.sequence(of: buffer).makeAsyncIterator()
        _ = buffer.append { $0 += [1, 2] }
        #expect(await iterator?.next() == 1)
        #expect(signals.all == [])
        iterator = nil
        #expect(signals.all == [.left])
    }

    @Test func `one consumer after the other is fine`() async {
        let source = Source()
        source.send(1...3)
        for expected in 1...3 { #expect(await source.events.makeAsyncIterator().next() == expected) }
    }

    #if os(Linux) || os(macOS)
    @Test func `two consumers at a time stop the program`() async {
        await #expect(processExitsWith: .failure) {
            let events = Signals().sequence()
            let first = events.makeAsyncIterator()
            let second = events.makeAsyncIterator()
            withExtendedLifetime((first, second)) {}
        }
    }
    #endif

    // MARK: Wherever the consumer lives

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
    }

    @Test @MainActor func `a consumer on the main actor`() async {
        let (source, screen) = (Source(), Screen())
        source.send(1...6)
        await screen.show(source.events)
        #expect(screen.shown == [1, 2, 3])
        #expect(await screen.first(source.events) == 4)
    }

    @Test func `a consumer in an actor`() async {
        let (source, store) = (Source(), Store())
        source.send(1...6)
        #expect(await store.keep(source.events) == 3)
        #expect(await store.kept == [1, 2, 3])
        #expect(await source.events.pending() == [4, 5, 6])
    }

    @Test func `a consumer in a function of no actor`() async {
        let source = Source()
        source.send(1...6)
        #expect(await source.events.first { $0.isMultiple(of: 4) } == 4)
        #expect(
            await source.events.first {
                await Task.yield(); return $0 == 5
            } == 5)
        source.finish()
        #expect(await source.events.first { $0 == 7 } == nil)
    }

    @Test func `a producer and a consumer on two threads lose nothing`() async {
        let source = Source(.pauseReading(16))
        async let produced: Void = {
            for start in stride(from: 0, to: 10_000, by: 10) { source.send(start..<(start + 10)) }
            source.finish()
        }()
        var next = 0
        while source.events.endReason == nil || next < 10_000 {
            // Consumers come and go.
            for await event in source.events {
                #expect(event == next)
                next += 1
                if next.isMultiple(of: 7) { break }
            }
        }
        await produced
        #expect(next == 10_000)
    }
}
