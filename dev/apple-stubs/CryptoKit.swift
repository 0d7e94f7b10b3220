// A stub of Apple's CryptoKit for type-checking: the declarations that this package uses, written from its documentation.

public protocol Digest: Hashable, Sendable, Sequence where Element == UInt8 {
    static var byteCount: Int { get }
}

public protocol HashFunction: Sendable {
    associatedtype Digest: CryptoKit.Digest
    init()
    mutating func update(bufferPointer: UnsafeRawBufferPointer)
    func finalize() -> Digest
}

public struct StubDigest: Digest {
    public static var byteCount: Int { 0 }
    public func makeIterator() -> Array<UInt8>.Iterator { [].makeIterator() }
}

public struct SHA256: HashFunction {
    public init() {}
    public mutating func update(bufferPointer: UnsafeRawBufferPointer) {}
    public func finalize() -> StubDigest { StubDigest() }
}

public enum Insecure {
    public struct SHA1: HashFunction {
        public init() {}
        public mutating func update(bufferPointer: UnsafeRawBufferPointer) {}
        public func finalize() -> StubDigest { StubDigest() }
    }

    public struct MD5: HashFunction {
        public init() {}
        public mutating func update(bufferPointer: UnsafeRawBufferPointer) {}
        public func finalize() -> StubDigest { StubDigest() }
    }
}
