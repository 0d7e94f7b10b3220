import CommandLineSupport
import RealtimeCore
import Testing

@testable import CommandLineSupport
@testable import RealtimeBenchmarks
@testable import realtime

@Suite struct CommandTableTests {
    static let specs = [
        DemoCommand.spec, ServePusherCommand.spec, PusherSubscribeCommand.spec, PusherPublishCommand.spec, BenchCommand.spec,
        AutobahnClientCommand.spec, AutobahnServerCommand.spec,
    ]
    let table = CommandTable(summary: Realtime.summary, groups: Realtime.groups, commands: Self.specs)

    @Test(arguments: [
        ([], CommandTable.Outcome.help([])), (["--help"], .help([])), (["-h"], .help([])), (["--version"], .version),
        (["pusher", "--help"], .help(["pusher"])), (["pusher", "publish", "-h"], .help(["pusher", "publish"])),
        (["demo", "--help"], .help(["demo"])),
    ])
    func `help is there on every level`(_ words: [String], _ outcome: CommandTable.Outcome) throws {
        #expect(try self.table.parse(words) == outcome)
    }

    @Test func `a command of a group is found`() throws {
        guard case .run(let arguments) = try self.table.parse(["serve", "pusher", "--port", "0"]) else {
            Issue.record("no command was found")
            return
        }
        #expect(arguments.path == ["serve", "pusher"])
        #expect(arguments.integer("port") == 0)
    }

    @Test(
        arguments: [
            (["dmeo"], [], "There is no command 'dmeo'; did you mean 'demo'?"),
            (["pusher", "publsh"], ["pusher"], "There is no command 'pusher publsh'; did you mean 'publish'?"),
            (["zzzzz"], [], "There is no command 'zzzzz'"),
            (["pusher"], ["pusher"], "A command is missing after pusher: subscribe or publish"),
            (["--json"], [], "There is no option --json before the command"),
            (["pusher", "--version"], ["pusher"], "There is no option --version before the command"),
        ] as [([String], [String], String)])
    func `what is no command is refused`(_ words: [String], _ path: [String], _ message: String) {
        #expect(throws: UsageError(path, message)) { try self.table.parse(words) }
    }

    @Test func `the list shows every command that is not hidden`() {
        #expect(self.table.entries(under: []).map(\.name) == ["serve", "pusher", "demo", "bench"])
        #expect(self.table.entries(under: ["pusher"]).map(\.name) == ["subscribe", "publish"])
    }

    @Test(arguments: Self.specs)
    func `every help is complete and fits a terminal`(_ spec: CommandSpec) {
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
    func `every example is understood`(_ spec: CommandSpec) throws {
        for example in spec.examples {
            let words = example.split(separator: " ").map { String($0.filter { $0 != "'" }) }
            guard case .run(let arguments) = try self.table.parse(words) else {
                Issue.record("\(example) does not run")
                return
            }
            #expect(arguments.path == spec.path)
        }
    }

    @Test(arguments: Self.specs)
    func `every spec holds together`(_ spec: CommandSpec) {
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
    private func parse<Value>(_ spec: CommandSpec, _ words: [String], _ make: (Arguments) throws -> Value) throws -> Value {
        guard case .run(let arguments) = try ArgumentParser.parse(words, for: spec) else { throw UsageError([], "help was asked for") }
        return try make(arguments)
    }

    @Test func `subscribe takes AURL or a cluster`() throws {
        let byURL = try self.parse(
            PusherSubscribeCommand.spec, ["wss://host/x", "--key", "k", "a", "b", "--event", "e", "--count", "2", "--timeout", "0.5"],
            PusherSubscribeCommand.init)
        #expect(byURL.place == .endpoint(try .init("wss://host/x")))
        #expect(byURL.channels == ["a", "b"])
        #expect(byURL.events == ["e"])
        #expect(byURL.count == 2)
        #expect(byURL.timeout == .milliseconds(500))
        let byCluster = try self.parse(PusherSubscribeCommand.spec, ["--cluster", "eu", "--key", "k", "a"], PusherSubscribeCommand.init)
        #expect(byCluster.place == .cluster("eu"))
        #expect(byCluster.channels == ["a"])
    }

    @Test(
        arguments: [
            (
                ["host", "--key", "k", "a"],
                "This is no address that can be used: it has no scheme such as ws:// or https://. It should look like ws://host:port/path"
            ),
            (["ws://host", "a", "--key", "k", "--cluster", "eu"], "Give either a URL or --cluster, not both"),
            (["a", "--key", "k", "--cluster", "e/u"], "The name of a cluster has small letters, digits and dashes only, not 'e/u'"),
            (
                ["ws://host", "a", "--key", "k", "--auth-endpoint", "ws://x"],
                "The value of --auth-endpoint has to be an http:// or https:// address"
            ),
            (
                ["ws://host", "a", "--key", "k", "--auth-endpoint", "http://x", "--secret", "s"],
                "Give either --secret or --auth-endpoint, not both"
            ),
            (["ws://host", "a", "private-b", "--key", "k"], "private-b needs a signature; give --secret or --auth-endpoint"),
            (["--cluster", "eu", "presence-a", "--key", "k"], "presence-a needs a signature; give --secret or --auth-endpoint"),
        ] as [([String], String)])
    func `subscribe refuses what does not go together`(_ words: [String], _ message: String) {
        #expect(throws: UsageError(["pusher", "subscribe"], message)) {
            try self.parse(PusherSubscribeCommand.spec, words, PusherSubscribeCommand.init)
        }
    }

    @Test func `publish takes data that begins with a dash`() throws {
        let command = try self.parse(
            PusherPublishCommand.spec,
            ["http://h:1", "--app-id", "a", "--key", "k", "--secret", "s", "--socket-id", "1.2", "--", "c", "e", "--x"],
            PusherPublishCommand.init)
        #expect(command.data == "--x")
        #expect(command.socketID == "1.2")
    }

    @Test func `serve listens on this machine unless told otherwise`() throws {
        let command = try self.parse(ServePusherCommand.spec, [], ServePusherCommand.init)
        #expect(command.host == "127.0.0.1")
        #expect(command.port == 0)
        #expect(command.secret == nil)
    }

    @Test func `the line that a program waits for has its members in order`() {
        let line = ServePusherCommand.ready(url: "http://127.0.0.1:8080", port: 8080, app: "a", key: "k", secret: "s")
        let expected = #"{"ready":true,"url":"http://127.0.0.1:8080","port":8080,"app":"a","key":"k","secret":"s"}"# + "\n"
        #expect(String(decoding: line.json, as: UTF8.self) == expected)
    }
}
