import PrimusServer
import PrimusWire
import RealtimeCoding
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// The behaviors of a server that the protocol description of engine.io 4 asks for, with its pings of 300 and 200 ms.
///
/// Where Primus answers otherwise, the test says so.
@Suite(.timeLimit(.minutes(10))) struct EngineIOProtocolTests {
    private static let path = "/primus/?EIO=4&transport=polling"
    private static let socketPath = "/primus/?EIO=4&transport=websocket"

    /// A server that echoes, and its registration.
    private func start() async throws -> (test: ServerUnderTest, echo: CallbackObservation) {
        let test = try await ServerUnderTest {
            ($0.transformer, $0.pingInterval, $0.messageLimit) = (.engineIO, nil, 1_000_000)
            ($0.enginePingInterval, $0.enginePingTimeout) = (.milliseconds(300), .milliseconds(200))
        }
        let echo = test.server.onMessage(on: CallbackExecutor { $0() }) { message in
            if let value = try? message.value { _ = try? message.spark.write(value) }
        }
        return (test, echo)
    }

    private func checkHandshake(_ packet: String, upgrades: JSONValue) throws {
        expect(packet.hasPrefix("0"))
        let handshake = try #require(try? JSONValue(parsing: Array(packet.dropFirst().utf8)))
        expectEqual(handshake.object?.map(\.key), ["sid", "upgrades", "pingInterval", "pingTimeout", "maxPayload"])
        expect(handshake["sid"]?.string?.isEmpty == false && handshake["upgrades"] == upgrades)
        expect(handshake["pingInterval"]?.int == 300 && handshake["pingTimeout"]?.int == 200)
        expectEqual(handshake["maxPayload"]?.int, 1_000_000)
    }

    // MARK: Handshake

    @Test func `polling opens a session`() async throws {
        let test = try await self.start().test
        let response = try test.start(Self.path)
        expectEqual(response.status, 200)
        try self.checkHandshake(response.body, upgrades: ["websocket"])
    }

    @Test(arguments: ["/primus/?transport=polling", "/primus/?EIO=abc&transport=polling", "/primus/?EIO=4", "/primus/?EIO=4&transport=abc"])
    func `polling without a known version and transport is refused`(target: String) async throws {
        try await expectEqual(self.start().test.start(target).status, 400)
    }

    @Test(arguments: ["POST", "PUT"]) func `a session isn't opened with another method`(method: String) async throws {
        try await expectEqual(self.start().test.start(Self.path, method: method).status, 400)
    }

    @Test(arguments: [
        ("EIO=4&transport=abc", "Transport unknown"), ("EIO=4&transport=websocket&sid=abc", "Session ID unknown"),
        ("EIO=3&transport=websocket", "Unsupported protocol version"),
    ])
    func `a refused WebSocket receives the text of the reason, as from engine io`(query: String, text: String) async throws {
        let client = try await self.start().test.client("/primus/?\(query)")
        let response = try #require(client.end?.transportError?.response)
        expect(response.head.status == 400 && String(decoding: response.body, as: UTF8.self) == text)
        expectEqual(response.head.headers["Content-Type"], "text/html")
    }

    @Test func `a question about methods that isn't one of a page is a request like others`() async throws {
        let test = try await self.start().test
        let response = try test.start(Self.path, method: "OPTIONS", headers: ["Origin": "http://page"])
        expect(response.status == 400 && response.body == #"{"code":2,"message":"Bad handshake method"}"#)
        expectEqual(response.headers["Access-Control-Allow-Origin"], "http://page")
    }

    @Test func `responses aren't cached, except for the specification`() async throws {
        let (test, echo) = try await self.start()
        let target = try test.openEngineIO()
        for response in [
            try test.start(Self.path), try test.start(target, method: "POST", body: "4\"a\""), try test.start(target),
            try test.start(Self.path + "&sid=abc"), try test.start("/primus/"),
        ] {
            expectEqual(response.headers["Cache-Control"], "no-store, no-cache, must-revalidate, max-age=0")
            expectEqual(response.headers["Pragma"], "no-cache")
        }
        try expectNil(test.start("/primus/spec").headers["Cache-Control"])
        withExtendedLifetime(echo) {}
    }

    @Test func `a packet for the end may have content, and ends the session`() async throws {
        let test = try await self.start().test
        let target = try test.openEngineIO()
        try expectEqual(test.start(target, method: "POST", body: "1x").status, 200)
        try expect(test.start(target).status == 400 && test.server.sparks.isEmpty)
    }

    @Test func `a WebSocket opens a session`() async throws {
        let test = try await self.start().test
        let client = test.client(Self.socketPath)
        try self.checkHandshake(try #require(client.lines.first), upgrades: [])
    }

    @Test(arguments: [
        "/primus/?transport=websocket", "/primus/?EIO=abc&transport=websocket", "/primus/?EIO=4", "/primus/?EIO=4&transport=abc",
    ])
    func `a WebSocket without a known version and transport is refused`(target: String) async throws {
        let test = try await self.start().test
        let client = test.client(target)
        guard case .transport(let error)? = client.end else { return expect(client.end != nil) }
        expect(error.code == .upgradeRejected && error.status == 400)
    }

    // MARK: Messages

    @Test(arguments: ["4\"hello\"", "41\u{1E}42\u{1E}43"]) func `packets of text are sent and received over polling`(
        body: String
    ) async throws {
        let (test, echo) = try await self.start()
        let session = try test.openEngineIO()
        let post = try test.start(session, method: "POST", body: body)
        expect(post.status == 200 && post.body == "ok")
        let poll = try test.start(session)
        expect(poll.status == 200 && poll.body == body)
        echo.cancel()
    }

    @Test func `packets of text and bytes are sent and received over polling`() async throws {
        let (test, echo) = try await self.start()
        let session = try test.openEngineIO()
        try expectEqual(test.start(session, method: "POST", body: "4\"hello\"\u{1E}bAQIDBA==").body, "ok")
        // The parser of Primus writes bytes as JSON.
        try expectEqual(test.start(session).body, "4\"hello\"\u{1E}4{\"type\":\"Buffer\",\"data\":[1,2,3,4]}")
        echo.cancel()
    }

    @Test func `bytes that are sent as they are have Base64 over polling`() async throws {
        let test = try await self.start().test
        let session = try test.openEngineIO()
        test.server.sendRaw(.text("4hello"), to: try #require(test.server.sparks.first).id)
        test.server.sendRaw(.binary([1, 2, 3, 4]), to: test.server.sparks[0].id)
        let polls = try (0..<2).map { _ in try test.start(session).body }
        expect(polls.joined(separator: "|").contains("bAQIDBA=="), "\(polls)")
    }

    @Test func `an invalid packet ends a session over polling`() async throws {
        let test = try await self.start().test
        let session = try test.openEngineIO()
        // The server of engine.io answers with 200 in place of the 400 of the description.
        try expectEqual(test.start(session, method: "POST", body: "abc").status, 200)
        try expect(test.start(session).status == 400 && test.server.sparks.isEmpty)
    }

    @Test func `two polls at the same time end a session`() async throws {
        let test = try await self.start().test
        let session = try test.openEngineIO()
        let first = try test.start(session)
        expect(!first.isEnded)
        try expectEqual(test.start(session + "&t=burst").status, 400)
        expect(first.status == 200 && first.body == "1")
        try expect(test.start(session).status == 400 && test.server.sparks.isEmpty)
    }

    @Test func `a session ends when its client gives up the poll that waits, and others don't`() async throws {
        let (test, echo) = try await self.start()
        let neighbor = try test.openEngineIO()
        for _ in 0..<20 {
            let session = try test.openEngineIO()
            try test.start(session).cancel()
            try expectEqual(test.start(session).status, 400)
        }
        expectEqual(test.server.sparks.count, 1)
        try expectEqual(test.start(neighbor, method: "POST", body: "41").body, "ok")
        try expectEqual(test.start(neighbor).body, "41")
        echo.cancel()
    }

    @Test func `text and bytes are sent and received over a WebSocket`() async throws {
        let (test, echo) = try await self.start()
        let client = test.client(Self.socketPath)
        client.send("4\"hello\"")
        client.socket.send([.binary([1, 2, 3, 4])])
        expectEqual(client.lines.dropFirst(), ["4\"hello\"", "4{\"type\":\"Buffer\",\"data\":[1,2,3,4]}"])
        echo.cancel()
    }

    @Test func `an invalid packet ends a session over a WebSocket`() async throws {
        let test = try await self.start().test
        let (client, neighbor) = (test.client(Self.socketPath), test.client(Self.socketPath))
        client.send("abc")
        guard case .peer(let code, let reason)? = client.end else { return expect(client.end != nil) }
        expect(code == .protocolError && reason == "A packet of engine.io begins with \"abc\"." && neighbor.end == nil)
    }

    // MARK: Heartbeat

    @Test func `pings are sent and answered over polling`() async throws {
        let test = try await self.start().test
        let session = try test.openEngineIO()
        for _ in 0..<3 {
            let poll = try test.start(session)
            test.clock.advance(by: .milliseconds(300))
            expect(poll.status == 200 && poll.body == "2")
            try expectEqual(test.start(session, method: "POST", body: "3").status, 200)
        }
        expectEqual(test.server.sparks.count, 1)
    }

    @Test func `a session over polling ends without an answer to a ping`() async throws {
        let test = try await self.start().test
        let session = try test.openEngineIO()
        for _ in 0..<10 { test.clock.advance(by: .milliseconds(50)) }
        try expect(test.start(session).status == 400 && test.server.sparks.isEmpty)
    }

    @Test func `pings are sent and answered over a WebSocket, and the end follows without an answer`() async throws {
        let test = try await self.start().test
        let client = test.client(Self.socketPath)
        for count in 1...3 {
            test.clock.advance(by: .milliseconds(300))
            expectEqual(client.lines.dropFirst(), Array(repeating: "2", count: count)[...])
            client.send("3")
        }
        test.clock.advance(by: .milliseconds(300))
        expectNil(client.end)
        test.clock.advance(by: .milliseconds(200))
        expect(client.end != nil && test.server.sparks.isEmpty)
    }

    @Test func `an answer that the server hasn't read is asked for again`() async throws {
        let test = try await self.start().test
        let client = test.client(Self.socketPath)
        test.clock.advance(by: .milliseconds(300))
        let spark = try #require(test.server.sparks.first)
        test.server.silence(spark.id)
        client.send("3")
        test.clock.advance(by: .milliseconds(190))
        test.server.silence(spark.id, false)
        expectEqual(client.lines.dropFirst(), ["2"])
        test.clock.advance(by: .milliseconds(10))
        expectEqual(client.lines.dropFirst(), ["2", "2"])
        test.clock.advance(by: .milliseconds(199))
        expect(client.end == nil && test.server.sparks.count == 1)
        test.clock.advance(by: .milliseconds(1))
        expect(client.end != nil && test.server.sparks.isEmpty)
    }

    @Test func `a server that stops reading again and again sends its pings all the same`() async throws {
        let test = try await self.start().test
        let client = test.client(Self.socketPath)
        let spark = try #require(test.server.sparks.first)
        for _ in 0..<3 {
            test.server.silence(spark.id)
            test.server.silence(spark.id, false)
            test.clock.advance(by: .milliseconds(100))
        }
        expectEqual(client.lines.dropFirst(), ["2"])
    }

    @Test func `a client isn't ended as long as the server doesn't read, and gets its pings, whatever faults begin and end`() async throws {
        let test = try await self.start().test
        let callbacks = EventRecorder<@Sendable () -> Void>()
        let slow = test.server.onMessage(on: CallbackExecutor { callbacks.record($0) }) { _ in }
        let client = test.client(Self.socketPath)
        let spark = try #require(test.server.sparks.first)
        for number in 0..<2_000 { client.send("4\(number)") }
        test.server.silence(spark.id)
        test.server.silence(spark.id, false)
        // A client counts the time between pings: one that is missing would end its connection.
        test.clock.advance(by: .milliseconds(300))
        expectEqual(client.lines.dropFirst(), ["2"])
        test.clock.advance(by: .milliseconds(299))
        expect(client.end == nil && client.lines.dropFirst() == ["2"])
        test.clock.advance(by: .milliseconds(1))
        expect(client.end == nil && client.lines.dropFirst() == ["2", "2"])
        var done = 0
        while case let waiting = callbacks.all.dropFirst(done), !waiting.isEmpty {
            done += waiting.count
            for callback in waiting { callback() }
        }
        test.clock.advance(by: .milliseconds(300))
        expect(client.end == nil && client.lines.dropFirst() == ["2", "2", "2"])
        // From now on, its silence counts again.
        test.clock.advance(by: .milliseconds(200))
        expect(client.end != nil)
        withExtendedLifetime(slow) {}
    }

    @Test func `a client of version 3 has the whole time for its ping when the server reads again`() async throws {
        let test = try await ServerUnderTest {
            ($0.transformer, $0.version) = (.engineIO, .v6)
            ($0.enginePingInterval, $0.enginePingTimeout) = (.milliseconds(300), .milliseconds(200))
        }
        let client = test.client(Self.socketPath.replacing("EIO=4", with: "EIO=3"))
        let spark = try #require(test.server.sparks.first)
        test.server.silence(spark.id)
        test.clock.advance(by: .milliseconds(499))
        test.server.silence(spark.id, false)
        test.clock.advance(by: .milliseconds(499))
        expect(client.end == nil && test.server.sparks.count == 1)
        test.clock.advance(by: .milliseconds(1))
        expect(client.end != nil && test.server.sparks.isEmpty)
    }

    @Test func `after a standstill, a client whose answer is missing is asked again, and ended without an answer`() async throws {
        for answers in [false, true] {
            let test = try await self.start().test
            let client = test.client(Self.socketPath)
            test.clock.advance(by: .milliseconds(300))
            expectEqual(client.lines.dropFirst(), ["2"])
            test.clock.standStill(for: .seconds(10))
            expect(client.end == nil && client.lines.dropFirst() == ["2", "2"], "\(client.lines)")
            test.clock.advance(by: .milliseconds(199))
            expectNil(client.end)
            if answers { client.send("3") }
            test.clock.advance(by: .milliseconds(1))
            expect((client.end == nil) == answers && test.server.sparks.isEmpty != answers)
        }
        let test = try await self.start().test
        let client = test.client(Self.socketPath)
        test.clock.advance(by: .milliseconds(300))
        for _ in 0..<2 { test.clock.standStill(for: .seconds(10)) }
        expect(client.end != nil && test.server.sparks.isEmpty)
    }

    @Test func `after a standstill, a client of version 3 has the whole time for its ping`() async throws {
        let test = try await ServerUnderTest {
            ($0.transformer, $0.version, $0.silenceTimeout) = (.engineIO, .v6, nil)
            ($0.enginePingInterval, $0.enginePingTimeout) = (.milliseconds(300), .milliseconds(200))
        }
        let path = Self.socketPath.replacing("EIO=4", with: "EIO=3")
        let (silent, pinging) = (test.client(path), test.client(path))
        test.clock.standStill(for: .seconds(10))
        test.clock.advance(by: .milliseconds(499))
        expect(silent.end == nil && pinging.end == nil)
        pinging.send("2")
        test.clock.advance(by: .milliseconds(1))
        expect(silent.end != nil && pinging.end == nil && test.server.sparks.count == 1)
        test.clock.advance(by: .milliseconds(499))
        expect(pinging.end != nil && test.server.sparks.isEmpty)
        let busy = test.client(path)
        for _ in 0..<2 { test.clock.standStill(for: .seconds(10)) }
        expect(busy.end != nil && test.server.sparks.isEmpty)
    }

    // MARK: End

    @Test func `a client ends its session over polling`() async throws {
        let test = try await self.start().test
        let session = try test.openEngineIO()
        let poll = try test.start(session)
        try expectEqual(test.start(session, method: "POST", body: "1").body, "ok")
        expect(poll.status == 200 && poll.body == "6")
        try expect(test.start(session).status == 400 && test.server.sparks.isEmpty)
    }

    @Test func `a client ends its session by closing its WebSocket`() async throws {
        let test = try await self.start().test
        let client = test.client(Self.socketPath)
        // The server of engine.io ignores the packet, on which the description closes the WebSocket.
        client.send("1")
        expect(client.end == nil && test.server.sparks.count == 1)
        client.socket.close()
        expect(test.server.sparks.isEmpty)
    }

    // MARK: Upgrade

    @Test func `a session moves from polling to a WebSocket`() async throws {
        let (test, echo) = try await self.start()
        let session = try test.openEngineIO()
        let client = test.client(session.replacing("polling", with: "websocket"))
        client.send("2probe")
        expectEqual(client.lines, ["3probe"])
        let poll = try test.start(session)
        expect(poll.status == 200 && poll.body == "6")
        client.send("5", "4\"hello\"")
        expectEqual(client.lines, ["3probe", "4\"hello\""])
        echo.cancel()
    }

    @Test func `requests and other WebSockets of a session that has moved are refused`() async throws {
        let (test, echo) = try await self.start()
        let session = try test.openEngineIO()
        let client = test.client(session.replacing("polling", with: "websocket"))
        client.send("2probe")
        client.send("5")
        try expectEqual(test.start(session).status, 400)
        try expectEqual(test.start(session, method: "POST", body: "4\"lost\"").status, 400)
        let other = test.client(session.replacing("polling", with: "websocket"))
        expect(other.end != nil)
        client.send("4\"hello\"")
        expectEqual(client.lines, ["3probe", "4\"hello\""])
        echo.cancel()
    }

    @Test(arguments: ["5", "poll"])
    func `the end of a session that is about to move follows on the connection that the client uses next`(next: String) async throws {
        let (test, echo) = try await self.start()
        let session = try test.openEngineIO()
        let client = test.client(session.replacing("polling", with: "websocket"))
        client.send("2probe")
        let spark = try #require(test.server.sparks.first)
        try spark.write("last")
        spark.end()
        expect(client.lines == ["3probe"] && client.end == nil)
        if next == "poll" {
            let poll = try test.start(session)
            expect(poll.body == "4\"last\"\u{1E}4\"primus::server::close\"" && client.end == nil)
            try expect(test.start(session).body == "6\u{1E}1" && client.end != nil)
        } else {
            client.send("5")
            expectEqual(client.lines, ["3probe", "4\"last\"", "4\"primus::server::close\""])
            expectEqual(client.end.map { "\($0)".contains("1000") }, true)
        }
        expect(test.server.sparks.isEmpty)
        echo.cancel()
    }

    @Test func `a session that the server ends doesn't move to a WebSocket that is opened later`() async throws {
        let (test, echo) = try await self.start()
        let ends = EventRecorder<String>()
        let observation = test.server.onDisconnection(on: CallbackExecutor { $0() }) { id, _ in ends.record(id) }
        let session = try test.openEngineIO()
        let spark = try #require(test.server.sparks.first)
        try spark.write("last")
        spark.end(reconnects: true)
        let client = test.client(session.replacing("polling", with: "websocket"))
        client.send("2probe", "5")
        expect(client.lines.isEmpty && client.end != nil)
        try expect(test.start(session).body == "4\"last\"" && ends.all.isEmpty)
        try expect(test.start(session).body == "6\u{1E}1" && ends.all == [spark.id])
        observation.cancel()
        echo.cancel()
    }

    /// The calls of the server and of the connections come from two threads at a time.
    @Test func `each WebSocket of a session has an end, whatever comes first`() async throws {
        for round in 0..<200 {
            let (test, echo) = try await self.start()
            let target = try test.openEngineIO().replacing("polling", with: "websocket")
            let spark = try #require(test.server.sparks.first)
            let connection = RecordingConnection()
            let (id, acceptor) = (ConnectionID.nextAccepted(), try test.acceptor(of: target))
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    let events = acceptor.connected(connection, id: id)
                    var probe = MessageBatch()
                    probe.append(.text, Array("2probe".utf8))
                    events.received(id, probe)
                    var move = MessageBatch()
                    move.append(.text, Array("5".utf8))
                    events.received(id, move)
                }
                group.addTask { if round.isMultiple(of: 2) { spark.end(reconnects: true) } else { test.server.drop(spark.id) } }
            }
            test.clock.advance(by: .seconds(30))
            let isEnded = connection.calls.all.contains { if case .closing = $0 { true } else { $0 == .abandoned } }
            expect(isEnded, "\(connection.calls.all)")
            echo.cancel()
        }
    }

    @Test func `a WebSocket is closed whose session ends before it is connected`() async throws {
        let (test, echo) = try await self.start()
        let connection = RecordingConnection()
        let acceptor = try test.acceptor(of: test.openEngineIO().replacing("polling", with: "websocket"))
        try test.server.drop(#require(test.server.sparks.first).id)
        _ = acceptor.connected(connection, id: .nextAccepted())
        expect(connection.calls.all == [.closing(.normal)] && test.server.sparks.isEmpty)
        echo.cancel()
    }
}
