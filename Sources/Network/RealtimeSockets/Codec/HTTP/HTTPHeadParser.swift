package import RealtimeCore

/// An incremental parser for the head of a request or a response.
package struct HTTPHeadParser: Sendable {
    package enum Kind: Sendable {
        case request, response
    }

    /// The first line of a request or response. The major version is always 1.
    package enum StartLine: Sendable, Hashable {
        case request(method: String, target: String, minorVersion: Int)
        case response(status: Int, reason: String, minorVersion: Int)
    }

    package struct Head: Sendable, Hashable {
        package var start: StartLine
        package var headers: HTTPHeaders
    }

    private let kind: Kind
    private let limits: HTTPLimits
    private var lines = HTTPLineReader()
    private var start: StartLine?
    private var fields: [HTTPHeaders.Field] = []
    private var bytes = 0
    private var emptyLines = 0

    package init(_ kind: Kind, limits: HTTPLimits) {
        self.kind = kind
        self.limits = limits
    }

    /// Whether a part of the head has been received.
    package var hasStarted: Bool { self.start != nil || !self.lines.isEmpty }

    /// Whether the first line has been received.
    package var hasStartLine: Bool { self.start != nil }

    /// Parses the head and removes it from `input`.
    ///
    /// - Parameter input: The bytes that were received and not yet consumed.
    /// - Returns: The head, or `nil` if it is not complete. All of `input` has been consumed then.
    /// - Throws: `TransportError` if the head is malformed or exceeds the limits.
    package mutating func next(_ input: inout UnsafeRawBufferPointer) throws(TransportError) -> Head? {
        let limits = self.limits
        while !input.isEmpty {
            let limit = min(limits.lineBytes, limits.headBytes - self.bytes)
            // RFC 9112 section 3: if a request line is too long, the target is.
            let status = self.start == nil ? 414 : 431
            guard let line = try self.lines.next(&input, limit: limit, tooLong: Self.tooLong(limits, status)) else { return nil }
            self.bytes += line.count + 2
            guard self.bytes <= limits.headBytes else { throw Self.tooLong(limits, status) }
            guard let start = self.start else {
                // RFC 9112 section 2.2: a server ignores a few empty lines before a request.
                if line.isEmpty, self.kind == .request, self.emptyLines < 4 {
                    self.emptyLines += 1
                    continue
                }
                self.start = try self.kind == .request ? Self.requestLine(line) : Self.statusLine(line)
                continue
            }
            if line.isEmpty { return self.finish(start) }
            try self.field(line)
        }
        return nil
    }

    private static func tooLong(_ limits: HTTPLimits, _ status: Int) -> TransportError {
        TransportError(
            .tooLarge,
            "The peer sent a head of more than \(limits.headBytes) bytes, or a line of more than \(limits.lineBytes) bytes.",
            status: status)
    }

    private mutating func finish(_ start: StartLine) -> Head {
        defer { self = HTTPHeadParser(self.kind, limits: self.limits) }
        return Head(start: start, headers: HTTPHeaders(self.fields))
    }

    private mutating func field(_ line: [UInt8]) throws(TransportError) {
        if let first = line.first, HTTPCharacters.isBlank(first) { return try self.unfold(line) }
        guard self.fields.count < self.limits.fields else {
            throw TransportError(.tooLarge, "The peer sent more than \(self.limits.fields) header fields.", status: 431)
        }
        let field = try Self.readField(line)
        if self.fields.isEmpty { self.fields.reserveCapacity(8) }
        self.fields.append(HTTPHeaders.Field(name: field.name, value: field.value))
    }

    /// Handles a line that continues the field before it (RFC 9112 section 5.2). It is an error in a request; in a response, it is
    /// appended to the field's value after a space.
    private mutating func unfold(_ line: [UInt8]) throws(TransportError) {
        guard self.kind == .response, let last = self.fields.indices.last else {
            throw .malformed("The peer sent a header field line that starts with whitespace.")
        }
        guard HTTPCharacters.isFieldValue(line) else { throw Self.invalidValue }
        let more = HTTPCharacters.text(HTTPCharacters.trimmed(line[...]))
        if !more.isEmpty { self.fields[last].value += self.fields[last].value.isEmpty ? more : " " + more }
    }

    /// Parses a field line of a head or of trailers.
    static func readField(_ line: [UInt8]) throws(TransportError) -> (name: String, value: String) {
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else {
            throw .malformed("The peer sent a header field line without a colon.")
        }
        // This also rejects white space before the colon, as RFC 9112 section 5.1 requires.
        guard HTTPCharacters.isToken(line[..<colon]) else {
            throw .malformed("The peer sent a header field name that is empty or contains invalid characters.")
        }
        let value = HTTPCharacters.trimmed(line[(colon + 1)...])
        guard HTTPCharacters.isFieldValue(value) else { throw Self.invalidValue }
        return (String(decoding: line[..<colon], as: UTF8.self), HTTPCharacters.text(value))
    }

    private static var invalidValue: TransportError { .malformed("The peer sent a header field value with a control character.") }
}

// MARK: Start lines

extension HTTPHeadParser {
    /// Parses a request line such as `GET /path HTTP/1.1`, with single spaces as separators.
    static func requestLine(_ line: [UInt8]) throws(TransportError) -> StartLine {
        let parts = line.split(separator: 0x20, omittingEmptySubsequences: false)
        guard parts.count == 3, HTTPCharacters.isToken(parts[0]), HTTPCharacters.isTarget(parts[1]) else {
            throw .malformed("The client sent an invalid request line.")
        }
        return .request(
            method: String(decoding: parts[0], as: UTF8.self), target: String(decoding: parts[1], as: UTF8.self),
            minorVersion: try Self.version(parts[2]))
    }

    /// Parses a status line such as `HTTP/1.1 200 OK`. Some servers omit the reason phrase, with or without the space before it.
    static func statusLine(_ line: [UInt8]) throws(TransportError) -> StartLine {
        let parts = line.split(separator: 0x20, maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count >= 2 else { throw .malformed("The server's response is not HTTP.") }
        let minorVersion = try Self.version(parts[0])
        guard parts[1].count == 3, parts[1].allSatisfy(HTTPCharacters.isDigit) else {
            throw .malformed("The server sent an invalid status code.")
        }
        let status = parts[1].reduce(0) { $0 * 10 + Int($1 - 0x30) }
        let reason = parts.count == 3 ? parts[2] : []
        guard status >= 100, HTTPCharacters.isFieldValue(reason) else {
            throw .malformed("The server sent an invalid status line.")
        }
        return .response(status: status, reason: HTTPCharacters.text(HTTPCharacters.trimmed(reason)), minorVersion: minorVersion)
    }

    private static func version(_ text: ArraySlice<UInt8>) throws(TransportError) -> Int {
        guard text.count == 8, text.starts(with: "HTTP/".utf8), text[text.startIndex + 6] == UInt8(ascii: "."),
            let major = text.dropFirst(5).first, let minor = text.last, HTTPCharacters.isDigit(major), HTTPCharacters.isDigit(minor)
        else { throw .malformed("The peer does not use HTTP.") }
        guard major == UInt8(ascii: "1") else {
            throw .malformed("The peer uses an unsupported version of HTTP; expected 1.1.", status: 505)
        }
        return Int(minor - 0x30)
    }
}
