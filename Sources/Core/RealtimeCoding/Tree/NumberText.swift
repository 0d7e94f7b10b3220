/// Numbers in decimal digits, in the grammar of JSON.
enum NumberText {
    /// Scans a number.
    ///
    /// - Parameters:
    ///   - bytes: The text.
    ///   - index: The position of the first character, which must be less than `end`. Afterwards, the end of the number; if it is invalid, the
    ///     position of the first character that doesn't belong there.
    ///   - end: The end of the text.
    /// - Returns: ``NodeKind/integer`` or ``NodeKind/number``, or `nil` if the number is invalid.
    @inline(__always)
    static func scan(_ bytes: UnsafePointer<UInt8>, from index: inout Int, to end: Int) -> NodeKind? {
        if bytes[index] == UInt8(ascii: "-") { index &+= 1 }
        guard self.isDigit(bytes, index, end) else { return nil }
        if bytes[index] == UInt8(ascii: "0") {
            index &+= 1
            if self.isDigit(bytes, index, end) { return nil }
        } else {
            repeat { index &+= 1 } while self.isDigit(bytes, index, end)
        }
        var kind = NodeKind.integer
        if index < end, bytes[index] == UInt8(ascii: ".") {
            kind = .number
            index &+= 1
            guard self.isDigit(bytes, index, end) else { return nil }
            repeat { index &+= 1 } while self.isDigit(bytes, index, end)
        }
        if index < end, bytes[index] | 0x20 == UInt8(ascii: "e") {
            kind = .number
            index &+= 1
            if index < end, bytes[index] == UInt8(ascii: "+") || bytes[index] == UInt8(ascii: "-") { index &+= 1 }
            guard self.isDigit(bytes, index, end) else { return nil }
            repeat { index &+= 1 } while self.isDigit(bytes, index, end)
        }
        return kind
    }

    @inline(__always)
    private static func isDigit(_ bytes: UnsafePointer<UInt8>, _ index: Int, _ end: Int) -> Bool {
        index < end && bytes[index] &- UInt8(ascii: "0") <= 9
    }

    /// Whether the whole text is a number.
    static func isValid(_ text: UnsafeRawBufferPointer) -> Bool {
        guard let base = text.baseAddress?.assumingMemoryBound(to: UInt8.self), text.count > 0 else { return false }
        var index = 0
        return self.scan(base, from: &index, to: text.count) != nil && index == text.count
    }

    /// Converts a validated number to an integer, or `nil` if it is not whole or does not fit. `1.0` and `1e2` are whole.
    @inline(__always)
    static func integer<Integer: FixedWidthInteger>(_ raw: UnsafeRawBufferPointer, _ kind: NodeKind, as: Integer.Type) -> Integer? {
        guard let base = raw.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return nil }
        if kind == .integer, raw.count <= 18 {
            let isNegative = base[0] == UInt8(ascii: "-")
            var value: Int64 = 0
            var index = isNegative ? 1 : 0
            while index < raw.count {
                value = value &* 10 &+ Int64(base[index] &- UInt8(ascii: "0"))
                index &+= 1
            }
            return Integer(exactly: isNegative ? 0 &- value : value)
        }
        guard let (isNegative, magnitude) = self.whole(raw, kind) else { return nil }
        if !isNegative { return Integer(exactly: magnitude) }
        guard magnitude <= 1 << 63 else { return nil }
        return Integer(exactly: magnitude == 1 << 63 ? Int64.min : -Int64(magnitude))
    }

    private static func whole(_ raw: UnsafeRawBufferPointer, _ kind: NodeKind) -> (isNegative: Bool, magnitude: UInt64)? {
        if kind != .integer {
            let digits = NumberDigits(raw)
            return digits.whole.map { (digits.isNegative, $0) }
        }
        let isNegative = raw.first == UInt8(ascii: "-")
        var value: UInt64 = 0
        for byte in raw.dropFirst(isNegative ? 1 : 0) {
            let (product, first) = value.multipliedReportingOverflow(by: 10)
            let (sum, second) = product.addingReportingOverflow(UInt64(byte &- UInt8(ascii: "0")))
            if first || second { return nil }
            value = sum
        }
        return (isNegative, value)
    }

    /// Converts a number to the nearest double.
    static func double(_ raw: UnsafeRawBufferPointer) -> Double {
        let digits = NumberDigits(raw)
        // Within these bounds the mantissa and the power of ten are exact doubles, so a single operation rounds correctly.
        if !digits.isTruncated, digits.mantissa <= 1 << 53, digits.exponent >= -22, digits.exponent <= 22 {
            let mantissa = Double(digits.mantissa)
            let power = self.powers[abs(digits.exponent)]
            let value = digits.exponent < 0 ? mantissa / power : mantissa * power
            return digits.isNegative ? -value : value
        }
        return Double(String(decoding: raw, as: UTF8.self)) ?? .nan
    }

    private static let powers: [Double] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
    ]
}

