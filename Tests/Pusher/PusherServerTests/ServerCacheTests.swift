@testable import PusherServer
import PusherWire
import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

private let cacheChannels = ["cache-a", "private-cache-a", "presence-cache-a", "private-encrypted-cache-a"]

/// Cache channels, which keep their last event for new subscribers.
@Suite struct ServerCacheTests {
    private func user(_ number: Int, _ channel: String) -> String? {
        ChannelName.kind(of: channel).isPresence ? "user\(number)" : nil
    }

    private func server(_ count: Int, _ change: (inout PusherApp) -> Void = { _ in }) -> ServerUnderTest {
        var server = ServerUnderTest(change)
        for number in 1...count { server.connect(number) }
        return server
    }

    @Test(arguments: cacheChannels)
    func `a new subscriber receives the last event or a cache miss`(channel: String) {
        var server = self.server(2)
        expectEqual(
            server.subscribe(1, channel, user: self.user(1, channel)).suffix(1), [.send(1, PusherFrames.cacheMiss(channel))])
        let socketID = server.socketID(1)
        let events = server.takeEvents().suffix(2)
        expectEqual(
            events,
            [
                .subscribed(socketID: socketID, channel: channel, userID: self.user(1, channel)),
                .cacheMiss(socketID: socketID, channel: channel),
            ])
        server.publish("a", to: channel)
        server.publish("b", to: channel)
        let commands = server.subscribe(2, channel, user: self.user(2, channel)).filter { if case .send(2, _) = $0 { true } else { false } }
        expectEqual(commands.map(\.summary), ["subscription_succeeded", "b"])
        expectEqual(commands.last, .send(2, PusherFrames.event("b", channel: channel, data: "1")))
    }

    @Test(arguments: ["a", "private-a", "presence-a", "private-encrypted-a", "my-cache-a", "cache", "presence-cache", "private-my-cache-a"])
    func `other channels keep no event`(channel: String) {
        var server = self.server(2)
        server.publish("a", to: channel)
        let commands = server.subscribe(1, channel, user: self.user(1, channel))
        expect(commands.map(\.summary) == ["subscription_succeeded"] && server.machine.cachedEvents.isEmpty)
    }

