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

@Suite(.usesSockets, .timeLimit(.minutes(5)))
struct StreamTests {
    private static func echo() -> EventRecorder {
        EventRecorder(onReceived: { stream, bytes in
            stream.enqueue { $0.append(contentsOf: bytes) }
            stream.flush()
        })
    }

    @Test func `what is sent comes back`() async throws {
        try await withPair(server: Self.echo()) { pair in
            pair.client.send(pattern(1000))
            #expect(await pair.atClient.bytes(1000) == pattern(1000))
        }
    }

    @Test func `one byte at a time arrives whole`() async throws {
        try await withPair(server: Self.echo()) { pair in
            for byte in pattern(3000) { pair.client.send([byte]) }
            #expect(await pair.atClient.bytes(3000) == pattern(3000))
        }
    }

    @Test func `what is enqueued before the stream is open is sent when it is`() async throws {
        let loop = try EventLoop()
        let accepted = Accepted()
        let listener = try TCPListener(loops: [loop]) { accepted.note($0, EventRecorder()) }
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.send(pattern(100))
        stream.connect(to: "127.0.0.1", port: listener.address.port)
        stream.send(pattern(100))
        let (_, atServer) = try await accepted.next()
        #expect(await atServer.bytes(200) == pattern(100) + pattern(100))
        loop.shutdown()
    }

    @Test func `a burst costs two writes and no more than one wake up`() async throws {
        try await withPair(turnLimit: .seconds(3600)) { pair in
            let blockade = BlockedLoop(pair.loop)
            let (writes, wakeUps) = (pair.client.writes, pair.loop.counters.wakeUps)
            for number in 0..<64 { pair.client.send(pattern(195, seed: number)) }
            #expect(pair.client.writes - writes == 1)
            #expect(pair.client.bufferedBytes == 63 * 195)
            blockade.lift()
            #expect(await pair.atServer.bytes(64 * 195) == (0..<64).flatMap { pattern(195, seed: $0) })
            #expect(pair.client.writes - writes == 2)
            #expect(pair.loop.counters.wakeUps - wakeUps <= 1)
        }
    }

    @Test func `further bursts are gathered though the loop sleeps`() async throws {
        try await withPair(turnLimit: .seconds(3600)) { pair in
            let blockade = BlockedLoop(pair.loop)
            for number in 0..<64 { pair.client.send(pattern(195, seed: number)) }
            blockade.lift()
            _ = await pair.atServer.bytes(64 * 195)
            await pair.loop.turn()
            let writes = pair.client.writes
            for number in 64..<128 { pair.client.send(pattern(195, seed: number)) }
            // Nobody holds the loop up: it has nothing to do with the stream for an hour.
            #expect(pair.client.writes - writes == 1)
            #expect(pair.client.bufferedBytes == 63 * 195)
            pair.client.finishWriting()
            #expect(await pair.atServer.bytes(128 * 195) == (0..<128).flatMap { pattern(195, seed: $0) })
            #expect(pair.client.writes - writes == 2)
        }
    }

    @Test func `what gathered goes out when the turn ends`() async throws {
        try await withPair(turnLimit: .milliseconds(1)) { pair in
            for burst in 1...20 {
                for _ in 0..<64 { pair.client.send(pattern(195)) }
                #expect(await pair.atServer.bytes(burst * 64 * 195).count == burst * 64 * 195)
            }
        }
    }

    @Test func `a request after its answer is written at once`() async throws {
        try await withPair(turnLimit: .seconds(3600), server: Self.echo()) { pair in
            for number in 1...100 {
                let writes = pair.client.writes
                pair.client.send(pattern(195))
                // Written here already, though the turn limit is an hour: the answer ended the turn before.
                #expect(pair.client.writes == writes + 1)
                #expect(pair.client.bufferedBytes == 0)
                _ = await pair.atClient.bytes(number * 195)
                await pair.loop.turn()
            }
        }
    }

    @Test func `without an answer the turn ends by the clock`() async throws {
        try await withPair(turnLimit: .zero) { pair in
            let blockade = BlockedLoop(pair.loop)
            let writes = pair.client.writes
            for _ in 0..<10 { pair.client.send([1]) }
            #expect(pair.client.writes == writes + 10)
            blockade.lift()
        }
    }

