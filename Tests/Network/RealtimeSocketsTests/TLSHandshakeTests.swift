import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

@Suite(.usesSockets, .needsOpenSSL) struct TLSHandshakeTests {
    @Test func `a client and a server agree on the newest version`() throws {
        let pair = try TLSPair.connected()
        #expect(pair.client.version == "TLSv1.3")
        #expect(pair.server.version == "TLSv1.3")
        #expect(pair.client.handshake() == .done(0))
    }

    @Test func `an older version is spoken down to the minimum`() throws {
        var server = TLSServerConfiguration.test
        server.maximumVersion = .tls12
        #expect(try TLSPair.connected(.trustingTestRoot, server).client.version == "TLSv1.2")
    }

    @Test(arguments: [(TLSVersion.tls12, TLSVersion.tls11), (.tls13, .tls12)])
    func `a server below the minimum version is refused`(minimum: TLSVersion, offered: TLSVersion) throws {
        var client = TLSConfiguration.trustingTestRoot
        client.minimumVersion = minimum
        var server = TLSServerConfiguration.test
        server.minimumVersion = .tls11
        server.maximumVersion = offered
        let outcome = try TLSPair(client, server).handshake()
        #expect(outcome.client.failure?.code == .tlsFailed)
        #expect(outcome.client.failure?.message.contains("the server does not speak \(minimum) or newer") == true, "\(outcome)")
        #expect(outcome.server.failure?.code == .tlsFailed)
    }

    @Test(arguments: ["localhost", "localhost."])
    func `the server is told the name`(host: String) throws {
        #expect(try TLSPair.connected(host: host).server.requestedServerName == "localhost")
    }

    @Test(arguments: ["127.0.0.1", "::1"])
    func `the server is not told an address`(host: String) throws {
        #expect(try TLSPair.connected(host: host).server.requestedServerName == nil)
    }

    @Test func `another name may stand for the host`() throws {
        var client = TLSConfiguration.trustingTestRoot
        client.serverName = "localhost"
        #expect(try TLSPair.connected(client, host: "203.0.113.7").server.requestedServerName == "localhost")
    }

    @Test(arguments: ["", ".", "good.example\0.bad.example", String(repeating: "a", count: 300)])
    func `a host that cannot be checked is refused`(host: String) throws {
        let error = try #require(throws: TransportError.self) { try TLSPair(host: host) }
        #expect(error.code == .invalidURL)
    }

    @Test func `the server picks its favourite protocol`() throws {
        var client = TLSConfiguration.trustingTestRoot
        client.applicationProtocols = ["h2", "http/1.1", "x"]
        var server = TLSServerConfiguration.test
        server.applicationProtocols = ["x", "http/1.1"]
        let pair = try TLSPair.connected(client, server)
        #expect(pair.client.applicationProtocol == "x")
        #expect(pair.server.applicationProtocol == "x")
    }

    @Test func `no common protocol is refused`() throws {
        var client = TLSConfiguration.trustingTestRoot
        client.applicationProtocols = ["h2"]
        var server = TLSServerConfiguration.test
        server.applicationProtocols = ["http/1.1"]
        let outcome = try TLSPair(client, server).handshake()
        #expect(outcome.client.failure?.message.contains("none of the application protocols") == true, "\(outcome)")
    }

    @Test(arguments: [([], ["http/1.1"]), (["http/1.1"], [])])
    func `a side without protocols does not mind`(client: [String], server: [String]) throws {
        var one = TLSConfiguration.trustingTestRoot
        one.applicationProtocols = client
        var other = TLSServerConfiguration.test
        other.applicationProtocols = server
        #expect(try TLSPair.connected(one, other).client.applicationProtocol == nil)
    }

    @Test(arguments: ["HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\0\0\0\0\0\0\0\0"])
    func `a server that does not speak TLS is said to be one`(words: String) throws {
        let sockets = SocketPair()
        let client = try TLSSession(client: .client(.trustingTestRoot), descriptor: sockets.first, host: "localhost")
        #expect(client.handshake() == .wantRead)
        sockets.sendFromSecond(Array(words.utf8))
        let failure = client.handshake().failure
        #expect(failure?.code == .tlsFailed)
        #expect(failure?.message.contains("use ws:// or http://") == true, "\(String(describing: failure))")
        #expect(client.handshake().failure == failure)
        #expect(client.read().outcome.failure == failure)
        #expect(client.write([1]).failure == failure)
        #expect(client.shutdown() == .done(0))
    }

    @Test func `a client that does not speak TLS is said to be one`() throws {
        let sockets = SocketPair()
        let server = try TLSSession(server: .server(.test), descriptor: sockets.first)
        sockets.sendFromSecond(Array("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8))
        let failure = server.handshake().failure
        #expect(failure?.code == .tlsFailed)
        #expect(failure?.message.contains("use wss:// or https://") == true, "\(String(describing: failure))")
    }

    @Test func `a peer that closes during the handshake is a closed connection`() throws {
        let sockets = SocketPair()
        let client = try TLSSession(client: .client(.trustingTestRoot), descriptor: sockets.first, host: "localhost")
        #expect(client.handshake() == .wantRead)
        #expect(sockets.receiveAtSecond().first == 22)
        sockets.closeSecond()
        let failure = client.handshake().failure
        #expect(failure?.code == .closed)
        #expect(failure?.message.contains("ended before it was done") == true, "\(String(describing: failure))")
    }

    @Test func `a peer that has gone before the handshake is a failure`() throws {
        let sockets = SocketPair()
        let client = try TLSSession(client: .client(.trustingTestRoot), descriptor: sockets.first, host: "localhost")
        sockets.closeSecond()
        #expect(client.handshake().failure?.code == .reset)
    }

    @Test func `many threads share the contexts`() async throws {
        let client = try TLSContext.client(.trustingTestRoot)
        let server = try TLSContext.server(.test)
        let finished = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<100 {
                group.addTask {
                    let outcome = try? TLSPair(contexts: (client, server)).handshake()
                    return outcome?.client == .done(0) && outcome?.server == .done(0)
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(finished == 100)
    }

    @Test func `random answers never hang or pass the handshake`() throws {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            let sockets = SocketPair()
            let client = try TLSSession(client: .client(.trustingTestRoot), descriptor: sockets.first, host: "localhost")
            #expect(client.handshake() == .wantRead)
            let answer = (0..<Int.random(in: 1...400)).map { _ in UInt8.random(in: 0...255, using: &generator) }
            sockets.sendFromSecond(Bool.random() ? answer : [22, 3, 3, 1, 0] + answer)
            sockets.closeSecond()
            let outcome = client.handshake()
            #expect(outcome.failure != nil, "\(outcome) after \(answer)")
        }
    }
}
