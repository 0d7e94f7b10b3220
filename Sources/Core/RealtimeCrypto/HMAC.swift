/// HMAC (RFC 2104) with SHA-256.
package struct HMACSHA256: Sendable {
    private var inner = SHA256()
    private var outer = SHA256()

    package init(key: [UInt8]) {
        var block = key.count > 64 ? SHA256.hash(key) : key
        block.append(contentsOf: repeatElement(0, count: 64 - block.count))
        self.inner.update(block.map { $0 ^ 0x36 })
        self.outer.update(block.map { $0 ^ 0x5c })
    }

    package mutating func update(_ bytes: UnsafeRawBufferPointer) { self.inner.update(bytes) }

    package mutating func update(_ bytes: [UInt8]) { self.inner.update(bytes) }

    /// The 32 bytes of the code. The value is used up by it.
    package mutating func finalize() -> [UInt8] {
        self.outer.update(self.inner.finalize())
        return self.outer.finalize()
    }

    package static func code(for bytes: [UInt8], key: [UInt8]) -> [UInt8] {
        var code = HMACSHA256(key: key)
        code.update(bytes)
        return code.finalize()
    }
}

/// Compares in a time that depends on the lengths alone, so that a guess at a signature learns nothing from it.
package func constantTimeEqual(_ lhs: [UInt8], _ rhs: [UInt8]) -> Bool {
    guard lhs.count == rhs.count else { return false }
    var difference: UInt8 = 0
    for index in lhs.indices { difference |= lhs[index] ^ rhs[index] }
    return difference == 0
}
