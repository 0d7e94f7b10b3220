@testable import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// An object of the application that calls the driver when it is released.
private final class Resource: Sendable {
    private let number: Int
    private let whenReleased: @Sendable (Int) -> Void

    init(_ number: Int, whenReleased: @escaping @Sendable (Int) -> Void) {
        self.number = number
        self.whenReleased = whenReleased
    }

    deinit { self.whenReleased(self.number) }
}

/// A server whose events and results are objects.
private struct ResourceMachine: SessionMachine {
    typealias Event = Resource
    typealias WaiterResult = Resource
    enum Failure: Error { case cancelled }
    typealias Request = Never
    typealias Work = Never
    typealias WorkResult = Never

    var route = EventRoutes.none
    var deadline: Instant?
    private(set) var timeouts = 0
    private(set) var writing: [Bool] = []

    var nextDeadline: Instant? { self.deadline }
    func cancellation(of waiter: WaiterID) -> Failure { .cancelled }
    func timedOut(_ waiter: WaiterID, after: WaitLimit) -> Failure { .cancelled }

    mutating func start(now: Instant, _ effects: inout Effects<Self>) {}
    mutating func stop(now: Instant, _ effects: inout Effects<Self>) {}
    mutating func opened(_ id: ConnectionID, head: HTTPResponseHead, now: Instant, _ effects: inout Effects<Self>) {}
    mutating func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, now: Instant, _ effects: inout Effects<Self>) {}
    mutating func reading(_ id: ConnectionID, paused: Bool, now: Instant) {}
    mutating func writing(_ id: ConnectionID, paused: Bool, now: Instant, _ effects: inout Effects<Self>) { self.writing.append(paused) }
    mutating func closed(_ id: ConnectionID, _ reason: CloseReason, now: Instant, _ effects: inout Effects<Self>) {}
    mutating func workFinished(_ id: WorkID, _ result: Never, now: Instant, _ effects: inout Effects<Self>) {}
    mutating func timeout(now: Instant, _ effects: inout Effects<Self>) { self.timeouts += 1 }
    mutating func cancelled(_ waiter: WaiterID, now: Instant, _ effects: inout Effects<Self>) {}
}

/// A driver whose events call it when they are released, which would not return if they were released under its lock.
private final class ResourceFixture: Sendable {
    let clock = ManualClock()
    let log = EventRecorder<String>()
    let driver: SessionDriver<ResourceMachine>
    let released = EventRecorder<Int>()

    init() {
        self.driver = SessionDriver(
            ResourceMachine(),
            in: .init(time: self.clock.time, log: LogSink(minimumLevel: .debug) { [log] in log.record($2) }, subsystem: "test"))
    }

    func resource(_ number: Int) -> Resource {
        Resource(number) { [weak driver, released] number in
            driver?.step { _, _, _ in }
            released.record(number)
        }
    }

    func events(_ policy: BufferPolicy) -> EventSequence<Resource> {
        self.driver.makeSequence(policy, lifetime: .client) {
            $1.append(contentsOf: $0)
        } register: { machine, id, effects in
            effects.routes.add(id, to: &machine.route)
        }
    }

