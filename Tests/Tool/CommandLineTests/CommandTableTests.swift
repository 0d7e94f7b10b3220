import PusherChannels
import PusherServer
import RealtimeCore
import RealtimeCoding
import RealtimeSockets
import TestSupport
import Testing

@testable import CommandLineSupport
@testable import RealtimeBenchmarks
@testable import realtime

@Suite struct CommandTableTests {
    static let specs = Realtime.tool.commands.map { $0.spec }
    let table = Realtime.tool.table

    @Test(arguments: [
        ([], ParsedCommand.help([])), (["--help"], .help([])), (["-h"], .help([])), (["--version"], .version), (["version"], .version),
        (["pusher", "--help"], .help(["pusher"])), (["pusher", "publish", "-h"], .help(["pusher", "publish"])),
        (["demo", "--help"], .help(["demo"])), (["help"], .help([])), (["help", "pusher"], .help(["pusher"])),
        (["help", "pusher", "publish"], .help(["pusher", "publish"])), (["help", "demo"], .help(["demo"])),
    ])
    func `help is available at every level`(_ arguments: [String], _ command: ParsedCommand) throws {
        try expectEqual(self.table.parse(arguments), command)
    }

    @Test func `a command in a group is found`() throws {
        guard case .run(let arguments) = try self.table.parse(["serve", "pusher", "--port", "0"]) else {
            Issue.record("the command line does not run a command")
            return
        }
        expectEqual(arguments.path, ["serve", "pusher"])
        expectEqual(arguments.integer("port"), 0)
    }

    @Test(
        arguments: [
            (["dmeo"], [], "Unknown command 'dmeo'. Did you mean 'demo'?"),
            (["pusher", "publsh"], ["pusher"], "Unknown command 'pusher publsh'. Did you mean 'publish'?"),
            (["zzzzz"], [], "Unknown command 'zzzzz'"),
            (["help", "dmeo"], [], "Unknown command 'dmeo'. Did you mean 'demo'?"),
            (["help", "pusher", "zzzzz"], ["pusher"], "Unknown command 'pusher zzzzz'"),
            (
                ["pusher"], ["pusher"],
                "Missing command after 'pusher': expected subscribe, trigger, publish, channels, users, terminate or sign"
            ),
            (["--json"], [], "Unexpected option '--json' before the command"),
            (["pusher", "--version"], ["pusher"], "Unexpected option '--version' before the command"),
        ] as [([String], [String], String)])
    func `a missing or unknown command is an error`(_ arguments: [String], _ path: [String], _ message: String) {
        #expect(throws: UsageError(path, message)) { try self.table.parse(arguments) }
    }

    @Test func `hidden commands are not listed`() {
        expectEqual(
            self.table.entries(under: []).map(\.name), ["serve", "pusher", "signalr", "primus", "demo", "completion", "manual", "bench"])
        expectEqual(
            self.table.entries(under: ["pusher"]).map(\.name),
            [
                "subscribe", "trigger", "publish", "channels", "users", "terminate", "sign",
            ])
        expectEqual(self.table.entries(under: ["signalr"]).map(\.name), ["invoke", "send", "stream", "listen"])
        expectEqual(self.table.entries(under: ["primus"]).map(\.name), ["listen", "write", "send", "spec"])
    }

    @Test(arguments: Self.specs)
    func `the help of a command is complete and fits a terminal`(_ spec: CommandSpec) {
        let help = Help(table: self.table).text(for: spec.path)
        for option in spec.options { expect(help.contains("--\(option.name)")) }
        for positional in spec.positionals { expect(help.contains(positional.name)) }
        expect(help.contains("--help"))
        expect(help.hasSuffix("\n") && !help.hasSuffix("\n\n"))
        let examples = spec.examples.map { "  realtime \($0)" }
        for line in help.split(separator: "\n") where !examples.contains(String(line)) {
            expect(line.count <= 80, "too wide: \(line)")
            expect(line.last != " ", "ends in a space: \(line)")
        }
    }

    @Test(arguments: Self.specs)
    func `the examples of a command are valid`(_ spec: CommandSpec) throws {
        for example in spec.examples {
            // Without the redirection of standard input.
            let arguments = example.split(separator: " ").prefix { $0 != "<" }.map { String($0.filter { $0 != "'" }) }
            guard case .run(let arguments) = try self.table.parse(arguments) else {
                Issue.record("\(example) does not run a command")
                return
            }
            expectEqual(arguments.path, spec.path)
            _ = try Realtime.tool.command(arguments)
        }
    }

