import PrimusClient
import PrimusWire
import RealtimeCore
import TestSupport
import Testing

/// The steps before a connection: detection, credentials, and other ways.
@Suite struct SessionConnectingTests {
    private static let spec = #"{"pingInterval":30000,"pathname":"/primus","version":"8.0.9","parser":"json","transformer":"websockets"}"#

    private static func spec(_ transformer: String, _ parser: String = "json", version: String = "8.0.9") -> String {
        #"{"pingInterval":30000,"pathname":"/primus","version":"\#(version)","parser":"\#(parser)","transformer":"\#(transformer)"}"#
    }

    private func detecting(_ change: (inout PrimusConfiguration) -> Void = { _ in }) -> SessionHarness {
        SessionHarness(.updates) {
            $0.detection = .automatic
            change(&$0)
        }
    }

    @Test func `the specification is requested once, with the query, and decides`() {
        var session = self.detecting { $0.endpoint.target = "/?a=1&a=2&x" }
        #expect(session.open() == ["state opening", "1 GET http://host/primus/spec?a=1&a=2&x"])
        #expect(session.respond(1, 200, Self.spec) == ["open #1 ws://host/primus?a=1&a=2&x"])
        #expect(session.opened(session.connection) == ["dialect websockets json", "state open"])
        session.close(drop)
        #expect(session.advance(by: .seconds(1)).last == "open #2 ws://host/primus?a=1&a=2&x")
    }

    @Test func `a server without a specification gets the defaults, and isn't asked again`() {
        var session = self.detecting()
        session.open()
        #expect(session.respond(1, 404) == ["open #1 ws://host/primus"])
        session.close(refused)
        #expect(session.advance(by: .seconds(1)).last == "open #2 ws://host/primus")
    }

