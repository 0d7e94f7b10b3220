/// A shell that can complete command lines.
package enum CompletionShell: String, Sendable, CaseIterable {
    case bash, zsh, fish
}

/// The scripts with which shells complete the command lines of the tool, made from the declarations of its commands.
struct CompletionScript {
    let table: CommandTable

    func text(for shell: CompletionShell) -> String {
        let comment = "# Completion for \(toolName), printed by '\(toolName) completion \(shell.rawValue)'.\n"
        return switch shell {
        case .bash: comment + self.bash
        // zsh reads the first line of a file.
        case .zsh: "#compdef \(toolName)\n" + comment + self.zsh
        case .fish: comment + self.fish
        }
    }

    /// The groups and the commands that lists of commands contain.
    var entries: [Entry] {
        let groups = self.table.groups.map { group in
            Entry(path: group.path, options: [.help], positionals: [], commands: self.table.entries(under: group.path))
        }
        let commands = self.table.commands.filter { !$0.isHidden }.map { command in
            Entry(path: command.path, options: command.allOptions, positionals: command.positionals, commands: [])
        }
        let version = OptionSpec.flag("version", "Show the version.")
        let help = (name: "help", summary: "Show the help of a command")
        let tool = Entry(path: [], options: [version, .help], positionals: [], commands: self.table.entries(under: []) + [help])
        return [tool] + groups + commands
    }

    /// The tool and the groups, which a word of a command follows.
    var groups: [Entry] { self.entries.filter { !$0.commands.isEmpty } }

    /// The words that can follow those of a command or a group.
    struct Entry {
        let path: [String]
        let options: [OptionSpec]
        let positionals: [PositionalSpec]
        /// The next word of the path.
        let commands: [(name: String, summary: String)]

        /// The words of the path, separated by spaces.
        var name: String { self.path.joined(separator: " ") }
        /// The values of positionals that are known.
        var values: [String] {
            self.positionals.flatMap { positional in
                if case .values(let values) = positional.completion { values } else { [] as [String] }
            }
        }
    }
}

extension String {
    /// Returns the text with each of these characters after a backslash.
    func escaping(_ characters: String) -> String { self.reduce(into: "") { $0 += characters.contains($1) ? "\\\($1)" : String($1) } }
}
