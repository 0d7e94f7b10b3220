import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

@Suite(.usesSockets, .requires(.openSSL)) struct TLSEndTests {
    @Test func `a shutdown closes the connection for both sides`() throws {
        let pair = try TLSPair.connected()
        expectEqual(pair.client.write([1, 2]), .done(2))
        expectEqual(pair.client.shutdown(), .done(0))
        expectEqual(pair.server.read().bytes, [1, 2])
        expectEqual(pair.server.read().result, .closed)
        expectEqual(pair.server.read().result, .closed)
        expectEqual(pair.server.shutdown(), .closed)
        expectEqual(pair.client.read().result, .closed)
        expectEqual(pair.client.shutdown(), .closed)
    }

    @Test(arguments: [TLSVersion.tls12, .tls13])
    func `a side can read after its own shutdown`(version: TLSVersion) throws {
        var client = TLSConfiguration.trustingTestRoot
        client.maximumVersion = version
        let pair = try TLSPair.connected(client)
        expectEqual(pair.client.shutdown(), .done(0))
        expectEqual(pair.server.write([7]), .done(1))
        expectEqual(pair.client.read().bytes, [7])
        expectEqual(pair.client.write([1]).failure?.code, .tlsFailed)
    }

    @Test func `the end of the connection without a shutdown is an error`() throws {
        let pair = try TLSPair.connected()
        expectEqual(pair.server.write([1, 2, 3]), .done(3))
        pair.sockets.closeSecond()
        expectEqual(pair.client.read().bytes, [1, 2, 3])
        let failure = pair.client.read().result.failure
        expectEqual(failure?.code, .closed)
        expectEqual(failure?.message.contains("without a close_notify alert"), true, "\(String(describing: failure))")
        expectEqual(pair.client.read().result.failure, failure)
        expectEqual(pair.client.shutdown(), .done(0))
    }

    @Test func `the end of the connection within a record is an error`() throws {
        let pair = try TLSPair.connected()
        let record = try TLSDataTests.record("hello", from: pair)
        pair.sockets.sendFromSecond(record.dropLast(3))
        pair.sockets.closeSecond()
        expectEqual(pair.client.read().result.failure?.code, .closed)
    }

    @Test func `data received before the end can be read after a write has failed`() throws {
        let pair = try TLSPair.connected()
        expectEqual(pair.client.read().result, .wantRead)
        expectEqual(pair.server.write([4, 2]), .done(2))
        expectEqual(pair.server.shutdown(), .done(0))
        pair.sockets.closeSecond()
        let failure = pair.client.write([1]).failure
        expectEqual(failure?.code, .reset, "\(String(describing: failure))")
        expectEqual(pair.client.write([1]).failure, failure)
        expectEqual(pair.client.read().bytes, [4, 2])
        expectEqual(pair.client.read().result, .closed)
    }

    @Test func `a shutdown during the handshake has no effect`() throws {
        let sockets = SocketPair()
        let client = try TLSSession(client: .client(.trustingTestRoot), descriptor: sockets.first, host: "localhost")
        expectEqual(client.shutdown(), .done(0))
        expectEqual(client.handshake(), .wantRead)
        expectEqual(client.shutdown(), .done(0))
    }

    @Test func `releasing a session does not affect other sessions with the same context`() throws {
        let contexts = (client: try TLSContext.client(.trustingTestRoot), server: try TLSContext.server(.test))
        let first = try TLSPair(contexts: contexts)
        first.handshake()
        do {
            let second = try TLSPair(contexts: contexts)
            _ = second.client.handshake()
        }
        expectEqual(first.client.write([9]), .done(1))
        expectEqual(first.server.read().bytes, [9])
    }
}
