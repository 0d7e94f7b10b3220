package import RealtimeCore

import RealtimeEncoding

/// The user name and the password in a URL, which an `Endpoint` refuses because it could end up in logs.
package enum PrimusUserInfo {
    /// Separates the user name and password of a URL from the rest.
    ///
    /// - Parameter url: The URL.
    /// - Returns: The URL without them, and the value of the field `Authorization` if there are any.
    /// - Throws: A `TransportError` with the code `invalidURL` if they can't be decoded.
    package static func split(_ url: String) throws(TransportError) -> (url: String, authorization: String?) {
        let bytes = Array(url.utf8)
        guard let scheme = bytes.indices.first(where: { bytes[$0...].starts(with: "://".utf8) }) else { return (url, nil) }
        let start = scheme + 3
        let end = bytes[start...].firstIndex { "/?#".utf8.contains($0) } ?? bytes.endIndex
        guard let at = bytes[start..<end].lastIndex(of: UInt8(ascii: "@")) else { return (url, nil) }
        let parts = bytes[start..<at].split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
        let texts = parts.map { PercentEncoding.decode(String(decoding: $0, as: UTF8.self)) }
        guard let user = texts.first ?? nil, let password = texts.count > 1 ? texts[1] : "" else {
            throw TransportError(.invalidURL, "Invalid URL: the user name or the password isn't percent-encoded correctly.")
        }
        let rest = bytes[..<start] + bytes[(at + 1)...]
        return (String(decoding: rest, as: UTF8.self), "Basic \(Base64.encode(Array("\(user):\(password)".utf8)))")
    }
}
