/// The Salsa20 stream cipher with 20 rounds, a key of 256 bits and a nonce of 64 bits.
///
/// - Source: D. J. Bernstein, "The Salsa20 family of stream ciphers".
struct Salsa20 {
    private let state: SalsaState

    init(key: SalsaKey, nonce: SIMD2<UInt32>) {
        self.state = SalsaState(key: key, input: SIMD4(lowHalf: nonce, highHalf: SIMD2()))
    }

    /// Returns four consecutive blocks of the key stream, of which the first one has the given number.
    func blocks(from number: UInt64) -> KeyStream {
        var initial = self.state
        let numbers = SIMD4<UInt64>(repeating: number) &+ SIMD4(0, 1, 2, 3)
        initial.x8 = SIMD4(truncatingIfNeeded: numbers)
        initial.x9 = SIMD4(truncatingIfNeeded: numbers &>> 32)
        var state = initial
        state.permute()
        state.add(initial)
        return KeyStream(state)
    }
}

/// A key of 32 bytes as words.
struct SalsaKey {
    var low, high: SIMD4<UInt32>

    init(low: SIMD4<UInt32>, high: SIMD4<UInt32>) {
        self.low = low
        self.high = high
    }

    /// - Parameter bytes: At least 32 bytes.
    init(_ bytes: UnsafeRawBufferPointer) {
        self.low = bytes.loadUnaligned(as: SIMD4<UInt32>.self)
        self.high = bytes.loadUnaligned(fromByteOffset: 16, as: SIMD4<UInt32>.self)
    }
}
