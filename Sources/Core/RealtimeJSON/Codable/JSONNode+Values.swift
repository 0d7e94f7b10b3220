/// The conversion of a single value. Each method returns `nil` if the value has another type, or can't be represented.
extension JSONNode {
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

    /// Returns the string, with U+FFFD for lone surrogates unless they are rejected.
    @inline(__always)
    func string(in bytes: UnsafeRawBufferPointer, rejectsLoneSurrogates: Bool) -> String? {
        guard self.kind.isString else { return nil }
        return self.text(bytes) { raw in
            if rejectsLoneSurrogates, self.kind == .escapedString, JSONText.loneSurrogate(raw) != nil { return nil }
            return JSONText.string(raw, isEscaped: self.kind == .escapedString)
        }
    }

    @inline(__always)
    func integer<Integer: FixedWidthInteger>(_ type: Integer.Type, in bytes: UnsafeRawBufferPointer) -> Integer? {
        switch self.kind {
        case .integer, .number: self.text(bytes) { JSONText.integer($0, self.kind, as: type) }
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
                let value = JSONText.double(raw)
                // Only a number whose digits are all zero may become zero.
                return (value, value != 0 || JSONDigits(raw).mantissa == 0)
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
                (Float(String(decoding: raw, as: UTF8.self)) ?? .nan, JSONDigits(raw).mantissa == 0)
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
