/// A point in time in MessagePack: the extension type -1.
///
/// Unlike a `Date`, it represents every nanosecond. A `Date` is encoded as a timestamp, too.
public struct MessagePackTimestamp: Hashable, Sendable {
    /// The extension type of timestamps.
    package static let type: Int8 = -1

    /// The whole seconds since the start of 1970 in UTC, rounded down.
    public var seconds: Int64
    /// The nanoseconds since the start of that second. Values above 999,999,999 are carried over to the seconds when they are encoded.
    public var nanoseconds: UInt32

    /// Creates a timestamp.
    ///
    /// - Parameters:
    ///   - seconds: The whole seconds since the start of 1970 in UTC, rounded down.
    ///   - nanoseconds: The nanoseconds since the start of that second.
    public init(seconds: Int64, nanoseconds: UInt32 = 0) {
        self.seconds = seconds
        self.nanoseconds = nanoseconds
    }

    /// Creates the timestamp that is nearest to a number of seconds since the start of 2001, as in a `Date`. Returns `nil` if it is not
    /// finite or out of range.
    init?(secondsSinceReferenceDate seconds: Double) {
        // The subtraction is exact, so that the nanoseconds are only rounded once.
        let whole = seconds.rounded(.down)
        guard let second = Int64(exactly: whole), second <= Int64.max - Int64(referenceDateOffset) - 1 else { return nil }
        let nanoseconds = ((seconds - whole) * 1e9).rounded()
        let carry: Int64 = nanoseconds >= 1e9 ? 1 : 0
        self.init(
            seconds: second + Int64(referenceDateOffset) + carry, nanoseconds: carry == 1 ? 0 : UInt32(nanoseconds))
    }

    /// Reads the data of an extension value. Returns `nil` if it is invalid.
    init?(_ data: UnsafeRawBufferPointer) {
        switch data.count {
        case 4: self.init(seconds: Int64(UInt32(bigEndian: data.loadUnaligned(as: UInt32.self))))
        case 8:
            let bits = UInt64(bigEndian: data.loadUnaligned(as: UInt64.self))
            self.init(seconds: Int64(bits & (1 << 34 - 1)), nanoseconds: UInt32(truncatingIfNeeded: bits >> 34))
        case 12:
            self.init(
                seconds: Int64(bigEndian: data.loadUnaligned(fromByteOffset: 4, as: Int64.self)),
                nanoseconds: UInt32(bigEndian: data.loadUnaligned(as: UInt32.self)))
        default: return nil
        }
        if self.nanoseconds > 999_999_999 { return nil }
    }

    /// The data of the extension value: 4, 8 or 12 bytes.
    var data: [UInt8] {
        let seconds = self.seconds &+ Int64(self.nanoseconds / 1_000_000_000)
        let nanoseconds = self.nanoseconds % 1_000_000_000
        func bytes<Value: FixedWidthInteger>(_ value: Value) -> [UInt8] { withUnsafeBytes(of: value.bigEndian) { Array($0) } }
        if nanoseconds == 0, let seconds = UInt32(exactly: seconds) { return bytes(seconds) }
        if UInt64(bitPattern: seconds) >> 34 == 0 { return bytes(UInt64(nanoseconds) << 34 | UInt64(seconds)) }
        return bytes(nanoseconds) + bytes(seconds)
    }

    /// The seconds since the start of 2001 in UTC, as in a `Date`.
    var secondsSinceReferenceDate: Double {
        let (whole, overflow) = self.seconds.subtractingReportingOverflow(Int64(referenceDateOffset))
        return (overflow ? Double(self.seconds) - referenceDateOffset : Double(whole)) + Double(self.nanoseconds) / 1e9
    }

    /// Creates a timestamp from a date in ISO 8601. Without a time zone, or without a time, it is in UTC.
    ///
    /// - Returns: `nil` if the text isn't a date.
    package init?(iso8601 text: String) {
        guard let seconds = ISO8601.secondsSince2001(text, assumesUTC: true) else { return nil }
        let whole = seconds.rounded(.down)
        let nanoseconds = ((seconds - whole) * 1e9).rounded()
        self.init(
            seconds: Int64(whole) + Int64(referenceDateOffset) + (nanoseconds < 1e9 ? 0 : 1),
            nanoseconds: nanoseconds < 1e9 ? UInt32(nanoseconds) : 0)
    }

    /// The time in ISO 8601, with as many digits of the fraction as necessary, or `nil` if it is more than four million years from 1970.
    package var iso8601: String? {
        guard let text = ISO8601.text(secondsSince2001: Double(self.seconds) - referenceDateOffset, fractionDigits: 0) else { return nil }
        if self.nanoseconds == 0 { return text }
        var digits = String(self.nanoseconds)
        digits = String(repeating: "0", count: max(0, 9 - digits.count)) + digits
        while digits.last == "0" { digits.removeLast() }
        return text.dropLast() + "." + digits + "Z"
    }
}

extension MessagePackTimestamp: Codable {
    private enum CodingKeys: String, CodingKey { case seconds, nanoseconds }

    /// Decodes a timestamp. With a decoder other than ``MessagePackDecoder``, it is an object with both numbers.
    ///
    /// - Parameter decoder: The decoder to read from.
    /// - Throws: `DecodingError` if the value isn't a timestamp.
    public init(from decoder: any Decoder) throws {
        if let decoder = decoder as? NodeDecoder, let document = decoder.document as? MessagePackDocument {
            self = try document.timestamp(Self.self, at: decoder.index)
            return
        }
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            seconds: try container.decode(Int64.self, forKey: .seconds),
            nanoseconds: try container.decode(UInt32.self, forKey: .nanoseconds))
    }

    /// Encodes the timestamp. With an encoder other than ``MessagePackEncoder``, it is an object with both numbers.
    ///
    /// - Parameter encoder: The encoder to write to.
    /// - Throws: An error of the encoder.
    public func encode(to encoder: any Encoder) throws {
        if encoder.isMessagePackEncoder { return try encoder.encodeMessagePackExtension(type: Self.type, data: self.data) }
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(self.seconds, forKey: .seconds)
        try container.encode(self.nanoseconds, forKey: .nanoseconds)
    }
}
