import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct ListenerRequestTests {
    @Test func `a request receives a response`() async throws {
        let handler = TestHandler()
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send("POST /a?b=c HTTP/1.1\r\nHost: a\r\nX-Name: value\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
            let response = await client.textToEnd()
            expect(response.hasPrefix("HTTP/1.1 200 OK\r\n"))
            expect(response.contains("\r\nContent-Length: 17\r\n"))
            expect(response.contains("\r\nConnection: close\r\n"))
            expect(response.contains("\r\nDate: "))
            expectEqual(response.body, "POST /a?b=c hello")
        }
        let request = try #require(handler.requests.withLock { $0.first })
        expectEqual(request.head.headers["x-name"], "value")
        expect(String(request.head.path) == "/a" && String(request.head.query) == "b=c")
    }

    @Test func `a connection is kept alive for the next request`() async throws {
        try await withListener { address in
            let client = try RawClient(address)
            for number in 1...20 {
                client.request("/\(number)")
                let text = await client.text(until: "GET /\(number) ")
                expect(!text.contains("Connection:"))
            }
            expectEqual(client.recorder.seen.ended, 0)
            client.close()
        }
    }

    @Test func `pipelined requests receive their responses in order`() async throws {
        let waiting = Log<any HTTPResponder>()
        let handler = TestHandler { _, _, responder in waiting.add(responder) }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send((1...5).map { "GET /\($0) HTTP/1.1\r\nHost: a\r\n\r\n" }.joined())
            for number in 1...5 {
                let responder = try #require(await waiting.wait(number).last)
                // A request is delivered only after the response to the previous one.
                expectEqual(waiting.entries.count, number)
                responder.respond(HTTPResponse(status: 200, text: "response \(number)."))
            }
            let text = await client.text(until: "response 5.")
            let offsets = (1...5).map { text.split(separator: "response \($0).").first?.count ?? 0 }
            expectEqual(offsets, offsets.sorted())
            expectEqual(handler.requests.withLock { $0.map { $0.head.target } }, ["/1", "/2", "/3", "/4", "/5"])
            client.close()
        }
    }

    @Test func `a thousand pipelined requests are all handled after the client closes its side`() async throws {
        let handler = TestHandler()
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send(
                (1...1000).map { "POST /\($0) HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n\(String(repeating: "b", count: 100))" }
                    .joined())
            client.stream.finishWriting()
            _ = await client.textToEnd()
        }
        expectEqual(handler.requests.withLock { $0.map { $0.head.target } }, (1...1000).map { "/\($0)" })
    }

    @Test func `requests that arrive in small pieces are handled correctly`() async throws {
        let handler = TestHandler()
        try await withListener(handler) { address in
            let client = try RawClient(address)
            let rest = " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n"
            await client.recorder.opened()
            for byte in "POST /x\(rest)POST /y\(rest)".utf8 {
                client.stream.send([byte])
                await EventLoop.shared.turn()
            }
            let text = await client.text(until: "POST /y abcde")
            expect(text.contains("POST /x abcde") && !text.contains("400"))
            client.close()
        }
    }

    @Test func `a request that expects 100 Continue receives it`() async throws {
        try await withListener { address in
            let client = try RawClient(address)
            client.send("POST /e HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
            await expectEqual(client.text(until: "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n")
            client.send("body")
            await expect(client.textToEnd().hasSuffix("POST /e body"))
        }
    }

    @Test func `the response to HEAD has a length and no body`() async throws {
        try await withListener { address in
            let client = try RawClient(address)
            client.send("HEAD /h HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            let response = await client.textToEnd()
            expect(response.contains("Content-Length: 8\r\n"))
            expect(response.hasSuffix("\r\n\r\n"))
        }
    }

    @Test(arguments: [204, 304])
    func `a bodiless status is sent without a body`(_ status: Int) async throws {
        let handler = TestHandler { head, _, responder in
            if head.target == "/whole" { return responder.respond(HTTPResponse(status: status, text: "never seen")) }
            responder.begin(HTTPResponseHead(status: status))
            responder.write(Array("never seen".utf8))
            responder.end()
        }
        try await withListener(handler) { address in
            for target in ["/whole", "/pieces"] {
                let client = try RawClient(address)
                client.request(target, "Connection: close")
                let response = await client.textToEnd()
                expectEqual(response.status, status)
                expect(response.hasSuffix("\r\n\r\n") && !response.contains("Content-Length") && !response.contains("chunked"))
            }
        }
    }

    @Test func `an absolute target is reduced to its path`() async throws {
        try await withListener { address in
            let client = try RawClient(address)
            client.request("http://example.com/path?q")
            await client.text(until: "GET /path?q ")
            client.request("HTTP://example.com")
            await client.text(until: "GET / ")
            client.request("http://example.com?q=/")
            await client.text(until: "GET /?q=/ ")
            expectEqual(client.recorder.seen.ended, 0)
            client.close()
        }
    }

    @Test func `the Date field has the IMF-fixdate format`() {
        expectEqual(HTTPDate.text(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT")
        expectEqual(HTTPDate.text(0), "Thu, 01 Jan 1970 00:00:00 GMT")
    }

    @Test(arguments: [
        ("GET", "http://other:81/a?b=c", "/a?b=c", "other:81"), ("GET", "HTTP://other", "/", "other"),
        ("GET", "http://other?b=c", "/?b=c", "other"), ("GET", "https://[::1]:81", "/", "[::1]:81"),
        ("OPTIONS", "http://other", "*", "other"), ("OPTIONS", "http://other/", "/", "other"), ("OPTIONS", "*", "*", "a"),
        ("GET", "/a//b", "/a//b", "a"),
    ])
    func `an absolute request target takes precedence over the Host field`(
        method: String, target: String, path: String, host: String
    ) async throws {
        let handler = TestHandler()
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send("\(method) \(target) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            await expectEqual(client.textToEnd().status, 200)
        }
        let request = try #require(handler.requests.withLock { $0.first?.head })
        expect(request.target == path && request.headers.values("Host") == [host])
    }

    @Test(arguments: [
        "path", "?query", "a:80", "http:/a/path", "http:///path", "http://?query", "http://user@a/", "http://a b/", "http://a:x/",
        "ftp://a/", "*", "/path#fragment", "http://a/path#fragment",
    ])
    func `an invalid request target receives status 400`(_ target: String) async throws {
        let handler = TestHandler()
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send("GET \(target) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            await expectEqual(client.textToEnd().status, 400)
        }
        expect(handler.requests.withLock { $0.isEmpty })
    }
}
