import PrimusTesting
import PrimusWire
import RealtimeCore
import TestSupport
import Testing

/// The limits on sessions over HTTP whose clients don't ask for messages.
@Suite(.timeLimit(.minutes(10))) struct SessionLimitTests {
    @Test func `a client is rejected while too many sessions of engine.io have no reader`() async throws {
        let test = try await ServerUnderTest { ($0.transformer, $0.unreadSessionLimit) = (.engineIO, 2) }
        let events = test.server.events
        let sessions = try (0..<2).map { _ in try test.openEngineIO() }
        let rejected = try test.start("/primus/?EIO=4&transport=polling")
        expect(rejected.status == 503 && rejected.body.hasPrefix(#"{"error":"The server has as many sessions"#), "\(rejected.body)")
        await expect(events.pending().contains(.rejected(status: 503)))
        // A session with a reader, and one on a WebSocket, don't count. A client without polling isn't affected.
        expectEqual(test.client("/primus/?EIO=4&transport=websocket").lines.count, 1)
        let poll = try test.start(sessions[0])
        expect(!poll.isEnded)
        let moved = test.client(try test.openEngineIO().replacing("polling", with: "websocket"))
        moved.send("2probe")
        moved.send("5")
        _ = try test.openEngineIO()
        try expectEqual(test.start("/primus/?EIO=4&transport=polling").status, 503)
        // The sessions end because their pings have no answer.
        for _ in 0..<6 { test.clock.advance(by: .seconds(10)) }
        try expectEqual(test.start("/primus/?EIO=4&transport=polling").status, 200)
    }

    @Test func `a client is rejected while too many sessions of SockJS have no reader`() async throws {
        let test = try await ServerUnderTest { ($0.transformer, $0.unreadSessionLimit) = (.sockjs, 1) }
        try expectEqual(test.start("/primus/0/a/xhr", method: "POST").body, "o\n")
        for transport in ["xhr", "xhr_streaming"] {
            try expectEqual(test.start("/primus/0/b/\(transport)", method: "POST").status, 503)
        }
        try expectEqual(test.start("/primus/0/b/eventsource").status, 503)
        try expectEqual(test.start("/primus/0/a/xhr_send", method: "POST", body: "[]").status, 204)
        let poll = try test.start("/primus/0/a/xhr", method: "POST")
        let stream = try test.start("/primus/0/b/xhr_streaming", method: "POST")
        expect(!poll.isEnded && stream.status == 200 && stream.body.hasSuffix("\no\n"))
    }

    @Test(arguments: [PrimusTransformerKind.engineIO, .sockjs])
    func `clients whose polls a message to all of them has answered count only if they don't come back`(
        transformer: PrimusTransformerKind
    ) async throws {
        let test = try await ServerUnderTest { ($0.transformer, $0.unreadSessionLimit) = (transformer, 3) }
        let isEngine = transformer == .engineIO
        let method = isEngine ? "GET" : "POST"
        func open(_ name: String) throws -> RawExchange {
            try test.start(isEngine ? "/primus/?EIO=4&transport=polling" : "/primus/0/\(name)/xhr", method: method)
        }
        var polls: [RawExchange] = []
        for number in 0..<3 {
            try expectEqual(open("\(number)").status, 200)
            let sid = try #require(test.server.sparks.last).id
            polls.append(
                try test.start(isEngine ? "/primus/?EIO=4&transport=polling&sid=\(sid)" : "/primus/0/\(number)/xhr", method: method))
        }
        test.clock.advance(by: .seconds(2))
        expect(!polls.contains { $0.isEnded })
        try test.server.write("to all")
        expect(polls.allSatisfy { $0.isEnded && $0.status == 200 })
        try expectEqual(open("another").status, 200)
        test.clock.advance(by: .milliseconds(999))
        try expectEqual(open("one more").status, 200)
        test.clock.advance(by: .milliseconds(1))
        try expectEqual(open("too many").status, 503)
    }

    @Test func `the rejected client reports the reason, and connects when there is room`() async throws {
        var configuration = PrimusServerConfiguration()
        (configuration.transformer, configuration.unreadSessionLimit) = (.engineIO, 1)
        let primus = try await InMemoryPrimus(configuration: configuration)
        let other = try #require(primus.network.transports().http as? any HTTPExchangeTransport)
        let client = primus.client { ($0.connectionKinds, $0.allowedTransports, $0.strategies) = ([.polling], .polling, []) }
        var endpoint = client.configuration.endpoint
        endpoint.target = "/primus/?EIO=4&transport=polling"
        let session = RawExchange(other, HTTPRequest("GET", endpoint))
        expectEqual(session.status, 200)
        let error = await #expect(throws: PrimusError.self) { try await client.run() }
        expect(error?.status == 503 && error?.serverMessage?.hasPrefix("The server has as many sessions") == true)
        // The session has a reader.
        endpoint.addQuery("sid", try #require(primus.server.sparks.first).id)
        let poll = RawExchange(other, HTTPRequest("GET", endpoint))
        expect(!poll.isEnded)
        client.open()
        try await client.opened(within: .seconds(600))
        client.end()
    }

    @Test(arguments: [PrimusTransformerKind.engineIO, .sockjs])
    func `a session ends for which more bytes wait than the limit, and others don't`(transformer: PrimusTransformerKind) async throws {
        let test = try await ServerUnderTest { ($0.transformer, $0.sessionBacklogLimit) = (transformer, 1000) }
        let ends = EventRecorder<(String, CloseReason)>()
        let record = test.server.onDisconnection { ends.record(($0, $1)) }
        let isEngine = transformer == .engineIO
        let first = isEngine ? try test.openEngineIO() : "/primus/0/a/xhr"
        if !isEngine { try expectEqual(test.start(first, method: "POST").body, "o\n") }
        let spark = try #require(test.server.sparks.last)
        let second = isEngine ? try test.openEngineIO() : "/primus/0/b/xhr"
        if !isEngine { try expectEqual(test.start(second, method: "POST").body, "o\n") }
        let neighbor = try #require(test.server.sparks.last)
        let text = String(repeating: "x", count: 600)
        // One more message may follow as long as the limit isn't exceeded.
        for _ in 0..<2 { try spark.write(text) }
        expect(spark.isOpen)
        try spark.write(text)
        expect(!spark.isOpen && neighbor.isOpen)
        try await eventually { ends.all.count == 1 }
        guard case .transport(let error) = try #require(ends.all.first).1 else { return expect(false, "\(ends.all)") }
        expect(error.code == .tooLarge && ends.all[0].0 == spark.id, "\(error)")
        let answer = try test.start(first, method: isEngine ? "GET" : "POST")
        // A session of SockJS has the name that its client has chosen, and is opened again.
        if isEngine { expect(answer.status == 400 && answer.body.contains("Session ID unknown")) } else { expectEqual(answer.body, "o\n") }
        try neighbor.write(1)
        try expectEqual(test.start(second, method: isEngine ? "GET" : "POST").body, (isEngine ? "41" : "a[\"1\"]\n"))
        record.cancel()
    }

    @Test func `a session doesn't move to a WebSocket after a message was dropped at the limit`() async throws {
        let test = try await ServerUnderTest { ($0.transformer, $0.sessionBacklogLimit) = (.engineIO, 1000) }
        let moving = EventRecorder<RawClient>()
        // The client of the session moves after a message to all clients was added to those that wait, and before its session is flushed.
        let id = ConnectionID.nextAccepted()
        let other = RecordingConnection(onFlush: { for client in moving.take() { client.send("5") } })
        let events = test.server.listenerHandler.accepted(
            other, id: id, request: HTTPRequestHead(method: "GET", target: "/primus/?EIO=4&transport=websocket"))
        events.opened(id, head: HTTPResponseHead(status: 101))
        let ends = EventRecorder<CloseReason>()
        let record = test.server.onDisconnection(on: CallbackExecutor { $0() }) { _, reason in ends.record(reason) }
        let session = try test.openEngineIO()
        let spark = try #require(test.server.sparks.last)
        let text = String(repeating: "x", count: 600)
        for _ in 0..<2 { try spark.write(text) }
        let client = test.client(session.replacing("polling", with: "websocket"))
        client.send("2probe")
        moving.record(client)
        expect(client.lines == ["3probe"] && spark.isOpen)
        try test.server.write(text)
        expect(client.lines == ["3probe"] && client.end != nil && !spark.isOpen && moving.all.isEmpty)
        guard case .transport(let error) = try #require(ends.all.first) else { return expect(false, "\(ends.all)") }
        expect(error.code == .tooLarge && ends.all.count == 1)
        record.cancel()
    }

    @Test func `requests that are held back end a session above the limit, and are answered`() async throws {
        let pending = EventRecorder<CheckedContinuation<Void, Never>>()
        let test = try await ServerUnderTest {
            $0.transformer = .engineIO
            $0.authorize = { request in
                if request.method == "POST" { await withCheckedContinuation { pending.record($0) } }
                return .accept
            }
        }
        let opening = try test.start("/primus/?EIO=4&transport=polling")
        try await eventually { opening.isEnded }
        let session = "/primus/?EIO=4&transport=polling&sid=\(try #require(test.server.sparks.first).id)"
        let body = "4\"" + String(repeating: "x", count: 600_000) + "\""
        let posts = try (0..<3).map { _ in try test.start(session, method: "POST", body: body) }
        expect(posts.map(\.isEnded) == [true, true, true] && test.server.sparks.isEmpty)
        expect(posts[2].status == 413 && posts[0].status == 400, "\(posts.map(\.status))")
        try await eventually { pending.all.count == 3 }
        for request in pending.take() { request.resume() }
    }
}
