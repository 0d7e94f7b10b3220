import Foundation
import Processes
import PrimusClient
import PrimusServer
import ProxySupport
import RealtimeCore
import RealtimeSockets
import RealtimeSystem
import RealtimeTesting
import TestSupport
import Testing

@testable import realtime

/// The commands for Primus as processes, with servers in the process of the tests.
@Suite(.usesSockets, .requires(.tool(Tool.path)), .timeLimit(.minutes(10)))
struct PrimusProcessTests {
    /// A server that does what `serve primus` does.
    private struct Server {
        let server: PrimusServer
        let url: String
        private let registrations: [CallbackObservation]

        init(_ configure: (inout PrimusServerConfiguration) -> Void = { _ in }) async throws {
            var configuration = PrimusServerConfiguration()
            configuration.plugins = .all
            (configuration.authorizationTimeout, configuration.engineProbeTimeout) = (.seconds(600), .seconds(600))
            configure(&configuration)
            self.server = PrimusServer(configuration: configuration, log: .none)
            self.registrations = DemoSparks.add(to: self.server)
            // After the end of the server, no other test must listen on its port.
            let listener = SocketListener(port: TestPort.next(), limits: .forTests)
            self.url = "http://127.0.0.1:\(try await self.server.start(on: listener).port)"
        }

        func primus(_ command: String, _ arguments: [String]) async throws -> (status: Int32, output: [String], errors: String) {
            let result = try await Tool.run(["primus", command, self.url] + arguments)
            return (result.status, result.output.split(separator: "\n").map(String.init), result.errors)
        }
    }

    struct Dialect: Sendable, CustomTestStringConvertible {
        var transformer: PrimusTransformerKind = .websockets
        var parser: PrimusParserKind = .json
        var version: PrimusServerConfiguration.Version = .v8
        var options: [String] = []
        var testDescription: String { "\(self.transformer), \(self.parser), \(self.version) \(self.options)" }
        /// The kind of the connection when it opens.
        var transport = "webSockets"
        var stateOpen: String {
            #"{"type":"state","state":"open","transformer":"\#(self.transformer)","parser":"\#(self.parser)","#
                + #""transport":"\#(self.transport)"}"#
        }
    }

    /// Dialects that a client finds out, and one that options name.
    private static let dialects = [
        Dialect(), Dialect(transformer: .engineIO, parser: .msgpack), Dialect(transformer: .sockjs, parser: .ejson, version: .v6),
        Dialect(transformer: .engineIO, parser: .binary, version: .v6),
        Dialect(transformer: .engineIO, parser: .msgpack, options: ["--transformer", "engine.io", "--parser", "msgpack"]),
        Dialect(transformer: .engineIO, parser: .msgpack, options: ["--transport", "polling"], transport: "polling"),
        Dialect(transformer: .sockjs, options: ["--transport", "polling"], transport: "streaming"),
        Dialect(transformer: .engineIO, version: .v6, options: ["--transport", "polling"], transport: "polling"),
    ]

    private func server(_ dialect: Dialect) async throws -> Server {
        try await Server {
            ($0.transformer, $0.parser, $0.version) = (dialect.transformer, dialect.parser, dialect.version)
        }
    }

    private static let opening = #"{"type":"state","state":"opening"}"#
    private static let end = #"{"type":"state","state":"end"}"#

    @Test(arguments: Self.dialects)
    func `a message comes back as it was`(dialect: Dialect) async throws {
        let server = try await self.server(dialect)
        let text = #"{"text":"ü\n","numbers":[9007199254740991,-5,0.1],"none":null}"#
        let echo = try await server.primus("write", [text, "--count", "1"] + dialect.options)
        #expect(echo == (0, [#"{"type":"data","data":\#(text)}"#], ""))
        await server.server.stop()
    }

