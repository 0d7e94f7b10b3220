import Foundation
import Processes
import TestSupport
import Testing

@testable import CommandLineSupport
@testable import realtime

/// Runs the scripts of `realtime completion` in their shells.
@Suite(.usesSockets) struct CompletionTests {
    private static let commands = CommandTableTests.specs.filter { !$0.isHidden }
    private static let names = ["serve", "pusher", "signalr", "primus", "demo", "completion", "manual", "bench", "help"]

    /// Runs a program of a shell in which `$1` is the path of the completion script.
    private func run(_ shell: [String], _ script: CompletionShell, _ program: String, _ arguments: [String]) async throws -> [String] {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("completion-\(UUID().uuidString)").path
        try Data(Realtime.tool.completionScript(for: script).utf8).write(to: URL(fileURLWithPath: file))
        defer { try? FileManager.default.removeItem(atPath: file) }
        var command = shell + ["-c", program]
        // fish has no $0.
        if script != .fish { command.append("test") }
        command += [file] + arguments
        let process = try ChildProcess(command, errors: .captured)
        process.endInput()
        let end = await Tool(process: process).end()
        expect(end.errors.isEmpty, "\(end.errors)")
        return end.output.split(separator: "\n").map(String.init)
    }

    // MARK: bash

    /// Returns what bash suggests for the last word.
    private func bash(_ words: [String]) async throws -> [String] {
        let program = """
            source "$1"
            shift
            COMP_WORDS=(realtime "$@")
            COMP_CWORD=$#
            _realtime
            [ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\\n' "${COMPREPLY[@]}"
            """
        return try await self.run(["bash", "--norc"], .bash, program, words)
    }

    @Test(
        .requires(.bash),
        arguments: [
            ([""], Self.names), (["s"], ["serve", "signalr"]), (["serve", ""], ["pusher", "signalr", "primus"]),
            (["help", "pusher", "pub"], ["publish"]),
            (["--"], ["--version", "--help"]), (["serve", "--"], ["--help"]),
            (["serve", "signalr", "--allow"], ["--allow-foreign-origins"]),
            (["serve", "pusher", "--profile", ""], ["pusher", "soketi", "reverb", "slanger", "sockudo"]),
            (["serve", "pusher", "--profile", "=", "so"], ["soketi", "sockudo"]),
            (["serve", "pusher", "--profile", "="], ["pusher", "soketi", "reverb", "slanger", "sockudo"]),
            (["signalr", "invoke", "--json", "--protocol", "m"], ["messagePack"]), (["completion", ""], ["bash", "zsh", "fish"]),
            // The shell knows nothing about the values, and about what follows them.
            (["serve", "pusher", "--port", ""], []), (["serve", "pusher", "--port", "--"], []), (["pusher", "publish", "--", "--k"], []),
            (["serve", "pusher", "--port", "80", "--pr"], ["--profile"]), (["serve", "pusher", "--app-id", "serve", "--hos"], ["--host"]),
            (["pusher", "publish", "http", ":", "//127.0.0.1", ":", "80", "--app"], ["--app-id"]), (["nothing", ""], []),
            (["serve", "nothing", ""], []),
        ] as [([String], [String])])
    func `bash suggests commands, options and their values`(_ words: [String], _ expected: [String]) async throws {
        try await expectEqual(self.bash(words), expected)
    }

    @Test(.requires(.bash), arguments: Self.commands)
    func `bash suggests every option of a command`(_ spec: CommandSpec) async throws {
        try await expectEqual(self.bash(spec.path + ["--"]), spec.allOptions.map { "--\($0.name)" })
    }

    @Test(
        .requires(.bash),
        arguments: [
            ["signalr", "invoke", "--ca"], ["pusher", "sign", "--secret-file"], ["serve", "signalr", "--tls"],
            ["serve", "signalr", "--tls", "=", "a.pem"], ["serve", "signalr", "--tls", "a.pem"],
        ])
    func `bash suggests files`(_ words: [String]) async throws {
        let file = Vectors.path("certificates/root.pem")
        try await expectEqual(self.bash(words + [String(file.dropLast(6))]), [file])
    }

    // MARK: zsh

    /// Returns what the script passes to the functions of zsh for completion.
    private func zsh(_ words: [String]) async throws -> [String] {
        let program = """
            compdef() {}
            _arguments() { print -rl -- "$@" }
            _describe() { print -rl -- "${commands[@]}" }
            source "$1"
            shift
            words=(realtime "$@")
            CURRENT=$#words
            _realtime
            """
        return try await self.run(["zsh", "-f"], .zsh, program, words)
    }

