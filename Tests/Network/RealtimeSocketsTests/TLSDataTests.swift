import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

@Suite(.usesSockets, .needsOpenSSL) struct TLSDataTests {
    static let sizes = [1, 2, 195, 16_383, 16_384, 16_385, 65_536, 1_000_003]

    static func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
    }

    /// Moves all of it, reading whenever the socket is full.
    static func transfer(_ bytes: [UInt8], from sender: TLSSession, to receiver: TLSSession, buffer: Int) throws -> [UInt8] {
        var left = bytes[...]
        var received: [UInt8] = []
        while received.count < bytes.count {
            var moved = false
            if !left.isEmpty, case .done(let count) = sender.write(left) {
                left.removeFirst(count)
                moved = true
            }
            while case (.done, let piece) = receiver.read(limit: buffer) {
                received += piece
                moved = true
            }
            try #require(moved, "\(received.count) of \(bytes.count) arrived")
        }
        #expect(left.isEmpty)
        return received
    }

    @Test(arguments: Self.sizes, [1_000, 1 << 16])
    func `bytes of any number arrive both ways`(count: Int, buffer: Int) throws {
        let pair = try TLSPair.connected()
        let bytes = Self.bytes(count)
        #expect(try Self.transfer(bytes, from: pair.client, to: pair.server, buffer: buffer) == bytes)
        #expect(try Self.transfer(bytes, from: pair.server, to: pair.client, buffer: buffer) == bytes)
    }

    @Test func `bytes arrive with the older version too`() throws {
        var server = TLSServerConfiguration.test
        server.maximumVersion = .tls12
        let pair = try TLSPair.connected(.trustingTestRoot, server)
        let bytes = Self.bytes(300_000)
        #expect(try Self.transfer(bytes, from: pair.client, to: pair.server, buffer: 1 << 16) == bytes)
        #expect(try Self.transfer(bytes, from: pair.server, to: pair.client, buffer: 1 << 16) == bytes)
    }

    @Test func `nothing to read asks for a readable socket`() throws {
        let pair = try TLSPair.connected()
        #expect(pair.client.read().outcome == .wantRead)
        #expect(pair.server.read().outcome == .wantRead)
    }

    @Test func `no bytes are no error`() throws {
        let pair = try TLSPair.connected()
        #expect(pair.client.write([]) == .done(0))
        #expect(pair.client.read(limit: 0).outcome == .done(0))
        #expect(pair.server.read().outcome == .wantRead)
    }

    @Test func `one read brings many records`() throws {
        let pair = try TLSPair.connected()
        for number in 0..<100 { #expect(pair.server.write([UInt8(number)]) == .done(1)) }
        let read = pair.client.read()
        #expect(read.bytes == (0..<100).map(UInt8.init))
        #expect(!pair.client.hasBufferedInput)
    }

    @Test func `what did not fit is said to be within`() throws {
        let pair = try TLSPair.connected()
        #expect(pair.server.write(Self.bytes(1_000)) == .done(1_000))
        #expect(pair.client.read(limit: 400).bytes.count == 400)
        #expect(pair.client.hasBufferedInput)
        #expect(pair.client.read(limit: 600).bytes.count == 600)
        #expect(!pair.client.hasBufferedInput)
    }

    @Test func `a full socket takes a part and then asks for a writable one`() throws {
        let pair = try TLSPair.connected()
        let bytes = Self.bytes(4 << 20)
        guard case .done(let count) = pair.client.write(bytes) else {
            Issue.record("nothing was written")
            return
        }
        #expect(count > 0 && count < bytes.count)
        #expect(pair.client.write(bytes[count...]) == .wantWrite)
        #expect(pair.client.shutdown() == .wantWrite)
        // The rest is in other memory by then, and more was added.
        let rest = Array(bytes[count...]) + [1, 2, 3]
        var received: [UInt8] = []
        while case (.done, let piece) = pair.server.read() { received += piece }
        received += try Self.transfer(rest, from: pair.client, to: pair.server, buffer: 1 << 16)
        #expect(received == bytes + [1, 2, 3])
    }

    @Test func `a record in pieces is waited for`() throws {
        let pair = try TLSPair.connected()
        let sealed = try Self.sealed("hello", by: pair)
        for piece in sealed.dropLast() {
            pair.sockets.sendFromSecond([piece])
            #expect(pair.client.read().outcome == .wantRead)
        }
        pair.sockets.sendFromSecond([sealed.last!])
        #expect(pair.client.read().bytes == Array("hello".utf8))
    }

    @Test func `a changed byte ends the connection`() throws {
        let pair = try TLSPair.connected()
        var sealed = try Self.sealed("hello", by: pair)
        sealed[sealed.count - 1] ^= 1
        pair.sockets.sendFromSecond(sealed)
        let failure = pair.client.read().outcome.failure
        #expect(failure?.code == .tlsFailed)
        #expect(pair.client.read().outcome.failure == failure)
        #expect(pair.client.hasBufferedInput)
    }

    @Test func `plain bytes in the middle end the connection`() throws {
        let pair = try TLSPair.connected()
        pair.sockets.sendFromSecond(Array("not a record".utf8))
        #expect(pair.client.read().outcome.failure?.code == .tlsFailed)
    }

    /// What the server would send, taken out of the socket before the client sees it.
    static func sealed(_ text: String, by pair: TLSPair) throws -> [UInt8] {
        // The tickets that came with the handshake.
        #expect(pair.client.read().outcome == .wantRead)
        #expect(pair.server.write(text.utf8) == .done(text.utf8.count))
        let sealed = pair.sockets.receiveAtFirst()
        try #require(sealed.count > text.utf8.count)
        return sealed
    }
}
