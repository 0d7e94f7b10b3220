package import RealtimeCore
import RealtimeEncoding
import RealtimeSystem

/// The handshake with a proxy that opens a tunnel to a server: a state machine without I/O.
///
/// Its owner sends what the handshake appends to the output, and passes on what the proxy sends until the tunnel is open. Everything after
/// that belongs to the tunnel.
package enum ProxyHandshake: Sendable {
    case http(HTTPConnectHandshake)
    case socks5(SOCKS5Handshake)

    /// Begins the handshake.
    ///
    /// - Parameters:
    ///   - tunnel: A valid proxy, and the server.
    ///   - output: The bytes to send.
    /// - Throws: `TransportError` with the code `invalidURL` if the proxy can't be asked for this host.
    package init(_ tunnel: ProxyTunnel, output: inout [UInt8]) throws(TransportError) {
        switch tunnel.proxy.kind {
        case .http: self = .http(try HTTPConnectHandshake(tunnel, output: &output))
        case .socks5: self = .socks5(try SOCKS5Handshake(tunnel, output: &output))
        }
    }

    /// Handles bytes that the proxy sent.
    ///
    /// - Parameters:
    ///   - input: The bytes. Those that remain when the tunnel is open belong to it. Otherwise, all are removed.
    ///   - output: The bytes to send.
    /// - Returns: Whether the tunnel is open.
    /// - Throws: `TransportError` with the code `proxyRejected` if the proxy doesn't open a tunnel, and `protocolViolation` or `tooLarge` if
    ///   its response is invalid.
    package mutating func receive(_ input: inout UnsafeRawBufferPointer, output: inout [UInt8]) throws(TransportError) -> Bool {
        switch self {
        case .http(var handshake):
            let isOpen = try handshake.receive(&input)
            self = .http(handshake)
            return isOpen
        case .socks5(var handshake):
            let isOpen = try handshake.receive(&input, output: &output)
            self = .socks5(handshake)
            return isOpen
        }
    }
}

/// A tunnel through a proxy, and the errors that explain why it isn't open.
package struct ProxyTunnel: Sendable {
    let proxy: ProxyServer
    let host: String
    let port: Int

    package init(proxy: ProxyServer, host: String, port: Int) {
        self.proxy = proxy
        self.host = host
        self.port = port
    }

    /// The host and the port of the server, as in a URL, and without the zone of a link-local address, which has a meaning on this machine
    /// only (RFC 6874 section 4).
    var target: String {
        self.host.utf8.contains(UInt8(ascii: ":")) ? "[\(self.host.prefix { $0 != "%" })]:\(self.port)" : "\(self.host):\(self.port)"
    }

    /// The error for a proxy that requires other credentials.
    ///
    /// - Parameters:
    ///   - status: The status of an HTTP proxy.
    ///   - reason: What the proxy said.
    func unauthorized(_ reason: String, status: Int? = nil) -> TransportError {
        let message =
            self.proxy.credentials == nil
            ? "The proxy \(self.proxy.name) requires a user name and a password (\(reason)). Set the credentials of the proxy."
            : "The proxy \(self.proxy.name) rejected the user name or the password (\(reason)). Check the credentials of the proxy."
        return TransportError(.proxyRejected, message, status: status)
    }

    /// The error for a proxy that doesn't connect to the server.
    ///
    /// - Parameters:
    ///   - reason: What the proxy said.
    ///   - isForbidden: Whether it doesn't allow the connection.
    ///   - status: The status of an HTTP proxy.
    func rejected(_ reason: String, isForbidden: Bool, status: Int? = nil) -> TransportError {
        let message =
            isForbidden
            ? "The proxy \(self.proxy.name) doesn't allow the connection to \(self.target) (\(reason)). Check its address and its rules."
            : "The proxy \(self.proxy.name) couldn't connect to \(self.target) (\(reason)). Check the host, the port and the proxy's network."
        return TransportError(.proxyRejected, message, status: status)
    }

    func invalid(_ reason: String, code: TransportError.Code = .protocolViolation) -> TransportError {
        let kind = self.proxy.kind == .http ? "an HTTP proxy" : "a SOCKS5 proxy"
        return TransportError(code, "Invalid response of the proxy \(self.proxy.name): \(reason) Check that it is \(kind).")
    }

    /// The error for a connection to the proxy that ended before the tunnel was open.
    ///
    /// - Parameter error: The reason, or `nil` if the proxy closed the connection.
    func lost(_ error: TransportError?) -> TransportError {
        let reason = error?.message ?? "The proxy closed the connection."
        return TransportError(
            error?.code ?? .closed, "The proxy \(self.proxy.name) ended the connection before it was connected to \(self.target): \(reason)"
        )
    }

    func timedOut(after timeout: Duration) -> TransportError {
        TransportError(
            .timedOut,
            "The proxy \(self.proxy.name) didn't connect to \(self.target) within \(timeout). Check the proxy, the host and the port.")
    }
}

