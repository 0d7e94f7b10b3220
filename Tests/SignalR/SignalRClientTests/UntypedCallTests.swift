import Foundation
import RealtimeTesting
import SignalRClient
import SignalRTesting
import TestSupport
import Testing

/// Calls and handlers whose types are only known when they are used.
@Suite(.timeLimit(.minutes(10))) struct UntypedCallTests {
    private struct NotCodable: Sendable {}
    private struct Failure: Error {}

    private struct Running {
        let signalR: InMemorySignalR
        let hub: Hub
        let connection: HubConnection
    }

    /// A started connection to a hub whose methods return their arguments.
    private static func start(_ hubProtocol: HubProtocolType = .json) async throws -> Running {
        let signalR = try await InMemorySignalR()
        let hub = signalR.server.hub("/hub")
        hub.on("Echo") { (caller, value: JSONValue) in value }
        hub.on("EchoDate") { (caller, value: Date) in value }
        hub.on("EchoData") { (caller, value: Data) in value }
        hub.on("EchoTimestamp") { (caller, value: MsgpackTimestamp) in value }
        hub.on("Two") { (caller, a: Int, b: String) in "\(a)\(b)" }
        hub.on("Nothing") { (caller) in }
        hub.on("Sum") { (caller, offset: Int, first: HubStream<Int>, second: HubStream<Int>) async throws -> Int in
            try await first.reduce(offset, +) + second.reduce(0, +)
        }
        hub.stream("Numbers") { (caller) in
            AsyncStream<Int> { continuation in
                for number in 1...3 { continuation.yield(number) }
                continuation.finish()
            }
        }
        let connection = signalR.connectionBuilder("/hub").withHubProtocol(hubProtocol: hubProtocol).build()
        try await connection.start()
        return Running(signalR: signalR, hub: hub, connection: connection)
    }

    // MARK: Arguments and results

    @Test func `values of many types are arguments and results`() async throws {
        let running = try await Self.start()
        func echo<Value: Equatable>(_ value: Value, _ location: Testing.SourceLocation = #_sourceLocation) async throws {
            let result: Value = try await running.connection.invoke(method: "Echo", arguments: value)
            #expect(result == value, sourceLocation: location)
        }
        try await echo("text")
        try await echo(42)
        try await echo(1.25)
        try await echo(true)
        try await echo([1, 2, 3])
        try await echo(["a": "b"])
        try await echo(UUID())
        try await echo(Int?.none)
        try await echo(Optional("x"))
        try await echo(try #require(Decimal(string: "12.345")))
        try await echo(try #require(URL(string: "https://example.org/a?b=c")))
        let null: Int? = try await running.connection.invoke(method: "Echo", arguments: NSNull())
        expectNil(null)
        let nothing: String? = try await running.connection.invoke(method: "Nothing")
        expectNil(nothing)
        try await running.connection.invoke(method: "Echo", arguments: 1)
    }

    @Test(arguments: [true, false])
    func `arrays and dictionaries of any values are arguments in both formats`(isJSON: Bool) async throws {
        let running = try await Self.start(isJSON ? .json : .messagePack)
        func echo(_ value: Any) async throws -> JSONValue { try await running.connection.invoke(method: "Echo", arguments: value) }
        let inner: [String: Any] = ["lowerCase": [1, "a", true] as [Any], "nothing": Int?.none as Any, "null": NSNull()]
        let mixed: [String: Any] = ["list": [inner, 2.5, UUID?.none as Any] as [Any], "name": "x"]
        let expected: JSONValue = ["list": [["lowerCase": [1, "a", true], "nothing": nil, "null": nil], 2.5, nil], "name": "x"]
        try await expectEqual(echo(mixed), expected)
        // The second argument keeps the array from being spread.
        let pair: String = try await running.connection.invoke(method: "Two", arguments: NSNumber(value: 7), NSString("b"))
        expectEqual(pair, "7b")
        try await expectEqual(echo(Optional<Any>.none as Any), nil)
        try await expectEqual(echo(Optional<Any>.some(["a": 1 as Any]) as Any), ["a": 1])
        for (number, value) in [
            (NSNumber(value: true), true), (NSNumber(value: false), false), (NSNumber(value: 1), 1), (NSNumber(value: 0), 0),
            (NSNumber(value: -5), -5), (NSNumber(value: 1.5), 1.5),
        ] as [(NSNumber, JSONValue)] {
            try await expectEqual(echo(["value": number as Any]), ["value": value])
        }
        let nsArray = NSMutableArray()
        nsArray.add(NSNumber(value: 3))
        try await expectEqual(echo(nsArray), [3])
        await running.connection.on("Ask") { () -> [String: any Sendable] in ["answer": 42, "text": "yes"] }
        let client = running.hub.clients.client(try #require(running.connection.connectionId))
        try await expectEqual(client.invoke("Ask", returning: JSONValue.self), ["answer": 42, "text": "yes"])
    }

    @Test func `an element that can't be sent is an error that names the argument and the type`() async throws {
        let running = try await Self.start()
        await #expect {
            try await running.connection.invoke(method: "Two", arguments: 1, ["a": [NotCodable()] as [Any]] as [String: Any])
        } throws: { error in
            guard case SignalRError.invalidData(let text) = error else { return false }
            return text.contains("Argument 2") && text.contains("NotCodable")
        }
    }

    @Test func `a stream that is read twice is the same stream, and looking at it cancels nothing`() async throws {
        let running = try await Self.start()
        let result: any StreamResult<Int> = try await running.connection.stream(method: "Numbers")
        _ = result.stream
        var first = result.stream.makeAsyncIterator()
        try await expectEqual(first.next(), 1)
        _ = result.stream
        var second = result.stream.makeAsyncIterator()
        try await expectEqual(second.next(), 2)
        try await expectEqual(first.next(), 3)
        try await expectNil(second.next())
    }

    @Test func `dates, data and enumerations are arguments and results in both formats`() async throws {
        enum Suit: String, Codable { case hearts, spades }
        for hubProtocol in [HubProtocolType.json, .messagePack] {
            let running = try await Self.start(hubProtocol)
            let date = Date(timeIntervalSinceReferenceDate: 1.25)
            let sameDate: Date = try await running.connection.invoke(method: "EchoDate", arguments: date)
            expectEqual(sameDate, date)
            let data: Data = try await running.connection.invoke(method: "EchoData", arguments: Data([0, 1, 255]))
            expectEqual(data, Data([0, 1, 255]))
            let suit: Suit = try await running.connection.invoke(method: "Echo", arguments: Suit.spades)
            expectEqual(suit, .spades)
        }
    }

    @Test func `an array of values of different types is a list of arguments`() async throws {
        let running = try await Self.start()
        let result: String = try await running.connection.invoke(method: "Two", arguments: [1, "a"])
        expectEqual(result, "1a")
    }

    @Test func `an argument that can't be encoded is an error of the call alone`() async throws {
        let running = try await Self.start()
        await #expect {
            let _: Int = try await running.connection.invoke(method: "Two", arguments: 1, NotCodable())
        } throws: { error in
            guard case SignalRError.invalidData(let text) = error else { return false }
            return text.contains("Argument 2 of 2 has the type NotCodable")
        }
        await #expect(throws: SignalRError.self) { try await running.connection.send(method: "Two", arguments: NotCodable()) }
        await #expect(throws: SignalRError.self) {
            let _: any StreamResult<Int> = try await running.connection.stream(method: "Two", arguments: NotCodable())
        }
        let result: String = try await running.connection.invoke(method: "Two", arguments: 1, "a")
        expectEqual(result, "1a")
    }

    @Test func `a result that can't be decoded is an error of the call alone`() async throws {
        let running = try await Self.start()
        await #expect {
            let _: Int = try await running.connection.invoke(method: "Two", arguments: 1, "a")
        } throws: { error in
            guard case SignalRError.invalidData(let text) = error else { return false }
            return text.contains("The result of Two can't be decoded as Int: ")
        }
        await #expect(throws: SignalRError.self) {
            let _: NotCodable = try await running.connection.invoke(method: "Two", arguments: 1, "a")
        }
        let result: String = try await running.connection.invoke(method: "Two", arguments: 1, "a")
        expectEqual(result, "1a")
    }

    @Test func `own coders of Foundation are used`() async throws {
        struct Point: Codable, Equatable {
            var firstValue: Int
        }
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        let running = try await Self.start(.json(encoder, decoder))
        let keys: [String: Int] = try await running.connection.invoke(method: "Echo", arguments: Point(firstValue: 1))
        expect(keys == ["firstValue": 1] || keys == ["first_value": 1])
        let received = EventRecorder<Point>()
        await running.connection.on("Point") { (point: Point) in received.record(point) }
        try await running.hub.clients.all.send("Point", ["first_value": 2])
        try await eventually { received.all == [Point(firstValue: 2)] }
        let point: Point = try await running.connection.invoke(method: "Echo", arguments: Point(firstValue: 3))
        expectEqual(point, Point(firstValue: 3))
    }

    @Test func `own coders of MessagePack are used`() async throws {
        struct Point: Codable, Equatable {
            var firstValue: Int
        }
        for (hubProtocol, key) in [(HubProtocolType.messagePack, "FirstValue"), (.messagePack(.init(), .init()), "firstValue")] {
            let running = try await Self.start(hubProtocol)
            running.hub.on("Keys") { (caller, value: [String: Int]) in Array(value.keys) }
            let keys: [String] = try await running.connection.invoke(method: "Keys", arguments: Point(firstValue: 1))
            expectEqual(keys, [key])
        }
    }

    @Test func `own types of MessagePack are arguments and results`() async throws {
        struct Extension: Codable, Equatable {
            var bytes: [UInt8]

            init(_ bytes: [UInt8]) {
                self.bytes = bytes
            }

            init(from decoder: any Decoder) throws {
                guard decoder.isMsgpackDecoder() else { throw Failure() }
                try expectEqual(decoder.getMsgpackExtType(), 7)
                self.bytes = Array(try decoder.getMsgpackExtData())
            }

            func encode(to encoder: any Encoder) throws {
                guard encoder.isMsgpackEncoder() else { throw Failure() }
                try encoder.encodeMsgpackExt(extType: 7, extData: Data(self.bytes))
            }
        }
        let running = try await Self.start(.messagePack)
        running.hub.on("EchoExtension") { (caller, value: MessagePackValue) in value }
        let value: Extension = try await running.connection.invoke(method: "EchoExtension", arguments: Extension([1, 2, 3]))
        expectEqual(value, Extension([1, 2, 3]))
        for timestamp in [MsgpackTimestamp(seconds: 1, nanoseconds: 0), MsgpackTimestamp(seconds: -1, nanoseconds: 999_999_999)] {
            let result: MsgpackTimestamp = try await running.connection.invoke(method: "EchoTimestamp", arguments: timestamp)
            expectEqual(result, timestamp)
        }
        let data: Data = try await running.connection.invoke(method: "EchoData", arguments: Data([0, 255]))
        expectEqual(data, Data([0, 255]))
        await #expect(throws: SignalRError.self) {
            let json = try await Self.start()
            try await json.connection.invoke(method: "Echo", arguments: Extension([1]))
        }
    }

    // MARK: Streams

    @Test func `asynchronous sequences are streams in any position`() async throws {
        let running = try await Self.start()
        let sum: Int = try await running.connection.invoke(
            method: "Sum", arguments: [1, 2].values, 10,
            AsyncStream<Int> { continuation in
                continuation.yield(4)
                continuation.finish()
            })
        expectEqual(sum, 17)
    }

    @Test func `an element that can't be encoded fails the call`() async throws {
        let running = try await Self.start()
        await #expect(throws: SignalRError.self) {
            let _: Int = try await running.connection.invoke(method: "Sum", arguments: 0, [NotCodable()].values, [Int]().values)
        }
    }

    @Test func `leaving the loop ends the stream at the server`() async throws {
        let running = try await Self.start()
        let ended = Signal()
        running.hub.stream("Forever") { (caller) in
            AsyncStream<Int> { continuation in
                continuation.yield(1)
                continuation.onTermination = { _ in ended.send() }
            }
        }
        let stream: any StreamResult<Int> = try await running.connection.stream(method: "Forever")
        for try await item in stream.stream {
            expectEqual(item, 1)
            break
        }
        await ended.wait()
    }

    @Test func `a second loop over a stream throws, after the first one was left and after its end`() async throws {
        let running = try await Self.start()
        running.hub.stream("Two") { (caller) in
            AsyncStream<Int> { continuation in
                for item in 1...2 { continuation.yield(item) }
                continuation.finish()
            }
        }
        for isLeft in [true, false] {
            let stream: any StreamResult<Int> = try await running.connection.stream(method: "Two")
            for try await _ in stream.stream where isLeft { break }
            await #expect {
                for try await _ in stream.stream {}
            } throws: { error in
                if case SignalRError.invalidOperation(let message) = error { message.contains("is consumed once") } else { false }
            }
        }
    }

    @Test func `a cancelled stream throws that it was cancelled`() async throws {
        let running = try await Self.start()
        let ended = Signal()
        running.hub.stream("Forever") { (caller) in
            AsyncStream<Int> { continuation in
                continuation.yield(1)
                continuation.onTermination = { _ in ended.send() }
            }
        }
        let stream: any StreamResult<Int> = try await running.connection.stream(method: "Forever")
        await #expect(throws: SignalRError.streamCancelled) {
            for try await item in stream.stream {
                expectEqual(item, 1)
                await stream.cancel()
            }
        }
        await ended.wait()
    }

    @Test func `in a cancelled task, no stream starts`() async throws {
        let running = try await Self.start()
        let started = EventRecorder<Bool>()
        running.hub.stream("Never") { (caller) in
            started.record(true)
            return AsyncStream<Int> { $0.finish() }
        }
        let task = Task { [connection = running.connection] in
            withUnsafeCurrentTask { $0?.cancel() }
            let stream: any StreamResult<Int> = try await connection.stream(method: "Never")
            for try await _ in stream.stream {}
        }
        await #expect(throws: (any Error).self) { try await task.value }
        try await running.connection.invoke(method: "Echo", arguments: 1)
        expect(started.all.isEmpty)
    }

    @Test func `the errors of a stream are those of the connection`() async throws {
        let running = try await Self.start()
        let missing: any StreamResult<Int> = try await running.connection.stream(method: "None")
        await #expect {
            for try await _ in missing.stream {}
        } throws: { if case SignalRError.invocationError = $0 { true } else { false } }
        let wrong: any StreamResult<String> = try await running.connection.stream(method: "Numbers")
        await #expect {
            for try await _ in wrong.stream {}
        } throws: { if case SignalRError.invalidData = $0 { true } else { false } }
        let never: any StreamResult<NotCodable> = try await running.connection.stream(method: "Numbers")
        await #expect(throws: SignalRError.self) { for try await _ in never.stream {} }
        running.hub.stream("Forever") { (caller) in AsyncStream<Int> { $0.yield(1) } }
        let stopped: any StreamResult<Int> = try await running.connection.stream(method: "Forever")
        await #expect(throws: SignalRError.connectionAborted) {
            for try await _ in stopped.stream { await running.connection.stop() }
        }
    }

    // MARK: Cancellation

    @Test func `a cancelled call throws immediately, and the server is told`() async throws {
        let running = try await Self.start()
        let (started, ended) = (Signal(), Signal())
        running.hub.on("Wait") { [clock = running.signalR.clock] (caller) async throws -> Void in
            started.send()
            defer { ended.send() }
            try await clock.sleep(for: .seconds(1_000))
        }
        let call = Task { try await running.connection.invoke(method: "Wait") }
        await started.wait()
        call.cancel()
        await #expect(throws: CancellationError.self) { try await call.value }
        await ended.wait()
    }

    @Test func `a call whose connection is stopped throws`() async throws {
        let running = try await Self.start()
        let started = Signal()
        running.hub.on("Wait") { [clock = running.signalR.clock] (caller) async throws -> Void in
            started.send()
            try await clock.sleep(for: .seconds(1_000))
        }
        let call = Task { try await running.connection.invoke(method: "Wait") }
        await started.wait()
        await running.connection.stop()
        await #expect(throws: SignalRError.connectionAborted) { try await call.value }
    }

    // MARK: Handlers

    @Test func `handlers have any number of parameters`() async throws {
        let running = try await Self.start()
        let received = EventRecorder<String>()
        let connection = running.connection
        await connection.on("M") { received.record("0") }
        await connection.on("M") { (a: Int) in received.record("\(a)") }
        await connection.on("M") { (a: Int, b: Int, c: Int, d: Int, e: Int, f: Int, g: Int, h: Int, i: Int) in
            received.record("\(a)\(b)\(c)\(d)\(e)\(f)\(g)\(h)\(i)")
        }
        try await running.hub.clients.all.send("M", 1, 2, 3, 4, 5, 6, 7, 8, 9)
        try await eventually { received.all.count == 3 }
        expectEqual(received.all, ["0", "1", "123456789"])
    }

    @Test func `a handler is removed with its token, and all with the name`() async throws {
        let running = try await Self.start()
        let received = EventRecorder<String>()
        let connection = running.connection
        let token = await connection.on("M") { received.record("first") }
        await connection.on("M") { received.record("second") }
        await connection.on("End") { received.record("end") }
        token.cancel()
        try await running.hub.clients.all.send("M")
        try await eventually { received.all == ["second"] }
        connection.off(method: "M")
        try await running.hub.clients.all.send("M")
        try await running.hub.clients.all.send("End")
        try await eventually { received.all.count == 2 }
        expectEqual(received.all, ["second", "end"])
    }

    @Test func `a handler whose arguments don't match isn't called, and the next call arrives`() async throws {
        let running = try await Self.start()
        let received = EventRecorder<Int>()
        let errors = EventRecorder<String>()
        let token = running.connection.client.onUpdate(on: HubCallbackExecutor { $0() }) {
            if case .error(let error) = $0 { errors.record(error.message) }
        }
        await running.connection.on("M") { (value: Int) in received.record(value) }
        await running.connection.on("N") { (value: NotCodable) in received.record(-1) }
        try await running.hub.clients.all.send("M", "text")
        try await running.hub.clients.all.send("M")
        try await running.hub.clients.all.send("N", 1)
        try await running.hub.clients.all.send("M", 1)
        try await eventually { received.all == [1] }
        expectEqual(errors.all.count, 3)
        expectEqual(errors.all.first?.contains("Argument 1 of 1 can't be decoded as Int"), true, "\(errors.all)")
        withExtendedLifetime(token) {}
    }

    @Test func `the results of handlers reach the server`() async throws {
        let running = try await Self.start()
        let connection = running.connection
        await connection.on("Value") { (a: Int) in a + 1 }
        await connection.on("Nothing") { (a: Int) in }
        await connection.on("Fails") { (a: Int) -> Int in throw Failure() }
        await connection.on("Unsupported") { (a: Int) in NotCodable() }
        let client = running.hub.clients.client(try #require(connection.connectionId))
        let value: Int = try await client.invoke("Value", 1)
        expectEqual(value, 2)
        try await client.invoke("Nothing", 1)
        for method in ["Fails", "Unsupported", "Missing"] {
            await #expect(throws: HubInvocationError.self, "\(method)") { let _: Int = try await client.invoke(method, 1) }
        }
        await #expect(throws: HubInvocationError.self) { let _: Int = try await client.invoke("Value", "text") }
    }
}

extension Array where Element: Sendable {
    /// The elements as an asynchronous sequence.
    fileprivate var values: AsyncStream<Element> {
        AsyncStream { continuation in
            for element in self { continuation.yield(element) }
            continuation.finish()
        }
    }
}
