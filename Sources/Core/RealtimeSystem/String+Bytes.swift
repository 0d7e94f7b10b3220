// The standard library's methods for parts of a collection link the engine for regular expressions, which adds 1 MB to a program.

extension StringProtocol {
    /// Whether the text contains another one, compared by bytes.
    package func containsText(_ text: some StringProtocol) -> Bool {
        BytePattern(Array(text.utf8)).position(in: Array(self.utf8), from: 0) != nil
    }

    /// Returns the text with each occurrence of another one replaced, compared by bytes. An empty text doesn't occur.
    package func replacingText(_ text: some StringProtocol, with replacement: String) -> String {
        let (bytes, pattern) = (Array(self.utf8), BytePattern(Array(text.utf8)))
        guard !pattern.bytes.isEmpty else { return String(self) }
        var (result, start) = ([UInt8](), 0)
        while let position = pattern.position(in: bytes, from: start) {
            result += bytes[start..<position]
            result += replacement.utf8
            start = position + pattern.bytes.count
        }
        return start == 0 ? String(self) : String(decoding: result + bytes[start...], as: UTF8.self)
    }
}

/// Bytes to search for, in linear time: with the algorithm of Knuth, Morris and Pratt. Peers choose both the pattern and the text.
private struct BytePattern {
    let bytes: [UInt8]
    /// For each length of a start of the pattern, the length of the longest shorter start that it ends with.
    private let borders: [Int]

    init(_ bytes: [UInt8]) {
        var borders = [Int](repeating: 0, count: bytes.count + 1)
        var border = 0
        for index in bytes.indices.dropFirst() {
            while border > 0, bytes[border] != bytes[index] { border = borders[border] }
            if bytes[border] == bytes[index] { border += 1 }
            borders[index + 1] = border
        }
        (self.bytes, self.borders) = (bytes, borders)
    }

    /// Returns the first position of the pattern in a text from an index on, or `nil` if there is none. An empty pattern is everywhere.
    func position(in text: [UInt8], from start: Int) -> Int? {
        if self.bytes.isEmpty { return start }
        guard text.count - start >= self.bytes.count else { return nil }
        var matched = 0
        for index in start..<text.count {
            while matched > 0, self.bytes[matched] != text[index] { matched = self.borders[matched] }
            if self.bytes[matched] == text[index] { matched += 1 }
            if matched == self.bytes.count { return index + 1 - matched }
        }
        return nil
    }
}
