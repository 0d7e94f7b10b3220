import RealtimeCore

extension HTTPHeadParser {
    /// `GET /path HTTP/1.1`, with one space in each place.
    static func requestLine(_ line: [UInt8]) throws(TransportError) -> StartLine {
        let parts = line.split(separator: 0x20, omittingEmptySubsequences: false)
        guard parts.count == 3, HTTPCharacters.isToken(parts[0]), HTTPCharacters.isTarget(parts[1]) else {
            throw .malformed("The client did not send a request line.")
        }
        return .request(
            method: String(decoding: parts[0], as: UTF8.self), target: String(decoding: parts[1], as: UTF8.self),
            minorVersion: try Self.version(parts[2]))
    }

    /// `HTTP/1.1 200 OK`. Servers exist that leave out the words, with or without the space before them.
    static func statusLine(_ line: [UInt8]) throws(TransportError) -> StartLine {
        let parts = line.split(separator: 0x20, maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count >= 2 else { throw .malformed("The server did not answer with HTTP.") }
        let minorVersion = try Self.version(parts[0])
        guard parts[1].count == 3, parts[1].allSatisfy(HTTPCharacters.isDigit) else {
            throw .malformed("The server answered with a status that is not three digits.")
        }
        let status = parts[1].reduce(0) { $0 * 10 + Int($1 - 0x30) }
        let reason = parts.count == 3 ? parts[2] : []
        guard status >= 100, HTTPCharacters.isFieldValue(reason) else {
            throw .malformed("The server answered with a status line that cannot be read.")
        }
        return .response(status: status, reason: HTTPCharacters.text(HTTPCharacters.trimmed(reason)), minorVersion: minorVersion)
    }

    private static func version(_ text: ArraySlice<UInt8>) throws(TransportError) -> Int {
        guard text.count == 8, text.starts(with: "HTTP/".utf8), text[text.startIndex + 6] == UInt8(ascii: "."),
            let major = text.dropFirst(5).first, let minor = text.last, HTTPCharacters.isDigit(major), HTTPCharacters.isDigit(minor)
        else { throw .malformed("The peer does not speak HTTP.") }
        guard major == UInt8(ascii: "1") else { throw .malformed("The peer speaks another version of HTTP than 1.1.", status: 505) }
        return Int(minor - 0x30)
    }
}
