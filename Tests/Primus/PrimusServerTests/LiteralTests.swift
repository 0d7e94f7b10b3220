import PrimusClient
import PrimusServer
import PrimusTesting
import PrimusWire
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// Literals with values of different types, beside calls that have a type.
@Suite(.timeLimit(.minutes(10))) struct LiteralTests {
    private static let mixed: PrimusValue = ["celsius": 21.5, "when": "now"]

    private static let last: PrimusValue = ["end", 1]

    private struct Fixture {
        let memory: InMemoryPrimus
        let client: PrimusConnection

        init() async throws {
            var configuration = PrimusServerConfiguration()
            configuration.plugins = .all
            self.memory = try await InMemoryPrimus(configuration: configuration)
            self.client = self.memory.client { $0.plugins = [.emitter, .emit, .multiplex, .substream, .responder] }
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
        try await client.end(["reason": "done", "code": 7])
        let messages: [PrimusValue] = [
            Self.mixed, [Self.mixed], ["a", Self.mixed, 1], [Self.mixed], Self.mixed, [], ["x", 1], [Self.mixed], ["x", Self.mixed],
            ["reason": "done", "code": 7],
        ]
        try await eventually { received.all.count == messages.count }
        expectEqual(Set(received.all), Set(messages))
        withExtendedLifetime(observations) {}
    }

    @Test func `a server sends them`() async throws {
        let fixture = try await Fixture()
        let (client, server) = (fixture.client, fixture.memory.server)
        let (received, joined, room) = (EventRecorder<PrimusValue>(), Waiter<PrimusSparkChannel>(), client.channel("room"))
        let observations = [
            server.onChannel("room") { if case .message(let channel, _) = $0 { joined.fulfill(channel)?.resume() } },
            client.onMessage(on: .tasks) { received.record((try? $0.value) ?? nil) },
            client.emitter.on("news", on: .tasks) { event in
                received.record(.array((try? event.values) ?? []))
                _ = try? event.acknowledge(["celsius": 21.5, "when": "now"], 2)
            },
            client.emits.on("news", on: .tasks) { received.record(["emit", .array((try? $0.values) ?? [])]) },
            client.substream("log").onMessage(on: .tasks) { received.record(["substream", (try? $0.value) ?? nil]) },
            client.onRequest(on: .tasks) { request in
                received.record(["request", (try? request.value) ?? nil])
                _ = try? request.respond(["celsius": 21.5, "when": "now"])
            },
            room.onMessage(on: .tasks) { _ in },
            room.emitter.on("news", on: .tasks) { event in
                received.record(["room", .array((try? event.values) ?? [])])
                _ = try? event.acknowledge(3)
            },
        ]
        try await room.write(1)
        let channel = await joined.value()
        let (spark, text) = (channel.spark, "x")
        try server.write(["celsius": 21.5, "when": "now"])
        try server.send("news", ["celsius": 21.5, "when": "now"], 5)
        try server.emit("news", ["celsius": 21.5, "when": "now"], 6)
        try spark.write(["celsius": 21.5, "when": "now"])
        try spark.send("news", ["celsius": 21.5, "when": "now"], nil)
        try spark.send("news", text, 1)
        try await expectEqual(spark.call("news", 1).values, [Self.mixed, 2])
        try await expectEqual(spark.call("news", ["celsius": 21.5, "when": "now"], "x").values, [Self.mixed, 2])
        try await expectEqual(spark.request(1, as: PrimusValue.self), Self.mixed)
        try await expectEqual(spark.request(["celsius": 21.5, "when": "now"], as: PrimusValue.self), Self.mixed)
        try spark.emit("news", ["celsius": 21.5, "when": "now"], nil)
        try spark.emit("news", text)
        try spark.write(["celsius": 21.5, "when": "now"], toSubstream: "log")
        try spark.write(text, toSubstream: "log")
        try channel.send("news", ["celsius": 21.5, "when": "now"])
        try await expectEqual(channel.call("news", ["celsius": 21.5, "when": "now"], 4).values, [3])
        try spark.end(["end", 1])
        let messages: [PrimusValue] = [
            Self.mixed, [Self.mixed, 5], ["emit", [Self.mixed, 6]], Self.mixed, [Self.mixed, nil], ["x", 1], [1], [Self.mixed, "x"],
            ["request", 1], ["request", Self.mixed],
            ["emit", [Self.mixed, nil]], ["emit", ["x"]], ["substream", Self.mixed], ["substream", "x"], ["room", [Self.mixed]],
            ["room", [Self.mixed, 4]], Self.last,
        ]
        try await eventually { received.all.count == messages.count }
        expectEqual(Set(received.all), Set(messages))
        withExtendedLifetime(observations) {}
    }
}
