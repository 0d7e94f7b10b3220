extension String {
    /// Creates a string from bytes, or returns `nil` if they aren't valid UTF-8. The standard library's initializer requires newer systems.
    package init?(validUTF8 bytes: [UInt8]) {
        self.init(decoding: bytes, as: UTF8.self)
        // Invalid bytes were replaced.
        guard self.utf8.elementsEqual(bytes) else { return nil }
    }
}
