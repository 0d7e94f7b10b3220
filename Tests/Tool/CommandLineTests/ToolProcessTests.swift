import Foundation
import Processes
import ProxySupport
import PusherChannels
import PusherServer
import RealtimeCore
import RealtimeSockets
import TestSupport
import Testing

@testable import CommandLineSupport
@testable import realtime

/// Tests of the tool as a process.
@Suite(.usesSockets, .requires(.tool(Tool.path)))
struct ToolProcessTests {
    @Test func `help and version are printed to standard output`() async throws {
        for arguments in [[], ["--help"], ["--version"], ["version"], ["pusher", "publish", "--help"], ["help", "pusher", "publish"]] {
            let result = try await Tool.run(arguments)
            expectEqual(result.status, 0)
            expect(result.output.contains("realtime") || result.output.contains("Publish"))
            expect(result.errors.isEmpty)
        }
    }

    @Test func `the completion scripts and the manual page are printed as they are`() async throws {
        for (arguments, start) in [
            (["completion", "bash"], "# Completion for realtime"), (["completion", "zsh"], "#compdef realtime\n"),
            (["completion", "fish"], "# Completion for realtime"), (["manual"], ".\\\" Printed by"),
        ] {
            let result = try await Tool.run(arguments)
            expect(result.status == 0 && result.errors.isEmpty && result.output.hasPrefix(start), "\(result)")
        }
    }

    @Test func `a usage error is one line on standard error and exits with status 2`() async throws {
        for arguments in [["nothing"], ["serve", "pusher", "--prot", "1"], ["serve", "pusher", "--port", "x"], ["pusher"]] {
            let result = try await Tool.run(arguments)
            expectEqual(result.status, 2)
            expect(result.output.isEmpty)
            expect(result.errors.hasPrefix("realtime: "))
            expectEqual(result.errors.split(separator: "\n").count, 1)
        }
    }

    @Test(arguments: [SIGINT, SIGTERM, SIGHUP])
    func `a server prints that it is ready and exits on a signal`(_ signal: Int32) async throws {
        let tool = try Tool(["serve", "pusher"])
        let line = await tool.nextLine()
        let ready = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
        expectEqual(ready["ready"] as? Bool, true)
        expectEqual(Set(ready.keys), ["ready", "url", "port", "app", "key", "secret"])
        tool.process.signal(signal)
        await expectEqual(tool.waitForEnd(), 0)
    }

