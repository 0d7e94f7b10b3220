import RealtimeCore

/// Cuts lines out of what arrives, and keeps the beginning of the one that a read cut off.
///
/// A line ends with CR LF and nothing else (RFC 9112 section 2.2 would allow a bare LF): where two parsers see different
/// lines, requests can be smuggled. For the same reason a CR anywhere else is refused.
struct HTTPLineReader: Sendable {
    private var kept: [UInt8] = []

    init() {}

    var isEmpty: Bool { self.kept.isEmpty }

    /// The next line without its end, or `nil` when it is not whole. What was read is taken off `input`.
    ///
    /// The first bad byte decides, so that the outcome does not depend on how the bytes were cut.
    ///
    /// - Parameters:
    ///   - limit: the most bytes that the line may have.
    ///   - tooLong: thrown when it has more.
    mutating func next(
        _ input: inout UnsafeRawBufferPointer, limit: Int, tooLong: @autoclosure () -> TransportError
    ) throws(TransportError) -> [UInt8]? {
        var count = self.kept.count
        var follows = self.kept.last == 0x0D
        for (offset, byte) in input.enumerated() {
            if byte == 0x0A {
                guard follows else {
                    throw .malformed("The peer ended a line with a line feed alone; a carriage return has to come before it.")
                }
                var line = self.kept
                self.kept = []
                line.append(contentsOf: input[..<offset])
                line.removeLast()
                input = UnsafeRawBufferPointer(rebasing: input[(offset + 1)...])
                return line
            }
            if follows { throw .malformed("The peer sent a carriage return within a line.") }
            follows = byte == 0x0D
            count += 1
            if count > limit, !(follows && count == limit + 1) { throw tooLong() }
        }
        self.kept.append(contentsOf: input)
        input = UnsafeRawBufferPointer(rebasing: input.suffix(0))
        return nil
    }
}
