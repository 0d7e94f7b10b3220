import PusherTestSupport
import PusherChannels
import PusherServer
import PusherTesting
import PusherWire
import RealtimeCore
import RealtimeCoding
import TestSupport
import Testing

/// Encrypted channels from the publisher to the client, with the embedded server.
@Suite struct EncryptedChannelTests {
    private static let otherKey = "tgQt4mJvFkmCfIWBH+6kCLVC1s6uacSMNPeF+4jm+U0="

    private func publisher(_ pusher: InMemoryPusher, key: String?) -> PusherPublisher {
        PusherPublisher(
            appID: "1", key: "key", secret: "secret",
            endpoint: Endpoint(scheme: "http", host: pusher.address.host, port: pusher.address.port), encryptionMasterKey: key,
            http: pusher.network.transports().http)
    }

    @Test(arguments: ["private-encrypted-a", "private-encrypted-cache-a"])
    func `a client receives what a publisher and the server encrypt, and nothing travels in plain text`(channel: String) async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let updates = client.updates(includingFrames: true)
        let events = try client.subscribe(channel).events()
        let publisher = self.publisher(pusher, key: pusher.server.app.encryptionMasterKey)
        try await publisher.publish("a", to: channel, data: ["secret": "first"])
        try await publisher.trigger("b", on: channel, data: "secret")
        try await publisher.triggerBatch([try PusherBatchEvent("c", on: channel, data: "secret")])
        pusher.server.publish("d", to: channel, data: "secret")
        let received = await events.pending().filter { $0.name != "pusher:cache_miss" }
        expectEqual(received.map(\.data), [#"{"secret":"first"}"#, "secret", "secret", "secret"])
        let frames = await updates.pending().compactMap { if case .frame(let text) = $0 { text } else { nil } }
        expect(frames.count > 4 && !frames.contains { $0.contains("secret") })
        if channel.contains("cache") {
            let late = pusher.client()
            let cached = try late.subscribe(channel).events()
            late.connect()
            await expectEqual(cached.pending().map(\.name), ["d"])
        }
    }

    @Test func `the application server can change the key while clients are subscribed`() async throws {
        let pusher = try await InMemoryPusher()
        let key = EventRecorder<String>()
        key.record(try #require(pusher.server.app.encryptionMasterKey))
        let client = pusher.client {
            $0.authorizer = .callback { request in
                try PusherPublisher(appID: "1", key: "key", secret: "secret", cluster: "eu", encryptionMasterKey: key.all.last)
                    .authorize(socketID: request.socketID, channel: request.channel)
            }
        }
        client.connect()
        let channel = try client.subscribe("private-encrypted-a")
        let events = channel.events()
        try await channel.subscribed()
        key.record(Self.otherKey)
        let publisher = self.publisher(pusher, key: Self.otherKey)
        for number in 1...3 { try await publisher.publish("a", to: "private-encrypted-a", data: "\(number)") }
        var received: [String?] = []
        for await event in events.prefix(3) { received.append(event.data) }
        expectEqual(received, ["1", "2", "3"])
    }

    @Test func `events that can't be decrypted are errors with the encrypted event, and don't contain plain text or keys`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client()
        client.connect()
        let errors = client.errors
        let events = try client.subscribe("private-encrypted-a").events()
        try await self.publisher(pusher, key: Self.otherKey).publish("a", to: "private-encrypted-a", data: "secret")
        pusher.server.publish("b", to: "private-encrypted-a", data: "readable")
        let failures = await errors.pending()
        let failure = try #require(failures.first?.cause as? PusherDecryptionFailure)
        expect(failures.map(\.code) == [.decryptionFailed] && failure.reason == .wrongKey && failure.event.name == "a")
        expect(failure.event.data?.contains("ciphertext") == true && failures.first?.message.contains("ciphertext") == false)
        await expectEqual(events.pending().map(\.data), ["readable"])
    }

    @Test func `an endpoint of the embedded server authorizes encrypted channels`() async throws {
        let pusher = try await InMemoryPusher()
        let endpoint = try await pusher.startAuthorizationEndpoint()
        let client = pusher.client { $0.authorizer = .endpoint(endpoint) }
        client.connect()
        let channel = try client.subscribe("private-encrypted-a")
        let events = channel.events()
        try await channel.subscribed()
        pusher.server.publish("a", to: "private-encrypted-a", data: "1")
        await expectEqual(events.pending().map(\.data), ["1"])
    }

    @Test(arguments: [nil, "", "AAAA"])
    func `a publisher without a valid key publishes nothing in plain text`(key: String?) async throws {
        let pusher = try await InMemoryPusher()
        let publisher = self.publisher(pusher, key: key)
        for channels in [["private-encrypted-a"], ["private-encrypted-cache-a"]] {
            let error = await #expect(throws: PusherError.self) { try await publisher.publish("a", to: channels, data: "secret") }
            expect(error?.code == .invalidConfiguration && error?.channel == channels[0])
        }
        #expect(throws: PusherError.self) { try publisher.authorize(socketID: "1.2", channel: "private-encrypted-a") }
    }

    @Test func `the limit of the data applies to the encrypted data`() async throws {
        let pusher = try await InMemoryPusher()
        let publisher = self.publisher(pusher, key: Self.otherKey)
        let (channel, data) = ("private-encrypted-a", String(repeating: "x", count: 8_000))
        try await publisher.triggerBatch([try PusherBatchEvent("a", on: "one", data: data)])
        let single = await #expect(throws: PusherError.self) { try await publisher.publish("a", to: channel, data: data) }
        let batch = await #expect(throws: PusherError.self) {
            try await publisher.triggerBatch([try PusherBatchEvent("a", on: channel, data: data)])
        }
        expect(single?.code == .dataTooLarge && batch?.code == .dataTooLarge)
    }

    @Test func `an event on an encrypted channel is published on it alone`() async throws {
        let pusher = try await InMemoryPusher()
        let publisher = self.publisher(pusher, key: Self.otherKey)
        let error = await #expect(throws: PusherError.self) {
            try await publisher.publish("a", to: ["one", "private-encrypted-a"], data: "1")
        }
        expect(error?.code == .invalidChannelName && error?.channel == "private-encrypted-a")
    }
}
