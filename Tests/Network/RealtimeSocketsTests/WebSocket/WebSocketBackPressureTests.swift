import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

/// The events of a WebSocket, and the most bytes that waited to be sent.
private final class GaugedEvents: MessageEvents {
    enum Event: Sendable, Equatable {
        case opened, paused, resumed
        case closed(TransportError.Code?)

        var isClosed: Bool { if case .closed = self { true } else { false } }
    }

    let log = Log<Event>()
    let errors = Log<TransportError>()
    let connection = Lock<SocketWebSocket?>(nil)
    private let answer: [UInt8]
    private let stopsAfter: Int
    private let state = Lock((most: 0, count: 0))
    /// The texts that were received, if ``stopsAfter`` is set.
    let texts = Log<String>()

    /// - Parameters:
    ///   - answerBytes: The size of the answer to each text.
    ///   - stopsAfter: The bytes of answers after which no more messages of a batch are taken.
    init(answerBytes: Int = 0, stopsAfter: Int = .max) {
        self.answer = [UInt8](repeating: 7, count: answerBytes)
        self.stopsAfter = stopsAfter
    }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch, from start: Int) -> Int {
        guard self.stopsAfter < .max else {
            self.received(id, batch)
            return batch.entries.count
        }
        guard let connection = self.connection.withLock({ $0 }) else { return batch.entries.count }
        var (next, answers) = (start, 0)
        while next < batch.entries.count, answers <= self.stopsAfter {
            let entry = batch.entries[next]
            next += 1
            guard entry.kind == .text else { continue }
            self.texts.add(String(decoding: batch.bytes[entry.range], as: UTF8.self))
            connection.enqueue(.binary(self.answer))
            answers += self.answer.count
        }
        connection.flush()
        let (buffered, count) = (connection.bufferedBytes, next - start)
        self.state.withLock { $0 = (max($0.most, buffered), $0.count + count) }
        return next
    }

    var mostBuffered: Int { self.state.withLock { $0.most } }
    var receivedCount: Int { self.state.withLock { $0.count } }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.log.add(.opened) }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        guard let connection = self.connection.withLock({ $0 }) else { return }
        let count = batch.entries.count
        if !self.answer.isEmpty {
            for _ in 0..<count { connection.enqueue(.binary(self.answer)) }
            connection.flush()
        }
        let buffered = connection.bufferedBytes
        self.state.withLock { $0 = (max($0.most, buffered), $0.count + count) }
    }

    /// Waits until no more messages arrive, because however much the system's buffers take, they are full.
    func untilIdle() async {
        var (last, polls) = (-1, 0)
        while polls < 20, !Task.isCancelled {
            let count = self.receivedCount
            (last, polls) = (count, count == last && count > 0 ? polls + 1 : 0)
            await self.pause()
        }
    }

    func pause() async {
        let pause = Signal()
        EventLoop.shared.schedule(pause, at: EventLoop.shared.now.advanced(by: .milliseconds(5)))
        await pause.wait()
    }

    func writing(_ id: ConnectionID, paused: Bool) {
        // Not under a lock of the WebSocket, which the calls need.
        self.connection.withLock { $0 }?.enqueue(.binary([]))
        self.connection.withLock { $0 }?.flush()
        self.log.add(paused ? .paused : .resumed)
    }

    func closed(_ id: ConnectionID, _ reason: CloseReason) {
        self.connection.withLock { $0 = nil }
        guard case .transport(let error) = reason else { return self.log.add(.closed(nil)) }
        self.errors.add(error)
        self.log.add(.closed(error.code))
    }
}

/// A server whose WebSockets report to the same events.
private final class GaugedServer: AcceptingHandler {
    let events: GaugedEvents

    init(_ events: GaugedEvents) {
        self.events = events
    }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) { responder.respond(HTTPResponse(status: 404)) }
    func decision(about request: HTTPRequestHead) -> UpgradeDecision { .accept(subprotocol: nil) }

    func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents {
        self.events.connection.withLock { $0 = connection as? SocketWebSocket }
        return self.events
    }
}

