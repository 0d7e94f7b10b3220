import RealtimeCore

/// The failure to decrypt an event of an encrypted channel: the ``PusherError/cause`` of an error with the code
/// ``PusherError/Code/decryptionFailed``.
public struct PusherDecryptionFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// Why an event can't be decrypted. Future versions may add reasons, so a `switch` over reasons needs a `default` case.
    public struct Reason: Error, Hashable, Sendable, CustomStringConvertible {
        private enum Value: String, Sendable { case invalidData, wrongKey, keyUnavailable, tooManyEvents }

        private let value: Value

        /// The data of the event isn't a JSON object with a nonce and a ciphertext, or what was encrypted isn't text.
        public static let invalidData = Reason(value: .invalidData)
        /// The event was encrypted with another key, or changed on its way, and the application server's current key doesn't fit either.
        public static let wrongKey = Reason(value: .wrongKey)
        /// The event was encrypted with another key, and the application server didn't return a new one.
        public static let keyUnavailable = Reason(value: .keyUnavailable)
        /// Too many events were waiting for a new key.
        public static let tooManyEvents = Reason(value: .tooManyEvents)

        /// The name of the reason, such as `wrongKey`.
        public var description: String { self.value.rawValue }
    }

    /// The event as it arrived, with its data still encrypted.
    public let event: PusherEvent
    /// The reason.
    public let reason: Reason

    /// Creates a failure, for example for a test of your code.
    ///
    /// - Parameters:
    ///   - event: The event as it arrived.
    ///   - reason: The reason.
    public init(event: PusherEvent, reason: Reason) {
        self.event = event
        self.reason = reason
    }

    /// The reason, without the data of the event.
    public var description: String { self.reason.description }
}
