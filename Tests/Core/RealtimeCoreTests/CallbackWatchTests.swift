import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

@Suite struct CallbackWatchTests {
    private static func makeWatch(_ sign: CallbackWatch.Sign) -> (CallbackWatch, ManualClock, EventRecorder<String>) {
        let (clock, messages) = (ManualClock(), EventRecorder<String>())
        return (CallbackWatch(clock.time, sign) { messages.record($0) }, clock, messages)
    }

    private static func observe(_ toy: Toy, _ schedule: @escaping CallbackSchedule) -> CallbackObservation {
        toy.driver.observe(.standard, lifetime: .client, named: "The callback of news", schedule: schedule) {
            $1.append(contentsOf: $0)
        } register: { machine, id, effects in
            machine.subscribe(id, to: "news", &effects)
        } callback: { _ in
        }
    }

    @Test func `callbacks that don't begin for 5 s are logged once for each client`() {
        let lines = EventRecorder<String>()
        let toy = Toy(log: LogSink(minimumLevel: .warning) { lines.record("\($0): \($2)") })
        let connection = toy.connect()
        let tokens = [Self.observe(toy) { _ in }, Self.observe(toy) { _ in }]
        toy.clock.advance(by: .seconds(3))
        connection.receive("@ news 1")
        toy.clock.advance(by: .milliseconds(4999))
        expect(lines.all.isEmpty)
        toy.clock.advance(by: .milliseconds(1))
        let line =
            "warning: The callback of news has waited 5 s for its actor or queue, which is blocked. Don't block the main actor, for "
            + "example with readLine(): block a thread of your own."
        expectEqual(lines.all, [line])
        connection.receive("@ news 2")
        toy.clock.advance(by: .seconds(100))
        expectEqual(lines.all, [line])
        for token in tokens { token.cancel() }
    }

    @Test func `callbacks that begin in time are not reported, however long they take`() {
        let (watch, clock, messages) = Self.makeWatch(.notBegun)
        let waiting = EventRecorder<@Sendable () -> Void>()
        let schedule = watch.following({ waiting.record($0) }, "A callback")
        for _ in 1...3 {
            // The second wait begins while the timer of the first is pending, which doesn't shorten it.
            schedule { clock.advance(by: .seconds(10)) }
            clock.advance(by: .seconds(4))
            for run in waiting.take() { run() }
        }
        expect(!watch.isFollowing && messages.all.isEmpty)
        schedule {}
        clock.advance(by: .seconds(5))
        expectEqual(messages.all.count, 1)
    }

    @Test func `a timer covers all short waits, and isn't repeated while nothing waits`() {
        let (time, messages) = (RecordingTime(), EventRecorder<String>())
        let watch = CallbackWatch(time, .notBegun) { messages.record($0) }
        for _ in 1...100 { watch.end(watch.begin("A callback")) }
        expectEqual(time.scheduled.take().count, 1)
        time.clock.advance(by: .seconds(1000))
        expect(time.scheduled.all.isEmpty && messages.all.isEmpty)
    }

    @Test func `a test that advances the clock to the next deadline passes over the timer`() {
        let (watch, clock, messages) = Self.makeWatch(.notBegun)
        _ = watch.begin("A callback")
        expect(clock.untilNextDeadline == nil && !clock.advanceToNextDeadline() && clock.elapsed == .zero)
        clock.advance(by: .seconds(5))
        expectEqual(messages.all.count, 1)
    }

    @Test func `a handler that hasn't returned is reported if the main actor is blocked`() async throws {
        let (watch, clock, messages) = Self.makeWatch(.mainActorBlocked)
        let number = watch.begin("Receive")
        expect(number != nil && watch.begin("Other") == nil)
        let main = try await BlockedMainActor()
        clock.advance(by: .seconds(4))
        expect(messages.all.isEmpty)
        clock.advance(by: .seconds(1))
        main.release()
        let message =
            "The handler of Receive hasn't returned for 5 s, and the main actor is blocked. Don't block the main actor, for example with "
            + "readLine(): handlers that were written there wait for it. Block a thread of your own."
        expectEqual(messages.all, [message])
        watch.end(number)
        expectNil(watch.begin("Other"))
    }

    @Test func `a handler that takes its time is not reported while the main actor answers`() async throws {
        let (watch, clock, messages) = Self.makeWatch(.mainActorBlocked)
        let number = watch.begin("Receive")
        clock.advance(by: .seconds(4))
        // The main actor's answer ends the wait.
        try await eventually { !watch.isFollowing }
        clock.advance(by: .seconds(100))
        watch.end(number)
        expect(messages.all.isEmpty)
    }
}
