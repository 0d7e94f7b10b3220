import PrimusTesting
import PrimusWire
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// Clients over HTTP whose server, or a proxy on the way, fails.
@Suite(.timeLimit(.minutes(10))) struct PollingFaultTests {
    struct Kind: Sendable, CustomTestStringConvertible {
        let transformer: PrimusTransformerKind
        let connection: PrimusConnectionKind
        var testDescription: String { "\(self.transformer), \(self.connection)" }
    }

    static let connections = [
        Kind(transformer: .engineIO, connection: .polling), Kind(transformer: .sockjs, connection: .streaming),
        Kind(transformer: .sockjs, connection: .polling),
    ]

    /// A server, and a client that is connected over HTTP.
    private struct Fixture {
        let primus: InMemoryPrimus
        let client: PrimusConnection
        let spark: String

        init(_ kind: Kind, retry: PrimusRetryPolicy = .delays([.seconds(1), .seconds(1)])) async throws {
            var configuration = PrimusServerConfiguration()
            configuration.transformer = kind.transformer
            self.primus = try await InMemoryPrimus(configuration: configuration)
            self.client = self.primus.client {
                ($0.connectionKinds, $0.allowedTransports, $0.retry) = ([kind.connection], .polling, retry)
                ($0.detection, $0.transformer, $0.parser) = (.off, kind.transformer, .json)
            }
            self.client.open()
            try await self.client.opened(within: .seconds(600))
            // Another thread may not have sent the first request for messages yet.
            self.primus.network.waitUntilIdle()
            self.spark = try #require(self.primus.server.sparks.first?.id)
        }

        /// Writes a message in both directions, so that the request that waits ends.
        func exchangeMessages() throws {
            try self.primus.server.write("to the client")
            self.client.enqueue("to the server")
        }

        /// Waits until the client has connected again. The clock advances only to the next attempt: the request for the information of SockJS
        /// is made by a task, which the time limit of the attempt must not overtake.
        func reconnect() async throws {
            try await eventually {
                if let delay = self.client.reconnectDelay { self.primus.clock.advance(by: delay) }
                return self.client.isConnected && self.primus.server.sparks.contains { $0.id != self.spark }
            }
        }
    }

    @Test(arguments: Self.connections)
    func `polls that fail are repeated after the delays of the policy, and not before`(kind: Kind) async throws {
        let fixture = try await Fixture(kind, retry: .delays(Array(repeating: .seconds(10), count: 10)))
        let (primus, client) = (fixture.primus, fixture.client)
        let events = primus.server.events
        let updates = client.updates(buffer: .dropOldest(1000)).makeAsyncIterator()
        primus.server.faults.failedPolls = 4
        // A stream ends with its connection.
        if kind.connection == .streaming { primus.server.drop(fixture.spark) } else { try fixture.exchangeMessages() }
        var errors: [PrimusError] = []
        for _ in 0..<3 {
            while let update = await updates.next() {
                switch update {
                case .reconnecting(let error), .attemptFailed(let error): errors.append(error)
                case .reconnectScheduled: break
                default: continue
                }
                if case .reconnectScheduled = update { break }
            }
            // Nothing happens before the delay has passed.
            let remaining = primus.server.faults.failedPolls
            primus.clock.advance(by: .milliseconds(9_999))
            expectEqual(primus.server.faults.failedPolls, remaining)
            primus.clock.advance(by: .milliseconds(1))
        }
        try await eventually {
            if let delay = client.reconnectDelay { primus.clock.advance(by: delay) }
            return client.isConnected && primus.server.faults.failedPolls == 0
        }
        expect(errors.allSatisfy { $0.code == .connectionLost || $0.code == .timedOut }, "\(errors)")
        expect(errors.contains { $0.status == 500 }, "\(errors)")
        let rejected = await events.pending().filter { $0 == .rejected(status: 500) }
        expect(rejected.count == 4 && primus.server.faults.failedPolls == 0)
        client.end()
    }

    @Test(arguments: Self.connections)
    func `a session that the server has forgotten is a loss, and the client connects again`(kind: Kind) async throws {
        let fixture = try await Fixture(kind)
        let states = fixture.client.states.makeAsyncIterator()
        fixture.primus.server.forgetSession(fixture.spark)
        expect(fixture.primus.server.sparks.isEmpty)
        fixture.client.enqueue("to an unknown session")
        while let state = await states.next() {
            guard case .reconnecting(let error) = state else { continue }
            expectEqual(error.code, .connectionLost, "\(error)")
            guard kind.transformer == .engineIO else { break }
            expect(error.serverMessage == "Session ID unknown" && error.serverCode == PrimusCloseCode(.engineIO, 1), "\(error)")
            break
        }
        try await fixture.reconnect()
        fixture.client.end()
    }

    @Test(arguments: [PrimusTransformerKind.engineIO, .sockjs])
    func `only the answers to requests with messages of a session are lost`(transformer: PrimusTransformerKind) async throws {
        let test = try await ServerUnderTest { $0.transformer = transformer }
        let isEngine = transformer == .engineIO
        let opening = isEngine ? try test.openEngineIO() : "/primus/0/s/xhr"
        if !isEngine { try expectEqual(test.start(opening, method: "POST").body, "o\n") }
        let sending = isEngine ? opening : "/primus/0/s/xhr_send"
        let (body, unknown) = isEngine ? ("41", "/primus/?EIO=4&transport=polling&sid=x") : (#"["1"]"#, "/primus/0/unknown/xhr_send")
        test.server.faults.lostAnswers = 1
        try expectEqual(test.start("/primus/spec").status, 200)
        try expectEqual(test.start(sending, method: "OPTIONS").status, (isEngine ? 500 : 204))
        try expectEqual(test.start(sending, method: "PUT").status, (isEngine ? 500 : 405))
        try expectEqual(test.start(unknown, method: "POST", body: body).status, (isEngine ? 400 : 404))
        if !isEngine { try expectEqual(test.start(sending, method: "POST", body: "{}").status, 500) }
        try test.server.write(1)
        try expectEqual(test.start(opening, method: isEngine ? "GET" : "POST").body, (isEngine ? "41" : "a[\"1\"]\n"))
        expectEqual(test.server.faults.lostAnswers, 1)
        let lost = try test.start(sending, method: "POST", body: body)
        expect(lost.error != nil && lost.status == nil && test.server.faults.lostAnswers == 0)
        try expectEqual(test.start(sending, method: "POST", body: body).status, (isEngine ? 200 : 204))
    }

    @Test func `a session that has moved to a WebSocket can't be forgotten`() async throws {
        let test = try await ServerUnderTest { $0.transformer = .engineIO }
        _ = try test.openEngineIO()
        let spark = try #require(test.server.sparks.first)
        let client = test.client("/primus/?EIO=4&transport=websocket&sid=\(spark.id)")
        client.send("2probe")
        client.send("5")
        test.server.forgetSession(spark.id)
        expect(spark.isOpen)
        test.server.forgetSession("another")
    }

    @Test(arguments: Self.connections)
    func `a client that is dropped gets no answer, and connects again`(kind: Kind) async throws {
        let fixture = try await Fixture(kind)
        let states = fixture.client.states.makeAsyncIterator()
        fixture.primus.server.drop(fixture.spark)
        while let state = await states.next() {
            guard case .reconnecting(let error) = state else { continue }
            expect(error.code == .connectionLost && error.transportError?.code == .reset, "\(error)")
            break
        }
        try await fixture.reconnect()
        fixture.client.end()
    }

    @Test(arguments: Self.connections)
    func `a delay applies to messages over HTTP, which keep their order`(kind: Kind) async throws {
        let fixture = try await Fixture(kind)
        let (primus, client) = (fixture.primus, fixture.client)
        let messages = client.messages.makeAsyncIterator()
        primus.server.faults.delay = .milliseconds(300)
        try primus.server.write(1)
        try primus.server.write(2)
        let received = client.counters.messagesReceived
        primus.clock.advance(by: .milliseconds(299))
        expectEqual(client.counters.messagesReceived, received)
        primus.clock.advance(by: .milliseconds(1))
        for number in 1...2 { try await expectEqual(messages.next()?.value.int, number) }
        client.end()
    }

    @Test func `delayed messages follow on the WebSocket of a session that has moved, in order`() async throws {
        let test = try await ServerUnderTest { $0.transformer = .engineIO }
        let session = try test.openEngineIO()
        let spark = try #require(test.server.sparks.first)
        test.server.faults.delay = .milliseconds(300)
        try spark.write(1)
        let client = test.client(session.replacing("polling", with: "websocket"))
        client.send("2probe")
        client.send("5")
        try spark.write(2)
        expectEqual(client.lines, ["3probe"])
        test.clock.advance(by: .milliseconds(300))
        expectEqual(client.lines, ["3probe", "41", "42"])
    }
}
