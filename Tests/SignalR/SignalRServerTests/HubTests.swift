import RealtimeCore
import RealtimeCoding
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

@testable import SignalRServer

/// Hubs as their users write them, with clients in memory.
@Suite(.timeLimit(.minutes(10))) struct HubTests {
    private struct Person: Codable, Sendable, Equatable {
        var name: String
        var age: Int?
    }

    private struct Failure: Error {}

    // MARK: Methods

    @Test func `a method receives its arguments and returns a result`() async throws {
        let test = try await HubUnderTest()
        test.hub.on("Add") { (caller, a: Int, b: Int) in a + b }
        test.hub.on("Greet") { (caller: HubCaller, person: Person, times: [Int]) async throws -> Person in
            Person(name: "Hello \(person.name)", age: times.count)
        }
        test.hub.on("None") { caller in }
        test.hub.on("Optional") { (caller, text: String?) -> String? in text }
        let client = try await test.connect()
        try await expectEqual(client.invoke("Add", "2,3"), ["type": 3, "invocationId": "1", "result": 5])
        try await expectEqual(client.invoke("add", "2,3")["result"], 5)
        try await expectEqual(client.invoke("Greet", #"{"name":"Bert","age":7},[1,2]"#)["result"], ["name": "Hello Bert", "age": 2])
        try await expectEqual(client.invoke("None"), ["type": 3, "invocationId": "1"])
        try await expectEqual(client.invoke("Optional", "null"), ["type": 3, "invocationId": "1", "result": .null])
    }

    @Test func `a later method replaces an earlier one and can be removed`() async throws {
        let test = try await HubUnderTest()
        test.hub.on("Number") { caller in 1 }
        test.hub.on("NUMBER") { caller in 2 }
        let client = try await test.connect()
        try await expectEqual(client.invoke("number")["result"], 2)
        test.hub.off("Number")
        try await expect(client.invoke("number")["error"] != nil)
    }

    @Test func `a method calls clients`() async throws {
        let test = try await HubUnderTest()
        test.hub.on("Send") { (caller, user: String, text: String) in
            try await caller.clients.all.send("Receive", user, text)
            try await caller.clients.others.send("Others")
            try await caller.clients.caller.send("Caller", 1)
        }
        let (anna, bert) = (try await test.connect(), try await test.connect())
        anna.send(#"{"type":1,"target":"Send","arguments":["anna","hi"]}"#)
        try await expectEqual(anna.next(), ["type": 1, "target": "Receive", "arguments": ["anna", "hi"]])
        try await expectEqual(anna.next(), ["type": 1, "target": "Caller", "arguments": [1]])
        try await expectEqual(bert.next(), ["type": 1, "target": "Receive", "arguments": ["anna", "hi"]])
        try await expectEqual(bert.next(), ["type": 1, "target": "Others", "arguments": []])
    }

    @Test func `errors are reported without details unless they are hub exceptions`() async throws {
        let test = try await HubUnderTest()
        test.hub.on("Known") { caller in throw HubException("Too late") }
        test.hub.on("Unknown") { caller in throw Failure() }
        test.hub.stream("Stream") { caller in
            AsyncThrowingStream<Int, any Error> { continuation in
                continuation.yield(1)
                continuation.finish(throwing: Failure())
            }
        }
        let client = try await test.connect()
        let known = "An unexpected error occurred invoking 'Known' on the server. HubException: Too late"
        try await expectEqual(client.invoke("Known")["error"]?.string, known)
        try await expectEqual(client.invoke("Unknown")["error"], "An unexpected error occurred invoking 'Unknown' on the server.")
        client.send(#"{"type":4,"invocationId":"2","target":"Stream","arguments":[]}"#)
        try await expectEqual(client.next()["item"], 1)
        try await expectEqual(client.next()["error"], "An error occurred on the server while streaming results.")
    }

    @Test func `detailed errors name the error`() async throws {
        let test = try await HubUnderTest { $0.sendsDetailedErrors = true }
        test.hub.on("Unknown") { caller in throw Failure() }
        let client = try await test.connect()
        try await expectEqual(client.invoke("Unknown")["error"]?.string?.hasSuffix("Failure: Failure()"), true)
    }

    @Test(arguments: [
        ("Missing", "", "Method does not exist."), ("Add", "1", "Invocation provides 1 argument(s) but target expects 2."),
        ("Add", "1,2,3", "Invocation provides 3 argument(s) but target expects 2."),
        ("Add", #"1,"b""#, "Argument 2 of 2 can't be decoded as Int"), ("Add", "1,2.5", "Argument 2 of 2 can't be decoded as Int"),
        ("Sum", "", "Client sent 0 stream(s), Hub method expects 1."),
        ("Count", "1", "The client attempted to invoke the streaming 'Count' method with a non-streaming invocation."),
    ])
    func `an invocation that doesn't match is answered with what is wrong`(method: String, arguments: String, problem: String) async throws
    {
        let test = try await HubUnderTest()
        test.hub.on("Add") { (caller, a: Int, b: Int) in a + b }
        test.hub.on("Sum") { (caller, items: HubStream<Int>) in 0 }
        test.hub.stream("Count") { (caller, count: Int) in AsyncStream<Int> { $0.finish() } }
        let client = try await test.connect()
        let error = try await client.invoke(method, arguments)["error"]?.string ?? ""
        expect(error.contains(problem), "\(error)")
        try await expectEqual(client.invoke("Add", "1,2")["result"], 3)
    }

    @Test func `methods of a connection run in order although they suspend`() async throws {
        let test = try await HubUnderTest()
        let values = EventRecorder<Int>()
        test.hub.on("Record") { (caller, value: Int) in
            for _ in 0..<(3 - value % 3) { await Task.yield() }
            values.record(value)
        }
        let client = try await test.connect()
        for value in 0..<20 { client.send(#"{"type":1,"target":"Record","arguments":[\#(value)]}"#) }
        try await eventually { values.all.count == 20 }
        expectEqual(values.all, Array(0..<20))
    }

    @Test func `a cancelled method sees the cancellation`() async throws {
        let test = try await HubUnderTest()
        let started = Signal()
        test.hub.on("Wait") { [clock = test.clock] caller in
            started.send()
            try await clock.sleep(for: .seconds(1_000))
        }
        let client = try await test.connect()
        client.send(#"{"type":1,"invocationId":"1","target":"Wait","arguments":[]}"#)
        await started.wait()
        client.send(#"{"type":5,"invocationId":"1"}"#)
        try await expectEqual(client.next()["error"], "The invocation was canceled by the client.")
    }

    // MARK: Streams

    @Test func `a stream sends its items and its end`() async throws {
        let test = try await HubUnderTest()
        test.hub.stream("Count") { (caller, count: Int) in
            AsyncStream<Int> { continuation in
                for number in 0..<count { continuation.yield(number) }
                continuation.finish()
            }
        }
        let client = try await test.connect()
        client.send(#"{"type":4,"invocationId":"1","target":"Count","arguments":[3]}"#)
        for number in 0..<3 {
            try await expectEqual(client.next(), ["type": 2, "invocationId": "1", "item": .number(JSONNumber(number))])
        }
        try await expectEqual(client.next(), ["type": 3, "invocationId": "1"])
        try await expect(client.invoke("Count", "3")["error"] != nil)
    }

    @Test func `a cancelled stream ends and its producer too`() async throws {
        let test = try await HubUnderTest()
        let ended = Signal()
        test.hub.stream("Forever") { caller in
            AsyncStream<Int> { continuation in
                continuation.yield(1)
                continuation.onTermination = { _ in ended.send() }
            }
        }
        let client = try await test.connect()
        client.send(#"{"type":4,"invocationId":"1","target":"Forever","arguments":[]}"#)
        try await expectEqual(client.next()["item"], 1)
        client.send(#"{"type":5,"invocationId":"1"}"#)
        try await expectEqual(client.next(), ["type": 3, "invocationId": "1"])
        await ended.wait()
    }

    @Test func `a stream waits for a client that reads slowly`() async throws {
        let test = try await HubUnderTest()
        test.network.messageBacklogBytes = 10_000
        let produced = EventRecorder<Int>()
        test.hub.stream("Many") { caller in
            AsyncStream<String>(unfolding: {
                let count = produced.all.count
                produced.record(count)
                return count < 200 ? String(repeating: "a", count: 1_000) : nil
            })
        }
        let client = try await test.connect()
        client.pauseReading()
        client.send(#"{"type":4,"invocationId":"1","target":"Many","arguments":[]}"#)
        try await eventually { produced.all.count >= 10 }
        for _ in 0..<1_000 { await Task.yield() }
        expect(produced.all.count < 20)
        client.resumeReading()
        try await eventually { produced.all.count == 201 }
        for _ in 0..<200 { try await expectEqual(client.next()["type"], 2) }
        try await expectEqual(client.next(), ["type": 3, "invocationId": "1"])
    }

    @Test func `a method receives streams among its parameters`() async throws {
        let test = try await HubUnderTest()
        test.hub.on("Mix") { (caller, first: HubStream<Int>, text: String, second: HubStream<String>) in
            var sum = 0
            for try await number in first { sum += number }
            var texts: [String] = []
            for try await item in second { texts.append(item) }
            return "\(text) \(sum) \(texts.joined())"
        }
        let client = try await test.connect()
        client.send(
            #"{"type":1,"invocationId":"1","target":"Mix","arguments":["x"],"streamIds":["2","3"]}"#,
            #"{"type":2,"invocationId":"3","item":"a"}"#, #"{"type":2,"invocationId":"2","item":1}"#,
            #"{"type":2,"invocationId":"2","item":2}"#, #"{"type":3,"invocationId":"2"}"#)
        client.send(#"{"type":2,"invocationId":"3","item":"b"}"#, #"{"type":3,"invocationId":"3"}"#)
        try await expectEqual(client.next(), ["type": 3, "invocationId": "1", "result": "x 3 ab"])
    }

    @Test func `a stream of the client becomes a stream of the server`() async throws {
        let test = try await HubUnderTest()
        test.hub.stream("Double") { (caller, items: HubStream<Int>) in items.map { 2 * $0 } }
        let client = try await test.connect()
        client.send(#"{"type":4,"invocationId":"1","target":"Double","arguments":[],"streamIds":["2"]}"#)
        for number in 1...3 {
            client.send(#"{"type":2,"invocationId":"2","item":\#(number)}"#)
            try await expectEqual(client.next()["item"]?.int, 2 * number)
        }
        client.send(#"{"type":3,"invocationId":"2"}"#)
        try await expectEqual(client.next(), ["type": 3, "invocationId": "1"])
    }

    @Test func `a failed stream and an item of the wrong type fail the method`() async throws {
        let test = try await HubUnderTest()
        test.hub.on("Sum") { (caller, items: HubStream<Int>) in try await items.reduce(0, +) }
        let client = try await test.connect()
        let call = #"{"type":1,"invocationId":"1","target":"Sum","arguments":[],"streamIds":["2"]}"#
        client.send(call, #"{"type":3,"invocationId":"2","error":"broken"}"#)
        try await expectEqual(client.next()["error"]?.string?.hasSuffix("HubException: broken"), true)
        client.send(call, #"{"type":2,"invocationId":"2","item":"text"}"#)
        try await expectEqual(client.next()["error"], "An unexpected error occurred invoking 'Sum' on the server.")
        client.send(call, #"{"type":2,"invocationId":"2","item":5}"#, #"{"type":3,"invocationId":"2"}"#)
        try await expectEqual(client.next()["result"], 5)
    }

    // MARK: Client results

    @Test func `a method waits for a result of its caller`() async throws {
        let test = try await HubUnderTest()
        test.hub.on("Ask") { (caller, question: String) in
            let answer: String = try await caller.clients.caller.invoke("Answer", question)
            try await caller.clients.caller.invoke("Thanks")
            return answer
        }
        let client = try await test.connect()
        client.send(#"{"type":1,"invocationId":"1","target":"Ask","arguments":["why"]}"#)
        try await expectEqual(client.next(), ["type": 1, "invocationId": "s1", "target": "Answer", "arguments": ["why"]])
        client.send(#"{"type":3,"invocationId":"s1","result":"because"}"#)
        try await expectEqual(client.next()["target"], "Thanks")
        client.send(#"{"type":3,"invocationId":"s2","result":null}"#)
        try await expectEqual(client.next()["result"], "because")
    }

    @Test func `a result that doesn't come, is wrong or is an error throws`() async throws {
        let test = try await HubUnderTest()
        let client = try await test.connect()
        let proxy = test.hub.clients.client(try #require(test.hub.connectionIDs.first))
        func error(_ respond: @escaping @Sendable (String) -> Void) async throws -> HubInvocationError.Code? {
            async let result: Int = proxy.invoke("Number", timeLimit: .seconds(5))
            let id = try await client.next()["invocationId"]?.string ?? ""
            respond(id)
            do {
                _ = try await result
                return nil
            } catch let error as HubInvocationError {
                return error.code
            }
        }
        func response(_ rest: String) -> @Sendable (String) -> Void {
            { id in client.send(#"{"type":3,"invocationId":"\#(id)"\#(rest)}"#) }
        }
        try await expectEqual(error(response(#","error":"no""#)), .failed)
        try await expectEqual(error(response(#","result":"x""#)), .invalidResult)
        try await expectEqual(error(response("")), .invalidResult)
        try await expectNil(error(response(#","result":1"#)))
        let clock = test.clock
        let timeout = try await error { _ in clock.advance(by: .seconds(5)) }
        let ending = try await error { _ in client.close() }
        expect(timeout == .timedOut && ending == .disconnected)
        await #expect(throws: HubInvocationError.self) { let _: Int = try await proxy.invoke("Number") }
    }

    // MARK: Slow clients

    @Test func `sending to one client waits until it reads and sending to all doesn't`() async throws {
        let test = try await HubUnderTest()
        test.network.messageBacklogBytes = 4_000
        let (slow, fast) = (try await test.connect(), try await test.connect())
        let text = String(repeating: "a", count: 1_000)
        let sent = EventRecorder<Int>()
        let ids = test.hub.connectionIDs
        slow.pauseReading()
        try await test.hub.clients.all.send("One", text)
        expectEqual(fast.take().count, 1)
        let task = Task {
            for id in ids {
                for number in 0..<20 {
                    try await test.hub.clients.client(id).send("Many", text)
                    sent.record(number)
                }
            }
        }
        try await eventually { sent.all.count >= 3 }
        for _ in 0..<200 { await Task.yield() }
        expect(sent.all.count < 40)
        slow.resumeReading()
        try await task.value
        expect(sent.all.count == 40 && test.hub.connectionIDs == ids)
    }

    @Test func `a client that never reads is disconnected and others aren't`() async throws {
        let test = try await HubUnderTest()
        test.network.messageBacklogBytes = 4_000
        let (slow, fast) = (try await test.connect(), try await test.connect())
        slow.pauseReading()
        for _ in 0..<20 { try await test.hub.clients.all.send("Many", String(repeating: "a", count: 1_000)) }
        expect(fast.take().count == 20 && fast.endings.all.isEmpty)
        expect(slow.endings.all.count == 1 && test.hub.connectionIDs.count == 1)
    }

    // MARK: The user's code

    /// A value whose coding calls the server, which would wait forever under the server's lock.
    private struct Caller: Codable {
        // Set before the only test that uses it calls the server.
        nonisolated(unsafe) static weak var hub: Hub?

        init() {}
        init(from decoder: any Decoder) throws { _ = Self.hub?.connectionIDs }
        func encode(to encoder: any Encoder) throws {
            _ = Self.hub?.connectionIDs
            var container = encoder.singleValueContainer()
            try container.encode(1)
        }
    }

    /// An object whose deinitializer calls the server.
    private final class Captured: Sendable {
        let hub: Hub
        init(_ hub: Hub) { self.hub = hub }
        deinit { self.hub.off("Other") }
        func use() {}
    }

    @Test func `the user's code never runs under a lock`() async throws {
        let test = try await HubUnderTest()
        Caller.hub = test.hub
        test.hub.on("Echo") { (caller, value: Caller) in
            try await caller.clients.all.send("Receive", value)
            return Caller()
        }
        let client = try await test.connect()
        client.send(#"{"type":1,"invocationId":"1","target":"Echo","arguments":[1]}"#)
        try await expectEqual(client.next()["arguments"], [1])
        try await expectEqual(client.next()["result"], 1)
        do {
            let captured = Captured(test.hub)
            test.hub.on("Other") { caller in captured.use() }
            test.hub.onConnected { caller in captured.use() }
        }
        test.hub.on("Other") { caller in }
        test.hub.onConnected { caller in }
    }

    @MainActor private final class Model {
        var numbers: [Int] = []
    }

    @Test func `a method can be isolated to the main actor`() async throws {
        let test = try await HubUnderTest()
        let model = Model()
        test.hub.on("Append") { @MainActor (caller, number: Int) in
            model.numbers.append(number)
            return model.numbers.count
        }
        let client = try await test.connect()
        try await expectEqual(client.invoke("Append", "5")["result"], 1)
        await expectEqual(model.numbers, [5])
    }

    // MARK: Connections

    private actor Counter {
        private var count = 0

        func add<Number: BinaryInteger & Codable & Sendable>(to hub: Hub, _ name: String, _ type: Number.Type) {
            hub.on(name) { (caller, number: Number) in await self.increase(Int(number)) }
        }

        private func increase(_ number: Int) -> Int {
            self.count += number
            return self.count
        }
    }

    /// Adds methods whose types only the caller knows.
    private static func addMethods<Value: Codable & Sendable, each Argument: Codable & Sendable>(
        to hub: Hub, _ type: Value.Type, _ types: repeat (each Argument).Type
    ) {
        hub.on("Echo") { (caller, value: Value) in value }
        hub.on("Pair") { (caller, value: Value, values: [Value]) in [value] + values }
        hub.on("Forward") { (caller, arguments: repeat each Argument) in
            try await caller.clients.caller.send("Forwarded", repeat each arguments)
        }
        hub.stream("Repeat") { (caller, value: Value, count: Int) in
            AsyncStream { continuation in
                for _ in 0..<count { continuation.yield(value) }
                continuation.finish()
            }
        }
        hub.stream("Same") { (caller, values: HubStream<Value>) in values }
    }

    @Test func `methods can be added by generic functions and by actors`() async throws {
        let test = try await HubUnderTest()
        Self.addMethods(to: test.hub, Person.self, Int.self, String.self)
        let counter = Counter()
        await counter.add(to: test.hub, "Count", Int8.self)
        let client = try await test.connect()
        try await expectEqual(client.invoke("Echo", #"{"name":"Bert"}"#)["result"]?["name"], "Bert")
        try await expectEqual(client.invoke("Pair", #"{"name":"a"},[{"name":"b"}]"#)["result"]?.array?.count, 2)
        try await expectEqual(client.invoke("Forward", #"1,"a""#), ["type": 1, "target": "Forwarded", "arguments": [1, "a"]])
        try await expectEqual(client.next()["type"], 3)
        try await expectEqual(client.invoke("Count", "7")["result"], 7)
        try await expect(client.invoke("Count", "300")["error"] != nil)
        client.send(#"{"type":4,"invocationId":"2","target":"Repeat","arguments":[{"name":"c"},1]}"#)
        try await expectEqual(client.next()["item"]?["name"], "c")
        try await expectEqual(client.next(), ["type": 3, "invocationId": "2"])
        client.send(#"{"type":4,"invocationId":"3","target":"Same","arguments":[],"streamIds":["4"]}"#)
        client.send(#"{"type":2,"invocationId":"4","item":{"name":"d"}}"#)
        try await expectEqual(client.next()["item"]?["name"], "d")
    }

    @Test func `connection handlers see the client from its beginning to its end`() async throws {
        var hooks = SignalRServerHooks()
        hooks.authenticate = { .accept(userID: $0.token) }
        let test = try await HubUnderTest(hooks: hooks)
        let log = EventRecorder<String>()
        test.hub.onConnected { caller in
            log.record("\(caller.userID ?? "") \(caller.request.query)")
            caller.groups.add(caller.connectionID, to: "all")
            try await caller.clients.caller.send("Welcome")
        }
        test.hub.onDisconnected { caller, error in log.record("\(caller.userID ?? "") \(error?.message ?? "left")") }
        let anna = try await test.connect("/hub?access_token=anna")
        let bert = try await test.connect("/hub", headers: ["Authorization": "Bearer bert"])
        try await expectEqual(anna.next()["target"], "Welcome")
        try await expectEqual(bert.next()["target"], "Welcome")
        try await test.hub.clients.user("anna").send("Hi")
        try await expect(anna.next()["target"] == "Hi" && bert.take() == [])
        expectEqual(test.hub.clients.group("all").connectionIDs.count, 2)
        anna.close()
        try await eventually { log.all.contains("anna left") }
        bert.close(.internalError)
        try await eventually { log.all.contains("bert The client closed the connection with code 1011.") }
        expectEqual(test.hub.connectionIDs, [])
    }

    @Test func `a failing connection handler rejects the client`() async throws {
        let test = try await HubUnderTest()
        test.hub.onConnected { _ in throw HubException("full") }
        let client = try await test.connect()
        try await expectEqual(client.next(), ["type": 7, "error": "Connection closed with an error. HubException: full"])
        try await expectEqual(client.ending(), .peer(.normal, ""))
    }

    @Test func `groups are per hub and end with their members`() async throws {
        let test = try await HubUnderTest()
        let other = test.server.hub("/other")
        expect(test.server.hub("/other") === other)
        let client = try await test.connect()
        let stranger = try await test.connect("/other")
        let id = try #require(test.hub.connectionIDs.first)
        test.hub.groups.add(id, to: "g")
        other.groups.add(id, to: "g")
        try await test.hub.clients.group("g").send("A")
        try await other.clients.group("g").send("B")
        try await other.clients.all.send("C")
        try await expectEqual(client.next()["target"], "A")
        try await expect(stranger.next()["target"] == "C" && client.take() == [])
        test.hub.groups.remove(id, from: "g")
        expectEqual(test.hub.clients.group("g").connectionIDs, [])
    }

    @Test func `arguments that can't be encoded throw`() async throws {
        let test = try await HubUnderTest()
        let client = try await test.connect()
        await #expect(throws: (any Error).self) { try await test.hub.clients.all.send("A", Double.nan) }
        try await test.hub.clients.all.send("B", 1.5)
        try await expectEqual(client.next()["target"], "B")
    }

    // MARK: The end of the server

    @Test func `releasing the server closes connections although closures refer to its hubs`() async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        var server: SignalRServer? = SignalRServer(network: network, log: .none)
        weak let weakHub: Hub?
        let client: RawHubClient
        do {
            let hub = try #require(server?.hub("/hub"))
            weakHub = hub
            hub.on("Send") { caller in try await hub.clients.all.send("X") }
            let address = try #require(await server?.start(on: network.listener()))
            client = RawHubClient(network, address, "/hub")
            client.send(#"{"protocol":"json","version":1}"#)
            _ = try await client.next()
        }
        server = nil
        try await expectEqual(client.next(), ["type": 7, "allowReconnect": true])
        try await expectEqual(client.ending(), .peer(.goingAway, ""))
        try await eventually { weakHub == nil }
    }

    @Test func `the server stops and starts again`() async throws {
        let test = try await HubUnderTest()
        let client = try await test.connect()
        await test.server.stop()
        try await expectEqual(client.ending(), .peer(.goingAway, ""))
        let address = try await test.server.start(on: test.network.listener())
        let second = RawHubClient(test.network, address, "/hub")
        second.send(#"{"protocol":"json","version":1}"#)
        try await expectEqual(second.next(), [:])
    }
}
