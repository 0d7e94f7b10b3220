/// The reason why a connection or a request failed.
///
/// ``message`` describes the failure and, where possible, how to fix it. It contains no secrets.
public struct TransportError: Error, Hashable, Sendable {
    /// The kind of a failure. Future versions may add codes, so a `switch` over codes needs a `default` case.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Value: String, Sendable {
            case invalidURL, nameNotFound, refused, unreachable, timedOut, reset, closed, cancelled, tlsUnavailable
            case invalidTLSConfiguration, certificateRejected, tlsFailed, upgradeRejected, requestRejected, protocolViolation, tooLarge
            case addressInUse, unsupported, system, proxyRejected
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
        /// The TLS configuration can't be used: a certificate or key is missing, can't be read or doesn't fit, or the TLS library doesn't
        /// support a setting.
        public static let invalidTLSConfiguration = Code(.invalidTLSConfiguration)
        /// The server's certificate was rejected.
        public static let certificateRejected = Code(.certificateRejected)
        /// The TLS handshake or the encrypted connection failed for another reason.
        public static let tlsFailed = Code(.tlsFailed)
        /// The server responded to the WebSocket upgrade with a status other than 101; see ``TransportError/response``.
        public static let upgradeRejected = Code(.upgradeRejected)
        /// The server responded to a request with a status that isn't 2xx; see ``TransportError/response``. Transports return such a response.
        /// The error is for callers that require success.
        public static let requestRejected = Code(.requestRejected)
        /// The proxy didn't connect to the server: it requires other credentials, doesn't allow the connection, or can't reach the server.
        /// For an HTTP proxy, ``TransportError/status`` is the status of its response.
        public static let proxyRejected = Code(.proxyRejected)
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

        /// Whether another attempt fails as well, because the reason lies in the configuration or the program.
        package var isPermanent: Bool { [.invalidURL, .tlsUnavailable, .invalidTLSConfiguration, .unsupported].contains(self) }

