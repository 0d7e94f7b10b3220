package import RealtimeCore

/// How the length of a body is determined (RFC 9112 section 6.3).
package enum HTTPBodyFraming: Sendable, Hashable {
    case none
    case length(Int)
    case chunked
    case untilClose

    /// The framing of a request's body. A request without a length has no body.
    ///
    /// Requests that two servers in a chain could interpret differently are rejected, to prevent request smuggling: both kinds of
    /// length, a transfer coding other than `chunked`, and `chunked` with HTTP/1.0.
    ///
    /// - Parameters:
    ///   - headers: The header fields of the request.
    ///   - minorVersion: The minor version of HTTP/1.
    /// - Throws: `TransportError` if the length is invalid or ambiguous.
    package static func ofRequest(_ headers: HTTPHeaders, minorVersion: Int) throws(TransportError) -> HTTPBodyFraming {
        let codings = headers.values("Transfer-Encoding")
        let length = try Self.contentLength(headers)
        guard !codings.isEmpty else { return length.map { $0 == 0 ? .none : .length($0) } ?? .none }
        guard length == nil else { throw .malformed("The client sent both Content-Length and Transfer-Encoding.") }
        guard minorVersion >= 1 else { throw .malformed("The client sent Transfer-Encoding with HTTP/1.0.") }
        guard Self.isChunkedAlone(codings) else { throw .malformed("The client sent a transfer coding other than chunked.", status: 501) }
        return .chunked
    }

    /// The framing of a response's body.
    ///
    /// - Parameters:
    ///   - status: The status code.
    ///   - headers: The header fields of the response.
    ///   - method: The method of the request. A response to `HEAD` has no body, although its header fields describe one.
    /// - Throws: `TransportError` if the length is invalid.
    package static func ofResponse(_ status: Int, _ headers: HTTPHeaders, method: String) throws(TransportError) -> HTTPBodyFraming {
        if method == "HEAD" || status < 200 || status == 204 || status == 304 { return .none }
        let codings = headers.values("Transfer-Encoding")
        guard codings.isEmpty else {
            // If a server sends both kinds of length, the transfer coding is used, and the connection is not reused.
            guard Self.isChunkedAlone(codings) else { throw .malformed("The server used a transfer coding other than chunked.") }
            return .chunked
        }
        guard let length = try Self.contentLength(headers) else { return .untilClose }
        return length == 0 ? .none : .length(length)
    }

    private static func isChunkedAlone(_ codings: [String]) -> Bool {
        codings.count == 1 && codings[0].utf8.elementsEqual("chunked".utf8) { $0 | 0x20 == $1 }
    }

    /// Parses the Content-Length, which consists of digits only. Repeated values must be equal (RFC 9110 section 8.6).
    private static func contentLength(_ headers: HTTPHeaders) throws(TransportError) -> Int? {
        var found: Int?
        for value in headers.values("Content-Length") {
            if found == nil, let length = Self.plainNumber(value) {
                found = length
                continue
            }
            for part in value.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) {
                let digits = HTTPCharacters.trimmed(Array(part)[...])
                guard !digits.isEmpty, digits.allSatisfy(HTTPCharacters.isDigit), let length = Int(String(decoding: digits, as: UTF8.self))
                else {
                    throw .malformed("The peer sent an invalid Content-Length.")
                }
                guard found == nil || found == length else { throw .malformed("The peer sent conflicting Content-Length values.") }
                found = length
            }
        }
        return found
    }

    /// Parses a number of a few digits.
    private static func plainNumber(_ text: String) -> Int? {
        guard (1...18).contains(text.utf8.count) else { return nil }
        var number = 0
        for byte in text.utf8 {
            guard HTTPCharacters.isDigit(byte) else { return nil }
            number = number * 10 + Int(byte - 0x30)
        }
        return number
    }
}
