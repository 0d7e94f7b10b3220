import RealtimeCore
import RealtimeTesting
import TestSupport
import SignalRHubs
import SignalRWire
import Testing

/// The access token, the negotiation, the upgrade and the handshake.
@Suite(.timeLimit(.minutes(10))) struct HubStartTests {
    // MARK: Negotiation

    @Test func `a client negotiates, and connects with the token of the connection`() async throws {
        let hub = try await HubFixture(negotiates: true) {
            $0.headers = ["X-App": "one"]
            $0.accessToken = { "access-1" }
        }
        try await expectEqual(hub.client.start(), "id-1")
        expectEqual(hub.client.connectionID, "id-1")
        let request = try #require(hub.server.negotiations.all.first)
        expectEqual(request.method, "POST")
        expectEqual(request.target, "/chat/negotiate?room=1&negotiateVersion=1")
        let upgrade = try #require(hub.server.upgrades.all.first)
        expectEqual(upgrade.target, "/chat?room=1&id=secret-token-1")
        for head in [request, upgrade] {
            expectEqual(head.headers["Authorization"], "Bearer access-1")
            expectEqual(head.headers["X-Requested-With"], "XMLHttpRequest")
            expect(head.headers["User-Agent"] != nil)
            expectEqual(head.headers["X-App"], "one")
        }
        expectEqual(hub.server.handshakes.all, [#"{"protocol":"json","version":1}"#])
        expectEqual(hub.states, [.connecting, .connected(connectionID: "id-1")])
        expectEqual(hub.events, [])
    }

    @Test func `header fields of the application replace those of the client`() async throws {
        let hub = try await HubFixture.connected(negotiates: true) {
            $0.headers = ["authorization": "Basic x", "User-Agent": "mine"]
            $0.accessToken = { "access-1" }
        }
        let request = try #require(hub.server.negotiations.all.first)
        expectEqual(request.headers.values("Authorization"), ["Basic x"])
        expectEqual(request.headers.values("User-Agent"), ["mine"])
    }

    @Test func `cookies of a negotiation are sent with the upgrade`() async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { _, number in
            var response = ScriptedHub.response(number)
            response.head.headers.add("Set-Cookie", "affinity=a=b; Path=/; HttpOnly, other=2; Expires=Wed, 21 Oct 2099 07:28:00 GMT")
            response.head.headers.add("set-cookie", "theme=dark; path=/chat")
            response.head.headers.add("Set-Cookie", "elsewhere=1; Path=/chats")
            response.head.headers.add("Set-Cookie", "encrypted=1; Secure; Path=/")
            response.head.headers.add("Set-Cookie", "gone=1; Path=/; Max-Age=0")
            response.head.headers.add("Set-Cookie", "broken")
            response.head.headers.add("Set-Cookie", "below=1")
            return response
        }
        let hub = try await HubFixture.connected(negotiates: true, script) { $0.headers = ["Cookie": "theme=light; mine=1"] }
        let (request, upgrade) = (try #require(hub.server.negotiations.all.first), try #require(hub.server.upgrades.all.first))
        expectEqual(request.headers.values("Cookie"), ["theme=light; mine=1"])
        expectEqual(upgrade.headers.values("Cookie"), ["mine=1; other=2; theme=dark; below=1; affinity=a=b"])
    }

    @Test func `cookies are sent to the host that set them, also in later attempts, until they expire`() async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { request, number in
            var response = number == 1 ? ScriptedHub.json(#"{"url":"/other"}"#) : ScriptedHub.response(number)
            if number == 1 { response.head.headers.add("Set-Cookie", "first=1; Path=/; Max-Age=60") }
            return response
        }
        let hub = try await HubFixture.connected(negotiates: true, script) { $0.retry = .delays([.zero]) }
        expectEqual(hub.server.negotiations.all.map { $0.headers["Cookie"] }, [nil, "first=1"])
        expectEqual(hub.server.upgrades.all.map { $0.headers["Cookie"] }, ["first=1"])
        for (count, cookie) in [(2, "first=1"), (3, nil)] {
            hub.network.cut()
            hub.clock.advance(by: count == 2 ? .seconds(1) : .seconds(60))
            try await eventually { hub.server.upgrades.all.count == count }
            expectEqual(hub.server.upgrades.all.last?.headers["Cookie"], cookie)
            try await eventually { hub.isConnected }
        }
    }

    @Test func `version 0 of the negotiation uses the connection ID as the token`() async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { _, _ in
            ScriptedHub.json(#"{"connectionId":"a b","availableTransports":[{"transport":"WebSockets","transferFormats":["Text"]}]}"#)
        }
        let hub = try await HubFixture.connected(negotiates: true, script)
        expectEqual(hub.client.connectionID, "a b")
        expectEqual(hub.server.upgrades.all.first?.target, "/chat?room=1&id=a%20b")
    }

    @Test func `without a negotiation, the client connects to the URL of the hub and has no connection ID`() async throws {
        let hub = try await HubFixture.connected()
        expectNil(hub.client.connectionID)
        expect(hub.server.negotiations.all.isEmpty)
        expectEqual(hub.server.upgrades.all.first?.target, "/chat?room=1")
        expectEqual(hub.client.state, .connected(connectionID: nil))
    }

    @Test func `every attempt begins at the URL of the application, and with its token`() async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { head, number in
            if head.target.contains("moved") { return ScriptedHub.response(number) }
            return ScriptedHub.json(#"{"url":"/moved/?hub=chat","accessToken":"of-the-service"}"#)
        }
        let hub = try await HubFixture.connected(negotiates: true, script) {
            $0.accessToken = { "of-the-app" }
            $0.retry = .delays([.seconds(1)])
        }
        hub.network.cut()
        hub.clock.advance(by: .seconds(1))
        try await eventually { hub.isConnected }
        let expected = ["/chat/negotiate?room=1&negotiateVersion=1", "/moved/negotiate?hub=chat&negotiateVersion=1"]
        expectEqual(hub.server.negotiations.all.map(\.target), expected + expected)
        let tokens = hub.server.negotiations.all.map { $0.headers["Authorization"] }
        expectEqual(tokens, ["Bearer of-the-app", "Bearer of-the-service", "Bearer of-the-app", "Bearer of-the-service"])
        expectEqual(hub.server.upgrades.all.map { $0.headers["Authorization"] }, ["Bearer of-the-service", "Bearer of-the-service"])
        expectEqual(hub.server.upgrades.all.map(\.target), ["/moved/?hub=chat&id=secret-token-2", "/moved/?hub=chat&id=secret-token-4"])
    }

    @Test func `the negotiation isn't redirected from https to http`() async throws {
        let hub = try await HubFixture(negotiates: true) {
            $0.endpoint = Endpoint(scheme: "https", host: $0.endpoint.host, port: $0.endpoint.port, target: "/chat")
            $0.transports.http = RedirectingNegotiation(url: "http://elsewhere/chat", token: nil)
            $0.accessToken = { "secret" }
        }
        let error = try #require(await hubError { try await hub.client.start() })
        expect(error.code == .negotiationFailed && error.message.contains("from https to http"))
    }

    /// Answers each negotiation at the first host with a redirect, and records all requests.
    private struct RedirectingNegotiation: HTTPTransport {
        var url: String
        var token: String?
        /// The status of the answers after the redirect.
        var status = 503
        let requests = EventRecorder<HTTPRequest>()

        func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
            self.requests.record(request)
            guard self.requests.all.count == 1 else { return HTTPStreamedResponse(HTTPResponse(status: self.status)) }
            let token = self.token.map { #","accessToken":"\#($0)""# } ?? ""
            return HTTPStreamedResponse(HTTPResponse(status: 200, text: #"{"url":"\#(self.url)"\#(token)}"#))
        }
    }

    @Test(arguments: [(String?.none, false), (nil, true), ("other", false), ("other", true)])
    func `the token and header fields of the application go to another origin only by a setting`(
        token: String?, sendsHeaders: Bool
    ) async throws {
        let http = RedirectingNegotiation(url: "http://elsewhere/chat", token: token)
        let hub = try await HubFixture(negotiates: true) {
            $0.transports.http = http
            $0.accessToken = { "mine" }
            $0.headers = ["X-Key": "secret", "Cookie": "a=b"]
            $0.sendsHeadersAfterRedirect = sendsHeaders
        }
        _ = await hubError { try await hub.client.start() }
        let second = try #require(http.requests.all.last)
        expect(http.requests.all.count == 2 && second.endpoint.host == "elsewhere")
        expect(second.headers["X-Key"] == (sendsHeaders ? "secret" : nil) && second.headers["Cookie"] == (sendsHeaders ? "a=b" : nil))
        expectEqual(second.headers["Authorization"], (token ?? (sendsHeaders ? "mine" : nil)).map { "Bearer \($0)" })
        expect(second.headers["User-Agent"]?.contains("SignalR") == true)
    }

    @Test func `a server to which a redirect without a token leads, and that wants one, is the reason`() async throws {
        let http = RedirectingNegotiation(url: "http://elsewhere/chat", token: nil, status: 401)
        let asked = EventRecorder<Int>()
        let hub = try await HubFixture(negotiates: true) {
            $0.transports.http = http
            $0.accessToken = {
                asked.record(1)
                return "mine"
            }
        }
        let error = try #require(await hubError { try await hub.client.start() })
        expect(error.code == .unauthorized && error.status == 401 && asked.all.count == 1, "\(error)")
        let place = "The negotiation with http://elsewhere/chat, to which \(hub.client.configuration.endpoint) redirected it, was answered"
        expect(error.message.hasPrefix(place) && error.message.contains("or set sendsHeadersAfterRedirect."), "\(error)")
    }

    @Test func `redirects have the time limit of the attempt`() async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { _, _ in nil }
        let hub = try await HubFixture(negotiates: true, script) { $0.connectTimeout = .seconds(50) }
        let start = Task { await hubError { try await hub.client.start() } }
        for count in 1...2 {
            try await eventually { hub.server.silent.all.count == count }
            hub.clock.advance(by: .seconds(20))
            hub.server.silent.all[count - 1].respond(ScriptedHub.json(#"{"url":"/next"}"#))
        }
        try await eventually { hub.server.silent.all.count == 3 }
        hub.clock.advance(by: .seconds(10))
        await expectEqual(start.value?.code, .timedOut)
    }

    @Test func `a client follows 100 redirects and no more`() async throws {
        for (redirects, isAccepted) in [(100, true), (101, false)] {
            var script = ScriptedHub.Script()
            script.negotiate = { _, number in number <= redirects ? ScriptedHub.json(#"{"url":"/next"}"#) : ScriptedHub.response(number) }
            let hub = try await HubFixture(negotiates: true, script)
            let error = await hubError { try await hub.client.start() }
            expectEqual((error == nil), isAccepted)
            expectEqual(hub.server.negotiations.all.count, 101)
            if !isAccepted { expect(error?.code == .negotiationFailed && hub.isStopped) }
        }
    }

    private static func redirect(_ status: Int, to location: String) -> HTTPResponse {
        HTTPResponse(HTTPResponseHead(status: status, headers: ["Location": location, "Content-Length": "0"]))
    }

    @Test(arguments: [(307, "POST"), (308, "POST"), (302, "GET"), (303, "GET")])
    func `a negotiation follows redirects of HTTP, and the URL of the hub stays`(status: Int, method: String) async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { _, number in
            guard number == 1 else { return ScriptedHub.response(number) }
            var response = Self.redirect(status, to: "/moved/negotiate?negotiateVersion=1")
            response.head.headers.add("Set-Cookie", "affinity=1; Path=/")
            return response
        }
        let hub = try await HubFixture.connected(negotiates: true, script) { $0.accessToken = { "token" } }
        expectEqual(
            hub.server.negotiations.all.map { "\($0.method) \($0.target)" },
            [
                "POST /chat/negotiate?room=1&negotiateVersion=1", "\(method) /moved/negotiate?negotiateVersion=1",
            ])
        let second = try #require(hub.server.negotiations.all.last)
        expect(second.headers["Authorization"] == "Bearer token" && second.headers["Cookie"] == "affinity=1")
        let upgrade = try #require(hub.server.upgrades.all.first)
        expect(upgrade.path == "/chat" && upgrade.headers["Cookie"] == "affinity=1")
    }

    @Test(arguments: [false, true])
    func `a redirect of HTTP to another origin takes no credentials along`(sendsHeaders: Bool) async throws {
        struct Redirecting: HTTPTransport {
            let requests = EventRecorder<HTTPRequest>()

            func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
                self.requests.record(request)
                let isFirst = self.requests.all.count == 1
                return HTTPStreamedResponse(
                    isFirst ? HubStartTests.redirect(307, to: "http://elsewhere/negotiate") : HTTPResponse(status: 503))
            }
        }
        let http = Redirecting()
        let hub = try await HubFixture(negotiates: true) {
            $0.transports.http = http
            $0.accessToken = { "mine" }
            $0.headers = ["X-Key": "secret", "Cookie": "a=b"]
            $0.sendsHeadersAfterRedirect = sendsHeaders
        }
        _ = await hubError { try await hub.client.start() }
        let second = try #require(http.requests.all.last)
        expect(http.requests.all.count == 2 && second.endpoint.host == "elsewhere")
        expect(second.headers["Authorization"] == nil && second.headers["Cookie"] == nil)
        expectEqual(second.headers["X-Key"], (sendsHeaders ? "secret" : nil))
    }

    @Test(arguments: [
        (301, 405, "became a GET request"), (307, 401, "takes no credentials to another origin"), (308, 404, "Check the URL"),
    ])
    func `what a negotiation meets behind a redirect is an error with both URLs`(redirect: Int, status: Int, text: String) async throws {
        struct Redirecting: HTTPTransport {
            let redirect: Int, status: Int
            let requests = EventRecorder<HTTPRequest>()

            func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
                self.requests.record(request)
                let isFirst = self.requests.all.count == 1
                let response = HubStartTests.redirect(self.redirect, to: "http://elsewhere:81/negotiate?key=secret")
                return HTTPStreamedResponse(isFirst ? response : HTTPResponse(status: self.status))
            }
        }
        let http = Redirecting(redirect: redirect, status: status)
        let asked = EventRecorder<Int>()
        let hub = try await HubFixture(negotiates: true) {
            $0.transports.http = http
            $0.accessToken = {
                asked.record(1)
                return "mine"
            }
        }
        let error = try #require(await hubError { try await hub.client.start() })
        expect(error.status == status && error.code == (status == 401 ? .unauthorized : .negotiationFailed), "\(error)")
        let place =
            "The negotiation with \(hub.client.configuration.endpoint) was redirected to http://elsewhere:81/negotiate, which answered"
        expect(error.message.hasPrefix(place) && error.message.contains(text) && !error.message.contains("secret"), "\(error)")
        // Another token wouldn't be sent there either.
        expect(asked.all.count == 1 && http.requests.all.count == 2)
    }

    @Test(arguments: [("/chat/negotiate", "was redirected more than 20 times"), ("ftp://elsewhere/", "to an invalid URL")])
    func `a circle of redirects and an invalid redirect of HTTP are errors`(location: String, text: String) async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { _, _ in Self.redirect(307, to: location) }
        let hub = try await HubFixture(negotiates: true, script)
        let error = try #require(await hubError { try await hub.client.start() })
        expect(error.code == .negotiationFailed && error.message.contains(text), "\(error)")
        expectEqual(hub.server.negotiations.all.count, (location == "/chat/negotiate" ? 21 : 1))
    }

    static let badNegotiations: [(String, Int, String)] = [
        (#"{"error":"no room"}"#, 200, "no room"),
        ("", 404, "404"),
        ("", 405, "Check the URL: either it isn't that of a hub"),
        ("Upgrade Required", 426, "Check the URL: either it isn't that of a hub"),
        ("", 500, "500"),
        ("not JSON", 200, "JSON"),
        ("[]", 200, "object"),
        ("{}", 200, "connectionId"),
        (#"{"connectionId":7}"#, 200, "connectionId"),
        (#"{"connectionId":"1","negotiateVersion":1,"availableTransports":[]}"#, 200, "connectionToken"),
        (#"{"connectionId":"1","availableTransports":[]}"#, 200, "offers no transport"),
        (
            #"{"connectionId":"1","availableTransports":[{"transport":"WebTransport","transferFormats":["Text"]}]}"#, 200,
            "WebTransport (Text)"
        ),
        (#"{"connectionId":"1","availableTransports":[{"transport":"WebSockets","transferFormats":["Binary"]}]}"#, 200, "Text"),
        (
            #"{"connectionId":"1","useStatefulReconnect":true,"availableTransports":[{"transport":"WebSockets","transferFormats":["Text"]}]}"#,
            200, "stateful"
        ),
        (#"{"Url":"/signalr","ProtocolVersion":"1.5"}"#, 200, "ASP.NET"), (#"{"url":"/signalr","protocolVersion":"1.5"}"#, 200, "ASP.NET"),
        (#"{"url":"ftp://elsewhere/"}"#, 200, "redirected"),
    ]

    @Test(
        arguments: [
            #"{"connectionToken":"sesame","connectionId":"id-1","negotiateVersion":1,"availableTransports":[]}"#,
            #"{"connectionId":"sesame","availableTransports":[]}"#, #"{"url":"http://elsewhere/","accessToken":"sesame"}"#,
            #"{"ConnectionToken":"sesame""#,
        ], [201, 500])
    func `a negotiation that is answered with another status doesn't show the tokens in its body`(body: String, status: Int) async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { _, _ in ScriptedHub.json(body, status: status) }
        let hub = try await HubFixture(negotiates: true, script)
        let error = try #require(await hubError { try await hub.client.start() })
        expect(error.message.contains("with the status \(status)") && !error.message.contains("sesame"), "\(error)")
        expect(!hub.log.all.contains { $0.contains("sesame") })
    }

    @Test(arguments: Self.badNegotiations)
    func `a failed negotiation is an error of start`(body: String, status: Int, text: String) async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { _, _ in ScriptedHub.json(body, status: status) }
        let hub = try await HubFixture(negotiates: true, script) { $0.retry = .standard }
        let error = try #require(await hubError { try await hub.client.start() })
        expectEqual(error.code, .negotiationFailed)
        expect(error.message.contains(text))
        expectEqual(hub.client.state, .stopped(error))
        // A start that failed was never connected.
        expectEqual(hub.events, [])
        expect(hub.server.upgrades.all.isEmpty)
    }

    @Test func `a refused connection is an error of start`() async throws {
        let hub = try await HubFixture(negotiates: true)
        hub.network.condition = .down
        let error = try #require(await hubError { try await hub.client.start() })
        expect(error.code == .connectionLost && error.transportError?.code == .unreachable)
    }

    // MARK: Access tokens

    @Test func `the application is asked for a token in each attempt`() async throws {
        let count = EventRecorder<Int>()
        let hub = try await HubFixture.connected(negotiates: true) {
            $0.accessToken = {
                count.record(1)
                return "token-\(count.all.count)"
            }
            $0.retry = .delays([.zero])
        }
        hub.network.cut()
        hub.clock.advance(by: .milliseconds(1))
        try await eventually { hub.isConnected }
        expectEqual(hub.server.upgrades.all.map { $0.headers["Authorization"] }, ["Bearer token-1", "Bearer token-2"])
    }

    @Test(arguments: [1, 2])
    func `a negotiation that is answered with 401 is retried once with a new token`(rejections: Int) async throws {
        let count = EventRecorder<Int>()
        var script = ScriptedHub.Script()
        script.negotiate = { _, number in number <= rejections ? HTTPResponse(status: 401) : ScriptedHub.response(number) }
        let hub = try await HubFixture(negotiates: true, script) {
            $0.accessToken = {
                count.record(1)
                return "token-\(count.all.count)"
            }
        }
        let error = await hubError { try await hub.client.start() }
        expectEqual(error?.code, (rejections == 1 ? nil : .unauthorized))
        expectEqual(hub.server.negotiations.all.map { $0.headers["Authorization"] }, ["Bearer token-1", "Bearer token-2"])
    }

    @Test func `a token of a redirect that is rejected leads back to the URL of the application`() async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { head, number in
            if !head.target.contains("moved") { return ScriptedHub.json(#"{"url":"/moved/","accessToken":"of-the-service"}"#) }
            return number == 2 ? HTTPResponse(status: 401) : ScriptedHub.response(number)
        }
        let hub = try await HubFixture.connected(negotiates: true, script) { $0.accessToken = { "of-the-app" } }
        expect(hub.isConnected)
        expectEqual(
            hub.server.negotiations.all.map(\.path), ["/chat/negotiate", "/moved/negotiate", "/chat/negotiate", "/moved/negotiate"])
        let tokens = hub.server.negotiations.all.map { $0.headers["Authorization"] }
        expectEqual(tokens, ["Bearer of-the-app", "Bearer of-the-service", "Bearer of-the-app", "Bearer of-the-service"])
    }

    @Test(arguments: [1, 2], [true, false])
    func `an upgrade that is answered with 401 is retried once with a new token`(rejections: Int, negotiates: Bool) async throws {
        let count = EventRecorder<Int>()
        var script = ScriptedHub.Script()
        script.upgrade = { _, number in number <= rejections ? .reject(HTTPResponse(status: 401)) : .accept(subprotocol: nil) }
        let hub = try await HubFixture(negotiates: negotiates, script) {
            $0.accessToken = {
                count.record(1)
                return "token-\(count.all.count)"
            }
        }
        let error = await hubError { try await hub.client.start() }
        expectEqual(error?.code, (rejections == 1 ? nil : .unauthorized))
        expectEqual(hub.server.upgrades.all.map { $0.headers["Authorization"] }, ["Bearer token-1", "Bearer token-2"])
    }

    @Test func `without a provider of tokens, 401 isn't retried`() async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { _, _ in HTTPResponse(status: 401) }
        let hub = try await HubFixture(negotiates: true, script)
        let error = await hubError { try await hub.client.start() }
        expectEqual(error?.code, .unauthorized)
        expectEqual(hub.server.negotiations.all.count, 1)
        expectNil(hub.server.negotiations.all[0].headers["Authorization"])
    }

    @Test func `a provider of tokens that throws fails the start`() async throws {
        struct Refused: Error { var secret = "hidden-password" }
        let hub = try await HubFixture(negotiates: true) { $0.accessToken = { throw Refused() } }
        let error = try #require(await hubError { try await hub.client.start() })
        expect(error.code == .tokenFailed && error.message.contains("Refused"))
        expect(!error.message.contains("hidden") && !hub.log.all.joined().contains("hidden"))
        expect(hub.server.negotiations.all.isEmpty)
    }

    @Test func `a token with a line break is refused`() async throws {
        let hub = try await HubFixture(negotiates: true) { $0.accessToken = { "a\r\nX: y" } }
        let error = await hubError { try await hub.client.start() }
        expectEqual(error?.code, .tokenFailed)
    }

    @Test func `no token appears in a log message or an error`() async throws {
        var script = ScriptedHub.Script()
        script.handshake = { $0 == 1 ? "{}\u{1E}" : #"{"error":"bad access-secret and secret-token-2"}"# + "\u{1E}" }
        let hub = try await HubFixture.connected(negotiates: true, script) {
            $0.accessToken = { "access-secret" }
            $0.headers = ["X-Key": "header-secret"]
            $0.retry = .delays([.seconds(1)])
        }
        hub.server.send(#"{"type":7,"error":"access-secret header-secret","allowReconnect":true}"#)
        hub.clock.advance(by: .seconds(1))
        // The state changes before the messages are delivered.
        try await eventually { hub.events.last?.isClosed == true }
        let text = (hub.log.all + hub.updates.all.map { "\($0)" } + ["\(hub.client.configuration)"]).joined(separator: "\n")
        expect(text.contains("rejected the handshake"))
        for secret in ["access-secret", "header-secret", "secret-token"] { expect(!text.contains(secret)) }
    }

    // MARK: Handshake

    @Test(arguments: [
        #"{"error":"unknown protocol"}"# + "\u{1E}", "nonsense\u{1E}", "[]\u{1E}", #"{"type":6}"# + "\u{1E}",
        String(repeating: "x", count: 100_000),
    ])
    func `a handshake that fails is an error of start`(response: String) async throws {
        var script = ScriptedHub.Script()
        script.handshake = { _ in response }
        let hub = try await HubFixture(script)
        let error = await hubError { try await hub.client.start() }
        expectEqual(error?.code, .handshakeFailed)
        expect(hub.isStopped && hub.events == [])
        try await eventually { hub.server.connectionCount == 0 }
    }

    @Test func `an endless answer to the handshake is an error that says so, and is not kept`() async throws {
        var script = ScriptedHub.Script()
        script.handshake = { _ in nil }
        let hub = try await HubFixture(script)
        let start = Task { await hubError { try await hub.client.start() } }
        try await eventually { hub.server.handshakes.all.count == 1 }
        for _ in 1...20 { hub.server.send(raw: String(repeating: " ", count: 1000)) }
        let error = await start.value
        expect(error?.code == .handshakeFailed && error?.message.contains("no end of the handshake within 16384 bytes") == true)
        expect(hub.isStopped)
    }

    @Test func `a handshake without an answer times out`() async throws {
        var script = ScriptedHub.Script()
        script.handshake = { _ in nil }
        let hub = try await HubFixture(script)
        let start = Task { await hubError { try await hub.client.start() } }
        try await eventually { hub.server.handshakes.all.count == 1 }
        hub.clock.advance(by: .seconds(14))
        expectEqual(hub.client.state, .connecting)
        hub.clock.advance(by: .seconds(1))
        await expectEqual(start.value?.code, .handshakeFailed)
        expect(hub.isStopped && hub.server.connectionCount == 0)
        expectNil(hub.client.driver.nextDeadline)
    }

    @Test func `a negotiation without an answer times out with the attempt`() async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { _, _ in nil }
        let hub = try await HubFixture(negotiates: true, script) { $0.connectTimeout = .seconds(20) }
        let start = Task { await hubError { try await hub.client.start() } }
        try await eventually { hub.server.silent.all.count == 1 }
        hub.clock.advance(by: .seconds(20))
        await expectEqual(start.value?.code, .timedOut)
        // A late response has no effect.
        hub.server.silent.all[0].respond(ScriptedHub.response(1))
        expect(hub.isStopped && hub.server.upgrades.all.isEmpty)
    }

    @Test func `the answer to the handshake may be divided, and messages may follow in the same frame`() async throws {
        var script = ScriptedHub.Script()
        script.handshake = { _ in nil }
        let hub = try await HubFixture(script)
        let calls = EventRecorder<Int>()
        hub.client.on("count") { (a: Int) in calls.record(a) }
        let start = Task { try await hub.client.start() }
        try await eventually { hub.server.handshakes.all.count == 1 }
        hub.server.send(frames: ["{", "}\u{1E}" + #"{"type":1,"target":"count","arguments":[1]}"# + "\u{1E}" + #"{"type":1,"targ"#])
        hub.server.send(raw: #"et":"count","arguments":[2]}"# + "\u{1E}")
        _ = try await start.value
        try await eventually { calls.all == [1, 2] }
    }

    // MARK: Starting

    @Test func `a client can be started only once`() async throws {
        let hub = try await HubFixture.connected()
        await expectEqual(hubError { try await hub.client.start() }?.code, .alreadyStarted)
        expect(hub.isConnected)
        hub.client.stop()
        try await hub.client.start()
        expect(hub.isConnected && hub.server.upgrades.all.count == 2)
    }

    @Test func `cancelling the task of start stops the client`() async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { _, _ in nil }
        let hub = try await HubFixture(negotiates: true, script)
        let start = Task { await hubError { try await hub.client.start() } }
        try await eventually { hub.server.silent.all.count == 1 }
        start.cancel()
        await expectEqual(start.value?.code, .cancelled)
        expectEqual(hub.client.state, .stopped(nil))
    }

    @Test func `a start with a time limit stops when it is exceeded`() async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { _, _ in HTTPResponse(status: 503) }
        let hub = try await HubFixture(negotiates: true, script) {
            $0.retriesFirstStart = true
            $0.retry = .backoff(Backoff(base: .seconds(1), cap: .seconds(2)))
        }
        let start = Task { await hubError { try await hub.client.start(within: .seconds(10)) } }
        // Before its start, the client is stopped as well.
        try await eventually { hub.client.state == .connecting }
        for _ in 1...10 {
            hub.clock.advance(by: .seconds(1))
            await Task.yield()
        }
        try await eventually {
            hub.clock.advance(by: .seconds(1))
            return hub.isStopped
        }
        let error = await start.value
        expect(error?.code == .timedOut && (error?.cause as? HubError)?.code == .negotiationFailed)
        expectEqual(error?.message.contains("the client is still retrying."), true, "\(error as Any)")
        expectEqual(error?.message.contains("503"), true, "\(error as Any)")
        expectEqual(error?.message.contains("longer"), false, "\(error as Any)")
    }

    @Test func `an outage and the end of the client are in the log, once each`() async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { _, _ in HTTPResponse(status: 503) }
        let lines = EventRecorder<String>()
        let hub = try await HubFixture(negotiates: true, script) {
            $0.retriesFirstStart = true
            $0.retry = .delays([.seconds(1), .seconds(1)])
            $0.log = LogSink(minimumLevel: LogSink.standard.minimumLevel) { level, _, text in lines.record("\(level): \(text)") }
        }
        let updates = hub.client.updates()
        let run = Task { await hubError { try await hub.client.run() } }
        for _ in 1...2 {
            _ = await updates.first { if case .error = $0 { true } else { false } }
            hub.clock.advance(by: .seconds(1))
        }
        let end = await run.value
        expectEqual(end?.code, .negotiationFailed)
        try await eventually { lines.all.count == 2 }
        expect(lines.all[0].hasPrefix("warning: ") && lines.all[0].contains("503"), "\(lines.all)")
        expect(lines.all[0].hasSuffix(" The client keeps trying."), "\(lines.all)")
        expectEqual(lines.all[1], "error: The client is stopped. \(end?.message ?? "")")
        // A start throws its error to the caller.
        try hub.client.update { $0.retry = .none }
        await expectEqual(hubError { try await hub.client.start() }?.code, .negotiationFailed)
        expectEqual(lines.all.count, 2)
    }

    @Test func `the first start is retried if the options say so`() async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { _, number in number < 3 ? HTTPResponse(status: 503) : ScriptedHub.response(number) }
        let hub = try await HubFixture(negotiates: true, script) {
            $0.retriesFirstStart = true
            $0.retry = .delays([.seconds(1), .seconds(5)])
        }
        let start = Task { try await hub.client.start() }
        for delay in [Duration.seconds(1), .seconds(5)] {
            try await eventually { hub.events.last == .connectingIn(delay) }
            expectEqual(hub.client.state, .connecting)
            hub.clock.advance(by: delay)
        }
        try await expectEqual(start.value, "id-3")
        // Nothing was lost, so nothing is reported as reconnected.
        expect(!hub.events.contains { $0.isReconnecting || $0.isReconnected || $0.isClosed })
    }

    @Test func `a first start whose retries are exhausted throws the last error`() async throws {
        var script = ScriptedHub.Script()
        script.negotiate = { _, _ in HTTPResponse(status: 503) }
        let hub = try await HubFixture(negotiates: true, script) {
            $0.retriesFirstStart = true
            $0.retry = .delays([.seconds(1)])
        }
        let start = Task { await hubError { try await hub.client.start() } }
        try await eventually { hub.events.last == .connectingIn(.seconds(1)) }
        hub.clock.advance(by: .seconds(1))
        await expectEqual(start.value?.code, .negotiationFailed)
        expect(hub.isStopped && !hub.events.contains { $0.isClosed })
    }
}
