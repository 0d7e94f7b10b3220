package import RealtimeCoding

/// A point in time with the resolution of JavaScript, for programs without Foundation.
///
/// In messages that are decoded to types of the application, `Date` of Foundation works, too.
public struct PrimusDate: Hashable, Comparable, Sendable {
    /// The milliseconds since the start of 1970 in UTC.
    public var milliseconds: Double

    /// Creates a point in time.
    ///
    /// - Parameter milliseconds: The milliseconds since the start of 1970 in UTC.
    public init(milliseconds: Double) { self.milliseconds = milliseconds }

    /// Whether a date is earlier than another one.
    public static func < (lhs: Self, rhs: Self) -> Bool { lhs.milliseconds < rhs.milliseconds }

    /// Whether JavaScript represents the date. One that it doesn't, such as `new Date(NaN)`, is an invalid date there.
    ///
    /// Source: the section on time values in the ECMAScript specification.
    package var isValid: Bool { abs(self.milliseconds) <= 8.64e15 }

    /// The date as a timestamp; `nil` if it is outside of what JavaScript represents.
    package var timestamp: MessagePackTimestamp? {
        guard self.isValid else { return nil }
        let seconds = (self.milliseconds / 1000).rounded(.down)
        let nanoseconds = ((self.milliseconds - seconds * 1000) * 1_000_000).rounded()
        guard nanoseconds < 1_000_000_000 else { return MessagePackTimestamp(seconds: Int64(seconds) + 1) }
        return MessagePackTimestamp(seconds: Int64(seconds), nanoseconds: UInt32(nanoseconds))
    }

    package init(_ timestamp: MessagePackTimestamp) {
        self.milliseconds = Double(timestamp.seconds) * 1000 + Double(timestamp.nanoseconds) / 1_000_000
    }
}

extension PrimusValue {
    /// A date that was received. An invalid one is null, as in JSON: it has no time.
    static func received(_ date: PrimusDate) -> PrimusValue { date.isValid ? .date(date) : .null }
}

extension PrimusDate: Codable {
    /// Decodes a point in time in the form of the connection's parser.
    ///
    /// - Parameter decoder: The decoder to read from.
    /// - Throws: `DecodingError` if the value isn't a date, nor the text of a date in ISO 8601.
    public init(from decoder: any Decoder) throws {
        if decoder.isMessagePackDecoder, let timestamp = try? MessagePackTimestamp(from: decoder) {
            self.init(timestamp)
            return
        }
        let container = try decoder.singleValueContainer()
        guard let timestamp = MessagePackTimestamp(iso8601: try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "The text isn't a date in ISO 8601.")
        }
        self.init(timestamp)
    }

    /// Encodes the point in time in the form of the connection's parser; without one, as a text in ISO 8601.
    ///
    /// - Parameter encoder: The encoder to write to.
    /// - Throws: `EncodingError` if JavaScript can't represent the date.
    public func encode(to encoder: any Encoder) throws {
        guard let timestamp, let text = self.text else {
            let context = EncodingError.Context(codingPath: encoder.codingPath, debugDescription: "JavaScript can't represent this date.")
            throw EncodingError.invalidValue(self, context)
        }
        if encoder.isMessagePackEncoder { return try timestamp.encode(to: encoder) }
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }

    /// The date in ISO 8601, as JavaScript writes it, but without digits that are zero; `nil` if JavaScript can't represent it.
    var text: String? { self.timestamp?.iso8601 }
}
