/// Authenticated encryption with a secret key: XSalsa20-Poly1305, the `secretbox` of NaCl.
///
/// A box consists of a tag of 16 bytes and the encrypted text. Never use a nonce twice with the same key.
///
/// - Source: D. J. Bernstein, "Cryptography in NaCl".
package enum SecretBox {
    package static let keyLength = 32
    package static let nonceLength = 24
    package static let tagLength = 16

    /// Encrypts a text.
    ///
    /// - Parameters:
    ///   - plaintext: The text to encrypt.
    ///   - key: 32 bytes.
    ///   - nonce: 24 bytes that were not used with this key before.
    /// - Returns: The box, which is 16 bytes longer than the text.
    /// - Throws: ``SecretBoxError`` if the key or the nonce has another length.
    package static func seal(_ plaintext: [UInt8], key: [UInt8], nonce: [UInt8]) throws(SecretBoxError) -> [UInt8] {
        let stream = try BoxStream(key: key, nonce: nonce)
        let length = Self.tagLength + plaintext.count
        return [UInt8](unsafeUninitializedCapacity: length) { box, count in
            let ciphertext = UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(box)[Self.tagLength..<length])
            plaintext.withUnsafeBytes { stream.apply(to: $0, ciphertext) }
            let tag = stream.tag(of: UnsafeRawBufferPointer(ciphertext))
            UnsafeMutableRawBufferPointer(box).storeBytes(of: tag, as: SIMD2<UInt64>.self)
            count = length
        }
    }

    /// Decrypts a box.
    ///
    /// The tag is compared in constant time, before anything is decrypted.
    ///
    /// - Returns: The text that was encrypted.
    /// - Throws: ``SecretBoxError`` if the key or the nonce has the wrong length, or if the box wasn't sealed with them.
    package static func open(_ box: [UInt8], key: [UInt8], nonce: [UInt8]) throws(SecretBoxError) -> [UInt8] {
        let stream = try BoxStream(key: key, nonce: nonce)
        guard box.count >= Self.tagLength else { throw .boxLength(box.count) }
        let isAuthentic = box.withUnsafeBytes { box in
            let difference = box.loadUnaligned(as: SIMD2<UInt64>.self) ^ stream.tag(of: Self.ciphertext(of: box))
            return difference[0] | difference[1] == 0
        }
        guard isAuthentic else { throw .wrongTag }
        let length = box.count - Self.tagLength
        // All empty arrays share storage, to which the initializer would write.
        if length == 0 { return [] }
        return [UInt8](unsafeUninitializedCapacity: length) { plaintext, count in
            box.withUnsafeBytes { stream.apply(to: Self.ciphertext(of: $0), UnsafeMutableRawBufferPointer(plaintext)) }
            count = length
        }
    }

    private static func ciphertext(of box: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: box[Self.tagLength...])
    }
}

/// The reason why a box can't be sealed or opened.
package enum SecretBoxError: Error, Hashable, Sendable {
    /// The key has this number of bytes instead of 32.
    case keyLength(Int)
    /// The nonce has this number of bytes instead of 24.
    case nonceLength(Int)
    /// The box has this number of bytes, but the tag alone has 16.
    case boxLength(Int)
    /// The tag doesn't match: the key or the nonce is a different one, or the box was changed.
    case wrongTag
}

/// The key stream of a box. The key of the tag is its first 32 bytes, and the text is combined with the rest.
private struct BoxStream {
    private static let tagKeyLength = 32

    private let cipher: Salsa20
    private let first: KeyStream

    init(key: [UInt8], nonce: [UInt8]) throws(SecretBoxError) {
        guard key.count == SecretBox.keyLength else { throw .keyLength(key.count) }
        guard nonce.count == SecretBox.nonceLength else { throw .nonceLength(nonce.count) }
        let key = key.withUnsafeBytes { SalsaKey($0) }
        let nonce = nonce.withUnsafeBytes { nonce in
            (nonce.loadUnaligned(as: SIMD4<UInt32>.self), nonce.loadUnaligned(fromByteOffset: 16, as: SIMD2<UInt32>.self))
        }
        self.cipher = Salsa20(key: HSalsa20.derive(key, input: nonce.0), nonce: nonce.1)
        self.first = self.cipher.blocks(from: 0)
    }

    func tag(of ciphertext: UnsafeRawBufferPointer) -> SIMD2<UInt64> { Poly1305.tag(of: ciphertext, key: self.first.prefix) }

    /// Encrypts or decrypts a text.
    func apply(to input: UnsafeRawBufferPointer, _ output: UnsafeMutableRawBufferPointer) {
        guard let source = input.baseAddress, let destination = output.baseAddress else { return }
        var index = min(input.count, KeyStream.size - Self.tagKeyLength)
        self.first.apply(from: Self.tagKeyLength, to: source, destination, count: index)
        var number: UInt64 = 0
        while index < input.count {
            number &+= 4
            let count = min(input.count &- index, KeyStream.size)
            self.cipher.blocks(from: number).apply(from: 0, to: source + index, destination + index, count: count)
            index &+= count
        }
    }
}
