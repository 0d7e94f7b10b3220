import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// The parts of a client that are the same for all protocols.
@Suite(.timeLimit(.minutes(10))) struct DriverClientTests {
    private struct Failed: Error, Hashable { var text: String }

    /// The changes of a state that the events of a topic set, from the state `idle`.
    private func changes(_ toy: Toy) -> EventSequence<StateChange<String>> {
        toy.driver.makeStateChanges(lifetime: .client, from: { _ in "idle" }, to: { $0 == "ignored" ? nil : $0 }) { machine, id, effects in
            machine.subscribe(id, to: "states", &effects)
        }
    }

    @Test func `state changes have the state before, from the first on`() async throws {
        let toy = Toy()
        let connection = toy.connect()
        let changes = self.changes(toy)
        connection.receive("@ states connecting", "@ states ignored")
        connection.receive("@ states connected")
        let expected = [StateChange(old: "idle", new: "connecting"), StateChange(old: "connecting", new: "connected")]
        await expectEqual(changes.pending(), expected)
    }

    @Test func `each sequence of state changes knows its own state`() async throws {
        let toy = Toy()
        let connection = toy.connect()
        let early = self.changes(toy)
        connection.receive("@ states one")
        let late = self.changes(toy)
        connection.receive("@ states two")
        await expectEqual(early.pending().map(\.old), ["idle", "one"])
        await expectEqual(late.pending(), [StateChange(old: "idle", new: "two")])
    }

    @Test func `a conversion skips the events without an element`() {
        let convert = eachElement { (event: Int) in event > 1 ? "\(event)" : nil }
        var output = ["0"]
        convert([1, 2, 3][...], &output)
        expectEqual(output, ["0", "2", "3"])
    }

    @Test func `asynchronous work reports its value or its error`() async throws {
        let toy = Toy(perform: { work, id, driver in
            driver.perform(id, as: { (result: Result<String, Failed>) in "\(result)" }) { () async throws(Failed) -> String in
                if work == "fail" { throw Failed(text: work) }
                return work
            }
        })
        let connection = toy.connect()
        connection.receive("do one")
        try await eventually { toy.driver.read { $0.results.count } == 1 }
        connection.receive("do fail")
        try await eventually { toy.driver.read { $0.results.count } == 2 }
        expectEqual(
            toy.driver.read { $0.results },
            [
                "\(Result<String, Failed>.success("one"))", "\(Result<String, Failed>.failure(Failed(text: "fail")))",
            ])
    }

    @Test func `cancelled work ends with its task, and its result is ignored`() async throws {
        let ended = EventRecorder<Bool>()
        let toy = Toy(perform: { _, id, driver in
            driver.perform(id) {
                let waiter = Waiter<Void>()
                await waiter.value { waiter.fulfill(())?.resume() }
                ended.record(Task.isCancelled)
                return "late"
            }
        })
        let connection = toy.connect()
        connection.receive("do wait")
        connection.receive("undo")
        try await eventually { ended.all == [true] }
        expect(toy.driver.read { $0.results }.isEmpty)
    }

    @Test func `an error of a closure is converted`() async {
        let value = await Result<Int, Failed>(calling: { () async throws -> Int in 1 }) { Failed(text: "\($0)") }
        expectEqual(value, .success(1))
        let failure = await Result<Int, Failed>(calling: { () async throws -> Int in throw CancellationError() }) {
            Failed(text: "\(type(of: $0))")
        }
        expectEqual(failure, .failure(Failed(text: "CancellationError")))
    }

    @Test func `callbacks run where their executor runs them`() async throws {
        let received = EventRecorder<String>()
        let run: @Sendable (CallbackExecutor, String) -> Void = { executor, name in
            executor.schedule { received.record(name) }
        }
        run(.tasks, "tasks")
        try await eventually { received.all == ["tasks"] }
        run(.isolated(to: MainActor.shared), "actor")
        try await eventually { received.all == ["tasks", "actor"] }
        let isMain = EventRecorder<Int>()
        let callback = CallbackExecutor.onMain { (value: Int) in isMain.record(value) }
        CallbackExecutor.main.schedule { callback(1) }
        try await eventually { isMain.all == [1] }
    }

    @Test func `releasing the registration ends the callbacks`() {
        let (toy, received) = (Toy(), EventRecorder<String>())
        let connection = toy.connect()
        var observation: CallbackObservation? = toy.driver.observe(
            .standard, lifetime: .client, schedule: { $0() }, convert: eachElement { $0 }
        ) { machine, id, effects in
            machine.subscribe(id, to: "news", &effects)
        } callback: {
            received.record($0)
        }
        connection.receive("@ news 1")
        withExtendedLifetime(observation) {}
        observation = nil
        connection.receive("@ news 2")
        expectEqual(received.all, ["1"])
        expectEqual(toy.driver.consumerCount, 0)
    }
}
