/// A number of JSON, without loss: one that neither `Int64`, `UInt64` nor `Double` holds keeps its digits.
///
/// Each value has one form, so `1`, `1.0` and `1e0` are equal. The exceptions: beyond 2^53 a number written with a fraction or an
/// exponent is not equal to the same one written as an integer, `-0` is not equal to `0`, and numbers that are kept as digits are
/// equal when their text is.
public struct JSONNumber: Hashable, Sendable {
    private enum Storage: Hashable {
        case signed(Int64)
        /// Only above `Int64.max`.
        case unsigned(UInt64)
        /// Never whole up to 2^53, except for `-0`.
        case float(Double)
        case text(String)
    }

    private let storage: Storage

    /// An integer, exactly.
    public init(_ value: some FixedWidthInteger) {
        if let signed = Int64(exactly: value) {
            self.storage = .signed(signed)
        } else if let unsigned = UInt64(exactly: value) {
            self.storage = .unsigned(unsigned)
        } else {
            let text = value.description
            self = text.utf8.withContiguousStorageIfAvailable { Self(UnsafeRawBufferPointer($0), .integer) } ?? Self(text: text)
        }
    }

    /// A double, exactly; `nil` for infinity and not-a-number, which JSON cannot hold.
    public init?(_ value: Double) {
        guard value.isFinite else { return nil }
        if value.magnitude <= 0x1p53, let whole = Int64(exactly: value), whole != 0 || value.sign == .plus {
            self.storage = .signed(whole)
        } else {
            self.storage = .float(value)
        }
    }

    private init(text: String) {
        self.storage = .text(text)
    }

    /// Only for text that the scanner has checked.
    init(_ raw: UnsafeRawBufferPointer, _ kind: JSONKind) {
        if kind == .integer {
            let isMinusZero = raw.count == 2 && raw[0] == UInt8(ascii: "-") && raw[1] == UInt8(ascii: "0")
            if !isMinusZero, let signed = JSONText.integer(raw, kind, as: Int64.self) {
                self.storage = .signed(signed)
                return
            }
            if let unsigned = JSONText.integer(raw, kind, as: UInt64.self), unsigned != 0 {
                self.storage = .unsigned(unsigned)
                return
            }
        }
        let digits = JSONDigits(raw)
        let double = JSONText.double(raw)
        if digits.mantissa == 0 {
            self.storage = digits.isNegative ? .float(-0.0) : .signed(0)
        } else if let whole = digits.whole, whole <= 1 << 53 {
            self.storage = .signed(digits.isNegative ? -Int64(whole) : Int64(whole))
        } else if double.isFinite, double != 0, Self.holds(double, digits) {
            self.storage = .float(double)
        } else {
            self.storage = .text(String(decoding: raw, as: UTF8.self))
        }
    }

    /// Whether the shortest text of the double has just these digits, so that none is lost. Up to fifteen always survive the way
    /// through a normal double.
    private static func holds(_ double: Double, _ digits: JSONDigits) -> Bool {
        if digits.isCut { return false }
        if digits.mantissa < 1_000_000_000_000_000, double.isNormal { return true }
        var text = double.description
        return text.withUTF8 { JSONDigits(UnsafeRawBufferPointer($0)).shortened == digits.shortened }
    }

    /// The number as an integer, if it is whole and fits.
    public var int64: Int64? { self.integer(as: Int64.self) }

    /// The number as an integer, if it is whole and fits.
    public var uint64: UInt64? { self.integer(as: UInt64.self) }

    /// The nearest double; infinite where the number is larger than any.
    public var double: Double {
        switch self.storage {
        case .signed(let value): Double(value)
        case .unsigned(let value): Double(value)
        case .float(let value): value
        case .text(let text): Double(text) ?? .nan
        }
    }

    /// The number as an integer of this type, if it is whole and fits.
    public func integer<Integer: FixedWidthInteger>(as type: Integer.Type) -> Integer? {
        switch self.storage {
        case .signed(let value): return Integer(exactly: value)
        case .unsigned(let value): return Integer(exactly: value)
        case .float(let value):
            // Kept as a double it has the value of its digits, of which the double itself may differ.
            if value == 0 { return 0 }
            var text = value.description
            return text.withUTF8 { JSONText.integer(UnsafeRawBufferPointer($0), .number, as: type) }
        case .text(var text):
            return text.withUTF8 { JSONText.integer(UnsafeRawBufferPointer($0), .number, as: type) }
        }
    }

    func write(to output: inout [UInt8]) {
        switch self.storage {
        case .signed(let value): JSONWriter.append(value, to: &output)
        case .unsigned(let value): JSONWriter.append(value, to: &output)
        case .float(let value): JSONWriter.append(finite: value, to: &output)
        case .text(let text): output.append(contentsOf: text.utf8)
        }
    }
}

extension JSONNumber: CustomStringConvertible {
    /// The number as JSON writes it.
    public var description: String {
        var output: [UInt8] = []
        self.write(to: &output)
        return String(decoding: output, as: UTF8.self)
    }
}

extension JSONNumber: ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral {
    /// An integer.
    public init(integerLiteral value: Int64) {
        self.init(value)
    }

    /// A number, which must be finite.
    public init(floatLiteral value: Double) {
        guard let number = Self(value) else { preconditionFailure("JSON holds no infinite number") }
        self = number
    }
}
