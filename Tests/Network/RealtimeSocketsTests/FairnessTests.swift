import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

/// The waiting time of a loop's connections while other ones are flooded, measured in bytes that the loop reads instead of in time.
///
/// The tests run one after the other, because a flood occupies a processor.
@Suite(.usesSockets, .serialized, .timeLimit(.minutes(10)))
struct FairnessTests {
    /// A TLS session that always has more to read, until it has returned `total` bytes.
    private final class EndlessSession: StreamSecurity {
        static let total = 2 << 30

        private let descriptor: Int32
        private let read = Lock(0)

        init(_ descriptor: Int32) {
            self.descriptor = descriptor
        }

        var count: Int { self.read.withLock { $0 } }

        func handshake() -> IOResult { .done(0) }
        func write(_ bytes: UnsafeRawBufferPointer) -> IOResult { .done(bytes.count) }
        func shutdown() -> IOResult { .done(0) }

        func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
            self.read.withLock { read in
                // The first byte starts the flood.
                if read == 0 {
                    let result = SystemSocket.receive(self.descriptor, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<1]))
                    guard case .done = result else { return result }
                }
                guard read < Self.total else { return .wantRead }
                read += 16 << 10
                return .done(16 << 10)
            }
        }
    }

    private final class IgnoredEvents: StreamEvents {
        func opened(_ stream: SocketStream) {}
        func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {}
        func drained(_ stream: SocketStream) {}
        func ended(_ stream: SocketStream, _ error: TransportError?) {}
    }

    @Test func `a busy TLS connection is read one budget at a time`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop("test")
        let sessions = Log<EndlessSession>()
        // The number of bytes that were read from the busy connection when the neighbor was serviced.
        let counts = Log<Int>()
        let neighborEvents = EventRecorder(onReceived: { _, _ in counts.add(sessions.entries[0].count) })
        let busy = SocketStream(loop: loop, events: IgnoredEvents())
        busy.connect(
            to: "127.0.0.1", port: port,
            ConnectOptions(
                timeout: .seconds(600),
                security: { descriptor in
                    let session = EndlessSession(descriptor)
                    sessions.add(session)
                    return session
                }))
        let busyPeer = try listener.accepted()
        let neighbor = SocketStream(loop: loop, events: neighborEvents)
        neighbor.connect(to: "127.0.0.1", port: port, ConnectOptions(timeout: .seconds(600)))
        let neighborPeer = try listener.accepted()
        await neighborEvents.opened()
        await sessions.wait(1)
        for round in 1...5 {
            let blocked = BlockedLoop(loop)
            let start = sessions.entries[0].count
            // At first, both become ready in the same turn, the busy one before the neighbor.
            if round == 1 { busyPeer.send([1]) }
            neighborPeer.send([1])
            blocked.release()
            let seen = await counts.wait(round)
            try expect(#require(seen.last) - start <= 2 * SocketStream.readBudget)
        }
        busy.close()
        neighbor.close()
        loop.shutdown()
        busyPeer.close()
        neighborPeer.close()
        listener.close()
    }

    struct Flood: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var tls: Bool
        var upgrades = true
        var frame: [UInt8]
        var frames: Int
    }

    private static let clients = 4
    private static let key: [UInt8] = [0, 0, 0, 0]

    private static let request = Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8)

    static let floods: [Flood] = [false, true].flatMap { tls in
        let name = tls ? "TLS" : "plain"
        let large = frame(0x82, [UInt8](repeating: 7, count: 16 << 10), key: Self.key)
        // A shorter flood could end before the measurement.
        func count(_ frames: Int) -> Int { max(frames / 10, scaled(frames)) }
        return [
            Flood(testDescription: "\(name), empty messages", tls: tls, frame: frame(0x81, "", key: Self.key), frames: count(1_000_000)),
            Flood(testDescription: "\(name), pings", tls: tls, frame: frame(0x89, "", key: Self.key), frames: count(1_000_000)),
            Flood(testDescription: "\(name), 16 KiB", tls: tls, frame: large, frames: count(20_000)),
            Flood(testDescription: "\(name), requests", tls: tls, upgrades: false, frame: Self.request, frames: count(100_000)),
        ]
    }

    @Test(.requires(.openSSL), arguments: Self.floods)
    func `a message is answered during a flood before much of the flood is handled`(_ flood: Flood) async throws {
        try await self.withFlood(flood) { _, server, address, loops in
            let events = SocketEvents()
            let endpoint = Endpoint(
                scheme: flood.tls ? "wss" : "ws", host: flood.tls ? "localhost" : address.host, port: address.port, target: "/neighbor")
            let connection = SocketWebSocketTransport(tls: .trustingTestRoot, loop: loops.neighbor)
                .makeConnection(WebSocketRequest(endpoint, timeout: .seconds(600)), id: ConnectionID(rawValue: 1), events: events)
            connection.open()
            await expectEqual(events.log.wait(1), ["opened"])
            for round in 1...1_000 where server.seen.measurements < 20 {
                connection.enqueue(.text("ping"))
                connection.flush()
                server.noteSent(round)
                await expectEqual(events.log.wait(round + 1).last, "pong")
            }
            connection.abandon()
            expectEqual(server.seen.measurements, 20)
            let worst = server.seen.worst
            // The loop may be in the middle of a turn, and the network may take a turn or two.
            let budget = flood.upgrades ? Delivery.framesPerTurn : HTTPServerConnection.requestsPerTurn
            expect(worst.messages <= 6 * Self.clients * budget)
            expect(worst.bytes <= 6 * Self.clients * SocketStream.readBudget)
        }
    }

    @Test(.requires(.openSSL), arguments: Self.floods)
    func `stopping a listener during a flood drops the connections`(_ flood: Flood) async throws {
        var flood = flood
        // The flood has no end that the listener could wait for.
        flood.frames = .max
        try await self.withFlood(flood) { listener, server, _, loops in
            await listener.stop()
            await loops.server.turn()
            let count = server.seen.messages
            for _ in 0..<20 { await loops.server.turn() }
            expectEqual(server.seen.messages, count)
        }
    }

    private func withFlood(
        _ flood: Flood,
        _ body: (SocketListener, FloodedServer, ListenerAddress, (server: EventLoop, neighbor: EventLoop)) async throws -> Void
    ) async throws {
        let (serverLoop, clientLoop) = (try EventLoop("test-server"), try EventLoop("test-clients"))
        let neighborLoop = try EventLoop("test-neighbor")
        let server = FloodedServer()
        let limits = ListenerLimits.forTests.with { $0.shutdownTimeout = .milliseconds(200) }
        let listener = SocketListener(tls: flood.tls ? .test : nil, limits: limits, on: [serverLoop])
        let address = try await listener.start(server)
        let flooders = try (0..<Self.clients).map { _ in
            try Flooder(address, tls: flood.tls, upgrades: flood.upgrades, loop: clientLoop, frame: flood.frame, frames: flood.frames)
        }
        await server.flooded()
        do {
            try await body(listener, server, address, (serverLoop, neighborLoop))
        } catch {
            Issue.record(error)
        }
        for flooder in flooders { flooder.stop() }
        await listener.stop()
        for loop in [clientLoop, neighborLoop, serverLoop] { loop.shutdown() }
    }

    @Test(.requires(.openSSL), arguments: [false, true])
    func `messages beyond the budget of a turn arrive in order, also if reading is paused in between`(_ tls: Bool) async throws {
        let count = 3 * Delivery.framesPerTurn + 100
        let handler = TestHandler()
        try await withListener(handler, tls: tls ? .test : nil) { address in
            let client = try RawClient(address, tls: tls ? .trustingTestRoot : nil)
            client.send("\(ListenerWebSocketTests.upgrade)\r\n")
            await handler.events.log.wait(1)
            let connection = try #require(handler.events.connections.withLock { $0.first })
            client.stream.send((1...count).map { frame(0x81, "\($0)", key: Self.key) }.joined())
            for seen in stride(from: 500, to: count, by: 500) {
                await handler.events.log.wait(seen)
                connection.pauseReading()
                connection.resumeReading()
                connection.flush()
            }
            await expectEqual(handler.events.log.wait(count + 1), ["opened"] + (1...count).map { "\($0)" })
            client.close()
            await handler.events.log.wait(count + 2)
        }
    }

    @Test func `messages beyond the budget of a turn are delivered before the end`() async throws {
        let count = 5 * Delivery.framesPerTurn
        let handler = TestHandler()
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send("\(ListenerWebSocketTests.upgrade)\r\n")
            client.stream.send((1...count).flatMap { frame(0x81, "\($0)", key: Self.key) })
            client.stream.finishWriting()
            await expectEqual(handler.events.log.wait(count + 2), ["opened"] + (1...count).map { "\($0)" } + ["closed"])
            client.close()
        }
    }
}
