import RealtimeSystem

extension [UInt8] {
    /// Appends text, in which invalid UTF-8 is replaced by U+FFFD as `String(decoding:as:)` does: one for each maximal part of a sequence.
    ///
    /// The standard library takes 60 nanoseconds for an invalid byte, so that a large body of them would keep everything else waiting.
    package mutating func append(repairing text: UnsafeRawBufferPointer) {
        if text.isASCII { return self.append(copying: text) }
        var (count, problems) = (text.count, 0)
        text.forEachInvalidPart {
            count -= $1 - $0; problems += 1
        }
        if problems == 0 { return self.append(copying: text) }
        self.append(addingCapacity: count + 3 * problems) { span in
            span.withUnsafeMutableBufferPointer { buffer, initialized in
                guard var target = UnsafeMutableRawPointer(buffer.baseAddress), let source = text.baseAddress else { return }
                var start = 0
                func copy(to end: Int) {
                    target.copyMemory(from: source + start, byteCount: end - start)
                    target += end - start
                }
                text.forEachInvalidPart { first, end in
                    if start < first { copy(to: first) }
                    target.storeBytes(of: 0xEF, as: UInt8.self)
                    target.storeBytes(of: 0xBF, toByteOffset: 1, as: UInt8.self)
                    target.storeBytes(of: 0xBD, toByteOffset: 2, as: UInt8.self)
                    target += 3
                    start = end
                }
                if start < text.count { copy(to: text.count) }
                initialized = count + 3 * problems
            }
        }
    }

    /// Appends bytes faster than `append(contentsOf:)`, which is generic.
    mutating func append(copying bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, !bytes.isEmpty else { return }
        self.append(addingCapacity: bytes.count) { span in
            span.withUnsafeMutableBufferPointer { buffer, initialized in
                guard let target = UnsafeMutableRawPointer(buffer.baseAddress) else { return }
                target.copyMemory(from: source, byteCount: bytes.count)
                initialized = bytes.count
            }
        }
    }
}

extension UnsafeRawBufferPointer {
    /// Calls a closure with the start and the end of each part that isn't valid UTF-8.
    @inline(__always)
    fileprivate func forEachInvalidPart(_ body: (Int, Int) -> Void) {
        var index = 0
        while index < self.count {
            let byte = self[index]
            guard byte >= 0x80 else {
                index &+= 1
                continue
            }
            let (end, isValid) = UTF8Sequence(byte).end(in: self, after: index)
            if !isValid { body(index, end) }
            index = end
        }
    }

    /// Without an early exit, this is compiled to vector instructions.
    var isASCII: Bool {
        var all: UInt8 = 0
        for byte in self { all |= byte }
        return all < 0x80
    }
}

/// The bytes that may follow the first one of a sequence that isn't ASCII. Table 3-7 of the Unicode standard lists the valid sequences.
private struct UTF8Sequence {
    /// The number of further bytes; 0 if none begins a sequence with this byte.
    private let missing: Int
    /// The valid range of the second byte.
    private let second: ClosedRange<UInt8>

    @inline(__always)
    init(_ first: UInt8) {
        switch first {
        // Most of the bytes in what isn't text.
        case ..<0xC2, 0xF5...: (self.missing, self.second) = (0, 0x80...0xBF)
        case 0xC2...0xDF: (self.missing, self.second) = (1, 0x80...0xBF)
        case 0xE0: (self.missing, self.second) = (2, 0xA0...0xBF)
        case 0xED: (self.missing, self.second) = (2, 0x80...0x9F)
        case 0xE1...0xEF: (self.missing, self.second) = (2, 0x80...0xBF)
        case 0xF0: (self.missing, self.second) = (3, 0x90...0xBF)
        case 0xF1...0xF3: (self.missing, self.second) = (3, 0x80...0xBF)
        default: (self.missing, self.second) = (3, 0x80...0x8F)
        }
    }

    /// Returns the end of the sequence, or of the longest valid part of one.
    ///
    /// - Parameter index: The index of the first byte.
    @inline(__always)
    func end(in text: UnsafeRawBufferPointer, after index: Int) -> (end: Int, isValid: Bool) {
        var (range, next) = (self.second, index + 1)
        while next <= index + self.missing {
            guard next < text.count, range.contains(text[next]) else { return (next, false) }
            range = 0x80...0xBF
            next += 1
        }
        return (next, self.missing > 0)
    }
}
