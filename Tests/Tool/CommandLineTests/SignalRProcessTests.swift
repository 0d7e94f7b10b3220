import Foundation
import Processes
import RealtimeCore
import RealtimeSockets
import RealtimeSystem
import SignalRHubs
import SignalRServer
import SignalRWire
import TestSupport
import Testing

@testable import realtime

/// The commands for SignalR as processes, with servers in the process of the tests.
@Suite(.usesSockets, .requires(.tool(Tool.path)), .timeLimit(.minutes(10)))
struct SignalRProcessTests {
    /// A server with the hubs of `serve signalr`.
    private struct Server {
        let server: SignalRServer
        let url: String

        init(_ hooks: SignalRServerHooks = SignalRServerHooks(), transports: HubTransportKinds = .all) async throws {
            // Other tests use the processor.
            var configuration = SignalRServerConfiguration()
            configuration.transports = transports
            configuration.allowsStatefulReconnects = true
            configuration.authenticationTimeout = .seconds(600)
            configuration.connectTimeout = .seconds(600)
            configuration.handshakeTimeout = .seconds(600)
            configuration.clientResultTimeout = .seconds(600)
            self.server = SignalRServer(configuration: configuration, hooks: hooks, log: .none)
            DemoHubs.add(to: self.server)
            // After the end of the server, no other test must listen on its port.
            let listener = SocketListener(port: TestPort.next(), limits: .forTests)
            self.url = "http://127.0.0.1:\(try await self.server.start(on: listener).port)"
        }

        func signalR(
            _ command: String, _ hub: String, _ arguments: [String]
        ) async throws -> (
            status: Int32, output: [String], errors: String
        ) {
            let result = try await Tool.run(["signalr", command, self.url + hub] + arguments)
            return (result.status, result.output.split(separator: "\n").map(String.init), result.errors)
        }
    }

    private static let formats = [[], ["--protocol", "messagePack"]]

