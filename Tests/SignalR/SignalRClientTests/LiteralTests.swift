import RealtimeCoding
import RealtimeTesting
import SignalRHubs
import SignalRServer
import SignalRTesting
import TestSupport
import Testing

/// Literals with values of different types, beside calls that have a type.
@Suite(.timeLimit(.minutes(10))) struct LiteralTests {
    private static let mixed: JSONValue = ["user": "anna", "age": 7]

    @Test func `a client calls methods with them`() async throws {
        let signalR = try await InMemorySignalR()
        let hub = signalR.server.hub("/hub")
        let received = EventRecorder<JSONValue>()
        hub.on("One") { (caller: HubCaller, value: JSONValue) -> JSONValue in
            received.record(value)
            return value
        }
        hub.on("Two") { (caller: HubCaller, text: String, value: JSONValue) -> Int in
            received.record(.array([.string(text), value]))
            return 2
        }
        hub.on("None") { (caller: HubCaller) in received.record(nil) }
        hub.stream("Items") { (caller: HubCaller, value: JSONValue) in
            AsyncStream<JSONValue> {
                $0.yield(value)
                $0.finish()
            }
        }
        let client = signalR.client("/hub")
        try await client.start()
        let text = "x"
        try await client.invoke("One", ["user": "anna", "age": 7])
        try await expectEqual(client.invoke("One", ["user": "anna", "age": 7], as: JSONValue.self), Self.mixed)
        try await client.send("One", ["user": "anna", "age": 7])
        try await client.invoke("Two", "a", ["user": "anna", "age": 7], within: .seconds(600))
        var items: [JSONValue] = []
        for try await item in try client.stream("Items", ["user": "anna", "age": 7], of: JSONValue.self) { items.append(item) }
        expectEqual(items, [Self.mixed])
        // With a type, or as values.
        try await client.invoke("None")
        try await client.invoke("One", Self.mixed)
        let two: Int = try await client.invoke("Two", text, Self.mixed)
        try await client.invoke("One", ["a": 1])
        expectEqual(two, 2)
        expectEqual(
            received.all,
            [Self.mixed, Self.mixed, Self.mixed, ["a", Self.mixed], nil, Self.mixed, ["x", Self.mixed], ["a": 1]])
        client.stop()
    }

    @Test(arguments: [HubProtocolType.json, .messagePack]) func `a server calls methods of clients with them`(
        format: HubProtocolType
    ) async throws {
        let signalR = try await InMemorySignalR()
        let hub = signalR.server.hub("/hub")
        let received = EventRecorder<JSONValue>()
        let client = signalR.client("/hub") { $0.hubProtocol = format }
        let tokens = [
            client.on("One") { (value: JSONValue) -> JSONValue in
                received.record(value)
                return value
            },
            client.on("Two") { (text: String, value: JSONValue) -> Int in
                received.record([.string(text), value])
                return 2
            },
            client.on("None") { received.record(nil) },
        ]
        try await client.start()
        let (all, text) = (hub.clients.all, "x")
        let one = hub.clients.client(all.connectionIDs[0])
        try await all.send("One", ["user": "anna", "age": 7])
        try await all.send("Two", "a", ["user": "anna", "age": 7])
        try await one.send("One", ["user": "anna", "age": 7])
        try await one.invoke("One", ["user": "anna", "age": 7])
        try await expectEqual(one.invoke("One", ["user": "anna", "age": 7], returning: JSONValue.self), Self.mixed)
        try await expectEqual(one.invoke("Two", "a", ["user": "anna", "age": 7], returning: Int.self, timeLimit: .seconds(600)), 2)
        // With a type, or as values.
        try await all.send("None")
        try await all.send("Two", text, Self.mixed)
        try await one.send("One", ["a": 1])
        let two: Int = try await one.invoke("Two", text, Self.mixed)
        expectEqual(two, 2)
        let calls: [JSONValue] = [
            Self.mixed, ["a", Self.mixed], Self.mixed, Self.mixed, Self.mixed, ["a", Self.mixed], nil, ["x", Self.mixed], ["a": 1],
            ["x", Self.mixed],
        ]
        try await eventually { received.all.count == calls.count }
        expectEqual(Set(received.all), Set(calls))
        withExtendedLifetime(tokens) {}
        client.stop()
    }
}
