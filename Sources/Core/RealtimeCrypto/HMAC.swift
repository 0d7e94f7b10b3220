/// A message authentication code based on SHA-256 (HMAC, RFC 2104).
package struct HMACSHA256: Sendable {
    private var inner = SHA256()
    private var outer = SHA256()

    /// Creates a code for no input.
    package init(key: [UInt8]) {
        var block = key.count > 64 ? SHA256.hash(key) : key
        block.append(contentsOf: repeatElement(0, count: 64 - block.count))
        self.inner.update(block.map { $0 ^ 0x36 })
        self.outer.update(block.map { $0 ^ 0x5c })
    }

    /// Adds bytes to the input.
    package mutating func update(_ bytes: UnsafeRawBufferPointer) { self.inner.update(bytes) }

    /// Adds bytes to the input.
    package mutating func update(_ bytes: [UInt8]) { self.inner.update(bytes) }

    /// Returns the 32-byte code of the whole input. The value cannot be used afterwards.
    package mutating func finalize() -> [UInt8] {
        self.outer.update(self.inner.finalize())
        return self.outer.finalize()
    }

    /// Returns the 32-byte code of `bytes`.
    package static func code(for bytes: [UInt8], key: [UInt8]) -> [UInt8] {
        var code = HMACSHA256(key: key)
        code.update(bytes)
        return code.finalize()
    }
}

/// Compares two byte sequences in time that depends only on their lengths, so that timing reveals nothing about a signature.
package func constantTimeEqual(_ lhs: [UInt8], _ rhs: [UInt8]) -> Bool {
    guard lhs.count == rhs.count else { return false }
    var difference: UInt8 = 0
    for index in lhs.indices { difference |= lhs[index] ^ rhs[index] }
    return difference == 0
}

/// Compares two signatures or tokens in time that depends only on their lengths.
package func constantTimeEqual(_ lhs: some StringProtocol, _ rhs: some StringProtocol) -> Bool {
    constantTimeEqual(Array(lhs.utf8), Array(rhs.utf8))
}
