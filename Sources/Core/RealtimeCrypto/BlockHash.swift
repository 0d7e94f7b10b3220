#if !canImport(CryptoKit)
/// The structure shared by MD5, SHA-1 and SHA-256: each block of 64 bytes updates a state of 32-bit words, which becomes the digest.
protocol BlockHash: HashFunction {
    associatedtype State: BitwiseCopyable & Sendable

    var state: State { get set }
    var blocks: Blocks { get set }
    /// The byte order of the length in the last block and of the words in the digest.
    static var isBigEndian: Bool { get }
    /// Updates the state with one block of 64 bytes.
    static func compress(_ block: UnsafeRawPointer, _ state: inout State)
}

extension BlockHash {
    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        var state = self.state
        self.blocks.update(bytes) { Self.compress($0, &state) }
        self.state = state
    }

    /// Returns the digest of the whole input. The value cannot be used afterwards.
    package mutating func finalize() -> [UInt8] {
        var state = self.state
        self.blocks.finish(bigEndianLength: Self.isBigEndian) { Self.compress($0, &state) }
        return withUnsafeBytes(of: state) { words in
            // The first byte of a big-endian word is the last one in memory.
            words.indices.map { words[Self.isBigEndian == (1.bigEndian == 1) ? $0 : $0 ^ 3] }
        }
    }
}

/// Splits input of any size into blocks of 64 bytes, and pads the last one with a one bit, zeros and the input's length in bits.
struct Blocks: Sendable {
    private var pending: [UInt8] = []
    private var length: UInt64 = 0

    /// Calls `compress` for each complete block.
    mutating func update(_ bytes: UnsafeRawBufferPointer, compress: (UnsafeRawPointer) -> Void) {
        self.length &+= UInt64(bytes.count)
        var remaining = bytes[...]
        if !self.pending.isEmpty {
            let missing = remaining.prefix(64 - self.pending.count)
            self.pending.append(contentsOf: missing)
            remaining = remaining.dropFirst(missing.count)
            guard self.pending.count == 64 else { return }
            self.flush(compress)
        }
        let whole = UnsafeRawBufferPointer(rebasing: remaining)
        var offset = 0
        while whole.count - offset >= 64, let start = whole.baseAddress {
            compress(start + offset)
            offset += 64
        }
        self.pending.append(contentsOf: whole[offset...])
    }

    /// Pads the input and calls `compress` for the last one or two blocks.
    mutating func finish(bigEndianLength: Bool, compress: (UnsafeRawPointer) -> Void) {
        let bits = self.length &* 8
        self.pending.append(0x80)
        if self.pending.count > 56 {
            self.pending.append(contentsOf: repeatElement(0, count: 64 - self.pending.count))
            self.flush(compress)
        }
        self.pending.append(contentsOf: repeatElement(0, count: 56 - self.pending.count))
        withUnsafeBytes(of: bigEndianLength ? bits.bigEndian : bits.littleEndian) { self.pending.append(contentsOf: $0) }
        self.flush(compress)
    }

    private mutating func flush(_ compress: (UnsafeRawPointer) -> Void) {
        self.pending.withUnsafeBytes { block in
            if let start = block.baseAddress { compress(start) }
        }
        self.pending.removeAll(keepingCapacity: true)
    }
}

extension UInt32 {
    @inline(__always)
    func rotated(left count: UInt32) -> UInt32 { self &<< count | self &>> (32 &- count) }

    @inline(__always)
    func rotated(right count: UInt32) -> UInt32 { self &>> count | self &<< (32 &- count) }
}
#endif