    func deliver(_ numbers: ClosedRange<Int>) {
        self.driver.step { machine, _, effects in
            for number in numbers { effects.deliver(self.resource(number), on: machine.route) }
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct DriverProtectionTests {
    // MARK: Objects of the application

    @Test(arguments: [BufferPolicy.dropOldest(2), .dropNewest(2)])
    func `events that a full consumer drops are released without holding the lock`(policy: BufferPolicy) {
        let fixture = ResourceFixture()
        let events = fixture.events(policy)
        for start in stride(from: 1, through: 20, by: 5) { fixture.deliver(start...start + 4) }
        expectEqual(events.dropped, 18)
        expect(fixture.released.all.count >= 15)
    }

    @Test func `events are released without holding the lock when their sequence is released`() {
        let fixture = ResourceFixture()
        var events: EventSequence<Resource>? = fixture.events(.standard)
        fixture.deliver(1...5)
        expectEqual(events?.dropped, 0)
        events = nil
        expectEqual(fixture.released.all, [1, 2, 3, 4, 5])
    }

    @Test func `an event that its consumer has released already is released without holding the lock`() async {
        let fixture = ResourceFixture()
        let events = fixture.events(.dropNewest(1))
        // The consumer drops all but the first, so that the driver's copies are the last.
        fixture.deliver(1...3)
        expectEqual(fixture.released.all, [2, 3])
        _ = await events.pending()
        expectEqual(Set(fixture.released.all), [1, 2, 3])
    }

    @Test func `a result that no caller waits for is released without holding the lock`() {
        let fixture = ResourceFixture()
        fixture.driver.step { _, _, effects in
            effects.commands.append(.resume(WaiterID(rawValue: 99), .success(fixture.resource(1))))
        }
        expectEqual(fixture.released.all, [1])
    }

    @Test func `a callback is released without holding the lock`() {
        let fixture = ResourceFixture()
        do {
            let resource = fixture.resource(1)
            let token = fixture.driver.observe(.standard, lifetime: .client, schedule: { $0() }) {
                $1.append(contentsOf: $0)
            } register: { machine, id, effects in
                effects.routes.add(id, to: &machine.route)
            } callback: { _ in
                withExtendedLifetime(resource) {}
            }
            fixture.driver.shutDown()
            token.cancel()
        }
        expectEqual(fixture.released.all, [1])
    }

    // MARK: Deadlines

    @Test func `a deadline that remains in the past fires at most once per millisecond and is logged once`() {
        let fixture = ResourceFixture()
        fixture.driver.step { machine, now, _ in machine.deadline = now.advanced(by: .seconds(1)) }
        fixture.clock.advance(by: .seconds(1))
        expectEqual(fixture.driver.read { $0.timeouts }, 1)
        for _ in 1...10 { fixture.clock.advance(by: .milliseconds(1)) }
        expectEqual(fixture.driver.read { $0.timeouts }, 11)
        expectEqual(fixture.log.all.count, 1)
    }

    // MARK: Several connections

    @Test func `draining a full consumer resumes all paused connections`() async {
        let fixture = Toy()
        let main = fixture.connect()
        let events = fixture.events("news", .pauseReading(1), .client)
        main.receive("@ news 1")
        // A second connection of the same session, as while a transport is upgraded.
        let second = fixture.addConnection()
        fixture.driver.step { machine, _, effects in machine.publish("2", "news", &effects) }
        second.receive("@ news 3")
        expectEqual(main.calls.all, [.pause])
        expectEqual(second.calls.all, [.pause])
        await expectEqual(events.pending(), ["1", "2", "3"])
        expectEqual(main.calls.all, [.pause, .resume, .flush])
        expectEqual(second.calls.all, [.pause, .resume, .flush])
    }

    /// A session with two connections and a consumer that has fallen far behind.
    private func overflowing() -> (Toy, main: ManualConnection, second: ManualConnection, EventSequence<String>) {
        let toy = Toy()
        let (main, second) = (toy.connect(), toy.addConnection())
        let events = toy.events("news", .pauseReading(1), .client)
        toy.driver.step { machine, _, effects in for _ in 0...(1 << 18) { machine.publish("0", "news", &effects) } }
        return (toy, main, second, events)
    }

    @Test func `a consumer that has fallen behind on one connection is given up although another one ends`() async {
        let (toy, main, second, events) = self.overflowing()
        let task = await toy.request("a")
        _ = main.calls.take()
        main.receive("@ news 1")
        expectEqual(main.calls.take(), [.pause])
        second.end(.transport(TransportError(.reset, "reset")))
        toy.clock.advance(by: .seconds(29))
        expect(toy.driver.read { $0.overflows.isEmpty })
        toy.clock.advance(by: .seconds(1))
        expectEqual(toy.driver.read { $0.overflows.count }, 1)
        main.receive("= a answer")
        await expectEqual(task.value, .success("answer"))
        expectNil(events.endReason)
    }

    @Test func `a consumer isn't given up for a connection that was abandoned`() async {
        let (toy, main, second, events) = self.overflowing()
        let task = await toy.request("a")
        second.receive("@ news 1")
        expectEqual(second.calls.take(), [.pause])
        toy.driver.step { _, _, effects in effects.commands.append(.abandon(second.id)) }
        toy.clock.advance(by: .seconds(30))
        expect(toy.driver.read { $0.overflows.isEmpty })
        main.receive("= a answer")
        await expectEqual(task.value, .success("answer"))
        expectNil(events.endReason)
    }

    @Test func `a connection is read again when the one ends on which a consumer has fallen behind`() async throws {
        let (toy, main, second, events) = self.overflowing()
        let other = toy.driver.makeSequence(.standard, lifetime: .client, awaitsPeer: true) {
            $1.append(contentsOf: $0)
        } register: { machine, id, effects in
            machine.subscribe(id, to: "other", &effects)
        }
        let task = Task { await other.first { _ in true } }
        try await eventually { toy.driver.state.withLock { $0.isReaderWaiting() } }
        main.receive("@ news 1")
        second.receive("@ news 2")
        expect(main.calls.take() == [.pause] && second.calls.take() == [.pause])
        main.end(.transport(TransportError(.reset, "reset")))
        expectEqual(second.calls.take(), [.resume, .flush])
        second.receive("@ other 3")
        await expectEqual(task.value, "3")
        expectNil(events.endReason)
    }

    @Test func `a machine learns when output waits for a slow peer`() {
        let fixture = ResourceFixture()
        let connection = ManualConnection(ConnectionID(rawValue: 1), fixture.driver) { _ in }
        fixture.driver.adopt(connection, id: connection.id) { _, _, _ in }
        fixture.driver.writing(connection.id, paused: true)
        fixture.driver.writing(connection.id, paused: false)
        fixture.driver.writing(ConnectionID(rawValue: 7), paused: true)
        expectEqual(fixture.driver.read { $0.writing }, [true, false])
        connection.releaseEvents()
    }

    // MARK: Callers that wait while a consumer is full

    @Test func `a consumer that waits for a response in its loop receives it`() async throws {
        let toy = Toy()
        let connection = toy.connect()
        let events = toy.events("news", .pauseReading(1))
        connection.receive("@ news 1")
        expectEqual(connection.calls.take(), [.pause])
        for await event in events {
            // Meanwhile the consumer is full again.
            connection.receive("@ news \(event)+")
            expectEqual(connection.calls.take().last, .pause)
            let task = await toy.request("a")
            expectEqual(connection.calls.take(), [.resume, .enqueue("? a"), .flush])
            connection.receive("@ news more")
            expectEqual(connection.calls.take(), [])
            connection.receive("= a answer")
            await expectEqual(task.value, .success("answer"))
            // No caller waits any more.
            connection.receive("@ news even-more")
            expectEqual(connection.calls.take(), [.pause])
            break
        }
    }

    @Test func `waiting for the end of the session does not keep it reading`() async {
        let toy = Toy()
        let connection = toy.connect()
        let events = toy.events("news", .pauseReading(1))
        let task = await toy.request("end", awaitsPeer: false)
        connection.receive("@ news 1")
        expect(connection.calls.all.contains(.pause))
        toy.driver.stop()
        await expectEqual(task.value, .failure(.ended(.requested)))
        expect(events.endReason != nil)
    }

    // MARK: Work that reports several times

    @Test func `work reports any number of intermediate results and one final result`() {
        let toy = Toy()
        toy.connect().receive("do a")
        let id = WorkID(rawValue: 1)
        toy.driver.workProgressed(id, "1")
        toy.driver.workProgressed(id, "2")
        toy.driver.workFinished(id, "end")
        toy.driver.workProgressed(id, "late")
        toy.driver.workFinished(id, "late")
        expectEqual(toy.driver.read { $0.results }, ["...1", "...2", "end"])
    }

    @Test func `intermediate results of cancelled work are ignored`() {
        let toy = Toy()
        toy.connect().receive("do a", "undo")
        toy.driver.workProgressed(WorkID(rawValue: 1), "late")
        expectEqual(toy.driver.read { $0.results }, [])
    }
}
