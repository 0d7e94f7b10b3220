import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct TCPListenerTests {
    @Test func `the error for a port in use suggests a remedy`() async throws {
        let loop = try EventLoop()
        var options = TCPListener.Options()
        options.port = TestPort.next()
        let first = try TCPListener(options, loops: [loop]) { _ in nil }
        let error = #expect(throws: TransportError.self) { try TCPListener(options, loops: [loop]) { _ in nil } }
        expectEqual(error?.code, .addressInUse)
        expectEqual(error?.message.contains("port 0"), true)
        await first.stop()
        let second = try TCPListener(options, loops: [loop]) { _ in nil }
        expectEqual(second.address, first.address)
        loop.shutdown()
    }

    @Test(arguments: [("no.such.host", 0), ("127.0.0.1", -1), ("127.0.0.1", 65536), ("", 0)])
    func `an invalid address is an error`(_ host: String, _ port: Int) throws {
        let loop = try EventLoop()
        var options = TCPListener.Options()
        (options.host, options.port) = (host, port)
        #expect(throws: TransportError.self) { try TCPListener(options, loops: [loop]) { _ in nil } }
        loop.shutdown()
    }

    @Test(arguments: ["localhost", "127.0.0.1", "0.0.0.0", "::1", "::"])
    func `a listener listens at the configured address`(_ host: String) async throws {
        let loop = try EventLoop()
        var options = TCPListener.Options()
        options.host = host
        let listener = try TCPListener(options, loops: [loop]) { _ in EventRecorder() }
        let recorder = EventRecorder()
        let target = host.contains(":") ? "::1" : "127.0.0.1"
        SocketStream(loop: loop, events: recorder).connect(to: target, port: listener.address.port)
        await recorder.opened()
        expectEqual(recorder.seen.opened, 1)
        loop.shutdown()
    }

    @Test func `streams are assigned to the loops round-robin`() async throws {
        let loops = try (0..<2).map { _ in try EventLoop() }
        let accepted = Accepted()
        let listener = try TCPListener(loops: loops) { accepted.note($0, EventRecorder()) }
        var isOnFirst: [Bool] = []
        for _ in 0..<4 {
            let socket = try RawSocket.connected(to: listener.address.port)
            let (stream, recorder) = try await accepted.next()
            isOnFirst.append(stream.loop === loops[0])
            socket.send([1])
            await expectEqual(recorder.bytes(1), [1])
            expectEqual(recorder.seen.wrongThread, 0)
            socket.close()
        }
        expectEqual(isOnFirst, [true, false, true, false])
        for loop in loops { loop.shutdown() }
    }

    @Test func `connections over the limit are accepted when a stream closes`() async throws {
        let loop = try EventLoop()
        let accepted = Accepted()
        var options = TCPListener.Options()
        options.limit = 2
        let count = Lock(0)
        let listener = try TCPListener(options, loops: [loop]) { stream in
            count.withLock { $0 += 1 }
            return accepted.note(stream, EventRecorder())
        }
        let sockets = try (0..<3).map { _ in try RawSocket.connected(to: listener.address.port) }
        sockets[2].send([3])
        let (first, _) = try await accepted.next()
        _ = try await accepted.next()
        await loop.turn()
        await loop.turn()
        expectEqual(count.withLock { $0 }, 2)
        first.close()
        let (_, third) = try await accepted.next()
        await expectEqual(third.bytes(1), [3])
        for socket in sockets { socket.close() }
        loop.shutdown()
    }

    @Test func `a rejected connection is closed and not counted`() async throws {
        let loop = try EventLoop()
        var options = TCPListener.Options()
        options.limit = 1
        let listener = try TCPListener(options, loops: [loop]) { _ in nil }
        for _ in 0..<5 {
            let socket = try RawSocket.connected(to: listener.address.port)
            expect(socket.receive(1).isEmpty)
            socket.close()
        }
        loop.shutdown()
    }

    @Test func `a connection that was reset before it was accepted does not affect others`() async throws {
        let loop = try EventLoop()
        let accepted = Accepted()
        let listener = try TCPListener(loops: [loop]) { accepted.note($0, EventRecorder()) }
        let blocked = BlockedLoop(loop)
        for _ in 0..<5 { try RawSocket.connected(to: listener.address.port).reset() }
        let good = try RawSocket.connected(to: listener.address.port)
        good.send([9])
        blocked.release()
        var seen: [UInt8] = []
        while seen != [9], !Task.isCancelled {
            let (_, recorder) = try await accepted.next()
            seen = await recorder.bytes(1)
        }
        good.close()
        loop.shutdown()
    }

    @Test func `stopping closes the port and keeps the accepted streams`() async throws {
        let loop = try EventLoop()
        let accepted = Accepted()
        var options = TCPListener.Options()
        options.port = TestPort.next()
        let listener = try TCPListener(options, loops: [loop]) { accepted.note($0, EventRecorder()) }
        let socket = try RawSocket.connected(to: listener.address.port)
        let (_, recorder) = try await accepted.next()
        await listener.stop()
        await listener.stop()
        let rejected = EventRecorder()
        SocketStream(loop: loop, events: rejected).connect(to: "127.0.0.1", port: listener.address.port)
        await expectEqual(rejected.ended()?.code, .refused)
        socket.send([5])
        await expectEqual(recorder.bytes(1), [5])
        socket.close()
        loop.shutdown()
        await listener.stop()
    }

    #if os(Linux)
    @Test func `a port is closed although a process that is being started still has its descriptor`() async throws {
        let loop = try EventLoop()
        var options = TCPListener.Options()
        options.port = TestPort.next()
        let listener = try TCPListener(options, loops: [loop]) { _ in nil }
        let copy = dup(listener.descriptor)
        await listener.stop()
        let rejected = EventRecorder()
        SocketStream(loop: loop, events: rejected).connect(to: "127.0.0.1", port: listener.address.port)
        await expectEqual(rejected.ended()?.code, .refused)
        close(copy)
        loop.shutdown()
    }
    #endif

    @Test func `listening on a stopped loop is an error`() throws {
        let loop = try EventLoop()
        loop.shutdown()
        #expect(throws: TransportError.self) { try TCPListener(loops: [loop]) { _ in nil } }
    }
}
