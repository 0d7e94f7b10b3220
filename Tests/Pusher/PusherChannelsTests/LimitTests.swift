import PusherServer
import PusherTestSupport
import PusherTesting
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherChannels

/// The limits of the Pusher service, and those of other servers.
@Suite struct LimitTests {
    private static let large = String(repeating: "x", count: 20_000)

    @Test func `a client and a publisher with the limits of their server send what it accepts`() async throws {
        let pusher = try await InMemoryPusher {
            $0.eventDataLimit = 30_000
            $0.eventNameLimit = 300
            $0.batchLimit = 12
            $0.publicationChannelLimit = 120
        }
        let clients = (1...2).map { _ in
            pusher.client {
                $0.eventDataLimit = 30_000
                $0.eventNameLimit = 300
            }
        }
        for client in clients { client.connect() }
        let channels = try clients.map { try $0.subscribe("private-a") }
        let events = channels[1].events()
        let name = "client-" + String(repeating: "n", count: 280)
        try channels[0].trigger(name, Self.large)
        var publisher = pusher.publisher()
        (publisher.eventDataLimit, publisher.eventNameLimit, publisher.batchLimit, publisher.channelLimit) = (30_000, 300, 12, 120)
        try await publisher.publish(name.replacing("client-", with: ""), to: "private-a", data: Self.large)
        try await publisher.publish("many", to: ["private-a"] + (2...120).map { "a\($0)" }, data: "1")
        try await publisher.triggerBatch(try (1...12).map { _ in try PusherBatchEvent("batch", on: "private-a", data: "1") })
        await expectEqual(events.pending().map { $0.data?.utf8.count ?? 0 }, [20_000, 20_000, 1] + Array(repeating: 1, count: 12))
    }

    @Test func `the error of data over the limit names the setting`() async throws {
        let pusher = try await InMemoryPusher()
        let channel = try pusher.client().subscribe("private-a")
        let client = #expect(throws: PusherError.self) { try channel.trigger("client-a", Self.large) }
        expectEqual(client?.message.contains("increase `PusherConfiguration.eventDataLimit` if your server accepts more"), true)
        let publisher = await #expect(throws: PusherError.self) {
            try await pusher.publisher().publish("a", to: "one", data: Self.large)
        }
        expectEqual(
            publisher?.message,
            "The data of a has 20000 bytes; the limit is 10240 bytes. Send less, or increase `PusherPublisher.eventDataLimit` if your "
                + "server accepts more.")
    }

    @Test func `the error of data on an encrypted channel says that the encryption makes it longer`() async throws {
        let pusher = try await InMemoryPusher()
        let data = String(repeating: "x", count: 8_000)
        let error = await #expect(throws: PusherError.self) {
            try await pusher.publisher().publish("a", to: "private-encrypted-a", data: data)
        }
        expectEqual(error?.message.contains("bytes when it is encrypted, a third more than its 8000 bytes; the limit is 10240"), true)
        expectEqual(error?.channel, "private-encrypted-a")
        try await pusher.publisher().publish("a", to: "private-encrypted-a", data: String(repeating: "x", count: 7_600))
    }

    @Test func `a limit below zero is an invalid setting`() {
        var configuration = PusherConfiguration(key: "key", host: "host")
        configuration.eventDataLimit = -1
        expectEqual(configuration.validationError, "The eventDataLimit must not be negative, but is -1.")
        configuration.eventDataLimit = 0
        configuration.eventNameLimit = -2
        expectEqual(configuration.validationError, "The eventNameLimit must not be negative, but is -2.")
    }

    // MARK: Names

    @Test func `a publisher that doesn't check names signs, publishes and asks with any but an empty one`() async throws {
        let pusher = try await InMemoryPusher { $0.validatesChannelNames = false }
        var publisher = pusher.publisher()
        let (name, user) = ("presence-chat:1", PusherMember(id: "anna"))
        func error(_ call: () async throws -> Void) async -> PusherError? {
            do { try await call() } catch { return error as? PusherError }
            return nil
        }
        typealias Call = (PusherPublisher, String) async throws -> Void
        let calls: [Call] = [
            { _ = try $0.authorize(socketID: "1.2", channel: $1, user: user) }, { try await $0.publish("a", to: $1, data: "1") },
            { _ = try await $0.channel($1) }, { _ = try await $0.users(of: $1) },
            { try await $0.triggerBatch([try PusherBatchEvent("a", on: $1, data: "1")]) },
        ]
        for call in calls {
            let error = await error { try await call(publisher, name) }
            expectEqual(error?.code, .invalidChannelName)
            expectEqual(error?.message.hasSuffix("(If your server allows it, set `PusherPublisher.validatesChannelNames` to false.)"), true)
        }
        publisher.validatesChannelNames = false
        for call in calls {
            await expectNil(error { try await call(publisher, name) })
            await expectEqual(error { try await call(publisher, "") }?.code, .invalidChannelName)
        }
        await expectNil(error { try await publisher.sendToUser("anna/1", "a", data: "1") })
        await expectEqual(error { try await publisher.sendToUser("", "a", data: "1") }?.code, .invalidUser)
    }

    @Test func `the error of a name says how a client accepts it`() throws {
        let client = PusherClient(PusherConfiguration(key: "key", host: "host"))
        let error = #expect(throws: PusherError.self) { try client.subscribe("private-chat:1") }
        expectEqual(error?.message.hasSuffix("(If your server allows it, set `PusherConfiguration.validatesChannelNames` to false.)"), true)
        let empty = #expect(throws: PusherError.self) { try client.subscribe("") }
        expectEqual(empty?.message, "A channel name must not be empty.")
    }

    // MARK: Messages

    @Test func `the error of a client event on an encrypted channel says why`() async throws {
        let pusher = try await InMemoryPusher()
        let channel = try pusher.client().subscribe("private-encrypted-a")
        let error = #expect(throws: PusherError.self) { try channel.trigger("client-a", 1) }
        expect(error?.code == .clientEventsNotAllowed && error?.message.contains("encrypted channels don't allow client events") == true)
    }

    @Test func `an invalid cluster is named`() {
        let configuration = PusherConfiguration(key: "key", cluster: "EU west")
        expectEqual(
            configuration.validationError, "The cluster \"EU west\" contains an invalid character; use a name such as eu or us2.")
        expectEqual(PusherConfiguration(key: "key", host: "EU west").validationError, "The host contains an invalid character.")
    }

    @Test func `a server of another kind that rejects the WebSocket leads to a hint`() {
        var harness = SessionHarness(logLevel: .warning)
        harness.start()
        let response = HTTPResponse(status: 404, text: "There is no hub at this path.")
        harness.close(.transport(TransportError(.upgradeRejected, "ws://host: rejected with 404 Not Found.", response: response)))
        let hint = "404 Not Found. Check that it is a Pusher server, and `PusherConfiguration.path`."
        expectEqual(harness.logged.first?.contains(hint), true, "\(harness.logged)")
    }
}

