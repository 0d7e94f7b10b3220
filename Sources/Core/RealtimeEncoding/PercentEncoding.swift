/// Percent-encoding, for forms and queries.
package enum PercentEncoding {
    /// Everything but unreserved characters (RFC 3986 section 2.3) is encoded.
    package static func form(_ text: String) -> String {
        var result: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
                result.append(byte)
            default:
                let digits = Array("0123456789ABCDEF".utf8)
                result += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    /// `nil` when a percent sign is not followed by two hexadecimal digits.
    package static func decoded(_ text: some StringProtocol, plusIsSpace: Bool = false) -> String? {
        var result: [UInt8] = []
        var bytes = text.utf8.makeIterator()
        while let byte = bytes.next() {
            switch byte {
            case UInt8(ascii: "%"):
                guard let high = bytes.next().flatMap(self.digit), let low = bytes.next().flatMap(self.digit) else { return nil }
                result.append(high << 4 | low)
            case UInt8(ascii: "+") where plusIsSpace: result.append(UInt8(ascii: " "))
            default: result.append(byte)
            }
        }
        return String(validating: result, as: UTF8.self)
    }

    /// The fields of a query or form, decoded, in order.
    package static func fields(_ text: some StringProtocol, plusIsSpace: Bool = false) -> [(name: String, value: String)]? {
        var fields: [(name: String, value: String)] = []
        for part in text.split(separator: "&") {
            let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = self.decoded(sides[0], plusIsSpace: plusIsSpace),
                let value = sides.count == 2 ? self.decoded(sides[1], plusIsSpace: plusIsSpace) : ""
            else { return nil }
            fields.append((name, value))
        }
        return fields
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
