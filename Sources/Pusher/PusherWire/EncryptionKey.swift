import RealtimeCrypto
import RealtimeEncoding
import RealtimeCore

/// A key for encrypted channels: the master key of an application, or the shared secret of a channel.
package struct EncryptionKey: Hashable, Sendable, Redacting {
    /// The number of bytes of a key.
    package static let length = SecretBox.keyLength

    package let bytes: [UInt8]

    /// - Parameter bytes: 32 bytes.
    /// - Throws: ``EncryptionError/keyLength(_:)``
    package init(_ bytes: [UInt8]) throws(EncryptionError) {
        guard bytes.count == Self.length else { throw .keyLength(bytes.count) }
        self.bytes = bytes
    }

    /// Creates a key from Base64, the form in which applications configure a master key and authorize subscriptions with a shared secret.
    ///
    /// - Throws: ``EncryptionError/invalidBase64(_:)`` or ``EncryptionError/keyLength(_:)``
    package init(base64: String) throws(EncryptionError) {
        guard let bytes = Base64.decode(base64, ignoresPadBits: true) else { throw .invalidBase64("key") }
        try self.init(bytes)
    }

    private init(verified bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// The key in Base64.
    package var base64: String { Base64.encode(self.bytes) }

    /// Returns the shared secret of a channel, if this is the master key.
    package func sharedSecret(of channel: String) -> EncryptionKey {
        EncryptionKey(verified: SHA256.hash(Array(channel.utf8) + self.bytes))
    }

    package var visibleFields: [(name: String, value: Any?)] { [("bytes", Redacted.secret)] }

    /// Compares in constant time.
    package static func == (lhs: Self, rhs: Self) -> Bool { constantTimeEqual(lhs.bytes, rhs.bytes) }
}

/// The reason why a key is invalid, or why the data of an event can't be decrypted. Contains no keys or data.
package enum EncryptionError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The data isn't a JSON object.
    case notAnObject
    /// The data has no string with this name.
    case missing(String)
    /// The value with this name isn't Base64.
    case invalidBase64(String)
    /// The key has this number of bytes.
    case keyLength(Int)
    /// The nonce has this number of bytes.
    case nonceLength(Int)
    /// The ciphertext has this number of bytes, less than a tag has.
    case ciphertextLength(Int)
    /// The data was encrypted with another key, or changed.
    case wrongKey
    /// The decrypted text isn't valid UTF-8.
    case notText

    package var description: String {
        switch self {
        case .notAnObject: "the data isn't a JSON object"
        case .missing(let member): "missing or invalid \"\(member)\" in the data"
        case .invalidBase64(let name): "the \(name) isn't valid Base64"
        case .keyLength(let length): "the key has \(length) bytes; expected \(SecretBox.keyLength)"
        case .nonceLength(let length): "the nonce has \(length) bytes; expected \(SecretBox.nonceLength)"
        case .ciphertextLength(let length): "the ciphertext has \(length) bytes; expected at least \(SecretBox.tagLength)"
        case .wrongKey: "the data was encrypted with another key, or changed"
        case .notText: "the decrypted data isn't valid UTF-8"
        }
    }

    init(_ error: SecretBoxError) {
        self =
            switch error {
            case .keyLength(let length): .keyLength(length)
            case .nonceLength(let length): .nonceLength(length)
            case .boxLength(let length): .ciphertextLength(length)
            case .wrongTag: .wrongKey
            }
    }
}
