import RealtimeSystem

/// The cookies that servers have set, for the requests of one client that follow. Load balancers use them to direct all requests of a client
/// to one server.
///
/// Source: RFC 6265, sections 4.1 and 5; the rules for secure cookies and for prefixes of names are those of RFC 6265bis.
package struct CookieJar: Sendable {
    private struct Cookie: Sendable {
        var name: String, value: String
        var domain: CookieDomain, path: String
        var isSecure: Bool
        var expires: Instant?
        /// The place among the cookies with paths of the same length.
        var number: UInt64
        /// The value of the application's cookie with this name when the server set this one, which replaces it.
        var replaced: String?

        func isSent(to endpoint: Endpoint) -> Bool {
            self.domain.includes(endpoint.host.lowercased()) && (!self.isSecure || endpoint.isSecure) && self.isSent(toPath: endpoint.path)
        }

        func isSent(toPath path: String) -> Bool {
            let (path, own) = (path.utf8, self.path.utf8)
            guard path.starts(with: own) else { return false }
            // `/chat` applies to `/chat/negotiate`, but not to `/chats`.
            return path.count == own.count || own.last == UInt8(ascii: "/") || path.dropFirst(own.count).first == UInt8(ascii: "/")
        }

        func isExpired(_ now: Instant) -> Bool { self.expires.map { $0 <= now } ?? false }
    }

    /// The largest number of cookies, the oldest of which make room, and the size of each in bytes. Longer ones are ignored.
    private static let limit = (count: 50, bytes: 4096)
    /// The largest size of the field `Cookie`, in bytes. Most servers refuse a request with a longer one.
    private static let fieldLimit = 8000
    /// The longest lifetime, in seconds: a year.
    private static let longestAge: Int64 = 365 * 24 * 60 * 60

    /// In the order in which they were set.
    private var cookies: [Cookie] = []
    private var lastNumber: UInt64 = 0
    /// The cookies of the application in the last request to each host.
    private var own: [String: [String: String]] = [:]

    package init() {}

    // MARK: Responses

    /// Adds the cookies of a response.
    ///
    /// - Parameter date: The time now, in seconds since 1970, for a response without a date. The date of a response has the clock of its expiry dates.
    package mutating func store(
        _ headers: HTTPHeaders, from endpoint: Endpoint, now: Instant, date: @autoclosure () -> Int64 = WallClock.secondsSince1970
    ) {
        self.removeExpired(now: now)
        let fields = headers.values("Set-Cookie")
        if fields.isEmpty { return }
        let date = headers["Date"].flatMap(CookieDate.seconds) ?? date()
        for text in fields.flatMap(Self.separated) where text.utf8.count <= Self.limit.bytes {
            self.store(text, from: endpoint, now: now, date: date)
        }
    }

    private mutating func store(_ text: String, from endpoint: Endpoint, now: Instant, date: Int64) {
        let parts = text.split(separator: ";", omittingEmptySubsequences: false).map(Self.pair)
        guard let (name, value) = parts.first, !name.isEmpty, let value else { return }
        // A control character would make the request invalid.
        guard text.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else { return }
        let attributes = parts.dropFirst().map { (name: $0.name.lowercased(), value: $0.value) }
        func last<Value>(_ name: String, _ value: (String?) -> Value?) -> Value? {
            attributes.last { $0.name == name && value($0.value) != nil }.flatMap { value($0.value) }
        }

        let host = endpoint.host.lowercased()
        let domainAttribute = attributes.last { $0.name == "domain" }.map { $0.value ?? "" }
        guard let domain = CookieDomain(attribute: domainAttribute ?? "", host: host) else { return }
        let givenPath = (attributes.last { $0.name == "path" }?.value).flatMap { $0.utf8.first == UInt8(ascii: "/") ? $0 : nil }
        let isSecure = attributes.contains { $0.name == "secure" }
        guard !isSecure || endpoint.isSecure else { return }
        switch Self.prefix(of: name) {
        case .none: break
        case .secure: guard isSecure else { return }
        case .host: guard isSecure, givenPath == "/", domainAttribute == nil else { return }
        }
        let path = givenPath ?? Self.directory(of: endpoint)
        // A response that anyone on the way can change doesn't replace a cookie that was set over TLS.
        let isProtected = self.cookies.contains {
            $0.isSecure && $0.name == name && $0.domain.overlaps(domain) && $0.isSent(toPath: path)
        }
        if isProtected, !endpoint.isSecure { return }

        let old = self.cookies.firstIndex { $0.name == name && $0.domain == domain && $0.path == path }.map { self.cookies.remove(at: $0) }
        let age = last("max-age", Self.age) ?? last("expires") { $0.flatMap(CookieDate.seconds).map { min($0 - date, Self.longestAge) } }
        if let age, age <= 0 { return }
        if self.cookies.count >= Self.limit.count { self.cookies.removeFirst() }
        self.lastNumber += 1
        self.cookies.append(
            Cookie(
                name: name, value: value, domain: domain, path: path, isSecure: isSecure,
                expires: age.map { now.advanced(by: .seconds($0)) }, number: old?.number ?? self.lastNumber,
                replaced: self.own[host]?[name]))
    }

    /// The path of a cookie that names none.
    private static func directory(of endpoint: Endpoint) -> String {
        let path = endpoint.path
        guard let end = path.utf8.lastIndex(of: UInt8(ascii: "/")), end != path.startIndex else { return "/" }
        return String(path[..<end])
    }

    private enum Prefix { case none, secure, host }

    /// The promise that the name of a cookie contains.
    private static func prefix(of name: String) -> Prefix {
        let name = name.lowercased()
        return name.hasPrefix("__host-") ? .host : name.hasPrefix("__secure-") ? .secure : .none
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

    // MARK: Requests

    /// Returns the header fields of a request with the cookies for its endpoint.
    ///
    /// A cookie replaces one with the same name among the fields, which the application has set before the server did. If the application has
    /// changed its cookie since, that is the newer one. The oldest cookies are left out where the field would be too long.
    package mutating func headers(_ headers: HTTPHeaders, for endpoint: Endpoint) -> HTTPHeaders {
        let fields = headers.values("Cookie")
        let own = fields.flatMap { $0.split(separator: ";").map(Self.trimmed) }.filter { !$0.isEmpty }
        let values = Dictionary(own.map { Self.pair($0[...]) }.map { ($0.name, $0.value ?? "") }) { _, last in last }
        self.remember(values, for: endpoint.host.lowercased())
        if self.cookies.isEmpty { return headers }

        var candidates: [Cookie] = []
        self.cookies.removeAll { cookie in
            guard cookie.isSent(to: endpoint) else { return false }
            if let value = values[cookie.name], value != cookie.replaced { return true }
            candidates.append(cookie)
            return false
        }
        let names = Set(candidates.map(\.name))
        let kept = own.filter { !names.contains(Self.pair($0[...]).name) }
        var size = kept.reduce(0) { $0 + $1.utf8.count + 2 }
        var sent: [Cookie] = []
        for cookie in candidates.reversed() {
            size += cookie.name.utf8.count + cookie.value.utf8.count + 3
            if size > Self.fieldLimit { break }
            sent.append(cookie)
        }
        if sent.isEmpty { return headers }
        // Longer paths first, and older cookies before newer ones.
        sent.sort { ($1.path.utf8.count, $0.number) < ($0.path.utf8.count, $1.number) }
        var headers = headers
        headers["Cookie"] = (kept + sent.map { "\($0.name)=\($0.value)" }).joined(separator: "; ")
        return headers
    }

    private mutating func remember(_ values: [String: String], for host: String) {
        if values.isEmpty {
            self.own[host] = nil
        } else {
            // A client talks to a few hosts.
            if self.own.count >= Self.limit.count { self.own = [:] }
            self.own[host] = values
        }
    }

    /// The values of all cookies, which must not appear in errors and logs.
    package var secrets: [String] { self.cookies.map(\.value) }
}

/// The hosts to which a cookie is sent.
struct CookieDomain: Hashable, Sendable {
    private var name: String
    private var includesSubdomains: Bool

    /// - Parameters:
    ///   - attribute: The attribute `Domain` of the cookie; empty if it has none.
    ///   - host: The host that has set the cookie, in lowercase letters.
    /// - Returns: `nil` if the host must not set such a cookie, which is ignored then.
    init?(attribute: String, host: String) {
        var domain = (attribute.hasPrefix(".") ? String(attribute.dropFirst()) : attribute).lowercased()
        // An endpoint has no brackets either.
        if domain.hasPrefix("["), domain.hasSuffix("]") { domain = String(domain.dropFirst().dropLast()) }
        (self.name, self.includesSubdomains) = (host, false)
        if domain.isEmpty || domain == host && Self.isShared(domain) { return }
        guard domain == host || Self.isName(host, below: domain) else { return nil }
        // A domain such as `com` belongs to no server that sets cookies.
        guard domain.utf8.contains(UInt8(ascii: ".")) else { return nil }
        // Nor does one such as `co.uk`. Without a list of them, the cookie is kept for the host alone, where it is safe.
        if !Self.isShared(domain) { (self.name, self.includesSubdomains) = (domain, true) }
    }

    func includes(_ host: String) -> Bool {
        host == self.name || self.includesSubdomains && Self.isName(host, below: self.name)
    }

    /// Whether cookies of both domains may be sent to one host.
    func overlaps(_ other: CookieDomain) -> Bool { self.includes(other.name) || other.includes(self.name) }

    private static func isName(_ host: String, below domain: String) -> Bool { !self.isAddress(host) && host.hasSuffix("." + domain) }

    /// Whether a host is an IP address.
    private static func isAddress(_ host: String) -> Bool {
        let last = host.utf8.reversed().prefix { $0 != UInt8(ascii: ".") }
        return host.utf8.contains(UInt8(ascii: ":")) || !last.isEmpty && last.allSatisfy { (0x30...0x39).contains($0) }
    }

    /// Whether a domain is an address, has one label, or may be one below which anyone registers names.
    private static func isShared(_ domain: String) -> Bool {
        let labels = domain.split(separator: ".", omittingEmptySubsequences: false)
        if labels.count < 2 || self.isAddress(domain) { return true }
        let general = ["ac", "co", "com", "edu", "go", "gob", "gov", "mil", "ne", "net", "or", "org"]
        return labels.count == 2 && labels[1].utf8.count == 2 && general.contains(String(labels[0]))
    }
}