/// Peers that do not read, and what waits for them.
@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct WebSocketBackPressureTests {
    private static let key: [UInt8] = [0, 0, 0, 0]

    /// Runs `body` with a client that has paused reading.
    private func withIdleClient(
        _ events: GaugedEvents, limits: ListenerLimits = .forTests, tls: Bool = false,
        _ body: (RawClient, SocketWebSocket) async throws -> Void
    ) async throws {
        let listener = SocketListener(tls: tls ? .test : nil, limits: limits)
        let address = try await listener.start(GaugedServer(events))
        let client = try RawClient(address, tls: tls ? .trustingTestRoot : nil)
        client.send("\(ListenerWebSocketTests.upgrade)\r\n")
        await client.text(until: "\r\n\r\n")
        await events.log.wait(1)
        client.stream.pauseReading()
        do {
            try await body(client, try #require(events.connection.withLock { $0 }))
        } catch {
            Issue.record(error)
        }
        client.close()
        await listener.stop()
    }

    @Test(.requires(.openSSL), arguments: [false, true])
    func `a server reads nothing from a client that does not take the answers, and loses none`(_ tls: Bool) async throws {
        let (requests, answerBytes) = (20_000, 4096)
        let events = GaugedEvents(answerBytes: answerBytes)
        try await self.withIdleClient(events, tls: tls) { client, _ in
            let request = frame(0x81, "request", key: Self.key)
            client.stream.send(Array((0..<requests).map { _ in request }.joined()))
            await events.untilIdle()
            expect(events.receivedCount < requests)
            client.stream.resumeReading()
            let size = requests * (answerBytes + 4)
            await client.recorder.until { $0.ended > 0 || $0.bytes.count > size }
            expectEqual(client.recorder.seen.ended, 0)
            // A message is counted after its answer was sent.
            try await eventually { events.receivedCount == requests }
            // 64 answers are 256 KiB. Deliveries become larger only while the client takes the answers.
            expect(events.mostBuffered <= 4 * SocketStream.highWater)
        }
    }

    @Test(.requires(.openSSL), arguments: [false, true])
    func `frames whose answers are large wait, even after many frames without answers`(_ tls: Bool) async throws {
        let (pongs, requests, answerBytes) = (20_000, 1000, 100_000)
        let events = GaugedEvents(answerBytes: answerBytes, stopsAfter: 256 << 10)
        try await self.withIdleClient(events, tls: tls) { client, _ in
            client.stream.send(Array((0..<pongs).map { _ in frame(0x8a, "", key: Self.key) }.joined()))
            while events.receivedCount < pongs, !Task.isCancelled { await events.pause() }
            client.stream.send((0..<requests).flatMap { frame(0x81, "\($0)", key: Self.key) } + frame(0x88, [0x03, 0xe8], key: Self.key))
            await events.untilIdle()
            expect(events.receivedCount < pongs + requests)
            client.stream.resumeReading()
            let texts = await events.texts.wait(requests)
            expectEqual(texts, (0..<requests).map { "\($0)" })
            // The close frame comes after the last one of the frames that waited.
            while !events.log.entries.contains(where: \.isClosed), !Task.isCancelled { await events.pause() }
            expect(events.log.entries.contains(.closed(nil)))
            let size = requests * (answerBytes + 10)
            await client.recorder.until { $0.ended > 0 || $0.bytes.count > size }
            expect(events.mostBuffered <= 4 * SocketStream.highWater)
        }
    }

    @Test(.requires(.openSSL), arguments: [false, true])
    func `frames that the owner leaves wait until the answers have been sent, even if they are small`(_ tls: Bool) async throws {
        let (requests, answerBytes) = (2000, 8000)
        // Takes one frame at a time.
        let events = GaugedEvents(answerBytes: answerBytes, stopsAfter: 0)
        try await self.withIdleClient(events, tls: tls) { client, _ in
            client.stream.send((0..<requests).flatMap { frame(0x81, "\($0)", key: Self.key) })
            await events.untilIdle()
            expect(events.receivedCount < requests)
            // The system's buffers are full, and one answer waits, perhaps behind a part of another one.
            expect(events.mostBuffered <= 2 * (answerBytes + 4))
            client.stream.resumeReading()
            await expectEqual(events.texts.wait(requests), (0..<requests).map { "\($0)" })
            await client.recorder.until { $0.ended > 0 || $0.bytes.count > requests * (answerBytes + 4) }
            expectEqual(client.recorder.seen.ended, 0)
        }
    }

    @Test func `pings of a client that does not take the pongs are not read`() async throws {
        let events = GaugedEvents()
        try await self.withIdleClient(events) { client, _ in
            let ping = frame(0x89, [UInt8](repeating: 7, count: 125), key: Self.key)
            let block = Array((0..<1000).map { _ in ping }.joined())
            for _ in 0..<300 { client.stream.send(block) }
            await events.untilIdle()
            expect(events.receivedCount < 300_000)
            client.stream.resumeReading()
            // Not every ping has a pong: while much output waits, only the latest one is answered.
            while events.receivedCount < 300_000, client.recorder.seen.ended == 0, !Task.isCancelled { await events.pause() }
            expect(client.recorder.seen.ended == 0 && events.receivedCount == 300_000)
            expect(events.mostBuffered <= 4 * SocketStream.highWater)
        }
    }

    @Test func `what is being sent counts towards the backlog limit`() async throws {
        let events = GaugedEvents()
        try await self.withIdleClient(events, limits: .forTests.with { $0.messageBacklogBytes = 1 << 20 }) { client, connection in
            // More than the system's buffers take: the rest of it is being sent.
            connection.enqueue(.binary([UInt8](repeating: 7, count: 64 << 20)))
            connection.flush()
            // The events send another message when writing is paused.
            await expectEqual(events.log.wait(3), [.opened, .paused, .closed(.tooLarge)])
            let error = try #require(events.errors.entries.first)
            expect(error.message.contains("1048576 bytes"))
        }
    }

    @Test func `a client that takes nothing for the stall timeout is dropped`() async throws {
        let events = GaugedEvents(answerBytes: 4096)
        try await self.withIdleClient(events, limits: .forTests.with { $0.stallTimeout = .milliseconds(30) }) { client, _ in
            let request = frame(0x81, "request", key: Self.key)
            client.stream.send(Array((0..<20_000).map { _ in request }.joined()))
            try await eventually { events.log.entries.contains(where: \.isClosed) }
            expectEqual(events.log.entries.last, .closed(.timedOut))
            let error = try #require(events.errors.entries.first)
            expect(error.message.contains("0.03 seconds") && error.message.contains("stall timeout"))
            expect(events.receivedCount < 20_000)
        }
    }

    @Test func `a server's owner is told to pause and to resume writing, in turns`() async throws {
        let events = GaugedEvents()
        let limits = ListenerLimits.forTests.with { $0.messageBacklogBytes = 1 << 30 }
        try await self.withIdleClient(events, limits: limits) { client, connection in
            for round in 1...3 {
                connection.enqueue(.binary([UInt8](repeating: 7, count: 64 << 20)))
                connection.flush()
                await expectEqual(events.log.wait(2 * round).last, .paused)
                client.stream.resumeReading()
                await expectEqual(events.log.wait(2 * round + 1).last, .resumed)
                client.stream.pauseReading()
            }
            expectEqual(events.log.entries, [.opened] + (0..<3).flatMap { _ in [GaugedEvents.Event.paused, .resumed] })
        }
    }

    @Test func `a limit below 256 KiB lowers the mark`() async throws {
        let events = GaugedEvents(answerBytes: 2000)
        let limits = ListenerLimits.forTests.with { ($0.messageBacklogBytes, $0.stallTimeout) = (2000, .milliseconds(30)) }
        try await self.withIdleClient(events, limits: limits) { client, _ in
            let request = frame(0x81, "request", key: Self.key)
            client.stream.send(Array((0..<40_000).map { _ in request }.joined()))
            try await eventually { events.log.entries.contains(where: \.isClosed) }
            expectEqual(events.log.entries.last, .closed(.timedOut))
            // The first delivery is 64 frames, and the next ones are smaller.
            expect(events.mostBuffered <= 65 * 2004)
        }
    }

    // MARK: Clients

    /// A stall timeout that no test reaches by accident.
    private static let patient = OutputLimits(backlogBytes: OutputLimits.client.backlogBytes, stallTimeout: .seconds(600))

    /// Runs `body` with a client whose server has paused reading.
    private func withIdleServer(
        _ events: GaugedEvents, limits: OutputLimits = Self.patient, _ body: (SocketWebSocket, any MessageConnection) async throws -> Void
    ) async throws {
        let loop = try EventLoop("test-client")
        let handler = TestHandler(onAccepted: { connection, _ in connection.pauseReading() })
        try await withListener(handler) { address in
            let connector = SocketConnector(loop: loop, resolver: SystemResolver.shared, tls: TLSConfiguration())
            let request = WebSocketRequest(Endpoint(scheme: "ws", host: address.host, port: address.port), timeout: .seconds(600))
            let client = SocketWebSocket(request, id: ConnectionID(rawValue: 1), events: events, connector: connector, limits: limits)
            events.connection.withLock { $0 = client }
            client.open()
            await expectEqual(events.log.wait(1), [.opened])
            await handler.events.log.wait(1)
            try await body(client, try #require(handler.events.connections.withLock { $0.first }))
            client.abandon()
        }
        loop.shutdown()
    }

    @Test func `a client's owner is told to pause and to resume writing`() async throws {
        let events = GaugedEvents()
        try await self.withIdleServer(events) { client, server in
            for _ in 0..<4 { client.enqueue(.binary([UInt8](repeating: 7, count: 8 << 20))) }
            client.flush()
            await expectEqual(events.log.wait(2), [.opened, .paused])
            server.resumeReading()
            server.flush()
            await expectEqual(events.log.wait(3), [.opened, .paused, .resumed])
        }
    }

    @Test func `a client drops a server that takes nothing for the stall timeout`() async throws {
        let events = GaugedEvents()
        let limits = OutputLimits(backlogBytes: 64 << 20, stallTimeout: .milliseconds(30))
        try await self.withIdleServer(events, limits: limits) { client, _ in
            for _ in 0..<4 { client.enqueue(.binary([UInt8](repeating: 7, count: 8 << 20))) }
            client.flush()
            await expectEqual(events.log.wait(3), [.opened, .paused, .closed(.timedOut)])
        }
    }

    @Test func `a client is closed at its backlog limit`() async throws {
        let events = GaugedEvents()
        let limits = OutputLimits(backlogBytes: 1 << 20, stallTimeout: .seconds(600))
        try await self.withIdleServer(events, limits: limits) { client, _ in
            client.enqueue(.binary([UInt8](repeating: 7, count: 64 << 20)))
            client.enqueue(.text("one too many"))
            client.flush()
            await expect(events.log.wait(2).contains(.closed(.tooLarge)))
        }
    }

    @Test func `what is enqueued before the connection is open counts`() async throws {
        let events = GaugedEvents()
        let loop = try EventLoop("test-client")
        let connector = SocketConnector(loop: loop, resolver: SystemResolver.shared, tls: TLSConfiguration())
        let request = WebSocketRequest(Endpoint(scheme: "ws", host: "127.0.0.1", port: 1), timeout: .seconds(600))
        let limits = OutputLimits(backlogBytes: 1000, stallTimeout: .seconds(600))
        let client = SocketWebSocket(request, id: ConnectionID(rawValue: 1), events: events, connector: connector, limits: limits)
        client.enqueue(.binary([UInt8](repeating: 7, count: 5000)))
        client.enqueue(.binary([7]))
        await expectEqual(events.log.wait(1), [.closed(.tooLarge)])
        loop.shutdown()
    }
}
