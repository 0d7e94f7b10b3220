import RealtimeCoding

/// Reads and writes the format of the parser `binary`, which resembles MessagePack, but isn't.
///
/// Source: the npm package `binary-pack` 0.0.4.
enum BinaryPack {
    private enum Format {
        static let null: UInt8 = 0xC0
        static let undefined: UInt8 = 0xC1
    }

    /// Writes a value. Integers beyond 32 bits are floating-point numbers, because the decoder of Node fails on those with 64 bits.
    static func append(_ value: PrimusValue, to output: inout [UInt8]) throws(PrimusParserError) {
        switch value {
        case .null: output.append(Format.null)
        case .bool(let value): output.append(value ? 0xC3 : 0xC2)
        case .int(let value): self.append(value, to: &output)
        case .double(let value): self.append(0xCB, value.bitPattern, to: &output)
        case .string(let value):
            self.append(length: value.utf8.count, 0xB0, 0xD8, 0xD9, to: &output)
            output.append(contentsOf: value.utf8)
        case .bytes(let bytes):
            self.append(length: bytes.count, 0xA0, 0xDA, 0xDB, to: &output)
            output.append(contentsOf: bytes)
        case .array(let values):
            self.append(length: values.count, 0x90, 0xDC, 0xDD, to: &output)
            for value in values { try self.append(value, to: &output) }
        case .object(let object):
            self.append(length: object.count, 0x80, 0xDE, 0xDF, to: &output)
            for member in object.members {
                try self.append(.string(member.key), to: &output)
                try self.append(member.value, to: &output)
            }
        case .date(let date):
            guard let text = date.text else { throw self.unsupported("the date \(date.milliseconds)") }
            try self.append(.string(text), to: &output)
        case .expression: throw self.unsupported("a regular expression")
        case .typed(let name, _): throw self.unsupported("a value of the type \"\(name)\"")
        case .extended(let type, _): throw self.unsupported("the extension value of type \(type)")
        }
    }

    private static func unsupported(_ kind: String) -> PrimusParserError {
        PrimusParserError(.unsupportedValue, "The parser binary can't carry \(kind).")
    }

    private static func append(_ value: Int64, to output: inout [UInt8]) {
        switch value {
        case 0...0x7F: output.append(UInt8(value))
        case -32..<0: output.append(UInt8(bitPattern: Int8(value)))
        case 0x80...0xFF: self.append(0xCC, UInt8(value), to: &output)
        case 0x100...0xFFFF: self.append(0xCD, UInt16(value), to: &output)
        case 0x1_0000...0xFFFF_FFFF: self.append(0xCE, UInt32(value), to: &output)
        case -0x80 ..< -32: self.append(0xD0, UInt8(bitPattern: Int8(value)), to: &output)
        case -0x8000 ..< -0x80: self.append(0xD1, UInt16(bitPattern: Int16(value)), to: &output)
        case -0x8000_0000 ..< -0x8000: self.append(0xD2, UInt32(bitPattern: Int32(value)), to: &output)
        default: self.append(0xCB, Double(value).bitPattern, to: &output)
        }
    }

    private static func append<Number: FixedWidthInteger>(_ format: UInt8, _ value: Number, to output: inout [UInt8]) {
        output.append(format)
        for shift in stride(from: Number.bitWidth - 8, through: 0, by: -8) {
            output.append(UInt8(truncatingIfNeeded: value >> Number(shift)))
        }
    }

    /// Appends a length: up to 15 in the format byte, or in two or four bytes.
    private static func append(length: Int, _ short: UInt8, _ two: UInt8, _ four: UInt8, to output: inout [UInt8]) {
        if length <= 15 {
            output.append(short | UInt8(length))
        } else if let length = UInt16(exactly: length) {
            self.append(two, length, to: &output)
        } else {
            precondition(length <= UInt32.max, "A value of a packet has at most 4,294,967,295 bytes or elements.")
            self.append(four, UInt32(length), to: &output)
        }
    }

