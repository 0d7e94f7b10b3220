import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

/// Records the events of a stream, and lets a test wait for them.
final class EventRecorder: StreamEvents {
    struct Seen: Sendable {
        var opened = 0
        var reads = 0
        var bytes: [UInt8] = []
        var backlogged = 0
        var drained = 0
        var ended = 0
        var error: TransportError?
        var wrongThread = 0
    }

    private struct State: Sendable {
        var seen = Seen()
        var waiters: [Int: (condition: @Sendable (Seen) -> Bool, continuation: CheckedContinuation<Void, Never>)] = [:]
        var lastWaiter = 0
        var isCancelled = false
        /// The loop of the stream that has opened.
        var loop: EventLoop?
    }

    private let state = Lock(State())
    private let onOpened: @Sendable (SocketStream) -> Void
    private let onReceived: @Sendable (SocketStream, UnsafeRawBufferPointer) -> Void
    private let onEnded: @Sendable (SocketStream) -> Void

    init(
        onOpened: @escaping @Sendable (SocketStream) -> Void = { _ in },
        onEnded: @escaping @Sendable (SocketStream) -> Void = { _ in },
        onReceived: @escaping @Sendable (SocketStream, UnsafeRawBufferPointer) -> Void = { _, _ in }
    ) {
        self.onOpened = onOpened
        self.onReceived = onReceived
        self.onEnded = onEnded
    }

    var seen: Seen { self.state.withLock { $0.seen } }

    func opened(_ stream: SocketStream) {
        self.onOpened(stream)
        self.state.withLock { $0.loop = stream.loop }
        self.note(stream) { $0.opened += 1 }
    }

    func received(_ stream: SocketStream, _ bytes: UnsafeRawBufferPointer) {
        self.onReceived(stream, bytes)
        let copy = [UInt8](bytes)
        self.note(stream) {
            $0.reads += 1
            $0.bytes += copy
        }
    }

    func backlogged(_ stream: SocketStream) { self.note(stream) { $0.backlogged += 1 } }

    func drained(_ stream: SocketStream) { self.note(stream) { $0.drained += 1 } }

    func ended(_ stream: SocketStream, _ error: TransportError?) {
        self.onEnded(stream)
        self.note(stream) {
            $0.ended += 1
            $0.error = error
        }
    }

    private func note(_ stream: SocketStream, _ change: (inout Seen) -> Void) {
        let isOnLoop = stream.loop.isOnLoop
        let ready = self.state.withLock { state in
            change(&state.seen)
            if !isOnLoop { state.seen.wrongThread += 1 }
            let ready = state.waiters.filter { $0.value.condition(state.seen) }
            for key in ready.keys { state.waiters[key] = nil }
            return ready.values.map(\.continuation)
        }
        for continuation in ready { continuation.resume() }
    }

    /// Waits for a condition. Returns early if the test's time limit is exceeded, and the next expectation fails.
    @discardableResult
    func until(_ condition: @escaping @Sendable (Seen) -> Bool) async -> Seen {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isMet = self.state.withLock { state -> Bool in
                    if condition(state.seen) || state.isCancelled { return true }
                    state.lastWaiter += 1
                    state.waiters[state.lastWaiter] = (condition, continuation)
                    return false
                }
                if isMet { continuation.resume() }
            }
        } onCancel: {
            let waiters = self.state.withLock { state in
                state.isCancelled = true
                defer { state.waiters = [:] }
                return state.waiters.values.map(\.continuation)
            }
            for waiter in waiters { waiter.resume() }
        }
        return self.seen
    }

    /// Waits for `opened` or `ended`, and for the end of that turn of the loop, which would write what the test sends next.
    func opened() async {
        await self.until { $0.opened + $0.ended > 0 }
        await self.state.withLock { $0.loop }?.turn()
    }

    func bytes(_ count: Int) async -> [UInt8] { await self.until { $0.bytes.count >= count || $0.ended > 0 }.bytes }

    func ended() async -> TransportError? { await self.until { $0.ended > 0 }.error }
}

extension SocketStream {
    func send(_ bytes: some Sequence<UInt8>) {
        self.enqueue { $0.append(contentsOf: bytes) }
        self.flush()
    }
}

/// The accepted streams of a listener, in order.
final class Accepted: Sendable {
    private let stream: AsyncStream<(SocketStream, EventRecorder)>
    private let continuation: AsyncStream<(SocketStream, EventRecorder)>.Continuation

    init() {
        (self.stream, self.continuation) = AsyncStream.makeStream()
    }

    func note(_ stream: SocketStream, _ recorder: EventRecorder) -> EventRecorder {
        self.continuation.yield((stream, recorder))
        return recorder
    }

    func next() async throws -> (SocketStream, EventRecorder) {
        try #require(await self.stream.first { _ in true })
    }
}

