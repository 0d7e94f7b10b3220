import PusherTestSupport
import PusherChannels
import PusherServer
import PusherTesting
import PusherWire
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@Suite struct ServerHookTests {
    @Test func `a connection is established when the hook accepts it`() async throws {
        let gate = Gate<PusherConnectionAttempt, PusherServerDecision>()
        var hooks = PusherServerHooks()
        hooks.authorizeConnection = { await gate.call($0) }
        let pusher = try await InMemoryPusher(hooks: hooks)
        let events = pusher.server.events
        let client = RawClient(pusher, "/app/key?protocol=7&flavor=plain")
        let call = await gate.next()
        expectEqual(call.input.request.query, "protocol=7&flavor=plain")
        // Messages that arrive before the decision are ignored.
        client.send(#"{"event":"pusher:ping","data":{}}"#).send(PusherFrames.subscribe("one"))
        expect(client.take().isEmpty && pusher.server.socketIDs.isEmpty)
        call.resume(returning: .accept)
        await expectEqual(events.first { _ in true }, .connected(socketID: call.input.socketID))
        expectEqual(client.takeEvents(), ["pusher:connection_established"])
        expectEqual(client.send(#"{"event":"pusher:ping","data":{}}"#).takeEvents(), ["pusher:pong"])
    }

    @Test(arguments: [(4_003, CloseCode(rawValue: 4_003)), (nil, CloseCode(rawValue: 4_009)), (1_000_000, CloseCode(rawValue: 4_009))])
    func `a connection that the hook rejects is closed with its code and message`(_ code: Int?, _ expected: CloseCode) async throws {
        var hooks = PusherServerHooks()
        hooks.authorizeConnection = { attempt in
            attempt.request.query.contains("client=swift-realtime") ? .reject(code: code, message: "not you") : .accept
        }
        let pusher = try await InMemoryPusher(hooks: hooks)
        let client = pusher.client()
        client.connect()
        do {
            try await client.connected()
            Issue.record("The hook should have rejected it.")
        } catch {
            expect(error.code == .rejected && error.serverCode == Int(expected.rawValue))
            expect(error.message.contains("not you"))
        }
        expect(pusher.server.socketIDs.isEmpty)
    }

    @Test func `a hook is cancelled when its connection ends`() async throws {
        let gate = Gate<PusherConnectionAttempt, PusherServerDecision>()
        var hooks = PusherServerHooks()
        hooks.authorizeConnection = { await gate.call($0) }
        let pusher = try await InMemoryPusher(hooks: hooks)
        let events = pusher.server.events
        let client = RawClient(pusher)
        let call = await gate.next()
        client.close()
        expectEqual(gate.cancelled.all.map(\.socketID), [call.input.socketID])
        call.resume(returning: .accept)
        await expect(events.pending().isEmpty)
    }

    @Test func `a hook that does not respond to a connection is cancelled and the client tries again later`() async throws {
        let gate = Gate<PusherConnectionAttempt, PusherServerDecision>()
        var hooks = PusherServerHooks()
        hooks.authorizeConnection = { await gate.call($0) }
        let pusher = try await InMemoryPusher(hooks: hooks)
        let client = RawClient(pusher)
        let call = await gate.next()
        pusher.clock.advance(by: .milliseconds(9_999))
        expect(client.take().isEmpty && client.endings.all.isEmpty)
        pusher.clock.advance(by: .milliseconds(1))
        expect(client.takeErrors() == [4_100] && client.closeCode == 4_100)
        expect(gate.cancelled.all.map(\.socketID) == [call.input.socketID] && pusher.server.socketIDs.isEmpty)
        call.resume(returning: .accept)
    }

    @Test func `a subscription fails if its hook does not respond`() async throws {
        let gate = Gate<PusherSubscriptionAttempt, PusherServerDecision>()
        var hooks = PusherServerHooks()
        hooks.timeout = .seconds(2)
        hooks.authorizeSubscription = { await gate.call($0) }
        let pusher = try await InMemoryPusher(hooks: hooks)
        let client = pusher.client()
        client.connect()
        let channel = try client.subscribe("one")
        let call = await gate.next()
        pusher.clock.advance(by: .seconds(2))
        guard case .failed(let error) = channel.state else {
            Issue.record("the state is \(channel.state)")
            return
        }
        expect(error.code == .subscriptionRejected && error.message.contains("did not decide in time"))
        expect(gate.cancelled.all == [call.input] && client.state.name == "connected")
        call.resume(returning: .accept)
    }

    @Test func `a hook can reject a subscription`() async throws {
        var hooks = PusherServerHooks()
        hooks.authorizeSubscription = { $0.channel == "good" ? .accept : .reject(code: 4009, message: "not today") }
        let pusher = try await InMemoryPusher(hooks: hooks)
        let client = pusher.client()
        client.connect()
        try await client.subscribe("good").subscribed()
        do {
            try await client.subscribe("bad").subscribed()
            Issue.record("The hook should have rejected it.")
        } catch {
            expect(error.code == .subscriptionRejected && error.message.contains("not today"))
        }
    }

    @Test func `client events keep their order while the hook is running`() async throws {
        let gate = Gate<PusherClientEventAttempt, PusherServerDecision>()
        var hooks = PusherServerHooks()
        hooks.authorizeClientEvent = { await gate.call($0) }
        let pusher = try await InMemoryPusher(hooks: hooks)
        let (sender, receiver) = (pusher.client(), pusher.client())
        for client in [sender, receiver] { client.connect() }
        let (sending, receiving) = (try sender.subscribe("private-one"), try receiver.subscribe("private-one"))
        let events = receiving.events()
        let errors = sender.errors
        let seen = pusher.server.events
        for value in 1...4 { try sending.trigger("client-value", value) }
        let first = await gate.next()
        let input = first.input
        expect(input.socketID == sender.socketID && input.channel == "private-one")
        expect(input.name == "client-value" && input.data == "1")
        first.resume(returning: .accept)
        await gate.next().resume(returning: .reject(code: nil, message: "two is too many"))
        await gate.next().resume(returning: .accept)
        let last = await gate.next()
        await expectEqual(events.pending().map(\.data), ["1", "3"])
        let error = await errors.first { _ in true }
        expect(error?.serverCode == 4301 && error?.message.contains("two is too many") == true)
        // The event of a client that has unsubscribed is not sent, even if the hook accepts it.
        sending.unsubscribe()
        last.resume(returning: .accept)
        for await event in seen where event == .unsubscribed(socketID: sender.socketID ?? "", channel: "private-one") { break }
        await expect(events.pending().isEmpty)
        expectEqual(receiver.state.name, "connected")
    }
}
