import Foundation
import NWWebSocket
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

@testable import PusherSwift

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif
#if canImport(Network)
import Network
#endif

/// A client with a mock of the socket, used on the main queue.
@MainActor @Suite struct SocketTests {
    private let socket = MockSocket()
    private let delegate = RecordingDelegate()
    /// Stands unless a test advances it, so that no time limit passes while the main queue is busy with other tests.
    private let clock = ManualClock(standstillLimit: nil)

    private func pusher(_ options: PusherClientOptions = PusherClientOptions(), key: String = "testKey123") -> Pusher {
        if options.transports == nil { options.transports = InMemoryNetwork(clock: self.clock).transports() }
        let pusher = Pusher(key: key, options: options)
        self.socket.delegate = pusher.connection
        pusher.connection.socket = self.socket
        pusher.delegate = self.delegate
        return pusher
    }

    // MARK: Connection

    @Test func `connect reaches the socket, the state and the delegate before it returns`() async {
        let pusher = self.pusher()
        expect(pusher.connection.connectionState == .disconnected && pusher.connection.socketId == nil)
        pusher.connect()
        expect(self.socket.connects.all.count == 1 && pusher.connection.connectionState == .connecting)
        expectEqual(self.delegate.calls.all, ["state disconnected → connecting"])
        await settle()
        expectEqual(self.socket.connects.all.count, 1)
        expect(pusher.connection.connectionState == .connected && pusher.connection.socketId == "45481.1")
        expectEqual(self.delegate.calls.all, ["state disconnected → connecting", "state connecting → connected"])
        pusher.connect()
        await settle()
        expectEqual(self.socket.connects.all.count, 1)
        pusher.disconnect()
        expectEqual(self.socket.disconnects.all, [.protocolCode(.normalClosure)])
        expectEqual(
            self.delegate.states.suffix(2), ["state connected → disconnecting", "state disconnecting → disconnected"])
        await settle()
        expect(self.socket.disconnects.all.count == 1 && self.delegate.states.count == 4)
        expectNil(pusher.connection.socketId)
        pusher.disconnect()
        await settle()
        expectEqual(self.delegate.states.count, 4)
    }

    @Test func `the URL names the client as before`() async {
        let url = Pusher(key: "testKey123", options: PusherClientOptions(host: .cluster("eu"), path: "/x")).connection.url
        expectEqual(url, "wss://ws-eu.pusher.com:443/x/app/testKey123?client=pusher-websocket-swift&version=10.1.10&protocol=7")
        let plain = PusherClientOptions(host: .host("::1"), port: 6001, encrypted: false)
        expect(Pusher(key: "k", options: plain).connection.url.hasPrefix("ws://[::1]:6001/app/k?"))
        let slash = PusherClientOptions(path: "/x/")
        expect(Pusher(key: "k", options: slash).connection.url.hasPrefix("wss://ws.pusherapp.com:443/x/app/k?") && slash.path == "/x/")
        expect(PusherClientOptions(useTLS: false).port == 80 && PusherClientOptions().host == "ws.pusherapp.com")
    }

    @Test func `a loss passes through the states as before, and the client connects again`() async throws {
        let pusher = self.pusher()
        pusher.connect()
        await settle()
        self.socket.close(.privateCode(4200), "restart")
        await settle()
        // The delay is zero, but takes a timer.
        self.clock.advance(by: .seconds(1))
        await settle()
        expectEqual(
            self.delegate.states,
            [
                "state disconnected → connecting", "state connecting → connected", "state connected → disconnected",
                "state disconnected → reconnecting", "state reconnecting → connecting", "state connecting → connected",
            ])
        expect(
            self.delegate.logs.all.contains(
                "[PUSHER DEBUG] Websocket is disconnected but no error received Close code: 4200. Reason: restart."))
        expect(self.delegate.logs.all.contains("[PUSHER DEBUG] Attempting to reconnect immediately (attempt 1)"))
        expectEqual(pusher.connection.reconnectAttempts, 0)
    }

    @Test(arguments: [4001, 4009, 4042]) func `the client stops after the server has rejected it`(code: UInt16) async {
        let pusher = self.pusher()
        pusher.connect()
        await settle()
        self.socket.close(.privateCode(code))
        await settle()
        expectEqual(self.delegate.states.last, "state connected → disconnected")
        expect(pusher.connection.connectionState == .disconnected && pusher.connection.phase == .disconnected)
    }

