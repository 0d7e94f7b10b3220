/// Percent-encoding of URL queries and forms (RFC 3986 section 2).
package enum PercentEncoding {
    /// Encodes text, leaving only unreserved characters (RFC 3986 section 2.3) as they are.
    package static func encode(_ text: String) -> String {
        if text.utf8.allSatisfy(self.isUnreserved) { return text }
        let digits = Array("0123456789ABCDEF".utf8)
        var result: [UInt8] = []
        for byte in text.utf8 {
            if self.isUnreserved(byte) {
                result.append(byte)
            } else {
                result += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
            true
        default: false
        }
    }

    /// Decodes percent-encoded text.
    ///
    /// - Parameters:
    ///   - text: The text to decode.
    ///   - plusIsSpace: Whether `+` means a space, as in HTML forms.
    /// - Returns: The decoded text, or `nil` if a percent sign is not followed by two hexadecimal digits, or the result is not UTF-8.
    package static func decode(_ text: some StringProtocol, plusIsSpace: Bool = false) -> String? {
        self.withBytes(of: text) { self.decode($0, plusIsSpace: plusIsSpace) }
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
        let isValid = self.withBytes(of: text) { bytes in
            self.allFields(of: bytes) { name, value in
                guard let name = self.decode(name, plusIsSpace: plusIsSpace), let value = self.decode(value, plusIsSpace: plusIsSpace)
                else {
                    return false
                }
                fields.append((name, value))
                return true
            }
        }
        return isValid ? fields : nil
    }

    /// Returns the decoded value of the first field with a name, as ``fields(_:plusIsSpace:)`` would, without creating the others.
    ///
    /// - Parameters:
    ///   - name: The decoded name.
    ///   - text: The query, without its leading `?`.
    /// - Returns: The value, or `nil` if there is no such field, or if any name or value cannot be decoded.
    package static func value(of name: String, in text: some StringProtocol) -> String? {
        var result: String?
        let isValid = self.withBytes(of: text) { bytes in
            self.allFields(of: bytes) { fieldName, value in
                // What isn't encoded can be decoded.
                let isEncoded = fieldName.contains(Self.percent) || value.contains(Self.percent)
                guard isEncoded || result == nil && fieldName.elementsEqual(name.utf8) else { return true }
                guard let fieldName = self.decode(fieldName), let value = self.decode(value) else { return false }
                if result == nil, fieldName.utf8.elementsEqual(name.utf8) { result = value }
                return true
            }
        }
        return isValid ? result : nil
    }

    // MARK: Bytes

    private static let percent = UInt8(ascii: "%")

    private static func withBytes<Result>(of text: some StringProtocol, _ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        text.utf8.withContiguousStorageIfAvailable(body) ?? Array(text.utf8).withUnsafeBufferPointer(body)
    }

    /// Calls a closure with the name and the value of each field, until it returns false.
    ///
    /// - Returns: Whether it has always returned true.
    private static func allFields(
        of bytes: UnsafeBufferPointer<UInt8>, _ body: (_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) -> Bool
    ) -> Bool {
        var start = 0
        while start < bytes.count {
            let field = UnsafeBufferPointer(rebasing: bytes[start...].prefix { $0 != UInt8(ascii: "&") })
            start += field.count + 1
            if field.isEmpty { continue }
            let name = UnsafeBufferPointer(rebasing: field.prefix { $0 != UInt8(ascii: "=") })
            guard body(name, UnsafeBufferPointer(rebasing: field.dropFirst(name.count + 1))) else { return false }
        }
        return true
    }

    /// - Parameter bytes: Valid UTF-8.
    private static func decode(_ bytes: UnsafeBufferPointer<UInt8>, plusIsSpace: Bool = false) -> String? {
        guard bytes.contains(where: { $0 == self.percent || plusIsSpace && $0 == UInt8(ascii: "+") }) else {
            return String(decoding: bytes, as: UTF8.self)
        }
        var result: [UInt8] = []
        result.reserveCapacity(bytes.count)
        var rest = bytes.makeIterator()
        while let byte = rest.next() {
            switch byte {
            case self.percent:
                guard let high = rest.next().flatMap(Hex.value), let low = rest.next().flatMap(Hex.value) else { return nil }
                result.append(high << 4 | low)
            case UInt8(ascii: "+") where plusIsSpace: result.append(UInt8(ascii: " "))
            default: result.append(byte)
            }
        }
        return String(validUTF8: result)
    }
}
