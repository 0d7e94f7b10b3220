import RealtimeCore
import RealtimeCoding
import SignalRHubs
import SignalRServer
import SignalRWire
import TestSupport
import Testing

@testable import CommandLineSupport
@testable import realtime

@Suite struct SignalRArgumentsTests {
    private func parse<Value>(
        _ arguments: [String], environment: [String: String] = [:], _ make: (Arguments) throws -> Value
    ) throws -> Value {
        guard case .run(let arguments) = try Realtime.tool.table.parse(["signalr"] + arguments, environment: { environment[$0] }) else {
            throw UsageError([], "unexpected request for help")
        }
        return try make(arguments)
    }

    @Test func `a call has a URL, a method and JSON values`() throws {
        let call = try self.parse(
            ["invoke", "https://host/hub", "Add", "-1", #""two""#, "[3]", "--protocol", "MessagePack", "--timeout", "0.5"], SignalRCall.init
        )
        expectEqual(call.connection.endpoint, (try Endpoint("https://host/hub")))
        expectEqual(call.connection.format, .messagePack)
        expectEqual(call.method, "Add")
        expectEqual(call.values, [.value(-1), .value("two"), .value([3])])
        expectEqual(call.timeout, .milliseconds(500))
    }

    @Test(arguments: ["invoke", "send", "stream"])
    func `one argument can be standard input`(_ command: String) throws {
        let call = try self.parse([command, "http://host/hub", "M", "1", "-", "2"], SignalRCall.init)
        expectEqual(call.values, [.value(1), .standardInput, .value(2)])
        let message = "Only one argument can be '-', because standard input is read to its end"
        #expect(throws: UsageError(["signalr", command], message)) {
            try self.parse([command, "http://host/hub", "M", "-", "-"], SignalRCall.init)
        }
    }

    @Test func `a command listens to several methods`() throws {
        let command = try self.parse(["listen", "http://host/hub", "A", "B", "--count", "2"], SignalRListenCommand.init)
        expectEqual(command.methods, ["A", "B"])
        expectEqual(command.count, 2)
        expectEqual(command.connection.format, .json)
    }

