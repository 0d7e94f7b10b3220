import PusherServer
import RealtimeCore
import Testing

@testable import CommandLineSupport
@testable import RealtimeBenchmarks
@testable import realtime

@Suite struct CommandTableTests {
    static let specs = Realtime.tool.commands.map { $0.spec }
    let table = Realtime.tool.table

    @Test(arguments: [
        ([], ParsedCommand.help([])), (["--help"], .help([])), (["-h"], .help([])), (["--version"], .version),
        (["pusher", "--help"], .help(["pusher"])), (["pusher", "publish", "-h"], .help(["pusher", "publish"])),
        (["demo", "--help"], .help(["demo"])),
    ])
    func `help is available at every level`(_ arguments: [String], _ command: ParsedCommand) throws {
        #expect(try self.table.parse(arguments) == command)
    }

    @Test func `a command in a group is found`() throws {
        guard case .run(let arguments) = try self.table.parse(["serve", "pusher", "--port", "0"]) else {
            Issue.record("the command line does not run a command")
            return
        }
        #expect(arguments.path == ["serve", "pusher"])
        #expect(arguments.integer("port") == 0)
    }

    @Test(
        arguments: [
            (["dmeo"], [], "Unknown command 'dmeo'. Did you mean 'demo'?"),
            (["pusher", "publsh"], ["pusher"], "Unknown command 'pusher publsh'. Did you mean 'publish'?"),
            (["zzzzz"], [], "Unknown command 'zzzzz'"),
            (["pusher"], ["pusher"], "Missing command after 'pusher': expected subscribe or publish"),
            (["--json"], [], "Unexpected option '--json' before the command"),
            (["pusher", "--version"], ["pusher"], "Unexpected option '--version' before the command"),
        ] as [([String], [String], String)])
    func `a missing or unknown command is an error`(_ arguments: [String], _ path: [String], _ message: String) {
        #expect(throws: UsageError(path, message)) { try self.table.parse(arguments) }
    }

    @Test func `hidden commands are not listed`() {
        #expect(self.table.entries(under: []).map(\.name) == ["serve", "pusher", "demo", "bench"])
        #expect(self.table.entries(under: ["pusher"]).map(\.name) == ["subscribe", "publish"])
    }

    @Test(arguments: Self.specs)
    func `the help of a command is complete and fits a terminal`(_ spec: CommandSpec) {
        let help = Help(table: self.table).text(for: spec.path)
        for option in spec.options { #expect(help.contains("--\(option.name)")) }
        for positional in spec.positionals { #expect(help.contains(positional.name)) }
        #expect(help.contains("--help"))
        #expect(help.hasSuffix("\n") && !help.hasSuffix("\n\n"))
        let examples = spec.examples.map { "  realtime \($0)" }
        for line in help.split(separator: "\n") where !examples.contains(String(line)) {
            #expect(line.count <= 80, "too wide: \(line)")
            #expect(line.last != " ", "ends in a space: \(line)")
        }
    }

    @Test(arguments: Self.specs)
    func `the examples of a command parse`(_ spec: CommandSpec) throws {
        for example in spec.examples {
            let arguments = example.split(separator: " ").map { String($0.filter { $0 != "'" }) }
            guard case .run(let arguments) = try self.table.parse(arguments) else {
                Issue.record("\(example) does not run a command")
                return
            }
            #expect(arguments.path == spec.path)
        }
    }

    @Test(arguments: Self.specs)
    func `the declaration of every command is consistent`(_ spec: CommandSpec) {
        #expect(Set(spec.allOptions.map(\.name)).count == spec.allOptions.count)
        #expect(!spec.summary.hasSuffix("."))
        for (index, positional) in spec.positionals.enumerated() {
            if case .repeated = positional.presence { #expect(index == spec.positionals.count - 1) }
            if case .requiredWithout(let option) = positional.presence { #expect(spec.options.contains { $0.name == option }) }
        }
        #expect(spec.options.allSatisfy { $0.help.hasSuffix(".") })
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

    private func parse<Value>(_ spec: CommandSpec, _ arguments: [String], _ make: (Arguments) throws -> Value) throws -> Value {
        guard case .run(let arguments) = try ArgumentParser.parse(arguments, for: spec) else {
            throw UsageError([], "unexpected request for help")
        }
        return try make(arguments)
    }

    @Test func `subscribe accepts a URL or a cluster`() throws {
        let byURL = try self.parse(
            PusherSubscribeCommand.spec, ["wss://host/x", "--key", "k", "a", "b", "--event", "e", "--count", "2", "--timeout", "0.5"],
            PusherSubscribeCommand.init)
        #expect(byURL.service == .endpoint(try .init("wss://host/x")))
        #expect(byURL.channels == ["a", "b"])
        #expect(byURL.events == ["e"])
        #expect(byURL.count == 2)
        #expect(byURL.timeout == .milliseconds(500))
        let byCluster = try self.parse(PusherSubscribeCommand.spec, ["--cluster", "eu", "--key", "k", "a"], PusherSubscribeCommand.init)
        #expect(byCluster.service == .cluster("eu"))
        #expect(byCluster.channels == ["a"])
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
                ["ws://host", "a", "private-b", "--key", "k"],
                "Channel 'private-b' requires authorization; specify '--secret' or '--auth-endpoint'"
            ),
            (
                ["--cluster", "eu", "presence-a", "--key", "k"],
                "Channel 'presence-a' requires authorization; specify '--secret' or '--auth-endpoint'"
            ),
        ] as [([String], String)])
    func `subscribe rejects conflicting arguments`(_ arguments: [String], _ message: String) {
        #expect(throws: UsageError(["pusher", "subscribe"], message)) {
            try self.parse(PusherSubscribeCommand.spec, arguments, PusherSubscribeCommand.init)
        }
    }

    @Test func `publish accepts data that starts with a dash`() throws {
        let command = try self.parse(
            PusherPublishCommand.spec,
            ["http://h:1", "--app-id", "a", "--key", "k", "--secret", "s", "--socket-id", "1.2", "--", "c", "e", "--x"],
            PusherPublishCommand.init)
        #expect(command.data == "--x")
        #expect(command.excludedSocketID == "1.2")
    }

    @Test func `serve listens on a free local port by default`() throws {
        let command = try self.parse(ServePusherCommand.spec, [], ServePusherCommand.init)
        #expect(command.host == "127.0.0.1")
        #expect(command.port == 0)
        #expect(command.secret == nil)
    }

    @Test func `the first line of serve keeps the order of its members`() {
        let line = ServePusherCommand.ready(url: "http://127.0.0.1:8080", port: 8080, app: PusherApp(id: "a", key: "k", secret: "s"))
        let expected = #"{"ready":true,"url":"http://127.0.0.1:8080","port":8080,"app":"a","key":"k","secret":"s"}"# + "\n"
        #expect(String(decoding: line.json, as: UTF8.self) == expected)
    }
}
