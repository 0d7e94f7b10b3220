import PrimusClient
import RealtimeCoding
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// primus-emitter and primus-emit on a client.
@Suite(.timeLimit(.minutes(10))) struct EmitterTests {
    private struct Todo: Codable, Hashable, Sendable {
        var id: Int
    }

    private struct Unencodable: Encodable, Sendable {
        struct Refused: Error {}
        func encode(to encoder: any Encoder) throws { throw Refused() }
    }

    // MARK: Sending

    @Test func `an event is sent without waiting for an acknowledgement`() async throws {
        let fixture = try await PluginFixture.opened()
        try await fixture.primus.emitter.send("news", "a", 1, [Todo(id: 1)])
        try await fixture.primus.emitter.send("nothing")
        try await expectEqual(
            fixture.server.received(2),
            [
                #"{"type":0,"data":["news","a",1,[{"id":1}]]}"#, #"{"type":0,"data":["nothing"]}"#,
            ])
    }

    @Test func `an acknowledgement is the result of its call, in any order`() async throws {
        let fixture = try await PluginFixture.opened()
        let first = try await fixture.begin { try await $0.emitter.send("find", "todos", as: [Todo].self) }
        let second = try await fixture.begin { try await $0.emitter.send("count", as: Int.self) }
        expectEqual(
            fixture.server.received.all, [#"{"type":0,"data":["find","todos"],"id":1}"#, #"{"type":0,"data":["count"],"id":2}"#])
        fixture.server.send(#"{"id":2,"type":1,"data":[5]}"#, #"{"id":1,"type":1,"data":[[{"id":7}]]}"#)
        try await expectEqual(second.value, 5)
        try await expectEqual(first.value, [Todo(id: 7)])
    }

    @Test func `an acknowledgement can have several arguments or none`() async throws {
        let fixture = try await PluginFixture.opened()
        fixture.server.answer { text in
            text.contains("several") ? [#"{"id":1,"type":1,"data":[null,{"id":3},"more"]}"#] : [#"{"id":2,"type":1,"data":[]}"#]
        }
        let (error, todo) = try await fixture.primus.emitter.send("several", returning: String?.self, Todo.self)
        expect(error == nil && todo == Todo(id: 3))
        let none: Int? = try await fixture.primus.emitter.send("none")
        expectNil(none)
    }

    @Test func `an acknowledgement of another type is an error of the call`() async throws {
        let fixture = try await PluginFixture.opened()
        fixture.server.answer { text in
            let id = text.contains("one") ? 1 : 2
            return [#"{"id":\#(id),"type":1,"data":\#(id == 1 ? #"["secret"]"# : "[]")}"#]
        }
        for (event, problem) in [("one", "Argument 1 can't be decoded as Int"), ("two", "Argument 1 of type Int is missing")] {
            let error = await primusError { _ = try await fixture.primus.emitter.send(event, as: Int.self) }
            expectEqual(error?.code, .decodingFailed)
            expectEqual(error?.message.contains("The acknowledgement of \(event) can't be decoded. \(problem)"), true, "\(error as Any)")
            expectEqual(error?.message.contains("secret"), false)
        }
        expect(fixture.primus.isConnected)
    }

    @Test func `unknown, second and invalid acknowledgements don't affect their neighbors`() async throws {
        let fixture = try await PluginFixture.opened()
        let messages = fixture.primus.messages
        let call = try await fixture.begin { try await $0.emitter.send("a", as: Int.self) }
        fixture.server.send(
            #"{"id":2,"type":1,"data":[0]}"#, #"{"id":-1,"type":1,"data":[0]}"#, #"{"type":1,"data":[0]}"#,
            #"{"id":1.5,"type":1,"data":[0]}"#,
            #"{"id":1,"type":1,"data":[1]}"#, #"{"id":1,"type":1,"data":[2]}"#, #"{"type":0,"data":[5]}"#, #""text""#)
        try await expectEqual(call.value, 1)
        let iterator = messages.makeAsyncIterator()
        try await expectEqual(iterator.next()?.value, "text")
        expectEqual(fixture.errors.all.map(\.code), [.invalidMessage, .invalidMessage, .invalidMessage])
        expectEqual(fixture.errors.all.first?.message.contains("must have an \"id\""), true)
        expectEqual(fixture.primus.counters.messagesIgnored, 6)
    }

    @Test func `a call whose time is up ends, and its acknowledgement is ignored`() async throws {
        let fixture = try await PluginFixture.opened()
        let call = try await fixture.begin { try await $0.emitter.send("a", as: Int.self, within: .seconds(5)) }
        fixture.clock.advance(by: .seconds(5))
        let error = await primusError { _ = try await call.value }
        expectEqual(error?.code, .timedOut)
        expectEqual(error?.message.contains("Check that the server has the plugin primus-emitter"), true, "\(error as Any)")
        fixture.server.send(#"{"id":1,"type":1,"data":[1]}"#)
        let next = try await fixture.begin { try await $0.emitter.send("b", as: Int.self) }
        fixture.server.send(#"{"id":2,"type":1,"data":[2]}"#)
        try await expectEqual(next.value, 2)
    }

    @Test func `a cancelled call ends immediately`() async throws {
        let fixture = try await PluginFixture.opened()
        let call = try await fixture.begin { try await $0.emitter.send("a", as: Int.self) }
        call.cancel()
        let error = await primusError { _ = try await call.value }
        expectEqual(error?.code, .cancelled)
        fixture.server.send(#"{"id":1,"type":1,"data":[1]}"#)
        expect(fixture.primus.isConnected)
    }

    @Test(arguments: [false, true])
    func `calls end with their connection, and IDs continue on the next one`(isEndedByUser: Bool) async throws {
        let fixture = try await PluginFixture.opened()
        let calls = [
            try await fixture.begin { try await $0.emitter.send("a", as: Int.self) },
            try await fixture.begin { try await $0.request("b", as: Int.self) },
            try await fixture.begin { try await $0.emitter.send("c", as: Int.self) },
        ]
        if isEndedByUser {
            fixture.primus.end()
            fixture.primus.open()
            try await fixture.primus.opened()
        } else {
            try await fixture.reconnect()
        }
        for call in calls {
            let error = await primusError { _ = try await call.value }
            expectEqual(error?.code, (isEndedByUser ? .ended : .connectionLost))
        }
        let next = try await fixture.begin { try await $0.emitter.send("d", as: Int.self) }
        fixture.server.send(#"{"id":1,"type":1,"data":[1]}"#, #"{"id":3,"type":1,"data":[3]}"#)
        expectEqual(fixture.server.received.all.last, #"{"type":0,"data":["d"],"id":3}"#)
        try await expectEqual(next.value, 3)
    }

    @Test func `a call waits until the client is open`() async throws {
        let fixture = try await PluginFixture()
        let closed = await primusError { _ = try await fixture.primus.emitter.send("a", as: Int.self) }
        expectEqual(closed?.code, .notOpen)
        fixture.network.condition = .down
        fixture.primus.open()
        let late = await primusError { _ = try await fixture.primus.emitter.send("a", as: Int.self, within: .zero) }
        expectEqual(late?.code, .timedOut)
        let call = Task { [primus = fixture.primus] in try await primus.emitter.send("a", as: Int.self) }
        fixture.server.answer { _ in [#"{"id":1,"type":1,"data":[4]}"#] }
        fixture.network.condition = .up
        try await eventually("the retry") {
            fixture.primus.reconnectNow()
            return fixture.primus.isConnected
        }
        try await expectEqual(call.value, 4)
    }

    @Test func `an event without an acknowledgement waits in the queue`() async throws {
        let fixture = try await PluginFixture()
        fixture.primus.open()
        let sent = Task { [primus = fixture.primus] in try await primus.emitter.send("a", 1) }
        try await sent.value
        try await expectEqual(fixture.server.received(1), [#"{"type":0,"data":["a",1]}"#])
    }

    @Test func `an argument that can't be encoded is an error, and nothing is sent`() async throws {
        let fixture = try await PluginFixture.opened()
        let errors = [
            await primusError { try await fixture.primus.emitter.send("a", Unencodable()) },
            await primusError { _ = try await fixture.primus.emitter.send("a", Unencodable(), as: Int.self) },
            await primusError { try await fixture.primus.emits.send("a", Unencodable()) },
            await primusError { _ = try await fixture.primus.request(Unencodable(), as: Int.self) },
        ]
        expectEqual(errors.map { $0?.code }, [.encodingFailed, .encodingFailed, .encodingFailed, .encodingFailed])
        try await fixture.primus.write(0)
        try await expectEqual(fixture.server.received(1), ["0"])
    }

    @Test(arguments: ["data", "end", "error", "readyStateChange", "heartbeat", "incoming::data", "newListener", "subscribe"])
    func `a reserved name is refused`(name: String) async throws {
        let fixture = try await PluginFixture.opened()
        let errors = [
            await primusError { try await fixture.primus.emitter.send(name) },
            await primusError { _ = try await fixture.primus.emitter.send(name, as: Int.self) },
        ]
        expectEqual(errors.map { $0?.code }, [.reservedEvent, .reservedEvent])
        expectEqual(errors[0]?.message.contains("\"\(name)\""), true)
        let emit = await primusError { try await fixture.primus.emits.send(name == "subscribe" ? "open" : name) }
        expectEqual(emit?.code, .reservedEvent)
        expect(fixture.server.received.all.isEmpty)
    }

    @Test func `a plugin that is off is an error that says so`() async throws {
        let fixture = try await PluginFixture.opened { $0.plugins = [] }
        let errors = [
            await primusError { try await fixture.primus.emitter.send("a") },
            await primusError { _ = try await fixture.primus.emitter.send("a", as: Int.self) },
            await primusError { try await fixture.primus.emits.send("a") },
            await primusError { try await fixture.primus.channel("a").write(1) },
            await primusError { try await fixture.primus.channel("a").emitter.send("a") },
            await primusError { try await fixture.primus.substream("a").write(1) },
            await primusError { _ = try await fixture.primus.request(1, as: Int.self) },
        ]
        expect(errors.allSatisfy { $0?.code == .pluginOff })
        expectEqual(errors[0]?.message, "The plugin emitter is off. Add it to the configuration: plugins = [.emitter].")
        let messages = fixture.primus.channel("a").messages.makeAsyncIterator()
        await expectNil(messages.next())
        let all = fixture.primus.messages
        fixture.server.send(#"{"type":0,"data":["a"]}"#)
        let iterator = all.makeAsyncIterator()
        try await expectEqual(iterator.next()?.value["type"], 0, "without the plugin, its packets are messages")
    }

    // MARK: Receiving

    @Test func `events arrive at the consumers of their name, in order`() async throws {
        let fixture = try await PluginFixture.opened()
        let (news, all) = (fixture.primus.emitter.on("news").makeAsyncIterator(), fixture.primus.emitter.events.makeAsyncIterator())
        let recorded = EventRecorder<Int>()
        let registration = fixture.primus.emitter.on("news", on: PrimusCallbackExecutor { $0() }) { event in
            if let number = try? event.decode(Int.self) { recorded.record(number) }
        }
        fixture.server.send(
            #"{"type":0,"data":["news",1]}"#, #"{"type":0,"data":["other","x"]}"#, #"{"type":0,"data":["news",2]}"#,
            #"{"type":0,"data":["data",3]}"#)
        for number in [1, 2] {
            let event = try #require(await news.next())
            try expectEqual(event.decode(Int.self), number)
        }
        var names: [String] = []
        for _ in 0..<3 { if let event = await all.next() { names.append(event.name) } }
        expectEqual(names, ["news", "other", "news"], "the reserved event is ignored")
        expectEqual(recorded.all, [1, 2])
        withExtendedLifetime(registration) {}
    }

    @Test func `an event is acknowledged once`() async throws {
        let fixture = try await PluginFixture.opened()
        let questions = fixture.primus.emitter.on("q").makeAsyncIterator()
        fixture.server.send(#"{"type":0,"data":["q"],"id":9}"#, #"{"type":0,"data":["q"]}"#)
        let question = try #require(await questions.next())
        expect(question.expectsAcknowledgement)
        #expect(throws: PrimusError.self) { try question.acknowledge(Unencodable()) }
        try expect(question.acknowledge("yes", Todo(id: 1)))
        try expect(!question.acknowledge("no"))
        try await expectEqual(fixture.server.received(1), [#"{"id":9,"type":1,"data":["yes",{"id":1}]}"#])
        let statement = try #require(await questions.next())
        expect(!statement.expectsAcknowledgement)
        try expect(!statement.acknowledge(1))
    }

    @Test func `an event isn't acknowledged on another connection`() async throws {
        let fixture = try await PluginFixture.opened()
        let questions = fixture.primus.emitter.on("q").makeAsyncIterator()
        fixture.server.send(#"{"type":0,"data":["q"],"id":9}"#)
        let question = try #require(await questions.next())
        try await fixture.reconnect()
        try expect(!question.acknowledge(1))
        fixture.server.send(#"{"type":0,"data":["q"],"id":10}"#)
        try await expectEqual(questions.next()?.acknowledge(2), true, "the sequence continues")
        try await expectEqual(fixture.server.received(1), [#"{"id":10,"type":1,"data":[2]}"#])
    }

    @Test func `an argument of another type is an error of the consumer`() async throws {
        let fixture = try await PluginFixture.opened()
        let events = fixture.primus.emitter.on("a").makeAsyncIterator()
        fixture.server.send(#"{"type":0,"data":["a","text"]}"#)
        let event = try #require(await events.next())
        let error = #expect(throws: PrimusError.self) { try event.decode(Int.self) }
        expectEqual(error?.code, .decodingFailed)
        expectEqual(error?.message.hasPrefix("The arguments of a can't be decoded. Argument 1 can't be decoded as Int"), true)
        try expectEqual(event.values, ["text"])
    }

    @Test func `events of primus-emit arrive and are sent`() async throws {
        let fixture = try await PluginFixture.opened()
        let events = fixture.primus.emits.on("a").makeAsyncIterator()
        fixture.server.send(#"{"emit":["b",1]}"#, #"{"emit":["a",2]}"#)
        let event = try #require(await events.next())
        try expectEqual(event.decode(Int.self), 2)
        try expect(!event.acknowledge(1))
        try await fixture.primus.emits.send("c", "x")
        try await expectEqual(fixture.server.received(1), [#"{"emit":["c","x"]}"#])
    }

    /// An object with a member more.
    private static func stamped(_ value: PrimusValue) -> PrimusValue {
        value.object.map { .object(PrimusValue.Object($0.members + [(key: "stamp", value: 1)])) } ?? value
    }

    @Test func `packets of plugins pass the transforms`() async throws {
        let fixture = try await PluginFixture.opened {
            $0.transforms = [
                .incoming { value in value["hidden"] != true },
                .outgoing { value in
                    value = Self.stamped(value)
                    return true
                },
            ]
        }
        let events = fixture.primus.emitter.on("a").makeAsyncIterator()
        fixture.server.send(#"{"type":0,"data":["a",1],"hidden":true}"#, #"{"type":0,"data":["a",2],"id":4}"#)
        let event = try #require(await events.next())
        try expectEqual(event.decode(Int.self), 2)
        try await fixture.primus.emitter.send("b")
        try await expectEqual(fixture.server.received(1), [#"{"type":0,"data":["b"],"stamp":1}"#])
    }
    @Test func `calls and acknowledgements pass the transforms, and one that a transform discards fails`() async throws {
        let fixture = try await PluginFixture.opened {
            $0.transforms = [
                .outgoing { value in
                    if value["data"]?[0] == "veto" || value["id"] == 13 { return false }
                    value = Self.stamped(value)
                    return true
                }
            ]
        }
        let veto = await primusError { _ = try await fixture.primus.emitter.send("veto", as: Int.self) }
        expectEqual(veto?.code, .vetoed)
        let call = try await fixture.begin { try await $0.emitter.send("a", as: Int.self) }
        expectEqual(fixture.server.received.all, [#"{"type":0,"data":["a"],"id":2,"stamp":1}"#])
        let questions = fixture.primus.emitter.on("q").makeAsyncIterator()
        fixture.server.send(
            #"{"id":2,"type":1,"data":[5]}"#, #"{"type":0,"data":["q"],"id":13}"#, #"{"type":0,"data":["q"],"id":14}"#)
        try await expectEqual(call.value, 5)
        for _ in 0..<2 { try await expectEqual(questions.next()?.acknowledge(), true) }
        try await expectEqual(fixture.server.received(2).last, #"{"id":14,"type":1,"data":[],"stamp":1}"#)
    }

    @Test func `a call whose message is in a transform ends with its connection, and isn't sent on the next one`() async throws {
        let (entered, release) = (EventRecorder<Void>(), EventRecorder<Void>())
        let fixture = try await PluginFixture.opened {
            $0.transforms = [
                .outgoing { value in
                    guard value["type"] == 0 else { return true }
                    entered.record(())
                    try? await eventually("the release") { !release.all.isEmpty }
                    return true
                }
            ]
        }
        let call = Task { [primus = fixture.primus] in try await primus.emitter.send("a", as: Int.self) }
        try await eventually("the transform") { !entered.all.isEmpty }
        try await fixture.reconnect()
        let error = await primusError { _ = try await call.value }
        expectEqual(error?.code, .connectionLost)
        release.record(())
        try await fixture.primus.write("after")
        try await expectEqual(fixture.server.received(1), [#""after""#])
    }

    // MARK: Parsers

    /// JSON, as a parser of the application.
    private struct Own: PrimusParser {
        let name = "own"
        func encode(_ value: PrimusValue) throws -> TransportMessage {
            let text = try JSONValueEncoder().encodeToString(value)
            return .binary(Array("own:\(text)".utf8))
        }
        func decode(_ packet: TransportMessage) throws -> PrimusValue {
            try JSONValueDecoder().decode(PrimusValue.self, from: Array(packet.bytes.dropFirst(4)))
        }
    }

    @Test func `events have the encoding of a parser of the application`() async throws {
        let fixture = try await PluginFixture.opened {
            $0.customParser = Own()
            $0.plugins = [.emitter, .emit, .responder]
        }
        let events = fixture.primus.emitter.on("a").makeAsyncIterator()
        let call = try await fixture.begin { try await $0.emitter.send("find", "x", as: [Int].self) }
        expectEqual(fixture.server.received.all, [#"own:{"type":0,"data":["find","x"],"id":1}"#])
        fixture.server.send(.binary(Array(#"own:{"id":1,"type":1,"data":[[1,2]]}"#.utf8)))
        try await expectEqual(call.value, [1, 2])
        fixture.server.send(.binary(Array(#"own:{"type":0,"data":["a",1],"id":5}"#.utf8)))
        let event = try #require(await events.next())
        try expectEqual(event.decode(Int.self), 1)
        try expect(event.acknowledge(2))
        try await expectEqual(fixture.server.received(2).last, #"own:{"id":5,"type":1,"data":[2]}"#)
    }

    @Test func `channels with a parser of the application are refused`() async throws {
        let fixture = try await PluginFixture { $0.customParser = Own() }
        fixture.primus.open()
        guard case .closed(let error?) = fixture.primus.state else {
            Issue.record("the client wasn't refused")
            return
        }
        expectEqual(error.code, .invalidConfiguration)
        expect(error.message.contains("The plugins multiplex and substream need a parser of Primus."))
    }
}
