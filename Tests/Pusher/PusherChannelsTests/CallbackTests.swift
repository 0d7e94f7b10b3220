import PusherTesting
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherChannels

/// Callbacks on the executors of the application.
@Suite struct CallbackTests {
    private struct Price: Decodable, Sendable {
        var value: Int
    }

    /// Runs what it is given when the test asks for it.
    private final class ManualQueue: Sendable {
        private let closures = Lock<[@Sendable () -> Void]>([])

        var count: Int { self.closures.withLock { $0.count } }
        var executor: PusherCallbackExecutor { PusherCallbackExecutor { run in self.closures.withLock { $0.append(run) } } }

        func runAll() {
            while let closure = self.closures.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { closure() }
        }
    }

    private actor Board {
        private(set) var values: [String?] = []

        func add(_ value: String?) { self.values.append(value) }
    }

    @MainActor
    private final class ViewModel {
        private(set) var values: [Int] = []
        private(set) var names: [String] = []
        private var observations: [PusherObservation] = []

        func watch(_ client: PusherClient, _ channel: PusherChannel) {
            self.observations = [
                channel.on("price", as: Price.self) { [weak self] in self?.values.append($0.value) },
                channel.on { [weak self] in self?.names.append($0.name) },
                client.on("price") { [weak self] _ in self?.names.append("client") },
                client.on("price", as: Price.self) { [weak self] in self?.names.append("typed \($0.value)") },
                client.onUpdate { [weak self] update in if case .state(let state) = update { self?.names.append(state.name) } },
            ]
        }
    }

    @Test func `a callback that waits for its executor for seconds is logged once`() async throws {
        let (pusher, queue, lines) = (try await InMemoryPusher(), ManualQueue(), EventRecorder<String>())
        let client = pusher.client { $0.log = LogSink(minimumLevel: .warning) { lines.record("\($1) \($0): \($2)") } }
        client.connect()
        let prices = try client.subscribe("prices")
        let observations = [prices.on("price", on: queue.executor) { _ in }, client.onUpdate(on: queue.executor) { _ in }]
        pusher.server.publish("price", to: "prices", data: "1")
        pusher.clock.advance(by: .seconds(4))
        expect(lines.all.isEmpty)
        pusher.clock.advance(by: .seconds(2))
        let line = "pusher warning: The callback of price on prices has waited 5 s for its actor or queue, which is blocked."
        expect(lines.all.count == 1 && lines.all.allSatisfy { $0.hasPrefix(line) })
        queue.runAll()
        pusher.server.publish("price", to: "prices", data: "2")
        pusher.clock.advance(by: .seconds(10))
        expectEqual(lines.all.count, 1)
        // What the queue keeps retains the queue.
        queue.runAll()
        withExtendedLifetime(observations) {}
    }

    @Test func `callbacks run when the executor runs them, in order, with one delivery for all waiting events`() async throws {
        let (pusher, queue, values) = (try await InMemoryPusher(), ManualQueue(), EventRecorder<String?>())
        let client = pusher.client()
        client.connect()
        let prices = try client.subscribe("prices")
        let observation = prices.on("price", on: queue.executor) { values.record($0.data) }
        for number in 1...3 { pusher.server.publish("price", to: "prices", data: "\(number)") }
        pusher.server.publish("other", to: "prices", data: "4")
        expect(queue.count == 1 && values.all.isEmpty)
        queue.runAll()
        expectEqual(values.all, ["1", "2", "3"])
        pusher.server.publish("price", to: "prices", data: "5")
        queue.runAll()
        expectEqual(values.all, ["1", "2", "3", "5"])
        observation.cancel()
        observation.cancel()
        pusher.server.publish("price", to: "prices", data: "6")
        queue.runAll()
        expectEqual(values.all.count, 4)
    }