    @Test(arguments: Self.dialects.filter { $0.parser != .json })
    func `values that JSON lacks are written and printed as EJSON`(dialect: Dialect) async throws {
        let server = try await self.server(dialect)
        let values = EventRecorder<PrimusValue>()
        let registration = server.server.onMessage { if let value = try? $0.value { values.record(value) } }
        let bytes = try await server.primus("write", [#"{"$binary":"AQI="}"#, "--count", "1"] + dialect.options)
        expect(bytes.output == [#"{"type":"data","data":{"$binary":"AQI="}}"#] && bytes.status == 0, "\(bytes.errors)")
        try await eventually { values.all == [.bytes([1, 2])] }
        registration.cancel()
        await server.server.stop()
    }

    @Test func `a message is read from standard input`() async throws {
        let server = try await Server()
        let text = #"'{\n"text": "it is \303\274"\n}\n'"#
        let result = try await Tool.run(shell: "printf \(text) | exec \"$0\" primus write \(server.url) - --count 1")
        #expect(result == (0, #"{"type":"data","data":{"text":"it is ü"}}"# + "\n", ""))
        let sum = try await Tool.run(shell: "echo 22 | exec \"$0\" primus send \(server.url) add 20 - --ack")
        #expect(sum == (0, #"{"type":"ack","arguments":[20,22]}"# + "\n", ""))
        let invalid = try await Tool.run(shell: "printf hello | \"$0\" primus write http://127.0.0.1:1 -")
        expect(invalid.status == 1 && invalid.errors.hasPrefix("realtime: Cannot read standard input: invalid JSON at byte 0"))
        await server.server.stop()
    }

    @Test(arguments: Self.dialects)
    func `an event prints the arguments of its acknowledgement`(dialect: Dialect) async throws {
        let server = try await self.server(dialect)
        let ack = try await server.primus("send", ["add", "20", #"{"n":[22]}"#, "--ack"] + dialect.options)
        #expect(ack == (0, [#"{"type":"ack","arguments":[20,{"n":[22]}]}"#], ""))
        let none = try await server.primus("send", ["ping", "--ack"] + dialect.options)
        #expect(none == (0, [#"{"type":"ack","arguments":[]}"#], ""))
        await server.server.stop()
    }

    @Test(arguments: Self.dialects)
    func `a listener prints messages, events, requests and states in order, and reconnects`(dialect: Dialect) async throws {
        let server = try await self.server(dialect)
        let options = ["--plugins", "all", "--count", "4"] + dialect.options
        let tool = try Tool(["primus", "listen", server.url] + options)
        await expectEqual(tool.nextLine(), Self.opening)
        await expectEqual(tool.nextLine(), dialect.stateOpen)
        try server.server.write(["n": 1])
        let spark = try #require(server.server.sparks.first)
        try spark.send("news", "anna", 2)
        await expectEqual(tool.nextLine(), #"{"type":"data","data":{"n":1}}"#)
        await expectEqual(tool.nextLine(), #"{"type":"event","event":"news","arguments":["anna",2]}"#)
        let request = Task { try await spark.request(["q": 3], as: Int.self) }
        await expectEqual(tool.nextLine(), #"{"type":"request","data":{"q":3}}"#)
        request.cancel()
        server.server.drop(spark.id)
        await expect(tool.nextLine().hasPrefix(#"{"type":"state","state":"reconnecting","detail":"#))
        await expectEqual(tool.nextLine(), dialect.stateOpen)
        try server.server.write("last")
        await expectEqual(tool.nextLine(), #"{"type":"data","data":"last"}"#)
        await expectEqual(tool.nextLine(), Self.end)
        let result = await tool.end()
        expect(result.status == 0 && result.output.isEmpty && result.errors.isEmpty, "\(result)")
        await server.server.stop()
    }

    @Test func `a listener prints the move from polling to a WebSocket`() async throws {
        let server = try await Server { $0.transformer = .engineIO }
        let tool = try Tool(["primus", "listen", server.url, "--transport", "upgrade", "--count", "1"])
        let lines = [Self.opening, Dialect(transformer: .engineIO, transport: "polling").stateOpen]
        for line in lines + [#"{"type":"transport","transport":"webSockets"}"#] { await expectEqual(tool.nextLine(), line) }
        try server.server.write(1)
        await expectEqual(tool.nextLine(), #"{"type":"data","data":1}"#)
        await expectEqual(tool.end().status, 0)
        await server.server.stop()
    }

    @Test(arguments: [["--transformer", "faye", "--parser", "json"], ["--transformer", "uws"], ["--transport", "webSockets"]])
    func `options that suit the server's specification are accepted, and it is requested once`(options: [String]) async throws {
        let server = try await Server()
        let result = try await server.primus("write", ["1", "--count", "1", "--json", "--verbose"] + options)
        let requests = result.output.filter { $0.hasPrefix(#"{"type":"request","method":"GET""#) }
        expect(result.status == 0 && requests.count == 2 && requests[0].contains("/primus/spec"), "\(requests)")
        // The second one becomes the WebSocket.
        expectEqual(requests.last?.contains(#""url":"ws://127.0.0.1"#), true)
        expect(result.output.contains { $0.hasPrefix(#"{"type":"response","status":101"#) }, "\(result.output)")
        expect(result.output.contains(#"{"type":"data","data":1}"#), "\(result.output)")
        await server.server.stop()
    }

    @Test(arguments: ["polling", "upgrade"])
    func `a transport that the server doesn't have is a failure that says what to do`(_ transport: String) async throws {
        let server = try await Server()
        for (command, arguments) in Self.commands.dropLast() {
            let result = try await server.primus(command, arguments + ["--transport", transport])
            expect(result.status == 1 && result.errors.contains(" Omit --transport"), "\(result.errors)")
        }
        server.server.faults.specStatus = 404
        let unknown = try await server.primus("write", ["1", "--transport", "polling"])
        expect(unknown.status == 1 && unknown.errors.contains("Omit --transport, or use engine.io or sockjs"), "\(unknown.errors)")
        await server.server.stop()
        let sockJS = try await Server { ($0.transformer, $0.allowsSockJSWebSockets) = (.sockjs, false) }
        let refused = try await sockJS.primus("write", ["1", "--transport", "webSockets"])
        expectEqual(refused.status, 1, "\(refused.errors)")
        await sockJS.server.stop()
    }

    @Test(arguments: [(PrimusTransformerKind.engineIO, "polling"), (.engineIO, "upgrade"), (.sockjs, "polling")])
    func `verbose shows requests and packets over polling, and nothing that gives access to the session`(
        _ transformer: PrimusTransformerKind, _ transport: String
    ) async throws {
        let server = try await Server {
            $0.transformer = transformer
            $0.authorize = { await ServePrimusCommand.authorization("opensesame")($0) }
        }
        let ids = EventRecorder<String>()
        let registration = server.server.onConnection { ids.record($0.id) }
        let options = ["--transport", transport, "--token", "opensesame", "--token-parameter", "token", "--verbose", "--count", "1"]
        let result = try await server.primus("write", [#"{"text":"hello"}"#] + options)
        expectEqual(result.status, 0, "\(result.errors)")
        let text = result.output.joined(separator: "\n")
        try await eventually { ids.all.count == 1 }
        // The move may be complete before the message is written.
        expect(text.contains(#""method":"POST""#) || transport == "upgrade", "\(text)")
        expect(text.contains("hello") && text.contains("<redacted>"), "\(text)")
        expect(text.contains("sent ") && text.contains("received "), "\(text)")
        expect(!text.contains("opensesame"), "\(text)")
        let session: [String]
        if transformer == .engineIO {
            session = ids.all
            expect(text.contains(#"transport=polling&sid=<redacted>"#) || transport == "upgrade", "\(text)")
        } else {
            session = []
            #expect(text.contains(/\/primus\/\d+\/<redacted>\/xhr_send/) && !text.contains(/\/primus\/\d+\/\w+\//), "\(text)")
        }
        for id in session { expect(!text.contains(id), "\(text)") }
        registration.cancel()
        await server.server.stop()
    }

    @Test(arguments: [
        ["--plugins", "emitter"], ["--plugins", "emit"], ["--plugins", "emitter", "--transport", "polling"],
        ["--plugins", "emitter", "--transport", "upgrade"],
    ])
    func `an event that is only sent arrives before the tool exits`(_ options: [String]) async throws {
        let server = try await Server {
            $0.plugins = options.contains("emit") ? .emit : .emitter
            if options.contains("--transport") { $0.transformer = .engineIO }
        }
        let listener = try Tool(["primus", "listen", server.url] + options)
        for _ in 0..<2 { _ = await listener.nextLine() }
        // Whether a process that doesn't wait loses the event depends on the machine, so several times.
        for number in 0..<scaled(5) {
            let sent = try await server.primus("send", ["chat", "\(number)"] + options)
            #expect(sent == (0, [#"{"type":"sent","event":"chat"}"#], ""))
            var line = await listener.nextLine()
            // A session on a busy machine may stay with polling.
            if line.contains(#""type":"transport""#) { line = await listener.nextLine() }
            expectEqual(line, #"{"type":"event","event":"chat","arguments":[\#(number)]}"#)
        }
        listener.process.signal(SIGTERM)
        let end = await listener.end()
        expect(end.status == 0 && end.output == Self.end + "\n" && end.errors.isEmpty)
        await server.server.stop()
    }

    @Test(arguments: [SIGINT, SIGTERM])
    func `a signal ends a writer that waits for more`(_ signal: Int32) async throws {
        let server = try await Server()
        let tool = try Tool(["primus", "write", server.url, "1"])
        await expectEqual(tool.nextLine(), #"{"type":"data","data":1}"#)
        tool.process.signal(signal)
        let end = await tool.end()
        expect(end.status == 0 && end.output.isEmpty && end.errors.isEmpty)
        try await eventually { server.server.sparks.isEmpty }
        await server.server.stop()
    }

    @Test func `without a plugin, its packets are printed as data`() async throws {
        let server = try await Server()
        let tool = try Tool(["primus", "listen", server.url, "--count", "1"])
        for _ in 0..<2 { _ = await tool.nextLine() }
        try server.server.sparks.first?.send("news", 1)
        await expectEqual(tool.nextLine(), #"{"type":"data","data":{"type":0,"data":["news",1]}}"#)
        await expectEqual(tool.end().status, 0)
        await server.server.stop()
    }

    @Test(arguments: ["listen", "write"])
    func `a client ends when the server ends the connection for good, and says why`(_ command: String) async throws {
        let server = try await Server()
        let tool = try Tool(["primus", command, server.url] + (command == "write" ? ["1"] : []))
        for _ in 0..<(command == "write" ? 1 : 2) { _ = await tool.nextLine() }
        try server.server.sparks.first?.end("bye")
        await expectEqual(tool.nextLine(), #"{"type":"data","data":"bye"}"#)
        let end = await tool.end()
        expect(end.status == 1 && end.errors.hasSuffix(" ended the connection.\n"), "\(end.errors)")
        expectEqual(end.errors.split(separator: "\n").count, 1)
        await server.server.stop()
    }

    @Test func `the loss of the connection is a failure for a command that waits for an answer`() async throws {
        let server = try await Server { $0.plugins = .multiplex }
        // The server knows a spark before the client has read the response that opens the connection: what the client writes shows
        // that it has.
        let received = EventRecorder<String>()
        let registration = server.server.onMessage { received.record($0.spark.id) }
        for arguments in [["write", server.url, "1", "--count", "2"], ["send", server.url, "question", "--ack"]] {
            let tool = try Tool(["primus"] + arguments)
            try await eventually { received.all.count == 1 }
            if arguments[0] == "write" { _ = await tool.nextLine() }
            for id in received.take() { server.server.drop(id) }
            let end = await tool.end()
            expect(end.status == 1 && end.errors.contains("lost"), "\(end.errors)")
            try await eventually { server.server.sparks.isEmpty }
        }
        registration.cancel()
        await server.server.stop()
    }

    private static let commands: [(name: String, arguments: [String])] = [
        ("listen", []), ("write", ["1"]), ("send", ["e"]), ("send", ["e", "--ack"]), ("spec", []),
    ]

    @Test(arguments: Self.commands)
    func `a server that isn't there is a failure that says what to check`(_ command: String, _ arguments: [String]) async throws {
        let server = try await Server()
        let missing = try await Tool.run(["primus", command, server.url + "/nope"] + arguments)
        expect(missing.status == 1 && missing.errors.contains("404"), "\(missing.errors)")
        await server.server.stop()
        let refused = try await server.primus(command, arguments)
        expect(refused.status == 1 && refused.errors.contains("Check that the server is running"), "\(refused.errors)")
        expectEqual(refused.errors.split(separator: "\n").count, 1)
        expectEqual(refused.output.last?.hasPrefix(#"{"type":"error","message":"#), true)
    }

    @Test(arguments: Self.commands.dropLast())
    func `a wrong transformer or parser is a failure that names the right one`(_ command: String, _ arguments: [String]) async throws {
        let server = try await Server()
        for (option, wrong, right) in [("transformer", "engine.io", "websockets"), ("parser", "msgpack", "json")] {
            let result = try await server.primus(command, arguments + ["--\(option)", wrong])
            expectEqual(result.status, 1)
            expectEqual(
                result.errors, "realtime: The server \(server.url)/ has the \(option) \(right), not \(wrong). Omit --\(option).\n")
        }
        let same = try await server.primus("write", ["1", "--count", "1", "--transformer", "faye"])
        expectEqual(same.status, 0, "\(same.errors)")
        await server.server.stop()
    }

    @Test func `a server without a specification is used as the options say`() async throws {
        let server = try await self.server(Dialect(transformer: .engineIO, parser: .msgpack))
        server.server.faults.specStatus = 404
        let options = ["--transformer", "engine.io", "--parser", "msgpack"]
        let echo = try await server.primus("write", ["[1]", "--count", "1"] + options)
        #expect(echo == (0, [#"{"type":"data","data":[1]}"#], ""))
        // A WebSocket of engine.io needs parameters.
        let wrong = try await server.primus("write", ["[1]", "--count", "1", "--transformer", "websockets"])
        expect(wrong.status == 1 && wrong.errors.contains("Check --transformer."), "\(wrong.errors)")
        let spec = try await server.primus("spec", [])
        expect(spec.status == 1 && spec.errors.contains("404") && spec.errors.contains("Check that the URL is that of a server of Primus"))
        await server.server.stop()
    }

    @Test func `a first message that the parser can't read is a failure, also without a specification`() async throws {
        let server = try await Server()
        server.server.faults.specStatus = 404
        let greeting = server.server.onConnection { spark in _ = try? spark.write("hello") }
        for arguments in [["--count", "1"], []] {
            let result = try await server.primus("listen", arguments + ["--transformer", "websockets", "--parser", "msgpack"])
            expect(result.status == 1 && result.errors.contains("Check --parser."), "\(result.errors)")
        }
        greeting.cancel()
        await server.server.stop()
    }

    @Test func `a message is written, whatever the server sends before`() async throws {
        let server = try await Server()
        let written = EventRecorder<PrimusValue>()
        let registrations = [
            server.server.onConnection(on: CallbackExecutor { $0() }) { spark in _ = try? spark.write("hello") },
            server.server.onMessage { message in if let value = try? message.value { written.record(value) } },
        ]
        for number in 0..<scaled(10) {
            let result = try await server.primus("write", ["\(number)", "--count", "1"])
            expect(result.status == 0 && result.output.first == #"{"type":"data","data":"hello"}"#, "\(result)")
            try await eventually { written.all.last == .int(Int64(number)) }
        }
        for registration in registrations { registration.cancel() }
        await server.server.stop()
    }

    /// A server without a specification that accepts WebSockets and says nothing.
    private final class Silent: AcceptingHandler, MessageEvents {
        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
            responder.respond(HTTPResponse(status: 404))
        }

        func decision(about request: HTTPRequestHead) -> UpgradeDecision { .accept(subprotocol: nil) }

        func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents { self }

        func opened(_ id: ConnectionID, head: HTTPResponseHead) {}
        func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {}
        func closed(_ id: ConnectionID, _ reason: CloseReason) {}
    }

    @Test(arguments: [["listen"], ["write", "1"]])
    func `without a specification and a message, a failure says what was assumed`(_ command: [String]) async throws {
        let listener = SocketListener(limits: .forTests)
        let port = try await listener.start(Silent()).port
        for options in [[], ["--transformer", "websockets"]] {
            var errors = ""
            // A machine that is busy may need longer to connect.
            for timeout in ["1", "10", "60"] where !errors.contains("Received 0 of 1") {
                let arguments = command.dropFirst() + ["--count", "1", "--timeout", timeout] + options
                errors = try await Tool.run(["primus", command[0], "http://127.0.0.1:\(port)"] + arguments).errors
            }
            let assumption =
                "the status 404 Not Found. The client assumes websockets and json. Check that the URL is that of a server of Primus, with its path, or"
            expect(errors.contains("Received 0 of 1") && errors.contains(assumption) == options.isEmpty, "\(errors)")
        }
        await listener.stop()
    }

    @Test(arguments: Self.commands.dropLast())
    func `a parser of the server's own is a failure that says so`(_ command: String, _ arguments: [String]) async throws {
        let server = try await Server { $0.customParser = OwnParser() }
        let result = try await server.primus(command, arguments)
        expect(result.status == 1 && result.errors.contains("The parser custom isn't built in."), "\(result.errors)")
        expect(result.errors.hasSuffix(" The tool has no other parsers.\n"), "\(result.errors)")
        await server.server.stop()
    }

    @Test(arguments: [
        Dialect(), Dialect(transformer: .engineIO, parser: .binary, version: .v6), Dialect(transformer: .sockjs),
    ])
    func `a specification is printed`(dialect: Dialect) async throws {
        let server = try await self.server(dialect)
        let heartbeat = dialect.version == .v8 ? #""pingInterval":30000"# : #""timeout":35000"#
        let version = dialect.version == .v8 ? "8.0.9" : "6.1.0"
        let expected =
            #"{"type":"spec","version":"\#(version)","pathname":"/primus","transformer":"\#(dialect.transformer)","#
            + #""parser":"\#(dialect.parser)",\#(heartbeat)}"#
        #expect(try await server.primus("spec", []) == (0, [expected], ""))
        let text = try await Tool.runAtTerminal(["primus", "spec", server.url])
        expect(text.output.hasPrefix("Primus \(version) at /primus: transformer \(dialect.transformer), parser \(dialect.parser), "))
        await server.server.stop()
    }

    @Test func `a specification that isn't one is a failure`() async throws {
        let listener = SocketListener(limits: .forTests)
        let port = try await listener.start(PageHandler()).port
        let result = try await Tool.run(["primus", "spec", "http://127.0.0.1:\(port)"])
        expect(result.status == 1 && result.errors.contains("it isn't JSON") && result.errors.contains("Check that the URL"))
        await listener.stop()
    }

    @Test func `a terminal shows text`() async throws {
        let server = try await Server()
        let echo = try await Tool.runAtTerminal(["primus", "write", server.url, #"{"a":"ü"}"#, "--count", "1"])
        #expect(echo == (0, #"{"a":"ü"}"# + "\n"))
        let ack = try await Tool.runAtTerminal(["primus", "send", server.url, "add", "1", "2", "--ack"])
        #expect(ack == (0, "acknowledged 1 2\n"))
        let json = try await Tool.runAtTerminal(["primus", "send", server.url, "add", "1", "2", "--ack", "--json"])
        #expect(json == (0, #"{"type":"ack","arguments":[1,2]}"# + "\n"))
        await server.server.stop()
    }

    @Test func `a time limit is a failure that names the server, or what is missing`() async throws {
        let server = try await Server { $0.plugins = .responder }
        let none = try await server.primus("listen", ["--count", "1", "--timeout", "0.5"])
        expect(none.status == 1 && none.errors.contains("\(server.url)/primus within 0.5 s."), "\(none.errors)")
        expectEqual(none.output.dropLast().last, Self.end)
        let one = try await server.primus("write", ["1", "--count", "2", "--timeout", "0.5"])
        // If connecting was slow, not even the first one has arrived.
        #expect(one.errors.contains(/(?:Received [01] of 2 messages from|Cannot connect to) .* within 0.5 s\./), "\(one.errors)")
        let ack = try await server.primus("send", ["e", "--ack", "--timeout", "0.5"])
        expectEqual(ack.status, 1)
        #expect(ack.errors.contains(/(?:did not acknowledge e|Cannot connect to .*) within 0.5 s\./), "\(ack.errors)")
        await server.server.stop()
        let silent = try await self.server(Dialect(transformer: .engineIO))
        silent.server.faults.isSilent = true
        for (command, arguments) in Self.commands.dropLast() {
            let result = try await silent.primus(command, arguments + ["--timeout", "0.5"])
            expect(result.status == 1 && result.errors.contains("within 0.5 s."), "\(command): \(result.errors)")
        }
        await silent.server.stop()
    }

    @Test func `a limit that passes before the client is opened ends a listener`() async throws {
        let server = try await Server()
        // Whether the client is opened before the limit depends on the machine, so several times.
        for _ in 0..<scaled(10) {
            let result = try await server.primus("listen", ["--count", "1", "--timeout", "0.001"])
            expect(result.status == 1 && result.errors.split(separator: "\n").count == 1, "\(result.errors)")
            let summary = /(?:Received 0 of 1 messages from|Cannot connect to) .* within .* s\./
            expect(result.errors.contains(summary), "\(result.errors)")
            expect(result.output.last?.hasPrefix(#"{"type":"error","message":"#) == true && result.output.dropLast().last == Self.end)
        }
        await server.server.stop()
    }

    @Test func `the token and the header fields are sent and not printed`() async throws {
        let tenants = Lock<[String?]>([])
        let server = try await Server {
            $0.authorize = { request in
                tenants.withLock { $0.append(request.headers["X-Tenant"]) }
                return await ServePrimusCommand.authorization("opensesame")(request)
            }
        }
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("token-\(UUID().uuidString)").path
        try Data("opensesame\n".utf8).write(to: URL(fileURLWithPath: file))
        defer { try? FileManager.default.removeItem(atPath: file) }
        let write = "primus write \(server.url) 1 --count 1 --header 'X-Tenant: SECRETTENANT' --verbose"
        let user = write.replacingOccurrences(of: "//127", with: "//user:opensesame@127")
        for shell in [
            "exec \"$0\" \(write) --token opensesame", "exec \"$0\" \(write) --token-file \(file)",
            "exec \"$0\" \(write) --token opensesame --token-parameter token", "exec \"$0\" \(user)",
            "REALTIME_PRIMUS_TOKEN=opensesame exec \"$0\" \(write)",
        ] {
            let result = try await Tool.run(shell: shell)
            expectEqual(result.status, 0, "\(result.errors)")
            let lines = result.output.split(separator: "\n")
            expect(lines.contains(#"{"type":"data","data":1}"#))
            expect(lines.contains { $0.contains(#""type":"request""#) } && lines.contains { $0.contains(#""type":"response""#) })
            expect(lines.contains { $0.contains("sent 1") } && lines.contains { $0.contains("received 1") })
            expect(lines.contains { $0.contains(#""state":"open""#) } && lines.contains { $0 == Self.end })
            for secret in ["opensesame", "SECRETTENANT", "Basic "] { expect(!result.output.contains(secret), "\(result.output)") }
        }
        expectEqual(tenants.withLock { $0 }, Array(repeating: "SECRETTENANT", count: 5))
        for (command, arguments) in Self.commands.dropLast() {
            let without = try await server.primus(command, arguments)
            expect(
                without.status == 1 && without.errors.contains("401") && without.errors.contains("The access token is missing or wrong."))
            expect(without.errors.hasSuffix(" Specify the access token with --token.\n"), "\(without.errors)")
            let wrong = try await server.primus(command, arguments + ["--token", "opensesame2"])
            expect(wrong.status == 1 && wrong.errors.hasSuffix(" Check the access token of --token.\n"), "\(wrong.errors)")
        }
        let environment = try await Tool.run(shell: "REALTIME_PRIMUS_TOKEN=opensesame2 exec \"$0\" primus listen \(server.url)")
        expect(environment.status == 1 && environment.errors.hasSuffix(" Check the access token of REALTIME_PRIMUS_TOKEN.\n"))
        await server.server.stop()
    }

    @Test func `commands connect through a proxy, without its password in the output`() async throws {
        let server = try await Server()
        let port = try #require(Endpoint(server.url).port as Int?)
        // Only a proxy leads from this name to the server.
        let host = "http://server.invalid:\(port)"
        for kind in TestProxy.Kind.allCases {
            let proxy = try TestProxy(kind, credentials: .init(username: "anna", password: "hunter2"))
            let written = try await Tool.run(["primus", "write", host, "1", "--count", "1", "--proxy", proxy.url, "--verbose"])
            expect(written.status == 0 && !(written.output + written.errors).contains("hunter2"), "\(written.errors)")
            try await expectEqual(Tool.run(["primus", "spec", host, "--proxy", proxy.url]).status, 0)
            expectEqual(proxy.targets.count, 3)
            await proxy.stop()
        }
        await server.server.stop()
    }

    // MARK: Server

    private func ready(_ tool: Tool) async throws -> String {
        let ready = try #require(try JSONSerialization.jsonObject(with: Data(await tool.nextLine().utf8)) as? [String: Any])
        expect(ready["ready"] as? Bool == true && Set(ready.keys) == ["ready", "url", "port"])
        return try #require(ready["url"] as? String)
    }

    @Test func `a server sends messages and events to all clients, and answers what they wait for`() async throws {
        let tool = try Tool(["serve", "primus", "--plugins", "all"])
        var configuration = try PrimusConfiguration(url: try await self.ready(tool))
        configuration.plugins = [.emitter, .multiplex, .substream, .responder]
        configuration.log = .none
        let clients = [PrimusConnection(configuration), PrimusConnection(configuration)]
        for client in clients { client.open() }
        for client in clients { try await client.opened(within: .seconds(300)) }
        let messages = clients.map { $0.messages.makeAsyncIterator() }
        let events = clients.map { $0.emitter.on("chat").makeAsyncIterator() }
        try await clients[0].write(["text": "hello"])
        try await clients[1].emitter.send("chat", "anna")
        for message in messages { try await expectEqual(message.next()?.decode(as: [String: String].self), ["text": "hello"]) }
        for event in events {
            let name = try await event.next()?.decode(String.self)
            expectEqual(name, "anna")
        }
        let sum: Int = try await clients[0].emitter.send("first", 20, 22)
        let reply: [Int] = try await clients[0].request([1, 2])
        expect(sum == 20 && reply == [1, 2])
        let (channel, stream) = (clients[0].channel("echo"), clients[0].substream("echo"))
        let (fromChannel, fromStream) = (channel.messages.makeAsyncIterator(), stream.messages.makeAsyncIterator())
        try await channel.write(1)
        try await stream.write(2)
        try await expectEqual(fromChannel.next()?.decode(as: Int.self), 1)
        try await expectEqual(fromStream.next()?.decode(as: Int.self), 2)
        for client in clients { client.end() }
        tool.process.signal(SIGTERM)
        await expectEqual(tool.end().status, 0)
    }

    @Test(arguments: [SIGINT, SIGTERM])
    func `a server prints what clients do, and with verbose every message`(_ signal: Int32) async throws {
        let options = ["--transformer", "engine.io", "--version", "6", "--plugins", "emitter", "--verbose"]
        let tool = try Tool(["serve", "primus"] + options)
        let url = try await self.ready(tool)
        try await expectEqual(Tool.run(["primus", "write", url, #"{"n":1}"#, "--count", "1"]).status, 0)
        try await expectEqual(Tool.run(["primus", "send", url, "e", "--ack"]).status, 0)
        tool.process.signal(signal)
        let end = await tool.end()
        expect(end.status == 0 && end.errors.isEmpty)
        let lines = try end.output.split(separator: "\n").map {
            try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any] ?? [:]
        }
        // The second client may connect before the server has noticed the end of the first one.
        let sparks = Dictionary(grouping: lines.filter { $0["spark_id"] != nil }) { $0["spark_id"] as? String }
        expectEqual(sparks.count, 2)
        for lines in sparks.values { expectEqual(lines.compactMap { $0["type"] as? String }, ["connected", "received", "disconnected"]) }
        let frames = lines.filter { $0["type"] as? String == "frame" }.map { "\($0["from"] ?? ""): \($0["data"] ?? "")" }
        expect(frames.contains(#"client: 4{"n":1}"#) && frames.contains(#"server: 4{"n":1}"#), "\(frames)")
    }

    @Test(arguments: ["engine.io", "sockjs"])
    func `a server with verbose prints the packets of sessions over HTTP`(_ transformer: String) async throws {
        let tool = try Tool(["serve", "primus", "--transformer", transformer, "--verbose"])
        let url = try await self.ready(tool)
        try await expectEqual(Tool.run(["primus", "write", url, #"{"n":1}"#, "--count", "1", "--transport", "polling"]).status, 0)
        tool.process.signal(SIGTERM)
        let end = await tool.end()
        let lines = end.output.split(separator: "\n")
        for sender in ["client", "server"] {
            expect(lines.contains { $0.contains(#""from":"\#(sender)""#) && $0.contains(#"n\"#) && $0.contains(":1}") }, "\(end.output)")
        }
    }

    @Test(arguments: ["websockets", "engine.io", "sockjs"])
    func `a server with verbose prints neither its token nor what gives access to a session`(_ transformer: String) async throws {
        let tool = try Tool(["serve", "primus", "--transformer", transformer, "--token", "opensesame", "--verbose"])
        let url = try await self.ready(tool)
        let ways = [["--token", "opensesame"], ["--token", "opensesame", "--token-parameter", "token"]]
        for options in transformer == "websockets" ? ways : ways + ways.map({ $0 + ["--transport", "polling"] }) {
            try await expectEqual(Tool.run(["primus", "write", url, "1", "--count", "1"] + options).status, 0)
        }
        tool.process.signal(SIGTERM)
        let end = await tool.end()
        let lines = try end.output.split(separator: "\n").map {
            try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any] ?? [:]
        }
        let frames = lines.filter { $0["type"] as? String == "frame" }.map { "\($0)" }
        expect(!frames.isEmpty && !end.output.contains("opensesame"), "\(end.output)")
        // The ID of a spark is the ID of the session with engine.io.
        for id in lines.compactMap({ $0["spark_id"] as? String }) { expect(!frames.contains { $0.contains(id) }, "\(frames)") }
    }

    @Test(arguments: ["websockets", "engine.io", "sockjs"], ["websocket", "polling"])
    func `a client finds a new server on the port of one that was killed`(_ transformer: String, _ transport: String) async throws {
        if transformer == "websockets", transport == "polling" { return }
        let arguments = ["serve", "primus", "--transformer", transformer, "--port", "\(TestPort.next())"]
        var tool = try Tool(arguments)
        var configuration = try PrimusConfiguration(url: try await self.ready(tool))
        configuration.allowedTransports = transport == "polling" ? .polling : .webSockets
        configuration.retry = .custom { _ in .milliseconds(20) }
        configuration.log = .none
        let client = PrimusConnection(configuration)
        client.open()
        try await client.opened(within: .seconds(300))
        let (messages, states) = (client.messages.makeAsyncIterator(), client.states.makeAsyncIterator())
        await expectEqual(states.next(), .open)
        try await client.write(1)
        try await expectEqual(messages.next()?.decode(as: Int.self), 1)
        for number in 2...3 {
            tool.process.signal(SIGKILL)
            await expectEqual(tool.waitForEnd(), -SIGKILL)
            tool = try Tool(arguments)
            _ = try await self.ready(tool)
            // A message that was written before the client noticed the end would be lost.
            while let state = await states.next(), state != .open {}
            try await client.write(number)
            try await expectEqual(messages.next()?.decode(as: Int.self), number)
        }
        client.end()
        tool.process.signal(SIGTERM)
        await expectEqual(tool.waitForEnd(), 0)
    }

    @Test(arguments: [([], 403), (["--allow-foreign-origins"], 200)] as [([String], Int)])
    func `a local server refuses the web pages of other hosts, unless they are allowed`(_ options: [String], _ status: Int) async throws {
        let tool = try Tool(["serve", "primus"] + options)
        let url = try await self.ready(tool)
        for headers: HTTPHeaders in [["Origin": "https://example.org"], ["Origin": "null"]] {
            let request = HTTPRequest("GET", try Endpoint(url + "/spec"), headers: headers, body: [])
            try await expectEqual(SocketHTTPTransport().send(request, bodyLimit: 1 << 10).head.status, status)
        }
        let local = HTTPRequest("GET", try Endpoint(url + "/spec"), headers: ["Origin": "http://localhost:3000"], body: [])
        try await expectEqual(SocketHTTPTransport().send(local, bodyLimit: 1 << 10).head.status, 200)
        tool.process.signal(SIGTERM)
        await expectEqual(tool.end().status, 0)
    }

    @Test func `a server with a token rejects clients without it, and prints no token`() async throws {
        let tool = try Tool(["serve", "primus", "--token", "opensesame"])
        let url = try await self.ready(tool)
        try await expectEqual(Tool.run(["primus", "spec", url]).status, 0)
        try await expectEqual(Tool.run(["primus", "write", url, "1", "--count", "1"]).status, 1)
        for options in [["--token", "opensesame"], ["--token", "opensesame", "--token-parameter", "token"]] {
            try await expectEqual(Tool.run(["primus", "write", url, "1", "--count", "1"] + options).status, 0)
        }
        // A request states one token.
        let authorization = ServePrimusCommand.authorization("opensesame")
        for (query, isAccepted) in [("token=opensesame", true), ("token=a&token=opensesame", false), ("token=opensesame&token=a", false)] {
            let decision = await authorization(HTTPRequestHead(method: "GET", target: "/primus?\(query)"))
            expectEqual({ if case .accept = decision { true } else { false } }(), isAccepted, "\(query)")
        }
        tool.process.signal(SIGTERM)
        let end = await tool.end()
        expect(end.status == 0 && end.output.hasPrefix(#"{"type":"rejected","status":401}"#) && !end.output.contains("opensesame"))
    }

    @Test(.requires(.openSSL)) func `a server with a certificate serves clients that trust it`() async throws {
        func file(_ name: String) -> String { Vectors.path("certificates/\(name)") }
        let tool = try Tool(["serve", "primus", "--tls", file("server.pem"), file("server-key.pem")])
        let url = try await self.ready(tool)
        expect(url.hasPrefix("https://127.0.0.1:"))
        let echo = try await Tool.run(["primus", "write", url, "1", "--count", "1", "--ca", file("root.pem")])
        expectEqual(echo.status, 0, "\(echo.errors)")
        for command in [["write", url, "1", "--count", "1"], ["spec", url]] {
            let untrusted = try await Tool.run(["primus"] + command)
            expect(untrusted.status == 1 && untrusted.errors.contains("root certificate to the file of --ca"), "\(untrusted.errors)")
        }
        tool.process.signal(SIGTERM)
        await expectEqual(tool.end().status, 0)
    }
}

private struct OwnParser: PrimusParser {
    let name = "own"
    func encode(_ value: PrimusValue) throws -> TransportMessage { .text(value.string ?? "") }
    func decode(_ packet: TransportMessage) throws -> PrimusValue { .string(String(decoding: packet.bytes, as: UTF8.self)) }
}

/// Answers every request with a web page.
private final class PageHandler: ListenerHandler {
    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        responder.respond(HTTPResponse(status: 200, headers: ["Content-Type": "text/html"], text: "<html></html>"))
    }
}
