/// XORs the bytes with the key (RFC 6455 section 5.3), 8 at a time.
///
/// - Parameters:
///   - key: the four bytes of the key as they lie in the frame, the first one lowest.
///   - offset: how many bytes of the frame's payload came before these.
@inline(__always)
func applyMask(_ key: UInt32, offset: Int = 0, to bytes: UnsafeMutableRawBufferPointer) {
    guard var next = bytes.baseAddress else { return }
    let turn = UInt32(truncatingIfNeeded: offset & 3) &* 8
    let turned = key &>> turn | key &<< ((32 &- turn) & 31)
    let word = (UInt64(turned) << 32 | UInt64(turned)).littleEndian
    let end = next + bytes.count
    while end - next >= 8 {
        next.storeBytes(of: next.loadUnaligned(as: UInt64.self) ^ word, as: UInt64.self)
        next += 8
    }
    var rest = word.littleEndian
    while next < end {
        next.storeBytes(of: next.load(as: UInt8.self) ^ UInt8(truncatingIfNeeded: rest), as: UInt8.self)
        rest &>>= 8
        next += 1
    }
}
