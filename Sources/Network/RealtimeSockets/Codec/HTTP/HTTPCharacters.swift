/// What may stand where in a head (RFC 9110 section 5).
enum HTTPCharacters {
    /// A method, or the name of a field.
    static func isToken(_ bytes: some Collection<UInt8>) -> Bool {
        !bytes.isEmpty && bytes.allSatisfy(Self.isTokenByte)
    }

    /// A field's value: no control character but the tab. Bytes above ASCII are let through, since servers send them.
    static func isFieldValue(_ bytes: some Sequence<UInt8>) -> Bool {
        bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }
    }

    /// The target of a request: visible ASCII, and some of it.
    static func isTarget(_ bytes: some Collection<UInt8>) -> Bool {
        !bytes.isEmpty && bytes.allSatisfy { (0x21...0x7E).contains($0) }
    }

    static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

    static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    /// Without the blanks around it.
    static func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        guard let first = bytes.firstIndex(where: { !Self.isBlank($0) }), let last = bytes.lastIndex(where: { !Self.isBlank($0) }) else {
            return bytes.prefix(0)
        }
        return bytes[first...last]
    }

    /// UTF-8 when it is that, and Latin-1, which was the rule once, when it is not.
    static func text(_ bytes: ArraySlice<UInt8>) -> String {
        if bytes.withUnsafeBytes(UTF8Validator.isValid) { return String(decoding: bytes, as: UTF8.self) }
        var text = ""
        for byte in bytes { text.unicodeScalars.append(Unicode.Scalar(byte)) }
        return text
    }

    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        // ! # $ % & ' * + - . ^ _ ` | ~
        case 0x21, 0x23...0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x5E...0x60, 0x7C, 0x7E: true
        default: false
        }
    }
}
