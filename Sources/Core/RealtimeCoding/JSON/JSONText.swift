/// Validation of JSON text, and conversion of validated strings and numbers.
package enum JSONText {
    /// Throws unless the text is a single JSON value.
    package static func validate(
        _ bytes: UnsafeRawBufferPointer, isUTF8: Bool = false, limits: CodingLimits = CodingLimits()
    ) throws(JSONError) {
        var scanner = try JSONScanner(bytes, isUTF8: isUTF8, limits: limits)
        var sink = JSONNullSink()
        try scanner.value(into: &sink)
        try scanner.finish()
    }

    /// Converts a validated string, replacing lone surrogates with U+FFFD.
    package static func string(_ slice: JSONSlice, in bytes: UnsafeRawBufferPointer) -> String {
        self.string(UnsafeRawBufferPointer(rebasing: bytes[slice.range]), isEscaped: slice.kind == .escapedString)
    }

    /// Converts the bytes between the quotes of a validated string, replacing lone surrogates with U+FFFD.
    package static func string(_ raw: UnsafeRawBufferPointer, isEscaped: Bool) -> String {
        if !isEscaped { return String(decoding: raw, as: UTF8.self) }
        return String(unsafeUninitializedCapacity: raw.count) { self.unescape(raw, into: $0) }
    }

    /// Whether a value is a string without escapes that equals `text`. Compares without creating a string.
    package static func isEqual(_ slice: JSONSlice, _ text: String, in bytes: UnsafeRawBufferPointer) -> Bool {
        guard case .string = slice.kind, slice.length == text.utf8.count, let base = bytes.baseAddress else { return false }
        let start = (base + slice.offset).assumingMemoryBound(to: UInt8.self)
        let isEqual = text.utf8.withContiguousStorageIfAvailable { text in
            text.baseAddress.map { ByteWords.equal(start, $0, slice.length) } ?? true
        }
        return isEqual ?? text.utf8.elementsEqual(UnsafeBufferPointer(start: start, count: slice.length))
    }

    /// Converts a validated number to an integer, or `nil` if it is not whole or does not fit. `1.0` and `1e2` are whole.
    package static func integer(_ slice: JSONSlice, in bytes: UnsafeRawBufferPointer) -> Int64? {
        NumberText.integer(UnsafeRawBufferPointer(rebasing: bytes[slice.range]), slice.kind, as: Int64.self)
    }

    /// Converts a validated number to the nearest double, which is infinite if the number is out of range.
    package static func double(_ slice: JSONSlice, in bytes: UnsafeRawBufferPointer) -> Double {
        NumberText.double(UnsafeRawBufferPointer(rebasing: bytes[slice.range]))
    }

    /// The UTF-8 bytes of a validated string, with its escape sequences replaced.
    package static func unescapedBytes(_ raw: UnsafeRawBufferPointer) -> [UInt8] {
        // All empty arrays share storage, to which the initializer would write.
        if raw.isEmpty { return [] }
        return [UInt8](unsafeUninitializedCapacity: raw.count) { buffer, count in
            count = self.unescape(raw, into: buffer)
        }
    }

    /// The number of bytes for which ``unescape(_:from:into:)`` needs space behind the string.
    package static let unescapeMargin = 48

    /// Validates a string and replaces its escape sequences, in one pass.
    ///
    /// - Parameters:
    ///   - bytes: A text in valid UTF-8.
    ///   - start: The position after the opening quote.
    ///   - output: Receives the string. It must have space for ``unescapeMargin`` bytes more than `bytes` have after the start.
    /// - Returns: The position after the closing quote, and the number of bytes written; `nil` for a string that isn't valid, or that contains
    ///   the escape sequence of a UTF-16 code unit.
    package static func unescape(
        _ bytes: UnsafeRawBufferPointer, from start: Int, into output: UnsafeMutableRawBufferPointer
    ) -> (end: Int, count: Int)? {
        guard start < bytes.count, output.count >= bytes.count &- start &+ self.unescapeMargin, let base = output.baseAddress,
            let input = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
        else { return nil }
        var unescaping = Unescaping(target: base - start, position: start)
        switch unescaping.read(input, bytes.count) {
        case .end: return (unescaping.position &+ 1, unescaping.target + unescaping.position - base)
        case .invalid: return nil
        case .more: break
        }
        // The last blocks are read from a copy. It ends with zeros, which aren't valid in a string.
        let (position, written) = (unescaping.position, unescaping.target + unescaping.position)
        return withUnsafeTemporaryAllocation(byteCount: 5 * 16, alignment: 16) { rest in
            guard let copy = rest.baseAddress else { return nil }
            for block in 0..<5 { copy.storeBytes(of: SIMD16(repeating: 0), toByteOffset: block * 16, as: SIMD16<UInt8>.self) }
            if position < bytes.count { copy.copyMemory(from: input + position, byteCount: bytes.count &- position) }
            var unescaping = Unescaping(target: written, position: 0)
            guard unescaping.read(copy.assumingMemoryBound(to: UInt8.self), rest.count) == .end else { return nil }
            return (position &+ unescaping.position &+ 1, unescaping.target + unescaping.position - base)
        }
    }

    /// The replacement of escape sequences, 16 bytes at a time.
    ///
    /// Most escape sequences are quotes, from which only the backslash is removed: all bytes after it are copied again, one position earlier.
    /// The positions in a block are known before it is copied, so that the processor need not wait for one copy to find the next.
    private struct Unescaping {
        enum Outcome { case more, end, invalid }

        /// Where the byte at the position 0 of the input is written, if no further backslash is removed.
        var target: UnsafeMutableRawPointer
        /// The position after the blocks that are complete, or that of the closing quote.
        var position: Int

        /// Reads complete blocks, as long as 32 bytes are left.
        @inline(__always)
        mutating func read(_ input: UnsafePointer<UInt8>, _ count: Int) -> Outcome {
            while self.position &+ 32 <= count {
                let start = self.position
                let block = UnsafeRawPointer(input + start).loadUnaligned(as: SIMD16<UInt8>.self)
                (self.target + start).storeBytes(of: block, as: SIMD16<UInt8>.self)
                let stops = ByteWords.stops(block)
                self.position = start &+ 8
                let first = self.remove(stops[0], input, start)
                guard first == .more else { return first }
                // The second half may begin with the last character of an escape sequence.
                let second = self.position > start &+ 8 ? stops[1] & ~0x80 : stops[1]
                self.position = start &+ 16
                let outcome = self.remove(second, input, start &+ 8)
                guard outcome == .more else { return outcome }
                self.position = max(self.position, start &+ 16)
            }
            return .more
        }

        /// Removes the backslashes of eight bytes.
        @inline(__always)
        private mutating func remove(_ stops: UInt64, _ input: UnsafePointer<UInt8>, _ start: Int) -> Outcome {
            var stops = stops
            while stops != 0 {
                let bit = stops.trailingZeroBitCount
                let stop = start &+ bit &>> 3
                guard input[stop] == UInt8(ascii: "\\") else {
                    self.position = stop
                    return input[stop] == UInt8(ascii: "\"") ? .end : .invalid
                }
                let next = stop &+ 1
                self.target -= 1
                let following = UnsafeRawPointer(input + next).loadUnaligned(as: SIMD16<UInt8>.self)
                (self.target + next).storeBytes(of: following, as: SIMD16<UInt8>.self)
                if input[next] != UInt8(ascii: "\"") {
                    guard let character = JSONText.unescaped(input[next]) else { return .invalid }
                    (self.target + next).storeBytes(of: character, as: UInt8.self)
                }
                self.position = next &+ 1
                stops &= ~(0x101 &<< UInt64(truncatingIfNeeded: bit))
            }
            return .more
        }
    }

    /// The character of an escape sequence of two characters; `nil` for another sequence.
    @inline(__always)
    fileprivate static func unescaped(_ character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): character
        case UInt8(ascii: "n"): 0x0A
        case UInt8(ascii: "r"): 0x0D
        case UInt8(ascii: "t"): 0x09
        case UInt8(ascii: "b"): 0x08
        case UInt8(ascii: "f"): 0x0C
        default: nil
        }
    }

    /// The offset of the first lone surrogate in a validated string, or `nil` if there is none.
    package static func loneSurrogate(_ raw: UnsafeRawBufferPointer) -> Int? {
        guard let base = raw.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return nil }
        var index = 0
        while index < raw.count {
            guard base[index] == UInt8(ascii: "\\") else {
                index += 1
                continue
            }
            guard base[index + 1] == UInt8(ascii: "u") else {
                index += 2
                continue
            }
            let (scalar, length) = self.scalar(base, index, raw.count)
            if scalar == nil { return index }
            index += length
        }
        return nil
    }

    /// Replaces escape sequences.
    ///
    /// The output is never longer than the consumed input. Therefore, eight bytes can be copied at a time, and surplus bytes are
    /// overwritten later.
    @inline(__always)
    private static func unescape(_ raw: UnsafeRawBufferPointer, into output: UnsafeMutableBufferPointer<UInt8>) -> Int {
        guard let input = raw.baseAddress?.assumingMemoryBound(to: UInt8.self), let start = output.baseAddress else { return 0 }
        let end = raw.count
        var index = 0
        var count = 0
        while index < end {
            if index &+ 8 <= end {
                let word = ByteWords.load(input + index)
                UnsafeMutableRawPointer(start + count).storeBytes(of: word.littleEndian, as: UInt64.self)
                let stops = ByteWords.matches(word, UInt8(ascii: "\\"))
                let copied = stops == 0 ? 8 : stops.trailingZeroBitCount &>> 3
                index &+= copied
                count &+= copied
                if stops == 0 { continue }
            } else if input[index] != UInt8(ascii: "\\") {
                start[count] = input[index]
                index &+= 1
                count &+= 1
                continue
            }
            let escaped = input[index &+ 1]
            if escaped == UInt8(ascii: "u") {
                let (scalar, length) = self.scalar(input, index, end)
                index &+= length
                count &+= self.write(scalar ?? 0xFFFD, start + count)
            } else {
                switch escaped {
                case UInt8(ascii: "n"): start[count] = 0x0A
                case UInt8(ascii: "r"): start[count] = 0x0D
                case UInt8(ascii: "t"): start[count] = 0x09
                case UInt8(ascii: "b"): start[count] = 0x08
                case UInt8(ascii: "f"): start[count] = 0x0C
                default: start[count] = escaped
                }
                index &+= 2
                count &+= 1
            }
        }
        return count
    }

    /// The scalar of a `\u` escape, or of two that form a surrogate pair, and their length. The scalar of a lone surrogate is `nil`.
    private static func scalar(_ input: UnsafePointer<UInt8>, _ index: Int, _ end: Int) -> (scalar: UInt32?, length: Int) {
        let unit = ByteWords.hexadecimal(input + index + 2) ?? 0xFFFD
        guard unit & 0xF800 == 0xD800 else { return (unit, 6) }
        guard unit < 0xDC00, index + 12 <= end, input[index + 6] == UInt8(ascii: "\\"), input[index + 7] == UInt8(ascii: "u"),
            let low = ByteWords.hexadecimal(input + index + 8), low & 0xFC00 == 0xDC00
        else { return (nil, 6) }
        return (0x10000 + (unit & 0x3FF) << 10 + low & 0x3FF, 12)
    }

    /// Writes a scalar as UTF-8 and returns the number of bytes.
    private static func write(_ scalar: UInt32, _ output: UnsafeMutablePointer<UInt8>) -> Int {
        switch scalar {
        case 0..<0x80:
            output[0] = UInt8(truncatingIfNeeded: scalar)
            return 1
        case 0x80..<0x800:
            output[0] = UInt8(truncatingIfNeeded: 0xC0 | scalar >> 6)
            output[1] = UInt8(truncatingIfNeeded: 0x80 | scalar & 0x3F)
            return 2
        case 0x800..<0x10000:
            output[0] = UInt8(truncatingIfNeeded: 0xE0 | scalar >> 12)
            output[1] = UInt8(truncatingIfNeeded: 0x80 | scalar >> 6 & 0x3F)
            output[2] = UInt8(truncatingIfNeeded: 0x80 | scalar & 0x3F)
            return 3
        default:
            output[0] = UInt8(truncatingIfNeeded: 0xF0 | scalar >> 18)
            output[1] = UInt8(truncatingIfNeeded: 0x80 | scalar >> 12 & 0x3F)
            output[2] = UInt8(truncatingIfNeeded: 0x80 | scalar >> 6 & 0x3F)
            output[3] = UInt8(truncatingIfNeeded: 0x80 | scalar & 0x3F)
            return 4
        }
    }
}

