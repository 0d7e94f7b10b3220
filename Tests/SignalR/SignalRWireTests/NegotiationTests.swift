import RealtimeCore
import SignalRWire
import TestSupport
import Testing

@Suite struct NegotiationTests {
    // MARK: Requests

    @Test(arguments: [
        ("https://example.com/chat", "https://example.com", "/chat/negotiate?negotiateVersion=1"),
        ("https://example.com/chat/", "https://example.com", "/chat/negotiate?negotiateVersion=1"),
        ("http://example.com", "http://example.com", "/negotiate?negotiateVersion=1"),
        ("wss://example.com/chat?a=b&c", "https://example.com", "/chat/negotiate?a=b&c&negotiateVersion=1"),
        ("ws://example.com:8080/chat?", "http://example.com:8080", "/chat/negotiate?negotiateVersion=1"),
        ("https://x/client/?hub=chat&negotiateVersion=1", "https://x", "/client/negotiate?hub=chat&negotiateVersion=1"),
        ("https://x/c?negotiateVersion", "https://x", "/c/negotiate?negotiateVersion"),
        ("https://x/c?xnegotiateVersion=1", "https://x", "/c/negotiate?xnegotiateVersion=1&negotiateVersion=1"),
        ("https://x/c?a=%", "https://x", "/c/negotiate?a=%&negotiateVersion=1"),
    ])
    func `a request appends to the path and the query`(base: String, origin: String, target: String) throws {
        let endpoint = HubNegotiation.endpoint(try Endpoint(base))
        expect(endpoint.origin == origin && endpoint.target == target)
    }

    @Test func `a request asks for stateful reconnect once, and only on request`() throws {
        let base = try Endpoint("https://x/c")
        expectEqual(HubNegotiation.endpoint(base, useStatefulReconnect: true).query, "negotiateVersion=1&useStatefulReconnect=true")
        expectEqual(HubNegotiation.endpoint(base, useStatefulReconnect: false).query, "negotiateVersion=1")
        let other = try Endpoint("https://x/c?useStatefulReconnect=false&negotiateVersion=0")
        expectEqual(HubNegotiation.endpoint(other, useStatefulReconnect: true).query, other.query)
    }

    @Test(arguments: [
        ("https://x/c", "abc", "/c?id=abc"), ("https://x/c?a=b", "a+b/c==&d", "/c?a=b&id=a%2Bb%2Fc%3D%3D%26d"), ("wss://x", nil, "/"),
    ])
    func `the transport's URL contains the token`(base: String, token: String?, target: String) throws {
        let endpoint = HubNegotiation.connectEndpoint(try Endpoint(base), token: token)
        expect(endpoint.scheme == "https" && endpoint.target == target)
    }

    @Test(arguments: [
        ("", 0, false), ("negotiateVersion=1", 1, false), ("negotiateVersion=0", 0, false), ("a=b&negotiateVersion=7", 1, false),
        ("negotiateVersion=1&useStatefulReconnect=true", 1, true), ("useStatefulReconnect=True", 0, true),
        ("useStatefulReconnect=1", 0, false), ("NegotiateVersion=1&usestatefulreconnect=true", 1, true),
    ])
    func `a server reads the query of a request`(query: String, version: Int, useStatefulReconnect: Bool) throws {
        let request = try HubNegotiation.Request(query: query)
        expect(request.version == version && request.useStatefulReconnect == useStatefulReconnect)
    }

    @Test(arguments: [
        ("negotiateVersion=", "The client requested a non-integer protocol version."),
        ("negotiateVersion=x", "The client requested a non-integer protocol version."),
        ("negotiateVersion=1.5", "The client requested a non-integer protocol version."),
        ("negotiateVersion", "The client requested a non-integer protocol version."),
        ("negotiateVersion=-1", "The client requested version '-1', but the server does not support this version."),
    ])
    func `a server rejects an invalid version as ASP.NET Core does`(query: String, message: String) {
        let error = #expect(throws: NegotiateError.self) { try HubNegotiation.Request(query: query) }
        expectEqual(error?.message, message)
    }

    // MARK: Responses

    private static let transports =
        #"[{"transport":"WebSockets","transferFormats":["Text","Binary"]},{"transport":"ServerSentEvents","transferFormats":["Text"]}]"#
    private static let offers = [HubTransportOffer(.webSockets), HubTransportOffer(.serverSentEvents)]

    private func connection(_ text: String) throws -> NegotiateResponse.Connection? {
        guard case .connection(let connection) = try NegotiateResponse(parsing: bytes(text)) else { return nil }
        return connection
    }

