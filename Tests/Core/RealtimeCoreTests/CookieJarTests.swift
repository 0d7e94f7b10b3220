import TestSupport
import Testing

@testable import RealtimeCore

/// Cookies as RFC 6265 describes them, sections 4.1 and 5, and RFC 6265bis their prefixes.
@Suite struct CookieJarTests {
    private static let start = Instant(nanoseconds: 0)
    /// January 1, 2026.
    private static let date: Int64 = 1_767_225_600
    private static let url = "https://example.com/chat/negotiate"

    private static func store(_ fields: [String], in jar: inout CookieJar, from url: String = Self.url, date: String? = nil) throws {
        var headers = HTTPHeaders()
        for field in fields { headers.add("Set-Cookie", field) }
        headers["Date"] = date
        jar.store(headers, from: try Endpoint(url), now: Self.start, date: Self.date)
    }

    private static func jar(_ fields: [String], from url: String = Self.url) throws -> CookieJar {
        var jar = CookieJar()
        try Self.store(fields, in: &jar, from: url)
        return jar
    }

    private static func sent(_ jar: CookieJar, to url: String, own: [String] = []) throws -> String? {
        var jar = jar
        return try Self.sent(from: &jar, to: url, own: own)
    }

    private static func sent(from jar: inout CookieJar, to url: String, own: [String] = []) throws -> String? {
        var headers = HTTPHeaders()
        for value in own { headers.add("Cookie", value) }
        return jar.headers(headers, for: try Endpoint(url))["Cookie"]
    }