    @Test func `more than the socket takes waits and arrives whole`() async throws {
        try await withPair { pair in
            let bytes = pattern(32 << 20)
            pair.server.pauseReading()
            pair.client.send(bytes)
            await pair.loop.turn()
            #expect(pair.client.bufferedBytes > 0)
            pair.server.resumeReading()
            let seen = await pair.atServer.until { $0.bytes.count >= bytes.count }
            #expect(seen.bytes == bytes)
            await pair.atClient.until { $0.drained > 0 }
            #expect(pair.client.bufferedBytes == 0)
            #expect(pair.atClient.seen.drained == 1)
        }
    }

    @Test func `a small backlog is no reason to say drained`() async throws {
        try await withPair(server: Self.echo()) { pair in
            pair.client.send(pattern(1000))
            _ = await pair.atClient.bytes(1000)
            await pair.loop.turn()
            #expect(pair.atClient.seen.drained == 0)
        }
    }

    @Test func `nothing is read after reading was paused in the handler`() async throws {
        let recorder = EventRecorder(onReceived: { stream, _ in stream.pauseReading() })
        try await withPair(server: recorder) { pair in
            pair.client.send(pattern(1 << 20))
            await recorder.until { $0.reads == 1 }
            for _ in 0..<5 { await pair.loop.turn() }
            #expect(recorder.seen.reads == 1)
            pair.server.resumeReading()
            await recorder.until { $0.reads == 2 }
            await pair.loop.turn()
            #expect(recorder.seen.reads == 2)
        }
    }

    @Test func `a paused stream whose peer has gone lets the loop sleep`() async throws {
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
        peer.cut()
        await loop.turn()
        let turns = loop.counters.turns
        for _ in 0..<1000 { sched_yield() }
        // It would count by the thousand if the hang-up were reported again and again.
        #expect(loop.counters.turns - turns < 5)
        stream.resumeReading()
        #expect(await recorder.ended()?.code == .reset)
        listener.close()
        loop.shutdown()
    }

    @Test func `the end of the peers stream is told and the other direction stays`() async throws {
        try await withPair { pair in
            pair.client.send(pattern(10))
            pair.client.finishWriting()
            pair.client.send([99])
            #expect(await pair.atServer.ended() == nil)
            #expect(pair.atServer.seen.bytes == pattern(10))
            pair.server.send(pattern(500_000))
            pair.server.finishWriting()
            #expect(await pair.atClient.ended() == nil)
            #expect(pair.atClient.seen.bytes == pattern(500_000))
            #expect(pair.atClient.seen.ended == 1 && pair.atServer.seen.ended == 1)
        }
    }

    @Test func `finishing waits for the backlog`() async throws {
        try await withPair { pair in
            pair.server.pauseReading()
            pair.client.enqueue { $0.append(contentsOf: pattern(16 << 20)) }
            pair.client.finishWriting()
            await pair.loop.turn()
            pair.server.resumeReading()
            #expect(await pair.atServer.ended() == nil)
            #expect(pair.atServer.seen.bytes.count == 16 << 20)
        }
    }

