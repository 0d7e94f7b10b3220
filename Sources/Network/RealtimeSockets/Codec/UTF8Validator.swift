/// Validates UTF-8 that arrives in parts. Detects an error at the first invalid byte, not at the end of the message.
///
/// Table 3-7 of the Unicode standard lists the valid sequences: no overlong forms, no surrogates, nothing above U+10FFFF.
package struct UTF8Validator: Sendable, Equatable {
    /// The number of missing continuation bytes, and the valid range of the next one.
    private var missing: UInt8 = 0
    private var lowest: UInt8 = 0x80
    private var highest: UInt8 = 0xBF

    package init() {}

    /// Whether the text does not end inside a character.
    package var isComplete: Bool { self.missing == 0 }

    /// Returns whether a complete text is valid.
    @inline(__always)
    package static func isValid(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let start = bytes.baseAddress else { return true }
        let ascii = Self.asciiPrefix(start, bytes.count)
        if ascii == bytes.count { return true }
        var validator = UTF8Validator()
        return validator.check(UnsafeRawBufferPointer(rebasing: bytes[ascii...])) && validator.isComplete
    }

    /// Validates the next part of the text.
    ///
    /// - Returns: `false` if the text is invalid.
    package mutating func check(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard var next = bytes.baseAddress else { return true }
        let end = next + bytes.count
        while next < end {
            let byte = next.load(as: UInt8.self)
            if self.missing > 0 {
                guard byte >= self.lowest, byte <= self.highest else { return false }
                self.missing &-= 1
                (self.lowest, self.highest) = (0x80, 0xBF)
                next += 1
            } else if byte < 0x80 {
                next += Self.asciiPrefix(next, end - next)
            } else if end - next >= 4, let size = Self.sequence(next.loadUnaligned(as: UInt32.self)) {
                next += size
            } else {
                guard self.begin(byte) else { return false }
                next += 1
            }
        }
        return true
    }

    /// Returns the length of the multi-byte sequence at the beginning of these four bytes, or `nil` if they need a check byte by byte.
    @inline(__always)
    private static func sequence(_ word: UInt32) -> Int? {
        let word = UInt32(littleEndian: word)
        let (lead, second) = (word & 0xFF, word >> 8 & 0xFF)
        if word & 0x00C0_C0F0 == 0x0080_80E0 {
            return (lead != 0xE0 || second >= 0xA0) && (lead != 0xED || second <= 0x9F) ? 3 : nil
        }
        if word & 0x0000_C0E0 == 0x0000_80C0 { return lead >= 0xC2 ? 2 : nil }
        if word & 0xC0C0_C0F8 == 0x8080_80F0 {
            return (lead != 0xF0 || second >= 0x90) && (lead < 0xF4 || lead == 0xF4 && second <= 0x8F) ? 4 : nil
        }
        return nil
    }

    @inline(__always)
    private mutating func begin(_ lead: UInt8) -> Bool {
        switch lead {
        case 0xC2...0xDF: self.missing = 1
        case 0xE0: (self.missing, self.lowest) = (2, 0xA0)
        case 0xED: (self.missing, self.highest) = (2, 0x9F)
        case 0xE1...0xEF: self.missing = 2
        case 0xF0: (self.missing, self.lowest) = (3, 0x90)
        case 0xF1...0xF3: self.missing = 3
        case 0xF4: (self.missing, self.highest) = (3, 0x8F)
        default: return false
        }
        return true
    }

    /// Returns the number of ASCII bytes at the beginning.
    @inline(__always)
    private static func asciiPrefix(_ start: UnsafeRawPointer, _ count: Int) -> Int {
        let high: UInt64 = 0x8080_8080_8080_8080
        var offset = 0
        while count &- offset >= 32 {
            let first = start.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            let second = start.loadUnaligned(fromByteOffset: offset &+ 8, as: UInt64.self)
            let third = start.loadUnaligned(fromByteOffset: offset &+ 16, as: UInt64.self)
            let fourth = start.loadUnaligned(fromByteOffset: offset &+ 24, as: UInt64.self)
            if (first | second | third | fourth) & high != 0 { break }
            offset &+= 32
        }
        while count &- offset >= 8 {
            if start.loadUnaligned(fromByteOffset: offset, as: UInt64.self) & high != 0 { break }
            offset &+= 8
        }
        while offset < count, start.load(fromByteOffset: offset, as: UInt8.self) < 0x80 { offset &+= 1 }
        return offset
    }
}
