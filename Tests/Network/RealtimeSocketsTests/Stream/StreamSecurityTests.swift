import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

/// A fake TLS session with the peculiarities of TLS: it reads ahead, writes less than it is given, and may need to write before it can
/// read or to read before it can write. It sends the bytes with every bit inverted.
private final class FakeSession: StreamSecurity {
    struct Behavior: Sendable {
        var readsWantWrite = false
        var writesWantRead = false
        var handshakeFails = false
        var handshakeNeverEnds = false
    }

    private struct State: Sendable {
        var isInUse = false
        var overlaps = 0
        var calls = 0
        var hasSentHello = false
        var readAhead: [UInt8] = []
        var hasReceived = false
        var shutdowns = 0
    }

    private let descriptor: Int32
    private let behavior: Behavior
    private let state = Lock(State())

    init(_ descriptor: Int32, _ behavior: Behavior) {
        self.descriptor = descriptor
        self.behavior = behavior
    }

    var overlaps: Int { self.state.withLock { $0.overlaps } }
    var shutdowns: Int { self.state.withLock { $0.shutdowns } }

    private func exclusively(_ body: (inout State) -> IOResult) -> IOResult {
        var copy = self.state.withLock { state -> State in
            if state.isInUse { state.overlaps += 1 }
            state.isInUse = true
            state.calls += 1
            return state
        }
        sched_yield()
        let result = body(&copy)
        self.state.withLock { state in
            copy.overlaps = state.overlaps
            copy.isInUse = false
            state = copy
        }
        return result
    }

    func handshake() -> IOResult {
        self.exclusively { state in
            if self.behavior.handshakeFails { return .failed(TransportError(.certificateRejected, "no")) }
            if self.behavior.handshakeNeverEnds { return .wantRead }
            if state.calls == 1 { return .wantWrite }
            if !state.hasSentHello {
                state.hasSentHello = true
                _ = [UInt8(7)].withUnsafeBytes { SystemSocket.send(self.descriptor, $0) }
            }
            // Reads what follows the hello as well, so that no event announces it.
            var buffer = [UInt8](repeating: 0, count: 4096)
            guard case .done(let count) = buffer.withUnsafeMutableBytes({ SystemSocket.receive(self.descriptor, into: $0) }) else {
                return .wantRead
            }
            state.readAhead = Array(buffer[1..<count])
            return .done(0)
        }
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        self.exclusively { state in
            if self.behavior.readsWantWrite, state.calls.isMultiple(of: 3) { return .wantWrite }
            if state.readAhead.isEmpty {
                var more = [UInt8](repeating: 0, count: 16 << 10)
                switch more.withUnsafeMutableBytes({ SystemSocket.receive(self.descriptor, into: $0) }) {
                case .done(let count): state.readAhead = Array(more[..<count])
                case let other: return other
                }
            }
            state.hasReceived = true
            let count = min(1000, state.readAhead.count)
            for index in 0..<count { buffer[index] = ~state.readAhead[index] }
            state.readAhead.removeFirst(count)
            return .done(count)
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        self.exclusively { state in
            if self.behavior.writesWantRead, !state.hasReceived { return .wantRead }
            let inverted = bytes.prefix(5000).map { ~$0 }
            return inverted.withUnsafeBytes { SystemSocket.send(self.descriptor, $0) }
        }
    }

    func shutdown() -> IOResult {
        self.exclusively { state in
            state.shutdowns += 1
            return .done(0)
        }
    }
}

/// Returns the end of the stream while another thread has begun to write.
private final class EndingSession: StreamSecurity {
    private let descriptor: Int32
    private let stream: SocketStream
    private let hasEnded = Lock(false)

    init(_ descriptor: Int32, _ stream: SocketStream) {
        self.descriptor = descriptor
        self.stream = stream
    }

