/// The values of a document in another binary format, from which a ``MessagePackDecoder`` decodes types without a tree.
///
/// Values are appended in the order of the document. Strings and bytes are ranges of the document.
package struct NodeList: Sendable {
    private(set) var nodes: [CodingNode] = []

    package init(expectedCount: Int) { self.nodes.reserveCapacity(min(expectedCount + 4, 1 << 14)) }

    private var next: UInt32 { UInt32(truncatingIfNeeded: self.nodes.count &+ 1) }

    private mutating func append(_ kind: NodeKind, _ range: Range<Int>) {
        let (offset, length) = (UInt32(truncatingIfNeeded: range.lowerBound), UInt32(truncatingIfNeeded: range.count))
        self.nodes.append(CodingNode(kind: kind, offset: offset, length: length, end: self.next))
    }

    package mutating func appendNull() { self.append(.null, 0..<0) }

    package mutating func append(_ value: Bool) { self.append(value ? .true : .false, 0..<0) }

    package mutating func append(_ value: Int64) {
        self.nodes.append(CodingNode(kind: .signed, bits: UInt64(bitPattern: value), end: self.next))
    }

    package mutating func append(_ value: Double) {
        self.nodes.append(CodingNode(kind: .float, bits: value.bitPattern, end: self.next))
    }

    /// Appends a string. Invalid UTF-8 is read as U+FFFD.
    package mutating func appendString(_ range: Range<Int>) { self.append(.string, range) }

    package mutating func appendBinary(_ range: Range<Int>) { self.append(.binary, range) }

    /// Appends the key of a member, whose value follows.
    ///
    /// - Returns: Whether the key is valid UTF-8. Otherwise, it isn't appended.
    package mutating func appendKey(_ range: Range<Int>, in bytes: UnsafeRawBufferPointer) -> Bool {
        guard ByteWords.isUTF8(UnsafeRawBufferPointer(rebasing: bytes[range])) else { return false }
        self.append(.string, range)
        return true
    }

    /// Begins an array, whose elements follow.
    ///
    /// - Returns: The array, for ``end(_:)``.
    package mutating func beginArray(count: Int) -> Int { self.begin(.array, count) }

    /// Begins an object, whose keys and values follow.
    ///
    /// - Returns: The object, for ``end(_:)``.
    package mutating func beginObject(count: Int) -> Int { self.begin(.object, count) }

    private mutating func begin(_ kind: NodeKind, _ count: Int) -> Int {
        self.append(kind, 0..<count)
        return self.nodes.count - 1
    }

    /// Ends an array or object after its last value.
    package mutating func end(_ index: Int) { self.nodes[index].end = UInt32(truncatingIfNeeded: self.nodes.count) }
}
