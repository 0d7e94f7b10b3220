import RealtimeCore
import RealtimeCoding
import RealtimeSystem
import RealtimeTesting
import SignalRWire
import TestSupport
import Testing

@testable import SignalRServer

/// Many messages, and input that no client sends.
@Suite(.timeLimit(.minutes(10))) struct HubFloodTests {
    @Test func `a flood of invocations is answered in order`() async throws {
        let test = try await HubUnderTest { $0.pendingInvocationLimit = 50 }
        test.hub.on("Echo") { (caller, value: Int) in value }
        let client = try await test.connect()
        let count = scaled(2_000)
        for value in 0..<count {
            client.send(#"{"type":1,"invocationId":"\#(value)","target":"Echo","arguments":[\#(value)]}"#)
        }
        for value in 0..<count { try await expectEqual(client.next()["result"]?.int, value) }
    }

    @Test func `a flood of items reaches a method that reads slowly`() async throws {
        let test = try await HubUnderTest { $0.streamBufferLimit = 2_000 }
        test.hub.on("Sum") { (caller, items: HubStream<Int>) in
            var sum = 0
            for try await item in items {
                sum += item
                // Other tests run meanwhile, so not after each item.
                if item % 100 == 0 { await Task.yield() }
            }
            return sum
        }
        let client = try await test.connect()
        client.send(#"{"type":1,"invocationId":"1","target":"Sum","arguments":[],"streamIds":["2"]}"#)
        let count = scaled(2_000)
        for value in 0..<count { client.send(#"{"type":2,"invocationId":"2","item":\#(value)}"#) }
        client.send(#"{"type":3,"invocationId":"2"}"#)
        try await expectEqual(client.next()["result"]?.int, count * (count - 1) / 2)
    }

    @Test(arguments: HubTransport.allCases)
    func `a turn takes at most 8 KiB of what arrives together, and a request is answered after the last part`(
        transport: HubTransport
    ) async throws {
        let turns = TurnTime()
        let test = try await HubUnderTest(turns: turns)
        let record = #"{"type":6}"# + "\u{1E}"
        let text = String(repeating: record, count: 5_000)
        var post: RawRequest?
        let socket: RawHubClient?, client: RawHTTPHubClient?
        switch transport {
        case .webSockets: (socket, client) = (try await test.connect(), nil)
        case .serverSentEvents, .longPolling: (socket, client) = (nil, try await test.connect(transport))
        }
        let events = test.server.events
        if let socket { socket.send(.text(text)) } else { post = client?.request("POST", body: text) }
        var received = ""
        repeat {
            for case .received(_, let message) in await events.pending() {
                expect(message.bytes.count <= 8 << 10 && message.bytes.count % record.utf8.count == 0, "\(message.bytes.count)")
                received += String(decoding: message.bytes, as: UTF8.self)
            }
            if received.utf8.count < text.utf8.count { expectNil(post?.status) }
        } while turns.take()
        expect(received == text)
        if let post { try await expectEqual(post.end(), 200) }
    }

    /// Empty messages, values that aren't messages, pings, and cancellations in MessagePack.
    @Test(arguments: [[0x00], [0x01, 0xC0], [0x02, 0x91, 0x06], [0x05, 0x93, 0x05, 0x80, 0xA1, 0x31]] as [[UInt8]])
    func `a turn takes at most 8 KiB of many small messages in MessagePack`(message: [UInt8]) async throws {
        let turns = TurnTime()
        let test = try await HubUnderTest(turns: turns)
        let client = RawHubClient(test.network, test.address, "/hub")
        client.send(#"{"protocol":"messagepack","version":1}"#)
        let events = test.server.events
        client.send(TransportMessage(.binary, Array(repeating: message, count: 10_000).flatMap { $0 }))
        var (received, parts) = (0, 0)
        repeat {
            let sizes = await events.pending().compactMap { if case .received(_, let message) = $0 { message.bytes.count } else { nil } }
            expect(sizes.allSatisfy { $0 <= 8 << 10 } && sizes.count <= 1, "\(sizes)")
            (received, parts) = (received + sizes.reduce(0, +), parts + sizes.count)
        } while turns.take()
        // A message that can't be read ends the connection.
        let isValid = message.count > 2
        expect(isValid ? received == 10_000 * message.count && parts > 1 : received <= 8 << 10, "\(received) in \(parts)")
        expectEqual(client.endings.all.isEmpty, isValid)
    }

    @Test func `one client's flood doesn't disturb another`() async throws {
        let test = try await HubUnderTest { $0.pendingInvocationLimit = 10 }
        let blocked = Signal()
        test.hub.on("Block") { caller in await blocked.wait() }
        test.hub.on("Echo") { (caller, value: Int) in value }
        let (hostile, client) = (try await test.connect(), try await test.connect())
        for _ in 0..<1_000 { hostile.send(#"{"type":1,"target":"Block","arguments":[]}"#) }
        try await expectEqual(client.invoke("Echo", "1")["result"], 1)
        hostile.close()
        try await eventually { test.hub.connectionIDs.count == 1 }
        try await expectEqual(client.invoke("Echo", "2")["result"], 2)
    }

    /// Items that never suspend their task.
    private struct Busy: AsyncSequence, AsyncIteratorProtocol, Sendable {
        let produced: SharedCount
        var remaining: Int

        func makeAsyncIterator() -> Busy { self }

        mutating func next() async -> Int? {
            guard self.remaining > 0 else { return nil }
            self.remaining -= 1
            self.produced.value.withLock { $0 += 1 }
            return self.remaining
        }
    }

    @Test func `streams that never suspend don't delay the calls of another client`() async throws {
        let test = try await HubUnderTest()
        let count = SharedCount()
        let (streams, items) = (32, 2_000)
        test.hub.stream("Busy") { caller in Busy(produced: count, remaining: items) }
        test.hub.on("Count") { caller -> Int in count.value.withLock { $0 } }
        let (hostile, client) = (try await test.connect(), try await test.connect())
        hostile.pauseReading()
        for id in 0..<streams { hostile.send(#"{"type":4,"invocationId":"\#(id)","target":"Busy","arguments":[]}"#) }
        let seen = try await client.invoke("Count")["result"]?.int
        // Without turns, as many streams as there are threads run to their ends first, one after the other.
        try expect(#require(seen) < streams * items / 2)
    }

    @Test func `a listener with default limits keeps little more than a message that the protocol allows`() {
        let server = SignalRServer(log: .none)
        _ = server.hub("/chat")
        let request = HTTPRequestHead(method: "GET", target: "/chat")
        for handler in [server.listenerHandler, ListenerRouter([.path("/", server.listenerHandler)])] as [any ListenerHandler] {
            let limits = EventRecorder<Int?>()
            guard case .later(let ask) = handler.upgrade(request) else { return expect(false) }
            ask(UpgradeResponder { if case .accept(_, _, let acceptor) = $0 { limits.record(acceptor.messageLimit) } })
            expectEqual(limits.all, [2 * SignalRServerConfiguration().messageLimit + (1 << 20)])
        }
    }

    private final class SharedCount: Sendable { let value = Lock(0) }

    @Test func `a stream ends its turn after a number of items or bytes`() {
        var turn = StreamTurn()
        expectEqual((1...3 * StreamTurn.items).filter { _ in turn.ends(with: 10) }.count, 3)
        expect(turn.ends(with: StreamTurn.bytes) && !turn.ends(with: StreamTurn.bytes - 1) && turn.ends(with: 1))
    }

    @Test(arguments: seeds(20))
    func `random bytes end at most their own connection`(seed: UInt64) async throws {
        let test = try await HubUnderTest()
        test.hub.on("Echo") { (caller, value: Int) in value }
        let (hostile, client) = (try await test.connect(), try await test.connect())
        var random = SplitMix64(seed: seed)
        let pieces = [
            "{", "}", "[", "]", "\"type\":", "1", "2", "3", "4", "5", "6", "\"target\":", "\"Echo\"", "\"arguments\":", ",",
            "\"invocationId\":",
            "\"1\"", "\"streamIds\":", "\u{1E}", "\u{1E}", "null", "\\", "é",
        ]
        for _ in 0..<200 {
            let text = (0..<Int.random(in: 0..<20, using: &random)).map { _ in pieces.randomElement(using: &random) ?? "" }.joined()
            hostile.send(Bool.random(using: &random) ? .text(text) : .binary(Array(text.utf8)))
        }
        try await expectEqual(client.invoke("Echo", "1")["result"], 1)
    }
}
