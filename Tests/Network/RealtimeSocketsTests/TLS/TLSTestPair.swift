import RealtimeSystem
import RealtimeCore
import RealtimeSockets
import Testing

/// Two connected, non-blocking sockets.
final class SocketPair {
    private(set) var first: Int32
    private(set) var second: Int32

    init() {
        var pair: [Int32] = [-1, -1]
        precondition(socketpair(AF_UNIX, streamType, 0, &pair) == 0)
        for descriptor in pair {
            precondition(fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0 && fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0)
        }
        (self.first, self.second) = (pair[0], pair[1])
    }

    deinit {
        self.closeFirst()
        self.closeSecond()
    }

    func closeFirst() { end(&self.first) }

    func closeSecond() { end(&self.second) }

    func sendFromSecond(_ bytes: [UInt8]) {
        precondition(send(self.second, bytes, bytes.count, 0) == bytes.count)
    }

    func receiveAtFirst() -> [UInt8] { receive(self.first) }

    func receiveAtSecond() -> [UInt8] { receive(self.second) }
}

/// Shuts the connection down before closing the descriptor: an exit test that is just starting has a copy of it, with which the
/// connection would stay open.
private func end(_ descriptor: inout Int32) {
    guard descriptor >= 0 else { return }
    shutdown(descriptor, Int32(SHUT_RDWR))
    close(descriptor)
    descriptor = -1
}

private func receive(_ descriptor: Int32) -> [UInt8] {
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    let count = recv(descriptor, &buffer, buffer.count, 0)
    return Array(buffer.prefix(max(0, count)))
}

#if canImport(Glibc)
private let streamType = Int32(SOCK_STREAM.rawValue)
#else
private let streamType = SOCK_STREAM
#endif

/// A client and a server that are run alternately by one thread.
final class TLSPair {
    let sockets = SocketPair()
    let client: TLSSession
    let server: TLSSession

    init(
        _ client: TLSConfiguration = .trustingTestRoot, _ server: TLSServerConfiguration = .test, host: String = "localhost"
    ) throws {
        self.client = try TLSSession(client: .client(client), descriptor: self.sockets.first, host: host)
        self.server = try TLSSession(server: .server(server), descriptor: self.sockets.second)
    }

    init(contexts: (client: TLSContext, server: TLSContext), host: String = "localhost") throws {
        self.client = try TLSSession(client: contexts.client, descriptor: self.sockets.first, host: host)
        self.server = try TLSSession(server: contexts.server, descriptor: self.sockets.second)
    }

    /// Runs the handshake and returns the results of both sides. Neither needs more than a few steps.
    @discardableResult
    func handshake() -> (client: IOResult, server: IOResult) {
        var client = IOResult.wantRead
        var server = IOResult.wantRead
        for _ in 0..<20 {
            if client.isWaiting { client = self.client.handshake() }
            if server.isWaiting { server = self.server.handshake() }
        }
        return (client, server)
    }

    static func connected(
        _ client: TLSConfiguration = .trustingTestRoot, _ server: TLSServerConfiguration = .test, host: String = "localhost",
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> TLSPair {
        let pair = try TLSPair(client, server, host: host)
        let result = pair.handshake()
        try #require(result.client == .done(0) && result.server == .done(0), "\(result)", sourceLocation: sourceLocation)
        return pair
    }
}

extension IOResult {
    var isWaiting: Bool { self == .wantRead || self == .wantWrite }

    var failure: TransportError? {
        guard case .failed(let error) = self else { return nil }
        return error
    }
}

extension TLSSession {
    func write(_ bytes: some Collection<UInt8>) -> IOResult {
        Array(bytes).withUnsafeBytes { self.write($0) }
    }

    /// Reads once.
    func read(limit: Int = 1 << 16) -> (result: IOResult, bytes: [UInt8]) {
        var bytes = [UInt8](repeating: 0, count: limit)
        let result = bytes.withUnsafeMutableBytes { self.read(into: $0) }
        guard case .done(let count) = result else { return (result, []) }
        return (result, Array(bytes.prefix(count)))
    }
}
