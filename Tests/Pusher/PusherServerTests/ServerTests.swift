import PusherTestSupport
import RealtimeCoding
import PusherChannels
import PusherTesting
@testable import PusherServer
import PusherWire
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import TestSupport
import Testing

/// The server over an in-memory network, with a client that sends raw frames.
@Suite struct ServerConnectionTests {
    @Test func `a new connection receives a socket ID and the activity timeout`() async throws {
        let pusher = try await InMemoryPusher { $0.activityTimeout = .seconds(77) }
        let client = RawClient(pusher)
        let socketID = try #require(pusher.server.socketIDs.first)
        expectEqual(
            client.take(),
            [
                #"{"event":"pusher:connection_established","data":"{\"socket_id\":\"\#(socketID)\",\"activity_timeout\":77}"}"#
            ])
        expect(socketID.split(separator: ".").count == 2 && socketID.utf8.allSatisfy { ($0 >= 0x30 && $0 <= 0x39) || $0 == 0x2E })
    }

    @Test(arguments: [
        ("/app/another?protocol=7", 4001), ("/app/?protocol=7", 4005), ("/?protocol=7", 4005), ("/apps/key?protocol=7", 4005),
        ("/app/key/x?protocol=7", 4005),
        ("/app/key", 4008), ("/app/key?", 4008), ("/app/key?client=x", 4008), ("/app/key?protocol=4", 4007), ("/app/key?protocol=8", 4007),
        ("/app/key?protocol=", 4007), ("/app/key?protocol=seven", 4007), ("/app/key?protocol=%", 4008), ("/app/key?protocol=-7", 4007),
    ])
    func `an invalid request is rejected with an error and a close code`(target: String, code: Int) async throws {
        let pusher = try await InMemoryPusher()
        let client = RawClient(pusher, target)
        expect(client.takeErrors() == [code] && client.closeCode == code)
        expect(pusher.server.socketIDs.isEmpty)
    }

    @Test(arguments: ["/app/key?protocol=5", "/app/key?client=js&version=8&protocol=7&flash=false", "/behind/a/path/app/key?protocol=6"])
    func `every supported protocol version is accepted under any path prefix`(target: String) async throws {
        let pusher = try await InMemoryPusher()
        expectEqual(RawClient(pusher, target).takeEvents(), ["pusher:connection_established"])
    }

    @Test func `a connection over the limit is rejected with 4004 until another one ends`() async throws {
        let pusher = try await InMemoryPusher { $0.connectionLimit = 1 }
        let first = RawClient(pusher)
        expectEqual(RawClient(pusher).closeCode, 4004)
        first.close()
        expectEqual(RawClient(pusher).takeEvents(), ["pusher:connection_established"])
    }