    @Test func `a cache miss is an event of the channel`() {
        expectEqual(
            ServerCommand.send(1, PusherFrames.cacheMiss("cache-a")),
            .send(1, #"{"event":"pusher:cache_miss","channel":"cache-a","data":"{}"}"#))
    }

    @Test func `the event is kept without subscribers and sent to a connection that it excluded`() {
        var server = self.server(1)
        server.subscribe(1, "cache-a")
        expect(server.publish("a", to: "cache-a", except: server.socketID(1)).isEmpty)
        server.unsubscribe(1, "cache-a")
        expect(server.machine.channels.isEmpty)
        expectEqual(server.subscribe(1, "cache-a").map(\.summary), ["subscription_succeeded", "a"])
    }

    @Test func `client events are not kept`() {
        var server = self.server(2)
        server.subscribe(1, "private-cache-a")
        expectEqual(server.subscribe(2, "private-cache-a").map(\.summary), ["subscription_succeeded", "cache_miss"])
        expectEqual(server.clientEvent(1, "client-a", on: "private-cache-a").map(\.summary), ["client-a"])
        server.unsubscribe(1, "private-cache-a")
        expectEqual(server.subscribe(1, "private-cache-a").map(\.summary), ["subscription_succeeded", "cache_miss"])
    }

    @Test(arguments: ["cache-a", "private-encrypted-cache-a"])
    func `clients cannot send events on public and encrypted cache channels`(channel: String) {
        var server = self.server(2)
        for number in 1...2 { server.subscribe(number, channel) }
        expectEqual(server.clientEvent(1, "client-a", on: channel).map(\.summary), ["error 4301"])
    }

    @Test func `an event expires after 30 minutes and a new one starts them again`() {
        var server = ServerUnderTest()
        server.publish("a", to: "cache-a")
        server.advance(by: .seconds(1000))
        server.publish("b", to: "cache-a")
        server.advance(by: .seconds(1799))
        server.connect(1)
        expectEqual(server.subscribe(1, "cache-a").map(\.summary), ["subscription_succeeded", "b"])
        server.closed(1)
        server.advance(by: .seconds(1))
        expect(server.machine.cachedEvents.isEmpty && server.machine.nextDeadline == nil)
        server.connect(2)
        expectEqual(server.subscribe(2, "cache-a").map(\.summary), ["subscription_succeeded", "cache_miss"])
    }

    @Test func `an app can change how long events are kept`() {
        var server = self.server(1) { $0.cachedEventLifetime = .seconds(2) }
        server.publish("a", to: "cache-a")
        server.advance(by: .milliseconds(2001))
        expectEqual(server.subscribe(1, "cache-a").map(\.summary), ["subscription_succeeded", "cache_miss"])
    }

    @Test func `the number of channels with an event is limited`() {
        var server = ServerUnderTest(logLevel: .info) {
            $0.cachedEventLimit = 2
            $0.cachedEventLifetime = .seconds(2)
        }
        for channel in ["cache-a", "cache-b", "cache-c"] { server.publish("a", to: channel) }
        expectEqual(server.logged, ["An event exceeded the limit of 2 channels with a cached event."])
        server.advance(by: .seconds(1))
        server.publish("b", to: "cache-a")
        server.connect(1)
        expectEqual(server.subscribe(1, "cache-a").map(\.summary), ["subscription_succeeded", "b"])
        expectEqual(server.subscribe(1, "cache-c").map(\.summary), ["subscription_succeeded", "cache_miss"])
        expectEqual(server.publish("c", to: "cache-c").map(\.summary), ["c"])
        // An event that expires makes room for another.
        server.advance(by: .seconds(1))
        server.publish("d", to: "cache-c")
        expectEqual(server.machine.cachedEvents.keys.sorted(), [ByteString("cache-a"), ByteString("cache-c")])
        expectEqual(server.logged.count, 2)
    }
}

/// The number of a channel's subscribers, of which they are notified.
@Suite struct ServerSubscriptionCountTests {
    private func server(_ count: Int) -> ServerUnderTest {
        var server = ServerUnderTest { $0.sendsSubscriptionCounts = true }
        for number in 1...count { server.connect(number) }
        return server
    }

    private func counts(_ numbers: [Int], _ count: Int, _ channel: String = "one") -> [ServerCommand] {
        numbers.map { .send($0, PusherFrames.subscriptionCount(channel, count)) }
    }

    @Test(arguments: ["one", "private-one", "private-encrypted-one"])
    func `subscribers are notified of each change`(channel: String) {
        var server = self.server(2)
        expectEqual(
            server.subscribe(1, channel), [.send(1, PusherFrames.subscriptionSucceeded(channel))] + self.counts([1], 1, channel))
        expectEqual(
            server.subscribe(2, channel), [.send(2, PusherFrames.subscriptionSucceeded(channel))] + self.counts([1, 2], 2, channel))
        expectEqual(server.unsubscribe(1, channel), self.counts([2], 1, channel))
        expectEqual(server.takeEvents().last, .subscriptionCount(channel: channel, count: 1))
        server.subscribe(1, channel)
        expectEqual(server.closed(2), self.counts([1], 1, channel))
        expect(server.closed(1).isEmpty && server.machine.nextDeadline == nil)
    }

    @Test func `the count is an event of the channel`() {
        expectEqual(
            self.counts([1], 12),
            [.send(1, #"{"event":"pusher_internal:subscription_count","channel":"one","data":"{\"subscription_count\":12}"}"#)])
    }

    @Test func `the count follows the cached event`() {
        var server = self.server(1)
        expectEqual(server.subscribe(1, "cache-a").map(\.summary), ["subscription_succeeded", "cache_miss", "subscription_count"])
    }

    @Test func `presence channels and channels of users have no count`() {
        var server = self.server(2)
        server.signIn(1, as: "x")
        for number in 1...2 { server.subscribe(number, "presence-a", user: "\(number)") }
        expectEqual(server.received(1, PusherFrames.subscribe("#server-to-user-x")).map(\.summary), ["subscription_succeeded"])
        expectEqual(server.closed(1).map(\.summary), ["member_removed"])
    }

    @Test func `an app has no counts by default`() {
        var server = ServerUnderTest()
        server.connect(1)
        expectEqual(server.subscribe(1, "one").map(\.summary), ["subscription_succeeded"])
    }

    @Test func `a channel with more than 100 subscribers is notified every 5 seconds at most`() {
        var server = self.server(111)
        for number in 1...100 { expectEqual(server.subscribe(number, "one").count, 1 + number) }
        for number in 101...110 { expectEqual(server.subscribe(number, "one").map(\.summary), ["subscription_succeeded"]) }
        expect(server.advance(by: .milliseconds(4_999)).isEmpty)
        expectEqual(server.advance(by: .milliseconds(1)), self.counts(Array(1...110), 110))
        // The next change waits until 5 s have elapsed since.
        expect(server.advance(by: .seconds(3)).isEmpty && server.unsubscribe(1, "one").isEmpty)
        expectEqual(server.advance(by: .seconds(2)), self.counts(Array(2...110), 109))
        // After a longer time, a change is sent without a delay.
        expect(server.advance(by: .seconds(20)).isEmpty)
        expectEqual(server.subscribe(111, "one").count, 1 + 110)
    }

    @Test func `a channel that becomes smaller is notified without a delay`() {
        var server = self.server(101)
        for number in 1...101 { server.subscribe(number, "one") }
        expectEqual(server.closed(101), self.counts(Array(1...100), 100))
        expect(server.advance(by: .seconds(30)).isEmpty)
    }

    @Test func `the delay ends with the channel`() {
        var server = self.server(101)
        for number in 1...101 { server.subscribe(number, "one") }
        for number in 1...101 { server.closed(number) }
        expect(server.machine.nextDeadline == nil && server.machine.channels.isEmpty)
    }
}