/// The method `CONNECT` of an HTTP proxy (RFC 9110 section 9.3.6).
package struct HTTPConnectHandshake: Sendable {
    private static let limits = HTTPLimits(lineBytes: 8 << 10, headBytes: 32 << 10, fields: 128)

    private let tunnel: ProxyTunnel
    private var parser = HTTPHeadParser(.response, limits: Self.limits)
    private var informational = 0

    init(_ tunnel: ProxyTunnel, output: inout [UInt8]) throws(TransportError) {
        self.tunnel = tunnel
        var headers: HTTPHeaders = ["Host": tunnel.target]
        if let credentials = tunnel.proxy.credentials {
            headers.add("Proxy-Authorization", "Basic \(Self.encoded(credentials))")
        }
        try HTTPEncoder.append(HTTPRequestHead(method: "CONNECT", target: tunnel.target, headers: headers), to: &output)
    }

    mutating func receive(_ input: inout UnsafeRawBufferPointer) throws(TransportError) -> Bool {
        while true {
            let next: HTTPHeadParser.Head?
            do throws(TransportError) {
                next = try self.parser.next(&input)
            } catch {
                throw self.tunnel.invalid(self.redacted(error.message, limit: .max), code: error.code)
            }
            guard let head = next, case .response(let status, let reason, _) = head.start else { return false }
            // Fields that would announce a body have no meaning in a response with status 2xx.
            if (200...299).contains(status) { return true }
            guard status < 200, status != 101 else { throw self.rejection(status, reason, head.headers) }
            self.informational += 1
            guard self.informational <= Self.limits.informational else { throw self.tunnel.invalid("It has too many parts.") }
        }
    }

    private static func encoded(_ credentials: ProxyConfiguration.Credentials) -> String {
        Base64.encode(Array("\(credentials.username):\(credentials.password)".utf8))
    }

    /// Returns a text of the proxy without the credentials, which it may repeat.
    private func redacted(_ text: String, limit: Int = 100) -> String {
        guard let credentials = self.tunnel.proxy.credentials else { return Excerpt.of(text, limit: limit) }
        let secrets = [Self.encoded(credentials), "\(credentials.username):\(credentials.password)", credentials.password]
        return SecretFilter(secrets).redacted(text, limit: limit)
    }

    private func rejection(_ status: Int, _ reason: String, _ headers: HTTPHeaders) -> TransportError {
        let text = reason.isEmpty ? "\(status)" : "\(status) \(self.redacted(reason))"
        // Some proxies send 401 for wrong credentials. As the status of the error, it would look like the server's.
        if status == 401, self.tunnel.proxy.credentials != nil { return self.tunnel.unauthorized(text, status: 407) }
        guard status == 407 else {
            return self.tunnel.rejected(text, isForbidden: status < 500 || status == 501, status: status == 401 ? nil : status)
        }
        let schemes = headers.values("Proxy-Authenticate")
        guard schemes.isEmpty || schemes.contains(where: { $0.lowercased().containsText("basic") }) else {
            return TransportError(
                .proxyRejected,
                "The proxy \(self.tunnel.proxy.name) doesn't offer Basic authentication (\(text)), and no other kind is supported.",
                status: status)
        }
        return self.tunnel.unauthorized(text, status: status)
    }
}

