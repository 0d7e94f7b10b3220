/// A mask key, ready for a place within the payload (RFC 6455 section 5.3).
struct Mask {
    private let word: UInt64

    /// - Parameters:
    ///   - key: the four bytes of the key as they lie in the frame, the first one lowest.
    ///   - offset: how many bytes of the payload came before.
    @inline(__always)
    init(_ key: UInt32, offset: Int = 0) {
        let turn = UInt32(truncatingIfNeeded: offset & 3) &* 8
        let turned = key &>> turn | key &<< ((32 &- turn) & 31)
        self.word = UInt64(turned) << 32 | UInt64(turned)
    }

    /// Copies bytes and masks (or unmasks) them on the way, 8 at a time.
    @inline(__always)
    func copy(_ source: UnsafeRawPointer, to target: UnsafeMutableRawPointer, count: Int) {
        let stored = self.word.littleEndian
        var offset = 0
        while count &- offset >= 8 {
            target.storeBytes(
                of: source.loadUnaligned(fromByteOffset: offset, as: UInt64.self) ^ stored, toByteOffset: offset, as: UInt64.self)
            offset &+= 8
        }
        var rest = self.word
        while offset < count {
            let byte = source.load(fromByteOffset: offset, as: UInt8.self) ^ UInt8(truncatingIfNeeded: rest)
            target.storeBytes(of: byte, toByteOffset: offset, as: UInt8.self)
            rest &>>= 8
            offset &+= 1
        }
    }
}

extension [UInt8] {
    /// Adds a payload, masked (or unmasked) when there is a mask.
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
