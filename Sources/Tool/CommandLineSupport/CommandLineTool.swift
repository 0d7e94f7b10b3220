import RealtimeSystem

/// The name of the executable, as help and messages show it.
let toolName = "realtime"

/// A command-line tool: its commands, and the entry point that runs one of them.
package struct CommandLineTool: Sendable {
    let version: String
    let commands: [any Command.Type]
    let table: CommandTable
    private let clock: Console.Clock

    /// Creates a tool.
    ///
    /// - Parameters:
    ///   - version: The text that `--version` prints.
    ///   - summary: One line without a period, shown by `--help`.
    ///   - groups: The groups that commands with more than one word in their path belong to.
    ///   - commands: All commands, in the order in which help lists them.
    ///   - clock: The clock of `--timestamps`.
    package init(
        version: String, summary: String, groups: [GroupSpec], commands: [any Command.Type],
        clock: @escaping Console.Clock = { WallClock.millisecondsSince1970 }
    ) {
        self.version = version
        self.commands = commands
        self.clock = clock
        self.table = CommandTable(summary: summary, groups: groups, commands: commands.map { $0.spec })
    }

    /// Runs the command that the process's arguments name, then exits.
    ///
    /// Call it on the main thread before any other thread exists: it blocks signals, and new threads inherit what is blocked.
    /// That is why it is not `async`.
    package func main() -> Never {
        Output.reserveStandardDescriptors()
        guard Output.canOpenDescriptors else {
            Console(.text(isColored: false)).printError("Cannot start: Too many open files. Increase the limit of open files (ulimit -n).")
            exit(ToolExitStatus.failure.rawValue)
        }
        Output.ignoreBrokenPipes()
        let signals = Signals.catchTermination()
        // Detached because the main thread only waits; the task ends the process.
        Task.detached { exit(await self.run(Array(CommandLine.arguments.dropFirst()), signals).rawValue) }
        while true { pause() }
    }

    private func run(_ arguments: [String], _ signals: Signals) async -> ToolExitStatus {
        let console = Console(.text(isColored: false))
        do throws(UsageError) {
            switch try self.table.parse(arguments) {
            case .help(let path):
                console.write(Help(table: self.table).text(for: path))
                return CommandRun.status(console, nil)
            case .version:
                console.write("\(toolName) \(self.version)\n")
                return CommandRun.status(console, nil)
            case .run(let arguments):
                let command = try self.command(arguments)
                return await CommandRun(command: command, console: self.console(arguments), signals: signals)()
            }
        } catch {
            console.printError(error.fullMessage)
            return .usageError
        }
    }

    /// Returns the script with which a shell completes the command lines of the tool.
    package func completionScript(for shell: CompletionShell) -> String { CompletionScript(table: self.table).text(for: shell) }

    /// Returns the manual page of the tool, for `man`.
    package func manual() -> String { Manual(table: self.table, version: self.version).text }

    /// Returns the console of a command.
    func console(
        _ arguments: Arguments, output: Output = .standard, environment: (String) -> String? = Console.environment
    ) -> Console {
        let format = Console.format(
            json: arguments.has(OptionSpec.json.name), isTerminal: output.isTerminal, environment: environment)
        return Console(format, output: output, clock: arguments.has(OptionSpec.timestamps.name) ? self.clock : nil)
    }

    /// Creates the command that arguments belong to, which has no side effects.
    ///
    /// - Throws: `UsageError` when arguments that are valid on their own contradict each other.
    func command(_ arguments: Arguments) throws(UsageError) -> any Command {
        guard let type = self.commands.first(where: { $0.spec.path == arguments.path }) else {
            preconditionFailure("the table is made from the commands")
        }
        return try type.init(arguments)
    }
}
