import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

@Suite(.usesSockets, .requires(.openSSL)) struct TLSDataTests {
    static let sizes = [1, 2, 195, 16_383, 16_384, 16_385, 65_536, 1_000_003]

    static func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
    }

    /// Transfers all bytes, reading whenever the socket is full.
    static func transfer(_ bytes: [UInt8], from sender: TLSSession, to receiver: TLSSession, buffer: Int) throws -> [UInt8] {
        var remaining = bytes[...]
        var received: [UInt8] = []
        while received.count < bytes.count {
            var moved = false
            if !remaining.isEmpty, case .done(let count) = sender.write(remaining) {
                remaining.removeFirst(count)
                moved = true
            }
            while case (.done, let piece) = receiver.read(limit: buffer) {
                received += piece
                moved = true
            }
            try #require(moved, "\(received.count) of \(bytes.count) arrived")
        }
        expect(remaining.isEmpty)
        return received
    }

    @Test(arguments: Self.sizes, [1_000, 1 << 16])
    func `data of any size arrives in both directions`(count: Int, buffer: Int) throws {
        let pair = try TLSPair.connected()
        let bytes = Self.bytes(count)
        try expectEqual(Self.transfer(bytes, from: pair.client, to: pair.server, buffer: buffer), bytes)
        try expectEqual(Self.transfer(bytes, from: pair.server, to: pair.client, buffer: buffer), bytes)
    }

    @Test func `data arrives in both directions with TLS 1.2`() throws {
        var server = TLSServerConfiguration.test
        server.maximumVersion = .tls12
        let pair = try TLSPair.connected(.trustingTestRoot, server)
        let bytes = Self.bytes(300_000)
        try expectEqual(Self.transfer(bytes, from: pair.client, to: pair.server, buffer: 1 << 16), bytes)
        try expectEqual(Self.transfer(bytes, from: pair.server, to: pair.client, buffer: 1 << 16), bytes)
    }

    @Test func `a read without data waits for a readable socket`() throws {
        let pair = try TLSPair.connected()
        expectEqual(pair.client.read().result, .wantRead)
        expectEqual(pair.server.read().result, .wantRead)
    }

    @Test func `empty reads and writes have no effect`() throws {
        let pair = try TLSPair.connected()
        expectEqual(pair.client.write([]), .done(0))
        expectEqual(pair.client.read(limit: 0).result, .done(0))
        expectEqual(pair.server.read().result, .wantRead)
    }

    @Test func `one read returns the data of many records`() throws {
        let pair = try TLSPair.connected()
        for number in 0..<100 { expectEqual(pair.server.write([UInt8(number)]), .done(1)) }
        let read = pair.client.read()
        expectEqual(read.bytes, (0..<100).map(UInt8.init))
        expectEqual(pair.client.read().result, .wantRead)
    }

    @Test func `a read that fills its buffer leaves the remaining data for the next read`() throws {
        let pair = try TLSPair.connected()
        expectEqual(pair.server.write(Self.bytes(1_000)), .done(1_000))
        expectEqual(pair.client.read(limit: 400).bytes.count, 400)
        expectEqual(pair.client.read(limit: 600).bytes.count, 600)
        expectEqual(pair.client.read().result, .wantRead)
    }

    @Test func `a write to a full socket is partial, and the next one waits for a writable socket`() throws {
        let pair = try TLSPair.connected()
        let bytes = Self.bytes(4 << 20)
        guard case .done(let count) = pair.client.write(bytes) else {
            Issue.record("nothing was written")
            return
        }
        expect(count > 0 && count < bytes.count)
        expectEqual(pair.client.write(bytes[count...]), .wantWrite)
        expectEqual(pair.client.shutdown(), .wantWrite)
        // The remaining bytes are in other memory, and followed by more.
        let remaining = Array(bytes[count...]) + [1, 2, 3]
        var received: [UInt8] = []
        while case (.done, let piece) = pair.server.read() { received += piece }
        received += try Self.transfer(remaining, from: pair.client, to: pair.server, buffer: 1 << 16)
        expectEqual(received, bytes + [1, 2, 3])
    }

    @Test func `a record that arrives in pieces is returned when it is complete`() throws {
        let pair = try TLSPair.connected()
        let record = try Self.record("hello", from: pair)
        for piece in record.dropLast() {
            pair.sockets.sendFromSecond([piece])
            expectEqual(pair.client.read().result, .wantRead)
        }
        pair.sockets.sendFromSecond([record.last!])
        expectEqual(pair.client.read().bytes, Array("hello".utf8))
    }

    @Test func `a record that was modified fails the connection`() throws {
        let pair = try TLSPair.connected()
        var record = try Self.record("hello", from: pair)
        record[record.count - 1] ^= 1
        pair.sockets.sendFromSecond(record)
        let failure = pair.client.read().result.failure
        expectEqual(failure?.code, .tlsFailed)
        expectEqual(pair.client.read().result.failure, failure)
    }

    @Test func `unencrypted bytes after the handshake fail the connection`() throws {
        let pair = try TLSPair.connected()
        pair.sockets.sendFromSecond(Array("not a record".utf8))
        expectEqual(pair.client.read().result.failure?.code, .tlsFailed)
    }

    /// A record of the server, taken from the socket before the client reads it.
    static func record(_ text: String, from pair: TLSPair) throws -> [UInt8] {
        // Reads the session tickets that follow the handshake.
        expectEqual(pair.client.read().result, .wantRead)
        expectEqual(pair.server.write(text.utf8), .done(text.utf8.count))
        let record = pair.sockets.receiveAtFirst()
        try #require(record.count > text.utf8.count)
        return record
    }
}
