import RealtimeCore
import Testing

@Suite struct EndpointTests {
    struct Good: Sendable {
        var text, scheme, host: String
        var port: Int
        var target, origin: String
    }

    @Test(arguments: [
        Good(text: "ws://h", scheme: "ws", host: "h", port: 80, target: "/", origin: "ws://h"),
        Good(text: "wss://h", scheme: "wss", host: "h", port: 443, target: "/", origin: "wss://h"),
        Good(text: "http://h", scheme: "http", host: "h", port: 80, target: "/", origin: "http://h"),
        Good(text: "https://h/", scheme: "https", host: "h", port: 443, target: "/", origin: "https://h"),
        Good(
            text: "WSS://Host.Example/Path", scheme: "wss", host: "Host.Example", port: 443, target: "/Path", origin: "wss://Host.Example"),
        Good(text: "ws://h:", scheme: "ws", host: "h", port: 80, target: "/", origin: "ws://h"),
        Good(text: "ws://h:1/a/b?c=d&e", scheme: "ws", host: "h", port: 1, target: "/a/b?c=d&e", origin: "ws://h:1"),
        Good(text: "ws://h:65535", scheme: "ws", host: "h", port: 65535, target: "/", origin: "ws://h:65535"),
        Good(text: "ws://h:0080/", scheme: "ws", host: "h", port: 80, target: "/", origin: "ws://h"),
        Good(text: "ws://h?q=1", scheme: "ws", host: "h", port: 80, target: "/?q=1", origin: "ws://h"),
        Good(text: "ws://h/a#fragment?x", scheme: "ws", host: "h", port: 80, target: "/a", origin: "ws://h"),
        Good(text: "ws://h#fragment", scheme: "ws", host: "h", port: 80, target: "/", origin: "ws://h"),
        Good(text: "ws://[::1]", scheme: "ws", host: "::1", port: 80, target: "/", origin: "ws://[::1]"),
        Good(
            text: "https://[2001:db8::1]:8443/x", scheme: "https", host: "2001:db8::1", port: 8443, target: "/x",
            origin: "https://[2001:db8::1]:8443"),
        Good(
            text: "ws://127.0.0.1:6001/app/key", scheme: "ws", host: "127.0.0.1", port: 6001, target: "/app/key",
            origin: "ws://127.0.0.1:6001"),
        Good(text: "http://h/a?to=ws://other", scheme: "http", host: "h", port: 80, target: "/a?to=ws://other", origin: "http://h"),
        Good(text: "http://h/user@example", scheme: "http", host: "h", port: 80, target: "/user@example", origin: "http://h"),
    ])
    func `an address is read into its parts`(good: Good) throws {
        let endpoint = try Endpoint(good.text)
        #expect(endpoint == Endpoint(scheme: good.scheme, host: good.host, port: good.port, target: good.target))
        #expect(endpoint.origin == good.origin)
        #expect(endpoint.isSecure == (good.scheme == "wss" || good.scheme == "https"))
    }

    @Test(arguments: [
        ("", "no scheme"), ("h", "no scheme"), ("h:80/path", "no scheme"), ("//h", "no scheme"), ("ws:/h", "no scheme"),
        ("ws:", "no scheme"),
        ("ftp://h", "none of"), ("://h", "none of"), (" ws://h", "none of"), ("http+ws://h", "none of"), ("ws\u{0}://h", "none of"),
        ("ws://", "no host"), ("ws:///path", "no host"), ("ws://:80", "no host"), ("ws://?q", "no host"), ("ws://[]", "no host"),
        ("ws://h:0", "port"), ("ws://h:65536", "port"), ("ws://h:99999999999999999999", "port"), ("ws://h:8o", "port"),
        ("ws://h:-1", "port"),
        ("ws://h:+80", "port"), ("ws://h:80:80", "port"), ("ws://::1", "port"), ("ws://[::1]:x", "port"), ("ws://h:80٣", "outside ASCII"),
        ("ws://user@h", "user name"), ("ws://user:secret@h/", "user name"), ("ws://h\\@other", "user name"),
        ("ws://[::1", "bracket"), ("ws://[::1]x", "something other"), ("ws://[::1]80", "something other"),
        ("ws://h/a b", "space"), ("ws://h/\n", "space"), ("ws://h/\r\nHost: x", "space"), ("ws://hö", "outside ASCII"),
        ("ws://h/ü", "outside ASCII"),
        ("ws://h\t", "space"), ("ws://h/\u{7F}", "space"),
    ])
    func `an address that cannot be used is refused with the reason`(text: String, words: String) {
        do throws(TransportError) {
            let endpoint = try Endpoint(text)
            Issue.record("\(text) was read as \(endpoint)")
        } catch {
            #expect(error.code == .invalidURL && error.message.contains(words), "\(error)")
        }
    }

