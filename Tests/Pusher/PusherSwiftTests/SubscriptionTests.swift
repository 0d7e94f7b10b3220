import Foundation
import NWWebSocket
import PusherWire
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

    private func connected(_ change: (PusherClientOptions) -> Void = { _ in }) async -> Pusher {
        let options = PusherClientOptions(authMethod: .authorizer(authorizer: self.authorizer))
        change(options)
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
        expect(!channel.subscribed && channel.unsentEvents.count == 1 && self.count("subscribed \(name)") == 0)
        try #require(self.authorizer.requests.all.last).answer(Self.auth())
        self.confirm(name)
        expect(channel.subscribed && channel.unsentEvents.isEmpty && self.count("subscribed \(name)") == 1)
    }

    @Test func `a confirmation after the time limit is ignored, and the next attempt is confirmed`() async {
        let (name, pusher) = ("a-pending", await self.connected())
        let channel = pusher.subscribe(name)
        self.clock.advance(by: .seconds(30))
        await settle()
        expectEqual(self.count("failed \(name) with an error"), 1)
        expectEqual(self.socket.sent.all.last, #"{"event":"pusher:unsubscribe","data":{"channel":"a-pending"}}"#)
        self.confirm(name)
        expect(!channel.subscribed && self.count("subscribed \(name)") == 0)
        self.clock.advance(by: .seconds(1))
        await settle()
        expectEqual(self.socket.sent.all.last, #"{"event":"pusher:subscribe","data":{"channel":"a-pending"}}"#)
        self.confirm(name)
        expect(channel.subscribed && self.count("subscribed \(name)") == 1)
    }

    // MARK: Rejections

    @Test func `a subscription that the server rejects with an event is reported once`() async throws {
        let (name, pusher, data) = ("private-a-pending", await self.connected(), EventRecorder<String>())
        let channel = pusher.subscribe(name)
        channel.bind(eventName: "pusher:subscription_error") { data.record($0.data ?? "") }
        try #require(self.authorizer.requests.all.last).answer(Self.auth())
        for event in ["pusher:subscription_error", "pusher_internal:subscription_error"] {
            self.socket.receive(#"{"event":"\#(event)","channel":"\#(name)","data":"no \#(event)"}"#)
            pusher.subscribe(name)
            try #require(self.authorizer.requests.all.last).answer(Self.auth())
        }
        expectEqual(data.all, ["no pusher:subscription_error", "no pusher_internal:subscription_error"])
        expect(self.count("failed \(name) with an error") == 2 && !channel.subscribed)
    }

    @Test func `a subscription that the server rejects with an error is reported, and may have been subscribed before`() async throws {
        let (name, pusher, data) = ("private-a", await self.connected(), EventRecorder<String>())
        let channel = pusher.subscribe(name)
        channel.bind(eventName: "pusher:subscription_error") { data.record($0.data ?? "") }
        try #require(self.authorizer.requests.all.last).answer(Self.auth())
        await settle()
        expect(channel.subscribed)
        self.socket.receive(#"{"event":"pusher:subscription_error","channel":"\#(name)","data":"ended"}"#)
        expect(!channel.subscribed && data.all == ["ended"] && self.count("failed \(name) with an error") == 1)
        let other = pusher.subscribe("private-b-pending")
        other.bind(eventName: "pusher:subscription_error") { data.record($0.data ?? "") }
        try #require(self.authorizer.requests.all.last).answer(Self.auth())
        self.socket.receive(#"{"event":"pusher:error","data":{"code":4009,"message":"no"}}"#)
        expect(!other.subscribed && data.all == ["ended", ""] && self.count("failed private-b-pending with an error") == 1)
    }

    // MARK: Handlers

    @Test func `events about members and all events of a channel can be bound`() async throws {
        let (name, pusher, calls) = ("presence-a", await self.connected(), EventRecorder<String>())
        let room = pusher.subscribeToPresenceChannel(channelName: name)
        for event in ["member_added", "member_removed", "subscription_count"] {
            room.bind(eventName: "pusher:\(event)") { calls.record("\($0.eventName) \($0.data ?? "")") }
        }
        let id = room.bind { calls.record("all \($0.eventName)") }
        room.onMemberAdded = { calls.record("added \($0.userId)") }
        pusher.bind { calls.record("client \($0.eventName)") }
        try #require(self.authorizer.requests.all.last).answer(Self.auth("123"))
        await settle()
        for (event, data) in [("member_added", #"{"user_id":"b"}"#), ("member_removed", #"{"user_id":"b"}"#)] {
            self.socket.receive(#"{"event":"pusher_internal:\#(event)","channel":"\#(name)","data":\#(data)}"#)
        }
        self.socket.receive(
            #"{"event":"pusher_internal:subscription_count","channel":"\#(name)","data":{"subscription_count":3}}"#)
        self.socket.receive(#"{"event":"price","channel":"\#(name)","data":"1"}"#)
        expectEqual(
            calls.take(),
            [
                "client pusher:subscription_succeeded", "all pusher:subscription_succeeded",
                "added b", #"pusher:member_added {"user_id":"b"}"#, "all pusher:member_added",
                #"pusher:member_removed {"user_id":"b"}"#, "all pusher:member_removed",
                #"pusher:subscription_count {"subscription_count":3}"#, "all pusher:subscription_count",
                "client price", "all price",
            ])
        room.unbind(callbackId: id)
        self.socket.receive(#"{"event":"price","channel":"\#(name)","data":"2"}"#)
        room.bind { _ in Issue.record("the handler was removed") }
        room.unbindAll()
        self.socket.receive(#"{"event":"price","channel":"\#(name)","data":"3"}"#)
        expectEqual(calls.all, ["client price", "client price"])
    }

    @Test func `a channel that is subscribed in both ways is one channel`() async throws {
        let (pusher, calls) = (await self.connected(), EventRecorder<String>())
        let channel = pusher.subscribe("room")
        channel.bind(eventName: "price") { _ in calls.record("channel") }
        await settle()
        let room = pusher.subscribeToPresenceChannel(channelName: "room", onSubscriptionCountChanged: { calls.record("count \($0)") })
        room.bind(eventName: "price") { _ in calls.record("room") }
        expect(channel.subscribed && room.subscribed && pusher.subscribe("room") === room)
        self.socket.receive(#"{"event":"price","channel":"room","data":"1"}"#)
        self.socket.receive(#"{"event":"pusher_internal:subscription_count","channel":"room","data":{"subscription_count":2}}"#)
        expect(calls.all == ["channel", "room", "count 2"] && channel.subscriptionCount == 2)
        pusher.unsubscribe("room")
        expect(!channel.subscribed && !room.subscribed)
    }

    // MARK: Settings

    @Test func `time limits are those of the options`() async throws {
        let pusher = await self.connected {
            $0.connectTimeout = 3
            $0.subscriptionTimeout = 5
        }
        pusher.subscribe("a-pending")
        self.clock.advance(by: .seconds(4))
        await settle()
        expectEqual(self.count("failed a-pending with an error"), 0)
        self.clock.advance(by: .seconds(1))
        await settle()
        expectEqual(self.count("failed a-pending with an error"), 1)
        self.socket.answersConnect = false
        self.socket.close(.privateCode(4200))
        await settle()
        self.clock.advance(by: .milliseconds(1))
        await settle()
        let attempts = self.socket.connects.all.count
        self.clock.advance(by: .seconds(3))
        await settle()
        self.clock.advance(by: .seconds(2))
        await settle()
        expectEqual(self.socket.connects.all.count, attempts + 1)
    }

    @Test(arguments: [true, false]) func `the check of channel names can be turned off`(validates: Bool) async throws {
        let pusher = await self.connected { $0.validatesChannelNames = validates }
        let channel = pusher.subscribe("App.Models/User:1")
        await settle()
        expectEqual(channel.subscribed, !validates)
    }

    // MARK: Authorizers

    @Test func `an authorization that was passed is used once, and then the method of the options`() async throws {
        let (name, pusher) = ("private-a-pending", await self.connected())
        let channel = pusher.subscribe(name, auth: PusherAuth(auth: "key:passed"))
        expect(self.socket.sent.all.last?.contains("key:passed") == true && self.authorizer.requests.all.isEmpty)
        self.socket.close(.privateCode(4200))
        await settle()
        self.clock.advance(by: .seconds(1))
        await settle()
        expectEqual(self.authorizer.requests.all.count, 1)
        try #require(self.authorizer.requests.all.last).answer(Self.auth())
        expectEqual(self.socket.sent.all.last?.contains("key:abc"), true)
        self.socket.receive(#"{"event":"pusher:subscription_error","channel":"\#(name)","data":"{}"}"#)
        pusher.subscribe(name, auth: PusherAuth(auth: "key:again"))
        expect(self.socket.sent.all.last?.contains("key:again") == true && self.authorizer.requests.all.count == 1)
        self.confirm(name)
        expect(channel.subscribed)
    }

    @Test func `all channels are authorized at the same time`() async {
        let pusher = await self.connected()
        for number in 1...30 { pusher.subscribe("private-\(number)") }
        expectEqual(self.authorizer.requests.all.count, 30)
    }

    @Test func `only the first answer of an authorizer counts`() async throws {
        let pusher = await self.connected()
        let refused = pusher.subscribe("private-no")
        let request = try #require(self.authorizer.requests.all.last)
        request.answer(nil)
        request.answer(nil)
        expect(!refused.subscribed && self.count("failed private-no with an error") == 1)
        let room = pusher.subscribeToPresenceChannel(channelName: "presence-a-pending")
        let other = try #require(self.authorizer.requests.all.last)
        other.answer(Self.auth("first"))
        other.answer(Self.auth("second"))
        other.answer(nil)
        expect(room.myId == "first" && self.count("failed presence-a-pending with an error") == 0)
        expectEqual(self.socket.sent.all.count { $0.contains("presence-a-pending") }, 1)
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
        expect(room.myId == nil && self.count("failed \(name) with an error") == 0)
        expect(!self.socket.sent.all.contains { $0.contains(name) })
        try #require(self.authorizer.requests.all.last).answer(Self.auth("anna"))
        expect(room.myId == "anna" && self.socket.sent.all.last?.contains(name) == true)
    }

    @Test(arguments: [true, false]) func `an answer after the channel was unsubscribed has no effect`(isSuccess: Bool) async throws {
        let (name, pusher) = ("presence-a-pending", await self.connected())
        let room = pusher.subscribeToPresenceChannel(channelName: name)
        pusher.unsubscribe(name)
        // Also if another subscription to the same channel has begun.
        let other = pusher.subscribeToPresenceChannel(channelName: name)
        try #require(self.authorizer.requests.all.first).answer(isSuccess ? Self.auth("late") : nil)
        expect(room.myId == nil && other.myId == nil && self.count("failed \(name) with an error") == 0)
        expect(!self.socket.sent.all.contains { $0.contains(name) })
    }

    // MARK: Encrypted channels

    @Test func `an event that arrives while a new key is awaited waits for it`() async throws {
        let (name, pusher, data) = ("private-encrypted-a", await self.connected(), EventRecorder<String>())
        func frame(_ text: String, _ byte: UInt8) throws -> String {
            let key = try EncryptionKey([UInt8](repeating: byte, count: 32))
            let payload = try EncryptedPayload(encrypting: text, key: key, nonce: [UInt8](repeating: byte, count: 24)).json
            return #"{"event":"e","channel":"\#(name)","data":\#(payload)}"#
        }
        func answer(_ byte: UInt8) throws {
            let secret = try EncryptionKey([UInt8](repeating: byte, count: 32)).base64
            try #require(self.authorizer.requests.all.last).answer(PusherAuth(auth: "key:abc", sharedSecret: secret))
        }
        let channel = pusher.subscribe(name)
        channel.bind(eventName: "e") { data.record($0.data ?? "") }
        try answer(1)
        await settle()
        self.socket.receive(try frame("first", 2))
        // It was encrypted with the previous key.
        self.socket.receive(try frame("second", 1))
        self.socket.receive(try frame("third", 2))
        expect(data.all.isEmpty && self.authorizer.requests.all.count == 2)
        try answer(2)
        await settle()
        expect(data.all == ["first", "second", "third"] && self.count("undecryptable e \(name)") == 0)
    }

    @Test func `events of the protocol are delivered once on an encrypted channel`() async throws {
        let (name, pusher) = ("private-encrypted-cache-a", await self.connected())
        let calls = EventRecorder<String>()
        let channel = pusher.subscribe(name)
        let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
        try #require(self.authorizer.requests.all.last).answer(PusherAuth(auth: "key:abc", sharedSecret: key))
        await settle()
        expect(channel.subscribed)
        for event in ["pusher:cache_miss", "pusher:new"] { channel.bind(eventName: event) { calls.record("channel \($0.eventName)") } }
        pusher.bind { calls.record("global \($0.eventName)") }
        for event in ["pusher:cache_miss", "pusher:new"] { self.socket.receive(#"{"event":"\#(event)","channel":"\#(name)","data":"{}"}"#) }
        expectEqual(
            calls.all,
            [
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
        expect(pusher.connection.channels.find(name: "a") == nil && self.socket.sent.take() == [subscription, end])

        // After `unsubscribe` has removed it, and before it calls the engine.
        pusher.connection.channels.channels["a"] = channel
        pusher.subscribe("a")
        await settle()
        channel.interruption.value = { pusher.subscribe("a") }
        pusher.unsubscribe("a")
        await settle()
        let new = try #require(pusher.connection.channels.find(name: "a"))
        expect(new !== channel && new.subscribed && self.socket.sent.all == [subscription, end, subscription])
    }
}
