import Dispatch
import Foundation
@testable import PrimusSwift
import PrimusTesting
import PrimusWire
import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

/// Listeners: their order, their queues, their arguments.
@Suite(.timeLimit(.minutes(10))) struct ListenerTests {
    private struct Reading: Codable, Hashable { var sensor: Int; var celsius: Double }

    @Test func `listeners are called in the order in which they were added, on the main queue`() async throws {
        let test = try await PrimusFixture()
        let calls = EventRecorder<Int>()
        for number in 1...20 {
            test.primus.on("open") {
                dispatchPrecondition(condition: .onQueue(.main))
                calls.record(number)
            }
        }
        test.primus.open()
        try await eventually { calls.all == Array(1...20) }
    }

    @Test func `events keep their order among thousands of messages`() async throws {
        let test = try await PrimusFixture()
        let received = EventRecorder<Int>()
        test.primus.on("data", queue: test.queue) { (number: Int) in received.record(number) }
        try await test.open()
        for number in 0..<3000 { try test.memory.server.sparks[0].write(number) }
        try await eventually { received.all.count == 3000 }
        expectEqual(received.all, Array(0..<3000))
    }

    @Test func `once, off and the removal of listeners`() async throws {
        let test = try await PrimusFixture()
        let (primus, calls, queue) = (test.primus, EventRecorder<String>(), test.queue)
        primus.once("tick", queue: queue) { calls.record("once") }
        let listener = primus.on("tick", queue: queue) { calls.record("on") }
        primus.addListener("tick") { calls.record("main") }
        expect(primus.emit("tick") && primus.emit("tick"))
        try await eventually { calls.all.count == 5 }
        expectEqual(calls.take().filter { $0 != "main" }, ["once", "on", "on"])
        primus.removeListener("other", listener)
        expectEqual(primus.listeners("tick").count, 2)
        primus.off("tick", listener)
        primus.emit("tick")
        try await eventually { calls.all == ["main"] }
        primus.removeAllListeners("tick")
        expect(!primus.emit("tick"))
        primus.on("a") {}
        primus.on("b") {}
        primus.off("a")
        expect(primus.listeners("a").isEmpty && primus.listeners("b").count == 1)
        primus.removeAllListeners()
        expect(primus.listeners("b").isEmpty)
    }

    @Test func `a listener that another one removes isn't called`() async throws {
        let test = try await PrimusFixture()
        let (primus, calls, queue) = (test.primus, EventRecorder<String>(), test.queue)
        primus.on("tick", queue: queue) {
            calls.record("first")
            primus.removeAllListeners("tick")
        }
        primus.on("tick", queue: queue) { calls.record("second") }
        primus.emit("tick")
        primus.emit("tick")
        queue.sync {}
        try await eventually { calls.all == ["first"] }
    }

    @Test func `arguments have the types of a listener's parameters`() async throws {
        let test = try await PrimusFixture()
        let (primus, seen, queue) = (test.primus, EventRecorder<String>(), test.queue)
        primus.on("data", queue: queue) { (data: [String: Any], raw: Any) in seen.record("\(data["sensor"] as? Int ?? 0) \(raw)") }
        primus.on("data", queue: queue) { (reading: Reading) in seen.record("\(reading.celsius)") }
        primus.on("data", queue: queue) { (value: PrimusValue, raw: String, more: Int?) in
            seen.record("\(value["sensor"]?.int ?? 0) \(more ?? -1)")
        }
        primus.on("data") { data, raw in seen.record("\(data is [String: Any]) \(raw is String)") }
        primus.on("data") { data in seen.record("\(data is [String: Any])") }
        try await test.open()
        try test.memory.server.sparks[0].write(Reading(sensor: 7, celsius: 21))
        try await eventually { seen.all.count == 5 }
        expectEqual(Set(seen.all), [#"7 {"sensor":7,"celsius":21}"#, "21.0", "7 -1", "true true", "true"])
    }

    @Test func `a listener with other types isn't called, and an error says why`() async throws {
        let test = try await PrimusFixture()
        let (primus, errors, queue) = (test.primus, EventRecorder<String>(), test.queue)
        primus.on("data", queue: queue) { (data: Reading) in errors.record("called with \(data)") }
        primus.on("error", queue: queue) { (error: any Error) in errors.record("\(error)") }
        try await test.open()
        try test.memory.server.sparks[0].write(["sensor": "none"])
        try await eventually { !errors.all.isEmpty }
        expect(errors.all[0].contains("takes a Reading as argument 1"), "\(errors.all)")
        expectEqual(primus.readyState, .open)
    }

    @Test func `a listener of dictionaries isn't called for texts, which is logged once and not an error`() async throws {
        let (log, seen) = (EventRecorder<String>(), EventRecorder<String>())
        let test = try await PrimusFixture { $0.log = LogSink(minimumLevel: .warning) { _, _, message in log.record(message) } }
        let (primus, queue) = (test.primus, test.queue)
        primus.on("data", queue: queue) { (data: [String: Any], raw: Any) in seen.record("dictionary") }
        primus.on("data", queue: queue) { (data: String) in seen.record(data) }
        primus.on("error", queue: queue) { (error: any Error) in seen.record("\(error)") }
        try await test.open()
        let spark = test.memory.server.sparks[0]
        for text in ["one", "two"] { try spark.write(text) }
        try spark.write(["a": 1])
        try await eventually { seen.all.count == 3 }
        await test.drainQueue()
        expectEqual(seen.all, ["one", "two", "dictionary"])
        let warnings = log.all.filter { $0.contains("A listener of \"data\" takes a Dictionary<String, Any>") }
        expect(warnings.count == 1 && log.all.count == 2, "\(log.all)")
    }

    /// The events of messages and heartbeats, with the text of their argument.
    private func recordTexts(_ test: PrimusFixture) -> EventRecorder<String> {
        let seen = EventRecorder<String>()
        for event in [
            "outgoing::data", "incoming::data", "incoming::ping", "outgoing::pong", "outgoing::ping", "incoming::pong", "incoming::id",
        ] { test.primus.on(event, queue: test.queue) { (text: String) in seen.record("\(event) \(text)") } }
        test.primus.on("initialised", queue: test.queue) { (transformer: String, parser: String) in
            seen.record("server \(transformer) \(parser)")
        }
        return seen
    }

    @Test(arguments: [PrimusServerConfiguration.Version.v8, .v6])
    func `the events of messages and heartbeats have their texts`(version: PrimusServerConfiguration.Version) async throws {
        var server = PrimusServerConfiguration()
        server.version = version
        let test = try await PrimusFixture(server)
        let seen = self.recordTexts(test)
        test.primus.open()
        try await test.awaits("open")
        expectEqual(seen.take(), ["server websockets json"])
        test.primus.write(["a": 1])
        try await eventually { test.memory.server.sparks.count == 1 && !seen.all.isEmpty }
        try test.memory.server.sparks[0].write([true])
        try await eventually { seen.all.count == 2 }
        expectEqual(seen.take(), [#"outgoing::data {"a":1}"#, "incoming::data [true]"])
        let ids = EventRecorder<String?>()
        test.primus.id { ids.record($0) }
        // The listeners have another queue than the closure.
        let id = test.memory.server.sparks[0].id
        try await eventually { ids.all == [id] && seen.all.last == "incoming::id \(id)" }
        _ = seen.take()
        try await eventually {
            test.memory.clock.advance(by: .seconds(1))
            return seen.all.contains { $0.contains("::pong ") }
        }
        let heartbeat = seen.all.filter { $0.contains("::ping ") || $0.contains("::pong ") }.prefix(2)
        let names = version == .v8 ? ["incoming::ping", "outgoing::pong"] : ["outgoing::ping", "incoming::pong"]
        expectEqual(heartbeat.map { String($0.prefix { $0 != " " }) }, names)
        // The answer has the digits of the question.
        expectEqual(Set(heartbeat.map { $0.split(separator: " ").last.flatMap { Int($0) } }).count, 1, "\(heartbeat)")
    }

    @Test(arguments: [false, true])
    func `the events of failures have the error, and those of attempts the attempt as well`(isSilent: Bool) async throws {
        let test = try await PrimusFixture { $0.reconnect.retries = 1 }
        let seen = EventRecorder<String>()
        for event in ["timeout", "error", "incoming::error"] {
            test.primus.on(event, queue: test.queue) { (error: any Error) in seen.record("\(event) \((error as NSError).code)") }
        }
        for event in ["reconnect timeout", "reconnect failed"] {
            test.primus.on(event, queue: test.queue) { (error: any Error, options: PrimusReconnectOptions) in
                let error = error as NSError
                seen.record("\(event) \(error.code) \(error.domain == PrimusErrorDomain) \(options.attempt)")
            }
        }
        test.memory.network.condition = isSilent ? .silent : .down
        test.primus.open()
        try await eventually {
            // An attempt that fails on its own must not be overtaken by its time limit.
            if isSilent || test.primus.client.reconnectDelay != nil { test.memory.clock.advance(by: .seconds(1)) }
            return seen.all.contains { $0.hasPrefix("reconnect failed") }
        }
        // The codes of Primus-Objc: 1000 for a client that can't connect, 1001 for a time limit.
        expectEqual(
            seen.all,
            (isSilent
                ? ["timeout 1001", "reconnect timeout 1001 true 1", "reconnect failed 1001 true 1"]
                : ["incoming::error 1000", "error 1000", "incoming::error 1000", "reconnect failed 1000 true 1"]))
    }

    @Test func `a client is writable while it is connected, and events of the application have arguments`() async throws {
        let test = try await PrimusFixture()
        expect(!test.primus.writable)
        try await test.open()
        expect(test.primus.writable)
        let seen = EventRecorder<String>()
        test.primus.on("mine", queue: test.queue) { (number: Int, text: String) in seen.record("\(number) \(text)") }
        expect(test.primus.emit("mine", 1, "a"))
        try await eventually { seen.all == ["1 a"] }
        test.primus.end()
        expect(!test.primus.writable)
    }

    @Test func `more messages than may wait for a connection are refused, and an error says so`() async throws {
        let test = try await PrimusFixture()
        let errors = EventRecorder<PrimusError.Code>()
        test.primus.on("error", queue: test.queue) { (error: PrimusError) in errors.record(error.code) }
        for number in 0..<1024 { expect(test.primus.write(number)) }
        expect(!test.primus.write(1024))
        try await eventually { errors.all == [.queueFull] }
        let received = EventRecorder<Int>()
        let record = test.memory.server.onMessage { message in if let number = try? message.value.int { received.record(number) } }
        try await test.open()
        try await eventually { received.all.count == 1024 }
        expectEqual(received.all, Array(0..<1024))
        record.cancel()
    }

    @Test func `a transform that throws discards its message, and an error says so`() async throws {
        struct Unwanted: Error {}
        let test = try await PrimusFixture()
        let (errors, data) = (EventRecorder<PrimusError.Code>(), EventRecorder<Int>())
        test.primus.on("error", queue: test.queue) { (error: PrimusError) in errors.record(error.code) }
        test.primus.on("data", queue: test.queue) { (number: Int) in data.record(number) }
        test.primus.transform("incoming") { message in
            if message["data"] as? Int == 2 { throw Unwanted() }
            return true
        }
        try await test.open()
        for number in 1...3 { try test.memory.server.sparks[0].write(number) }
        try await eventually { data.all.count == 2 && errors.all.count == 1 }
        expect(data.all == [1, 3] && errors.all == [.transformFailed])
    }

    @Test func `the events about reconnects have the options of the attempt`() async throws {
        let test = try await PrimusFixture { ($0.reconnect.minDelay, $0.reconnect.maxDelay) = (2, 2) }
        let seen = EventRecorder<String>()
        for event in ["reconnecting", "reconnect scheduled", "reconnect", "reconnected"] {
            test.primus.on(event, queue: test.queue) { (options: PrimusReconnectOptions) in
                seen.record("\(event) \(options.attempt) \(options.scheduled) \(options.timeout) \(options.backoff) \(options.retries)")
            }
        }
        try await test.open()
        expectNil(test.primus.attemptOptions)
        test.memory.network.cut()
        try await eventually { test.trace.all.last == "reconnect scheduled" }
        expect(test.primus.attemptOptions?.attempt == 1 && test.primus.attemptOptions?.backoff == true)
        try await test.awaits("open")
        expectEqual(
            seen.all,
            [
                "reconnecting 1 2.0 2.0 true 10", "reconnect scheduled 1 2.0 2.0 true 10", "reconnect 1 2.0 2.0 false 10",
                "reconnected 1 2.0 2.0 false 10",
            ])
    }

    @Test func `an error of authorization has the status as its code`() async throws {
        var server = PrimusServerConfiguration()
        server.authorize = { _ in .reject("Who are you?", status: 401) }
        let test = try await PrimusFixture(server)
        let errors = EventRecorder<String>()
        test.primus.on("error", queue: test.queue) { (error: NSError) in errors.record("\(error.domain) \(error.code)") }
        test.primus.on("error", queue: test.queue) { (error: PrimusError) in errors.record(error.serverMessage ?? "") }
        test.primus.open()
        try await test.awaits("end")
        expect(
            errors.all.count == 2 && errors.all[0] == "com.seegno.primus 401" && errors.all[1].contains("Who are you?"), "\(errors.all)")
    }

    @Test func `a listener of outgoing::url changes the URL of an attempt`() async throws {
        let test = try await PrimusFixture()
        test.primus.on("outgoing::url", queue: test.queue) { (options: PrimusURLOptions) in options.query = "token=abc" }
        try await test.open()
        expectEqual(test.memory.server.sparks[0].request.query, "token=abc")
    }

    @Test func `the name of the server's side of the connection`() async throws {
        let test = try await PrimusFixture()
        let ids = EventRecorder<String?>()
        test.primus.id { ids.record($0) }
        try await eventually { ids.all == [nil] }
        try await test.open()
        test.primus.id { ids.record($0) }
        try await eventually { ids.all.count == 2 }
        expectEqual(ids.all[1], test.memory.server.sparks[0].id)
    }

    @Test func `an event of the server with the name of an event that the client emits itself isn't one`() async throws {
        var server = PrimusServerConfiguration()
        server.plugins = .emitter
        let test = try await PrimusFixture(server) { $0.plugins = ["emitter": PrimusEmitterPlugin.self] }
        try await test.open()
        let events = EventRecorder<String>()
        for event in ["reconnecting", "initialised", "news"] { test.primus.on(event, queue: test.queue) { events.record(event) } }
        let typed = test.primus.client.emitter.on("initialised")
        for event in ["reconnecting", "initialised", "news"] { try test.memory.server.sparks[0].send(event) }
        try await eventually { events.all.last == "news" }
        expectEqual(events.all, ["news"])
        await expectEqual(typed.pending().count, 1)
    }

    @Test(arguments: [Double.nan, .infinity, -.infinity, 1e300, -8.64e15 - 2])
    func `a date without a time is null for a listener, as in JSON`(milliseconds: Double) {
        expect(FoundationValue.object(.date(PrimusDate(milliseconds: milliseconds))) is NSNull)
        let date = FoundationValue.object(.date(PrimusDate(milliseconds: 8.64e15))) as? Date
        expect(date.map { "\($0)" }?.isEmpty == false)
    }

    @Test func `a transform of Objective-C reads and changes the message and its members in a dictionary`() throws {
        func changed(_ value: PrimusValue, _ change: (NSMutableDictionary) -> Void) -> PrimusValue {
            var data = PrimusTransformData(value: value)
            expect(
                data.changeDictionary {
                    change($0); return true
                })
            return data.value
        }
        let message: PrimusValue = ["a": 1, "b": [true], "data": "inner"]
        expectEqual(changed(message) { _ in }, message)
        expectEqual(changed(message) { $0["foo"] = "bar" }, ["a": 1, "b": [true], "data": "inner", "foo": "bar"])
        expectEqual(changed(message) { $0["a"] = ($0["a"] as? Int ?? 0) + 1 }, ["a": 2, "b": [true], "data": "inner"])
        expectEqual(changed(message) { $0.removeObject(forKey: "a") }, ["b": [true], "data": "inner"])
        expectEqual(changed(message) { $0["data"] = ["c": 2] }, ["c": 2])
        expectEqual(
            changed(message) {
                $0["data"] = ["c": 2]
                $0["d"] = 3
            }, ["c": 2, "d": 3])
        expectEqual(changed("text") { $0["foo"] = "bar" }, "text")
        expectEqual(changed("text") { $0["data"] = "\($0["data"] ?? "")s" }, "texts")
        var data = PrimusTransformData(value: message)
        expect(!data.changeDictionary { _ in false })
    }

    @Test func `transforms change and discard messages of both directions`() async throws {
        let test = try await PrimusFixture()
        let received = EventRecorder<PrimusValue>()
        let echo = test.memory.server.onMessage { message in
            received.record((try? message.value) ?? nil)
            _ = try? message.spark.write(message.value)
        }
        test.primus.transform("outgoing") { data in
            await Task.yield()
            data["sent"] = true
            return data["secret"] == nil
        }
        test.primus.transform("incoming") { data in
            data["foo"] = "bar"
            return true
        }
        let seen = EventRecorder<[String: PrimusValue]>()
        test.primus.on("data", queue: test.queue) { (data: [String: PrimusValue]) in seen.record(data) }
        try await test.open()
        test.primus.write(["secret": 1])
        for number in 0..<100 { test.primus.write(["n": number]) }
        try await eventually { seen.all.count == 100 }
        expectEqual(received.all.map { $0["n"]?.int }, Array(0..<100))
        expectEqual(seen.all.map { $0["n"]?.int }, Array(0..<100))
        expectEqual(seen.all[0], ["n": 0, "sent": true, "foo": "bar"])
        test.primus.transform("sideways") { _ in true }
        try await eventually { test.trace.all.last == "error" }
        withExtendedLifetime(echo) {}
    }

    @Test(arguments: [false, true])
    func `what the server wrote before its end arrives before the end, though it is still in a transform`(destroys: Bool) async throws {
        let test = try await PrimusFixture()
        let (entered, gate) = (Signal(), Signal())
        let trace = EventRecorder<String>()
        let client = ClientReference()
        do {
            let primus = Primus(url: URL(string: test.memory.url)!, options: PrimusFixture.options(test.memory))
            client.primus = primus
            primus.transform("incoming") { data in
                entered.send()
                await gate.wait()
                return data["discarded"] == nil
            }
            primus.on("data", queue: test.queue) { (data: [String: Int]) in trace.record("data \(data["n"] ?? 0)") }
            for event in ["close", "end", "destroy"] { primus.on(event, queue: test.queue) { trace.record(event) } }
            primus.open()
        }
        try await eventually { test.memory.server.sparks.count == 1 }
        let spark = test.memory.server.sparks[0]
        for number in 1...3 { try spark.write(["n": number]) }
        try spark.write(["discarded": 1])
        await entered.wait()
        if destroys { client.primus?.destroy() } else { spark.end() }
        try await eventually { client.primus?.readyState == .closed }
        await test.drainQueue()
        expect(trace.all.isEmpty)
        gate.send()
        let expected = ["data 1", "data 2", "data 3", "close", "end"] + (destroys ? ["destroy"] : [])
        try await eventually { trace.all.count == expected.count }
        expectEqual(trace.all, expected)
        try await eventually { client.primus == nil }
    }

    @Test(arguments: [false, true])
    func `listeners on a slow queue receive the events of a client without references`(destroys: Bool) async throws {
        let test = try await PrimusFixture()
        let (trace, main) = (EventRecorder<String>(), EventRecorder<String>())
        let client = ClientReference()
        do {
            let primus = Primus(url: URL(string: test.memory.url)!, options: PrimusFixture.options(test.memory))
            client.primus = primus
            for event in ["data", "close", "end", "destroy"] {
                primus.on(event, queue: test.queue) { trace.record(event) }
                primus.on(event) { main.record(event) }
            }
            primus.open()
        }
        try await eventually { test.memory.server.sparks.count == 1 }
        // A queue that is only suspended completes what it has begun, which may include later events.
        let (blocked, gate) = (EventRecorder<Bool>(), DispatchSemaphore(value: 0))
        test.queue.async {
            blocked.record(true)
            gate.wait()
        }
        try await eventually { !blocked.all.isEmpty }
        try test.memory.server.sparks[0].write("last")
        try await eventually { main.all == ["data"] }
        if destroys { client.primus?.destroy() } else { test.memory.server.sparks[0].end() }
        let expected = ["data", "close", "end"] + (destroys ? ["destroy"] : [])
        try await eventually { main.all == expected }
        expect(trace.all.isEmpty)
        gate.signal()
        try await eventually { trace.all == expected }
        try await eventually { client.primus == nil }
    }

    @Test func `a client that is opened again in a listener of its end keeps itself alive`() async throws {
        let test = try await PrimusFixture()
        let client = ClientReference()
        do {
            let primus = Primus(url: URL(string: test.memory.url)!, options: PrimusFixture.options(test.memory))
            client.primus = primus
            primus.once("end") { client.primus?.open() }
            primus.on("end", queue: test.queue) {}
            primus.open()
        }
        var last: String?
        for _ in 1...2 {
            try await eventually { test.memory.server.sparks.first.map { $0.id != last } ?? false }
            last = test.memory.server.sparks.first?.id
            expect(client.primus != nil)
            client.primus?.end()
        }
        try await eventually { client.primus == nil }
    }

    @Test func `events of primus-emit reach the listeners`() async throws {
        var server = PrimusServerConfiguration()
        server.plugins = .emit
        let test = try await PrimusFixture(server) { $0.plugins = ["emit": "emit"] }
        let received = EventRecorder<String>()
        test.primus.on("news", queue: test.queue) { (title: String, count: Int) in received.record("\(title) \(count)") }
        try await test.open()
        try test.memory.server.sparks[0].emit("news", "today", 2)
        try await eventually { received.all == ["today 2"] }
    }

    @Test func `primus-emitter sends and receives events with acknowledgements`() async throws {
        var server = PrimusServerConfiguration()
        server.plugins = .emitter
        let test = try await PrimusFixture(server) { $0.plugins = ["emitter": PrimusEmitterPlugin.self] }
        let arguments = EventRecorder<[PrimusValue]>()
        let observation = test.memory.server.on("chat") { call in arguments.record((try? call.arguments.values) ?? []) }
        let greeted = EventRecorder<String>()
        test.primus.on("greet", queue: test.queue) { (name: String, acknowledge: PrimusAcknowledgement) in
            greeted.record(name)
            acknowledge("Hello, \(name)", 2)
        }
        try await test.open()
        expect(test.primus.send("chat", ["text": "hi"]) && test.primus.send("chat", 1, "two"))
        try await eventually { arguments.all == [[["text": "hi"]], [1, "two"]] }
        let answer = try await test.memory.server.sparks[0].call("greet", "Anna", within: .seconds(600)).decode(String.self, Int.self)
        expect(answer == ("Hello, Anna", 2) && greeted.all == ["Anna"])
        expect(!test.primus.send("data", 1))
        expect(!test.trace.all.contains("data"))
        withExtendedLifetime(observation) {}
    }

    @Test func `a blocked main queue doesn't stall a client whose listeners are on another queue`() async throws {
        let test = try await PrimusFixture()
        let seen = EventRecorder<Int64>()
        test.primus.on("data", queue: test.queue) { (number: Int64) in seen.record(number) }
        let main = try await BlockedMainActor()
        defer { main.release() }
        try await test.open()
        // More than the events that wait for a queue.
        for number in 0..<20_000 { try test.memory.server.write(number) }
        try await eventually("all messages") { seen.all.count == 20_000 }
        expectEqual(seen.all, Array(0..<20_000))
        test.primus.end()
        try await test.awaits("end")
    }

    @Test func `a client stops reading while the main queue is blocked, and loses nothing`() async throws {
        let test = try await PrimusFixture()
        let (seen, others) = (EventRecorder<Int>(), EventRecorder<Int>())
        test.primus.on("data") { (text: String) in seen.record(text.utf8.count) }
        test.primus.on("data", queue: test.queue) { (text: String) in others.record(text.utf8.count) }
        try await test.open()
        let main = try await BlockedMainActor()
        defer { main.release() }
        for number in 0..<100 { try test.memory.server.write(String(repeating: "x", count: 50_000 + number)) }
        // Each message is there twice, raw and as data. The listeners of the other queue wait as well.
        try await eventually { !others.all.isEmpty }
        await test.drainQueue()
        expect(seen.all.isEmpty && others.all.count < 100, "\(others.all.count)")
        main.release()
        try await eventually { seen.all.count == 100 && others.all.count == 100 }
        expect(seen.all == Array(50_000..<50_100) && others.all == seen.all && test.primus.readyState == .open)
    }

    @Test func `a listener that is added in another one receives what waits behind its event`() async throws {
        let test = try await PrimusFixture()
        let seen = EventRecorder<Int64>()
        let connections = test.memory.server.onConnection { spark in for number in 0..<10 { _ = try? spark.write(number) } }
        await MainActor.run {
            _ = test.primus.once("open") { [primus = test.primus] in primus.on("data") { (number: Int64) in seen.record(number) } }
        }
        let main = try await BlockedMainActor()
        defer { main.release() }
        test.primus.open()
        try await eventually { test.trace.all.count { $0 == "data" } == 10 }
        main.release()
        try await eventually { seen.all.count == 10 }
        expectEqual(seen.all, Array(0..<10))
        withExtendedLifetime(connections) {}
    }

    @Test func `what removed listeners refer to may use the client when it is released`() async throws {
        final class Guest: Sendable {
            let primus: Primus
            init(_ primus: Primus) { self.primus = primus }
            deinit { self.primus.removeAllListeners("other") }
        }
        let test = try await PrimusFixture()
        for event in ["a", "b"] {
            let guest = Guest(test.primus)
            test.primus.on(event, queue: test.queue) { _ = guest }
        }
        test.primus.removeAllListeners("a")
        test.primus.removeAllListeners()
        expect(test.primus.listeners("b").isEmpty)
    }

    @Test func `send without the plugin is an error that says so`() async throws {
        let test = try await PrimusFixture()
        let errors = EventRecorder<String>()
        test.primus.on("error", queue: test.queue) { (error: PrimusError) in errors.record(error.message) }
        expect(!test.primus.send("chat", 1))
        try await eventually { errors.all.first?.contains("emitter") == true }
    }

    @Test func `a client that is open keeps itself alive until it is ended`() async throws {
        let test = try await PrimusFixture()
        weak var weakPrimus: Primus?
        do {
            let primus = Primus(url: URL(string: test.memory.url)!, options: PrimusFixture.options(test.memory))
            weakPrimus = primus
            primus.open()
        }
        try await eventually { test.memory.server.sparks.count == 1 }
        try #require(weakPrimus != nil)
        weakPrimus?.end()
        try await eventually { weakPrimus == nil }
    }

    @Test func `a thousand cycles leave nothing`() async throws {
        let memory = try await InMemoryPrimus()
        for cycle in 0..<1000 {
            weak var weakPrimus: Primus?
            do {
                let primus = Primus(url: URL(string: memory.url)!, options: PrimusFixture.options(memory))
                weakPrimus = primus
                let isOpen = Signal()
                primus.on("open") { isOpen.send() }
                primus.open()
                // Every other one in the middle of the attempt.
                if cycle.isMultiple(of: 2) { await isOpen.wait() }
                primus.end()
            }
            try await eventually { weakPrimus == nil }
        }
        try await eventually { memory.server.sparks.isEmpty }
    }
}

/// A client that nothing else in a test refers to.
private final class ClientReference: Sendable {
    private struct Reference: Sendable { weak var primus: Primus? }

    private let reference = Lock(Reference())

    var primus: Primus? {
        get { self.reference.withLock { $0.primus } }
        set { self.reference.withLock { $0.primus = newValue } }
    }
}
