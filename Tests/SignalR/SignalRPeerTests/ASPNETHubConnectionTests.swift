import PeerSupport
import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import SignalRClient
import SignalRWire
import TestSupport
import Testing

private struct Person: Codable, Equatable, Sendable {
    var name: String
    var age: Int
    var tags: [String]
}

/// The API of signalr-client-swift with an ASP.NET Core server in its own process.
@Suite(.usesSockets, .requires(.peers("aspnet")), .timeLimit(.minutes(10)))
struct ASPNETHubConnectionTests {
    // MARK: Connecting

    @Test(arguments: HubPair.allCases)
    func `a connection has the server's ID until it is stopped, and then another one`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let connection = server.hubConnection(pair)
        let closed = EventRecorder<Bool>()
        connection.onClosed { error in closed.record(error == nil) }
        await expectEqual(connection.state(), .Stopped)
        var ids: Set<String> = []
        for round in 1...2 {
            try await server.start { try await connection.start() }
            await expectEqual(connection.state(), .Connected)
            let id: String = try await connection.invoke(method: "ConnId")
            expectEqual(id, connection.connectionId)
            ids.insert(id)
            let transport: String = try await connection.invoke(method: "Transport")
            expectEqual(transport, pair.transport.rawValue)
            await connection.stop()
            await expectEqual(connection.state(), .Stopped)
            expectNil(connection.connectionId)
            expectEqual(closed.all.count, round)
        }
        expectEqual(ids.count, 2)
        expectEqual(closed.all, [true, true])
    }

    // MARK: Sending and receiving

    @Test(arguments: HubPair.allCases)
    func `what is sent comes back to the handlers, until they are removed`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let connection = try await server.startedConnection(pair)
        let (first, second, ends) = (EventRecorder<String>(), EventRecorder<String>(), EventRecorder<Bool>())
        let token = await connection.on("EchoBack") { (text: String, number: Int) in first.record("\(text) \(number)") }
        await connection.on("EchoBack") { (text: String, number: Int) in second.record("\(text) \(number)") }
        await connection.on("end") { (value: Bool) in ends.record(value) }
        try await connection.send(method: "Echo", arguments: "a", 1)
        try await eventually { second.all == ["a 1"] }
        expectEqual(first.all, ["a 1"])
        token.cancel()
        try await connection.send(method: "Echo", arguments: "bé", -70_000)
        try await eventually { second.all == ["a 1", "bé -70000"] }
        connection.off(method: "EchoBack")
        try await connection.invoke(method: "Echo", arguments: "c", 3)
        try await connection.invoke(method: "CallBack", arguments: "end", true)
        try await eventually { ends.all == [true] }
        expect(first.all == ["a 1"] && second.all == ["a 1", "bé -70000"])
        await connection.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `a handler receives values of many types`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let connection = try await server.startedConnection(pair)
        let (lists, maps, people) = (EventRecorder<[Double]>(), EventRecorder<[String: String]>(), EventRecorder<Person?>())
        let (list, map) = ([1.25, -2.5], ["a": "b", "C": "ü"])
        let anna = Person(name: "Anna", age: 30, tags: ["a", "b"])
        let listToken = await connection.on("EchoBack") { (_: String, value: [Double]) in lists.record(value) }
        try await connection.send(method: "Echo", arguments: "list", list)
        try await eventually { lists.all == [list] }
        listToken.cancel()
        let mapToken = await connection.on("EchoBack") { (_: String, value: [String: String]) in maps.record(value) }
        try await connection.send(method: "Echo", arguments: "map", map)
        try await eventually { maps.all == [map] }
        mapToken.cancel()
        await connection.on("EchoBack") { (_: String, value: Person?) in people.record(value) }
        try await connection.send(method: "Echo", arguments: "person", anna)
        try await eventually { people.all == [anna] }
        try await connection.send(method: "Echo", arguments: "no person", Person?.none as Any)
        try await eventually { people.all == [anna, nil] }
        await connection.stop()
    }

    // MARK: Invocations

    @Test(arguments: HubPair.allCases)
    func `results have the type that the caller asks for`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let connection = try await server.startedConnection(pair)
        // Once with a method of the type, and once with one of any type.
        func expectEcho<Value: Equatable>(
            _ method: String, _ value: Value, _ location: Testing.SourceLocation = #_sourceLocation
        ) async throws {
            let result: Value = try await connection.invoke(method: method, arguments: value)
            #expect(result == value, sourceLocation: location)
            let untyped: Value = try await connection.invoke(method: "Invoke", arguments: "x", value)
            #expect(untyped == value, sourceLocation: location)
        }
        try await expectEcho("EchoText", "héllo 🌍\u{1E}\n\"\\")
        for number in [0, -1, 70_000, Int.max, Int.min] { try await expectEcho("EchoLong", number) }
        for number in [1.25, -1e300] { try await expectEcho("EchoDouble", number) }
        for flag in [true, false] { try await expectEcho("EchoBool", flag) }
        try await expectEcho("EchoList", [1, 2, 3])
        try await expectEcho("EchoList", [1, nil, 3])
        try await expectEcho("EchoMap", ["a": 1.5, "B": -2.25])
        try await expectEcho("EchoPerson", Person(name: "Anna", age: 30, tags: ["a", "b"]))
        try await expectEcho("EchoText", String?.none)
        try await expectEcho("EchoText", Optional("x"))
        let nothing: String? = try await connection.invoke(method: "InvokeWithoutReturn", arguments: "x")
        expectNil(nothing)
        try await connection.invoke(method: "InvokeWithoutReturn", arguments: "x")
        await connection.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `a method that throws is an error of its call, and the connection remains`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let connection = try await server.startedConnection(pair)
        for (method, type) in [("Boom", "HubException"), ("Crash", "InvalidOperationException")] {
            let message = "An unexpected error occurred invoking '\(method)' on the server. \(type): on purpose"
            await #expect(throws: SignalRError.invocationError(message)) {
                try await connection.invoke(method: method, arguments: "on purpose")
            }
            await #expect(throws: SignalRError.invocationError(message)) {
                let _: Int = try await connection.invoke(method: method, arguments: "on purpose")
            }
            // Without a result, the error isn't reported.
            try await connection.send(method: method, arguments: "on purpose")
        }
        await #expect {
            try await connection.invoke(method: "NoSuchMethod")
        } throws: { error in
            guard case SignalRError.invocationError(let text) = error else { return false }
            return text.contains("does not exist")
        }
        await #expect {
            let _: Int = try await connection.invoke(method: "EchoText", arguments: "text")
        } throws: { error in
            guard case SignalRError.invalidData(let text) = error else { return false }
            return text.contains("The result of EchoText can't be decoded as Int")
        }
        let sum: Int = try await connection.invoke(method: "Add", arguments: 1, 2)
        expectEqual(sum, 3)
        await connection.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `two calls at the same time receive their own results, in any order`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let connection = try await server.startedConnection(pair)
        let (asked, released) = (Signal(), Signal())
        await connection.on("wait") { (text: String) async -> String in
            asked.send()
            await released.wait()
            return "\(text) answered"
        }
        let first = Task { () async throws -> String in
            try await connection.invoke(method: "AskClient", arguments: "wait", "first")
        }
        await asked.wait()
        // The server completes the second call before the first one.
        let second: Int = try await connection.invoke(method: "Add", arguments: 1, 2)
        expectEqual(second, 3)
        released.send()
        try await expectEqual(first.value, "first answered")
        await connection.stop()
    }

    // MARK: Streams

    @Test(arguments: HubPair.allCases)
    func `a stream delivers its items, its end and its error`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let connection = try await server.startedConnection(pair)
        var texts: [String] = []
        let stream: any StreamResult<String> = try await connection.stream(method: "Stream")
        for try await text in stream.stream { texts.append(text) }
        expectEqual(texts, ["a", "b", "c"])
        var numbers: [Int] = []
        let counter: any StreamResult<Int> = try await connection.stream(method: "Counter", arguments: 5_000, 0)
        for try await number in counter.stream { numbers.append(number) }
        expectEqual(numbers, Array(0..<5_000))
        let items = EventRecorder<Int>()
        let failing: any StreamResult<Int> = try await connection.stream(method: "FailingStream", arguments: 3, "on purpose")
        await #expect {
            for try await item in failing.stream { items.record(item) }
        } throws: { error in
            guard case SignalRError.invocationError(let text) = error else { return false }
            return text.contains("on purpose")
        }
        expectEqual(items.all, [0, 1, 2])
        await connection.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `the server ends a stream that is cancelled, and one whose loop is left`(pair: HubPair) async throws {
        // A server of its own, which counts the streams.
        let server = try await ASPNETServer()
        let connection = try await server.startedConnection(pair)
        let cancelled: any StreamResult<Int> = try await connection.stream(method: "Counter", arguments: 1_000_000, 1)
        await #expect(throws: SignalRError.streamCancelled) {
            for try await item in cancelled.stream {
                expectEqual(item, 0)
                await cancelled.cancel()
            }
        }
        try await eventually("one cancelled stream") { try await server.control("streams", "GET")["cancelled"] == 1 }
        let left: any StreamResult<Int> = try await connection.stream(method: "Counter", arguments: 1_000_000, 1)
        for try await item in left.stream {
            expectEqual(item, 0)
            break
        }
        try await eventually("two cancelled streams") { try await server.control("streams", "GET")["cancelled"] == 2 }
        let sum: Int = try await connection.invoke(method: "Add", arguments: 1, 2)
        expectEqual(sum, 3)
        try await expectEqual(server.control("streams", "GET")["finished"], 0)
        await connection.stop()
    }

    // MARK: Client results

    @Test(arguments: HubPair.allCases)
    func `the server receives the results and the errors of handlers`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let connection = try await server.startedConnection(pair)
        await connection.on("greet") { (name: String) in "Hello, \(name)!" }
        let greeting: String = try await connection.invoke(method: "AskClient", arguments: "greet", "Anna")
        expectEqual(greeting, "Hello, Anna!")
        // A handler may call the server.
        await connection.on("double") { [weak connection] (a: Int) async throws -> Int in
            guard let connection else { throw CancellationError() }
            return try await connection.invoke(method: "Add", arguments: a, a)
        }
        let double: Int = try await connection.invoke(method: "AskClient", arguments: "double", 21)
        expectEqual(double, 42)
        let sum: Int = try await connection.invoke(method: "AskClientMany", arguments: "double", 20)
        expectEqual(sum, 380)
        await connection.on("throw") { () async throws -> Int in throw HubError(.handlerFailed, "Out of stock.") }
        let failure: String = try await connection.invoke(method: "AskClientError", arguments: "throw")
        expect(failure.contains("Out of stock."), "\(failure)")
        let missing: String = try await connection.invoke(method: "AskClientError", arguments: "missing")
        expect(missing.contains("Client didn't provide a result."), "\(missing)")
        // A handler without a result.
        let answers = EventRecorder<String>()
        await connection.on("EchoBack") { (text: String) in answers.record(text) }
        await connection.on("ClientResult") { (_: String) in }
        try await connection.send(method: "InvokeWithEmptyClientResult", arguments: "x")
        try await eventually { answers.all == ["received"] }
        await connection.stop()
    }
}
