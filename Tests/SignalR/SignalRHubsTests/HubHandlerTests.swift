import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import TestSupport
import SignalRHubs
import SignalRWire
import Testing

/// The calls of the server, and the handlers of the application.
@Suite(.timeLimit(.minutes(10))) struct HubHandlerTests {
    private static func call(_ target: String, _ arguments: String = "[]", id: String? = nil) -> String {
        #"{"type":1,\#(id.map { #""invocationId":"\#($0)","# } ?? "")"target":"\#(target)","arguments":\#(arguments)}"#
    }

    @Test func `several handlers of a method are called in the order of their registration`() async throws {
        let hub = try await HubFixture.connected()
        let calls = EventRecorder<String>()
        hub.client.on("say") { (a: String) in calls.record("first \(a)") }
        hub.client.on("say") { (a: String) in calls.record("second \(a)") }
        hub.client.on("other") { calls.record("other") }
        hub.server.send(Self.call("say", #"["a"]"#), Self.call("other"), Self.call("say", #"["b"]"#))
        try await eventually { calls.all.count == 5 }
        expectEqual(calls.all, ["first a", "second a", "other", "first b", "second b"])
    }

    @Test func `a handler that waits for a blocked main actor is logged once`() async throws {
        let hub = try await HubFixture.connected { $0.serverTimeout = .seconds(100_000) }
        let calls = EventRecorder<String>()
        hub.client.on("Receive") { @MainActor (text: String) in calls.record(text) }
        let main = try await BlockedMainActor()
        hub.server.send(Self.call("Receive", #"["a"]"#))
        let warnings = { hub.log.all.filter { $0.contains("main actor") } }
        // The handler is called in a task of the client.
        try await eventually {
            hub.clock.advance(by: .seconds(1))
            return !warnings().isEmpty
        }
        hub.clock.advance(by: .seconds(100))
        expect(warnings().count == 1 && warnings().allSatisfy { $0.hasPrefix("The handler of Receive hasn't returned for 5 s") })
        expect(calls.all.isEmpty)
        main.release()
        try await eventually { calls.all == ["a"] }
    }

    @Test func `handlers remain across connections`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .delays([.seconds(1)]) }
        let calls = EventRecorder<Int>()
        hub.client.on("count") { (a: Int) in calls.record(a) }
        hub.server.send(Self.call("count", "[1]"))
        hub.network.cut()
        hub.clock.advance(by: .seconds(1))
        hub.server.send(Self.call("count", "[2]"))
        try await eventually { calls.all == [1, 2] }
        hub.client.stop()
        try await hub.client.start()
        hub.server.send(Self.call("count", "[3]"))
        try await eventually { calls.all == [1, 2, 3] }
    }

    @Test func `a handler may call the server and wait for the result`() async throws {
        var script = ScriptedHub.Script()
        script.answer = { message in
            guard message["target"] == "double", let id = message["invocationId"]?.string else { return [] }
            return [#"{"type":3,"invocationId":"\#(id)","result":\#(2 * (message["arguments"]?[0]?.int ?? 0))}"#]
        }
        let hub = try await HubFixture.connected(script)
        let results = EventRecorder<Int>()
        hub.client.on("start") { [weak client = hub.client] (a: Int) in
            if let client { results.record(try await client.invoke("double", a, as: Int.self)) }
        }
        hub.server.send(Self.call("start", "[1]"), Self.call("start", "[2]"))
        try await eventually { results.all == [2, 4] }
    }

    @Test func `a slow handler delays neither answers nor the server timeout`() async throws {
        let hub = try await HubFixture.connected()
        let gate = Waiter<Void>()
        let calls = EventRecorder<Int>()
        hub.client.on("slow") { (a: Int) in
            calls.record(a)
            await gate.value()
        }
        hub.server.send(Self.call("slow", "[1]"))
        try await eventually { calls.all.count == 1 }
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        hub.clock.advance(by: .seconds(20))
        hub.server.send(#"{"type":3,"invocationId":"1","result":5}"#)
        try await expectEqual(call.value, 5)
        hub.clock.advance(by: .seconds(20))
        expect(hub.isConnected)
        gate.fulfill(())?.resume()
    }

    @Test func `a full queue of handlers pauses reading, but not while a call waits`() async throws {
        let hub = try await HubFixture.connected { $0.handlerBuffer = HubBufferLimit(count: 4) }
        let gate = Waiter<Void>()
        let calls = EventRecorder<Int>()
        hub.client.on("slow") { (a: Int) in
            calls.record(a)
            if a == 0 { await gate.value() }
        }
        hub.server.send(Self.call("slow", "[0]"))
        try await eventually { calls.all.count == 1 }
        for number in 1...20 { hub.server.send(Self.call("slow", "[\(number)]")) }
        let bytes = hub.client.counters.bytesReceived
        for number in 21...40 { hub.server.send(Self.call("slow", "[\(number)]")) }
        expectEqual(hub.client.counters.bytesReceived, bytes)
        // The result is behind the calls that the handler hasn't handled.
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        hub.server.send(#"{"type":3,"invocationId":"1","result":5}"#)
        try await expectEqual(call.value, 5)
        gate.fulfill(())?.resume()
        try await eventually { calls.all == Array(0...40) }
    }

    @Test func `the queue of handlers is limited by bytes as well`() async throws {
        let hub = try await HubFixture.connected { $0.handlerBuffer = HubBufferLimit(bytes: 1000) }
        let gate = Waiter<Void>()
        let calls = EventRecorder<Int>()
        hub.client.on("slow") { (a: String) in
            calls.record(a.utf8.count)
            await gate.value()
        }
        hub.server.send(Self.call("slow", #"["x"]"#))
        try await eventually { calls.all.count == 1 }
        let text = String(repeating: "x", count: 600)
        for _ in 1...10 { hub.server.send(Self.call("slow", #"["\#(text)"]"#)) }
        expectEqual(hub.client.counters.messagesReceived, 4)
        gate.fulfill(())?.resume()
    }

    @Test func `a removed handler isn't called`() async throws {
        let hub = try await HubFixture.connected()
        let calls = EventRecorder<String>()
        let first = hub.client.on("say") { calls.record("first") }
        hub.client.on("say") { calls.record("second") }
        first.cancel()
        first.cancel()
        hub.server.send(Self.call("say"))
        try await eventually { calls.all == ["second"] }
        hub.client.off("say")
        hub.client.on("end") { calls.record("end") }
        hub.server.send(Self.call("say"), Self.call("end"))
        try await eventually { calls.all == ["second", "end"] }
    }

    @Test func `names of methods are compared by bytes`() async throws {
        let hub = try await HubFixture.connected()
        let calls = EventRecorder<String>()
        hub.client.on("caf\u{E9}") { calls.record("one") }
        hub.client.on("cafe\u{301}") { calls.record("two") }
        hub.server.send(Self.call("cafe\u{301}"), Self.call("caf\u{E9}"))
        try await eventually { calls.all == ["two", "one"] }
    }

    @Test func `a sequence of invocations receives them beside the handlers`() async throws {
        let hub = try await HubFixture.connected()
        let sequence = hub.client.invocations(of: "count")
        hub.server.send(Self.call("count", "[1]"), Self.call("other", "[9]"), Self.call("count", "[2]"))
        var values: [Int] = []
        for await call in sequence {
            values.append(try call.decode(Int.self))
            if values.count == 2 { break }
        }
        expectEqual(values, [1, 2])
        // The one without a handler or a sequence.
        try await eventually { hub.client.counters.messagesIgnored == 1 }
        expect(hub.log.all.contains { $0.contains("other") })
    }

    // MARK: Results

    /// Sends an invocation with an ID, and returns the answer.
    private func answer(_ hub: HubFixture, _ target: String, _ arguments: String = "[]") async throws -> JSONValue {
        let count = hub.server.received.all.count
        hub.server.send(Self.call(target, arguments, id: "s1"))
        return try await hub.server.received(count + 1)[count]
    }

    @Test(arguments: [true, false])
    func `the case of names only matters by default`(ignoresCase: Bool) async throws {
        let hub = try await HubFixture.connected { $0.ignoresCaseOfMethods = ignoresCase }
        let calls = EventRecorder<String>()
        hub.client.on("Say") { (text: String) in calls.record("handler \(text)") }
        let sequence = hub.client.invocations(of: "SAY")
        hub.server.send(Self.call("say", #"["a"]"#), Self.call("Say", #"["b"]"#))
        try await eventually { calls.all == (ignoresCase ? ["handler a", "handler b"] : ["handler b"]) }
        if ignoresCase {
            let call = await sequence.first { _ in true }
            expectEqual(call?.target, "SAY")
        }
        hub.client.off("sAY")
        hub.server.send(Self.call("Say", #"["c"]"#), Self.call("say", #"["d"]"#))
        hub.client.on("end") { calls.record("end") }
        hub.server.send(Self.call("end"))
        try await eventually { calls.all.last == "end" }
        expectEqual(calls.all, (ignoresCase ? ["handler a", "handler b", "end"] : ["handler b", "handler c", "end"]))
    }

    @Test func `two calls of the server with the same ID are both answered`() async throws {
        let hub = try await HubFixture.connected()
        hub.client.on("next") { (a: Int) in a + 1 }
        hub.server.send(Self.call("next", "[1]", id: "s1"), Self.call("next", "[2]", id: "s1"))
        let answers = try await hub.server.received(2)
        // Each is handled in a task of its own.
        expect(Set(answers.map { $0["result"] }) == [2, 3] && answers.allSatisfy { $0["invocationId"] == "s1" })
    }

    @Test func `the result of a handler is the answer`() async throws {
        let hub = try await HubFixture.connected()
        hub.client.on("add") { (a: Int, b: Int) in a + b }
        try await expectEqual(self.answer(hub, "add", "[2,3]"), ["type": 3, "invocationId": "s1", "result": 5])
        // Without an ID, the server expects no answer.
        hub.server.send(Self.call("add", "[2,3]"))
        try await expectEqual(self.answer(hub, "add", "[4,3]"), ["type": 3, "invocationId": "s1", "result": 7])
        expectEqual(hub.server.received.all.count, 2)
    }

    @Test func `a handler without a result answers null`() async throws {
        let hub = try await HubFixture.connected()
        hub.client.on("save") {}
        try await expectEqual(self.answer(hub, "save"), ["type": 3, "invocationId": "s1", "result": nil])
        hub.client.on("save") { 7 }
        try await expectEqual(self.answer(hub, "save"), ["type": 3, "invocationId": "s1", "result": 7])
    }

    @Test func `without a handler, the answer is an error`() async throws {
        let hub = try await HubFixture.connected()
        let expected: JSONValue = ["type": 3, "invocationId": "s1", "error": "Client didn't provide a result."]
        try await expectEqual(self.answer(hub, "missing", #"[1,{"a":2}]"#), expected)
        let sequence = hub.client.invocations(of: "missing")
        try await expectEqual(self.answer(hub, "missing"), expected)
        _ = sequence
    }

    @Test func `two results are answered with an error`() async throws {
        let hub = try await HubFixture.connected()
        hub.client.on("which") { 1 }
        hub.client.on("which") { 2 }
        let answer = try await self.answer(hub, "which")
        expectEqual(answer, ["type": 3, "invocationId": "s1", "error": "Client provided multiple results."])
    }

    @Test func `a handler that throws is logged and answered, and the next one is called`() async throws {
        struct Failed: Error {}
        let hub = try await HubFixture.connected()
        let calls = EventRecorder<Int>()
        hub.client.on("fail") { throw Failed() }
        hub.client.on("fail") { calls.record(1) }
        let error: JSONValue = "The handler threw an error of type Failed."
        try await expectEqual(self.answer(hub, "fail"), ["type": 3, "invocationId": "s1", "error": error])
        expectEqual(calls.all, [1])
        expect(hub.log.all.contains { $0.contains("fail") && $0.contains("Failed") })
        expect(hub.events.contains { if case .error(let error) = $0 { error.code == .handlerFailed } else { false } })
    }

    @Test func `arguments of another type or number are reported with method, position and type, and answered`() async throws {
        let hub = try await HubFixture.connected()
        let calls = EventRecorder<Int>()
        hub.client.on("add") { (a: Int, b: Int) in
            calls.record(a)
            return a + b
        }
        for (arguments, position) in [(#"[1,"two"]"#, "Argument 2"), ("[1]", "argument 2 of type Int"), (#"{"a":1}"#, "")] {
            let answer = try await self.answer(hub, "add", arguments)
            expectEqual(answer["error"]?.string?.contains(position), true)
        }
        let reports = hub.events.compactMap { if case .error(let error) = $0 { error } else { nil } }
        expectEqual(reports.map(\.code).prefix(2), [.decodingFailed, .decodingFailed])
        expect(reports[0].message.contains("add") && reports[0].message.contains("Argument 2") && reports[0].message.contains("Int"))
        expect(hub.client.counters.decodingFailures >= 2)
        // The others aren't affected.
        expect(calls.all.isEmpty)
        try await expectEqual(self.answer(hub, "add", "[1,2,3]")["result"], 3)
    }

    @Test func `an invocation that no handler expects doesn't affect the messages in the same frame`() async throws {
        let hub = try await HubFixture.connected()
        let calls = EventRecorder<Int>()
        hub.client.on("count") { (a: Int) in calls.record(a) }
        hub.server.send(Self.call("count", "[1]"), Self.call("missing", "[1]", id: "s1"), Self.call("count", "[2]"))
        try await eventually { calls.all == [1, 2] }
        try await expectEqual(hub.server.received(1)[0]["error"], "Client didn't provide a result.")
    }

    @Test func `a stream invocation by the server is answered with an error`() async throws {
        let hub = try await HubFixture.connected()
        hub.server.send(#"{"type":4,"invocationId":"s1","target":"x","arguments":[]}"#)
        try await expect(hub.server.received(1)[0]["error"]?.string != nil)
    }

    @Test func `the result of a handler isn't sent on another connection`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .delays([.seconds(1)]) }
        let gate = Waiter<Void>()
        let calls = EventRecorder<Int>()
        hub.client.on("slow") {
            calls.record(1)
            await gate.value()
            return 1
        }
        hub.client.on("end") { 2 }
        hub.server.send(Self.call("slow", id: "s1"))
        try await eventually { calls.all.count == 1 }
        hub.network.cut()
        hub.clock.advance(by: .seconds(1))
        gate.fulfill(())?.resume()
        try await expectEqual(self.answer(hub, "end"), ["type": 3, "invocationId": "s1", "result": 2])
        expectEqual(hub.server.received.all.count, 1)
    }

    @Test func `a result that waits holds up no other handler and no other result`() async throws {
        let hub = try await HubFixture.connected()
        let gate = Waiter<Void>()
        let calls = EventRecorder<Int>()
        hub.client.on("ask") {
            await gate.value()
            return "yes"
        }
        hub.client.on("add") { (a: Int, b: Int) in a + b }
        hub.client.on("count") { (a: Int) in calls.record(a) }
        hub.server.send(Self.call("ask", id: "s1"), Self.call("add", "[2,3]", id: "s2"))
        for number in 1...50 { hub.server.send(Self.call("count", "[\(number)]")) }
        try await eventually { calls.all == Array(1...50) }
        try await expectEqual(hub.server.received(1), [["type": 3, "invocationId": "s2", "result": 5]])
        gate.fulfill(())?.resume()
        try await expectEqual(hub.server.received(2)[1], ["type": 3, "invocationId": "s1", "result": "yes"])
    }

    @Test func `a handler with a result may call a method that asks the client for another result`() async throws {
        var script = ScriptedHub.Script()
        script.answer = { message in
            if message["target"] == "relay" { return [Self.call("inner", id: "s2")] }
            if message["invocationId"] == "s2" { return [#"{"type":3,"invocationId":"1","result":\#(message["result"]?.int ?? 0)}"#] }
            return []
        }
        let hub = try await HubFixture.connected(script)
        hub.client.on("inner") { 7 }
        hub.client.on("outer") { [weak client = hub.client] in try await client?.invoke("relay", as: Int.self) }
        hub.server.send(Self.call("outer", id: "s1"))
        try await expectEqual(hub.server.received(3)[2], ["type": 3, "invocationId": "s1", "result": 7])
    }

    @Test func `a result doesn't wait for the handlers of earlier calls without one, which stay in order`() async throws {
        let hub = try await HubFixture.connected()
        let gate = Waiter<Void>()
        let calls = EventRecorder<Int>()
        hub.client.on("slow") { (a: Int) in
            if a == 1 { await gate.value() }
            calls.record(a)
        }
        hub.client.on("ask") { (a: Int) in 2 * a }
        // Also if it arrives with the calls before it.
        hub.server.send(Self.call("slow", "[1]"), Self.call("slow", "[2]"), Self.call("ask", "[3]", id: "s1"), Self.call("slow", "[3]"))
        try await expectEqual(hub.server.received(1), [["type": 3, "invocationId": "s1", "result": 6]])
        hub.server.send(Self.call("ask", "[4]", id: "s2"))
        try await expectEqual(hub.server.received(2)[1], ["type": 3, "invocationId": "s2", "result": 8])
        expect(calls.all.isEmpty)
        gate.fulfill(())?.resume()
        try await eventually { calls.all == [1, 2, 3] }
    }

    @Test func `a handler without a result may call a method that asks the client for a result`() async throws {
        var script = ScriptedHub.Script()
        script.answer = { message in
            if message["target"] == "relay" { return [Self.call("inner", id: "s2")] }
            if message["invocationId"] == "s2" { return [#"{"type":3,"invocationId":"1","result":\#(message["result"]?.int ?? 0)}"#] }
            return []
        }
        let hub = try await HubFixture.connected(script)
        let results = EventRecorder<Int>()
        hub.client.on("inner") { 7 }
        hub.client.on("outer") { [weak client = hub.client] in
            if let client { results.record(try await client.invoke("relay", as: Int.self)) }
        }
        hub.server.send(Self.call("outer"))
        try await eventually { results.all == [7] }
    }

    @Test func `the results that are determined at a time are limited`() async throws {
        let hub = try await HubFixture.connected { $0.handlerBuffer = HubBufferLimit(count: 2) }
        let gates = (1...3).map { _ in Waiter<Void>() }
        let calls = EventRecorder<Int>()
        hub.client.on("ask") { (a: Int) in
            calls.record(a)
            await gates[a - 1].value()
            return a
        }
        for number in 1...2 { hub.server.send(Self.call("ask", "[\(number)]", id: "s\(number)")) }
        try await eventually { calls.all.count == 2 }
        hub.server.send(Self.call("ask", "[3]", id: "s3"))
        for _ in 1...100 { await Task.yield() }
        expectEqual(calls.all.count, 2)
        for gate in gates { gate.fulfill(())?.resume() }
        expectEqual(Set(try await hub.server.received(3).map { $0["result"] }), [1, 2, 3])
    }

    @Test(arguments: [true, false])
    func `calls of an earlier connection aren't handled after a stop or another start`(isStopped: Bool) async throws {
        // One result is determined at a time.
        let hub = try await HubFixture.connected { $0.handlerBuffer = HubBufferLimit(count: 1) }
        let gates = (0...1).map { _ in Waiter<Void>() }
        let (calls, asked) = (EventRecorder<Int>(), EventRecorder<Int>())
        hub.client.on("slow") { (a: Int) in
            calls.record(a)
            if a == 1 { await gates[0].value() }
        }
        hub.client.on("slow") { (a: Int) in calls.record(-a) }
        hub.client.on("ask") { (a: Int) in
            asked.record(a)
            await gates[1].value()
            return a
        }
        hub.server.send(Self.call("slow", "[1]"), Self.call("ask", "[1]", id: "s1"))
        try await eventually { calls.all == [1] && asked.all == [1] }
        hub.server.send(Self.call("slow", "[2]"), Self.call("ask", "[3]", id: "s2"), Self.call("slow", "[4]"))
        if isStopped { hub.client.stop() } else { hub.network.cut() }
        try await hub.client.start()
        hub.server.send(Self.call("slow", "[5]"))
        for gate in gates { gate.fulfill(())?.resume() }
        try await eventually { calls.all.last == -5 }
        // The handlers that ran have finished.
        expect(calls.all == [1, 5, -5] && asked.all == [1])
    }

    @Test func `a client that was stopped calls no handler`() async throws {
        let hub = try await HubFixture.connected()
        let gate = Waiter<Void>()
        let calls = EventRecorder<Int>()
        hub.client.on("slow") { (a: Int) in
            calls.record(a)
            await gate.value()
        }
        for number in 1...20 { hub.server.send(Self.call("slow", "[\(number)]")) }
        try await eventually { calls.all == [1] }
        hub.client.stop()
        gate.fulfill(())?.resume()
        for _ in 1...100 { await Task.yield() }
        expectEqual(calls.all, [1])
    }

    @Test func `a loss drops no call that has arrived`() async throws {
        let hub = try await HubFixture.connected { $0.retry = .delays([.seconds(1)]) }
        let gate = Waiter<Void>()
        let calls = EventRecorder<Int>()
        hub.client.on("slow") { (a: Int) in
            calls.record(a)
            await gate.value()
        }
        hub.server.send(Self.call("slow", "[1]"), Self.call("slow", "[2]"))
        hub.network.cut()
        hub.clock.advance(by: .seconds(1))
        expect(hub.isConnected)
        gate.fulfill(())?.resume()
        try await eventually { calls.all == [1, 2] }
    }

    @Test func `a handler may stop and start the client`() async throws {
        let hub = try await HubFixture.connected()
        let calls = EventRecorder<Int>()
        hub.client.on("restart") { [weak client = hub.client] in
            client?.stop()
            try await client?.start()
            calls.record(1)
        }
        hub.server.send(Self.call("restart"))
        try await eventually { calls.all.count == 1 }
        expect(hub.isConnected && hub.server.upgrades.all.count == 2)
    }

    @Test func `no handler is called after the client was released`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let server = ScriptedHub()
        let address = try await network.listener().start(server)
        var options = HubConfiguration(
            Endpoint(scheme: "http", host: address.host, port: address.port), transports: network.transports())
        (options.log, options.allowedTransports, options.skipsNegotiation) = (.none, .webSockets, true)
        let gate = Waiter<Void>()
        let calls = EventRecorder<Int>()
        let driver: SessionDriver<HubSession>
        do {
            let client = HubClient(options)
            driver = client.driver
            client.on("slow") { (a: Int) in
                calls.record(a)
                await gate.value()
            }
            try await client.start()
            server.send(Self.call("slow", "[1]"), Self.call("slow", "[2]"))
            try await eventually { calls.all.count == 1 }
        }
        gate.fulfill(())?.resume()
        for _ in 1...100 { await Task.yield() }
        expect(calls.all == [1] && driver.consumerCount == 0)
    }
}
