import PrimusTesting
import PrimusWire
import RealtimeCore
import TestSupport
import Testing

/// Clients and the embedded server in memory over every kind of connection, with the manual clock.
@Suite(.timeLimit(.minutes(10))) struct PollingTests {
    struct Pair: Sendable, CustomTestStringConvertible {
        var transformer: PrimusTransformerKind
        var ways: [PrimusWay]
        var version = PrimusServerConfiguration.Version.v8
        var testDescription: String { "\(self.transformer), \(self.version), \(self.ways.map(\.description).joined(separator: " then "))" }
    }

    static let pairs: [Pair] = [PrimusServerConfiguration.Version.v8, .v6].flatMap { version in
        [[PrimusWay.polling], [.polling, .webSocket]].map { Pair(transformer: .engineIO, ways: $0, version: version) }
            + [PrimusWay.framedWebSocket, .streaming, .polling].map { Pair(transformer: .sockjs, ways: [$0], version: version) }
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
            $0.ways = pair.ways
            $0.allowedTransports = pair.ways.contains { $0.transport == .webSockets } ? .all : .polling
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
            guard value == .int(Int64(number)) else { return #expect(value == .int(Int64(number))) }
        }
        if pair.ways.count == 2 { #expect(client.transport == .webSockets) } else { #expect(client.transport == pair.ways[0].transport) }
        #expect(try await client.id(within: .seconds(600)) == primus.server.sparks.first?.id)
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
        let first = try #require(primus.server.sparks.first?.id)
        for _ in 0..<100 { primus.clock.advance(by: .seconds(5)) }
        #expect(client.isConnected && primus.server.sparks.map(\.id) == [first])
        primus.server.faults.isSilent = true
        let states = client.states
        for _ in 0..<100 { primus.clock.advance(by: .seconds(1)) }
        _ = await states.first { if case .reconnecting = $0 { true } else { false } }
        primus.server.faults = PrimusServerFaults()
        try await eventually {
            primus.clock.advance(by: .seconds(1))
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
        primus.server.endAll()
        try await eventually {
            primus.clock.advance(by: .seconds(1))
            return client.state == .closed(nil)
        }
        #expect(primus.server.sparks.isEmpty)
    }
}