    @Test(.requires(.zsh))
    func `zsh describes commands, options and their values`() async throws {
        let serve = [
            "pusher:Run a Pusher Channels server", "signalr:Run a SignalR server with hubs to try", "primus:Run a Primus server to try",
        ]
        try await expectEqual(self.zsh(["serve", ""]), serve)
        try await expectEqual(self.zsh(["help", "serve", ""]), serve)
        try await expectEqual(self.zsh([""]).map { $0.split(separator: ":")[0] }, Self.names.map { $0[...] })
        let pusher = try await self.zsh(["serve", "pusher", ""])
        let profile = try #require(pusher.first { $0.hasPrefix("--profile=[The server to imitate") })
        expect(profile.hasSuffix(":NAME:(pusher soketi reverb slanger sockudo)"))
        expect(pusher.contains { $0.hasPrefix("--tls[Serve wss and https") && $0.hasSuffix(":CERTIFICATE:_files:KEY:_files") })
        expect(pusher.contains { $0.hasPrefix("*--app=[") && $0.hasSuffix(#":ID\:KEY\:SECRET: "#) })
        try await expectEqual(self.zsh(["completion", ""]).last, ":SHELL:(bash zsh fish)")
        try await expect(self.zsh(["nothing", ""]).isEmpty)
    }

    @Test(.requires(.zsh), arguments: Self.commands)
    func `zsh knows every option of a command`(_ spec: CommandSpec) async throws {
        let options = try await self.zsh(spec.path + ["--"]).compactMap { line in
            line.firstMatch(of: /^\*?--([^=\[]+)=?\[/).map { String($0.1) }
        }
        expectEqual(options, spec.allOptions.map(\.name))
    }

    // MARK: fish

    /// Returns what fish suggests for a command line.
    private func fish(_ line: String) async throws -> [String] {
        let program = "source $argv[1]; complete -C $argv[2]"
        return try await self.run(["fish", "--no-config"], .fish, program, ["realtime " + line])
    }

    @Test(
        .requires(.fish),
        arguments: [
            ("", Self.names.sorted()), ("s", ["serve", "signalr"]), ("serve ", ["primus", "pusher", "signalr"]),
            ("help pusher pub", ["publish"]),
            ("serve signalr --allow", ["--allow-foreign-origins"]), ("serve pusher --profile so", ["sockudo", "soketi"]),
            ("serve pusher --profile=so", ["--profile=sockudo", "--profile=soketi"]), ("completion ", ["bash", "fish", "zsh"]),
            ("serve pusher --port ", []), ("serve pusher --app-id serve --hos", ["--host"]), ("nothing ", []),
        ] as [(String, [String])])
    func `fish suggests commands, options and their values`(_ line: String, _ expected: [String]) async throws {
        try await expectEqual(self.fish(line).map { String($0.split(separator: "\t")[0]) }.sorted(), expected)
    }

    @Test(.requires(.fish), arguments: Self.commands)
    func `fish suggests every option of a command`(_ spec: CommandSpec) async throws {
        let lines = try await self.fish(spec.path.joined(separator: " ") + " --")
        let options = lines.map { String($0.split(separator: "\t")[0].dropFirst(2)) }
        expectEqual(options.sorted(), spec.allOptions.map(\.name).sorted())
    }

    @Test(
        .requires(.fish),
        arguments: ["signalr invoke --ca ", "serve signalr --tls ", "serve signalr --tls a.pem "])
    func `fish suggests files`(_ line: String) async throws {
        let file = Vectors.path("certificates/root.pem")
        try await expectEqual(self.fish(line + file.dropLast(6)).map { String($0.split(separator: "\t")[0]) }, [file])
    }

    // MARK: All shells

    @Test func `a shell that is not known is a usage error`() throws {
        guard case .run(let arguments) = try Realtime.tool.table.parse(["completion", "tcsh"]) else { return }
        #expect(throws: UsageError(["completion"], "Unknown shell 'tcsh': expected bash, zsh or fish")) {
            try Realtime.tool.command(arguments)
        }
    }

    @Test func `options that name a file or have fixed values say so`() {
        for option in Self.commands.flatMap(\.options) {
            let takesFile = option.name == "ca" || option.name == "tls" || option.name.hasSuffix("-file")
            expectEqual((option.completion == .files), takesFile, "--\(option.name)")
        }
    }

    @Test func `fixed values are those that commands accept`() throws {
        for (words, option) in [
            (["serve", "pusher"], "profile"), (["signalr", "invoke", "http://host/hub", "M"], "protocol"),
            (["signalr", "invoke", "http://host/hub", "M"], "transport"), (["signalr", "invoke", "http://host/hub", "M"], "proxy"),
        ] {
            guard let spec = Self.commands.first(where: { words.starts(with: $0.path) }),
                case .values(let values)? = spec.options.first(where: { $0.name == option })?.completion
            else {
                Issue.record("--\(option) has no values")
                continue
            }
            for value in values {
                guard case .run(let arguments) = try Realtime.tool.table.parse(words + ["--\(option)", value]) else { continue }
                #expect(throws: Never.self) { try Realtime.tool.command(arguments) }
            }
        }
    }
}
