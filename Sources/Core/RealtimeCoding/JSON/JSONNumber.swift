/// A JSON number, without loss of precision.
///
/// A number that `Int64`, `UInt64` and `Double` can't represent exactly keeps its digits.
///
/// Numbers are equal if their values are: `1`, `1.0` and `1e0` are equal. There are three exceptions:
/// - `-0` isn't equal to `0`.
/// - Above 2^53, a number with a fraction or an exponent isn't equal to the same number written as an integer.
/// - Numbers that keep their digits are equal only if their texts are.
public struct JSONNumber: Hashable, Sendable {
    private enum Storage: Hashable {
        case signed(Int64)
        /// Only above `Int64.max`.
        case unsigned(UInt64)
        /// A fraction, a whole number above 2^53, or `-0`.
        case float(Double)
        case text(String)
    }

    private let storage: Storage

    /// Creates a number from an integer, exactly.
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

    /// Creates a number from a double, exactly, or `nil` if it is infinite or not a number.
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

    /// Creates a number from text that the scanner has validated.
    init(_ raw: UnsafeRawBufferPointer, _ kind: NodeKind) {
        if kind == .integer {
            let isMinusZero = raw.count == 2 && raw[0] == UInt8(ascii: "-") && raw[1] == UInt8(ascii: "0")
            if !isMinusZero, let signed = NumberText.integer(raw, kind, as: Int64.self) {
                self.storage = .signed(signed)
                return
            }
            if let unsigned = NumberText.integer(raw, kind, as: UInt64.self), unsigned != 0 {
                self.storage = .unsigned(unsigned)
                return
            }
        }
        let digits = NumberDigits(raw)
        let double = NumberText.double(raw)
        if digits.mantissa == 0 {
            self.storage = digits.isNegative ? .float(-0.0) : .signed(0)
        } else if let whole = digits.whole, whole <= 1 << 53 {
            self.storage = .signed(digits.isNegative ? -Int64(whole) : Int64(whole))
        } else if double.isFinite, double != 0, Self.isLossless(double, digits) {
            self.storage = .float(double)
        } else {
            self.storage = .text(String(decoding: raw, as: UTF8.self))
        }
    }

    /// Whether the shortest text of the double has exactly these digits. Up to fifteen digits always survive the conversion to a normal
    /// double.
    private static func isLossless(_ double: Double, _ digits: NumberDigits) -> Bool {
        if digits.isTruncated { return false }
        if digits.mantissa < 1_000_000_000_000_000, double.isNormal { return true }
        var text = double.description
        return text.withUTF8 { NumberDigits(UnsafeRawBufferPointer($0)).normalized == digits.normalized }
    }

    /// The number as an `Int64`, or `nil` if it isn't whole or doesn't fit.
    public var int64: Int64? { self.integer(as: Int64.self) }

    /// The number as a `UInt64`, or `nil` if it isn't whole or doesn't fit.
    public var uint64: UInt64? { self.integer(as: UInt64.self) }

    /// The nearest double, which is infinite if the number is out of range.
    public var double: Double {
        switch self.storage {
        case .signed(let value): Double(value)
        case .unsigned(let value): Double(value)
        case .float(let value): value
        case .text(let text): Double(text) ?? .nan
        }
    }

    /// Converts the number to an integer.
    ///
    /// - Parameter type: The type of the integer.
    /// - Returns: The integer, or `nil` if the number isn't whole or doesn't fit.
    public func integer<Integer: FixedWidthInteger>(as type: Integer.Type) -> Integer? {
        switch self.storage {
        case .signed(let value): return Integer(exactly: value)
        case .unsigned(let value): return Integer(exactly: value)
        case .float(let value):
            // The number has the value of its shortest digits, from which the exact value of the double can differ.
            if value == 0 { return 0 }
            var text = value.description
            return text.withUTF8 { NumberText.integer(UnsafeRawBufferPointer($0), .number, as: type) }
        case .text(var text):
            return text.withUTF8 { NumberText.integer(UnsafeRawBufferPointer($0), .number, as: type) }
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

extension JSONNumber {
    /// Appends the number to the output of any format. If it has more digits than a double, the nearest double is written.
    ///
    /// - Throws: `EncodingError` if the double is infinite, and the format can't represent that.
    func append(to buffer: EncodingBuffer) throws {
        switch self.storage {
        case .signed(let value): buffer.append(signed: value)
        case .unsigned(let value): buffer.append(unsigned: value)
        case .float(let value): try buffer.append(value, nil)
        case .text: try buffer.append(self.double, nil)
        }
    }
}

extension JSONNumber: CustomStringConvertible {
    /// The number as JSON text.
    public var description: String {
        var output: [UInt8] = []
        self.write(to: &output)
        return String(decoding: output, as: UTF8.self)
    }
}

extension JSONNumber: ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral {
    /// Creates a number from an integer literal.
    public init(integerLiteral value: Int64) {
        self.init(value)
    }

    /// Creates a number from a floating-point literal, which must be finite.
    public init(floatLiteral value: Double) {
        guard let number = Self(value) else { preconditionFailure("A JSON number must be finite.") }
        self = number
    }
}
