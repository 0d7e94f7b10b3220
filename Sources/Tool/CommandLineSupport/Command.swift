package import RealtimeCore

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
    /// The task is cancelled by Control-C, by SIGTERM and when standard output can no longer be written. The command then
    /// releases what it holds and returns.
    ///
    /// - Throws: `ToolFailure` when the command fails. The process then exits with status 1.
    func run(_ console: Console) async throws(ToolFailure)
}

extension OptionSpec {
    /// The `--json` option of every command that prints lines.
    package static let json = OptionSpec.flag("json", "Print one JSON object per line. This is the default unless output is a terminal.")

    /// The `--verbose` option of commands that can print what is sent and received.
    ///
    /// - Parameter help: What the command prints with it, in sentences.
    package static func verbose(_ help: String) -> OptionSpec { .flag("verbose", help) }
}

/// A failure that ends a command.
package struct ToolFailure: Error, Equatable {
    /// What failed, with the values involved, and what to do about it.
    package let message: String
    /// The protocol's error code, if any.
    package let code: Int?

    /// Creates a failure with a message.
    package init(_ message: String, code: Int? = nil) {
        self.message = message
        self.code = code
    }

    /// Creates a failure with the message of a transport error.
    package init(_ error: TransportError) {
        self.init(error.message)
    }
}

/// The exit status of the process.
enum ToolExitStatus: Int32, Sendable {
    case success = 0
    case failure = 1
    case usageError = 2
}
