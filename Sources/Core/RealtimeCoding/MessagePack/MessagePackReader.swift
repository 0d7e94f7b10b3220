/// A reader of MessagePack that moves from value to value, for the structure of messages.
///
/// All readers of MessagePack use it, so that they accept the same bytes. After an error, the position is unspecified.
package struct MessagePackReader {
    private let bytes: UnsafeRawBufferPointer
    private let end: Int
    /// The offset of the next value.
    package private(set) var position: Int

    /// Creates a reader. The bytes must outlive it.
    ///
    /// - Parameters:
    ///   - bytes: The bytes that contain the values.
    ///   - range: The range of the values in the bytes, or `nil` for all bytes. Offsets count from the start of the bytes.
    package init(_ bytes: UnsafeRawBufferPointer, in range: Range<Int>? = nil) {
        let range = (range ?? 0..<bytes.count).clamped(to: 0..<bytes.count)
        self.bytes = bytes
        self.position = range.lowerBound
        self.end = range.upperBound
    }

    /// Whether all values have been read.
    package var isAtEnd: Bool { self.position >= self.end }

    /// Throws unless all values have been read.
    package func finish() throws(MessagePackError) {
        guard self.isAtEnd else { throw MessagePackError(.trailingContent, at: self.position) }
    }

    /// Reads the header of an array.
    ///
    /// - Returns: The number of elements, which is at most the number of bytes that follow.
    package mutating func arrayHeader() throws(MessagePackError) -> Int { Int(try self.next(.array).length) }

    /// Reads the header of a map.
    ///
    /// - Returns: The number of pairs of a key and a value, which is at most half the number of bytes that follow.
    package mutating func mapHeader() throws(MessagePackError) -> Int { Int(try self.next(.object).length) }

    /// Reads a string, replacing invalid UTF-8 by U+FFFD.
    package mutating func string() throws(MessagePackError) -> String {
        String(decoding: UnsafeRawBufferPointer(rebasing: self.bytes[try self.next(.string).range]), as: UTF8.self)
    }

    /// Reads a string or nil.
    package mutating func stringOrNil() throws(MessagePackError) -> String? { self.takeNil() ? nil : try self.string() }

    /// Reads an integer that fits into 64 bits.
    package mutating func integer() throws(MessagePackError) -> Int64 {
        let start = self.position
        let node = try self.next()
        guard node.kind == .signed else { throw MessagePackError(.unexpectedType, at: start) }
        return Int64(bitPattern: node.bits)
    }

    /// Reads a Boolean value.
    package mutating func bool() throws(MessagePackError) -> Bool {
        let start = self.position
        switch try self.next().kind {
        case .true: return true
        case .false: return false
        default: throw MessagePackError(.unexpectedType, at: start)
        }
    }

    /// Reads nil if it is the next value, and returns whether it was.
    package mutating func takeNil() -> Bool {
        guard self.position < self.end, self.bytes[self.position] == 0xC0 else { return false }
        self.position &+= 1
        return true
    }

    /// Reads a value of any kind, with its nested values, and returns the range of its bytes.
    ///
    /// Takes neither memory nor stack for nested values. Their depth is limited when they are decoded.
    @discardableResult
    package mutating func skip() throws(MessagePackError) -> Range<Int> {
        let start = self.position
        var remaining: UInt64 = 1
        repeat {
            let offset = self.position
            let node = try self.next()
            remaining &-= 1
            switch node.kind {
            case .array: remaining &+= UInt64(node.length)
            case .object: remaining &+= 2 &* UInt64(node.length)
            default: continue
            }
            // Each value takes at least one byte.
            guard remaining <= UInt64(self.end &- self.position) else { throw MessagePackError(.unexpectedEnd, at: offset) }
        } while remaining > 0
        return start..<self.position
    }

    /// Whether a value, or one in it, is an extension value, whose forms depend on the protocol. Reads up to the first one.
    package mutating func containsExtension() throws(MessagePackError) -> Bool {
        while !self.isAtEnd {
            if try self.next().kind == .ext { return true }
        }
        return false
    }

    private mutating func next(_ kind: NodeKind) throws(MessagePackError) -> CodingNode {
        let start = self.position
        let node = try self.next()
        guard node.kind == kind else { throw MessagePackError(.unexpectedType, at: start) }
        return node
    }

    /// Reads a value, or the header of an array or map.
    ///
    /// - Returns: A node whose `end` isn't set. The length of an array or map is the number of its elements or pairs, for which there
    ///   are enough bytes.
    @inline(__always)
    mutating func next() throws(MessagePackError) -> CodingNode {
        let start = self.position
        guard start < self.end else { throw MessagePackError(.unexpectedEnd, at: start) }
        let format = self.bytes[start]
        self.position = start &+ 1
        switch format {
        case 0x00...0x7F: return self.number(.signed, UInt64(format))
        case 0x80...0x8F: return try self.container(.object, UInt64(format & 0x0F), start)
        case 0x90...0x9F: return try self.container(.array, UInt64(format & 0x0F), start)
        case 0xA0...0xBF: return try self.data(.string, UInt64(format & 0x1F), start)
        case 0xC0: return self.constant(.null, start)
        case 0xC2: return self.constant(.false, start)
        case 0xC3: return self.constant(.true, start)
        case 0xC4: return try self.data(.binary, UInt64(self.load(UInt8.self, start)), start)
        case 0xC5: return try self.data(.binary, UInt64(self.load(UInt16.self, start)), start)
        case 0xC6: return try self.data(.binary, UInt64(self.load(UInt32.self, start)), start)
        case 0xC7: return try self.extensionValue(UInt64(self.load(UInt8.self, start)), start)
        case 0xC8: return try self.extensionValue(UInt64(self.load(UInt16.self, start)), start)
        case 0xC9: return try self.extensionValue(UInt64(self.load(UInt32.self, start)), start)
        case 0xCA: return self.number(.single, Double(Float(bitPattern: try self.load(UInt32.self, start))).bitPattern)
        case 0xCB: return self.number(.float, try self.load(UInt64.self, start))
        case 0xCC: return self.number(.signed, UInt64(try self.load(UInt8.self, start)))
        case 0xCD: return self.number(.signed, UInt64(try self.load(UInt16.self, start)))
        case 0xCE: return self.number(.signed, UInt64(try self.load(UInt32.self, start)))
        case 0xCF:
            let value = try self.load(UInt64.self, start)
            return self.number(value >> 63 == 0 ? .signed : .unsigned, value)
        case 0xD0: return self.number(.signed, UInt64(bitPattern: Int64(try self.load(Int8.self, start))))
        case 0xD1: return self.number(.signed, UInt64(bitPattern: Int64(try self.load(Int16.self, start))))
        case 0xD2: return self.number(.signed, UInt64(bitPattern: Int64(try self.load(Int32.self, start))))
        case 0xD3: return self.number(.signed, try self.load(UInt64.self, start))
        case 0xD4...0xD8: return try self.extensionValue(1 &<< UInt64(format &- 0xD4), start)
        case 0xD9: return try self.data(.string, UInt64(self.load(UInt8.self, start)), start)
        case 0xDA: return try self.data(.string, UInt64(self.load(UInt16.self, start)), start)
        case 0xDB: return try self.data(.string, UInt64(self.load(UInt32.self, start)), start)
        case 0xDC: return try self.container(.array, UInt64(self.load(UInt16.self, start)), start)
        case 0xDD: return try self.container(.array, UInt64(self.load(UInt32.self, start)), start)
        case 0xDE: return try self.container(.object, UInt64(self.load(UInt16.self, start)), start)
        case 0xDF: return try self.container(.object, UInt64(self.load(UInt32.self, start)), start)
        case 0xE0...0xFF: return self.number(.signed, UInt64(bitPattern: Int64(Int8(bitPattern: format))))
        default: throw MessagePackError(.invalidFormat, at: start)
        }
    }

    @inline(__always)
    private mutating func load<Value: FixedWidthInteger>(_ type: Value.Type, _ start: Int) throws(MessagePackError) -> Value {
        let size = Value.bitWidth / 8
        guard size <= self.end &- self.position else { throw MessagePackError(.unexpectedEnd, at: start) }
        defer { self.position &+= size }
        return Value(bigEndian: self.bytes.loadUnaligned(fromByteOffset: self.position, as: type))
    }

    @inline(__always)
    private func number(_ kind: NodeKind, _ bits: UInt64) -> CodingNode { CodingNode(kind: kind, bits: bits, end: 0) }

    @inline(__always)
    private func constant(_ kind: NodeKind, _ start: Int) -> CodingNode {
        CodingNode(kind: kind, offset: UInt32(truncatingIfNeeded: start), length: 1, end: 0)
    }

    @inline(__always)
    private func container(_ kind: NodeKind, _ count: UInt64, _ start: Int) throws(MessagePackError) -> CodingNode {
        // Each value takes at least one byte, so memory is never reserved for values that don't follow.
        let values = kind == .object ? count &* 2 : count
        guard values <= UInt64(self.end &- self.position) else { throw MessagePackError(.unexpectedEnd, at: start) }
        return CodingNode(kind: kind, offset: UInt32(truncatingIfNeeded: start), length: UInt32(truncatingIfNeeded: count), end: 0)
    }

    @inline(__always)
    private mutating func data(_ kind: NodeKind, _ length: UInt64, _ start: Int) throws(MessagePackError) -> CodingNode {
        guard length <= UInt64(self.end &- self.position) else { throw MessagePackError(.unexpectedEnd, at: start) }
        let offset = UInt32(truncatingIfNeeded: self.position)
        self.position &+= Int(length)
        return CodingNode(kind: kind, offset: offset, length: UInt32(truncatingIfNeeded: length), end: 0)
    }

    @inline(never)
    private mutating func extensionValue(_ length: UInt64, _ start: Int) throws(MessagePackError) -> CodingNode {
        _ = try self.load(UInt8.self, start)
        return try self.data(.ext, length, start)
    }
}

extension MessagePackReader {
    /// Finds the next element of an array of scalars.
    ///
    /// - Returns: The element and its end; `nil` if it is an array or a map, or the bytes are invalid.
    static func arrayScalar(
        _ bytes: UnsafeRawBufferPointer, at position: Int, rejectsInvalidUTF8: Bool
    ) -> (CodingNode, end: Int)? {
        do throws(MessagePackError) {
            var reader = MessagePackReader(bytes, in: position..<bytes.count)
            let node = try reader.next()
            switch node.kind {
            case .string where rejectsInvalidUTF8: return nil
            case .array, .object: return nil
            default: return (node, reader.position)
            }
        } catch {
            return nil
        }
    }
}