/// A connected client and server on one loop.
struct Pair: Sendable {
    let loop: EventLoop
    let listener: TCPListener
    let client: SocketStream
    let atClient: EventRecorder
    let server: SocketStream
    let atServer: EventRecorder

    func end() async {
        self.client.close()
        self.server.close()
        await self.listener.stop()
        self.loop.shutdown()
    }
}

func withPair(
    turnLimit: Duration = .microseconds(100), security: (client: StreamSecurityFactory, server: StreamSecurityFactory)? = nil,
    client atClient: EventRecorder = EventRecorder(), server atServer: EventRecorder = EventRecorder(), _ body: (Pair) async throws -> Void
) async throws {
    let loop = try EventLoop("test", turnLimit: turnLimit)
    let accepted = Accepted()
    var options = TCPListener.Options()
    options.security = security?.server
    let listener = try TCPListener(options, loops: [loop]) { accepted.note($0, atServer) }
    let client = SocketStream(loop: loop, events: atClient)
    client.connect(to: "127.0.0.1", port: listener.address.port, ConnectOptions(timeout: .seconds(600), security: security?.client))
    let (server, _) = try await accepted.next()
    await atClient.opened()
    await atServer.opened()
    let pair = Pair(loop: loop, listener: listener, client: client, atClient: atClient, server: server, atServer: atServer)
    do {
        try await body(pair)
    } catch {
        await pair.end()
        throw error
    }
    await pair.end()
    expect(atClient.seen.wrongThread == 0 && atServer.seen.wrongThread == 0)
}

/// Blocks the thread of a loop until ``release()``, so that a test can inspect what is gathered meanwhile.
final class BlockedLoop: Sendable {
    private let gate = Lock(true)
    private let entered = Lock(false)

    init(_ loop: EventLoop) {
        loop.execute {
            self.entered.withLock { $0 = true }
            while self.gate.withLock({ $0 }) { sched_yield() }
        }
        while !self.entered.withLock({ $0 }) { sched_yield() }
    }

    func release() { self.gate.withLock { $0 = false } }
}

extension EventLoop {
    /// Returns when the loop has completed all earlier requests.
    func turn() async {
        for _ in 0..<2 {
            await withCheckedContinuation { continuation in
                if !self.execute({ continuation.resume() }) { continuation.resume() }
            }
        }
    }
}

/// A blocking socket, which can do what a stream never does.
final class RawSocket: Sendable {
    let descriptor: Int32

    init(_ descriptor: Int32) {
        self.descriptor = descriptor
        var limit = timeval(tv_sec: 180, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        #if canImport(Darwin)
        SystemSocket.set(descriptor, SOL_SOCKET, SO_NOSIGPIPE, 1)
        #endif
    }

    static func listening() throws -> (RawSocket, Int) {
        let listener = RawSocket(socket(AF_INET, SystemSocket.stream, 0))
        let address = try #require(SocketAddress("127.0.0.1", port: 0))
        expectEqual(address.withPointer { bind(listener.descriptor, $0, $1) }, 0)
        listen(listener.descriptor, 64)
        return (listener, try #require(SocketAddress(localOf: listener.descriptor)).port)
    }

    static func connected(to port: Int) throws -> RawSocket {
        let client = RawSocket(socket(AF_INET, SystemSocket.stream, 0))
        let address = try #require(SocketAddress("127.0.0.1", port: port))
        try #require(address.withPointer { connect(client.descriptor, $0, $1) } == 0)
        return client
    }

    func accepted() throws -> RawSocket {
        let descriptor = accept(self.descriptor, nil, nil)
        try #require(descriptor >= 0)
        return RawSocket(descriptor)
    }

    func send(_ bytes: [UInt8]) {
        var sent = 0
        while sent < bytes.count {
            guard case .done(let count) = bytes[sent...].withUnsafeBytes({ SystemSocket.send(self.descriptor, $0) }) else { return }
            sent += count
        }
    }

    /// Receives this number of bytes, or fewer at the end of the stream.
    func receive(_ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var received = 0
        while received < count {
            let more = bytes[received...].withUnsafeMutableBytes { recv(self.descriptor, $0.baseAddress, $0.count, 0) }
            guard more > 0 else { break }
            received += more
        }
        return Array(bytes[..<received])
    }

    /// Closes the connection with RST.
    func reset() {
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(self.descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
        self.close()
    }

    func finish() { SystemSocket.shutDownWriting(self.descriptor) }

    func close() { SystemSocket.close(self.descriptor) }
}

/// Bytes in which lost, repeated or swapped parts are detected.
func pattern(_ count: Int, seed: Int = 0) -> [UInt8] {
    let block = (0..<min(count, 65_521)).map { UInt8(truncatingIfNeeded: ($0 &+ seed) &* 31 &+ ($0 >> 8)) }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count)
    while bytes.count < count { bytes += block.prefix(count - bytes.count) }
    return bytes
}
