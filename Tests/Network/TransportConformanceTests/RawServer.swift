import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

/// The protocol below the WebSocket, and how a client connects with it.
enum Wire: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case plain, tls = "TLS"

    var testDescription: String { self.rawValue }

    static let available: [Wire] = [.plain] + Requirement.openSSL.cases([.tls])

    func transport(loop: EventLoop = .shared) -> SocketWebSocketTransport {
        SocketWebSocketTransport(tls: self == .tls ? TestTLS.client : TLSConfiguration(), loop: loop)
    }

    func endpoint(_ port: Int) -> Endpoint { Endpoint(scheme: self == .tls ? "wss" : "ws", host: "127.0.0.1", port: port) }

    func listener() throws -> SocketListener {
        self == .tls ? SocketListener(tls: try TestTLS.server(), limits: .forTests) : SocketListener(limits: .forTests)
    }
}

/// A server that runs a script for one connection after another, with blocking calls on its own thread. The script may violate
/// the protocol.
final class RawServer: Sendable {
    typealias Script = @Sendable (RawPeer) throws -> Void

    private struct State: Sendable {
        var isStopping = false
        var failures: [String] = []
    }

    /// A separate object, so that the thread does not retain the server.
    private final class Shared: Sendable {
        let state = Lock(State())
        let ended = Signal()
    }

    let port: Int
    private let address: SocketAddress
    private let shared = Shared()

    init(_ script: @escaping Script) throws {
        let descriptor = try makeBlocking(SystemSocket.makeSocket(AF_INET).get())
        let anyPort = try #require(SocketAddress("127.0.0.1", port: 0))
        try #require(anyPort.withPointer { bind(descriptor, $0, $1) } == 0 && listen(descriptor, 64) == 0)
        let address = try #require(SocketAddress(localOf: descriptor))
        (self.address, self.port) = (address, address.port)
        let shared = self.shared
        let thread = PosixThread("raw-server") {
            var kept: [RawPeer] = []
            while true {
                let peer = RawPeer(accept(descriptor, nil, nil))
                guard !shared.state.withLock({ $0.isStopping }) else { break }
                do {
                    try script(peer)
                } catch {
                    shared.state.withLock { $0.failures.append("\(error)") }
                }
                if peer.isKept { kept.append(peer) }
            }
            kept = []
            SystemSocket.close(descriptor)
            shared.ended.send()
        }
        try #require(thread).detach()
    }

    /// Returns when the script has ended. The client must have disconnected.
    func stop(sourceLocation: SourceLocation = #_sourceLocation) async {
        self.shared.state.withLock { $0.isStopping = true }
        // A connection is the only way to end a blocking `accept` on every system.
        if let descriptor = try? makeBlocking(SystemSocket.makeSocket(AF_INET).get()) {
            _ = self.address.withPointer { connect(descriptor, $0, $1) }
            await self.shared.ended.wait()
            SystemSocket.close(descriptor)
        }
        #expect(self.shared.state.withLock { $0.failures } == [], "the server's script failed", sourceLocation: sourceLocation)
    }

    /// Runs `body` with a client's connection that is being opened.
    static func with(
        _ script: @escaping Script, over wire: Wire = .plain, sourceLocation: SourceLocation = #_sourceLocation,
        _ body: (Probe, any MessageConnection) async throws -> Void
    ) async throws {
        let server = try RawServer(script)
        let probe = Probe()
        let connection = wire.transport().makeConnection(
            WebSocketRequest(wire.endpoint(server.port), timeout: .seconds(600)), id: ConnectionID(rawValue: 1), events: probe)
        connection.open()
        do {
            try await body(probe, connection)
        } catch {
            connection.abandon()
            await server.stop(sourceLocation: sourceLocation)
            throw error
        }
        connection.abandon()
        await server.stop(sourceLocation: sourceLocation)
    }
}

/// The raw server's side of a connection. Used on the server's thread only.
final class RawPeer {
    struct Broken: Error, CustomStringConvertible {
        var description: String
        /// Whether the peer had closed the connection before it received everything.
        var isClosedByPeer = false
    }

    private var descriptor: Int32
    private var tls: TLSSession?
    /// Whether the connection stays open after the script, until the server is stopped.
    var isKept = false

    init(_ descriptor: Int32) {
        self.descriptor = descriptor
        guard descriptor >= 0 else { return }
        SystemSocket.setNoDelay(descriptor)
        // If the client hangs, the test fails instead of hanging.
        var limit = timeval(tv_sec: 180, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    }

    convenience init(connectedTo port: Int) throws {
        self.init(try makeBlocking(SystemSocket.makeSocket(AF_INET).get()))
        let address = try #require(SocketAddress("127.0.0.1", port: port))
        try #require(address.withPointer { connect(self.descriptor, $0, $1) } == 0)
    }

    deinit {
        self.close()
    }

    /// Waits until one of the two can be read or has ended, and returns which.
    static func wait(_ one: RawPeer, _ other: RawPeer) -> (Bool, Bool) {
        var polled = [one, other].map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
        poll(&polled, 2, 180_000)
        return (polled[0].revents != 0, polled[1].revents != 0)
    }

    /// Performs the TLS handshake, if there is one.
    func secure(_ wire: Wire) throws {
        guard wire == .tls else { return }
        let session = try TLSSession(server: try RawPeer.context.get(), descriptor: self.descriptor)
        self.tls = session
        guard case .done = session.handshake() else { throw Broken(description: "the TLS handshake failed") }
    }

    private static let context = Result<TLSContext, any Error> { try TLSContext.server(try TestTLS.server()) }

    /// Receives at least one byte. Returns an empty array at the end of the stream.
    func receive(atMost limit: Int = 64 << 10) throws -> [UInt8] {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: limit, alignment: 1)
        defer { buffer.deallocate() }
        switch self.tls?.read(into: buffer) ?? SystemSocket.receive(self.descriptor, into: buffer) {
        case .done(let count): return Array(buffer[..<count])
        case .closed: return []
        case .wantRead, .wantWrite: throw Broken(description: "the client sent nothing in time")
        case .failed(let error) where error.code == .reset || error.code == .closed: return []
        case .failed(let error): throw error
        }
    }

