import PeerSupport
import Processes
import RealtimeCrypto
import RealtimeEncoding
import TestSupport
import Testing

/// Compares secret boxes with those of PyNaCl, in one process.
@Suite(.requires(.pythonPeers))
struct PyNaClComparisonTests {
    private struct Box {
        var key, nonce, text, box: [UInt8]
    }

    /// Lengths from 0 bytes to 64 KiB, with as many short as long ones.
    private static let lengths: [Int] = {
        var generator = SystemRandomNumberGenerator()
        let random = (0..<scaled(60)).map { index in Int.random(in: 0...1 << (index % 16), using: &generator) }
        return [0, 1, 1 << 16] + random
    }()

    /// Runs PyNaCl with one command for each line. dev/peers/python-secretbox.py describes the commands.
    private static func answers(_ commands: [String]) async throws -> [[[UInt8]]] {
        let python = try ChildProcess([try #require(PeerCommand.python), "pynacl"])
        let (output, status) = try await onOwnThread {
            for command in commands { python.write(command) }
            python.endInput()
            return (python.readOutput(), python.waitForEnd())
        }
        expectEqual(status, 0)
        let lines = output.split(separator: "\n")
        try #require(lines.count == commands.count)
        return try lines.map { line in try line.split(separator: " ").map { try #require(Base64.decode(String($0.dropFirst()))) } }
    }

    @Test func `PyNaCl opens our boxes`() async throws {
        var generator = SystemRandomNumberGenerator()
        func random(_ count: Int) -> [UInt8] { (0..<count).map { _ in generator.next() } }
        let boxes = try Self.lengths.map { length in
            let (key, nonce, text) = (random(32), random(24), random(length))
            return Box(key: key, nonce: nonce, text: text, box: try SecretBox.seal(text, key: key, nonce: nonce))
        }
        let texts = try await Self.answers(boxes.map { "open " + [$0.key, $0.nonce, $0.box].map(Base64.encode).joined(separator: " ") })
        for (box, text) in zip(boxes, texts) { expectEqual(text, [box.text], "\(box.text.count) bytes") }
    }

    @Test func `we open the boxes of PyNaCl`() async throws {
        let lengths = Self.lengths
        for (length, words) in zip(lengths, try await Self.answers(lengths.map { "seal \($0)" })) {
            try #require(words.count == 4 && words[2].count == length)
            try expectEqual(SecretBox.open(words[3], key: words[0], nonce: words[1]), words[2], "\(length) bytes")
        }
    }
}
