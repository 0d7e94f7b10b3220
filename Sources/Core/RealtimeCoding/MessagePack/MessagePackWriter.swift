/// Writes MessagePack to an array of bytes, in the shortest form of each value.
///
/// The caller must write as many values after the header of an array or map as it announces.
package struct MessagePackWriter {
    package var bytes: [UInt8]

    /// Creates a writer that appends to `bytes`, such as an array that is reused for its capacity.
    package init(_ bytes: [UInt8] = []) {
        self.bytes = bytes
    }

    /// Writes the header of an array. Its elements follow.
    package mutating func arrayHeader(_ count: Int) { Self.append(arrayHeader: count, to: &self.bytes) }

    /// Writes the header of a map. A key and a value for each of its members follow.
    package mutating func mapHeader(_ count: Int) { Self.append(mapHeader: count, to: &self.bytes) }

    package mutating func null() { self.bytes.append(0xC0) }
    package mutating func value(_ value: Bool) { self.bytes.append(value ? 0xC3 : 0xC2) }
    package mutating func value(_ value: String) { Self.append(value, to: &self.bytes) }
    package mutating func value(_ value: Int) { Self.append(Int64(value), to: &self.bytes) }
    package mutating func value(_ value: Int64) { Self.append(value, to: &self.bytes) }
    package mutating func value(_ value: UInt64) { Self.append(value, to: &self.bytes) }
    package mutating func value(_ value: Double) { Self.append(value, to: &self.bytes) }
    package mutating func value(_ value: Float) { Self.append(value, to: &self.bytes) }
    package mutating func value(_ value: MessagePackValue) { value.write(to: &self.bytes) }

    /// Writes bytes as a binary value.
    package mutating func binary(_ bytes: [UInt8]) { bytes.withUnsafeBytes { Self.append(binary: $0, to: &self.bytes) } }

    /// Writes an extension value.
    package mutating func ext(_ type: Int8, _ data: [UInt8]) { Self.append(ext: type, data, to: &self.bytes) }

    /// Writes a timestamp, in the shortest of its three forms.
    package mutating func value(_ value: MessagePackTimestamp) { Self.append(value, to: &self.bytes) }

    /// Writes a value that is MessagePack already, without validating it.
    package mutating func raw(_ messagePack: [UInt8]) { self.bytes.append(contentsOf: messagePack) }

    /// Writes a value that is MessagePack already, without validating it.
    package mutating func raw(_ messagePack: ArraySlice<UInt8>) { self.bytes.append(contentsOf: messagePack) }
}

extension MessagePackWriter {
    /// Appends a format byte and a number after it.
    @inline(__always)
    private static func append<Value: FixedWidthInteger>(_ format: UInt8, _ value: Value, to output: inout [UInt8]) {
        output.append(addingCapacity: 1 + Value.bitWidth / 8) { span in
            span.withUnsafeMutableBufferPointer { buffer, initialized in
                guard let target = UnsafeMutableRawPointer(buffer.baseAddress) else { return }
                target.storeBytes(of: format, as: UInt8.self)
                target.storeBytes(of: value.bigEndian, toByteOffset: 1, as: Value.self)
                initialized = 1 + Value.bitWidth / 8
            }
        }
    }

    @inline(__always)
    static func append(_ value: Int64, to output: inout [UInt8]) {
        if value >= 0 { return self.append(UInt64(bitPattern: value), to: &output) }
        if value >= -32 { return output.append(UInt8(truncatingIfNeeded: value)) }
        self.append(negative: value, to: &output)
    }

    private static func append(negative value: Int64, to output: inout [UInt8]) {
        if let value = Int8(exactly: value) {
            self.append(0xD0, value, to: &output)
        } else if let value = Int16(exactly: value) {
            self.append(0xD1, value, to: &output)
        } else if let value = Int32(exactly: value) {
            self.append(0xD2, value, to: &output)
        } else {
            self.append(0xD3, value, to: &output)
        }
    }