    @Test(arguments: ["", "[1]", "{}", #"{"parser":1,"transformer":"websockets"}"#, "<html>"])
    func `an invalid specification gets the defaults`(body: String) {
        var session = self.detecting()
        session.open()
        #expect(session.respond(1, 200, body) == ["open #1 ws://host/primus"])
    }

    @Test func `the specification has a time limit`() {
        var session = self.detecting()
        session.open()
        #expect(session.advance(by: .seconds(5)) == ["cancel 1", "open #1 ws://host/primus"])
        #expect(session.respond(1, 200, Self.spec).isEmpty)
    }

    @Test func `a required specification that is missing fails the attempt`() {
        var session = self.detecting { $0.detection = .required }
        session.open()
        #expect(session.respond(1, 404) == ["attemptFailed detectionFailed", "scheduled 1", "connectingIn 1.0 seconds"])
    }

    @Test func `a server that isn't there is asked again`() {
        var session = self.detecting()
        session.open()
        let failure = TransportError(.refused, "No server listens.")
        #expect(session.finish(1, .response(.failure(failure))).first == "attemptFailed connectionLost")
        #expect(session.advance(by: .seconds(1)).last == "2 GET http://host/primus/spec")
    }

    @Test(arguments: [
        ("browserchannel", "json"), ("thing", "json"), ("websockets", "thing"), ("sockjs", "msgpack"), ("sockjs", "binary"),
    ])
    func `what can't work is refused with the reason, for good`(transformer: String, parser: String) {
        var session = self.detecting()
        session.open()
        #expect(session.respond(1, 200, Self.spec(transformer, parser)) == ["state closed unsupported", "ended unsupported", "finish"])
        guard case .closed(let error?) = session.machine.state else { return }
        #expect(error.message.contains(transformer == "websockets" ? parser : transformer))
    }

    @Test func `sockjs is raw first, then framed with its information`() {
        var session = SessionHarness(.updates) { $0.transformer = .sockjs }
        #expect(session.open().last == "open #1 ws://host/primus/websocket")
        #expect(session.refuse(404) == ["1 GET http://host/primus/info"])
        let opened = session.respond(1, 200, #"{"websocket":true,"origins":["*:*"],"cookie_needed":false,"entropy":1}"#)
        let parts = opened.first?.split(separator: "/").map(String.init) ?? []
        #expect(parts.suffix(1) == ["websocket"] && parts.count == 6 && parts[3].utf8.count == 3 && parts[4].utf8.count == 8)
        #expect(session.opened(session.connection).isEmpty)
        #expect(session.receive("o") == ["dialect sockjs json", "state open"])
        #expect(session.receive(#"a["\"a\"","{\"b\":2}"]"#) == [#"data "a""#, #"data {"b":2}"#])
        #expect(session.write(["x": 1]) == [#"#2 ["{\"x\":1}"]"#])
        // The next attempt knows.
        session.close(drop)
        #expect(session.advance(by: .seconds(1)).last == "2 GET http://host/primus/info")
    }

    @Test func `the codes of sockjs are typed`() {
        var session = SessionHarness(.updates) { $0.transformer = .sockjs }
        session.open()
        session.refuse(404)
        session.respond(1, 200, "{}")
        session.opened(session.connection)
        session.receive("o")
        session.receive(#"c[2010,"Another connection still open"]"#)
        guard case .reconnecting(let error) = session.machine.state else {
            Issue.record("The state is \(session.machine.state)")
            return
        }
        #expect(error.serverCode == 2010 && error.serverMessage == "Another connection still open")
    }

    @Test func `engine io opens with its handshake and answers its pings`() {
        var session = SessionHarness(.updates) { $0.transformer = .engineIO }
        #expect(session.open().last == "open #1 ws://host/primus/?EIO=4&transport=websocket")
        #expect(session.opened(session.connection).isEmpty)
        #expect(
            session.receive(#"0{"sid":"abc","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":100}"#)
                == ["dialect engine.io json", "state open", "sparkID abc"])
        #expect(session.receive("2") == ["#1 3"])
        #expect(session.receive(#"4"primus::ping::17""#) == [#"#1 4"primus::pong::17""#])
        #expect(session.write("x") == [#"#1 4"x""#])
        #expect(session.write(.string(String(repeating: "x", count: 200)), waiter: 7) == ["fail 7 messageTooLarge"])
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
        #expect(
            lines.last == "open #2 ws://host/primus/?EIO=3&transport=websocket"
                || lines.contains("open #2 ws://host/primus/?EIO=3&transport=websocket"))
        #expect(session.refuse(400, #"{"code":5,"message":"Unsupported protocol version"}"#).first == "attemptFailed connectionLost")
    }

    @Test func `an older engine io is pinged by the client`() {
        var session = self.detecting()
        session.open()
        #expect(
            session.respond(1, 200, Self.spec("engine.io", version: "7.3.5")) == ["open #1 ws://host/primus/?EIO=3&transport=websocket"])
        session.opened(session.connection)
        session.receive(#"0{"sid":"abc","upgrades":[],"pingInterval":25000,"pingTimeout":60000}"#)
        #expect(session.advance(by: .seconds(25)).contains("#1 2"))
        #expect(session.receive("3").contains { $0.hasPrefix("latency") })
    }

    // MARK: Credentials

    @Test func `credentials are asked for before each attempt`() {
        var session = SessionHarness(.updates) { $0.credentials = { [:] } }
        #expect(session.open() == ["state opening", "1 prepare"])
        var endpoint = session.machine.options.endpoint
        endpoint.target = "/primus?token=secret"
        let prepared = PrimusPrepared(endpoint: endpoint, credentials: PrimusCredentials(query: [("token", "secret")]))
        #expect(session.finish(1, .prepared(.success(prepared))) == ["open #1 ws://host/primus?token=secret"])
        session.close(drop)
        #expect(session.advance(by: .seconds(1)).last == "2 prepare")
    }

    @Test(arguments: [401, 403]) func `a refusal of the credentials is final`(status: Int) {
        var session = SessionHarness(.updates)
        session.open()
        #expect(
            session.refuse(status, #"{"error":"Go away"}"#) == ["state closed unauthorized", "ended unauthorized", "finish"])
        guard case .closed(let error?) = session.machine.state else { return }
        #expect(error.status == status && error.serverMessage == "Go away" && error.headers != nil)
    }

    @Test func `other credentials are tried once, and the same ones aren't`() {
        let (first, second): (PrimusCredentials, PrimusCredentials) = (["Authorization": "one-token"], ["Authorization": "two-token"])
        var session = SessionHarness(.updates) { $0.credentials = { [:] } }
        session.open()
        let endpoint = session.machine.request.webSocket.endpoint.http
        func prepared(_ credentials: PrimusCredentials) -> PrimusSession.WorkResult {
            .prepared(.success(PrimusPrepared(endpoint: endpoint, credentials: credentials)))
        }
        session.finish(1, prepared(first))
        #expect(session.refuse(401) == ["2 prepare"])
        #expect(session.finish(2, prepared(second)) == ["open #2 ws://host/primus"])
        #expect(session.machine.request.webSocket.headers["Authorization"] == "two-token")
        #expect(session.refuse(401).first == "state closed unauthorized")

        session.open()
        session.finish(3, prepared(first))
        #expect(session.refuse(401) == ["4 prepare"])
        #expect(session.finish(4, prepared(first)) == ["state closed unauthorized", "ended unauthorized", "finish"])
    }

    @Test func `other refusals are retried`() {
        var session = SessionHarness(.updates)
        session.open()
        #expect(session.refuse(503).first == "attemptFailed connectionLost")
    }
}
