/// HSalsa20, which derives a key from a key and 16 bytes.
///
/// - Source: D. J. Bernstein, "Extending the Salsa20 nonce".
enum HSalsa20 {
    static func derive(_ key: SalsaKey, input: SIMD4<UInt32>) -> SalsaKey {
        var state = SalsaState(key: key, input: input)
        state.permute()
        return SalsaKey(
            low: SIMD4(state.x0[0], state.x5[0], state.x10[0], state.x15[0]),
            high: SIMD4(state.x6[0], state.x7[0], state.x8[0], state.x9[0]))
    }
}
