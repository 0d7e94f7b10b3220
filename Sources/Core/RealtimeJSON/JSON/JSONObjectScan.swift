/// The members that a scan looks for: at most eight, made once and kept.
package struct JSONKeys: Sendable {
    fileprivate struct Key: Sendable {
        /// The first eight bytes, those behind a shorter name zero.
        var word: UInt64
        var name: StaticString
    }

    fileprivate let keys: [Key]

    package init(_ names: StaticString...) {
        precondition(names.count <= 8, "a scan finds at most eight members")
        self.keys = names.map { name in
            precondition(name.hasPointerRepresentation)
            var word: UInt64 = 0
            for index in 0..<min(8, name.utf8CodeUnitCount) { word |= UInt64(name.utf8Start[index]) << (8 * index) }
            return Key(word: word, name: name)
        }
    }

    @inline(__always)
    fileprivate func index(_ bytes: UnsafeRawBufferPointer, _ key: (kind: JSONKind, offset: Int, length: Int)) -> Int? {
        if key.kind == .escapedString {
            return self.indexOfEscaped(UnsafeRawBufferPointer(rebasing: bytes[key.offset..<key.offset + key.length]))
        }
        let start = bytes.baseAddress.unsafelyUnwrapped.assumingMemoryBound(to: UInt8.self) + key.offset
        let word: UInt64
        if key.offset &+ 8 <= bytes.count {
            let shift = key.length >= 8 ? 0 : UInt64(64 &- 8 &* key.length)
            word = key.length == 0 ? 0 : (JSONBytes.load(start) &<< shift) &>> shift
        } else {
            var bytewise: UInt64 = 0
            for index in 0..<min(8, key.length) { bytewise |= UInt64(start[index]) &<< UInt64(8 &* index) }
            word = bytewise
        }
        for index in 0..<self.keys.count {
            let wanted = self.keys[index]
            if wanted.word == word, wanted.name.utf8CodeUnitCount == key.length,
                key.length <= 8 || JSONBytes.equal(start, wanted.name.utf8Start, key.length)
            {
                return index
            }
        }
        return nil
    }

    private func indexOfEscaped(_ raw: UnsafeRawBufferPointer) -> Int? {
        let name = JSONText.unescapedBytes(raw)
        return self.keys.firstIndex { wanted in
            wanted.name.utf8CodeUnitCount == name.count && wanted.name.withUTF8Buffer { $0.elementsEqual(name) }
        }
    }
}

/// A raw value's place. Offset and length of a string are those between its quotes.
package struct JSONSlice: Hashable, Sendable {
    package var kind: JSONKind
    package var offset: Int
    package var length: Int

    package var range: Range<Int> { self.offset..<self.offset + self.length }

    package static let missing = JSONSlice(kind: .missing, offset: 0, length: 0)
}

/// Where the wanted members of one object are: a table of fixed size that is filled without allocating.
///
/// The whole document is checked on the way, what is skipped too. Of a member that is there twice the last one counts.
/// It is one call that is not generic, so that the loop stays in this module.
package struct JSONObjectScan: Sendable {
    private var offsets = SIMD8<UInt32>()
    private var lengths = SIMD8<UInt32>()
    private var kinds = SIMD8<UInt8>()

    /// - Parameters:
    ///   - isUTF8: the bytes are known to be UTF-8, as WebSocket text is, and are not checked again.
    ///   - keys: what to look for; a member's place in the table is its name's place in the list.
    package init(
        _ bytes: UnsafeRawBufferPointer, keys: JSONKeys, isUTF8: Bool = false, limits: JSONLimits = JSONLimits()
    ) throws(JSONError) {
        var scanner = try JSONScanner(bytes, isUTF8: isUTF8, limits: limits)
        guard try scanner.next() == UInt8(ascii: "{") else { throw Self.noObject(bytes, isUTF8: isUTF8, limits: limits) }
        guard limits.depth > 0 else { throw JSONError(.tooDeep, at: scanner.position) }
        scanner.take()
        if try scanner.next() == UInt8(ascii: "}") {
            scanner.take()
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
                scanner.take()
                continue
            }
            guard byte == UInt8(ascii: "}") else { throw scanner.unexpected() }
            scanner.take()
            try scanner.finish()
            return
        }
    }

    /// The member by its name's place in the list of wanted ones; of kind ``JSONKind/missing`` when it is not there.
    package subscript(index: Int) -> JSONSlice {
        JSONSlice(
            kind: JSONKind(rawValue: self.kinds[index]) ?? .missing, offset: Int(self.offsets[index]), length: Int(self.lengths[index]))
    }

    @inline(__always)
    private static func value(_ scanner: inout JSONScanner) throws(JSONError) -> JSONSlice {
        let first = try scanner.next()
        let start = scanner.position
        let kind: JSONKind
        switch first {
        case UInt8(ascii: "\""):
            scanner.take()
            let string = try scanner.string()
            return JSONSlice(kind: string.kind, offset: string.offset, length: string.length)
        case UInt8(ascii: "{"), UInt8(ascii: "["):
            kind = first == UInt8(ascii: "{") ? .object : .array
            try Self.skip(&scanner)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): kind = try scanner.number()
        default: kind = try scanner.word(first)
        }
        return JSONSlice(kind: kind, offset: start, length: scanner.position &- start)
    }

    @inline(never)
    private static func skip(_ scanner: inout JSONScanner) throws(JSONError) {
        var nothing = JSONNoSink()
        try scanner.value(into: &nothing, depth: 1)
    }

    /// Text that is not JSON at all is told as such; only a sound value of another kind is "not an object".
    private static func noObject(_ bytes: UnsafeRawBufferPointer, isUTF8: Bool, limits: JSONLimits) -> JSONError {
        do throws(JSONError) {
            try JSONText.validate(bytes, isUTF8: isUTF8, limits: limits)
            return JSONError(.notAnObject, at: 0)
        } catch {
            return error
        }
    }
}