    @Test func `a response of version 1 has a secret token`() throws {
        let text = #"{"negotiateVersion":1,"connectionId":"i","connectionToken":"t","availableTransports":\#(Self.transports)}"#
        let connection = try #require(try self.connection(text))
        expectEqual(connection, NegotiateResponse.Connection(id: "i", secretToken: "t", transports: Self.offers))
        expect(connection.token == "t" && connection.transports.map(\.transport) == [.webSockets, .serverSentEvents])
        expectEqual(NegotiateResponse.connection(connection).bytes, bytes(text))
    }

    @Test(arguments: ["", #""negotiateVersion":0,"#, #""negotiateVersion":null,"#])
    func `in a response of version 0, the ID is the token`(version: String) throws {
        let connection = try #require(
            try self.connection(#"{\#(version)"connectionId":"i","connectionToken":"t","availableTransports":\#(Self.transports)}"#))
        expectEqual(connection, NegotiateResponse.Connection(id: "i", secretToken: nil, version: 0, transports: Self.offers))
        expectEqual(connection.token, "i")
    }

    @Test func `optional members are read and written`() throws {
        let text =
            #"{"useStatefulReconnect":true,"negotiateVersion":1,"connectionId":"i","connectionToken":"t","availableTransports":[],"tokenLifetimeSeconds":3600}"#
        let connection = try #require(try self.connection(text))
        expect(connection.useStatefulReconnect && connection.tokenLifetime == 3600 && connection.transports == [])
        expectEqual(NegotiateResponse.connection(connection).bytes, bytes(text))
    }

    @Test func `unknown members, transports and formats are kept out of the way`() throws {
        let connection = try #require(
            try self.connection(
                #"{"x":[],"connectionId":"i","availableTransports":[{"transport":"Pigeons","transferFormats":["Paper"],"y":1}]}"#))
        expect(connection.transports.map(\.name) == ["Pigeons"] && connection.transports[0].transport == nil)
        expect(!connection.transports[0].supports(.json) && !connection.transports[0].supports(.messagePack))
    }

    @Test func `server-sent events carry no MessagePack`() {
        for transport in HubTransport.allCases {
            expect(HubTransportOffer(transport).supports(.json))
            expectEqual(HubTransportOffer(transport).supports(.messagePack), (transport != .serverSentEvents))
        }
    }

    @Test func `a response redirects, with or without a token`() throws {
        let redirect = NegotiateResponse.Redirect(url: "https://x/client/?hub=chat", accessToken: "a")
        let text = #"{"url":"https://x/client/?hub=chat","accessToken":"a"}"#
        try expectEqual(NegotiateResponse(parsing: bytes(text)), .redirect(redirect))
        expectEqual(NegotiateResponse.redirect(redirect).bytes, bytes(text))
        // Servers may send a list of transports as well.
        try expectEqual(
            NegotiateResponse(parsing: bytes(#"{"url":"https://x","availableTransports":[]}"#)),
            .redirect(NegotiateResponse.Redirect(url: "https://x", accessToken: nil)))
    }

    @Test func `a redirect has the lifetime of the application's token`() throws {
        let redirect = NegotiateResponse.Redirect(url: "https://x", accessToken: "a", tokenLifetime: 3600)
        let text = #"{"url":"https://x","accessToken":"a","tokenLifetimeSeconds":3600}"#
        try expectEqual(NegotiateResponse(parsing: bytes(text)), .redirect(redirect))
        expectEqual(NegotiateResponse.redirect(redirect).bytes, bytes(text))
        expect(NegotiateResponse.redirect(redirect).tokenLifetime == 3600 && NegotiateResponse.error("no").tokenLifetime == nil)
    }

    // MARK: Refreshes

    @Test func `a refresh appends to the path, and has the token of the connection`() throws {
        let endpoint = HubNegotiation.refreshEndpoint(try Endpoint("wss://host/hub/?a=b"), token: "a+/=")
        expect(endpoint.origin == "https://host" && endpoint.target == "/hub/refresh?a=b&id=a%2B%2F%3D")
    }

    @Test(arguments: [
        ("{}", RefreshResponse()),
        (#"{"connectionId":"i","tokenLifetimeSeconds":60}"#, RefreshResponse(connectionID: "i", tokenLifetime: 60)),
        (#"{"accessToken":"a"}"#, RefreshResponse(accessToken: "a")),
    ])
    func `the response to a refresh survives writing and reading`(text: String, response: RefreshResponse) {
        expect(RefreshResponse(parsing: bytes(text)) == response && response.bytes == bytes(text))
    }

    @Test func `other members of the response to a refresh are ignored`() {
        let text = #"{"refreshedAt":"2026","accessToken":"","tokenLifetimeSeconds":"60","connectionId":7}"#
        expectEqual(RefreshResponse(parsing: bytes(text)), RefreshResponse())
        expect(RefreshResponse(parsing: bytes("[]")) == nil && RefreshResponse(parsing: []) == nil)
    }

    @Test func `a rejected refresh has a code, and perhaps a text`() {
        let text = #"{"error":"invalid_token","error_description":"Expired."}"#
        let rejection = RefreshRejection("invalid_token", "Expired.")
        expect(RefreshRejection(parsing: bytes(text)) == rejection && rejection.bytes == bytes(text))
        expectEqual(RefreshRejection(parsing: RefreshRejection("x", nil).bytes), RefreshRejection("x", nil))
        for text in ["", "{}", "[]", #"{"error":1}"#] { expectNil(RefreshRejection(parsing: bytes(text))) }
    }

    @Test func `a response refuses`() throws {
        let text = #"{"error":"Not \"now\"."}"#
        try expectEqual(NegotiateResponse(parsing: bytes(text)), .error("Not \"now\"."))
        expectEqual(NegotiateResponse.error("Not \"now\".").bytes, bytes(text))
        // The error comes before everything else.
        try expectEqual(NegotiateResponse(parsing: bytes(#"{"error":"e","ProtocolVersion":"1","url":"https://x"}"#)), .error("e"))
    }

    @Test func `a server of ASP.NET SignalR is recognized`() {
        let error = #expect(throws: NegotiateError.self) {
            try NegotiateResponse(parsing: bytes(#"{"Url":"/signalr","ConnectionToken":"t","ProtocolVersion":"1.5","TryWebSockets":true}"#))
        }
        expect(error?.code == .oldServer && error?.message.contains("ASP.NET Core") == true)
    }

    @Test(arguments: [
        ("", NegotiateError.Code.notJSON, "unexpected end"), ("<html>", .notJSON, "unexpected character"),
        ("[]", .notJSON, "expected an object"),
        ("null", .notJSON, "expected an object"), ("{}", .invalid, #"missing "connectionId""#),
        (#"{"error":5}"#, .invalid, #""error" must be a string"#), (#"{"url":5}"#, .invalid, #""url" must be a string"#),
        (#"{"url":"https://x","accessToken":5}"#, .invalid, #""accessToken" must be a string"#),
        (#"{"connectionId":5}"#, .invalid, #""connectionId" must be a string"#),
        (#"{"connectionId":""}"#, .invalid, #"missing "connectionId""#),
        (#"{"connectionId":"i"}"#, .invalid, #"missing "availableTransports""#),
        (#"{"connectionId":"i","availableTransports":null}"#, .invalid, #"missing "availableTransports""#),
        (#"{"connectionId":"i","availableTransports":{}}"#, .invalid, #""availableTransports" must be an array"#),
        (#"{"connectionId":"i","availableTransports":["WebSockets"]}"#, .invalid, #"has no "transport""#),
        (#"{"connectionId":"i","availableTransports":[{"transport":"WebSockets"}]}"#, .invalid, #"no "transferFormats""#),
        (#"{"connectionId":"i","negotiateVersion":"1"}"#, .invalid, #""negotiateVersion" must be an integer"#),
        (#"{"connectionId":"i","negotiateVersion":1}"#, .invalid, #"missing "connectionToken""#),
        (#"{"connectionId":"i","negotiateVersion":1,"connectionToken":""}"#, .invalid, #"missing "connectionToken""#),
    ])
    func `a malformed response is an error that says what to do`(text: String, code: NegotiateError.Code, problem: String) {
        let error = #expect(throws: NegotiateError.self) { try NegotiateResponse(parsing: bytes(text)) }
        expect(error?.code == code && error?.message.contains(problem) == true, "\(error as Any)")
        expectEqual(error?.message.contains("Check"), true)
    }

    @Test func `a truncated response is an error`() {
        let text = #"{"negotiateVersion":1,"connectionId":"i","connectionToken":"t","availableTransports":\#(Self.transports)}"#
        for end in 0..<text.utf8.count {
            #expect(throws: NegotiateError.self) { try NegotiateResponse(parsing: bytes(String(text.prefix(end)))) }
        }
    }

    @Test func `the text of a response contains no secrets`() throws {
        let connection = NegotiateResponse.Connection(id: "public", secretToken: "secret", transports: Self.offers)
        let old = NegotiateResponse.Connection(id: "secret", secretToken: nil, version: 0, transports: [])
        let redirect = NegotiateResponse.Redirect(url: "https://x/c?token=secret", accessToken: "secret")
        for text in [
            "\(NegotiateResponse.connection(connection))", "\(NegotiateResponse.connection(old))",
            "\(NegotiateResponse.redirect(redirect))",
            String(reflecting: NegotiateResponse.connection(connection)), String(reflecting: NegotiateResponse.redirect(redirect)),
        ] {
            expect(!text.contains("secret\"") && !text.contains("=secret") && text.contains("redacted"), "\(text)")
        }
        expect("\(connection)".contains("public"))
    }
}