    func handshake() -> IOResult { .done(0) }
    func shutdown() -> IOResult { .done(0) }
    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult { SystemSocket.send(self.descriptor, bytes) }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        if self.hasEnded.withLock({ $0 }) { return .closed }
        let result = SystemSocket.receive(self.descriptor, into: buffer)
        guard case .done = result else { return result }
        self.hasEnded.withLock { $0 = true }
        let (stream, before) = (self.stream, self.stream.writes)
        let writer = PosixThread("test-writer") { stream.send([1]) }
        writer?.detach()
        // The writer waits for this call to return.
        while stream.writes == before { sched_yield() }
        return .closed
    }
}

@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct StreamSecurityTests {
    private final class Sessions: Sendable {
        private let created = Lock<[FakeSession]>([])
        var all: [FakeSession] { self.created.withLock { $0 } }

        func factory(_ behavior: FakeSession.Behavior = .init()) -> StreamSecurityFactory {
            { descriptor throws(TransportError) in
                let session = FakeSession(descriptor, behavior)
                self.created.withLock { $0.append(session) }
                return session
            }
        }
    }

    private func withPair(
        _ behavior: FakeSession.Behavior = .init(), server: EventRecorder = EventRecorder(), _ body: (Pair) async throws -> Void
    ) async throws {
        let sessions = Sessions()
        let factories = (sessions.factory(behavior), sessions.factory())
        try await RealtimeSocketsTests.withPair(security: factories, server: server, body)
        expectEqual(sessions.all.map(\.overlaps), [0, 0])
        expect(sessions.all.allSatisfy { $0.shutdowns <= 1 })
    }

    @Test func `bytes are sent and received through TLS`() async throws {
        let echo = EventRecorder(onReceived: { stream, bytes in
            stream.enqueue { $0.append(contentsOf: bytes) }
            stream.flush()
        })
        try await self.withPair(server: echo) { pair in
            pair.client.send(pattern(300_000))
            await expectEqual(pair.atClient.bytes(300_000), pattern(300_000))
        }
    }

    @Test func `bytes that TLS has read ahead are delivered after a pause`() async throws {
        let recorder = EventRecorder(onReceived: { stream, _ in stream.pauseReading() })
        try await self.withPair(server: recorder) { pair in
            pair.client.send(pattern(10_000))
            for reads in 1...10 {
                await recorder.until { $0.reads >= reads }
                await pair.loop.turn()
                expectEqual(recorder.seen.reads, reads)
                pair.server.resumeReading()
            }
            expectEqual(recorder.seen.bytes, pattern(10_000))
        }
    }

    @Test func `bytes that TLS has read ahead are delivered after the read budget is spent`() async throws {
        try await self.withPair { pair in
            // A little more than the budget of a turn, all of it received before the first read.
            let count = SocketStream.readBudget + 8000
            pair.server.pauseReading()
            await pair.loop.turn()
            pair.client.send(pattern(count))
            while pair.client.bufferedBytes > 0 { await pair.loop.turn() }
            pair.server.resumeReading()
            await expectEqual(pair.atServer.bytes(count), pattern(count))
        }
    }

    /// A session with writes that block until ``release()``.
    private final class BlockingSession: StreamSecurity {
        private let gate = Lock(false)
        private let entered = Lock(false)
        func handshake() -> IOResult { .done(0) }
        func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult { .wantRead }
        func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
            self.entered.withLock { $0 = true }
            while !self.gate.withLock({ $0 }) { sched_yield() }
            return .done(bytes.count)
        }
        func shutdown() -> IOResult { .done(0) }
        func waitForWrite() { while !self.entered.withLock({ $0 }) { sched_yield() } }
        func release() { self.gate.withLock { $0 = true } }
    }

    @Test func `the descriptor stays open while another thread writes`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        let recorder = EventRecorder()
        let session = BlockingSession()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "127.0.0.1", port: port, ConnectOptions(timeout: .seconds(600), security: { _ in session }))
        let peer = try listener.accepted()
        await recorder.opened()
        let writer = try #require(PosixThread("writer") { stream.send([1]) })
        session.waitForWrite()
        stream.close()
        await loop.turn()
        var byte: UInt8 = 0
        expectEqual(recv(peer.descriptor, &byte, 1, Int32(MSG_DONTWAIT)), -1)
        session.release()
        writer.join()
        expect(peer.receive(1).isEmpty)
        expectEqual(recv(peer.descriptor, &byte, 1, Int32(MSG_DONTWAIT)), 0)
        peer.close()
        listener.close()
        loop.shutdown()
    }

    @Test func `a read that must write first is retried when the socket is writable`() async throws {
        var behavior = FakeSession.Behavior()
        behavior.readsWantWrite = true
        try await self.withPair(behavior) { pair in
            pair.server.send(pattern(200_000))
            await expectEqual(pair.atClient.bytes(200_000), pattern(200_000))
        }
    }

    @Test func `a write that must read first continues when the peer sends`() async throws {
        var behavior = FakeSession.Behavior()
        behavior.writesWantRead = true
        try await self.withPair(behavior) { pair in
            pair.client.send(pattern(20_000))
            await pair.loop.turn()
            expectEqual(pair.client.bufferedBytes, 20_000)
            pair.server.send([1])
            await expectEqual(pair.atServer.bytes(20_000), pattern(20_000))
        }
    }

    @Test func `reads and writes never overlap in a session`() async throws {
        try await self.withPair { pair in
            await withTaskGroup(of: Void.self) { group in
                for stream in [pair.client, pair.server] {
                    for _ in 0..<4 {
                        group.addTask { for _ in 0..<100 { stream.send(pattern(700)) } }
                    }
                }
            }
            await expectEqual(pair.atServer.bytes(280_000).count, 280_000)
            await expectEqual(pair.atClient.bytes(280_000).count, 280_000)
        }
    }

    @Test func `a rejected certificate ends the stream before it opens`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        var behavior = FakeSession.Behavior()
        behavior.handshakeFails = true
        let recorder = EventRecorder()
        let sessions = Sessions()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.send([1, 2, 3])
        stream.connect(to: "127.0.0.1", port: port, ConnectOptions(timeout: .seconds(600), security: sessions.factory(behavior)))
        await expectEqual(recorder.ended()?.code, .certificateRejected)
        expectEqual(recorder.seen.opened, 0)
        expectEqual(sessions.all.map(\.shutdowns), [0])
        try expect(listener.accepted().receive(10).isEmpty)
        loop.shutdown()
        listener.close()
    }

    @Test func `a handshake that never completes times out`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        var behavior = FakeSession.Behavior()
        behavior.handshakeNeverEnds = true
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        let options = ConnectOptions(timeout: .milliseconds(200), security: Sessions().factory(behavior))
        stream.connect(to: "127.0.0.1", port: port, options)
        let error = await recorder.ended()
        expectEqual(error?.code, .timedOut)
        expectEqual(error?.message.contains("127.0.0.1:\(port)"), true)
        loop.shutdown()
        listener.close()
    }

    @Test func `an end of stream that is read during a write is reported after the write`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        let options = ConnectOptions(timeout: .seconds(600), security: { EndingSession($0, stream) })
        stream.connect(to: "127.0.0.1", port: port, options)
        await recorder.opened()
        // The peer stays connected, so the poller reports nothing more.
        let peer = try listener.accepted()
        peer.send([0])
        let seen = await recorder.until { $0.ended > 0 }
        expect(seen.ended == 1 && seen.error == nil)
        stream.close()
        peer.close()
        loop.shutdown()
        listener.close()
    }

    @Test func `an error that creating the TLS session throws ends the stream`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        let options = ConnectOptions(security: { _ throws(TransportError) in throw TransportError(.tlsUnavailable, "none") })
        stream.connect(to: "127.0.0.1", port: port, options)
        await expectEqual(recorder.ended()?.code, .tlsUnavailable)
        loop.shutdown()
        listener.close()
    }
}
