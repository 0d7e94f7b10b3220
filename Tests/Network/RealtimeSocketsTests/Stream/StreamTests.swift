import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct StreamTests {
    private static func echo() -> EventRecorder {
        EventRecorder(onReceived: { stream, bytes in
            stream.enqueue { $0.append(contentsOf: bytes) }
            stream.flush()
        })
    }

    @Test func `a stream sends and receives bytes`() async throws {
        try await withPair(server: Self.echo()) { pair in
            pair.client.send(pattern(1000))
            await expectEqual(pair.atClient.bytes(1000), pattern(1000))
        }
    }

    @Test func `single bytes arrive in order`() async throws {
        try await withPair(server: Self.echo()) { pair in
            for byte in pattern(3000) { pair.client.send([byte]) }
            await expectEqual(pair.atClient.bytes(3000), pattern(3000))
        }
    }

    @Test func `bytes enqueued before the stream is open are sent when it opens`() async throws {
        let loop = try EventLoop()
        let accepted = Accepted()
        let listener = try TCPListener(loops: [loop]) { accepted.note($0, EventRecorder()) }
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.send(pattern(100))
        stream.connect(to: "127.0.0.1", port: listener.address.port)
        stream.send(pattern(100))
        let (_, atServer) = try await accepted.next()
        await expectEqual(atServer.bytes(200), pattern(100) + pattern(100))
        loop.shutdown()
    }

    @Test func `a burst causes two writes and at most one wake-up`() async throws {
        try await withPair(turnLimit: .seconds(3600)) { pair in
            let blocked = BlockedLoop(pair.loop)
            let (writes, wakeUps) = (pair.client.writes, pair.loop.counters.wakeUps)
            for number in 0..<64 { pair.client.send(pattern(195, seed: number)) }
            expectEqual(pair.client.writes - writes, 1)
            expectEqual(pair.client.bufferedBytes, 63 * 195)
            blocked.release()
            await expectEqual(pair.atServer.bytes(64 * 195), (0..<64).flatMap { pattern(195, seed: $0) })
            expectEqual(pair.client.writes - writes, 2)
            expect(pair.loop.counters.wakeUps - wakeUps <= 1)
        }
    }

    @Test func `later bursts are gathered while the loop sleeps`() async throws {
        try await withPair(turnLimit: .seconds(3600)) { pair in
            let blocked = BlockedLoop(pair.loop)
            for number in 0..<64 { pair.client.send(pattern(195, seed: number)) }
            blocked.release()
            _ = await pair.atServer.bytes(64 * 195)
            await pair.loop.turn()
            let writes = pair.client.writes
            for number in 64..<128 { pair.client.send(pattern(195, seed: number)) }
            // The loop is not blocked, but it does not service the stream for an hour.
            expectEqual(pair.client.writes - writes, 1)
            expectEqual(pair.client.bufferedBytes, 63 * 195)
            pair.client.finishWriting()
            await expectEqual(pair.atServer.bytes(128 * 195), (0..<128).flatMap { pattern(195, seed: $0) })
            expectEqual(pair.client.writes - writes, 2)
        }
    }

    @Test func `gathered bytes are written when the turn ends`() async throws {
        try await withPair(turnLimit: .milliseconds(1)) { pair in
            for burst in 1...20 {
                for _ in 0..<64 { pair.client.send(pattern(195)) }
                await expectEqual(pair.atServer.bytes(burst * 64 * 195).count, burst * 64 * 195)
            }
        }
    }

    @Test func `a send after received bytes is written immediately`() async throws {
        try await withPair(turnLimit: .seconds(3600), server: Self.echo()) { pair in
            for number in 1...100 {
                let writes = pair.client.writes
                pair.client.send(pattern(195))
                // Written although the turn limit is an hour, because the received bytes have ended the previous turn.
                expectEqual(pair.client.writes, writes + 1)
                expectEqual(pair.client.bufferedBytes, 0)
                _ = await pair.atClient.bytes(number * 195)
                await pair.loop.turn()
            }
        }
    }

    @Test func `without received bytes, the turn ends when its time limit passes`() async throws {
        try await withPair(turnLimit: .zero) { pair in
            let blocked = BlockedLoop(pair.loop)
            let writes = pair.client.writes
            for _ in 0..<10 { pair.client.send([1]) }
            expectEqual(pair.client.writes, writes + 10)
            blocked.release()
        }
    }

    @Test func `a backlog larger than the socket's buffer arrives in full`() async throws {
        try await withPair { pair in
            let bytes = pattern(32 << 20)
            pair.server.pauseReading()
            pair.client.send(bytes)
            await pair.loop.turn()
            expect(pair.client.bufferedBytes > 0)
            pair.server.resumeReading()
            let seen = await pair.atServer.until { $0.bytes.count >= bytes.count }
            expectEqual(seen.bytes, bytes)
            await pair.atClient.until { $0.drained > 0 }
            expectEqual(pair.client.bufferedBytes, 0)
            expectEqual(pair.atClient.seen.drained, 1)
        }
    }

    @Test func `draining a small backlog is not reported`() async throws {
        try await withPair(server: Self.echo()) { pair in
            pair.client.send(pattern(1000))
            _ = await pair.atClient.bytes(1000)
            await pair.loop.turn()
            expectEqual(pair.atClient.seen.drained, 0)
        }
    }

    @Test func `pausing while bytes are being delivered stops reading immediately`() async throws {
        let recorder = EventRecorder(onReceived: { stream, _ in stream.pauseReading() })
        try await withPair(server: recorder) { pair in
            pair.client.send(pattern(1 << 20))
            await recorder.until { $0.reads == 1 }
            for _ in 0..<5 { await pair.loop.turn() }
            expectEqual(recorder.seen.reads, 1)
            pair.server.resumeReading()
            await recorder.until { $0.reads == 2 }
            await pair.loop.turn()
            expectEqual(recorder.seen.reads, 2)
        }
    }

    @Test func `a reset does not keep the loop awake while the stream is paused`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "127.0.0.1", port: port)
        let peer = try listener.accepted()
        await recorder.opened()
        stream.pauseReading()
        peer.send([1])
        await loop.turn()
        peer.reset()
        await loop.turn()
        let turns = loop.counters.turns
        for _ in 0..<1000 { sched_yield() }
        // There would be thousands if the hang-up were reported repeatedly.
        expect(loop.counters.turns - turns < 5)
        stream.resumeReading()
        await expectEqual(recorder.ended()?.code, .reset)
        listener.close()
        loop.shutdown()
    }

    @Test func `the peer's end of stream is reported and the other direction stays open`() async throws {
        try await withPair { pair in
            pair.client.send(pattern(10))
            pair.client.finishWriting()
            pair.client.send([99])
            await expectNil(pair.atServer.ended())
            expectEqual(pair.atServer.seen.bytes, pattern(10))
            pair.server.send(pattern(500_000))
            pair.server.finishWriting()
            await expectNil(pair.atClient.ended())
            expectEqual(pair.atClient.seen.bytes, pattern(500_000))
            expect(pair.atClient.seen.ended == 1 && pair.atServer.seen.ended == 1)
        }
    }

    @Test func `finishing sends the backlog first`() async throws {
        try await withPair { pair in
            pair.server.pauseReading()
            pair.client.enqueue { $0.append(contentsOf: pattern(16 << 20)) }
            pair.client.finishWriting()
            await pair.loop.turn()
            pair.server.resumeReading()
            await expectNil(pair.atServer.ended())
            expectEqual(pair.atServer.seen.bytes.count, 16 << 20)
        }
    }

    @Test func `a stream closes when both sides have ended`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        weak var closed: SocketStream?
        let recorder = EventRecorder()
        do {
            let stream = SocketStream(loop: loop, events: recorder)
            closed = stream
            stream.connect(to: "127.0.0.1", port: port)
            let peer = try listener.accepted()
            await recorder.opened()
            stream.finishWriting()
            expect(peer.receive(1).isEmpty)
            peer.finish()
            await expectNil(recorder.ended())
            peer.close()
        }
        await loop.turn()
        expectNil(closed)
        listener.close()
        loop.shutdown()
    }

    @Test func `a reset is an error and the last event`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "127.0.0.1", port: port)
        let peer = try listener.accepted()
        await recorder.opened()
        peer.reset()
        await expectEqual(recorder.ended()?.code, .reset)
        stream.send([1, 2, 3])
        stream.resumeReading()
        stream.close()
        await loop.turn()
        expectEqual(recorder.seen.ended, 1)
        expectEqual(stream.bufferedBytes, 0)
        listener.close()
        loop.shutdown()
    }

    @Test func `bytes sent before a reset are delivered`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "127.0.0.1", port: port)
        let peer = try listener.accepted()
        await recorder.opened()
        let blocked = BlockedLoop(loop)
        peer.send(pattern(100_000))
        peer.reset()
        // A write detects the reset, before anything was read.
        for _ in 0..<100 where stream.bufferedBytes == 0 { stream.send([1]) }
        blocked.release()
        await expectEqual(recorder.ended()?.code, .reset)
        expectEqual(recorder.seen.bytes, pattern(100_000))
        listener.close()
        loop.shutdown()
    }

    @Test func `a paused stream reports failed writes`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop(turnLimit: .zero)
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "127.0.0.1", port: port)
        let peer = try listener.accepted()
        await recorder.opened()
        stream.pauseReading()
        await loop.turn()
        peer.reset()
        while recorder.seen.ended == 0, !Task.isCancelled {
            stream.send([1])
            await loop.turn()
        }
        expectEqual(recorder.seen.error?.code, .reset)
        listener.close()
        loop.shutdown()
    }

    @Test func `no event follows a close`() async throws {
        let recorder = EventRecorder(onReceived: { stream, _ in stream.close() })
        try await withPair(server: recorder) { pair in
            pair.client.send(pattern(1 << 20))
            await recorder.until { $0.reads == 1 }
            let error = await pair.atClient.ended()
            expect(error == nil || error?.code == .reset)
            await pair.loop.turn()
            expect(recorder.seen.reads == 1 && recorder.seen.ended == 0)
        }
    }

    @Test func `an event that was polled before its stream closed is dropped`() async throws {
        let loop = try EventLoop()
        let accepted = Accepted()
        let streams = Lock<[SocketStream]>([])
        let listener = try TCPListener(loops: [loop]) { stream in
            streams.withLock { $0.append(stream) }
            // The first of the streams to receive something closes the other one.
            return accepted.note(
                stream,
                EventRecorder(onReceived: { stream, _ in
                    for other in streams.withLock({ $0 }) where other !== stream { other.close() }
                }))
        }
        let sockets = try (0..<2).map { _ in try RawSocket.connected(to: listener.address.port) }
        let (first, second) = (try await accepted.next(), try await accepted.next())
        let blocked = BlockedLoop(loop)
        for socket in sockets { socket.send([1]) }
        blocked.release()
        await loop.turn()
        await loop.turn()
        expectEqual(first.1.seen.reads + second.1.seen.reads, 1)
        expectEqual(first.1.seen.ended + second.1.seen.ended, 0)
        for socket in sockets { socket.close() }
        loop.shutdown()
    }

    @Test func `concurrent writes and closes close the stream once`() async throws {
        let message = pattern(2000)
        for _ in 0..<50 {
            try await withPair { pair in
                await withTaskGroup(of: Void.self) { group in
                    for _ in 0..<4 {
                        group.addTask {
                            for _ in 0..<20 { pair.client.send(message) }
                            pair.client.close()
                        }
                    }
                }
                let error = await pair.atServer.ended()
                expect(error == nil || error?.code == .reset)
                expectEqual(pair.atClient.seen.ended, 0)
                expectEqual(pair.client.bufferedBytes, 0)
            }
        }
    }

    @Test func `concurrent writes do not interleave messages`() async throws {
        try await withPair { pair in
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<8 {
                    group.addTask {
                        for _ in 0..<500 { pair.client.send(repeatElement(UInt8(number), count: 100)) }
                    }
                }
            }
            let bytes = await pair.atServer.bytes(8 * 500 * 100)
            for start in stride(from: 0, to: bytes.count, by: 100) {
                expectEqual(Set(bytes[start..<start + 100]).count, 1)
            }
        }
    }

    @Test func `a busy stream does not starve others`() async throws {
        let reads = Lock<[Int]>([])
        let loop = try EventLoop()
        let next = Lock(0)
        let ended = Accepted()
        let listener = try TCPListener(loops: [loop]) { stream in
            let number = next.withLock { number -> Int in
                defer { number += 1 }
                return number
            }
            let recorder = EventRecorder(onReceived: { _, bytes in
                reads.withLock { $0 += Array(repeating: number, count: bytes.count) }
            })
            return ended.note(stream, recorder)
        }
        let sockets = try (0..<2).map { _ in try RawSocket.connected(to: listener.address.port) }
        let first = try await ended.next()
        let second = try await ended.next()
        let blocked = BlockedLoop(loop)
        // The buffers of the loopback device hold this without a reader.
        sockets[0].send(pattern(512 << 10))
        sockets[1].send(pattern(1))
        blocked.release()
        _ = await second.1.bytes(1)
        _ = await first.1.bytes(512 << 10)
        let order = reads.withLock { $0 }
        let position = try #require(order.firstIndex(of: 1))
        expect(position <= SocketStream.readBudget)
        for socket in sockets { socket.close() }
        loop.shutdown()
    }

    @Test func `a reused descriptor number receives only its own bytes`() async throws {
        let loop = try EventLoop()
        let listener = try TCPListener(loops: [loop]) { _ in Self.echo() }
        await withTaskGroup(of: Void.self) { group in
            for lane in 0..<8 {
                group.addTask {
                    for round in 0..<50 {
                        let recorder = EventRecorder()
                        let stream = SocketStream(loop: loop, events: recorder)
                        stream.connect(to: "127.0.0.1", port: listener.address.port)
                        let bytes = pattern(300, seed: lane * 1000 + round)
                        stream.send(bytes)
                        await expectEqual(recorder.bytes(300), bytes)
                        stream.send(bytes)
                        stream.close()
                    }
                }
            }
        }
        loop.shutdown()
    }

    @Test func `shutting down the loop ends its streams with an error`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "127.0.0.1", port: port)
        await recorder.opened()
        loop.shutdown()
        expectEqual(recorder.seen.error?.code, .closed)
        stream.send([1])
        stream.close()
        let rejected = EventRecorder()
        SocketStream(loop: loop, events: rejected).connect(to: "127.0.0.1", port: port)
        expectEqual(rejected.seen.error?.code, .closed)
        listener.close()
    }
}
