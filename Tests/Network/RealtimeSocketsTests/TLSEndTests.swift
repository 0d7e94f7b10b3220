import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

@Suite(.usesSockets, .needsOpenSSL) struct TLSEndTests {
    @Test func `an end that is said is closed on both sides`() throws {
        let pair = try TLSPair.connected()
        #expect(pair.client.write([1, 2]) == .done(2))
        #expect(pair.client.shutdown() == .done(0))
        #expect(pair.server.read().bytes == [1, 2])
        #expect(pair.server.read().outcome == .closed)
        #expect(pair.server.read().outcome == .closed)
        #expect(pair.server.shutdown() == .closed)
        #expect(pair.client.read().outcome == .closed)
        #expect(pair.client.shutdown() == .closed)
    }

    @Test(arguments: [TLSVersion.tls12, .tls13])
    func `after its own end a side still reads`(version: TLSVersion) throws {
        var client = TLSConfiguration.trustingTestRoot
        client.maximumVersion = version
        let pair = try TLSPair.connected(client)
        #expect(pair.client.shutdown() == .done(0))
        #expect(pair.server.write([7]) == .done(1))
        #expect(pair.client.read().bytes == [7])
        #expect(pair.client.write([1]).failure?.code == .tlsFailed)
    }

    @Test func `an end that is not said is truncation`() throws {
        let pair = try TLSPair.connected()
        #expect(pair.server.write([1, 2, 3]) == .done(3))
        pair.sockets.closeSecond()
        #expect(pair.client.read().bytes == [1, 2, 3])
        let failure = pair.client.read().outcome.failure
        #expect(failure?.code == .closed)
        #expect(failure?.message.contains("without the notice that it was complete") == true, "\(String(describing: failure))")
        #expect(pair.client.read().outcome.failure == failure)
        #expect(pair.client.shutdown() == .done(0))
    }

    @Test func `an end within a record is truncation`() throws {
        let pair = try TLSPair.connected()
        let sealed = try TLSDataTests.sealed("hello", by: pair)
        pair.sockets.sendFromSecond(sealed.dropLast(3))
        pair.sockets.closeSecond()
        #expect(pair.client.read().outcome.failure?.code == .closed)
    }

    @Test func `what came before the end is still read after a write failed`() throws {
        let pair = try TLSPair.connected()
        #expect(pair.client.read().outcome == .wantRead)
        #expect(pair.server.write([4, 2]) == .done(2))
        #expect(pair.server.shutdown() == .done(0))
        pair.sockets.closeSecond()
        let failure = pair.client.write([1]).failure
        #expect(failure?.code == .reset, "\(String(describing: failure))")
        #expect(pair.client.write([1]).failure == failure)
        #expect(pair.client.read().bytes == [4, 2])
        #expect(pair.client.read().outcome == .closed)
    }

    @Test func `ending during the handshake says nothing`() throws {
        let sockets = SocketPair()
        let client = try TLSSession(client: .client(.trustingTestRoot), descriptor: sockets.first, host: "localhost")
        #expect(client.shutdown() == .done(0))
        #expect(client.handshake() == .wantRead)
        #expect(client.shutdown() == .done(0))
    }

    @Test func `a session that is dropped takes nothing with it`() throws {
        let contexts = (client: try TLSContext.client(.trustingTestRoot), server: try TLSContext.server(.test))
        let first = try TLSPair(contexts: contexts)
        first.handshake()
        do {
            let second = try TLSPair(contexts: contexts)
            _ = second.client.handshake()
        }
        #expect(first.client.write([9]) == .done(1))
        #expect(first.server.read().bytes == [9])
    }
}
