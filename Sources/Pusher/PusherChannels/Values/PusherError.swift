import PusherWire
import RealtimeSystem
import RealtimeCore

/// An error of a client, a channel or a publisher.
///
/// The message describes what failed and, where possible, what to do. No message contains a secret, a token or the data of an event.
public struct PusherError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of an error. Future versions may add codes, so a `switch` over codes needs a `default` case.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Value: String, Sendable {
            case invalidChannelName, invalidEventName, dataTooLarge, notSubscribed, queueFull, clientEventsNotAllowed,
                authorizationMissing, authorizationFailed, subscriptionRejected, timedOut, cancelled, disconnected, rejected, failed,
                server,
                invalidFrame, noData, invalidConfiguration, encodingFailed, decodingFailed, decryptionFailed, invalidSocketID, invalidUser,
                connectionLost, invalidBatch, invalidSignature, invalidWebhook, rateLimited, clientEventRejected, filterNotAllowed,
                invalidFilter, deltaFailed
        }

        private let value: Value

        private init(_ value: Value) {
            self.value = value
        }

        /// The name of the channel is empty, too long, or contains an invalid character; see ``PusherConfiguration/validatesChannelNames`` and
        /// ``PusherPublisher/validatesChannelNames``.
        public static let invalidChannelName = Code(.invalidChannelName)
        /// The name of the event is empty or too long, or the name of a client event doesn't start with `client-`.
        public static let invalidEventName = Code(.invalidEventName)
        /// The data of the event exceeds the limit: ``PusherConfiguration/eventDataLimit`` or ``PusherPublisher/eventDataLimit``.
        public static let dataTooLarge = Code(.dataTooLarge)
        /// The client isn't subscribed to the channel.
        public static let notSubscribed = Code(.notSubscribed)
        /// Too many client events are waiting, for the subscription or because of the limit of the configuration.
        public static let queueFull = Code(.queueFull)
        /// The client event would exceed the ``PusherConfiguration/clientEventLimit``, and wasn't sent. As an error of a client: the server
        /// rejected subscriptions, or the user, because it limits the rate of messages. The client sends them again.
        public static let rateLimited = Code(.rateLimited)
        /// The server rejected a client event. ``PusherError/channel`` is the event's channel if the server named it, or if the client has
        /// sent client events on one channel only since it connected.
        public static let clientEventRejected = Code(.clientEventRejected)
        /// The channel doesn't allow client events: only private and presence channels do.
        public static let clientEventsNotAllowed = Code(.clientEventsNotAllowed)
        /// The channel requires authorization, and the configuration has no authorizer, or none for this channel.
        public static let authorizationMissing = Code(.authorizationMissing)
        /// The application server, or the callback, didn't authorize the subscription or authenticate the user, or the server rejected the
        /// user.
        public static let authorizationFailed = Code(.authorizationFailed)
        /// The server rejected the subscription.
        public static let subscriptionRejected = Code(.subscriptionRejected)
        /// A time limit was exceeded.
        public static let timedOut = Code(.timedOut)
        /// The task of the call was cancelled.
        public static let cancelled = Code(.cancelled)
        /// The client was disconnected, or the channel was unsubscribed, during the call; or the client was disconnected before a client event.
        public static let disconnected = Code(.disconnected)
        /// The server rejected the connection permanently, for example because the key is unknown, or the request of a publisher.
        public static let rejected = Code(.rejected)
        /// A connection is impossible, for example because no TLS library is available; or the request of a publisher failed.
        public static let failed = Code(.failed)
        /// The server reported an error. ``PusherError/serverCode`` contains its code.
        public static let server = Code(.server)
        /// The server sent an invalid frame. The client dropped it and kept the connection.
        public static let invalidFrame = Code(.invalidFrame)
        /// The event has no data to decode.
        public static let noData = Code(.noData)
        /// The configuration is invalid, or the key for encrypted channels is missing or invalid.
        public static let invalidConfiguration = Code(.invalidConfiguration)
        /// The connection was lost, or an attempt to connect failed. The client retries, unless the error is that of its state: then, the
        /// ``PusherConfiguration/retry`` policy has ended the attempts.
        public static let connectionLost = Code(.connectionLost)
        /// The client uses no filters, or the channel is a presence channel, which has none.
        public static let filterNotAllowed = Code(.filterNotAllowed)
        /// The filter has no conditions, too many, or one with an invalid tag or value.
        public static let invalidFilter = Code(.invalidFilter)
        /// An event that the server sent as a delta couldn't be restored, and was dropped; or the server uses an algorithm that the
        /// client doesn't support. See ``PusherDeltaCompression``.
        public static let deltaFailed = Code(.deltaFailed)
        /// The data can't be encoded as JSON.
        public static let encodingFailed = Code(.encodingFailed)
        /// An event couldn't be decoded as the type of its sequence. The sequence skipped the event.
        public static let decodingFailed = Code(.decodingFailed)
        /// An event of an encrypted channel couldn't be decrypted, and was dropped. The ``PusherError/cause`` is a
        /// ``PusherDecryptionFailure``, with the event and the reason.
        public static let decryptionFailed = Code(.decryptionFailed)
        /// The socket ID to authorize doesn't consist of two numbers with a dot between them.
        public static let invalidSocketID = Code(.invalidSocketID)
        /// The user to authorize for a presence channel is missing or has an empty ID, or the ID of a user who signs in is invalid.
        public static let invalidUser = Code(.invalidUser)
        /// The number of events in a batch isn't between 1 and 10.
        public static let invalidBatch = Code(.invalidBatch)
        /// The key or the signature of a webhook is missing, unknown or wrong, so the service didn't send it.
        public static let invalidSignature = Code(.invalidSignature)
        /// The body of a webhook isn't what the protocol requires, although its signature is valid.
        public static let invalidWebhook = Code(.invalidWebhook)

        /// The name of the code, such as `timedOut`.
        public var description: String { self.value.rawValue }
    }

    /// The kind of the error.
    public let code: Code
    /// A description of what failed and, where possible, what to do. It has at most 1,000 bytes; the middle of a longer one is left out.
    public let message: String
    /// The name of the channel that the error concerns, if any.
    public let channel: String?
    /// The code that the server sent, such as 4001, if any.
    public let serverCode: Int?
    /// The HTTP status of a rejected authorization, a rejected upgrade to a WebSocket, or a rejected request of a publisher.
    public let status: Int?
    /// The underlying error, if any: an error that your code threw, a `TransportError`, or another `PusherError`.
    ///
    /// ``message`` only contains the type of an error that your code threw, because its description may contain secrets. Errors that
    /// differ only in their causes are equal.
    public let cause: (any Error)?

    /// Creates an error, for example for a preview or a test of your code.
    ///
    /// - Parameters:
    ///   - code: The kind of the error.
    ///   - message: A description of what failed. It must not contain secrets.
    ///   - channel: The name of the channel that the error concerns, if any.
    ///   - serverCode: The code that the server sent, such as 4001, if any.
    ///   - status: The HTTP status of a rejected request, if any.
    ///   - cause: The underlying error, if any.
    public init(
        _ code: Code, _ message: String, channel: String? = nil, serverCode: Int? = nil, status: Int? = nil, cause: (any Error)? = nil
    ) {
        self.code = code
        self.message = Excerpt.message(message)
        self.channel = channel
        self.serverCode = serverCode
        self.status = status
        self.cause = cause
    }

    /// Returns whether two errors have the same code, message, channel, server code and status. Their causes aren't compared.
    public static func == (left: Self, right: Self) -> Bool {
        left.code == right.code && left.message == right.message && left.channel == right.channel && left.serverCode == right.serverCode
            && left.status == right.status
    }

    /// Hashes the code, the message, the channel, the server code and the status.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(self.code)
        hasher.combine(self.message)
        hasher.combine(self.channel)
        hasher.combine(self.serverCode)
        hasher.combine(self.status)
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

