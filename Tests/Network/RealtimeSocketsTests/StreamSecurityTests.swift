import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A stand-in for TLS with all its moods: it reads ahead, takes less than it is given, reads when it has to write and
/// the other way round. What it sends is the plain bytes with every bit turned.
private final class MoodySession: StreamSecurity {
    struct Moods: Sendable {
        var readsWantWrite = false
        var writesWaitForThePeer = false
        var handshakeFails = false
        var handshakeNeverEnds = false
    }

    private struct State: Sendable {
        var isInUse = false
        var overlaps = 0
        var calls = 0
        var hasGreeted = false
        var ahead: [UInt8] = []
        var hasHeard = false
        var farewells = 0
    }

    private let descriptor: Int32
    private let moods: Moods
    private let state = Lock(State())

    init(_ descriptor: Int32, _ moods: Moods) {
        self.descriptor = descriptor
        self.moods = moods
    }

    var overlaps: Int { self.state.withLock { $0.overlaps } }
    var farewells: Int { self.state.withLock { $0.farewells } }

    private func alone(_ body: (inout State) -> IOResult) -> IOResult {
        var mine = self.state.withLock { state -> State in
            if state.isInUse { state.overlaps += 1 }
            state.isInUse = true
            state.calls += 1
            return state
        }
        sched_yield()
        let outcome = body(&mine)
        self.state.withLock { state in
            mine.overlaps = state.overlaps
            mine.isInUse = false
            state = mine
        }
        return outcome
    }

    func handshake() -> IOResult {
        self.alone { state in
            if self.moods.handshakeFails { return .failed(TransportError(.certificateRejected, "no")) }
            if self.moods.handshakeNeverEnds { return .wantRead }
            if state.calls == 1 { return .wantWrite }
            if !state.hasGreeted {
                state.hasGreeted = true
                _ = [UInt8(7)].withUnsafeBytes { SystemSocket.send(self.descriptor, $0) }
            }
            // Takes what follows the greeting too: no event will tell of it.
            var buffer = [UInt8](repeating: 0, count: 4096)
            guard case .done(let count) = buffer.withUnsafeMutableBytes({ SystemSocket.receive(self.descriptor, into: $0) }) else {
                return .wantRead
            }
            state.ahead = Array(buffer[1..<count])
            return .done(0)
        }
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        self.alone { state in
            if self.moods.readsWantWrite, state.calls.isMultiple(of: 3) { return .wantWrite }
            if state.ahead.isEmpty {
                var more = [UInt8](repeating: 0, count: 16 << 10)
                switch more.withUnsafeMutableBytes({ SystemSocket.receive(self.descriptor, into: $0) }) {
                case .done(let count): state.ahead = Array(more[..<count])
                case let other: return other
                }
            }
            state.hasHeard = true
            let count = min(1000, state.ahead.count)
            for index in 0..<count { buffer[index] = ~state.ahead[index] }
            state.ahead.removeFirst(count)
            return .done(count)
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        self.alone { state in
            if self.moods.writesWaitForThePeer, !state.hasHeard { return .wantRead }
            let turned = bytes.prefix(5000).map { ~$0 }
            return turned.withUnsafeBytes { SystemSocket.send(self.descriptor, $0) }
        }
    }

    func shutdown() -> IOResult {
        self.alone { state in
            state.farewells += 1
            return .done(0)
        }
    }
}

/// Reads the peer's end just when another thread has begun to write.
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
        let outcome = SystemSocket.receive(self.descriptor, into: buffer)
        guard case .done = outcome else { return outcome }
        self.hasEnded.withLock { $0 = true }
        let (stream, before) = (self.stream, self.stream.writes)
        let writer = PosixThread("test-writer") { stream.send([1]) }
        writer?.detach()
        // The writer waits for this call to return.
        while stream.writes == before { sched_yield() }
        return .closed
    }
}

@Suite(.usesSockets, .timeLimit(.minutes(5)))
struct StreamSecurityTests {
    private final class Sessions: Sendable {
        private let made = Lock<[MoodySession]>([])
        var all: [MoodySession] { self.made.withLock { $0 } }

        func factory(_ moods: MoodySession.Moods = .init()) -> StreamSecurityFactory {
            { descriptor throws(TransportError) in
                let session = MoodySession(descriptor, moods)
                self.made.withLock { $0.append(session) }
                return session
            }
        }
    }

    private func withPair(
        _ moods: MoodySession.Moods = .init(), server: EventRecorder = EventRecorder(), _ body: (Pair) async throws -> Void
    ) async throws {
        let sessions = Sessions()
        let factories = (sessions.factory(moods), sessions.factory())
        try await RealtimeSocketsTests.withPair(security: factories, server: server, body)
        #expect(sessions.all.map(\.overlaps) == [0, 0])
        #expect(sessions.all.allSatisfy { $0.farewells <= 1 })
    }

    @Test func `bytes go both ways through it`() async throws {
        let echo = EventRecorder(onReceived: { stream, bytes in
            stream.enqueue { $0.append(contentsOf: bytes) }
            stream.flush()
        })
        try await self.withPair(server: echo) { pair in
            pair.client.send(pattern(300_000))
            #expect(await pair.atClient.bytes(300_000) == pattern(300_000))
        }
    }

