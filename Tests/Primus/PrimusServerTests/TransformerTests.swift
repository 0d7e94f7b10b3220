import PrimusServer
import PrimusWire
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// Requests and framings, with the bytes of the original.
@Suite(.timeLimit(.minutes(10))) struct TransformerTests {
    private func text(_ response: HTTPResponse) -> String { String(decoding: response.body, as: UTF8.self) }

    @Test func `the specification needs no authorization, and has the members of the version`() async throws {
        let test = try await ServerUnderTest { $0.authorize = { _ in .reject("no") } }
        let response = try await test.request("/primus/spec?x")
        expect(response.head.status == 200 && response.head.headers["Content-Type"] == "application/json")
        expectEqual(
            self.text(response),
            #"{"pingInterval":30000,"pathname":"/primus","version":"8.0.9","parser":"json","transformer":"websockets"}"#)
        let old = try await ServerUnderTest { ($0.version, $0.pathname, $0.silenceTimeout) = (.v6, "/p", nil) }
        expectEqual(
            self.text(try await old.request("/p/spec")),
            #"{"timeout":false,"pathname":"/p","version":"6.1.0","parser":"json","transformer":"websockets"}"#)
    }

    @Test func `requests have the answers of the original`() async throws {
        let test = try await ServerUnderTest()
        let plain = try await test.request("/primus")
        expect(plain.head.status == 426 && self.text(plain) == "Upgrade Required")
        try await expectEqual(test.request("/primusX/y").head.status, 426)
        try await expectEqual(test.request("/other").head.status, 404)
        let sockjs = try await ServerUnderTest { $0.transformer = .sockjs }
        expectEqual(self.text(try await sockjs.request("/primus")), "Welcome to SockJS!\n")
        let info = try SockJSInfo(parsing: try await sockjs.request("/primus/info").body)
        expect(info.webSocket && !info.cookieNeeded && info.baseURL == nil)
        try await expectEqual(sockjs.request("/primus/a/b/c/d").head.status, 404)
        let engine = try await ServerUnderTest { $0.transformer = .engineIO }
        let refusal = try await engine.request("/primus/?EIO=4&transport=nothing")
        expect(refusal.head.status == 400 && self.text(refusal) == #"{"code":0,"message":"Transport unknown"}"#)
    }

    @Test func `pages of other origins may read`() async throws {
        let test = try await ServerUnderTest()
        let response = try await test.request("/primus/spec", headers: ["Origin": "http://x.test"])
        expectEqual(response.head.headers["Access-Control-Allow-Origin"], "http://x.test")
        expect(response.head.headers["Access-Control-Allow-Credentials"] == "true" && response.head.headers["Vary"] == "Origin")
        let asking: HTTPHeaders = ["Origin": "http://x.test", "Access-Control-Request-Method": "GET"]
        let preflight = try await test.request("/primus/spec", method: "OPTIONS", headers: asking)
        expect(preflight.head.status == 200 && preflight.head.headers["Access-Control-Max-Age"] == "2592000")
        try await expectNil(test.request("/primus/spec").head.headers["Access-Control-Allow-Origin"])
    }

    @Test(
        arguments: [
            ("http://evil.example", nil, 403), ("null", nil, 403), ("http://127.0.0.1.evil.example", nil, 403),
            ("http://localhost:3000", nil, 200),
            ("http://[::1]:3000", nil, 200), (nil, nil, 200),
            // A page whose name leads to this machine (DNS rebinding) needs no origin.
            (nil, "evil.example:8080", 403), ("http://evil.example:8080", "evil.example:8080", 403), (nil, "127.0.0.1:8080", 200),
            (nil, "[::1]:8080", 200), (nil, "::1:8080", 200), (nil, "::1", 200), (nil, "localhost", 200),
        ] as [(String?, String?, Int)])
    func `a server on a loopback address can refuse the pages of other hosts`(origin: String?, host: String?, status: Int) async throws {
        for allows in [false, true] {
            let network = InMemoryNetwork(clock: ManualClock())
            var configuration = PrimusServerConfiguration()
            (configuration.allowsForeignOrigins, configuration.transformer) = (allows, .engineIO)
            let server = PrimusServer(network: network, configuration: configuration, log: .none)
            let address = try await server.start(on: network.listener(host: "127.0.0.1"))
            var headers = HTTPHeaders()
            (headers["Origin"], headers["Host"]) = (origin, host)
            for target in ["/primus/spec", "/primus/?EIO=4&transport=polling"] {
                let endpoint = Endpoint(scheme: "http", host: "127.0.0.1", port: address.port, target: target)
                let response = try await network.transports().http.send(HTTPRequest("GET", endpoint, headers: headers, body: []))
                expectEqual(response.head.status, allows ? 200 : status, "\(target)")
                let allowed = response.head.headers["Access-Control-Allow-Origin"]
                expectEqual(allowed, response.head.status == 200 ? origin : nil)
                if response.head.status == 403 { expect(self.text(response).contains("set allowsForeignOrigins")) }
            }
            let client = RawClient(network.transports().webSocket, address, "/primus/?EIO=4&transport=websocket", headers)
            expectEqual(client.end == nil, allows || status == 200)
            withExtendedLifetime(server) {}
        }
    }

    @Test func `a server that refuses foreign pages serves all of them if its address isn't local`() async throws {
        let test = try await ServerUnderTest { $0.allowsForeignOrigins = false }
        try await expectEqual(test.request("/primus/spec", headers: ["Origin": "http://x.test", "Host": "server.test"]).head.status, 200)
        // With a listener that it shares, the server doesn't know its address, and browsers state the one that they use.
        try await expectEqual(test.request("/primus/spec", headers: ["Origin": "http://x.test", "Host": "localhost:1"]).head.status, 403)
    }

    @Test func `a page that is refused, and the log, name its origin and what to do, the log once for each origin`() async throws {
        let log = EventRecorder<String>()
        let network = InMemoryNetwork(clock: ManualClock())
        var configuration = PrimusServerConfiguration()
        configuration.allowsForeignOrigins = false
        let server = PrimusServer(network: network, configuration: configuration, log: LogSink(minimumLevel: .warning) { log.record($2) })
        let address = try await server.start(on: network.listener(host: "127.0.0.1"))
        func refusal(_ headers: HTTPHeaders) async throws -> String {
            let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: "/primus/spec")
            let response = try await network.http.send(HTTPRequest("GET", endpoint, headers: headers))
            expectEqual(response.head.status, 403)
            return self.text(response)
        }
        func text(_ origin: String) -> String {
            "The web pages of the origin \"\(origin)\" may not use this server, which is reachable only locally. "
                + "To accept them, set allowsForeignOrigins, or the option --allow-foreign-origins of the tool."
        }
        for _ in 1...2 { try await expectEqual(refusal(["Origin": "http://a.test"]), text("http://a.test")) }
        try await expectEqual(refusal(["Origin": "null"]), text("null"))
        try await expectEqual(refusal(["Host": "b.test:1"]), text("http://b.test:1"))
        expectEqual(log.all, [text("http://a.test"), text("null"), text("http://b.test:1")])
        await server.stop()
    }

    @Test func `a rejected client receives the status, the fields and the message`() async throws {
        let test = try await ServerUnderTest { configuration in
            configuration.authorize = { request in
                request.query == "token=T"
                    ? .accept : .reject("Authentication required", headers: ["WWW-Authenticate": "Basic realm=\"peer\""])
            }
        }
        let response = try await test.request("/primus")
        expect(response.head.status == 401 && self.text(response) == #"{"error":"Authentication required"}"#)
        expectEqual(response.head.headers["WWW-Authenticate"], "Basic realm=\"peer\"")
        let refused = test.client()
        try await eventually { refused.end != nil }
        expectEqual(refused.end.map { "\($0)".contains("401") }, true, "\(refused.end as Any)")
        let accepted = test.client("/primus?token=T")
        try await eventually { test.server.sparks.count == 1 }
        expectNil(accepted.end)
    }

    @Test(arguments: [PrimusTransformerKind.websockets, .sockjs])
    func `a client that the server doesn't read gets its pings, and isn't ended`(transformer: PrimusTransformerKind) async throws {
        let test = try await ServerUnderTest {
            ($0.transformer, $0.pingInterval, $0.sockJSHeartbeatInterval) = (transformer, .seconds(30), .seconds(25))
        }
        let callbacks = EventRecorder<@Sendable () -> Void>()
        let slow = test.server.onMessage(on: CallbackExecutor { callbacks.record($0) }) { _ in }
        let isFramed = transformer == .sockjs
        let client = test.client(isFramed ? "/primus/0/a/websocket" : "/primus")
        for number in 0..<2_000 { client.send(isFramed ? "[\"\(number)\"]" : "\(number)") }
        for _ in 0..<30 { test.clock.advance(by: .seconds(5)) }
        expect(client.end == nil && test.server.sparks.count == 1)
        expectEqual(client.lines.count { $0.contains("primus::ping::") }, 5, "\(client.lines)")
        expectEqual(client.lines.count { $0 == "ping frame" }, (isFramed ? 6 : 0))
        withExtendedLifetime(slow) {}
    }

    @Test func `an authorization that takes too long is a rejection`() async throws {
        let gate = Signal()
        let test = try await ServerUnderTest { configuration in
            configuration.authorize = { _ in
                await gate.wait()
                return .accept
            }
            configuration.authorizationTimeout = .seconds(5)
        }
        let client = test.client()
        test.clock.advance(by: .seconds(5))
        expectEqual(client.end.map { "\($0)".contains("503") }, true, "\(client.end as Any)")
        gate.send()
    }

    // MARK: SockJS

    @Test func `the raw WebSocket of SockJS has no frames`() async throws {
        let test = try await ServerUnderTest { $0.transformer = .sockjs }
        let client = test.client("/primus/websocket")
        client.send(#""primus::id::""#)
        let spark = test.server.sparks[0]
        spark.end()
        expectEqual(client.lines, [#""primus::id::\#(spark.id)""#, #""primus::server::close""#])
        expectEqual(client.end, .peer(.normal, "Normal closure"))
    }

    @Test func `a session of SockJS has frames`() async throws {
        let test = try await ServerUnderTest { $0.transformer = .sockjs }
        let client = test.client("/primus/123/abcdefgh/websocket")
        let values = EventRecorder<PrimusValue>()
        let token = test.server.onMessage { message in if let value = try? message.value { values.record(value) } }
        client.send(#"["\"primus::id::\"","1"]"#, #""{\"b\":2}""#, "", #"["3","4"]"#)
        let spark = test.server.sparks[0]
        try spark.write(["a": "\""])
        try await eventually { values.all.count == 4 }
        expectEqual(values.all, [1, ["b": 2], 3, 4])
        spark.end()
        expectEqual(
            client.lines,
            [
                "o", #"a["\"primus::id::\#(spark.id)\""]"#, #"a["{\"a\":\"\\\"\"}"]"#, #"a["\"primus::server::close\""]"#,
                #"c[1000,"Normal closure"]"#,
            ])
        expectEqual(client.end, .peer(.normal, "Normal closure"))
        token.cancel()
    }

    @Test func `broken framing ends a session of SockJS as in the original`() async throws {
        let test = try await ServerUnderTest { $0.transformer = .sockjs }
        let client = test.client("/primus/123/abcdefgh/websocket")
        client.send("[broken")
        expectEqual(client.end, .peer(CloseCode(rawValue: 3000), "Broken framing."))
        let other = test.client("/primus/123/websocket")
        expectEqual(other.end.map { "\($0)".contains("404") }, true)
    }

    // MARK: engine.io

    @Test func `a session of engine io begins with the handshake, and the server pings`() async throws {
        let test = try await ServerUnderTest { ($0.transformer, $0.pingInterval) = (.engineIO, nil) }
        let client = test.client("/primus/?EIO=4&transport=websocket")
        let spark = test.server.sparks[0]
        client.send(#"4"primus::id::""#, "4{\"a\":1}")
        try spark.write("x")
        expectEqual(
            client.lines,
            [
                #"0{"sid":"\#(spark.id)","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":10485760}"#,
                #"4"primus::id::\#(spark.id)""#, #"4"x""#,
            ])
        test.clock.advance(by: .seconds(25))
        expectEqual(client.lines.last, "2")
        client.send("3")
        test.clock.advance(by: .seconds(25))
        expect(client.lines.filter { $0 == "2" }.count == 2 && client.end == nil)
        test.clock.advance(by: .seconds(20))
        expectEqual(client.end, .peer(.normal, ""))
    }

    @Test func `a ping of a client of engine io 4 is an error, and one of version 3 is answered`() async throws {
        let test = try await ServerUnderTest { ($0.transformer, $0.allowsEIO3, $0.pingInterval) = (.engineIO, true, nil) }
        let wrong = test.client("/primus/?EIO=4&transport=websocket")
        wrong.send("2")
        expectEqual(wrong.end, .peer(.normal, ""))
        // Also if its session has moved from polling.
        let session = try test.openEngineIO()
        let moved = test.client(session.replacing("polling", with: "websocket"))
        moved.send("2probe")
        moved.send("5")
        moved.send("2")
        expect(moved.lines == ["3probe"] && moved.end == .peer(.normal, ""))
        let old = test.client("/primus/?EIO=3&transport=websocket")
        old.send("2probe")
        expectEqual(old.lines.last, "3probe")
        test.clock.advance(by: .seconds(44))
        old.send("2")
        test.clock.advance(by: .seconds(44))
        expectNil(old.end)
        test.clock.advance(by: .seconds(1))
        expectEqual(old.end, .peer(.normal, ""))
    }

    @Test(arguments: [
        ("EIO=3&transport=websocket", "Unsupported protocol version"), ("EIO=4&transport=polling", "Transport unknown"),
        ("EIO=4&transport=websocket&sid=x", "Session ID unknown"), ("transport=websocket", "Unsupported protocol version"),
    ])
    func `a WebSocket that engine io doesn't accept is refused`(query: String, text: String) async throws {
        let test = try await ServerUnderTest { $0.transformer = .engineIO }
        let client = test.client("/primus/?\(query)")
        guard case .transport(let error)? = client.end else { return expect(false, "the WebSocket should be refused") }
        expect(error.status == 400 && error.response.map { String(decoding: $0.body, as: UTF8.self) } == text)
        expect(test.server.sparks.isEmpty)
    }

    @Test func `an empty ID of a session is none`() async throws {
        let test = try await ServerUnderTest { $0.transformer = .engineIO }
        let client = test.client("/primus/?EIO=4&transport=websocket&sid=")
        expectEqual(client.lines.count, 1)
        try expect(test.start("/primus/?EIO=4&transport=polling&sid=").body.hasPrefix("0{"))
        expect(test.server.sparks.count == 2 && client.end == nil)
    }

    @Test func `binary packets travel in both versions of engine io`() async throws {
        for version in [PrimusServerConfiguration.Version.v8, .v6] {
            let test = try await ServerUnderTest { ($0.transformer, $0.version, $0.parser) = (.engineIO, version, .msgpack) }
            let client = test.client("/primus/?EIO=\(version == .v8 ? 4 : 3)&transport=websocket")
            try test.server.write(1)
            expectEqual(client.lines.last, (version == .v8 ? "binary 01" : "binary 0401"))
        }
    }

    @Test func `a configuration that can't work is an error at the start`() async throws {
        for (configure, problem) in Self.invalid {
            var configuration = PrimusServerConfiguration()
            configure(&configuration)
            let network = InMemoryNetwork(clock: ManualClock())
            let server = PrimusServer(network: network, configuration: configuration, log: .none)
            let error = await #expect(throws: TransportError.self) { try await server.start(on: network.listener()) }
            expectEqual(error?.message.contains(problem), true, "\(error?.message ?? "")")
        }
    }

    private static let invalid: [(@Sendable (inout PrimusServerConfiguration) -> Void, String)] = [
        ({ $0.transformer = .browserchannel }, "browserchannel"), ({ $0.transformer = .custom("mine") }, "mine"),
        ({ $0.parser = .custom("bson") }, "bson"), ({ ($0.transformer, $0.parser) = (.sockjs, .msgpack) }, "carries text only"),
    ]
}
