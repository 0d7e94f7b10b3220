import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

@Suite(.usesSockets, .requires(.openSSL)) struct TLSHandshakeTests {
    @Test func `a client and a server use the newest version`() throws {
        let pair = try TLSPair.connected()
        expectEqual(pair.client.version, "TLSv1.3")
        expectEqual(pair.server.version, "TLSv1.3")
        expectEqual(pair.client.handshake(), .done(0))
    }

    @Test func `an older version is accepted if the minimum allows it`() throws {
        var server = TLSServerConfiguration.test
        server.maximumVersion = .tls12
        try expectEqual(TLSPair.connected(.trustingTestRoot, server).client.version, "TLSv1.2")
    }

    @Test func `a server below the minimum version is rejected`() throws {
        var client = TLSConfiguration.trustingTestRoot
        client.minimumVersion = .tls13
        var server = TLSServerConfiguration.test
        server.maximumVersion = .tls12
        let result = try TLSPair(client, server).handshake()
        expectEqual(result.client.failure?.code, .tlsFailed)
        expectEqual(result.client.failure?.message.contains("the server does not support TLS 1.3 or later"), true, "\(result)")
        expectEqual(result.server.failure?.code, .tlsFailed)
    }

    @Test func `a server with TLS 1.1 is rejected by default`() throws {
        let sockets = SocketPair()
        let client = try TLSSession(client: .client(.trustingTestRoot), descriptor: sockets.first, host: "localhost")
        expectEqual(client.handshake(), .wantRead)
        // A ServerHello of TLS 1.1: a random value, no session ID, the cipher TLS_RSA_WITH_AES_128_CBC_SHA, and no compression.
        let hello: [UInt8] = [3, 2] + [UInt8](repeating: 7, count: 32) + [0, 0x00, 0x2f, 0]
        let message = [2, 0, 0, UInt8(hello.count)] + hello
        sockets.sendFromSecond([22, 3, 2, 0, UInt8(message.count)] + message)
        let failure = client.handshake().failure
        expectEqual(failure?.code, .tlsFailed)
        expectEqual(failure?.message.contains("the server does not support TLS 1.2 or later"), true, "\(String(describing: failure))")
    }

    /// The client's first message, in which server name indication is not encrypted.
    private func clientHello(_ configuration: TLSConfiguration = .trustingTestRoot, host: String) throws -> [UInt8] {
        let sockets = SocketPair()
        let client = try TLSSession(client: .client(configuration), descriptor: sockets.first, host: host)
        expectEqual(client.handshake(), .wantRead)
        return sockets.receiveAtSecond()
    }

    @Test(arguments: ["localhost", "localhost."])
    func `the client sends the host name`(host: String) throws {
        let hello = try self.clientHello(host: host)
        expect(hello.contains(Array("localhost".utf8)) && !hello.contains(Array("localhost.".utf8)))
    }

    @Test(arguments: ["127.0.0.1", "::1"])
    func `the client does not send an IP address as its host name`(host: String) throws {
        expect(!(try self.clientHello(host: host).contains(Array(host.utf8))))
    }

    @Test func `the configuration can replace the host name`() throws {
        var client = TLSConfiguration.trustingTestRoot
        client.serverName = "localhost"
        try expect(self.clientHello(client, host: "203.0.113.7").contains(Array("localhost".utf8)))
        _ = try TLSPair.connected(client, host: "203.0.113.7")
    }

    @Test(arguments: [
        "", ".", "good.example\0.bad.example", String(repeating: "a", count: 300), ".example.com", "..", "a..b", "*.example.com", "a b",
        "a/b", "user@a", "exämple.com", "\(String(repeating: "a", count: 64)).com", "1:2",
    ])
    func `an invalid host name is rejected`(host: String) throws {
        let error = try #require(throws: TransportError.self) { try TLSPair(host: host) }
        expectEqual(error.code, .invalidURL)
    }

    @Test(arguments: ["HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\0\0\0\0\0\0\0\0"])
    func `the error for a server without TLS suggests an unencrypted connection`(text: String) throws {
        let sockets = SocketPair()
        let client = try TLSSession(client: .client(.trustingTestRoot), descriptor: sockets.first, host: "localhost")
        expectEqual(client.handshake(), .wantRead)
        sockets.sendFromSecond(Array(text.utf8))
        let failure = client.handshake().failure
        expectEqual(failure?.code, .tlsFailed)
        expectEqual(failure?.message.contains("use ws:// or http://"), true, "\(String(describing: failure))")
        expectEqual(client.handshake().failure, failure)
        expectEqual(client.read().result.failure, failure)
        expectEqual(client.write([1]).failure, failure)
        expectEqual(client.shutdown(), .done(0))
    }

    @Test func `the error for a client without TLS suggests TLS`() throws {
        let sockets = SocketPair()
        let server = try TLSSession(server: .server(.test), descriptor: sockets.first)
        sockets.sendFromSecond(Array("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8))
        let failure = server.handshake().failure
        expectEqual(failure?.code, .tlsFailed)
        expectEqual(failure?.message.contains("it must use wss:// or https://"), true, "\(String(describing: failure))")
    }

    @Test func `the end of the connection during the handshake is an error`() throws {
        let sockets = SocketPair()
        let client = try TLSSession(client: .client(.trustingTestRoot), descriptor: sockets.first, host: "localhost")
        expectEqual(client.handshake(), .wantRead)
        expectEqual(sockets.receiveAtSecond().first, 22)
        sockets.closeSecond()
        let failure = client.handshake().failure
        expectEqual(failure?.code, .closed)
        expectEqual(failure?.message.contains("handshake with localhost failed: the peer closed the connection"), true, "\(failure as Any)")
    }

    @Test func `a handshake with a peer that has closed the connection fails`() throws {
        let sockets = SocketPair()
        let client = try TLSSession(client: .client(.trustingTestRoot), descriptor: sockets.first, host: "localhost")
        sockets.closeSecond()
        expectEqual(client.handshake().failure?.code, .reset)
    }

    @Test func `many threads can share contexts`() async throws {
        let client = try TLSContext.client(.trustingTestRoot)
        let server = try TLSContext.server(.test)
        let finished = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<100 {
                group.addTask {
                    let result = try? TLSPair(contexts: (client, server)).handshake()
                    return result?.client == .done(0) && result?.server == .done(0)
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        expectEqual(finished, 100)
    }

    @Test func `a handshake with random data fails`() throws {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            let sockets = SocketPair()
            let client = try TLSSession(client: .client(.trustingTestRoot), descriptor: sockets.first, host: "localhost")
            expectEqual(client.handshake(), .wantRead)
            let bytes = (0..<Int.random(in: 1...400)).map { _ in UInt8.random(in: 0...255, using: &generator) }
            sockets.sendFromSecond(Bool.random() ? bytes : [22, 3, 3, 1, 0] + bytes)
            sockets.closeSecond()
            let result = client.handshake()
            expect(result.failure != nil, "\(result) after \(bytes)")
        }
    }
}
