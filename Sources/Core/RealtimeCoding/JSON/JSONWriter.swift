/// Writes compact JSON to an array of bytes.
///
/// The writer inserts commas. The caller must write a key before each value in an object, and close the objects and arrays it opens.
package struct JSONWriter {
    package var bytes: [UInt8]
    private var needsComma = false

    /// Creates a writer that appends to `bytes`, such as an array that is reused for its capacity.
    package init(_ bytes: [UInt8] = []) {
        self.bytes = bytes
    }

    @inline(__always)
    private mutating func separate() {
        if self.needsComma { self.bytes.append(UInt8(ascii: ",")) }
        self.needsComma = true
    }

    package mutating func beginObject() {
        self.separate()
        self.bytes.append(UInt8(ascii: "{"))
        self.needsComma = false
    }

    package mutating func endObject() {
        self.bytes.append(UInt8(ascii: "}"))
        self.needsComma = true
    }

    package mutating func beginArray() {
        self.separate()
        self.bytes.append(UInt8(ascii: "["))
        self.needsComma = false
    }

    package mutating func endArray() {
        self.bytes.append(UInt8(ascii: "]"))
        self.needsComma = true
    }

    /// Writes a key.
    package mutating func key(_ name: String) {
        self.separate()
        Self.append(key: name, to: &self.bytes)
        self.needsComma = false
    }

    /// Writes a key that contains no characters to escape.
    package mutating func key(_ name: StaticString) {
        self.separate()
        self.bytes.append(UInt8(ascii: "\""))
        Self.append(literal: name, to: &self.bytes)
        self.bytes.append(UInt8(ascii: "\""))
        self.bytes.append(UInt8(ascii: ":"))
        self.needsComma = false
    }

    package mutating func null() {
        self.separate()
        Self.append(literal: "null", to: &self.bytes)
    }

    package mutating func value(_ value: Bool) {
        self.separate()
        Self.append(literal: value ? "true" : "false", to: &self.bytes)
    }

    package mutating func value(_ value: String) {
        self.separate()
        Self.append(value, to: &self.bytes)
    }

    /// Writes a string from UTF-8.
    package mutating func string(_ utf8: UnsafeRawBufferPointer) {
        self.separate()
        Self.append(utf8, to: &self.bytes)
    }

    package mutating func value(_ value: Int) {
        self.separate()
        Self.append(Int64(value), to: &self.bytes)
    }

    package mutating func value(_ value: Int64) {
        self.separate()
        Self.append(value, to: &self.bytes)
    }

    package mutating func value(_ value: UInt64) {
        self.separate()
        Self.append(value, to: &self.bytes)
    }

    /// Writes a number, or throws ``JSONError/Code/notFinite``.
    package mutating func value(_ value: Double) throws(JSONError) {
        guard value.isFinite else { throw JSONError(.notFinite, at: self.bytes.count) }
        self.separate()
        Self.append(finite: value, to: &self.bytes)
    }

    package mutating func value(_ value: JSONValue) {
        self.separate()
        value.write(to: &self.bytes)
    }

    /// Writes a value that is JSON already, without validating it.
    package mutating func raw(_ json: UnsafeRawBufferPointer) {
        self.separate()
        self.bytes.append(contentsOf: json)
    }

    /// Writes a value that is JSON already, without validating it.
    package mutating func raw(_ json: [UInt8]) {
        self.separate()
        self.bytes.append(contentsOf: json)
    }
}

