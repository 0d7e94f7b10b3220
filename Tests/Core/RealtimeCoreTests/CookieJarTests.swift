import RealtimeCore
import TestSupport
import Testing

/// Cookies as RFC 6265 describes them, sections 4.1 and 5.
@Suite struct CookieJarTests {
    private static let start = Instant(nanoseconds: 0)

    private static func jar(_ fields: [String], from url: String = "https://example.com/chat/negotiate") throws -> CookieJar {
        var jar = CookieJar()
        var headers = HTTPHeaders()
        for field in fields { headers.add("Set-Cookie", field) }
        jar.store(headers, from: try Endpoint(url), now: Self.start)
        return jar
    }

    private static func sent(_ jar: CookieJar, to url: String, own: [String] = []) throws -> String? {
        var headers = HTTPHeaders()
        for value in own { headers.add("Cookie", value) }
        return jar.headers(headers, for: try Endpoint(url))["Cookie"]
    }

    @Test(arguments: [
        // Hosts.
        ("a=1; Path=/", "https://example.com/", "a=1"), ("a=1; Path=/", "https://EXAMPLE.com/x", "a=1"),
        ("a=1; Path=/", "https://sub.example.com/", nil), ("a=1; Path=/; Domain=example.com", "https://sub.example.com/", nil),
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
        ("a=1; Path=/; Expires=Wed, 21 Oct 2015 07:28:00 GMT", "https://example.com/", "a=1"),
    ])
    func `a cookie is sent where it belongs`(row: (field: String, url: String, sent: String?)) throws {
        try expectEqual(Self.sent(Self.jar([row.field]), to: row.url), row.sent)
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
        try expectEqual(Self.sent(Self.jar(["a=1; Path=/", "a=2; Path=/", "a=3; Path=/chat"]), to: other), "a=2; a=3")
        try expectNil(Self.sent(Self.jar(["a=1; Path=/", "a=; Path=/; Max-Age=0"]), to: other))
    }

    @Test func `cookies that were joined with commas are separated`() throws {
        let joined = "a=1; Path=/; Expires=Wed, 21 Oct 2015 07:28:00 GMT, b=2; Path=/,c=3; Path=/"
        try expectEqual(Self.sent(Self.jar([joined]), to: "https://example.com/"), "a=1; b=2; c=3")
    }

    @Test func `cookies of the application replace those with the same name`() throws {
        let jar = try Self.jar(["a=1; Path=/", "b=2; Path=/"])
        try expectEqual(Self.sent(jar, to: "https://example.com/", own: ["b=own; c=3", "d=4"]), "b=own; c=3; d=4; a=1")
        try expectEqual(Self.sent(jar, to: "https://other.example/", own: ["b=own"]), "b=own")
    }

    @Test func `the number and the size of cookies are limited`() throws {
        let jar = try Self.jar((0..<10_000).map { "name\($0)=1; Path=/" } + ["long=\(String(repeating: "x", count: 5000)); Path=/"])
        let sent = try #require(try Self.sent(jar, to: "https://example.com/"))
        expect(sent.split(separator: ";").count == 50 && !sent.contains("long"))
        expectEqual(jar.secrets.count, 50)
    }
}
