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

@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct TCPConnectorTests {
    /// A resolver that the test controls.
    private final class ManualResolver: HostResolver {
        typealias LookupResult = Result<[SocketAddress], TransportError>
        private let pending = Lock<[String: @Sendable (LookupResult) -> Void]>([:])
        private let lookups: AsyncStream<String>
        private let continuation: AsyncStream<String>.Continuation

        init() { (self.lookups, self.continuation) = AsyncStream.makeStream() }

        func resolve(_ host: String, port: Int, _ completion: @escaping @Sendable (LookupResult) -> Void) {
            self.pending.withLock { $0[host] = completion }
            self.continuation.yield(host)
        }

        /// Waits for the next lookup.
        func lookupStarted() async { _ = await self.lookups.first { _ in true } }

        func complete(_ host: String, _ result: LookupResult) {
            self.pending.withLock { $0.removeValue(forKey: host) }?(result)
        }
    }

    @Test func `a connection to a port without a listener is refused`() async throws {
        let loop = try EventLoop()
        let recorder = EventRecorder()
        let port = TestPort.refusing()
        SocketStream(loop: loop, events: recorder).connect(to: "127.0.0.1", port: port)
        let error = await recorder.ended()
        expectEqual(error?.code, .refused)
        expectEqual(error?.message.contains("127.0.0.1:\(port)"), true)
        expectEqual(recorder.seen.opened, 0)
        loop.shutdown()
    }

    @Test func `error messages contain the system's description of the error`() {
        expect(TransportError.lost(ECONNRESET).message.contains("reset by peer"))
        expect(TransportError.system(EMFILE, "do it").message.contains("Too many open files"))
    }

    @Test func `a stream uses the shared loop by default`() async throws {
        let (recorder, port) = (EventRecorder(), TestPort.refusing())
        SocketStream(events: recorder).connect(to: "127.0.0.1", port: port)
        await expectEqual(recorder.ended()?.code, .refused)
    }

    @Test func `the stream connects to the first address that accepts`() async throws {
        let loop = try EventLoop()
        let accepted = Accepted()
        let listener = try TCPListener(loops: [loop]) { accepted.note($0, EventRecorder()) }
        let resolver = ManualResolver()
        let recorder = EventRecorder()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "many.test", port: listener.address.port, ConnectOptions(timeout: .seconds(600), resolver: resolver))
        await resolver.lookupStarted()
        // The listener accepts only at the last address. The attempts alternate between the families.
        let port = listener.address.port
        let addresses = ["::1", "127.0.0.2", "127.0.0.1"].compactMap { SocketAddress($0, port: port) }
        resolver.complete("many.test", .success(addresses))
        await recorder.opened()
        expectEqual(recorder.seen.opened, 1)
        loop.shutdown()
    }

    @Test func `a slow lookup does not delay other streams`() async throws {
        let resolver = ManualResolver()
        let slow = EventRecorder()
        try await withPair { pair in
            SocketStream(loop: pair.loop, events: slow).connect(
                to: "slow.test", port: 80, ConnectOptions(timeout: .seconds(600), resolver: resolver))
            await resolver.lookupStarted()
            pair.client.send(pattern(10))
            await expectEqual(pair.atServer.bytes(10), pattern(10))
            expectEqual(slow.seen.ended, 0)
            resolver.complete("slow.test", .failure(TransportError(.nameNotFound, "slow.test has no address")))
            await expectEqual(slow.ended()?.code, .nameNotFound)
        }
    }

    @Test func `the result of a lookup is ignored after the stream has closed`() async throws {
        let resolver = ManualResolver()
        let recorder = EventRecorder()
        let loop = try EventLoop()
        let (listener, port) = try RawSocket.listening()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "slow.test", port: port, ConnectOptions(timeout: .seconds(600), resolver: resolver))
        await resolver.lookupStarted()
        stream.close()
        await loop.turn()
        resolver.complete("slow.test", .success([SocketAddress("127.0.0.1", port: port)!]))
        await loop.turn()
        loop.shutdown()
        expect(recorder.seen.opened == 0 && recorder.seen.ended == 0)
        listener.close()
    }

    @Test func `a lookup that does not complete times out`() async throws {
        let recorder = EventRecorder()
        let loop = try EventLoop()
        let resolver = ManualResolver()
        let options = ConnectOptions(timeout: .milliseconds(1), resolver: resolver)
        SocketStream(loop: loop, events: recorder).connect(to: "never.test", port: 80, options)
        let error = await recorder.ended()
        expectEqual(error?.code, .timedOut)
        expectEqual(error?.message.contains("never.test:80"), true)
        // The result arrives after the stream has ended.
        resolver.complete("never.test", .success([]))
        loop.shutdown()
    }

    /// A port that does not respond: while the backlog is full, the system drops connection requests, as some firewalls do.
    private func silentPort() throws -> (sockets: [RawSocket], port: Int) {
        let (listener, port) = try RawSocket.listening()
        listen(listener.descriptor, 0)
        return ([listener, try RawSocket.connected(to: port)], port)
    }

    @Test func `a connection to a host that does not respond times out`() async throws {
        let (sockets, port) = try self.silentPort()
        let recorder = EventRecorder()
        let loop = try EventLoop()
        SocketStream(loop: loop, events: recorder).connect(to: "127.0.0.1", port: port, ConnectOptions(timeout: .milliseconds(50)))
        await expectEqual(recorder.ended()?.code, .timedOut)
        loop.shutdown()
        for socket in sockets { socket.close() }
    }

    @Test func `a connection that was established in time does not time out if its thread is late`() async throws {
        let (listener, port) = try RawSocket.listening()
        let recorder = EventRecorder()
        let loop = try EventLoop()
        let blocked = BlockedLoop(loop)
        SocketStream(loop: loop, events: recorder).connect(to: "127.0.0.1", port: port, ConnectOptions(timeout: .milliseconds(1)))
        loop.execute {
            let end = loop.now.advanced(by: .milliseconds(5))
            while loop.now < end { sched_yield() }
        }
        blocked.release()
        await recorder.opened()
        expectEqual(recorder.seen.opened, 1)
        loop.shutdown()
        listener.close()
    }

    @Test func `the next address is tried while the first one does not respond`() async throws {
        let (sockets, port) = try self.silentPort()
        let listener = RawSocket(socket(AF_INET, SystemSocket.stream, 0))
        let other = SocketAddress("127.0.0.2", port: port)!
        try #require(other.withPointer { bind(listener.descriptor, $0, $1) } == 0)
        listen(listener.descriptor, 8)
        let resolver = ManualResolver()
        let recorder = EventRecorder()
        let loop = try EventLoop()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "two.test", port: port, ConnectOptions(timeout: .seconds(600), resolver: resolver))
        await resolver.lookupStarted()
        resolver.complete("two.test", .success([SocketAddress("127.0.0.1", port: port)!, other]))
        await recorder.opened()
        expectEqual(recorder.seen.opened, 1)
        loop.shutdown()
        for socket in sockets + [listener] { socket.close() }
    }

    @Test func `a stream that is closed while connecting delivers no events`() async throws {
        let (sockets, port) = try self.silentPort()
        let recorder = EventRecorder()
        let loop = try EventLoop()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.connect(to: "127.0.0.1", port: port, ConnectOptions(timeout: .seconds(600)))
        await loop.turn()
        stream.close()
        await loop.turn()
        loop.shutdown()
        expect(recorder.seen.opened == 0 && recorder.seen.ended == 0)
        for socket in sockets { socket.close() }
    }

    @Test func `a stream that is closed before it connects delivers no events`() async throws {
        let recorder = EventRecorder()
        let loop = try EventLoop()
        let stream = SocketStream(loop: loop, events: recorder)
        stream.close()
        stream.connect(to: "127.0.0.1", port: 80)
        await loop.turn()
        loop.shutdown()
        expect(recorder.seen.opened == 0 && recorder.seen.ended == 0)
    }

    @Test(arguments: [0, -1, 65536, .max])
    func `an invalid port is an error`(_ port: Int) async throws {
        let recorder = EventRecorder()
        let loop = try EventLoop()
        SocketStream(loop: loop, events: recorder).connect(to: "127.0.0.1", port: port)
        await expectEqual(recorder.ended()?.code, .invalidURL)
        loop.shutdown()
    }

    @Test func `shutting down the loop fails a stream that is waiting for a lookup`() async throws {
        let resolver = ManualResolver()
        let recorder = EventRecorder()
        let loop = try EventLoop()
        SocketStream(loop: loop, events: recorder).connect(
            to: "slow.test", port: 80, ConnectOptions(timeout: .seconds(600), resolver: resolver))
        await resolver.lookupStarted()
        loop.shutdown()
        expectEqual(recorder.seen.error?.code, .closed)
        resolver.complete("slow.test", .success([]))
    }
}
