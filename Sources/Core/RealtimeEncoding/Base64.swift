/// Base64 with the standard alphabet and padding (RFC 4648 section 4).
package enum Base64 {
    /// Encodes bytes as padded Base64 text.
    package static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        self.append(bytes, to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// Encodes `bytes` as padded Base64 text in ASCII, and appends it to `output`.
    package static func append(_ bytes: [UInt8], to output: inout [UInt8]) {
        // All empty arrays share storage, to which `append(addingCapacity:)` would write if there is nothing to append.
        if bytes.isEmpty { return }
        // Literals of this kind are stored in the binary: reading one costs neither a lazy initialization nor a bounds check.
        let alphabet = ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/" as StaticString).utf8Start
        let length = (bytes.count + 2) / 3 * 4
        output.append(addingCapacity: length) { span in
            span.withUnsafeMutableBufferPointer { text, initialized in
                var end = initialized
                for start in stride(from: 0, to: bytes.count, by: 3) {
                    let count = min(3, bytes.count - start)
                    var group: UInt32 = 0
                    for offset in 0..<3 { group = group << 8 | (offset < count ? UInt32(bytes[start + offset]) : 0) }
                    for position in 0..<4 {
                        text[end] = position <= count ? alphabet[Int(group >> (18 - 6 * UInt32(position)) & 63)] : UInt8(ascii: "=")
                        end += 1
                    }
                }
                initialized = end
            }
        }
    }

    /// Decodes padded Base64 text. White space and characters of other alphabets are invalid.
    ///
    /// The last digit before the padding can carry two or four bits that belong to no byte. RFC 4648 (section 3.5) requires encoders
    /// to set them to zero, and lets decoders reject other values, so that each sequence of bytes has exactly one encoding.
    /// Foundation's decoder ignores them.
    ///
    /// - Parameters:
    ///   - text: The text to decode.
    ///   - ignoresPadBits: Whether to accept text whose unused bits are not zero, as Foundation does.
    /// - Returns: The decoded bytes, or `nil` if the text is invalid.
    package static func decode(_ text: String, ignoresPadBits: Bool = false) -> [UInt8]? {
        var text = text
        return text.withUTF8 { self.decode($0, ignoresPadBits: ignoresPadBits) }
    }

    private static func decode(_ text: UnsafeBufferPointer<UInt8>, ignoresPadBits: Bool) -> [UInt8]? {
        guard text.count.isMultiple(of: 4) else { return nil }
        // All empty arrays share storage, to which the initializer would write.
        if text.isEmpty { return [] }
        let padding = text.suffix(2).reversed().prefix { $0 == UInt8(ascii: "=") }.count
        let digits = text.count - padding
        // The values of all digits together: a bit that no value has shows that a digit is invalid. Checking each digit instead would
        // mispredict a branch for most of them.
        var values: UInt8 = 0
        var padBits: UInt32 = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: text.count / 4 * 3) { bytes, initialized in
            var end = 0
            var start = 0
            while start &+ 4 <= digits {
                let (a, b) = (self.value(text[start]), self.value(text[start &+ 1]))
                let (c, d) = (self.value(text[start &+ 2]), self.value(text[start &+ 3]))
                values |= a | b | c | d
                let group = UInt32(a) << 18 | UInt32(b) << 12 | UInt32(c) << 6 | UInt32(d)
                bytes[end] = UInt8(truncatingIfNeeded: group >> 16)
                bytes[end &+ 1] = UInt8(truncatingIfNeeded: group >> 8)
                bytes[end &+ 2] = UInt8(truncatingIfNeeded: group)
                (start, end) = (start &+ 4, end &+ 3)
            }
            if padding > 0 {
                var group: UInt32 = 0
                for index in start..<start + 4 {
                    let value = index < digits ? self.value(text[index]) : 0
                    values |= value
                    group = group << 6 | UInt32(value)
                }
                padBits = group & (1 << (8 * UInt32(padding)) - 1)
                for position in 0..<3 - padding {
                    bytes[end] = UInt8(truncatingIfNeeded: group >> (16 - 8 * UInt32(position)))
                    end += 1
                }
            }
            initialized = end
        }
        return values < 64 && (ignoresPadBits || padBits == 0) ? bytes : nil
    }

    /// Returns the value of a digit, or a value of at least 64 for an invalid one.
    @inline(__always)
    private static func value(_ digit: UInt8) -> UInt8 {
        // For each character of ASCII the one whose code is greater than the value by that of "0", and "~" for an invalid digit.
        let values: StaticString = #"""
            ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~n~~~odefghijklm~~~~~~\#
            ~0123456789:;<=>?@ABCDEFGHI~~~~~~JKLMNOPQRSTUVWXYZ[\]^_`abc~~~~~
            """#
        return (values.utf8Start[Int(digit & 0x7F)] &- UInt8(ascii: "0")) | (digit & 0x80)
    }
}