/// Client events that aren't sent, or are rejected.
@Suite struct LostClientEventTests {
    @Test func `an event after an explicit disconnect throws, and one after the next connect is sent`() async throws {
        let pusher = try await InMemoryPusher()
        let (client, other) = (pusher.client(), pusher.client())
        for client in [client, other] { client.connect() }
        let channel = try client.subscribe("private-a")
        let events = try other.subscribe("private-a").events()
        client.disconnect()
        let error = #expect(throws: PusherError.self) { try channel.trigger("client-a", 1) }
        expectEqual(error?.code, .disconnected)
        expectEqual(error?.message, "The client was disconnected, so the event on private-a wasn't sent. Call connect() first.")
        client.connect()
        try channel.trigger("client-a", 2)
        await expectEqual(events.pending().map(\.data), ["2"])
    }

    @Test func `events that wait are dropped by a disconnect, and kept by a loss`() {
        for isLoss in [true, false] {
            var harness = SessionHarness.connected(to: "private-a")
            expectEqual(harness.trigger("client-a", on: "private-a"), ["queued"])
            if isLoss {
                harness.close(.transport(TransportError(.reset, "reset")))
                harness.advance(by: .seconds(1))
                expectEqual(harness.trigger("client-b", on: "private-a"), ["queued"])
            } else {
                harness.stop()
                harness.close(.peer(.normal, ""))
                expectEqual(harness.trigger("client-b", on: "private-a"), ["throws disconnected"])
                harness.start()
            }
            harness.establish()
            harness.authorize(2)
            let sent = isLoss ? ["#2 client-a private-a", "#2 client-b private-a"] : []
            expectEqual(Array(harness.confirm("private-a").dropFirst()), sent)
        }
    }

    private func rejection(_ text: String = "The rate limit for sending client events exceeded the quota.") -> String {
        #"{"event":"pusher:error","channel":"private-a","data":{"code":4301,"message":"\#(text)"}}"#
    }

    private func sending(_ change: (inout PusherConfiguration) -> Void = { _ in }) -> SessionHarness {
        var harness = SessionHarness(logLevel: .warning, change)
        harness.subscribe("private-a")
        harness.start()
        harness.establish()
        harness.authorize(1)
        harness.confirm("private-a")
        _ = harness.trigger("client-a", on: "private-a")
        return harness
    }

    @Test func `equal rejections within a second are reported together, with their number`() {
        var harness = self.sending()
        expectEqual(harness.receive(self.rejection()), ["error clientEventRejected"])
        for _ in 1...180 { expectEqual(harness.receive(self.rejection()), []) }
        expectEqual(harness.advance(by: .seconds(1)), ["error clientEventRejected"])
        let reason = "The rate limit for sending client events exceeded the quota."
        expectEqual(
            harness.logged,
            [
                "The server rejected a client event on private-a: \(reason) Set `PusherConfiguration.clientEventLimit`, so that events wait "
                    + "instead.", "The server rejected 180 more client events on private-a: \(reason)",
            ])
        // The flood continues.
        expectEqual(harness.receive(self.rejection()), [])
        expectEqual(harness.advance(by: .seconds(1)), ["error clientEventRejected"])
        expectEqual(harness.logged.last, "The server rejected another client event on private-a: \(reason)")
        // It has ended.
        expectEqual(harness.advance(by: .seconds(1)), [])
        expectEqual(harness.receive(self.rejection()), ["error clientEventRejected"])
    }

    @Test func `another reason is reported immediately, and the rest at the end of the connection`() {
        var harness = self.sending { $0.clientEventLimit = PusherClientEventLimit(perSecond: 20) }
        harness.receive(self.rejection(), self.rejection())
        expectEqual(harness.receive(self.rejection("no")), ["error clientEventRejected", "error clientEventRejected"])
        harness.receive(self.rejection("no"))
        harness.stop()
        harness.close(.peer(.normal, ""))
        expectEqual(harness.logged.map { $0.contains("more") || $0.contains("another") }, [false, true, false, true])
        expectEqual(harness.logged.first?.hasSuffix("Set a `PusherConfiguration.clientEventLimit` of less than 20 in a second."), true)
    }
}
