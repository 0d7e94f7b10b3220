import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import RelayProtocol
import TestSupport
import Testing

@testable import RealtimeSockets

/// Servers that answer the requests of a connection over HTTP with something else than expected, or not at all.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct MisbehavingHTTPServerTests {
    private typealias Kind = RelaySession.Kind

    /// A connection to a raw server, and another one over the same transport to a server that works.
    private struct Fixture {
        /// The clock of the connection's time limits.
        let clock = ManualClock()
        let server: RawServer
        let probe = Probe()
        let connection: any MessageConnection
        private let listener = SocketListener(limits: .forTests)
        private let relay: RelayServer
        private let neighbor: any MessageConnection
        private let neighborProbe = Probe()

        init(_ kind: Kind, _ script: @escaping RawServer.Script) async throws {
            let transport = PatientTransport(webSocket: SocketWebSocketTransport(), http: SocketHTTPTransport())
            let time = EventLoop.shared
            self.relay = RelayServer(offering: [.polling, .stream], time: time)
            let address = try await self.listener.start(self.relay)
            func connection(_ port: Int, _ token: String, _ time: any TimeSource, _ events: Probe) -> any MessageConnection {
                RelayClient.connect(
                    RelaySession.Request(kind: kind, token: token), to: Endpoint(scheme: "http", host: "127.0.0.1", port: port),
                    over: Transports(webSocket: transport, http: transport, time: time), RedirectingHTTP.Cookies(),
                    id: ConnectionID(rawValue: 1), events: events)
            }
            self.neighbor = connection(address.port, "neighbor", time, self.neighborProbe)
            self.server = try RawServer(script)
            self.connection = connection(self.server.port, "secret", self.clock.time, self.probe)
            self.neighbor.open()
            _ = try await self.neighborProbe.opened()
            try await self.neighborProbe.expect(.text("hello"))
            self.connection.open()
        }

        /// Runs a test, and checks that the other connection still works in both directions.
        static func with(_ kind: Kind, _ script: @escaping RawServer.Script, _ body: (Fixture) async throws -> Void) async throws {
            let fixture = try await Fixture(kind, script)
            do {
                try await body(fixture)
                for text in ["item 1 a", "end 1"] { fixture.neighbor.enqueue(.text(text)) }
                fixture.neighbor.flush()
                try await fixture.neighborProbe.expect(.text("= 1 1"))
            } catch {
                await fixture.end()
                throw error
            }
            await fixture.end()
        }

        private func end() async {
            self.connection.abandon()
            self.neighbor.abandon()
            await self.listener.stop()
            await self.server.stop()
        }

        /// Expects the end of the connection with an error that names the server, and no secrets.
        func expectFailure(_ code: TransportError.Code, status: Int? = nil, sourceLocation: SourceLocation = #_sourceLocation) async {
            guard case .transport(let error) = await self.probe.closed() else {
                Issue.record("the connection ended without an error", sourceLocation: sourceLocation)
                return
            }
            // A connection that is closed while it has received bytes that it doesn't read is reset.
            let isExpected = error.code == code || code == .closed && error.code == .reset
            #expect(isExpected && error.status == status, "\(error.debugDescription)", sourceLocation: sourceLocation)
            #expect(error.message.contains("http://127.0.0.1:\(self.server.port)"), "\(error)", sourceLocation: sourceLocation)
            #expect(!error.message.contains("secret") && !error.message.contains("token"), "\(error)", sourceLocation: sourceLocation)
            #expect(self.probe.isEmpty, "nothing follows", sourceLocation: sourceLocation)
        }
    }

    struct Answer: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let text: String
        let code: TransportError.Code
        let status: Int?

        init(_ name: String, _ text: String, _ code: TransportError.Code, status: Int? = nil) {
            (self.testDescription, self.text, self.code, self.status) = (name, text, code, status)
        }
    }

    // MARK: Requests for messages

    private static let answers: [Answer] = [
        Answer("nothing", "", .closed),
        Answer("404", "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", .upgradeRejected, status: 404),
        Answer("500", "HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n", .upgradeRejected, status: 500),
        Answer("500 without an end", "HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nno", .upgradeRejected, status: 500),
        Answer("204", "HTTP/1.1 204 No Content\r\n\r\n", .upgradeRejected, status: 204),
        Answer("304", "HTTP/1.1 304 Not Modified\r\n\r\n", .upgradeRejected, status: 304),
        Answer("another protocol", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", .protocolViolation),
        Answer("HTTP/0.9", "<html>hello</html>\r\n", .protocolViolation),
        Answer("HTTP/2", "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", .protocolViolation),
        Answer("TLS", "\u{15}\u{3}\u{1}\0\u{2}\u{2}\n\r\n", .protocolViolation),
        Answer("half a head", "HTTP/1.1 200 OK\r\nContent-Le", .closed),
        Answer("line feeds only", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", .protocolViolation),
        Answer("a status of 99", "HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n", .protocolViolation),
        Answer("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\na\n", .protocolViolation),
        Answer("a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\na\n", .protocolViolation),
        Answer("a length of 20 digits", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\na\n", .protocolViolation),
        Answer("an unknown coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\na\n", .protocolViolation),
        Answer("a cookie with a control character", "HTTP/1.1 200 OK\r\nSet-Cookie: a=\u{1}\r\n\r\na\n", .protocolViolation),
        Answer(
            "10,000 cookies", "HTTP/1.1 200 OK\r\n" + (0..<10_000).map { "Set-Cookie: a\($0)=b\r\n" }.joined() + "\r\n", .tooLarge),
        Answer(
            "a head of 300 KB", "HTTP/1.1 200 OK\r\n" + String(repeating: "X: \(String(repeating: "x", count: 1000))\r\n", count: 300),
            .tooLarge),
        Answer("a line without an end", "HTTP/1.1 200 OK\r\nX: " + String(repeating: "x", count: 100_000), .tooLarge),
        Answer("a status line without an end", "HTTP/1.1 200 " + String(repeating: "x", count: 100_000), .tooLarge),
        Answer("17 interim responses", String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 17), .protocolViolation),
        Answer("hints only", String(repeating: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", count: 10_000), .protocolViolation),
    ]

    @Test(arguments: Self.answers, [RelaySession.Kind.polling, .stream])
    func `an answer without messages ends the connection with an error`(
        _ answer: Answer, _ kind: RelaySession.Kind
    ) async throws {
        let script: RawServer.Script = { peer in
            try peer.readHead()
            // The client may have seen enough.
            try? peer.send(Array(answer.text.utf8))
        }
        try await Fixture.with(kind, script) { await $0.expectFailure(answer.code, status: answer.status) }
    }

    /// A stream is requested with GET, which may be repeated at another URL, and a poll with POST, which may not.
    @Test(arguments: [(RelaySession.Kind.polling, 301), (.stream, nil)] as [(RelaySession.Kind, Int?)])
    func `a circle of redirects ends the connection with an error`(kind: RelaySession.Kind, status: Int?) async throws {
        let script: RawServer.Script = { peer in
            try peer.readHead()
            try peer.send(Array("HTTP/1.1 301 Moved\r\nLocation: ?token=secret\r\nContent-Length: 0\r\n\r\n".utf8))
        }
        try await Fixture.with(kind, script) { await $0.expectFailure(.requestRejected, status: status) }
    }

    private static let bodies: [Answer] = [
        Answer("half a body", "Content-Length: 100\r\n\r\na\n", .closed),
        Answer("half a chunk", "Transfer-Encoding: chunked\r\n\r\n5\r\na\n", .closed),
        Answer("no last chunk", "Transfer-Encoding: chunked\r\n\r\n2\r\na\n\r\n", .closed),
        Answer("half the trailers", "Transfer-Encoding: chunked\r\n\r\n2\r\na\n\r\n0\r\nA: b\r\n", .closed),
        Answer("an invalid chunk size", "Transfer-Encoding: chunked\r\n\r\n2\r\na\n\r\nsize\r\n", .protocolViolation),
        Answer("a negative chunk size", "Transfer-Encoding: chunked\r\n\r\n-2\r\na\n\r\n", .protocolViolation),
        Answer("a chunk size that overflows", "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\na\n\r\n", .protocolViolation),
        Answer("a chunk that is too long", "Transfer-Encoding: chunked\r\n\r\n2\r\na\nb\r\n", .protocolViolation),
        Answer("a long chunk size line", "Transfer-Encoding: chunked\r\n\r\n2;" + String(repeating: "x", count: 5000), .tooLarge),
        Answer(
            "trailers without an end", "Transfer-Encoding: chunked\r\n\r\n0\r\n" + String(repeating: "A: b\r\n", count: 3000), .tooLarge),
    ]

    @Test(arguments: Self.bodies, [RelaySession.Kind.polling, .stream])
    func `a body that breaks off or is invalid is an error after the head`(
        _ body: Answer, _ kind: RelaySession.Kind
    ) async throws {
        let script: RawServer.Script = { peer in
            try peer.readHead()
            try? peer.send(Array("HTTP/1.1 200 OK\r\n\(body.text)".utf8))
        }
        try await Fixture.with(kind, script) { fixture in
            _ = try await fixture.probe.opened()
            await fixture.expectFailure(body.code)
        }
    }

    @Test(arguments: [RelaySession.Kind.polling, .stream])
    func `a body without an end is an error at the limit`(_ kind: RelaySession.Kind) async throws {
        let chunk = Array("10000\r\n".utf8) + [UInt8](repeating: 0x61, count: 64 << 10) + Array("\r\n".utf8)
        let script: RawServer.Script = { peer in
            try peer.readHead()
            try peer.send(Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".utf8))
            // Until the client ends the connection.
            while (try? peer.send(chunk)) != nil {}
        }
        try await Fixture.with(kind, script) { fixture in
            _ = try await fixture.probe.opened()
            await fixture.expectFailure(.tooLarge)
        }
    }

    @Test(arguments: [RelaySession.Kind.polling, .stream])
    func `a connection that is reset is an error`(_ kind: RelaySession.Kind) async throws {
        try await Fixture.with(
            kind,
            { peer in
                try peer.readHead()
                try peer.send(Array("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n".utf8))
                peer.reset()
            }
        ) { await $0.expectFailure(.closed) }
    }

    @Test(arguments: [
        "HTTP/1.0 200 OK\r\n\r\na\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\na\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\nConnection: close\r\n\r\na\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na\n\r\n0\r\n\r\n",
        // Bytes after the response, even if they look like one, aren't the answer to the next request.
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na\nmore",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbad\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na\n\r\n0\r\nIgnored: yes\r\n\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n\r\na\n",
        "HTTP/1.1 200\r\nSet-Cookie: =\r\nSet-Cookie:\r\nContent-Type: image/png\r\nConnection: close\r\n\r\na\n",
    ])
    func `an unusual answer is read, and the next request has a connection of its own`(_ answer: String) async throws {
        let answers = Lock([answer, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nclose\n"])
        try await Fixture.with(
            .polling,
            { peer in
                try peer.readHead()
                try peer.send(Array(answers.withLock { $0.removeFirst() }.utf8))
            }
        ) { fixture in
            _ = try await fixture.probe.opened()
            try await fixture.probe.expect(.text("a"))
            await expectEqual(fixture.probe.closed(), .peer(.normal, ""))
        }
    }

    @Test func `an answer that arrives before its request is read`() async throws {
        let connections = Tally()
        try await Fixture.with(
            .polling,
            { peer in
                connections.add(1)
                let number = connections.value
                if number == 2 { try peer.readHead() }
                let body = number == 1 ? "a\n" : "close\n"
                try peer.send(Array("HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n\(body)".utf8))
                try peer.readUntilEnd()
            }
        ) { fixture in
            _ = try await fixture.probe.opened()
            try await fixture.probe.expect(.text("a"))
            await expectEqual(fixture.probe.closed(), .peer(.normal, ""))
        }
    }

    // MARK: Requests that bring messages

    private static let answersToMessages: [Answer] = [
        Answer("nothing", "", .closed),
        Answer("404", "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", .requestRejected, status: 404),
        Answer("a redirect", "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", .requestRejected, status: 302),
        Answer("401", "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", .requestRejected, status: 401),
        Answer("another protocol", "HTTP/1.1 101 Switching Protocols\r\n\r\n", .protocolViolation),
        Answer("garbage", "garbage\r\n", .protocolViolation),
        Answer("half a body", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na", .closed),
        Answer("a huge body", "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + String(repeating: "x", count: 200_000), .tooLarge),
        Answer(
            "a huge rejection", "HTTP/1.1 500 Oops\r\nContent-Length: 200000\r\n\r\n" + String(repeating: "x", count: 200_000),
            .requestRejected,
            status: 500),
    ]

    /// Answers the first request with the head of a response whose body doesn't end.
    private static func stream(_ peer: RawPeer) throws {
        try peer.readHead()
        try peer.send(Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na\n\r\n".utf8))
        peer.isKept = true
    }

    @Test(arguments: Self.answersToMessages)
    func `an answer to messages that isn't a success ends the connection with an error`(_ answer: Answer) async throws {
        let connections = Tally()
        try await Fixture.with(
            .stream,
            { peer in
                connections.add(1)
                if connections.value == 1 { return try Self.stream(peer) }
                try peer.readHead()
                try? peer.send(Array(answer.text.utf8))
            }
        ) { fixture in
            _ = try await fixture.probe.opened()
            try await fixture.probe.expect(.text("a"))
            fixture.connection.enqueue(.text("message"))
            fixture.connection.flush()
            await fixture.expectFailure(answer.code, status: answer.status)
        }
    }

    // MARK: Servers that don't answer

    /// The beginnings of an answer, after which a server falls silent.
    private static let beginnings = [
        "", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nn",
    ]

    @Test(arguments: Self.beginnings, [true, false])
    func `a connection that isn't open ends immediately, although its server doesn't answer`(_ beginning: String, closes: Bool) async throws
    {
        let (hasRead, hasEnded) = (Signal(), Signal())
        try await Fixture.with(
            .polling,
            { peer in
                defer { hasEnded.send() }
                try peer.readHead()
                try peer.send(Array(beginning.utf8))
                hasRead.send()
                try peer.readUntilEnd()
            }
        ) { fixture in
            await hasRead.wait()
            if closes {
                fixture.connection.close(.normal, reason: "")
                await expectEqual(fixture.probe.closed(), .requested)
            } else {
                fixture.connection.abandon()
            }
            // The server notices the end.
            await hasEnded.wait()
            expect(fixture.probe.isEmpty && fixture.clock.untilNextDeadline == nil)
        }
    }

    @Test func `closing ends after five seconds if no request is answered`() async throws {
        let connections = Tally()
        let script: RawServer.Script = { peer in
            connections.add(1)
            // Neither the message nor the request that ends the connection is answered.
            if connections.value == 1 { try Self.stream(peer) } else { peer.isKept = true }
        }
        try await Fixture.with(.stream, script) { fixture in
            _ = try await fixture.probe.opened()
            try await fixture.probe.expect(.text("a"))
            fixture.connection.enqueue(.text("message"))
            fixture.connection.close(.normal, reason: "")
            expect(fixture.probe.isEmpty)
            fixture.clock.advance(by: .seconds(5))
            await expectEqual(fixture.probe.closed(), .requested)
            expectNil(fixture.clock.untilNextDeadline)
        }
    }
}
