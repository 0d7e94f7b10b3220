/// Percent-encoding of URL queries and forms (RFC 3986 section 2).
package enum PercentEncoding {
    /// Encodes text, leaving only unreserved characters (RFC 3986 section 2.3) as they are.
    package static func encode(_ text: String) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var result: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
                result.append(byte)
            default:
                result += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    /// Decodes percent-encoded text.
    ///
    /// - Parameters:
    ///   - text: The text to decode.
    ///   - plusIsSpace: Whether `+` means a space, as in HTML forms.
    /// - Returns: The decoded text, or `nil` if a percent sign is not followed by two hexadecimal digits, or the result is not UTF-8.
    package static func decode(_ text: some StringProtocol, plusIsSpace: Bool = false) -> String? {
        var result: [UInt8] = []
        var bytes = text.utf8.makeIterator()
        while let byte = bytes.next() {
            switch byte {
            case UInt8(ascii: "%"):
                guard let high = bytes.next().flatMap(Hex.value), let low = bytes.next().flatMap(Hex.value) else { return nil }
                result.append(high << 4 | low)
            case UInt8(ascii: "+") where plusIsSpace: result.append(UInt8(ascii: " "))
            default: result.append(byte)
            }
        }
        return String(validUTF8: result)
    }

    /// Splits a query or form body into its decoded fields, in order.
    ///
    /// A field without `=` has an empty value.
    ///
    /// - Parameters:
    ///   - text: The query, without its leading `?`, or the form body.
    ///   - plusIsSpace: Whether `+` means a space, as in HTML forms.
    /// - Returns: The fields, or `nil` if a name or value cannot be decoded.
    package static func fields(_ text: some StringProtocol, plusIsSpace: Bool = false) -> [(name: String, value: String)]? {
        var fields: [(name: String, value: String)] = []
        for part in text.split(separator: "&") {
            let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = self.decode(sides[0], plusIsSpace: plusIsSpace),
                let value = sides.count == 2 ? self.decode(sides[1], plusIsSpace: plusIsSpace) : ""
            else { return nil }
            fields.append((name, value))
        }
        return fields
    }
}
