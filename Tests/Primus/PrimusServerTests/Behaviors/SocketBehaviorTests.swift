import PrimusClient
import PrimusTesting
import PrimusWire
import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

/// The behaviors of a connection that Primus tests over each of its transformers: opening, messages and the end.
///
/// Source: `test/transformer.base.js` of Primus 8.0.9, `.Socket`. The golden traces of the events are `SessionTraceTests`, the same with real
/// servers `ClientPeerTests`.
@Suite(.timeLimit(.minutes(10))) struct SocketBehaviorTests {
    // MARK: Opening

    @Test(arguments: BehaviorKind.all) func `a client opens, and says so once`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = test.client()
        let (events, states) = (client.events(), client.states)
        client.open()
        try await client.opened(within: Behavior.limit)
        await expectEqual(events.names(), ["readyStateChange opening", "readyStateChange open", "open"])
        client.end()
        await expectEqual(events.names(), ["readyStateChange end", "close", "end"])
        await expectEqual(states.pending(), [.closed(nil), .opening, .open, .closed(nil)])
        try await test.expectSparks(\.isEmpty)
    }

    @Test(arguments: BehaviorKind.all) func `a client connects to a literal address of IPv6`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let server = PrimusServer(network: test.network, configuration: test.server.configuration, log: .none)
        _ = try await server.start(on: test.network.listener(host: "::1", port: 9090))
        let endpoint = try Endpoint("http://[::1]:9090/primus")
        let client = test.client { $0.endpoint = endpoint }
        client.open()
        try await client.opened(within: Behavior.limit)
        expect(server.sparks.count == 1 && test.server.sparks.isEmpty)
        client.end()
        await server.stop()
    }

    @Test(arguments: BehaviorKind.all) func `a client that isn't opened doesn't connect`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let events = test.server.events
        let client = test.client()
        client.enqueue("early")
        test.advance(by: .seconds(600))
        expectEqual(client.state, .closed(nil))
        await expect(events.pending().isEmpty)
    }

    @Test(arguments: BehaviorKind.all) func `a server that isn't there is an error of the attempt`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = test.informedClient { configuration in
            configuration.endpoint.port = 1
            configuration.retry = .none
        }
        let errors = client.errors
        client.open()
        let error = await #expect(throws: PrimusError.self) { try await client.opened(within: Behavior.limit) }
        expect(error?.code == .connectionLost && client.closingError == error)
        await expectEqual(errors.pending(), [error])
    }

    @Test(arguments: BehaviorKind.all) func `writes before the connection arrive in order`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let values = EventRecorder<PrimusValue>()
        let token = test.record(values)
        let client = test.client()
        for number in 0..<11 { client.enqueue(.int(Int64(number))) }
        expectEqual(client.queuedCount, 11)
        client.open()
        try await eventually { values.all.count == 11 }
        expect(values.all == (0..<11).map { .int($0) } && client.queuedCount == 0)
        client.end()
        token.cancel()
    }

    @Test(arguments: BehaviorKind.all)
    func `nothing is lost while the application handles the connection`(kind: BehaviorKind) async throws {
        let gate = Signal()
        let test = try await Behavior(kind) { configuration in
            configuration.authorize = { _ in
                await gate.wait()
                return .accept
            }
            configuration.authorizationTimeout = Behavior.limit
        }
        // The callbacks of the application, which run when the test lets them.
        let late = EventRecorder<@Sendable () -> Void>()
        let executor = CallbackExecutor { late.record($0) }
        let lines = EventRecorder<PrimusValue>()
        let tokens = [
            test.server.onConnection(on: executor) { spark in _ = try? spark.write("welcome") },
            test.server.onMessage(on: executor) { message in if let value = try? message.value { lines.record(value) } },
        ]
        let client = test.client { $0.connectTimeout = Behavior.limit }
        let messages = client.messages.makeAsyncIterator()
        client.enqueue("hello")
        client.open()
        gate.send()
        try await client.opened(within: Behavior.limit)
        try await client.write("in")
        try await client.write("order")
        expect(lines.all.isEmpty)
        try await eventually {
            for run in late.take() { run() }
            return lines.all.count == 3
        }
        expectEqual(lines.all, ["hello", "in", "order"])
        try await expectEqual(messages.next()?.value, "welcome")
        client.end()
        for token in tokens { token.cancel() }
    }

    // MARK: Messages

    @Test(arguments: BehaviorKind.all)
    func `a message comes back with its packet`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let echo = test.echo()
        let client = try await test.openClient()
        let messages = client.messages.makeAsyncIterator()
        try await client.write(["foo": "bar"])
        let message = try #require(await messages.next())
        try expectEqual(message.value, ["foo": "bar"])
        expect(message.raw == .text(#"{"foo":"bar"}"#) && message.parser == .json)
        client.end()
        echo.cancel()
    }

    @Test(arguments: BehaviorKind.all)
    func `text of any language comes back`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let echo = test.echo()
        let client = try await test.openClient()
        let messages = client.messages.makeAsyncIterator()
        for text in ["пример", "\u{2028}\u{2029}", "👩‍👩‍👧‍👦", "\u{0}\u{1F}\"\\/", "a\u{308}ä"] {
            try await client.write(text)
            try await expectEqual(messages.next()?.value, .string(text))
        }
        client.end()
        echo.cancel()
    }

    @Test(arguments: BehaviorKind.all) func `zero is a message, also the last one of either side`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let values = EventRecorder<PrimusValue>()
        let token = test.record(values)
        let client = try await test.openClient()
        let messages = client.messages.makeAsyncIterator()
        try await client.write(0)
        try await client.end(0)
        try await eventually { values.all == [0, 0] }
        test.disconnectDelayEnds()
        client.open()
        try await client.opened(within: Behavior.limit)
        try #require(test.server.sparks.first).end(0)
        try await expectEqual(messages.next()?.value, 0)
        expectEqual(client.state, .closed(nil))
        token.cancel()
    }

    @Test(arguments: BehaviorKind.overHTTP.filter { !$0.moves })
    func `what is written while a request with much is under way waits, within the limit of the queue`(kind: BehaviorKind) async throws {
        let isHeld = Lock(false)
        let gate = Signal()
        let test = try await Behavior(kind) { configuration in
            configuration.authorize = { request in
                let brings = kind.transformer == .sockjs ? request.path.hasSuffix("xhr_send") : request.method == "POST"
                if brings, isHeld.withLock({ $0 }) { await gate.wait() }
                return .accept
            }
            configuration.authorizationTimeout = Behavior.limit
        }
        let values = EventRecorder<PrimusValue>()
        let token = test.record(values)
        let client = try await test.openClient { $0.queue = .refuse(2) }
        isHeld.withLock { $0 = true }
        let long = String(repeating: "x", count: 300_000)
        expect(client.enqueue(long))
        try await eventually { client.driver.read { $0.mustWaitToWrite } }
        expect(client.enqueue(1))
        let hasReturned = Lock(false)
        let call = Task {
            try await client.write(2)
            hasReturned.withLock { $0 = true }
        }
        try await eventually { client.queuedCount == 2 }
        expect(!client.enqueue(3))
        await #expect(throws: PrimusError.self) { try await client.write(3) }
        expect(!hasReturned.withLock { $0 } && values.all.isEmpty)
        isHeld.withLock { $0 = false }
        gate.send()
        try await call.value
        try await eventually { values.all.count == 3 }
        expect(values.all == [.string(long), 1, 2] && client.queuedCount == 0)
        client.end()
        token.cancel()
    }

    @Test(arguments: BehaviorKind.all)
    func `a full consumer stops polls, streams and WebSockets, and then gets everything in order`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = try await test.openClient { $0.messageBuffer.count = 10 }
        let messages = client.messages(as: Int.self)
        let spark = try #require(test.server.sparks.first)
        for number in 0..<100 { try spark.write(number) }
        try await eventually { client.counters.messagesReceived >= 10 }
        let received = client.counters.messagesReceived
        for number in 100..<1000 { try spark.write(number) }
        expectEqual(client.counters.messagesReceived, received)
        var values: [Int] = []
        for await value in messages.prefix(1000) { values.append(value) }
        expectEqual(values, Array(0..<1000))
        client.end()
    }

    private struct Broken: Encodable {
        func encode(to encoder: any Encoder) throws {
            throw EncodingError.invalidValue(0, .init(codingPath: [], debugDescription: "never"))
        }
    }

    @Test(arguments: BehaviorKind.all)
    func `a value that can't be encoded leaves the connection alone`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let echo = test.echo()
        let client = try await test.openClient()
        let messages = client.messages.makeAsyncIterator()
        let errors = client.errors
        let error = await #expect(throws: PrimusError.self) { try await client.write(Broken()) }
        expectEqual(error?.code, .encodingFailed)
        expect(!client.enqueue(Broken()))
        await expectEqual(errors.pending().map(\.code), [.encodingFailed])
        try await client.write(1)
        try await expectEqual(messages.next()?.value, 1)
        client.end()
        echo.cancel()
    }

    @Test(arguments: BehaviorKind.all) func `a client knows the ID of its spark`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = try await test.openClient()
        let first = try await client.id(within: Behavior.limit)
        expectEqual(test.server.sparks.map(\.id), [first])
        try await test.cut(client)
        try await test.recover(client)
        let second = try await client.id(within: Behavior.limit)
        try await test.expectSparks { $0.map(\.id) == [second] }
        expect(first != second)
        client.end()
    }

    // MARK: The end

    @Test(arguments: BehaviorKind.all) func `a client that has ended opens again`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = test.client()
        let events = client.events()
        for _ in 0..<3 {
            client.open()
            try await client.opened(within: Behavior.limit)
            expectEqual(test.server.sparks.count, 1)
            client.end()
            // A client that is ended in the middle of a move ends its session a little later.
            try await test.expectSparks(\.isEmpty)
            await expectEqual(
                events.names(),
                [
                    "readyStateChange opening", "readyStateChange open", "open", "readyStateChange end", "close", "end",
                ])
        }
    }

    @Test(arguments: BehaviorKind.all) func `a client can be ended before it is connected, again and again`(kind: BehaviorKind) async throws
    {
        let test = try await Behavior(kind)
        let client = test.client()
        let updates = client.updates()
        for _ in 0..<20 {
            client.open()
            client.end()
            expectEqual(client.state, .closed(nil))
            // Another thread may have connected it with what an earlier attempt has learned, and still handle the end of the session.
            try await eventually { client.driver.nextDeadline == nil }
        }
        await expectEqual(updates.pending().filter { if case .ended = $0 { true } else { false } }.count, 20)
        client.open()
        try await client.opened(within: Behavior.limit)
        client.end()
        // The answer to a handshake may have found no client any more. The server forgets such a session after the limit of its heartbeat.
        try await eventually {
            test.clock.advance(by: .seconds(60))
            return test.server.sparks.isEmpty
        }
    }

    @Test(arguments: BehaviorKind.all) func `the end comes once, however often it is called`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = try await test.openClient()
        let (events, updates) = (client.events(), client.updates())
        for _ in 0..<6 { client.end() }
        await expectEqual(events.names(), ["readyStateChange end", "close", "end"])
        await expectEqual(updates.pending(), [.state(.closed(nil)), .ended(nil)])
    }

    @Test(arguments: BehaviorKind.all) func `a client that the user has ended stays so`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = try await test.openClient()
        client.end()
        let events = client.events()
        test.network.condition = .down
        test.advance(by: .seconds(10))
        test.network.condition = .up
        client.reconnectNow()
        client.checkConnection()
        client.driver.step { $0.networkChanged(now: $1, &$2) }
        test.advance(by: .seconds(600))
        expect(client.state == .closed(nil) && test.server.sparks.isEmpty)
        await expect(events.names().isEmpty)
    }

    @Test(arguments: BehaviorKind.all)
    func `an end leaves no timer, and the next connection has one heartbeat`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = try await test.openClient()
        client.end()
        // Another thread may still handle an answer of the server.
        try await eventually { client.driver.nextDeadline == nil }
        client.open()
        try await client.opened(within: Behavior.limit)
        try await test.settled(client)
        let events = client.events()
        test.advance(by: .seconds(300))
        let traces = await events.pending().compactMap { if case .trace(let trace) = $0 { trace } else { nil } }
        let pings = traces.filter { if case .incomingPing = $0 { true } else { false } }.count
        let pongs = traces.filter { if case .outgoingPong = $0 { true } else { false } }.count
        let ownPings = traces.filter { if case .outgoingPing = $0 { true } else { false } }.count
        let answers = traces.filter { if case .incomingPong = $0 { true } else { false } }.count
        // The interval is 30 seconds, of which the server counts from its first client, or 25 seconds.
        let expected = kind.version == .v8 ? [10, 10, 0, 0] : [0, 0, 12, 12]
        expectEqual([pings, pongs, ownPings, answers], expected)
        expect(client.isConnected && test.server.sparks.count == 1)
        client.end()
        expectNil(client.driver.nextDeadline)
    }

    @Test(arguments: BehaviorKind.all) func `the end by the server is final, after its last message`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let client = try await test.openClient()
        let events = client.events()
        try #require(test.server.sparks.first).end("last")
        try await eventually { client.isClosed }
        let pending = await events.pending()
        let messages = pending.compactMap { if case .message(let message) = $0 { message } else { nil } }
        try expectEqual(messages.map { try $0.value }, ["last"])
        expectEqual(client.state, .closed(nil))
        test.advance(by: .seconds(600))
        expect(client.state == .closed(nil) && test.server.sparks.isEmpty && client.driver.nextDeadline == nil)
    }
}
