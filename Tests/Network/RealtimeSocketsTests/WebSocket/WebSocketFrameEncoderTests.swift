import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.computes, .serialized) struct WebSocketFrameEncoderTests {
    static let lengths = [0, 1, 2, 3, 7, 8, 9, 125, 126, 127, 128, 195, 65535, 65536, 1 << 20]

    private func payload(_ length: Int) -> [UInt8] { (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ 7) & 0x7F } }

    @Test(arguments: lengths) func `frames are encoded as in the examples of the RFC`(_ length: Int) {
        let payload = self.payload(length)
        let key: [UInt8] = [0x01, 0x80, 0xFE, 0x5A]
        for (kind, first) in [(.text, 0x81), (.binary, 0x82)] as [(TransportMessage.Kind, UInt8)] {
            var output: [UInt8] = [0xAA]
            FrameEncoder.append(kind, payload, mask: 0x5AFE_8001, to: &output)
            FrameEncoder.append(kind, payload, mask: nil, to: &output)
            expectEqual(output, [0xAA] + frame(first, payload, key: key) + frame(first, payload))
        }
    }

    @Test(arguments: lengths) func `encoded messages are decoded to the same messages`(_ length: Int) {
        let messages: [TransportMessage] = [
            TransportMessage(.text, self.payload(length)), .binary(self.payload(length)),
            TransportMessage(.ping, self.payload(min(length, 125))),
            TransportMessage(.pong, self.payload(min(length, 125))),
        ]
        for (role, mask) in [(.server, 0x8123_4567), (.client, nil)] as [(WebSocketRole, UInt32?)] {
            var output: [UInt8] = []
            for message in messages { FrameEncoder.append(message.kind, message.bytes, mask: mask, to: &output) }
            expectEqual(decode([output], role: role), Decoded(messages: messages))
            let size = max(1, output.count / 37)
            let pieces = stride(from: 0, to: output.count, by: size).map { Array(output[$0..<min($0 + size, output.count)]) }
            expectEqual(decode(pieces, role: role), Decoded(messages: messages))
        }
    }

    @Test func `a masked payload is decoded in parts of any size`() {
        let payload = self.payload(100)
        let bytes = frame(0x82, payload, key: [0x11, 0x22, 0x44, 0x88])
        for size in 1...bytes.count {
            let pieces = stride(from: 0, to: bytes.count, by: size).map { Array(bytes[$0..<min($0 + size, bytes.count)]) }
            expectEqual(decode(pieces, role: .server), Decoded(messages: [.binary(payload)]))
        }
    }

    @Test func `mask keys differ`() {
        // Among 5,000 of 2^32 values, three pairs that are equal by chance do not occur.
        let keys = (0..<5000).map { _ in Mask.randomKey() }
        expect(Set(keys).count > 4997)
    }

    @Test func `threads do not use the same mask keys`() {
        let keys = Lock<[UInt32]>([])
        let threads = (0..<4).map { _ in
            PosixThread("keys") {
                let drawn = (0..<1000).map { _ in Mask.randomKey() }
                keys.withLock { $0 += drawn }
            }
        }
        for thread in threads { thread?.join() }
        expect(Set(keys.withLock { $0 }).count > 3997)
    }

    @Test func `handshake nonces are random and have 16 bytes`() {
        expectEqual(HandshakeKey.makeNonce().count, 16)
        expect(HandshakeKey.makeNonce() != HandshakeKey.makeNonce())
    }
}