    @Test(arguments: [
        // Hosts.
        ("a=1; Path=/", "https://example.com/", "a=1"), ("a=1; Path=/", "https://EXAMPLE.com/x", "a=1"),
        ("a=1; Path=/", "https://sub.example.com/", nil), ("a=1; Path=/; Domain=example.com", "https://sub.example.com/", "a=1"),
        ("a=1; Path=/", "wss://example.com:8443/", "a=1"),
        // Paths.
        ("a=1", "https://example.com/chat", "a=1"), ("a=1", "https://example.com/chat/x", "a=1"), ("a=1", "https://example.com/chats", nil),
        ("a=1; Path=/chat/", "https://example.com/chat", nil), ("a=1; Path=relative", "https://example.com/chat", "a=1"),
        ("a=1; Path=/chat", "https://example.com/chat?x=/", "a=1"),
        // Secure.
        ("a=1; Path=/; Secure", "https://example.com/", "a=1"), ("a=1; Path=/; Secure", "ws://example.com/", nil),
        ("a=1; Path=/; secure; HttpOnly", "wss://example.com/", "a=1"),
        // Values.
        ("a=b=c; Path=/", "https://example.com/", "a=b=c"), (" a = 1 ; Path=/", "https://example.com/", "a=1"),
        ("a=; Path=/", "https://example.com/", "a="), ("a; Path=/", "https://example.com/", nil),
        ("=1; Path=/", "https://example.com/", nil),
        ("a=\u{7}; Path=/", "https://example.com/", nil), ("a=é; Path=/", "https://example.com/", nil),
        // Lifetimes.
        ("a=1; Path=/; Max-Age=0", "https://example.com/", nil), ("a=1; Path=/; Max-Age=-5", "https://example.com/", nil),
        ("a=1; Path=/; Max-Age=x", "https://example.com/", "a=1"),
        ("a=1; Path=/; Max-Age=99999999999999999999", "https://example.com/", "a=1"),
        ("a=1; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "https://example.com/", nil),
        ("a=1; Path=/; Expires=Thu, 01-Jan-1970 00:00:00 GMT; Max-Age=5", "https://example.com/", "a=1"),
        ("a=1; Path=/; Expires=Wed, 21 Oct 2015 07:28:00 GMT", "https://example.com/", nil),
        ("a=1; Path=/; Expires=Wed, 21 Oct 2015 07:28:00 GMT; Max-Age=5", "https://example.com/", "a=1"),
        ("a=1; Path=/; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Max-Age=0", "https://example.com/", nil),
        ("a=1; Path=/; Expires=tomorrow", "https://example.com/", "a=1"),
        ("a=1; Path=/; Expires=Wed, 21 Oct 2015 07:28:00 GMT; Expires=tomorrow", "https://example.com/", nil),
        ("a=1; Path=/; Max-Age=0; Max-Age=x", "https://example.com/", nil),
        // Prefixes.
        ("__Secure-a=1; Path=/; Secure", "https://example.com/", "__Secure-a=1"), ("__Secure-a=1; Path=/", "https://example.com/", nil),
        ("__secure-a=1; Path=/", "https://example.com/", nil), ("__Host-a=1; Path=/; Secure", "https://example.com/", "__Host-a=1"),
        ("__Host-a=1; Path=/", "https://example.com/", nil), ("__Host-a=1; Secure", "https://example.com/chat", nil),
        ("__Host-a=1; Path=/chat; Secure", "https://example.com/chat", nil),
        ("__Host-a=1; Path=/; Secure; Domain=example.com", "https://example.com/", nil),
        ("__HOST-a=1; Path=/", "https://example.com/", nil),
    ])
    func `a cookie is sent where it belongs`(row: (field: String, url: String, sent: String?)) throws {
        try expectEqual(Self.sent(Self.jar([row.field]), to: row.url), row.sent)
    }

    /// The hosts to which a cookie with a domain is sent, of those in the table.
    @Test(arguments: [
        // The host itself, or a domain above it.
        ("a.example.com", "example.com", "a.example.com b.example.com example.com"),
        ("a.example.com", ".Example.COM", "a.example.com b.example.com example.com"), ("a.example.com", "a.example.com", "a.example.com"),
        ("example.com", "example.com", "a.example.com b.example.com example.com"), ("a.example.com", "", "a.example.com"),
        // The cookie of another host is ignored.
        ("a.example.com", "b.example.com", ""), ("example.com", "a.example.com", ""), ("example.com", "other.example", ""),
        ("example.com", "ample.com", ""), ("example.com", "example.com.", ""),
        // Nor does anybody set cookies for a domain to which no host belongs.
        ("example.com", "com", ""), ("example.com", ".", "example.com"), ("localhost", "localhost", "localhost"),
        ("a.co.uk", "co.uk", "a.co.uk"), ("a.co.uk", "a.co.uk", "a.co.uk"),
        // Addresses have no domains.
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"), ("127.0.0.1", "0.0.1", ""), ("127.0.0.1", "1", ""), ("[::1]", "[::1]", "[::1]"),
    ])
    func `a cookie with a domain is sent to its hosts, or to none`(row: (host: String, domain: String, sent: String)) throws {
        let jar = try Self.jar(["a=1; Path=/; Domain=\(row.domain)"], from: "https://\(row.host)/")
        let hosts = [
            "a.example.com", "b.example.com", "example.com", "com", "localhost", "a.co.uk", "b.co.uk", "co.uk", "127.0.0.1", "2.0.0.1",
            "[::1]",
        ]
        try expectEqual(hosts.filter { try Self.sent(jar, to: "https://\($0)/") != nil }.joined(separator: " "), row.sent)
    }

    @Test(
        arguments: [
            // The forms of RFC 9110, and of servers.
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777), ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
            ("Sun Nov  6 08:49:37 1994", 784_111_777), ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Thu, 01-Jan-1970 00:00:01 GMT", 1),
            ("Fri, 31 Dec 1999 23:59:59 GMT", 946_684_799), ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
            ("Mon, 01-Mar-04 00:00:00 UTC", 1_078_099_200), ("1 jan 2026 0:0:0", 1_767_225_600), ("2026 jan 1 00:00:00", 1_767_225_600),
            ("Thu,01/January/2026;00:00:00+0200", 1_767_225_600), ("31 Dec 9999 23:59:59 GMT", 253_402_300_799),
            ("1 Jan 1601 00:00:00", -11_644_473_600), ("1 Jan 69 00:00:00", 3_124_224_000), ("1 Jan 70 00:00:00", 0),
            // Others aren't dates.
            ("", nil), ("tomorrow", nil), ("Sun, 06 Nov 1994", nil), ("06 Nov 1994 08:49", nil), ("Nov 1994 08:49:37", nil),
            ("32 Jan 2026 00:00:00", nil), ("0 Jan 2026 00:00:00", nil), ("30 Feb 2026 00:00:00", nil), ("29 Feb 1900 00:00:00", nil),
            ("1 Jan 1600 00:00:00", nil), ("1 Jan 2026 24:00:00", nil), ("1 Jan 2026 00:60:00", nil), ("1 Jan 2026 00:00:60", nil),
            ("1 Foo 2026 00:00:00", nil), ("1 Jan 20266 00:00:00", nil), ("2026-01-01T00:00:00Z", nil), ("1767225600", nil),
        ] as [(String, Int64?)])
    func `the expiry date of a cookie may have many forms`(text: String, seconds: Int64?) {
        expectEqual(CookieDate.seconds(text), seconds)
    }

