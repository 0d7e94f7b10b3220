internal import CommandLineSupport
internal import RealtimeBenchmarks
import RealtimeSystem

/// The tool `realtime`.
@main
enum Realtime {
    static let version = "0.1.0"
    static let summary = "Clients and servers for realtime protocols, from the command line"

    /// Every command there is. A new one is added here.
    static let commands: [any Command.Type] =
        [
            DemoCommand.self, ServePusherCommand.self, PusherSubscribeCommand.self, PusherPublishCommand.self,
        ] + BenchmarkCommands.all

    static let groups = [
        GroupSpec(path: ["serve"], summary: "Run a server for local work and tests"),
        GroupSpec(path: ["pusher"], summary: "Speak the Pusher Channels protocol"),
    ]

    static var table: CommandTable {
        // A group without commands has nothing to offer.
        let specs = self.commands.map { $0.spec }
        return CommandTable(
            summary: self.summary, groups: self.groups.filter { group in specs.contains { $0.path.starts(with: group.path) } },
            commands: specs)
    }

    /// Not `async`: that would run on a thread of the tasks, and signals have to be caught on the first thread of all.
    static func main() {
        Output.holdStandardDescriptors()
        Output.ignoreBrokenPipes()
        let signals = Signals.catching()
        // Detached, since this thread only waits. It ends the process, so nobody has to wait for it.
        Task.detached { exit(await self.run(Array(CommandLine.arguments.dropFirst()), signals).rawValue) }
        while true { pause() }
    }

    private static func run(_ words: [String], _ signals: Signals) async -> ToolStatus {
        let plain = Console(.words(coloured: false))
        do throws(UsageError) {
            switch try self.table.parse(words) {
            case .help(let path):
                plain.print(Help(table: self.table).text(for: path))
                return CommandRun.status(plain, nil)
            case .version:
                plain.print("realtime \(self.version)\n")
                return CommandRun.status(plain, nil)
            case .run(let arguments):
                guard let type = self.commands.first(where: { $0.spec.path == arguments.path }) else {
                    preconditionFailure("the table is made from the commands")
                }
                let command = try type.init(arguments)
                let format = Console.format(
                    json: arguments.has(OptionSpec.json.name), isTerminal: Output.standard.isTerminal, environment: Console.environment)
                return await CommandRun(command: command, console: Console(format), signals: signals)()
            }
        } catch {
            plain.complain(error.sentence)
            return .wrongUsage
        }
    }
}
