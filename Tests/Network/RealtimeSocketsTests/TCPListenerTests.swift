import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(5)))
struct TCPListenerTests {
    @Test func `a taken port says what to do`() async throws {
        let loop = try EventLoop()
        let first = try TCPListener(loops: [loop]) { _ in nil }
        var options = TCPListener.Options()
        options.port = first.address.port
        let error = #expect(throws: TransportError.self) { try TCPListener(options, loops: [loop]) { _ in nil } }
        #expect(error?.code == .addressInUse)
        #expect(error?.message.contains("port 0") == true)
        await first.stop()
        let second = try TCPListener(options, loops: [loop]) { _ in nil }
        #expect(second.address == first.address)
        loop.shutdown()
    }

    @Test(arguments: [("no.such.host", 0), ("127.0.0.1", -1), ("127.0.0.1", 65536), ("", 0)])
    func `what is no address is refused`(_ host: String, _ port: Int) throws {
        let loop = try EventLoop()
        var options = TCPListener.Options()
        (options.host, options.port) = (host, port)
        #expect(throws: TransportError.self) { try TCPListener(options, loops: [loop]) { _ in nil } }
        loop.shutdown()
    }

    @Test(arguments: ["localhost", "127.0.0.1", "0.0.0.0", "::1", "::"])
    func `it listens where it is told`(_ host: String) async throws {
        let loop = try EventLoop()
        var options = TCPListener.Options()
        options.host = host
        let listener = try TCPListener(options, loops: [loop]) { _ in EventRecorder() }
        let recorder = EventRecorder()
        let target = host.contains(":") ? "::1" : "127.0.0.1"
        SocketStream(loop: loop, events: recorder).connect(to: target, port: listener.address.port)
        await recorder.opened()
        #expect(recorder.seen.opened == 1)
        loop.shutdown()
    }

    @Test func `streams are spread over the loops`() async throws {
        let loops = try (0..<2).map { _ in try EventLoop() }
        let accepted = Accepted()
        let listener = try TCPListener(loops: loops) { accepted.note($0, EventRecorder()) }
        var homes: [Bool] = []
        for _ in 0..<4 {
            let socket = try RawSocket.connected(to: listener.address.port)
            let (stream, recorder) = try await accepted.next()
            homes.append(stream.loop === loops[0])
            socket.send([1])
            #expect(await recorder.bytes(1) == [1])
            #expect(recorder.seen.wrongThread == 0)
            socket.close()
        }
        #expect(homes == [true, false, true, false])
        for loop in loops { loop.shutdown() }
    }

    @Test func `over the limit connections wait until one has gone`() async throws {
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
        #expect(count.withLock { $0 } == 2)
        first.close()
        let (_, third) = try await accepted.next()
        #expect(await third.bytes(1) == [3])
        for socket in sockets { socket.close() }
        loop.shutdown()
    }

    @Test func `a connection that is turned away is closed and not counted`() async throws {
        let loop = try EventLoop()
        var options = TCPListener.Options()
        options.limit = 1
        let listener = try TCPListener(options, loops: [loop]) { _ in nil }
        for _ in 0..<5 {
            let socket = try RawSocket.connected(to: listener.address.port)
            #expect(socket.receive(1).isEmpty)
            socket.close()
        }
        loop.shutdown()
    }

    @Test func `a connection that was cut before it was accepted harms nobody`() async throws {
        let loop = try EventLoop()
        let accepted = Accepted()
        let listener = try TCPListener(loops: [loop]) { accepted.note($0, EventRecorder()) }
        let blockade = BlockedLoop(loop)
        for _ in 0..<5 { try RawSocket.connected(to: listener.address.port).cut() }
        let good = try RawSocket.connected(to: listener.address.port)
        good.send([9])
        blockade.lift()
        var seen: [UInt8] = []
        while seen != [9], !Task.isCancelled {
            let (_, recorder) = try await accepted.next()
            seen = await recorder.bytes(1)
        }
        good.close()
        loop.shutdown()
    }

    @Test func `after stop the port refuses and the streams live on`() async throws {
        let loop = try EventLoop()
        let accepted = Accepted()
        let listener = try TCPListener(loops: [loop]) { accepted.note($0, EventRecorder()) }
        let socket = try RawSocket.connected(to: listener.address.port)
        let (_, recorder) = try await accepted.next()
        await listener.stop()
        await listener.stop()
        let late = EventRecorder()
        SocketStream(loop: loop, events: late).connect(to: "127.0.0.1", port: listener.address.port)
        #expect(await late.ended()?.code == .refused)
        socket.send([5])
        #expect(await recorder.bytes(1) == [5])
        socket.close()
        loop.shutdown()
        await listener.stop()
    }

    @Test func `a stopped loop cannot be listened on`() throws {
        let loop = try EventLoop()
        loop.shutdown()
        #expect(throws: TransportError.self) { try TCPListener(loops: [loop]) { _ in nil } }
    }
}
