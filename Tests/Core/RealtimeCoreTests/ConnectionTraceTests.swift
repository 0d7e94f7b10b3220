import RealtimeCore
import RealtimeSystem
import RealtimeTesting
import RelayProtocol
import TestSupport
import Testing

/// The log of what a driver's connections do.
@Suite(.timeLimit(.minutes(10))) struct ConnectionTraceTests {
    private static func recorder(_ level: LogSink.Level = .trace) -> (LogSink, EventRecorder<String>) {
        let lines = EventRecorder<String>()
        return (
            LogSink(minimumLevel: level) { level, subsystem, text in if level == .trace { lines.record("\(subsystem): \(text)") } }, lines
        )
    }

    @Test func `a protocol that doesn't describe its messages is traced with their sizes`() {
        let (log, lines) = Self.recorder()
        let toy = Toy(log: log)
        _ = toy.connect()
        toy.driver.stop()
        expectEqual(lines.all, ["toy: #1 open", "toy: #1 received text of 5 bytes", "toy: #1 sent close 1000"])
    }

    @Test func `nothing is traced unless the sink asks for it`() {
        let (log, lines) = Self.recorder(.debug)
        let toy = Toy(log: log)
        _ = toy.connect()
        // The driver has the transport's own connection.
        expect(lines.all.isEmpty)
    }

    /// Connects a relay client with one kind of connection, sends a line in both directions, and closes.
    ///
    /// The task of the negotiation may still deliver what belongs to a step when the step's call returns.
    ///
    /// - Parameters:
    ///   - kind: The kind of the connection.
    ///   - counts: The numbers of lines after opening, after a message, and at the end.
    /// - Returns: The log, without the negotiation.
    private func trace(_ kind: RelaySession.Kind, _ counts: (Int, Int, Int)) async throws -> [String] {
        let (log, lines) = Self.recorder()
        let clock = ManualClock()
        let network = InMemoryNetwork(time: clock.time)
        let server = RelayServer(offering: [kind], acceptsSockets: true, time: clock.time)
        let address = try await network.listener().start(ListenerRouter([.path("/relay", server)]))
        let client = RelayClient(
            Endpoint(scheme: "http", host: address.host, port: address.port), over: network.transports(), log: log)
        let events = EventRecorder<RelaySession.Event>()
        let token = client.observe { events.record($0) }
        client.driver.start()
        try await eventually { events.all.contains(.connected(kind)) && lines.all.count >= counts.0 }
        server.broadcast("+ news")
        try await eventually { lines.all.count >= counts.1 }
        client.driver.stop()
        try await eventually { !client.driver.read { $0.isConnected } && lines.all.count >= counts.2 }
        client.driver.shutDown()
        network.cut()
        _ = token
        return lines.all.map { $0.replacingText("http://\(address.host):\(address.port)/relay", with: "") }
    }

    @Test func `a WebSocket is traced message by message`() async throws {
        let expected = ["open", "received text of 5 bytes", "received text of 6 bytes", "sent close 1000"]
        try await expectEqual(self.trace(.socket, (2, 3, 4)).prefix(4), expected.map { "relay: #1 \($0)" }[...])
    }

    @Test func `polling is traced message by message and request by request, without secrets`() async throws {
        let lines = try await self.trace(.polling, (6, 10, 17))
        expectEqual(
            lines,
            [
                "POST /poll", "POST /poll: status 200", "POST /poll: received 6 bytes", "open", "received text of 5 bytes",
                "POST /poll", "POST /poll: status 200", "POST /poll: received 7 bytes", "received text of 6 bytes",
                "POST /poll", "sent close 1000", "POST /send with 5 bytes", "POST /send: status 200", "POST /send: received 0 bytes",
                "POST /poll: status 410", "POST /poll: received 0 bytes", "ended",
            ].map { "relay: #1 \($0)" })
    }

    @Test func `a stream is traced message by message and request by request, without secrets`() async throws {
        let lines = try await self.trace(.stream, (4, 5, 11))
        expectEqual(
            lines,
            [
                "GET /stream", "GET /stream: status 200", "open", "received text of 5 bytes", "received text of 6 bytes",
                "sent close 1000", "POST /send with 5 bytes", "POST /send: status 200", "POST /send: received 0 bytes",
                "GET /stream: received 13 bytes", "ended",
            ].map { "relay: #1 \($0)" })
    }

    /// A listener that accepts WebSockets at one path.
    private final class Gate: AcceptingHandler {
        func decision(about request: HTTPRequestHead) -> UpgradeDecision {
            request.path == "/open" ? .accept(subprotocol: nil) : .reject(HTTPResponse(status: 403, text: "no"))
        }

        func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents {
            Ignoring()
        }

        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {}
    }

    private final class Ignoring: MessageEvents {
        func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {}
        func closed(_ id: ConnectionID, _ reason: CloseReason) {}
    }

    @Test(arguments: [
        ("/open", ["GET /open", "sent", "status 101", "ended"]),
        ("/closed", ["GET /closed", "sent", "status 403", "body no", "ended"]),
        ("/other", ["GET /other", "sent", "error refused"]),
    ])
    func `the request with which a WebSocket begins is traced with the response to it`(path: String, expected: [String]) async throws {
        let network = InMemoryNetwork(time: ManualClock().time)
        let address = try await network.listener().start(Gate())
        let lines = EventRecorder<String>()
        let transport = TracingUpgradeTransport(network.webSocket) { request in
            lines.record("\(request.method) \(request.endpoint.target)")
            return { action in
                switch action {
                case .sent: lines.record("sent")
                case .receivedHead(let head): lines.record("status \(head.status)")
                case .receivedBody(let bytes): lines.record("body \(String(decoding: bytes, as: UTF8.self))")
                case .ended(let error): lines.record(error.map { "error \($0.code)" } ?? "ended")
                case .cancelled: lines.record("cancelled")
                }
            }
        }
        let port = path == "/other" ? address.port + 1 : address.port
        let connection = transport.makeConnection(
            WebSocketRequest(Endpoint(scheme: "ws", host: address.host, port: port, target: path)), id: ConnectionID(rawValue: 1),
            events: Ignoring())
        connection.open()
        connection.enqueue(.text("x"))
        connection.flush()
        connection.close(.normal, reason: "")
        expectEqual(lines.all, expected)
    }
}
