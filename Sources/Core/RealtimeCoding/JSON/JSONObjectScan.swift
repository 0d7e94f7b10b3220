/// The keys that a ``JSONObjectScan`` searches for: at most eight. Create the value once and keep it.
package struct JSONKeys: Sendable {
    fileprivate struct Key: Sendable {
        /// The first eight bytes of the name, padded with zeros.
        var word: UInt64
        var name: StaticString
    }

    fileprivate let keys: [Key]

    package init(_ names: StaticString...) {
        precondition(names.count <= 8, "A scan supports at most eight keys.")
        self.keys = names.map { name in
            precondition(name.hasPointerRepresentation)
            var word: UInt64 = 0
            for index in 0..<min(8, name.utf8CodeUnitCount) { word |= UInt64(name.utf8Start[index]) << (8 * index) }
            return Key(word: word, name: name)
        }
    }

    @inline(__always)
    fileprivate func index(_ bytes: UnsafeRawBufferPointer, _ key: (kind: NodeKind, offset: Int, length: Int)) -> Int? {
        if key.kind == .escapedString {
            return self.indexOfEscaped(UnsafeRawBufferPointer(rebasing: bytes[key.offset..<key.offset + key.length]))
        }
        let start = bytes.baseAddress.unsafelyUnwrapped.assumingMemoryBound(to: UInt8.self) + key.offset
        let word: UInt64
        if key.offset &+ 8 <= bytes.count {
            let shift = key.length >= 8 ? 0 : UInt64(64 &- 8 &* key.length)
            word = key.length == 0 ? 0 : (ByteWords.load(start) &<< shift) &>> shift
        } else {
            var bytewise: UInt64 = 0
            for index in 0..<min(8, key.length) { bytewise |= UInt64(start[index]) &<< UInt64(8 &* index) }
            word = bytewise
        }
        for index in 0..<self.keys.count {
            let candidate = self.keys[index]
            if candidate.word == word, candidate.name.utf8CodeUnitCount == key.length,
                key.length <= 8 || ByteWords.equal(start, candidate.name.utf8Start, key.length)
            {
                return index
            }
        }
        return nil
    }

    private func indexOfEscaped(_ raw: UnsafeRawBufferPointer) -> Int? {
        let name = JSONText.unescapedBytes(raw)
        return self.keys.firstIndex { candidate in
            candidate.name.utf8CodeUnitCount == name.count && candidate.name.withUTF8Buffer { $0.elementsEqual(name) }
        }
    }
}

/// The position of a value in a text. For a string, the range between its quotes.
package struct JSONSlice: Hashable, Sendable {
    package var kind: NodeKind
    package var offset: Int
    package var length: Int

    package var range: Range<Int> { self.offset..<self.offset + self.length }

    package static let missing = JSONSlice(kind: .missing, offset: 0, length: 0)
}

/// The positions of an object's members for a set of keys, in a table of fixed size that needs no allocation.
///
/// The scan validates the whole text, including the values that it skips. If a key is repeated, the last value is found.
///
/// The initializer is not generic, so that the loop is specialized in this module.
package struct JSONObjectScan: Sendable {
    private var offsets = SIMD8<UInt32>()
    private var lengths = SIMD8<UInt32>()
    private var kinds = SIMD8<UInt8>()

    /// Scans a JSON object.
    ///
    /// - Parameters:
    ///   - bytes: The text of the object.
    ///   - keys: The keys to search for. A member has the same index in this table as its key in the list.
    ///   - isUTF8: Whether the bytes are known to be valid UTF-8, as WebSocket text is. They are not validated again.
    ///   - limits: The limits on the text.
    /// - Throws: ``JSONError`` if the text is not JSON, not an object, or exceeds the limits.
    package init(
        _ bytes: UnsafeRawBufferPointer, keys: JSONKeys, isUTF8: Bool = false, limits: CodingLimits = CodingLimits()
    ) throws(JSONError) {
        var scanner = try JSONScanner(bytes, isUTF8: isUTF8, limits: limits)
        guard try scanner.next() == UInt8(ascii: "{") else { throw Self.notAnObject(bytes, isUTF8: isUTF8, limits: limits) }
        guard limits.depth > 0 else { throw JSONError(.tooDeep, at: scanner.position) }
        scanner.advance()
        if try scanner.next() == UInt8(ascii: "}") {
            scanner.advance()
            try scanner.finish()
            return
        }
        while true {
            let key = try scanner.key()
            let slice = try Self.value(&scanner)
            if let index = keys.index(bytes, key) {
                self.offsets[index] = UInt32(truncatingIfNeeded: slice.offset)
                self.lengths[index] = UInt32(truncatingIfNeeded: slice.length)
                self.kinds[index] = slice.kind.rawValue
            }
            let byte = try scanner.next()
            if byte == UInt8(ascii: ",") {
                scanner.advance()
                continue
            }
            guard byte == UInt8(ascii: "}") else { throw scanner.unexpected() }
            scanner.advance()
            try scanner.finish()
            return
        }
    }

    /// The value for the key with this index. Its kind is ``NodeKind/missing`` if the object does not have the key.
    package subscript(index: Int) -> JSONSlice {
        JSONSlice(
            kind: NodeKind(rawValue: self.kinds[index]) ?? .missing, offset: Int(self.offsets[index]), length: Int(self.lengths[index]))
    }

    @inline(__always)
    private static func value(_ scanner: inout JSONScanner) throws(JSONError) -> JSONSlice {
        let first = try scanner.next()
        let start = scanner.position
        let kind: NodeKind
        switch first {
        case UInt8(ascii: "\""):
            scanner.advance()
            let string = try scanner.string()
            return JSONSlice(kind: string.kind, offset: string.offset, length: string.length)
        case UInt8(ascii: "{"), UInt8(ascii: "["):
            kind = first == UInt8(ascii: "{") ? .object : .array
            try Self.skip(&scanner)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): kind = try scanner.number()
        default: kind = try scanner.literal(first)
        }
        return JSONSlice(kind: kind, offset: start, length: scanner.position &- start)
    }

    @inline(never)
    private static func skip(_ scanner: inout JSONScanner) throws(JSONError) {
        var sink = JSONNullSink()
        try scanner.value(into: &sink, depth: 1)
    }

    /// Returns the error for text that is not an object: the syntax error, if there is one.
    private static func notAnObject(_ bytes: UnsafeRawBufferPointer, isUTF8: Bool, limits: CodingLimits) -> JSONError {
        do throws(JSONError) {
            try JSONText.validate(bytes, isUTF8: isUTF8, limits: limits)
            return JSONError(.notAnObject, at: 0)
        } catch {
            return error
        }
    }
}