    @Test(
        arguments: [
            (["hello"], #"Invalid argument 'hello': must be JSON. If it is a string, specify '"hello"'"#),
            (["it's"], #"Invalid argument 'it's': must be JSON. If it is a string, specify '"it'\''s"'"#),
            (["1", "{"], #"Invalid argument '{': must be JSON. If it is a string, specify '"{"'"#),
            (["1 2"], #"Invalid argument '1 2': must be JSON. If it is a string, specify '"1 2"'"#),
            (
                ["--transport", "longPolling,tcp"],
                "Invalid value 'longPolling,tcp' for '--transport': must be webSockets, serverSentEvents or longPolling, several of them "
                    + "with commas, or any"
            ),
            (["--protocol", "xml"], "Invalid value 'xml' for '--protocol': must be json or messagePack"),
            (
                ["--protocol", "messagePack", "--transport", "serverSentEvents"],
                "'--transport serverSentEvents' carries text only, which '--protocol messagePack' isn't. Use another transport or protocol"
            ),
            (["--header", "secret"], "Invalid value for '--header': must be a field such as 'X-Tenant: 7'"),
            (["--header", ": secret"], "Invalid value for '--header': must be a field such as 'X-Tenant: 7'"),
            (["--header", "X-A: a\r\nX-B: b"], "Invalid value for '--header': must be a field such as 'X-Tenant: 7'"),
            (["--token", "t", "--token-file", "f"], "Specify either '--token' or '--token-file', not both"),
            (
                ["--protocol", "messagePack", #"[{"a":1.2345678901234567890123}]"#],
                "Invalid argument '1.2345678901234567890123': MessagePack has no number with so many digits. "
                    + #"Specify the string '"1.2345678901234567890123"'"#
            ),
        ] as [([String], String)])
    func `a call rejects invalid arguments`(_ arguments: [String], _ message: String) {
        #expect(throws: UsageError(["signalr", "invoke"], message)) {
            try self.parse(["invoke", "http://host/hub", "M"] + arguments, SignalRCall.init)
        }
    }

    @Test func `an invalid URL is a usage error`() {
        #expect(throws: UsageError.self) { try self.parse(["invoke", "host", "M"], SignalRCall.init) }
        #expect(throws: UsageError(["signalr", "listen"], "Missing argument 'METHOD'")) {
            try self.parse(["listen", "http://host/hub"], SignalRListenCommand.init)
        }
    }

    @Test func `the transport can be named in any case`() throws {
        for name in ["webSockets", "WebSockets", "websockets"] {
            #expect(throws: Never.self) { try self.parse(["send", "ws://host/hub", "M", "--transport", name], SignalRCall.init) }
        }
    }

    @Test func `with MessagePack, Server-Sent Events may be among the transports`() throws {
        for names in ["serverSentEvents,longPolling", "any"] {
            let options = ["--protocol", "messagePack", "--transport", names]
            #expect(throws: Never.self) { try self.parse(["send", "ws://host/hub", "M"] + options, SignalRCall.init) }
        }
    }

    static let transports: [(String?, HubTransportKinds)] = [
        (nil, .all), ("any", .all), ("longPolling", .longPolling), ("serverSentEvents,WEBSOCKETS", [.webSockets, .serverSentEvents]),
    ]

    @Test(arguments: transports)
    func `a client may use the transports that an option names`(names: String?, expected: HubTransportKinds) throws {
        let options = names.map { ["--transport", $0] } ?? []
        let call = try self.parse(["send", "ws://host/hub", "M"] + options, SignalRCall.init)
        expect(call.connection.allowedTransports == expected && !call.connection.isStateful)
    }

    @Test func `header fields keep colons in their values`() throws {
        let call = try self.parse(
            ["send", "ws://host/hub", "M", "--header", "Cookie: a=b:c", "--header", "X-Empty:", "--header", "Cookie: d"], SignalRCall.init)
        expectEqual(call.connection.client.headers, ["Cookie": "a=b:c", "X-Empty": "", "Cookie": "d"])
    }

    @Test func `the token comes from an option, a file or the environment`() throws {
        func token(_ options: [String]) throws -> Secret? {
            try self.parse(["send", "http://host/hub", "M"] + options, environment: [Secret.signalRVariable: "env"], SignalRCall.init)
                .connection.client.token
        }
        guard case .environment("env")? = try token([]), case .option("t")? = try token(["--token", "t"]),
            case .file("f", "token")? = try token(["--token-file", "f"])
        else {
            Issue.record("the token comes from another place")
            return
        }
    }
}

@Suite struct SignalRLinesTests {
    private func json(_ line: Line?) -> String { line.map { String(decoding: $0.json.dropLast(), as: UTF8.self) } ?? "" }
    private func text(_ line: Line?) -> String { line.map { String(decoding: $0.text(isColored: false).dropLast(), as: UTF8.self) } ?? "" }

    @Test(
        arguments: [
            (.connecting, #"{"type":"state","state":"connecting"}"#, "connecting"),
            (
                .connected(connectionID: "a"), #"{"type":"state","state":"connected","transport":"LongPolling","connection_id":"a"}"#,
                "connected over LongPolling: connection ID a"
            ),
            (
                .connected(connectionID: nil), #"{"type":"state","state":"connected","transport":"LongPolling"}"#,
                "connected over LongPolling"
            ),
            (
                .reconnecting(HubError(.connectionLost, "Lost.")), #"{"type":"state","state":"reconnecting","detail":"Lost."}"#,
                "reconnecting: Lost."
            ),
            (.stopped(nil), #"{"type":"state","state":"disconnected"}"#, "disconnected"),
            (.stopped(HubError(.connectionLost, "Lost.")), #"{"type":"state","state":"disconnected"}"#, "disconnected"),
        ] as [(HubState, String, String)])
    func `each state is a line`(_ state: HubState, _ json: String, _ text: String) {
        expectEqual(self.json(.state(state, over: .longPolling)), json)
        expectEqual(self.text(.state(state, over: .longPolling)), text)
    }

    @Test func `values are lines with all digits of their numbers`() throws {
        let text = #"{"a":[9223372036854775807,-0.10000000000000000001]}"#
        let value = try JSONValue(parsing: text)
        expectEqual(self.json(.result(value)), #"{"type":"result","value":\#(text)}"#)
        expectEqual(self.text(.result(.null)), "null")
        expectEqual(self.json(.item(value)), #"{"type":"item","value":\#(text)}"#)
        expectEqual(self.text(.item(value)), text)
        let invocation = Line.invocation("Receive", ["anna", value])
        expectEqual(self.json(invocation), #"{"type":"invocation","target":"Receive","arguments":["anna",\#(text)]}"#)
        expectEqual(self.text(invocation), #"Receive "anna" \#(text)"#)
        expectEqual(self.json(.sent("Send")), #"{"type":"sent","target":"Send"}"#)
    }

    @Test func `a payload is shown as JSON in both formats`() throws {
        try expectEqual(HubPayload(.json, Array("[1.10, 2]".utf8)).json(), [1.1, 2])
        try expectEqual(HubPayload(.messagePack, MessagePackValue.array([.int(1), .binary([1, 2])]).bytes).json(), [1, "AQI="])
        #expect(throws: ToolFailure.self) { try HubPayload(.messagePack, [0xC1]).json() }
    }

    @Test func `a message names its connection and the side that sent it`() {
        let line = Line.message(ConnectionID(rawValue: 3), "{}", from: .client)
        expectEqual(self.json(line), ##"{"type":"frame","connection":"#3","from":"client","data":"{}"}"##)
        expectEqual(self.text(line), "#3 received {}")
        expectEqual(self.text(.message(ConnectionID(rawValue: 3), "{}", from: .server)), "#3 sent {}")
    }

    @Test(
        arguments: [
            (
                .rejected(hub: "/chat", status: 401), #"{"type":"rejected","hub":"/chat","status":401}"#,
                "a client of /chat was rejected with the status 401"
            ),
            (
                .connected(hub: "/chat", connectionID: "a", userID: "anna"),
                #"{"type":"connected","connection_id":"a","hub":"/chat","user_id":"anna"}"#, "a connected to /chat as anna"
            ),
            (
                .refreshed(hub: "/chat", connectionID: "a", userID: nil),
                #"{"type":"refreshed","connection_id":"a","hub":"/chat"}"#, "a refreshed its authentication"
            ),
            (
                .interrupted(hub: "/chat", connectionID: "a", .transport(TransportError(.reset, "Reset."))),
                #"{"type":"interrupted","connection_id":"a","hub":"/chat","reason":"Reset."}"#, "a lost its WebSocket: Reset."
            ),
            (
                .resumed(hub: "/chat", connectionID: "a"), #"{"type":"resumed","connection_id":"a","hub":"/chat"}"#,
                "a resumed its connection"
            ),
            (
                .disconnected(hub: "/chat", connectionID: "a", .peer(.normal, "")),
                #"{"type":"disconnected","connection_id":"a","hub":"/chat","code":1000,"reason":"the client closed the connection with code 1000"}"#,
                "a disconnected from /chat: the client closed the connection with code 1000"
            ),
            (
                .invoked(connectionID: "a", method: "Send"), #"{"type":"invoked","connection_id":"a","method":"Send"}"#, "a called Send"
            ),
            (
                .completed(connectionID: "a", method: "Send", error: nil), #"{"type":"completed","connection_id":"a","method":"Send"}"#,
                "a completed Send"
            ),
            (
                .completed(connectionID: "a", method: "Send", error: "no"),
                #"{"type":"completed","connection_id":"a","method":"Send","error":"no"}"#, "a completed Send: no"
            ),
            (
                .error(connectionID: "a", message: "no"), #"{"type":"error","connection_id":"a","message":"no"}"#, "a: error: no"
            ),
        ] as [(SignalRServerEvent, String, String)])
    func `each event of a server is a line`(_ event: SignalRServerEvent, _ json: String, _ text: String) {
        expectEqual(self.json(.event(event)), json)
        expectEqual(self.text(.event(event)), text)
    }

    @Test func `a negotiation and a message aren't lines of their own`() {
        expectNil(Line.event(.negotiated(hub: "/chat", connectionID: "a")))
        expectNil(Line.event(.received(connectionID: "a", .text("{}"))))
    }

    @Test(
        arguments: [
            (nil, .all), ("any", .all), ("ANY", .all), ("webSockets", .webSockets), ("serversentevents", .serverSentEvents),
            ("LongPolling", .longPolling), ("longPolling,webSockets", [.webSockets, .longPolling]), ("longPolling,any", .all),
        ] as [(String?, HubTransportKinds)])
    func `a server offers the transports that an option names`(_ names: String?, _ transports: HubTransportKinds) throws {
        let options = names.map { ["--transport", $0] } ?? []
        guard case .run(let arguments) = try ArgumentParser.parse(options, for: ServeSignalRCommand.spec, environment: { _ in nil }) else {
            Issue.record("the options don't run the command")
            return
        }
        try expectEqual(ServeSignalRCommand(arguments).transports, transports)
    }

    @Test(arguments: ["tcp", ",", "webSockets,", "webSockets, longPolling", "webSockets;longPolling"])
    func `unknown transports of a server are a usage error that lists the known ones`(_ names: String) throws {
        let options = ["--transport", names]
        guard case .run(let arguments) = try ArgumentParser.parse(options, for: ServeSignalRCommand.spec, environment: { _ in nil }) else {
            Issue.record("the options don't run the command")
            return
        }
        let error = #expect(throws: UsageError.self) { try ServeSignalRCommand(arguments) }
        expectEqual(
            error?.message.contains("must be webSockets, serverSentEvents or longPolling, several of them with commas, or any"), true)
    }

    @Test func `a server names the commands to try, with its address and token`() throws {
        func commands(_ options: [String]) throws -> [[String]] {
            guard case .run(let arguments) = try ArgumentParser.parse(options, for: ServeSignalRCommand.spec, environment: { _ in nil })
            else { return [] }
            let command = try ServeSignalRCommand(arguments)
            let address = ListenerAddress(host: "127.0.0.1", port: 8080)
            expectEqual(
                self.json(ServeSignalRCommand.ready(address)),
                #"{"ready":true,"url":"http://127.0.0.1:8080","port":8080,"hubs":["/chat","/clock","/echo"]}"#)
            return command.commands(address).map { $0.split(separator: " ").map { $0.filter { $0 != "'" } } }
        }
        let (plain, secured) = (try commands([]), try commands(["--token", "t t"]))
        expectEqual(plain.count, 4)
        for words in plain {
            let start = try #require(words.firstIndex(of: "signalr"))
            guard case .run(let arguments) = try Realtime.tool.table.parse(Array(words[start...])) else {
                Issue.record("\(words) does not run a command")
                return
            }
            #expect(throws: Never.self) { try Realtime.tool.command(arguments) }
            expect(words[start + 2].hasPrefix("http://127.0.0.1:8080/"))
        }
        expect(secured.allSatisfy { $0.suffix(3) == ["--token", "t", "t"] })
    }
}
