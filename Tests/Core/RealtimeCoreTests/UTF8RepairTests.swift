import RealtimeCore
import TestSupport
import Testing

@Suite struct UTF8RepairTests {
    private func repaired(_ bytes: [UInt8]) -> [UInt8] {
        var text: [UInt8] = [UInt8(ascii: "x")]
        bytes.withUnsafeBytes { text.append(repairing: $0) }
        return Array(text.dropFirst())
    }

    private func differs(_ bytes: [UInt8]) -> Bool { self.repaired(bytes) != Array(String(decoding: bytes, as: UTF8.self).utf8) }

    @Test func `invalid sequences are replaced as by the standard library`() {
        // The bytes at the limits of all ranges.
        let bytes: [UInt8] = [
            0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1,
            0xF3, 0xF4,
            0xF5, 0xFF,
        ]
        var different: [[UInt8]] = []
        for first in bytes {
            for second in bytes {
                for third in bytes {
                    for rest in [[], [0x80], [0xBF, 0x41], [0xF0]] as [[UInt8]] {
                        let text = [first, second, third] + rest
                        if self.differs(text) { different.append(text) }
                    }
                }
            }
        }
        expectEqual(different, [])
        var generator = SplitMix64(seed: 7)
        for count in 0..<scaled(2_000) {
            let text = (0..<count % 40).map { _ in bytes.randomElement(using: &generator) ?? 0 }
            if self.differs(text) { different.append(text) }
        }
        expectEqual(different, [])
    }

    @Test(arguments: ["", "text", "ü€😀", "a\u{FFFD}b"]) func `valid text stays as it is`(text: String) {
        expectEqual(self.repaired(Array(text.utf8)), Array(text.utf8))
    }
}
