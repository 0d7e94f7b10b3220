import RealtimeEncoding
package import RealtimeCore

/// An incremental decoder for the body of a message.
package struct HTTPBodyDecoder: Sendable {
    /// The next part of a body.
    package enum Piece {
        /// Bytes of the body: a part of the input, valid as long as the input.
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
    /// The number of bytes that the rest of a request's body may have; `nil` for a response.
    private var requestBytes: Int?
    private var state: State
    private var lines = HTTPLineReader()

    /// Creates a decoder.
    ///
    /// - Parameters:
    ///   - framing: How the length of the body is determined.
    ///   - limits: The limits on chunk size lines and trailers.
    ///   - requestLimit: The maximum size of a request's body; `nil` for the body of a response, which is decoded less strictly.
    package init(_ framing: HTTPBodyFraming, limits: HTTPLimits, requestLimit: Int? = nil) {
        self.limits = limits
        self.requestBytes = requestLimit
        self.state =
            switch framing {
            case .none: .ended
            case .length(let length): length == 0 ? .ended : .bytes(length)
            case .chunked: .chunkSize
            case .untilClose: .untilClose
            }
    }

    /// Limits the size of a request's body, before any of it was decoded.
    ///
    /// - Throws: `TransportError` with the status 413 if the body is larger. One in chunks isn't known to be yet.
    mutating func limitRequest(to limit: Int) throws(TransportError) {
        if case .bytes(let length) = self.state, length > limit {
            throw TransportError(.tooLarge, "The client sent a body of more than \(limit) bytes.", status: 413)
        }
        self.requestBytes = self.requestBytes.map { min($0, limit) }
    }

    /// Decodes the next piece and removes the consumed bytes from `input`. After the end it consumes nothing.
    ///
    /// - Parameter input: The bytes that were received and not yet consumed.
    /// - Returns: The next piece.
    /// - Throws: `TransportError` if the body is malformed or exceeds the limits.
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
                let error = TransportError.malformed("The peer sent a chunk that is longer than its announced size.")
                guard try self.lines.next(&input, limit: 0, tooLong: error) != nil else { return .needsMore }
                self.state = .chunkSize
            case .chunkSize:
                guard let line = try self.lines.next(&input, limit: self.limits.chunkLineBytes, tooLong: Self.chunkLineTooLong) else {
                    return .needsMore
                }
                let size = try self.chunkSize(line)
                self.state = size == 0 ? .trailers(bytes: 0, fields: 0) : .chunk(size)
            case .trailers(let bytes, let fields):
                let limit = min(self.limits.lineBytes, self.limits.headBytes - bytes)
                guard let line = try self.lines.next(&input, limit: limit, tooLong: Self.trailersTooLong) else { return .needsMore }
                if line.isEmpty {
                    self.state = .ended
                    return .end
                }
                // Trailer fields are validated to find the end of the body, and ignored.
                _ = try HTTPHeadParser.readField(line)
                guard fields < self.limits.fields, bytes + line.count + 2 <= self.limits.headBytes else {
                    throw Self.trailersTooLong
                }
                self.state = .trailers(bytes: bytes + line.count + 2, fields: fields + 1)
            }
        }
    }

    /// Decodes the chunks of a response at the beginning of the input that are complete, and whose size is a few digits and nothing else.
    ///
    /// A stream consists of many such chunks, and this takes a fraction of the time of ``next(_:)``, which decodes everything else.
    ///
    /// - Parameters:
    ///   - input: The bytes that were received and not yet consumed.
    ///   - body: Receives the contents of each chunk.
    @inline(__always)
    package mutating func takeCompleteChunks(_ input: inout UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Void) {
        guard self.requestBytes == nil, self.lines.isEmpty, self.limits.chunkLineBytes >= Self.plainDigits,
            var start = input.baseAddress
        else { return }
        let end = start + input.count
        switch self.state {
        case .chunkSize: break
        case .chunkEnd:
            guard end - start >= 2, Self.isLineEnd(start) else { return }
            self.state = .chunkSize
            start += 2
        default: return
        }
        while true {
            var (next, size) = (start, 0)
            let limit = min(end, start + Self.plainDigits)
            while next < limit, let digit = Hex.value(next.load(as: UInt8.self)) {
                size = size &<< 4 | Int(digit)
                next += 1
            }
            // A size of 0 ends the body.
            guard size > 0, end - next >= size + 4, Self.isLineEnd(next), Self.isLineEnd(next + 2 + size) else { break }
            body(UnsafeRawBufferPointer(start: next + 2, count: size))
            start = next + size + 4
        }
        input = UnsafeRawBufferPointer(start: start, count: end - start)
    }

    /// The largest number of digits that ``takeCompleteChunks(_:_:)`` decodes.
    private static let plainDigits = 7

    @inline(__always)
    private static func isLineEnd(_ bytes: UnsafeRawPointer) -> Bool {
        UInt16(littleEndian: bytes.loadUnaligned(as: UInt16.self)) == 0x0A0D
    }

    /// Handles the end of the connection.
    ///
    /// - Throws: `TransportError` with the code `closed` if the body is incomplete.
    package mutating func endOfStream() throws(TransportError) {
        switch self.state {
        case .ended: return
        case .untilClose: self.state = .ended
        case .bytes(let remaining):
            throw TransportError(.closed, "The peer closed the connection \(remaining) bytes before the end of the body.")
        case .chunkSize, .chunk, .chunkEnd, .trailers:
            throw TransportError(.closed, "The peer closed the connection before the last chunk of the body.")
        }
    }

    private static func take(_ count: Int, _ input: inout UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let piece = UnsafeRawBufferPointer(rebasing: input.prefix(count))
        input = UnsafeRawBufferPointer(rebasing: input.dropFirst(count))
        return piece
    }

    private static var chunkLineTooLong: TransportError {
        TransportError(.tooLarge, "The peer sent a chunk size line that is too long.", status: 431)
    }

    private static var trailersTooLong: TransportError {
        TransportError(.tooLarge, "The peer sent trailer fields that are too large.", status: 431)
    }

    /// Parses hexadecimal digits, optionally followed by a semicolon and extensions (RFC 9112 section 7.1).
    ///
    /// Some servers pad the size with blanks. In a request they are rejected, because servers in a chain could interpret them differently.
    private mutating func chunkSize(_ line: [UInt8]) throws(TransportError) -> Int {
        let digits = line.prefix { Hex.value($0) != nil }
        var rest = line[digits.endIndex...]
        if self.requestBytes == nil { rest = rest.drop(while: HTTPCharacters.isBlank) }
        guard !digits.isEmpty, rest.isEmpty || rest.first == UInt8(ascii: ";"), HTTPCharacters.isFieldValue(rest) else {
            throw .malformed("The peer sent an invalid chunk size.")
        }
        var size = 0
        for digit in digits {
            let (shifted, overflow) = size.multipliedReportingOverflow(by: 16)
            guard !overflow else { throw self.chunkTooLarge }
            size = shifted | Int(Hex.value(digit) ?? 0)
        }
        if let requestBytes {
            // Checked before the chunk arrives, so that the client doesn't send it in vain.
            guard size <= requestBytes else { throw self.chunkTooLarge }
            self.requestBytes = requestBytes - size
        }
        return size
    }

    private var chunkTooLarge: TransportError {
        guard self.requestBytes != nil else { return .malformed("The peer sent a chunk size that is too large.") }
        return TransportError(.tooLarge, "The client sent a chunk that exceeds the maximum size of a body.", status: 413)
    }
}
