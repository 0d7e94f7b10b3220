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
