import ProxySupport
import RealtimeCore
import RealtimeSockets
import RealtimeTesting
import RelayProtocol
import TestSupport
import Testing

/// Connections over HTTP requests, and a WebSocket for comparison, with nginx between client and server.
@Suite(.usesSockets, .requires(.nginx), .timeLimit(.minutes(10)))
struct NginxRelayTests {
    static let overHTTP: [RelaySession.Kind] = [.stream, .polling]
    static let wires = [false] + Requirement.openSSL.cases([true])

    /// Runs `body` with a server and a running nginx in front of it.
    private static func with(
        _ kind: RelaySession.Kind, streamHeaders: HTTPHeaders = [:], _ change: (inout Nginx.Options) -> Void = { _ in },
        _ body: (RunningRelay, Nginx) async throws -> Void
    ) async throws {
        let relay = try await RunningRelay(kind, streamHeaders: streamHeaders)
        do {
            let nginx = try Nginx(to: relay.port, change)
            try await nginx.start()
            try await body(relay, nginx)
            await nginx.stop()
        } catch {
            await relay.stop()
            throw error
        }
        await relay.stop()
    }

    // MARK: Messages

    @Test(arguments: [.socket] + Self.overHTTP, Self.wires)
    func `messages pass through nginx in both directions`(_ kind: RelaySession.Kind, isSecure: Bool) async throws {
        try await Self.with(kind) {
            $0.isSecure = isSecure
        } _: { relay, nginx in
            let client = RecordedRelayClient(port: nginx.port, isSecure: isSecure)
            try await client.connected(kind)
            try await client.exchange(with: relay.server)
            expect(client.losses.isEmpty)
        }
    }

    @Test(arguments: ["1.0", "1.1"], Self.wires)
    func `polls pass through nginx while it buffers responses`(_ version: String, isSecure: Bool) async throws {
        try await Self.with(.polling) {
            ($0.isSecure, $0.isBuffering, $0.httpVersion) = (isSecure, true, version)
        } _: { relay, nginx in
            let client = RecordedRelayClient(port: nginx.port, isSecure: isSecure)
            try await client.connected(.polling)
            try await client.exchange(with: relay.server)
            expect(client.losses.isEmpty)
        }
    }

    @Test(arguments: ["1.0", "1.1"], ["proxy_buffering off", "X-Accel-Buffering: no"])
    func `a stream passes through nginx as it arrives, if it isn't buffered`(_ version: String, setting: String) async throws {
        let isBuffering = setting != "proxy_buffering off"
        try await Self.with(.stream, streamHeaders: isBuffering ? ["X-Accel-Buffering": "no"] : [:]) {
            ($0.isBuffering, $0.httpVersion) = (isBuffering, version)
        } _: { relay, nginx in
            let client = RecordedRelayClient(port: nginx.port, isSecure: false)
            try await client.connected(.stream)
            try await client.exchange(with: relay.server)
            expect(client.losses.isEmpty)
        }
    }

    /// With HTTP/1.1, the server sends a stream in chunks. nginx sends what it has after each of them, except for the beginning of a chunk.
    @Test func `nginx passes small messages of a stream on while it buffers, but holds parts of large ones back`() async throws {
        try await Self.with(.stream) {
            ($0.isBuffering, $0.httpVersion) = (true, "1.1")
        } _: { relay, nginx in
            let client = RecordedRelayClient(port: nginx.port, isSecure: false)
            try await client.connected(.stream)
            for number in 0..<20 {
                relay.server.broadcast("+ \(number)")
                try await client.message("\(number)")
            }
            let large = String(repeating: "x", count: 200_000)
            relay.server.broadcast("+ \(large)")
            // The end of the large message may arrive only with the next one.
            relay.server.broadcast("+ next")
            try await client.message("next")
            expect(client.hasReceived(large) && client.losses.isEmpty)
        }
    }

    @Test func `nginx holds a stream over HTTP 1.0 back while it buffers, until a buffer is full`() async throws {
        try await Self.with(.stream) {
            ($0.isBuffering, $0.httpVersion) = (true, "1.0")
        } _: { relay, nginx in
            let client = RecordedRelayClient(port: nginx.port, isSecure: false)
            // The server has written the beginning of the stream by then.
            try await eventually { relay.server.connectionCount == 1 }
            try await Self.roundTrips(nginx)
            expect(!client.isConnected)
            // What fills the buffers passes, and the rest of the stream remains in them.
            let padding = String(repeating: "x", count: 1000)
            try await eventually("the buffers are full") {
                relay.server.broadcast("+ \(padding)")
                return client.isConnected
            }
            relay.server.broadcast("+ remainder")
            try await Self.roundTrips(nginx)
            expect(!client.hasReceived("remainder"))
            try await eventually("the buffers are full") {
                relay.server.broadcast("+ \(padding)")
                return client.hasReceived("remainder")
            }
        }
    }

    @Test func `nginx holds the head of a stream back while it buffers, until the first piece`() async throws {
        let responders = EventRecorder<any HTTPResponder>()
        let handler = RequestHandler { request, responder in
            guard request.path == "/stream" else { return responder.respond(HTTPResponse(status: 200)) }
            responder.begin(HTTPResponseHead(status: 200))
            responders.record(responder)
        }
        let listener = SocketListener(limits: .forTests)
        let nginx = try Nginx(to: try await listener.start(handler).port) { $0.isBuffering = true }
        try await nginx.start()
        let events = RecordedExchange()
        let request = HTTPRequest(
            "GET", Endpoint(scheme: "http", host: "127.0.0.1", port: nginx.port, target: "/stream"), connectTimeout: .seconds(600),
            idleTimeout: .seconds(600))
        let exchange = SocketHTTPTransport().makeExchange(request, id: ExchangeID(rawValue: 1), events: events)
        exchange.start()
        try await eventually { responders.all.count == 1 }
        try await Self.roundTrips(nginx)
        expect(events.events.isEmpty)
        responders.all[0].write(Array("a".utf8))
        try await eventually { events.body == "a" }
        expectEqual(events.events.first, .head(200))
        exchange.cancel()
        await nginx.stop()
        await listener.stop()
    }

