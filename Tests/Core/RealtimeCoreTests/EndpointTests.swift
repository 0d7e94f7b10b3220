import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

@Suite struct EndpointTests {
    struct Valid: Sendable {
        var text, scheme, host: String
        var port: Int
        var target, origin: String
    }

    @Test(arguments: [
        Valid(text: "ws://h", scheme: "ws", host: "h", port: 80, target: "/", origin: "ws://h"),
        Valid(text: "wss://h", scheme: "wss", host: "h", port: 443, target: "/", origin: "wss://h"),
        Valid(text: "http://h", scheme: "http", host: "h", port: 80, target: "/", origin: "http://h"),
        Valid(text: "https://h/", scheme: "https", host: "h", port: 443, target: "/", origin: "https://h"),
        Valid(
            text: "WSS://Host.Example/Path", scheme: "wss", host: "Host.Example", port: 443, target: "/Path", origin: "wss://Host.Example"),
        Valid(text: "ws://h:", scheme: "ws", host: "h", port: 80, target: "/", origin: "ws://h"),
        Valid(text: "ws://h:1/a/b?c=d&e", scheme: "ws", host: "h", port: 1, target: "/a/b?c=d&e", origin: "ws://h:1"),
        Valid(text: "ws://h:65535", scheme: "ws", host: "h", port: 65535, target: "/", origin: "ws://h:65535"),
        Valid(text: "ws://h:0080/", scheme: "ws", host: "h", port: 80, target: "/", origin: "ws://h"),
        Valid(text: "ws://h?q=1", scheme: "ws", host: "h", port: 80, target: "/?q=1", origin: "ws://h"),
        Valid(text: "ws://h/a#fragment?x", scheme: "ws", host: "h", port: 80, target: "/a", origin: "ws://h"),
        Valid(text: "ws://h#fragment", scheme: "ws", host: "h", port: 80, target: "/", origin: "ws://h"),
        Valid(text: "ws://[::1]", scheme: "ws", host: "::1", port: 80, target: "/", origin: "ws://[::1]"),
        Valid(
            text: "https://[2001:db8::1]:8443/x", scheme: "https", host: "2001:db8::1", port: 8443, target: "/x",
            origin: "https://[2001:db8::1]:8443"),
        Valid(
            text: "ws://127.0.0.1:6001/app/key", scheme: "ws", host: "127.0.0.1", port: 6001, target: "/app/key",
            origin: "ws://127.0.0.1:6001"),
        Valid(text: "http://h/a?to=ws://other", scheme: "http", host: "h", port: 80, target: "/a?to=ws://other", origin: "http://h"),
        Valid(text: "http://h/user@example", scheme: "http", host: "h", port: 80, target: "/user@example", origin: "http://h"),
    ])
    func `a URL is parsed into its components`(valid: Valid) throws {
        let endpoint = try Endpoint(valid.text)
        expectEqual(endpoint, Endpoint(scheme: valid.scheme, host: valid.host, port: valid.port, target: valid.target))
        expectEqual(endpoint.origin, valid.origin)
        expectEqual(endpoint.isSecure, (valid.scheme == "wss" || valid.scheme == "https"))
    }