extension JSONWriter {
    /// Appends text without quotes or escaping.
    package static func append(literal: StaticString, to output: inout [UInt8]) {
        output.append(contentsOf: UnsafeBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
    }

    /// Appends a string with quotes and escape sequences.
    package static func append(_ value: String, to output: inout [UInt8]) {
        var value = value
        value.withUTF8 { self.append(UnsafeRawBufferPointer($0), to: &output) }
    }

    /// Appends a key with quotes and escape sequences, and the colon after it.
    static func append(key: String, to output: inout [UInt8]) {
        var key = key
        key.withUTF8 { self.append(UnsafeRawBufferPointer($0), isKey: true, to: &output) }
    }

    /// Appends a string with quotes and escape sequences.
    static func append(_ utf8: UnsafeRawBufferPointer, to output: inout [UInt8]) { self.append(utf8, isKey: false, to: &output) }

    @inline(__always)
    private static func append(_ utf8: UnsafeRawBufferPointer, isKey: Bool, to output: inout [UInt8]) {
        var copied = 0
        output.append(addingCapacity: utf8.count &+ (isKey ? 3 : 2)) { span in
            span.withUnsafeMutableBufferPointer { buffer, initialized in
                guard let target = UnsafeMutableRawPointer(buffer.baseAddress) else { return }
                target.storeBytes(of: UInt8(ascii: "\""), as: UInt8.self)
                copied = self.copyPlain(utf8, to: target + 1)
                initialized = copied &+ 1
                guard copied == utf8.count else { return }
                target.storeBytes(of: UInt8(ascii: "\""), toByteOffset: initialized, as: UInt8.self)
                initialized &+= 1
                guard isKey else { return }
                target.storeBytes(of: UInt8(ascii: ":"), toByteOffset: initialized, as: UInt8.self)
                initialized &+= 1
            }
        }
        guard copied < utf8.count else { return }
        self.append(remainderOf: utf8, from: copied, to: &output)
        if isKey { output.append(UInt8(ascii: ":")) }
    }

    /// Copies the bytes before the first one that must be escaped, and returns their number. The target must have capacity for all bytes.
    @inline(__always)
    private static func copyPlain(_ utf8: UnsafeRawBufferPointer, to target: UnsafeMutableRawPointer) -> Int {
        guard let base = utf8.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return 0 }
        let end = utf8.count
        var index = 0
        while index &+ 8 <= end {
            let word = ByteWords.load(base + index)
            let stops = ByteWords.stops(word, includingNonASCII: false)
            target.storeBytes(of: word.littleEndian, toByteOffset: index, as: UInt64.self)
            guard stops == 0 else { return index &+ stops.trailingZeroBitCount &>> 3 }
            index &+= 8
        }
        while index < end, base[index] >= 0x20, base[index] != UInt8(ascii: "\""), base[index] != UInt8(ascii: "\\") {
            target.storeBytes(of: base[index], toByteOffset: index, as: UInt8.self)
            index &+= 1
        }
        return index
    }

    /// Appends the remainder of a string, from the first byte that must be escaped, and the closing quote.
    private static func append(remainderOf utf8: UnsafeRawBufferPointer, from first: Int, to output: inout [UInt8]) {
        guard let base = utf8.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return }
        let end = utf8.count
        var start = first
        var index = first
        while index < end {
            if index &+ 8 <= end {
                let stops = ByteWords.stops(ByteWords.load(base + index), includingNonASCII: false)
                guard stops != 0 else {
                    index &+= 8
                    continue
                }
                index &+= stops.trailingZeroBitCount &>> 3
            } else if base[index] >= 0x20, base[index] != UInt8(ascii: "\""), base[index] != UInt8(ascii: "\\") {
                index &+= 1
                continue
            }
            output.append(contentsOf: UnsafeBufferPointer(start: base + start, count: index &- start))
            self.append(escaping: base[index], to: &output)
            index &+= 1
            start = index
        }
        output.append(contentsOf: UnsafeBufferPointer(start: base + start, count: end &- start))
        output.append(UInt8(ascii: "\""))
    }

    private static func append(escaping byte: UInt8, to output: inout [UInt8]) {
        output.append(UInt8(ascii: "\\"))
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): output.append(byte)
        case 0x0A: output.append(UInt8(ascii: "n"))
        case 0x0D: output.append(UInt8(ascii: "r"))
        case 0x09: output.append(UInt8(ascii: "t"))
        case 0x08: output.append(UInt8(ascii: "b"))
        case 0x0C: output.append(UInt8(ascii: "f"))
        default:
            self.append(literal: byte < 0x10 ? "u000" : "u001", to: &output)
            let digit = byte & 0xF
            output.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
        }
    }

    static func append(_ value: Int64, to output: inout [UInt8]) {
        if value < 0 { output.append(UInt8(ascii: "-")) }
        self.append(value.magnitude, to: &output)
    }

    static func append(_ value: UInt64, to output: inout [UInt8]) {
        var remainder = value
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var start = 20
            repeat {
                start &-= 1
                let (quotient, digit) = remainder.quotientAndRemainder(dividingBy: 10)
                digits[start] = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: digit)
                remainder = quotient
            } while remainder != 0
            output.append(contentsOf: UnsafeBufferPointer(rebasing: digits[start...]))
        }
    }

    /// Appends the shortest digits that read back as the same double, without a trailing `.0`.
    static func append(finite value: Double, to output: inout [UInt8]) {
        self.append(number: value.description, to: &output)
    }

    /// Appends the description of a floating-point number without a trailing `.0`.
    static func append(number description: String, to output: inout [UInt8]) {
        var text = description
        text.withUTF8 { text in
            let isWhole = text.count > 2 && text[text.count - 1] == UInt8(ascii: "0") && text[text.count - 2] == UInt8(ascii: ".")
            output.append(contentsOf: isWhole ? UnsafeBufferPointer(rebasing: text[..<(text.count - 2)]) : text)
        }
    }
}
