import CommandLineSupport

/// `realtime completion`
struct CompletionCommand: Command {
    static let spec = CommandSpec(
        path: ["completion"],
        summary: "Print a script that completes command lines in a shell",
        description: """
            Prints a script with which a shell completes the commands, the options, the values that an option knows, and the names of \
            files. For bash, add the line source <(realtime completion bash) to ~/.bashrc; for zsh, write the script to a file _realtime in \
            a folder of fpath; for fish, write it to ~/.config/fish/completions/realtime.fish.
            """,
        positionals: [
            PositionalSpec("SHELL", "The shell: bash, zsh or fish.", completion: .values(CompletionShell.allCases.map(\.rawValue)))
        ],
        examples: ["completion bash", "completion zsh", "completion fish"])

    let shell: CompletionShell

    init(_ arguments: Arguments) throws(UsageError) {
        let name = arguments.required(positional: "SHELL")
        guard let shell = CompletionShell(rawValue: name) else {
            throw arguments.usageError("Unknown shell '\(name)': expected bash, zsh or fish")
        }
        self.shell = shell
    }

    func run(_ console: Console) async throws(ToolFailure) { console.write(Realtime.tool.completionScript(for: self.shell)) }
}
