import PrimusClient
import PrimusServer
import PrimusWire
import RealtimeCoding
import RealtimeCore
import TestSupport
import Testing

@testable import CommandLineSupport
@testable import realtime

@Suite struct PrimusArgumentsTests {
    private func parse<Value>(
        _ arguments: [String], environment: [String: String] = [:], _ make: (Arguments) throws -> Value
    ) throws -> Value {
        guard case .run(let arguments) = try Realtime.tool.table.parse(arguments, environment: { environment[$0] }) else {
            throw UsageError([], "unexpected request for help")
        }
        return try make(arguments)
    }

    @Test func `a message has a URL and a JSON value`() throws {
        let options = ["--transformer", "Engine.IO", "--parser", "MsgPack", "--count", "2", "--timeout", "0.5", "--header", "X-A: b:c"]
        let command = try self.parse(["primus", "write", "https://host/p?a=1", #"{"a":[1]}"#] + options, PrimusWriteCommand.init)
        expect(command.value == .value(["a": [1]]) && command.reception.count == 2 && command.reception.timeout == .milliseconds(500))
        let connection = command.reception.connection
        expect(connection.endpoint == (try Endpoint("https://host/p?a=1")) && connection.client.headers == ["X-A": "b:c"])
        expect(connection.transformer == .engineIO && connection.parser == .msgpack && connection.plugins == [])
        let input = try self.parse(["primus", "write", "http://host", "-"], PrimusWriteCommand.init)
        expect(input.value == .standardInput && input.reception.connection.endpoint.description == "http://host/primus")
    }

    @Test func `an event has a name and JSON arguments, of which one can be standard input`() throws {
        let command = try self.parse(["primus", "send", "http://host", "add", "-1", "-", "[2]", "--ack"], PrimusSendCommand.init)
        expect(command.event == "add" && command.values == [.value(-1), .standardInput, .value([2])])
        expect(command.waitsForAcknowledgement && command.connection.plugins == .emitter && command.timeout == .seconds(30))
        let emit = try self.parse(["primus", "send", "http://host", "log", "--plugins", "EMIT", "--timeout", "5"], PrimusSendCommand.init)
        expect(emit.values.isEmpty && !emit.waitsForAcknowledgement && emit.connection.plugins == .emit && emit.timeout == .seconds(5))
    }

    @Test(
        arguments: [
            (nil, []), ("emitter", .emitter), ("Emitter,responder", [.emitter, .responder]), ("all", .all), ("multiplex,all", .all),
        ] as [(String?, PrimusPluginSet)])
    func `plugins are named alone, with commas, or all together`(names: String?, plugins: PrimusPluginSet) throws {
        let options = names.map { ["--plugins", $0] } ?? []
        let listen = try self.parse(["primus", "listen", "http://host"] + options, PrimusListenCommand.init)
        expectEqual(listen.reception.connection.plugins, plugins)
        let serve = try self.parse(["serve", "primus"] + options, ServePrimusCommand.init)
        expectEqual(serve.configuration.plugins.rawValue, plugins.rawValue)
    }

    @Test func `a server may accept clients of engine io 3, if it has engine io 4`() throws {
        let engineIO = ["serve", "primus", "--transformer", "engine.io"]
        try expectEqual(self.parse(engineIO, ServePrimusCommand.init).configuration.allowsEIO3, false)
        try expect(self.parse(engineIO + ["--allow-eio3"], ServePrimusCommand.init).configuration.allowsEIO3)
        for others in [["serve", "primus"], engineIO + ["--version", "6"]] {
            #expect(throws: UsageError.self) { try self.parse(others + ["--allow-eio3"], ServePrimusCommand.init) }
        }
    }

    @Test(
        arguments: [
            (nil, .all, false), ("webSockets", .webSockets, false), ("POLLING", .polling, false), ("upgrade", .all, true),
        ] as [(String?, PrimusTransportKinds, Bool)])
    func `a transport is named in any letter case`(_ name: String?, _ allowed: PrimusTransportKinds, _ startsWithPolling: Bool) throws {
        let options = name.map { ["--transport", $0] } ?? []
        var configuration = try PrimusConfiguration(url: "http://host")
        let listen = try self.parse(["primus", "listen", "http://host"] + options, PrimusListenCommand.init)
        listen.reception.connection.transport?.apply(to: &configuration)
        expect(configuration.allowedTransports == allowed && configuration.startsWithPolling == startsWithPolling)
    }

    private static let transformers = "must be websockets, faye, uws, sockjs or engine.io"

    @Test(
        arguments: [
            (
                ["primus", "write", "http://host", "hello"],
                #"Invalid argument 'hello': must be JSON. If it is a string, specify '"hello"'"#
            ),
            (["primus", "send", "http://host", "e", "1", "{"], #"Invalid argument '{': must be JSON. If it is a string, specify '"{"'"#),
            (
                ["primus", "send", "http://host", "e", "-", "-"],
                "Only one argument can be '-', because standard input is read to its end"
            ),
            (["primus", "listen", "http://host", "--transformer", "tcp"], "Invalid value 'tcp' for '--transformer': \(Self.transformers)"),
            (
                ["primus", "listen", "http://host", "--transformer", "browserchannel"],
                "Invalid value 'browserchannel' for '--transformer': \(Self.transformers)"
            ),
            (["serve", "primus", "--transformer", ""], "Invalid value '' for '--transformer': must not be empty"),
            (["serve", "primus", "--parser", "xml"], "Invalid value 'xml' for '--parser': must be json, ejson, msgpack or binary"),
            (
                ["serve", "primus", "--plugins", "emitter,"],
                "Invalid value 'emitter,' for '--plugins': must be emitter, emit, multiplex, substream or responder, several of them with "
                    + "commas, or all"
            ),
            (
                ["primus", "listen", "http://host", "--transport", "longPolling"],
                "Invalid value 'longPolling' for '--transport': must be webSockets, polling or upgrade"
            ),
            (
                ["primus", "send", "http://host", "e", "--transport", "upgrade", "--transformer", "sockjs"],
                "The transformer sockjs doesn't have '--transport upgrade'. Omit '--transport', or use another transformer"
            ),
            (["serve", "primus", "--version", "7"], "Invalid value '7' for '--version': must be 8 or 6"),
            (
                ["primus", "send", "http://host", "e", "--plugins", "responder"],
                "Invalid value 'responder' for '--plugins': must be emitter or emit"
            ),
            (
                ["primus", "send", "http://host", "e", "--plugins", "emit", "--ack"],
                "The plugin emit has no acknowledgements. Omit '--ack', or use '--plugins emitter'"
            ),
            (
                ["primus", "send", "http://host", "data"],
                "Primus reserves the event name \"data\", so the peer would drop the event. Use another name."
            ),
            (
                ["primus", "spec", "http://host", "--header", "secret"],
                "Invalid value for '--header': must be a field such as 'X-Tenant: 7'"
            ),
            (
                ["primus", "spec", "http://host", "--token", "t", "--token-file", "f"],
                "Specify either '--token' or '--token-file', not both"
            ),
            (
                ["primus", "spec", "http://a:b@host", "--token", "t"], "Specify either a user name in the URL or a token, not both"
            ),
            (
                ["primus", "listen", "http://host", "--token-parameter", "t"],
                "'--token-parameter' needs a token. Specify '--token' or '--token-file', or set REALTIME_PRIMUS_TOKEN"
            ),
            (["primus", "listen"], "Missing argument 'URL'"), (["primus", "write", "http://host"], "Missing argument 'JSON'"),
        ] as [([String], String)])
    func `invalid arguments are usage errors`(_ arguments: [String], _ message: String) {
        let error = #expect(throws: UsageError.self) { try self.parse(arguments) { try Realtime.tool.command($0) } }
        expectEqual(error?.message, message)
    }

    @Test(arguments: [["serve", "primus"], ["primus", "listen", "http://host"]])
    func `a parser whose packets a transformer can't carry is refused before anything starts`(_ command: [String]) {
        let options = ["--transformer", "sockjs", "--parser", "msgpack"]
        let error = #expect(throws: UsageError.self) { try self.parse(command + options) { try Realtime.tool.command($0) } }
        expectEqual(error?.message.contains("carries text only"), true)
    }

    @Test func `an invalid URL is a usage error`() {
        for url in ["host", "ftp://host", "http://"] {
            #expect(throws: UsageError.self) { try self.parse(["primus", "spec", url]) { try Realtime.tool.command($0) } }
        }
    }

    @Test func `the token comes from an option, a file, the environment or the URL`() throws {
        func client(_ arguments: [String]) throws -> ClientOptions {
            try self.parse(["primus", "spec"] + arguments, environment: [Secret.primusVariable: "env"]) {
                try PrimusSpecCommand($0).connection.client
            }
        }
        guard case .environment("env")? = try client(["http://host"]).token,
            case .option("t")? = try client(["http://host", "--token", "t"]).token,
            case .file("f", "token")? = try client(["http://host", "--token-file", "f"]).token
        else {
            Issue.record("the token comes from another place")
            return
        }
        let basic = try client(["http://usr:p%40ss@host/path"])
        expect(basic.token == nil && basic.headers == ["Authorization": "Basic dXNyOnBAc3M="] && basic.endpoint.host == "host")
    }

    static let messages: [(PrimusError, [String], String)] = [
        (PrimusError(.unauthorized, "Refused. Check the credentials."), [], "Refused. Specify the access token with --token."),
        (
            PrimusError(.unauthorized, "Refused. Check the credentials."), ["--token-file", "f"],
            "Refused. Check the access token of --token-file."
        ),
        (
            PrimusError(.handshakeFailed, "Invalid. Check the URL and the transformer."), [], "Invalid. Check the URL and --transformer."
        ),
        (PrimusError(.timedOut, "Late."), [], "Late."),
        (PrimusError(.timedOut, "Late."), ["--transformer", "sockjs"], "Late. Check --transformer."),
        (
            PrimusError(.unsupported, "The parser x isn't built in. Set customParser to an implementation of it."), [],
            "The parser x isn't built in. The tool has no other parsers."
        ),
        (
            PrimusError(.unsupported, "The transformer x isn't built in. Set customTransformer to an implementation of it."), [],
            "The transformer x isn't built in. The tool has no other transformers."
        ),
        (PrimusError(.messageTooLarge, "Too large."), ["--transformer", "sockjs"], "Too large."),
    ]

    @Test(arguments: Self.messages)
    func `a failure names options in the place of settings`(_ error: PrimusError, _ options: [String], _ message: String) throws {
        let command = try self.parse(["primus", "listen", "http://host"] + options, PrimusListenCommand.init)
        expectEqual(command.reception.connection.message(error), message)
    }
}

@Suite struct PrimusLinesTests {
    private func json(_ line: Line?) -> String { line.map { String(decoding: $0.json.dropLast(), as: UTF8.self) } ?? "" }
    private func text(_ line: Line?) -> String { line.map { String(decoding: $0.text(isColored: false).dropLast(), as: UTF8.self) } ?? "" }

    @Test(
        arguments: [
            (.opening, #"{"type":"state","state":"opening"}"#, "opening"),
            (
                .open, #"{"type":"state","state":"open","transformer":"engine.io","parser":"msgpack","transport":"polling"}"#,
                "open over engine.io, msgpack, polling"
            ),
            (
                .reconnecting(PrimusError(.connectionLost, "Lost.")), #"{"type":"state","state":"reconnecting","detail":"Lost."}"#,
                "reconnecting: Lost."
            ),
            (.closed(nil), #"{"type":"state","state":"end"}"#, "end"),
            (.closed(PrimusError(.connectionLost, "Lost.")), #"{"type":"state","state":"end"}"#, "end"),
        ] as [(PrimusState, String, String)])
    func `each state is a line`(_ state: PrimusState, _ json: String, _ text: String) {
        var lines = PrimusStateLines()
        expectNil(lines.line(.dialect(PrimusDialect(transformer: .engineIO, parser: .msgpack))))
        expectNil(lines.line(.transport(.polling)))
        expectEqual(self.json(lines.line(.state(state))), json)
        expectEqual(self.text(lines.line(.state(state))), text)
        expectNil(lines.line(.sparkID("a")))
    }

    @Test func `a move to a WebSocket is a line, and the kind of a new connection is part of its state`() {
        var lines = PrimusStateLines()
        let dialect = PrimusUpdate.dialect(PrimusDialect(transformer: .engineIO, parser: .json))
        for update in [dialect, .transport(.polling), .state(.open)] { _ = lines.line(update) }
        let moved = lines.line(.transport(.webSockets))
        expect(self.json(moved) == #"{"type":"transport","transport":"webSockets"}"# && self.text(moved) == "moved to webSockets")
        for update in [PrimusUpdate.state(.reconnecting(PrimusError(.connectionLost, "Lost."))), dialect] { _ = lines.line(update) }
        expectNil(lines.line(.transport(.webSockets)))
        expectEqual(self.text(lines.line(.state(.open))), "open over engine.io, json")
    }

    @Test func `messages, events, requests and acknowledgements are lines`() {
        let value: JSONValue = ["a": [1, "ü"]]
        expectEqual(self.json(.data(value)), #"{"type":"data","data":{"a":[1,"ü"]}}"#)
        expectEqual(self.text(.data(value)), #"{"a":[1,"ü"]}"#)
        expectEqual(self.json(.primusEvent("news", [1, value])), #"{"type":"event","event":"news","arguments":[1,{"a":[1,"ü"]}]}"#)
        expectEqual(self.text(.primusEvent("news", [1, value])), #"news 1 {"a":[1,"ü"]}"#)
        expect(self.json(.primusRequest(1)) == #"{"type":"request","data":1}"# && self.text(.primusRequest(1)) == "request 1")
        expectEqual(self.json(.acknowledgement([.null, 2])), #"{"type":"ack","arguments":[null,2]}"#)
        expectEqual(self.text(.acknowledgement([.null, 2])), "acknowledged null 2")
        expect(self.json(.sentEvent("e")) == #"{"type":"sent","event":"e"}"# && self.text(.sentEvent("e")) == "sent e")
    }

    @Test(
        arguments: [
            (
                PrimusSpec(version: "8.0.9", heartbeat: .serverPings(interval: 30_000)),
                #"{"type":"spec","version":"8.0.9","pathname":"/primus","transformer":"websockets","parser":"json","pingInterval":30000}"#,
                "Primus 8.0.9 at /primus: transformer websockets, parser json, the server pings every 30.0 s"
            ),
            (
                PrimusSpec(
                    version: "6.1.0", pathname: "/p", parser: .binary, transformer: .engineIO, heartbeat: .clientPings(timeout: 500)),
                #"{"type":"spec","version":"6.1.0","pathname":"/p","transformer":"engine.io","parser":"binary","timeout":500}"#,
                "Primus 6.1.0 at /p: transformer engine.io, parser binary, the client pings, at least every 0.5 s"
            ),
            (
                PrimusSpec(version: "8.0.9", heartbeat: .serverPings(interval: nil)),
                #"{"type":"spec","version":"8.0.9","pathname":"/primus","transformer":"websockets","parser":"json","pingInterval":false}"#,
                "Primus 8.0.9 at /primus: transformer websockets, parser json, no heartbeat"
            ),
            (
                PrimusSpec(version: "1.3.0", heartbeat: .none),
                #"{"type":"spec","version":"1.3.0","pathname":"/primus","transformer":"websockets","parser":"json"}"#,
                "Primus 1.3.0 at /primus: transformer websockets, parser json, no heartbeat"
            ),
        ] as [(PrimusSpec, String, String)])
    func `a specification is a line with the names that the server uses`(_ spec: PrimusSpec, _ json: String, _ text: String) {
        expectEqual(self.json(.spec(spec)), json)
        expectEqual(self.text(.spec(spec)), text)
    }

    static let values: [(PrimusValue, String)] = [
        (.date(PrimusDate(milliseconds: 5)), #"{"$date":5}"#), (.bytes([1, 2]), #"{"$binary":"AQI="}"#),
        (.double(.nan), #"{"$InfNaN":0}"#),
        (.double(-.infinity), #"{"$InfNaN":-1}"#), (.expression(pattern: "a", flags: "i"), #"{"$regexp":"a","$flags":"i"}"#),
        (["$date": 5], #"{"$escape":{"$date":5}}"#), ([1, 0.5, "a", true, nil], #"[1,0.5,"a",true,null]"#),
    ]

    @Test(arguments: Self.values)
    func `with another parser than json, values that JSON lacks are written and shown as EJSON`(_ value: PrimusValue, _ text: String) throws
    {
        for parser in [PrimusParserKind.ejson, .msgpack, .binary] {
            expectEqual(value.shown(for: parser).description, text)
            let written = PrimusValue(written: try JSONValue(parsing: text), for: parser)
            expect(written == value || "\(written)" == "\(value)")
        }
    }

    @Test func `with the parser json, values are written and shown as they are`() throws {
        let text = #"{"$date":5,"b":{"type":"Buffer","data":[1,2]}}"#
        let value = PrimusValue(written: try JSONValue(parsing: text), for: .json)
        expect(value == ["$date": 5, "b": .bytes([1, 2])] && value.shown(for: .json).description == text)
    }

    @Test func `values that EJSON lacks as well are shown with a telling name, and their neighbors as they are`() {
        let value: PrimusValue = [["a": .extended(type: 5, [1])], .date(PrimusDate(milliseconds: .nan)), 1]
        expectEqual(
            value.shown(for: .msgpack).description,
            #"[{"a":{"$type":"extension 5","$value":{"$binary":"AQ=="}}},{"$type":"invalid date","$value":null},1]"#)
    }

    @Test func `a large value of MessagePack isn't shown, because showing it would need too much memory`() {
        let large = TransportMessage.binary([UInt8](repeating: 0xC0, count: 3 << 20))
        let failure = #expect(throws: PrimusShown.Problem.self) { try PrimusShown.value(large, .messagePack) }
        expect(failure?.message.contains("the limit is 2097152 bytes") == true && failure?.isInvalid == false)
        let invalid = #expect(throws: PrimusShown.Problem.self) { try PrimusShown.value(.binary([0xC1]), .messagePack) }
        expectEqual(invalid?.isInvalid, true)
    }

    @Test(
        arguments: [
            (.rejected(status: 401), #"{"type":"rejected","status":401}"#, "a client was rejected with the status 401"),
            (.connected(id: "a"), #"{"type":"connected","spark_id":"a"}"#, "a connected"),
            (
                .disconnected(id: "a", .peer(.normal, "")),
                #"{"type":"disconnected","spark_id":"a","code":1000,"reason":"the client closed the connection with code 1000"}"#,
                "a disconnected: the client closed the connection with code 1000"
            ),
            (.received(id: "a", .text(#"{"n":1}"#)), #"{"type":"received","spark_id":"a","data":{"n":1}}"#, #"a sent {"n":1}"#),
            (.error(id: "a", message: "no"), #"{"type":"error","spark_id":"a","message":"no"}"#, "a: error: no"),
        ] as [(PrimusServerEvent, String, String)])
    func `each event of a server is a line`(_ event: PrimusServerEvent, _ json: String, _ text: String) {
        expectEqual(self.json(.event(event, .json)), json)
        expectEqual(self.text(.event(event, .json)), text)
    }

    @Test func `messages of Primus itself aren't lines of a server, and invalid ones are errors that name the parser`() {
        expectNil(Line.event(.received(id: "a", .text(#""primus::pong::1""#)), .json))
        let line = self.text(.event(.received(id: "a", .text("{")), .json))
        expect(line.hasPrefix("a: error: A message can't be shown: "), "\(line)")
        expect(line.hasSuffix("Check the parser of the client: that of the server is json."), "\(line)")
    }

    @Test func `a server names the commands to try, with its address, plugins and token`() throws {
        func commands(_ options: [String]) throws -> [[String]] {
            guard case .run(let arguments) = try ArgumentParser.parse(options, for: ServePrimusCommand.spec, environment: { _ in nil })
            else { return [] }
            let command = try ServePrimusCommand(arguments)
            let address = ListenerAddress(host: "127.0.0.1", port: 8080)
            expectEqual(self.json(command.ready(address)), #"{"ready":true,"url":"http://127.0.0.1:8080/primus","port":8080}"#)
            return command.commands(address).map { $0.split(separator: " ").map { $0.filter { $0 != "'" } } }
        }
        let all = [try commands([]), try commands(["--plugins", "all", "--token", "t"]), try commands(["--plugins", "emit"])]
        expectEqual(all.map(\.count), [3, 5, 4])
        for words in all.joined() {
            let start = try #require(words.firstIndex(of: "primus"))
            guard case .run(let arguments) = try Realtime.tool.table.parse(Array(words[start...])) else {
                Issue.record("\(words) does not run a command")
                return
            }
            #expect(throws: Never.self) { try Realtime.tool.command(arguments) }
            expect(words[start + 2].hasPrefix("http://127.0.0.1:8080/primus"))
        }
        expect(all[1].allSatisfy { $0.suffix(2) == ["--token", "t"] })
    }

    @Test(
        arguments: [
            ("/primus?token=open%20sesame", nil, true), ("/primus?token=other", nil, false), ("/primus", nil, false),
            ("/primus", "Bearer open sesame", true), ("/primus", "bearer open sesame", true), ("/primus", "Bearer other", false),
            ("/primus", "Basic YTpvcGVuIHNlc2FtZQ==", true), ("/primus", "Basic b3BlbiBzZXNhbWU=", false), ("/primus", "Basic ?", false),
            ("/primus?token=other", "Bearer open sesame", true), ("/primus", "open sesame", false),
            ("/primus?token=other&token=open%20sesame", nil, false), ("/primus?token=open%20sesame&token=other", nil, false),
        ] as [(String, String?, Bool)])
    func `a token is accepted in the query, as a bearer and as a password`(_ target: String, _ field: String?, _ isAccepted: Bool) async {
        let request = HTTPRequestHead(method: "GET", target: target, headers: field.map { ["Authorization": $0] } ?? [:])
        let decision = await ServePrimusCommand.authorization("open sesame")(request)
        switch decision {
        case .accept: expect(isAccepted)
        case .reject(_, let status, _): expect(!isAccepted && status == 401)
        case .respond: Issue.record("the decision is a response")
        }
    }
}
