import PeerSupport
import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import SignalRHubs
import SignalRWire
import TestSupport
import Testing

/// Negotiation, authentication, losses and reconnects of the client with an ASP.NET Core server in its own process. Serialized, because most
/// tests start a server.
@Suite(
    .usesSockets, .serialized, .enabled(if: Peer.starts("aspnet"), Comment(rawValue: Peer.skipReason)),
    .timeLimit(.minutes(10)))
struct ASPNETLifecycleTests {
    private static func delays(_ count: Int) -> HubRetryPolicy { .delays(Array(repeating: .milliseconds(50), count: count)) }

    // MARK: Start

    @Test(arguments: HubFormat.allCases)
    func `requests carry the header fields, the query and the token`(format: HubFormat) async throws {
        let server = try await ASPNETServer()
        let hub = try await server.connected("/auth?room=a%20b", format) {
            $0.accessToken = { "token-anna" }
            $0.headers = ["X-App": "mine"]
        }
        #expect(try await hub.invoke("WhoAmI", as: String.self) == "anna")
        #expect(try await hub.invoke("Query", "room", as: String.self) == "a b")
        #expect(try await hub.invoke("Query", "access_token", as: String.self) == "")
        for (name, value) in [("X-App", "mine"), ("Authorization", "Bearer token-anna"), ("X-Requested-With", "XMLHttpRequest")] {
            #expect(try await hub.invoke("Header", name, as: String.self) == value)
        }
        let requests = try await server.control("requests", "GET").array ?? []
        #expect(requests.map { $0["path"]?.string } == ["/auth/negotiate", "/auth"])
        #expect(requests.allSatisfy { $0["headers"]?["Authorization"] == "Bearer token-anna" && $0["headers"]?["X-App"] == "mine" })
        hub.stop()
    }

