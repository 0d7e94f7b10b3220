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
struct TCPConnectorTests {
    /// Answers when it is told to.
    private final class ToldResolver: HostResolver {
        typealias Answer = Result<[SocketAddress], TransportError>
        private let waiting = Lock<[String: @Sendable (Answer) -> Void]>([:])
        private let asked: AsyncStream<String>
        private let continuation: AsyncStream<String>.Continuation

        init() { (self.asked, self.continuation) = AsyncStream.makeStream() }

        func resolve(_ host: String, port: Int, _ answer: @escaping @Sendable (Answer) -> Void) {
            self.waiting.withLock { $0[host] = answer }
            self.continuation.yield(host)
        }

        func isAsked() async { _ = await self.asked.first { _ in true } }

        func answer(_ host: String, _ answer: Answer) {
            self.waiting.withLock { $0.removeValue(forKey: host) }?(answer)
        }
    }

    private func freePort() throws -> Int {
        let (socket, port) = try RawSocket.listening()
        socket.close()
        return port
    }

    @Test func `a port where nothing listens refuses`() async throws {
        let loop = try EventLoop()
        let recorder = EventRecorder()
        let port = try self.freePort()
        SocketStream(loop: loop, events: recorder).connect(to: "127.0.0.1", port: port)
        let error = await recorder.ended()
        #expect(error?.code == .refused)
        #expect(error?.message.contains("127.0.0.1:\(port)") == true)
        #expect(recorder.seen.opened == 0)
        loop.shutdown()
    }

    @Test func `the systems words are in the messages`() {
        #expect(TransportError.lost(ECONNRESET).message.contains("reset by peer"))
        #expect(TransportError.system(EMFILE, "do it").message.contains("Too many open files"))
    }

    @Test func `the loop of all clients is there when it is needed`() async throws {
        let recorder = EventRecorder()
        SocketStream(events: recorder).connect(to: "127.0.0.1", port: try self.freePort())
        #expect(await recorder.ended()?.code == .refused)
    }

