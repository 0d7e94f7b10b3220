import PrimusWire
import RealtimeCore
import TestSupport
import Testing

@testable import PrimusClient

/// The steps before a connection: detection, credentials, and other kinds of connections.
@Suite struct SessionConnectingTests {
    private static let spec = #"{"pingInterval":30000,"pathname":"/primus","version":"8.0.9","parser":"json","transformer":"websockets"}"#

    private static func spec(_ transformer: String, _ parser: String = "json", version: String = "8.0.9") -> String {
        #"{"pingInterval":30000,"pathname":"/primus","version":"\#(version)","parser":"\#(parser)","transformer":"\#(transformer)"}"#
    }

    /// The result of the questions to the application before an attempt.
    private static func prepared(_ credentials: PrimusCredentials?, target: String = "/primus") -> PrimusSession.WorkResult {
        .prepared(
            .success(PrimusPrepared(endpoint: Endpoint(scheme: "http", host: "host", port: 80, target: target), credentials: credentials)))
    }

    private func detecting(_ change: (inout PrimusConfiguration) -> Void = { _ in }) -> SessionHarness {
        SessionHarness(.updates) {
            $0.detection = .automatic
            change(&$0)
        }
    }

    @Test func `the specification is requested once, with the query, and decides`() {
        var session = self.detecting { $0.endpoint.target = "/?a=1&a=2&x" }
        expectEqual(session.open(), ["state opening", "1 GET http://host/primus/spec?a=1&a=2&x"])
        expectEqual(session.respond(1, 200, Self.spec), ["open #1 ws://host/primus?a=1&a=2&x"])
        expectEqual(session.opened(session.connection), ["dialect websockets json", "transport webSockets", "state open"])
        session.close(drop)
        expectEqual(session.advance(by: .seconds(1)).last, "open #2 ws://host/primus?a=1&a=2&x")
    }

