#if canImport(CryptoKit)
private import CryptoKit
#endif

/// A cryptographic hash that takes its input in pieces.
package protocol HashFunction: Sendable {
    /// Creates a hash of no input.
    init()
    /// Adds bytes to the input.
    mutating func update(_ bytes: UnsafeRawBufferPointer)
    /// Returns the digest of the whole input. The value cannot be used afterwards.
    mutating func finalize() -> [UInt8]
}

extension HashFunction {
    /// Returns the digest of `bytes`.
    package static func hash(_ bytes: [UInt8]) -> [UInt8] {
        var hash = Self()
        hash.update(bytes)
        return hash.finalize()
    }

    /// Adds bytes to the input.
    package mutating func update(_ bytes: [UInt8]) { bytes.withUnsafeBytes { self.update($0) } }
}

// On Apple platforms the hashes are CryptoKit's, behind the interface of the implementations in `BlockHash.swift`.
#if canImport(CryptoKit)
/// SHA-1 (FIPS 180-4), which the WebSocket handshake requires. It is not collision-resistant.
package struct SHA1: HashFunction {
    private var hash = CryptoKit.Insecure.SHA1()

    package init() {}

    package mutating func update(_ bytes: UnsafeRawBufferPointer) { self.hash.update(bufferPointer: bytes) }

    package mutating func finalize() -> [UInt8] { Array(self.hash.finalize()) }
}

/// SHA-256 (FIPS 180-4).
package struct SHA256: HashFunction {
    private var hash = CryptoKit.SHA256()

    package init() {}

    package mutating func update(_ bytes: UnsafeRawBufferPointer) { self.hash.update(bufferPointer: bytes) }

    package mutating func finalize() -> [UInt8] { Array(self.hash.finalize()) }
}

/// MD5 (RFC 1321), for protocols that use it as a checksum. It is not secure.
package struct MD5: HashFunction {
    private var hash = CryptoKit.Insecure.MD5()

    package init() {}

    package mutating func update(_ bytes: UnsafeRawBufferPointer) { self.hash.update(bufferPointer: bytes) }

    package mutating func finalize() -> [UInt8] { Array(self.hash.finalize()) }
}
#endif
