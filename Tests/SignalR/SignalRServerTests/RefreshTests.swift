import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import TestSupport
import Testing

@testable import SignalRServer

/// The refresh of the authentication of a connection.
@Suite(.timeLimit(.minutes(10))) struct RefreshTests {
    /// Accepts tokens such as `anna-1`, whose first part is the user and whose second part is the lifetime in seconds.
    private static let hooks: SignalRServerHooks = {
        var hooks = SignalRServerHooks()
        hooks.authenticate = { request in
            guard let parts = request.token?.split(separator: "-"), parts.count == 2 else { return .reject(status: 401) }
            return .accept(userID: String(parts[0]), lifetime: Int(parts[1]).map { .seconds($0) })
        }
        return hooks
    }()

    private static func makeServer(_ hooks: SignalRServerHooks = Self.hooks) async throws -> HubUnderTest {
        try await HubUnderTest(hooks: hooks) { $0.allowsAuthenticationRefresh = true }
    }

    /// Connects, and returns the connection with its token.
    private static func connect(_ test: HubUnderTest, token: String = "anna-60") async throws -> (RawHubClient, String) {
        let headers: HTTPHeaders = ["Authorization": "Bearer \(token)"]
        let id = try await test.negotiate(headers: headers)["connectionToken"]?.string ?? ""
        return (try await test.connect("/hub?id=\(id)", headers: headers), id)
    }

    private static func refresh(_ test: HubUnderTest, _ id: String, token: String) async throws -> (status: Int, body: JSONValue) {
        let response = try await test.request("POST", "/hub/refresh?id=\(id)", headers: ["Authorization": "Bearer \(token)"])
        expectEqual(response.head.headers["Content-Type"], "application/json")
        return (response.head.status, try JSONValue(parsing: response.body))
    }

    @Test func `a negotiation of version 1 reports the lifetime of the token, if refreshes are allowed`() async throws {
        let target = "/hub/negotiate?access_token=anna-60"
        let test = try await Self.makeServer()
        try await expectEqual(test.negotiate("\(target)&negotiateVersion=1")["tokenLifetimeSeconds"], 60)
        try await expectNil(test.negotiate(target)["tokenLifetimeSeconds"])
        try await expectNil(test.negotiate("/hub/negotiate?access_token=anna-x&negotiateVersion=1")["tokenLifetimeSeconds"])
        let other = try await HubUnderTest(hooks: Self.hooks)
        try await expectNil(other.negotiate("\(target)&negotiateVersion=1")["tokenLifetimeSeconds"])
    }

    @Test func `a refresh answers with the new lifetime, and the connection remains`() async throws {
        let test = try await Self.makeServer()
        let events = test.server.events
        let (client, id) = try await Self.connect(test)
        let connectionID = test.hub.connectionIDs[0]
        #expect(
            try await Self.refresh(test, id, token: "anna-90") == (
                200, ["connectionId": .string(connectionID), "tokenLifetimeSeconds": 90]
            ))
        #expect(try await Self.refresh(test, id, token: "anna-x") == (200, ["connectionId": .string(connectionID)]))
        let event = await events.first { if case .refreshed = $0 { true } else { false } }
        expectEqual(event, .refreshed(hub: "/hub", connectionID: connectionID, userID: "anna"))
        expectEqual(test.hub.connectionIDs, [connectionID])
        client.close()
    }

    @Test(arguments: ["GET", "PUT", "DELETE"])
    func `a refresh needs the method POST`(method: String) async throws {
        let test = try await Self.makeServer()
        try await expectEqual(test.request(method, "/hub/refresh?id=x").head.status, 405)
    }

    @Test func `refreshes are rejected unless they are allowed`() async throws {
        let test = try await HubUnderTest(hooks: Self.hooks)
        let (client, id) = try await Self.connect(test)
        let (status, body) = try await Self.refresh(test, id, token: "anna-60")
        expect(status == 404 && body["error"] == "refresh_disabled" && body["error_description"]?.string?.isEmpty == false)
        client.close()
    }

    @Test func `a refresh needs the token of an established connection`() async throws {
        let test = try await Self.makeServer()
        let (client, id) = try await Self.connect(test)
        for target in ["/hub/refresh", "/hub/refresh?id="] {
            let response = try await test.request("POST", target)
            expectEqual(response.head.status, 400)
            try expectEqual(JSONValue(parsing: response.body)["error"], "missing_connection_token")
        }
        // The public ID, an unknown one, one of another hub, one that isn't connected, one of version 0, and one that has ended.
        _ = test.server.hub("/other")
        let elsewhere = try await test.request("POST", "/other/refresh?id=\(id)", headers: ["Authorization": "Bearer anna-60"])
        expectEqual(elsewhere.head.status, 404)
        let waiting = try await test.negotiate(headers: ["Authorization": "Bearer anna-60"])["connectionToken"]?.string ?? ""
        let old = try await test.negotiate("/hub/negotiate?access_token=anna-60")["connectionId"]?.string ?? ""
        let oldClient = try await test.connect("/hub?id=\(old)&access_token=anna-60")
        for token in [test.hub.connectionIDs[0], "x", waiting, old] {
            let (status, body) = try await Self.refresh(test, token, token: "anna-60")
            expect(status == 404 && body["error"] == "connection_not_found")
        }
        try await expectEqual(Self.refresh(test, id, token: "anna-60").status, 200)
        client.close()
        oldClient.close()
        try await eventually { test.hub.connectionIDs.isEmpty }
        try await expectEqual(Self.refresh(test, id, token: "anna-60").status, 404)
    }

    @Test func `an invalid token and another user are rejected, and the connection remains`() async throws {
        let test = try await Self.makeServer()
        let events = test.server.events
        let (client, id) = try await Self.connect(test)
        #expect(
            try await Self.refresh(test, id, token: "nonsense") == (
                401,
                [
                    "error": "invalid_token", "error_description": "The access token is missing or invalid.",
                ]
            ))
        let (status, body) = try await Self.refresh(test, id, token: "bob-60")
        expect(status == 403 && body["error"] == "permission_change_rejected")
        test.server.faults.expiredTokens = ["anna-30"]
        try await expectEqual(Self.refresh(test, id, token: "anna-30").status, 401)
        await expect(events.first { $0 == .rejected(hub: "/hub", status: 403) } != nil)
        expect(test.hub.connectionIDs.count == 1 && client.endings.all.isEmpty)
        try await expectEqual(Self.refresh(test, id, token: "anna-60").status, 200)
        client.close()
    }

    @Test func `the application may reject a refresh`() async throws {
        let refreshes = EventRecorder<SignalRAuthenticationRefresh>()
        var hooks = Self.hooks
        hooks.approveRefresh = { refresh in
            refreshes.record(refresh)
            return refresh.authentication.token != "anna-13"
        }
        let test = try await Self.makeServer(hooks)
        let (client, id) = try await Self.connect(test)
        try await expectEqual(Self.refresh(test, id, token: "anna-13").status, 403)
        try await expectEqual(Self.refresh(test, id, token: "bob-60").status, 403)
        try await expectEqual(Self.refresh(test, id, token: "anna-90").status, 200)
        // Another user is rejected without the application.
        expectEqual(refreshes.all.map(\.authentication.token), ["anna-13", "anna-90"])
        expect(refreshes.all.allSatisfy { $0.userID == "anna" && $0.connectionID == test.hub.connectionIDs[0] })
        expect(refreshes.all.allSatisfy { $0.authentication.isRefresh && !$0.authentication.isNegotiation })
        client.close()
    }

    @Test func `a refresh whose connection ends meanwhile isn't accepted`() async throws {
        let (asked, decide) = (Signal(), Signal())
        var hooks = SignalRServerHooks()
        hooks.approveRefresh = { _ in
            asked.send()
            await decide.wait()
            return true
        }
        let test = try await Self.makeServer(hooks)
        let (client, id) = try await Self.connect(test)
        async let response = Self.refresh(test, id, token: "x")
        await asked.wait()
        client.close()
        try await eventually { test.hub.connectionIDs.isEmpty }
        decide.send()
        try await expectEqual(response.body["error"], "connection_not_found")
    }

    @Test func `hooks that don't decide about a refresh are cancelled in time`() async throws {
        let asked = Signal()
        var hooks = SignalRServerHooks()
        hooks.approveRefresh = { _ in
            asked.send()
            await Signal().wait()
            return true
        }
        let test = try await Self.makeServer(hooks)
        let (client, id) = try await Self.connect(test)
        async let response = Self.refresh(test, id, token: "x")
        await asked.wait()
        test.clock.advance(by: .seconds(10))
        try await expectEqual(response.status, 503)
        client.close()
    }
}
