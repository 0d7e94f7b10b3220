import PeerSupport
import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import SignalRHubs
import SignalRWire
import TestSupport
import Testing

/// Losses, ends and reconnects of the client with an ASP.NET Core server in its own process. Serialized, because the tests end all connections of
/// the same server.
@Suite(
    .usesSockets, .serialized, .requires(.peers("aspnet")),
    .timeLimit(.minutes(10)))
struct ASPNETLossTests {
    /// A server whose connections no other suite uses. It ends with the process of the tests.
    private static let server = Task { try await ASPNETServer() }

    private static func delays(_ count: Int) -> HubRetryPolicy { .delays(Array(repeating: .milliseconds(50), count: count)) }

    @Test(arguments: HubPair.allCases)
    func `a cut connection fails its calls, and the client reconnects`(pair: HubPair) async throws {
        let server = try await Self.server.value
        func started() async throws -> Int { try await server.control("streams", "GET")["started"]?.int ?? 0 }
        let before = try await started()
        let hub = try await server.connected("/test", pair) { $0.retry = Self.delays(20) }
        let (updates, first) = (hub.updates(), hub.connectionID)
        let call = Task { await hubError { try await hub.invoke("Slow", 3_600_000, as: String.self) } }
        let stream = try hub.stream("Counter", 1_000_000, 1, of: Int.self)
        try await eventually { try await started() == before + 1 }
        // The task of the call may not have started yet.
        try await eventually { hub.driver.read { $0.waiterCount } > 0 }
        // Between two polls, the only requests that are cut may be others.
        try await eventually {
            try await server.cut()
            return hub.connectionID != first
        }
        let failure = await call.value
        expectEqual(failure?.code, .connectionLost, "\(failure as Any)")
        await expectEqual(stream.all().error?.code, .connectionLost)
        _ = await updates.first { if case .reconnected = $0 { true } else { false } }
        let second = try #require(hub.connectionID)
        expect(second != first)
        try await expectEqual(hub.invoke("Add", 1, 2, as: Int.self), 3)
        hub.stop()
        // The server keeps a connection whose poll was cut for 15 seconds.
        try await eventually {
            let live = try await server.control("connections", "GET")["live"]?.array ?? []
            return !live.contains { $0["id"]?.string == second }
        }
    }

    @Test(arguments: HubPair.allCases)
    func `an abort by the hub closes the client for good`(pair: HubPair) async throws {
        let server = try await Self.server.value
        for method in ["AbortMe", nil] {
            let hub = try await server.connected("/test", pair) { $0.retry = Self.delays(20) }
            let updates = hub.updates()
            if let method { try await hub.send(method) } else { try await server.abort(hub.connectionID) }
            _ = await updates.first { if case .closed = $0 { true } else { false } }
            guard case .stopped = hub.state else { return expect(false, "the client should be stopped") }
            // And may be started again.
            try await server.start { try await hub.start() }
            try await expectEqual(hub.invoke("Add", 1, 2, as: Int.self), 3)
            hub.stop()
        }
    }

    @Test(arguments: HubPair.allCases.filter { $0.transport != .longPolling })
    func `a connection that the hub resets is re-established`(pair: HubPair) async throws {
        let server = try await ASPNETServer.shared.value
        let hub = try await server.connected("/test", pair) { $0.retry = Self.delays(20) }
        let updates = hub.updates()
        // Over HTTP, the hub resets the connection before it answers the request.
        try? await hub.send("CutMe")
        _ = await updates.first { if case .reconnected = $0 { true } else { false } }
        try await expectEqual(hub.invoke("Add", 1, 2, as: Int.self), 3)
        hub.stop()
    }

    @Test(arguments: HubPair.allCases)
    func `a client reconnects after a shutdown and a restart of the server`(pair: HubPair) async throws {
        let server = try await ASPNETServer()
        let hub = try await server.connected("/test", pair) {
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

    @Test(arguments: HubPair.allCases)
    func `a message for all hubs arrives at every client`(pair: HubPair) async throws {
        let server = try await Self.server.value
        let hub = try await server.connected("/test", pair)
        let calls = hub.invocations(of: "tick")
        // ASP.NET Core answers the handshake before it adds the connection to those that receive messages: only then, it handles calls.
        try await expectEqual(hub.invoke("Add", 1, 2, as: Int.self), 3)
        try await server.control("broadcast?method=tick&times=3")
        let iterator = calls.makeAsyncIterator()
        for _ in 0..<3 { await expectEqual(iterator.next()?.target, "tick") }
        hub.stop()
    }
}