extension JSONText {
    /// Returns the texts of an array's elements.
    ///
    /// - Parameter bytes: The text of an array, in valid UTF-8.
    /// - Throws: ``JSONError`` if the text isn't an array or exceeds the limits.
    package static func elements(
        ofArray bytes: UnsafeRawBufferPointer, limits: CodingLimits = CodingLimits()
    ) throws(JSONError) -> [Range<Int>] {
        var scanner = try JSONScanner(bytes, isUTF8: true, limits: limits)
        var sink = JSONNullSink()
        guard try scanner.next() == UInt8(ascii: "[") else { throw scanner.unexpected() }
        scanner.advance()
        var elements: [Range<Int>] = []
        if try scanner.next() == UInt8(ascii: "]") {
            scanner.advance()
            try scanner.finish()
            return elements
        }
        while true {
            _ = try scanner.next()
            let start = scanner.position
            try scanner.value(into: &sink, depth: 1)
            elements.append(start..<scanner.position)
            let byte = try scanner.next()
            guard byte == UInt8(ascii: ",") || byte == UInt8(ascii: "]") else { throw scanner.unexpected() }
            scanner.advance()
            if byte == UInt8(ascii: "]") { break }
        }
        try scanner.finish()
        return elements
    }
}

extension ByteWords {
    /// A mask of the bytes that interrupt the copying of a string: quotes, backslashes and control characters, and optionally all bytes
    /// that are not ASCII.
    @inline(__always)
    static func stops(_ word: UInt64, includingNonASCII: Bool) -> UInt64 {
        let quotes = (word ^ (self.ones &* UInt64(UInt8(ascii: "\"")))) &- self.ones
        let backslashes = (word ^ (self.ones &* UInt64(UInt8(ascii: "\\")))) &- self.ones
        let controls = word &- (self.ones &* 0x20)
        // All three are ASCII, so a byte with the highest bit set is not one of them.
        let found = quotes | backslashes | controls
        return (includingNonASCII ? found | word : found & ~word) & self.highs
    }