    @Test(arguments: [
        ("", "missing scheme"), ("h", "missing scheme"), ("h:80/path", "missing scheme"), ("//h", "missing scheme"),
        ("ws:/h", "missing scheme"),
        ("ws:", "missing scheme"),
        ("ftp://h", "scheme must be"), ("://h", "scheme must be"), (" ws://h", "scheme must be"), ("http+ws://h", "scheme must be"),
        ("ws\u{0}://h", "scheme must be"),
        ("ws://", "missing host"), ("ws:///path", "missing host"), ("ws://:80", "missing host"), ("ws://?q", "missing host"),
        ("ws://[]", "missing host"),
        ("ws://h:0", "port"), ("ws://h:65536", "port"), ("ws://h:99999999999999999999", "port"), ("ws://h:8o", "port"),
        ("ws://h:-1", "port"),
        ("ws://h:+80", "port"), ("ws://h:80:80", "port"), ("ws://::1", "missing host"), ("ws://[::1]:x", "port"),
        ("ws://h:80٣", "non-ASCII"),
        ("ws://user@h", "user names"), ("ws://user:secret@h/", "user names"), ("ws://h\\@other", "user names"),
        ("ws://[::1", "bracket"), ("ws://[::1]x", "unexpected characters"), ("ws://[::1]80", "unexpected characters"),
        ("ws://h/a b", "spaces"), ("ws://h/\n", "spaces"), ("ws://h/\r\nHost: x", "spaces"), ("ws://hö", "begins with xn--"),
        ("https://exämple.org:81/chat", "must be in its ASCII form"),
        ("ws://h/ü", "non-ASCII"),
        ("ws://h\t", "spaces"), ("ws://h/\u{7F}", "spaces"),
    ])
    func `an invalid URL throws an error that states the reason`(text: String, reason: String) {
        do throws(TransportError) {
            let endpoint = try Endpoint(text)
            Issue.record("\(text) was parsed as \(endpoint)")
        } catch {
            expect(error.code == .invalidURL && error.message.contains(reason), "\(error)")
        }
    }

    @Test func `descriptions and errors contain no secrets`() throws {
        try expectEqual(Endpoint("wss://h/app/key?token=secret").description, "wss://h/app/key")
        do throws(TransportError) {
            _ = try Endpoint("ws://user:secret@h/?token=secret")
        } catch {
            expect(!error.message.contains("secret"))
        }
    }
}

@Suite struct HTTPHeadersTests {
    @Test func `names are compared case-insensitively and keep their spelling`() {
        var headers: HTTPHeaders = ["Content-Type": "a", "X-One": "1"]
        expect(headers["content-type"] == "a" && headers["CONTENT-TYPE"] == "a" && headers["Content-Typ"] == nil)
        expectEqual(headers.map(\.name), ["Content-Type", "X-One"])
        headers["CONTENT-type"] = "b"
        expectEqual(headers.map(\.name), ["X-One", "CONTENT-type"])
        expectEqual(headers["Content-Type"], "b")
    }

    @Test func `only ASCII letters are compared case-insensitively`() {
        let headers: HTTPHeaders = ["A@": "1", "A[": "2", "Ä": "3"]
        expect(headers["a`"] == nil && headers["a{"] == nil && headers["a["] == "2" && headers["ä"] == nil)
    }

    @Test func `fields with the same name keep their order and setting a value replaces all of them`() {
        var headers = HTTPHeaders()
        for value in ["1", "2", "3"] { headers.add("Via", value) }
        expect(headers["via"] == "1" && headers.values("VIA") == ["1", "2", "3"])
        headers["Via"] = "4"
        expectEqual(headers.values("via"), ["4"])
        headers["via"] = nil
        expect(headers.fields.isEmpty && headers["via"] == nil)
    }

    @Test(arguments: [
        ("upgrade", true), ("Upgrade", true), ("keep-alive, Upgrade", true), ("keep-alive ,\tupgrade , x", true), ("", false),
        (",,", false),
        ("upgraded", false), ("not upgrade", false), ("keep-alive", false),
    ])
    func `a token is found in a comma-separated list`(value: String, isFound: Bool) {
        expectEqual(HTTPHeaders(dictionaryLiteral: ("Connection", value)).contains("connection", token: "upgrade"), isFound)
    }

    @Test func `a token is found in any field with that name`() {
        var headers: HTTPHeaders = ["Connection": "close"]
        headers.add("connection", "UPGRADE")
        expect(headers.contains("Connection", token: "upgrade"))
        expect(!headers.contains("Upgrade", token: "upgrade"))
    }

    @Test(arguments: ["me:password@\u{301}example.org", "@\u{301}", "a@b@\u{20DD}c", "@", "me@"])
    func `a description does not contain a user name`(host: String) {
        let endpoint = Endpoint(scheme: "ws", host: host, port: 80)
        expect(!endpoint.description.utf8.contains(UInt8(ascii: "@")) && !endpoint.description.contains("me"))
        expectEqual(endpoint.validationError?.code, .invalidURL)
    }