    func send(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            let result = bytes.withUnsafeBytes { bytes in
                let remaining = UnsafeRawBufferPointer(rebasing: bytes[sent...])
                return self.tls?.write(remaining) ?? SystemSocket.send(self.descriptor, remaining)
            }
            guard case .done(let count) = result else {
                let isClosed = if case .failed(let error) = result { error.code == .reset || error.code == .closed } else { false }
                throw Broken(description: "the client receives nothing: \(result)", isClosedByPeer: isClosed)
            }
            sent += count
        }
    }

    /// Reads the head of a request, and what arrives with its end.
    @discardableResult
    func readHead() throws -> [UInt8] {
        var request: [UInt8] = []
        while !String(decoding: request, as: UTF8.self).contains("\r\n\r\n") {
            let more = try self.receive()
            if more.isEmpty { throw Broken(description: "the request is incomplete") }
            request += more
        }
        return request
    }

    /// Reads the request for a WebSocket and returns the correct response.
    func acceptHandshake() throws -> [UInt8] {
        let request = try self.readHead()
        var decoder = HTTPRequestDecoder(bodyLimit: 0)
        let head = try request.withUnsafeBytes { bytes -> HTTPRequestHead? in
            var input = bytes
            guard case .head(let request) = try decoder.next(&input) else { return nil }
            return request.head
        }
        guard let head, case .valid(let offer) = ServerHandshake.check(head) else {
            throw Broken(description: "the request is not for a WebSocket")
        }
        var output: [UInt8] = []
        try HTTPEncoder.append(ServerHandshake.accept(offer, subprotocol: nil), to: &output)
        return output
    }

    /// Reads until the client ends the connection.
    func readUntilEnd() throws {
        while try !self.receive().isEmpty {}
    }

    /// Ends the connection with RST.
    func reset() {
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(self.descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
        self.close()
    }

    func close() {
        guard self.descriptor >= 0 else { return }
        self.tls = nil
        SystemSocket.close(self.descriptor)
        self.descriptor = -1
    }
}

private func makeBlocking(_ descriptor: Int32) -> Int32 {
    _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK)
    return descriptor
}

func textFrame(_ text: String) -> [UInt8] { [0x81, UInt8(text.utf8.count)] + Array(text.utf8) }

func closeFrame(_ code: CloseCode, _ reason: String) -> [UInt8] {
    [0x88, UInt8(2 + reason.utf8.count), UInt8(code.rawValue >> 8), UInt8(code.rawValue & 0xFF)] + Array(reason.utf8)
}

/// Relays bytes between a client and a server until the server has sent `limit` bytes. Then both connections are reset.
func relay(_ client: RawPeer, to port: Int, limit: Int, count: Tally) throws {
    let server = try RawPeer(connectedTo: port)
    defer {
        client.reset()
        server.reset()
    }
    while case let room = min(64 << 10, limit - count.value), room > 0 {
        guard let bytes = try exchange(client, server, atMost: room) else { return }
        try client.send(bytes)
        count.add(bytes.count)
    }
}

/// Relays bytes between a client and a server. Sends the bytes of the server one by one, each after the client's loop has made a turn for
/// the previous one. The alert with which TLS ends may find that the other side has closed the connection.
func relay(_ client: RawPeer, to port: Int, byteByByteTo loop: EventLoop, count: Tally) throws {
    do {
        try relayBytes(client, to: port, loop, count: count)
    } catch let error as RawPeer.Broken where error.isClosedByPeer {}
}

private func relayBytes(_ client: RawPeer, to port: Int, _ loop: EventLoop, count: Tally) throws {
    let server = try RawPeer(connectedTo: port)
    while let bytes = try exchange(client, server, atMost: 64 << 10) {
        for byte in bytes {
            let turns = loop.counters.turns
            try client.send([byte])
            // The loop makes no more turns once the client has ended the connection.
            var attempts = 1_000_000
            while loop.counters.turns == turns, attempts > 0 {
                sched_yield()
                attempts -= 1
            }
        }
        count.add(bytes.count)
    }
}

/// Relays what the client sends until the server sends something, and returns that; `nil` if one of them has ended.
private func exchange(_ client: RawPeer, _ server: RawPeer, atMost limit: Int) throws -> [UInt8]? {
    while true {
        let (isClientReadable, isServerReadable) = RawPeer.wait(client, server)
        guard isClientReadable || isServerReadable else { throw RawPeer.Broken(description: "neither side sent anything in time") }
        if isClientReadable {
            let bytes = try client.receive()
            if bytes.isEmpty { return nil }
            try server.send(bytes)
        }
        if isServerReadable {
            let bytes = try server.receive(atMost: limit)
            return bytes.isEmpty ? nil : bytes
        }
    }
}

/// A counter that any thread can use.
final class Tally: Sendable {
    private let state = Lock(0)

    var value: Int { self.state.withLock { $0 } }

    func add(_ more: Int) { self.state.withLock { $0 += more } }
}
