import RealtimeEncoding

/// Base64 with padding (RFC 4648 section 4).
enum Base64 {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let values: [UInt8] = {
        var values = [UInt8](repeating: 0xFF, count: 256)
        for (value, letter) in Self.alphabet.enumerated() { values[Int(letter)] = UInt8(value) }
        return values
    }()

    /// `nil` for anything but whole groups of the alphabet. Bits that the padding leaves over are not looked at.
    static func decode(_ text: String) -> [UInt8]? {
        let text = Array(text.utf8)
        guard text.count % 4 == 0 else { return nil }
        let padding = text.suffix(2).reversed().prefix { $0 == UInt8(ascii: "=") }.count
        var output: [UInt8] = []
        output.reserveCapacity(text.count / 4 * 3)
        var group: UInt32 = 0
        for (index, letter) in text.enumerated() {
            var value = Self.values[Int(letter)]
            if index >= text.count - padding { value = 0 }
            guard value != 0xFF else { return nil }
            group = group << 6 | UInt32(value)
            if index % 4 == 3 {
                output.append(UInt8(truncatingIfNeeded: group >> 16))
                output.append(UInt8(truncatingIfNeeded: group >> 8))
                output.append(UInt8(truncatingIfNeeded: group))
            }
        }
        output.removeLast(padding)
        return output
    }

    static func append(_ bytes: [UInt8], to output: inout [UInt8]) {
        output.reserveCapacity(output.count + (bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let count = min(3, bytes.count - start)
            var group: UInt32 = 0
            for offset in 0..<3 { group = group << 8 | (offset < count ? UInt32(bytes[start + offset]) : 0) }
            for place in 0..<4 {
                output.append(place <= count ? Self.alphabet[Int(group >> (18 - 6 * UInt32(place)) & 0x3F)] : UInt8(ascii: "="))
            }
        }
    }
}
