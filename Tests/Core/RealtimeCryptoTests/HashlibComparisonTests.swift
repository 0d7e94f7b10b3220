import RealtimeEncoding
import Processes
import Foundation
import RealtimeCrypto
import TestSupport
import Testing

/// Compares the hashes with Python's `hashlib`.
@Suite(.computes, .serialized) struct HashlibComparisonTests {
    private static let script = """
        import hashlib, hmac, sys
        for line in sys.stdin.readlines():
            key, data = (bytes.fromhex(word[1:]) for word in line.split())
            print(hashlib.md5(data).hexdigest(), hashlib.sha1(data).hexdigest(), hashlib.sha256(data).hexdigest(),
                  hmac.new(key, data, hashlib.sha256).hexdigest())
        """

    @Test(.requires(.python3))
    func `digests of random input match those of hashlib`() async throws {
        var generator = SystemRandomNumberGenerator()
        let inputs = (0..<300).map { index -> (key: [UInt8], data: [UInt8]) in
            let keyLength = Int.random(in: 0...150, using: &generator)
            let length = index < 150 ? index : Int.random(in: 0...5000, using: &generator)
            return ((0..<keyLength).map { _ in generator.next() }, (0..<length).map { _ in generator.next() })
        }
        let python = try ChildProcess([try #require(Program.path(of: "python3")), "-c", Self.script])
        // A letter before each word keeps empty words separate.
        let (output, status) = try await onOwnThread {
            for input in inputs { python.write("k\(Hex.encode(input.key)) d\(Hex.encode(input.data))") }
            python.endInput()
            return (python.readOutput(), python.waitForEnd())
        }
        expectEqual(status, 0)

        let lines = output.split(separator: "\n")
        try #require(lines.count == inputs.count)
        for (input, line) in zip(inputs, lines) {
            let ours = [
                MD5.hash(input.data), SHA1.hash(input.data), SHA256.hash(input.data), HMACSHA256.code(for: input.data, key: input.key),
            ]
            #expect(ours.map(Hex.encode).joined(separator: " ") == line, "for \(input.data.count) bytes")
        }
    }
}
