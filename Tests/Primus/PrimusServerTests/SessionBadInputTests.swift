import PrimusServer
import PrimusWire
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// Clients over HTTP that send what isn't valid, beside one that isn't affected.
@Suite(.timeLimit(.minutes(10))) struct SessionBadInputTests {
    /// A server that records messages, with a neighbor over polling.
    private struct Fixture {
        let test: ServerUnderTest
        let received = EventRecorder<String>()
        let record: CallbackObservation
        let neighbor: String

        init(_ configure: (inout PrimusServerConfiguration) -> Void = { _ in }) async throws {
            self.test = try await ServerUnderTest {
                ($0.transformer, $0.pingInterval, $0.allowsEIO3) = (.engineIO, nil, true)
                configure(&$0)
            }
            let received = self.received
            self.record = self.test.server.onMessage(on: CallbackExecutor { $0() }) { message in
                received.record(String(decoding: message.packet.bytes, as: UTF8.self))
            }
            self.neighbor =
                self.test.server.configuration.transformer == .engineIO ? try self.test.openEngineIO() : "/primus/0/neighbor/xhr"
            if self.neighbor.hasSuffix("/xhr") { _ = try self.test.start(self.neighbor, method: "POST") }
        }

        /// Checks that the neighbor sends and receives.
        func checkNeighbor() throws {
            let isEngine = self.test.server.configuration.transformer == .engineIO
            let (target, body) = isEngine ? (self.neighbor, "4\"neighbor\"") : (self.neighbor + "_send", #"["\"neighbor\""]"#)
            try expectEqual(self.test.start(target, method: "POST", body: body).status, (isEngine ? 200 : 204))
            expectEqual(self.received.take().last, "\"neighbor\"")
            try self.test.server.sparks.first?.write(1)
            try expectEqual(self.test.start(self.neighbor, method: isEngine ? "GET" : "POST").body, (isEngine ? "41" : "a[\"1\"]\n"))
        }
    }

    /// Checks that a session goes on with polling, and that it moves to another WebSocket.
    private func checkMove(_ session: String, _ fixture: Fixture) throws {
        try expect(fixture.test.start(session, method: "POST", body: "41").status == 200 && fixture.received.take() == ["1"])
        let client = fixture.test.client(Self.webSocket(session))
        client.send("2probe")
        expectEqual(client.lines, ["3probe"])
        client.send("5", "42")
        expect(fixture.received.take() == ["2"] && client.end == nil)
        try expectEqual(fixture.test.start(session).status, 400)
    }

    /// The target of a WebSocket to which a session may move.
    private static func webSocket(_ session: String) -> String { session.replacing("polling", with: "websocket") }

    /// Packets in the body of a request.
    private static func body(_ packets: some Sequence<String>, _ version: Int) -> String {
        version == 4 ? packets.joined(separator: "\u{1E}") : packets.map { "\($0.utf16.count):\($0)" }.joined()
    }

    @Test(arguments: [3, 4]) func `a body that is cut off anywhere brings the messages before the cut alone`(version: Int) async throws {
        let fixture = try await Fixture()
        let packets = ["4\"a\"", "4\"ß😀\"", "4[1]", "4\"b\""]
        let body = Array(Self.body(packets, version).utf8)
        for end in 1..<body.count {
            let session = try fixture.test.openEngineIO(version)
            let post = try fixture.test.start(session, method: "POST", body: String(decoding: body[..<end], as: UTF8.self))
            expectEqual(post.status, 200, "\(end)")
            let received = fixture.received.take()
            let complete = zip(received, packets).prefix { $0 == $1.dropFirst() }.count
            let ends = packets.indices.map { Self.body(packets[...$0], version).utf8.count }
            expect(complete >= ends.count { $0 <= end } && received.count - complete <= 1, "\(end): \(received)")
            // The session goes on, or is unknown.
            let next = try fixture.test.start(session, method: "POST", body: Self.body(["4\"next\""], version))
            expect(next.status == 200 ? fixture.received.take() == ["\"next\""] : next.status == 400, "\(end)")
        }
        try fixture.checkNeighbor()
        fixture.record.cancel()
    }

    @Test(arguments: [3, 4]) func `bodies that are joined anywhere bring no message twice`(version: Int) async throws {
        let fixture = try await Fixture()
        let packets = (0..<4).map { "4\"\($0)\"" }
        let body = Self.body(packets, version)
        for start in 0..<body.count {
            let session = try fixture.test.openEngineIO(version)
            try expectEqual(fixture.test.start(session, method: "POST", body: body + body.dropFirst(start)).status, 200)
            let received = fixture.received.take()
            let isInOrder = received.prefix(3) == ["\"0\"", "\"1\"", "\"2\""]
            expect(isInOrder && received.count <= 8, "\(start): \(received)")
        }
        try fixture.checkNeighbor()
        fixture.record.cancel()
    }

    @Test(arguments: [(4, "b%%%"), (3, "b4%%%")])
    func `Base64 that isn't is reported, and the packets around it are delivered`(version: Int, packet: String) async throws {
        let fixture = try await Fixture()
        let session = try fixture.test.openEngineIO(version)
        let events = fixture.test.server.events
        try expectEqual(fixture.test.start(session, method: "POST", body: Self.body(["41", packet, "42"], version)).status, 200)
        expectEqual(fixture.received.take(), ["1", "2"])
        let spark = try #require(fixture.test.server.sparks.last).id
        let errors = await events.pending().filter { if case .error(spark, _) = $0 { true } else { false } }
        expectEqual(errors.count, 1)
        try expectEqual(fixture.test.start(session, method: "POST", body: Self.body(["43"], version)).status, 200)
        expectEqual(fixture.received.take(), ["3"])
        try fixture.checkNeighbor()
        fixture.record.cancel()
    }

    @Test(arguments: [(4, "41\u{1E}1\u{1E}42"), (3, "2:411:12:42"), (3, "2:411:12:4axx")])
    func `packets after the one that ends the session aren't delivered, nor read`(version: Int, body: String) async throws {
        let fixture = try await Fixture()
        let ends = EventRecorder<CloseReason>()
        let end = fixture.test.server.onDisconnection(on: CallbackExecutor { $0() }) { _, reason in ends.record(reason) }
        let session = try fixture.test.openEngineIO(version)
        try expectEqual(fixture.test.start(session, method: "POST", body: body).status, 200)
        expect(fixture.received.take() == ["1"] && fixture.test.server.sparks.count == 1 && ends.all == [.peer(.normal, "")])
        try expect(fixture.test.start(session, method: "POST", body: "43").status == 400 && fixture.received.take().isEmpty)
        try fixture.checkNeighbor()
        fixture.record.cancel()
        end.cancel()
    }

    @Test func `answers that a client doesn't take count with the memory that they need`() async throws {
        let fixture = try await Fixture { $0.sessionBacklogLimit = 10_000 }
        let session = try fixture.test.openEngineIO(3)
        let pings = String(repeating: "1:2", count: 100)
        // The bytes of all answers together are less than the limit.
        try expectEqual(fixture.test.start(session, method: "POST", body: pings).status, 200)
        expectEqual(fixture.test.server.sparks.count, 2)
        try expectEqual(fixture.test.start(session, method: "POST", body: pings).status, 200)
        expectEqual(fixture.test.server.sparks.count, 1)
        try fixture.checkNeighbor()
        fixture.record.cancel()
    }

    @Test func `a body with many packets is read as a whole`() async throws {
        let fixture = try await Fixture()
        let session = try fixture.test.openEngineIO()
        let packets = (0..<5_000).map { "4\($0)" }.joined(separator: "\u{1E}")
        try expectEqual(fixture.test.start(session, method: "POST", body: packets).status, 200)
        expectEqual(fixture.received.take(), (0..<5_000).map { "\($0)" })
        try fixture.checkNeighbor()
        fixture.record.cancel()
    }

    @Test func `a flood of packets that mean nothing has no effect`() async throws {
        let fixture = try await Fixture()
        let session = try fixture.test.openEngineIO()
        let noops = Array(repeating: "6", count: 10_000).joined(separator: "\u{1E}")
        for _ in 0..<20 { try expectEqual(fixture.test.start(session, method: "POST", body: noops).status, 200) }
        try expect(fixture.test.start(session, method: "POST", body: "41").status == 200 && fixture.received.take() == ["1"])
        try fixture.checkNeighbor()
        fixture.record.cancel()
    }

    @Test(arguments: ["2", "2other", "3probe", "41", "abc", "", "6"])
    func `a WebSocket that begins with neither the probe nor the move is closed, and the session goes on with polling`(
        message: String
    ) async throws {
        let fixture = try await Fixture()
        let session = try fixture.test.openEngineIO()
        let client = fixture.test.client(Self.webSocket(session))
        client.send(message, "4\"lost\"")
        expect(client.end != nil && client.lines.isEmpty && fixture.received.take().isEmpty)
        try self.checkMove(session, fixture)
        try fixture.checkNeighbor()
        fixture.record.cancel()
    }

    @Test(arguments: ["2", "2other", "3probe", "41", "6", "0", "abc", ""])
    func `a WebSocket that sends something else between its probe and the move is closed, and the session goes on with polling`(
        message: String
    ) async throws {
        let fixture = try await Fixture()
        let session = try fixture.test.openEngineIO()
        let client = fixture.test.client(Self.webSocket(session))
        client.send("2probe")
        client.send(message, "5", "4\"lost\"")
        expect(client.end != nil && client.lines == ["3probe"] && fixture.received.take().isEmpty)
        try self.checkMove(session, fixture)
        try fixture.checkNeighbor()
        fixture.record.cancel()
    }

    @Test(arguments: [[], ["2probe"]] as [[String]])
    func `a WebSocket whose client doesn't move in time is closed, and the session goes on with polling`(packets: [String]) async throws {
        let fixture = try await Fixture()
        let session = try fixture.test.openEngineIO()
        let client = fixture.test.client(Self.webSocket(session))
        for packet in packets { client.send(packet) }
        fixture.test.clock.advance(by: .milliseconds(9_999))
        expectNil(client.end)
        fixture.test.clock.advance(by: .milliseconds(1))
        expect(client.end != nil)
        try self.checkMove(session, fixture)
        try fixture.checkNeighbor()
        fixture.record.cancel()
    }

    @Test func `a client may probe and disconnect again and again, and no message is lost`() async throws {
        let fixture = try await Fixture()
        let session = try fixture.test.openEngineIO()
        let spark = try #require(fixture.test.server.sparks.last)
        for number in 0..<50 {
            let client = fixture.test.client(Self.webSocket(session))
            client.send("2probe")
            try spark.write(number)
            try expectEqual(fixture.test.start(session, method: "POST", body: "4\(number)").status, 200)
            client.socket.close()
            expectEqual(client.lines, ["3probe"])
        }
        expectEqual(fixture.received.take(), (0..<50).map { "\($0)" })
        try expectEqual(fixture.test.start(session).body, Self.body((0..<50).map { "4\($0)" }, 4))
        try self.checkMove(session, fixture)
        try fixture.checkNeighbor()
        fixture.record.cancel()
    }

    @Test func `what a client sends in requests before it moves precedes what it sends on the WebSocket`() async throws {
        let fixture = try await Fixture()
        let session = try fixture.test.openEngineIO()
        func post(_ packets: String...) throws {
            try expectEqual(fixture.test.start(session, method: "POST", body: Self.body(packets, 4)).status, 200)
        }
        try post("41")
        let client = fixture.test.client(Self.webSocket(session))
        try post("42", "43")
        client.send("2probe")
        try post("44")
        client.send("5", "45")
        expectEqual(fixture.received.take(), (1...5).map { "\($0)" })
        try fixture.checkNeighbor()
        fixture.record.cancel()
    }

    @Test func `probes, the move and messages may arrive together, and each probe is answered`() async throws {
        let fixture = try await Fixture()
        let session = try fixture.test.openEngineIO()
        let client = fixture.test.client(Self.webSocket(session))
        client.socket.send((Array(repeating: "2probe", count: 1_000) + ["5", "41", "42"]).map { .text($0) })
        expectEqual(client.lines, Array(repeating: "3probe", count: 1_000))
        expectEqual(fixture.received.take(), ["1", "2"])
        try fixture.checkNeighbor()
        fixture.record.cancel()
    }

    @Test(arguments: [true, false])
    func `a session moves to a WebSocket without a probe, with what no poll has taken`(hasPoll: Bool) async throws {
        let fixture = try await Fixture()
        let session = try fixture.test.openEngineIO()
        let spark = try #require(fixture.test.server.sparks.last)
        let poll = hasPoll ? try fixture.test.start(session) : nil
        if !hasPoll { try spark.write(1) }
        let client = fixture.test.client(session.replacing("polling", with: "websocket"))
        if !hasPoll { try spark.write(2) }
        client.send("5", "4\"hello\"")
        // The client doesn't know yet that no message follows there.
        if let poll { expect(poll.isEnded && poll.status == 200 && poll.body == "6") }
        try spark.write(3)
        expect(client.lines == (hasPoll ? ["43"] : ["41", "42", "43"]) && client.end == nil)
        expectEqual(fixture.received.take(), ["\"hello\""])
        try expectEqual(fixture.test.start(session).status, 400)
        try fixture.checkNeighbor()
        fixture.record.cancel()
    }

    @Test func `other WebSockets of a session that is about to move are closed`() async throws {
        let fixture = try await Fixture()
        let session = try fixture.test.openEngineIO()
        let target = session.replacing("polling", with: "websocket")
        let first = fixture.test.client(target)
        first.send("2probe")
        for _ in 0..<300 { expect(fixture.test.client(target).end != nil) }
        first.send("5", "41")
        expect(fixture.received.take() == ["1"] && first.end == nil)
        try fixture.checkNeighbor()
        fixture.record.cancel()
    }

    @Test(arguments: [
        "abcdef", "%00", "..%2F..", "a%0D%0AX:%20y", "%FF", "%", "<b>", String(repeating: "a", count: 9_000), "unknown&sid={sid}",
        "{sid}%20", "{sid},{sid}",
    ])
    func `an ID that no session has is refused, and isn't repeated`(sid: String) async throws {
        let fixture = try await Fixture()
        let session = try fixture.test.openEngineIO()
        let spark = try #require(fixture.test.server.sparks.last)
        let id = sid.replacing("{sid}", with: spark.id)
        let target = session.replacing("&sid=\(spark.id)", with: "&sid=\(id)")
        for (method, body) in [("GET", ""), ("POST", "4\"lost\"")] {
            let response = try fixture.test.start(target, method: method, body: body)
            expect(response.status == 400 && !response.body.contains(id), "\(method) \(response.body)")
        }
        let refusal = fixture.test.client(Self.webSocket(target)).end?.transportError?.response
        expect(refusal?.head.status == 400 && refusal.map { String(decoding: $0.body, as: UTF8.self).contains(id) } == false)
        expect(fixture.received.take().isEmpty && fixture.test.server.sparks.count == 2)
        try self.checkMove(session, fixture)
        try fixture.checkNeighbor()
        fixture.record.cancel()
    }

    @Test(arguments: ["sid=unknown", "EIO=3", "transport=websocket"])
    func `of a field that is repeated in the query, the first one counts`(field: String) async throws {
        let fixture = try await Fixture()
        let session = try fixture.test.openEngineIO() + "&\(field)"
        try expect(fixture.test.start(session, method: "POST", body: "41").status == 200 && fixture.received.take() == ["1"])
        try fixture.checkNeighbor()
        fixture.record.cancel()
    }

    @Test(arguments: [
        ("[1]", ["1"]), ("[null,true]", ["null", "true"]), ("[{\"a\":[1]},\"2\"]", ["{\"a\":[1]}", "2"]), ("[\"\"]", [""]),
        ("[[[[]]]]", ["[[[]]]"]),
    ])
    func `elements of arrays that aren't strings are values, as in the original`(body: String, messages: [String]) async throws {
        let fixture = try await Fixture { $0.transformer = .sockjs }
        try expectEqual(fixture.test.start("/primus/0/s/xhr", method: "POST").body, "o\n")
        try expectEqual(fixture.test.start("/primus/0/s/xhr_send", method: "POST", body: body).status, 204)
        expectEqual(fixture.received.take(), messages)
        try fixture.checkNeighbor()
        fixture.record.cancel()
    }

    @Test(arguments: [
        "[", "[\"1\"", "[\"1\",]", "[\"\\ud8\"]", "\u{FEFF}[\"1\"]", "{\"a\":\"1\"}", "[1]2", String(repeating: "[", count: 100_000),
    ])
    func `a body other than an array is refused, and the session goes on`(body: String) async throws {
        let fixture = try await Fixture { $0.transformer = .sockjs }
        try expectEqual(fixture.test.start("/primus/0/s/xhr", method: "POST").body, "o\n")
        try expectEqual(fixture.test.start("/primus/0/s/xhr_send", method: "POST", body: body).status, 500)
        try expectEqual(fixture.test.start("/primus/0/s/xhr_send", method: "POST", body: "[\"1\"]").status, 204)
        expectEqual(fixture.received.take(), ["1"])
        try fixture.checkNeighbor()
        fixture.record.cancel()
    }
}
