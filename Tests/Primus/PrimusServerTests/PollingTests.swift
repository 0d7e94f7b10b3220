import PrimusTesting
import PrimusWire
import RealtimeCore
import TestSupport
import Testing

/// Clients and the embedded server in memory over every kind of connection, with the manual clock.
@Suite(.timeLimit(.minutes(10))) struct PollingTests {
    struct Pair: Sendable, CustomTestStringConvertible {
        var transformer: PrimusTransformerKind
        var connections: [PrimusConnectionKind]
        var version = PrimusServerConfiguration.Version.v8
        var testDescription: String {
            "\(self.transformer), \(self.version), \(self.connections.map(\.description).joined(separator: " then "))"
        }
    }

    static let pairs: [Pair] = [PrimusServerConfiguration.Version.v8, .v6].flatMap { version in
        [[PrimusConnectionKind.polling], [.polling, .webSocket]].map { Pair(transformer: .engineIO, connections: $0, version: version) }
            + [PrimusConnectionKind.framedWebSocket, .streaming, .polling].map {
                Pair(transformer: .sockjs, connections: [$0], version: version)
            }
    }

    private func start(_ pair: Pair, _ configure: (inout PrimusServerConfiguration) -> Void = { _ in }) async throws -> InMemoryPrimus {
        var configuration = PrimusServerConfiguration()
        (configuration.transformer, configuration.version) = (pair.transformer, pair.version)
        configure(&configuration)
        return try await InMemoryPrimus(configuration: configuration)
    }

    private func client(
        _ primus: InMemoryPrimus, _ pair: Pair, _ configure: (inout PrimusConfiguration) -> Void = { _ in }
    ) -> PrimusConnection {
        primus.client {
            $0.connectionKinds = pair.connections
            $0.allowedTransports = pair.connections.contains { $0.transport == .webSockets } ? .all : .polling
            configure(&$0)
        }
    }

    @Test(arguments: Self.pairs)
    func `messages go both ways, in order`(pair: Pair) async throws {
        let primus = try await self.start(pair)
        let echo = primus.server.onMessage { message in _ = try? message.spark.write(message.value) }
        let client = self.client(primus, pair)
        let messages = client.messages.makeAsyncIterator()
        client.open()
        try await client.opened(within: .seconds(600))
        for number in 0..<500 { try await client.write(PrimusValue.int(Int64(number))) }
        for number in 0..<500 {
            let value = try await messages.next()?.value
            guard value == .int(Int64(number)) else { return expectEqual(value, .int(Int64(number))) }
        }
        expectEqual(client.transport, (pair.connections.count == 2 ? .webSockets : pair.connections[0].transport))
        try await expectEqual(client.id(within: .seconds(600)), primus.server.sparks.first?.id)
        client.end()
        try await eventually {
            primus.server.sparks.isEmpty
                || {
                    primus.clock.advance(by: .seconds(1)); return false
                }()
        }
        echo.cancel()
    }

    @Test(arguments: Self.pairs)
    func `a client stays connected through heartbeats, and reconnects when the server is silent`(pair: Pair) async throws {
        let primus = try await self.start(pair)
        let client = self.client(primus, pair)
        client.open()
        try await client.opened(within: .seconds(600))
        try await eventually { primus.server.isLastSparkRead }
        let first = try #require(primus.server.sparks.first?.id)
        for _ in 0..<100 { primus.clock.advance(by: .seconds(5)) }
        expect(client.isConnected && primus.server.sparks.map(\.id) == [first])
        primus.server.faults.isSilent = true
        let states = client.states
        for _ in 0..<100 { primus.clock.advance(by: .seconds(1)) }
        _ = await states.first { if case .reconnecting = $0 { true } else { false } }
        // The attempt that is in progress is silent, too.
        try await eventually {
            primus.clock.advance(by: .seconds(1))
            return client.reconnectDelay != nil
        }
        primus.server.faults = PrimusServerFaults()
        try await eventually {
            // What an attempt does in tasks must not be overtaken by its time limit.
            if client.reconnectDelay != nil { primus.clock.advance(by: .seconds(1)) }
            return client.isConnected && primus.server.sparks.count == 1 && primus.server.sparks[0].id != first
        }
        client.end()
    }

    @Test(arguments: Self.pairs)
    func `a client that the server ends doesn't reconnect`(pair: Pair) async throws {
        let primus = try await self.start(pair)
        let client = self.client(primus, pair)
        client.open()
        try await client.opened(within: .seconds(600))
        try await eventually { primus.server.isLastSparkRead }
        primus.server.endAll()
        try await eventually {
            primus.clock.advance(by: .seconds(1))
            return client.state == .closed(nil)
        }
        expect(primus.server.sparks.isEmpty)
    }

    @Test(arguments: [PrimusServerConfiguration.Version.v8, .v6])
    func `a consumer that is full during the move gets everything in order, and the move is completed`(
        version: PrimusServerConfiguration.Version
    ) async throws {
        let pair = Pair(transformer: .engineIO, connections: [.polling, .webSocket], version: version)
        let primus = try await self.start(pair)
        // The first poll brings more than the consumer takes.
        let greeting = primus.server.onConnection(on: CallbackExecutor { $0() }) { spark in
            for number in 0..<100 { _ = try? spark.write(number) }
        }
        let client = self.client(primus, pair)
        let messages = client.messages(buffer: .pauseReading(1))
        client.open()
        try await client.opened(within: .seconds(600))
        for _ in 0..<8 { primus.clock.advance(by: .seconds(1)) }
        try primus.server.write(100)
        expect(client.isConnected)
        var received: [Int?] = []
        for await message in messages.prefix(101) { received.append(try message.value.int) }
        expectEqual(received, Array(0...100))
        try await eventually { client.transport == .webSockets }
        expect(client.counters.reconnects == 0 && primus.server.sparks.count == 1)
        // The pause of the connection that was replaced doesn't hide that this one is dead.
        primus.server.faults.isSilent = true
        for _ in 0..<60 { primus.clock.advance(by: .seconds(1)) }
        try await eventually { !client.isConnected }
        client.end()
        greeting.cancel()
    }

    // MARK: The end

    @Test(arguments: [PrimusServerConfiguration.Version.v8, .v6])
    func `a client whose consumer is full gets the last message of the server, and the end`(
        version: PrimusServerConfiguration.Version
    ) async throws {
        let pair = Pair(transformer: .engineIO, connections: [.polling], version: version)
        let primus = try await self.start(pair)
        let client = self.client(primus, pair)
        let messages = client.messages(buffer: .pauseReading(1))
        client.open()
        try await client.opened(within: .seconds(600))
        try await eventually { primus.server.isLastSparkRead }
        let spark = try #require(primus.server.sparks.first)
        for number in 0..<10 { try spark.write(number) }
        // It asks for more every 6.7 seconds, so that the session doesn't end.
        try await eventually { !primus.server.isLastSparkRead }
        try spark.end("last")
        for _ in 0..<13 { primus.clock.advance(by: .seconds(1)) }
        var received: [PrimusValue] = []
        for await message in messages.prefix(11) { received.append(try message.value) }
        expectEqual(received, (0..<10).map { PrimusValue.int(Int64($0)) } + [PrimusValue.string("last")])
        try await eventually { client.state == .closed(nil) }
        expect(client.counters.reconnects == 0 && primus.server.sparks.isEmpty)
    }

    @Test(arguments: [PrimusTransformerKind.engineIO, .sockjs])
    func `a server that has stopped waits for no client that doesn't ask for its messages`(transformer: PrimusTransformerKind) async throws
    {
        let test = try await ServerUnderTest { $0.transformer = transformer }
        let ends = EventRecorder<CloseReason>()
        let record = test.server.onDisconnection(on: CallbackExecutor { $0() }) { _, reason in ends.record(reason) }
        if transformer == .engineIO {
            _ = try test.openEngineIO()
        } else {
            try expectEqual(test.start("/primus/0/s/xhr", method: "POST").body, "o\n")
        }
        try test.server.write("last")
        await test.server.stop()
        expect(ends.all == [.requested] && test.server.sparks.isEmpty)
        record.cancel()
    }

    @Test func `a client that is admitted while the listener stops is disconnected as well`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        var configuration = PrimusServerConfiguration()
        configuration.transformer = .engineIO
        let server = PrimusServer(network: network, configuration: configuration, log: .none)
        let ends = EventRecorder<CloseReason>()
        let record = server.onDisconnection(on: CallbackExecutor { $0() }) { _, reason in ends.record(reason) }
        let transport = try #require(network.transports().http as? any HTTPExchangeTransport)
        let handshake = HTTPRequest("GET", try Endpoint("http://memory/primus/?EIO=4&transport=polling"))
        let listener = LateListener(network.listener(port: 80)) {
            expectEqual(RawExchange(transport, handshake).status, 200)
            expectEqual(server.sparks.count, 1)
        }
        _ = try await server.start(on: listener)
        await server.stop()
        expect(ends.all == [.requested] && server.sparks.isEmpty)
        record.cancel()
    }

    /// A listener that accepts something before it stops.
    private struct LateListener: Listener {
        private let listener: InMemoryListener
        private let beforeStop: @Sendable () -> Void

        init(_ listener: InMemoryListener, beforeStop: @escaping @Sendable () -> Void) {
            (self.listener, self.beforeStop) = (listener, beforeStop)
        }

        func start(_ handler: any ListenerHandler) async throws(TransportError) -> ListenerAddress {
            try await self.listener.start(handler)
        }

        func stop() async {
            self.beforeStop()
            await self.listener.stop()
        }
    }

    @Test func `clients of a server that shares a listener get their last messages after it has stopped`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        var configuration = PrimusServerConfiguration()
        configuration.transformer = .engineIO
        let server = PrimusServer(network: network, configuration: configuration, log: .none)
        let listener = network.listener()
        let address = try await listener.start(server.listenerHandler)
        let transport = try #require(network.transports().http as? any HTTPExchangeTransport)
        var endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: "/primus/?EIO=4&transport=polling")
        expectEqual(RawExchange(transport, HTTPRequest("GET", endpoint)).status, 200)
        endpoint.addQuery("sid", try #require(server.sparks.first).id)
        try server.write("last")
        server.endAll()
        await server.stop()
        expectEqual(RawExchange(transport, HTTPRequest("GET", endpoint)).body, "4\"last\"\u{1E}4\"primus::server::close\"")
        expectEqual(RawExchange(transport, HTTPRequest("GET", endpoint)).body, "6\u{1E}1")
        await listener.stop()
    }

    // MARK: Upgrades that fail

    private static let upgrading = Pair(transformer: .engineIO, connections: [.polling, .webSocket])
    private static let polling = Pair(transformer: .engineIO, connections: [.polling])

    @Test(arguments: [true, false])
    func `a session whose WebSocket is refused, or whose probe isn't answered, stays with polling`(isRefused: Bool) async throws {
        let primus = try await self.start(Self.upgrading)
        if isRefused { primus.server.faults.refusesUpgrades = true } else { primus.server.faults.ignoresProbes = true }
        let echo = primus.server.onMessage { message in _ = try? message.spark.write(message.value) }
        let client = self.client(primus, Self.upgrading)
        let messages = client.messages.makeAsyncIterator()
        client.open()
        try await client.opened(within: .seconds(600))
        let spark = try #require(primus.server.sparks.first?.id)
        for number in 0..<20 {
            try await client.write(number)
            try await expectEqual(messages.next()?.value.int, number)
            primus.clock.advance(by: .seconds(1))
        }
        expect(client.transport == .polling && primus.server.sparks.map(\.id) == [spark])
        client.end()
        echo.cancel()
    }

    @Test func `messages that no poll has taken follow on the WebSocket, in order`() async throws {
        let test = try await ServerUnderTest { $0.transformer = .engineIO }
        _ = try await test.request("/primus/?EIO=4&transport=polling")
        let spark = try #require(test.server.sparks.first)
        let client = test.client("/primus/?EIO=4&transport=websocket&sid=\(spark.id)")
        client.send("2probe")
        try spark.write(1)
        expectEqual(client.lines, ["3probe"])
        client.send("5")
        try spark.write(2)
        expectEqual(client.lines, ["3probe", "41", "42"])
    }

    @Test func `a message that arrives with the packet that moves the session is delivered`() async throws {
        let test = try await ServerUnderTest { $0.transformer = .engineIO }
        let received = EventRecorder<Int>()
        let record = test.server.onMessage { message in if let number = try? message.value.int { received.record(number) } }
        _ = try await test.request("/primus/?EIO=4&transport=polling")
        let client = test.client("/primus/?EIO=4&transport=websocket&sid=\(try #require(test.server.sparks.first).id)")
        client.send("2probe")
        client.send("5", "41", "42")
        try await eventually { received.all == [1, 2] }
        record.cancel()
    }

    // MARK: Losses and refusals

    @Test func `the lost answer to a message is a loss, and the server has taken the message once`() async throws {
        let primus = try await self.start(Self.polling)
        let received = EventRecorder<Int>()
        let record = primus.server.onMessage { message in if let number = try? message.value.int { received.record(number) } }
        let client = self.client(primus, Self.polling)
        let states = client.states.makeAsyncIterator()
        client.open()
        try await client.opened(within: .seconds(600))
        primus.server.faults.lostAnswers = 1
        // The client can't know that the server has it.
        let error = await #expect(throws: PrimusError.self) { try await client.write(1) }
        expectEqual(error?.code, .connectionLost)
        while let state = await states.next() { if case .reconnecting = state { break } }
        try await eventually {
            primus.clock.advance(by: .seconds(1))
            return client.isConnected
        }
        try await client.write(2)
        try await eventually { received.all == [1, 2] }
        client.end()
        record.cancel()
    }

    /// A session, and the request that the server refuses when the session's token has expired.
    enum Expiry: CaseIterable { case enginePost, enginePoll, upgrade, xhrSend, xhrPoll, stream }

    /// Opens a client whose token the server accepts, and refuses the token then.
    private func expire(
        _ expiry: Expiry, _ primus: InMemoryPrimus, _ client: PrimusConnection, _ accepted: EventRecorder<String>
    ) async throws {
        client.open()
        try await client.opened(within: .seconds(600))
        _ = accepted.take()
        switch expiry {
        case .enginePost, .xhrSend:
            let error = await #expect(throws: PrimusError.self) { try await client.write("hello") }
            expectEqual(error?.code, .unauthorized)
        // The answer to the poll, or the end of the stream, is followed by another request.
        case .enginePoll, .xhrPoll: try primus.server.write("hello")
        case .stream: try primus.server.write(String(repeating: "x", count: 5000))
        case .upgrade: break
        }
    }

    private func start(_ expiry: Expiry, _ status: Int, _ accepted: EventRecorder<String>) async throws -> InMemoryPrimus {
        let isEngine = [Expiry.enginePost, .enginePoll, .upgrade].contains(expiry)
        return try await self.start(Pair(transformer: isEngine ? .engineIO : .sockjs, connections: [])) {
            $0.sockJSResponseLimit = 4096
            $0.authorize = { request in
                // The move is the first request that is refused.
                let isRefused = expiry == .upgrade && request.query.contains("transport=websocket")
                let isAccepted = accepted.all.contains(request.headers["X-Token"] ?? "") && !isRefused
                return isAccepted ? .accept : .reject("The token has expired.", status: status)
            }
        }
    }

    private func client(
        _ expiry: Expiry, _ primus: InMemoryPrimus, _ configure: (inout PrimusConfiguration) -> Void
    ) -> PrimusConnection {
        let kinds: [PrimusConnectionKind] =
            switch expiry {
            case .enginePost, .enginePoll, .xhrSend, .xhrPoll: [.polling]
            case .upgrade: [.polling, .webSocket]
            case .stream: [.streaming]
            }
        return self.client(primus, Pair(transformer: .engineIO, connections: kinds), configure)
    }

    @Test(arguments: Expiry.allCases.filter { $0 != .upgrade }, [401, 403])
    func `a token that expires over HTTP is asked for again, and the client reconnects with another one`(
        expiry: Expiry, status: Int
    ) async throws {
        let (accepted, provided) = (EventRecorder<String>(), EventRecorder<String>())
        let primus = try await self.start(expiry, status, accepted)
        accepted.record("first")
        let client = self.client(expiry, primus) {
            $0.credentials = {
                provided.record("")
                return ["X-Token": provided.all.count == 1 ? "first" : "second"]
            }
        }
        let states = client.states.makeAsyncIterator()
        try await self.expire(expiry, primus, client, accepted)
        accepted.record("second")
        while let state = await states.next() {
            guard case .reconnecting(let error) = state else { continue }
            expect(error.code == .unauthorized && error.serverMessage == "The token has expired." && error.status == status)
            break
        }
        try await eventually {
            // What an attempt does in tasks must not be overtaken by its time limit.
            if client.reconnectDelay != nil { primus.clock.advance(by: .seconds(1)) }
            return client.isConnected
        }
        expectEqual(provided.all.count, 2)
        client.end()
    }

    @Test(arguments: Expiry.allCases.filter { $0 != .upgrade }, [401, 403])
    func `a token that expires over HTTP ends a client that has no other one, which can be opened again`(
        expiry: Expiry, status: Int
    ) async throws {
        let accepted = EventRecorder<String>()
        let primus = try await self.start(expiry, status, accepted)
        for strategies in [PrimusStrategies.all, []] {
            accepted.record("token")
            let client = self.client(expiry, primus) {
                $0.credentials = { ["X-Token": "token"] }
                $0.strategies = strategies
            }
            try await self.expire(expiry, primus, client, accepted)
            try await eventually {
                if client.reconnectDelay != nil { primus.clock.advance(by: .seconds(1)) }
                if case .closed(let error?) = client.state { return error.code == .unauthorized && error.status == status }
                return false
            }
            accepted.record("token")
            client.open()
            try await client.opened(within: .seconds(600))
            client.end()
        }
    }

    @Test(arguments: [401, 403])
    func `a session whose WebSocket is refused because of the token stays with polling`(status: Int) async throws {
        let accepted = EventRecorder<String>()
        let primus = try await self.start(.upgrade, status, accepted)
        let echo = primus.server.onMessage { message in _ = try? message.spark.write(message.value) }
        accepted.record("token")
        let client = self.client(.upgrade, primus) { $0.credentials = { ["X-Token": "token"] } }
        let messages = client.messages.makeAsyncIterator()
        client.open()
        try await client.opened(within: .seconds(600))
        for number in 0..<20 {
            try await client.write(number)
            try await expectEqual(messages.next()?.value.int, number)
            primus.clock.advance(by: .seconds(1))
        }
        expect(client.transport == .polling && client.counters.reconnects == 0)
        client.end()
        echo.cancel()
    }

    // MARK: Sessions

    @Test func `two first requests of a session of SockJS open one session`() async throws {
        let pending = EventRecorder<CheckedContinuation<Void, Never>>()
        let test = try await ServerUnderTest {
            $0.transformer = .sockjs
            $0.authorize = { _ in
                await withCheckedContinuation { pending.record($0) }
                return .accept
            }
        }
        async let first = test.request("/primus/000/session/xhr", method: "POST")
        async let second = test.request("/primus/000/session/xhr", method: "POST")
        try await eventually { pending.all.count == 2 }
        for request in pending.take() { request.resume() }
        try await eventually { test.server.sparks.count == 1 }
        try test.server.write("for the request that is left")
        let bodies = try await [first.body, second.body].map { String(decoding: $0, as: UTF8.self) }
        expect(bodies.contains("o\n") && test.server.sparks.count <= 1, "\(bodies)")
    }

    @Test func `the first answer of a session has the cookie for balancers, if there is one`() async throws {
        for name in ["io", nil] {
            let test = try await ServerUnderTest { ($0.transformer, $0.sessionCookie) = (.engineIO, name) }
            let response = try await test.request("/primus/?EIO=4&transport=polling")
            let cookie = response.head.headers["Set-Cookie"]
            expectEqual(cookie, name.map { "\($0)=\(test.server.sparks[0].id); Path=/; HttpOnly; SameSite=Lax" })
        }
    }

    @Test func `a page of another origin learns of a lost answer as well`() async throws {
        let test = try await ServerUnderTest { $0.transformer = .sockjs }
        let opened = try await test.request("/primus/000/a/xhr", method: "POST", headers: ["Origin": "http://page"])
        expectEqual(opened.head.headers["Access-Control-Allow-Origin"], "http://page")
        test.server.faults.lostAnswers = 1
        await #expect(throws: TransportError.self) {
            try await test.request("/primus/000/a/xhr_send", method: "POST", headers: ["Origin": "http://page"], body: #"["1"]"#)
        }
    }
}
