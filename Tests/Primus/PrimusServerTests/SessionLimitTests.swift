@testable import PrimusServer
import PrimusTesting
import PrimusWire
import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

/// The limits on sessions over HTTP whose clients don't ask for messages.
@Suite(.timeLimit(.minutes(10))) struct SessionLimitTests {
    @Test func `another session of engine.io takes the place of the oldest one whose client has never asked`() async throws {
        let test = try await ServerUnderTest { ($0.transformer, $0.unreadSessionLimit) = (.engineIO, 2) }
        let ends = EventRecorder<CloseReason>()
        let record = test.server.onDisconnection(on: CallbackExecutor { $0() }) { _, reason in ends.record(reason) }
        let sessions = try (0..<2).map { _ in try test.openEngineIO() }
        // A session with a reader, and one on a WebSocket, don't count, although they are older.
        let poll = try test.start(sessions[0])
        expect(!poll.isEnded)
        let moved = test.client(sessions[1].replacing("polling", with: "websocket"))
        for packet in ["2probe", "5"] { moved.send(packet) }
        let others = try (0..<4).map { _ in try test.openEngineIO() }
        expect(test.server.sparks.count == 4 && !poll.isEnded && moved.end == nil)
        guard case .transport(let error)? = ends.all.first else { return expect(false, "\(ends.all)") }
        expect(ends.all.count == 2 && error.message.hasPrefix("The client hasn't asked for its messages"))
        for session in others[..<2] {
            let answer = try test.start(session)
            expect(answer.status == 400 && answer.body.contains("Session ID unknown"))
        }
        for session in others[2...] { try expect(!test.start(session).isEnded) }
        record.cancel()
    }

    @Test func `another session of SockJS takes the place of the oldest one whose client has never asked`() async throws {
        let test = try await ServerUnderTest { ($0.transformer, $0.unreadSessionLimit) = (.sockjs, 1) }
        try expectEqual(test.start("/primus/0/a/xhr", method: "POST").body, "o\n")
        for name in ["b", "c"] { try expectEqual(test.start("/primus/0/\(name)/xhr", method: "POST").body, "o\n") }
        expectEqual(test.server.sparks.count, 1)
        try expectEqual(test.start("/primus/0/b/xhr_send", method: "POST", body: "[]").status, 404)
        try expectEqual(test.start("/primus/0/c/xhr_send", method: "POST", body: "[]").status, 204)
        let poll = try test.start("/primus/0/c/xhr", method: "POST")
        let stream = try test.start("/primus/0/d/xhr_streaming", method: "POST")
        expect(!poll.isEnded && stream.status == 200 && stream.body.hasSuffix("\no\n"))
        try expectEqual(test.start("/primus/0/e/xhr", method: "POST").body, "o\n")
        expectEqual(test.server.sparks.count, 3)
    }

    @Test(arguments: [PrimusTransformerKind.engineIO, .sockjs])
    func `a client is rejected while too many clients that have asked before don't`(transformer: PrimusTransformerKind) async throws {
        let test = try await ServerUnderTest { ($0.transformer, $0.unreadSessionLimit) = (transformer, 2) }
        let events = test.server.events
        let (isEngine, method) = (transformer == .engineIO, transformer == .engineIO ? "GET" : "POST")
        func open(_ name: String) throws -> RawExchange {
            try test.start(isEngine ? "/primus/?EIO=4&transport=polling" : "/primus/0/\(name)/xhr", method: method)
        }
        for name in ["a", "b"] {
            try expectEqual(open(name).status, 200)
            let spark = try #require(test.server.sparks.last)
            let session = isEngine ? "/primus/?EIO=4&transport=polling&sid=\(spark.id)" : "/primus/0/\(name)/xhr"
            try spark.write(1)
            try expectEqual(test.start(session, method: method).status, 200)
        }
        test.clock.advance(by: .seconds(1))
        let rejected = try open("c")
        expect(rejected.status == 503 && rejected.body.hasPrefix(#"{"error":"The server has as many sessions"#), "\(rejected.body)")
        await expect(events.pending().contains(.rejected(status: 503)))
        // A client without polling isn't affected.
        expectEqual(test.client(isEngine ? "/primus/?EIO=4&transport=websocket" : "/primus/0/w/websocket").lines.count, 1)
        // The sessions end because their clients don't come back.
        for _ in 0..<6 { test.clock.advance(by: .seconds(10)) }
        try expectEqual(open("d").status, 200)
    }

    @Test func `the oldest session is found without looking at the others`() {
        var unread = UnreadSessions(limit: 3)
        let now = Instant(nanoseconds: 0)
        var counts = 0
        func room(_ sessions: Int, _ now: Instant, unread count: Int = 0) -> UnreadSessions.Room {
            unread.room(sessionCount: sessions, now: now) {
                counts += 1
                return count
            }
        }
        for name in ["a", "b", "c"] { unread.add(ByteString(name)) }
        expectEqual(room(2, now), .available)
        expect(room(3, now) == .takes(ByteString("a")) && counts == 0)
        unread.add(ByteString("d"))
        unread.remove(ByteString("b"))
        // Others are counted once in a second.
        expect(room(3, now, unread: 2) == .available && room(3, now, unread: 3) == .available && counts == 1)
        let later = now.advanced(by: .seconds(1))
        expect(room(3, later, unread: 3) == .takes(ByteString("c")) && counts == 2)
        expect(room(3, later) == .available && unread.count == 1)
        expect(room(3, later.advanced(by: .seconds(1)), unread: 3) == .takes(ByteString("d")))
        expect(room(3, later.advanced(by: .seconds(2)), unread: 3) == .none)
        for number in 0..<1_000 {
            unread.add(ByteString("\(number)"))
            unread.remove(ByteString("\(number)"))
        }
        expectEqual(unread.count, 0)
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
        // It takes the place of one whose client has never asked.
        expectEqual(test.server.sparks.count, 5)
        try expectEqual(open("another one").status, 200)
        expectEqual(test.server.sparks.count, 5)
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
        // Its client has asked once.
        let spark = try #require(primus.server.sparks.first)
        endpoint.addQuery("sid", spark.id)
        try spark.write(1)
        expectEqual(RawExchange(other, HTTPRequest("GET", endpoint)).status, 200)
        primus.clock.advance(by: .seconds(1))
        let error = await #expect(throws: PrimusError.self) { try await client.run() }
        expect(error?.status == 503 && error?.serverMessage?.hasPrefix("The server has as many sessions") == true)
        // The session has a reader.
        let poll = RawExchange(other, HTTPRequest("GET", endpoint))
        expect(!poll.isEnded)
        primus.clock.advance(by: .seconds(1))
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

    @Test(arguments: [PrimusTransformerKind.engineIO, .sockjs])
    func `a message to all clients waits once, and many of them end the sessions that aren't read`(
        transformer: PrimusTransformerKind
    ) async throws {
        let test = try await ServerUnderTest { ($0.transformer, $0.totalBacklogLimit, $0.plugins) = (transformer, 12_000, .emitter) }
        let ends = EventRecorder<CloseReason>()
        let record = test.server.onDisconnection(on: CallbackExecutor { $0() }) { _, reason in ends.record(reason) }
        let (isEngine, method) = (transformer == .engineIO, transformer == .engineIO ? "GET" : "POST")
        func open(_ number: Int) throws -> String {
            if isEngine { return try test.openEngineIO() }
            try expectEqual(test.start("/primus/0/\(number)/xhr", method: "POST").body, "o\n")
            return "/primus/0/\(number)/xhr"
        }
        let reader = try open(100)
        func read() throws -> RawExchange { try test.start(reader, method: method) }
        // Each session has its own copy of what it alone receives, and shares what all receive.
        var poll = try read()
        for number in 0..<20 { _ = try open(number) }
        let text = String(repeating: "x", count: 4_000)
        try test.server.write(text)
        expect(poll.isEnded && test.server.sparks.count == 21)
        poll = try read()
        try test.server.send("news", text)
        expect(poll.isEnded && test.server.sparks.count == 21)
        // A client that asks again in time isn't the reason.
        try test.server.write(text)
        expect(ends.all.count == 20 && test.server.sparks.count == 1)
        guard case .transport(let error)? = ends.all.first else { return expect(false, "\(ends.all)") }
        expect(error.code == .tooLarge && error.message.hasPrefix("More than 12000 bytes wait"))
        try expect(read().body.contains(text))
        record.cancel()
    }

    @Test func `a session doesn't move to a WebSocket after a message was dropped at the limit`() async throws {
        let test = try await ServerUnderTest { ($0.transformer, $0.sessionBacklogLimit) = (.engineIO, 1000) }
        let moving = EventRecorder<RawClient>()
        // The client of the session moves after a message to all clients was added to those that wait, and before its session is flushed.
        let id = ConnectionID.nextAccepted()
        let other = RecordingConnection(onFlush: { for client in moving.take() { client.send("5") } })
        let events = try test.acceptor(of: "/primus/?EIO=4&transport=websocket").connected(other, id: id)
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
