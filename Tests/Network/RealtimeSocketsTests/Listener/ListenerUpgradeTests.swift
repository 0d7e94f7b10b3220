import RealtimeCore
import RealtimeSystem
import TestSupport
import Testing

@testable import RealtimeSockets

/// Upgrades about which a handler decides later, and the header fields of accepted ones.
@Suite(.usesSockets, .timeLimit(.minutes(10)))
struct ListenerUpgradeTests {
    static let upgrade = ListenerWebSocketTests.upgrade

    private static func frame(_ text: String) -> [UInt8] { [0x81, 0x80 | UInt8(text.utf8.count), 0, 0, 0, 0] + Array(text.utf8) }

    /// The acceptor of a decision that comes too late.
    private struct LateAcceptor: UpgradeAcceptor {
        let log: Log<String>

        func connected(_ connection: any MessageConnection, id: ConnectionID) -> any MessageEvents {
            Issue.record("the decision came too late")
            return SocketEvents()
        }

        func abandoned() { self.log.add("late") }
    }

    /// A handler that adds the responders of all upgrades to a log.
    private static func handler(_ responders: Log<UpgradeResponder>) -> TestHandler {
        TestHandler(decide: { _ in .later { responders.add($0) } })
    }

    @Test func `an upgrade that is accepted later loses no frames that arrived before`() async throws {
        let responders = Log<UpgradeResponder>()
        let handler = Self.handler(responders)
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.stream.send(Array("\(Self.upgrade)\r\n".utf8) + Self.frame("one"))
            let responder = try #require(await responders.wait(1).first)
            client.stream.send(Self.frame("two"))
            expect(handler.events.log.entries.isEmpty && client.recorder.seen.bytes.isEmpty)
            responder.accept()
            await expectEqual(handler.events.log.wait(3), ["opened", "one", "two"])
            await expectEqual(client.text(until: "\r\n\r\n").status, 101)
            client.close()
            await expectEqual(handler.events.log.wait(4).last, "closed")
        }
    }

    @Test func `an upgrade can be accepted before the handler returns`() async throws {
        let handler = TestHandler(decide: { _ in .later { $0.accept(subprotocol: "b", headers: ["X-A": "1"]) } })
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send("\(Self.upgrade)Sec-WebSocket-Protocol: a, b\r\n\r\n")
            let text = await client.text(until: "\r\n\r\n")
            expect(text.status == 101 && text.contains("Sec-WebSocket-Protocol: b\r\n") && text.contains("X-A: 1\r\n"))
            client.close()
        }
    }

    @Test func `an upgrade that is rejected later receives the response and the connection is kept alive`() async throws {
        let responders = Log<UpgradeResponder>()
        try await withListener(Self.handler(responders)) { address in
            let client = try RawClient(address)
            // The next request is pipelined.
            client.send("\(Self.upgrade)\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n")
            let responder = try #require(await responders.wait(1).first)
            Task { responder.reject(HTTPResponse(status: 403, headers: ["X": "y"], text: "no")) }
            let text = await client.text(until: "GET /next ")
            expect(text.status == 403 && text.contains("X: y\r\n"))
            client.close()
        }
    }

    @Test func `only the first decision counts`() async throws {
        let responders = Log<UpgradeResponder>()
        let handler = Self.handler(responders)
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send("\(Self.upgrade)\r\n")
            let responder = try #require(await responders.wait(1).first)
            responder.reject(HTTPResponse(status: 401))
            responder.accept(to: LateAcceptor(log: handler.abandonments))
            responder.reject(HTTPResponse(status: 402))
            responder.onCancel { Issue.record("the decision was made") }
            client.request("/next")
            await expectEqual(client.text(until: "GET /next ").status, 401)
            client.close()
        }
        expect(handler.events.log.entries.isEmpty && handler.abandonments.entries.count == 1)
    }

    @Test func `an upgrade without a decision is rejected with 503 after the time limit`() async throws {
        let cancelled = Log<Bool>()
        let responders = Log<UpgradeResponder>()
        let handler = TestHandler(decide: { _ in
            .later { responder in
                responder.onCancel { cancelled.add(true) }
                responders.add(responder)
            }
        })
        try await withListener(handler, limits: .forTests.with { $0.upgradeTimeout = .milliseconds(1) }) { address in
            let client = try RawClient(address)
            client.send("\(Self.upgrade)\r\n")
            await expectEqual(client.text(until: "\r\n\r\n").status, 503)
            await cancelled.wait(1)
            // A decision that comes too late has no effect.
            responders.entries.first?.accept(to: LateAcceptor(log: handler.abandonments))
            client.request("/next")
            await client.text(until: "GET /next ")
            client.close()
        }
        expect(handler.events.log.entries.isEmpty && handler.abandonments.entries.count == 1)
    }

    @Test func `a client that disconnects cancels the decision`() async throws {
        let (begun, cancelled) = (Log<Bool>(), Log<Bool>())
        let handler = TestHandler(decide: { _ in
            .later { responder in
                responder.onCancel { cancelled.add(true) }
                begun.add(true)
            }
        })
        try await withListener(handler) { address in
            for endsGracefully in [true, false] {
                let client = try RawClient(address)
                client.send("\(Self.upgrade)\r\n")
                await begun.wait(endsGracefully ? 1 : 2)
                if endsGracefully { client.stream.finishWriting() } else { client.close() }
                await cancelled.wait(endsGracefully ? 1 : 2)
                client.close()
            }
        }
        expect(handler.events.log.entries.isEmpty)
    }

    @Test func `a listener that stops rejects undecided upgrades`() async throws {
        let (begun, cancelled) = (Log<Bool>(), Log<Bool>())
        let listener = SocketListener(limits: .forTests)
        let address = try await listener.start(
            TestHandler(decide: { _ in
                .later { responder in
                    responder.onCancel { cancelled.add(true) }
                    begun.add(true)
                }
            }))
        let client = try RawClient(address)
        client.send("\(Self.upgrade)\r\n")
        await begun.wait(1)
        async let stopped: Void = listener.stop()
        await expectEqual(client.textToEnd().status, 503)
        await cancelled.wait(1)
        await stopped
    }

    @Test func `the response to an accepted upgrade contains the header fields`() async throws {
        let handler = TestHandler(decide: { _ in
            .accept(subprotocol: nil, headers: ["Set-Cookie": "a=1", "set-cookie": "b=2", "X-Empty": ""])
        })
        try await withListener(handler) { address in
            let client = try RawClient(address)
            client.send("\(Self.upgrade)\r\n")
            let text = await client.text(until: "\r\n\r\n")
            expect(text.status == 101 && text.contains("Set-Cookie: a=1\r\nset-cookie: b=2\r\nX-Empty: \r\n"))
            client.close()
        }
    }

    @Test(arguments: [
        ("Sec-WebSocket-Accept", "x"), ("sec-websocket-protocol", "a"), ("Sec-WebSocket-Extensions", "permessage-deflate"),
        ("Upgrade", "x"), ("connection", "close"), ("Content-Length", "0"), ("Transfer-Encoding", "chunked"), ("X", "a\r\nY: b"),
        ("X Y", "a"), ("", "a"),
    ])
    func `a header field that is invalid or belongs to the handshake is not sent`(name: String, value: String) async throws {
        for decidesLater in [false, true] {
            var headers = HTTPHeaders()
            headers.add(name, value)
            let handler = TestHandler(decide: { [headers] _ in
                decidesLater ? .later { $0.accept(headers: headers) } : .accept(subprotocol: nil, headers: headers)
            })
            try await withListener(handler) { address in
                let client = try RawClient(address)
                // The request that follows is not lost.
                client.send("\(Self.upgrade)\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n")
                await expectEqual(client.text(until: "GET /next ").status, 500)
                client.close()
            }
            expect(handler.events.log.entries.isEmpty && handler.abandonments.entries.count == 1)
        }
    }

    @Test func `the handlers of a router share a listener`() async throws {
        let (chat, news) = (TestHandler(), TestHandler({ _, _, responder in responder.respond(HTTPResponse(status: 200, text: "news.")) }))
        let listener = SocketListener(limits: .forTests)
        let address = try await listener.start(ListenerRouter([.path("/ws", chat), .path("/news/", news)]))
        let client = try RawClient(address)
        client.request("/news?a=b")
        await client.text(until: "news.")
        client.request("/other")
        await expect(client.text(until: "responsible").contains("HTTP/1.1 404 Not Found\r\n"))
        client.stream.send(Array("\(Self.upgrade)\r\n".utf8) + Self.frame("one"))
        await expectEqual(chat.events.log.wait(2), ["opened", "one"])
        client.close()
        await expectEqual(chat.events.log.wait(3).last, "closed")
        expect(chat.requests.withLock { $0.isEmpty } && news.requests.withLock { $0.count } == 1)
        await listener.stop()
    }
}
