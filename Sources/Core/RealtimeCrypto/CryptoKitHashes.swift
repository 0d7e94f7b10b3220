#if canImport(CryptoKit)
private import CryptoKit

/// The system's own hashes, with the names and the API of ours.
package struct SHA1: HashFunction {
    private var hash = CryptoKit.Insecure.SHA1()

    package init() {}

    package mutating func update(_ bytes: UnsafeRawBufferPointer) { self.hash.update(bufferPointer: bytes) }

    package mutating func finalize() -> [UInt8] { Array(self.hash.finalize()) }
}

package struct SHA256: HashFunction {
    private var hash = CryptoKit.SHA256()

    package init() {}

    package mutating func update(_ bytes: UnsafeRawBufferPointer) { self.hash.update(bufferPointer: bytes) }

    package mutating func finalize() -> [UInt8] { Array(self.hash.finalize()) }
}

package struct MD5: HashFunction {
    private var hash = CryptoKit.Insecure.MD5()

    package init() {}

    package mutating func update(_ bytes: UnsafeRawBufferPointer) { self.hash.update(bufferPointer: bytes) }

    package mutating func finalize() -> [UInt8] { Array(self.hash.finalize()) }
}
#endif
