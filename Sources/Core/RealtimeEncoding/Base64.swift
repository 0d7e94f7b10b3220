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
        let padding = text.suffix(2).reversed().prefix { $0 == UInt8(ascii: "=") }.count
        let digits = text.count - padding
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 4 * 3)
        for start in stride(from: 0, to: text.count, by: 4) {
            var group: UInt32 = 0
            for index in start..<start + 4 {
                guard let value = index < digits ? self.value(text[index]) : 0 else { return nil }
                group = group << 6 | UInt32(value)
            }
            bytes.append(UInt8(truncatingIfNeeded: group >> 16))
            bytes.append(UInt8(truncatingIfNeeded: group >> 8))
            bytes.append(UInt8(truncatingIfNeeded: group))
        }
        // The bytes removed for the padding contain the pad bits, followed by zeros.
        guard ignoresPadBits || bytes.suffix(padding).allSatisfy({ $0 == 0 }) else { return nil }
        bytes.removeLast(padding)
        return bytes
    }

    @inline(__always)
    private static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): digit - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): digit - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0") + 52
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}
