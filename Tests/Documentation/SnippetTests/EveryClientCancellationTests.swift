import PrimusClient
import PrimusServer
import PrimusTesting
import PusherChannels
import PusherServer
import PusherTesting
import RealtimeCore
import RealtimeTesting
import SignalRHubs
import SignalRServer
import SignalRTesting
import TestSupport
import Testing

/// Sequences and calls of all clients in a task that is cancelled.
@Suite(.timeLimit(.minutes(10))) struct EveryClientCancellationTests {
    /// How a loop ended that was cancelled in its first iteration, while more elements were buffered.
    private struct LoopEnd: Equatable {
        var count: Int
        var error: String?
    }

    private static func end<Elements: AsyncSequence & Sendable>(of elements: Elements) async -> LoopEnd {
        let task = Task {
            var end = LoopEnd(count: 0)
            do {
                for try await _ in elements {
                    end.count += 1
                    withUnsafeCurrentTask { $0?.cancel() }
                }
            } catch {
                end.error = (error as? HubError)?.code.description ?? "\(type(of: error))"
            }
            return end
        }
        return await task.value
    }

    /// Expects that a cancelled loop leaves a sequence of events at its next element, and that the others remain.
    private static func expectLeft<Element: Sendable>(
        _ events: EventSequence<Element>, remaining: Int, sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        #expect(await Self.end(of: events) == LoopEnd(count: 1), sourceLocation: sourceLocation)
        // It doesn't look complete.
        #expect(events.endReason == nil, sourceLocation: sourceLocation)
        #expect(await events.pending().count >= remaining, sourceLocation: sourceLocation)
    }

    @Test func `a cancelled loop leaves the sequences of Pusher at the next element`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        let (states, changes, updates, frames) = (client.states, client.stateChanges, client.updates(), client.frames())
        let serverEvents = pusher.server.events
        client.connect()
        try await client.connected(within: .seconds(10))
        let channel = try client.subscribe("news")
        let all = client.events()
        let (events, decoded) = (channel.events("e"), channel.events("e", as: Int.self))
        try await channel.subscribed(within: .seconds(10))
        for number in 0..<3 { try pusher.server.publish("e", to: "news", data: number) }
        await Self.expectLeft(states, remaining: 2)
        await Self.expectLeft(changes, remaining: 1)
        await Self.expectLeft(updates, remaining: 2)
        await Self.expectLeft(frames, remaining: 2)
        await Self.expectLeft(serverEvents, remaining: 1)
        await Self.expectLeft(all, remaining: 2)
        await Self.expectLeft(events, remaining: 2)
        #expect(await Self.end(of: decoded) == LoopEnd(count: 1))
        #expect(await decoded.pending() == [1, 2])
    }

    @Test func `a cancelled loop leaves the sequences of SignalR at the next element`() async throws {
        let signalR = try await InMemorySignalR()
        let hub = signalR.server.hub("/hub")
        let (sum, ended) = (EventRecorder<String>(), EventRecorder<Bool>())
        hub.stream("Count") { (caller) in
            AsyncStream<Int> { continuation in
                for number in 0..<100 { continuation.yield(number) }
                continuation.onTermination = { _ in ended.record(true) }
            }
        }
        hub.on("Sum") { (caller, numbers: HubStream<Int>) in
            // Items wait, because the task is cancelled before it reads.
            let end = await Self.end(of: numbers)
            sum.record("\(end.count) \(end.error ?? "-")")
        }
        let client = signalR.client("/hub")
        let (states, changes, updates, frames) = (client.states, client.stateChanges, client.updates(), client.frames())
        let calls = client.invocations(of: "Told")
        let serverEvents = signalR.server.events
        try await client.start()
        for number in 0..<3 { try await hub.clients.all.send("Told", number) }
        await Self.expectLeft(states, remaining: 1)
        await Self.expectLeft(changes, remaining: 1)
        await Self.expectLeft(updates, remaining: 1)
        await Self.expectLeft(frames, remaining: 2)
        await Self.expectLeft(calls, remaining: 2)
        await Self.expectLeft(serverEvents, remaining: 0)
        // The stream ends at the server, which would send items without end.
        #expect(await Self.end(of: try client.stream("Count", of: Int.self)) == LoopEnd(count: 1, error: "cancelled"))
        try await eventually { ended.all == [true] }
        try await client.invoke("Sum", HubUpload(AsyncStream<Int> { for number in 0..<3 { $0.yield(number) } }))
        #expect(sum.all == ["1 CancellationError"])
    }

    @Test func `a cancelled loop leaves the sequences of Primus at the next element`() async throws {
        let primus = try await InMemoryPrimus()
        let client = primus.client()
        let (states, changes, updates, frames) = (client.states, client.stateChanges, client.updates(), client.frames())
        let (messages, decoded) = (client.messages, client.messages(as: Int.self))
        let serverEvents = primus.server.events
        client.open()
        try await client.opened(within: .seconds(10))
        primus.server.forEach { spark in for number in 0..<3 { _ = try? spark.write(number) } }
        await Self.expectLeft(states, remaining: 2)
        await Self.expectLeft(changes, remaining: 1)
        await Self.expectLeft(updates, remaining: 1)
        await Self.expectLeft(frames, remaining: 2)
        await Self.expectLeft(messages, remaining: 2)
        await Self.expectLeft(serverEvents, remaining: 0)
        #expect(await Self.end(of: decoded) == LoopEnd(count: 1))
        // The others remain, for another loop.
        #expect(await decoded.first { _ in true } == 1)
    }

    /// Runs an operation in a task that is cancelled before it begins.
    private static func cancelled(_ operation: @escaping @Sendable () async throws -> Void) async -> String? {
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            do {
                try await operation()
                return nil as String?
            } catch {
                return (error as? HubError)?.code.description ?? (error as? PrimusError)?.code.description ?? "\(type(of: error))"
            }
        }
        return await task.value
    }

    @Test func `a cancelled task starts nothing`() async throws {
        let pusher = try await InMemoryPusher()
        let channels = pusher.client()
        #expect(await Self.cancelled { try await channels.run() } == nil)
        #expect(channels.counters.messagesSent == 0 && channels.counters.messagesReceived == 0)

        let signalR = try await InMemorySignalR()
        let called = EventRecorder<String>()
        let hub = signalR.server.hub("/hub")
        hub.on("Call") { (caller) in called.record("call") }
        hub.stream("Stream") { (caller) in
            called.record("stream")
            return AsyncStream<Int> { $0.finish() }
        }
        let client = signalR.client("/hub")
        #expect(await Self.cancelled { try await client.run() } == nil)
        #expect(await Self.cancelled { try await client.start() } == "cancelled")
        #expect(client.state == .stopped(nil))
        try await client.start()
        #expect(await Self.cancelled { try await client.invoke("Call") } == "cancelled")
        #expect(await Self.cancelled { try await client.send("Call") } == "cancelled")
        #expect(await Self.cancelled { for try await _ in try client.stream("Stream", of: Int.self) {} } == "cancelled")
        try await client.invoke("Call")
        #expect(called.all == ["call"])

        let primus = try await InMemoryPrimus()
        let connection = primus.client()
        #expect(await Self.cancelled { try await connection.run() } == nil)
        #expect(primus.server.sparks.isEmpty)
        connection.open()
        try await connection.opened(within: .seconds(10))
        let sent = connection.counters.messagesSent
        #expect(await Self.cancelled { try await connection.write(1) } == "cancelled")
        #expect(await Self.cancelled { _ = try await connection.id() } == "cancelled")
        #expect(connection.counters.messagesSent == sent)
    }

    /// A sequence with its name in the sources.
    private struct Row: Sendable {
        let name: String
        /// Runs a loop in a task that is cancelled, and returns what is wrong afterwards; `nil` for nothing.
        let problem: @Sendable () async -> String?

        init<Element: Sendable>(_ name: String, _ sequence: EventSequence<Element>) {
            self.name = name
            self.problem = {
                let task = Task {
                    withUnsafeCurrentTask { $0?.cancel() }
                    var count = 0
                    for await _ in sequence { count += 1 }
                    return count
                }
                let count = await task.value
                if count > 0 { return "a loop in a cancelled task had \(count) elements" }
                return sequence.endReason.map { "the sequence has ended: \($0)" }
            }
        }
    }

    private static func check(_ rows: [Row]) async {
        for row in rows {
            let problem = await row.problem()
            #expect(problem == nil, "\(row.name)")
        }
    }

    private static func pusherRows(_ pusher: InMemoryPusher, _ client: PusherClient) throws -> [Row] {
        let (channel, presence) = (try client.subscribe("news"), try client.subscribe("presence-room"))
        let echo = try PusherEcho(client).presence("room")
        return [
            Row("states", client.states), Row("stateChanges", client.stateChanges), Row("connectingIn", client.connectingIn),
            Row("errors", client.errors), Row("updates", client.updates()), Row("frames", client.frames()), Row("events", client.events()),
            Row("events", channel.events()), Row("states", channel.states), Row("stateChanges", channel.stateChanges),
            Row("gaps", channel.gaps), Row("subscriptionCounts", channel.subscriptionCounts),
            Row("memberLists", presence.memberLists), Row("memberChanges", presence.memberChanges),
            Row("states", client.user.states), Row("events", client.user.events()), Row("watchlistChanges", client.user.watchlistChanges),
            Row("listen", echo.listen("e")), Row("listenToAll", echo.listenToAll()), Row("notifications", echo.notifications()),
            Row("listenForWhisper", echo.listenForWhisper("e")), Row("here", echo.here), Row("joining", echo.joining),
            Row("leaving", echo.leaving), Row("events", pusher.server.events),
        ]
    }

    private static func signalRRows(_ signalR: InMemorySignalR, _ client: HubClient) -> [Row] {
        [
            Row("states", client.states), Row("stateChanges", client.stateChanges), Row("connectingIn", client.connectingIn),
            Row("errors", client.errors), Row("updates", client.updates()), Row("frames", client.frames()),
            Row("invocations", client.invocations(of: "Told")), Row("events", signalR.server.events),
        ]
    }

    private static func primusRows(_ primus: InMemoryPrimus, _ client: PrimusConnection) -> [Row] {
        let channel = client.channel("news")
        return [
            Row("states", client.states), Row("stateChanges", client.stateChanges), Row("connectingIn", client.connectingIn),
            Row("errors", client.errors), Row("updates", client.updates()), Row("frames", client.frames()),
            Row("messages", client.messages), Row("messages", client.messages(buffer: .standard)), Row("messages", channel.messages),
            Row("messages", client.substream("news").messages), Row("requests", client.requests), Row("on", client.emitter.on("e")),
            Row("events", client.emitter.events), Row("on", client.emits.on("e")), Row("events", client.emits.events),
            Row("events", primus.server.events),
        ]
    }

    @Test func `a cancelled loop leaves each public sequence, which doesn't look complete`() async throws {
        let (pusher, signalR, primus) = try await (InMemoryPusher(), InMemorySignalR(), InMemoryPrimus())
        _ = signalR.server.hub("/hub")
        let (channels, hub, connection) = (
            pusher.client(), signalR.client("/hub"), primus.client { $0.plugins = [.emitter, .multiplex, .substream, .responder] }
        )
        let rows = try Self.pusherRows(pusher, channels) + Self.signalRRows(signalR, hub) + Self.primusRows(primus, connection)
        await Self.check(rows)
        channels.connect()
        try await channels.connected(within: .seconds(10))
        try await hub.start()
        connection.open()
        try await connection.opened(within: .seconds(10))
        await Self.check(rows)
        // A sequence that is missing in the rows, or was removed from the sources.
        let declarations = try Snippets.sourceLines().compactMap { line in
            line.firstMatch(of: /public (?:var|func) (\w+).*(?:->|:) EventSequence</).map { String($0.1) }
        }
        #expect(rows.map(\.name).sorted() == declarations.sorted())
    }
}
