import ProxySupport
import RealtimeCore
import RealtimeSockets
import RelayProtocol
import TestSupport
import Testing

/// Connections over HTTP requests, and a WebSocket for comparison, through the tunnels of tinyproxy.
@Suite(.usesSockets, .requires(.tinyproxy), .timeLimit(.minutes(10)))
struct TinyproxyRelayTests {
    private static let kinds: [RelaySession.Kind] = [.socket, .stream, .polling]

    /// Runs `body` with a server and a running proxy.
    private static func with(
        _ kind: RelaySession.Kind, isSecure: Bool = false, _ change: (inout Tinyproxy.Options, RunningRelay) -> Void = { _, _ in },
        _ body: (RunningRelay, Tinyproxy) async throws -> Void
    ) async throws {
        let relay = try await RunningRelay(kind, isSecure: isSecure)
        do {
            let proxy = try Tinyproxy { change(&$0, relay) }
            try await proxy.start()
            try await body(relay, proxy)
            await proxy.stop()
        } catch {
            await relay.stop()
            throw error
        }
        await relay.stop()
    }

    @Test(arguments: Self.kinds, NginxRelayTests.wires)
    func `messages pass through tinyproxy in both directions`(_ kind: RelaySession.Kind, isSecure: Bool) async throws {
        try await Self.with(kind, isSecure: isSecure) { options, relay in
            options.credentials = .init(username: "anna", password: "hunter2")
            options.port = relay.port
        } _: { relay, proxy in
            let client = RecordedRelayClient(port: relay.port, isSecure: isSecure, proxy: proxy.configuration)
            try await client.connected(kind)
            try await client.exchange(with: relay.server)
            expect(client.losses.isEmpty)
        }
    }

    @Test(.requires(.openSSL), arguments: [RelaySession.Kind.stream, .polling])
    func `the certificate of the server is checked through tinyproxy`(_ kind: RelaySession.Kind) async throws {
        try await Self.with(kind, isSecure: true) { relay, proxy in
            var tls = TLSConfiguration()
            tls.trustRoots = .only([.file(Vectors.path("certificates/other-root.pem"))])
            let client = RecordedRelayClient(port: relay.port, isSecure: true, proxy: proxy.configuration, trusting: tls)
            let error = try await client.failure("the attempt fails") { _ in true }
            expectEqual(error.code, .certificateRejected, "\(error)")
        }
    }

    @Test(arguments: Self.kinds, NginxRelayTests.wires)
    func `a client reconnects after a restart of tinyproxy`(_ kind: RelaySession.Kind, isSecure: Bool) async throws {
        try await Self.with(kind, isSecure: isSecure) { relay, proxy in
            let client = RecordedRelayClient(port: relay.port, isSecure: isSecure, proxy: proxy.configuration)
            try await client.connected(kind)
            await proxy.stop()
            guard case .transport(let error) = try await client.loss() else {
                Issue.record("The connection should be lost with an error.")
                return
            }
            // The next poll may have been sent afterwards.
            expect([.closed, .reset].contains(error.code) || kind == .polling && error.code == .refused, "\(error)")
            let refusal = try await client.failure("nothing listens") { $0.code == .refused }
            expect(refusal.message.contains("proxy") && refusal.message.contains("\(proxy.port)"), "\(refusal)")
            try await proxy.start()
            try await client.connected(kind, 2)
            try await client.exchange(with: relay.server)
        }
    }

    @Test(arguments: [RelaySession.Kind.stream, .polling])
    func `a tunnel that tinyproxy closes for inactivity is lost, and re-established`(_ kind: RelaySession.Kind) async throws {
        try await Self.with(kind) { options, _ in
            options.timeout = 1
        } _: { relay, proxy in
            let client = RecordedRelayClient(port: relay.port, isSecure: false, proxy: proxy.configuration)
            let error = try await client.failure("the tunnel is closed") { $0.code == .closed || $0.code == .reset }
            expect(error.message.contains("localhost:\(relay.port)"), "\(error)")
            try await client.connected(kind, 2)
        }
    }

    @Test(arguments: ["port", "host", "credentials", "server"])
    func `a tunnel that tinyproxy refuses is reported`(_ reason: String) async throws {
        try await Self.with(.stream) { options, relay in
            switch reason {
            case "port": options.port = relay.port + 1
            case "host": options.refusedHost = "localhost"
            case "credentials": options.credentials = .init(username: "anna", password: "hunter2")
            default: break
            }
        } _: { relay, proxy in
            // Nothing listens on port 1, which the system never assigns.
            let port = reason == "server" ? 1 : relay.port
            let configuration = ProxyConfiguration.http(host: "127.0.0.1", port: proxy.port)
            let client = RecordedRelayClient(port: port, isSecure: false, proxy: configuration)
            let error = try await client.failure("the attempt fails") { _ in true }
            expectEqual(error.code, .proxyRejected, "\(error)")
            expectEqual(error.status, ["port": 403, "host": 403, "credentials": 407, "server": 500][reason], "\(error)")
            expect(error.message.contains(":\(proxy.port)"), "\(error)")
        }
    }
}
