import PrimusServer
import PrimusWire
import RealtimeCoding
import RealtimeCore
import RealtimeTesting
import TestSupport
import Testing

/// The behaviors of a server that the protocol description of SockJS 0.3.3 asks for, with the transports that the server has.
///
/// Where Primus answers otherwise, the test says so. The article on differences lists the parts that are left out.
@Suite(.timeLimit(.minutes(10))) struct SockJSProtocolTests {
    /// A server that echoes, and ends a client that asks for it, with its registration.
    private func start(
        _ configure: (inout PrimusServerConfiguration) -> Void = { _ in }
    ) async throws -> (test: ServerUnderTest, echo: CallbackObservation) {
        let test = try await ServerUnderTest {
            ($0.transformer, $0.pingInterval) = (.sockjs, nil)
            configure(&$0)
        }
        let echo = test.server.onMessage(on: CallbackExecutor { $0() }) { message in
            guard let value = try? message.value else { return }
            if value == .string("end") { message.spark.end() } else { _ = try? message.spark.write(value) }
        }
        return (test, echo)
    }

    private func checkUncached(_ exchange: RawExchange) {
        expectEqual(exchange.headers["Cache-Control"], "no-store, no-cache, must-revalidate, max-age=0")
        expect(exchange.headers["Expires"] == nil && exchange.headers["Last-Modified"] == nil)
    }

    private func checkOrigin(_ exchange: RawExchange, _ origin: String) {
        expectEqual(exchange.headers["Access-Control-Allow-Origin"], origin)
        expectEqual(exchange.headers["Access-Control-Allow-Credentials"], "true")
    }

    // MARK: Greeting, information and addresses

    @Test(arguments: ["/primus", "/primus/"]) func `the server greets at its address`(target: String) async throws {
        let response = try await self.start().test.start(target)
        expect(response.status == 200 && response.body == "Welcome to SockJS!\n")
        expect(response.headers["Content-Type"] == "text/plain; charset=UTF-8" && response.headers["Set-Cookie"] == nil)
    }

    @Test(arguments: ["/a", "/a.html", "//", "///", "/a/a", "/a/a/", "/a/"]) func `nothing is at other addresses`(rest: String) async throws
    {
        try await expectEqual(self.start().test.start("/primus" + rest).status, 404)
    }

    @Test func `the information isn't cached, allows other origins, and has another number each time`() async throws {
        let test = try await self.start().test
        let responses = try (0..<2).map { _ in try test.start("/primus/info", headers: ["Origin": "http://page"]) }
        for response in responses {
            expect(response.status == 200 && response.headers["Content-Type"] == "application/json; charset=UTF-8")
            expectNil(response.headers["Set-Cookie"])
            self.checkUncached(response)
            self.checkOrigin(response, "http://page")
        }
        let bodies = responses.compactMap { try? JSONValue(parsing: Array($0.body.utf8)) }
        expect(bodies.count == 2 && bodies[0]["websocket"] == true && bodies[0]["cookie_needed"] == false)
        expect(bodies[0]["origins"] == ["*:*"] && bodies[0]["entropy"] != bodies[1]["entropy"])
    }

    @Test(arguments: ["/info", "/abc/abc/xhr", "/abc/abc/xhr_send", "/abc/abc/xhr_streaming"], ["http://page", "null"])
    func `a page of another origin may ask which methods are allowed`(rest: String, origin: String) async throws {
        let method = rest == "/info" ? "GET" : "POST"
        let test = try await self.start().test
        let response = try test.start(
            "/primus" + rest, method: "OPTIONS", headers: ["Origin": origin, "Access-Control-Request-Method": method])
        expect(response.status == 200 && response.body.isEmpty)
        expect(Int(response.headers["Access-Control-Max-Age"] ?? "") ?? 0 > 1_000_000)
        for method in ["OPTIONS", method] {
            expectEqual(response.headers["Access-Control-Allow-Methods"]?.contains(method), true)
        }
        self.checkOrigin(response, origin)
    }

    @Test(arguments: [("a, b, c", "a, b, c"), ("", nil), (nil, nil)] as [(String?, String?)])
    func `the header fields that a page asks for are allowed`(asked: String?, allowed: String?) async throws {
        var headers: HTTPHeaders = ["Origin": "http://page", "Access-Control-Request-Method": "POST"]
        if let asked { headers["Access-Control-Request-Headers"] = asked }
        let response = try await self.start().test.start("/primus/0/0/xhr", method: "OPTIONS", headers: headers)
        expectEqual(response.headers["Access-Control-Allow-Headers"], allowed)
        self.checkOrigin(response, "http://page")
    }

    /// As sockjs-node, which Primus lets answer then.
    @Test(arguments: [("/info", "OPTIONS, GET"), ("/abc/abc/xhr", "OPTIONS, POST"), ("/abc/abc/xhr_send", "OPTIONS, POST")])
    func `methods are also told to a request that names none`(rest: String, methods: String) async throws {
        let test = try await self.start().test
        for headers in [[:], ["Origin": "http://page"]] as [HTTPHeaders] {
            let response = try test.start("/primus" + rest, method: "OPTIONS", headers: headers)
            expect(response.status == 204 && response.headers["Access-Control-Allow-Methods"] == methods)
            expectEqual(response.headers["Access-Control-Allow-Origin"], headers["Origin"] ?? "*")
        }
        try expectEqual(test.start("/primus/abc/abc/eventsource", method: "OPTIONS", headers: ["Origin": "http://page"]).status, 405)
    }

    @Test func `a slash at the end has no meaning`() async throws {
        let (test, echo) = try await self.start()
        try expect(test.start("/primus/info/").body.hasPrefix(#"{"websocket":true"#))
        try expectEqual(test.start("/primus/0/s/xhr/", method: "POST").body, "o\n")
        try expectEqual(test.start("/primus/0/s/xhr_send/", method: "POST", body: #"["1"]"#).status, 204)
        try expectEqual(test.start("/primus/0/s/xhr", method: "POST").body, "a[\"1\"]\n")
        try expectEqual(test.start("/primus/spec/").status, 404)
        withExtendedLifetime(echo) {}
    }

    @Test func `bytes of messages that aren't text are replaced`() async throws {
        let (test, echo) = try await self.start()
        try expectEqual(test.start("/primus/0/s/xhr", method: "POST").body, "o\n")
        let invalid = Array(#"[""#.utf8) + Array(#"\"a"#.utf8) + [0xFF] + Array(#"\""]"#.utf8)
        let endpoint = Endpoint(scheme: "http", host: test.address.host, port: test.address.port, target: "/primus/0/s/xhr_send")
        let response = try await test.network.transports().http.send(HTTPRequest("POST", endpoint, body: invalid))
        expectEqual(response.head.status, 204)
        try expectEqual(test.start("/primus/0/s/xhr", method: "POST").body, #"a["\"a\ufffd\""]"# + "\n")
        withExtendedLifetime(echo) {}
    }

    @Test func `the information tells that there are no WebSockets`() async throws {
        let response = try await self.start { $0.allowsSockJSWebSockets = false }.test.start("/primus/info")
        try expectEqual(JSONValue(parsing: Array(response.body.utf8))["websocket"], false)
    }

    @Test(arguments: [
        ("GET", "/primus/0/s/jsonp?c=<b>"), ("POST", "/primus/0/s/jsonp_send"), ("GET", "/primus/0/s/htmlfile?c=<b>"),
        ("GET", "/primus/iframe.html"), ("GET", "/primus/iframe-<b>.html"), ("GET", "/primus/0/s"), ("GET", "/primus/0/<b>"),
        ("POST", "/primus/0/../xhr"), ("POST", "/primus/../primus/0/s/xhr"), ("POST", "/primus/0/s/x/xhr"), ("POST", "//primus/0/s/xhr"),
        ("POST", "/primus/0/s%2Fxhr"), ("POST", "/primus/0/s/XHR"), ("POST", "/primus/0/s/xhr%00"), ("POST", "/PRIMUS/0/s/xhr"),
    ])
    func `transports that the server doesn't have, and other spellings of an address, are unknown`(
        method: String, target: String
    ) async throws {
        let test = try await self.start().test
        let response = try test.start(target, method: method, body: "[\"1\"]")
        expect(response.status == 404 && !response.body.contains("<b>") && test.server.sparks.isEmpty, "\(response.body)")
    }

    @Test(arguments: [
        "<script>", "http://<script>alert(1)</script>", "\"><img src=x>", "javascript:alert(1)", "data:text/html,<b>", "http://a<b>",
        "http://%0D%0AX:%20y", "http://\(String(repeating: "a", count: 9_000))",
    ])
    func `an origin with markup is part of no page`(origin: String) async throws {
        let test = try await self.start().test
        for (method, target) in [
            ("GET", "/primus"), ("GET", "/primus/info"), ("POST", "/primus/0/s/xhr"), ("GET", "/primus/0/e/eventsource"),
            ("GET", "/primus/x"), ("POST", "/primus/0/unknown/xhr_send"),
        ] {
            let response = try test.start(target, method: method, headers: ["Origin": origin], body: method == "POST" ? "[]" : "")
            let isRefusal = response.status == 403 && response.headers["Content-Type"]?.hasPrefix("text/plain") == true
            expect(isRefusal || !response.body.contains(origin), "\(method) \(target) \(response.status ?? 0) \(response.body)")
            expect(response.headers["Content-Type"]?.contains("html") != true, "\(method) \(target)")
        }
    }

    @Test(arguments: [
        "/a/a1", "/_/_1", "/1/1", "/abcdefgh_i-j%20/abcdefg_i-j%201", "/0/%2e%2e", "/0/a%2Fb", "/0/<b>",
        "/0/\(String(repeating: "s", count: 9_000))",
    ])
    func `a session has any address of three parts`(part: String) async throws {
        let response = try await self.start().test.start("/primus\(part)/xhr", method: "POST")
        expect(response.status == 200 && response.body == "o\n")
    }

    @Test(arguments: ["//", "/a./a", "/a/a.", "/./.", "/", "///"], ["GET", "POST"])
    func `no session has an address with empty parts or dots`(part: String, method: String) async throws {
        try await expectEqual(self.start().test.start("/primus\(part)/xhr", method: method).status, 404)
    }

    // MARK: Sessions

    @Test func `a session receives its echo, whatever the part for balancers is`() async throws {
        let (test, echo) = try await self.start()
        let opening = try test.start("/primus/000/s/xhr", method: "POST", headers: ["Origin": "http://page"])
        expect(opening.body == "o\n" && opening.headers["Content-Type"] == "application/javascript; charset=UTF-8")
        let send = try test.start("/primus/000/s/xhr_send", method: "POST", headers: ["Origin": "http://page"], body: "[\"1\"]")
        expect(send.status == 204 && send.body.isEmpty && send.headers["Content-Type"] == "text/plain; charset=UTF-8")
        for response in [opening, send] {
            self.checkOrigin(response, "http://page")
            self.checkUncached(response)
        }
        try expectEqual(test.start("/primus/999/s/xhr", method: "POST").body, "a[\"1\"]\n")
        try expectEqual(test.start("/primus/000/other/xhr_send", method: "POST", body: "[\"1\"]").status, 404)
        echo.cancel()
    }

    @Test func `a second request for messages is refused, and the first one goes on waiting`() async throws {
        let (test, echo) = try await self.start()
        try expectEqual(test.start("/primus/0/s/xhr", method: "POST").body, "o\n")
        let first = try test.start("/primus/0/s/xhr", method: "POST")
        let second = try test.start("/primus/0/s/xhr", method: "POST")
        expect(second.status == 200 && second.body == "c[2010,\"Another connection still open\"]\n")
        try expectEqual(test.start("/primus/0/s/xhr_send", method: "POST", body: "[\"1\"]").status, 204)
        expect(first.isEnded && first.body == "a[\"1\"]\n")
        echo.cancel()
    }

    @Test(arguments: ["xhr", "xhr_streaming", "eventsource"])
    func `a session that has ended tells its end again for a while`(transport: String) async throws {
        let (test, echo) = try await self.start()
        try expectEqual(test.start("/primus/0/s/xhr", method: "POST").body, "o\n")
        try expectEqual(test.start("/primus/0/s/xhr_send", method: "POST", body: "[\"\\\"end\\\"\"]").status, 204)
        try expectEqual(test.start("/primus/0/s/xhr", method: "POST").body, "a[\"\\\"primus::server::close\\\"\"]\n")
        let method = transport == "eventsource" ? "GET" : "POST"
        for _ in 0..<2 {
            let response = try test.start("/primus/0/s/\(transport)", method: method)
            // Primus ends sessions with this code.
            expect(response.isEnded && response.body.contains("c[1000,\"Normal closure\"]"), "\(response.body)")
        }
        try expect(test.start("/primus/0/s/xhr_send", method: "POST", body: "[\"1\"]").status == 204 && test.server.sparks.isEmpty)
        test.clock.advance(by: .seconds(5))
        try expectEqual(test.start("/primus/0/s/xhr_send", method: "POST", body: "[\"1\"]").status, 404)
        try expectEqual(test.start("/primus/0/s/xhr", method: "POST").body, "o\n")
        echo.cancel()
    }

    @Test(arguments: ["xhr", "xhr_streaming"])
    func `a session ends when its client gives up the request that waits`(transport: String) async throws {
        let test = try await self.start().test
        try expectEqual(test.start("/primus/0/s/xhr", method: "POST").body, "o\n")
        try test.start("/primus/0/s/\(transport)", method: "POST").cancel()
        expect(test.server.sparks.isEmpty)
        try expectEqual(test.start("/primus/0/s/xhr_send", method: "POST", body: "[\"1\"]").status, 404)
    }

    // MARK: WebSockets

    @Test func `requests at the address of a WebSocket that are none are refused`() async throws {
        let test = try await self.start().test
        for target in ["/primus/0/0/websocket", "/primus/websocket"] {
            for headers: HTTPHeaders in [[:], ["Upgrade": "WebSocket", "Connection": "close"]] {
                let get = try test.start(target, headers: headers)
                expect(get.status == 400 && get.body == "Not a valid websocket request", "\(target) \(headers)")
            }
            for headers: HTTPHeaders in [[:], ["Upgrade": "WebSocket", "Connection": "Upgrade"]] {
                let post = try test.start(target, method: "POST", headers: headers)
                expect(post.status == 405 && post.headers["Allow"] == "GET", "\(target) \(headers)")
                expect(post.headers["Content-Type"] == nil && post.body.isEmpty, "\(target) \(headers)")
            }
        }
    }

    @Test func `WebSockets with the same address are sessions of their own, and empty frames mean nothing`() async throws {
        let (test, echo) = try await self.start()
        let clients = (0..<2).map { _ in test.client("/primus/000/s/websocket") }
        clients[0].send("", "[]", "[\"1\"]")
        clients[1].send("[\"2\"]")
        expect(clients[0].lines == ["o", "a[\"1\"]"] && clients[1].lines == ["o", "a[\"2\"]"])
        clients[0].socket.close()
        expect(test.client("/primus/000/s/websocket").lines == ["o"] && clients[1].end == nil)
        echo.cancel()
    }

    @Test func `a WebSocket with the ID of a session over HTTP is a session of its own`() async throws {
        let (test, echo) = try await self.start()
        try expectEqual(test.start("/primus/000/s/xhr", method: "POST").body, "o\n")
        let client = test.client("/primus/000/s/websocket")
        client.send("[\"1\"]")
        try expectEqual(test.start("/primus/000/s/xhr_send", method: "POST", body: "[\"2\"]").status, 204)
        expectEqual(client.lines, ["o", "a[\"1\"]"])
        try expectEqual(test.start("/primus/000/s/xhr", method: "POST").body, "a[\"2\"]\n")
        client.socket.close()
        try expectEqual(test.start("/primus/000/s/xhr_send", method: "POST", body: "[\"3\"]").status, 204)
        try expectEqual(test.start("/primus/000/s/xhr", method: "POST").body, "a[\"3\"]\n")
        echo.cancel()
    }

    @Test func `a WebSocket that the server ends receives the frame and the close frame`() async throws {
        let (test, echo) = try await self.start()
        let client = test.client("/primus/000/s/websocket")
        client.send("[\"\\\"end\\\"\"]")
        expect(client.lines.last == "c[1000,\"Normal closure\"]" && client.end == .peer(.normal, "Normal closure"))
        echo.cancel()
    }

    @Test func `broken JSON ends a WebSocket`() async throws {
        let test = try await self.start().test
        let client = test.client("/primus/000/s/websocket")
        client.send("[\"a")
        expect(client.lines == ["o"] && client.end == .peer(CloseCode(rawValue: 3000), "Broken framing."))
    }

    @Test func `the raw WebSocket has no frames`() async throws {
        let (test, echo) = try await self.start()
        let client = test.client("/primus/websocket")
        client.send("\"hello\"", "[1]")
        expectEqual(client.lines, ["\"hello\"", "[1]"])
        client.socket.close()
        expect(test.server.sparks.isEmpty)
        echo.cancel()
    }

    // MARK: Heartbeats

    @Test(arguments: [("xhr", "h\n"), ("xhr_streaming", "h\n"), ("eventsource", "data: h\r\n\r\n")])
    func `a client that waits for messages over HTTP receives a heartbeat every 25 seconds`(
        transport: String, heartbeat: String
    ) async throws {
        let test = try await self.start().test
        let method = transport == "eventsource" ? "GET" : "POST"
        try expectEqual(test.start("/primus/0/s/xhr", method: "POST").body, "o\n")
        for _ in 0..<3 {
            let request = try test.start("/primus/0/s/\(transport)", method: method)
            test.clock.advance(by: .seconds(24))
            let prelude = request.body
            test.clock.advance(by: .seconds(1))
            expect(request.body == prelude + heartbeat && request.isEnded == (transport == "xhr"))
            if transport == "xhr" { continue }
            test.clock.advance(by: .seconds(25))
            expect(request.body == prelude + heartbeat + heartbeat && !request.isEnded)
            return
        }
    }

    @Test func `a WebSocket with frames receives a ping every 25 seconds, and has 10 seconds to answer it`() async throws {
        let (test, echo) = try await self.start()
        let client = test.client("/primus/0/s/websocket")
        for _ in 0..<10 { test.clock.advance(by: .seconds(10)) }
        expect(client.lines == ["o"] + Array(repeating: "ping frame", count: 4) && client.end == nil)
        // The next one is lost.
        test.network.condition = .silent
        test.clock.advance(by: .seconds(25))
        test.network.condition = .up
        expectEqual(test.server.sparks.count, 1)
        test.clock.advance(by: .seconds(9))
        expectEqual(test.server.sparks.count, 1)
        test.clock.advance(by: .seconds(1))
        expect(test.server.sparks.isEmpty)
        expect(client.lines.last == "c[3000,\"No response from heartbeat\"]" && client.end == .peer(.normal, "Normal closure"))
        echo.cancel()
    }

    @Test func `a pong that the server hasn't read is asked for again`() async throws {
        let (test, echo) = try await self.start()
        let client = test.client("/primus/0/s/websocket")
        test.network.condition = .silent
        test.clock.advance(by: .seconds(25))
        test.network.condition = .up
        let spark = try #require(test.server.sparks.first)
        test.server.silence(spark.id)
        test.clock.advance(by: .seconds(9))
        test.server.silence(spark.id, false)
        test.clock.advance(by: .seconds(1))
        expectEqual(client.lines, ["o", "ping frame"])
        for _ in 0..<10 { test.clock.advance(by: .seconds(10)) }
        expect(test.server.sparks.count == 1 && client.end == nil)
        echo.cancel()
    }

    @Test func `after a standstill, a client whose pong is missing is asked again, and ended without an answer`() async throws {
        for answers in [false, true] {
            let (test, echo) = try await self.start()
            let client = test.client("/primus/0/s/websocket")
            // The first ping is lost.
            test.network.condition = .silent
            test.clock.advance(by: .seconds(25))
            if answers { test.network.condition = .up }
            test.clock.standStill(for: .seconds(100))
            expect(test.server.sparks.count == 1 && client.lines == (answers ? ["o", "ping frame"] : ["o"]), "\(client.lines)")
            test.clock.advance(by: .seconds(9))
            expectEqual(test.server.sparks.count, 1)
            test.clock.advance(by: .seconds(1))
            expectEqual(test.server.sparks.count, answers ? 1 : 0)
            echo.cancel()
        }
    }

    @Test func `a raw WebSocket receives no pings`() async throws {
        let test = try await self.start().test
        let client = test.client("/primus/websocket")
        for _ in 0..<10 { test.clock.advance(by: .seconds(10)) }
        expect(client.lines == [] && client.end == nil)
    }

    // MARK: Polling

    @Test func `bodies that aren't arrays are refused, and the session goes on`() async throws {
        let (test, echo) = try await self.start()
        try expectEqual(test.start("/primus/0/s/xhr", method: "POST").body, "o\n")
        for (body, answer) in [("[\"x", "Broken JSON encoding."), ("", "Payload expected."), ("{}", "Payload expected.")] {
            let response = try test.start("/primus/0/s/xhr_send", method: "POST", body: body)
            expect(response.status == 500 && response.body == answer)
        }
        for body in ["[]", "[\"1\"]"] { try expectEqual(test.start("/primus/0/s/xhr_send", method: "POST", body: body).status, 204) }
        try expectEqual(test.start("/primus/0/s/xhr", method: "POST").body, "a[\"1\"]\n")
        echo.cancel()
    }

    @Test func `a body is read when its client is authorized, and only for a session that exists`() async throws {
        let test = try await self.start {
            $0.authorize = { request in request.headers["Authorization"] == "yes" ? .accept : .reject("Who are you?") }
        }.test
        let open = try await test.request("/primus/0/s/xhr", method: "POST", headers: ["Authorization": "yes"])
        expectEqual(open.head.status, 200)
        for (session, field, body, status) in [
            ("s", "no", "[\"x", 401), ("s", "no", "", 401), ("unknown", "no", "[\"x", 401), ("unknown", "yes", "[\"x", 404),
            ("s", "yes", "[\"x", 500), ("s", "yes", "[\"1\"]", 204),
        ] {
            let response = try await test.request(
                "/primus/0/\(session)/xhr_send", method: "POST", headers: ["Authorization": field], body: body)
            expectEqual(response.head.status, status, "\(session) \(field) \(body)")
        }
    }

    @Test func `messages have any type that browsers send them with, but that of forms`() async throws {
        let (test, echo) = try await self.start()
        try expectEqual(test.start("/primus/0/s/xhr", method: "POST").body, "o\n")
        let types = [
            "text/plain", "T", "application/json", "application/xml", "", "application/json; charset=utf-8", "text/xml; charset=utf-8",
            "text/xml",
        ]
        for type in types {
            let response = try test.start("/primus/0/s/xhr_send", method: "POST", headers: ["Content-Type": type], body: "[\"1\"]")
            expect(response.status == 204 && response.body.isEmpty, "\(type)")
        }
        let form = try test.start(
            "/primus/0/s/xhr_send", method: "POST", headers: ["Content-Type": "application/x-www-form-urlencoded"], body: "d=[\"1\"]")
        expect(form.status == 500 && form.body == "Payload expected.")
        let expected = "a[" + types.map { _ in "\"1\"" }.joined(separator: ",") + "]\n"
        try expectEqual(test.start("/primus/0/s/xhr", method: "POST").body, expected)
        echo.cancel()
    }

    // MARK: Streaming

    private static let prelude = String(repeating: "h", count: 2048) + "\n"

    @Test func `a stream has a prelude, and the frames as they come`() async throws {
        let (test, echo) = try await self.start()
        let stream = try test.start("/primus/0/s/xhr_streaming", method: "POST", headers: ["Origin": "http://page"])
        expect(stream.status == 200 && stream.headers["Content-Type"] == "application/javascript; charset=UTF-8")
        self.checkOrigin(stream, "http://page")
        self.checkUncached(stream)
        expectEqual(stream.body, Self.prelude + "o\n")
        try expectEqual(test.start("/primus/0/s/xhr_send", method: "POST", body: "[\"1\"]").status, 204)
        expect(stream.body == Self.prelude + "o\na[\"1\"]\n" && !stream.isEnded)
        echo.cancel()
    }

    @Test(arguments: ["xhr_streaming", "eventsource"]) func `a stream ends at its limit, and another one follows`(
        transport: String
    ) async throws {
        let (test, echo) = try await self.start { $0.sockJSResponseLimit = 4096 }
        let method = transport == "eventsource" ? "GET" : "POST"
        let stream = try test.start("/primus/0/s/\(transport)", method: method)
        let text = String(repeating: "x", count: 126)
        var count = 0
        while !stream.isEnded, count < 100 {
            try expectEqual(test.start("/primus/0/s/xhr_send", method: "POST", body: "[\"\\\"\(text)\\\"\"]").status, 204)
            count += 1
        }
        let frame = "a[\"\\\"\(text)\\\"\"]"
        expect(stream.isEnded && stream.error == nil && stream.body.split(separator: frame).count >= count)
        // As with the original, the prelude doesn't count.
        let sent = stream.body.utf8.count - (method == "GET" ? 2 : Self.prelude.utf8.count)
        expect(4096..<4096 + 200 ~= sent, "\(sent)")
        try expectEqual(test.start("/primus/0/s/xhr_send", method: "POST", body: "[\"1\"]").status, 204)
        try expect(test.start("/primus/0/s/\(transport)", method: method).body.contains("a[\"1\"]"))
        echo.cancel()
    }

    /// `HandlingClose.test_close_request` and `test_abort_xhr_streaming` of the description.
    @Test(arguments: ["xhr_streaming", "eventsource"])
    func `a second stream is refused while one is open, and begins another session after that`(transport: String) async throws {
        let (test, echo) = try await self.start()
        let isEventSource = transport == "eventsource"
        func stream() throws -> RawExchange { try test.start("/primus/0/s/\(transport)", method: isEventSource ? "GET" : "POST") }
        func body(_ frames: String...) -> String {
            frames.reduce(isEventSource ? "\r\n" : Self.prelude) { $0 + (isEventSource ? "data: \($1)\r\n\r\n" : "\($1)\n") }
        }
        let first = try stream()
        let second = try stream()
        expect(second.isEnded && second.status == 200 && second.body == body(#"c[2010,"Another connection still open"]"#))
        try expectEqual(test.start("/primus/0/s/xhr_send", method: "POST", body: "[\"1\"]").status, 204)
        expect(!first.isEnded && first.body == body("o", #"a["1"]"#))
        first.cancel()
        expect(test.server.sparks.isEmpty)
        let third = try stream()
        expect(!third.isEnded && third.body == body("o"))
        echo.cancel()
    }

    @Test func `events have the frames, in which no line ends`() async throws {
        let (test, echo) = try await self.start()
        let stream = try test.start("/primus/0/s/eventsource")
        expect(stream.status == 200 && stream.headers["Content-Type"] == "text/event-stream")
        self.checkUncached(stream)
        expectEqual(stream.body, "\r\ndata: o\r\n\r\n")
        let body = #"["\"  \\u0000\\n\\r \""]"#
        try expectEqual(test.start("/primus/0/s/xhr_send", method: "POST", body: body).status, 204)
        expectEqual(stream.body, "\r\ndata: o\r\n\r\ndata: a\(body)\r\n\r\n")
        echo.cancel()
    }

    /// As sockjs-node, whose clients call `decodeURI`.
    @Test func `events escape percent signs, and what would end a line`() async throws {
        let (test, echo) = try await self.start()
        let stream = try test.start("/primus/0/s/eventsource")
        let opening = stream.body
        try expectEqual(test.start("/primus/0/s/xhr_send", method: "POST", body: #"["\"100% %41\""]"#).status, 204)
        expectEqual(stream.body, opening + #"data: a["\"100%25 %2541\""]"# + "\r\n\r\n")
        test.server.sendRaw(.text("a[\"\r\n\0%\"]"), to: try #require(test.server.sparks.first).id)
        expect(stream.body.hasSuffix("data: a[\"%0D%0A%00%25\"]\r\n\r\n"))
        // Other transports have no such escapes.
        try expectEqual(test.start("/primus/0/other/xhr", method: "POST").body, "o\n")
        try expectEqual(test.start("/primus/0/other/xhr_send", method: "POST", body: #"["\"100%\""]"#).status, 204)
        try expectEqual(test.start("/primus/0/other/xhr", method: "POST").body, "a[\"\\\"100%\\\"\"]\n")
        echo.cancel()
    }

    @Test(arguments: ["xhr_streaming", "eventsource"], ["", "100%"])
    func `a large message has the frame of others, and escapes where they have some`(transport: String, end: String) async throws {
        let (test, echo) = try await self.start()
        let stream = try test.start("/primus/0/s/\(transport)", method: transport == "eventsource" ? "GET" : "POST")
        let opening = stream.body
        let text = String(repeating: "x", count: 100_000) + end
        try expectEqual(test.start("/primus/0/s/xhr_send", method: "POST", body: #"["\"\#(text)\""]"#).status, 204)
        try expectEqual(test.start("/primus/0/s/xhr_send", method: "POST", body: "[\"1\"]").status, 204)
        let frames = [#"a["\"\#(text)\""]"#, "a[\"1\"]"]
        let events = frames.map { "data: \($0.replacing("%", with: "%25"))\r\n\r\n" }
        expect(stream.body == opening + (transport == "eventsource" ? events : frames.map { $0 + "\n" }).joined())
        echo.cancel()
    }

    // MARK: The cookie for balancers

    private func startWithCookie() async throws -> ServerUnderTest { try await self.start { $0.sessionCookie = "JSESSIONID" }.test }

    @Test func `the information tells that a balancer needs cookies, and sets none`() async throws {
        let test = try await self.startWithCookie()
        let response = try test.start("/primus/info")
        expect(response.status == 200 && response.headers["Set-Cookie"] == nil)
        try expectEqual(JSONValue(parsing: Array(response.body.utf8))["cookie_needed"], true)
        // As sockjs-node, also for this question.
        try expectEqual(test.start("/primus/info", method: "OPTIONS").headers["Set-Cookie"], "JSESSIONID=dummy; path=/")
    }

    @Test(arguments: ["xhr", "xhr_streaming", "eventsource"])
    func `the responses of a session have the cookie of the client, or one without a meaning`(transport: String) async throws {
        let test = try await self.startWithCookie()
        let method = transport == "eventsource" ? "GET" : "POST"
        let first = try test.start("/primus/000/a/\(transport)", method: method)
        expect(first.status == 200 && first.headers["Set-Cookie"] == "JSESSIONID=dummy; path=/")
        for cookie in ["JSESSIONID=abcdef", "a=b; JSESSIONID = abcdef ;c=d", "JSESSIONID=x; JSESSIONID=abcdef=", "\tJSESSIONID=abcdef"] {
            let test = try await self.startWithCookie()
            let second = try test.start("/primus/000/b/\(transport)", method: method, headers: ["Cookie": cookie])
            expect(second.status == 200 && second.headers.values("Set-Cookie") == ["JSESSIONID=abcdef; path=/"], "\(cookie)")
        }
        for cookie in ["JSESSIONID=", "JSESSIONID", "jsessionid=abcdef", "", ";=;"] {
            let test = try await self.startWithCookie()
            let third = try test.start("/primus/000/c/\(transport)", method: method, headers: ["Cookie": cookie])
            expectEqual(third.headers["Set-Cookie"], "JSESSIONID=dummy; path=/", "\(cookie)")
        }
    }

    @Test func `each answer of a session has the cookie, and others don't`() async throws {
        let test = try await self.startWithCookie()
        let headers: HTTPHeaders = ["Cookie": "JSESSIONID=1"]
        func cookie(_ rest: String, method: String = "POST", body: String = "") throws -> String? {
            try test.start("/primus/" + rest, method: method, headers: headers, body: body).headers["Set-Cookie"]
        }
        for _ in 0..<2 {
            try expectEqual(cookie("0/s/xhr"), "JSESSIONID=1; path=/")
            try expectEqual(cookie("0/s/xhr_send", body: "[\"1\"]"), "JSESSIONID=1; path=/")
            try test.server.write("next")
        }
        // As with sockjs-node, also refusals.
        try expectEqual(cookie("0/unknown/xhr_send", body: "[]"), "JSESSIONID=1; path=/")
        try expectEqual(cookie("0/s/xhr_send", body: "x"), "JSESSIONID=1; path=/")
        try expectEqual(cookie("0/s/xhr", method: "OPTIONS"), "JSESSIONID=1; path=/")
        for rest in ["", "spec", "0/s", "0/s/xhr"] { try expectNil(cookie(rest, method: "GET"), "\(rest)") }
        for rest in ["0/s/eventsource", "0/s/x"] { try expectNil(cookie(rest), "\(rest)") }
        let refusing = try await self.start {
            $0.sessionCookie = "JSESSIONID"
            $0.authorize = { _ in .reject("Who are you?") }
        }.test
        let refused = try await refusing.request("/primus/0/s/xhr", method: "POST")
        expect(refused.head.status == 401 && refused.head.headers["Set-Cookie"] == nil)
    }

    @Test func `without a name, there is no cookie`() async throws {
        let test = try await self.start().test
        try expectNil(test.start("/primus/0/s/xhr", method: "POST", headers: ["Cookie": "JSESSIONID=1"]).headers["Set-Cookie"])
        try expectNil(test.start("/primus/info", method: "OPTIONS").headers["Set-Cookie"])
    }

    // MARK: Characters

    @Test func `characters that browsers would change are escaped`() async throws {
        let (test, echo) = try await self.start()
        let ranges: [ClosedRange<UInt16>] = [0x200C...0x200F, 0x2028...0x202F, 0x2060...0x206F, 0xFFF0...0xFFFF]
        let units = ranges.flatMap { Array($0) }
        try expectEqual(test.start("/primus/0/s/xhr", method: "POST").body, "o\n")
        let body = "[\"\\\"" + String(decoding: units, as: UTF16.self) + "\\\"\"]"
        try expectEqual(test.start("/primus/0/s/xhr_send", method: "POST", body: body).status, 204)
        // The line ends among them are escaped by Primus already, whose backslash is escaped here.
        let escaped = units.map { unit in (unit == 0x2028 || unit == 0x2029 ? #"\\u"# : #"\u"#) + String(unit, radix: 16) }.joined()
        try expectEqual(test.start("/primus/0/s/xhr", method: "POST").body, "a[\"\\\"" + escaped + "\\\"\"]\n")
        echo.cancel()
    }

    @Test func `characters that a client has escaped are decoded`() async throws {
        let (test, echo) = try await self.start()
        // All that a client for browsers escapes are among them.
        let text = String(String.UnicodeScalarView((UInt32(0)...0x1_00FF).compactMap { Unicode.Scalar($0) }))
        let packet = String(decoding: JSONValue.string(text).bytes, as: UTF8.self)
        let escaped = packet.utf16.map { "\\u\(String(0x1_0000 + Int($0), radix: 16).dropFirst())" }.joined()
        try expectEqual(test.start("/primus/0/s/xhr", method: "POST").body, "o\n")
        try expectEqual(test.start("/primus/0/s/xhr_send", method: "POST", body: "[\"" + escaped + "\"]").status, 204)
        let frame = try test.start("/primus/0/s/xhr", method: "POST").body.utf8.dropFirst().dropLast()
        let answer = try #require(JSONValue(parsing: Array(frame)).array?.first?.string)
        let value = try #require(JSONValue(parsing: Array(answer.utf8)).string)
        expect(value.utf8.elementsEqual(text.utf8))
        echo.cancel()
    }
}
