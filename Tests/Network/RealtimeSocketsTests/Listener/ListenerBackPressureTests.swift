import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

/// Responses that are streamed to a client that does not read them.
@Suite(.timeLimit(.minutes(10)))
struct ListenerBackPressureTests {
    private static let piece = [UInt8](repeating: 0x61, count: 64 << 10)

    /// Returns the size of a chunked body: each piece is framed by its length in hexadecimal and two line breaks.
    private static func bodyCount(_ pieces: Int, more: Int = 0) -> Int { pieces * (Self.piece.count + 9) + more + 5 }

    /// Returns the size of the response's body after the server has closed the connection.
    private func bodyCount(_ client: RawClient) async -> Int {
        let bytes = await client.recorder.until { $0.ended > 0 }.bytes
        let head = String(decoding: bytes.prefix(1000), as: UTF8.self)
        return bytes.count - 1000 + head.body.utf8.count
    }

    /// Runs `body` with a client that has paused reading, and the responder of its request, which has sent the head.
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

    /// Sends until that fails, logs the unsent bytes after each piece, and returns the code of the error.
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

    @Test(arguments: [1 << 20, 32 << 10])
    func `a response waits for its reader, at a low limit earlier, and arrives in full`(_ limit: Int) async throws {
        try await self.withSlowClient(limits: .forTests.with { $0.responseBacklogBytes = limit }) { client, responder in
            let (count, unsent) = (200, Log<Int>())
            let sending = Task {
                for _ in 0..<count {
                    try await responder.send(Self.piece)
                    unsent.add(responder.unsent)
                }
                responder.end()
            }
            // However much the system's buffers take, the task eventually waits.
            await responder.untilSenderWaits()
            expect(unsent.entries.count < count)
            client.stream.resumeReading()
            await expectEqual(self.bodyCount(client), Self.bodyCount(count))
            try await sending.value
            expect(unsent.entries.allSatisfy { $0 <= min(SocketStream.highWater, limit) + Self.piece.count + 16 })
        }
    }

    @Test func `a server learns when too much of a response waits and when all of it was sent`() async throws {
        let changes = Log<Bool>()
        try await self.withSlowClient { client, responder in
            responder.onWriting { changes.add($0) }
            // Unlike `send`, `write` doesn't wait before the limit is exceeded. The system's buffers take some of it first.
            var count = 0
            while changes.entries.isEmpty, !Task.isCancelled {
                responder.write(Self.piece)
                count += 1
                await pauseOfLoop()
            }
            expectEqual(changes.entries, [true])
            client.stream.resumeReading()
            await expectEqual(changes.wait(2), [true, false])
            responder.end()
            await expectEqual(self.bodyCount(client), Self.bodyCount(count))
        }
    }

    @Test func `a response over the limit ends, and its server learns about it once`() async throws {
        let disconnects = Log<Bool>()
        let limits = ListenerLimits.forTests.with { $0.responseBacklogBytes = 1 << 20 }
        try await self.withSlowClient(limits: limits) { client, responder in
            responder.onDisconnect { disconnects.add(true) }
            // The system's buffers take some of it first.
            var largest = 0
            while disconnects.entries.isEmpty, !Task.isCancelled {
                responder.write(Self.piece)
                largest = max(largest, responder.unsent)
                if largest > 1 << 20 { await pauseOfLoop() }
            }
            expect(largest <= 1 << 20 + Self.piece.count + 16)
            client.stream.resumeReading()
            // The response is incomplete, which the client can see.
            let received = await client.recorder.until { $0.ended > 0 }.bytes
            expect(!received.suffix(5).elementsEqual("0\r\n\r\n".utf8))
            expectEqual(disconnects.entries, [true])
        }
    }

    @Test func `a client that disconnects ends the wait`() async throws {
        try await self.withSlowClient { client, responder in
            let sending = self.sendOn(responder, Log())
            await responder.untilSenderWaits()
            client.close()
            await expectEqual(sending.value, .closed)
        }
    }

    @Test func `cancelling the task ends only its wait`() async throws {
        try await self.withSlowClient { client, responder in
            let sent = Log<Int>()
            let sending = self.sendOn(responder, sent)
            await responder.untilSenderWaits()
            sending.cancel()
            await expectEqual(sending.value, .cancelled)
            client.stream.resumeReading()
            try await responder.send(Array("the rest".utf8))
            responder.end()
            await expectEqual(self.bodyCount(client), Self.bodyCount(sent.entries.count, more: 8 + 5))
        }
    }

    @Test func `a client that reads nothing is dropped while a task waits even if little is unsent`() async throws {
        let limits = ListenerLimits.forTests.with { ($0.stallTimeout, $0.responseBacklogBytes) = (.milliseconds(30), 1 << 30) }
        try await self.withSlowClient(limits: limits) { _, responder in
            await expectEqual(self.sendOn(responder, Log()).value, .closed)
        }
    }

    @Test func `stopping the listener ends the wait`() async throws {
        let ended = Log<TransportError.Code>()
        try await self.withSlowClient(limits: .forTests.with { $0.shutdownTimeout = .milliseconds(30) }) { _, responder in
            let sending = self.sendOn(responder, Log())
            await responder.untilSenderWaits()
            Task { ended.add(await sending.value) }
        }
        await expectEqual(ended.wait(1), [.closed])
    }

    @Test func `several tasks can wait to send parts of a response`() async throws {
        try await self.withSlowClient { client, responder in
            let sending = (0..<4).map { _ in
                Task { for _ in 0..<60 { try await responder.send(Self.piece) } }
            }
            await responder.untilSenderWaits()
            client.stream.resumeReading()
            for task in sending { try await task.value }
            responder.end()
            await expectEqual(self.bodyCount(client), Self.bodyCount(240))
        }
    }

    @Test func `sending before the head or after the end fails`() async throws {
        let responders = Log<any HTTPResponder>()
        try await withListener(TestHandler { _, _, responder in responders.add(responder) }) { address in
            let client = try RawClient(address)
            client.request("/", "Connection: close")
            let responder = try #require(await responders.wait(1).first)
            let early = await #expect(throws: TransportError.self) { try await responder.send([1]) }
            expectEqual(early?.code, .unsupported)
            responder.begin(HTTPResponseHead(status: 200))
            try await responder.send(Array("all".utf8))
            responder.end()
            let late = await #expect(throws: TransportError.self) { try await responder.send([1]) }
            expectEqual(late?.code, .closed)
            await expectEqual(client.textToEnd().body, "3\r\nall\r\n0\r\n\r\n")
        }
    }

    @Test(arguments: [true, false])
    func `a responder does not retain the listener's handler after the response`(_ hasResponse: Bool) async throws {
        let kept = Log<any HTTPResponder>()
        weak var handler: TestHandler?
        do {
            let retained = TestHandler { _, _, responder in
                if hasResponse { responder.respond(HTTPResponse(status: 200)) }
                kept.add(responder)
            }
            handler = retained
            try await withListener(retained) { address in
                let client = try RawClient(address)
                client.request()
                await kept.wait(1)
                client.close()
            }
        }
        expectEqual(kept.entries.count, 1)
        expectNil(handler)
    }
}

extension HTTPServerExchange {
    /// Polls until a task waits in `send`.
    fileprivate func untilSenderWaits() async {
        while !self.hasWaitingSenders, !Task.isCancelled { await pauseOfLoop() }
    }
}

/// Waits for the loop's timer, for one millisecond.
private func pauseOfLoop() async {
    let pause = Signal()
    EventLoop.shared.schedule(pause, at: EventLoop.shared.now.advanced(by: .milliseconds(1)))
    await pause.wait()
}
