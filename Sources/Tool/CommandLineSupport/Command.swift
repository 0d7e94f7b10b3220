/// A command of the tool: its declaration, its parsed arguments and its behavior.
package protocol Command: Sendable {
    /// The declaration that arguments are parsed with and help is generated from.
    static var spec: CommandSpec { get }

    /// Creates the command from parsed arguments.
    ///
    /// - Throws: `UsageError` when arguments that are valid on their own contradict each other.
    init(_ arguments: Arguments) throws(UsageError)

    /// Runs the command.
    ///
    /// The task is cancelled by Control-C, by SIGTERM, by SIGHUP and when standard output can no longer be written. The command then
    /// releases what it holds and returns.
    ///
    /// - Throws: `ToolFailure` when the command fails. The process then exits with status 1.
    func run(_ console: Console) async throws(ToolFailure)
}

extension OptionSpec {
    /// The `--json` option of every command that prints lines.
    package static let json = OptionSpec.flag("json", "Print one JSON object per line. This is the default unless output is a terminal.")

    /// The `--timestamps` option of every command that prints events.
    package static let timestamps = OptionSpec.flag(
        "timestamps", "Begin each line with the time in UTC. In JSON, it is the field time, such as 2026-01-31T12:00:00.000Z.")

    /// The `--verbose` option of commands that can print what is sent and received.
    ///
    /// - Parameter help: What the command prints with it, in sentences.
    package static func verbose(_ help: String) -> OptionSpec { .flag("verbose", help) }
}
