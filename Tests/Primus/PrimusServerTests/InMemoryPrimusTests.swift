import PrimusTesting
import PrimusWire
import RealtimeCore
import TestSupport
import Testing

/// Each combination of a transformer and a parser, in memory. What doesn't depend on the parser is tested in the suites of `Behaviors`.
@Suite(.timeLimit(.minutes(10))) struct InMemoryPrimusTests {
    struct Pair: Sendable, CustomTestStringConvertible {
        var transformer: PrimusTransformerKind
        var parser: PrimusParserKind
        var version: PrimusServerConfiguration.Version
        var testDescription: String { "\(self.transformer), \(self.parser), \(self.version)" }
    }

    static let pairs: [Pair] = {
        var pairs: [Pair] = []
        for version in [PrimusServerConfiguration.Version.v8, .v6] {
            for transformer in [PrimusTransformerKind.websockets, .sockjs, .engineIO] {
                for parser in PrimusParserKind.builtIn where transformer.rejection(of: parser) == nil {
                    pairs.append(Pair(transformer: transformer, parser: parser, version: version))
                }
            }
        }
        return pairs
    }()

    /// Every transformer and kind of connection with the manual clock, and without a wait in real time.
    @Test(arguments: BehaviorKind.all)
    func `each kind of connection outlives heartbeats, and ends with its server, at the time of the clock`(
        kind: BehaviorKind
    ) async throws {
        let test = try await Behavior(kind)
        let client = try await test.openClient()
        let id = try await client.id(within: Behavior.limit)
        test.advance(by: .seconds(300), step: .seconds(5))
        expect(client.isConnected && test.server.sparks.map(\.id) == [id])
        try await client.write("still here")
        await test.server.stop()
        try await eventually { !client.isConnected }
        client.end()
        test.advance(by: .seconds(60), step: .seconds(5))
        expect(client.driver.nextDeadline == nil && test.server.sparks.isEmpty)
    }

    @Test(arguments: BehaviorKind.all)
    func `in memory, a call returns when all has happened that follows from it`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let values = EventRecorder<PrimusValue>()
        let record = test.server.onMessage(on: CallbackExecutor { $0() }) { message in
            if let value = try? message.value { values.record(value) }
        }
        let client = test.informedClient()
        let messages = client.messages
        client.open()
        // The information of SockJS is requested in a task.
        if kind.transformer == .sockjs, kind.connections != [.webSocket] {
            try await client.opened(within: Behavior.limit)
            try await test.settled(client)
            test.network.waitUntilIdle()
        }
        expect(client.isConnected && test.server.sparks.count == 1)
        if kind.moves { expectEqual(client.transport, .webSockets) }
        expect(client.enqueue(1) && values.all == [1])
        try test.server.write(2)
        await expectEqual(messages.pending().map { try? $0.value }, [2])
        client.end()
        expect(client.state == .closed(nil) && test.server.sparks.isEmpty)
        record.cancel()
    }

    @Test(arguments: BehaviorKind.all) func `each client in memory has a session of its own`(kind: BehaviorKind) async throws {
        let test = try await Behavior(kind)
        let echo = test.echo()
        let clients = [try await test.openClient(), try await test.openClient(), try await test.openClient()]
        var ids: Set<String> = []
        for (number, client) in clients.enumerated() {
            let messages = client.messages.makeAsyncIterator()
            try await client.write(number)
            try await expectEqual(messages.next()?.value.int, number)
            ids.insert(try await client.id(within: Behavior.limit))
        }
        expect(ids.count == 3 && test.server.sparks.count == 3)
        for client in clients { client.end() }
        echo.cancel()
    }

    /// Packets that are nested too deeply, or have a length that they don't have.
    private static func bombs(_ parser: PrimusParserKind) -> [TransportMessage] {
        switch parser {
        case .msgpack: [.binary(Array(repeating: 0x91, count: 50_000)), .binary([0xDD, 0xFF, 0xFF, 0xFF, 0xFF])]
        case .binary: [.binary(Array(repeating: 0x91, count: 50_000)), .binary([0xBB, 0xFF, 0xFF, 0xFF, 0xFF])]
        default: [.text(String(repeating: "[", count: 50_000)), .text(String(repeating: #"{"a":"#, count: 50_000))]
        }
    }

    @Test(arguments: PrimusParserKind.builtIn)
    func `a packet that would need too much is an error on either side, and its neighbors arrive`(parser: PrimusParserKind) async throws {
        let primus = try await self.start(Pair(transformer: .websockets, parser: parser, version: .v8))
        let (numbers, problems) = (EventRecorder<Int>(), EventRecorder<Bool>())
        let record = primus.server.onMessage { message in
            do { numbers.record(try message.value.int ?? -1) } catch { problems.record(true) }
        }
        let client = primus.client()
        let messages = client.messages(buffer: .dropOldest(100))
        client.open()
        try await client.opened(within: .seconds(600))
        let spark = try #require(primus.server.sparks.first)
        let raw = RawClient(primus.network.transports().webSocket, primus.address, "/primus", [:])
        let coding = try #require(PrimusCoding(parser))
        for (number, bomb) in Self.bombs(parser).enumerated() {
            try spark.write(number)
            primus.server.sendRaw(bomb, to: spark.id)
            raw.socket.send([try coding.message(PrimusValue.int(Int64(number))), bomb])
        }
        try spark.write(2)
        raw.socket.send([try coding.message(PrimusValue.int(2))])
        var received: [Int?] = []
        for message in await messages.pending() { received.append((try? message.value)?.int) }
        expect(received == [0, nil, 1, nil, 2] && client.isConnected)
        try await eventually { numbers.all.count == 3 && problems.all.count == 2 }
        expect(numbers.all == [0, 1, 2] && raw.end == nil)
        client.end()
        record.cancel()
    }

    private func start(_ pair: Pair) async throws -> InMemoryPrimus {
        var configuration = PrimusServerConfiguration()
        (configuration.transformer, configuration.parser, configuration.version) = (pair.transformer, pair.parser, pair.version)
        return try await InMemoryPrimus(configuration: configuration)
    }

    @Test(arguments: Self.pairs)
    func `a client finds out what the server speaks, and talks to it`(pair: Pair) async throws {
        let primus = try await self.start(pair)
        let echo = primus.server.onMessage { message in _ = try? message.spark.write(message.value) }
        let client = primus.client()
        let messages = client.messages.makeAsyncIterator()
        client.open()
        try await client.opened(within: .seconds(600))
        let sent: [PrimusValue] = [1, "text", ["a": [true, nil, 0.5]], "ä\u{2028}"]
        for value in sent { try await client.write(value) }
        for value in sent { try await expectEqual(messages.next()?.value, value) }
        try await expectEqual(client.id(within: .seconds(600)), primus.server.sparks.first?.id)
        client.end()
        echo.cancel()
    }

    @Test(arguments: [true, false], [PrimusParserKind.json, .msgpack])
    func `a client of engine io 3 talks to a server of Primus 8 that allows it`(
        startsWithPolling: Bool, parser: PrimusParserKind
    ) async throws {
        var configuration = PrimusServerConfiguration()
        (configuration.transformer, configuration.parser, configuration.allowsEIO3) = (.engineIO, parser, true)
        let primus = try await InMemoryPrimus(configuration: configuration)
        let echo = primus.server.onMessage { message in _ = try? message.spark.write(message.value) }
        // A client that doesn't know the version of the server begins with this one.
        let client = primus.client {
            ($0.detection, $0.transformer, $0.parser) = (.off, .engineIO, parser)
            $0.startsWithPolling = startsWithPolling
        }
        let messages = client.messages.makeAsyncIterator()
        client.open()
        try await client.opened(within: .seconds(600))
        let spark = try #require(primus.server.sparks.first)
        expect(spark.query.contains { $0.name == "EIO" && $0.value == "3" })
        let sent: [PrimusValue] = [1, "ä😀", ["a": [true, nil, 0.5]]]
        for value in sent { try await client.write(value) }
        for value in sent { try await expectEqual(messages.next()?.value, value) }
        try await eventually { client.transport == .webSockets }
        // The client sends the pings of engine.io, and the server those of Primus.
        for _ in 0..<60 { primus.clock.advance(by: .seconds(5)) }
        try await client.write("still here")
        try await expectEqual(messages.next()?.value, "still here")
        expect(client.counters.reconnects == 0 && primus.server.sparks == [spark])
        spark.end()
        try await eventually { client.state == .closed(nil) }
        echo.cancel()
    }

    @Test(arguments: [PrimusTransformerKind.websockets, .faye, .engineIO, .sockjs], [401, 403, 503])
    func `a refusal is the same typed error over each transformer`(transformer: PrimusTransformerKind, status: Int) async throws {
        var configuration = PrimusServerConfiguration()
        configuration.transformer = transformer
        configuration.authorize = { _ in .reject("Who are you?", status: status, headers: ["WWW-Authenticate": "Basic realm=\"x\""]) }
        let primus = try await InMemoryPrimus(configuration: configuration)
        for isFramed in transformer == .sockjs ? [false, true] : [false] {
            let client = primus.client {
                ($0.detection, $0.transformer) = (.off, transformer)
                $0.strategies = [.disconnect]
                // Framed sessions of SockJS begin with another request.
                if isFramed { $0.connectionKinds = [.framedWebSocket] }
            }
            client.open()
            let error = await #expect(throws: PrimusError.self) { try await client.opened(within: .seconds(600)) }
            expect(error?.code == (status == 503 ? .connectionLost : .unauthorized) && error?.status == status, "\(error as Any)")
            expect(error?.serverMessage == "Who are you?" && error?.headers?["WWW-Authenticate"] == "Basic realm=\"x\"")
        }
    }

    @Test(arguments: [PrimusTransformerKind.websockets, .engineIO, .sockjs])
    func `the hook answers with a response of its own`(transformer: PrimusTransformerKind) async throws {
        var configuration = PrimusServerConfiguration()
        configuration.transformer = transformer
        let response = HTTPResponse(
            status: 403, headers: ["X-Reason": "closed", "Content-Type": "application/json"],
            text: #"{"error":"Come back tomorrow.","code":7}"#)
        configuration.authorize = { _ in .respond(response) }
        let primus = try await InMemoryPrimus(configuration: configuration)
        let client = primus.client()
        client.open()
        let error = await #expect(throws: PrimusError.self) { try await client.opened(within: .seconds(600)) }
        expect(error?.code == .unauthorized && error?.status == 403 && error?.serverMessage == "Come back tomorrow.")
        expect(error?.headers?["X-Reason"] == "closed" && primus.server.sparks.isEmpty)
    }

    @Test func `a server that drops messages drops those after the fault was set, until it is reset`() async throws {
        let primus = try await InMemoryPrimus()
        let client = primus.client()
        let messages = client.messages.makeAsyncIterator()
        client.open()
        try await client.opened(within: .seconds(600))
        let spark = try #require(primus.server.sparks.first)
        try spark.write(1)
        primus.server.faults.dropRate = 1
        try spark.write(2)
        primus.server.faults.dropRate = 0
        try spark.write(3)
        try await expectEqual(messages.next()?.value, 1)
        try await expectEqual(messages.next()?.value, 3)
        // In the middle, some of many arrive, in order.
        primus.server.faults.dropRate = 0.5
        for number in 0..<1000 { try spark.write(number) }
        primus.server.faults.dropRate = 0
        try spark.write("end")
        var received: [Int] = []
        while let value = try await messages.next()?.value, value != "end" { received.append(value.int ?? -1) }
        expect((300...700).contains(received.count) && received == received.sorted() && client.isConnected)
    }
}
