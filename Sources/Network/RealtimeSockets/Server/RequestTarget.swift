internal import RealtimeCore

/// What a request asks for (RFC 9112 section 3.2).
enum RequestTarget {
    /// Path and query, or `*` with OPTIONS.
    ///
    /// Clients of proxies send whole addresses; servers have to take them too. What CONNECT asks for is a proxy's.
    static func local(_ head: HTTPRequestHead) throws(TransportError) -> String {
        let target = head.target
        if head.method == "CONNECT" { throw .malformed("This server is no proxy: it knows no CONNECT.", status: 405) }
        if target.utf8.first == UInt8(ascii: "/") || target == "*" && head.method == "OPTIONS" { return target }
        let scheme = target.prefix { $0 != ":" }.lowercased()
        let start = target.utf8.dropFirst(scheme.utf8.count)
        guard ["http", "https", "ws", "wss"].contains(scheme), start.starts(with: "://".utf8) else {
            throw .malformed("The client did not ask for a path.")
        }
        let path = start.dropFirst(3).drop { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
        return path.first == UInt8(ascii: "/") ? String(decoding: path, as: UTF8.self) : "/" + String(decoding: path, as: UTF8.self)
    }
}
