/// A WebSocket close code (RFC 6455 section 7.4): any number, since applications define their own from 3000 on.
public struct CloseCode: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The number on the wire.
    public var rawValue: UInt16

    /// A code by its number.
    public init(rawValue: UInt16) {
        self.rawValue = rawValue
    }

    /// 1000: the purpose was fulfilled.
    public static let normal = CloseCode(rawValue: 1000)
    /// 1001: the peer goes away, as a server that stops does.
    public static let goingAway = CloseCode(rawValue: 1001)
    /// 1002: a frame that the protocol does not allow.
    public static let protocolError = CloseCode(rawValue: 1002)
    /// 1003: a kind of data that is not accepted.
    public static let unsupportedData = CloseCode(rawValue: 1003)
    /// 1005: the close frame carried no code. Never on the wire.
    public static let noStatus = CloseCode(rawValue: 1005)
    /// 1006: the connection ended without a close frame. Never on the wire.
    public static let abnormal = CloseCode(rawValue: 1006)
    /// 1007: text that is not UTF-8.
    public static let invalidPayload = CloseCode(rawValue: 1007)
    /// 1008: against the receiver's rules.
    public static let policyViolation = CloseCode(rawValue: 1008)
    /// 1009: too large to process.
    public static let tooLarge = CloseCode(rawValue: 1009)
    /// 1011: the server met a condition it did not expect.
    public static let internalError = CloseCode(rawValue: 1011)

    /// The number.
    public var description: String { "\(self.rawValue)" }
}

/// Why a connection ended.
public enum CloseReason: Hashable, Sendable {
    /// This side asked for it.
    case requested
    /// The connection, with the protocol's greeting, did not come about in time.
    case openTimeout
    /// The peer was silent for too long.
    case heartbeatTimeout
    /// The peer closed, with a code and its words; ``CloseCode/noStatus`` when it gave none.
    case peer(CloseCode, String)
    /// The transport failed, or the peer went without a close frame.
    case transport(TransportError)
}

extension CloseReason: CustomStringConvertible {
    /// The reason in words, for logs and messages.
    public var description: String {
        switch self {
        case .requested: "closed as asked"
        case .openTimeout: "the server did not say in time that it is ready"
        case .heartbeatTimeout: "the server was silent for too long"
        case .peer(.noStatus, _): "the server closed without a code"
        case .peer(let code, ""): "the server closed with code \(code)"
        case .peer(let code, let words): "the server closed with code \(code): \(words)"
        case .transport(let error): error.message
        }
    }
}
