import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// Runs deliveries when the test asks for it, as a queue does.
private final class ManualQueue: Sendable {
    private let closures = Lock<[@Sendable () -> Void]>([])

    var count: Int { self.closures.withLock { $0.count } }

    func schedule(_ closure: @escaping @Sendable () -> Void) { self.closures.withLock { $0.append(closure) } }

    func runAllReversed() { while let closure = self.closures.withLock({ $0.popLast() }) { closure() } }

    func runAll() {
        while let closure = self.closures.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { closure() }
    }
}

extension Toy {
    fileprivate func observe(
        _ topic: String = "news", _ policy: BufferPolicy = .standard, schedule: @escaping CallbackSchedule = { $0() },
        _ callback: @escaping @Sendable (String) -> Void
    ) -> CallbackObservation {
        self.driver.observe(policy, lifetime: .client, schedule: schedule) {
            $1.append(contentsOf: $0)
        } register: { machine, id, effects in
            machine.subscribe(id, to: topic, &effects)
        } callback: {
            callback($0)
        }
    }

    fileprivate func observe(into queue: CallbackQueue<String>) -> CallbackObservation {
        self.driver.observe(into: queue, lifetime: .client) {
            $1.append(contentsOf: $0)
        } register: { machine, id, effects in
            machine.subscribe(id, to: "news", &effects)
        }
    }
}

@Suite struct CallbackConsumerTests {
    @Test func `events are delivered in order before the call that caused them returns`() {
        let toy = Toy()
        let received = EventRecorder<String>()
        let connection = toy.connect()
        let token = toy.observe { received.record($0) }
        connection.receive("@ news 1", "@ news 2")
        expectEqual(received.all, ["1", "2"])
        connection.receive("@ news 3")
        expectEqual(received.all, ["1", "2", "3"])
        token.cancel()
    }

    @Test func `a delivery is scheduled once for all events until it has run`() {
        let (toy, queue, received) = (Toy(), ManualQueue(), EventRecorder<String>())
        let connection = toy.connect()
        let token = toy.observe(schedule: { queue.schedule($0) }) { received.record($0) }
        connection.receive("@ news 1", "@ news 2")
        connection.receive("@ news 3")
        expect(queue.count == 1 && received.all.isEmpty)
        queue.runAll()
        expectEqual(received.all, ["1", "2", "3"])
        connection.receive("@ news 4")
        expectEqual(queue.count, 1)
        queue.runAll()
        expectEqual(received.all.last, "4")
        token.cancel()
    }

    @Test func `a callback may call the driver and receives what it causes afterwards`() {
        let toy = Toy()
        let received = EventRecorder<String>()
        let connection = toy.connect()
        let token = toy.observe { event in
            received.record("begin \(event)")
            if event == "1" { connection.receive("@ news 2") }
            received.record("end \(event)")
        }
        connection.receive("@ news 1")
        expectEqual(received.all, ["begin 1", "end 1", "begin 2", "end 2"])
        token.cancel()
    }

    @Test func `pending events can be delivered immediately on the calling thread`() {
        let (toy, queue, received) = (Toy(), ManualQueue(), EventRecorder<String>())
        let connection = toy.connect()
        let callbacks = CallbackQueue<String>(.standard, schedule: { queue.schedule($0) }) { received.record($0) }
        let token = toy.observe(into: callbacks)
        connection.receive("@ news 1", "@ news 2")
        callbacks.deliverNow()
        expectEqual(received.all, ["1", "2"])
        // The scheduled delivery finds nothing, and doesn't count as one for later events.
        queue.runAll()
        connection.receive("@ news 3")
        queue.runAll()
        expectEqual(received.all, ["1", "2", "3"])
        token.cancel()
    }

    @Test func `delivering during a callback has no effect`() {
        let (toy, received) = (Toy(), EventRecorder<String>())
        let queues = EventRecorder<CallbackQueue<String>>()
        let connection = toy.connect()
        queues.record(
            CallbackQueue(.standard, schedule: { $0() }) { event in
                received.record("begin \(event)")
                queues.all[0].deliverNow()
                received.record("end \(event)")
            })
        let token = toy.observe(into: queues.all[0])
        connection.receive("@ news 1", "@ news 2")
        expectEqual(received.all, ["begin 1", "end 1", "begin 2", "end 2"])
        token.cancel()
        _ = queues.take()
    }

    @Test func `after cancelling in a callback no event is delivered`() {
        let (toy, received) = (Toy(), EventRecorder<String>())
        let tokens = EventRecorder<CallbackObservation>()
        let connection = toy.connect()
        tokens.record(
            toy.observe { event in
                received.record(event)
                if event == "2" { tokens.all[0].cancel() }
            })
        connection.receive("@ news 1", "@ news 2", "@ news 3")
        connection.receive("@ news 4")
        expectEqual(received.all, ["1", "2"])
        expectEqual(toy.driver.consumerCount, 0)
        _ = tokens.take()
    }

