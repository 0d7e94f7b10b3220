private import CRealtimeSystem

/// Mask keys for a client's frames, from 4 KiB of the system's randomness at a time: asked for one by one they would
/// cost fifty times what encoding a frame costs. One of these serves a whole event loop; a copy would give out the same keys.
package struct MaskKeys: Sendable {
    private static let count = 1024

    private var keys: [UInt32] = []

    package init() {}

    /// A key that the peer's scripts cannot foresee (RFC 6455 section 5.3). None is used twice.
    package mutating func next() -> UInt32 {
        if self.keys.isEmpty { self.refill() }
        return self.keys.removeLast()
    }

    /// Bytes for the nonce of a handshake.
    package mutating func bytes(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count { withUnsafeBytes(of: self.next()) { bytes.append(contentsOf: $0) } }
        return Array(bytes.prefix(count))
    }

    private mutating func refill() {
        self.keys = [UInt32](unsafeUninitializedCapacity: Self.count) { buffer, initialized in
            buffer.initialize(repeating: 0)
            initialized = Self.count
            guard realtime_random_bytes(buffer.baseAddress, Self.count * MemoryLayout<UInt32>.size) != 0 else { return }
            // A kernel without getrandom. The generator knows other sources.
            var generator = SystemRandomNumberGenerator()
            for index in buffer.indices { buffer[index] = generator.next() }
        }
    }
}
