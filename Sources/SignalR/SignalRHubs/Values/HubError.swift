package import RealtimeCore
import SignalRWire

/// An error of a client, a call or a handler.
///
/// The message describes what failed and, where possible, what to do. It contains no token and no arguments.
public struct HubError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of an error. Future versions may add codes, so a `switch` over codes needs a `default` case.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Value: String, Sendable {
            case notConnected, alreadyStarted, stopped, connectionLost, closedByServer, serverTimeout,
                negotiationFailed, unauthorized, tokenFailed, handshakeFailed, timedOut, cancelled,
                invocationFailed, authenticationRefreshFailed, invalidMessage, encodingFailed, decodingFailed, handlerFailed,
                bufferOverflow, invalidConfiguration, streamConsumed
        }

        private let value: Value

        private init(_ value: Value) {
            self.value = value
        }

        /// The client isn't connected, so that the call can't be sent.
        public static let notConnected = Code(.notConnected)
        /// The client has been started already.
        public static let alreadyStarted = Code(.alreadyStarted)
        /// The client was stopped or released during the call.
        public static let stopped = Code(.stopped)
        /// The connection was lost, or it could not be established.
        public static let connectionLost = Code(.connectionLost)
        /// The server ended the connection and gave a reason.
        public static let closedByServer = Code(.closedByServer)
        /// The server sent nothing for longer than the server timeout.
        public static let serverTimeout = Code(.serverTimeout)
        /// The negotiation failed.
        public static let negotiationFailed = Code(.negotiationFailed)
        /// The server rejected the access token, or there is none.
        public static let unauthorized = Code(.unauthorized)
        /// The closure that provides access tokens threw an error, or returned a token with an invalid character.
        public static let tokenFailed = Code(.tokenFailed)
        /// The server rejected the handshake, or its response was invalid or late.
        public static let handshakeFailed = Code(.handshakeFailed)
        /// A time limit was exceeded.
        public static let timedOut = Code(.timedOut)
        /// The task of the call was cancelled.
        public static let cancelled = Code(.cancelled)
        /// The server completed the call with an error.
        public static let invocationFailed = Code(.invocationFailed)
        /// The server refused to refresh the authentication, or didn't answer. The connection remains.
        public static let authenticationRefreshFailed = Code(.authenticationRefreshFailed)
        /// The server sent an invalid message.
        public static let invalidMessage = Code(.invalidMessage)
        /// A value can't be encoded.
        public static let encodingFailed = Code(.encodingFailed)
        /// A result, an item of a stream or an argument can't be decoded as the requested type.
        public static let decodingFailed = Code(.decodingFailed)
        /// A handler of the application threw an error, or the handlers of a method returned several results.
        public static let handlerFailed = Code(.handlerFailed)
        /// The application didn't read a stream, or its handlers were too slow, while another call waited for the server, so that the client
        /// couldn't stop reading. Or the server acknowledged too little; see ``HubStatefulReconnect/backlogLimit``.
        public static let bufferOverflow = Code(.bufferOverflow)
        /// Another loop has begun to consume the stream. Call the method again for another stream.
        public static let streamConsumed = Code(.streamConsumed)
        /// A value of the configuration is invalid, or a connection is impossible on this system.
        public static let invalidConfiguration = Code(.invalidConfiguration)

        /// The name of the code, such as `timedOut`.
        public var description: String { self.value.rawValue }
    }

    /// The kind of the error.
    public let code: Code
    /// A description of what failed and, where possible, what to do. It has at most 1,000 bytes; the middle of a longer one is left out.
    public let message: String
    /// The text that the server sent, if the error is the server's.
    public let serverMessage: String?
    /// The code that the server sent when it refused to refresh the authentication, such as `invalid_token`.
    public let serverCode: String?
    /// The underlying error, if any: an error that your code threw, a `TransportError`, or another ``HubError``.
    ///
    /// ``message`` only contains the type of an error that your code threw, because its description may contain secrets. Errors that
    /// differ only in their causes are equal. The error of a ``HubState`` has no cause that your code threw; the update and the call that
    /// report the same failure have it.
    public let cause: (any Error)?

    /// Creates an error, for example for a preview or a test of your code.
    ///
    /// - Parameters:
    ///   - code: The kind of the error.
    ///   - message: A description of what failed. It must not contain secrets.
    ///   - serverMessage: The text that the server sent, if the error is the server's.
    ///   - serverCode: The code that the server sent when it refused to refresh the authentication.
    ///   - cause: The underlying error, if any.
    public init(
        _ code: Code, _ message: String, serverMessage: String? = nil, serverCode: String? = nil, cause: (any Error)? = nil
    ) {
        self.code = code
        self.message = Excerpt.message(message)
        self.serverMessage = serverMessage
        self.serverCode = serverCode
        self.cause = cause
    }

    /// The HTTP status of a rejected negotiation, a rejected upgrade to a WebSocket, or a refused refresh of the authentication.
    public var status: Int? { self.transportError?.status }

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

