/// The reason why a parser can't encode a value or decode a packet.
///
/// A packet that can't be decoded is skipped. The connection remains.
public struct PrimusParserError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of the error.
    public enum Code: Hashable, Sendable {
        /// A received packet isn't valid for the parser.
        case invalidPacket
        /// The parser can't carry a value.
        case unsupportedValue
        /// A received packet exceeds a limit, for example on the depth of its values.
        case limitExceeded
    }

    /// The kind of the error.
    public let code: Code
    /// A message that says what was wrong. It contains no values.
    public let message: String

    /// Creates an error.
    ///
    /// - Parameters:
    ///   - code: The kind of the error.
    ///   - message: A message that says what was wrong.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// The message.
    public var description: String { self.message }
}