    @Test(arguments: [
        ("/", "/", ""), ("/a?b=c", "/a", "b=c"), ("/a?", "/a", ""), ("?x", "", "x"), ("/a?b?c", "/a", "b?c"), ("", "", ""),
        ("/%3F?%3F", "/%3F", "%3F"), ("/a?\u{301}b=\u{301}", "/a", "\u{301}b=\u{301}"),
    ])
    func `a target is split at the first question mark`(target: String, path: String, query: String) {
        let head = HTTPRequestHead(method: "GET", target: target)
        expect(head.path == path && head.query == query)
    }
}

@Suite struct EndpointComponentTests {
    static func endpoint(_ target: String) -> Endpoint { Endpoint(scheme: "https", host: "h", port: 443, target: target) }

    @Test(arguments: [
        ("/a/b?c=d", "/a/b", "c=d"), ("/", "/", nil), ("/a?", "/a", ""), ("/a?b?c", "/a", "b?c"), ("a", "/a", nil), ("?b", "/", "b"),
        ("", "/", nil), ("/a#b?c", "/a", nil), ("/a?b#c", "/a", "b"),
    ])
    func `the path and the query are parts of the target`(target: String, path: String, query: String?) {
        let endpoint = Self.endpoint(target)
        expect(endpoint.path == path && endpoint.query == query)
    }

    @Test func `setting the path or the query keeps the other part`() {
        var endpoint = Self.endpoint("/a?b=c")
        endpoint.path = "x/y"
        expectEqual(endpoint.target, "/x/y?b=c")
        endpoint.path = "/x?y#z"
        expectEqual(endpoint.target, "/x%3Fy%23z?b=c")
        endpoint.query = "d#e"
        expectEqual(endpoint.target, "/x%3Fy%23z?d%23e")
        endpoint.query = nil
        expectEqual(endpoint.target, "/x%3Fy%23z")
        endpoint.query = ""
        expectEqual(endpoint.target, "/x%3Fy%23z?")
    }

    @Test func `fields of the query are decoded and encoded`() {
        var endpoint = Self.endpoint("/a?x=%C3%A4&y&x=2&a%20b=c+d")
        expect(endpoint.queryValue("x") == "ä" && endpoint.queryValue("y") == "" && endpoint.queryValue("a b") == "c+d")
        expect(endpoint.queryValue("z") == nil && Self.endpoint("/").queryValue("x") == nil)
        expectNil(Self.endpoint("/a?x=%").queryValue("x"))
        endpoint.query = nil
        endpoint.addQuery("a&b", "c d/ü")
        endpoint.addQuery("e", "")
        expectEqual(endpoint.target, "/a?a%26b=c%20d%2F%C3%BC&e=")
        expect(endpoint.queryValue("a&b") == "c d/ü" && endpoint.queryValue("e") == "")
    }

    /// "é" has two representations in Unicode, which Swift's strings consider equal.
    @Test func `names of query fields are compared by their bytes`() {
        expectEqual(Self.endpoint("/?e%CC%81=1&%C3%A9=2").queryValue("\u{E9}"), "2")
    }

    @Test(arguments: [
        ("/chat", "negotiate", "/chat/negotiate"), ("/chat/", "negotiate", "/chat/negotiate"), ("/chat", "/negotiate", "/chat/negotiate"),
        ("/chat?a=b", "negotiate", "/chat/negotiate?a=b"), ("/", "a/b", "/a/b"), ("", "a", "/a"),
    ])
    func `components are appended to the path`(target: String, components: String, result: String) {
        expectEqual(Self.endpoint(target).appending(path: components).target, result)
    }

    @Test func `the scheme changes between HTTP and WebSocket`() throws {
        for (http, webSocket) in [("http://h:81/a?b", "ws://h:81/a?b"), ("https://h/a", "wss://h/a")] {
            let (http, webSocket) = (try Endpoint(http), try Endpoint(webSocket))
            expect(http.webSocket == webSocket && webSocket.http == http && http.http == http && webSocket.webSocket == webSocket)
        }
    }