    /// Reads a packet.
    ///
    /// - Throws: `PrimusParserError` if the bytes are invalid or exceed the limits.
    static func value(_ bytes: UnsafeRawBufferPointer, limits: CodingLimits) throws(PrimusParserError) -> PrimusValue {
        var reader = try Reader(bytes, limits)
        let value = try reader.value(depth: limits.depth)
        try reader.finish()
        return value
    }

    /// Reads a packet as nodes, from which a type is decoded without a tree. They are the same as those of the tree.
    ///
    /// - Returns: The nodes; `nil` if a key can't be a node as it is.
    /// - Throws: `PrimusParserError` if the bytes are invalid or exceed the limits.
    static func nodes(_ bytes: UnsafeRawBufferPointer, limits: CodingLimits) throws(PrimusParserError) -> NodeList? {
        var reader = try Reader(bytes, limits)
        var nodes = NodeList(expectedCount: bytes.count / 8)
        guard try reader.append(to: &nodes, depth: limits.depth) else { return nil }
        try reader.finish()
        return nodes
    }

    /// A value, or the beginning of an array or object.
    private enum Item {
        case null
        case bool(Bool)
        case int(Int64)
        case double(Double)
        case string(Range<Int>)
        case bytes(Range<Int>)
        case array(count: Int)
        case object(count: Int)

        /// A whole number is an integer, as in ``PrimusValue``.
        static func number(_ value: Double) -> Item {
            if case .int(let value) = PrimusValue.number(value) { .int(value) } else { .double(value) }
        }
    }

    private struct Reader {
        let bytes: UnsafeRawBufferPointer
        var position = 0

        init(_ bytes: UnsafeRawBufferPointer, _ limits: CodingLimits) throws(PrimusParserError) {
            guard bytes.count <= limits.size else {
                throw PrimusParserError(.limitExceeded, "The packet has \(bytes.count) bytes, which is more than \(limits.size).")
            }
            self.bytes = bytes
        }

        func finish() throws(PrimusParserError) {
            guard self.position == self.bytes.count else { throw self.invalid("bytes follow the value") }
        }

        func invalid(_ problem: String) -> PrimusParserError {
            PrimusParserError(.invalidPacket, "The packet isn't valid for the parser binary: at byte \(self.position), \(problem).")
        }

        private mutating func load<Number: FixedWidthInteger>(_ type: Number.Type) throws(PrimusParserError) -> Number {
            guard Number.bitWidth / 8 <= self.bytes.count - self.position else { throw self.invalid("a number is cut off") }
            defer { self.position += Number.bitWidth / 8 }
            return Number(bigEndian: self.bytes.loadUnaligned(fromByteOffset: self.position, as: type))
        }

        private mutating func next() throws(PrimusParserError) -> Item {
            let format = try self.load(UInt8.self)
            switch format {
            case 0x00...0x7F: return .int(Int64(format))
            case 0x80...0x8F: return .object(count: Int(format & 0x0F))
            case 0x90...0x9F: return .array(count: Int(format & 0x0F))
            case 0xA0...0xAF: return .bytes(try self.data(Int(format & 0x0F)))
            case 0xB0...0xBF: return .string(try self.data(Int(format & 0x0F)))
            case Format.null, Format.undefined: return .null
            case 0xC2: return .bool(false)
            case 0xC3: return .bool(true)
            case 0xCA: return .number(Double(Float(bitPattern: try self.load(UInt32.self))))
            case 0xCB: return .number(Double(bitPattern: try self.load(UInt64.self)))
            case 0xCC: return .int(Int64(try self.load(UInt8.self)))
            case 0xCD: return .int(Int64(try self.load(UInt16.self)))
            case 0xCE: return .int(Int64(try self.load(UInt32.self)))
            case 0xCF:
                let value = try self.load(UInt64.self)
                return Int64(exactly: value).map { .int($0) } ?? .double(Double(value))
            case 0xD0: return .int(Int64(try self.load(Int8.self)))
            case 0xD1: return .int(Int64(try self.load(Int16.self)))
            case 0xD2: return .int(Int64(try self.load(Int32.self)))
            case 0xD3: return .int(try self.load(Int64.self))
            case 0xD8: return .string(try self.data(Int(try self.load(UInt16.self))))
            case 0xD9: return .string(try self.data(Int(try self.load(UInt32.self))))
            case 0xDA: return .bytes(try self.data(Int(try self.load(UInt16.self))))
            case 0xDB: return .bytes(try self.data(Int(try self.load(UInt32.self))))
            case 0xDC: return .array(count: Int(try self.load(UInt16.self)))
            case 0xDD: return .array(count: Int(try self.load(UInt32.self)))
            case 0xDE: return .object(count: Int(try self.load(UInt16.self)))
            case 0xDF: return .object(count: Int(try self.load(UInt32.self)))
            case 0xE0...0xFF: return .int(Int64(Int8(bitPattern: format)))
            default:
                self.position -= 1
                throw self.invalid("no value begins with the byte \(format)")
            }
        }

