extension String {
    /// Creates a string from bytes, or returns `nil` if they aren't valid UTF-8. The standard library's initializer requires newer systems.
    package init?(validUTF8 bytes: [UInt8]) {
        self.init(decoding: bytes, as: UTF8.self)
        // Invalid bytes were replaced.
        guard self.utf8.count == bytes.count, self.withUTF8({ $0.isEqual(to: bytes) }) else { return nil }
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// Returns whether an array of the same length has the same bytes. Unlike `elementsEqual`, this is compiled to vector instructions.
    fileprivate func isEqual(to bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBufferPointer { bytes in
            var difference: UInt8 = 0
            for index in 0..<self.count { difference |= self[index] ^ bytes[index] }
            return difference == 0
        }
    }
}
