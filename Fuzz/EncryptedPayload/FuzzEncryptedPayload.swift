import PusherWire

/// Reads arbitrary bytes as the encrypted data of an event, and as the text of one. Reading and decrypting must not crash, and encrypted data
/// must survive writing and reading.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzEncryptedPayload(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let bytes = Array(UnsafeRawBufferPointer(start: start, count: count))
    // The key of the example in the seeds.
    guard let key = try? EncryptionKey(base64: "EYp9Iw61We0SSO8i4YNMUxqo4TeGPjdBtcgzC9ocVl0=") else { return 0 }
    if let payload = try? EncryptedPayload(parsing: bytes) {
        precondition(payload.nonce.count == 24 && payload.ciphertext.count >= 16, "the lengths are invalid")
        precondition((try? EncryptedPayload(parsing: Array(payload.json.utf8))) == payload, "the written payload can't be read")
        if let text = try? payload.decrypt(key: key) {
            let again = try? EncryptedPayload(encrypting: text, key: key, nonce: payload.nonce)
            precondition(again == payload, "the same text has another ciphertext")
        }
    }

    // Encryption with instrumentation is slow, and longer texts reach no other code.
    let text = String(decoding: bytes.prefix(64), as: UTF8.self)
    let secret = key.sharedSecret(of: text)
    guard let payload = try? EncryptedPayload(encrypting: text, key: secret, nonce: (0..<24).map { UInt8($0) }) else {
        preconditionFailure("the text can't be encrypted")
    }
    precondition((try? payload.decrypt(key: secret)) == text, "the text has changed")
    precondition((try? payload.decrypt(key: key)) == nil, "the text was decrypted with another key")
    return 0
}