    @Test(arguments: Self.formats)
    func `a call prints its result with all digits`(_ options: [String]) async throws {
        let server = try await Server()
        let sum = try await server.signalR("invoke", "/echo", ["Add", "20", "22"] + options)
        #expect(sum == (0, [#"{"type":"result","value":42}"#], ""))
        let value = #"{"text":"ü\n","numbers":[9223372036854775807,18446744073709551615,-5,0.1],"none":null}"#
        let echo = try await server.signalR("invoke", "/echo", ["Echo", value] + options)
        #expect(echo == (0, [#"{"type":"result","value":\#(value)}"#], ""))
        let none = try await server.signalR("invoke", "/chat", ["Send", #""anna""#, #""hello""#] + options)
        #expect(none == (0, [#"{"type":"result","value":null}"#], ""))
        await server.server.stop()
    }

    @Test func `a value of MessagePack with millions of elements is refused, because showing it would need too much memory`() async throws {
        let server = try await Server()
        server.server.hub("/echo").on("Nils") { (_, count: Int) in [Int?](repeating: nil, count: count) }
        let small = try await server.signalR("invoke", "/echo", ["Nils", "3", "--protocol", "messagePack"])
        #expect(small == (0, [#"{"type":"result","value":[null,null,null]}"#], ""))
        // Each is one byte.
        let large = try await server.signalR("invoke", "/echo", ["Nils", "2200000", "--protocol", "messagePack"])
        expect(large.status == 1 && large.errors.contains("2097152 bytes"), "\(large.errors.prefix(1_000))")
        await server.server.stop()
    }

    @Test(arguments: Self.formats)
    func `an argument is read from standard input`(_ options: [String]) async throws {
        let server = try await Server()
        let tool = "exec \"$0\" signalr"
        let options = options.joined(separator: " ")
        let text = #"'{\n"text": "it is \303\274"\n}\n'"#
        let echo = try await Tool.run(shell: "printf \(text) | \(tool) invoke \(server.url)/echo Echo - \(options)")
        #expect(echo == (0, #"{"type":"result","value":{"text":"it is ü"}}"# + "\n", ""))
        let sum = try await Tool.run(shell: "echo 22 | \(tool) invoke \(server.url)/echo Add 20 - \(options)")
        expectEqual(sum.output, #"{"type":"result","value":42}"# + "\n")
        let items = try await Tool.run(shell: "echo 2 | \(tool) stream \(server.url)/echo Count - \(options)")
        expectEqual(items.output, #"{"type":"item","value":1}"# + "\n" + #"{"type":"item","value":2}"# + "\n")
        let sent = try await Tool.run(shell: #"echo '"hello"' | \#(tool) send \#(server.url)/chat Send '"anna"' - \#(options)"#)
        #expect(sent == (0, #"{"type":"sent","target":"Send"}"# + "\n", ""))
        await server.server.stop()
    }

    @Test(
        arguments: [
            ("hello", "Cannot read standard input: invalid JSON at byte 0: unexpected character. It must be JSON, in which a string has "),
            ("", "Cannot read standard input: invalid JSON at byte 0: unexpected end of the text. It must be JSON"),
        ])
    func `standard input that is not JSON is a failure before connecting`(_ text: String, _ message: String) async throws {
        let result = try await Tool.run(shell: "printf '\(text)' | \"$0\" signalr invoke http://127.0.0.1:1/echo Echo -")
        expect(result.status == 1 && result.errors.hasPrefix("realtime: \(message)"), "\(result.errors)")
    }

    @Test func `a number that MessagePack would round is rejected in standard input, too`() async throws {
        let command = "\"$0\" signalr invoke http://127.0.0.1:1/echo Echo - --protocol messagePack"
        let result = try await Tool.run(shell: "echo 1.2345678901234567890123 | \(command)")
        expect(result.status == 1 && result.errors.contains("MessagePack has no number with so many digits."), "\(result.errors)")
    }

    @Test func `a decimal keeps its digits`() async throws {
        let server = try await Server()
        let result = try await server.signalR("invoke", "/echo", ["Echo", "1234567890.123456789012345678"])
        expectEqual(result.output, [#"{"type":"result","value":1234567890.123456789012345678}"#])
        await server.server.stop()
    }

    @Test(arguments: Self.formats)
    func `an error of the hub is a failure with its text on standard error`(_ options: [String]) async throws {
        let server = try await Server()
        for (command, hub, arguments, text) in [
            ("invoke", "/echo", ["Fail", #""no such order""#], "no such order"), ("invoke", "/echo", ["Nope"], "Nope"),
            ("stream", "/clock", ["Ticks", "0"], "The interval must be"), ("invoke", "/clock", ["Ticks", "1"], "streaming"),
        ] {
            let result = try await server.signalR(command, hub, arguments + options)
            expectEqual(result.status, 1)
            expect(result.errors.hasPrefix("realtime: ") && result.errors.contains(text), "\(result.errors)")
            expectEqual(result.errors.split(separator: "\n").count, 1)
            expect(result.output.count == 1 && result.output[0].hasPrefix(#"{"type":"error","message":"#))
        }
        await server.server.stop()
    }

    @Test func `a connection that fails is a failure`() async throws {
        let server = try await Server()
        for command in ["invoke", "send", "stream", "listen"] {
            let missing = try await server.signalR(command, "/nope", ["M"])
            expect(missing.status == 1 && missing.errors.contains("404"), "\(command): \(missing.errors)")
        }
        server.server.faults.negotiationError = "closed for today"
        for command in ["invoke", "send", "stream", "listen"] {
            let rejected = try await server.signalR(command, "/echo", ["M"])
            expect(rejected.status == 1 && rejected.errors.contains("closed for today"), "\(command): \(rejected.errors)")
        }
        await server.server.stop()
        for command in ["invoke", "send", "stream", "listen"] {
            let refused = try await server.signalR(command, "/echo", ["M"])
            expect(refused.status == 1 && refused.errors.contains("refused"), "\(command): \(refused.errors)")
            expectEqual(refused.errors.split(separator: "\n").count, 1)
        }
    }

    /// Each transport, in the spelling of its line, with the options that select it, and each format that it has.
    private static let transports: [(name: String, options: [String])] = [
        ("WebSockets", ["--transport", "webSockets"]), ("ServerSentEvents", ["--transport", "serverSentEvents"]),
        ("LongPolling", ["--transport", "longPolling"]), ("LongPolling", ["--transport", "longPolling", "--protocol", "messagePack"]),
    ]

    @Test(arguments: Self.formats + Self.transports.map(\.options))
    func `a call that is only sent arrives before the tool exits, and the connection ends`(_ options: [String]) async throws {
        let server = try await Server()
        let events = server.server.events
        // Whether a process that doesn't wait loses the call depends on the machine, so several times.
        for _ in 0..<scaled(5) {
            let result = try await server.signalR("send", "/chat", ["Send", #""anna""#, #""hello""#] + options)
            #expect(result == (0, [#"{"type":"sent","target":"Send"}"#], ""))
            // The connection may end while the method runs.
            var remaining = 2
            for await event in events {
                switch event {
                case .completed(_, "Send", nil), .disconnected: remaining -= 1
                default: break
                }
                if remaining == 0 { break }
            }
            expectEqual(remaining, 0)
        }
        await server.server.stop()
    }

    @Test(arguments: Self.transports)
    func `each transport calls, streams and listens`(_ name: String, _ options: [String]) async throws {
        let server = try await Server()
        let sum = try await server.signalR("invoke", "/echo", ["Add", "20", "22"] + options)
        #expect(sum == (0, [#"{"type":"result","value":42}"#], ""))
        let failed = try await server.signalR("invoke", "/echo", ["Fail", #""no such order""#] + options)
        expect(failed.status == 1 && failed.errors.contains("no such order"), "\(failed.errors)")
        let stream = try await server.signalR("stream", "/echo", ["Count", "3"] + options)
        #expect(stream == (0, (1...3).map { #"{"type":"item","value":\#($0)}"# }, ""))
        let ticks = try await server.signalR("stream", "/clock", ["Ticks", "0.01", "--count", "2"] + options)
        expect(ticks.status == 0 && ticks.output.count == 2 && ticks.errors.isEmpty)

        let chat = server.server.hub("/chat")
        let tool = try Tool(["signalr", "listen", server.url + "/chat", "Receive", "--count", "2"] + options)
        await expectEqual(tool.nextLine(), #"{"type":"state","state":"connecting"}"#)
        let connected = #"{"type":"state","state":"connected","transport":"\#(name)","connection_id":"#
        await expect(tool.nextLine().hasPrefix(connected))
        try await chat.clients.all.send("Receive", "anna", 1)
        await expectEqual(tool.nextLine(), #"{"type":"invocation","target":"Receive","arguments":["anna",1]}"#)
        for id in chat.connectionIDs { server.server.drop(id) }
        await expect(tool.nextLine().hasPrefix(#"{"type":"state","state":"reconnecting","detail":"#))
        await expect(tool.nextLine().hasPrefix(connected))
        try await chat.clients.all.send("Receive", "bert", 2)
        await expectEqual(tool.nextLine(), #"{"type":"invocation","target":"Receive","arguments":["bert",2]}"#)
        await expectEqual(tool.nextLine(), #"{"type":"state","state":"disconnected"}"#)
        await expectEqual(tool.end().status, 0)
        await server.server.stop()
    }

    @Test(arguments: ["serverSentEvents", "longPolling"])
    func `verbose output shows each request of a connection without tokens`(_ transport: String) async throws {
        var hooks = SignalRServerHooks()
        hooks.authenticate = { $0.token == "opensesame" ? .accept(userID: "anna") : .reject(status: 401) }
        let server = try await Server(hooks)
        let options = ["--transport", transport, "--token", "opensesame", "--verbose"]
        let result = try await Tool.run(["signalr", "invoke", server.url + "/echo?tenant=SECRETINQUERY", "Add", "1", "2"] + options)
        expectEqual(result.status, 0)
        expect(!result.output.contains("opensesame") && !result.output.contains("SECRETINQUERY"))
        expect(!result.output.contains(/[?&]id=(?!<redacted>)/))
        let requests = result.output.split(separator: "\n").filter { $0.contains(#""type":"request""#) }
        func count(_ method: String) -> Int { requests.count { $0.contains(#""method":"\#(method)""#) && $0.contains("id=<redacted>") } }
        // The handshake, the call, and the polls that end with them. The closing request follows the messages.
        expect(count("POST") >= 2 && count("GET") >= (transport == "longPolling" ? 3 : 1))
        expect(count("DELETE") <= (transport == "longPolling" ? 1 : 0))
        expect(requests.contains { $0.contains(#"\"target\":\"Add\""#) })
        await server.server.stop()
    }

    @Test(arguments: ["webSockets", "longPolling"])
    func `verbose output does not show the ID of a connection that is its token`(_ transport: String) async throws {
        let server = try await Server()
        let events = server.server.events
        let result = try await Tool.run([
            "signalr", "invoke", server.url + "/echo?negotiateVersion=0", "Add", "1", "2", "--transport", transport, "--verbose",
        ])
        expect(result.status == 0 && result.output.contains(#""state":"connected""#) && result.output.contains(#""type":"response""#))
        guard case .negotiated(_, let id)? = await events.first(where: { _ in true }) else {
            Issue.record("the tool doesn't negotiate")
            return
        }
        expect(!result.output.contains(id), "\(result.output)")
        await server.server.stop()
    }

    @Test func `a transport that the server does not offer is a failure that lists both`() async throws {
        let server = try await Server(transports: .longPolling)
        let other = try await server.signalR("invoke", "/echo", ["Add", "1", "2", "--transport", "webSockets,serverSentEvents"])
        expectEqual(other.status, 1, "\(other.errors)")
        for name in ["WebSockets", "ServerSentEvents", "LongPolling"] { expect(other.errors.contains(name), "\(other.errors)") }
        await server.server.stop()
    }

    @Test(arguments: Self.formats)
    func `a stream prints its items until its end`(_ options: [String]) async throws {
        let server = try await Server()
        let result = try await server.signalR("stream", "/echo", ["Count", "3"] + options)
        #expect(result == (0, (1...3).map { #"{"type":"item","value":\#($0)}"# }, ""))
        await server.server.stop()
    }

    @Test(arguments: [["--count", "2"], []])
    func `a stream is cancelled at the server by a count and by a signal`(_ options: [String]) async throws {
        let server = try await Server()
        let events = server.server.events
        let tool = try Tool(["signalr", "stream", server.url + "/clock", "Ticks", "0.01"] + options)
        for _ in 0..<2 { await expect(tool.nextLine().hasPrefix(#"{"type":"item","value":"2"#)) }
        if options.isEmpty { tool.process.signal(SIGINT) }
        let end = await tool.end()
        expect(end.status == 0 && end.errors.isEmpty)
        if !options.isEmpty { expect(end.output.isEmpty) }
        let cancellation = await events.first {
            if case .received(_, let message) = $0 { String(decoding: message.bytes, as: UTF8.self).contains(#""type":5"#) } else { false }
        }
        expect(cancellation != nil)
        await server.server.stop()
    }

    @Test func `a stream that is interrupted before its count is a failure`() async throws {
        let server = try await Server()
        let late = try await server.signalR("stream", "/clock", ["Ticks", "3600", "--count", "2", "--timeout", "0.5"])
        expectEqual(late.status, 1)
        // If connecting was slow, not even the first one has arrived.
        expect(late.errors.contains(/(?:Received [01] of 2 items of Ticks from|Cannot connect to) .* within 0.5 s\./), "\(late.errors)")
        let lost = try Tool(["signalr", "stream", server.url + "/clock", "Ticks", "3600"])
        _ = await lost.nextLine()
        for id in server.server.hub("/clock").connectionIDs { server.server.drop(id) }
        await expectEqual(lost.end().status, 1)
        await server.server.stop()
    }

    @Test(arguments: Self.formats)
    func `a listener prints calls and states in order, and reconnects`(_ options: [String]) async throws {
        let server = try await Server()
        let chat = server.server.hub("/chat")
        let tool = try Tool(["signalr", "listen", server.url + "/chat", "Receive", "Other", "--count", "3"] + options)
        await expectEqual(tool.nextLine(), #"{"type":"state","state":"connecting"}"#)
        await expect(tool.nextLine().hasPrefix(#"{"type":"state","state":"connected","transport":"WebSockets","connection_id":"#))
        // A call of another method isn't counted, and is reported once.
        for number in 1...2 { try await chat.clients.all.send("receive", number) }
        try await chat.clients.all.send("Receive", "anna", 1)
        try await chat.clients.all.send("Other")
        let warning = "There is no handler for the method receive, which the server called. Names are case-sensitive."
        await expectEqual(tool.nextLine(), #"{"type":"log","level":"warning","message":"\#(warning)"}"#)
        await expectEqual(tool.nextLine(), #"{"type":"invocation","target":"Receive","arguments":["anna",1]}"#)
        await expectEqual(tool.nextLine(), #"{"type":"invocation","target":"Other","arguments":[]}"#)
        for id in chat.connectionIDs { server.server.drop(id) }
        await expect(tool.nextLine().hasPrefix(#"{"type":"state","state":"reconnecting","detail":"#))
        await expect(tool.nextLine().hasPrefix(#"{"type":"state","state":"connected","transport":"WebSockets","connection_id":"#))
        try await chat.clients.all.send("Receive", "bert", 2)
        let end = await tool.end()
        expect(end.status == 0 && end.errors.isEmpty)
        expectEqual(
            end.output,
            #"{"type":"invocation","target":"Receive","arguments":["bert",2]}"# + "\n" + #"{"type":"state","state":"disconnected"}"#
                + "\n")
        await server.server.stop()
    }

    @Test(arguments: Self.formats)
    func `a listener with stateful reconnect continues after a loss, and misses no call`(_ options: [String]) async throws {
        let server = try await Server()
        let chat = server.server.hub("/chat")
        let tool = try Tool(["signalr", "listen", server.url + "/chat", "Receive", "--count", "2", "--stateful"] + options)
        for _ in 0..<2 { _ = await tool.nextLine() }
        let id = try #require(chat.connectionIDs.first)
        server.server.drop(id)
        try await chat.clients.all.send("Receive", "anna", 1)
        await expectEqual(tool.nextLine(), #"{"type":"state","state":"resumed"}"#)
        await expectEqual(tool.nextLine(), #"{"type":"invocation","target":"Receive","arguments":["anna",1]}"#)
        expectEqual(chat.connectionIDs, [id])
        try await chat.clients.all.send("Receive", "anna", 2)
        await expectEqual(tool.end().status, 0)
        await server.server.stop()
    }

    @Test func `a listener ends when the server closes the connection for good`() async throws {
        let server = try await Server()
        let tool = try Tool(["signalr", "listen", server.url + "/chat", "Receive"])
        for _ in 0..<2 { _ = await tool.nextLine() }
        for id in server.server.hub("/chat").connectionIDs { server.server.close(id, error: "maintenance") }
        let end = await tool.end()
        expect(end.status == 1 && end.errors.contains("maintenance"))
        let other = try Tool(["signalr", "listen", server.url + "/chat", "Receive"])
        for _ in 0..<2 { _ = await other.nextLine() }
        other.process.signal(SIGTERM)
        let interrupted = await other.end()
        expectEqual(interrupted.status, 0)
        expectEqual(interrupted.output, #"{"type":"state","state":"disconnected"}"# + "\n")
        await server.server.stop()
    }

    @Test func `a time limit is a failure that names the server`() async throws {
        let server = try await Server()
        let calls = try await server.signalR("listen", "/chat", ["Receive", "--count", "1", "--timeout", "0.5"])
        expect(calls.status == 1 && calls.errors.contains("\(server.url)/chat within 0.5 s."), "\(calls.errors)")
        server.server.hub("/echo").on("Never") { _ in try await Task.sleep(for: .seconds(3600)) }
        let result = try await server.signalR("invoke", "/echo", ["Never", "--timeout", "0.5"])
        expect(result.status == 1 && result.errors.contains("within 0.5 s."))
        server.server.faults.isSilent = true
        for command in ["invoke", "send", "stream", "listen"] {
            let silent = try await server.signalR(command, "/echo", ["M", "--timeout", "0.5"])
            expect(silent.status == 1 && silent.errors.contains("Cannot connect to \(server.url)/echo within 0.5 s."), "\(silent.errors)")
        }
        await server.server.stop()
    }

    @Test func `the token and the header fields are sent and not printed`() async throws {
        let tenants = Lock<[String?]>([])
        var hooks = SignalRServerHooks()
        hooks.authenticate = { request in
            tenants.withLock { $0.append(request.request.headers["X-Tenant"]) }
            return request.token == "opensesame" ? .accept(userID: "anna") : .reject(status: 401)
        }
        let server = try await Server(hooks)
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("token-\(UUID().uuidString)").path
        try Data("opensesame\n".utf8).write(to: URL(fileURLWithPath: file))
        defer { try? FileManager.default.removeItem(atPath: file) }
        let invoke = "signalr invoke \(server.url)/echo Add 1 2 --header 'X-Tenant: 7' --verbose"
        for shell in [
            "exec \"$0\" \(invoke) --token opensesame", "exec \"$0\" \(invoke) --token-file \(file)",
            "REALTIME_SIGNALR_TOKEN=opensesame exec \"$0\" \(invoke)",
        ] {
            let result = try await Tool.run(shell: shell)
            expectEqual(result.status, 0)
            let lines = result.output.split(separator: "\n")
            expect(lines.contains(#"{"type":"result","value":3}"#))
            expect(lines.contains { $0.contains(#""type":"request""#) } && lines.contains { $0.contains(#""type":"response""#) })
            expect(lines.contains { $0.contains("sent {") } && lines.contains { $0.contains("received {") })
            expect(lines.contains { $0.contains(#""state":"connected""#) })
            expect(!result.output.contains("opensesame") && result.output.contains(#""connectionToken\":\"<redacted>"#.dropFirst()))
        }
        expectEqual(tenants.withLock { $0 }, Array(repeating: "7", count: 6))
        let without = try await server.signalR("invoke", "/echo", ["Add", "1", "2"])
        expect(without.status == 1 && without.errors.contains("401"))
        expect(without.errors.contains("Specify the access token with --token."))
        let wrong = try await server.signalR("invoke", "/echo", ["Add", "1", "2", "--token", "opensesame2"])
        expect(wrong.status == 1 && wrong.errors.hasSuffix(" Check the access token of --token.\n"), "\(wrong.errors)")
        let environment = try await Tool.run(
            shell: "REALTIME_SIGNALR_TOKEN=opensesame2 exec \"$0\" signalr listen \(server.url)/chat Receive")
        expect(environment.status == 1 && environment.errors.hasSuffix(" Check the access token of REALTIME_SIGNALR_TOKEN.\n"))
        let spaced = try await server.signalR("invoke", "/echo", ["Add", "1", "2", "--token", "Bearer opensesame"])
        expect(spaced.status == 1 && spaced.errors.contains("The access token of --token contains a space, "), "\(spaced.errors)")
        await server.server.stop()
    }

    @Test func `a server prints what clients do, and with verbose every message`() async throws {
        let server = try Tool(["serve", "signalr", "--verbose"])
        let ready = try #require(try JSONSerialization.jsonObject(with: Data(await server.nextLine().utf8)) as? [String: Any])
        let url = try #require(ready["url"] as? String)
        expectEqual(Set(ready.keys), ["ready", "url", "port", "hubs"])
        try await expectEqual(Tool.run(["signalr", "invoke", url + "/echo", "Add", "1", "2", "--protocol", "messagePack"]).status, 0)
        try await expectEqual(Tool.run(["signalr", "invoke", url + "/echo", "Fail", #""no""#]).status, 1)
        server.process.signal(SIGTERM)
        let end = await server.end()
        expectEqual(end.status, 0)
        let lines = try end.output.split(separator: "\n").map {
            try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any] ?? [:]
        }
        // The second client may connect before the server has noticed the end of the first one.
        let connections = Dictionary(grouping: lines.filter { $0["connection_id"] != nil }) { $0["connection_id"] as? String }
        expectEqual(connections.count, 2)
        for lines in connections.values {
            expectEqual(lines.compactMap { $0["type"] as? String }, ["connected", "invoked", "completed", "disconnected"])
        }
        expect(lines.contains { ($0["error"] as? String)?.contains("no") == true })
        let frames = lines.filter { $0["type"] as? String == "frame" }.map { "\($0["from"] ?? ""): \($0["data"] ?? "")" }
        expect(frames.contains("client: [1,{},\"1\",\"Add\",[1,2],[]]") && frames.contains("server: [3,{},\"1\",3,3]"))
        expect(frames.contains { $0.hasPrefix("client: {") } && frames.contains { $0.hasPrefix("server: {") })
    }

    @Test func `a server with verbose prints neither its token nor that of a connection`() async throws {
        let server = try Tool(["serve", "signalr", "--token", "opensesame", "--verbose"])
        let ready = try #require(try JSONSerialization.jsonObject(with: Data(await server.nextLine().utf8)) as? [String: Any])
        let url = try #require(ready["url"] as? String) + "/echo"
        func send(_ method: String, _ url: String, _ body: String = "") async throws -> [UInt8] {
            let request = HTTPRequest(method, try Endpoint(url), headers: ["Authorization": "Bearer opensesame"], body: Array(body.utf8))
            let response = try await SocketHTTPTransport().send(request, bodyLimit: 1 << 20)
            expectEqual(response.head.status, 200)
            return response.body
        }
        let answer =
            try await JSONSerialization.jsonObject(with: Data(send("POST", url + "/negotiate?negotiateVersion=1"))) as? [String: Any]
        let token = try #require(answer?["connectionToken"] as? String)
        _ = try await send("GET", url + "?id=\(token)")
        _ = try await send("POST", url + "?id=\(token)", #"{"protocol":"json","version":1}"# + "\u{1E}")
        _ = try await send("POST", url + "?id=\(token)", #"{"type":1,"invocationId":"1","target":"Add","arguments":[1,2]}"# + "\u{1E}")
        var text = ""
        while !text.contains(#""result":3"#) { text += try await String(decoding: send("GET", url + "?id=\(token)"), as: UTF8.self) }
        server.process.signal(SIGTERM)
        let end = await server.end()
        expect(end.status == 0 && end.output.contains(#"\"Add\""#), "\(end.output)")
        expect(!end.output.contains("opensesame") && !end.output.contains(token), "\(end.output)")
    }

    @Test func `a server prints that a connection was interrupted and resumed`() async throws {
        let server = try Tool(["serve", "signalr"])
        func nextObject() async throws -> [String: Any] {
            try JSONSerialization.jsonObject(with: Data(await server.nextLine().utf8)) as? [String: Any] ?? [:]
        }
        let url = try #require(try await nextObject()["url"] as? String)
        let socket = CuttableTransport(SocketWebSocketTransport())
        var configuration = HubConfiguration(try Endpoint(url + "/echo"))
        configuration.transports.webSocket = socket
        configuration.statefulReconnect = HubStatefulReconnect(timeLimit: .seconds(600))
        configuration.log = .none
        let client = HubClient(configuration)
        let id = try await client.start()
        try await expectEqual(nextObject()["type"] as? String, "connected")
        socket.cut()
        try await expectEqual(client.invoke("Add", 1, 2, as: Int.self), 3)
        // The client may come back before the server has noticed the loss.
        var event = try await nextObject()
        if event["type"] as? String == "interrupted" {
            expect(event["connection_id"] as? String == id && event["reason"] is String)
            event = try await nextObject()
        }
        expect(event["type"] as? String == "resumed" && event["connection_id"] as? String == id)
        client.stop()
        server.process.signal(SIGTERM)
        let end = await server.end()
        expect(end.status == 0 && !end.output.contains("resumed"))
    }

    @Test(arguments: [([], 403), (["--allow-foreign-origins"], 200)] as [([String], Int)])
    func `a local server refuses the web pages of other hosts, unless they are allowed`(_ options: [String], _ status: Int) async throws {
        let server = try Tool(["serve", "signalr"] + options)
        let ready = try JSONSerialization.jsonObject(with: Data(await server.nextLine().utf8)) as? [String: Any]
        let url = try #require(ready?["url"] as? String)
        let request = HTTPRequest(
            "POST", try Endpoint(url + "/chat/negotiate?negotiateVersion=1"), headers: ["Origin": "https://example.org"], body: [])
        let response = try await SocketHTTPTransport().send(request, bodyLimit: 1 << 10)
        expectEqual(response.head.status, status)
        server.process.signal(SIGTERM)
        let end = await server.end()
        expectEqual(end.status, 0)
        // The page and the developer learn what to do.
        let text = "The web pages of the origin \"https://example.org\" may not use this server, which is reachable only locally. "
        expectEqual(String(decoding: response.body, as: UTF8.self) == text + "Specify --allow-foreign-origins.", status == 403)
        expectEqual(end.output.contains("Specify --allow-foreign-origins."), status == 403, "\(end.output)")
    }

    @Test func `a server with a token rejects clients without it`() async throws {
        let server = try Tool(["serve", "signalr", "--token", "opensesame"])
        let ready = try JSONSerialization.jsonObject(with: Data(await server.nextLine().utf8)) as? [String: Any]
        let url = try #require(ready?["url"] as? String)
        try await expectEqual(Tool.run(["signalr", "invoke", url + "/clock", "Now"]).status, 1)
        try await expectEqual(Tool.run(["signalr", "invoke", url + "/clock", "Now", "--token", "opensesame"]).status, 0)
        server.process.signal(SIGINT)
        let end = await server.end()
        expectEqual(end.status, 0)
        expect(end.output.hasPrefix(#"{"type":"rejected","hub":"/clock","status":401}"#))
        expect(!end.output.contains("opensesame"))
    }
}