        /// The name of the code, for example `timedOut`.
        public var description: String { self.value.rawValue }
    }

    /// The kind of the failure.
    public let code: Code
    /// A sentence that describes the failure and, where possible, how to fix it. It has at most 1,000 bytes; the middle of a longer one is
    /// left out.
    public let message: String
    private let details: Details?

    /// The details of a failed HTTP request. Stored out of line, because most errors have none.
    private indirect enum Details: Sendable {
        case status(Int)
        case response(HTTPResponse, isOfOtherOrigin: Bool)
        case cause(any Error)
    }

    /// The maximum size of the body of ``response``, in bytes.
    package static let responseBodyLimit = 64 << 10

    /// The HTTP status that belongs to the failure, for example of a rejected upgrade. With ``Code/proxyRejected``, the proxy sent it.
    public var status: Int? {
        switch self.details {
        case .status(let status): status
        case .response(let response, _): response.head.status
        case .cause, nil: nil
        }
    }

    /// The HTTP response that belongs to the failure, for example of a rejected upgrade, with its header fields and the first 64 KiB
    /// of its body. `nil` if there was none or the transport doesn't provide it.
    ///
    /// The header fields and the body can contain secrets. They are not part of ``description``.
    public var response: HTTPResponse? {
        if case .response(let response, _) = self.details { response } else { nil }
    }

    /// Whether a redirect led to ``response``, from another origin. The request had no credentials there.
    package var isOfOtherOrigin: Bool { if case .response(_, true) = self.details { true } else { false } }

    /// The error that your code threw, if it is the reason, for example of a custom transport.
    ///
    /// ``message`` doesn't contain its description, which may contain secrets. Errors that differ only in their causes are equal.
    public var cause: (any Error)? {
        if case .cause(let error) = self.details { error } else { nil }
    }

    /// Creates an error. Used by custom transports.
    ///
    /// - Parameters:
    ///   - code: The kind of the failure.
    ///   - message: A sentence that describes the failure. It must not contain secrets, because it may be logged.
    ///   - status: The HTTP status that belongs to the failure.
    public init(_ code: Code, _ message: String, status: Int? = nil) {
        self.code = code
        self.message = Excerpt.message(message)
        self.details = status.map { .status($0) }
    }

    /// Creates an error that belongs to a response. Used by custom transports.
    ///
    /// - Parameters:
    ///   - code: The kind of the failure.
    ///   - message: A sentence that describes the failure. It must not contain secrets, because it may be logged.
    ///   - response: The response. The part of its body beyond 64 KiB is removed.
    public init(_ code: Code, _ message: String, response: HTTPResponse) {
        self.init(code, message, response: response, isOfOtherOrigin: false)
    }

    package init(_ code: Code, _ message: String, response: HTTPResponse, isOfOtherOrigin: Bool) {
        self.code = code
        self.message = Excerpt.message(message)
        var response = response
        if response.body.count > Self.responseBodyLimit { response.body = Array(response.body.prefix(Self.responseBodyLimit)) }
        self.details = .response(response, isOfOtherOrigin: isOfOtherOrigin)
    }

    /// Creates an error for one that the code of the application threw. Used by custom transports.
    ///
    /// - Parameters:
    ///   - code: The kind of the failure.
    ///   - message: A sentence that describes the failure. It must not contain secrets, because it may be logged.
    ///   - cause: The error that was thrown.
    public init(_ code: Code, _ message: String, cause: any Error) {
        self.code = code
        self.message = Excerpt.message(message)
        self.details = .cause(cause)
    }

    /// Returns whether two errors have the same code, message, status and response. Their causes aren't compared.
    public static func == (left: Self, right: Self) -> Bool {
        left.code == right.code && left.message == right.message && left.status == right.status && left.response == right.response
    }

    /// Hashes the code, the message and the status.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(self.code)
        hasher.combine(self.message)
        hasher.combine(self.status)
    }

    /// Returns the error with another message, and the same code, status, response and cause.
    package func withMessage(_ message: String) -> TransportError {
        if let cause { return TransportError(self.code, message, cause: cause) }
        guard let response = self.response else { return TransportError(self.code, message, status: self.status) }
        return TransportError(self.code, message, response: response, isOfOtherOrigin: self.isOfOtherOrigin)
    }

    /// The error of a connection whose peer sends a message above the limit.
    package static func oversizedMessage(limit: Int) -> TransportError {
        TransportError(.tooLarge, "The peer sent a message of more than \(limit) bytes. Increase the message limit to accept it.")
    }

    /// The reason that the peer receives then, with the code 1009.
    package static func reasonForOversizedMessage(limit: Int) -> String { "The message exceeds the receiver's limit of \(limit) bytes." }

    /// The same error without the one that the application threw, which may refer to any of its objects.
    package var withoutCause: TransportError { self.cause == nil ? self : TransportError(self.code, self.message) }

    /// The same error as a machine may keep it: without an error that the application threw, and with the first KiB of the body of a
    /// response, which may be large.
    package var forStorage: TransportError {
        if self.cause != nil { return self.withoutCause }
        guard var response = self.response, response.body.count > 1 << 10 else { return self }
        response.body = Array(response.body.prefix(1 << 10))
        return TransportError(self.code, self.message, response: response, isOfOtherOrigin: self.isOfOtherOrigin)
    }
}

extension TransportError: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The message.
    public var description: String { self.message }

    /// The message. It replaces the general text that Foundation provides for errors.
    ///
    /// On Apple platforms, an error that has lost its type has it too: the error conforms to `LocalizedError` there.
    public var localizedDescription: String { self.message }

    /// The code, the message and the status.
    public var debugDescription: String {
        "TransportError(\(self.code)\(self.status.map { ", status \($0)" } ?? "")): \(self.message)"
    }

    /// A mirror without the header fields and the body of the response, which can contain secrets.
    public var customMirror: Mirror {
        var children: [(label: String?, value: Any)] = [("code", self.code), ("message", self.message), ("status", self.status as Any)]
        if let response = self.response {
            children.append(("response", "\(response.head.headers.fields.count) header fields, \(response.body.count) bytes"))
        }
        if let cause { children.append(("cause", "\(type(of: cause))")) }
        return Mirror(self, children: children, displayStyle: .struct)
    }
}
