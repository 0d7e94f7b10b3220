/// The names and addresses with which a machine refers to itself.
package enum LoopbackName {
    /// Returns whether a host is `localhost`, a name below it, or a loopback address.
    package static func matches(_ host: String) -> Bool {
        var name = host.lowercased()
        if name.hasPrefix("["), name.hasSuffix("]") { name = String(name.dropFirst().dropLast()) }
        if name.utf8.count > 1, name.utf8.last == UInt8(ascii: ".") { name.removeLast() }
        if name == "localhost" || name.hasSuffix(".localhost") || name == "::1" { return true }
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0] == "127" else { return false }
        return parts.allSatisfy { UInt8($0) != nil && $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }
    }

    /// Returns the host of an origin, such as `http://localhost:3000`, if it is a loopback name; `nil` if it isn't, or if the origin is
    /// opaque or invalid.
    package static func host(of origin: String) -> String? {
        guard let endpoint = try? Endpoint(origin), Self.matches(endpoint.host) else { return nil }
        return endpoint.host
    }

    /// Returns whether the field `Host` of a request has a loopback name, with or without a port.
    package static func matches(hostField: String) -> Bool {
        if self.host(of: "http://\(hostField)") != nil { return true }
        // Some clients write an IPv6 address without brackets.
        return hostField == "::1" || hostField.hasPrefix("::1:") && hostField.utf8.dropFirst(4).allSatisfy { 0x30...0x39 ~= $0 }
    }
}