    /// The mask of the quotes, backslashes and control characters in 16 bytes. All bits are reliable.
    @inline(__always)
    static func stops(_ block: SIMD16<UInt8>) -> SIMD2<UInt64> {
        let one = SIMD16<UInt8>(repeating: 1)
        let quotes = (block ^ SIMD16(repeating: UInt8(ascii: "\""))) &- one
        let backslashes = (block ^ SIMD16(repeating: UInt8(ascii: "\\"))) &- one
        let controls = block &- SIMD16(repeating: 0x20)
        let found = (quotes | backslashes | controls) & ~block & SIMD16(repeating: 0x80)
        let words = unsafeBitCast(found, to: SIMD2<UInt64>.self)
        return SIMD2(UInt64(littleEndian: words[0]), UInt64(littleEndian: words[1]))
    }

    /// The value of four hexadecimal digits, or `nil` if one of the characters is not a digit.
    @inline(__always)
    static func hexadecimal(_ bytes: UnsafePointer<UInt8>) -> UInt32? {
        var value: UInt32 = 0
        for index in 0..<4 {
            let byte = bytes[index]
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte &- UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = byte &- UInt8(ascii: "a") &+ 10
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = byte &- UInt8(ascii: "A") &+ 10
            default: return nil
            }
            value = value << 4 | UInt32(digit)
        }
        return value
    }
}