    @Test func `both ends over the stream is closed by itself`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        weak var gone: SocketStream?
        let recorder = EventRecorder()
        do {
            let stream = SocketStream(loop: loop, events: recorder)
            gone = stream
            stream.connect(to: "127.0.0.1", port: port)
            let peer = try listener.accepted()
            await recorder.opened()
            stream.finishWriting()
            #expect(peer.receive(1).isEmpty)
            peer.finish()
            #expect(await recorder.ended() == nil)
            peer.close()
        }
        await loop.turn()
        #expect(gone == nil)
        listener.close()
        loop.shutdown()
    }

    @Test func `a cut is an error and the last call`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "127.0.0.1", port: port)
        let peer = try listener.accepted()
        await recorder.opened()
        peer.cut()
        #expect(await recorder.ended()?.code == .reset)
        stream.send([1, 2, 3])
        stream.resumeReading()
        stream.close()
        await loop.turn()
        #expect(recorder.seen.ended == 1)
        #expect(stream.bufferedBytes == 0)
        listener.close()
        loop.shutdown()
    }

    @Test func `what the peer said before it cut us off is still heard`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "127.0.0.1", port: port)
        let peer = try listener.accepted()
        await recorder.opened()
        let blockade = BlockedLoop(loop)
        peer.send(pattern(100_000))
        peer.cut()
        // Writing is what finds the cut here, before anything was read.
        for _ in 0..<100 where stream.bufferedBytes == 0 { stream.send([1]) }
        blockade.lift()
        #expect(await recorder.ended()?.code == .reset)
        #expect(recorder.seen.bytes == pattern(100_000))
        listener.close()
        loop.shutdown()
    }

    @Test func `a paused stream learns that its writes fail`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop(turnLimit: .zero)
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "127.0.0.1", port: port)
        let peer = try listener.accepted()
        await recorder.opened()
        stream.pauseReading()
        await loop.turn()
        peer.cut()
        while recorder.seen.ended == 0, !Task.isCancelled {
            stream.send([1])
            await loop.turn()
        }
        #expect(recorder.seen.error?.code == .reset)
        listener.close()
        loop.shutdown()
    }

    @Test func `no event follows close`() async throws {
        let recorder = EventRecorder(onReceived: { stream, _ in stream.close() })
        try await withPair(server: recorder) { pair in
            pair.client.send(pattern(1 << 20))
            await recorder.until { $0.reads == 1 }
            let error = await pair.atClient.ended()
            #expect(error == nil || error?.code == .reset)
            await pair.loop.turn()
            #expect(recorder.seen.reads == 1 && recorder.seen.ended == 0)
        }
    }

    @Test func `an event that was fetched for a stream closed meanwhile is dropped`() async throws {
        let loop = try EventLoop()
        let accepted = Accepted()
        let streams = Lock<[SocketStream]>([])
        let listener = try TCPListener(loops: [loop]) { stream in
            streams.withLock { $0.append(stream) }
            // Whoever is first closes the other.
            return accepted.note(
                stream,
                EventRecorder(onReceived: { stream, _ in
                    for other in streams.withLock({ $0 }) where other !== stream { other.close() }
                }))
        }
        let sockets = try (0..<2).map { _ in try RawSocket.connected(to: listener.address.port) }
        let (first, second) = (try await accepted.next(), try await accepted.next())
        let blockade = BlockedLoop(loop)
        for socket in sockets { socket.send([1]) }
        blockade.lift()
        await loop.turn()
        await loop.turn()
        #expect(first.1.seen.reads + second.1.seen.reads == 1)
        #expect(first.1.seen.ended + second.1.seen.ended == 0)
        for socket in sockets { socket.close() }
        loop.shutdown()
    }

    @Test func `closed from many threads while writing it is closed once`() async throws {
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
                #expect(error == nil || error?.code == .reset)
                #expect(pair.atClient.seen.ended == 0)
                #expect(pair.client.bufferedBytes == 0)
            }
        }
    }

    @Test func `many threads writing mix no messages`() async throws {
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
                #expect(Set(bytes[start..<start + 100]).count == 1)
            }
        }
    }

    @Test func `a stream that floods leaves the others their turn`() async throws {
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
        let blockade = BlockedLoop(loop)
        // Loopback buffers hold this without a reader.
        sockets[0].send(pattern(512 << 10))
        sockets[1].send(pattern(1))
        blockade.lift()
        _ = await second.1.bytes(1)
        _ = await first.1.bytes(512 << 10)
        let order = reads.withLock { $0 }
        let place = try #require(order.firstIndex(of: 1))
        #expect(place <= SocketStream.readBudget)
        for socket in sockets { socket.close() }
        loop.shutdown()
    }

    @Test func `a descriptor number that is used again at once brings its own bytes`() async throws {
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
                        #expect(await recorder.bytes(300) == bytes)
                        stream.send(bytes)
                        stream.close()
                    }
                }
            }
        }
        loop.shutdown()
    }

    @Test func `shutting the loop down ends its streams with a word`() async throws {
        let (listener, port) = try RawSocket.listening()
        let loop = try EventLoop()
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "127.0.0.1", port: port)
        await recorder.opened()
        loop.shutdown()
        #expect(recorder.seen.error?.code == .closed)
        stream.send([1])
        stream.close()
        let late = EventRecorder()
        SocketStream(loop: loop, events: late).connect(to: "127.0.0.1", port: port)
        #expect(late.seen.error?.code == .closed)
        listener.close()
    }
}
