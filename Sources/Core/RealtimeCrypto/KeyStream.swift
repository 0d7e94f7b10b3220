/// Four blocks of a key stream: 256 bytes.
struct KeyStream {
    typealias Word = SIMD4<UInt32>

    static let size = 256

    private var words: (Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word)

    /// Sorts the words by block.
    @inline(__always)
    init(_ state: SalsaState) {
        let first = Self.transposed(state.x0, state.x1, state.x2, state.x3)
        let second = Self.transposed(state.x4, state.x5, state.x6, state.x7)
        let third = Self.transposed(state.x8, state.x9, state.x10, state.x11)
        let fourth = Self.transposed(state.x12, state.x13, state.x14, state.x15)
        self.words = (
            first.0, second.0, third.0, fourth.0, first.1, second.1, third.1, fourth.1,
            first.2, second.2, third.2, fourth.2, first.3, second.3, third.3, fourth.3
        )
    }

    @inline(__always)
    private static func transposed(_ a: Word, _ b: Word, _ c: Word, _ d: Word) -> (Word, Word, Word, Word) {
        (
            Word(a[0], b[0], c[0], d[0]), Word(a[1], b[1], c[1], d[1]),
            Word(a[2], b[2], c[2], d[2]), Word(a[3], b[3], c[3], d[3])
        )
    }

    /// The first 32 bytes.
    var prefix: SalsaKey { SalsaKey(low: self.words.0, high: self.words.1) }

    /// Writes `count` bytes of input, combined with the key stream from a position on.
    func apply(from position: Int, to input: UnsafeRawPointer, _ output: UnsafeMutableRawPointer, count: Int) {
        withUnsafeBytes(of: self.words) { stream in
            var index = 0
            while index &+ 16 <= count {
                let word = stream.loadUnaligned(fromByteOffset: position &+ index, as: Word.self)
                output.storeBytes(of: input.loadUnaligned(fromByteOffset: index, as: Word.self) ^ word, toByteOffset: index, as: Word.self)
                index &+= 16
            }
            while index < count {
                let byte = input.load(fromByteOffset: index, as: UInt8.self) ^ stream[position &+ index]
                output.storeBytes(of: byte, toByteOffset: index, as: UInt8.self)
                index &+= 1
            }
        }
    }
}
