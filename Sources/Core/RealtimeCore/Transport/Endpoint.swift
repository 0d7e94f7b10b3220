/// The URL of a service, split into scheme, host, port and target.
///
/// ```swift
/// let endpoint = try Endpoint("wss://realtime.example.com/app/key?protocol=7")
/// ```
public struct Endpoint: Hashable, Sendable, CustomStringConvertible {
    /// The scheme: `ws`, `wss`, `http` or `https`.
    public var scheme: String
    /// The host name or IP address. An IPv6 address is stored without its brackets.
    public var host: String
    /// The port.
    public var port: Int
    /// The path and query, starting with a slash.
    public var target: String

    /// Creates an endpoint from its parts, without validating them.
    ///
    /// - Parameters:
    ///   - scheme: `ws`, `wss`, `http` or `https`.
    ///   - host: The host name or IP address, without the brackets of an IPv6 address.
    ///   - port: The port.
    ///   - target: The path and query, percent-encoded, starting with a slash.
    public init(scheme: String, host: String, port: Int, target: String = "/") {
        self.scheme = scheme
        self.host = host
        self.port = port
        self.target = target
    }

    /// Parses a URL. A missing port is replaced with the default port of the scheme; a fragment is removed.
    ///
    /// - Parameter text: An absolute URL with the scheme `ws`, `wss`, `http` or `https`, in printable ASCII characters.
    /// - Throws: ``TransportError/Code/invalidURL`` if the scheme or host is missing or invalid, if the port isn't between 1 and 65535,
    ///   if the URL contains a user name or password, which could end up in logs, or if it contains characters that must be
    ///   percent-encoded.
    public init(_ text: String) throws(TransportError) {
        func invalid(_ reason: String) -> TransportError {
            TransportError(.invalidURL, "Invalid URL: \(reason). Use a URL such as wss://example.com/path.")
        }
        guard let separator = text.range(ofASCII: "://") else { throw invalid("missing scheme, such as ws:// or https://") }
        let scheme = text[..<separator.lowerBound].lowercased()
        guard let defaultPort = ["ws": 80, "http": 80, "wss": 443, "https": 443][scheme] else {
            throw invalid("the scheme must be ws, wss, http or https")
        }
        let rest = text[separator.upperBound...]
        let authority = rest.prefix { !"/?#".contains($0) }
        guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            // Percent-encoding isn't for the host, and a name with other letters isn't the one that is looked up.
            let isHost = authority.prefix { $0 != ":" }.utf8.contains { $0 >= 0x80 }
            throw invalid(
                isHost
                    ? "the host must be in its ASCII form, in which a name with other letters begins with xn--"
                    : "spaces, control characters and non-ASCII characters must be percent-encoded")
        }
        guard !authority.contains("@") else { throw invalid("user names and passwords are not allowed; send them in a header field") }
        let (host, port): (Substring, Substring?)
        if authority.first == "[" {
            guard let end = authority.firstIndex(of: "]") else { throw invalid("missing bracket after the IPv6 address") }
            host = authority[authority.index(after: authority.startIndex)..<end]
            let after = authority[authority.index(after: end)...]
            guard after.isEmpty || after.first == ":" else { throw invalid("unexpected characters after the IPv6 address") }
            port = after.isEmpty ? nil : after.dropFirst()
        } else {
            let parts = authority.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            host = parts.first ?? ""
            port = parts.count == 2 ? parts[1] : nil
        }
        guard !host.isEmpty else { throw invalid("missing host") }
        self.scheme = scheme
        self.host = String(host)
        if let port, !port.isEmpty {
            guard port.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(port), (1...65535).contains(number) else {
                throw invalid("the port must be between 1 and 65535")
            }
            self.port = number
        } else {
            self.port = defaultPort
        }
        let target = rest[authority.endIndex...].prefix { $0 != "#" }
        self.target = target.first == "/" ? String(target) : "/" + target
    }

    /// Whether the scheme is `wss` or `https`.
    public var isSecure: Bool { self.scheme == "wss" || self.scheme == "https" }

    /// The scheme, the host and, unless it is the default port of the scheme, the port.
    public var origin: String { "\(self.scheme)://\(self.authority)" }

    /// The error to throw if the host is invalid, which is possible only if the endpoint was created from parts. Its message doesn't
    /// contain the host, because a password may be part of it.
    package var validationError: TransportError? {
        let isValid = !self.host.isEmpty && self.host.utf8.allSatisfy { (0x21...0x7E).contains($0) && !#"@/?#\"#.utf8.contains($0) }
        if isValid { return nil }
        return TransportError(
            .invalidURL,
            "Invalid host: it is empty or contains an invalid character. Send a user name or password in a header field instead.")
    }

    /// The value of the `Host` header field. It contains the port unless that is the default port of the scheme.
    package var authority: String {
        // Removes a user name and password, which the field must not contain and which could end up in logs. Searches the UTF-8 bytes,
        // because "@" and a combining character after it form a single `Character`.
        let bytes = self.host.utf8
        return self.authority(bytes.lastIndex(of: 0x40).map { String(decoding: bytes[$0...].dropFirst(), as: UTF8.self) } ?? self.host)
    }

    private func authority(_ name: String) -> String {
        // RFC 6874 section 4: the zone of a link-local address has a meaning on this machine only.
        let host = name.utf8.contains(0x3A) ? "[\(name.prefix { $0 != "%" })]" : name
        return self.port == (self.isSecure ? 443 : 80) ? host : "\(host):\(self.port)"
    }

    /// The URL without its query, which may contain a token, and without a user name and password.
    public var description: String { self.origin + self.path }
}

extension String {
    fileprivate func range(ofASCII needle: String) -> Range<Index>? {
        let (bytes, searched) = (self.utf8, Array(needle.utf8))
        var start = bytes.startIndex
        while bytes.distance(from: start, to: bytes.endIndex) >= searched.count {
            let end = bytes.index(start, offsetBy: searched.count)
            if bytes[start..<end].elementsEqual(searched) { return start..<end }
            start = bytes.index(after: start)
        }
        return nil
    }
}
