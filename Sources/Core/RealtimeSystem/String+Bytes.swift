// The standard library's methods for parts of a collection link the engine for regular expressions, which adds 1 MB to a program.

extension StringProtocol {
    /// Whether the text contains another one, compared by bytes.
    package func containsText(_ text: some StringProtocol) -> Bool {
        Self.position(of: Array(text.utf8), in: Array(self.utf8), from: 0) != nil
    }

    /// Returns the text with each occurrence of another one replaced, compared by bytes. An empty text doesn't occur.
    package func replacingText(_ text: some StringProtocol, with replacement: String) -> String {
        let (bytes, pattern) = (Array(self.utf8), Array(text.utf8))
        guard !pattern.isEmpty else { return String(self) }
        var (result, start) = ([UInt8](), 0)
        while let position = Self.position(of: pattern, in: bytes, from: start) {
            result += bytes[start..<position]
            result += replacement.utf8
            start = position + pattern.count
        }
        return start == 0 ? String(self) : String(decoding: result + bytes[start...], as: UTF8.self)
    }

    private static func position(of pattern: [UInt8], in bytes: [UInt8], from start: Int) -> Int? {
        guard bytes.count - start >= pattern.count else { return nil }
        return (start...bytes.count - pattern.count).first { bytes[$0..<$0 + pattern.count].elementsEqual(pattern) }
    }
}
