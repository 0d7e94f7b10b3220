public import RealtimeCore

/// The proxy through which a transport connects.
///
/// The transport asks the proxy for a tunnel to the server, for all schemes: `ws`, `wss`, `http` and `https`. TLS runs inside the tunnel, so
/// the proxy sees the host and the port of the server, but not what is sent, and the certificate must match the server. The proxy looks the
/// host up. If it can't be reached or doesn't open a tunnel, the connection fails; the transport never connects directly instead.
///
/// ```swift
/// let proxy = try ProxyConfiguration("http://user:password@proxy.example.com:3128")
/// let transport = SocketWebSocketTransport(proxy: proxy)
/// ```
public struct ProxyConfiguration: Hashable, Sendable {
    /// A user name and a password for a proxy. Descriptions contain neither.
    public struct Credentials: Hashable, Sendable {
        /// The user name.
        public var username: String
        /// The password.
        public var password: String

        /// Creates credentials.
        ///
        /// - Parameters:
        ///   - username: The user name. It must not contain a colon for an HTTP proxy, and must have 1 to 255 bytes for a SOCKS proxy.
        ///   - password: The password. For a SOCKS proxy, it must have at most 255 bytes.
        public init(username: String, password: String) {
            self.username = username
            self.password = password
        }
    }

    enum Source: Hashable, Sendable {
        case none, environment
        case server(ProxyServer)
    }

    let source: Source

    /// The hosts to which a transport connects without the proxy.
    ///
    /// A name also matches its subdomains, with or without a dot before it: `example.com` matches `example.com` and
    /// `www.example.com`, but not for `myexample.com`. An address can have a number of bits, as in `10.0.0.0/8`, and matches only
    /// addresses, not for names that the system would look up. `*` matches all hosts. By default, there are no exceptions, not even for
    /// `localhost`. With ``environment``, these hosts are exceptions in addition to the hosts of the variable.
    public var exceptions: [String] = []

    private init(_ source: Source) {
        self.source = source
    }

    /// Creates a configuration with the proxy of a URL.
    ///
    /// - Parameter url: A URL with the scheme `http` or `socks5`, such as `http://user:password@proxy.example.com:3128`. The user name and
    ///   the password are percent-encoded and can be omitted. The default port is 80 for `http` and 1080 for `socks5`. A URL without a scheme
    ///   names an HTTP proxy. The scheme `socks5h`, which other programs use if the proxy looks the host up, has the same meaning as
    ///   `socks5`.
    /// - Throws: `TransportError` with the code `invalidURL` if the URL is invalid, or `unsupported` for another kind of proxy, such as one
    ///   with TLS (`https`). The message doesn't contain the URL.
    public init(_ url: String) throws(TransportError) {
        let server = try ProxyServer(url: url)
        try server.validate()
        self.init(.server(server))
    }

    /// No proxy.
    public static let none = ProxyConfiguration(.none)

    /// The proxies of the environment, which are read when a transport is created.
    ///
    /// For `wss` and `https`, the variable is `HTTPS_PROXY`; for `ws` and `http`, it is `HTTP_PROXY`. If it isn't set, it is `ALL_PROXY`. The
    /// value is a URL as for ``init(_:)``. `NO_PROXY` contains exceptions, separated by commas or spaces, with the same rules as
    /// ``exceptions``. Names in lowercase take precedence. A variable that is empty counts as not set. In a CGI program, for which
    /// `REQUEST_METHOD` is set, `HTTP_PROXY` in uppercase is ignored, because there it is a header field of the client.
    ///
    /// If the value for a connection is invalid, the connection fails with the code `invalidURL` or `unsupported`.
    public static let environment = ProxyConfiguration(.environment)

    /// An HTTP proxy, with the method `CONNECT` (RFC 9110 section 9.3.6) and Basic authentication (RFC 7617).
    ///
    /// - Parameters:
    ///   - host: The host name or IP address of the proxy. If it is invalid, connections fail with the code `invalidURL`.
    ///   - port: The port of the proxy, from 1 to 65535.
    ///   - credentials: The user name and the password, which are sent unencrypted to the proxy, or `nil`.
    /// - Returns: The configuration.
    public static func http(host: String, port: Int, credentials: Credentials? = nil) -> ProxyConfiguration {
        ProxyConfiguration(.server(ProxyServer(kind: .http, host: host, port: port, credentials: credentials)))
    }

    /// A SOCKS proxy of version 5 (RFC 1928), without authentication or with a user name and a password (RFC 1929).
    ///
    /// - Parameters:
    ///   - host: The host name or IP address of the proxy. If it is invalid, connections fail with the code `invalidURL`.
    ///   - port: The port of the proxy, from 1 to 65535.
    ///   - credentials: The user name and the password, which are sent unencrypted to the proxy, or `nil`.
    /// - Returns: The configuration.
    public static func socks5(host: String, port: Int = 1080, credentials: Credentials? = nil) -> ProxyConfiguration {
        ProxyConfiguration(.server(ProxyServer(kind: .socks5, host: host, port: port, credentials: credentials)))
    }
}

extension ProxyConfiguration: Redacting {
    package var visibleFields: [(name: String, value: Any?)] {
        let proxy =
            switch self.source {
            case .none: "none"
            case .environment: "environment"
            case .server(let server): server.name
            }
        var credentials: Credentials?
        if case .server(let server) = self.source { credentials = server.credentials }
        return [("proxy", proxy), ("credentials", Redacted.optional(credentials)), ("exceptions", self.exceptions)]
    }
}

extension ProxyConfiguration.Credentials: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("username", Redacted.secret), ("password", Redacted.secret)] }
}
