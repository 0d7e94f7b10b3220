package import RealtimeCore

/// How the end of a body is known (RFC 9112 section 6.3).
package enum HTTPBodyFraming: Sendable, Hashable {
    case none
    case length(Int)
    case chunked
    case untilClose

    /// The body of a request: without a length there is none.
    ///
    /// Whatever two servers in a row could understand in two ways is refused: both kinds of length at once, a coding
    /// other than `chunked`, and `chunked` from a client that speaks HTTP/1.0.
    package static func ofRequest(_ headers: HTTPHeaders, minorVersion: Int) throws(TransportError) -> HTTPBodyFraming {
        let codings = headers.values("Transfer-Encoding")
        let length = try Self.contentLength(headers)
        guard !codings.isEmpty else { return length.map { $0 == 0 ? .none : .length($0) } ?? .none }
        guard length == nil else { throw .malformed("The client sent both Content-Length and Transfer-Encoding.") }
        guard minorVersion >= 1 else { throw .malformed("The client sent Transfer-Encoding with HTTP/1.0.") }
        guard Self.isChunkedAlone(codings) else { throw .malformed("The client sent a transfer coding other than chunked.", status: 501) }
        return .chunked
    }

    /// The body of an answer.
    ///
    /// - Parameter method: of the request. An answer to `HEAD` has the fields of a body and no body.
    package static func ofResponse(_ status: Int, _ headers: HTTPHeaders, method: String) throws(TransportError) -> HTTPBodyFraming {
        if method == "HEAD" || status < 200 || status == 204 || status == 304 { return .none }
        if method == "CONNECT", status < 300 { return .none }
        let codings = headers.values("Transfer-Encoding")
        guard codings.isEmpty else {
            // Both lengths at once happen; the coding counts, and the connection is not used again.
            guard Self.isChunkedAlone(codings) else { throw .malformed("The server used a transfer coding other than chunked.") }
            return .chunked
        }
        guard let length = try Self.contentLength(headers) else { return .untilClose }
        return length == 0 ? .none : .length(length)
    }

    private static func isChunkedAlone(_ codings: [String]) -> Bool {
        codings.count == 1 && codings[0].utf8.elementsEqual("chunked".utf8) { $0 | 0x20 == $1 }
    }

    /// Digits alone. A length that is repeated has to be the same each time (RFC 9110 section 8.6).
    private static func contentLength(_ headers: HTTPHeaders) throws(TransportError) -> Int? {
        var found: Int?
        for value in headers.values("Content-Length") {
            for part in value.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) {
                let digits = HTTPCharacters.trimmed(Array(part)[...])
                guard !digits.isEmpty, digits.allSatisfy(HTTPCharacters.isDigit), let length = Int(String(decoding: digits, as: UTF8.self))
                else {
                    throw .malformed("The peer sent a Content-Length that is no number of bytes.")
                }
                guard found == nil || found == length else { throw .malformed("The peer sent two lengths that contradict each other.") }
                found = length
            }
        }
        return found
    }
}
