import PusherChannels
import PusherServer
import PusherWire
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@Suite struct ServerHookTests {
    @Test func `a client is greeted when the hook has accepted it`() async throws {
        let gate = Gate<PusherConnectionAttempt, PusherServerDecision>()
        var hooks = PusherServerHooks()
        hooks.onConnect = { await gate.ask($0) }
        let pusher = try await InMemoryPusher(hooks: hooks)
        let events = pusher.server.events
        let client = RawClient(pusher, "/app/key?protocol=7&flavour=plain")
        let asked = await gate.next()
        #expect(asked.question.request.query == "protocol=7&flavour=plain")
        // What it says before is not heard.
        client.send(#"{"event":"pusher:ping","data":{}}"#).send(PusherFrames.subscribe("one"))
        #expect(client.take().isEmpty && pusher.server.socketIDs.isEmpty)
        asked.answer(.accept)
        #expect(await events.first { _ in true } == .connected(socketID: asked.question.socketID))
        #expect(client.takeEvents() == ["pusher:connection_established"])
        #expect(client.send(#"{"event":"pusher:ping","data":{}}"#).takeEvents() == ["pusher:pong"])
    }

    @Test(arguments: [(4_003, CloseCode(rawValue: 4_003)), (nil, CloseCode(rawValue: 4_009)), (1_000_000, CloseCode(rawValue: 4_009))])
    func `a client that the hook refuses hears why`(_ code: Int?, _ expected: CloseCode) async throws {
        var hooks = PusherServerHooks()
        hooks.onConnect = { attempt in
            attempt.request.query.contains("client=swift-realtime") ? .refuse(code: code, message: "not you") : .accept
        }
        let pusher = try await InMemoryPusher(hooks: hooks)
        let client = pusher.client()
        client.connect()
        do {
            try await client.connected()
            Issue.record("the hook refuses it")
        } catch {
            #expect(error.code == .refused && error.serverCode == Int(expected.rawValue))
            #expect(error.message.contains("not you"))
        }
        #expect(pusher.server.socketIDs.isEmpty)
    }

    @Test func `a hook is cancelled when its client has gone`() async throws {
        let gate = Gate<PusherConnectionAttempt, PusherServerDecision>()
        var hooks = PusherServerHooks()
        hooks.onConnect = { await gate.ask($0) }
        let pusher = try await InMemoryPusher(hooks: hooks)
        let events = pusher.server.events
        let client = RawClient(pusher)
        let asked = await gate.next()
        client.close()
        #expect(gate.cancelled.all.map(\.socketID) == [asked.question.socketID])
        asked.answer(.accept)
        #expect(await events.pending().isEmpty)
    }

    @Test func `a hook may refuse a subscription`() async throws {
        var hooks = PusherServerHooks()
        hooks.onSubscribe = { $0.channel == "good" ? .accept : .refuse(code: 4009, message: "not today") }
        let pusher = try await InMemoryPusher(hooks: hooks)
        let client = pusher.client()
        client.connect()
        try await client.subscribe("good").subscribed()
        do {
            try await client.subscribe("bad").subscribed()
            Issue.record("the hook refuses it")
        } catch {
            #expect(error.code == .subscriptionRefused && error.message.contains("not today"))
        }
    }

    @Test func `client events keep their order while the hook is asked`() async throws {
        let gate = Gate<PusherClientEventAttempt, PusherServerDecision>()
        var hooks = PusherServerHooks()
        hooks.onClientEvent = { await gate.ask($0) }
        let pusher = try await InMemoryPusher(hooks: hooks)
        let (sender, receiver) = (pusher.client(), pusher.client())
        for client in [sender, receiver] { client.connect() }
        let (sending, receiving) = (try sender.subscribe("private-one"), try receiver.subscribe("private-one"))
        let events = receiving.events()
        let errors = sender.errors
        let seen = pusher.server.events
        for value in 1...4 { try sending.trigger("client-value", value) }
        let first = await gate.next()
        let question = first.question
        #expect(question.socketID == sender.socketID && question.channel == "private-one")
        #expect(question.name == "client-value" && question.data == "1")
        first.answer(.accept)
        await gate.next().answer(.refuse(code: nil, message: "two is too many"))
        await gate.next().answer(.accept)
        let last = await gate.next()
        #expect(await events.pending().map(\.data) == ["1", "3"])
        let error = await errors.first { _ in true }
        #expect(error?.serverCode == 4301 && error?.message.contains("two is too many") == true)
        // Who has left sends no more, whatever the answer is.
        sending.unsubscribe()
        last.answer(.accept)
        for await event in seen where event == .unsubscribed(socketID: sender.socketID ?? "", channel: "private-one") { break }
        #expect(await events.pending().isEmpty)
        #expect(receiver.state.name == "connected")
    }
}
