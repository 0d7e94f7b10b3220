import Foundation
@testable import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

@Suite struct SessionDriverTests {
    // MARK: Connecting

    @Test func `starting opens one connection and starting again does nothing`() {
        let toy = Toy()
        toy.driver.start()
        toy.driver.start()
        expectEqual(toy.transport.made.all.map(\.id), [ConnectionID(rawValue: 1)])
        expectEqual(toy.connection.calls.all, [.open])
        toy.connection.connect()
        expect(toy.driver.read { $0.isConnected })
    }

    @Test func `after a loss the driver reconnects when the backoff has elapsed`() {
        let toy = Toy()
        toy.connect().end(.transport(TransportError(.reset, "reset")))
        expectEqual(toy.transport.made.all.count, 1)
        toy.clock.advance(by: .seconds(1))
        expectEqual(toy.transport.made.all.count, 2)
        toy.connection.connect()
        expect(toy.driver.read { $0.isConnected })
    }

    @Test func `late events of an abandoned connection are ignored`() async {
        let toy = Toy()
        let events = toy.events("news", .standard, .client)
        let old = toy.connect()
        toy.clock.advance(by: .seconds(90))
        expectEqual(old.calls.all, [.enqueue("."), .flush, .abandon])
        toy.clock.advance(by: .seconds(1))
        let new = toy.connection
        new.connect()
        old.receive("@ news late", "= a late")
        old.end(.peer(.policyViolation, ""))
        new.receive("@ news fresh")
        await expectEqual(events.pending(), ["fresh"])
        expect(toy.driver.read { $0.isConnected })
    }

    @Test func `messages sent in one step are flushed once`() {
        let toy = Toy()
        let connection = toy.connect()
        toy.driver.step { machine, _, effects in for line in ["a", "b", "c"] { machine.send(line, &effects) } }
        expectEqual(connection.calls.all, [.enqueue("a"), .enqueue("b"), .enqueue("c"), .flush])
        expect(toy.driver.counters.messagesSent == 3 && toy.driver.counters.bytesSent == 3)
    }

    @Test func `messages for a connection that has ended are dropped`() {
        let toy = Toy()
        let connection = toy.connect()
        toy.driver.step { _, _, effects in
            effects.commands.append(.abandon(connection.id))
            effects.commands.append(.send(connection.id, .text("late")))
            effects.commands.append(.close(connection.id, .normal, reason: ""))
        }
        expectEqual(connection.calls.all, [.abandon])
        expectEqual(toy.driver.counters.messagesSent, 0)
    }

