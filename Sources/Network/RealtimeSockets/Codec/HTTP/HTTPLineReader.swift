import RealtimeCore
import RealtimeSystem

/// Splits input into lines, and buffers a line that is not complete.
///
/// A line must end with CR LF, although RFC 9112 section 2.2 permits a single LF, and must not contain other CRs. If two parsers could
/// find different lines, requests could be smuggled.
struct HTTPLineReader: Sendable {
    private var partial: [UInt8] = []

    init() {}

    var isEmpty: Bool { self.partial.isEmpty }

    /// Reads the next line and removes it from `input`.
    ///
    /// The first invalid byte determines the error, so that the result does not depend on how the input is split.
    ///
    /// - Parameters:
    ///   - input: The bytes that were received and not yet consumed.
    ///   - limit: The maximum number of bytes in the line, without CR LF.
    ///   - tooLong: The error to throw if the line is longer.
    /// - Returns: The line without CR LF, or `nil` if it is not complete.
    /// - Throws: `tooLong`, or another `TransportError` if the line is malformed.
    mutating func next(
        _ input: inout UnsafeRawBufferPointer, limit: Int, tooLong: @autoclosure () -> TransportError
    ) throws(TransportError) -> [UInt8]? {
        if let line = self.completeLine(&input, limit) { return line }
        var count = self.partial.count
        var isAfterCR = self.partial.last == 0x0D
        for (offset, byte) in input.enumerated() {
            if byte == 0x0A {
                guard isAfterCR else {
                    throw .malformed("The peer sent a line feed without a carriage return.")
                }
                var line = self.partial
                self.partial = []
                line.append(contentsOf: input[..<offset])
                line.removeLast()
                input = UnsafeRawBufferPointer(rebasing: input[(offset + 1)...])
                return line
            }
            if isAfterCR { throw .malformed("The peer sent a carriage return within a line.") }
            isAfterCR = byte == 0x0D
            count += 1
            if count > limit, !(isAfterCR && count == limit + 1) { throw tooLong() }
        }
        self.partial.append(contentsOf: input)
        input = UnsafeRawBufferPointer(rebasing: input.suffix(0))
        return nil
    }

    /// Reads a line that is valid and completely in the input, which is the usual case, without looking at each byte.
    ///
    /// - Returns: `nil` if there is no such line. Nothing is consumed then.
    private func completeLine(_ input: inout UnsafeRawBufferPointer, _ limit: Int) -> [UInt8]? {
        guard self.partial.isEmpty, let start = input.baseAddress, let lineFeed = memchr(start, 0x0A, input.count) else { return nil }
        let count = UnsafeRawPointer(lineFeed) - start - 1
        guard count >= 0, count <= limit, let carriageReturn = memchr(start, 0x0D, count + 1),
            UnsafeRawPointer(carriageReturn) == start + count
        else { return nil }
        defer { input = UnsafeRawBufferPointer(rebasing: input[(count + 2)...]) }
        return Array(input[..<count])
    }
}
