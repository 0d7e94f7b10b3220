import RealtimeCore
package import RealtimeSockets

/// tinyproxy, an HTTP proxy that opens tunnels.
package struct Tinyproxy: Sendable {
    package struct Options: Sendable {
        package var credentials: ProxyConfiguration.Credentials?
        /// The only port to which a tunnel may lead, or `nil` for all.
        package var port: Int?
        /// A host to which no tunnel may lead, as a regular expression.
        package var refusedHost: String?
        /// The number of seconds after which an idle tunnel is closed.
        package var timeout = 600
    }

    private let proxy: InstalledProxy
    private let credentials: ProxyConfiguration.Credentials?

    /// Creates a proxy without starting it.
    package init(_ change: (inout Options) -> Void = { _ in }) throws {
        var options = Options()
        change(&options)
        self.credentials = options.credentials
        self.proxy = try InstalledProxy("tinyproxy") { ["-d", "-c", $1] }
        var lines = ["Port \(self.proxy.port)", "Listen 127.0.0.1", "Timeout \(options.timeout)", "MaxClients 100", "LogLevel Critical"]
        if let credentials = options.credentials { lines.append("BasicAuth \(credentials.username) \(credentials.password)") }
        if let port = options.port { lines.append("ConnectPort \(port)") }
        if let host = options.refusedHost {
            try self.proxy.write(host + "\n", to: "filter")
            lines.append("Filter \"\(self.proxy.folder)/filter\"")
        }
        try self.proxy.write(lines.joined(separator: "\n") + "\n")
    }

    package var port: Int { self.proxy.port }

    /// The configuration of a client.
    package var configuration: ProxyConfiguration { .http(host: "127.0.0.1", port: self.port, credentials: self.credentials) }

    /// Starts tinyproxy, and waits until it listens.
    package func start() async throws { try await self.proxy.start() }

    /// Ends tinyproxy with all tunnels, and waits until its port is free.
    package func stop() async { await self.proxy.stop() }
}
