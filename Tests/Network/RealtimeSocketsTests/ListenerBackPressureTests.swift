import RealtimeCore
import Testing

@testable import RealtimeSockets

/// Answers that are sent piece by piece to a client that does not read them.
@Suite(.timeLimit(.minutes(1)))
struct ListenerBackPressureTests {
    private static let piece = [UInt8](repeating: 0x61, count: 64 << 10)

    /// How long a chunked body of these pieces is: each has its length in hexadecimal and two ends of line.
    private static func bodyCount(_ pieces: Int, more: Int = 0) -> Int { pieces * (Self.piece.count + 9) + more + 5 }

    /// The length of the body of the only answer that came, once the server has ended it.
    private func bodyCount(_ client: RawClient) async -> Int {
        let bytes = await client.recorder.until { $0.ended > 0 }.bytes
        let head = String(decoding: bytes.prefix(1000), as: UTF8.self)
        return bytes.count - 1000 + head.body.utf8.count
    }

    /// A client that reads nothing until it is told to, and the responder of its one request, begun.
    private func withSlowClient(
        limits: ListenerLimits = .forTests, _ body: (RawClient, HTTPServerExchange) async throws -> Void
    ) async throws {
        let responders = Log<any HTTPResponder>()
        try await withListener(TestHandler { _, _, responder in responders.add(responder) }, limits: limits) { address in
            let client = try RawClient(address)
            await client.recorder.opened()
            client.request("/", "Connection: close")
            let responder = try #require(await responders.wait(1).first as? HTTPServerExchange)
            client.stream.pauseReading()
            responder.begin(HTTPResponseHead(status: 200))
            try await body(client, responder)
            client.close()
        }
    }

    /// Sends until that fails, and says what was sent.
    private func sendOn(_ responder: HTTPServerExchange, _ sent: Log<Int>) -> Task<TransportError.Code, Never> {
        Task {
            while true {
                do throws(TransportError) {
                    try await responder.send(Self.piece)
                } catch {
                    return error.code
                }
                sent.add(responder.unsent)
            }
        }
    }

    @Test func `an answer waits for its reader and arrives whole`() async throws {
        try await self.withSlowClient { client, responder in
            let (count, unsent) = (200, Log<Int>())
            let sending = Task {
                for _ in 0..<count {
                    try await responder.send(Self.piece)
                    unsent.add(responder.unsent)
                }
                responder.end()
            }
            // What the system's own buffers took does not matter: at some time the task waits.
            await responder.waited()
            #expect(unsent.entries.count < count)
            client.stream.resumeReading()
            #expect(await self.bodyCount(client) == Self.bodyCount(count))
            try await sending.value
            #expect(unsent.entries.allSatisfy { $0 <= SocketStream.highWater + Self.piece.count + 16 })
        }
    }

    @Test func `when the client goes the wait ends`() async throws {
        try await self.withSlowClient { client, responder in
            let sending = self.sendOn(responder, Log())
            await responder.waited()
            client.close()
            #expect(await sending.value == .closed)
        }
    }

    @Test func `cancelling ends the wait and nothing else`() async throws {
        try await self.withSlowClient { client, responder in
            let sent = Log<Int>()
            let sending = self.sendOn(responder, sent)
            await responder.waited()
            sending.cancel()
            #expect(await sending.value == .cancelled)
            client.stream.resumeReading()
            try await responder.send(Array("the rest".utf8))
            responder.end()
            #expect(await self.bodyCount(client) == Self.bodyCount(sent.entries.count, more: 8 + 5))
        }
    }

    @Test func `a client that reads nothing is cut off while somebody waits though little is unsent`() async throws {
        let limits = ListenerLimits.forTests.with { ($0.stallTime, $0.unsentBytes) = (.milliseconds(30), 1 << 30) }
        try await self.withSlowClient(limits: limits) { _, responder in
            #expect(await self.sendOn(responder, Log()).value == .closed)
        }
    }

    @Test func `stopping the listener ends the wait`() async throws {
        let ended = Log<TransportError.Code>()
        try await self.withSlowClient(limits: .forTests.with { $0.stopTime = .milliseconds(30) }) { _, responder in
            let sending = self.sendOn(responder, Log())
            await responder.waited()
            Task { ended.add(await sending.value) }
        }
        #expect(await ended.wait(1) == [.closed])
    }

    @Test func `several tasks that wait all send`() async throws {
        try await self.withSlowClient { client, responder in
            let sending = (0..<4).map { _ in
                Task { for _ in 0..<60 { try await responder.send(Self.piece) } }
            }
            await responder.waited()
            client.stream.resumeReading()
            for task in sending { try await task.value }
            responder.end()
            #expect(await self.bodyCount(client) == Self.bodyCount(240))
        }
    }

    @Test func `before its beginning and after its end nothing is sent`() async throws {
        let responders = Log<any HTTPResponder>()
        try await withListener(TestHandler { _, _, responder in responders.add(responder) }) { address in
            let client = try RawClient(address)
            client.request("/", "Connection: close")
            let responder = try #require(await responders.wait(1).first)
            let early = await #expect(throws: TransportError.self) { try await responder.send([1]) }
            #expect(early?.code == .unsupported)
            responder.begin(HTTPResponseHead(status: 200))
            try await responder.send(Array("all".utf8))
            responder.end()
            let late = await #expect(throws: TransportError.self) { try await responder.send([1]) }
            #expect(late?.code == .closed)
            #expect(await client.whole().body == "3\r\nall\r\n0\r\n\r\n")
        }
    }

    @Test(arguments: [true, false])
    func `a responder that is kept keeps nothing after the end`(_ isAnswered: Bool) async throws {
        let kept = Log<any HTTPResponder>()
        weak var handler: TestHandler?
        do {
            let answering = TestHandler { _, _, responder in
                if isAnswered { responder.respond(HTTPResponse(status: 200)) }
                kept.add(responder)
            }
            handler = answering
            try await withListener(answering) { address in
                let client = try RawClient(address)
                client.request()
                await kept.wait(1)
                client.close()
            }
        }
        #expect(kept.entries.count == 1)
        #expect(handler == nil)
    }
}

extension HTTPServerExchange {
    /// Returns when a task waits in `send`. It looks again and again, with time for the others in between.
    fileprivate func waited() async {
        while !self.hasWaitingSenders, !Task.isCancelled {
            let pause = Completion()
            EventLoop.shared.schedule(pause, at: EventLoop.shared.now.advanced(by: .milliseconds(1)))
            await pause.wait()
        }
    }
}
