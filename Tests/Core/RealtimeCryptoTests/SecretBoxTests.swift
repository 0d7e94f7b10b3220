import RealtimeCrypto
import TestSupport
import Testing

@Suite(.computes, .serialized) struct SecretBoxTests {
    private static let key = (0..<32).map { UInt8($0) }
    private static let nonce = (100..<124).map { UInt8($0) }

    private static func text(_ length: Int) -> [UInt8] { (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 >> 8) } }

    private static func error(_ box: [UInt8], key: [UInt8] = Self.key, nonce: [UInt8] = Self.nonce) -> SecretBoxError? {
        do throws(SecretBoxError) {
            _ = try SecretBox.open(box, key: key, nonce: nonce)
            return nil
        } catch {
            return error
        }
    }

    @Test func `a box contains a text of any length`() throws {
        var previous: [UInt8] = []
        for length in Array(0...300) + [447, 448, 479, 480, 481, 511, 512, 513, 735, 736, 737, 1023, 1024, 1025, 10_240] {
            let text = Self.text(length)
            let box = try SecretBox.seal(text, key: Self.key, nonce: Self.nonce)
            expectEqual(box.count, length + 16)
            try expectEqual(SecretBox.open(box, key: Self.key, nonce: Self.nonce), text, "\(length) bytes")
            // A longer text begins with the shorter one, and so does its ciphertext.
            expect(box.dropFirst(16).starts(with: previous.dropFirst(16)), "\(length) bytes")
            previous = box
        }
    }

    @Test(arguments: [0, 1, 40]) func `a box with any flipped bit is not opened`(length: Int) throws {
        let box = try SecretBox.seal(Self.text(length), key: Self.key, nonce: Self.nonce)
        expectNil(Self.error(box))
        func flipped(_ bytes: [UInt8]) -> [[UInt8]] {
            (0..<8 * bytes.count).map { bit in
                var bytes = bytes
                bytes[bit / 8] ^= 1 << UInt8(bit % 8)
                return bytes
            }
        }
        for changed in flipped(box) { expectEqual(Self.error(changed), .wrongTag) }
        for changed in flipped(Self.key) { expectEqual(Self.error(box, key: changed), .wrongTag) }
        for changed in flipped(Self.nonce) { expectEqual(Self.error(box, nonce: changed), .wrongTag) }
    }

    @Test func `a box with another length is not opened`() throws {
        let box = try SecretBox.seal(Self.text(40), key: Self.key, nonce: Self.nonce)
        for length in 0..<16 { expectEqual(Self.error(Array(box.prefix(length))), .boxLength(length)) }
        for length in 16..<box.count { expectEqual(Self.error(Array(box.prefix(length))), .wrongTag) }
        expectEqual(Self.error(box + [0]), .wrongTag)
    }

    @Test(arguments: [0, 1, 16, 31, 33, 64]) func `a key has 32 bytes`(length: Int) throws {
        let key = [UInt8](repeating: 0, count: length)
        #expect(throws: SecretBoxError.keyLength(length)) { try SecretBox.seal([], key: key, nonce: Self.nonce) }
        expectEqual(Self.error(Self.text(40), key: key), .keyLength(length))
    }

    @Test(arguments: [0, 1, 8, 12, 23, 25, 32]) func `a nonce has 24 bytes`(length: Int) throws {
        let nonce = [UInt8](repeating: 0, count: length)
        #expect(throws: SecretBoxError.nonceLength(length)) { try SecretBox.seal([], key: Self.key, nonce: nonce) }
        expectEqual(Self.error(Self.text(40), nonce: nonce), .nonceLength(length))
    }
}
