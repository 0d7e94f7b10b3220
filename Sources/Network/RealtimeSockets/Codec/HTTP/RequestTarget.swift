package import RealtimeCore

extension HTTPRequestHead {
    /// Returns the head with its target in origin form: path and query, or `*` with OPTIONS.
    ///
    /// RFC 9112 section 3.2.2: a server accepts the absolute form too, although clients send it to proxies only. The host in it replaces
    /// the host of the `Host` field.
    ///
    /// - Throws: An error with the status of the response if the target has another form.
    package func withOriginTarget() throws(TransportError) -> HTTPRequestHead {
        if self.method == "CONNECT" { throw .malformed("CONNECT is not supported: this server is not a proxy.", status: 405) }
        let target = self.target.utf8
        guard !target.contains(UInt8(ascii: "#")) else { throw Self.invalidTarget }
        if target.first == UInt8(ascii: "/") || self.target == "*" && self.method == "OPTIONS" { return self }
        let scheme = self.target.prefix { $0 != ":" }.lowercased()
        let rest = target.dropFirst(scheme.utf8.count)
        guard ["http", "https", "ws", "wss"].contains(scheme), rest.starts(with: "://".utf8) else { throw Self.invalidTarget }
        let authority = Array(rest.dropFirst(3).prefix { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") })
        // RFC 9110 section 4.2: the host must not be empty. A user name, whose "@" is not part of an authority here, is rejected too.
        guard let first = authority.first, first != UInt8(ascii: ":"), HTTPCharacters.isAuthority(authority) else {
            throw Self.invalidTarget
        }
        let path = String(decoding: rest.dropFirst(3 + authority.count), as: UTF8.self)
        var head = self
        // RFC 9112 section 3.2.4: without a path, OPTIONS refers to the server as a whole.
        head.target = path.isEmpty && self.method == "OPTIONS" ? "*" : path.utf8.first == UInt8(ascii: "/") ? path : "/" + path
        head.headers["Host"] = String(decoding: authority, as: UTF8.self)
        return head
    }

    private static var invalidTarget: TransportError { .malformed("Invalid request target; expected a path that starts with a slash.") }
}