/// The digits of a number: `mantissa` times ten to the power of `exponent`.
struct NumberDigits: Hashable {
    var isNegative = false
    /// The first nineteen significant digits.
    var mantissa: UInt64 = 0
    var exponent = 0
    /// Whether digits other than zero are missing from the mantissa.
    var isTruncated = false

    /// Creates digits from text that the scanner has validated.
    init(_ raw: UnsafeRawBufferPointer) {
        var digits = 0
        var isFraction = false
        var index = 0
        while index < raw.count {
            let byte = raw[index]
            switch byte {
            case UInt8(ascii: "-"): self.isNegative = true
            case UInt8(ascii: "."): isFraction = true
            case UInt8(ascii: "0")...UInt8(ascii: "9"):
                if digits < 19 {
                    self.mantissa = self.mantissa &* 10 &+ UInt64(byte &- UInt8(ascii: "0"))
                    if self.mantissa != 0 { digits &+= 1 }
                    if isFraction { self.exponent &-= 1 }
                } else {
                    if byte != UInt8(ascii: "0") { self.isTruncated = true }
                    if !isFraction { self.exponent &+= 1 }
                }
            default:
                self.exponent += Self.exponent(UnsafeRawBufferPointer(rebasing: raw[(index + 1)...]))
                return
            }
            index &+= 1
        }
    }

    /// The value of an exponent. It saturates: the number is zero or out of range long before the exponent overflows.
    static func exponent(_ raw: UnsafeRawBufferPointer) -> Int {
        var value = 0
        for byte in raw where byte != UInt8(ascii: "+") && byte != UInt8(ascii: "-") && value < Int.max / 20 {
            value = value * 10 + Int(byte &- UInt8(ascii: "0"))
        }
        return raw.first == UInt8(ascii: "-") ? -value : value
    }

    /// The same number without trailing zeros in the mantissa, for comparisons.
    var normalized: Self {
        var digits = self
        if digits.mantissa == 0 { digits.exponent = 0 }
        while digits.mantissa != 0, digits.mantissa % 10 == 0 {
            digits.mantissa /= 10
            digits.exponent += 1
        }
        return digits
    }

    /// The magnitude, or `nil` if the number is not whole or does not fit.
    var whole: UInt64? {
        if self.isTruncated { return nil }
        if self.mantissa == 0 { return 0 }
        var value = self.mantissa
        var exponent = self.exponent
        while exponent < 0 {
            guard value % 10 == 0 else { return nil }
            value /= 10
            exponent += 1
        }
        while exponent > 0 {
            let (product, overflow) = value.multipliedReportingOverflow(by: 10)
            if overflow { return nil }
            value = product
            exponent -= 1
        }
        return value
    }
}

/// A number in the representation of Foundation's `Decimal`: a mantissa of 128 bits and a power of ten in a byte. Further digits are
/// dropped.
struct DecimalDigits {
    private var high: UInt64 = 0
    private var low: UInt64 = 0
    private(set) var exponent = 0
    private(set) var isNegative = false

    /// Creates a number from text that the scanner has validated, or `nil` if the power of ten does not fit.
    init?(_ raw: UnsafeRawBufferPointer) {
        var isFraction = false
        var isFull = false
        for (index, byte) in raw.enumerated() {
            switch byte {
            case UInt8(ascii: "-"): self.isNegative = true
            case UInt8(ascii: "."): isFraction = true
            case UInt8(ascii: "0")...UInt8(ascii: "9"):
                if !isFull { isFull = !self.append(byte - UInt8(ascii: "0")) }
                if isFraction != isFull { self.exponent += isFraction ? -1 : 1 }
            default:
                self.exponent += NumberDigits.exponent(UnsafeRawBufferPointer(rebasing: raw[(index + 1)...]))
                guard (-128...127).contains(self.exponent) else { return nil }
                return
            }
        }
        guard (-128...127).contains(self.exponent) else { return nil }
    }

    private mutating func append(_ digit: UInt8) -> Bool {
        let product = self.low.multipliedFullWidth(by: 10)
        let (low, carry) = product.low.addingReportingOverflow(UInt64(digit))
        let (scaled, first) = self.high.multipliedReportingOverflow(by: 10)
        let (high, second) = scaled.addingReportingOverflow(product.high + (carry ? 1 : 0))
        if first || second { return false }
        (self.high, self.low) = (high, low)
        return true
    }

    /// The mantissa as eight words, the least significant first.
    var words: [UInt16] {
        [self.low, self.high].flatMap { half in (0..<4).map { UInt16(truncatingIfNeeded: half >> (16 * $0)) } }
    }
}