    @Test func `what may be secret is not in its description nor in an error`() throws {
        #expect(try Endpoint("wss://h/app/key?token=secret").description == "wss://h/app/key")
        do throws(TransportError) {
            _ = try Endpoint("ws://user:secret@h/?token=secret")
        } catch {
            #expect(!error.message.contains("secret"))
        }
    }
}

@Suite struct HTTPHeadersTests {
    @Test func `names compare without regard to case and keep their spelling`() {
        var headers: HTTPHeaders = ["Content-Type": "a", "X-One": "1"]
        #expect(headers["content-type"] == "a" && headers["CONTENT-TYPE"] == "a" && headers["Content-Typ"] == nil)
        #expect(headers.map(\.name) == ["Content-Type", "X-One"])
        headers["CONTENT-type"] = "b"
        #expect(headers.map(\.name) == ["X-One", "CONTENT-type"])
        #expect(headers["Content-Type"] == "b")
    }

    @Test func `only letters have case`() {
        let headers: HTTPHeaders = ["A@": "1", "A[": "2", "Ä": "3"]
        #expect(headers["a`"] == nil && headers["a{"] == nil && headers["a["] == "2" && headers["ä"] == nil)
    }

    @Test func `fields of one name keep their order and setting replaces them all`() {
        var headers = HTTPHeaders()
        for value in ["1", "2", "3"] { headers.add("Via", value) }
        #expect(headers["via"] == "1" && headers.values("VIA") == ["1", "2", "3"])
        headers["Via"] = "4"
        #expect(headers.values("via") == ["4"])
        headers["via"] = nil
        #expect(headers.fields.isEmpty && headers["via"] == nil)
    }

    @Test(arguments: [
        ("upgrade", true), ("Upgrade", true), ("keep-alive, Upgrade", true), ("keep-alive ,\tupgrade , x", true), ("", false),
        (",,", false),
        ("upgraded", false), ("not upgrade", false), ("keep-alive", false),
    ])
    func `a token is found in a list`(value: String, isThere: Bool) {
        #expect(HTTPHeaders(dictionaryLiteral: ("Connection", value)).contains("connection", token: "upgrade") == isThere)
    }

    @Test func `a token is found in any field of the name`() {
        var headers: HTTPHeaders = ["Connection": "close"]
        headers.add("connection", "UPGRADE")
        #expect(headers.contains("Connection", token: "upgrade"))
        #expect(!headers.contains("Upgrade", token: "upgrade"))
    }

    @Test(arguments: ["me:password@\u{301}example.org", "@\u{301}", "a@b@\u{20DD}c", "@", "me@"])
    func `a user name is not shown whatever follows it`(host: String) {
        let endpoint = Endpoint(scheme: "ws", host: host, port: 80)
        #expect(!endpoint.description.utf8.contains(UInt8(ascii: "@")) && !endpoint.description.contains("me"))
        #expect(endpoint.problem?.code == .invalidURL)
    }

    @Test(arguments: [
        ("/", "/", ""), ("/a?b=c", "/a", "b=c"), ("/a?", "/a", ""), ("?x", "", "x"), ("/a?b?c", "/a", "b?c"), ("", "", ""),
        ("/%3F?%3F", "/%3F", "%3F"),
    ])
    func `a target is cut at the first question mark`(target: String, path: String, query: String) {
        let head = HTTPRequestHead(method: "GET", target: target)
        #expect(head.path == path && head.query == query)
    }
}
