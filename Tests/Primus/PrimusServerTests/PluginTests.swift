import PrimusServer
import PrimusWire
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct PluginTests {
    private static func all(_ configuration: inout PrimusServerConfiguration) { configuration.plugins = .all }

    @Test func `an event of the emitter arrives, and its acknowledgement returns`() async throws {
        let test = try await ServerUnderTest(Self.all)
        let names = EventRecorder<String>()
        let token = test.server.on("add") { call in
            names.record("\(call.event) \(call.expectsAcknowledgement)")
            guard let (a, b) = try? call.arguments.decode(Int.self, Int.self) else { return }
            try? call.acknowledge(a + b, "x")
        }
        let client = test.client()
        client.send(#"{"type":0,"data":["add",1,2],"id":7}"#, #"{"type":0,"data":["other"]}"#, #"{"type":0,"data":["add",5,6]}"#)
        try await eventually { names.all.count == 2 }
        expectEqual(names.all, ["add true", "add false"])
        expectEqual(client.lines, [#"{"id":7,"type":1,"data":[3,"x"]}"#])
        token.cancel()
    }

    @Test func `the server sends events, and waits for acknowledgements`() async throws {
        let test = try await ServerUnderTest(Self.all)
        let client = test.client()
        let spark = test.server.sparks[0]
        try spark.send("news", 1, "x")
        let call = Task { try await spark.call("ask", "?").decode(Int.self) }
        try await eventually { client.lines.count == 2 }
        expectEqual(client.lines, [#"{"type":0,"data":["news",1,"x"]}"#, #"{"type":0,"data":["ask","?"],"id":1}"#])
        client.send(#"{"id":9,"type":1,"data":[0]}"#, #"{"id":1,"type":1,"data":[42]}"#, #"{"id":1,"type":1,"data":[43]}"#)
        try await expectEqual(call.value, 42)
        expectNil(client.end)
    }

    @Test func `a call ends with the connection, with its time, and with its task`() async throws {
        let test = try await ServerUnderTest(Self.all)
        let client = test.client()
        let spark = test.server.sparks[0]
        let late = Task { try await spark.call("late", within: .seconds(5)) }
        try await eventually { client.lines.count == 1 }
        test.clock.advance(by: .seconds(5))
        await #expect(throws: PrimusServerError.timedOut(after: .seconds(5))) { try await late.value }
        let cancelled = Task { try await spark.call("cancelled") }
        try await eventually { client.lines.count == 2 }
        cancelled.cancel()
        await #expect(throws: PrimusServerError.cancelled) { try await cancelled.value }
        let lost = Task { try await spark.call("lost") }
        try await eventually { client.lines.count == 3 }
        client.socket.close()
        await #expect(throws: PrimusServerError.disconnected) { try await lost.value }
        await #expect(throws: PrimusServerError.disconnected) { try await spark.call("gone") }
        await #expect(throws: PrimusServerError.disconnected) { try await spark.request(1, as: Int.self) }
    }

    @Test func `a plugin that is off and a reserved event are errors`() async throws {
        let test = try await ServerUnderTest()
        let client = test.client()
        let spark = test.server.sparks[0]
        #expect(throws: PrimusServerError.pluginDisabled("emitter")) { try spark.send("x") }
        #expect(throws: PrimusServerError.pluginDisabled("emit")) { try spark.emit("x") }
        #expect(throws: PrimusServerError.pluginDisabled("substream")) { try spark.write(1, toSubstream: "x") }
        await #expect(throws: PrimusServerError.pluginDisabled("responder")) { try await spark.request(1, as: Int.self) }
        // Without plugins, a packet is a message.
        let messages = EventRecorder<PrimusValue>()
        let token = test.server.onMessage { message in if let value = try? message.value { messages.record(value) } }
        client.send(#"{"type":0,"data":["x"]}"#)
        try await eventually { messages.all.count == 1 }
        token.cancel()
        let other = try await ServerUnderTest(Self.all)
        let connected = other.client()
        for name in ["open", "incoming::x", "reconnect"] {
            #expect(throws: PrimusServerError.self) { try other.server.sparks[0].send(name) }
        }
        expectNil(connected.end)
    }

    @Test func `an event under a reserved name is dropped, and reported`() async throws {
        let test = try await ServerUnderTest(Self.all)
        let events = test.server.events
        let client = test.client()
        client.send(#"{"type":0,"data":["end"]}"#, #"{"emit":[5]}"#)
        let errors = await events.pending().compactMap { if case .error(_, let message) = $0 { message } else { nil } }
        expect(errors.count == 2 && errors[0].contains("reserves the event name \"end\""), "\(errors)")
        expectNil(client.end)
    }

    @Test func `events of emit travel both ways`() async throws {
        let test = try await ServerUnderTest(Self.all)
        let arguments = EventRecorder<[PrimusValue]>()
        let token = test.server.on(nil) { call in if let values = try? call.arguments.values { arguments.record(values) } }
        let client = test.client()
        client.send(#"{"emit":["news",1,{"a":2}]}"#)
        try await eventually { arguments.all == [[1, ["a": 2]]] }
        try test.server.sparks[0].emit("x", 1.5)
        expectEqual(client.lines, [#"{"emit":["x",1.5]}"#])
        token.cancel()
    }

    @Test func `a client joins, uses and leaves channels`() async throws {
        let test = try await ServerUnderTest(Self.all)
        let lines = EventRecorder<String>()
        let token = test.server.onChannel("news") { event in
            switch event {
            case .joined(let channel):
                lines.record("joined \(channel.name)")
                try? channel.write(["hello": 1])
                try? channel.send("greet", "x")
            case .message(let channel, let payload):
                lines.record("message \((try? payload.value.int) ?? -1)")
                channel.end()
            case .left: lines.record("left")
            }
        }
        let events = test.server.on("ask") { call in try? call.acknowledge(call.channel?.name ?? "none") }
        let client = test.client()
        client.send(#"[1,"id1","news"]"#, #"[1,"id2","other"]"#, #"[0,"id1","news",{"type":0,"data":["ask"],"id":3}]"#)
        try await eventually { client.lines.count == 3 }
        client.send(#"[0,"id1","news",5]"#, #"[0,"unknown","news",6]"#)
        // The server's end of a membership needs no answer of the client.
        try await eventually { lines.all.count == 3 && client.lines.count == 4 }
        expectEqual(lines.all, ["joined news", "message 5", "left"])
        expectEqual(
            Set(client.lines),
            [
                #"[0,"id1","news",{"hello":1}]"#, #"[0,"id1","news",{"type":0,"data":["greet","x"]}]"#,
                #"[0,"id1","news",{"id":3,"type":1,"data":["news"]}]"#, #"[2,"id1","news"]"#,
            ])
        client.send(#"[0,"id1","news",7]"#, #"[2,"id1","news"]"#, #"[1,"id1","news"]"#)
        try await eventually { lines.all.count == 4 }
        expectEqual(lines.all.last, "joined news")
        token.cancel()
        events.cancel()
    }

    @Test func `a server waits for an acknowledgement on a channel, until the client answers, leaves or disconnects`() async throws {
        let test = try await ServerUnderTest(Self.all)
        let channels = EventRecorder<PrimusSparkChannel>()
        let messages = EventRecorder<PrimusServerPayload>()
        let token = test.server.onChannel("a", on: CallbackExecutor { $0() }) { event in
            switch event {
            case .joined(let channel): channels.record(channel)
            case .message(_, let payload): messages.record(payload)
            case .left: break
            }
        }
        let client = test.client()
        client.send(#"[1,"1","a"]"#, #"[1,"2","a"]"#)
        let (first, second) = (try #require(channels.all.first), try #require(channels.all.last))
        let sum = Task { try await first.call("add", 1, 2) }
        try await eventually { client.lines == [#"[0,"1","a",{"type":0,"data":["add",1,2],"id":1}]"#] }
        let failing = [first, first, second].map { channel in Task { try await channel.call("later") } }
        try await eventually { client.lines.count == 4 }
        client.send(#"[0,"1","a",{"id":1,"type":1,"data":[3]}]"#)
        let total = try await sum.value.decode(Int.self)
        expectEqual(total, 3)
        // Once.
        let events = test.server.events
        client.send(#"[0,"1","a",{"id":1,"type":1,"data":[4]}]"#)
        await expect(
            events.pending().contains { if case .error(_, let message) = $0 { message.contains("no caller waits") } else { false } })
        client.send(#"[2,"1","a"]"#)
        for call in failing[..<2] { await #expect(throws: PrimusServerError.leftChannel("a")) { try await call.value } }
        await #expect(throws: PrimusServerError.leftChannel("a")) { try await first.call("later") }
        client.socket.close()
        await #expect(throws: PrimusServerError.disconnected) { try await failing[2].value }
        await #expect(throws: PrimusServerError.disconnected) { try await second.call("later") }
        expect(messages.all.isEmpty)
        token.cancel()
    }

    @Test func `a call on a channel ends at its limit, and when the server ends the channel`() async throws {
        let test = try await ServerUnderTest(Self.all)
        let channels = EventRecorder<PrimusSparkChannel>()
        let token = test.server.onChannel("a", on: CallbackExecutor { $0() }) {
            if case .joined(let channel) = $0 { channels.record(channel) }
        }
        let client = test.client()
        client.send(#"[1,"1","a"]"#)
        let channel = try #require(channels.all.first)
        let late = Task { try await channel.call("late", within: .seconds(2)) }
        try await eventually { client.lines.count == 1 }
        test.clock.advance(by: .seconds(2))
        await #expect(throws: PrimusServerError.timedOut(after: .seconds(2))) { try await late.value }
        let ended = Task { try await channel.call("ended") }
        try await eventually { client.lines.count == 2 }
        channel.end()
        await #expect(throws: PrimusServerError.leftChannel("a")) { try await ended.value }
        token.cancel()
    }

    @Test func `a client that disconnects leaves its channels`() async throws {
        let test = try await ServerUnderTest { ($0.plugins, $0.channelLimit) = ([.multiplex], 1) }
        let lines = EventRecorder<String>()
        let token = test.server.onChannel("a") { event in
            if case .joined = event { lines.record("joined") }
            if case .left = event { lines.record("left") }
        }
        let client = test.client()
        client.send(#"[1,"1","a"]"#, #"[1,"2","a"]"#)
        try await eventually { lines.all == ["joined"] }
        client.socket.close()
        try await eventually { lines.all == ["joined", "left"] }
        token.cancel()
    }

    @Test func `a client doesn't join a channel with a long name or ID, and goes on`() async throws {
        let test = try await ServerUnderTest { ($0.plugins, $0.channelNameLimit) = ([.multiplex], 8) }
        let lines = EventRecorder<String>()
        let events = test.server.events
        let tokens = ["a", "123456789"].map { name in
            test.server.onChannel(name) { event in if case .joined(let channel) = event { lines.record(channel.name) } }
        }
        let client = test.client()
        client.send(#"[1,"1","123456789"]"#, #"[1,"123456789","a"]"#, #"[1,"12345678","a"]"#)
        try await eventually { lines.all == ["a"] }
        let problems = await events.pending().compactMap { if case .error(_, let message) = $0 { message } else { nil } }
        expectEqual(
            problems,
            ["name", "ID"].map {
                "A packet of the plugin multiplex was ignored, because of a limit: the \($0) of a channel has 9 bytes, and may have 8."
            })
        expectNil(client.end)
        for token in tokens { token.cancel() }
    }

    @Test func `packets without a meaning, and joins over the limit, are ignored by the thousand`() async throws {
        let test = try await ServerUnderTest { ($0.plugins, $0.channelLimit) = (.all, 100) }
        let joined = EventRecorder<String>()
        let tokens = [
            test.server.onChannel("a", on: CallbackExecutor { $0() }) {
                if case .joined(let channel) = $0 { joined.record(channel.spark.id) }
            },
            test.server.onRequest(on: CallbackExecutor { $0() }) { _, payload, respond in respond(((try? payload.value.int) ?? 0) * 2) },
        ]
        let (flooding, other) = (test.client(), test.client())
        for round in 0..<500 {
            flooding.send(
                #"[1,"\#(round)","a"]"#, #"[1,"\#(round)","b"]"#, #"[1,"\#(round)"]"#, #"[0,"x\#(round)","a",1]"#, #"[2,"x\#(round)","a"]"#,
                #"[9,"1","a"]"#, #"{"id":\#(round),"type":1,"data":[]}"#, #"{"type":0,"data":[]}"#, #"{"type":7,"data":["a"]}"#,
                #"{"substream":"s\#(round)","args":"substream::end"}"#, #"{"plugin":"primus-responder","responseId":"\#(round)","data":1}"#,
                #"{"plugin":"primus-responder"}"#)
        }
        expect(joined.all.count == 100 && Set(joined.all) == [test.server.sparks[0].id], "\(joined.all.count)")
        for (client, number) in [(other, 21), (flooding, 22)] {
            client.send(#"{"plugin":"primus-responder","requestId":"last","data":\#(number)}"#)
            expectEqual(client.lines.last, #"{"plugin":"primus-responder","responseId":"last","data":\#(2 * number)}"#)
            expectNil(client.end)
        }
        for token in tokens { token.cancel() }
    }

    @Test func `streams carry messages both ways, and end`() async throws {
        let test = try await ServerUnderTest(Self.all)
        let lines = EventRecorder<String>()
        let token = test.server.onSubstream("sub") { spark, payload in
            lines.record(payload.map { "\((try? $0.value.int) ?? -1)" } ?? "end")
            if let payload, let value = try? payload.value { try? spark.write(value, toSubstream: "sub") }
        }
        let client = test.client()
        client.send(#"{"substream":"sub","args":5}"#, #"{"substream":"x","args":6}"#, #"{"substream":"sub","args":"substream::end"}"#)
        try await eventually { lines.all == ["5", "end"] }
        test.server.sparks[0].endSubstream("sub")
        expectEqual(client.lines, [#"{"substream":"sub","args":5}"#, #"{"substream":"sub","args":"substream::end"}"#])
        token.cancel()
    }

    @Test func `requests are answered in both directions`() async throws {
        let test = try await ServerUnderTest(Self.all)
        let token = test.server.onRequest { _, payload, respond in respond(((try? payload.value.int) ?? 0) * 2) }
        let client = test.client()
        client.send(#"{"plugin":"primus-responder","requestId":"r1","data":21}"#)
        try await eventually { client.lines.count == 1 }
        expectEqual(client.lines, [#"{"plugin":"primus-responder","responseId":"r1","data":42}"#])
        let spark = test.server.sparks[0]
        let answer = Task { try await spark.request(["q": 1], as: String.self) }
        try await eventually { client.lines.count == 2 }
        let request = try PrimusCoding.json.value(Array(client.lines[1].utf8))
        let id = try #require(request["requestId"]?.string)
        client.send(#"{"plugin":"primus-responder","responseId":"\#(id)","data":"yes"}"#)
        try await expectEqual(answer.value, "yes")
        token.cancel()
    }

    @Test(arguments: [PrimusParserKind.ejson, .msgpack, .binary])
    func `plugins work with each parser`(parser: PrimusParserKind) async throws {
        let test = try await ServerUnderTest { ($0.plugins, $0.parser) = (.all, parser) }
        let coding = try #require(PrimusCoding(parser))
        let token = test.server.on("add") { call in
            if let (a, b) = try? call.arguments.decode(Int.self, Int.self) { try? call.acknowledge(a + b) }
        }
        let answers = EventRecorder<TransportMessage>()
        let socket = RawSocket(test.network.transports().webSocket, test.address, "/primus") { answers.record($0) }
        let arguments = try PrimusArguments("add", 1, 2, in: coding)
        socket.send([try PrimusPluginWriter(coding).message(.emitter(.event(name: "add", arguments, id: 4)))])
        try await eventually { answers.all.count == 1 }
        let value = try coding.value(of: answers.all[0])
        expect(value["id"] == 4 && value["type"] == 1 && value["data"] == [3])
        token.cancel()
    }
}
