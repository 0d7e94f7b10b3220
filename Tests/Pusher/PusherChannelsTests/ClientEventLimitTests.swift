import PusherServer
import PusherTesting
import PusherWire
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherChannels

/// The limit of client events in the session, and the rejections of the server.
@Suite struct PusherSessionClientEventTests {
    private func subscribed(
        to channels: [String] = ["private-a"], _ limit: PusherClientEventLimit? = PusherClientEventLimit(perSecond: 2),
        queueLimit: Int = 64
    ) -> SessionHarness {
        var harness = SessionHarness {
            $0.clientEventLimit = limit
            $0.clientEventQueueLimit = queueLimit
        }
        harness.start()
        harness.establish()
        for (index, channel) in channels.enumerated() {
            harness.subscribe(channel)
            harness.authorize(UInt64(index + 1))
            harness.confirm(channel)
        }
        return harness
    }

    // MARK: The limit

    @Test func `events that exceed the limit wait and are sent in order across channels`() {
        var harness = self.subscribed(to: ["private-a", "private-b"])
        expectEqual(harness.triggerLimited("client-1", on: "private-a"), ["#1 client-1 private-a"])
        expectEqual(harness.triggerLimited("client-2", on: "private-b"), ["#1 client-2 private-b"])
        for (event, channel) in [("client-3", "private-b"), ("client-4", "private-a"), ("client-5", "private-b")] {
            expectEqual(harness.triggerLimited(event, on: channel), [])
        }
        expectEqual(harness.advance(by: .milliseconds(1099)), [])
        expectEqual(harness.advance(by: .milliseconds(1)), ["#1 client-3 private-b", "#1 client-4 private-a"])
        expectEqual(harness.advance(by: .milliseconds(1100)), ["#1 client-5 private-b"])
        expectEqual(harness.triggerLimited("client-6", on: "private-a"), ["#1 client-6 private-a"])
        expectEqual(harness.triggerLimited("client-7", on: "private-a"), [])
    }

    @Test func `without a limit no event waits`() {
        var harness = self.subscribed(nil)
        for number in 1...50 {
            expectEqual(harness.triggerLimited("client-\(number)", on: "private-a"), ["#1 client-\(number) private-a"])
        }
    }

    @Test func `events that fail at the limit are not sent later`() {
        var harness = self.subscribed(PusherClientEventLimit(perSecond: 1, excess: .fail))
        expectEqual(harness.triggerLimited("client-1", on: "private-a"), ["#1 client-1 private-a"])
        expectEqual(harness.triggerLimited("client-2", on: "private-a"), ["throws rateLimited"])
        expectEqual(harness.advance(by: .seconds(2)), [])
        expectEqual(harness.triggerLimited("client-3", on: "private-a"), ["#1 client-3 private-a"])
    }

    @Test func `triggering throws while as many events wait as the queue holds`() {
        var harness = self.subscribed(PusherClientEventLimit(perSecond: 1), queueLimit: 1)
        expectEqual(harness.triggerLimited("client-1", on: "private-a"), ["#1 client-1 private-a"])
        expectEqual(harness.triggerLimited("client-2", on: "private-a"), [])
        expectEqual(harness.triggerLimited("client-3", on: "private-a"), ["throws queueFull"])
        expectEqual(harness.advance(by: .milliseconds(1100)), ["#1 client-2 private-a"])
        expectEqual(harness.triggerLimited("client-4", on: "private-a"), [])
    }

    @Test(arguments: [PusherClientEventLimit.Excess.wait, .fail])
    func `events that waited for the subscription keep to the limit and are all sent`(excess: PusherClientEventLimit.Excess) {
        var harness = SessionHarness { $0.clientEventLimit = PusherClientEventLimit(perSecond: 2, excess: excess) }
        harness.subscribe("private-a")
        for number in 1...3 { expectEqual(harness.triggerLimited("client-\(number)", on: "private-a"), []) }
        harness.start()
        harness.establish()
        harness.authorize(1)
        expectEqual(harness.confirm("private-a"), ["private-a subscribed", "#1 client-1 private-a", "#1 client-2 private-a"])
        expectEqual(harness.advance(by: .milliseconds(1100)), ["#1 client-3 private-a"])
    }