    /// RFC 3986 section 5.4, with the base `http://a/b/c/d;p?q`.
    @Test(arguments: [
        ("g", "http://a/b/c/g"), ("./g", "http://a/b/c/g"), ("g/", "http://a/b/c/g/"), ("/g", "http://a/g"), ("//g", "http://g/"),
        ("?y", "http://a/b/c/d;p?y"), ("g?y", "http://a/b/c/g?y"), ("#s", "http://a/b/c/d;p?q"), ("g#s", "http://a/b/c/g"),
        ("g?y#s", "http://a/b/c/g?y"), (";x", "http://a/b/c/;x"), ("g;x", "http://a/b/c/g;x"), ("g;x?y#s", "http://a/b/c/g;x?y"),
        ("", "http://a/b/c/d;p?q"), (".", "http://a/b/c/"), ("./", "http://a/b/c/"), ("..", "http://a/b/"), ("../", "http://a/b/"),
        ("../g", "http://a/b/g"), ("../..", "http://a/"), ("../../", "http://a/"), ("../../g", "http://a/g"), ("../../../g", "http://a/g"),
        ("../../../../g", "http://a/g"), ("/./g", "http://a/g"), ("/../g", "http://a/g"), ("g.", "http://a/b/c/g."),
        (".g", "http://a/b/c/.g"),
        ("g..", "http://a/b/c/g.."), ("..g", "http://a/b/c/..g"), ("./../g", "http://a/b/g"), ("./g/.", "http://a/b/c/g/"),
        ("g/./h", "http://a/b/c/g/h"), ("g/../h", "http://a/b/c/h"), ("g;x=1/./y", "http://a/b/c/g;x=1/y"),
        ("g;x=1/../y", "http://a/b/c/y"),
        ("g?y/./x", "http://a/b/c/g?y/./x"), ("g?y/../x", "http://a/b/c/g?y/../x"), ("g#s/../x", "http://a/b/c/g"),
        ("https://x:81/y/../z?a", "https://x:81/z?a"), ("HTTP://x", "http://x/"), ("//x:81/y", "http://x:81/y"), ("?", "http://a/b/c/d;p?"),
        ("wss://x", "wss://x/"), ("g?u=http://x/", "http://a/b/c/g?u=http://x/"), ("/a//b/", "http://a/a//b/"),
    ])
    func `a reference is resolved`(reference: String, result: String) throws {
        try expectEqual(Endpoint("http://a/b/c/d;p?q").resolving(reference), Endpoint(result))
    }

    @Test(arguments: [
        "ftp://secret", "http:secret", "http://user:secret@h/", "//user:secret@h/", "http://", "//", "http://h:99999/secret", "/secret ",
        "/secret\r\nX: y", "/secretä", "mailto:secret", "g:secret",
    ])
    func `an invalid reference is an error that does not contain it`(reference: String) throws {
        let error = try #require(throws: TransportError.self) { try Endpoint("http://a/b").resolving(reference) }
        expect(error.code == .invalidURL && !error.message.contains("secret"))
    }

    @Test func `descriptions contain neither the query nor a user name`() {
        let endpoint = Endpoint(scheme: "ws", host: "user:secret@h", port: 80, target: "/a?token=secret#secret")
        var dumped = ""
        dump(endpoint, to: &dumped)
        for text in ["\(endpoint)", String(reflecting: endpoint), dumped, endpoint.origin] {
            expect(text.contains("ws://h") && !text.contains("secret"), "\(text)")
        }
    }

    @Test func `the zone of an IPv6 address is not sent`() {
        expectEqual(Endpoint(scheme: "http", host: "fe80::1%eth0", port: 81).origin, "http://[fe80::1]:81")
    }

    @Test(arguments: ["path", "?query", "", "/path#fragment"])
    func `the target that is sent starts with a slash and has no fragment`(target: String) async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let handler = TargetHandler()
        _ = try await network.listener(host: "h", port: 443).start(handler)
        _ = try await network.http.send(HTTPRequest("GET", Self.endpoint(target)))
        expect(["/path", "/?query", "/"].contains(handler.targets.take().first))
    }

    private final class TargetHandler: ListenerHandler {
        let targets = EventRecorder<String>()

        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
            self.targets.record(request.target)
            responder.respond(HTTPResponse(status: 200))
        }

        func upgrade(_ request: HTTPRequestHead) -> UpgradeDecision { .reject(HTTPResponse(status: 404)) }
    }
}
