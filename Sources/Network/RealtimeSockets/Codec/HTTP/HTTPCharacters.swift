import RealtimeEncoding

/// The characters that are allowed in each part of a message head (RFC 9110 section 5).
enum HTTPCharacters {
    /// Whether the bytes are a token, such as a method or a field name.
    static func isToken(_ bytes: some Collection<UInt8>) -> Bool {
        !bytes.isEmpty && bytes.allSatisfy(Self.isTokenByte)
    }

    /// Whether the bytes are a field value: no control characters except tab. Bytes outside ASCII are allowed, because servers send them.
    static func isFieldValue(_ bytes: some Sequence<UInt8>) -> Bool {
        bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }
    }

    /// Whether the bytes are a request target: at least one byte, and only visible ASCII characters.
    static func isTarget(_ bytes: some Collection<UInt8>) -> Bool {
        !bytes.isEmpty && bytes.allSatisfy { (0x21...0x7E).contains($0) }
    }

    /// Whether the bytes are a host, which may be empty, and optionally a port (RFC 9110 section 7.2): the value of a `Host` field.
    static func isAuthority(_ bytes: [UInt8]) -> Bool {
        let host: ArraySlice<UInt8>
        let rest: ArraySlice<UInt8>
        if bytes.first == UInt8(ascii: "[") {
            guard let end = bytes.firstIndex(of: UInt8(ascii: "]")) else { return false }
            (host, rest) = (bytes[1..<end], bytes[(end + 1)...])
            let isAddress = host.allSatisfy { Hex.value($0) != nil || $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: ".") }
            guard isAddress, host.contains(UInt8(ascii: ":")) else { return false }
        } else {
            host = bytes.prefix { $0 != UInt8(ascii: ":") }
            rest = bytes[host.endIndex...]
            guard Self.isRegisteredName(host) else { return false }
        }
        if rest.isEmpty { return true }
        let port = rest.dropFirst()
        guard rest.first == UInt8(ascii: ":"), port.allSatisfy(Self.isDigit) else { return false }
        return port.isEmpty || UInt16(String(decoding: port, as: UTF8.self)) != nil
    }

    /// Whether the bytes are an IPv6 address without brackets, with or without a port. The standard doesn't allow it, and clients such as those for
    /// Node send it in the field `Host`.
    static func isBareAddress(_ bytes: [UInt8]) -> Bool {
        let colon = UInt8(ascii: ":")
        // An address has at most 45 bytes, and seven colons unless two of them stand for a part that is left out.
        let isShort = zip(bytes, bytes.dropFirst()).contains { $0 == colon && $1 == colon }
        guard bytes.count <= 51, isShort || 7...8 ~= bytes.count(where: { $0 == colon }) else { return false }
        return bytes.allSatisfy { Hex.value($0) != nil || $0 == colon || $0 == UInt8(ascii: ".") }
    }

    /// Whether the bytes are a host name or an IPv4 address (RFC 3986 section 3.2.2).
    private static func isRegisteredName(_ bytes: ArraySlice<UInt8>) -> Bool {
        var index = bytes.startIndex
        while index < bytes.endIndex {
            switch bytes[index] {
            case UInt8(ascii: "%"):
                guard bytes[index...].count > 2, Hex.value(bytes[index + 1]) != nil, Hex.value(bytes[index + 2]) != nil else {
                    return false
                }
                index += 3
            // Letters, digits, and - . _ ~ ! $ & ' ( ) * + , ; =
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E, 0x21, 0x24, 0x26...0x2C, 0x3B, 0x3D: index += 1
            default: return false
            }
        }
        return true
    }

    static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

    /// Whether the byte is a space or a tab.
    static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    /// Removes leading and trailing spaces and tabs.
    static func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        guard let first = bytes.firstIndex(where: { !Self.isBlank($0) }), let last = bytes.lastIndex(where: { !Self.isBlank($0) }) else {
            return bytes.prefix(0)
        }
        return bytes[first...last]
    }

    /// Decodes text as UTF-8 if it is valid UTF-8, and otherwise as Latin-1, the encoding of earlier versions of HTTP.
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