    @Test func `without automatic reconnects, the client stays disconnected after a loss`() async {
        let pusher = self.pusher(PusherClientOptions(autoReconnect: false))
        pusher.connect()
        await settle()
        self.socket.close(.protocolCode(.normalClosure))
        await settle()
        expectEqual(pusher.connection.connectionState, .disconnected)
        expectEqual(self.delegate.states.last, "state connected → disconnected")
    }

    @Test func `an error of the socket is a loss`() async {
        let pusher = self.pusher(PusherClientOptions(autoReconnect: false))
        pusher.connect()
        await settle()
        pusher.connection.webSocketDidReceiveError(connection: self.socket, error: .posix(.ECONNRESET))
        expectEqual(pusher.connection.connectionState, .disconnected)
    }

    @Test func `disconnecting stops an attempt in every state`() async {
        let pusher = self.pusher()
        self.socket.answersConnect = false
        pusher.connect()
        await settle()
        expectEqual(pusher.connection.connectionState, .connecting)
        pusher.disconnect()
        expectEqual(self.socket.disconnects.take(), [.protocolCode(.goingAway)])
        await settle()
        expectEqual(pusher.connection.connectionState, .disconnected)
        // The late success of the old attempt has no effect.
        self.socket.succeed()
        await settle()
        expectEqual(pusher.connection.connectionState, .disconnected)
        // While the client waits for the handshake of the protocol.
        pusher.connect()
        self.socket.delegate?.webSocketDidConnect(connection: self.socket)
        await settle()
        expectEqual(pusher.connection.connectionState, .connecting)
        pusher.disconnect()
        await settle()
        expect(pusher.connection.connectionState == .disconnected && self.socket.disconnects.take().count == 1)
        // While it waits for the next attempt.
        pusher.connection.options.reconnectDelay = 1000
        pusher.connect()
        self.socket.close(.protocolCode(.goingAway))
        await settle()
        expectEqual(pusher.connection.connectionState, .reconnecting)
        _ = self.socket.calls.take()
        pusher.disconnect()
        await settle()
        expect(pusher.connection.connectionState == .disconnected && self.socket.calls.all.isEmpty)
    }

    @Test func `a socket whose time limit has passed is disconnected`() async throws {
        let memory = try await InMemory()
        let pusher = self.pusher(memory.options())
        pusher.connection.options.reconnectDelay = 1000
        self.socket.answersConnect = false
        pusher.connect()
        memory.clock.advance(by: .seconds(31))
        await settle()
        expect(self.socket.disconnects.take() == [.protocolCode(.goingAway)] && pusher.connection.connectionState == .reconnecting)
        pusher.disconnect()
        self.socket.answersConnect = true
        pusher.connect()
        await settle()
        expectEqual(pusher.connection.connectionState, .connected)
        // The ping isn't answered.
        memory.clock.advance(by: .seconds(120))
        await settle()
        memory.clock.advance(by: .seconds(30))
        await settle()
        expect(self.socket.disconnects.all == [.protocolCode(.goingAway)] && pusher.connection.connectionState == .reconnecting)
    }

    @Test func `an attempt can be ended by the delegate before the socket connects`() async {
        let pusher = self.pusher()
        self.delegate.onState = { [unowned pusher] state in if state == .connecting { pusher.disconnect() } }
        pusher.connect()
        expect(self.socket.calls.all.isEmpty)
        await settle()
        expect(self.socket.calls.all.isEmpty && pusher.connection.connectionState == .disconnected)
        expectNil(pusher.connection.state.value.current)
        self.delegate.onState = nil
        pusher.connect()
        await settle()
        expect(self.socket.calls.all == ["connect"] && pusher.connection.connectionState == .connected)
    }

