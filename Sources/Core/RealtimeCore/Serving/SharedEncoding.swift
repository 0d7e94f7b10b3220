import RealtimeSystem

/// Encodes a large message once for the clients that receive it one after the other. Keeps the last one.
package final class SharedEncoding: Sendable {
    private let last = Lock<(message: [UInt8], encoded: [UInt8])?>(nil)

    package init() {}

    /// Returns the encoded bytes of a message. All calls must encode in the same way.
    package func encode(_ message: [UInt8], _ encode: ([UInt8]) -> [UInt8]) -> [UInt8] {
        guard SharedBody.isLarge(message) else { return encode(message) }
        let known = self.last.withLock { last in last.flatMap { $0.message.isIdentical(to: message) ? $0.encoded : nil } }
        if let known { return known }
        let encoded = encode(message)
        // Released outside the lock.
        let earlier = self.last.withLock { last in
            defer { last = (message, encoded) }
            return last
        }
        _ = earlier
        return encoded
    }
}

extension [UInt8] {
    /// Whether two arrays are copies of each other that share their memory.
    fileprivate func isIdentical(to other: [UInt8]) -> Bool {
        self.count == other.count && self.withUnsafeBytes { own in other.withUnsafeBytes { $0.baseAddress == own.baseAddress } }
    }
}
