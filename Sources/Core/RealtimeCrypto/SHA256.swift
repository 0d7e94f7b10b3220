#if !canImport(CryptoKit)
/// SHA-256 (FIPS 180-4).
package struct SHA256: BlockHash {
    typealias State = (UInt32, UInt32, UInt32, UInt32, UInt32, UInt32, UInt32, UInt32)

    var state: State = (
        0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a,
        0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19
    )
    var blocks = Blocks()
    static let isBigEndian = true

    package init() {}

    static func compress(_ block: UnsafeRawPointer, _ state: inout State) {
        withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 64) { words in
            for index in 0..<16 {
                words[index] = UInt32(bigEndian: block.loadUnaligned(fromByteOffset: 4 * index, as: UInt32.self))
            }
            for index in 16..<64 {
                let (first, second) = (words[index - 15], words[index - 2])
                let small = first.rotated(right: 7) ^ first.rotated(right: 18) ^ first &>> 3
                let large = second.rotated(right: 17) ^ second.rotated(right: 19) ^ second &>> 10
                words[index] = words[index - 16] &+ small &+ words[index - 7] &+ large
            }
            var (a, b, c, d, e, f, g, h) = state
            Self.constants.withUnsafeBufferPointer { constants in
                for index in 0..<64 {
                    let upper = e.rotated(right: 6) ^ e.rotated(right: 11) ^ e.rotated(right: 25)
                    let first = h &+ upper &+ (g ^ (e & (f ^ g))) &+ constants[index] &+ words[index]
                    let lower = a.rotated(right: 2) ^ a.rotated(right: 13) ^ a.rotated(right: 22)
                    let second = lower &+ ((a & b) | (c & (a | b)))
                    (a, b, c, d, e, f, g, h) = (first &+ second, a, b, c, d &+ first, e, f, g)
                }
            }
            state = (
                state.0 &+ a, state.1 &+ b, state.2 &+ c, state.3 &+ d,
                state.4 &+ e, state.5 &+ f, state.6 &+ g, state.7 &+ h
            )
        }
    }

    /// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
    private static let constants: [UInt32] = [
        0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
        0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
        0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
        0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
        0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
        0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
        0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
        0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
    ]
}
#endif
