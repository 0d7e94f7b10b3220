import PrimusServer
import PrimusWire
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct SparkTests {
    // MARK: Packets

    @Test func `a client receives its ID, and messages in the order in which they are written`() async throws {
        let test = try await ServerUnderTest()
        let client = test.client("/primus?token=1&x=a%20b")
        let spark = try #require(test.server.sparks.first)
        expect(spark.isOpen && spark.query.map(\.value) == ["1", "a b"] && spark.id.utf8.count == 21)
        client.send(#""primus::id::""#)
        try spark.write(["a": 1])
        try spark.write("text")
        try test.server.write(0)
        try test.server.forEach { try $0.write([PrimusValue.null]) }
        expectEqual(client.lines, [#""primus::id::\#(spark.id)""#, #"{"a":1}"#, #""text""#, "0", "[null]"])
    }

    @Test func `callbacks receive clients, messages and ends in order`() async throws {
        let test = try await ServerUnderTest()
        let lines = EventRecorder<String>()
        let connections = test.server.onConnection { lines.record("+ \($0.request.target)") }
        let ends = test.server.onDisconnection { _, reason in lines.record("- \(reason == .peer(.normal, "") ? "normal" : "\(reason)")") }
        let messages = test.server.onMessage { message in
            lines.record((try? message.value["n"]?.int).map { "\($0)" } ?? "invalid")
            _ = try? message.spark.write(message.value)
        }
        let client = test.client()
        for number in 0..<100 { client.send(#"{"n":\#(number)}"#) }
        try await eventually { client.lines.count == 100 }
        expect(client.lines.first == #"{"n":0}"# && client.lines.last == #"{"n":99}"#)
        client.socket.close()
        // With tasks, each registration has an order of its own.
        try await eventually { lines.all.count == 102 }
        expectEqual(lines.all.filter { Int($0) != nil }, (0..<100).map { "\($0)" })
        expect(lines.all.contains("+ /primus") && lines.all.contains("- normal"))
        for observation in [connections, ends, messages] { observation.cancel() }
    }

    @Test func `what a client sends right before it disconnects is delivered, and then the disconnection`() async throws {
        let test = try await ServerUnderTest { $0.plugins = .all }
        let executor = HeldExecutor()
        let lines = EventRecorder<String>()
        let on = executor.executor
        @Sendable func record(_ name: String, _ spark: PrimusSpark) {
            lines.record("\(name) of \(spark.request.target), open \(spark.isOpen)")
        }
        let tokens = [
            test.server.onDisconnection(on: on) { _, _ in lines.record("end") },
            test.server.onMessage(on: on) { record("message \((try? $0.value.int) ?? -1)", $0.spark) },
            test.server.on("e", on: on) { record("event", $0.spark) },
            test.server.onSubstream("s", on: on) { record($1 == nil ? "stream end" : "stream", $0) },
            test.server.onChannel("c", on: on) { event in
                switch event {
                case .joined(let channel): record("joined", channel.spark)
                case .message(let channel, _): record("channel", channel.spark)
                case .left(let channel): record("left", channel.spark)
                }
            },
            test.server.onRequest(on: on) { spark, payload, respond in
                record("request", spark)
                respond(1)
            },
        ]
        let client = test.client("/primus?a=1")
        client.send("1", "2", #"{"type":0,"data":["e"]}"#, #"{"substream":"s","args":1}"#, #"{"substream":"s","args":"substream::end"}"#)
        client.send(#"[1,"x","c"]"#, #"[0,"x","c",5]"#, #"{"plugin":"primus-responder","requestId":"r","data":1}"#, "3")
        client.socket.close()
        expect(test.server.sparks.isEmpty && lines.all.isEmpty)
        executor.run()
        let names = [
            "message 1", "message 2", "event", "stream", "stream end", "joined", "channel", "request", "message 3", "left",
        ]
        expectEqual(lines.all, names.map { "\($0) of /primus?a=1, open false" } + ["end"])
        for token in tokens { token.cancel() }
    }

    @Test func `with one serial executor, the events of a client arrive in their order, in whatever order the callbacks are registered`()
        async throws
    {
        let test = try await ServerUnderTest { $0.plugins = .all }
        let executor = HeldExecutor()
        let lines = EventRecorder<String>()
        // Two executors for one queue.
        let tokens = [
            test.server.onDisconnection(on: executor.executor) { _, _ in lines.record("disconnected") },
            test.server.on(nil, on: executor.executor) { lines.record("any \($0.event)") },
            test.server.on("x", on: executor.executor) { _ in lines.record("x") },
            test.server.onMessage(on: executor.executor) { lines.record("message \((try? $0.value.string) ?? "")") },
            test.server.onConnection(on: executor.executor) { lines.record("connected \($0.request.target)") },
            test.server.onChannel("c", on: executor.executor) { event in
                if case .left = event { lines.record("left") }
            },
        ]
        // The queue is busy for as long as the test doesn't run it.
        for name in ["a", "b"] {
            let client = test.client("/primus?\(name)")
            client.send(#""hello""#, #"{"type":0,"data":["x"]}"#, #"{"type":0,"data":["y"]}"#, #"[1,"id","c"]"#, #""again""#)
            client.socket.close()
        }
        executor.run()
        let each = ["message hello", "any x", "x", "any y", "message again", "left", "disconnected"]
        expectEqual(lines.all, ["connected /primus?a"] + each + ["connected /primus?b"] + each)
        for token in tokens { token.cancel() }
    }

    /// An executor that runs closures in order when a test says so.
    final class HeldExecutor: Sendable {
        private let closures = EventRecorder<@Sendable () -> Void>()

        var executor: CallbackExecutor { CallbackExecutor { [closures] in closures.record($0) } }

        func run() {
            while true {
                let closures = self.closures.take()
                if closures.isEmpty { return }
                for closure in closures { closure() }
            }
        }
    }

    @Test func `a packet that isn't valid is an error of its own, and its neighbors arrive`() async throws {
        let test = try await ServerUnderTest()
        let values = EventRecorder<String>()
        let token = test.server.onMessage { message in
            do { values.record("\(try message.decode(as: Int.self))") } catch { values.record("error") }
        }
        let client = test.client()
        client.send("1", "not json", "2", #""primus::later::x""#, "3")
        try await eventually { values.all == ["1", "error", "2", "3"] }
        expectNil(client.end)
        token.cancel()
    }

    @Test(arguments: [PrimusParserKind.json, .ejson, .msgpack, .binary])
    func `each parser carries messages both ways`(parser: PrimusParserKind) async throws {
        let test = try await ServerUnderTest { $0.parser = parser }
        let values = EventRecorder<PrimusValue>()
        let token = test.server.onMessage { message in if let value = try? message.value { values.record(value) } }
        let client = test.client()
        let coding = try #require(PrimusCoding(parser))
        let sent: [PrimusValue] = [1, "text", ["a": [true, nil]], .bytes([1, 2])]
        for value in sent { client.socket.send([try coding.message(value, sendsBytes: false)]) }
        try await eventually { values.all.count == 4 }
        expectEqual(values.all, sent)
        expectEqual(test.server.sparks.count, 1)
        token.cancel()
    }

    struct Upper: PrimusParser {
        let name = "upper"
        func encode(_ value: PrimusValue) throws -> TransportMessage { .text("!" + (value.string ?? "")) }
        func decode(_ packet: TransportMessage) throws -> PrimusValue { .string(String(decoding: packet.bytes.dropFirst(), as: UTF8.self)) }
    }

    @Test func `a parser of the application carries messages, and those of Primus`() async throws {
        let test = try await ServerUnderTest { $0.customParser = Upper() }
        let client = test.client()
        client.send("!primus::id::")
        try test.server.write("a")
        expectEqual(client.lines, ["!primus::id::\(test.server.sparks[0].id)", "!a"])
        let spec = try await test.request("/primus/spec")
        expect(String(decoding: spec.body, as: UTF8.self).contains(#""parser":"custom""#))
    }

    @Test func `transforms change or drop messages in both directions`() async throws {
        let test = try await ServerUnderTest { configuration in
            configuration.transformIncoming = { value in value == 2 ? nil : ["in": value] }
            configuration.transformOutgoing = { value in value == "secret" ? nil : ["out": value] }
        }
        let values = EventRecorder<PrimusValue>()
        let token = test.server.onMessage { message in if let value = try? message.value { values.record(value) } }
        let client = test.client()
        client.send("1", "2", "3")
        try await eventually { values.all.count == 2 }
        expectEqual(values.all, [["in": 1], ["in": 3]])
        let spark = test.server.sparks[0]
        try expect(!spark.write("secret"))
        try expect(spark.write(5))
        expectEqual(client.lines, [#"{"out":5}"#])
        token.cancel()
    }

    // MARK: Ends

    @Test func `an ended client receives the close message, and one that may reconnect doesn't`() async throws {
        let test = try await ServerUnderTest()
        let clients = (0..<3).map { _ in test.client() }
        let sparks = test.server.sparks
        sparks[0].end()
        sparks[1].end(reconnects: true)
        try sparks[2].end(["bye": 1])
        expect(clients[0].lines == [#""primus::server::close""#] && clients[1].lines.isEmpty)
        expectEqual(clients[2].lines, [#"{"bye":1}"#, #""primus::server::close""#])
        for client in clients { expectEqual(client.end, .peer(.normal, "")) }
        expect(test.server.sparks.isEmpty && !sparks[0].isOpen)
        try expect(!sparks[0].write(1))
        sparks[0].end()
    }

    @Test func `a server that stops lets clients reconnect, and one that ends all doesn't`() async throws {
        let test = try await ServerUnderTest()
        let first = test.client()
        test.server.endAll()
        expect(first.lines == [#""primus::server::close""#] && first.end == .peer(.normal, ""))
        let second = test.client()
        await test.server.stop()
        expect(second.lines.isEmpty && second.end == .peer(.normal, ""))
    }

    // MARK: Heartbeat

    @Test func `a client that answers pings stays, and a silent one is disconnected at the next ping`() async throws {
        let test = try await ServerUnderTest { $0.pingInterval = .seconds(30) }
        let (answering, silent) = (test.client(), test.client())
        test.clock.advance(by: .seconds(30))
        let ping = try #require(answering.lines.first)
        expect(ping == #""primus::ping::1700000030000""# && silent.lines == [ping])
        answering.send(ping.replacing("ping", with: "pong"))
        // Messages don't count as an answer.
        silent.send("1")
        test.clock.advance(by: .seconds(30))
        expect(silent.end == .peer(.normal, "") && answering.end == nil && answering.lines.count == 2)
    }

    @Test func `a ping frame of a client counts as life`() async throws {
        let test = try await ServerUnderTest()
        let client = test.client()
        test.clock.advance(by: .seconds(30))
        client.socket.send([TransportMessage(.ping, [])])
        test.clock.advance(by: .seconds(30))
        expect(client.end == nil && client.lines.filter { $0.contains("ping::") }.count == 2)
    }

    @Test func `a server of version 6 answers pings, and disconnects after silence`() async throws {
        let test = try await ServerUnderTest { $0.version = .v6 }
        let client = test.client()
        client.send(#""primus::ping::5""#)
        expectEqual(client.lines, [#""primus::pong::5""#])
        test.clock.advance(by: .seconds(34))
        client.send("1")
        test.clock.advance(by: .seconds(34))
        expectNil(client.end)
        test.clock.advance(by: .seconds(1))
        expectEqual(client.end, .peer(.normal, ""))
    }

    @Test func `after a standstill, a client that hasn't answered a ping is asked again, and disconnected without an answer`() async throws
    {
        for answers in [false, true] {
            let test = try await ServerUnderTest()
            let client = test.client()
            test.clock.advance(by: .seconds(30))
            expectEqual(client.lines.count, 1)
            test.clock.standStill(for: .seconds(100))
            expect(client.end == nil && client.lines.count == 2, "\(client.lines)")
            test.clock.advance(by: .seconds(29))
            expectNil(client.end)
            if answers { client.send(try #require(client.lines.last).replacing("ping", with: "pong")) }
            test.clock.advance(by: .seconds(1))
            expectEqual(client.end, answers ? nil : .peer(.normal, ""))
        }
        // A busy process that stands still again finds a lost client.
        let test = try await ServerUnderTest()
        let client = test.client()
        test.clock.advance(by: .seconds(30))
        for _ in 0..<2 { test.clock.standStill(for: .seconds(100)) }
        expectEqual(client.end, .peer(.normal, ""))
    }

    @Test func `after a standstill, a server of version 6 counts the silence of its clients from then`() async throws {
        let test = try await ServerUnderTest { $0.version = .v6 }
        let (silent, sending) = (test.client(), test.client())
        test.clock.standStill(for: .seconds(100))
        test.clock.advance(by: .seconds(34))
        expect(silent.end == nil && sending.end == nil)
        sending.send("1")
        test.clock.advance(by: .seconds(1))
        expect(silent.end == .peer(.normal, "") && sending.end == nil)
        test.clock.advance(by: .seconds(33))
        expectNil(sending.end)
        test.clock.advance(by: .seconds(1))
        expectEqual(sending.end, .peer(.normal, ""))
        let busy = test.client()
        for _ in 0..<2 { test.clock.standStill(for: .seconds(100)) }
        expectEqual(busy.end, .peer(.normal, ""))
    }

    @Test func `a server without pings sends none`() async throws {
        let test = try await ServerUnderTest { $0.pingInterval = nil }
        let client = test.client()
        test.clock.advance(by: .seconds(3600))
        expect(client.lines.isEmpty && client.end == nil)
    }

    // MARK: Faults

    @Test func `faults silence, delay and refuse, and stop pings`() async throws {
        let test = try await ServerUnderTest()
        let client = test.client()
        test.server.faults.isSilent = true
        client.send(#""primus::id::""#)
        try test.server.write(1)
        test.clock.advance(by: .seconds(90))
        expect(client.lines.isEmpty && client.end == nil)
        test.server.faults = PrimusServerFaults()
        test.server.faults.delay = .seconds(1)
        try test.server.write(2)
        expect(client.lines.isEmpty)
        test.clock.advance(by: .seconds(1))
        expectEqual(client.lines, ["2"])
        test.server.faults = PrimusServerFaults()
        test.server.faults.stopsPings = true
        test.clock.advance(by: .seconds(300))
        expect(client.lines == ["2"] && client.end == nil)
        test.server.faults.refusalStatus = 418
        let refused = test.client()
        expectEqual(refused.end.map { "\($0)".contains("418") }, true, "\(refused.end as Any)")
        test.server.faults.specStatus = 500
        try await expectEqual(test.request("/primus/spec").head.status, 500)
        test.server.sendRaw(.text("garbage"), to: test.server.sparks[0].id)
        test.server.drop(test.server.sparks[0].id)
        expect(client.lines.last == "garbage" && client.end != nil && test.server.sparks.isEmpty)
    }

    @Test func `a client that becomes silent while pings are stopped is disconnected after that`() async throws {
        let test = try await ServerUnderTest { $0.version = .v6 }
        let client = test.client()
        test.server.faults.stopsPings = true
        test.clock.advance(by: .seconds(300))
        expectNil(client.end)
        test.server.faults = PrimusServerFaults()
        test.clock.advance(by: .seconds(35))
        expect(client.end == .peer(.normal, "") && test.server.sparks.isEmpty)
    }

    @Test func `clients that wait for the decision of the application count when it is made`() async throws {
        let (stream, decide) = AsyncStream.makeStream(of: Void.self)
        let waiting = EventRecorder<Void>()
        let test = try await ServerUnderTest {
            $0.sparkLimit = 2
            $0.authorize = { _ in
                waiting.record(())
                for await _ in stream {}
                return .accept
            }
        }
        let clients = (0..<5).map { _ in test.client() }
        try await eventually { waiting.all.count == 5 }
        decide.finish()
        try await eventually { clients.count { $0.end != nil } == 3 && test.server.sparks.count == 2 }
        expectEqual(clients.count { $0.end.map { "\($0)".contains("503") } ?? false }, 3)
    }

    @Test func `a client whose WebSocket was accepted has a place until there is no connection`() async throws {
        let test = try await ServerUnderTest { $0.sparkLimit = 1 }
        let acceptor = try test.acceptor(of: "/primus")
        let rejected = test.client()
        expectEqual(rejected.end.map { "\($0)".contains("503") }, true)
        acceptor.abandoned()
        let client = test.client()
        expect(client.end == nil && test.server.sparks.count == 1)
    }

    @Test func `a path without a slash at the beginning gets one`() {
        var configuration = PrimusServerConfiguration()
        configuration.pathname = "realtime"
        expectEqual(configuration.pathname, "/realtime")
    }

    @Test func `events report what happens`() async throws {
        let test = try await ServerUnderTest { $0.sparkLimit = 1 }
        let events = test.server.events
        let client = test.client()
        let id = test.server.sparks[0].id
        client.send("1")
        let other = test.client()
        expectEqual(other.end.map { "\($0)".contains("503") }, true)
        client.socket.close()
        await expectEqual(
            events.pending(),
            [
                .connected(id: id), .received(id: id, .text("1")), .rejected(status: 503), .disconnected(id: id, .peer(.normal, "")),
            ])
    }
}
