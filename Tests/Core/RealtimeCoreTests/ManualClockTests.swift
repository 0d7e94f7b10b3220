import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct SleepingTaskTests {
    /// Starts a task that sleeps, and returns when it sleeps.
    private func sleep(
        _ clock: ManualClock, _ duration: Duration, then action: @escaping @Sendable () -> Void
    ) async throws -> Task<Void, any Error> {
        let count = clock.sleepingTaskCount
        let task = Task {
            try await clock.sleep(for: duration)
            action()
        }
        try await eventually { clock.sleepingTaskCount == count + 1 }
        return task
    }

    @Test func `a task sleeps until the clock reaches its deadline`() async throws {
        let (clock, woken) = (ManualClock(), EventRecorder<Int>())
        let task = try await self.sleep(clock, .seconds(10)) { woken.record(1) }
        expectEqual(clock.untilNextDeadline, .seconds(10))
        clock.advance(by: .seconds(9))
        expectEqual(clock.sleepingTaskCount, 1)
        clock.advance(by: .seconds(1))
        expectEqual(clock.sleepingTaskCount, 0)
        try await task.value
        expectEqual(woken.all, [1])
        expectNil(clock.untilNextDeadline)
    }

    @Test func `a deadline that has passed does not suspend`() async throws {
        let clock = ManualClock()
        clock.advance(by: .seconds(5))
        try await clock.sleep(until: clock.now)
        try await clock.sleep(until: ManualClock.Instant(offset: .seconds(4)))
        try await clock.sleep(for: .seconds(-1))
        expectEqual(clock.now, ManualClock.Instant(offset: .seconds(5)))
    }

    @Test func `cancelling a task ends its sleep`() async throws {
        let clock = ManualClock()
        let task = try await self.sleep(clock, .seconds(10)) {}
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        expectEqual(clock.sleepingTaskCount, 0)
        expectNil(clock.untilNextDeadline)
    }

    @Test func `a cancelled task does not sleep`() async {
        let clock = ManualClock()
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await clock.sleep(for: .seconds(10))
        }
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    @Test func `an app can receive the clock as any clock`() async throws {
        let manual = ManualClock()
        let clock: any Clock<Duration> = manual
        let task = Task { try await clock.sleep(for: .seconds(1)) }
        try await eventually { manual.sleepingTaskCount == 1 }
        expect(manual.advanceToNextDeadline())
        try await task.value
        expectEqual(manual.elapsed, .seconds(1))
    }

    @Test func `instants measure the time between them`() {
        let clock = ManualClock()
        let start = clock.now
        clock.advance(by: .milliseconds(1_500))
        expectEqual(start.duration(to: clock.now), .milliseconds(1_500))
        expect(start < clock.now && start.advanced(by: .milliseconds(1_500)) == clock.now)
        expectEqual(clock.measure {}, .zero)
    }
}

@Suite(.timeLimit(.minutes(10))) struct EventuallyTests {
    @Test func `a condition that is true already needs no other task`() async throws {
        try await eventually(within: .zero) { true }
    }

    @Test func `the call returns when another task has made the condition true`() async throws {
        let recorder = EventRecorder<Int>()
        let task = Task { recorder.record(1) }
        try await eventually { recorder.all == [1] }
        await task.value
    }

    @Test func `the error says what was not reached, and where`() async throws {
        let line = #line + 1
        let error = await #expect(throws: ConditionError.self) {
            try await eventually("two prices", within: .zero) { false }
        }
        expectEqual(error?.message, "\"two prices\" didn't become true within 0.0 seconds.")
        expectEqual(error?.line, line)
        expectEqual(error?.fileID, #fileID)
        expectEqual(error?.description.hasPrefix("RealtimeCoreTests/ManualClockTests.swift:\(line): "), true)
    }

    @Test func `cancelling the task ends the call`() async {
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await eventually(within: .seconds(3600)) { false }
        }
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    @Test func `an error of the condition is thrown`() async {
        await #expect(throws: CancellationError.self) { try await eventually { throw CancellationError() } }
    }

    private actor Counter {
        private(set) var count = 0

        func increment() { self.count += 1 }

        func incrementInATask() async throws {
            Task { self.increment() }
            try await eventually { self.count == 1 }
        }
    }

    @Test func `the condition uses the state of an actor`() async throws {
        let counter = Counter()
        try await counter.incrementInATask()
        Task { await counter.increment() }
        try await eventually { await counter.count == 2 }
    }

    @MainActor private final class Model {
        var count = 0
    }

    @MainActor @Test func `the condition uses the state of the caller's actor`() async throws {
        let model = Model()
        Task { model.count = 2 }
        try await eventually { model.count == 2 }
    }
}

@Suite(.timeLimit(.minutes(10))) struct StandstillTests {
    private final class Observer: StandstillObserver {
        let durations = EventRecorder<Duration>()

        func timeStoodStill(for duration: Duration) -> String? {
            self.durations.record(duration)
            return nil
        }
    }

    private final class Client: TimerClient {
        func timerFired() {}
    }

    private let clock = ManualClock(standstillLimit: .seconds(30))
    private let observer = Observer()

    init() {
        self.clock.time.addStandstillObserver(self.observer)
    }

    @Test func `an observer learns that the clock stands still`() {
        for _ in 1...29 { self.clock.time.elapsedInRealTime(.seconds(1)) }
        expect(self.observer.durations.all.isEmpty)
        self.clock.time.elapsedInRealTime(.seconds(1))
        expectEqual(self.observer.durations.take(), [.seconds(30)])
        // Another one follows after the same time.
        for _ in 1...30 { self.clock.time.elapsedInRealTime(.seconds(1)) }
        expectEqual(self.observer.durations.all, [.seconds(30)])
    }

    @Test(arguments: ["advance", "schedule"])
    func `every change of the clock starts the limit again`(change: String) {
        let client = Client()
        for _ in 1...100 {
            self.clock.time.elapsedInRealTime(.seconds(29))
            if change == "advance" { self.clock.advance(by: .zero) } else { self.clock.time.schedule(client, at: nil) }
        }
        expect(self.observer.durations.all.isEmpty)
    }

    @Test func `a clock without a limit has no observers`() {
        let clock = ManualClock(standstillLimit: nil)
        clock.time.addStandstillObserver(self.observer)
        clock.time.elapsedInRealTime(.seconds(3600))
        expect(self.observer.durations.all.isEmpty)
    }

    @Test func `the clock does not retain its observers`() {
        weak var released: Observer?
        do {
            let observer = Observer()
            released = observer
            self.clock.time.addStandstillObserver(observer)
        }
        expectNil(released)
        self.clock.time.elapsedInRealTime(.seconds(30))
        expectEqual(self.observer.durations.all, [.seconds(30)])
    }

    @Test func `the real time is counted`() async throws {
        let clock = ManualClock(standstillLimit: .milliseconds(1))
        let observer = Observer()
        clock.time.addStandstillObserver(observer)
        try await eventually { !observer.durations.all.isEmpty }
    }
}
