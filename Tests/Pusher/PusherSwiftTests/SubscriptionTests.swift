import Foundation
import NWWebSocket
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherSwift

#if canImport(Network)
import Network
#endif

/// Subscriptions that are given up, confirmed late or authorized more than once, with a mock of the socket.
@MainActor @Suite struct SubscriptionTests {
    /// Answers when the test does.
    private final class LateAuthorizer: Authorizer, Sendable {
        struct Request: Sendable {
            let socketID: String
            let channel: String
            let answer: @Sendable (PusherAuth?) -> Void
        }

        let requests = EventRecorder<Request>()

        func fetchAuthValue(socketID: String, channelName: String, completionHandler: @escaping (PusherAuth?) -> Void) {
            let completion = Guarded(completionHandler)
            self.requests.record(Request(socketID: socketID, channel: channelName) { completion.value($0) })
        }
    }

    private let socket = MockSocket()
    private let delegate = RecordingDelegate()
    private let authorizer = LateAuthorizer()
    private let clock = ManualClock(standstillLimit: nil)

    private func connected() async -> Pusher {
        let options = PusherClientOptions(authMethod: .authorizer(authorizer: self.authorizer))
        options.transports = InMemoryNetwork(clock: self.clock).transports()
        let pusher = Pusher(key: "key", options: options)
        self.socket.delegate = pusher.connection
        pusher.connection.socket = self.socket
        pusher.delegate = self.delegate
        pusher.connect()
        await settle()
        return pusher
    }

