import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// Redirects and cookies of a client's requests.
@Suite struct RedirectingHTTPTests {
    /// Answers by the URL of a request, and records the requests.
    private final class StubHTTP: HTTPTransport {
        let requests = EventRecorder<HTTPRequest>()
        private let answer: @Sendable (HTTPRequest) -> HTTPResponse

        init(_ answer: @escaping @Sendable (HTTPRequest) -> HTTPResponse) {
            self.answer = answer
        }

        func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
            self.requests.record(request)
            return HTTPStreamedResponse(self.answer(request))
        }

        func client(_ clock: ManualClock = ManualClock()) -> RedirectingHTTP {
            var transports = InMemoryNetwork(clock: clock).transports()
            transports.http = self
            return RedirectingHTTP(transports, cookies: RedirectingHTTP.Cookies())
        }
    }

    private static func redirect(_ status: Int, to location: String?) -> HTTPResponse {
        var response = HTTPResponse(status: status, text: "moved")
        response.head.headers["Location"] = location
        return response
    }

    private static func request(_ method: String = "POST", _ url: String = "https://example.com/a/b?c=d") throws -> HTTPRequest {
        let headers: HTTPHeaders = [
            "Authorization": "Bearer token", "Cookie": "own=1", "Content-Type": "application/json", "X-Other": "value",
        ]
        return HTTPRequest(method, try Endpoint(url), headers: headers, body: method == "POST" ? [1, 2] : [], idleTimeout: .seconds(5))
    }

    // MARK: Repetition

    @Test(arguments: [
        ("GET", true), ("HEAD", true), ("OPTIONS", true), ("DELETE", true), ("POST", false), ("PUT", false), ("PATCH", false),
        ("get", false),
    ])
    func `whether a request may be repeated follows its method unless it is set`(_ method: String, _ isRepeatable: Bool) throws {
        var request = HTTPRequest("POST", try Endpoint("https://example.com"))
        expect(!request.isRepeatable)
        request.method = method
        expectEqual(request.isRepeatable, isRepeatable)
        for value in [true, false] {
            request.isRepeatable = value
            request.method = "GET"
            expectEqual(request.isRepeatable, value)
            request.method = "POST"
            expectEqual(request.isRepeatable, value)
        }
    }

    // MARK: Rules

    @Test(arguments: [
        (301, "POST", "GET", false), (302, "POST", "GET", false), (303, "POST", "GET", false), (307, "POST", "POST", true),
        (308, "POST", "POST", true), (301, "GET", "GET", false), (302, "DELETE", "DELETE", false), (303, "DELETE", "GET", false),
        (303, "HEAD", "HEAD", false), (308, "HEAD", "HEAD", false),
    ])
    func `the method follows from the status`(row: (status: Int, method: String, next: String, keepsBody: Bool)) throws {
        let next = try #require(try Self.request(row.method).redirected(by: Self.redirect(row.status, to: "../e?f=g").head))
        expectEqual(next.endpoint, (try Endpoint("https://example.com/e?f=g")))
        expect(next.method == row.next && next.body == (row.keepsBody ? [1, 2] : []))
        expectEqual(next.idleTimeout, .seconds(5))
        let becameGET = row.next == "GET" && (row.method != "GET" || row.status == 303)
        expectEqual((next.headers["Content-Type"] == nil), becameGET)
        expect(next.headers["Authorization"] == "Bearer token" && next.headers["Cookie"] == "own=1" && next.headers["X-Other"] == "value")
    }

    @Test(arguments: [(200, "/x"), (300, "/x"), (304, "/x"), (305, "/x"), (306, "/x"), (309, "/x"), (399, "/x"), (401, "/x"), (302, nil)])
    func `another response isn't a redirect`(status: Int, location: String?) throws {
        try expectNil(Self.request().redirected(by: Self.redirect(status, to: location).head))
    }

    @Test(arguments: ["https://other.example/a", "https://example.com:8443/a", "//sub.example.com/a"])
    func `another origin receives neither credentials nor fields of the application`(location: String) throws {
        let head = Self.redirect(307, to: location).head
        let next = try #require(try Self.request().redirected(by: head))
        expectEqual(next.headers.map(\.name), ["Content-Type"])
        // SignalR decides itself.
        let all = try #require(try Self.request().redirected(by: head, keepsFields: true))
        expectEqual(all.headers.map(\.name), ["Content-Type", "X-Other"])
    }

    @Test(arguments: [
        ("http://example.com/a", "redirects with the status 307 from https to http, to http://example.com/a,"),
        ("ftp://example.com/a", "redirects with the status 307 to an invalid URL."),
        ("https://user:hunter2@example.com/", "to an invalid URL."),
        ("file:///etc/passwd", "to an invalid URL."), ("javascript:alert(1)", "to an invalid URL."),
        ("data:text/html,<b>", "to an invalid URL."),
        ("http://example.com/\(String(repeating: "a", count: 60_000))", "from https to http"),
        ("https://", "to an invalid URL."), ("https:///a", "to an invalid URL."), ("https://example.com:99999/", "to an invalid URL."),
        ("ws://example.com/a", "to ws://example.com/a, which isn't an HTTP URL."), ("https://hunter2@example.com/", "to an invalid URL."),
        ("https://example.com/a b", "to an invalid URL."), ("wss://example.com/a", "to wss://example.com/a, which isn't an HTTP URL."),
    ])
    func `an unsafe or invalid redirect is an error that names no secret`(location: String, text: String) throws {
        let request = try Self.request()
        let error = #expect(throws: TransportError.self) { try request.redirected(by: Self.redirect(307, to: location).head) }
        expect(error?.code == .requestRejected && error?.status == 307)
        expect(error?.message.contains(text) == true && error?.message.hasPrefix("https://example.com/a/b ") == true)
        expect(error?.message.contains("hunter2") == false && error?.message.contains("c=d") == false)
    }

    // MARK: The client

    @Test func `a client follows redirects and returns the last response`() async throws {
        let http = StubHTTP { request in
            switch request.endpoint.path {
            case "/a/b": Self.redirect(307, to: "/next")
            case "/next": Self.redirect(303, to: "last?x=y")
            default: HTTPResponse(status: 201, text: "done")
            }
        }
        let response = try await http.client().send(try Self.request())
        expect(response.head.status == 201 && response.body == Array("done".utf8))
        expectEqual(
            http.requests.all.map { "\($0.method) \($0.endpoint.target) \($0.body.count)" },
            [
                "POST /a/b?c=d 2", "POST /next 2", "GET /last?x=y 0",
            ])
        let last = try await http.client().openFollowingRedirects(try Self.request())
        expectEqual(last.endpoint, (try Endpoint("https://example.com/last?x=y")))
    }

    @Test func `a circle of redirects is an error`() async throws {
        let http = StubHTTP { _ in Self.redirect(307, to: "/again") }
        let request = try Self.request()
        let error = await #expect(throws: TransportError.self) { try await http.client().send(request) }
        expectEqual(error?.message, "https://example.com/again was redirected more than 20 times. Check the server for a loop.")
        expectEqual(http.requests.all.count, 21)
    }

    @Test func `cookies are kept between requests, also those of redirects, and sent to their host only`() async throws {
        let http = StubHTTP { request in
            guard request.endpoint.path == "/a/b" else { return HTTPResponse(status: 200, text: "") }
            var response = Self.redirect(307, to: "https://other.example/")
            response.head.headers.add("Set-Cookie", "affinity=1; Path=/; Max-Age=60")
            return response
        }
        let clock = ManualClock()
        let client = http.client(clock)
        _ = try await client.send(try Self.request())
        let second = HTTPRequest("GET", try Endpoint("https://example.com/second"))
        _ = try await client.send(second)
        clock.advance(by: .seconds(60))
        _ = try await client.send(second)
        expectEqual(http.requests.all.map { $0.headers["Cookie"] }, ["own=1", nil, "affinity=1", nil])
    }
}
