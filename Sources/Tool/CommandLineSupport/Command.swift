/// What the tool can do: how it is called, and what happens then.
package protocol Command: Sendable {
    /// Its arguments and its help.
    static var spec: CommandSpec { get }

    /// Takes over what the parser understood. It throws when a rule between arguments is broken.
    init(_ arguments: Arguments) throws(UsageError)

    /// Does it. Cancelled by Control-C, by SIGTERM and when nobody reads the output: it then tidies up and returns.
    func run(_ console: Console) async throws(ToolFailure)
}

extension OptionSpec {
    /// Every command that prints lines has it.
    package static let json = OptionSpec.flag("json", "Print one JSON object a line, as when the output is no terminal.")
}
