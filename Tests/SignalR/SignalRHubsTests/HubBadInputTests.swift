import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import TestSupport
import SignalRHubs
import SignalRWire
import Testing

/// Invalid input from a server, in both formats: one bad message affects neither its neighbors nor the connection, and bytes that
/// aren't messages end the connection with an error that says so.
@Suite(.timeLimit(.minutes(10))) struct HubBadInputTests {
    private static func connected(_ format: HubFormat, _ configure: (inout HubConfiguration) -> Void = { _ in }) async throws -> HubFixture
    {
        try await HubFixture.connected {
            $0.format = format
            configure(&$0)
        }
    }

    private static func completion(_ id: String, _ value: some Encodable, _ format: HubFormat) throws -> HubMessage {
        .completion(id: id, .result(try HubValueCoder(format).payload(value)))
    }

    private static func item(_ id: String, _ value: some Encodable, _ format: HubFormat) throws -> HubMessage {
        .streamItem(id: id, try HubValueCoder(format).payload(value))
    }

    private static func invocation(_ target: String, _ value: some Encodable, _ format: HubFormat, id: String? = nil) throws -> HubMessage {
        .invocation(HubInvocation(id: id, target: target, arguments: try HubValueCoder(format).arguments(value)))
    }

    private static func frame(_ parts: [[UInt8]], _ format: HubFormat) -> TransportMessage {
        TransportMessage(format.messageKind, parts.flatMap(\.self))
    }

    private static func bytes(_ message: HubMessage, _ format: HubFormat) -> [UInt8] { HubMessageWriter.message(message, format).bytes }

    // MARK: Completions and items

    @Test(arguments: HubFormat.allCases)
    func `completions and items of unknown and of completed calls are ignored`(format: HubFormat) async throws {
        let hub = try await Self.connected(format)
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        let stream = try hub.client.stream("ticks", of: Int.self)
        hub.server.send(
            [
                try Self.completion("99", 1, format), try Self.item("99", 1, format), try Self.completion("x", 1, format),
                try Self.item("1", 1, format),
                try Self.completion("1", 5, format), try Self.completion("1", 6, format), .completion(id: "1", .error("no")),
                try Self.item("1", 7, format),
                try Self.item("2", 8, format), try Self.completion("2", 9, format), try Self.item("2", 10, format),
                .completion(id: "2", .error("late")),
            ], format)
        try await expectEqual(call.value, 5)
        var items: [Int] = []
        for try await item in stream { items.append(item) }
        expectEqual(items, [8])
        expectEqual(hub.client.counters.messagesIgnored, 9)
        expect(hub.isConnected && hub.events.isEmpty)
        let next = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        hub.server.send([try Self.completion("3", 4, format)], format)
        try await expectEqual(next.value, 4)
    }

    @Test(arguments: HubFormat.allCases)
    func `a missing method is an error of the call, and so is the end of the connection`(format: HubFormat) async throws {
        let hub = try await Self.connected(format)
        let call = try await hub.begin { try await $0.invoke("missing", as: Int.self) }
        let other = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        let text = "Failed to invoke 'missing' due to an error on the server. HubException: Method does not exist."
        hub.server.send([.completion(id: "1", .error(text)), .close(error: nil, allowReconnect: false)], format)
        let error = await hubError { try await call.value }
        expect(error?.code == .invocationFailed && error?.serverMessage == text)
        await expectEqual(hubError { try await other.value }?.code, .closedByServer)
    }

    @Test func `nothing remains of calls that have failed`() async throws {
        struct Unencodable: Encodable {
            func encode(to encoder: any Encoder) throws { throw CancellationError() }
        }
        let hub = try await HubFixture.connected()
        // A call that can't be encoded has a number as well.
        for number in stride(from: 1, through: 150, by: 3) {
            let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
            hub.server.send(#"{"type":3,"invocationId":"\#(number)","error":"no"}"#)
            await expectEqual(hubError { try await call.value }?.code, .invocationFailed)
            _ = await hubError { try await hub.client.invoke("save", Unencodable(), as: Int.self) }
            let cancelled = try await hub.begin { try await $0.invoke("save", as: Int.self) }
            cancelled.cancel()
            await expectEqual(hubError { try await cancelled.value }?.code, .cancelled)
        }
        expect(hub.client.driver.read { $0.callCount } == 0 && hub.client.driver.read { $0.waiterCount } == 0)
    }

    // MARK: One bad message among good ones

    struct BadMessage: Sendable, CustomTestStringConvertible {
        var name: String
        var format: HubFormat
        var bytes: [UInt8]
        var testDescription: String { self.name }

        static func json(_ name: String, _ text: String) -> BadMessage {
            BadMessage(name: name, format: .json, bytes: Array(text.utf8) + [0x1E])
        }

        static func packed(_ name: String, _ body: [UInt8]) -> BadMessage {
            var (length, prefix) = (body.count, [UInt8]())
            while length >= 0x80 {
                prefix.append(UInt8(length & 0x7F) | 0x80)
                length >>= 7
            }
            return BadMessage(name: name, format: .messagePack, bytes: prefix + [UInt8(length)] + body)
        }

        static let all: [BadMessage] = [
            .json("not JSON", "nonsense"), .json("cut off", #"{"type":1,"target":"#), .json("an array", "[1]"), .json("a number", "1"),
            .json("no type", "{}"), .json("a type of text", #"{"type":"1"}"#), .json("a large type", #"{"type":1e999}"#),
            .json("no target", #"{"type":1,"arguments":[]}"#), .json("no arguments", #"{"type":1,"target":"take"}"#),
            .json("arguments that are an object", #"{"type":1,"target":"take","arguments":{}}"#),
            .json("a target that is a number", #"{"type":1,"target":1,"arguments":[]}"#),
            .json("a result and an error", #"{"type":3,"invocationId":"7","result":1,"error":"x"}"#),
            .json("an item without an ID", #"{"type":2,"item":1}"#), .json("a completion without an ID", #"{"type":3}"#),
            .json("deep nesting", String(repeating: "[", count: 100_000)),
            .json("deep nesting in a member", #"{"type":1,"target":"take","arguments":"# + String(repeating: "[", count: 100_000)),
            .packed("empty", []), .packed("not an array", [0x01]), .packed("an empty array", [0x90]), .packed("an unused byte", [0xC1]),
            .packed("a type of text", [0x91, 0xA1, 0x31]), .packed("too few elements", [0x92, 0x01, 0x80]),
            .packed("an array without its elements", [0xDD, 0xFF, 0xFF, 0xFF, 0xFF]),
            .packed("a map without its elements", [0x96, 0x01, 0xDF, 0xFF, 0xFF, 0xFF, 0xFF]),
            .packed("a text without its bytes", [0x96, 0x01, 0x80, 0xC0, 0xDB, 0x7F, 0xFF, 0xFF, 0xFF]),
            .packed("deep nesting", Array(repeating: 0x91, count: 100_000)),
            .packed("deep nesting of arguments", [0x96, 0x01, 0x80, 0xC0, 0xA4] + "take".utf8 + Array(repeating: 0x91, count: 100_000)),
            .packed("a completion of an unknown kind", [0x95, 0x03, 0x80, 0xA1, 0x37, 0x09, 0x01]),
            .packed("bytes behind the message", [0x91, 0x06, 0x00]),
        ]
    }

    @Test(arguments: BadMessage.all)
    func `a bad message in the middle of a frame is reported, and its neighbors are handled`(bad: BadMessage) async throws {
        let format = bad.format
        let hub = try await Self.connected(format)
        let taken = EventRecorder<Int>()
        hub.client.on("take") { (a: Int) in taken.record(a) }
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        hub.server.send([
            Self.frame(
                [
                    Self.bytes(try Self.invocation("take", 1, format), format), bad.bytes,
                    Self.bytes(try Self.invocation("take", 2, format), format),
                    Self.bytes(try Self.completion("1", 5, format), format),
                ], format)
        ])
        try await expectEqual(call.value, 5)
        try await eventually { taken.all.count >= 2 }
        expect(taken.all == [1, 2] && hub.isConnected)
        let codes = hub.events.compactMap { if case .error(let error) = $0 { error.code } else { nil } }
        expect(codes == [.invalidMessage] || codes == [.decodingFailed])
        expectEqual(hub.client.counters.messagesIgnored + hub.client.counters.decodingFailures, 1)
    }

    /// Answers to the call 1 that can't be read, with the call 2 under way.
    @Test(arguments: [
        (#"{"type":3,"invocationId":"1","result":{"a":NaN}}"#, true), (#"{"type":3,"invocationId":"1","result":{"a""#, true),
        (#"{"type":3,"invocationId":1,"result":5}"#, true), (#"{"invocationId":"1","type":3,"result":NaN}"#, true),
        (#"{"type":3,"result":5}"#, false), ("nonsense", false), (#"{"result":5,"type":3,"invocationId":"1""#, false),
    ])
    func `an answer that can't be read ends its call, or all calls if it has no ID`(answer: String, hasID: Bool) async throws {
        let hub = try await Self.connected(.json)
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        let other = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        hub.server.send(answer)
        await expectEqual(hubError { try await call.value }?.code, .invalidMessage)
        if hasID { hub.server.send(#"{"type":3,"invocationId":"2","result":7}"#) }
        if hasID {
            try await expectEqual(other.value, 7)
        } else {
            await expectEqual(hubError { try await other.value }?.code, .invalidMessage)
        }
        expect(hub.isConnected)
    }

    @Test func `an answer that can't be read concerns no call of the next connection`() async throws {
        let hub = try await Self.connected(.messagePack) { $0.retry = .delays([.seconds(1)]) }
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        // The length that follows ends the connection before the calls are looked at.
        hub.server.send([Self.frame([[0x01, 0x01], [0xFF, 0xFF, 0xFF, 0xFF, 0xFF]], .messagePack)])
        await expectEqual(hubError { try await call.value }?.code, .invalidMessage)
        hub.clock.advance(by: .seconds(1))
        expect(hub.isConnected)
        let next = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        hub.server.send([.ping], .messagePack)
        hub.server.send([try Self.completion("2", 7, .messagePack)], .messagePack)
        try await expectEqual(next.value, 7)
    }

    @Test func `an invocation that can't be read ends no call`() async throws {
        let hub = try await Self.connected(.json)
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        hub.server.send(#"{"type":1,"target":"take","arguments":[NaN]}"#)
        hub.server.send(#"{"type":3,"invocationId":"1","result":7}"#)
        try await expectEqual(call.value, 7)
    }

    @Test func `an item that can't be read ends its stream with an error`() async throws {
        let hub = try await Self.connected(.json)
        let stream = try hub.client.stream("count", of: [String: Int].self)
        let items = stream.makeAsyncIterator()
        hub.server.send(
            #"{"type":2,"invocationId":"1","item":{"a":1}}"#, #"{"type":2,"invocationId":"1","item":{"a":NaN}}"#,
            #"{"type":2,"invocationId":"1","item":{"a":3}}"#, #"{"type":3,"invocationId":"1"}"#)
        try await expectEqual(items.next(), ["a": 1])
        await expectEqual(hubError { try await items.next() }?.code, .invalidMessage)
    }

    @Test func `messages of unknown types, and known ones with more members, are accepted`() async throws {
        let hub = try await HubFixture.connected()
        hub.server.send(
            #"{"type":0}"#, #"{"type":10,"invocationId":"1"}"#, #"{"type":99,"x":[1]}"#, #"{"type":-1}"#, #"{"type":6,"x":1}"#,
            #"{"type":6}"#, #"{"type":8,"sequenceId":1}"#, #"{"type":9,"sequenceId":1}"#, #"{"type":5,"invocationId":"1"}"#)
        expect(hub.isConnected && hub.events.isEmpty)
        expectEqual(hub.client.counters.messagesIgnored, 7)
        let packed = try await Self.connected(.messagePack)
        packed.server.send([
            Self.frame(
                [[2, 0x91, 0x00], [2, 0x91, 0x0A], [3, 0x92, 0x63, 0xC0], [2, 0x91, 0x06], [3, 0x92, 0x08, 0x01]], .messagePack)
        ])
        expect(packed.isConnected && packed.events.isEmpty)
        expectEqual(packed.client.counters.messagesIgnored, 4)
    }

    // MARK: Close messages

    struct Closing: Sendable, CustomTestStringConvertible {
        var bytes: [UInt8]
        var format: HubFormat
        var error: String?
        var reconnects: Bool
        var testDescription: String { "\(self.format) \(self.bytes.map { String($0, radix: 16) }.joined(separator: " "))" }

        static func json(_ text: String, _ error: String?, _ reconnects: Bool) -> Closing {
            Closing(bytes: Array(text.utf8) + [0x1E], format: .json, error: error, reconnects: reconnects)
        }

        static let all: [Closing] = [
            .json(#"{"type":7}"#, nil, false), .json(#"{"type":7,"error":null}"#, nil, false),
            .json(#"{"allowReconnect":false,"error":"x","type":7}"#, "x", false),
            .json(#"{"type":7,"allowReconnect":true,"more":[]}"#, nil, true),
            .json(#"{"type":7,"error":"x","allowReconnect":true}"#, "x", true),
            Closing(bytes: [3, 0x92, 7, 0xC0], format: .messagePack, error: nil, reconnects: false),
            Closing(bytes: [4, 0x92, 7, 0xA1, 0x78], format: .messagePack, error: "x", reconnects: false),
            Closing(bytes: [5, 0x93, 7, 0xA1, 0x78, 0xC3], format: .messagePack, error: "x", reconnects: true),
            Closing(bytes: [4, 0x93, 7, 0xC0, 0xC2], format: .messagePack, error: nil, reconnects: false),
        ]
    }

    @Test(arguments: Closing.all)
    func `a close message ends the client, unless it allows to reconnect`(closing: Closing) async throws {
        let hub = try await Self.connected(closing.format) { $0.retry = .delays([.seconds(1)]) }
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        hub.server.send([TransportMessage(closing.format.messageKind, closing.bytes)])
        let failure = await hubError { try await call.value }
        expect(failure?.code == .closedByServer && failure?.serverMessage == closing.error)
        expect(hub.isReconnecting == closing.reconnects && hub.isStopped == !closing.reconnects)
        if !closing.reconnects { expectEqual(hub.stopError, (closing.error == nil ? nil : failure)) }
        hub.clock.advance(by: .seconds(1))
        expectEqual(hub.isConnected, closing.reconnects)
    }

    // MARK: Frames

    @Test func `messages in MessagePack may be divided among frames at any byte`() async throws {
        let hub = try await Self.connected(.messagePack)
        let text = String(repeating: "é", count: 100)
        let size = Self.bytes(try Self.completion("1", text, .messagePack), .messagePack).count
        for position in 1..<size {
            let call = try await hub.begin { try await $0.invoke("save", as: String.self) }
            guard case .invocation(let invocation)? = hub.server.receivedPacked.all.last else { return expect(false) }
            let bytes = Self.bytes(try Self.completion(invocation.id ?? "", text, .messagePack), .messagePack)
            hub.server.send([.init(.binary, Array(bytes[..<position])), .init(.binary, Array(bytes[position...]))])
            try await expectEqual(call.value, text)
        }
    }

    static let lengths: [[UInt8]] = [
        [0x80, 0x80, 0x80, 0x80, 0x80, 0x01], [0xFF, 0xFF, 0xFF, 0xFF, 0x08], [0x80, 0x80, 0x80, 0x80, 0x08],
        [0xFF, 0xFF, 0xFF, 0xFF, 0x07],
        [0x81, 0x80, 0x80, 0x08],
    ]

    @Test(arguments: lengths)
    func `a length of more than five bytes, of 2 GiB, or above the limit ends the connection with an error`(length: [UInt8]) async throws {
        let hub = try await Self.connected(.messagePack) { $0.retry = .delays([.seconds(1)]) }
        let taken = EventRecorder<Int>()
        hub.client.on("take") { (a: Int) in taken.record(a) }
        let call = try await hub.begin { try await $0.invoke("save", as: Int.self) }
        let before = Self.bytes(try Self.invocation("take", 1, .messagePack), .messagePack)
        let after = Self.bytes(try Self.invocation("take", 2, .messagePack), .messagePack)
        hub.server.send([Self.frame([before, length, after], .messagePack)])
        let error = await hubError { try await call.value }
        expect(error?.code == .invalidMessage && error?.message.contains("isn't a sequence of messages") == true)
        expect(hub.isReconnecting)
        hub.clock.advance(by: .seconds(1))
        expect(hub.isConnected)
        hub.server.send([try Self.invocation("take", 3, .messagePack)], .messagePack)
        try await eventually { taken.all.count >= 2 }
        expectEqual(taken.all, [1, 3])
    }

    @Test(arguments: HubFormat.allCases)
    func `by default, messages of more than 1 MiB are received`(format: HubFormat) async throws {
        let hub = try await Self.connected(format)
        let text = String(repeating: "x", count: 3 << 20)
        let call = try await hub.begin { try await $0.invoke("save", as: String.self) }
        hub.server.send([try Self.completion("1", text, format)], format)
        try await expectEqual(call.value.utf8.count, text.utf8.count)
    }
}