    @Test(arguments: HubFormat.allCases)
    func `a client may skip the negotiation`(format: HubFormat) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", format) { $0.skipsNegotiation = true }
        #expect(hub.connectionID == nil)
        #expect(try await hub.invoke("Add", 1, 2, as: Int.self) == 3)
        #expect(try await hub.invoke("ConnId", as: String.self).isEmpty == false)
        hub.stop()
    }

    @Test(arguments: [
        ("/error", HubError.Code.negotiationFailed, "The hub says no."), ("/garbage", .negotiationFailed, "200 OK and a web page"),
        ("/none", .negotiationFailed, "needs WebSockets"), ("/future", .negotiationFailed, "only WebTransport"),
        ("/classic", .negotiationFailed, "ASP.NET SignalR"), ("/missing", .negotiationFailed, "404"),
        ("/sse", .negotiationFailed, "needs WebSockets"),
        ("/lp", .negotiationFailed, "needs WebSockets"), ("/auth", .unauthorized, "401"),
        ("/redirect-loop", .negotiationFailed, "100 times"),
    ])
    func `a negotiation that can't succeed fails the start with the reason`(path: String, code: HubError.Code, text: String) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = server.client(path)
        let error = await hubError { try await hub.start() }
        #expect(error?.code == code && error?.message.contains(text) == true, "\(error?.message ?? "no error")")
        guard case .stopped = hub.state else { return #expect(Bool(false), "the client should be stopped") }
    }

    @Test(arguments: HubFormat.allCases, ["/redirect", "/redirect-twice"])
    func `a client follows redirects with the token of the redirect`(format: HubFormat, path: String) async throws {
        let server = try await ASPNETServer()
        let hub = try await server.connected(path, format) {
            $0.retry = Self.delays(20)
            $0.accessToken = { "token-anna" }
        }
        #expect(try await hub.invoke("WhoAmI", as: String.self) == "redirected")
        let updates = hub.updates()
        try await server.control("requests?clear=true", "GET")
        try await server.control("cut")
        _ = await updates.first { if case .reconnected = $0 { true } else { false } }
        // Again with the application's token, at its URL.
        let first = try await server.control("requests", "GET").array?.first
        #expect(first?["path"]?.string == "\(path)/negotiate" && first?["headers"]?["Authorization"] == "Bearer token-anna")
        #expect(try await hub.invoke("WhoAmI", as: String.self) == "redirected")
        hub.stop()
    }

    @Test func `a hub that supports only JSON rejects the handshake for MessagePack`() async throws {
        let server = try await ASPNETServer.shared.value
        let error = await hubError { try await server.connected("/strict", .messagePack) }
        #expect(error?.code == .handshakeFailed && error?.serverMessage?.contains("messagepack") == true)
    }

    @Test func `a refused and a delayed negotiation are retried and awaited`() async throws {
        let server = try await ASPNETServer()
        try await server.control("refuse?times=1&status=503")
        let error = await hubError { try await server.connected("/test") }
        #expect(error?.code == .negotiationFailed && error?.status == 503)
        try await server.control("refuse?times=3&status=500")
        let hub = try await server.connected("/test") {
            $0.retriesFirstStart = true
            $0.retry = Self.delays(5)
        }
        hub.stop()
        try await server.control("delay?ms=300")
        try await hub.start()
        hub.stop()
        try await server.control("delay?ms=3600000")
        let late = await hubError { try await hub.start(within: .milliseconds(100)) }
        #expect(late?.code == .timedOut)
    }

    @Test func `a port without a server is an error of the start`() async throws {
        let server = try await ASPNETServer()
        try await server.stopped()
        let error = await hubError { try await server.connected("/test") }
        #expect(error?.code == .connectionLost && error?.transportError?.code == .refused)
    }

    // MARK: Losses

    @Test(arguments: HubFormat.allCases)
    func `a cut connection fails its calls, and the client reconnects`(format: HubFormat) async throws {
        let server = try await ASPNETServer()
        let hub = try await server.connected("/test", format) { $0.retry = Self.delays(20) }
        let (updates, first) = (hub.updates(), hub.connectionID)
        let call = Task { await hubError { try await hub.invoke("Slow", 3_600_000, as: String.self) } }
        let stream = try hub.stream("Counter", 1_000_000, 1, of: Int.self)
        try await eventually { try await server.control("streams", "GET")["started"] == 1 }
        try await server.control("cut")
        #expect(await call.value?.code == .connectionLost)
        #expect(await stream.all().error?.code == .connectionLost)
        _ = await updates.first { if case .reconnected = $0 { true } else { false } }
        #expect(hub.connectionID != nil && hub.connectionID != first)
        #expect(try await hub.invoke("Add", 1, 2, as: Int.self) == 3)
        hub.stop()
        try await eventually { try await server.control("connections", "GET")["live"] == [] }
    }

    @Test(arguments: HubFormat.allCases)
    func `an abort by the hub closes the client for good`(format: HubFormat) async throws {
        let server = try await ASPNETServer()
        for method in ["AbortMe", nil] {
            let hub = try await server.connected("/test", format) { $0.retry = Self.delays(20) }
            let updates = hub.updates()
            if let method { try await hub.send(method) } else { try await server.control("abort") }
            _ = await updates.first { if case .closed = $0 { true } else { false } }
            guard case .stopped = hub.state else { return #expect(Bool(false), "the client should be stopped") }
            // And may be started again.
            try await hub.start()
            #expect(try await hub.invoke("Add", 1, 2, as: Int.self) == 3)
            hub.stop()
        }
    }

    @Test(arguments: HubFormat.allCases)
    func `a connection that the hub resets is re-established`(format: HubFormat) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", format) { $0.retry = Self.delays(20) }
        let updates = hub.updates()
        try await hub.send("CutMe")
        _ = await updates.first { if case .reconnected = $0 { true } else { false } }
        #expect(try await hub.invoke("Add", 1, 2, as: Int.self) == 3)
        hub.stop()
    }

    @Test(arguments: HubFormat.allCases)
    func `a server that is silent is lost after the server timeout`(format: HubFormat) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/quiet", format) { $0.serverTimeout = .milliseconds(300) }
        let error = await hubError { try await hub.invoke("Slow", 3_600_000, as: String.self) }
        #expect(error?.code == .serverTimeout)
        guard case .stopped(let reason) = hub.state else { return #expect(Bool(false), "the client should be stopped") }
        #expect(reason?.code == .serverTimeout)
    }

    @Test func `pings keep a connection alive in both directions`() async throws {
        let server = try await ASPNETServer.shared.value
        // The server closes the connection after two seconds without a message, and sends a ping every half second. On a busy computer, a
        // ping may be late, so that a connection ends all the same. Then, the next one counts.
        for _ in 0..<20 {
            let hub = try await server.connected("/strict") {
                $0.keepAliveInterval = .milliseconds(300)
                $0.serverTimeout = .seconds(2)
            }
            let text = try? await hub.invoke("Slow", 4_000, as: String.self)
            hub.stop()
            if text == "slow" { return }
        }
        Issue.record("Connections end in spite of the pings.")
    }

    /// The server expects further messages after the ping that follows the handshake.
    @Test func `a client that sends nothing is closed by the server, and may come back`() async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/strict") {
            $0.keepAliveInterval = .seconds(3600)
            $0.retry = Self.delays(20)
        }
        let updates = hub.updates()
        _ = await updates.first { if case .reconnected = $0 { true } else { false } }
        hub.stop()
    }

    @Test func `a message that exceeds the limit of the server ends the connection with its reason`() async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/strict")
        let error = await hubError { try await hub.invoke("EchoText", String(repeating: "x", count: 5_000), as: String.self) }
        #expect(error?.code == .closedByServer && error?.serverMessage?.isEmpty == false)
    }

    @Test func `without detailed errors, only the messages of hub exceptions arrive`() async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/strict")
        #expect(await hubError { try await hub.invoke("Boom", "on purpose", as: Int.self) }?.serverMessage?.contains("on purpose") == true)
        #expect(await hubError { try await hub.invoke("Crash", "internal", as: Int.self) }?.serverMessage?.contains("internal") == false)
        hub.stop()
    }

    // MARK: Tokens

    @Test(arguments: HubFormat.allCases)
    func `a revoked token is replaced once, and the client reconnects with the new one`(format: HubFormat) async throws {
        let server = try await ASPNETServer()
        let asked = EventRecorder<Int>()
        let hub = try await server.connected("/auth", format) {
            $0.accessToken = {
                asked.record(1)
                return asked.all.count <= 2 ? "token-anna" : "token-bert"
            }
            $0.retry = Self.delays(20)
        }
        #expect(asked.all.count == 1)
        let updates = hub.updates()
        try await server.control("revoke?token=token-anna")
        try await server.control("cut")
        _ = await updates.first { if case .reconnected = $0 { true } else { false } }
        // Once for the attempt, and once after the status 401.
        #expect(asked.all.count == 3)
        #expect(try await hub.invoke("WhoAmI", as: String.self) == "bert")
        hub.stop()
    }

    @Test func `a token that remains revoked fails the start`() async throws {
        let server = try await ASPNETServer()
        try await server.control("revoke?token=token-anna")
        let asked = EventRecorder<Int>()
        for skips in [true, false] {
            let error = await hubError {
                try await server.connected("/auth") {
                    $0.skipsNegotiation = skips
                    $0.accessToken = {
                        asked.record(1)
                        return "token-anna"
                    }
                }
            }
            #expect(error?.code == .unauthorized && error?.message.contains("token-anna") == false)
        }
        #expect(asked.all.count == 4)
    }

    @Test func `a server closes a connection whose token has expired`() async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/auth") { $0.accessToken = { "token-anna-2" } }
        let updates = hub.updates()
        _ = await updates.first { if case .closed = $0 { true } else { false } }
        guard case .stopped = hub.state else { return #expect(Bool(false), "the client should be stopped") }
        // The server may close it a moment before the token expires.
        try await eventually {
            hub.stop()
            return await hubError { try await hub.start() }?.code == .unauthorized
        }
    }

    // MARK: The end of the server

    @Test(arguments: HubFormat.allCases)
    func `a client reconnects after a shutdown and a restart of the server`(format: HubFormat) async throws {
        let server = try await ASPNETServer()
        let hub = try await server.connected("/test", format) {
            $0.retry = .backoff(Backoff(base: .milliseconds(50), cap: .milliseconds(500)))
        }
        let updates = hub.updates()
        try await server.control("shutdown")
        _ = await updates.first { if case .reconnecting = $0 { true } else { false } }
        try await server.stopped()
        let second = try await ASPNETServer(port: server.port)
        // Not the first reconnect: the server accepts connections for a moment while it shuts down.
        try await eventually { await hubError { try await hub.invoke("Add", 1, 2) } == nil }
        hub.stop()
        try await second.stopped()
    }

    @Test(arguments: HubFormat.allCases)
    func `a message for all hubs arrives at every client`(format: HubFormat) async throws {
        let server = try await ASPNETServer()
        let hub = try await server.connected("/test", format)
        let calls = hub.invocations(of: "tick")
        // ASP.NET Core answers the handshake before it adds the connection to those that receive messages: only then, it handles calls.
        #expect(try await hub.invoke("Add", 1, 2, as: Int.self) == 3)
        try await server.control("broadcast?method=tick&times=3")
        let iterator = calls.makeAsyncIterator()
        for _ in 0..<3 { #expect(await iterator.next()?.target == "tick") }
        hub.stop()
    }
}