    @Test func `a callback may call the client and cancel its registration`() async throws {
        let (pusher, values) = (try await InMemoryPusher(), EventRecorder<String?>())
        let client = pusher.client()
        client.connect()
        let prices = try client.subscribe("prices")
        let observation = Lock<PusherObservation?>(nil)
        let queue = ManualQueue()
        let created = prices.on(on: queue.executor) { event in
            values.record(event.data)
            client.unsubscribe("other")
            expectEqual(client.state.name, "connected")
            let ended = observation.withLock { $0.take() }
            ended?.cancel()
        }
        observation.withLock { $0 = created }
        for number in 1...3 { pusher.server.publish("price", to: "prices", data: "\(number)") }
        queue.runAll()
        expectEqual(values.all, ["1"])
    }

    @Test func `releasing a registration ends its callbacks`() async throws {
        let (pusher, queue, values) = (try await InMemoryPusher(), ManualQueue(), EventRecorder<String?>())
        let client = pusher.client()
        client.connect()
        try client.subscribe("prices")
        var observation: PusherObservation? = client.on("price", on: queue.executor) { values.record($0.data) }
        pusher.server.publish("price", to: "prices", data: "1")
        queue.runAll()
        withExtendedLifetime(observation) {}
        observation = nil
        pusher.server.publish("price", to: "prices", data: "2")
        queue.runAll()
        expectEqual(values.all, ["1"])
    }

    @Test func `callbacks continue after a reconnect and after connecting again, and end with the subscription`() async throws {
        let (pusher, queue, values) = (try await InMemoryPusher(), ManualQueue(), EventRecorder<String?>())
        let client = pusher.client { $0.retry = .delays([.seconds(1)]) }
        client.connect()
        let prices = try client.subscribe("prices")
        let observation = prices.on(on: queue.executor) { values.record($0.data) }
        func publish(_ data: String) {
            pusher.server.publish("price", to: "prices", data: data)
            queue.runAll()
        }
        publish("1")
        pusher.network.cut()
        pusher.clock.advance(by: .seconds(1))
        publish("2")
        client.disconnect()
        client.connect()
        publish("3")
        expectEqual(values.all, ["1", "2", "3"])
        prices.unsubscribe()
        let again = try client.subscribe("prices")
        publish("4")
        expect(values.all.count == 3 && again.state == .subscribed)
        observation.cancel()
        // A channel that isn't subscribed has no events.
        again.unsubscribe()
        let late = again.on(on: queue.executor) { values.record($0.data) }
        try client.subscribe("prices")
        publish("5")
        expectEqual(values.all.count, 3)
        late.cancel()
    }

