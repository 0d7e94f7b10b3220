import RealtimeEncoding
private import RealtimeCrypto
package import RealtimeCore

/// Takes a body's bytes out of what arrives.
package struct HTTPBodyDecoder: Sendable {
    /// What comes next of a body.
    package enum Piece {
        /// A part of the input: valid as long as that is.
        case bytes(UnsafeRawBufferPointer)
        case needsMore
        case end
    }

    private enum State: Sendable {
        case bytes(Int)
        case untilClose
        case chunkSize
        case chunk(Int)
        case chunkEnd
        case trailers(bytes: Int, fields: Int)
        case ended
    }

    private let limits: HTTPLimits
    private var state: State
    private var lines = HTTPLineReader()

    package init(_ framing: HTTPBodyFraming, limits: HTTPLimits) {
        self.limits = limits
        self.state =
            switch framing {
            case .none: .ended
            case .length(let length): length == 0 ? .ended : .bytes(length)
            case .chunked: .chunkSize
            case .untilClose: .untilClose
            }
    }

    /// The next piece. What it used is taken off `input`; after the end it takes nothing more.
    package mutating func next(_ input: inout UnsafeRawBufferPointer) throws(TransportError) -> Piece {
        while true {
            switch self.state {
            case .ended:
                return .end
            case .untilClose:
                return input.isEmpty ? .needsMore : .bytes(Self.take(input.count, &input))
            case .bytes(let remaining):
                guard !input.isEmpty else { return .needsMore }
                let piece = Self.take(remaining, &input)
                self.state = piece.count == remaining ? .ended : .bytes(remaining - piece.count)
                return .bytes(piece)
            case .chunk(let remaining):
                guard !input.isEmpty else { return .needsMore }
                let piece = Self.take(remaining, &input)
                self.state = piece.count == remaining ? .chunkEnd : .chunk(remaining - piece.count)
                return .bytes(piece)
            case .chunkEnd:
                let wrong = TransportError.malformed("The peer sent a chunk that is longer than it said.")
                guard try self.lines.next(&input, limit: 0, tooLong: wrong) != nil else { return .needsMore }
                self.state = .chunkSize
            case .chunkSize:
                guard let line = try self.lines.next(&input, limit: self.limits.chunkLineBytes, tooLong: Self.chunkLineTooLong) else {
                    return .needsMore
                }
                let size = try Self.chunkSize(line)
                self.state = size == 0 ? .trailers(bytes: 0, fields: 0) : .chunk(size)
            case .trailers(let bytes, let fields):
                let limit = min(self.limits.lineBytes, self.limits.headBytes - bytes)
                guard let line = try self.lines.next(&input, limit: limit, tooLong: Self.trailersTooLong) else { return .needsMore }
                if line.isEmpty {
                    self.state = .ended
                    return .end
                }
                // Nothing here has a use for them; they are read to know where the body ends.
                _ = try HTTPHeadParser.readField(line)
                guard fields < self.limits.fields, bytes + line.count + 2 <= self.limits.headBytes else {
                    throw Self.trailersTooLong
                }
                self.state = .trailers(bytes: bytes + line.count + 2, fields: fields + 1)
            }
        }
    }

    /// The peer has ended the connection. It is fine for a body that ends with it, and for one that has ended.
    package mutating func endOfStream() throws(TransportError) {
        switch self.state {
        case .ended: return
        case .untilClose: self.state = .ended
        case .bytes(let remaining):
            throw TransportError(.closed, "The peer ended the connection \(remaining) bytes before the end of the body.")
        case .chunkSize, .chunk, .chunkEnd, .trailers:
            throw TransportError(.closed, "The peer ended the connection before the last chunk of the body.")
        }
    }

    private static func take(_ count: Int, _ input: inout UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let piece = UnsafeRawBufferPointer(rebasing: input.prefix(count))
        input = UnsafeRawBufferPointer(rebasing: input.dropFirst(count))
        return piece
    }

    private static var chunkLineTooLong: TransportError {
        TransportError(.tooLarge, "The peer sent a chunk with too long a line before it.", status: 431)
    }

    private static var trailersTooLong: TransportError {
        TransportError(.tooLarge, "The peer sent too many trailer fields after its body.", status: 431)
    }

    /// Hexadecimal digits, then maybe extensions after a semicolon (RFC 9112 section 7.1).
    private static func chunkSize(_ line: [UInt8]) throws(TransportError) -> Int {
        let digits = line.prefix { Hex.value($0) != nil }
        var size = 0
        for digit in digits {
            let (shifted, overflow) = size.multipliedReportingOverflow(by: 16)
            guard !overflow else { throw .malformed("The peer sent a chunk size that is no number that fits.") }
            size = shifted | Int(Hex.value(digit) ?? 0)
        }
        let rest = line[digits.endIndex...].drop(while: HTTPCharacters.isBlank)
        guard !digits.isEmpty, rest.isEmpty || rest.first == UInt8(ascii: ";"), HTTPCharacters.isFieldValue(rest) else {
            throw .malformed("The peer sent a chunk whose size cannot be read.")
        }
        return size
    }
}