    @Test func `releasing the registration cancels the callback`() {
        let (toy, queue, received) = (Toy(), ManualQueue(), EventRecorder<String>())
        let connection = toy.connect()
        let callbacks = CallbackQueue<String>(.standard, schedule: { queue.schedule($0) }) { received.record($0) }
        var token: CallbackObservation? = toy.observe(into: callbacks)
        connection.receive("@ news 1")
        callbacks.deliverNow()
        connection.receive("@ news 2")
        withExtendedLifetime(token) {}
        token = nil
        callbacks.append("3")
        queue.runAll()
        expectEqual(received.all, ["1"])
        expectEqual(toy.driver.consumerCount, 0)
    }

    @Test func `callbacks have the same buffer policies as sequences`() {
        let (toy, queue, received) = (Toy(), ManualQueue(), EventRecorder<String>())
        let connection = toy.connect()
        let oldest = toy.observe("news", .dropOldest(2), schedule: { queue.schedule($0) }) { received.record("oldest \($0)") }
        let newest = toy.observe("news", .dropNewest(2), schedule: { queue.schedule($0) }) { received.record("newest \($0)") }
        connection.receive("@ news 1", "@ news 2", "@ news 3")
        expectEqual(toy.driver.counters.eventsDropped, 2)
        queue.runAll()
        expectEqual(received.all, ["oldest 2", "oldest 3", "newest 1", "newest 2"])
        withExtendedLifetime((oldest, newest)) {}
    }

    @Test func `a full callback pauses reading and its delivery resumes it`() {
        let (toy, queue, received) = (Toy(), ManualQueue(), EventRecorder<String>())
        let connection = toy.connect()
        let token = toy.observe("news", .pauseReading(1), schedule: { queue.schedule($0) }) { received.record($0) }
        connection.receive("@ news 1")
        expectEqual(connection.calls.all, [.pause])
        queue.runAll()
        expectEqual(connection.calls.all, [.pause, .resume, .flush])
        expectEqual(received.all, ["1"])
        token.cancel()
    }

