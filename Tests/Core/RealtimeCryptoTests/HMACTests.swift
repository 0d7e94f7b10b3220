import RealtimeEncoding
import RealtimeCrypto
import TestSupport
import Testing

@Suite struct HMACTests {
    struct Vector: Sendable {
        var key: [UInt8]
        var data: [UInt8]
        var code: String
    }

    /// The test cases of RFC 4231, except the one with truncated output.
    static let vectors = [
        Vector(
            key: [UInt8](repeating: 0x0b, count: 20), data: Array("Hi There".utf8),
            code: "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
        Vector(
            key: Array("Jefe".utf8), data: Array("what do ya want for nothing?".utf8),
            code: "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        Vector(
            key: [UInt8](repeating: 0xaa, count: 20), data: [UInt8](repeating: 0xdd, count: 50),
            code: "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
        Vector(
            key: Array(1...25), data: [UInt8](repeating: 0xcd, count: 50),
            code: "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"),
        Vector(
            key: [UInt8](repeating: 0xaa, count: 131), data: Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
            code: "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"),
        Vector(
            key: [UInt8](repeating: 0xaa, count: 131),
            data: Array(
                "This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used by the HMAC algorithm."
                    .utf8),
            code: "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"),
    ]

    @Test(arguments: vectors) func `codes match the test cases of RFC 4231`(_ vector: Vector) {
        expectEqual(Hex.encode(HMACSHA256.code(for: vector.data, key: vector.key)), vector.code)
        var pieces = HMACSHA256(key: vector.key)
        for byte in vector.data { pieces.update([byte]) }
        expectEqual(Hex.encode(pieces.finalize()), vector.code)
    }

    @Test func `constant-time comparison detects any difference in length or bytes`() {
        let bytes: [UInt8] = [1, 2, 3, 4]
        expect(constantTimeEqual(bytes, [1, 2, 3, 4]))
        expect(constantTimeEqual([], []))
        expect(!constantTimeEqual(bytes, [1, 2, 3]))
        expect(!constantTimeEqual(bytes, []))
        for index in bytes.indices {
            var other = bytes
            other[index] ^= 0x80
            expect(!constantTimeEqual(bytes, other))
        }
    }

    @Test func `tokens are equal only if they have the same characters`() {
        expect(constantTimeEqual("a:b", "a:b") && constantTimeEqual("", ""))
        for other in ["", "a:", "a:b ", "a:B", "a:c"] { expect(!constantTimeEqual("a:b", other)) }
    }
}