    @Test(arguments: [
        "", "nonsense", "[]", "{}", #"{"event":5}"#, #"{"event":"pusher:subscribe"}"#, #"{"event":"pusher:subscribe","data":5}"#,
        #"{"event":"pusher:subscribe","data":"nope"}"#, #"{"event":"pusher:subscribe","data":{}}"#,
        #"{"event":"pusher:subscribe","data":{"channel":5}}"#,
        #"{"event":"pusher:unsubscribe"}"#, #"{"event":"pusher:unsubscribe","data":{"channel":null}}"#, #"{"event":"a","channel":{}}"#,
        #"{"event":"pusher:subscribe","data":[[[["#,
    ])
    func `an invalid frame gets an error event and the next frame is processed`(frame: String) async throws {
        let pusher = try await InMemoryPusher()
        let client = RawClient(pusher)
        _ = client.take()
        client.send(.text(frame), .text(#"{"event":"pusher:ping"}"#))
        let frames = client.take()
        expect(frames.count == 2 && frames.last == #"{"event":"pusher:pong","data":{}}"#)
        expectEqual(frames.first.flatMap { try? JSONValue(parsing: $0) }?["data"]?["code"], 4200)
        expect(client.endings.all.isEmpty)
    }

    @Test(arguments: ["a", "pusher:signout", "pusher:unknown", "pusher_internal:member_added", ""])
    func `an event that clients cannot send gets an error event`(event: String) async throws {
        let pusher = try await InMemoryPusher()
        let client = RawClient(pusher)
        _ = client.take()
        expectEqual(client.send(#"{"event":"\#(event)","channel":"one","data":{}}"#).takeErrors(), [nil])
    }

    @Test func `binary messages are ignored`() async throws {
        let pusher = try await InMemoryPusher()
        let client = RawClient(pusher)
        _ = client.take()
        client.send(.binary(Array(#"{"event":"pusher:ping"}"#.utf8)))
        expect(client.take().isEmpty && client.endings.all.isEmpty)
    }

    // MARK: Starting and stopping

    @Test func `a server has one listener at a time`() async throws {
        let pusher = try await InMemoryPusher()
        let error = await #expect(throws: TransportError.self) { try await pusher.server.start(on: pusher.network.listener()) }
        expectEqual(error?.code, .unsupported)
        await pusher.server.stop()
        let address = try await pusher.server.start(on: pusher.network.listener())
        await pusher.server.stop()
        // After a failed start the server can be started again.
        let taken = pusher.network.listener(port: address.port)
        _ = try await taken.start(ApplicationServer { _, _ in HTTPResponse(status: 200) })
        await #expect(throws: TransportError.self) { try await pusher.server.start(on: pusher.network.listener(port: address.port)) }
        _ = try await pusher.server.start(on: pusher.network.listener())
    }

    @Test func `stopping closes every connection with 4200`() async throws {
        let pusher = try await InMemoryPusher()
        let clients = (0..<3).map { _ in RawClient(pusher) }
        let events = pusher.server.events
        await pusher.server.stop()
        for client in clients { expect(client.takeErrors() == [4200] && client.closeCode == 4200) }
        await expectEqual(events.pending().count, 3)
        expect(pusher.server.socketIDs.isEmpty)
        await pusher.server.stop()
        // The driver's timer may fire once more. After that, no timer is left.
        pusher.clock.advance(by: .seconds(120))
        expectNil(pusher.clock.untilNextDeadline)
    }

    /// Returns a started server to which nothing else refers, and its address.
    private func startedServer(
        on network: InMemoryNetwork, hooks: PusherServerHooks = PusherServerHooks()
    ) async throws -> (PusherServer?, ListenerAddress) {
        let server = PusherServer(app: PusherApp(id: "1", key: "key", secret: "secret"), network: network, hooks: hooks, log: .none)
        return (server, try await server.start(on: network.listener()))
    }

    @Test func `a released server closes its connections with 1001 and finishes its events`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        var (server, address) = try await self.startedServer(on: network)
        weak var released: PusherServer?
        released = server
        let events = try #require(server).events
        let client = RawClient(network, address)
        expectEqual(client.takeEvents(), ["pusher:connection_established"])
        server = nil
        expectNil(released)
        expect(client.take().isEmpty && client.closeCode == 1001)
        for await _ in events {}
        expectEqual(events.endReason, .ended)
    }

    @Test func `a released server accepts no connections`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        var (server, address) = try await self.startedServer(on: network)
        expect(server != nil)
        server = nil
        let client = RawClient(network, address)
        // The upgrade is rejected until the listener has stopped. After that, the connection is refused.
        guard case .transport(let error)? = client.endings.all.last else {
            Issue.record("\(client.endings.all)")
            return
        }
        expect(error.code == .upgradeRejected || error.code == .refused)
    }

    private final class Token: Sendable {}

    /// Returns hooks that keep a token alive for as long as the server's driver exists.
    private func hooks(keeping token: Token) -> PusherServerHooks {
        var hooks = PusherServerHooks()
        hooks.authorizeSubscription = { _ in withExtendedLifetime(token) { .accept } }
        return hooks
    }

    @Test(.timeLimit(.minutes(10))) func `a released server is deallocated`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        weak var token: Token?
        var (server, address): (PusherServer?, ListenerAddress)
        do {
            let kept = Token()
            token = kept
            (server, address) = try await self.startedServer(on: network, hooks: self.hooks(keeping: kept))
        }
        weak var handler: (any ListenerHandler)?
        handler = server?.listenerHandler
        let client = RawClient(network, address)
        expect(token != nil)
        server = nil
        // The listener stops in a separate task.
        while handler != nil || token != nil { await Task.yield() }
        expectEqual(client.closeCode, 1001)
        let other = PusherServer(app: .random(), network: network, log: .none)
        _ = try await other.start(on: network.listener(port: address.port))
        await other.stop()
    }

    // MARK: Pings

    @Test func `an inactive client is pinged and then closed with 4201`() async throws {
        let pusher = try await InMemoryPusher()
        let client = RawClient(pusher)
        _ = client.take()
        pusher.clock.advance(by: .seconds(119))
        expect(client.take().isEmpty)
        pusher.clock.advance(by: .seconds(1))
        expectEqual(client.take(), [#"{"event":"pusher:ping","data":{}}"#])
        pusher.clock.advance(by: .seconds(29))
        expect(client.endings.all.isEmpty)
        pusher.clock.advance(by: .seconds(1))
        expect(client.takeErrors() == [4201] && client.closeCode == 4201)
        expect(pusher.server.socketIDs.isEmpty && pusher.clock.untilNextDeadline == nil)
    }

    @Test(arguments: [#"{"event":"pusher:pong"}"#, #"{"event":"pusher:ping","data":{}}"#, "nonsense"])
    func `any message keeps a connection open`(message: String) async throws {
        let pusher = try await InMemoryPusher()
        let client = RawClient(pusher)
        for _ in 0..<10 {
            pusher.clock.advance(by: .seconds(149))
            client.send(message)
        }
        expect(client.endings.all.isEmpty && pusher.server.socketIDs.count == 1)
        // So does a ping of the WebSocket protocol.
        pusher.clock.advance(by: .seconds(149))
        client.send(TransportMessage(.ping, []))
        pusher.clock.advance(by: .seconds(100))
        expect(client.endings.all.isEmpty)
    }

    // MARK: Faults

    @Test func `messages can be delayed`() async throws {
        let pusher = try await InMemoryPusher()
        let client = RawClient(pusher)
        _ = client.take()
        pusher.server.faults.delay = .seconds(2)
        client.send(.text(#"{"event":"pusher:ping"}"#), PusherFrames.subscribe("one"))
        expect(client.take().isEmpty)
        pusher.clock.advance(by: .seconds(1))
        pusher.server.publish("a", to: "one", data: "1")
        pusher.clock.advance(by: .seconds(1))
        expectEqual(client.takeEvents(), ["pusher:pong", "pusher_internal:subscription_succeeded"])
        pusher.clock.advance(by: .seconds(1))
        expectEqual(client.takeEvents(), ["a"])
        client.close()
        pusher.server.publish("a", to: "one", data: "1")
        pusher.clock.advance(by: .seconds(10))
    }

    @Test func `no message overtakes a delayed message`() async throws {
        let pusher = try await InMemoryPusher()
        let client = RawClient(pusher).send(PusherFrames.subscribe("one"))
        _ = client.take()
        for (delay, event) in [(2, "a"), (1, "b"), (0, "c")] {
            pusher.server.faults.delay = .seconds(delay)
            pusher.server.publish(event, to: "one", data: "1")
        }
        pusher.clock.advance(by: .milliseconds(1999))
        expect(client.take().isEmpty)
        pusher.clock.advance(by: .milliseconds(1))
        expectEqual(client.takeEvents(), ["a", "b", "c"])
        pusher.server.publish("d", to: "one", data: "1")
        expectEqual(client.takeEvents(), ["d"])
    }

    @Test func `messages can be dropped`() async throws {
        let pusher = try await InMemoryPusher()
        let client = RawClient(pusher).send(PusherFrames.subscribe("one"))
        _ = client.take()
        pusher.server.faults.dropRate = 0.5
        for number in 0..<200 { pusher.server.publish("a", to: "one", data: "\(number)") }
        let kept = client.take().count
        expect(kept > 50 && kept < 150)
        pusher.server.faults.dropRate = 1
        client.send(#"{"event":"pusher:ping"}"#)
        expect(client.take().isEmpty && client.endings.all.isEmpty)
    }

    @Test func `a silent server sends nothing and keeps connections open`() async throws {
        let pusher = try await InMemoryPusher()
        let client = RawClient(pusher)
        _ = client.take()
        pusher.server.faults.isSilent = true
        client.send(.text(#"{"event":"pusher:ping"}"#), PusherFrames.subscribe("one"))
        pusher.clock.advance(by: .seconds(3600))
        expect(client.take().isEmpty && client.endings.all.isEmpty && pusher.server.subscribers(of: "one").isEmpty)
        pusher.server.faults.isSilent = false
        pusher.clock.advance(by: .seconds(120))
        expectEqual(client.take(), [#"{"event":"pusher:ping","data":{}}"#])
        // The client has the full time to respond.
        pusher.clock.advance(by: .seconds(29))
        client.send(#"{"event":"pusher:pong"}"#)
        pusher.clock.advance(by: .seconds(60))
        expect(client.endings.all.isEmpty)
    }

    @Test func `a single connection can be silent`() async throws {
        let pusher = try await InMemoryPusher()
        let first = RawClient(pusher).send(PusherFrames.subscribe("one"))
        let socketID = pusher.server.socketIDs[0]
        let second = RawClient(pusher).send(PusherFrames.subscribe("one"))
        for client in [first, second] { _ = client.take() }
        pusher.server.silence(socketID)
        pusher.server.publish("a", to: "one", data: "1")
        expect(first.take().isEmpty && second.takeEvents() == ["a"])
        pusher.server.silence(socketID, false)
        pusher.server.publish("b", to: "one", data: "1")
        expectEqual(first.takeEvents(), ["b"])
        pusher.server.silence("unknown")
    }

    @Test func `raw frames and commands bypass faults, and unknown socket IDs are ignored`() async throws {
        let pusher = try await InMemoryPusher()
        let clients = (0..<2).map { _ in RawClient(pusher) }
        let socketIDs = pusher.server.subscribers(of: "none") + pusher.server.socketIDs
        for client in clients { _ = client.take() }
        pusher.server.faults.delay = .seconds(1)
        pusher.server.faults.isSilent = true
        for socketID in ["unknown"] + socketIDs { pusher.server.send("{", to: socketID) }
        for client in clients { expectEqual(client.take(), ["{"]) }
        pusher.server.close("unknown", .normal)
        pusher.server.close(socketIDs[0], CloseCode(rawValue: 4_001))
        pusher.server.drop("unknown")
        pusher.server.drop(socketIDs[1])
        expect(clients.compactMap(\.closeCode) == [4_001] && clients.allSatisfy { !$0.endings.all.isEmpty })
        expect(pusher.server.socketIDs.isEmpty)
    }

    @Test func `a delayed message to a closed connection leaves no timer`() async throws {
        let pusher = try await InMemoryPusher()
        let client = RawClient(pusher)
        pusher.server.faults.delay = .seconds(1)
        client.send(#"{"event":"pusher:ping"}"#)
        client.close()
        pusher.clock.advance(by: .seconds(120))
        expectNil(pusher.clock.untilNextDeadline)
    }

    @Test func `a connection that is established during a silence is pinged after it`() async throws {
        let pusher = try await InMemoryPusher()
        pusher.server.faults.isSilent = true
        let client = RawClient(pusher)
        pusher.clock.advance(by: .seconds(3_600))
        expect(client.take().isEmpty && client.endings.all.isEmpty && pusher.server.socketIDs.count == 1)
        pusher.server.faults.isSilent = false
        pusher.clock.advance(by: .seconds(120))
        expectEqual(client.takeEvents(), ["pusher:ping"])
    }

    @Test func `new connections can be rejected with a code`() async throws {
        let pusher = try await InMemoryPusher()
        let old = RawClient(pusher)
        pusher.server.faults.rejectionCode = CloseCode(rawValue: 4100)
        expect(RawClient(pusher).closeCode == 4100 && old.endings.all.isEmpty)
    }
}

@Suite(.usesSockets, .timeLimit(.minutes(10))) struct ServerSocketTests {
    @Test func `a released server closes its sockets and frees its port`() async throws {
        var server: PusherServer? = PusherServer(app: PusherApp(id: "1", key: "key", secret: "secret"), log: .none)
        weak var handler: (any ListenerHandler)?
        handler = server?.listenerHandler
        let address = try await #require(server).start(on: SocketListener(port: TestPort.next(), limits: .forTests))
        var configuration = PusherConfiguration(key: "key", host: address.host, port: address.port, useTLS: false)
        configuration.log = .none
        configuration.allowLongTimes()
        let client = PusherClient(configuration)
        client.connect()
        try await client.connected(within: .seconds(300))
        let states = client.states
        server = nil
        await expectEqual(states.first { $0 == .connecting }, .connecting)
        client.disconnect()
        while handler != nil { await Task.yield() }
        let other = PusherServer(app: .random(), log: .none)
        _ = try await other.start(on: SocketListener(port: address.port))
        await other.stop()
    }
}

@Suite struct ServerChannelTests {
    private func auth(
        _ pusher: InMemoryPusher, _ channel: String, _ data: String? = nil, secret: String = "secret", socket: Int = 0
    ) -> String {
        ChannelSignature.token(key: "key", secret: secret, socketID: pusher.server.socketIDs[socket], channel: channel, channelData: data)
    }

    /// Returns a client that is subscribed to the presence channel with this user data.
    private func member(_ pusher: InMemoryPusher, _ data: String, _ channel: String = "presence-room") -> RawClient {
        let before = Set(pusher.server.socketIDs)
        let client = RawClient(pusher)
        _ = client.take()
        guard let socketID = pusher.server.socketIDs.first(where: { !before.contains($0) }) else { return client }
        let auth = ChannelSignature.token(key: "key", secret: "secret", socketID: socketID, channel: channel, channelData: data)
        return client.send(PusherFrames.subscribe(channel, auth: auth, channelData: data))
    }

    @Test func `a second subscription is an error and the first one stays`() async throws {
        let pusher = try await InMemoryPusher()
        let client = RawClient(pusher).send(PusherFrames.subscribe("one"))
        _ = client.take()
        client.send(PusherFrames.subscribe("one"))
        expectEqual(
            client.take(),
            [
                #"{"event":"pusher:error","channel":"one","data":{"code":null,"message":"Existing subscription to channel one"}}"#
            ])
        expectEqual(pusher.server.subscribers(of: "one").count, 1)
        pusher.server.publish("a", to: "one", data: "1")
        expectEqual(client.take().count, 1)
    }

    @Test func `unsubscribing from a channel without a subscription has no effect`() async throws {
        let pusher = try await InMemoryPusher()
        let client = RawClient(pusher)
        _ = client.take()
        client.send(
            PusherFrames.unsubscribe("one"), PusherFrames.unsubscribe(""), PusherFrames.subscribe("one"), PusherFrames.unsubscribe("one"))
        expectEqual(client.takeEvents(), ["pusher_internal:subscription_succeeded"])
        expect(pusher.server.subscribers(of: "one").isEmpty)
    }

    @Test(arguments: ["", "with space", "#server-to-user-", "#user", "a/b", "ü", String(repeating: "x", count: 201)])
    func `an invalid channel name is rejected`(name: String) async throws {
        let pusher = try await InMemoryPusher()
        let client = RawClient(pusher)
        _ = client.take()
        expectEqual(client.send(PusherFrames.subscribe(name)).takeErrors(), [nil])
    }

    @Test func `a missing or wrong signature is rejected with 4009`() async throws {
        let pusher = try await InMemoryPusher()
        let client = RawClient(pusher)
        _ = client.take()
        let right = self.auth(pusher, "private-one")
        let wrong = [
            nil, "", right.uppercased(), String(right.dropLast()), right + "0", self.auth(pusher, "private-two"),
            "other:" + right.dropFirst(4),
            self.auth(pusher, "private-one", secret: "another"),
            ChannelSignature.token(key: "key", secret: "secret", socketID: "1.2", channel: "private-one"),
        ]
        for auth in wrong {
            expectEqual(client.send(PusherFrames.subscribe("private-one", auth: auth)).takeErrors(), [4009], "\(auth ?? "none")")
        }
        expect(pusher.server.subscribers(of: "private-one").isEmpty)
        expectEqual(
            client.send(PusherFrames.subscribe("private-one", auth: right)).takeEvents(), ["pusher_internal:subscription_succeeded"])
    }

    @Test func `a presence signature covers the user data`() async throws {
        let pusher = try await InMemoryPusher()
        let client = RawClient(pusher)
        _ = client.take()
        let data = #"{"user_id":"1"}"#
        let right = self.auth(pusher, "presence-room", data)
        expectEqual(
            client.send(PusherFrames.subscribe("presence-room", auth: right, channelData: #"{"user_id":"2"}"#)).takeErrors(), [4009])
        expectEqual(client.send(PusherFrames.subscribe("presence-room", auth: right)).takeErrors(), [4009])
        for broken in ["", "{}", "[]", "nope", #"{"user_id":null}"#, #"{"user_id":{}}"#] {
            let auth = self.auth(pusher, "presence-room", broken)
            expectEqual(
                client.send(PusherFrames.subscribe("presence-room", auth: auth, channelData: broken)).takeErrors(), [nil], "\(broken)")
        }
        expectEqual(
            client.send(PusherFrames.subscribe("presence-room", auth: right, channelData: data)).takeEvents(),
            [
                "pusher_internal:subscription_succeeded"
            ])
    }

    @Test func `a user with two connections joins and leaves once`() async throws {
        let pusher = try await InMemoryPusher()
        let watcher = self.member(pusher, #"{"user_id":"watcher"}"#)
        _ = watcher.take()
        let first = self.member(pusher, #"{"user_id":7,"user_info":{"n":1}}"#)
        let second = self.member(pusher, #"{"user_id":"7","user_info":{"n":2}}"#)
        expectEqual(
            watcher.take(),
            [
                #"{"event":"pusher_internal:member_added","channel":"presence-room","data":"{\"user_id\":\"7\",\"user_info\":{\"n\":1}}"}"#
            ])
        let list = #"{\"presence\":{\"ids\":[\"watcher\",\"7\"],\"hash\":{\"watcher\":null,\"7\":{\"n\":1}},\"count\":2}}"#
        expectEqual(second.take(), [#"{"event":"pusher_internal:subscription_succeeded","channel":"presence-room","data":"\#(list)"}"#])
        first.close()
        expect(watcher.take().isEmpty)
        second.send(PusherFrames.unsubscribe("presence-room"))
        expectEqual(watcher.take(), [#"{"event":"pusher_internal:member_removed","channel":"presence-room","data":"{\"user_id\":\"7\"}"}"#])
        second.close()
        expect(watcher.take().isEmpty)
    }

    @Test func `a full presence channel accepts only further connections of its members`() async throws {
        let pusher = try await InMemoryPusher { $0.memberLimit = 2 }
        let clients = (1...3).map { self.member(pusher, #"{"user_id":"\#($0)"}"#) }
        expect(clients[2].takeErrors().count == 1 && clients[2].endings.all.isEmpty)
        expectEqual(pusher.server.subscribers(of: "presence-room").count, 2)
        let again = self.member(pusher, #"{"user_id":"1"}"#)
        expectEqual(again.takeEvents(), ["pusher_internal:subscription_succeeded"])
        for client in [clients[0], again] { client.close() }
        expectEqual(self.member(pusher, #"{"user_id":"3"}"#).takeEvents(), ["pusher_internal:subscription_succeeded"])
    }

    @Test func `client events that break a rule are rejected and others are delivered`() async throws {
        let pusher = try await InMemoryPusher()
        let sender = RawClient(pusher)
        let auth = self.auth(pusher, "private-one")
        let own = pusher.server.socketIDs
        let receiver = RawClient(pusher)
        let socketID = try #require(pusher.server.socketIDs.first { !own.contains($0) })
        receiver.send(
            PusherFrames.subscribe(
                "private-one", auth: ChannelSignature.token(key: "key", secret: "secret", socketID: socketID, channel: "private-one")))
        func errors(_ event: String, _ members: String) -> [Int?] { sender.send(#"{"event":"\#(event)"\#(members)}"#).takeErrors() }
        _ = sender.take()
        expectEqual(errors("client-a", #","channel":"private-one","data":{}"#), [4301])
        sender.send(PusherFrames.subscribe("private-one", auth: auth), PusherFrames.subscribe("one"))
        expectEqual(sender.takeEvents().count, 2)
        _ = receiver.take()
        expectEqual(errors("client-a", ""), [4301])
        expectEqual(errors("client-a", #","channel":"one","data":{}"#), [4301])
        expectEqual(errors("client-a", #","channel":"private-encrypted-one","data":{}"#), [4301])
        expectEqual(errors("client-\(String(repeating: "x", count: 200))", #","channel":"private-one","data":{}"#), [4301])
        expectEqual(errors("client-a", #","channel":"private-one","data":"\#(String(repeating: "x", count: 10_241))""#), [4301])
        expect(receiver.take().isEmpty)
        sender.send(
            .text(#"{"event":"client-a","channel":"private-one","data":{"on": true}}"#),
            .text(#"{"event":"client-b","channel":"private-one","data":"text"}"#),
            .text(#"{"event":"client-c","channel":"private-one"}"#),
            .text(#"{"event":"client-d","channel":"private-one","data":"\#(String(repeating: "x", count: 10_240))"}"#))
        expect(sender.take().isEmpty)
        let frames = receiver.take()
        expectEqual(frames.first, #"{"event":"client-a","channel":"private-one","data":"{\"on\": true}"}"#)
        expect(frames.dropFirst().first == #"{"event":"client-b","channel":"private-one","data":"text"}"# && frames.count == 4)
    }

    @Test func `the size limit applies to data without escapes`() async throws {
        let pusher = try await InMemoryPusher()
        let sender = RawClient(pusher)
        sender.send(PusherFrames.subscribe("private-one", auth: self.auth(pusher, "private-one")))
        expectEqual(sender.takeEvents().last, "pusher_internal:subscription_succeeded")
        func send(_ data: String) { sender.send(#"{"event":"client-a","channel":"private-one","data":"\#(data)"}"#) }
        send(String(repeating: #"\u00e9"#, count: 5_120))
        send(String(repeating: #"\u0078"#, count: 10_240))
        expect(sender.take().isEmpty)
        send(String(repeating: #"\u0078"#, count: 10_241))
        send(String(repeating: #"\u00e9"#, count: 5_121))
        expectEqual(sender.takeErrors(), [4301, 4301])
    }

    @Test func `a consumer that does not read misses the oldest of more than 10,000 events`() async throws {
        let pusher = try await InMemoryPusher()
        let events = pusher.server.events
        for number in 0...10_000 { pusher.server.publish("\(number)", to: "one", data: "1") }
        expectEqual(events.dropped, 1)
        await expectEqual(events.first { _ in true }, .published(channel: "one", name: "1", subscribers: 0))
    }

    @Test func `server events arrive in order`() async throws {
        let pusher = try await InMemoryPusher()
        let events = pusher.server.events
        let client = RawClient(pusher)
        let socketID = pusher.server.socketIDs[0]
        client.send(PusherFrames.subscribe("one")).send(PusherFrames.subscribe("private-one"))
        pusher.server.publish("a", to: "one", data: "1")
        pusher.server.publish("a", to: "two", data: "1")
        client.close()
        let seen = await events.pending().filter { if case .received = $0 { false } else { true } }
        expect(
            seen.count == 7 && seen.first == .connected(socketID: socketID)
                && seen.dropFirst().first == .subscribed(socketID: socketID, channel: "one", userID: nil))
        expect(
            seen.contains(.published(channel: "one", name: "a", subscribers: 1))
                && seen.contains(.published(channel: "two", name: "a", subscribers: 0)))
        expectEqual(
            seen.suffix(2), [.unsubscribed(socketID: socketID, channel: "one"), .disconnected(socketID: socketID, .peer(.normal, ""))])
    }
}

/// A listener that starts when the test allows it.
private final class SlowListener: Listener {
    private let listener: InMemoryListener
    let hasBegun = Waiter<Void>()
    let mayStart = Waiter<Void>()

    init(_ listener: InMemoryListener) {
        self.listener = listener
    }

    func start(_ handler: any ListenerHandler) async throws(TransportError) -> ListenerAddress {
        self.hasBegun.fulfill(())?.resume()
        await self.mayStart.value()
        return try await self.listener.start(handler)
    }

    func stop() async { await self.listener.stop() }
}

@Suite struct ServerStopTests {
    @Test func `a server that is stopped while it starts does not listen`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let server = PusherServer(app: PusherApp(id: "1", key: "key", secret: "secret"), network: network, log: .none)
        let listener = SlowListener(network.listener(port: 80))
        let starting = Task { try await server.start(on: listener) }
        await listener.hasBegun.value()
        let stopping = Task.immediate { await server.stop() }
        listener.mayStart.fulfill(())?.resume()
        await #expect(throws: TransportError.self) { try await starting.value }
        await stopping.value
        let error = await #expect(throws: TransportError.self) {
            try await network.http.send(HTTPRequest("GET", Endpoint("http://memory/up")))
        }
        expectEqual(error?.code, .refused)
        // Neither the server nor the address is in use.
        _ = try await server.start(on: network.listener(port: 80))
        await server.stop()
    }

    @Test func `a server shares a listener with another handler`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let server = PusherServer(app: PusherApp(id: "1", key: "key", secret: "secret"), network: network, log: .none)
        let other = ApplicationServer { request, _ in HTTPResponse(status: 200, text: request.target) }
        let router = ListenerRouter([
            .path("/app", server.listenerHandler), .path("/apps", server.listenerHandler), .path("/other", other),
        ])
        let listener = network.listener(host: "shared", port: 80)
        _ = try await listener.start(router)
        var configuration = PusherConfiguration(key: "key", host: "shared", port: 80, useTLS: false)
        configuration.transports = network.transports()
        let client = PusherClient(configuration)
        client.connect()
        expectEqual(server.socketIDs.count, 1)
        try await expectEqual(network.http.send(HTTPRequest("GET", Endpoint("http://shared/other"))).body, Array("/other".utf8))
        try await expectEqual(network.http.send(HTTPRequest("POST", Endpoint("http://shared/apps/1/events"))).head.status, 401)
        try await expectEqual(network.http.send(HTTPRequest("GET", Endpoint("http://shared/else"))).head.status, 404)
        await listener.stop()
        expect(server.socketIDs.isEmpty)
        client.disconnect()
    }
}
