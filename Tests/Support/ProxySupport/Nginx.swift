import TestSupport

/// nginx as it is usually deployed in front of a server: it ends TLS, and passes WebSockets and requests on.
package struct Nginx: Sendable {
    package struct Options: Sendable {
        /// Whether clients use TLS.
        package var isSecure = false
        /// The version of HTTP toward the server. With 1.0, which is the default of nginx before version 1.29.7, a response in pieces ends with
        /// its connection.
        package var httpVersion = "1.1"
        /// Whether nginx passes on upgrades to a WebSocket. By default, it doesn't: it sends the request without the fields of the upgrade.
        package var passesUpgrades = true
        /// Whether nginx keeps responses in its buffers. That is its default.
        package var isBuffering = false
        /// Fields of the server's responses that have no effect on nginx, for example `X-Accel-Buffering`.
        package var ignoredHeaders: [String] = []
        /// How long the server may send nothing until nginx ends a request or a WebSocket.
        package var readTimeout = Duration.seconds(600)
        /// The number of idle connections to the server, or 0 for a connection for each request.
        package var serverConnections = 0
        /// How long a connection to the server may be idle. The default is that of nginx.
        package var serverIdleTime = Duration.seconds(60)
        /// How long the connection of a client may be idle.
        package var keepAliveTimeout = Duration.seconds(600)
        /// The number of requests for which the connection of a client is used.
        package var keepAliveRequests = 1000
        /// The ports of other servers, which take turns with the first one.
        package var otherServers: [Int] = []
        /// A cookie of nginx with which all requests of a client go to one server; `nil` for none.
        package var stickyCookie: String?
        /// Header fields of all responses.
        package var headers: [String: String] = [:]

        package init() {}
    }

    private let proxy: InstalledProxy
    private let server: Int
    private let options: Options

    /// Creates a proxy without starting it.
    ///
    /// - Parameters:
    ///   - server: The port of the server.
    ///   - change: Changes the options.
    package init(to server: Int, _ change: (inout Options) -> Void = { _ in }) throws {
        self.server = server
        self.proxy = try InstalledProxy("nginx") { ["-e", "stderr", "-p", $0, "-c", $1] }
        var options = Options()
        change(&options)
        self.options = options
        try self.configure(options)
    }

    package var port: Int { self.proxy.port }

    /// Starts nginx, and waits until it listens.
    package func start() async throws { try await self.proxy.start() }

    /// Ends nginx with all connections, and waits until its port is free.
    package func stop() async { await self.proxy.stop() }

    /// Makes a running nginx use other options for new connections. Requests in progress aren't affected.
    ///
    /// - Parameter change: Changes the options with which nginx was created.
    package func reload(_ change: (inout Options) -> Void) throws {
        var options = self.options
        change(&options)
        try self.configure(options)
        self.proxy.signal("HUP")
    }

    private func configure(_ options: Options) throws {
        let folder = self.proxy.folder
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map { "\($0)_temp_path \(folder)/\($0);" }
        let tls = """
            ssl_certificate \(Vectors.path("certificates/server.pem"));
                    ssl_certificate_key \(Vectors.path("certificates/server-key.pem"));
            """
        let keepAlive = "keepalive \(options.serverConnections); keepalive_timeout \(options.serverIdleTime.milliseconds)ms;"
        let servers = ([self.server] + options.otherServers).map { "server 127.0.0.1:\($0);" }.joined(separator: "\n        ")
        let choice = options.stickyCookie.map { "map $cookie_\($0) $server { default $request_id; ~. $cookie_\($0); }" } ?? ""
        let cookie = options.stickyCookie.map { "add_header Set-Cookie \"\($0)=$server; Path=/; HttpOnly\" always;" } ?? ""
        let ignored = options.ignoredHeaders.isEmpty ? "" : "proxy_ignore_headers \(options.ignoredHeaders.joined(separator: " "));"
        let headers = options.headers.sorted { $0.key < $1.key }.map { "add_header \($0.key) \"\($0.value)\" always;" }
        try self.proxy.write(
            """
            daemon off;
            worker_processes 1;
            pid \(folder)/nginx.pid;
            error_log stderr;
            events { worker_connections 512; }
            http {
                access_log off;
                \(temporary.joined(separator: "\n    "))
                map $http_upgrade $connection_upgrade {
                    default upgrade;
                    "" "";
                }
                \(choice)
                upstream server {
                    \(options.stickyCookie == nil ? "" : "hash $server;")
                    \(servers)
                    \(options.serverConnections > 0 ? keepAlive : "")
                }
                server {
                    listen 127.0.0.1:\(self.port)\(options.isSecure ? " ssl" : "");
                    \(options.isSecure ? tls : "")
                    keepalive_timeout \(options.keepAliveTimeout.milliseconds)ms;
                    keepalive_requests \(options.keepAliveRequests);
                    \(cookie)
                    \(headers.joined(separator: "\n        "))
                    location = /is-listening { return 204; }
                    location / {
                        proxy_pass http://server;
                        proxy_http_version \(options.httpVersion);
                        proxy_set_header Host $host;
                        \(options.passesUpgrades ? "proxy_set_header Upgrade $http_upgrade;" : "")
                        proxy_set_header Connection \(options.passesUpgrades ? "$connection_upgrade" : #""""#);
                        proxy_buffering \(options.isBuffering ? "on" : "off");
                        \(ignored)
                        proxy_read_timeout \(options.readTimeout.milliseconds)ms;
                    }
                }
            }
            """)
    }
}

extension Duration {
    fileprivate var milliseconds: Int64 { self.components.seconds * 1000 + self.components.attoseconds / 1_000_000_000_000_000 }
}
