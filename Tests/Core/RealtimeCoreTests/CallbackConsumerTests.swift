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
    ) -> ObservationToken {
        self.driver.observe(policy, lifetime: .client, schedule: schedule) {
            $1.append(contentsOf: $0)
        } register: { machine, id, effects in
            machine.subscribe(id, to: topic, &effects)
        } callback: {
            callback($0)
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
        #expect(received.all == ["1", "2"])
        connection.receive("@ news 3")
        #expect(received.all == ["1", "2", "3"])
        token.cancel()
    }

    @Test func `a delivery is scheduled once for all events until it has run`() {
        let (toy, queue, received) = (Toy(), ManualQueue(), EventRecorder<String>())
        let connection = toy.connect()
        let token = toy.observe(schedule: { queue.schedule($0) }) { received.record($0) }
        connection.receive("@ news 1", "@ news 2")
        connection.receive("@ news 3")
        #expect(queue.count == 1 && received.all.isEmpty)
        queue.runAll()
        #expect(received.all == ["1", "2", "3"])
        connection.receive("@ news 4")
        #expect(queue.count == 1)
        queue.runAll()
        #expect(received.all.last == "4")
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
        #expect(received.all == ["begin 1", "end 1", "begin 2", "end 2"])
        token.cancel()
    }

    @Test func `pending events can be delivered immediately on the calling thread`() {
        let (toy, queue, received) = (Toy(), ManualQueue(), EventRecorder<String>())
        let connection = toy.connect()
        let token = toy.observe(schedule: { queue.schedule($0) }) { received.record($0) }
        connection.receive("@ news 1", "@ news 2")
        token.drainNow()
        #expect(received.all == ["1", "2"])
        // The scheduled delivery finds nothing, and doesn't count as one for later events.
        queue.runAll()
        connection.receive("@ news 3")
        queue.runAll()
        #expect(received.all == ["1", "2", "3"])
        token.cancel()
    }

    @Test func `draining during a callback has no effect`() {
        let (toy, received) = (Toy(), EventRecorder<String>())
        let tokens = EventRecorder<ObservationToken>()
        let connection = toy.connect()
        tokens.record(
            toy.observe { event in
                received.record("begin \(event)")
                tokens.all[0].drainNow()
                received.record("end \(event)")
            })
        connection.receive("@ news 1", "@ news 2")
        #expect(received.all == ["begin 1", "end 1", "begin 2", "end 2"])
        tokens.take()[0].cancel()
    }

    @Test func `after cancelling in a callback no event is delivered`() {
        let (toy, received) = (Toy(), EventRecorder<String>())
        let tokens = EventRecorder<ObservationToken>()
        let connection = toy.connect()
        tokens.record(
            toy.observe { event in
                received.record(event)
                if event == "2" { tokens.all[0].cancel() }
            })
        connection.receive("@ news 1", "@ news 2", "@ news 3")
        connection.receive("@ news 4")
        #expect(received.all == ["1", "2"])
        #expect(toy.driver.consumerCount == 0)
        _ = tokens.take()
    }

    @Test func `releasing the registration cancels the callback`() {
        let (toy, queue, received) = (Toy(), ManualQueue(), EventRecorder<String>())
        let connection = toy.connect()
        var token: ObservationToken? = toy.observe(schedule: { queue.schedule($0) }) { received.record($0) }
        connection.receive("@ news 1")
        token?.drainNow()
        connection.receive("@ news 2")
        token = nil
        queue.runAll()
        #expect(received.all == ["1"])
        #expect(toy.driver.consumerCount == 0)
    }

    @Test func `callbacks have the same buffer policies as sequences`() {
        let (toy, queue, received) = (Toy(), ManualQueue(), EventRecorder<String>())
        let connection = toy.connect()
        let oldest = toy.observe("news", .dropOldest(2), schedule: { queue.schedule($0) }) { received.record("oldest \($0)") }
        let newest = toy.observe("news", .dropNewest(2), schedule: { queue.schedule($0) }) { received.record("newest \($0)") }
        connection.receive("@ news 1", "@ news 2", "@ news 3")
        #expect(toy.driver.counters.eventsDropped == 2)
        queue.runAll()
        #expect(received.all == ["oldest 2", "oldest 3", "newest 1", "newest 2"])
        withExtendedLifetime((oldest, newest)) {}
    }

    @Test func `a full callback pauses reading and its delivery resumes it`() {
        let (toy, queue, received) = (Toy(), ManualQueue(), EventRecorder<String>())
        let connection = toy.connect()
        let token = toy.observe("news", .pauseReading(1), schedule: { queue.schedule($0) }) { received.record($0) }
        connection.receive("@ news 1")
        #expect(connection.calls.all == [.pause])
        queue.runAll()
        #expect(connection.calls.all == [.pause, .resume, .flush])
        #expect(received.all == ["1"])
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
        #expect(overlaps.withLock { $0 } == 0)
        for thread in 0..<4 {
            #expect(received.all.filter { $0.hasPrefix("\(thread):") } == (0..<500).map { "\(thread):\($0)" })
        }
        token.cancel()
    }
}
