import PrimusClient
import PrimusServer
import PrimusTesting
import PrimusWire
import RealtimeTesting
import TestSupport
import Testing

/// Literals with values of different types, beside calls that have a type.
@Suite(.timeLimit(.minutes(10))) struct LiteralTests {
    private static let mixed: PrimusValue = ["celsius": 21.5, "when": "now"]

    private struct Fixture {
        let memory: InMemoryPrimus
        let client: PrimusConnection

        init() async throws {
            var configuration = PrimusServerConfiguration()
            configuration.plugins = [.emitter, .multiplex, .responder]
            self.memory = try await InMemoryPrimus(configuration: configuration)
            self.client = self.memory.client { $0.plugins = [.emitter, .multiplex, .responder] }
            self.client.open()
            try await self.client.opened()
        }
    }

    @Test func `a client sends them`() async throws {
        let fixture = try await Fixture()
        let (client, server) = (fixture.client, fixture.memory.server)
        let received = EventRecorder<PrimusValue>()
        let observations = [
            server.onMessage { received.record((try? $0.value) ?? nil) },
            server.on("news") { call in
                received.record(.array((try? call.arguments.values) ?? []))
                try? call.acknowledge(["celsius": 21.5, "when": "now"])
            },
            server.onRequest { _, payload, respond in respond((try? payload.value) ?? nil) },
            server.onChannel("room") { if case .message(_, let payload) = $0 { received.record((try? payload.value) ?? nil) } },
        ]
        let text = "x"
        try await client.write(["celsius": 21.5, "when": "now"])
        try await client.emitter.send("news", ["celsius": 21.5, "when": "now"])
        try await client.emitter.send("news", "a", ["celsius": 21.5, "when": "now"], 1)
        try await expectEqual(client.emitter.send("news", ["celsius": 21.5, "when": "now"], as: PrimusValue.self), Self.mixed)
        try await expectEqual(client.request(["celsius": 21.5, "when": "now"], as: PrimusValue.self), Self.mixed)
        try await client.channel("room").write(["celsius": 21.5, "when": "now"])
        // With a type, or as values.
        try await client.emitter.send("news")
        try await client.emitter.send("news", text, 1)
        try await client.emitter.send("news", Self.mixed)
        try await client.emitter.send("news", text, Self.mixed)
        let messages: [PrimusValue] = [
            Self.mixed, [Self.mixed], ["a", Self.mixed, 1], [Self.mixed], Self.mixed, [], ["x", 1], [Self.mixed], ["x", Self.mixed],
        ]
        try await eventually { received.all.count == messages.count }
        expectEqual(Set(received.all), Set(messages))
        withExtendedLifetime(observations) {}
    }

    @Test func `a server sends them`() async throws {
        let fixture = try await Fixture()
        let (client, server) = (fixture.client, fixture.memory.server)
        let received = EventRecorder<PrimusValue>()
        let observations = [
            client.onMessage(on: .tasks) { received.record((try? $0.value) ?? nil) },
            client.emitter.on("news", on: .tasks) { event in
                received.record(.array((try? event.values) ?? []))
                _ = try? event.acknowledge(["celsius": 21.5, "when": "now"], 2)
            },
            client.onRequest(on: .tasks) { _ = try? $0.respond(["celsius": 21.5, "when": "now"]) },
        ]
        try await eventually { server.sparks.count == 1 }
        let (spark, text) = (server.sparks[0], "x")
        try server.write(["celsius": 21.5, "when": "now"])
        try spark.write(["celsius": 21.5, "when": "now"])
        try spark.send("news", ["celsius": 21.5, "when": "now"], nil)
        try spark.send("news", text, 1)
        try await expectEqual(spark.call("news", 1).values, [Self.mixed, 2])
        try await expectEqual(spark.request(1, as: PrimusValue.self), Self.mixed)
        let messages: [PrimusValue] = [Self.mixed, Self.mixed, [Self.mixed, nil], ["x", 1], [1]]
        try await eventually { received.all.count == messages.count }
        expectEqual(Set(received.all), Set(messages))
        withExtendedLifetime(observations) {}
    }
}
