package import RealtimeCore

/// Reads the head of a request or an answer, however it is cut.
package struct HTTPHeadParser: Sendable {
    package enum Kind: Sendable {
        case request, response
    }

    /// The first line, in either form. Of the version only the minor number counts: the major one is always 1.
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
    private var fields: [(name: String, value: String)] = []
    private var bytes = 0
    private var emptyLines = 0

    package init(_ kind: Kind, limits: HTTPLimits) {
        self.kind = kind
        self.limits = limits
    }

    /// Whether anything of the head has come.
    package var hasStarted: Bool { self.start != nil || !self.lines.isEmpty }

    /// Whether the first line is there.
    package var hasStartLine: Bool { self.start != nil }

    /// Takes the head off `input`; `nil` when it is not whole, and then all of `input` is used up.
    package mutating func next(_ input: inout UnsafeRawBufferPointer) throws(TransportError) -> Head? {
        let limits = self.limits
        while !input.isEmpty {
            let limit = min(limits.lineBytes, limits.headBytes - self.bytes)
            // RFC 9112 section 3: a request line that is too long is so by its target.
            let status = self.start == nil ? 414 : 431
            guard let line = try self.lines.next(&input, limit: limit, tooLong: Self.tooLong(limits, status)) else { return nil }
            self.bytes += line.count + 2
            guard self.bytes <= limits.headBytes else { throw Self.tooLong(limits, status) }
            guard let start = self.start else {
                // RFC 9112 section 2.2: empty lines before a request are forgiven, if they are few.
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
            "The peer sent a head of more than \(limits.headBytes) bytes, or a line of more than \(limits.lineBytes) in it.",
            status: status)
    }

    private mutating func finish(_ start: StartLine) -> Head {
        var headers = HTTPHeaders()
        for field in self.fields { headers.add(field.name, field.value) }
        self = HTTPHeadParser(self.kind, limits: self.limits)
        return Head(start: start, headers: headers)
    }

    private mutating func field(_ line: [UInt8]) throws(TransportError) {
        if let first = line.first, HTTPCharacters.isBlank(first) { return try self.unfold(line) }
        guard self.fields.count < self.limits.fields else {
            throw TransportError(.tooLarge, "The peer sent a head of more than \(self.limits.fields) fields.", status: 431)
        }
        self.fields.append(try Self.readField(line))
    }

    /// A line that goes on with the field before it (RFC 9112 section 5.2): refused in a request, one space in an answer.
    private mutating func unfold(_ line: [UInt8]) throws(TransportError) {
        guard self.kind == .response, let last = self.fields.indices.last else {
            throw .malformed("The peer sent a field line that begins with white space.")
        }
        guard HTTPCharacters.isFieldValue(line) else { throw Self.invalidValue }
        let more = HTTPCharacters.text(HTTPCharacters.trimmed(line[...]))
        if !more.isEmpty { self.fields[last].value += self.fields[last].value.isEmpty ? more : " " + more }
    }

    /// One field line, of a head or of trailers.
    static func readField(_ line: [UInt8]) throws(TransportError) -> (name: String, value: String) {
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { throw .malformed("The peer sent a field line without a colon.") }
        // RFC 9112 section 5.1: white space before the colon is what smuggled requests look like. It is no token either.
        guard HTTPCharacters.isToken(line[..<colon]) else {
            throw .malformed("The peer sent a field whose name is empty or has a character that is not allowed there.")
        }
        let value = HTTPCharacters.trimmed(line[(colon + 1)...])
        guard HTTPCharacters.isFieldValue(value) else { throw Self.invalidValue }
        return (String(decoding: line[..<colon], as: UTF8.self), HTTPCharacters.text(value))
    }

    private static var invalidValue: TransportError { .malformed("The peer sent a field with a control character in its value.") }
}
