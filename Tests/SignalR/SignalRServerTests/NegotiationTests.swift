import RealtimeCore
import RealtimeCoding
import RealtimeTesting
import TestSupport
import Testing

@testable import SignalRServer

/// Negotiation, authentication, faults and the event log, with requests in memory.
@Suite(.timeLimit(.minutes(10))) struct NegotiationTests {
    @Test func `a negotiation offers all transports and its token opens a connection once`() async throws {
        let test = try await HubUnderTest()
        let body = try await test.negotiate()
        expectEqual(body["negotiateVersion"], 1)
        expectEqual(
            body["availableTransports"],
            [
                ["transport": "WebSockets", "transferFormats": ["Text", "Binary"]],
                ["transport": "ServerSentEvents", "transferFormats": ["Text"]],
                ["transport": "LongPolling", "transferFormats": ["Text", "Binary"]],
            ])
        let token = try #require(body["connectionToken"]?.string)
        let client = try await test.connect("/hub?id=\(token)")
        expectEqual(test.hub.connectionIDs, [body["connectionId"]?.string ?? ""])
        try await expectEqual(self.status(test, "/hub?id=\(token)"), 409)
        try await expectEqual(self.status(test, "/hub?id=\(body["connectionId"]?.string ?? "")"), 404)
        client.close()
        try await expectEqual(self.status(test, "/hub?id=\(token)"), 404)
    }

    /// The status with which a WebSocket is rejected.
    private func status(_ test: HubUnderTest, _ target: String, headers: HTTPHeaders = [:]) async throws -> Int? {
        let client = RawHubClient(test.network, test.address, target, headers: headers)
        guard case .transport(let error)? = try await client.ending() else { return nil }
        return error.response?.head.status
    }

    @Test(arguments: ["", "?negotiateVersion=0", "?other=1"])
    func `version 0 has no token`(query: String) async throws {
        let test = try await HubUnderTest()
        let body = try await test.negotiate("/hub/negotiate\(query)")
        expect(body["connectionToken"] == nil && body["negotiateVersion"] == 0)
        _ = try await test.connect("/hub?id=\(body["connectionId"]?.string ?? "")")
    }

    @Test(arguments: ["x", "-1", "1.5"])
    func `an invalid version is an error in the response`(version: String) async throws {
        let test = try await HubUnderTest()
        try await expectEqual(test.negotiate("/hub/negotiate?negotiateVersion=\(version)")["error"]?.string?.isEmpty, false)
    }

    @Test(arguments: [
        ("GET", "/hub/negotiate", 405), ("POST", "/other/negotiate", 404), ("POST", "/negotiate", 404), ("GET", "/", 404),
        ("GET", "/hub", 400), ("POST", "/hub", 400), ("DELETE", "/hub", 400), ("PUT", "/hub", 405), ("GET", "/hub?id=x", 404),
        ("POST", "/hub?id=x", 404), ("DELETE", "/hub?id=x", 404), ("POST", "/hub/NEGOTIATE", 200), ("POST", "/HUB/negotiate/", 200),
        ("POST", "/hub/?id=", 400), ("POST", "/hub/negotiate?%", 200), ("GET", "/hub/other", 404),
    ])
    func `requests get the status of the real server`(method: String, target: String, status: Int) async throws {
        let test = try await HubUnderTest()
        try await expectEqual(test.request(method, target).head.status, status)
    }

    @Test(
        arguments: [
            (.all, "WebSockets, ServerSentEvents, LongPolling"), (.webSockets, "WebSockets"),
            ([.longPolling, .serverSentEvents], "ServerSentEvents, LongPolling"), ([], ""),
        ] as [(HubTransportKinds, String)])
    func `a negotiation offers the transports of the hub, by default those of the configuration`(
        transports: HubTransportKinds, names: String
    ) async throws {
        let configured = try await HubUnderTest { $0.transports = transports }
        expect(configured.hub.transports == transports && configured.hub.transports.description == names)
        try await expectEqual(configured.offers(), names)
        let test = try await HubUnderTest()
        test.hub.transports = transports
        try await expectEqual(test.offers(), names)
        let other = test.server.hub("/other")
        expect(other.transports == .all && other.id != test.hub.id)
    }

    @Test func `a WebSocket on an unknown path is rejected`() async throws {
        let test = try await HubUnderTest()
        try await expectEqual(self.status(test, "/none"), 404)
        try await expectEqual(self.status(test, "/hub/negotiate"), 405)
    }

    @Test func `the letter case of paths and of the names in queries is ignored`() async throws {
        var hooks = SignalRServerHooks()
        hooks.authenticate = { $0.token == "anna" ? .accept(userID: "anna") : .reject(status: 401) }
        let test = try await HubUnderTest(hooks: hooks)
        expect(test.server.hub("/HUB") === test.hub)
        let token = try await test.negotiate("/Hub/Negotiate?NegotiateVersion=1&ACCESS_TOKEN=anna")["connectionToken"]?.string ?? ""
        let client = try await test.connect("/HUB?ID=\(token)&Access_Token=anna")
        try await expectEqual(self.status(test, "/hub?iD=\(token)&access_token=anna"), 409)
        client.close()
    }

    @Test func `a negotiation can be redirected`() async throws {
        let test = try await HubUnderTest()
        test.hub.redirect(to: "http://other/hub", accessToken: "t")
        try await expectEqual(test.negotiate(), ["url": "http://other/hub", "accessToken": "t"])
        test.hub.redirect(to: nil)
        try await expect(test.negotiate()["connectionId"] != nil)
    }

    // MARK: Origins

    @Test(
        arguments: [
            ("https://example.com", 403), ("https://localhost.example.com", 403), ("http://128.0.0.1", 403),
            ("http://127.0.0.1.example.com", 403),
            ("null", 403), ("", 403), ("file://", 403), ("http://127.1", 403), ("http://localhost", nil), ("http://LOCALHOST:3000", nil),
            ("https://app.localhost:8443", nil), ("http://127.0.0.1:5173", nil), ("http://127.8.9.10", nil), ("http://[::1]:3000", nil),
        ] as [(String, Int?)])
    func `a server on a loopback address refuses the pages of other hosts`(origin: String, status: Int?) async throws {
        for host in ["127.0.0.1", "localhost", "::1"] {
            let network = InMemoryNetwork(clock: ManualClock())
            let server = SignalRServer(network: network)
            _ = server.hub("/hub")
            let address = try await server.start(on: network.listener(host: host))
            let client = RawHubClient(network, address, "/hub", headers: ["Origin": origin])
            client.send(#"{"protocol":"json","version":1}"#)
            if let status {
                guard case .transport(let error)? = try await client.ending() else { return }
                expectEqual(error.response?.head.status, status)
            } else {
                try await expectEqual(client.next(), [:])
            }
            let endpoint = Endpoint(scheme: "http", host: host, port: address.port, target: "/hub/negotiate")
            let response = try await network.http.open(HTTPRequest("POST", endpoint, headers: ["Origin": origin]))
            expectEqual(response.head.status, status ?? 200)
        }
    }

    /// DNS rebinding.
    @Test(arguments: ["127.0.0.1", "localhost", "::1"])
    func `a page whose name leads to this computer is refused`(host: String) async throws {
        let network = InMemoryNetwork(clock: ManualClock())
        let server = SignalRServer(network: network)
        _ = server.hub("/hub")
        let address = try await server.start(on: network.listener(host: host))
        let name = "evil.example:\(address.port)"
        let page: HTTPHeaders = ["Origin": "http://\(name)", "Host": name]
        for (method, target) in [("POST", "/hub/negotiate"), ("POST", "/hub?id=x"), ("GET", "/hub?id=x"), ("DELETE", "/hub?id=x")] {
            let endpoint = Endpoint(scheme: "http", host: host, port: address.port, target: target)
            let response = try await network.http.send(HTTPRequest(method, endpoint, headers: page))
            expectEqual(response.head.status, 403, "\(method) \(target)")
        }
        let client = RawHubClient(network, address, "/hub", headers: page)
        guard case .transport(let error)? = try await client.ending() else { return expect(false, "the WebSocket should be refused") }
        expectEqual(error.response?.head.status, 403)
    }

    @Test func `a page that is refused, and the log, name its origin and what to do, the log once for each origin`() async throws {
        let log = EventRecorder<String>()
        let network = InMemoryNetwork(clock: ManualClock())
        let server = SignalRServer(network: network, log: LogSink(minimumLevel: .warning) { log.record($2) })
        _ = server.hub("/hub")
        let address = try await server.start(on: network.listener(host: "127.0.0.1"))
        func refusal(_ method: String, _ target: String, _ origin: String, _ fields: HTTPHeaders = [:]) async throws -> String {
            let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: target)
            var request = HTTPRequest(method, endpoint, headers: fields)
            request.headers["Origin"] = origin
            let response = try await network.http.send(request)
            expectEqual(response.head.status, 403, "\(method) \(target)")
            return String(decoding: response.body, as: UTF8.self)
        }
        func text(_ origin: String) -> String {
            "The web pages of the origin \"\(origin)\" may not use this server, which is reachable only locally. "
                + "Set allowsForeignOrigins, or add the origin to allowedOrigins."
        }
        let question: HTTPHeaders = ["Access-Control-Request-Method": "POST"]
        try await expectEqual(refusal("POST", "/hub/negotiate", "http://a.test"), text("http://a.test"))
        try await expectEqual(refusal("OPTIONS", "/hub/negotiate", "http://a.test", question), text("http://a.test"))
        for method in ["GET", "POST", "DELETE"] {
            try await expectEqual(refusal(method, "/hub?id=x", "http://b.test"), text("http://b.test"))
        }
        let client = RawHubClient(network, address, "/hub", headers: ["Origin": "null"])
        guard case .transport(let error)? = try await client.ending() else { return expect(false, "the WebSocket should be refused") }
        expectEqual(error.response.map { String(decoding: $0.body, as: UTF8.self) }, text("null"))
        expectEqual(log.all, [text("http://a.test"), text("http://b.test"), text("null")])
        for number in 0..<100 { _ = try await refusal("POST", "/hub/negotiate", "http://\(number).test") }
        expectEqual(log.all.count, 16)
    }

    @Test func `the pages of all hosts may use other servers, or if the application allows it`() async throws {
        let page: HTTPHeaders = ["Origin": "https://example.com"]
        let test = try await HubUnderTest()
        try await expectEqual(test.request("POST", "/hub/negotiate", headers: page).head.status, 200)
        // The server may share a listener, so it doesn't know its address.
        let local: HTTPHeaders = ["Origin": "https://example.com", "Host": "localhost:8080"]
        try await expectEqual(test.request("POST", "/hub/negotiate", headers: local).head.status, 403)
        let open = try await HubUnderTest { $0.allowsForeignOrigins = true }
        try await expectEqual(open.request("POST", "/hub/negotiate", headers: local).head.status, 200)
    }

    @Test func `pages of allowed origins may read all responses`() async throws {
        let test = try await HubUnderTest { $0.allowedOrigins = ["https://app.example.com", "HTTPS://Other.example.com:8443"] }
        let page: HTTPHeaders = ["Origin": "https://app.example.com"]
        func isAllowed(_ response: HTTPResponseHead?, _ origin: String = "https://app.example.com") -> Bool {
            response?.headers["Access-Control-Allow-Origin"] == origin && response?.headers["Vary"] == "Origin"
                && response?.headers["Access-Control-Allow-Credentials"] == "true"
        }
        for (method, target) in [
            ("POST", "/hub/negotiate"), ("GET", "/hub"), ("POST", "/hub?id=x"), ("DELETE", "/hub?id=x"), ("PUT", "/hub"),
            ("POST", "/hub/refresh"), ("GET", "/none"),
        ] {
            expect(isAllowed(try await test.request(method, target, headers: page).head), "\(method) \(target)")
        }
        let other: HTTPHeaders = ["Origin": "https://other.example.com:8443"]
        expect(isAllowed(try await test.request("GET", "/hub", headers: other).head, "https://other.example.com:8443"))
        for transport in HTTPTransportTests.transports {
            let client = try await test.connect(transport, headers: page)
            expect(isAllowed(client.send(#"{"type":6}"#).recorded.head))
        }
        for origin in ["http://app.example.com", "https://app.example.com:444", "https://example.com", "null"] {
            let response = try await test.request("POST", "/hub/negotiate", headers: ["Origin": origin])
            expect(response.head.status == 200 && response.head.headers["Access-Control-Allow-Origin"] == nil)
        }
        try await expectNil(test.request("POST", "/hub/negotiate").head.headers["Access-Control-Allow-Origin"])
        let all = try await HubUnderTest { $0.allowedOrigins = ["*"] }
        expect(isAllowed(try await all.request("POST", "/hub/negotiate", headers: ["Origin": "null"]).head, "null"))
    }

    @Test func `a browser's question is answered, without authentication`() async throws {
        var hooks = SignalRServerHooks()
        hooks.authenticate = { _ in .reject(status: 401) }
        let test = try await HubUnderTest(hooks: hooks) { $0.allowedOrigins = ["https://app.example.com"] }
        func ask(_ origin: String?, _ target: String = "/hub/negotiate", host: String = "example.com") async throws -> HTTPResponseHead {
            var headers: HTTPHeaders = [
                "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-requested-with", "Host": host,
            ]
            headers["Origin"] = origin
            return try await test.request("OPTIONS", target, headers: headers).head
        }
        for target in ["/hub", "/hub?id=x", "/hub/negotiate", "/hub/refresh"] {
            let head = try await ask("https://app.example.com", target)
            expect(head.status == 204 && head.headers["Access-Control-Allow-Origin"] == "https://app.example.com")
            expectEqual(head.headers["Access-Control-Allow-Methods"], "GET, POST, DELETE")
            expectEqual(head.headers["Access-Control-Allow-Headers"], "authorization,x-requested-with")
        }
        let unknown = try await ask("https://evil.example.com")
        expect(unknown.status == 204 && unknown.headers["Access-Control-Allow-Origin"] == nil)
        expectNil(unknown.headers["Access-Control-Allow-Methods"])
        try await expectEqual(ask("https://evil.example.com", host: "localhost").status, 403)
        try await expectEqual(
            ask("http://localhost:3000", host: "localhost").headers["Access-Control-Allow-Origin"], "http://localhost:3000")
        try await expectEqual(ask("https://app.example.com", host: "localhost").status, 204)
        try await expectEqual(ask("https://app.example.com", "/none").status, 404)
        try await expectEqual(ask(nil).status, 405)
        try await expectEqual(test.request("OPTIONS", "/hub", headers: ["Origin": "https://app.example.com"]).head.status, 405)
    }

    // MARK: Authentication

    @Test func `the hook decides about negotiations and WebSockets`() async throws {
        var hooks = SignalRServerHooks()
        hooks.authenticate = { request in
            await Task.yield()
            switch request.token {
            case "anna": return .accept(userID: "anna")
            case "guest": return request.isNegotiation ? .accept(userID: nil) : .reject(status: 403)
            default: return .reject(status: 401)
            }
        }
        let test = try await HubUnderTest(hooks: hooks)
        let response = try await test.request("POST", "/hub/negotiate")
        expect(response.head.status == 401 && response.head.headers["WWW-Authenticate"] == "Bearer")
        try await expectEqual(self.status(test, "/hub"), 401)
        try await expectEqual(self.status(test, "/hub?access_token=guest"), 403)
        try await expect(test.negotiate("/hub/negotiate?access_token=guest")["connectionId"] != nil)
        let events = test.server.events
        let client = try await test.connect("/hub", headers: ["authorization": "bearer anna"])
        let connected = await events.first { if case .connected = $0 { true } else { false } }
        let id = try #require(test.hub.connectionIDs.first)
        expectEqual(connected, .connected(hub: "/hub", connectionID: id, userID: "anna"))
        client.close()
    }

    @Test func `a hook that doesn't decide is cancelled in time`() async throws {
        var hooks = SignalRServerHooks()
        let (asked, cancelled) = (Signal(), Signal())
        hooks.authenticate = { _ in
            asked.send()
            await withTaskCancellationHandler {
                await Signal().wait()
            } onCancel: {
                cancelled.send()
            }
            return .accept(userID: nil)
        }
        let test = try await HubUnderTest(hooks: hooks) { $0.authenticationTimeout = .seconds(3) }
        async let response = test.request("POST", "/hub/negotiate")
        await asked.wait()
        test.clock.advance(by: .seconds(3))
        try await expectEqual(response.head.status, 503)
        await cancelled.wait()
    }

    // MARK: Faults

    @Test func `a number of requests is unauthorized`() async throws {
        let test = try await HubUnderTest()
        test.server.faults.unauthorizedRequests = 2
        try await expectEqual(test.request("POST", "/hub/negotiate").head.status, 401)
        try await expectEqual(self.status(test, "/hub"), 401)
        try await expectEqual(test.request("POST", "/hub/negotiate").head.status, 200)
        expectEqual(test.server.faults.unauthorizedRequests, 0)
    }

    @Test func `an expired token is unauthorized`() async throws {
        let test = try await HubUnderTest()
        test.server.faults.expiredTokens = ["old"]
        try await expectEqual(test.request("POST", "/hub/negotiate", headers: ["Authorization": "Bearer old"]).head.status, 401)
        try await expectEqual(test.request("POST", "/hub/negotiate?access_token=old").head.status, 401)
        try await expectEqual(test.request("POST", "/hub/negotiate", headers: ["Authorization": "Bearer new"]).head.status, 200)
    }

    @Test func `negotiations fail as the test says`() async throws {
        let test = try await HubUnderTest()
        test.server.faults.negotiationStatus = 500
        try await expectEqual(test.request("POST", "/hub/negotiate").head.status, 500)
        test.server.faults = SignalRServerFaults()
        test.server.faults.negotiationError = "busy"
        try await expectEqual(test.negotiate(), ["error": "busy"])
    }

    @Test func `messages are delayed and silence suspends the timeouts`() async throws {
        let test = try await HubUnderTest()
        let client = try await test.connect()
        test.server.faults.delay = .seconds(1)
        try await test.hub.clients.all.send("A")
        expectEqual(client.take(), [])
        test.clock.advance(by: .seconds(1))
        expectEqual(client.take().map { $0["target"] }, ["A"])
        test.server.faults = SignalRServerFaults()
        test.server.silence(test.hub.connectionIDs[0])
        test.clock.advance(by: .seconds(100))
        expect(client.take() == [] && client.endings.all == [])
        test.server.send("garbage", to: test.hub.connectionIDs[0])
        expectEqual(client.take(), [.null])
    }

    @Test func `a connection is closed with and without a message`() async throws {
        let test = try await HubUnderTest()
        let first = try await test.connect()
        test.server.close(test.hub.connectionIDs[0], error: "bye", allowReconnect: true)
        try await expectEqual(first.next(), ["type": 7, "error": "bye", "allowReconnect": true])
        try await expectEqual(first.ending(), .peer(.normal, ""))
        let second = try await test.connect()
        test.server.drop(test.hub.connectionIDs[0])
        guard case .transport(let error)? = try await second.ending() else {
            Issue.record("the connection should have been reset")
            return
        }
        expect(error.code == .reset && second.take() == [] && test.hub.connectionIDs == [])
    }

    // MARK: Events

    @Test func `the event log names what happens`() async throws {
        let test = try await HubUnderTest()
        test.hub.on("Fail") { caller in throw HubException("no") }
        let events = test.server.events
        let client = try await test.connect()
        _ = try await client.invoke("Fail")
        client.send("nonsense")
        let id = { (events: [SignalRServerEvent]) -> [SignalRServerEvent] in
            events.filter { if case .received = $0 { false } else { true } }
        }
        var recorded: [SignalRServerEvent] = []
        for await event in events {
            recorded.append(event)
            if case .disconnected = event { break }
        }
        guard case .connected("/hub", let connectionID, nil)? = id(recorded).first else {
            Issue.record("the connection should have been logged")
            return
        }
        let error = "An unexpected error occurred invoking 'Fail' on the server. HubException: no"
        expectEqual(
            id(recorded).dropFirst().prefix(2),
            [
                .invoked(connectionID: connectionID, method: "Fail"),
                .completed(connectionID: connectionID, method: "Fail", error: error),
            ])
        expectEqual(id(recorded).count, 5)
        guard case .error(connectionID, _)? = id(recorded).dropFirst(3).first,
            case .disconnected("/hub", connectionID, _)? = id(recorded).last
        else {
            Issue.record("the invalid message and the end should have been logged")
            return
        }
    }

    @Test func `texts contain no tokens`() async throws {
        var faults = SignalRServerFaults()
        faults.expiredTokens = ["hunter2"]
        let request = SignalRAuthenticationRequest(
            hub: "/hub", token: "hunter2", isNegotiation: true,
            request: HTTPRequestHead(method: "GET", target: "/hub?id=hunter2", headers: ["Authorization": "Bearer hunter2"]))
        let event = SignalRServerEvent.received(connectionID: "1", .text("hunter2"))
        var text = "\(faults) \(request) \(event)"
        for value: Any in [faults, request, event] { dump(value, to: &text) }
        expect(!text.contains("hunter2"))
    }
}