    @Test func `an event that can't be decoded is skipped and reported`() async throws {
        let (pusher, queue, values) = (try await InMemoryPusher(), ManualQueue(), EventRecorder<Int>())
        let client = pusher.client()
        client.connect()
        let prices = try client.subscribe("prices")
        let errors = client.errors
        let observation = prices.on("price", as: Price.self, on: queue.executor) { values.record($0.value) }
        for data in [#"{"value":1}"#, "invalid", #"{"value":2}"#] { pusher.server.publish("price", to: "prices", data: data) }
        queue.runAll()
        expectEqual(values.all, [1, 2])
        let onClient = client.on("price", as: Price.self, on: queue.executor) { values.record(10 * $0.value) }
        pusher.server.publish("price", to: "prices", data: #"{"value":3}"#)
        queue.runAll()
        expectEqual(values.all.sorted(), [1, 2, 3, 30])
        onClient.cancel()
        await expect(errors.pending().map(\.code) == [.decodingFailed] && client.counters.decodingFailures == 1)
        observation.cancel()
    }

    @Test func `a registration keeps neither its client nor its channel alive`() async throws {
        let (pusher, queue) = (try await InMemoryPusher(), ManualQueue())
        var client: PusherClient? = pusher.client()
        weak let released = client
        client?.connect()
        let observation = try client?.subscribe("prices").on(on: queue.executor) { _ in }
        expectEqual(pusher.server.socketIDs.count, 1)
        client = nil
        expect(released == nil && pusher.server.socketIDs.isEmpty)
        observation?.cancel()
    }

    @Test @MainActor func `callbacks run on the main actor by default`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        let prices = try client.subscribe("prices")
        let model = ViewModel()
        model.watch(client, prices)
        client.connect()
        for number in 1...3 { pusher.server.publish("price", to: "prices", data: #"{"value":\#(number)}"#) }
        expect(model.values.isEmpty && model.names.isEmpty)
        try await eventually { model.values == [1, 2, 3] && model.names.count == 11 }
        expect(model.names.filter { $0 == "price" }.count == 3 && model.names.filter { $0 == "client" }.count == 3)
        expectEqual(model.names.filter { $0.hasPrefix("typed") }, ["typed 1", "typed 2", "typed 3"])
        expectEqual(model.names.filter { $0.hasPrefix("connect") }, ["connecting", "connected"])
    }

    @Test func `callbacks run on the executor of an actor`() async throws {
        let (pusher, board) = (try await InMemoryPusher(), Board())
        let client = pusher.client()
        client.connect()
        let prices = try client.subscribe("prices")
        let observation = prices.on("price", on: .isolated(to: board)) { event in
            board.assumeIsolated { $0.add(event.data) }
        }
        for number in 1...3 { pusher.server.publish("price", to: "prices", data: "\(number)") }
        try await eventually { await board.values == ["1", "2", "3"] }
        observation.cancel()
    }

    @Test func `callbacks of tasks run in order and one at a time`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let prices = try client.subscribe("prices")
        let values = EventRecorder<Int>()
        let isRunning = Lock(false)
        let observation = prices.on("price", as: Int.self, on: .tasks, buffer: .pauseReading(1_000)) { value in
            let wasRunning = isRunning.withLock { isRunning in
                defer { isRunning = true }
                return isRunning
            }
            expect(!wasRunning)
            values.record(value)
            isRunning.withLock { $0 = false }
        }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { for number in 0..<200 { pusher.server.publish("price", to: "prices", data: "\(number)") } }
        }
        try await eventually { values.all.count == 200 }
        expectEqual(values.all, Array(0..<200))
        observation.cancel()
    }

    // MARK: Frames

    @Test func `frames in both directions are in order and contain no secrets`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client(userID: "anna", userInfo: ["name": "user-info"]) { $0.headers["Authorization"] = "Bearer token-1" }
        let frames = client.frames()
        client.connect()
        let socketID = try #require(client.socketID)
        let room = try client.subscribe("presence-room")
        try room.trigger("client-seen", ["id": 7])
        pusher.server.send(#"{"event":"note","data":"token-1"}"#, to: socketID)
        client.checkConnection()
        client.disconnect()
        let lines = await frames.pending().map { "\($0.direction) \($0.text)" }
        expectEqual(
            lines,
            [
                #"received {"event":"pusher:connection_established","data":{"socket_id":"\#(socketID)","activity_timeout":120}}"#,
                #"sent {"event":"pusher:subscribe","data":{"channel":"presence-room","auth":"<redacted>","channel_data":"<redacted>"}}"#,
                lines.first { $0.contains("subscription_succeeded") } ?? "",
                #"sent {"event":"client-seen","channel":"presence-room","data":{"id":7}}"#,
                #"received {"event":"note","data":"<redacted>"}"#,
                #"sent {"event":"pusher:ping","data":{}}"#,
                #"received {"event":"pusher:pong","data":{}}"#,
            ])
    }

    @Test func `updates include the frames that the client sends`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.clientEventLimit = nil }
        client.connect()
        let room = try client.subscribe("private-room")
        let (all, without) = (client.updates(includingFrames: true), client.updates())
        try room.trigger("client-a", 1)
        let sent = await all.pending().compactMap { if case .sentFrame(let text) = $0 { text } else { nil } }
        expectEqual(sent, [#"{"event":"client-a","channel":"private-room","data":1}"#])
        await expect(without.pending().isEmpty)
    }
}
