/// Escaping for untrusted text. Control characters in it could move the terminal's cursor, change its title or simulate typing.
enum TerminalText {
    /// Returns text with control characters, line breaks and changes of writing direction as visible escapes, and so always one line.
    static func escaped(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: Self.isUnsafe) else { return text }
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\n": result += "\\n"
            case "\r": result += "\\r"
            case "\t": result += "\\t"
            case _ where Self.isUnsafe(scalar): result += "\\u{\(String(scalar.value, radix: 16))}"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    /// Returns JSON in which the unsafe characters that JSON does not require to escape (those above U+007E) are escaped too.
    static func escaped(json: [UInt8]) -> [UInt8] {
        guard json.contains(where: { $0 >= 0x7F }) else { return json }
        var result: [UInt8] = []
        for scalar in String(decoding: json, as: UTF8.self).unicodeScalars {
            if scalar.value >= 0x7F, Self.isUnsafe(scalar) {
                let digits = String(scalar.value, radix: 16)
                result += Array(("\\u" + String(repeating: "0", count: 4 - digits.count) + digits).utf8)
            } else {
                result += Array(UTF8.encode(scalar)!)
            }
        }
        return result
    }

    private static func isUnsafe(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x00...0x1F, 0x7F...0x9F: true
        case 0x2028, 0x2029, 0x200E, 0x200F, 0x061C, 0x202A...0x202E, 0x2066...0x2069: true
        default: false
        }
    }
}