extension PusherError: LocalizedError {
    /// The message.
    public var errorDescription: String? { self.message }
}
#endif

// MARK: Errors that several functions create

extension PusherError {
    static func notSubscribed(_ channel: String) -> PusherError {
        PusherError(.notSubscribed, "Not subscribed to \(channel). Call subscribe(_:) first.", channel: channel)
    }

    static func encodingFailed(_ event: String, _ error: any Error, channel: String? = nil) -> PusherError {
        let message = "Cannot encode the data of \(event) as JSON: its encode(to:) threw an error of type \(type(of: error))."
        return PusherError(.encodingFailed, message, channel: channel, cause: error)
    }

    /// - Parameters:
    ///   - setting: The property with the limit.
    ///   - plainSize: The size before the encryption, if the data was encrypted.
    static func dataTooLarge(
        _ event: String, _ size: Int, limit: Int, setting: String, plainSize: Int? = nil, channel: String? = nil
    ) -> PusherError {
        // Base64 needs four bytes for three, and JSON and the nonce some more.
        let encryption = plainSize.map { " when it is encrypted, a third more than its \($0) bytes" } ?? ""
        let hint = "Send less, or increase `\(setting)` if your server accepts more."
        let message = "The data of \(event) has \(size) bytes\(encryption); the limit is \(limit) bytes. \(hint)"
        return PusherError(.dataTooLarge, message, channel: channel)
    }