    @Test func `events from several threads are delivered one at a time and in order`() async {
        let toy = Toy()
        let connection = toy.connect()
        let running = Lock(0)
        let overlaps = Lock(0)
        let received = EventRecorder<String>()
        let token = toy.observe("news", .pauseReading(100_000)) { event in
            let others = running.withLock { running in
                defer { running += 1 }
                return running
            }
            if others > 0 { overlaps.withLock { $0 += 1 } }
            received.record(event)
            running.withLock { $0 -= 1 }
        }
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<4 {
                group.addTask {
                    for number in 0..<500 { connection.receive("@ news \(thread):\(number)") }
                }
            }
        }
        // Another thread may still be delivering the last events.
        while received.all.count < 2000 { await Task.yield() }
        expectEqual(overlaps.withLock { $0 }, 0)
        for thread in 0..<4 {
            expectEqual(received.all.filter { $0.hasPrefix("\(thread):") }, (0..<500).map { "\(thread):\($0)" })
        }
        token.cancel()
    }

    // MARK: The order of several registrations

    @Test func `registrations on one serial queue receive events in their order, however long the queue is busy`() {
        let (toy, queue, received) = (Toy(), ManualQueue(), EventRecorder<String>())
        let connection = toy.connect()
        let tokens = ["c", "b", "a"].map { topic in
            toy.observe(topic, .pauseReading(100), schedule: { queue.schedule($0) }) { received.record("\(topic)\($0)") }
        }
        connection.receive("@ c 1")
        connection.receive("@ a 2")
        // Those of one registration that follow each other need one turn.
        connection.receive("@ b 3", "@ b 4")
        connection.receive("@ b 5", "@ c 6", "@ a 7", "@ c 8")
        expectEqual(queue.count, 6)
        queue.runAll()
        expectEqual(received.all, ["c1", "a2", "b3", "b4", "b5", "c6", "a7", "c8"])
        connection.receive("@ a 9", "@ b 10")
        queue.runAll()
        expectEqual(received.all.suffix(2), ["a9", "b10"])
        withExtendedLifetime(tokens) {}
    }

    @Test func `what a callback causes comes after what other registrations wait for already`() {
        let (toy, queue, received) = (Toy(), ManualQueue(), EventRecorder<String>())
        let connection = toy.connect()
        let first = toy.observe("a", schedule: { queue.schedule($0) }) { event in
            received.record("a\(event)")
            if event == "1" { connection.receive("@ a 3", "@ b 4") }
        }
        let second = toy.observe("b", schedule: { queue.schedule($0) }) { received.record("b\($0)") }
        connection.receive("@ a 1", "@ b 2")
        queue.runAll()
        expectEqual(received.all, ["a1", "b2", "a3", "b4"])
        withExtendedLifetime((first, second)) {}
    }

    @Test func `events that a policy drops leave the order of the others`() {
        let (toy, queue, received) = (Toy(), ManualQueue(), EventRecorder<String>())
        let connection = toy.connect()
        let tokens = [
            toy.observe("a", .dropOldest(2), schedule: { queue.schedule($0) }) { received.record("a\($0)") },
            toy.observe("b", .dropNewest(2), schedule: { queue.schedule($0) }) { received.record("b\($0)") },
        ]
        connection.receive("@ a 1", "@ b 2", "@ a 3", "@ b 4", "@ a 5", "@ b 6", "@ a 7")
        queue.runAll()
        expectEqual(received.all, ["b2", "b4", "a5", "a7"])
        connection.receive("@ b 8", "@ a 9")
        queue.runAll()
        expectEqual(received.all.suffix(2), ["b8", "a9"])
        withExtendedLifetime(tokens) {}
    }

    @Test func `a registration that is cancelled doesn't keep others from their turns`() {
        let (toy, queue, received) = (Toy(), ManualQueue(), EventRecorder<String>())
        let connection = toy.connect()
        let first = toy.observe("a", schedule: { queue.schedule($0) }) { received.record("a\($0)") }
        let second = toy.observe("b", schedule: { queue.schedule($0) }) { event in
            received.record("b\(event)")
            first.cancel()
        }
        connection.receive("@ a 1", "@ b 2", "@ a 3", "@ b 4")
        queue.runAll()
        expectEqual(received.all, ["a1", "b2", "b4"])
        withExtendedLifetime(second) {}
    }

    @Test func `an executor that runs closures in another order delivers the events of each registration in order`() {
        let (toy, queue, received) = (Toy(), ManualQueue(), EventRecorder<String>())
        let connection = toy.connect()
        let tokens = ["a", "b"].map { topic in
            toy.observe(topic, schedule: { queue.schedule($0) }) { received.record("\(topic)\($0)") }
        }
        connection.receive("@ a 1", "@ b 2", "@ a 3", "@ b 4", "@ a 5")
        queue.runAllReversed()
        expectEqual(received.all.filter { $0.hasPrefix("a") }, ["a1", "a3", "a5"])
        expectEqual(received.all.filter { $0.hasPrefix("b") }, ["b2", "b4"])
        withExtendedLifetime(tokens) {}
    }

    @Test func `a delivery with a limit goes on before the turns of others that it made room for`() {
        let (toy, queue, received) = (Toy(), ManualQueue(), EventRecorder<String>())
        let connection = toy.connect()
        let callbacks = CallbackQueue<String>(.standard, batchSize: 1, schedule: { queue.schedule($0) }) { received.record("n\($0)") }
        let tokens = [toy.observe(into: callbacks), toy.observe("b", schedule: { queue.schedule($0) }) { received.record("b\($0)") }]
        connection.receive("@ news 1", "@ news 2", "@ b 3", "@ news 4")
        queue.runAll()
        // The limit lets other work of the queue have its turn.
        expectEqual(received.all.filter { $0.hasPrefix("n") }, ["n1", "n2", "n4"])
        expectEqual(received.all.count, 4)
        // What is wanted now is delivered now, and its turns are over.
        connection.receive("@ news 5", "@ b 6", "@ news 7")
        callbacks.deliverNow()
        expectEqual(received.all.suffix(2), ["n5", "n7"])
        queue.runAll()
        expectEqual(received.all.suffix(1), ["b6"])
        withExtendedLifetime(tokens) {}
    }

    @Test func `tasks have no order, and take along what has arrived`() {
        let (toy, queue, received) = (Toy(), ManualQueue(), EventRecorder<String>())
        let connection = toy.connect()
        func observe(_ topic: String) -> CallbackObservation {
            let callbacks = CallbackQueue<String>(
                .standard, keepsOrder: false, schedule: { queue.schedule($0) }, calls: CallbackCalls { received.record("\(topic)\($0)") })
            return toy.driver.observe(into: callbacks, lifetime: .client) {
                $1.append(contentsOf: $0)
            } register: { machine, id, effects in
                machine.subscribe(id, to: topic, &effects)
            }
        }
        let tokens = [observe("a"), observe("b")]
        connection.receive("@ a 1", "@ b 2", "@ a 3", "@ b 4")
        expectEqual(queue.count, 2)
        queue.runAll()
        expectEqual(received.all, ["a1", "a3", "b2", "b4"])
        expect(!CallbackExecutor.tasks.keepsOrder && CallbackExecutor.main.keepsOrder)
        withExtendedLifetime(tokens) {}
    }

    private actor Counter {
        private(set) var lines: [String] = []
        func record(_ line: String) { self.lines.append(line) }
    }

    @Test func `registrations on one actor receive events in their order`() async throws {
        let (toy, counter) = (Toy(), Counter())
        let connection = toy.connect()
        func observe(_ topic: String) -> CallbackObservation {
            // An executor of its own for each registration.
            toy.driver.observe(
                .pauseReading(10_000), lifetime: .client, on: .isolated(to: counter), convert: { $1.append(contentsOf: $0) },
                calls: CallbackCalls { event in counter.assumeIsolated { $0.record(event) } }
            ) { machine, id, effects in machine.subscribe(id, to: topic, &effects) }
        }
        let tokens = [observe("b"), observe("a")]
        for number in 0..<500 { connection.receive("@ a \(2 * number)", "@ b \(2 * number + 1)") }
        try await eventually { await counter.lines.count == 1000 }
        await expectEqual(counter.lines, (0..<1000).map { "\($0)" })
        withExtendedLifetime(tokens) {}
    }

    // MARK: Queues

    @Test func `what the owner appends and the events of the driver have one order`() {
        let (toy, queue, received) = (Toy(), ManualQueue(), EventRecorder<String>())
        let connection = toy.connect()
        let callbacks = CallbackQueue<String>(.standard, schedule: { queue.schedule($0) }) { received.record($0) }
        let token = toy.observe(into: callbacks)
        callbacks.append("a")
        connection.receive("@ news 1")
        callbacks.append("b")
        connection.receive("@ news 2")
        expect(queue.count == 1 && received.all.isEmpty)
        queue.runAll()
        expectEqual(received.all, ["a", "1", "b", "2"])
        token.cancel()
        callbacks.append("lost")
        queue.runAll()
        expectEqual(received.all.count, 4)
    }

    private final class Payload: Sendable {
        let number: Int
        private let onEnd: @Sendable () -> Void

        init(_ number: Int, onEnd: @escaping @Sendable () -> Void = {}) { (self.number, self.onEnd) = (number, onEnd) }

        deinit { self.onEnd() }
    }

    @Test func `an element is released when it was handled, although others wait`() {
        let (queue, ended, seen) = (ManualQueue(), EventRecorder<Int>(), EventRecorder<[Int]>())
        let callbacks = CallbackQueue<Payload>(.standard, schedule: { queue.schedule($0) }) { _ in seen.record(ended.all) }
        for number in 0..<4 { callbacks.append(Payload(number) { ended.record(number) }) }
        queue.runAll()
        expectEqual(seen.all, [[], [0], [0, 1], [0, 1, 2]])
    }

    @Test func `an element can append another one when it is released`() {
        let (queue, handled) = (ManualQueue(), EventRecorder<Int>())
        let callbacks = CallbackQueue<Payload>(.standard, schedule: { queue.schedule($0) }) { handled.record($0.number) }
        callbacks.append(Payload(1) { [weak callbacks] in callbacks?.append(Payload(2)) })
        queue.runAll()
        expectEqual(handled.all, [1, 2])
    }

    @Test func `a delivery hands over one batch, and is scheduled again for the rest`() {
        let (queue, handled) = (ManualQueue(), EventRecorder<Int>())
        let callbacks = CallbackQueue<Int>(.standard, batchSize: 2, schedule: { queue.schedule($0) }) { number in
            handled.record(number)
            // Behind those that wait already.
            if number == 1 { queue.schedule { handled.record(-1) } }
        }
        for number in 1...5 { callbacks.append(number) }
        queue.runAll()
        expectEqual(handled.all, [1, 2, -1, 3, 4, 5])
        // Nothing is left, and one that is wanted now has no limit.
        for number in 6...10 { callbacks.append(number) }
        callbacks.deliverNow()
        expectEqual(handled.all.suffix(5), [6, 7, 8, 9, 10])
        queue.runAll()
        expectEqual(handled.all.count, 11)
    }

    @Test func `events that a policy drops aren't delivered, nor those after a batch`() {
        let (queue, handled) = (ManualQueue(), EventRecorder<Int>())
        let callbacks = CallbackQueue<Int>(.dropOldest(3), batchSize: 1, schedule: { queue.schedule($0) }) { handled.record($0) }
        for number in 1...5 { callbacks.append(number) }
        queue.runAll()
        expectEqual(handled.all, [3, 4, 5])
    }
}
