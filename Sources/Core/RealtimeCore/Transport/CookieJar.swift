/// The cookies that servers have set, for the requests of one client that follow. Load balancers use them to direct all requests of a client
/// to one server.
///
/// A cookie is sent to no other host than the one that set it, whatever domain it names.
///
/// Source: RFC 6265, sections 4.1 and 5.
package struct CookieJar: Sendable {
    private struct Cookie: Sendable {
        var name: String, value: String
        var host: String, path: String
        var isSecure: Bool
        var expires: Instant?

        func isSent(to endpoint: Endpoint) -> Bool {
            guard self.host == endpoint.host.lowercased(), !self.isSecure || endpoint.isSecure else { return false }
            let path = endpoint.path.utf8
            guard path.starts(with: self.path.utf8) else { return false }
            // `/chat` applies to `/chat/negotiate`, but not to `/chats`.
            return path.count == self.path.utf8.count || self.path.utf8.last == UInt8(ascii: "/")
                || path.dropFirst(self.path.utf8.count).first == UInt8(ascii: "/")
        }

        func isExpired(_ now: Instant) -> Bool { self.expires.map { $0 <= now } ?? false }
    }

    /// More and longer ones are ignored, so that the header of the next request has a limit.
    private static let limit = (count: 50, bytes: 4096)
    /// The longest lifetime, in seconds: a year.
    private static let longestAge: Int64 = 365 * 24 * 60 * 60

    private var cookies: [Cookie] = []

    package init() {}

    /// Adds the cookies of a response.
    package mutating func store(_ headers: HTTPHeaders, from endpoint: Endpoint, now: Instant) {
        self.removeExpired(now: now)
        for value in headers.values("Set-Cookie").flatMap(Self.separated) where value.utf8.count <= Self.limit.bytes {
            self.store(value, from: endpoint, now: now)
        }
    }

    private mutating func store(_ text: String, from endpoint: Endpoint, now: Instant) {
        let parts = text.split(separator: ";", omittingEmptySubsequences: false).map(Self.pair)
        guard let (name, value) = parts.first, !name.isEmpty, let value else { return }
        // A control character would make the request invalid.
        guard text.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else { return }
        func attribute(_ name: String) -> String?? { parts.dropFirst().last { $0.name.lowercased() == name }.map(\.value) }
        let directory = endpoint.path.utf8.lastIndex(of: UInt8(ascii: "/")).map { String(endpoint.path[..<$0]) } ?? ""
        var path = directory.isEmpty ? "/" : directory
        if let given = attribute("path") ?? nil, given.utf8.first == UInt8(ascii: "/") { path = given }
        self.cookies.removeAll { $0.name == name && $0.host == endpoint.host.lowercased() && $0.path == path }
        let age = Self.age(attribute("max-age") ?? nil)
        if age.map({ $0 <= 0 }) ?? Self.isPast(attribute("expires") ?? nil) { return }
        guard self.cookies.count < Self.limit.count else { return }
        self.cookies.append(
            Cookie(
                name: name, value: value, host: endpoint.host.lowercased(), path: path, isSecure: attribute("secure") != nil,
                expires: age.map { now.advanced(by: .seconds($0)) }))
    }

    /// Whether a date is in 1970. There is no calendar here, and servers that delete a cookie without `Max-Age` set the start of Unix time.
    private static func isPast(_ date: String?) -> Bool {
        date?.split { $0 == " " || $0 == "-" }.contains("1970") ?? false
    }

    /// Returns a lifetime in seconds, or `nil` if the attribute is missing or invalid.
    private static func age(_ text: String?) -> Int64? {
        guard let text, let first = text.utf8.first else { return nil }
        let digits = first == UInt8(ascii: "-") ? text.utf8.dropFirst() : text.utf8[...]
        guard !digits.isEmpty, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        if first == UInt8(ascii: "-") { return 0 }
        // A number with more digits than fit is a long lifetime, too.
        return Int64(text).map { min($0, Self.longestAge) } ?? Self.longestAge
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

    /// Removes the cookies whose lifetime has passed.
    package mutating func removeExpired(now: Instant) { self.cookies.removeAll { $0.isExpired(now) } }

    /// Returns the header fields of a request with the cookies for its endpoint. Cookies among the fields replace those with the same name.
    package func headers(_ headers: HTTPHeaders, for endpoint: Endpoint) -> HTTPHeaders {
        guard !self.cookies.isEmpty else { return headers }
        let own = headers.values("Cookie")
        let names = Set(own.flatMap { $0.split(separator: ";") }.map { Self.pair($0).name })
        let sent = self.cookies.filter { $0.isSent(to: endpoint) && !names.contains($0.name) }
        guard !sent.isEmpty else { return headers }
        var headers = headers
        headers["Cookie"] = (own + sent.map { "\($0.name)=\($0.value)" }).joined(separator: "; ")
        return headers
    }

    /// The values of all cookies, which must not appear in errors and logs.
    package var secrets: [String] { self.cookies.map(\.value) }
}
