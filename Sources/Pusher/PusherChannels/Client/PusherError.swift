import RealtimeCore

/// What went wrong, with what to do about it.
///
/// No message holds a secret or a token.
public struct PusherError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What kind of failure it was. More may be added, so a `switch` over it needs a `default`.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Value: String, Sendable {
            case invalidChannelName, invalidEventName, dataTooLarge, notSubscribed, queueFull, clientEventsNotAllowed, unsupportedChannel,
                authorizationMissing, authorizationFailed, subscriptionRefused, timedOut, cancelled, disconnected, refused, failed, server,
                invalidFrame, noData, invalidConfiguration, encodingFailed, connectionLost
        }

        private let value: Value

        private init(_ value: Value) {
            self.value = value
        }

        /// A channel's name that the service would not accept.
        public static let invalidChannelName = Code(.invalidChannelName)
        /// An event's name that the service would not accept.
        public static let invalidEventName = Code(.invalidEventName)
        /// More data than the service takes.
        public static let dataTooLarge = Code(.dataTooLarge)
        /// The channel is not subscribed, and nobody wants it to be.
        public static let notSubscribed = Code(.notSubscribed)
        /// Too many client events wait for the subscription.
        public static let queueFull = Code(.queueFull)
        /// Client events are for private and presence channels.
        public static let clientEventsNotAllowed = Code(.clientEventsNotAllowed)
        /// A kind of channel that this version does not know.
        public static let unsupportedChannel = Code(.unsupportedChannel)
        /// The channel needs an authorisation and the configuration says nothing of one.
        public static let authorizationMissing = Code(.authorizationMissing)
        /// The application's server, or the callback, gave no authorisation.
        public static let authorizationFailed = Code(.authorizationFailed)
        /// The service refused the subscription.
        public static let subscriptionRefused = Code(.subscriptionRefused)
        /// No answer came in time.
        public static let timedOut = Code(.timedOut)
        /// The waiting task was cancelled.
        public static let cancelled = Code(.cancelled)
        /// The connection ended as asked, or the channel was unsubscribed, before the answer came.
        public static let disconnected = Code(.disconnected)
        /// The service refused the connection, and would refuse it again: a wrong key, an exhausted quota.
        public static let refused = Code(.refused)
        /// No connection is possible from here at all, such as `wss` without a TLS library.
        public static let failed = Code(.failed)
        /// The service reported an error; ``PusherError/serverCode`` has its number.
        public static let server = Code(.server)
        /// A frame that could not be understood. It was dropped; the connection goes on.
        public static let invalidFrame = Code(.invalidFrame)
        /// The event carries no data to decode.
        public static let noData = Code(.noData)
        /// The configuration cannot be used.
        public static let invalidConfiguration = Code(.invalidConfiguration)
        /// The connection was lost, or an attempt at one failed. The client tries again by itself.
        public static let connectionLost = Code(.connectionLost)
        /// The data to send could not be put into JSON.
        public static let encodingFailed = Code(.encodingFailed)

        /// The kind's name, as in `timedOut`.
        public var description: String { self.value.rawValue }
    }

    /// What kind of failure it was.
    public let code: Code
    /// What was wrong and what to do.
    public let message: String
    /// The service's own number, such as 4001, where it gave one.
    public let serverCode: Int?
    /// The HTTP status of an authorisation that was refused.
    public let status: Int?
    /// What your own code threw, or the transport's `TransportError`, where that is why. The message names no more than the
    /// type of an error of yours, since its words may hold what no log should: look at this to know more.
    ///
    /// Two errors that differ in nothing else are equal.
    public let cause: (any Error)?

    package init(_ code: Code, _ message: String, serverCode: Int? = nil, status: Int? = nil, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.serverCode = serverCode
        self.status = status
        self.cause = cause
    }

    /// Whether code, message and numbers are the same.
    public static func == (left: Self, right: Self) -> Bool {
        left.code == right.code && left.message == right.message && left.serverCode == right.serverCode && left.status == right.status
    }

    /// Hashes what ``==(_:_:)`` compares.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(self.code)
        hasher.combine(self.message)
        hasher.combine(self.serverCode)
        hasher.combine(self.status)
    }

    /// The message.
    public var description: String { self.message }
}

extension PusherError {
    static let cancelledByTask = PusherError(.cancelled, "The waiting task was cancelled.")

    /// Whether a subscription that failed so is worth another try by itself: the application's server was not to be
    /// reached, or was in trouble. One that refuses is not asked again.
    var isTransient: Bool {
        switch self.code {
        case .timedOut: true
        case .authorizationFailed: self.status.map { $0 >= 500 || $0 == 408 || $0 == 429 } ?? true
        default: false
        }
    }

    /// Why there is no connection at the moment; the client is trying to get one again.
    static func lost(_ reason: CloseReason, wasConnected: Bool) -> PusherError {
        var cause: TransportError?
        if case .transport(let error) = reason { cause = error }
        let what = wasConnected ? "The connection was lost" : "The connection could not be made"
        let why = reason.description
        let stop = why.hasSuffix(".") ? "" : "."
        return PusherError(.connectionLost, "\(what): \(why)\(stop)", status: cause?.status, cause: cause)
    }

    /// Why a connection is over for good.
    static func ended(_ reason: CloseReason) -> PusherError {
        switch reason {
        case .peer(let code, let words) where (4000...4099).contains(code.rawValue):
            let hint =
                switch code.rawValue {
                case 4001: "There is no application with this key: check the key and the cluster or host."
                case 4003: "The application is disabled: see its dashboard."
                case 4004: "The application has no connections left: close some, or raise its quota."
                case 4005: "The service does not know this path: check the configuration's path."
                case 4006...4008: "The service does not speak this version of the protocol."
                case 4009: "The connection is not authorised."
                default: "The service refuses this connection."
                }
            let said = words.isEmpty ? "" : " (\(words))"
            return PusherError(.refused, "\(hint) It closed with code \(code)\(said).", serverCode: Int(code.rawValue))
        case .transport(let error):
            return PusherError(.failed, error.message, status: error.status, cause: error)
        default:
            return PusherError(.disconnected, "The connection has ended: \(reason).")
        }
    }
}
