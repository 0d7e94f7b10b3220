import Foundation
import RealtimeCore
import RealtimeSockets
import RealtimeSystem
import RealtimeTesting
import SignalRClient
import SignalRTesting
import TestSupport
import Testing

/// A server whose tokens are `anna-1`, `anna-2` and so on, and are valid for an hour.
private final class RefreshFixture: Sendable {
    let tokens = EventRecorder<String>()
    /// Replaces the next token.
    let next = Lock<String?>(nil)

    var hooks: SignalRServerHooks {
        var hooks = SignalRServerHooks()
        hooks.authenticate = { request in
            guard let user = request.token?.split(separator: "-").first else { return .reject(status: 401) }
            return .accept(userID: String(user), lifetime: .seconds(3600))
        }
        return hooks
    }

    var configuration: SignalRServerConfiguration {
        var configuration = SignalRServerConfiguration()
        configuration.allowsAuthenticationRefresh = true
        // Long enough for the lifetime of a token, and for other tests, which use the processor.
        (configuration.clientTimeout, configuration.keepAliveInterval) = (.seconds(100_000), .seconds(50_000))
        (configuration.handshakeTimeout, configuration.authenticationTimeout) = (.seconds(600), .seconds(600))
        configuration.connectTimeout = .seconds(600)
        return configuration
    }

    func token() -> String {
        let token = self.next.withLock { $0.take() } ?? "anna-\(self.tokens.all.count + 1)"
        self.tokens.record(token)
        return token
    }

    func builder(_ signalR: InMemorySignalR) -> HubConnectionBuilder {
        var options = HttpConnectionOptions()
        options.accessTokenFactory = { self.token() }
        return signalR.connectionBuilder("/hub").withUrl(url: signalR.url("/hub"), options: options)
            .withServerTimeout(serverTimeout: 100_000).withKeepAliveInterval(keepAliveInterval: 50_000)
    }
}

/// The refresh of the authentication between the client and the server.
@Suite(.timeLimit(.minutes(10))) struct AuthenticationRefreshTests {
    private static func record(_ connection: HubConnection) -> EventRecorder<String> {
        let recorder = EventRecorder<String>()
        connection.onAuthenticationRefreshed { lifetime in recorder.record("refreshed: \(lifetime ?? 0)") }
        connection.onAuthenticationRefreshFailed { error in
            guard case SignalRError.authenticationRefreshFailed(_, let status, let code) = error else { return }
            recorder.record("failed: \(status ?? 0) \(code ?? "")")
        }
        return recorder
    }

    @Test func `a connection refreshes its authentication on request, and calls its handlers`() async throws {
        let fixture = RefreshFixture()
        let signalR = try await InMemorySignalR(configuration: fixture.configuration, hooks: fixture.hooks)
        signalR.server.hub("/hub").on("User") { caller in caller.userID }
        let connection = fixture.builder(signalR).build()
        let results = Self.record(connection)
        await #expect(throws: SignalRError.self) { try await connection.refreshAuthentication() }
        try await connection.start()
        try await expectEqual(connection.refreshAuthentication(), 3600)
        expectEqual(fixture.tokens.all, ["anna-1", "anna-2"])
        fixture.next.withLock { $0 = "bob-1" }
        await #expect {
            try await connection.refreshAuthentication()
        } throws: { error in
            guard case SignalRError.authenticationRefreshFailed(let text, 403, "permission_change_rejected") = error else { return false }
            return text.contains("403") && !text.contains("bob-1")
        }
        try await eventually { results.all == ["refreshed: 3600.0", "failed: 403 permission_change_rejected"] }
        let user: String = try await connection.invoke(method: "User")
        expectEqual(user, "anna")
        await connection.stop()
    }

    @Test func `a connection refreshes its authentication before it expires`() async throws {
        let fixture = RefreshFixture()
        let signalR = try await InMemorySignalR(configuration: fixture.configuration, hooks: fixture.hooks)
        _ = signalR.server.hub("/hub")
        let connection = fixture.builder(signalR).withAuthenticationRefresh(refreshBeforeExpiration: 120).build()
        let results = Self.record(connection)
        try await connection.start()
        let id = connection.connectionId
        for number in 1...3 {
            signalR.clock.advance(by: .seconds(3480))
            try await eventually { results.all.count == number }
        }
        signalR.server.faults.unauthorizedRequests = 1
        signalR.clock.advance(by: .seconds(3480))
        try await eventually { results.all.count == 4 }
        expectEqual(results.all.last, "failed: 401 invalid_token")
        expect(connection.connectionId == id && id != nil)
        await connection.stop()
    }

    @Test func `a builder can switch automatic refreshes off`() async throws {
        let fixture = RefreshFixture()
        let signalR = try await InMemorySignalR(configuration: fixture.configuration, hooks: fixture.hooks)
        let builder = fixture.builder(signalR)
        expect(!builder.build().client.configuration.refreshesAuthentication)
        let configuration = builder.withAuthenticationRefresh().build().client.configuration
        expect(configuration.refreshesAuthentication && configuration.refreshBeforeExpiration == .seconds(300))
        expect(!builder.withAuthenticationRefresh(enableAutoRefresh: false).build().client.configuration.refreshesAuthentication)
    }

}

/// The same over sockets.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct AuthenticationRefreshSocketTests {
    @Test func `a client refreshes its authentication over sockets`() async throws {
        let fixture = RefreshFixture()
        var limits = fixture.configuration
        limits.allowLongTimes()
        let server = SignalRServer(configuration: limits, hooks: fixture.hooks, log: .none)
        server.hub("/hub").on("User") { caller in caller.userID }
        let address = try await server.start(on: SocketListener(limits: .forTests))
        var configuration = try HubConfiguration(url: "http://\(address.host):\(address.port)/hub")
        configuration.accessToken = { fixture.token() }
        configuration.log = .none
        configuration.allowLongTimes()
        let client = HubClient(configuration)
        try await client.start()
        try await expectEqual(client.refreshAuthentication(), .seconds(3600))
        fixture.next.withLock { $0 = "bob-1" }
        let error = await #expect(throws: HubError.self) { try await client.refreshAuthentication() }
        expect(error?.status == 403 && error?.serverCode == "permission_change_rejected")
        try await expectEqual(client.invoke("User", as: String.self), "anna")
        client.stop()
        await server.stop()
    }
}
