import RealtimeSystem

/// Operations on eight bytes at a time.
///
/// They return masks with the highest bit of each matching byte set. Only the lowest set bit is reliable, because a borrow can carry
/// into the bytes above the first match.
enum ByteWords {
    static var ones: UInt64 { 0x0101_0101_0101_0101 }
    static var highs: UInt64 { 0x8080_8080_8080_8080 }

    /// Loads eight bytes, with the first one in the lowest bits.
    @inline(__always)
    static func load(_ pointer: UnsafePointer<UInt8>) -> UInt64 {
        UInt64(littleEndian: UnsafeRawPointer(pointer).loadUnaligned(as: UInt64.self))
    }

    /// A mask of the bytes equal to `byte`.
    @inline(__always)
    static func matches(_ word: UInt64, _ byte: UInt8) -> UInt64 {
        let difference = word ^ (self.ones &* UInt64(byte))
        return (difference &- self.ones) & ~difference & self.highs
    }

    /// Whether two sequences of `count` bytes are equal.
    @inline(__always)
    static func equal(_ left: UnsafePointer<UInt8>, _ right: UnsafePointer<UInt8>, _ count: Int) -> Bool {
        var index = 0
        while index &+ 8 <= count {
            if self.load(left + index) != self.load(right + index) { return false }
            index &+= 8
        }
        while index < count {
            if left[index] != right[index] { return false }
            index &+= 1
        }
        return true
    }

    /// The length of the UTF-8 sequence at `index`, whose first byte is not ASCII, or 0 if it is invalid (RFC 3629 section 4).
    static func sequenceLength(_ bytes: UnsafePointer<UInt8>, _ index: Int, _ end: Int) -> Int {
        let first = bytes[index]
        let length: Int
        var low: UInt8 = 0x80
        var high: UInt8 = 0xBF
        switch first {
        case 0xC2...0xDF: length = 2
        case 0xE0: (length, low) = (3, 0xA0)
        case 0xED: (length, high) = (3, 0x9F)
        case 0xE1...0xEF: length = 3
        case 0xF0: (length, low) = (4, 0x90)
        case 0xF4: (length, high) = (4, 0x8F)
        case 0xF1...0xF3: length = 4
        default: return 0
        }
        guard index &+ length <= end, bytes[index &+ 1] >= low, bytes[index &+ 1] <= high else { return 0 }
        for offset in 2..<max(length, 2) where bytes[index &+ offset] & 0xC0 != 0x80 { return 0 }
        return length
    }

    /// Whether the bytes are valid UTF-8.
    static func isUTF8(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let base = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return true }
        var index = 0
        while index < bytes.count {
            if index &+ 8 <= bytes.count, self.load(base + index) & 0x8080_8080_8080_8080 == 0 {
                index &+= 8
            } else if base[index] < 0x80 {
                index &+= 1
            } else {
                let length = self.sequenceLength(base, index, bytes.count)
                guard length > 0 else { return false }
                index &+= length
            }
        }
        return true
    }
}

extension String {
    /// Whether the strings have the same bytes. `==` also holds for canonically equivalent strings with different bytes.
    func hasBytes(of other: String) -> Bool { self.utf8.count == other.utf8.count && ByteString(self) == ByteString(other) }
}
