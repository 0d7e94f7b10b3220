private import CRealtimeSystem

/// A mask key, aligned to an offset in the payload (RFC 6455 section 5.3).
struct Mask {
    private let word: UInt64

    /// - Parameters:
    ///   - key: The four bytes of the key as they are sent, the first one in the lowest bits.
    ///   - offset: The number of payload bytes that precede the bytes to mask.
    @inline(__always)
    init(_ key: UInt32, offset: Int = 0) {
        let shift = UInt32(truncatingIfNeeded: offset & 3) &* 8
        let rotated = key &>> shift | key &<< ((32 &- shift) & 31)
        self.word = UInt64(rotated) << 32 | UInt64(rotated)
    }

    /// Returns a key for one frame of a client. The peer cannot predict it (RFC 6455 section 10.3).
    @inline(__always)
    static func randomKey() -> UInt32 { realtime_random_word() }

    /// Copies bytes and masks or unmasks them, 8 at a time.
    @inline(__always)
    func copy(_ source: UnsafeRawPointer, to target: UnsafeMutableRawPointer, count: Int) {
        let stored = self.word.littleEndian
        var offset = 0
        while count &- offset >= 8 {
            target.storeBytes(
                of: source.loadUnaligned(fromByteOffset: offset, as: UInt64.self) ^ stored, toByteOffset: offset, as: UInt64.self)
            offset &+= 8
        }
        var remaining = self.word
        while offset < count {
            let byte = source.load(fromByteOffset: offset, as: UInt8.self) ^ UInt8(truncatingIfNeeded: remaining)
            target.storeBytes(of: byte, toByteOffset: offset, as: UInt8.self)
            remaining &>>= 8
            offset &+= 1
        }
    }
}

extension [UInt8] {
    /// Appends a payload. Masks or unmasks it if there is a mask.
    @inline(__always)
    mutating func append(_ payload: UnsafeRawBufferPointer, mask: Mask?) {
        guard let source = payload.baseAddress, payload.count > 0 else { return }
        self.append(addingCapacity: payload.count) { span in
            span.withUnsafeMutableBufferPointer { buffer, initialized in
                guard let target = UnsafeMutableRawPointer(buffer.baseAddress) else { return }
                if let mask {
                    mask.copy(source, to: target, count: payload.count)
                } else {
                    target.copyMemory(from: source, byteCount: payload.count)
                }
                initialized = payload.count
            }
        }
    }
}
