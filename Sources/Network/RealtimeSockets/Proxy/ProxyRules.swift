import RealtimeCore
import RealtimeSystem

/// Determines the proxy for each endpoint.
struct ProxyRules: Sendable {
    /// A variable of the environment.
    private struct Variable: Sendable {
        let name: String
        let value: String
    }

    private enum Source: Sendable {
        case none
        case server(ProxyServer)
        case environment(plain: Variable?, secure: Variable?)
    }

    private let source: Source
    private let exceptions: [String]

    /// Reads the environment, if the configuration uses it.
    init(
        _ configuration: ProxyConfiguration, environment: (String) -> String? = { name in getenv(name).map { String(cString: $0) } }
    ) {
        /// The first variable that is set.
        func first(_ names: [String]) -> Variable? {
            for name in names {
                if let value = environment(name), !value.isEmpty { return Variable(name: name, value: value) }
            }
            return nil
        }
        switch configuration.source {
        case .none:
            (self.source, self.exceptions) = (.none, [])
        case .server(let server):
            (self.source, self.exceptions) = (.server(server), configuration.exceptions)
        case .environment:
            let all = ["all_proxy", "ALL_PROXY"]
            // The server of a CGI program sets HTTP_PROXY to the header field "Proxy" of a request.
            let plain = ["http_proxy"] + (environment("REQUEST_METHOD") == nil ? ["HTTP_PROXY"] : [])
            self.source = .environment(plain: first(plain + all), secure: first(["https_proxy", "HTTPS_PROXY"] + all))
            let excluded = first(["no_proxy", "NO_PROXY"])?.value.split { $0 == "," || $0.isWhitespace }.map { String($0) } ?? []
            self.exceptions = configuration.exceptions + excluded
        }
    }

    /// Returns the proxy for an endpoint, or `nil` to connect directly.
    ///
    /// - Throws: `TransportError` with the code `invalidURL` or `unsupported` if the proxy can't be used.
    func proxy(for endpoint: Endpoint) throws(TransportError) -> ProxyServer? {
        let server: ProxyServer
        switch self.source {
        case .none: return nil
        case .server(let configured):
            guard !self.isException(endpoint.host) else { return nil }
            try configured.validate()
            return configured
        case .environment(let plain, let secure):
            guard let variable = endpoint.isSecure ? secure : plain, !self.isException(endpoint.host) else { return nil }
            do throws(TransportError) {
                server = try ProxyServer(url: variable.value)
                try server.validate()
            } catch {
                throw error.withMessage("The environment variable \(variable.name): \(error.message)")
            }
            return server
        }
    }

    private func isException(_ host: String) -> Bool {
        guard !self.exceptions.isEmpty else { return false }
        let name = Self.normalized(host)
        let address = IPAddress.bytes(name)
        return self.exceptions.contains { exception in
            if exception == "*" { return true }
            if let address { return Self.contains(exception, address) }
            let domain = Self.normalized(exception)
            return !domain.isEmpty && (name == domain || name.hasSuffix("." + domain))
        }
    }

    /// Returns a name in lowercase, without brackets, without the dots at its ends, and without a wildcard before them.
    private static func normalized(_ name: String) -> String {
        func isSeparator(_ byte: UInt8) -> Bool { "[].".utf8.contains(byte) }
        var bytes = name.lowercased().utf8[...]
        if bytes.starts(with: "*.".utf8) { bytes = bytes.dropFirst() }
        bytes = bytes.drop(while: isSeparator)
        while let last = bytes.last, isSeparator(last) { bytes = bytes.dropLast() }
        return String(Substring(bytes))
    }

    /// Whether an address, or a network such as `10.0.0.0/8`, contains an address.
    private static func contains(_ network: String, _ address: [UInt8]) -> Bool {
        let parts = network.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let start = IPAddress.bytes(Self.normalized(String(parts[0]))), start.count == address.count,
            let bits = parts.count == 2 ? Int(parts[1]) : 8 * start.count, (0...8 * start.count).contains(bits)
        else { return false }
        // With types: the compiler would need 20 seconds to find them.
        return (0..<bits).allSatisfy { (bit: Int) -> Bool in
            let difference: UInt8 = start[bit / 8] ^ address[bit / 8]
            return difference & (0x80 as UInt8 >> UInt8(bit % 8)) == 0
        }
    }
}

enum IPAddress {
    /// Returns the 4 or 16 bytes of a numeric address, or `nil` for other text. The zone of a link-local address is ignored.
    static func bytes(_ text: String) -> [UInt8]? {
        // The C library would read only the part before a zero byte.
        guard !text.utf8.contains(0) else { return nil }
        let address = String(text.prefix { $0 != "%" })
        var bytes = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, address, &bytes) == 1 { return Array(bytes[..<4]) }
        return inet_pton(AF_INET6, address, &bytes) == 1 ? bytes : nil
    }
}
