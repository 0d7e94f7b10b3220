import RealtimeCore
import SignalRHubs

/// An error of a ``HubConnection``.
public enum SignalRError: Error, Equatable, CustomStringConvertible {
    case incompleteMessage
    case invalidDataType
    case failedToEncodeHandshakeRequest
    case failedToDecodeResponseData
    case expectedHandshakeResponse
    case noHandshakeMessageReceived
    case unsupportedHandshakeVersion
    /// The server rejected the handshake, or its response was invalid or late.
    case handshakeError(String)
    /// The connection was stopped during the call.
    case connectionAborted
    /// The negotiation failed, or the server didn't accept the access token.
    case negotiationError(String)
    /// The connection couldn't be established.
    case failedToStartConnection(String)
    /// The call isn't possible in the state of the connection.
    case invalidOperation(String)
    case unexpectedResponseCode(Int)
    case invalidTextMessageEncoding
    /// A request wasn't answered in time.
    case httpTimeoutError
    case invalidResponseType
    case cannotSentUntilTransportConnected
    /// A value can't be encoded or decoded, or a message is invalid.
    case invalidData(String)
    case eventSourceFailedToConnect
    case eventSourceInvalidTransferFormat
    /// The URL of the hub is missing or invalid.
    case invalidUrl(String)
    /// The server completed the call with an error.
    case invocationError(String)
    /// The transport isn't available.
    case unsupportedTransport(String)
    case messageBiggerThan2GB
    case unexpectedMessageType(String)
    /// The stream was cancelled with ``StreamResult/cancel()``.
    case streamCancelled
    /// The server sent nothing for this time, in seconds.
    case serverTimeout(Double)
    /// The connection was lost, or the server closed it with an error.
    case connectionLost(String)
    /// The authentication wasn't refreshed, and the connection remains. If the server refused, it answered with the status, and usually with
    /// the code of a reason, such as `invalid_token`.
    case authenticationRefreshFailed(String, status: Int? = nil, code: String? = nil)

    /// A description of what failed, in at most 1,000 characters.
    public var description: String { Excerpt.message(self.text) }

    private var text: String {
        switch self {
        case .incompleteMessage: "A message is incomplete."
        case .invalidDataType: "The data has an unexpected type."
        case .failedToEncodeHandshakeRequest: "The handshake request can't be encoded."
        case .failedToDecodeResponseData: "The response can't be decoded."
        case .expectedHandshakeResponse: "The server sent another message than the response to the handshake."
        case .noHandshakeMessageReceived: "The server didn't answer the handshake."
        case .unsupportedHandshakeVersion: "The server doesn't support the version of the handshake."
        case .handshakeError(let message): "The handshake failed: \(message)"
        case .connectionAborted: "The connection was stopped."
        case .negotiationError(let message): message
        case .failedToStartConnection(let message): message
        case .invalidOperation(let message): message
        case .unexpectedResponseCode(let status): "The server answered with the unexpected status \(status)."
        case .invalidTextMessageEncoding: "A text message isn't valid UTF-8."
        case .httpTimeoutError: "The server didn't answer a request in time."
        case .invalidResponseType: "The response has an unexpected type."
        case .cannotSentUntilTransportConnected: "Nothing can be sent before the transport is connected."
        case .invalidData(let message): message
        case .eventSourceFailedToConnect: "The event source couldn't connect."
        case .eventSourceInvalidTransferFormat: "Server-Sent Events can't transfer binary messages."
        case .invalidUrl(let message): "The URL is invalid: \(message)"
        case .invocationError(let message): "The server completed the call with an error: \(message)"
        case .unsupportedTransport(let message): message
        case .messageBiggerThan2GB: "A message is larger than 2 GB."
        case .unexpectedMessageType(let type): "A message has the unexpected type \(type)."
        case .streamCancelled: "The stream was cancelled."
        case .serverTimeout(let seconds): "The server sent nothing for \(seconds) seconds."
        case .connectionLost(let message): message
        case .authenticationRefreshFailed(let message, _, _): message
        }
    }

    /// The same as ``description``. It replaces the general text that Foundation provides for errors.
    public var localizedDescription: String { self.description }

    /// Returns the error of a ``HubConnection`` for one of a refresh of the authentication.
    static func refreshFailure(_ error: HubError, serverTimeout: Duration) -> any Error {
        if let thrown = error.thrownByApplication { return thrown }
        return switch error.code {
        case .tokenFailed, .timedOut: SignalRError.authenticationRefreshFailed(error.message)
        default: Self.converted(error, serverTimeout: serverTimeout)
        }
    }

    /// Returns the error of a ``HubConnection`` for one of its client.
    ///
    /// An error that the code of the application threw is returned as it was thrown.
    ///
    /// - Parameter isStart: Whether the error ended an attempt to start.
    static func converted(_ error: HubError, serverTimeout: Duration, isStart: Bool = false) -> any Error {
        if let thrown = error.thrownByApplication { return thrown }
        return switch error.code {
        case .cancelled: CancellationError()
        case .notConnected, .alreadyStarted, .streamConsumed: SignalRError.invalidOperation(error.message)
        case .stopped: SignalRError.connectionAborted
        case .serverTimeout: SignalRError.serverTimeout(serverTimeout / .seconds(1))
        case .negotiationFailed, .unauthorized: SignalRError.negotiationError(error.message)
        case .handshakeFailed: SignalRError.handshakeError(error.serverMessage ?? error.message)
        case .invocationFailed: SignalRError.invocationError(error.serverMessage ?? error.message)
        case .authenticationRefreshFailed:
            SignalRError.authenticationRefreshFailed(error.message, status: error.status, code: error.serverCode)
        case .invalidMessage, .encodingFailed, .decodingFailed: SignalRError.invalidData(error.message)
        default: isStart ? SignalRError.failedToStartConnection(error.message) : SignalRError.connectionLost(error.message)
        }
    }
}
