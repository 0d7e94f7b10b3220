import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(5)))
struct ListenerRequestTests {
    @Test func `a request is answered`() async throws {
        let handler = TestHandler()
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send("POST /a?b=c HTTP/1.1\r\nHost: a\r\nX-Name: value\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
            let answer = await client.whole()
            #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\n"))
            #expect(answer.contains("\r\nContent-Length: 17\r\n"))
            #expect(answer.contains("\r\nConnection: close\r\n"))
            #expect(answer.contains("\r\nDate: "))
            #expect(answer.body == "POST /a?b=c hello")
        }
        let request = try #require(handler.requests.withLock { $0.first })
        #expect(request.head.headers["x-name"] == "value")
        #expect(String(request.head.path) == "/a" && String(request.head.query) == "b=c")
    }

    @Test func `a connection is kept for the next request`() async throws {
        try await withListener { address in
            let client = try RawClient(address)
            for number in 1...20 {
                client.request("/\(number)")
                let text = await client.text(until: "GET /\(number) ")
                #expect(!text.contains("Connection:"))
            }
            #expect(client.recorder.seen.ended == 0)
            client.close()
        }
    }

    @Test func `requests that came together are answered in order whoever is faster`() async throws {
        let waiting = Log<any HTTPResponder>()
        let handler = TestHandler { _, _, responder in waiting.add(responder) }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send((1...5).map { "GET /\($0) HTTP/1.1\r\nHost: a\r\n\r\n" }.joined())
            for number in 1...5 {
                let responder = try #require(await waiting.wait(number).last)
                // The next one is not handed over before this one has been answered.
                #expect(waiting.entries.count == number)
                responder.respond(HTTPResponse(status: 200, text: "answer \(number)."))
            }
            let text = await client.text(until: "answer 5.")
            let places = (1...5).map { text.split(separator: "answer \($0).").first?.count ?? 0 }
            #expect(places == places.sorted())
            #expect(handler.requests.withLock { $0.map { $0.head.target } } == ["/1", "/2", "/3", "/4", "/5"])
            client.close()
        }
    }

    @Test func `a thousand requests in one piece are all answered though the client ends its side`() async throws {
        let handler = TestHandler()
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send(
                (1...1000).map { "POST /\($0) HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n\(String(repeating: "b", count: 100))" }
                    .joined())
            client.stream.finishWriting()
            _ = await client.whole()
        }
        #expect(handler.requests.withLock { $0.map { $0.head.target } } == (1...1000).map { "/\($0)" })
    }

    @Test func `requests in small pieces are the same`() async throws {
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
            #expect(text.contains("POST /x abcde") && !text.contains("400"))
            client.close()
        }
    }

    @Test func `the body is asked for with a hundred`() async throws {
        try await withListener { address in
            let client = try RawClient(address)
            client.send("POST /e HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
            #expect(await client.text(until: "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n")
            client.send("body")
            #expect(await client.whole().hasSuffix("POST /e body"))
        }
    }

    @Test func `an answer to HEAD has a length and no body`() async throws {
        try await withListener { address in
            let client = try RawClient(address)
            client.send("HEAD /h HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            let answer = await client.whole()
            #expect(answer.contains("Content-Length: 8\r\n"))
            #expect(answer.hasSuffix("\r\n\r\n"))
        }
    }

    @Test(arguments: [204, 304])
    func `an answer without a body has none`(_ status: Int) async throws {
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
                let answer = await client.whole()
                #expect(answer.status == status)
                #expect(answer.hasSuffix("\r\n\r\n") && !answer.contains("Content-Length") && !answer.contains("chunked"))
            }
        }
    }

    @Test func `a whole address is taken for its path`() async throws {
        try await withListener { address in
            let client = try RawClient(address)
            client.request("http://example.com/path?q")
            await client.text(until: "GET /path?q ")
            client.request("HTTP://example.com")
            await client.text(until: "GET / ")
            client.request("http://example.com?q=/")
            await client.text(until: "GET /?q=/ ")
            #expect(client.recorder.seen.ended == 0)
            client.close()
        }
    }

    @Test func `the date is written as the rule says`() {
        #expect(HTTPDate.text(784_111_777) == "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(HTTPDate.text(0) == "Thu, 01 Jan 1970 00:00:00 GMT")
    }
}
