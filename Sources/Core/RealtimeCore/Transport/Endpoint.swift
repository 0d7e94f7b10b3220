/// The address of a service: scheme, host, port and what is asked for there.
///
/// ```swift
/// let endpoint = try Endpoint("wss://ws-eu.pusher.com/app/key?protocol=7")
/// ```
public struct Endpoint: Hashable, Sendable, CustomStringConvertible {
    /// `ws`, `wss`, `http` or `https`.
    public var scheme: String
    /// The name or address, without the brackets of an IPv6 address.
    public var host: String
    /// The port.
    public var port: Int
    /// Path and query, with the leading slash.
    public var target: String

    /// An address from its parts.
    public init(scheme: String, host: String, port: Int, target: String = "/") {
        self.scheme = scheme
        self.host = host
        self.port = port
        self.target = target
    }

    /// Reads an address. The port is the scheme's own when there is none; a fragment is dropped.
    ///
    /// It throws ``TransportError/Code/invalidURL`` when the scheme is none of `ws`, `wss`, `http` and `https`, when
    /// there is no host, when the port is no number from 1 to 65535, when it holds a user name or password (they
    /// would end up in logs), and when it has a space, a control character or a byte outside ASCII.
    public init(_ text: String) throws(TransportError) {
        func invalid(_ why: String) -> TransportError {
            TransportError(.invalidURL, "This is no address that can be used: \(why). It should look like ws://host:port/path.")
        }
        guard let mark = text.range(ofASCII: "://") else { throw invalid("it has no scheme such as ws:// or https://") }
        let scheme = text[..<mark.lowerBound].lowercased()
        guard let defaultPort = ["ws": 80, "http": 80, "wss": 443, "https": 443][scheme] else {
            throw invalid("its scheme is none of ws, wss, http and https")
        }
        guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw invalid("it has a space, a control character or a letter outside ASCII; write these percent-encoded")
        }
        let rest = text[mark.upperBound...]
        let authority = rest.prefix { !"/?#".contains($0) }
        guard !authority.contains("@") else { throw invalid("it holds a user name or password; send these as a header field") }
        let (host, port): (Substring, Substring?)
        if authority.first == "[" {
            guard let end = authority.firstIndex(of: "]") else { throw invalid("the bracket of its IPv6 address is never closed") }
            host = authority[authority.index(after: authority.startIndex)..<end]
            let after = authority[authority.index(after: end)...]
            guard after.isEmpty || after.first == ":" else { throw invalid("something other than a port follows its IPv6 address") }
            port = after.isEmpty ? nil : after.dropFirst()
        } else {
            let parts = authority.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            host = parts.first ?? ""
            port = parts.count == 2 ? parts[1] : nil
        }
        guard !host.isEmpty else { throw invalid("it has no host") }
        self.scheme = scheme
        self.host = String(host)
        if let port, !port.isEmpty {
            guard port.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(port), (1...65535).contains(number) else {
                throw invalid("its port is no number from 1 to 65535")
            }
            self.port = number
        } else {
            self.port = defaultPort
        }
        let target = rest[authority.endIndex...].prefix { $0 != "#" }
        self.target = target.first == "/" ? String(target) : "/" + target
    }

    /// Whether it speaks TLS.
    public var isSecure: Bool { self.scheme == "wss" || self.scheme == "https" }

    /// Scheme, host and port: who gets to see a token.
    public var origin: String { "\(self.scheme)://\(self.authority)" }

    /// What keeps it from being used, in words without any of it: only one that was made from parts can have such a host.
    package var problem: TransportError? {
        let isUsable = !self.host.isEmpty && self.host.utf8.allSatisfy { (0x21...0x7E).contains($0) && !#"@/?#\"#.utf8.contains($0) }
        if isUsable { return nil }
        return TransportError(
            .invalidURL, "The host is empty or has a character that no host has; send a user name or password as a header field.")
    }

    /// The `Host` header field: the port is in it unless it is the scheme's own.
    package var authority: String {
        // A user name and password have no place there, and would end up in logs.
        // By bytes: the at sign and what follows it may make one character.
        let bytes = self.host.utf8
        return self.authority(bytes.lastIndex(of: 0x40).map { String(decoding: bytes[$0...].dropFirst(), as: UTF8.self) } ?? self.host)
    }

    private func authority(_ name: String) -> String {
        let host = name.utf8.contains(0x3A) ? "[\(name)]" : name
        return self.port == (self.isSecure ? 443 : 80) ? host : "\(host):\(self.port)"
    }

    /// The address without its query, which may carry a token.
    public var description: String { self.origin + self.target.prefix { $0 != "?" && $0 != "#" } }
}

extension String {
    fileprivate func range(ofASCII needle: String) -> Range<Index>? {
        let (bytes, wanted) = (self.utf8, Array(needle.utf8))
        var start = bytes.startIndex
        while bytes.distance(from: start, to: bytes.endIndex) >= wanted.count {
            let end = bytes.index(start, offsetBy: wanted.count)
            if bytes[start..<end].elementsEqual(wanted) { return start..<end }
            start = bytes.index(after: start)
        }
        return nil
    }
}
