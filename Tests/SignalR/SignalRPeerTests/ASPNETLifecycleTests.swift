import PeerSupport
import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import SignalRHubs
import SignalRWire
import TestSupport
import Testing

/// Negotiation and authentication of the client with an ASP.NET Core server in its own process. Serialized, because some tests start a server,
/// and others end all connections of one.
@Suite(
    .usesSockets, .serialized, .requires(.peers("aspnet")),
    .timeLimit(.minutes(10)))
struct ASPNETLifecycleTests {
    /// A server whose connections no other suite uses. It ends with the process of the tests.
    private static let server = Task { try await ASPNETServer() }

    private static func delays(_ count: Int) -> HubRetryPolicy { .delays(Array(repeating: .milliseconds(50), count: count)) }

    // MARK: Start

    @Test(arguments: [HubPair.json, .messagePack])
    func `a client may skip the negotiation`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair) { ($0.allowedTransports, $0.skipsNegotiation) = (.webSockets, true) }
        expectNil(hub.connectionID)
        try await expectEqual(hub.invoke("Add", 1, 2, as: Int.self), 3)
        try await expectEqual(hub.invoke("ConnId", as: String.self).isEmpty, false)
        hub.stop()
    }

    private static let negotiations: [(String, HubError.Code, String)] = [
        ("/error", .negotiationFailed, "The hub says no."), ("/garbage", .negotiationFailed, "200 OK and a web page"),
        ("/none", .negotiationFailed, "offers no transport"), ("/future", .negotiationFailed, "only WebTransport"),
        ("/classic", .negotiationFailed, "ASP.NET SignalR"), ("/missing", .negotiationFailed, "404"), ("/auth", .unauthorized, "401"),
        ("/redirect-loop", .negotiationFailed, "100 times"),
    ]

    @Test(arguments: HubPair.allCases, Self.negotiations)
    func `a negotiation that can't succeed fails the start with the reason`(
        pair: HubPair, expected: (path: String, code: HubError.Code, text: String)
    ) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = server.client(expected.path, pair)
        let error = await hubError { try await hub.start() }
        expect(error?.code == expected.code && error?.message.contains(expected.text) == true, "\(error?.message ?? "no error")")
        guard case .stopped = hub.state else { return expect(false, "the client should be stopped") }
    }

    @Test(arguments: [
        ("/ws", HubPair.allTransports[1], "only WebSockets (Text, Binary), and this client allows ServerSentEvents"),
        ("/sse", .json, "only ServerSentEvents (Text), and this client allows WebSockets"),
        ("/sse", .allCases[4], "only ServerSentEvents (Text)"), ("/lp", .json, "only LongPolling (Text, Binary)"),
        ("/lp", .allTransports[1], "only LongPolling (Text, Binary), and this client allows ServerSentEvents"),
    ])
    func `a transport that the server doesn't offer fails the start with both offers`(
        path: String, pair: HubPair, text: String
    ) async throws {
        let server = try await ASPNETServer.shared.value
        let error = await hubError { try await server.client(path, pair).start() }
        expect(error?.code == .negotiationFailed && error?.message.contains(text) == true, "\(error?.message ?? "no error")")
    }

    /// The order is that of the server: WebSockets, Server-Sent Events, long polling.
    @Test(arguments: [
        ("/test", HubFormat.json, HubTransport.webSockets), ("/sse", .json, .serverSentEvents), ("/lp", .json, .longPolling),
        ("/lp", .messagePack, .longPolling),
    ])
    func `a client that allows all transports uses the first one that the server offers`(
        path: String, format: HubFormat, transport: HubTransport
    ) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected(path, HubPair(transport: transport, format: format)) { $0.allowedTransports = .all }
        expectEqual(hub.transport, transport)
        try await expectEqual(hub.invoke("Transport", as: String.self), transport.rawValue)
        hub.stop()
    }

    @Test(arguments: HubPair.allCases, ["/redirect", "/redirect-twice"])
    func `a client follows redirects with the token of the redirect`(pair: HubPair, path: String) async throws {
        let server = try await Self.server.value
        let hub = try await server.connected(path, pair) {
            $0.retry = Self.delays(20)
            $0.accessToken = { "token-anna" }
        }
        try await expectEqual(hub.invoke("WhoAmI", as: String.self), "redirected")
        let updates = hub.updates()
        try await server.control("requests?clear=true", "GET")
        try await server.cut()
        _ = await updates.first { if case .reconnected = $0 { true } else { false } }
        // Again with the application's token, at its URL. A poll may have been the last request on the connection.
        let first = try await server.control("requests", "GET").array?.first { $0["path"]?.string?.hasSuffix("negotiate") == true }
        expect(first?["path"]?.string == "\(path)/negotiate" && first?["headers"]?["Authorization"] == "Bearer token-anna")
        try await expectEqual(hub.invoke("WhoAmI", as: String.self), "redirected")
        hub.stop()
    }

    @Test(arguments: HubPair.allCases.filter { $0.format == .messagePack })
    func `a hub that supports only JSON rejects the handshake for MessagePack`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let error = await hubError { try await server.connected("/strict", pair) }
        expect(error?.code == .handshakeFailed && error?.serverMessage?.contains("messagepack") == true)
    }

    @Test func `a refused and a delayed negotiation are retried and awaited`() async throws {
        let server = try await ASPNETServer()
        try await server.control("refuse?times=1&status=503")
        let error = await hubError { try await server.connected("/test") }
        expect(error?.code == .negotiationFailed && error?.status == 503)
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
        expectEqual(late?.code, .timedOut)
    }

    @Test func `a port without a server is an error of the start`() async throws {
        let server = try await ASPNETServer()
        try await server.stopped()
        let error = await hubError { try await server.connected("/test") }
        expect(error?.code == .connectionLost && error?.transportError?.code == .refused)
    }

    // MARK: Tokens

    @Test(arguments: [HubPair.json, .messagePack])
    func `a revoked token is replaced once, and the client reconnects with the new one`(pair: HubPair) async throws {
        let server = try await ASPNETServer()
        let (asked, limit) = (EventRecorder<Int>(), EventRecorder<Int>())
        let hub = try await server.connected("/auth", pair) {
            $0.accessToken = {
                asked.record(1)
                return asked.all.count <= limit.all.first ?? .max ? "token-anna" : "token-bert"
            }
            $0.retry = Self.delays(20)
        }
        let count = asked.all.count
        limit.record(count + 1)
        let updates = hub.updates()
        try await server.revoke("token-anna")
        let cuts = try await server.cut()
        _ = await updates.first { if case .reconnected = $0 { true } else { false } }
        // Once for the attempt, and once after the status 401. A second cut may end the attempt.
        expect(cuts == 1 ? asked.all.count == count + 2 : asked.all.count >= count + 2)
        try await expectEqual(hub.invoke("WhoAmI", as: String.self), "bert")
        hub.stop()
    }

    @Test func `a token that remains revoked fails the start`() async throws {
        let server = try await ASPNETServer()
        try await server.revoke("token-anna")
        let asked = EventRecorder<Int>()
        for skips in [true, false] {
            let error = await hubError {
                try await server.connected("/auth") {
                    ($0.allowedTransports, $0.skipsNegotiation) = (.webSockets, skips)
                    $0.accessToken = {
                        asked.record(1)
                        return "token-anna"
                    }
                }
            }
            expect(error?.code == .unauthorized && error?.message.contains("token-anna") == false)
        }
        expectEqual(asked.all.count, 4)
    }

    @Test func `a server closes a connection whose token has expired`() async throws {
        let server = try await ASPNETServer.shared.value
        let (hub, _) = try await server.expired(.json, user: "anna")
        guard case .stopped = hub.state else { return expect(false, "the client should be stopped") }
        // The server may close it a moment before the token expires.
        try await eventually {
            hub.stop()
            return await hubError { try await hub.start() }?.code == .unauthorized
        }
    }
}
