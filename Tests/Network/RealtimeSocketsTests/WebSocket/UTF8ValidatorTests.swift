import RealtimeSockets
import TestSupport
import Testing

@Suite(.computes, .serialized) struct UTF8ValidatorTests {
    /// Validates text in pieces, and returns after how many bytes an error was detected.
    private func check(_ bytes: [UInt8], pieces: Int) -> (isValid: Bool, failedAt: Int?) {
        var validator = UTF8Validator()
        for start in stride(from: 0, to: bytes.count, by: pieces) {
            let piece = Array(bytes[start..<min(start + pieces, bytes.count)])
            if !piece.withUnsafeBytes({ validator.check($0) }) { return (false, start + piece.count) }
        }
        return (validator.isComplete, nil)
    }

    /// Whether the standard library accepts the bytes.
    private func isValid(_ bytes: [UInt8]) -> Bool {
        var (codec, iterator) = (UTF8(), bytes.makeIterator())
        while true {
            switch codec.decode(&iterator) {
            case .scalarValue: continue
            case .emptyInput: return true
            case .error: return false
            }
        }
    }

    @Test(arguments: [
        "", "a", "κόσμε", "価格更新", "😀", "\u{0}", "\u{7F}\u{80}\u{7FF}\u{800}\u{FFFF}\u{10000}\u{10FFFF}", "\u{D7FF}\u{E000}",
        String(repeating: "a", count: 100) + "é" + String(repeating: "b", count: 100), String(repeating: "é価😀a", count: 30),
    ])
    func `valid text is accepted independently of how it is split`(_ text: String) {
        let bytes = Array(text.utf8)
        expect(bytes.withUnsafeBytes(UTF8Validator.isValid))
        for size in 1...40 { expect(self.check(bytes, pieces: size).isValid) }
    }

    @Test(arguments: [
        "80", "BF", "C080", "C1BF", "C2", "C220", "E08080", "E09FBF", "E0A0", "EDA080", "EDBFBF", "EF", "EFBF", "F08FBFBF", "F0808080",
        "F4908080", "F5808080", "F8888080 80", "FE", "FF", "61 E0 61", "CEBAE1BDB9CF83CEBCCEB5EDA080656469746564", "F09F98", "C3A9 C3",
    ])
    func `invalid text is rejected independently of how it is split`(_ hex: String) {
        let bytes = [UInt8](hex: hex)
        for padding in [0, 7, 8, 31, 32, 33] {
            let padded = [UInt8](repeating: 0x61, count: padding) + bytes
            expect(!padded.withUnsafeBytes(UTF8Validator.isValid))
            for size in 1...padded.count { expect(!self.check(padded, pieces: size).isValid) }
        }
    }

    @Test(arguments: [("C1", 1), ("E09F", 2), ("EDA0", 2), ("F08F", 2), ("F490", 2), ("F5", 1), ("61FF", 2), ("F09F41", 3), ("E4BDC3", 3)])
    func `an error is detected at the first invalid byte`(_ hex: String, _ count: Int) {
        expectEqual(self.check([UInt8](hex: hex), pieces: 1).failedAt, count)
    }

    @Test func `all sequences of two bytes are accepted or rejected as by the standard library`() {
        for first in UInt8.min...UInt8.max {
            for second in UInt8.min...UInt8.max {
                let bytes = [first, second]
                expectEqual(bytes.withUnsafeBytes(UTF8Validator.isValid), self.isValid(bytes))
            }
        }
    }

    @Test func `sequences at the limits of ranges are accepted or rejected as by the standard library`() {
        let leads: [UInt8] = [0x7F, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5]
        let others: [UInt8] = [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF]
        for lead in leads {
            for second in others {
                for third in others {
                    for fourth in others {
                        // Three bytes, four bytes, and four bytes with more after them, which the fast path handles.
                        for bytes in [[lead, second, third], [lead, second, third, fourth], [lead, second, third, fourth, 0x61, 0x62]] {
                            let isValid = bytes.withUnsafeBytes(UTF8Validator.isValid)
                            if isValid != self.isValid(bytes) { Issue.record("\(bytes): \(isValid)") }
                        }
                    }
                }
            }
        }
    }
}
