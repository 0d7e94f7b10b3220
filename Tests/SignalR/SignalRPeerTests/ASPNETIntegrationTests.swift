import PeerSupport
import RealtimeTesting
import SignalRClient
import SignalRWire
import TestSupport
import Testing

private final class Item: Codable, Equatable, Sendable {
    let name: String
    let count: Int

    init(name: String, count: Int) { (self.name, self.count) = (name, count) }

    static func == (a: Item, b: Item) -> Bool { (a.name, a.count) == (b.name, b.count) }
}

/// The cases of the integration tests of signalr-client-swift, with a value of each of their types, over each transport and in each format.
@Suite(.usesSockets, .requires(.peers("aspnet")), .timeLimit(.minutes(10)))
struct ASPNETIntegrationTests {
    private static func numbers() -> AsyncStream<Int> {
        AsyncStream { feed in
            for number in 0...5 { feed.yield(number) }
            feed.finish()
        }
    }

    /// Performs a check with a value of each type.
    private static func forEachType(_ subject: some ValueCheck) async throws {
        try await subject.check("héllo")
        try await subject.check(-70_000)
        try await subject.check(1.2)
        try await subject.check(true)
        try await subject.check([1, 2, 3])
        try await subject.check(["key": "välue"])
        try await subject.check(Item(name: "name", count: 2))
    }

    @Test(arguments: HubPair.allCases)
    func `a connection starts and stops`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let connection = try await server.startedConnection(pair)
        await expectEqual(connection.state(), .Connected)
        await connection.stop()
        await expectEqual(connection.state(), .Stopped)
    }

    @Test(arguments: HubPair.allCases)
    func `ten connections are open at the same time`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let connections = (0..<10).map { _ in server.hubConnection(pair) }
        try await withThrowingTaskGroup { group in
            for connection in connections { group.addTask { try await server.start { try await connection.start() } } }
            try await group.waitForAll()
        }
        var ids: Set<String> = []
        for connection in connections { ids.insert(try await connection.invoke(method: "ConnId")) }
        expectEqual(ids.count, 10)
        for connection in connections { await connection.stop() }
    }

    @Test(arguments: HubPair.allCases)
    func `a handler receives what was sent, of every type`(pair: HubPair) async throws {
        struct Sent: ValueCheck {
            let connection: HubConnection

            func check<Value: Equatable & Sendable>(_ value: Value) async throws {
                let received = EventRecorder<(String, Value)>()
                let token = await self.connection.on("EchoBack") { (text: String, value: Value) in received.record((text, value)) }
                try await self.connection.send(method: "Echo", arguments: "text", value)
                try await eventually { received.all.count == 1 }
                expect(received.all.first?.0 == "text" && received.all.first?.1 == value)
                token.cancel()
            }
        }
        let server = try await ASPNETServer.shared.value
        let connection = try await server.startedConnection(pair)
        try await Self.forEachType(Sent(connection: connection))
        await connection.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `a call returns its argument, of every type`(pair: HubPair) async throws {
        struct Invoked: ValueCheck {
            let connection: HubConnection

            func check<Value: Equatable & Sendable>(_ value: Value) async throws {
                let result: Value = try await self.connection.invoke(method: "Invoke", arguments: "text", value)
                expectEqual(result, value)
            }
        }
        let server = try await ASPNETServer.shared.value
        let connection = try await server.startedConnection(pair)
        try await Self.forEachType(Invoked(connection: connection))
        await connection.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `a call without a result completes`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let connection = try await server.startedConnection(pair)
        try await connection.invoke(method: "InvokeWithoutReturn", arguments: "text")
        await connection.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `a stream delivers its items in order`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let connection = try await server.startedConnection(pair)
        let stream: any StreamResult<String> = try await connection.stream(method: "Stream")
        var items: [String] = []
        for try await item in stream.stream { items.append(item) }
        expectEqual(items, ["a", "b", "c"])
        await connection.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `the result of a handler arrives at the server`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let connection = try await server.startedConnection(pair)
        let (asked, answers) = (EventRecorder<String>(), EventRecorder<String>())
        await connection.on("EchoBack") { (text: String) in answers.record(text) }
        await connection.on("ClientResult") { (text: String) -> String in
            asked.record(text)
            return "result of \(text)"
        }
        try await connection.send(method: "InvokeWithClientResult", arguments: "text")
        try await eventually { answers.all == ["result of text"] }
        expectEqual(asked.all, ["text"])
        await connection.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `a handler without a result completes the server's call`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let connection = try await server.startedConnection(pair)
        let (asked, answers) = (EventRecorder<String>(), EventRecorder<String>())
        await connection.on("EchoBack") { (text: String) in answers.record(text) }
        await connection.on("ClientResult") { (text: String) in asked.record(text) }
        try await connection.send(method: "invokeWithEmptyClientResult", arguments: "text")
        try await eventually { answers.all == ["received"] }
        expectEqual(asked.all, ["text"])
        await connection.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `a stream is an argument of every kind of call`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let connection = try await server.startedConnection(pair)
        try await connection.send(method: "AddNumbers", arguments: 10, Self.numbers())
        try await connection.invoke(method: "AddNumbers", arguments: 10, Self.numbers())
        let sum: Int = try await connection.invoke(method: "AddNumbers", arguments: 10, Self.numbers())
        expectEqual(sum, 25)
        let stream: any StreamResult<Int> = try await connection.stream(method: "Count", arguments: 10, Self.numbers())
        var items: [Int] = []
        for try await item in stream.stream { items.append(item) }
        expectEqual(items, Array(11...16))
        await connection.stop()
    }
}

/// A check of a value of any type.
private protocol ValueCheck: Sendable {
    func check<Value: Equatable & Sendable>(_ value: Value) async throws
}