    @Test func `the specification is requested again when the server no longer speaks as it says`() {
        var session = self.detecting { $0.retry = .delays(Array(repeating: .seconds(1), count: 5)) }
        session.open()
        session.respond(1, 200, Self.spec)
        session.opened(session.connection)
        session.close(drop)
        expectEqual(session.advance(by: .seconds(1)).last, "open #2 ws://host/primus")
        // A server that is busy, or has gone, may still be the same one.
        session.refuse(503)
        expectEqual(session.advance(by: .seconds(1)).last, "open #3 ws://host/primus")
        session.close(refused)
        expectEqual(session.advance(by: .seconds(1)).last, "open #4 ws://host/primus")
        session.refuse(400, #"{"code":0,"message":"Transport unknown"}"#)
        expectEqual(session.advance(by: .seconds(1)).last, "2 GET http://host/primus/spec")
        expectEqual(session.respond(2, 200, Self.spec("engine.io")), ["open #5 ws://host/primus/?EIO=4&transport=websocket"])
    }

    @Test func `a server without a specification gets the defaults, and isn't asked again`() {
        var session = self.detecting()
        session.open()
        expectEqual(session.respond(1, 404), ["open #1 ws://host/primus"])
        session.close(refused)
        expectEqual(session.advance(by: .seconds(1)).last, "open #2 ws://host/primus")
    }

    @Test(arguments: ["", "[1]", "{}", #"{"parser":1,"transformer":"websockets"}"#, "<html>"])
    func `an invalid specification gets the defaults`(body: String) {
        var session = self.detecting()
        session.open()
        expectEqual(session.respond(1, 200, body), ["open #1 ws://host/primus"])
    }

    @Test func `the specification has a time limit`() {
        var session = self.detecting()
        session.open()
        expectEqual(session.advance(by: .seconds(5)), ["cancel 1", "open #1 ws://host/primus"])
        expect(session.respond(1, 200, Self.spec).isEmpty)
    }

    @Test func `after a standstill, the specification has its time limit once more, and so has the attempt`() {
        var session = self.detecting { $0.transformer = .engineIO }
        session.open()
        expect(session.standStill(for: .seconds(60)).isEmpty)
        expectEqual(session.advance(by: .seconds(5)).last?.hasPrefix("open #1 ws:"), true)
        // The WebSocket has half of what the attempt has left, counted from the standstill.
        expect(session.advance(by: .milliseconds(2_499)).isEmpty)
        expectEqual(session.advance(by: .milliseconds(1)).last?.hasPrefix("open #2 http:"), true)
    }

    @Test func `a specification without which the settings can't work, and that is late, is requested again`() {
        var session = self.detecting { $0.allowedTransports = .polling }
        session.open()
        expectEqual(
            session.advance(by: .seconds(5)), ["attemptFailed detectionFailed", "scheduled 1", "connectingIn 1.0 seconds", "cancel 1"])
        expectEqual(session.advance(by: .seconds(1)).last, "2 GET http://host/primus/spec")
        expectEqual(session.respond(2, 200, Self.spec("engine.io")).last, "open #2 http://host/primus/?EIO=4&transport=polling")
        // A server without a specification has the transformer websockets.
        var other = self.detecting { $0.allowedTransports = .polling }
        other.open()
        expectEqual(other.respond(1, 404).first, "state closed unsupported")
    }

    @Test(arguments: [401, 403, 407, 500, 502, 503])
    func `a given transformer needs no specification, which a proxy may refuse`(status: Int) {
        var session = self.detecting { $0.transformer = .sockjs }
        session.open()
        expectEqual(session.respond(1, status), ["open #1 ws://host/primus/websocket"])
        session.close(refused)
        // A server that was busy tells the heartbeat later.
        let line = status < 500 ? "open #2 ws://host/primus/websocket" : "2 GET http://host/primus/spec"
        expectEqual(session.advance(by: .seconds(1)).last, line)
    }

    @Test func `a given transformer needs no specification, whose request may fail`() {
        for failure in [TransportError(.reset, "The connection was reset."), TransportError(.tlsFailed, "No certificate.")] {
            var session = self.detecting { $0.transformer = .sockjs }
            session.open()
            expectEqual(session.finish(1, .response(.failure(failure))), ["open #1 ws://host/primus/websocket"])
        }
    }

    @Test func `a given transformer leaves half of an attempt's time to the connection, and isn't waited for again`() {
        var session = self.detecting { ($0.transformer, $0.detectionTimeout, $0.connectTimeout) = (.websockets, .seconds(60), .seconds(8)) }
        session.open()
        expect(session.advance(by: .milliseconds(3_999)).isEmpty)
        expectEqual(session.advance(by: .milliseconds(1)), ["cancel 1", "open #1 ws://host/primus"])
        session.close(refused)
        expectEqual(session.advance(by: .seconds(1)).last, "open #2 ws://host/primus")
    }

    @Test(arguments: [401, 403, 500, 503])
    func `a specification that is refused leads to a guess, and a failure says so`(status: Int) {
        var session = self.detecting { $0.strategies = [] }
        session.open()
        expectEqual(session.respond(1, status), ["open #1 ws://host/primus"])
        session.refuse(400)
        let message = Self.error(of: session)?.message ?? ""
        expect(message.contains("the transformer websockets was assumed") && message.contains("the status \(status)"), "\(message)")
        expect(message.contains("If the server has another one, set transformer"), "\(message)")
        // The application's credentials are judged by the connection.
        var other = self.detecting()
        other.open()
        other.respond(1, status)
        expectEqual(other.refuse(401).first, "state closed unauthorized")
        expectEqual(Self.error(of: other)?.message.contains("was assumed"), false)
    }

    @Test func `a specification that is refused, and without which the settings can't work, fails the attempt`() {
        for (status, line) in [(401, "state closed unauthorized"), (503, "attemptFailed connectionLost")] {
            var session = self.detecting { $0.allowedTransports = .polling }
            session.open()
            expectEqual(session.respond(1, status).first, line)
            session = self.detecting { ($0.detection, $0.transformer) = (.required, .websockets) }
            session.open()
            expectEqual(session.respond(1, status).first, line)
        }
    }

    @Test func `a required specification that is missing fails the attempt`() {
        var session = self.detecting { $0.detection = .required }
        session.open()
        expectEqual(session.respond(1, 404), ["attemptFailed detectionFailed", "scheduled 1", "connectingIn 1.0 seconds"])
    }

    @Test func `a server that isn't there is asked again`() {
        var session = self.detecting()
        session.open()
        let failure = TransportError(.refused, "No server listens.")
        expectEqual(session.finish(1, .response(.failure(failure))).first, "attemptFailed connectionLost")
        expectEqual(session.advance(by: .seconds(1)).last, "2 GET http://host/primus/spec")
    }

    @Test(arguments: [
        ("browserchannel", "json"), ("thing", "json"), ("websockets", "thing"), ("sockjs", "msgpack"), ("sockjs", "binary"),
    ])
    func `what can't work is refused with the reason, for good`(transformer: String, parser: String) {
        var session = self.detecting()
        session.open()
        expectEqual(session.respond(1, 200, Self.spec(transformer, parser)), ["state closed unsupported", "ended unsupported", "finish"])
        guard case .closed(let error?) = session.machine.state else { return }
        expect(error.message.contains(transformer == "websockets" ? parser : transformer))
    }

    private static let contradictions: [(@Sendable (inout PrimusConfiguration) -> Void, String, String, String)] = [
        ({ $0.parser = .ejson }, "websockets", "json", "parser json, not ejson"),
        ({ $0.parser = .json }, "websockets", "thing", "parser thing, not json"),
        ({ $0.transformer = .websockets }, "sockjs", "json", "transformer sockjs, not websockets"),
        ({ $0.transformer = .engineIO }, "faye", "json", "transformer faye, not engine.io"),
    ]

    @Test(arguments: Self.contradictions)
    func `settings that the specification contradicts end the client, which asks again when it is opened`(
        change: @Sendable (inout PrimusConfiguration) -> Void, transformer: String, parser: String, expected: String
    ) {
        var session = self.detecting(change)
        session.open()
        expectEqual(session.respond(1, 200, Self.spec(transformer, parser)), ["state closed unsupported", "ended unsupported", "finish"])
        guard case .closed(let error?) = session.machine.state else { return expect(false, "the client should be closed") }
        expect(error.message.contains(expected))
        expectEqual(session.open().last, "2 GET http://host/primus/spec")
    }

    @Test(arguments: [PrimusTransformerKind.websockets, .uws, .faye])
    func `transformers with the same messages stand for each other`(configured: PrimusTransformerKind) {
        var session = self.detecting { $0.transformer = configured }
        session.open()
        expectEqual(session.respond(1, 200, Self.spec("faye")), ["open #1 ws://host/primus"])
    }

    @Test(arguments: ["", "[1]", "{}", #"{"parser":1,"transformer":"websockets"}"#, "<html>"])
    func `a required specification that can't be read fails the attempt`(body: String) {
        var session = self.detecting { $0.detection = .required }
        session.open()
        let lines = session.respond(1, 200, body)
        expect(lines.first == "attemptFailed detectionFailed" && !lines.contains { $0.contains("ws:") }, "\(lines)")
    }

    @Test func `a failed attempt says that there is no specification either`() {
        for silent in [false, true] {
            var session = self.detecting { $0.strategies = [] }
            session.open()
            session.respond(1, 404)
            if silent { session.advance(by: .seconds(10)) } else { session.refuse(404) }
            guard case .closed(let error?) = session.machine.state else { return expect(false, "the client should be closed") }
            expectEqual(error.code, (silent ? .timedOut : .connectionLost))
            expect(
                error.message.contains("Nor is there a specification at http://host/primus/spec: the server answered with the status 404."))
            // The advice is given once.
            expectEqual(error.message.split(separator: "Check the path of the URL").count, 2)
        }
    }

    /// The error of a client that has given up.
    private static func error(of session: SessionHarness) -> PrimusError? {
        if case .closed(let error) = session.machine.state { error } else { nil }
    }

    @Test(arguments: ["<html>", "1", "0{}"])
    func `an answer that isn't one of engine io keeps what the kind of connection before said`(answer: String) {
        var session = SessionHarness(.updates) { ($0.transformer, $0.strategies) = (.engineIO, []) }
        session.open()
        session.refuse(404)
        session.opened(session.connection, head: HTTPResponseHead(status: 200))
        session.receive(answer)
        let error = Self.error(of: session)
        expect(
            error?.message.contains("Before, webSockets: ") == true && error?.message.contains("404") == true, "\(session.machine.state)")
    }

    @Test(arguments: ["abc", #"{"websocket":true,"base_url":"http://"}"#])
    func `an answer that isn't one of sockjs keeps what the kind of connection before said`(info: String) {
        var session = SessionHarness(.updates) { ($0.transformer, $0.strategies) = (.sockjs, []) }
        session.open()
        session.refuse(404)
        session.respond(1, 200, info)
        let error = Self.error(of: session)
        expect(error?.code == .handshakeFailed && error?.message.contains("Before, webSockets: ") == true, "\(session.machine.state)")
    }

    @Test func `each failure of an attempt is said once, and so is a missing specification`() {
        var session = self.detecting { ($0.transformer, $0.strategies) = (.sockjs, []) }
        session.open()
        session.respond(1, 404)
        session.refuse(501)
        session.respond(2, 200, #"{"websocket":true}"#)
        // With the texts of pages, of which an error keeps the start.
        for status in [502, 503, 505] {
            let text = "The server answered with the status \(status)." + String(repeating: " A long text.", count: status == 505 ? 1 : 30)
            let response = HTTPResponse(HTTPResponseHead(status: status), body: [])
            session.close(.transport(TransportError(.upgradeRejected, text, response: response)))
        }
        let message = Self.error(of: session)?.message ?? ""
        for text in ["Nor is there", "status 501", "status 502", "status 503", "status 505"] {
            expectEqual(message.ranges(of: text).count, 1, "\(text): \(message)")
        }
        expectEqual(message.ranges(of: "Before, ").count, 3, "\(message)")
    }

    @Test func `credentials that can't be replaced leave the reason why the first were refused`() {
        var session = SessionHarness(.updates) { ($0.credentials, $0.strategies) = ({ [:] }, []) }
        session.open()
        session.finish(1, Self.prepared(["Authorization": "one-token"]))
        expectEqual(session.refuse(401, #"{"error":"Expired"}"#), ["2 prepare"])
        session.finish(2, .prepared(.failure(PrimusError(.credentialsFailed, "The credentials closure threw an error."))))
        let error = Self.error(of: session)
        expect(
            error?.code == .credentialsFailed && error?.message.contains("Before, the server refused other credentials: ") == true
                && error?.message.contains("401") == true, "\(session.machine.state)")
    }

    @Test func `the text of a refusal has no secrets, in the message and by itself`() {
        var session = SessionHarness(.updates) { ($0.headers, $0.strategies) = (["Authorization": "Bearer one-token"], []) }
        session.open()
        session.refuse(401, #"{"error":"The token one-token has expired."}"#)
        let error = Self.error(of: session)
        expect(error?.code == .unauthorized && error?.serverMessage == "The token … has expired.", "\(session.machine.state)")
        expectEqual(error?.message.contains("one-token"), false)
    }

    @Test func `texts have no secrets of a client that still sends what was written before its end`() {
        var session = SessionHarness(.updates) {
            ($0.transformer, $0.startsWithPolling, $0.credentials) = (.engineIO, true, { [:] })
        }
        session.open()
        session.finish(1, Self.prepared(["X-Token": "one-token"]))
        let (polling, webSocket) = (ConnectionID(rawValue: 1), ConnectionID(rawValue: 2))
        session.opened(polling, head: HTTPResponseHead(status: 200))
        session.receive(#"0{"sid":"abc","upgrades":["websocket"],"pingInterval":25000,"pingTimeout":20000}"#, on: polling)
        session.opened(webSocket)
        session.receive("3probe", on: webSocket)
        session.write("last")
        session.step { $0.stop(now: $1, &$2) }
        expectEqual(session.machine.redacted("The token one-token"), "The token …")
        session.closed(polling, .requested)
        expectNil(session.machine.attempt.credentials)
    }

    @Test(arguments: EngineIOError.Refusal.allCases)
    func `a refusal of engine io that is text is typed`(refusal: EngineIOError.Refusal) {
        var session = SessionHarness(.updates) { ($0.transformer, $0.allowedTransports) = (.engineIO, .webSockets) }
        session.open()
        session.refuse(400, refusal.message)
        if refusal == .unsupportedVersion { session.refuse(400, refusal.message) }
        let error = Self.error(of: session) ?? session.machine.lossError
        expect(error?.serverCode == PrimusCloseCode(.engineIO, refusal.rawValue) && error?.serverMessage == refusal.message)
        // Another server may answer with the same word.
        var other = SessionHarness(.updates) { ($0.transformer, $0.allowedTransports) = (.engineIO, .webSockets) }
        other.open()
        other.refuse(403, refusal.message)
        expectNil((Self.error(of: other) ?? other.machine.lossError)?.serverCode)
    }

    @Test(arguments: [(404, "Check the path of the URL, and the transformer."), (503, "Check the server, and proxies before it.")])
    func `a refusal without a text says what to check`(status: Int, advice: String) {
        var session = SessionHarness { $0.strategies = [] }
        session.open()
        session.refuse(status)
        guard case .closed(let error?) = session.machine.state else { return expect(false, "the client should be closed") }
        expect(error.message.contains(advice) && error.status == status)
    }

    @Test func `sockjs is raw first, then framed with its information`() {
        var session = SessionHarness(.updates) { $0.transformer = .sockjs }
        expectEqual(session.open().last, "open #1 ws://host/primus/websocket")
        expectEqual(session.refuse(404), ["1 GET http://host/primus/info"])
        let opened = session.respond(1, 200, #"{"websocket":true,"origins":["*:*"],"cookie_needed":false,"entropy":1}"#)
        let parts = opened.first?.split(separator: "/").map(String.init) ?? []
        expect(parts.suffix(1) == ["websocket"] && parts.count == 6 && parts[3].utf8.count == 3 && parts[4].utf8.count == 8)
        expect(session.opened(session.connection).isEmpty)
        expectEqual(session.receive("o"), ["dialect sockjs json", "transport webSockets", "state open"])
        expectEqual(session.receive(#"a["\"a\"","{\"b\":2}"]"#), [#"data "a""#, #"data {"b":2}"#])
        expectEqual(session.write(["x": 1]), [#"#2 ["{\"x\":1}"]"#])
        // The next attempt knows.
        session.close(drop)
        expectEqual(session.advance(by: .seconds(1)).last, "2 GET http://host/primus/info")
    }

    /// Returns the lines after a server of SockJS has named another address of its sessions, and the request.
    private func opening(_ baseURL: String, scheme: String = "http") -> (lines: [String], request: WebSocketRequest) {
        var session = SessionHarness(.updates) {
            $0.transformer = .sockjs
            $0.endpoint = Endpoint(scheme: scheme, host: "host", port: scheme == "http" ? 80 : 443, target: "/app/primus?token=secret")
            $0.headers = ["Authorization": "Bearer secret", "X-Key": "secret"]
        }
        session.open()
        session.refuse(404)
        let lines = session.respond(1, 200, #"{"websocket":true,"base_url":"\#(baseURL)"}"#, headers: ["Set-Cookie": "a=b"])
        return (lines, session.machine.request.webSocket!)
    }

    @Test(arguments: [
        ("http://host/other/", "ws://host/other/", "?token=secret"), ("/other?x=1", "ws://host/other/", "?x=1&token=secret"),
        ("//host/other", "ws://host/other/", "?token=secret"), ("other", "ws://host/app/primus/other/", "?token=secret"),
        ("../other", "ws://host/app/other/", "?token=secret"), ("ws://host/", "ws://host/", "?token=secret"),
    ])
    func `a server of sockjs may have another address for its sessions`(reference: String, prefix: String, query: String) throws {
        let (lines, request) = self.opening(reference)
        let line = try #require(lines.first { $0.hasPrefix("open #2 ") })
        expect(line.hasPrefix("open #2 " + prefix) && line.hasSuffix("/websocket" + query), "\(line)")
        expectEqual(line.split(separator: "/").count, prefix.split(separator: "/").count + 3, "\(line)")
        expect(request.headers["Authorization"] == "Bearer secret" && request.headers["X-Key"] == "secret")
    }

    @Test(arguments: [
        ("https://host/x", "wss://host/x/", ""), ("http://host:81/x", "ws://host:81/x/", ""),
        ("http://other.example", "ws://other.example/", ""), ("//other.example/x?y=1", "ws://other.example/x/", "?y=1"),
    ])
    func `header fields and credentials aren't sent to another origin of sockjs`(reference: String, prefix: String, query: String) throws {
        let (lines, request) = self.opening(reference)
        let line = try #require(lines.first { $0.hasPrefix("open #2 ") })
        expect(line.hasPrefix("open #2 " + prefix) && line.hasSuffix("/websocket" + query), "\(line)")
        expect(!request.headers.contains { $0.value.contains("secret") } && !request.endpoint.target.contains("secret"))
        expect(request.headers["User-Agent"] != nil)
    }

    @Test(arguments: ["http://host/x", "ftp://host/x", "http://", "a b", "http://user:secret@host/x"])
    func `an address of sockjs that can't be used is an error that says so`(reference: String) {
        let (lines, _) = self.opening(reference, scheme: "https")
        expectEqual(lines.first, "attemptFailed handshakeFailed", "\(lines)")
        var session = SessionHarness(.updates) { ($0.transformer, $0.endpoint.scheme) = (.sockjs, "https") }
        session.open()
        session.refuse(404)
        session.respond(1, 200, #"{"base_url":"\#(reference)"}"#)
        let message = session.machine.lossError?.message ?? ""
        expect(message.contains("base_url") && !message.contains("secret"), "\(message)")
    }

    @Test func `an address of sockjs is asked for again with other credentials`() {
        var session = SessionHarness(.updates) {
            $0.transformer = .sockjs
            $0.credentials = { [:] }
        }
        func prepared(_ token: String) -> PrimusSession.WorkResult {
            Self.prepared(PrimusCredentials(query: [("token", token)]), target: "/primus?token=\(token)")
        }
        session.open()
        session.finish(1, prepared("old"))
        expectEqual(session.refuse(404).last, "2 GET http://host/primus/info?token=old")
        expectEqual(session.respond(2, 200, #"{"websocket":true,"base_url":"/other"}"#).last?.hasSuffix("/websocket?token=old"), true)
        expectEqual(session.refuse(401, #"{"error":"The token has expired."}"#), ["3 prepare"])
        expectEqual(session.finish(3, prepared("new")).last, "4 GET http://host/primus/info?token=new")
        let line = session.respond(4, 200, #"{"websocket":true,"base_url":"/other"}"#).last ?? ""
        expect(line.contains(" ws://host/other/") && line.hasSuffix("/websocket?token=new"), "\(line)")
    }

    @Test func `an empty or invalid member base_url of sockjs has no effect`() {
        expect(self.opening("").lines.contains { $0.hasPrefix("open #2 ws://host/app/primus/") })
    }

    @Test func `a server of sockjs that opens a session again has lost the first one`() {
        var session = SessionHarness(.updates) { ($0.transformer, $0.connectionKinds) = (.sockjs, [.polling]) }
        session.open()
        session.respond(1, 200, #"{"websocket":true}"#)
        session.opened(session.connection, head: HTTPResponseHead(status: 200))
        session.receive("o")
        // A packet of the other session isn't one of the first.
        expectEqual(
            session.receive("o", #"a["1"]"#),
            [
                "state reconnecting connectionLost", "reconnecting connectionLost", "scheduled 1", "connectingIn 1.0 seconds",
                "close #1 1000",
            ])
        expectEqual(session.machine.lossError?.serverCode, .sockJSSessionLost)
    }

    @Test func `a server of sockjs without WebSockets is asked for streams next`() {
        var session = SessionHarness(.updates) { $0.transformer = .sockjs }
        session.open()
        session.refuse(404)
        let lines = session.respond(1, 200, #"{"websocket":false}"#)
        expect(lines.count == 1 && lines[0].hasPrefix("open #2 http:") && lines[0].hasSuffix("/xhr_streaming"), "\(lines)")
        expectEqual(session.refuse(404).last?.hasSuffix("/xhr"), true)
    }

    /// Source: `countRTO` in `main.js` of sockjs-client, and the factor in section 2.13 of the description.
    @Test(arguments: [(50, 2_000, 2_000), (400, 3_200, 3_200), (2_000, 4_000, 2_000)])
    func `a kind of sockjs has a time limit that follows from the time of its information`(
        roundTrip: Int, limit: Int, limitOfStream: Int
    ) {
        var session = SessionHarness(.updates) { $0.transformer = .sockjs }
        session.open()
        session.refuse(404)
        session.advance(by: .milliseconds(roundTrip))
        expectEqual(session.respond(1, 200, #"{"websocket":true}"#).last?.hasPrefix("open #2 ws:"), true)
        expect(session.advance(by: .milliseconds(limit - 1)).isEmpty)
        let lines = session.advance(by: .milliseconds(1))
        expectEqual(lines.last?.hasSuffix("/xhr_streaming"), true, "\(lines)")
        // A stream that doesn't begin in time is followed by polling. Each has half of what is left of the attempt's ten seconds, at most.
        expect(session.advance(by: .milliseconds(limitOfStream - 1)).isEmpty)
        let rest = session.advance(by: .milliseconds(1))
        expectEqual(rest.last?.hasSuffix("/xhr"), true, "\(rest)")
    }

    @Test(arguments: [true, false])
    func `the next attempt begins with the kind of connection that worked, unless the network has changed`(changes: Bool) {
        var session = SessionHarness(.updates) { $0.transformer = .engineIO }
        session.open()
        expectEqual(session.refuse(404).last?.contains("transport=polling"), true)
        session.opened(session.connection, head: HTTPResponseHead(status: 200))
        session.receive(#"0{"sid":"abc","upgrades":[],"pingInterval":25000,"pingTimeout":20000}"#)
        expectEqual(session.machine.transport, .polling)
        session.close(drop)
        let lines = changes ? session.step { $0.networkChanged(now: $1, &$2) } : session.advance(by: .seconds(1))
        expectEqual(lines.last?.contains(changes ? "transport=websocket" : "transport=polling"), true, "\(lines)")
    }

    @Test func `a WebSocket of sockjs on which nothing arrives leads to the next kind, and what waits isn't sent on it`() {
        var session = SessionHarness(.updates) { $0.transformer = .sockjs }
        session.open()
        session.write("x")
        expectEqual(session.accepted(session.connection), ["#1 ping"])
        expect(session.advance(by: .milliseconds(999)).isEmpty)
        // A proxy may pass on messages, and no pings.
        expectEqual(session.advance(by: .milliseconds(1)), [#"#1 "primus::id::""#])
        expectEqual(session.advance(by: .seconds(4)), ["abandon #1", "1 GET http://host/primus/info"])
        session.respond(1, 200, #"{"websocket":true}"#)
        // Nor does anything arrive on the one with framing.
        session.accepted(session.connection)
        expectEqual(session.advance(by: .seconds(2)).last?.hasSuffix("/xhr_streaming"), true)
        session.opened(session.connection, head: HTTPResponseHead(status: 200))
        let lines = session.receive("o")
        expect(lines.contains("transport streaming") && lines.last == #"#3 ["\"x\""]"#, "\(lines)")
    }

    @Test(arguments: [PrimusTransformerKind.websockets, .faye, .uws])
    func `a WebSocket on which nothing arrives fails the attempt, and what waits is kept`(transformer: PrimusTransformerKind) {
        var session = SessionHarness(.updates) { $0.transformer = transformer }
        session.open()
        session.write("x")
        session.accepted(session.connection)
        let lines = session.advance(by: .seconds(10))
        expect(lines.contains("connectTimedOut") && !lines.contains("state open") && session.machine.queuedCount == 1, "\(lines)")
        let message = session.machine.lossError?.message ?? ""
        expect(message.contains("The connection was accepted, and then nothing arrived."), "\(message)")
        session.advance(by: .seconds(1))
        expectEqual(session.opened(session.connection).last, #"#2 "x""#)
    }

    @Test(arguments: [#""primus::id::abc""#, #""primus::ping::1""#, "1", "x"])
    func `a server that doesn't answer the ping has opened the connection with its first message`(text: String) {
        var session = SessionHarness(.updates)
        session.open()
        session.accepted(session.connection)
        session.advance(by: .seconds(2))
        expectEqual(session.receive(text).prefix(3), ["dialect websockets json", "transport webSockets", "state open"])
        expect(session.advance(by: .seconds(9)).isEmpty)
    }

    @Test func `a server that ends a connection before it says anything has refused it`() {
        var session = SessionHarness(.updates)
        session.open()
        session.accepted(session.connection)
        expectEqual(session.close(.peer(.normal, "")).first, "attemptFailed connectionLost")
    }

    @Test func `all kinds of connections share the time limit of an attempt`() {
        var session = SessionHarness(.updates) { $0.transformer = .engineIO }
        session.open()
        // The WebSocket isn't answered within half of the limit, and then polling within the rest.
        expect(session.advance(by: .seconds(5)).contains { $0.contains("transport=polling") })
        expect(session.advance(by: .seconds(5)).contains("connectTimedOut"))
    }

    @Test func `after a standstill, a kind of connection has its time limit once more, and so has the attempt`() {
        var session = SessionHarness(.updates) { $0.transformer = .engineIO }
        session.open()
        expect(session.standStill(for: .seconds(20)).isEmpty)
        expect(session.advance(by: .milliseconds(4_999)).isEmpty)
        expect(session.advance(by: .milliseconds(1)).contains { $0.contains("transport=polling") })
        expect(session.advance(by: .milliseconds(4_999)).isEmpty)
        expect(session.advance(by: .milliseconds(1)).contains("connectTimedOut"))
    }

    @Test func `after a standstill of the preparation, the kinds of connections share the whole time`() {
        var session = SessionHarness(.updates) {
            $0.transformer = .engineIO
            $0.credentials = { [:] }
        }
        session.open()
        expect(session.standStill(for: .seconds(20)).isEmpty)
        expectEqual(session.finish(1, Self.prepared(["Authorization": "token"])).last?.hasPrefix("open #1 ws:"), true)
        expect(session.advance(by: .milliseconds(4_999)).isEmpty)
        expectEqual(session.advance(by: .milliseconds(1)).last?.hasPrefix("open #2 http:"), true)
        expect(session.advance(by: .milliseconds(4_999)).isEmpty)
    }

    @Test func `the information of sockjs has the rest of an attempt's time`() {
        var session = SessionHarness(.updates) { $0.transformer = .sockjs }
        session.open()
        // The WebSocket isn't answered within half of the limit.
        expectEqual(session.advance(by: .seconds(5)).last, "1 GET http://host/primus/info")
        expect(session.advance(by: .milliseconds(4_999)).isEmpty)
        expect(session.advance(by: .milliseconds(1)).contains("connectTimedOut"))
    }

    @Test func `an attempt with other credentials has the whole time limit for its connections`() {
        var session = SessionHarness(.updates) {
            $0.transformer = .engineIO
            $0.credentials = { [:] }
        }
        session.open()
        session.advance(by: .seconds(6))
        session.finish(1, Self.prepared(["Authorization": "one-token"]))
        expectEqual(session.refuse(403, #"{"error":"Go away"}"#), ["2 prepare"])
        session.advance(by: .seconds(6))
        expectEqual(session.finish(2, Self.prepared(["Authorization": "two-token"])).last?.hasPrefix("open #2 ws:"), true)
        expect(session.advance(by: .milliseconds(1_999)).isEmpty)
        expectEqual(session.advance(by: .milliseconds(1)).last?.hasPrefix("open #3 http:"), true)
    }

    /// A client that is open over a WebSocket with the framing of SockJS.
    private static func framedSockJS() -> SessionHarness {
        var session = SessionHarness(.updates) { $0.transformer = .sockjs }
        session.open()
        session.refuse(404)
        session.respond(1, 200, "{}")
        session.opened(session.connection)
        session.receive("o")
        return session
    }

    @Test(arguments: [
        (2010, "Another connection still open", PrimusCloseCode.sockJSAnotherConnection, "SockJS 2010 (Another connection still open)"),
        (1002, "Interrupted", .sockJSCannotConnect, "SockJS 1002 (Cannot connect to server)"),
        (3000, "No response from heartbeat", .sockJSGoAway, "SockJS 3000 (Go away!)"),
        (4711, "", PrimusCloseCode(.sockJS, 4711), "SockJS 4711"),
    ])
    func `the codes of sockjs are typed`(number: Int, text: String, code: PrimusCloseCode, description: String) {
        var session = Self.framedSockJS()
        session.receive("c[\(number),\"\(text)\"]")
        guard case .reconnecting(let error) = session.machine.state else {
            Issue.record("The state is \(session.machine.state)")
            return
        }
        expect(error.serverCode == code && error.serverMessage == (text.isEmpty ? nil : text))
        expect(error.serverCode.map { "\($0)" } == description && code.layer == .sockJS && code.rawValue == number)
    }

    @Test func `a session of sockjs that the server opens anew is a loss`() {
        var session = Self.framedSockJS()
        session.receive("o")
        guard case .reconnecting(let error) = session.machine.state else {
            Issue.record("The state is \(session.machine.state)")
            return
        }
        expect(error.code == .connectionLost && error.serverCode?.description == "SockJS 1006 (Server lost session)")
    }

    @Test func `a close code is that of the layer that sent it`() {
        func code(_ transformer: PrimusTransformerKind, _ number: UInt16) -> PrimusCloseCode? {
            var session = SessionHarness(.updates) { $0.transformer = transformer }
            session.open()
            session.opened(session.connection)
            session.close(.peer(CloseCode(rawValue: number), ""))
            guard case .reconnecting(let error) = session.machine.state else { return nil }
            return error.serverCode
        }
        expectEqual(code(.websockets, 3000), .webSocket(CloseCode(rawValue: 3000)))
        expect(code(.websockets, 1009) == .webSocket(.tooLarge) && code(.sockjs, 1009) == .webSocket(.tooLarge))
        expect(code(.sockjs, 3000) == .sockJSGoAway && code(.websockets, 1005) == nil)
        expectEqual("\(PrimusCloseCode.webSocket(.tooLarge))", "WebSocket 1009")
    }

    @Test(arguments: 0...6) func `the codes of engine io are typed`(number: Int) {
        let codes: [PrimusCloseCode] = [
            .engineIOUnknownTransport, .engineIOUnknownSession, .engineIOBadHandshakeMethod, .engineIOBadRequest, .engineIOForbidden,
            .engineIOUnsupportedVersion, PrimusCloseCode(.engineIO, 6),
        ]
        var session = SessionHarness(.updates) { ($0.transformer, $0.allowedTransports) = (.engineIO, .webSockets) }
        session.open()
        session.refuse(number == 4 ? 403 : 500, #"{"code":\#(number),"message":"What the server says"}"#)
        // A server that doesn't speak the version is asked in the other one.
        if number == 5 { session.refuse(500, #"{"code":5,"message":"What the server says"}"#) }
        let error: PrimusError?
        switch session.machine.state {
        case .closed(let reason): error = reason
        case .opening: error = session.machine.lossError
        default: error = nil
        }
        expect(error?.serverCode == codes[number] && error?.serverMessage == "What the server says", "\(session.machine.state)")
        expectEqual(error?.serverCode.map { "\($0)".hasPrefix("engine.io \(number)") }, true)
    }

    @Test func `a code in another body isn't one of engine io`() {
        var session = SessionHarness(.updates)
        session.open()
        session.refuse(401, #"{"error":"Go away","code":5}"#)
        guard case .closed(let error?) = session.machine.state else { return }
        expect(error.serverCode == nil && error.serverMessage == "Go away")
    }

    @Test func `engine io opens with its handshake and answers its pings`() {
        var session = self.detecting()
        session.open()
        expectEqual(session.respond(1, 200, Self.spec("engine.io")), ["open #1 ws://host/primus/?EIO=4&transport=websocket"])
        expect(session.opened(session.connection).isEmpty)
        expectEqual(
            session.receive(#"0{"sid":"abc","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":100}"#),
            ["dialect engine.io json", "transport webSockets", "state open", "sparkID abc"])
        expectEqual(session.receive("2"), ["#1 3"])
        expectEqual(session.receive(#"4"primus::ping::17""#), [#"#1 4"primus::pong::17""#])
        expectEqual(session.write("x"), [#"#1 4"x""#])
        expectEqual(session.write(.string(String(repeating: "x", count: 200)), waiter: 7), ["fail 7 messageTooLarge"])
    }

    @Test(arguments: [0, 1, 20])
    func `a server of engine io 3 that asks for pings without a pause gets one each second`(interval: Int) {
        var session = SessionHarness(.updates) { $0.transformer = .engineIO }
        session.open()
        session.opened(session.connection)
        session.receive(#"0{"sid":"abc","upgrades":[],"pingInterval":\#(interval),"pingTimeout":20000}"#)
        for _ in 0..<10 {
            expectEqual(session.advance(by: .seconds(1)).count { $0 == "#1 2" }, 1)
            session.receive("3")
        }
        expectEqual(session.machine.state, .open)
    }

    @Test(arguments: [(0, 0), (1, 1), (0, 1)])
    func `a server that leaves no time for an answer is lost, and the client waits before it connects again`(
        interval: Int, timeout: Int
    ) {
        var session = SessionHarness(.updates) { $0.transformer = .engineIO }
        session.open()
        session.opened(session.connection)
        session.receive(#"0{"sid":"abc","upgrades":[],"pingInterval":\#(interval),"pingTimeout":\#(timeout)}"#)
        let lines = session.advance(by: .milliseconds(999))
        expect(lines.contains("state reconnecting serverSilent") && lines.contains("connectingIn 1.0 seconds"), "\(lines)")
        expect(lines.count < 10 && !lines.contains { $0.hasPrefix("open ") }, "\(lines)")
    }

    @Test func `a limit of zero in the handshake of engine io is none, as for the client for JavaScript`() {
        var session = SessionHarness(.updates) { $0.transformer = .engineIO }
        session.open()
        session.opened(session.connection)
        session.receive(#"0{"sid":"abc","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":0}"#)
        expectEqual(session.write("x"), [#"#1 4"x""#])
    }

    @Test(arguments: ["status", "raw", "text"]) func `engine io falls back to the other version once`(form: String) {
        var session = SessionHarness(.updates) { $0.transformer = .engineIO }
        session.open()
        let lines: [String]
        switch form {
        case "status": lines = session.refuse(400, #"{"code":5,"message":"Unsupported protocol version"}"#)
        case "raw":
            session.opened(session.connection)
            lines = session.close(.transport(TransportError(.protocolViolation, "A frame has reserved bits.")))
        default:
            session.opened(session.connection)
            lines = session.receive(#"{"code":5,"message":"Unsupported protocol version"}"#)
        }
        expect(
            lines.last == "open #2 ws://host/primus/?EIO=4&transport=websocket"
                || lines.contains("open #2 ws://host/primus/?EIO=4&transport=websocket"))
        expectEqual(session.refuse(400, #"{"code":5,"message":"Unsupported protocol version"}"#).first, "attemptFailed connectionLost")
    }

    @Test func `without the specification, the client asks for the older engine io first`() {
        var session = SessionHarness(.updates) { $0.transformer = .engineIO }
        expectEqual(session.open().last, "open #1 ws://host/primus/?EIO=3&transport=websocket")
        expectEqual(
            session.refuse(400, #"{"code":5,"message":"Unsupported protocol version"}"#),
            ["open #2 ws://host/primus/?EIO=4&transport=websocket"])
        session.opened(session.connection)
        session.receive(#"0{"sid":"abc","upgrades":[],"pingInterval":25000,"pingTimeout":20000}"#)
        // The next attempt knows.
        session.close(drop)
        expectEqual(session.advance(by: .seconds(1)).last, "open #3 ws://host/primus/?EIO=4&transport=websocket")
    }

    @Test func `an older engine io is pinged by the client`() {
        var session = self.detecting()
        session.open()
        expectEqual(
            session.respond(1, 200, Self.spec("engine.io", version: "7.3.5")), ["open #1 ws://host/primus/?EIO=3&transport=websocket"])
        session.opened(session.connection)
        session.receive(#"0{"sid":"abc","upgrades":[],"pingInterval":25000,"pingTimeout":60000}"#)
        expect(session.advance(by: .seconds(25)).contains("#1 2"))
        expect(session.receive("3").contains { $0.hasPrefix("latency") })
    }

    @Test func `an older engine io whose heartbeat isn't known is pinged in both protocols`() {
        var session = SessionHarness(.updates) { $0.transformer = .engineIO }
        session.open()
        session.opened(session.connection)
        session.receive(#"0{"sid":"abc","upgrades":[],"pingInterval":10000,"pingTimeout":5000}"#)
        let question = #"#1 4"primus::id::""#
        for _ in 0..<3 {
            let lines = session.advance(by: .milliseconds(7_500))
            expect(lines.contains("#1 2") && lines.contains(question), "\(lines)")
            session.receive("3")
        }
        // A server that sends pings of Primus isn't pinged in its protocol, but may be asked whether it is still there.
        session.receive(#"4"primus::ping::1""#)
        let lines = session.advance(by: .milliseconds(7_500))
        expect(lines.contains("#1 2") && lines.count { $0 == question } <= 1, "\(lines)")
    }

    // MARK: Credentials

    @Test func `credentials are asked for before each attempt`() {
        var session = SessionHarness(.updates) { $0.credentials = { [:] } }
        expectEqual(session.open(), ["state opening", "1 prepare"])
        var endpoint = session.machine.options.endpoint
        endpoint.target = "/primus?token=secret"
        let prepared = PrimusPrepared(endpoint: endpoint, credentials: PrimusCredentials(query: [("token", "secret")]))
        expectEqual(session.finish(1, .prepared(.success(prepared))), ["open #1 ws://host/primus?token=secret"])
        session.close(drop)
        expectEqual(session.advance(by: .seconds(1)).last, "2 prepare")
    }

    @Test(arguments: [401, 403]) func `a refusal of the credentials is final`(status: Int) {
        var session = SessionHarness(.updates)
        session.open()
        expectEqual(
            session.refuse(status, #"{"error":"Go away"}"#), ["state closed unauthorized", "ended unauthorized", "finish"])
        guard case .closed(let error?) = session.machine.state else { return }
        expect(error.status == status && error.serverMessage == "Go away" && error.headers != nil)
    }

    @Test func `other credentials are tried once, and the same ones aren't`() {
        let (first, second): (PrimusCredentials, PrimusCredentials) = (["Authorization": "one-token"], ["Authorization": "two-token"])
        var session = SessionHarness(.updates) { $0.credentials = { [:] } }
        session.open()
        session.finish(1, Self.prepared(first))
        expectEqual(session.refuse(401), ["2 prepare"])
        expectEqual(session.finish(2, Self.prepared(second)), ["open #2 ws://host/primus"])
        expectEqual(session.webSocketRequest?.headers["Authorization"], "two-token")
        expectEqual(session.refuse(401).first, "state closed unauthorized")

        session.open()
        session.finish(3, Self.prepared(first))
        expectEqual(session.refuse(401), ["4 prepare"])
        expectEqual(session.finish(4, Self.prepared(first)), ["state closed unauthorized", "ended unauthorized", "finish"])
    }

    @Test func `another URL is tried once after a refusal, and the same one isn't`() {
        var session = SessionHarness(.updates) { $0.requestURL = { $0 } }
        func prepared(_ token: String) -> PrimusSession.WorkResult { Self.prepared(nil, target: "/primus?token=\(token)") }
        session.open()
        session.finish(1, prepared("old"))
        expectEqual(session.refuse(401), ["2 prepare"])
        expectEqual(session.finish(2, prepared("new")), ["open #2 ws://host/primus?token=new"])
        expectEqual(session.refuse(401).first, "state closed unauthorized")

        session.open()
        session.finish(3, prepared("new"))
        expectEqual(session.refuse(401), ["4 prepare"])
        expectEqual(session.finish(4, prepared("new")), ["state closed unauthorized", "ended unauthorized", "finish"])
    }

    private static let page = "<html>Forbidden by the proxy</html>"

    @Test(arguments: [401, 403]) func `a page of a proxy in the place of an answer doesn't refuse an open client`(status: Int) {
        for (body, code) in [(Self.page, "connectionLost"), ("", "connectionLost"), (#"{"error":"Expired"}"#, "unauthorized")] {
            var session = SessionHarness(.updates)
            session.establish()
            let response = HTTPResponse(HTTPResponseHead(status: status), body: Array(body.utf8))
            let error = TransportError(.requestRejected, "The server answered with the status \(status).", response: response)
            let lines = session.close(.transport(error))
            expectEqual(lines.first, "state reconnecting \(code)", "\(lines)")
            // Nor does a refusal of the session, unless the server refuses the next one.
            expectEqual(session.advance(by: .seconds(1)).last, "open #2 ws://host/primus")
            expectEqual(session.refuse(status, body).first, "state closed unauthorized")
        }
    }

    @Test(arguments: [401, 403])
    func `a refusal that may be that of a proxy leads to the next kind of connection, and is final for the last one`(status: Int) {
        for (transformer, kinds) in [(PrimusTransformerKind.engineIO, 2), (.sockjs, 4)] {
            var session = SessionHarness(.updates) { $0.transformer = transformer }
            session.open()
            for number in 2...kinds {
                var lines = session.refuse(status, Self.page)
                if transformer == .sockjs, number == 2 { lines = session.respond(1, 200, #"{"websocket":true}"#) }
                expect(lines.count == 1 && lines[0].hasPrefix("open #\(number) "), "\(lines)")
                let ends = transformer == .sockjs ? ["/websocket", "/xhr_streaming", "/xhr"] : ["transport=polling"]
                expect(lines[0].hasSuffix(ends[number - 2]), "\(lines)")
            }
            expectEqual(session.refuse(status, Self.page), ["state closed unauthorized", "ended unauthorized", "finish"])
            // Each failure is kept.
            guard case .closed(let error?) = session.machine.state else { return expect(false, "the client should be closed") }
            expect(error.message.ranges(of: "Before, ").count == kinds - 1 && error.message.contains("\(status)"), "\(error)")
        }
    }

    @Test(arguments: [#"{"error":"Go away"}"#, #"{"code":4,"message":"Forbidden"}"#])
    func `a refusal by the application ends the attempt over each kind of connection`(body: String) {
        var session = SessionHarness(.updates) { $0.transformer = .engineIO }
        session.open()
        expectEqual(session.refuse(403, body), ["state closed unauthorized", "ended unauthorized", "finish"])
    }

    @Test func `other credentials are tried over all kinds of connections, once`() {
        var session = SessionHarness(.updates) {
            $0.transformer = .engineIO
            $0.credentials = { [:] }
        }
        session.open()
        expectEqual(session.finish(1, Self.prepared(["Authorization": "one-token"])).last?.hasPrefix("open #1 ws:"), true)
        expectEqual(session.refuse(403, Self.page).last?.hasPrefix("open #2 http:"), true)
        expectEqual(session.refuse(403, Self.page), ["2 prepare"])
        expectEqual(session.finish(2, Self.prepared(["Authorization": "two-token"])).last?.hasPrefix("open #3 ws:"), true)
        expectEqual(session.refuse(403, Self.page).last?.hasPrefix("open #4 http:"), true)
        expectEqual(session.refuse(403, Self.page), ["state closed unauthorized", "ended unauthorized", "finish"])
    }

    @Test func `a proxy that refuses to connect doesn't refuse the credentials`() {
        var session = SessionHarness(.updates) { $0.credentials = { [:] } }
        session.open()
        session.finish(1, Self.prepared([:]))
        let response = HTTPResponse(HTTPResponseHead(status: 403), body: [])
        let lines = session.close(.transport(TransportError(.proxyRejected, "The proxy refused.", response: response)))
        expectEqual(lines.first, "attemptFailed connectionLost", "\(lines)")
    }

    @Test func `the cookies of another host of sockjs are sent to that host alone`() {
        var session = SessionHarness(.updates) { $0.transformer = .sockjs }
        session.open()
        session.refuse(404)
        session.respond(1, 200, #"{"websocket":true,"base_url":"http://other/"}"#)
        let id = session.connection
        session.step { $0.opened(id, head: HTTPResponseHead(status: 101, headers: ["Set-Cookie": "second=2; Path=/"]), now: $1, &$2) }
        func cookie(_ host: String) -> String? {
            session.machine.cookies.headers([:], for: Endpoint(scheme: "http", host: host, port: 80, target: "/primus/info"))["Cookie"]
        }
        expect(cookie("host") == nil && cookie("other") == "second=2")
    }

    @Test func `other refusals are retried`() {
        var session = SessionHarness(.updates)
        session.open()
        expectEqual(session.refuse(503).first, "attemptFailed connectionLost")
    }
}