    /// - Parameter setting: The property that turns the check off.
    static func invalidChannelName(_ channel: String, _ reason: String, setting: String) -> PusherError {
        let hint = channel.isEmpty ? "" : " (If your server allows it, set `\(setting)` to false.)"
        return PusherError(.invalidChannelName, reason + hint, channel: channel)
    }

    static func clientEventsNotAllowed(_ channel: String, _ kind: PusherChannelKind) -> PusherError {
        let reason =
            kind.isEncrypted
            ? "encrypted channels don't allow client events, which the clients couldn't encrypt. Publish the event from your server."
            : "only private and presence channels allow client events."
        return PusherError(.clientEventsNotAllowed, "Cannot trigger events on \(channel): \(reason)", channel: channel)
    }

    /// Returns the master key for encrypted channels.
    static func encryptionKey(_ base64: String?, for channel: String) throws(PusherError) -> EncryptionKey {
        guard let base64 else {
            let message = "\(channel) is an encrypted channel, which requires an encryption master key: 32 bytes in Base64."
            throw PusherError(.invalidConfiguration, message, channel: channel)
        }
        do throws(EncryptionError) {
            return try EncryptionKey(base64: base64)
        } catch {
            throw PusherError(
                .invalidConfiguration, "Invalid encryption master key: it must be 32 bytes in Base64, but \(error).", channel: channel)
        }
    }

    static func decryptionFailed(_ failure: PusherDecryptionFailure) -> PusherError {
        let reason =
            switch failure.reason {
            case .invalidData: "its data isn't what a publisher of encrypted events sends"
            case .keyUnavailable: "it was encrypted with another key, and no new key could be loaded"
            case .tooManyEvents: "too many events are waiting for a new key"
            default: "it was encrypted with another key, or changed. Check the master key of the publisher and of the application server"
            }
        // The server chooses the name, which may be long.
        let name = Excerpt.of(failure.event.name, limit: 200)
        let channel = failure.event.channel ?? ""
        let message = "Cannot decrypt the event \"\(name)\" of \(channel): \(reason)."
        return PusherError(.decryptionFailed, message, channel: channel, cause: failure)
    }

    /// - Parameter place: Where the authorization was requested, for example " at https://example.com/auth".
    static func authorizationFailed(
        _ channel: String, _ place: String, _ reason: String, status: Int? = nil, cause: (any Error)? = nil
    ) -> PusherError {
        PusherError(
            .authorizationFailed, "Authorization of \(channel)\(place) failed: \(reason)", channel: channel, status: status, cause: cause)
    }

    /// - Parameter place: Where the authentication was requested.
    static func authenticationFailed(_ place: String, _ reason: String, status: Int? = nil, cause: (any Error)? = nil) -> PusherError {
        PusherError(.authorizationFailed, "Authentication of the user\(place) failed: \(reason)", status: status, cause: cause)
    }

    /// The failure of a subscription to a presence channel whose member is the user.
    ///
    /// - Parameters:
    ///   - error: The failure of the sign-in.
    ///   - isRetried: Whether the sign-in is retried. If so, this error is transient as well.
    static func userMissing(_ channel: String, _ error: PusherError, isRetried: Bool) -> PusherError {
        let reason = "its member is the user, who couldn't be signed in: \(error.message)"
        return .authorizationFailed(channel, "", reason, status: error.status, cause: isRetried ? error : nil)
    }

    static func subscriptionRejected(_ channel: String, _ reason: String, serverCode: Int?, status: Int? = nil) -> PusherError {
        let lowercased = reason.lowercased()
        let isAboutSignature = lowercased.containsText("signature") || lowercased.containsText("authentication")
        let hint = isAboutSignature ? " Check the key and the secret that sign subscriptions." : ""
        return PusherError(
            .subscriptionRejected, "The server rejected the subscription to \(channel): \(Excerpt.sentence(reason))\(hint)",
            channel: channel, serverCode: serverCode, status: status)
    }

    /// An error that the client recovers from by reconnecting.
    ///
    /// - Parameters:
    ///   - wasConnected: Whether the server had greeted the client.
    ///   - wasAccepted: Whether the server had accepted the WebSocket.
    static func lost(_ reason: CloseReason, at endpoint: Endpoint, wasConnected: Bool, wasAccepted: Bool) -> PusherError {
        let cause = reason.transportError
        let hint =
            wasAccepted ? wasConnected ? "" : Self.hint(onEndBeforeGreeting: reason) : cause.map { Self.hint(onRejectedUpgrade: $0) } ?? ""
        let message = reason.lossMessage(at: endpoint, wasConnected: wasConnected) + hint
        return PusherError(.connectionLost, message, status: cause?.status, cause: cause)
    }