    @Test(arguments: [SIGINT, SIGTERM, SIGHUP])
    func `a client that a signal ends disconnects`(_ signal: Int32) async throws {
        let server = PusherServer(app: PusherApp(id: "1", key: "k", secret: "s"), log: .none)
        let port = try await server.start(on: SocketListener(limits: .forTests)).port
        let tool = try Tool(["pusher", "subscribe", "ws://127.0.0.1:\(port)", "--key", "k", "prices"])
        for _ in 0..<3 { _ = await tool.nextLine() }
        tool.process.signal(signal)
        let end = await tool.end()
        expectEqual(end.output, #"{"type":"state","state":"disconnected"}"# + "\n")
        expect(end.status == 0 && end.errors.isEmpty)
        await server.stop()
    }

    @Test func `a tool that was started with nohup ignores SIGHUP`() async throws {
        // `nohup` does this, and redirects the output of a terminal.
        let server = try Tool(shell: "trap '' HUP; exec \"$0\" serve pusher --app-id 1 --key k --secret s")
        let url = try #require(try Self.object(await server.nextLine())["url"] as? String)
        server.process.signal(SIGHUP)
        let published = try await Tool.run(
            ["pusher", "publish", url, "--app-id", "1", "--key", "k", "--secret", "s", "prices", "price", "1"])
        expectEqual(published.status, 0, "\(published.errors)")
        await expectEqual(server.nextLine(), #"{"type":"published","channel":"prices","event":"price","subscribers":0}"#)
        server.process.signal(SIGTERM)
        await expectEqual(server.end().status, 0)
    }

    @Test(arguments: 4...10) func `a limit of open files that is too small is a failure with its name`(limit: Int) async throws {
        let tool = try Tool(shell: "ulimit -n \(limit); exec \"$0\" serve primus")
        let result = await tool.end()
        expectEqual(result.status, 1)
        expectEqual(result.errors, "realtime: Cannot start: Too many open files. Increase the limit of open files (ulimit -n).\n")
    }

    @Test func `a port in use is a failure that names the port`() async throws {
        let first = try Tool(["serve", "pusher"])
        let ready = try JSONSerialization.jsonObject(with: Data(await first.nextLine().utf8)) as? [String: Any]
        let port = try #require(ready?["port"] as? Int)
        let second = try await Tool.run(["serve", "pusher", "--port", "\(port)"])
        expectEqual(second.status, 1)
        expect(second.errors.hasPrefix("realtime: "))
        expect(second.errors.contains("\(port)"))
        first.process.signal(SIGTERM)
        await expectEqual(first.waitForEnd(), 0)
    }

    @Test func `a subscriber prints updates in order`() async throws {
        let server = try Tool(["serve", "pusher", "--app-id", "1", "--key", "k", "--secret", "s"])
        let url = try #require(try Self.object(await server.nextLine())["url"] as? String)
        let tool = try Tool(["pusher", "subscribe", url, "--key", "k", "--secret", "s", "--count", "1", "prices", "private-a"])
        var lines: [String] = []
        while lines.last?.contains("private-a") != true { lines.append(await tool.nextLine()) }
        let published = try await Tool.run(
            ["pusher", "publish", url, "--app-id", "1", "--key", "k", "--secret", "s", "prices", "price", #"{"text":"ü\n\""}"#])
        expectEqual(published.status, 0)
        for _ in 0..<2 { lines.append(await tool.nextLine()) }
        await expectEqual(tool.waitForEnd(), 0)
        lines[1].replace(/"socket_id":"[0-9.]+"/, with: #""socket_id":"X.Y""#)
        expectEqual(
            lines,
            [
                #"{"type":"state","state":"connecting"}"#,
                #"{"type":"state","state":"connected","socket_id":"X.Y"}"#,
                #"{"type":"subscribed","channel":"prices"}"#,
                #"{"type":"subscribed","channel":"private-a"}"#,
                #"{"type":"event","channel":"prices","event":"price","data":"{\"text\":\"ü\\n\\\"\"}"}"#,
                #"{"type":"state","state":"disconnected"}"#,
            ])
        server.process.signal(SIGTERM)
        await expectEqual(server.waitForEnd(), 0)
    }

    @Test func `timestamps precede every line`() async throws {
        let server = try Tool(["serve", "pusher", "--key", "k", "--timestamps"])
        let ready = try Self.object(await server.nextLine())
        let url = try #require(ready["url"] as? String)
        expectEqual((ready["time"] as? String)?.contains(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/), true)
        let wrong = try await Tool.runAtTerminal(["pusher", "subscribe", url, "--key", "wrong", "a", "--timestamps"])
        expectEqual(wrong.status, 1)
        let lines = wrong.output.split(whereSeparator: \.isNewline)
        expect(!lines.isEmpty && lines.allSatisfy { $0.contains(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \w/) }, "\(lines)")
        server.process.signal(SIGTERM)
        let rest = try await server.end().output.split(separator: "\n").map { try Self.object(String($0)) }
        expect(!rest.isEmpty && rest.allSatisfy { $0["time"] is String })
    }

    @Test func `the failure for a wrong path names the part of the URL to check`() {
        let error = PusherError(.rejected, "Unknown path. Check `PusherConfiguration.path`.", serverCode: 4005)
        expectEqual(ToolFailure(error), ToolFailure("Unknown path. Check the path of the URL.", code: 4005))
    }

    @Test func `a client event that is not sent in time is a failure with the option and the reason`() async throws {
        let port = TestPort.refusing()
        try await Self.withLimits { limit in
            let absent = try await Tool.run([
                "pusher", "trigger", "ws://127.0.0.1:\(port)", "--key", "k", "--secret", "s", "--timeout", "\(limit)", "private-a",
                "client-b", "1",
            ])
            guard absent.errors.contains("refused") else { return false }
            expectEqual(absent.status, 1)
            expect(absent.errors.hasPrefix("realtime: Cannot subscribe to private-a at ws://127.0.0.1:\(port) within \(limit) s: "))
            return true
        }
    }

    @Test func `a wrong key ends a subscriber with the server's reason`() async throws {
        let server = try Tool(["serve", "pusher"])
        let url = try #require(try Self.object(await server.nextLine())["url"] as? String)
        let result = try await Tool.run(["pusher", "subscribe", url, "--key", "wrong", "prices"])
        expectEqual(result.status, 1)
        expect(result.errors.hasPrefix("realtime: ws://") && result.errors.contains("(close code 4001"))
        expect(result.errors.contains("Unknown app key."))
        expectEqual(result.errors.split(separator: "\n").count, 1)
        expectEqual(result.output.split(separator: "\n").count { $0.contains(#""type":"error""#) }, 1)
        server.process.signal(SIGTERM)
        await expectEqual(server.waitForEnd(), 0)
    }

    @Test(arguments: [["--key", "wrong", "prices"], ["--key", "k", "--secret", "wrong", "private-a"]])
    func `an error is printed once where both outputs lead to the same place`(_ options: [String]) async throws {
        let server = PusherServer(app: PusherApp(id: "1", key: "k", secret: "s"), log: .none)
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let command = ["pusher", "subscribe", "ws://127.0.0.1:\(address.port)"] + options
        for result in [
            try await Tool.run(shell: "exec \"$0\" \(command.joined(separator: " ")) 2>&1"), try await Tool.run(command + ["--json"]),
        ] {
            expectEqual(result.status, 1)
            let errors = result.output.split(separator: "\n").filter { $0.contains("error") || $0.contains("realtime:") }
            expectEqual(errors.count, 1, "\(errors)")
        }
        let atTerminal = try await Tool.runAtTerminal(command)
        expectEqual(atTerminal.status, 1)
        // Standard error isn't the terminal there, so the failure isn't part of the output.
        expect(!atTerminal.output.contains("error"))
        await server.stop()
    }

    @Test func `the last line says why a server cannot be reached, wherever standard error leads`() async throws {
        let port = TestPort.refusing()
        try await Self.withLimits { limit in
            let command = "exec \"$0\" pusher subscribe ws://127.0.0.1:\(port) --key k --timeout \(limit) prices"
            let (mixed, separate) = (try await Tool.run(shell: "\(command) 2>&1"), try await Tool.run(shell: command))
            guard [mixed, separate].allSatisfy({ $0.output.contains("refused") }) else { return false }
            let message = "Cannot subscribe to prices at ws://127.0.0.1:\(port) within \(limit) s: "
            for result in [mixed, separate] {
                expectEqual(result.status, 1)
                let last = String(result.output.split(separator: "\n").last ?? "")
                expect(last.hasPrefix(#"{"type":"error","message":"\#(message)"#) && last.contains("refused"), "\(last)")
                // Each reason is printed as it occurs, too, and the same one once.
                expectEqual(result.output.ranges(of: "refused").count, 2)
            }
            expect(mixed.errors.isEmpty)
            expect(separate.errors.hasPrefix("realtime: \(message)") && separate.errors.contains("refused"))
            return true
        }
    }

    /// Runs a body with a time limit in seconds, and with longer ones until it is enough for an attempt of the tool to connect.
    private static func withLimits(_ body: (Double) async throws -> Bool) async throws {
        for limit in [2.0, 8.0, 32.0] { if try await body(limit) { return } }
        Issue.record("32 s aren't enough for an attempt")
    }

    @Test func `a presence channel is printed with its members`() async throws {
        let server = try Tool(["serve", "pusher", "--key", "k", "--secret", "s", "--auth-endpoint", "/auth"])
        let ready = try Self.object(await server.nextLine())
        let (url, endpoint) = (try #require(ready["url"] as? String), try #require(ready["auth_endpoint"] as? String))
        let subscribe = ["pusher", "subscribe", url, "--key", "k", "presence-x"]
        let anna = try Tool(subscribe + ["--secret", "s", "--user-id", "anna", "--user-info", #"{"name":"A"}"#])
        for _ in 0..<2 { _ = await anna.nextLine() }
        await expectEqual(
            anna.nextLine(),
            #"{"type":"members","channel":"presence-x","me":"anna","members":[{"user_id":"anna","user_info":{"name":"A"}}]}"#)
        await expectEqual(anna.nextLine(), #"{"type":"subscribed","channel":"presence-x"}"#)
        let other = try Tool(subscribe + ["--auth-endpoint", endpoint])
        _ = await other.nextLine()
        let socketID = try #require(try Self.object(await other.nextLine())["socket_id"] as? String)
        await expectEqual(anna.nextLine(), #"{"type":"joined","channel":"presence-x","user_id":"\#(socketID)"}"#)
        other.process.signal(SIGTERM)
        await expectEqual(other.end().status, 0)
        await expectEqual(anna.nextLine(), #"{"type":"left","channel":"presence-x","user_id":"\#(socketID)"}"#)
        anna.process.signal(SIGTERM)
        await expectEqual(anna.end().status, 0)
        server.process.signal(SIGTERM)
        let lines = await server.end().output.split(separator: "\n").map { String($0).replacing(socketID, with: "X") }
        expect(lines.contains(#"{"type":"authorized","socket_id":"X","channel":"presence-x"}"#))
        expect(lines.contains(#"{"type":"subscribed","socket_id":"X","channel":"presence-x","user_id":"X"}"#))
    }

    @Test func `the authorization endpoint of a server is open to web pages and uses the user of the form`() async throws {
        let server = try Tool(["serve", "pusher", "--key", "k", "--secret", "s", "--auth-endpoint", "/auth"])
        let endpoint = try #require(try Self.object(await server.nextLine())["auth_endpoint"] as? String)
        func post(_ body: String) async throws -> (status: Int?, text: String) {
            let request = HTTPRequest(
                "POST", try Endpoint(endpoint), headers: ["Origin": "https://example.org"], body: Array(body.utf8))
            let response = try await SocketHTTPTransport().send(request, bodyLimit: 1 << 10)
            expectEqual(response.head.headers["Access-Control-Allow-Origin"], "*")
            return (response.head.status, String(decoding: response.body, as: UTF8.self))
        }
        let user = "&user_id=anna&user_info=%7B%22name%22%3A%22A%22%7D"
        let accepted = try await post("socket_id=1.2&channel_name=presence-x" + user)
        expectEqual(accepted.status, 200)
        expect(accepted.text.contains(#"{\"user_id\":\"anna\",\"user_info\":{\"name\":\"A\"}}"#))
        let rejected = try await post("socket_id=1.2&channel_name=presence-x&user_info=%7B")
        expect(rejected.status == 403 && rejected.text == "The field user_info must be JSON.\n")
        let other = try Endpoint(endpoint + "/x")
        try await expectEqual(SocketHTTPTransport().send(HTTPRequest("POST", other), bodyLimit: 1 << 10).head.status, 404)
        server.process.signal(SIGTERM)
        let lines = await server.end().output.split(separator: "\n")
        expectEqual(
            lines.prefix(2),
            [
                #"{"type":"authorized","socket_id":"1.2","channel":"presence-x","user_id":"anna"}"#,
                #"{"type":"authorization_rejected","socket_id":"1.2","channel":"presence-x","message":"The field user_info must be JSON."}"#,
            ])
    }

    @Test func `a server prints publications and errors`() async throws {
        let server = try Tool(["serve", "pusher", "--app-id", "1", "--key", "k", "--secret", "s"])
        let url = try #require(try Self.object(await server.nextLine())["url"] as? String)
        for secret in ["s", "wrong"] {
            _ = try await Tool.run(["pusher", "publish", url, "--app-id", "1", "--key", "k", "--secret", secret, "prices", "price", "1"])
        }
        _ = try await Tool.run(["pusher", "subscribe", url, "--key", "wrong", "prices"])
        server.process.signal(SIGTERM)
        let lines = await server.end().output.split(separator: "\n")
        expectEqual(lines.first, #"{"type":"published","channel":"prices","event":"price","subscribers":0}"#)
        expectEqual(lines.dropFirst().map { $0.prefix(28) }, [#"{"type":"error","code":401,""#, #"{"type":"error","code":4001,"#])
    }

    @Test func `a verbose server prints the frames of both directions without signatures`() async throws {
        let server = try Tool(["serve", "pusher", "--key", "k", "--secret", "s", "--verbose"])
        let url = try #require(try Self.object(await server.nextLine())["url"] as? String)
        let subscriber = try Tool(["pusher", "subscribe", url, "--key", "k", "--secret", "s", "private-a"])
        _ = await subscriber.nextLine()
        let socketID = try #require(try Self.object(await subscriber.nextLine())["socket_id"] as? String)
        _ = await subscriber.nextLine()
        subscriber.process.signal(SIGTERM)
        await expectEqual(subscriber.end().status, 0)
        _ = try await Tool.run(["pusher", "subscribe", url, "--key", "wrong", "prices"])
        server.process.signal(SIGTERM)
        let output = await server.end().output
        let frames = try output.split(separator: "\n").map { try Self.object(String($0)) }.filter { $0["type"] as? String == "frame" }
        let events = try frames.prefix(3).map { frame in
            expectEqual(frame["socket_id"] as? String, socketID)
            let data = try Self.object(frame["data"] as? String ?? "")
            return "\(frame["from"] ?? ""): \(data["event"] ?? "")"
        }
        expectEqual(
            events,
            [
                "server: pusher:connection_established", "client: pusher:subscribe", "server: pusher_internal:subscription_succeeded",
            ])
        // Of a connection that the server rejects, which has no socket ID.
        let rejection = try #require(frames.last)
        expect(rejection["from"] as? String == "server" && rejection["socket_id"] == nil)
        expectEqual((rejection["data"] as? String)?.contains("4001"), true)
        expect(output.contains("<redacted>") && !output.contains(/[0-9a-f]{64}/))
    }

    @Test func `a verbose publisher prints the request and the response without the signature`() async throws {
        let server = PusherServer(app: PusherApp(id: "1", key: "k", secret: "s"), log: .none)
        let url = "http://127.0.0.1:\(try await server.start(on: SocketListener(limits: .forTests)).port)"
        for (secret, status) in [("s", 200), ("wrong", 401)] {
            let result = try await Tool.run(
                ["pusher", "publish", url, "--app-id", "1", "--key", "k", "--secret", secret, "prices", "price", "12", "--verbose"])
            expectEqual(result.status, (status == 200 ? 0 : 1))
            let lines = try result.output.split(separator: "\n").map { try Self.object(String($0)) }
            expectEqual(lines.count, 3)
            let request = try #require(lines.first)
            expect(request["type"] as? String == "request" && request["method"] as? String == "POST")
            let target = try #require(request["url"] as? String)
            expect(target.hasPrefix(url + "/apps/1/events?auth_key=k&") && target.hasSuffix("&auth_signature=<redacted>"))
            try expectEqual(Self.object(request["body"] as? String ?? "")["data"] as? String, "12")
            expect(lines[1]["type"] as? String == "response" && lines[1]["status"] as? Int == status)
            expect(!result.output.contains(/[0-9a-f]{64}/) && !result.output.contains("wrong"))
        }
        await server.stop()
    }

    @Test func `a secret in a file or in the environment is used and not printed`() async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("secret-\(UUID().uuidString)").path
        try Data("file-secret\n".utf8).write(to: URL(fileURLWithPath: file))
        defer { try? FileManager.default.removeItem(atPath: file) }
        let server = try Tool(["serve", "pusher", "--app-id", "1", "--key", "k", "--secret-file", file, "--verbose"])
        let ready = await server.nextLine()
        let url = try #require(try Self.object(ready)["url"] as? String)
        let publish = "exec \"$0\" pusher publish \(url) --app-id 1 --key k prices price"
        let results = [
            try await Tool.run(shell: "REALTIME_PUSHER_SECRET=file-secret \(publish) 1"),
            // An option takes precedence.
            try await Tool.run(shell: "REALTIME_PUSHER_SECRET=wrong \(publish) 2 --secret-file \(file)"),
            try await Tool.run(shell: "REALTIME_PUSHER_SECRET=other-secret \(publish) 3"),
            try await Tool.run(shell: "\(publish) 4 --secret-file \(file).missing"),
        ]
        expectEqual(results.map(\.status), [0, 0, 1, 1])
        expectEqual(results[3].errors, "realtime: Cannot read '\(file).missing': No such file or directory.\n")
        server.process.signal(SIGTERM)
        let output = await server.end().output
        expectEqual(output.ranges(of: "published").count, 2)
        for text in [ready, output] + results.flatMap({ [$0.output, $0.errors] }) {
            expect(!text.contains("file-secret") && !text.contains("other-secret"))
        }
    }

    @Test func `data is read from standard input`() async throws {
        let server = PusherServer(app: PusherApp(id: "1", key: "k", secret: "s"), log: .none)
        let address = try await server.start(on: SocketListener(limits: .forTests))
        let publish = "exec \"$0\" pusher publish http://127.0.0.1:\(address.port) --app-id 1 --key k --secret s prices price -"
        let subscriber = try Tool(
            ["pusher", "subscribe", "ws://127.0.0.1:\(address.port)", "--key", "k", "--count", "2", "--timeout", "600", "prices"])
        for _ in 0..<3 { _ = await subscriber.nextLine() }
        try await expectEqual(Tool.run(shell: "printf 'a\\nü\\n' | \(publish)").status, 0)
        try await expectEqual(Tool.run(shell: "\(publish) </dev/null").status, 0)
        let invalid = try await Tool.run(shell: "printf '\\377' | \(publish)")
        expect(invalid.status == 1 && invalid.errors == "realtime: Cannot read standard input: it isn't UTF-8.\n")
        let large = try await Tool.run(shell: "head -c 2000000 /dev/zero | \(publish)")
        // `head` may report the closed pipe as well.
        expect(large.status == 1 && large.errors.contains("realtime: Cannot read standard input: it has more than 1048576 bytes.\n"))
        let output = await subscriber.end().output.split(separator: "\n")
        expect(output.contains(#"{"type":"event","channel":"prices","event":"price","data":"a\nü"}"#))
        expect(output.contains(#"{"type":"event","channel":"prices","event":"price","data":""}"#))
        await server.stop()
    }

    @Test func `a command that waits for standard input ends on a signal`() async throws {
        let tool = try Tool(["pusher", "publish", "http://127.0.0.1:1", "--app-id", "1", "--key", "k", "--secret", "s", "a", "b", "-"])
        tool.process.signal(SIGTERM)
        // The input is still open. Either the signal arrived before the process could handle it, or the command was cancelled.
        expect([1, -SIGTERM].contains(await tool.waitForEnd()))
    }

    @Test(.requires(.openSSL)) func `certificates of a file are trusted`() async throws {
        func file(_ name: String) -> String { Vectors.path("certificates/\(name)") }
        let server = PusherServer(app: PusherApp(id: "1", key: "k", secret: "s"), log: .none)
        let identity = TLSIdentity(certificateChain: .file(file("server.pem")), privateKey: .file(file("server-key.pem")))
        let address = try await server.start(on: SocketListener(tls: TLSServerConfiguration(identity), limits: .forTests))
        let publish = [
            "pusher", "publish", "https://127.0.0.1:\(address.port)", "--app-id", "1", "--key", "k", "--secret", "s", "a", "b", "c",
        ]
        let subscriber = try Tool(
            ["pusher", "subscribe", "wss://127.0.0.1:\(address.port)", "--key", "k", "--ca", file("root.pem"), "--count", "1", "a"])
        for _ in 0..<3 { _ = await subscriber.nextLine() }
        try await expectEqual(Tool.run(publish + ["--ca", file("root.pem")]).status, 0)
        await expectEqual(subscriber.end().status, 0)
        for (options, message) in [
            ([], "add the root certificate to the file of --ca"),
            (["--ca", file("other-root.pem")], "add the root certificate to the file of --ca"),
            (["--ca", file("missing.pem")], "Cannot read '\(file("missing.pem"))': No such file or directory."),
            (["--ca", file("server-key.pem")], "The file '\(file("server-key.pem"))' contains no certificate"),
        ] {
            let result = try await Tool.run(publish + options)
            expectEqual(result.status, 1)
            expect(result.errors.contains(message), "\(result.errors)")
        }
        await server.stop()
    }

    @Test func `commands connect through the proxy of an option or of the environment`() async throws {
        let server = PusherServer(app: PusherApp(id: "1", key: "k", secret: "s"), log: .none)
        let port = try await server.start(on: SocketListener(limits: .forTests)).port
        let proxies = try TestProxy.Kind.allCases.map { try TestProxy($0, credentials: .init(username: "anna", password: "hunter2")) }
        // Only a proxy leads from this name to the server.
        let host = "server.invalid:\(port)"
        let subscriber = try Tool(
            ["pusher", "subscribe", "ws://\(host)", "--key", "k", "--proxy", proxies[0].url, "--count", "3", "a"])
        for _ in 0..<3 { _ = await subscriber.nextLine() }
        let publish = ["pusher", "publish", "http://\(host)", "--app-id", "1", "--key", "k", "--secret", "s", "a", "b", "c"]
        for proxy in proxies {
            let published = try await Tool.run(publish + ["--proxy", proxy.url, "--verbose"])
            expect(published.status == 0 && !(published.output + published.errors).contains("hunter2"), "\(published.errors)")
        }
        let line = #"exec "$0" \#(publish.joined(separator: " ")) --proxy environment"#
        try await expectEqual(Tool.run(shell: "HTTP_PROXY= http_proxy=\(proxies[1].url) NO_PROXY= no_proxy= \(line)").status, 0)
        await expectEqual(subscriber.end().status, 0)
        expectEqual(proxies.map(\.targets.count), [2, 2])

        let excluded = try await Tool.run(shell: "http_proxy=\(proxies[1].url) no_proxy=.invalid \(line)")
        expect(excluded.status == 1 && excluded.errors.contains("server.invalid"))
        let rejected = try await Tool.run(publish + ["--proxy", "http://127.0.0.1:\(proxies[0].port)"])
        expect(rejected.status == 1 && rejected.errors.contains("requires a user name and a password (407"), "\(rejected.errors)")
        expectEqual(proxies.map(\.targets.count), [2, 2])
        for proxy in proxies { await proxy.stop() }
        await server.stop()
    }

    @Test(.requires(.openSSL)) func `a server with TLS serves wss and https on one port`() async throws {
        func file(_ name: String) -> String { Vectors.path("certificates/\(name)") }
        let server = try Tool(
            [
                "serve", "pusher", "--tls", file("server.pem"), file("server-key.pem"), "--app-id", "1", "--key", "k", "--secret", "s",
                "--auth-endpoint", "/auth",
            ])
        let ready = try Self.object(await server.nextLine())
        let (url, port) = (try #require(ready["url"] as? String), try #require(ready["port"] as? Int))
        expect(url == "wss://127.0.0.1:\(port)" && ready["auth_endpoint"] as? String == "https://127.0.0.1:\(port)/auth")
        let trust = ["--ca", file("root.pem")]
        let subscriber = try Tool(
            ["pusher", "subscribe", url, "--key", "k", "--auth-endpoint", "https://127.0.0.1:\(port)/auth", "--count", "1", "private-a"]
                + trust)
        for _ in 0..<3 { _ = await subscriber.nextLine() }
        let published = try await Tool.run(
            ["pusher", "publish", "https://127.0.0.1:\(port)", "--app-id", "1", "--key", "k", "--secret", "s", "private-a", "b", "c"]
                + trust)
        expectEqual(published.status, 0, "\(published.errors)")
        let received = await subscriber.end()
        expect(received.status == 0 && received.output.contains(#""event":"b""#), "\(received.output) \(received.errors)")
        server.process.signal(SIGTERM)
        await expectEqual(server.end().status, 0)
    }

    @Test(.requires(.openSSL)) func `a SignalR server with TLS serves https`() async throws {
        func file(_ name: String) -> String { Vectors.path("certificates/\(name)") }
        let server = try Tool(["serve", "signalr", "--tls", file("server.pem"), file("server-key.pem")])
        let url = try #require(try Self.object(await server.nextLine())["url"] as? String)
        expect(url.hasPrefix("https://127.0.0.1:"))
        let sum = try await Tool.run(["signalr", "invoke", url + "/echo", "Add", "20", "22", "--ca", file("root.pem")])
        expect(sum.status == 0 && sum.output == #"{"type":"result","value":42}"# + "\n", "\(sum.errors)")
        let untrusted = try await Tool.run(["signalr", "invoke", url + "/echo", "Add", "20", "22"])
        expect(untrusted.status == 1 && untrusted.errors.contains("root certificate to the file of --ca"), "\(untrusted.errors)")
        server.process.signal(SIGTERM)
        await expectEqual(server.end().status, 0)
    }

    @Test(
        .requires(.openSSL),
        arguments: [
            ("missing.pem", "server-key.pem", ["certificate", "missing.pem cannot be read", "No such file or directory"]),
            ("server.pem", "missing.pem", ["private key", "missing.pem cannot be read", "No such file or directory"]),
            ("server-key.pem", "server-key.pem", ["server-key.pem contains no certificate"]),
            ("server.pem", "server.pem", ["server.pem contains no private key"]),
            ("server.pem", "client-key.pem", ["client-key.pem contains a private key that does not match the certificate"]),
            ("server.pem", "server-key-encrypted.pem", ["server-key-encrypted.pem", "encrypted"]),
        ])
    func `a server with TLS says which file cannot be used`(_ certificate: String, _ key: String, _ expected: [String]) async throws {
        let files = [certificate, key].map { Vectors.path("certificates/\($0)") }
        let result = try await Tool.run(["serve", "pusher", "--tls"] + files)
        expectEqual(result.status, 1)
        for text in expected { expect(result.errors.contains(text), "\(result.errors)") }
    }

    @Test func `the commands that serve prints at a terminal work in a shell`() async throws {
        let folder = FileManager.default.temporaryDirectory.path
        let server = try Tool(terminal: ["serve", "pusher", "--app-id", "app", "--key", "k", "--secret", "it's"], in: folder)
        var lines: [String] = []
        while lines.count < 5 { lines.append(String(await server.nextLine().filter { $0 != "\r" })) }
        expect(lines[0].hasPrefix("Server listening at ws://127.0.0.1:"))
        expectEqual(lines[1], "Try one of these commands in another terminal:")
        // In the shell of the test, the tool is `$0`, too.
        let commands = lines[2...].map { "exec " + $0.dropFirst(2) }
        let subscriber = try Tool(shell: commands[0] + " --count 1")
        for _ in 0..<3 { _ = await subscriber.nextLine() }
        let published = try await Tool.run(shell: commands[1])
        try #require(published.status == 0, "\(published.errors)")
        await expectEqual(subscriber.nextLine(), #"{"type":"event","channel":"prices","event":"price","data":"{\"value\":12.5}"}"#)
        await expectEqual(subscriber.end().status, 0)
        let anna = try Tool(shell: commands[2])
        for _ in 0..<2 { _ = await anna.nextLine() }
        await expectEqual(anna.nextLine(), #"{"type":"members","channel":"presence-room","me":"anna","members":[{"user_id":"anna"}]}"#)
        anna.process.signal(SIGTERM)
        await expectEqual(anna.end().status, 0)
        server.process.signal(SIGTERM)
        await expectEqual(server.end().status, 0)
    }

    @Test func `the demo names the transport of each connection that it shows`() async throws {
        let demo = try await Tool.run(["demo"])
        expectEqual(demo.status, 0)
        let transports = try demo.output.split(separator: "\n").compactMap { try Self.object(String($0))["transport"] as? String }
        expectEqual(transports.prefix(4), ["WebSockets", "WebSockets", "LongPolling", "WebSockets"])
    }

    @Test func `the commands that the demo ends with work in a shell`() async throws {
        let demo = try await Tool.runAtTerminal(["demo"], in: FileManager.default.temporaryDirectory.path)
        let lines = demo.output.split(whereSeparator: \.isNewline).filter { $0.hasPrefix("  ") }.map(String.init)
        guard lines.count == 5 else {
            Issue.record("the demo printed \(lines.count) commands")
            return
        }
        // The port is free in a shell of a reader, but not necessarily here.
        let server = try Tool(shell: "exec " + lines[0].replacing("8080", with: "0"))
        let port = try #require(try Self.object(await server.nextLine())["port"] as? Int)
        let subscriber = try Tool(shell: "exec " + lines[1].replacing("8080", with: "\(port)") + " --count 1")
        for _ in 0..<3 { _ = await subscriber.nextLine() }
        try await expectEqual(Tool.run(shell: "exec " + lines[2].replacing("8080", with: "\(port)")).status, 0)
        let result = await subscriber.end()
        expectEqual(result.status, 0)
        expect(result.output.contains(#"{"type":"event","channel":"prices","event":"price","data":"{\"value\":12.5}"}"#))
        server.process.signal(SIGTERM)
        await expectEqual(server.end().status, 0)
        for line in lines[3...] {
            let server = try Tool(shell: "exec " + line)
            await expect(server.nextLine().hasPrefix(#"{"ready":true,"url":"http://"#))
            server.process.signal(SIGTERM)
            await expectEqual(server.end().status, 0)
        }
    }

    @Test func `a timeout is a failure that names the service and the reason`() async throws {
        let server = try Tool(["serve", "pusher", "--key", "k", "--port", "\(TestPort.next())"])
        let url = try #require(try Self.object(await server.nextLine())["url"] as? String)
        let silent = try await Tool.run(["pusher", "subscribe", url, "--key", "k", "--count", "2", "--timeout", "0.5", "prices"])
        expectEqual(silent.status, 1)
        expect(silent.errors.contains(url) && silent.errors.contains("within 0.5 s"))
        server.process.signal(SIGTERM)
        await expectEqual(server.waitForEnd(), 0)
        try await Self.withLimits { limit in
            let absent = try await Tool.run(["pusher", "subscribe", url, "--key", "k", "--timeout", "\(limit)", "prices"])
            guard absent.errors.contains("refused") else { return false }
            expectEqual(absent.status, 1)
            expect(absent.errors.contains("prices at \(url) within \(limit) s: "))
            return true
        }
    }

    /// Without `Output.reserveStandardDescriptors()`, the next socket would get the number of standard output.
    @Test func `a closed standard output is a failure`() async throws {
        for arguments in ["demo", "--help"] {
            let result = try await Tool.run(shell: "exec \"$0\" \(arguments) >&-")
            expectEqual(result.status, 1)
            expectEqual(result.errors, "realtime: Cannot write to standard output: Bad file descriptor.\n")
        }
    }

    private static func object(_ line: String) throws -> [String: Any] {
        try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any] ?? [:]
    }
}

/// A run of the tool.
struct Tool {
    /// The path of the tool in the folder of the test bundle, or `nil`.
    static let path: String? = {
        #if os(Linux)
        let tests = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        #else
        let tests = Bundle.main.bundlePath
        #endif
        let path = URL(fileURLWithPath: tests).deletingLastPathComponent().appendingPathComponent("realtime").path
        return FileManager.default.isExecutableFile(atPath: path) ? path : nil
    }()

    let process: ChildProcess

    init(process: ChildProcess) { self.process = process }

    init(_ arguments: [String]) throws {
        self.process = try ChildProcess([try #require(Self.path)] + arguments, errors: .captured)
    }

    /// - Parameter shell: A line for the shell, in which `$0` is the tool.
    init(shell: String) throws {
        self.process = try ChildProcess(["/bin/sh", "-c", shell, try #require(Self.path)], errors: .captured)
    }

    /// Starts the tool at a terminal, without colors.
    ///
    /// - Parameter folder: The working directory; `nil` for that of the tests.
    init(terminal arguments: [String], in folder: String? = nil) throws {
        let shell = ["/bin/sh", "-c", #"cd "$0" && NO_COLOR=1 TERM=xterm exec "$@""#, folder ?? ".", try #require(Self.path)]
        self.process = try ChildProcess(shell + arguments, errors: .discarded, writesToTerminal: true)
    }

    /// Waits until the tool has exited. Returns the exit status, or the negative number of a signal.
    func waitForEnd() async -> Int32 {
        await Self.onThread { [process] in process.waitForEnd() }
    }

    func nextLine() async -> String {
        await Self.onThread { [process] in process.readLine() ?? "" }
    }

    static func run(_ arguments: [String]) async throws -> (status: Int32, output: String, errors: String) {
        try await Self.result(try Tool(arguments))
    }

    static func run(shell: String) async throws -> (status: Int32, output: String, errors: String) {
        try await Self.result(try Tool(shell: shell))
    }

    private static func result(_ tool: Tool) async throws -> (status: Int32, output: String, errors: String) {
        tool.process.endInput()
        return await tool.end()
    }

    /// Waits until the tool has exited, and returns the output that remains.
    func end() async -> (status: Int32, output: String, errors: String) {
        // Reading one after another does not deadlock: the errors fit into the buffer of their pipe.
        await Self.onThread { [process] in
            let (output, errors) = (process.readOutput(), process.readErrors())
            return (process.waitForEnd(), output, errors)
        }
    }

    /// Runs the tool at a terminal, without colors.
    ///
    /// - Parameter folder: The working directory; `nil` for that of the tests.
    static func runAtTerminal(_ arguments: [String], in folder: String? = nil) async throws -> (status: Int32, output: String) {
        let process = try Tool(terminal: arguments, in: folder).process
        process.endInput()
        return await Self.onThread {
            let output = process.readOutput()
            return (process.waitForEnd(), output)
        }
    }

    /// Calls a function that blocks on a separate thread, to keep the executor's threads free.
    private static func onThread<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        let (values, continuation) = AsyncStream<Value>.makeStream()
        Thread.detachNewThread {
            continuation.yield(body())
            continuation.finish()
        }
        for await value in values { return value }
        preconditionFailure("the thread ended without a value")
    }
}
