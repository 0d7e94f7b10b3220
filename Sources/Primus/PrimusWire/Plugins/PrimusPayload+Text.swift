extension PrimusPayload: CustomStringConvertible {
    /// The value, or the size of one that can't be read.
    package var description: String { (try? self.value())?.description ?? "<\(self.size) bytes>" }
}

extension PrimusArguments: CustomStringConvertible {
    /// The arguments in parentheses, or the size of those that can't be read.
    package var description: String {
        let texts = (try? self.values())?.map(\.description) ?? ["<\(self.array.size) bytes>"]
        return "(\(texts.joined(separator: ", ")))"
    }
}
