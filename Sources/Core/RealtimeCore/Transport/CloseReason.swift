/// A WebSocket close code (RFC 6455 section 7.4). Any number is valid: applications define their own codes from 3000 to 4999.
public struct CloseCode: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The number sent in the close frame.
    public var rawValue: UInt16

    /// Creates a close code from its number.
    public init(rawValue: UInt16) {
        self.rawValue = rawValue
    }

    /// 1000: the connection fulfilled its purpose.
    public static let normal = CloseCode(rawValue: 1000)
    /// 1001: the peer is going away, for example because the server shuts down.
    public static let goingAway = CloseCode(rawValue: 1001)
    /// 1002: the peer violated the WebSocket protocol.
    public static let protocolError = CloseCode(rawValue: 1002)
    /// 1003: the peer received a type of data that it doesn't support.
    public static let unsupportedData = CloseCode(rawValue: 1003)
    /// 1005: the close frame contained no code. Never sent.
    public static let noStatus = CloseCode(rawValue: 1005)
    /// 1006: the connection ended without a close frame. Never sent.
    public static let abnormal = CloseCode(rawValue: 1006)
    /// 1007: a text message wasn't valid UTF-8.
    public static let invalidPayload = CloseCode(rawValue: 1007)
    /// 1008: a message violated the receiver's policy.
    public static let policyViolation = CloseCode(rawValue: 1008)
    /// 1009: a message was too large to process.
    public static let tooLarge = CloseCode(rawValue: 1009)
    /// 1011: the server encountered an unexpected error.
    public static let internalError = CloseCode(rawValue: 1011)

    /// The number as text.
    public var description: String { "\(self.rawValue)" }
}

/// The reason why a connection ended.
public enum CloseReason: Hashable, Sendable {
    /// The application closed the connection.
    case requested
    /// The connection, including the protocol's handshake, wasn't established in time.
    case openTimeout
    /// The peer sent nothing for longer than the protocol's heartbeat allows.
    case heartbeatTimeout
    /// The peer closed the connection, with a code and its explanation. The code is ``CloseCode/noStatus`` if the peer sent none.
    case peer(CloseCode, String)
    /// The transport failed, or the peer ended the connection without a close frame.
    case transport(TransportError)
}

extension CloseReason {
    /// The same reason without an error that the application threw, which may refer to any of its objects.
    package var withoutCause: CloseReason {
        if case .transport(let error) = self { .transport(error.withoutCause) } else { self }
    }
}

extension CloseReason: CustomStringConvertible {
    /// A description of the reason, for log and error messages.
    public var description: String {
        switch self {
        case .requested: "closed by the application"
        case .openTimeout: "the server did not complete the handshake in time"
        case .heartbeatTimeout: "the server did not respond to the heartbeat in time"
        case .peer(.noStatus, _): "the server closed the connection without a code"
        case .peer(let code, ""): "the server closed the connection with code \(code)"
        case .peer(let code, let explanation): "the server closed the connection with code \(code): \(explanation)"
        case .transport(let error): error.message
        }
    }
}
