public import RealtimeCore

/// An error of a client, a write or a call of a plugin.
///
/// The message describes what failed and, where possible, what to do. It contains no credentials and no data of messages.
public struct PrimusError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of an error. Future versions may add codes, so a `switch` over codes needs a `default` case.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Value: String, Sendable {
            case notOpen, ended, connectionLost, closedByServer, serverSilent, detectionFailed, unauthorized, credentialsFailed
            case unsupported, handshakeFailed, timedOut, cancelled, queueFull, dropped, vetoed, messageTooLarge, invalidMessage
            case encodingFailed, decodingFailed, transformFailed, pluginOff, pluginFailed, reservedEvent, bufferOverflow,
                invalidConfiguration
        }

        private let value: Value

        private init(_ value: Value) {
            self.value = value
        }

        /// The client isn't open, and the call doesn't wait until it is.
        public static let notOpen = Code(.notOpen)
        /// The client was ended or released during the call.
        public static let ended = Code(.ended)
        /// The connection was lost, or it could not be established.
        public static let connectionLost = Code(.connectionLost)
        /// The server ended the connection for good.
        public static let closedByServer = Code(.closedByServer)
        /// The server sent nothing for longer than its heartbeat allows.
        public static let serverSilent = Code(.serverSilent)
        /// The server's specification could not be read.
        public static let detectionFailed = Code(.detectionFailed)
        /// The server refused the connection with the status 401 or 403.
        public static let unauthorized = Code(.unauthorized)
        /// The closure that provides credentials, or the one that changes the URL, threw an error or returned an invalid value.
        public static let credentialsFailed = Code(.credentialsFailed)
        /// The client doesn't support the server's transformer or parser, or the two can't work together.
        public static let unsupported = Code(.unsupported)
        /// The server's first message was invalid or late.
        public static let handshakeFailed = Code(.handshakeFailed)
        /// A time limit was exceeded.
        public static let timedOut = Code(.timedOut)
        /// The task of the call was cancelled.
        public static let cancelled = Code(.cancelled)
        /// The queue of messages that wait for a connection is full.
        public static let queueFull = Code(.queueFull)
        /// The message was removed from the full queue, in favor of another one.
        public static let dropped = Code(.dropped)
        /// A transform decided that the message isn't sent.
        public static let vetoed = Code(.vetoed)
        /// A message is larger than the receiver accepts.
        public static let messageTooLarge = Code(.messageTooLarge)
        /// The server sent an invalid message.
        public static let invalidMessage = Code(.invalidMessage)
        /// A value can't be encoded.
        public static let encodingFailed = Code(.encodingFailed)
        /// A message can't be decoded as the requested type.
        public static let decodingFailed = Code(.decodingFailed)
        /// A transform or a plugin of the application threw an error.
        public static let transformFailed = Code(.transformFailed)
        /// The plugin isn't among those of the configuration.
        public static let pluginOff = Code(.pluginOff)
        /// Primus reserves the name of an event, so that the server would ignore the event.
        public static let reservedEvent = Code(.reservedEvent)
        /// A packet of a plugin was invalid, or a handler of the application failed.
        public static let pluginFailed = Code(.pluginFailed)
        /// The application didn't read messages while a call waited for the server, so that the client couldn't stop reading.
        public static let bufferOverflow = Code(.bufferOverflow)
        /// A value of the configuration is invalid, or a connection is impossible on this system.
        public static let invalidConfiguration = Code(.invalidConfiguration)

        /// The name of the code, such as `timedOut`.
        public var description: String { self.value.rawValue }
    }

    /// The kind of the error.
    public let code: Code
    /// A description of what failed and, where possible, what to do. It has at most 1,000 bytes; the middle of a longer one is left out.
    public let message: String
    /// The text that the server sent with a refusal: the member `error` of its JSON body. On Apple platforms, `nil` for a refused upgrade to a
    /// WebSocket, because the system hides the body of the response.
    public let serverMessage: String?
    /// The code that the server sent: that of a WebSocket close frame, of a close frame of SockJS, or of a refusal of engine.io.
    public let serverCode: PrimusCloseCode?
    /// The underlying error, if any: an error that your code threw, a `TransportError`, or another ``PrimusError``.
    ///
    /// ``message`` only contains the type of an error that your code threw, because its description may contain secrets. Errors that
    /// differ only in their causes are equal. The error of a ``PrimusState`` has no cause that your code threw.
    public let cause: (any Error)?

    /// Creates an error, for example for a preview or a test of your code.
    ///
    /// - Parameters:
    ///   - code: The kind of the error.
    ///   - message: A description of what failed. It must not contain secrets.
    ///   - serverMessage: The text that the server sent.
    ///   - serverCode: The code that the server sent.
    ///   - cause: The underlying error, if any.
    public init(
        _ code: Code, _ message: String, serverMessage: String? = nil, serverCode: PrimusCloseCode? = nil, cause: (any Error)? = nil
    ) {
        self.code = code
        self.message = Excerpt.message(message)
        self.serverMessage = serverMessage
        self.serverCode = serverCode
        self.cause = cause
    }

    /// The HTTP status of a refused request or upgrade.
    public var status: Int? { self.transportError?.status }

    /// The header fields of the refusal, such as `WWW-Authenticate`; `nil` if there was none, or the transport doesn't provide it.
    public var headers: HTTPHeaders? { self.transportError?.response?.head.headers }

    /// The failure of the transport, if that is the cause.
    package var transportError: TransportError? { self.cause as? TransportError }

    /// Returns whether two errors have the same code, message, server message and server code. Their causes aren't compared.
    public static func == (left: Self, right: Self) -> Bool {
        left.code == right.code && left.message == right.message && left.serverMessage == right.serverMessage
            && left.serverCode == right.serverCode
    }

    /// Hashes the code, the message, the server message and the server code.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(self.code)
        hasher.combine(self.message)
        hasher.combine(self.serverMessage)
        hasher.combine(self.serverCode)
    }

    /// The message.
    public var description: String { self.message }

    /// The message. It replaces the general text that Foundation provides for errors.
    ///
    /// On Apple platforms, an error that has lost its type has it too: the error conforms to `LocalizedError` there.
    public var localizedDescription: String { self.message }
}

#if canImport(Darwin)
public import Foundation

extension PrimusError: LocalizedError {
    /// The message.
    public var errorDescription: String? { self.message }
}
#endif

extension PrimusError {
    static let ended = PrimusError(.ended, "The client was ended.")
    static let released = PrimusError(.ended, "The client was released.")
    static let cancelled = PrimusError(.cancelled, "The call was cancelled with its task.")

    /// The same error as a machine may keep it: without an error that the application threw, which may refer to any of its objects, and
    /// with the start of a large response.
    var forStorage: PrimusError {
        let cause: (any Error)? =
            switch self.cause {
            case let error as TransportError: error.forStorage
            case let error as PrimusError: error.forStorage
            default: nil
            }
        return PrimusError(self.code, self.message, serverMessage: self.serverMessage, serverCode: self.serverCode, cause: cause)
    }
}

extension PrimusError: Redacting {
    /// The fields. An error that the application threw is shown as its type, because its description may contain a secret.
    package var visibleFields: [(name: String, value: Any?)] {
        let cause: Any? = self.transportError ?? (self.cause as? PrimusError) ?? self.cause.map { "\(type(of: $0))" }
        return [
            ("code", self.code), ("message", self.message), ("serverMessage", self.serverMessage), ("serverCode", self.serverCode),
            ("cause", cause),
        ]
    }
}
