import RealtimeCore

/// The cookies that a server set in the responses of a negotiation, for the requests that follow to the same host. Load balancers use them
/// to direct all requests of a client to one server.
///
/// They belong to one attempt to connect, so they have no lifetime. A cookie is sent to no other host, whatever domain it names.
///
/// Source: RFC 6265, sections 4.1 and 5.
struct HubCookies: Sendable {
    private struct Cookie: Sendable {
        var name: String, value: String
        var host: String, path: String
        var isSecure: Bool

        func isSent(to endpoint: Endpoint) -> Bool {
            guard self.host == endpoint.host.lowercased(), !self.isSecure || endpoint.isSecure else { return false }
            let path = endpoint.path.utf8
            guard path.starts(with: self.path.utf8) else { return false }
            // `/chat` applies to `/chat/negotiate`, but not to `/chats`.
            return path.count == self.path.utf8.count || self.path.utf8.last == UInt8(ascii: "/")
                || path.dropFirst(self.path.utf8.count).first == UInt8(ascii: "/")
        }
    }

    /// More and longer ones are ignored, so that the header of the next request has a limit.
    private static let limit = (count: 50, bytes: 4096)

    private var cookies: [Cookie] = []

    /// Adds the cookies of a response.
    mutating func store(_ headers: HTTPHeaders, from endpoint: Endpoint) {
        for value in headers.values("Set-Cookie").flatMap(Self.separated) where value.utf8.count <= Self.limit.bytes {
            self.store(value, from: endpoint)
        }
    }

    private mutating func store(_ text: String, from endpoint: Endpoint) {
        let parts = text.split(separator: ";", omittingEmptySubsequences: false).map(Self.pair)
        guard let (name, value) = parts.first, !name.isEmpty, let value else { return }
        // A control character would make the request invalid.
        guard text.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else { return }
        func attribute(_ name: String) -> String?? { parts.dropFirst().last { $0.name.lowercased() == name }.map(\.value) }
        let directory = endpoint.path.utf8.lastIndex(of: UInt8(ascii: "/")).map { String(endpoint.path[..<$0]) } ?? ""
        var path = directory.isEmpty ? "/" : directory
        if let given = attribute("path") ?? nil, given.utf8.first == UInt8(ascii: "/") { path = given }
        self.cookies.removeAll { $0.name == name && $0.host == endpoint.host.lowercased() && $0.path == path }
        if let age = (attribute("max-age") ?? nil).flatMap({ Int($0) }), age <= 0 { return }
        guard self.cookies.count < Self.limit.count else { return }
        let isSecure = attribute("secure") != nil
        self.cookies.append(Cookie(name: name, value: value, host: endpoint.host.lowercased(), path: path, isSecure: isSecure))
    }

    private static func pair(_ text: Substring) -> (name: String, value: String?) {
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(Self.trimmed)
        return (parts[0], parts.count > 1 ? parts[1] : nil)
    }

    private static func trimmed(_ text: Substring) -> String {
        let start = text.drop { $0 == " " || $0 == "\t" }
        guard let end = start.lastIndex(where: { $0 != " " && $0 != "\t" }) else { return "" }
        return String(start[...end])
    }

    /// Separates cookies that the transport joined with commas, as URLSession does. A comma in a date is followed by no equals sign.
    private static func separated(_ text: String) -> [String] {
        var cookies: [String] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let name = part.prefix { $0 != "=" && $0 != ";" }
            let isStart = name.endIndex != part.endIndex && part[name.endIndex] == "=" && !Self.trimmed(name).contains(" ")
            if isStart || cookies.isEmpty {
                cookies.append(String(part))
            } else {
                cookies[cookies.count - 1] += ",\(part)"
            }
        }
        return cookies
    }

    /// Returns the value of the header field for a request.
    ///
    /// - Parameter own: The values that the application configured. Their cookies replace the server's cookies with the same name.
    func header(for endpoint: Endpoint, besides own: [String]) -> String? {
        let names = Set(own.flatMap { $0.split(separator: ";") }.map { Self.pair($0).name })
        let cookies = self.cookies.filter { $0.isSent(to: endpoint) && !names.contains($0.name) }.map { "\($0.name)=\($0.value)" }
        let all = own + cookies
        return all.isEmpty ? nil : all.joined(separator: "; ")
    }
}
