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
        guard bytes.count <= limits.size else {
            throw PrimusParserError(.limitExceeded, "The packet has \(bytes.count) bytes, which is more than \(limits.size).")
        }
        var reader = Reader(bytes: bytes)
        let value = try reader.value(depth: limits.depth)
        guard reader.position == bytes.count else { throw reader.invalid("bytes follow the value") }
        return value
    }

    private struct Reader {
        let bytes: UnsafeRawBufferPointer
        var position = 0

        func invalid(_ problem: String) -> PrimusParserError {
            PrimusParserError(.invalidPacket, "The packet isn't valid for the parser binary: at byte \(self.position), \(problem).")
        }

        mutating func load<Number: FixedWidthInteger>(_ type: Number.Type) throws(PrimusParserError) -> Number {
            guard Number.bitWidth / 8 <= self.bytes.count - self.position else { throw self.invalid("a number is cut off") }
            defer { self.position += Number.bitWidth / 8 }
            return Number(bigEndian: self.bytes.loadUnaligned(fromByteOffset: self.position, as: type))
        }

        mutating func value(depth: Int) throws(PrimusParserError) -> PrimusValue {
            let format = try self.load(UInt8.self)
            switch format {
            case 0x00...0x7F: return .int(Int64(format))
            case 0x80...0x8F: return try self.object(Int(format & 0x0F), depth)
            case 0x90...0x9F: return try self.array(Int(format & 0x0F), depth)
            case 0xA0...0xAF: return .bytes(Array(try self.data(Int(format & 0x0F))))
            case 0xB0...0xBF: return .string(try self.text(Int(format & 0x0F)))
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
            case 0xD8: return .string(try self.text(Int(try self.load(UInt16.self))))
            case 0xD9: return .string(try self.text(Int(try self.load(UInt32.self))))
            case 0xDA: return .bytes(Array(try self.data(Int(try self.load(UInt16.self)))))
            case 0xDB: return .bytes(Array(try self.data(Int(try self.load(UInt32.self)))))
            case 0xDC: return try self.array(Int(try self.load(UInt16.self)), depth)
            case 0xDD: return try self.array(Int(try self.load(UInt32.self)), depth)
            case 0xDE: return try self.object(Int(try self.load(UInt16.self)), depth)
            case 0xDF: return try self.object(Int(try self.load(UInt32.self)), depth)
            case 0xE0...0xFF: return .int(Int64(Int8(bitPattern: format)))
            default:
                self.position -= 1
                throw self.invalid("no value begins with the byte \(format)")
            }
        }

        private mutating func data(_ count: Int) throws(PrimusParserError) -> UnsafeRawBufferPointer {
            guard count <= self.bytes.count - self.position else { throw self.invalid("a value of \(count) bytes is cut off") }
            defer { self.position += count }
            return UnsafeRawBufferPointer(rebasing: self.bytes[self.position..<self.position + count])
        }

        private mutating func text(_ count: Int) throws(PrimusParserError) -> String {
            String(decoding: try self.data(count), as: UTF8.self)
        }

        /// Checks the depth, and that there are enough bytes for a number of elements, before memory is allocated for them.
        private func check(_ count: Int, size: Int, _ depth: Int) throws(PrimusParserError) {
            guard depth > 0 else {
                throw PrimusParserError(.limitExceeded, "The values of the packet are nested too deeply.")
            }
            guard count <= (self.bytes.count - self.position) / size else { throw self.invalid("an array or object is cut off") }
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
                    switch try self.value(depth: 0) {
                    case .string(let text): text
                    case .int(let number): "\(number)"
                    default: throw self.invalid("a key of an object isn't a string")
                    }
                members.append((key, try self.value(depth: depth - 1)))
            }
            return .object(PrimusValue.Object(members))
        }
    }
}
