import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import RelayProtocol
import TestSupport
import Testing

@testable import RealtimeSockets

/// Clients of connections over HTTP that send something else than a server expects. Another client isn't affected.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct MisbehavingHTTPClientTests {
    private struct Fixture {
        let http = SocketHTTPTransport()
        let endpoint: Endpoint
        let relay: RelayServer
        private let listener: SocketListener
        private let neighbor: any MessageConnection
        private let neighborProbe = Probe()

        init() async throws {
            var limits = ListenerLimits.forTests
            limits.bodyBytes = 1 << 20
            self.listener = SocketListener(limits: limits)
            self.relay = RelayServer(offering: [.polling], time: EventLoop.shared)
            let address = try await self.listener.start(self.relay)
            self.endpoint = Endpoint(scheme: "http", host: address.host, port: address.port)
            let patient = PatientTransport(webSocket: SocketWebSocketTransport(), http: self.http)
            self.neighbor = RelayClient.connect(
                RelaySession.Request(kind: .polling, token: "neighbor"), to: self.endpoint,
                over: Transports(webSocket: patient, http: patient, time: EventLoop.shared), RedirectingHTTP.Cookies(),
                id: ConnectionID(rawValue: 1), events: self.neighborProbe)
            self.neighbor.open()
            _ = try await self.neighborProbe.opened()
            try await self.neighborProbe.expect(.text("hello"))
        }

        /// Runs a test, and checks that the other client is still connected.
        static func with(_ body: (Fixture) async throws -> Void) async throws {
            let fixture = try await Fixture()
            do {
                try await body(fixture)
                for text in ["item 1 a", "end 1"] { fixture.neighbor.enqueue(.text(text)) }
                fixture.neighbor.flush()
                try await fixture.neighborProbe.expect(.text("= 1 1"))
            } catch {
                fixture.neighbor.abandon()
                await fixture.listener.stop()
                throw error
            }
            fixture.neighbor.abandon()
            await fixture.listener.stop()
        }

        func request(_ action: String, _ token: String, _ body: [UInt8] = []) -> HTTPRequest {
            var endpoint = self.endpoint.appending(path: "relay/\(action)")
            endpoint.addQuery("token", token)
            return HTTPRequest("POST", endpoint, body: body, connectTimeout: .seconds(600), idleTimeout: .seconds(600))
        }

        func send(_ action: String, _ token: String, _ text: String = "") async throws -> String {
            let response = try await self.http.send(self.request(action, token, Array(text.utf8)))
            return "\(response.head.status) \(String(decoding: response.body, as: UTF8.self))"
        }

        /// Connects, and receives the first line.
        func begin(_ token: String) async throws { try await expectEqual(self.send("poll", token), "200 hello\n") }
    }

    @Test func `requests without a connection, or after its end, are refused`() async throws {
        try await Fixture.with { fixture in
            try await expectEqual(fixture.send("send", "unknown", "x"), "404 ")
            try await fixture.begin("a")
            try await expectEqual(fixture.send("send", "a", "close"), "200 ")
            try await expectEqual(fixture.send("send", "a", "x"), "404 ")
            try await expectEqual(fixture.send("poll", "a"), "410 ")
        }
    }

    @Test func `a body over the limit is refused, and the connection goes on`() async throws {
        try await Fixture.with { fixture in
            try await fixture.begin("a")
            let large = fixture.request("send", "a", [UInt8](repeating: 0x61, count: 2 << 20))
            do throws(TransportError) {
                try await expectEqual(fixture.http.send(large).head.status, 413)
            } catch {
                // The listener doesn't read the rest of the body.
                expect(error.code == .closed || error.code == .reset)
            }
            try await expectEqual(fixture.send("send", "a", "item 7 x\nend 7"), "200 ")
            try await expectEqual(fixture.send("poll", "a"), "200 = 7 1\n")
        }
    }

    @Test func `each poll replaces the one before it, and only the last one is answered with a message`() async throws {
        try await Fixture.with { fixture in
            try await fixture.begin("a")
            let exchanges = (0..<50).map { number in
                let recorded = RecordedExchange()
                let exchange = fixture.http.makeExchange(
                    fixture.request("poll", "a"), id: ExchangeID(rawValue: UInt64(number)), events: recorded)
                exchange.start()
                return (exchange, recorded)
            }
            try await eventually { exchanges.count(where: { $0.1.hasEnded }) == 49 }
            try await expectEqual(fixture.send("send", "a", "item 7 x\nend 7"), "200 ")
            try await eventually { exchanges.allSatisfy { $0.1.hasEnded } }
            expectEqual(exchanges.map(\.1.body).sorted(), [String](repeating: "", count: 49) + ["= 7 1\n"])
        }
    }

    @Test func `requests that are sent without reading their answers are all read`() async throws {
        try await Fixture.with { fixture in
            try await fixture.begin("a")
            let (port, count) = (fixture.endpoint.port, 500)
            try await onOwnThread {
                let peer = try RawPeer(connectedTo: port)
                let head = "POST /relay/send?token=a HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n"
                for _ in 0..<count { try peer.send(Array("\(head)item 7 x".utf8)) }
                var answers = ""
                // A separator more than answers.
                while answers.split(separator: "HTTP/1.1 200 OK", omittingEmptySubsequences: false).count <= count {
                    let more = try peer.receive()
                    try #require(!more.isEmpty, "the server has ended the connection")
                    answers += String(decoding: more, as: UTF8.self)
                }
            }
            try await expectEqual(fixture.send("send", "a", "end 7"), "200 ")
            try await expectEqual(fixture.send("poll", "a"), "200 = 7 \(count)\n")
        }
    }
}
