/// Tells a client that reads slowly from one that reads nothing.
struct WriteProgress: Sendable {
    private var last: Int?

    /// - Parameter sent: grows while the client reads.
    mutating func hasStalled(at sent: Int) -> Bool {
        defer { self.last = sent }
        return self.last == sent
    }
}
