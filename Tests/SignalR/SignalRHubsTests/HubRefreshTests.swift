import RealtimeCore
import RealtimeTesting
import SignalRWire
import TestSupport
import Testing

@testable import SignalRHubs

/// The refresh of the authentication.
@Suite(.timeLimit(.minutes(10))) struct HubRefreshTests {
    /// A hub that negotiates with a lifetime, and answers the refreshes of the authentication as a test says.
    private static func script(
        lifetime: String = "3600", _ answer: @escaping @Sendable (_ number: Int) -> HTTPResponse?
    ) -> ScriptedHub.Script {
        let refreshes = EventRecorder<Void>()
        var script = ScriptedHub.Script()
        script.negotiate = { request, number in
            if request.path.hasSuffix("/refresh") {
                refreshes.record(())
                return answer(refreshes.all.count)
            }
            return Self.negotiation(number - refreshes.all.count, lifetime: lifetime)
        }
        return script
    }

    private static func negotiation(_ number: Int, lifetime: String) -> HTTPResponse {
        let text = String(decoding: ScriptedHub.response(number).body, as: UTF8.self)
        return ScriptedHub.json(text.replacing(#""extra":null"#, with: #""tokenLifetimeSeconds":\#(lifetime)"#))
    }

    private static let accepted = ScriptedHub.json(
        #"{"connectionId":"id-1","refreshedAt":"2026-11-22T10:00:00Z","tokenLifetimeSeconds":1800}"#)

    /// A connected client, which is asked for `token-1`, `token-2` and so on, and has no other timers than those of refreshes.
    private static func connected(
        _ script: ScriptedHub.Script = Self.script { _ in Self.accepted }, isAutomatic: Bool = false,
        _ configure: (inout HubConfiguration) -> Void = { _ in }
    ) async throws -> HubFixture {
        let count = EventRecorder<Void>()
        return try await HubFixture.connected(negotiates: true, script) {
            $0.accessToken = {
                count.record(())
                return "token-\(count.all.count)"
            }
            ($0.serverTimeout, $0.keepAliveInterval) = (.zero, .zero)
            $0.refreshesAuthentication = isAutomatic
            configure(&$0)
        }
    }

    // MARK: The request

    @Test func `a refresh sends a new token, and returns the new lifetime`() async throws {
        let hub = try await Self.connected { $0.headers = ["X-App": "one"] }
        try await expectEqual(hub.client.refreshAuthentication(), .seconds(1800))
        let request = try #require(hub.refreshes.last)
        expect(request.method == "POST" && request.target == "/chat/refresh?room=1&id=secret-token-1")
        expect(request.headers["Authorization"] == "Bearer token-2" && request.headers["X-App"] == "one")
        expectEqual(request.headers["X-Requested-With"], "XMLHttpRequest")
        try await eventually { hub.events == [.authenticationRefreshed(lifetime: .seconds(1800))] }
        expect(hub.isConnected && hub.transportToken == "token-2")
        expectNil(hub.nextTimer)
    }

    @Test func `a refresh may answer without a lifetime`() async throws {
        let hub = try await Self.connected(Self.script { _ in ScriptedHub.json("{}") })
        try await expectNil(hub.client.refreshAuthentication())
        try await eventually { hub.events == [.authenticationRefreshed(lifetime: nil)] }
    }

    @Test(
        arguments: [
            (400, "missing_connection_token"), (400, "windows_identity_not_supported"), (401, "invalid_token"),
            (403, "permission_change_rejected"), (404, "refresh_disabled"), (404, "connection_not_found"),
        ])
    func `a refused refresh throws the status and the reason of the server, and the connection remains`(
        status: Int, code: String
    ) async throws {
        let answer = ScriptedHub.json(#"{"error":"\#(code)","error_description":"Not token-2."}"#, status: status)
        let hub = try await Self.connected(Self.script { $0 == 1 ? answer : Self.accepted })
        let error = try #require(await hubError { try await hub.client.refreshAuthentication() })
        expect(error.code == .authenticationRefreshFailed && error.status == status)
        expect(error.serverCode == code && error.serverMessage == "Not ….")
        expect(error.message.contains("\(status) (\(code)): Not ….") && !error.message.contains("token-2"))
        try await eventually { hub.events == [.authenticationRefreshFailed(error)] }
        expect(hub.isConnected && hub.transportToken == "token-1")
        try await expectEqual(hub.client.refreshAuthentication(), .seconds(1800))
        expectEqual(hub.transportToken, "token-3")
    }

    @Test(arguments: [(405, "Use POST."), (404, ""), (500, "<html><title>Broken</title></html>"), (204, ""), (400, "[]")])
    func `another answer is an error with its status`(status: Int, body: String) async throws {
        let hub = try await Self.connected(Self.script { _ in ScriptedHub.json(body, status: status) })
        let error = try #require(await hubError { try await hub.client.refreshAuthentication() })
        expect(error.code == .authenticationRefreshFailed && error.status == status && error.serverCode == nil)
        expect(error.message.contains("\(status)") && hub.isConnected)
        expectEqual(error.message.contains("Enable authentication refresh"), (status == 404))
    }

    @Test(arguments: ["", "nonsense", "[]", #"{"accessToken":"a\nb"}"#])
    func `an answer that can't be read isn't a success`(body: String) async throws {
        let hub = try await Self.connected(Self.script { _ in ScriptedHub.json(body) })
        let error = await hubError { try await hub.client.refreshAuthentication() }
        expect(error?.code == .authenticationRefreshFailed && hub.isConnected && hub.transportToken == "token-1")
    }

    @Test func `a request that fails is an error with its cause`() async throws {
        let hub = try await Self.connected()
        hub.network.condition = .down
        let error = await hubError { try await hub.client.refreshAuthentication() }
        expect(error?.code == .authenticationRefreshFailed && error?.transportError?.code == .unreachable)
    }

    @Test func `a provider of tokens that throws fails the refresh alone`() async throws {
        struct Refused: Error { var secret = "hidden-password" }
        let count = EventRecorder<Void>()
        let hub = try await Self.connected {
            $0.accessToken = {
                count.record(())
                if count.all.count == 2 { throw Refused() }
                return count.all.count == 3 ? "a b" : "token"
            }
        }
        for _ in 1...2 {
            let error = try #require(await hubError { try await hub.client.refreshAuthentication() })
            expect(error.code == .tokenFailed && !error.message.contains("hidden") && hub.isConnected)
            try await eventually { hub.events.last == .authenticationRefreshFailed(error) }
        }
        expect(hub.refreshes.isEmpty)
        try await expectEqual(hub.client.refreshAuthentication(), .seconds(1800))
    }

    @Test func `without a provider of tokens, header fields and cookies authenticate the refresh`() async throws {
        var script = Self.script { _ in Self.accepted }
        let negotiate = script.negotiate
        script.negotiate = { request, number in
            var response = negotiate(request, number)
            response?.head.headers.add("Set-Cookie", "session=\(number); Path=/")
            return response
        }
        let hub = try await Self.connected(script) { $0.accessToken = nil }
        try await hub.client.refreshAuthentication()
        try await hub.client.refreshAuthentication()
        expectEqual(hub.refreshes.map { $0.headers["Cookie"] }, ["session=1", "session=2"])
        expect(hub.refreshes.allSatisfy { $0.headers["Authorization"] == nil })
    }

    @Test func `refreshes at the same time share one request`() async throws {
        let hub = try await Self.connected(Self.script { _ in nil })
        let calls = (1...3).map { _ in Task { try await hub.client.refreshAuthentication() } }
        try await eventually { hub.client.driver.read { $0.waiterCount } == 3 && hub.server.silent.all.count == 1 }
        hub.server.silent.all[0].respond(Self.accepted)
        for call in calls { try await expectEqual(call.value, .seconds(1800)) }
        try await eventually { hub.events == [.authenticationRefreshed(lifetime: .seconds(1800))] }
        expectEqual(hub.refreshes.count, 1)
    }

    // MARK: Connections without a refresh

    @Test func `a refresh without a connection throws`() async throws {
        let hub = try await HubFixture(negotiates: true) { $0.retry = .delays([.seconds(1)]) }
        func code() async -> HubError.Code? { await hubError { try await hub.client.refreshAuthentication() }?.code }
        await expectEqual(code(), .notConnected)
        try await hub.client.start()
        hub.network.cut()
        try await eventually { hub.isReconnecting }
        await expectEqual(code(), .notConnected)
        hub.client.stop()
        await expectEqual(code(), .notConnected)
        expect(hub.refreshes.isEmpty)
    }

    @Test(arguments: [true, false])
    func `a connection without a token of its own can't be refreshed`(negotiates: Bool) async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { _, _ in
            ScriptedHub.json(
                #"{"connectionId":"i","tokenLifetimeSeconds":60,"availableTransports":[{"transport":"WebSockets","transferFormats":["Text"]}]}"#
            )
        }
        let hub = try await Self.connected(script, isAutomatic: true) {
            ($0.allowedTransports, $0.skipsNegotiation) = (.webSockets, !negotiates)
        }
        let error = await hubError { try await hub.client.refreshAuthentication() }
        expect(error?.code == .authenticationRefreshFailed && error?.message.contains("version 1") == true)
        expect(hub.nextTimer == nil && hub.refreshes.isEmpty && hub.events.isEmpty)
    }

    // MARK: The end of a call

    @Test func `a cancelled call throws, and the refresh continues for others`() async throws {
        let hub = try await Self.connected(Self.script { _ in nil })
        let calls = (1...2).map { _ in Task { try await hub.client.refreshAuthentication() } }
        try await eventually { hub.client.driver.read { $0.waiterCount } == 2 && hub.server.silent.all.count == 1 }
        calls[0].cancel()
        await expectEqual(hubError { try await calls[0].value }?.code, .cancelled)
        hub.server.silent.all[0].respond(Self.accepted)
        try await expectEqual(calls[1].value, .seconds(1800))
    }

    @Test func `the refresh ends with the cancellation of its last call`() async throws {
        let hub = try await Self.connected(Self.script { $0 == 1 ? nil : Self.accepted })
        let call = Task { try await hub.client.refreshAuthentication() }
        try await eventually { hub.server.silent.all.count == 1 }
        call.cancel()
        await expectEqual(hubError { try await call.value }?.code, .cancelled)
        hub.server.silent.all[0].respond(Self.accepted)
        expect(hub.nextTimer == nil && hub.transportToken == "token-1" && hub.events.isEmpty)
        try await expectEqual(hub.client.refreshAuthentication(), .seconds(1800))
        expectEqual(hub.transportToken, "token-3")
    }

    @Test(arguments: [true, false])
    func `a refresh ends with its connection, and a late answer has no effect`(isStopped: Bool) async throws {
        let hub = try await Self.connected(Self.script { _ in nil }) { $0.retry = .delays([.seconds(1)]) }
        let call = Task { try await hub.client.refreshAuthentication() }
        try await eventually { hub.server.silent.all.count == 1 }
        if isStopped { hub.client.stop() } else { hub.server.close(.goingAway) }
        await expectEqual(hubError { try await call.value }?.code, (isStopped ? .stopped : .connectionLost))
        if isStopped { try await hub.client.start() } else { hub.clock.advance(by: .seconds(1)) }
        try await eventually { hub.isConnected }
        hub.server.silent.all[0].respond(Self.accepted)
        expect(hub.transportToken == "token-3" && hub.client.driver.read { $0.refresh == nil })
        expect(!hub.events.contains { if case .authenticationRefreshed = $0 { true } else { false } })
        expect(!hub.events.contains { if case .authenticationRefreshFailed = $0 { true } else { false } })
    }

    @Test(arguments: [true, false])
    func `a refresh that takes too long ends`(hasToken: Bool) async throws {
        let (count, asked) = (EventRecorder<Void>(), Signal())
        let hub = try await Self.connected(Self.script { $0 == 1 && hasToken ? nil : Self.accepted }) {
            $0.connectTimeout = .seconds(20)
            $0.accessToken = {
                count.record(())
                if count.all.count == 2 {
                    asked.send()
                    if !hasToken { await Signal().wait() }
                }
                return "token-\(count.all.count)"
            }
        }
        let call = Task { try await hub.client.refreshAuthentication() }
        await asked.wait()
        if hasToken { try await eventually { hub.server.silent.all.count == 1 } }
        hub.clock.advance(by: .seconds(20))
        await expectEqual(hubError { try await call.value }?.code, .timedOut)
        expect(hub.isConnected && hub.nextTimer == nil)
        try await expectEqual(hub.client.refreshAuthentication(), .seconds(1800))
    }

    // MARK: Automatic refreshes

    @Test func `the authentication is refreshed five minutes before its end, by the lifetime of each answer`() async throws {
        let hub = try await Self.connected(
            Self.script { $0 == 3 ? ScriptedHub.json("{}") : Self.accepted }, isAutomatic: true)
        for (number, delay) in [(1, 3300), (2, 1500), (3, 1500)] {
            hub.clock.advance(by: .seconds(delay - 1))
            expect(hub.refreshes.count == number - 1 && hub.events.count == number - 1)
            hub.clock.advance(by: .seconds(1))
            try await eventually { hub.events.count == number }
            expectEqual(hub.refreshes.last?.headers["Authorization"], "Bearer token-\(number + 1)")
        }
        try await eventually { hub.events.last == .authenticationRefreshed(lifetime: nil) }
        expectNil(hub.nextTimer)
    }

    @Test(arguments: [
        ("600", 300, 300), ("480", 300, 240), ("90", 20, 70), ("90", 0, 90), ("1", 300, 1), ("1e308", 0, 3_153_600_000),
    ])
    func `a short lifetime is refreshed after half of it`(lifetime: String, before: Int, delay: Int) async throws {
        let hub = try await Self.connected(Self.script(lifetime: lifetime) { _ in ScriptedHub.json("{}") }, isAutomatic: true) {
            $0.refreshBeforeExpiration = .seconds(before)
        }
        expectEqual(hub.nextTimer, .seconds(delay))
        hub.clock.advance(by: .seconds(delay))
        try await eventually { hub.events == [.authenticationRefreshed(lifetime: nil)] }
    }

    @Test(arguments: [("null", true), ("0", true), ("-1", true), (#""3600""#, true), ("3600", false)])
    func `without a lifetime, or unless it is switched on, nothing is refreshed automatically`(
        lifetime: String, isAutomatic: Bool
    ) async throws {
        let hub = try await Self.connected(Self.script(lifetime: lifetime) { _ in Self.accepted }, isAutomatic: isAutomatic)
        expectNil(hub.nextTimer)
        try await hub.client.refreshAuthentication()
        expectEqual((hub.nextTimer == nil), !isAutomatic)
    }

    @Test func `a failed automatic refresh is reported, and isn't repeated`() async throws {
        let hub = try await Self.connected(
            Self.script { $0 == 1 ? HTTPResponse(status: 503) : Self.accepted }, isAutomatic: true)
        hub.clock.advance(by: .seconds(3300))
        try await eventually { hub.events.count == 1 }
        guard case .authenticationRefreshFailed(let error) = hub.events[0] else {
            Issue.record("the refresh should have failed")
            return
        }
        expect(error.status == 503 && hub.isConnected && hub.nextTimer == nil)
        // A manual refresh continues with the lifetime of its answer.
        try await hub.client.refreshAuthentication()
        expectEqual(hub.nextTimer, .seconds(1500))
    }

    @Test func `a call joins an automatic refresh, which doesn't end with it`() async throws {
        let hub = try await Self.connected(Self.script { _ in nil }, isAutomatic: true)
        hub.clock.advance(by: .seconds(3300))
        try await eventually { hub.server.silent.all.count == 1 }
        let call = Task { try await hub.client.refreshAuthentication() }
        try await eventually { hub.client.driver.read { $0.waiterCount } == 1 }
        call.cancel()
        await expectEqual(hubError { try await call.value }?.code, .cancelled)
        hub.server.silent.all[0].respond(Self.accepted)
        try await eventually { hub.events == [.authenticationRefreshed(lifetime: .seconds(1800))] }
        expectEqual(hub.refreshes.count, 1)
    }

    @Test func `an automatic refresh joins the one of a call, and doesn't end with it`() async throws {
        let hub = try await Self.connected(Self.script { _ in nil }, isAutomatic: true)
        hub.clock.advance(by: .seconds(3250))
        let call = Task { try await hub.client.refreshAuthentication() }
        try await eventually { hub.server.silent.all.count == 1 }
        hub.clock.advance(by: .seconds(50))
        call.cancel()
        await expectEqual(hubError { try await call.value }?.code, .cancelled)
        hub.server.silent.all[0].respond(Self.accepted)
        try await eventually { hub.events == [.authenticationRefreshed(lifetime: .seconds(1800))] }
        expectEqual(hub.refreshes.count, 1)
    }

    @Test func `after a reconnect, refreshes begin with the lifetime of the new negotiation`() async throws {
        let hub = try await Self.connected(isAutomatic: true) { $0.retry = .delays([.seconds(10)]) }
        hub.clock.advance(by: .seconds(3000))
        hub.network.cut()
        try await eventually { hub.isReconnecting }
        expectEqual(hub.nextTimer, .seconds(10))
        hub.clock.advance(by: .seconds(10))
        try await eventually { hub.isConnected }
        expectEqual(hub.nextTimer, .seconds(3300))
        hub.clock.advance(by: .seconds(3300))
        try await eventually { hub.refreshes.last?.target == "/chat/refresh?room=1&id=secret-token-2" }
        hub.client.stop()
        expectNil(hub.nextTimer)
    }

    // MARK: Redirections

    @Test(arguments: [nil, "of-the-service-2"])
    func `after a redirect, the refresh goes to the URL and with the token of the application`(transportToken: String?) async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { request, number in
            switch request.path {
            case "/chat/negotiate":
                return ScriptedHub.json(#"{"url":"/moved/","accessToken":"of-the-service","tokenLifetimeSeconds":3600}"#)
            case "/chat/refresh":
                return ScriptedHub.json(
                    "{\(transportToken.map { "\"accessToken\":\"\($0)\"," } ?? "")\"tokenLifetimeSeconds\":1800}")
            default: return Self.negotiation(number, lifetime: "60")
            }
        }
        let hub = try await Self.connected(script, isAutomatic: true)
        // The lifetime is that of the first negotiation.
        expectEqual(hub.nextTimer, .seconds(3300))
        try await expectEqual(hub.client.refreshAuthentication(), .seconds(1800))
        let request = try #require(hub.refreshes.last)
        expectEqual(request.target, "/chat/refresh?room=1&id=secret-token-2")
        expectEqual(request.headers["Authorization"], "Bearer token-2")
        expectEqual(hub.transportToken, transportToken ?? "of-the-service")
        expectEqual(hub.nextTimer, .seconds(1500))
    }

    @Test func `after a redirect without a token of its own, the refreshed token is that of further requests`() async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { request, number in
            switch request.path {
            case "/chat/negotiate": return ScriptedHub.json(#"{"url":"/moved/","tokenLifetimeSeconds":3600}"#)
            case "/chat/refresh": return ScriptedHub.json(#"{"tokenLifetimeSeconds":1800}"#)
            default: return Self.negotiation(number, lifetime: "60")
            }
        }
        let hub = try await Self.connected(script)
        expectEqual(hub.server.negotiations.all.map { $0.headers["Authorization"] }, ["Bearer token-1", "Bearer token-1"])
        try await expectEqual(hub.client.refreshAuthentication(), .seconds(1800))
        let request = try #require(hub.refreshes.last)
        expect(request.target == "/chat/refresh?room=1&id=secret-token-2" && request.headers["Authorization"] == "Bearer token-2")
        expectEqual(hub.transportToken, "token-2")
    }

    @Test func `a lifetime that only another server reports isn't that of the application's token`() async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { request, number in
            number == 1 ? ScriptedHub.json(#"{"url":"/moved/"}"#) : Self.negotiation(number, lifetime: "60")
        }
        let hub = try await Self.connected(script, isAutomatic: true)
        expectNil(hub.nextTimer)
    }

    // MARK: Secrets

    @Test func `no token of a refresh appears in errors and log messages`() async throws {
        let first = "secret-token-1 token-1 token-2"
        let all = "\(first) token-3 token-4 of-the-service session-cookie"
        let hub = try await Self.connected(
            Self.script { number in
                if number == 1 { return ScriptedHub.json(#"{"error":"\#(first)","error_description":"\#(first)"}"#, status: 403) }
                let body = number == 2 ? #"{"accessToken":"of-the-service"}"# : #"{"error":"x","error_description":"\#(all)"}"#
                var response = ScriptedHub.json(body, status: number == 2 ? 200 : 500)
                response.head.headers["Set-Cookie"] = "a=session-cookie; Path=/"
                return response
            })
        var errors = [await hubError { try await hub.client.refreshAuthentication() }]
        try await hub.client.refreshAuthentication()
        errors.append(await hubError { try await hub.client.refreshAuthentication() })
        hub.server.send(#"{"type":7,"error":"\#(all)"}"#)
        try await eventually { hub.isStopped }
        let texts = errors.map { "\($0.map { "\($0) \($0.serverMessage ?? "") \($0.serverCode ?? "")" } ?? "none")" }
        let text = (texts + hub.log.all + hub.updates.all.map { "\($0)" }).joined(separator: "\n")
        expect(text.contains("rejected the refresh") && text.contains("was refreshed"))
        for secret in all.split(separator: " ") { expect(!text.contains(secret), "\(secret)") }
    }
}

extension HubFixture {
    fileprivate var refreshes: [HTTPRequestHead] { self.server.negotiations.all.filter { $0.path.hasSuffix("/refresh") } }
    /// The time until the next deadline.
    fileprivate var nextTimer: Duration? { self.client.driver.nextDeadline.map { self.client.driver.now.duration(to: $0) } }
    fileprivate var transportToken: String? { self.client.driver.read { $0.attempt.accessToken } }
}
