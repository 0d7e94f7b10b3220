import Foundation
import RealtimeEncoding
import RealtimeCoding
import TestSupport
import Testing

@testable import RealtimeCrypto

/// Test vectors for the parts of a secret box, and for the whole. `Tests/Vectors/secretbox/README.md` states their origin.
@Suite struct SecretBoxVectorTests {
    struct Vector {
        let members: JSONValue

        static func all(_ name: String) throws -> [Vector] {
            let bytes = Array(try Data(contentsOf: URL(fileURLWithPath: Vectors.path("secretbox/\(name).json"))))
            return try #require(try JSONValue(parsing: bytes).array).map { Vector(members: $0) }
        }

        var name: Comment { Comment(rawValue: self.members["name"]?.string ?? "") }

        func bytes(_ name: String) throws -> [UInt8] { try #require(self.members[name]?.string.flatMap(Hex.decode)) }

        func key() throws -> SalsaKey { try self.bytes("key").withUnsafeBytes { SalsaKey($0) } }
    }

    private static func bytes(of value: some Any) -> [UInt8] { withUnsafeBytes(of: value) { Array($0) } }

    @Test func `tags of Poly1305 match RFC 8439`() throws {
        let vectors = try Vector.all("poly1305")
        expectEqual(vectors.count, 12)
        for vector in vectors {
            let key = try vector.key()
            let tag = try vector.bytes("message").withUnsafeBytes { Poly1305.tag(of: $0, key: key) }
            #expect(Self.bytes(of: tag) == (try vector.bytes("tag")), vector.name)
        }
    }

    @Test func `keys of HSalsa20 match those of NaCl`() throws {
        let vectors = try Vector.all("hsalsa20")
        expectEqual(vectors.count, 2)
        for vector in vectors {
            let input = try vector.bytes("input").withUnsafeBytes { $0.loadUnaligned(as: SIMD4<UInt32>.self) }
            let key = HSalsa20.derive(try vector.key(), input: input)
            #expect(Self.bytes(of: key) == (try vector.bytes("output")), vector.name)
        }
    }

    /// Each block is at a different position of the four that are computed together.
    @Test func `blocks of Salsa20 match those of eSTREAM and NaCl`() throws {
        let vectors = try Vector.all("salsa20")
        expectEqual(vectors.count, 19)
        for vector in vectors {
            let nonce = try vector.bytes("nonce").withUnsafeBytes { $0.loadUnaligned(as: SIMD2<UInt32>.self) }
            let (cipher, number) = (Salsa20(key: try vector.key(), nonce: nonce), UInt64(try #require(vector.members["number"]?.int)))
            for position in 0..<4 where number >= position {
                var block = [UInt8](repeating: 0, count: 64)
                block.withUnsafeMutableBytes { block in
                    guard let start = block.baseAddress else { return }
                    cipher.blocks(from: number - UInt64(position)).apply(from: 64 * position, to: start, start, count: 64)
                }
                #expect(block == (try vector.bytes("block")), vector.name)
            }
        }
    }

    @Test func `boxes match those of NaCl`() throws {
        let vectors = try Vector.all("secretbox")
        expectEqual(vectors.count, 21)
        for vector in vectors {
            let (key, nonce) = (try vector.bytes("key"), try vector.bytes("nonce"))
            let (text, box) = (try vector.bytes("text"), try vector.bytes("box"))
            #expect(try SecretBox.seal(text, key: key, nonce: nonce) == box, vector.name)
            #expect(try SecretBox.open(box, key: key, nonce: nonce) == text, vector.name)
        }
    }
}
