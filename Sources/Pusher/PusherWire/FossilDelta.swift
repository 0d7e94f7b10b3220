/// The reason why a delta can't be applied.
package enum FossilDeltaError: Error, Hashable, Sendable, CustomStringConvertible {
    case invalidFormat
    /// The result would be larger than the limit.
    case tooLarge(Int)
    /// The result isn't the sender's text: the delta refers to another text, or has changed on its way.
    case wrongChecksum

    package var description: String {
        switch self {
        case .invalidFormat: "it isn't a valid delta"
        case .tooLarge(let limit): "the result has more than \(limit) bytes"
        case .wrongChecksum: "the checksum is wrong"
        }
    }
}

/// Deltas between texts in the format of the version control system Fossil, in which sockudo compresses events.
///
/// A delta is the size of the result and a line feed, then instructions, and at last a checksum of the result. Numbers have the base 64,
/// with digits of their own. This one has two instructions: copy `1E` bytes of the base from the offset 0, and insert one byte, `2`.
/// ```
/// 1F
/// 1E@0,1:2ABCDEF;
/// ```
/// - Source: The description of the format in the documentation of Fossil, `delta_format.wiki`.
package enum FossilDelta {
    /// The largest number in a delta. Numbers are read as `UInt64`, because `Int` has 32 bits on some platforms.
    private static let numberLimit = UInt64(UInt32.max)

    // MARK: Applying

    /// Applies a delta.
    ///
    /// - Parameters:
    ///   - delta: The delta.
    ///   - base: The text that it refers to.
    ///   - limit: The maximum size of the result, in bytes.
    /// - Returns: The result, whose checksum is right.
    package static func apply(_ delta: [UInt8], to base: [UInt8], limit: Int) throws(FossilDeltaError) -> [UInt8] {
        var position = 0
        let size = try self.number(in: delta, &position)
        guard try self.byte(in: delta, &position) == UInt8(ascii: "\n") else { throw .invalidFormat }
        guard let size = Int(exactly: size), size <= limit else { throw .tooLarge(limit) }
        var result: [UInt8] = []
        // A small delta may state a large size.
        result.reserveCapacity(min(size, base.count + delta.count))
        while true {
            let count = try self.number(in: delta, &position)
            switch try self.byte(in: delta, &position) {
            case UInt8(ascii: "@"):
                let offset = try self.number(in: delta, &position)
                guard try self.byte(in: delta, &position) == UInt8(ascii: ","), let offset = Int(exactly: offset), offset <= base.count,
                    let count = Int(exactly: count), count <= base.count - offset, count <= size - result.count
                else { throw .invalidFormat }
                result += base[offset..<offset + count]
            case UInt8(ascii: ":"):
                guard let count = Int(exactly: count), count <= delta.count - position, count <= size - result.count else {
                    throw .invalidFormat
                }
                result += delta[position..<position + count]
                position += count
            case UInt8(ascii: ";"):
                guard position == delta.count, result.count == size else { throw .invalidFormat }
                guard count == UInt64(self.checksum(of: result)) else { throw .wrongChecksum }
                return result
            default: throw .invalidFormat
            }
        }
    }

    private static func byte(in delta: [UInt8], _ position: inout Int) throws(FossilDeltaError) -> UInt8 {
        guard position < delta.count else { throw .invalidFormat }
        defer { position += 1 }
        return delta[position]
    }

    /// Reads a number, which ends before the first byte that isn't a digit. It has at least one digit.
    private static func number(in delta: [UInt8], _ position: inout Int) throws(FossilDeltaError) -> UInt64 {
        var value: UInt64 = 0
        let start = position
        while position < delta.count, let digit = self.value(of: delta[position]) {
            value = value << 6 | digit
            guard value <= self.numberLimit else { throw .invalidFormat }
            position += 1
        }
        guard position > start else { throw .invalidFormat }
        return value
    }

    private static func value(of digit: UInt8) -> UInt64? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt64(digit - UInt8(ascii: "0"))
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt64(digit - UInt8(ascii: "A")) + 10
        case UInt8(ascii: "_"): 36
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt64(digit - UInt8(ascii: "a")) + 37
        case UInt8(ascii: "~"): 63
        default: nil
        }
    }

    /// The sum of the text's big-endian words of 32 bits, the last of which is padded with zeros.
    private static func checksum(of text: [UInt8]) -> UInt32 {
        var sum: UInt32 = 0
        for index in text.indices { sum &+= UInt32(text[index]) << UInt32(24 - 8 * (index & 3)) }
        return sum
    }

    // MARK: Creating

    /// The number of bytes that have to be equal so that they are copied.
    private static let blockSize = 16

    /// Returns the delta between two texts, in time that is proportional to their sizes. It is larger than the text if they have little
    /// in common.
    package static func make(_ text: [UInt8], from base: [UInt8]) -> [UInt8] {
        var delta: [UInt8] = []
        self.append(UInt64(text.count), "\n", to: &delta)
        let blocks = self.blocks(of: base)
        var (position, literal) = (0, 0)
        while position + self.blockSize <= text.count {
            guard let match = self.match(text, at: position, since: literal, base, blocks) else {
                position += 1
                continue
            }
            self.appendLiteral(text[literal..<match.start], to: &delta)
            self.append(UInt64(match.count), "@", to: &delta)
            self.append(UInt64(match.offset), ",", to: &delta)
            position = match.start + match.count
            literal = position
        }
        self.appendLiteral(text[literal...], to: &delta)
        self.append(UInt64(self.checksum(of: text)), ";", to: &delta)
        return delta
    }

    /// Returns the offsets of the base's blocks by their hash values: of two blocks with the same value, the offset of the first.
    private static func blocks(of base: [UInt8]) -> [Int32] {
        var size = 16
        while size < base.count / 4 { size *= 2 }
        var blocks = [Int32](repeating: -1, count: size)
        var offset = 0
        while offset + self.blockSize <= base.count {
            let index = self.hash(base, offset, count: size)
            if blocks[index] < 0 { blocks[index] = Int32(truncatingIfNeeded: offset) }
            offset += self.blockSize
        }
        return blocks
    }

    /// Returns the index for a block in a table whose size is a power of two.
    private static func hash(_ text: [UInt8], _ offset: Int, count: Int) -> Int {
        var hash: UInt32 = 0
        for index in offset..<offset + self.blockSize { hash = (hash ^ UInt32(text[index])) &* 16_777_619 }
        return Int((hash ^ hash >> 15) & UInt32(truncatingIfNeeded: count - 1))
    }

    /// Returns what the text at a position has in common with the base, as far as possible in both directions.
    private static func match(
        _ text: [UInt8], at position: Int, since literal: Int, _ base: [UInt8], _ blocks: [Int32]
    ) -> (start: Int, offset: Int, count: Int)? {
        let offset = Int(blocks[self.hash(text, position, count: blocks.count)])
        guard offset >= 0 else { return nil }
        var (before, after) = (0, 0)
        while position + after < text.count, offset + after < base.count, text[position + after] == base[offset + after] { after += 1 }
        guard after >= self.blockSize else { return nil }
        while position - before > literal, offset > before, text[position - before - 1] == base[offset - before - 1] { before += 1 }
        return (position - before, offset - before, before + after)
    }

    private static func appendLiteral(_ text: ArraySlice<UInt8>, to delta: inout [UInt8]) {
        guard !text.isEmpty else { return }
        self.append(UInt64(text.count), ":", to: &delta)
        delta += text
    }

    private static func append(_ number: UInt64, _ end: Unicode.Scalar, to delta: inout [UInt8]) {
        let digits = ("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~" as StaticString).utf8Start
        var shift = 30
        while shift > 0, number >> shift == 0 { shift -= 6 }
        while shift >= 0 {
            delta.append(digits[Int(number >> shift & 63)])
            shift -= 6
        }
        delta.append(UInt8(ascii: end))
    }
}