    @Test(arguments: Self.specs)
    func `the declaration of every command is consistent`(_ spec: CommandSpec) {
        expectEqual(Set(spec.allOptions.map(\.name)).count, spec.allOptions.count)
        expect(!spec.summary.hasSuffix("."))
        for (index, positional) in spec.positionals.enumerated() {
            if case .repeated = positional.presence { expectEqual(index, spec.positionals.count - 1) }
            if case .requiredWithout(let option) = positional.presence { expect(spec.options.contains { $0.name == option }) }
        }
        for option in spec.options {
            if case .requiredWithout(let other) = option.presence { expect(spec.options.contains { $0.name == other }) }
        }
        expect(spec.options.allSatisfy { $0.help.hasSuffix(".") })
    }

    @Test func `options that commands share have the same order and type`() {
        for (first, second) in Self.specs.flatMap({ first in Self.specs.map { (first, $0) } }) {
            let shared = Set(first.options.map(\.name)).intersection(second.options.map(\.name))
            expectEqual(first.options.map(\.name).filter(shared.contains), second.options.map(\.name).filter(shared.contains))
            for name in shared {
                let kinds = [first, second].map { spec in spec.options.first { $0.name == name }?.kind }
                expect(kinds[0] == kinds[1] || name == "port", "--\(name)")
            }
        }
    }

    @Test func `every command that prints events has timestamps, after the format`() {
        let commands = Self.specs.filter { spec in spec.options.contains { $0.name == "timestamps" } }
        expectEqual(
            Set(commands.map { $0.path.joined(separator: " ") }),
            [
                "serve pusher", "serve signalr", "serve primus", "pusher subscribe", "pusher trigger", "signalr invoke", "signalr send",
                "signalr stream", "signalr listen", "primus listen", "primus write", "primus send",
            ])
        for spec in commands {
            let names = spec.options.map(\.name)
            expectEqual(names.firstIndex(of: "timestamps"), names.firstIndex(of: "json").map { $0 + 1 })
        }
    }

    @Test func `the help of the tool lists the command help and the exit status`() {
        let help = Help(table: self.table).text(for: [])
        expect(help.contains("\n  help "))
        expect(help.contains("2 for invalid arguments"))
    }
}

@Suite struct CommandArgumentsTests {
    private static let invalidURLMessage: String = {
        do throws(TransportError) {
            return "\(try Endpoint("host"))"
        } catch {
            return error.message
        }
    }()

    private func parse<Value>(
        _ spec: CommandSpec, _ arguments: [String], environment: [String: String] = [:], _ make: (Arguments) throws -> Value
    ) throws -> Value {
        guard case .run(let arguments) = try ArgumentParser.parse(arguments, for: spec, environment: { environment[$0] }) else {
            throw UsageError([], "unexpected request for help")
        }
        return try make(arguments)
    }

    @Test func `subscribe accepts a URL or a cluster`() throws {
        let byURL = try self.parse(
            PusherSubscribeCommand.spec, ["wss://host/x", "--key", "k", "a", "b", "--event", "e", "--count", "2", "--timeout", "0.5"],
            PusherSubscribeCommand.init)
        expectEqual(byURL.connection.service, .endpoint(try .init("wss://host/x")))
        expectEqual(byURL.channels, ["a", "b"])
        expectEqual(byURL.events, ["e"])
        expectEqual(byURL.count, 2)
        expectEqual(byURL.timeout, .milliseconds(500))
        let byCluster = try self.parse(PusherSubscribeCommand.spec, ["--cluster", "eu", "--key", "k", "a"], PusherSubscribeCommand.init)
        expectEqual(byCluster.connection.service, .cluster("eu"))
        expectEqual(byCluster.channels, ["a"])
    }