    @Test func `events that wait when the connection is lost are sent after the next subscription`() {
        var harness = self.subscribed()
        for number in 1...3 { _ = harness.triggerLimited("client-\(number)", on: "private-a") }
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        expectEqual(harness.triggerLimited("client-4", on: "private-a"), [])
        harness.establish()
        harness.authorize(2)
        // The new connection has a limit of its own.
        expectEqual(
            harness.confirm("private-a"),
            [
                "private-a subscribed", "private-a gap 0.0 seconds", "#2 client-3 private-a", "#2 client-4 private-a",
            ])
        expectNil(harness.session.clientEvents.nextDeadline)
    }

    @Test func `waiting events of a channel are dropped when it is unsubscribed or its subscription fails`() {
        var harness = self.subscribed(to: ["private-a", "private-b", "private-c"], PusherClientEventLimit(perSecond: 1))
        _ = harness.triggerLimited("client-1", on: "private-a")
        for channel in ["private-a", "private-b", "private-c"] { _ = harness.triggerLimited("client-2", on: channel) }
        harness.unsubscribe("private-a")
        harness.receive(#"{"event":"pusher:subscription_error","channel":"private-b","data":{}}"#)
        expectEqual(harness.advance(by: .seconds(5)), ["#1 client-2 private-c"])
        expectEqual(harness.triggerLimited("client-3", on: "private-b"), ["throws subscriptionRejected"])
        expectEqual(harness.triggerLimited("client-3", on: "private-a"), ["throws notSubscribed"])
    }

    // MARK: Rejections

    private func rejection(_ harness: SessionHarness, channel: String? = nil) throws -> PusherError {
        let error = try Array(#"{"event":"pusher:error","data":{"code":4301,"message":"no"}}"#.utf8).withUnsafeBytes {
            ServerError(try PusherFrame(scanning: $0))
        }
        var events = harness.session.clientEvents
        let errors = events.rejected(error, channel: channel ?? harness.session.clientEventSender, nil, now: harness.now)
        return try #require(errors.last)
    }

    @Test func `a rejection belongs to the only channel that has sent events on the connection`() throws {
        var harness = self.subscribed(to: ["private-a", "private-b"], nil)
        try expectNil(self.rejection(harness).channel)
        _ = harness.trigger("client-1", on: "private-a")
        _ = harness.trigger("client-2", on: "private-a")
        try expectEqual(self.rejection(harness).channel, "private-a")
        try expectEqual(self.rejection(harness).message, "The server rejected a client event on private-a: no")
        _ = harness.trigger("client-1", on: "private-b")
        try expectNil(self.rejection(harness).channel)
        _ = harness.trigger("client-1", on: "private-b")
        try expectNil(self.rejection(harness).channel)
        try expectEqual(self.rejection(harness, channel: "private-b").channel, "private-b")
        try expectEqual(self.rejection(harness).message, "The server rejected a client event: no")
        // Events of an earlier connection don't count.
        harness.close(.peer(CloseCode(rawValue: 4200), ""))
        harness.establish()
        for work in [3, 4] as [UInt64] { harness.authorize(work) }
        for channel in ["private-a", "private-b"] { harness.confirm(channel) }
        _ = harness.trigger("client-1", on: "private-b")
        try expectEqual(self.rejection(harness).channel, "private-b")
    }

    @Test func `events that waited count as sent events of their channel`() throws {
        var harness = SessionHarness { $0.clientEventLimit = PusherClientEventLimit(perSecond: 1) }
        harness.subscribe("private-a")
        for number in 1...2 { _ = harness.triggerLimited("client-\(number)", on: "private-a") }
        harness.start()
        harness.establish()
        harness.authorize(1)
        harness.confirm("private-a")
        try expectEqual(self.rejection(harness).channel, "private-a")
        harness.advance(by: .seconds(2))
        try expectEqual(self.rejection(harness).channel, "private-a")
        // A channel that has been unsubscribed isn't named.
        harness.unsubscribe("private-a")
        try expectNil(self.rejection(harness).channel)
    }

    @Test func `a rejection is reported once as an error of its own kind`() {
        var harness = self.subscribed()
        _ = harness.trigger("client-1", on: "private-a")
        expectEqual(
            harness.receive(#"{"event":"pusher:error","data":{"code":4301,"message":"no"}}"#), ["error clientEventRejected"])
    }
}

@Suite struct ClientEventLimitTests {
    @Test func `a configuration for a cluster has the limit of the service and one for a host has none`() throws {
        expectEqual(PusherConfiguration(key: "key", cluster: "eu").clientEventLimit, PusherClientEventLimit(perSecond: 10, excess: .wait))
        expectNil(PusherConfiguration(key: "key", host: "host").clientEventLimit)
        try expectNil(PusherConfiguration(key: "key", url: "ws://host").clientEventLimit)
    }

    @Test func `all events of a client with a limit reach the others`() async throws {
        let pusher = try await InMemoryPusher()
        let sender = pusher.client { $0.clientEventLimit = PusherClientEventLimit() }
        let receiver = pusher.client()
        for client in [sender, receiver] { client.connect() }
        let (channel, errors) = (try sender.subscribe("private-one"), sender.errors)
        let events = try receiver.subscribe("private-one").events("client-value")
        for value in 1...25 { try channel.trigger("client-value", value) }
        await expectEqual(events.pending().map(\.data), (1...10).map { "\($0)" })
        pusher.clock.advance(by: .milliseconds(1100))
        await expectEqual(events.pending().map(\.data), (11...20).map { "\($0)" })
        pusher.clock.advance(by: .milliseconds(1100))
        await expectEqual(events.pending().map(\.data), (21...25).map { "\($0)" })
        await expect(errors.pending().isEmpty)
    }

    @Test func `a client whose excess events fail throws and keeps to the limit of the server`() async throws {
        let pusher = try await InMemoryPusher()
        let client = pusher.client { $0.clientEventLimit = PusherClientEventLimit(perSecond: 10, excess: .fail) }
        client.connect()
        let (channel, errors) = (try client.subscribe("private-one"), client.errors)
        for value in 1...10 { try channel.trigger("client-value", value) }
        let error = #expect(throws: PusherError.self) { try channel.trigger("client-value", 11) }
        expect(error?.code == .rateLimited && error?.channel == "private-one")
        pusher.clock.advance(by: .milliseconds(1100))
        try channel.trigger("client-value", 12)
        await expect(errors.pending().isEmpty)
    }

    @Test func `a rejected event is reported with its channel`() async throws {
        let pusher = try await InMemoryPusher { $0.allowsClientEvents = false }
        let client = pusher.client()
        client.connect()
        let errors = client.errors
        try client.subscribe("private-one").trigger("client-a", 1)
        let rejections = await errors.pending()
        expectEqual(rejections.map(\.code), [.clientEventRejected])
        expect(rejections.map(\.channel) == ["private-one"] && rejections.map(\.serverCode) == [4301])
    }

    @Test func `events of a client that is released while they wait are dropped`() async throws {
        let pusher = try await InMemoryPusher()
        var client: PusherClient? = pusher.client { $0.clientEventLimit = PusherClientEventLimit(perSecond: 1) }
        client?.connect()
        let channel = try client?.subscribe("private-one")
        for value in 1...3 { try channel?.trigger("client-a", value) }
        client?.disconnect()
        client = nil
        pusher.clock.advance(by: .seconds(10))
        expect(pusher.server.socketIDs.isEmpty)
    }
}
