/// The reason why a connection or a request failed.
///
/// ``message`` describes the failure and, where possible, how to fix it. It contains no secrets.
public struct TransportError: Error, Hashable, Sendable {
    /// The kind of a failure. Future versions may add codes, so a `switch` over codes needs a `default` case.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Value: String, Sendable {
            case invalidURL, nameNotFound, refused, unreachable, timedOut, reset, closed, cancelled, tlsUnavailable, certificateRejected,
                tlsFailed, upgradeRejected, protocolViolation, tooLarge, addressInUse, unsupported, system
        }

        private let value: Value

        private init(_ value: Value) {
            self.value = value
        }

        /// The URL is invalid.
        public static let invalidURL = Code(.invalidURL)
        /// The host name could not be resolved.
        public static let nameNotFound = Code(.nameNotFound)
        /// The host refused the connection because no server is listening on the port.
        public static let refused = Code(.refused)
        /// No route to the host.
        public static let unreachable = Code(.unreachable)
        /// The operation exceeded its time limit.
        public static let timedOut = Code(.timedOut)
        /// The peer reset the connection.
        public static let reset = Code(.reset)
        /// The connection ended before the operation was complete.
        public static let closed = Code(.closed)
        /// The task was cancelled.
        public static let cancelled = Code(.cancelled)
        /// The connection requires TLS, but no TLS library is available.
        public static let tlsUnavailable = Code(.tlsUnavailable)
        /// The server's certificate was rejected.
        public static let certificateRejected = Code(.certificateRejected)
        /// The TLS handshake or the encrypted connection failed for another reason.
        public static let tlsFailed = Code(.tlsFailed)
        /// The server responded to the WebSocket upgrade with a status other than 101; see ``TransportError/status``.
        public static let upgradeRejected = Code(.upgradeRejected)
        /// The peer violated the protocol.
        public static let protocolViolation = Code(.protocolViolation)
        /// A message, head or body exceeded its size limit.
        public static let tooLarge = Code(.tooLarge)
        /// The port to listen on is in use.
        public static let addressInUse = Code(.addressInUse)
        /// The transport doesn't support the operation.
        public static let unsupported = Code(.unsupported)
        /// A call to the operating system failed.
        public static let system = Code(.system)

        /// The name of the code, for example `timedOut`.
        public var description: String { self.value.rawValue }
    }

    /// The kind of the failure.
    public let code: Code
    /// A sentence that describes the failure and, where possible, how to fix it.
    public let message: String
    /// The HTTP status that belongs to the failure, for example that of a rejected upgrade.
    public let status: Int?

    /// Creates an error. Used by custom transports.
    ///
    /// - Parameters:
    ///   - code: The kind of the failure.
    ///   - message: A sentence that describes the failure. It must not contain secrets, because it may be logged.
    ///   - status: The HTTP status that belongs to the failure.
    public init(_ code: Code, _ message: String, status: Int? = nil) {
        self.code = code
        self.message = message
        self.status = status
    }
}

extension TransportError: CustomStringConvertible {
    /// The message.
    public var description: String { self.message }
}