    @Test(
        arguments: [
            (["host", "--key", "k", "a"], Self.invalidURLMessage),
            (["ws://host", "a", "--key", "k", "--cluster", "eu"], "Specify either URL or '--cluster', not both"),
            (
                ["a", "--key", "k", "--cluster", "e/u"],
                "Invalid value 'e/u' for '--cluster': use only lowercase letters, digits and dashes"
            ),
            (
                ["ws://host", "a", "--key", "k", "--auth-endpoint", "ws://x"],
                "Invalid value 'ws://x' for '--auth-endpoint': must be an http:// or https:// URL"
            ),
            (
                ["ws://host", "a", "--key", "k", "--auth-endpoint", "http://x", "--secret", "s"],
                "Specify either '--secret' or '--auth-endpoint', not both"
            ),
            (
                ["ws://host", "a", "--key", "k", "--auth-endpoint", "http://x", "--user-id", "u"],
                "Specify either '--user-id' or '--auth-endpoint', not both"
            ),
            (
                ["ws://host", "a", "--key", "k", "--secret", "s", "--secret-file", "f"],
                "Specify either '--secret' or '--secret-file', not both"
            ),
            (
                ["ws://host", "a", "--key", "k", "--event", "pusher:note"],
                "'pusher:note' is an event of the protocol; specify '--verbose' to print it"
            ),
            (
                ["ws://host", "a", "--key", "k", "--secret", "s", "--user-info", "{"],
                #"Invalid value '{' for '--user-info': must be JSON, such as {"name":"Anna"}"#
            ),
        ] as [([String], String)])
    func `subscribe rejects conflicting arguments`(_ arguments: [String], _ message: String) {
        #expect(throws: UsageError(["pusher", "subscribe"], message)) {
            try self.parse(PusherSubscribeCommand.spec, arguments, PusherSubscribeCommand.init)
        }
    }

    @Test(
        arguments: [
            (
                ["ws://host", "private-a"],
                "s '--key KEY', '--secret SECRET' (or '--secret-file FILE', or '--auth-endpoint URL') for 'private-a'"
            ),
            (["private-a"], "s 'CHANNEL', '--key KEY'"),
            (
                ["--cluster", "eu", "a", "presence-b", "--key", "k"],
                " '--secret SECRET' (or '--secret-file FILE', or '--auth-endpoint URL') for 'presence-b'"
            ),
            (["ws://host", "a", "--user-id", "u"], "s '--key KEY', '--secret SECRET' (or '--secret-file FILE') for '--user-id'"),
            (
                ["ws://host", "private-a", "--key", "k", "--user-info", "{}"],
                " '--secret SECRET' (or '--secret-file FILE') for '--user-info'"
            ),
        ] as [([String], String)])
    func `subscribe names all missing arguments`(_ arguments: [String], _ missing: String) {
        #expect(throws: UsageError(["pusher", "subscribe"], "Missing argument\(missing)")) {
            try self.parse(PusherSubscribeCommand.spec, arguments, PusherSubscribeCommand.init)
        }
    }

    private static let commandsWithNetwork = CommandTableTests.specs.filter { spec in spec.options.contains { $0.name == "ca" } }

    @Test func `every command for a server of others has a proxy, after the certificates`() {
        expectEqual(Self.commandsWithNetwork.count, 14)
        for spec in Self.commandsWithNetwork {
            let names = spec.options.map(\.name)
            expectEqual(names.firstIndex(of: "proxy"), names.firstIndex(of: "ca").map { $0 + 1 })
        }
        for spec in CommandTableTests.specs where spec.options.contains(where: { $0.name == "proxy" }) {
            expect(spec.options.contains { $0.name == "ca" })
        }
    }

    @Test(
        arguments: [
            ([], ProxyConfiguration.none), (["--proxy", "none"], .none), (["--proxy", "environment"], .environment),
            (["--proxy", "http://proxy.test:3128"], .http(host: "proxy.test", port: 3128)),
            (["--proxy", "proxy.test:3128"], .http(host: "proxy.test", port: 3128)),
            (
                ["--proxy", "socks5://anna:hunter2@proxy.test"],
                .socks5(host: "proxy.test", credentials: .init(username: "anna", password: "hunter2"))
            ),
        ] as [([String], ProxyConfiguration)])
    func `a proxy is a URL, the environment or none`(_ options: [String], _ proxy: ProxyConfiguration) throws {
        let arguments = ["ws://host", "a", "--key", "k"] + options
        try expectEqual(self.parse(PusherSubscribeCommand.spec, arguments) { try NetworkOptions($0) }.proxy, proxy)
    }

    @Test(arguments: ["http://anna:hunter2@proxy.test:99999", "ftp://anna:hunter2@proxy.test", "https://anna:hunter2@proxy.test"])
    func `an invalid proxy is an error that does not repeat the password`(_ url: String) {
        let arguments = ["http://h", "--app-id", "a", "--key", "k", "--secret", "s", "c", "e", "d", "--proxy", url]
        let error = #expect(throws: UsageError.self) {
            try self.parse(PusherPublishCommand.spec, arguments, PusherPublishCommand.init)
        }
        expect(error?.message.hasPrefix("Invalid value for '--proxy'. ") == true && error?.message.contains("hunter2") == false)
    }

    @Test func `publish names all missing arguments`() {
        let missing =
            "'URL' (or '--cluster NAME'), 'CHANNEL', 'EVENT', 'DATA', '--app-id ID', '--key KEY', '--secret SECRET' (or '--secret-file FILE')"
        #expect(throws: UsageError(["pusher", "publish"], "Missing arguments \(missing)")) {
            try self.parse(PusherPublishCommand.spec, [], PusherPublishCommand.init)
        }
    }

    @Test func `a secret in the environment authorizes, unless an option does`() throws {
        func authorization(_ options: [String]) throws -> PusherAuthorizationOptions? {
            let arguments = ["ws://host", "presence-a", "--key", "k"] + options
            return try self.parse(PusherSubscribeCommand.spec, arguments, environment: [Secret.pusherVariable: "env"]) {
                try PusherSubscribeCommand($0).connection.authorization
            }
        }
        guard
            case .secret(.environment("env"), userID: "anna", userInfo: .object(["name": "A"]), encryptionKey: nil)? = try authorization(
                ["--user-id", "anna", "--user-info", #"{"name":"A"}"#])
        else {
            Issue.record("the environment is ignored")
            return
        }
        guard case .secret(.option("s"), userID: nil, userInfo: nil, encryptionKey: nil)? = try authorization(["--secret", "s"]),
            case .secret(.file("f", "secret"), userID: nil, userInfo: nil, encryptionKey: nil)? = try authorization(["--secret-file", "f"]),
            case .endpoint? = try authorization(["--auth-endpoint", "http://x/auth"])
        else {
            Issue.record("an option is ignored")
            return
        }
    }

    @Test(arguments: ["auth", "/app", "/apps/x", "/app/auth", "/a b", "/a?b", "/"])
    func `serve rejects a path for authorization that it uses itself or that is invalid`(_ path: String) {
        let message = "Invalid value '\(path)' for '--auth-endpoint': must be a path such as /pusher/auth, and not below /app or /apps"
        #expect(throws: UsageError(["serve", "pusher"], message)) {
            try self.parse(ServePusherCommand.spec, ["--auth-endpoint", path], ServePusherCommand.init)
        }
    }

    @Test func `publish accepts data that starts with a dash`() throws {
        let command = try self.parse(
            PusherPublishCommand.spec,
            ["http://h:1", "--app-id", "a", "--key", "k", "--secret", "s", "--socket-id", "1.2", "--", "c", "e", "--x"],
            PusherPublishCommand.init)
        expectEqual(command.data, "--x")
        expectEqual(command.excludedSocketID, "1.2")
    }

    @Test func `serve listens on a free local port by default`() throws {
        let command = try self.parse(ServePusherCommand.spec, [], ServePusherCommand.init)
        expectEqual(command.host, "127.0.0.1")
        expectEqual(command.port, 0)
        expectNil(command.secret)
    }

    @Test(
        arguments: [
            ([], [:], #","secret":"s""#), (["--secret", "s"], [:], #","secret":"s""#), (["--secret-file", "f"], [:], ""),
            ([], ["REALTIME_PUSHER_SECRET": "s"], ""),
            (["--auth-endpoint", "/auth"], [:], #","secret":"s","auth_endpoint":"http://127.0.0.1:8080/auth""#),
        ] as [([String], [String: String], String)])
    func `the first line of serve contains the secret unless it is hidden`(
        _ arguments: [String], _ environment: [String: String], _ end: String
    ) throws {
        let command = try self.parse(ServePusherCommand.spec, arguments, environment: environment, ServePusherCommand.init)
        let line = command.ready(
            ListenerAddress(host: "127.0.0.1", port: 8080, isSecure: false), [PusherApp(id: "a", key: "k", secret: "s")])
        let expected = #"{"ready":true,"url":"ws://127.0.0.1:8080","port":8080,"app":"a","key":"k""# + "\(end)}\n"
        expectEqual(String(decoding: line.json, as: UTF8.self), expected)
        expectEqual(String(decoding: line.text(isColored: false), as: UTF8.self).contains("secret: s"), !end.isEmpty)
    }

    @Test(
        arguments: [
            ([], [:], " --secret s"), (["--secret", "it's"], [:], #" --secret 'it'\''s'"#),
            (["--secret-file", "a b"], [:], " --secret-file 'a b'"),
            ([], ["REALTIME_PUSHER_SECRET": "s"], ""),
        ] as [([String], [String: String], String)])
    func `serve names commands to try, with its address and the secret as it was specified`(
        _ options: [String], _ environment: [String: String], _ secret: String
    ) throws {
        let command = try self.parse(ServePusherCommand.spec, options, environment: environment, ServePusherCommand.init)
        let app = PusherApp(id: "1", key: "k k", secret: options.first == "--secret" ? "it's" : "s")
        let commands = command.commands(ListenerAddress(host: "127.0.0.1", port: 8080), app)
        let ends = commands.compactMap { command in
            command.firstRange(of: " pusher ").map { String(command[$0.lowerBound...]) }
        }
        expectEqual(
            ends,
            [
                " pusher subscribe ws://127.0.0.1:8080 --key 'k k' prices",
                " pusher publish ws://127.0.0.1:8080 --app-id 1 --key 'k k'\(secret) prices price '{\"value\":12.5}'",
                " pusher subscribe ws://127.0.0.1:8080 --key 'k k'\(secret) --user-id anna presence-room",
            ])
    }

    @Test func `the commands to try with several apps contain no secret`() throws {
        let command = try self.parse(ServePusherCommand.spec, ["--app", "1:k:hunter2", "--app", "2:l:hunter2"], ServePusherCommand.init)
        let commands = command.commands(ListenerAddress(host: "127.0.0.1", port: 8080), command.apps[0])
        expect(commands.count == 1 && commands[0].hasSuffix(" pusher subscribe ws://127.0.0.1:8080 --key k prices"))
    }

    @Test func `each serve command has TLS`() throws {
        let arguments = ["--tls", "certificate.pem", "key.pem"]
        let tls = TLSServerConfiguration(TLSIdentity(certificateChain: .file("certificate.pem"), privateKey: .file("key.pem")))
        let command = try self.parse(ServeSignalRCommand.spec, arguments, ServeSignalRCommand.init)
        expectEqual(command.address.tls, tls)
        let address = ListenerAddress(host: "127.0.0.1", port: 8443, isSecure: true)
        let line = String(decoding: ServeSignalRCommand.ready(address).json, as: UTF8.self)
        expect(line.contains(#""url":"https://127.0.0.1:8443""#))
        expect(command.commands(address).allSatisfy { $0.contains(" https://127.0.0.1:8443/") })
        let primus = try self.parse(ServePrimusCommand.spec, arguments, ServePrimusCommand.init)
        expectEqual(primus.address.tls, tls)
        expect(String(decoding: primus.ready(address).json, as: UTF8.self).contains(#""url":"https://127.0.0.1:8443/primus""#))
        expect(primus.commands(address).allSatisfy { $0.contains(" https://127.0.0.1:8443/primus") })
    }

    @Test(arguments: [PusherSubscribeCommand.spec, SignalRListenCommand.spec].map(\.path))
    func `commands with a connection accept header fields`(path: [String]) throws {
        func headers(_ fields: [String]) throws -> HTTPHeaders {
            let words = path + ["ws://127.0.0.1:80/chat", "a"] + (path[0] == "pusher" ? ["--key", "k"] : [])
            guard case .run(let arguments) = try Realtime.tool.table.parse(words + fields.flatMap { ["--header", $0] }) else { return [:] }
            return try HTTPHeaders(arguments)
        }
        let valid = try headers(["X-Tenant: 7", "X-Empty:", "Authorization:a: b"])
        expectEqual(valid.map { "\($0.name)=\($0.value)" }, ["X-Tenant=7", "X-Empty=", "Authorization=a: b"])
        for field in ["sesame", ": sesame", "X Y: sesame", "X: sesame\u{7}"] {
            let error = #expect(throws: UsageError.self) { try headers([field]) }
            expect(error?.message.contains("--header") == true && error?.message.contains("sesame") == false)
        }
    }

    @Test func `the first line of serve has the schemes of TLS`() throws {
        let arguments = ["--tls", "certificate.pem", "key.pem", "--auth-endpoint", "/auth"]
        let command = try self.parse(ServePusherCommand.spec, arguments, ServePusherCommand.init)
        expectEqual(
            command.tls, TLSServerConfiguration(TLSIdentity(certificateChain: .file("certificate.pem"), privateKey: .file("key.pem"))))
        let line = command.ready(
            ListenerAddress(host: "127.0.0.1", port: 8443, isSecure: true), [PusherApp(id: "a", key: "k", secret: "s")])
        let json = String(decoding: line.json, as: UTF8.self)
        expect(json.contains(#""url":"wss://127.0.0.1:8443""#) && json.contains(#""auth_endpoint":"https://127.0.0.1:8443/auth""#))
    }

    @Test(
        arguments: [
            (["--app", "1:k"], "Invalid value for '--app': must be an ID, a key and a secret, such as 1:key:secret"),
            (["--app", "1::s"], "Invalid value for '--app': must be an ID, a key and a secret, such as 1:key:secret"),
            (["--app", "1:k:s", "--key", "k"], "Specify either '--key' or '--app', not both"),
            (["--app", "1:k:s", "--app", "1:l:s"], "Two apps have the ID '1' or the key 'l'; use different ones"),
            (
                ["--app", "1:k:s", "--app", "2:l:s", "--auth-endpoint", "/auth"],
                "'--auth-endpoint' requires a single app, because requests don't name the app"
            ),
            (["--webhook", "ws://host"], "Invalid value 'ws://host' for '--webhook': must be an http:// or https:// URL"),
        ] as [([String], String)])
    func `serve rejects apps and webhooks that contradict each other`(_ arguments: [String], _ message: String) {
        #expect(throws: UsageError(["serve", "pusher"], message)) {
            try self.parse(ServePusherCommand.spec, arguments, ServePusherCommand.init)
        }
    }

    @Test func `serve lists its apps without their secrets`() throws {
        let command = try self.parse(
            ServePusherCommand.spec, ["--app", "1:k:hunter2:x", "--app", "2:l:hunter2", "--webhook", "https://host/hook"],
            ServePusherCommand.init)
        expect(command.apps.map(\.secret) == ["hunter2:x", "hunter2"] && command.webhooks.map(\.host) == ["host"])
        let line = command.ready(ListenerAddress(host: "127.0.0.1", port: 8080, isSecure: false), command.apps)
        let apps = #"[{"app":"1","key":"k"},{"app":"2","key":"l"}]"#
        expectEqual(
            String(decoding: line.json, as: UTF8.self), #"{"ready":true,"url":"ws://127.0.0.1:8080","port":8080,"apps":\#(apps)}"# + "\n")
        expect(!String(decoding: line.text(isColored: false), as: UTF8.self).contains("hunter2"))
    }

    @Test(
        arguments: [
            (["channels", "http://h", "--prefix", "p", "c"], "Specify either CHANNEL or '--prefix', not both"),
            (["sign", "1.2", "private-a", "--watch", "w"], "Specify either CHANNEL or '--watch', not both"),
            (["sign", "1.2"], "Missing argument '--user-id ID'"), (["sign", "1.2", "presence-a"], "Missing argument '--user-id ID'"),
        ] as [([String], String)])
    func `commands for the HTTP API reject conflicting arguments`(_ arguments: [String], _ message: String) {
        let credentials = ["--key", "k", "--secret", "s"] + (arguments[0] == "sign" ? [] : ["--app-id", "1"])
        let error = #expect(throws: UsageError.self) {
            guard case .run(let arguments) = try Realtime.tool.table.parse(["pusher"] + arguments + credentials) else { return }
            _ = try Realtime.tool.command(arguments)
        }
        expectEqual(error?.message, message)
    }

    @Test(arguments: [
        ("/home/me/package/.build/x86_64-unknown-linux-gnu/debug/realtime", "/home/me/package", "swift run realtime"),
        ("/home/me/package/.build/arm64-apple-macosx/release/realtime", "/home/me/package", "swift run realtime"),
        // The user typed the path of the binary.
        ("/home/me/package/.build/release/realtime", "/home/me/package", "/home/me/package/.build/release/realtime"),
        ("/home/me/package/.build/debug/realtime", "/home/me/package", "/home/me/package/.build/debug/realtime"),
        ("/home/me/package/.build-strict/x/debug/realtime", "/home/me/package", "/home/me/package/.build-strict/x/debug/realtime"),
        ("/home/me/package/.build/x/debug/realtime", "/home/me", "/home/me/package/.build/x/debug/realtime"),
        ("/usr/local/bin/realtime", "/home/me/package", "/usr/local/bin/realtime"),
        (".build/debug/realtime", "/home/me/package", ".build/debug/realtime"),
        ("realtime", "/", "realtime"),
        ("/it's here/realtime", "/", #"'/it'\''s here/realtime'"#),
    ])
    func `commands to try name the tool as a shell in the same folder finds it`(_ path: String, _ folder: String, _ command: String) {
        expectEqual(Shell.executable(path, workingDirectory: folder), command)
    }
}