    /// Waits for responses through nginx, so that it has handled what arrived before.
    private static func roundTrips(_ nginx: Nginx) async throws {
        let transport = PatientTransport(webSocket: SocketWebSocketTransport(), http: SocketHTTPTransport())
        for _ in 0..<20 {
            _ = try await transport.send(
                HTTPRequest("GET", Endpoint(scheme: "http", host: "127.0.0.1", port: nginx.port, target: "/relay/unknown")))
        }
    }

    // MARK: Losses

    @Test(arguments: Self.wires) func `a stream that nginx ends for inactivity is lost, and re-established`(isSecure: Bool) async throws {
        try await Self.with(.stream) {
            ($0.isSecure, $0.readTimeout) = (isSecure, .milliseconds(500))
        } _: { relay, nginx in
            let client = RecordedRelayClient(port: nginx.port, isSecure: isSecure)
            let error = try await client.failure("the stream is lost") { $0.code == .closed || $0.code == .reset }
            expect(error.message.contains("localhost:\(nginx.port)"), "\(error)")
            try await client.connected(.stream, 2)
        }
    }

    @Test(arguments: Self.wires)
    func `a poll that nginx answers after its time limit fails with the status and the URL`(isSecure: Bool) async throws {
        try await Self.with(.polling) {
            ($0.isSecure, $0.readTimeout) = (isSecure, .milliseconds(500))
        } _: { relay, nginx in
            let client = RecordedRelayClient(port: nginx.port, isSecure: isSecure)
            // On a busy machine, the limit may end an attempt to connect before.
            let error = try await client.failure("the poll is answered") { $0.status == 504 && $0.code == .requestRejected }
            expect(error.message.contains("\(isSecure ? "https" : "http")://localhost:\(nginx.port)/relay/poll"), "\(error)")
            expect(error.message.contains("504 Gateway Time-out"), "\(error)")
            // The token in the query is a secret.
            expect(!error.message.contains("token"), "\(error)")
            try await client.connected(.polling, 2)
        }
    }

    @Test(arguments: Self.overHTTP)
    func `a client reconnects when the server behind nginx returns`(_ kind: RelaySession.Kind) async throws {
        try await Self.with(kind) { relay, nginx in
            let client = RecordedRelayClient(port: nginx.port, isSecure: false)
            try await client.connected(kind)
            await relay.stop()
            switch (kind, try await client.loss()) {
            case (.stream, .transport(let error)): expect([.closed, .reset].contains(error.code), "\(error)")
            case (_, .transport(let error)): expect(error.status == 502 && error.message.contains("/relay/poll"), "\(error)")
            case (_, let reason): Issue.record("\(reason)")
            }
            let error = try await client.failure("the negotiation fails") { $0.message.contains("negotiation") }
            expect(error.code == .upgradeRejected && error.status == 502)
            try await relay.start()
            try await client.connected(kind, 2)
            try await client.exchange(with: relay.server)
        }
    }

    @Test(arguments: Self.overHTTP, Self.wires)
    func `a client reconnects after a restart of nginx`(_ kind: RelaySession.Kind, isSecure: Bool) async throws {
        try await Self.with(kind) {
            $0.isSecure = isSecure
        } _: { relay, nginx in
            let client = RecordedRelayClient(port: nginx.port, isSecure: isSecure)
            try await client.connected(kind)
            await nginx.stop()
            guard case .transport(let error) = try await client.loss() else {
                Issue.record("The connection should be lost with an error.")
                return
            }
            // The next poll may have been sent afterwards.
            expect([.closed, .reset].contains(error.code) || kind == .polling && error.code == .refused, "\(error)")
            _ = try await client.failure("nothing listens") { $0.code == .refused }
            try await nginx.start()
            try await client.connected(kind, 2)
            try await client.exchange(with: relay.server)
        }
    }

    @Test func `a stream is not interrupted when nginx reloads its configuration`() async throws {
        try await Self.with(.stream) { relay, nginx in
            let client = RecordedRelayClient(port: nginx.port, isSecure: false)
            try await client.connected(.stream)
            try nginx.reload { $0.headers = ["X-Configuration": "new"] }
            let request = HTTPRequest("GET", Endpoint(scheme: "http", host: "127.0.0.1", port: nginx.port, target: "/relay/unknown"))
            try await eventually("nginx uses the new configuration") {
                try await SocketHTTPTransport(keepAlive: .off).send(request).head.headers["X-Configuration"] == "new"
            }
            try await client.exchange(with: relay.server)
            expect(client.losses.isEmpty)
        }
    }
}

/// A handler that answers requests with a closure.
private final class RequestHandler: ListenerHandler {
    private let respond: @Sendable (HTTPRequestHead, any HTTPResponder) -> Void

    init(_ respond: @escaping @Sendable (HTTPRequestHead, any HTTPResponder) -> Void) {
        self.respond = respond
    }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) { self.respond(request, responder) }
}
