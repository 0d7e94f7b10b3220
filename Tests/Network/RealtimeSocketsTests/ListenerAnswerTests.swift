import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

@Suite(.usesSockets, .timeLimit(.minutes(5)))
struct ListenerAnswerTests {
    @Test func `a streamed answer comes piece by piece`() async throws {
        let streams = Log<any HTTPResponder>()
        let handler = TestHandler { _, _, responder in streams.add(responder) }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.request()
            let responder = try #require(await streams.wait(1).first)
            responder.begin(HTTPResponseHead(status: 200, headers: ["Content-Type": "text/event-stream", "Content-Length": "3"]))
            let head = await client.text(until: "\r\n\r\n")
            #expect(head.contains("Transfer-Encoding: chunked\r\n") && !head.contains("Content-Length"))
            for number in 1...3 {
                responder.write(Array("event \(number)".utf8))
                await client.text(until: "7\r\nevent \(number)\r\n")
            }
            responder.write([])
            responder.end()
            await client.text(until: "\r\n0\r\n\r\n")
            // The connection is kept.
            client.request("/again")
            await streams.wait(2).last?.respond(HTTPResponse(status: 200, text: "second"))
            await client.text(until: "second")
            client.close()
        }
    }

    @Test func `to an old client the end of a streamed answer is the end of the connection`() async throws {
        let handler = TestHandler { _, _, responder in
            responder.begin(HTTPResponseHead(status: 200))
            responder.write(Array("one".utf8))
            responder.write(Array("two".utf8))
            responder.end()
        }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            let answer = await client.whole()
            #expect(answer.body == "onetwo")
            #expect(answer.contains("Connection: close\r\n") && !answer.contains("chunked"))
        }
    }

    @Test func `an old client may keep its connection`() async throws {
        try await withListener { address in
            let client = try RawClient(address)
            client.send("GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            #expect(await client.text(until: "GET /1 ").contains("Connection: keep-alive\r\n"))
            client.send("GET /2 HTTP/1.0\r\n\r\n")
            #expect(await client.whole().contains("GET /2 "))
        }
    }

    @Test func `only the first answer counts`() async throws {
        let handler = TestHandler { _, _, responder in
            responder.write(Array("too early".utf8))
            responder.end()
            responder.respond(HTTPResponse(status: 200, text: "first"))
            responder.respond(HTTPResponse(status: 201, text: "second"))
            responder.begin(HTTPResponseHead(status: 202))
            responder.write(Array("third".utf8))
            responder.end()
        }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.request("/", "Connection: close")
            let answer = await client.whole()
            #expect(answer.status == 200 && answer.body == "first")
        }
    }

    @Test func `pieces from many threads stay whole`() async throws {
        let handler = TestHandler { _, _, responder in
            responder.begin(HTTPResponseHead(status: 200))
            Task {
                await withTaskGroup(of: Void.self) { group in
                    for lane in 0..<8 {
                        group.addTask {
                            for _ in 0..<100 { responder.write([UInt8](repeating: UInt8(ascii: "a") + UInt8(lane), count: 10)) }
                        }
                    }
                }
                responder.end()
            }
        }
        try await withListener(handler) { address in
            let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port)
            let body = try await SocketHTTPTransport().send(.get(endpoint)).body
            #expect(body.count == 8000)
            for start in stride(from: 0, to: body.count, by: 10) { #expect(Set(body[start..<start + 10]).count == 1) }
        }
    }

    static let unusable: [HTTPResponse] = [
        HTTPResponse(status: 200, headers: ["X": "a\r\nSet-Cookie: evil=1"], text: "never sent"),
        HTTPResponse(status: 200, headers: ["X\r\nEvil": "a"], text: "never sent"),
        HTTPResponse(HTTPResponseHead(status: 200, reason: "OK\r\nEvil: 1"), body: Array("never sent".utf8)),
        HTTPResponse(status: 500, headers: ["Evil": "\0"], text: "never sent"),
        HTTPResponse(status: 42, text: "never sent"),
        HTTPResponse(status: 100, text: "never sent"),
        HTTPResponse(status: 101, text: "never sent"),
    ]

    @Test(arguments: Self.unusable.indices, [true, false])
    func `an answer that would be read as something else becomes 500`(_ index: Int, _ isStreamed: Bool) async throws {
        let handler = TestHandler { _, _, responder in
            let answer = Self.unusable[index]
            guard isStreamed else { return responder.respond(answer) }
            responder.begin(answer.head)
            responder.write(answer.body)
            responder.end()
        }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.request("/", "Connection: close")
            let answer = await client.whole()
            #expect(answer.status == 500)
            #expect(!answer.contains("vil") && !answer.contains("never sent"))
        }
    }

    @Test(arguments: [true, false])
    func `the handler hears that the client has gone`(_ isStreamed: Bool) async throws {
        let gone = Log<Bool>()
        let streams = Log<any HTTPResponder>()
        let handler = TestHandler { _, _, responder in
            responder.onDisconnect { gone.add(true) }
            if isStreamed { responder.begin(HTTPResponseHead(status: 200)) }
            streams.add(responder)
        }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.request()
            let responder = try #require(await streams.wait(1).first)
            client.close()
            await gone.wait(1)
            // From here on it is called at once, and answers go nowhere.
            let late = Log<Bool>()
            responder.onDisconnect { late.add(true) }
            #expect(late.entries.count == 1)
            responder.respond(HTTPResponse(status: 200))
            responder.write([1])
            responder.end()
        }
        #expect(gone.entries.count == 1)
    }

    @Test func `after the end of the answer nobody is called`() async throws {
        let gone = Log<Bool>()
        let handler = TestHandler { _, _, responder in
            responder.onDisconnect { gone.add(true) }
            responder.respond(HTTPResponse(status: 200, text: "done"))
            responder.onDisconnect { gone.add(true) }
        }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.request()
            await client.text(until: "done")
            client.close()
        }
        #expect(gone.entries.isEmpty)
    }

    @Test func `a client that only ended its side still gets its answer`() async throws {
        let gone = Log<Bool>()
        let handler = TestHandler { _, _, responder in
            responder.onDisconnect {
                gone.add(true)
                responder.respond(HTTPResponse(status: 200, text: "still here"))
            }
        }
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.request()
            client.stream.finishWriting()
            #expect(await client.whole().body == "still here")
        }
        #expect(gone.entries.count == 1)
    }

    @Test func `a client that ended its side is not waited for without end`() async throws {
        let handler = TestHandler { _, _, _ in }
        try await withListener(handler, limits: .forTests.with { $0.idleTime = .milliseconds(30) }) { address in
            let client = try RawClient(address)
            client.request()
            client.stream.finishWriting()
            #expect(await client.whole().isEmpty)
        }
    }

    @Test func `a responder may be forgotten`() async throws {
        let handler = TestHandler { _, _, _ in }
        try await withListener(handler, limits: .forTests.with { $0.stopTime = .milliseconds(30) }) { address in
            let client = try RawClient(address)
            client.request()
        }
    }
}
