#if !canImport(CryptoKit)
/// SHA-1 (FIPS 180-4), which the WebSocket handshake requires. It is not collision-resistant.
package struct SHA1: BlockHash {
    typealias State = (UInt32, UInt32, UInt32, UInt32, UInt32)

    var state: State = (0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0)
    var blocks = Blocks()
    static let isBigEndian = true

    package init() {}

    static func compress(_ block: UnsafeRawPointer, _ state: inout State) {
        withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 80) { words in
            for index in 0..<16 {
                words[index] = UInt32(bigEndian: block.loadUnaligned(fromByteOffset: 4 * index, as: UInt32.self))
            }
            for index in 16..<80 {
                words[index] = (words[index - 3] ^ words[index - 8] ^ words[index - 14] ^ words[index - 16]).rotated(left: 1)
            }
            var (a, b, c, d, e) = state
            for index in 0..<80 {
                let (mix, constant): (UInt32, UInt32) =
                    switch index {
                    case ..<20: (d ^ (b & (c ^ d)), 0x5a82_7999)
                    case ..<40: (b ^ c ^ d, 0x6ed9_eba1)
                    case ..<60: ((b & c) | (d & (b | c)), 0x8f1b_bcdc)
                    default: (b ^ c ^ d, 0xca62_c1d6)
                    }
                let sum = a.rotated(left: 5) &+ mix &+ e &+ constant &+ words[index]
                (a, b, c, d, e) = (sum, a, b.rotated(left: 30), c, d)
            }
            state = (state.0 &+ a, state.1 &+ b, state.2 &+ c, state.3 &+ d, state.4 &+ e)
        }
    }
}
#endif