    @Test func `the delegate can connect when the client is disconnected, and disconnect when it connects`() async {
        let pusher = self.pusher()
        self.delegate.onState = { [unowned pusher] state in if state == .connected { pusher.disconnect() } }
        pusher.connect()
        await settle()
        expect(self.socket.calls.all == ["connect", "disconnect"] && pusher.connection.connectionState == .disconnected)
        expectEqual(
            self.delegate.states,
            [
                "state disconnected → connecting", "state connecting → connected", "state connected → disconnecting",
                "state disconnecting → disconnected",
            ])
        self.delegate.onState = { [unowned pusher] state in if state == .disconnected { pusher.connect() } }
        pusher.connect()
        await settle()
        pusher.disconnect()
        await settle()
        expectEqual(self.socket.calls.all.suffix(3), ["connect", "disconnect", "connect"])
        expectEqual(pusher.connection.connectionState, .connected)
    }

    // MARK: Channels

    @Test func `channels are in the table when subscribe returns, and one subscription is sent`() async {
        let pusher = self.pusher()
        let early = pusher.subscribe("early")
        await settle()
        expect(pusher.connection.channels.find(name: "early") === early && pusher.connection.channels.channels.count == 1)
        expect(!early.subscribed && early.type == .normal)
        pusher.connect()
        await settle()
        expect(early.subscribed)
        let chan = pusher.subscribe("test-channel")
        expect(self.socket.sent.all.last == #"{"event":"pusher:subscribe","data":{"channel":"test-channel"}}"# && !chan.subscribed)
        await settle()
        expect(chan.subscribed && pusher.subscribe("test-channel") === chan)
        let frames = self.socket.sent.all
        expectEqual(
            frames,
            [
                #"{"event":"pusher:subscribe","data":{"channel":"early"}}"#,
                #"{"event":"pusher:subscribe","data":{"channel":"test-channel"}}"#,
            ])
        expect(self.delegate.logs.all.contains(#"[PUSHER DEBUG] sendEvent {"event":"pusher:subscribe","data":{"channel":"early"}}"#))
        pusher.unsubscribe("test-channel")
        expect(!chan.subscribed && pusher.connection.channels.find("test-channel") == nil)
        expectEqual(self.socket.sent.all.last, #"{"event":"pusher:unsubscribe","data":{"channel":"test-channel"}}"#)
        pusher.unsubscribeAll()
        expect(pusher.connection.channels.channels.isEmpty)
    }

    @Test func `a pending channel can be unsubscribed`() async {
        let pusher = self.pusher()
        pusher.connect()
        await settle()
        pusher.subscribe("x-pending")
        await settle()
        pusher.unsubscribe("x-pending")
        expect(pusher.connection.channels.channels.isEmpty)
        expectEqual(self.socket.sent.all.last, #"{"event":"pusher:unsubscribe","data":{"channel":"x-pending"}}"#)
    }

    @Test func `a subscription without data is confirmed completely`() async {
        let pusher = self.pusher(PusherClientOptions(authMethod: .inline(secret: "secret")))
        pusher.connect()
        await settle()
        let channel = pusher.subscribe("private-x-pending")
        await settle()
        let names = EventRecorder<String>()
        channel.bind(eventName: "pusher:subscription_succeeded") { names.record($0.eventName) }
        channel.trigger(eventName: "client-a", data: ["x": 1])
        expectEqual(channel.unsentEvents.count, 1)
        self.socket.receive(#"{"event":"pusher_internal:subscription_succeeded","channel":"private-x-pending"}"#)
        expect(channel.subscribed && names.all == ["pusher:subscription_succeeded"] && channel.unsentEvents.isEmpty)
        expectEqual(self.delegate.calls.all.last, "subscribed private-x-pending")
        expectEqual(self.socket.sent.all.last, #"{"event":"client-a","data":{"x":1},"channel":"private-x-pending"}"#)
    }

    @Test func `inline signatures are those of PusherSwift`() async {
        let pusher = self.pusher(PusherClientOptions(authMethod: .inline(secret: "secret")))
        self.socket.answersConnect = false
        pusher.connect()
        await settle()
        self.socket.receive(#"{"event":"pusher:connection_established","data":"{\"socket_id\":\"45481.3166671\"}"}"#)
        self.socket.delegate?.webSocketDidConnect(connection: self.socket)
        pusher.subscribe("private-channel")
        expectEqual(
            self.socket.sent.all.last?.contains("testKey123:6aae8814fabd5285245422096705abbed64ea59614648814ffb0bf2dc5d19168"), true)
        let chan = pusher.subscribeToPresenceChannel("presence-channel")
        expectEqual(
            self.socket.sent.all.last?.contains("testKey123:5ce61ee2b8594e22b66323913d7c7af9d8e815659365be3627733993f4ce3824"), true)
        expectEqual(chan.myId, "45481.3166671")
        pusher.connection.userDataFetcher = { PusherPresenceChannelMember(userId: "123", userInfo: ["twitter": "anna"]) }
        let other = pusher.subscribeToPresenceChannel(channelName: "presence-other")
        await settle()
        expect(other.myId == "123" && other.me()?.userId == "123")
        expectEqual(self.socket.sent.all.last?.contains(#"{\"user_id\":\"123\",\"user_info\":{\"twitter\":\"anna\"}}"#), true)
    }

    @Test func `without a method, private channels fail like before`() async {
        let pusher = self.pusher()
        let events = EventRecorder<String>()
        pusher.bind { events.record("global \($0.eventName) \($0.channelName ?? "")") }
        let chan = pusher.subscribe("private-channel")
        await settle()
        chan.bind(eventName: "pusher:subscription_error") { events.record("channel \($0.data ?? "nil")") }
        pusher.connect()
        await settle()
        expectEqual(events.all, ["global pusher:subscription_error private-channel", "channel "])
        expectEqual(self.delegate.calls.all.last, "failed private-channel with an error")
        expect(self.delegate.logs.all.contains("[PUSHER DEBUG] Unable to subscribe to channel: private-channel"))
        expect(pusher.connection.channels.find(name: "private-channel") != nil)
        // Such a channel can be removed.
        pusher.unsubscribe("private-channel")
        expect(pusher.connection.channels.channels.isEmpty)
    }

    @Test func `an authorization can be passed with the subscription`() async {
        let pusher = self.pusher()
        pusher.connect()
        await settle()
        let chan = pusher.subscribe("private-manual", auth: PusherAuth(auth: "testKey123:1234"))
        expectEqual(
            self.socket.sent.all.last, #"{"event":"pusher:subscribe","data":{"channel":"private-manual","auth":"testKey123:1234"}}"#)
        await settle()
        expect(chan.subscribed && chan.auth == nil)
        let auth = PusherAuth(auth: "testKey123:1234", channelData: #"{"user_id":"16"}"#)
        let presence = pusher.subscribeToPresenceChannel(channelName: "presence-manual", auth: auth)
        await settle()
        expect(presence.subscribed && presence.myId == "16")
        let failing = pusher.subscribe("presence-incomplete", auth: PusherAuth(auth: "testKey123:1234"))
        await settle()
        expect(!failing.subscribed)
        expect(
            self.delegate.logs.all.contains(
                "[PUSHER DEBUG] Attempting to subscribe to presence channel but no channelData value provided"))
    }

    private final class TestAuthorizer: Authorizer {
        let result: PusherAuth?

        init(_ result: PusherAuth?) { self.result = result }

        // Not escaping, as the README prints it.
        func fetchAuthValue(socketID: String, channelName: String, completionHandler: (PusherAuth?) -> ()) {
            completionHandler(self.result)
        }
    }

    @Test func `an authorizer authorizes, or fails the subscription with nil`() async {
        let auth = PusherAuth(auth: "testKey123:abc", channelData: #"{"user_id":777}"#)
        let pusher = self.pusher(PusherClientOptions(authMethod: .authorizer(authorizer: TestAuthorizer(auth))))
        pusher.connect()
        await settle()
        let chan = pusher.subscribeToPresenceChannel(channelName: "presence-a")
        await settle()
        expect(chan.subscribed && chan.myId == "777")
        pusher.connection.options.authMethod = .authorizer(authorizer: TestAuthorizer(nil))
        pusher.subscribe("private-b")
        await settle()
        expectEqual(self.delegate.calls.all.last, "failed private-b with an error")
        expect(self.delegate.logs.all.contains("[PUSHER DEBUG] Auth info passed to authorizer completionHandler was nil"))
    }

    // MARK: Events

    @Test func `events are handled when they are handed in: global handlers first, in the order in which they were bound`() async {
        let pusher = self.pusher()
        let calls = EventRecorder<String>()
        let chan = pusher.subscribe("test-channel")
        await settle()
        chan.bind(eventName: "test-event") { event in calls.record("channel \(event.data ?? "")") }
        for number in 1...5 { pusher.bind { event in calls.record("global \(number) \(event.eventName)") } }
        let id = chan.bind(eventName: "test-event") { _ in calls.record("removed") }
        chan.unbind(eventName: "test-event", callbackId: id)
        expect(chan.eventHandlers["test-event"]?.count == 1 && pusher.connection.globalChannel.globalCallbacks.count == 5)
        // The client isn't connected.
        pusher.connection.webSocketDidReceiveMessage(
            connection: self.socket, string: #"{"event":"test-event","channel":"test-channel","data":"stupid data"}"#)
        expectEqual(calls.take(), (1...5).map { "global \($0) test-event" } + ["channel stupid data"])
        pusher.connect()
        await settle()
        self.socket.receive(#"{"event":"test-event","channel":"test-channel","data":{"a":1}}"#)
        expectEqual(calls.all.last, #"channel {"a":1}"#)
        self.socket.receive(#"{"event":"test-event","channel":"unknown","data":"x"}"#)
        pusher.unbindAll()
        chan.unbindAll(forEventName: "test-event")
        _ = calls.take()
        self.socket.receive(#"{"event":"test-event","channel":"test-channel","data":"x"}"#)
        expect(calls.all.isEmpty)
    }

    @Test func `an event has the properties of its frame`() async throws {
        let pusher = self.pusher()
        let events = EventRecorder<PusherEvent>()
        pusher.subscribe("presence-channel")
        await settle()
        pusher.bind(eventCallback: { events.record($0) })
        self.socket.receive(
            #"{"event":"client-a","channel":"presence-channel","data":"{\"x\":1}","user_id":"u1","extra":null}"#)
        let event = try #require(events.all.first)
        expect(event.eventName == "client-a" && event.channelName == "presence-channel" && event.userId == "u1")
        expect(event.data == #"{"x":1}"# && event.property(withKey: "extra") is NSNull && event.property(withKey: "none") == nil)
        expectEqual((event.copy() as? PusherEvent)?.data, event.data)
    }

    @available(*, deprecated)
    @Test func `errors of the server reach the delegate and the handlers of old versions`() async {
        let pusher = self.pusher()
        let messages = EventRecorder<String>()
        let currents = EventRecorder<String>()
        pusher.bind(callback: { (message: Any?) in
            if let message = message as? [String: AnyObject], message["event"] as? String == "pusher:error",
                let data = message["data"] as? [String: AnyObject], let text = data["message"] as? String
            {
                messages.record(text)
            }
        })
        pusher.bind { currents.record($0.eventName) }
        self.socket.receive(#"{"event":"pusher:error","data":{"code":4301,"message":"Nope"}}"#)
        self.socket.receive(#"{"event":"pusher:error","data":{"code":null,"message":"Existing subscription"}}"#)
        expectEqual(self.delegate.calls.all, ["error 4301 Nope", "error nil Existing subscription"])
        expect(messages.all == ["Nope", "Existing subscription"] && currents.all.isEmpty)
        self.socket.receive(#"{"event":"pusher:error","data":"not an error"}"#)
        self.socket.receive("not JSON")
        expectEqual(self.delegate.logs.all.suffix(3).first?.hasPrefix("[PUSHER DEBUG] Unable to handle incoming error"), true)
        expectEqual(self.delegate.logs.all.last, "[PUSHER DEBUG] Unable to handle incoming Websocket message not JSON")
    }

    @available(*, deprecated)
    @Test func `handlers of old versions receive objects, or text if the options say so`() async {
        for isParsed in [true, false] {
            let pusher = Pusher(key: "key", options: PusherClientOptions(attemptToReturnJSONObject: isParsed))
            let values = EventRecorder<String>()
            let chan = pusher.subscribe("c")
            await settle()
            chan.bind(
                eventName: "e",
                callback: { data in
                    if let object = data as? [String: AnyObject], let name = object["name"] as? String { values.record("object \(name)") }
                    if let text = data as? String { values.record("text \(text)") }
                    if data == nil { values.record("nil") }
                })
            for data in [#""{\"name\":\"Anna\"}""#, #""no JSON""#, "null", #""42""#, #""true""#] {
                pusher.connection.webSocketDidReceiveMessage(
                    connection: self.socket, string: #"{"event":"e","channel":"c","data":\#(data)}"#)
            }
            // What isn't an object or an array stays text.
            let texts = ["text no JSON", "nil", "text 42", "text true"]
            expectEqual(values.all, [isParsed ? "object Anna" : #"text {"name":"Anna"}"#] + texts)
        }
        expectEqual(self.pusher().connection.getEventDataJSON(from: "42") as? String, "42")
    }

    @Test func `handlers that the application adds to the table itself follow those that are bound`() async {
        let pusher = self.pusher()
        let calls = EventRecorder<String>()
        func receive() -> [String] {
            self.socket.receive(#"{"event":"e","data":""}"#)
            return calls.take()
        }
        expect(receive().isEmpty)
        let first = pusher.bind { _ in calls.record("first") }
        pusher.bind { _ in calls.record("second") }
        let channel = pusher.connection.globalChannel!
        channel.globalCallbacks["b"] = { _ in calls.record("b") }
        channel.globalCallbacks["a"] = { _ in calls.record("a") }
        channel.globalLegacyCallbacks["c"] = { _ in calls.record("c") }
        pusher.bind { _ in calls.record("last") }
        expectEqual(receive(), ["first", "second", "b", "a", "c", "last"])
        channel.globalCallbacks[first] = nil
        pusher.unbind(callbackId: "b")
        expectEqual(receive(), ["second", "a", "c", "last"])
        channel.globalCallbacks = [:]
        expectEqual(receive(), ["c"])
        pusher.unbindAll()
        expect(receive().isEmpty)
    }

    @Test func `members are replaced, added once and removed`() async {
        let pusher = self.pusher(PusherClientOptions(authMethod: .inline(secret: "secret")))
        let changes = EventRecorder<String>()
        pusher.connect()
        await settle()
        let chan = pusher.subscribeToPresenceChannel(
            channelName: "presence-channel", onMemberAdded: { changes.record("+\($0.userId)") },
            onMemberRemoved: { changes.record("-\($0.userId)") })
        await settle()
        expectEqual(chan.members.map(\.userId), ["123"])
        expectEqual((chan.findMember(userId: "123")?.userInfo as? [String: AnyObject])?["name"] as? String, "Anna")
        func receive(_ event: String, _ data: String) {
            self.socket.receive(#"{"event":"pusher_internal:\#(event)","channel":"presence-channel","data":\#(data)}"#)
        }
        receive("member_added", #""{\"user_id\":\"100\",\"user_info\":{\"a\":1}}""#)
        receive("member_added", #"{"user_id":100}"#)
        receive("member_added", "{}")
        receive("member_removed", #""{\"user_id\":\"123\"}""#)
        receive("member_removed", #""{\"user_id\":\"123\"}""#)
        expect(changes.all == ["+100", "-123"] && chan.members.map(\.userId) == ["100"])
        receive("subscription_succeeded", #""{\"presence\":{\"hash\":{\"2\":null,\"1\":{}}}}""#)
        expectEqual(chan.members.map(\.userId), ["1", "2"])
    }

    @Test func `the number of subscribers is reported`() async {
        let pusher = self.pusher()
        let counts = EventRecorder<Int>()
        let chan = pusher.subscribe("c", onSubscriptionCountChanged: { counts.record($0) })
        await settle()
        self.socket.receive(#"{"event":"pusher_internal:subscription_count","channel":"c","data":"{\"subscription_count\":5}"}"#)
        expect(counts.all == [5] && chan.subscriptionCount == 5)
    }

    // MARK: Client events

    @Test func `client events are sent in the order of the calls, and only if they are JSON`() async {
        let pusher = self.pusher(PusherClientOptions(authMethod: .inline(secret: "secret")))
        let chan = pusher.subscribe("private-channel")
        await settle()
        chan.trigger(eventName: "client-1", data: "text")
        chan.trigger(eventName: "client-2", data: ["name": nil, "n": 2] as [String: Int?])
        expectEqual(chan.unsentEvents.map(\.name), ["client-2", "client-1"])
        pusher.connect()
        await settle()
        let optional: [String: String]? = ["a": "b"]
        chan.trigger(eventName: "client-3", data: optional as Any)
        chan.trigger(eventName: "client-4", data: Date())
        pusher.subscribe("public").trigger(eventName: "client-5", data: [:])
        await settle()
        expectEqual(
            self.socket.sent.all.filter { $0.hasPrefix(#"{"event":"client"#) },
            [
                #"{"event":"client-1","data":"text","channel":"private-channel"}"#,
                #"{"event":"client-2","data":{"n":2,"name":null},"channel":"private-channel"}"#,
                #"{"event":"client-3","data":{"a":"b"},"channel":"private-channel"}"#,
            ])
        expect(
            self.delegate.logs.all.contains(
                #"[PUSHER DEBUG] sendClientEvent {"event":"client-1","data":"text","channel":"private-channel"}"#))
        expectEqual(
            self.delegate.logs.all.last, "[PUSHER DEBUG] You must be subscribed to a private or presence channel to send client events")
        expect(self.delegate.logs.all.contains { $0.hasPrefix("[PUSHER ERROR] The data of the event can't be converted to JSON") })
    }

    // MARK: Reentrancy

    @Test func `handlers and delegates may call the library`() async {
        let pusher = self.pusher()
        let calls = EventRecorder<String>()
        let chan = pusher.subscribe("a")
        await settle()
        chan.bind(eventName: "e") { [unowned pusher, unowned chan] _ in
            pusher.subscribe("b").bind(eventName: "pusher:subscription_succeeded") { _ in calls.record("b") }
            chan.bind(eventName: "e") { _ in calls.record("late") }
            calls.record("a")
        }
        pusher.connect()
        await settle()
        self.socket.receive(#"{"event":"e","channel":"a","data":""}"#)
        expectEqual(calls.all, ["a", "b"])
        self.socket.receive(#"{"event":"e","channel":"a","data":""}"#)
        expectEqual(calls.all, ["a", "b", "a", "late"])
    }

    private final class CountingConnection: PusherConnection, @unchecked Sendable {
        let events = EventRecorder<String>()

        override func handleEvent(event: PusherEvent) {
            self.events.record(event.eventName)
            super.handleEvent(event: event)
        }
    }

    @Test func `a subclass of the connection receives every event`() async {
        let connection = CountingConnection(key: "key", socket: self.socket, url: "ws://blah.blah:80", options: PusherClientOptions())
        connection.createGlobalChannel()
        connection.connect()
        await settle()
        self.socket.receive(#"{"event":"e","data":""}"#)
        expect(connection.events.all == ["pusher:connection_established", "e"] && connection.connectionState == .connected)
    }

    private final class Version5Connection: PusherConnection, @unchecked Sendable {
        let events = EventRecorder<String>()

        @available(*, deprecated)
        override func handleEvent(eventName: String, jsonObject: [String: AnyObject]) {
            self.events.record("\(eventName) \(jsonObject["data"] as? String ?? "")")
            super.handleEvent(eventName: eventName, jsonObject: jsonObject)
        }
    }

    @available(*, deprecated)
    @Test func `a subclass that overrides the method of version 5 receives every event, and handlers are called once`() async {
        let connection = Version5Connection(key: "key", socket: self.socket, url: "ws://blah.blah:80", options: PusherClientOptions())
        let calls = EventRecorder<String>()
        connection.createGlobalChannel()
        _ = connection.globalChannel.add { calls.record($0.eventName) }
        expect(!connection.socketConnected && !connection.connectionEstablishedMessageReceived)
        connection.connect()
        await settle()
        expect(connection.socketConnected && connection.connectionEstablishedMessageReceived)
        _ = connection.events.take()
        self.socket.receive(#"{"event":"e","data":"x"}"#)
        expect(connection.events.all == ["e x"] && calls.all == ["e"])
        connection.disconnect()
        expect(!connection.socketConnected && !connection.connectionEstablishedMessageReceived)
    }

    @Test func `a client that is released closes its socket`() async {
        var pusher: Pusher? = self.pusher()
        pusher?.connect()
        await settle()
        weak let connection = pusher?.connection
        expect(connection != nil)
        pusher = nil
        expect(connection == nil && self.socket.disconnects.all.count == 1)
    }
}
