/// Why a connection or a request could not be made, or ended early.
///
/// `message` is one sentence that says what was wrong and, where that is known, what to do. It holds no secret.
public struct TransportError: Error, Hashable, Sendable {
    /// What kind of failure it was. More may be added, so a `switch` over it needs a `default`.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Value: String, Sendable {
            case invalidURL, nameNotFound, refused, unreachable, timedOut, reset, closed, cancelled, tlsUnavailable, certificateRejected,
                tlsFailed, upgradeRefused, protocolViolation, tooLarge, addressInUse, unsupported, system
        }

        private let value: Value

        private init(_ value: Value) {
            self.value = value
        }

        /// The address could not be understood.
        public static let invalidURL = Code(.invalidURL)
        /// The host's name has no address.
        public static let nameNotFound = Code(.nameNotFound)
        /// Nothing listens there.
        public static let refused = Code(.refused)
        /// There is no way to the host.
        public static let unreachable = Code(.unreachable)
        /// A time limit ran out.
        public static let timedOut = Code(.timedOut)
        /// The peer cut the connection.
        public static let reset = Code(.reset)
        /// The connection ended before the answer was whole.
        public static let closed = Code(.closed)
        /// The caller took the request back.
        public static let cancelled = Code(.cancelled)
        /// TLS was asked for and no TLS library is there.
        public static let tlsUnavailable = Code(.tlsUnavailable)
        /// The server's certificate was not accepted.
        public static let certificateRejected = Code(.certificateRejected)
        /// The TLS handshake, or the encrypted connection after it, failed for another reason.
        public static let tlsFailed = Code(.tlsFailed)
        /// The server answered the WebSocket upgrade with another status than 101; see ``TransportError/status``.
        public static let upgradeRefused = Code(.upgradeRefused)
        /// The peer sent what the protocol does not allow.
        public static let protocolViolation = Code(.protocolViolation)
        /// A message, head or body was over the limit.
        public static let tooLarge = Code(.tooLarge)
        /// The port to listen on is taken.
        public static let addressInUse = Code(.addressInUse)
        /// This transport cannot do what was asked.
        public static let unsupported = Code(.unsupported)
        /// The operating system refused.
        public static let system = Code(.system)

        /// The kind's name, as in `timedOut`.
        public var description: String { self.value.rawValue }
    }

    /// What kind of failure it was.
    public let code: Code
    /// What was wrong and what to do, in one sentence.
    public let message: String
    /// The HTTP status of a refused upgrade.
    public let status: Int?

    /// Makes an error, for a transport of your own.
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
