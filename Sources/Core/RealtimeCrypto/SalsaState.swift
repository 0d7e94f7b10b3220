/// The 16 words of four blocks. Each vector contains the same word of all blocks.
struct SalsaState {
    typealias Word = SIMD4<UInt32>

    var x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15: Word

    /// - Parameter input: The words between the two halves of the key.
    init(key: SalsaKey, input: SIMD4<UInt32>) {
        // The text "expand 32-byte k" in words.
        self.x0 = Word(repeating: 0x6170_7865)
        self.x5 = Word(repeating: 0x3320_646e)
        self.x10 = Word(repeating: 0x7962_2d32)
        self.x15 = Word(repeating: 0x6b20_6574)
        self.x1 = Word(repeating: key.low[0])
        self.x2 = Word(repeating: key.low[1])
        self.x3 = Word(repeating: key.low[2])
        self.x4 = Word(repeating: key.low[3])
        self.x6 = Word(repeating: input[0])
        self.x7 = Word(repeating: input[1])
        self.x8 = Word(repeating: input[2])
        self.x9 = Word(repeating: input[3])
        self.x11 = Word(repeating: key.high[0])
        self.x12 = Word(repeating: key.high[1])
        self.x13 = Word(repeating: key.high[2])
        self.x14 = Word(repeating: key.high[3])
    }

    /// Applies the 20 rounds: ten times one to the columns and one to the rows.
    @inline(__always)
    mutating func permute() {
        for _ in 0..<10 {
            Self.quarterRound(&self.x0, &self.x4, &self.x8, &self.x12)
            Self.quarterRound(&self.x5, &self.x9, &self.x13, &self.x1)
            Self.quarterRound(&self.x10, &self.x14, &self.x2, &self.x6)
            Self.quarterRound(&self.x15, &self.x3, &self.x7, &self.x11)
            Self.quarterRound(&self.x0, &self.x1, &self.x2, &self.x3)
            Self.quarterRound(&self.x5, &self.x6, &self.x7, &self.x4)
            Self.quarterRound(&self.x10, &self.x11, &self.x8, &self.x9)
            Self.quarterRound(&self.x15, &self.x12, &self.x13, &self.x14)
        }
    }

    /// Each of the four sums is rotated by its own number of bits.
    @inline(__always)
    private static func quarterRound(_ a: inout Word, _ b: inout Word, _ c: inout Word, _ d: inout Word) {
        Self.combine(&b, a &+ d, 7)
        Self.combine(&c, b &+ a, 9)
        Self.combine(&d, c &+ b, 13)
        Self.combine(&a, d &+ c, 18)
    }

    /// Combines a word with another one, rotated to the left.
    ///
    /// The two halves of the rotation are combined one after the other. The compiler replaces a complete rotation by one for each element of
    /// the vector, which takes several times as long.
    @inline(__always)
    private static func combine(_ word: inout Word, _ other: Word, _ count: UInt32) {
        word ^= other &<< count
        word ^= other &>> (32 &- count)
    }

    @inline(__always)
    mutating func add(_ other: SalsaState) {
        self.x0 &+= other.x0
        self.x1 &+= other.x1
        self.x2 &+= other.x2
        self.x3 &+= other.x3
        self.x4 &+= other.x4
        self.x5 &+= other.x5
        self.x6 &+= other.x6
        self.x7 &+= other.x7
        self.x8 &+= other.x8
        self.x9 &+= other.x9
        self.x10 &+= other.x10
        self.x11 &+= other.x11
        self.x12 &+= other.x12
        self.x13 &+= other.x13
        self.x14 &+= other.x14
        self.x15 &+= other.x15
    }
}
