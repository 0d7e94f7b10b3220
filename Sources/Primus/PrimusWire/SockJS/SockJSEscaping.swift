/// The characters that a server of SockJS escapes beside those of JSON: browsers change some of them, and others are line ends for them.
///
/// They are U+200C to U+200F, U+2028 to U+202F, U+2060 to U+206F, U+FFF0 to U+FFFF, and those that JavaScript has as two surrogates.
///
/// Source: `utils.js` of sockjs-node 0.3.24.
enum SockJSEscaping {
    /// Escapes these characters in JSON, which must be valid UTF-8.
    static func escape(_ json: inout [UInt8]) {
        // Most messages have none of them, and are only read.
        guard let first = json.withUnsafeBytes({ self.next($0, from: 0) }) else { return }
        let rest = Array(json[first...])
        json.removeSubrange(first...)
        rest.withUnsafeBytes { self.append(escaping: $0, to: &json) }
    }

    private static func append(escaping bytes: UnsafeRawBufferPointer, to output: inout [UInt8]) {
        var start = 0
        while let index = self.next(bytes, from: start) {
            output += bytes[start..<index]
            start = min(index + (bytes[index] >= 0xF0 ? 4 : 3), bytes.count)
            for unit in String(decoding: bytes[index..<start], as: UTF8.self).utf16 { self.append(unit, to: &output) }
        }
        output += bytes[start...]
    }

    /// Appends an escape sequence, with the lowercase digits of JavaScript.
    private static func append(_ unit: UInt16, to output: inout [UInt8]) {
        output.append(UInt8(ascii: "\\"))
        output.append(UInt8(ascii: "u"))
        for shift in [12, 8, 4, 0] {
            let digit = UInt8(truncatingIfNeeded: unit >> shift) & 0xF
            output.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
        }
    }

    /// The position of the first of these characters.
    private static func next(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
        var index = start
        while index < bytes.count {
            let end = min(index + 8, bytes.count)
            if end - index == 8, !self.containsLeader(bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)) {
                index = end
                continue
            }
            while index < end {
                if self.isEscaped(bytes, at: index) { return index }
                index += 1
            }
        }
        return nil
    }

    /// Whether one of eight bytes is 0xE2 or more. Each of these characters begins with such a byte.
    private static func containsLeader(_ word: UInt64) -> Bool {
        // Adding 0x1E to the lower seven bits of such a byte sets the highest one, and of no other byte with the highest bit. It can't carry.
        let carried = (word & 0x7F7F_7F7F_7F7F_7F7F) &+ 0x1E1E_1E1E_1E1E_1E1E
        return carried & word & 0x8080_8080_8080_8080 != 0
    }

    private static func isEscaped(_ bytes: UnsafeRawBufferPointer, at index: Int) -> Bool {
        let first = bytes[index]
        if first < 0xE2 { return false }
        if first >= 0xF0 { return true }
        guard first == 0xE2 || first == 0xEF, index + 2 < bytes.count else { return false }
        switch (first, bytes[index + 1], bytes[index + 2]) {
        case (0xE2, 0x80, 0x8C...0x8F), (0xE2, 0x80, 0xA8...0xAF), (0xE2, 0x81, 0xA0...0xAF), (0xEF, 0xBF, 0xB0...0xBF): return true
        default: return false
        }
    }
}