    @Test func `a cookie expires at its date, by the clock of the server`() throws {
        for (date, lifetime) in [(nil, 60), ("Wed, 31 Dec 2025 23:59:00 GMT", 120), ("nonsense", 60)] as [(String?, Int)] {
            var jar = CookieJar()
            try Self.store(["a=1; Path=/; Expires=Thu, 01 Jan 2026 00:01:00 GMT"], in: &jar, date: date)
            jar.removeExpired(now: Self.start.advanced(by: .seconds(lifetime) - .milliseconds(1)))
            try expectEqual(Self.sent(jar, to: "https://example.com/"), "a=1")
            jar.removeExpired(now: Self.start.advanced(by: .seconds(lifetime)))
            try expectNil(Self.sent(jar, to: "https://example.com/"))
        }
    }

    @Test(arguments: [86_400, -86_400, 20 * 31_557_600, -50 * 31_557_600] as [Int64])
    func `a wall clock that jumps ends no cookie, and lengthens none`(seconds: Int64) throws {
        var jar = try Self.jar(["a=1; Path=/; Max-Age=60", "b=2; Path=/; Expires=Thu, 01 Jan 2026 00:01:00 GMT"])
        jar.store(["Set-Cookie": "c=3; Path=/; Max-Age=60"], from: try Endpoint(Self.url), now: Self.start, date: Self.date + seconds)
        jar.removeExpired(now: Self.start.advanced(by: .milliseconds(59_999)))
        try expectEqual(Self.sent(jar, to: "https://example.com/"), "a=1; b=2; c=3")
        jar.removeExpired(now: Self.start.advanced(by: .seconds(60)))
        try expectNil(Self.sent(jar, to: "https://example.com/"))
    }

    @Test func `a past date deletes a cookie`() throws {
        for date in ["Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 01-Jan-1971 00:00:00 GMT", "Wednesday, 31-Dec-25 23:59:59 GMT"] {
            try expectNil(Self.sent(Self.jar(["a=1; Path=/", "a=; Path=/; Expires=\(date)"]), to: "https://example.com/"))
        }
    }

    @Test func `a server without TLS neither sets nor replaces a secure cookie`() throws {
        var jar = try Self.jar(["a=1; Path=/; Secure"])
        try Self.store(["a=2; Path=/chat", "b=2; Path=/; Secure", "c=3; Path=/"], in: &jar, from: "http://example.com/")
        try expectEqual(Self.sent(jar, to: Self.url), "a=1; c=3")
        try expectEqual(Self.sent(jar, to: "http://example.com/chat"), "c=3")
    }