    private func confirm(_ channel: String, _ data: String = "{}") {
        self.socket.receive(#"{"event":"pusher_internal:subscription_succeeded","channel":"\#(channel)","data":\#(data)}"#)
    }

    private func count(_ call: String) -> Int { self.delegate.calls.all.count { $0 == call } }

    private static func auth(_ user: String? = nil) -> PusherAuth {
        PusherAuth(auth: "key:abc", channelData: user.map { #"{"user_id":"\#($0)"}"# })
    }

    // MARK: Confirmations

    @Test func `the confirmation of a subscription that was given up doesn't confirm the next one`() async throws {
        let (name, pusher) = ("private-a-pending", await self.connected())
        pusher.subscribe(name)
        try #require(self.authorizer.requests.all.last).answer(Self.auth())
        pusher.unsubscribe(name)
        let channel = pusher.subscribe(name)
        channel.trigger(eventName: "client-a", data: "x")
        self.confirm(name)
        #expect(!channel.subscribed && channel.unsentEvents.count == 1 && self.count("subscribed \(name)") == 0)
        try #require(self.authorizer.requests.all.last).answer(Self.auth())
        self.confirm(name)
        #expect(channel.subscribed && channel.unsentEvents.isEmpty && self.count("subscribed \(name)") == 1)
    }

    @Test func `a confirmation after the time limit is ignored, and the next attempt is confirmed`() async {
        let (name, pusher) = ("a-pending", await self.connected())
        let channel = pusher.subscribe(name)
        self.clock.advance(by: .seconds(30))
        await settle()
        #expect(self.count("failed \(name) with an error") == 1)
        #expect(self.socket.sent.all.last == #"{"event":"pusher:unsubscribe","data":{"channel":"a-pending"}}"#)
        self.confirm(name)
        #expect(!channel.subscribed && self.count("subscribed \(name)") == 0)
        self.clock.advance(by: .seconds(1))
        await settle()
        #expect(self.socket.sent.all.last == #"{"event":"pusher:subscribe","data":{"channel":"a-pending"}}"#)
        self.confirm(name)
        #expect(channel.subscribed && self.count("subscribed \(name)") == 1)
    }

    // MARK: Authorizers

    @Test func `only the first answer of an authorizer counts`() async throws {
        let pusher = await self.connected()
        let refused = pusher.subscribe("private-no")
        let request = try #require(self.authorizer.requests.all.last)
        request.answer(nil)
        request.answer(nil)
        #expect(!refused.subscribed && self.count("failed private-no with an error") == 1)
        let room = pusher.subscribeToPresenceChannel(channelName: "presence-a-pending")
        let other = try #require(self.authorizer.requests.all.last)
        other.answer(Self.auth("first"))
        other.answer(Self.auth("second"))
        other.answer(nil)
        #expect(room.myId == "first" && self.count("failed presence-a-pending with an error") == 0)
        #expect(self.socket.sent.all.count { $0.contains("presence-a-pending") } == 1)
    }

    @Test(arguments: [true, false]) func `an answer for an earlier connection has no effect`(isSuccess: Bool) async throws {
        let (name, pusher) = ("presence-a-pending", await self.connected())
        let room = pusher.subscribeToPresenceChannel(channelName: name)
        let stale = try #require(self.authorizer.requests.all.last)
        self.socket.close(.privateCode(4200))
        await settle()
        self.clock.advance(by: .seconds(1))
        await settle()
        try #require(self.authorizer.requests.all.count == 2 && pusher.connection.socketId != stale.socketID)
        stale.answer(isSuccess ? Self.auth("stale") : nil)
        #expect(room.myId == nil && self.count("failed \(name) with an error") == 0)
        #expect(!self.socket.sent.all.contains { $0.contains(name) })
        try #require(self.authorizer.requests.all.last).answer(Self.auth("anna"))
        #expect(room.myId == "anna" && self.socket.sent.all.last?.contains(name) == true)
    }

    @Test(arguments: [true, false]) func `an answer after the channel was unsubscribed has no effect`(isSuccess: Bool) async throws {
        let (name, pusher) = ("presence-a-pending", await self.connected())
        let room = pusher.subscribeToPresenceChannel(channelName: name)
        pusher.unsubscribe(name)
        // Also if another subscription to the same channel has begun.
        let other = pusher.subscribeToPresenceChannel(channelName: name)
        try #require(self.authorizer.requests.all.first).answer(isSuccess ? Self.auth("late") : nil)
        #expect(room.myId == nil && other.myId == nil && self.count("failed \(name) with an error") == 0)
        #expect(!self.socket.sent.all.contains { $0.contains(name) })
    }

    // MARK: Encrypted channels

    @Test func `events of the protocol are delivered once on an encrypted channel`() async throws {
        let (name, pusher) = ("private-encrypted-cache-a", await self.connected())
        let calls = EventRecorder<String>()
        let channel = pusher.subscribe(name)
        let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
        try #require(self.authorizer.requests.all.last).answer(PusherAuth(auth: "key:abc", sharedSecret: key))
        await settle()
        #expect(channel.subscribed)
        for event in ["pusher:cache_miss", "pusher:new"] { channel.bind(eventName: event) { calls.record("channel \($0.eventName)") } }
        pusher.bind { calls.record("global \($0.eventName)") }
        for event in ["pusher:cache_miss", "pusher:new"] { self.socket.receive(#"{"event":"\#(event)","channel":"\#(name)","data":"{}"}"#) }
        #expect(
            calls.all == [
                "global pusher:cache_miss", "channel pusher:cache_miss", "global pusher:new", "channel pusher:new",
            ])
    }

    // MARK: Concurrent calls

    /// Calls a closure when the library reads or changes whether it is subscribed, where another thread could do the same.
    private final class InterruptingChannel: PusherChannel, @unchecked Sendable {
        let interruption = Guarded<(() -> Void)?>(nil)

        override var subscribed: Bool {
            get {
                self.interrupt()
                return super.subscribed
            }
            set {
                super.subscribed = newValue
                self.interrupt()
            }
        }

        private func interrupt() {
            let interruption = self.interruption.value
            self.interruption.value = nil
            interruption?()
        }
    }

    @Test func `the table and the subscriptions agree after concurrent calls`() async throws {
        let pusher = await self.connected()
        let channel = InterruptingChannel(name: "a", connection: pusher.connection)
        let subscription = #"{"event":"pusher:subscribe","data":{"channel":"a"}}"#
        let end = #"{"event":"pusher:unsubscribe","data":{"channel":"a"}}"#
        // After `subscribe` has found the channel in the table, and before it calls the engine.
        pusher.connection.channels.channels["a"] = channel
        channel.interruption.value = { pusher.unsubscribe("a") }
        pusher.subscribe("a", auth: Self.auth())
        #expect(pusher.connection.channels.find(name: "a") == nil && self.socket.sent.take() == [subscription, end])

        // After `unsubscribe` has removed it, and before it calls the engine.
        pusher.connection.channels.channels["a"] = channel
        pusher.subscribe("a")
        await settle()
        channel.interruption.value = { pusher.subscribe("a") }
        pusher.unsubscribe("a")
        await settle()
        let new = try #require(pusher.connection.channels.find(name: "a"))
        #expect(new !== channel && new.subscribed && self.socket.sent.all == [subscription, end, subscription])
    }
}