    @inline(__always)
    static func append(_ value: UInt64, to output: inout [UInt8]) {
        if value <= 0x7F { return output.append(UInt8(truncatingIfNeeded: value)) }
        self.append(large: value, to: &output)
    }

    private static func append(large value: UInt64, to output: inout [UInt8]) {
        if let value = UInt8(exactly: value) {
            self.append(0xCC, value, to: &output)
        } else if let value = UInt16(exactly: value) {
            self.append(0xCD, value, to: &output)
        } else if let value = UInt32(exactly: value) {
            self.append(0xCE, value, to: &output)
        } else {
            self.append(0xCF, value, to: &output)
        }
    }

    static func append(_ value: Double, to output: inout [UInt8]) { self.append(0xCB, value.bitPattern, to: &output) }

    static func append(_ value: Float, to output: inout [UInt8]) { self.append(0xCA, value.bitPattern, to: &output) }

    static func append(_ value: String, to output: inout [UInt8]) {
        var value = value
        value.withUTF8 { self.append(string: UnsafeRawBufferPointer($0), to: &output) }
    }

    static func append(string utf8: UnsafeRawBufferPointer, to output: inout [UInt8]) {
        guard utf8.count <= 31 else {
            self.append(length: utf8.count, 0xD9, 0xDA, 0xDB, to: &output)
            return output.append(contentsOf: utf8)
        }
        // Most strings are short, and most of the time is spent on them.
        output.append(addingCapacity: 1 &+ utf8.count) { span in
            span.withUnsafeMutableBufferPointer { buffer, initialized in
                guard let target = UnsafeMutableRawPointer(buffer.baseAddress) else { return }
                target.storeBytes(of: 0xA0 | UInt8(truncatingIfNeeded: utf8.count), as: UInt8.self)
                if let source = utf8.baseAddress { (target + 1).copyMemory(from: source, byteCount: utf8.count) }
                initialized = 1 &+ utf8.count
            }
        }
    }

    static func append(binary bytes: UnsafeRawBufferPointer, to output: inout [UInt8]) {
        self.append(length: bytes.count, 0xC4, 0xC5, 0xC6, to: &output)
        output.append(contentsOf: bytes)
    }

    static func append(ext type: Int8, _ data: [UInt8], to output: inout [UInt8]) {
        switch data.count {
        case 1, 2, 4, 8, 16: output.append(0xD4 + UInt8(truncatingIfNeeded: data.count.trailingZeroBitCount))
        default: self.append(length: data.count, 0xC7, 0xC8, 0xC9, to: &output)
        }
        output.append(UInt8(bitPattern: type))
        output.append(contentsOf: data)
    }

    static func append(_ timestamp: MessagePackTimestamp, to output: inout [UInt8]) {
        self.append(ext: MessagePackTimestamp.type, timestamp.data, to: &output)
    }

    static func append(arrayHeader count: Int, to output: inout [UInt8]) {
        if count <= 15 { return output.append(0x90 | UInt8(truncatingIfNeeded: count)) }
        self.append(length: count, nil, 0xDC, 0xDD, to: &output)
    }

    static func append(mapHeader count: Int, to output: inout [UInt8]) {
        if count <= 15 { return output.append(0x80 | UInt8(truncatingIfNeeded: count)) }
        self.append(length: count, nil, 0xDE, 0xDF, to: &output)
    }

    /// Appends a length in one, two or four bytes, after the format byte for that size.
    private static func append(length: Int, _ one: UInt8?, _ two: UInt8, _ four: UInt8, to output: inout [UInt8]) {
        if let one, let length = UInt8(exactly: length) {
            self.append(one, length, to: &output)
        } else if let length = UInt16(exactly: length) {
            self.append(two, length, to: &output)
        } else if let length = UInt32(exactly: length) {
            self.append(four, length, to: &output)
        } else {
            preconditionFailure("A value of MessagePack has at most 4,294,967,295 bytes or elements.")
        }
    }
}