    @Test func `a cookie expires after its Max-Age`() throws {
        var jar = try Self.jar(["a=1; Path=/; Max-Age=60", "b=2; Path=/"])
        jar.removeExpired(now: Self.start.advanced(by: .milliseconds(59_999)))
        try expectEqual(Self.sent(jar, to: "https://example.com/"), "a=1; b=2")
        jar.removeExpired(now: Self.start.advanced(by: .seconds(60)))
        try expectEqual(Self.sent(jar, to: "https://example.com/"), "b=2")
    }

    @Test func `a cookie replaces the one with its name, host and path, and can delete it`() throws {
        let other = "https://example.com/chat/negotiate"
        try expectEqual(Self.sent(Self.jar(["a=1; Path=/", "a=2; Path=/", "a=3; Path=/chat"]), to: other), "a=3; a=2")
        try expectEqual(Self.sent(Self.jar(["a=1; Path=/", "b=2; Path=/", "a=3; Path=/"]), to: other), "a=3; b=2")
        try expectNil(Self.sent(Self.jar(["a=1; Path=/", "a=; Path=/; Max-Age=0"]), to: other))
    }

    @Test func `cookies that were joined with commas are separated`() throws {
        let joined = "a=1; Path=/; Expires=Wed, 21 Oct 2026 07:28:00 GMT, b=2; Path=/,c=3; Path=/"
        try expectEqual(Self.sent(Self.jar([joined]), to: "https://example.com/"), "a=1; b=2; c=3")
    }

    @Test func `a cookie of the server replaces that of the application, until the application changes it`() throws {
        let url = "https://example.com/"
        var jar = CookieJar()
        try expectEqual(Self.sent(from: &jar, to: url, own: ["node=A; c=3"]), "node=A; c=3")
        try Self.store(["node=B; Path=/", "b=2; Path=/"], in: &jar, from: url)
        try expectEqual(Self.sent(from: &jar, to: url, own: ["node=A; c=3", "d=4"]), "c=3; d=4; node=B; b=2")
        // A request to another host has neither.
        try expectEqual(Self.sent(from: &jar, to: "https://other.example/", own: ["c=3"]), "c=3")
        try expectEqual(Self.sent(from: &jar, to: url, own: ["node=A"]), "node=B; b=2")
        // The application has signed in again.
        try expectEqual(Self.sent(from: &jar, to: url, own: ["node=C"]), "node=C; b=2")
        try Self.store(["node=D; Path=/"], in: &jar, from: url)
        try expectEqual(Self.sent(from: &jar, to: url, own: ["node=C"]), "b=2; node=D")
        // Without one of the application, nothing is replaced.
        try expectEqual(Self.sent(from: &jar, to: url), "b=2; node=D")
    }

    @Test func `the field of a request is limited, and the newest cookies are in it`() throws {
        let text = String(repeating: "x", count: 3000)
        let jar = try Self.jar((0..<9).map { "c\($0)=\(text); Path=/" })
        let sent = try #require(try Self.sent(jar, to: "https://example.com/", own: ["own=1"]))
        expectEqual(sent.split(separator: "; ").map { $0.split(separator: "=")[0] }, ["own", "c7", "c8"])
        expect(sent.utf8.count <= 8000)
        // The application's own are always sent.
        let long = "own=\(String(repeating: "y", count: 9000))"
        try expectEqual(Self.sent(jar, to: "https://example.com/", own: [long]), long)
    }

    @Test func `the number and the size of cookies are limited`() throws {
        let jar = try Self.jar((0..<10_000).map { "name\($0)=1; Path=/" } + ["long=\(String(repeating: "x", count: 5000)); Path=/"])
        let sent = try #require(try Self.sent(jar, to: "https://example.com/"))
        expect(sent.split(separator: ";").count == 50 && sent.contains("name9999=1") && !sent.contains("long"))
        expectEqual(jar.secrets.count, 50)
    }
}
