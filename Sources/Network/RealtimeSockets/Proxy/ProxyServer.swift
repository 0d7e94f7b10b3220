import RealtimeCore
import RealtimeEncoding

/// A proxy, and how to reach it.
package struct ProxyServer: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable {
        case http, socks5

        /// The port of a URL without one.
        fileprivate var defaultPort: Int { self == .http ? 80 : 1080 }
    }

    package let kind: Kind
    package let host: String
    package let port: Int
    let credentials: ProxyConfiguration.Credentials?

    package init(kind: Kind, host: String, port: Int, credentials: ProxyConfiguration.Credentials? = nil) {
        self.kind = kind
        self.host = host
        self.port = port
        self.credentials = credentials
    }

    /// Parses a URL, without ``validate()``.
    init(url: String) throws(TransportError) {
        var rest = Array(url.utf8)[...]
        var kind = Kind.http
        if let colon = rest.firstIndex(of: UInt8(ascii: ":")), rest[(colon + 1)...].starts(with: "//".utf8) {
            switch String(decoding: rest[..<colon], as: UTF8.self).lowercased() {
            case "http": break
            case "socks5", "socks5h": kind = .socks5
            case "https", "socks4", "socks4a":
                throw TransportError(
                    .unsupported, "Unsupported kind of proxy. Use an HTTP proxy without TLS (http://), or a SOCKS5 proxy (socks5://).")
            default: throw Self.invalid("the scheme must be http or socks5")
            }
            rest = rest[(colon + 3)...]
        }
        rest = rest.prefix { !"/?#".utf8.contains($0) }
        var credentials: ProxyConfiguration.Credentials?
        if let at = rest.lastIndex(of: UInt8(ascii: "@")) {
            let parts = rest[..<at].split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false).map {
                PercentEncoding.decode(String(decoding: $0, as: UTF8.self))
            }
            guard let username = parts[0], let password = parts.count == 2 ? parts[1] : "" else {
                throw Self.invalid("the user name and the password must be percent-encoded")
            }
            credentials = .init(username: username, password: password)
            rest = rest[(at + 1)...]
        }
        let authority = String(decoding: rest, as: UTF8.self)
        guard let endpoint = try? Endpoint("http://\(authority)") else { throw Self.invalid("the host or the port is invalid") }
        // The parser replaces a missing port with the default port of HTTP.
        let hasPort = rest.last.map(HTTPCharacters.isDigit) == true && authority != endpoint.host
        let port = hasPort ? endpoint.port : kind.defaultPort
        self.init(kind: kind, host: endpoint.host, port: port, credentials: credentials)
    }

    private static func invalid(_ reason: String) -> TransportError {
        // The message omits the URL, which may contain a password.
        TransportError(
            .invalidURL,
            "Invalid proxy: \(reason). Use a URL such as http://proxy.example.com:3128 or socks5://proxy.example.com:1080.")
    }

    /// The URL of the proxy without the user name and the password.
    package var name: String {
        let host = Endpoint(scheme: "http", host: self.host, port: 80).authority
        return "\(self.kind.rawValue)://" + (self.port == self.kind.defaultPort ? host : "\(host):\(self.port)")
    }

    /// - Throws: `TransportError` with the code `invalidURL` if the proxy can't be used.
    func validate() throws(TransportError) {
        guard Endpoint(scheme: "http", host: self.host, port: self.port).validationError == nil else {
            throw Self.invalid("the host is empty or contains an invalid character")
        }
        guard (1...65535).contains(self.port) else { throw Self.invalid("the port must be between 1 and 65535") }
        guard let credentials else { return }
        let (username, password) = (credentials.username.utf8, credentials.password.utf8)
        switch self.kind {
        case .http:
            // RFC 7617 section 2.
            guard !username.contains(UInt8(ascii: ":")), !(Array(username) + password).contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
                throw Self.invalid("the user name contains a colon, or it or the password contains a control character")
            }
        case .socks5:
            guard (1...255).contains(username.count), password.count <= 255 else {
                throw Self.invalid("the user name must have 1 to 255 bytes, and the password at most 255")
            }
        }
    }
}