/// The handshake of version 5 of SOCKS (RFC 1928), with a user name and a password if they are set (RFC 1929).
package struct SOCKS5Handshake: Sendable {
    private enum Stage: Sendable {
        case method, authentication, reply
    }

    /// The texts of the reply codes from 1 (RFC 1928 section 6).
    private static let replies = [
        "general failure", "not allowed by its rules", "network unreachable", "host unreachable", "connection refused", "TTL expired",
        "command not supported", "address type not supported",
    ]

    private let tunnel: ProxyTunnel
    private let request: [UInt8]
    private var stage = Stage.method
    /// The part of a message that has been received. No message has more than 262 bytes.
    private var message: [UInt8] = []

    init(_ tunnel: ProxyTunnel, output: inout [UInt8]) throws(TransportError) {
        self.tunnel = tunnel
        var request: [UInt8] = [5, 1, 0]
        if let address = IPAddress.bytes(tunnel.host) {
            request += [address.count == 4 ? 1 : 4] + address
        } else {
            let name = Array(tunnel.host.utf8)
            guard (1...255).contains(name.count) else {
                throw TransportError(.invalidURL, "Invalid host: its name must have 1 to 255 bytes to connect through a SOCKS5 proxy.")
            }
            request += [3, UInt8(name.count)] + name
        }
        self.request = request + [UInt8(truncatingIfNeeded: tunnel.port >> 8), UInt8(truncatingIfNeeded: tunnel.port)]
        output += tunnel.proxy.credentials == nil ? [5, 1, 0] : [5, 2, 0, 2]
    }

    mutating func receive(_ input: inout UnsafeRawBufferPointer, output: inout [UInt8]) throws(TransportError) -> Bool {
        while let byte = input.first {
            input = UnsafeRawBufferPointer(rebasing: input.dropFirst())
            self.message.append(byte)
            if try self.advance(byte, output: &output) { return true }
        }
        return false
    }

    /// Handles the last byte of the message.
    ///
    /// - Returns: Whether the tunnel is open.
    private mutating func advance(_ byte: UInt8, output: inout [UInt8]) throws(TransportError) -> Bool {
        switch (self.stage, self.message.count) {
        case (.method, 1), (.reply, 1):
            guard byte == 5 else { throw self.tunnel.invalid("The version is \(byte) instead of 5.") }
        case (.method, _):
            switch (byte, self.tunnel.proxy.credentials) {
            case (0, _): self.enter(.reply, sending: self.request, output: &output)
            case (2, let credentials?):
                let (username, password) = (Array(credentials.username.utf8), Array(credentials.password.utf8))
                // Validation has limited both to 255 bytes.
                let request = [1, UInt8(clamping: username.count)] + username + [UInt8(clamping: password.count)] + password
                self.enter(.authentication, sending: request, output: &output)
            case (0xFF, _): throw self.tunnel.unauthorized("it accepts none of the methods offered")
            default: throw self.tunnel.invalid("It selects the method \(byte) of authentication, which was not offered.")
            }
        case (.authentication, 1):
            guard byte == 1 else { throw self.tunnel.invalid("The version of the authentication is \(byte) instead of 1.") }
        case (.authentication, _):
            guard byte == 0 else { throw self.tunnel.unauthorized("status \(byte)") }
            self.enter(.reply, sending: self.request, output: &output)
        case (.reply, 2):
            guard byte != 0 else { break }
            let text = byte <= Self.replies.count ? "\(Self.replies[Int(byte) - 1]), SOCKS reply \(byte)" : "SOCKS reply \(byte)"
            throw self.tunnel.rejected(text, isForbidden: byte == 2)
        case (.reply, 4):
            guard [1, 3, 4].contains(byte) else { throw self.tunnel.invalid("The type of the address is \(byte) instead of 1, 3 or 4.") }
        case (.reply, let count) where count > 4:
            // The address to which the proxy is bound, and its port.
            let length = self.message[3] == 1 ? 4 : self.message[3] == 4 ? 16 : 1 + Int(self.message[4])
            return count == 4 + length + 2
        case (.reply, _): break
        }
        return false
    }

    private mutating func enter(_ stage: Stage, sending request: [UInt8], output: inout [UInt8]) {
        self.stage = stage
        self.message = []
        output += request
    }
}
