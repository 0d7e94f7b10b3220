import PusherChannels
import PusherServer
import PusherTesting
import RealtimeCoding
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// Literals with values of different types, beside calls that have a type.
@Suite(.timeLimit(.minutes(10))) struct LiteralTests {
    @Test func `clients, publishers and servers send them`() async throws {
        let pusher = try await InMemoryPusher()
        let (client, other) = (pusher.client(), pusher.client())
        for client in [client, other] { client.connect() }
        let channel = try client.subscribe("private-one")
        let otherChannel = try other.subscribe("private-one")
        for channel in [channel, otherChannel] { try await channel.subscribed() }
        let events = channel.events()
        let publisher = PusherPublisher(
            appID: "1", key: "key", secret: "secret",
            endpoint: Endpoint(scheme: "http", host: pusher.address.host, port: pusher.address.port),
            http: pusher.network.transports().http)
        try await publisher.publish("a", to: "private-one", data: ["user": "anna", "age": 7])
        try await publisher.publish("a", to: ["private-one"], data: ["user": "anna", "age": 7])
        try await publisher.trigger("a", on: "private-one", data: ["user": "anna", "age": 7])
        try await publisher.triggerBatch([PusherBatchEvent("a", on: "private-one", data: ["user": "anna", "age": 7])])
        try await publisher.trigger("a", on: ["private-one"], data: ["user": "anna", "age": 7])
        try pusher.server.publish("a", to: "private-one", data: ["user": "anna", "age": 7])
        try pusher.server.publish("a", to: ["private-one"], data: ["user": "anna", "age": 7])
        try otherChannel.trigger("client-a", ["user": "anna", "age": 7])
        let echo = PusherEcho(other)
        try echo.private("one").whisper("a", ["user": "anna", "age": 7])
        // With a type, a text stays as it is.
        try await publisher.publish("a", to: "private-one", data: "text")
        try await publisher.publish("a", to: "private-one", data: ["a": 1])
        pusher.server.publish("a", to: ["private-one"], data: "text")
        try echo.private("one").whisper("a", ["a": 1])
        var received: [String?] = []
        for await event in events {
            received.append(event.data)
            if received.count == 13 { break }
        }
        expectEqual(received, Array(repeating: #"{"user":"anna","age":7}"#, count: 9) + ["text", #"{"a":1}"#, "text", #"{"a":1}"#])
    }
}