        private mutating func data(_ count: Int) throws(PrimusParserError) -> Range<Int> {
            guard count <= self.bytes.count - self.position else { throw self.invalid("a value of \(count) bytes is cut off") }
            defer { self.position += count }
            return self.position..<self.position + count
        }

        private func text(_ range: Range<Int>) -> String { String(decoding: self.bytes[range], as: UTF8.self) }

        /// Checks the depth, and that there are enough bytes for a number of elements, before memory is allocated for them.
        private func check(_ count: Int, size: Int, _ depth: Int) throws(PrimusParserError) {
            guard depth > 0 else {
                throw PrimusParserError(.limitExceeded, "The values of the packet are nested too deeply.")
            }
            guard count <= (self.bytes.count - self.position) / size else { throw self.invalid("an array or object is cut off") }
        }

        private var invalidKey: PrimusParserError { self.invalid("a key of an object isn't a string") }

        // MARK: Trees

        mutating func value(depth: Int) throws(PrimusParserError) -> PrimusValue {
            switch try self.next() {
            case .null: return .null
            case .bool(let value): return .bool(value)
            case .int(let value): return .int(value)
            case .double(let value): return .double(value)
            case .string(let range): return .string(self.text(range))
            case .bytes(let range): return .bytes(Array(self.bytes[range]))
            case .array(let count): return try self.array(count, depth)
            case .object(let count): return try self.object(count, depth)
            }
        }

        private mutating func array(_ count: Int, _ depth: Int) throws(PrimusParserError) -> PrimusValue {
            try self.check(count, size: 1, depth)
            var values: [PrimusValue] = []
            values.reserveCapacity(count)
            for _ in 0..<count { values.append(try self.value(depth: depth - 1)) }
            return .array(values)
        }

        private mutating func object(_ count: Int, _ depth: Int) throws(PrimusParserError) -> PrimusValue {
            try self.check(count, size: 2, depth)
            var members: [(key: String, value: PrimusValue)] = []
            members.reserveCapacity(count)
            for _ in 0..<count {
                let key =
                    switch try self.next() {
                    case .string(let range): self.text(range)
                    case .int(let number): "\(number)"
                    default: throw self.invalidKey
                    }
                members.append((key, try self.value(depth: depth - 1)))
            }
            return .object(PrimusValue.Object(members))
        }

        // MARK: Nodes

        /// - Returns: `false` if a key is a number or isn't valid UTF-8, so that only a tree has its text.
        mutating func append(to nodes: inout NodeList, depth: Int) throws(PrimusParserError) -> Bool {
            switch try self.next() {
            case .null: nodes.appendNull()
            case .bool(let value): nodes.append(value)
            case .int(let value): nodes.append(value)
            case .double(let value): nodes.append(value)
            case .string(let range): nodes.appendString(range)
            case .bytes(let range): nodes.appendBinary(range)
            case .array(let count):
                try self.check(count, size: 1, depth)
                let array = nodes.beginArray(count: count)
                for _ in 0..<count { guard try self.append(to: &nodes, depth: depth - 1) else { return false } }
                nodes.end(array)
            case .object(let count):
                try self.check(count, size: 2, depth)
                let object = nodes.beginObject(count: count)
                for _ in 0..<count {
                    guard case .string(let range) = try self.next(), nodes.appendKey(range, in: self.bytes),
                        try self.append(to: &nodes, depth: depth - 1)
                    else { return false }
                }
                nodes.end(object)
            }
            return true
        }
    }
}
