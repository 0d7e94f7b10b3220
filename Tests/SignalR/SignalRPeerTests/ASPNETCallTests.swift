import Foundation
import PeerSupport
import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import SignalRHubs
import SignalRWire
import TestSupport
import Testing

/// A person, as the server declares it, with the names of its properties in each format.
private struct Person: Codable, Equatable, Sendable {
    var name: String
    var age: Int
    var tags: [String]?
    var friend: [Person]?

    enum CodingKeys: String, CodingKey { case name, age, tags }
}

/// Calls, streams and results of the client with an ASP.NET Core server in its own process.
@Suite(.usesSockets, .requires(.peers("aspnet")), .timeLimit(.minutes(10)))
struct ASPNETCallTests {
    // MARK: Values

    @Test(arguments: HubPair.allCases)
    func `values of every kind arrive unchanged`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair)
        func expectEcho<Value: Codable & Equatable & Sendable>(
            _ method: String, _ value: Value, location: SourceLocation = #_sourceLocation
        ) async throws {
            let result = try await hub.invoke(method, value, as: Value.self)
            #expect(result == value, sourceLocation: location)
        }
        try await expectEqual(hub.invoke("Add", 2, 40, as: Int.self), 42)
        try await expectEqual(hub.invoke("add", -2, -40, as: Int.self), -42)
        for text in ["", "a", "héllo 🌍\u{1E}\n\"\\", String(repeating: "é", count: 100_000)] { try await expectEcho("EchoText", text) }
        try await expectEcho("EchoText", String?.none)
        for number in [0, 1, -1, 127, 128, -128, -129, 65_535, 1 << 32, Int.max, Int.min] { try await expectEcho("EchoLong", number) }
        for number in [0, 255, 1 << 40, UInt64.max] { try await expectEcho("EchoUnsigned", number) }
        for number in [0, 1, -1, 1.5, 0.1, 1e300, -1e-300] { try await expectEcho("EchoDouble", number) }
        for flag in [true, false] { try await expectEcho("EchoBool", flag) }
        for count in [0, 1, 255, 256, 70_000] { try await expectEcho("EchoBytes", Data((0..<count).map { UInt8(truncatingIfNeeded: $0) })) }
        try await expectEcho("EchoGuid", UUID())
        try await expectEcho("EchoPerson", Person(name: "Anna", age: 30, tags: ["a", "b"]))
        try await expectEcho("EchoMap", ["a": 1.5, "B": 2, "ü": -3])
        try await expectEcho("EchoList", [1, nil, 3])
        for color in ["Red", "Blue"] { try await expectEcho("EchoEnum", color) }
        try await expectEqual(hub.invoke("Text", 200_000, as: String.self), String(repeating: "x", count: 200_000))
        try await expectEqual(hub.invoke("Bytes", 300, as: Data.self), Data((0..<300).map { UInt8(truncatingIfNeeded: $0) }))
        // More than the limit of URLSession's default.
        try await expectEqual(hub.invoke("Text", 2_000_000, as: String.self).utf8.count, 2_000_000)
        hub.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `dates keep their ten-millionths of a second`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair)
        for seconds in [0, 1_700_000_000, 1_700_000_000.5, -86_400, 253_402_300_799] {
            let date = Date(timeIntervalSince1970: seconds)
            try await expectEqual(hub.invoke("EchoDate", date, as: Date.self), date)
        }
        let precise = Date(timeIntervalSince1970: 1_700_000_000.123_456_7)
        let result = try await hub.invoke("EchoDate", precise, as: Date.self)
        expect(abs(result.timeIntervalSince(precise)) < 1e-6)
        if pair.format == .json {
            let offset = try await hub.invoke("EchoOffset", "2026-01-31T12:00:00+02:00", as: Date.self)
            expectEqual(offset, Date(timeIntervalSince1970: 1_769_853_600))
        }
        hub.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `values of any type are decoded by their form`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair)
        try await expectEqual(hub.invoke("EchoAny", "text", as: String.self), "text")
        try await expectEqual(hub.invoke("EchoAny", 3, as: Double.self), 3)
        try await expectEqual(hub.invoke("EchoAny", [1, 2, 3], as: [Int].self), [1, 2, 3])
        try await expectNil(hub.invoke("EchoAny", Int?.none, as: Int?.self))
        try await expectEqual(hub.invoke("Invoke", "x", ["a": 1], as: [String: Int].self), ["a": 1])
        hub.stop()
    }

    // MARK: Invocations

    @Test(arguments: HubPair.allCases)
    func `methods without a result and with another name can be called`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair)
        // The result of a method without one is absent or null.
        try await hub.invoke("InvokeWithoutReturn", "x")
        try await expectEqual(hub.invoke("named-method", as: String.self), "named")
        try await expectEqual(hub.invoke("ConnId", as: String.self), hub.connectionID)
        try await expectEqual(hub.invoke("Transport", as: String.self), pair.transport.rawValue)
        let answers = EventRecorder<String>()
        hub.on("EchoBack") { (a: String, b: Int) in answers.record("\(a) \(b)") }
        try await hub.send("Echo", "a", 1)
        try await eventually { answers.all == ["a 1"] }
        hub.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `errors of the server are errors of their calls, and the connection remains`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair)
        let boom = await hubError { try await hub.invoke("Boom", "on purpose", as: Int.self) }
        expect(boom?.code == .invocationFailed && boom?.serverMessage?.contains("on purpose") == true)
        let crash = await hubError { try await hub.invoke("Crash", "internal", as: Int.self) }
        expectEqual(crash?.serverMessage?.contains("InvalidOperationException: internal"), true)
        let missing = await hubError { try await hub.invoke("NoSuchMethod", as: Int.self) }
        expect(missing?.code == .invocationFailed && missing?.serverMessage?.contains("does not exist") == true)
        let count = await hubError { try await hub.invoke("Add", 1, as: Int.self) }
        expectEqual(count?.code, .invocationFailed)
        let type = await hubError { try await hub.invoke("Add", "one", "two", as: Int.self) }
        expectEqual(type?.code, .invocationFailed)
        let result = await hubError { try await hub.invoke("EchoText", "text", as: Int.self) }
        expectEqual(result?.code, .decodingFailed)
        let streaming = await hubError { try await hub.invoke("Counter", 1, 0, as: Int.self) }
        expectEqual(streaming?.code, .invocationFailed)
        let (_, invoked) = try await hub.stream("Add", 1, 2, of: Int.self).all()
        expectEqual(invoked?.code, .invocationFailed)
        try await expectEqual(hub.invoke("Add", 1, 2, as: Int.self), 3)
        hub.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `many calls at the same time receive their own results`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair)
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<500 {
                group.addTask { try await hub.invoke("EchoLong", number, as: Int.self) == number }
            }
            for try await isRight in group { expect(isRight) }
        }
        hub.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `a cancelled call returns immediately, and so does one with a time limit`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair)
        let call = Task { await hubError { try await hub.invoke("Slow", 3_600_000, as: String.self) } }
        call.cancel()
        await expectEqual(call.value?.code, .cancelled)
        let error = await hubError { try await hub.invoke("Slow", 3_600_000, within: .milliseconds(50)) }
        expectEqual(error?.code, .timedOut)
        try await expectEqual(hub.invoke("Add", 1, 2, as: Int.self), 3)
        hub.stop()
    }

    // MARK: Streams from the server

    @Test(arguments: HubPair.allCases)
    func `streams from the server deliver their items, their end and their errors`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair)
        let (texts, noError) = try await hub.stream("Stream", of: String.self).all()
        expect(texts == ["a", "b", "c"] && noError == nil)
        try await expectEqual(hub.stream("Counter", 10_000, 0, of: Int.self).all().elements, Array(0..<10_000))
        try await expectEqual(hub.stream("Counter", 0, 0, of: Int.self).all().elements, [])
        let (items, error) = try await hub.stream("FailingStream", 3, "on purpose", of: Int.self).all()
        expect(items == [0, 1, 2] && error?.code == .invocationFailed && error?.serverMessage?.contains("on purpose") == true)
        hub.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `the server ends streams that the client doesn't read any more`(pair: HubPair) async throws {
        let server = try await ASPNETServer()
        let hub = try await server.connected("/test", pair)
        for try await item in try hub.stream("Counter", 1_000_000, 1, of: Int.self) where item == 3 { break }
        let task = Task {
            for try await _ in try hub.stream("Counter", 1_000_000, 1, of: Int.self) {}
        }
        try await eventually { try await server.control("streams", "GET")["started"] == 2 }
        task.cancel()
        _ = await task.result
        _ = try hub.stream("Counter", 1_000_000, 1, of: Int.self)
        try await eventually("3 cancelled streams") { try await server.control("streams", "GET")["cancelled"] == 3 }
        hub.stop()
    }

    // MARK: Streams to the server

    @Test(arguments: HubPair.allCases)
    func `streams to the server arrive completely, also several of them beside arguments`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair)
        func numbers(_ range: Range<Int>) -> HubUpload {
            HubUpload(
                AsyncStream { feed in
                    for number in range { feed.yield(number) }
                    feed.finish()
                })
        }
        try await expectEqual(hub.invoke("Sum", numbers(0..<10_000), as: Int.self), 49_995_000)
        try await expectEqual(hub.invoke("Sum", numbers(0..<0), as: Int.self), 0)
        try await expectEqual(hub.invoke("AddNumbers", 5, numbers(0..<4), as: Int.self), 11)
        try await expectEqual(hub.invoke("Both", numbers(0..<5), numbers(10..<12), as: [Int].self), [10, 21])
        let (counted, _) = try await hub.stream("Count", 7, numbers(0..<3), of: Int.self).all()
        expectEqual(counted, [8, 9, 10])
        let words = { HubUpload(["a", "bé", ""].async) }
        try await expectEqual(hub.invoke("Join", "-", words(), as: String.self), "a-bé-")
        let (echoed, _) = try await hub.stream("EchoStream", words(), of: String.self).all()
        expectEqual(echoed, ["a", "bé", ""])
        hub.stop()
    }

    /// ASP.NET Core 10 closes the connection with a `ChannelClosedException` if a method returns while an item of its stream is being taken,
    /// which is rare with fewer items than the server buffers. The stream of the client ends then as well.
    @Test(arguments: HubPair.allCases)
    func `a stream to the server ends when the method returns before it`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair)
        for _ in 0..<20 {
            let terminations = EventRecorder<Bool>()
            // Only the call refers to the sequence, which ends when it is released if the call ends while an item is sent.
            do throws(HubError) {
                let result = try await hub.invoke(
                    "TakeFew", 3,
                    HubUpload(
                        AsyncStream<Int> { feed in
                            for number in 0..<8 { feed.yield(number) }
                            feed.onTermination = { _ in terminations.record(true) }
                        }), as: Int.self)
                expectEqual(result, 3)
            } catch {
                guard error.message.contains("ChannelClosedException") else { throw error }
                try await server.start { try await hub.start() }
            }
            try await eventually { terminations.all.count == 1 }
        }
        try await expectEqual(hub.invoke("Add", 1, 2, as: Int.self), 3)
        hub.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `an error of a stream to the server arrives there`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair)
        let items = AsyncThrowingStream<Int, any Error> { feed in
            feed.yield(1)
            feed.yield(2)
            feed.finish(throwing: HubError(.handlerFailed, "The file ended."))
        }
        let text = try await hub.invoke("UploadError", HubUpload(items), as: String.self)
        expect(text.hasPrefix("2 ") && text.contains("The file ended."))
        hub.stop()
    }

    // MARK: Calls by the server

    @Test(arguments: HubPair.allCases)
    func `handlers are called in order, and their results are returned`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair)
        let burst = EventRecorder<Int>()
        hub.on("tick") { (number: Int, _: String) in burst.record(number) }
        try await hub.send("Burst", "tick", 5_000, "text")
        try await eventually { burst.all.count == 5_000 }
        expectEqual(burst.all, Array(0..<5_000))
        // A handler may call the server.
        hub.on("double") { (a: Int) in try await hub.invoke("Add", a, a, as: Int.self) }
        try await expectEqual(hub.invoke("AskClient", "double", 21, as: Int.self), 42)
        try await expectEqual(hub.invoke("AskClientMany", "double", 20, as: Int.self), 380)
        let back = EventRecorder<String>()
        hub.on("EchoBack") { (a: String) in back.record(a) }
        hub.on("ClientResult") { (a: String) in "result of \(a)" }
        try await hub.send("InvokeWithClientResult", "x")
        try await eventually { back.all == ["result of x"] }
        hub.off("ClientResult")
        hub.on("ClientResult") { (_: String) in }
        try await hub.send("InvokeWithEmptyClientResult", "x")
        try await eventually { back.all == ["result of x", "received"] }
        hub.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `a handler that throws, is missing or has other parameters is an error at the server`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair)
        hub.on("throw") { () async throws -> Int in throw HubError(.handlerFailed, "Out of stock.") }
        hub.on("foreign") { () async throws -> Int in throw CancellationError() }
        hub.on("other") { (a: Int) in a }
        try await expect(hub.invoke("AskClientError", "throw", as: String.self).contains("Out of stock."))
        try await expect(hub.invoke("AskClientError", "foreign", as: String.self).contains("an error of type CancellationError"))
        try await expect(hub.invoke("AskClientError", "missing", as: String.self).contains("Client didn't provide a result."))
        try await expect(hub.invoke("AskClientError", "other", as: String.self).contains("argument"))
        try await expectEqual(hub.invoke("Add", 1, 2, as: Int.self), 3)
        hub.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `clients of a group, of a user and of both formats receive messages`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let clients = try await [
            server.connected("/test", pair), server.connected("/test", .json), server.connected("/test", .messagePack),
        ]
        // ASP.NET Core answers the handshake before it adds the connection to those that receive messages: only then, it handles calls.
        for client in clients { try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3) }
        // The server is shared.
        let (group, note) = ("group-\(pair)", "note-\(pair)")
        let received = clients.map { _ in EventRecorder<String>() }
        for (client, record) in zip(clients, received) { client.on(note) { (a: String) in record.record(a) } }
        for client in clients.prefix(2) { try await client.invoke("JoinGroup", group) }
        let first = clients[0]
        try await first.invoke("Broadcast", note, "all")
        try await first.invoke("Others", note, "others")
        try await first.invoke("ToGroup", group, note, "group")
        try await clients[1].invoke("LeaveGroup", group)
        try await first.invoke("ToGroup", group, note, "left")
        try await first.invoke("Broadcast", note, "end")
        try await eventually { received.allSatisfy { $0.all.last == "end" } }
        expectEqual(received.map(\.all), [["all", "group", "left", "end"], ["all", "others", "group", "end"], ["all", "others", "end"]])
        // Two users.
        let user = "bert\(pair)"
        let anna = try await server.connected("/auth", pair) { $0.accessToken = { "token-anna" } }
        let bert = try await server.connected("/auth", pair) { $0.accessToken = { "token-\(user)" } }
        let notes = EventRecorder<String>()
        bert.on(note) { (a: String) in notes.record(a) }
        try await expectEqual(bert.invoke("Add", 1, 2, as: Int.self), 3)
        try await anna.invoke("ToUser", user, note, "hello")
        try await eventually { notes.all == ["hello"] }
        for client in clients + [anna, bert] { client.stop() }
    }
}

extension Array where Element: Sendable {
    /// The elements as an asynchronous sequence.
    fileprivate var async: AsyncStream<Element> {
        AsyncStream { feed in
            for element in self { feed.yield(element) }
            feed.finish()
        }
    }
}
