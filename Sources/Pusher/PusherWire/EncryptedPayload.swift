import RealtimeCrypto
import RealtimeEncoding
import RealtimeCoding

/// The encrypted data of an event.
///
/// ```
/// {"nonce":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYX","ciphertext":"VKC/y9yQK7Qw…"}
/// ```
package struct EncryptedPayload: Hashable, Sendable {
    private static let keys = JSONKeys("nonce", "ciphertext")

    /// 24 bytes that are never used twice with the same key.
    package let nonce: [UInt8]
    /// The tag and the encrypted text.
    package let ciphertext: [UInt8]

    /// Parses the data of an event.
    ///
    /// - Parameter data: The data as JSON, as in `PusherFrame.dataBytes`.
    /// - Throws: ``EncryptionError`` if the data isn't an object with a nonce of 24 bytes and a ciphertext, which contains a tag.
    package init(parsing data: [UInt8]) throws(EncryptionError) {
        let (nonce, ciphertext) = try Self.members(of: data)
        guard let nonce else { throw .missing("nonce") }
        guard let ciphertext else { throw .missing("ciphertext") }
        // Foundation, which other clients use, ignores the bits that belong to no byte. The tag detects changes of the others.
        guard let nonce = Base64.decode(nonce, ignoresPadBits: true) else { throw .invalidBase64("nonce") }
        guard nonce.count == SecretBox.nonceLength else { throw .nonceLength(nonce.count) }
        guard let ciphertext = Base64.decode(ciphertext, ignoresPadBits: true) else { throw .invalidBase64("ciphertext") }
        guard ciphertext.count >= SecretBox.tagLength else { throw .ciphertextLength(ciphertext.count) }
        self.nonce = nonce
        self.ciphertext = ciphertext
    }

    /// Encrypts the data of an event.
    ///
    /// - Parameters:
    ///   - text: The data as text.
    ///   - key: The shared secret of the channel.
    ///   - nonce: 24 bytes that were not used with this key before; see ``nonce()``.
    /// - Throws: ``EncryptionError/nonceLength(_:)``
    package init(encrypting text: String, key: EncryptionKey, nonce: [UInt8]) throws(EncryptionError) {
        do throws(SecretBoxError) {
            self.ciphertext = try SecretBox.seal(Array(text.utf8), key: key.bytes, nonce: nonce)
        } catch {
            throw EncryptionError(error)
        }
        self.nonce = nonce
    }

    /// Decrypts the data.
    ///
    /// - Parameter key: The shared secret of the channel.
    /// - Throws: ``EncryptionError/wrongKey`` or ``EncryptionError/notText``
    package func decrypt(key: EncryptionKey) throws(EncryptionError) -> String {
        let bytes: [UInt8]
        do throws(SecretBoxError) {
            bytes = try SecretBox.open(self.ciphertext, key: key.bytes, nonce: self.nonce)
        } catch {
            throw EncryptionError(error)
        }
        guard let text = String(validUTF8: bytes) else { throw .notText }
        return text
    }

    /// The data as JSON, with its members in the order of the server libraries.
    package var json: String {
        // Base64 needs no escapes.
        "{\"nonce\":\"\(Base64.encode(self.nonce))\",\"ciphertext\":\"\(Base64.encode(self.ciphertext))\"}"
    }

    /// Returns a random nonce of the system's generator, which is so long that it isn't repeated.
    package static func nonce() -> [UInt8] {
        (0..<SecretBox.nonceLength).map { _ in UInt8.random(in: .min ... .max) }
    }

    private static func members(of data: [UInt8]) throws(EncryptionError) -> (nonce: String?, ciphertext: String?) {
        let members = data.withUnsafeBytes { data -> (String?, String?)? in
            guard let scan = try? JSONObjectScan(data, keys: Self.keys) else { return nil }
            func text(_ slice: JSONSlice) -> String? { slice.kind.isString ? JSONText.string(slice, in: data) : nil }
            return (text(scan[0]), text(scan[1]))
        }
        guard let members else { throw .notAnObject }
        return members
    }
}
