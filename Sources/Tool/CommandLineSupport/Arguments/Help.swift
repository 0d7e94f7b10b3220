/// The help text of the tool, of a group or of a command.
struct Help {
    let table: CommandTable
    /// The number of columns that text is wrapped at.
    var width = 80

    /// Returns the help of the command or group with a path, or of the tool if the path is empty.
    func text(for path: [String]) -> String {
        if let command = self.table.commands.first(where: { $0.path == path }) { return self.text(command) }
        let summary = self.table.groups.first { $0.path == path }?.summary ?? self.table.summary
        let name = self.fullName(path)
        let help = path.isEmpty ? [("help", "Show the help of a command.")] : []
        let version = path.isEmpty ? [("--version", "Show the version.")] : []
        let status = path.isEmpty ? ["Exit status: 0 for success, 1 for a failure, 2 for invalid arguments."] : []
        let blocks = [
            summary + ".",
            "Usage: \(name) COMMAND [options]",
            self.section("Commands", self.table.entries(under: path).map { ($0.name, $0.summary + ".") } + help),
            self.section("Options", version + [(OptionSpec.help.usage, OptionSpec.help.help)]),
            "See '\(self.fullName(["help"] + path)) COMMAND' for detailed help.",
        ]
        return (blocks + status).joined(separator: "\n\n") + "\n"
    }

    private func text(_ command: CommandSpec) -> String {
        var blocks = [self.wrapped(command.description, indent: 0).joined(separator: "\n")]
        blocks.append(self.wrapped("Usage: " + self.usage(command), indent: 0, hanging: 8).joined(separator: "\n"))
        if !command.positionals.isEmpty { blocks.append(self.section("Arguments", command.positionals.map { ($0.name, $0.help) })) }
        blocks.append(self.section("Options", command.allOptions.map { ($0.usage, $0.help) }))
        if !command.examples.isEmpty {
            let title = command.examples.count == 1 ? "Example" : "Examples"
            blocks.append("\(title):\n" + command.examples.map { "  \(toolName) \($0)" }.joined(separator: "\n"))
        }
        return blocks.joined(separator: "\n\n") + "\n"
    }

    /// Returns the command with its required arguments.
    func usage(_ command: CommandSpec) -> String {
        var parts = [self.fullName(command.path)]
        for positional in command.positionals {
            switch positional.presence {
            case .required: parts.append(positional.name)
            case .requiredWithout(let option):
                parts.append("(\(positional.name) | \(command.options.first { $0.name == option }?.usage ?? ""))")
            case .optional: parts.append("[\(positional.name)]")
            case .repeated(let minimum): parts.append(minimum > 0 ? "\(positional.name)..." : "[\(positional.name)...]")
            }
        }
        for option in command.options {
            switch option.presence {
            case .optional: continue
            case .required: parts.append(option.usage)
            case .requiredWithout(let other):
                parts.append("(\(option.usage) | \(command.options.first { $0.name == other }?.usage ?? ""))")
            }
        }
        return parts.joined(separator: " ") + " [options]"
    }

    private func fullName(_ path: [String]) -> String { ([toolName] + path).joined(separator: " ") }

    private func section(_ title: String, _ rows: [(String, String)]) -> String {
        let column = min(24, (rows.map { $0.0.count }.max() ?? 0) + 4)
        var lines = ["\(title):"]
        for (name, help) in rows {
            let label = "  " + name
            let text = self.wrapped(help, indent: column)
            if label.count + 2 > column {
                lines.append(label)
                lines += text
            } else {
                lines.append(label + text[0].dropFirst(label.count))
                lines += text.dropFirst()
            }
        }
        return lines.joined(separator: "\n")
    }

    private func wrapped(_ text: String, indent: Int, hanging: Int = 0) -> [String] {
        var lines: [String] = []
        var line = String(repeating: " ", count: indent)
        var isEmpty = true
        for word in text.split(separator: " ") {
            if !isEmpty, line.count + 1 + word.count > self.width {
                lines.append(line)
                line = String(repeating: " ", count: indent + hanging)
                isEmpty = true
            }
            line += (isEmpty ? "" : " ") + word
            isEmpty = false
        }
        return lines + [line]
    }
}
