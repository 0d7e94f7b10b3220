import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite struct ProxyConfigurationTests {
    private typealias Credentials = ProxyConfiguration.Credentials

    private static func proxy(
        _ configuration: ProxyConfiguration, _ url: String = "wss://server.test", _ environment: [String: String] = [:]
    ) throws(TransportError) -> ProxyServer? {
        try ProxyRules(configuration) { environment[$0] }.proxy(for: try Endpoint(url))
    }

    private static func server(
        _ kind: ProxyServer.Kind, _ host: String, _ port: Int, _ credentials: Credentials? = nil
    ) -> ProxyServer { ProxyServer(kind: kind, host: host, port: port, credentials: credentials) }

    // MARK: URLs

    @Test(
        arguments: [
            ("http://proxy.test:3128", server(.http, "proxy.test", 3128)),
            ("HTTP://proxy.test", server(.http, "proxy.test", 80)),
            ("proxy.test:8080", server(.http, "proxy.test", 8080)),
            ("proxy", server(.http, "proxy", 80)),
            ("http://proxy.test:3128/", server(.http, "proxy.test", 3128)),
            ("socks5://proxy1", server(.socks5, "proxy1", 1080)),
            ("socks5://10.0.0.1", server(.socks5, "10.0.0.1", 1080)),
            ("socks5://10.0.0.1:80", server(.socks5, "10.0.0.1", 80)),
            ("socks5h://[::1]", server(.socks5, "::1", 1080)),
            ("socks5://[::1]:9", server(.socks5, "::1", 9)),
            ("http://user:p%40ss:w%2Frd@proxy.test:1", server(.http, "proxy.test", 1, .init(username: "user", password: "p@ss:w/rd"))),
            ("user@proxy.test:1", server(.http, "proxy.test", 1, .init(username: "user", password: ""))),
            ("socks5://us%C3%BC:x@h:1", server(.socks5, "h", 1, .init(username: "usü", password: "x"))),
        ])
    func `a URL has a kind, a host, a port and credentials`(url: String, expected: ProxyServer) throws {
        try expectEqual(Self.proxy(ProxyConfiguration(url)), expected)
    }

    @Test(
        arguments: [
            "", "http://", "ftp://proxy.test", "http://proxy.test:0", "http://proxy.test:65536", "http://proxy.test:x", "http://a b:1",
            "http://hunter2:%ZZ@proxy.test", "http://hunter2%3Ax:y@proxy.test", "http://user:hunter2%0Ax@proxy.test", "http://[::1:80",
            "socks5://:hunter2@proxy.test", "socks5://user:\(String(repeating: "hunter2", count: 40))@proxy.test", "http://ü.test",
        ])
    func `an invalid URL is an error that does not repeat the URL`(url: String) {
        let error = #expect(throws: TransportError.self) { try ProxyConfiguration(url) }
        expect(error?.code == .invalidURL && error?.message.hasPrefix("Invalid proxy: ") == true, "\(url)")
        expectEqual(error?.message.contains("hunter2"), false)
    }

    @Test(arguments: ["https://user:hunter2@proxy.test", "socks4://proxy.test"])
    func `other kinds of proxies are unsupported`(url: String) {
        let error = #expect(throws: TransportError.self) { try ProxyConfiguration(url) }
        expect(error?.code == .unsupported && error?.message.contains("hunter2") == false)
    }

    @Test(
        arguments: [
            ProxyConfiguration.http(host: "", port: 1), .http(host: "hunter2@proxy.test", port: 1), .http(host: "proxy.test", port: 0),
            .socks5(host: "proxy.test", port: 65536), .http(host: "a", port: 1, credentials: .init(username: "a:b", password: "hunter2")),
            .http(host: "a", port: 1, credentials: .init(username: "a", password: "hunter2\n")),
            .socks5(host: "a", credentials: .init(username: "", password: "hunter2")),
            .socks5(host: "a", credentials: .init(username: "a", password: String(repeating: "x", count: 256))),
        ])
    func `an invalid proxy is an error when it is used`(configuration: ProxyConfiguration) throws {
        let error = #expect(throws: TransportError.self) { try Self.proxy(configuration) }
        expect(error?.code == .invalidURL && error?.message.contains("hunter2") == false)
        var excepted = configuration
        excepted.exceptions = ["server.test"]
        try expectNil(Self.proxy(excepted))
    }

    @Test func `without a proxy, connections are direct`() throws {
        try expectNil(Self.proxy(.none, "http://server.test", ["http_proxy": "p:1", "ALL_PROXY": "p:1"]))
    }

    // MARK: Environment

    @Test(
        arguments: [
            ("wss://s", ["HTTPS_PROXY": "p:1"], "p"), ("https://s", ["HTTPS_PROXY": "p:1"], "p"), ("ws://s", ["HTTPS_PROXY": "p:1"], nil),
            ("ws://s", ["HTTP_PROXY": "p:1"], "p"), ("http://s", ["http_proxy": "p:1"], "p"), ("wss://s", ["HTTP_PROXY": "p:1"], nil),
            ("wss://s", ["HTTPS_PROXY": "upper:1", "https_proxy": "lower:1"], "lower"),
            ("ws://s", ["HTTP_PROXY": "upper:1", "http_proxy": "lower:1"], "lower"),
            ("wss://s", ["ALL_PROXY": "all:1"], "all"), ("ws://s", ["ALL_PROXY": "upper:1", "all_proxy": "lower:1"], "lower"),
            ("wss://s", ["ALL_PROXY": "all:1", "HTTPS_PROXY": "p:1"], "p"),
            ("wss://s", ["all_proxy": "all:1", "HTTPS_PROXY": "p:1"], "p"),
            ("wss://s", ["all_proxy": "all:1", "https_proxy": ""], "all"),
            // The header field "Proxy" of a request to a CGI program.
            ("ws://s", ["HTTP_PROXY": "p:1", "REQUEST_METHOD": "GET"], nil),
            ("ws://s", ["http_proxy": "p:1", "REQUEST_METHOD": "GET"], "p"),
            ("wss://s", ["HTTPS_PROXY": "p:1", "NO_PROXY": "s"], nil), ("wss://s", ["HTTPS_PROXY": "p:1", "no_proxy": "a,s"], nil),
            ("wss://s", ["HTTPS_PROXY": "p:1", "NO_PROXY": "s", "no_proxy": "a"], "p"),
            ("wss://s", ["HTTPS_PROXY": "p:1", "NO_PROXY": "*"], nil), ("wss://s", [:], nil),
            ("wss://localhost", ["HTTPS_PROXY": "p:1"], "p"),
        ] as [(String, [String: String], String?)])
    func `the variables of the environment determine the proxy`(url: String, environment: [String: String], host: String?) throws {
        try expectEqual(Self.proxy(.environment, url, environment)?.host, host)
    }

    @Test func `an invalid variable is an error that names it, unless the host is an exception`() throws {
        let environment = ["HTTPS_PROXY": "http://user:hunter2@", "NO_PROXY": "free.test"]
        let error = #expect(throws: TransportError.self) { try Self.proxy(.environment, "https://server.test", environment) }
        expect(error?.code == .invalidURL && error?.message.hasPrefix("The environment variable HTTPS_PROXY: Invalid proxy: ") == true)
        expectEqual(error?.message.contains("hunter2"), false)
        try expectNil(Self.proxy(.environment, "https://free.test", environment))
        try expectNil(Self.proxy(.environment, "http://server.test", environment))
    }

    @Test func `own exceptions are added to those of the environment`() throws {
        var configuration = ProxyConfiguration.environment
        configuration.exceptions = ["one.test"]
        let environment = ["ALL_PROXY": "socks5://p", "NO_PROXY": "two.test"]
        let hosts = try ["one", "two", "three"].filter { try Self.proxy(configuration, "ws://\($0).test", environment) == nil }
        expectEqual(hosts, ["one", "two"])
    }

    // MARK: Exceptions

    @Test(
        arguments: [
            (
                "example.com", ["example.com", "EXAMPLE.com", "www.example.com", "a.b.example.com", "example.com."],
                ["myexample.com", "com"]
            ),
            (".example.com", ["example.com", "www.example.com"], ["example.com.org"]),
            ("*.Example.com", ["example.com", "www.example.com"], ["myexample.com"]),
            ("example.com.", ["example.com"], ["example.org"]),
            ("*", ["example.com", "10.0.0.1", "[::1]"], []),
            ("10.0.0.1", ["10.0.0.1"], ["10.0.0.10", "110.0.0.1"]),
            ("10.0.0.0/8", ["10.0.0.1", "10.255.1.2"], ["11.0.0.1", "[a00::1]", "ten.test"]),
            ("192.168.64.0/18", ["192.168.64.1", "192.168.127.255"], ["192.168.128.0", "192.168.63.255"]),
            ("0.0.0.0/0", ["1.2.3.4"], ["[::1]", "a"]),
            ("::1", ["[::1]", "[0:0::1]"], ["[::2]", "127.0.0.1"]), ("[::1]", ["[::1]"], ["[::2]"]),
            ("fd00::/8", ["[fd12::1]"], ["[fe00::1]"]),
            ("10.0.0.0/33", [], ["10.0.0.0"]), ("10.0.0.0/", [], ["10.0.0.0"]), ("10.0.0.0/-1", [], ["10.0.0.0"]),
            ("", [], ["a", "10.0.0.1"]), (".", [], ["a"]),
        ] as [(String, [String], [String])])
    func `an exception stands for a domain, an address or a network`(exception: String, matching: [String], others: [String]) throws {
        var configuration = ProxyConfiguration.http(host: "p", port: 1)
        configuration.exceptions = ["unrelated.test", exception]
        for host in matching { try expectNil(Self.proxy(configuration, "ws://\(host):7"), "\(host)") }
        for host in others { try expect(Self.proxy(configuration, "ws://\(host):7") != nil, "\(host)") }
    }

    // MARK: Text

    @Test(
        arguments: [
            (.http, "proxy.test", 80, "http://proxy.test"), (.http, "proxy.test", 1080, "http://proxy.test:1080"),
            (.http, "proxy.test", 443, "http://proxy.test:443"), (.http, "::1", 3128, "http://[::1]:3128"),
            (.http, "::1", 80, "http://[::1]"),
            (.socks5, "proxy.test", 1080, "socks5://proxy.test"), (.socks5, "proxy.test", 80, "socks5://proxy.test:80"),
            (.socks5, "fe80::1%eth0", 80, "socks5://[fe80::1]:80"), (.socks5, "::1", 1080, "socks5://[::1]"),
        ] as [(ProxyServer.Kind, String, Int, String)])
    func `the name of a proxy has the port unless it is that of its kind`(
        kind: ProxyServer.Kind, host: String, port: Int, name: String
    ) throws {
        let proxy = ProxyServer(kind: kind, host: host, port: port, credentials: .init(username: "anna", password: "hunter2"))
        expectEqual(proxy.name, name)
        if !host.contains("%") { try expectEqual(ProxyServer(url: name).port, port) }
    }

    @Test func `the text of a configuration names the proxy without its credentials`() throws {
        var configuration = try ProxyConfiguration("socks5://anna:hunter2@[::1]:1081")
        configuration.exceptions = ["localhost"]
        expectEqual(
            "\(configuration)", #"ProxyConfiguration(proxy: "socks5://[::1]:1081", credentials: <redacted>, exceptions: ["localhost"])"#)
        expectEqual("\(Credentials(username: "anna", password: "hunter2"))", "Credentials(username: <redacted>, password: <redacted>)")
        expect("\(ProxyConfiguration.environment)".contains(#"proxy: "environment", credentials: nil"#))
        expect("\(ProxyConfiguration.none)".contains(#"proxy: "none""#))
    }
}
