#if !canImport(Network)
public import Foundation

/// The types of WebSockets in Apple's framework Network, for platforms without it.
public enum NWProtocolWebSocket {
    /// The settings of a WebSocket.
    ///
    /// `@unchecked Sendable`: a lock isn't necessary, because a socket copies the settings when it is created.
    public final class Options: @unchecked Sendable {
        /// Whether pings are answered. They always are; the property exists for compatibility.
        public var autoReplyPing = false
        /// The maximum size of a received message in bytes; zero for the default, which is 16 MiB.
        public var maximumMessageSize = 0
        private(set) var subprotocols: [String] = []
        private(set) var additionalHeaders: [(name: String, value: String)] = []

        /// Creates settings with the default values.
        public init() {}

        /// Sets the subprotocols to offer to the server, in order of preference.
        public func setSubprotocols(_ subprotocols: [String]) { self.subprotocols = subprotocols }

        /// Sets additional header fields of the request.
        public func setAdditionalHeaders(_ headers: [(name: String, value: String)]) { self.additionalHeaders = headers }
    }

    /// A close code.
    public enum CloseCode: Equatable, Sendable {
        /// The close codes of the WebSocket protocol.
        public enum Defined: UInt16, Sendable {
            /// The connection fulfilled its purpose.
            case normalClosure = 1000
            /// The peer is going away.
            case goingAway = 1001
            /// The peer violated the protocol.
            case protocolError = 1002
            /// The peer received a type of data that it doesn't support.
            case unsupportedData = 1003
            /// The close frame contained no code.
            case noStatusReceived = 1005
            /// The connection ended without a close frame.
            case abnormalClosure = 1006
            /// A text message wasn't valid UTF-8.
            case invalidFramePayloadData = 1007
            /// A message violated the receiver's policy.
            case policyViolation = 1008
            /// A message was too large.
            case messageTooBig = 1009
            /// The server doesn't support an extension that the client requires.
            case mandatoryExtension = 1010
            /// The server encountered an unexpected error.
            case internalServerError = 1011
            /// The TLS handshake failed.
            case tlsHandshake = 1015
        }

        /// A code of the WebSocket protocol.
        case protocolCode(Defined)
        /// A code that is registered for an application, from 3000 to 3999.
        case applicationCode(UInt16)
        /// A private code, from 4000 to 4999, such as the codes of the Pusher protocol.
        case privateCode(UInt16)
    }
}

/// An error of the network.
public enum NWError: Error, Equatable, Sendable, CustomDebugStringConvertible {
    /// An error code of the operating system.
    case posix(POSIXErrorCode)
    /// The host name couldn't be resolved.
    case dns(Int32)
    /// The connection couldn't be secured.
    case tls(Int32)

    /// The kind and the code of the error.
    public var debugDescription: String {
        switch self {
        case .posix(let code): "POSIXErrorCode(rawValue: \(code.rawValue))"
        case .dns(let code): "DNSError(\(code))"
        case .tls(let code): "TLSError(\(code))"
        }
    }
}
#endif