    @Test func `what it read ahead is not forgotten when reading was paused`() async throws {
        let recorder = EventRecorder(onReceived: { stream, _ in stream.pauseReading() })
        try await self.withPair(server: recorder) { pair in
            pair.client.send(pattern(10_000))
            for reads in 1...10 {
                await recorder.until { $0.reads >= reads }
                await pair.loop.turn()
                #expect(recorder.seen.reads == reads)
                pair.server.resumeReading()
            }
            #expect(recorder.seen.bytes == pattern(10_000))
        }
    }

    @Test func `what it read ahead is not forgotten when its turn is over`() async throws {
        try await self.withPair { pair in
            // A little more than one turn's budget, and all of it there before the first read.
            let count = SocketStream.readBudget + 8000
            pair.server.pauseReading()
            await pair.loop.turn()
            pair.client.send(pattern(count))
            while pair.client.bufferedBytes > 0 { await pair.loop.turn() }
            pair.server.resumeReading()
            #expect(await pair.atServer.bytes(count) == pattern(count))
        }
    }

    /// Its writes take until they are let go.
    private final class SlowSession: StreamSecurity {
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
        func lift() { self.gate.withLock { $0 = true } }
    }

    @Test func `the descriptor stays open while another thread writes to it`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        let recorder = EventRecorder()
        let session = SlowSession()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "127.0.0.1", port: port, ConnectOptions(timeout: .seconds(600), security: { _ in session }))
        let peer = try listener.accepted()
        await recorder.opened()
        let writer = try #require(PosixThread("writer") { stream.send([1]) })
        session.waitForWrite()
        stream.close()
        await loop.turn()
        var byte: UInt8 = 0
        #expect(recv(peer.descriptor, &byte, 1, Int32(MSG_DONTWAIT)) == -1)
        session.lift()
        writer.join()
        #expect(peer.receive(1).isEmpty)
        #expect(recv(peer.descriptor, &byte, 1, Int32(MSG_DONTWAIT)) == 0)
        peer.close()
        listener.close()
        loop.shutdown()
    }

    @Test func `a read that has to write is taken up again`() async throws {
        var moods = MoodySession.Moods()
        moods.readsWantWrite = true
        try await self.withPair(moods) { pair in
            pair.server.send(pattern(200_000))
            #expect(await pair.atClient.bytes(200_000) == pattern(200_000))
        }
    }

    @Test func `a write that has to read goes on when the peer has spoken`() async throws {
        var moods = MoodySession.Moods()
        moods.writesWaitForThePeer = true
        try await self.withPair(moods) { pair in
            pair.client.send(pattern(20_000))
            await pair.loop.turn()
            #expect(pair.client.bufferedBytes == 20_000)
            pair.server.send([1])
            #expect(await pair.atServer.bytes(20_000) == pattern(20_000))
        }
    }

    @Test func `writes of many threads and reads never meet in a session`() async throws {
        try await self.withPair { pair in
            await withTaskGroup(of: Void.self) { group in
                for stream in [pair.client, pair.server] {
                    for _ in 0..<4 {
                        group.addTask { for _ in 0..<100 { stream.send(pattern(700)) } }
                    }
                }
            }
            #expect(await pair.atServer.bytes(280_000).count == 280_000)
            #expect(await pair.atClient.bytes(280_000).count == 280_000)
        }
    }

    @Test func `a rejected certificate ends the stream before it was open`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        var moods = MoodySession.Moods()
        moods.handshakeFails = true
        let recorder = EventRecorder()
        let sessions = Sessions()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.send([1, 2, 3])
        stream.connect(to: "127.0.0.1", port: port, ConnectOptions(timeout: .seconds(600), security: sessions.factory(moods)))
        #expect(await recorder.ended()?.code == .certificateRejected)
        #expect(recorder.seen.opened == 0)
        #expect(sessions.all.map(\.farewells) == [0])
        #expect(try listener.accepted().receive(10).isEmpty)
        loop.shutdown()
        listener.close()
    }

    @Test func `a handshake that never ends falls under the time limit`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        var moods = MoodySession.Moods()
        moods.handshakeNeverEnds = true
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        let options = ConnectOptions(timeout: .milliseconds(200), security: Sessions().factory(moods))
        stream.connect(to: "127.0.0.1", port: port, options)
        let error = await recorder.ended()
        #expect(error?.code == .timedOut)
        #expect(error?.message.contains("127.0.0.1:\(port)") == true)
        loop.shutdown()
        listener.close()
    }

    @Test func `an end that is read while somebody writes is told afterwards`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        let options = ConnectOptions(timeout: .seconds(600), security: { EndingSession($0, stream) })
        stream.connect(to: "127.0.0.1", port: port, options)
        await recorder.opened()
        // It stays connected, as a peer may that waits for our end: the socket has nothing more to tell.
        let peer = try listener.accepted()
        peer.send([0])
        let seen = await recorder.until { $0.ended > 0 }
        #expect(seen.ended == 1 && seen.error == nil)
        stream.close()
        peer.close()
        loop.shutdown()
        listener.close()
    }

    @Test func `TLS that cannot be made is the streams error`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        let options = ConnectOptions(security: { _ throws(TransportError) in throw TransportError(.tlsUnavailable, "none") })
        stream.connect(to: "127.0.0.1", port: port, options)
        #expect(await recorder.ended()?.code == .tlsUnavailable)
        loop.shutdown()
        listener.close()
    }
}
