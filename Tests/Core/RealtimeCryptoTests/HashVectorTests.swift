import RealtimeEncoding
import RealtimeCrypto
import TestSupport
import Testing

/// Test vectors from FIPS 180-4, RFC 1321 and RFC 3174.
@Suite struct HashVectorTests {
    struct Vector: Sendable, CustomTestStringConvertible {
        var input: String
        var md5: String
        var sha1: String
        var sha256: String

        var testDescription: String { "\"\(self.input)\"" }
    }

    static let vectors = [
        Vector(
            input: "", md5: "d41d8cd98f00b204e9800998ecf8427e", sha1: "da39a3ee5e6b4b0d3255bfef95601890afd80709",
            sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        Vector(
            input: "abc", md5: "900150983cd24fb0d6963f7d28e17f72", sha1: "a9993e364706816aba3e25717850c26c9cd0d89d",
            sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        Vector(
            input: "message digest", md5: "f96b697d7cb7938d525a2f31aaf161d0", sha1: "c12252ceda8be8994d5fa0290a47231c1d16aae3",
            sha256: "f7846f55cf23e14eebeab5b4e1550cad5b509e3348fbc4efa3a1413d393cb650"),
        Vector(
            input: "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", md5: "8215ef0796a20bcaaae116d3876c664a",
            sha1: "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
            sha256: "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"),
    ]

    @Test(arguments: vectors) func `digests match the vectors of the standards`(_ vector: Vector) {
        let input = Array(vector.input.utf8)
        expectEqual(Hex.encode(MD5.hash(input)), vector.md5)
        expectEqual(Hex.encode(SHA1.hash(input)), vector.sha1)
        expectEqual(Hex.encode(SHA256.hash(input)), vector.sha256)
    }

    @Test func `digests of a million letters match the vectors of the standards`() {
        let input = [UInt8](repeating: UInt8(ascii: "a"), count: 1_000_000)
        expectEqual(Hex.encode(MD5.hash(input)), "7707d6ae4e027c70eea2a935c2296f21")
        expectEqual(Hex.encode(SHA1.hash(input)), "34aa973cd4c4daa4f61eeb2bdbad27316534016f")
        expectEqual(Hex.encode(SHA256.hash(input)), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
    }

    @Test(arguments: [0, 1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 129, 200])
    func `input in pieces has the same digest as the whole`(_ length: Int) {
        let input = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ 3) }
        for size in [1, 3, 63, 64, 65] {
            var (md5, sha1, sha256) = (MD5(), SHA1(), SHA256())
            for start in stride(from: 0, to: length, by: size) {
                let piece = Array(input[start..<min(start + size, length)])
                md5.update(piece)
                sha1.update(piece)
                sha256.update(piece)
            }
            expectEqual(md5.finalize(), MD5.hash(input))
            expectEqual(sha1.finalize(), SHA1.hash(input))
            expectEqual(sha256.finalize(), SHA256.hash(input))
        }
    }
}