    private static let keyHint =
        " The server accepted the WebSocket, and ended it without a greeting. Check the key: some servers don't say that it is unknown."

    /// Returns what to check if a server accepts a WebSocket and then doesn't greet the client.
    private static func hint(onEndBeforeGreeting reason: CloseReason) -> String {
        switch reason {
        // Other codes say why.
        case .peer(.normal, _), .peer(.noStatus, _): Self.keyHint
        case .transport(let error) where error.code == .closed || error.code == .reset: Self.keyHint
        case .openTimeout: " The server accepted the WebSocket, but sent no greeting. Check that it is a Pusher server, and the path."
        default: ""
        }
    }

    /// Returns what to check if a server has nothing for Pusher clients at the path.
    private static func hint(onRejectedUpgrade error: TransportError) -> String {
        guard error.code == .upgradeRejected, let status = error.status, [400, 404, 405, 426].contains(status) || status < 300 else {
            return ""
        }
        return " Check that it is a Pusher server, and `PusherConfiguration.path`."
    }

    /// The error of a client whose policy for reconnects has ended the attempts.
    static func gaveUp(_ loss: PusherError) -> PusherError {
        let message = "\(loss.message) The retry policy allows no further attempt. Call connect() to start over."
        return PusherError(.connectionLost, message, status: loss.status, cause: loss.cause)
    }

    /// An error that the client doesn't recover from.
    static func ended(_ reason: CloseReason, at endpoint: Endpoint) -> PusherError {
        switch reason {
        case .peer(let code, let text) where (4000...4099).contains(code.rawValue):
            let hint =
                switch code.rawValue {
                case 4001: " Unknown app key. Check the key and the cluster or host."
                case 4003: " The app is disabled. Enable it in its dashboard."
                case 4004: " The app has reached its connection limit. Close connections or increase the limit."
                case 4005: " Unknown path. Check `PusherConfiguration.path`."
                case 4006...4008: " The server does not support this version of the protocol."
                case 4009 where text.lowercased().containsText("origin"):
                    " Set the header field Origin in `PusherConfiguration.headers` to an origin that the server allows."
                case 4009: " The connection is not authorized."
                default: ""
                }
            let quote = text.isEmpty ? "" : ": \(text)"
            let message = "\(endpoint.origin) rejected the connection (close code \(code)\(quote)).\(hint)"
            return PusherError(.rejected, message, serverCode: Int(code.rawValue))
        case .transport(let error):
            let code = error.code == .invalidTLSConfiguration ? Code.invalidConfiguration : .failed
            return PusherError(code, error.message, status: error.status, cause: error)
        default:
            return PusherError(.disconnected, "The client is disconnected.")
        }
    }

    /// The same error as a machine may keep it: without an error that the application threw, which may refer to any of its objects, and
    /// with the start of a large response.
    var forStorage: PusherError {
        let cause: (any Error)?
        switch self.cause {
        case let error as TransportError: cause = error.forStorage
        case let error as PusherError: cause = error.forStorage
        case let error as PusherAuthorizationRefusal: cause = error
        default: cause = nil
        }
        return PusherError(
            self.code, self.message, channel: self.channel, serverCode: self.serverCode, status: self.status, cause: cause)
    }

    /// Whether a subscription that failed with this error is retried: after a timeout, or when the authorization server could not be
    /// reached or reported a temporary error, or the callback threw an error other than a refusal. A rejected subscription isn't retried,
    /// nor is one whose authorization is invalid.
    package var isTransient: Bool {
        switch self.code {
        case .timedOut, .rateLimited: true
        case .authorizationFailed:
            if let status {
                status >= 500 || status == 408 || status == 429
            } else if self.cause is PusherAuthorizationRefusal {
                false
            } else if let error = self.cause as? TransportError {
                !error.code.isPermanent
            } else {
                self.cause != nil
            }
        default: false
        }
    }
}

extension PusherError: Redacting {
    /// The fields. An error that the application threw is shown as its type, because its description may contain a secret.
    package var visibleFields: [(name: String, value: Any?)] {
        let cause: Any? = (self.cause as? TransportError) ?? (self.cause as? PusherError) ?? self.cause.map { "\(type(of: $0))" }
        return [
            ("code", self.code), ("message", self.message), ("serverCode", self.serverCode), ("status", self.status), ("cause", cause),
        ]
    }
}