    @Test func `the working address of several is found`() async throws {
        let loop = try EventLoop()
        let accepted = Accepted()
        let listener = try TCPListener(loops: [loop]) { accepted.note($0, EventRecorder()) }
        let resolver = ToldResolver()
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "many.test", port: listener.address.port, ConnectOptions(timeout: .seconds(600), resolver: resolver))
        await resolver.isAsked()
        // Nothing listens at the first two; the second family takes its turn in between.
        let port = listener.address.port
        let addresses = ["::1", "127.0.0.2", "127.0.0.1"].compactMap { SocketAddress($0, port: port) }
        resolver.answer("many.test", .success(addresses))
        await recorder.opened()
        #expect(recorder.seen.opened == 1)
        #expect(stream.peerAddress == SocketAddress("127.0.0.1", port: port))
        loop.shutdown()
    }

    @Test func `a slow look up holds up nobody`() async throws {
        let resolver = ToldResolver()
        let slow = EventRecorder()
        try await withPair { pair in
            SocketStream(loop: pair.loop, events: slow).connect(
                to: "slow.test", port: 80, ConnectOptions(timeout: .seconds(600), resolver: resolver))
            await resolver.isAsked()
            pair.client.send(pattern(10))
            #expect(await pair.atServer.bytes(10) == pattern(10))
            #expect(slow.seen.ended == 0)
            resolver.answer("slow.test", .failure(TransportError(.nameNotFound, "slow.test has no address")))
            #expect(await slow.ended()?.code == .nameNotFound)
        }
    }

    @Test func `the answer to a cancelled look up is ignored`() async throws {
        let resolver = ToldResolver()
        let recorder = EventRecorder()
        let loop = try EventLoop()
        let (listener, port) = try RawSocket.listening()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "slow.test", port: port, ConnectOptions(timeout: .seconds(600), resolver: resolver))
        await resolver.isAsked()
        stream.close()
        await loop.turn()
        resolver.answer("slow.test", .success([SocketAddress("127.0.0.1", port: port)!]))
        await loop.turn()
        loop.shutdown()
        #expect(recorder.seen.opened == 0 && recorder.seen.ended == 0)
        listener.close()
    }

    @Test func `a look up that never answers falls under the time limit`() async throws {
        let recorder = EventRecorder()
        let loop = try EventLoop()
        let resolver = ToldResolver()
        let options = ConnectOptions(timeout: .milliseconds(1), resolver: resolver)
        SocketStream(loop: loop, events: recorder).connect(to: "never.test", port: 80, options)
        let error = await recorder.ended()
        #expect(error?.code == .timedOut)
        #expect(error?.message.contains("never.test:80") == true)
        // Later than anybody waits for.
        resolver.answer("never.test", .success([]))
        loop.shutdown()
    }

    /// The system drops what comes in while the backlog is full, as a silent firewall would.
    private func deafPort() throws -> (sockets: [RawSocket], port: Int) {
        let (listener, port) = try RawSocket.listening()
        listen(listener.descriptor, 0)
        return ([listener, try RawSocket.connected(to: port)], port)
    }

    @Test func `a host that does not answer falls under the time limit`() async throws {
        let (sockets, port) = try self.deafPort()
        let recorder = EventRecorder()
        let loop = try EventLoop()
        SocketStream(loop: loop, events: recorder).connect(to: "127.0.0.1", port: port, ConnectOptions(timeout: .milliseconds(50)))
        #expect(await recorder.ended()?.code == .timedOut)
        loop.shutdown()
        for socket in sockets { socket.close() }
    }

    @Test func `after a quarter of a second the next address is tried beside a deaf one`() async throws {
        let (sockets, port) = try self.deafPort()
        let listener = RawSocket(socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0))
        let other = SocketAddress("127.0.0.2", port: port)!
        try #require(other.withPointer { bind(listener.descriptor, $0, $1) } == 0)
        listen(listener.descriptor, 8)
        let resolver = ToldResolver()
        let recorder = EventRecorder()
        let loop = try EventLoop()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "two.test", port: port, ConnectOptions(timeout: .seconds(600), resolver: resolver))
        await resolver.isAsked()
        resolver.answer("two.test", .success([SocketAddress("127.0.0.1", port: port)!, other]))
        await recorder.opened()
        #expect(stream.peerAddress == other)
        loop.shutdown()
        for socket in sockets + [listener] { socket.close() }
    }

    @Test func `closing while it connects is silent`() async throws {
        let (sockets, port) = try self.deafPort()
        let recorder = EventRecorder()
        let loop = try EventLoop()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "127.0.0.1", port: port, ConnectOptions(timeout: .seconds(600)))
        await loop.turn()
        stream.close()
        await loop.turn()
        loop.shutdown()
        #expect(recorder.seen.opened == 0 && recorder.seen.ended == 0)
        for socket in sockets { socket.close() }
    }

    @Test func `closing before connecting is silent`() async throws {
        let recorder = EventRecorder()
        let loop = try EventLoop()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.close()
        stream.connect(to: "127.0.0.1", port: 80)
        await loop.turn()
        loop.shutdown()
        #expect(recorder.seen.opened == 0 && recorder.seen.ended == 0)
    }

    @Test(arguments: [0, -1, 65536, .max])
    func `a port that is none is refused with a word`(_ port: Int) async throws {
        let recorder = EventRecorder()
        let loop = try EventLoop()
        SocketStream(loop: loop, events: recorder).connect(to: "127.0.0.1", port: port)
        #expect(await recorder.ended()?.code == .invalidURL)
        loop.shutdown()
    }

    @Test func `shutting the loop down ends a look up with a word`() async throws {
        let resolver = ToldResolver()
        let recorder = EventRecorder()
        let loop = try EventLoop()
        SocketStream(loop: loop, events: recorder).connect(
            to: "slow.test", port: 80, ConnectOptions(timeout: .seconds(600), resolver: resolver))
        await resolver.isAsked()
        loop.shutdown()
        #expect(recorder.seen.error?.code == .closed)
        resolver.answer("slow.test", .success([]))
    }
}