extension HubError: LocalizedError {
    /// The message.
    public var errorDescription: String? { self.message }
}
#endif

extension HubError {
    static let stopped = HubError(.stopped, "The client was stopped. Call start() to connect again.")
    static let released = HubError(
        .stopped, "The client was released, which closed its connection. Keep a reference to it for as long as it is needed.")

    /// Returns what the server is told about an error of the application, whose own text may contain secrets.
    ///
    /// - Parameter source: What threw the error, at the start of a sentence.
    static func text(forServer error: any Error, from source: String) -> String {
        switch error {
        case let error as HubError: error.message
        case let error as HubValueError: error.problem
        default: "\(source) threw an error of type \(type(of: error))."
        }
    }

    /// A server would close the connection.
    static let emptyName = HubError(.encodingFailed, "The call wasn't sent, because the name of its method is empty.")

    static let cancelled = HubError(.cancelled, "The call was cancelled with its task.")

    /// The error for the end of a connection, or of an attempt.
    ///
    /// - Parameter adviceIfTokenRejected: The advice for a server that rejects the access token.
    static func lost(
        _ reason: CloseReason, at endpoint: Endpoint, over transport: HubTransport?, wasConnected: Bool, serverTimeout: Duration,
        adviceIfTokenRejected: String
    ) -> HubError {
        let message = reason.lossMessage(at: endpoint, over: transport?.rawValue, wasConnected: wasConnected)
        switch reason {
        case .requested: return .stopped
        case .heartbeatTimeout:
            let hint = "Check the network, and that the server timeout is at least twice the server's keep-alive interval."
            let name = transport.map { " over \($0)" } ?? ""
            return HubError(.serverTimeout, "The server \(endpoint) sent nothing for \(serverTimeout)\(name). \(hint)")
        case .transport(let error) where error.status == 401:
            // After a redirect to another origin, the message says why the token isn't there.
            return HubError(.unauthorized, error.isOfOtherOrigin ? message : "\(message) \(adviceIfTokenRejected)", cause: error)
        // The message of a permanent failure says what to change, before anything was sent.
        case .transport(let error) where error.code.isPermanent: return HubError(.invalidConfiguration, error.message, cause: error)
        case .transport(let error) where error.status == 413:
            return HubError(.connectionLost, "\(message) \(Self.adviceIfTooLarge)", cause: error)
        case .transport(let error): return HubError(.connectionLost, message, cause: error)
        case .openTimeout: return HubError(wasConnected ? .connectionLost : .timedOut, message)
        case .peer(.tooLarge, _): return HubError(.connectionLost, "\(message) \(Self.adviceIfTooLarge)")
        case .peer: return HubError(.connectionLost, message)
        }
    }

    /// The advice for a message that the server doesn't accept because of its size.
    private static let adviceIfTooLarge =
        "Send smaller messages, or increase the limit of the server, MaximumReceiveMessageSize in ASP.NET Core."

    /// The error of a client that has given up after this loss, because the policy for reconnects threw an error.
    func ended(by policy: HubError) -> HubError {
        HubError(
            self.code, "\(self.message) \(policy.message)", serverMessage: self.serverMessage, serverCode: self.serverCode,
            cause: policy.cause)
    }

    /// The error that the code of the application threw, if it is the reason why there is no connection: a provider of access tokens, a
    /// policy for reconnects, or a transport.
    package var thrownByApplication: (any Error)? {
        switch self.code {
        case .encodingFailed, .decodingFailed, .invocationFailed, .handlerFailed: return nil
        default: break
        }
        switch self.cause {
        case let error as HubError: return error.thrownByApplication
        case let error as TransportError: return error.cause
        case let error: return error
        }
    }

    /// The same error as a machine may keep it: without an error that the application threw, which may refer to any of its objects, and
    /// with the start of a large response.
    var forStorage: HubError {
        let cause: (any Error)? =
            switch self.cause {
            case let error as TransportError: error.forStorage
            case let error as HubError: error.forStorage
            default: nil
            }
        return HubError(self.code, self.message, serverMessage: self.serverMessage, serverCode: self.serverCode, cause: cause)
    }
}

extension HubError: Redacting {
    /// The fields. An error that the application threw is shown as its type, because its description may contain a secret.
    package var visibleFields: [(name: String, value: Any?)] {
        let cause: Any? = self.transportError ?? (self.cause as? HubError) ?? self.cause.map { "\(type(of: $0))" }
        return [
            ("code", self.code), ("message", self.message), ("serverMessage", self.serverMessage), ("serverCode", self.serverCode),
            ("cause", cause),
        ]
    }
}
