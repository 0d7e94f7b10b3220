package import RealtimeCore
import RealtimeEncoding

/// The addresses of a server of Primus.
///
/// Source: `uri` in `primus.js` of Primus 8, and the clients of SockJS and engine.io.
package struct PrimusAddress: Hashable, Sendable {
    /// The address of the server, with a path and the application's query.
    package let endpoint: Endpoint

    /// Creates an address. Without a path, it is `/primus`; a slash at the end is removed.
    package init(_ endpoint: Endpoint) {
        var endpoint = endpoint
        let query = endpoint.query.map { "?\($0)" } ?? ""
        var path = endpoint.path[...]
        while path.hasSuffix("/") { path = path.dropLast() }
        endpoint.target = (path.isEmpty ? "/primus" : String(path)) + query
        self.endpoint = endpoint
    }

    /// Creates the address of the sessions of SockJS, which may have no path. A slash at the end is removed.
    package init(sockJSBase: Endpoint) {
        var endpoint = sockJSBase
        let query = endpoint.query.map { "?\($0)" } ?? ""
        endpoint.target = "/" + endpoint.path.split(separator: "/", omittingEmptySubsequences: true).joined(separator: "/") + query
        self.endpoint = endpoint
    }

    private func appending(_ components: String, scheme: KeyPath<Endpoint, Endpoint>) -> Endpoint {
        (components.isEmpty ? self.endpoint : self.endpoint.appending(path: components))[keyPath: scheme]
    }

    /// The specification of the server.
    package var spec: Endpoint { self.appending("spec", scheme: \.http) }

    /// The connection of the transformers without framing.
    package var plain: Endpoint { self.appending("", scheme: \.webSocket) }

    /// The information that a server of SockJS gives about itself.
    package var sockJSInfo: Endpoint { self.appending("info", scheme: \.http) }

    /// The connection of SockJS without framing.
    package var sockJSRaw: Endpoint { self.appending("websocket", scheme: \.webSocket) }

    /// The address of a session of SockJS: the number of a server, which a balancer may use, the ID of the session, and the transport.
    ///
    /// - Parameters:
    ///   - transport: The transport: `websocket`, `xhr`, `xhr_streaming` or `xhr_send`.
    ///   - server: A number below 1,000.
    ///   - session: The ID of the session.
    package func sockJSSession(_ transport: SockJSTransport, server: Int, session: String) -> Endpoint {
        let digits = String(server)
        let number = String(repeating: "0", count: max(0, 3 - digits.count)) + digits
        return self.appending(
            "\(number)/\(session)/\(transport.rawValue)", scheme: transport == .websocket ? \.webSocket : \.http)
    }

    /// Returns a random ID of a session of SockJS.
    package static func sockJSSessionID(using random: inout some RandomNumberGenerator) -> String {
        let letters = Array("abcdefghijklmnopqrstuvwxyz012345".utf8)
        return String(decoding: (0..<8).map { _ in letters[Int.random(in: letters.indices, using: &random)] }, as: UTF8.self)
    }

    /// The address of a connection of engine.io.
    ///
    /// - Parameters:
    ///   - version: The version of the protocol.
    ///   - transport: `websocket` or `polling`.
    ///   - sid: The ID of an existing session.
    package func engineIO(_ version: EngineIOVersion, _ transport: EngineIOTransport, sid: String? = nil) -> Endpoint {
        var endpoint = transport == .websocket ? self.endpoint.webSocket : self.endpoint.http
        // The original has a slash at the end.
        let query = endpoint.query
        endpoint.target = endpoint.path + "/" + (query.map { "?\($0)" } ?? "")
        endpoint.addQuery("EIO", "\(version.rawValue)")
        endpoint.addQuery("transport", transport.rawValue)
        if let sid { endpoint.addQuery("sid", sid) }
        return endpoint
    }

    /// Returns a number as the digits that Primus puts into `_primuscb` and engine.io into `t`, so that no cache answers a request.
    ///
    /// Source: the npm package `yeast`.
    package static func cacheKey(milliseconds: Int64) -> String {
        let digits = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_".utf8)
        var number = milliseconds.magnitude
        var text: [UInt8] = []
        repeat {
            text.append(digits[Int(number % 64)])
            number /= 64
        } while number > 0
        return String(decoding: text.reversed(), as: UTF8.self)
    }
}
