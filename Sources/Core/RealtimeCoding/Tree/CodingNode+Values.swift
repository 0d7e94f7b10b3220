/// The conversion of a single value. Each method returns `nil` if the value has another type, or can't be represented.
extension CodingNode {
    @inline(__always)
    private func text<Result>(_ bytes: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        body(UnsafeRawBufferPointer(rebasing: bytes[self.range]))
    }

    var bool: Bool? {
        switch self.kind {
        case .true: true
        case .false: false
        default: nil
        }
    }

    /// The string, with U+FFFD for bytes that aren't valid UTF-8. It is `nil` if the string has escape sequences, which differ from format to
    /// format.
    @inline(__always)
    func string(in bytes: UnsafeRawBufferPointer) -> String? {
        switch self.kind {
        case .string, .repairedString: self.text(bytes) { String(decoding: $0, as: UTF8.self) }
        default: nil
        }
    }

    @inline(__always)
    func integer<Integer: FixedWidthInteger>(_ type: Integer.Type, in bytes: UnsafeRawBufferPointer) -> Integer? {
        switch self.kind {
        case .integer, .number: self.text(bytes) { NumberText.integer($0, self.kind, as: type) }
        case .signed: Integer(exactly: Int64(bitPattern: self.bits))
        case .unsigned: Integer(exactly: self.bits)
        case .float, .single: Integer(exactly: Double(bitPattern: self.bits))
        default: nil
        }
    }

    func double(in bytes: UnsafeRawBufferPointer) -> Double? {
        switch self.kind {
        case .integer, .number:
            let (value, isInRange) = self.text(bytes) { raw in
                let value = NumberText.double(raw)
                // Only a number whose digits are all zero may become zero.
                return (value, value != 0 || NumberDigits(raw).mantissa == 0)
            }
            return value.isFinite && isInRange ? value : nil
        case .signed: return Double(Int64(bitPattern: self.bits))
        case .unsigned: return Double(self.bits)
        case .float, .single: return Double(bitPattern: self.bits)
        default: return nil
        }
    }

    /// Converts a text directly, because a conversion by way of `Double` would round twice.
    func float(in bytes: UnsafeRawBufferPointer) -> Float? {
        switch self.kind {
        case .integer, .number:
            let (value, isZero) = self.text(bytes) { raw in
                (Float(String(decoding: raw, as: UTF8.self)) ?? .nan, NumberDigits(raw).mantissa == 0)
            }
            return value.isFinite && (value != 0 || isZero) ? value : nil
        case .signed: return Float(Int64(bitPattern: self.bits))
        case .unsigned: return Float(self.bits)
        case .float, .single:
            let double = Double(bitPattern: self.bits)
            let float = Float(double)
            return (float.isFinite || !double.isFinite) && (float != 0 || double == 0) ? float : nil
        default: return nil
        }
    }
}
