/// A hash of bytes that come in pieces.
package protocol HashFunction: Sendable {
    init()
    mutating func update(_ bytes: UnsafeRawBufferPointer)
    /// The hash. The value is used up by it.
    mutating func finalize() -> [UInt8]
}

extension HashFunction {
    package static func hash(_ bytes: [UInt8]) -> [UInt8] {
        var hash = Self()
        hash.update(bytes)
        return hash.finalize()
    }

    package mutating func update(_ bytes: [UInt8]) { bytes.withUnsafeBytes { self.update($0) } }
}
