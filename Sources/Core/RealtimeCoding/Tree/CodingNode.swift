/// The kind of a value in a document.
///
/// Some kinds exist in one format only: a text has neither binary nor extension values, and numbers that were never text have no digits.
package enum NodeKind: UInt8, Hashable, Sendable {
    /// The object does not have the key.
    case missing
    case null, `false`, `true`
    /// A number in decimal digits, without a fraction or an exponent.
    case integer
    /// A number in decimal digits, with a fraction or an exponent.
    case number
    /// A string whose bytes are its value.
    case string
    /// A string with at least one escape sequence.
    case escapedString
    case array, object
    /// Numbers that are stored in a node as 64 bits, for values that were never text.
    case signed, unsigned, float
    /// A floating-point number of 32 bits, stored as the double with the same value.
    case single
    /// A string that isn't valid UTF-8. Its invalid bytes are read as U+FFFD.
    case repairedString
    /// Bytes.
    case binary
    /// A value of a type that only the format knows.
    case ext

    package var isString: Bool {
        switch self {
        case .string, .escapedString, .repairedString: true
        default: false
        }
    }

    /// Whether the value is a number in decimal digits.
    package var isNumber: Bool {
        switch self {
        case .integer, .number: true
        default: false
        }
    }
}

/// A value or a key in a document.
///
/// A document is a flat list of its values in order, which a format creates in one pass and one allocation. A value that is not read
/// costs a node of sixteen bytes and no conversion.
struct CodingNode {
    /// The start of the bytes; for a string in quotes, the position after the opening quote.
    var offset: UInt32
    /// The number of bytes, elements or members. For a number without text, `offset` and `length` contain its 64 bits.
    var length: UInt32
    /// The index of the node after this value and its nested values.
    var end: UInt32
    var kind: NodeKind

    var range: Range<Int> { Int(self.offset)..<Int(self.offset) + Int(self.length) }

    var bits: UInt64 { UInt64(self.length) << 32 | UInt64(self.offset) }

    init(kind: NodeKind, offset: UInt32, length: UInt32, end: UInt32) {
        self.offset = offset
        self.length = length
        self.end = end
        self.kind = kind
    }

    /// Creates a number without text.
    init(kind: NodeKind, bits: UInt64, end: UInt32) {
        self.init(kind: kind, offset: UInt32(truncatingIfNeeded: bits), length: UInt32(truncatingIfNeeded: bits >> 32), end: end)
    }
}
