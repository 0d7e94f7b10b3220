/// Text of strangers, made safe for a terminal: a control character in it could move the cursor, change the
/// window's title or type for the user.
package enum TerminalText {
    /// Control characters, and those that turn the direction of writing, as visible escapes. One line stays one line.
    package static func escaped(_ text: String) -> String {
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

    /// JSON escapes what is below the space; some terminals obey U+007F to U+009F and the marks of direction as well.
    package static func escaped(json: [UInt8]) -> [UInt8] {
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
