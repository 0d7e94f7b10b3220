import PeerSupport
import RealtimeCore
import RealtimeTesting
import SignalRHubs
import SignalRWire
import TestSupport
import Testing

/// Hubs of ASP.NET Core that send no keep-alive messages, or have short limits.
@Suite(.usesSockets, .requires(.peers("aspnet")), .timeLimit(.minutes(10)))
struct ASPNETLimitTests {
    /// The pairs of the transports that need keep-alive messages.
    private static let withPings = HubPair.allCases.filter { $0.transport != .longPolling }
    private static let polling = HubPair.allCases.filter { $0.transport == .longPolling }
    /// The pairs in the only format of the hub at `/strict`.
    private static let strict = HubPair.allTransports

    // MARK: Without keep-alive messages

    @Test(arguments: withPings)
    func `a server that is silent is lost after the server timeout`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/quiet", pair) { $0.serverTimeout = .milliseconds(300) }
        let error = await hubError { try await hub.invoke("Slow", 3_600_000, as: String.self) }
        // The connection may be lost before the call begins.
        expect(error?.code == .serverTimeout || error?.code == .notConnected)
        guard case .stopped(let reason) = hub.state else { return expect(false, "the client should be stopped") }
        expectEqual(reason?.code, .serverTimeout)
    }

    @Test(arguments: polling)
    func `long polling has no server timeout`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/quiet", pair) { $0.serverTimeout = .milliseconds(300) }
        let id = hub.connectionID
        try await expectEqual(hub.invoke("Slow", 1_500, as: String.self), "slow")
        expectEqual(hub.connectionID, id)
        hub.stop()
    }

    // MARK: With short limits

    @Test(arguments: withPings.filter { $0.format == .json })
    func `pings keep a connection alive in both directions`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        // The server closes the connection after two seconds without a message, and sends a ping every half second. On a busy computer, a
        // ping may be late, so that a connection ends all the same. Then, the next one counts.
        for _ in 0..<20 {
            let hub = try await server.connected("/strict", pair) {
                $0.keepAliveInterval = .milliseconds(300)
                $0.serverTimeout = .seconds(2)
            }
            let text = try? await hub.invoke("Slow", 3_000, as: String.self)
            hub.stop()
            if text == "slow" { return }
        }
        Issue.record("Connections end in spite of the pings.")
    }

    /// The server expects further messages after the ping that follows the handshake.
    @Test(arguments: withPings.filter { $0.format == .json })
    func `a client that sends nothing is closed by the server, and may come back`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/strict", pair) {
            $0.keepAliveInterval = .seconds(3600)
            $0.retry = .delays(Array(repeating: .milliseconds(50), count: 20))
        }
        let updates = hub.updates()
        _ = await updates.first { if case .reconnected = $0 { true } else { false } }
        hub.stop()
    }

    /// Each poll shows the server that the client is there.
    @Test func `a client that polls needs no pings`() async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/strict", Self.strict[2]) { $0.keepAliveInterval = .seconds(3600) }
        let id = hub.connectionID
        try await expectEqual(hub.invoke("Slow", 3_000, as: String.self), "slow")
        expectEqual(hub.connectionID, id)
        hub.stop()
    }

    @Test(arguments: strict)
    func `a message that exceeds the limit of the server ends the connection with its reason`(pair: HubPair) async throws {
        let text = String(repeating: "x", count: 5_000)
        let error = try await self.strictError(pair) { hub in await hubError { try await hub.invoke("EchoText", text, as: String.self) } }
        expect(error?.code == .closedByServer && error?.serverMessage?.isEmpty == false)
    }

    @Test(arguments: strict)
    func `without detailed errors, only the messages of hub exceptions arrive`(pair: HubPair) async throws {
        for (method, text, arrives) in [("Boom", "on purpose", true), ("Crash", "internal", false)] {
            let error = try await self.strictError(pair) { hub in await hubError { try await hub.invoke(method, text, as: Int.self) } }
            expectEqual(error?.serverMessage?.contains(text), arrives)
        }
    }

    /// Returns the error of a call of the hub at `/strict`.
    ///
    /// The server closes a connection without a reason after two seconds without a message, which may pass on a busy computer. Then, the call is
    /// repeated with another connection.
    private func strictError(_ pair: HubPair, _ call: (HubClient) async -> HubError?) async throws -> HubError? {
        let server = try await ASPNETServer.shared.value
        for _ in 0..<20 {
            let hub = try await server.connected("/strict", pair) { $0.keepAliveInterval = .milliseconds(300) }
            defer { hub.stop() }
            let error = await call(hub)
            if error == nil || error?.serverMessage?.isEmpty == false { return error }
        }
        return nil
    }
}