    @Test func `a session receives the decision that follows a loss`() throws {
        let toy = Toy(policy: { $0.maximumImmediateReconnects = 1 })
        toy.connect().end(.peer(.goingAway, ""))
        expectEqual(toy.driver.read { $0.nextAttempts }, [.reconnect(ConnectionID(rawValue: 2))])
        toy.connection.connect()
        toy.connection.end(.peer(.goingAway, ""))
        let retry = try #require(toy.driver.nextDeadline)
        expectEqual(toy.driver.read { $0.nextAttempts.last }, .later(until: retry))
        toy.clock.time.advance(to: retry)
        // A timeout of the attempt.
        toy.clock.advance(by: .seconds(15))
        try expectEqual(toy.driver.read { $0.nextAttempts.last }, .later(until: #require(toy.driver.nextDeadline)))
        toy.driver.stop()
        expectEqual(toy.driver.read { $0.nextAttempts.last }, .never)
        expectEqual(toy.driver.read { $0.nextAttempts.count }, 4)
    }

    // MARK: Waiting callers

    @Test func `each caller receives its own result and a second result is ignored`() async {
        let toy = Toy()
        let connection = toy.connect()
        let (first, second) = (await toy.request("a"), await toy.request("b"))
        expectEqual(connection.calls.all, [.enqueue("? a"), .flush, .enqueue("? b"), .flush])
        connection.receive("= b two", "= a one", "= a again")
        await expectEqual(first.value, .success("one"))
        await expectEqual(second.value, .success("two"))
    }

    @Test func `resuming a caller twice keeps the first result`() async {
        let toy = Toy()
        let connection = toy.connect()
        let task = await toy.request("a")
        let waiter = toy.driver.read { $0.requests["a"]! }
        toy.driver.step { _, _, effects in
            effects.commands.append(.resume(waiter, .success("one")))
            effects.commands.append(.resume(waiter, .failure(.cancelled)))
        }
        connection.receive("= a three")
        await expectEqual(task.value, .success("one"))
    }

    @Test func `a result that is available immediately is returned without waiting`() async {
        let toy = Toy()
        await #expect(throws: ToySession.Failure.ended(.requested)) { try await toy.driver.awaitResult { $0.request("a", $1, &$3) } }
    }

    @Test func `cancelling a task ends its wait and removes its request from the machine`() async {
        let toy = Toy()
        let connection = toy.connect()
        let task = await toy.request("a")
        task.cancel()
        await expectEqual(task.value, .failure(.cancelled))
        expect(toy.driver.read { $0.requests.isEmpty })
        connection.receive("= a late")
    }

    @Test func `a sequence starts with an element of the machine and continues with the next event`() async {
        let toy = Toy()
        let connection = toy.connect()
        connection.receive("@ news 1")
        let events = toy.driver.makeSequence(.standard, lifetime: .connection, startingWith: { "at \($0.connection.state)" }) {
            $1.append(contentsOf: $0)
        } register: { machine, id, effects in
            machine.subscribe(id, to: "news", &effects)
        }
        let state = toy.driver.read { "at \($0.connection.state)" }
        connection.receive("@ news 2")
        await expectEqual(events.pending(), [state, "2"])
    }

    @Test func `reading resumes after a first element that filled the buffer was taken`() async {
        let toy = Toy()
        let connection = toy.connect()
        let events = toy.driver.makeSequence(.pauseReading(1), lifetime: .connection, startingWith: { _ in "first" }) {
            $1.append(contentsOf: $0)
        } register: { machine, id, effects in
            machine.subscribe(id, to: "news", &effects)
        }
        connection.receive("@ news 1")
        expect(connection.calls.take().contains(.pause))
        await expectEqual(events.pending(), ["first", "1"])
        expect(connection.calls.take().contains(.resume))
    }

    @Test func `a cancelled task does not wait`() async {
        let toy = Toy()
        _ = toy.connect()
        let task = Task { [driver = toy.driver] () -> Bool in
            withUnsafeCurrentTask { $0?.cancel() }
            do throws(ToySession.Failure) {
                _ = try await driver.awaitResult { $0.request("a", $1, &$3) }
                return false
            } catch {
                return error == .cancelled
            }
        }
        await expect(task.value)
        expect(toy.driver.read { $0.requests.isEmpty })
    }

    @Test func `a caller whose time limit passes fails with that limit`() async {
        let toy = Toy()
        let connection = toy.connect()
        let (short, long) = (await toy.request("a", limit: .seconds(5)), await toy.request("b", limit: .seconds(10)))
        toy.clock.advance(by: .seconds(5))
        await expectEqual(short.value, .failure(.timedOut(.time(.seconds(5)))))
        expectEqual(toy.driver.read { $0.requests.keys.sorted() }, ["b"])
        connection.receive("= b in time")
        await expectEqual(long.value, .success("in time"))
        expectEqual(toy.driver.nextDeadline, toy.driver.read { $0.nextDeadline })
    }

    @Test func `the end of the connection fails all waiting callers`() async {
        let toy = Toy()
        let connection = toy.connect()
        let (first, second) = (await toy.request("a"), await toy.request("b", limit: .seconds(100)))
        connection.end(.peer(.policyViolation, "no"))
        for task in [first, second] { await expectEqual(task.value, .failure(.ended(.peer(.policyViolation, "no")))) }
        expectNil(toy.driver.nextDeadline)
    }

    @Test func `a thousand callers receive their own results`() async {
        let toy = Toy()
        let connection = toy.connect()
        var tasks: [Task<Result<String, ToySession.Failure>, Never>] = []
        for number in 0..<1000 { tasks.append(await toy.request("\(number)", limit: .seconds(number % 2 == 0 ? 50 : 5))) }
        connection.receive((0..<1000).reversed().filter { $0 % 4 == 0 }.map { "= \($0) response-\($0)" })
        toy.clock.advance(by: .seconds(5))
        toy.driver.stop()
        for (number, task) in tasks.enumerated() {
            let expected: Result<String, ToySession.Failure> =
                switch number % 4 {
                case 0: .success("response-\(number)")
                case 1, 3: .failure(.timedOut(.time(.seconds(5))))
                default: .failure(.ended(.requested))
                }
            await expectEqual(task.value, expected)
        }
    }

    // MARK: Consumers

    @Test func `consumers receive the events of their topic in order`() async {
        let toy = Toy()
        let connection = toy.connect()
        let (news, again, sport) = (toy.events("news"), toy.events("news"), toy.events("sport"))
        connection.receive("@ news 1", "@ sport 2", "@ news 3", "@ weather 4")
        connection.receive("@ news 5")
        await expectEqual(news.pending(), ["1", "3", "5"])
        await expectEqual(again.pending(), ["1", "3", "5"])
        await expectEqual(sport.pending(), ["2"])
    }

    @Test func `a full consumer drops events without affecting others`() async {
        let toy = Toy()
        let connection = toy.connect()
        let (small, large) = (toy.events("news", .dropOldest(2)), toy.events("news"))
        connection.receive((1...5).map { "@ news \($0)" })
        expect(small.dropped == 3 && large.dropped == 0)
        expectEqual(toy.driver.counters.eventsDropped, 3)
        await expectEqual(small.pending(), ["4", "5"])
        await expectEqual(large.pending().count, 5)
    }

    @Test func `a full consumer pauses reading and draining it resumes reading`() async {
        let toy = Toy()
        let connection = toy.connect()
        let (first, second) = (toy.events("news", .pauseReading(2)), toy.events("news", .pauseReading(3)))
        connection.receive("@ news 1")
        expectEqual(connection.calls.all, [])
        connection.receive("@ news 2")
        expectEqual(connection.calls.all, [.pause])
        connection.receive("@ news 3")
        expectEqual(connection.calls.all, [.pause])
        await expectEqual(first.pending(), ["1", "2", "3"])
        // The other consumer is still full.
        expectEqual(connection.calls.all, [.pause])
        await expectEqual(second.pending().count, 3)
        expectEqual(connection.calls.all, [.pause, .resume, .flush])
        expectEqual(toy.driver.read { $0.readings }, [true, false])
        connection.receive("@ news 4", "@ news 5")
        expectEqual(connection.calls.all.last, .pause)
        // The heartbeat is suspended while reading is paused.
        toy.clock.advance(by: .seconds(1000))
        expectEqual(connection.calls.all.last, .pause)
    }

    @Test func `a machine pauses and resumes the reading of its connection`() {
        let toy = Toy()
        let connection = toy.connect()
        connection.receive("pause")
        connection.receive("pause")
        expect(connection.calls.take() == [.pause] && toy.driver.read { $0.readings } == [true])
        connection.receive("resume")
        expect(connection.calls.take() == [.resume, .flush] && toy.driver.read { $0.readings } == [true, false])
    }

    @Test func `a new connection is read although a consumer is still full`() async {
        let toy = Toy()
        let old = toy.connect()
        let events = toy.events("news", .pauseReading(1))
        old.receive("@ news 1")
        old.end(.transport(TransportError(.reset, "reset")))
        toy.clock.advance(by: .seconds(1))
        let new = toy.connection
        new.connect()
        expect(toy.driver.read { $0.isConnected })
        expectEqual(new.calls.all, [.open])
        new.receive("@ news 2")
        expectEqual(new.calls.all, [.open, .pause])
        await expectEqual(events.pending(), ["1", "2"])
        expectEqual(new.calls.all, [.open, .pause, .resume, .flush])
        expectEqual(old.calls.all.contains(.resume), false)
    }

    @Test func `releasing a full sequence resumes reading`() {
        let toy = Toy()
        let connection = toy.connect()
        var events: EventSequence<String>? = toy.events("news", .pauseReading(1))
        connection.receive("@ news 1")
        expect(events?.dropped == 0 && connection.calls.all == [.pause])
        events = nil
        expectEqual(connection.calls.all, [.pause, .resume, .flush])
        expectEqual(toy.driver.consumerCount, 0)
    }

    @Test func `ending a full consumer resumes reading`() async {
        let toy = Toy()
        let connection = toy.connect()
        let events = toy.events("news", .pauseReading(1))
        connection.receive("@ news 1")
        connection.receive("end news")
        expectEqual(connection.calls.all, [.pause, .resume, .flush])
        expectEqual(events.endReason, .ended)
        await expectEqual(events.pending(), ["1"])
    }

    @Test func `ending a consumer while it takes the last batch resumes reading`() {
        let toy = Toy()
        let connection = toy.connect()
        let (events, others) = (toy.events("news", .pauseReading(1)), toy.events("sport", .pauseReading(1)))
        connection.receive("@ news 1")
        // The two steps of taking a batch, with the end of the consumer between them.
        var batch = EventBuffer<String>.Batch()
        let wasFull = events.consumer.buffer.take(into: &batch).wasFull
        connection.receive("end news")
        if wasFull { events.consumer.drained() }
        expectEqual(connection.calls.all, [.pause, .resume, .flush])
        connection.receive("@ sport 1")
        expect(others.consumer.buffer.take(into: &batch).wasFull)
        others.consumer.drained()
        expectEqual(connection.calls.all.suffix(3), [.pause, .resume, .flush])
    }

    @Test func `a consumer that fills up again while it is drained keeps reading paused`() {
        let toy = Toy()
        let connection = toy.connect()
        let events = toy.events("news", .pauseReading(1))
        connection.receive("@ news 1")
        var batch = EventBuffer<String>.Batch()
        expect(events.consumer.buffer.take(into: &batch).wasFull)
        connection.receive("@ news 2")
        events.consumer.drained()
        expectEqual(connection.calls.all, [.pause])
        batch = EventBuffer<String>.Batch()
        expect(events.consumer.buffer.take(into: &batch).wasFull)
        events.consumer.drained()
        expectEqual(connection.calls.all, [.pause, .resume, .flush])
    }

    @Test func `the end of the connection finishes its consumers but not those of the client`() async {
        let toy = Toy()
        let connection = toy.connect()
        let (ofConnection, ofClient) = (toy.events("news"), toy.events("news", .standard, .client))
        connection.receive("@ news 1")
        connection.end(.peer(.policyViolation, "no"))
        expect(ofConnection.endReason == .closed(.peer(.policyViolation, "no")) && ofClient.endReason == nil)
        await expectEqual(ofConnection.pending(), ["1"])
        toy.connect().receive("@ news 2")
        await expectEqual(ofClient.pending(), ["1", "2"])
        toy.driver.shutDown()
        expectEqual(ofClient.endReason, .ended)
        expectEqual(toy.driver.consumerCount, 0)
    }

    // MARK: Work

    @Test func `work starts outside the lock and its result reaches the machine`() {
        let begun = EventRecorder<String>()
        let toy = Toy(perform: { work, id, driver in
            begun.record(work)
            driver.workFinished(id, "\(work)-result")
            return nil
        })
        let connection = toy.connect()
        connection.receive("do a", "do b")
        expectEqual(begun.all, ["a", "b"])
        expectEqual(connection.calls.all, [.enqueue("done a-result"), .flush, .enqueue("done b-result"), .flush])
    }

    @Test func `work that finishes immediately and is followed by more takes no more of the stack`() {
        let addresses = EventRecorder<UInt>()
        let toy = Toy(perform: { work, id, driver in
            var local = 0
            addresses.record(withUnsafeMutablePointer(to: &local) { UInt(bitPattern: $0) })
            let count = Int(work) ?? 0
            driver.workFinished(id, count == 1 ? "end" : "then \(count - 1)")
            return nil
        })
        let connection = toy.connect()
        connection.receive("do 500")
        expect(addresses.all.count == 500 && connection.calls.all == [.enqueue("done end"), .flush])
        let depth = (addresses.all.max() ?? 0) - (addresses.all.min() ?? 0)
        expect(depth < 8 << 10, "500 works take \(depth) bytes of the stack.")
    }

    @Test func `work takes no more of the stack while another thread begins some`() async throws {
        let addresses = EventRecorder<UInt>()
        let connection = Lock<ManualConnection?>(nil)
        let toy = Toy(perform: { work, id, driver in
            var local = 0
            guard let count = Int(work) else {
                // This thread begins work until the other one has finished its own.
                let finished = DispatchSemaphore(value: 0)
                Thread.detachNewThread {
                    connection.withLock { $0 }?.receive("do 100")
                    finished.signal()
                }
                finished.wait()
                driver.workFinished(id, "then 1")
                return nil
            }
            addresses.record(withUnsafeMutablePointer(to: &local) { UInt(bitPattern: $0) })
            driver.workFinished(id, count == 1 ? "end" : "then \(count - 1)")
            return nil
        })
        let made = toy.connect()
        connection.withLock { $0 = made }
        try await onOwnThread { made.receive("do wait") }
        expect(addresses.all.count == 101 && made.calls.all == [.enqueue("done end"), .flush, .enqueue("done end"), .flush])
        let others = addresses.all.dropLast()
        let depth = (others.max() ?? 0) - (others.min() ?? 0)
        expect(depth < 8 << 10, "100 works take \(depth) bytes of the stack.")
        connection.withLock { $0 = nil }
    }

    @Test func `much work that follows other work takes linear time`() async throws {
        try await expectLinearCost { items in
            // So many that the cost of moving the rest of a list exceeds that of the work.
            let count = 4 * items
            let toy = Toy(perform: { work, id, driver in
                if work == "first" {
                    driver.step { _, _, effects in
                        for number in 1...count { effects.commands.append(.work(WorkID(rawValue: UInt64(number) + 1), "next")) }
                    }
                }
                driver.workFinished(id, work)
                return nil
            })
            return {
                toy.driver.step { _, _, effects in effects.commands.append(.work(WorkID(rawValue: 1), "first")) }
                expectEqual(toy.driver.read { $0.results.count }, count + 1)
            }
        }
    }

    @Test func `work that is cancelled before it starts never starts`() {
        let begun = EventRecorder<String>()
        let toy = Toy(perform: { work, _, _ in
            begun.record(work)
            return nil
        })
        toy.connect().receive("do a", "undo")
        expectEqual(begun.all, [])
    }

    @Test func `the late result of cancelled work is ignored`() {
        let cancelled = EventRecorder<String>()
        let toy = Toy(perform: { work, _, _ in
            { cancelled.record(work) }
        })
        let connection = toy.connect()
        connection.receive("do a")
        expectEqual(cancelled.all, [])
        connection.receive("undo")
        expectEqual(cancelled.all, ["a"])
        toy.driver.workFinished(WorkID(rawValue: 1), "late")
        expectEqual(toy.driver.read { $0.results }, [])
    }

    @Test func `cancelling work while it starts calls its cancellation closure`() {
        let cancelled = EventRecorder<String>()
        let connections = EventRecorder<ManualConnection>()
        let toy = Toy(perform: { work, _, _ in
            connections.all[0].receive("undo")
            return { cancelled.record(work) }
        })
        let connection = toy.connect()
        connections.record(connection)
        connection.receive("do a")
        expectEqual(cancelled.all, ["a"])
    }

    @Test func `only the first result of work is used`() {
        let toy = Toy()
        toy.connect().receive("do a")
        toy.driver.workFinished(WorkID(rawValue: 1), "one")
        toy.driver.workFinished(WorkID(rawValue: 1), "two")
        expectEqual(toy.driver.read { $0.results }, ["one"])
    }

    // MARK: Stopping

    @Test func `stopping ends the session in every state`() {
        let states: [(String, (Toy) -> Void)] = [
            ("idle", { _ in }),
            ("opening", { $0.driver.start() }),
            ("connected", { _ = $0.connect() }),
            ("backing off", { $0.connect().end(.transport(TransportError(.reset, "reset"))) }),
            (
                "closing",
                { toy in
                    _ = toy.connect()
                    toy.driver.stop()
                }
            ),
            ("closed", { $0.connect().end(.peer(.policyViolation, "")) }),
        ]
        for (name, reach) in states {
            let toy = Toy()
            reach(toy)
            let events = toy.events("news")
            let isOver = name == "closing" || name == "closed"
            toy.driver.stop()
            expectEqual(events.endReason, (isOver ? nil : .closed(.requested)), "\(name)")
            let opened = toy.transport.made.all.count
            for connection in toy.transport.made.all { connection.end(.requested) }
            toy.clock.advance(by: .seconds(3600))
            expectEqual(toy.transport.made.all.count, opened, "\(name)")
            expectNil(toy.driver.nextDeadline, "\(name)")
        }
    }

    @Test func `a connection whose peer does not respond to a close is abandoned after the close timeout`() {
        let toy = Toy()
        let connection = toy.connect()
        toy.driver.stop()
        expectEqual(connection.calls.take(), [.close(.normal)])
        toy.clock.advance(by: .seconds(5))
        expectEqual(connection.calls.all, [.abandon])
    }

    @Test(arguments: [true, false])
    func `starting while the old connection is closing opens a new one beside it`(closes: Bool) {
        let toy = Toy()
        let old = toy.connect()
        toy.driver.stop()
        toy.driver.start()
        expectEqual(old.calls.all, [.close(.normal)])
        toy.connection.connect()
        if closes { old.end(.requested) }
        toy.clock.advance(by: .seconds(5))
        expectEqual(old.calls.all, (closes ? [.close(.normal)] : [.close(.normal), .abandon]))
        expect(toy.driver.read { $0.isConnected })
    }

    // MARK: Time

    @Test func `a deadline that moves later does not reschedule the timer`() {
        let toy = Toy()
        let connection = toy.connect()
        let before = toy.time.scheduled.all.count
        for _ in 0..<1000 { connection.receive("@ news 1") }
        expectEqual(toy.time.scheduled.all.count, before)
    }

    @Test func `a timer that fires early is rescheduled`() {
        let toy = Toy()
        let connection = toy.connect()
        // The timer was scheduled for the open timeout, and has been rescheduled for the heartbeat.
        toy.clock.advance(by: .seconds(59))
        connection.receive("@ news 1")
        let before = toy.time.scheduled.all.count
        toy.clock.advance(by: .seconds(59))
        expectEqual(toy.time.scheduled.all.count, before + 1)
        expectEqual(connection.calls.all, [])
        toy.clock.advance(by: .seconds(1))
        expectEqual(connection.calls.all, [.enqueue("."), .flush])
    }

    @Test func `a deadline that moves earlier reschedules the timer`() async {
        let toy = Toy()
        _ = toy.connect()
        let before = toy.time.scheduled.all.count
        let task = await toy.request("a", limit: .seconds(1))
        expectEqual(toy.time.scheduled.all.count, before + 1)
        expectEqual(toy.time.scheduled.all.last, .some(Instant(nanoseconds: 1_000_000_000)))
        toy.driver.stop()
        _ = await task.value
    }

    // MARK: Reentrancy

    @Test func `code outside the driver is called without holding the lock`() {
        let drivers = EventRecorder<SessionDriver<ToySession>>()
        let seen = EventRecorder<Bool>()
        let look: @Sendable () -> Void = { seen.record(drivers.all.first?.read { $0.isConnected } ?? false) }
        let toy = Toy(
            log: LogSink(minimumLevel: .debug) { _, _, _ in look() }, whenFlushed: { _ in look() },
            perform: { work, id, driver in
                look()
                driver.workFinished(id, work)
                return nil
            })
        drivers.record(toy.driver)
        let connection = toy.connect()
        connection.receive("do a")
        toy.driver.step { machine, _, effects in machine.send("b", &effects) }
        // The log message, the work, the flush of its result, and the flush of the sent message.
        expectEqual(seen.all, [false, true, true, true])
        // Breaks the reference cycle between the driver and the closure.
        _ = drivers.take()
    }

    @Test func `a transport may deliver a message during flush`() async throws {
        let toy = Toy(whenFlushed: { connection in
            for case .enqueue(let line) in connection.calls.take() where line.hasPrefix("? ") {
                connection.receive("= \(line.dropFirst(2)) ok")
            }
        })
        _ = toy.connect()
        for number in 0..<3 {
            let response = try await toy.driver.awaitResult { $0.request("\(number)", $1, &$3) }
            expectEqual(response, "ok")
        }
    }

    @Test func `a consumer may call back into the driver`() async throws {
        let toy = Toy()
        let connection = toy.connect()
        let events = toy.events("news", .pauseReading(1))
        connection.receive("@ news 1", "@ news 2")
        for await event in events {
            toy.driver.step { machine, _, effects in machine.send("seen \(event)", &effects) }
            let nested = toy.events("nested")
            connection.receive("@ nested \(event)")
            await expectEqual(nested.pending(), [event])
            if event == "2" { toy.driver.stop() }
        }
        expectEqual(events.endReason, .closed(.requested))
        expect(connection.calls.all.contains(.enqueue("seen 2")))
    }

    @Test func `the driver is deallocated after its owner and its connection`() {
        weak var driver: SessionDriver<ToySession>?
        do {
            let toy = Toy()
            driver = toy.driver
            let connection = toy.connect()
            let events = toy.events("news")
            connection.receive("@ news 1")
            toy.driver.shutDown()
            connection.end(.requested)
            expectEqual(events.endReason, .ended)
        }
        expectNil(driver)
    }

    @Test(arguments: [false, true])
    func `a release that ends sequences is their reason, and is logged if it may be a mistake`(reportsRelease: Bool) {
        let lines = EventRecorder<String>()
        let toy = Toy(log: LogSink(minimumLevel: .warning) { lines.record("\($0): \($2)") })
        _ = toy.connect()
        let (ofConnection, ofClient) = (toy.events("news", reportsRelease: reportsRelease), toy.events("news", .standard, .client))
        toy.driver.shutDown()
        expect(ofConnection.endReason == .ended && ofClient.endReason == .ended)
        let warning =
            "warning: The client was released, which ends its connection and the loops over its events. Keep a reference to it for as long as "
            + "it is needed."
        expectEqual(lines.all, reportsRelease ? [warning] : [])
    }

    @Test func `a release isn't logged if the sequences were released before`() {
        let lines = EventRecorder<String>()
        let toy = Toy(log: LogSink(minimumLevel: .warning) { lines.record("\($0): \($2)") })
        _ = toy.connect()
        _ = toy.events("news", reportsRelease: true)
        toy.driver.shutDown()
        expect(lines.all.isEmpty, "\(lines.all)")
    }

    // MARK: Threads

    @Test func `threads can send, receive, subscribe and wait concurrently`() async {
        let toy = Toy(whenFlushed: { connection in
            for case .enqueue(let line) in connection.calls.take() where line.hasPrefix("? ") {
                connection.receive("= \(line.dropFirst(2)) ok")
            }
        })
        let connection = toy.connect()
        let (all, bounded) = (toy.events("news", .dropNewest(1_000_000)), toy.events("news", .pauseReading(8)))
        await withTaskGroup(of: Int.self) { group in
            group.addTask {
                for number in 0..<2000 { connection.receive("@ news \(number)", "@ sport \(number)") }
                connection.receive("end news")
                return 0
            }
            group.addTask {
                for number in 0..<500 { toy.driver.step { machine, _, effects in machine.send("line \(number)", &effects) } }
                return 0
            }
            group.addTask {
                for number in 0..<300 {
                    let response = try? await toy.driver.awaitResult { $0.request("q\(number)", $1, &$3) }
                    expectEqual(response, "ok")
                }
                return 0
            }
            group.addTask {
                for _ in 0..<300 { _ = await toy.events("sport", .pauseReading(1)).pending() }
                return 0
            }
            for sequence in [all, bounded] {
                group.addTask {
                    var last = -1
                    for await event in sequence {
                        expectEqual(Int(event), last + 1)
                        last += 1
                    }
                    return last + 1
                }
            }
            var seen = 0
            for await count in group { seen += count }
            expectEqual(seen, 4000)
        }
        expect(toy.driver.read { $0.readings.last } != true)
        expectEqual(all.endReason, .ended)
    }
}
